//! Roles that a command of the scenario started elsewhere: their first report, the alignment of their clocks, and the
//! questions about clock and usage while they work.

use std::{collections::BTreeMap, path::Path, time::Duration};

use super::{Member, Patience, State, Supervisor};
use crate::{
    clock::{RunClock, RunTime, monotonic_ns},
    probe::ProcessSample,
    results::Role,
    roles::{
        SILENCE,
        process::{RoleEnd, RoleLauncher},
        protocol::{Assignment, Build, ClockQuestion, Hello, Line, RoleConfig},
    },
    run::{
        error::{NotStarted, TrialError},
        remote::Remote,
    },
    scenario::Launch,
};

impl Supervisor {
    /// Starts a role elsewhere, finds out what its clock shows, and gives it the configuration for that clock.
    pub(in crate::run) async fn start_elsewhere<L: RoleLauncher>(
        &mut self,
        launcher: &L,
        member: Member,
        launch: &Launch,
        config: impl FnOnce(RunClock) -> RoleConfig,
        logs: &Path,
    ) -> Result<(), TrialError> {
        let running = self.launch(launcher, member, Some(launch), logs)?;
        self.members.insert(member, running);
        self.wait_for(member, |remote| remote.machine.is_some()).await?;
        for answers in 1..=FIRST_EXCHANGES {
            // Each wait begins with a question.
            self.wait_for(member, |remote| remote.answers() >= answers).await?;
        }
        let clock = self.clock;
        let clock = self.remote_mut(member).map_or(clock, |remote| remote.align(clock, monotonic_ns()));
        let assignment = Assignment { config: config(clock), is_launched: true };
        self.write(member, &Line::Role(Box::new(assignment))).await;
        Ok(())
    }

    /// Waits for a role elsewhere to say something before it has its configuration.
    async fn wait_for(&mut self, member: Member, is_met: impl Fn(&Remote) -> bool) -> Result<(), TrialError> {
        let patience = Patience { what: "starting a role", total: Some(GREETING_PATIENCE), stalled: None };
        let condition = |supervisor: &Self| match supervisor.remote(member) {
            Some(remote) if !is_met(remote) => State::At(0),
            _ => State::Met,
        };
        match self.wait_until(patience, condition, |_| None).await {
            Err(TrialError::TimedOut { after, .. }) => {
                let reason = format!("did not report within {}", units::duration::text(after));
                Err(self.not_started(member, reason, None).await)
            }
            other => other,
        }
    }

    /// Waits for every role elsewhere to say what its process uses at this moment. What does not come in time is not
    /// waited for: the last reading stands.
    pub(in crate::run) async fn read_usages(&mut self) -> Result<(), TrialError> {
        let mut wanted = BTreeMap::new();
        for member in self.remote_members() {
            let usages = self.remote(member).map_or(0, Remote::usages);
            wanted.insert(member, usages + 1);
            self.ask(member, true).await;
        }
        let patience = Patience { what: "reading usages", total: Some(USAGE_PATIENCE), stalled: None };
        let condition = |supervisor: &Self| {
            let has_told = |(member, wanted): (&Member, &u64)| {
                supervisor.remote(*member).is_none_or(|remote| remote.usages() >= *wanted)
            };
            match wanted.iter().all(has_told) {
                true => State::Met,
                false => State::At(0),
            }
        };
        match self.wait_until(patience, condition, |_| None).await {
            Err(TrialError::TimedOut { .. }) => Ok(()),
            other => other,
        }
    }

    /// What is known of a member that runs elsewhere.
    pub(in crate::run) fn remote(&self, member: Member) -> Option<&Remote> {
        self.members.get(&member)?.remote.as_ref()
    }

    fn remote_mut(&mut self, member: Member) -> Option<&mut Remote> {
        self.members.get_mut(&member)?.remote.as_mut()
    }

    /// Those elsewhere that still work.
    fn remote_members(&self) -> Vec<Member> {
        let members = self.members.iter();
        let remote = members.filter(|(_, running)| running.remote.is_some() && running.finished.is_none());
        remote.map(|(member, _)| *member).collect()
    }

    /// Asks a role elsewhere what its clock shows.
    async fn ask(&mut self, member: Member, with_usage: bool) {
        let question: Option<ClockQuestion> =
            self.remote_mut(member).and_then(|remote| remote.question(monotonic_ns(), with_usage));
        if let Some(question) = question {
            self.write(member, &Line::Clock(question)).await;
        }
    }

    /// Asks all of them, and gives up on one that has not answered for long.
    pub(super) async fn ask_all(&mut self) -> Result<(), TrialError> {
        for member in self.remote_members() {
            if self.remote(member).is_some_and(Remote::is_silent) {
                let reason = format!("it has not answered for {}", units::duration::text(SILENCE));
                return Err(self.failed(member, reason).await);
            }
            self.ask(member, false).await;
        }
        Ok(())
    }

    /// What the processes of a role last reported of their CPU time and memory; `None` for one of this machine.
    pub(in crate::run) fn reported_usages(&self, role: Role) -> Option<Vec<(RunTime, ProcessSample)>> {
        let remote: Option<Vec<_>> = self.of(role).map(|(_, running)| running.remote.as_ref()).collect();
        let remote = remote.filter(|remote| !remote.is_empty())?;
        Some(remote.into_iter().map(|remote| remote.usage().unwrap_or_default()).collect())
    }

    /// A role said which program it is.
    pub(super) async fn greeted(&mut self, member: Member, hello: Hello) -> Result<(), TrialError> {
        let Some(running) = self.members.get_mut(&member) else {
            return Ok(());
        };
        match &mut running.remote {
            Some(remote) => match remote.stranger(&hello) {
                Some([reason, advice]) => Err(self.not_started(member, reason, Some(advice)).await),
                None => {
                    remote.greeted(hello);
                    Ok(())
                }
            },
            None if hello.build == Build::of_this_program() => Ok(()),
            None => {
                let reason = format!("its program was replaced during the run, by {}", hello.build);
                Err(self.failed(member, reason).await)
            }
        }
    }

    /// Ends a member that a command of the scenario should have started.
    pub(super) async fn not_started(
        &mut self,
        member: Member,
        reason: String,
        advice: Option<String>,
    ) -> TrialError {
        let Some((remote, exit)) = self.remove(member).await else {
            return TrialError::Cancelled;
        };
        let code = match exit.end {
            RoleEnd::Exited(status) => status.and_then(|status| status.code()),
            RoleEnd::Killed => None,
        };
        let remote = remote.as_ref();
        TrialError::NotStarted(Box::new(NotStarted {
            member: self.called(member),
            command: remote.map(Remote::command).unwrap_or_default(),
            reason,
            end: exit.end.to_string(),
            advice: advice.or_else(|| Some(remote?.advice(code))).unwrap_or_default(),
            log: exit.last_log_lines,
        }))
    }
}

/// How long a command may take to start a role elsewhere.
const GREETING_PATIENCE: Duration = Duration::from_secs(30);

/// How often the clock of a role is read before it gets its configuration.
const FIRST_EXCHANGES: u64 = 16;

/// How long an edge of the measured phase waits for what processes elsewhere use.
const USAGE_PATIENCE: Duration = Duration::from_secs(2);
