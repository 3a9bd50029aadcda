//! When the next checkpoint may be begun, for a store whose writings cost something.
//!
//! Writings that were not made are kept for later, up to a number: partitions that have little to write are not held up.

use std::time::{Duration, Instant};

/// Lets one writing begin per `gap`, and some more after a while without.
#[derive(Debug)]
pub(super) struct Pacer {
    gap: Duration,
    /// When the next writing is due; in the past as long as there is something left over.
    due: Option<Instant>,
    is_waited_for: bool,
}

impl Pacer {
    /// Without a gap everything is let through.
    pub(super) const fn new(gap: Duration) -> Self {
        Self { gap, due: None, is_waited_for: false }
    }

    /// Whether a writing may begin; it is counted as begun then.
    pub(super) fn allows(&mut self, now: Instant) -> bool {
        self.is_waited_for = false;
        if self.gap.is_zero() {
            return true;
        }
        let earliest = now.checked_sub(self.gap * LEFT_OVER);
        let due = self.due.max(earliest).unwrap_or(now);
        if due > now {
            self.is_waited_for = true;
            return false;
        }
        self.due = Some(due + self.gap);
        true
    }

    /// When to ask again, if the last answer was no.
    pub(super) fn next(&self) -> Option<Instant> {
        self.due.filter(|_| self.is_waited_for)
    }
}

/// So many writings that were not made may be made up for at once: as many as connections that a store keeps easily.
const LEFT_OVER: u32 = 32;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_left_over_may_begin_at_once_and_the_rest_at_its_pace() {
        let gap = Duration::from_millis(2);
        let mut pacer = Pacer::new(gap);
        let begin = Instant::now() + Duration::from_secs(1);
        let at_once = (0..100).take_while(|_| pacer.allows(begin)).count();
        assert_eq!(at_once, 33, "one, and what was left over");
        assert_eq!(pacer.next(), Some(begin + gap));
        let in_a_second = (0..1_000_000_u64)
            .filter(|&microsecond| pacer.allows(begin + Duration::from_micros(microsecond)))
            .count();
        assert_eq!(in_a_second, 499);
        assert!(pacer.allows(begin + Duration::from_secs(60)));
        assert_eq!(pacer.next(), None);
    }

    #[test]
    fn without_a_gap_nothing_waits() {
        let mut pacer = Pacer::new(Duration::ZERO);
        let now = Instant::now();
        assert!((0..1_000).all(|_| pacer.allows(now)));
        assert_eq!(pacer.next(), None);
    }
}
