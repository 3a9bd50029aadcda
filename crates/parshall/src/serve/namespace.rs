//! The namespace to serve: from a file of ours or of Microsoft's emulator, every mistake of which has its place, or from
//! `--hub` arguments.

use std::path::Path;
use std::str::FromStr;

use hub::namespace::{DataDirectoryError, HubConfig, HubError, NamespaceConfig, NamespaceError};
use settings::{Document, Node};

use super::emulator;
use crate::exit::CommandError;

/// A namespace, and where its description can be blamed.
#[derive(Debug)]
pub(super) struct NamespaceSource {
    config: NamespaceConfig,
    origin: Origin,
}

/// What there is to point at.
#[derive(Debug)]
enum Origin {
    /// A file in our own words.
    Ours(Document),
    /// The emulator's `Config.json`.
    Emulators(Document),
    /// The command line.
    Arguments,
}

/// `NAME[:PARTITIONS]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct HubArgument {
    name: String,
    partitions: u16,
}

impl NamespaceSource {
    /// The namespace that the file at `path` describes.
    pub(super) fn read(path: &Path) -> Result<Self, CommandError> {
        let mut document = Document::read(path)?;
        if emulator::is_emulators(&document) {
            return Ok(Self {
                config: emulator::read(&document)?,
                origin: Origin::Emulators(document),
            });
        }
        document.fill_in_environment()?;
        Ok(Self {
            config: document.typed()?,
            origin: Origin::Ours(document),
        })
    }

    /// The default namespace with these hubs.
    pub(super) fn of_hubs(hubs: &[HubArgument]) -> Self {
        let hubs = hubs
            .iter()
            .map(|hub| HubConfig::new(hub.name.clone(), hub.partitions));
        Self {
            config: NamespaceConfig::with_hubs(hubs.collect()),
            origin: Origin::Arguments,
        }
    }

    /// The default namespace, with one hub to begin with.
    pub(super) fn of_default_hub() -> Self {
        Self {
            config: NamespaceConfig::with_hubs(vec![HubConfig::new("events", DEFAULT_PARTITIONS)]),
            origin: Origin::Arguments,
        }
    }

    pub(super) fn config(&self) -> &NamespaceConfig {
        &self.config
    }

    /// The namespace, for what the command line says besides.
    pub(super) fn config_mut(&mut self) -> &mut NamespaceConfig {
        &mut self.config
    }

    /// What is wrong with the namespace, told at its place in the file or as a wrong command line.
    pub(super) fn mistake(&self, error: &NamespaceError) -> CommandError {
        let message = error.to_string();
        let advice = match error {
            NamespaceError::DataDirectory {
                cause: DataDirectoryError::PartitionCount { hub, kept, .. },
                ..
            } => format!(
                "declare it with {kept}, or not at all, or delete it and its events first: `parshall hub delete {hub}`"
            ),
            NamespaceError::DataDirectory { .. } | NamespaceError::KeptHub { .. } => {
                return CommandError::Unavailable { message };
            }
            _ => String::new(),
        };
        let (list, index, field) = place_of(error);
        // The message begins with its place in the words of the library, which this place says more exactly.
        let words_of_place = match error {
            NamespaceError::DataDirectory { .. } => 0,
            NamespaceError::Hub { .. } => 2,
            _ => 1,
        };
        let reason = (0..words_of_place).fold(message.as_str(), |reason, _| {
            reason.split_once(": ").map_or(reason, |(_, rest)| rest)
        });
        let mistake = match &self.origin {
            Origin::Arguments => {
                return CommandError::Usage {
                    message,
                    advice: Some(advice).filter(|advice| !advice.is_empty()),
                };
            }
            Origin::Emulators(document) => {
                let hub = index
                    .and_then(|index| Some((index, emulator::hub_nodes(document)?.get(index)?)));
                match hub {
                    Some((index, hub)) => {
                        let (name, value) = emulator::field(hub, field);
                        let key = format!("{}[{index}].{name}", emulator::HUBS);
                        value.unwrap_or(hub).mistake(&key, reason, advice)
                    }
                    None => document.mistake(list, reason, advice),
                }
            }
            Origin::Ours(document) => {
                let element = index.and_then(|index| document.value(list)?.elements()?.get(index));
                let key = match index {
                    Some(index) => format!("{list}[{index}].{field}"),
                    None => list.to_owned(),
                };
                match element.map(|element| nearest_value(element, field)) {
                    Some(node) => node.mistake(&key, reason, advice),
                    None => document.mistake(list, reason, advice),
                }
            }
        };
        mistake.into()
    }
}

impl FromStr for HubArgument {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, partitions) = match text.split_once(':') {
            Some((name, count)) => {
                let not_a_number =
                    |_| format!("`{count}` is not a number of partitions, such as 4");
                (name, count.parse().map_err(not_a_number)?)
            }
            None => (text, DEFAULT_PARTITIONS),
        };
        Ok(Self {
            name: name.to_owned(),
            partitions,
        })
    }
}

/// List or key at the top of the file, position in the list, field of the element.
fn place_of(error: &NamespaceError) -> (&'static str, Option<usize>, &'static str) {
    match error {
        NamespaceError::Host { .. } => ("host", None, ""),
        NamespaceError::IdleTimeout { .. } => ("idle_timeout", None, ""),
        NamespaceError::NoRule => ("authorization_rules", None, ""),
        NamespaceError::Profile(error) => (error.path, None, ""),
        NamespaceError::Blob(error) => (error.path, None, ""),
        NamespaceError::EmptyRule { index, field } => ("authorization_rules", Some(*index), field),
        NamespaceError::RepeatedHub { index, .. } => ("hubs", Some(*index), "name"),
        NamespaceError::DataDirectory { index, .. } => ("hubs", *index, "partitions"),
        NamespaceError::KeptHub { .. } => ("storage", None, ""),
        NamespaceError::Hub { index, cause } => {
            let field = match cause {
                HubError::Name { .. } => "name",
                HubError::PartitionCount { .. } => "partitions",
                HubError::ConsumerGroup { .. } | HubError::RepeatedConsumerGroup { .. } => {
                    "consumer_groups"
                }
                HubError::LogBytes { .. } => "log.bytes",
            };
            ("hubs", Some(*index), field)
        }
    }
}

/// The value at a dotted path of `node`, or of as much of the path as there is.
fn nearest_value<'a>(node: &'a Node, path: &str) -> &'a Node {
    let mut nearest = node;
    for key in path.split('.') {
        match nearest.value(key) {
            Some(value) => nearest = value,
            None => break,
        }
    }
    nearest
}

const DEFAULT_PARTITIONS: u16 = 4;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hub_argument_is_a_name_and_perhaps_a_number_of_partitions() {
        let hub = |name: &str, partitions| {
            Ok(HubArgument {
                name: name.into(),
                partitions,
            })
        };
        assert_eq!("audit".parse(), hub("audit", 4));
        assert_eq!("orders:32".parse(), hub("orders", 32));
        for text in ["orders:", "orders:many", "orders:65536", "orders:1:2"] {
            assert!(text.parse::<HubArgument>().is_err(), "{text}");
        }
    }
}
