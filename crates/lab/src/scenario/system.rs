//! Which system is measured: our relay, or any command in its place.
//!
//! The section `suts` defines systems by name, and the parameter `sut` chooses one of them, or describes one in place.
//! What a command is told, and how, is written down in `docs/external-systems.md`. One that forwards nothing, such as a
//! consumer that writes to a database, says by [`Done`] what shows that it has done an event.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use settings::{Document, Node, SettingsError};

use super::Secret;

/// The system in the relay's place. As a parameter it is written as a name, or as this mapping.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SystemUnderTest {
    /// What it is called in results and messages.
    pub name: String,
    /// How it reaches the hubs of the embedded service.
    pub transport: SystemTransport,
    /// Program and arguments; without them it is our relay.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub command: Option<Vec<String>>,
    /// Environment variables beside the lab's own and those that tell the command what to do.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, Secret>,
    /// What shows that it has done an event, if it forwards nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub done: Option<Done>,
    /// How it is known to be ready.
    pub ready: Readiness,
    /// How long it may take to be ready, and then again until its first event arrives.
    #[serde(with = "units::duration")]
    pub ready_within: Duration,
    /// How long it may take to end after SIGTERM, before SIGKILL.
    #[serde(with = "units::duration")]
    pub stop_within: Duration,
    /// What must be there besides the program: files of the folder of peers, or programs on the path.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub requires: Vec<String>,
    /// What builds it. A case whose system is not there is then skipped, with this as its advice.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub build: Option<String>,
}

/// How a system under test reaches the hubs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SystemTransport {
    /// AMQP over plain TCP.
    #[default]
    Tcp,
    /// AMQP over TLS.
    Tls,
}

/// What shows that a consumer has done an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Done {
    /// A checkpoint in the storage account of the embedded service covers it.
    Checkpoint,
    /// The message is completed.
    Settlement,
    /// A line of its standard output says so.
    Line,
}

/// When a command counts as ready, so that the load begins. Written as `first-event`, `{line: listening}` or
/// `{after: 5 s}`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Readiness {
    /// At once: the load begins, and the warm-up when the first event arrives. It does so whatever is written here.
    #[default]
    FirstEvent,
    /// When a line of its standard output contains this text.
    Line(String),
    /// So long after its start.
    After(#[serde(with = "units::duration")] Duration),
}

impl SystemUnderTest {
    /// Whether it is our relay, whatever the transport.
    #[must_use]
    pub const fn is_ours(&self) -> bool {
        self.command.is_none()
    }

    /// The system as the document describes it, with the name that chose it or, where none did, that of its program.
    pub(super) fn named(mut self, chosen: Option<String>) -> Self {
        let program = self.command.as_ref().and_then(|command| command.first());
        match (chosen, program) {
            (Some(name), _) => self.name = name,
            (None, Some(program)) if self.name == OURS => {
                let file = program.rsplit('/').next().unwrap_or_default();
                file.clone_into(&mut self.name);
            }
            (None, _) => {}
        }
        self
    }

    /// Whether it is our relay as it is without a word about it.
    pub(super) fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

impl Default for SystemUnderTest {
    fn default() -> Self {
        Self {
            name: OURS.to_owned(),
            transport: SystemTransport::Tcp,
            command: None,
            env: BTreeMap::new(),
            done: None,
            ready: Readiness::FirstEvent,
            ready_within: Duration::from_secs(60),
            stop_within: Duration::from_secs(10),
            requires: Vec::new(),
            build: None,
        }
    }
}

/// Checks the section `suts`: a mapping of names to mappings that do not name themselves.
pub(super) fn check_definitions(definitions: &Node) -> Result<(), SettingsError> {
    if definitions.entries().is_empty() {
        let reason = "must be a mapping of names to systems";
        return Err(definitions.mistake("suts", reason, SHAPE));
    }
    for entry in definitions.entries() {
        let key = format!("suts.{}", entry.key);
        if !is_name(&entry.key) {
            let reason = "a name consists of letters, digits, `.`, `-` and `_`";
            return Err(entry.value.mistake(&key, reason, SHAPE));
        }
        if entry.value.is_scalar() || entry.value.elements().is_some() {
            let reason = "must be a mapping that describes the system";
            return Err(entry.value.mistake(&key, reason, SHAPE));
        }
        if let Some(name) = entry.value.value("name") {
            let reason = "the system has a name already, by its key";
            return Err(name.mistake(&key, reason, "leave `name` out"));
        }
    }
    Ok(())
}

/// Puts the definition that `sut` names in its place, and gives that name. `None` if the document describes the system
/// itself, or none.
pub(super) fn resolve(
    document: &mut Document,
    definitions: Option<&Node>,
) -> Result<Option<String>, SettingsError> {
    let Some(choice) = document.value("sut").filter(|choice| choice.is_scalar()) else {
        return Ok(None);
    };
    let name = choice.written();
    let place = choice.place.clone();
    if let Some(definition) = definitions.and_then(|definitions| definitions.value(&name)) {
        document.put("sut", &place, definition.clone());
        return Ok(Some(name));
    }
    if name == OURS {
        document.take("sut");
        return Ok(Some(name));
    }
    let entries = definitions.map(Node::entries).unwrap_or_default();
    let mut known: Vec<&str> = entries.iter().map(|entry| entry.key.as_str()).collect();
    if !known.contains(&OURS) {
        known.insert(0, OURS);
    }
    let there_are = format!("there are: {}", known.join(", "));
    let advice = match settings::nearest(&name, known.iter().copied()) {
        Some(meant) => format!("did you mean `{meant}`? {there_are}"),
        None => there_are,
    };
    let reason = format!("no system is called `{name}`");
    Err(document.mistake("sut", reason, advice))
}

/// Whether `text` can be the name of a system: cases and files are named after it.
pub(super) fn is_name(text: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b".-_".contains(&byte);
    !text.is_empty() && text.len() <= LONGEST_NAME && text.bytes().all(is_plain)
}

/// The name of our relay.
const OURS: &str = "parshall";

const LONGEST_NAME: usize = 64;

const SHAPE: &str = "write `suts: {mine: {command: [./mine, --fast]}}`";
