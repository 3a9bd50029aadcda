//! Whoever is killed or interrupted, there is a whole report, and it says who and how.

use rustix::process::{Signal, kill_process};

use crate::running::Run;
use crate::stop_signals::stop_signals;

const SCENARIO: &str = "\
scenario: deaths
hubs: {source: {partitions: 4}, destination: {partitions: 4}}
load: {max_lag: 5000, batch: 50}
relay: {fan_out: 4}
phases: {warm_up: 1 s, measure: 1 min}
trials: 1
";

#[test]
fn a_killed_role_is_named_with_its_signal_in_valid_results_and_report() {
    for role in ["hub", "load", "relay", "sink"] {
        let mut run = Run::start(SCENARIO);
        run.until(": measuring");
        kill_process(run.role(role), Signal::KILL).unwrap();
        let finished = run.finish();
        assert_eq!(finished.status, Some(1), "{}", finished.said);
        let case = finished.case();
        assert_eq!((&case["status"], &case["passed"]), (&"failed".into(), &false.into()), "{role}");
        assert_eq!(finished.results["complete"], false);
        let findings = finished.findings("role-failed");
        let [message] = findings.as_slice() else {
            panic!("{role}: {findings:?}");
        };
        assert!(message.starts_with(&format!("the {role} failed: it exited without a message")), "{message}");
        assert!(message.contains("SIGKILL"), "{message}");
        assert!(finished.report.contains(&format!("the {role} failed")), "{role}");
        assert_eq!(case["trials"][0]["interrupted"], true, "its figures do not count");
    }
}

#[test]
fn an_interruption_in_any_phase_leaves_valid_results_that_say_so() {
    for phase in [": starting", ": warming up", ": measuring"] {
        for signal in stop_signals() {
            let mut run = Run::start(SCENARIO);
            run.until(phase);
            run.signal(signal);
            let finished = run.finish();
            assert_eq!(finished.status, Some(130), "{phase}: {}", finished.said);
            assert_eq!(finished.results["complete"], false, "{phase}");
            assert_eq!(finished.findings("role-failed"), Vec::<&str>::new(), "{phase}");
            assert_eq!(finished.case()["status"], "incomplete", "{phase}");
        }
    }
}
