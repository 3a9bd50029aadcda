//! Roles that another program starts: on the same machine by `env` and a shell, over a real `sshd`, in a network
//! namespace, and with a clock of their own in a time namespace.
//!
//! What this machine does not have or permit is said on standard error, and skipped.

mod namespaces;
mod rig;
mod ssh;

use rig::{Bench, SCENARIO, clocks_are_ahead_by, has_latency_or_says_why};

#[test]
fn every_role_can_be_started_by_another_program() {
    let bench = Bench::new();
    let shell = ["sh", "-c", "exec \"$0\" \"$@\""];
    let roles = bench.roles(&[("hub", &["env"]), ("load", &shell), ("relay", &["env"]), ("sink", &shell)]);
    let finished = bench.run(&format!("{SCENARIO}{roles}"));
    let trial = finished.whole_trial();
    // It is one machine, so the truth is known: none of the clocks is ahead.
    clocks_are_ahead_by(trial, &["hub", "load", "relay", "sink"].map(|role| (role, 0.0)));
    has_latency_or_says_why(&finished);
    assert_eq!(finished.findings("clock-offset").len(), 4);
    for role in ["hub", "load", "relay", "sink"] {
        let used = &trial["roles"][role];
        assert!(used["cpu_seconds"].as_f64() > Some(0.0), "{role}: {used}");
        assert!(used["memory_peak_bytes"].as_u64() > Some(1_000_000), "{role}: {used}");
        // A sink grants credit for thousands of events at once, and may send nothing else.
        let carried = if role == "sink" { "bytes_received" } else { "bytes_sent" };
        assert!(used["per_million_events"][carried].as_f64() > Some(0.0), "{role}: {used}");
    }
    assert!(trial["stages"]["delivery"].is_null(), "dates of another machine: {}", trial["stages"]);
    assert!(trial["other_cpu_seconds"].is_null());
    let params = &finished.results["cases"][0]["params"];
    assert_eq!(params["roles.load.launch"], serde_json::json!(["sh"]), "no arguments, which may name hosts");
    bench.until_no_role_is_left();
}

#[test]
fn a_role_without_a_command_shares_the_clock_and_has_no_figures_of_one() {
    let bench = Bench::new();
    let finished = bench.run(&format!("{SCENARIO}{}", bench.roles(&[("relay", &["env"])])));
    let trial = finished.whole_trial();
    clocks_are_ahead_by(trial, &[("relay", 0.0)]);
    assert!(trial["latency_us"]["p50"].is_number(), "load and sink have one clock: {trial}");
    assert_eq!(finished.findings("clock-offset").len(), 1);
}

/// A scenario whose load is started by a shell that does this.
fn started_by(bench: &Bench, script: &str) -> rig::Finished {
    bench.run(&format!("{SCENARIO}{}", bench.roles(&[("load", &["sh", "-c", script])])))
}

#[test]
fn a_command_that_starts_no_role_fails_its_case_with_its_words_and_what_to_do() {
    let bench = Bench::new();
    let program = bench.program();
    let hello = r#"{"hello":{"build":{"version":"0.0.0","sources":"of old"},"machine":{"cpu_model":"x","cores":1,"memory_bytes":1,"kernel":"k"}}}"#;
    for (script, said) in [
        (
            "echo 'connect to host vm1: Connection refused' >&2; exit 255",
            &["exited without a message (exit status: 255)", "Connection refused", "run the command by hand"]
                [..],
        ),
        ("exec no-such-program", &["(exit status: 127)", "no-such-program", "`roles.load.program`"]),
        (
            &format!("echo '{hello}'; cat"),
            &["is parshall 0.0.0 (of old), and this is", "install the same build"],
        ),
        (
            "echo Welcome to vm1; exec \"$0\" \"$@\"",
            &["said something else", "Welcome to vm1", "standard output"],
        ),
    ] {
        let finished = started_by(&bench, script);
        assert_eq!(finished.status, Some(1), "{}", finished.stderr);
        let [finding] = &finished.findings("role-failed")[..] else { panic!("{}", finished.results) };
        assert!(finding.starts_with("the load did not start: `sh -c "), "{finding}");
        assert!(finding.contains(&format!("{program} role load")), "the whole command: {finding}");
        for said in said {
            assert!(finding.contains(said), "{said}: {finding}");
        }
    }
    let finished = bench.run(&format!("{SCENARIO}{}", bench.roles(&[("sink", &["/no/such/ssh"])])));
    let [finding] = &finished.findings("role-failed")[..] else { panic!("{}", finished.results) };
    assert!(finding.contains("the sink can't be started from /no/such/ssh"), "{finding}");
    bench.until_no_role_is_left();
}

#[test]
fn a_role_that_no_signal_reaches_ends_with_its_input() {
    let bench = Bench::new();
    // In a session of its own, it is not in the group that is killed.
    let roles = bench.roles(&[("load", &["setsid", "--wait"]), ("sink", &["setsid", "--wait"])]);
    let child = bench.start(&format!("{SCENARIO}{roles}").replace("measure: 2 s", "measure: 1 h"));
    ssh::interrupt_once_it_measures(child, &bench);
}

#[test]
fn a_slow_way_to_a_role_widens_the_bound() {
    let bench = Bench::new();
    let slow = "\"$0\" \"$@\" | while IFS= read -r line; do sleep 0.02; printf '%s\\n' \"$line\"; done";
    let roles = bench.roles(&[("sink", &["sh", "-c", slow])]);
    let finished = bench.run(&format!("{SCENARIO}{roles}"));
    let trial = finished.whole_trial();
    clocks_are_ahead_by(trial, &[("sink", 0.0)]);
    assert!(trial["remote"][0]["clock"]["bound_us"].as_f64() >= Some(10_000.0), "{trial}");
    has_latency_or_says_why(&finished);
}
