//! Drives an [`amqp::Connection`] over a socket: TCP, TLS or WebSocket, read and flush policy, time.
//!
//! A [`Driver`] owns the engine and its socket and is itself owned by the one task that uses it: there is no
//! background task, no channel and no lock. The owner alternates between two things:
//!
//! 1. [`Driver::poll_drive`] writes what is to be written, reads what has arrived, and keeps time;
//! 2. the owner takes events from [`Driver::connection`] and gives commands, which encode straight into the output.
//!
//! So everything that one burst of input causes leaves in one write.

mod driver;
#[cfg(target_os = "linux")]
mod pieces;
mod read_buffer;
mod socket;
mod spoken;
mod stream;
mod web_socket;

pub use driver::{DriveError, Driver};
pub use socket::{Socket, SocketUse};
pub use spoken::Spoken;
pub use stream::{
    ClientTls, ConnectError, Stream, Transport, accept, accept_tls, accept_tls_over, connect, connect_plain,
    connect_tls,
};
pub use web_socket::{WEB_SOCKET_PATH, accept_web_socket, connect_web_socket};
