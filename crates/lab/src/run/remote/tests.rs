//! Roles elsewhere that stop answering, in virtual time.

use std::{path::Path, pin::Pin, time::Duration};

use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, copy, duplex, sink, split};

use crate::{
    limits::Limiter,
    progress::Unobserved,
    report::ResultsFolder,
    results::{Case, Role, RunIdentity},
    roles::{
        process::{LaunchError, RoleControl, RoleEnd, RoleExit, RoleHandle, RoleLauncher},
        protocol::{ClockAnswer, Hello, Line, Report},
    },
    run::{RunOptions, cancellation, run},
    scenario::{CaseOptions, Launch, Scenario},
};

const SCENARIO: &str = "\
scenario: elsewhere
roles: {hub: {launch: [ssh, vm1]}}
load: {mode: saturate}
phases: {warm_up: 1 h}
trials: 1
";

/// Starts roles that are ready at once and do nothing. The one elsewhere answers as many questions as this.
struct Answering(usize);

struct Control;

impl RoleControl for Control {
    fn process_id(&self) -> Option<u32> {
        None
    }

    fn end(self: Box<Self>, _: Duration) -> Pin<Box<dyn Future<Output = RoleExit> + Send>> {
        let last_log_lines = vec!["client_loop: send disconnect: Broken pipe".to_owned()];
        Box::pin(async { RoleExit { end: RoleEnd::Killed, last_log_lines, log_error: None } })
    }
}

impl RoleLauncher for Answering {
    fn launch(&self, _: Role, _: &str, launch: Option<&Launch>, _: &Path) -> Result<RoleHandle, LaunchError> {
        let (ours, theirs) = duplex(1 << 16);
        let (output, input) = split(ours);
        let mut answers = launch.map_or(0, |_| self.0);
        tokio::spawn(async move {
            let (read, mut write) = split(theirs);
            let mut lines = BufReader::new(read).lines();
            let mut reports = vec![Report::Hello(Box::new(Hello::of_this_process()))];
            loop {
                for report in reports.drain(..) {
                    let mut line = serde_json::to_vec(&report).expect("a report is JSON");
                    line.push(b'\n');
                    write.write_all(&line).await.expect("the test reads");
                }
                let Ok(Some(line)) = lines.next_line().await else { break };
                match serde_json::from_str(&line).expect("a line of ours") {
                    Line::Clock(question) if answers > 0 => {
                        answers -= 1;
                        let (asked_ns, usage) = (question.asked_ns, None);
                        let (heard_ns, answered_ns) = (asked_ns, asked_ns);
                        reports.push(Report::Clock(ClockAnswer { asked_ns, heard_ns, answered_ns, usage }));
                    }
                    Line::Role(_) => {
                        let ready =
                            r#"{"ready":{"entry_points":[{"connection":{},"connection_string":"x"}]}}"#;
                        reports.push(serde_json::from_str(ready).expect("a report"));
                    }
                    Line::Clock(_) | Line::Do(_) => {}
                }
            }
            let _ = copy(&mut lines.into_inner(), &mut sink()).await;
        });
        Ok(RoleHandle { input: Box::new(input), output: Box::new(output), control: Box::new(Control) })
    }
}

async fn run_answering(answers: usize) -> Case {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let (_canceller, cancellation) = cancellation();
    let limiter = Limiter::affinity_only("there are no processes here");
    let cases = Scenario::parse("elsewhere.yaml", SCENARIO).expect("a scenario");
    let cases = cases.cases(&CaseOptions::default()).expect("cases");
    let options = RunOptions {
        scenario: "elsewhere".to_owned(),
        description: None,
        prices: None,
        identity: RunIdentity {
            version: "0".to_owned(),
            command: "test".to_owned(),
            target: "embedded".to_owned(),
            seed: 1,
        },
        folder: ResultsFolder::create(folder.path()).expect("the folder can be written"),
    };
    let mut outcome = run(&cases, options, &Answering(answers), &limiter, &Unobserved, cancellation).await;
    outcome.results.cases.remove(0)
}

#[tokio::test(start_paused = true)]
async fn a_role_that_greets_and_then_says_nothing_has_not_started() {
    let case = run_answering(3).await;
    let message = &case.findings[0].message;
    let expected = "the hub did not start: `ssh vm1 parshall role hub` did not report within 30 s";
    assert!(message.starts_with(expected), "{message}");
    let hint = case.findings[0].hint.as_deref().unwrap_or_default();
    assert!(hint.contains("run the command by hand") && hint.contains("Broken pipe"), "{hint}");
}

#[tokio::test(start_paused = true)]
async fn a_role_that_stops_answering_is_given_up() {
    let case = run_answering(100).await;
    let message = &case.findings[0].message;
    assert!(message.starts_with("the hub failed: it has not answered for 1 min"), "{message}");
    let remote = &case.trials[0].remote;
    assert!(remote.is_empty(), "it is gone: {remote:?}");
}
