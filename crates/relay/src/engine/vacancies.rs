//! How long places of a source that settles stay empty: from the end of one message until the next one is there.
//!
//! A source has at most so many messages in work. One that is settled leaves a place, and whoever fetches nothing ahead waits
//! for a round trip until that place is taken again. Together with the time that a message is in work that is what bounds a
//! relay with few places.

use std::collections::VecDeque;
use std::time::Instant;

use hdrhistogram::Histogram;

use crate::metrics::record_durations;

/// Places that were left and not taken again, those that are empty longest first.
#[derive(Debug, Default)]
pub(super) struct Vacancies {
    left: VecDeque<Left>,
}

/// Places that were left together.
#[derive(Debug)]
struct Left {
    at: Instant,
    places: u64,
}

impl Vacancies {
    /// So many messages in work came to their end.
    pub(super) fn leave(&mut self, now: Instant, places: u64) {
        match self.left.back_mut() {
            Some(last) if last.at == now => last.places += places,
            _ => self.left.push_back(Left { at: now, places }),
        }
    }

    /// So many messages came, and take the places that are empty longest. The mean does not depend on which they take. Places
    /// that nobody had before have not been left.
    pub(super) fn take(&mut self, now: Instant, messages: u64, empty_us: &mut Histogram<u64>) {
        let mut messages = messages;
        while messages > 0
            && let Some(first) = self.left.front_mut()
        {
            let taken = first.places.min(messages);
            record_durations(empty_us, now.saturating_duration_since(first.at), taken);
            messages -= taken;
            first.places -= taken;
            if first.places == 0 {
                self.left.pop_front();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_place_is_empty_from_its_end_to_the_next_message_and_new_ones_never_were() {
        let begin = Instant::now();
        let at = |ms| begin + Duration::from_millis(ms);
        let mut empty_us = Histogram::new(3).unwrap();
        let mut vacancies = Vacancies::default();
        vacancies.take(at(0), 8, &mut empty_us);
        assert_eq!(empty_us.len(), 0);
        vacancies.leave(at(1), 2);
        vacancies.leave(at(1), 1);
        vacancies.leave(at(3), 1);
        vacancies.take(at(4), 2, &mut empty_us);
        vacancies.take(at(5), 3, &mut empty_us);
        assert_eq!(empty_us.len(), 4);
        assert!((empty_us.mean() - 3_000.0).abs() < 3.0, "3, 3, 4 and 2 ms");
        assert!(vacancies.left.is_empty());
    }
}
