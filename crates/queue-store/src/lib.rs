//! Queues and topics: messages that wait until a receiver has settled them.
//!
//! * [`QueueStore`] is all of them by name, and lets time pass for them.
//! * [`Queue`] is one queue: of its own, of a [`Subscription`] of a [`Topic`], or the dead-letter queue of one of them.
//! * [`NewMessage`]s go in, and come out as [`Deliveries`] with [`LockToken`]s; a [`Settlement`] says what becomes of
//!   them. A [`Waiter`] is told when there is something to receive.
//! * [`QueueStore::commit`] does [`Work`] on several of them as a whole or not at all.
//! * [`rules`] decide which messages of a topic a subscription gets.
//!
//! Messages are sections of AMQP, which is what rules and sizes are about; no connection, link or frame is in here. The batch is the
//! unit: a lock is taken once per call, and per message there is no allocation.

mod changes;
mod counters;
mod deadlines;
mod deleting;
mod entity;
mod error;
mod forwarding;
mod history;
mod journal;
mod ledger;
mod lock_end;
mod lock_token;
mod message;
mod operator;
mod options;
mod page;
mod pages;
mod properties;
mod queue;
mod queue_store;
mod requests;
pub mod rules;
mod sending;
mod session_lock;
mod session_state;
mod sessions;
mod settle;
mod state;
mod subscription_rules;
mod sweep;
#[cfg(test)]
mod tests;
mod topic;
mod transaction;
mod waiter;
mod waiters;

pub use counters::QueueCounters;
pub use deleting::DeleteRequest;
pub use error::QueueError;
pub use lock_end::LockEnd;
pub use lock_token::LockToken;
pub use message::{Deliveries, Delivery, Forwarded, Lock, MessageState, NewMessage};
pub use operator::{Purged, Removed, SessionDescription};
pub use options::{EntityStatus, MAXIMUM_DELIVERY_COUNT, MESSAGE_OVERHEAD, QueueOptions, TopicOptions};
pub use queue::{Enqueued, Queue, QueueCounts, Scheduled, Settled};
pub use queue_store::{CheckedOptions, CreateError, Entity, NewSubscription, QueueStore};
pub use requests::{ReceiveMode, ReceiveRequest, Settlement};
pub use session_lock::SessionLock;
pub use topic::{RuleChangeError, Subscription, Topic};
pub use transaction::Work;
pub use waiter::{Awaited, Found, Waiter};
