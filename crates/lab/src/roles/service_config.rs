//! The configuration of the role of the embedded service.

use std::{collections::BTreeSet, net::IpAddr, path::PathBuf};

use hub::namespace::StorageConfig;
use hub::profile::ProfileConfig;
use serde::{Deserialize, Serialize};
use units::ByteSize;

use crate::{
    clock::RunClock,
    scenario::{Connection, Entity, WhenFull},
};

/// What the embedded service is to offer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ServiceConfig {
    /// The time of the run.
    pub clock: RunClock,
    /// What to create.
    pub entities: Vec<Entity>,
    /// What each of them may hold. The partitions of a hub share it evenly.
    pub size_of_each: ByteSize,
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
    /// How roles connect. AMQP over plain TCP is served in any case.
    #[serde(default)]
    pub connections: BTreeSet<Connection>,
    /// Where the certificate for TLS is made.
    pub certificates: PathBuf,
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
