//! Loss, duplicates, swaps and flipped bits are all found, with exact counts.

use std::collections::HashMap;
use std::ops::Range;

use lab::payload::Header;
use lab::results::{Delivery, FindingKind, Status};
use lab::roles::memory::{Faults, Tally, Tampering};

use super::measured;

/// As many as in the scenario.
const EVENTS: u64 = 20_003;
const STREAMS: u64 = 4;

const TAMPERING: Tampering = Tampering { seed: 0, loss: 0.01, duplicates: 0.015, swaps: 0.02, flips: 0.005 };

async fn tampered(payload: &str, workers: u32, tampering: Tampering) -> (Delivery, Status, Tally) {
    let payload = format!("load.payload={payload}");
    let workers = format!("sink.workers={workers}");
    let set = ["load.mode=backlog", "phases.drain=100 ms", &payload, &workers];
    let faults = Faults { tampering: Some(tampering), ..Faults::default() };
    let (case, backend) = measured(&set, faults).await;
    let delivery = case.delivery.unwrap();
    assert_eq!(delivery.sent, EVENTS);
    assert_eq!(delivery.acknowledged, Some(EVENTS));
    let tally = backend.tally();
    assert!(case.status == Status::Failed || (tally.lost.is_empty() && tally.flipped.is_empty()));
    assert_eq!(case.has(FindingKind::EventsLost), delivery.lost > 0);
    assert_eq!(case.has(FindingKind::EventsCorrupted), delivery.corrupted > Some(0));
    // Nothing but the run can write to the embedded service.
    assert_eq!(case.has(FindingKind::EventsForeign), delivery.foreign > Some(0));
    let (received, duplicated) = delivery.received.zip(delivery.duplicated).unwrap();
    assert_eq!(case.has(FindingKind::EventsDuplicated), duplicated * 100 > EVENTS);
    assert!(case.status == Status::Failed || delivery.foreign == Some(0));
    let repeated = case.with_duplicates_per_s.map(|rate| rate.median);
    assert_eq!(repeated.is_some(), duplicated > 0);
    if let Some((repeated, once)) = repeated.zip(case.forwarded_per_s) {
        let expected = received as f64 / (received - duplicated) as f64;
        assert!((repeated / once.median - expected).abs() < 1e-9, "{repeated} and {once:?}");
    }
    (delivery, case.status, tally)
}

#[tokio::test]
async fn with_a_checksum_every_deed_is_found_and_counted_once() {
    for (seed, payload, workers) in [(1, "16 B", 1), (2, "1 KiB", 1), (3, "16 B", 2), (4, "24 B", 3)] {
        let tampering = Tampering { seed, ..TAMPERING };
        let (delivery, _, tally) = tampered(payload, workers, tampering).await;
        let (lost, flipped) = (tally.lost.len() as u64, tally.flipped.len() as u64);
        assert!(lost > 100 && tally.duplicated > 100 && tally.swapped > 100 && flipped > 50, "{tally:?}");
        let expected = Delivery {
            sent: EVENTS,
            acknowledged: Some(EVENTS),
            received: Some(EVENTS - lost - flipped + tally.duplicated),
            done: None,
            // Nobody knows who a broken event was: it is corrupted, and missing as well.
            lost: lost + flipped,
            duplicated: Some(tally.duplicated),
            reordered: Some(tally.swapped),
            corrupted: Some(flipped),
            unidentified: None,
            unknown: Some(0),
            unexpected: Some(0),
            foreign: Some(0),
            misplaced: Some(0),
            reached_partitions: Some(3),
            redelivered: None,
            dead_lettered: None,
        };
        assert_eq!(delivery, expected, "seed {seed}, {payload}");
    }
}

#[tokio::test]
async fn twelve_bytes_have_no_checksum_and_all_the_same_no_flip_is_taken_for_the_event_it_was() {
    for seed in [5, 6] {
        let flips = Tampering { seed, loss: 0.01, flips: 0.02, ..Tampering::default() };
        let (delivery, _, tally) = tampered("12 B", 1, flips).await;
        let expected = Expected::of(&tally);
        assert!(expected.foreign > 10 && expected.impossible > 10 && expected.unfound > 10);
        assert_eq!(delivery.lost, expected.lost);
        assert_eq!(delivery.foreign, Some(expected.foreign));
        assert_eq!(delivery.corrupted.unwrap() + delivery.unexpected.unwrap(), expected.impossible);
        assert_eq!(delivery.duplicated, Some(expected.duplicated));
        assert_eq!(
            delivery.received.unwrap() + delivery.corrupted.unwrap() + expected.foreign,
            EVENTS - tally.lost.len() as u64
        );
    }
}

#[tokio::test]
async fn the_plan_of_an_open_load_finds_what_twelve_bytes_have_no_checksum_for() {
    for arrivals in ["constant", "poisson"] {
        let arrivals = format!("load.arrivals={arrivals}");
        let set = ["load.mode=open", "load.payload=12 B", &arrivals, "phases.drain=100 ms"];
        let tampering = Tampering { seed: 9, flips: 0.02, ..Tampering::default() };
        let (case, backend) =
            measured(&set, Faults { tampering: Some(tampering), ..Faults::default() }).await;
        let (delivery, tally) = (case.delivery.unwrap(), backend.tally());
        let flips =
            |bits: Range<u32>| tally.flipped.iter().filter(|flip| bits.contains(&flip.bit)).count() as u64;
        // The last bits of an instant are worth a microsecond or two, which is no more than rounding.
        let (foreign, corrupted, harmless) = (flips(0..8), flips(8..94), flips(94..96));
        assert!(corrupted > 20 && foreign > 0, "{tally:?}");
        assert_eq!(
            (delivery.foreign, delivery.corrupted),
            (Some(foreign), Some(corrupted)),
            "{arrivals}: {harmless}"
        );
        assert_eq!(delivery.received, Some(delivery.sent - foreign - corrupted), "{arrivals}");
        assert_eq!((delivery.duplicated, delivery.unexpected), (Some(0), Some(0)), "{arrivals}");
    }
}

#[tokio::test]
async fn twelve_bytes_do_for_loss_duplicates_and_swaps() {
    let (delivery, _, tally) = tampered("12 B", 1, Tampering { seed: 7, flips: 0.0, ..TAMPERING }).await;
    assert_eq!(delivery.lost, tally.lost.len() as u64);
    assert_eq!(delivery.duplicated, Some(tally.duplicated));
    assert_eq!(delivery.reordered, Some(tally.swapped));
    assert_eq!(delivery.corrupted, Some(0));
}

#[tokio::test]
async fn what_is_allowed_passes_and_what_breaks_the_order_does_not() {
    let seed = 8;
    let duplicates = Tampering { seed, duplicates: 0.02, ..Tampering::default() };
    assert_eq!(tampered("16 B", 1, duplicates).await.1, Status::Passed);
    let swaps = Tampering { seed, swaps: 0.001, ..Tampering::default() };
    assert_eq!(tampered("16 B", 1, swaps).await.1, Status::Failed);
    assert_eq!(tampered("16 B", 1, Tampering::default()).await.1, Status::Passed);
}

/// What a naive model makes of headers whose bits were flipped.
#[derive(Debug, Default)]
struct Expected {
    lost: u64,
    duplicated: u64,
    /// Streams and sequence numbers that the run does not have.
    impossible: u64,
    /// Of another run, it seems.
    foreign: u64,
    /// Flips in the intended time, which change a latency and nothing else.
    unfound: u64,
}

impl Expected {
    fn of(tally: &Tally) -> Self {
        let mut expected = Self::default();
        // How often each event of the plan arrives.
        let mut arrivals: HashMap<(u64, u64), u64> =
            (0..EVENTS).map(|number| ((number % STREAMS, number / STREAMS), 1)).collect();
        for (partition, sequence_number) in &tally.lost {
            *arrivals.get_mut(&(u64::from(*partition), *sequence_number as u64)).unwrap() -= 1;
        }
        for flip in &tally.flipped {
            let (stream, sequence) = (u64::from(flip.partition), flip.sequence_number as u64);
            *arrivals.get_mut(&(stream, sequence)).unwrap() -= 1;
            // Where the fields lie is what the drawing of the payload says: run, stream, sequence, intended time.
            let now = match flip.bit {
                0..8 => {
                    expected.foreign += 1;
                    continue;
                }
                8..24 => (stream ^ (1 << (23 - flip.bit)), sequence),
                24..56 => (stream, sequence ^ (1 << (55 - flip.bit))),
                _ => {
                    expected.unfound += 1;
                    (stream, sequence)
                }
            };
            match arrivals.get_mut(&now) {
                Some(count) => *count += 1,
                None => expected.impossible += 1,
            }
        }
        for count in arrivals.values() {
            expected.lost += u64::from(*count == 0);
            expected.duplicated += count.saturating_sub(1);
        }
        expected
    }
}

const _: () = assert!(Header::LENGTH == 12);
