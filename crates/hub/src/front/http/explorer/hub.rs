//! A hub: its partitions, who reads it, and single events.

use std::sync::Arc;
use std::time::Duration;

use partition_log::{Edge, LogLimits, Start};
use serde::Serialize;
use serde_json::json;

use super::ExplorerFront;
use super::message::Message;
use super::overview::{ReaderGlance, readers};
use super::query::Query;
use super::reply::{self, Refusal, Reply};
use crate::front::event_reader::{EventReader, Next};
use crate::namespace::{Hub, Partition};

#[derive(Debug, Serialize)]
struct HubDetails {
    name: String,
    created_at_ms: i64,
    consumer_groups: Vec<String>,
    /// `None` if they are unlimited.
    log_bytes: Option<u64>,
    retention_ms: Option<u64>,
    partitions: Vec<PartitionDetails>,
    /// How many partitions are not listed.
    unlisted: usize,
    readers: Vec<ReaderGlance>,
    receivers: Vec<ReceiverDetails>,
}

#[derive(Debug, Serialize)]
struct PartitionDetails {
    id: u16,
    begin: u64,
    /// The number of the next event.
    end: u64,
    bytes: u64,
    last_append_ms: Option<i64>,
    events_in: u64,
    bytes_in: u64,
    events_out: u64,
    unavailable: Option<String>,
}

#[derive(Debug, Serialize)]
struct ReceiverDetails {
    partition: u16,
    consumer_group: String,
    name: Option<String>,
    epoch: Option<i64>,
    next: Option<u64>,
    lag: Option<u64>,
}

impl ExplorerFront {
    /// A hub as it stands.
    ///
    /// # Errors
    /// There is none of that name.
    pub(super) fn hub(&self, query: &Query<'_>) -> Result<Reply, Refusal> {
        let hub = self.named_hub(query)?;
        let hub = hub.latest();
        let (mut ends, mut partitions, mut receivers) = (Vec::new(), Vec::new(), Vec::new());
        for partition in hub.partitions() {
            let details = PartitionDetails::of(partition);
            ends.push((details.begin, details.end));
            if receivers.len() < LISTED_MAX {
                receivers.extend(partition.receivers().describe().into_iter().map(|it| {
                    ReceiverDetails {
                        partition: partition.id(),
                        consumer_group: it.consumer_group,
                        name: it.name,
                        epoch: it.epoch,
                        next: it.next_sequence_number,
                        lag: it
                            .next_sequence_number
                            .map(|next| details.end.saturating_sub(next.max(details.begin))),
                    }
                }));
            }
            if partitions.len() < LISTED_MAX {
                partitions.push(details);
            }
        }
        let limits = hub.limits();
        Ok(reply::json(&HubDetails {
            name: hub.name().to_owned(),
            created_at_ms: hub.created_at().milliseconds(),
            consumer_groups: hub.consumer_groups().iter().map(|group| group.name().to_owned()).collect(),
            log_bytes: (limits.bytes != LogLimits::UNLIMITED).then(|| limits.bytes.bytes()),
            retention_ms: limits.retention.map(super::message::milliseconds),
            unlisted: ends.len() - partitions.len(),
            partitions,
            readers: readers(hub, &ends, &self.overview.kafka_groups()),
            receivers,
        }))
    }

    /// Everything that there is to say of one event.
    ///
    /// # Errors
    /// There is none of that number, or not any longer.
    pub(super) async fn event(&self, query: &Query<'_>) -> Result<Reply, Refusal> {
        let hub = self.named_hub(query)?;
        let id = query.required("partition")?;
        let partition = hub.latest().partition(&id).cloned();
        let partition = partition.ok_or_else(|| Refusal::not_found(format!("there is no partition {id}")))?;
        let number: u64 =
            query.number("sequence_number")?.ok_or_else(|| Refusal::bad("sequence_number is missing"))?;
        let gone = || Refusal::not_found(format!("partition {id} has no event {number}, or not any longer"));
        let log = partition.log();
        let (begin, end) = log.extent();
        if number < begin || number >= end.stable_sequence_number {
            return Err(gone());
        }
        let start = Start::SequenceNumber(number, Edge::Inclusive);
        let cursor = log.position_committed(start).map_err(|_| gone())?;
        let mut reader = EventReader::new(Arc::clone(log), cursor);
        let mut tries = 0..DISK_TRIES;
        loop {
            match reader.next(1).map_err(|error| Refusal::new(500, error))? {
                Next::Chunk(chunk) => {
                    let record = chunk.records().next().filter(|record| record.sequence_number == number);
                    let record = record.ok_or_else(gone)?;
                    let message = Message {
                        sections: record.sections,
                        annotations: record.annotations,
                        annotation_count: record.annotation_count,
                    };
                    let mut details = message.details();
                    details.insert("partition".to_owned(), partition.id().into());
                    details.insert("sequence_number".to_owned(), number.into());
                    details.insert("enqueued_ms".to_owned(), record.append_time.milliseconds().into());
                    return Ok(reply::json(&details));
                }
                Next::Later => tokio::task::yield_now().await,
                // Its segment is on its way from the disk.
                Next::Nothing if tries.next().is_some() => tokio::time::sleep(DISK_PAUSE).await,
                Next::Nothing => {
                    return Err(Refusal::new(503, "the event can't be read from the disk at present"));
                }
            }
        }
    }

    pub(super) fn named_hub(&self, query: &Query<'_>) -> Result<Arc<Hub>, Refusal> {
        let name = query.required("name")?;
        self.namespace.hub(&name).ok_or_else(|| Refusal::not_found(format!("there is no hub {name}")))
    }

    /// A topic and its subscriptions.
    ///
    /// # Errors
    /// There is none of that name.
    pub(super) fn topic(&self, query: &Query<'_>) -> Result<Reply, Refusal> {
        let name = query.required("name")?;
        match self.namespace.queue_or_topic(&name) {
            Some(queue_store::Entity::Topic(topic)) => {
                let options = topic.options();
                let glance = super::overview::TopicGlance::of(&topic);
                Ok(reply::json(&json!({"topic": glance, "options": options})))
            }
            _ => Err(Refusal::not_found(format!("there is no topic {name}"))),
        }
    }
}

impl PartitionDetails {
    fn of(partition: &Partition) -> Self {
        let (stats, counters) = (partition.log().committed_stats(), partition.counters().values());
        Self {
            id: partition.id(),
            begin: stats.begin_sequence_number,
            end: stats.last_sequence_number.map_or(0, |last| last + 1).max(stats.begin_sequence_number),
            bytes: stats.bytes,
            last_append_ms: stats.last_append_time.map(|time| time.milliseconds()),
            events_in: counters.events_in,
            bytes_in: counters.bytes_in,
            events_out: counters.events_out,
            unavailable: partition.log().unavailable().map(|reason| reason.to_string()),
        }
    }
}

/// Partitions, and receivers, that are listed.
const LISTED_MAX: usize = 1_024;

/// How often, and after which pause, a segment is looked for that is read from the disk.
const DISK_TRIES: u32 = 100;
const DISK_PAUSE: Duration = Duration::from_millis(20);
