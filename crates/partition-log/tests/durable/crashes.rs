//! The durable log against a model, with crashes: whatever was acknowledged is there afterwards, in order and without
//! gaps, and numbers go on.
//!
//! A crash is a committer that is dropped. After a kill, files are as they were; a power cut takes, from each file,
//! anything that was not synced, down to any byte, and new files whose directory was not synced.

use super::{Disk, Service, content, records, settle, try_append};
use partition_log::WhenFull;
use partition_log::disk::{CommitNumber, CommitState, SyncPolicy};
use proptest::prelude::*;
use std::time::Duration;
use units::{ByteSize, Random};

#[derive(Clone, Debug)]
enum Operation {
    /// Appends records, without waiting.
    Append {
        count: u64,
        length: usize,
    },
    /// Waits until all are settled.
    Settle,
    /// From now on there is only so much space, or enough of it.
    Space(Option<u64>),
    ReadAll,
    Kill,
    CutPower {
        seed: u64,
    },
    Close,
}

struct Model {
    disk: Disk,
    service: Option<Service>,
    /// The length of every record that was ever given a number.
    lengths: Vec<usize>,
    waiting: Vec<(CommitNumber, u64)>,
    /// How many records are acknowledged.
    acknowledged: u64,
}

impl Model {
    fn new(sync: SyncPolicy) -> Self {
        let mut disk = Disk::with(sync);
        // Nothing may go but what a crash takes.
        disk.limits.when_full = WhenFull::Throttle;
        disk.options.resident = ByteSize::from_kibibytes(256);
        // Without syncs there is nothing but the file system's own order.
        disk.files.state().keeps_order = sync == SyncPolicy::Os;
        let service = Some(disk.open());
        Self { disk, service, lengths: Vec::new(), waiting: Vec::new(), acknowledged: 0 }
    }

    fn service(&self) -> &Service {
        self.service.as_ref().expect("only absent within a crash")
    }

    fn apply(&mut self, operation: &Operation) {
        match *operation {
            Operation::Append { count, length } => {
                for _ in 0..count {
                    let number = self.lengths.len() as u64;
                    let result = try_append(&self.service().log, 1, &content(number, length));
                    let Ok(appended) = result else { return };
                    assert_eq!(appended.first_sequence_number, number, "numbers go on");
                    self.lengths.push(length);
                    self.waiting.push((appended.commit, number));
                }
            }
            Operation::Settle => self.settle(),
            Operation::Space(space) => self.disk.files.state().space = space,
            Operation::ReadAll => self.check(),
            Operation::Kill => self.restart(None),
            Operation::CutPower { seed } => self.restart(Some(seed)),
            Operation::Close => {
                self.settle();
                let full = self.disk.files.state().space.is_some();
                let closed = self.service().committer.close();
                assert!(closed.is_ok() || full, "{closed:?}");
                self.restart(None);
            }
        }
    }

    fn settle(&mut self) {
        for (commit, number) in std::mem::take(&mut self.waiting) {
            if settle(&self.service().committer, commit) == CommitState::Done {
                self.acknowledged = number + 1;
            }
        }
    }

    fn restart(&mut self, power_cut: Option<u64>) {
        // What was settled by now may have been told to its sender.
        let waiting = std::mem::take(&mut self.waiting);
        let committer = &self.service().committer;
        let done = waiting.iter().filter(|(commit, _)| committer.state_of(*commit) == CommitState::Done);
        let acknowledged = done.map(|(_, number)| number + 1).max();
        self.acknowledged = self.acknowledged.max(acknowledged.unwrap_or(0));
        let seen = self.service().log.stats().last_sequence_number.map_or(0, |last| last + 1);
        self.service.take().expect("as above").crash();
        if let Some(seed) = power_cut {
            let mut random = Random::from_seed(seed);
            self.disk.files.cut_power(|most| match random.chance(0.3) {
                true => most,
                false => random.below(most + 1),
            });
        }
        let enough = self.disk.files.state().space.take();
        self.service = Some(self.disk.open());
        self.disk.files.state().space = enough;
        let stats = self.service().log.stats();
        let end = stats.last_sequence_number.map_or(0, |last| last + 1);
        let always = self.disk.options.sync == SyncPolicy::Always;
        if always || power_cut.is_none() {
            assert!(end >= self.acknowledged, "{end} of {} acknowledged", self.acknowledged);
            assert!(end >= seen, "a reader saw {seen}, and {end} are there");
        }
        assert!(end <= self.lengths.len() as u64);
        let damaged = &self.service().report.damaged;
        assert!(damaged.is_empty(), "{damaged:?} of {:?}", self.disk.segments());
        self.lengths.truncate(end as usize);
        self.acknowledged = end;
        self.check();
    }

    fn check(&self) {
        for (expected, (number, sections)) in (0..).zip(self.service().all()) {
            assert_eq!(number, expected);
            assert_eq!(sections, content(number, self.lengths[number as usize]));
        }
    }
}

fn operation() -> impl Strategy<Value = Operation> {
    prop_oneof![
        8 => (1_u64..20, prop_oneof![4 => 0_usize..200, 2 => 0_usize..20_000, 1 => 0_usize..200_000])
            .prop_map(|(count, length)| Operation::Append { count, length }),
        4 => Just(Operation::Settle),
        1 => proptest::option::weighted(0.5, 0_u64..100_000).prop_map(Operation::Space),
        1 => Just(Operation::ReadAll),
        1 => Just(Operation::Kill),
        2 => any::<u64>().prop_map(|seed| Operation::CutPower { seed }),
        1 => Just(Operation::Close),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_was_acknowledged_survives_any_crash(operations in proptest::collection::vec(operation(), 1..30)) {
        let mut model = Model::new(SyncPolicy::Always);
        operations.iter().for_each(|operation| model.apply(operation));
    }

    #[test]
    fn with_the_other_policies_a_kill_loses_nothing_and_a_power_cut_leaves_a_prefix(
        operations in proptest::collection::vec(operation(), 1..30),
        never_synced: bool,
    ) {
        let policy = match never_synced {
            true => SyncPolicy::Os,
            false => SyncPolicy::Interval(Duration::from_millis(1)),
        };
        let mut model = Model::new(policy);
        operations.iter().for_each(|operation| model.apply(operation));
    }
}

#[test]
fn a_power_cut_at_any_byte_leaves_whole_batches() {
    for kept in (0..160).step_by(3) {
        let disk = Disk::new();
        let service = disk.open();
        service.fill(2, 20);
        disk.files.state().gate_closed = true;
        for number in 2..4 {
            try_append(&service.log, 1, &content(number, 20)).unwrap();
            disk.files.wait_for_sync();
        }
        disk.files.open_gate();
        service.crash();
        disk.files.cut_power(|most| kept.min(most));
        let again = disk.open();
        let all = again.all();
        assert!(all.len() >= 2);
        assert_eq!(all, records(0..all.len() as u64, 20));
    }
}
