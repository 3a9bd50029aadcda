//! Settling, and renewing locks.

use super::changes::Effects;
use super::error::QueueError;
use super::ledger::{Delivered, Ledger, Place};
use super::lock_end::LockEnd;
use super::lock_token::LockToken;
use super::page::{NO_SESSION, Page};
use super::pages::split;
use super::properties;
use super::requests::Settlement;
use super::session_lock::SessionLock;
use super::state::QueueState;

impl QueueState {
    /// Settles what these tokens stand for, and adds those that stand for nothing (any more) to `refused`. Returns how
    /// many were settled. Tokens of one page that follow each other share the way to it.
    pub(super) fn settle(
        &mut self,
        now: i64,
        tokens: &[LockToken],
        settlement: &Settlement<'_>,
        effects: &mut Effects,
        refused: &mut Vec<LockToken>,
    ) -> usize {
        let before = refused.len();
        let mut rest = tokens;
        while let Some(first) = rest.first() {
            let (number, _) = split(first.sequence_number);
            let run = rest.iter().take_while(|token| split(token.sequence_number).0 == number).count();
            let these;
            (these, rest) = rest.split_at(run);
            let ledger = &mut self.ledger;
            let found = self.pages.change(number, |page| {
                for token in these {
                    match held(ledger, page, now, token) {
                        Some(place) => settle_one(ledger, page, place, settlement, effects),
                        None => refused.push(*token),
                    }
                }
            });
            if found.is_none() {
                refused.extend_from_slice(these);
            }
        }
        tokens.len() - (refused.len() - before)
    }

    /// Whether each of these tokens stands for a message, so that [`settle`](Self::settle) would refuse none of them.
    ///
    /// # Errors
    /// The error of the first lost lock.
    pub(super) fn check_held(&self, now: i64, tokens: &[LockToken]) -> Result<(), QueueError> {
        let is_held = |token: &LockToken| {
            let page = self.pages.page(split(token.sequence_number).0)?;
            held(&self.ledger, page, now, token)
        };
        match tokens.iter().find(|token| is_held(token).is_none()) {
            None => Ok(()),
            Some(token) => Err(self.why_lost(now, token, None)),
        }
    }

    /// How many bytes the messages have that these tokens stand for.
    pub(super) fn bytes_of(&self, tokens: &[LockToken]) -> u64 {
        let length = |token: &LockToken| {
            let (number, position) = split(token.sequence_number);
            let page = self.pages.page(number).filter(|page| page.holds(position))?;
            Some(page.slot(position).size())
        };
        tokens.iter().filter_map(length).sum()
    }

    /// How many bytes more the messages will have, at most, that are settled like this.
    ///
    /// # Errors
    /// [`PropertiesTooLong`](QueueError::PropertiesTooLong): one of them would have too many.
    #[cold]
    pub(super) fn growth(
        &self,
        tokens: &[LockToken],
        settlement: &Settlement<'_>,
    ) -> Result<u64, QueueError> {
        let properties = settlement.properties();
        let length = properties::length(properties);
        let more = length + settlement.text_length();
        let mut growth = 0;
        for token in tokens {
            let (number, position) = split(token.sequence_number);
            let Some(page) = self.pages.page(number).filter(|page| page.holds(position)) else {
                continue;
            };
            let slot = page.slot(position);
            let bytes = page.bytes(slot).share();
            if !properties::fit(&bytes, slot.annotations_length, properties, length) {
                return Err(QueueError::PropertiesTooLong);
            }
            growth += more as u64;
        }
        Ok(growth)
    }

    /// Moves the messages that these tokens stand for to those that can't be forwarded.
    pub(super) fn refuse_forwarding(
        &mut self,
        now: i64,
        tokens: &[LockToken],
        texts: (&str, &str),
        effects: &mut Effects,
    ) {
        for token in tokens {
            let ledger = &mut self.ledger;
            self.pages.change(split(token.sequence_number).0, |page| {
                if let Some(place) = held(ledger, page, now, token) {
                    ledger.refuse_forwarding(page, place, texts, effects);
                }
            });
        }
    }

    /// Renews the locks that these tokens stand for.
    pub(super) fn renew(&mut self, now: i64, tokens: &[LockToken]) -> Vec<Result<LockEnd, QueueError>> {
        let until = now.saturating_add(self.ledger.policy.lock_duration);
        let renew = |token: &LockToken| {
            let ledger = &self.ledger;
            self.pages
                .change(split(token.sequence_number).0, |page| {
                    let place = held(ledger, page, now, token)?;
                    let slot = page.slot_mut(place.position);
                    if let Some(session) = ledger.sessions.get(slot.session) {
                        return Some(session.locked_until);
                    }
                    // The page is looked at when the lock was to end, and finds that it goes on.
                    slot.until = until;
                    Some(until)
                })
                .flatten()
                .map(LockEnd::from_milliseconds)
                .ok_or_else(|| self.why_lost(now, token, None))
        };
        tokens.iter().map(renew).collect()
    }

    /// Returns the error of a lost lock token, for the holder of this session lock if it is given. While the session is locked, the message
    /// is lost and not the session.
    #[cold]
    pub(super) fn why_lost(&self, now: i64, token: &LockToken, session: Option<&SessionLock>) -> QueueError {
        let is_locked = match session {
            _ if !self.ledger.policy.requires_session => true,
            Some(lock) => self.session_of(now, lock).is_ok(),
            // That of the message, as long as it is there.
            None => {
                let (number, position) = split(token.sequence_number);
                let page = self.pages.page(number).filter(|page| page.holds(position));
                let session = page.and_then(|page| self.ledger.sessions.get(page.slot(position).session));
                session.is_none_or(|session| session.nonce != 0 && session.locked_until > now)
            }
        };
        match is_locked {
            true => QueueError::MessageLockLost,
            false => QueueError::SessionLockLost,
        }
    }
}

/// The message that this token locks.
#[inline]
fn held(ledger: &Ledger, page: &Page, now: i64, token: &LockToken) -> Option<Place> {
    let (_, position) = split(token.sequence_number);
    if !page.holds(position) || token.nonce == 0 {
        return None;
    }
    let slot = page.slot(position);
    if slot.nonce != token.nonce || slot.until <= now {
        return None;
    }
    if slot.session != NO_SESSION {
        let session = ledger.sessions.get(slot.session)?;
        if session.locked_until <= now {
            return None;
        }
    }
    Some(Place { position, sequence_number: token.sequence_number })
}

#[inline]
fn settle_one(
    ledger: &mut Ledger,
    page: &mut Page,
    place: Place,
    settlement: &Settlement<'_>,
    effects: &mut Effects,
) {
    match settlement {
        Settlement::Complete => {
            ledger.counters.completed += 1;
            ledger.remove(page, place, effects);
        }
        other => settle_otherwise(ledger, page, place, other, effects),
    }
}

#[cold]
fn settle_otherwise(
    ledger: &mut Ledger,
    page: &mut Page,
    place: Place,
    settlement: &Settlement<'_>,
    effects: &mut Effects,
) {
    match *settlement {
        Settlement::Complete => {}
        Settlement::Release => ledger.unlock(page, place, Delivered::NotAtAll, effects),
        Settlement::Abandon { properties } => {
            ledger.counters.abandoned += 1;
            ledger.set_properties(page, place, properties, effects);
            ledger.unlock(page, place, Delivered::Failed, effects);
        }
        Settlement::Defer { properties } => {
            ledger.counters.deferred += 1;
            ledger.set_properties(page, place, properties, effects);
            ledger.defer(page, place, effects);
        }
        Settlement::DeadLetter { reason, description, properties } => {
            if ledger.policy.dead_letter_source.is_some() {
                ledger.set_properties(page, place, properties, effects);
                ledger.unlock(page, place, Delivered::Failed, effects);
                return;
            }
            let texts = (reason.unwrap_or_default(), description.unwrap_or_default());
            ledger.dead_letter(page, place, texts, properties, effects);
        }
    }
}
