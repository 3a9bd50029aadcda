//! Queues and topics as clients see them, over real sockets.
//!
//! * `sections`: messages without a body, with sections out of their order, with fields in their header.
//! * `sending`: single messages and batches, what is refused, what is full.
//! * `settling`: the outcomes and their answers, locks that end, dead letters.
//! * `credit`: drain, receivers that come and go.
//! * `links`: addresses, and what is refused at the attach.
//! * `sessions`: named ones, the next one, held attaches.
//! * `management`: requests about an entity.
//! * `time`: time under control.
//! * `topics`: copies by rules.
//! * `transactions`: messages and outcomes as a whole, on one entity and through it on others.
//! * `requests_in_transactions`: requests that are carried out with one.
//! * `durable`: what a restart leaves.
//! * `faults`: tokens that are not right, entities that are full.
//! * `rights`: what each key may do, and with what of an entity.
//! * `bounds`: what nobody can make the service hold, whatever they may do.
//!
//! No test waits for a time to pass: each waits for what must come, under a deadline that only a failure reaches.

#![expect(clippy::unwrap_used, reason = "what panics in a test fails it, and says where")]

mod bounds;
mod client;
mod credit;
mod durable;
mod faults;
mod links;
mod management;
mod requests_in_transactions;
pub(crate) mod rights;
mod sections;
mod sending;
mod sessions;
mod settling;
mod time;
mod topics;
pub(crate) mod transactions;
