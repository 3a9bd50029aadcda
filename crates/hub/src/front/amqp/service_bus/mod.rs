//! Queues and topics over AMQP, as the official clients of Service Bus speak it.
//!
//! * `address` reads what clients put into link addresses; `attach` decides about links, `sessions` about those to
//!   sessions, some of which are answered much later.
//! * `incoming` and `outgoing` convert messages; `enqueue` (transfers to store), `deliver` (store to transfers) and
//!   `settle` (outcomes to store) are the hot paths. `browse` only looks.
//! * `transaction` is what a client does in a transaction, until that is committed.
//! * `management` answers requests about an entity.
//! * `conditions` are the errors of the store in the words that clients know.
//!
//! A message is locked from its delivery until it is settled or its time is over; closing a link changes nothing about
//! that, as in the service. A session is let go with its link.

mod address;
mod attach;
mod browse;
mod conditions;
mod deliver;
mod enqueue;
mod incoming;
mod management;
mod outgoing;
mod sessions;
mod settle;
mod transaction;

pub(in crate::front) use address::{EntityAddress, Part};
pub(super) use attach::{AdmittedEntity, EntityAdmission};
pub(super) use browse::BrowseLink;
pub(in crate::front) use conditions::{sentence as queue_error_sentence, status_of as queue_error_status};
pub(super) use deliver::ReceiveLink;
pub(in crate::front) use enqueue::SendLink;
pub(super) use management::{LockedSession, ManagedEntity, Request};
pub(super) use sessions::{Held, HeldAttach};
pub(super) use settle::{settle, unknown_delivery};
pub(super) use transaction::{Enlisting, TakenOutcome, TransactionWork, entity_of};
