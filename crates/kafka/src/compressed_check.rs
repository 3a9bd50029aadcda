//! The check of a producer's compressed batch, record by record, before a broker stores it.
//!
//! A batch that can't be unpacked, or whose records are not those that its header announces, would stop every reader of the
//! partition. The records are unpacked as a stream and are not stored: memory is a window of the algorithm and one buffer. The check
//! yields after each [`STEP`] bytes, so that a batch that unpacks to many times its size delays no other connection.

use std::future::poll_fn;
use std::io::{BufRead, BufReader};
use std::task::Poll;

use crate::compression::{UnpackError, unpack_error};
use crate::read::Malformed;
use crate::record_batch::{BatchError, RecordBatch};

/// Findings about the records of a compressed batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CompressedRecords {
    /// Greatest timestamp, in milliseconds since 1970.
    pub greatest_timestamp: i64,
    /// Offset delta of the first record without a key, if there is one.
    pub first_without_key: Option<i32>,
}

/// Checks that `batch` unpacks to exactly the records that its header announces, with offset deltas that count up from 0, and to at
/// most `maximum` bytes.
///
/// # Errors
/// The records are not those that the header announces, or can't be unpacked within `maximum`.
pub async fn check_compressed(
    batch: &RecordBatch<'_>,
    maximum: usize,
) -> Result<CompressedRecords, BatchError> {
    let compression = batch.compression().map_err(BatchError::Compression)?;
    let reader = compression.reader(batch.records(), maximum).map_err(|error| of_unpacking(&error))?;
    let mut records = RecordStream {
        source: BufReader::with_capacity(BUFFER, reader),
        remaining: maximum,
        maximum,
        until_yield: STEP,
    };
    let mut greatest = i64::MIN;
    let mut first_without_key = None;
    for offset_delta in 0..batch.record_count() {
        let record = records.check_record(offset_delta).await?;
        greatest = greatest.max(record.timestamp_delta);
        if !record.has_key && first_without_key.is_none() {
            first_without_key = Some(offset_delta.cast_signed());
        }
    }
    match records.fill().await? {
        [] => Ok(CompressedRecords {
            greatest_timestamp: batch.base_timestamp().saturating_add(greatest),
            first_without_key,
        }),
        _ => Err(Malformed("end of the records").into()),
    }
}

/// A record that was checked.
struct CheckedRecord {
    timestamp_delta: i64,
    has_key: bool,
}

/// Records that are unpacked while they are checked.
struct RecordStream<R> {
    source: BufReader<R>,
    /// Bytes that may still be unpacked.
    remaining: usize,
    maximum: usize,
    /// Bytes before other tasks have their turn.
    until_yield: usize,
}

impl<R: std::io::Read> RecordStream<R> {
    /// Checks the next record to its end.
    async fn check_record(&mut self, offset_delta: u32) -> Result<CheckedRecord, BatchError> {
        let length = self.length("length of a record").await?.ok_or(Malformed("length of a record"))?;
        let end = self.remaining.checked_sub(length).ok_or_else(|| self.too_long())?;
        self.skip(1, "attributes of a record").await?;
        let timestamp_delta = self.varlong("timestamp of a record").await?;
        if self.varlong("offset of a record").await? != i64::from(offset_delta) {
            return Err(Malformed("offset of a record").into());
        }
        let key = self.length("key of a record").await?;
        self.skip(key.unwrap_or(0), "key of a record").await?;
        let value = self.length("value of a record").await?;
        self.skip(value.unwrap_or(0), "value of a record").await?;
        let headers = self.length("count of headers").await?.ok_or(Malformed("count of headers"))?;
        for _ in 0..headers {
            let length = self.length("key of a header").await?.ok_or(Malformed("key of a header"))?;
            self.skip(length, "key of a header").await?;
            let length = self.length("value of a header").await?.unwrap_or(0);
            self.skip(length, "value of a header").await?;
        }
        match self.remaining == end {
            true => Ok(CheckedRecord { timestamp_delta, has_key: key.is_some() }),
            false => Err(Malformed("end of a record").into()),
        }
    }

    /// Reads a length or a count; `None` is -1.
    async fn length(&mut self, what: &'static str) -> Result<Option<usize>, BatchError> {
        match self.varlong(what).await? {
            -1 => Ok(None),
            length => {
                let length = i32::try_from(length).ok().and_then(|length| usize::try_from(length).ok());
                Ok(Some(length.ok_or(Malformed(what))?))
            }
        }
    }

    async fn varlong(&mut self, what: &'static str) -> Result<i64, BatchError> {
        let mut number = 0_u64;
        for shift in (0..u64::BITS).step_by(7) {
            let byte = *self.fill().await?.first().ok_or(Malformed(what))?;
            self.consume(1);
            let bits = u64::from(byte & 0x7f);
            // The tenth byte has room for one bit.
            if bits.leading_zeros() < shift {
                break;
            }
            number |= bits << shift;
            if byte < 0x80 {
                return Ok((number >> 1).cast_signed() ^ -((number & 1).cast_signed()));
            }
        }
        Err(Malformed(what).into())
    }

    async fn skip(&mut self, mut length: usize, what: &'static str) -> Result<(), BatchError> {
        while length > 0 {
            let part = self.fill().await?.len().min(length);
            if part == 0 {
                return Err(Malformed(what).into());
            }
            self.consume(part);
            length -= part;
        }
        Ok(())
    }

    /// Returns what is unpacked and not yet consumed; nothing at the end. Unpacks more if that is empty.
    async fn fill(&mut self) -> Result<&[u8], BatchError> {
        if self.source.buffer().is_empty() {
            if self.until_yield == 0 {
                self.until_yield = STEP;
                yield_now().await;
            }
            let unpacked = self.source.fill_buf().map_err(|error| of_unpacking(&unpack_error(error)))?.len();
            if unpacked > self.remaining {
                return Err(self.too_long());
            }
            self.until_yield = self.until_yield.saturating_sub(unpacked);
        }
        Ok(self.source.buffer())
    }

    fn consume(&mut self, length: usize) {
        self.source.consume(length);
        self.remaining -= length;
    }

    const fn too_long(&self) -> BatchError {
        BatchError::Unpacked { maximum: self.maximum }
    }
}

const fn of_unpacking(error: &UnpackError) -> BatchError {
    match error {
        UnpackError::TooLong { maximum } => BatchError::Unpacked { maximum: *maximum },
        UnpackError::Undefined(code) => BatchError::Compression(*code),
        UnpackError::Damaged(_) => BatchError::Invalid("its records can't be unpacked"),
    }
}

/// Lets the other tasks of the thread run, in any runtime.
async fn yield_now() {
    let mut has_yielded = false;
    poll_fn(|cx| match std::mem::replace(&mut has_yielded, true) {
        true => Poll::Ready(()),
        false => {
            cx.waker().wake_by_ref();
            Poll::Pending
        }
    })
    .await;
}

/// Bytes that are unpacked at once.
const BUFFER: usize = 16 * 1024;

/// Bytes that are unpacked before other tasks have their turn: less than a millisecond's work of the slowest algorithm.
const STEP: usize = 128 * 1024;

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::{Context, Waker};

    use proptest::prelude::*;

    use super::*;
    use crate::compression::Compression;
    use crate::record;
    use crate::record_batch::complete;

    const MAXIMUM: usize = 4 << 20;

    /// Runs a check to its end. Returns how often it yielded, too.
    fn check(batch: &[u8], maximum: usize) -> (Result<i64, BatchError>, usize) {
        let batch = RecordBatch::read(batch).expect("it has a header");
        let mut checking = pin!(check_compressed(&batch, maximum));
        for yields in 0.. {
            if let Poll::Ready(result) = checking.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
                return (result.map(|records| records.greatest_timestamp), yields);
            }
        }
        unreachable!("it ends");
    }

    fn batch_of(records: &[u8], count: u32, compression: Compression) -> Vec<u8> {
        let mut batch = vec![0; RecordBatch::HEADER_LENGTH];
        compression.pack(records, &mut batch).expect("any bytes can be packed");
        complete_packed(&mut batch, count, compression);
        batch
    }

    fn complete_packed(batch: &mut [u8], count: u32, compression: Compression) {
        complete(batch, 0, 0, count, 1_000);
        batch[22] |= compression.code() as u8;
    }

    fn records(values: &[Vec<u8>]) -> Vec<u8> {
        let mut out = Vec::new();
        for (delta, value) in (0..).zip(values) {
            let headers = [(&b"name"[..], Some(&b"header"[..]))];
            record::encode(&mut out, delta, Some(b"key"), Some(value), headers.into_iter());
        }
        out
    }

    fn packing() -> [Compression; 4] {
        [Compression::Gzip, Compression::Snappy, Compression::Lz4, Compression::Zstd]
    }

    #[test]
    fn check_accepts_the_records_that_the_header_announces_and_no_others() {
        let two = records(&[b"one".to_vec(), b"two".to_vec()]);
        let swapped = [&two[two.len() / 2..], &two[..two.len() / 2]].concat();
        for compression in packing() {
            assert_eq!(check(&batch_of(&two, 2, compression), MAXIMUM).0, Ok(1_000), "{compression:?}");
            for (records, count) in
                [(&two, 1), (&two, 3), (&swapped, 2), (&vec![0xff; 50], 2), (&Vec::new(), 1)]
            {
                let (result, _) = check(&batch_of(records, count, compression), MAXIMUM);
                assert!(matches!(result, Err(BatchError::Record(_))), "{compression:?} {count}: {result:?}");
            }
            let mut garbage = batch_of(&two, 2, compression);
            garbage.truncate(RecordBatch::HEADER_LENGTH);
            garbage.extend_from_slice(b"not packed at all");
            complete_packed(&mut garbage, 2, compression);
            assert!(check(&garbage, MAXIMUM).0.is_err(), "{compression:?}");
        }
    }

    #[test]
    fn check_bounds_the_unpacked_size_and_yields_on_the_way() {
        let zeros = records(&[vec![0; 3 << 20]]);
        for compression in packing() {
            let batch = batch_of(&zeros, 1, compression);
            let (result, yields) = check(&batch, zeros.len());
            assert_eq!(result, Ok(1_000), "{compression:?}");
            assert!(yields >= 20, "{compression:?} yielded {yields} times");
            let (result, _) = check(&batch, zeros.len() - 1);
            assert_eq!(result, Err(BatchError::Unpacked { maximum: zeros.len() - 1 }), "{compression:?}");
        }
    }

    proptest! {
        #[test]
        fn check_agrees_with_the_check_of_plain_records(bytes: Vec<u8>, count in 1_i32..4, code in 1_u8..5, cut in 0_usize..40) {
            let compression = Compression::of(code).expect("it is defined");
            let mut plain = records(&vec![bytes; count as usize]);
            plain.truncate(plain.len().saturating_sub(cut * usize::from(cut % 2 == 0)));
            let (result, _) = check(&batch_of(&plain, count as u32, compression), MAXIMUM);
            prop_assert_eq!(result.is_ok(), record::check(&plain, count).is_ok());
        }
    }
}
