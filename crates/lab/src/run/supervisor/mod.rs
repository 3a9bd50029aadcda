//! The roles of one trial while it runs: started, asked, heard, watched, ended.
//!
//! Every role's reports arrive in one queue. A [`Supervisor`] keeps what each said last, so that waiting for something
//! is waiting for a condition on what is known ([`Supervisor::wait_until`]). Whatever happens to a role at any time (it
//! fails, it dies, it reports something that cannot be read) ends the wait with an error that names it.

mod elsewhere;
mod turnover;

use std::{collections::BTreeMap, path::Path, time::Duration};

use tokio::{
    io::{AsyncBufReadExt as _, AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, BufReader},
    sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel},
    time::{Instant, MissedTickBehavior, interval, sleep_until, timeout_at},
};

use super::{cancellation::Cancellation, error::TrialError, remote::Remote};
use crate::{
    clock::{RunClock, monotonic_ns},
    limits::RoleGroup,
    probe::{RoleProbe, Scope},
    results::{MeasuredComponent, Role},
    roles::{
        process::{RoleControl, RoleEnd, RoleExit, RoleHandle, RoleLauncher},
        protocol::{Assignment, Command, Counted, Edge, Line, Outcome, Ready, Report, RoleConfig},
    },
    scenario::Launch,
};

/// One process of a role: relays may be several.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Member {
    pub(super) role: Role,
    pub(super) instance: u32,
}

/// All started roles of a trial.
pub(super) struct Supervisor {
    members: BTreeMap<Member, Running>,
    heard: UnboundedReceiver<(Member, Heard)>,
    hear: UnboundedSender<(Member, Heard)>,
    pub(super) cancellation: Cancellation,
    pub(super) clock: RunClock,
    measured: MeasuredComponent,
}

/// What is known of one started role.
pub(super) struct Running {
    input: Option<Box<dyn AsyncWrite + Send + Unpin>>,
    /// None once it was ended in mid-run.
    control: Option<Box<dyn RoleControl>>,
    /// It was killed on purpose: nothing more is to be expected of it.
    was_killed: bool,
    /// What is known of it beyond that, if it was started elsewhere.
    pub(super) remote: Option<Remote>,
    pub(super) ready: Option<Ready>,
    pub(super) latest: Option<Counted>,
    /// Its metrics, where it tells them.
    pub(super) metrics: Option<String>,
    pub(super) marks: BTreeMap<Edge, Counted>,
    pub(super) finished: Option<Outcome>,
}

/// What came out of a role's output.
#[derive(Debug)]
enum Heard {
    /// With what the clock showed when it came.
    Report(Box<Report>, i64),
    Nonsense(String),
    End,
}

/// What a wait is for and how long it may take.
#[derive(Debug, Clone, Copy)]
pub(super) struct Patience {
    /// For the error, if it runs out.
    pub(super) what: &'static str,
    /// At most so long in all.
    pub(super) total: Option<Duration>,
    /// At most so long without the progress that the wait's condition reports.
    pub(super) stalled: Option<Duration>,
}

/// How far a condition is from being met.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    /// It is met.
    Met,
    /// Not yet; a number that changes while there is progress.
    At(u64),
}

impl Supervisor {
    pub(super) fn new(cancellation: Cancellation, clock: RunClock, measured: MeasuredComponent) -> Self {
        let (hear, heard) = unbounded_channel();
        Self { members: BTreeMap::new(), heard, hear, cancellation, clock, measured }
    }

    /// Starts a role under its limits and gives it its configuration.
    pub(super) async fn start<L: RoleLauncher>(
        &mut self,
        launcher: &L,
        member: Member,
        group: &RoleGroup,
        config: RoleConfig,
        logs: &Path,
    ) -> Result<(), TrialError> {
        let running = self.launch(launcher, member, None, logs)?;
        if let Some(process_id) = running.process_id() {
            group.admit(process_id)?;
        }
        self.members.insert(member, running);
        let assignment = Assignment { config, is_launched: false };
        self.write(member, &Line::Role(Box::new(assignment))).await;
        Ok(())
    }

    fn launch<L: RoleLauncher>(
        &self,
        launcher: &L,
        member: Member,
        launch: Option<&Launch>,
        logs: &Path,
    ) -> Result<Running, TrialError> {
        let name = member.to_string();
        let log = logs.join(format!("{name}.log"));
        let RoleHandle { input, output, control } = launcher.launch(member.role, &name, launch, &log)?;
        tokio::spawn(listen(member, output, self.hear.clone()));
        Ok(Running {
            input: Some(input),
            control: Some(control),
            was_killed: false,
            remote: launch.map(|launch| Remote::new(member.role, launch)),
            ready: None,
            latest: None,
            metrics: None,
            marks: BTreeMap::new(),
            finished: None,
        })
    }

    /// Tells something to every member of a role that has not ended.
    pub(super) async fn tell(&mut self, role: Role, command: &Command) {
        let members: Vec<_> =
            self.of(role).filter(|(_, running)| !running.has_ended()).map(|(member, _)| member).collect();
        for member in members {
            self.tell_one(member, command).await;
        }
    }

    /// Tells something to one member.
    pub(super) async fn tell_one(&mut self, member: Member, command: &Command) {
        self.write(member, &Line::Do(command.clone())).await;
    }

    /// The members of a role.
    pub(super) fn of(&self, role: Role) -> impl Iterator<Item = (Member, &Running)> {
        self.members
            .iter()
            .filter(move |(member, _)| member.role == role)
            .map(|(member, running)| (*member, running))
    }

    /// All members.
    pub(super) fn all(&self) -> impl Iterator<Item = (Member, &Running)> {
        self.members.iter().map(|(member, running)| (*member, running))
    }

    /// The counters of each member of a role at both edges of the measured phase.
    pub(super) fn edges(&self, role: Role) -> impl Iterator<Item = (&Counted, &Counted)> {
        self.of(role).filter_map(|(_, running)| {
            Some((running.marks.get(&Edge::Begin)?, running.marks.get(&Edge::End)?))
        })
    }

    /// The processes of a role, or what is below them. Those elsewhere tell what they use.
    pub(super) fn probe(&self, role: Role, scope: Scope) -> RoleProbe {
        if let Some(readings) = self.reported_usages(role) {
            return RoleProbe::reported(&readings);
        }
        let process_ids = self.of(role).filter_map(|(_, running)| running.process_id());
        RoleProbe::new(process_ids.collect(), scope, self.clock.now())
    }

    /// Hears the roles until `condition` is met. `tick` is called several times a second with what is known, and may
    /// answer with commands to a role.
    pub(super) async fn wait_until(
        &mut self,
        patience: Patience,
        mut condition: impl FnMut(&Self) -> State,
        mut tick: impl FnMut(&Self) -> Option<(Role, Command)>,
    ) -> Result<(), TrialError> {
        let begun = Instant::now();
        let mut moved = begun;
        let mut before = None;
        let mut ticks = interval(TICK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
        loop {
            match condition(self) {
                State::Met => return Ok(()),
                State::At(present) if before != Some(present) => {
                    before = Some(present);
                    moved = Instant::now();
                }
                State::At(_) => {}
            }
            let total = patience.total.map(|total| begun + total);
            let stalled = patience.stalled.map(|stalled| moved + stalled);
            let deadline = total.into_iter().chain(stalled).min();
            tokio::select! {
                biased;
                () = self.cancellation.wished() => return Err(TrialError::Cancelled),
                heard = self.heard.recv() => {
                    let (member, heard) = heard.expect("the supervisor keeps a sender of its own");
                    self.note(member, heard).await?;
                }
                _ = ticks.tick() => {
                    self.ask_all().await?;
                    if let Some((role, command)) = tick(self) {
                        self.tell(role, &command).await;
                    }
                }
                () = sleep_until(deadline.unwrap_or_else(Instant::now)), if deadline.is_some() => {
                    let is_stalled = stalled.is_some_and(|stalled| Some(stalled) == deadline);
                    return Err(TrialError::TimedOut {
                        what: patience.what,
                        after: if is_stalled { patience.stalled } else { patience.total }.unwrap_or_default(),
                        is_stalled,
                    });
                }
            }
        }
    }

    /// Ends everything that still runs, in order and then by force. Returns why logs on disk are not complete.
    pub(super) async fn dismiss(mut self) -> Vec<String> {
        for running in self.members.values_mut() {
            running.input = None;
        }
        let ends: Vec<_> = self
            .members
            .into_iter()
            .filter_map(|(member, running)| Some((member, tokio::spawn(running.control?.end(EXIT_PATIENCE)))))
            .collect();
        let mut log_errors = Vec::new();
        for (member, end) in ends {
            let Ok(exit) = end.await else {
                continue;
            };
            if exit.end == RoleEnd::Killed {
                tracing::warn!(%member, "did not exit by itself and was killed");
            }
            log_errors.extend(exit.log_error);
        }
        log_errors
    }

    async fn write(&mut self, member: Member, value: &Line) {
        let Some(input) = self.members.get_mut(&member).and_then(|running| running.input.as_mut()) else {
            return;
        };
        let mut line =
            serde_json::to_vec(value).expect("configurations and commands have text keys and finite numbers");
        line.push(b'\n');
        // A role that does not read has died, which the end of its output says with a better reason.
        let _ = input.write_all(&line).await;
        let _ = input.flush().await;
    }

    async fn note(&mut self, member: Member, heard: Heard) -> Result<(), TrialError> {
        let Some(running) = self.members.get_mut(&member) else {
            return Ok(());
        };
        if running.was_killed {
            running.hear_last(heard);
            return Ok(());
        }
        match heard {
            Heard::Report(report, heard_ns) => match *report {
                Report::Hello(hello) => return self.greeted(member, *hello).await,
                Report::Clock(answer) => {
                    if let Some(remote) = &mut running.remote {
                        remote.answered(&answer, heard_ns, self.clock.now());
                    }
                }
                Report::Ready(ready) => running.ready = Some(ready),
                Report::Progress(counted) => running.latest = Some(counted),
                Report::Metrics { text } => running.metrics = Some(text),
                Report::Marked { edge, counted } => {
                    running.latest = Some(counted.clone());
                    running.marks.insert(edge, counted);
                }
                Report::Finished { counted, outcome } => {
                    running.latest = Some(counted);
                    running.finished = Some(*outcome);
                }
                Report::Done { mark } => self.tell(Role::Sink, &Command::Done { mark }).await,
                Report::Failed { error } => return Err(self.failed_for(member, error).await),
            },
            Heard::Nonsense(line) if running.is_ungreeted() => {
                let reason = format!("said something else than its version: {line}");
                return Err(self.not_started(member, reason, None).await);
            }
            Heard::Nonsense(line) => {
                return Err(self.failed(member, format!("it wrote an unknown message: {line}")).await);
            }
            Heard::End if running.finished.is_some() => {}
            Heard::End if running.is_ungreeted() => {
                return Err(self.not_started(member, "exited without a message".to_owned(), None).await);
            }
            Heard::End => return Err(self.failed(member, SILENT_END.to_owned()).await),
        }
        Ok(())
    }

    /// A role said why it can't go on. When a role is killed, those that were connected to it often say so before its own
    /// end is noticed: whoever ends without a word in the next moment is the cause, and this one its consequence.
    async fn failed_for(&mut self, member: Member, reason: String) -> TrialError {
        let mut spoken = vec![(member, reason)];
        let deadline = Instant::now() + CAUSE_PATIENCE;
        while let Ok(Some((other, heard))) = timeout_at(deadline, self.heard.recv()).await {
            if spoken.iter().any(|(known, _)| *known == other)
                || self.members.get(&other).is_none_or(Running::has_ended)
            {
                continue;
            }
            match heard {
                Heard::Report(report, _) => match *report {
                    Report::Failed { error } => spoken.push((other, error)),
                    Report::Finished { outcome, .. } => {
                        if let Some(running) = self.members.get_mut(&other) {
                            running.finished = Some(*outcome);
                        }
                    }
                    Report::Hello(_)
                    | Report::Clock(_)
                    | Report::Ready(_)
                    | Report::Progress(_)
                    | Report::Metrics { .. }
                    | Report::Done { .. }
                    | Report::Marked { .. } => {}
                },
                Heard::Nonsense(_) => {}
                Heard::End => {
                    let consequences: Vec<_> = spoken
                        .iter()
                        .map(|(member, error)| format!("{}: {error}", self.called(*member)))
                        .collect();
                    let reason = format!("{SILENT_END}, and after it {}", consequences.join("; "));
                    return self.failed(other, reason).await;
                }
            }
        }
        let (member, reason) = spoken.swap_remove(0);
        self.failed(member, reason).await
    }

    fn called(&self, member: Member) -> String {
        self.measured.called(member.role, member)
    }

    /// Ends a member. Its log is complete once it has exited, and how it exited is part of why it failed. Why the log on disk
    /// is not complete is the last of its lines.
    async fn remove(&mut self, member: Member) -> Option<(Option<Remote>, RoleExit)> {
        let mut running = self.members.remove(&member)?;
        running.input = None;
        let mut exit = running.control?.end(EXIT_PATIENCE).await;
        exit.last_log_lines.extend(exit.log_error.take());
        Some((running.remote, exit))
    }

    /// Ends a member that is to blame for the end of the trial, and tells why with the last words of its log.
    pub(super) async fn failed(&mut self, member: Member, reason: String) -> TrialError {
        let Some((_, exit)) = self.remove(member).await else {
            return TrialError::Cancelled;
        };
        TrialError::RoleFailed {
            role: member.role,
            member: self.called(member),
            reason,
            end: exit.end.to_string(),
            log: exit.last_log_lines,
        }
    }
}

impl Running {
    /// Whether it has come to its end, one way or the other.
    pub(super) fn has_ended(&self) -> bool {
        self.was_killed || self.finished.is_some()
    }

    /// Its process; `None` where it has none of its own, or none any more.
    pub(super) fn process_id(&self) -> Option<u32> {
        self.control.as_ref()?.process_id()
    }

    /// Whether it was started elsewhere and has not said which program it is.
    fn is_ungreeted(&self) -> bool {
        self.remote.as_ref().is_some_and(|remote| remote.machine.is_none())
    }
}

impl std::fmt::Display for Member {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{}", self.role)?;
        if self.instance > 0 {
            write!(formatter, "-{}", self.instance + 1)?;
        }
        Ok(())
    }
}

async fn listen(
    member: Member,
    output: Box<dyn AsyncRead + Send + Unpin>,
    hear: UnboundedSender<(Member, Heard)>,
) {
    let mut output = BufReader::new(output);
    let mut line = Vec::new();
    loop {
        line.clear();
        let read = (&mut output).take(LONGEST_REPORT).read_until(b'\n', &mut line).await;
        // Here and not where it is taken from the queue: the answer of a clock has to be timed as it comes.
        let heard_ns = monotonic_ns();
        let heard = match read {
            Ok(0) | Err(_) => Heard::End,
            Ok(_) => match serde_json::from_slice(&line) {
                Ok(report) => Heard::Report(Box::new(report), heard_ns),
                Err(error) => {
                    let beginning = String::from_utf8_lossy(&line[..line.len().min(200)]).trim().to_owned();
                    Heard::Nonsense(format!("{beginning} ({error})"))
                }
            },
        };
        let is_end = matches!(heard, Heard::End | Heard::Nonsense(_));
        if hear.send((member, heard)).is_err() || is_end {
            return;
        }
    }
}

/// How often progress is shown and a saturating load is told how far it may go.
const TICK: Duration = Duration::from_millis(100);

/// How long a role may take to exit once it has nothing left to do.
const EXIT_PATIENCE: Duration = Duration::from_secs(5);

/// How much later than its consequences the end of a role may be noticed: the kernel closes sockets and pipes of a killed
/// process at once, but in no order.
const CAUSE_PATIENCE: Duration = Duration::from_millis(500);

const SILENT_END: &str = "it exited without a message";

/// Distributions of an hour, second by second, fit in many times over.
const LONGEST_REPORT: u64 = 256 << 20;
