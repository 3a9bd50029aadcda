//! What a client of one queue or subscription knows of its messages over all lives of the service: what was accepted, what it
//! received how often, and which of its settlements were confirmed.
//!
//! Messages are known by a number of their own, whatever numbers the service gives them.

use std::collections::{BTreeMap, BTreeSet};

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    /// What the service has accepted for this place.
    accepted: BTreeSet<u32>,
    /// How often each came.
    deliveries: BTreeMap<u32, u32>,
    /// What was decided of each, and confirmed; the last of it.
    confirmed: BTreeMap<u32, Decision>,
    /// What was decided of each, and not answered when the service was killed.
    unanswered: BTreeSet<u32>,
    /// How often it was confirmed that one was abandoned.
    failures: BTreeMap<u32, u32>,
    /// The service's numbers.
    numbers: BTreeMap<i64, u32>,
    /// Deliveries that said that they were not the first.
    counted: u64,
    /// Whether messages come from another queue, so that a kill may leave one in both.
    is_forwarded: bool,
    /// Those that came although they were over.
    repeated: u64,
}

/// What a receiver makes of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Decision {
    Complete,
    Abandon,
    Defer,
    DeadLetter,
}

/// What became of messages.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Verdict {
    /// Accepted, and neither there nor settled.
    pub(crate) lost: Vec<u32>,
    /// Deliveries of messages that had come before.
    pub(crate) redelivered: u64,
    /// Those of them that the service knew of.
    pub(crate) counted: u64,
    /// Those that came again because they had been forwarded twice.
    pub(crate) repeated: u64,
    pub(crate) accepted: usize,
    pub(crate) completed: usize,
}

impl Decision {
    /// What is made of a message that failed so often before. Most are completed.
    pub(crate) fn about(number: u32, failures: u32) -> Self {
        match number % 40 {
            7 => Self::DeadLetter,
            11 => Self::Defer,
            3 | 13 | 23 | 33 if failures == 0 => Self::Abandon,
            _ => Self::Complete,
        }
    }
}

impl Ledger {
    /// That of a queue to which another one forwards.
    pub(crate) fn of_forwarded() -> Self {
        Self { is_forwarded: true, ..Self::default() }
    }

    pub(crate) fn accept(&mut self, numbers: impl IntoIterator<Item = u32>) {
        self.accepted.extend(numbers);
    }

    /// Notes a delivery. What is over must not come; what failed must say so; a number of the service belongs to one
    /// message.
    pub(crate) fn deliver(&mut self, number: u32, sequence_number: i64, failures: u32) {
        let settled = self.confirmed.get(&number);
        if !matches!(settled, None | Some(Decision::Abandon)) {
            assert!(self.is_forwarded, "message {number} came back, of which {settled:?} was confirmed");
            self.repeated += 1;
        }
        let known = self.failures.get(&number).copied().unwrap_or_default();
        assert!(
            failures >= known || self.is_forwarded,
            "message {number} was abandoned {known} times, and says {failures}"
        );
        let before = self.numbers.insert(sequence_number, number);
        assert!(
            before.is_none_or(|before| before == number),
            "two messages, {before:?} and {number}, are number {sequence_number}"
        );
        *self.deliveries.entry(number).or_default() += 1;
        self.counted += u64::from(failures > 0);
    }

    /// Notes that the service has confirmed what was decided.
    pub(crate) fn confirm(&mut self, number: u32, decision: Decision) {
        self.confirmed.insert(number, decision);
        if decision == Decision::Abandon {
            *self.failures.entry(number).or_default() += 1;
        }
    }

    /// Notes that it is not known whether the service did what was decided.
    pub(crate) fn leave_open(&mut self, number: u32) {
        self.unanswered.insert(number);
    }

    /// The messages of which this was confirmed.
    pub(crate) fn decided(&self, decision: Decision) -> BTreeSet<u32> {
        let decided = self.confirmed.iter().filter(|(_, made)| **made == decision);
        decided.map(|(number, _)| *number).collect()
    }

    /// What became of all; `there` are those that the service still has at the end, apart from what was received.
    pub(crate) fn verdict(&self, there: &BTreeSet<u32>) -> Verdict {
        let is_lost = |number: &u32| {
            let is_over = matches!(
                self.confirmed.get(number),
                Some(Decision::Complete | Decision::Defer | Decision::DeadLetter)
            );
            !(is_over || there.contains(number) || self.unanswered.contains(number))
        };
        Verdict {
            lost: self.accepted.iter().copied().filter(is_lost).collect(),
            redelivered: self.deliveries.values().map(|times| u64::from(times - 1)).sum(),
            counted: self.counted,
            repeated: self.repeated,
            accepted: self.accepted.len(),
            completed: self.decided(Decision::Complete).len(),
        }
    }
}
