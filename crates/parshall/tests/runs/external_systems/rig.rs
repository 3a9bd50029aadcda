//! Runs of a small scenario whose system under test is a shell script around `parshall relay`.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use std::time::{Duration, Instant};

use serde_json::Value;

use crate::running::results_in;

/// A pipeline that is told everything by the variables of a command.
pub(crate) const PIPELINE: &str = "\
source:
  event_hubs:
    connection_string: ${PARSHALL_SOURCE_CONNECTION_STRING}
    hub: ${PARSHALL_SOURCE_HUB}
    consumer_group: ${PARSHALL_CONSUMER_GROUP}
sink:
  event_hubs:
    connection_string: ${PARSHALL_DESTINATION_CONNECTION_STRING}
    hub: ${PARSHALL_DESTINATION_HUB}
checkpoint: {store: {files: \"${PARSHALL_FOLDER}/${WHO:-one}\"}}
start: earliest
fan_out: ${PARSHALL_FAN_OUT}
batch: {events: \"${PARSHALL_BATCH}\", wait: \"${PARSHALL_MAX_WAIT_MS} ms\"}
prefetch: ${PARSHALL_PREFETCH}
";

/// The same over TLS.
pub(crate) fn tls_pipeline() -> String {
    let authority = "${PARSHALL_DESTINATION_HUB}\n    certificate_authority: ${PARSHALL_TLS_CA_FILE}";
    PIPELINE
        .replace(
            "    consumer_group",
            "    certificate_authority: ${PARSHALL_TLS_CA_FILE}\n    consumer_group",
        )
        .replace("${PARSHALL_DESTINATION_HUB}", authority)
}

const SCENARIO: &str = "\
scenario: beside-one-another
hubs: {source: {partitions: 4}, destination: {partitions: 3}}
load: {payload: 24 B, batch: 50, max_lag: 5000}
relay: {fan_out: 3, batch: {events: 32, wait: 5 ms}, prefetch: 200}
";

const PHASES: &str = "phases: {warm_up: 100 ms, measure: 700 ms, drain: 30 s}\n";

/// A directory with scripts, pipelines and a scenario; one run on this machine at a time.
pub(crate) struct Bench {
    pub(crate) folder: tempfile::TempDir,
}

/// What a run came to.
pub(crate) struct Finished {
    pub(crate) status: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    /// The content of `results.json`, which is in order by its schema.
    pub(crate) results: Value,
}

impl Bench {
    pub(crate) fn new() -> Self {
        let bench = Self { folder: tempfile::tempdir().unwrap() };
        bench.file("pipeline.yaml", PIPELINE);
        bench
    }

    pub(crate) fn file(&self, name: &str, content: &str) -> PathBuf {
        let path = self.folder.path().join(name);
        std::fs::write(&path, content).unwrap();
        path
    }

    /// The definition of a system that does what the shell script says. `parshall` is this program in it.
    pub(crate) fn system(&self, name: &str, script: &str, more: &str) -> String {
        let program = env!("CARGO_BIN_EXE_parshall");
        let script = script.replace("parshall ", &format!("{program} "));
        let path = self.file(&format!("{name}.sh"), &format!("{script}\n"));
        format!("  {name}: {{command: [/bin/sh, {}]{more}}}\n", path.display())
    }

    /// Runs the systems one after the other, as the sweep `sut`. Behind the definitions may come `phases` of its own.
    pub(crate) fn run(&self, systems: &[&str], definitions: &str) -> Finished {
        self.run_scenario(SCENARIO, systems, definitions)
    }

    /// The same in another scenario.
    pub(crate) fn run_scenario(&self, scenario: &str, systems: &[&str], definitions: &str) -> Finished {
        let mut child = self.start_scenario(scenario, systems, definitions);
        let stderr = std::io::read_to_string(child.stderr.take().unwrap()).unwrap();
        let stdout = std::io::read_to_string(child.stdout.take().unwrap()).unwrap();
        let status = child.wait().unwrap().code();
        assert!(self.folder.path().join("results").exists(), "there are no results: {stderr}");
        let results = results_in(self.folder.path());
        Finished { status, stdout, stderr, results }
    }

    pub(crate) fn start(&self, systems: &[&str], definitions: &str) -> Child {
        self.start_scenario(SCENARIO, systems, definitions)
    }

    fn start_scenario(&self, scenario: &str, systems: &[&str], definitions: &str) -> Child {
        let suts = match definitions {
            "" => String::new(),
            definitions => format!("suts:\n{definitions}"),
        };
        let sweep = format!("sweeps: {{sut: {{sut: [{}]}}}}\n", systems.join(", "));
        let phases = match definitions.contains("phases:") {
            true => "",
            false => PHASES,
        };
        self.file("mine.yaml", &format!("{scenario}{phases}{suts}{sweep}"));
        Command::new(env!("CARGO_BIN_EXE_parshall"))
            .args(["run", "mine.yaml", "--format", "table"])
            .current_dir(self.folder.path())
            .env_clear()
            .env("PATH", "/usr/bin:/bin")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap()
    }

    /// The content of a file once it has a whole line.
    pub(crate) fn line_of(&self, name: &str) -> String {
        let path = self.folder.path().join(name);
        until(|| {
            let text = std::fs::read_to_string(&path).unwrap_or_default();
            let line = text.split_once('\n')?.0;
            Some(line.to_owned())
        })
    }
}

impl Finished {
    pub(crate) fn case(&self, name: &str) -> &Value {
        let cases = self.results["cases"].as_array().unwrap();
        let found = cases.iter().find(|case| case["name"] == name);
        found.unwrap_or_else(|| panic!("there is no {name}: {}", self.stderr))
    }

    /// The case passed and every event arrived.
    pub(crate) fn intact(&self, name: &str) -> &Value {
        let case = self.case(name);
        assert_eq!(case["status"], "passed", "{:#}", case["findings"]);
        let delivery = &case["delivery"];
        assert!(delivery["sent"].as_u64().unwrap() > 0, "{delivery}");
        for kind in ["lost", "corrupted", "unexpected", "foreign"] {
            assert_eq!(delivery[kind], 0, "{delivery}");
        }
        case
    }

    /// The messages, with their hints, of a case's findings of that kind.
    pub(crate) fn findings(&self, name: &str, kind: &str) -> Vec<String> {
        let findings = self.case(name)["findings"].as_array().unwrap().iter();
        findings
            .filter(|finding| finding["kind"] == kind)
            .map(|finding| {
                let hint = finding["hint"].as_str().unwrap_or_default();
                format!("{}\n{hint}", finding["message"].as_str().unwrap())
            })
            .collect()
    }
}

/// Asks until there is an answer; fails where there is none for far longer than anything here takes.
pub(crate) fn until<T>(mut ask: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + Duration::from_secs(120);
    loop {
        if let Some(answer) = ask() {
            return answer;
        }
        assert!(Instant::now() < deadline, "it does not come");
        std::thread::yield_now();
    }
}

/// Whether a process is there and has not ended.
pub(crate) fn lives(process_id: &str) -> bool {
    let stat = std::fs::File::open(Path::new("/proc").join(process_id).join("stat"));
    let line = stat.ok().and_then(|stat| BufReader::new(stat).lines().next());
    line.is_some_and(|line| line.is_ok_and(|line| !line.contains(") Z ")))
}
