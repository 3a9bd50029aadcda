//! The profile at work: one [`ServiceProfile`] per service, one [`Shaper`] per connection.
//!
//! Whatever is random is drawn from a generator of its own per connection and concern, in the order in which the
//! connection does things. So the n-th connection's m-th send has the same fate and service time in every run with
//! the same seed, whatever other connections do and however long anything takes. What depends on the clock (quotas)
//! is not repeated in that way.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use amqp::message::{FORMAT_BATCH, SectionKind, Sections};
use amqp::performative::{Error, ErrorCondition};
use tokio::time::Instant;
use units::{Random, Rate, mix};

use super::alarm::{Alarm, Clock};
use super::config::{ProfileConfig, ProfileError};
use super::counters::{ProfileCounterValues, ProfileCounters};
use super::distribution::{Distribution, LONGEST_SAMPLE};
use super::quota::Quota;

/// The profile of one service, shared by its connections.
#[derive(Debug)]
pub struct ServiceProfile {
    config: ProfileConfig,
    /// How clients know the namespace; stands in refusals.
    host: String,
    quota: Quota,
    counters: ProfileCounters,
    /// Connections so far.
    connections: AtomicU64,
    /// Started with the first alarm; `None` where there is no thread for it.
    clock: OnceLock<Option<Arc<Clock>>>,
}

/// What the profile does to one connection.
#[derive(Debug)]
pub struct Shaper {
    profile: Arc<ServiceProfile>,
    clock: Option<Arc<Clock>>,
    seed: u64,
    fates: Random,
    send_times: Random,
    request_times: Random,
    detachments: Random,
    /// When a receiver is to be detached next; `None` before the first question and where none ever is.
    detach_at: Option<Instant>,
    detach_alarm: Alarm,
    /// Whether readers wait for the quota.
    paused: bool,
    delivery_alarm: Alarm,
}

/// What is to become of a message that a client sent. To be asked for before the store is touched.
#[derive(Debug, Clone, PartialEq)]
pub enum Admission {
    /// Store it; the outcome is what the store says, not to leave before `ready_at`.
    Accept {
        /// The earliest instant; at once where there is none.
        ready_at: Option<Instant>,
    },
    /// Do not store it; reject it with `error`, not before `ready_at`.
    Refuse {
        /// Why.
        error: Error,
        /// The earliest instant; at once where there is none.
        ready_at: Option<Instant>,
    },
    /// The quota is used up: do not store it, count it as throttled, reject it with `error`, not before `ready_at`.
    Throttle {
        /// Why.
        error: Error,
        /// The earliest instant; at once where there is none.
        ready_at: Option<Instant>,
    },
    /// Store it, and reject it with `error` although it is stored, not before `ready_at`.
    AcceptWithoutAcknowledgement {
        /// What the client is told.
        error: Error,
        /// The earliest instant; at once where there is none.
        ready_at: Option<Instant>,
    },
    /// Do not store it; detach its link with `error`, giving no outcome to what has none yet.
    Detach {
        /// What the client is told.
        error: Error,
    },
    /// Store it; then break the connection without another word.
    Disconnect,
}

impl ServiceProfile {
    /// The profile that `config` describes for the namespace that clients know as `host`; `None` if it is off.
    ///
    /// # Errors
    /// The configuration contradicts itself.
    pub fn new(config: &ProfileConfig, host: &str) -> Result<Option<Arc<Self>>, ProfileError> {
        config.check()?;
        if config.is_off() {
            return Ok(None);
        }
        Ok(Some(Arc::new(Self {
            quota: Quota::new(&config.effective_quota()?),
            config: config.clone(),
            host: host.to_owned(),
            counters: ProfileCounters::default(),
            connections: AtomicU64::new(0),
            clock: OnceLock::new(),
        })))
    }

    /// What the profile does to the next connection. To be called once for each, in the order in which they came.
    #[must_use]
    pub fn shaper(self: &Arc<Self>) -> Shaper {
        Shaper::new(self, self.clock())
    }

    /// What it did so far.
    #[must_use]
    pub fn counters(&self) -> ProfileCounterValues {
        self.counters.values()
    }

    pub(super) const fn config(&self) -> &ProfileConfig {
        &self.config
    }

    /// What wakes tasks at instants finer than the runtime's timers.
    fn clock(&self) -> Option<&Arc<Clock>> {
        let start = || {
            Clock::start()
                .inspect_err(|error| tracing::warn!(%error, "delays are rounded up to whole milliseconds"))
                .ok()
        };
        self.clock.get_or_init(start).as_ref()
    }

    pub(super) fn count_disconnect(&self) {
        ProfileCounters::add(&self.counters.disconnects, 1);
    }
}

impl Shaper {
    /// On the runtime's time without a clock.
    pub(super) fn new(profile: &Arc<ServiceProfile>, clock: Option<&Arc<Clock>>) -> Self {
        let number = profile.connections.fetch_add(1, Ordering::Relaxed);
        let seed = mix(profile.config.seed, number, 0);
        let random = |concern| Random::for_concern(seed, concern as u64);
        Self {
            profile: Arc::clone(profile),
            clock: clock.cloned(),
            seed,
            fates: random(Concern::Fate),
            send_times: random(Concern::SendTime),
            request_times: random(Concern::RequestTime),
            detachments: random(Concern::Detachment),
            detach_at: None,
            detach_alarm: Alarm::new(clock),
            paused: false,
            delivery_alarm: Alarm::new(clock),
        }
    }

    /// What is to become of a message of this `format`, complete and encoded.
    #[must_use]
    pub fn publish(&mut self, now: Instant, format: u32, message: &[u8]) -> Admission {
        let profile = &*self.profile;
        let time = &profile.config.service_time.send;
        let ready_at = ready_at(now, time.as_ref(), &mut self.send_times);
        // Drawn for every send, so that no fate depends on the clock.
        let fate = Fate::draw(&mut self.fates, profile.config.failures.per_send());
        let counters = &profile.counters;
        match fate {
            Fate::Fail => {
                ProfileCounters::add(&counters.failed_sends, 1);
                let error = injected(
                    ErrorCondition::INTERNAL_ERROR,
                    "The service was unable to process the request; please retry the operation.",
                );
                return Admission::Refuse { error, ready_at };
            }
            Fate::Detach => {
                ProfileCounters::add(&counters.detached_links, 1);
                return Admission::Detach { error: detach_forced() };
            }
            Fate::Succeed | Fate::LoseAcknowledgement | Fate::Disconnect => {}
        }
        if profile.quota.bounds_ingress() {
            let (events, bytes) = (event_count(format, message), message.len() as u64);
            if !profile.quota.take_in(now.into_std(), events, bytes) {
                ProfileCounters::add(&counters.throttled_sends, 1);
                ProfileCounters::add(&counters.throttled_events, events);
                ProfileCounters::add(&counters.throttled_bytes, bytes);
                let error = throttled(&profile.host);
                return Admission::Throttle { error, ready_at };
            }
        }
        match fate {
            Fate::LoseAcknowledgement => {
                ProfileCounters::add(&counters.unacknowledged_sends, 1);
                let error = injected(
                    ErrorCondition::TIMEOUT,
                    "The operation did not complete within the allotted time.",
                );
                Admission::AcceptWithoutAcknowledgement { error, ready_at }
            }
            Fate::Disconnect => {
                profile.count_disconnect();
                Admission::Disconnect
            }
            Fate::Succeed | Fate::Fail | Fate::Detach => Admission::Accept { ready_at },
        }
    }

    /// When the answer to a request (`$management`, `$cbs`) that came just now may leave: at once where there is none.
    #[must_use]
    pub fn request(&mut self) -> Option<Instant> {
        let time = &self.profile.config.service_time.request;
        ready_at(Instant::now(), time.as_ref(), &mut self.request_times)
    }

    /// Ready when this connection's readers may be sent something; otherwise the task is woken when it is time to ask
    /// again.
    pub fn poll_deliveries(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        while let Some(until) = self.profile.quota.closed_until(Instant::now().into_std()) {
            if !self.paused {
                self.paused = true;
                ProfileCounters::add(&self.profile.counters.delivery_pauses, 1);
            }
            ready!(self.delivery_alarm.poll(cx, until.into()));
        }
        self.paused = false;
        Poll::Ready(())
    }

    /// So much was sent to this connection's readers.
    pub fn delivered(&self, events: u64, bytes: u64) {
        let now = Instant::now().into_std();
        self.profile.quota.give_out(now, events, bytes);
    }

    /// Ready when one of the connection's `receivers` (their count) is to be detached: which one, and what the client
    /// is told. Otherwise the task is woken when it is time to ask again.
    pub fn poll_detachment(&mut self, cx: &mut Context<'_>, receivers: usize) -> Poll<(usize, Error)> {
        let Some(rate) = self.profile.config.failures.receiver_detach_per_s else {
            return Poll::Pending;
        };
        loop {
            let first = || arrival(Instant::now(), rate, &mut self.detachments);
            let at = *self.detach_at.get_or_insert_with(first);
            ready!(self.detach_alarm.poll(cx, at));
            self.detach_at = None;
            if receivers > 0 {
                let which = self.detachments.below(receivers as u64) as usize;
                ProfileCounters::add(&self.profile.counters.detached_links, 1);
                return Poll::Ready((which, detach_forced()));
            }
        }
    }

    /// An alarm for what waits on this connection.
    pub(crate) fn alarm(&self) -> Alarm {
        Alarm::new(self.clock.as_ref())
    }

    pub(super) const fn profile(&self) -> &Arc<ServiceProfile> {
        &self.profile
    }

    /// A generator for a concern of this connection that is drawn from elsewhere.
    pub(super) fn random(&self, concern: Concern) -> Random {
        Random::for_concern(self.seed, concern as u64)
    }
}

/// What randomness is drawn for; each has a generator of its own.
#[derive(Debug, Clone, Copy)]
pub(super) enum Concern {
    Fate,
    SendTime,
    RequestTime,
    Detachment,
    Arriving,
    Leaving,
    Setup,
    Breakage,
}

/// What becomes of one send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    Fail,
    LoseAcknowledgement,
    Detach,
    Disconnect,
    Succeed,
}

impl Fate {
    /// One draw decides: the ratios lie side by side between 0 and 1.
    fn draw(random: &mut Random, ratios: [f64; 4]) -> Self {
        let mut left = random.unit();
        let fates = [Self::Fail, Self::LoseAcknowledgement, Self::Detach, Self::Disconnect];
        for (fate, ratio) in fates.into_iter().zip(ratios) {
            if left < ratio {
                return fate;
            }
            left -= ratio;
        }
        Self::Succeed
    }
}

/// When something that happens at random at `rate` happens next.
pub(super) fn arrival(now: Instant, rate: Rate, random: &mut Random) -> Instant {
    let seconds = random.exponential(1.0 / rate.events_per_second());
    let wait = Duration::try_from_secs_f64(seconds).unwrap_or(NEVER);
    now + wait.min(NEVER)
}

fn ready_at(now: Instant, time: Option<&Distribution>, random: &mut Random) -> Option<Instant> {
    Some(now + time?.sample(random).min(LONGEST_SAMPLE))
}

/// How many events a message holds. One that can't be read counts as one; the store will refuse it.
fn event_count(format: u32, message: &[u8]) -> u64 {
    if format != FORMAT_BATCH {
        return 1;
    }
    let sections = Sections::new(message).map_while(Result::ok);
    let events = sections.filter(|section| section.kind == SectionKind::Data);
    (events.count() as u64).max(1)
}

/// What the service says when the throughput units are used up. Clients look for the condition, people for the code.
#[cold]
fn throttled(host: &str) -> Error {
    let description = format!(
        "The request was terminated because the namespace {host} is being throttled. Error code : 50002. \
         Please wait 4 seconds and try again."
    );
    Error::new(ErrorCondition::SERVER_BUSY, description)
}

#[cold]
fn detach_forced() -> Error {
    injected(ErrorCondition::DETACH_FORCED, "The link is detached by the service.")
}

/// A failure on purpose says so, lest someone look for its cause.
#[cold]
fn injected(condition: ErrorCondition, text: &str) -> Error {
    Error::new(condition, format!("{text} (Injected by the service profile.)"))
}

/// Longer than any connection lives: 10 years.
const NEVER: Duration = Duration::from_secs(10 * 366 * 86_400);

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::num::NonZeroU64;

    use super::*;
    use crate::profile::{FailureConfig, QuotaConfig, Ratio};

    fn profile(config: &ProfileConfig) -> Arc<ServiceProfile> {
        ServiceProfile::new(config, "localhost").unwrap().expect("the profile is not off")
    }

    fn failing(seed: u64) -> ProfileConfig {
        let ratio = |ratio| Ratio::new(ratio).unwrap();
        ProfileConfig {
            failures: FailureConfig {
                send_ratio: ratio(0.1),
                acknowledgement_ratio: ratio(0.1),
                detach_ratio: ratio(0.1),
                disconnect_ratio: ratio(0.1),
                receiver_detach_per_s: Some(Rate::per_second(10.0).unwrap()),
                ..FailureConfig::default()
            },
            seed,
            ..ProfileConfig::default()
        }
    }

    fn fates(shaper: &mut Shaper, count: usize) -> Vec<Admission> {
        let now = Instant::now();
        (0..count).map(|_| shaper.publish(now, 0, b"")).collect()
    }

    #[test]
    fn a_profile_that_is_off_is_none() {
        let off = ServiceProfile::new(&ProfileConfig::default(), "localhost");
        assert!(off.unwrap().is_none());
    }

    #[tokio::test]
    async fn each_connection_has_fates_of_its_own_which_the_seed_repeats() {
        let (first, second) = (profile(&failing(1)), profile(&failing(1)));
        let mut shapers = [Shaper::new(&first, None), Shaper::new(&first, None)];
        let [mut a, mut b] = [Shaper::new(&second, None), Shaper::new(&second, None)];
        // In another order of connections, the second time.
        let of_b = fates(&mut b, 500);
        let of_a = fates(&mut a, 500);
        assert_eq!(fates(&mut shapers[0], 500), of_a);
        assert_eq!(fates(&mut shapers[1], 500), of_b);
        assert_ne!(of_a, of_b);
        let other = profile(&failing(2));
        assert_ne!(fates(&mut Shaper::new(&other, None), 500), of_a);
        assert_eq!(first.counters(), second.counters());
    }

    #[tokio::test]
    async fn each_fate_comes_as_often_as_its_ratio_says_and_is_counted() {
        let profile = profile(&failing(3));
        let mut shaper = Shaper::new(&profile, None);
        let fates = fates(&mut shaper, 10_000);
        let counters = profile.counters();
        let accepted = fates.iter().filter(|fate| matches!(fate, Admission::Accept { .. }));
        let counts = [
            counters.failed_sends,
            counters.unacknowledged_sends,
            counters.detached_links,
            counters.disconnects,
        ];
        assert_eq!(counts.iter().sum::<u64>() + accepted.count() as u64, 10_000);
        // Six standard deviations of a binomial count.
        assert!(counts.iter().all(|count| count.abs_diff(1_000) < 180), "{counts:?}");
    }

    #[tokio::test]
    async fn the_quota_counts_the_events_in_a_batch_and_the_bytes_of_its_message() {
        let config = ProfileConfig {
            quota: QuotaConfig { ingress_events_per_s: NonZeroU64::new(5), ..QuotaConfig::default() },
            ..ProfileConfig::default()
        };
        let profile = profile(&config);
        let mut shaper = Shaper::new(&profile, None);
        let now = Instant::now();
        let three = b"\x00\x53\x75\xa0\x01a\x00\x53\x75\xa0\x01b\x00\x53\x75\xa0\x01c";
        let first = shaper.publish(now, FORMAT_BATCH, three);
        assert_eq!(first, Admission::Accept { ready_at: None });
        let Admission::Throttle { error, .. } = shaper.publish(now, FORMAT_BATCH, three) else {
            panic!("there is no room for six")
        };
        assert_eq!(error.condition, ErrorCondition::SERVER_BUSY);
        let counters = profile.counters();
        let throttled = (counters.throttled_sends, counters.throttled_events, counters.throttled_bytes);
        assert_eq!(throttled, (1, 3, 18));
        // What is no batch is one event, whatever it looks like.
        for _ in 0..2 {
            let one = shaper.publish(now, 0, three);
            assert_eq!(one, Admission::Accept { ready_at: None });
        }
    }

    #[tokio::test(start_paused = true)]
    async fn readers_get_the_rate_and_one_second_to_begin_with() {
        let config = ProfileConfig {
            quota: QuotaConfig { egress_events_per_s: NonZeroU64::new(1_000), ..QuotaConfig::default() },
            ..ProfileConfig::default()
        };
        let profile = profile(&config);
        let mut shaper = Shaper::new(&profile, None);
        let start = Instant::now();
        for _ in 0..60 {
            poll_fn(|cx| shaper.poll_deliveries(cx)).await;
            shaper.delivered(100, 1);
        }
        // 5,900 had gone out when the last hundred were allowed: 1,000 that were there, and 4,900 at the rate.
        assert_eq!(start.elapsed(), Duration::from_millis(4_900));
        // Ten found tokens, the next one nothing owed; each of the others had to wait.
        assert_eq!(profile.counters().delivery_pauses, 49);
    }

    #[tokio::test(start_paused = true)]
    async fn receivers_are_detached_at_the_same_instants_with_the_same_seed() {
        async fn detachments() -> Vec<(Duration, usize)> {
            let profile = profile(&failing(5));
            let mut shaper = Shaper::new(&profile, None);
            let start = Instant::now();
            let mut detachments = Vec::new();
            for _ in 0..20 {
                let (which, error) = poll_fn(|cx| shaper.poll_detachment(cx, 7)).await;
                assert_eq!(error.condition, ErrorCondition::DETACH_FORCED);
                detachments.push((start.elapsed(), which));
            }
            detachments
        }
        let first = detachments().await;
        assert!(first.iter().all(|(_, which)| *which < 7));
        assert_eq!(detachments().await, first);
    }
}
