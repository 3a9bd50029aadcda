//! Front ends: protocols on one side, calls of the store on the other, and nothing else in between.

pub mod amqp;
mod client_host;
mod event_reader;
pub mod http;
pub(crate) mod kafka;
pub mod listener;
pub(crate) mod messaging;
mod pending;
mod time_slice;
