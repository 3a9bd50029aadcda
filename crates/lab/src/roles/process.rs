//! Roles as processes: started, logged, bounded, and gone when the orchestrator is.
//!
//! A role process is this very program again (`parshall role <name>`), or a command of the scenario that starts it
//! elsewhere. Its standard error goes to a file in the results folder, and the last lines are kept for the message should
//! it die. Four things end it: its work, the end of its standard input, a kill of its process group when its handle is
//! dropped, and, for a lab that dies without a chance to do either, the closing of the pipe that comes with that death.

use std::{
    collections::VecDeque,
    fmt,
    fs::File,
    io::{self, Write as _},
    path::{Path, PathBuf},
    pin::Pin,
    process::{ExitStatus, Stdio},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::{
    io::{AsyncRead, AsyncWrite, BufReader},
    process::{Child, ChildStderr},
    task::JoinHandle,
};

use super::lines::next_line;
use crate::report::create_file;
use crate::results::Role;
use crate::scenario::Launch;

/// Starts roles. The lab's own way is [`ProcessLauncher`]; tests have roles that follow a script.
pub trait RoleLauncher {
    /// Starts the role called `name` (its kind, with a number where there are several), which writes its log to
    /// `log`; by the command of the scenario, if there is one.
    ///
    /// # Errors
    /// [`LaunchError`] when it can't be started.
    fn launch(
        &self,
        role: Role,
        name: &str,
        launch: Option<&Launch>,
        log: &Path,
    ) -> Result<RoleHandle, LaunchError>;
}

/// A role that has been started: two pipes and a way to end it.
pub struct RoleHandle {
    /// Takes its configuration and its commands.
    pub input: Box<dyn AsyncWrite + Send + Unpin>,
    /// Gives its reports.
    pub output: Box<dyn AsyncRead + Send + Unpin>,
    /// Its process.
    pub control: Box<dyn RoleControl>,
}

/// What can be known of, and done to, a started role beside its pipes. Dropped, it kills the role.
pub trait RoleControl: Send {
    /// Its process, or `None` if it has none of its own.
    fn process_id(&self) -> Option<u32>;

    /// Waits for it to exit by itself for at most `patience`, kills it then, and says how it ended. Its input should
    /// have been closed before.
    fn end(self: Box<Self>, patience: Duration) -> Pin<Box<dyn Future<Output = RoleExit> + Send>>;
}

/// What is left of a role.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RoleExit {
    /// How it ended.
    pub end: RoleEnd,
    /// The last lines of its log.
    pub last_log_lines: Vec<String>,
    /// Why the rest of its log is not on disk.
    pub log_error: Option<String>,
}

/// How a role ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RoleEnd {
    /// By itself, with this status; `None` where it has none.
    Exited(Option<ExitStatus>),
    /// It did not exit in time and was killed.
    Killed,
}

/// A role can't be started.
#[derive(Debug, thiserror::Error)]
pub enum LaunchError {
    /// This program can't find itself.
    #[error("this program can't find its own file")]
    NoProgram(#[source] io::Error),
    /// The process can't be made.
    #[error("the {name} can't be started from {}", program.display())]
    Spawn {
        /// What it was to be called.
        name: String,
        /// The program.
        program: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The log file can't be made.
    #[error("the log {} can't be written", path.display())]
    Log {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

/// Starts roles as processes of this program.
#[derive(Debug, Clone)]
pub struct ProcessLauncher {
    program: PathBuf,
}

impl ProcessLauncher {
    /// A launcher of the program that is running.
    ///
    /// # Errors
    /// [`LaunchError::NoProgram`] when the system does not tell which that is.
    pub fn of_this_program() -> Result<Self, LaunchError> {
        let program = std::env::current_exe().map_err(LaunchError::NoProgram)?;
        Ok(Self { program })
    }

    /// A launcher of another program that knows `role <name>`.
    #[must_use]
    pub const fn of(program: PathBuf) -> Self {
        Self { program }
    }
}

impl RoleLauncher for ProcessLauncher {
    /// Must be called within a tokio runtime.
    fn launch(
        &self,
        role: Role,
        name: &str,
        launch: Option<&Launch>,
        log: &Path,
    ) -> Result<RoleHandle, LaunchError> {
        let log_file =
            create_file(log).map_err(|source| LaunchError::Log { path: log.to_owned(), source })?;
        let own = || vec!["role".to_owned(), role.name().to_owned()];
        let (program, arguments) = match launch.map(|launch| launch.command(role)) {
            Some(mut command) => (PathBuf::from(command.remove(0)), command),
            None => (self.program.clone(), own()),
        };
        let mut child = tokio::process::Command::new(&program)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            // Its own group: a Ctrl-C on the terminal is for the orchestrator, which ends its roles in order.
            .process_group(0)
            .kill_on_drop(true)
            .spawn()
            .map_err(|source| LaunchError::Spawn {
                name: name.to_owned(),
                program: program.clone(),
                source,
            })?;
        let (Some(input), Some(output), Some(stderr)) =
            (child.stdin.take(), child.stdout.take(), child.stderr.take())
        else {
            unreachable!("all three were asked to be pipes");
        };
        let last_lines = LastLines::default();
        let logging = tokio::spawn(copy_log(stderr, log_file, last_lines.clone()));
        Ok(RoleHandle {
            input: Box::new(input),
            output: Box::new(output),
            control: Box::new(ProcessControl {
                group: child.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?)),
                child,
                last_lines,
                logging: Some((log.to_owned(), logging)),
            }),
        })
    }
}

#[derive(Debug)]
struct ProcessControl {
    child: Child,
    group: Option<Pid>,
    last_lines: LastLines,
    /// The file of its log, and who writes it.
    logging: Option<(PathBuf, JoinHandle<io::Result<()>>)>,
}

impl RoleControl for ProcessControl {
    fn process_id(&self) -> Option<u32> {
        self.child.id()
    }

    fn end(mut self: Box<Self>, patience: Duration) -> Pin<Box<dyn Future<Output = RoleExit> + Send>> {
        Box::pin(async move {
            let end = match tokio::time::timeout(patience, self.child.wait()).await {
                Ok(status) => RoleEnd::Exited(status.ok()),
                Err(_) => {
                    self.kill_group();
                    let _ = self.child.wait().await;
                    RoleEnd::Killed
                }
            };
            let mut log_error = None;
            if let Some((log, logging)) = self.logging.take() {
                // The log ends with the last process that holds it, which is past waiting for.
                if let Ok(Ok(Err(error))) = tokio::time::timeout(LOG_PATIENCE, logging).await {
                    log_error = Some(format!("{} can't be written: {error}", log.display()));
                }
            }
            RoleExit { end, last_log_lines: self.last_lines.all(), log_error }
        })
    }
}

impl ProcessControl {
    fn kill_group(&mut self) {
        if let Some(group) = self.group {
            let _ = kill_process_group(group, Signal::KILL);
        }
    }
}

impl Drop for ProcessControl {
    fn drop(&mut self) {
        // Only while the child is not reaped: afterwards its number may be someone else's.
        if self.child.id().is_some() {
            self.kill_group();
        }
    }
}

/// The last lines that a role wrote.
#[derive(Debug, Clone, Default)]
struct LastLines(Arc<Mutex<VecDeque<String>>>);

impl LastLines {
    fn push(&self, line: String) {
        let mut lines = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if lines.len() == KEPT_LINES {
            lines.pop_front();
        }
        lines.push_back(line);
    }

    fn all(&self) -> Vec<String> {
        let lines = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        lines.iter().cloned().collect()
    }
}

/// Copies the log until the role ends. A full disk does not stop that, because a role blocks on a pipe that is not read;
/// the log then ends at the first line that could not be written.
async fn copy_log(log: ChildStderr, mut file: File, last_lines: LastLines) -> io::Result<()> {
    let mut log = BufReader::new(log);
    let mut line = Vec::new();
    let mut written = Ok(());
    while next_line(&mut log, &mut line).await {
        if written.is_ok() {
            written = file.write_all(&line);
        }
        last_lines.push(String::from_utf8_lossy(&line).trim_end().to_owned());
    }
    written
}

impl fmt::Debug for RoleHandle {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("RoleHandle")
            .field("process_id", &self.control.process_id())
            .finish_non_exhaustive()
    }
}

impl fmt::Display for RoleEnd {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exited(Some(status)) => write!(formatter, "{status}"),
            Self::Exited(None) => formatter.write_str("it ended"),
            Self::Killed => formatter.write_str("it did not exit and was killed"),
        }
    }
}

/// Enough for an error with its causes and what led to it.
const KEPT_LINES: usize = 20;

const LOG_PATIENCE: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    /// A program that does as `script` says whatever it is called with.
    fn program(script: &str) -> (tempfile::TempDir, ProcessLauncher) {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let path = directory.path().join("program");
        std::fs::write(&path, format!("#!/bin/sh\n{script}\n")).expect("it can be written");
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).expect("and run");
        (directory, ProcessLauncher::of(path))
    }

    fn lives(process_id: u32) -> bool {
        let status = std::fs::read_to_string(format!("/proc/{process_id}/stat"));
        status.is_ok_and(|stat| !stat.contains(") Z "))
    }

    #[tokio::test]
    async fn a_role_talks_through_its_pipes_and_its_log_is_kept() {
        let (directory, launcher) = program("echo \"log of $1 $2\" >&2; read line; echo \"got $line\"");
        let log = directory.path().join("load.log");
        let mut role = launcher.launch(Role::Load, "load", None, &log).expect("it starts");
        role.input.write_all(b"hello\n").await.expect("it reads");
        let mut answer = String::new();
        role.output.read_to_string(&mut answer).await.expect("it answers");
        assert_eq!(answer, "got hello\n");
        drop(role.input);
        let exit = role.control.end(Duration::from_secs(30)).await;
        assert!(matches!(exit.end, RoleEnd::Exited(Some(status)) if status.success()), "{exit:?}");
        assert_eq!(exit.last_log_lines, ["log of role load"]);
        let text = std::fs::read_to_string(log).expect("the log is on disk");
        assert_eq!(text, "log of role load\n");
    }

    #[tokio::test]
    async fn a_role_that_will_not_end_is_killed_with_its_children() {
        let (directory, launcher) = program("sleep 1000 & echo $!; wait");
        let log = directory.path().join("log");
        let role = launcher.launch(Role::Relay, "relay", None, &log).expect("it starts");
        let mut output = BufReader::new(role.output);
        let mut line = String::new();
        output.read_line(&mut line).await.expect("it tells its child");
        let grandchild: u32 = line.trim().parse().expect("a process id");
        assert!(lives(grandchild));
        assert_eq!(role.control.end(Duration::ZERO).await.end, RoleEnd::Killed);
        // The kernel has delivered the signal; the process closes its files before it counts as ended.
        line.clear();
        assert_eq!(output.read_line(&mut line).await.expect("the pipe closes"), 0);
        let ended = async {
            while lives(grandchild) {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(Duration::from_secs(30), ended).await.expect("a killed process ends");
    }

    #[tokio::test]
    async fn a_dropped_role_is_killed() {
        let (directory, launcher) = program("exec sleep 1000");
        let log = directory.path().join("log");
        let role = launcher.launch(Role::Sink, "sink", None, &log).expect("it starts");
        let (control, mut output) = (role.control, role.output);
        drop(control);
        let mut rest = Vec::new();
        output.read_to_end(&mut rest).await.expect("the pipe closes");
        assert!(rest.is_empty());
    }

    #[tokio::test]
    async fn only_the_last_lines_are_kept() {
        let (directory, launcher) = program("for i in $(seq 1 50); do echo line $i >&2; done");
        let log = directory.path().join("log");
        let role = launcher.launch(Role::Service, "hub", None, &log).expect("it starts");
        let lines = role.control.end(Duration::from_secs(30)).await.last_log_lines;
        assert_eq!((lines.len(), lines[0].as_str()), (KEPT_LINES, "line 31"));
        assert_eq!(lines[KEPT_LINES - 1], "line 50");
    }

    #[tokio::test]
    async fn a_missing_program_is_an_error() {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let launcher = ProcessLauncher::of(directory.path().join("nothing"));
        let error = launcher
            .launch(Role::Service, "hub", None, &directory.path().join("log"))
            .expect_err("there is no such program");
        assert!(matches!(error, LaunchError::Spawn { .. }), "{error}");
    }
}
