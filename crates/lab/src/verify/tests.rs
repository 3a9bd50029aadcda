//! Seeded faults are found with exact counts, and any sequence of events gets the verdict of a naive
//! model that remembers everything.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::*;
use crate::{clock::RunTime, payload::PayloadWriter};

const EXPECTATION: Expectation =
    Expectation { run: 7, streams: 4, destinations: 3, sequence_end: 1_000, placement: Placement::Anywhere };

fn header(stream: u16, sequence: u32) -> Header {
    Header { run: EXPECTATION.run, stream, sequence, intended: RunTime::from_micros(u64::from(sequence)) }
}

/// A pure route, as the relay's are: the same event always goes to the same destination.
fn destination_of(stream: u16, sequence: u32) -> u16 {
    ((u32::from(stream) * 31 + sequence * 17) % 3) as u16
}

fn all_acknowledged(events: u32) -> Vec<StreamSends> {
    let mut acknowledged = RangeSet::new();
    acknowledged.insert(0..events);
    vec![StreamSends { sent: events, acknowledged }; 4]
}

/// All events of a run of `events` per stream, in the order of a fair pipeline.
fn healthy_run(events: u32) -> Vec<(u16, u32)> {
    (0..events).flat_map(|sequence| (0..4).map(move |stream| (stream, sequence))).collect()
}

fn watch(events: &[(u16, u32)]) -> StreamVerifier {
    let mut verifier = StreamVerifier::new(EXPECTATION);
    for &(stream, sequence) in events {
        verifier.observe(Ok(header(stream, sequence)), destination_of(stream, sequence));
    }
    verifier
}

#[test]
fn a_whole_run_is_intact() {
    let verifier = watch(&healthy_run(500));
    let sends = all_acknowledged(500);
    assert_eq!(verifier.missing(&sends), 0);
    let delivery = verifier.conclude(&sends);
    assert!(delivery.is_intact());
    assert_eq!((delivery.sent, delivery.distinct), (2_000, 2_000));
    assert_eq!(delivery.counts.received, 2_000);
    assert!(verifier.has_seen(3, 499) && !verifier.has_seen(3, 500));
}

#[test]
fn lost_events_are_counted_and_the_first_are_named() {
    let mut events = healthy_run(500);
    events.retain(|&(stream, sequence)| !(stream == 2 && (100..110).contains(&sequence)));
    events.retain(|&event| event != (3, 0) && event != (3, 499));
    let verifier = watch(&events);
    let sends = all_acknowledged(500);
    assert_eq!(verifier.missing(&sends), 12);
    let delivery = verifier.conclude(&sends);
    assert_eq!(delivery.lost, 12);
    assert!(!delivery.is_intact());
    let lost = |stream, first, count| LostRange { stream, first, count };
    assert_eq!(delivery.lost_examples, [lost(2, 100, 10), lost(3, 0, 1), lost(3, 499, 1)]);
}

#[test]
fn examples_of_losses_stop_at_their_limit_while_the_count_goes_on() {
    let mut events = healthy_run(500);
    events.retain(|(_, sequence)| sequence % 2 == 0);
    let delivery = watch(&events).conclude(&all_acknowledged(500));
    assert_eq!(delivery.lost, 1_000);
    assert_eq!(delivery.lost_examples.len(), LOSS_EXAMPLES);
}

#[test]
fn a_redelivered_batch_is_duplicated_and_not_reordered() {
    let mut events = healthy_run(500);
    let again = events[400..464].to_vec();
    events.splice(480..480, again);
    let delivery = watch(&events).conclude(&all_acknowledged(500));
    assert_eq!(delivery.counts.duplicated, 64);
    assert_eq!(delivery.counts.reordered, 0);
    assert!(delivery.is_intact());
}

#[test]
fn each_swap_at_a_destination_is_one_reordered_event() {
    let mut events: Vec<_> = (0..300).map(|sequence| (1, sequence)).collect();
    // Three apart is the same destination; the two between them go elsewhere.
    events.swap(30, 33);
    events.swap(90, 93);
    // One apart are two destinations, whose order relative to each other nobody promises.
    events.swap(150, 151);
    let delivery = watch(&events).conclude(&all_acknowledged(300));
    assert_eq!(delivery.counts.reordered, 2);
    assert_eq!(delivery.counts.duplicated, 0);
}

#[test]
fn flipped_bits_are_corrupted_and_what_they_hit_is_lost() {
    let writer = PayloadWriter::new(16, 1).expect("a possible length");
    let mut verifier = StreamVerifier::new(EXPECTATION);
    for (number, (stream, sequence)) in healthy_run(100).into_iter().enumerate() {
        let mut payload = [0; 16];
        writer.write(header(stream, sequence), RunTime::EPOCH, &mut payload);
        if number % 10 == 0 {
            payload[number / 10 % 16] ^= 1 << (number % 8);
        }
        verifier.observe(Header::parse(&payload), destination_of(stream, sequence));
    }
    let delivery = verifier.conclude(&all_acknowledged(100));
    assert_eq!(delivery.counts.corrupted, 40);
    assert_eq!(delivery.lost, 40);
    assert!(!delivery.is_intact());
}

#[test]
fn what_the_run_cannot_contain_is_corrupted_at_its_limits_and_another_run_is_foreign() {
    let mut verifier = StreamVerifier::new(EXPECTATION);
    assert!(verifier.observe(Ok(header(3, 999)), 0).is_some());
    assert!(verifier.observe(Ok(header(3, 1_000)), 0).is_none());
    assert!(verifier.observe(Ok(header(4, 0)), 0).is_none());
    let foreign = Header { run: 8, ..header(0, 0) };
    assert!(verifier.observe(Ok(foreign), 0).is_none());
    let counts = verifier.counts();
    assert_eq!((counts.received, counts.corrupted, counts.foreign), (1, 2, 1));
}

#[test]
fn sends_without_an_answer_are_unknown_whether_they_arrive_or_not() {
    let mut sends = all_acknowledged(100);
    sends[0].acknowledged = RangeSet::new();
    sends[0].acknowledged.insert(0..40);
    sends[0].acknowledged.insert(50..100);
    let mut events = healthy_run(100);
    events.retain(|&(stream, sequence)| !(stream == 0 && (45..50).contains(&sequence)));
    events.push((1, 500));
    let delivery = watch(&events).conclude(&sends);
    assert_eq!((delivery.unknown, delivery.unknown_seen), (10, 5));
    assert_eq!(delivery.lost, 0);
    assert_eq!(delivery.unexpected, 1);
}

#[test]
fn several_sinks_merge_to_what_one_would_have_seen() {
    let mut events = healthy_run(500);
    events.push((1, 30));
    let whole = watch(&events).conclude(&all_acknowledged(500));
    let mut merged = StreamVerifier::new(EXPECTATION);
    for destination in 0..3 {
        let part: Vec<_> = events
            .iter()
            .copied()
            .filter(|&(stream, sequence)| destination_of(stream, sequence) == destination)
            .collect();
        merged.merge(watch(&part));
    }
    assert_eq!(merged.conclude(&all_acknowledged(500)), whole);

    let mut twice = watch(&healthy_run(10));
    twice.merge(watch(&healthy_run(10)));
    assert_eq!(twice.counts().duplicated, 40);
    assert_eq!(twice.distinct(), 40);
}

/// Remembers every event in order and derives the verdict by looking at all of them again.
fn naive(events: &[(u16, u32, u16)], sends: &[StreamSends]) -> Delivery {
    let mut delivery = Delivery::default();
    let mut seen = BTreeSet::new();
    let mut highest = BTreeMap::new();
    for &(stream, sequence, destination) in events {
        delivery.counts.received += 1;
        if !seen.insert((stream, sequence)) {
            delivery.counts.duplicated += 1;
            continue;
        }
        let highest = highest.entry((stream, destination)).or_insert(sequence);
        if sequence < *highest {
            delivery.counts.reordered += 1;
        }
        *highest = sequence.max(*highest);
    }
    delivery.distinct = seen.len() as u64;
    delivery.reached =
        highest.keys().map(|(_, destination)| destination).collect::<BTreeSet<_>>().len() as u16;
    for (stream, sends) in (0..).zip(sends) {
        for sequence in 0..EXPECTATION.sequence_end {
            let sent = sequence < sends.sent;
            let acknowledged = sends.acknowledged.contains(sequence);
            let seen = seen.contains(&(stream, sequence));
            delivery.sent += u64::from(sent);
            delivery.acknowledged += u64::from(acknowledged);
            delivery.lost += u64::from(acknowledged && !seen);
            delivery.unknown += u64::from(sent && !acknowledged);
            delivery.unknown_seen += u64::from(sent && !acknowledged && seen);
            delivery.unexpected += u64::from(!sent && seen);
        }
    }
    delivery
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn any_sequence_of_events_gets_the_verdict_of_the_naive_model(
        events in proptest::collection::vec((0_u16..4, 0_u32..60, 0_u16..3), 0..300),
        sends in proptest::collection::vec((0_u32..60, 0_u32..60, 1_u32..10), 4),
    ) {
        let sends: Vec<_> = sends
            .into_iter()
            .map(|(sent, gap, length)| {
                let mut acknowledged = RangeSet::new();
                acknowledged.insert(0..gap.min(sent));
                acknowledged.insert((gap + length).min(sent)..sent);
                StreamSends { sent, acknowledged }
            })
            .collect();
        let mut verifier = StreamVerifier::new(EXPECTATION);
        for &(stream, sequence, destination) in &events {
            let is_first = !verifier.has_seen(stream, sequence);
            prop_assert_eq!(verifier.observe(Ok(header(stream, sequence)), destination).is_some(), is_first);
        }
        let mut delivery = verifier.conclude(&sends);
        let examples: u64 = delivery.lost_examples.iter().map(|range| u64::from(range.count)).sum();
        prop_assert!(delivery.lost_examples.len() == LOSS_EXAMPLES || examples == delivery.lost);
        delivery.lost_examples.clear();
        prop_assert_eq!(delivery, naive(&events, &sends));
    }
}

#[test]
fn an_event_at_a_partition_that_it_was_not_to_go_to_is_misplaced_and_reached_partitions_are_counted() {
    let placed = |placement, destination: fn(u16) -> u16| {
        let mut verifier = StreamVerifier::new(Expectation { placement, ..EXPECTATION });
        for (stream, sequence) in healthy_run(10) {
            verifier.observe(Ok(header(stream, sequence)), destination(stream));
        }
        let delivery = verifier.conclude(&all_acknowledged(10));
        (delivery.counts.misplaced, delivery.reached)
    };
    let same = Placement::Same { sources: 4, fan_out: 2 };
    assert_eq!(placed(same, |stream| stream % 2), (0, 2));
    assert_eq!(placed(same, |_| 0), (20, 1), "those of two streams in four");
    assert_eq!(placed(Placement::First(2), |stream| stream % 3), (10, 3), "those of one stream");
    assert_eq!(placed(Placement::Anywhere, |stream| stream % 3), (0, 3));
}
