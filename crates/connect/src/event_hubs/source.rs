//! Receives from the partitions of a hub.
//!
//! Backpressure is credit: a partition's link may deliver as many events as are neither in a batch of ours nor with the
//! user. What is released is granted again in halves of the window, so that a flow frame goes out once for many batches.
//!
//! ```text
//!   window (unreleased limit)
//!   ├─ credit ───────────┼─ unreleased: open, sealed, handed over ─┼─ released, not granted again yet ─┤
//!                                                                   granted when it is half the window
//! ```

use std::collections::VecDeque;
use std::pin::Pin;
use std::task::{Context, Poll};

use amqp::connection::{Deliveries, Event, LinkId, LinkOptions};
use amqp::performative::{self, DeliveryState, ErrorCondition, Target};
use tokio::time::{Instant, Sleep};

use super::connection::ServiceConnection;
use super::delivered;
use super::endpoint::Endpoint;
use super::error::EventHubsError;
use super::management::hub_properties;
use super::options::EventHubsOptions;
use super::reconnecting::Reconnecting;
use super::selector::start_filter;
use crate::batch_builder::BatchBuilder;
use crate::event::{EventBatch, PartitionId};
use crate::sink::ErrorClass;
use crate::source::{Source, SourceError, SourceEvent, SourceOptions, StartPosition};

/// A [`Source`] of the events of a hub, for one consumer group.
///
/// A partition whose link ends is reported as closed; when the connection breaks, all open ones are, and the next that is
/// opened makes it again. An event's message is its sections without header and annotations.
#[derive(Debug)]
pub struct EventHubsSource {
    /// How many events of a partition may be with us or with the user.
    window: u32,
    consumer_group: String,
    connection: Reconnecting,
    partitions: Vec<PartitionId>,
    /// By partition id; none for partitions that are not open.
    readers: Vec<Option<Reader>>,
    /// Which partition a link is for, by the link's index.
    links: Vec<Option<(LinkId, PartitionId)>>,
    links_attached: u64,
    builder: BatchBuilder,
    closed: VecDeque<(PartitionId, EventHubsError)>,
    timer: Pin<Box<Sleep>>,
    /// What the timer is set to, until it has fired.
    armed: Option<std::time::Instant>,
}

/// An open partition.
#[derive(Debug)]
struct Reader {
    position: StartPosition,
    /// None until the connection is up.
    link: Option<LinkId>,
    /// Events that were delivered and not released.
    unreleased: u32,
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
    ) -> Result<Self, EventHubsError> {
        let endpoint = Endpoint::resolve(options)?;
        let mut connection = ServiceConnection::open(endpoint.clone()).await?;
        let partitions = hub_properties(&mut connection, &endpoint.options.hub).await?.partition_ids;
        let count = partitions.last().map_or(0, |last| last.0 + 1);
        Ok(Self {
            window: u32::try_from(source.unreleased_limit()).unwrap_or(u32::MAX),
            consumer_group: consumer_group.to_owned(),
            connection: Reconnecting::new(endpoint, connection),
            partitions,
            readers: (0..count).map(|_| None).collect(),
            links: Vec::new(),
            links_attached: 0,
            builder: BatchBuilder::new(source.batch, count),
            closed: VecDeque::new(),
            timer: Box::pin(tokio::time::sleep(std::time::Duration::ZERO)),
            armed: None,
        })
    }

    /// Closes the connection in good order. Dropping the source just ends it.
    pub async fn shut_down(self) {
        if let Some(connection) = self.connection.into_connection() {
            connection.close().await;
        }
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
            self.links_attached,
        );
        let Some(connection) = self.connection.up() else {
            return;
        };
        let session = connection.data();
        let Some(link) = connection.engine().attach_receiver(session, options) else {
            let error = EventHubsError::of_connection("protocol", "the service takes no further link");
            self.fail(partition, error);
            return;
        };
        connection.engine().set_credit(link, self.window);
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
    fn fail(&mut self, partition: PartitionId, error: EventHubsError) {
        self.close(partition);
        self.closed.push_back((partition, error));
    }

    /// The connection is gone, and with it every open partition.
    fn lose(&mut self, error: &EventHubsError) {
        tracing::warn!(%error, "the connection to receive from is lost");
        self.connection.lost();
        self.links.clear();
        for partition in self.partitions.clone() {
            if let Some(reader) = &mut self.readers[partition.0 as usize] {
                reader.link = None;
                self.fail(partition, error.clone());
            }
        }
    }

    /// Sees to it that there is a connection if one is needed. False while there is none.
    fn poll_connection(&mut self, context: &mut Context<'_>) -> Result<bool, EventHubsError> {
        if self.connection.up().is_some() {
            return Ok(true);
        }
        if self.readers.iter().all(Option::is_none) {
            return Ok(false);
        }
        match self.connection.poll_up(context) {
            Poll::Pending => Ok(false),
            Poll::Ready(Ok(())) => {
                self.attach_all();
                Ok(true)
            }
            Poll::Ready(Err(error)) if error.class == ErrorClass::Fatal => Err(error),
            Poll::Ready(Err(error)) => {
                self.lose(&error);
                Ok(false)
            }
        }
    }

    /// Takes what has been read. An error says that the connection is of no more use.
    fn take_events(&mut self) -> Result<(), EventHubsError> {
        while let Some(connection) = self.connection.up() {
            match connection.next_event()? {
                None => break,
                Some(Event::Deliveries(deliveries)) => self.take_deliveries(deliveries)?,
                Some(Event::LinkDetached { link, error }) => {
                    if let Some(partition) = partition_of(&self.links, link) {
                        // There is nothing left to detach.
                        self.links[link.index()] = None;
                        if let Some(reader) = &mut self.readers[partition.0 as usize] {
                            reader.link = None;
                        }
                        self.fail(partition, EventHubsError::of_detach(error));
                    }
                }
                Some(_) => {}
            }
        }
        Ok(())
    }

    /// Puts delivered events into batches. Hot path.
    fn take_deliveries(&mut self, deliveries: Deliveries) -> Result<(), EventHubsError> {
        let Some(connection) = self.connection.up() else {
            return Ok(());
        };
        let now = Instant::now().into_std();
        let chunk = deliveries.chunk();
        let mut malformed = None;
        let session = connection.data();
        for delivery in deliveries.items() {
            let Some(partition) = partition_of(&self.links, delivery.link) else {
                connection.take_control_delivery(&deliveries, delivery)?;
                continue;
            };
            match delivered::locate(deliveries.message(delivery), delivery.start) {
                Ok(Some(parts)) => self.builder.push(now, partition, chunk, &parts),
                located => match located.and_then(|_apart| delivered::gather(deliveries.message(delivery))) {
                    Ok((copy, parts)) => self.builder.push(now, partition, &copy, &parts),
                    Err(error) => {
                        malformed.get_or_insert((partition, error));
                        continue;
                    }
                },
            }
            if let Some(reader) = &mut self.readers[partition.0 as usize] {
                reader.unreleased += 1;
            }
            if !delivery.settled {
                // The service settles what it sends; where one does not, the engine makes ranges of these.
                connection.engine().settle(session, delivery.id, delivery.id, DeliveryState::Accepted);
            }
        }
        connection.engine().recycle(deliveries);
        if let Some((partition, error)) = malformed {
            let description = format!("an event of partition {partition} cannot be read: {error}");
            self.fail(partition, EventHubsError::of_condition(&ErrorCondition::DECODE_ERROR, description));
        }
        Ok(())
    }
}

impl Source for EventHubsSource {
    fn partitions(&self) -> Vec<PartitionId> {
        self.partitions.clone()
    }

    fn open(&mut self, partition: PartitionId, position: StartPosition) {
        self.close(partition);
        if self.partitions.binary_search(&partition).is_err() {
            let error = EventHubsError::fatal(
                ErrorCondition::ARGUMENT_OUT_OF_RANGE.as_str(),
                format!("the hub has no partition {partition}"),
            );
            self.closed.push_back((partition, error));
            return;
        }
        self.readers[partition.0 as usize] = Some(Reader {
            position,
            link: None,
            unreleased: 0,
        });
        if self.connection.up().is_some() {
            self.attach(partition);
        }
    }

    fn close(&mut self, partition: PartitionId) {
        self.closed.retain(|(closed, _)| *closed != partition);
        self.builder.discard(partition);
        let Some(reader) = self
            .readers
            .get_mut(partition.0 as usize)
            .and_then(Option::take)
        else {
            return;
        };
        if let (Some(link), Some(connection)) = (reader.link, self.connection.up()) {
            connection.engine().detach_link(link, None);
            self.links[link.index()] = None;
        }
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
            if !self.poll_connection(context)? {
                if self.closed.is_empty() {
                    return Poll::Pending;
                }
                continue;
            }
            if let Err(error) = self.take_events() {
                self.lose(&error);
                if error.class == ErrorClass::Fatal {
                    return Poll::Ready(Err(error.into()));
                }
                continue;
            }
            if self.poll_sealed(context) {
                continue;
            }
            let Some(connection) = self.connection.up() else {
                continue;
            };
            match connection.poll_drive(context) {
                Poll::Ready(Ok(())) => {}
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Err(error)) => { todo }
            }
        }
    }
