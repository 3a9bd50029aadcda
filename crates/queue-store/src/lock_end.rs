//! When a lock ends.

use partition_log::UnixTime;

/// When a lock ends, by the clock of the calls that the queue gets.
///
/// Not a [`UnixTime`]: a client takes it for the time that it still has by a clock of its own, so whoever tells it has to say by whose.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LockEnd(UnixTime);

impl LockEnd {
    /// Lock expiry of messages whose lock lasts as long as that of their session: the last millisecond of the year 9999, as in
    /// the service.
    pub const WITH_ITS_SESSION: Self = Self(UnixTime::from_milliseconds(253_402_300_799_999));

    /// A lock that ends then.
    #[must_use]
    pub const fn at(time: UnixTime) -> Self {
        Self(time)
    }

    /// By the clock of the calls that the queue gets.
    #[inline]
    #[must_use]
    pub const fn queue_time(self) -> UnixTime {
        self.0
    }

    pub(super) const fn from_milliseconds(milliseconds: i64) -> Self {
        Self(UnixTime::from_milliseconds(milliseconds))
    }
}
