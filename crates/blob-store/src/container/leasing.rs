//! Leases on blobs and on the container, and the metadata of the container, which is changed in the same way.

use std::sync::Arc;

use super::{Absent, Container, NewProperties, lock, read, write};
use crate::conditions::{Conditions, Version};
use crate::error::BlobError;
use crate::lease::{self, LeaseAction, LeaseOutcome, Leased};
use crate::now::Now;
use crate::properties::Metadata;
use crate::public_access::ContainerAccess;

impl Container {
    /// Does something with the lease of a blob. The blob stays the version that it is.
    ///
    /// # Errors
    /// There is no such blob, a condition does not hold, or the lease does not allow it.
    pub fn lease_blob(
        &self,
        name: &str,
        action: LeaseAction,
        conditions: &Conditions,
        now: Now,
    ) -> Result<(Version, LeaseOutcome), BlobError> {
        self.change(name, Absent::Refused, |change| {
            let current = change.existing()?;
            conditions.check_change(current.version)?;
            let (lease, outcome) = action.apply(current.lease.as_ref(), now.lease_time)?;
            let blob = change.publish_lease(lease, now)?;
            Ok((blob.version, outcome))
        })
    }

    /// Does something with the lease of the container.
    ///
    /// # Errors
    /// It is there no longer, a condition does not hold, or the lease does not allow it.
    pub fn lease(
        &self,
        action: LeaseAction,
        conditions: &Conditions,
        now: Now,
    ) -> Result<(Version, LeaseOutcome), BlobError> {
        self.change_properties(|properties| {
            conditions.check_change(properties.version)?;
            let (lease, outcome) = action.apply(properties.lease.as_ref(), now.lease_time)?;
            properties.lease = lease;
            Ok((properties.version, outcome))
        })
    }

    /// Puts other metadata in the place of all that the container has.
    ///
    /// # Errors
    /// It is there no longer, a condition does not hold, or there is no room.
    pub fn set_container_metadata(
        &self,
        metadata: Metadata,
        conditions: &Conditions,
        now: Now,
    ) -> Result<Version, BlobError> {
        self.change_version(conditions, now, |properties| properties.metadata = metadata)
    }

    /// Sets access to the container besides that of the owner, in the place of all that was set before.
    ///
    /// # Errors
    /// It is there no longer, a condition does not hold, or there is no room.
    pub fn set_access(
        &self,
        access: ContainerAccess,
        conditions: &Conditions,
        now: Now,
    ) -> Result<Version, BlobError> {
        self.change_version(conditions, now, |properties| properties.access = access)
    }

    /// Whether the container may be deleted.
    ///
    /// # Errors
    /// A lease or another condition prevents it.
    pub(crate) fn check_delete(&self, conditions: &Conditions, now: Now) -> Result<(), BlobError> {
        let properties = self.properties();
        lease::check_write(properties.lease(), conditions.lease, Leased::Container, now.lease_time)?;
        conditions.check_change(properties.version())
    }

    /// Makes a new version of the container.
    fn change_version(
        &self,
        conditions: &Conditions,
        now: Now,
        change: impl FnOnce(&mut NewProperties),
    ) -> Result<Version, BlobError> {
        self.change_properties(|properties| {
            // A lease locks the container against being deleted alone.
            let lease = properties.lease.as_ref();
            lease::check_read(lease, conditions.lease, Leased::Container, now.lease_time)?;
            conditions.check_change(properties.version)?;
            properties.lease = lease::after_write(lease, now.lease_time);
            change(properties);
            properties.version = self.shared.next_version(now);
            Ok(properties.version)
        })
    }

    fn change_properties<T>(
        &self,
        change: impl FnOnce(&mut NewProperties) -> Result<T, BlobError>,
    ) -> Result<T, BlobError> {
        let is_there = read(&self.is_there);
        if !*is_there {
            return Err(BlobError::ContainerNotFound);
        }
        let _changing = lock(&self.changing);
        let current = self.properties();
        let mut new = NewProperties {
            version: current.version(),
            metadata: current.metadata().clone(),
            lease: current.lease().copied(),
            access: current.access().clone(),
        };
        let result = change(&mut new)?;
        let kept = new.kept();
        let new = new.charged(&self.shared)?;
        if let Some(folder) = &self.folder {
            folder.write_container(&kept)?;
        }
        *write(&self.properties) = Arc::new(new);
        // The change is there, whatever this comes to.
        if let Some(folder) = &self.folder {
            folder.sync_names().map_err(BlobError::unknown)?;
        }
        Ok(result)
    }
}
