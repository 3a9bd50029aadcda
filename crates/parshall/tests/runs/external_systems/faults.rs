//! Commands that do not do what they should: each fails its own case, with its last words, and no other.

use rustix::process::{Pid, Signal, kill_process};

use crate::running::results_folder;

use super::rig::{Bench, lives, until};

const GOOD: &str = "exec parshall relay pipeline.yaml";

#[test]
fn a_command_that_cannot_do_its_work_fails_its_case_with_its_last_words_and_the_others_run() {
    let bench = Bench::new();
    let definitions = [
        "  missing: {command: [/no/such/program]}\n".to_owned(),
        bench.system("early", "echo no licence found >&2; exit 3", ""),
        bench.system(
            "late",
            "echo still compiling; exec sleep 1000",
            ", ready: {line: listening}, ready_within: 500 ms",
        ),
        bench.system("idle", "echo connected to nothing; exec sleep 1000", ", ready_within: 1 s"),
        bench.system("good", &format!("echo listening; {GOOD}"), ", ready: {line: listening}"),
    ];
    let names = ["missing", "early", "late", "idle", "good"];
    let finished = bench.run(&names, &definitions.concat());
    assert_eq!(finished.status, Some(1), "{}", finished.stderr);
    finished.intact("sut=good");
    for (name, reason, last_words) in [
        ("missing", "can't be started from /no/such/program", ""),
        ("early", "exit status: 3", "no licence found"),
        ("late", "wrote no line with `listening` within 500 ms", "still compiling"),
        ("idle", "no event of `idle` arrived within 1 s", "connected to nothing"),
    ] {
        let case = format!("sut={name}");
        assert_eq!(finished.case(&case)["status"], "failed");
        let failures = finished.findings(&case, "role-failed");
        assert_eq!(failures.len(), 1, "{name}");
        assert!(failures[0].contains(reason), "{}", failures[0]);
        assert!(failures[0].contains(last_words), "{}", failures[0]);
        assert!(failures[0].contains(name), "{}", failures[0]);
    }
    let log = results_folder(bench.folder.path()).join("logs/sut=early.1/relay.log");
    let log = std::fs::read_to_string(log).unwrap();
    assert!(log.contains("no licence found"), "{log}");
}

#[test]
fn a_command_that_ignores_sigterm_is_killed_and_its_figures_stand() {
    let bench = Bench::new();
    let script = "echo $$ > pid
parshall relay pipeline.yaml &
trap '' TERM
wait
while :; do sleep 1000; done";
    let stubborn = bench.system("stubborn", script, ", stop_within: 300 ms");
    let finished = bench.run(&["stubborn"], &stubborn);
    assert_eq!(finished.status, Some(0), "{}", finished.stderr);
    finished.intact("sut=stubborn");
    let remarks = finished.findings("sut=stubborn", "other");
    let is_killed = |remark: &String| remark.contains("did not exit within 300 ms of SIGTERM");
    assert!(remarks.iter().any(is_killed), "{remarks:?}");
    assert!(!lives(&bench.line_of("pid")));
}

#[test]
fn what_a_command_leaves_behind_is_ended() {
    let bench = Bench::new();
    let script = "setsid sh -c 'echo $$ > child; exec sleep 1000' &
while ! [ -s child ]; do :; done
exit 0";
    let parent = bench.system("parent", script, "");
    let finished = bench.run(&["parent"], &parent);
    assert_eq!(finished.status, Some(1), "{}", finished.stderr);
    let failures = finished.findings("sut=parent", "role-failed");
    assert!(failures[0].contains("exit status: 0"), "{failures:?}");
    assert!(!lives(&bench.line_of("child")));
}

#[test]
fn a_command_dies_with_the_lab() {
    let bench = Bench::new();
    let script = "echo $$ > pid; exec sleep 1000";
    let endless = bench.system("endless", script, ", ready: {line: never}");
    let mut lab = bench.start(&["endless"], &endless);
    let command = bench.line_of("pid");
    assert!(lives(&command));
    kill_process(Pid::from_child(&lab), Signal::KILL).unwrap();
    lab.wait().unwrap();
    until(|| (!lives(&command)).then_some(()));
}

#[test]
fn a_system_that_is_not_built_is_skipped_and_says_what_builds_it() {
    let bench = Bench::new();
    let definitions = "  absent: {command: [absent/run], build: make absent}\n  \
                       unable: {command: [/bin/true], requires: [no-such-language]}\n";
    let finished = bench.run(&["absent", "unable", "parshall"], definitions);
    assert_eq!(finished.status, Some(0), "{}", finished.stderr);
    finished.intact("sut=parshall");
    for (name, reason) in [
        ("absent", "`make absent` builds it"),
        ("unable", "needs `no-such-language`, which is not on the path"),
    ] {
        let case = format!("sut={name}");
        assert_eq!(finished.case(&case)["status"], "skipped");
        let reasons = finished.findings(&case, "case-skipped");
        assert!(reasons[0].contains(reason), "{reasons:?}");
    }
}
