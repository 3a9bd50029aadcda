//! What one history is made of, all of it drawn from a seed.
//!
//! Every kind of fault is switched on or off by a draw of its own before its strength is drawn: a history with two kinds
//! of faults finds what one with all kinds drowns.

use std::time::Duration;

use connect::checkpoint::ConsumerGroup;
use connect::retry::{RetryMode, RetryPolicy};
use connect::source::{BatchOptions, SourceOptions};
use relay::ownership::{OwnershipMode, OwnershipOptions};
use relay::route::Route;
use relay::{CheckpointPolicy, DispatchUnit, Order, RelayOptions};
use units::Random;

use crate::concern;
use crate::defect::Defect;
use crate::refusals::{DeadLetterSink, Refusals};

/// One history, but for the draws that are made while it runs.
#[derive(Clone, Debug)]
pub struct Config {
    /// What everything is drawn from.
    pub seed: u64,
    /// Relays that run at the same time.
    pub instances: u32,
    /// How they share the partitions; without it there is one.
    pub sharing: Option<Sharing>,
    /// Partitions of the source hub.
    pub partitions: u32,
    /// Sinks, each of which gets every event.
    pub sinks: u32,
    /// A sink beside them that stores later, if there is one.
    pub archive: Option<Archive>,
    /// Destinations of each sink; all of them are used.
    pub destinations: u32,
    /// Events that producers append, in all.
    pub events: u32,
    /// The largest message, in bytes.
    pub largest_message: usize,
    /// Over what part of the time with faults the events are appended: 0 is all at once.
    pub spread_events: bool,
    /// How many sends of one process may be unanswered before its sink is busy.
    pub unanswered_max: usize,
    /// The bytes of a send that the sink announces as its limit.
    pub announced_batch_bytes: usize,
    /// The bytes of a send that the hub takes: not more than it announces.
    pub accepted_batch_bytes: usize,
    /// How the sources batch and prefetch.
    pub source: SourceOptions,
    /// What the relays do.
    pub relay: RelayOptions,
    /// How many milliseconds a hub takes to make an append durable, at most; 0 for a hub that keeps nothing on disk,
    /// and never crashes.
    pub commit_ms: u64,
    /// What sinks refuse for good; none where they take everything.
    pub refusals: Option<Refusals>,
    /// What goes wrong.
    pub faults: Faults,
    /// What is broken on purpose, to see that it is found.
    pub defect: Option<Defect>,
}

/// A sink that stores later than it accepts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Archive {
    /// Whether it is the first of all sinks, or the last.
    pub comes_first: bool,
    /// A file with so many events is complete.
    pub file_events: i64,
    /// So is one whose first event has been in it for so many milliseconds.
    pub every_ms: u64,
    /// Storing a file takes up to this many milliseconds.
    pub upload_ms: u64,
    /// So many files are stored at once at most; then it takes nothing more.
    pub uploads_max: usize,
    /// The probability that what was accepted is lost instead.
    pub lost: f64,
}

/// How several relays share the partitions.
#[derive(Clone, Debug, PartialEq)]
pub struct Sharing {
    /// How much a relay claims at once.
    pub mode: OwnershipMode,
    /// How long from one renewal of the claims to the next.
    pub renew_ms: u64,
    /// How long a claim lasts that is not renewed.
    pub expire_ms: u64,
    /// Whether the source hub detaches the links of others when a partition is opened.
    pub epochs: bool,
    /// By how much a relay's clock differs from the store's, at most.
    pub skew_ms: u64,
}

/// What goes wrong until everything heals.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Faults {
    /// Milliseconds after which nothing fails any more.
    pub until_ms: u64,
    /// The usual way through the network takes up to this many milliseconds.
    pub delay_ms: u64,
    /// The probability that it takes much longer.
    pub slow: f64,
    /// How many milliseconds longer, at most.
    pub slow_ms: u64,
    /// The probability that the hub refuses a send for the moment.
    pub refused: f64,
    /// The probability that the hub asks to slow down.
    pub throttled: f64,
    /// The probability that the hub refuses a send for good.
    pub fatal: f64,
    /// The probability that a send gets no outcome: it is lost, or its outcome is.
    pub unanswered: f64,
    /// The probability that the hub stores a send twice.
    pub duplicated: f64,
    /// A call to the store takes up to this many milliseconds, each way.
    pub store_ms: u64,
    /// The probability that a call to the store takes much longer.
    pub store_slow: f64,
    /// How many milliseconds longer, at most.
    pub store_slow_ms: u64,
    /// The probability that a call to the store does nothing and says so.
    pub store_failed: f64,
    /// The probability that a call to the store does what it should and says that it failed.
    pub store_answer_lost: f64,
    /// Kills of a process while it waits.
    pub crashes: u32,
    /// Kills of a process in the midst of what it does.
    pub crashes_amid: u32,
    /// Times that a process stands still for a while.
    pub pauses: u32,
    /// Graceful restarts of a process.
    pub restarts: u32,
    /// Receiving links that are detached.
    pub detached_links: u32,
    /// Connections to the destination that break.
    pub broken_connections: u32,
    /// Crashes of the source hub or the destination hub.
    pub hub_crashes: u32,
    /// Sources or sinks that fail as a whole.
    pub failed_ends: u32,
}

impl Config {
    /// The history of `seed`, without a defect.
    #[must_use]
    pub fn from_seed(seed: u64) -> Self {
        let mut config = Self::draw(seed);
        if config.relay.adapt_events {
            // Nothing is found out from fewer than some dozens.
            config.events *= 2;
        }
        config
    }

    fn draw(seed: u64) -> Self {
        let mut random = Random::for_concern(seed, concern::CONFIG);
        let random = &mut random;
        let partitions = between(random, 1, 4) as u32;
        let destinations = between(random, 1, 4) as u32;
        let durable = random.chance(0.5);
        let batch_events = between(random, 1, 8) as usize;
        let largest_message = between(random, 12, 80) as usize;
        let accepted_batch_bytes = match random.below(3) {
            0 => largest_message + OVERHEAD,
            1 => (largest_message + OVERHEAD) * 3,
            _ => usize::MAX,
        };
        let announced_batch_bytes = match random.below(3) {
            0 => usize::MAX,
            _ => accepted_batch_bytes,
        };
        let sinks = Random::for_concern(seed, concern::DISPATCH).below(4).max(1) as u32;
        Self {
            seed,
            instances: 1,
            sharing: None,
            partitions,
            sinks,
            archive: Self::draw_archive(seed),
            destinations,
            events: between(random, 10, 160) as u32,
            largest_message,
            spread_events: random.chance(0.7),
            unanswered_max: between(random, 1, 12) as usize,
            announced_batch_bytes,
            accepted_batch_bytes,
            source: SourceOptions {
                batch: BatchOptions {
                    max_events: batch_events,
                    max_wait: Duration::from_millis(random.below(20)),
                },
                prefetch: between(random, 1, 24) as usize,
            },
            relay: relay_options(seed, destinations, random),
            commit_ms: if durable { between(random, 1, 40) } else { 0 },
            refusals: Refusals::draw(seed),
            faults: Faults::draw(random, durable),
            defect: None,
        }
    }

    /// An archive in a third of the histories.
    fn draw_archive(seed: u64) -> Option<Archive> {
        let random = &mut Random::for_concern(seed, concern::ARCHIVE - 1);
        let archive = Archive {
            comes_first: random.chance(0.5),
            file_events: between(random, 1, 40).cast_signed(),
            every_ms: between(random, 1, 600),
            upload_ms: [0, 5, 300][random.below(3) as usize],
            uploads_max: match random.below(3) {
                0 => between(random, 1, 3) as usize,
                _ => usize::MAX,
            },
            lost: ratio(random, 0.2),
        };
        random.chance(0.34).then_some(archive)
    }

    /// The history of `seed` in which several relays share the partitions.
    #[must_use]
    pub fn shared_from_seed(seed: u64) -> Self {
        let mut config = Self::from_seed(seed);
        let mut random = Random::for_concern(seed, concern::SHARING);
        let random = &mut random;
        // As long as real claims: they are counted by a clock that goes on while a process is suspended too, and that must
        // never say more than the clock of the history does.
        let renew_ms = between(random, 10_000, 20_000);
        let expire_ms = renew_ms * between(random, 3, 6);
        config.instances = between(random, 2, 3) as u32;
        config.faults.until_ms += between(random, 0, expire_ms * 3);
        config.faults.store_slow_ms += between(random, 0, expire_ms * 2);
        config.sharing = Some(Sharing {
            mode: match random.below(2) {
                0 => OwnershipMode::Balanced,
                _ => OwnershipMode::Greedy,
            },
            renew_ms,
            expire_ms,
            epochs: random.chance(0.5),
            skew_ms: match random.below(2) {
                0 => 0,
                _ => between(random, 0, expire_ms / 4),
            },
        });
        config
    }

    /// The same history with something broken.
    #[must_use]
    pub fn with_defect(self, defect: Defect) -> Self {
        Self { defect: Some(defect), ..self }
    }

    /// Whether several relays share the partitions, each checkpoint written under the condition that nobody else has
    /// written one.
    pub(crate) fn is_shared(&self) -> bool {
        self.sharing.is_some()
    }

    /// The destinations of all sinks, and behind them the place of dead letters if there is one.
    pub(crate) fn all_destinations(&self) -> u32 {
        self.sinks * self.destinations + u32::from(self.dead_letters().is_some())
    }

    /// All sinks, and behind them that of dead letters if there is one.
    pub(crate) fn all_sinks(&self) -> u32 {
        self.sinks + u32::from(self.dead_letters().is_some())
    }

    /// Where events go that a sink refuses for good.
    pub(crate) fn dead_letters(&self) -> Option<DeadLetterSink> {
        self.refusals?.dead_letters
    }

    /// Whether a destination is the place of dead letters.
    pub(crate) fn is_of_dead_letters(&self, destination: u32) -> bool {
        destination == self.sinks * self.destinations
    }

    /// The options of one instance's relay.
    pub(crate) fn relay_options(&self, instance: u32) -> RelayOptions {
        RelayOptions {
            ownership: self.sharing.as_ref().map(|sharing| OwnershipOptions {
                mode: sharing.mode,
                identity: format!("instance {instance}"),
                renew: Duration::from_millis(sharing.renew_ms),
                expire: Duration::from_millis(sharing.expire_ms),
            }),
            ..self.relay.clone()
        }
    }

    /// How long a process may stand still: in half of the cases, where that means anything, beyond its claims.
    pub(crate) fn longest_pause_ms(&self) -> u64 {
        let expire_ms = self.sharing.as_ref().map(|sharing| sharing.expire_ms * 2);
        expire_ms.unwrap_or(3_000)
    }

    /// How long it may take to carry everything once nothing fails any more.
    pub(crate) fn recovery_max(&self) -> Duration {
        let expire_ms = self.sharing.as_ref().map_or(0, |sharing| sharing.expire_ms);
        // Where one event is sent after the other, to one sink after the other, or batch after batch waits for its checkpoint.
        let send_ms = self.faults.delay_ms * 2 + self.commit_ms;
        let one_by_one = match self.relay.dispatch_unit {
            DispatchUnit::Batch => u64::from(self.events) * send_ms,
            DispatchUnit::Event => u64::from(self.events * self.sinks) * send_ms,
        };
        let checkpoints_ms = u64::from(self.events) * self.faults.store_ms * 2;
        // Or each is a file, and they are stored one after the other.
        let files_ms = self.archive.map_or(0, |archive| u64::from(self.events) * archive.upload_ms);
        RECOVERY_MAX
            + Duration::from_millis(expire_ms * 3 + one_by_one + checkpoints_ms + files_ms)
            + self.refusals_max()
    }

    /// How long it may take to find and put aside what sinks refuse for good, one after the other.
    fn refusals_max(&self) -> Duration {
        let Some(refusals) = &self.refusals else {
            return Duration::ZERO;
        };
        let all = (1..=u64::from(self.events)).flat_map(|id| (0..self.sinks).map(move |sink| (sink, id)));
        let refused = all.filter(|&(sink, id)| refusals.refusal(self.seed, sink, id).is_some()).count();
        let retry = &self.relay.retry;
        // Each is tried as often as may be, once it is found among the others of its send.
        let tries = (retry.max_delay + Duration::from_millis(self.faults.delay_ms * 2)) * retry.attempts;
        let finding = Duration::from_millis((self.faults.delay_ms * 2 + self.commit_ms) * 8);
        let putting_aside = (tries + finding) * u32::try_from(refused).unwrap_or(u32::MAX);
        match refusals.dead_letters {
            // Each event may have to wait for one of every other partition that can't be put aside, which is tried to the end.
            Some(place) if place.never_up => {
                let cycle = (retry.max_delay + retry.try_timeout + SILENCE_MAX) * retry.attempts;
                putting_aside + cycle * self.partitions * self.events
            }
            _ => putting_aside,
        }
    }
}

impl Faults {
    fn draw(random: &mut Random, durable: bool) -> Self {
        let mut faults = Self {
            until_ms: between(random, 200, 8_000),
            delay_ms: [0, 1, 5, 40][random.below(4) as usize],
            store_ms: [0, 1, 10, 200][random.below(4) as usize],
            ..Self::default()
        };
        faults.slow = ratio(random, 0.05);
        faults.slow_ms = between(random, 10, 2_000);
        faults.refused = ratio(random, 0.2);
        faults.throttled = ratio(random, 0.1);
        faults.fatal = ratio(random, 0.05);
        faults.unanswered = ratio(random, 0.1);
        faults.duplicated = ratio(random, 0.1);
        faults.store_slow = ratio(random, 0.1);
        faults.store_slow_ms = between(random, 10, 2_000);
        faults.store_failed = ratio(random, 0.3);
        faults.store_answer_lost = ratio(random, 0.2);
        faults.crashes = count(random, 5);
        faults.crashes_amid = count(random, 5);
        faults.pauses = count(random, 4);
        faults.restarts = count(random, 3);
        faults.detached_links = count(random, 6);
        faults.broken_connections = count(random, 6);
        faults.failed_ends = count(random, 2);
        if durable {
            faults.hub_crashes = count(random, 3);
        }
        faults
    }
}

fn relay_options(seed: u64, destinations: u32, random: &mut Random) -> RelayOptions {
    let retry = RetryPolicy {
        attempts: between(random, 1, 4) as u32,
        mode: match random.below(2) {
            0 => RetryMode::Fixed,
            _ => RetryMode::Exponential,
        },
        delay: Duration::from_millis(between(random, 1, 200)),
        max_delay: Duration::from_millis(400),
        // Not below what a send takes while everything is well, or no event would ever pass.
        try_timeout: Duration::from_millis(between(random, 400, 1_500)),
        jitter: 0.1,
        seed,
    };
    let options = RelayOptions {
        route: match random.below(3) {
            0 => Route::Random,
            1 => Route::Key,
            _ => Route::RoundRobin,
        },
        fan_out: destinations,
        seed,
        in_flight: match random.below(2) {
            0 => 1,
            _ => between(random, 2, 4) as usize,
        },
        max_held_bytes: match random.below(3) {
            0 => between(random, 0, 400) as usize,
            _ => usize::MAX,
        },
        retry,
        checkpoint: match random.below(3) {
            0 => CheckpointPolicy::Every(Duration::from_millis(between(random, 1, 1_000))),
            _ => CheckpointPolicy::EachBatch,
        },
        failure_ratio: ratio(random, 0.05),
        restart_after: Duration::from_millis(between(random, 1, 500)),
        stop_timeout: Duration::from_secs(20),
        ..RelayOptions::new(group())
    };
    with_dispatch(options, &mut Random::for_concern(seed, concern::DISPATCH))
}

/// How much is in work at once, drawn from a stream of its own, the first draw of which says how many sinks there are.
fn with_dispatch(options: RelayOptions, random: &mut Random) -> RelayOptions {
    random.below(4);
    let by_event = random.chance(0.5);
    let events_at_once = match random.below(3) {
        0 => 1,
        1 => between(random, 2, 16) as usize,
        _ => usize::MAX,
    };
    RelayOptions {
        dispatch_unit: match by_event {
            true => DispatchUnit::Event,
            false => DispatchUnit::Batch,
        },
        events_at_once,
        adapt_events: by_event && random.chance(0.3),
        order: match random.below(3) {
            0 => Order::Partition,
            1 => Order::Key,
            _ => Order::None,
        },
        sinks_at_once: match random.below(3) {
            0 => 1,
            1 => 2,
            _ => usize::MAX,
        },
        await_checkpoint: options.checkpoint == CheckpointPolicy::EachBatch && random.chance(0.3),
        ..options
    }
}

/// The consumer group of all relays.
pub(crate) fn group() -> ConsumerGroup {
    ConsumerGroup::new("simulated", "source", "$Default")
}

/// A number from `least` to `most`, both possible.
pub(crate) fn between(random: &mut Random, least: u64, most: u64) -> u64 {
    least + random.below(most - least + 1)
}

/// Zero in half of the cases, else up to `most`.
fn ratio(random: &mut Random, most: f64) -> f64 {
    let drawn = random.unit() * most;
    if random.chance(0.5) { drawn } else { 0.0 }
}

/// Zero in half of the cases, else 1 to `most`.
fn count(random: &mut Random, most: u64) -> u32 {
    let drawn = between(random, 1, most) as u32;
    if random.chance(0.5) { drawn } else { 0 }
}

/// What a message takes in a send beyond its own bytes.
pub(crate) const OVERHEAD: usize = 4;

/// So long a connection may be silent before it is found to be broken.
pub(crate) const SILENCE_MAX: Duration = Duration::from_secs(4);

/// A few hundred batches one after the other, each with the longest wait for everything that it takes; see
/// `docs/simulator.md` for what is usual.
const RECOVERY_MAX: Duration = Duration::from_secs(60);
