//! What the namespace takes and gives per second, over all of its connections.
//!
//! Going in, a message is taken as a whole or refused. Coming out, nothing is refused: readers that find the account
//! overdrawn wait, and what they send is charged afterwards, since only then it is known. So the account may be
//! overdrawn by what readers send at the same moment, and it is always paid back.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::config::QuotaConfig;
use super::fate::Throttled;
use super::token_bucket::TokenBucket;

/// Both directions. `None` where there is no bound, so that no lock is taken.
#[derive(Debug)]
pub(super) struct Quota {
    ingress: Option<Ingress>,
    egress: Option<Mutex<Account>>,
}

#[derive(Debug)]
struct Ingress {
    bounds_events: bool,
    account: Mutex<Account>,
}

/// One direction: bytes and events, whichever runs out first.
#[derive(Debug)]
struct Account {
    bytes: Option<TokenBucket>,
    events: Option<TokenBucket>,
}

impl Quota {
    pub(super) fn new(config: &QuotaConfig) -> Self {
        let bytes = |rate: Option<units::ByteSize>| rate.map(units::ByteSize::bytes);
        let account = |bytes: Option<u64>, events: Option<std::num::NonZeroU64>| {
            (bytes.is_some() || events.is_some()).then(|| {
                Mutex::new(Account {
                    bytes: bytes.map(TokenBucket::new),
                    events: events.map(|rate| TokenBucket::new(rate.get())),
                })
            })
        };
        Self {
            ingress: account(bytes(config.ingress_bytes_per_s), config.ingress_events_per_s)
                .map(|account| Ingress { bounds_events: config.ingress_events_per_s.is_some(), account }),
            egress: account(bytes(config.egress_bytes_per_s), config.egress_events_per_s),
        }
    }

    /// Takes a message of so many bytes and `events`, or nothing of it. Counting `events` costs something, so it is done
    /// only where there is a bound for them or the message is refused.
    ///
    /// # Errors
    /// There is no room for it now.
    pub(super) fn take_in(
        &self,
        now: Instant,
        bytes: u64,
        events: impl FnOnce() -> u64,
    ) -> Result<(), Throttled> {
        let Some(ingress) = &self.ingress else {
            return Ok(());
        };
        let take = |events| lock(&ingress.account).take_if_there(now, events, bytes);
        match ingress.bounds_events {
            true => {
                let events = events();
                take(events).map_err(|retry_after| Throttled { events, bytes, retry_after })
            }
            false => take(0).map_err(|retry_after| Throttled { events: events(), bytes, retry_after }),
        }
    }

    /// Until when readers must wait; `None` if they need not.
    pub(super) fn closed_until(&self, now: Instant) -> Option<Instant> {
        let mut account = lock(self.egress.as_ref()?);
        account.fill(now);
        let debts = [&account.bytes, &account.events];
        let debt = debts.into_iter().flatten().filter_map(TokenBucket::debt).max()?;
        Some(now + debt)
    }

    /// So much has been given to readers.
    pub(super) fn give_out(&self, now: Instant, events: u64, bytes: u64) {
        if let Some(egress) = &self.egress {
            let mut account = lock(egress);
            account.fill(now);
            account.take(events, bytes);
        }
    }
}

impl Account {
    fn fill(&mut self, now: Instant) {
        for bucket in [&mut self.bytes, &mut self.events].into_iter().flatten() {
            bucket.fill(now);
        }
    }

    /// Takes all of it or nothing.
    ///
    /// # Errors
    /// How long until there is enough, if nothing else is taken.
    fn take_if_there(&mut self, now: Instant, events: u64, bytes: u64) -> Result<(), Duration> {
        self.fill(now);
        let missing = [(&self.bytes, bytes), (&self.events, events)]
            .into_iter()
            .filter_map(|(bucket, tokens)| bucket.as_ref()?.shortage(tokens))
            .max();
        match missing {
            Some(time) => Err(time),
            None => {
                self.take(events, bytes);
                Ok(())
            }
        }
    }

    const fn take(&mut self, events: u64, bytes: u64) {
        if let Some(bucket) = &mut self.bytes {
            bucket.take(bytes);
        }
        if let Some(bucket) = &mut self.events {
            bucket.take(events);
        }
    }
}

/// An account is right between any two statements, so that one whose holder panicked still is.
fn lock(account: &Mutex<Account>) -> MutexGuard<'_, Account> {
    account.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU64;
    use std::sync::atomic::{AtomicU64, Ordering};
    use units::ByteSize;

    use super::*;

    fn quota(bytes: u64, events: u64) -> Quota {
        Quota::new(&QuotaConfig {
            ingress_bytes_per_s: Some(ByteSize::from_bytes(bytes)),
            ingress_events_per_s: NonZeroU64::new(events),
            egress_bytes_per_s: Some(ByteSize::from_bytes(bytes)),
            egress_events_per_s: NonZeroU64::new(events),
        })
    }

    fn take_in(quota: &Quota, now: Instant, events: u64, bytes: u64) -> bool {
        quota.take_in(now, bytes, || events).is_ok()
    }

    #[test]
    fn whichever_of_bytes_and_events_runs_out_first_decides() {
        let start = Instant::now();
        let by_events = quota(1_000_000, 10);
        assert!(take_in(&by_events, start, 10, 10));
        assert!(!take_in(&by_events, start, 1, 1));
        let by_bytes = quota(1_000, 1_000_000);
        assert!(take_in(&by_bytes, start, 1, 1_000));
        assert!(!take_in(&by_bytes, start, 1, 1));
    }

    #[test]
    fn a_refused_message_costs_nothing() {
        let start = Instant::now();
        let quota = quota(1_000, 10);
        assert!(!(0..5).any(|_| take_in(&quota, start, 11, 1) && take_in(&quota, start, 1, 1)));
    }

    #[test]
    fn without_figures_there_is_no_bound_and_no_lock() {
        let open = Quota::new(&QuotaConfig::default());
        let now = Instant::now();
        assert!(take_in(&open, now, u64::MAX, u64::MAX));
        assert_eq!(open.closed_until(now), None);
    }

    #[test]
    fn many_threads_get_through_what_one_would() {
        let start = Instant::now();
        let quota = quota(1_000_000, 10_000);
        let taken = AtomicU64::new(0);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    // Ten seconds of virtual time in steps of a millisecond, each thread as greedy as it can be.
                    for step in 0..10_000 {
                        let now = start + Duration::from_millis(step);
                        while take_in(&quota, now, 7, 1) {
                            taken.fetch_add(7, Ordering::Relaxed);
                        }
                    }
                });
            }
        });
        // The burst and 9.999 s at the rate, less what is too little for seven.
        let all = 10_000 + 99_990;
        let taken = taken.into_inner();
        assert!((all - 6..=all).contains(&taken), "{taken}");
    }

    #[test]
    fn readers_wait_until_what_they_overdrew_is_paid_back() {
        let start = Instant::now();
        let quota = quota(1_000, 1_000_000);
        assert_eq!(quota.closed_until(start), None);
        quota.give_out(start, 1, 1_000);
        assert_eq!(quota.closed_until(start), None);
        quota.give_out(start, 1, 500);
        let until = start + Duration::from_millis(500);
        assert_eq!(quota.closed_until(start), Some(until));
        assert_eq!(quota.closed_until(until), None);
    }
}
