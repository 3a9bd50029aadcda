//! What the ends of tokens mean to a clock that is ahead.
//!
//! A client signs a token until some instant of its own clock, which goes with the machine's. To a service whose clock is two hours ahead each
//! token of an hour would be over before it was shown. So the end of a token counts from when it was shown first: by as much as the service was ahead
//! then, its end is later. Advancing the clock from there on brings the end nearer, and a token that has ended stays so, however often it is
//! shown again.

use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasher as _, RandomState};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime};

/// The tokens that clients have shown.
#[derive(Debug, Default)]
pub(super) struct TokenTimes {
    key: RandomState,
    shown: Mutex<Shown>,
}

#[derive(Debug, Default)]
struct Shown {
    /// How far the clock was ahead when a token was shown first, by the token's digest.
    ahead: HashMap<u64, Duration>,
    /// The digests in the order in which they came.
    order: VecDeque<u64>,
}

/// How the time of a token's client relates to that of the service.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct TokenTime {
    ahead: Duration,
}

impl TokenTimes {
    /// Has all tokens end so much later: their clients renew them in time.
    pub(super) fn postpone(&self, by: Duration) {
        let mut shown = self.shown.lock().unwrap_or_else(PoisonError::into_inner);
        for ahead in shown.ahead.values_mut() {
            *ahead = ahead.saturating_add(by);
        }
    }

    /// Notes that a token is shown while the clock is so far `ahead`.
    pub(super) fn shown(&self, token: &[u8], ahead: Duration) -> TokenTime {
        let digest = self.key.hash_one(token);
        // Locked sections insert and remove; what is there is whole.
        let mut shown = self.shown.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(first) = shown.ahead.get(&digest) {
            return TokenTime { ahead: *first };
        }
        if shown.order.len() >= TOKENS_MAX
            && let Some(oldest) = shown.order.pop_front()
        {
            shown.ahead.remove(&oldest);
        }
        shown.order.push_back(digest);
        shown.ahead.insert(digest, ahead);
        TokenTime { ahead }
    }
}

impl TokenTime {
    /// An instant of the service as the client's clock shows it.
    pub(crate) fn of_client(self, service: SystemTime) -> SystemTime {
        service.checked_sub(self.ahead).unwrap_or(SystemTime::UNIX_EPOCH)
    }

    /// An instant of the client as the service's clock shows it.
    pub(crate) fn of_service(self, client: SystemTime) -> SystemTime {
        client.checked_add(self.ahead).unwrap_or(client)
    }
}

/// Tokens that are remembered. The oldest is then forgotten; shown again, it is new.
const TOKENS_MAX: usize = 65_536;

#[cfg(test)]
mod tests {
    use std::time::UNIX_EPOCH;

    use super::*;

    #[test]
    fn a_token_counts_from_when_it_was_shown_first() {
        let times = TokenTimes::default();
        let hour = Duration::from_secs(3_600);
        let at = UNIX_EPOCH + 10 * hour;
        assert_eq!(times.shown(b"early", Duration::ZERO).of_service(at), at);
        let late = times.shown(b"late", 2 * hour);
        assert_eq!((late.of_service(at), late.of_client(at)), (at + 2 * hour, at - 2 * hour));
        assert_eq!(times.shown(b"early", 5 * hour).of_service(at), at, "shown again");
        assert_eq!(times.shown(b"late", 5 * hour), late, "shown again");
        times.postpone(hour);
        assert_eq!(times.shown(b"early", 5 * hour).of_service(at), at + hour, "renewed");
    }

    #[test]
    fn so_many_tokens_are_remembered() {
        let times = TokenTimes::default();
        for number in 0..=TOKENS_MAX {
            let _ = times.shown(&number.to_le_bytes(), Duration::ZERO);
        }
        let hour = Duration::from_secs(3_600);
        let (oldest, second) = (0_usize.to_le_bytes(), 1_usize.to_le_bytes());
        assert_eq!(times.shown(&second, hour), TokenTime::default());
        assert_eq!(times.shown(&oldest, hour), TokenTime { ahead: hour });
        let shown = times.shown.lock().unwrap();
        assert_eq!((shown.ahead.len(), shown.order.len()), (TOKENS_MAX, TOKENS_MAX));
    }
}
