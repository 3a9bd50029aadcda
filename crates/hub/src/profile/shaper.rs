//! The profile at work: one [`ServiceProfile`] per service, one [`Shaper`] per connection.
//!
//! Whatever is random is drawn from a generator of its own per connection and concern, in the order in which the
//! connection does things. So the n-th connection's m-th send has the same fate and service time in every run with
//! the same seed, whatever other connections do and however long anything takes. What depends on the clock (quotas)
//! is not repeated in that way.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::time::Instant;
use units::{Random, Rate, mix};

use super::capacity::{Capacities, Places};
use super::config::{Operation, ProfileConfig, ProfileError};
use super::counters::{ProfileCounterValues, ProfileCounters};
use super::distribution::{Distribution, LONGEST_SAMPLE};
use super::fate::{Fate, Shaped};
use super::precise_timer::{PreciseTimer, TimerThread};
use super::quota::Quota;

/// The profile of one service, shared by its connections.
#[derive(Debug)]
pub struct ServiceProfile {
    config: ProfileConfig,
    quota: Quota,
    capacities: Capacities,
    counters: Arc<ProfileCounters>,
    /// For requests for blobs: clients spread them over connections as it comes, so the n-th request of the service has the
    /// same fate in every run.
    storage_requests: Mutex<Random>,
    /// Connections so far, by their traffic.
    connections: [AtomicU64; Traffic::COUNT],
    /// Started with the first timer; `None` where there is no thread for it.
    timer_thread: OnceLock<Option<Arc<TimerThread>>>,
}

/// What the profile does to one connection.
#[derive(Debug)]
pub struct Shaper {
    profile: Arc<ServiceProfile>,
    timer_thread: Option<Arc<TimerThread>>,
    seed: u64,
    fates: Random,
    send_times: Random,
    settle_times: Random,
    request_times: Random,
    detachments: Random,
    /// When a receiver is to be detached next; `None` before the first question and where none ever is.
    detach_at: Option<Instant>,
    detach_timer: PreciseTimer,
    /// Whether readers wait for the quota.
    paused: bool,
    delivery_timer: PreciseTimer,
}

/// What a connection carries. Connections are numbered for each kind apart, so that what one of them meets does not depend
/// on how many there are of the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Traffic {
    /// Events and messages.
    Messaging,
    /// Blobs.
    Storage,
}

impl Traffic {
    const COUNT: usize = 2;
}

impl ServiceProfile {
    /// The profile that `config` describes; `None` if it is off.
    ///
    /// # Errors
    /// The configuration contradicts itself.
    pub fn new(config: &ProfileConfig) -> Result<Option<Arc<Self>>, ProfileError> {
        Self::counted_in(config, &Arc::default())
    }

    /// The same; what it does is added to `counters`.
    pub(super) fn counted_in(
        config: &ProfileConfig,
        counters: &Arc<ProfileCounters>,
    ) -> Result<Option<Arc<Self>>, ProfileError> {
        config.check()?;
        if config.is_off() {
            return Ok(None);
        }
        let config = config.resolved();
        Ok(Some(Arc::new(Self {
            quota: Quota::new(&config.effective_quota()?),
            capacities: Capacities::new(&config.capacity),
            counters: Arc::clone(counters),
            storage_requests: Mutex::new(Random::for_concern(config.seed, STORAGE_REQUESTS)),
            config,
            connections: Default::default(),
            timer_thread: OnceLock::new(),
        })))
    }

    /// What the profile does to the next connection with this traffic. To be called once for each, in the order in which
    /// they came.
    #[must_use]
    pub fn shaper(self: &Arc<Self>, traffic: Traffic) -> Shaper {
        Shaper::new(self, traffic, self.timer_thread())
    }

    /// What it did so far.
    #[must_use]
    pub fn counters(&self) -> ProfileCounterValues {
        self.counters.values()
    }

    /// What becomes of a request for blobs, in this container if it is about one.
    #[must_use]
    pub fn storage_request(&self, now: Instant, container: Option<&str>) -> Shaped {
        let time = self.config.service_time.of_container(container);
        let ratio = self.config.failures.blob_ratio.value();
        if time.is_none() && ratio == 0.0 {
            return Shaped::UNTOUCHED;
        }
        let mut random = self.storage_requests.lock().unwrap_or_else(PoisonError::into_inner);
        let fate = if random.chance(ratio) { Fate::Fails } else { Fate::Succeeds };
        let time = sample(time, &mut random);
        // They take their places in the order in which they came.
        let ready_at = time.map(|time| {
            let places = container.and_then(|container| self.capacities.of_container(container));
            self.end_of(now, time, places)
        });
        Shaped { fate, ready_at }
    }

    /// When an operation that came now ends, which waits for one of these places if they are bounded.
    fn end_of(&self, now: Instant, time: Duration, places: Option<&Places>) -> Instant {
        let Some(places) = places else {
            return now + time;
        };
        let (begins, ends) = places.take(now, time);
        if begins > now {
            ProfileCounters::add(&self.counters.queued_operations, 1);
        }
        ends
    }

    /// A timer for what waits.
    pub(crate) fn timer(&self) -> PreciseTimer {
        PreciseTimer::new(self.timer_thread())
    }

    pub(super) const fn config(&self) -> &ProfileConfig {
        &self.config
    }

    /// What wakes tasks at instants finer than the runtime's timers.
    fn timer_thread(&self) -> Option<&Arc<TimerThread>> {
        let start = || {
            TimerThread::start()
                .inspect_err(|error| tracing::warn!(%error, "delays are rounded up to whole milliseconds"))
                .ok()
        };
        self.timer_thread.get_or_init(start).as_ref()
    }

    pub(super) fn count_disconnect(&self) {
        ProfileCounters::add(&self.counters.disconnects, 1);
    }
}

impl Shaper {
    /// On the runtime's time without a clock.
    pub(super) fn new(
        profile: &Arc<ServiceProfile>,
        traffic: Traffic,
        timer_thread: Option<&Arc<TimerThread>>,
    ) -> Self {
        let number = profile.connections[traffic as usize].fetch_add(1, Ordering::Relaxed);
        let seed = mix(profile.config.seed, number, traffic as u64);
        let random = |concern| Random::for_concern(seed, concern as u64);
        Self {
            profile: Arc::clone(profile),
            timer_thread: timer_thread.cloned(),
            seed,
            fates: random(Concern::Fate),
            send_times: random(Concern::SendTime),
            settle_times: random(Concern::SettleTime),
            request_times: random(Concern::RequestTime),
            detachments: random(Concern::Detachment),
            detach_at: None,
            detach_timer: PreciseTimer::new(timer_thread),
            paused: false,
            delivery_timer: PreciseTimer::new(timer_thread),
        }
    }

    /// What becomes of a send of so many bytes to `entity`. `events` counts what is in it; it is called only where a quota needs it.
    #[must_use]
    pub fn send(&mut self, now: Instant, entity: &str, bytes: u64, events: impl FnOnce() -> u64) -> Shaped {
        let time = self.profile.config.service_time.of(Operation::Send, Some(entity));
        let time = sample(time, &mut self.send_times);
        let places = self.profile.capacities.of_entity(entity);
        let ready_at = time.map(|time| self.profile.end_of(now, time, places));
        let fate = self.fate(now, bytes, events);
        self.profile.counters.count(&fate);
        Shaped { fate, ready_at }
    }

    fn fate(&mut self, now: Instant, bytes: u64, events: impl FnOnce() -> u64) -> Fate {
        // Drawn for every send, so that no fate depends on the clock.
        let drawn = Fate::draw(&mut self.fates, self.profile.config.failures.per_send());
        match drawn {
            // What never reaches the store takes nothing of the quota.
            Fate::Fails | Fate::Detached => drawn,
            _ => match self.profile.quota.take_in(now.into_std(), bytes, events) {
                Ok(()) => drawn,
                Err(throttled) => Fate::Throttled(throttled),
            },
        }
    }

    /// When the answer to a request that came just now may leave, which is about `entity` if it is about one: at once where
    /// there is none.
    #[must_use]
    pub fn request(&mut self, entity: Option<&str>) -> Option<Instant> {
        let time = self.profile.config.service_time.of(Operation::Request, entity);
        ready_at(Instant::now(), time, &mut self.request_times)
    }

    /// When the answer to an outcome that came just now, for messages of `entity`, may leave: at once where there is none.
    #[must_use]
    pub fn settle(&mut self, entity: &str) -> Option<Instant> {
        let time = self.profile.config.service_time.of(Operation::Settle, Some(entity));
        ready_at(Instant::now(), time, &mut self.settle_times)
    }

    /// Ready when this connection's readers may be sent something; otherwise the task is woken when it is time to ask
    /// again.
    pub fn poll_deliveries(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        while let Some(until) = self.profile.quota.closed_until(Instant::now().into_std()) {
            if !self.paused {
                self.paused = true;
                ProfileCounters::add(&self.profile.counters.delivery_pauses, 1);
            }
            ready!(self.delivery_timer.poll(cx, until.into()));
        }
        self.paused = false;
        Poll::Ready(())
    }

    /// So much was sent to this connection's readers.
    pub fn delivered(&self, events: u64, bytes: u64) {
        let now = Instant::now().into_std();
        self.profile.quota.give_out(now, events, bytes);
    }

    /// Ready when one of the connection's `receivers` (their count) is to be detached: with which one. Otherwise the task
    /// is woken when it is time to ask again.
    pub fn poll_detachment(&mut self, cx: &mut Context<'_>, receivers: usize) -> Poll<usize> {
        let Some(rate) = self.profile.config.failures.receiver_detach_per_s else {
            return Poll::Pending;
        };
        loop {
            let first = || arrival(Instant::now(), rate, &mut self.detachments);
            let at = *self.detach_at.get_or_insert_with(first);
            ready!(self.detach_timer.poll(cx, at));
            self.detach_at = None;
            if receivers > 0 {
                let which = self.detachments.below(receivers as u64) as usize;
                ProfileCounters::add(&self.profile.counters.detached_links, 1);
                return Poll::Ready(which);
            }
        }
    }

    /// A timer for what waits on this connection.
    pub(crate) fn timer(&self) -> PreciseTimer {
        PreciseTimer::new(self.timer_thread.as_ref())
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
    SettleTime,
}

/// When something that happens at random at `rate` happens next.
pub(super) fn arrival(now: Instant, rate: Rate, random: &mut Random) -> Instant {
    let seconds = random.exponential(1.0 / rate.events_per_second());
    let wait = Duration::try_from_secs_f64(seconds).unwrap_or(NEVER);
    now + wait.min(NEVER)
}

fn ready_at(now: Instant, time: Option<&Distribution>, random: &mut Random) -> Option<Instant> {
    Some(now + sample(time, random)?)
}

/// How long something takes, if it takes any time.
fn sample(time: Option<&Distribution>, random: &mut Random) -> Option<Duration> {
    Some(time?.sample(random).min(LONGEST_SAMPLE))
}

/// The concern of the random numbers for requests for blobs, apart from those of connections.
const STORAGE_REQUESTS: u64 = 0xb10b;

/// Longer than any connection lives: 10 years.
const NEVER: Duration = Duration::from_secs(10 * 366 * 86_400);

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::num::NonZeroU64;

    use super::*;
    use crate::profile::{FailureConfig, QuotaConfig, Ratio, Throttled};

    fn profile(config: &ProfileConfig) -> Arc<ServiceProfile> {
        ServiceProfile::new(config).unwrap().expect("the profile is not off")
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

    fn fates(shaper: &mut Shaper, count: usize) -> Vec<Shaped> {
        let now = Instant::now();
        (0..count).map(|_| shaper.send(now, "orders", 0, || 1)).collect()
    }

    #[test]
    fn a_profile_that_is_off_is_none() {
        let off = ServiceProfile::new(&ProfileConfig::default());
        assert!(off.unwrap().is_none());
    }

    #[tokio::test]
    async fn each_connection_has_fates_of_its_own_which_the_seed_repeats() {
        let (first, second) = (profile(&failing(1)), profile(&failing(1)));
        let mut shapers =
            [Shaper::new(&first, Traffic::Messaging, None), Shaper::new(&first, Traffic::Messaging, None)];
        let [mut a, mut b] =
            [Shaper::new(&second, Traffic::Messaging, None), Shaper::new(&second, Traffic::Messaging, None)];
        // In another order of connections, the second time.
        let of_b = fates(&mut b, 500);
        let of_a = fates(&mut a, 500);
        assert_eq!(fates(&mut shapers[0], 500), of_a);
        assert_eq!(fates(&mut shapers[1], 500), of_b);
        assert_ne!(of_a, of_b);
        let other = profile(&failing(2));
        assert_ne!(fates(&mut Shaper::new(&other, Traffic::Messaging, None), 500), of_a);
        assert_eq!(first.counters(), second.counters());
    }

    #[tokio::test]
    async fn connections_of_other_traffic_change_no_fate() {
        let (alone, mixed) = (profile(&failing(1)), profile(&failing(1)));
        let _blobs = Shaper::new(&mixed, Traffic::Storage, None);
        let mut shapers = [&alone, &mixed].map(|profile| Shaper::new(profile, Traffic::Messaging, None));
        let [of_alone, of_mixed] = shapers.each_mut().map(|shaper| fates(shaper, 500));
        assert_eq!(of_alone, of_mixed);
    }

    #[tokio::test]
    async fn each_fate_comes_as_often_as_its_ratio_says_and_is_counted() {
        let profile = profile(&failing(3));
        let mut shaper = Shaper::new(&profile, Traffic::Messaging, None);
        let fates = fates(&mut shaper, 10_000);
        let counters = profile.counters();
        let accepted = fates.iter().filter(|shaped| shaped.fate == Fate::Succeeds);
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
    async fn the_quota_counts_events_and_bytes_and_says_when_there_is_room_again() {
        let config = ProfileConfig {
            quota: QuotaConfig { ingress_events_per_s: NonZeroU64::new(5), ..QuotaConfig::default() },
            ..ProfileConfig::default()
        };
        let profile = profile(&config);
        let mut shaper = Shaper::new(&profile, Traffic::Messaging, None);
        let now = Instant::now();
        assert_eq!(shaper.send(now, "orders", 18, || 3).fate, Fate::Succeeds);
        // Of five there are two left; the third one flows in within a fifth of a second.
        let throttled = Throttled { events: 3, bytes: 18, retry_after: Duration::from_millis(200) };
        assert_eq!(shaper.send(now, "orders", 18, || 3).fate, Fate::Throttled(throttled));
        let counters = profile.counters();
        let counted = (counters.throttled_sends, counters.throttled_events, counters.throttled_bytes);
        assert_eq!(counted, (1, 3, 18));
        assert_eq!(shaper.send(now + throttled.retry_after, "orders", 18, || 3).fate, Fate::Succeeds);
    }

    #[tokio::test]
    async fn events_are_counted_only_for_a_quota_of_events() {
        let bytes = QuotaConfig {
            ingress_bytes_per_s: Some(units::ByteSize::from_bytes(10)),
            ..QuotaConfig::default()
        };
        for quota in [QuotaConfig::default(), bytes] {
            let mut config = failing(1);
            config.quota = quota;
            let mut shaper = Shaper::new(&profile(&config), Traffic::Messaging, None);
            let _ = shaper.send(Instant::now(), "orders", 10, || panic!("there is no bound for events"));
        }
    }

    #[tokio::test]
    async fn each_entity_and_operation_is_answered_after_its_own_time() {
        let config =
            r#"{"service_time": {"send": "1 ms", "entities": {"slow": {"send": "7 ms", "settle": "5 ms"}}}}"#;
        let profile = profile(&serde_json::from_str(config).unwrap());
        let mut shaper = Shaper::new(&profile, Traffic::Messaging, None);
        let now = Instant::now();
        let after = |milliseconds| Some(now + Duration::from_millis(milliseconds));
        assert_eq!(shaper.send(now, "other", 1, || 1).ready_at, after(1));
        assert_eq!(shaper.send(now, "Slow", 1, || 1).ready_at, after(7));
        assert!(shaper.settle("slow") >= after(5));
        assert_eq!(shaper.settle("other"), None);
        assert_eq!(shaper.request(Some("slow")), None);
    }

    #[tokio::test]
    async fn sends_beyond_the_capacity_wait_for_those_of_every_connection_before_them() {
        let config = r#"{"service_time": {"send": "6 ms", "blob": "4 ms"},
                         "capacity": {"entities": {"topic": 2}, "containers": {"box": 1}}}"#;
        let profile = profile(&serde_json::from_str(config).unwrap());
        let mut shapers = [(); 2].map(|()| Shaper::new(&profile, Traffic::Messaging, None));
        let now = Instant::now();
        let after = |milliseconds| Some(now + Duration::from_millis(milliseconds));
        let ready: Vec<_> =
            (0..5).map(|send: usize| shapers[send % 2].send(now, "Topic", 1, || 1).ready_at).collect();
        assert_eq!(ready, [6, 6, 12, 12, 18].map(after));
        assert_eq!(shapers[0].send(now, "other", 1, || 1).ready_at, after(6), "it has no bound");
        let requests = ["box", "box", "other"].map(|container| profile.storage_request(now, Some(container)));
        assert_eq!(requests.map(|shaped| shaped.ready_at), [4, 8, 4].map(after));
        assert_eq!(profile.counters().queued_operations, 4);
    }

    #[test]
    fn the_same_seed_gives_requests_for_blobs_the_same_times_and_fates() {
        let draw = |seed: u64| {
            let config = format!(
                r#"{{"service_time": {{"blob": {{"mean": "5 ms"}}}}, "failures": {{"blob_ratio": 0.2}}, "seed": {seed}}}"#
            );
            let profile = profile(&serde_json::from_str(&config).unwrap());
            let now = Instant::now();
            let draw = |_| {
                let Shaped { fate, ready_at } = profile.storage_request(now, None);
                (fate, ready_at.map(|at| at - now))
            };
            (0..500).map(draw).collect::<Vec<_>>()
        };
        let drawn = draw(1);
        assert_eq!(drawn, draw(1));
        assert_ne!(drawn, draw(2));
        let failed = drawn.iter().filter(|(fate, _)| *fate == Fate::Fails).count();
        assert!((60..140).contains(&failed), "{failed} of 500");
    }

    #[tokio::test(start_paused = true)]
    async fn readers_get_the_rate_and_one_second_to_begin_with() {
        let config = ProfileConfig {
            quota: QuotaConfig { egress_events_per_s: NonZeroU64::new(1_000), ..QuotaConfig::default() },
            ..ProfileConfig::default()
        };
        let profile = profile(&config);
        let mut shaper = Shaper::new(&profile, Traffic::Messaging, None);
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
            let mut shaper = Shaper::new(&profile, Traffic::Messaging, None);
            let start = Instant::now();
            let mut detachments = Vec::new();
            for _ in 0..20 {
                let which = poll_fn(|cx| shaper.poll_detachment(cx, 7)).await;
                detachments.push((start.elapsed(), which));
            }
            detachments
        }
        let first = detachments().await;
        assert!(first.iter().all(|(_, which)| *which < 7));
        assert_eq!(detachments().await, first);
    }
}
