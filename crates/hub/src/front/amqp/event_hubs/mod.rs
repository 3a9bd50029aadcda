//! Hubs over AMQP, as the official clients of Event Hubs speak it.
//!
//! * `address` and `start` read what clients put into link addresses and filters; `attach` decides about links.
//! * `burst` and `incoming` (transfers to logs) and `deliver` (log to transfers) are the hot paths.
//! * `publish` are the links that transfers come on.
//! * `runtime_metrics` and `idempotent` are what receivers and publishers may ask for beside.
//! * `conditions` are refusals of receivers in the words that clients know.
//! * `management` answers requests about hubs; `attributes` are those of its entities.

pub(super) mod address;
pub(super) mod attach;
mod attributes;
pub(super) mod burst;
mod conditions;
pub(super) mod deliver;
pub(super) mod event_key;
mod idempotent;
mod incoming;
pub(super) mod management;
pub(super) mod publish;
mod runtime_metrics;
mod start;

pub(in crate::front) use incoming::PUBLISHER;
