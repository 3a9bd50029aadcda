//! One trial: its roles, its phases, in their order.
//!
//! ```text
//! start ─┬─ backlog:  fill ──────────── relay drains (measured) ── sink starts ─┐
//!        └─ others:   warm-up ── measure ── load stops ─────────────────────────┴─ drain ── verify ── stop
//! ```
//!
//! A backlog isolates the pipeline: while it is measured, neither generator nor sink uses the machine. In every other
//! mode all roles work at once. Counters at the edges of the measured phase are read by the roles themselves, each with
//! its own reading of the common clock. An instance of the relay may end in the measured phase, and be started again:
//! `restart`.

mod restart;
mod waiting;

use std::{
    collections::BTreeMap,
    net::{Ipv4Addr, TcpListener},
    path::{Path, PathBuf},
    time::Duration,
};

use tokio::time::Instant;

use super::{
    bounds::{allowed, groups},
    cancellation::Cancellation,
    case_plan::transport_name,
    collect::{Ending, collect},
    error::TrialError,
    max_lag::MaxLag,
    monitor::{
        Monitor, Place, load_counters, relay_counters, service_counters, sink_counters, sinks_counters,
    },
    peers::Peers,
    pipeline::Pipeline,
    plan::{LEAST_DRAIN, TrialPlan},
    supervisor::{Member, Patience, State, Supervisor},
};
use crate::report::create_directories;
use crate::{
    clock::RunClock,
    figure,
    limits::{Limiter, RoleGroup},
    probe::Scope,
    progress::{Observer, Phase},
    results::{Finding, FindingKind, Role, Severity, TrialRecord},
    roles::{
        process::RoleLauncher,
        protocol::{
            Command, Edge, LoadConfig, Outcome, Ready, RelayConfig, RoleConfig, ServiceConfig, SinkConfig,
        },
    },
    scenario::LoadMode,
    verify::StreamSends,
};

/// What a trial needs beside its plan.
pub(super) struct TrialContext<'a, L> {
    pub(super) launcher: &'a L,
    pub(super) limiter: &'a Limiter,
    pub(super) observer: &'a dyn Observer,
    pub(super) cancellation: Cancellation,
    pub(super) place: Place,
    /// How often the course of the trial is read.
    pub(super) interval: Duration,
    /// The trial's own folder: logs, and while it runs checkpoints and data.
    pub(super) folder: PathBuf,
}

/// Runs one trial. Whatever happens, there is a record of it, with what could be measured; and all of its processes
/// have ended when this returns.
pub(super) async fn run_trial<L: RoleLauncher>(
    plan: &TrialPlan<'_>,
    context: TrialContext<'_, L>,
) -> (TrialRecord, Option<TrialError>) {
    let number = context.place.trial;
    let monitor = Monitor::new(
        context.observer,
        context.place,
        plan.clock,
        MaxLag::of(plan),
        Pipeline::of(plan),
        context.interval,
    );
    let mut trial = Trial {
        plan,
        launcher: context.launcher,
        supervisor: Supervisor::new(context.cancellation, plan.clock, plan.measured()),
        monitor,
        groups: groups(plan, context.limiter),
        folder: context.folder,
        reached: None,
        ending: Ending::default(),
    };
    let mut result = trial.run().await;
    trial.monitor.enter(Phase::Stopping, None);
    let mut record = match collect(plan, &trial.supervisor, &trial.monitor, &trial.groups, &trial.ending) {
        Ok(record) => record,
        Err(error) => {
            result = result.and(Err(error));
            TrialRecord::default()
        }
    };
    record.trial.number = number;
    for finding in &mut record.trial.findings {
        finding.trial = Some(number);
    }
    if let Err(error) = &result {
        record.trial.interrupted = true;
        let mut finding = error.finding(number);
        if let TrialError::RoleFailed { role, .. } = error
            && plan.may_be_out_of_reach(*role)
        {
            let advice = "if it can't reach the embedded service, which listens on the loopback interface of its \
                          machine: set `embedded.listen` and `embedded.advertise`";
            finding.hint =
                Some(finding.hint.map_or_else(|| advice.to_owned(), |hint| format!("{hint}\n{advice}")));
        }
        record.trial.findings.push(finding);
        record.trial.findings.extend(trial.groups.iter().filter(|(_, group)| group.ran_out_of_memory()).map(
            |(role, group)| {
                let mut finding = Finding::new(
                    Severity::Failure,
                    FindingKind::LimitedByClient,
                    format!(
                        "{} was killed at its memory limit of {}",
                        plan.measured().called(*role, role),
                        figure::bytes(group.limit().memory_bytes.unwrap_or_default() as f64)
                    ),
                );
                finding.trial = Some(number);
                finding
            },
        ));
    }
    let Trial { supervisor, groups, folder, .. } = trial;
    for error in supervisor.dismiss().await {
        let message = format!("a log is incomplete: {error}");
        let mut finding = Finding::new(Severity::Warning, FindingKind::Other, message);
        finding.trial = Some(number);
        record.trial.findings.push(finding);
    }
    // Only now are the groups without processes.
    drop(groups);
    for folder in [CHECKPOINTS, DATA, TLS].map(|name| folder.join(name)) {
        let _ = std::fs::remove_dir_all(folder);
    }
    (record, result.err())
}

struct Trial<'a, L> {
    plan: &'a TrialPlan<'a>,
    launcher: &'a L,
    supervisor: Supervisor,
    monitor: Monitor<'a>,
    groups: BTreeMap<Role, RoleGroup>,
    folder: PathBuf,
    /// How roles reach a service that the lab has started.
    reached: Option<Ready>,
    ending: Ending,
}

impl<L: RoleLauncher> Trial<'_, L> {
    async fn run(&mut self) -> Result<(), TrialError> {
        self.start().await?;
        let (streams, drained_by) = match self.plan.mode() {
            LoadMode::Backlog => self.drain_a_backlog().await?,
            LoadMode::Open | LoadMode::Burst | LoadMode::Closed | LoadMode::Saturate | LoadMode::Capacity => {
                self.measure_under_load().await?
            }
        };
        self.let_everything_arrive(streams, drained_by).await?;
        self.stop().await
    }

    async fn start(&mut self) -> Result<(), TrialError> {
        self.monitor.enter(Phase::Starting, None);
        let [checkpoints, data, tls] = [CHECKPOINTS, DATA, TLS].map(|name| self.folder.join(name));
        // What an earlier run left there would make this one begin in the middle.
        for folder in [&checkpoints, &data, &tls] {
            let _ = std::fs::remove_dir_all(folder);
        }
        create_directories(&checkpoints)
            .map_err(|source| TrialError::Folder { path: checkpoints.clone(), source })?;
        let peers = Peers::of_environment();
        self.reached = self.start_service(&data, &tls, &peers).await?;
        let reached = self.reached.clone();
        let own = reached.as_ref();
        let plan = self.plan;
        let mut load = plan.load(own);
        peers.find_client(&mut load.source);
        self.launch(Role::Load, 0, |clock| RoleConfig::Load(Box::new(LoadConfig { clock, ..load }))).await?;
        for instance in 0..self.plan.relay_processes() {
            if let Some(config) = plan.external(own, &checkpoints, &peers) {
                self.launch(Role::Relay, instance, |_| RoleConfig::External(Box::new(config))).await?;
            } else if let Some(config) = plan.relay(own, instance, &checkpoints) {
                self.launch_relay(instance, config).await?;
            }
        }
        for (instance, mut config) in (0..).zip(plan.sinks(own)) {
            peers.find_client(&mut config.destination);
            let config = |clock| RoleConfig::Sink(Box::new(SinkConfig { clock, ..config }));
            self.launch(Role::Sink, instance, config).await?;
        }
        self.until_ready("connecting the roles").await?;
        self.supervisor.read_usages().await?;
        for role in Role::ALL {
            if self.supervisor.of(role).next().is_some() {
                let (limit, cores) = allowed(role, &self.supervisor, &self.groups);
                let cores = limit.cores.unwrap_or_else(|| f64::from(cores));
                let scope = match (self.plan.is_command(role), self.plan.has_client_programs(role)) {
                    (true, _) => Scope::Below,
                    (false, true) => Scope::Whole,
                    (false, false) => Scope::Itself,
                };
                self.monitor.watch(role, self.supervisor.probe(role, scope), cores);
            }
        }
        Ok(())
    }

    /// Starts the embedded service, or the command in its place; `None` where the service runs already.
    async fn start_service(
        &mut self,
        data: &Path,
        tls: &Path,
        peers: &Peers,
    ) -> Result<Option<Ready>, TrialError> {
        if self.plan.is_embedded() {
            let config = self.plan.service(data, tls);
            let config = |clock| RoleConfig::Service(Box::new(ServiceConfig { clock, ..config }));
            self.launch(Role::Service, 0, config).await?;
            self.until_ready("starting the embedded service").await?;
            let ready = self.supervisor.of(Role::Service).find_map(|(_, running)| running.ready.clone());
            if let Some(missing) = ready.as_ref().and_then(|ready| self.plan.missing_connection(ready)) {
                let service = Member { role: Role::Service, instance: 0 };
                let reason = format!("it does not listen for connections over {}", transport_name(missing));
                return Err(self.supervisor.failed(service, reason).await);
            }
            return Ok(ready);
        }
        if !self.plan.is_command(Role::Service) {
            return Ok(None);
        }
        let port = free_port().map_err(TrialError::NoPort)?;
        let Some((config, ready)) = self.plan.service_command(port, peers) else {
            return Ok(None);
        };
        self.launch(Role::Service, 0, |_| RoleConfig::ServiceCommand(Box::new(config))).await?;
        self.until_ready("starting the service").await?;
        Ok(Some(ready))
    }

    /// Returns what was sent, and when the drain phase ends at the latest.
    async fn measure_under_load(&mut self) -> Result<(Vec<StreamSends>, Instant), TrialError> {
        let phases = &self.plan.parameters.phases;
        for role in [Role::Sink, Role::Relay] {
            self.supervisor.tell(role, &Command::Start).await;
        }
        if self.plan.claims_partitions() {
            self.until_claimed().await?;
        }
        self.monitor.start_load();
        self.supervisor.tell(Role::Load, &Command::Start).await;
        if let Some(events) = self.monitor.first_allowance() {
            self.supervisor.tell(Role::Load, &Command::Allow { events }).await;
        }
        if self.plan.is_external() {
            self.until_first_event().await?;
        }
        if let Some(lead) = self.plan.course.lead {
            self.monitor.enter(Phase::Leading, Some(lead.length));
            self.pass(lead.length).await?;
        }
        self.monitor.enter(Phase::WarmUp, Some(phases.warm_up));
        self.pass(phases.warm_up).await?;
        self.supervisor.read_usages().await?;
        self.monitor.begin_measurement(&self.supervisor);
        self.mark(Edge::Begin, &Role::ALL).await?;
        self.monitor.enter(Phase::Measuring, Some(phases.measure));
        self.measure(phases.measure).await?;
        self.mark(Edge::End, &Role::ALL).await?;
        if self.ending.restart.is_some() {
            self.supervisor.complete_marks(Role::Relay);
        }
        self.supervisor.read_usages().await?;
        self.monitor.end_measurement(&self.supervisor);
        let drained_by = self.begin_to_drain();
        self.supervisor.tell(Role::Load, &Command::Stop).await;
        // The load gives up waiting for answers by itself.
        let patience = Patience {
            what: "ending the load",
            total: Some(self.plan.drain() + STOP_PATIENCE),
            stalled: None,
        };
        Ok((self.until_load_is_done(patience).await?, drained_by))
    }

    /// The measured phase is over. Returns when the drain phase ends at the latest.
    fn begin_to_drain(&mut self) -> Instant {
        let drain = self.plan.drain();
        self.monitor.enter(Phase::Draining, Some(drain));
        Instant::now() + drain
    }

    /// Returns what was sent, and when the drain phase ends at the latest.
    async fn drain_a_backlog(&mut self) -> Result<(Vec<StreamSends>, Instant), TrialError> {
        self.monitor.enter(Phase::Filling, None);
        self.supervisor.tell(Role::Load, &Command::Start).await;
        let streams = self
            .until_load_is_done(Patience {
                what: "filling the backlog",
                total: None,
                stalled: Some(STANDSTILL),
            })
            .await?;
        let backlog: u64 = streams.iter().map(|stream| stream.acknowledged.count()).sum();
        self.supervisor.read_usages().await?;
        self.monitor.begin_measurement(&self.supervisor);
        self.mark(Edge::Begin, &[Role::Service, Role::Relay]).await?;
        self.monitor.enter(Phase::Measuring, None);
        self.supervisor.tell(Role::Relay, &Command::Start).await;
        let monitor = &mut self.monitor;
        self.supervisor
            .wait_until(
                Patience { what: "draining the backlog", total: None, stalled: Some(STANDSTILL) },
                |supervisor| {
                    let done = relay_counters(supervisor).done() + sink_counters(supervisor).dead_lettered;
                    if done >= backlog { State::Met } else { State::At(done) }
                },
                |supervisor| monitor.tick(supervisor),
            )
            .await?;
        self.mark(Edge::End, &[Role::Service, Role::Relay]).await?;
        self.supervisor.read_usages().await?;
        self.monitor.end_measurement(&self.supervisor);
        let drained_by = self.begin_to_drain();
        self.supervisor.tell(Role::Sink, &Command::Start).await;
        Ok((streams, drained_by))
    }

    /// Waits for every acknowledged event to be seen that retention has left, or for the end of the drain phase.
    async fn let_everything_arrive(
        &mut self,
        streams: Vec<StreamSends>,
        drained_by: Instant,
    ) -> Result<(), TrialError> {
        let acknowledged = streams.iter().map(|stream| stream.acknowledged.count()).sum();
        self.supervisor.tell(Role::Sink, &Command::Expect { streams }).await;
        let pipeline = Pipeline::of(self.plan);
        let patience = Patience {
            what: "draining",
            // What was acknowledged last may need a moment more than the load had for its answers.
            total: Some(drained_by.saturating_duration_since(Instant::now()).max(LEAST_DRAIN)),
            stalled: None,
        };
        let monitor = &mut self.monitor;
        let drained = self
            .supervisor
            .wait_until(
                patience,
                |supervisor| match pipeline.missing(supervisor, acknowledged) {
                    Some(0) => State::Met,
                    Some(missing) if nothing_more_comes(supervisor, missing) => State::Met,
                    missing => State::At(missing.unwrap_or(u64::MAX)),
                },
                |supervisor| monitor.tick(supervisor),
            )
            .await;
        match drained {
            // What has not arrived by now is lost; the verdict says how much.
            Err(TrialError::TimedOut { .. }) => Ok(()),
            other => other,
        }
    }

    /// Ends the roles against the stream, so that each can take what is on the way to it.
    async fn stop(&mut self) -> Result<(), TrialError> {
        self.monitor.enter(Phase::Verifying, None);
        for role in [Role::Relay, Role::Sink, Role::Service] {
            if role == Role::Service && self.plan.is_embedded() {
                self.ask_for_times().await;
            }
            self.supervisor.tell(role, &Command::Stop).await;
            let [_, service] = self.plan.patience_with_service();
            let patience = Patience {
                what: "stopping",
                total: Some(STOP_PATIENCE + self.plan.parameters.sut.stop_within + service),
                stalled: None,
            };
            let monitor = &mut self.monitor;
            let all_finished =
                |supervisor: &Supervisor| match supervisor.of(role).all(|(_, running)| running.has_ended()) {
                    true => State::Met,
                    false => State::At(0),
                };
            self.supervisor.wait_until(patience, all_finished, |supervisor| monitor.tick(supervisor)).await?;
        }
        // The service's counters after everyone else's last word.
        self.ending.hub = service_counters(&self.supervisor);
        self.ending.is_whole = true;
        Ok(())
    }

    /// Has the service say when the records were where in it that the first sink read.
    async fn ask_for_times(&mut self) {
        let Some(end) = self.plan.topology.sinks.first().filter(|_| self.plan.topology.pipeline.is_none())
        else {
            return;
        };
        let sinks = self.supervisor.of(Role::Sink);
        let finished =
            sinks.filter(|(sink, _)| sink.instance == 0).find_map(|(_, running)| running.finished.as_ref());
        if let Some(Outcome::Sink { reads, .. }) = finished
            && !reads.is_empty()
        {
            let entity = self.plan.topology.entity(end).name().to_owned();
            let asked = Command::Served { entity, reads: reads.clone() };
            self.supervisor.tell(Role::Service, &asked).await;
        }
    }

    /// Starts an instance of our relay as the process of this number.
    async fn launch_relay(&mut self, process: u32, config: RelayConfig) -> Result<(), TrialError> {
        let tells_metrics = self.monitor.wants_metrics();
        let config = |clock| RoleConfig::Relay(Box::new(RelayConfig { clock, tells_metrics, ..config }));
        self.launch(Role::Relay, process, config).await
    }

    /// Starts a role where the scenario wants it, configured for the clock of that place.
    async fn launch(
        &mut self,
        role: Role,
        instance: u32,
        config: impl FnOnce(RunClock) -> RoleConfig,
    ) -> Result<(), TrialError> {
        let member = Member { role, instance };
        if let Some(launch) = self.plan.parameters.roles.of(role) {
            return self
                .supervisor
                .start_elsewhere(self.launcher, member, launch, config, &self.folder)
                .await;
        }
        let group = self.groups.get(&role).expect("there is a group for every role");
        let config = config(self.plan.clock);
        self.supervisor.start(self.launcher, member, group, config, &self.folder).await
    }
}

/// Whether the `missing` events are those that retention took before relay or sinks read them: the relay has done
/// everything else, and each sink has seen all of that.
fn nothing_more_comes(supervisor: &Supervisor, missing: u64) -> bool {
    let (load, relay) = (load_counters(supervisor).events, relay_counters(supervisor));
    let sinks = sinks_counters(supervisor);
    let missed: u64 = sinks.iter().map(|sink| sink.missed).sum();
    let received: u64 = sinks.iter().map(|sink| sink.events.received).sum();
    missing <= relay.missed * sinks.len() as u64 + missed
        && relay.done() >= load.acknowledged
        && received + missed >= relay.forwarded
}

/// A port that nothing listens on at this moment. A command takes it right after; that something else does so before is
/// possible, and fails the trial with the command's own reason.
fn free_port() -> std::io::Result<u16> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port())
}

/// The folder of a trial below that of the results.
pub(super) fn trial_folder(results: &Path, case: &str, trial: u32) -> PathBuf {
    let is_plain = |character: char| character.is_ascii_alphanumeric() || "=.,_-".contains(character);
    let case: String =
        case.chars().map(|character| if is_plain(character) { character } else { '_' }).collect();
    results.join("logs").join(format!("{case}.{trial}"))
}

const CHECKPOINTS: &str = "checkpoints";

/// The data directory of a durable service.
const DATA: &str = "data";

/// The certificates of a service that listens for TLS.
const TLS: &str = "tls";

/// A role connects within a second; one that does not within this has a reason.
const START_PATIENCE: Duration = Duration::from_secs(30);

/// Without any progress for this long nothing more is to be expected. Longer than all retries of a send and the rest of
/// a failed partition together.
const STANDSTILL: Duration = Duration::from_secs(60);

/// The least time for what must happen before a trial goes on.
const LEAST_PATIENCE: Duration = Duration::from_secs(2);

const STOP_PATIENCE: Duration = Duration::from_secs(30);
