//! The sessions of one queue: who has locked them, and which messages of theirs are available.
//!
//! A session exists while it has messages or a state, or is locked.

use super::page::NEVER;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Sessions {
    places: Vec<Option<Session>>,
    free: Vec<u32>,
    by_id: BTreeMap<Arc<str>, u32>,
    /// Those that can be accepted: with available messages, and not locked. In the order in which they became so.
    acceptable: BTreeSet<(u64, u32)>,
    last_order: u64,
    /// The ends of locks.
    deadlines: BTreeSet<(i64, u32)>,
}

/// One session.
#[derive(Debug)]
pub(super) struct Session {
    pub(super) id: Arc<str>,
    /// How many messages it has, whatever their stage.
    pub(super) messages: u64,
    /// The available ones.
    pub(super) ready: BTreeSet<u64>,
    /// Those that the receiver has locked.
    pub(super) locked: BTreeSet<u64>,
    /// 0 if nobody has locked it.
    pub(super) nonce: u64,
    pub(super) locked_until: i64,
    pub(super) state: Option<Box<[u8]>>,
    /// When its state was last set.
    pub(super) state_set_at: i64,
    /// The waiter of whoever has locked it.
    pub(super) waiter: Option<usize>,
    /// Its place in the order of those that can be accepted; 0 if it can't be.
    order: u64,
}

impl Sessions {
    /// Where the session of this name is; it is made if there is none.
    pub(super) fn place_of(&mut self, id: &str) -> u32 {
        if let Some(place) = self.by_id.get(id) {
            return *place;
        }
        let id: Arc<str> = id.into();
        let session = Session {
            id: Arc::clone(&id),
            messages: 0,
            ready: BTreeSet::new(),
            locked: BTreeSet::new(),
            nonce: 0,
            locked_until: NEVER,
            state: None,
            state_set_at: 0,
            waiter: None,
            order: 0,
        };
        let place = match self.free.pop() {
            Some(place) => {
                self.places[place as usize] = Some(session);
                place
            }
            None => {
                self.places.push(Some(session));
                self.places.len() as u32 - 1
            }
        };
        self.by_id.insert(id, place);
        place
    }

    /// Where the session of this name is.
    pub(super) fn find(&self, id: &str) -> Option<u32> {
        self.by_id.get(id).copied()
    }

    pub(super) fn get(&self, place: u32) -> Option<&Session> {
        self.places.get(place as usize)?.as_ref()
    }

    /// Changes a session that exists, and keeps the order of those that can be accepted. Whether it has become one of
    /// them just now.
    pub(super) fn change(&mut self, place: u32, change: impl FnOnce(&mut Session)) -> bool {
        let Some(Some(session)) = self.places.get_mut(place as usize) else {
            return false;
        };
        let deadline = session.deadline();
        change(session);
        if session.deadline() != deadline {
            self.deadlines.remove(&(deadline, place));
            if session.nonce != 0 {
                self.deadlines.insert((session.locked_until, place));
            }
        }
        let is_acceptable = session.nonce == 0 && !session.ready.is_empty();
        let was_acceptable = session.order != 0;
        match (was_acceptable, is_acceptable) {
            (false, true) => {
                self.last_order += 1;
                session.order = self.last_order;
                self.acceptable.insert((session.order, place));
            }
            (true, false) => {
                self.acceptable.remove(&(session.order, place));
                session.order = 0;
            }
            (true, true) | (false, false) => {}
        }
        if session.messages == 0 && session.nonce == 0 && session.state.is_none() {
            self.by_id.remove(&session.id);
            self.places[place as usize] = None;
            self.free.push(place);
        }
        is_acceptable && !was_acceptable
    }

    /// The session that could be accepted for the longest time.
    pub(super) fn first_acceptable(&self) -> Option<u32> {
        self.acceptable.first().map(|(_order, place)| *place)
    }

    /// The lock that ends first, and when.
    pub(super) fn first_deadline(&self) -> Option<(i64, u32)> {
        self.deadlines.first().copied()
    }

    /// All sessions in the order of their names.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Session> {
        self.by_id.values().filter_map(|place| self.get(*place))
    }
}

impl Session {
    fn deadline(&self) -> i64 {
        match self.nonce {
            0 => NEVER,
            _ => self.locked_until,
        }
    }

    /// What its state counts towards a size limit.
    pub(super) fn state_size(&self) -> u64 {
        state_size(&self.id, self.state.as_deref())
    }
}

/// What a state counts towards a size limit.
pub(super) fn state_size(id: &str, state: Option<&[u8]>) -> u64 {
    state.map_or(0, |state| (id.len() + state.len()) as u64 + super::options::MESSAGE_OVERHEAD)
}
