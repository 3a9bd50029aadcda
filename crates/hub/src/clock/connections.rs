//! The connections that time acts on: their links end with their tokens, and what became due is delivered to them.
//!
//! Each of them has a place here for as long as it is served. When time moves by other means than passing, a key is reported to its
//! subscriber, which wakes its task; and it answers when it has seen to everything that was reported to it before that key.

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use partition_log::{Subscriber, UnixTime};
use tokio::sync::Notify;

/// All connections of a service.
#[derive(Debug, Default)]
pub(super) struct Connections {
    places: Mutex<Places>,
    /// How many have been asked to attend and have not answered yet.
    awaited: AtomicUsize,
    all_answered: Notify,
    ended_links: AtomicU64,
}

#[derive(Debug, Default)]
struct Places {
    taken: Vec<Option<Arc<Place>>>,
    free: Vec<usize>,
}

#[derive(Debug)]
struct Place {
    subscriber: Arc<Subscriber>,
    key: u64,
    /// Whether it has been asked and has not answered yet.
    owes_answer: AtomicBool,
    /// When its next claim ends, in milliseconds since the epoch.
    claim_end: AtomicI64,
}

/// A connection's place among those that time acts on, for as long as this lives.
#[derive(Debug)]
pub(crate) struct TimedConnection {
    connections: Arc<Connections>,
    place: Arc<Place>,
    index: usize,
}

impl Connections {
    pub(super) fn add(self: &Arc<Self>, subscriber: &Arc<Subscriber>, key: u64) -> TimedConnection {
        let place = Arc::new(Place {
            subscriber: Arc::clone(subscriber),
            key,
            owes_answer: AtomicBool::new(false),
            claim_end: AtomicI64::new(NEVER),
        });
        let mut places = self.lock();
        let index = match places.free.pop() {
            Some(index) => index,
            None => {
                places.taken.push(None);
                places.taken.len() - 1
            }
        };
        places.taken[index] = Some(Arc::clone(&place));
        TimedConnection { connections: Arc::clone(self), place, index }
    }

    /// Has everyone look at the time.
    pub(super) fn report_all(&self) {
        // Outside of the lock: this wakes tasks.
        for place in self.taken() {
            place.subscriber.report(place.key);
        }
    }

    /// Has everyone look at the time and at what else was reported, and waits until they have.
    pub(super) async fn attend(&self) {
        let asked = {
            let places = self.lock();
            let asked: Vec<_> = places.taken.iter().flatten().cloned().collect();
            // Before the first can answer.
            self.awaited.store(asked.len(), Ordering::SeqCst);
            for place in &asked {
                place.owes_answer.store(true, Ordering::SeqCst);
            }
            asked
        };
        for place in asked {
            place.subscriber.report(place.key);
        }
        while self.awaited.load(Ordering::SeqCst) > 0 {
            self.all_answered.notified().await;
        }
    }

    pub(super) fn next_claim_end(&self, now: UnixTime) -> Option<UnixTime> {
        let places = self.lock();
        let ends = places.taken.iter().flatten().map(|place| place.claim_end.load(Ordering::SeqCst));
        let next = ends.filter(|end| *end > now.milliseconds() && *end < NEVER).min();
        next.map(UnixTime::from_milliseconds)
    }

    pub(super) fn count_ended_links(&self, links: u64) {
        self.ended_links.fetch_add(links, Ordering::Relaxed);
    }

    pub(super) fn ended_links(&self) -> u64 {
        self.ended_links.load(Ordering::Relaxed)
    }

    fn answer(&self, place: &Place) {
        if place.owes_answer.swap(false, Ordering::SeqCst) && self.awaited.fetch_sub(1, Ordering::SeqCst) == 1
        {
            self.all_answered.notify_one();
        }
    }

    fn taken(&self) -> Vec<Arc<Place>> {
        self.lock().taken.iter().flatten().cloned().collect()
    }

    fn lock(&self) -> MutexGuard<'_, Places> {
        // Locked sections only fill and empty a place; what is there is whole.
        self.places.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl TimedConnection {
    /// All that was reported until the clock's key was is done.
    pub(crate) fn has_attended(&self) {
        self.connections.answer(&self.place);
    }

    /// Notes when the connection's next claim ends.
    pub(crate) fn note_claim_end(&self, end: Option<SystemTime>) {
        // The first whole millisecond at which it has ended.
        let end = end.map_or(NEVER, |end| UnixTime::from(end).milliseconds().saturating_add(1));
        self.place.claim_end.store(end, Ordering::SeqCst);
    }
}

impl Drop for TimedConnection {
    fn drop(&mut self) {
        let mut places = self.connections.lock();
        places.taken[self.index] = None;
        places.free.push(self.index);
        drop(places);
        // It is not asked any more, and may have been.
        self.connections.answer(&self.place);
    }
}

/// No claim of a connection ends.
const NEVER: i64 = i64::MAX;

#[cfg(test)]
mod tests {
    use std::future::Future as _;
    use std::pin::pin;
    use std::task::{Context, Waker};
    use std::time::{Duration, UNIX_EPOCH};

    use super::*;

    #[test]
    fn only_connections_that_are_there_are_asked_and_all_of_them_are_awaited() {
        let connections = Arc::new(Connections::default());
        let subscriber = Subscriber::new();
        let first = connections.add(&subscriber, 1);
        drop(connections.add(&subscriber, 2));
        let third = connections.add(&subscriber, 3);
        let mut context = Context::from_waker(Waker::noop());
        let mut attending = pin!(connections.attend());
        assert!(attending.as_mut().poll(&mut context).is_pending());
        let mut keys = Vec::new();
        assert!(subscriber.poll_ready(&mut context, &mut keys).is_ready());
        assert_eq!(keys, [1, 3]);
        first.has_attended();
        first.has_attended();
        assert!(attending.as_mut().poll(&mut context).is_pending(), "each answers once");
        // One that ends has nothing left to see to.
        drop(third);
        assert!(attending.as_mut().poll(&mut context).is_ready());
        assert_eq!(connections.lock().taken.len(), 2, "places are used again");
    }

    #[test]
    fn the_next_end_of_a_claim_is_that_of_any_connection() {
        let connections = Arc::new(Connections::default());
        let subscriber = Subscriber::new();
        let (early, late) = (connections.add(&subscriber, 1), connections.add(&subscriber, 2));
        let at = |seconds| UNIX_EPOCH + Duration::from_secs(seconds);
        late.note_claim_end(Some(at(200)));
        early.note_claim_end(Some(at(100)));
        let next = |now| connections.next_claim_end(UnixTime::from(at(now)));
        assert_eq!(next(0), Some(UnixTime::from_milliseconds(100_001)));
        assert_eq!(next(150), Some(UnixTime::from_milliseconds(200_001)));
        late.note_claim_end(None);
        assert_eq!(next(150), None);
    }
}
