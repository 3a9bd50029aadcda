//! The client that most others are made of: librdkafka.
//!
//! Every property passes through by its own name, and what is wrong with one is said in the library's words. Its threads do the
//! network's work: one for each broker, one for the client, and one of ours for each producer, which waits for what became of
//! records. They wake whoever polls source and sink; nothing is asked for at intervals.
//!
//! ```text
//! source   broker's thread ── queue of a partition ── callback: not empty any more ── waker ──▶ poll_batch takes all there is
//! sink     send ── the library's queue ── broker's thread ── delivery reports ── our thread: the last of a send ── waker ──▶ poll_outcomes
//! ```
//!
//! What the library is told beyond the user's properties:
//!
//! | property | value | why |
//! |---|---|---|
//! | `auto.offset.reset` | `error` | an offset that is gone must be said, and not jumped over |
//! | `enable.auto.commit` | `false`, unless set | progress is kept elsewhere |
//! | `queue.buffering.max.messages`, `.kbytes` | twice as much | the sink holds the bound: the library would refuse a send in its middle |
//! | `group.id` | `parshall`, unless set | without one there is nothing to assign partitions to; nobody joins the group |
//!
//! It is built without OpenSSL, so TLS and the mechanisms that need it are for the native client.

mod client;
mod context;
mod growth;
mod headers;
mod sink;
mod source;
mod statistics;

pub(super) use client::{check_sink, check_source, ends};
pub(super) use sink::RdKafkaSink;
pub(super) use source::RdKafkaSource;
