//! All topics of a cluster that match a pattern, each of them carried by a pipeline of its own.
//!
//! ```yaml
//! source:
//!   kafka: {bootstrap: ..., topics: {match: 'orders-.*', except: '.*-test'}}
//! sink:
//!   event_hubs: {connection_string: ..., hub: '{topic}'}
//! ```
//!
//! In the names of sinks `{topic}` stands for the name of the topic. What the pipelines may hold is divided among those of the
//! topics that there are at first. A copy that would itself match is refused: it would be copied again and again.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use connect::kafka;
use connect::service::ServiceError;
use connect::service_bus::Entity;
use regex_lite::Regex;
use serde::{Deserialize, Deserializer, de};
use settings::{Document, SettingsError};

use super::kafka::BOOTSTRAP;
use super::{CheckpointStoreConfig, KafkaSourceConfig, PipelineConfig, SinkConfig, SourceConfig};

/// Stands for the name of a topic in the names of sinks.
pub const TOPIC: &str = "{topic}";

/// Which topics are read.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TopicPattern {
    /// The whole name matches this regular expression,
    #[serde(rename = "match", deserialize_with = "whole_name")]
    include: WholeName,
    /// and not this one.
    #[serde(default, deserialize_with = "optional_whole_name")]
    except: Option<WholeName>,
    /// How often new topics are looked for.
    #[serde(default = "refresh", with = "units::duration")]
    refresh: Duration,
}

/// A regular expression for whole names.
#[derive(Clone, Debug)]
struct WholeName {
    text: String,
    regex: Regex,
}

/// A copy that would be copied again.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the copy `{copy}` of the topic `{topic}` matches `topics`, too: it would be copied again and again")]
pub struct CopyOfCopy {
    /// The topic.
    pub topic: String,
    /// The topic of the same cluster to which it would be copied.
    pub copy: String,
}

impl TopicPattern {
    /// Whether a topic is to be read.
    #[must_use]
    pub fn matches(&self, topic: &str) -> bool {
        self.include.regex.is_match(topic)
            && !self.except.as_ref().is_some_and(|except| except.regex.is_match(topic))
    }

    /// How often new topics are looked for.
    #[must_use]
    pub const fn refresh(&self) -> Duration {
        self.refresh
    }

    pub(super) fn check(&self, document: &Document, path: &str) -> Result<(), SettingsError> {
        let allowed = REFRESH_MIN..=REFRESH_MAX;
        if allowed.contains(&self.refresh) {
            return Ok(());
        }
        let reason = format!("{} is out of range", units::duration::text(self.refresh));
        Err(document.mistake(&format!("{path}.refresh"), reason, "allowed are 100 ms to 24 h"))
    }
}

impl fmt::Display for TopicPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.include.text)?;
        match &self.except {
            Some(except) => write!(f, ", except {}", except.text),
            None => Ok(()),
        }
    }
}

impl PipelineConfig {
    /// Which topics are read, if they are several.
    #[must_use]
    pub const fn topics(&self) -> Option<&TopicPattern> {
        match &self.source {
            SourceConfig::Kafka(source) => source.topics.as_ref(),
            SourceConfig::EventHubs(_) | SourceConfig::ServiceBus(_) => None,
        }
    }

    /// The pipeline of one of several topics, with its name in the place of [`TOPIC`] and with `1 / share` of the memory.
    ///
    /// # Errors
    /// When its copy would be read again.
    pub fn of_topic(&self, topic: &str, share: usize) -> Result<Self, CopyOfCopy> {
        let mut config = self.clone();
        let mut cluster = None;
        if let SourceConfig::Kafka(source) = &mut config.source {
            fill_in(&mut source.options.topic, topic);
            config.relay.group.hub = Arc::from(source.options.topic.as_str());
            if let CheckpointStoreConfig::Transactions(transactions) = &mut source.reading.checkpoint_store {
                fill_in(&mut transactions.id, topic);
                fill_in(&mut transactions.sink.topic, topic);
            }
            cluster = source.topics.take().map(|topics| (topics, source.options.properties.clone()));
        }
        for sink in config.sinks.iter_mut().chain(&mut config.dead_letters) {
            match sink {
                SinkConfig::EventHubs(to) => fill_in(&mut to.hub, topic),
                SinkConfig::ServiceBus(to) => match &mut to.entity {
                    Entity::Queue(name) | Entity::Topic(name) => fill_in(name, topic),
                    Entity::Subscription { topic: name, .. } => fill_in(name, topic),
                },
                // Its names have the topic from the source.
                SinkConfig::Archive(_) => {}
                SinkConfig::Kafka(to) => {
                    fill_in(&mut to.options.topic, topic);
                    let copy = &to.options.topic;
                    if let Some((topics, properties)) = &cluster
                        && properties.get(BOOTSTRAP) == to.options.properties.get(BOOTSTRAP)
                        && topics.matches(copy)
                    {
                        return Err(CopyOfCopy { topic: topic.to_owned(), copy: copy.clone() });
                    }
                }
            }
        }
        config.relay.max_held_bytes /= share.max(1);
        Ok(config)
    }
}

impl KafkaSourceConfig {
    /// The topics that there are now and that are to be read, in alphabetical order.
    ///
    /// # Errors
    /// No broker can be reached, or the login is refused.
    pub async fn matching_topics(&self) -> Result<Vec<String>, ServiceError> {
        let mut topics = kafka::topics(&self.options.properties).await?;
        topics.retain(|topic| self.topics.as_ref().is_some_and(|pattern| pattern.matches(topic)));
        Ok(topics)
    }
}

fn fill_in(name: &mut String, topic: &str) {
    if name.contains(TOPIC) {
        *name = name.replace(TOPIC, topic);
    }
}

fn whole_name<'de, D: Deserializer<'de>>(deserializer: D) -> Result<WholeName, D::Error> {
    let text = String::deserialize(deserializer)?;
    // By itself first, so that what is said about it is about what was written.
    let regex = Regex::new(&text).and_then(|_| Regex::new(&format!("^(?:{text})$")));
    let regex =
        regex.map_err(|error| de::Error::custom(format!("it is not a regular expression: {error}")))?;
    Ok(WholeName { text, regex })
}

fn optional_whole_name<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<WholeName>, D::Error> {
    whole_name(deserializer).map(Some)
}

/// As MirrorMaker does, and Kafka's clients with what they know of topics.
const fn refresh() -> Duration {
    Duration::from_secs(300)
}

const REFRESH_MIN: Duration = Duration::from_millis(100);
const REFRESH_MAX: Duration = Duration::from_secs(86_400);

#[cfg(test)]
mod tests {
    use super::*;

    const STRING: &str =
        "Endpoint=sb://example.servicebus.windows.net/;SharedAccessKeyName=relay;SharedAccessKey=c2VjcmV0";

    fn read(source: &str, sink: &str) -> Result<PipelineConfig, SettingsError> {
        let text = format!(
            "source:\n  kafka: {{bootstrap: 'here:9092', {source}}}\nsink:\n  {sink}\ncheckpoint: {{store: group}}\n"
        );
        PipelineConfig::from_document(&Document::parse("pipeline.yaml", &text)?)
    }

    fn hub(name: &str) -> String {
        format!("event_hubs: {{connection_string: '{STRING}', hub: '{name}'}}")
    }

    #[test]
    fn a_pattern_is_for_whole_names() {
        let config =
            read("topics: {match: 'orders-.*|returns', except: '.*-test'}", &hub("{topic}")).unwrap();
        let topics = config.topics().unwrap();
        let names = ["orders-eu", "orders-", "orders-test", "my-orders-eu", "returns", "returns-eu"];
        let found: Vec<_> = names.into_iter().filter(|name| topics.matches(name)).collect();
        assert_eq!(found, ["orders-eu", "orders-", "returns"]);
        assert_eq!(
            (topics.to_string().as_str(), topics.refresh()),
            ("orders-.*|returns, except .*-test", refresh())
        );
    }

    #[test]
    fn the_pipeline_of_a_topic_has_its_name_and_its_share() {
        let config = read("topics: {match: '.*'}", &hub("eu-{topic}")).unwrap();
        let orders = config.of_topic("orders", 4).unwrap();
        let SourceConfig::Kafka(source) = &orders.source else { panic!("{orders:?}") };
        assert_eq!((source.options.topic.as_str(), &*orders.group().hub), ("orders", "orders"));
        assert!(orders.topics().is_none());
        let SinkConfig::EventHubs(sink) = &orders.sinks[0] else { panic!("{orders:?}") };
        assert_eq!(sink.hub, "eu-orders");
        assert_eq!(orders.relay.max_held_bytes * 4, config.relay.max_held_bytes);
    }

    #[test]
    fn each_topic_has_transactions_of_its_own() {
        let read = |id: &str| {
            let text = format!(
                "source:\n  kafka: {{bootstrap: 'here:9092', topics: {{match: '.*'}}}}\n\
                 sink:\n  kafka: {{bootstrap: 'there:9092', topic: 'eu-{{topic}}'{id}}}\n\
                 delivery: exactly-once\nroute: same-partition\n"
            );
            PipelineConfig::from_document(&Document::parse("pipeline.yaml", &text)?)
        };
        let orders = read("").unwrap().of_topic("orders", 1).unwrap();
        let transactions = orders.transactions().unwrap();
        assert_eq!((&*transactions.id, &*transactions.sink.topic), ("parshall/orders", "eu-orders"));
        let given = read(", properties: {transactional.id: 'mine-{topic}'}").unwrap();
        assert_eq!(given.of_topic("orders", 1).unwrap().transactions().unwrap().id, "mine-orders");
        let shared = read(", properties: {transactional.id: mine}").unwrap_err().to_string();
        assert!(shared.contains("`sink.kafka.properties.transactional.id`: each topic needs"), "{shared}");
    }

    #[test]
    fn copies_in_the_same_cluster_must_not_match() {
        let to = |bootstrap: &str| format!("kafka: {{bootstrap: '{bootstrap}', topic: 'copy-{{topic}}'}}");
        let config = read("topics: {match: '.*'}", &to("here:9092")).unwrap();
        let expected = CopyOfCopy { topic: "orders".to_owned(), copy: "copy-orders".to_owned() };
        assert_eq!(config.of_topic("orders", 1).unwrap_err(), expected);
        let config = read("topics: {match: '.*', except: 'copy-.*'}", &to("here:9092")).unwrap();
        config.of_topic("orders", 1).unwrap();
        let config = read("topics: {match: '.*'}", &to("there:9092")).unwrap();
        config.of_topic("orders", 1).unwrap();
    }

    #[test]
    fn mistakes_have_their_place() {
        for (source, sink, expected) in [
            ("topic: a, topics: {match: b}", hub("c"), "`source.kafka.topics`: the topic `a` is named, too"),
            ("topics: {match: '(a'}", hub("c"), "it is not a regular expression"),
            ("topics: {except: a}", hub("c"), "match"),
            (
                "topics: {match: a, refresh: 1 ms}",
                hub("c"),
                "`source.kafka.topics.refresh`: 1 ms is out of range",
            ),
            (
                "topics: {match: a}, client: librdkafka",
                hub("c"),
                "`source.kafka.client`: topics are looked for by Parshall's own client only",
            ),
            (
                "topic: a",
                hub("{topic}"),
                "`sink.event_hubs.hub`: `{topic}` stands for each of several topics",
            ),
            (
                "topics: {match: a}",
                "kafka: {bootstrap: 'here:9092', topic: '{topic}'}".to_owned(),
                "`sink.kafka.topic`: `{topic}` is also the source",
            ),
        ] {
            let error = read(source, &sink).unwrap_err().to_string();
            assert!(error.starts_with("pipeline.yaml:") && error.contains(expected), "{error}");
        }
    }
}
