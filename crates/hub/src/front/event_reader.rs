//! Reading a partition as events, whichever protocol wrote them. Hot path.

use std::sync::Arc;

use kafka::record_batch::RecordBatch;
use partition_log::{Batch, Cursor, LogChunk, PartitionLog, Protocol};

use crate::convert::{AmqpBatch, ConvertError, UnpackingBatch, amqp_batch};
use crate::memory::is_pool_scarce;

/// A reader of a partition: where it stands, and what it has unpacked.
#[derive(Debug)]
pub(crate) struct EventReader {
    log: Arc<PartitionLog>,
    cursor: Cursor,
    /// The latest part of a batch of Kafka's that was converted: converted once, in however many pieces it is wanted.
    converted: Option<LogChunk>,
    /// The rest of that batch, if it is compressed.
    unpacking: Option<Box<UnpackingBatch>>,
}

/// What a reader finds.
#[derive(Debug)]
pub(crate) enum Next {
    /// Events, in the form of AMQP. The reader stands behind them.
    Chunk(LogChunk),
    /// The end, or what can't be read, or not yet.
    Nothing,
    /// No event so far, though there is more: others have their turn first.
    Later,
}

impl EventReader {
    /// A reader that stands at `cursor` in `log`.
    pub(crate) const fn new(log: Arc<PartitionLog>, cursor: Cursor) -> Self {
        Self { log, cursor, converted: None, unpacking: None }
    }

    /// Where it stands.
    pub(crate) const fn cursor(&self) -> &Cursor {
        &self.cursor
    }

    /// Discards converted events if memory is scarce, since the next request may be far off. Events that were not handed over are
    /// converted again then.
    pub(crate) fn discard_if_scarce(&mut self) {
        if is_pool_scarce(self.log.pool()) {
            self.converted = None;
            self.unpacking = None;
        }
    }

    /// Has it go on here.
    pub(crate) const fn go_on_at(&mut self, cursor: Cursor) {
        self.cursor = cursor;
    }

    /// What comes next: batches up to `max_bytes`, but one at least.
    ///
    /// # Errors
    /// What is wrong with a batch that can't be converted.
    pub(crate) fn next(&mut self, max_bytes: usize) -> Result<Next, String> {
        if let Some(converted) = self.converted.take()
            && let Some(rest) = converted.starting_at(self.cursor.next_sequence_number())
        {
            self.cursor = rest.end();
            self.converted = Some(converted);
            return Ok(Next::Chunk(rest));
        }
        if let Some(unpacking) = self.unpacking.take_if(|it| it.precedes(self.cursor.next_sequence_number()))
        {
            return self.unpack(unpacking);
        }
        self.unpacking = None;
        for _ in 0..PASSED_MAX {
            let Some(chunk) = self.log.read(&mut self.cursor, max_bytes) else {
                return Ok(Next::Nothing);
            };
            if chunk.protocol() == Protocol::Amqp {
                return Ok(Next::Chunk(chunk));
            }
            let events = chunk.batches().enumerate().find(|(_, batch)| is_event(&self.log, batch));
            let Some((place, batch)) = events else {
                continue;
            };
            if place > 0 {
                self.cursor = chunk.cursor_before(&batch);
                continue;
            }
            let first = batch.first_sequence_number;
            match amqp_batch(&chunk, self.log.pool()).map_err(|error| unreadable(first, &error))? {
                AmqpBatch::Whole(converted) => return Ok(self.hand_over(converted)),
                AmqpBatch::Unpacking(unpacking) => {
                    self.cursor = chunk.start();
                    return self.unpack(unpacking);
                }
            }
        }
        Ok(Next::Later)
    }

    /// Converts more of a compressed batch.
    fn unpack(&mut self, mut unpacking: Box<UnpackingBatch>) -> Result<Next, String> {
        let wanted = self.cursor.next_sequence_number();
        let piece = unpacking.advance(wanted, self.log.pool()).map_err(|error| unreadable(wanted, &error))?;
        self.unpacking = Some(unpacking);
        Ok(piece.map_or(Next::Later, |piece| self.hand_over(piece)))
    }

    fn hand_over(&mut self, converted: LogChunk) -> Next {
        self.cursor = converted.end();
        self.converted = Some(converted.clone());
        Next::Chunk(converted)
    }
}

fn unreadable(sequence_number: u64, error: &ConvertError) -> String {
    format!("the batch at sequence number {sequence_number}: {error}")
}

/// Whether a batch that was read up to the stable end holds events: it is not the end of a transaction, nor of an aborted one.
fn is_event(log: &PartitionLog, batch: &Batch<'_>) -> bool {
    let Ok(record_batch) = RecordBatch::read(batch.bytes) else {
        return true;
    };
    if record_batch.is_control() {
        return false;
    }
    match record_batch.producer() {
        Some(producer) if record_batch.is_transactional() => {
            !log.is_aborted(producer.id, batch.first_sequence_number)
        }
        _ => true,
    }
}

/// Reads that may find no event before others have their turn.
const PASSED_MAX: usize = 16;
