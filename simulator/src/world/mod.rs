//! Everything around the relays: hubs, network, store, producers, faults, and the clock's list of what comes next.
//!
//! | file | what |
//! |---|---|
//! | `receiving` | producers, the source hub, links from it to the relays |
//! | `sending` | connections to the destination hub and what it does with a send |
//! | `storing` | the checkpoint store and the calls to it |
//! | `faults` | what goes wrong when, and how it heals |
//!
//! Whatever travels is an [`Event`] with the millisecond at which it arrives. Events of one instant happen in the order in
//! which they were made, so nothing depends on addresses, threads or hashes.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use connect::sink::{SendError, SendToken};
use partition_log::BlockPool;
use relay::metrics::Metrics;
use tokio::time::{Duration, Instant};
use units::Random;

use crate::audit::{Attempt, Audit, Violation};
use crate::concern;
use crate::config::{Config, between};
use crate::defect::Defect;
use crate::durable_log::{DurableLog, Stored};
use crate::history::Report;
use crate::process::Process;
use crate::trace::{Events, Trace, What};

mod faults;
mod receiving;
mod sending;
mod storing;

use faults::Fault;
use receiving::Link;
use sending::Sending;
use storing::Store;
pub(crate) use storing::{Answer, Request};

/// The world, shared by all that is simulated. One thread uses it; the lock is there because futures of a store may be
/// sent to other threads.
#[derive(Clone)]
pub(crate) struct SharedWorld(Arc<Mutex<World>>);

pub(crate) struct World {
    config: Arc<Config>,
    start: Instant,
    events: BTreeMap<(u64, u64), Event>,
    /// Numbers everything that needs a number of its own.
    numbers: u64,
    random: Streams,
    processes: Vec<Process>,
    /// The newest life of each instance.
    lives: Vec<Option<u32>>,
    /// Instances that are to be started by whoever drives them.
    starts: Vec<u32>,
    source: Vec<Topic>,
    destination: Vec<Topic>,
    source_up: bool,
    destination_up: bool,
    dead_letters_up: bool,
    links: BTreeMap<u64, Link>,
    sends: BTreeMap<u64, Sending>,
    store: Store,
    healed: bool,
    /// The newest number when everything healed.
    healed_at: u64,
    /// How many appends by producers are to come.
    appends_left: u32,
    /// Identities that were given to events.
    ids: u64,
    audit: Audit,
    trace: Trace,
    violation: Option<Violation>,
    crashes: u64,
    refused_writes: u64,
}

/// One partition of a hub.
#[derive(Debug)]
struct Topic {
    log: DurableLog,
    /// Up to where a commit is under way, if one is.
    committing: Option<u64>,
    /// Counts the crashes, so that a commit from before one does nothing.
    crashes: u32,
    /// Sends whose records end at a number, in order: they are acknowledged once that is committed.
    waiting: Vec<(u64, u64)>,
}

/// A stream of random numbers for each concern.
#[derive(Debug)]
struct Streams {
    network: Random,
    hub: Random,
    store: Random,
    load: Random,
    faults: Random,
}

/// Something that happens at an instant.
#[derive(Debug)]
enum Event {
    Append {
        partition: u32,
        count: u32,
    },
    Commit {
        side: Side,
        partition: u32,
        crashes: u32,
    },
    OpenArrives {
        link: u64,
    },
    CreditArrives {
        link: u64,
        limit: u64,
    },
    CloseArrives {
        link: u64,
    },
    Delivery {
        link: u64,
        records: Vec<Stored>,
    },
    Detach {
        link: u64,
        condition: &'static str,
    },
    SendArrives {
        send: u64,
    },
    OutcomeArrives {
        send: u64,
        process: u32,
        destination: u32,
        token: SendToken,
        result: Result<(), SendError>,
    },
    CallArrives {
        call: u64,
    },
    CallAnswered {
        call: u64,
    },
    Fault(Fault),
    Start {
        instance: u32,
    },
    Heal,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    Source,
    Destination,
}

impl SharedWorld {
    /// The world of a history, in which nothing has happened yet. Made within a tokio runtime with time.
    pub(crate) fn new(config: &Config, pool: &Arc<BlockPool>, trace_lines: usize) -> Self {
        let stream = |number| Random::for_concern(config.seed, number);
        let topics = |count| (0..count).map(|_| Topic::new(pool)).collect();
        let mut world = World {
            config: Arc::new(config.clone()),
            start: Instant::now(),
            events: BTreeMap::new(),
            numbers: 0,
            random: Streams {
                network: stream(concern::NETWORK),
                hub: stream(concern::HUB),
                store: stream(concern::STORE),
                load: stream(concern::LOAD),
                faults: stream(concern::FAULTS),
            },
            processes: Vec::new(),
            lives: vec![None; config.instances as usize],
            starts: Vec::new(),
            source: topics(config.partitions),
            destination: topics(config.all_destinations()),
            source_up: true,
            destination_up: true,
            dead_letters_up: config.dead_letters().is_none_or(|dead_letters| !dead_letters.never_up),
            links: BTreeMap::new(),
            sends: BTreeMap::new(),
            store: Store::default(),
            healed: false,
            healed_at: 0,
            appends_left: 0,
            ids: 0,
            audit: Audit::new(config),
            trace: Trace::new(trace_lines),
            violation: None,
            crashes: 0,
            refused_writes: 0,
        };
        world.plan_appends();
        world.plan_faults();
        for instance in 0..config.instances {
            let delay = match instance {
                0 => 0,
                _ => world.random.faults.below(config.faults.until_ms),
            };
            world.after(delay, Event::Start { instance });
        }
        Self(Arc::new(Mutex::new(world)))
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, World> {
        // A panic ends the history; what is read then is the trace.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl World {
    pub(crate) fn config(&self) -> Arc<Config> {
        Arc::clone(&self.config)
    }

    pub(crate) fn has_defect(&self, defect: Defect) -> bool {
        self.config.defect == Some(defect)
    }

    pub(crate) fn process(&self, process: u32) -> &Process {
        &self.processes[process as usize]
    }

    pub(crate) fn process_mut(&mut self, process: u32) -> &mut Process {
        &mut self.processes[process as usize]
    }

    pub(crate) fn now_ms(&self) -> u64 {
        // A history lasts minutes.
        self.start.elapsed().as_millis() as u64
    }

    /// A process does something that the world can notice. Says `false` if it is dead, and then it must have no effect.
    /// This is where a process dies in the midst of what it does.
    pub(crate) fn call(&mut self, process: u32) -> bool {
        let state = self.process_mut(process);
        if let Some(left) = &mut state.calls_left {
            match left.checked_sub(1) {
                Some(fewer) => *left = fewer,
                None => {
                    state.calls_left = None;
                    self.kill(process);
                }
            }
        }
        self.process(process).alive
    }

    /// A file that a process has written is in the archive.
    pub(crate) fn archived(&mut self, process: u32, partition: u32, first: i64, last: i64) {
        self.note(Some(process), What::Archived(Events { partition, first, last }));
        self.audit.archive(partition, first, last);
    }

    /// A process adds an event to its archive, behind the last one of the partition that it has there and has not lost.
    pub(crate) fn append_to_archive(
        &mut self,
        process: u32,
        partition: u32,
        before: Option<i64>,
        number: i64,
    ) {
        let appended = self.audit.append_to_archive(process, partition, before, number);
        self.check(appended);
    }

    /// Whether nothing goes wrong any more.
    pub(crate) const fn is_well(&self) -> bool {
        self.healed
    }

    /// The instant of what happens next, if anything does.
    pub(crate) fn next_instant(&self) -> Option<Instant> {
        let (&(at_ms, _), _) = self.events.first_key_value()?;
        Some(self.start + Duration::from_millis(at_ms))
    }

    /// Lets the next thing happen if it is due. Says whether anything did.
    pub(crate) fn step(&mut self) -> bool {
        let now = self.now_ms();
        let due = self.events.first_entry().filter(|entry| entry.key().0 <= now);
        let Some(due) = due else { return false };
        match due.remove() {
            Event::Append { partition, count } => self.append(partition, count),
            Event::Commit { side, partition, crashes } => self.commit(side, partition, crashes),
            Event::OpenArrives { link } => self.open_arrives(link),
            Event::CreditArrives { link, limit } => self.credit_arrives(link, limit),
            Event::CloseArrives { link } => _ = self.links.remove(&link),
            Event::Delivery { link, records } => self.deliver(link, records),
            Event::Detach { link, condition } => self.detach_arrives(link, condition),
            Event::SendArrives { send } => self.send_arrives(send),
            Event::OutcomeArrives { send, process, destination, token, result } => {
                self.outcome_arrives(send, process, destination, token, result)
            }
            Event::CallArrives { call } => self.call_arrives(call),
            Event::CallAnswered { call } => self.call_answered(call),
            Event::Fault(fault) => self.fault(fault),
            Event::Start { instance } => self.starts.push(instance),
            Event::Heal => self.heal(),
        }
        true
    }

    /// An instance comes to life; returns the number of its process.
    pub(crate) fn start_process(&mut self, instance: u32) -> u32 {
        let process = self.processes.len() as u32;
        let (sinks, destinations) = (self.config.all_sinks(), self.config.all_destinations());
        let skew_ms = self.config.sharing.as_ref().map_or(0, |sharing| sharing.skew_ms);
        let skew_ms = between(&mut self.random.faults, 0, skew_ms * 2) as i64 - skew_ms as i64;
        let mut state = Process::new(instance, sinks, destinations);
        state.skew_ms = skew_ms;
        self.processes.push(state);
        self.lives[instance as usize] = Some(process);
        self.audit.start_process();
        self.note(Some(process), What::Started { instance });
        process
    }

    /// Instances that are to be started now.
    pub(crate) fn take_starts(&mut self) -> Vec<u32> {
        std::mem::take(&mut self.starts)
    }

    /// A relay has ended by itself; the instance is started again, unless everything is over.
    pub(crate) fn end_process(&mut self, process: u32, how: &'static str, again: bool) {
        self.note(Some(process), What::Ended { how });
        if self.process(process).alive {
            self.bury(process);
            if again {
                self.start_again(process);
            }
        }
    }

    /// Whether nothing fails any more, and everything that was appended is carried and covered.
    pub(crate) fn is_done(&self) -> bool {
        self.healed
            && self.appends_left == 0
            && self.source.iter().all(Topic::is_settled)
            && !self.store.is_slow(self.healed_at)
            && self.audit.unfinished().is_none()
    }

    /// Why the history is not over, at the end of its time.
    pub(crate) fn stuck(&self) -> Violation {
        let (partition, accepted, covered, end) = self.audit.unfinished().unwrap_or((0, -1, -1, -1));
        Violation::Stuck {
            ms: self.now_ms().saturating_sub(self.config.faults.until_ms),
            partition,
            accepted,
            covered,
            end,
        }
    }

    /// Asks a process to stop gracefully.
    pub(crate) fn request_stop(&mut self, process: u32) {
        let state = self.process_mut(process);
        if state.alive && !state.stop_requested {
            state.stop_requested = true;
            if let Some(waker) = state.stop_waker.take() {
                waker.wake();
            }
            self.note(Some(process), What::Stopping);
        }
    }

    /// The last look, once everything has stopped.
    pub(crate) fn finish(&mut self) {
        let (topics, dead_letters) =
            self.destination.split_at((self.config.sinks * self.config.destinations) as usize);
        let read = |topics: &[Topic]| {
            let records = topics.iter().flat_map(|topic| topic.log.records(0, topic.log.committed()));
            records.map(|record| record.message).collect::<Vec<_>>()
        };
        let dead_letters = read(dead_letters);
        for (sink, topics) in (0..).zip(topics.chunks(self.config.destinations as usize)) {
            let found = read(topics);
            let letters = dead_letters.iter().map(|message| &message[..]);
            let finished = self.audit.finish(sink, found.iter().map(|message| &message[..]), letters);
            if let Err(violation) = finished {
                self.violation.get_or_insert(violation);
            }
        }
    }

    /// The first broken invariant.
    pub(crate) fn violation(&self) -> Option<&Violation> {
        self.violation.as_ref()
    }

    pub(crate) fn note(&mut self, process: Option<u32>, what: What) {
        let now = self.now_ms();
        self.trace.push(now, process, what);
    }

    pub(crate) fn take_trace(&mut self) -> Trace {
        std::mem::replace(&mut self.trace, Trace::new(0))
    }

    /// What the history came to, if everything was carried at that millisecond.
    pub(crate) fn report(&self, done_ms: u64) -> Report {
        let (dead_letters, both) = self.audit.dead_letters();
        Report {
            hash: self.trace.hash(),
            steps: self.trace.count(),
            virtual_ms: self.now_ms(),
            recovery_ms: done_ms.saturating_sub(self.config.faults.until_ms),
            events: self.source.iter().map(|topic| topic.log.committed()).sum(),
            duplicates: self.audit.duplicates(),
            crashes: self.crashes,
            refused_writes: self.refused_writes,
            takeovers: self.audit.takeovers(),
            dead_letters,
            both,
            overtakings: self.audit.overtakings(),
        }
    }

    /// What a process that has ended in good order says of itself.
    pub(crate) fn take_summary(&mut self, process: u32, metrics: &Metrics) {
        let counted = self.audit.count_letters(process, metrics.dead_lettered_events);
        self.check(counted);
        let limit = self.audit.check_limit(process, metrics.events_limit);
        self.check(limit);
    }

    /// Takes note of what the audit says.
    fn check<T>(&mut self, checked: Result<T, Violation>) -> Option<T> {
        match checked {
            Ok(value) => Some(value),
            Err(violation) => {
                self.violation.get_or_insert(violation);
                None
            }
        }
    }

    fn number(&mut self) -> u64 {
        self.numbers += 1;
        self.numbers
    }

    fn after(&mut self, delay_ms: u64, event: Event) {
        self.at(self.now_ms() + delay_ms, event);
    }

    fn at(&mut self, at_ms: u64, event: Event) {
        let number = self.number();
        self.events.insert((at_ms, number), event);
    }

    /// How long something takes through the network.
    fn network_ms(&mut self) -> u64 {
        let faults = &self.config.faults;
        let random = &mut self.random.network;
        let usual = between(random, 0, faults.delay_ms);
        let slow = random.chance(faults.slow);
        let slow_ms = between(random, 0, faults.slow_ms);
        if slow && !self.healed { usual + slow_ms } else { usual }
    }

    /// Whether something goes wrong that does so with a probability; never once everything has healed.
    fn goes_wrong(&mut self, of: impl FnOnce(&mut Streams) -> &mut Random, ratio: f64) -> bool {
        let wrong = of(&mut self.random).chance(ratio);
        wrong && !self.healed
    }

    fn topic(&mut self, side: Side, partition: u32) -> &mut Topic {
        match side {
            Side::Source => &mut self.source[partition as usize],
            Side::Destination => &mut self.destination[partition as usize],
        }
    }

    /// Sees to it that everything appended is committed some time.
    fn commit_soon(&mut self, side: Side, partition: u32) {
        let longest = self.config.commit_ms;
        let topic = self.topic(side, partition);
        let crashes = topic.crashes;
        if longest == 0 {
            topic.committing = Some(topic.log.end());
            self.commit(side, partition, crashes);
        } else if topic.committing.is_none() && topic.log.committed() < topic.log.end() {
            topic.committing = Some(topic.log.end());
            let delay = between(&mut self.random.hub, 1, longest);
            self.after(delay, Event::Commit { side, partition, crashes });
        }
    }

    /// A commit is done.
    fn commit(&mut self, side: Side, partition: u32, crashes: u32) {
        let topic = self.topic(side, partition);
        if topic.crashes != crashes {
            return;
        }
        let Some(end) = topic.committing.take() else {
            return;
        };
        let records = topic.log.commit(end);
        match side {
            Side::Source => self.committed_source(partition, records),
            Side::Destination => self.committed_destination(partition, &records, end),
        }
        if self.config.commit_ms > 0 {
            self.commit_soon(side, partition);
        }
    }
}

impl Topic {
    fn new(pool: &Arc<BlockPool>) -> Self {
        Self { log: DurableLog::new(pool), committing: None, crashes: 0, waiting: Vec::new() }
    }

    /// Whether everything appended is committed.
    fn is_settled(&self) -> bool {
        self.log.committed() == self.log.end()
    }
}

impl fmt::Debug for SharedWorld {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedWorld").finish_non_exhaustive()
    }
}
