//! A command in the place of the relay, or of the embedded service: started, watched and ended by a process that stands
//! between it and the orchestrator.
//!
//! ```text
//! orchestrator ──pipes── parshall role relay ── command ── its children
//!                        └──────── the role's limits ────────────────┘
//! ```
//!
//! The process in between is put under the role's limits before it starts the command, so that nothing of the command
//! ever runs without them. It adopts whatever the command leaves behind, so that all of it can be counted and ended. It
//! counts nothing itself: a command is measured from the outside. What the command reports about itself, and says that it has
//! done, is passed on. When the orchestrator goes, so does the command.

mod output;

use std::{
    process::{ExitStatus, Stdio},
    time::Duration,
};

use rustix::process::{Pid, Signal, kill_process, kill_process_group, set_child_subreaper};
use tokio::{
    process::{Child, Command as Program},
    sync::watch,
    task::JoinHandle,
    time::{sleep, timeout},
};

use self::output::{Said, copy_output};
use super::{
    RoleError,
    channel::{Reporter, RoleChannel},
    protocol::{
        Command, Counted, Counters, DoneMark, ExternalConfig, ExternalReading, Outcome, Ready, Report,
    },
};
use crate::{probe::descendants, scenario::Readiness};

/// Why a command could not be measured to the end.
#[derive(Debug, thiserror::Error)]
pub enum CommandError {
    /// There is no such program, or the system refuses to run it.
    #[error("`{name}` can't be started from {program}")]
    CannotStart {
        /// The system under test.
        name: String,
        /// The program.
        program: String,
        /// What the system said.
        source: std::io::Error,
    },
    /// It ended unexpectedly.
    #[error("`{name}` ended {moment} ({status})")]
    Ended {
        /// The system under test.
        name: String,
        /// When, in words.
        moment: &'static str,
        /// How.
        status: ExitStatus,
    },
    /// It wrote a line that begins like one about what it has done, and is none.
    #[error(
        "`{name}` wrote `{line}`, which does not say how far it has done a partition of the source: expected is \
         `parshall-done {{\"partition\": \"3\", \"sequence_number\": 1234}}`"
    )]
    NotDone {
        /// The system under test.
        name: String,
        /// The line.
        line: String,
    },
    /// It did not become ready in time.
    #[error("`{name}` wrote no line with `{line}` within {}", units::duration::text(*within))]
    NotReady {
        /// The system under test.
        name: String,
        /// What was waited for.
        line: String,
        /// How long.
        within: Duration,
    },
}

/// Runs the command until it is to stop.
pub(super) async fn run(config: ExternalConfig, channel: &mut RoleChannel) -> Result<Report, RoleError> {
    // Of this program alone: what the command leaves behind becomes a child of this process.
    if let Err(error) = set_child_subreaper(Some(rustix::process::getpid())) {
        tracing::warn!(%error, "child processes that detach from the command are not tracked");
    }
    let mut running = Running::start(&config, &channel.reporter)?;
    let result = running.carry(&config, channel).await;
    running.end_rest().await;
    let not_done = running.not_done.borrow_and_update().clone();
    match not_done {
        Some(line) if result.is_ok() => Err(CommandError::NotDone { name: config.name, line }.into()),
        _ => result,
    }
}

/// The command while it runs.
#[derive(Debug)]
struct Running {
    child: Child,
    /// The command's own process group.
    group: Option<Pid>,
    output: Option<JoinHandle<()>>,
    /// What it reported of itself last.
    reading: watch::Receiver<Option<ExternalReading>>,
    /// Ready when a line contains what was asked for.
    seen: tokio::sync::oneshot::Receiver<()>,
    /// The first line about what is done that can't be understood.
    not_done: watch::Receiver<Option<String>>,
}

impl Running {
    fn start(config: &ExternalConfig, reporter: &Reporter) -> Result<Self, CommandError> {
        let (program, arguments) = config.command.split_first().expect("a scenario's command has a program");
        let environment = config.environment.iter().map(|(name, value)| (name, value.reveal()));
        let mut child = Program::new(program)
            .args(arguments)
            .envs(environment)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            // Both are the role's log.
            .stderr(Stdio::inherit())
            // So that a signal reaches its children, and not this process.
            .process_group(0)
            .kill_on_drop(true)
            .spawn()
            .map_err(|source| CommandError::CannotStart {
                name: config.name.clone(),
                program: program.clone(),
                source,
            })?;
        let group = child.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?));
        let line = match &config.ready {
            Readiness::Line(text) => Some(text.clone()),
            Readiness::FirstEvent | Readiness::After(_) => None,
        };
        let (see, seen) = tokio::sync::oneshot::channel();
        let (tell, reading) = watch::channel(None);
        let (complain, not_done) = watch::channel(None);
        let output = child.stdout.take().expect("it was asked to be a pipe");
        let clock = config.clock;
        let reporter = reporter.clone();
        let output = copy_output(output, line, see, config.done_lines, move |said| {
            let at = clock.now();
            match said {
                Said::Figures(figures) => {
                    tell.send_replace(Some(ExternalReading { at, figures }));
                }
                Said::Done { partition, sequence_number } => {
                    reporter.send(&Report::Done { mark: DoneMark { partition, sequence_number, at } });
                }
                Said::NotDone(line) => {
                    complain.send_if_modified(|first| {
                        let is_first = first.is_none();
                        first.get_or_insert(line);
                        is_first
                    });
                }
            }
        });
        Ok(Self { child, group, output: Some(tokio::spawn(output)), reading, seen, not_done })
    }

    async fn carry(
        &mut self,
        config: &ExternalConfig,
        channel: &mut RoleChannel,
    ) -> Result<Report, RoleError> {
        tokio::select! {
            biased;
            ready = until_ready(&mut self.seen, config) => ready?,
            status = self.child.wait() => {
                return Err(ended(config, "before it was ready", status).into());
            }
            command = channel.next() => {
                // Nobody tells anything to a role that is not ready, except by going.
                return match command {
                    Some(Command::Stop) => Ok(self.stop(config).await),
                    _ => Err(RoleError::Abandoned),
                };
            }
        }
        channel.reporter.send(&Report::Ready(Ready::default()));
        loop {
            tokio::select! {
                status = self.child.wait() => {
                    return Err(ended(config, "unexpectedly", status).into());
                }
                // With an output that has ended, nothing more is said.
                Ok(()) = self.not_done.changed() => {
                    let line = self.not_done.borrow_and_update().clone().unwrap_or_default();
                    return Err(CommandError::NotDone { name: config.name.clone(), line }.into());
                }
                command = channel.next() => match command {
                    Some(Command::Mark { edge }) => {
                        channel.reporter.send(&Report::Marked { edge, counted: self.counted(config) });
                    }
                    Some(Command::Stop) => return Ok(self.stop(config).await),
                    Some(
                        Command::Start
                        | Command::Allow { .. }
                        | Command::Expect { .. }
                        | Command::Done { .. }
                        | Command::Served { .. },
                    ) => {}
                    None => return Err(RoleError::Abandoned),
                },
            }
        }
    }

    /// Asks it to end, and makes it end if it does not.
    async fn stop(&mut self, config: &ExternalConfig) -> Report {
        self.signal(Signal::TERM);
        let was_killed = timeout(config.stop_within, self.child.wait()).await.is_err();
        Report::Finished {
            counted: self.counted(config),
            outcome: Box::new(Outcome::External { was_killed }),
        }
    }

    /// Ends whatever is left of it, and reads its last words.
    async fn end_rest(&mut self) {
        if self.child.id().is_some() {
            self.signal(Signal::KILL);
            let _ = self.child.wait().await;
        }
        for _ in 0..KILL_TRIES {
            // Children may have left its group. What is a zombie has ended.
            let alive: Vec<_> =
                descendants(std::process::id()).into_iter().filter(|stat| stat.state != 'Z').collect();
            if alive.is_empty() {
                break;
            }
            for process in alive.iter().filter_map(|stat| Pid::from_raw(stat.pid)) {
                let _ = kill_process(process, Signal::KILL);
            }
            sleep(KILL_PAUSE).await;
        }
        if let Some(output) = self.output.take() {
            let _ = timeout(OUTPUT_PATIENCE, output).await;
        }
    }

    fn counted(&self, config: &ExternalConfig) -> Counted {
        Counted {
            at: config.clock.now(),
            counters: Counters::External(*self.reading.borrow()),
            // Those of the process in between are nobody's matter.
            sockets: super::protocol::SocketUse::default(),
        }
    }

    fn signal(&self, signal: Signal) {
        // Only while it is not reaped: afterwards its number may be someone else's.
        if let (Some(group), Some(_)) = (self.group, self.child.id()) {
            let _ = kill_process_group(group, signal);
        }
    }
}

async fn until_ready(
    seen: &mut tokio::sync::oneshot::Receiver<()>,
    config: &ExternalConfig,
) -> Result<(), CommandError> {
    match &config.ready {
        Readiness::FirstEvent => Ok(()),
        Readiness::After(time) => {
            sleep(*time).await;
            Ok(())
        }
        Readiness::Line(line) => {
            let is_seen = async {
                if seen.await.is_err() {
                    // It closed its output, and may still run.
                    std::future::pending::<()>().await;
                }
            };
            timeout(config.ready_within, is_seen).await.map_err(|_| CommandError::NotReady {
                name: config.name.clone(),
                line: line.clone(),
                within: config.ready_within,
            })
        }
    }
}

fn ended(config: &ExternalConfig, moment: &'static str, status: std::io::Result<ExitStatus>) -> CommandError {
    CommandError::Ended { name: config.name.clone(), moment, status: status.unwrap_or_default() }
}

/// A killed process ends within moments, and can fork meanwhile.
const KILL_TRIES: u32 = 100;
const KILL_PAUSE: Duration = Duration::from_millis(10);

/// Everything that could write has ended, so what is left is in the pipe.
const OUTPUT_PATIENCE: Duration = Duration::from_secs(1);
