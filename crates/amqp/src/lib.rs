//! AMQP 1.0 as a pure state machine: bytes and the time come in; bytes, deadlines and events go out.
//!
//! [`Connection`] is both the client and the server side of the protocol. It
//! owns its sessions and links and knows nothing of sockets, clocks or async
//! runtimes; `amqp-tokio` drives it. [`codec`] reads and writes the type system,
//! [`performative`] holds the frames' bodies, and [`message`] looks at messages
//! in place.
//!
//! What a peer sends never panics, never makes us reserve more than it sent (or
//! a stated limit), and never recurses without a bound.

pub mod codec;
pub mod connection;
mod frame;
pub mod message;
pub mod performative;
mod transaction;

pub use codec::{DecodeError, Symbol, Value};
pub use connection::Connection;
pub use frame::{FramingError, MIN_MAX_FRAME_SIZE};
pub use transaction::{CoordinatorRequest, TransactionId};
