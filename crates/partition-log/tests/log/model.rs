//! The log against a model of it: a vector of everything appended, and where the log says that it begins.
//!
//! Operations are drawn at random: appends of various shapes, reads that stop anywhere, seeks of every kind,
//! retention by size and by time. After each one, what the log says must be what the vector says.

use super::{at, limited};
use partition_log::{Cursor, Edge, LogLimits, NewRecord, PartitionLog, PositionError, Start, WhenFull};
use proptest::prelude::*;
use std::time::Duration;
use units::ByteSize;

#[derive(Clone, Debug)]
enum Operation {
    Append { records: Vec<(usize, usize)>, later_ms: i64 },
    Read { max_bytes: usize, stop_after: usize },
    SeekNumber { number: u64, edge: Edge },
    SeekTime { milliseconds: i64, edge: Edge },
    SeekEnd { edge: Edge },
    Expire { later_ms: i64 },
}

struct Model {
    log: PartitionLog,
    /// Append time, annotations and sections of every record ever appended.
    records: Vec<(i64, Vec<u8>, Vec<u8>)>,
    now_ms: i64,
    cursor: Cursor,
}

const RETENTION_MS: i64 = 500;

impl Model {
    fn new() -> Self {
        let retention = Some(Duration::from_millis(RETENTION_MS as u64));
        let bytes = ByteSize::from_kibibytes(256);
        let log = limited(LogLimits { bytes, when_full: WhenFull::Retention, retention });
        let cursor = log.position(Start::Earliest).expect("there always is an earliest");
        Self { log, records: Vec::new(), now_ms: 0, cursor }
    }

    fn begin(&self) -> u64 {
        self.log.stats().begin_sequence_number
    }

    fn apply(&mut self, operation: &Operation) {
        let begin_before = self.begin();
        match *operation {
            Operation::Append { ref records, later_ms } => self.append(records, later_ms),
            Operation::Read { max_bytes, stop_after } => self.read(max_bytes, stop_after),
            Operation::SeekNumber { number, edge } => {
                let end = self.records.len() as u64;
                let number = number % (end + 2);
                let exists = number < end || (number == 0 && edge == Edge::Inclusive);
                let place = number + u64::from(edge == Edge::Exclusive);
                let expected = match exists {
                    true => Ok(place.max(self.begin())),
                    false => Err(PositionError::BeyondEnd { requested: number, last: end.checked_sub(1) }),
                };
                self.seek(Start::SequenceNumber(number, edge), expected);
            }
            Operation::SeekTime { milliseconds, edge } => {
                let milliseconds = milliseconds % (self.now_ms + 2);
                let earlier = |record: &(i64, Vec<u8>, Vec<u8>)| match edge {
                    Edge::Inclusive => record.0 < milliseconds,
                    Edge::Exclusive => record.0 <= milliseconds,
                };
                let place = self.records.partition_point(earlier) as u64;
                self.seek(Start::AppendTime(at(milliseconds), edge), Ok(place.max(self.begin())));
            }
            Operation::SeekEnd { edge } => {
                let end = self.records.len() as u64;
                let place = end.saturating_sub(u64::from(edge == Edge::Inclusive));
                self.seek(Start::Latest(edge), Ok(place.max(self.begin())));
            }
            Operation::Expire { later_ms } => {
                self.now_ms += later_ms;
                self.log.enforce_retention(at(self.now_ms));
            }
        }
        self.check_stats(begin_before);
    }

    fn append(&mut self, shapes: &[(usize, usize)], later_ms: i64) {
        self.now_ms += later_ms;
        let first = self.records.len();
        for (index, &(annotations, sections)) in shapes.iter().enumerate() {
            let fill = (first + index) as u8;
            self.records.push((self.now_ms, vec![fill; annotations], vec![!fill; sections]));
        }
        let appended = self.log.append::<()>(at(self.now_ms), |encoder| {
            for (_time, annotations, sections) in &self.records[first..] {
                let (one, two) = sections.split_at(sections.len() / 3);
                let annotation_count = annotations.len() as u32;
                encoder.push(&NewRecord { annotation_count, annotations, sections: &[one, two] });
            }
            Ok(())
        });
        let appended = appended.expect("a log with retention is never full");
        assert_eq!(
            (appended.first_sequence_number, appended.record_count),
            (first as u64, shapes.len() as u32)
        );
    }

    fn read(&mut self, max_bytes: usize, stop_after: usize) {
        let stood = self.cursor.next_sequence_number();
        let first = stood.max(self.begin());
        let Some(chunk) = self.log.read(&mut self.cursor, max_bytes) else {
            assert_eq!(first, self.records.len() as u64, "nothing to read means the end");
            return;
        };
        assert_eq!(chunk.skipped(), first - stood);
        let mut records = chunk.records();
        assert_eq!(records.len() as u64, chunk.record_count());
        let mut expected = first;
        for record in records.by_ref().take(stop_after) {
            assert_eq!(record.sequence_number, expected);
            let (time, annotations, sections) = &self.records[expected as usize];
            assert_eq!(record.append_time, at(*time));
            assert_eq!(record.annotation_count as usize, annotations.len());
            assert_eq!((record.annotations, record.sections), (&annotations[..], &sections[..]));
            expected += 1;
        }
        assert!(expected > first || stop_after == 0);
        assert_eq!(records.cursor().next_sequence_number(), expected);
        if records.len() == 0 {
            assert_eq!(records.cursor().next_sequence_number(), self.cursor.next_sequence_number());
        }
        self.cursor = records.cursor();
    }

    fn seek(&mut self, start: Start, expected: Result<u64, PositionError>) {
        let result = self.log.position(start);
        assert_eq!(result.map(|cursor| cursor.next_sequence_number()), expected, "{start:?}");
        if let Ok(cursor) = result {
            self.cursor = cursor;
        }
    }

    fn check_stats(&self, begin_before: u64) {
        let stats = self.log.stats();
        let end = self.records.len() as u64;
        assert!(begin_before <= stats.begin_sequence_number && stats.begin_sequence_number <= end);
        assert_eq!(stats.last_sequence_number, end.checked_sub(1));
        assert_eq!(stats.last_append_time, self.records.last().map(|record| at(record.0)));
        assert_eq!(stats.is_empty, stats.begin_sequence_number == end);
        assert_eq!(stats.bytes == 0, stats.is_empty);
        // What time retention does not allow any more goes with its segment; what it allows, only for want of room.
        let kept_bytes: usize = self.records[stats.begin_sequence_number as usize..]
            .iter()
            .map(|(_time, annotations, sections)| annotations.len() + sections.len() + 3)
            .sum();
        assert!(stats.bytes as usize >= kept_bytes);
    }
}

fn edge() -> impl Strategy<Value = Edge> {
    prop_oneof![Just(Edge::Inclusive), Just(Edge::Exclusive)]
}

fn operation() -> impl Strategy<Value = Operation> {
    let record = prop_oneof![
        8 => (0_usize..4, 0_usize..40),
        2 => (0_usize..200, 0_usize..3000),
        1 => (0_usize..4, 0_usize..100_000),
    ];
    let later_ms = prop_oneof![3 => 0_i64..3, 1 => 0_i64..200];
    prop_oneof![
        6 => (proptest::collection::vec(record, 0..20), later_ms.clone())
            .prop_map(|(records, later_ms)| Operation::Append { records, later_ms }),
        6 => (prop_oneof![0_usize..5000, Just(usize::MAX)], prop_oneof![0_usize..10, Just(usize::MAX)])
            .prop_map(|(max_bytes, stop_after)| Operation::Read { max_bytes, stop_after }),
        1 => (any::<u64>(), edge()).prop_map(|(number, edge)| Operation::SeekNumber { number, edge }),
        1 => (0..i64::MAX, edge()).prop_map(|(milliseconds, edge)| Operation::SeekTime { milliseconds, edge }),
        1 => edge().prop_map(|edge| Operation::SeekEnd { edge }),
        1 => later_ms.prop_map(|later_ms| Operation::Expire { later_ms }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn the_log_agrees_with_its_model(operations in proptest::collection::vec(operation(), 1..120)) {
        let mut model = Model::new();
        for operation in &operations {
            model.apply(operation);
        }
    }
}
