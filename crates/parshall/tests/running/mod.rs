//! `parshall run` with a hand on its roles, and the results that runs leave.

#![allow(dead_code, reason = "each binary uses a part of it")]

use std::io::{BufRead as _, BufReader, Read as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, Stdio};

use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

/// The variable for a log that names each phase of a run as it begins.
pub(crate) const NAMING_PHASES: [(&str, &str); 1] = [("PARSHALL_LOG", "info,parshall::progress=debug")];

/// A run in a directory of its own.
pub(crate) struct Run {
    folder: tempfile::TempDir,
    child: Child,
    stderr: BufReader<ChildStderr>,
    said: String,
}

/// What it came to.
pub(crate) struct Finished {
    pub(crate) status: Option<i32>,
    pub(crate) said: String,
    /// The content of `results.json`, which is in order by its schema.
    pub(crate) results: Value,
    pub(crate) report: String,
    /// The text of `latency.hlog`.
    pub(crate) latency_log: String,
    /// The relay's own log, of all trials.
    pub(crate) relay_log: String,
}

/// How long a process was stopped, as the test saw it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pause {
    /// At least: from its being seen stopped to the moment before it was told to go on.
    pub(crate) least: Duration,
    /// At most: from the moment before it was told to stop to the one after it was told to go on.
    pub(crate) most: Duration,
}

/// Far longer than any of these runs takes.
const LONGEST_RUN: Duration = Duration::from_secs(180);

impl Run {
    pub(crate) fn start(scenario: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("mine.yaml"), scenario).unwrap();
        let mut child = Command::new(env!("CARGO_BIN_EXE_parshall"))
            .args(["run", "mine.yaml"])
            .current_dir(folder.path())
            .env_clear()
            .envs(NAMING_PHASES)
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        Self { stderr: BufReader::new(child.stderr.take().unwrap()), folder, child, said: String::new() }
    }

    /// Waits until the run says that it has come to a phase.
    pub(crate) fn until(&mut self, phase: &str) {
        while !self.said.lines().any(|line| line.contains(phase)) {
            let read = self.stderr.read_line(&mut self.said).unwrap();
            assert_ne!(read, 0, "it ended: {}", self.said);
        }
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// The process of a role.
    pub(crate) fn role(&self, role: &str) -> Pid {
        let ends_with_role = |id: &u32| {
            let line = std::fs::read(format!("/proc/{id}/cmdline")).unwrap_or_default();
            line.ends_with(format!("\0role\0{role}\0").as_bytes())
        };
        let id = self.children().into_iter().find(ends_with_role).unwrap();
        Pid::from_raw(i32::try_from(id).unwrap()).unwrap()
    }

    /// Its processes that still run.
    fn children(&self) -> Vec<u32> {
        let processes = std::fs::read_dir("/proc").unwrap();
        let ids = processes.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
        let is_child = |(state, parent): (char, u32)| parent == self.child.id() && state != 'Z';
        ids.filter(|id| stat(*id).is_some_and(is_child)).collect()
    }

    /// Waits for its end; one that does not come fails the test.
    pub(crate) fn finish(mut self) -> Finished {
        let id = Pid::from_child(&self.child);
        let (ended, wait) = mpsc::channel::<()>();
        let watchdog = thread::spawn(move || {
            if wait.recv_timeout(LONGEST_RUN) == Err(RecvTimeoutError::Timeout) {
                kill_process(id, Signal::KILL).unwrap();
            }
        });
        self.stderr.read_to_string(&mut self.said).unwrap();
        drop(ended);
        watchdog.join().unwrap();
        let status = self.child.wait().unwrap().code();
        assert_eq!(self.children(), Vec::<u32>::new(), "nothing is left that runs");
        let read =
            |name: &str| std::fs::read_to_string(results_folder(self.folder.path()).join(name)).unwrap();
        let mut relay_log = String::new();
        for trial in std::fs::read_dir(results_folder(self.folder.path()).join("logs")).unwrap() {
            let log = trial.unwrap().path().join("relay.log");
            relay_log += &std::fs::read_to_string(log).unwrap_or_default();
        }
        let results = results_in(self.folder.path());
        Finished {
            status,
            said: self.said,
            results,
            report: read("report.html"),
            latency_log: read("latency.hlog"),
            relay_log,
        }
    }
}

impl Finished {
    pub(crate) fn case(&self) -> &Value {
        &self.results["cases"][0]
    }

    /// The messages of the case's findings of a kind.
    pub(crate) fn findings(&self, kind: &str) -> Vec<&str> {
        let findings = self.all_findings().iter();
        findings
            .filter(|finding| finding["kind"] == kind)
            .map(|finding| finding["message"].as_str().unwrap())
            .collect()
    }

    /// What the case's findings advise to do.
    pub(crate) fn hints(&self) -> Vec<&str> {
        let findings = self.all_findings().iter();
        findings.filter_map(|finding| finding["hint"].as_str()).collect()
    }

    fn all_findings(&self) -> &Vec<Value> {
        self.case()["findings"].as_array().unwrap()
    }
}

/// Stops a process for `length`.
pub(crate) fn pause(process: Pid, length: Duration) -> Pause {
    let told_to_stop = Instant::now();
    kill_process(process, Signal::STOP).unwrap();
    let id = process.as_raw_nonzero().get().unsigned_abs();
    while stat(id).unwrap().0 != 'T' {
        std::thread::yield_now();
    }
    let stopped = Instant::now();
    std::thread::sleep(length);
    let least = stopped.elapsed();
    kill_process(process, Signal::CONT).unwrap();
    Pause { least, most: told_to_stop.elapsed() }
}

/// State and parent of a process.
fn stat(id: u32) -> Option<(char, u32)> {
    let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
    // The name before them may hold anything, but ends with the last parenthesis.
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
    Some((fields.next()?.chars().next()?, fields.next()?.parse().ok()?))
}

/// The results of the latest run in this folder, all runs in it being of one scenario.
pub(crate) fn results_folder(folder: &Path) -> PathBuf {
    let results = folder.join("results");
    let entries =
        std::fs::read_dir(&results).unwrap_or_else(|error| panic!("{}: {error}", results.display()));
    let scenarios: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    let [scenario] = scenarios.as_slice() else { panic!("{scenarios:?}") };
    scenario.join("latest")
}

/// The `results.json` of the latest run in this folder, which is in order by its schema.
pub(crate) fn results_in(folder: &Path) -> Value {
    let path = results_folder(folder).join("results.json");
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let results = serde_json::from_str(&text).unwrap();
    assert_valid(&results);
    results
}

fn assert_valid(results: &Value) {
    let schema = include_str!("../../../../schema/results.schema.json");
    let validator = jsonschema::validator_for(&serde_json::from_str(schema).unwrap()).unwrap();
    let mistakes = validator.iter_errors(results);
    let mistakes: Vec<String> = mistakes.map(|error| format!("{}: {error}", error.instance_path())).collect();
    assert!(mistakes.is_empty(), "{mistakes:#?}");
}
