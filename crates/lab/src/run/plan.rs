//! From a case of a scenario to the configuration of each role in one trial.

use std::{collections::BTreeSet, path::Path, time::Duration};

use hub::namespace::StorageConfig;
use partition_log::disk::StorageOptions;
use pipeline::vocabulary::Route;

use super::{case_plan::system, peers::Peers};
use crate::{
    clock::RunClock,
    load::{Arrivals, Lead, LoadPlan, Pace},
    results::{MeasuredComponent, Noun, Role},
    roles::protocol::{
        CHECKPOINT_CONTAINER, DoneBy, Endpoint, EntryPoint, ExternalConfig, KafkaAccess, LoadConfig,
        ProducerProgram, ReadFrom, Ready, RelayConfig, SINK_CONSUMER_GROUP, ServiceAddress, ServiceConfig,
        SinkConfig,
    },
    scenario::{
        self, Connection, Done, End, Entity, KafkaCluster, LoadMode, Parameters, Payload, Protocol, Queue,
        Readiness, RoleLimits, Secret, ServiceCommand, Target, Topology, kafka,
    },
    verify::{Expectation, Placement},
};

/// Everything that the roles of one trial have in common.
#[derive(Debug, Clone)]
pub(super) struct TrialPlan<'a> {
    pub(super) parameters: &'a Parameters,
    /// The graph of the parameters.
    pub(super) topology: Topology,
    pub(super) clock: RunClock,
    /// Tells this trial's events from those of others.
    pub(super) run: u8,
    pub(super) course: Course,
}

/// What a search wants of a trial beyond its parameters.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Course {
    /// How its load begins, before the warm-up.
    pub(super) lead: Option<Lead>,
    /// A role that was throttled ends the measured phase after this time.
    pub(super) throttled_ends_after: Option<Duration>,
}

impl<'a> TrialPlan<'a> {
    pub(super) fn new(parameters: &'a Parameters, clock: RunClock, run: u8) -> Self {
        Self { parameters, topology: parameters.topology(), clock, run, course: Course::default() }
    }

    /// The same for a probe of a search.
    pub(super) fn with_course(self, course: Course) -> Self {
        Self { course, ..self }
    }

    pub(super) fn mode(&self) -> LoadMode {
        self.parameters.load.mode
    }

    /// Whether the run makes its own service.
    pub(super) fn is_embedded(&self) -> bool {
        self.parameters.target == Target::Embedded
    }

    /// Whether a command is measured, and not our relay.
    pub(super) fn is_external(&self) -> bool {
        !self.parameters.sut.is_ours()
    }

    /// What shows that an event is done, if a consumer is measured that forwards nothing.
    pub(super) fn done(&self) -> Option<Done> {
        self.parameters.sut.done
    }

    /// What is measured, for sentences about it.
    pub(super) fn measured(&self) -> MeasuredComponent {
        let system = system(&self.parameters.sut, &self.topology);
        MeasuredComponent::of(system.as_ref(), self.topology.measured_role())
    }

    /// What its sentences call the things that are carried.
    pub(super) fn noun(&self) -> Noun {
        self.topology.noun()
    }

    /// Whether instances of our relay claim the partitions of the source.
    pub(super) fn claims_partitions(&self) -> bool {
        let reads_a_log = self.topology.of_pipeline().is_some_and(Entity::is_log);
        !self.is_external() && reads_a_log && self.parameters.relay.ownership.is_shared()
    }

    /// Whether the dates by which the pipeline reads events are those of their append. Records of Kafka keep the date of whoever
    /// sent them, and only readers of AMQP are not shown it.
    pub(super) fn reads_dates_of_the_service(&self) -> bool {
        let reads_records =
            |pipeline: &scenario::Pipeline| pipeline.from.connection.protocol == Protocol::Kafka;
        self.topology.load.connection.protocol != Protocol::Kafka
            || !self.topology.pipeline.as_ref().is_some_and(reads_records)
    }

    /// How many processes the relay's role has. A command is one, whatever it starts.
    pub(super) fn relay_processes(&self) -> u32 {
        match (&self.topology.pipeline, self.is_external()) {
            (None, _) => 0,
            (Some(_), true) => 1,
            (Some(_), false) => self.parameters.relay.instances.max(1),
        }
    }

    /// Whether a role and the embedded service run on two machines, and nothing says how one reaches the other.
    pub(super) fn may_be_out_of_reach(&self, role: Role) -> bool {
        let roles = &self.parameters.roles;
        self.is_embedded()
            && self.parameters.embedded.listen.is_none()
            && role != Role::Service
            && (roles.of(role).is_some() || roles.of(Role::Service).is_some())
    }

    /// How much longer than our own roles a command, or programs that are clients, may take to be ready.
    pub(super) fn time_to_be_ready(&self) -> Duration {
        let sut = &self.parameters.sut;
        let of_command = match (&sut.command, &sut.ready) {
            (None, _) => Duration::ZERO,
            (Some(_), ready) => time_of(ready, sut.ready_within),
        };
        let clients = self.topology.ends().filter_map(|end| end.kafka.client.program());
        clients.map(|client| client.ready_within).fold(of_command, Duration::max)
    }

    /// The command that makes the service, if one does, and how clients reach it: at `port`, which is free.
    pub(super) fn service_command(&self, port: u16, peers: &Peers) -> Option<(ExternalConfig, Ready)> {
        let Target::Command(service) = &self.parameters.target else {
            return None;
        };
        let with_port = |text: &str| ServiceCommand::with_port(text, port);
        let secret = |secret: &Secret| Secret::new(with_port(secret.reveal()));
        let (program, arguments) = service.command.split_first()?;
        let command =
            std::iter::once(peers.program(program)).chain(arguments.iter().map(|word| with_port(word)));
        let config = ExternalConfig {
            clock: self.clock,
            name: service.name().to_owned(),
            command: command.collect(),
            environment: service.env.iter().map(|(name, value)| (name.clone(), secret(value))).collect(),
            done_lines: None,
            ready: service.ready.clone(),
            ready_within: service.ready_within,
            stop_within: service.stop_within,
        };
        // One connection string for all: it says itself whether it is for TLS.
        let namespace = service.namespace.as_ref();
        let cluster = service.kafka.as_ref().map(|cluster| ServiceCommand::cluster_at(cluster, port));
        let entry_point = |connection: Connection| EntryPoint {
            connection,
            connection_string: namespace.map(|it| secret(&it.connection_string)).unwrap_or_default(),
            kafka: cluster.as_ref().map(KafkaCluster::client_properties).unwrap_or_default(),
            certificate_authority: namespace.and_then(|it| it.certificate_authority.clone()),
        };
        let entry_points = self.connections().into_iter().map(entry_point).collect();
        Some((config, Ready { entry_points, ..Ready::default() }))
    }

    /// How much longer than the embedded service a command in its place may take to be ready, and to end.
    pub(super) fn patience_with_service(&self) -> [Duration; 2] {
        match &self.parameters.target {
            Target::Command(service) => [time_of(&service.ready, service.ready_within), service.stop_within],
            Target::Embedded | Target::Namespace(_) | Target::Kafka(_) => [Duration::ZERO; 2],
        }
    }

    /// Whether a role starts programs that are its clients.
    pub(super) fn has_client_programs(&self, role: Role) -> bool {
        let is_program = |end: &End| end.kafka.client.program().is_some();
        match role {
            Role::Load => is_program(&self.topology.load),
            Role::Sink => self.topology.sinks.iter().any(is_program),
            Role::Relay | Role::Service => false,
        }
    }

    /// Whether the processes of a role are those of a command.
    pub(super) fn is_command(&self, role: Role) -> bool {
        match role {
            Role::Relay => self.is_external(),
            Role::Service => matches!(self.parameters.target, Target::Command(_)),
            Role::Load | Role::Sink => false,
        }
    }

    /// The embedded service, which keeps its events in `data` if it is to be durable, and the certificates of TLS in
    /// `tls`.
    pub(super) fn service(&self, data: &Path, tls: &Path) -> ServiceConfig {
        let parameters = self.parameters;
        let storage = parameters.embedded.durable.then(|| StorageConfig {
            directory: data.to_owned(),
            options: StorageOptions { sync: parameters.embedded.sync, ..StorageOptions::default() },
        });
        ServiceConfig {
            clock: self.clock,
            entities: self.topology.entities.values().cloned().collect(),
            size_of_each: parameters.log_per_hub(),
            when_full: parameters.embedded.when_full,
            preallocate: parameters.preallocates(),
            storage,
            profile: parameters.embedded.profile.clone(),
            connections: self.connections(),
            certificates: tls.to_owned(),
            blob_containers: Some(self.blob_containers()),
            address: parameters.embedded.listen.map(|listen| ServiceAddress {
                listen,
                advertise: parameters.embedded.advertise.clone().unwrap_or_else(|| listen.to_string()),
            }),
        }
    }

    /// The containers of its storage account: the one for checkpoints, and archives.
    fn blob_containers(&self) -> Vec<String> {
        let archives = self.topology.entities.values().filter(|entity| entity.is_archive());
        let archives = archives.map(|archive| archive.name().to_owned());
        std::iter::once(CHECKPOINT_CONTAINER.to_owned()).chain(archives).collect()
    }

    /// Every connection that an end of a role has.
    fn connections(&self) -> BTreeSet<Connection> {
        self.topology.ends().map(|end| end.connection).collect()
    }

    /// A connection that some end needs, and that a service which is ready does not listen for.
    pub(super) fn missing_connection(&self, service: &Ready) -> Option<Connection> {
        self.connections().into_iter().find(|connection| service.entry_point(*connection).is_none())
    }

    pub(super) fn load(&self, embedded: Option<&Ready>) -> LoadConfig {
        let load = &self.parameters.load;
        LoadConfig {
            clock: self.clock,
            source: self.endpoint(embedded, &self.topology.load),
            run: self.run,
            plan: self.load_plan(),
            workers: workers(load.workers),
            payload: load.payload.clone(),
            answer_patience: self.drain(),
            latency_recording: self.parameters.latency_recording,
        }
    }

    /// One instance of our relay, if the topology has a pipeline.
    pub(super) fn relay(
        &self,
        embedded: Option<&Ready>,
        instance: u32,
        checkpoints: &Path,
    ) -> Option<RelayConfig> {
        let parameters = self.parameters;
        let pipeline = self.topology.pipeline.as_ref()?;
        Some(RelayConfig {
            clock: self.clock,
            source: self.endpoint(embedded, &pipeline.from),
            destinations: pipeline.to.iter().map(|to| self.endpoint(embedded, to)).collect(),
            relay: parameters.relay.clone(),
            instance,
            read_from: self.read_from(),
            goes_on: false,
            checkpoints: checkpoints.to_owned(),
            storage: embedded.and_then(|ready| ready.storage_connection_string.clone()),
            seed: parameters.load.seed,
            tells_metrics: false,
        })
    }

    /// The sink of each end. What the source has given up is counted by the first.
    pub(super) fn sinks(&self, embedded: Option<&Ready>) -> Vec<SinkConfig> {
        let mut dead_letters = self.dead_letters(embedded);
        let sinks = self.topology.sinks.iter();
        sinks.map(|end| self.sink(embedded, end, dead_letters.take())).collect()
    }

    /// To which partitions of a sink's entity events are to go, where that is known.
    fn placement(&self, end: &End) -> Placement {
        let relay = &self.parameters.relay;
        let narrow = |partitions: u32| u16::try_from(partitions.max(1)).unwrap_or(u16::MAX);
        let destinations = narrow(self.topology.entity(end).partitions());
        let fan_out = narrow(relay.fan_out).min(destinations);
        match &self.topology.pipeline {
            _ if !self.topology.entity(end).is_log() || self.done().is_some() => Placement::Anywhere,
            // The service chooses.
            None if self.topology.load.producer.is_some() => Placement::Anywhere,
            None => Placement::Same { sources: destinations, fan_out: destinations },
            Some(_) if self.is_external() && relay.route != Route::SamePartition => Placement::Anywhere,
            Some(pipeline) if relay.route == Route::SamePartition => Placement::Same {
                sources: narrow(self.topology.entity(&pipeline.from).partitions()),
                fan_out,
            },
            Some(_) => Placement::First(fan_out),
        }
    }

    /// How many partitions of a sink's entity that many different events must have reached, whichever way they were
    /// distributed; `None` where they may lie in fewer by chance or by their keys.
    pub(super) fn reachable_partitions(&self, end: &End, events: u64) -> Option<u16> {
        let relay = &self.parameters.relay;
        let has_keys = matches!(self.parameters.load.payload, Payload::Replay { .. });
        let destinations = u16::try_from(self.topology.entity(end).partitions()).unwrap_or(u16::MAX);
        let fan_out = u16::try_from(relay.fan_out.max(1)).unwrap_or(u16::MAX).min(destinations);
        // A command may choose a partition for each batch.
        let (partitions, events_at_once) = match self.placement(end) {
            Placement::Same { sources, fan_out } => (self.load_plan().streams.min(sources).min(fan_out), 1),
            _ if has_keys => return None,
            Placement::First(fan_out) => (fan_out, 1),
            Placement::Anywhere => (fan_out, relay.batch.events as u64),
        };
        let enough =
            u64::from(partitions).saturating_mul(EVENTS_PER_PARTITION).saturating_mul(events_at_once);
        (events >= enough).then_some(partitions)
    }

    fn sink(&self, embedded: Option<&Ready>, end: &End, dead_letters: Option<Endpoint>) -> SinkConfig {
        let parameters = self.parameters;
        let partitions = self.topology.entity(end).partitions();
        let destinations = u16::try_from(partitions).unwrap_or(u16::MAX);
        let mut destination = self.endpoint(embedded, end);
        let done_by = self.done_by(embedded, &destination.entity);
        if let (Some(_), Entity::Hub(hub)) = (&done_by, &mut destination.entity) {
            SINK_CONSUMER_GROUP.clone_into(&mut hub.consumer_group);
        }
        SinkConfig {
            clock: self.clock,
            destination,
            dead_letters,
            done_by,
            expectation: Expectation {
                run: self.run,
                streams: self.load_plan().streams,
                destinations,
                sequence_end: self.sequence_end(),
                placement: self.placement(end),
            },
            plan: self.load_plan(),
            workers: workers(parameters.sink.workers),
            prefetch: parameters.sink.prefetch,
            read_from: self.read_from(),
            payload: parameters.load.payload.clone(),
            latency_recording: parameters.latency_recording,
        }
    }

    /// How the sink learns what a consumer of that entity has done.
    fn done_by(&self, embedded: Option<&Ready>, read: &Entity) -> Option<DoneBy> {
        match (self.done()?, read) {
            (Done::Checkpoint, Entity::Hub(hub)) => Some(DoneBy::Checkpoints {
                storage: embedded?.storage_connection_string.clone()?,
                hub: hub.name.clone(),
                consumer_group: hub.consumer_group.clone(),
            }),
            (Done::Checkpoint | Done::Line | Done::Settlement, _) => Some(DoneBy::Reports),
        }
    }

    /// How long the drain phase may last.
    pub(super) fn drain(&self) -> Duration {
        self.parameters.phases.drain.max(LEAST_DRAIN)
    }

    pub(super) fn limits(&self, role: Role) -> &RoleLimits {
        self.parameters.limits.of(role)
    }

    fn load_plan(&self) -> LoadPlan {
        let load = &self.parameters.load;
        // A stream per source partition, and at least one for every worker.
        let partitions = self.topology.of_load().partitions();
        let streams = partitions.max(load.workers);
        LoadPlan {
            seed: load.seed,
            streams: u16::try_from(streams).unwrap_or(u16::MAX),
            batch: match load.mode {
                LoadMode::Burst => 1,
                _ => load.batch,
            },
            in_flight: match load.mode {
                LoadMode::Closed => load.callers,
                LoadMode::Burst => load.burst_events(),
                LoadMode::Open | LoadMode::Saturate | LoadMode::Backlog | LoadMode::Capacity => {
                    load.in_flight
                }
            },
            pace: match (load.mode, load.rate) {
                (LoadMode::Open, Some(rate)) => Pace::Open {
                    rate,
                    arrivals: match load.arrivals {
                        scenario::Arrivals::Constant => Arrivals::Constant,
                        scenario::Arrivals::Poisson => Arrivals::Poisson,
                    },
                    lead: self.course.lead,
                },
                (LoadMode::Burst, Some(rate)) => Pace::Burst { rate, burst: load.burst_events() },
                // The scenario's own checks demand a rate of these loads.
                // A search for a capacity is made of open loads and never a trial itself.
                (LoadMode::Closed | LoadMode::Open | LoadMode::Burst | LoadMode::Capacity, _) => Pace::Closed,
                (LoadMode::Saturate, _) => Pace::Saturate,
                (LoadMode::Backlog, _) => Pace::Backlog { events: load.backlog },
            },
        }
    }

    /// A sequence number that no stream of this trial can reach, with room to spare.
    fn sequence_end(&self) -> u32 {
        let load = &self.parameters.load;
        let phases = &self.parameters.phases;
        let streams = u64::from(self.load_plan().streams.max(1));
        let events = match (load.mode, load.rate) {
            (LoadMode::Backlog, _) => load.backlog,
            (LoadMode::Open | LoadMode::Burst, Some(rate)) => {
                let lead = self.course.lead.map_or(0, |lead| lead.rate.events_in(lead.length));
                let events = rate.events_in(phases.warm_up + phases.measure + SLACK);
                events.saturating_add(lead).saturating_add(load.burst_events().into()).saturating_mul(2)
            }
            // More than a machine can send; the memory follows what is seen, not this bound.
            _ => u64::MAX,
        };
        u32::try_from(events.div_ceil(streams).saturating_add(STREAM_SLACK)).unwrap_or(u32::MAX)
    }

    fn read_from(&self) -> ReadFrom {
        if self.is_embedded() { ReadFrom::Beginning } else { ReadFrom::Now }
    }

    /// The dead-letter queue of what the pipeline reads, if it is one of our own service.
    fn dead_letters(&self, embedded: Option<&Ready>) -> Option<Endpoint> {
        let from = &self.topology.pipeline.as_ref()?.from;
        let queue = self.topology.entity(from).of_messages()?;
        let name = format!("{}/$DeadLetterQueue", self.topology.address(from));
        let dead_letters = Entity::Queue(Queue { name, ..queue.clone() });
        let endpoint = self.endpoint(embedded, &self.topology.load);
        self.is_embedded().then_some(Endpoint { entity: dead_letters, subscription: None, ..endpoint })
    }

    /// The way of a role to an end of it: to the lab's own service, once that is ready with every
    /// [connection](Self::missing_connection), or else to the target of the scenario.
    pub(super) fn endpoint(&self, own: Option<&Ready>, end: &End) -> Endpoint {
        let reached = match own {
            Some(ready) => ready.entry_point(end.connection).expect("no connection is missing").clone(),
            None => entry_point(&self.parameters.target, end.connection),
        };
        let kafka = (end.connection.protocol == Protocol::Kafka).then(|| KafkaAccess {
            client: end.kafka.client.clone(),
            properties: reached.kafka.clone().overlaid(&end.kafka.properties),
            reached: reached.kafka,
            clock: self.clock,
        });
        let entity = self.topology.entity(end);
        let storage = own.and_then(|ready| ready.storage_connection_string.clone());
        let connection_string = match storage.filter(|_| entity.is_archive()) {
            Some(storage) => storage,
            None => reached.connection_string,
        };
        let speaks_kafka = kafka.is_some();
        let program = end.kafka.client.program().filter(|_| !speaks_kafka);
        Endpoint {
            protocol: end.connection.protocol,
            transport: end.connection.transport,
            connection_string,
            kafka,
            certificate_authority: reached.certificate_authority,
            entity: entity.clone(),
            subscription: end.subscription.clone(),
            producer: end.producer,
            program: program
                .map(|client| ProducerProgram { client: Box::new(client.clone()), clock: self.clock }),
        }
    }
}

/// How a service is reached that exists.
fn entry_point(target: &Target, connection: Connection) -> EntryPoint {
    let namespace = target.namespace();
    let authority = namespace.and_then(|namespace| namespace.certificate_authority.clone());
    let of_namespace = || {
        let parsed = namespace.and_then(|namespace| namespace.connection_string.reveal().parse().ok());
        parsed.map(|parsed| kafka::of_namespace(&parsed, authority.as_deref())).unwrap_or_default()
    };
    EntryPoint {
        connection,
        connection_string: namespace.map(|it| it.connection_string.clone()).unwrap_or_default(),
        kafka: target.kafka().map_or_else(of_namespace, KafkaCluster::client_properties),
        certificate_authority: authority.clone(),
    }
}

/// How long a command may take to be ready.
fn time_of(ready: &Readiness, within: Duration) -> Duration {
    match ready {
        Readiness::FirstEvent => Duration::ZERO,
        Readiness::Line(_) => within,
        Readiness::After(time) => *time,
    }
}

fn workers(count: u32) -> u16 {
    u16::try_from(count.max(1)).unwrap_or(u16::MAX)
}

/// The least time for the drain phase: more than any healthy answer takes, for scenarios that allow hardly any.
pub(super) const LEAST_DRAIN: Duration = Duration::from_secs(1);

/// What an open load may send beyond its phases, while the orchestrator makes up its mind.
const SLACK: Duration = Duration::from_secs(60);

/// With so many random choices for each partition, one that was never chosen was left out on purpose.
const EVENTS_PER_PARTITION: u64 = 40;

/// Poisson streams differ from their mean.
const STREAM_SLACK: u64 = 100_000;
