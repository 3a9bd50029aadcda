//! The engine: one poll loop over source, sinks, store and clock.
//!
//! Each turn of the loop takes what has happened and does what follows from it, in the order in which that frees
//! resources: outcomes first (they complete batches and give credit back), then sends that the sink had been too busy
//! for, then batches that waited for their turn, then new batches, then checkpoints, then what is due by the clock.
//! When a whole turn brings nothing the task sleeps until one of them wakes it.
//!
//! | file | what |
//! |---|---|
//! | `dispatch` | a batch is taken up: route, regroup, send |
//! | `events` | or its events one by one, each from sink to sink |
//! | `adaptive` | how many events at once are worth it |
//! | `outcome` | sends end: acceptance, retry, time-out, failure of the partition |
//! | `outlets` | the sinks: one destination of each for every event |
//! | `lanes` | which group may be sent to a destination, and which waits |
//! | `keys` | groups by partition key, where the sink keeps it |
//! | `poison` | events that are refused for good |
//! | `letters` | those of them that go to a sink of their own |
//! | `transforming` | which sinks get which events, and events of which nobody can say that |
//! | `unreadable` | records of the source that can't be read |
//! | `accepted`, `orphans` | what was accepted of a batch that failed, before that and after |
//! | `gaps` | events that the source no longer has, and sources that number theirs again |
//! | `progress` | checkpoints: writing, coalescing, reading at a start |
//! | `storage` | sinks that store later than they accept |
//! | `sharing` | partitions that are shared with other relays: won, lost, given back |
//! | `releases` | those of them that are asked back: finished, then given back |
//! | `connectivity` | what is wrong at either end: what ends the relay, what is waited for |
//! | `standstill` | partitions that have work and do not move |
//! | `ending`, `error` | how it ends, and why |
//! | `gauges` | what it tells of its state to those who ask |
//! | `traces` | what it tells of single batches |
//! | `partition`, `in_flight`, `sends`, `timers`, `pacer`, `vacancies` | the state that these work on |

use std::collections::{HashMap, VecDeque};
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use connect::checkpoint::{Checkpoint, CheckpointStore, StoreFuture};
use connect::event::PartitionId;
use connect::sink::{BatchPart, SendOutcome, SendToken, SendUnit, Sink, Stored};
use connect::source::{AnySource, SettlingSource, ShutDown, Source, SourceEvent, StartPosition};
use tokio::sync::oneshot;
use tokio::task::JoinSet;
use tokio::time::Sleep;
use units::Random;

use crate::health::troubles::Troubles;
use crate::metrics::{Metrics, MetricsHandle, MetricsRequests, Wait};
use crate::options::{CheckpointPolicy, DispatchUnit, Order, RelayOptions, SettlingOptions};
use crate::regroup::Group;

mod accepted;
mod adaptive;
mod connectivity;
mod dispatch;
mod ending;
mod error;
mod events;
mod gaps;
mod gauges;
mod in_flight;
mod keys;
mod lanes;
mod letters;
mod orphans;
mod outcome;
mod outlets;
mod pacer;
mod partition;
mod poison;
mod progress;
mod releases;
mod sends;
mod sharing;
mod standstill;
mod storage;
mod store;
mod timers;
mod traces;
mod transforming;
mod unreadable;
mod vacancies;

pub use ending::{Ended, Summary};
pub use error::RelayError;

use events::EventDispatch;
use in_flight::Slots;
use lanes::{LANES_OF_KEYS, Lanes};
use orphans::Orphans;
use outlets::Outlets;
use pacer::Pacer;
use partition::{Completes, Partition, State};
use poison::Poison;
use progress::Written;
use sends::Sends;
use sharing::Sharing;
use storage::{Storage, Unstored};
use store::{NoStore, TimedStore};
use timers::{Due, Timers};
use traces::Traces;
use transforming::Transforming;
use vacancies::Vacancies;

/// A pipeline from one source to one or several sinks; see the [crate].
pub struct Relay {
    options: RelayOptions,
    source: AnySource,
    outlets: Outlets,
    store: Arc<dyn CheckpointStore>,

    /// Scratch: the destination of each event of the batch that is taken up, and its groups.
    destinations: Vec<u32>,
    groups: Vec<Group>,
    /// What events go through before they are grouped, if anything.
    transforming: Option<Box<Transforming>>,
    /// Scratch: the sends of the batch that is taken up which are refused without being made.
    held_back: Vec<SendToken>,
    /// Scratch: the sends of the batch that is taken up which fail on purpose.
    failing: Vec<u32>,
    /// Scratch: the parts of other batches that go with a send.
    riders: Vec<BatchPart<'static>>,

    partitions: Vec<Partition>,
    indices: HashMap<PartitionId, usize>,
    slots: Slots,
    sends: Sends,
    lanes: Lanes,
    /// What is in work where events go from sink to sink one by one; none where batches do.
    dispatch: Option<EventDispatch>,
    /// Sends of batches that were given up, which may be accepted all the same.
    orphans: Orphans,
    /// Partitions with parked batches that may have room now.
    runnable: VecDeque<usize>,
    /// Message bytes of all batches that are parked or under way.
    held_bytes: usize,

    /// Partitions whose watermark is to be written.
    unwritten: VecDeque<usize>,
    pacer: Pacer,
    writes: JoinSet<Written>,
    listing: Option<StoreFuture<Vec<Checkpoint>>>,
    /// Whether a partition needs a listing that begins from now on.
    listing_wanted: bool,
    /// Whether the store has ever answered.
    listed: bool,

    /// None where all partitions are this relay's alone.
    sharing: Option<Box<Sharing>>,

    timers: Timers,
    sleep: Pin<Box<Sleep>>,
    /// The instant that `sleep` is set to, until it was reached.
    armed: Option<Instant>,
    /// The time of the present turn.
    now: Instant,
    stop_by: Option<Instant>,
    /// Why the relay stops, if nobody asked it to.
    failure: Option<RelayError>,
    /// Whether the source failed as a whole, so that it is not polled any more.
    failed_source: bool,
    /// The same of one of the sinks.
    failed_sink: bool,
    poison: Poison,
    /// How many partitions were added to the source's, and since when that is known.
    uncarried: u32,
    grown_at: Instant,
    /// Whether the source numbers the events of a partition without a hole.
    contiguous: bool,

    outcomes: Vec<SendOutcome>,
    /// Scratch: what a sink has stored, or lost.
    stored: Vec<Stored>,
    /// What sinks have lost, until it is dealt with.
    unstored: Vec<Unstored>,
    vacancies: Vacancies,
    /// Draws the injected failures.
    failures: Random,
    metrics: Metrics,
    traces: Traces,
    troubles: Troubles,
    /// Whether partitions stood still when somebody asked last.
    stands_still: bool,
    /// When the relay was made.
    began: Instant,
    /// How many batches wait for their turn.
    parked: usize,
    /// What the loop sleeps for, and since when.
    asleep: Option<(Wait, Instant)>,
    requests: MetricsRequests,
    /// Who waits for the relay to begin.
    begun: Option<oneshot::Sender<()>>,
}

impl Relay {
    /// A relay from `source` to all `sinks` whose progress is kept in `store`. Made within a tokio runtime with time,
    /// whose clock it goes by.
    ///
    /// # Errors
    /// When a sink does not take the source's encoding, all have fewer destinations than the fan-out, or the options of ownership are wrong.
    pub fn new(
        options: RelayOptions,
        source: Box<dyn Source>,
        sinks: Vec<Box<dyn Sink>>,
        store: Arc<dyn CheckpointStore>,
    ) -> Result<Self, RelayError> {
        let sharing = match &options.ownership {
            Some(ownership) => {
                ownership.check()?;
                let now = tokio::time::Instant::now().into_std();
                let changes = store.ownership_changes();
                let sharing = Sharing::new(ownership, &options, &source.partitions(), changes, now);
                Some(Box::new(sharing))
            }
            None => None,
        };
        let state = match sharing {
            Some(_) => State::Unowned,
            None => State::Unplaced,
        };
        let outlets = Outlets::new(sinks, source.encoding(), &options)?;
        let under_way = match (outlets.least_unit(), options.dispatch_unit) {
            (SendUnit::Batch, _) | (_, DispatchUnit::Event) => BATCHES_UNDER_WAY,
            // Nothing keeps the order of single sends but that the batches before are done.
            (SendUnit::Event, DispatchUnit::Batch) => options.in_flight.max(1),
        };
        let partition = |id| {
            let mut partition = Partition::new(id, state, Completes::ByCheckpoint, under_way);
            partition.awaits_checkpoint = options.await_checkpoint;
            partition
        };
        let partitions = source.partitions().into_iter().map(partition).collect();
        let source = AnySource::ByCheckpoint(source);
        let mut relay = Self::idle(options, source, outlets, store, partitions)?;
        relay.listing_wanted = sharing.is_none();
        relay.sharing = sharing;
        if let CheckpointPolicy::Every(interval) = relay.options.checkpoint {
            relay.timers.set(relay.now + interval, Due::WriteAll);
        }
        Ok(relay)
    }

    /// A relay from `source` to all `sinks` that settles each message: it is completed once every sink has accepted it,
    /// and abandoned if one does not. Made within a tokio runtime with time, whose clock it goes by.
    ///
    /// # Errors
    /// When a sink does not take the source's encoding, stores later than it accepts, or all have fewer destinations than the fan-out.
    pub fn settling(
        options: SettlingOptions,
        source: Box<dyn SettlingSource>,
        sinks: Vec<Box<dyn Sink>>,
    ) -> Result<Self, RelayError> {
        let partitions = source.partitions().into_iter();
        let partitions =
            partitions.map(|id| Partition::new(id, State::Open, Completes::BySettlement, 1)).collect();
        let store = Arc::new(NoStore);
        let source = AnySource::BySettlement(source);
        let options = options.into();
        let outlets = Outlets::new(sinks, source.encoding(), &options)?;
        if let Some(&sink) = outlets.late().first() {
            return Err(RelayError::StoresLater { index: sink as usize });
        }
        let mut relay = Self::idle(options, source, outlets, store, partitions)?;
        for index in 0..relay.partitions.len() {
            let partition = &relay.partitions[index];
            relay.metrics.count_opening(partition.opening);
            relay.source.open(partition.id, StartPosition::Earliest);
        }
        Ok(relay)
    }

    fn idle(
        options: RelayOptions,
        source: AnySource,
        outlets: Outlets,
        store: Arc<dyn CheckpointStore>,
        mut partitions: Vec<Partition>,
    ) -> Result<Self, RelayError> {
        for partition in &mut partitions {
            partition.storage = Storage::of(outlets.late());
        }
        let options = RelayOptions { in_flight: options.in_flight.max(1), ..options };
        let now = tokio::time::Instant::now();
        let store = Arc::new(TimedStore::new(store, options.retry.try_timeout));
        Ok(Self {
            destinations: Vec::new(),
            groups: Vec::new(),
            transforming: None,
            held_back: Vec::new(),
            failing: Vec::new(),
            riders: Vec::new(),
            indices: partitions.iter().enumerate().map(|(index, partition)| (partition.id, index)).collect(),
            lanes: lanes(&options, &outlets, partitions.len()),
            dispatch: match (options.dispatch_unit, source.settles()) {
                (DispatchUnit::Event, false) => Some(EventDispatch::new(&options)),
                _ => None,
            },
            orphans: Orphans::default(),
            partitions,
            slots: Slots::default(),
            sends: Sends::new(),
            runnable: VecDeque::new(),
            held_bytes: 0,
            unwritten: VecDeque::new(),
            pacer: Pacer::new(store.pace()),
            writes: JoinSet::new(),
            listing: None,
            listing_wanted: false,
            listed: false,
            sharing: None,
            timers: Timers::default(),
            sleep: Box::pin(tokio::time::sleep_until(now)),
            armed: None,
            now: now.into_std(),
            stop_by: None,
            failure: None,
            failed_source: false,
            failed_sink: false,
            poison: Poison::of(&options.poison_events)?,
            uncarried: 0,
            grown_at: now.into_std(),
            contiguous: source.has_contiguous_numbers(),
            outcomes: Vec::new(),
            stored: Vec::new(),
            unstored: Vec::new(),
            vacancies: Vacancies::default(),
            failures: Random::for_concern(options.seed, INJECTED_FAILURES),
            metrics: Metrics::of(options.ownership.as_ref(), outlets.len()),
            traces: Traces::default(),
            troubles: Troubles::default(),
            stands_still: false,
            began: now.into_std(),
            parked: 0,
            asleep: None,
            requests: MetricsRequests::new(),
            begun: None,
            options,
            source,
            outlets,
            store,
        })
    }

    /// Asks for metrics while the relay runs.
    #[must_use]
    pub fn metrics_handle(&self) -> MetricsHandle {
        self.requests.handle()
    }

    /// Carries events until `shutdown` is ready, then takes up no more batches, waits for those under way as long as the
    /// options allow, writes the progress, and tells what was done.
    ///
    /// # Errors
    /// What kept the relay from going on. It has stopped in good order all the same, as far as that was possible; what was
    /// under way and could not be finished is read and sent again by the next relay.
    pub async fn run(mut self, shutdown: impl Future<Output = ()>) -> Result<Summary, RelayError> {
        let mut shutdown = pin!(shutdown);
        let ended = poll_fn(|context| self.poll(context, shutdown.as_mut())).await;
        let Self { source, outlets, store, failed_source, poison, .. } = self;
        // An end that failed cannot be shut down in good order.
        let mut ends: Vec<ShutDown> = outlets.into_healthy_sinks().map(|sink| sink.shut_down()).collect();
        if !failed_source {
            ends.push(source.shut_down());
        }
        if let Poison::Send(letters) = poison {
            ends.extend(letters.into_healthy_sink().map(|sink| sink.shut_down()));
        }
        let left = tokio::time::timeout(LEAVE_WITHIN, store.leave());
        ends.push(Box::pin(async move {
            if !matches!(left.await, Ok(Ok(()))) {
                tracing::warn!("others could not be told that this relay has ended; they will find out");
            }
        }));
        poll_fn(|context| {
            ends.retain_mut(|end| end.as_mut().poll(context).is_pending());
            if ends.is_empty() { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
        ended
    }

    fn poll(
        &mut self,
        context: &mut Context<'_>,
        shutdown: Pin<&mut impl Future<Output = ()>>,
    ) -> Poll<Result<Summary, RelayError>> {
        self.answer_requests(context);
        if self.stop_by.is_none() && shutdown.poll(context).is_ready() {
            self.begin_stop();
        }
        for _ in 0..TURNS_PER_POLL {
            self.now = tokio::time::Instant::now().into_std();
            if let Some((wait, since)) = self.asleep.take() {
                self.metrics.count_wait(wait, self.now.saturating_duration_since(since));
            }
            self.expire_leases();
            let mut progress = self.poll_outcomes(context);
            progress |= self.poll_blocked(context);
            progress |= self.poll_letters(context);
            progress |= self.take_up_events();
            progress |= self.start_parked();
            progress |= self.poll_source(context);
            progress |= self.transmit_ready();
            progress |= self.poll_progress(context);
            progress |= self.poll_sharing(context);
            self.poll_health();
            self.announce_begin();
            if self.failure.is_some() {
                progress |= self.give_up_hopeless();
            }
            progress |= self.flush_unstored();
            progress |= self.poll_clock(context);
            if let Some(ended) = self.ended() {
                if let Some(failure) = self.failure.take() {
                    return Poll::Ready(Err(failure));
                }
                self.update_gauges();
                return Poll::Ready(Ok(Summary { ended, metrics: self.metrics.clone() }));
            }
            if !progress {
                self.asleep = Some((self.waits_for(), self.now));
                return Poll::Pending;
            }
        }
        // Others have their turn, among them the driver of the sockets.
        context.waker().wake_by_ref();
        Poll::Pending
    }

    /// Takes new batches from the source, unless enough is held.
    fn poll_source(&mut self, context: &mut Context<'_>) -> bool {
        if self.failed_source {
            return false;
        }
        self.now = tokio::time::Instant::now().into_std();
        let by_event = self.outlets.least_unit() == SendUnit::Event;
        let mut events = 0;
        for taken in 0..BATCHES_PER_TURN {
            if self.held_bytes >= self.options.max_held_bytes.max(1) {
                return taken > 0;
            }
            let event = match self.source.poll_batch(context) {
                Poll::Pending => return taken > 0,
                Poll::Ready(Err(error)) => {
                    self.fail_source(error);
                    return true;
                }
                Poll::Ready(Ok(event)) => event,
            };
            match event {
                SourceEvent::Batch(batch) => {
                    events += batch.len();
                    self.receive(batch);
                    if by_event && events >= SENDS_PER_TURN {
                        break;
                    }
                }
                SourceEvent::Settled(settled) => self.count_settled(&settled),
                SourceEvent::LocksRenewed { renewed, failed } => {
                    self.metrics.lock_renewals += u64::from(renewed);
                    self.metrics.failed_lock_renewals += u64::from(failed);
                }
                SourceEvent::PartitionClosed { partition, error } => {
                    self.close_by_service(partition, error);
                }
            }
        }
        true
    }

    /// Does what is due, and sees to it that the task is woken for what comes next.
    fn poll_clock(&mut self, context: &mut Context<'_>) -> bool {
        let mut progress = false;
        let gives_up = !self.outlets.end_sends();
        while gives_up && let Some(index) = self.sends.pop_timed_out(self.now) {
            progress = true;
            self.time_out(index);
        }
        while let Some(due) = self.timers.pop_due(self.now) {
            progress = true;
            match due {
                Due::Retry(token) => self.retry(token),
                Due::Reopen(index) => self.reopen(index),
                Due::WriteAgain(index) => self.write_again(index),
                Due::WriteAll => self.write_all(),
                Due::Letter(number) => self.letter_is_due(number),
            }
        }
        let sharing = self.sharing.as_ref();
        let deadlines = [
            self.sends.next_timeout().filter(|_| gives_up),
            self.timers.next(),
            self.stop_by,
            sharing.and_then(|sharing| sharing.next_deadline(self.stop_by.is_some())),
            self.pacer.next(),
            self.troubles.next_deadline(),
        ];
        let Some(next) = deadlines.into_iter().flatten().min() else {
            return progress;
        };
        // Setting a timer costs more than a wake-up that comes too early once in a while: time-outs are set for every
        // send and hardly ever reached.
        if self.armed.is_none_or(|armed| next < armed) {
            self.armed = Some(next);
            self.sleep.as_mut().reset(tokio::time::Instant::from_std(next));
        }
        if self.sleep.as_mut().poll(context).is_ready() {
            self.armed = None;
            progress = true;
        }
        progress
    }
}

impl std::fmt::Debug for Relay {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Relay").field("options", &self.options).finish_non_exhaustive()
    }
}

/// The lanes of so many partitions.
fn lanes(options: &RelayOptions, outlets: &Outlets, partitions: usize) -> Lanes {
    let in_flight = match options.dispatch_unit {
        DispatchUnit::Batch => options.in_flight,
        DispatchUnit::Event => 1,
    };
    let per_destination = lanes_per_destination(options, outlets.any_by_key());
    let mut lanes = Lanes::new(partitions, outlets.destinations(), per_destination, in_flight);
    for &sink in outlets.late() {
        // What it refuses is sent again in parts or put aside, and is not to be overtaken.
        outlets.get(sink).destinations().for_each(|destination| lanes.set_in_flight(destination, 1));
    }
    lanes
}

/// How many lanes a destination has. Keys that share one wait for one another.
fn lanes_per_destination(options: &RelayOptions, by_key: bool) -> u32 {
    match (options.dispatch_unit, options.order) {
        (DispatchUnit::Batch, _) if by_key => LANES_OF_KEYS,
        (DispatchUnit::Event, Order::Key) => {
            // Several for each event in work; odd, since the hash of the key has chosen the destination already.
            let lanes = options.events_at_once.saturating_mul(4).clamp(LANES_OF_KEYS as usize, LANES_MAX) | 1;
            lanes as u32
        }
        _ => 1,
    }
}

/// Lanes of a destination at most: 24 bytes each, for every destination and partition.
const LANES_MAX: usize = 512;

/// So many batches of a partition are under way at most; what comes meanwhile makes the next ones larger. With batches of
/// the usual size that is more than is ever fetched, and small ones have far fewer events than memory for them.
const BATCHES_UNDER_WAY: usize = 32;

/// After this many turns others have theirs. One turn moves up to thousands of events; a yield costs about a microsecond.
const TURNS_PER_POLL: usize = 16;

/// So many batches are taken before their sends are flushed and outcomes are looked at again.
const BATCHES_PER_TURN: usize = 32;

/// So many events are sent one by one before they are flushed: the destination begins with them while the rest is still
/// being taken up, and neither waits for the other. Half of what is worked on at once, where that is much.
const SENDS_PER_TURN: usize = 128;

/// Others find out by themselves that a relay has ended: telling them must not hold up the end.
const LEAVE_WITHIN: Duration = Duration::from_secs(5);

/// The concern of the random numbers that decide on injected failures.
const INJECTED_FAILURES: u64 = 1;

#[cfg(test)]
mod tests;
