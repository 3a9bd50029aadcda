//! A connection to a namespace of Azure Service Bus, Azure Event Hubs or the embedded service, which are spoken to in one
//! way: dialling, the handshake, tokens, requests to nodes, links to send through, and making it all again when it broke.
//!
//! ```text
//!   connection ─┬─ session "control" ─┬─ $cbs          put-token, again and again before the token expires
//!               │                     └─ …$management  whatever is asked for
//!               ├─ session "data" ────── the links that messages go through
//!               └─ session "data" …      more of them: both ends bound the links of a session
//! ```
//!
//! Data links have sessions of their own so that the deliveries of each of these, and only those, are numbered consecutively:
//! what became of a send, or of a message that was received, is found by counting.

mod connection;
mod endpoint;
pub mod error;
mod forwarded;
mod options;
mod outstanding;
mod reconnecting;
mod request;
mod token;
mod transmitter;

pub use error::ServiceError;
pub use options::{ClientOptions, Transport};

pub(crate) use connection::ServiceConnection;
pub(crate) use endpoint::Endpoint;
pub(crate) use forwarded::{
    KeptAnnotations, copy_forwarded, format_of, is_forwarded, partition_key_annotation, replace_annotations,
};
pub(crate) use outstanding::Outstanding;
pub(crate) use reconnecting::Reconnecting;
pub(crate) use request::{Reply, Request, RequestPair};
pub(crate) use token::claim;
pub(crate) use transmitter::{
    Address, ENVELOPE_BYTES_MAX, OUTPUT_BYTES_MAX, OUTSTANDING_MAX, Transmitter, USUAL_MESSAGE_BYTES_MAX,
    sender_options,
};
