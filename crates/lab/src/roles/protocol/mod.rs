//! What the orchestrator and a role say to each other, one JSON value per line.
//!
//! ```text
//! orchestrator                      role
//!      │◀───────────────────  Hello   │  says which program it is
//!      │  Role        ───────────────▶│  connects
//!      │◀───────────────────  Ready   │
//!      │  Start       ───────────────▶│  works
//!      │◀──────────────  Progress …   │  several times a second
//!      │  Mark        ───────────────▶│  reads its counters and its clock at that moment
//!      │◀──────────────────  Marked   │
//!      │  Stop        ───────────────▶│  ends what is under way
//!      │◀────────────────  Finished   │  and exits
//! ```
//!
//! On another machine a role answers questions about its clock at any time, even before it has its configuration, which
//! has the run's epoch by that clock.
//!
//! `Failed` may take the place of any report and is the last one. A role whose input ends has lost its
//! orchestrator: it stops at once.

mod config;
mod counters;
mod done;
mod remote;

use std::{collections::BTreeMap, path::PathBuf};

use serde::{Deserialize, Serialize};

pub use self::config::{
    Endpoint, ExternalConfig, KafkaAccess, LoadConfig, ProducerProgram, ReadFrom, RelayConfig, RoleConfig,
    SinkConfig,
};
pub use self::counters::{
    Counted, Counters, ExternalFigures, ExternalReading, LoadCounters, RelayCounters, SinkCounters, SocketUse,
};
pub use self::done::{CHECKPOINTS_EVERY, DoneBy, DoneMark};
pub use self::remote::{Assignment, Build, ClockAnswer, ClockQuestion, Hello, Line};
pub use super::service_config::{ServiceAddress, ServiceConfig};

use crate::{
    load::{LoadRecordings, Punctuality},
    record::{EncodedDistribution, ReadRecords, Recording, ServedRecords},
    results::{RelayActivity, Size, Stage},
    scenario::{Connection, KafkaProperties, Secret},
    verify::{Delivery, StreamSends},
};

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
    /// Sink: a consumer has done events.
    Done {
        /// Which ones.
        mark: DoneMark,
    },
    /// Service: a sink has read these records of an entity, so say with the outcome when they were where.
    Served {
        /// The entity's name.
        entity: String,
        /// Of each partition that it read, a range.
        reads: Vec<ReadRecords>,
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
    /// The first of all: which program this is, and where.
    Hello(Box<Hello>),
    /// The answer to a [`ClockQuestion`].
    Clock(ClockAnswer),
    /// Connected; waits for [`Command::Start`].
    Ready(Ready),
    /// The counters at some moment.
    Progress(Counted),
    /// What monitoring is to see of it, about once a second where that is asked for.
    Metrics {
        /// In the OpenMetrics text format.
        text: String,
    },
    /// The counters at the moment of a [`Command::Mark`].
    Marked {
        /// The edge that was asked for.
        edge: Edge,
        /// What was counted at it.
        counted: Counted,
    },
    /// A command in the pipeline's place says that it has done events.
    Done {
        /// Which ones.
        mark: DoneMark,
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
    /// Service: how to reach it, over each connection that an end has.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub entry_points: Vec<EntryPoint>,
    /// Service: how to reach its storage account, where it serves one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub storage_connection_string: Option<Secret>,
}

/// One way to reach a service.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EntryPoint {
    /// Which way.
    pub connection: Connection,
    /// The namespace's connection string; empty where a cluster of Kafka is reached, which has none.
    #[serde(default)]
    pub connection_string: Secret,
    /// What clients of Kafka are told, where that is spoken.
    #[serde(default, skip_serializing_if = "KafkaProperties::is_empty")]
    pub kafka: KafkaProperties,
    /// The file of the authority that is to be trusted, over TLS.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub certificate_authority: Option<PathBuf>,
}

impl Ready {
    /// The way to the service over this connection, if it listens for that.
    #[must_use]
    pub fn entry_point(&self, wanted: Connection) -> Option<&EntryPoint> {
        self.entry_points.iter().find(|entry_point| entry_point.connection == wanted)
    }
}

/// What a role found out.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase", deny_unknown_fields)]
pub enum Outcome {
    /// What it knows of records, beyond its counters.
    Service {
        /// In the order of [`Command::Served`]; empty if it does not know all of them.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        served: Vec<ServedRecords>,
    },
    /// What was sent, and what was recorded between the marks.
    Load {
        /// Per stream, in their order.
        streams: Vec<StreamSends>,
        /// How it kept to its plan in the measured phase.
        punctuality: Punctuality,
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
        /// From the intended instant until the append to the destination, if the service dates it.
        to_destination: Option<Recording>,
        /// From that append.
        delivery_time: Option<Recording>,
        /// Which records of the measured phase it read, if they are all of their partitions from the first to the last.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        reads: Vec<ReadRecords>,
    },
}

impl Report {
    /// Whether it is the last one of a role.
    #[must_use]
    pub const fn is_last(&self) -> bool {
        matches!(self, Self::Finished { .. } | Self::Failed { .. })
    }
}

/// The consumer group of the embedded service's hubs by which a sink reads what another role reads as well.
pub const SINK_CONSUMER_GROUP: &str = "parshall-sink";

/// The container for checkpoints and ownership in the embedded service's storage account.
pub const CHECKPOINT_CONTAINER: &str = "checkpoints";

#[cfg(test)]
mod tests {
    use crate::{
        clock::{RunClock, RunTime},
        results::{EntityCounters, Role},
        scenario,
    };

    use super::*;

    const MARK: DoneMark = DoneMark { partition: 3, sequence_number: 1234, at: RunTime::EPOCH };

    fn comes_back<T>(value: &T)
    where
        T: Serialize + for<'de> Deserialize<'de> + PartialEq + std::fmt::Debug,
    {
        let line = serde_json::to_string(value).expect("serialises");
        assert!(!line.contains('\n'), "one line: {line}");
        assert_eq!(&serde_json::from_str::<T>(&line).expect("is read back"), value, "{line}");
    }

    #[test]
    fn every_command_comes_back_from_its_line() {
        let mut sends = StreamSends { sent: 9, ..StreamSends::default() };
        sends.acknowledged.insert(0..4);
        for command in [
            Command::Start,
            Command::Allow { events: 7 },
            Command::Mark { edge: Edge::Begin },
            Command::Expect { streams: vec![sends] },
            Command::Done { mark: MARK },
            Command::Served { entity: "in".to_owned(), reads: vec![ReadRecords::of(1)] },
            Command::Stop,
        ] {
            comes_back(&command);
        }
    }

    #[test]
    fn reports_and_their_outcomes_come_back_from_their_lines() {
        let counted = Counted {
            at: RunTime::from_micros(5),
            counters: Counters::Sink(SinkCounters { missing: Some(3), ..SinkCounters::default() }),
            sockets: SocketUse::default(),
        };
        comes_back(&Report::Ready(Ready {
            entry_points: vec![EntryPoint {
                connection: Connection { tls: true, ..Connection::default() },
                connection_string: Secret::new("Endpoint=sb://y"),
                kafka: KafkaProperties::from_iter([("bootstrap.servers", "y:9093")]),
                certificate_authority: Some(PathBuf::from("/tmp/ca.pem")),
            }],
            storage_connection_string: Some(Secret::new("AccountName=x")),
        }));
        comes_back(&Report::Done { mark: MARK });
        comes_back(&Report::Metrics { text: "# EOF\n".to_owned() });
        comes_back(&Report::Progress(Counted {
            at: RunTime::EPOCH,
            counters: Counters::Service([("source".to_owned(), EntityCounters::default())].into()),
            sockets: SocketUse::default(),
        }));
        comes_back(&Report::Marked { edge: Edge::End, counted: counted.clone() });
        comes_back(&Report::Finished {
            counted,
            outcome: Box::new(Outcome::Sink {
                delivery: Some(Delivery::default()),
                latency: None,
                uncorrected_latency: None,
                to_destination: None,
                delivery_time: None,
                reads: vec![ReadRecords::of(3)],
            }),
        });
        comes_back(&Report::Failed { error: "no\nway".to_owned() });
    }

    #[test]
    fn the_relays_configuration_comes_back_with_its_secret() {
        let endpoint = Endpoint {
            protocol: scenario::Protocol::Amqp,
            transport: scenario::Transport::WebSocket,
            connection_string: Secret::new("key"),
            kafka: None,
            certificate_authority: None,
            producer: None,
            program: None,
            entity: scenario::Entity::Hub(scenario::Hub {
                name: "source".to_owned(),
                partitions: 4,
                consumer_group: "$Default".to_owned(),
            }),
            subscription: None,
        };
        let config = RoleConfig::Relay(Box::new(RelayConfig {
            clock: RunClock::starting_now(),
            source: endpoint.clone(),
            destinations: vec![endpoint],
            relay: scenario::Relay::default(),
            instance: 0,
            read_from: ReadFrom::Now,
            goes_on: true,
            checkpoints: PathBuf::from("/tmp/checkpoints"),
            storage: Some(Secret::new("AccountName=x")),
            seed: 3,
            tells_metrics: true,
        }));
        comes_back(&config);
        assert_eq!(config.role(), Role::Relay);
        assert!(!format!("{config:?}").contains("key"), "secrets do not get into logs");
    }
}
