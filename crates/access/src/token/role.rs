//! The roles of Azure for data, and what each allows.

use std::fmt;
use std::str::FromStr;

use crate::storage::{StorageLevel, StorageRight, StorageRights};
use crate::{Right, Rights};

/// A built-in role for data. Those of Event Hubs and of Service Bus are the same here: a namespace has hubs, queues and
/// topics side by side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Sends, receives and changes entities.
    DataOwner,
    /// Sends.
    DataSender,
    /// Receives.
    DataReceiver,
    /// Does everything with blobs.
    BlobDataOwner,
    /// Reads, writes and deletes blobs and containers.
    BlobDataContributor,
    /// Reads and lists blobs and containers.
    BlobDataReader,
}

/// A text that names no role.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{name:?} is not a role; there are `Azure Event Hubs Data Owner`, `… Sender` and `… Receiver`, the same of \
     `Azure Service Bus`, and `Storage Blob Data Owner`, `… Contributor` and `… Reader`"
)]
pub struct UnknownRole {
    name: String,
}

impl Role {
    /// What it allows with hubs, queues and topics.
    #[must_use]
    pub fn rights(self) -> Rights {
        match self {
            Self::DataOwner => Rights::ALL,
            Self::DataSender => Rights::NONE.with(Right::Send),
            Self::DataReceiver => Rights::NONE.with(Right::Listen),
            Self::BlobDataOwner | Self::BlobDataContributor | Self::BlobDataReader => Rights::NONE,
        }
    }

    /// What it allows with containers and blobs.
    #[must_use]
    pub fn storage_rights(self) -> StorageRights {
        match self {
            Self::BlobDataOwner | Self::BlobDataContributor => StorageRights::ALL,
            Self::BlobDataReader => {
                let levels = [StorageLevel::Service, StorageLevel::Container, StorageLevel::Object];
                levels.into_iter().fold(StorageRights::NONE, |rights, level| {
                    rights.with(level, StorageRight::Read).with(level, StorageRight::List)
                })
            }
            Self::DataOwner | Self::DataSender | Self::DataReceiver => StorageRights::NONE,
        }
    }

    /// Whether it is about blobs.
    #[must_use]
    pub const fn is_of_storage(self) -> bool {
        matches!(self, Self::BlobDataOwner | Self::BlobDataContributor | Self::BlobDataReader)
    }
}

impl FromStr for Role {
    type Err = UnknownRole;

    /// Reads the name of a built-in role of Azure. Letter case, spaces and punctuation make no difference, since the roles
    /// of applications in tokens can't have spaces: `EventHubs.Data.Sender`.
    fn from_str(name: &str) -> Result<Self, UnknownRole> {
        let letters: String = name
            .chars()
            .filter(char::is_ascii_alphanumeric)
            .map(|letter| letter.to_ascii_lowercase())
            .take(LONGEST_NAME)
            .collect();
        let short = letters.strip_prefix("azure").unwrap_or(&letters);
        let role = match short {
            "eventhubsdataowner" | "servicebusdataowner" => Self::DataOwner,
            "eventhubsdatasender" | "servicebusdatasender" => Self::DataSender,
            "eventhubsdatareceiver" | "servicebusdatareceiver" => Self::DataReceiver,
            "storageblobdataowner" => Self::BlobDataOwner,
            "storageblobdatacontributor" => Self::BlobDataContributor,
            "storageblobdatareader" => Self::BlobDataReader,
            _ => return Err(UnknownRole { name: name.chars().take(LONGEST_NAME).collect() }),
        };
        Ok(role)
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::DataOwner => "Azure Event Hubs Data Owner",
            Self::DataSender => "Azure Event Hubs Data Sender",
            Self::DataReceiver => "Azure Event Hubs Data Receiver",
            Self::BlobDataOwner => "Storage Blob Data Owner",
            Self::BlobDataContributor => "Storage Blob Data Contributor",
            Self::BlobDataReader => "Storage Blob Data Reader",
        })
    }
}

/// Longer than the name of any role.
const LONGEST_NAME: usize = 64;
