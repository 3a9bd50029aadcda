//! Sends batches of events.
//!
//! A batch is one transfer of the service's batch format, encoded straight into the connection's output:
//!
//! ```text
//!   [annotations: partition key]  Data( event )  Data( event )  ...
//!                                       └ a complete message: [annotations: partition key] sections...
//! ```
//!
//! All sends are unsettled and await the service's outcome, which comes for ranges of them.

use std::task::{Context, Poll, ready};

use amqp::connection::{Event, LinkId, LinkOptions, NewDelivery, TransferWriter};
use amqp::message::{FORMAT_BATCH, encode};
use amqp::performative::{DeliveryState, SenderSettleMode, Source, Target};
use amqp::{Symbol, Value};

use super::connection::ServiceConnection;
use super::endpoint::Endpoint;
use super::error::EventHubsError;
use super::management::hub_properties;
use super::options::EventHubsOptions;
use super::outstanding::Outstanding;
use super::reconnecting::Reconnecting;
use crate::event::PartitionId;
use crate::sink::{ErrorClass, SendError, SendOutcome, SendToken, SinkBusy};

/// Sends to one hub over one connection, which it makes again when it breaks.
///
/// Whatever was sent and has no outcome when a link or the connection ends gets that error as its outcome, so every send
/// that was taken has exactly one outcome. While there is no connection everything is busy.
#[derive(Debug)]
pub struct Publisher {
    connection: Reconnecting,
    partitions: Vec<PartitionId>,
    /// One for each partition, and the last one to the hub itself.
    links: Vec<Link>,
    outstanding: Outstanding,
    outcomes: Vec<SendOutcome>,
    /// Whether a send was refused and nothing has changed since.
    blocked: bool,
    /// Whether one was refused because the socket has to take some of the output first.
    output_full: bool,
    next_tag: u32,
    links_attached: u64,
    /// The encoded annotations of the batch at hand, or the event at hand.
    scratch: Vec<u8>,
}

/// Where a batch goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Destination<'a> {
    /// To a partition, by its place among [`Publisher::partitions`].
    Partition(u32),
    /// To the partition that the service chooses by this key, of at most 128 characters: the same for the same key.
    Key(&'a str),
    /// To a partition of the service's choice.
    Any,
}

#[derive(Debug)]
struct Link {
    /// The partition that it is to; none for the hub.
    partition: Option<PartitionId>,
    state: LinkState,
    max_message_bytes: usize,
}

#[derive(Debug)]
enum LinkState {
    Detached,
    Attaching(LinkId),
    Attached(LinkId),
    /// The service refused it. The next send gets this as its outcome, and one after it tries again.
    Refused(Box<EventHubsError>),
}

impl Publisher {
    /// Connects, and attaches a link to every partition. Made within a tokio runtime with time and I/O.
    ///
    /// # Errors
    /// When the service cannot be reached, refuses the token or a link, or has no such hub.
    pub async fn connect(options: EventHubsOptions) -> Result<Self, EventHubsError> {
        let endpoint = Endpoint::resolve(options)?;
        let mut connection = ServiceConnection::open(endpoint.clone()).await?;
        let partitions = hub_properties(&mut connection, &endpoint.options.hub)
            .await?
            .partition_ids;
        let links = partitions
            .iter()
            .map(|&partition| Some(partition))
            .chain([None])
            .map(|partition| Link {
                partition,
                state: LinkState::Detached,
                max_message_bytes: USUAL_MESSAGE_BYTES_MAX,
            })
            .collect();
        let mut publisher = Self {
            connection: Reconnecting::new(endpoint, connection),
            partitions,
            links,
            outstanding: Outstanding::default(),
            outcomes: Vec::new(),
            blocked: false,
            output_full: false,
            next_tag: 0,
            links_attached: 0,
            scratch: Vec::new(),
        };
        publisher.attach_partitions();
        let limit = publisher.connection.endpoint().options.connect_timeout;
        let attached = std::future::poll_fn(|context| publisher.poll_attached(context));
        tokio::time::timeout(limit, attached)
            .await
            .unwrap_or_else(|_elapsed| {
                let description =
                    format!("the links to the partitions were not attached within {limit:?}");
                Err(EventHubsError::of_connection("timeout", description))
            })?;
        Ok(publisher)
    }

    /// The partitions of the hub, in ascending order.
    #[must_use]
    pub fn partitions(&self) -> &[PartitionId] {
        &self.partitions
    }

    /// How many sends await their outcome.
    #[must_use]
    pub const fn waiting(&self) -> usize {
        self.outstanding.waiting()
    }

    /// The most bytes that the events of one send may encode to, each as [`encoded_len`](Self::encoded_len) says.
    ///
    /// # Panics
    /// When there is no such partition.
    #[must_use]
    pub fn max_batch_bytes(&self, destination: Destination<'_>) -> usize {
        let link = &self.links[self.link_index(destination)];
        link.max_message_bytes.saturating_sub(ENVELOPE_BYTES_MAX)
    }

    /// What an event of `message_len` bytes adds to a send without partition key.
    #[must_use]
    pub const fn encoded_len(message_len: usize) -> usize {
        message_len + encode::data_overhead(message_len)
    }

    /// Sends events, each an encoded message without annotations, as one batch. The token comes back with the outcome.
    ///
    /// # Errors
    /// When the destination can take no more at the moment. Nothing was sent then, and [`poll_ready`](Self::poll_ready)
    /// tells when to try again.
    ///
    /// # Panics
    /// When there is no such partition, or a message is longer than 4 GiB.
    #[inline]
    pub fn publish<'m>(
        &mut self,
        token: SendToken,
        destination: Destination<'_>,
        messages: impl IntoIterator<Item = &'m [u8]>,
    ) -> Result<(), SinkBusy> {
        let link = self.link_index(destination);
        let Destination::Key(partition_key) = destination else {
            return self.transmit(token, link, |writer| {
                for message in messages {
                    let (prefix, length) = encode::data_prefix_bytes(data_length(message.len()));
                    writer.put(&prefix[..length]);
                    writer.put(message);
                }
            });
        };
        let mut annotations = std::mem::take(&mut self.scratch);
        annotations.clear();
        encode::message_annotations(
            &mut annotations,
            &[(PARTITION_KEY, Value::from(partition_key))],
        );
        let sent = self.transmit(token, link, |writer| {
            writer.put(&annotations);
            for message in messages {
                let (prefix, length) =
                    encode::data_prefix_bytes(data_length(annotations.len() + message.len()));
                writer.put(&prefix[..length]);
                writer.put(&annotations);
                writer.put(message);
            }
        });
        self.scratch = annotations;
        sent
    }

    /// Sends `count` events whose bodies are `payload_len` bytes each, as one batch. `fill` writes the body of the event
    /// with the given index into the slice it is given, which holds what it wrote for the one before.
    ///
    /// # Errors
    /// As with [`publish`](Self::publish); `fill` was not called then.
    ///
    /// # Panics
    /// When there is no such partition, or a payload is longer than 4 GiB.
    #[inline]
    pub fn publish_payloads(
        &mut self,
        token: SendToken,
        destination: u32,
        count: usize,
        payload_len: usize,
        mut fill: impl FnMut(usize, &mut [u8]),
    ) -> Result<(), SinkBusy> {
        let link = self.link_index(Destination::Partition(destination));
        let mut event = std::mem::take(&mut self.scratch);
        event.clear();
        let (body_prefix, body_length) = encode::data_prefix_bytes(data_length(payload_len));
        let message_len = data_length(body_length + payload_len);
        encode::data_prefix(&mut event, message_len);
        event.extend_from_slice(&body_prefix[..body_length]);
        let payload_at = event.len();
        event.resize(payload_at + payload_len, 0);
        let sent = self.transmit(token, link, |writer| {
            for index in 0..count {
                fill(index, &mut event[payload_at..]);
                writer.put(&event);
            }
        });
        self.scratch = event;
        sent
    }

    /// Ready when a send that was refused as busy is worth another try; `Pending` registers the task to be woken.
    ///
    /// # Errors
    /// When there is no use in trying: wrong credentials, the hub is gone.
    pub fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), EventHubsError>> {
        if self.blocked {
            self.drive(context)?;
        }
        match self.blocked {
            true => Poll::Pending,
            false => Poll::Ready(Ok(())),
        }
    }

    /// Flushes, and appends the outcomes that have arrived to `outcomes`: ready if there was any. `Pending` registers the
    /// task to be woken.
    ///
    /// # Errors
    /// When there is no use in going on: wrong credentials, the hub is gone. Outcomes may have been appended.
    pub fn poll_outcomes(
        &mut self,
        context: &mut Context<'_>,
        outcomes: &mut Vec<SendOutcome>,
    ) -> Poll<Result<(), EventHubsError>> {
        let driven = self.drive(context);
        let any = !self.outcomes.is_empty();
        outcomes.append(&mut self.outcomes);
        driven?;
        match any {
            true => Poll::Ready(Ok(())),
            false => Poll::Pending,
        }
    }

    /// Closes the connection in good order, without waiting for outcomes. Dropping the publisher just ends it.
    pub async fn shut_down(self) {
        if let Some(connection) = self.connection.into_connection() {
            connection.close().await;
        }
    }

    /// Begins a transfer, lets `encode` write the batch, and remembers the token. Hot path.
    #[inline]
    fn transmit(
        &mut self,
        token: SendToken,
        link: usize,
        encode: impl FnOnce(&mut TransferWriter<'_>),
    ) -> Result<(), SinkBusy> {
        let LinkState::Attached(id) = self.links[link].state else {
            return self.transmit_unattached(token, link);
        };
        let Some(connection) = self.connection.up() else {
            return self.busy();
        };
        let engine = connection.engine();
        if engine.output_len() >= OUTPUT_BYTES_MAX {
            self.output_full = true;
            return self.busy();
        }
        if self.outstanding.span() < OUTSTANDING_MAX
            && let Some(mut sender) = engine.sender(id)
        {
            let delivery = NewDelivery {
                tag: &self.next_tag.to_be_bytes(),
                format: FORMAT_BATCH,
                settled: false,
            };
            if let Ok(mut writer) = sender.begin(&delivery) {
                encode(&mut writer);
                let delivery_id = writer.finish();
                // There are far fewer than 2^32 links.
                self.outstanding.push(delivery_id, token, link as u32);
                self.next_tag = self.next_tag.wrapping_add(1);
                return Ok(());
            }
        }
        self.busy()
    }

    fn busy(&mut self) -> Result<(), SinkBusy> {
        self.blocked = true;
        Err(SinkBusy)
    }

    #[cold]
    fn transmit_unattached(&mut self, token: SendToken, link: usize) -> Result<(), SinkBusy> {
        let state = &mut self.links[link].state;
        if let LinkState::Refused(_) = state
            && let LinkState::Refused(error) = std::mem::replace(state, LinkState::Detached)
        {
            self.outcomes.push(failed(token, &error));
            return Ok(());
        }
        self.attach(link);
        self.busy()
    }

    fn link_index(&self, destination: Destination<'_>) -> usize {
        match destination {
            Destination::Partition(index) => {
                assert!(
                    (index as usize) < self.partitions.len(),
                    "the hub has {} partitions, not {index} and more",
                    self.partitions.len()
                );
                index as usize
            }
            Destination::Key(_) | Destination::Any => self.partitions.len(),
        }
    }

    /// Attaches a link that is detached, unless there is no connection.
    fn attach(&mut self, index: usize) {
        let link = &mut self.links[index];
        if !matches!(link.state, LinkState::Detached) {
            return;
        }
        let endpoint = self.connection.endpoint();
        let hub = &endpoint.options.hub;
        let address = match link.partition {
            Some(partition) => format!("{hub}/Partitions/{partition}"),
            None => hub.clone(),
        };
        self.links_attached += 1;
        let name = format!(
            "{}-{address}-{}",
            endpoint.container_id, self.links_attached
        );
        let Some(connection) = self.connection.up() else {
            return;
        };
        let session = connection.data();
        let options = LinkOptions {
            source: Source::new(name.as_str()),
            target: Target::new(address),
            name,
            sender_settle_mode: SenderSettleMode::Unsettled,
            ..LinkOptions::default()
        };
        link.state = match connection.engine().attach_sender(session, options) {
            Some(id) => LinkState::Attaching(id),
            None => LinkState::Refused(Box::new(EventHubsError::of_connection(
                "protocol",
                "the service takes no further link",
            ))),
        };
    }

    fn attach_partitions(&mut self) {
        for index in 0..self.partitions.len() {
            self.attach(index);
        }
    }

    /// Ready once all links to partitions are attached.
    fn poll_attached(&mut self, context: &mut Context<'_>) -> Poll<Result<(), EventHubsError>> {
        let driven = self.drive(context);
        for link in &mut self.links {
            if let LinkState::Refused(error) = &link.state {
                return Poll::Ready(Err(error.as_ref().clone()));
            }
        }
        driven?;
        let to_partitions = &self.links[..self.partitions.len()];
        match to_partitions
            .iter()
            .all(|link| matches!(link.state, LinkState::Attached(_)))
        {
            true => Poll::Ready(Ok(())),
            false => Poll::Pending,
        }
    }

    /// Does all there is to do until the task would have to wait. An error is one that trying again cannot change.
    fn drive(&mut self, context: &mut Context<'_>) -> Result<(), EventHubsError> {
        loop {
            match self.poll_turn(context) {
                Poll::Pending => break,
                Poll::Ready(Ok(())) => {}
                Poll::Ready(Err(error)) => {
                    self.lose(&error);
                    if error.class == ErrorClass::Fatal {
                        return Err(error);
                    }
                }
            }
        }
        if self.output_full
            && let Some(connection) = self.connection.up()
            && connection.engine().output_len() < OUTPUT_BYTES_MAX
        {
            self.output_full = false;
            self.blocked = false;
        }
        Ok(())
    }

    fn poll_turn(&mut self, context: &mut Context<'_>) -> Poll<Result<(), EventHubsError>> {
        if self.connection.up().is_none() {
            ready!(self.connection.poll_up(context))?;
            self.blocked = false;
            self.attach_partitions();
        }
        self.take_events()?;
        match self.connection.up() {
            Some(connection) => connection.poll_drive(context),
            None => Poll::Ready(Ok(())),
        }
    }

    /// Takes what has been read. An error says that the connection is of no more use.
    fn take_events(&mut self) -> Result<(), EventHubsError> {
        while let Some(connection) = self.connection.up() {
            let Some(event) = connection.next_event()? else {
                break;
            };
            match event {
                Event::Outcome {
                    first, last, state, ..
                } => self.take_outcome(first, last, state),
                Event::Credit(_) | Event::WindowOpen(_) => self.blocked = false,
                Event::LinkAttached { link, attach } => {
                    if let Some(index) = self.index_of(link) {
                        let link_limit = attach.max_message_size.filter(|&limit| limit > 0);
                        self.links[index].max_message_bytes = link_limit
                            .map_or(USUAL_MESSAGE_BYTES_MAX, |limit| {
                                usize::try_from(limit).unwrap_or(usize::MAX)
                            });
                        self.links[index].state = LinkState::Attached(link);
                    }
                }
                Event::LinkDetached { link, error } => {
                    if let Some(index) = self.index_of(link) {
                        self.take_detach(index, &EventHubsError::of_detach(error));
                    }
                }
                Event::DrainRequested(link) => {
                    if let Some(mut sender) = connection.engine().sender(link) {
                        sender.drained();
                    }
                }
                Event::Deliveries(deliveries) => {
                    for delivery in deliveries.items() {
                        connection.take_control_delivery(&deliveries, delivery)?;
                    }
                    connection.engine().recycle(deliveries);
                }
                _ => {}
            }
        }
        Ok(())
    }

    #[inline]
    fn take_outcome(&mut self, first: u32, last: u32, state: Option<DeliveryState>) {
        let was_full = self.outstanding.span() >= OUTSTANDING_MAX;
        let outcomes = &mut self.outcomes;
        let error = match state {
            Some(DeliveryState::Accepted) => {
                self.outstanding.settle(first, last, |token| {
                    outcomes.push(SendOutcome {
                        token,
                        result: Ok(()),
                    });
                });
                None
            }
            Some(DeliveryState::Rejected(Some(error))) => Some(EventHubsError::from(error)),
            Some(DeliveryState::Rejected(None)) => Some(EventHubsError::fatal(
                "amqp:rejected",
                "the service rejected the send without a reason",
            )),
            Some(DeliveryState::Released | DeliveryState::Modified { .. }) | None => {
                Some(EventHubsError {
                    class: ErrorClass::Retryable,
                    condition: "amqp:released".to_owned(),
                    description: "the service did not take the send".to_owned(),
                })
            }
            Some(DeliveryState::Received) => None,
        };
        if let Some(error) = error {
            self.outstanding
                .settle(first, last, |token| outcomes.push(failed(token, &error)));
        }
        if was_full {
            self.blocked = false;
        }
    }

    fn take_detach(&mut self, index: usize, error: &EventHubsError) {
        tracing::warn!(link = index, %error, "a link to send through is detached");
        let link = &mut self.links[index];
        link.state = match link.state {
            LinkState::Attaching(_) => LinkState::Refused(Box::new(error.clone())),
            LinkState::Detached | LinkState::Attached(_) | LinkState::Refused(_) => {
                LinkState::Detached
            }
        };
        let outcomes = &mut self.outcomes;
        self.outstanding
            .forget_link(index as u32, |token| outcomes.push(failed(token, error)));
        self.blocked = false;
    }

    /// The connection is gone, and with it the outcomes of what was sent.
    fn lose(&mut self, error: &EventHubsError) {
        tracing::warn!(%error, "there is no connection to send through");
        self.connection.lost();
        for link in &mut self.links {
            link.state = LinkState::Detached;
        }
        let outcomes = &mut self.outcomes;
        self.outstanding
            .forget_all(|token| outcomes.push(failed(token, error)));
    }

    fn index_of(&self, link: LinkId) -> Option<usize> {
        self.links.iter().position(|known| match known.state {
            LinkState::Attaching(id) | LinkState::Attached(id) => id == link,
            LinkState::Detached | LinkState::Refused(_) => false,
        })
    }
}

fn failed(token: SendToken, error: &EventHubsError) -> SendOutcome {
    SendOutcome {
        token,
        result: Err(Box::new(SendError::from(error.clone()))),
    }
}

#[inline]
fn data_length(length: usize) -> u32 {
    u32::try_from(length).expect("a message is shorter than 4 GiB")
}

const PARTITION_KEY: Symbol = Symbol::from_static("x-opt-partition-key");

/// What the service takes where it does not say, in bytes.
const USUAL_MESSAGE_BYTES_MAX: usize = 1024 * 1024;

/// Room in a message for what the service may count beyond the events: envelope and transfer, in bytes.
const ENVELOPE_BYTES_MAX: usize = 1024;

/// Output that may wait for the socket before sends are refused, in bytes.
const OUTPUT_BYTES_MAX: usize = 256 * 1024;

/// Sends from the oldest without an outcome to the newest. More than any service grants credit for, and a bound where
/// one grants without ever answering.
const OUTSTANDING_MAX: usize = 65_536;
