//! One connection with the events that wait for it.
//!
//! ```text
//!   call ─┐  lock: encode, take a slot           ┌─ taken in runs ─▶ driver ─▶ outlet ─▶ service
//!   call ─┼────────────▶ inbox ──────────────────┘                     │
//!   call ─┘   ◀───────── slot: acknowledged, or why not ◀── outcomes ──┘
//! ```
//!
//! Callers only ever touch the inbox, and the driver's task alone the connection. Nothing is allocated per event, and the driver
//! is woken once for all events that come while it is at work.

mod driver;
mod inbox;
mod run;
mod slots;

use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio::time::Instant;
use units::partition_key::Partitioner;

use super::event::{NewEvent, Wire};
use super::failure::SendFailure;
use super::options::ProducerOptions;
use super::outlet::Outlet;
use super::statistics::Counters;
use driver::Driver;
use inbox::{Inbox, Rules, Taken};
use slots::SlotId;

pub(crate) use run::{Place, Run, Unit};

/// See the module.
#[derive(Debug)]
pub(super) struct Lane {
    shared: Arc<Shared>,
    task: JoinHandle<()>,
}

/// What callers and driver have in common.
#[derive(Debug)]
pub(super) struct Shared {
    inbox: Mutex<Inbox>,
    options: ProducerOptions,
    counters: Arc<Counters>,
    wire: Wire,
    /// The most bytes of one send.
    max_bytes: usize,
    /// Partitions, where the client chooses them.
    partitions: Option<u32>,
}

impl Shared {
    fn inbox(&self) -> MutexGuard<'_, Inbox> {
        // Whoever panics with the lock held has broken an invariant of ours; what it says is still what was sent.
        self.inbox.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Lane {
    /// Sends through an outlet that is connected. Made within a tokio runtime.
    pub(super) fn start(outlet: Outlet, options: ProducerOptions, counters: Arc<Counters>) -> Self {
        let wire = match options.buffering.batching() {
            Some(_) => outlet.wire().in_batches(),
            None => outlet.wire(),
        };
        let shared = Arc::new(Shared {
            inbox: Mutex::new(Inbox::new()),
            options,
            counters,
            wire,
            max_bytes: outlet.max_bytes(),
            partitions: outlet.partitions(),
        });
        let task = tokio::spawn(Driver::new(Arc::clone(&shared), outlet).run());
        Self { shared, task }
    }

    /// Hands an event over, and waits for what becomes of it; not for the latter where nobody is to.
    pub(super) fn send<'a>(&'a self, event: &'a NewEvent<'a>) -> Sending<'a> {
        Sending { lane: self, what: What::Event(event), slot: None }
    }

    /// Hands an event over that nobody waits for, unless there is no room.
    pub(super) fn try_send(&self, event: &NewEvent<'_>) -> Result<bool, SendFailure> {
        let partition = self.partition_of(event.partition, event.key)?;
        let (taken, driver) = self.shared.inbox().push(None, &self.rules(), event, partition)?;
        driver.into_iter().for_each(Waker::wake);
        Ok(matches!(taken, Taken::Pushed(_)))
    }

    /// Waits until there is room.
    pub(super) fn poll_room(&self, context: &mut Context<'_>) -> Poll<()> {
        match self.shared.inbox().poll_room(context.waker(), self.shared.options.max_waiting_bytes) {
            true => Poll::Ready(()),
            false => Poll::Pending,
        }
    }

    /// Whether nothing can be sent any more.
    pub(super) fn has_ended(&self) -> bool {
        self.shared.inbox().has_ended()
    }

    /// The same with a batch.
    pub(super) fn send_batch(&self, batch: Run) -> Sending<'_> {
        Sending { lane: self, what: What::Batch(Some(batch)), slot: None }
    }

    /// Memory for a batch, for a place.
    pub(super) fn new_batch(&self, place: Place) -> Run {
        let now = Instant::now();
        let mut run = self.shared.inbox().spare().unwrap_or_else(|| Run::new(Unit::Batch, now));
        run.renew(place, Unit::Batch, now);
        run
    }

    /// Appends an event to a batch of this lane, unless there is no room for it.
    ///
    /// # Errors
    /// When it can't be sent as it is, not even alone.
    pub(super) fn push_into(&self, run: &mut Run, event: &NewEvent<'_>) -> Result<bool, SendFailure> {
        let before = run.bytes.len();
        if before > 0 && run.batch_length(event.body.len()) > self.shared.max_bytes {
            return Ok(false);
        }
        self.shared.wire.in_batches().encode(event, &mut run.bytes)?;
        let length = run.bytes.len() - before;
        if run.batch_length(0) <= self.shared.max_bytes {
            run.ends.push(run.bytes.len() as u32);
            return Ok(true);
        }
        run.bytes.truncate(before);
        match before {
            0 => Err(SendFailure::too_large(length, self.shared.max_bytes)),
            _ => Ok(false),
        }
    }

    /// The partition of an event with this partition or key, where it or the client chooses one.
    ///
    /// # Errors
    /// When there is no such partition.
    pub(super) fn partition_of(
        &self,
        partition: Option<u32>,
        key: Option<&str>,
    ) -> Result<Option<u32>, SendFailure> {
        let Some(partitions) = self.shared.partitions else { return Ok(partition) };
        if let Some(partition) = partition.filter(|partition| *partition >= partitions) {
            let what = format!("there is no partition {partition}: the topic has {partitions}");
            return Err(SendFailure::invalid(what));
        }
        let of_key = key.map(|key| Partitioner::Kafka.partition_of(key.as_bytes(), partitions));
        Ok(partition.or(of_key))
    }

    /// Whether the client chooses the partitions of keys.
    pub(super) fn chooses_partitions(&self) -> bool {
        self.shared.partitions.is_some()
    }

    /// Waits until nothing is pending.
    pub(super) fn poll_flushed(&self, context: &mut Context<'_>) -> Poll<()> {
        let (is_flushed, driver) = self.shared.inbox().poll_flushed(context.waker());
        driver.into_iter().for_each(Waker::wake);
        match is_flushed {
            true => Poll::Ready(()),
            false => Poll::Pending,
        }
    }

    /// How many events have no answer yet.
    pub(super) fn pending(&self) -> u64 {
        self.shared.inbox().pending()
    }

    /// Takes nothing more, and ends when all that it has is answered.
    pub(super) fn close(&self) {
        let driver = self.shared.inbox().close();
        driver.into_iter().for_each(Waker::wake);
    }

    /// Waits for the end of a lane that was closed, for so long; then what is pending is given up.
    pub(super) async fn ended(&mut self, patience: Duration) {
        if tokio::time::timeout(patience, &mut self.task).await.is_err() {
            let driver = self.shared.inbox().abandon();
            driver.into_iter().for_each(Waker::wake);
            // It only says goodbye any more, for which it has a limit of its own; an error is that of a runtime that ends.
            let _ = (&mut self.task).await;
        }
    }

    fn rules(&self) -> Rules<'_> {
        let Shared { options, wire, max_bytes, .. } = &*self.shared;
        Rules { options, wire: *wire, max_bytes: *max_bytes }
    }
}

impl Drop for Lane {
    fn drop(&mut self) {
        self.close();
    }
}

/// An event or batch on its way. Dropping it does not take back what was handed over.
#[derive(Debug)]
pub(super) struct Sending<'a> {
    lane: &'a Lane,
    what: What<'a>,
    slot: Option<SlotId>,
}

#[derive(Debug)]
enum What<'a> {
    Event(&'a NewEvent<'a>),
    Batch(Option<Run>),
}

impl Future for Sending<'_> {
    type Output = Result<(), SendFailure>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let Self { lane, what, slot } = self.get_mut();
        let waker = context.waker();
        if let Some(id) = *slot {
            return match lane.shared.inbox().slots.poll(id, waker) {
                Some(result) => {
                    *slot = None;
                    Poll::Ready(result.map_err(|failure| *failure))
                }
                None => Poll::Pending,
            };
        }
        let pushed = match what {
            What::Event(event) => {
                let partition = lane.partition_of(event.partition, event.key)?;
                lane.shared.inbox().push(Some(waker), &lane.rules(), event, partition)
            }
            What::Batch(batch) => {
                let max_waiting_bytes = lane.shared.options.max_waiting_bytes;
                lane.shared.inbox().push_batch(waker, max_waiting_bytes, batch)
            }
        };
        let (taken, driver) = pushed?;
        driver.into_iter().for_each(Waker::wake);
        match taken {
            Taken::Pushed(Some(id)) => {
                *slot = Some(id);
                Poll::Pending
            }
            Taken::Pushed(None) => Poll::Ready(Ok(())),
            Taken::Full => Poll::Pending,
        }
    }
}

impl Drop for Sending<'_> {
    fn drop(&mut self) {
        if let Some(slot) = self.slot {
            self.lane.shared.inbox().slots.abandon(slot);
        }
    }
}
