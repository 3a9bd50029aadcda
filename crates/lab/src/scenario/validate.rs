//! Ranges and relations that the types of the parameters do not express.
//!
//! Every rule names the path that it is about, and the document knows where that stands: in the file, in its section
//! `quick`, in a list of a sweep or in an argument of `--set`.

use std::fmt::Display;
use std::ops::RangeInclusive;
use std::time::Duration;

use relay::ownership::{RENEW_MIN, outlasts_a_failed_renewal};
use settings::{Document, SettingsError};
use units::{ByteSize, Rate};

use super::parameters::SMALLEST_LOG;
use super::{
    Capacity, CheckpointPolicy, CheckpointStore, Entities, Entity, Hub, Hubs, LoadMode, Measured, Ownership,
    Parameters, Payload, Percent, Prefetch, Queue, Queues, Readiness, Relay, RoleLimits, SMALLEST_PAYLOAD,
    ServiceCommand, Target, TopologySection, roles, system,
};

/// Checks `parameters`, which were read from `document`.
pub(super) fn check(document: &Document, parameters: &Parameters) -> Result<(), SettingsError> {
    let rules = Rules { document };
    rules.target(&parameters.target)?;
    if let Err(error) = parameters.embedded.profile.check() {
        let path = format!("embedded.{}", error.path);
        return Err(document.mistake(&path, error.reason, error.advice));
    }
    match &parameters.entities {
        Entities::Hubs(hubs) => rules.hubs(hubs, parameters)?,
        Entities::Queues(queues) => rules.queues(queues)?,
        Entities::Topology(topology) => rules.topology(topology, parameters)?,
    }
    rules.load(parameters)?;
    if let Some((source, destination)) = parameters.topology().of_pipeline() {
        rules.relay(parameters, source, destination)?;
    }
    rules.system(parameters)?;
    roles::check(document, parameters)?;
    rules.within("sink.workers", parameters.sink.workers, 1..=256)?;
    rules.within("sink.prefetch", parameters.sink.prefetch, 1..=100_000)?;
    let limits = &parameters.limits;
    for (role, limits) in
        [("hub", &limits.hub), ("load", &limits.load), ("relay", &limits.relay), ("sink", &limits.sink)]
    {
        rules.role_limits(role, limits)?;
    }
    rules.duration("phases.warm_up", parameters.phases.warm_up, Duration::ZERO)?;
    rules.duration("phases.measure", parameters.phases.measure, Duration::from_millis(100))?;
    rules.duration("phases.drain", parameters.phases.drain, Duration::from_millis(100))?;
    rules.within("trials", parameters.trials, 1..=100)
}

struct Rules<'a> {
    document: &'a Document,
}

impl Rules<'_> {
    fn target(&self, target: &Target) -> Result<(), SettingsError> {
        let Some(namespace) = target.namespace() else {
            return Ok(());
        };
        let connection_string = match target {
            Target::Command(service) => {
                self.service(service)?;
                ServiceCommand::with_port(namespace.connection_string.reveal(), 1)
            }
            Target::Embedded | Target::Namespace(_) => namespace.connection_string.reveal().to_owned(),
        };
        if let Err(error) = connection_string.parse::<access::ConnectionString>() {
            let advice = "copy the connection string of the namespace, `Endpoint=sb://…;SharedAccessKeyName=…;\
                          SharedAccessKey=…`";
            return Err(self.document.mistake("target.connection_string", error.to_string(), advice));
        }
        Ok(())
    }

    fn service(&self, service: &ServiceCommand) -> Result<(), SettingsError> {
        let mistake =
            |path: &str, reason: &str, advice: &str| Err(self.document.mistake(path, reason, advice));
        if service.command.first().is_none_or(String::is_empty)
            || service.command.iter().any(|word| word.contains('\0'))
        {
            let reason = "must be a program and its arguments";
            return mistake("target.command", reason, "such as `[./service, --port, \"{port}\"]`");
        }
        match &service.ready {
            Readiness::FirstEvent => {
                let reason = "nothing shows when clients may connect";
                return mistake("target.ready", reason, "such as `{line: listening}` or `{after: 5 s}`");
            }
            Readiness::Line(text) if text.trim().is_empty() => {
                let reason = "every line contains this";
                return mistake("target.ready", reason, "such as `{line: listening}`");
            }
            Readiness::After(time) => self.duration("target.ready.after", *time, Duration::ZERO)?,
            Readiness::Line(_) => {}
        }
        self.duration("target.ready_within", service.ready_within, Duration::from_millis(100))?;
        self.duration("target.stop_within", service.stop_within, Duration::ZERO)
    }

    fn hubs(&self, hubs: &Hubs, parameters: &Parameters) -> Result<(), SettingsError> {
        for (role, hub) in [("source", &hubs.source), ("destination", &hubs.destination)] {
            let at = format!("hubs.{role}");
            self.hub([&at, "name"], role, hub, parameters)?;
        }
        if hubs.source.name.eq_ignore_ascii_case(&hubs.destination.name) {
            let reason = "source and destination are the same hub, so events would loop";
            return Err(self.document.mistake("hubs.destination.name", reason, "give it another name"));
        }
        Ok(())
    }

    fn queues(&self, queues: &Queues) -> Result<(), SettingsError> {
        if self.document.value("hubs").is_some() {
            let reason = "a scenario has hubs or queues, not both";
            let advice = "leave one of the two sections out";
            return Err(self.document.mistake("queues", reason, advice));
        }
        for (role, queue) in [("source", &queues.source), ("destination", &queues.destination)] {
            self.queue_name(&format!("queues.{role}.name"), &queue.name)?;
        }
        let names = [&queues.source.name, &queues.destination.name];
        if names[0].eq_ignore_ascii_case(names[1]) {
            let reason = "source and destination are the same queue, so messages would loop";
            return Err(self.document.mistake("queues.destination.name", reason, "give it another name"));
        }
        let Queues { lock_duration, maximum_delivery_count, largest_message, .. } = *queues;
        let name = queues.source.name.clone();
        self.queue("queues", &Queue { name, lock_duration, maximum_delivery_count, largest_message })
    }

    fn queue(&self, at: &str, queue: &Queue) -> Result<(), SettingsError> {
        self.duration(&format!("{at}.lock_duration"), queue.lock_duration, Duration::from_secs(1))?;
        let count = format!("{at}.maximum_delivery_count");
        self.within(&count, queue.maximum_delivery_count, 1..=2000)?;
        self.within(
            &format!("{at}.largest_message"),
            queue.largest_message,
            ByteSize::from_kibibytes(64)..=ByteSize::from_mebibytes(100),
        )
    }

    fn topology(&self, topology: &TopologySection, parameters: &Parameters) -> Result<(), SettingsError> {
        let mistake = |path: &str, reason: String, advice: &str| {
            Err(self.document.mistake(&format!("topology{path}"), reason, advice))
        };
        for section in ["hubs", "queues"] {
            if self.document.value(section).is_some() {
                let advice = "leave one of the two sections out";
                let reason = format!("a scenario has a topology or {section}, not both");
                return mistake("", reason, advice);
            }
        }
        for (name, entity) in &topology.entities {
            let at = format!("topology.entities.{name}");
            match &entity.0 {
                Entity::Hub(hub) => self.hub([&at, "hub"], name, hub, parameters)?,
                Entity::Queue(queue) => {
                    self.queue_name(&format!("{at}.queue"), &queue.name)?;
                    self.queue(&at, queue)?;
                }
            }
            let is_same = |other: &&String| {
                *other != name && topology.entities[*other].0.name().eq_ignore_ascii_case(entity.0.name())
            };
            if let Some(other) = topology.entities.keys().find(is_same) {
                let reason = format!("`{other}` has the same name in the service");
                return mistake(&format!(".entities.{name}"), reason, "give it another one");
            }
        }
        let mut ends = vec![(".load", &topology.load), (".sink", &topology.sink)];
        if let Some(pipeline) = &topology.pipeline {
            ends.extend([(".pipeline.from", &pipeline.from), (".pipeline.to", &pipeline.to)]);
        }
        for (path, name) in ends {
            if !topology.entities.contains_key(name) {
                let known: Vec<&str> = topology.entities.keys().map(String::as_str).collect();
                let reason = format!("there is no entity `{name}`");
                return mistake(path, reason, &format!("the entities are: {}", known.join(", ")));
            }
        }
        match &topology.pipeline {
            Some(pipeline) if pipeline.from == pipeline.to => mistake(
                ".pipeline.to",
                "the pipeline reads and writes the same entity, so events would loop".to_owned(),
                "name another entity",
            ),
            Some(pipeline) if topology.load != pipeline.from || topology.sink != pipeline.to => mistake(
                ".pipeline",
                "the pipeline does not connect the load's entity with the sink's".to_owned(),
                "read from the load's entity, and send to the sink's",
            ),
            None if topology.load != topology.sink => mistake(
                ".sink",
                "without a pipeline, nothing that the load sends arrives there".to_owned(),
                "name the load's entity, or add `pipeline: {from: …, to: …}`",
            ),
            None if topology.measure == Measured::Pipeline => mistake(
                ".measure",
                "there is no pipeline to measure".to_owned(),
                "measure `load`, `sink` or `service`, or add `pipeline: {from: …, to: …}`",
            ),
            None if self.document.value("relay").is_some() => Err(self.document.mistake(
                "relay",
                "it needs a pipeline, and the topology has none",
                "leave it out, or add `topology.pipeline`",
            )),
            None if parameters.load.mode == LoadMode::Backlog => Err(self.document.mistake(
                "load.mode",
                "a backlog is drained by a pipeline, and there is none",
                "choose another mode",
            )),
            None if !parameters.sut.is_ours() => Err(self.document.mistake(
                "sut",
                "a command replaces a pipeline, and there is none",
                "leave it out, or add `topology.pipeline`",
            )),
            _ if topology.measure == Measured::Service && !parameters.target.is_started() => mistake(
                ".measure",
                "only a service that the lab starts can be measured".to_owned(),
                "measure another role, or choose `target: embedded` or a command",
            ),
            _ => Ok(()),
        }
    }

    fn queue_name(&self, path: &str, name: &str) -> Result<(), SettingsError> {
        if is_name(name, ".-_/") {
            return Ok(());
        }
        let advice = "1 to 256 letters, digits, `.`, `-`, `_` and `/`";
        Err(self.document.mistake(path, "can't be the name of a queue", advice))
    }

    /// A hub of the section at a path, whose name has this key there. Messages call it `called`.
    fn hub(
        &self,
        [at, key]: [&str; 2],
        called: &str,
        hub: &Hub,
        parameters: &Parameters,
    ) -> Result<(), SettingsError> {
        let advice = "1 to 256 letters, digits, `.`, `-` and `_`";
        if !is_name(&hub.name, ".-_") {
            return Err(self.document.mistake(&format!("{at}.{key}"), "can't be the name of a hub", advice));
        }
        if !is_name(&hub.consumer_group, ".-_$") {
            let path = format!("{at}.consumer_group");
            return Err(self.document.mistake(&path, "can't be the name of a consumer group", advice));
        }
        self.within(&format!("{at}.partitions"), hub.partitions, 1..=1024)?;
        let share = parameters.log_per_partition(hub);
        if parameters.target == Target::Embedded && share < SMALLEST_LOG {
            let reason =
                format!("leaves {share} to each of the {} partitions of the {called}", hub.partitions);
            let advice = format!("at least {SMALLEST_LOG} per partition");
            return Err(self.document.mistake("embedded.log_per_hub", reason, advice));
        }
        Ok(())
    }

    fn load(&self, parameters: &Parameters) -> Result<(), SettingsError> {
        let load = &parameters.load;
        if load.mode == LoadMode::Open && load.rate.is_none() {
            let reason = "an open load needs `load.rate`";
            return Err(self.document.mistake("load.mode", reason, "add `rate: 10000/s` to `load`"));
        }
        self.within("load.workers", load.workers, 1..=256)?;
        self.within("load.batch", load.batch, 1..=10_000)?;
        self.within("load.in_flight", load.in_flight, 1..=1000)?;
        self.within("load.backlog", load.backlog, 1..=MOST_EVENTS)?;
        self.within("load.max_lag", load.max_lag, 1..=MOST_EVENTS)?;
        self.capacity(&load.capacity)?;
        let Payload::Size(payload) = load.payload else {
            return Ok(());
        };
        self.within("load.payload", payload, SMALLEST_PAYLOAD..=LARGEST_PAYLOAD)?;
        let log = parameters.log_per_hub();
        let fits = payload.checked_mul(load.backlog).is_some_and(|bytes| bytes <= log);
        if load.mode == LoadMode::Backlog && parameters.target == Target::Embedded && !fits {
            let reason = format!("{} events of {payload} are more than a log of {log} holds", load.backlog);
            let advice = format!(
                "at most {} events, minus the overhead of each event; or a larger `embedded.log_per_hub`",
                log.bytes() / payload.bytes()
            );
            return Err(self.document.mistake("load.backlog", reason, advice));
        }
        Ok(())
    }

    fn capacity(&self, capacity: &Capacity) -> Result<(), SettingsError> {
        self.within("load.capacity.percentile", capacity.percentile, 50.0..=99.99)?;
        self.duration("load.capacity.bound", capacity.bound, Duration::from_micros(10))?;
        let rate = |per_second| {
            Rate::per_second(per_second).expect("a positive rate below one event per nanosecond")
        };
        self.within("load.capacity.start", capacity.start, rate(1.0)..=rate(MOST_PER_SECOND))?;
        self.within("load.capacity.highest", capacity.highest, capacity.start..=rate(MOST_PER_SECOND))?;
        self.within("load.capacity.precision", capacity.precision, Percent::new(0.5)..=Percent::new(50.0))?;
        self.duration("load.capacity.probe", capacity.probe, SHORTEST_PROBE)?;
        self.duration("load.capacity.hold", capacity.hold, capacity.probe)?;
        self.within("load.capacity.repeat", capacity.repeat, 1..=20)
    }

    fn relay(
        &self,
        parameters: &Parameters,
        source: &Entity,
        destination: &Entity,
    ) -> Result<(), SettingsError> {
        let relay = &parameters.relay;
        match (source, destination) {
            (Entity::Hub(source), Entity::Hub(destination)) => {
                self.between_hubs(relay, source, destination)?;
            }
            (Entity::Queue(_), Entity::Queue(_)) => self.between_queues(relay)?,
            (Entity::Hub(_), Entity::Queue(_)) | (Entity::Queue(_), Entity::Hub(_)) => {
                let reason = "a pipeline connects two hubs or two queues";
                let advice = "use the same kind at both ends";
                return Err(self.document.mistake("topology.pipeline", reason, advice));
            }
        }
        self.within("relay.batch.events", relay.batch.events, 1..=10_000)?;
        self.duration("relay.batch.wait", relay.batch.wait, Duration::ZERO)?;
        self.within("relay.failure_ratio", relay.failure_ratio, 0.0..=1.0)?;
        self.within("relay.in_flight", relay.in_flight, 1..=256)?;
        self.duration("relay.try_timeout", relay.try_timeout, Duration::from_millis(1))?;
        self.within("relay.retry.attempts", relay.retry.attempts, 1..=100)?;
        self.duration("relay.retry.max_delay", relay.retry.max_delay, relay.retry.delay)?;
        self.duration("relay.restart_after", relay.restart_after, Duration::ZERO)?;
        self.ownership(relay, &parameters.target)?;
        if let CheckpointPolicy::Every(every) = relay.checkpoint {
            self.duration("relay.checkpoint.every", every, Duration::from_millis(1))?;
        }
        Ok(())
    }

    fn between_queues(&self, relay: &Relay) -> Result<(), SettingsError> {
        self.within("relay.instances", relay.instances, 1..=MOST_INSTANCES)?;
        let Some(prefetch) = relay.prefetch.events() else {
            let reason = "`adaptive` is for hubs: prefetched messages of a queue are locked";
            return Err(self.document.mistake("relay.prefetch", reason, "a number of messages"));
        };
        self.within("relay.prefetch", prefetch, 0..=100_000)?;
        self.within("relay.concurrency", relay.messages_at_once(), 1..=10_000)?;
        self.within("relay.threads", relay.threads.unwrap_or(1), 1..=10_000)
    }

    fn between_hubs(&self, relay: &Relay, source: &Hub, destination: &Hub) -> Result<(), SettingsError> {
        self.within("relay.instances", relay.instances, 1..=source.partitions)?;
        if let Some(prefetch) = relay.prefetch.events() {
            self.within("relay.prefetch", prefetch, 1..=100_000)?;
        }
        let partitions = destination.partitions;
        if relay.fan_out > partitions {
            let reason = format!(
                "a fan-out of {} needs more partitions than the {partitions} of the destination",
                relay.fan_out
            );
            let advice = match self.document.value("topology") {
                Some(_) => "raise the `partitions` of the hub that the pipeline sends to",
                None => {
                    "raise `hubs.destination.partitions`, or leave it out: then it follows `relay.fan_out`"
                }
            };
            // Of the two, the one that is written is the one to change.
            let written = ["relay.fan_out", "hubs.destination.partitions"];
            let path =
                written.into_iter().find(|path| self.document.value(path).is_some()).unwrap_or(written[0]);
            return Err(self.document.mistake(path, reason, advice));
        }
        self.within("relay.fan_out", relay.fan_out, 1..=partitions)
    }

    /// Where checkpoints and claims are kept, and for how long claims are good.
    fn ownership(&self, relay: &Relay, target: &Target) -> Result<(), SettingsError> {
        let is_shared = relay.ownership.is_shared();
        let impossible = match relay.checkpoint_store {
            CheckpointStore::Memory if is_shared => Some((
                "claims in the memory of one instance are invisible to others",
                "choose `file` or `blob`, or leave `relay.ownership` at `static`",
            )),
            CheckpointStore::Blob if *target != Target::Embedded => Some((
                "only the embedded service is known to have a storage account",
                "choose `file` for other targets",
            )),
            _ => None,
        };
        if let Some((reason, advice)) = impossible {
            let path = "relay.checkpoint_store";
            return Err(self.document.mistake(path, reason, advice));
        }
        if relay.ownership.identity.is_some() {
            let path = "relay.ownership.identity";
            return Err(self.document.mistake(path, "instances are named by their numbers", "leave it out"));
        }
        if !is_shared && relay.ownership != Ownership::default() {
            let reason = "`static` has no claims to renew or expire";
            return Err(self.document.mistake(
                "relay.ownership",
                reason,
                "add `mode: greedy` or `mode: balanced`",
            ));
        }
        let (renew, expire) = (relay.ownership.renew, relay.ownership.expire);
        self.duration("relay.ownership.renew", renew, RENEW_MIN)?;
        if !outlasts_a_failed_renewal(expire, renew) {
            let reason = "one failed renewal would let a claim expire";
            let advice = "allowed is more than twice `relay.ownership.renew`";
            let path = "relay.ownership.expire";
            return Err(self.document.mistake(path, reason, advice));
        }
        Ok(())
    }

    fn system(&self, parameters: &Parameters) -> Result<(), SettingsError> {
        let sut = &parameters.sut;
        let mistake =
            |path: &str, reason: &str, advice: &str| Err(self.document.mistake(path, reason, advice));
        if !system::is_name(&sut.name) {
            let advice = "give it a `name` of letters, digits, `.`, `-` and `_`";
            return mistake("sut.name", "can't be the name of a system", advice);
        }
        let Some(command) = &sut.command else {
            if !sut.env.is_empty() {
                let reason = "only a command has an environment of its own";
                return mistake("sut.env", reason, "add `command`, or leave it out");
            }
            return Ok(());
        };
        if parameters.relay.prefetch == Prefetch::Adaptive {
            let reason = "`adaptive` is for the relay of Parshall; a command gets a number";
            return mistake("relay.prefetch", reason, "such as 512");
        }
        if command.first().is_none_or(String::is_empty) || command.iter().any(|word| word.contains('\0')) {
            let reason = "must be a program and its arguments";
            return mistake("sut.command", reason, "such as `[./forwarder, --verbose]`");
        }
        for (name, value) in &sut.env {
            let path = format!("sut.env.{name}");
            if name.is_empty() || name.contains(['=', '\0']) || value.reveal().contains('\0') {
                return mistake(&path, "can't be in an environment", "such as `LEVEL: warn`");
            }
            if name.starts_with("PARSHALL_") {
                let reason = "variables with this prefix configure the command";
                return mistake(&path, reason, "change the parameter behind it");
            }
        }
        match &sut.ready {
            Readiness::Line(text) if text.trim().is_empty() => {
                let reason = "every line contains this";
                return mistake("sut.ready", reason, "such as `{line: listening}`");
            }
            Readiness::After(time) => self.duration("sut.ready.after", *time, Duration::ZERO)?,
            Readiness::Line(_) | Readiness::FirstEvent => {}
        }
        let least = Duration::from_millis(100);
        self.duration("sut.ready_within", sut.ready_within, least)?;
        self.duration("sut.stop_within", sut.stop_within, Duration::ZERO)
    }

    fn role_limits(&self, role: &str, limits: &RoleLimits) -> Result<(), SettingsError> {
        if let Some(cores) = limits.cores {
            self.within(&format!("limits.{role}.cores"), cores, 0.01..=1024.0)?;
        }
        if let Some(memory) = limits.memory {
            let range = ByteSize::from_mebibytes(16)..=ByteSize::from_mebibytes(1 << 24);
            self.within(&format!("limits.{role}.memory"), memory, range)?;
        }
        Ok(())
    }

    fn within<T: PartialOrd + Display>(
        &self,
        path: &str,
        value: T,
        range: RangeInclusive<T>,
    ) -> Result<(), SettingsError> {
        if range.contains(&value) {
            return Ok(());
        }
        let (low, high) = range.into_inner();
        Err(self.out_of_range(path, &value, &low, &high))
    }

    fn duration(&self, path: &str, value: Duration, shortest: Duration) -> Result<(), SettingsError> {
        if (shortest..=LONGEST_DURATION).contains(&value) {
            return Ok(());
        }
        let [value, low, high] = [value, shortest, LONGEST_DURATION].map(units::duration::text);
        Err(self.out_of_range(path, &value, &low, &high))
    }

    fn out_of_range(
        &self,
        path: &str,
        value: &dyn Display,
        low: &dyn Display,
        high: &dyn Display,
    ) -> SettingsError {
        self.document.mistake(path, format!("{value} is out of range"), format!("allowed is {low} to {high}"))
    }
}

/// Whether `text` can be a name: of letters, digits and the characters of `also`.
fn is_name(text: &str, also: &str) -> bool {
    let is_allowed = |character: char| character.is_ascii_alphanumeric() || also.contains(character);
    (1..=LONGEST_NAME).contains(&text.len()) && text.chars().all(is_allowed)
}

/// Each is a process of its own.
const MOST_INSTANCES: u32 = 64;
/// As in Azure.
const LONGEST_NAME: usize = 256;
/// What a send may carry, less the room that its other sections take.
const LARGEST_PAYLOAD: ByteSize = ByteSize::from_kibibytes(1000);
/// A growing lag takes a few readings to be told from an uneven one.
const SHORTEST_PROBE: Duration = Duration::from_millis(500);
/// Well above what a machine can send.
const MOST_PER_SECOND: f64 = 1e9;
/// The sequence number in a payload has 32 bits.
const MOST_EVENTS: u64 = u32::MAX as u64;
/// The intended instant in a payload has 40 bits of microseconds: 12 days, which all phases together stay below.
const LONGEST_DURATION: Duration = Duration::from_secs(3 * 24 * 3600);
