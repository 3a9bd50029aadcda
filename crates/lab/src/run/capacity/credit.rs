//! The burst credit of a quota, which carries a rate above the quota until it is used up.
//!
//! Nobody knows a quota or its credit beforehand. But a probe that was throttled shows how long the credit carried its
//! rate. Call that rate `f`, the time `t`, and the quota `q`: the credit is `(f − q) · t` events. So
//!
//! * a **lead** at `f` that is shorter than `t` uses up all but a rest of it: `(f − q) · s` events, where `s` is what of `t` the
//!   lead leaves over;
//! * a rate `r` above the quota uses up that rest in `(f − q) · s / (r − q)`. A rate that is not throttled in a measurement that
//!   lasts `s · (1 + (f/r − 1) / e)` is above the quota by a share of at most `e`, wherever the quota is.
//!
//! The lead ends before the credit does because a throttled client is no longer in the state that a probe is about: it pauses
//! for seconds, and what waited meanwhile comes at once.

use std::time::Duration;

use units::Rate;

use crate::load::Lead;

/// What throttled probes showed of the credit.
#[derive(Debug, Clone)]
pub(super) struct Credit {
    exhaustions: Vec<Exhaustion>,
    /// How much of the time until a refusal a lead takes.
    share: f64,
}

/// How a probe uses up the credit, as far as it is known.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Spending {
    pub(super) lead: Option<Lead>,
    /// The rate at which the credit was seen to end, in events per second.
    rate: f64,
    /// For how long what the lead leaves over would carry that rate, at most.
    rest: Duration,
}

/// A rate, and how long after its start it was seen to be throttled.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Exhaustion {
    rate: f64,
    after: Duration,
}

impl Credit {
    pub(super) const fn new() -> Self {
        Self { exhaustions: Vec::new(), share: LARGEST_SHARE }
    }

    /// A probe that began with the whole credit was throttled.
    pub(super) fn note(&mut self, rate: f64, after: Duration) {
        self.exhaustions.push(Exhaustion { rate, after });
    }

    /// Whether any probe was throttled.
    pub(super) const fn is_known(&self) -> bool {
        !self.exhaustions.is_empty()
    }

    /// The lead of a probe was throttled: the next one takes half as long.
    pub(super) fn overspent(&mut self) {
        self.share /= 2.0;
        if self.share < SMALLEST_SHARE {
            self.share = 0.0;
        }
    }

    /// How a probe of `rate` uses up the credit in the shortest time; `None` if no probe was throttled.
    pub(super) fn spending(&self, rate: f64) -> Option<Spending> {
        let all = self.exhaustions.iter().map(|exhaustion| exhaustion.spending(self.share));
        all.min_by_key(|spending| spending.length(rate, TYPICAL_EXCESS))
    }
}

impl Exhaustion {
    fn spending(self, share: f64) -> Spending {
        // It may have been throttled a little before that was seen.
        let length = self.after.saturating_sub(SEEN_WITHIN).mul_f64(share);
        let lead = Rate::per_second(self.rate).ok().filter(|_| length >= SHORTEST_LEAD);
        let lead = lead.map(|rate| Lead { rate, length });
        let rest = self.after.saturating_sub(lead.map_or(Duration::ZERO, |lead| lead.length));
        Spending { lead, rate: self.rate, rest }
    }
}

impl Spending {
    /// How long `rate` has to be measured to be throttled for certain if it is above the quota by more than the share `excess`.
    pub(super) fn length(self, rate: f64, excess: f64) -> Duration {
        let factor = 1.0 + self.distance(rate) / excess;
        Duration::try_from_secs_f64(self.rest.as_secs_f64() * factor).unwrap_or(Duration::MAX)
    }

    /// Of which share of itself `rate` may be above the quota if it was measured for `seconds` and not throttled.
    pub(super) fn excess(self, rate: f64, seconds: f64) -> f64 {
        let rest = self.rest.as_secs_f64();
        if seconds > rest { (self.distance(rate) * rest / (seconds - rest)).min(1.0) } else { 1.0 }
    }

    /// Whether a first refusal this long after the load's start may have been one of the lead.
    pub(super) fn may_have_met(self, throttled_after: Duration) -> bool {
        self.lead.is_some_and(|lead| throttled_after <= lead.length + SEEN_WITHIN)
    }

    fn distance(self, rate: f64) -> f64 {
        (self.rate / rate - 1.0).max(0.0)
    }
}

/// A refusal is in the next report of a role, and that is looked at in the next tick of the trial, 100 ms each. The rest is for
/// a busy machine.
const SEEN_WITHIN: Duration = Duration::from_millis(250);

/// A lead that ended with the credit would be throttled half of the time.
const LARGEST_SHARE: f64 = 0.9;

/// Below this a lead saves hardly any time.
const SMALLEST_SHARE: f64 = 0.2;

/// A shorter lead is mostly the start of the load.
const SHORTEST_LEAD: Duration = Duration::from_millis(50);

/// The precision of most searches: which of several spendings is shortest hardly depends on it.
const TYPICAL_EXCESS: f64 = 0.05;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_rate_throttled_after_seconds_gives_a_lead_that_ends_before() {
        let mut credit = Credit::new();
        assert_eq!(credit.spending(1_000.0), None);
        credit.note(2_000.0, Duration::from_millis(1_250));
        let spending = credit.spending(1_000.0).unwrap();
        let lead = spending.lead.unwrap();
        assert_eq!((lead.rate.events_per_second(), lead.length), (2_000.0, Duration::from_millis(900)));
        // What is left carries twice the quota for 0.35 s, so the quota and a tenth for 3.5 s.
        assert_eq!(spending.length(1_000.0, 0.1), Duration::from_millis(3_850));
        assert!((spending.excess(1_000.0, 3.85) - 0.1).abs() < 1e-9);
        assert_eq!(spending.excess(1_000.0, 0.2), 1.0);
        assert!(spending.may_have_met(Duration::from_millis(1_100)));
        assert!(!spending.may_have_met(Duration::from_millis(1_200)));
    }

    #[test]
    fn a_lead_that_was_throttled_is_shortened_until_there_is_none() {
        let mut credit = Credit::new();
        credit.note(2_000.0, Duration::from_secs(10));
        let lengths: Vec<_> = std::iter::from_fn(|| {
            let lead = credit.spending(1_000.0)?.lead?;
            credit.overspent();
            Some(lead.length.as_secs())
        })
        .collect();
        assert_eq!(lengths, [8, 4, 2]);
    }

    #[test]
    fn of_several_throttled_rates_the_one_that_shows_most_is_used() {
        let mut credit = Credit::new();
        // A thousand events of credit above 500/s: the first is over before it is seen.
        credit.note(50_000.0, Duration::from_millis(250));
        assert_eq!(credit.spending(500.0).unwrap().lead, None);
        credit.note(1_000.0, Duration::from_millis(2_250));
        let lead = credit.spending(500.0).unwrap().lead.unwrap();
        assert_eq!(lead.rate.events_per_second(), 1_000.0);
    }

    proptest! {
        /// A bucket of any size at any quota, seen as late as it may be: what passes is hardly above the quota, and the lead
        /// never empties the bucket.
        #[test]
        fn what_is_not_throttled_is_above_no_quota_by_more_than_asked(
            quota in 10.0_f64..1e6,
            credit_s in 0.1_f64..100.0,
            above in 1.05_f64..4.0,
            seen_late_ms in 0_u64..250,
            rate in 0.3_f64..1.05,
            excess in 0.01_f64..0.5,
        ) {
            let (tokens, failed) = (quota * credit_s, quota * above);
            let carried_s = tokens / (failed - quota);
            let mut credit = Credit::new();
            credit.note(failed, Duration::from_secs_f64(carried_s) + Duration::from_millis(seen_late_ms));
            let rate = failed * rate.min(1.0);
            let spending = credit.spending(rate).unwrap();
            let in_lead = spending.lead.map_or(0.0, |lead| lead.length.as_secs_f64());
            let left = tokens - (failed - quota) * in_lead;
            prop_assert!(left > 0.0);
            let length = spending.length(rate, excess).as_secs_f64();
            if left >= (rate - quota) * length * 1.000_001 {
                prop_assert!(rate * (1.0 - excess) <= quota * 1.000_001, "{rate} passed");
            }
            if rate <= quota {
                prop_assert!(left > (rate - quota) * length, "{rate} failed");
            }
        }
    }
}
