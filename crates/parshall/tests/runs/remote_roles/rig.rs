//! Runs whose roles are started by another program.

use std::io::Write as _;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::running::{NAMING_PHASES, results_in};

/// A small pipeline under an even load.
pub(crate) const SCENARIO: &str = "\
scenario: elsewhere
hubs: {source: {name: source, partitions: 2}, destination: {name: destination}}
load: {mode: open, rate: 2000/s, payload: 24 B, batch: 10}
relay: {fan_out: 2, batch: {events: 32, wait: 1 ms}}
phases: {warm_up: 200 ms, measure: 2 s, drain: 20 s}
trials: 1
";

/// A folder for runs, and for a program by whose path its roles are known.
pub(crate) struct Bench {
    folder: tempfile::TempDir,
}

/// What a run came to.
pub(crate) struct Finished {
    pub(crate) status: Option<i32>,
    pub(crate) stderr: String,
    /// The content of `results.json`, which is in order by its schema.
    pub(crate) results: Value,
}

impl Bench {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        symlink(env!("CARGO_BIN_EXE_parshall"), folder.path().join("parshall")).unwrap();
        Self { folder }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The program as the roles of this bench call it.
    pub(crate) fn program(&self) -> String {
        self.path("parshall").display().to_string()
    }

    /// A section `roles` in which each of these is started by a command.
    pub(crate) fn roles(&self, launched: &[(&str, &[&str])]) -> String {
        let program = self.program();
        let role = |(role, launch): &(&str, &[&str])| {
            let launch = serde_json::to_string(launch).unwrap();
            format!("  {role}: {{launch: {launch}, program: {program}}}\n")
        };
        format!("roles:\n{}", launched.iter().map(role).collect::<String>())
    }

    /// `parshall run` of this scenario; `prefix` is what starts it.
    pub(crate) fn command(&self, prefix: &[&str], scenario: &str) -> Command {
        std::fs::write(self.path("elsewhere.yaml"), scenario).unwrap();
        let program = env!("CARGO_BIN_EXE_parshall");
        let words: Vec<&str> = prefix.iter().copied().chain([program, "run", "elsewhere.yaml"]).collect();
        let mut command = Command::new(words[0]);
        command.args(&words[1..]).current_dir(self.folder.path()).env_clear();
        command
    }

    pub(crate) fn run(&self, scenario: &str) -> Finished {
        self.finish(self.command(&[], scenario))
    }

    pub(crate) fn finish(&self, mut command: Command) -> Finished {
        let output = command.stdout(Stdio::null()).output().unwrap();
        Finished {
            status: output.status.code(),
            stderr: String::from_utf8(output.stderr).unwrap(),
            results: self.results(),
        }
    }

    pub(crate) fn start(&self, scenario: &str) -> Child {
        self.command(&[], scenario)
            .envs(NAMING_PHASES)
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap()
    }

    pub(crate) fn results(&self) -> Value {
        results_in(self.folder.path())
    }

    /// Processes whose command line names the program of this bench as what they run.
    pub(crate) fn own_roles(&self) -> Vec<u32> {
        let program = self.program();
        let processes = std::fs::read_dir("/proc").unwrap().filter_map(|entry| {
            let process_id = entry.ok()?.file_name().to_str()?.parse::<u32>().ok()?;
            let line = std::fs::read(format!("/proc/{process_id}/cmdline")).ok()?;
            line.starts_with(program.as_bytes()).then_some(process_id)
        });
        processes.collect()
    }

    /// Waits for the last role to have ended, for which the end of its input is the only reason.
    pub(crate) fn until_no_role_is_left(&self) {
        let deadline = Instant::now() + Duration::from_secs(60);
        while !self.own_roles().is_empty() {
            assert!(Instant::now() < deadline, "roles are left: {:?}", self.own_roles());
            thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Finished {
    /// The only trial, which came to its end and lost nothing. Whether the machine was fast enough does not matter here.
    pub(crate) fn whole_trial(&self) -> &Value {
        let case = &self.results["cases"][0];
        let findings = case["findings"].as_array().unwrap();
        assert!(
            findings.iter().all(|finding| finding["severity"] != "failure"),
            "{}\n{findings:#?}",
            self.stderr
        );
        for kind in ["lost", "corrupted", "reordered", "unexpected", "unknown"] {
            assert_eq!(case["delivery"][kind], 0, "{}", case["delivery"]);
        }
        assert!(case["delivery"]["sent"].as_u64() > Some(3_000), "{}", case["delivery"]);
        &case["trials"][0]
    }

    /// The messages of the findings of a kind, each with its hint.
    pub(crate) fn findings(&self, kind: &str) -> Vec<String> {
        let findings = self.results["cases"][0]["findings"].as_array().unwrap();
        let findings = findings.iter().filter(|finding| finding["kind"] == kind);
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        findings.map(|finding| format!("{}\n{}", text(&finding["message"]), text(&finding["hint"]))).collect()
    }
}

/// Asserts that a trial's latency is stated, unless the clocks are known less well than it is long.
pub(crate) fn has_latency_or_says_why(finished: &Finished) {
    let is_stated = finished.whole_trial()["latency_us"]["p50"].is_number();
    let is_in_doubt = !finished.findings("clock-uncertain").is_empty();
    assert!(is_stated != is_in_doubt, "{}", finished.whole_trial());
}

/// Asserts that the clock of every role elsewhere was ahead by this, within the bound that is stated.
pub(crate) fn clocks_are_ahead_by(trial: &Value, roles: &[(&str, f64)]) {
    let remote = trial["remote"].as_array().unwrap();
    assert_eq!(remote.len(), roles.len(), "{remote:?}");
    for (role, ahead_us) in roles {
        let role = remote.iter().find(|remote| remote["role"] == *role).unwrap();
        let clock = |figure: &str| role["clock"][figure].as_f64().unwrap();
        let error = (clock("offset_us") - ahead_us).abs();
        assert!(clock("bound_us") > 0.0 && error <= clock("bound_us"), "{role}");
        assert!(clock("exchanges") > 0.0 && clock("round_trip_us") > 0.0, "{role}");
    }
}

/// Says that a test was skipped, past the test harness, which would keep it to itself.
pub(crate) fn skip(test: &str, reason: &str) {
    let _ = writeln!(std::io::stderr(), "\nSKIPPED: {test}: {reason}\n");
}

/// Whether a command exits with success, or else what it said.
pub(crate) fn succeeds(command: &[&str]) -> Result<(), String> {
    let output = Command::new(command[0]).args(&command[1..]).output();
    match output {
        Ok(output) if output.status.success() => Ok(()),
        Ok(output) => Err(format!("`{}`: {}", command.join(" "), String::from_utf8_lossy(&output.stderr))),
        Err(error) => Err(format!("`{}`: {error}", command.join(" "))),
    }
}

pub(crate) fn text(path: &Path) -> String {
    path.display().to_string()
}
