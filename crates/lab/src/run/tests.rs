//! Whole runs over a world in memory: the real roles, the real orchestrator, real pipes between them; no network, and
//! no process of its own for a role.

use std::{
    path::Path,
    pin::Pin,
    sync::{Arc, Mutex},
    time::Duration,
};

use super::*;
use crate::{
    figure,
    progress::{Phase, Progress, Unobserved},
    results::{Role, Stage, Status},
    roles::{
        memory::{Counter, Faults, MemoryBackend, Miscount, ThreadLauncher},
        process::{LaunchError, RoleControl, RoleEnd, RoleExit, RoleHandle},
    },
    scenario::{CaseOptions, Launch, Scenario},
};

const SCENARIO: &str = "\
scenario: small
description: a test
hubs:
  source: {name: source, partitions: 4}
  destination: {name: destination}
load: {payload: 24 B, batch: 10, in_flight: 4, max_lag: 5000, backlog: 3003, rate: 20000/s}
relay: {fan_out: 3, batch: {events: 32, wait: 1 ms}}
phases: {warm_up: 100 ms, measure: 300 ms, drain: 5 s}
trials: 1
";

const BETWEEN_QUEUES: &str = "\
scenario: small
queues: {}
load: {payload: 24 B, batch: 10, in_flight: 4, max_lag: 5000, rate: 20000/s}
relay: {prefetch: 0, concurrency: 8, batch: {wait: 1 ms}}
phases: {warm_up: 100 ms, measure: 300 ms, drain: 5 s}
trials: 1
";

const WITHOUT_PIPELINE: &str = "\
scenario: small
topology: {entities: {in: {hub: events, partitions: 4}}, load: in, sink: in, measure: load}
load: {payload: 24 B, batch: 10, in_flight: 4, max_lag: 5000, rate: 20000/s}
phases: {warm_up: 100 ms, measure: 300 ms, drain: 5 s}
trials: 1
";

const TO_TWO_HUBS: &str = "\
scenario: small
topology:
  entities: {in: {hub: source, partitions: 4}, out: {hub: out, partitions: 3}, audit: {hub: destination, partitions: 3}}
  load: in
  pipeline: {from: in, to: [out, audit]}
  sinks: [out, audit]
load: {payload: 24 B, batch: 10, in_flight: 4, max_lag: 5000, backlog: 2000, rate: 20000/s}
relay: {fan_out: 3, batch: {events: 32, wait: 1 ms}}
phases: {warm_up: 100 ms, measure: 300 ms, drain: 5 s}
trials: 1
";

fn cases(set: &[&str]) -> Vec<Case> {
    cases_of(SCENARIO, set)
}

fn cases_of(scenario: &str, set: &[&str]) -> Vec<Case> {
    let options =
        CaseOptions { set: set.iter().map(|&set| set.to_owned()).collect(), ..CaseOptions::default() };
    let scenario = Scenario::parse("small.yaml", scenario).expect("a scenario");
    scenario.cases(&options).expect("cases")
}

fn options(folder: &Path) -> RunOptions {
    RunOptions {
        scenario: "small".to_owned(),
        description: None,
        prices: None,
        identity: RunIdentity {
            version: "0".to_owned(),
            command: "parshall run small".to_owned(),
            target: "embedded".to_owned(),
            seed: 1,
        },
        folder: ResultsFolder::create(folder).expect("the folder can be written"),
    }
}

async fn run_with(set: &[&str], faults: Faults) -> results::Case {
    run_cases(&cases(set), faults).await
}

async fn run_cases(cases: &[Case], faults: Faults) -> results::Case {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let launcher = ThreadLauncher { backend: MemoryBackend::new(faults) };
    let (_canceller, cancellation) = cancellation();
    let limiter = Limiter::affinity_only("roles are threads here");
    let outcome = run(cases, options(folder.path()), &launcher, &limiter, &Unobserved, cancellation).await;
    assert!(!outcome.was_cancelled);
    let text = std::fs::read_to_string(folder.path().join("results.json")).expect("results are on disk");
    let read: Results = serde_json::from_str(&text).expect("our own text");
    assert_eq!(read.cases.len(), 1);
    outcome.results.cases.into_iter().next().expect("one case")
}

fn kinds(case: &results::Case) -> Vec<results::FindingKind> {
    case.findings.iter().map(|finding| finding.kind).collect()
}

fn assert_whole(case: &results::Case) -> results::Delivery {
    let delivery = case.delivery.expect("a verdict");
    assert_eq!(case.status, Status::Passed, "{:?}", case.findings);
    assert_eq!((delivery.lost, delivery.corrupted, delivery.reordered), (0, Some(0), Some(0)));
    assert_eq!(delivery.acknowledged, Some(delivery.sent));
    assert_eq!(delivery.received, delivery.duplicated.map(|duplicated| delivery.sent + duplicated));
    for trial in &case.trials {
        let (used, sampling) = trial.other_cpu_seconds.zip(trial.cpu_sampling).expect("they are counted");
        assert!(sampling.seconds >= trial.duration_s, "{sampling:?} of {} s", trial.duration_s);
        assert!(used <= sampling.seconds * f64::from(sampling.cpus), "{used} s in {sampling:?}");
    }
    delivery
}

#[tokio::test]
async fn a_case_that_this_machine_cannot_run_is_skipped_and_the_run_is_complete() {
    let case = run_with(&["limits.sink.cores=1000"], Faults::default()).await;
    assert_eq!(case.status, Status::Skipped);
    assert!(case.trials.is_empty() && case.is_complete());
    assert_eq!(kinds(&case), [results::FindingKind::CaseSkipped]);
    let reason = &case.findings[0].message;
    assert!(reason.starts_with("the sink needs 1000 cores and this machine has "), "{reason}");
}

#[tokio::test]
async fn a_backlog_is_filled_drained_and_accounted_for_to_the_last_event() {
    let case = run_with(&["load.mode=backlog"], Faults::default()).await;
    let delivery = assert_whole(&case);
    assert_eq!(delivery.sent, 3_003);
    let trial = &case.trials[0];
    assert!(trial.forwarded_per_s > Some(0.0));
    assert_eq!(trial.offered_per_s, None, "nothing was offered while it was measured");
    assert_eq!(trial.latency_us, None, "the age of a backlog is no latency");
    assert_eq!(trial.hub["destination"].incoming_events, 3_003);
}

#[tokio::test]
async fn between_queues_every_message_is_verified_and_the_counters_agree() {
    for mode in ["saturate", "open", "backlog"] {
        let mode = format!("load.mode={mode}");
        let cases = cases_of(BETWEEN_QUEUES, &[&mode, "load.backlog=2000"]);
        let case = run_cases(&cases, Faults::default()).await;
        let delivery = case.delivery.expect("a verdict");
        assert_eq!((delivery.lost, delivery.corrupted), (0, Some(0)), "{mode}");
        assert!(delivery.sent > 0, "{mode}");
        assert!(
            !kinds(&case).contains(&results::FindingKind::CountersDisagree),
            "{mode}: {:?}",
            case.findings
        );
        let hub = &case.trials[0].hub;
        assert!(hub.contains_key("source") && hub.contains_key("destination"));
        assert_eq!(case.params["queues.source.name"], "source");
        assert!(!case.params.contains_key("hubs.source.partitions"));
    }
}

#[tokio::test]
async fn each_destination_is_verified_by_a_sink_of_its_own() {
    for mode in ["saturate", "open", "backlog"] {
        let mode = format!("load.mode={mode}");
        let case = run_cases(&cases_of(TO_TWO_HUBS, &[&mode]), Faults::default()).await;
        let delivery = case.delivery.expect("a verdict");
        assert_eq!((delivery.lost, delivery.corrupted, delivery.reordered), (0, Some(0), Some(0)), "{mode}");
        assert!(
            !kinds(&case).contains(&results::FindingKind::CountersDisagree),
            "{mode}: {:?}",
            case.findings
        );
        assert_eq!(case.destinations.keys().collect::<Vec<_>>(), ["audit", "out"], "{mode}");
        for (name, destination) in &case.destinations {
            assert_eq!(destination.delivery, case.delivery, "{mode}: {name}");
        }
        let trial = &case.trials[0];
        let incoming = ["out", "destination"].map(|hub| trial.hub[hub].incoming_events);
        if mode.ends_with("backlog") {
            assert_eq!(incoming, [2_000; 2]);
        } else {
            // They are read one after the other while events arrive.
            assert!(incoming.iter().all(|events| *events > 0), "{mode}: {incoming:?}");
            assert!(case.destinations["audit"].latency_us.is_some(), "{mode}");
            assert!(case.destinations["out"].consumed_per_s.is_some_and(|rate| rate.median > 0.0), "{mode}");
        }
    }
}

#[tokio::test]
async fn the_counters_of_every_destination_are_held_against_its_sink() {
    for (counter, by) in [(Counter::DestinationIncoming, -1), (Counter::DestinationOutgoing, 1)] {
        let faults = Faults { miscount: Some(Miscount { counter, by }), ..Faults::default() };
        let case = run_cases(&cases_of(TO_TWO_HUBS, &["load.mode=saturate"]), faults).await;
        assert!(kinds(&case).contains(&results::FindingKind::CountersDisagree), "{counter:?}");
    }
}

#[tokio::test]
async fn without_a_pipeline_the_sink_verifies_what_the_load_sends_and_nothing_speaks_of_a_relay() {
    for (mode, measure) in [("saturate", "load"), ("open", "sink"), ("closed", "service")] {
        let set = [format!("load.mode={mode}"), format!("topology.measure={measure}")];
        let cases = cases_of(WITHOUT_PIPELINE, &[&set[0], &set[1]]);
        let case = run_cases(&cases, Faults::default()).await;
        let delivery = case.delivery.expect("a verdict");
        assert_eq!((delivery.lost, delivery.corrupted, delivery.reordered), (0, Some(0), Some(0)), "{mode}");
        assert!(delivery.sent > 1_000 && delivery.received == Some(delivery.sent), "{mode}: {delivery:?}");
        assert_ne!(case.status, Status::Failed, "{mode}: {:?}", case.findings);
        let trial = &case.trials[0];
        assert!(trial.duration_s > 0.0, "{mode}");
        assert!(trial.produced_per_s > Some(0.0) && trial.consumed_per_s > Some(0.0), "{mode}");
        assert_eq!(
            (trial.received_per_s, trial.forwarded_per_s, &trial.relay),
            (None, None, &None),
            "{mode}"
        );
        assert!(trial.latency_us.is_some() && !trial.roles.contains_key(&Role::Relay), "{mode}");
        assert_eq!(trial.hub.keys().collect::<Vec<_>>(), ["events"]);
        assert_eq!(case.measured_role.name(), if measure == "service" { "hub" } else { measure });
        assert!(!case.params.keys().any(|path| path.starts_with("relay.")), "{:?}", case.params);
        let words = case.findings.iter().map(|finding| &finding.message);
        assert!(!words.clone().any(|text| text.contains("relay")), "{:?}", words.collect::<Vec<_>>());
    }
}

#[tokio::test]
async fn without_a_pipeline_a_counter_that_lies_is_found() {
    for counter in [Counter::DestinationIncoming, Counter::DestinationOutgoing] {
        let faults = Faults { miscount: Some(Miscount { counter, by: -1 }), ..Faults::default() };
        let case = run_cases(&cases_of(WITHOUT_PIPELINE, &["load.mode=saturate"]), faults).await;
        assert!(kinds(&case).contains(&results::FindingKind::CountersDisagree), "{counter:?}");
    }
}

#[tokio::test]
async fn an_open_load_keeps_its_plan_and_every_stage_is_recorded() {
    let case = run_with(&["load.mode=open", "load.arrivals=poisson"], Faults::default()).await;
    let delivery = case.delivery.expect("a verdict");
    assert_eq!((delivery.lost, delivery.corrupted, delivery.reordered), (0, Some(0), Some(0)));
    let trial = &case.trials[0];
    assert!(trial.latency_us.as_ref().is_some_and(|latency| latency.count > 1_000));
    assert!(trial.uncorrected_latency_us.is_some(), "24 bytes have room for the instant of the send");
    for stage in [Stage::Lateness, Stage::Acknowledge, Stage::Process, Stage::Delivery] {
        assert!(trial.stages.contains_key(&stage), "{stage}");
    }
    // The last part of each event's way, told to the millisecond.
    let (delivery, whole) =
        (&trial.stages[&Stage::Delivery], trial.latency_us.as_ref().expect("there is a latency"));
    assert_eq!((delivery.count, delivery.negative), (whole.count, None));
    assert!(delivery.max.expect("a maximum") <= whole.max.expect("a maximum") * 1_001 / 1_000 + 1_001);
    let generator = trial.generator.as_ref().expect("a verdict on the generator");
    assert!(generator.late_events.is_some() && generator.lateness_us.is_some());
}

#[tokio::test]
async fn a_phase_that_works_off_what_waited_says_how_much_that_was() {
    let faults = Faults { begins_after: Duration::from_secs(1), ..Faults::default() };
    let set = ["load.mode=open", "phases.warm_up=200 ms", "phases.measure=2 s"];
    let case = run_with(&set, faults).await;
    let trial = &case.trials[0];
    let lag = trial.lag.expect("the lag of both edges");
    assert!(lag.begin_events >= 2_000 && lag.begin_events > lag.end_events, "{lag:?}");
    assert!(lag.peak_events > lag.begin_events, "the load went on: {lag:?}");
    assert!(trial.forwarded_per_s > trial.offered_per_s, "{trial:?}");
    let finding = case.findings.iter().find(|finding| finding.kind == results::FindingKind::NotSteady);
    let message = &finding.expect("an explanation").message;
    assert!(message.starts_with("more was carried than offered ("), "{message}");
    let waited = format!(": {} events waited when the phase began", figure::count(lag.begin_events));
    assert!(message.contains(&waited), "{message}");
}

#[tokio::test]
async fn a_lag_that_grows_under_an_open_load_is_a_warning() {
    let faults = Faults { capacity_per_s: Some(5_000.0), ..Faults::default() };
    let case = run_with(&["load.mode=open", "phases.measure=1 s"], faults).await;
    let lag = case.trials[0].lag.expect("the lag of both edges");
    assert!(lag.end_events > lag.begin_events + 5_000, "{lag:?}");
    let finding = case.findings.iter().find(|finding| finding.kind == results::FindingKind::NotSteady);
    let finding = finding.expect("a warning");
    assert!(finding.message.starts_with("the lag grew: "), "{}", finding.message);
    assert_eq!(finding.severity, results::Severity::Warning);
}

#[tokio::test]
async fn latencies_over_time_are_those_of_the_trial_second_by_second() {
    let case = run_with(&["load.mode=open", "phases.measure=2500 ms"], Faults::default()).await;
    let trial = &case.trials[0];
    let whole = trial.latency_us.as_ref().expect("latencies");
    let intervals = &trial.latency_intervals;
    assert!(intervals.len() >= 2 && intervals.is_sorted_by(|one, next| one.at_s < next.at_s));
    assert_eq!(intervals.iter().map(|interval| interval.count).sum::<u64>(), whole.count);
    assert_eq!(intervals.iter().map(|interval| interval.max_us).max(), whole.max);
    assert!(intervals.iter().all(|interval| interval.p50_us <= interval.p99_us));
    let peaks = trial.intervals.iter().map(|interval| (interval.lag_events, interval.lag_peak_events));
    assert!(peaks.clone().all(|(end, peak)| peak >= end), "{:?}", peaks.collect::<Vec<_>>());
}

#[tokio::test]
async fn a_saturating_load_is_held_by_the_pipeline_and_not_by_time() {
    let case = run_with(&["load.mode=saturate"], Faults::default()).await;
    let delivery = assert_whole(&case);
    assert!(delivery.sent > 5_000, "{delivery:?}");
    assert!(case.offered_per_s.is_some() && case.received_per_s.is_some() && case.forwarded_per_s.is_some());
}

#[tokio::test]
async fn a_closed_load_of_several_workers_is_explained_by_littles_law() {
    let set = ["load.mode=closed", "load.workers=6", "sink.workers=2"];
    let faults = Faults { answer_after: Duration::from_millis(2), ..Faults::default() };
    let case = run_with(&set, faults).await;
    assert_whole(&case);
    assert!(kinds(&case).contains(&results::FindingKind::LimitedByConcurrency));
}

#[tokio::test]
async fn refused_sends_are_unknown_and_not_lost() {
    let faults = Faults { refuse_every: Some(7), ..Faults::default() };
    let case = run_with(&["load.mode=backlog"], faults).await;
    let delivery = case.delivery.expect("a verdict");
    assert!(delivery.unknown > Some(0));
    assert_eq!(delivery.lost, 0);
    assert_eq!(delivery.acknowledged, Some(delivery.sent - delivery.unknown.unwrap_or(0)));
}

#[tokio::test]
async fn sends_that_are_never_answered_are_given_up_when_the_load_stops() {
    let faults = Faults { ignore_every: Some(50), ..Faults::default() };
    // With both of its places taken by a send without an answer, the load stands still.
    let set = ["load.mode=saturate", "load.in_flight=2", "phases.drain=500 ms"];
    let case = run_with(&set, faults).await;
    let delivery = case.delivery.expect("a verdict");
    assert_eq!(delivery.unknown, Some(20));
    assert_eq!((delivery.sent, delivery.received, delivery.lost), (1_000, Some(1_000), 0));
}

#[tokio::test]
async fn answers_to_the_last_sends_are_awaited_for_as_long_as_the_drain_phase_may_last() {
    // Longer than warm-up and measured phase together: every answer comes after the load was stopped.
    let faults = Faults { answer_after: Duration::from_millis(1_500), ..Faults::default() };
    let case = run_with(&["load.mode=closed", "load.workers=4", "phases.drain=60 s"], faults).await;
    let delivery = case.delivery.expect("a verdict");
    assert_eq!((delivery.sent, delivery.received), (40, Some(40)), "a batch of 10 by each worker");
    assert_eq!((delivery.unknown, delivery.acknowledged), (Some(0), Some(40)), "{:?}", case.findings);
}

#[tokio::test]
async fn a_role_that_fails_or_dies_fails_its_case_with_its_reason_and_log() {
    let failing = Faults { fail_after: Some(500), ..Faults::default() };
    let case = run_with(&["load.mode=backlog"], failing).await;
    assert_eq!(case.status, Status::Failed);
    let finding = &case.findings[0];
    assert!(finding.message.contains("the relay failed"), "{}", finding.message);
    assert!(finding.message.contains("test:failed: failed by injection"), "{}", finding.message);
    assert!(finding.hint.as_ref().is_some_and(|hint| hint.contains("log of the relay")));

    let dying = Faults { panic_after: Some(500), ..Faults::default() };
    let case = run_with(&["load.mode=backlog"], dying).await;
    assert_eq!(case.status, Status::Failed);
    assert!(case.findings[0].message.contains("it exited without a message"), "{:?}", case.findings);
}

#[tokio::test]
async fn replayed_events_are_verified_beside_their_payload() {
    let file = tempfile::NamedTempFile::new().expect("a temporary file");
    std::fs::write(file.path(), "{\"a\":1}\n[2,3]\n\"four\"\n").expect("it can be written");
    let payload = format!("load.payload={{replay: {}}}", file.path().display());
    let case = run_with(&["load.mode=backlog", &payload], Faults::default()).await;
    assert_eq!(assert_whole(&case).received, Some(3_003));
}

#[tokio::test]
async fn a_pipeline_that_forwards_bodies_alone_is_told_which_property_is_missing() {
    let faults = Faults { drops_properties: true, ..Faults::default() };
    let lines = ["1".to_owned(), "[2,3]".to_owned()];
    let case = replayed_with(&lines, &["load.mode=backlog", "phases.drain=100 ms"], faults).await;
    assert_eq!(case.status, Status::Failed);
    let delivery = case.delivery.expect("a verdict");
    assert_eq!(
        (delivery.unidentified, delivery.corrupted, delivery.received),
        (Some(3_003), Some(3_003), Some(0))
    );
    let finding = case.findings.iter().find(|each| each.kind == results::FindingKind::EventsUnidentified);
    let finding = finding.expect("it is named");
    assert_eq!(
        finding.message,
        "3,003 events arrived without the identity that the load gave them: the application property `parshall` is \
         missing"
    );
    assert!(
        finding.hint.as_ref().is_some_and(|hint| hint.contains("docs/external-systems.md")),
        "{finding:?}"
    );
    let changed = kinds(&case).contains(&results::FindingKind::EventsCorrupted);
    assert!(!changed, "nothing was changed: {:?}", case.findings);
}

/// Replays `lines`, in the batches of 10 of the scenario.
async fn replayed(lines: &[String], set: &[&str]) -> results::Case {
    replayed_with(lines, set, Faults::default()).await
}

async fn replayed_with(lines: &[String], set: &[&str], faults: Faults) -> results::Case {
    let file = tempfile::NamedTempFile::new().expect("a temporary file");
    std::fs::write(file.path(), lines.join("\n")).expect("it can be written");
    let payload = format!("load.payload={{replay: {}}}", file.path().display());
    let set: Vec<&str> = set.iter().copied().chain([payload.as_str()]).collect();
    run_with(&set, faults).await
}

#[tokio::test]
async fn replayed_events_of_mixed_sizes_fill_a_send_up_to_its_bytes() {
    let long = |bytes: usize| format!("\"{}\"", "x".repeat(bytes));
    // In batches of 10 the longest would need ten times what a send takes.
    let lines = [long(5), long(1_000_000), long(600_000), long(70), long(600_000), long(9)];
    let case = replayed(&lines, &["load.mode=backlog", "load.backlog=100", "relay.batch.events=10"]).await;
    assert_eq!(assert_whole(&case).received, Some(100));
    let case = replayed(&lines[..1], &["load.mode=closed"]).await;
    assert!(assert_whole(&case).received > Some(0));
    // Hundreds of megabytes may be under way when the load ends.
    let case = replayed(&lines, &["load.mode=closed", "phases.drain=60 s"]).await;
    let delivery = case.delivery.expect("a verdict");
    assert!(delivery.sent > 0 && delivery.received == Some(delivery.sent), "{delivery:?}");
}

#[tokio::test]
async fn a_replayed_line_that_no_send_can_take_is_named() {
    let lines = ["1".to_owned(), format!("\"{}\"", "x".repeat(1_048_576)), "2".to_owned()];
    let case = replayed(&lines, &["load.mode=backlog"]).await;
    assert_eq!(case.status, Status::Failed);
    let message = &case.findings[0].message;
    assert!(message.contains("line 2 of the replayed file, with 1048578 bytes"), "{message}");
}

/// Cancels the run when a phase begins.
struct CancelAt {
    phase: Phase,
    canceller: Canceller,
    seen: Mutex<Vec<Phase>>,
}

impl Observer for CancelAt {
    fn progress(&self, progress: &Progress) {
        self.seen.lock().expect("no panic").push(progress.phase);
        if progress.phase == self.phase {
            self.canceller.cancel();
        }
    }
}

#[tokio::test]
async fn a_cancelled_run_ends_its_roles_and_leaves_whole_results() {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let launcher = ThreadLauncher { backend: MemoryBackend::new(Faults::default()) };
    let (canceller, cancellation) = cancellation();
    let observer = CancelAt { phase: Phase::Measuring, canceller, seen: Mutex::default() };
    let limiter = Limiter::affinity_only("roles are threads here");
    let set = ["phases.measure=1 h", "load.mode=saturate", "trials=3"];
    let outcome =
        run(&cases(&set), options(folder.path()), &launcher, &limiter, &observer, cancellation).await;
    assert!(outcome.was_cancelled);
    assert!(!outcome.results.complete);
    let case = &outcome.results.cases[0];
    assert_eq!(case.status, Status::Incomplete);
    assert!(case.trials[0].interrupted);
    let seen = observer.seen.lock().expect("no panic");
    assert!(seen.contains(&Phase::WarmUp) && !seen.contains(&Phase::Draining));
    let text = std::fs::read_to_string(folder.path().join("results.json")).expect("results are on disk");
    serde_json::from_str::<Results>(&text).expect("our own text");
    assert!(!trial_folder(folder.path(), "small", 1).join("checkpoints").exists());
}

#[tokio::test]
async fn a_case_that_fails_does_not_stop_the_others() {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let mut all = cases(&["load.mode=backlog"]);
    let mut broken = all[0].clone();
    broken.name = "broken".to_owned();
    // The service that is to be there has another name for its hub.
    broken.parameters.target = crate::scenario::Target::Namespace(crate::scenario::Namespace {
        connection_string: crate::scenario::Secret::new("nowhere"),
        certificate_authority: None,
    });
    all.insert(0, broken);
    let launcher = ThreadLauncher { backend: MemoryBackend::new(Faults::default()) };
    let (_canceller, cancellation) = cancellation();
    let limiter = Limiter::affinity_only("roles are threads here");
    let outcome = run(&all, options(folder.path()), &launcher, &limiter, &Unobserved, cancellation).await;
    let statuses: Vec<_> = outcome.results.cases.iter().map(|case| case.status).collect();
    assert_eq!(statuses, [Status::Failed, Status::Passed], "{:?}", outcome.results.cases[1].findings);
    let message = &outcome.results.cases[0].findings[0].message;
    assert!(message.contains("there is no hub"), "{message}");
}

/// Starts roles that say `output` and read on for ever.
struct Scripted {
    output: &'static str,
    ended: Arc<Mutex<u32>>,
}

struct ScriptedControl(Arc<Mutex<u32>>);

impl RoleControl for ScriptedControl {
    fn process_id(&self) -> Option<u32> {
        None
    }

    fn end(self: Box<Self>, _: Duration) -> Pin<Box<dyn Future<Output = RoleExit> + Send>> {
        *self.0.lock().expect("no panic") += 1;
        Box::pin(async { RoleExit { end: RoleEnd::Killed, last_log_lines: Vec::new(), log_error: None } })
    }
}

impl RoleLauncher for Scripted {
    fn launch(&self, _: Role, _: &str, _: Option<&Launch>, _: &Path) -> Result<RoleHandle, LaunchError> {
        let (ours, theirs) = tokio::io::duplex(1 << 16);
        let (output, input) = tokio::io::split(ours);
        let text = self.output;
        tokio::spawn(async move {
            let (mut read, mut write) = tokio::io::split(theirs);
            let _ = tokio::io::AsyncWriteExt::write_all(&mut write, text.as_bytes()).await;
            let _ = tokio::io::copy(&mut read, &mut tokio::io::sink()).await;
            drop(write);
        });
        Ok(RoleHandle {
            input: Box::new(input),
            output: Box::new(output),
            control: Box::new(ScriptedControl(Arc::clone(&self.ended))),
        })
    }
}

async fn message_of_scripted(output: &'static str) -> (String, u32) {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let ended = Arc::default();
    let launcher = Scripted { output, ended: Arc::clone(&ended) };
    let (_canceller, cancellation) = cancellation();
    let limiter = Limiter::affinity_only("there are no processes here");
    let outcome = run(
        &cases(&["load.mode=backlog"]),
        options(folder.path()),
        &launcher,
        &limiter,
        &Unobserved,
        cancellation,
    )
    .await;
    assert_eq!(outcome.results.cases[0].status, Status::Failed);
    let ended = *ended.lock().expect("no panic");
    (outcome.results.cases[0].findings[0].message.clone(), ended)
}

#[tokio::test(start_paused = true)]
async fn a_role_that_never_gets_ready_is_given_up_and_ended() {
    let (message, ended) = message_of_scripted("").await;
    assert_eq!(message, "starting the embedded service took longer than 30 s");
    assert_eq!(ended, 1);
}

#[tokio::test(start_paused = true)]
async fn a_role_that_stops_reporting_is_given_up_for_its_standstill() {
    let ready = "{\"ready\":{\"entry_points\":[{\"connection\":{},\"connection_string\":\"x\"}]}}\n";
    let (message, ended) = message_of_scripted(ready).await;
    assert_eq!(message, "filling the backlog made no progress for 1 min");
    assert_eq!(ended, 4, "hub, load, relay and sink");
}

#[tokio::test(start_paused = true)]
async fn a_service_that_does_not_listen_for_what_a_role_needs_fails_the_case() {
    let ready =
        "{\"ready\":{\"entry_points\":[{\"connection\":{\"tls\":true},\"connection_string\":\"x\"}]}}\n";
    let (message, ended) = message_of_scripted(ready).await;
    assert!(message.starts_with("the hub failed: it does not listen for connections over tcp"), "{message}");
    assert_eq!(ended, 1);
}

#[tokio::test(start_paused = true)]
async fn a_role_that_talks_nonsense_is_quoted() {
    let (message, ended) = message_of_scripted("what?\n").await;
    assert!(message.starts_with("the hub failed: it wrote an unknown message: what?"), "{message}");
    assert_eq!(ended, 1);
}

/// Starts roles that say things at their times and then read on for ever, or end.
struct Timetable;

impl Timetable {
    const READY: &str = "{\"ready\":{\"entry_points\":[{\"connection\":{},\"connection_string\":\"x\"}]}}\n";
    const FAILED: &str = "{\"failed\":{\"error\":\"the connection is gone\"}}\n";

    /// What a role says after how long, and when it ends.
    fn of(role: Role) -> (Vec<(Duration, &'static str)>, Option<Duration>) {
        let at = Duration::from_millis;
        match role {
            // The service dies; those that were connected to it notice before the orchestrator does.
            Role::Service => (vec![(at(0), Self::READY)], Some(at(9_900))),
            Role::Load => (vec![(at(0), Self::READY), (at(9_700), Self::FAILED)], Some(at(9_750))),
            Role::Relay => (vec![(at(0), Self::READY), (at(9_800), Self::FAILED)], None),
            Role::Sink => (vec![(at(0), Self::READY)], None),
        }
    }
}

impl RoleLauncher for Timetable {
    fn launch(&self, role: Role, _: &str, _: Option<&Launch>, _: &Path) -> Result<RoleHandle, LaunchError> {
        let (ours, theirs) = tokio::io::duplex(1 << 16);
        let (output, input) = tokio::io::split(ours);
        let begun = tokio::time::Instant::now();
        tokio::spawn(async move {
            let (mut read, mut write) = tokio::io::split(theirs);
            let reading = tokio::spawn(async move {
                let _ = tokio::io::copy(&mut read, &mut tokio::io::sink()).await;
            });
            let (said, end) = Self::of(role);
            for (at, text) in said {
                tokio::time::sleep_until(begun + at).await;
                let _ = tokio::io::AsyncWriteExt::write_all(&mut write, text.as_bytes()).await;
            }
            match end {
                Some(at) => {
                    tokio::time::sleep_until(begun + at).await;
                    let _ = tokio::io::AsyncWriteExt::shutdown(&mut write).await;
                }
                None => std::future::pending().await,
            }
            let _ = reading.await;
        });
        Ok(RoleHandle {
            input: Box::new(input),
            output: Box::new(output),
            control: Box::new(ScriptedControl(Arc::default())),
        })
    }
}

#[tokio::test(start_paused = true)]
async fn the_role_that_died_is_the_cause_and_not_those_that_noticed_it_first() {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let (_canceller, cancellation) = cancellation();
    let limiter = Limiter::affinity_only("there are no processes here");
    let outcome = run(
        &cases(&["load.mode=saturate", "phases.warm_up=1 min"]),
        options(folder.path()),
        &Timetable,
        &limiter,
        &Unobserved,
        cancellation,
    )
    .await;
    let message = &outcome.results.cases[0].findings[0].message;
    assert_eq!(
        message,
        "the hub failed: it exited without a message, and after it the load: the connection is gone; the relay: the \
         connection is gone (it did not exit and was killed)"
    );
}
