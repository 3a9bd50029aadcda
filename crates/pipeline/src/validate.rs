//! Ranges and relations that the types of the sections do not express.

use std::fmt::Display;
use std::ops::RangeInclusive;
use std::time::Duration;

use access::{ConnectionString, Endpoint};
use settings::{Document, SettingsError};
use units::ByteSize;

use super::archive::{is_container, no_container};
use super::exactly_once;
use super::file::{BlobStore, Checkpoint, Pipeline, Sink, Source, Store};
use super::service_bus::KEYS_OF_CHECKPOINTS;
use super::topics::TOPIC;
use super::transactional;
use super::vocabulary::{CheckpointPolicy, Delivery, Events, Ownership, Retry, Route};
use relay::ownership::RENEW_MIN;

/// Checks `pipeline`, which was read from `document`.
pub(super) fn check(document: &Document, pipeline: &Pipeline) -> Result<(), SettingsError> {
    let settles = matches!(pipeline.source, Source::ServiceBus(_));
    let rules = Rules { document, delivery: pipeline.delivery, settles };
    rules.sinks(pipeline)?;
    exactly_once::check(document, pipeline)?;
    transactional::check(document, pipeline)?;
    let source = rules.source(&pipeline.source)?;
    let mut places: Vec<Place<'_>> = Vec::new();
    for (section, sink) in pipeline.sinks() {
        let place = rules.sink(&section, sink, &source)?;
        if places.iter().any(|other| other.is(&place)) {
            let what = match &place.of {
                Home::Storage(folder) => folder,
                Home::Namespace(_) | Home::Cluster(_) => &place.entity,
            };
            let reason = format!("`{what}` is listed twice, so it would get every event twice");
            return Err(document.mistake(&section, reason, "leave it out"));
        }
        places.push(place);
    }
    if let Some((section, sink)) = pipeline.poison_events.sink() {
        let place = rules.sink(section, sink, &source)?;
        if places.iter().any(|other| other.is(&place)) {
            let reason = format!("`{}` is a sink of the pipeline already", place.entity);
            return Err(document.mistake(section, reason, "name a place for dead letters alone"));
        }
        let of_kafka = |sink: &Sink| matches!(sink, Sink::Kafka(_));
        if matches!(pipeline.source, Source::Kafka(_)) && pipeline.sinks().all(|(_, sink)| of_kafka(sink)) {
            let reason = "from topic to topic records are carried, and dead letters are messages";
            return Err(document.mistake(section, reason, "name a file: `{dead_letter: <file>}`"));
        }
    }
    match &pipeline.source {
        Source::EventHubs(source) => {
            rules.partitions("source.event_hubs.partitions", source.partitions.as_deref())?;
        }
        Source::Kafka(source) => {
            rules.partitions("source.kafka.partitions", source.partitions.as_deref())?;
            source.check_membership(document, &pipeline.ownership)?;
        }
        Source::ServiceBus(_) => {
            rules.no_strategy(pipeline)?;
            for (key, advice) in KEYS_OF_CHECKPOINTS {
                if document.value(key).is_some() {
                    let reason = "it has no effect for a source whose messages are settled one by one";
                    return Err(document.mistake(key, reason, advice));
                }
            }
        }
    }
    match (&pipeline.source, &pipeline.checkpoint) {
        (Source::EventHubs(_), None) => {
            let reason = "there is no store for checkpoints";
            let advice = "add `checkpoint: {store: {files: <folder>}}`";
            return Err(document.mistake("checkpoint", reason, advice));
        }
        (Source::Kafka(_), None) if pipeline.delivery == Delivery::ExactlyOnce => {}
        (Source::Kafka(_), None) => {
            let reason = "there is no store for checkpoints";
            let advice =
                "add `checkpoint: {store: group}` to commit offsets, or `{store: {files: <folder>}}`";
            return Err(document.mistake("checkpoint", reason, advice));
        }
        (Source::EventHubs(_) | Source::Kafka(_), Some(checkpoint)) => {
            rules.checkpoint(checkpoint)?;
            rules.group_store(pipeline, checkpoint)?;
            rules.membership(pipeline, checkpoint)?;
        }
        (Source::ServiceBus(_), _) => {}
    }
    let into_logs = pipeline.sinks().all(|(_, sink)| !matches!(sink, Sink::ServiceBus(_)));
    let between_logs = into_logs && !matches!(pipeline.source, Source::ServiceBus(_));
    if matches!(pipeline.route, Route::SamePartition) && !between_logs {
        let reason = "it requires hubs or topics of Kafka on both sides";
        let advice = "leave `route` out";
        return Err(document.mistake("route", reason, advice));
    }
    if let Some(fan_out) = pipeline.fan_out {
        rules.within("fan_out", fan_out, 1..=10_000)?;
    }
    if let Some(Events::Count(events)) = pipeline.dispatch.events {
        rules.within("dispatch.events", events, 1..=1_000_000)?;
    }
    if let Some(sinks) = pipeline.dispatch.sinks {
        rules.within("dispatch.sinks", sinks, 1..=SINKS_MAX)?;
    }
    if let Err(conflict) = pipeline.dispatch.check() {
        let key = format!("dispatch.{}", conflict.key);
        return Err(document.mistake(&key, conflict.reason, conflict.advice));
    }
    rules.within("batch.events", pipeline.batch.events, 1..=10_000)?;
    rules.at_most("batch.wait", pipeline.batch.wait, Duration::from_secs(3_600))?;
    if let Some(prefetch) = pipeline.prefetch {
        rules.within("prefetch", prefetch, 1..=100_000)?;
    }
    rules.within("in_flight", pipeline.in_flight, 1..=256)?;
    rules.within("held", pipeline.held, ByteSize::from_kibibytes(1)..=ByteSize::from_mebibytes(1 << 20))?;
    rules.within("failure_ratio", pipeline.failure_ratio, 0.0..=1.0)?;
    rules.retry("retry", &pipeline.retry)?;
    pipeline.open_telemetry.check(document)?;
    for (section, sink) in pipeline.sinks() {
        if let Some(retry) = sink.retry() {
            let section = format!("{section}.{}.retry", sink.kind());
            rules.retry(&section, &retry.clone().or(pipeline.retry.clone()))?;
        }
    }
    rules.at_least("try_timeout", pipeline.try_timeout, Duration::from_millis(1))?;
    rules.at_most("try_timeout", pipeline.try_timeout, Duration::from_secs(3_600))?;
    rules.at_most("restart_after", pipeline.restart_after, Duration::from_secs(86_400))?;
    rules.at_most("stop_timeout", pipeline.stop_timeout, Duration::from_secs(86_400))?;
    rules.ownership(&pipeline.ownership)?;
    rules.rolled_files(pipeline)?;
    Ok(())
}

struct Rules<'a> {
    document: &'a Document,
    delivery: Delivery,
    /// Whether the source settles its messages.
    settles: bool,
}

/// An entity of a namespace, or a topic of a cluster.
struct Place<'a> {
    entity: String,
    of: Home<'a>,
}

/// Where an entity is.
#[derive(PartialEq)]
enum Home<'a> {
    Namespace(&'a Endpoint),
    Cluster(String),
    /// A container or folder.
    Storage(String),
}

impl<'a> Place<'a> {
    fn in_namespace(entity: impl Into<String>, connection_string: &'a ConnectionString) -> Self {
        Self { entity: entity.into(), of: Home::Namespace(&connection_string.endpoint) }
    }

    fn in_cluster(topic: Option<&str>, cluster: String) -> Self {
        Self { entity: topic.unwrap_or_default().to_owned(), of: Home::Cluster(cluster) }
    }

    fn is(&self, other: &Place<'_>) -> bool {
        self.of == other.of && self.entity.eq_ignore_ascii_case(&other.entity)
    }
}

impl Rules<'_> {
    /// There is a sink or a list of them.
    fn sinks(&self, pipeline: &Pipeline) -> Result<(), SettingsError> {
        let (path, reason, advice) = match (&pipeline.sink, &pipeline.sinks) {
            (None, None) => ("sink", "there is no sink".to_owned(), "add `sink`, or `sinks` with a list"),
            (Some(_), Some(_)) => ("sinks", "`sink` is given, too".to_owned(), "put it into the list"),
            (None, Some(sinks)) if sinks.is_empty() => {
                ("sinks", "the list is empty".to_owned(), "name at least one sink")
            }
            (None, Some(sinks)) if sinks.len() > SINKS_MAX as usize => {
                ("sinks", format!("{} sinks are too many", sinks.len()), "allowed are 16 or less")
            }
            (Some(_), None) | (None, Some(_)) => return Ok(()),
        };
        Err(self.document.mistake(path, reason, advice))
    }

    /// Files of many events are stored later than their events are accepted.
    fn rolled_files(&self, pipeline: &Pipeline) -> Result<(), SettingsError> {
        let is_rolled = |sink: &Sink| matches!(sink, Sink::Archive(archive) if archive.is_rolled());
        if !pipeline.sinks().any(|(_, sink)| is_rolled(sink)) {
            return Ok(());
        }
        if pipeline.checkpoint.as_ref().is_some_and(|checkpoint| checkpoint.wait) {
            let reason = "a checkpoint waits for a file of the archive, and the file for further events";
            let advice = "leave it out, or add `files: per-event` to the archive";
            return Err(self.document.mistake("checkpoint.wait", reason, advice));
        }
        Ok(())
    }

    /// The source is named. Returns what it reads.
    fn source<'s>(&self, source: &'s Source) -> Result<Place<'s>, SettingsError> {
        match source {
            Source::EventHubs(source) => {
                let namespace = &source.connection_string;
                let hub = self.hub("source.event_hubs", source.hub(), namespace.entity_path.as_deref())?;
                if source.consumer_group.is_empty() {
                    let path = "source.event_hubs.consumer_group";
                    let advice = "name one, or leave it out for `$Default`";
                    return Err(self.document.mistake(path, "the name is empty", advice));
                }
                Ok(Place::in_namespace(hub, namespace))
            }
            Source::Kafka(source) => {
                source.check(self.document)?;
                Ok(Place::in_cluster(source.topic(), source.cluster()))
            }
            Source::ServiceBus(source) => {
                source.check(self.document)?;
                let entity = source.entity().map(|entity| entity.path().to_owned());
                Ok(Place::in_namespace(entity.unwrap_or_default(), &source.connection_string))
            }
        }
    }

    /// A sink is named, and is not the source. Returns where it is.
    fn sink<'s>(
        &self,
        section: &str,
        sink: &'s Sink,
        source: &Place<'_>,
    ) -> Result<Place<'s>, SettingsError> {
        let (to, key, another) = match sink {
            Sink::EventHubs(sink) => {
                let section = format!("{section}.event_hubs");
                let namespace = &sink.connection_string;
                let hub = self.hub(&section, sink.hub(), namespace.entity_path.as_deref())?;
                (Place::in_namespace(hub, namespace), format!("{section}.hub"), "hub")
            }
            Sink::Kafka(sink) => {
                let section = format!("{section}.kafka");
                sink.check(self.document, &section, self.delivery)?;
                let to = Place::in_cluster(sink.topic(), sink.cluster());
                (to, format!("{section}.topic"), "topic")
            }
            Sink::ServiceBus(sink) => {
                let section = format!("{section}.service_bus");
                sink.check(self.document, &section)?;
                let entity = sink.entity().map(|entity| entity.path().to_owned()).unwrap_or_default();
                let another = if sink.topic.is_some() { "topic" } else { "queue" };
                let to = Place::in_namespace(entity, &sink.connection_string);
                (to, format!("{section}.{another}"), another)
            }
            Sink::Archive(sink) => {
                sink.check(
                    self.document,
                    &format!("{section}.archive"),
                    source.entity == TOPIC,
                    self.settles,
                )?;
                let (entity, place) = sink.place();
                return Ok(Place { entity, of: Home::Storage(place) });
            }
        };
        if to.entity.contains(TOPIC) && source.entity != TOPIC {
            let reason = format!("`{TOPIC}` stands for each of several topics, and the source is none");
            let advice =
                format!("name the {another}, or read `topics: {{match: <regular expression>}}` of Kafka");
            return Err(self.document.mistake(&key, reason, advice));
        }
        if to.is(source) {
            let reason = format!("`{}` is also the source, so every event would loop forever", to.entity);
            return Err(self.document.mistake(&key, reason, format!("name another {another}")));
        }
        Ok(to)
    }

    fn checkpoint(&self, checkpoint: &Checkpoint) -> Result<(), SettingsError> {
        if let Store::Blob(store) = &checkpoint.store {
            self.blob_store(store)?;
        }
        if let (CheckpointPolicy::Every(_), true) = (checkpoint.write, checkpoint.wait) {
            let reason = "events would wait for the next interval, whatever they take";
            return Err(self.document.mistake("checkpoint.wait", reason, "use `write: each-batch`"));
        }
        if let CheckpointPolicy::Every(interval) = checkpoint.write {
            let key = "checkpoint.write.every";
            self.at_least(key, interval, Duration::from_millis(1))?;
            self.at_most(key, interval, Duration::from_secs(86_400))?;
        }
        Ok(())
    }

    /// Tries that come to an end, with delays in their order.
    fn retry(&self, section: &str, retry: &Retry) -> Result<(), SettingsError> {
        let max_delay = format!("{section}.max_delay");
        self.within(&format!("{section}.attempts"), retry.attempts, 1..=100)?;
        self.at_least(&max_delay, retry.max_delay, retry.delay)?;
        self.at_most(&max_delay, retry.max_delay, Duration::from_secs(3_600))
    }

    /// A queue has no batches that a strategy could take apart.
    fn no_strategy(&self, pipeline: &Pipeline) -> Result<(), SettingsError> {
        if pipeline.dispatch.strategy.is_none() {
            return Ok(());
        }
        let key = match self.document.value("dispatch.strategy") {
            Some(_) => "dispatch.strategy",
            None => "dispatch",
        };
        let reason =
            "strategies are for hubs and topics of Kafka: messages of a queue are independent already";
        let advice =
            "use `source.service_bus.concurrency`, and `dispatch: {sinks: 1}` for one sink after the other";
        Err(self.document.mistake(key, reason, advice))
    }

    fn hub<'h>(
        &self,
        section: &str,
        hub: Option<&'h str>,
        entity_path: Option<&str>,
    ) -> Result<&'h str, SettingsError> {
        let path = format!("{section}.hub");
        let Some(hub) = hub.filter(|hub| !hub.is_empty()) else {
            let reason = "no hub is given, and the connection string has no EntityPath";
            return Err(self.document.mistake(&path, reason, "add `hub: <name>`"));
        };
        match entity_path {
            Some(entity) if !entity.eq_ignore_ascii_case(hub) => {
                let reason = format!("`{hub}` is not the hub `{entity}` that the connection string is for");
                Err(self.document.mistake(
                    &path,
                    reason,
                    "leave `hub` out, or use a connection string of the namespace",
                ))
            }
            _ => Ok(hub),
        }
    }

    fn ownership(&self, ownership: &Ownership) -> Result<(), SettingsError> {
        let &Ownership { renew, expire, .. } = ownership;
        self.at_least("ownership.renew", renew, RENEW_MIN)?;
        self.at_most("ownership.renew", renew, Duration::from_secs(3_600))?;
        // One renewal may fail, and the next one takes its time.
        self.at_least("ownership.expire", expire, 2 * renew + Duration::from_millis(1))?;
        self.at_most("ownership.expire", expire, Duration::from_secs(86_400))?;
        match &ownership.identity {
            Some(identity) if identity.is_empty() => Err(self.document.mistake(
                "ownership.identity",
                "the name is empty",
                "leave it out to generate one",
            )),
            _ => Ok(()),
        }
    }

    fn blob_store(&self, store: &BlobStore) -> Result<(), SettingsError> {
        let BlobStore { container, .. } = store;
        if !is_container(container) {
            return Err(no_container(self.document, "checkpoint.store.blob.container", container));
        }
        match &store.namespace {
            Some(namespace) if namespace.is_empty() => Err(self.document.mistake(
                "checkpoint.store.blob.namespace",
                "the name is empty",
                "leave it out for the host of the source",
            )),
            _ => Ok(()),
        }
    }

    /// Committed offsets are those of a group of Kafka, and can't tell one writer from another.
    fn group_store(&self, pipeline: &Pipeline, checkpoint: &Checkpoint) -> Result<(), SettingsError> {
        if !matches!(checkpoint.store, Store::Group) {
            return Ok(());
        }
        if !matches!(pipeline.source, Source::Kafka(_)) {
            let reason = "only a group of Kafka commits offsets";
            let advice = "use `{files: <folder>}` or `{blob: {...}}`";
            return Err(self.document.mistake("checkpoint.store", reason, advice));
        }
        if pipeline.ownership.is_shared() && !pipeline.ownership.is_membership() {
            let reason = "committed offsets can't be shared by claims";
            let advice = "use `ownership: {mode: group}`, or keep checkpoints in `{files: <folder>}` or `{blob: {...}}`";
            return Err(self.document.mistake("checkpoint.store", reason, advice));
        }
        Ok(())
    }

    /// A member of a group commits its offsets.
    fn membership(&self, pipeline: &Pipeline, checkpoint: &Checkpoint) -> Result<(), SettingsError> {
        if !pipeline.ownership.is_membership() || matches!(checkpoint.store, Store::Group) {
            return Ok(());
        }
        let (reason, advice) = match pipeline.source {
            Source::Kafka(_) => (
                "members of a group keep their checkpoints in it",
                "use `checkpoint: {store: group}` with it",
            ),
            _ => ("only topics of Kafka are read by members of a group", "use `greedy` or `balanced`"),
        };
        let key = match self.document.value("ownership.mode") {
            Some(_) => "ownership.mode",
            None => "ownership",
        };
        Err(self.document.mistake(key, reason, advice))
    }

    fn partitions(&self, path: &str, partitions: Option<&[u32]>) -> Result<(), SettingsError> {
        let Some(partitions) = partitions else { return Ok(()) };
        if partitions.is_empty() {
            return Err(self.document.mistake(path, "the list is empty", "leave it out for all partitions"));
        }
        let mut sorted = partitions.to_vec();
        sorted.sort_unstable();
        match sorted.windows(2).find(|pair| pair[0] == pair[1]) {
            Some(pair) => {
                Err(self.document.mistake(path, format!("partition {} is listed twice", pair[0]), ""))
            }
            None => Ok(()),
        }
    }

    fn within<T: PartialOrd + Display>(
        &self,
        path: &str,
        value: T,
        allowed: RangeInclusive<T>,
    ) -> Result<(), SettingsError> {
        if allowed.contains(&value) {
            return Ok(());
        }
        let advice = format!("allowed is {} to {}", allowed.start(), allowed.end());
        Err(self.document.mistake(path, format!("{value} is out of range"), advice))
    }

    fn at_least(&self, path: &str, value: Duration, least: Duration) -> Result<(), SettingsError> {
        if value >= least {
            return Ok(());
        }
        let reason = format!("{} is too short", units::duration::text(value));
        Err(self.document.mistake(
            path,
            reason,
            format!("allowed is {} or more", units::duration::text(least)),
        ))
    }

    fn at_most(&self, path: &str, value: Duration, most: Duration) -> Result<(), SettingsError> {
        if value <= most {
            return Ok(());
        }
        let reason = format!("{} is too long", units::duration::text(value));
        Err(self.document.mistake(
            path,
            reason,
            format!("allowed is {} or less", units::duration::text(most)),
        ))
    }
}

/// Every sink costs connections, and each event its sends. They are counted in a byte for each event.
const SINKS_MAX: u32 = 16;
