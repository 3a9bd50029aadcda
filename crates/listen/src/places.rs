//! How many connections there may be, and which of them makes room for another.
//!
//! A connection takes a place before it has shown anything. While places are free nothing else matters. When all are
//! taken, a new connection gets the place of the oldest one that has not proven itself: a client that means well
//! proves itself within moments, so that idle sockets, however many, do not keep others out.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

/// The places for connections of one kind.
#[derive(Debug)]
pub struct Places {
    maximum: u64,
    state: Mutex<State>,
    evicted: AtomicU64,
    /// A connection has ended.
    ended: Notify,
}

#[derive(Debug, Default)]
struct State {
    proven: u64,
    /// By the order in which they came, with what tells a connection that it has lost its place.
    unproven: BTreeMap<u64, Arc<Notify>>,
    /// Connections that have lost their place and have not ended yet.
    leaving: u64,
    next: u64,
}

/// The place of one connection, until this is dropped.
#[derive(Debug)]
pub struct Place {
    places: Arc<Places>,
    number: u64,
    lost: Arc<Notify>,
    is_proven: AtomicBool,
}

impl Places {
    /// `maximum` free places.
    #[must_use]
    pub fn new(maximum: u64) -> Arc<Self> {
        Arc::new(Self { maximum, state: Mutex::default(), evicted: AtomicU64::new(0), ended: Notify::new() })
    }

    /// How many there are.
    #[must_use]
    pub const fn maximum(&self) -> u64 {
        self.maximum
    }

    /// How many are taken.
    #[must_use]
    pub fn taken(&self) -> u64 {
        self.lock().taken()
    }

    /// Connections since the start that lost their place to another before they had proven themselves.
    #[must_use]
    pub fn evicted(&self) -> u64 {
        self.evicted.load(Ordering::Relaxed)
    }

    /// A place, free or that of the oldest connection that has not proven itself. `None` if all have.
    #[must_use]
    pub fn take(self: &Arc<Self>) -> Option<Place> {
        let mut state = self.lock();
        if state.taken() >= self.maximum {
            let (_, oldest) = state.unproven.pop_first()?;
            oldest.notify_one();
            state.leaving += 1;
            self.evicted.fetch_add(1, Ordering::Relaxed);
        }
        let (number, lost) = (state.next, Arc::<Notify>::default());
        state.next += 1;
        state.unproven.insert(number, Arc::clone(&lost));
        drop(state);
        Some(Place { places: Arc::clone(self), number, lost, is_proven: AtomicBool::new(false) })
    }

    /// The same, once not too many of those that lost their place are still about to end: their sockets are open until
    /// then.
    pub async fn admit(self: &Arc<Self>) -> Option<Place> {
        while self.lock().leaving >= LEAVING_MAX {
            self.ended.notified().await;
        }
        self.take()
    }

    /// The same, waiting for a place if need be. For one task at a time.
    pub async fn admit_or_wait(self: &Arc<Self>) -> Place {
        loop {
            if let Some(place) = self.admit().await {
                return place;
            }
            self.ended.notified().await;
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Locked sections only count and move entries; what is there is whole.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn taken(&self) -> u64 {
        self.proven + self.unproven.len() as u64
    }
}

impl Place {
    /// From now on no other connection gets this place.
    pub fn prove(&self) {
        if self.is_proven.load(Ordering::Relaxed) {
            return;
        }
        let mut state = self.places.lock();
        // It may have been lost a moment ago, and its connection not have noticed yet.
        if state.unproven.remove(&self.number).is_some() {
            state.proven += 1;
            self.is_proven.store(true, Ordering::Relaxed);
        }
    }

    /// Whether its connection has proven itself.
    #[must_use]
    pub fn is_proven(&self) -> bool {
        self.is_proven.load(Ordering::Relaxed)
    }

    /// Ready when another connection got the place, so that this one has to end. To be awaited once.
    pub fn lost(&self) -> impl Future<Output = ()> + Send + use<> {
        let lost = Arc::clone(&self.lost);
        async move { lost.notified().await }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut state = self.places.lock();
        if self.is_proven.load(Ordering::Relaxed) {
            state.proven -= 1;
        } else if state.unproven.remove(&self.number).is_none() {
            state.leaving -= 1;
        }
        drop(state);
        self.places.ended.notify_one();
    }
}

/// Connections that may be about to end while others get their places. Fewer listeners than this share places, so that
/// each of them is woken in time.
const LEAVING_MAX: u64 = 8;

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::{Context, Waker};

    use super::*;

    fn is_lost(place: &Place) -> bool {
        let mut context = Context::from_waker(Waker::noop());
        pin!(place.lost()).as_mut().poll(&mut context).is_ready()
    }

    #[test]
    fn the_oldest_that_has_proven_nothing_makes_room() {
        let places = Places::new(3);
        let taken: Vec<_> = (0..3).filter_map(|_| places.take()).collect();
        taken[0].prove();
        let newcomer = places.take().expect("the second makes room");
        assert!(is_lost(&taken[1]), "it is told");
        assert!([&taken[0], &taken[2], &newcomer].iter().all(|place| !is_lost(place)));
        assert_eq!((places.taken(), places.evicted()), (3, 1));
        // A proof that comes too late does not bring the place back, nor does the end of its connection.
        taken[1].prove();
        assert!(!taken[1].is_proven());
        drop(taken);
        assert_eq!(places.taken(), 1);
        drop(newcomer);
        assert_eq!(places.taken(), 0);
    }

    #[test]
    fn those_that_have_proven_themselves_keep_their_places() {
        let places = Places::new(2);
        let taken: Vec<_> = (0..2).filter_map(|_| places.take()).collect();
        taken.iter().for_each(Place::prove);
        assert!(places.take().is_none());
        drop(taken);
        assert!(places.take().is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn newcomers_wait_while_too_many_are_about_to_end() {
        let places = Places::new(1);
        let mut taken: Vec<_> = (0..=LEAVING_MAX).filter_map(|_| places.take()).collect();
        let waiting = tokio::spawn({
            let places = Arc::clone(&places);
            async move { places.admit().await.map(|place| place.number) }
        });
        tokio::task::yield_now().await;
        assert!(!waiting.is_finished());
        drop(taken.remove(0));
        let admitted = waiting.await.expect("it does not panic");
        assert_eq!(admitted, Some(LEAVING_MAX + 1));
    }

    #[tokio::test(start_paused = true)]
    async fn a_waiter_gets_the_next_free_place() {
        let places = Places::new(1);
        let first = places.take().expect("it is free");
        first.prove();
        let waiting = tokio::spawn({
            let places = Arc::clone(&places);
            async move { places.admit_or_wait().await.number }
        });
        tokio::task::yield_now().await;
        assert!(!waiting.is_finished());
        drop(first);
        assert_eq!(waiting.await.expect("it does not panic"), 1);
    }
}
