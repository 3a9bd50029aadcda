//! The namespace to serve: from a file of ours or of Microsoft's emulators, every mistake of which has its place, or from
//! `--hub`, `--queue` and `--topic` arguments.

use std::path::Path;
use std::str::FromStr;

use hub::namespace::{
    DEFAULT_PARTITIONS, DataDirectoryError, HubConfig, HubError, NamespaceConfig, NamespaceError,
    QueueConfig, TopicConfig,
};
use settings::Document;

use super::emulator;
use super::place::Place;
use crate::exit::CommandError;
use crate::file_kind::FileKind;

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

/// `NAME[:SUBSCRIPTION,…]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct TopicArgument {
    name: String,
    subscriptions: Vec<String>,
}

impl NamespaceSource {
    /// The namespace that the file at `path` describes.
    pub(super) fn read(path: &Path) -> Result<Self, CommandError> {
        let mut document = FileKind::Namespace.read(path)?;
        if emulator::is_emulators(&document) {
            return Ok(Self { config: emulator::read(&document)?, origin: Origin::Emulators(document) });
        }
        document.fill_in_environment()?;
        // A key that is misspelled is told before one that is missing.
        let config = document.typed()?;
        if !ENTITIES.iter().any(|key| document.value(key).is_some()) {
            let advice = "add `hubs: …`, `queues: …` or `topics: …`; an empty list is enough";
            return Err(document.mistake("", "has neither hubs nor queues nor topics", advice).into());
        }
        Ok(Self { config, origin: Origin::Ours(document) })
    }

    /// The default namespace with what these arguments name.
    pub(super) fn of_arguments(hubs: &[HubArgument], queues: &[String], topics: &[TopicArgument]) -> Self {
        let hubs = hubs.iter().map(|hub| HubConfig::new(hub.name.clone(), hub.partitions));
        let topics = topics.iter().map(|topic| {
            let subscriptions = topic.subscriptions.iter().map(String::as_str);
            TopicConfig::new(topic.name.clone(), subscriptions)
        });
        Self {
            config: NamespaceConfig {
                queues: queues.iter().map(QueueConfig::new).collect(),
                topics: topics.collect(),
                ..NamespaceConfig::with_hubs(hubs.collect())
            },
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

    /// A mistake in what is at this path, told at its place in the file.
    pub(super) fn blame(&self, path: &str, reason: &str, advice: String) -> CommandError {
        match &self.origin {
            Origin::Ours(document) => Place::in_ours(document, path).mistake(reason, advice).into(),
            Origin::Emulators(document) => Place::in_emulators(document, path).mistake(reason, advice).into(),
            Origin::Arguments => {
                CommandError::Usage { message: format!("{path}: {reason}"), advice: Some(advice) }
            }
        }
    }

    /// What is wrong with the namespace, told at its place in the file or as a wrong command line.
    pub(super) fn mistake(&self, error: &NamespaceError) -> CommandError {
        let message = error.to_string();
        let advice = match error {
            NamespaceError::DataDirectory {
                cause: DataDirectoryError::PartitionCount { hub, kept, .. },
                ..
            } => format!(
                "declare it with {kept}, omit it, or delete it and its events first: `parshall hub delete {hub}`"
            ),
            NamespaceError::DataDirectory { .. }
            | NamespaceError::KeptHub { .. }
            | NamespaceError::KeptQueue { .. } => {
                return CommandError::Unavailable { message };
            }
            _ => String::new(),
        };
        // The message begins with its place in the words of the library, which this place says more exactly.
        let words_of_place = match error {
            NamespaceError::DataDirectory { .. } => 0,
            NamespaceError::Hub { .. } | NamespaceError::DefaultLog { .. } => 2,
            _ => 1,
        };
        let reason = (0..words_of_place)
            .fold(message.as_str(), |reason, _| reason.split_once(": ").map_or(reason, |(_, rest)| rest));
        let path = path_of(error);
        let place = match &self.origin {
            Origin::Arguments => {
                // Which of the arguments is meant is clear from what is said of it.
                let message = match (argument_of(&path), message.split_once(": ")) {
                    (Some(argument), Some((_, reason))) if words_of_place > 0 => {
                        format!("{argument}: {reason}")
                    }
                    _ => message,
                };
                return CommandError::Usage {
                    message,
                    advice: Some(advice).filter(|advice| !advice.is_empty()),
                };
            }
            Origin::Emulators(document) => Place::in_emulators(document, &path),
            Origin::Ours(document) => Place::in_ours(document, &path),
        };
        place.mistake(reason, advice).into()
    }
}

impl FromStr for HubArgument {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, partitions) = match text.split_once(':') {
            Some((name, count)) => {
                let not_a_number = |_| format!("`{count}` is not a number of partitions, such as 4");
                (name, count.parse().map_err(not_a_number)?)
            }
            None => (text, DEFAULT_PARTITIONS),
        };
        Ok(Self { name: name.to_owned(), partitions })
    }
}

impl FromStr for TopicArgument {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, subscriptions) = match text.split_once(':') {
            Some((name, subscriptions)) => (name, subscriptions.split(',').map(str::to_owned).collect()),
            None => (text, Vec::new()),
        };
        Ok(Self { name: name.to_owned(), subscriptions })
    }
}

/// The argument that says what a path leads to, if it is one that can be repeated.
fn argument_of(path: &str) -> Option<&'static str> {
    let (list, _) = path.split_once('[')?;
    match list {
        "hubs" => Some("--hub"),
        "queues" => Some("--queue"),
        "topics" => Some("--topic"),
        _ => None,
    }
}

/// What the error is about, as a path such as `hubs[1].partitions`.
fn path_of(error: &NamespaceError) -> String {
    let of_hub = |index: &usize, field: &str| format!("hubs[{index}].{field}");
    match error {
        NamespaceError::Host { .. } => "host".to_owned(),
        NamespaceError::IdleTimeout { .. } => "idle_timeout".to_owned(),
        NamespaceError::TopicPartitions { .. } => "topic_partitions".to_owned(),
        NamespaceError::DefaultLog { .. } => "default_log.bytes".to_owned(),
        NamespaceError::NoRule => "authorization_rules".to_owned(),
        NamespaceError::Profile(error) => error.path.to_owned(),
        NamespaceError::Blob(error) => error.path.to_owned(),
        NamespaceError::Queue(error) => error.path.clone(),
        NamespaceError::TokenIssuer(error) => error.path.clone(),
        NamespaceError::EmptyRule { index, field } => {
            format!("authorization_rules[{index}].{field}")
        }
        NamespaceError::RepeatedHub { index, .. } => of_hub(index, "name"),
        NamespaceError::DataDirectory { index: Some(index), .. } => of_hub(index, "partitions"),
        NamespaceError::DataDirectory { index: None, .. } => "hubs".to_owned(),
        NamespaceError::KeptHub { .. } | NamespaceError::KeptQueue { .. } => "storage".to_owned(),
        NamespaceError::LargestMessage { .. } => "largest_message".to_owned(),
        NamespaceError::Hub { index, cause } => of_hub(
            index,
            match cause {
                HubError::Name { .. } => "name",
                HubError::PartitionCount { .. } => "partitions",
                HubError::ConsumerGroup { .. } | HubError::RepeatedConsumerGroup { .. } => "consumer_groups",
                HubError::LogBytes { .. } => "log.bytes",
                HubError::Capture { field, .. } => return of_hub(index, &format!("capture.{field}")),
            },
        ),
    }
}

/// What a namespace has, by the keys of a file.
const ENTITIES: [&str; 3] = ["hubs", "queues", "topics"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hub_argument_is_a_name_and_perhaps_a_number_of_partitions() {
        let hub = |name: &str, partitions| Ok(HubArgument { name: name.into(), partitions });
        assert_eq!("audit".parse(), hub("audit", 4));
        assert_eq!("orders:32".parse(), hub("orders", 32));
        for text in ["orders:", "orders:many", "orders:65536", "orders:1:2"] {
            assert!(text.parse::<HubArgument>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_topic_argument_is_a_name_and_perhaps_subscriptions() {
        let topic = |name: &str, subscriptions: &[&str]| {
            Ok(TopicArgument {
                name: name.into(),
                subscriptions: subscriptions.iter().map(ToString::to_string).collect(),
            })
        };
        assert_eq!("news".parse(), topic("news", &[]));
        assert_eq!("news:all,urgent".parse(), topic("news", &["all", "urgent"]));
    }
}
