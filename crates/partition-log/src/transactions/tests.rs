//! What is open and what was aborted, against a list of everything that happened.

use super::*;
use proptest::prelude::*;

const TIME: UnixTime = UnixTime::from_milliseconds(5);

fn marker(producer_id: i64, end: TransactionEnd) -> TransactionMarker {
    TransactionMarker { producer_id, producer_epoch: 1, end, coordinator_epoch: 0 }
}

fn begin(transactions: &mut Transactions, id: i64, number: u64) {
    transactions.record(&ProducerStamp::new(id, 1, 0).unwrap(), number, TIME);
}

#[test]
fn the_oldest_open_transaction_bounds_what_is_decided() {
    let mut transactions = Transactions::default();
    assert!(transactions.is_empty());
    begin(&mut transactions, 7, 10);
    begin(&mut transactions, 9, 12);
    begin(&mut transactions, 7, 14);
    assert_eq!(transactions.first_undecided(), Some(10));
    transactions.end(&marker(7, TransactionEnd::Commit), 16);
    assert_eq!(transactions.first_undecided(), Some(10), "until the marker is committed");
    assert_eq!(transactions.ends(&marker(7, TransactionEnd::Commit)), Ends::Ended(16));
    transactions.settle(16);
    assert_eq!(transactions.first_undecided(), Some(10));
    transactions.settle(17);
    assert_eq!(transactions.first_undecided(), Some(12));
    assert_eq!(transactions.ends(&marker(7, TransactionEnd::Commit)), Ends::Nothing);
    let open = transactions.open();
    let expected =
        OpenTransaction { producer_id: 9, producer_epoch: 1, first_sequence_number: 12, since: TIME };
    assert_eq!(open, [expected]);
}

#[test]
fn a_marker_of_an_older_epoch_ends_nothing() {
    let mut transactions = Transactions::default();
    begin(&mut transactions, 7, 10);
    let old = TransactionMarker { producer_epoch: 0, ..marker(7, TransactionEnd::Abort) };
    assert_eq!(transactions.ends(&old), Ends::Nothing);
    let newer = TransactionMarker { producer_epoch: 2, ..old };
    assert_eq!(transactions.ends(&newer), Ends::Open);
}

#[test]
fn what_was_open_where_damage_begins_counts_as_aborted() {
    let mut transactions = Transactions::default();
    begin(&mut transactions, 7, 10);
    begin(&mut transactions, 9, 12);
    transactions.give_up(20);
    assert_eq!((transactions.first_undecided(), transactions.open()), (None, Vec::new()));
    for (id, numbers) in [(7, 10..20), (9, 12..20)] {
        assert!(numbers.clone().all(|number| transactions.is_aborted(id, number)), "{id}");
        assert!(!transactions.is_aborted(id, numbers.end) && !transactions.is_aborted(id, numbers.start - 1));
    }
}

#[test]
fn a_snapshot_of_other_bytes_is_refused() {
    let mut transactions = Transactions::default();
    assert_eq!(transactions.snapshot(0), None);
    begin(&mut transactions, 7, 10);
    begin(&mut transactions, 9, 12);
    begin(&mut transactions, 8, 13);
    transactions.end(&marker(9, TransactionEnd::Abort), 16);
    let bytes = transactions.snapshot(0).unwrap().bytes().to_vec();
    assert_eq!(bytes.len(), 8 + 3 * 32);
    assert!(TransactionSnapshot::from_bytes(&bytes).is_some());
    assert_eq!(TransactionSnapshot::from_bytes(&[0; 8]), None, "nothing");
    for length in 0..bytes.len() {
        assert_eq!(TransactionSnapshot::from_bytes(&bytes[..length]), None, "cut at {length}");
    }
    // The number of open ones, an id and an epoch below 0, an order that is none, an id twice, padding, a marker before its
    // transaction.
    let wrong: [(usize, &[u8]); 8] = [
        (0, &[3]),
        (4, &[2]),
        (8 + 7, &[0x80]),
        (8 + 25, &[0x80]),
        (8 + 8, &[14]),
        (8 + 32, &[7]),
        (8 + 30, &[1]),
        (8 + 64 + 16, &[11]),
    ];
    for (at, value) in wrong {
        let mut wrong = bytes.clone();
        wrong[at..at + value.len()].copy_from_slice(value);
        assert_eq!(TransactionSnapshot::from_bytes(&wrong), None, "byte {at}");
    }
}

/// What happens to one of a few producers.
#[derive(Clone, Copy, Debug)]
enum Event {
    Write(i64),
    End(i64, TransactionEnd),
    Plain,
}

fn event() -> impl Strategy<Value = Event> {
    let end = prop_oneof![Just(TransactionEnd::Commit), Just(TransactionEnd::Abort)];
    prop_oneof![
        4 => (0_i64..4).prop_map(Event::Write),
        3 => (0_i64..4, end).prop_map(|(id, end)| Event::End(id, end)),
        1 => Just(Event::Plain),
    ]
}

proptest! {
    #[test]
    fn what_overlaps_is_what_a_walk_through_everything_finds(
        events in proptest::collection::vec(event(), 0..80),
        segment in 1_u64..20,
        forgotten in 0_u64..40,
    ) {
        let mut transactions = Transactions::default();
        // At the end of each segment, as it is kept.
        let mut snapshots = Vec::new();
        let mut aborted: Vec<AbortedTransaction> = Vec::new();
        let mut open: Vec<(i64, u64)> = Vec::new();
        for (number, event) in (0..).zip(&events) {
            if number > 0 && number % segment == 0 {
                snapshots.push((number - segment, transactions.snapshot(number - segment)));
            }
            match *event {
                Event::Write(id) => {
                    begin(&mut transactions, id, number);
                    if !open.iter().any(|(other, _)| *other == id) {
                        open.push((id, number));
                    }
                }
                Event::End(id, end) => {
                    let at = open.iter().position(|(other, _)| *other == id);
                    let ends = transactions.ends(&marker(id, end));
                    prop_assert_eq!(ends == Ends::Open, at.is_some());
                    let Some(at) = at else { continue };
                    transactions.end(&marker(id, end), number);
                    transactions.settle(number + 1);
                    let (producer_id, first_sequence_number) = open.remove(at);
                    if end == TransactionEnd::Abort {
                        aborted.push(AbortedTransaction {
                            producer_id, first_sequence_number, marker_sequence_number: number,
                        });
                    }
                }
                Event::Plain => {}
            }
            prop_assert_eq!(transactions.first_undecided(), open.iter().map(|(_, first)| *first).min());
        }
        let end = events.len() as u64;
        let check = |transactions: &Transactions, aborted: &[AbortedTransaction], until: u64| {
            for from in 0..=until {
                for to in from..=until {
                    let mut expected: Vec<_> = aborted.iter().copied().filter(|it| {
                        it.first_sequence_number < to && it.marker_sequence_number >= from && from < to
                    }).collect();
                    expected.sort_by_key(|it| it.first_sequence_number);
                    assert_eq!(transactions.aborted(from..to), expected, "{from}..{to}");
                }
            }
        };
        check(&transactions, &aborted, end);

        let mut restored = Transactions::default();
        for (first, snapshot) in &snapshots {
            let bytes = snapshot.as_ref().map(|snapshot| snapshot.bytes().to_vec());
            let snapshot = bytes.map(|bytes| TransactionSnapshot::from_bytes(&bytes).unwrap());
            restored.restore(*first, snapshot.as_ref());
        }
        let until = snapshots.len() as u64 * segment;
        let known: Vec<_> = aborted.iter().copied().filter(|it| it.marker_sequence_number < until).collect();
        check(&restored, &known, until);

        transactions.forget_before(forgotten);
        aborted.retain(|it| it.marker_sequence_number >= forgotten);
        check(&transactions, &aborted, end);
    }
}
