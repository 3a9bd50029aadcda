//! Requests to blob storage, over our own client of HTTP/1.1: two system calls each, and nothing allocated once the memory is there.
//!
//! * `account` is where the service is and how a connection to it is made.
//! * `request` writes requests: the head, signed by the account's key or with a signature in the query, and the content behind it.
//! * `lanes` are the connections: each has one request under way, and requests wait in one queue for the next that is free. A connection
//!   is asked again only when its own waker was woken (`bells`).
//! * `refusal` says what a refusal stands for.

mod account;
mod bells;
mod lanes;
pub(super) mod refusal;
mod request;

pub(super) use lanes::{BlobLanes, Done};
pub(super) use request::{BlobRequest, Heads, PutBlob};
