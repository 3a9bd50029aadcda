//! From what the roles of a trial reported to its record: figures, distributions, findings.

use std::{collections::BTreeMap, time::Duration};

use super::{
    agreement::{ClientCounters, PipelineCounters, disagreements},
    bounds::allowed,
    clock_correction::{ClockCorrection, clock_finding, remote_roles},
    delivery::{delivery, settled},
    error::TrialError,
    findings::{
        ahead_finding, limit_findings, missed_by_sink, outside_findings, placement_findings, sink_finding,
        unidentified_finding, what_limited,
    },
    goodput::first_arrivals,
    lag::{lag, steadiness_finding},
    monitor::{Monitor, load_counters, rate_between, relay_counters, sinks_counters},
    passage,
    pipeline::{Pipeline, rate},
    plan::TrialPlan,
    shares,
    supervisor::{Member, Running, Supervisor},
};
use crate::{
    clock::RunTime,
    limits::{RoleGroup, available_cores},
    load::{LoadFacts, LoadRecordings, Punctuality, judge},
    probe::Work,
    record::{DecodeError, EncodedDistribution, ReadRecords, Recording, ServedRecords},
    results::{
        Delivery, Destination, Distributions, EntityCounters, Finding, FindingKind, IntervalDistribution,
        LatencyDistribution, Lead, OwnFigures, Refusals, RelayActivity, RelayRestart, RemoteRole, Role,
        RoleUsage, Size, Stage, Trial, TrialRecord,
    },
    roles::protocol::{Counted, Counters, Edge, ExternalFigures, Outcome, RelayCounters, SinkCounters},
    scenario::LoadMode,
    verify::{self, StreamSends},
};

/// What is known only at the end of a trial.
#[derive(Debug, Default)]
pub(super) struct Ending {
    /// The service's counters after everything had stopped.
    pub(super) hub: BTreeMap<String, EntityCounters>,
    /// Whether every role came to its end in order.
    pub(super) is_whole: bool,
    /// The end of an instance of the relay in the measured phase.
    pub(super) restart: Option<RelayRestart>,
}

/// The record of a trial, as far as it went.
pub(super) fn collect(
    plan: &TrialPlan<'_>,
    supervisor: &Supervisor,
    monitor: &Monitor<'_>,
    groups: &BTreeMap<Role, RoleGroup>,
    ending: &Ending,
) -> Result<TrialRecord, TrialError> {
    let outcomes = Outcomes::of(supervisor);
    let pipeline = Pipeline::of(plan);
    let rates = Rates::of(plan, supervisor, &pipeline);
    let carried = pipeline.carried(supervisor) as f64 * rates.first_arrivals;
    // What the load's work came to is what was acknowledged to it, whether or not a sink has kept up.
    let produced = (pipeline == Pipeline::Absent).then(|| acknowledged(supervisor));
    let events = |role| produced.filter(|_| role == Role::Load).unwrap_or(carried as u64);
    let roles = usages(supervisor, monitor, groups, events);
    let measured = plan.measured();
    let mut findings = limit_findings(&measured, groups);
    findings.extend(outside_findings(plan, outcomes.was_killed));
    let mut distributions = outcomes.distributions(begin_of(supervisor))?;
    if let Some(correction) = ClockCorrection::of(supervisor, 0) {
        findings.extend(outcomes.correct(&correction, begin_of(supervisor), &mut distributions)?);
    }
    let remote = remote_roles(supervisor, begin_of(supervisor).zip(end_of(supervisor)));
    let member = |remote: &RemoteRole| Member { role: remote.role, instance: remote.instance - 1 };
    findings.extend(
        remote.iter().filter_map(|each| clock_finding(&measured.called(each.role, member(each)), each)),
    );
    let destinations = destinations(plan, supervisor, &ending.hub);
    let unreadable = |source| TrialError::Recording { role: Role::Sink, source };
    let sinks = (0..).zip(&plan.topology.sinks).filter(|_| !destinations.is_empty());
    for (instance, end) in sinks {
        let Some(sink) = outcomes.sinks.get(&instance) else {
            continue;
        };
        let latency = match (instance, sink.latency, ClockCorrection::of(supervisor, instance)) {
            // The figures of the case are those of the first.
            (0, ..) => distributions.latency.clone(),
            (_, None, _) => LatencyDistribution::default(),
            (_, Some(latency), None) => latency.total.decode().map_err(unreadable)?,
            (_, Some(latency), Some(correction)) => {
                let corrected = correction.apply(latency, RunTime::EPOCH).map_err(unreadable)?;
                let doubt = corrected.doubt();
                let total = if doubt.is_none() { corrected.total } else { LatencyDistribution::default() };
                findings.extend(doubt);
                total
            }
        };
        distributions.destinations.insert(end.to_string(), latency);
    }
    // A service of its own has a clock of its own; and how long a backlog lay there is nobody's latency.
    let is_elsewhere = |role| remote.iter().any(|remote| remote.role == role);
    for (stage, role) in [
        (Stage::InHub, Role::Relay),
        (Stage::ToDestination, Role::Load),
        (Stage::ToDestination, Role::Sink),
        (Stage::Delivery, Role::Sink),
    ] {
        let has_one_clock = plan.is_embedded() && !is_elsewhere(Role::Service) && !is_elsewhere(role);
        let is_dated = stage != Stage::InHub || plan.reads_dates_of_the_service();
        if !has_one_clock || !is_dated || plan.mode() == LoadMode::Backlog {
            distributions.stages.remove(&stage);
        }
    }
    // All of it by one clock, of the same records.
    if plan.is_embedded() && remote.is_empty() && ending.is_whole {
        distributions.means = passage::means(outcomes.first().reads, outcomes.served);
    }
    if let (Pipeline::Absent, Some(isolated)) = (&pipeline, outcomes.load.and_then(|load| load.isolated)) {
        distributions.means.extend(isolated.means());
    }
    let lag = lag(plan, supervisor, &pipeline, monitor.lag_peak);
    if ending.is_whole {
        if plan.is_embedded() {
            let in_transactions = plan.parameters.relay.is_exactly_once();
            let clients = ClientCounters {
                in_transactions,
                load: load_counters(supervisor),
                pipeline: match pipeline {
                    Pipeline::Ours { .. } if !in_transactions && !supervisor.has_killed(Role::Relay) => {
                        PipelineCounters::Own(relay_counters(supervisor))
                    }
                    // The last words of one that was killed are missing.
                    Pipeline::Ours { .. }
                    | Pipeline::Between(_)
                    | Pipeline::Unobserved
                    | Pipeline::Consumer
                    | Pipeline::Settling(_) => PipelineCounters::Unknown,
                    Pipeline::Absent => PipelineCounters::Absent,
                },
                sinks: sinks_counters(supervisor),
            };
            findings.extend(disagreements(&plan.topology, &ending.hub, &clients));
        }
        findings.extend(what_limited(plan, &rates, &roles, &distributions));
        findings.extend(lag.and_then(|lag| steadiness_finding(plan, &rates, lag)));
        findings.extend(sink_finding(plan, &rates, monitor.sink_lag_peak));
        let ends = (0..).zip(&plan.topology.sinks);
        let verdicts =
            ends.filter_map(|(instance, end)| Some((end, outcomes.sinks.get(&instance)?.delivery?)));
        let verdicts = verdicts.filter(|_| plan.done().is_none());
        findings.extend(verdicts.flat_map(|(end, delivery)| placement_findings(plan, end, delivery)));
        findings.extend(ahead_finding(plan, supervisor));
        findings.extend(unidentified_finding(plan, supervisor));
        let missed = sinks_counters(supervisor).iter().map(|sink| sink.missed).sum();
        findings.extend(missed_by_sink(missed, plan));
    }
    let hub = service_growth(supervisor);
    let relay = RelayActivity::sum(outcomes.activities.iter().copied());
    distributions.means.extend(shares::means(plan, relay.as_ref()));
    let refusals = refusals(supervisor, relay.as_ref());
    let throttled = hub.values().filter_map(|counters| counters.throttled);
    let is_throttled = throttled.sum::<u64>() > 0 || refusals.values().any(|refusals| refusals.throttled > 0);
    let (generator, generator_findings) = judge(&LoadFacts {
        mode: plan.mode(),
        noun: plan.noun(),
        measured,
        punctuality: outcomes.punctuality,
        lateness: distributions.stages.get(&Stage::Lateness).and_then(LatencyDistribution::summary),
        cpu_percent: roles.get(&Role::Load).map_or(0.0, |usage| usage.cpu_percent),
        held: Duration::from_micros(load_counters(supervisor).held_us),
        is_throttled,
        sink_lag_peak: (plan.mode() != LoadMode::Backlog).then_some(monitor.sink_lag_peak),
    });
    let has_measured = rates.duration_s > 0.0;
    if has_measured {
        findings.extend(generator_findings);
    }
    // What is throttled is bound by its quota, and by nothing else that could be raised.
    findings.retain(|finding| !is_throttled || finding.kind != FindingKind::LimitedByConcurrency);
    let of_roles: f64 = roles.values().map(|usage| usage.cpu_seconds).sum();
    // Where roles run elsewhere it is not known which of them use this machine.
    let machine = monitor.machine.usage().filter(|_| remote.is_empty());
    let other_cpu_seconds = machine.map(|machine| (machine.cpu_seconds - of_roles).max(0.0));
    let trial = Trial {
        started_s: begin_of(supervisor).map(|begin| begin.as_micros() as f64 / 1e6),
        duration_s: rates.duration_s,
        lead: plan.course.lead.map(|lead| Lead {
            rate_per_s: lead.rate.events_per_second(),
            length_s: lead.length.as_secs_f64(),
        }),
        throttled_after_s: monitor.throttled_after().map(|after| after.as_secs_f64()),
        offered_per_s: rates.offered_per_s,
        received_per_s: rates.received_per_s,
        forwarded_per_s: rates.forwarded_per_s,
        with_duplicates_per_s: rates.with_duplicates_per_s(),
        produced_per_s: rates.produced_per_s,
        consumed_per_s: rates.consumed_per_s,
        lag,
        roles,
        delivery: match &pipeline {
            Pipeline::Settling(address) => settled(outcomes.streams, ending.hub.get(address)),
            _ => outcomes.first().delivery.map(|verdict| delivery(plan, verdict, &ending.hub)),
        },
        destinations,
        hub,
        relay,
        refusals,
        restart: ending.restart,
        machine_cores: Some(available_cores()),
        other_cpu_seconds,
        cpu_sampling: machine.map(|machine| machine.sampling),
        remote,
        own_figures: own_figures(supervisor, rates.throughput_per_s()),
        generator: has_measured.then_some(generator),
        findings,
        intervals: monitor.intervals.clone(),
        ..Trial::default()
    };
    Ok(TrialRecord::new(trial, distributions))
}

/// What the roles found out, as far as they came to an end.
#[derive(Debug, Default)]
struct Outcomes<'a> {
    punctuality: Punctuality,
    /// What the load sent.
    streams: &'a [StreamSends],
    load: Option<&'a LoadRecordings>,
    relays: Vec<&'a BTreeMap<Stage, Recording>>,
    sizes: Vec<&'a BTreeMap<Size, EncodedDistribution>>,
    activities: Vec<&'a RelayActivity>,
    /// By their instance, which is their place in the topology. One that failed has none.
    sinks: BTreeMap<u32, SinkOutcome<'a>>,
    /// What the service knows of the records that the first of them read.
    served: &'a [ServedRecords],
    /// A command did not end when it was asked to.
    was_killed: bool,
}

/// What one sink found out.
#[derive(Debug, Clone, Copy, Default)]
struct SinkOutcome<'a> {
    delivery: Option<&'a verify::Delivery>,
    latency: Option<&'a Recording>,
    uncorrected_latency: Option<&'a Recording>,
    to_destination: Option<&'a Recording>,
    delivery_time: Option<&'a Recording>,
    reads: &'a [ReadRecords],
}

impl<'a> Outcomes<'a> {
    fn of(supervisor: &'a Supervisor) -> Self {
        let mut all = Self::default();
        let finished = |(member, running): (Member, &'a Running)| Some((member, running.finished.as_ref()?));
        for (member, outcome) in supervisor.all().filter_map(finished) {
            match outcome {
                Outcome::Service { served } => all.served = served,
                Outcome::Load { streams, punctuality, recordings } => {
                    all.streams = streams;
                    all.punctuality = *punctuality;
                    all.load = recordings.as_ref();
                }
                Outcome::Relay { stages, sizes, activity } => {
                    all.relays.push(stages);
                    all.sizes.push(sizes);
                    all.activities.extend(activity.as_deref());
                }
                Outcome::External { was_killed } => {
                    all.was_killed |= *was_killed && member.role == Role::Relay
                }
                Outcome::Sink {
                    delivery,
                    latency,
                    uncorrected_latency,
                    to_destination,
                    delivery_time,
                    reads,
                } => {
                    let sink = SinkOutcome {
                        delivery: delivery.as_ref(),
                        latency: latency.as_ref(),
                        uncorrected_latency: uncorrected_latency.as_ref(),
                        to_destination: to_destination.as_ref(),
                        delivery_time: delivery_time.as_ref(),
                        reads,
                    };
                    all.sinks.insert(member.instance, sink);
                }
            }
        }
        all
    }

    /// Of the sink whose figures are those of the case.
    fn first(&self) -> SinkOutcome<'a> {
        self.sinks.get(&0).copied().unwrap_or_default()
    }

    fn distributions(&self, begin: Option<RunTime>) -> Result<Distributions, TrialError> {
        let unreadable = |role| move |source: DecodeError| TrialError::Recording { role, source };
        let mut distributions = Distributions::default();
        let sink = self.first();
        if let Some(latency) = sink.latency {
            distributions.latency = latency.total.decode().map_err(unreadable(Role::Sink))?;
            let begin = begin.unwrap_or_default();
            for interval in &latency.intervals {
                distributions.intervals.push(IntervalDistribution {
                    start: interval.start.saturating_since(begin),
                    length: interval.end.saturating_since(interval.start),
                    latency: interval.latency.decode().map_err(unreadable(Role::Sink))?,
                });
            }
        }
        if let Some(latency) = sink.uncorrected_latency {
            distributions.uncorrected_latency = latency.total.decode().map_err(unreadable(Role::Sink))?;
        }
        let of_sink = [(Stage::ToDestination, sink.to_destination), (Stage::Delivery, sink.delivery_time)];
        for (stage, recording) in of_sink {
            if let Some(recording) = recording {
                let distribution = recording.total.decode().map_err(unreadable(Role::Sink))?;
                distributions.stages.insert(stage, distribution);
            }
        }
        if let Some(load) = self.load {
            // Only what has a plan was due at another instant than that of its send.
            let planned = load
                .lateness
                .as_ref()
                .map(|lateness| [(Stage::Lateness, lateness), (Stage::Answer, &load.acknowledge_corrected)]);
            let recordings = planned.into_iter().flatten().chain([(Stage::Acknowledge, &load.acknowledge)]);
            for (stage, recording) in recordings {
                let distribution = recording.total.decode().map_err(unreadable(Role::Load))?;
                distributions.stages.insert(stage, distribution);
            }
        }
        for (stage, recording) in self.relays.iter().copied().flatten() {
            let distribution = recording.total.decode().map_err(unreadable(Role::Relay))?;
            distributions.stages.entry(*stage).or_default().merge(&distribution);
        }
        for (size, encoded) in self.sizes.iter().copied().flatten() {
            let distribution = encoded.decode().map_err(unreadable(Role::Relay))?;
            distributions.sizes.entry(*size).or_default().merge(&distribution);
        }
        distributions.stages.retain(|_, distribution| !distribution.is_empty());
        Ok(distributions)
    }
}

impl Outcomes<'_> {
    /// Replaces the latencies by corrected ones, or by none if the clocks say too little: then that is the finding.
    fn correct(
        &self,
        correction: &ClockCorrection<'_>,
        begin: Option<RunTime>,
        distributions: &mut Distributions,
    ) -> Result<Option<Finding>, TrialError> {
        let begin = begin.unwrap_or_default();
        let corrected = |recording: Option<&Recording>| {
            let corrected = recording.map(|recording| correction.apply(recording, begin)).transpose();
            let corrected = corrected.map_err(|source| TrialError::Recording { role: Role::Sink, source })?;
            Ok::<_, TrialError>(corrected.unwrap_or_default())
        };
        let mut latency = corrected(self.first().latency)?;
        let mut uncorrected = corrected(self.first().uncorrected_latency)?;
        let doubt = latency.doubt();
        if doubt.is_some() {
            (latency, uncorrected) = Default::default();
        }
        distributions.clock_us = self.first().latency.map(|_| latency.bound_us);
        distributions.latency = latency.total;
        distributions.intervals = latency.seconds;
        distributions.uncorrected_latency = uncorrected.total;
        Ok(doubt)
    }
}

/// Events per second over the measured phase. What was forwarded, or received by a sink, counts each event once.
#[derive(Debug, Default)]
pub(super) struct Rates {
    pub(super) duration_s: f64,
    /// The share of arrivals that were not repetitions.
    first_arrivals: f64,
    pub(super) offered_per_s: Option<f64>,
    received_per_s: Option<f64>,
    pub(super) forwarded_per_s: Option<f64>,
    produced_per_s: Option<f64>,
    consumed_per_s: Option<f64>,
}

impl Rates {
    /// What came through per second, whichever system carried it.
    pub(super) fn carried_per_s(&self) -> f64 {
        self.forwarded_per_s.or(self.produced_per_s).unwrap_or(0.0)
    }

    /// What came out at the end per second: forwarded, or received by the sink where nothing forwards.
    pub(super) fn throughput_per_s(&self) -> Option<f64> {
        self.forwarded_per_s.or(self.consumed_per_s)
    }

    fn with_duplicates_per_s(&self) -> Option<f64> {
        let carried = self.throughput_per_s()?;
        (self.first_arrivals > 0.0 && self.first_arrivals < 1.0).then(|| carried / self.first_arrivals)
    }

    fn of(plan: &TrialPlan<'_>, supervisor: &Supervisor, pipeline: &Pipeline) -> Self {
        // Of several destinations our relay's figures are the mean; the others are those of the first sink.
        let sinks = if matches!(pipeline, Pipeline::Ours { .. }) { None } else { Some(0) };
        let first_arrivals = first_arrivals(supervisor, sinks);
        let once = |rate: f64| rate * first_arrivals;
        let duration = supervisor
            .edges(if *pipeline == Pipeline::Absent { plan.topology.measured_role() } else { Role::Relay })
            .map(|(began, ended)| ended.at.saturating_since(began.at).as_secs_f64())
            .reduce(f64::max);
        let acknowledged = |told: &Counters| Some(told.load()?.events.acknowledged);
        let produced_per_s = rate(supervisor, Role::Load, acknowledged);
        let carried_per_s = pipeline.carried_per_s(supervisor).map(once);
        let rates = Self {
            duration_s: duration.unwrap_or(0.0),
            first_arrivals,
            offered_per_s: rate(supervisor, Role::Load, |told| Some(told.load()?.events.sent)),
            received_per_s: pipeline.received_per_s(supervisor),
            forwarded_per_s: carried_per_s.filter(|_| pipeline.forwards()),
            produced_per_s: produced_per_s.filter(|_| *pipeline == Pipeline::Absent),
            consumed_per_s: carried_per_s.filter(|_| !pipeline.forwards()),
        };
        match (plan.mode(), pipeline) {
            (LoadMode::Backlog, Pipeline::Ours { destinations }) => {
                rates.between_first_and_last(supervisor, *destinations)
            }
            _ => rates,
        }
    }

    /// A backlog ends by itself, between two readings: what counts is the time from its first event to its last.
    fn between_first_and_last(self, supervisor: &Supervisor, destinations: u64) -> Self {
        let ended = supervisor.edges(Role::Relay).filter_map(|(_, ended)| ended.counters.relay());
        let relay = ended.fold(RelayCounters::default(), |sum, relay| sum.plus(relay));
        let (Some(first), Some(last)) = (relay.first_forwarded, relay.last_forwarded) else {
            return self;
        };
        let forwarded = relay.forwarded / destinations;
        let seconds = last.saturating_since(first).as_secs_f64();
        if seconds <= 0.0 {
            return self;
        }
        Self {
            duration_s: seconds,
            offered_per_s: None,
            received_per_s: Some(relay.received as f64 / seconds),
            forwarded_per_s: Some(forwarded as f64 / seconds * self.first_arrivals),
            ..self
        }
    }
}

fn begin_of(supervisor: &Supervisor) -> Option<RunTime> {
    let begins = supervisor.all().filter_map(|(_, running)| running.marks.get(&Edge::Begin));
    begins.map(|counted| counted.at).min()
}

fn end_of(supervisor: &Supervisor) -> Option<RunTime> {
    let ends = supervisor.all().filter_map(|(_, running)| running.marks.get(&Edge::End));
    ends.map(|counted| counted.at).max()
}

/// What services refused the roles in the whole trial, as far as anything was.
fn refusals(supervisor: &Supervisor, relay: Option<&RelayActivity>) -> BTreeMap<Role, Refusals> {
    let load = load_counters(supervisor).events;
    let sinks = sinks_counters(supervisor);
    let of_sinks = |figure: fn(&SinkCounters) -> u64| sinks.iter().map(figure).sum();
    let mut all = BTreeMap::from([
        (Role::Load, Refusals { refused: load.refused, throttled: load.throttled, total: None }),
        (
            Role::Sink,
            Refusals {
                refused: of_sinks(|sink| sink.closed),
                throttled: of_sinks(|sink| sink.throttled),
                total: None,
            },
        ),
    ]);
    if let Some(relay) = relay {
        let trial = relay.whole_trial;
        let refusals = Refusals {
            refused: trial.refused_sends,
            throttled: trial.throttled_sends,
            total: Some(trial.sends),
        };
        all.insert(Role::Relay, refusals);
    }
    all.retain(|_, refusals| refusals.refused > 0 || refusals.throttled > 0);
    all
}

/// How much the service's counters grew in the measured phase.
fn service_growth(supervisor: &Supervisor) -> BTreeMap<String, EntityCounters> {
    let Some((Some(began), Some(ended))) = supervisor
        .edges(Role::Service)
        .map(|(began, ended)| (began.counters.service(), ended.counters.service()))
        .next()
    else {
        return BTreeMap::new();
    };
    let grown =
        |ended: Option<u64>, began: Option<u64>| ended.map(|ended| ended.saturating_sub(began.unwrap_or(0)));
    ended
        .iter()
        .map(|(name, ended)| {
            let began = began.get(name).copied().unwrap_or_default();
            let growth = EntityCounters {
                incoming_events: ended.incoming_events.saturating_sub(began.incoming_events),
                incoming_bytes: grown(ended.incoming_bytes, began.incoming_bytes),
                outgoing_events: ended.outgoing_events.saturating_sub(began.outgoing_events),
                outgoing_bytes: grown(ended.outgoing_bytes, began.outgoing_bytes),
                throttled: grown(ended.throttled, began.throttled),
                completed: grown(ended.completed, began.completed),
                failed_deliveries: grown(ended.failed_deliveries, began.failed_deliveries),
                dead_lettered: grown(ended.dead_lettered, began.dead_lettered),
            };
            (name.clone(), growth)
        })
        .collect()
}

/// Events that the service acknowledged to the load in the measured phase.
fn acknowledged(supervisor: &Supervisor) -> u64 {
    let of = |counted: &Counted| counted.counters.load().map_or(0, |load| load.events.acknowledged);
    supervisor.edges(Role::Load).map(|(began, ended)| of(ended).saturating_sub(of(began))).sum()
}

fn usages(
    supervisor: &Supervisor,
    monitor: &Monitor<'_>,
    groups: &BTreeMap<Role, RoleGroup>,
    events: impl Fn(Role) -> u64,
) -> BTreeMap<Role, RoleUsage> {
    let is_external = |counted: &Counted| matches!(counted.counters, Counters::External(_));
    let probes = monitor.probes.iter();
    probes
        .filter_map(|(role, probe)| {
            let own = || supervisor.edges(*role).filter(|(began, _)| !is_external(began));
            let work = Work {
                events: events(*role),
                sockets: own()
                    .map(|(began, ended)| ended.sockets.since(began.sockets))
                    .reduce(|sum, instance| sum + instance),
                connections: own()
                    .map(|(_, ended)| ended.sockets.connections)
                    .reduce(|sum, instance| sum + instance),
            };
            let (limit, cores) = allowed(*role, supervisor, groups);
            let usage = probe.usage(&limit, cores, &work)?;
            Some((*role, usage))
        })
        .collect()
}

/// What a command told of itself about the measured phase. It speaks when it likes, so that its rates are of the time
/// between what it said last before either edge.
fn own_figures(supervisor: &Supervisor, throughput_per_s: Option<f64>) -> Option<OwnFigures> {
    let (began, ended) = supervisor.edges(Role::Relay).next()?;
    let (began, ended) = (began.counters.external()?, ended.counters.external()?);
    let us = ended.at.saturating_since(began.at).as_secs_f64() * 1e6;
    let per_us = |figure: fn(&ExternalFigures) -> Option<u64>| {
        let grown = figure(&ended.figures)?.checked_sub(figure(&began.figures)?)?;
        (us > 0.0).then(|| grown as f64 / us)
    };
    let throughput_per_s = throughput_per_s.filter(|rate| *rate > 0.0);
    let allocated = per_us(|figures| figures.allocated_bytes).zip(throughput_per_s);
    Some(OwnFigures {
        allocated_bytes_per_event: allocated.map(|(per_us, rate)| per_us * 1e6 / rate),
        collecting_percent: per_us(|figures| figures.collecting_us).map(|share| share * 100.0),
        heap_bytes: ended.figures.heap_bytes,
    })
}

/// What each sink saw, where there are several.
fn destinations(
    plan: &TrialPlan<'_>,
    supervisor: &Supervisor,
    hub: &BTreeMap<String, EntityCounters>,
) -> BTreeMap<String, Destination> {
    if plan.topology.sinks.len() < 2 {
        return BTreeMap::new();
    }
    supervisor
        .of(Role::Sink)
        .filter_map(|(member, running)| {
            let end = plan.topology.sinks.get(member.instance as usize)?;
            let edges = running.marks.get(&Edge::Begin).zip(running.marks.get(&Edge::End));
            let received = |told: &Counters| Some(told.sink()?.events.received);
            let verdict = match &running.finished {
                Some(Outcome::Sink { delivery, .. }) => delivery.as_ref(),
                _ => None,
            };
            let is_archive = plan.topology.entity(end).is_archive();
            let destination = Destination {
                // It was read afterwards, and in no order.
                consumed_per_s: edges
                    .filter(|_| !is_archive)
                    .and_then(|(began, ended)| rate_between(began, ended, received))
                    .map(|rate| rate * first_arrivals(supervisor, Some(member.instance))),
                latency_us: None,
                delivery: verdict.map(|verdict| delivery(plan, verdict, hub)).map(
                    |delivery| match is_archive {
                        true => Delivery { reordered: None, ..delivery },
                        false => delivery,
                    },
                ),
            };
            Some((end.to_string(), destination))
        })
        .collect()
}
