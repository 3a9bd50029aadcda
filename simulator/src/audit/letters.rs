//! What becomes of events that a sink refuses for good.
//!
//! INV-103: such an event is put aside after its sink has refused it alone, as it was and with its place and the reason; no
//! checkpoint covers it before its letter is durable; and whatever comes twice, as letters or at the sink too, was sent again
//! for a reason.

use amqp::codec::Value;
use amqp::message::MessageView;
use connect::sink::OutgoingBatch;

use super::{Attempt, Audit, Checked, UnderWay, index, is_set};
use crate::audit::Violation;
use crate::message::{self, parse};
use crate::refusals::Refusal;

/// What a process is told of a send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Told {
    Accepted,
    /// An event is refused for good.
    Refused,
    /// Anything else that went wrong.
    Failed,
}

/// What a dead letter says of itself.
#[derive(Debug)]
struct Letter<'a> {
    partition: u32,
    sequence_number: i64,
    sink: u32,
    /// The destination of that sink.
    destination: u32,
    reason: String,
    /// The message as it was.
    message: &'a [u8],
}

impl Audit {
    /// A relay sends a dead letter.
    pub(crate) fn send_letter(
        &mut self,
        process: u32,
        send: u64,
        destination: u32,
        outgoing: &OutgoingBatch<'_>,
        now_ms: u64,
    ) -> Result<Attempt, Violation> {
        let unreadable = Violation::Damaged { destination };
        let message = outgoing.messages().next();
        let letter = message.as_ref().and_then(|message| Letter::read(message.as_ref(), self.sinks_before));
        let Some(letter) = letter else { return Err(unreadable) };
        let Letter { partition, sequence_number, sink, .. } = letter;
        self.check_letter(&letter, destination)?;
        self.check_may_send(process, partition, &[sequence_number])?;
        let reason = Refusal::of_condition(&letter.reason);
        let of = letter.destination + sink * self.destinations;
        let try_timeout_ms = self.try_timeout_ms;
        let view = self.view(process, partition);
        let opened = view.opened;
        let view = &mut view.sinks[sink as usize];
        if reason.is_none() || view.refused.get(&sequence_number) != Some(&of) {
            return Err(Violation::LetterUnfounded { process, partition, sequence_number, sink });
        }
        if is_set(&view.settled, sequence_number) {
            return Err(Violation::SentAgain { process, partition, sequence_number });
        }
        let before =
            view.under_way.insert(sequence_number, UnderWay { send, destination, sent_at_ms: now_ms });
        let is_awaited = |other: &UnderWay| now_ms < other.sent_at_ms.saturating_add(try_timeout_ms);
        if let Some(before) = before.filter(is_awaited) {
            return Err(Violation::SentTwice { process, partition, sequence_number, send: before.send });
        }
        let of_sink = &mut self.partitions[partition as usize].sinks[sink as usize];
        let place = index(sequence_number);
        if let Some(letters) = of_sink.letters_sent.get_mut(place) {
            // Another letter of it may be there; or it may be at the sink, of a send that was not refused.
            self.explained +=
                u64::from(*letters > 0) + u64::from(of_sink.sent[place] > of_sink.refused[place]);
            *letters += 1;
        }
        let numbers = vec![sequence_number];
        Ok(Attempt { process, partition, sink, numbers, sent_at_ms: now_ms, opened, is_letter: true })
    }

    /// Whether a letter is what was appended, and of what its sink refuses.
    fn check_letter(&self, letter: &Letter<'_>, destination: u32) -> Checked {
        let damaged = Violation::Damaged { destination };
        let Some((partition, id)) = parse(letter.message) else {
            return Err(damaged);
        };
        let place = index(letter.sequence_number);
        let ids = self.partitions.get(partition as usize).map(|partition| &partition.ids);
        let is_there = ids.and_then(|ids| ids.get(place)) == Some(&id);
        let whole = message::message(self.seed, partition, id, self.largest_message);
        if partition != letter.partition || !is_there || whole != letter.message {
            return Err(damaged);
        }
        let refusal = self.refusals.and_then(|refusals| refusals.refusal(self.seed, letter.sink, id));
        let Letter { sequence_number, sink, .. } = *letter;
        match refusal.is_some() && refusal == Refusal::of_condition(&letter.reason) {
            true => Ok(()),
            false => Err(Violation::LetterMislabelled { partition, sequence_number, sink }),
        }
    }

    /// Sends of these events have come to nothing at a sink.
    pub(crate) fn refuse(&mut self, attempt: &Attempt) {
        let of_sink = &mut self.partitions[attempt.partition as usize].sinks[attempt.sink as usize];
        for &number in attempt.numbers.iter().filter(|_| !attempt.is_letter) {
            if let Some(refused) = of_sink.refused.get_mut(index(number)) {
                *refused += 1;
            }
        }
    }

    /// A dead letter is durable. Returns which event it is of and how many letters of it there are now.
    pub(crate) fn accept_letter(
        &mut self,
        destination: u32,
        message: &[u8],
    ) -> Result<(u32, i64, u32), Violation> {
        let letter = Letter::read(message, self.sinks_before).ok_or(Violation::Damaged { destination })?;
        self.check_letter(&letter, destination)?;
        let Letter { partition, sequence_number, sink, .. } = letter;
        let of_sink = &mut self.partitions[partition as usize].sinks[sink as usize];
        let place = index(sequence_number);
        of_sink.letters[place] += 1;
        let times = of_sink.letters[place];
        let is_at_sink = of_sink.accepted[place] > 0;
        of_sink.advance();
        match times {
            1 => self.dead_letters += 1,
            _ => self.count_duplicate()?,
        }
        if times == 1 && is_at_sink {
            self.count_both()?;
        }
        Ok((partition, sequence_number, times))
    }

    /// An event is at a sink, and a letter of it among the dead letters.
    pub(super) fn count_both(&mut self) -> Checked {
        self.both += 1;
        self.count_duplicate()
    }

    /// How many events were put aside, and how many of them are at their sink as well.
    pub(crate) fn dead_letters(&self) -> (u64, u64) {
        (self.dead_letters, self.both)
    }

    /// A relay that has ended by itself says how many events it has put aside. What it was told late it may have given up.
    pub(crate) fn count_letters(&self, process: u32, counted: u64) -> Checked {
        let (least, late) = self.processes[process as usize].letters_told;
        match (least..=least + late).contains(&counted) {
            true => Ok(()),
            false => Err(Violation::LettersMiscounted { process, counted, told: least }),
        }
    }
}

impl<'a> Letter<'a> {
    /// `sinks_before` of the relay's sinks, archives, come before the first one whose destinations are at the hub.
    fn read(message: &'a [u8], sinks_before: u32) -> Option<Self> {
        let view = MessageView::parse(message).ok()?;
        let properties = view.application_properties().ok()?;
        let number = |name: &str| match properties.find(name) {
            Ok(Some(Value::Long(number))) => Some(number),
            _ => None,
        };
        let small = |name: &str| u32::try_from(number(name)?).ok();
        let Ok(Some(Value::String(reason))) = properties.find("DeadLetterReason") else {
            return None;
        };
        Some(Self {
            partition: small("parshall-partition")?,
            sequence_number: number("parshall-sequence-number")?,
            sink: small("parshall-sink")?.checked_sub(sinks_before)?,
            destination: small("parshall-destination")?,
            reason,
            message: view.data().ok()??,
        })
    }
}

/// Identity and sink of what a dead letter is of.
pub(super) fn of_letter(message: &[u8], sinks_before: u32) -> Option<(u32, u64, u32)> {
    let letter = Letter::read(message, sinks_before)?;
    let (partition, id) = parse(letter.message)?;
    Some((partition, id, letter.sink))
}
