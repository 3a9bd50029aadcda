//! A process of a role that stands still for a second, in the middle of the measured phase.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use super::{STOPPED, Subject, subjects};
use crate::progress::{Observer, Phase, Progress};
use crate::results::Role;
use crate::roles::process::{LaunchError, ProcessLauncher, RoleHandle, RoleLauncher};
use crate::scenario::Launch;

/// The present process of each role.
pub(super) type Processes = Arc<Mutex<BTreeMap<Role, u32>>>;

/// Starts roles and knows their processes.
pub(super) struct StoppingLauncher {
    launcher: ProcessLauncher,
    processes: Processes,
}

impl StoppingLauncher {
    pub(super) fn new(launcher: ProcessLauncher) -> Self {
        Self { launcher, processes: Processes::default() }
    }

    pub(super) fn processes(&self) -> Processes {
        Arc::clone(&self.processes)
    }
}

impl RoleLauncher for StoppingLauncher {
    fn launch(
        &self,
        role: Role,
        name: &str,
        launch: Option<&Launch>,
        log: &Path,
    ) -> Result<RoleHandle, LaunchError> {
        let handle = self.launcher.launch(role, name, launch, log)?;
        if let Some(process) = handle.control.process_id() {
            self.processes.lock().unwrap_or_else(PoisonError::into_inner).insert(role, process);
        }
        Ok(handle)
    }
}

/// Passes progress on, and stops the process of a role where the case is about that.
pub(super) struct Stopper<'a> {
    observer: &'a dyn Observer,
    processes: Processes,
    stopped: Mutex<BTreeMap<Role, JoinHandle<Option<Duration>>>>,
}

impl<'a> Stopper<'a> {
    pub(super) fn new(observer: &'a dyn Observer, processes: Processes) -> Self {
        Self { observer, processes, stopped: Mutex::default() }
    }

    /// For how long each role really stood still.
    pub(super) fn finish(self) -> BTreeMap<Role, Duration> {
        let stopped = self.stopped.into_inner().unwrap_or_else(PoisonError::into_inner);
        stopped.into_iter().filter_map(|(role, pause)| Some((role, pause.join().ok()??))).collect()
    }
}

impl Observer for Stopper<'_> {
    fn progress(&self, progress: &Progress) {
        self.observer.progress(progress);
        if progress.phase != Phase::Measuring || !progress.case.contains(STOPPED) {
            return;
        }
        let role = subjects().find_map(|subject| match subject {
            Subject::Stopped(role) if subject.case() == progress.case => Some(role),
            _ => None,
        });
        let Some(role) = role else { return };
        let process = self.processes.lock().unwrap_or_else(PoisonError::into_inner).get(&role).copied();
        let process = process.and_then(|process| Pid::from_raw(i32::try_from(process).ok()?));
        let Some(process) = process else { return };
        let mut stopped = self.stopped.lock().unwrap_or_else(PoisonError::into_inner);
        stopped.entry(role).or_insert_with(|| thread::spawn(move || pause(process)));
    }
}

/// Stops the process for a while. Gives how long it surely stood still; None if it has ended.
fn pause(process: Pid) -> Option<Duration> {
    thread::sleep(INTO_THE_PHASE);
    kill_process(process, Signal::STOP).ok()?;
    let stopped = loop {
        let stat = procfs::process::Process::new(process.as_raw_nonzero().get()).ok()?.stat().ok()?;
        if stat.state == 'T' {
            break Instant::now();
        }
        thread::sleep(Duration::from_millis(1));
    };
    thread::sleep(PAUSE);
    let length = stopped.elapsed();
    kill_process(process, Signal::CONT).ok()?;
    Some(length)
}

/// The roles read the edge of the phase a little later than it is shown.
const INTO_THE_PHASE: Duration = Duration::from_millis(300);

/// A third of the measured phase.
const PAUSE: Duration = Duration::from_secs(1);
