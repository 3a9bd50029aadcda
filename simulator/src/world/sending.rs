//! Connections to the destination hub, and what it does with a send.

use std::time::Duration;

use bytes::Bytes;
use connect::sink::{ErrorClass, OutgoingBatch, SendError, SendToken};

use super::{Attempt, Event, Side, World};
use crate::audit::Told;
use crate::config::{OVERHEAD, between};
use crate::defect::Defect;
use crate::durable_log::Stored;
use crate::message::parse;
use crate::process::Outcome;
use crate::refusals::Refusal;
use crate::trace::{Events, What};

/// A send that is on its way, or whose outcome is.
#[derive(Debug)]
pub(super) struct Sending {
    process: u32,
    destination: u32,
    token: SendToken,
    messages: Vec<Bytes>,
    attempt: Option<Attempt>,
    /// The connection broke: it is not stored if it has not arrived, or nobody is told.
    fate: Fate,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    /// It arrives and is answered.
    Usual,
    /// It arrives, and nobody waits for the answer.
    Unheard,
    /// It does not arrive.
    Lost,
}

impl World {
    pub(crate) fn note_busy(&mut self, process: u32, destination: u32) {
        self.note(Some(process), What::Busy { destination });
    }

    /// A relay sends a group of events to one of the destinations of all sinks.
    pub(crate) fn send(
        &mut self,
        process: u32,
        mut destination: u32,
        token: SendToken,
        outgoing: &OutgoingBatch<'_>,
    ) {
        let now = self.now_ms();
        let send = self.number();
        let is_letter = self.config.is_of_dead_letters(destination);
        let checked = match is_letter {
            true => self.audit.send_letter(process, send, destination, outgoing, now),
            false => self.audit.send(process, send, destination, outgoing, now),
        };
        let attempt = self.check(checked);
        let mut messages: Vec<_> =
            outgoing.messages().map(|message| Bytes::copy_from_slice(message.as_ref())).collect();
        if self.has_defect(Defect::SinkReorders) {
            messages.reverse();
        }
        if self.has_defect(Defect::SinkMisroutes) && !is_letter && self.random.network.chance(0.1) {
            let of_sink = self.config.destinations;
            destination = destination / of_sink * of_sink + (destination + 1) % of_sink;
        }
        if self.has_defect(Defect::SinkDamages) && self.random.network.chance(0.05) {
            let mut damaged = messages[0].to_vec();
            damaged[0] ^= 1;
            messages[0] = damaged.into();
        }
        let mut numbers = outgoing.events().map(|(_, event)| event.sequence_number);
        let first = numbers.next().unwrap_or(-1);
        let events =
            Events { partition: outgoing.partition().0, first, last: numbers.last().unwrap_or(first) };
        self.note(Some(process), What::Sent { send, destination, events });
        let delay = self.network_ms();
        let sink = destination / self.config.destinations;
        let state = self.process_mut(process);
        state.sink_mut(sink).unanswered += 1;
        let connection = &mut state.connections[destination as usize];
        connection.unanswered.insert(send, token);
        connection.last_arrival_ms = connection.last_arrival_ms.max(now + delay);
        let arrival = connection.last_arrival_ms;
        self.sends
            .insert(send, Sending { process, destination, token, messages, attempt, fate: Fate::Usual });
        self.at(arrival, Event::SendArrives { send });
    }

    /// A send reaches the hub.
    pub(super) fn send_arrives(&mut self, send: u64) {
        let faults = self.config.faults.clone();
        let Some(sending) = self.sends.get(&send) else {
            return;
        };
        let (process, destination, fate) = (sending.process, sending.destination, sending.fate);
        let bytes: usize = sending.messages.iter().map(|message| message.len() + OVERHEAD).sum();
        if fate == Fate::Lost {
            self.come_to_nothing(send);
            return;
        }
        let is_letter = self.config.is_of_dead_letters(destination);
        let silent = self.config.dead_letters().is_some_and(|dead_letters| dead_letters.silent);
        let draws = [
            self.goes_wrong(|random| &mut random.hub, faults.unanswered / 2.0),
            self.goes_wrong(|random| &mut random.hub, faults.refused),
            self.goes_wrong(|random| &mut random.hub, faults.throttled),
            self.goes_wrong(|random| &mut random.hub, faults.fatal),
        ];
        let retry_after = Duration::from_millis(between(&mut self.random.hub, 1, 500));
        let refusal = match draws {
            _ if !self.destination_up => Some(("down", ErrorClass::Retryable)),
            _ if is_letter && !self.dead_letters_up => {
                if !silent {
                    Some(("down", ErrorClass::Retryable))
                } else {
                    self.note_refused(send, destination, "lost on the way");
                    self.break_soon(process, destination);
                    return;
                }
            }
            [true, ..] => {
                self.come_to_nothing(send);
                self.note_refused(send, destination, "lost on the way");
                self.break_soon(process, destination);
                return;
            }
            [_, true, ..] => Some(("refused for the moment", ErrorClass::Retryable)),
            [_, _, true, _] => Some(("server busy", ErrorClass::Throttled { retry_after })),
            [_, _, _, true] => Some(("refused for good", ErrorClass::Fatal)),
            _ if bytes > self.config.accepted_batch_bytes && !is_letter => {
                Some(("too large", ErrorClass::TooLarge))
            }
            _ => None,
        };
        if let Some((why, class)) = refusal {
            self.note_refused(send, destination, why);
            let error =
                SendError { class, condition: "simulated:refused".to_owned(), description: why.to_owned() };
            self.come_to_nothing(send);
            self.answer(send, Err(error));
            return;
        }
        if let Some(refusal) = self.refusal(send) {
            self.note_refused(send, destination, "refused, and always will be");
            self.come_to_nothing(send);
            self.answer(send, Err(refusal.error()));
            return;
        }
        if self.has_defect(Defect::DeadLettersDropped) && is_letter {
            self.answer(send, Ok(()));
            return;
        }
        if self.has_defect(Defect::SinkAnswersEarly) {
            self.answer(send, Ok(()));
            if self.random.hub.chance(0.1) {
                return;
            }
        }
        self.store_messages(send);
        if self.goes_wrong(|random| &mut random.hub, faults.duplicated) {
            let count = self.sends.get(&send).map_or(0, |sending| sending.messages.len());
            self.audit.duplicate(count);
            self.store_messages(send);
        }
        let end = self.destination[destination as usize].log.end();
        self.destination[destination as usize].waiting.push((end, send));
        if self.has_defect(Defect::SinkForgets) {
            self.answer(send, Ok(()));
        }
        self.commit_soon(Side::Destination, destination);
    }

    /// Why a sink refuses a send for good, if one of its events is refused.
    fn refusal(&self, send: u64) -> Option<Refusal> {
        let refusals = self.config.refusals.filter(|refusals| !(refusals.end && self.healed))?;
        let sending = self.sends.get(&send)?;
        if self.config.is_of_dead_letters(sending.destination) {
            return None;
        }
        let sink = sending.destination / self.config.destinations;
        let ids = sending.messages.iter().filter_map(|message| parse(message));
        ids.filter_map(|(_, id)| refusals.refusal(self.config.seed, sink, id)).next()
    }

    /// A send will not be stored.
    fn come_to_nothing(&mut self, send: u64) {
        if let Some(attempt) = self.sends.get(&send).and_then(|send| send.attempt.as_ref()) {
            self.audit.refuse(attempt);
        }
    }

    fn store_messages(&mut self, send: u64) {
        let now = self.now_ms();
        let Some(sending) = self.sends.get(&send) else {
            return;
        };
        let destination = sending.destination;
        self.destination[destination as usize]
            .log
            .append(now, sending.messages.iter().map(|message| &message[..]));
        self.note(None, What::Stored { send, destination });
    }

    /// Records have become durable at a destination: whoever sent them is told.
    pub(super) fn committed_destination(&mut self, destination: u32, records: &[Stored], end: u64) {
        for record in records {
            let accepted = match self.config.is_of_dead_letters(destination) {
                true => self.audit.accept_letter(destination, &record.message),
                false => self.audit.accept(destination, &record.message),
            };
            if let Some((partition, sequence_number, times)) = self.check(accepted) {
                self.note(None, What::Accepted { destination, partition, sequence_number, times });
            }
        }
        let waiting = &mut self.destination[destination as usize].waiting;
        let answered = waiting.partition_point(|&(last, _)| last <= end);
        let sends: Vec<_> = waiting.drain(..answered).collect();
        let unanswered = self.config.faults.unanswered / 2.0;
        for (_, send) in sends {
            if self.goes_wrong(|random| &mut random.network, unanswered) {
                let process = self.sends[&send].process;
                self.break_soon(process, destination);
            } else {
                self.answer(send, Ok(()));
            }
        }
    }

    /// The hub answers a send, if anybody listens.
    fn answer(&mut self, send: u64, result: Result<(), SendError>) {
        let Some(sending) = self.sends.get(&send) else {
            return;
        };
        if sending.fate != Fate::Usual {
            return;
        }
        let (process, destination, token) = (sending.process, sending.destination, sending.token);
        let delay = self.network_ms();
        let now = self.now_ms();
        let connection = &mut self.process_mut(process).connections[destination as usize];
        connection.last_answer_ms = connection.last_answer_ms.max(now + delay);
        let arrival = connection.last_answer_ms;
        self.at(arrival, Event::OutcomeArrives { send, process, destination, token, result });
    }

    /// An outcome reaches the relay, unless the send has one already.
    pub(super) fn outcome_arrives(
        &mut self,
        send: u64,
        process: u32,
        destination: u32,
        token: SendToken,
        result: Result<(), SendError>,
    ) {
        let sink = destination / self.config.destinations;
        let state = self.process_mut(process);
        let connection = &mut state.connections[destination as usize];
        if !state.alive || connection.unanswered.remove(&send).is_none() {
            return;
        }
        let sink = state.sink_mut(sink);
        sink.unanswered -= 1;
        sink.outcomes.push_back(Outcome { send, token, result });
        if let Some(waker) = sink.waker.take() {
            waker.wake();
        }
    }

    /// The relay looks at an outcome.
    pub(crate) fn tell_outcome(&mut self, process: u32, outcome: &Outcome) {
        let told = match &outcome.result {
            Ok(()) => Told::Accepted,
            Err(error) if Refusal::of_condition(&error.condition).is_some() => Told::Refused,
            Err(_) => Told::Failed,
        };
        let send = outcome.send;
        self.note(Some(process), What::Outcome { send, accepted: told == Told::Accepted });
        let now = self.now_ms();
        if let Some(attempt) = self.sends.get(&send).and_then(|send| send.attempt.as_ref()) {
            self.audit.tell_outcome(send, attempt, told, now);
        }
    }

    /// A connection to a destination breaks: what has been sent last does not arrive, nothing is answered any more, and
    /// every send that waits for its outcome fails.
    pub(super) fn break_connection(&mut self, process: u32, destination: u32) {
        let now = self.now_ms();
        let noticed = now + self.network_ms();
        let connection = &mut self.process_mut(process).connections[destination as usize];
        connection.last_arrival_ms = now;
        connection.last_answer_ms = now;
        let unanswered: Vec<_> = connection.unanswered.iter().map(|(&send, &token)| (send, token)).collect();
        let arriving = self.random.faults.below(unanswered.len() as u64 + 1);
        for ((send, token), number) in unanswered.into_iter().zip(0..) {
            if let Some(sending) = self.sends.get_mut(&send) {
                sending.fate = if number < arriving { Fate::Unheard } else { Fate::Lost };
            }
            let error = SendError {
                class: ErrorClass::Retryable,
                condition: "amqp:connection:forced".to_owned(),
                description: "the connection broke".to_owned(),
            };
            self.at(noticed, Event::OutcomeArrives { send, process, destination, token, result: Err(error) });
        }
    }

    /// A process has died: some of what it sent last does not arrive.
    pub(super) fn lose_sends_of(&mut self, process: u32) {
        for destination in 0..self.config.all_destinations() {
            self.break_connection(process, destination);
        }
    }

    fn note_refused(&mut self, send: u64, destination: u32, why: &'static str) {
        self.note(None, What::Refused { send, destination, why });
    }
}
