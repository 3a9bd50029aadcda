//! Where events go.
//!
//! A [`Sink`] has destinations, numbered from 0: the partitions of a hub, or queues, topics, files. It takes a group of
//! events at a time, encodes it at once into its output buffer, and says later what became of it. It neither retries nor
//! keeps an event: that is for its user, who still holds the batch.

use std::fmt;
use std::task::{Context, Poll};
use std::time::Duration;

use units::partition_key::Partitioner;

use crate::event::{Encoding, Event, EventBatch, Message, PartitionId};
use crate::kafka::ClientStatistics;
use crate::service::ServiceError;
use crate::source::ShutDown;

/// Something that accepts events.
///
/// Contract between a sink and the one who polls it:
/// * Sends to one destination are carried out in the order of the calls.
/// * Every accepted send gets exactly one outcome, in any order, unless the sink as a whole fails.
/// * [`poll_outcomes`](Self::poll_outcomes) is what drives connections and flushes, so it is polled after sends.
pub trait Sink: fmt::Debug + Send {
    /// How many destinations there are, at least 1.
    fn destinations(&self) -> u32;

    /// Whether it takes messages that are encoded so, as they are.
    fn takes(&self, encoding: Encoding) -> bool;

    /// What one send is to be: each send has one outcome.
    fn send_unit(&self) -> SendUnit {
        SendUnit::Batch
    }

    /// Whether the events of one send have to have their partition key in common, or all none: the key is kept then, and
    /// the service chooses the partition by it.
    fn sends_by_key(&self) -> bool {
        false
    }

    /// How the service's own clients choose the partition of a key.
    fn partitioner(&self) -> Partitioner {
        Partitioner::EventHubs
    }

    /// Whether each send has its outcome from this sink alone, however long that takes. What has none may be accepted at any time then, so
    /// that nobody may give it up and send its events again.
    fn ends_sends(&self) -> bool {
        false
    }

    /// The most bytes that one send to `destination` may encode to; what is larger would be refused by the service.
    fn max_batch_bytes(&self, destination: u32) -> usize;

    /// An upper bound of what a message of `message_len` bytes adds to the encoded size of a send. What it adds beyond its
    /// own length does not shrink as the length grows, so that the longest of several messages bounds them all. What a send adds of its own is already taken off
    /// [`max_batch_bytes`](Self::max_batch_bytes).
    fn encoded_len(&self, message_len: usize) -> usize;

    /// Ready when a send that was refused as busy is worth another try; `Pending` registers the task to be woken.
    ///
    /// # Errors
    /// When the sink as a whole cannot go on.
    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), SinkError>>;

    /// Takes a group of events for one destination, encoding it before it returns. The token comes back with the
    /// outcome and means nothing to the sink.
    ///
    /// # Errors
    /// [`SinkBusy`] when the destination can take no more now. Nothing has been sent then, no outcome follows, and
    /// [`poll_ready`](Self::poll_ready) tells when to try again.
    fn send(&mut self, token: SendToken, outgoing: OutgoingBatch<'_>) -> Result<(), SinkBusy>;

    /// Flushes, and appends the outcomes that have arrived to `outcomes`: ready if there was any. `Pending` registers
    /// the task to be woken.
    ///
    /// # Errors
    /// When the sink as a whole cannot go on (wrong credentials, the hub is gone). A connection that can be made again is
    /// not an error here: the sends that it carried get retryable outcomes.
    fn poll_outcomes(
        &mut self,
        context: &mut Context<'_>,
        outcomes: &mut Vec<SendOutcome>,
    ) -> Poll<Result<(), SinkError>>;

    /// Whether it accepts events before it has stored them, and says later what is stored: an archive that collects many for a file.
    ///
    /// Such a sink gets each event of a partition once, in order, and one send at a time, which it answers at once: what it refuses it refuses for
    /// good. It stores them in order. When it has lost what it has not stored, that comes again; and after [`forget`](Self::forget) a
    /// partition begins with any event.
    fn stores_later(&self) -> bool {
        false
    }

    /// Appends what has been stored, or lost, of what was accepted since the last call: of a sink that [stores
    /// later](Self::stores_later) alone. Asked after each [`poll_outcomes`](Self::poll_outcomes), which wakes the task for it, too.
    fn take_stored(&mut self, _stored: &mut Vec<Stored>) {}

    /// Nothing more of a partition comes for now: what was accepted of it is to be stored as soon as can be.
    fn flush(&mut self, _partition: PartitionId) {}

    /// What was sent of a partition and is not stored is not wanted any more, and nothing is said of it. What is being stored may be stored all
    /// the same.
    fn forget(&mut self, _partition: PartitionId) {}

    /// Why the sink as a whole can't send at the moment, if it can't: there is no connection, and it is being made again.
    #[inline]
    fn outage(&self) -> Option<&ServiceError> {
        None
    }

    /// How often the service has taken what was sent and asked to be left alone for a while, since a quota is used up. What it
    /// refuses for that reason is an outcome, and not among these.
    fn slowed_down(&self) -> u64 {
        0
    }

    /// What the client's library has measured of its own work, if it does.
    fn client_statistics(&self) -> Option<ClientStatistics> {
        None
    }

    /// Says goodbye to the service, which does not take long whatever the service does, without waiting for outcomes. A
    /// sink that is just dropped is gone as well; the service takes it for one that failed.
    fn shut_down(self: Box<Self>) -> ShutDown {
        Box::pin(std::future::ready(()))
    }
}

/// Moves all outcomes, as [`Sink::poll_outcomes`] hands them over: ready if there was any.
pub(crate) fn hand_over(from: &mut Vec<SendOutcome>, to: &mut Vec<SendOutcome>) -> Poll<()> {
    let any = !from.is_empty();
    to.append(from);
    match any {
        true => Poll::Ready(()),
        false => Poll::Pending,
    }
}

/// What one send carries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SendUnit {
    /// Any number of events, which are accepted or refused together.
    #[default]
    Batch,
    /// One event. Sends are made one after the other without waiting, and each is accepted or refused by itself.
    Event,
}

/// The sender's own name for a send.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SendToken(pub u64);

/// Events for one destination.
#[derive(Clone, Copy, Debug)]
pub struct OutgoingBatch<'a> {
    destination: u32,
    first: BatchPart<'a>,
    others: &'a [BatchPart<'a>],
}

/// Some events of a batch.
#[derive(Clone, Copy, Debug)]
pub struct BatchPart<'a> {
    /// The batch that the events are in.
    pub batch: &'a EventBatch,
    /// Indices into the batch's events, in the order in which to send them; at least one.
    pub events: &'a [u32],
}

/// The destination can take no more at the moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the destination is busy")]
pub struct SinkBusy;

/// What became of one send.
#[derive(Debug)]
pub struct SendOutcome {
    /// The token given with the send.
    pub token: SendToken,
    /// Accepted by the service, or why not. Boxed, so that a success moves 16 bytes and allocates nothing.
    pub result: Result<(), Box<SendError>>,
}

/// Why a send was not accepted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{condition}: {description}")]
pub struct SendError {
    /// What can be done about it.
    pub class: ErrorClass,
    /// The service's name for what happened, such as `amqp:not-found`.
    pub condition: String,
    /// The service's words for a person.
    pub description: String,
}

/// What became of events that a sink had accepted before it stored them.
#[derive(Clone, Debug)]
pub struct Stored {
    /// The partition that they come from.
    pub partition: PartitionId,
    /// How far everything is stored; or why all that is not stored of the partition is lost. The sink has forgotten it then.
    pub result: Result<StoredThrough, Box<SendError>>,
}

/// The last event of a partition that is stored with all before it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StoredThrough {
    /// Its sequence number.
    pub sequence_number: i64,
    /// Its offset as the service gave it; empty where there is none.
    pub offset: String,
}

/// Why a sink as a whole cannot go on.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{condition}: {description}")]
pub struct SinkError {
    /// The service's name for what happened.
    pub condition: String,
    /// The service's words for a person.
    pub description: String,
}

/// What can be done about an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorClass {
    /// The same again can succeed.
    Retryable,
    /// The service is over its quota: the same again can succeed, but not before this has passed.
    Throttled {
        /// The least wait before the next try.
        retry_after: Duration,
    },
    /// The same again cannot succeed.
    Fatal,
    /// What was sent is larger than the service accepts; less of it can succeed.
    TooLarge,
}

impl<'a> OutgoingBatch<'a> {
    /// Events of one batch, by their indices, for a destination below [`Sink::destinations`]; at least one.
    #[must_use]
    pub const fn new(destination: u32, batch: &'a EventBatch, events: &'a [u32]) -> Self {
        Self { destination, first: BatchPart { batch, events }, others: &[] }
    }

    /// Adds events of other batches of the same partition, which follow in this order.
    #[must_use]
    pub const fn followed_by(self, others: &'a [BatchPart<'a>]) -> Self {
        Self { others, ..self }
    }

    /// Where they are to go.
    #[must_use]
    pub const fn destination(&self) -> u32 {
        self.destination
    }

    /// The partition that the events come from.
    #[must_use]
    pub const fn partition(&self) -> PartitionId {
        self.first.batch.partition()
    }

    /// The sequence numbers of the first and of the last event.
    #[must_use]
    pub fn sequence_numbers(&self) -> Option<(i64, i64)> {
        let number = |part: BatchPart<'_>, event: u32| part.batch.events()[event as usize].sequence_number;
        let last = self.others.last().copied().unwrap_or(self.first);
        Some((number(self.first, *self.first.events.first()?), number(last, *last.events.last()?)))
    }

    /// The batch of the first event, and the event's index in it.
    pub(crate) fn first(&self) -> Option<(&'a EventBatch, u32)> {
        Some((self.first.batch, *self.first.events.first()?))
    }

    /// The events to send, in order, each with its batch.
    #[must_use]
    pub fn events(&self) -> OutgoingEvents<'a> {
        OutgoingEvents {
            batch: self.first.batch,
            indices: self.first.events.iter(),
            others: self.others.iter(),
        }
    }

    /// The partition key of the first event, where it has one that is text: for sinks to which each send is of one key.
    #[must_use]
    pub fn partition_key(&self) -> Option<&'a str> {
        let (batch, first) = self.events().next()?;
        std::str::from_utf8(batch.partition_key(first)?).ok()
    }

    /// The bytes to forward of each event, in order.
    #[inline]
    pub fn messages(&self) -> impl ExactSizeIterator<Item = Message<'a>> + use<'a> {
        self.events().map(|(batch, event)| batch.shared_message(event))
    }
}

/// The events of an [`OutgoingBatch`], in order.
#[derive(Clone, Debug)]
pub struct OutgoingEvents<'a> {
    batch: &'a EventBatch,
    indices: std::slice::Iter<'a, u32>,
    others: std::slice::Iter<'a, BatchPart<'a>>,
}

impl<'a> Iterator for OutgoingEvents<'a> {
    type Item = (&'a EventBatch, &'a Event);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(&index) = self.indices.next() {
                return Some((self.batch, &self.batch.events()[index as usize]));
            }
            let part = self.others.next()?;
            self.batch = part.batch;
            self.indices = part.events.iter();
        }
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let others = self.others.as_slice().iter().map(|part| part.events.len());
        let length = self.indices.len() + others.sum::<usize>();
        (length, Some(length))
    }
}

impl ExactSizeIterator for OutgoingEvents<'_> {}

impl fmt::Display for ErrorClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Retryable => f.write_str("retryable"),
            Self::Throttled { retry_after } => write!(f, "throttled for {retry_after:?}"),
            Self::Fatal => f.write_str("fatal"),
            Self::TooLarge => f.write_str("too large"),
        }
    }
}

const _: () = assert!(size_of::<SendOutcome>() <= 16, "outcomes arrive by the million per second");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_comes_from_several_batches_keeps_its_order() {
        let batch = |messages: &[&'static [u8]]| {
            let mut batch = EventBatch::default();
            for (number, message) in (0..).zip(messages) {
                batch.push_message(&bytes::Bytes::from_static(message), number);
            }
            batch
        };
        let (one, two) = (batch(&[b"a", b"b", b"c"]), batch(&[b"d", b"e"]));
        let others = [BatchPart { batch: &two, events: &[1] }, BatchPart { batch: &one, events: &[1, 0] }];
        let outgoing = OutgoingBatch::new(7, &one, &[2]).followed_by(&others);
        assert_eq!((outgoing.destination(), outgoing.events().len()), (7, 4));
        assert_eq!(outgoing.sequence_numbers(), Some((2, 0)), "of the last part's last event");
        let messages: Vec<u8> = outgoing.messages().flat_map(|message| message.as_ref().to_vec()).collect();
        assert_eq!(messages, b"ceba");
    }
}
