//! The signals that ask a command to stop: SIGINT, SIGTERM, and SIGHUP of a terminal or session that closes.

use lab::run::Cancellation;
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::exit::{CommandError, Exit};

/// Requests to stop, from the moment at which this is made.
#[derive(Debug)]
pub(crate) struct StopSignals {
    interrupt: Signal,
    terminate: Signal,
    /// `None` under `nohup`, which asks to ignore it.
    hangup: Option<Signal>,
}

/// The signal behind a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StopSignal {
    Interrupt,
    Terminate,
    Hangup,
}

impl StopSignals {
    /// Listens from now on, so that a signal that arrives while a command starts is not lost.
    pub(crate) fn listen() -> Result<Self, CommandError> {
        let listen = |kind| signal(kind).map_err(CommandError::System);
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        let hangup = match ignores_hangup(&status) {
            true => None,
            false => Some(listen(SignalKind::hangup())?),
        };
        Ok(Self {
            interrupt: listen(SignalKind::interrupt())?,
            terminate: listen(SignalKind::terminate())?,
            hangup,
        })
    }

    /// Waits for the next request. Safe to cancel.
    pub(crate) async fn next(&mut self) -> StopSignal {
        let hangup = async {
            match &mut self.hangup {
                Some(hangup) => hangup.recv().await,
                None => std::future::pending().await,
            }
        };
        let signal = tokio::select! {
            _ = self.interrupt.recv() => StopSignal::Interrupt,
            _ = self.terminate.recv() => StopSignal::Terminate,
            _ = hangup => StopSignal::Hangup,
        };
        // The shell and the kernel both announce that a terminal closes. The second announcement is no second request.
        if signal == StopSignal::Hangup {
            self.hangup = None;
        }
        signal
    }
}

/// A cancellation by the first request to stop. The second is impatient and ends the process: its roles end when their input does.
pub(crate) fn cancellation() -> Result<Cancellation, CommandError> {
    let (canceller, cancellation) = lab::run::cancellation();
    let mut signals = StopSignals::listen()?;
    tokio::spawn(async move {
        signals.next().await;
        canceller.cancel();
        signals.next().await;
        std::process::exit(Exit::Interrupted.status().into());
    });
    Ok(cancellation)
}

/// Whether the process was started with SIGHUP ignored, by the mask of ignored signals in `/proc/self/status`.
fn ignores_hangup(status: &str) -> bool {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    let hangup = 1 << (SignalKind::hangup().as_raw_value() - 1);
    mask.is_some_and(|mask| mask & hangup != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hangup_that_nohup_ignores_stays_ignored() {
        assert!(ignores_hangup("Name:\tparshall\nSigIgn:\t0000000000001001\nSigCgt:\t0\n"));
        assert!(!ignores_hangup("Name:\tparshall\nSigIgn:\t0000000000001000\n"));
        assert!(!ignores_hangup(""));
    }
}
