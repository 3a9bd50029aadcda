//! Ranges and relations that the types of the sections do not express.

use std::fmt::Display;
use std::ops::RangeInclusive;
use std::time::Duration;

use settings::{Document, SettingsError};
use units::ByteSize;

use super::file::{BlobStore, Checkpoint, Pipeline, Sink, Source, Store};
use super::service_bus::KEYS_OF_CHECKPOINTS;
use super::vocabulary::{CheckpointPolicy, Ownership, Route};
use relay::ownership::RENEW_MIN;

/// Checks `pipeline`, which was read from `document`.
pub(super) fn check(document: &Document, pipeline: &Pipeline) -> Result<(), SettingsError> {
    let rules = Rules { document };
    rules.ends(&pipeline.source, &pipeline.sink)?;
    match &pipeline.source {
        Source::EventHubs(source) => {
            if let Some(partitions) = &source.partitions {
                rules.partitions(partitions)?;
            }
        }
        Source::ServiceBus(_) => {
            for (key, advice) in KEYS_OF_CHECKPOINTS {
                if document.value(key).is_some() {
                    let reason = "it means nothing where messages are settled one by one";
                    return Err(document.mistake(key, reason, advice));
                }
            }
        }
    }
    match (&pipeline.source, &pipeline.checkpoint) {
        (Source::EventHubs(_), None) => {
            let reason = "how far the hub was read is kept nowhere";
            let advice = "add `checkpoint: {store: {files: <folder>}}`";
            return Err(document.mistake("checkpoint", reason, advice));
        }
        (Source::EventHubs(_), Some(checkpoint)) => rules.checkpoint(checkpoint)?,
        (Source::ServiceBus(_), _) => {}
    }
    let between_hubs =
        matches!((&pipeline.source, &pipeline.sink), (Source::EventHubs(_), Sink::EventHubs(_)));
    if matches!(pipeline.route, Route::SamePartition) && !between_hubs {
        let reason = "only hubs have partitions to keep";
        let advice = "leave `route` out";
        return Err(document.mistake("route", reason, advice));
    }
    if let Some(fan_out) = pipeline.fan_out {
        rules.within("fan_out", fan_out, 1..=10_000)?;
    }
    rules.within("batch.events", pipeline.batch.events, 1..=10_000)?;
    rules.at_most("batch.wait", pipeline.batch.wait, Duration::from_secs(3_600))?;
    if let Some(prefetch) = pipeline.prefetch {
        rules.within("prefetch", prefetch, 1..=100_000)?;
    }
    rules.within("in_flight", pipeline.in_flight, 1..=256)?;
    rules.within("held", pipeline.held, ByteSize::from_kibibytes(1)..=ByteSize::from_mebibytes(1 << 20))?;
    rules.within("failure_ratio", pipeline.failure_ratio, 0.0..=1.0)?;
    rules.within("retry.attempts", pipeline.retry.attempts, 1..=100)?;
    rules.at_least("retry.max_delay", pipeline.retry.max_delay, pipeline.retry.delay)?;
    rules.at_most("retry.max_delay", pipeline.retry.max_delay, Duration::from_secs(3_600))?;
    rules.at_least("try_timeout", pipeline.try_timeout, Duration::from_millis(1))?;
    rules.at_most("try_timeout", pipeline.try_timeout, Duration::from_secs(3_600))?;
    rules.at_most("restart_after", pipeline.restart_after, Duration::from_secs(86_400))?;
    rules.at_most("stop_timeout", pipeline.stop_timeout, Duration::from_secs(86_400))?;
    rules.ownership(&pipeline.ownership)?;
    Ok(())
}

struct Rules<'a> {
    document: &'a Document,
}

impl Rules<'_> {
    /// Source and sink are named, and are not the same.
    fn ends(&self, source: &Source, sink: &Sink) -> Result<(), SettingsError> {
        let (from, source_namespace) = match source {
            Source::EventHubs(source) => {
                let hub = self.hub(
                    "source.event_hubs",
                    source.hub(),
                    source.connection_string.entity_path.as_deref(),
                )?;
                if source.consumer_group.is_empty() {
                    let advice = "name one, or leave it out for `$Default`";
                    return Err(self.document.mistake(
                        "source.event_hubs.consumer_group",
                        "the name is empty",
                        advice,
                    ));
                }
                (Some(hub.to_owned()), &source.connection_string)
            }
            Source::ServiceBus(source) => {
                source.check(self.document)?;
                let entity = source.entity();
                let path = entity.map(|entity| entity.path().to_owned());
                (path, &source.connection_string)
            }
        };
        let (to, sink_namespace, key, another) = match sink {
            Sink::EventHubs(sink) => {
                let hub =
                    self.hub("sink.event_hubs", sink.hub(), sink.connection_string.entity_path.as_deref())?;
                let key = "sink.event_hubs.hub";
                (Some(hub.to_owned()), &sink.connection_string, key, "hub")
            }
            Sink::ServiceBus(sink) => {
                sink.check(self.document)?;
                let entity = sink.entity();
                let path = entity.map(|entity| entity.path().to_owned());
                let (key, another) = match sink.topic {
                    Some(_) => ("sink.service_bus.topic", "topic"),
                    None => ("sink.service_bus.queue", "queue"),
                };
                (path, &sink.connection_string, key, another)
            }
        };
        match (from, to) {
            (Some(from), Some(to))
                if source_namespace.endpoint == sink_namespace.endpoint && from.eq_ignore_ascii_case(&to) =>
            {
                let reason = format!("`{to}` is also the source, so every event would go round for ever");
                let advice = format!("name another {another}");
                Err(self.document.mistake(key, reason, advice))
            }
            _ => Ok(()),
        }
    }

    fn checkpoint(&self, checkpoint: &Checkpoint) -> Result<(), SettingsError> {
        if let Store::Blob(store) = &checkpoint.store {
            self.blob_store(store)?;
        }
        if let CheckpointPolicy::Every(interval) = checkpoint.write {
            let key = "checkpoint.write.every";
            self.at_least(key, interval, Duration::from_millis(1))?;
            self.at_most(key, interval, Duration::from_secs(86_400))?;
        }
        Ok(())
    }

    fn hub<'h>(
        &self,
        section: &str,
        hub: Option<&'h str>,
        entity_path: Option<&str>,
    ) -> Result<&'h str, SettingsError> {
        let path = format!("{section}.hub");
        let Some(hub) = hub.filter(|hub| !hub.is_empty()) else {
            let reason = "the hub is not named, and the connection string has no EntityPath either";
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
                "leave it out for one of the relay's own making",
            )),
            _ => Ok(()),
        }
    }

    fn blob_store(&self, store: &BlobStore) -> Result<(), SettingsError> {
        let BlobStore { container, .. } = store;
        let is_allowed = |byte: u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-');
        let is_name = (3..=63).contains(&container.len())
            && container.bytes().all(is_allowed)
            && !container.starts_with('-')
            && !container.ends_with('-')
            && !container.contains("--");
        if !is_name {
            return Err(self.document.mistake(
                "checkpoint.store.blob.container",
                format!("`{container}` can't be the name of a container"),
                "allowed are 3 to 63 small letters, digits and single hyphens between them",
            ));
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

    fn partitions(&self, partitions: &[u32]) -> Result<(), SettingsError> {
        let path = "source.event_hubs.partitions";
        if partitions.is_empty() {
            return Err(self.document.mistake(path, "the list is empty", "leave it out for all partitions"));
        }
        let mut sorted = partitions.to_vec();
        sorted.sort_unstable();
        match sorted.windows(2).find(|pair| pair[0] == pair[1]) {
            Some(pair) => {
                Err(self.document.mistake(path, format!("partition {} is there twice", pair[0]), ""))
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
