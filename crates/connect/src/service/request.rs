//! Requests to a node and their replies: the pair of links that `$cbs` and `$management` are spoken through.
//!
//! A request names the address that replies go to, and a number that the reply repeats. Requests are sent settled: the
//! reply says all that is to be known.

use amqp::connection::{Deliveries, Delivery, Event, LinkId, LinkOptions, NewDelivery, SendError, SessionId};
use amqp::message::{self, MessageView, Properties, encode};
use amqp::performative::{DeliveryState, ErrorCondition, SenderSettleMode, Source, Target};
use amqp::{Connection, DecodeError, Value};
use amqp_tokio::Driver;

use super::error::{PROTOCOL, ServiceError};

/// Both links to one node.
#[derive(Debug)]
pub(crate) struct RequestPair {
    session: SessionId,
    node: String,
    sender: LinkId,
    receiver: LinkId,
    reply_to: String,
    next_id: u64,
}

/// What a request asks for: application properties and a body.
#[derive(Debug, Clone)]
pub(crate) struct Request<'a> {
    pub(crate) properties: Vec<(&'a str, Value)>,
    pub(crate) body: Option<Value>,
}

/// What came back.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Reply {
    /// The request's number, if the reply repeats one.
    pub(crate) id: Option<i64>,
    status: i64,
    description: String,
    condition: Option<String>,
    body: Option<Value>,
}

impl RequestPair {
    /// Attaches both links. Requests can be sent as soon as the service has given credit.
    ///
    /// # Errors
    /// When the session has no room for them.
    pub(crate) fn attach(
        connection: &mut Connection,
        session: SessionId,
        node: &str,
        client: &str,
    ) -> Result<Self, ServiceError> {
        let reply_to = format!("{client}-{}", node.trim_start_matches('$'));
        let to_node = LinkOptions {
            name: format!("{reply_to}-requests"),
            source: Source::new(reply_to.as_str()),
            target: Target::new(node),
            sender_settle_mode: SenderSettleMode::Settled,
            ..LinkOptions::default()
        };
        let from_node = LinkOptions {
            name: format!("{reply_to}-replies"),
            source: Source::new(node),
            target: Target::new(reply_to.as_str()),
            sender_settle_mode: SenderSettleMode::Settled,
            max_message_size: Some(REPLY_BYTES_MAX),
            ..LinkOptions::default()
        };
        let no_room =
            || ServiceError::of_connection(PROTOCOL, format!("there is no room for links to {node}"));
        let sender = connection.attach_sender(session, to_node).ok_or_else(no_room)?;
        let receiver = connection.attach_receiver(session, from_node).ok_or_else(no_room)?;
        connection.set_credit(receiver, REPLY_CREDIT);
        Ok(Self { session, node: node.to_owned(), sender, receiver, reply_to, next_id: 0 })
    }

    /// Whether a link is one of the two.
    pub(crate) fn has(&self, link: LinkId) -> bool {
        link == self.sender || link == self.receiver
    }

    /// Detaches both links.
    pub(crate) fn detach(self, connection: &mut Connection) {
        connection.detach_link(self.sender, None);
        connection.detach_link(self.receiver, None);
    }

    /// Sends a request and returns its number.
    ///
    /// # Errors
    /// When nothing can be sent at the moment; it has not been sent then.
    pub(crate) fn send(
        &mut self,
        connection: &mut Connection,
        request: &Request<'_>,
    ) -> Result<i64, SendError> {
        let id = self.next_id;
        let mut encoded = Vec::new();
        let properties = Properties {
            message_id: Some(Value::Ulong(id)),
            to: Some(self.node.clone()),
            reply_to: Some(self.reply_to.clone()),
            ..Properties::default()
        };
        properties.encode(&mut encoded);
        encode::application_properties(&mut encoded, &request.properties);
        encode::value(&mut encoded, request.body.as_ref().unwrap_or(&Value::Null));
        let delivery = NewDelivery { tag: &id.to_be_bytes(), format: message::FORMAT_AMQP, settled: true };
        let mut sender = connection.sender(self.sender).ok_or(SendError::NotAttached)?;
        sender.send(&delivery, &[&encoded])?;
        self.next_id += 1;
        Ok(id.cast_signed())
    }

    /// Reads a delivery as a reply, if it came on this pair's link.
    pub(crate) fn reply(
        &self,
        connection: &mut Connection,
        deliveries: &Deliveries,
        delivery: &Delivery,
    ) -> Option<Result<Reply, ServiceError>> {
        if delivery.link != self.receiver {
            return None;
        }
        if !delivery.settled {
            connection.settle(self.session, delivery.id, delivery.id, DeliveryState::Accepted);
        }
        if connection.credit(self.receiver) < REPLY_CREDIT / 2 {
            connection.set_credit(self.receiver, REPLY_CREDIT);
        }
        Some(Reply::read(deliveries.message(delivery)).map_err(|error| {
            ServiceError::of_connection(
                "protocol",
                format!("a reply of {} cannot be read: {error}", self.node),
            )
        }))
    }

    /// Sends a request and waits for its reply, for which nothing but this pair may be in use on the connection.
    ///
    /// # Errors
    /// When the connection or a link ends, or the reply refuses.
    pub(crate) async fn exchange(
        &mut self,
        driver: &mut Driver,
        request: &Request<'_>,
    ) -> Result<Option<Value>, ServiceError> {
        let mut sent = None;
        loop {
            if sent.is_none() {
                // Refused until there is credit, of which an event tells.
                sent = self.send(driver.connection(), request).ok();
            }
            match driver.next_event().await? {
                Event::Deliveries(deliveries) => {
                    for delivery in deliveries.items() {
                        let Some(reply) = self.reply(driver.connection(), &deliveries, delivery) else {
                            continue;
                        };
                        let reply = reply?;
                        if sent.is_some() && reply.id == sent {
                            return reply.into_body();
                        }
                    }
                    driver.connection().recycle(deliveries);
                }
                Event::LinkDetached { link, error } if self.has(link) => {
                    return Err(ServiceError::of_detach(error));
                }
                Event::SessionEnded { error, .. } => return Err(ServiceError::of_detach(error)),
                Event::Closed(error) => return Err(ServiceError::of_close(error)),
                _ => {}
            }
        }
    }
}

impl Reply {
    fn read(message: &[u8]) -> Result<Self, DecodeError> {
        let view = MessageView::parse(message)?;
        let properties = view.application_properties()?;
        // Two spellings of each are in use among the service's nodes.
        let find = |one: &str, other: &str| match properties.find(one)? {
            Some(value) => Ok(Some(value)),
            None => properties.find(other),
        };
        let status = find("status-code", "statusCode")?
            .and_then(|value| value.as_integer())
            .ok_or(DecodeError::MissingField("status-code"))?;
        let text = |value: Option<Value>| value.as_ref().and_then(Value::as_text).map(str::to_owned);
        let id = view.properties()?.and_then(|properties| properties.correlation_id);
        Ok(Self {
            id: id.as_ref().and_then(Value::as_integer),
            status,
            description: text(find("status-description", "statusDescription")?).unwrap_or_default(),
            condition: text(find("error-condition", "errorCondition")?),
            body: view.value()?,
        })
    }

    /// The body of a reply that grants what was asked.
    ///
    /// # Errors
    /// What the status says, if it is another than success.
    pub(crate) fn into_body(self) -> Result<Option<Value>, ServiceError> {
        match self.status {
            200..=299 => Ok(self.body),
            status => Err(ServiceError::of_status(status, self.condition, &self.description)),
        }
    }

    /// The error of a reply that has a body where one belongs and hasn't.
    pub(crate) fn incomplete(node: &str, what: &str) -> ServiceError {
        ServiceError::of_condition(&ErrorCondition::DECODE_ERROR, format!("a reply of {node} has no {what}"))
    }
}

/// Replies that may be on their way at once; there are never more requests than one.
const REPLY_CREDIT: u32 = 10;

/// Far above the properties of a hub with thousands of partitions.
const REPLY_BYTES_MAX: u64 = 1024 * 1024;

#[cfg(test)]
mod tests {
    use super::*;

    fn reply(properties: &[(&str, Value)], correlation_id: Option<Value>) -> Result<Reply, DecodeError> {
        let mut encoded = Vec::new();
        Properties { correlation_id, ..Properties::default() }.encode(&mut encoded);
        encode::application_properties(&mut encoded, properties);
        encode::value(&mut encoded, &Value::Null);
        Reply::read(&encoded)
    }

    #[test]
    fn a_reply_is_read_in_either_spelling() {
        for (code, description) in
            [("status-code", "status-description"), ("statusCode", "statusDescription")]
        {
            let read = reply(
                &[(code, Value::Int(202)), (description, Value::from("Accepted"))],
                Some(Value::Ulong(7)),
            )
            .unwrap();
            assert_eq!((read.id, read.status, read.description.as_str()), (Some(7), 202, "Accepted"));
            assert_eq!(read.into_body(), Ok(Some(Value::Null)));
        }
    }

    #[test]
    fn a_refusal_is_an_error_with_the_services_words() {
        let refused = reply(
            &[("status-code", Value::Int(401)), ("status-description", Value::from("wrong key"))],
            None,
        );
        let error = refused.unwrap().into_body().unwrap_err();
        assert_eq!(error.to_string(), "amqp:unauthorized-access: wrong key (status 401)");
    }

    #[test]
    fn a_reply_without_a_status_cannot_be_read() {
        assert!(reply(&[], Some(Value::Ulong(1))).is_err());
    }
}
