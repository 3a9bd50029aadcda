//! A clock that goes with the machine's, or ahead of it, and can be stopped and moved.
//!
//! Reading it costs one atomic load more than reading the machine's.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// A time of day that never goes back.
#[derive(Debug)]
pub(super) struct MovableClock {
    /// A [`Reading`].
    reading: AtomicU64,
}

/// How the clock is read. Either way in whole microseconds, which last until the year 292,000.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reading {
    /// It goes, so far ahead of the machine's.
    Goes(u64),
    /// It stands at this time since the epoch, while what became due acts.
    Stands(u64),
}

/// How a clock went before it was stopped, in microseconds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Before {
    /// What it showed, since the epoch.
    stopped_at: u64,
    /// How far it was ahead.
    ahead: u64,
}

impl Default for MovableClock {
    /// It shows the machine's time.
    fn default() -> Self {
        Self { reading: AtomicU64::new(Reading::Goes(0).bits()) }
    }
}

impl MovableClock {
    /// The time that it shows.
    #[inline]
    pub(super) fn now(&self) -> SystemTime {
        match self.reading() {
            Reading::Goes(ahead) => SystemTime::now() + Duration::from_micros(ahead),
            Reading::Stands(at) => UNIX_EPOCH + Duration::from_micros(at),
        }
    }

    /// How far it is ahead of the machine's.
    #[inline]
    pub(super) fn offset(&self) -> Duration {
        Duration::from_micros(match self.reading() {
            Reading::Goes(ahead) => ahead,
            Reading::Stands(at) => at.saturating_sub(microseconds_since_epoch(SystemTime::now())),
        })
    }

    /// Whether it was stopped.
    #[inline]
    pub(super) fn stands(&self) -> bool {
        matches!(self.reading(), Reading::Stands(_))
    }

    /// Sets it forward.
    pub(super) fn jump(&self, by: Duration) {
        self.set(Reading::Goes(microseconds(self.offset()).saturating_add(microseconds(by))));
    }

    /// Stops it at the next whole millisecond.
    pub(super) fn stop(&self) -> Before {
        let ahead = microseconds(self.offset());
        let stopped_at = microseconds_since_epoch(self.now());
        self.set(Reading::Stands((stopped_at / MILLISECOND + 1).saturating_mul(MILLISECOND)));
        Before { stopped_at, ahead }
    }

    /// Moves one that stands, but never back.
    pub(super) fn move_to(&self, instant: SystemTime) {
        if instant > self.now() {
            self.set(Reading::Stands(microseconds_since_epoch(instant)));
        }
    }

    /// Has it go on, further ahead by as much as it was moved: the time that has passed on the machine meanwhile has passed here as well.
    pub(super) fn go_on(&self, before: Before) {
        let at = microseconds_since_epoch(self.now());
        let moved = at.saturating_sub(before.stopped_at);
        let machine = microseconds_since_epoch(SystemTime::now());
        // The second is more if the machine's clock was set back meanwhile.
        let ahead = before.ahead.saturating_add(moved).max(at.saturating_sub(machine));
        self.set(Reading::Goes(ahead));
    }

    #[inline]
    fn reading(&self) -> Reading {
        Reading::of_bits(self.reading.load(Ordering::Relaxed))
    }

    fn set(&self, reading: Reading) {
        self.reading.store(reading.bits(), Ordering::Release);
    }
}

impl Before {
    /// What the clock showed when it was stopped.
    pub(super) fn stopped_at(self) -> SystemTime {
        UNIX_EPOCH + Duration::from_micros(self.stopped_at)
    }
}

impl Reading {
    const fn bits(self) -> u64 {
        match self {
            Self::Goes(ahead) => ahead & !STANDS,
            Self::Stands(at) => at | STANDS,
        }
    }

    const fn of_bits(bits: u64) -> Self {
        match bits & STANDS {
            0 => Self::Goes(bits),
            _ => Self::Stands(bits & !STANDS),
        }
    }
}

fn microseconds(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX) & !STANDS
}

fn microseconds_since_epoch(instant: SystemTime) -> u64 {
    microseconds(instant.duration_since(UNIX_EPOCH).unwrap_or_default())
}

/// The bit that tells the readings apart.
const STANDS: u64 = 1 << 63;

/// In microseconds.
const MILLISECOND: u64 = 1_000;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_reading_is_what_it_was_made_of(value in 0_u64..STANDS, stands: bool) {
            let reading = if stands { Reading::Stands(value) } else { Reading::Goes(value) };
            prop_assert_eq!(Reading::of_bits(reading.bits()), reading);
        }
    }
}
