//! Results as a run could have them, for the tests of every report. Made from a formula, so that they are the
//! same each time, and through [`Case::from_trials`], so that they agree with themselves.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use crate::results::{
    BatchCounts, Capacity, Case, CasePlan, CheckpointCounts, ClosingCounts, Conclusion, Delivery,
    Distributions, EntityCounters, Environment, Figure, Finding, FindingKind, GainCounts, GeneratorHealth,
    Interval, IntervalDistribution, Lag, LatencyDistribution, Limit, LimitMechanism, LossCounts,
    OpeningCounts, OrderExpectation, OwnershipActivity, PerMillionEvents, PipelineShape, Probe, ProbeOutcome,
    ProbePurpose, Published, RelayActivity, Results, Role, RoleUsage, RoundCounts, SendCounts, Severity,
    Shape, Size, SourceShape, Stage, Stopwatches, Timestamp, Trial, TrialRecord, WaitingTimes, WholeTrial,
};
use crate::scenario::LoadMode;

/// One of each kind.
pub(crate) fn all() -> [Results; 9] {
    [complete(), quick(), failed(), interrupted(), begun(), repeated(), skipping(), searched(), consumed()]
}

/// A full run of trials enough for intervals.
pub(crate) fn repeated() -> Results {
    let mut results = begun();
    for (index, plan) in plans(7).iter().enumerate() {
        let records: Vec<TrialRecord> = (1..=7).map(|number| record(index, number)).collect();
        results.put(Case::from_trials(plan, &records));
    }
    results
}

/// A run of two sweeps on a machine that is too small for the second one.
pub(crate) fn skipping() -> Results {
    let mut results = begun();
    for (index, mut plan) in plans(1).into_iter().enumerate() {
        if index >= 2 {
            plan.sweep = Some("more".to_owned());
        }
        let plan = &plan;
        results.put(match index {
            0 | 1 => Case::from_trials(plan, &[record(index, 1)]),
            _ => Case::skipped(plan, "the relay needs 4 cores and this machine has 2 cores"),
        });
    }
    results
}

/// A run that looked for the highest sustainable rate of one case, and has not ended the search in another.
pub(crate) fn searched() -> Results {
    let probe = |number, purpose, rate: f64, p99: u64, reason: &str| Probe {
        number,
        purpose,
        rate_per_s: rate,
        duration_s: 10.0,
        offered_per_s: Some(rate),
        achieved_per_s: Some(rate * 0.999),
        p50_us: Some(p99 / 4),
        p99_us: Some(p99),
        bounded_us: Some(p99),
        lag_growth_per_s: Some(if reason.is_empty() { -0.4 } else { 7_312.5 }),
        lag_growth_at_least_per_s: Some(if reason.is_empty() { -3.0 } else { 7_100.0 }),
        throttled: Some(0),
        lost: Some(0),
        lead: None,
        above_quota_percent: None,
        outcome: Some(match reason {
            "" => ProbeOutcome::Passed,
            _ => ProbeOutcome::Failed,
        }),
        reasons: [reason.to_owned()].into_iter().filter(|text| !text.is_empty()).collect(),
    };
    let late = "p99 was 1.20 s, above 100 ms; the lag grew by 7,312 events/s (at least 7,100)";
    let mut capacity = Capacity {
        percentile: 99.0,
        bound_us: 100_000,
        precision_percent: 50.0,
        hold_s: 30.0,
        repeat: 1,
        conclusion: Conclusion::Enclosed,
        highest_passed_per_s: Some(28_280.0),
        lowest_failed_per_s: Some(40_000.0),
        lowest_not_offered_per_s: None,
        probes: vec![
            probe(1, ProbePurpose::Bracket, 10_000.0, 2_300, ""),
            probe(2, ProbePurpose::Bracket, 20_000.0, 2_600, ""),
            probe(3, ProbePurpose::Bracket, 40_000.0, 1_200_000, late),
            probe(4, ProbePurpose::Bisect, 28_280.0, 4_100, ""),
            probe(5, ProbePurpose::Hold, 28_280.0, 4_400, ""),
        ],
    };
    let mut results = begun();
    let plans = plans(1);
    let held = [record(0, 5)];
    results.put(Case::from_search(&plans[0], &held, capacity.clone()));
    capacity.probes.truncate(1);
    capacity.probes[0].outcome = None;
    capacity.conclusion = Conclusion::Searching;
    (capacity.highest_passed_per_s, capacity.lowest_failed_per_s) = (None, None);
    results.put(Case::from_search(&plans[1], &[], capacity));
    results
}

/// So many seconds after the run began.
fn at(seconds: u64) -> Timestamp {
    Timestamp::of(SystemTime::UNIX_EPOCH + Duration::from_secs(1_772_359_200 + seconds))
}

/// A full run: four cases of three trials, everything in order.
pub(crate) fn complete() -> Results {
    let mut results = begun();
    for (index, plan) in plans(3).iter().enumerate() {
        let records: Vec<TrialRecord> = (1..=3).map(|number| record(index, number)).collect();
        let case = Case::from_trials(plan, &records);
        let rate = case.throughput().expect("samples have a throughput").median / 2.0;
        results.put(case.with_paced(plan, 50.0, rate, &record(index, 4)));
    }
    results.environment.finished = Some(at(845));
    results
}

/// A run of one trial per case.
pub(crate) fn quick() -> Results {
    let mut results = begun();
    for (index, plan) in plans(1).iter().enumerate() {
        results.put(Case::from_trials(plan, &[record(index, 1)]));
    }
    results
}

/// Of consumers that forward nothing.
pub(crate) fn consumed() -> Results {
    let mut results = begun();
    for (index, plan) in plans(1).iter().enumerate() {
        let mut record = record(index, 1);
        let trial = &mut record.trial;
        (trial.consumed_per_s, trial.received_per_s) = (trial.forwarded_per_s.take(), None);
        for interval in &mut trial.intervals {
            interval.received_per_s = interval.forwarded_per_s.take();
        }
        trial.delivery = trial.delivery.map(|Delivery { sent, acknowledged, unknown, .. }| Delivery {
            sent,
            acknowledged,
            done: Some(sent),
            unknown,
            ..Delivery::default()
        });
        results.put(Case::from_trials(plan, &[record]));
    }
    results
}

/// A run in which one case lost events, one had an overloaded generator, and one only needs a remark.
pub(crate) fn failed() -> Results {
    let mut results = begun();
    for (index, plan) in plans(1).iter().enumerate() {
        let mut record = record(index, 1);
        let trial = &mut record.trial;
        match index {
            1 => {
                let delivery = trial.delivery.as_mut().expect("samples count deliveries");
                (delivery.lost, delivery.corrupted, delivery.unknown) = (1_204, Some(1), Some(17));
            }
            2 => {
                let health = trial.generator.as_mut().expect("samples have a generator");
                (health.healthy, health.late_events) = (false, Some(48_113));
            }
            3 => trial.findings.push(
                Finding::new(
                    Severity::Warning,
                    FindingKind::LimitNotEnforced,
                    "the relay's memory limit of 1 GiB is watched, not enforced: control groups are not \
                     writable here",
                )
                .with_hint("run as root, or in a container with its own control group"),
            ),
            _ => {}
        }
        results.put(Case::from_trials(plan, &[record]));
    }
    results
}

/// A run that ended in the second of its four cases.
pub(crate) fn interrupted() -> Results {
    let mut results = begun();
    let plans = plans(2);
    results.put(Case::from_trials(&plans[0], &[record(0, 1), record(0, 2)]));
    let mut cut = record(1, 1);
    cut.trial.interrupted = true;
    cut.trial.duration_s = 4.0;
    cut.trial.intervals.truncate(4);
    cut.trial.latency_us = None;
    results.put(Case::from_trials(&plans[1], &[cut]));
    results
}

/// A run before its first case has ended.
pub(crate) fn begun() -> Results {
    let environment = Environment {
        version: "0.1.0".to_owned(),
        build: Some("rustc 1.95.0, release".to_owned()),
        command: "parshall run fan-out --set load.seed=7".to_owned(),
        target: "embedded".to_owned(),
        seed: 7,
        started: at(0),
        finished: None,
        cpu_model: "Example CPU @ 2.60GHz".to_owned(),
        cores: 2,
        memory_bytes: 25_193_488_384,
        kernel: "Linux 6.18.0".to_owned(),
        load_average: Some([0.31, 0.25, 0.18]),
        huge_pages: Some("madvise".to_owned()),
        clock_source: Some("tsc".to_owned()),
        chrony: None,
        scheduling_delay_us: None,
        limits: None,
    };
    let names = plans(1).into_iter().map(|plan| plan.name).collect();
    let description = "A relay fans events of one hub out to the partitions of another.";
    Results { description: Some(description.to_owned()), ..Results::new("fan-out", environment, names) }
}

/// Fan-out, events per second of a good trial, and the published figures beside them.
const CASES: [(u32, f64, f64, f64, f64); 4] = [
    (1, 2_904_000.0, 16_144.0, 16_119.0, 58.1),
    (32, 2_391_000.0, 12_079.0, 11_859.0, 97.3),
    (64, 2_105_000.0, 9_680.0, 9_448.0, 95.5),
    (100, 1_776_000.0, 8_887.0, 8_647.0, 94.8),
];

const SECONDS: u32 = 10;

fn plans(trials: u32) -> Vec<CasePlan> {
    CASES
        .iter()
        .map(|(fan_out, _, received, forwarded, cpu)| CasePlan {
            name: format!("fan_out={fan_out}"),
            sweep: Some("fan_out".to_owned()),
            params: BTreeMap::from([
                ("relay.fan_out".to_owned(), (*fan_out).into()),
                ("load.mode".to_owned(), "backlog".into()),
                ("load.payload".to_owned(), "16 B".into()),
                ("relay.batch.events".to_owned(), 128.into()),
            ]),
            shape: Shape {
                load: LoadMode::Backlog,
                pipeline: Some(PipelineShape {
                    source: SourceShape::Log {
                        partitions: 1,
                        batch_events: 128,
                        batch_wait_us: 10_000,
                        in_flight: 1,
                    },
                    ..PipelineShape::default()
                }),
                ..Shape::default()
            },
            system: None,
            measured_role: Role::Relay,
            trials,
            published: Some(
                Published::new(
                    format!("fan_out={fan_out}"),
                    [
                        (Figure::ReceivedPerS, *received),
                        (Figure::ForwardedPerS, *forwarded),
                        (Figure::CpuPercent, *cpu),
                        (Figure::MemoryPeakBytes, 1e9),
                    ],
                )
                .with_source("A study of a Java client, 1 core, 1 GB"),
            ),
            order: OrderExpectation::Kept,
        })
        .collect()
}

fn record(case: usize, number: u32) -> TrialRecord {
    let base = CASES[case].1 * (1.0 + f64::from(number % 3) * 0.017 - 0.01);
    let events = (base * f64::from(SECONDS)) as u64;
    let wave = |second: u32, depth: f64| 1.0 + depth * (f64::from(second * 3 + number) * 1.7).sin();
    let intervals = (1..=SECONDS).map(|second| Interval {
        at_s: f64::from(second),
        offered_per_s: Some((base * wave(second, 0.02)).round()),
        received_per_s: Some((base * wave(second, 0.05)).round()),
        forwarded_per_s: Some((base * wave(second + 1, 0.05)).round()),
        lag_events: Some((base * 0.02 * wave(second, 0.9)) as u64),
        lag_peak_events: Some((base * 0.04) as u64),
        cpu_percent: BTreeMap::from([
            (Role::Service, (62.0 * wave(second, 0.04)).round()),
            (Role::Relay, (97.0 * wave(second, 0.02)).round()),
        ]),
        memory_bytes: BTreeMap::from([
            (Role::Service, 310_000_000 + u64::from(second) * 9_000_000),
            (Role::Relay, 41_000_000 + u64::from(second % 4) * 700_000),
        ]),
    });
    let trial = Trial {
        number,
        interrupted: false,
        started_s: Some(f64::from(number * 20)),
        duration_s: f64::from(SECONDS),
        offered_per_s: Some(base.round()),
        received_per_s: Some(base.round()),
        forwarded_per_s: Some((base * 0.998).round()),
        lag: Some(Lag {
            begin_events: (base * 0.03) as u64,
            end_events: (base * 0.01) as u64,
            peak_events: (base * 0.04) as u64,
        }),
        roles: roles(number),
        delivery: Some(Delivery {
            sent: events,
            acknowledged: Some(events),
            received: Some(events + 384),
            duplicated: Some(384),
            reordered: Some(0),
            corrupted: Some(0),
            unknown: Some(0),
            ..Delivery::default()
        }),
        hub: BTreeMap::from([
            ("source".to_owned(), counters(events)),
            ("destination".to_owned(), counters(events + 384)),
        ]),
        generator: Some(GeneratorHealth {
            healthy: true,
            late_events: Some(12),
            never_sent_events: Some(0),
            held_back_events: Some(0),
            held_back_longest_us: None,
            lateness_us: latencies(2_000, 3.0, 0.6).summary(),
            sink_lag_peak_events: Some(40_112),
        }),
        relay: Some(activity(events, number)),
        findings: vec![Finding::new(
            Severity::Note,
            FindingKind::LimitedByClient,
            "the relay used 97 % of its core: it is what limits the throughput",
        )],
        intervals: intervals.collect(),
        ..Trial::default()
    };
    let slower = (1.0 + case as f64 * 0.35) * (1.0 + f64::from(number) * 0.02);
    let distributions = Distributions {
        latency: latencies(20_000, 900.0 * slower, 0.55),
        uncorrected_latency: latencies(20_000, 860.0 * slower, 0.5),
        stages: BTreeMap::from([
            (Stage::ToDestination, latencies(20_000, 700.0 * slower, 0.55)),
            (Stage::Delivery, latencies(20_000, 200.0 * slower, 0.55)),
            (Stage::Acknowledge, latencies(20_000, 300.0 * slower, 0.5)),
            (Stage::Process, latencies(3_000, 240.0 * slower, 0.4)),
            (Stage::Send, latencies(9_000, 150.0 * slower, 0.45)),
            (Stage::Checkpoint, latencies(800, 35.0, 0.7)),
        ]),
        sizes: BTreeMap::from([
            (Size::BatchEvents, latencies(3_000, 120.0, 0.05)),
            (Size::SendEvents, latencies(9_000, 4.0, 0.4)),
        ]),
        clock_us: None,
        intervals: (0..SECONDS)
            .map(|second| IntervalDistribution {
                start: Duration::from_secs(second.into()),
                length: Duration::from_secs(1),
                latency: latencies(2_000, 900.0 * slower * wave(second, 0.1), 0.55),
            })
            .collect(),
        ..Distributions::default()
    };
    TrialRecord::new(trial, distributions)
}

/// One batch in ten thousand failed, each because that was the purpose of the case.
fn activity(events: u64, number: u32) -> RelayActivity {
    let batches = events / 128;
    let failed = batches / 10_000;
    RelayActivity {
        instances: 1,
        watched_us: u64::from(SECONDS) * 1_000_000,
        batches: BatchCounts { received: batches + failed, completed: batches, failed },
        sends: SendCounts { made: batches * 32, failed_on_purpose: failed, ..SendCounts::default() },
        sinks: Vec::new(),
        checkpoints: CheckpointCounts { written: batches / 3, failed: 2, refused: 1 },
        stopwatches: Stopwatches::default(),
        opened: OpeningCounts { start: 0, rest: failed, claim: 3 },
        closed: ClosingCounts { batch: failed, loss: 1, ..ClosingCounts::default() },
        ownership: Some(OwnershipActivity {
            renew_us: 10_000_000,
            expire_us: 60_000_000,
            rounds: RoundCounts { completed: 1, ..RoundCounts::default() },
            gained: GainCounts { stolen: 3, ..GainCounts::default() },
            lost: LossCounts { taken: 1, expired: 0 },
            rebalances: None,
        }),
        waiting_us: WaitingTimes {
            source: 310_000,
            sends: 1_200_000 + u64::from(number) * 40_000,
            ..WaitingTimes::default()
        },
        whole_trial: WholeTrial {
            failed_batches: failed,
            restarts: failed,
            lost_partitions: 0,
            opened_partitions: 32 + failed,
            closed_partitions: 32 + failed,
            gained_partitions: 3,
            missed_events: 0,
            restarted_partitions: 0,
            ..WholeTrial::default()
        },
        sizes: BTreeMap::new(),
    }
}

fn roles(number: u32) -> BTreeMap<Role, RoleUsage> {
    let usage = |cpu_percent: f64, memory_peak_bytes: u64, cores: Option<f64>| RoleUsage {
        cpu_percent,
        cpu_seconds: cpu_percent / 100.0 * f64::from(SECONDS) * cores.unwrap_or(2.0),
        memory_peak_bytes,
        memory_average_bytes: Some(memory_peak_bytes / 10 * 9),
        per_million_events: Some(PerMillionEvents {
            cpu_seconds: cpu_percent / 200.0,
            context_switches: 910.0,
            system_calls: Some(2_140.0),
            bytes_received: Some(41_300_000.0),
            bytes_sent: Some(52_800_000.0),
        }),
        connections_opened: Some(2),
        limit: Some(Limit {
            mechanism: if cores.is_some() { LimitMechanism::CgroupV2 } else { LimitMechanism::None },
            cores,
            memory_bytes: cores.map(|_| 1_073_741_824),
            note: None,
        }),
    };
    BTreeMap::from([
        (Role::Load, usage(3.0, 22_000_000, None)),
        (Role::Service, usage(61.5, 401_000_000, None)),
        (Role::Relay, usage(97.0 + f64::from(number) * 0.3, 43_100_000, Some(1.0))),
        (Role::Sink, usage(18.2, 31_000_000, None)),
    ])
}

fn counters(events: u64) -> EntityCounters {
    EntityCounters {
        incoming_events: events,
        incoming_bytes: Some(events * 16),
        outgoing_events: events,
        outgoing_bytes: Some(events * 16),
        throttled: Some(0),
        ..EntityCounters::default()
    }
}

/// Latencies of a lognormal shape around a median, evenly over its quantiles.
fn latencies(samples: u32, median_us: f64, spread: f64) -> LatencyDistribution {
    let mut distribution = LatencyDistribution::new();
    for sample in 0..samples {
        let quantile = (f64::from(sample) + 0.5) / f64::from(samples);
        // The logistic quantile function stands in for the normal one; its tail is heavier, as in real systems.
        let deviation = (quantile / (1.0 - quantile)).ln() * 0.55;
        distribution.record((median_us * (spread * deviation).exp()).round() as i64);
    }
    distribution
}
