//! Why a configuration can't become a namespace.

use std::time::Duration;

use blob_store::BlobConfigError;
use units::ByteSize;

use super::storage::{DataDirectoryError, DeclarationError};
use super::{HubError, MAXIMUM_PARTITIONS, QueueConfigError};
use crate::identity::TokenIssuerError;
use crate::profile::ProfileError;

/// Why a configuration can't become a namespace.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NamespaceError {
    /// The host is empty or has a character that no host has.
    #[error("host: {host:?} is not a valid host name")]
    Host {
        /// What was given.
        host: String,
    },
    /// Tokens are to be verified, and there is no key to verify them with.
    #[error(
        "authorization_rules: the list is empty, so no client could connect; add one, or set signatures to accept-any"
    )]
    NoRule,
    /// A key without name or value.
    #[error("authorization_rules[{index}]: {field} is empty")]
    EmptyRule {
        /// Its place in the list.
        index: usize,
        /// `name`, `key` or `rights`.
        field: &'static str,
    },
    /// A hub can't be made.
    #[error("hubs[{index}]: {cause}")]
    Hub {
        /// Its place in the list.
        index: usize,
        /// What is wrong with it.
        cause: HubError,
    },
    /// No log can have the default limits.
    #[error("default_log: {cause}")]
    DefaultLog {
        /// What is wrong with them.
        cause: HubError,
    },
    /// No client could meet it, or it would never end a connection.
    #[error("idle_timeout: {} is not from 10 ms to 1 day", units::duration::text(*idle_timeout))]
    IdleTimeout {
        /// What was given.
        idle_timeout: Duration,
    },
    /// No topic can have so many partitions.
    #[error("topic_partitions: {topic_partitions} is not from 1 to {MAXIMUM_PARTITIONS}")]
    TopicPartitions {
        /// What was given.
        topic_partitions: u16,
    },
    /// Two hubs have one name; letter case makes no difference.
    #[error("hubs[{index}]: there is another hub with the name {name:?}")]
    RepeatedHub {
        /// The place of the second one.
        index: usize,
        /// Its name.
        name: String,
    },
    /// A hub in the data directory is none that this program would create.
    #[error("a hub in the data directory can't be served: {cause}")]
    KeptHub {
        /// What is wrong with it.
        cause: HubError,
    },
    /// The data directory can't be used, or holds something else than what is declared.
    #[error("{cause}")]
    DataDirectory {
        /// The place of the declared hub that it is about, if it is about one.
        index: Option<usize>,
        /// What is wrong with it.
        cause: DataDirectoryError,
    },
    /// The service profile contradicts itself.
    #[error(transparent)]
    Profile(#[from] ProfileError),
    /// A queue or a topic makes no sense.
    #[error(transparent)]
    Queue(#[from] QueueConfigError),
    /// A queue or topic in the data directory can't be served beside what is declared.
    #[error("{name}, which is in the data directory, can't be served: {reason}")]
    KeptQueue {
        /// Its name.
        name: String,
        /// What is wrong with it.
        reason: String,
    },
    /// Clients would take it for no limit, or for no room at all.
    #[error("largest_message: {largest_message} is not from 64 KiB to 100 MiB")]
    LargestMessage {
        /// What was given.
        largest_message: ByteSize,
    },
    /// An issuer of tokens can't be accepted.
    #[error(transparent)]
    TokenIssuer(#[from] TokenIssuerError),
    /// The storage account makes no sense.
    #[error(transparent)]
    Blob(#[from] BlobConfigError),
}

impl From<(Option<usize>, DeclarationError)> for NamespaceError {
    fn from((index, error): (Option<usize>, DeclarationError)) -> Self {
        match (index, error) {
            (Some(index), DeclarationError::Hub(cause)) => Self::Hub { index, cause },
            (None, DeclarationError::Hub(cause)) => Self::KeptHub { cause },
            (index, DeclarationError::DataDirectory(cause)) => Self::DataDirectory { index, cause },
        }
    }
}
