//! A command that the service runs for: it starts once clients can connect, and when it ends, the service does.

use std::ffi::OsString;
use std::io;
use std::os::unix::process::ExitStatusExt as _;

use rustix::process::{Pid, Signal, getpgrp, kill_process};
use rustix::termios::tcgetpgrp;
use tokio::process::Command;

use super::announcement::Variable;
use crate::exit::{CommandError, Exit};
use crate::signals::{StopSignal, StopSignals};

/// Runs the command with these variables and this process's standard streams, and hands on the signals that ask to stop.
/// Ends as the command does.
///
/// # Errors
/// It can't be started.
pub(super) async fn run(
    command: &[OsString],
    variables: Vec<Variable>,
    signals: &mut StopSignals,
) -> Result<Exit, CommandError> {
    let Some((program, arguments)) = command.split_first() else {
        return Ok(Exit::Passed);
    };
    let started = Command::new(program)
        .args(arguments)
        .envs(variables.into_iter().map(|variable| (variable.name, variable.value)))
        .spawn();
    let mut child =
        started.map_err(|source| CommandError::NotStarted { program: program.clone(), source })?;
    let process = child.id().and_then(|id| Pid::from_raw(id.try_into().ok()?));
    let status = loop {
        tokio::select! {
            biased;
            status = child.wait() => break status.map_err(CommandError::System)?,
            signal = signals.next() => {
                // A terminal sends its own signals to the command as well; some programs take a second one for impatience.
                if signal == StopSignal::Interrupt && is_in_foreground() {
                    continue;
                }
                if let Some(process) = process {
                    // It may have ended just now, which the loop is about to notice.
                    let _ = kill_process(process, signal.into());
                }
            }
        }
    };
    // A process has one or the other.
    let signal = || status.signal().map(|signal| SIGNALLED + signal);
    let code = status.code().or_else(signal).and_then(|code| u8::try_from(code).ok());
    Ok(Exit::Command(code.unwrap_or(u8::MAX)))
}

/// Whether the terminal, if there is one, sends what is typed there to this process and the command.
fn is_in_foreground() -> bool {
    let foreground = || -> io::Result<Pid> { Ok(tcgetpgrp(std::fs::File::open("/dev/tty")?)?) };
    foreground().is_ok_and(|group| group == getpgrp())
}

impl From<StopSignal> for Signal {
    fn from(signal: StopSignal) -> Self {
        match signal {
            StopSignal::Interrupt => Self::INT,
            StopSignal::Terminate => Self::TERM,
            StopSignal::Hangup => Self::HUP,
        }
    }
}

/// What shells add to the number of the signal that ended a command.
const SIGNALLED: i32 = 128;
