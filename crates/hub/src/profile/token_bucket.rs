//! A quota as a bucket of tokens: it fills at its rate, holds one second's worth, and whoever wants something through
//! takes tokens out.
//!
//! Levels are whole numbers of billionths of a token, so that a nanosecond at a whole rate per second is a whole
//! amount: nothing is rounded, and over any time exactly what the rate says flows in.

use std::time::{Duration, Instant};

/// One quota. It is full at first.
#[derive(Clone, Debug)]
pub(super) struct TokenBucket {
    rate_per_s: u64,
    /// In billionths of a token; below 0 when more was taken than was there.
    level: i128,
    /// When the level was right; `None` as long as nobody asked.
    filled_at: Option<Instant>,
}

impl TokenBucket {
    pub(super) const fn new(rate_per_s: u64) -> Self {
        Self { rate_per_s, level: rate_per_s as i128 * BILLION, filled_at: None }
    }

    /// Lets in what has come up to `now`. A `now` before an earlier one changes nothing.
    pub(super) fn fill(&mut self, now: Instant) {
        let filled_at = self.filled_at.get_or_insert(now);
        let elapsed = now.saturating_duration_since(*filled_at);
        if !elapsed.is_zero() {
            *filled_at = now;
            let inflow = self.rate_per_s as i128 * elapsed.as_nanos().min(LONGEST_ELAPSED) as i128;
            self.level = self.capacity().min(self.level + inflow);
        }
    }

    /// How long after the last `fill` `tokens` are there; `None` where they are. More than fit into the bucket count as
    /// there when it is full, or they would never be.
    pub(super) fn shortage(&self, tokens: u64) -> Option<Duration> {
        self.time_for((tokens as i128 * BILLION).min(self.capacity()) - self.level)
    }

    /// Takes `tokens`, whether they are there or not.
    pub(super) const fn take(&mut self, tokens: u64) {
        self.level -= tokens as i128 * BILLION;
    }

    /// How long after the last `fill` a debt is paid off; `None` where there is none.
    pub(super) fn debt(&self) -> Option<Duration> {
        self.time_for(-self.level)
    }

    /// How long it takes until so much more has come; `None` for nothing.
    fn time_for(&self, missing: i128) -> Option<Duration> {
        let missing = missing.max(0) as u128;
        let nanoseconds = missing.div_ceil(u128::from(self.rate_per_s.max(1)));
        (nanoseconds > 0).then(|| {
            Duration::from_nanos(u64::try_from(nanoseconds).unwrap_or(u64::MAX))
                .min(super::distribution::LONGEST_SAMPLE)
        })
    }

    const fn capacity(&self) -> i128 {
        self.rate_per_s as i128 * BILLION
    }
}

const BILLION: i128 = 1_000_000_000;

/// 1,000 years in nanoseconds: times any rate it is far from the end of the numbers.
const LONGEST_ELAPSED: u128 = 1_000 * 366 * 86_400 * 1_000_000_000;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn has(bucket: &TokenBucket, tokens: u64) -> bool {
        bucket.shortage(tokens).is_none()
    }

    #[test]
    fn a_bucket_holds_one_second_and_fills_at_its_rate() {
        let start = Instant::now();
        let mut bucket = TokenBucket::new(1_000);
        bucket.fill(start);
        assert!(has(&bucket, 1_000) && has(&bucket, u64::MAX));
        bucket.take(1_000);
        assert!(!has(&bucket, 1));
        assert_eq!(bucket.debt(), None);
        bucket.fill(start + Duration::from_micros(999));
        assert!(!has(&bucket, 1));
        bucket.fill(start + Duration::from_millis(1));
        assert!(has(&bucket, 1) && !has(&bucket, 2));
        bucket.fill(start + Duration::from_secs(3_600));
        bucket.take(1_000);
        assert!(!has(&bucket, 1));
    }

    #[test]
    fn a_debt_is_paid_before_anything_else_gets_through() {
        let start = Instant::now();
        let mut bucket = TokenBucket::new(100);
        bucket.fill(start);
        bucket.take(350);
        assert_eq!(bucket.debt(), Some(Duration::from_millis(2_500)));
        bucket.fill(start + Duration::from_millis(2_500));
        assert_eq!(bucket.debt(), None);
        assert!(!has(&bucket, 1));
    }

    proptest! {
        /// Who always takes what is there gets the burst at the beginning and the rate from then on, to the token.
        #[test]
        fn what_a_greedy_client_gets_is_the_closed_form(
            rate in 1_u64..5_000_000,
            steps in prop::collection::vec(1_u64..200_000_000, 1..200),
        ) {
            let start = Instant::now();
            let mut bucket = TokenBucket::new(rate);
            let (mut elapsed, mut taken) = (0_u64, 0_u64);
            for step in steps {
                bucket.fill(start + Duration::from_nanos(elapsed));
                // All that is there, found by halving.
                let (mut low, mut high) = (0, rate);
                while low < high {
                    let middle = low + (high - low).div_ceil(2);
                    if has(&bucket, middle) { low = middle } else { high = middle - 1 }
                }
                bucket.take(low);
                taken += low;
                // Steps are shorter than the second that the bucket holds, so that nothing runs over.
                let inflow = u128::from(rate) * u128::from(elapsed) / 1_000_000_000;
                prop_assert_eq!(u128::from(taken), u128::from(rate) + inflow);
                elapsed += step;
            }
        }

        #[test]
        fn the_order_of_clocks_makes_no_difference(
            rate in 1_u64..1_000_000,
            mut instants in prop::collection::vec(0_u64..900_000_000, 1..50),
        ) {
            let start = Instant::now();
            let at = |nanoseconds| start + Duration::from_nanos(nanoseconds);
            let mut shuffled = TokenBucket::new(rate);
            let mut sorted = shuffled.clone();
            shuffled.fill(start);
            sorted.fill(start);
            shuffled.take(rate);
            sorted.take(rate);
            for instant in &instants { shuffled.fill(at(*instant)); }
            instants.sort_unstable();
            for instant in &instants { sorted.fill(at(*instant)); }
            prop_assert_eq!(shuffled.level, sorted.level);
        }
    }
}
