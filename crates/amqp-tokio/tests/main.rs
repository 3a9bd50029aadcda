//! The driver over real sockets, against itself and against another implementation.

mod interop;
mod stalled_peers;
mod web_socket;
