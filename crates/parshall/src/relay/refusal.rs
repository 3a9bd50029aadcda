//! Why a relay can't begin or go on: what refuses, which entity it is about, and what to do.

use std::fmt;

use access::{ConnectionString, Credential};
use connect::archive::Place;
use pipeline::{ConnectError, EndError, KafkaSourceConfig, PipelineConfig, SinkConfig, SourceConfig};
use relay::RelayError;
use settings::Document;

use crate::connection_advice::ConnectionSettings;
use crate::exit::{CommandError, with_causes};

/// One end of a pipeline.
#[derive(Clone, Copy, Debug)]
pub(super) enum End<'a> {
    Source(&'a SourceConfig),
    /// With its place in the list, where there are several.
    Sink(&'a SinkConfig, Option<usize>),
}

/// A pipeline that could not be connected. What its file says wrongly is shown there.
pub(super) fn of_connecting(
    document: &Document,
    config: &PipelineConfig,
    error: &ConnectError,
) -> CommandError {
    match error {
        ConnectError::Source(error) => of_end(End::Source(&config.source), error),
        ConnectError::Sink { index, error } => of_end(End::sink(config, *index), error),
        ConnectError::DeadLetters(_) => CommandError::Unavailable { message: with_causes(error) },
        ConnectError::NoSuchPartition { existing, .. } => {
            let advice = match (existing.first(), existing.last()) {
                (Some(first), Some(last)) => format!("it has {first} to {last}"),
                _ => "it has none".to_owned(),
            };
            let section = End::Source(&config.source).section();
            document.mistake(&format!("{section}.partitions"), error.to_string(), advice).into()
        }
        ConnectError::TooFewDestinations { destinations, .. } => {
            let advice = format!(
                "`fan_out: {destinations}` sends partition n to n modulo {destinations}; `route: key` keeps \
                 events of the same key together"
            );
            document.mistake("route", error.to_string(), advice).into()
        }
        ConnectError::Relay(error @ RelayError::FanOut { destinations, .. }) => {
            let advice = format!(
                "the sink has {destinations} destinations: allowed is 1 to {destinations}, or leave it out for all"
            );
            document.mistake("fan_out", error.to_string(), advice).into()
        }
        ConnectError::Store(_) => {
            let message = with_causes(error);
            // What the client of blob storage makes of an error of TLS is text.
            let advice = message.contains("UnknownIssuer").then(|| {
                let section = ConnectionSettings::of_section("checkpoint.store.blob");
                section.advice(connect::service::error::UNTRUSTED)
            });
            CommandError::Refused { message, advice: advice.flatten() }
        }
        ConnectError::Relay(_) => CommandError::Unavailable { message: with_causes(error) },
    }
}

/// The end of a pipeline that could not be connected.
pub(super) fn of_end(end: End<'_>, error: &EndError) -> CommandError {
    let condition = match error {
        EndError::HubName(_) => "",
        EndError::Service(error) => error.condition.as_str(),
    };
    let what = match end {
        End::Source(_) => "the source can't be used",
        End::Sink(..) => "the sink can't be used",
    };
    let message = format!("{what}: {}", with_causes(error));
    CommandError::Refused { message, advice: Some(end.advice(condition)) }
}

/// The end of a pipeline that had begun.
pub(super) fn of_relay(config: &PipelineConfig, error: &RelayError) -> CommandError {
    let advice = match error {
        RelayError::Source(error) => Some(End::Source(&config.source).advice(&error.condition)),
        RelayError::Sink { index, source } => Some(End::sink(config, *index).advice(&source.condition)),
        // These say themselves what to do.
        RelayError::FanOut { .. }
        | RelayError::Encoding { .. }
        | RelayError::StoresLater { .. }
        | RelayError::Store(_)
        | RelayError::Sharing(_)
        | RelayError::Ownership(_)
        | RelayError::DeadLetters { .. }
        | RelayError::DeadLetterEncoding { .. }
        | RelayError::DeadLetterSink { .. }
        | RelayError::Poison { .. }
        | RelayError::Unreadable { .. }
        | RelayError::MissedEvents { .. }
        | RelayError::Restarted { .. } => None,
    };
    CommandError::Refused { message: format!("the pipeline ended: {}", with_causes(error)), advice }
}

impl<'a> End<'a> {
    fn advice(self, condition: &str) -> String {
        let section = self.section();
        match condition {
            "amqp:unauthorized-access" if let Some(connection_string) = self.connection_string() => {
                let key = match &connection_string.credential {
                    Credential::Key(key) => format!("the key {}", key.name()),
                    Credential::Signature(_) => "the token".to_owned(),
                    Credential::Identity => {
                        let role = match self {
                            End::Source(_) => "Data Receiver",
                            End::Sink(..) => "Data Sender",
                        };
                        return format!(
                            "{self}: the identity needs the role Azure Event Hubs or Service Bus {role} there"
                        );
                    }
                };
                let right = match self {
                    End::Source(_) => "listen",
                    End::Sink(..) => "send",
                };
                format!(
                    "{self}: {key} must be valid and have the {right} right; see {section}.connection_string"
                )
            }
            "UNKNOWN_TOPIC_OR_PARTITION" => format!("{self}: create the topic, or correct {section}.topic"),
            "SASL_AUTHENTICATION_FAILED" | "UNSUPPORTED_SASL_MECHANISM" => {
                format!("{self}: the login was refused; see {section}.properties")
            }
            "PRODUCER_FENCED" | "INVALID_PRODUCER_EPOCH" => {
                format!(
                    "{self}: relays that run at a time have different {section}.properties.transactional.id"
                )
            }
            "TOPIC_AUTHORIZATION_FAILED"
            | "GROUP_AUTHORIZATION_FAILED"
            | "CLUSTER_AUTHORIZATION_FAILED"
            | "TRANSACTIONAL_ID_AUTHORIZATION_FAILED" => {
                format!("{self}: the login must have the right to do this; see {section}")
            }
            "amqp:not-found" => format!("{self}: create the missing entity, or correct {section}"),
            "com.microsoft:entity-disabled" => format!("{self}: enable it, or correct {section}"),
            _ if condition.starts_with("connection:") => {
                let advice = ConnectionSettings::of_section(&section).advice(condition);
                advice.map_or_else(
                    || format!("{self}: check that it is reachable, and {section}.{}", self.address_key()),
                    |advice| format!("{self}: {advice}"),
                )
            }
            _ => format!("{self}: see {section}"),
        }
    }

    /// Where it is in the file.
    fn section(self) -> String {
        let list = match self {
            End::Source(_) => "source".to_owned(),
            End::Sink(_, None) => "sink".to_owned(),
            End::Sink(_, Some(index)) => format!("sinks[{index}]"),
        };
        let kind = match self {
            End::Source(SourceConfig::EventHubs(_)) | End::Sink(SinkConfig::EventHubs(_), _) => "event_hubs",
            End::Source(SourceConfig::Kafka(_)) | End::Sink(SinkConfig::Kafka(_), _) => "kafka",
            End::Source(SourceConfig::ServiceBus(_)) | End::Sink(SinkConfig::ServiceBus(_), _) => {
                "service_bus"
            }
            End::Sink(SinkConfig::Archive(_), _) => "archive",
        };
        format!("{list}.{kind}")
    }

    fn sink(config: &'a PipelineConfig, index: usize) -> Self {
        let is_one_of_several = config.sinks.len() > 1;
        Self::Sink(&config.sinks[index], is_one_of_several.then_some(index))
    }

    /// How a namespace is reached; a cluster of Kafka has none.
    fn connection_string(self) -> Option<&'a ConnectionString> {
        Some(match self {
            End::Source(SourceConfig::EventHubs(source)) => &source.connection_string,
            End::Source(SourceConfig::ServiceBus(source)) => &source.connection_string,
            End::Sink(SinkConfig::EventHubs(sink), _) => &sink.connection_string,
            End::Sink(SinkConfig::ServiceBus(sink), _) => &sink.connection_string,
            End::Source(SourceConfig::Kafka(_))
            | End::Sink(SinkConfig::Kafka(_) | SinkConfig::Archive(_), _) => return None,
        })
    }

    /// The key that says where it is.
    fn address_key(self) -> &'static str {
        match self.connection_string() {
            Some(ConnectionString { credential: Credential::Identity, .. }) => "fully_qualified_namespace",
            Some(_) => "connection_string",
            None if matches!(self, End::Sink(SinkConfig::Archive(_), _)) => "to",
            None => "bootstrap",
        }
    }
}

impl fmt::Display for End<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            End::Source(SourceConfig::EventHubs(source)) => {
                write!(f, "the source is hub {}, consumer group {}", source.hub, source.consumer_group)
            }
            End::Source(SourceConfig::ServiceBus(source)) => {
                write!(f, "the source is {}", source.entity)
            }
            End::Source(SourceConfig::Kafka(source)) => {
                let KafkaSourceConfig { options, group, .. } = &**source;
                let brokers = options.properties.get("bootstrap.servers").unwrap_or_default();
                return write!(
                    f,
                    "the source is topic {} at {brokers}, consumer group {group}",
                    options.topic
                );
            }
            End::Sink(SinkConfig::Kafka(sink), _) => {
                let brokers = sink.options.properties.get("bootstrap.servers").unwrap_or_default();
                return write!(f, "the sink is topic {} at {brokers}", sink.options.topic);
            }
            End::Sink(SinkConfig::Archive(sink), _) => {
                return match &sink.place {
                    Place::Blob(place) => write!(
                        f,
                        "the sink is the archive in container {} at {}",
                        place.container, place.connection_string.blob_endpoint
                    ),
                    Place::Bucket(place) => write!(f, "the sink is the archive in {place}"),
                    Place::Folder(folder) => write!(f, "the sink is the archive in {}", folder.display()),
                };
            }
            End::Sink(SinkConfig::EventHubs(sink), _) => write!(f, "the sink is hub {}", sink.hub),
            End::Sink(SinkConfig::ServiceBus(sink), _) => write!(f, "the sink is {}", sink.entity),
        }?;
        let Some(connection_string) = self.connection_string() else { return Ok(()) };
        let address = connection_string.amqp_address();
        write!(f, " at {}:{}", address.host, address.port)
    }
}
