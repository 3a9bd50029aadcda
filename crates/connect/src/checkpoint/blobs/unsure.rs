//! Writings of which nobody knows whether they took place: their answer was lost, or nobody waited for it.
//!
//! A conditional writing that comes after one of these finds another ETag than it expects, as if somebody else had written. So each has a
//! mark of its own in the metadata. Where the mark that is there is of a writing that we are unsure of, nobody has written since, and its ETag is ours.
//! Contents would not tell: whoever takes a partition over writes what it has read.

use std::collections::HashMap;
use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher as _, Hasher as _};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The marks of these writings, by the names of their blobs.
#[derive(Debug)]
pub(super) struct Unsure {
    /// Makes marks of other stores different.
    store: u64,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    count: u64,
    marks: HashMap<String, Vec<String>>,
}

impl Unsure {
    pub(super) fn new() -> Self {
        Self { store: random_seed(), state: Mutex::default() }
    }

    /// A writing begins, and is unsure from now on. Its mark.
    pub(super) fn begin(&self, name: &str) -> String {
        let mut state = self.state();
        state.count += 1;
        let mark = format!("{:016x}-{}", self.store, state.count);
        let marks = state.marks.entry(name.to_owned()).or_default();
        if marks.len() == MARKS_MAX {
            marks.remove(0);
        }
        marks.push(mark.clone());
        mark
    }

    /// Whether there are unsure writings of a blob before the last one that was begun.
    pub(super) fn any_before_the_last(&self, name: &str) -> bool {
        self.state().marks.get(name).is_some_and(|marks| marks.len() > 1)
    }

    /// Whether a mark is one of them.
    pub(super) fn has(&self, name: &str, mark: &str) -> bool {
        self.state().marks.get(name).is_some_and(|marks| marks.iter().any(|it| it == mark))
    }

    /// It is known again who has written last.
    pub(super) fn forget(&self, name: &str) {
        self.state().marks.remove(name);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns a number that no other process has.
pub(super) fn random_seed() -> u64 {
    // The standard library keys its maps with random numbers, which differ from one map to the next.
    RandomState::new().build_hasher().finish()
}

/// So many of a blob are remembered: more tries than any policy has before the partition is given up.
const MARKS_MAX: usize = 16;
