//! What the role of the embedded service is told.

use std::{net::IpAddr, path::PathBuf, time::Duration};

use hub::namespace::StorageConfig;
use hub::profile::ProfileConfig;
use serde::{Deserialize, Serialize};
use units::ByteSize;

use crate::{
    clock::RunClock,
    scenario::{self, WhenFull},
};

/// What the embedded service is to offer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ServiceConfig {
    /// The time of the run.
    pub clock: RunClock,
    /// The hubs to create.
    pub hubs: Vec<HubEntity>,
    /// The queues to create.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub queues: Vec<QueueEntity>,
    /// The largest message that queues take, which clients are told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub largest_message: Option<ByteSize>,
    /// What happens to a partition whose log is full.
    pub when_full: WhenFull,
    /// Whether the logs' memory is taken before the role is ready.
    pub preallocate: bool,
    /// Where events are kept besides, if anywhere: a directory that is not there yet or empty.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub storage: Option<StorageConfig>,
    /// How the service is shaped like the real one.
    #[serde(default)]
    pub profile: ProfileConfig,
    /// Where the certificate is made with which it listens for TLS as well; not at all, if `None`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls: Option<PathBuf>,
    /// Containers of the storage account to serve blobs from; no blobs are served, if `None`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blob_containers: Option<Vec<String>>,
    /// Where it listens; on the loopback interface, if `None`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<ServiceAddress>,
}

/// Where roles on other machines reach the embedded service.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ServiceAddress {
    /// The address that it listens on, at any free port.
    pub listen: IpAddr,
    /// The host by which clients reach it.
    pub advertise: String,
}

/// One hub of the embedded service.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HubEntity {
    /// Name, partitions, consumer group.
    pub hub: scenario::Hub,
    /// Memory for the log of each partition.
    pub log_per_partition: ByteSize,
}

/// One queue of the embedded service.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct QueueEntity {
    /// Its name.
    pub name: String,
    /// How much it may hold.
    pub size_limit: ByteSize,
    /// How long a message stays locked.
    #[serde(with = "units::duration")]
    pub lock_duration: Duration,
    /// How often a message is delivered before it goes to the dead-letter queue.
    pub maximum_delivery_count: u32,
}
