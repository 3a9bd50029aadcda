//! Batches of Kafka as AMQP messages.

use std::convert::Infallible;
use std::fmt;
use std::io::{Cursor, Read};
use std::ops::Range;
use std::sync::Arc;

use convert::message_head;
use kafka::Malformed;
use kafka::compression::{Compression, UnpackError, unpack_error};
use kafka::record::{self, Record, Records};
use kafka::record_batch::{BatchError, RecordBatch};
use partition_log::{Batch, BatchEncoder, BlockPool, BlockSlice, CopyError, LogChunk, Origin};

/// Why a batch of Kafka's can't be read over AMQP.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ConvertError {
    /// It is none.
    #[error(transparent)]
    Batch(#[from] BatchError),
    /// Its records can't be unpacked.
    #[error(transparent)]
    Unpack(#[from] UnpackError),
    /// Its records can't be read.
    #[error("a record is {0}")]
    Record(#[from] Malformed),
    /// It has other than as many records as it says.
    #[error("the batch does not have as many records as it says")]
    Count,
    /// Its records are longer than a batch may be when they are converted.
    #[error("the records are longer than a batch of events may be")]
    TooLong,
}

/// A batch of Kafka as messages of AMQP.
#[derive(Debug)]
pub(crate) enum AmqpBatch {
    /// All of it.
    Whole(LogChunk),
    /// A compressed one, whose records are converted while they are unpacked.
    Unpacking(Box<UnpackingBatch>),
}

/// Starts to convert the first batch of `chunk`, which is of Kafka.
///
/// # Errors
/// The records can't be read.
pub(crate) fn amqp_batch(chunk: &LogChunk, pool: &Arc<BlockPool>) -> Result<AmqpBatch, ConvertError> {
    let Some(first) = chunk.batches().next() else {
        return Err(ConvertError::Count);
    };
    let batch = RecordBatch::read(first.bytes)?;
    match batch.compression() {
        Ok(Compression::None) => {}
        Ok(compression) => {
            let packed = pool.copy(batch.records());
            let batch = UnpackingBatch::new(chunk.origin(&first), &first, packed, compression)?;
            return Ok(AmqpBatch::Unpacking(Box::new(batch)));
        }
        Err(code) => return Err(UnpackError::Undefined(code).into()),
    }
    let copied = chunk.as_amqp(pool, |_, encoder| {
        let mut annotations = Vec::new();
        let mut sections = Vec::new();
        for record in Records::of(batch.records()) {
            push(encoder, &record?, &mut annotations, &mut sections);
        }
        Ok(())
    });
    copied.map(AmqpBatch::Whole).map_err(ConvertError::of_copy)
}

/// A compressed batch whose records are unpacked and converted piece by piece. Its memory is its packed bytes, a window of the
/// compression, and one piece; it does not keep the memory of the log.
pub(crate) struct UnpackingBatch {
    origin: Origin,
    unpacked: Box<dyn Read + Send>,
    /// Bytes that may still be unpacked.
    remaining: usize,
    /// Records that are unpacked and not yet converted, from `at` on.
    window: Vec<u8>,
    at: usize,
    /// The number of the first record in the window.
    next: u64,
    /// The number after that of the last record.
    end: u64,
}

impl UnpackingBatch {
    fn new(
        origin: Origin,
        first: &Batch<'_>,
        packed: BlockSlice,
        compression: Compression,
    ) -> Result<Self, ConvertError> {
        Ok(Self {
            origin,
            unpacked: compression.reader(Cursor::new(packed), UNPACKED_MAX)?,
            remaining: UNPACKED_MAX,
            window: Vec::new(),
            at: 0,
            next: first.first_sequence_number,
            end: first.first_sequence_number + u64::from(first.record_count),
        })
    }

    /// Whether the record of this number is one that is still to be converted.
    pub(crate) const fn precedes(&self, sequence_number: u64) -> bool {
        self.next <= sequence_number && sequence_number < self.end
    }

    /// Unpacks [`PIECE`] bytes at most, and converts the records that are complete, from the number `wanted` on. `None` if there are
    /// none so far; the next call goes on.
    ///
    /// # Errors
    /// The records can't be unpacked or read, or are fewer than the batch says.
    pub(crate) fn advance(
        &mut self,
        wanted: u64,
        pool: &Arc<BlockPool>,
    ) -> Result<Option<LogChunk>, ConvertError> {
        self.window.drain(..self.at);
        self.at = 0;
        let most = PIECE.min(self.remaining + 1);
        let unpacked = self.unpacked.by_ref().take(most as u64).read_to_end(&mut self.window);
        let unpacked = unpacked.map_err(|error| ConvertError::Unpack(unpack_error(error)))?;
        self.remaining = self
            .remaining
            .checked_sub(unpacked)
            .ok_or(ConvertError::Unpack(UnpackError::TooLong { maximum: UNPACKED_MAX }))?;
        while self.next < wanted && self.pass_record()?.is_some() {}
        let has_record = record::first(&self.window[self.at..])?.is_some();
        if self.next < wanted || self.next >= self.end || !has_record {
            return if unpacked == 0 { Err(ConvertError::Count) } else { Ok(None) };
        }
        let first = self.next;
        let origin = self.origin.clone();
        let mut annotations = Vec::new();
        let mut sections = Vec::new();
        let converted = origin.copy_records(pool, self.window.len(), first, |encoder| {
            while self.next < self.end
                && let Some(record) = self.pass_record().map_err(CopyError::Encoding)?
            {
                let record = &self.window[record];
                for record in Records::of(record) {
                    let record = record.map_err(|error| CopyError::Encoding(error.into()))?;
                    push(encoder, &record, &mut annotations, &mut sections);
                }
            }
            Ok(())
        });
        converted.map(Some).map_err(ConvertError::of_copy)
    }

    /// Passes over the next record in the window, and returns where it is; `None` if it is not complete.
    fn pass_record(&mut self) -> Result<Option<Range<usize>>, ConvertError> {
        let Some(record) = record::first(&self.window[self.at..])? else {
            return Ok(None);
        };
        let place = self.at..self.at + record.len();
        self.at = place.end;
        self.next += 1;
        Ok(Some(place))
    }
}

impl fmt::Debug for UnpackingBatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UnpackingBatch")
            .field("next", &self.next)
            .field("end", &self.end)
            .finish_non_exhaustive()
    }
}

impl ConvertError {
    fn of_copy(error: CopyError<Self>) -> Self {
        match error {
            CopyError::Encoding(error) => error,
            CopyError::Count => Self::Count,
            CopyError::TooLong => Self::TooLong,
        }
    }
}

/// Adds a record. The vectors are empty before and after; they keep their memory.
fn push(
    encoder: &mut BatchEncoder<'_>,
    record: &Record<'_>,
    annotations: &mut Vec<u8>,
    sections: &mut Vec<u8>,
) {
    let annotation_count = convert::annotations::put(annotations, record);
    message_head(sections, record);
    let value = record.value.unwrap_or_default();
    let pieces = [sections.as_slice(), value];
    encoder.push_pieces(annotation_count, annotations, pieces.iter().copied());
    annotations.clear();
    sections.clear();
}

impl From<Infallible> for ConvertError {
    fn from(never: Infallible) -> Self {
        match never {}
    }
}

/// Greatest size of a batch of Kafka when it is unpacked, in bytes: 32 times that of the largest batch.
pub(crate) const UNPACKED_MAX: usize = 32 << 20;

/// Bytes of a compressed batch that are unpacked at once: less than a millisecond's work.
const PIECE: usize = 256 * 1024;
