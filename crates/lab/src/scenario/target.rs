//! Which service the roles talk to: the embedded one, a namespace or a Kafka cluster that exists, or a command that the lab
//! starts.
//!
//! The section `targets` defines some by name, so that a sweep can go through them, and the parameter `target` chooses one, or
//! describes one in place.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use pipeline::kafka::KafkaProperties;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use settings::{Document, Node, SettingsError};

use super::{Readiness, Secret, system};
use pipeline::kafka::BOOTSTRAP;

/// The service. Written as `embedded`, as a name of the section `targets`, or as a mapping that says how it is reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// A `parshall serve` of the lab's own, started for each trial.
    Embedded,
    /// A namespace that exists already, with the entities of the topology in it.
    Namespace(Namespace),
    /// A cluster of Kafka that exists already, with the hubs of the topology as topics in it.
    Kafka(KafkaCluster),
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

/// How to reach a cluster of Kafka.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KafkaCluster {
    /// One of its brokers at least, as `host:port`; several with commas between them.
    pub bootstrap: String,
    /// What every client of it is told, such as how to log in.
    #[serde(default, skip_serializing_if = "KafkaProperties::is_empty")]
    pub properties: KafkaProperties,
}

/// A service in the embedded one's place. It must have the entities of the topology when it is ready, or make them when they
/// are asked for.
///
/// `{port}` in the command, in its environment and in how clients reach it is a port that was free when the trial began.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceCommand {
    /// Program and arguments.
    pub command: Vec<String>,
    /// How its clients reach it by a connection string, if they do.
    pub namespace: Option<Namespace>,
    /// How they reach it as a cluster of Kafka, if they do.
    pub kafka: Option<KafkaCluster>,
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

    /// Whether somebody else runs it, so that what is in it has to be there.
    #[must_use]
    pub const fn exists(&self) -> bool {
        matches!(self, Self::Namespace(_) | Self::Kafka(_))
    }

    /// How clients reach a service by its connection string, if it has one and is not the embedded one.
    #[must_use]
    pub fn namespace(&self) -> Option<&Namespace> {
        match self {
            Self::Embedded | Self::Kafka(_) => None,
            Self::Namespace(namespace) => Some(namespace),
            Self::Command(service) => service.namespace.as_ref(),
        }
    }

    /// How clients reach it as a cluster of Kafka, if it says so itself.
    #[must_use]
    pub fn kafka(&self) -> Option<&KafkaCluster> {
        match self {
            Self::Embedded | Self::Namespace(_) => None,
            Self::Kafka(cluster) => Some(cluster),
            Self::Command(service) => service.kafka.as_ref(),
        }
    }
}

impl KafkaCluster {
    /// All that a client of it is told.
    #[must_use]
    pub fn client_properties(&self) -> KafkaProperties {
        let mut properties = self.properties.clone();
        properties.set(BOOTSTRAP, &self.bootstrap);
        properties
    }
}

impl ServiceCommand {
    /// What it is called in messages: its program's file, or the folder of one that is called `run`, as peers are.
    #[must_use]
    pub fn name(&self) -> &str {
        let program = self.command.first().map_or("", String::as_str);
        let mut parts = program.rsplit('/');
        match (parts.next().unwrap_or_default(), parts.next()) {
            ("run", Some(folder)) if !folder.is_empty() => folder,
            (file, _) => file,
        }
    }

    /// The same cluster with this port in its place.
    #[must_use]
    pub fn cluster_at(cluster: &KafkaCluster, port: u16) -> KafkaCluster {
        KafkaCluster { bootstrap: Self::with_port(&cluster.bootstrap, port), ..cluster.clone() }
    }

    /// A text with this port in its place.
    #[must_use]
    pub fn with_port(text: &str, port: u16) -> String {
        text.replace("{port}", &port.to_string())
    }
}

/// All mappings.
#[derive(Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    command: Option<Vec<String>>,
    #[serde(default, alias = "fully_qualified_namespace", skip_serializing_if = "Option::is_none")]
    connection_string: Option<Secret>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    kafka: Option<KafkaCluster>,
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
        let reached = |namespace: Option<&Namespace>, kafka: Option<&KafkaCluster>| Written {
            connection_string: namespace.map(|namespace| namespace.connection_string.clone()),
            certificate_authority: namespace.and_then(|namespace| namespace.certificate_authority.clone()),
            kafka: kafka.cloned(),
            ..Written::default()
        };
        match self {
            Self::Embedded => serializer.serialize_str(EMBEDDED),
            Self::Namespace(_) | Self::Kafka(_) => {
                reached(self.namespace(), self.kafka()).serialize(serializer)
            }
            Self::Command(service) => Written {
                command: Some(service.command.clone()),
                env: service.env.clone(),
                ready: Some(service.ready.clone()),
                ready_within: Some(Span(service.ready_within)),
                stop_within: Some(Span(service.stop_within)),
                ..reached(self.namespace(), self.kafka())
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
                formatter.write_str(
                    "`embedded`, `{connection_string: \"${EVENT_HUBS_CONNECTION_STRING}\"}` or \
                     `{kafka: {bootstrap: \"host:9092\"}}`",
                )
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
        if self.connection_string.is_none() && self.kafka.is_none() {
            return Err(E::custom(
                "nothing says how clients reach it: it needs a `connection_string`, a `fully_qualified_namespace` or \
                 `kafka`",
            ));
        }
        if self.connection_string.is_none() && self.certificate_authority.is_some() {
            return Err(E::custom(
                "`certificate_authority` goes with a `connection_string`; clients of Kafka have the property \
                 `ssl.ca.location`",
            ));
        }
        let certificate_authority = self.certificate_authority;
        let namespace = self
            .connection_string
            .map(|connection_string| Namespace { connection_string, certificate_authority });
        let Some(command) = self.command else {
            let is_of_command = !self.env.is_empty()
                || self.ready.is_some()
                || self.ready_within.is_some()
                || self.stop_within.is_some();
            if is_of_command {
                return Err(E::custom(
                    "`env`, `ready`, `ready_within` and `stop_within` are for a `command`",
                ));
            }
            return match (namespace, self.kafka) {
                (Some(namespace), None) => Ok(Target::Namespace(namespace)),
                (None, Some(cluster)) => Ok(Target::Kafka(cluster)),
                _ => Err(E::custom(
                    "a target that exists has a `connection_string`, by which Kafka is spoken as well, or `kafka`, not \
                     both",
                )),
            };
        };
        let span = |span: Option<Span>, usual| span.map_or(usual, |Span(span)| span);
        Ok(Target::Command(Box::new(ServiceCommand {
            command,
            namespace,
            kafka: self.kafka,
            env: self.env,
            ready: self.ready.unwrap_or_default(),
            ready_within: span(self.ready_within, READY_WITHIN),
            stop_within: span(self.stop_within, STOP_WITHIN),
        })))
    }
}

/// Checks the section `targets`: a mapping of names to descriptions.
pub(super) fn check_definitions(definitions: &Node) -> Result<(), SettingsError> {
    const SHAPE: &str = "write `targets: {cluster: {kafka: {bootstrap: \"host:9092\"}}}`";
    if definitions.entries().is_empty() {
        return Err(definitions.mistake("targets", "must be a mapping of names to targets", SHAPE));
    }
    for entry in definitions.entries() {
        let key = format!("targets.{}", entry.key);
        if !system::is_name(&entry.key) || entry.key == EMBEDDED {
            let reason =
                "a name consists of letters, digits, `.`, `-` and `_`, and `embedded` has its meaning";
            return Err(entry.value.mistake(&key, reason, SHAPE));
        }
        if entry.value.is_scalar() || entry.value.elements().is_some() {
            return Err(entry.value.mistake(&key, "must be a mapping that describes the target", SHAPE));
        }
    }
    Ok(())
}

/// Puts the definition that `target` names in its place.
pub(super) fn resolve(document: &mut Document, definitions: Option<&Node>) -> Result<(), SettingsError> {
    let Some(choice) = document.value("target").filter(|choice| choice.is_scalar()) else {
        return Ok(());
    };
    let name = choice.written();
    let place = choice.place.clone();
    if name == EMBEDDED {
        return Ok(());
    }
    if let Some(definition) = definitions.and_then(|definitions| definitions.value(&name)) {
        document.put("target", &place, definition.clone());
        return Ok(());
    }
    let entries = definitions.map(Node::entries).unwrap_or_default();
    let known: Vec<&str> =
        std::iter::once(EMBEDDED).chain(entries.iter().map(|entry| entry.key.as_str())).collect();
    let there_are = format!("there are: {}", known.join(", "));
    let advice = match settings::nearest(&name, known.iter().copied()) {
        Some(meant) => format!("did you mean `{meant}`? {there_are}"),
        None => format!("{there_are}; or describe it, such as `{{connection_string: \"${{NAMESPACE}}\"}}`"),
    };
    Err(document.mistake("target", format!("no target is called `{name}`"), advice))
}

const EMBEDDED: &str = "embedded";
const READY_WITHIN: Duration = Duration::from_secs(60);
const STOP_WITHIN: Duration = Duration::from_secs(10);
