//! Refusals, counted by subject and code, each kind logged at most once a minute. A client that repeats a refused request is
//! seen in the log and does not fill it.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// Counts of refusals. The subject is what was asked (an API, an operation, an entity), the code what was answered (an error
/// code, a condition). The kinds that are told apart are [bounded](Bound).
#[derive(Debug, Default)]
pub(crate) struct Refusals {
    kinds: Mutex<Kinds>,
    bound: Bound,
}

/// Maximum number of kinds that are told apart, since clients choose some of the names, and the kind that further refusals count as.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bound {
    pub(crate) kinds: usize,
    pub(crate) subject: &'static str,
    /// `None` keeps the code of the refusal, where there are few codes.
    pub(crate) code: Option<&'static str>,
}

#[derive(Debug, Default)]
struct Kinds {
    by_subject: HashMap<Box<str>, HashMap<Box<str>, Kind>>,
    count: usize,
}

/// The refusals of one subject with one code.
#[derive(Debug, Default)]
struct Kind {
    count: u64,
    /// Those that log lines have reported.
    logged: u64,
    /// When the next log line may be written; `None` before the first.
    next_line: Option<Instant>,
}

impl Default for Bound {
    fn default() -> Self {
        Self { kinds: KINDS_MAX, subject: OTHER, code: Some(OTHER) }
    }
}

impl Refusals {
    /// Returns counts with another bound than the usual one.
    pub(crate) fn with_bound(bound: Bound) -> Self {
        Self { kinds: Mutex::default(), bound }
    }

    /// Counts `count` refusals. Returns the number of refusals of this kind since its previous log line, these included, if a
    /// line is due: the caller writes it.
    pub(crate) fn note(&self, subject: &str, code: &str, count: u64) -> Option<u64> {
        let mut kinds = self.lock();
        let kind = kinds.kind(subject, code, &self.bound);
        kind.count += count;
        let now = Instant::now();
        if kind.next_line.is_some_and(|next| now < next) {
            return None;
        }
        kind.next_line = Some(now + LINE_INTERVAL);
        let unlogged = kind.count - kind.logged;
        kind.logged = kind.count;
        Some(unlogged)
    }

    /// Returns subject, code and count of each kind, in the order of their names.
    pub(crate) fn counts(&self) -> Vec<(String, String, u64)> {
        let kinds = self.lock();
        let all = kinds.by_subject.iter().flat_map(|(subject, codes)| {
            codes.iter().map(|(code, kind)| (subject.to_string(), code.to_string(), kind.count))
        });
        let mut counts: Vec<_> = all.collect();
        counts.sort_unstable();
        counts
    }

    fn lock(&self) -> MutexGuard<'_, Kinds> {
        // Each change is complete before anything can panic.
        self.kinds.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the number of refusals of a kind that no log line has reported.
    #[cfg(test)]
    pub(crate) fn unlogged(&self, subject: &str, code: &str) -> u64 {
        let kinds = self.lock();
        let kind = &kinds.by_subject[subject][code];
        kind.count - kind.logged
    }
}

impl Kinds {
    fn kind(&mut self, subject: &str, code: &str, bound: &Bound) -> &mut Kind {
        let is_known = self.by_subject.get(subject).is_some_and(|codes| codes.contains_key(code));
        let (subject, code) = match is_known || self.count < bound.kinds {
            true => (subject, code),
            false => (bound.subject, bound.code.unwrap_or(code)),
        };
        // Names are copied for the first refusal of a kind alone.
        if !self.by_subject.contains_key(subject) {
            self.by_subject.insert(subject.into(), HashMap::new());
        }
        let codes = self.by_subject.get_mut(subject).expect("it was inserted if it was not there");
        if !codes.contains_key(code) {
            codes.insert(code.into(), Kind::default());
            self.count += 1;
        }
        codes.get_mut(code).expect("it was inserted if it was not there")
    }
}

/// Least time between two log lines about refusals of one kind.
pub(crate) const LINE_INTERVAL: Duration = Duration::from_secs(60);

/// Usual maximum number of kinds.
const KINDS_MAX: usize = 1_024;

/// Usual subject and code of refusals beyond it.
const OTHER: &str = "other";

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn each_kind_is_logged_once_a_minute_with_all_since_its_last_line() {
        let refusals = Refusals::default();
        assert_eq!(refusals.note("Produce", "MESSAGE_TOO_LARGE", 1), Some(1));
        assert_eq!(refusals.note("Produce", "INVALID_RECORD", 2), Some(2), "another kind");
        for _ in 0..1_000 {
            assert_eq!(refusals.note("Produce", "MESSAGE_TOO_LARGE", 1), None);
        }
        tokio::time::advance(LINE_INTERVAL).await;
        assert_eq!(refusals.note("Produce", "MESSAGE_TOO_LARGE", 1), Some(1_001));
        assert_eq!(refusals.note("Produce", "MESSAGE_TOO_LARGE", 1), None);
        let counts = refusals.counts();
        let counts: Vec<_> = counts.iter().map(|(what, code, count)| (&**what, &**code, *count)).collect();
        assert_eq!(counts, [("Produce", "INVALID_RECORD", 2), ("Produce", "MESSAGE_TOO_LARGE", 1_003)]);
    }

    #[test]
    fn names_that_clients_choose_take_bounded_memory() {
        let refusals = Refusals::default();
        for name in 0..KINDS_MAX + 100 {
            refusals.note(&format!("queue-{name}"), "amqp:not-found", 1);
        }
        let counts = refusals.counts();
        assert_eq!(counts.len(), KINDS_MAX + 1);
        assert!(counts.contains(&(OTHER.to_owned(), OTHER.to_owned(), 100)));
        assert_eq!(counts.iter().map(|(.., count)| count).sum::<u64>(), KINDS_MAX as u64 + 100);
    }
}
