//! `parshall serve --time-control` and `parshall time`.

use std::process::{Command, Stdio};

use crate::serving::{outcome, serve};

/// A service with a queue whose time is under control, for a shell script.
fn controlled_for(script: &str) -> Command {
    let mut command = serve(&["--queue", "jobs", "--time-control", "--", "/bin/sh", "-c", script]);
    command.stdin(Stdio::null());
    command
}

/// A message without the breaks of its lines.
fn unwrapped(message: &str) -> String {
    message.split_whitespace().filter(|word| *word != "│").collect::<Vec<_>>().join(" ")
}

const PARSHALL: &str = env!("CARGO_BIN_EXE_parshall");

#[test]
fn a_command_advances_the_time_of_the_service_that_runs_it() {
    let script = format!(
        "{PARSHALL} time advance 90min && {PARSHALL} time advance 1d && {PARSHALL} time show --format json"
    );
    let (status, stdout, stderr) = outcome(&mut controlled_for(&script));
    assert_eq!((status, &*stderr), (Some(0), ""), "{stdout}");
    let lines: Vec<&str> = stdout.lines().collect();
    assert!(lines.len() == 3 && lines[0].ends_with(", 90 min ahead of the machine"), "{stdout}");
    let shown: serde_json::Value = serde_json::from_str(lines[2]).unwrap();
    assert_eq!(shown["offset_ms"], (24 * 60 + 90) * 60_000);
}

#[test]
fn what_can_not_be_advanced_says_why_and_what_to_do() {
    for (script, expected, reasons) in [
        ("time advance", 2, &["<DURATION>"][..]),
        ("time advance 10", 2, &["lacks its unit"]),
        ("time advance 1h --to 2099-01-01", 2, &["cannot be used with"]),
        ("time advance --to 2001-01-01T00:00:00Z", 3, &["refuses", "can't be set back"]),
        ("time show --service localhost", 2, &["--service", "http://127.0.0.1:5300"]),
        (
            "time show --service http://127.0.0.1:9",
            3,
            &["can't be reached", "--time-control", "PARSHALL_TIME_URL"],
        ),
    ] {
        let (status, stdout, stderr) = outcome(&mut controlled_for(&format!("{PARSHALL} {script}")));
        assert_eq!((status, &*stdout), (Some(expected), ""), "{script}: {stderr}");
        for reason in reasons {
            assert!(unwrapped(&stderr).contains(reason), "{script}: {stderr}");
        }
    }
}

#[test]
fn the_time_of_a_usual_service_stays_that_of_the_machine() {
    let script = format!(
        "test -z \"$PARSHALL_TIME_URL\" && {PARSHALL} time advance 1h --service \"${{PARSHALL_HEALTH_URL%/health}}\""
    );
    let mut command = serve(&["--", "/bin/sh", "-c", &script]);
    let (status, _, stderr) = outcome(command.stdin(Stdio::null()));
    assert_eq!(status, Some(3), "{stderr}");
    assert!(unwrapped(&stderr).contains("start the service with --time-control"), "{stderr}");
}

#[test]
fn time_is_under_control_on_loopback_and_in_memory_alone() {
    for (arguments, reasons) in [
        (
            &["--kafka", "0.0.0.0:0", "--open-to-anyone"][..],
            &["Kafka", "0.0.0.0:0", "--kafka a loopback address"][..],
        ),
        (&["--data-dir", "/nowhere"], &["--data-dir", "cannot be used with"]),
    ] {
        let arguments: Vec<&str> =
            arguments.iter().chain(&["--time-control", "--", "true"]).copied().collect();
        let (status, _, stderr) = outcome(serve(&arguments).stdin(Stdio::null()));
        assert_eq!(status, Some(2), "{stderr}");
        for reason in reasons {
            assert!(unwrapped(&stderr).contains(reason), "{arguments:?}: {stderr}");
        }
    }
}
