//! `parshall run` where its results can't be written: what was measured is printed all the same.
//!
//! A limit on the size of files stands for a full disk. It needs no privileges, and every write beyond it fails.

use std::process::{Command, Output};

use crate::external_systems::rig::Bench;

const SCENARIO: &str = "\
scenario: tiny
hubs: {source: {partitions: 2}, destination: {partitions: 2}}
load: {mode: closed, payload: 32 B, batch: 10}
relay: {fan_out: 2}
phases: {warm_up: 100 ms, measure: 400 ms, drain: 20 s}
trials: 1
sweeps: {sut: {sut: [parshall, fails, talks]}}
suts:
";

/// Runs the scenario in a folder where a file may have so many blocks of 512 bytes.
fn run_within(blocks: u32, bench: &Bench, more: &[&str]) -> (Option<i32>, String, String) {
    let fails = bench.system("fails", "seq 1 5000; exit 4", "");
    let talks = bench.system("talks", "seq 1 5000; exec parshall relay pipeline.yaml", "");
    bench.file("tiny.yaml", &format!("{SCENARIO}{fails}{talks}"));
    let limited = format!("trap '' XFSZ; ulimit -f {blocks} && exec \"$0\" run tiny.yaml \"$@\"");
    let output = Command::new("/bin/sh")
        .args(["-c", &limited, env!("CARGO_BIN_EXE_parshall")])
        .args(more)
        .current_dir(bench.folder.path())
        .env_clear()
        .env("PATH", "/usr/bin:/bin")
        .output()
        .unwrap();
    let Output { status, stdout, stderr } = output;
    (status.code(), String::from_utf8(stdout).unwrap(), String::from_utf8(stderr).unwrap())
}

#[test]
fn a_disk_that_fills_up_during_a_run_costs_the_files_and_no_figures() {
    let bench = Bench::new();
    // Room for the check at the start, and for nothing larger.
    let (status, stdout, stderr) = run_within(8, &bench, &["--out", "out"]);
    assert_eq!(status, Some(3), "{stderr}");
    for part in ["sut=parshall", "sut=fails (failed)", "sut=talks", "lost"] {
        assert!(stdout.contains(part), "{part}\n{stdout}");
    }
    assert!(!stdout.contains("report.html"), "there is none: {stdout}");
    let error = stderr.lines().rfind(|line| line.starts_with("  x ")).unwrap();
    assert!(error.starts_with("  x results.json, "), "{error}");
    assert!(error.contains("report.html"), "{error}");
    assert!(error.contains(" in out can't be written: File too large"), "{error}");
    for cut in [
        "out/logs/sut=fails.1/relay.log can't be written: File too large",
        "a log is incomplete: out/logs/sut=talks.1/relay.log can't be written: File too large",
    ] {
        assert!(stdout.contains(cut), "{cut}\n{stdout}");
    }
    let results = bench.folder.path().join("out/results.json");
    assert!(!results.exists(), "no half of a file is left");

    let (status, stdout, stderr) = run_within(8, &bench, &["--out", "out"]);
    assert_eq!((status, stdout.as_str()), (Some(2), ""), "{stderr}");
    assert!(stderr.contains("out already contains `logs` of another run"), "{stderr}");
}

#[test]
fn a_full_disk_is_noticed_before_anything_is_measured() {
    let bench = Bench::new();
    let (status, stdout, stderr) = run_within(0, &bench, &[]);
    assert_eq!((status, stdout.as_str()), (Some(3), ""), "{stderr}");
    assert!(stderr.contains("can't be written: File too large"), "{stderr}");
    let left = std::fs::read_dir(bench.folder.path().join("results/tiny")).unwrap();
    assert_eq!(left.count(), 0, "no folder without results is left");
}
