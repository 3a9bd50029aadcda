//! How often and after what wait an operation is tried again.
//!
//! As in the official SDKs' retry options: a delay that doubles up to a maximum, and a
//! time-out for each single try. Everything is a pure function: the same policy gives the same delays again.

use std::time::Duration;

use units::mix;

/// When to try again, and when to give up.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RetryPolicy {
    /// Tries in all, the first one included; 0 counts as 1.
    pub attempts: u32,
    /// How the delay grows.
    pub mode: RetryMode,
    /// The wait before the first retry.
    pub delay: Duration,
    /// No wait is longer than this, except where a service asks for it.
    pub max_delay: Duration,
    /// How long a single try may take.
    pub try_timeout: Duration,
    /// By what part of itself a delay may be shortened, 0 to 1: tries that failed together then do not return together.
    pub jitter: f64,
    /// What the jitter is drawn from.
    pub seed: u64,
}

/// How the wait grows from try to try.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RetryMode {
    /// Each wait is twice the one before.
    #[default]
    Exponential,
    /// All waits are equal.
    Fixed,
}

impl RetryPolicy {
    /// How long to wait after `failures` failed tries of the operation that `operation` numbers, or `None` when it is
    /// to be given up. `failures` counts from 1.
    #[must_use]
    pub fn delay_after(&self, failures: u32, operation: u64) -> Option<Duration> {
        if failures >= self.attempts {
            return None;
        }
        let doublings = match self.mode {
            RetryMode::Exponential => failures.saturating_sub(1),
            RetryMode::Fixed => 0,
        };
        let factor = 1_u32.checked_shl(doublings).unwrap_or(u32::MAX);
        let full = self.delay.saturating_mul(factor).min(self.max_delay);
        // 53 bits are as many as a double keeps.
        let fraction = (mix(self.seed, operation, u64::from(failures)) >> 11) as f64 / (1_u64 << 53) as f64;
        Some(full.mul_f64(1.0 - self.jitter.clamp(0.0, 1.0) * fraction))
    }
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self {
            attempts: 4,
            mode: RetryMode::Exponential,
            delay: Duration::from_millis(800),
            max_delay: Duration::from_secs(60),
            try_timeout: Duration::from_secs(60),
            jitter: 0.1,
            seed: 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const WITHOUT_JITTER: RetryPolicy = RetryPolicy {
        attempts: 5,
        mode: RetryMode::Exponential,
        delay: Duration::from_millis(100),
        max_delay: Duration::from_millis(500),
        try_timeout: Duration::from_secs(1),
        jitter: 0.0,
        seed: 0,
    };

    #[test]
    fn delays_double_up_to_the_maximum_and_then_end() {
        let delays: Vec<_> = (1..=5).map(|failures| WITHOUT_JITTER.delay_after(failures, 0)).collect();
        let milliseconds = |ms| Some(Duration::from_millis(ms));
        assert_eq!(
            delays,
            [milliseconds(100), milliseconds(200), milliseconds(400), milliseconds(500), None]
        );
    }

    #[test]
    fn fixed_delays_stay() {
        let policy = RetryPolicy { mode: RetryMode::Fixed, ..WITHOUT_JITTER };
        assert!((1..=4).all(|failures| policy.delay_after(failures, 0) == Some(Duration::from_millis(100))));
    }

    #[test]
    fn one_attempt_is_never_repeated() {
        assert_eq!(RetryPolicy { attempts: 1, ..WITHOUT_JITTER }.delay_after(1, 0), None);
    }

    #[test]
    fn a_very_late_retry_does_not_overflow() {
        let policy = RetryPolicy { attempts: u32::MAX, ..WITHOUT_JITTER };
        assert_eq!(policy.delay_after(u32::MAX - 1, 0), Some(policy.max_delay));
    }

    proptest! {
        #[test]
        fn jitter_shortens_within_its_part_and_repeats(
            failures in 1_u32..20, operation: u64, seed: u64, jitter in 0.0..=1.0_f64,
        ) {
            let policy = RetryPolicy { attempts: 20, jitter, seed, ..WITHOUT_JITTER };
            let full = RetryPolicy { attempts: 20, ..WITHOUT_JITTER }.delay_after(failures, 0).expect("within the attempts");
            let delay = policy.delay_after(failures, operation).expect("within the attempts");
            prop_assert!(delay <= full);
            prop_assert!(delay.as_secs_f64() >= full.as_secs_f64() * (1.0 - jitter) - 1e-6);
            prop_assert_eq!(policy.delay_after(failures, operation), Some(delay));
        }
    }
}
