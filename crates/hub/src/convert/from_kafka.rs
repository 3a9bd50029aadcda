//! Batches of Kafka as AMQP messages.

use std::convert::Infallible;
use std::sync::Arc;

use convert::{key_annotation, message_head};
use kafka::Malformed;
use kafka::compression::UnpackError;
use kafka::record::{Record, Records};
use kafka::record_batch::{BatchError, RecordBatch};
use partition_log::{BatchEncoder, BlockPool, CopyError, LogChunk};

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
}

/// The first batch of `chunk`, which is of Kafka, as messages of AMQP.
///
/// # Errors
/// The records can't be unpacked or read. Kafka clients compress them, and nothing looked at them before.
pub(crate) fn amqp_batch(chunk: &LogChunk, pool: &Arc<BlockPool>) -> Result<LogChunk, ConvertError> {
    let copied = chunk.as_amqp(pool, |batch, encoder| {
        let batch = RecordBatch::read(batch.bytes)?;
        let records = batch.unpacked(UNPACKED_MAX)?;
        let mut annotations = Vec::new();
        let mut sections = Vec::new();
        for record in Records::of(&records) {
            push(encoder, &record?, &mut annotations, &mut sections);
        }
        Ok(())
    });
    copied.map_err(|error| match error {
        CopyError::Encoding(error) => error,
        CopyError::Count => ConvertError::Count,
    })
}

/// Adds a record. The vectors are empty before and after; they keep their memory.
fn push(
    encoder: &mut BatchEncoder<'_>,
    record: &Record<'_>,
    annotations: &mut Vec<u8>,
    sections: &mut Vec<u8>,
) {
    if let Some(key) = record.key {
        key_annotation(annotations, key);
    }
    message_head(sections, record);
    let value = record.value.unwrap_or_default();
    let pieces = [sections.as_slice(), value];
    encoder.push_pieces(u32::from(record.key.is_some()), annotations, pieces.iter().copied());
    annotations.clear();
    sections.clear();
}

impl From<Infallible> for ConvertError {
    fn from(never: Infallible) -> Self {
        match never {}
    }
}

/// What a batch of Kafka may take unpacked: sixty times what a client may send.
pub(crate) const UNPACKED_MAX: usize = 60 << 20;
