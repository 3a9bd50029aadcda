//! Sending an event or a message that a person has written.

use std::convert::Infallible;
use std::iter;

use amqp::codec::{Symbol, Value};
use amqp::message::{FORMAT_AMQP, Header, Properties, encode};
use amqp::performative::DeliveryState;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use partition_log::disk::CommitNumber;
use serde::Deserialize;
use serde_json::{Map, Value as Json, json};
use units::partition_key;

use super::ExplorerFront;
use super::message::value_of;
use super::reply::{self, Refusal, Reply};
use crate::front::amqp::{MAX_MESSAGE_SIZE, SendLink, Stored};
use crate::namespace::Hub;

/// What is to be sent.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct NewMessage {
    /// A hub, a queue or a topic.
    entity: String,
    body: String,
    #[serde(default)]
    encoding: Encoding,
    /// The partition of a hub.
    #[serde(default)]
    partition: Option<String>,
    #[serde(default)]
    partition_key: Option<String>,
    #[serde(default)]
    message_id: Option<String>,
    #[serde(default)]
    correlation_id: Option<String>,
    #[serde(default)]
    subject: Option<String>,
    #[serde(default)]
    content_type: Option<String>,
    #[serde(default)]
    session_id: Option<String>,
    #[serde(default)]
    reply_to: Option<String>,
    #[serde(default)]
    to: Option<String>,
    #[serde(default)]
    time_to_live_ms: Option<u32>,
    /// When it becomes available, in milliseconds since the Unix epoch.
    #[serde(default)]
    scheduled_ms: Option<i64>,
    #[serde(default)]
    properties: Map<String, Json>,
    /// How often it is sent.
    #[serde(default)]
    count: Option<usize>,
}

/// How the body is written.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Encoding {
    #[default]
    Text,
    Base64,
}

impl ExplorerFront {
    /// Sends a message.
    ///
    /// # Errors
    /// It makes no sense, or its entity does not take it.
    pub(super) async fn send(&self, new: NewMessage) -> Result<Reply, Refusal> {
        let count = new.count.unwrap_or(1);
        if !(1..=COUNT_MAX).contains(&count) {
            return Err(Refusal::bad(format!("count must be from 1 to {COUNT_MAX}")));
        }
        let commit = match self.namespace.hub(&new.entity) {
            Some(hub) => self.send_events(&hub, &new, count)?,
            None => self.send_messages(&new, count).await?,
        };
        self.committed(commit).await?;
        Ok(reply::json(&json!({"count": count})))
    }

    fn send_events(&self, hub: &Hub, new: &NewMessage, count: usize) -> Result<CommitNumber, Refusal> {
        if new.scheduled_ms.is_some() || new.time_to_live_ms.is_some() {
            return Err(Refusal::bad(
                "events of a hub are neither scheduled nor do they have a time to live",
            ));
        }
        let hub = hub.latest();
        let key = new.partition_key()?;
        let partition = match (new.partition.as_deref().filter(|id| !id.is_empty()), key) {
            (Some(_), Some(_)) => {
                return Err(Refusal::bad("an event has a partition or a partition key, not both"));
            }
            (Some(id), None) => {
                hub.partition(id).ok_or_else(|| Refusal::not_found(format!("there is no partition {id}")))?
            }
            (None, Some(key)) => hub.partition_for_key(key),
            (None, None) => hub.next_partition(),
        };
        if key.is_none() && partition.requires_keys() {
            return Err(Refusal::bad("the hub is compacted, so that each event needs a partition key"));
        }
        let mut annotations = Vec::new();
        if let Some(key) = key {
            rest::message::partition_key_annotation(&mut annotations, key);
        }
        let mut sections = Vec::new();
        new.encode_content(&mut sections)?;
        let bytes = annotations.len() + sections.len();
        if bytes as u64 > MAX_MESSAGE_SIZE {
            return Err(Refusal::new(413, format!("an event has at most {MAX_MESSAGE_SIZE} bytes")));
        }
        let mut commit = CommitNumber::DONE;
        for _ in 0..count {
            let appended = partition.append(self.now(), |encoder| {
                encoder.push_pieces(u32::from(key.is_some()), &annotations, iter::once(&sections[..]));
                Ok::<_, Infallible>(())
            });
            commit = appended.map_err(|error| Refusal::new(409, error.to_string()))?.commit;
        }
        Ok(commit)
    }

    async fn send_messages(&self, new: &NewMessage, count: usize) -> Result<CommitNumber, Refusal> {
        let entity = self.namespace.queue_or_topic(&new.entity);
        let entity = entity
            .ok_or_else(|| Refusal::not_found(format!("there is no hub, queue or topic {}", new.entity)))?;
        if new.partition.as_ref().is_some_and(|partition| !partition.is_empty()) {
            return Err(Refusal::bad("queues and topics have no partitions to choose from"));
        }
        let message = new.encode()?;
        let most = self.namespace.largest_message();
        if message.len() as u64 > most {
            return Err(Refusal::new(413, format!("a message has at most {most} bytes")));
        }
        let link = SendLink::new(entity);
        let mut commit = CommitNumber::DONE;
        for _ in 0..count {
            commit = Stored::with(|stored| {
                link.store(iter::once((FORMAT_AMQP, &message[..])), self.now(), stored);
                match stored.refused.pop() {
                    Some((_, outcome)) => Err(refused(outcome)),
                    None => Ok(stored.commits.first().copied().unwrap_or(CommitNumber::DONE)),
                }
            })?;
            tokio::task::yield_now().await;
        }
        Ok(commit)
    }
}

impl NewMessage {
    /// All sections, in the form of AMQP.
    fn encode(&self) -> Result<Vec<u8>, Refusal> {
        let mut out = Vec::new();
        if self.time_to_live_ms.is_some() {
            let header = Header { time_to_live_ms: self.time_to_live_ms, ..Header::default() };
            out.extend_from_slice(header.encode().as_slice());
        }
        let key =
            self.partition_key()?.map(|key| (Symbol::from_static("x-opt-partition-key"), Value::from(key)));
        let name = Symbol::from_static("x-opt-scheduled-enqueue-time");
        let scheduled = self.scheduled_ms.map(|time| (name, Value::Timestamp(time)));
        let annotations: Vec<(Symbol, Value)> = key.into_iter().chain(scheduled).collect();
        if !annotations.is_empty() {
            encode::message_annotations(&mut out, &annotations);
        }
        self.encode_content(&mut out)?;
        Ok(out)
    }

    /// The partition key, if there is one.
    fn partition_key(&self) -> Result<Option<&str>, Refusal> {
        match self.partition_key.as_deref().filter(|key| !key.is_empty()) {
            Some(key) if partition_key::is_too_long(key) => Err(Refusal::bad(format!(
                "a partition key has at most {} characters",
                partition_key::LONGEST
            ))),
            key => Ok(key),
        }
    }

    /// The sections from properties to body.
    fn encode_content(&self, out: &mut Vec<u8>) -> Result<(), Refusal> {
        let text = |text: &Option<String>| text.clone().filter(|text| !text.is_empty());
        let content_type = text(&self.content_type);
        if content_type.as_ref().is_some_and(|content_type| !content_type.is_ascii()) {
            return Err(Refusal::bad("content_type has characters that are not ASCII"));
        }
        let properties = Properties {
            message_id: text(&self.message_id).map(Value::String),
            to: text(&self.to),
            subject: text(&self.subject),
            reply_to: text(&self.reply_to),
            correlation_id: text(&self.correlation_id).map(Value::String),
            content_type: content_type.map(Symbol::from),
            group_id: text(&self.session_id),
            ..Properties::default()
        };
        if properties != Properties::default() {
            properties.encode(out);
        }
        let mut application = Vec::with_capacity(self.properties.len());
        for (name, value) in &self.properties {
            let value = value_of(value).ok_or_else(|| {
                Refusal::bad(format!("the property {name} is neither a text, a number nor a boolean"))
            })?;
            application.push((name.as_str(), value));
        }
        if !application.is_empty() {
            encode::application_properties(out, &application);
        }
        match self.encoding {
            Encoding::Text => encode::data(out, self.body.as_bytes()),
            Encoding::Base64 => {
                let bytes = STANDARD.decode(self.body.trim());
                encode::data(
                    out,
                    &bytes.map_err(|error| Refusal::bad(format!("the body is no base64: {error}")))?,
                );
            }
        }
        Ok(())
    }
}

/// The refusal that stands for the outcome of a message that is not stored.
fn refused(outcome: DeliveryState) -> Refusal {
    match outcome {
        DeliveryState::Rejected(Some(error)) => Refusal::new(409, error.description),
        _ => Refusal::new(500, "the message was not stored"),
    }
}

/// How often a message may be sent by one request.
const COUNT_MAX: usize = 10_000;
