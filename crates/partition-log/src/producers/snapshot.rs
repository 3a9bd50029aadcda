//! The producers that were known at the end of a segment, as they are kept beside it.
//!
//! ```text
//!  ├─ producers, u32 ─┬─ producer ─ producer … , the one that was active last at the end
//!                     └─ id, i64 │ epoch, i16 │ batches, u16 │ last sequence, i32 │ active at, ms, i64 │ batch …
//!                                                           batch: first, i32 │ last sequence, i32 │ first number, u64
//! ```
//!
//! Numbers are little-endian. A snapshot of no producer does not exist.

use super::{LATEST_BATCHES, LatestBatches, MAXIMUM_PRODUCERS, Producer, Producers, StoredBatch};
use crate::UnixTime;
use std::fmt;
use std::sync::Arc;

/// The bytes of a snapshot, whose form was checked.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct ProducerSnapshot(Arc<[u8]>);

impl ProducerSnapshot {
    /// The most bytes that a snapshot has.
    pub(crate) const MAXIMUM_LENGTH: usize =
        4 + MAXIMUM_PRODUCERS * (PRODUCER_LENGTH + LATEST_BATCHES * BATCH_LENGTH);

    /// Takes bytes that were read; `None` if they are no snapshot.
    pub(crate) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        read(bytes, |_, _| {})?;
        Some(Self(bytes.into()))
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for ProducerSnapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProducerSnapshot").field("length", &self.0.len()).finish()
    }
}

impl Producers {
    /// What is known now; `None` if that is nothing.
    pub(crate) fn snapshot(&self) -> Option<ProducerSnapshot> {
        let has_sequence = |(_, producer): &(&i64, &Producer)| producer.last_sequence >= 0;
        let mut producers: Vec<(&i64, &Producer)> = self.known.iter().filter(has_sequence).collect();
        if producers.is_empty() {
            return None;
        }
        producers.sort_unstable_by_key(|(_, producer)| producer.turn);
        let mut bytes = Vec::new();
        bytes.extend_from_slice(&(producers.len() as u32).to_le_bytes());
        for (id, producer) in producers {
            let batches = producer.latest.as_slice();
            bytes.extend_from_slice(&id.to_le_bytes());
            bytes.extend_from_slice(&producer.epoch.to_le_bytes());
            bytes.extend_from_slice(&(batches.len() as u16).to_le_bytes());
            bytes.extend_from_slice(&producer.last_sequence.to_le_bytes());
            bytes.extend_from_slice(&producer.active_at.milliseconds().to_le_bytes());
            for batch in batches {
                bytes.extend_from_slice(&batch.first_sequence.to_le_bytes());
                bytes.extend_from_slice(&batch.last_sequence.to_le_bytes());
                bytes.extend_from_slice(&batch.first_sequence_number.to_le_bytes());
            }
        }
        Some(ProducerSnapshot(bytes.into()))
    }

    /// Knows what `snapshot` says, and nothing else.
    pub(crate) fn restore(&mut self, snapshot: Option<&ProducerSnapshot>) {
        self.known.clear();
        let Some(ProducerSnapshot(bytes)) = snapshot else {
            return;
        };
        read(bytes, |id, mut producer| {
            self.turn += 1;
            producer.turn = self.turn;
            self.known.insert(id, producer);
        });
    }
}

/// Gives `each` the producers in `bytes`; `None` if something else stands there.
fn read(bytes: &[u8], mut each: impl FnMut(i64, Producer)) -> Option<()> {
    let (count, mut rest) = bytes.split_first_chunk()?;
    let count = u32::from_le_bytes(*count) as usize;
    if !(1..=MAXIMUM_PRODUCERS).contains(&count) {
        return None;
    }
    for _ in 0..count {
        let (id, epoch, batches, last_sequence, active_at);
        (id, rest) = rest.split_first_chunk()?;
        (epoch, rest) = rest.split_first_chunk()?;
        (batches, rest) = rest.split_first_chunk()?;
        (last_sequence, rest) = rest.split_first_chunk()?;
        (active_at, rest) = rest.split_first_chunk()?;
        let id = i64::from_le_bytes(*id);
        let mut producer = Producer {
            epoch: i16::from_le_bytes(*epoch),
            last_sequence: i32::from_le_bytes(*last_sequence),
            active_at: UnixTime::from_milliseconds(i64::from_le_bytes(*active_at)),
            turn: 0,
            latest: LatestBatches::default(),
            coordinator_epoch: -1,
        };
        let batches = usize::from(u16::from_le_bytes(*batches));
        if id < 0 || producer.epoch < 0 || producer.last_sequence < 0 || batches > LATEST_BATCHES {
            return None;
        }
        for _ in 0..batches {
            let (first, last, number);
            (first, rest) = rest.split_first_chunk()?;
            (last, rest) = rest.split_first_chunk()?;
            (number, rest) = rest.split_first_chunk()?;
            let batch = StoredBatch {
                first_sequence: i32::from_le_bytes(*first),
                last_sequence: i32::from_le_bytes(*last),
                first_sequence_number: u64::from_le_bytes(*number),
            };
            if batch.first_sequence < 0 || batch.last_sequence < 0 {
                return None;
            }
            producer.latest.push(batch);
        }
        each(id, producer);
    }
    rest.is_empty().then_some(())
}

/// Bytes of a producer without its batches.
const PRODUCER_LENGTH: usize = 24;

/// Bytes of one of its batches.
const BATCH_LENGTH: usize = 16;
