//! What a trial shows of itself while it runs, second by second.

use std::{collections::BTreeMap, time::Duration};

use super::{max_lag::MaxLag, pipeline::Pipeline, supervisor::Supervisor};
use crate::{
    clock::{RunClock, RunTime},
    limits::CpuList,
    probe::{MachineProbe, RoleProbe},
    progress::{EventTotals, Observer, Phase, Progress, RoleProgress},
    results::{EntityCounters, Interval, Role},
    roles::protocol::{
        Command, Counted, Counters, ExternalReading, LoadCounters, RelayCounters, SinkCounters,
    },
};

/// Watches the roles of one trial and tells the observer.
pub(super) struct Monitor<'a> {
    observer: &'a dyn Observer,
    clock: RunClock,
    interval: Duration,
    progress: Progress,
    phase_began: RunTime,
    pipeline: Pipeline,
    /// How far ahead a saturating load may be; `None` for the others.
    max_lag: Option<MaxLag>,
    pub(super) probes: BTreeMap<Role, RoleProbe>,
    /// What each role's CPU is relative to.
    allowed_cores: BTreeMap<Role, f64>,
    before: Totals,
    load_started: Option<RunTime>,
    /// When a role was first seen to be throttled.
    throttled_at: Option<RunTime>,
    measuring_since: Option<RunTime>,
    pub(super) machine: MachineProbe,
    pub(super) intervals: Vec<Interval>,
    pub(super) sink_lag_peak: u64,
    /// The most events that waited at any reading: since the second began, and in the measured phase.
    lag_peak_of_second: u64,
    pub(super) lag_peak: u64,
}

/// Events so far, as the roles told last.
#[derive(Debug, Clone, Copy, Default)]
struct Totals {
    at: RunTime,
    sent: u64,
    received: u64,
    forwarded: u64,
    /// Arrivals at the sink, and those of them that were repetitions.
    arrived: u64,
    repeated: u64,
}

/// Which case and trial a monitor is about.
#[derive(Debug, Clone)]
pub(super) struct Place {
    pub(super) case: String,
    pub(super) case_number: usize,
    pub(super) cases: usize,
    pub(super) trial: u32,
    pub(super) trials: u32,
    /// The rate that the trial tries, in a search for the highest one.
    pub(super) tried_per_s: Option<f64>,
    pub(super) least_remaining: Option<u32>,
}

impl<'a> Monitor<'a> {
    pub(super) fn new(
        observer: &'a dyn Observer,
        place: Place,
        clock: RunClock,
        max_lag: Option<MaxLag>,
        pipeline: Pipeline,
        interval: Duration,
    ) -> Self {
        let progress = Progress {
            case: place.case,
            case_number: place.case_number,
            cases: place.cases,
            trial: place.trial,
            trials: place.trials,
            tried_per_s: place.tried_per_s,
            least_remaining: place.least_remaining,
            phase: Phase::Starting,
            phase_elapsed: Duration::ZERO,
            phase_length: None,
            offered_per_s: None,
            received_per_s: None,
            forwarded_per_s: None,
            lag_events: None,
            events: EventTotals::default(),
            roles: BTreeMap::new(),
        };
        Self {
            observer,
            clock,
            interval,
            progress,
            phase_began: clock.now(),
            max_lag,
            pipeline,
            probes: BTreeMap::new(),
            allowed_cores: BTreeMap::new(),
            before: Totals::default(),
            load_started: None,
            throttled_at: None,
            measuring_since: None,
            machine: MachineProbe::new(CpuList::available().unwrap_or_default()),
            intervals: Vec::new(),
            sink_lag_peak: 0,
            lag_peak_of_second: 0,
            lag_peak: 0,
        }
    }

    /// The processes of a role, and the cores that it may use.
    pub(super) fn watch(&mut self, role: Role, probe: RoleProbe, allowed_cores: f64) {
        self.probes.insert(role, probe);
        self.allowed_cores.insert(role, allowed_cores);
    }

    /// Whether anyone wants to see the metrics of the relays.
    pub(super) fn wants_metrics(&self) -> bool {
        self.observer.wants_metrics()
    }

    /// Reads what the roles use at this moment.
    pub(super) fn read_usage(&mut self, supervisor: &Supervisor) {
        self.sample(supervisor, self.clock.now());
    }

    /// A process of a role has ended, and another one has come in its place.
    pub(super) fn replace(&mut self, role: Role, ended: u32, successor: u32) {
        if let Some(probe) = self.probes.get_mut(&role) {
            probe.replace(ended, successor);
        }
    }

    /// A phase begins, which takes `length` if that is known.
    pub(super) fn enter(&mut self, phase: Phase, length: Option<Duration>) {
        self.phase_began = self.clock.now();
        self.progress.phase = phase;
        self.progress.phase_length = length;
        self.progress.phase_elapsed = Duration::ZERO;
        self.observer.progress(&self.progress);
    }

    /// The load starts now.
    pub(super) fn start_load(&mut self) {
        self.load_started = Some(self.clock.now());
    }

    /// How long after the load's start a role was first seen to be throttled.
    pub(super) fn throttled_after(&self) -> Option<Duration> {
        Some(self.throttled_at?.saturating_since(self.load_started?))
    }

    /// The measured phase begins.
    pub(super) fn begin_measurement(&mut self, supervisor: &Supervisor) {
        let now = self.clock.now();
        for (role, probe) in &mut self.probes {
            note_reported(supervisor, *role, probe);
            probe.begin_measurement(now);
        }
        self.measuring_since = Some(now);
        self.lag_peak_of_second = 0;
        self.machine.begin_measurement(self.clock.now());
        self.before = self.totals(supervisor, now);
    }

    /// It ends.
    pub(super) fn end_measurement(&mut self, supervisor: &Supervisor) {
        let now = self.clock.now();
        for (role, probe) in &mut self.probes {
            note_reported(supervisor, *role, probe);
            probe.end_measurement(now);
        }
        self.measuring_since = None;
        self.lag_peak = self.lag_peak.max(self.lag_peak_of_second);
        self.machine.end_measurement(self.clock.now());
    }

    /// Reads what the roles use: from here, or as those elsewhere reported last.
    fn sample(&mut self, supervisor: &Supervisor, now: RunTime) {
        for (role, probe) in &mut self.probes {
            note_reported(supervisor, *role, probe);
            probe.sample(now);
        }
    }

    /// How many events a saturating load may offer to begin with.
    pub(super) fn first_allowance(&self) -> Option<u64> {
        self.max_lag.map(MaxLag::events)
    }

    /// To be called several times a second. Answers with what a saturating load is to be told.
    pub(super) fn tick(&mut self, supervisor: &Supervisor) -> Option<(Role, Command)> {
        let now = self.clock.now();
        self.lag_peak_of_second = self.lag_peak_of_second.max(self.waiting(supervisor));
        if self.throttled_at.is_none() && is_throttled(supervisor) {
            self.throttled_at = Some(now);
        }
        if now.saturating_since(self.before.at) >= self.interval {
            self.show(supervisor, now);
        }
        let lead = self.max_lag?.events();
        // A sink that falls behind holds the load back, too: otherwise its destination's log would overflow, and the
        // pipeline be blamed for the loss.
        let seen =
            reading_sinks(supervisor).map(|sink| sink.distinct + sink.missed).min().unwrap_or(u64::MAX);
        let sink = sink_counters(supervisor);
        let relay = self.pipeline.counters(supervisor);
        // These will never arrive: the dead letters, what retention took, and what the service refused to take.
        let gone = sink.dead_lettered + relay.missed + load_counters(supervisor).events.failed;
        let seen = seen.saturating_add(lead);
        let events = relay.completed.min(seen).saturating_add(lead);
        let events = events.saturating_add(gone);
        Some((Role::Load, Command::Allow { events }))
    }

    /// Events that the service has acknowledged to the load and that have not been carried yet.
    fn waiting(&self, supervisor: &Supervisor) -> u64 {
        let done = self.pipeline.counters(supervisor).done() + sink_counters(supervisor).dead_lettered;
        load_counters(supervisor).events.acknowledged.saturating_sub(done)
    }

    fn totals(&self, supervisor: &Supervisor, at: RunTime) -> Totals {
        let pipeline = self.pipeline.counters(supervisor);
        let sink = sink_counters(supervisor).events;
        Totals {
            at,
            sent: load_counters(supervisor).events.sent,
            received: pipeline.received,
            forwarded: pipeline.forwarded,
            arrived: sink.received,
            repeated: sink.duplicated,
        }
    }

    fn show(&mut self, supervisor: &Supervisor, now: RunTime) {
        let totals = self.totals(supervisor, now);
        let elapsed = now.saturating_since(self.before.at).as_secs_f64();
        let rate = |now: u64, before: u64| now.saturating_sub(before) as f64 / elapsed;
        let relay = self.pipeline.counters(supervisor);
        let lag_events = self.waiting(supervisor);
        let forwarded = match self.pipeline {
            Pipeline::Absent => load_counters(supervisor).events.acknowledged,
            _ => relay.forwarded,
        };
        let slowest = reading_sinks(supervisor).map(|sink| sink.events.received).min();
        let waiting_for_sink = slowest.map_or(0, |slowest| forwarded.saturating_sub(slowest));
        let progress = &mut self.progress;
        progress.phase_elapsed = now.saturating_since(self.phase_began);
        progress.offered_per_s = Some(rate(totals.sent, self.before.sent));
        progress.received_per_s = Some(rate(totals.received, self.before.received));
        let repeated = totals.repeated.saturating_sub(self.before.repeated) as f64;
        let arrived = totals.arrived.saturating_sub(self.before.arrived).max(1) as f64;
        let forwarded_per_s =
            rate(totals.forwarded, self.before.forwarded) * (1.0 - repeated / arrived).max(0.0);
        progress.forwarded_per_s = self.pipeline.forwards().then_some(forwarded_per_s);
        if let Some(lead) = &mut self.max_lag {
            lead.note(forwarded_per_s);
        }
        progress.lag_events = Some(lag_events);
        progress.events = EventTotals {
            sent: totals.sent,
            received: totals.received,
            forwarded: totals.forwarded,
            arrived: totals.arrived,
        };
        self.sample(supervisor, now);
        let progress = &mut self.progress;
        for (role, probe) in &self.probes {
            let present = probe.present();
            let allowed = self.allowed_cores.get(role).copied().unwrap_or(1.0);
            let role_progress = RoleProgress {
                cpu_percent: present.cores / allowed * 100.0,
                memory_bytes: present.memory_bytes,
            };
            progress.roles.insert(*role, role_progress);
        }
        if let Some(since) = self.measuring_since {
            self.sink_lag_peak = self.sink_lag_peak.max(waiting_for_sink);
            let lag_peak = std::mem::take(&mut self.lag_peak_of_second);
            self.lag_peak = self.lag_peak.max(lag_peak);
            let roles = progress.roles.iter();
            self.intervals.push(Interval {
                at_s: now.saturating_since(since).as_secs_f64(),
                offered_per_s: progress.offered_per_s,
                received_per_s: progress.received_per_s,
                forwarded_per_s: progress.forwarded_per_s,
                lag_events: progress.lag_events,
                lag_peak_events: Some(lag_peak),
                cpu_percent: roles.clone().map(|(role, used)| (*role, used.cpu_percent)).collect(),
                memory_bytes: roles.map(|(role, used)| (*role, used.memory_bytes)).collect(),
            });
        }
        self.before = totals;
        self.observer.progress(&self.progress);
        if self.observer.wants_metrics() {
            let relays = supervisor.of(Role::Relay);
            let metrics: Vec<_> = relays
                .filter(|(_, running)| !running.has_ended())
                .filter_map(|(member, running)| Some((member.instance, running.metrics.as_deref()?)))
                .collect();
            self.observer.relays(&metrics);
        }
    }
}

/// Takes what the processes of a role elsewhere reported last, if that is where it runs.
fn note_reported(supervisor: &Supervisor, role: Role, probe: &mut RoleProbe) {
    if let Some(readings) = supervisor.reported_usages(role) {
        probe.note(&readings);
    }
}

fn latest(supervisor: &Supervisor, role: Role) -> impl Iterator<Item = &Counters> {
    supervisor.of(role).filter_map(|(_, running)| running.latest.as_ref()).map(|counted| &counted.counters)
}

/// What the load told last.
pub(super) fn load_counters(supervisor: &Supervisor) -> LoadCounters {
    latest(supervisor, Role::Load).filter_map(Counters::load).next().unwrap_or_default()
}

/// What the first sink reported last, whose figures are those of the case.
pub(super) fn sink_counters(supervisor: &Supervisor) -> SinkCounters {
    let first = supervisor.of(Role::Sink).find(|(member, _)| member.instance == 0);
    let latest = first.and_then(|(_, running)| running.latest.as_ref());
    latest.and_then(|counted| counted.counters.sink()).unwrap_or_default()
}

/// What each sink reported last, in the order of the topology.
pub(super) fn sinks_counters(supervisor: &Supervisor) -> Vec<SinkCounters> {
    let sinks = supervisor.of(Role::Sink).map(|(_, running)| running.latest.as_ref());
    sinks.map(|latest| latest.and_then(|counted| counted.counters.sink()).unwrap_or_default()).collect()
}

/// The same of those that read while it is written.
pub(super) fn reading_sinks(supervisor: &Supervisor) -> impl Iterator<Item = SinkCounters> {
    sinks_counters(supervisor).into_iter().filter(|sink| !sink.reads_at_the_end)
}

/// What all relays together told last.
pub(super) fn relay_counters(supervisor: &Supervisor) -> RelayCounters {
    latest(supervisor, Role::Relay)
        .filter_map(Counters::relay)
        .fold(RelayCounters::default(), |sum, relay| sum.plus(relay))
}

/// How many partitions each instance of the relay owns, as far as they have told.
pub(super) fn owned_partitions(supervisor: &Supervisor) -> Vec<u64> {
    latest(supervisor, Role::Relay).filter_map(Counters::relay).map(|relay| relay.owned).collect()
}

/// Whether a quota has refused anyone anything so far, by what service and clients told last.
pub(super) fn is_throttled(supervisor: &Supervisor) -> bool {
    let of_sinks = || sinks_counters(supervisor).iter().any(|sink| sink.throttled > 0);
    let of_service =
        || latest(supervisor, Role::Service).filter_map(Counters::service).flat_map(BTreeMap::values);
    load_counters(supervisor).events.throttled > 0
        || relay_counters(supervisor).throttled > 0
        || of_sinks()
        || of_service().any(|entity| entity.throttled > Some(0))
}

/// What the embedded service told last; empty without one.
pub(super) fn service_counters(supervisor: &Supervisor) -> BTreeMap<String, EntityCounters> {
    latest(supervisor, Role::Service).filter_map(Counters::service).next().cloned().unwrap_or_default()
}

impl Counters {
    /// The generator's, if these are.
    pub(super) fn load(&self) -> Option<LoadCounters> {
        match self {
            Self::Load(counters) => Some(*counters),
            Self::Service(_) | Self::Relay(_) | Self::External(_) | Self::Sink(_) => None,
        }
    }

    /// The pipeline's, if these are.
    pub(super) fn relay(&self) -> Option<RelayCounters> {
        match self {
            Self::Relay(counters) => Some(*counters),
            Self::Service(_) | Self::Load(_) | Self::External(_) | Self::Sink(_) => None,
        }
    }

    /// The receiver's, if these are.
    pub(super) fn sink(&self) -> Option<SinkCounters> {
        match self {
            Self::Sink(counters) => Some(*counters),
            Self::Service(_) | Self::Load(_) | Self::Relay(_) | Self::External(_) => None,
        }
    }

    /// What a command reports about itself, if it does.
    pub(super) fn external(&self) -> Option<ExternalReading> {
        match self {
            Self::External(reading) => *reading,
            Self::Service(_) | Self::Load(_) | Self::Relay(_) | Self::Sink(_) => None,
        }
    }

    /// The service's, if these are.
    pub(super) fn service(&self) -> Option<&BTreeMap<String, EntityCounters>> {
        match self {
            Self::Service(counters) => Some(counters),
            Self::Load(_) | Self::Relay(_) | Self::External(_) | Self::Sink(_) => None,
        }
    }
}

impl RelayCounters {
    /// Events that nothing is left to do with: completed, or gone before they were read.
    pub(super) fn done(&self) -> u64 {
        self.completed + self.missed
    }

    /// These and those of another instance together.
    pub(super) fn plus(self, other: Self) -> Self {
        let earliest = self.first_forwarded.into_iter().chain(other.first_forwarded).min();
        Self {
            received: self.received + other.received,
            forwarded: self.forwarded + other.forwarded,
            doubtful: self.doubtful + other.doubtful,
            completed: self.completed + other.completed,
            opened: self.opened + other.opened,
            owned: self.owned + other.owned,
            missed: self.missed + other.missed,
            throttled: self.throttled + other.throttled,
            first_forwarded: earliest,
            last_forwarded: self.last_forwarded.max(other.last_forwarded),
        }
    }
}

/// How much a figure grew per second between two readings; `None` without time between them.
pub(super) fn rate_between(
    began: &Counted,
    ended: &Counted,
    figure: impl Fn(&Counters) -> Option<u64>,
) -> Option<f64> {
    let elapsed = ended.at.saturating_since(began.at).as_secs_f64();
    let grown = figure(&ended.counters)?.checked_sub(figure(&began.counters)?)?;
    (elapsed > 0.0).then(|| grown as f64 / elapsed)
}

/// How often the course of a trial is read, unless it is too short for that.
pub(super) const SECOND: Duration = Duration::from_secs(1);
