//! Producers that number their events, so that a batch which the client sends again is stored once.
//!
//! Such a producer has an id and an epoch, and gives each event to a partition the next sequence number, as message
//! annotations. At its attach it names id, epoch and the number of its last event, or leaves open what it does not know. It
//! is answered the three values from which it goes on:
//!
//! * An id that it leaves open is a new one.
//! * What it names holds. A client that has lost the answer to a batch names the number before that batch, and sends it
//!   again: if the reply gave the number of the last stored event instead, it would give the same events new numbers.
//! * An epoch or number that it leaves open is the one that the partition knows. Of a new producer the epoch is 0 and the
//!   number −1: its first event has 0.
//!
//! The .NET client attaches without any of them after each reconnect, and its events go on with the id that its first link was
//! given. So where a link names no id, that of the events counts. A link to a hub as a whole may have the capability, too,
//! since that client learns the largest size from one; events with numbers are rejected there, as those of one partition.
//!
//! A newer epoch at an attach takes over: what the earlier instance sends from then on is rejected. The [log](partition_log)
//! decides about each batch.

use std::hash::{BuildHasher as _, Hasher as _, RandomState};

use amqp::codec::{DecodeError, Reader, Symbol, Value};
use amqp::connection::LinkAcceptance;
use amqp::performative::{Attach, DeliveryState, Error, ErrorCondition};

use super::incoming::MessageError;
use super::publish::malformed;
use crate::front::amqp::conditions::rejected;
use crate::namespace::Partition;
use partition_log::{ProducerError, ProducerStamp, UnixTime, sequence_after};

/// What a client asks that wants to be an idempotent producer.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Request {
    pub(super) id: Option<i64>,
    pub(super) epoch: Option<i16>,
    pub(super) last_number: Option<i32>,
}

/// What the numbers in the events of a link mean.
#[derive(Debug)]
pub(super) enum Numbering {
    /// Nothing: they are annotations like others.
    Unused,
    /// The place of the event among those of this producer.
    OfProducer(NumberedProducer),
    /// That the event can't be stored: its numbers are those of one partition, which the link does not lead to.
    Misplaced,
}

/// The producer at the other end of a link.
#[derive(Debug)]
pub(super) struct NumberedProducer {
    id: i64,
    epoch: i16,
    /// Whether the client named the id. Otherwise its events may be those of another one.
    is_named: bool,
}

/// What the annotations of an event say of its producer.
#[derive(Debug, Default)]
struct EventNumbers {
    id: Option<i64>,
    epoch: Option<i64>,
    number: Option<i64>,
}

impl Request {
    /// What a client asks by its attach; `None` if it is a producer like any other.
    ///
    /// # Errors
    /// A value makes no sense.
    pub(super) fn of(attach: &Attach) -> Result<Option<Self>, Error> {
        if !attach.desired_capabilities.contains(&CAPABILITY) {
            return Ok(None);
        }
        Ok(Some(Self {
            // Some clients know integers up to 2⁵³ only.
            id: given(attach, ID, 0, LARGEST_ID)?,
            epoch: given(attach, EPOCH, 0, i16::MAX)?,
            last_number: given(attach, NUMBER, -1, i32::MAX)?,
        }))
    }
}

impl Numbering {
    /// What numbers mean on a link to a hub as a whole.
    pub(super) fn for_hub(attach: &Attach) -> Self {
        match attach.desired_capabilities.contains(&CAPABILITY) {
            true => Self::Misplaced,
            false => Self::Unused,
        }
    }
}

/// Rejects a message if one of its events, which have these annotations, is numbered: over a link to a hub as a whole.
///
/// # Errors
/// The outcome.
#[cold]
pub(super) fn reject_numbers<'a>(events: impl Iterator<Item = (u32, &'a [u8])>) -> Result<(), DeliveryState> {
    for (count, annotations) in events {
        let numbers = EventNumbers::read(count, annotations)
            .map_err(|error| malformed(&MessageError::Malformed(error)))?;
        if numbers.id.is_some() || numbers.number.is_some() {
            let text = "An idempotent producer must send its events to a partition: their sequence numbers are those of one.";
            return Err(rejected(ErrorCondition::NOT_ALLOWED, text));
        }
    }
    Ok(())
}

impl NumberedProducer {
    /// Lets a producer continue its numbering in a partition, and adds to `acceptance` what it is answered.
    ///
    /// # Errors
    /// A newer epoch has taken over.
    pub(super) fn admit(
        request: &Request,
        partition: &Partition,
        now: UnixTime,
        acceptance: &mut LinkAcceptance,
    ) -> Result<Self, Error> {
        let id = request.id.unwrap_or_else(new_id);
        let position = partition
            .log()
            .claim_producer(now, id, request.epoch, request.last_number)
            .map_err(|error| refusal(&error))?;
        acceptance.offered_capabilities.push(CAPABILITY);
        acceptance.properties.extend([
            (Symbol::from_static(ID), Value::Long(id)),
            (Symbol::from_static(EPOCH), Value::Short(position.epoch)),
            (Symbol::from_static(NUMBER), Value::Int(position.last_sequence)),
        ]);
        Ok(Self { id, epoch: position.epoch, is_named: request.id.is_some() })
    }

    /// The stamp of a batch whose events have these annotations: how many each has, and their keys and values. Id and epoch are
    /// those of the link, and need not be repeated; those of the events count where the link names none.
    ///
    /// # Errors
    /// The outcome of a batch that has none.
    pub(super) fn stamp<'a>(
        &self,
        events: impl Iterator<Item = (u32, &'a [u8])>,
    ) -> Result<ProducerStamp, DeliveryState> {
        let mut stamp = None;
        let mut next = 0;
        for (count, annotations) in events {
            let numbers = EventNumbers::read(count, annotations)
                .map_err(|error| malformed(&MessageError::Malformed(error)))?;
            let producer = self.producer_of(&numbers);
            let is_of_batch = |stamp: &ProducerStamp| producer == Some((stamp.id(), stamp.epoch()));
            let Some((id, epoch)) = producer.filter(|_| stamp.as_ref().is_none_or(is_of_batch)) else {
                let text = "An event names another producer or another epoch than its link, or than the first of its batch.";
                return Err(rejected(ErrorCondition::ARGUMENT_ERROR, text));
            };
            let number = numbers.number.and_then(|number| i32::try_from(number).ok());
            let of_event = number.and_then(|number| ProducerStamp::new(id, epoch, number));
            let Some(of_event) = of_event else {
                let text = format!("An event has no {NUMBER}, or one that is not from 0 to {}.", i32::MAX);
                return Err(rejected(ErrorCondition::ARGUMENT_ERROR, text));
            };
            let found = of_event.first_sequence();
            if stamp.is_some() && found != next {
                return Err(refused(&ProducerError::OutOfOrder { expected: next, found }));
            }
            stamp.get_or_insert(of_event);
            next = sequence_after(found, 1);
        }
        stamp.ok_or_else(|| malformed(&MessageError::Empty))
    }

    /// Id and epoch of the producer of an event; `None` if it can't be of this link.
    fn producer_of(&self, numbers: &EventNumbers) -> Option<(i64, i16)> {
        let epoch = numbers.epoch.map(|epoch| i16::try_from(epoch).ok().filter(|epoch| *epoch >= 0));
        let is_of_link =
            numbers.id.is_none_or(|id| id == self.id) && epoch.is_none_or(|epoch| epoch == Some(self.epoch));
        match numbers.id {
            _ if is_of_link => Some((self.id, self.epoch)),
            Some(id) if !self.is_named && (0..=LARGEST_ID).contains(&id) => {
                Some((id, epoch.unwrap_or(Some(0))?))
            }
            _ => None,
        }
    }
}

impl EventNumbers {
    fn read(count: u32, annotations: &[u8]) -> Result<Self, DecodeError> {
        let mut numbers = Self::default();
        let mut reader = Reader::new(annotations);
        for _ in 0..count {
            let field = match Reader::new(reader.raw()?).text()? {
                Some(ID) => &mut numbers.id,
                Some(EPOCH) => &mut numbers.epoch,
                Some(NUMBER) => &mut numbers.number,
                _ => {
                    reader.skip()?;
                    continue;
                }
            };
            *field = reader.value()?.as_integer();
        }
        Ok(numbers)
    }
}

/// The outcome of a batch that does not fit what its partition knows of the producer.
#[cold]
pub(super) fn refused(error: &ProducerError) -> DeliveryState {
    DeliveryState::Rejected(Some(refusal(error)))
}

/// What does not fit, in the conditions that clients know.
#[cold]
fn refusal(error: &ProducerError) -> Error {
    match error {
        ProducerError::OutOfOrder { expected, found } => Error::new(
            ErrorCondition::OUT_OF_ORDER_SEQUENCE,
            format!("The sequence number is '{found}', but '{expected}' is the next one of the producer."),
        ),
        ProducerError::OlderEpoch { current, found } => Error::new(
            ErrorCondition::PRODUCER_EPOCH_STOLEN,
            format!("The producer's epoch is '{current}' now, so nothing of epoch '{found}' is accepted."),
        ),
        // Only clients of Kafka have transactions, and they have ids of their own.
        ProducerError::InTransaction | ProducerError::TooManyTransactions { .. } => {
            Error::new(ErrorCondition::NOT_ALLOWED, format!("The batch is not accepted: {error}."))
        }
    }
}

/// What a client names under a link property; `None` if that is absent or null.
fn given<T: TryFrom<i64> + Into<i64> + Copy>(
    attach: &Attach,
    name: &str,
    least: T,
    largest: T,
) -> Result<Option<T>, Error> {
    let value = match attach.property(name) {
        None | Some(Value::Null) => return Ok(None),
        Some(value) => value.as_integer(),
    };
    let fitting = value.filter(|value| (least.into()..=largest.into()).contains(value));
    match fitting.and_then(|value| T::try_from(value).ok()) {
        Some(value) => Ok(Some(value)),
        None => Err(Error::new(
            ErrorCondition::ARGUMENT_OUT_OF_RANGE,
            format!(
                "The link property '{name}' is not an integer from {} to {}.",
                least.into(),
                largest.into()
            ),
        )),
    }
}

/// An id that no producer has had: neither of this partition nor of another, before or after a restart. There are so many that
/// chance gives none twice.
fn new_id() -> i64 {
    (RandomState::new().build_hasher().finish() & LARGEST_ID.cast_unsigned()).cast_signed()
}

const CAPABILITY: Symbol = Symbol::from_static("com.microsoft:idempotent-producer");
const ID: &str = "com.microsoft:producer-id";
const EPOCH: &str = "com.microsoft:producer-epoch";
const NUMBER: &str = "com.microsoft:producer-sequence-number";

/// The largest integer that clients in JavaScript know.
const LARGEST_ID: i64 = (1 << 53) - 1;
