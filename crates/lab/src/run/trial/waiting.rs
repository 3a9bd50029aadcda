//! What a trial waits for: time that passes, roles that are ready, partitions that are claimed, counters that are read.

use std::time::Duration;

use super::{LEAST_PATIENCE, START_PATIENCE, Trial};
use crate::results::Role;
use crate::roles::process::RoleLauncher;
use crate::roles::protocol::{Command, Edge, Outcome};
use crate::run::error::TrialError;
use crate::run::monitor::{is_throttled, load_counters, owned_partitions, sink_counters};
use crate::run::pipeline::Pipeline;
use crate::run::supervisor::{Member, Patience, State, Supervisor};
use crate::scenario::Entity;
use crate::verify::StreamSends;

impl<L: RoleLauncher> Trial<'_, L> {
    pub(super) async fn until_ready(&mut self, what: &'static str) -> Result<(), TrialError> {
        let [service, _] = self.plan.patience_with_service();
        let total = START_PATIENCE + self.plan.time_to_be_ready() + service;
        let patience = Patience { what, total: Some(total), stalled: None };
        let all_ready =
            |supervisor: &Supervisor| match supervisor.all().all(|(_, running)| running.ready.is_some()) {
                true => State::Met,
                false => State::At(0),
            };
        self.supervisor.wait_until(patience, all_ready, |_| None).await
    }

    /// Waits for the instances of the relay to have claimed all partitions in equal shares: what changes hands while they
    /// find one another comes twice, and what nobody has claimed yet is not carried.
    pub(super) async fn until_claimed(&mut self) -> Result<(), TrialError> {
        let parameters = self.plan.parameters;
        let read = self.plan.topology.of_pipeline();
        let partitions = read.map_or(0, Entity::partitions);
        let instances = self.plan.relay_processes() as usize;
        let patience = Patience {
            what: "claiming the partitions",
            // Balanced, each instance claims one per cycle.
            total: Some((parameters.relay.ownership.renew * partitions).max(LEAST_PATIENCE) * 2),
            stalled: None,
        };
        let claimed = |supervisor: &Supervisor| {
            let owned = owned_partitions(supervisor);
            let all: u64 = owned.iter().sum();
            let is_equal = owned.iter().max() <= owned.iter().min().map(|least| least + 1).as_ref();
            match all == u64::from(partitions) && owned.len() == instances && is_equal {
                true => State::Met,
                false => State::At(all),
            }
        };
        let monitor = &mut self.monitor;
        self.supervisor.wait_until(patience, claimed, |supervisor| monitor.tick(supervisor)).await
    }

    /// Waits for a command to carry its first event: it may take its time to start, to find the hubs and to divide their
    /// partitions, which nobody wants in the warm-up.
    pub(super) async fn until_first_event(&mut self) -> Result<(), TrialError> {
        let sut = &self.plan.parameters.sut;
        let patience =
            Patience { what: "carrying the first event", total: Some(sut.ready_within), stalled: None };
        let monitor = &mut self.monitor;
        let pipeline = Pipeline::of(self.plan);
        let arrived = |supervisor: &Supervisor| {
            let events = sink_counters(supervisor).events;
            let settled = match pipeline {
                Pipeline::Settling(_) => pipeline.counters(supervisor).done(),
                _ => 0,
            };
            // A command that changes every event carries them all the same: the verdict says what it does to them.
            match events.received + events.corrupted + settled {
                0 => State::At(0),
                _ => State::Met,
            }
        };
        let waited =
            self.supervisor.wait_until(patience, arrived, |supervisor| monitor.tick(supervisor)).await;
        let Err(TrialError::TimedOut { .. }) = waited else {
            return waited;
        };
        let within = units::duration::text(sut.ready_within);
        let reason = match sut.done {
            None => format!("no event of `{}` arrived within {within}", sut.name),
            Some(_) => format!("`{}` has done no event within {within}", sut.name),
        };
        let relay = Member { role: Role::Relay, instance: 0 };
        Err(self.supervisor.failed(relay, reason).await)
    }

    /// Lets the measured phase pass, or what of it is enough.
    pub(super) async fn measure(&mut self, time: Duration) -> Result<(), TrialError> {
        if let Some(restart) = self.plan.parameters.relay.restart {
            return self.measure_over(restart, time).await;
        }
        let Some(enough) = self.plan.course.throttled_ends_after.filter(|enough| *enough < time) else {
            return self.pass(time).await;
        };
        self.pass(enough).await?;
        self.pass_until(time - enough, |supervisor| match is_throttled(supervisor) {
            true => State::Met,
            false => State::At(0),
        })
        .await
    }

    /// Lets time pass while the roles work.
    pub(super) async fn pass(&mut self, time: Duration) -> Result<(), TrialError> {
        self.pass_until(time, |_| State::At(0)).await
    }

    /// The same, but only until a condition is met.
    pub(super) async fn pass_until(
        &mut self,
        time: Duration,
        condition: impl FnMut(&Supervisor) -> State,
    ) -> Result<(), TrialError> {
        let monitor = &mut self.monitor;
        let patience = Patience { what: "passing the time", total: Some(time), stalled: None };
        match self.supervisor.wait_until(patience, condition, |supervisor| monitor.tick(supervisor)).await {
            Err(TrialError::TimedOut { .. }) => Ok(()),
            other => other,
        }
    }

    pub(super) async fn mark(&mut self, edge: Edge, roles: &[Role]) -> Result<(), TrialError> {
        for role in roles {
            self.supervisor.tell(*role, &Command::Mark { edge }).await;
        }
        let patience = Patience { what: "reading the counters", total: Some(START_PATIENCE), stalled: None };
        let monitor = &mut self.monitor;
        let all_marked = |supervisor: &Supervisor| {
            let asked = supervisor.all().filter(|(member, _)| roles.contains(&member.role));
            let mut unfinished = asked.filter(|(_, running)| !running.has_ended());
            match unfinished.all(|(_, running)| running.marks.contains_key(&edge)) {
                true => State::Met,
                false => State::At(0),
            }
        };
        self.supervisor.wait_until(patience, all_marked, |supervisor| monitor.tick(supervisor)).await
    }

    pub(super) async fn until_load_is_done(
        &mut self,
        patience: Patience,
    ) -> Result<Vec<StreamSends>, TrialError> {
        let monitor = &mut self.monitor;
        let done = |supervisor: &Supervisor| match supervisor
            .of(Role::Load)
            .all(|(_, running)| running.finished.is_some())
        {
            true => State::Met,
            false => State::At(load_counters(supervisor).events.sent),
        };
        self.supervisor.wait_until(patience, done, |supervisor| monitor.tick(supervisor)).await?;
        let outcomes = self.supervisor.of(Role::Load).filter_map(|(_, running)| match &running.finished {
            Some(Outcome::Load { streams, .. }) => Some(streams.clone()),
            _ => None,
        });
        Ok(outcomes.into_iter().next().unwrap_or_default())
    }
}
