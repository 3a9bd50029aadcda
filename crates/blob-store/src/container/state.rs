//! What is known of a container itself: version, metadata, lease.

use super::{Charge, Conditions, Shared, Version};
use crate::disk::KeptContainer;
use crate::error::BlobError;
use crate::lease::{self, Lease, Leased};
use crate::now::Now;
use crate::properties::{Metadata, unix_s};
use crate::public_access::ContainerAccess;

/// A container as it is at one moment.
#[derive(Debug)]
pub struct ContainerProperties {
    version: Version,
    metadata: Metadata,
    lease: Option<Lease>,
    access: ContainerAccess,
    _charge: Charge,
}

/// What is to become of a container's properties.
#[derive(Clone, Debug)]
pub(crate) struct NewProperties {
    pub(crate) version: Version,
    pub(crate) metadata: Metadata,
    pub(crate) lease: Option<Lease>,
    pub(crate) access: ContainerAccess,
}

impl ContainerProperties {
    /// Which version this is. Metadata makes a new one, blobs and leases do not.
    #[must_use]
    pub const fn version(&self) -> Version {
        self.version
    }

    /// Its metadata.
    #[must_use]
    pub const fn metadata(&self) -> &Metadata {
        &self.metadata
    }

    /// The lease on it, which may have ended.
    #[must_use]
    pub const fn lease(&self) -> Option<&Lease> {
        self.lease.as_ref()
    }

    /// Access besides that of the owner.
    #[must_use]
    pub const fn access(&self) -> &ContainerAccess {
        &self.access
    }

    /// Whether it may be read.
    ///
    /// # Errors
    /// A condition does not hold, or the lease id is wrong.
    pub fn check_read(&self, conditions: &Conditions, now: Now) -> Result<(), BlobError> {
        lease::check_read(self.lease(), conditions.lease, Leased::Container, now.lease_time)?;
        conditions.check_read(self.version)
    }
}

impl NewProperties {
    /// What is written of it to the disk.
    pub(crate) fn kept(&self) -> KeptContainer {
        KeptContainer {
            etag: self.version.etag.0,
            modified_unix_s: unix_s(self.version.modified_at),
            metadata: self.metadata.clone(),
            lease: self.lease,
            access: self.access.clone(),
        }
    }

    /// The properties, with the memory that they take.
    pub(super) fn charged(self, shared: &Shared) -> Result<ContainerProperties, BlobError> {
        let entries = self.metadata.iter().map(|(name, value)| name.len() + value.len());
        let charge = shared.budget.charge(entries.sum::<usize>() as u64 + self.access.bytes())?;
        Ok(ContainerProperties {
            version: self.version,
            metadata: self.metadata,
            lease: self.lease,
            access: self.access,
            _charge: charge,
        })
    }
}
