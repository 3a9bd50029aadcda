//! The REST protocol of Event Hubs and Service Bus, as far as it is bytes and text: no socket, clock or runtime.
//!
//! * [`head`] reads the head of a request of HTTP/1.1 and says where its body ends, [`response`] that of a response; [`chunked`] reads a body
//!   in chunks.
//! * [`target`] says what the URL of a request names.
//! * [`broker_properties`] are the properties of a message that have a meaning, [`property`] those that have none.
//! * [`administration`] is what is said of queues, topics, subscriptions and rules.
//! * [`message`] makes a message of AMQP of a request, [`batch`] several of one, [`answer`] a response of a message.
//!
//! Messages are those of AMQP, since hubs and queues store them so. All input is a stranger's: whatever it is, reading it ends, and
//! takes no more memory than a small multiple of it.

pub mod administration;
pub mod answer;
pub mod batch;
pub mod broker_properties;
pub mod chunked;
mod framing;
pub mod head;
pub mod message;
pub mod property;
pub mod response;
pub mod target;

/// The content type of a body that holds several events or messages.
pub const BATCH_TYPE: &str = "application/vnd.microsoft.servicebus.json";
