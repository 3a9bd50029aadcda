//! A producer: what a service embeds to send events of its own.
//!
//! ```no_run
//! # async fn run() -> Result<(), Box<dyn std::error::Error>> {
//! use connect::event_hubs::EventHubsOptions;
//! use connect::producer::{Batching, Buffering, NewEvent, Producer, ProducerOptions, ProducerTarget};
//!
//! let string = std::env::var("EVENT_HUBS_CONNECTION_STRING")?.parse()?;
//! let target = ProducerTarget::EventHubs(EventHubsOptions::new(string, Some("orders"))?);
//! let options = ProducerOptions { buffering: Buffering::Safe(Batching::default()), ..ProducerOptions::default() };
//! let producer = Producer::connect(target, options).await?;
//! producer.send(&NewEvent { key: Some("customer-7"), ..NewEvent::new(b"{}") }).await?;
//! producer.close().await;
//! # Ok(())
//! # }
//! ```
//!
//! Any number of tasks share one. What they send at the same time leaves in one write, whatever the buffering:
//!
//! | connections | an event goes |
//! |---|---|
//! | [`Single`](Connections::Single), [`Pooled`](Connections::Pooled) | over a connection that is kept, and made again when it breaks |
//! | [`PerEvent`](Connections::PerEvent) | over a connection of its own |
//!
//! | buffering | a send is | a call returns |
//! |---|---|---|
//! | [`None`](Buffering::None) | one event | when it was acknowledged |
//! | [`Safe`](Buffering::Safe) | a batch of events that came together | when the batch was acknowledged |
//! | [`Unsafe`](Buffering::Unsafe) | the same | at once; what is lost is [counted](ProducerStatistics::lost) |
//! | the caller's own: [`Producer::send_batch`] | that batch | when it was acknowledged |
//!
//! What was not acknowledged is an error that says what is known of it: [`Fate`].
//!
//! | folder | what |
//! |---|---|
//! | `lane` | one connection and what waits for it |
//! | `outlet` | the connection, in each protocol |
//! | `isolated` | a connection for one call, and how long each of its stages takes |

mod event;
mod failure;
mod isolated;
mod lane;
mod options;
mod outlet;
mod rest;
mod statistics;

use std::future::poll_fn;
use std::hash::{BuildHasher as _, BuildHasherDefault, DefaultHasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::future::try_join_all;

use crate::service::ServiceError;
use isolated::Isolated;
use lane::{Lane, Place, Run};
use outlet::Outlet;
use statistics::Counters;

pub use event::{NewEvent, PropertyValue};
pub use failure::{CLOSED, Fate, INVALID, NO_PORTS, SendFailure, TOO_LARGE};
pub use isolated::{IsolatedFailure, Stage, Stages};
pub use options::{BatchDelay, Batching, Buffering, Connections, ProducerOptions, ProducerTarget};
pub use statistics::{Loss, ProducerStatistics};

/// Sends events. See the [module](self).
#[derive(Debug)]
pub struct Producer {
    options: ProducerOptions,
    lanes: Vec<Lane>,
    isolated: Isolated,
    counters: Arc<Counters>,
    next: AtomicUsize,
}

/// Events that a caller sends together, for one place. Made by [`Producer::batch`].
#[derive(Debug)]
pub struct NewBatch<'p> {
    producer: &'p Producer,
    lane: usize,
    run: Run,
    partition: Option<u32>,
    key: Option<Box<str>>,
}

impl Producer {
    /// Connects as many connections as are kept; none where each event has its own. Made within a tokio runtime with time
    /// and I/O.
    ///
    /// # Errors
    /// When the service can't be reached, refuses the key, or has no such entity.
    pub async fn connect(target: ProducerTarget, options: ProducerOptions) -> Result<Self, ServiceError> {
        let counters = Arc::new(Counters::default());
        let connecting = (0..options.connections.kept()).map(|_| Outlet::connect(&target));
        let outlets = try_join_all(connecting).await?;
        let start = |outlet| Lane::start(outlet, options.clone(), Arc::clone(&counters));
        Ok(Self {
            lanes: outlets.into_iter().map(start).collect(),
            isolated: Isolated::new(target, &options)?,
            options,
            counters,
            next: AtomicUsize::new(0),
        })
    }

    /// Sends an event. When the call returns, and what may become of the event after an error, is as the
    /// [`Buffering`] says. A call that is dropped does not take back what was handed over.
    ///
    /// # Errors
    /// When the event can't be sent as it is, or was not acknowledged.
    pub async fn send(&self, event: &NewEvent<'_>) -> Result<(), SendFailure> {
        let Some(lane) = self.lane_of(event.partition, event.key) else {
            // What a connection needs would else be part of each call, and be moved with it.
            let sending = Box::pin(self.send_isolated(event));
            return sending.await.map(drop).map_err(|failed| failed.failure);
        };
        let lane = &self.lanes[lane];
        if self.options.buffering.batching().is_some() {
            return lane.send(event).await;
        }
        // What leaves by itself is not kept: who sends it has it, and sends it again.
        let (mut failures, mut is_unknown) = (0, false);
        loop {
            let Err(failure) = lane.send(event).await else { return Ok(()) };
            failures += 1;
            is_unknown |= failure.fate == Fate::Unknown;
            let operation = self.next.fetch_add(1, Ordering::Relaxed) as u64;
            let delay = self.options.retry.delay_after(failures, operation);
            let Some(delay) = delay.filter(|_| failure.is_retryable()) else {
                return Err(if is_unknown { failure.after_unknown() } else { failure });
            };
            self.counters.retry();
            tokio::time::sleep(failure.least_wait().max(delay)).await;
        }
    }

    /// Hands an event over without waiting, with [unsafe buffering](Buffering::Unsafe): none if there is no [room](Self::room).
    ///
    /// # Errors
    /// When the event can't be sent as it is, nothing can be sent any more, or the buffering is another one.
    #[must_use = "an event for which there is no room was not taken"]
    pub fn try_send(&self, event: &NewEvent<'_>) -> Option<Result<(), SendFailure>> {
        let lane = self.lane_of(event.partition, event.key).filter(|_| self.options.buffering.is_unsafe());
        let Some(lane) = lane else {
            return Some(Err(SendFailure::invalid("only with unsafe buffering there is nobody who waits")));
        };
        match self.lanes[lane].try_send(event) {
            Ok(true) => Some(Ok(())),
            Ok(false) => None,
            Err(failure) => Some(Err(failure)),
        }
    }

    /// Waits until there is room on every connection, or nothing can be sent any more.
    pub async fn room(&self) {
        for lane in &self.lanes {
            poll_fn(|context| lane.poll_room(context)).await;
        }
    }

    /// Whether nothing can be sent any more over one of the connections: the key is refused, or the entity is gone.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.lanes.iter().any(Lane::has_ended)
    }

    /// Sends an event over a connection that is opened for it and closed after it, whatever the options say, and tells how long
    /// each stage of that took. It is tried once.
    ///
    /// # Errors
    /// When the event can't be sent as it is, or was not acknowledged.
    pub async fn send_isolated(&self, event: &NewEvent<'_>) -> Result<Stages, IsolatedFailure> {
        self.counters.open_isolated();
        let sent = self.isolated.send(event).await;
        if sent.is_ok() {
            self.counters.acknowledge(1, 1, event.body.len() as u64);
        }
        sent
    }

    /// An empty batch for the entity, for a partition, or for a key that all of its events have.
    ///
    /// # Errors
    /// When there is no such partition, or a batch can't have a partition and a key.
    pub fn batch(&self, partition: Option<u32>, key: Option<&str>) -> Result<NewBatch<'_>, SendFailure> {
        let Some(index) = self.lane_of(partition, key) else {
            return Err(SendFailure::invalid("batches need a connection that is kept"));
        };
        let lane = &self.lanes[index];
        let chosen = lane.partition_of(partition, key)?;
        let place = match (chosen, key) {
            (Some(partition), _) => Place::Partition(partition),
            (None, Some(key)) => Place::Key(key.into()),
            (None, None) => Place::Entity,
        };
        let run = lane.new_batch(place);
        Ok(NewBatch { producer: self, lane: index, run, partition, key: key.map(Into::into) })
    }

    /// Sends a batch, and waits for its acknowledgement, whatever the buffering. It is acknowledged as a whole, or not at all. Does
    /// nothing with an empty one.
    ///
    /// # Errors
    /// When it was not acknowledged.
    pub async fn send_batch(&self, batch: NewBatch<'_>) -> Result<(), SendFailure> {
        match batch.is_empty() {
            true => Ok(()),
            false => self.lanes[batch.lane].send_batch(batch.run).await,
        }
    }

    /// Waits until nothing waits and nothing is under way, and lets batches leave at once until then.
    pub async fn flush(&self) {
        for lane in &self.lanes {
            poll_fn(|context| lane.poll_flushed(context)).await;
        }
    }

    /// Events that have no answer yet.
    #[must_use]
    pub fn pending(&self) -> u64 {
        self.lanes.iter().map(Lane::pending).sum()
    }

    /// What was done so far.
    #[must_use]
    pub fn statistics(&self) -> ProducerStatistics {
        self.counters.read()
    }

    /// Sends what waits, within the [time-out](ProducerOptions::timeout), and closes the connections. What is pending then is given
    /// up, and counted as lost where nobody waits for it. A producer that is dropped does the same without anybody who could see
    /// the count.
    pub async fn close(self) -> ProducerStatistics {
        let patience = self.options.timeout;
        self.close_within(patience).await
    }

    /// The same within `patience`.
    pub async fn close_within(mut self, patience: Duration) -> ProducerStatistics {
        self.lanes.iter().for_each(Lane::close);
        let give_up = tokio::time::Instant::now() + patience;
        for lane in &mut self.lanes {
            lane.ended(give_up.saturating_duration_since(tokio::time::Instant::now())).await;
        }
        self.counters.read()
    }

    /// The connection of an event: always the same of equal keys and partitions, so that they stay in order.
    fn lane_of(&self, partition: Option<u32>, key: Option<&str>) -> Option<usize> {
        let lanes = match self.lanes.len() {
            0 => return None,
            1 => return Some(0),
            lanes => lanes,
        };
        let number = match (partition, key) {
            (Some(partition), _) => partition as usize,
            (None, Some(key)) => BuildHasherDefault::<DefaultHasher>::default().hash_one(key) as usize,
            (None, None) => self.next.fetch_add(1, Ordering::Relaxed),
        };
        Some(number % lanes)
    }
}

impl NewBatch<'_> {
    /// Adds an event, and says whether there was room for it. Its key and partition are those of the batch; on Kafka, where the
    /// batch is for a partition or for none, it has its own key.
    ///
    /// # Errors
    /// When it can't be sent as it is, or has another key or partition. It was not added then.
    pub fn push(&mut self, event: &NewEvent<'_>) -> Result<bool, SendFailure> {
        let lane = &self.producer.lanes[self.lane];
        let key = event.key.or(self.key.as_deref());
        let is_of_batch = lane.chooses_partitions() && self.key.is_none() || key == self.key.as_deref();
        if !is_of_batch || event.partition.is_some_and(|partition| Some(partition) != self.partition) {
            return Err(SendFailure::invalid("the event has another key or partition than the batch"));
        }
        lane.push_into(&mut self.run, &NewEvent { key, partition: None, ..*event })
    }

    /// How many events it has.
    #[must_use]
    pub fn len(&self) -> usize {
        self.run.remaining()
    }

    /// Whether it has none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.run.remaining() == 0
    }

    /// How many bytes its events are.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.run.bytes().len()
    }
}
