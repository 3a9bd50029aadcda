//! From a queue or subscription to another entity of its namespace, exactly once: each message is sent and completed in one transaction.
//!
//! Source and sink are two halves of one connection, whose user is told of an outcome when the transaction has ended. A message that
//! was committed is settled with that; what its user then says of it changes nothing.
//!
//! Where a transaction comes to nothing, so does all that was done in it:
//!
//! | what has happened | what becomes of its messages |
//! |---|---|
//! | a message is refused | that one has the service's error as its outcome, the others can be sent again at once |
//! | a lock had ended, the service took too long or rolled it back | they are abandoned by their locks, and come again |
//! | the connection broke | the same, on the next one |
//!
//! Nobody knows whether a transaction was committed whose connection broke while it ended. Its messages are not sent again: if it was, their
//! locks are over, so that abandoning them does nothing; if it was not, they come again.

mod forward;
mod transactions;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use super::options::ReceiveOptions;
use super::source::ServiceBusSource;
use crate::event::{Encoding, EventBatch, PartitionId};
use crate::service::{ClientOptions, ServiceError};
use crate::sink::{ErrorClass, OutgoingBatch, SendOutcome, SendToken, SendUnit, Sink, SinkBusy, SinkError};
use crate::source::{Settlement, SettlingSource, ShutDown, Source, SourceError, SourceEvent, StartPosition};

pub(super) use forward::Forward;
pub(super) use transactions::{End, Ended};

/// What is received, and completed where it was sent. See [`connect_transactional`].
#[derive(Debug)]
pub struct TransactionalSource {
    shared: Shared,
    /// A copy, to be lent out.
    outage: Option<ServiceError>,
}

/// Where it goes. See [`connect_transactional`].
#[derive(Debug)]
pub struct TransactionalSink {
    shared: Shared,
    /// A copy, to be lent out.
    outage: Option<ServiceError>,
}

/// Why there are no transactions from one entity to another.
#[derive(Debug, thiserror::Error)]
pub enum TransactionalError {
    /// What is received from, or the service, can't be used.
    #[error(transparent)]
    Source(ServiceError),
    /// What is sent to can't be used.
    #[error(transparent)]
    Sink(ServiceError),
}

/// The connection of both. Both belong to one task, so that nobody ever waits for it.
#[derive(Clone, Debug)]
struct Shared(Arc<Mutex<ServiceBusSource>>);

/// Connects to receive from the entity of `source` and to send to that of `sink`, in transactions. The connection is that which the options
/// of the source are for; of those of the sink, its entity and its key count. Both halves are for one task. Made within a tokio runtime with
/// time and I/O.
///
/// # Errors
/// When the service can't be reached, refuses a token or a link, or has no transactions.
pub async fn connect_transactional(
    source: ClientOptions,
    receive: ReceiveOptions,
    sink: &ClientOptions,
) -> Result<(TransactionalSource, TransactionalSink), TransactionalError> {
    let source = ServiceBusSource::connect_to_forward(source, receive, sink).await?;
    let shared = Shared(Arc::new(Mutex::new(source)));
    let source = TransactionalSource { shared: shared.clone(), outage: None };
    Ok((source, TransactionalSink { shared, outage: None }))
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, ServiceBusSource> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Keeps a copy of why there is no connection.
fn note_outage(copy: &mut Option<ServiceError>, outage: Option<&ServiceError>) {
    if copy.as_ref() != outage {
        *copy = outage.cloned();
    }
}

impl Source for TransactionalSource {
    fn partitions(&self) -> Vec<PartitionId> {
        self.shared.lock().partitions()
    }

    fn encoding(&self) -> Encoding {
        Encoding::Amqp
    }

    fn open(&mut self, partition: PartitionId, start: StartPosition) {
        self.shared.lock().open(partition, start);
    }

    fn close(&mut self, partition: PartitionId) {
        self.shared.lock().close(partition);
    }

    fn poll_batch(&mut self, context: &mut Context<'_>) -> Poll<Result<SourceEvent, SourceError>> {
        let mut source = self.shared.lock();
        let polled = source.poll_batch(context);
        // The task is about to sleep, and its sink has something to say.
        if polled.is_pending() && source.forward_mut().take_news() {
            context.waker().wake_by_ref();
        }
        note_outage(&mut self.outage, source.outage());
        polled
    }

    fn release(&mut self, batch: EventBatch) {
        self.shared.lock().release(batch);
    }

    fn outage(&self) -> Option<&ServiceError> {
        self.outage.as_ref()
    }

    fn is_attached(&self, partition: PartitionId) -> bool {
        self.shared.lock().is_attached(partition)
    }

    fn shut_down(self: Box<Self>) -> ShutDown {
        match Arc::into_inner(self.shared.0) {
            Some(source) => Box::new(source.into_inner().unwrap_or_else(PoisonError::into_inner)).shut_down(),
            // The sink is still in use.
            None => Box::pin(std::future::ready(())),
        }
    }
}

impl SettlingSource for TransactionalSource {
    fn settle(&mut self, batch: &EventBatch, events: &[u32], settlement: Settlement) {
        self.shared.lock().settle(batch, events, settlement);
    }

    fn is_settled(&self) -> bool {
        self.shared.lock().is_settled()
    }
}

impl TransactionalSink {
    /// As with [`ServiceBusSink`](super::ServiceBusSink): an entity that is gone or closed to us ends the sink.
    fn check_refusal(forward: &Forward) -> Result<(), SinkError> {
        match forward.refusal() {
            Some(error) if error.class == ErrorClass::Fatal => Err(error.clone().into()),
            _ => Ok(()),
        }
    }
}

impl Sink for TransactionalSink {
    fn destinations(&self) -> u32 {
        1
    }

    fn takes(&self, encoding: Encoding) -> bool {
        encoding == Encoding::Amqp
    }

    fn send_unit(&self) -> SendUnit {
        SendUnit::Event
    }

    fn ends_sends(&self) -> bool {
        true
    }

    fn max_batch_bytes(&self, _destination: u32) -> usize {
        self.shared.lock().forward_mut().max_message_bytes()
    }

    fn encoded_len(&self, message_len: usize) -> usize {
        message_len
    }

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), SinkError>> {
        let mut source = self.shared.lock();
        if source.forward_mut().is_blocked() {
            source.drive(context)?;
        }
        note_outage(&mut self.outage, source.outage());
        let forward = source.forward_mut();
        Self::check_refusal(forward)?;
        match forward.is_blocked() {
            true => Poll::Pending,
            false => Poll::Ready(Ok(())),
        }
    }

    fn send(&mut self, token: SendToken, outgoing: OutgoingBatch<'_>) -> Result<(), SinkBusy> {
        self.shared.lock().forward(token, outgoing)
    }

    fn poll_outcomes(
        &mut self,
        context: &mut Context<'_>,
        outcomes: &mut Vec<SendOutcome>,
    ) -> Poll<Result<(), SinkError>> {
        let mut source = self.shared.lock();
        source.drive(context)?;
        note_outage(&mut self.outage, source.outage());
        let forward = source.forward_mut();
        let handed_over = forward.hand_over(outcomes);
        Self::check_refusal(forward)?;
        handed_over.map(Ok)
    }

    fn outage(&self) -> Option<&ServiceError> {
        self.outage.as_ref()
    }
}
