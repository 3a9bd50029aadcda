//! Where the blobs are, and how their names are spelled.

use std::path::PathBuf;
use std::time::Duration;

use access::storage::StorageConnectionString;

use crate::identity::Identity;

/// The choices of a store of blobs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlobStoreOptions {
    /// The storage account.
    pub connection_string: StorageConnectionString,
    /// Whose tokens are used where the connection string has neither key nor signature.
    pub identity: Identity,
    /// The container.
    pub container: String,
    /// What to do when the container is not there.
    pub missing_container: MissingContainer,
    /// How the names of blobs are spelled.
    pub spelling: Spelling,
    /// A file of certificates (PEM) to trust instead of those of the system.
    pub certificate_authority: Option<PathBuf>,
    /// How long one request may take, connecting included. Short against the expiry of ownership, which two requests in a
    /// row must not use up.
    pub request_timeout: Duration,
}

/// What to do when the container is not there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MissingContainer {
    /// Say so.
    #[default]
    Refuse,
    /// Make it.
    Create,
}

/// How namespace, hub and consumer group are spelled in the names of blobs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Spelling {
    /// As in the container when the group is used first; in lower case where nothing is stored yet.
    #[default]
    Found,
    /// As given: like the SDKs for Go and Rust.
    AsGiven,
    /// In lower case: like the SDKs for Python, JavaScript, .NET and Java.
    LowerCase,
}

impl BlobStoreOptions {
    /// The defaults for a container that exists.
    #[must_use]
    pub fn new(connection_string: StorageConnectionString, container: impl Into<String>) -> Self {
        Self {
            connection_string,
            identity: Identity::of_process(),
            container: container.into(),
            missing_container: MissingContainer::default(),
            spelling: Spelling::default(),
            certificate_authority: None,
            request_timeout: Duration::from_secs(10),
        }
    }
}
