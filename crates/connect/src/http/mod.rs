//! One connection of HTTP/1.1 with one request at a time: to the REST interface of Event Hubs and Service Bus, for sending, and to blob
//! storage (see [`archive`](crate::archive)).
//!
//! | the REST interface sends | request | body |
//! |---|---|---|
//! | an event | `POST /entity/messages`, or `/entity/partitions/3/messages` | the event's; the rest of it is in headers |
//! | a batch | the same, as `application/vnd.microsoft.servicebus.json` | a JSON array |
//!
//! Whoever owns a connection polls it; there is no task behind it.

mod connection;
mod token;

pub(crate) use connection::{HttpConnection, HttpFailure, Refusal};
pub(crate) use token::Token;

/// The type of a body that is a batch. With a parameter the service takes it for a single event.
pub(crate) use rest::BATCH_TYPE;

/// What a single event is said to be where it does not say so itself.
pub(crate) const EVENT_TYPE: &str = "application/octet-stream";
