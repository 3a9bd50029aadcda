//! The namespace to serve: from a file of ours or of Microsoft's emulator, every mistake of which has its place, or from
//! `--hub` arguments.

use std::path::Path;
use std::str::FromStr;

use hub::namespace::{HubConfig, HubError, NamespaceConfig, NamespaceError};
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
        let (list, index, field) = place_of(error);
        // The message begins with its place in the words of the library, which this place says more exactly.
        let mut reason = message
            .split_once(": ")
            .map_or(message.as_str(), |(_, reason)| reason);
        if matches!(error, NamespaceError::Hub { .. }) {
            reason = reason.split_once(": ").map_or(reason, |(_, reason)| reason);
        }
        let mistake = match &self.origin {
            Origin::Arguments => {
                return CommandError::Usage {
                    message,
                    advice: None,
                };
            }
            Origin::Emulators(document) => {
                let hub = index
                    .and_then(|index| Some((index, emulator::hub_nodes(document)?.get(index)?)));
                match hub {
                    Some((index, hub)) => {
                        let (name, value) = emulator::field(hub, field);
                        let key = format!("{}[{index}].{name}", emulator::HUBS);
                        value.unwrap_or(hub).mistake(&key, reason, "")
                    }
                    None => document.mistake(list, reason, ""),
                }
            }
            Origin::Ours(document) => {
                let element = index.and_then(|index| document.value(list)?.elements()?.get(index));
                let key = match index {
                    Some(index) => format!("{list}[{index}].{field}"),
                    None => list.to_owned(),
                };
                match element.map(|element| nearest_value(element, field)) {
                    Some(node) => node.mistake(&key, reason, ""),
                    None => document.mistake(list, reason, ""),
                }
            }
        };
        mistake.into()
    }
}

impl FromStr for HubArgument {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, partitions) = text.split_once(':').unwrap_or((text, DEFAULT_PARTITIONS));
        let partitions = partitions.parse().map_err(|_not_a_number| {
            format!("`{partitions}` is not a number of partitions, such as 4")
        })?;
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
        NamespaceError::EmptyRule { index, field } => ("authorization_rules", Some(*index), field),
        NamespaceError::RepeatedHub { index, .. } => ("hubs", Some(*index), "name"),
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

const DEFAULT_PARTITIONS: &str = "4";

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
