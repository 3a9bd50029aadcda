//! Azure Service Bus, or the embedded service, over AMQP.
//!
//! * [`ServiceBusSource`] receives from a queue or subscription under locks, with a bound on the messages in work, renews
//!   the locks of those that take long, and tells the service what is to become of each.
//! * [`ServiceBusSink`] sends to a queue or topic: message by message without waiting, or in batches.
//! * [`connect_transactional`] makes one of each, for entities of one namespace: what is sent is completed in one transaction with that.
//! * [`Browser`] looks at messages without locking them.
//! * [`AdministrationClient`] creates, changes and deletes what there is, over HTTP.
//!
//! How they connect is in [`service`](crate::service). Both make a broken link or connection again by themselves, with a
//! growing delay; a token that is refused, or an entity that is gone, ends them.
//!
//! | file | what |
//! |---|---|
//! | `source` | the source: its link, its credit, its batches |
//! | `locks` | what is locked for us, by delivery id |
//! | `management_requests` | requests to the entity's `$management` node: renewals, and settlements whose link is gone |
//! | `delivered` | what is where in a received message |
//! | `sink` | the sink |
//! | `transactional` | both on one connection, and their transactions |
//! | `browser` | looking without locks |
//! | `administration` | queues, topics, subscriptions and rules |

pub mod administration;
mod browser;
mod delivered;
mod locks;
mod management_requests;
mod options;
mod sink;
mod source;
mod transactional;

pub use administration::AdministrationClient;
pub use browser::{BrowsedMessage, Browser};
pub use options::{Entity, ReceiveOptions};
pub use sink::ServiceBusSink;
pub use source::ServiceBusSource;
pub use transactional::{TransactionalError, TransactionalSink, TransactionalSource, connect_transactional};
