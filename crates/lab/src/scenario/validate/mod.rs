//! Ranges and relations that the types of the parameters do not express.
//!
//! Every rule names the path that it is about, and the document knows where that stands: in the file, in its section
//! `quick`, in a list of a sweep or in an argument of `--set`.

mod consumer;
mod exactly_once;
mod kafka;
mod sharing;
mod topology;

use std::fmt::Display;
use std::ops::RangeInclusive;
use std::time::Duration;

use pipeline::transforming;
use settings::{Document, SettingsError};
use telemetry::options::Settings;
use units::{ByteSize, Rate};

use super::{
    Capacity, CheckpointPolicy, Dispatch, Entities, Entity, Events, Hub, LoadMode, OpenTelemetry, Parameters,
    Payload, Percent, Prefetch, Readiness, Relay, RoleLimits, SMALLEST_PAYLOAD, ServiceCommand, Target,
    Topology, roles, system,
};

/// Checks `parameters`, which were read from `document`.
pub(super) fn check(document: &Document, parameters: &Parameters) -> Result<(), SettingsError> {
    let rules = Rules { document };
    rules.target(&parameters.target)?;
    if let Err(error) = parameters.embedded.profile.check() {
        let path = format!("embedded.{}", error.path);
        return Err(document.mistake(&path, error.reason, error.advice));
    }
    rules.consumer(parameters)?;
    match &parameters.entities {
        Entities::Hubs(hubs) => rules.hubs(hubs, parameters)?,
        Entities::Queues(queues) => rules.queues(queues)?,
        Entities::Topology(topology) => rules.topology(topology, parameters)?,
    }
    rules.short_form(parameters)?;
    rules.load(parameters)?;
    let topology = parameters.topology();
    if let Some(source) = topology.of_pipeline() {
        rules.relay(parameters, source, &topology)?;
    }
    rules.system(parameters)?;
    roles::check(document, parameters, &topology)?;
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
        if let Target::Command(service) = target {
            self.service(service)?;
        }
        if let Some(namespace) = target.namespace() {
            // The same text with a port where a command is to have one.
            let text = ServiceCommand::with_port(namespace.connection_string.reveal(), 1);
            if let Err(error) = text.parse::<access::ConnectionString>() {
                let advice = "copy the connection string of the namespace, `Endpoint=sb://…;SharedAccessKeyName=…;\
                              SharedAccessKey=…`, or name the host of the namespace for an identity of Entra ID";
                return Err(self.document.mistake("target.connection_string", error.to_string(), advice));
            }
        }
        match target.kafka() {
            Some(cluster) => self.cluster(cluster),
            None => Ok(()),
        }
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

    fn load(&self, parameters: &Parameters) -> Result<(), SettingsError> {
        let load = &parameters.load;
        if load.mode.has_plan() && load.rate.is_none() {
            let reason = match load.mode {
                LoadMode::Burst => "a load in bursts needs `load.rate`",
                _ => "an open load needs `load.rate`",
            };
            return Err(self.document.mistake("load.mode", reason, "add `rate: 10000/s` to `load`"));
        }
        if let Some(burst) = load.burst {
            self.within("load.burst", burst, 1..=LARGEST_BURST)?;
        } else if load.mode == LoadMode::Burst && load.burst_events() > LARGEST_BURST {
            let reason = format!("a second's worth of `load.rate` is more than {LARGEST_BURST} events");
            return Err(self.document.mistake("load.rate", reason, "set `load.burst`, such as to 1000"));
        }
        self.within("load.workers", load.workers, 1..=256)?;
        self.within("load.callers", load.callers, 1..=100_000)?;
        self.within("load.batch", load.batch, 1..=10_000)?;
        self.within("load.in_flight", load.in_flight, 1..=1000)?;
        self.within("load.backlog", load.backlog, 1..=MOST_EVENTS)?;
        self.within("load.max_lag", load.max_lag, 1..=MOST_EVENTS)?;
        if let Some(share) = load.latency_at {
            self.within("load.latency_at", share, Percent::new(1.0)..=Percent::new(100.0))?;
        }
        self.capacity(&load.capacity)?;
        if let Payload::Size(payload) = load.payload {
            self.within("load.payload", payload, SMALLEST_PAYLOAD..=LARGEST_PAYLOAD)?;
        }
        let Some(payload) = load.payload.size() else {
            return Ok(());
        };
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
        topology: &Topology,
    ) -> Result<(), SettingsError> {
        let relay = &parameters.relay;
        match source {
            Entity::Hub(source) => self.reading_hub(relay, source)?,
            Entity::Queue(_) | Entity::Topic(_) => self.reading_queue(relay)?,
            // No pipeline reads one.
            Entity::Container(_) => {}
        }
        let logs = topology.destinations().filter(|destination| destination.is_log());
        if let Some(partitions) = logs.map(Entity::partitions).max() {
            let is_found = parameters.target.exists();
            self.fan_out(relay, partitions, is_found)?;
        }
        self.dispatch(relay.dispatch, source, topology.destinations().count())?;
        transforming::compile(self.document, "relay.transform", &relay.transform, &[])?;
        self.within("relay.batch.events", relay.batch.events, 1..=10_000)?;
        self.duration("relay.batch.wait", relay.batch.wait, Duration::ZERO)?;
        self.within("relay.failure_ratio", relay.failure_ratio, 0.0..=1.0)?;
        self.within("relay.in_flight", relay.in_flight, 1..=256)?;
        self.duration("relay.try_timeout", relay.try_timeout, Duration::from_millis(1))?;
        self.within("relay.retry.attempts", relay.retry.attempts, 1..=100)?;
        self.duration("relay.retry.max_delay", relay.retry.max_delay, relay.retry.delay)?;
        self.duration("relay.restart_after", relay.restart_after, Duration::ZERO)?;
        self.sharing(parameters, topology)?;
        self.exactly_once(relay, topology)?;
        self.transactional(parameters, topology)?;
        self.restart(parameters, source)?;
        if let Some(requests) = relay.archive_requests {
            self.within("relay.archive_requests", requests, 1..=1_024)?;
        }
        if let CheckpointPolicy::Every(every) = relay.checkpoint {
            self.duration("relay.checkpoint.every", every, Duration::from_millis(1))?;
        }
        self.checkpoint_wait(relay, source)?;
        self.open_telemetry(&relay.open_telemetry)
    }

    fn checkpoint_wait(&self, relay: &Relay, source: &Entity) -> Result<(), SettingsError> {
        let refused = |reason, advice| Err(self.document.mistake("relay.checkpoint_wait", reason, advice));
        match (relay.checkpoint_wait, relay.checkpoint) {
            (false, _) => Ok(()),
            (true, _) if !source.is_log() => {
                refused("messages of a queue have no checkpoints", "leave it out")
            }
            (true, _) if relay.is_exactly_once() => {
                refused("with exactly-once delivery events and progress are one transaction", "leave it out")
            }
            (true, CheckpointPolicy::Every(_)) => {
                refused("events would wait for the next interval", "set `relay.checkpoint` to `each-batch`")
            }
            (true, CheckpointPolicy::EachBatch) => Ok(()),
        }
    }

    fn dispatch(
        &self,
        dispatch: Dispatch,
        source: &Entity,
        destinations: usize,
    ) -> Result<(), SettingsError> {
        if let Some(events) = dispatch.events {
            if !source.is_log() {
                let reason = "messages of a queue are bounded by the concurrency";
                let path = "relay.dispatch.events";
                return Err(self.document.mistake(path, reason, "set `relay.concurrency`"));
            }
            if let Events::Count(events) = events {
                self.within("relay.dispatch.events", events, 1..=1_000_000)?;
            }
        }
        if dispatch.strategy.is_some() && !source.is_log() {
            let reason = "messages of a queue are independent already";
            return Err(self.document.mistake("relay.dispatch", reason, "set `relay.concurrency`"));
        }
        if let Err(conflict) = dispatch.check() {
            let path = format!("relay.dispatch.{}", conflict.key);
            return Err(self.document.mistake(&path, conflict.reason, conflict.advice));
        }
        match dispatch.sinks {
            Some(sinks) => {
                let most = u32::try_from(destinations).unwrap_or(u32::MAX);
                self.within("relay.dispatch.sinks", sinks, 1..=most)
            }
            None => Ok(()),
        }
    }

    fn reading_queue(&self, relay: &Relay) -> Result<(), SettingsError> {
        self.within("relay.instances", relay.instances, 1..=MOST_INSTANCES)?;
        let Some(prefetch) = relay.prefetch.events() else {
            let reason = "`adaptive` is for hubs: prefetched messages of a queue are locked";
            return Err(self.document.mistake("relay.prefetch", reason, "a number of messages"));
        };
        self.within("relay.prefetch", prefetch, 0..=100_000)?;
        self.within("relay.concurrency", relay.messages_at_once(), 1..=10_000)?;
        self.within("relay.threads", relay.threads.unwrap_or(1), 1..=10_000)
    }

    fn reading_hub(&self, relay: &Relay, source: &Hub) -> Result<(), SettingsError> {
        self.within("relay.instances", relay.instances, 1..=source.partitions)?;
        match relay.prefetch.events() {
            Some(prefetch) => self.within("relay.prefetch", prefetch, 1..=100_000),
            None => Ok(()),
        }
    }

    /// Whether so many partitions of the destination that has the most are enough. A target that exists can't get more.
    fn fan_out(&self, relay: &Relay, partitions: u32, is_found: bool) -> Result<(), SettingsError> {
        if relay.fan_out > partitions {
            let reason = format!(
                "a fan-out of {} needs more partitions than the {partitions} of the destination",
                relay.fan_out
            );
            let advice = match self.document.value("topology") {
                _ if is_found => {
                    "choose cases that fit the target with --only, or a hub with more partitions"
                }
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

    fn open_telemetry(&self, telemetry: &OpenTelemetry) -> Result<(), SettingsError> {
        if let Some(Err(reason)) = telemetry.endpoint().map(Settings::check_endpoint) {
            let advice = "name the collector's address for OTLP over HTTP";
            return Err(self.document.mistake("relay.open_telemetry.endpoint", reason, advice));
        }
        if let Some(ratio) = telemetry.traces {
            self.within("relay.open_telemetry.traces", ratio, 0.0..=1.0)?;
        }
        Ok(())
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

/// Each is a process of its own.
const MOST_INSTANCES: u32 = 64;
/// What a send may carry, less the room that its other sections take.
const LARGEST_PAYLOAD: ByteSize = ByteSize::from_kibibytes(1000);
/// A growing lag takes a few readings to be told from an uneven one.
const SHORTEST_PROBE: Duration = Duration::from_millis(500);
/// All of a burst may be unanswered at once.
const LARGEST_BURST: u32 = 100_000;
/// Well above what a machine can send.
const MOST_PER_SECOND: f64 = 1e9;
/// The sequence number in a payload has 32 bits.
const MOST_EVENTS: u64 = u32::MAX as u64;
/// The intended instant in a payload has 40 bits of microseconds: 12 days, which all phases together stay below.
const LONGEST_DURATION: Duration = Duration::from_secs(3 * 24 * 3600);
