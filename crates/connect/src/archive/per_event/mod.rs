//! Each event by itself, as a blob, an object or a file.
//!
//! Nothing is ordered, and each event has its own outcome. Requests of a burst wait in a queue for connections, so that the engine hands over
//! what it has without asking for each; the queue is so short that nothing in it is given up before its turn.

mod blobs;
mod files;
mod objects;

pub(super) use blobs::PerEventBlobs;
pub(super) use files::PerEventFiles;
pub(super) use objects::PerEventObjects;

/// How many events may wait for so many writers.
fn queue_max(concurrency: usize) -> usize {
    concurrency.saturating_mul(WAITING_PER_WRITER).clamp(WAITING_PER_WRITER, WAITING_MAX)
}

/// A writer that takes a second for each has worked this off before sends are given up.
const WAITING_PER_WRITER: usize = 16;

/// More is no faster, and takes memory.
const WAITING_MAX: usize = 4_096;

/// The largest event that is taken. Services take less.
const EVENT_BYTES_MAX: usize = 256 * 1024 * 1024;
