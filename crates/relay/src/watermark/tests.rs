//! The watermark against a model that keeps every batch for ever.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

#[test]
fn it_moves_over_what_completes_in_order() {
    let mut watermark = Watermark::new(2);
    assert_eq!(watermark.position(), None);
    let first = watermark.begin(9, Some(b"90"));
    let second = watermark.begin(19, None);
    assert!(!watermark.has_room());
    assert!(watermark.complete(first));
    assert_eq!(watermark.position(), Some(&Position { sequence_number: 9, offset: "90".to_owned() }));
    assert!(watermark.complete(second));
    assert_eq!(watermark.position(), Some(&Position { sequence_number: 19, offset: String::new() }));
}

#[test]
fn it_waits_for_the_oldest_and_then_passes_all_that_are_done() {
    let mut watermark = Watermark::new(3);
    let tickets = [9, 19, 29].map(|last| watermark.begin(last, None));
    assert!(!watermark.complete(tickets[2]));
    assert!(!watermark.complete(tickets[1]));
    assert_eq!(watermark.position(), None);
    assert!(watermark.complete(tickets[0]));
    assert_eq!(watermark.position().map(|position| position.sequence_number), Some(29));
}

#[test]
fn abandoned_batches_do_not_count() {
    let mut watermark = Watermark::new(2);
    let first = watermark.begin(9, None);
    assert!(watermark.complete(first));
    watermark.begin(19, None);
    watermark.begin(29, None);
    watermark.abandon();
    assert_eq!(watermark.position().map(|position| position.sequence_number), Some(9));
    let again = watermark.begin(19, None);
    assert!(watermark.complete(again));
    assert_eq!(watermark.position().map(|position| position.sequence_number), Some(19));
}

#[test]
#[should_panic(expected = "is not under way")]
fn a_batch_of_before_an_abandonment_cannot_complete() {
    let mut watermark = Watermark::new(2);
    let lost = watermark.begin(9, None);
    watermark.abandon();
    watermark.complete(lost);
}

#[test]
#[should_panic(expected = "more batches begin")]
fn no_more_batches_begin_than_it_was_made_for() {
    let mut watermark = Watermark::new(1);
    watermark.begin(9, None);
    watermark.begin(19, None);
}

proptest! {
    #[test]
    fn it_never_passes_a_gap(in_flight in 1_usize..9, steps in prop::collection::vec((0_u8..10, 0_usize..9), 0..300)) {
        let mut watermark = Watermark::new(in_flight);
        // Batches in flight: their last sequence number, ticket and whether they are done. Those before are covered.
        let mut model: BTreeMap<i64, (Ticket, bool)> = BTreeMap::new();
        let mut covered = None;
        let mut last = 0;
        for (operation, choice) in steps {
            match operation {
                0..5 => {
                    prop_assert_eq!(watermark.has_room(), model.len() < in_flight);
                    if watermark.has_room() {
                        last += 10;
                        let ticket = watermark.begin(last, Some(last.to_string().as_bytes()));
                        model.insert(last, (ticket, false));
                    }
                }
                5..9 => {
                    let open: Vec<i64> = model.iter().filter(|(_, (_, done))| !done).map(|(&last, _)| last).collect();
                    if let Some(chosen) = open.get(choice % open.len().max(1)) {
                        let entry = model.get_mut(chosen).expect("chosen from it");
                        entry.1 = true;
                        let ticket = entry.0;
                        let mut moves = false;
                        while let Some(first) = model.first_entry().filter(|first| first.get().1) {
                            covered = Some(first.remove_entry().0);
                            moves = true;
                        }
                        prop_assert_eq!(watermark.complete(ticket), moves);
                    }
                }
                _ => {
                    watermark.abandon();
                    model.clear();
                }
            }
            let position = covered.map(|last| Position { sequence_number: last, offset: last.to_string() });
            prop_assert_eq!(watermark.position(), position.as_ref());
        }
    }
}
