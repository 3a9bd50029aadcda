//! The state machine, case by case and against a model that forgets nothing.

use super::*;
use proptest::prelude::*;
use std::collections::BTreeMap;

const DAY_MS: i64 = 24 * 60 * 60 * 1000;

fn at(milliseconds: i64) -> UnixTime {
    UnixTime::from_milliseconds(milliseconds)
}

fn stamp(id: i64, epoch: i16, first_sequence: i32) -> ProducerStamp {
    ProducerStamp::new(id, epoch, first_sequence).unwrap()
}

fn limited(maximum: usize) -> Producers {
    Producers::new(ProducerLimits { maximum, ..ProducerLimits::default() })
}

/// Checks a batch and remembers it if it is to be stored, as the next number.
fn produce(
    producers: &mut Producers,
    stamp: ProducerStamp,
    record_count: u32,
    number: u64,
    now: UnixTime,
) -> Result<Option<u64>, ProducerError> {
    let verdict = producers.check(&stamp, record_count, now)?;
    if verdict.is_none() {
        producers.record(&stamp, record_count, number, now);
    }
    Ok(verdict)
}

fn out_of_order(expected: i32, found: i32) -> Result<Option<u64>, ProducerError> {
    Err(ProducerError::OutOfOrder { expected, found })
}

#[test]
fn a_retry_of_one_of_the_latest_five_batches_is_answered_with_its_first_number() {
    let mut producers = Producers::default();
    for batch in 0..6 {
        let stamp = stamp(7, 0, batch * 3);
        assert_eq!(produce(&mut producers, stamp, 3, 100 + batch as u64 * 10, at(0)), Ok(None));
    }
    assert_eq!(producers.check(&stamp(7, 0, 0), 3, at(0)), out_of_order(18, 0), "the oldest of six");
    for batch in 1..6 {
        let number = 100 + batch as u64 * 10;
        assert_eq!(producers.check(&stamp(7, 0, batch * 3), 3, at(0)), Ok(Some(number)));
    }
    assert_eq!(producers.check(&stamp(7, 0, 18), 1, at(0)), Ok(None));
    assert_eq!(producers.check(&stamp(8, 0, 3), 3, at(0)), Ok(None), "another producer");
}

#[test]
fn a_gap_and_a_part_of_what_is_stored_are_refused() {
    let mut producers = Producers::default();
    assert_eq!(produce(&mut producers, stamp(7, 0, 1), 5, 0, at(0)), Ok(None));
    for (first, count) in [(7, 1), (2, 1), (1, 4), (1, 6), (5, 2), (0, 1)] {
        assert_eq!(producers.check(&stamp(7, 0, first), count, at(0)), out_of_order(6, first));
    }
}

#[test]
fn a_newer_epoch_starts_over_and_an_older_one_is_refused() {
    let mut producers = Producers::default();
    produce(&mut producers, stamp(7, 1, 4), 2, 0, at(0)).unwrap();
    assert_eq!(producers.check(&stamp(7, 2, 6), 1, at(0)), out_of_order(0, 6));
    assert_eq!(produce(&mut producers, stamp(7, 2, 0), 1, 2, at(0)), Ok(None));
    let older = ProducerError::OlderEpoch { current: 2, found: 1 };
    assert_eq!(producers.check(&stamp(7, 1, 4), 2, at(0)), Err(older));
    assert_eq!(producers.check(&stamp(7, 2, 1), 1, at(0)), Ok(None));
}

#[test]
fn sequences_start_over_at_zero_after_the_largest() {
    let mut producers = Producers::default();
    produce(&mut producers, stamp(7, 0, i32::MAX - 1), 4, 10, at(0)).unwrap();
    assert_eq!(producers.check(&stamp(7, 0, i32::MAX - 1), 4, at(0)), Ok(Some(10)));
    assert_eq!(produce(&mut producers, stamp(7, 0, 2), 1, 14, at(0)), Ok(None));
    assert_eq!(sequence_after(i32::MAX, 1), 0);
}

#[test]
fn a_claim_is_answered_with_what_is_named_and_else_with_what_is_known() {
    let mut producers = Producers::default();
    let position = |epoch, last_sequence| Ok(ProducerPosition { epoch, last_sequence });
    assert_eq!(producers.claim(7, None, None, at(0)), position(0, -1));
    assert_eq!(producers.claim(7, Some(0), Some(-1), at(0)), position(0, -1));
    assert_eq!(producers.check(&stamp(7, 0, 2), 1, at(0)), out_of_order(0, 2));
    assert_eq!(producers.check(&stamp(7, 0, 1), 1, at(0)), Ok(None), "as if 0 had been answered");
    assert_eq!(producers.snapshot(), None, "there is nothing to be kept");
    produce(&mut producers, stamp(7, 0, 0), 1, 0, at(0)).unwrap();
    assert_eq!(producers.check(&stamp(7, 0, 2), 1, at(0)), out_of_order(1, 2));
    produce(&mut producers, stamp(7, 0, 1), 5, 1, at(0)).unwrap();
    assert_eq!(producers.claim(7, None, None, at(0)), position(0, 5));
    // The last answer was lost: the client sends the batch again.
    assert_eq!(producers.claim(7, Some(0), Some(0), at(0)), position(0, 0));
    assert_eq!(producers.check(&stamp(7, 0, 1), 5, at(0)), Ok(Some(1)));
    assert_eq!(producers.claim(7, Some(2), None, at(0)), position(2, 5));
    let older = ProducerError::OlderEpoch { current: 2, found: 1 };
    assert_eq!(producers.claim(7, Some(1), Some(5), at(0)), Err(older));
    assert_eq!(
        producers.check(&stamp(7, 0, 6), 1, at(0)),
        Err(ProducerError::OlderEpoch { current: 2, found: 0 })
    );
    assert_eq!(producers.check(&stamp(7, 2, 6), 1, at(0)), Ok(None));
    assert_eq!(producers.claim(7, Some(3), Some(40), at(0)), position(3, 40));
    assert_eq!(producers.check(&stamp(7, 3, 41), 1, at(0)), Ok(None));
    assert_eq!(producers.claim(9, Some(4), Some(99), at(0)), position(4, 99), "not known");
    assert_eq!(producers.check(&stamp(9, 4, 100), 1, at(0)), Ok(None));
}

#[test]
fn a_producer_that_was_idle_for_too_long_is_unknown() {
    let mut producers = Producers::default();
    produce(&mut producers, stamp(7, 3, 1), 5, 0, at(0)).unwrap();
    assert_eq!(producers.check(&stamp(7, 3, 1), 5, at(DAY_MS)), Ok(Some(0)));
    let late = at(DAY_MS + 1);
    assert_eq!(producers.check(&stamp(7, 0, 1), 5, late), Ok(None), "nothing is known of it");
    // Another one of the same numbers is not taken for it.
    producers.record(&stamp(7, 3, 0), 1, 20, late);
    assert_eq!(producers.check(&stamp(7, 3, 1), 5, late), Ok(None));
    producers.expire(late);
    assert_eq!(producers.stats(), ProducerStats { known: 1, expired: 0, evicted: 0 });
    producers.expire(at(2 * DAY_MS + 2));
    assert_eq!(producers.stats(), ProducerStats { known: 0, expired: 1, evicted: 0 });
}

#[test]
fn those_that_were_active_last_are_kept_when_there_are_too_many() {
    let mut producers = limited(16);
    for id in 0..16 {
        producers.record(&stamp(id, 0, 0), 1, id as u64, at(id));
    }
    producers.record(&stamp(0, 0, 1), 1, 16, at(16));
    assert_eq!(producers.stats(), ProducerStats { known: 16, expired: 0, evicted: 0 });
    producers.record(&stamp(16, 0, 0), 1, 17, at(17));
    assert_eq!(producers.stats(), ProducerStats { known: 14, expired: 0, evicted: 3 });
    let is_known = |id| producers.check(&stamp(id, 0, 0), 1, at(17)).unwrap().is_some();
    let known: Vec<i64> = (0..17).filter(|id| is_known(*id)).collect();
    assert_eq!(known, [0, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16]);
}

#[test]
fn a_crowd_of_producers_takes_no_more_room_than_there_is() {
    let mut producers = Producers::default();
    for id in 0..3 * MAXIMUM_PRODUCERS as i64 {
        for batch in 0..6 {
            producers.record(&stamp(id, 0, batch), 1, 0, at(0));
        }
    }
    let ProducerStats { known, evicted, .. } = producers.stats();
    assert!(known <= MAXIMUM_PRODUCERS as u64);
    assert_eq!(known + evicted, 3 * MAXIMUM_PRODUCERS as u64);
    assert!(producers.snapshot().unwrap().bytes().len() <= ProducerSnapshot::MAXIMUM_LENGTH);
}

#[test]
fn a_snapshot_brings_back_what_was_known_and_in_which_order() {
    let mut producers = limited(16);
    assert_eq!(producers.snapshot(), None);
    for id in [3, 1, 2] {
        produce(&mut producers, stamp(id, 1, 0), 2, id as u64, at(id)).unwrap();
    }
    let snapshot = producers.snapshot().unwrap();
    let read = ProducerSnapshot::from_bytes(snapshot.bytes()).unwrap();
    let mut restored = limited(16);
    restored.restore(Some(&read));
    assert_eq!(restored.known, producers.known);
    assert_eq!(restored.snapshot(), Some(snapshot));
    restored.restore(None);
    assert_eq!(restored.snapshot(), None);
}

#[derive(Clone, Debug)]
enum Operation {
    /// The next batch.
    Continue {
        producer: i64,
        count: u32,
    },
    /// Some earlier batch of the epoch again.
    Retry {
        producer: i64,
        back: usize,
    },
    /// A batch after a gap, which is never filled.
    Skip {
        producer: i64,
        gap: i32,
    },
    /// The next epoch, from 0.
    Fence {
        producer: i64,
    },
    /// A batch of the epoch before.
    Lag {
        producer: i64,
    },
    Restart,
}

/// What a producer has stored in its epoch.
#[derive(Default)]
struct Model {
    epoch: i16,
    /// First sequence, count, first number.
    batches: Vec<(i32, u32, u64)>,
}

impl Model {
    fn next(&self) -> i32 {
        self.batches.last().map_or(0, |(first, count, _)| first + *count as i32)
    }
}

fn operation() -> impl Strategy<Value = Operation> {
    let producer = 0_i64..4;
    prop_oneof![
        6 => (producer.clone(), 1_u32..5).prop_map(|(producer, count)| Operation::Continue { producer, count }),
        3 => (producer.clone(), 1_usize..8).prop_map(|(producer, back)| Operation::Retry { producer, back }),
        1 => (producer.clone(), 1_i32..9).prop_map(|(producer, gap)| Operation::Skip { producer, gap }),
        1 => producer.clone().prop_map(|producer| Operation::Fence { producer }),
        1 => producer.prop_map(|producer| Operation::Lag { producer }),
        1 => Just(Operation::Restart),
    ]
}

proptest! {
    #[test]
    fn every_batch_is_stored_once_whatever_is_sent_again(operations in proptest::collection::vec(operation(), 1..80)) {
        let mut producers = Producers::default();
        let mut models: BTreeMap<i64, Model> = BTreeMap::new();
        let mut number = 0;
        for operation in operations {
            match operation {
                Operation::Continue { producer, count } => {
                    let model = models.entry(producer).or_default();
                    let (stamp, first) = (stamp(producer, model.epoch, model.next()), model.next());
                    prop_assert_eq!(produce(&mut producers, stamp, count, number, at(0)), Ok(None));
                    model.batches.push((first, count, number));
                    number += u64::from(count);
                }
                Operation::Retry { producer, back } => {
                    let Some(model) = models.get(&producer).filter(|model| model.batches.len() >= back) else {
                        continue;
                    };
                    let (first, count, stored) = model.batches[model.batches.len() - back];
                    let verdict = producers.check(&stamp(producer, model.epoch, first), count, at(0));
                    let expected = match back <= LATEST_BATCHES {
                        true => Ok(Some(stored)),
                        false => out_of_order(model.next(), first),
                    };
                    prop_assert_eq!(verdict, expected);
                }
                Operation::Skip { producer, gap } => {
                    if let Some(model) = models.get(&producer) {
                        let found = model.next() + gap;
                        let verdict = producers.check(&stamp(producer, model.epoch, found), 1, at(0));
                        prop_assert_eq!(verdict, out_of_order(model.next(), found));
                    }
                }
                Operation::Fence { producer } => {
                    let model = models.entry(producer).or_default();
                    *model = Model { epoch: model.epoch + 1, batches: vec![(0, 1, number)] };
                    let stamp = stamp(producer, model.epoch, 0);
                    prop_assert_eq!(produce(&mut producers, stamp, 1, number, at(0)), Ok(None));
                    number += 1;
                }
                Operation::Lag { producer } => {
                    if let Some(model) = models.get(&producer).filter(|model| model.epoch > 0) {
                        let (current, found) = (model.epoch, model.epoch - 1);
                        let verdict = producers.check(&stamp(producer, found, model.next()), 1, at(0));
                        prop_assert_eq!(verdict, Err(ProducerError::OlderEpoch { current, found }));
                    }
                }
                Operation::Restart => {
                    let snapshot = producers.snapshot();
                    producers = Producers::default();
                    producers.restore(snapshot.as_ref());
                }
            }
        }
    }

    #[test]
    fn any_bytes_can_be_read_as_a_snapshot(count in 0_u32..4, bytes in proptest::collection::vec(any::<u8>(), 0..120)) {
        let bytes = [&count.to_le_bytes()[..], &bytes].concat();
        if let Some(snapshot) = ProducerSnapshot::from_bytes(&bytes) {
            prop_assert_eq!(snapshot.bytes(), &bytes[..]);
            Producers::default().restore(Some(&snapshot));
        }
    }
}
