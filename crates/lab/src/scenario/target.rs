//! Which service the roles talk to: the embedded one, a namespace that exists, or a command that the lab starts.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use super::{Readiness, Secret};

/// The service. Written as `embedded`, or as a mapping with a connection string.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// A `parshall serve` of the lab's own, started for each trial.
    Embedded,
    /// A namespace that exists already, with the entities of the topology in it.
    Namespace(Namespace),
    /// A service that a command makes, started for each trial.
    Command(Box<ServiceCommand>),
}

/// How to reach a namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Namespace {
    /// A connection string with a key that may send, listen and read the hubs' properties.
    pub connection_string: Secret,
    /// A file of certificates (PEM) to trust besides those of the system.
    pub certificate_authority: Option<PathBuf>,
}

/// A service in the embedded one's place. It must have the entities of the topology when it is ready.
///
/// `{port}` in the command, in its environment and in the connection string is a port that was free when the trial began.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceCommand {
    /// Program and arguments.
    pub command: Vec<String>,
    /// How its clients reach it.
    pub namespace: Namespace,
    /// Environment variables beside the lab's own.
    pub env: BTreeMap<String, Secret>,
    /// How it is known to be ready.
    pub ready: Readiness,
    /// How long that may take.
    pub ready_within: Duration,
    /// How long it may take to end after SIGTERM, before SIGKILL.
    pub stop_within: Duration,
}

impl Target {
    /// The target of a scenario that names none.
    pub(super) fn embedded() -> Self {
        Self::Embedded
    }

    /// Whether the lab starts the service, and ends it with the trial.
    #[must_use]
    pub const fn is_started(&self) -> bool {
        matches!(self, Self::Embedded | Self::Command(_))
    }

    /// How clients reach a service that is not the embedded one.
    #[must_use]
    pub fn namespace(&self) -> Option<&Namespace> {
        match self {
            Self::Embedded => None,
            Self::Namespace(namespace) => Some(namespace),
            Self::Command(service) => Some(&service.namespace),
        }
    }
}

impl ServiceCommand {
    /// What it is called in messages: its program's file.
    #[must_use]
    pub fn name(&self) -> &str {
        let program = self.command.first().map_or("", String::as_str);
        program.rsplit('/').next().unwrap_or_default()
    }

    /// A text with this port in its place.
    #[must_use]
    pub fn with_port(text: &str, port: u16) -> String {
        text.replace("{port}", &port.to_string())
    }
}

/// Both mappings.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    command: Option<Vec<String>>,
    connection_string: Secret,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    certificate_authority: Option<PathBuf>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    env: BTreeMap<String, Secret>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    ready: Option<Readiness>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    ready_within: Option<Span>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    stop_within: Option<Span>,
}

#[derive(Serialize, Deserialize)]
#[serde(transparent)]
struct Span(#[serde(with = "units::duration")] Duration);

impl Serialize for Target {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let written = |namespace: &Namespace| Written {
            command: None,
            connection_string: namespace.connection_string.clone(),
            certificate_authority: namespace.certificate_authority.clone(),
            env: BTreeMap::new(),
            ready: None,
            ready_within: None,
            stop_within: None,
        };
        match self {
            Self::Embedded => serializer.serialize_str(EMBEDDED),
            Self::Namespace(namespace) => written(namespace).serialize(serializer),
            Self::Command(service) => Written {
                command: Some(service.command.clone()),
                env: service.env.clone(),
                ready: Some(service.ready.clone()),
                ready_within: Some(Span(service.ready_within)),
                stop_within: Some(Span(service.stop_within)),
                ..written(&service.namespace)
            }
            .serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for Target {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;

        impl<'de> de::Visitor<'de> for Visitor {
            type Value = Target;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter
                    .write_str("`embedded` or `{connection_string: \"${EVENT_HUBS_CONNECTION_STRING}\"}`")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Target, E> {
                if text == EMBEDDED {
                    Ok(Target::Embedded)
                } else {
                    Err(E::invalid_value(de::Unexpected::Str(text), &self))
                }
            }

            fn visit_map<A: de::MapAccess<'de>>(self, map: A) -> Result<Target, A::Error> {
                Written::deserialize(de::value::MapAccessDeserializer::new(map))?.target()
            }
        }

        deserializer.deserialize_any(Visitor)
    }
}

impl Written {
    fn target<E: de::Error>(self) -> Result<Target, E> {
        let namespace = Namespace {
            connection_string: self.connection_string,
            certificate_authority: self.certificate_authority,
        };
        let Some(command) = self.command else {
            let is_of_command = !self.env.is_empty()
                || self.ready.is_some()
                || self.ready_within.is_some()
                || self.stop_within.is_some();
            return match is_of_command {
                true => {
                    Err(E::custom("`env`, `ready`, `ready_within` and `stop_within` are for a `command`"))
                }
                false => Ok(Target::Namespace(namespace)),
            };
        };
        let span = |span: Option<Span>, usual| span.map_or(usual, |Span(span)| span);
        Ok(Target::Command(Box::new(ServiceCommand {
            command,
            namespace,
            env: self.env,
            ready: self.ready.unwrap_or_default(),
            ready_within: span(self.ready_within, READY_WITHIN),
            stop_within: span(self.stop_within, STOP_WITHIN),
        })))
    }
}

const EMBEDDED: &str = "embedded";
const READY_WITHIN: Duration = Duration::from_secs(60);
const STOP_WITHIN: Duration = Duration::from_secs(10);
