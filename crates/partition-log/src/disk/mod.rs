//! Durable logs: what the log holds in memory, written to files behind it.
//!
//! ```text
//!  append ──► block in memory ──► the partition's entry in the committer's list (once per round, not per batch)
//!                                        │
//!                                   committer thread:  write ranges ─► sync, if the policy says so ─► number settled
//!                                        │                                                              │
//!                                   segment files                                     readers and senders are woken
//! ```
//!
//! # What each policy promises
//!
//! | `sync` | a sender gets its acknowledgement | `kill -9` of the process | power cut or crash of the system |
//! |---|---|---|---|
//! | `always` | when its events are on the device | loses nothing acknowledged | loses nothing acknowledged |
//! | `{interval: 50 ms}` | when the operating system has them | loses nothing acknowledged | loses what is younger than the interval and the time a sync takes |
//! | `os` | when the operating system has them | loses nothing acknowledged | loses what the system had not written back, some 30 s on Linux |
//!
//! Readers see an event when it may be acknowledged, and not before.
//!
//! # Waiting for a commit
//!
//! Each append returns a [`CommitNumber`]. [`CommitNumber::DONE`] needs no waiting; a log in memory gives no other.
//! Otherwise the event may be acknowledged as soon as [`CommitWatch::state_of`] says [`CommitState::Done`]. When it says
//! [`CommitState::Failed`], the event may yet be stored, so the answer says that the outcome is unknown. A connection keeps its
//! unacknowledged deliveries in order with their numbers and does this:
//!
//! ```text
//!  loop {
//!      while the first delivery is not Waiting { acknowledge or refuse it, remove it }
//!      if none is left, or watch.poll_committed(cx).is_pending() { break }
//!  }
//! ```
//!
//! Numbers are given in the order in which partitions enter the committer's list, so one connection's numbers need
//! not grow from one delivery to the next; all numbers of a round are settled at nearly the same time. After a failed
//! commit the events stay in memory and are written later if that becomes possible: their outcome is unknown, as after
//! any error.

mod commits;
mod committer;
mod directory;
mod fault;
mod files;
mod options;
mod partition;
mod recover;
mod report;
mod residency;
mod rounds;
pub(crate) mod salvage;
mod sealing;
mod segment_files;
pub mod sidecar;
mod start;
mod syncing;
mod verify;

pub use commits::{CommitNumber, CommitState, CommitWatch};
pub use committer::{CloseError, Committer, StorageCounters};
pub use directory::{Damage, DamageCause, OpenError, PartitionDirectory, Presence};
pub use fault::Unavailable;
pub use files::{Access, DiskFile, DiskFiles, FileSystem, SystemFiles};
pub use options::{StorageOptions, SyncPolicy, SyncPolicyError};
pub use report::{RecoveryReport, Torn};
pub use verify::{Problem, Verification, verify};

pub(crate) use partition::{Durable, PartitionDisk};
pub(crate) use residency::ResidentShare;
pub(crate) use start::write_start;
