//! Why a relay can't begin or go on: what refuses, which entity it is about, and what to do.

use std::error::Error;
use std::fmt;

use access::{ConnectionString, Credential};
use relay::RelayError;
use relay::pipeline::{PipelineConfig, SinkConfig, SourceConfig};

use crate::exit::CommandError;

/// One end of a pipeline.
#[derive(Clone, Copy, Debug)]
pub(super) enum End<'a> {
    Source(&'a SourceConfig),
    Sink(&'a SinkConfig),
}

/// The end of a pipeline that could not be connected.
pub(super) fn of_end(end: End<'_>, error: &dyn Error, condition: &str) -> CommandError {
    let what = match end {
        End::Source(_) => "the source can't be used",
        End::Sink(_) => "the sink can't be used",
    };
    CommandError::Refused { message: with_causes(what, error), advice: Some(end.advice(condition)) }
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
    CommandError::Refused { message: with_causes("the pipeline ended", error), advice }
}

/// An error with all of its causes, in one line.
pub(super) fn with_causes(what: &str, error: &dyn Error) -> String {
    let mut message = format!("{what}: {error}");
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
