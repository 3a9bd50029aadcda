//! When the records of a partition passed the points of their way through the service, for whoever measures it from within.
//!
//! ```text
//!  received ─ publish ─▶ appended ─ commit ─▶ visible ─ catch-up ─▶ asked for ─ fetch ─▶ (the reader's hand)
//! ```
//!
//! Nothing is noted unless it was asked for ([`Partition::watch_times`](super::Partition::watch_times)), and then once for each
//! batch that a producer sends and for each answer that has some: in bounded rings, so that the oldest are forgotten. What
//! is wanted of them are means. The mean of a difference is the difference of the means, so sums of instants over a range
//! of records are enough ([`RecordTimes::over`]), and whoever has the same sums of instants at both ends of the way divides all
//! of it, without a remainder.
//!
//! Appends and reads are noted by different connections, and a reader may have a batch before its producer has noted it. So they
//! are joined only when someone asks.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// The times of the latest records of a partition.
#[derive(Debug)]
pub struct RecordTimes {
    capacity: usize,
    noted: Mutex<Noted>,
}

/// Sums over records of instants, each in microseconds since a common one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SummedTimes {
    /// How many records they are of.
    pub records: u64,
    /// When the request was complete in which the record came.
    pub received_us: u64,
    /// When it was in the log.
    pub appended_us: u64,
    /// When readers could have it.
    pub visible_us: u64,
    /// The same, or when the first request arrived that got it, if that was later.
    pub asked_us: u64,
}

/// All of it in the order of the log.
#[derive(Debug, Default)]
struct Noted {
    appends: VecDeque<Append>,
    commits: VecDeque<Commit>,
    reads: VecDeque<Read>,
}

#[derive(Clone, Debug)]
struct Append {
    records: Range<u64>,
    received: Instant,
    appended: Instant,
    /// Whether readers have to wait for a commit.
    awaits_commit: bool,
}

/// All before `end` was known to be committed.
#[derive(Clone, Copy, Debug)]
struct Commit {
    end: u64,
    at: Instant,
}

/// All before `end` was in the answer to a request that arrived when it `asked`.
#[derive(Clone, Copy, Debug)]
struct Read {
    end: u64,
    asked: Instant,
    found: Instant,
}

impl RecordTimes {
    /// Times of so many batches, and answers, at most.
    #[must_use]
    pub fn new(capacity: usize) -> Self {
        Self { capacity: capacity.max(1), noted: Mutex::default() }
    }

    /// A batch with these numbers, which came in a request that was complete when it was `received`, is in the log by now.
    pub fn note_append(&self, records: Range<u64>, received: Instant, awaits_commit: bool) {
        let append = Append { records, received, appended: Instant::now(), awaits_commit };
        let mut noted = self.lock();
        // Two producers may note their batches in another order than they appended them.
        let later = |noted: &Append| noted.records.start > append.records.start;
        let place = noted.appends.len() - noted.appends.iter().rev().take_while(|noted| later(noted)).count();
        noted.appends.insert(place, append);
        bound(&mut noted.appends, self.capacity);
    }

    /// All before `end` is committed by now.
    pub fn note_commit(&self, end: u64) {
        let mut noted = self.lock();
        if noted.commits.back().is_none_or(|last| last.end < end) {
            noted.commits.push_back(Commit { end, at: Instant::now() });
            bound(&mut noted.commits, self.capacity);
        }
    }

    /// A reader who `asked` then gets what is before `end` now. Who gets it again changes nothing.
    pub fn note_read(&self, end: u64, asked: Instant) {
        let mut noted = self.lock();
        if noted.reads.back().is_none_or(|last| last.end < end) {
            noted.reads.push_back(Read { end, asked, found: Instant::now() });
            bound(&mut noted.reads, self.capacity);
        }
    }

    /// The sums over the records with these numbers, from `since` on; `None` unless all of them are known and were read.
    #[must_use]
    pub fn over(&self, records: Range<u64>, since: Instant) -> Option<SummedTimes> {
        let noted = self.lock();
        let mut sums = SummedTimes::default();
        let mut reads = noted.reads.iter().peekable();
        let mut commits = noted.commits.iter().peekable();
        let mut next = records.start;
        let in_range =
            |append: &&Append| append.records.end > records.start && append.records.start < records.end;
        for append in noted.appends.iter().filter(in_range) {
            let part = append.records.start.max(records.start)..append.records.end.min(records.end);
            if part.start != next {
                return None;
            }
            next = part.end;
            while reads.next_if(|read| read.end <= append.records.start).is_some() {}
            while commits.next_if(|commit| commit.end <= append.records.start).is_some() {}
            let read = *reads.peek()?;
            let visible = match append.awaits_commit {
                false => append.appended,
                // Who needs no answer does not hear of the commit: a reader shows it.
                true => {
                    commits.peek().map_or(read.found, |commit| commit.at.min(read.found)).max(append.appended)
                }
            };
            sums.add(&part, since, [append.received, append.appended, visible, visible.max(read.asked)]);
        }
        (next == records.end && sums.records > 0).then_some(sums)
    }

    fn lock(&self) -> MutexGuard<'_, Noted> {
        // Locked sections push to one ring; what is there is whole.
        self.noted.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl SummedTimes {
    fn add(&mut self, records: &Range<u64>, since: Instant, instants: [Instant; 4]) {
        let count = records.end - records.start;
        let sum_of = |instant: Instant| {
            let us = instant.saturating_duration_since(since).as_micros();
            u64::try_from(us).unwrap_or(u64::MAX).saturating_mul(count)
        };
        let [received, appended, visible, asked] = instants.map(sum_of);
        self.records += count;
        self.received_us = self.received_us.saturating_add(received);
        self.appended_us = self.appended_us.saturating_add(appended);
        self.visible_us = self.visible_us.saturating_add(visible);
        self.asked_us = self.asked_us.saturating_add(asked);
    }
}

fn bound<T>(ring: &mut VecDeque<T>, capacity: usize) {
    while ring.len() > capacity {
        ring.pop_front();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The sums in their order, which is that of the way.
    fn in_order(sums: SummedTimes) -> bool {
        let SummedTimes { received_us, appended_us, visible_us, asked_us, .. } = sums;
        received_us <= appended_us && appended_us <= visible_us && visible_us <= asked_us
    }

    #[test]
    fn a_range_has_sums_when_all_of_it_was_appended_and_read() {
        let times = RecordTimes::new(10);
        let since = Instant::now();
        times.note_append(0..3, Instant::now(), false);
        assert_eq!(times.over(0..3, since), None, "nobody has read it");
        times.note_read(3, since);
        let sums = times.over(0..3, since).expect("appended and read");
        assert_eq!(sums.records, 3);
        assert_eq!(sums.appended_us, sums.visible_us);
        assert_eq!(sums.asked_us, sums.visible_us, "the request was there before");
        assert!(in_order(sums), "{sums:?}");
        let part = times.over(1..2, since).expect("a part of a batch");
        assert_eq!((part.records, part.appended_us), (1, sums.appended_us / 3));
        assert_eq!(times.over(0..4, since), None, "there is no such record");
        times.note_append(4..5, Instant::now(), false);
        times.note_read(5, Instant::now());
        assert_eq!(times.over(0..5, since), None, "nobody knows of number 3");
        assert_eq!(times.over(2..2, since), None, "of nothing there is no mean");
    }

    #[test]
    fn a_reader_who_asks_late_catches_up_and_one_who_asks_again_changes_nothing() {
        let times = RecordTimes::new(10);
        let since = Instant::now();
        times.note_append(0..1, since, false);
        times.note_append(1..2, since, false);
        let asked = Instant::now();
        times.note_read(2, asked);
        times.note_read(1, Instant::now());
        times.note_read(2, Instant::now());
        let sums = times.over(0..2, since).expect("appended and read");
        let asked_us = u64::try_from(asked.duration_since(since).as_micros()).expect("a moment");
        assert!(sums.asked_us >= 2 * asked_us && in_order(sums), "{sums:?} and {asked_us}");
    }

    #[test]
    fn what_is_noted_in_another_order_than_it_was_done_is_joined_all_the_same() {
        let times = RecordTimes::new(10);
        let since = Instant::now();
        // The reader has both before either producer comes to note its own.
        times.note_read(4, since);
        times.note_append(2..4, since, false);
        times.note_append(0..2, since, false);
        let sums = times.over(0..4, since).expect("appended and read");
        assert!(sums.records == 4 && in_order(sums), "{sums:?}");
    }

    #[test]
    fn what_waits_for_a_commit_is_visible_when_someone_knows_of_it() {
        let times = RecordTimes::new(10);
        let since = Instant::now();
        times.note_append(0..1, since, true);
        times.note_append(1..2, since, true);
        times.note_commit(1);
        times.note_read(2, since);
        let first = times.over(0..1, since).expect("committed and read");
        let second = times.over(1..2, since).expect("read, so that it was committed");
        assert!(in_order(first) && in_order(second), "{first:?} {second:?}");
        assert!(
            first.visible_us <= second.visible_us,
            "a reader found the second later than the first was committed"
        );
    }

    #[test]
    fn only_the_latest_are_remembered() {
        let times = RecordTimes::new(3);
        let since = Instant::now();
        for number in 0..10 {
            times.note_append(number..number + 1, since, false);
            times.note_read(number + 1, since);
        }
        assert_eq!(times.over(0..10, since), None);
        assert_eq!(times.over(7..10, since).map(|sums| sums.records), Some(3));
    }
}
