//! The clock of a server, as the `Date` of its replies tells it.
//!
//! A date is cut to the second and is old when it arrives, so each is a lower bound of the server's time. The largest of these bounds is
//! kept, and moves on with the monotonic clock: it is never ahead of the server, behind it by the fastest reply, and independent of this
//! machine's clock.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use tokio::time::Instant;

/// The clock of one server. Unknown before its first reply.
#[derive(Debug, Default)]
pub(crate) struct ServerClock {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    bound: Option<Bound>,
    /// Whether the log has been told that this machine's clock differs.
    is_difference_told: bool,
}

/// The server's time was at least `time` at `at`.
#[derive(Clone, Copy, Debug)]
struct Bound {
    time: SystemTime,
    at: Instant,
}

impl ServerClock {
    /// Takes note of the date of a reply that has just arrived.
    pub(crate) fn note(&self, date: SystemTime, server: &str) {
        let new = Bound { time: date, at: Instant::now() };
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let bound = match state.bound.map(|old| old.now()) {
            // The server's clock was set back.
            Some(old) if date + RESOLUTION < old => new,
            Some(old) => Bound { time: date.max(old), ..new },
            None => new,
        };
        state.bound = Some(bound);
        let own = SystemTime::now();
        let (difference, direction) = match own.duration_since(bound.time) {
            Ok(ahead) => (ahead, "ahead of"),
            Err(behind) => (behind.duration(), "behind"),
        };
        let is_different = difference > TOLD_FROM;
        if is_different && !state.is_difference_told {
            tracing::warn!(
                "this machine's clock is {} s {direction} that of {server}; claims expire by the server's clock, but tokens and signatures may \
                 be refused: synchronise the clocks",
                difference.as_secs()
            );
        }
        state.is_difference_told = is_different;
    }

    /// Returns the server's time, of which it is never ahead.
    pub(crate) fn now(&self) -> Option<SystemTime> {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.bound.map(Bound::now)
    }
}

impl Bound {
    fn now(self) -> SystemTime {
        self.time + self.at.elapsed()
    }
}

/// A date may be cut by a second and arrive late. A bound that is passed by more belongs to a clock that was set back.
const RESOLUTION: Duration = Duration::from_secs(30);

/// A difference that the log tells, well above the time that a reply may take.
const TOLD_FROM: Duration = Duration::from_secs(30);

#[cfg(test)]
mod tests {
    use std::time::UNIX_EPOCH;

    use super::*;

    fn at(seconds: f64) -> SystemTime {
        UNIX_EPOCH + Duration::from_secs_f64(seconds)
    }

    #[tokio::test(start_paused = true)]
    async fn it_is_never_ahead_of_the_server_and_no_later_than_its_fastest_reply() {
        let clock = ServerClock::default();
        assert_eq!(clock.now(), None);
        // The server's time is 100.9 s when this machine's clock says anything else.
        let start = Instant::now();
        let server = || 100.9 + start.elapsed().as_secs_f64();
        for delay_ms in [900, 100, 3_000, 40] {
            let date = server().floor();
            tokio::time::advance(Duration::from_millis(delay_ms)).await;
            clock.note(at(date), "server");
            assert!(clock.now().unwrap() <= at(server()));
            tokio::time::advance(Duration::from_millis(777)).await;
        }
        assert!(clock.now().unwrap() + Duration::from_millis(1_040) >= at(server()));
    }

    #[tokio::test(start_paused = true)]
    async fn it_follows_a_server_whose_clock_is_set_back() {
        let clock = ServerClock::default();
        clock.note(at(1_000.0), "server");
        clock.note(at(500.0), "server");
        assert_eq!(clock.now(), Some(at(500.0)));
    }
}
