//! Receives from the partitions of a hub.
//!
//! Backpressure is credit: a partition's link may deliver as many events as are neither in a batch of ours nor with the
//! user. What is released is granted again in halves of the window, so that a flow frame goes out once for many batches;
//! and in eighths once the service has run out of credit, since credit held back is time that the service waits.
//!
//! ```text
//!   window (unreleased limit)
//!   ├─ credit ───────────┼─ unreleased: open, sealed, handed over ─┼─ released, not granted again yet ─┤
//!                                                                   granted when it is half the window, or an eighth
//! ```
//!
//! A window is as large as the options say or, with [`EventHubsSource::adapt_prefetch`], as large as the distance asks
//! for: it doubles whenever the service ran out of credit, up to a bound in bytes.

use std::collections::VecDeque;
use std::task::{Context, Poll, ready};

use amqp::connection::{Deliveries, Event, LinkId, LinkOptions};
use amqp::performative::{self, DeliveryState, ErrorCondition, Target};
use amqp::{Symbol, Value};
use tokio::time::Instant;

use super::delivered;
use super::management::hub_properties;
use super::options::EventHubsOptions;
use super::selector::start_filter;
use crate::alarm::Alarm;
use crate::batch_builder::BatchBuilder;
use crate::event::{Encoding, EventBatch, PartitionId};
use crate::service::Endpoint;
use crate::service::Reconnecting;
use crate::service::ServiceConnection;
use crate::service::ServiceError;
use crate::sink::ErrorClass;
use crate::source::{ShutDown, Source, SourceError, SourceEvent, SourceOptions, StartPosition};

/// A [`Source`] of the events of a hub, for one consumer group.
///
/// A partition whose link ends is reported as closed; when the connection breaks, all open ones are, and the next that is
/// opened makes it again. An event's message is its sections without header and annotations.
#[derive(Debug)]
pub struct EventHubsSource {
    /// How many events of a partition may be with us or with the user, to begin with.
    window: u32,
    /// How many message bytes of a partition its window may come to by growing; none where it does not grow.
    max_window_bytes: Option<usize>,
    consumer_group: String,
    owner_level: Option<i64>,
    connection: Reconnecting,
    partitions: Vec<PartitionId>,
    /// By partition id; none for partitions that are not open.
    readers: Vec<Option<Reader>>,
    /// Which partition a link is for, by the link's index.
    links: Vec<Option<(LinkId, PartitionId)>>,
    links_attached: u64,
    builder: BatchBuilder,
    closed: VecDeque<(PartitionId, ServiceError)>,
    /// Whether a link was ever attached: then hub and consumer group were there.
    has_worked: bool,
    alarm: Alarm,
}

/// An open partition.
#[derive(Debug)]
struct Reader {
    position: StartPosition,
    /// None until the connection is up.
    link: Option<LinkId>,
    /// How many events may be with us or with the user.
    window: u32,
    /// Whether the service has let us read.
    attached: bool,
    /// Events that were delivered and not released.
    unreleased: u32,
    /// Events that may still be delivered.
    credit: u32,
    /// Whether the service ran out of credit since the window last grew.
    ran_out: bool,
    /// Whether it ever did.
    has_run_out: bool,
}

impl Reader {
    /// The fewest events that are granted at once.
    fn smallest_grant(&self) -> u32 {
        let parts = if self.has_run_out { 8 } else { 2 };
        (self.window / parts).max(1)
    }
}

impl EventHubsSource {
    /// Connects, and asks for the partitions. None is open yet. Made within a tokio runtime with time and I/O.
    ///
    /// # Errors
    /// When the service cannot be reached, refuses the token, or has no such hub.
    pub async fn connect(
        options: EventHubsOptions,
        consumer_group: &str,
        source: SourceOptions,
    ) -> Result<Self, ServiceError> {
        let endpoint = Endpoint::resolve(options)?;
        let mut connection = ServiceConnection::open(endpoint.clone()).await?;
        let partitions = hub_properties(&mut connection, &endpoint.options.entity).await?.partition_ids;
        let count = partitions.last().map_or(0, |last| last.0 + 1);
        Ok(Self {
            window: u32::try_from(source.unreleased_limit()).unwrap_or(u32::MAX),
            max_window_bytes: None,
            consumer_group: consumer_group.to_owned(),
            owner_level: None,
            connection: Reconnecting::new(endpoint, connection),
            partitions,
            readers: (0..count).map(|_| None).collect(),
            links: Vec::new(),
            links_attached: 0,
            builder: BatchBuilder::new(source.batch, count),
            closed: VecDeque::new(),
            has_worked: false,
            alarm: Alarm::new(),
        })
    }

    /// Leaves partitions to others: only those that `keep` holds for are among [`Source::partitions`] from now on. To be
    /// called before any is opened.
    pub fn retain_partitions(&mut self, keep: impl Fn(PartitionId) -> bool) {
        self.partitions.retain(|&partition| keep(partition));
    }

    /// Lets the window of a partition double each time the service runs out of credit for it, as long as all partitions
    /// together have no more than about `max_bytes` of messages in their windows. To be called before any is opened.
    pub fn adapt_prefetch(&mut self, max_bytes: usize) {
        self.max_window_bytes = Some(max_bytes / self.partitions.len().max(1));
    }

    /// Makes the receiver of every partition that is opened from now on the only one of its consumer group: it takes the
    /// partition from any receiver of the same level or a lower one, which is told so (see
    /// [`SourceError::is_stolen`]), and a later one may take it from us. Processors that share partitions all use
    /// level 0.
    pub fn set_owner_level(&mut self, owner_level: i64) {
        self.owner_level = Some(owner_level);
    }

    /// Attaches the link of a partition that is to be open, unless there is no connection.
    fn attach(&mut self, partition: PartitionId) {
        let Some(reader) = self.readers[partition.0 as usize].as_mut() else {
            return;
        };
        self.links_attached += 1;
        let options = link_options(
            self.connection.endpoint(),
            &self.consumer_group,
            partition,
            &reader.position,
            self.owner_level,
            self.links_attached,
        );
        let Some(connection) = self.connection.up() else {
            return;
        };
        let link = match connection.attach_receiver(options) {
            Ok(link) => link,
            Err(error) => {
                self.fail(partition, error);
                return;
            }
        };
        connection.engine().set_credit(link, reader.window);
        reader.credit = reader.window;
        reader.link = Some(link);
        if self.links.len() <= link.index() {
            self.links.resize(link.index() + 1, None);
        }
        self.links[link.index()] = Some((link, partition));
    }

    /// Attaches what is to be open, on a connection that has just come up.
    fn attach_all(&mut self) {
        for partition in self.partitions.clone() {
            self.attach(partition);
        }
    }

    /// Closes a partition that did not ask for it.
    fn fail(&mut self, partition: PartitionId, error: ServiceError) {
        self.close(partition);
        self.closed.push_back((partition, error));
    }

    /// The connection is gone, and with it every open partition.
    fn lose(&mut self, error: &ServiceError) {
        tracing::debug!(%error, "there is no connection for receiving");
        self.connection.lost(error);
        self.links.clear();
        for partition in self.partitions.clone() {
            if let Some(reader) = &mut self.readers[partition.0 as usize] {
                reader.link = None;
                self.fail(partition, error.clone());
            }
        }
    }

    /// One turn: takes what has been read, seals what is due, writes and reads. Ready when there may be something to hand
    /// over or another turn to take; an error says that the connection is of no more use, or could not be made.
    fn poll_turn(&mut self, context: &mut Context<'_>) -> Poll<Result<(), ServiceError>> {
        if self.connection.up().is_none() {
            if self.readers.iter().all(Option::is_none) {
                return Poll::Pending;
            }
            ready!(self.connection.poll_up(context))?;
            self.attach_all();
        }
        self.take_events()?;
        if let Some(deadline) = self.builder.next_deadline() {
            let now = Instant::now().into_std();
            if deadline <= now {
                self.builder.handle_timeout(now);
                return Poll::Ready(Ok(()));
            }
        }
        if self.builder.has_sealed() || !self.closed.is_empty() {
            return Poll::Ready(Ok(()));
        }
        if let Some(connection) = self.connection.up()
            && let Poll::Ready(driven) = connection.poll_drive(context)
        {
            return Poll::Ready(driven);
        }
        self.poll_timer(context).map(Ok)
    }

    /// Ready when the next open batch may be due.
    fn poll_timer(&mut self, context: &mut Context<'_>) -> Poll<()> {
        self.alarm.poll(context, self.builder.next_deadline().map(Instant::from_std))
    }

    /// Takes what has been read. An error says that the connection is of no more use.
    fn take_events(&mut self) -> Result<(), ServiceError> {
        while let Some(connection) = self.connection.up() {
            match connection.next_event()? {
                None => break,
                Some(Event::Deliveries(deliveries)) => self.take_deliveries(deliveries)?,
                Some(Event::LinkAttached { link, .. }) => self.take_attach(link),
                Some(Event::LinkDetached { link, error }) => {
                    self.take_detach(link, ServiceError::of_detach(error))?;
                }
                Some(_) => {}
            }
        }
        Ok(())
    }

    fn take_attach(&mut self, link: LinkId) {
        if let Some(partition) = partition_of(&self.links, link)
            && let Some(reader) = &mut self.readers[partition.0 as usize]
        {
            reader.attached = true;
            self.has_worked = true;
        }
    }

    /// A link was refused, or has ended. An error says that the connection is of no more use.
    fn take_detach(&mut self, link: LinkId, error: ServiceError) -> Result<(), ServiceError> {
        let Some(partition) = partition_of(&self.links, link) else {
            return Ok(());
        };
        // There is nothing left to detach.
        self.links[link.index()] = None;
        let mut was_attached = false;
        if let Some(reader) = &mut self.readers[partition.0 as usize] {
            reader.link = None;
            was_attached = reader.attached;
        }
        if was_attached && error.is_unauthorized() {
            return Err(error.of_working_link());
        }
        let error = match self.has_worked {
            true => error.of_working_client(),
            false => error,
        };
        self.fail(partition, error);
        Ok(())
    }

    /// Puts delivered events into batches. Hot path.
    fn take_deliveries(&mut self, deliveries: Deliveries) -> Result<(), ServiceError> {
        let Some(connection) = self.connection.up() else {
            return Ok(());
        };
        let now = Instant::now().into_std();
        let chunk = deliveries.chunk();
        let mut malformed = None;
        for run in deliveries.items().chunk_by(|one, next| one.link == next.link) {
            let Some(partition) = partition_of(&self.links, run[0].link) else {
                for delivery in run {
                    connection.take_control_delivery(&deliveries, delivery)?;
                }
                continue;
            };
            let mut rest = run;
            let mut count = 0;
            loop {
                let usual = rest.iter().map_while(|delivery| {
                    delivered::locate_usual(deliveries.message(delivery), delivery.start)
                });
                let added = self.builder.extend(now, partition, chunk, usual);
                count += added;
                let Some((delivery, others)) = rest[added..].split_first() else {
                    break;
                };
                rest = others;
                match delivered::locate(deliveries.message(delivery), delivery.start) {
                    Ok((copy, parts)) => {
                        self.builder.push(now, partition, copy.as_ref().unwrap_or(chunk), &parts);
                        count += 1;
                    }
                    Err(error) => {
                        malformed.get_or_insert((partition, error));
                    }
                }
            }
            if let Some(reader) = &mut self.readers[partition.0 as usize] {
                // No link delivers more at once than it has credit for, which is counted in 32 bits.
                reader.unreleased += count as u32;
                reader.credit = reader.credit.saturating_sub(count as u32);
                reader.ran_out |= reader.credit == 0;
            }
            // The service settles what it sends; where one does not, the engine makes ranges of these.
            for delivery in run.iter().filter(|delivery| !delivery.settled) {
                let engine = connection.engine();
                if let Some(session) = engine.session_of(delivery.link) {
                    engine.settle(session, delivery.id, delivery.id, DeliveryState::Accepted);
                }
            }
        }
        connection.engine().recycle(deliveries);
        if let Some((partition, error)) = malformed {
            let description = format!("an event of partition {partition} cannot be read: {error}");
            self.fail(partition, ServiceError::of_condition(&ErrorCondition::DECODE_ERROR, description));
        }
        Ok(())
    }
}

impl Source for EventHubsSource {
    fn encoding(&self) -> Encoding {
        Encoding::Amqp
    }

    fn partitions(&self) -> Vec<PartitionId> {
        self.partitions.clone()
    }

    fn open(&mut self, partition: PartitionId, position: StartPosition) {
        self.close(partition);
        if self.partitions.binary_search(&partition).is_err() {
            let error = ServiceError::fatal(
                ErrorCondition::ARGUMENT_OUT_OF_RANGE.as_str(),
                format!("the hub has no partition {partition}"),
            );
            self.closed.push_back((partition, error));
            return;
        }
        self.readers[partition.0 as usize] = Some(Reader {
            position,
            link: None,
            window: self.window,
            attached: false,
            unreleased: 0,
            credit: 0,
            ran_out: false,
            has_run_out: false,
        });
        if self.connection.up().is_some() {
            self.attach(partition);
        }
    }

    fn close(&mut self, partition: PartitionId) {
        self.closed.retain(|(closed, _)| *closed != partition);
        self.builder.discard(partition);
        let Some(reader) = self.readers.get_mut(partition.0 as usize).and_then(Option::take) else {
            return;
        };
        if let (Some(link), Some(connection)) = (reader.link, self.connection.up()) {
            connection.engine().detach_link(link, None);
            self.links[link.index()] = None;
        }
    }

    fn hold(&mut self, partition: PartitionId, held: bool) {
        self.builder.hold(partition, held);
    }

    fn is_exhausted(&self) -> bool {
        let mut open = self.readers.iter().flatten().peekable();
        open.peek().is_some() && open.all(|reader| reader.unreleased >= reader.window)
    }

    fn poll_batch(&mut self, context: &mut Context<'_>) -> Poll<Result<SourceEvent, SourceError>> {
        loop {
            if let Some((partition, error)) = self.closed.pop_front() {
                let error = error.into();
                return Poll::Ready(Ok(SourceEvent::PartitionClosed { partition, error }));
            }
            if let Some(batch) = self.builder.pop_sealed() {
                return Poll::Ready(Ok(SourceEvent::Batch(batch)));
            }
            match self.poll_turn(context) {
                Poll::Ready(Ok(())) => {}
                Poll::Ready(Err(error)) if error.class == ErrorClass::Fatal => {
                    self.connection.lost(&error);
                    return Poll::Ready(Err(error.into()));
                }
                Poll::Ready(Err(error)) => self.lose(&error),
                Poll::Pending => return Poll::Pending,
            }
        }
    }

    fn release(&mut self, batch: EventBatch) {
        let partition = batch.partition();
        // The window is counted in 32 bits, and no batch is larger than it.
        let released = batch.len() as u32;
        let mean_bytes = batch.pushed_bytes() / batch.len().max(1);
        self.builder.recycle(batch);
        let Some(Some(reader)) = self.readers.get_mut(partition.0 as usize) else {
            return;
        };
        reader.unreleased = reader.unreleased.saturating_sub(released);
        if std::mem::take(&mut reader.ran_out) {
            reader.has_run_out = true;
            if let Some(max_bytes) = self.max_window_bytes {
                let most = (max_bytes / mean_bytes.max(1)).min(MAX_WINDOW as usize) as u32;
                reader.window = reader.window.saturating_mul(2).min(most).max(reader.window);
            }
        }
        let entitled = reader.window.saturating_sub(reader.unreleased);
        if entitled.saturating_sub(reader.credit) < reader.smallest_grant() {
            return;
        }
        if let (Some(link), Some(connection)) = (reader.link, self.connection.up()) {
            reader.credit = entitled;
            connection.engine().set_credit(link, entitled);
        }
    }

    fn outage(&self) -> Option<&ServiceError> {
        self.connection.outage()
    }

    fn is_attached(&self, partition: PartitionId) -> bool {
        let reader = self.readers.get(partition.0 as usize);
        matches!(reader, Some(Some(reader)) if reader.attached)
    }

    fn shut_down(self: Box<Self>) -> ShutDown {
        let connection = self.connection.into_connection();
        Box::pin(async move {
            if let Some(connection) = connection {
                connection.close().await;
            }
        })
    }
}

/// Which open partition a link is for.
#[inline]
fn partition_of(links: &[Option<(LinkId, PartitionId)>], link: LinkId) -> Option<PartitionId> {
    match links.get(link.index()) {
        Some(Some((open, partition))) if *open == link => Some(*partition),
        _ => None,
    }
}

fn link_options(
    endpoint: &Endpoint,
    consumer_group: &str,
    partition: PartitionId,
    position: &StartPosition,
    owner_level: Option<i64>,
    number: u64,
) -> LinkOptions {
    let hub = &endpoint.options.entity;
    let name = format!("{}-{partition}-{number}", endpoint.container_id);
    let address = format!("{hub}/ConsumerGroups/{consumer_group}/Partitions/{partition}");
    let mut properties = vec![(RECEIVER_NAME, Value::from(name.as_str()))];
    properties.extend(owner_level.map(|level| (OWNER_LEVEL, Value::Long(level))));
    LinkOptions {
        source: performative::Source { filter: start_filter(position), ..performative::Source::new(address) },
        target: Target::new(name.as_str()),
        properties,
        name,
        ..LinkOptions::default()
    }
}

/// The largest window that one grows to: at a round trip of 80 ms still 100,000 events a second of each partition.
const MAX_WINDOW: u32 = 16_384;

/// What the service calls a receiver by in its errors.
const RECEIVER_NAME: Symbol = Symbol::from_static("com.microsoft:receiver-name");

/// The owner level of a receiver, which the protocol calls its epoch.
const OWNER_LEVEL: Symbol = Symbol::from_static("com.microsoft:epoch");
