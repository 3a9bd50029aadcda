//! An instance of the relay ends in the measured phase, as the scenario wants it, and is started again.

use std::time::Duration;

use tokio::time::Instant;

use super::{CHECKPOINTS, START_PATIENCE, STOP_PATIENCE, Trial};
use crate::results::{RelayRestart, Role};
use crate::roles::process::RoleLauncher;
use crate::roles::protocol::{Command, Edge, RelayConfig};
use crate::run::error::TrialError;
use crate::run::supervisor::{Member, Patience, Running, State, Supervisor};
use crate::scenario::{EndBy, Restart};

impl<L: RoleLauncher> Trial<'_, L> {
    /// Lets the measured phase pass, with the end of the last instance in it and the beginning of its successor. That takes its
    /// number among the instances, and is the next process by its log.
    pub(super) async fn measure_over(&mut self, restart: Restart, time: Duration) -> Result<(), TrialError> {
        let clock = self.plan.clock;
        let (began, ends) = (clock.now(), Instant::now() + time);
        let since_began = || clock.now().saturating_since(began).as_secs_f64();
        self.pass(restart.after).await?;
        let processes = self.plan.relay_processes();
        let last = Member { role: Role::Relay, instance: processes - 1 };
        let successor = Member { instance: processes, ..last };
        let process_id = self.process_id(last);
        // What it has used is known as long as it is there.
        self.monitor.read_usage(&self.supervisor);
        self.ending.restart = Some(RelayRestart { by: restart.by, ended_s: since_began(), back_s: None });
        match restart.by {
            EndBy::Kill => self.supervisor.kill(last).await,
            EndBy::Stop => self.stop_one(last).await?,
        }
        self.pass(restart.down).await?;
        let checkpoints = self.folder.join(CHECKPOINTS);
        if let Some(config) = self.plan.relay(self.reached.as_ref(), last.instance, &checkpoints) {
            let config = RelayConfig { goes_on: true, ..config };
            self.launch_relay(successor.instance, config).await?;
        }
        self.until(successor, "starting the relay again", START_PATIENCE, |running| running.ready.is_some())
            .await?;
        if let (Some(ended), Some(successor)) = (process_id, self.process_id(successor)) {
            self.monitor.replace(Role::Relay, ended, successor);
        }
        self.supervisor.tell_one(successor, &Command::Mark { edge: Edge::Begin }).await;
        self.supervisor.tell_one(successor, &Command::Start).await;
        if let Some(restart) = &mut self.ending.restart {
            restart.back_s = Some(since_began());
        }
        self.pass(ends.saturating_duration_since(Instant::now())).await
    }

    /// Ends a member in good order, with what it found out.
    async fn stop_one(&mut self, member: Member) -> Result<(), TrialError> {
        for command in [Command::Mark { edge: Edge::End }, Command::Stop] {
            self.supervisor.tell_one(member, &command).await;
        }
        self.until(member, "stopping the relay", STOP_PATIENCE, |running| running.finished.is_some()).await?;
        self.supervisor.let_go(member).await;
        Ok(())
    }

    /// Waits for something of one member, while the others work.
    async fn until(
        &mut self,
        member: Member,
        what: &'static str,
        patience: Duration,
        is_met: impl Fn(&Running) -> bool,
    ) -> Result<(), TrialError> {
        let patience = Patience { what, total: Some(patience), stalled: None };
        let condition = |supervisor: &Supervisor| {
            let mut found = supervisor.of(member.role).filter(|(other, _)| *other == member);
            match found.all(|(_, running)| is_met(running)) {
                true => State::Met,
                false => State::At(0),
            }
        };
        let monitor = &mut self.monitor;
        self.supervisor.wait_until(patience, condition, |supervisor| monitor.tick(supervisor)).await
    }

    fn process_id(&self, member: Member) -> Option<u32> {
        let mut members = self.supervisor.of(member.role);
        members.find(|(other, _)| *other == member).and_then(|(_, running)| running.process_id())
    }
}
