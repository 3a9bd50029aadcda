//! Everything that one case is run with.

use std::fmt;
use std::net::IpAddr;
use std::time::Duration;

use hub::profile::ProfileConfig;
use partition_log::disk::SyncPolicy;
use serde::{Deserialize, Serialize};
use units::ByteSize;

use super::{
    Entities, Load, LoadMode, PurposefulFailures, Relay, Roles, SystemTransport, SystemUnderTest, Target,
    Topology,
};
use crate::record::LatencyRecording;
use crate::results::Role;

/// The fully resolved parameters of one case. As JSON it has the shape of the scenario file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Parameters {
    /// The service that is measured.
    pub target: Target,
    /// The embedded service, where that is the target.
    pub embedded: Embedded,
    /// What events pass through: the section `hubs`, `queues` or `topology`.
    #[serde(flatten)]
    pub entities: Entities,
    /// What is sent to the source.
    pub load: Load,
    /// What is done in between.
    pub relay: Relay,
    /// Who does it.
    #[serde(default, skip_serializing_if = "SystemUnderTest::is_default")]
    pub sut: SystemUnderTest,
    /// Who receives from the destination and checks every event.
    pub sink: Sink,
    /// Where each role runs.
    #[serde(default, skip_serializing_if = "super::end::is_usual")]
    pub roles: Roles,
    /// What each role may use of the machine.
    pub limits: Limits,
    /// How long each part of a trial takes.
    pub phases: Phases,
    /// How often the case is repeated.
    pub trials: u32,
    /// Whether latencies are recorded. No key of a scenario: nobody needs to know what they are not told, except the
    /// benchmark of the recorder.
    #[serde(skip)]
    pub latency_recording: LatencyRecording,
}

/// A text that must not be shown. It prints as `***`; as JSON, which is how the lab hands it to its own processes,
/// it is the text.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Secret(String);

/// The section `embedded`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Embedded {
    /// Memory for the log of each hub, shared evenly by the hub's partitions; or what a queue may hold. What the scenario
    /// needs, if it is not given: [`Parameters::log_per_hub`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub log_per_hub: Option<ByteSize>,
    /// What happens to a partition whose share is used up.
    pub when_full: WhenFull,
    /// Whether the memory is taken and touched before the trial begins, for an even speed from the first event on. It
    /// costs seconds per GiB where memory is slow to come by. A little is taken in any case:
    /// [`Parameters::preallocates`].
    pub preallocate: bool,
    /// Whether events are kept on a disk as well: in a directory of each trial's own beneath the results, which goes when
    /// the trial ends.
    pub durable: bool,
    /// When durable events are made safe against a power cut: `always`, `os` or `{interval: 50 ms}`.
    pub sync: SyncPolicy,
    /// The address that it listens on, at any free port, for roles on other machines. Without one it listens on the
    /// loopback interface.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub listen: Option<IpAddr>,
    /// The host by which roles reach it: [`listen`](Self::listen), if it is not given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub advertise: Option<String>,
    /// How the service is shaped like the real one.
    #[serde(skip_serializing_if = "ProfileConfig::is_off")]
    pub profile: ProfileConfig,
}

/// What happens when the log of a partition is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WhenFull {
    /// Senders are told that the server is busy.
    Throttle,
    /// The oldest events go.
    Retention,
}

/// The section `sink`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Sink {
    /// Receivers that work side by side, each on a connection of its own; they share the partitions among them.
    pub workers: u32,
    /// Events per partition, or messages of the queue, that the service may have on the way before they are asked for.
    pub prefetch: u32,
}

/// The section `limits`: a role that is not named may use the whole machine.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Limits {
    /// The embedded service.
    pub hub: RoleLimits,
    /// The load generator.
    pub load: RoleLimits,
    /// All relay instances together, or the command in their place with all of its processes.
    pub relay: RoleLimits,
    /// The sink.
    pub sink: RoleLimits,
}

impl Limits {
    /// What a role may use.
    #[must_use]
    pub const fn of(&self, role: Role) -> &RoleLimits {
        match role {
            Role::Service => &self.hub,
            Role::Load => &self.load,
            Role::Relay => &self.relay,
            Role::Sink => &self.sink,
        }
    }
}

/// What one role may use. Without a figure it is not limited.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RoleLimits {
    /// Cores, in fractions too where the system can limit by time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cores: Option<f64>,
    /// Resident memory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory: Option<ByteSize>,
}

/// The section `phases`: the parts of a trial, in their order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Phases {
    /// Full load whose figures do not count.
    #[serde(with = "units::duration")]
    pub warm_up: Duration,
    /// Full load whose figures count.
    #[serde(with = "units::duration")]
    pub measure: Duration,
    /// No more load: the longest that answers to the last sends and the events under way may take.
    #[serde(with = "units::duration")]
    pub drain: Duration,
}

impl Parameters {
    /// The graph of entities and roles, whatever form the scenario gives it.
    #[must_use]
    pub fn topology(&self) -> Topology {
        Topology::of(&self.entities, self.sut.transport == SystemTransport::Tls)
    }

    /// What each hub of the embedded service may hold: [`Embedded::log_per_hub`], or else what the load needs.
    ///
    /// A saturating load is at most [`Self::lag_limit`] ahead of the relay. All of that may be in one partition: the relay lets a
    /// partition rest after a failed batch, for more than a second, and then often meets the next failure before it has caught
    /// up. So each partition has room for it. Of any other load it is not known how far it gets ahead.
    #[must_use]
    pub fn log_per_hub(&self) -> ByteSize {
        self.embedded.log_per_hub.or_else(|| self.log_for_lag()).unwrap_or(LARGEST_DEFAULT_LOG)
    }

    /// How large a log has to be for what a saturating load between hubs puts into it.
    fn log_for_lag(&self) -> Option<ByteSize> {
        let (Entities::Hubs(hubs), Some(payload), LoadMode::Saturate) =
            (&self.entities, self.load.payload.size(), self.load.mode)
        else {
            return None;
        };
        let partitions = u64::from(hubs.destination.partitions.max(hubs.source.partitions));
        let lag = self.load.max_lag.min(largest_lag(payload));
        let per_partition = payload.bytes().saturating_add(STORED_OVERHEAD).saturating_mul(lag);
        // Retention removes an eighth of a log at a time.
        let needed = (per_partition + per_partition / 8).saturating_mul(partitions);
        let least = SMALLEST_DEFAULT_LOG.bytes().max(SMALLEST_LOG.bytes() * partitions);
        Some(ByteSize::from_bytes(needed.clamp(least, LARGEST_DEFAULT_LOG.bytes().max(least))))
    }

    /// Whether the memory of the logs is taken before a trial: if that is wished, or if a saturating load is going to use
    /// all of it anyway, and it was chosen for that load or is little enough to cost no time. Taking 1 GiB for each of two hubs
    /// takes two to three seconds where memory comes at 0.8 GB/s.
    #[must_use]
    pub fn preallocates(&self) -> bool {
        let is_used = self.load.mode == LoadMode::Saturate && self.limits.hub.memory.is_none();
        let is_affordable = match self.embedded.log_per_hub {
            Some(given) => given <= LARGEST_GIVEN_LOG_TAKEN_BEFORE,
            None => self.log_for_lag().is_some_and(|log| log <= LARGEST_DEFAULT_LOG),
        };
        self.embedded.preallocate || (is_used && is_affordable)
    }

    /// Whether sends that the scenario wants to fail succeed all the same, since a search for a rate does not want them
    /// to.
    pub(super) fn leaves_failures_out(&self) -> bool {
        self.load.mode == LoadMode::Capacity
            && self.load.capacity.failures == PurposefulFailures::None
            && self.relay.failure_ratio > 0.0
    }

    /// How many events a saturating load may be ahead of the relay: [`Load::max_lag`], but with the embedded service 128 MiB at
    /// most, and no more than a third of its log, so that a larger payload does not push unread events out of it. (The relay may be
    /// as far ahead of the sink again, and no route spreads quite evenly.)
    #[must_use]
    pub fn lag_limit(&self) -> u64 {
        match (&self.target, self.load.payload.size()) {
            (Target::Embedded, Some(payload)) => {
                let event = payload.bytes().saturating_add(RECORD_OVERHEAD);
                let of_log = self.log_per_hub().bytes() / LOG_PER_LAG / event;
                self.load.max_lag.min(largest_lag(payload)).min(of_log).max(1)
            }
            _ => self.load.max_lag,
        }
    }
}

impl Secret {
    /// Wraps a text that must not be shown.
    #[must_use]
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The text itself, for those who need it and do not print it.
    #[must_use]
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("***")
    }
}

impl fmt::Display for Secret {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("***")
    }
}

impl Default for Embedded {
    fn default() -> Self {
        Self {
            log_per_hub: None,
            when_full: WhenFull::Retention,
            preallocate: false,
            durable: false,
            sync: SyncPolicy::default(),
            listen: None,
            advertise: None,
            profile: ProfileConfig::default(),
        }
    }
}

impl Default for Sink {
    fn default() -> Self {
        Self { workers: 1, prefetch: 4096 }
    }
}

impl Default for Phases {
    fn default() -> Self {
        Self {
            warm_up: Duration::from_secs(5),
            measure: Duration::from_secs(60),
            drain: Duration::from_secs(60),
        }
    }
}

/// A generous estimate of what an event takes in the log besides its payload, in bytes.
const RECORD_OVERHEAD: u64 = 64;

/// What an event of the load takes besides its payload: descriptor and length of the body, the record's head, and a share in the
/// head of its batch.
const STORED_OVERHEAD: u64 = 16;

/// How much larger a log is than what may wait in it.
const LOG_PER_LAG: u64 = 3;

/// Less of a partition's log would not hold two batches of the largest events.
pub(super) const SMALLEST_LOG: ByteSize = ByteSize::from_mebibytes(2);

/// Bounds of a log whose size is not given.
const SMALLEST_DEFAULT_LOG: ByteSize = ByteSize::from_mebibytes(64);
const LARGEST_DEFAULT_LOG: ByteSize = ByteSize::from_mebibytes(1024);

/// What a saturating load puts in front of the relay at most: 16,000 events of 8 KiB, a quarter of a second of work or more.
fn largest_lag(payload: ByteSize) -> u64 {
    ByteSize::from_mebibytes(128).bytes() / payload.bytes().saturating_add(RECORD_OVERHEAD)
}

/// The largest log of a size that was given whose memory is taken without being asked for.
const LARGEST_GIVEN_LOG_TAKEN_BEFORE: ByteSize = ByteSize::from_mebibytes(384);
