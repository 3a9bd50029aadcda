//! From the outcomes of receivers to the store, and back as answers. Hot path.
//!
//! Outcomes that come one after the other, for one link and alike, are settled in one call, so under one lock, whatever
//! their order. The answers go out in ranges: the same outcome as was given, or that the lock is lost.
//!
//! | outcome | what becomes of the message | answered by |
//! |---|---|---|
//! | accepted | completed | accepted |
//! | modified | abandoned: available again, one failed delivery more | modified |
//! | modified, undeliverable here | deferred | modified |
//! | rejected | dead-lettered | rejected without error |
//! | released | available again | released |

use std::cell::RefCell;

use amqp::codec::{Symbol, Value, write};
use amqp::performative::{DeliveryState, Error, ErrorCondition};

use super::conditions;
use crate::front::amqp::links::outcomes::{OutcomeAnswer, Proposal};
use partition_log::UnixTime;
use partition_log::disk::CommitNumber;
use queue_store::{LockToken, Queue, QueueError, SessionLock, Settlement};

/// Settles what `queue` delivered, each by its delivery id, ascending, and its token, to a receiver that has this lock of a session, if it
/// has one. `answer` gets the answers to the receiver, if it waits for any.
pub(crate) fn settle(
    (queue, session): (&Queue, Option<&SessionLock>),
    now: UnixTime,
    proposal: &Proposal,
    deliveries: &[(u32, LockToken)],
    mut answer: impl FnMut(OutcomeAnswer),
) {
    let settled = TOKENS.with_borrow_mut(|tokens| {
        tokens.clear();
        tokens.extend(deliveries.iter().map(|(_, token)| *token));
        apply(queue, now, tokens, &proposal.state)
    });
    if !proposal.wants_answer {
        return;
    }
    match settled {
        Ok(settled) => {
            let mut refused = settled.refused.iter().peekable();
            let outcomes = deliveries.iter().map(|(id, token)| {
                let refused = refused.next_if(|refused| *refused == token);
                (*id, refused.map(|token| queue.why_lost(now, token, session)))
            });
            each_run(outcomes, |first, last, why_lost| {
                let (state, commit) = match why_lost {
                    None => (answer_to(&proposal.state), settled.commit),
                    Some(why) => (conditions::rejected(&why), CommitNumber::DONE),
                };
                answer(OutcomeAnswer { first, last, state, commit, is_settled: true });
            });
        }
        Err(error) => {
            each_run(deliveries.iter().map(|(id, _)| (*id, true)), |first, last, _| {
                let state = conditions::rejected(&error);
                let commit = CommitNumber::DONE;
                answer(OutcomeAnswer { first, last, state, commit, is_settled: true });
            });
        }
    }
}

thread_local! {
    /// Filled for each call. One for all connections of a thread: a connection at rest is to hold little.
    static TOKENS: RefCell<Vec<LockToken>> = RefCell::default();
}

/// Calls `each` for the runs of consecutive ids that have the same value, which is nearly always one of all.
#[inline]
pub(super) fn each_run<T: Copy + PartialEq>(
    ids: impl Iterator<Item = (u32, T)>,
    mut each: impl FnMut(u32, u32, T),
) {
    let mut growing: Option<(u32, u32, T)> = None;
    for (id, value) in ids {
        match &mut growing {
            Some((_, last, of)) if last.checked_add(1) == Some(id) && *of == value => *last = id,
            _ => {
                if let Some((first, last, of)) = growing.replace((id, id, value)) {
                    each(first, last, of);
                }
            }
        }
    }
    if let Some((first, last, of)) = growing {
        each(first, last, of);
    }
}

/// What a receiver is told about deliveries that are not its own, or not any more.
pub(crate) fn unknown_delivery() -> DeliveryState {
    DeliveryState::Rejected(Some(Error::new(
        ErrorCondition::MESSAGE_LOCK_LOST,
        conditions::MESSAGE_LOCK_LOST,
    )))
}

fn apply(
    queue: &Queue,
    now: UnixTime,
    tokens: &[LockToken],
    state: &DeliveryState,
) -> Result<queue_store::Settled, QueueError> {
    match state {
        DeliveryState::Accepted => queue.settle(now, tokens, &Settlement::Complete),
        other => queue.settle(now, tokens, &Decision::of(other).settlement()),
    }
}

/// What a receiver has decided about messages, in its own memory.
#[derive(Debug)]
pub(super) enum Decision {
    Complete,
    Release,
    Abandon { properties: Vec<(String, Value)> },
    Defer { properties: Vec<(String, Value)> },
    DeadLetter { reason: Option<String>, description: Option<String>, properties: Vec<(String, Value)> },
}

impl Decision {
    /// What an outcome means. One of a transaction means what it would mean without.
    pub(super) fn of(outcome: &DeliveryState) -> Self {
        match outcome {
            DeliveryState::Accepted => Self::Complete,
            DeliveryState::Released | DeliveryState::Received | DeliveryState::Declared(_) => Self::Release,
            DeliveryState::Modified { undeliverable_here: true, annotations, .. } => {
                Self::Defer { properties: properties(annotations) }
            }
            DeliveryState::Modified { annotations, .. } => {
                Self::Abandon { properties: properties(annotations) }
            }
            DeliveryState::Rejected(error) => {
                let info = error.as_ref().map_or(&[][..], |error| &error.info);
                let mut properties = properties(info);
                let (reason, description) =
                    (take_text(&mut properties, REASON), take_text(&mut properties, DESCRIPTION));
                Self::DeadLetter { reason, description, properties }
            }
            DeliveryState::Transactional { outcome, .. } => {
                outcome.as_deref().map_or(Self::Release, Self::of)
            }
        }
    }

    /// The same as the store takes it.
    pub(super) fn settlement(&self) -> Settlement<'_> {
        match self {
            Self::Complete => Settlement::Complete,
            Self::Release => Settlement::Release,
            Self::Abandon { properties } => Settlement::Abandon { properties },
            Self::Defer { properties } => Settlement::Defer { properties },
            Self::DeadLetter { reason, description, properties } => Settlement::DeadLetter {
                reason: reason.as_deref(),
                description: description.as_deref(),
                properties,
            },
        }
    }

    /// About how many bytes it holds.
    pub(super) fn bytes(&self) -> usize {
        let properties = match self {
            Self::Complete | Self::Release => return 0,
            Self::Abandon { properties }
            | Self::Defer { properties }
            | Self::DeadLetter { properties, .. } => properties,
        };
        let mut encoded = Vec::new();
        for (name, value) in properties {
            write::string(&mut encoded, name);
            write::value(&mut encoded, value);
        }
        let texts = match self {
            Self::DeadLetter { reason, description, .. } => [reason, description],
            _ => [&None, &None],
        };
        encoded.len() + texts.iter().filter_map(|text| text.as_ref().map(String::len)).sum::<usize>()
    }
}

/// Removes and returns the property `name` if it is a string. A value of another type stays.
pub(super) fn take_text(properties: &mut Vec<(String, Value)>, name: &str) -> Option<String> {
    let at = properties.iter().position(|(found, value)| found == name && value.as_text().is_some())?;
    properties.remove(at).1.as_text().map(str::to_owned)
}

fn properties(annotations: &[(Symbol, Value)]) -> Vec<(String, Value)> {
    let entries = annotations.iter();
    entries.map(|(name, value)| (name.as_str().to_owned(), value.clone())).collect()
}

/// Clients compare the kind of outcome, and take any error in it for a failure.
pub(super) fn answer_to(state: &DeliveryState) -> DeliveryState {
    match state {
        DeliveryState::Accepted => DeliveryState::Accepted,
        DeliveryState::Rejected(_) => DeliveryState::Rejected(None),
        DeliveryState::Modified { delivery_failed, undeliverable_here, .. } => DeliveryState::Modified {
            delivery_failed: *delivery_failed,
            undeliverable_here: *undeliverable_here,
            annotations: Vec::new(),
        },
        DeliveryState::Released | DeliveryState::Received | DeliveryState::Declared(_) => {
            DeliveryState::Released
        }
        DeliveryState::Transactional { transaction, outcome } => DeliveryState::Transactional {
            transaction: *transaction,
            outcome: outcome.as_deref().map(answer_to).map(Box::new),
        },
    }
}

/// Where a receiver puts the reason of a dead letter.
pub(super) const REASON: &str = "DeadLetterReason";

/// Where it puts the description.
pub(super) const DESCRIPTION: &str = "DeadLetterErrorDescription";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_end_where_ids_leave_some_out_or_the_value_changes() {
        let mut runs = Vec::new();
        let ids = [(1, false), (2, false), (3, true), (4, false), (6, false), (u32::MAX, false)];
        each_run(ids.into_iter(), |first, last, value| {
            runs.push((first, last, value));
        });
        let expected =
            [(1, 2, false), (3, 3, true), (4, 4, false), (6, 6, false), (u32::MAX, u32::MAX, false)];
        assert_eq!(runs, expected);
        each_run(std::iter::empty::<(u32, ())>(), |_, _, ()| panic!("there is none"));
    }
}
