//! What the ends of tokens mean to a clock that is ahead.
//!
//! A client signs a token until some instant of its own clock, which goes with the machine's. To a service whose clock is two hours ahead each
//! token of an hour would be over before it was shown. So the end of a token counts from when it was shown first: by as much as the service was ahead
//! then, its end is later. Advancing the clock from there on brings the end nearer, and a token that has ended stays so, however often it is
//! shown again.
//!
//! A client with a key signs a new token when one has expired. Expiry is in whole seconds, so signing twice within a second yields the same
//! text, which then counts as a new token. Short-lived tokens are excluded: no client signs those.

use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasher as _, RandomState};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use super::TokenNow;

/// The tokens that clients have shown.
#[derive(Debug, Default)]
pub(super) struct TokenTimes {
    key: RandomState,
    shown: Mutex<Shown>,
}

#[derive(Debug, Default)]
struct Shown {
    /// The tokens by their digest.
    first: HashMap<u64, First>,
    /// The digests in the order in which they came.
    order: VecDeque<u64>,
}

/// When a token was shown first.
#[derive(Debug)]
struct First {
    /// By the machine's clock.
    at: SystemTime,
    /// How far the service's clock was ahead.
    ahead: Duration,
}

/// How the time of a token's client relates to that of the service.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct TokenTime {
    ahead: Duration,
}

impl TokenTimes {
    /// Notes that a token is shown at `machine`, by the clock of its client, while that of the service is so far `ahead`. `signed_until` is the
    /// end of one that its client signs by itself.
    pub(super) fn shown(
        &self,
        token: &[u8],
        signed_until: Option<SystemTime>,
        machine: SystemTime,
        ahead: Duration,
    ) -> TokenTime {
        let digest = self.key.hash_one(token);
        // Locked sections insert and remove; what is there is whole.
        let mut shown = self.shown.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(first) = shown.first.get_mut(&digest) {
            let is_same_second = machine.duration_since(first.at).is_ok_and(|age| age < SECOND);
            if is_same_second && signed_until.is_some_and(|end| end >= machine + SIGNED_FOR_MIN) {
                first.ahead = ahead;
            }
            return TokenTime { ahead: first.ahead };
        }
        if shown.order.len() >= TOKENS_MAX
            && let Some(oldest) = shown.order.pop_front()
        {
            shown.first.remove(&oldest);
        }
        shown.order.push_back(digest);
        shown.first.insert(digest, First { at: machine, ahead });
        TokenTime { ahead }
    }
}

impl TokenTime {
    /// The present as the client's clock shows it.
    pub(crate) fn of_client(self, now: TokenNow) -> SystemTime {
        now.time().checked_sub(self.ahead).unwrap_or(SystemTime::UNIX_EPOCH)
    }

    /// An instant of the client as the clock of tokens shows it.
    pub(crate) fn of_service(self, client: SystemTime) -> SystemTime {
        client.checked_add(self.ahead).unwrap_or(client)
    }
}

/// How finely the end of a token is given.
const SECOND: Duration = Duration::from_secs(1);

/// For how long clients sign at least: those of Azure for 20 minutes to two hours.
const SIGNED_FOR_MIN: Duration = Duration::from_secs(5 * 60);

/// Tokens that are remembered. The oldest is then forgotten; shown again, it is new.
const TOKENS_MAX: usize = 65_536;

#[cfg(test)]
mod tests {
    use std::time::UNIX_EPOCH;

    use super::*;

    const HOUR: Duration = Duration::from_secs(3_600);
    const AT: SystemTime = UNIX_EPOCH;

    /// One that its client has from elsewhere.
    fn shown(times: &TokenTimes, token: &[u8], ahead: Duration) -> TokenTime {
        times.shown(token, None, AT, ahead)
    }

    #[test]
    fn a_token_counts_from_when_it_was_shown_first() {
        let times = TokenTimes::default();
        let at = AT + 10 * HOUR;
        assert_eq!(shown(&times, b"early", Duration::ZERO).of_service(at), at);
        let late = shown(&times, b"late", 2 * HOUR);
        assert_eq!((late.of_service(at), late.of_client(TokenNow::at(at))), (at + 2 * HOUR, at - 2 * HOUR));
        assert_eq!(shown(&times, b"early", 5 * HOUR).of_service(at), at, "shown again");
        assert_eq!(shown(&times, b"late", 5 * HOUR), late, "shown again");
    }

    #[test]
    fn what_is_signed_again_within_the_second_is_a_new_token() {
        let times = TokenTimes::default();
        let ahead_of = |token: &[u8], end: Duration, after: Duration, ahead: Duration| {
            times.shown(token, Some(AT + end), AT + after, ahead).ahead
        };
        let moment = Duration::from_millis(999);
        assert_eq!(ahead_of(b"signed", HOUR, Duration::ZERO, Duration::ZERO), Duration::ZERO);
        assert_eq!(ahead_of(b"signed", HOUR, moment, 2 * HOUR), 2 * HOUR);
        assert_eq!(ahead_of(b"signed", HOUR, SECOND, 4 * HOUR), 2 * HOUR, "kept by its client");
        let short = SIGNED_FOR_MIN;
        assert_eq!(ahead_of(b"given", short, Duration::ZERO, Duration::ZERO), Duration::ZERO);
        assert_eq!(ahead_of(b"given", short, moment, 2 * HOUR), Duration::ZERO, "it ends soon");
    }

    #[test]
    fn so_many_tokens_are_remembered() {
        let times = TokenTimes::default();
        for number in 0..=TOKENS_MAX {
            let _ = shown(&times, &number.to_le_bytes(), Duration::ZERO);
        }
        let (oldest, second) = (0_usize.to_le_bytes(), 1_usize.to_le_bytes());
        assert_eq!(shown(&times, &second, HOUR), TokenTime::default());
        assert_eq!(shown(&times, &oldest, HOUR), TokenTime { ahead: HOUR });
        let shown = times.shown.lock().unwrap();
        assert_eq!((shown.first.len(), shown.order.len()), (TOKENS_MAX, TOKENS_MAX));
    }
}
