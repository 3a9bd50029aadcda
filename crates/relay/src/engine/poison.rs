//! Events that a destination refuses for good: too large for it, or malformed in its eyes. Trying again is of no use, and
//! everything behind them in their partition waits. [Records that can't be read](super::unreadable) are such events, too.
//!
//! What becomes of them is for [`PoisonEvents`] to say; in every case they are logged with their place, and counted. A send
//! of several events that is refused in this way is halved until the event is alone.

use connect::archive;
use connect::event::PartitionId;
use connect::sink::{ErrorClass, SendError};

use super::in_flight::InFlight;
use super::letters::Letters;
use super::sends::Stage;
use super::{Relay, RelayError, transforming};
use crate::dead_letters::DeadLetters;
use crate::options::PoisonEvents;

/// What to do with poison events.
#[derive(Debug)]
pub(super) enum Poison {
    Hold,
    Stop,
    Keep(DeadLetters),
    Send(Box<Letters>),
}

impl Poison {
    pub(super) fn of(policy: &PoisonEvents) -> Result<Self, RelayError> {
        Ok(match policy {
            PoisonEvents::Hold => Self::Hold,
            PoisonEvents::Stop => Self::Stop,
            PoisonEvents::DeadLetter(path) => {
                let letters = DeadLetters::open(path)
                    .map_err(|source| RelayError::DeadLetters { path: path.clone(), source });
                Self::Keep(letters?)
            }
        })
    }
}

/// Whether a refusal is about the events that were sent, so that the same of others may be accepted.
pub(super) fn is_about_events(error: &SendError) -> bool {
    match error.class {
        ErrorClass::TooLarge => true,
        ErrorClass::Fatal => ABOUT_EVENTS.contains(&&*error.condition),
        ErrorClass::Retryable | ErrorClass::Throttled { .. } => false,
    }
}

impl Relay {
    /// A destination refuses a single event for good.
    #[cold]
    pub(super) fn poison(&mut self, index: u32, error: &SendError) {
        let send = *self.sends.send(index);
        let InFlight { partition: of, batch, order, .. } = self.slots.in_flight(self.sends.slot(index));
        let of = *of;
        let event = batch.events()[order[send.next as usize] as usize];
        let partition = batch.partition();
        let sequence_number = event.sequence_number;
        let offset = batch.offset(&event).and_then(|offset| std::str::from_utf8(offset).ok());
        let offset = offset.unwrap_or_default().to_owned();
        let bytes = event.message_len();
        let is_unreadable = batch.unreadable().is_some();
        let sink = (self.outlets.len() > 1 && !is_unreadable).then_some(send.sink);
        let known = self.partitions[of].poison.replace(sequence_number);
        if known != Some(sequence_number) {
            self.metrics.poison_events += 1;
            if is_unreadable {
                self.report_unreadable(index);
            } else {
                tracing::error!(
                    partition = partition.0, sequence_number, offset, bytes,
                    sink, destination = send.destination, %error,
                    "{}", if error.condition == transforming::CONDITION { transforming::UNFIT } else { REFUSED }
                );
            }
        }
        match &mut self.poison {
            Poison::Hold => self.fail_batch(of, error),
            Poison::Stop => {
                let failure = self.unreadable_failure(index).unwrap_or_else(|| RelayError::Poison {
                    partition,
                    sequence_number,
                    offset,
                    bytes,
                    error: Box::new(error.clone()),
                });
                self.fail(failure);
                self.fail_batch(of, error);
            }
            Poison::Send(_) => self.put_aside(index, error),
            Poison::Keep(letters) => {
                let batch = &self.slots.in_flight(self.sends.slot(index)).batch;
                match letters.append(batch, &event, sink, send.destination, error) {
                    Ok(()) => {
                        self.metrics.dead_lettered_events += 1;
                        self.pass_over(index);
                    }
                    Err(error) => {
                        tracing::error!(
                            partition = partition.0, sequence_number, %error,
                            "the event can't be written to the dead-letter file"
                        );
                        self.fail_batch(of, &"the dead-letter file can't be written");
                    }
                }
            }
        }
    }

    /// A part that was not accepted is done with all the same: the rest of its group goes on.
    pub(super) fn pass_over(&mut self, index: u32) {
        let send = *self.sends.send(index);
        if send.part_end == send.end {
            self.lanes.end(send.lane);
            self.end_group(index);
            return;
        }
        self.sends.end_attempt(index, Stage::Blocked);
        let rest = self.sends.send_mut(index);
        rest.next = send.part_end;
        rest.failures = 0;
        rest.part_max = u32::MAX;
        self.transmit(index);
    }
}

/// Names an event in errors.
pub(super) fn place(partition: PartitionId, sequence_number: i64, offset: &str) -> String {
    match offset {
        "" => format!("event {sequence_number} of partition {partition}"),
        _ => format!("event {sequence_number} of partition {partition} (offset {offset})"),
    }
}

const REFUSED: &str = "the destination refuses an event permanently";

/// Conditions of refusals that are about what was sent and not about who sent it or where to.
const ABOUT_EVENTS: [&str; 5] = [
    "amqp:decode-error",
    "amqp:invalid-field",
    "com.microsoft:argument-error",
    archive::DIFFERENT_CONTENT,
    archive::NAME,
];
