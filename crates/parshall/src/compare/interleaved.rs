//! Two programs that run one scenario in turn, a trial at a time: A B, B A, A B, …

use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, Stdio};

use lab::comparison;
use lab::results::Results;
use rustix::process::{Pid, Signal, kill_process};

use super::parse;
use crate::exit::CommandError;
use crate::selection::Selection;
use crate::signals::StopSignals;

/// What both run.
#[derive(Debug, Clone, Copy)]
pub(super) struct Plan<'a> {
    pub(super) programs: [&'a Path; 2],
    pub(super) scenario: &'a str,
    pub(super) selection: &'a Selection,
    /// Where the results of each trial go.
    pub(super) folder: &'a Path,
    /// Whether they show no progress.
    pub(super) quiet: bool,
}

/// What has run so far.
#[derive(Debug)]
pub(super) struct Interleaved<'a> {
    plan: Plan<'a>,
    runs: [Vec<Results>; 2],
}

impl<'a> Interleaved<'a> {
    pub(super) const fn new(plan: Plan<'a>) -> Self {
        Self { plan, runs: [Vec::new(), Vec::new()] }
    }

    /// Runs pairs until there are so many. True if a signal ended it before.
    pub(super) fn run_until(&mut self, pairs: u32) -> Result<bool, CommandError> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(CommandError::System)?;
        while (self.runs[1].len() as u32) < pairs {
            let pair = self.runs[1].len() + 1;
            // Who goes first alternates, so that neither always finds the machine as the other left it.
            let order = if pair % 2 == 1 { [0, 1] } else { [1, 0] };
            let mut results = [None, None];
            for program in order {
                let name = ["a", "b"][program];
                tracing::info!("pair {pair}: {}", self.plan.programs[program].display());
                let folder = self.plan.folder.join(format!("{name}-{pair:03}"));
                results[program] = runtime.block_on(self.run(program, &folder))?;
                if results[program].is_none() {
                    return Ok(true);
                }
            }
            let pair = self.runs.iter_mut().zip(results);
            pair.for_each(|(runs, result)| runs.extend(result));
        }
        Ok(false)
    }

    /// All trials of each; `None` before the first pair is complete.
    pub(super) fn results(&self) -> Option<(Results, Results)> {
        let [a, b] = &self.runs;
        Some((comparison::gathered(a.iter().cloned())?, comparison::gathered(b.iter().cloned())?))
    }

    /// One trial of one program; `None` if a signal ended it.
    async fn run(&self, program: usize, folder: &Path) -> Result<Option<Results>, CommandError> {
        let path = self.plan.programs[program];
        let unavailable =
            |reason: String| CommandError::Unavailable { message: format!("{} {reason}", path.display()) };
        let mut signals = StopSignals::listen()?;
        let mut command = Command::new(path);
        command
            .args(["run", self.plan.scenario, "--trials", "1", "--format", "json", "--out"])
            .arg(folder)
            .args(self.plan.selection.arguments())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            // Not by `--quiet`, which a program may be too old to know.
            .stderr(if self.plan.quiet { Stdio::piped() } else { Stdio::inherit() })
            // Ctrl-C is told to a whole group; a run that is told twice ends without its results.
            .process_group(0);
        let child = tokio::process::Command::from(command)
            .kill_on_drop(true)
            .spawn()
            .map_err(|error| unavailable(format!("can't be run: {error}")))?;
        let process = child.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?));
        let finished = child.wait_with_output();
        tokio::pin!(finished);
        let (output, was_interrupted) = tokio::select! {
            output = &mut finished => (output, false),
            _ = signals.next() => {
                if let Some(process) = process {
                    kill_process(process, Signal::TERM).unwrap_or_default();
                }
                (finished.await, true)
            }
        };
        let output = output.map_err(CommandError::System)?;
        if was_interrupted || output.status.code() == Some(130) {
            return Ok(None);
        }
        // 1 is a case that failed: its results say so.
        if !matches!(output.status.code(), Some(0 | 1)) {
            let errors = String::from_utf8_lossy(&output.stderr);
            let reason = format!("can't run {}: {}\n{errors}", self.plan.scenario, output.status);
            return Err(unavailable(reason.trim_end().to_owned()));
        }
        let text = String::from_utf8_lossy(&output.stdout);
        parse(&text, &format!("the output of {}", path.display())).map(Some)
    }
}
