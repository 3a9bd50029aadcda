//! Many claims at once, no faster than the account accepts them.
//!
//! Each claim is a request of its own, and stands for itself. One that the account is too busy for is sent again with growing, random
//! delays. Refusals also halve the number of requests that are under way at once; when only one is left, all wait. So a throttled account
//! is asked less than before, and claims that it accepts are not held up by the others.

use std::collections::VecDeque;
use std::future::Future;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::stream::{FuturesUnordered, StreamExt as _};
use tokio::time::{Instant, sleep_until};

use crate::checkpoint::{Claimed, FailedClaim, Ownership, StoreError};
use crate::retry::{RetryMode, RetryPolicy};

/// A claim that is not decided.
struct Attempt {
    claim: Ownership,
    /// Requests that have failed.
    failures: u32,
    error: Option<StoreError>,
    /// Instant from which it may be sent.
    due: Instant,
}

/// The pace of one call.
struct Pace {
    at_once: usize,
    /// Wait of all claims after a refusal; none while the account answers.
    pause: Duration,
    resume: Instant,
}

/// Claims on their way to a decision.
struct Claims {
    /// Claims that were not sent yet.
    fresh: VecDeque<Attempt>,
    /// Claims to be sent again.
    repeated: Vec<Attempt>,
    pace: Pace,
    retry: RetryPolicy,
    /// The reason of the last refusal.
    last_reason: Option<String>,
    claimed: Claimed,
}

/// Writes claims with `write`, which returns `None` for one that is lost. After `within` none is sent again. `at_once` is the number of
/// requests to begin with, and then the number that the account accepted in the end. Delays differ by `seed`.
pub(super) async fn claim_all<F>(
    claims: Vec<Ownership>,
    within: Duration,
    at_once: &AtomicUsize,
    seed: u64,
    write: impl Fn(Ownership) -> F,
) -> Claimed
where
    F: Future<Output = Result<Option<Ownership>, StoreError>>,
{
    let start = Instant::now();
    let deadline = start + within;
    let mut claims = Claims::new(claims, at_once.load(Ordering::Relaxed), seed, start);
    let mut under_way = FuturesUnordered::new();
    loop {
        let now = Instant::now();
        if now >= deadline {
            claims.give_up_late();
        }
        while under_way.len() < claims.pace.at_once
            && let Some(attempt) = claims.next(now)
        {
            under_way.push(sent(attempt, &write));
        }
        let wake = match under_way.len() < claims.pace.at_once {
            true => claims.next_due().map(|due| due.min(deadline.max(now))),
            false => None,
        };
        tokio::select! {
            Some((attempt, outcome)) = under_way.next() => claims.decide(attempt, outcome),
            () = sleep_until(wake.unwrap_or(now)), if wake.is_some() => {}
            else => break,
        }
    }
    at_once.store(claims.pace.at_once, Ordering::Relaxed);
    let mut claimed = claims.claimed;
    claimed.written.sort_by_key(|ownership| ownership.partition);
    claimed
}

impl Claims {
    fn new(claims: Vec<Ownership>, at_once: usize, seed: u64, start: Instant) -> Self {
        let attempt = |claim| Attempt { claim, failures: 0, error: None, due: start };
        Self {
            fresh: claims.into_iter().map(attempt).collect(),
            repeated: Vec::new(),
            pace: Pace { at_once, pause: Duration::ZERO, resume: start },
            retry: RetryPolicy { seed, ..RETRY },
            last_reason: None,
            claimed: Claimed::default(),
        }
    }

    /// Gives up what would be sent again, and also the rest while the account answers nothing.
    fn give_up_late(&mut self) {
        let is_refusing = !self.pace.pause.is_zero();
        let fresh = self.fresh.drain(..if is_refusing { self.fresh.len() } else { 0 });
        let reason = self.last_reason.as_deref().unwrap_or("no time was left");
        let failed = self.repeated.drain(..).chain(fresh).map(|attempt| FailedClaim {
            partition: attempt.claim.partition,
            error: attempt.error.unwrap_or_else(|| StoreError::Unavailable { reason: reason.to_owned() }),
        });
        self.claimed.failed.extend(failed);
    }

    /// Takes a claim that can be sent now.
    fn next(&mut self, now: Instant) -> Option<Attempt> {
        if self.pace.resume > now {
            return None;
        }
        self.fresh.pop_front().or_else(|| {
            let due = self.repeated.iter().position(|attempt| attempt.due <= now)?;
            Some(self.repeated.swap_remove(due))
        })
    }

    /// Returns the instant from which a claim can be sent, if one is left.
    fn next_due(&self) -> Option<Instant> {
        let fresh = self.fresh.front();
        fresh.into_iter().chain(&self.repeated).map(|attempt| attempt.due.max(self.pace.resume)).min()
    }

    /// Takes note of the outcome of a request.
    fn decide(&mut self, mut attempt: Attempt, outcome: Result<Option<Ownership>, StoreError>) {
        let partition = attempt.claim.partition;
        match outcome {
            Ok(written) => {
                self.pace.accepted();
                match (written, attempt.error) {
                    (Some(written), _) => self.claimed.written.push(written),
                    // An earlier request may be what it is lost to.
                    (None, Some(error)) => self.claimed.failed.push(FailedClaim { partition, error }),
                    (None, None) => {}
                }
            }
            Err(StoreError::Unavailable { reason }) => {
                let now = Instant::now();
                self.pace.refused(now);
                self.last_reason = Some(reason.clone());
                attempt.failures += 1;
                attempt.error = Some(StoreError::Unavailable { reason });
                let delay = self.retry.delay_after(attempt.failures, u64::from(partition.0));
                attempt.due = now + delay.unwrap_or(self.retry.max_delay);
                self.repeated.push(attempt);
            }
            Err(error) => {
                self.pace.accepted();
                self.claimed.failed.push(FailedClaim { partition, error });
            }
        }
    }
}

async fn sent<F>(
    attempt: Attempt,
    write: &impl Fn(Ownership) -> F,
) -> (Attempt, Result<Option<Ownership>, StoreError>)
where
    F: Future<Output = Result<Option<Ownership>, StoreError>>,
{
    let outcome = write(attempt.claim.clone()).await;
    (attempt, outcome)
}

impl Pace {
    fn accepted(&mut self) {
        self.at_once = (self.at_once + 1).min(AT_ONCE_MAX);
        self.pause = Duration::ZERO;
    }

    fn refused(&mut self, now: Instant) {
        if self.at_once > 1 {
            self.at_once /= 2;
        } else {
            self.pause = (self.pause * 2).clamp(PAUSE_MIN, PAUSE_MAX);
            self.resume = now + self.pause;
        }
    }
}

/// More at once than this would be no faster, and each takes a connection.
pub(super) const AT_ONCE_MAX: usize = 32;

/// The first pause of an account that answers nothing.
const PAUSE_MIN: Duration = Duration::from_millis(50);

/// The longest pause.
const PAUSE_MAX: Duration = Duration::from_secs(2);

/// Delays of claims that are sent again, until there is no time left.
const RETRY: RetryPolicy = RetryPolicy {
    attempts: u32::MAX,
    mode: RetryMode::Exponential,
    delay: Duration::from_millis(100),
    max_delay: Duration::from_secs(2),
    try_timeout: Duration::ZERO,
    jitter: 0.5,
    seed: 0,
};

#[cfg(test)]
mod tests {
    use std::cell::{Cell, RefCell};
    use std::collections::BTreeMap;

    use units::Random;

    use super::*;
    use crate::checkpoint::ConsumerGroup;
    use crate::event::PartitionId;

    fn claims(count: u32) -> Vec<Ownership> {
        let group = ConsumerGroup::new("namespace", "hub", "group");
        (0..count).map(|id| Ownership::new(group.clone(), PartitionId(id), "me")).collect()
    }

    fn busy() -> StoreError {
        StoreError::Unavailable { reason: "busy".to_owned() }
    }

    #[tokio::test(start_paused = true)]
    async fn each_claim_of_a_thousand_is_written_although_every_tenth_request_is_refused() {
        for seed in 0..20 {
            let random = RefCell::new(Random::from_seed(seed));
            let requests = Cell::new(0_u32);
            let (random, requests) = (&random, &requests);
            let write = |claim| async move {
                tokio::time::sleep(Duration::from_millis(2)).await;
                requests.set(requests.get() + 1);
                if random.borrow_mut().chance(0.1) { Err(busy()) } else { Ok(Some(claim)) }
            };
            let claimed =
                claim_all(claims(1_000), Duration::from_secs(5), &AtomicUsize::new(AT_ONCE_MAX), seed, write)
                    .await;
            assert_eq!((claimed.written.len(), claimed.failed.len()), (1_000, 0), "seed {seed}");
            assert!(requests.get() < 1_250, "{}", requests.get());
        }
    }

    #[tokio::test(start_paused = true)]
    async fn an_account_that_answers_nothing_is_asked_less_and_less() {
        let requests = &Cell::new(0);
        let write = |_| async move {
            tokio::time::sleep(Duration::from_millis(2)).await;
            requests.set(requests.get() + 1);
            Err(busy())
        };
        let at_once = AtomicUsize::new(AT_ONCE_MAX);
        let start = Instant::now();
        let claimed = claim_all(claims(1_000), Duration::from_secs(5), &at_once, 1, &write).await;
        assert_eq!((claimed.written.len(), claimed.failed.len()), (0, 1_000));
        assert!(claimed.failed.iter().all(|claim| matches!(claim.error, StoreError::Unavailable { .. })));
        assert!(start.elapsed() < Duration::from_secs(6), "{:?}", start.elapsed());
        assert!(requests.get() < 100, "{}", requests.get());
        // The next call begins as the last one ended.
        requests.set(0);
        claim_all(claims(1_000), Duration::from_secs(5), &at_once, 1, write).await;
        assert!(requests.get() < 12, "{}", requests.get());
    }

    #[tokio::test(start_paused = true)]
    async fn a_claim_that_is_lost_after_a_request_without_an_answer_is_not_known_to_be_lost() {
        let tries = &RefCell::new(BTreeMap::new());
        let write = |claim: Ownership| async move {
            let mut tries = tries.borrow_mut();
            let tried: &mut u32 = tries.entry(claim.partition).or_default();
            *tried += 1;
            match (claim.partition.0, *tried) {
                (0, 1) => Err(busy()),
                (0, _) | (1, _) => Ok(None),
                (2, _) => Err(StoreError::Refused { reason: "never".to_owned() }),
                (_, _) => Ok(Some(claim)),
            }
        };
        let claimed =
            claim_all(claims(4), Duration::from_secs(5), &AtomicUsize::new(AT_ONCE_MAX), 1, write).await;
        let written: Vec<_> = claimed.written.iter().map(|claim| claim.partition.0).collect();
        let mut failed: Vec<_> = claimed.failed.iter().map(|claim| claim.partition.0).collect();
        failed.sort_unstable();
        assert_eq!((written, failed), (vec![3], vec![0, 2]));
    }

    #[tokio::test(start_paused = true)]
    async fn slow_claims_are_all_tried_however_little_time_there_is() {
        let write = |claim| async move {
            tokio::time::sleep(Duration::from_millis(80)).await;
            Ok(Some(claim))
        };
        let claimed =
            claim_all(claims(1_000), Duration::from_secs(1), &AtomicUsize::new(AT_ONCE_MAX), 1, write).await;
        assert_eq!((claimed.written.len(), claimed.failed.len()), (1_000, 0));
    }
}
