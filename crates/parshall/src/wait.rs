//! `parshall wait`: a process that does nothing until it is asked to stop, so that a container runs and commands can be started in
//! it.

use clap::Args;
use rustix::process::{WaitOptions, wait};
use tokio::signal::unix::{SignalKind, signal};

use crate::exit::{CommandError, Exit};
use crate::signals::StopSignals;

/// The arguments of `wait`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  kubectl run relay-0 --image=… -- wait
  kubectl exec -i relay-0 -- /parshall --version

SIGINT, SIGTERM or SIGHUP ends it with status 0. As the first process of a container it also reaps
processes whose parents have ended.")]
pub(crate) struct WaitArguments {}

/// Waits for a signal to stop.
pub(crate) fn execute(_: WaitArguments) -> Result<Exit, CommandError> {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(CommandError::System)?;
    runtime.block_on(async {
        let mut stop = StopSignals::listen()?;
        let mut children = signal(SignalKind::child()).map_err(CommandError::System)?;
        loop {
            // Those that ended before signals were listened to are reaped as well.
            while let Ok(Some(_)) = wait(WaitOptions::NOHANG) {}
            tokio::select! {
                _ = stop.next() => return Ok(Exit::Passed),
                _ = children.recv() => {}
            }
        }
    })
}
