//! Accepting sessions, and what comes with having one.

use super::changes::Effects;
use super::error::QueueError;
use super::ledger::Delivered;
use super::lock_end::LockEnd;
use super::sending::LARGEST_BATCH;
use super::session_lock::SessionLock;
use super::sessions::{Session, state_size};
use super::state::QueueState;
use std::sync::Arc;

impl QueueState {
    /// Locks a session: this one, or the next one that can be.
    pub(super) fn accept_session(
        &mut self,
        now: i64,
        id: Option<&str>,
        effects: &mut Effects,
    ) -> Result<Option<SessionLock>, QueueError> {
        if !self.ledger.policy.requires_session {
            return Err(QueueError::NoSessions);
        }
        let place = match id {
            Some(id) => self.ledger.sessions.place_of(id),
            None => match self.ledger.sessions.first_acceptable() {
                Some(place) => place,
                None => return Ok(None),
            },
        };
        let session = self.ledger.sessions.get(place);
        if session.is_some_and(|session| session.nonce != 0) {
            if session.is_some_and(|session| session.locked_until > now) {
                return Err(QueueError::SessionCannotBeLocked);
            }
            // So many have ended at once that nobody has come to this one yet.
            self.end_session_lock(place, Delivered::Failed, effects);
        }
        // It may have been there for its lock alone.
        let place = match id {
            Some(id) => self.ledger.sessions.place_of(id),
            None => place,
        };
        let nonce = self.ledger.nonce();
        let until = now.saturating_add(self.ledger.policy.lock_duration);
        self.ledger.change_session(place, effects, |session| {
            session.nonce = nonce;
            session.locked_until = until;
        });
        Ok(self.ledger.sessions.get(place).map(|session| SessionLock {
            id: Arc::clone(&session.id),
            place,
            nonce,
            locked_until: LockEnd::from_milliseconds(until),
        }))
    }

    /// Where the session is, if the lock still holds.
    pub(super) fn session_of(&self, now: i64, lock: &SessionLock) -> Result<u32, QueueError> {
        let session = self.ledger.sessions.get(lock.place);
        let holds = session.is_some_and(|session| session.nonce == lock.nonce && session.locked_until > now);
        match holds {
            true => Ok(lock.place),
            false => Err(QueueError::SessionLockLost),
        }
    }

    /// Ends a lock by its holder's will.
    pub(super) fn release_session(&mut self, lock: &SessionLock, effects: &mut Effects) {
        let session = self.ledger.sessions.get(lock.place);
        if session.is_some_and(|session| session.nonce == lock.nonce) {
            self.end_session_lock(lock.place, Delivered::NotAtAll, effects);
        }
    }

    /// Renews the lock of a session that is locked.
    pub(super) fn renew_session(
        &mut self,
        now: i64,
        id: &str,
        effects: &mut Effects,
    ) -> Result<LockEnd, QueueError> {
        let place = self.locked_session(now, id)?;
        let until = now.saturating_add(self.ledger.policy.lock_duration);
        self.ledger.change_session(place, effects, |session| {
            session.locked_until = until;
        });
        Ok(LockEnd::from_milliseconds(until))
    }

    /// The state of a session that is locked.
    pub(super) fn session_state(&self, now: i64, id: &str) -> Result<Option<Vec<u8>>, QueueError> {
        let place = self.locked_session(now, id)?;
        let session = self.ledger.sessions.get(place);
        Ok(session.and_then(|session| session.state.as_deref().map(<[u8]>::to_vec)))
    }

    /// Checks that the state of a session may be set, and returns the growth of the entity in bytes.
    ///
    /// # Errors
    /// [`SessionLockLost`](QueueError::SessionLockLost), [`TooLong`](QueueError::TooLong).
    pub(super) fn check_session_state(
        &self,
        now: i64,
        id: &str,
        state: Option<&[u8]>,
    ) -> Result<u64, QueueError> {
        self.locked_session(now, id)?;
        if state.is_some_and(|state| state.len() as u64 > LARGEST_BATCH) {
            return Err(QueueError::TooLong);
        }
        Ok(self.state_growth(id, kept(state)))
    }

    /// Sets the state of a session that exists, or removes it.
    pub(super) fn set_session_state(
        &mut self,
        now: i64,
        id: &str,
        state: Option<&[u8]>,
        effects: &mut Effects,
    ) {
        if let Some(place) = self.ledger.sessions.find(id) {
            self.ledger.set_session_state(place, kept(state).map(Into::into), now, effects);
        }
    }

    /// What setting a state would add to the size.
    fn state_growth(&self, id: &str, state: Option<&[u8]>) -> u64 {
        let place = self.ledger.sessions.find(id);
        let session = place.and_then(|place| self.ledger.sessions.get(place));
        state_size(id, state).saturating_sub(session.map_or(0, Session::state_size))
    }

    /// Where a session is that is locked by anybody.
    pub(super) fn locked_session(&self, now: i64, id: &str) -> Result<u32, QueueError> {
        let place = self.ledger.sessions.find(id);
        place
            .filter(|place| {
                let session = self.ledger.sessions.get(*place);
                session.is_some_and(|session| session.nonce != 0 && session.locked_until > now)
            })
            .ok_or(QueueError::SessionLockLost)
    }

    /// The names of the sessions that have messages or a state.
    pub(super) fn session_names(&self, skip: usize, top: usize) -> Vec<String> {
        self.ledger
            .sessions
            .iter()
            .filter(|session| session.messages > 0 || session.state.is_some())
            .skip(skip)
            .take(top)
            .map(|session| session.id.to_string())
            .collect()
    }

    /// The names of the sessions whose state was set after an instant.
    pub(super) fn names_by_state(&self, after: i64, skip: usize, top: usize) -> Vec<String> {
        self.ledger
            .sessions
            .iter()
            .filter(|session| session.state.is_some() && session.state_set_at > after)
            .skip(skip)
            .take(top)
            .map(|session| session.id.to_string())
            .collect()
    }
}

/// Returns the state to store: clients clear it by setting an empty one.
fn kept(state: Option<&[u8]>) -> Option<&[u8]> {
    state.filter(|state| !state.is_empty())
}
