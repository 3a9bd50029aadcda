//! The sections of a pipeline file that are about Kafka, and their rules.
//!
//! A cluster is named by `bootstrap` and what `properties` say; the Kafka endpoint of Event Hubs by a connection string, from
//! which the properties follow.

use std::path::{Path, PathBuf};

use access::ConnectionString;
use connect::kafka::{GroupOffsetStore, KafkaOptions, PropertyError};
use serde::{Deserialize, Deserializer};
use settings::{Document, SettingsError};

use super::file::connection_string;
use super::kafka::{BOOTSTRAP, KafkaClient, KafkaProperties};
use super::topics::{TOPIC, TopicPattern};
use super::vocabulary::{Delivery, Ownership, RetryKeys};
use super::{KafkaSinkConfig, KafkaSourceConfig, Partitions, ReadingConfig};

/// A topic to read.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct KafkaSource {
    pub(super) bootstrap: Option<String>,
    #[serde(default, alias = "fully_qualified_namespace", deserialize_with = "optional_connection_string")]
    pub(super) connection_string: Option<ConnectionString>,
    pub(super) topic: Option<String>,
    /// In its place: all that match.
    pub(super) topics: Option<TopicPattern>,
    /// Whose progress it is.
    #[serde(default = "group")]
    pub(super) group: String,
    pub(super) partitions: Option<Vec<u32>>,
    #[serde(default)]
    pub(super) client: KafkaClient,
    #[serde(default)]
    pub(super) properties: KafkaProperties,
    pub(super) certificate_authority: Option<PathBuf>,
}

/// A topic to send to.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct KafkaSink {
    pub(super) bootstrap: Option<String>,
    #[serde(default, alias = "fully_qualified_namespace", deserialize_with = "optional_connection_string")]
    pub(super) connection_string: Option<ConnectionString>,
    pub(super) topic: Option<String>,
    #[serde(default)]
    pub(super) client: KafkaClient,
    #[serde(default)]
    pub(super) properties: KafkaProperties,
    /// Tries of a send to it, where they are others than the pipeline's.
    pub(super) retry: Option<RetryKeys>,
    /// Only events for which this is true go there.
    pub(super) when: Option<String>,
    pub(super) certificate_authority: Option<PathBuf>,
}

/// What both ends say of a topic.
struct Written<'a> {
    bootstrap: Option<&'a str>,
    connection_string: Option<&'a ConnectionString>,
    topic: Option<&'a str>,
    client: KafkaClient,
    properties: &'a KafkaProperties,
    certificate_authority: Option<&'a Path>,
}

impl KafkaSource {
    /// The topic by its own key or by the connection string; what stands for each of several.
    pub(super) fn topic(&self) -> Option<&str> {
        self.written().topic()
    }

    /// What the cluster is known by.
    pub(super) fn cluster(&self) -> String {
        self.written().cluster()
    }

    pub(super) fn check(&self, document: &Document) -> Result<(), SettingsError> {
        let section = "source.kafka";
        if let Some(topics) = &self.topics {
            let of_entity = self.connection_string.as_ref().and_then(|string| string.entity_path.as_deref());
            if let Some(topic) = self.topic.as_deref().or(of_entity) {
                let reason = format!("the topic `{topic}` is named, too");
                let advice = "name a topic, or give a pattern with a connection string of the namespace";
                return Err(document.mistake(&format!("{section}.topics"), reason, advice));
            }
            if self.client != KafkaClient::Native {
                let reason = "topics are looked for by Parshall's own client only";
                return Err(document.mistake(&format!("{section}.client"), reason, "leave it out"));
            }
            if self.properties.get("group.instance.id").is_some() {
                let path = format!("{section}.properties.group.instance.id");
                let reason = "with `topics` there is a member for each topic, and all would have this name";
                return Err(document.mistake(&path, reason, "leave it out"));
            }
            topics.check(document, &format!("{section}.topics"))?;
        }
        self.written().check(document, section, KafkaOptions::check_source)?;
        if self.group.is_empty() {
            let path = format!("{section}.group");
            return Err(document.mistake(
                &path,
                "the name is empty",
                "name a consumer group, or leave it out",
            ));
        }
        Ok(())
    }

    /// Checks what is about members of the group, of which the relay is one or not.
    pub(super) fn check_membership(
        &self,
        document: &Document,
        ownership: &Ownership,
    ) -> Result<(), SettingsError> {
        let section = "source.kafka";
        if !ownership.is_membership() {
            let is_idle = |&(name, _): &(&str, &str)| GroupOffsetStore::is_of_members(name);
            return match self.properties.iter().find(is_idle) {
                Some((name, _)) if self.client == KafkaClient::Native => Err(document.mistake(
                    &format!("{section}.properties.{name}"),
                    "it has no effect: the relay is no member of the group",
                    "leave it out, or add `ownership: {mode: group}`",
                )),
                _ => Ok(()),
            };
        }
        if self.partitions.is_some() {
            let reason = "with `ownership: {mode: group}` the group says who reads which partition";
            let advice = "leave `partitions` or `ownership` out";
            return Err(document.mistake(&format!("{section}.partitions"), reason, advice));
        }
        if self.client != KafkaClient::Native {
            let reason = "members of a group need Parshall's own client";
            return Err(document.mistake(&format!("{section}.client"), reason, "leave it out"));
        }
        for key in ["renew", "expire", "identity"] {
            let path = format!("ownership.{key}");
            if document.value(&path).is_some() {
                let reason = "it has no effect for members of a group";
                let advice = "set the properties session.timeout.ms and heartbeat.interval.ms of the source, or \
                              client.id and group.instance.id";
                return Err(document.mistake(&path, reason, advice));
            }
        }
        Ok(())
    }

    /// # Panics
    /// When it was not [checked](Self::check).
    pub(super) fn into_config(self, reading: ReadingConfig) -> KafkaSourceConfig {
        let options = self.written().options();
        let reading = reading.of_member(&options);
        KafkaSourceConfig {
            options,
            group: self.group,
            topics: self.topics,
            reading: ReadingConfig {
                partitions: self.partitions.map_or(Partitions::All, Partitions::Listed),
                // The answers of brokers are as long as the properties say.
                adapt_prefetch: None,
                ..reading
            },
        }
    }

    fn written(&self) -> Written<'_> {
        Written {
            bootstrap: self.bootstrap.as_deref(),
            connection_string: self.connection_string.as_ref(),
            topic: self.topics.as_ref().map(|_| TOPIC).or(self.topic.as_deref()),
            client: self.client,
            properties: &self.properties,
            certificate_authority: self.certificate_authority.as_deref(),
        }
    }
}

impl KafkaSink {
    /// The topic by its own key or by the connection string.
    pub(super) fn topic(&self) -> Option<&str> {
        self.written().topic()
    }

    /// What the cluster is known by.
    pub(super) fn cluster(&self) -> String {
        self.written().cluster()
    }

    /// The transactional id that is given.
    pub(super) fn transactional_id(&self) -> Option<&str> {
        self.properties.get("transactional.id")
    }

    /// Checks what stands at `section` of the document.
    pub(super) fn check(
        &self,
        document: &Document,
        section: &str,
        delivery: Delivery,
    ) -> Result<(), SettingsError> {
        let check = match delivery {
            Delivery::AtLeastOnce => KafkaOptions::check_sink,
            Delivery::ExactlyOnce => KafkaOptions::check_transactional_sink,
        };
        self.written().check(document, section, check)
    }

    /// The topic, and how it is reached.
    pub(super) fn options(&self) -> KafkaOptions {
        self.written().options()
    }

    /// # Panics
    /// When it was not [checked](Self::check).
    pub(super) fn into_config(self) -> KafkaSinkConfig {
        KafkaSinkConfig { options: self.options() }
    }

    fn written(&self) -> Written<'_> {
        Written {
            bootstrap: self.bootstrap.as_deref(),
            connection_string: self.connection_string.as_ref(),
            topic: self.topic.as_deref(),
            client: self.client,
            properties: &self.properties,
            certificate_authority: self.certificate_authority.as_deref(),
        }
    }
}

impl<'a> Written<'a> {
    fn topic(&self) -> Option<&'a str> {
        let of_entity = self.connection_string.and_then(|string| string.entity_path.as_deref());
        self.topic.or(of_entity).filter(|topic| !topic.is_empty())
    }

    fn cluster(&self) -> String {
        self.properties().get(BOOTSTRAP).unwrap_or_default().to_owned()
    }

    /// Those that follow from the other keys, and on top of them those that are given.
    fn properties(&self) -> KafkaProperties {
        let mut properties = match (self.connection_string, self.bootstrap) {
            (Some(string), _) => KafkaProperties::of_connection_string(string),
            (None, Some(bootstrap)) => KafkaProperties::from_iter([(BOOTSTRAP, bootstrap)]),
            (None, None) => KafkaProperties::default(),
        };
        if let Some(authority) = self.certificate_authority {
            properties.trust(authority);
        }
        properties.overlaid(self.properties)
    }

    fn options(&self) -> KafkaOptions {
        let client = self.client.available().unwrap_or_default();
        self.properties().options(self.topic().unwrap_or_default(), client)
    }

    fn check(
        &self,
        document: &Document,
        section: &str,
        check: impl Fn(&KafkaOptions) -> Result<(), PropertyError>,
    ) -> Result<(), SettingsError> {
        let mistake = |key: &str, reason: &str, advice: &str| {
            let path = match key {
                "" => section.to_owned(),
                key => format!("{section}.{key}"),
            };
            Err(document.mistake(&path, reason, advice))
        };
        match (self.bootstrap, self.connection_string) {
            (Some(_), Some(_)) => {
                let reason = "`connection_string` is given, too";
                return mistake(
                    "bootstrap",
                    reason,
                    "a connection string names the broker: leave one of them out",
                );
            }
            (None, None) => {
                let reason = "no cluster is given";
                let advice = "add `bootstrap: <host>:<port>`, or `connection_string` for Event Hubs";
                return mistake("", reason, advice);
            }
            _ => {}
        }
        if self.properties.get(BOOTSTRAP).is_some() {
            let reason = "the brokers have a key of their own";
            return mistake("properties.bootstrap.servers", reason, "put them into `bootstrap`");
        }
        if self.topic().is_none() {
            return mistake("topic", "no topic is given", "add `topic: <name>`");
        }
        let Some(client) = self.client.available() else {
            let reason = "this program was built without librdkafka";
            return mistake("client", reason, "leave it out for Parshall's own client");
        };
        let options = self.properties().options(self.topic().unwrap_or_default(), client);
        check(&options).map_err(|error| {
            let path = match error.name.as_str() {
                BOOTSTRAP => format!("{section}.bootstrap"),
                name if self.properties.get(name).is_some() => format!("{section}.properties.{name}"),
                _ => format!("{section}.properties"),
            };
            document.mistake(&path, format!("property {}: {}", error.name, error.reason), error.advice)
        })
    }
}

fn optional_connection_string<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<ConnectionString>, D::Error> {
    connection_string(deserializer).map(Some)
}

fn group() -> String {
    "parshall".to_owned()
}
