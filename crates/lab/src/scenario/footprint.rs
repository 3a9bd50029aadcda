//! What a run does to a service that exists, in words: what it sends, through what it reads, and what stays behind.

use std::fmt;
use std::time::Duration;

use units::duration;

use super::{Case, CheckpointStore, Entity, LoadMode, Parameters, Payload, Topology};
use crate::figure;

/// The cases that are run against one target, for its owner to read before the first event is sent.
#[derive(Clone, Copy, Debug)]
pub struct Footprint<'a> {
    /// The target's address.
    pub host: &'a str,
    /// At least one case.
    pub cases: &'a [&'a Case],
}

impl fmt::Display for Footprint<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(first) = self.cases.first() else {
            return Ok(());
        };
        writeln!(formatter, "This run uses a service that exists: {}", self.host)?;
        let topology = first.parameters.topology();
        writeln!(
            formatter,
            "  has      {}",
            list(topology.in_order().iter().map(|(_, entity)| described(entity)))
        )?;
        let noun = topology.noun();
        for (index, case) in self.cases.iter().take(MOST_LINES).enumerate() {
            let heading = if index == 0 { "sends" } else { "" };
            writeln!(formatter, "  {heading:<8} {}: {}", case.name, load(&case.parameters, noun.many()))?;
        }
        let hidden = self.cases.len().saturating_sub(MOST_LINES);
        if hidden > 0 {
            writeln!(
                formatter,
                "  {:<8} and {}",
                "",
                figure::counted(hidden as u64, "more case", "more cases")
            )?;
        }
        writeln!(formatter, "  {:<8} {}", "", self.total(noun.many()))?;
        for (heading, line) in left_behind(first, &topology) {
            writeln!(formatter, "  {heading:<8} {line}")?;
        }
        Ok(())
    }
}

impl Footprint<'_> {
    /// What all cases send together, as far as that is known before.
    fn total(&self, noun: &str) -> String {
        let parameters = || self.cases.iter().map(|case| &case.parameters);
        let known = parameters().filter_map(|parameters| Some((parameters, planned(parameters)?)));
        let (mut events, mut bytes, mut cases) = (0_u64, 0_u64, 0);
        for (parameters, planned) in known {
            events = events.saturating_add(planned);
            bytes = bytes.saturating_add(bytes_of(parameters, planned).unwrap_or(0));
            cases += 1;
        }
        let topology = self.cases.first().map(|case| case.parameters.topology());
        let destinations = topology.iter().flat_map(Topology::destinations).map(|to| to.name().to_owned());
        let destinations: Vec<String> = destinations.collect();
        let on = match destinations.is_empty() {
            true => String::new(),
            false => format!("; each is sent on to {}", destinations.join(" and ")),
        };
        let unknown = self.cases.len() - cases;
        match (cases, unknown) {
            (0, _) => format!("how many {noun} that is depends on the service{on}"),
            (_, 0) => format!("in all {}{on}", amount(events, Some(bytes).filter(|bytes| *bytes > 0), noun)),
            _ => format!(
                "in all {}, and what {} depends on the service{on}",
                amount(events, Some(bytes).filter(|bytes| *bytes > 0), noun),
                figure::counted(unknown as u64, "other case sends", "other cases send")
            ),
        }
    }
}

/// What the trials of a case send.
fn load(parameters: &Parameters, noun: &str) -> String {
    let load = &parameters.load;
    let size = match &load.payload {
        Payload::Size(size) => format!("of {size}"),
        Payload::Replay { replay } => format!("from {}", replay.display()),
        Payload::Person => "that are a person in JSON".to_owned(),
        Payload::Nothing => "without a payload".to_owned(),
    };
    let time = duration::text(time(parameters));
    let trials = match parameters.trials {
        1 => String::new(),
        trials => format!(" in each of {trials} trials"),
    };
    let planned = planned(parameters);
    let amount = planned.map(|planned| format!(": {}", amount(planned, bytes_of(parameters, planned), noun)));
    let amount = amount.unwrap_or_default();
    let load_text = match (load.mode, load.rate) {
        (LoadMode::Open, Some(rate)) => {
            format!("{} {noun}/s {size} for {time}{trials}{amount}", figure::rate(rate.events_per_second()))
        }
        (LoadMode::Burst, Some(rate)) => format!(
            "{} {noun}/s {size} in bursts of {} for {time}{trials}{amount}",
            figure::rate(rate.events_per_second()),
            figure::count(load.burst_events().into())
        ),
        (LoadMode::Backlog, _) => {
            format!(
                "{} {noun} {size} as fast as they are accepted{trials}{amount}",
                figure::count(load.backlog)
            )
        }
        (LoadMode::Saturate, _) => format!(
            "{noun} {size} as fast as they are accepted for {time}{trials}, at most {} ahead of the pipeline",
            figure::count(parameters.lag_limit())
        ),
        (LoadMode::Closed | LoadMode::Open | LoadMode::Burst, _) => format!(
            "{noun} {size} for {time}{trials}, {} of {} at a time, each batch after the answer to the one before",
            figure::counted(load.workers.into(), "batch", "batches"),
            load.batch
        ),
        (LoadMode::Capacity, _) => {
            let capacity = &load.capacity;
            format!(
                "{noun} {size} at rates up to {}/s for {} each, and the rate found for {}",
                figure::rate(capacity.highest.events_per_second()),
                duration::text(parameters.phases.warm_up + capacity.probe),
                duration::text((parameters.phases.warm_up + capacity.hold) * capacity.repeat)
            )
        }
    };
    match load.latency_at.filter(|_| matches!(load.mode, LoadMode::Saturate | LoadMode::Backlog)) {
        Some(share) => format!("{load_text}; then once more at {share} of the rate that was found"),
        None => load_text,
    }
}

/// How many events the trials of a case send, if that is planned.
fn planned(parameters: &Parameters) -> Option<u64> {
    let load = &parameters.load;
    let trial = match (load.mode, load.rate) {
        (LoadMode::Open | LoadMode::Burst, Some(rate)) => rate.events_in(time(parameters)),
        (LoadMode::Backlog, _) if load.latency_at.is_none() => load.backlog,
        _ => return None,
    };
    Some(trial.saturating_mul(parameters.trials.into()))
}

/// How long a trial sends.
fn time(parameters: &Parameters) -> Duration {
    parameters.phases.warm_up + parameters.phases.measure
}

fn bytes_of(parameters: &Parameters, events: u64) -> Option<u64> {
    Some(parameters.load.payload.size()?.bytes().saturating_mul(events))
}

fn amount(events: u64, bytes: Option<u64>, noun: &str) -> String {
    let bytes = bytes.map(|bytes| format!(", {}", figure::bytes(bytes as f64))).unwrap_or_default();
    format!("{} {noun}{bytes}", figure::count(events))
}

fn described(entity: &Entity) -> String {
    match entity {
        Entity::Hub(hub) => {
            format!(
                "hub {} ({})",
                hub.name,
                figure::counted(hub.partitions.into(), "partition", "partitions")
            )
        }
        Entity::Queue(queue) => format!("queue {}", queue.name),
        Entity::Topic(topic) => format!("topic {}", topic.queue.name),
        Entity::Container(container) => format!("container {}", container.name),
    }
}

/// Through what the roles read, and what is there when the run is over.
fn left_behind(case: &Case, topology: &Topology) -> Vec<(&'static str, String)> {
    let pipeline = topology.pipeline.iter().map(|pipeline| (&pipeline.from, "pipeline"));
    let readers: Vec<_> = pipeline.chain(topology.sinks.iter().map(|sink| (sink, "sink"))).collect();
    let read = readers.iter().map(|(end, role)| {
        let place = topology.address(end);
        match topology.entity(end) {
            Entity::Hub(hub) => format!("{place} through consumer group {} ({role})", hub.consumer_group),
            Entity::Queue(_) | Entity::Topic(_) | Entity::Container(_) => format!("{place} ({role})"),
        }
    });
    let mut lines = vec![("reads", list(read))];
    let entities = topology.in_order();
    let names = |is_log: bool| -> Vec<&str> {
        let of_kind = entities.iter().filter(|(_, entity)| entity.is_log() == is_log);
        of_kind.map(|(_, entity)| entity.name()).collect()
    };
    if let logs @ [_, ..] = &names(true)[..] {
        lines.push((
            "leaves",
            format!("all events in {} until the retention of the hub removes them", logs.join(" and ")),
        ));
    }
    if let queues @ [_, ..] = &names(false)[..] {
        lines.push((
            "leaves",
            format!(
                "in {} dead letters, what an interrupted run has not received, and every message in subscriptions that no \
                 role reads",
                queues.join(" and ")
            ),
        ));
    }
    let sut = &case.parameters.sut;
    if !sut.is_ours() {
        lines.push(("", format!("whatever {} stores there itself", sut.name)));
    } else if let Some(Entity::Hub(source)) = topology.of_pipeline() {
        let kept = |place: &str| format!("no checkpoints and no claims: the relay keeps them {place}");
        let relay = &case.parameters.relay;
        let line = match relay.checkpoint_store {
            _ if relay.commits_offsets() => {
                format!("the committed offsets of the group {}", source.consumer_group)
            }
            CheckpointStore::Memory => kept("in memory"),
            CheckpointStore::File | CheckpointStore::Blob | CheckpointStore::Group => {
                kept("in files beneath the results, deleted after each trial")
            }
        };
        lines.push(("", line));
    }
    lines
}

fn list(parts: impl Iterator<Item = String>) -> String {
    parts.collect::<Vec<_>>().join(", ")
}

/// A screen has room for so many cases beside the rest.
const MOST_LINES: usize = 12;
