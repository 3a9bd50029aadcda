//! Many claims at once, no faster than the account accepts them.
//!
//! Each claim is a request of its own, and stands for itself. One that the account is too busy for is sent again with growing, random
//! delays. Refusals also halve the number of requests that are under way at once; when only one is left, all wait. So a throttled account
//! is asked less than before, and claims that it accepts are not held up by the others.

use std::collections::VecDeque;
use std::future::Future;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use futures_util::stream::{FuturesUnordered, StreamExt as _};
use tokio::time::{Instant, sleep_until};

use crate::checkpoint::{Claimed, FailedClaim, Ownership, StoreError};
use crate::retry::{RetryMode, RetryPolicy};

/// The number of requests that an account has accepted at once of late.
#[derive(Debug)]
pub(super) struct Throttle(Mutex<usize>);

impl Throttle {
    pub(super) const fn new() -> Self {
        Self(Mutex::new(AT_ONCE_MAX))
    }

    fn load(&self) -> usize {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn store(&self, at_once: usize) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = at_once;
    }
}

/// A claim that is not decided.
struct Attempt {
    claim: Ownership,
    /// Requests that have failed.
    failures: u32,
    error: Option<StoreError>,
    /// When it may be sent.
    due: Instant,
}

/// The pace of one call.
struct Pace {
    at_once: usize,
    /// How long all wait after a refusal; none while the account answers.
    pause: Duration,
    resume: Instant,
}

/// Writes claims with `write`, which returns `None` for one that is lost. After `within` nothing is sent again.
pub(super) async fn claim_all<F>(
    claims: Vec<Ownership>,
    within: Duration,
    throttle: &Throttle,
    seed: u64,
    write: impl Fn(Ownership) -> F,
) -> Claimed
where
    F: Future<Output = Result<Option<Ownership>, StoreError>>,
{
    let start = Instant::now();
    let deadline = start + within;
    let retry = RetryPolicy { seed, ..RETRY };
    let mut pace = Pace { at_once: throttle.load(), pause: Duration::ZERO, resume: start };
    let attempt = |claim| Attempt { claim, failures: 0, error: None, due: start };
    let mut fresh: VecDeque<_> = claims.into_iter().map(attempt).collect();
    let mut repeated: Vec<Attempt> = Vec::new();
    let mut under_way = FuturesUnordered::new();
    let mut claimed = Claimed::default();
    let mut last_reason = None;
    loop {
        let now = Instant::now();
        if now >= deadline {
            claimed
                .failed
                .extend(repeated.drain(..).map(|attempt| given_up(attempt, last_reason.as_deref())));
            if !pace.pause.is_zero() {
                claimed
                    .failed
                    .extend(fresh.drain(..).map(|attempt| given_up(attempt, last_reason.as_deref())));
            }
        }
        while under_way.len() < pace.at_once && pace.resume <= now {
            let due = repeated.iter().position(|attempt| attempt.due <= now);
            let Some(attempt) = fresh.pop_front().or_else(|| Some(repeated.swap_remove(due?))) else {
                break;
            };
            under_way.push(sent(attempt, &write));
        }
        if under_way.is_empty() && fresh.is_empty() && repeated.is_empty() {
            break;
        }
        // What is to be sent next, if an outcome does not change that.
        let has_room = under_way.len() < pace.at_once;
        let next = match fresh.is_empty() {
            false => Some(pace.resume),
            true => repeated.iter().map(|attempt| attempt.due.max(pace.resume)).min(),
        };
        let wake = next.filter(|_| has_room).map(|next| next.min(deadline.max(now)));
        let (mut attempt, outcome) = tokio::select! {
            Some(decided) = under_way.next() => decided,
            () = sleep_until(wake.unwrap_or(now)), if wake.is_some() => continue,
        };
        match outcome {
            Ok(written) => {
                pace.accepted();
                match (written, attempt.error.take()) {
                    (Some(written), _) => claimed.written.push(written),
                    // An earlier request may be what it is lost to.
                    (None, Some(error)) => {
                        claimed.failed.push(FailedClaim { partition: attempt.claim.partition, error });
                    }
                    (None, None) => {}
                }
            }
            Err(StoreError::Unavailable { reason }) => {
                let now = Instant::now();
                pace.refused(now);
                last_reason = Some(reason.clone());
                attempt.failures += 1;
                attempt.error = Some(StoreError::Unavailable { reason });
                let number = u64::from(attempt.claim.partition.0);
                attempt.due = now + retry.delay_after(attempt.failures, number).unwrap_or(retry.max_delay);
                repeated.push(attempt);
            }
            Err(error) => {
                pace.accepted();
                claimed.failed.push(FailedClaim { partition: attempt.claim.partition, error });
            }
        }
    }
    throttle.store(pace.at_once);
    claimed.written.sort_by_key(|ownership| ownership.partition);
    claimed
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

fn given_up(attempt: Attempt, last_reason: Option<&str>) -> FailedClaim {
    let partition = attempt.claim.partition;
    let reason = || last_reason.unwrap_or("no time was left").to_owned();
    let error = attempt.error.unwrap_or_else(|| StoreError::Unavailable { reason: reason() });
    FailedClaim { partition, error }
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
const AT_ONCE_MAX: usize = 32;

/// The first pause of an account that answers nothing.
const PAUSE_MIN: Duration = Duration::from_millis(50);

/// The longest pause.
const PAUSE_MAX: Duration = Duration::from_secs(2);

/// How a claim is sent again, until there is no time left.
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
                claim_all(claims(1_000), Duration::from_secs(5), &Throttle::new(), seed, write).await;
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
        let throttle = Throttle::new();
        let start = Instant::now();
        let claimed = claim_all(claims(1_000), Duration::from_secs(5), &throttle, 1, &write).await;
        assert_eq!((claimed.written.len(), claimed.failed.len()), (0, 1_000));
        assert!(claimed.failed.iter().all(|claim| matches!(claim.error, StoreError::Unavailable { .. })));
        assert!(start.elapsed() < Duration::from_secs(6), "{:?}", start.elapsed());
        assert!(requests.get() < 100, "{}", requests.get());
        // The next call begins as the last one ended.
        requests.set(0);
        claim_all(claims(1_000), Duration::from_secs(5), &throttle, 1, write).await;
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
        let claimed = claim_all(claims(4), Duration::from_secs(5), &Throttle::new(), 1, write).await;
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
        let claimed = claim_all(claims(1_000), Duration::from_secs(1), &Throttle::new(), 1, write).await;
        assert_eq!((claimed.written.len(), claimed.failed.len()), (1_000, 0));
    }
}
