//! The service against those who mean no good: real sockets, everyone else served all the while.
//!
//! * `bytes`: random streams and malformed frames.
//! * `greed`: clients that take without end, or take nothing.
//! * `intrusion`: wrong, expired and missing proof; what does not exist; what is too large; what is full.
//!
//! No test waits for a time to pass: each waits for what must come, under a deadline that only a failure reaches.

#![expect(
    clippy::unwrap_used,
    reason = "what panics in a test fails it, and says where"
)]

mod bytes;
mod client;
mod greed;
mod intrusion;
