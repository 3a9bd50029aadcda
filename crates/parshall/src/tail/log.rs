//! The partitions of a hub or topic, from where it is asked for, to their present ends or on and on.
//!
//! Where the log ends is asked at the beginning. Whatever breaks later, a partition is opened again behind the last event that came
//! of it, so that none is left out or printed twice. The log tells why a partition is waited for. Without `--follow` the command ends
//! where nothing more can come.

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::time::Duration;

use connect::event::{Encoding, EnqueuedTime, EventBatch, PartitionId, Unreadable};
use connect::event_hubs::{EventHubsSource, ManagementClient};
use connect::kafka::{self, TopicExtents};
use connect::service::ServiceError;
use connect::sink::ErrorClass;
use connect::source::{BatchOptions, Source, SourceError, SourceEvent, SourceOptions, StartPosition};

use super::from::From;
use super::line::Shown;
use super::output::{Printer, Wanted};
use crate::exit::CommandError;
use crate::service::{Protocol, Service};

/// What is read of a log.
#[derive(Debug)]
pub(super) struct Reading<'a> {
    pub(super) entity: &'a str,
    pub(super) consumer_group: &'a str,
    /// Only these partitions, or all.
    pub(super) partitions: &'a [u32],
    pub(super) start: Start,
    /// Whether it goes on behind the present end.
    pub(super) follow: bool,
}

/// Where it begins.
#[derive(Clone, Copy, Debug)]
pub(super) enum Start {
    From(From),
    /// With the last events of all partitions together.
    Last(u64),
}

/// How far a partition reaches.
#[derive(Clone, Copy, Debug)]
struct Extent {
    partition: PartitionId,
    first: i64,
    /// Below `first` where there is none.
    last: i64,
    /// When the last one was appended, where that is known.
    last_time: Option<EnqueuedTime>,
}

/// An event that waits for those before it.
#[derive(Debug)]
struct Held {
    time: EnqueuedTime,
    partition: PartitionId,
    sequence_number: i64,
    offset: Option<String>,
    key: Option<String>,
    sections: Vec<u8>,
}

/// Reads, and prints.
///
/// # Errors
/// When the service can't be reached or refuses, or standard output can't be written.
pub(super) async fn tail(
    service: &Service,
    reading: &Reading<'_>,
    printer: &mut Printer,
) -> Result<(), CommandError> {
    let refused = |error: ServiceError| service.refusal(reading.entity, &error);
    let all = extents(service, reading.entity).await.map_err(refused)?;
    let is_wanted =
        |extent: &&Extent| reading.partitions.is_empty() || reading.partitions.contains(&extent.partition.0);
    if let Some(missing) =
        reading.partitions.iter().find(|id| all.iter().all(|extent| extent.partition.0 != **id))
    {
        let message = format!("{} has no partition {missing}: it has {}", reading.entity, all.len());
        return Err(CommandError::Usage { message, advice: None });
    }
    let extents: Vec<Extent> = all.iter().filter(is_wanted).copied().collect();
    let mut tail = Tail::open(service, reading, &extents).await.map_err(refused)?;
    if let Start::Last(count) = reading.start {
        for held in tail.hold_last(count).await.map_err(refused)? {
            if printer.print(&held.shown())? == Wanted::Enough {
                return Ok(());
            }
        }
        if printer.flush()? == Wanted::Enough || !reading.follow {
            return Ok(());
        }
    }
    while reading.follow || !tail.unfinished.is_empty() {
        let Some(batch) = tail.next().await.map_err(refused)? else { continue };
        for event in batch.events() {
            let partition = batch.partition();
            let is_behind = !reading.follow
                && extents.iter().any(|it| it.partition == partition && event.sequence_number > it.last);
            if is_behind {
                break;
            }
            if printer.print(&shown(&batch, event))? == Wanted::Enough {
                return Ok(());
            }
        }
        tail.release(batch);
        if printer.flush()? == Wanted::Enough {
            return Ok(());
        }
    }
    Ok(())
}

/// How far the partitions reach at the moment.
async fn extents(service: &Service, entity: &str) -> Result<Vec<Extent>, ServiceError> {
    if service.protocol == Protocol::Kafka {
        let found = TopicExtents::of(service.kafka_options(entity)).ask().await?;
        let of = |extent: &kafka::PartitionExtent| Extent {
            partition: extent.partition,
            first: extent.start,
            last: extent.end - 1,
            last_time: extent.last_time,
        };
        return Ok(found.iter().map(of).collect());
    }
    let mut client = ManagementClient::connect(service.hub_options(entity)).await?;
    let mut extents = Vec::new();
    for partition in client.hub_properties().await?.partition_ids {
        let found = client.partition_properties(partition).await?;
        let last = found.last_enqueued_sequence_number;
        // Of an empty one the beginning is not where the next event will be.
        let first = if found.is_empty { last + 1 } else { found.begin_sequence_number };
        extents.push(Extent { partition, first, last, last_time: Some(found.last_enqueued_time) });
    }
    client.close().await;
    Ok(extents)
}

/// Partitions that are being read.
#[derive(Debug)]
struct Tail {
    source: Box<dyn Source>,
    /// Where each partition would begin that has had no event.
    starts: BTreeMap<PartitionId, StartPosition>,
    /// The last event that came of each.
    last: BTreeMap<PartitionId, i64>,
    /// Partitions whose end, as it was at the beginning, has not come yet, and that end.
    unfinished: BTreeMap<PartitionId, i64>,
    /// Number of times that each partition was closed since its last event.
    closings: BTreeMap<PartitionId, u32>,
    consumer_group: String,
    follow: bool,
}

impl Tail {
    async fn open(
        service: &Service,
        reading: &Reading<'_>,
        extents: &[Extent],
    ) -> Result<Self, ServiceError> {
        let options = SourceOptions {
            batch: BatchOptions { max_events: 512, max_wait: Duration::ZERO },
            prefetch: 1_024,
        };
        let source: Box<dyn Source> = match service.protocol {
            Protocol::Kafka => {
                kafka::connect_source(&service.kafka_options(reading.entity), options, Encoding::Amqp).await?
            }
            Protocol::Amqp | Protocol::WebSocket | Protocol::Http => {
                let hub = service.hub_options(reading.entity);
                Box::new(EventHubsSource::connect(hub, reading.consumer_group, options).await?)
            }
        };
        let mut tail = Self {
            source,
            starts: BTreeMap::new(),
            last: BTreeMap::new(),
            unfinished: BTreeMap::new(),
            closings: BTreeMap::new(),
            consumer_group: reading.consumer_group.to_owned(),
            follow: reading.follow,
        };
        for extent in extents {
            let (start, has_more) = extent.start(reading.start);
            if has_more {
                tail.unfinished.insert(extent.partition, extent.last);
            }
            if has_more || reading.follow {
                tail.source.open(extent.partition, start.clone());
                tail.starts.insert(extent.partition, start);
            }
        }
        Ok(tail)
    }

    /// The next events of any partition, which are to be released; none when a partition has come to its end without any.
    async fn next(&mut self) -> Result<Option<EventBatch>, ServiceError> {
        loop {
            let polled = poll_fn(|context| self.source.poll_batch(context));
            let Ok(polled) = tokio::time::timeout(LOOKED_EVERY, polled).await else {
                // The last numbers of a log need not belong to events: those of markers don't.
                let source = &self.source;
                let is_ended = |partition, end| source.next_number(partition).is_some_and(|next| next > end);
                self.unfinished.retain(|partition, end| !is_ended(*partition, *end));
                return Ok(None);
            };
            match polled.map_err(of_source)? {
                SourceEvent::Batch(batch) => {
                    if self.closings.remove(&batch.partition()).is_some() {
                        tracing::info!(partition = %batch.partition(), "the partition is read again");
                    }
                    if let Some(last) = batch.last_sequence_number() {
                        self.last.insert(batch.partition(), last);
                        if self.unfinished.get(&batch.partition()).is_some_and(|end| last >= *end) {
                            self.unfinished.remove(&batch.partition());
                        }
                    }
                    if let Some(Unreadable { numbers, reason, .. }) = batch.unreadable() {
                        let (partition, first, last) = (batch.partition(), numbers.start, numbers.end - 1);
                        tracing::warn!(%partition, first, last, reason, "records that can't be read are left out");
                        self.source.release(batch);
                        return Ok(None);
                    }
                    return Ok(Some(batch));
                }
                SourceEvent::PartitionClosed { partition, error } => {
                    self.reopen(partition, error).await?;
                }
                SourceEvent::Settled(_) | SourceEvent::LocksRenewed { .. } => {}
            }
        }
    }

    /// Opens a partition again that the service has closed, unless nothing more can come.
    ///
    /// # Errors
    /// It can't be read, or without `--follow` is not going to be.
    async fn reopen(&mut self, partition: PartitionId, error: SourceError) -> Result<(), ServiceError> {
        let error = self.explained(partition, error);
        if error.is_position_refused() {
            self.starts.insert(partition, StartPosition::Earliest);
            if let Some(last) = self.last.remove(&partition) {
                tracing::warn!(%partition, last, "the partition was created again: its numbers begin anew");
                self.unfinished.remove(&partition);
                if !self.follow {
                    return Ok(());
                }
            }
            // Else retention has been there since the ends were asked for.
        } else if error.class == ErrorClass::Fatal || (error.is_stolen() && !self.follow) {
            return Err(of_source(error));
        }
        let closings = self.closings.entry(partition).or_default();
        *closings += 1;
        match *closings {
            1 => tracing::warn!(%partition, %error, "the partition is closed, and opened again"),
            CLOSINGS_MAX.. if !self.follow => return Err(of_source(error)),
            _ => tracing::debug!(%partition, %error, "the partition is opened again"),
        }
        // The source waits for its connection. A link that is refused again and again must not make a busy loop of it.
        tokio::time::sleep(PAUSE).await;
        let start = match (self.last.get(&partition).copied(), self.starts.get(&partition)) {
            (Some(last), _) => StartPosition::AfterSequenceNumber(last),
            (None, Some(start)) => start.clone(),
            (None, None) => StartPosition::Earliest,
        };
        self.source.open(partition, start);
        Ok(())
    }

    /// Adds to an error what its receiver can't know.
    fn explained(&self, partition: PartitionId, error: SourceError) -> SourceError {
        match error.is_stolen() {
            true => SourceError {
                description: format!(
                    "another reader owns partition {partition} in the consumer group {} ({}); name another group with --group, or stop that \
                     reader",
                    self.consumer_group, error.condition
                ),
                ..error
            },
            false => error,
        }
    }

    fn release(&mut self, batch: EventBatch) {
        self.source.release(batch);
    }

    /// Reads to the ends, and gives the last events of all partitions in the order of their times.
    async fn hold_last(&mut self, count: u64) -> Result<Vec<Held>, ServiceError> {
        let count = usize::try_from(count).unwrap_or(usize::MAX);
        let mut held: Vec<Held> = Vec::new();
        while !self.unfinished.is_empty() {
            let Some(batch) = self.next().await? else { continue };
            held.extend(batch.events().iter().map(|event| Held::of(&batch, event)));
            self.release(batch);
            if held.len() / 2 > count {
                keep_last(&mut held, count);
            }
        }
        keep_last(&mut held, count);
        Ok(held)
    }
}

fn keep_last(held: &mut Vec<Held>, count: usize) {
    held.sort_by_key(|held| (held.time, held.partition, held.sequence_number));
    held.drain(..held.len().saturating_sub(count));
}

impl Extent {
    /// Where to open it, and whether there is anything to be read then.
    fn start(&self, start: Start) -> (StartPosition, bool) {
        let behind = StartPosition::AfterSequenceNumber(self.last);
        let is_empty = self.last < self.first;
        match start {
            Start::Last(count) => {
                let count = i64::try_from(count).unwrap_or(i64::MAX);
                let from = self.last.saturating_sub(count).saturating_add(1).max(self.first);
                match is_empty || count == 0 {
                    true => (behind, false),
                    false => (StartPosition::AtSequenceNumber(from), true),
                }
            }
            Start::From(From::Number(number)) if number > self.last => (behind, false),
            Start::From(From::Number(number)) => {
                (StartPosition::AtSequenceNumber(number.max(self.first)), true)
            }
            Start::From(From::Time(unix_ms))
                if self.last_time.is_some_and(|last| last < EnqueuedTime::from_unix_ms(unix_ms)) =>
            {
                (behind, false)
            }
            Start::From(from) => (from.position(self.last), !is_empty && from != From::End),
        }
    }
}

impl Held {
    fn of(batch: &EventBatch, event: &connect::event::Event) -> Self {
        let shown = shown(batch, event);
        Self {
            time: event.enqueued_time,
            partition: batch.partition(),
            sequence_number: event.sequence_number,
            offset: shown.offset.map(str::to_owned),
            key: shown.key.map(str::to_owned),
            sections: shown.sections.to_vec(),
        }
    }

    fn shown(&self) -> Shown<'_> {
        Shown {
            partition: Some(self.partition.0),
            sequence_number: self.sequence_number,
            offset: self.offset.as_deref(),
            enqueued_time: Some(self.time),
            key: self.key.as_deref(),
            sections: &self.sections,
        }
    }
}

fn shown<'a>(batch: &'a EventBatch, event: &connect::event::Event) -> Shown<'a> {
    let text = |bytes: Option<&'a [u8]>| bytes.and_then(|bytes| str::from_utf8(bytes).ok());
    Shown {
        partition: Some(batch.partition().0),
        sequence_number: event.sequence_number,
        offset: text(batch.offset(event)),
        enqueued_time: Some(event.enqueued_time),
        key: text(batch.partition_key(event)),
        sections: batch.message(event),
    }
}

fn of_source(error: SourceError) -> ServiceError {
    let SourceError { class, condition, description } = error;
    ServiceError { class, condition, description }
}

/// How often it is looked whether partitions have ended, while nothing comes.
const LOOKED_EVERY: Duration = Duration::from_millis(250);

/// A partition that was closed so often without an event in between is given up, where nothing new is waited for.
const CLOSINGS_MAX: u32 = 20;

/// Between the end of a partition and its next beginning.
const PAUSE: Duration = Duration::from_millis(100);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_partition_is_opened_where_it_is_asked_for_within_what_there_is() {
        let last_time = Some(EnqueuedTime::from_unix_ms(1_000));
        let full = Extent { partition: PartitionId(0), first: 10, last: 19, last_time };
        let empty = Extent { first: 20, ..full };
        let at = StartPosition::AtSequenceNumber;
        let after = StartPosition::AfterSequenceNumber;
        assert_eq!(full.start(Start::Last(3)), (at(17), true));
        assert_eq!(full.start(Start::Last(100)), (at(10), true));
        assert_eq!(full.start(Start::Last(0)), (after(19), false));
        assert_eq!(full.start(Start::From(From::Number(12))), (at(12), true));
        assert_eq!(full.start(Start::From(From::Number(3))), (at(10), true));
        assert_eq!(full.start(Start::From(From::Number(20))), (after(19), false));
        assert_eq!(full.start(Start::From(From::End)), (after(19), false));
        assert_eq!(full.start(Start::From(From::First)), (StartPosition::Earliest, true));
        let since = StartPosition::AtEnqueuedTime(EnqueuedTime::from_unix_ms(1_000));
        assert_eq!(full.start(Start::From(From::Time(1_000))), (since, true));
        assert_eq!(full.start(Start::From(From::Time(1_001))), (after(19), false), "nothing is as young");
        assert_eq!(empty.start(Start::Last(3)), (after(19), false));
        assert!(!empty.start(Start::From(From::First)).1);
    }
}
