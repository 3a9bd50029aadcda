//! The wall clock of a service, and notice of its jumps.
//!
//! Tokens expire by the wall clock, timers run by a clock of their own. The two part company when someone sets the wall
//! clock, or when the machine sleeps, which timers do not notice. So the service compares them, and has all connections
//! look at their tokens when they differ.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use tokio::sync::watch;
use tokio::time::Instant;

use crate::namespace::{Watch, Watchers};
use partition_log::Subscriber;

/// The time of day, as the service sees it.
#[derive(Debug, Default)]
pub struct WallClock {
    /// How far it is ahead of the system's.
    ahead_ms: AtomicU64,
    watchers: Arc<Watchers>,
}

impl WallClock {
    /// The present time.
    #[must_use]
    pub fn now(&self) -> SystemTime {
        let ahead = Duration::from_millis(self.ahead_ms.load(Ordering::Relaxed));
        SystemTime::now() + ahead
    }

    /// Sets the clock forward, as an administrator or a sleep of the machine does. For tests in this process.
    pub fn advance(&self, by: Duration) {
        let by = u64::try_from(by.as_millis()).unwrap_or(u64::MAX);
        self.ahead_ms.fetch_add(by, Ordering::Relaxed);
    }

    /// From now on `key` is reported to `subscriber` when the clock jumps.
    #[must_use]
    pub fn watch(&self, subscriber: &Arc<Subscriber>, key: u64) -> Watch {
        self.watchers.watch(subscriber, key)
    }

    /// Looks for jumps until `stop` becomes true.
    pub(crate) async fn report_jumps(&self, mut stop: watch::Receiver<bool>) {
        let mut ticks = tokio::time::interval(CHECK_PERIOD);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let mut before = (self.now(), Instant::now());
        loop {
            tokio::select! {
                _ = ticks.tick() => {}
                _ = stop.wait_for(|stop| *stop) => return,
            }
            let now = (self.now(), Instant::now());
            if is_jump(before.0, now.0, now.1 - before.1) {
                tracing::info!("the clock was set or the machine slept; tokens are checked again");
                self.watchers.report_all();
            }
            before = now;
        }
    }
}

/// Whether the wall clock went from `before` to `now` by anything else than the `elapsed` time.
fn is_jump(before: SystemTime, now: SystemTime, elapsed: Duration) -> bool {
    let expected = before + elapsed;
    let difference = match now.duration_since(expected) {
        Ok(ahead) => ahead,
        Err(behind) => behind.duration(),
    };
    difference > TOLERANCE
}

/// How often the clocks are compared: a token is honoured for so long after its end at most.
const CHECK_PERIOD: Duration = Duration::from_secs(1);

/// Clocks are read one after the other, and adjusted by small steps all the time.
const TOLERANCE: Duration = Duration::from_millis(250);

#[cfg(test)]
mod tests {
    use std::time::UNIX_EPOCH;

    use super::*;

    #[test]
    fn a_jump_is_what_the_elapsed_time_does_not_explain() {
        let at = |milliseconds| UNIX_EPOCH + Duration::from_millis(milliseconds);
        for (what, now, elapsed_ms, expected) in [
            ("a second that passed", 101_000, 1_000, false),
            ("a small adjustment", 101_200, 1_000, false),
            ("a late look", 160_000, 60_000, false),
            ("a clock set forward", 3_700_000, 1_000, true),
            ("a clock set back", 40_000, 1_000, true),
            ("a machine that slept", 28_900_000, 1_500, true),
        ] {
            let elapsed = Duration::from_millis(elapsed_ms);
            assert_eq!(is_jump(at(100_000), at(now), elapsed), expected, "{what}");
        }
    }
}
