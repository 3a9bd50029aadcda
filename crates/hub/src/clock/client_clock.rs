//! What clients are told of the time that they still have.
//!
//! Their clocks go with the machine's and are not advanced with that of the service. So an instant that a client subtracts its own present from
//! is told by the machine's clock; an instant that is part of what happened (enqueued, scheduled, expired) by the service's.

use std::time::Duration;

use partition_log::UnixTime;
use queue_store::LockEnd;

/// The clock of clients: how far that of the service is ahead of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ClientClock {
    behind_ms: i64,
}

impl ClientClock {
    pub(super) fn behind(time: Duration) -> Self {
        Self { behind_ms: i64::try_from(time.as_millis()).unwrap_or(i64::MAX) }
    }

    /// When a lock ends, as the client's clock will show it.
    #[inline]
    pub(crate) fn lock_end(self, end: LockEnd) -> UnixTime {
        if end == LockEnd::WITH_ITS_SESSION {
            // No time that anybody has left.
            return end.queue_time();
        }
        UnixTime::from_milliseconds(end.queue_time().milliseconds().saturating_sub(self.behind_ms))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_ends_as_much_earlier_by_the_clock_of_a_client_as_that_is_behind() {
        let end = LockEnd::at(UnixTime::from_milliseconds(3_660_000));
        assert_eq!(ClientClock::default().lock_end(end), UnixTime::from_milliseconds(3_660_000));
        assert_eq!(
            ClientClock::behind(Duration::from_micros(3_600_000_999)).lock_end(end),
            UnixTime::from_milliseconds(60_000)
        );
        let with_its_session = LockEnd::WITH_ITS_SESSION;
        assert_eq!(
            ClientClock::behind(Duration::from_secs(1)).lock_end(with_its_session),
            with_its_session.queue_time()
        );
    }
}
