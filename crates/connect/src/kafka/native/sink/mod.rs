//! Sends to the partitions of a topic.
//!
//! A send is written into the batch of its partition at once. The batches of all partitions that one broker leads leave together,
//! in one request, as soon as the socket is free and no more requests than allowed await their answer: what is sent in the
//! meantime makes the next request larger, so that nothing needs to wait for the sake of size (`linger.ms` can make it).
//!
//! ```text
//!   send ──▶ batch of the partition ─┐
//!   send ──▶ batch of the partition ─┼─▶ request to the leader ──▶ answer ──▶ outcome of each send
//!                 ▲                  │                              │
//!                 └──────────────────┴── again, in order ◀──────────┘ with idempotence
//! ```
//!
//! With idempotence batches are numbered, and one that got no answer goes again, before all that follow it: the broker knows
//! those that it has. It is given up after a while, with an outcome that says so. Without, what became of it is not known, and
//! the outcome says that at once.

mod answers;
mod gated;

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use convert::{HeaderForm, Message};
use kafka::producer_batch::{ProducerBatch, RECORD_HEAD_MAX};
use kafka::record_batch::RecordBatch;
use tokio::time::Instant;

use crate::alarm::Alarm;
use crate::event::Encoding;
use crate::kafka::native::cluster::Cluster;
use crate::kafka::native::connection::Done;
use crate::kafka::native::endpoint::Endpoint;
use crate::kafka::native::produce_request;
use crate::kafka::native::producer::{self, Producer};
use crate::kafka::native::sent::{Destination, Sent};
use crate::kafka::native::transaction::Gate;
use crate::service::ServiceError;
use crate::sink::{self, ErrorClass, OutgoingBatch, SendOutcome, SendToken, Sink, SinkBusy, SinkError};

/// A [`Sink`] whose destinations are the partitions of a topic, in the order of their numbers.
pub(crate) struct KafkaSink {
    cluster: Cluster<Vec<Sent>>,
    endpoint: Arc<Endpoint>,
    destinations: Vec<Destination>,
    /// Destinations that have something to send.
    queue: VecDeque<usize>,
    /// Bytes in batches that are being filled.
    filled_bytes: usize,
    /// Batches that have to go again.
    going_again: usize,
    producer: Producer,
    /// None without transactions.
    gate: Option<Box<Gate>>,
    /// How long a batch may go again and again.
    patience: Duration,
    /// By broker: until when it wants to be left alone.
    quiet_until: Vec<Option<Instant>>,
    throttled: Option<ServiceError>,
    /// How often a broker asked for that.
    slowed_down: u64,
    outcomes: Vec<SendOutcome>,
    /// Whether a send was refused, and nothing has happened since then that could change it.
    is_blocked: bool,
    /// Memory of batches that are done.
    spare_bytes: Vec<Vec<u8>>,
    spare_tokens: Vec<Vec<SendToken>>,
    alarm: Alarm,
}

impl KafkaSink {
    /// Connects, asks for the partitions, and for an id if records are to be numbered.
    ///
    /// # Errors
    /// When no broker can be reached, the login is refused, or there is no such topic.
    pub(crate) async fn connect(endpoint: Arc<Endpoint>) -> Result<Self, ServiceError> {
        let cluster = Cluster::find(Arc::clone(&endpoint)).await?;
        let settings = &endpoint.settings.produce;
        let producer = match settings.is_idempotent() {
            true => match producer::first_producer(&endpoint).await {
                Ok(producer) => Producer::Known(producer),
                // Nobody has asked for it by name, and old services don't have it.
                Err(error) if settings.idempotence.is_none() && error.class == ErrorClass::Fatal => {
                    tracing::warn!(%error, "records are sent without numbers: retries may make duplicates");
                    Producer::None
                }
                Err(error) => return Err(error),
            },
            false => Producer::None,
        };
        Ok(Self::of(endpoint, cluster, producer))
    }

    fn of(endpoint: Arc<Endpoint>, cluster: Cluster<Vec<Sent>>, producer: Producer) -> Self {
        Self {
            destinations: (0..cluster.partitions()).map(|_| Destination::default()).collect(),
            cluster,
            patience: 2 * endpoint.settings.request_timeout,
            endpoint,
            queue: VecDeque::new(),
            filled_bytes: 0,
            going_again: 0,
            producer,
            gate: None,
            quiet_until: Vec::new(),
            throttled: None,
            slowed_down: 0,
            outcomes: Vec::new(),
            is_blocked: false,
            spare_bytes: Vec::new(),
            spare_tokens: Vec::new(),
            alarm: Alarm::new(),
        }
    }

    /// Does all there is to do until the task would have to wait. An error is one that trying again can't change.
    fn drive(&mut self, context: &mut Context<'_>) -> Result<(), ServiceError> {
        loop {
            while let Poll::Ready(refreshed) = self.cluster.poll_refresh(context) {
                refreshed?;
                for destination in &mut self.destinations {
                    destination.seeks_leader = false;
                }
            }
            if let Producer::Asking(asking) = &mut self.producer
                && let Poll::Ready(producer) = asking.as_mut().poll(context)
            {
                self.producer = Producer::Known(producer?);
            }
            self.give_up_overdue();
            self.quiet_until.resize(self.cluster.brokers(), None);
            for broker in 0..self.quiet_until.len() {
                self.poll_broker(context, broker)?;
            }
            // An answer may have said that somebody else leads.
            if !self.cluster.has_unwatched_refresh() && self.poll_timer(context).is_pending() {
                return Ok(());
            }
        }
    }

    /// Ready when something that waits may be due.
    fn poll_timer(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let late = self.cluster.watch_silence();
        let deadline = self.next_deadline().into_iter().chain(late).min();
        self.alarm.poll(context, deadline)
    }

    fn next_deadline(&self) -> Option<Instant> {
        let linger = self.endpoint.settings.produce.linger;
        let lingering = (!linger.is_zero()).then(|| {
            let queued = self.queue.iter().map(|place| &self.destinations[*place]);
            queued.filter_map(|destination| destination.since).min().map(|since| since + linger)
        });
        let going_again = (self.going_again > 0).then(|| {
            let first = self.destinations.iter().filter_map(|destination| destination.again.front());
            first.map(|sent| sent.deadline).min()
        });
        let now = Instant::now();
        let quiet = self.quiet_until.iter().copied().flatten().min();
        [lingering.flatten(), going_again.flatten(), quiet].into_iter().flatten().filter(|it| *it > now).min()
    }

    /// Sends what a broker is to get, and takes what it answers. An error is one that trying again can't change.
    fn poll_broker(&mut self, context: &mut Context<'_>, broker: usize) -> Result<(), ServiceError> {
        loop {
            if self.cluster.up(broker).is_none() {
                if !self.is_leader(broker) {
                    return Ok(());
                }
                match self.cluster.poll_up(context, broker) {
                    Poll::Pending => return Ok(()),
                    Poll::Ready(Ok(())) => self.is_blocked = false,
                    Poll::Ready(Err(error)) if error.class == ErrorClass::Fatal => return Err(error),
                    Poll::Ready(Err(_)) => continue,
                }
            }
            self.flush(broker)?;
            let Some(connection) = self.cluster.up(broker) else {
                continue;
            };
            let taken = match connection.poll_done(context) {
                Poll::Pending => return Ok(()),
                Poll::Ready(Ok(Done::Answered(sent, answer))) => self.take_answer(broker, sent, &answer),
                Poll::Ready(Ok(Done::Written(sent))) => {
                    sent.into_iter().for_each(|sent| self.accepted(sent));
                    Ok(())
                }
                Poll::Ready(Err(error)) => Err(error),
            };
            match taken {
                Ok(()) => {}
                Err(error) if error.class == ErrorClass::Fatal => return Err(error),
                Err(error) => self.lose(broker, &error),
            }
        }
    }

    fn is_leader(&self, broker: usize) -> bool {
        (0..self.destinations.len()).any(|place| self.cluster.leader(place).broker == Some(broker))
    }

    /// Sends requests to a broker as long as there is something for it, and it may get more.
    fn flush(&mut self, broker: usize) -> Result<(), ServiceError> {
        if let Some(until) = self.quiet_until[broker] {
            if Instant::now() < until {
                return Ok(());
            }
            (self.quiet_until[broker], self.throttled) = (None, None);
            self.is_blocked = false;
        }
        while !self.queue.is_empty() {
            let max_in_flight = self.endpoint.settings.produce.max_in_flight();
            let Some(connection) = self.cluster.up(broker) else {
                return Ok(());
            };
            if connection.under_way() >= max_in_flight || connection.output_length() > OUTPUT_MAX {
                return Ok(());
            }
            let batches = self.gather(broker)?;
            if batches.is_empty() {
                return Ok(());
            }
            self.submit(broker, batches)?;
        }
        Ok(())
    }

    /// The batches of the next request to a broker: one of each partition at the most.
    fn gather(&mut self, broker: usize) -> Result<Vec<Sent>, ServiceError> {
        let now = Instant::now();
        let mut batches = Vec::new();
        let mut length = 0;
        for _ in 0..self.queue.len() {
            let Some(place) = self.queue.pop_front() else {
                break;
            };
            let sent = match self.cluster.leader(place).broker == Some(broker) && length < REQUEST_MAX {
                true => self.take_batch(place, now)?,
                false => None,
            };
            if let Some(sent) = sent {
                length += sent.bytes.len();
                self.destinations[place].under_way += 1;
                batches.push(sent);
            }
            let destination = &mut self.destinations[place];
            destination.is_queued = !(destination.again.is_empty() && destination.filling.is_empty());
            if destination.is_queued {
                self.queue.push_back(place);
            }
        }
        Ok(batches)
    }

    /// The next batch of a partition, if one may go now.
    fn take_batch(&mut self, place: usize, now: Instant) -> Result<Option<Sent>, ServiceError> {
        let settings = &self.endpoint.settings.produce;
        let destination = &mut self.destinations[place];
        if destination.seeks_leader {
            return Ok(None);
        }
        let producer = match &self.producer {
            Producer::None => None,
            Producer::Known(producer) => Some(*producer),
            Producer::Asking(_) => return Ok(None),
        };
        if destination.has_gap() || !destination.again.is_empty() {
            // What goes again goes one by one, so that nothing overtakes it.
            if destination.under_way > 0 {
                return Ok(None);
            }
            if let Some(producer) = producer {
                destination.renumber(producer);
            }
            if let Some(sent) = destination.again.pop_front() {
                self.going_again -= 1;
                return Ok(Some(sent));
            }
        }
        let filling = &mut destination.filling;
        if filling.is_empty() {
            return Ok(None);
        }
        let is_due = settings.linger.is_zero()
            || filling.length() >= settings.batch_bytes
            || filling.record_count() as usize >= settings.batch_records
            || destination.since.is_none_or(|since| now >= since + settings.linger);
        if !is_due || self.gate.as_mut().is_some_and(|gate| !gate.lets_through(place)) {
            return Ok(None);
        }
        self.filled_bytes -= filling.length();
        self.is_blocked = false;
        let records = filling.record_count();
        let numbers = producer.map(|producer| destination.number(producer, records));
        let filling = &mut destination.filling;
        let bytes = filling.complete(settings.compression, numbers, self.gate.is_some());
        let bytes = bytes.map_err(|error| ServiceError::fatal("compression", error.to_string()))?;
        *filling = ProducerBatch::in_memory(self.spare_bytes.pop().unwrap_or_default());
        destination.since = None;
        let tokens = std::mem::replace(&mut destination.tokens, self.spare_tokens.pop().unwrap_or_default());
        let deadline = now + self.patience;
        Ok(Some(Sent { partition: place, bytes: bytes.into(), tokens, records, numbers, deadline }))
    }

    fn submit(&mut self, broker: usize, batches: Vec<Sent>) -> Result<(), ServiceError> {
        let transactional_id = self.gate.as_ref().map(|gate| &*gate.transactional_id);
        match self.cluster.up(broker) {
            Some(connection) => {
                produce_request::submit(connection, &self.endpoint, transactional_id, batches)
            }
            None => Ok(()),
        }
    }

    fn ask_producer(&mut self) {
        // The producer of transactions is another one only between them.
        if self.gate.is_none() && matches!(self.producer, Producer::Known(_)) {
            self.producer = Producer::asking(Arc::clone(&self.endpoint));
        }
    }

    fn enqueue(&mut self, place: usize) {
        if !std::mem::replace(&mut self.destinations[place].is_queued, true) {
            self.queue.push_back(place);
        }
    }
}

impl Sink for KafkaSink {
    fn destinations(&self) -> u32 {
        // Partitions are counted in 31 bits.
        self.destinations.len() as u32
    }

    fn takes(&self, encoding: Encoding) -> bool {
        matches!(encoding, Encoding::Kafka | Encoding::Amqp)
    }

    fn max_batch_bytes(&self, _destination: u32) -> usize {
        self.endpoint.settings.produce.max_message_bytes - RecordBatch::HEADER_LENGTH
    }

    fn encoded_len(&self, message_len: usize) -> usize {
        message_len + RECORD_HEAD_MAX + CONVERTED_MAX
    }

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), SinkError>> {
        if self.is_blocked {
            self.drive(context)?;
        }
        match self.is_blocked {
            true => Poll::Pending,
            false => Poll::Ready(Ok(())),
        }
    }

    fn send(&mut self, token: SendToken, outgoing: OutgoingBatch<'_>) -> Result<(), SinkBusy> {
        let place = outgoing.destination() as usize;
        let leader = self.cluster.leader(place).broker;
        let settings = &self.endpoint.settings.produce;
        let destination = &mut self.destinations[place];
        let before = destination.filling.length();
        let gathered_max = destination.gathered_max.unwrap_or(settings.max_message_bytes);
        let length: usize =
            outgoing.messages().map(|message| message.as_ref().len() + RECORD_HEAD_MAX + CONVERTED_MAX).sum();
        let gathers = before + length <= gathered_max.min(settings.batch_bytes.max(BATCH_MIN))
            && (destination.filling.record_count() as usize) < settings.batch_records;
        let is_full = (before > 0 && !gathers) || self.filled_bytes >= FILLED_MAX;
        if is_full || leader.is_none_or(|leader| self.cluster.up(leader).is_none()) {
            self.is_blocked = true;
            return Err(SinkBusy);
        }
        destination.filling.reserve(length);
        for (batch, event) in outgoing.events() {
            let (time, message) = (event.enqueued_time.unix_ms(), batch.message(event));
            match batch.encoding() {
                Encoding::Kafka | Encoding::Opaque => destination.filling.push_tail(time, message),
                Encoding::Amqp => {
                    let key = batch.partition_key(event);
                    let message = Message { key, header_form: HeaderForm::Bytes, ..Message::of(message) };
                    match message.plain_value() {
                        Some(value) => {
                            destination.filling.push(time, key, Some(value), std::iter::empty());
                        }
                        None => {
                            let parts = message.record_parts();
                            destination.filling.push(
                                time,
                                parts.key,
                                parts.value.as_deref(),
                                parts.headers(),
                            );
                        }
                    }
                }
            }
        }
        destination.tokens.push(token);
        self.filled_bytes += destination.filling.length() - before;
        if !settings.linger.is_zero() {
            destination.since.get_or_insert_with(Instant::now);
        }
        self.enqueue(place);
        Ok(())
    }

    fn poll_outcomes(
        &mut self,
        context: &mut Context<'_>,
        outcomes: &mut Vec<SendOutcome>,
    ) -> Poll<Result<(), SinkError>> {
        let driven = self.drive(context);
        let any = sink::hand_over(&mut self.outcomes, outcomes);
        driven?;
        any.map(Ok)
    }

    fn outage(&self) -> Option<&ServiceError> {
        self.cluster.outage().or(self.throttled.as_ref())
    }

    fn slowed_down(&self) -> u64 {
        self.slowed_down
    }
}

impl fmt::Debug for KafkaSink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KafkaSink")
            .field("cluster", &self.cluster)
            .field("queued", &self.queue.len())
            .field("filled_bytes", &self.filled_bytes)
            .field("going_again", &self.going_again)
            .finish_non_exhaustive()
    }
}

/// What a message of AMQP may grow by as a record; names of properties that become headers are longer than their places.
const CONVERTED_MAX: usize = 40;

/// Bytes that may wait for the socket before requests are made larger instead.
const OUTPUT_MAX: usize = 256 * 1024;

/// A request that is so long gets no further batch.
const REQUEST_MAX: usize = 4 << 20;

/// Bytes in batches that are being filled, before sends are refused.
const FILLED_MAX: usize = 16 << 20;

/// Sends are gathered up to this, however small `batch.size` is.
const BATCH_MIN: usize = 1024;
