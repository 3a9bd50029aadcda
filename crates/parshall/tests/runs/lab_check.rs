//! `parshall lab check`: the saboteur and the stopped processes, found by the lab.

use std::process::Command;

use serde_json::Value;

#[test]
fn every_damage_and_every_pause_is_found_with_its_exact_count() {
    let folder = tempfile::tempdir().unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_parshall"))
        .args(["lab", "check", "--format", "json"])
        .current_dir(folder.path())
        .env_clear()
        .output()
        .unwrap();
    let messages = String::from_utf8(output.stderr).unwrap();
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    let checks = found["checks"].as_array().unwrap();
    let names: Vec<&str> = checks.iter().map(|check| check["name"].as_str().unwrap()).collect();
    let faults = ["none", "drop", "duplicate", "flip", "swap", "foreign", "wrong partition", "one partition"];
    let pauses = ["stopped hub", "stopped load", "stopped relay", "stopped sink"];
    assert_eq!(names, [&faults[..], &pauses].concat(), "{messages}");
    for check in checks {
        assert_eq!(check["passed"], true, "{check:#}");
    }
    assert_eq!((output.status.code(), &found["passed"]), (Some(0), &true.into()));
    let latest = folder.path().join("results/lab-check/latest/report.html");
    assert!(latest.exists(), "the runs behind it can be looked at");
}
