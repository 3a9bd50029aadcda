//! `parshall run` with sweeps other than the first, cases that this machine can't run, trials enough for intervals, and
//! searches for the highest sustainable rate.

use std::process::{Command, Output};

use serde_json::Value;

use crate::running::{results_folder, results_in};

/// What `parshall` does with these arguments in a directory that has a small scenario in it, and the directory.
fn parshall(arguments: &[&str]) -> (Output, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("small.yaml"), SMALL).unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_parshall"))
        .args(arguments)
        .current_dir(folder.path())
        .env_clear()
        .output()
        .unwrap();
    (output, folder)
}

#[test]
fn a_case_for_a_larger_machine_is_skipped_and_six_trials_give_the_others_intervals() {
    let (output, folder) = parshall(&["run", "./small.yaml", "--only", "cores=*", "--trials", "6"]);
    let shown = String::from_utf8(output.stdout).unwrap();
    let messages = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(0), "{shown}{messages}");
    assert!(shown.contains("1 of 2 cases passed, 1 skipped"), "{shown}");
    let reason = "cores=1000: the relay needs 1000 cores and this machine has";
    assert!(shown.contains(reason), "{shown}");

    let read = |name: &str| std::fs::read_to_string(results_folder(folder.path()).join(name));
    let results = results_in(folder.path());
    let [ran, skipped] = &results["cases"].as_array().unwrap()[..] else {
        panic!("two cases: {results}");
    };
    let rate = &ran["forwarded_per_s"];
    let figure = |path: &str| rate.pointer(path).and_then(Value::as_f64).unwrap();
    assert!(figure("/interval/low") <= figure("/median"), "{rate}");
    assert!(figure("/interval/high") >= figure("/median"), "{rate}");
    assert!(figure("/interval/confidence") >= 0.95, "{rate}");
    assert_eq!(skipped["status"], "skipped");
    assert_eq!(skipped["findings"][0]["kind"], "case-skipped");
    assert_eq!(results["complete"], true);
    let page = read("report.html").unwrap();
    assert!(page.contains(reason.split_once(": ").unwrap().1), "{page}");
    assert!(page.contains("class=\"interval\""), "{page}");
}

#[test]
fn a_search_reports_every_rate_that_it_tried_and_passes_with_a_lower_bound() {
    let (output, folder) = parshall(&[
        "run",
        "./small.yaml",
        "--only",
        "fan_out=2",
        "--set",
        "phases.warm_up=100 ms",
        "--set",
        "load.mode=capacity",
        "--set",
        "load.capacity={bound: 5 s, start: 500/s, highest: 1000/s, probe: 1 s, hold: 1 s, repeat: 1}",
    ]);
    let shown = String::from_utf8(output.stdout).unwrap();
    let read = |name: &str| std::fs::read_to_string(results_folder(folder.path()).join(name));
    let results = results_in(folder.path());
    let case = &results["cases"][0];
    let search = &case["capacity"];
    let tried = search["probes"].as_array().unwrap();
    assert_eq!(tried[0]["rate_per_s"], 500.0, "{search}");
    // Where the machine is too busy to offer even this, the search says so and ends all the same.
    assert_ne!(search["conclusion"], "searching");
    for probe in tried {
        assert!(probe["outcome"].is_string(), "{probe}");
        let has_reasons = probe["reasons"].as_array().is_some_and(|all| !all.is_empty());
        assert_eq!(has_reasons, probe["outcome"] != "passed", "{probe}");
    }
    assert_eq!(output.status.code(), Some(i32::from(case["passed"] != true)));
    assert_eq!(
        shown.contains("no higher one was to be tried"),
        search["conclusion"] == "limited-by-scenario",
        "{shown}"
    );
    assert!(shown.contains("bracket"), "{shown}");
    assert!(read("report.html").unwrap().contains("bracket"));
}

#[test]
fn an_unknown_sweep_is_reported_with_the_known_ones() {
    let (output, _folder) = parshall(&["show", "fan-out", "--sweep", "batches"]);
    assert_eq!(output.status.code(), Some(2));
    let message = String::from_utf8(output.stderr).unwrap();
    for part in [
        "`fan-out` has no sweep `batches`; there are: fan_out, cores_memory, batch, payload, prefetch",
        "did you mean `batch`?",
    ] {
        assert!(message.contains(part), "{message}");
    }
}

/// A backlog that is drained in a moment.
#[test]
fn a_saturating_run_states_the_latency_at_a_share_of_what_it_found() {
    let (output, folder) = parshall(&[
        "run",
        "./small.yaml",
        "--only",
        "fan_out=2",
        "--set",
        "load.latency_at=5 %",
        "--set",
        "phases={warm_up: 100 ms, measure: 1 s, drain: 10 s}",
    ]);
    let shown = String::from_utf8(output.stdout).unwrap();
    let results = results_in(folder.path());
    let case = &results["cases"][0];
    assert_eq!(output.status.code(), Some(0), "{shown}");
    let throughput = case["forwarded_per_s"]["median"].as_f64().unwrap();
    let paced = &case["paced"];
    assert_eq!(paced["rate_per_s"].as_f64().unwrap(), throughput * 0.05);
    let trial = &paced["trial"];
    assert_eq!(trial["delivery"]["lost"], 0, "{trial}");
    assert!(trial["latency_us"]["p50"].as_u64().unwrap() > 0, "{trial}");
    // What it sent is part of what the case accounts for.
    let sent = |of: &Value| of["delivery"]["sent"].as_u64().unwrap();
    assert!(sent(case) > sent(trial) && sent(trial) > 0, "{case}");
    // Where the machine is too busy to keep to the schedule, that is said in place of the latency.
    let kept_up = trial["generator"]["healthy"] == true;
    let expected = if kept_up { "at 5 % of the throughput of each case" } else { "at 5 % of the rate: " };
    assert!(shown.contains(expected), "{shown}");
}

const SMALL: &str = "\
scenario: small
hubs: {source: {partitions: 2}}
embedded: {log_per_hub: 16 MiB}
load: {mode: backlog, backlog: 400, batch: 50}
relay: {fan_out: 2, batch: {events: 16, wait: 2 ms}}
phases: {drain: 10 s}
sweeps:
  fan_out: {relay.fan_out: [1, 2]}
  cores: {limits.relay.cores: [0.5, 1000]}
";
