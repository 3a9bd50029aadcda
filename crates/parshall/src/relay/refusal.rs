//! Why a relay can't begin or go on: what refuses, which entity it is about, and what to do.

use std::error::Error;
use std::fmt;

use access::{ConnectionString, Credential};
use pipeline::{ConnectError, EndError, PipelineConfig, SinkConfig, SourceConfig};
use relay::RelayError;
use settings::Document;

use crate::exit::CommandError;

/// One end of a pipeline.
#[derive(Clone, Copy, Debug)]
pub(super) enum End<'a> {
    Source(&'a SourceConfig),
    Sink(&'a SinkConfig),
}

/// A pipeline that could not be connected. What its file says wrongly is shown there.
pub(super) fn of_connecting(
    document: &Document,
    config: &PipelineConfig,
    error: &ConnectError,
) -> CommandError {
    match error {
        ConnectError::Source(error) => of_end(End::Source(&config.source), error),
        ConnectError::Sink(error) => of_end(End::Sink(&config.sink), error),
        ConnectError::NoSuchPartition { existing, .. } => {
            let advice = match (existing.first(), existing.last()) {
                (Some(first), Some(last)) => format!("it has {first} to {last}"),
                _ => "it has none at all".to_owned(),
            };
            document.mistake("source.event_hubs.partitions", error.to_string(), advice).into()
        }
        ConnectError::TooFewDestinations { destinations, .. } => {
            let advice = format!(
                "`fan_out: {destinations}` sends partition n to n modulo {destinations}; `route: key` keeps what has the \
                 same key together"
            );
            document.mistake("route", error.to_string(), advice).into()
        }
        ConnectError::Relay(error @ RelayError::FanOut { destinations, .. }) => {
            let advice = format!(
                "the sink has {destinations} destinations: allowed is 1 to {destinations}, or leave it out for all"
            );
            document.mistake("fan_out", error.to_string(), advice).into()
        }
        ConnectError::Store(_) | ConnectError::Relay(_) => {
            CommandError::Unavailable { message: with_causes(error) }
        }
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
        End::Sink(_) => "the sink can't be used",
    };
    let message = format!("{what}: {}", with_causes(error));
    CommandError::Refused { message, advice: Some(end.advice(condition)) }
}

/// The end of a pipeline that had begun.
pub(super) fn of_relay(config: &PipelineConfig, error: &RelayError) -> CommandError {
    let advice = match error {
        RelayError::Source(error) => Some(End::Source(&config.source).advice(&error.condition)),
        RelayError::Sink(error) => Some(End::Sink(&config.sink).advice(&error.condition)),
        // These say themselves what to do.
        RelayError::FanOut { .. }
        | RelayError::Store(_)
        | RelayError::Ownership(_)
        | RelayError::DeadLetters { .. }
        | RelayError::Poison { .. }
        | RelayError::MissedEvents { .. }
        | RelayError::Restarted { .. } => None,
    };
    CommandError::Refused { message: format!("the pipeline ended: {}", with_causes(error)), advice }
}

/// An error with all of its causes, in one line.
fn with_causes(error: &dyn Error) -> String {
    let mut message = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        message.push_str(&format!(": {error}"));
        cause = error.source();
    }
    message
}

impl<'a> End<'a> {
    fn advice(self, condition: &str) -> String {
        let section = self.section();
        match condition {
            "amqp:unauthorized-access" => {
                let key = match &self.connection_string().credential {
                    Credential::Key(key) => format!("the key {}", key.name()),
                    Credential::Signature(_) => "the token".to_owned(),
                };
                let right = match self {
                    End::Source(_) => "listen",
                    End::Sink(_) => "send",
                };
                format!(
                    "{self}: {key} has to be right, and needs the right to {right}; see {section}.connection_string"
                )
            }
            "amqp:not-found" => format!("{self}: create what is missing, or correct {section}"),
            "com.microsoft:entity-disabled" => format!("{self}: enable it, or correct {section}"),
            _ if condition.starts_with("connection:") => {
                format!("{self}: see whether it can be reached from here, and {section}.connection_string")
            }
            _ => format!("{self}: see {section}"),
        }
    }

    /// Where it is in the file.
    const fn section(self) -> &'static str {
        match self {
            End::Source(SourceConfig::EventHubs(_)) => "source.event_hubs",
            End::Source(SourceConfig::ServiceBus(_)) => "source.service_bus",
            End::Sink(SinkConfig::EventHubs(_)) => "sink.event_hubs",
            End::Sink(SinkConfig::ServiceBus(_)) => "sink.service_bus",
        }
    }

    fn connection_string(self) -> &'a ConnectionString {
        match self {
            End::Source(SourceConfig::EventHubs(source)) => &source.connection_string,
            End::Source(SourceConfig::ServiceBus(source)) => &source.connection_string,
            End::Sink(SinkConfig::EventHubs(sink)) => &sink.connection_string,
            End::Sink(SinkConfig::ServiceBus(sink)) => &sink.connection_string,
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
            End::Sink(SinkConfig::EventHubs(sink)) => write!(f, "the sink is hub {}", sink.hub),
            End::Sink(SinkConfig::ServiceBus(sink)) => write!(f, "the sink is {}", sink.entity),
        }?;
        let address = self.connection_string().amqp_address();
        write!(f, " at {}:{}", address.host, address.port)
    }
}
