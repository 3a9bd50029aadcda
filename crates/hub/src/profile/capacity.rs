//! How many operations an entity or a container carries out at once. The others wait, in the order in which they came.
//!
//! An operation's time is known when it comes, so that its end is as well: no task and no queue is needed, only when each
//! place is free again.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use super::config::CapacityConfig;

/// The places of all entities and containers that have a bound.
#[derive(Debug)]
pub(super) struct Capacities {
    entities: Vec<(String, Places)>,
    containers: Vec<(String, Places)>,
}

/// What carries out operations, one at each place.
#[derive(Debug)]
pub(super) struct Places {
    count: usize,
    /// When each place is free that was ever taken.
    free_at: Mutex<BinaryHeap<Reverse<Instant>>>,
}

impl Capacities {
    pub(super) fn new(config: &CapacityConfig) -> Self {
        let of = |(name, count): (&String, &std::num::NonZeroU32)| (name.clone(), Places::new(count.get()));
        Self {
            entities: config.entities.iter().map(of).collect(),
            containers: config.containers.iter().map(of).collect(),
        }
    }

    /// Those for sends to an entity, if they are bounded.
    pub(super) fn of_entity(&self, name: &str) -> Option<&Places> {
        named(&self.entities, name)
    }

    /// Those for requests in a container, if they are bounded.
    pub(super) fn of_container(&self, name: &str) -> Option<&Places> {
        named(&self.containers, name)
    }
}

impl Places {
    fn new(count: u32) -> Self {
        Self { count: usize::try_from(count).unwrap_or(usize::MAX), free_at: Mutex::default() }
    }

    /// An operation that came now and takes so long: when it begins, and when it ends.
    pub(super) fn take(&self, now: Instant, time: Duration) -> (Instant, Instant) {
        let mut free_at = self.free_at.lock().unwrap_or_else(PoisonError::into_inner);
        let begins = match free_at.len() < self.count {
            true => now,
            // The place that is free first.
            false => free_at.pop().map_or(now, |Reverse(free)| free.max(now)),
        };
        let ends = begins + time;
        free_at.push(Reverse(ends));
        (begins, ends)
    }
}

fn named<'a>(all: &'a [(String, Places)], name: &str) -> Option<&'a Places> {
    all.iter().find(|(other, _)| other.eq_ignore_ascii_case(name)).map(|(_, places)| places)
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(milliseconds: u64) -> Duration {
        Duration::from_millis(milliseconds)
    }

    #[test]
    fn operations_beyond_the_places_wait_for_the_first_that_is_free_in_their_order() {
        let (places, now) = (Places::new(2), Instant::now());
        let take = |time| {
            let (begins, ends) = places.take(now, ms(time));
            ((begins - now).as_millis(), (ends - now).as_millis())
        };
        assert_eq!(take(10), (0, 10));
        assert_eq!(take(4), (0, 4));
        assert_eq!(take(1), (4, 5), "behind the shorter one");
        assert_eq!(take(20), (5, 25), "a short one before it has left its place");
        assert_eq!(take(1), (10, 11));
    }

    #[test]
    fn a_place_that_is_free_makes_nobody_wait() {
        let (places, now) = (Places::new(1), Instant::now());
        assert_eq!(places.take(now, ms(10)), (now, now + ms(10)));
        let later = now + ms(30);
        assert_eq!(places.take(later, ms(10)), (later, later + ms(10)));
    }

    #[test]
    fn the_rate_is_that_of_the_places_and_memory_is_theirs_as_well() {
        let (places, now) = (Places::new(3), Instant::now());
        let last = (0..3_000).map(|_| places.take(now, ms(6)).1).max().expect("there are some");
        assert_eq!(last - now, ms(6_000));
        assert_eq!(places.free_at.lock().unwrap().len(), 3);
    }
}
