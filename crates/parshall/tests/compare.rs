//! `parshall compare` as a process: what it prints, what it refuses, and how it ends.

#![expect(clippy::unwrap_used, reason = "what panics in a test fails it, and says where")]

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::{Value, json};

/// Results of one case whose trials forwarded so many events per second.
fn results(rates: &[f64]) -> Value {
    let trials: Vec<Value> = rates
        .iter()
        .enumerate()
        .map(|(index, rate)| {
            json!({
                "number": index + 1,
                "duration_s": 15.0,
                "forwarded_per_s": rate,
                "roles": {"relay": {
                    "cpu_percent": 97.0,
                    "cpu_seconds": 14.5,
                    "memory_peak_bytes": 14_000_000 + index * 1000,
                    "per_million_events": {"cpu_seconds": 0.36, "context_switches": 900.0},
                    "limit": {"mechanism": "cgroup-v1", "cores": 1.0, "memory_bytes": 1_073_741_824},
                }},
            })
        })
        .collect();
    json!({
        "schema": 1,
        "scenario": "fan-out",
        "complete": true,
        "environment": {
            "version": "0.1.0",
            "command": "parshall run fan-out",
            "target": "embedded",
            "seed": 1,
            "started": "2026-03-01T10:00:00Z",
            "cpu_model": "Example CPU",
            "cores": 2,
            "memory_bytes": 25_193_488_384_u64,
            "kernel": "Linux 6.18.0",
        },
        "cases": [{
            "name": "fan_out=32",
            "params": {"relay.fan_out": 32},
            "status": "passed",
            "passed": true,
            "measured_role": "relay",
            "planned_trials": rates.len(),
            "trials": trials,
        }],
    })
}

/// A folder with runs `a` and `b`.
fn runs(a: &Value, b: &Value) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, results) in [("a", a), ("b", b)] {
        let run = folder.path().join(name);
        std::fs::create_dir(&run).unwrap();
        std::fs::write(run.join("results.json"), results.to_string()).unwrap();
    }
    folder
}

/// Exit status, standard output and standard error.
fn compare(folder: &Path, arguments: &[&str]) -> (Option<i32>, String, String) {
    let Output { status, stdout, stderr } = Command::new(env!("CARGO_BIN_EXE_parshall"))
        .arg("compare")
        .args(arguments)
        .current_dir(folder)
        .env_clear()
        .output()
        .unwrap();
    (status.code(), String::from_utf8(stdout).unwrap(), String::from_utf8(stderr).unwrap())
}

const BEFORE: [f64; 6] = [1.70e6, 1.72e6, 1.69e6, 1.71e6, 1.73e6, 1.70e6];
const AFTER: [f64; 6] = [1.90e6, 1.88e6, 1.91e6, 1.90e6, 1.93e6, 1.89e6];

#[test]
fn a_proven_difference_is_reported_with_its_interval() {
    let folder = runs(&results(&BEFORE), &results(&AFTER));
    let (status, output, _) = compare(folder.path(), &["a", "b"]);
    assert_eq!(status, Some(0));
    insta::assert_snapshot!("proven", output);
    let (status, output, _) = compare(folder.path(), &["a/results.json", "b", "--format", "json"]);
    assert_eq!(status, Some(0));
    let comparison: Value = serde_json::from_str(&output).unwrap();
    assert_eq!(comparison["cases"][0]["figures"][0]["result"]["verdict"], "faster");
}

#[test]
fn the_folder_of_a_scenario_stands_for_its_latest_run() {
    let folder = runs(&results(&BEFORE), &results(&AFTER));
    std::os::unix::fs::symlink("b", folder.path().join("latest")).unwrap();
    for latest in ["latest", "."] {
        let (status, output, error) = compare(folder.path(), &["a", latest, "--format", "json"]);
        assert_eq!(status, Some(0), "{error}");
        let comparison: Value = serde_json::from_str(&output).unwrap();
        assert_eq!(comparison["cases"][0]["figures"][0]["result"]["verdict"], "faster", "{latest}");
    }
}

#[test]
fn what_is_not_proven_is_not_claimed() {
    let folder = runs(&results(&BEFORE[..3]), &results(&AFTER[..3]));
    let (status, output, _) = compare(folder.path(), &["a", "b"]);
    assert_eq!(status, Some(0));
    insta::assert_snapshot!("not_proven", output);
}

#[test]
fn a_pipeline_can_fail_on_what_got_worse() {
    let folder = runs(&results(&AFTER), &results(&BEFORE));
    let status = |arguments: &[&str]| compare(folder.path(), arguments).0;
    assert_eq!(status(&["a", "b"]), Some(0));
    assert_eq!(status(&["a", "b", "--fail-on", "forwarded-per-s"]), Some(1));
    assert_eq!(status(&["b", "a", "--fail-on", "forwarded-per-s"]), Some(0));
    assert_eq!(status(&["a", "b", "--fail-on", "memory-peak"]), Some(0));
    // The sample is of a backlog, where latency is waiting.
    assert_eq!(status(&["a", "b", "--fail-on", "latency-p99"]), Some(2));
}

#[test]
fn a_gate_without_a_verdict_says_so_and_fails_if_one_is_required() {
    let folder = runs(&results(&AFTER[..3]), &results(&BEFORE[..3]));
    let gate = ["a", "b", "--fail-on", "forwarded-per-s"];
    let (status, _, error) = compare(folder.path(), &gate);
    assert_eq!(status, Some(0));
    assert!(error.contains("no verdict on forwarded/s in fan_out=32: nothing is proven"), "{error}");
    assert!(error.contains("--require-verdict"), "{error}");
    let (status, _, error) = compare(folder.path(), &[&gate[..], &["--require-verdict"]].concat());
    assert_eq!(status, Some(1), "{error}");
    assert!(error.contains("--require-verdict: no verdict on forwarded/s in fan_out=32"), "{error}");
    assert_eq!(compare(folder.path(), &["a", "b", "--require-verdict"]).0, Some(1));
    let folder = runs(&results(&BEFORE), &results(&AFTER));
    let (status, _, error) = compare(folder.path(), &[&gate[..], &["--require-verdict"]].concat());
    assert_eq!((status, &*error), (Some(0), ""));
}

#[test]
fn other_conditions_are_refused_by_name_unless_they_are_let_pass() {
    let mut other = results(&AFTER);
    other["environment"]["cpu_model"] = json!("Another CPU");
    other["cases"][0]["params"]["relay.batch.events"] = json!(64);
    let folder = runs(&results(&BEFORE), &other);
    let (status, _, error) = compare(folder.path(), &["a", "b"]);
    assert_eq!(status, Some(2));
    insta::assert_snapshot!("other_conditions", error);
    let (status, output, _) = compare(folder.path(), &["a", "b", "--despite-differences"]);
    assert_eq!(status, Some(0));
    assert!(output.contains("processor: Example CPU and Another CPU"), "{output}");
}

#[test]
fn what_holds_no_results_is_named() {
    let folder = runs(&results(&BEFORE), &json!({"schema": 1}));
    let (status, _, error) = compare(folder.path(), &["a", "b"]);
    assert_eq!(status, Some(2));
    insta::assert_snapshot!("no_results", error);
    let (status, _, error) = compare(folder.path(), &["a", "nowhere"]);
    assert_eq!(status, Some(3));
    assert!(error.contains("nowhere can't be read"), "{error}");
    let (status, ..) = compare(folder.path(), &["a", "b", "--quick"]);
    assert_eq!(status, Some(2));
}

#[test]
fn two_programs_run_in_turn_until_it_is_decided() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("tiny.yaml"), TINY).unwrap();
    let program = env!("CARGO_BIN_EXE_parshall");
    let (status, output, error) = compare(
        folder.path(),
        &[
            "--binaries",
            program,
            program,
            "--scenario",
            "./tiny.yaml",
            "--trials",
            "2",
            "--max-trials",
            "6",
            "--out",
            "kept",
            "--format",
            "json",
        ],
    );
    assert_eq!(status, Some(0), "{error}");
    let comparison: Value = serde_json::from_str(&output).unwrap();
    assert_eq!(comparison["design"], "paired");
    let kept = std::fs::read_dir(folder.path().join("kept")).unwrap();
    let mut names: Vec<String> =
        kept.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    assert_eq!(names[..2], ["a-001", "a-002"]);
    assert_eq!(names.len() % 2, 0);
    // Before anything runs: the trials that are there stay as they are.
    let again = ["--binaries", "./a", "./b", "--scenario", "./tiny.yaml", "--out", "kept"];
    let (status, _, error) = compare(folder.path(), &again);
    assert_eq!(status, Some(2), "{error}");
    assert!(error.contains("kept already contains") && error.contains("of another run"), "{error}");
}

#[test]
fn several_scenarios_are_compared_one_after_the_other_each_by_itself() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("tiny.yaml"), TINY).unwrap();
    std::fs::write(folder.path().join("small.yaml"), TINY.replace("tiny", "small")).unwrap();
    // Results that are there already, in place of runs: what is compared matters here.
    let program = folder.path().join("replay");
    let text = "#!/bin/sh\nsed \"s/fan-out/$(basename \"$2\" .yaml)/g\" results.json\n";
    std::fs::write(&program, text).unwrap();
    std::fs::set_permissions(&program, Permissions::from_mode(0o755)).unwrap();
    std::fs::write(folder.path().join("results.json"), results(&BEFORE[..1]).to_string()).unwrap();
    let both =
        ["--binaries", "./replay", "./replay", "--scenario", "./tiny.yaml", "--scenario", "./small.yaml"];
    let with = |more: &[&str]| compare(folder.path(), &[&both[..], more].concat());

    let (status, output, error) =
        with(&["--format", "json", "--out", "kept", "--fail-on", "forwarded-per-s"]);
    assert_eq!(status, Some(0), "{error}");
    let comparisons: Value = serde_json::from_str(&output).unwrap();
    let names: Vec<&Value> = comparisons.as_array().unwrap().iter().map(|each| &each["scenario"]).collect();
    assert_eq!(names, ["tiny", "small"]);
    let (_, table, _) = with(&[]);
    let headlines: Vec<&str> = table.lines().filter(|line| line.contains("against the baseline")).collect();
    assert!(headlines[0].starts_with("tiny: ") && headlines[1].starts_with("small: "), "{table}");
    // A figure that none of them has can't be what is to fail.
    assert_eq!(with(&["--fail-on", "latency-p99"]).0, Some(2));
    // None is run if one of them can't be compared.
    let (status, _, error) = with(&["--set", "load.mode=capacity"]);
    assert_eq!(status, Some(2));
    assert!(error.contains("searches for a rate"), "{error}");
}

#[test]
fn a_quiet_comparison_asks_no_program_for_an_option_that_an_older_one_lacks() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("results.json"), results(&BEFORE[..1]).to_string()).unwrap();
    let program = folder.path().join("old");
    let text = "#!/bin/sh\necho progress >&2\ncase \"$*\" in *quiet*) exit 2;; esac\n\
                [ -e results.json ] && cat results.json || { echo a bad flag >&2; exit 2; }\n";
    std::fs::write(&program, text).unwrap();
    std::fs::set_permissions(&program, Permissions::from_mode(0o755)).unwrap();
    let both = ["--quiet", "--binaries", "./old", "./old", "--scenario", "fan-out"];
    let (status, _, error) = compare(folder.path(), &both);
    assert_eq!((status, error.as_str()), (Some(0), ""));
    // What a program says of its failure is not silenced.
    std::fs::remove_file(folder.path().join("results.json")).unwrap();
    let (status, _, error) = compare(folder.path(), &both);
    assert_eq!(status, Some(3));
    assert!(error.contains("a bad flag"), "{error}");
}

#[test]
fn programs_that_run_under_other_conditions_are_reported_after_one_pair() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("tiny.yaml"), TINY).unwrap();
    let program = env!("CARGO_BIN_EXE_parshall");
    let script = folder.path().join("slower");
    let text = format!("#!/bin/sh\nexec {program} \"$@\" --set load.rate=1000/s\n");
    std::fs::write(&script, text).unwrap();
    std::fs::set_permissions(&script, Permissions::from_mode(0o755)).unwrap();
    let (status, _, error) = compare(
        folder.path(),
        &["--binaries", program, "./slower", "--scenario", "./tiny.yaml", "--out", "kept"],
    );
    assert_eq!(status, Some(2), "{error}");
    assert!(error.contains("load.rate"), "{error}");
    let kept = std::fs::read_dir(folder.path().join("kept")).unwrap();
    assert_eq!(kept.count(), 2);
}

#[test]
fn searches_for_a_rate_are_refused_before_anything_runs() {
    let folder = tempfile::tempdir().unwrap();
    let arguments = ["--binaries", "./a", "./b", "--scenario", "fan-out"];
    let (status, _, error) =
        compare(folder.path(), &[&arguments[..], &["--set", "load.mode=capacity"]].concat());
    assert_eq!(status, Some(2));
    assert!(error.contains("fan_out=1 searches for a rate, and has no trials to compare"), "{error}");
}

/// The least that is a measurement.
const TINY: &str = "\
scenario: tiny
target: embedded
hubs: {source: {name: source, partitions: 2}, destination: {name: destination, partitions: 2}}
load: {mode: open, rate: 2000/s, payload: 32 B, batch: 10}
relay: {fan_out: 2}
phases: {warm_up: 100 ms, measure: 500 ms, drain: 20 s}
trials: 1
";
