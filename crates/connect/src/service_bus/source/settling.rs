//! Settlements: sent in ranges over the link, or through the management node where the link is gone.
//! Until then their locks are renewed.

use std::time::{Duration, Instant};

use amqp::performative::{DeliveryState, Error, ErrorCondition};
use amqp::{Symbol, Value};

use super::super::locks::LockToken;
use super::super::management_requests::{ManagementRequest, Outcome};
use super::ServiceBusSource;
use crate::service::ServiceError;
use crate::service::error::TIMEOUT;
use crate::source::{Settled, Settlement, SettlementResult, SourceEvent};

impl ServiceBusSource {
    /// Sends the settlements that are due, in ranges.
    pub(super) fn send_settlements(&mut self, now: Instant) {
        if self.due.is_empty() {
            return;
        }
        let Some(connection) = self.connection.up() else {
            return;
        };
        let session = connection.data();
        let locks = &mut self.locks;
        if !self.due.is_sorted_by_key(|&(id, _)| locks.place(id)) {
            self.due.sort_unstable_by_key(|&(id, _)| locks.place(id));
        }
        // Consecutive deliveries with the same outcome are sent together.
        let mut growing: Option<(u32, u32, Settlement)> = None;
        let mut propose = |(first, last, settlement)| {
            let outcome = outcome(settlement);
            connection.engine().propose_outcome(session, first, last, outcome);
        };
        for &(id, settlement) in &self.due {
            if !locks.sent(id, settlement, now) {
                continue;
            }
            self.unanswered += 1;
            match &mut growing {
                Some((_, last, of)) if last.wrapping_add(1) == id && *of == settlement => {
                    *last = id;
                }
                _ => {
                    if let Some(run) = growing.replace((id, id, settlement)) {
                        propose(run);
                    }
                }
            }
        }
        if let Some(run) = growing {
            propose(run);
        }
        self.due.clear();
        if self.unanswered > 0 && self.answers_due.is_none() {
            self.answers_due = Some(now + self.patience());
        }
    }

    /// Checks whether an answer is overdue: an unanswered settlement keeps its place among the messages in work.
    ///
    /// # Errors
    /// An answer is overdue. On another connection the management node can be asked instead.
    pub(super) fn check_answers(&mut self, now: Instant) -> Result<(), ServiceError> {
        let Some(planned) = self.answers_due.filter(|due| *due <= now) else {
            return Ok(());
        };
        if now.saturating_duration_since(planned) > OVERSLEPT {
            // This process was suspended, and the answers may be waiting to be read.
            self.answers_due = Some(now + OVERSLEPT);
            return Ok(());
        }
        let patience = self.patience();
        self.answers_due = self.locks.oldest_unanswered().map(|sent| sent + patience);
        match self.answers_due {
            Some(due) if due <= now => {
                self.answers_due = None;
                let description = format!("a settlement was not answered within {patience:?}");
                Err(ServiceError::of_connection(TIMEOUT, description))
            }
            _ => Ok(()),
        }
    }

    fn patience(&self) -> Duration {
        self.connection.endpoint().options.connect_timeout
    }

    /// The service has settled deliveries.
    pub(super) fn take_answer(&mut self, first: u32, last: u32, state: Option<&DeliveryState>) {
        let now = tokio::time::Instant::now().into_std();
        let Self { locks, events, unanswered, in_work, .. } = self;
        let mut run: Option<(Settlement, Instant, u32)> = None;
        let mut report = |(settlement, since, messages)| {
            events.push_back(SourceEvent::Settled(Settled {
                settlement,
                messages,
                result: result_of(settlement, state),
                elapsed: now.saturating_duration_since(since),
            }));
        };
        locks.answered(first, last, |settlement, since, lock| {
            *unanswered -= 1;
            *in_work -= u32::from(lock.in_work);
            match &mut run {
                Some((of, at, messages)) if *of == settlement && *at == since => *messages += 1,
                _ => {
                    if let Some(run) = run.replace((settlement, since, 1)) {
                        report(run);
                    }
                }
            }
        });
        if let Some(run) = run {
            report(run);
        }
    }

    /// Asks for locks that expire soon to hold longer.
    pub(super) fn renew(&mut self, now: Instant) {
        if self.next_renewal.is_none_or(|next| now < next) {
            return;
        }
        // What is due a little later goes along.
        let (due, next) = self.locks.take_due(now + RENEWED_TOGETHER);
        self.next_renewal = next;
        for locks in due.chunks(RENEWED_AT_ONCE) {
            self.requests.push(ManagementRequest::Renew(locks.to_vec()));
        }
    }

    pub(super) fn take_outcome(&mut self, outcome: Outcome, now: Instant) {
        let event = match outcome {
            Outcome::Renewed(locks) => {
                for &(id, remaining) in &locks {
                    if let Some(renew_at) = self.locks.renewed(id, now, remaining) {
                        let next = self.next_renewal.get_or_insert(renew_at);
                        *next = renew_at.min(*next);
                    }
                }
                SourceEvent::LocksRenewed { renewed: locks.len() as u32, failed: 0 }
            }
            Outcome::NotRenewed(failed) => SourceEvent::LocksRenewed { renewed: 0, failed },
            Outcome::Settled(settled) => {
                self.in_work -= settled.messages;
                SourceEvent::Settled(settled)
            }
        };
        self.events.push_back(event);
    }

    /// Has a message settled through the management node, as its link is gone.
    pub(super) fn settle_orphan(&mut self, token: LockToken, settlement: Settlement, now: Instant) {
        self.requests.push(ManagementRequest::Settle { settlement, token, since: now });
    }
}

/// A settlement as the outcome of a delivery.
fn outcome(settlement: Settlement) -> DeliveryState {
    match settlement {
        Settlement::Complete => DeliveryState::Accepted,
        Settlement::Abandon => DeliveryState::Modified {
            delivery_failed: true,
            undeliverable_here: false,
            annotations: Vec::new(),
        },
        Settlement::Release => DeliveryState::Released,
        Settlement::DeadLetter => {
            let text = |text: &str| Value::from(text);
            let mut error = Error::new(DEAD_LETTER.into(), "the message cannot be read");
            error.info = vec![
                (Symbol::from("DeadLetterReason"), text("Unreadable")),
                (Symbol::from("DeadLetterErrorDescription"), text("the message cannot be read")),
            ];
            DeliveryState::Rejected(Some(error))
        }
    }
}

/// What the service made of a settlement, by the state that it settled it with.
fn result_of(settlement: Settlement, state: Option<&DeliveryState>) -> SettlementResult {
    match state {
        Some(DeliveryState::Rejected(Some(error))) => {
            if error.condition == ErrorCondition::MESSAGE_LOCK_LOST {
                return SettlementResult::LockLost;
            }
            // A service may repeat why we made it a dead letter.
            if settlement == Settlement::DeadLetter {
                return SettlementResult::Confirmed;
            }
            tracing::warn!(%error, ?settlement, "the service refuses a settlement");
            SettlementResult::Failed
        }
        Some(DeliveryState::Rejected(None)) if settlement != Settlement::DeadLetter => {
            SettlementResult::DeadLettered
        }
        _ => SettlementResult::Confirmed,
    }
}

/// So long after its time a look at the answers says more about us than about the service.
const OVERSLEPT: Duration = Duration::from_secs(1);

/// Locks that are due within so long of one another are renewed together.
const RENEWED_TOGETHER: Duration = Duration::from_millis(500);

/// Locks that one request renews.
const RENEWED_AT_ONCE: usize = 256;

/// The condition with which a message becomes a dead letter.
const DEAD_LETTER: Symbol = Symbol::from_static("com.microsoft:dead-letter");
