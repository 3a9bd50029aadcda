//! Looks at the messages of a queue or subscription without locking or removing any.

use amqp::Value;
use amqp::message::MessageView;
use amqp::performative::ErrorCondition;
use bytes::Bytes;

use crate::event::EnqueuedTime;
use crate::service::{ClientOptions, Endpoint, Reply, Request, ServiceConnection, ServiceError};

/// A connection for looking at messages: all of them, whether active, locked, deferred or scheduled.
#[derive(Debug)]
pub struct Browser {
    connection: ServiceConnection,
    node: String,
}

/// A message as it lies in the queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BrowsedMessage {
    /// Its number in the entity.
    pub sequence_number: i64,
    /// When it was enqueued, if the service says so.
    pub enqueued_time: Option<EnqueuedTime>,
    /// Its encoded sections, with what the service has added.
    pub sections: Bytes,
}

impl Browser {
    /// Connects to the service of the queue or subscription that the options name.
    ///
    /// # Errors
    /// When it can't be reached or refuses the token.
    pub async fn connect(options: ClientOptions) -> Result<Self, ServiceError> {
        let node = format!("{}/$management", options.entity);
        let connection = ServiceConnection::open(Endpoint::resolve(options)?).await?;
        Ok(Self { connection, node })
    }

    /// Messages from this sequence number on, in their order: `count` at most, and none where there is none.
    ///
    /// # Errors
    /// When there is no such entity, the right to listen is missing, or the connection breaks; it is not made again.
    pub async fn peek(&mut self, from: i64, count: u32) -> Result<Vec<BrowsedMessage>, ServiceError> {
        let count = i32::try_from(count).unwrap_or(i32::MAX);
        let body = Value::Map(vec![
            (Value::from("from-sequence-number"), Value::Long(from)),
            (Value::from("message-count"), Value::Int(count)),
        ]);
        let properties = vec![("operation", Value::from("com.microsoft:peek-message"))];
        let request = Request { properties, body: Some(body) };
        let body = match self.connection.ask(&self.node, &request).await {
            Ok(body) => body,
            // So services say that there is none.
            Err(error) if error.condition == ErrorCondition::MESSAGE_NOT_FOUND.as_str() => {
                return Ok(Vec::new());
            }
            Err(error) => return Err(error),
        };
        let (Some(Value::List(messages)) | Some(Value::Array(messages))) = body.get("messages") else {
            return Ok(Vec::new());
        };
        messages.iter().map(|entry| self.read(entry)).collect()
    }

    fn read(&self, entry: &Value) -> Result<BrowsedMessage, ServiceError> {
        let incomplete = |what| Reply::incomplete(&self.node, what);
        let Some(Value::Binary(sections)) = entry.get("message") else {
            return Err(incomplete("message"));
        };
        let sections = Bytes::copy_from_slice(sections.as_ref());
        let annotation = |name: &str| {
            let view = MessageView::parse(&sections).ok()?;
            view.message_annotations().ok()?.find(name).ok()?
        };
        let sequence_number = annotation("x-opt-sequence-number").and_then(|value| value.as_integer());
        let enqueued_time = match annotation("x-opt-enqueued-time") {
            Some(Value::Timestamp(unix_ms)) => Some(EnqueuedTime::from_unix_ms(unix_ms)),
            _ => None,
        };
        Ok(BrowsedMessage {
            sequence_number: sequence_number.ok_or_else(|| incomplete("message with a sequence number"))?,
            enqueued_time,
            sections,
        })
    }

    /// Closes the connection in good order. Dropping it just ends it.
    pub async fn close(self) {
        self.connection.close().await;
    }
}
