//! The study's own figures as cases, and what is said of them.

use std::collections::BTreeMap;

use super::*;
use crate::report::sample;
use crate::results::fixture::{SECONDS, intervals, usage};
use crate::results::{
    ArchivingShape, FindingKind, LatencySummary, MeasuredComponent, MeasuredSystem, PipelineShape, Published,
    RelayActivity, Role, Severity, Stage, Summary, Trial, WaitingTimes,
};

/// Events at once, whether one destination comes after the other, and the published row in milliseconds.
const ROWS: [(&str, u64, bool, [f64; 5]); 4] = [
    ("serial", 1, true, [18.52, 9.35, 2.47, 30.69, 31.95]),
    ("in-loop", 1, false, [17.87, 9.31, 2.47, 21.14, 43.93]),
    ("out-loop", 10, true, [45.0, 20.0, 2.0, 9.0, 115.89]),
    ("in-and-out", 10, false, [39.0, 13.0, 2.0, 8.0, 120.0]),
];

fn shape(events: u64, one_by_one: bool) -> Shape {
    let archiving = ArchivingShape {
        one_by_one,
        events: Some(events),
        awaits_checkpoint: true,
        forward_capacity: Some(4),
        forward_us: Some(18_520.0),
    };
    Shape {
        pipeline: Some(PipelineShape { archiving: Some(archiving), ..PipelineShape::default() }),
        ..Shape::default()
    }
}

fn stages([forward, archive, checkpoint, total]: [f64; 4]) -> BTreeMap<Stage, LatencySummary> {
    let mean = |ms: f64| LatencySummary { count: 100, mean: Some(ms * 1e3), ..LatencySummary::default() };
    BTreeMap::from([
        (Stage::Forward, mean(forward)),
        (Stage::Archive, mean(archive)),
        (Stage::CheckpointShare, mean(checkpoint)),
        (Stage::Total, mean(total)),
    ])
}

/// A case that measured what was published for it.
fn case((name, events, one_by_one, figures): (&str, u64, bool, [f64; 5])) -> Case {
    let [forward, archive, checkpoint, total, rate] = figures;
    let mut case = sample::quick().cases.swap_remove(0);
    case.name = format!("twin={name}");
    case.shape = Some(shape(events, one_by_one));
    case.stages = stages([forward, archive, checkpoint, total]);
    case.forwarded_per_s = Some(Summary::of_one(rate));
    case.delivery = None;
    case.published = Some(Published::new(
        &case.name,
        [
            (Figure::ForwardMean, forward * 1e3),
            (Figure::ArchiveMean, archive * 1e3),
            (Figure::CheckpointShareMean, checkpoint * 1e3),
            (Figure::TotalMean, total * 1e3),
            (Figure::ForwardedPerS, rate),
        ],
    ));
    case
}

fn said(cases: &[Case], kind: FindingKind) -> Option<String> {
    let cases: Vec<&Case> = cases.iter().collect();
    let found = ConsumerStrategies.cross_case("twin", &cases);
    found.into_iter().find(|finding| finding.kind == kind).map(|finding| finding.message)
}

#[test]
fn each_rate_stands_beside_one_over_its_total() {
    let said =
        said(&ROWS.map(case), FindingKind::RateExplained).expect("every case waits for its checkpoints");
    for part in [
        "rate and stopwatches tell one story: twin=serial 1 / 30.7 ms = 32.6/s, 31.9/s measured (1.9 % off)",
        "twin=in-loop 1 / 21.1 ms = 47.3/s, 43.9/s measured (7.1 % off)",
        "; 1 / 9.00 ms = 111/s, 116/s published (4.3 % off)",
    ] {
        assert!(said.contains(part), "{part}\n{said}");
    }
}

#[test]
fn a_rate_that_the_total_does_not_explain_is_no_one_story() {
    let mut cases = ROWS.map(case);
    cases[0].forwarded_per_s = Some(Summary::of_one(20.0));
    let said = said(&cases, FindingKind::RateExplained).expect("every case waits for its checkpoints");
    assert!(said.starts_with("rate and stopwatches do not tell one story"), "{said}");
}

#[test]
fn the_published_figures_say_how_many_events_were_worked_on_at_once() {
    let said = said(&ROWS.map(case), FindingKind::ConcurrencyInferred).expect("more at once are faster");
    for part in [
        "an event takes longer and more of them pass",
        "twin=out-loop: 65.0 ms / 7.00 ms = 9.29 at once",
        "The published study does not say how many it works on at once; its own figures do: twin=serial 27.9 ms / 28.2 ms = 0.988",
        "twin=in-and-out 39.0 ms / 6.00 ms = 6.50",
    ] {
        assert!(said.contains(part), "{part}\n{said}");
    }
}

#[test]
fn what_bounds_the_cases_of_a_sweep_is_said_once_for_all_of_them() {
    let bound =
        Finding::new(Severity::Note, FindingKind::LimitedByConcurrency, "it is").with_hint("let more go");
    let mut cases = ROWS.map(case);
    for case in &mut cases {
        case.findings = vec![bound.clone()];
    }
    let said = said(&cases, FindingKind::LimitedByConcurrency).expect("several are bound by it");
    for part in [
        "events at once are the bound: twin=serial: 0.988 at once for 27.9 ms each. 8.0 % of the time for checkpoints; ",
        "twin=out-loop: 9.29 at once for 65.0 ms each. Forwarding takes 2.43× as long as the service takes for one (18.5 ms)",
    ] {
        assert!(said.contains(part), "{part}\n{said}");
    }
}

#[test]
fn strategies_of_one_event_at_a_time_say_nothing_of_concurrency() {
    assert_eq!(said(&[case(ROWS[0]), case(ROWS[1])], FindingKind::ConcurrencyInferred), None);
}

#[test]
fn the_twin_is_held_against_the_published_rates() {
    let mut cases = ROWS.map(case);
    cases[2].forwarded_per_s = Some(Summary::of_one(100.0));
    let said = said(&cases, FindingKind::PublishedTwin).expect("the service has the study's durations");
    assert!(said.contains("3 of 4 published rates are met within 10 %"), "{said}");
    assert!(said.contains("twin=out-loop 100/s instead of 116/s (0.86×)"), "{said}");
    for case in &mut cases {
        let pipeline = case.shape.as_mut().and_then(|shape| shape.pipeline.as_mut()).expect("it has one");
        pipeline.archiving = Some(ArchivingShape { awaits_checkpoint: true, ..ArchivingShape::default() });
    }
    assert_eq!(super::tests::said(&cases, FindingKind::PublishedTwin), None, "it runs at full speed");
}

#[test]
fn the_fastest_that_keeps_the_order_is_held_against_the_others() {
    let mut cases: Vec<Case> = ROWS.map(case).into();
    let mut best = case(("ordered", 1_000, false, [20.0, 9.5, 0.0, 0.1, 12_000.0]));
    if let Some(archiving) =
        best.shape.as_mut().and_then(|shape| shape.pipeline.as_mut()).and_then(|it| it.archiving.as_mut())
    {
        archiving.awaits_checkpoint = false;
    }
    best.published = None;
    best.delivery = sample::quick().cases.swap_remove(0).delivery;
    if let Some(delivery) = &mut best.delivery {
        delivery.reordered = Some(0);
    }
    best.memory_peak_bytes = Some(Summary::of_one(f64::from(16 << 20)));
    cases.push(best);
    let found = said(&cases, FindingKind::SettingMatters).expect("one keeps the order");
    let expected = "in order, without waiting for its checkpoints, twin=ordered forwards and archives 12,000/s, in 16.0 MiB of memory: \
                    100× as many as twin=in-and-out (120/s)";
    assert_eq!(found, expected);
    let java = MeasuredSystem { name: "java".to_owned(), ours: false, transport: "tls".to_owned() };
    cases[4].system = Some(java);
    assert_eq!(said(&cases, FindingKind::SettingMatters), None, "order is not known to be kept");
}

fn trial(total_ms: f64, rate: f64) -> Trial {
    let waiting_us = WaitingTimes { sends: SECONDS * 950_000, ..WaitingTimes::default() };
    Trial {
        duration_s: SECONDS as f64,
        machine_cores: Some(4),
        roles: BTreeMap::from([(Role::Relay, usage(5.0))]),
        stages: stages([31.3, 9.35, 2.47, total_ms]),
        relay: Some(RelayActivity {
            instances: 1,
            watched_us: SECONDS * 1_000_000,
            waiting_us,
            ..RelayActivity::default()
        }),
        forwarded_per_s: Some(rate),
        intervals: intervals(200),
        ..Trial::default()
    }
}

fn bound(shape: &Shape, trial: &Trial) -> Option<Finding> {
    let measured = MeasuredComponent::Relay;
    ConsumerStrategies.bound(&Observation { shape, measured: &measured, measured_role: Role::Relay, trial })
}

#[test]
fn a_bound_is_explained_by_events_at_once_the_queue_at_the_topic_and_the_checkpoint() {
    let found = bound(&shape(10, true), &trial(9.2, 107.0)).expect("the stopwatches explain it");
    for part in [
        "concurrency-bound: the relay works on an event for 40.6 ms (31.3 ms until forwarded, 9.35 ms until archived), on 6.04 at once",
        "1 / 9.20 ms = 109/s expected, 107/s measured (1.6 % off)",
        "Forwarding takes 1.69× as long as the service takes for one (18.5 ms): it carries out 4 at once, the others wait",
        "For 26.8 % of the time it waits for its checkpoint",
    ] {
        assert!(found.message.contains(part), "{part}\n{}", found.message);
    }
    assert_eq!(bound(&shape(10, true), &trial(9.2, 60.0)), None, "something else takes the time");
}

#[test]
fn where_batches_do_not_wait_the_capacity_of_the_destination_is_the_bound() {
    let mut free = shape(64, true);
    if let Some(archiving) = free.pipeline.as_mut().and_then(|pipeline| pipeline.archiving.as_mut()) {
        archiving.awaits_checkpoint = false;
    }
    let found = bound(&free, &trial(80.0, 212.0)).expect("4 / 18.52 ms");
    assert!(
        found.message.starts_with("bound by the destination: it carries out 4 sends at once"),
        "{found:?}"
    );
    assert_eq!(bound(&free, &trial(80.0, 100.0)), None);
}
