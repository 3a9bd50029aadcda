//! `parshall run` with sweeps other than the first, cases that this machine can't run, and trials enough for intervals.

#![expect(
    clippy::unwrap_used,
    reason = "what panics in a test fails it, and says where"
)]

use std::process::{Command, Output};

use serde_json::Value;

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
    let reason = "cores=1000: the relay is to have 1000 cores and this machine has";
    assert!(shown.contains(reason), "{shown}");

    let read = |name: &str| std::fs::read_to_string(folder.path().join("results").join(name));
    let results: Value = serde_json::from_str(&read("results.json").unwrap()).unwrap();
    let schema = include_str!("../../../schema/results.schema.json");
    let validator = jsonschema::validator_for(&serde_json::from_str(schema).unwrap()).unwrap();
    let mistakes: Vec<String> = validator
        .iter_errors(&results)
        .map(|error| format!("{}: {error}", error.instance_path()))
        .collect();
    assert!(mistakes.is_empty(), "{mistakes:#?}");
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
fn a_sweep_that_is_not_there_is_told_with_those_that_are() {
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
