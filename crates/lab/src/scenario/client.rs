//! Which client speaks Kafka at an end of the load or of a sink: one of ours, or a program that the role starts. Where the load
//! sends by a producer, a program can be that over any protocol.
//!
//! The section `clients` defines programs by name, and the key `client` of an end chooses one of them by it, or one of ours.
//! What a program is told, and what it says, is written down in `docs/external-clients.md`.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use pipeline::kafka::KafkaClient;
use serde::de::IntoDeserializer as _;
use serde::de::value::MapAccessDeserializer;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use settings::{Document, Node, SettingsError};

use super::{Secret, system};

/// What speaks at an end. As a parameter it is written as a name, or as the mapping that describes a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EndClient {
    /// A client within the role.
    Ours(KafkaClient),
    /// A program of its own.
    Program(Box<ClientProgram>),
}

/// A client as a program, which the role starts for each of its workers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClientProgram {
    /// What it is called in results and messages.
    #[serde(default)]
    pub name: String,
    /// Program and arguments.
    pub command: Vec<String>,
    /// Environment variables beside the lab's own and those that tell the program what to do.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, Secret>,
    /// How long it may take to be connected.
    #[serde(default = "ready_within", with = "units::duration")]
    pub ready_within: Duration,
    /// What must be there besides the program: files of the folder of peers, or programs on the path.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub requires: Vec<String>,
    /// What builds it. A case whose client is not there is then skipped, with this as its advice.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub build: Option<String>,
}

impl EndClient {
    /// The program, if it is one.
    #[must_use]
    pub fn program(&self) -> Option<&ClientProgram> {
        match self {
            Self::Ours(_) => None,
            Self::Program(program) => Some(program),
        }
    }

    /// What results call it.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            Self::Ours(KafkaClient::Native) => NATIVE,
            Self::Ours(KafkaClient::Librdkafka) => LIBRDKAFKA,
            Self::Program(program) => &program.name,
        }
    }
}

impl Default for EndClient {
    fn default() -> Self {
        Self::Ours(KafkaClient::default())
    }
}

impl From<KafkaClient> for EndClient {
    fn from(client: KafkaClient) -> Self {
        Self::Ours(client)
    }
}

impl Serialize for EndClient {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Ours(client) => client.serialize(serializer),
            Self::Program(program) => program.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for EndClient {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;

        impl<'de> de::Visitor<'de> for Visitor {
            type Value = EndClient;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("`native`, `librdkafka`, or a name of the section `clients`")
            }

            fn visit_str<E: de::Error>(self, name: &str) -> Result<EndClient, E> {
                KafkaClient::deserialize(name.into_deserializer()).map(EndClient::Ours)
            }

            fn visit_map<A: de::MapAccess<'de>>(self, map: A) -> Result<EndClient, A::Error> {
                let program = ClientProgram::deserialize(MapAccessDeserializer::new(map))?;
                Ok(EndClient::Program(Box::new(program)))
            }
        }

        deserializer.deserialize_any(Visitor)
    }
}

/// Checks the section `clients`: a mapping of names to programs that do not name themselves.
pub(super) fn check_definitions(definitions: &Node) -> Result<(), SettingsError> {
    if definitions.entries().is_empty() {
        return Err(definitions.mistake("clients", "must be a mapping of names to programs", SHAPE));
    }
    for entry in definitions.entries() {
        let key = format!("clients.{}", entry.key);
        if !system::is_name(&entry.key) || OURS.contains(&entry.key.as_str()) {
            let reason =
                "a name consists of letters, digits, `.`, `-` and `_`, and is not that of a client of ours";
            return Err(entry.value.mistake(&key, reason, SHAPE));
        }
        if entry.value.is_scalar() || entry.value.elements().is_some() {
            return Err(entry.value.mistake(&key, "must be a mapping that describes the program", SHAPE));
        }
        if let Some(name) = entry.value.value("name") {
            return Err(name.mistake(&key, "the program has a name already, by its key", "leave `name` out"));
        }
    }
    Ok(())
}

/// Puts the definitions that ends name in the places of their names.
pub(super) fn resolve(document: &mut Document, definitions: Option<&Node>) -> Result<(), SettingsError> {
    let Some(definitions) = definitions else {
        return Ok(());
    };
    for end in ENDS {
        let path = format!("{end}.client");
        let Some(choice) = document.value(&path).filter(|choice| choice.is_scalar()) else {
            continue;
        };
        let name = choice.written();
        let place = choice.place.clone();
        if let Some(definition) = definitions.value(&name) {
            document.put(&path, &place, definition.clone());
            let name_path = format!("{path}.name");
            document.put(
                &name_path,
                &place,
                Document::parse("clients", &format!("{name:?}"))?.root().clone(),
            );
        } else if !OURS.contains(&name.as_str()) {
            let names = definitions.entries().iter().map(|entry| entry.key.as_str());
            let known: Vec<&str> = OURS.into_iter().chain(names).collect();
            let advice = format!("there are: {}", known.join(", "));
            return Err(document.mistake(&path, format!("no client is called `{name}`"), advice));
        }
    }
    Ok(())
}

fn ready_within() -> Duration {
    Duration::from_secs(60)
}

/// The ends that may have a program as their client.
const ENDS: [&str; 2] = ["topology.load", "topology.sink"];

const NATIVE: &str = "native";
const LIBRDKAFKA: &str = "librdkafka";
const OURS: [&str; 2] = [NATIVE, LIBRDKAFKA];

const SHAPE: &str = "write `clients: {mine: {command: [./mine]}}`";
