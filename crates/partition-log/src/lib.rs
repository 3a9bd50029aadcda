//! The partition log: an append-only sequence of records, in memory, and on disk as well if it is to be durable.
//!
//! ```text
//!  PartitionLog ── segment ── segment ── segment (being written)
//!                     │
//!                  block of memory:  [batch][batch][batch]……… free
//!                                       │
//!                                    header, record, record, record
//! ```
//!
//! * A record is one event: the annotations that the client gave it, and everything after them, byte for byte.
//!   What the service adds (sequence number, offset, time) is not stored: the number follows from the position and
//!   the time belongs to the batch. [`batch`](mod@batch) draws the bytes.
//! * What Kafka's producers send is stored as it came: one batch of the log is one record batch, compressed as it may be.
//! * A batch is what one append wrote. It is found again by scanning ([`recovery`]), so the bytes of a segment are the
//!   content of its file; only checksums are added on the way there.
//! * A segment is one block of memory (`block.rs`). The writer fills it while readers hold slices of what is
//!   already there; nobody copies. Blocks of segments that retention dropped are used again: fresh memory costs
//!   twenty times as much to write to as memory that has been touched.
//! * A durable log has a file per segment with the same bytes ([`disk`]). They are written behind the appends, many
//!   appends at a time; readers see what is committed, and segments that have left memory are read back for them.
//! * A producer may number its records. What the log knows of it (`producers`) keeps a retried batch from being stored
//!   twice, and is rebuilt from the batches and from what is kept at the end of each segment.
//! * A producer of Kafka may write transactions. What the log knows of those (`transactions`) keeps readers of committed records
//!   from what is undecided and from what was aborted, and is rebuilt in the same way.
//! * A reader has a [`Cursor`] and gets [`LogChunk`]s: whole batches, up to a size it names. A reader at the end
//!   [subscribes](PartitionLog::subscribe) and is woken by the next append.
//!
//! One mutex guards a partition, and it is taken once per batch appended and once per chunk read. Per record
//! there is no lock and no allocation. A log that nothing was ever appended to has no block at all.
//!
//! [`UnixTime`], [`owner_only`] and [`durable_file`] are here because every store needs them: times as they are stored, files
//! that only their owner may read, and files that are replaced as a whole.

pub mod batch;
mod block;
mod block_pool;
mod chunk;
mod deleting;
pub mod disk;
mod dropping;
pub mod durable_file;
mod encoder;
mod knowledge;
mod limits;
mod log_budget;
pub mod owner_only;
mod partition_log;
mod position;
mod producers;
mod producing;
pub mod recovery;
mod segment;
mod state;
mod subscription;
mod timestamps;
mod transacting;
mod transactions;
mod trimming;
mod unix_time;

pub use block::BlockSlice;
pub use block_pool::BlockPool;
pub use chunk::{Batch, CopyError, LogChunk, Origin, Protocol, Record, Records};
pub use deleting::DeleteError;
pub use dropping::DroppedRecords;
pub use encoder::{BatchEncoder, LEADER_EPOCH, NewRecord};
pub use kafka::control_batch::{TransactionEnd, TransactionMarker};
pub use limits::{LogLimits, WhenFull};
pub use log_budget::LogBudget;
pub use partition_log::{AppendError, Appended, LogEnd, LogStats, PartitionLog};
pub use position::{Cursor, Edge, Isolation, PositionError, Start};
pub use producers::{
    KnownProducer, ProducerError, ProducerPosition, ProducerStamp, ProducerStats, sequence_after,
};
pub use producing::{ProduceError, Produced};
pub use subscription::{Readiness, Subscriber, Subscription, Wakers};
pub use timestamps::SegmentTimestamps;
pub use transactions::{AbortedTransaction, OpenTransaction};
pub use trimming::{BeyondDamage, CompleteSegment};
pub use unix_time::UnixTime;
