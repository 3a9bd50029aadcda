//! What the namespace takes and gives per second, over all of its connections.
//!
//! Going in, a message is taken as a whole or refused. Coming out, nothing is refused: readers that find the account
//! overdrawn wait, and what they send is charged afterwards, since only then it is known. So the account may be
//! overdrawn by what readers send at the same moment, and it is always paid back.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use super::config::QuotaConfig;
use super::token_bucket::TokenBucket;

/// Both directions. `None` where there is no bound, so that no lock is taken.
#[derive(Debug)]
pub(super) struct Quota {
    ingress: Option<Mutex<Account>>,
    egress: Option<Mutex<Account>>,
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
            ingress: account(bytes(config.ingress_bytes_per_s), config.ingress_events_per_s),
            egress: account(bytes(config.egress_bytes_per_s), config.egress_events_per_s),
        }
    }

    /// Whether there is a bound for what goes in.
    pub(super) const fn bounds_ingress(&self) -> bool {
        self.ingress.is_some()
    }

    /// Takes a message of so many events and bytes, or nothing of it.
    pub(super) fn take_in(&self, now: Instant, events: u64, bytes: u64) -> bool {
        let Some(ingress) = &self.ingress else {
            return true;
        };
        let mut account = lock(ingress);
        account.fill(now);
        let enough = account.bytes.as_ref().is_none_or(|it| it.has(bytes))
            && account.events.as_ref().is_none_or(|it| it.has(events));
        if enough {
            account.take(events, bytes);
        }
        enough
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
    use std::time::Duration;

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

    #[test]
    fn whichever_of_bytes_and_events_runs_out_first_decides() {
        let start = Instant::now();
        let by_events = quota(1_000_000, 10);
        assert!(by_events.take_in(start, 10, 10));
        assert!(!by_events.take_in(start, 1, 1));
        let by_bytes = quota(1_000, 1_000_000);
        assert!(by_bytes.take_in(start, 1, 1_000));
        assert!(!by_bytes.take_in(start, 1, 1));
    }

    #[test]
    fn a_refused_message_costs_nothing() {
        let start = Instant::now();
        let quota = quota(1_000, 10);
        assert!(!(0..5).any(|_| quota.take_in(start, 11, 1) && quota.take_in(start, 1, 1)));
    }

    #[test]
    fn without_figures_there_is_no_bound_and_no_lock() {
        let open = Quota::new(&QuotaConfig::default());
        assert!(!open.bounds_ingress());
        let now = Instant::now();
        assert!(open.take_in(now, u64::MAX, u64::MAX));
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
                        while quota.take_in(now, 7, 1) {
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
