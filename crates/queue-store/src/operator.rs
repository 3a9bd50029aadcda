//! What an operator does to a queue: look at locks and sessions, find a place in it, remove messages, send dead letters again.
//!
//! None of it needs a lock of a message, and none of it touches a message that a receiver has locked.

use super::entity::EntityState;
use super::error::QueueError;
use super::ledger::{DESCRIPTION, Place, REASON};
use super::lock_end::LockEnd;
use super::message::{Deliveries, NewMessage};
use super::page::{NO_SESSION, Slot};
use super::pages::{join, split};
use super::queue::{Queue, Role};
use super::rules::MessageProperties;
use super::sending::Numbers;
use super::sessions::Session;
use super::state::QueueState;
use partition_log::UnixTime;
use partition_log::disk::CommitNumber;

/// What removing messages, or sending them again, achieved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Removed {
    /// How many messages have left the queue.
    pub count: usize,
    /// The others, in the order of the call: there is no such message, or a receiver has locked it.
    pub refused: Vec<u64>,
    /// What the answer has to wait for.
    pub commit: CommitNumber,
}

/// What one step of purging achieved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Purged {
    /// How many messages were removed.
    pub count: usize,
    /// How many of those that were looked at stay, since receivers have locked them.
    pub locked: usize,
    /// Where to go on; `None` when everything has been looked at.
    pub next: Option<u64>,
    /// What the answer has to wait for.
    pub commit: CommitNumber,
}

/// A session as it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionDescription {
    /// Its name.
    pub id: String,
    /// How many messages it has, whatever their state.
    pub messages: u64,
    /// Those of them that wait for a receiver.
    pub available: u64,
    /// Until when a receiver has locked it; `None` if none has.
    pub locked_until: Option<LockEnd>,
    /// Bytes of its state; `None` if it has none.
    pub state_bytes: Option<usize>,
}

impl Queue {
    /// The number of the message that has `index` messages before it, in the order in which [`peek`](Self::peek) shows them.
    #[must_use]
    pub fn number_at(&self, index: u64) -> Option<u64> {
        self.look(|state| state.queues[self.place].number_at(index))
    }

    /// The numbers of all messages that are there now, in their order.
    #[must_use]
    pub fn numbers(&self) -> Vec<u64> {
        self.look(|state| state.queues[self.place].numbers(0).collect())
    }

    /// Until when each of these messages is locked; `None` for one that is not.
    #[must_use]
    pub fn locks(&self, sequence_numbers: impl IntoIterator<Item = u64>) -> Vec<Option<LockEnd>> {
        self.look(|state| {
            let queue = &state.queues[self.place];
            sequence_numbers.into_iter().map(|number| queue.locked_until(number)).collect()
        })
    }

    /// The sessions that have messages or a state, or are locked, in the order of their names: `top` of them after the first
    /// `skip`.
    #[must_use]
    pub fn describe_sessions(&self, skip: usize, top: usize) -> Vec<SessionDescription> {
        self.look(|state| {
            let sessions = state.queues[self.place].ledger.sessions.iter().skip(skip).take(top);
            sessions.map(SessionDescription::of).collect()
        })
    }

    /// Removes messages, each by itself, whether they are available, deferred or scheduled.
    ///
    /// # Errors
    /// [`Deleted`](QueueError::Deleted) or [`Unavailable`](QueueError::Unavailable): nothing was removed.
    pub fn remove(&self, now: UnixTime, sequence_numbers: &[u64]) -> Result<Removed, QueueError> {
        let ((count, refused), commit) = self.operate(now, |state, _now| {
            let mut refused = Vec::new();
            for &number in sequence_numbers {
                if !remove(state, self.place, number) {
                    refused.push(number);
                }
            }
            Ok((sequence_numbers.len() - refused.len(), refused))
        })?;
        Ok(Removed { count, refused, commit })
    }

    /// Removes the messages from number `from` on to before `before` that no receiver has locked, at most `messages` of them:
    /// a step of a purge, after which others have their turn.
    ///
    /// # Errors
    /// [`Deleted`](QueueError::Deleted) or [`Unavailable`](QueueError::Unavailable): nothing was removed.
    pub fn purge(
        &self,
        now: UnixTime,
        from: u64,
        before: u64,
        messages: usize,
    ) -> Result<Purged, QueueError> {
        let (purged, commit) = self.operate(now, |state, _now| {
            let (numbers, next) = {
                let mut held = state.queues[self.place].numbers(from).take_while(|number| *number < before);
                let numbers: Vec<u64> = held.by_ref().take(messages).collect();
                (numbers, held.next())
            };
            let count = numbers.iter().filter(|number| remove(state, self.place, **number)).count();
            Ok(Purged { count, locked: numbers.len() - count, next, commit: CommitNumber::DONE })
        })?;
        Ok(Purged { commit, ..purged })
    }

    /// Sends dead letters to where they were sent before: to their queue, or to the topic of their subscription, whose rules
    /// apply anew. They leave the dead letters in the same moment. What says why they were given up is taken off, their time to
    /// live is what the entity gives, and they are not taken for duplicates of themselves.
    ///
    /// # Errors
    /// [`Full`](QueueError::Full), [`TooLong`](QueueError::TooLong), [`SessionIdMissing`](QueueError::SessionIdMissing),
    /// [`Disabled`](QueueError::Disabled), [`Deleted`](QueueError::Deleted) or [`Unavailable`](QueueError::Unavailable); and
    /// [`SendingNotAllowed`](QueueError::SendingNotAllowed) where there are no dead letters. All stay then.
    pub fn resubmit(&self, now: UnixTime, sequence_numbers: &[u64]) -> Result<Removed, QueueError> {
        if self.role != Role::DeadLetters {
            return Err(QueueError::SendingNotAllowed);
        }
        let ((count, refused), commit) = self.operate(now, |state, now| {
            let status = state.status();
            if !status.may_send() {
                return Err(QueueError::Disabled(status));
            }
            let mut letters = Letters::default();
            for &number in sequence_numbers {
                letters.add(&state.queues[self.place], number);
            }
            letters.send(state, now)?;
            for &number in &letters.numbers {
                remove(state, self.place, number);
            }
            Ok((letters.numbers.len(), letters.refused))
        })?;
        Ok(Removed { count, refused, commit })
    }
}

impl SessionDescription {
    fn of(session: &Session) -> Self {
        Self {
            id: session.id.to_string(),
            messages: session.messages,
            available: session.ready.len() as u64,
            locked_until: (session.nonce != 0).then(|| LockEnd::from_milliseconds(session.locked_until)),
            state_bytes: session.state.as_ref().map(|state| state.len()),
        }
    }
}

/// Dead letters that are to be sent again.
#[derive(Default)]
struct Letters {
    numbers: Vec<u64>,
    refused: Vec<u64>,
    deliveries: Deliveries,
}

impl Letters {
    fn add(&mut self, queue: &QueueState, number: u64) {
        let is_free = queue.slot(number).is_some_and(|slot| !slot.stage.is_locked());
        if !is_free || self.numbers.contains(&number) {
            self.refused.push(number);
            return;
        }
        self.numbers.push(number);
        queue.peek(number, 1, usize::MAX, None, &mut self.deliveries);
    }

    fn send(&self, state: &mut EntityState, now: i64) -> Result<(), QueueError> {
        let letters: Vec<(Vec<u8>, Option<String>)> =
            self.deliveries.iter().map(|delivery| without_reason(delivery.sections)).collect();
        let sections: Vec<[&[u8]; 1]> = letters.iter().map(|(sections, _)| [&sections[..]]).collect();
        let messages: Vec<NewMessage<'_>> = self
            .deliveries
            .iter()
            .zip(&letters)
            .zip(&sections)
            .map(|((delivery, (_, session_id)), sections)| NewMessage {
                sections,
                annotation_count: delivery.annotation_count,
                annotations: delivery.annotations,
                session_id: session_id.as_deref(),
                ..NewMessage::default()
            })
            .collect();
        state.send(now, &messages, Numbers::Unwanted).map(drop)
    }
}

impl QueueState {
    /// The numbers of the messages that are held, from this one on.
    fn numbers(&self, from: u64) -> impl Iterator<Item = u64> {
        let numbers = self.pages.from(split(from).0);
        let numbers = numbers.flat_map(|(number, page)| page.positions().map(move |at| join(number, at)));
        numbers.skip_while(move |number| *number < from)
    }

    fn number_at(&self, index: u64) -> Option<u64> {
        let mut before = index;
        for (number, page) in self.pages.from(0) {
            let held = u64::from(page.live.count_ones());
            if before < held {
                return page.positions().nth(before as usize).map(|position| join(number, position));
            }
            before -= held;
        }
        None
    }

    fn slot(&self, sequence_number: u64) -> Option<&Slot> {
        let (number, position) = split(sequence_number);
        let page = self.pages.page(number).filter(|page| page.holds(position))?;
        Some(page.slot(position))
    }

    fn locked_until(&self, sequence_number: u64) -> Option<LockEnd> {
        let slot = self.slot(sequence_number).filter(|slot| slot.stage.is_locked())?;
        let until = match slot.session {
            NO_SESSION => slot.until,
            session => self.ledger.sessions.get(session)?.locked_until,
        };
        Some(LockEnd::from_milliseconds(until))
    }
}

/// Removes a message unless a receiver has locked it. Whether it did.
fn remove(state: &mut EntityState, place: usize, sequence_number: u64) -> bool {
    let EntityState { queues, effects, .. } = state;
    let QueueState { pages, ledger, .. } = &mut queues[place];
    let (number, position) = split(sequence_number);
    let removed = pages.change(number, |page| {
        let is_free = page.holds(position) && !page.slot(position).stage.is_locked();
        if is_free {
            ledger.remove(page, Place { position, sequence_number }, effects);
        }
        is_free
    });
    removed.unwrap_or(false)
}

/// A message without what says why it was given up, and its session. What can't be read stays as it is.
fn without_reason(sections: &[u8]) -> (Vec<u8>, Option<String>) {
    let Ok(mut properties) = MessageProperties::decode(sections) else {
        return (sections.to_vec(), None);
    };
    let has_reason = [REASON, DESCRIPTION].iter().any(|name| properties.find(name).is_some());
    properties.remove(REASON);
    properties.remove(DESCRIPTION);
    let rewritten = match has_reason {
        true => properties.rewrite(sections).unwrap_or_else(|_| sections.to_vec()),
        false => sections.to_vec(),
    };
    (rewritten, properties.standard.group_id)
}
