//! How many events are worth having in work at once, found out while they are carried.
//!
//! Nobody has to know how many operations a service carries out at once: with as many in work it is as fast as it gets, and
//! whatever is more waits in line there. So the limit is raised as long as that brings anything, and lowered when it costs
//! nothing. As long as the limit is what bounds the relay, throughput tells it all: by Little's law the time of an event is
//! the limit over the throughput.
//!
//! Events are counted in windows of at least twice as many as may be in work. After each one:
//!
//! | the window | what follows |
//! |---|---|
//! | a sink asked to slow down | the limit is cut by 30 %, and left for eight windows |
//! | fewer events were in work than might have been | nothing: something else was the bound |
//! | the first one after a raise, and throughput grew by a quarter of the raise or more | it is raised again |
//! | the same, and throughput grew by less | back to the limit before, which is left for 4, then 8, … 64 windows |
//! | throughput fell below 70 % at the same limit: events take longer | the limit is lowered by 20 % |
//! | the first one after that, and throughput fell by more than a quarter of the cut | back to the limit before |
//!
//! Raises double the limit until the first one that brought nothing, and add a quarter to it from then on.

use std::time::{Duration, Instant};

/// Finds a limit between 1 and a maximum.
#[derive(Debug)]
pub(super) struct Adaptive {
    limit: usize,
    maximum: usize,
    phase: Phase,
    /// By how much the next raise multiplies the limit.
    raise: f64,
    /// For how many windows the limit is left after the next raise that brings nothing.
    patience: u32,
    window: Option<Window>,
}

/// What the next window is to tell.
#[derive(Clone, Copy, Debug)]
enum Phase {
    /// Whether the limit was worth raising.
    Raised(Reached),
    /// Whether a lower limit does as well.
    Lowered(Reached),
    /// Whether it is as it was, for so many windows.
    Left { windows: u32, rate: f64 },
}

/// What a limit came to.
#[derive(Clone, Copy, Debug)]
struct Reached {
    limit: usize,
    /// Events per second.
    rate: f64,
}

/// What happens from one decision to the next.
#[derive(Clone, Copy, Debug)]
struct Window {
    began: Instant,
    events: u64,
    /// Events that were done while as many were in work as may be.
    at_limit: u64,
    throttled: bool,
}

impl Adaptive {
    pub(super) fn new(maximum: usize) -> Self {
        let limit = FIRST_LIMIT.min(maximum.max(1));
        Self {
            limit,
            maximum: maximum.max(1),
            phase: Phase::Raised(Reached { limit: 1, rate: 0.0 }),
            raise: FIRST_RAISE,
            patience: PATIENCE_MIN,
            window: None,
        }
    }

    /// How many events may be in work.
    pub(super) const fn limit(&self) -> usize {
        self.limit
    }

    /// Nothing was in work for a while, so that what is counted says nothing.
    pub(super) fn idle(&mut self) {
        self.window = None;
    }

    /// A sink asked to slow down.
    pub(super) fn throttled(&mut self) {
        if let Some(window) = &mut self.window {
            window.throttled = true;
        }
    }

    /// An event is done, while as many were in work as may be, or fewer.
    pub(super) fn done(&mut self, now: Instant, at_limit: bool) {
        // The first one begins the window and is not counted: nobody knows when its time began.
        let Some(window) = &mut self.window else {
            self.window = Some(Window { began: now, events: 0, at_limit: 0, throttled: false });
            return;
        };
        window.events += 1;
        window.at_limit += u64::from(at_limit);
        let elapsed = now.saturating_duration_since(window.began);
        if window.events >= EVENTS_MIN.max(2 * self.limit as u64) && elapsed >= WINDOW_MIN {
            let Window { events, at_limit, throttled, .. } = *window;
            self.window = Some(Window { began: now, events: 0, at_limit: 0, throttled: false });
            self.decide(events as f64 / elapsed.as_secs_f64(), at_limit * 2 >= events, throttled);
        }
    }

    /// A window with this rate is over, in which the limit was the bound or was not.
    fn decide(&mut self, rate: f64, was_bound: bool, throttled: bool) {
        if throttled {
            self.set(self.limit as f64 * AFTER_THROTTLING);
            self.raise = LATER_RAISE;
            self.phase = Phase::Left { windows: AFTER_THROTTLING_WINDOWS, rate: 0.0 };
            return;
        }
        if !was_bound {
            return;
        }
        let change =
            |before: Reached| (self.limit as f64 / before.limit as f64 - 1.0, rate / before.rate - 1.0);
        match self.phase {
            Phase::Raised(before) => {
                let (raised, gained) = change(before);
                if gained >= raised * WORTH {
                    self.patience = PATIENCE_MIN;
                    self.raise(rate);
                } else {
                    self.limit = before.limit;
                    self.raise = LATER_RAISE;
                    self.phase = Phase::Left { windows: self.patience, rate: before.rate };
                    self.patience = (self.patience * 2).min(PATIENCE_MAX);
                }
            }
            Phase::Lowered(before) => {
                let (lowered, lost) = change(before);
                if lost < lowered * WORTH {
                    self.limit = before.limit;
                }
                self.phase = Phase::Left { windows: PATIENCE_MIN, rate };
            }
            Phase::Left { rate: usual, .. } if rate < usual * SLOWER => {
                let before = Reached { limit: self.limit, rate };
                self.set(self.limit as f64 * LOWER);
                self.phase = Phase::Lowered(before);
            }
            Phase::Left { windows: 0 | 1, .. } => self.raise(rate),
            Phase::Left { windows, rate: usual } => {
                let usual = if usual > 0.0 { usual + (rate - usual) / 4.0 } else { rate };
                self.phase = Phase::Left { windows: windows - 1, rate: usual };
            }
        }
    }

    fn raise(&mut self, rate: f64) {
        let before = Reached { limit: self.limit, rate };
        self.set((self.limit as f64 * self.raise).max(self.limit as f64 + 1.0));
        self.phase = match self.limit > before.limit {
            true => Phase::Raised(before),
            false => Phase::Left { windows: PATIENCE_MAX, rate },
        };
    }

    fn set(&mut self, limit: f64) {
        // Far below what a double counts exactly.
        self.limit = (limit as usize).clamp(1, self.maximum);
    }
}

/// Where it begins: enough to tell windows apart within a second at some ten milliseconds for an event.
const FIRST_LIMIT: usize = 4;

/// What a raise multiplies the limit by, until one brings nothing and from then on.
const FIRST_RAISE: f64 = 2.0;
const LATER_RAISE: f64 = 1.25;

/// What part of a change of the limit the throughput has to follow by, for the change to be worth it.
const WORTH: f64 = 0.25;

/// Below which part of what it was the throughput is that of a slower service.
const SLOWER: f64 = 0.7;

/// What a lower limit is tried with then.
const LOWER: f64 = 0.8;

/// What is left of the limit when a service asks to slow down, and for how many windows that is left.
const AFTER_THROTTLING: f64 = 0.7;
const AFTER_THROTTLING_WINDOWS: u32 = 8;

/// For how many windows the limit is left after a raise that brought nothing, at first and at most: probing costs latency.
const PATIENCE_MIN: u32 = 4;
const PATIENCE_MAX: u32 = 64;

/// No window has fewer events, or is shorter: chance would decide.
const EVENTS_MIN: u64 = 16;
const WINDOW_MIN: Duration = Duration::from_millis(50);

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use units::Random;

    use super::*;

    /// A service that carries out so many operations at once, each of which takes so long; the others wait in line. It asks to
    /// slow down above a number of operations per second.
    #[derive(Clone, Copy, Debug)]
    struct Service {
        at_once: usize,
        time: f64,
        quota: f64,
    }

    impl Service {
        fn rate(self, limit: usize) -> f64 {
            limit.min(self.at_once) as f64 / self.time
        }
    }

    /// Lets so many windows pass, each with up to `noise` more or less than the service does on average. Returns the mean of
    /// the rates.
    fn carry(
        adaptive: &mut Adaptive,
        service: Service,
        windows: u32,
        noise: f64,
        random: &mut Random,
    ) -> f64 {
        let mut sum = 0.0;
        for _ in 0..windows {
            let rate = service.rate(adaptive.limit());
            sum += rate.min(service.quota);
            let measured = rate.min(service.quota) * (1.0 + noise * (2.0 * random.unit() - 1.0));
            adaptive.decide(measured, true, rate > service.quota);
            assert!((1..=adaptive.maximum).contains(&adaptive.limit()));
        }
        sum / f64::from(windows)
    }

    fn services() -> impl Strategy<Value = Service> {
        (1_usize..400, 1_u32..100).prop_map(|(at_once, ms)| Service {
            at_once,
            time: f64::from(ms) / 1_000.0,
            quota: f64::INFINITY,
        })
    }

    proptest! {
        #[test]
        fn it_finds_what_a_service_carries_and_no_more_than_thrice_that(service in services(), seed: u64) {
            let mut adaptive = Adaptive::new(4_096);
            let mut random = Random::for_concern(seed, 0);
            carry(&mut adaptive, service, 40, 0.03, &mut random);
            let mean = carry(&mut adaptive, service, 100, 0.03, &mut random);
            prop_assert!(mean >= 0.8 * service.rate(usize::MAX), "{mean} of {}", service.rate(usize::MAX));
            prop_assert!(adaptive.limit() <= (3 * service.at_once).max(2 * FIRST_LIMIT), "{adaptive:?}");
        }

        #[test]
        fn it_follows_a_service_that_becomes_slower_or_carries_less(
            before in services(), after in services(), seed: u64,
        ) {
            let mut adaptive = Adaptive::new(4_096);
            let mut random = Random::for_concern(seed, 0);
            carry(&mut adaptive, before, 100, 0.03, &mut random);
            carry(&mut adaptive, after, 400, 0.03, &mut random);
            let mean = carry(&mut adaptive, after, 100, 0.03, &mut random);
            prop_assert!(mean >= 0.6 * after.rate(usize::MAX), "{mean} of {}", after.rate(usize::MAX));
        }

        #[test]
        fn it_keeps_near_a_quota_without_living_beyond_it(service in services(), share in 0.1_f64..0.9, seed: u64) {
            let service = Service { quota: share * service.rate(usize::MAX), ..service };
            // What one event at a time brings is the least there is.
            prop_assume!(service.quota > 2.0 * service.rate(1));
            let mut adaptive = Adaptive::new(4_096);
            let mut random = Random::for_concern(seed, 0);
            carry(&mut adaptive, service, 40, 0.0, &mut random);
            let mean = carry(&mut adaptive, service, 200, 0.0, &mut random);
            prop_assert!(mean >= 0.5 * service.quota, "{mean} of {}", service.quota);
        }

        #[test]
        fn whatever_is_measured_it_stays_within_its_bounds(
            maximum in 1_usize..100,
            windows in prop::collection::vec((0.0_f64..1e6, any::<bool>(), any::<bool>()), 0..200),
        ) {
            let mut adaptive = Adaptive::new(maximum);
            for (rate, was_bound, throttled) in windows {
                adaptive.decide(rate, was_bound, throttled);
                prop_assert!((1..=maximum).contains(&adaptive.limit()));
            }
        }
    }

    #[test]
    fn a_source_that_brings_less_teaches_nothing() {
        let mut adaptive = Adaptive::new(100);
        let limit = adaptive.limit();
        (0..100).for_each(|_| adaptive.decide(10.0, false, false));
        assert_eq!(adaptive.limit(), limit);
    }

    #[test]
    fn windows_are_counted_by_events_and_time_and_begin_again_after_a_pause() {
        let mut adaptive = Adaptive::new(100);
        let begin = Instant::now();
        let at = |ms| begin + Duration::from_millis(ms);
        for ms in 0..=16 {
            adaptive.done(at(ms), true);
        }
        assert_eq!(adaptive.limit(), 4, "too short");
        adaptive.done(at(60), true);
        assert_eq!(adaptive.limit(), 8, "the first one is always worth it");
        adaptive.done(at(61), true);
        adaptive.idle();
        for ms in 100..=200 {
            adaptive.done(at(ms), false);
        }
        assert_eq!(adaptive.limit(), 8, "fewer were in work than may be");
    }
}
