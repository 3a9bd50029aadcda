//! What has arrived of one partition: from an answer to Fetch to events.
//!
//! ```text
//!   answer ──▶ batches: whole, intact, not behind us, not aborted ──▶ records, unpacked ──▶ events, as far as there is credit
//! ```
//!
//! Records stay in the frame that they arrived in. What is found of each is where its key and its tail are; values and headers
//! are only looked at where they become messages of AMQP. A compressed batch is unpacked when the records before it have become
//! events: a frame of small batches can stand for gigabytes.

use std::collections::VecDeque;
use std::time::Instant;

use bytes::Bytes;
use kafka::compression::{Compression, UnpackError};
use kafka::control_batch::{TransactionEnd, TransactionMarker};
use kafka::fetch::AbortedTransaction;
use kafka::record::{RecordPlaces, Records};
use kafka::record_batch::{BatchError, RecordBatch, TimestampType};

use crate::batch_builder::BatchBuilder;
use crate::event::{Encoding, EnqueuedTime, EventParts, PartitionId};
use crate::service::ServiceError;
use crate::service::error::PROTOCOL;

/// The records of one partition that have arrived and are not yet events.
#[derive(Debug, Default)]
pub(super) struct Fetched {
    batches: VecDeque<Batch>,
    /// Bytes that the batches take.
    bytes: usize,
    /// Records that they have.
    records: usize,
}

/// Records of one batch.
#[derive(Debug)]
struct Batch {
    bytes: Bytes,
    /// The compression of `bytes`.
    compression: Compression,
    /// Where the next record begins.
    at: usize,
    /// What was counted for it.
    records: usize,
    base_offset: i64,
    base_timestamp: i64,
    /// The timestamp of all records, where it is the broker's.
    append_time: Option<i64>,
}

impl Fetched {
    /// Bytes that have arrived and are not yet events, of all that is not handed over in full, as they are in memory.
    pub(super) const fn bytes(&self) -> usize {
        self.bytes
    }

    /// Records, likewise.
    pub(super) const fn records(&self) -> usize {
        self.records
    }

    /// Takes the batches that a broker sent for `offset`, and gives the offset to go on with. `aborted` are the transactions
    /// that are left out; it is empty for those who read what is not committed.
    ///
    /// # Errors
    /// A batch is damaged, or of a format or compression that is not known. What came before it was taken.
    pub(super) fn take(
        &mut self,
        records: &Bytes,
        mut offset: i64,
        mut aborted: Vec<AbortedTransaction>,
    ) -> Result<i64, ServiceError> {
        aborted.sort_unstable_by_key(|transaction| transaction.first_offset);
        let mut aborted = aborted.into_iter().peekable();
        let mut left_out = Vec::new();
        let mut rest = &records[..];
        while !rest.is_empty() {
            let batch = match RecordBatch::read(rest) {
                Ok(batch) => batch,
                // Brokers may cut the last one off where they reach what was asked for.
                Err(BatchError::Incomplete { .. }) => break,
                Err(error) => return Err(damaged(offset, &error.to_string())),
            };
            rest = &rest[batch.bytes().len()..];
            let next = batch.next_offset();
            if next <= offset {
                continue;
            }
            if !batch.is_intact() {
                return Err(damaged(offset, "the checksum does not match"));
            }
            while let Some(transaction) = aborted.next_if(|it| it.first_offset < next) {
                left_out.push(transaction.producer_id);
            }
            let producer = batch.producer().map_or(-1, |producer| producer.id);
            if batch.is_control() {
                if TransactionMarker::read(&batch).is_some_and(|marker| marker.end == TransactionEnd::Abort) {
                    left_out.retain(|id| *id != producer);
                }
            } else if !(batch.is_transactional() && left_out.contains(&producer)) {
                let compression = batch.compression().map_err(UnpackError::Undefined);
                let compression = compression.map_err(|error| damaged(offset, &error.to_string()))?;
                self.push(records, &batch, compression);
            }
            offset = next;
        }
        Ok(offset)
    }

    fn push(&mut self, frame: &Bytes, batch: &RecordBatch<'_>, compression: Compression) {
        let bytes = frame.slice_ref(batch.records());
        let append_time = match batch.timestamp_type() {
            TimestampType::CreateTime => None,
            TimestampType::LogAppendTime => Some(batch.max_timestamp()),
        };
        // A compacted batch has fewer than its offsets span.
        let records = batch.record_count() as usize;
        self.bytes += bytes.len();
        self.records += records;
        self.batches.push_back(Batch {
            bytes,
            compression,
            at: 0,
            records,
            base_offset: batch.base_offset(),
            base_timestamp: batch.base_timestamp(),
            append_time,
        });
    }

    /// Makes events of at most `limit` records, from `next` on, which goes behind the last one. Gives how many they are and
    /// the bytes of their messages. Hot path.
    ///
    /// # Errors
    /// A batch can't be unpacked, or a record can't be read, although the batch is intact.
    pub(super) fn deliver(
        &mut self,
        builder: &mut BatchBuilder,
        now: Instant,
        partition: PartitionId,
        encoding: Encoding,
        next: &mut i64,
        limit: usize,
    ) -> Result<(usize, usize), ServiceError> {
        let (mut events, mut bytes) = (0, 0);
        while events < limit
            && let Some(batch) = self.batches.front_mut()
        {
            if batch.compression != Compression::None {
                let packed = batch.bytes.len();
                batch.unpack().map_err(|error| damaged(*next, &error.to_string()))?;
                self.bytes = self.bytes - packed + batch.bytes.len();
            }
            let before = batch.at;
            let mut pushing = Pushing { builder: &mut *builder, now, partition };
            let (count, length) = match encoding {
                Encoding::Amqp => batch.push_messages(&mut pushing, next, limit - events),
                Encoding::Kafka | Encoding::Opaque => batch.push_tails(&mut pushing, next, limit - events),
            }?;
            events += count;
            bytes += length;
            batch.records = batch.records.saturating_sub(count);
            self.records = self.records.saturating_sub(count);
            self.bytes -= batch.at - before;
            if batch.at == batch.bytes.len()
                && let Some(done) = self.batches.pop_front()
            {
                self.records = self.records.saturating_sub(done.records);
            }
        }
        Ok((events, bytes))
    }
}

/// Where events go.
struct Pushing<'a> {
    builder: &'a mut BatchBuilder,
    now: Instant,
    partition: PartitionId,
}

impl Pushing<'_> {
    /// The numbers from the next event's to `offset` are those of no record.
    #[cold]
    fn skip(&mut self, next: &mut i64, offset: i64) {
        self.builder.skip(self.partition, *next..offset);
        *next = offset;
    }

    /// Events whose parts lie in `out`. Both are empty after it.
    fn push(&mut self, out: &mut Vec<u8>, parts: &mut Vec<EventParts>) {
        let chunk = Bytes::from(std::mem::take(out));
        self.builder.extend(self.now, self.partition, &chunk, parts.drain(..));
    }
}

impl Batch {
    fn unpack(&mut self) -> Result<(), UnpackError> {
        self.bytes = self.compression.unpack(&self.bytes, UNPACKED_MAX)?.into();
        self.compression = Compression::None;
        Ok(())
    }

    #[inline]
    fn time(&self, delta: i64) -> EnqueuedTime {
        let time = self.append_time.unwrap_or_else(|| self.base_timestamp.saturating_add(delta));
        EnqueuedTime::from_unix_ms(time)
    }

    /// Events whose messages are the tails of records, where they are. Hot path.
    fn push_tails(
        &mut self,
        to: &mut Pushing<'_>,
        next: &mut i64,
        limit: usize,
    ) -> Result<(usize, usize), ServiceError> {
        let mut places = RecordPlaces::from(&self.bytes, self.at);
        let (mut events, mut bytes) = (0, 0);
        // A record that does not follow the one before, until the numbers between them are skipped.
        let mut apart = None;
        let mut malformed = None;
        loop {
            let parts = std::iter::from_fn(|| {
                loop {
                    let place =
                        match apart.take().map_or_else(|| places.next_place(), |place| Ok(Some(place))) {
                            Ok(place) => place?,
                            Err(error) => {
                                malformed = Some(error);
                                return None;
                            }
                        };
                    let offset = self.base_offset.saturating_add(place.offset_delta.into());
                    if offset > *next {
                        apart = Some(place);
                        return None;
                    }
                    if offset == *next {
                        *next = offset.saturating_add(1);
                        bytes += place.tail.len();
                        return Some(EventParts {
                            message: place.tail,
                            partition_key: place.key,
                            offset: 0..0,
                            sequence_number: offset,
                            enqueued_time: self.time(place.timestamp_delta),
                        });
                    }
                }
            });
            events += to.builder.extend(to.now, to.partition, &self.bytes, parts.take(limit - events));
            match &apart {
                Some(place) => to.skip(next, self.base_offset.saturating_add(place.offset_delta.into())),
                None => break,
            }
        }
        if let Some(error) = malformed {
            return Err(damaged(*next, &error.to_string()));
        }
        self.at = self.bytes.len() - places.remaining();
        Ok((events, bytes))
    }

    /// Events whose messages are of AMQP: what records are as such, behind one another in memory of its own.
    fn push_messages(
        &mut self,
        to: &mut Pushing<'_>,
        next: &mut i64,
        limit: usize,
    ) -> Result<(usize, usize), ServiceError> {
        let mut out = Vec::new();
        let mut parts = Vec::new();
        let (mut events, mut bytes) = (0, 0);
        let mut rest = &self.bytes[self.at..];
        while events < limit && !rest.is_empty() {
            let mut records = Records::of(rest);
            let record = match records.next() {
                Some(Ok(record)) => record,
                Some(Err(error)) => return Err(damaged(*next, &error.to_string())),
                None => break,
            };
            rest = records.rest();
            let offset = self.base_offset.saturating_add(record.offset_delta.into());
            if offset < *next {
                continue;
            }
            if offset > *next {
                // What is skipped goes with the events that follow.
                to.push(&mut out, &mut parts);
                to.skip(next, offset);
            }
            *next = offset.saturating_add(1);
            let key_at = out.len() as u32;
            out.extend_from_slice(record.key.unwrap_or_default());
            let message_at = out.len() as u32;
            convert::message(&mut out, &record);
            // What was unpacked is bounded far below 4 GiB.
            parts.push(EventParts {
                message: message_at..out.len() as u32,
                partition_key: key_at..message_at,
                offset: 0..0,
                sequence_number: offset,
                enqueued_time: self.time(record.timestamp_delta),
            });
            events += 1;
            bytes += out.len() - message_at as usize;
        }
        to.push(&mut out, &mut parts);
        self.at = self.bytes.len() - rest.len();
        Ok((events, bytes))
    }
}

fn damaged(offset: i64, what: &str) -> ServiceError {
    ServiceError::of_connection(PROTOCOL, format!("the records at offset {offset} can't be read: {what}"))
}

/// What a batch may take unpacked: some sixty times what a producer may send by default.
const UNPACKED_MAX: usize = 64 << 20;

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use kafka::control_batch::TransactionMarker;
    use kafka::producer_batch::ProducerBatch;
    use kafka::record_batch::{ProducerNumbers, number};

    use super::*;
    use crate::source::BatchOptions;

    fn batch(
        base_offset: u64,
        values: &[&str],
        compression: Compression,
        transaction: Option<i64>,
    ) -> Vec<u8> {
        let mut batch = ProducerBatch::default();
        for (at, value) in (0..).zip(values) {
            batch.push(1_000 + at, Some(b"key"), Some(value.as_bytes()), std::iter::empty());
        }
        let producer = transaction.map(|id| ProducerNumbers { id, epoch: 0, base_sequence: 0 });
        let mut bytes = batch.complete(compression, producer, transaction.is_some()).unwrap();
        number(&mut bytes, base_offset, 0);
        bytes
    }

    fn marker(offset: u64, producer_id: i64, end: TransactionEnd) -> Vec<u8> {
        let marker = TransactionMarker { producer_id, producer_epoch: 0, end, coordinator_epoch: 0 };
        let mut bytes = marker.encode(0);
        number(&mut bytes, offset, 0);
        bytes
    }

    /// Number and value of all events, `limit` at once.
    fn events(fetched: &mut Fetched, next: &mut i64, limit: usize) -> Vec<(i64, String)> {
        let options = BatchOptions { max_events: 3, max_wait: Duration::ZERO };
        let mut builder = BatchBuilder::new(options, 1);
        let now = Instant::now();
        let mut deliver = || {
            let kafka = Encoding::Kafka;
            fetched.deliver(&mut builder, now, PartitionId(0), kafka, next, limit).unwrap().0
        };
        while deliver() > 0 {}
        builder.handle_timeout(now);
        let mut found = Vec::new();
        while let Some(batch) = builder.pop_sealed() {
            let vacant = batch.vacant_numbers().iter().cloned().flatten();
            found.extend(vacant.map(|number| (number, "no event".to_owned())));
            for event in batch.events() {
                assert_eq!(batch.partition_key(event), Some(&b"key"[..]));
                // Length and key, length and value, no headers.
                let value = &batch.message(event)[5..event.message_len() - 1];
                found.push((event.sequence_number, String::from_utf8(value.to_vec()).unwrap()));
            }
        }
        found
    }

    #[test]
    fn records_become_events_once_from_the_offset_that_is_wanted() {
        for compression in (0..5).filter_map(Compression::of) {
            let bytes =
                [batch(10, &["a", "b", "c"], compression, None), batch(13, &["d", "e"], compression, None)];
            let mut cut = batch(15, &["f"], compression, None);
            cut.pop();
            let records = Bytes::from([bytes.concat(), cut].concat());
            for limit in [1, 2, 100] {
                let mut fetched = Fetched::default();
                assert_eq!(fetched.take(&records, 11, Vec::new()), Ok(15), "the last one is cut off");
                let expected = [(11, "b"), (12, "c"), (13, "d"), (14, "e")];
                let found = events(&mut fetched, &mut 11, limit);
                assert!(
                    found.iter().map(|(offset, value)| (*offset, value.as_str())).eq(expected),
                    "{found:?}"
                );
                assert_eq!((fetched.bytes(), fetched.records()), (0, 0));
            }
            let mut fetched = Fetched::default();
            assert_eq!(fetched.take(&records, 14, Vec::new()), Ok(15));
            assert_eq!(events(&mut fetched, &mut 14, 9), [(14, "e".to_owned())]);
        }
    }

    #[test]
    fn compressed_batches_are_unpacked_one_at_a_time() {
        let value = "x".repeat(1 << 20);
        let batches: Vec<_> =
            (0..50).map(|offset| batch(offset, &[&value], Compression::Zstd, None)).collect();
        let mut fetched = Fetched::default();
        fetched.take(&Bytes::from(batches.concat()), 0, Vec::new()).unwrap();
        let options = BatchOptions { max_events: 3, max_wait: Duration::ZERO };
        let mut next = 0;
        while fetched.records() > 0 {
            assert!(fetched.bytes() < 2 << 20, "{} bytes", fetched.bytes());
            let mut builder = BatchBuilder::new(options, 1);
            let now = Instant::now();
            fetched.deliver(&mut builder, now, PartitionId(0), Encoding::Kafka, &mut next, 1).unwrap();
        }
        assert_eq!((next, fetched.bytes()), (50, 0));
    }

    #[test]
    fn what_was_aborted_and_what_says_so_is_left_out() {
        let none = Compression::None;
        let bytes = [
            batch(0, &["aborted"], none, Some(7)),
            batch(1, &["kept"], none, Some(8)),
            batch(2, &["plain"], none, None),
            marker(3, 7, TransactionEnd::Abort),
            batch(4, &["again"], none, Some(7)),
            marker(5, 7, TransactionEnd::Commit),
            marker(6, 8, TransactionEnd::Commit),
        ];
        let records = Bytes::from(bytes.concat());
        let aborted = vec![AbortedTransaction { producer_id: 7, first_offset: 0 }];
        let numbers = |aborted| {
            let mut fetched = Fetched::default();
            assert_eq!(fetched.take(&records, 0, aborted), Ok(7));
            let mut found = events(&mut fetched, &mut 0, 9);
            found.sort();
            let shown = |(offset, value): (i64, String)| match value.as_str() {
                "no event" => -offset,
                _ => offset,
            };
            found.into_iter().map(shown).collect::<Vec<_>>()
        };
        // Negative ones are of no event.
        assert_eq!(numbers(aborted), [0, 1, 2, -3, 4]);
        assert_eq!(numbers(Vec::new()), [0, 1, 2, -3, 4]);
    }

    #[test]
    fn damage_is_an_error_and_what_came_before_is_kept() {
        let good = batch(0, &["a"], Compression::None, None);
        let mut bad = batch(1, &["b"], Compression::None, None);
        *bad.last_mut().unwrap() ^= 1;
        let mut fetched = Fetched::default();
        let error = fetched.take(&Bytes::from([good, bad].concat()), 0, Vec::new()).unwrap_err();
        assert!(error.description.contains("offset 1"), "{error}");
        assert_eq!(events(&mut fetched, &mut 0, 9), [(0, "a".to_owned())]);
    }

    #[test]
    fn messages_of_amqp_have_the_value_as_their_body_and_the_key_beside() {
        let records = Bytes::from(batch(5, &["x", "y"], Compression::None, None));
        let mut fetched = Fetched::default();
        fetched.take(&records, 5, Vec::new()).unwrap();
        let options = BatchOptions { max_events: 2, max_wait: Duration::ZERO };
        let mut builder = BatchBuilder::new(options, 1);
        let delivered =
            fetched.deliver(&mut builder, Instant::now(), PartitionId(0), Encoding::Amqp, &mut 5, 9).unwrap();
        assert_eq!(delivered.0, 2);
        let batch = builder.pop_sealed().unwrap();
        let second = &batch.events()[1];
        assert_eq!(batch.message(second), b"\x00\x53\x75\xa0\x01y");
        assert_eq!((batch.partition_key(second), second.sequence_number), (Some(&b"key"[..]), 6));
        assert_eq!(second.enqueued_time.unix_ms(), 1_001);
    }
}
