//! What the orchestrator and a role say to each other, one JSON value per line.
//!
//! ```text
//! orchestrator                      role
//!      │  RoleConfig  ───────────────▶│  connects
//!      │◀───────────────────  Ready   │
//!      │  Start       ───────────────▶│  works
//!      │◀──────────────  Progress …   │  several times a second
//!      │  Mark        ───────────────▶│  reads its counters and its clock at that moment
//!      │◀──────────────────  Marked   │
//!      │  Stop        ───────────────▶│  ends what is under way
//!      │◀────────────────  Finished   │  and exits
//! ```
//!
//! `Failed` may take the place of any report and is the last one. A role whose input ends has lost its
//! orchestrator: it stops at once.

use std::{collections::BTreeMap, path::PathBuf, time::Duration};

use serde::{Deserialize, Serialize};

pub use super::hub_config::{HubConfig, HubEntity, QueueEntity};

use crate::{
    clock::{RunClock, RunTime},
    load::{LoadCounts, LoadPlan, LoadRecordings},
    record::{EncodedDistribution, LatencyRecording, Recording},
    results::{HubCounters, RelayActivity, Role, Size, Stage},
    scenario::{self, Payload, Readiness, Secret},
    verify::{Counts, Delivery, Expectation, StreamSends},
};

/// The first line to a role: what it is to be.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase", deny_unknown_fields)]
pub enum RoleConfig {
    /// The embedded service.
    Hub(Box<HubConfig>),
    /// The generator.
    Load(LoadConfig),
    /// The pipeline.
    Relay(Box<RelayConfig>),
    /// A command in the pipeline's place.
    External(Box<ExternalConfig>),
    /// The receiver that verifies.
    Sink(SinkConfig),
}

/// Where a hub or a queue is and how to get in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Endpoint {
    /// The namespace's connection string.
    pub connection_string: Secret,
    /// A file of certificates to trust besides those of the system.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub certificate_authority: Option<PathBuf>,
    /// The hub or queue in it.
    pub entity: scenario::Entity,
}

/// Where a reader without a checkpoint begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ReadFrom {
    /// At the oldest event: the hubs are the run's own.
    Beginning,
    /// After what lay in the hub when the role became ready: others have used it before.
    Now,
}

/// What the generator is to send.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LoadConfig {
    /// The time of the run.
    pub clock: RunClock,
    /// The source.
    pub source: Endpoint,
    /// The run's number, for the payloads.
    pub run: u8,
    /// What is offered when.
    pub plan: LoadPlan,
    /// How many workers, each on a connection of its own, share the streams.
    pub workers: u16,
    /// What the events carry.
    pub payload: Payload,
    /// Whether latencies are recorded.
    pub latency_recording: LatencyRecording,
}

/// What the pipeline is to do.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RelayConfig {
    /// The time of the run.
    pub clock: RunClock,
    /// Where events come from.
    pub source: Endpoint,
    /// Where they go.
    pub destination: Endpoint,
    /// What happens in between.
    pub relay: scenario::Relay,
    /// Which of [`scenario::Relay::instances`] this process is, from 0.
    pub instance: u32,
    /// Where a partition without a checkpoint begins.
    pub read_from: ReadFrom,
    /// A folder for checkpoints that all instances share; empty when the trial begins.
    pub checkpoints: PathBuf,
    /// The storage account, where checkpoints are blobs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub storage: Option<Secret>,
    /// The seed of routes and injected failures.
    pub seed: u64,
}

/// Which command is to take the pipeline's place.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExternalConfig {
    /// The time of the run.
    pub clock: RunClock,
    /// What the system is called.
    pub name: String,
    /// Program and arguments.
    pub command: Vec<String>,
    /// What it is told, beside the environment of this process.
    pub environment: BTreeMap<String, Secret>,
    /// How it is known to be ready.
    pub ready: Readiness,
    /// How long that may take.
    #[serde(with = "units::duration")]
    pub ready_within: Duration,
    /// How long it may take to end when it is asked to.
    #[serde(with = "units::duration")]
    pub stop_within: Duration,
}

/// What the receiver is to watch.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SinkConfig {
    /// The time of the run.
    pub clock: RunClock,
    /// The destination.
    pub destination: Endpoint,
    /// The dead-letter queue of the source, where that is the lab's own: what is in it is not lost.
    #[serde(default)]
    pub dead_letters: Option<Endpoint>,
    /// What the run can contain.
    pub expectation: Expectation,
    /// How many workers, each on a connection of its own, share the partitions.
    pub workers: u16,
    /// Events per partition that may be on the way.
    pub prefetch: u32,
    /// Where it begins.
    pub read_from: ReadFrom,
    /// Where the header of an event is: in its payload, or beside it.
    pub payload: Payload,
    /// Whether latencies are recorded.
    pub latency_recording: LatencyRecording,
}

/// What the orchestrator asks of a role that is ready.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase", deny_unknown_fields)]
pub enum Command {
    /// Begin to work.
    Start,
    /// Load: offer no more than so many events in total.
    Allow {
        /// The bound, which only ever grows.
        events: u64,
    },
    /// Note the counters of this moment; recordings begin or end with it.
    Mark {
        /// Which edge of the measurement.
        edge: Edge,
    },
    /// Sink: this is all that was sent, so say how much of it is still missing.
    Expect {
        /// Per stream, in their order.
        streams: Vec<StreamSends>,
    },
    /// End what is under way, report, exit.
    Stop,
}

/// An edge of the measured phase.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Edge {
    /// From here on figures count.
    Begin,
    /// Up to here.
    End,
}

/// What a role says.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase", deny_unknown_fields)]
pub enum Report {
    /// Connected; waits for [`Command::Start`].
    Ready(Ready),
    /// The counters at some moment.
    Progress(Counted),
    /// The counters at the moment of a [`Command::Mark`].
    Marked {
        /// The edge that was asked for.
        edge: Edge,
        /// What was counted at it.
        counted: Counted,
    },
    /// The role has done everything and exits.
    Finished {
        /// The last counters.
        counted: Counted,
        /// What it found out.
        outcome: Box<Outcome>,
    },
    /// The role can't go on and exits.
    Failed {
        /// Why, with its causes.
        error: String,
    },
}

/// A role is ready.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ready {
    /// Hub: how to reach it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connection_string: Option<Secret>,
    /// Hub: how to reach its storage account, where it serves one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub storage_connection_string: Option<Secret>,
    /// Hub: how to reach it over TLS, if it was asked to listen for that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls: Option<TlsAccess>,
}

/// How to reach the embedded service over TLS.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TlsAccess {
    /// The namespace's connection string.
    pub connection_string: Secret,
    /// The file of the authority that is to be trusted.
    pub certificate_authority: PathBuf,
}

/// Counters with the moment at which they were read.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Counted {
    /// When.
    pub at: RunTime,
    /// What.
    pub counters: Counters,
    /// What the process has done on its sockets.
    #[serde(default)]
    pub sockets: SocketUse,
}

/// What the sockets of a role's process have done so far. Every figure only grows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SocketUse {
    /// Calls that read something.
    pub reads: u64,
    /// Calls that wrote something.
    pub writes: u64,
    /// Bytes that came.
    pub bytes_read: u64,
    /// Bytes that went.
    pub bytes_written: u64,
}

impl Counted {
    /// These counters as of `at`, with what this process has done on its sockets until now.
    #[must_use]
    pub fn new(at: RunTime, counters: Counters) -> Self {
        let sockets = amqp_tokio::SocketUse::of_this_process();
        Self {
            at,
            counters,
            sockets: SocketUse {
                reads: sockets.reads,
                writes: sockets.writes,
                bytes_read: sockets.bytes_read,
                bytes_written: sockets.bytes_written,
            },
        }
    }
}

impl SocketUse {
    /// What was done since `began`.
    #[must_use]
    pub const fn since(self, began: Self) -> Self {
        Self {
            reads: self.reads.saturating_sub(began.reads),
            writes: self.writes.saturating_sub(began.writes),
            bytes_read: self.bytes_read.saturating_sub(began.bytes_read),
            bytes_written: self.bytes_written.saturating_sub(began.bytes_written),
        }
    }
}

impl std::ops::Add for SocketUse {
    type Output = Self;

    /// Those of two processes together.
    fn add(self, other: Self) -> Self {
        Self {
            reads: self.reads + other.reads,
            writes: self.writes + other.writes,
            bytes_read: self.bytes_read + other.bytes_read,
            bytes_written: self.bytes_written + other.bytes_written,
        }
    }
}

/// The counters of one role. All grow, except [`SinkCounters::missing`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Counters {
    /// By entity name.
    Hub(BTreeMap<String, HubCounters>),
    /// The generator's.
    Load(LoadCounters),
    /// The pipeline's.
    Relay(RelayCounters),
    /// Nobody knows what a command in its place counts of events. It may tell what it costs inside.
    External(#[serde(default, skip_serializing_if = "Option::is_none")] Option<ExternalReading>),
    /// The receiver's.
    Sink(SinkCounters),
}

/// What a command in the relay's place told of itself, and when.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExternalReading {
    /// When the line came.
    pub at: RunTime,
    /// What it said.
    pub figures: ExternalFigures,
}

/// What a command can tell of itself, as `docs/external-systems.md` has it. What else it tells is not looked at.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ExternalFigures {
    /// Bytes that it has allocated since its start.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allocated_bytes: Option<u64>,
    /// For how many microseconds its garbage collector has run since its start.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub collecting_us: Option<u64>,
    /// The bytes that its heap takes at present.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub heap_bytes: Option<u64>,
}

/// What a generator counts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LoadCounters {
    /// Events by what became of them.
    pub events: LoadCounts,
    /// Events that are due and have not left.
    pub overdue: u64,
    /// For how many microseconds it stood still because it was far enough ahead.
    pub held_us: u64,
}

/// What a pipeline counts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RelayCounters {
    /// Events received from the source, those received again included.
    pub received: u64,
    /// Events that the destination accepted, those sent again included.
    pub forwarded: u64,
    /// Events of sends whose failure does not prove that they did not arrive (a time-out, a lost connection).
    pub doubtful: u64,
    /// Events of the source up to which everything has been accepted: the sum of the watermarks' progress. Each
    /// event counts once, however often it is received.
    pub completed: u64,
    /// Partitions opened, those opened again included. What was on the way when a partition was closed arrived nowhere.
    pub opened: u64,
    /// Partitions owned at present; all that the instance has where they are not shared.
    pub owned: u64,
    /// Events that the source's retention took before they were read. They will never be completed.
    #[serde(default)]
    pub missed: u64,
    /// When the first send was accepted.
    pub first_forwarded: Option<RunTime>,
    /// When the last one was.
    pub last_forwarded: Option<RunTime>,
}

/// What a receiver counts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SinkCounters {
    /// Events by what they turned out to be.
    pub events: Counts,
    /// Different events.
    pub distinct: u64,
    /// Partitions opened, those opened again included.
    pub opened: u64,
    /// Different events that are in the dead-letter queue of the source.
    #[serde(default)]
    pub dead_lettered: u64,
    /// Partitions that the service closed because a quota was used up.
    #[serde(default)]
    pub throttled: u64,
    /// Partitions that the service closed, for whatever reason.
    #[serde(default)]
    pub closed: u64,
    /// Events that the destination's retention took before they were read.
    #[serde(default)]
    pub missed: u64,
    /// Acknowledged events that have not been seen yet; known after [`Command::Expect`].
    pub missing: Option<u64>,
}

/// What a role found out.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase", deny_unknown_fields)]
pub enum Outcome {
    /// Nothing beyond its counters.
    Hub,
    /// What was sent, and what was recorded between the marks.
    Load {
        /// Per stream, in their order.
        streams: Vec<StreamSends>,
        /// Events of the plan that were due when the load was stopped and never left.
        never_sent: u64,
        /// `None` if nothing was marked.
        recordings: Option<LoadRecordings>,
    },
    /// What was recorded between the marks.
    Relay {
        /// The stages of its own work on a batch.
        stages: BTreeMap<Stage, Recording>,
        /// The sizes of its batches and sends.
        #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
        sizes: BTreeMap<Size, EncodedDistribution>,
        /// What it counted of its own work.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        activity: Option<Box<RelayActivity>>,
    },
    /// How a command in its place ended.
    External {
        /// It did not when it was asked to.
        was_killed: bool,
    },
    /// The verdict, and what was recorded between the marks.
    Sink {
        /// What became of the events; `None` without [`Command::Expect`].
        delivery: Option<Delivery>,
        /// From the intended instant.
        latency: Option<Recording>,
        /// From the instant at which the event really left, if the payload tells.
        uncorrected_latency: Option<Recording>,
        /// From the append to the destination, if the service dates it.
        delivery_time: Option<Recording>,
    },
}

impl RoleConfig {
    /// The role that is configured.
    #[must_use]
    pub const fn role(&self) -> Role {
        match self {
            Self::Hub(_) => Role::Hub,
            Self::Load(_) => Role::Load,
            Self::Relay(_) | Self::External(_) => Role::Relay,
            Self::Sink(_) => Role::Sink,
        }
    }

    /// Whether the role works with queues, and not with hubs.
    #[must_use]
    pub fn is_about_queues(&self) -> bool {
        match self {
            Self::Hub(config) => !config.queues.is_empty(),
            Self::Load(config) => config.source.is_queue(),
            Self::Relay(config) => config.source.is_queue(),
            Self::External(_) => false,
            Self::Sink(config) => config.destination.is_queue(),
        }
    }
}

impl Endpoint {
    fn is_queue(&self) -> bool {
        matches!(self.entity, scenario::Entity::Queue(_))
    }
}

impl Report {
    /// Whether it is the last one of a role.
    #[must_use]
    pub const fn is_last(&self) -> bool {
        matches!(self, Self::Finished { .. } | Self::Failed { .. })
    }
}

/// The container for checkpoints and ownership in the embedded service's storage account.
pub const CHECKPOINT_CONTAINER: &str = "checkpoints";

#[cfg(test)]
mod tests {
    use super::*;

    fn comes_back<T>(value: &T)
    where
        T: Serialize + for<'de> Deserialize<'de> + PartialEq + std::fmt::Debug,
    {
        let line = serde_json::to_string(value).expect("serialises");
        assert!(!line.contains('\n'), "one line: {line}");
        assert_eq!(
            &serde_json::from_str::<T>(&line).expect("is read back"),
            value,
            "{line}"
        );
    }

    #[test]
    fn every_command_comes_back_from_its_line() {
        let mut sends = StreamSends {
            sent: 9,
            ..StreamSends::default()
        };
        sends.acknowledged.insert(0..4);
        for command in [
            Command::Start,
            Command::Allow { events: 7 },
            Command::Mark { edge: Edge::Begin },
            Command::Expect {
                streams: vec![sends],
            },
            Command::Stop,
        ] {
            comes_back(&command);
        }
    }

    #[test]
    fn reports_and_their_outcomes_come_back_from_their_lines() {
        let counted = Counted {
            at: RunTime::from_micros(5),
            counters: Counters::Sink(SinkCounters {
                missing: Some(3),
                ..SinkCounters::default()
            }),
            sockets: SocketUse::default(),
        };
        comes_back(&Report::Ready(Ready {
            connection_string: Some(Secret::new("Endpoint=sb://x")),
            tls: Some(TlsAccess {
                connection_string: Secret::new("Endpoint=sb://y"),
                certificate_authority: PathBuf::from("/tmp/ca.pem"),
            }),
            storage_connection_string: Some(Secret::new("AccountName=x")),
        }));
        comes_back(&Report::Progress(Counted {
            at: RunTime::EPOCH,
            counters: Counters::Hub([("source".to_owned(), HubCounters::default())].into()),
            sockets: SocketUse::default(),
        }));
        comes_back(&Report::Marked {
            edge: Edge::End,
            counted: counted.clone(),
        });
        comes_back(&Report::Finished {
            counted,
            outcome: Box::new(Outcome::Sink {
                delivery: Some(Delivery::default()),
                latency: None,
                uncorrected_latency: None,
                delivery_time: None,
            }),
        });
        comes_back(&Report::Failed {
            error: "no\nway".to_owned(),
        });
    }

    #[test]
    fn the_relays_configuration_comes_back_with_its_secret() {
        let endpoint = Endpoint {
            connection_string: Secret::new("key"),
            certificate_authority: None,
            entity: scenario::Entity::Hub(scenario::Hub {
                name: "source".to_owned(),
                partitions: 4,
                consumer_group: "$Default".to_owned(),
            }),
        };
        let config = RoleConfig::Relay(Box::new(RelayConfig {
            clock: RunClock::starting_now(),
            source: endpoint.clone(),
            destination: endpoint,
            relay: scenario::Relay::default(),
            instance: 0,
            read_from: ReadFrom::Now,
            checkpoints: PathBuf::from("/tmp/checkpoints"),
            storage: Some(Secret::new("AccountName=x")),
            seed: 3,
        }));
        comes_back(&config);
        assert_eq!(config.role(), Role::Relay);
        assert!(
            !format!("{config:?}").contains("key"),
            "secrets do not get into logs"
        );
    }
}
