//! When the records of a log were where on their way: sums of instants over the same records, taken at different places.
//!
//! What is wanted is how long each part of the way takes on average. The mean of a difference is the difference of the means,
//! so that a sum at each place is enough, if all of them are of the same records; and then the means of the parts add up to
//! the mean of the whole. The sink knows which records belong to the measured phase: in each partition a range of numbers. The service
//! sums up over that range when it is asked for it.

use serde::{Deserialize, Serialize};

use crate::clock::RunTime;

/// The records of the measured phase that a sink read from one partition. Sums are of microseconds since the run's epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReadRecords {
    /// The partition.
    pub partition: u32,
    /// The number of the first one.
    pub first: u64,
    /// The number after that of the last one.
    pub end: u64,
    /// How many there are, each counted once.
    pub records: u64,
    /// The sum of the instants at which they were meant to be sent.
    pub intended_us: u64,
    /// The sum of those at which they were.
    pub sent_us: u64,
    /// The sum of those at which the sink had them.
    pub arrived_us: u64,
}

/// What the service knows of the same records. Sums are of microseconds since the run's epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ServedRecords {
    /// How many there are.
    pub records: u64,
    /// The sum of the instants at which the requests were complete in which they came.
    pub received_us: u64,
    /// The sum of those at which they were in the log.
    pub appended_us: u64,
    /// The sum of those from which readers could have them.
    pub visible_us: u64,
    /// The sum of those from which, besides, the request of the reader was there that got them.
    pub asked_us: u64,
}

impl ReadRecords {
    /// Nothing yet.
    #[must_use]
    pub const fn of(partition: u32) -> Self {
        let (first, end, records, intended_us, sent_us, arrived_us) = (u64::MAX, 0, 0, 0, 0, 0);
        Self { partition, first, end, records, intended_us, sent_us, arrived_us }
    }

    /// One more record.
    #[inline]
    pub fn note(&mut self, number: u64, [intended, sent, arrived]: [RunTime; 3]) {
        self.first = self.first.min(number);
        self.end = self.end.max(number.saturating_add(1));
        self.records += 1;
        self.intended_us = self.intended_us.saturating_add(intended.as_micros());
        self.sent_us = self.sent_us.saturating_add(sent.as_micros());
        self.arrived_us = self.arrived_us.saturating_add(arrived.as_micros());
    }

    /// Whether its numbers are all those of the range: nothing else came between.
    #[must_use]
    pub const fn is_whole(&self) -> bool {
        self.records > 0 && self.end.saturating_sub(self.first) == self.records
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_is_whole_in_whatever_order_its_records_come_and_not_with_a_gap() {
        let at = RunTime::from_micros;
        let mut read = ReadRecords::of(3);
        assert!(!read.is_whole());
        for number in [7, 5, 6] {
            read.note(number, [at(1), at(10), at(100 * number)]);
        }
        assert!(read.is_whole() && (read.first, read.end) == (5, 8));
        assert_eq!((read.intended_us, read.sent_us, read.arrived_us), (3, 30, 1_800));
        read.note(9, [at(0); 3]);
        assert!(!read.is_whole());
    }
}
