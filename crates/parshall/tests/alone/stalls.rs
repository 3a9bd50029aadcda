//! A process that stands still for two seconds at a fixed rate: the closed form.
//!
//! Of `r` events per second, those that are meant to be sent `t` into a pause `P` of the pipeline arrive at least
//! `P - t` later. So at least `r (P - x)` events take longer than `x`, in whatever way they arrive afterwards. Not many
//! more may, either: what else is late (the rest of the pause is caught up with, the machine has other work) is allowed
//! for with a quarter of the pause, and with what the longest latency was beyond it.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::Deserializer;
use hdrhistogram::serialization::interval_log::{IntervalLogIterator, LogEntry};

use crate::machine;
use crate::running::{Finished, Pause, Run, pause};

const RATE: f64 = 1_000.0;
const PAUSE: Duration = Duration::from_millis(2_100);

fn scenario(measure: &str) -> String {
    format!(
        "scenario: stall\n\
         hubs: {{source: {{partitions: 4}}, destination: {{partitions: 4}}}}\n\
         load: {{mode: open, rate: {RATE}/s, payload: 32 B, batch: 20}}\n\
         relay: {{fan_out: 4, batch: {{events: 64, wait: 2 ms}}}}\n\
         phases: {{warm_up: 500 ms, measure: {measure}, drain: 30 s}}\ntrials: 1\n"
    )
}

/// A machine that has other work to do makes a generator late, too.
fn assert_valid_if_alone(finished: &Finished) {
    if finished.findings("machine-shared").is_empty() {
        let case = finished.case();
        assert_eq!((finished.status, &case["status"]), (Some(0), &"passed".into()), "{case:#}");
    }
}

/// All latencies of the measured phase, in nanoseconds.
fn latencies(finished: &Finished) -> Histogram<u64> {
    let mut all = Histogram::new(3).unwrap();
    for entry in IntervalLogIterator::new(finished.latency_log.as_bytes()) {
        if let LogEntry::Interval(interval) = entry.unwrap() {
            let bytes = STANDARD.decode(interval.encoded_histogram()).unwrap();
            let interval: Histogram<u64> = Deserializer::new().deserialize(&mut bytes.as_slice()).unwrap();
            all.add(interval).unwrap();
        }
    }
    all
}

/// How many latencies are longer than `seconds`; the histogram's buckets are allowed for.
fn longer_than(latencies: &Histogram<u64>, seconds: f64) -> f64 {
    let from = (seconds * 1e9 * 0.999) as u64;
    latencies.count_between(from, u64::MAX) as f64
}

/// The lower bound holds by construction; one event may lie at each end of the pause.
fn assert_closed_form(latencies: &Histogram<u64>, pause: Pause) {
    let (least, most) = (pause.least.as_secs_f64(), pause.most.as_secs_f64());
    let longest = latencies.max() as f64 / 1e9;
    assert!(longest * 1.001 >= least - 1.0 / RATE, "{longest} of {pause:?}");
    let other = least / 4.0 + (longest - least).max(0.0);
    for share in [0.25, 0.5, 0.75] {
        let limit = least * share;
        let found = longer_than(latencies, limit);
        let expected = RATE * (least - limit);
        assert!(found >= expected - 2.0, "{found} of {expected} events took longer than {limit} s");
        let most = RATE * (most - limit + other);
        assert!(found <= most, "{found} events took longer than {limit} s, and not {most}");
    }
}

#[test]
fn a_pipeline_that_stands_still_for_two_seconds_shows_all_of_it() {
    let _machine = machine();
    let mut run = Run::start(&scenario("5 s"));
    run.until(": measuring");
    std::thread::sleep(Duration::from_secs(1));
    let pause = pause(run.role("relay"), PAUSE);
    let finished = run.finish();
    let latencies = latencies(&finished);
    assert_closed_form(&latencies, pause);
    let case = finished.case();
    assert!(case["latency_us"]["max"].as_u64().unwrap() >= 2_000_000);
    assert_eq!(case["latency_us"]["count"], latencies.len(), "the log has the same events");
    // The figure that forgives the generator stands beside it, in results and report.
    assert_eq!(case["uncorrected_latency_us"]["count"], latencies.len());
    assert!(
        finished.report.contains("from its intended instant")
            && finished.report.contains("from its real send")
    );
    assert_eq!(case["delivery"]["lost"], 0, "{case}");
}

#[test]
fn a_stall_that_outlasts_the_measured_phase_is_in_the_figures_of_the_phase() {
    let _machine = machine();
    let mut run = Run::start(&scenario("1500 ms"));
    run.until(": measuring");
    std::thread::sleep(Duration::from_millis(300));
    let pause = pause(run.role("relay"), PAUSE);
    let finished = run.finish();
    let latencies = latencies(&finished);
    let longest = latencies.max() as f64 / 1e9;
    assert!(longest * 1.001 >= pause.least.as_secs_f64() - 1.0 / RATE, "{longest} of {pause:?}");
    // Whatever the roles' readings of the phase were, they are not a tenth of it apart.
    assert!(latencies.len() as f64 >= RATE * 1.35, "{} events", latencies.len());
}

#[test]
fn a_generator_that_stands_still_in_the_warm_up_alone_leaves_the_phase_valid() {
    let _machine = machine();
    let scenario = scenario("2 s").replace("warm_up: 500 ms", "warm_up: 2 s");
    let mut run = Run::start(&scenario);
    run.until(": warming up");
    // From the first event on, and over long before the phase.
    pause(run.role("load"), Duration::from_millis(900));
    let finished = run.finish();
    let case = finished.case();
    assert_valid_if_alone(&finished);
    let generator = &case["trials"][0]["generator"];
    assert!(generator["late_events"].as_f64().unwrap() < RATE * 0.3, "{generator}");
}

#[test]
fn a_service_that_stands_still_leaves_the_run_valid_and_is_named() {
    let _machine = machine();
    let mut run = Run::start(&scenario("3 s"));
    run.until(": measuring");
    std::thread::sleep(Duration::from_millis(500));
    let pause = pause(run.role("hub"), Duration::from_millis(700));
    let finished = run.finish();
    let latencies = latencies(&finished);
    // Everything that was meant for the phase is in its latencies, and those of the pause are as long as it.
    let longest = latencies.max() as f64 / 1e6;
    assert!(longest * 1.001 >= pause.least.as_secs_f64() - 1.0 / RATE, "{longest} of {pause:?}");
    let case = finished.case();
    assert_valid_if_alone(&finished);
    let generator = &case["trials"][0]["generator"];
    assert_eq!(generator["never_sent_events"], 0);
    assert!(generator["late_events"].as_f64().unwrap() < RATE * 0.2, "{generator}");
    let held_back = generator["held_back_events"].as_u64().unwrap();
    assert!(held_back as f64 >= RATE * 0.5, "{generator}");
    let findings = finished.findings("load-held-back");
    assert!(findings.len() == 1 && findings[0].contains("earlier sends were unanswered"), "{findings:?}");
}

#[test]
fn a_service_that_stands_still_at_the_end_of_the_phase_hides_none_of_its_events() {
    let _machine = machine();
    let mut run = Run::start(&scenario("1500 ms"));
    run.until(": measuring");
    std::thread::sleep(Duration::from_millis(1_000));
    pause(run.role("hub"), Duration::from_millis(900));
    let finished = run.finish();
    let case = finished.case();
    assert_valid_if_alone(&finished);
    assert_eq!(case["trials"][0]["generator"]["never_sent_events"], 0);
    assert!(latencies(&finished).len() as f64 >= RATE * 1.35);
}

#[test]
fn a_generator_that_stands_still_makes_latencies_longer_and_the_run_invalid() {
    let _machine = machine();
    let mut run = Run::start(&scenario("5 s"));
    run.until(": measuring");
    std::thread::sleep(Duration::from_secs(1));
    let pause = pause(run.role("load"), PAUSE);
    let finished = run.finish();
    let latencies = latencies(&finished);
    assert_closed_form(&latencies, pause);
    let case = finished.case();
    assert_eq!((finished.status, &case["status"]), (Some(1), &"invalid".into()));
    let findings = finished.findings("generator-overloaded");
    assert!(findings.iter().any(|message| message.contains("fell behind its schedule")), "{findings:?}");
    // What the pause does to one event in twenty is in the one figure and forgiven in the other.
    let p95 = |figure: &str| case[figure]["p95"].as_f64().unwrap() / 1e6;
    let expected = pause.least.as_secs_f64() - 0.05 * latencies.len() as f64 / RATE;
    assert!(p95("latency_us") * 1.001 >= expected - 0.01, "{} of {expected}", p95("latency_us"));
    assert!(p95("uncorrected_latency_us") < p95("latency_us") / 2.0, "{case}");
    let generator = &case["trials"][0]["generator"];
    assert_eq!(generator["healthy"], false);
    assert!(generator["late_events"].as_f64().unwrap() >= RATE * (pause.least.as_secs_f64() - 0.02));
}
