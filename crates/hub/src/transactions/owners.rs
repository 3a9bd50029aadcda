//! Transactional ids by the principal that created them: the limits, and the idle ones that make room for new ones.
//!
//! No principal has more than [`PER_PRINCIPAL_MAX`] ids, so that none can take all of them from the others. At a limit the id that has
//! been idle for the longest time is forgotten, as it would be after its expiration. An id with an open transaction is not idle.

use std::collections::{BTreeSet, HashMap};

use crate::namespace::Principal;

/// The principal that created an id; `None` if a restart was in between.
pub(super) type Owner = Option<Principal>;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Owners {
    by_owner: HashMap<Owner, Owned>,
    total: usize,
}

#[derive(Debug, Default)]
struct Owned {
    count: usize,
    /// Idle ids, by the time of their last change in milliseconds since 1970.
    idle: BTreeSet<(i64, String)>,
    has_warned: bool,
}

/// Outcome of a request for room.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Room {
    /// There is room.
    Free,
    /// There is room when this id is forgotten.
    Forget(String),
    /// There is none: all ids that could make room are in use.
    None,
}

impl Owners {
    /// Returns whether there is room for one more id of this owner.
    pub(super) fn room(&mut self, owner: &Owner) -> Room {
        let owned = self.by_owner.get(owner);
        let is_limited = owner.as_ref().is_some_and(Principal::is_limited);
        let is_at_limit = is_limited && owned.is_some_and(|owned| owned.count >= PER_PRINCIPAL_MAX);
        if !is_at_limit && self.total < IDS_MAX {
            return Room::Free;
        }
        let crowded = match is_at_limit {
            true => Some(owner.clone()),
            // The principal with the most ids makes room, not the one with the oldest.
            false => {
                let idle = self.by_owner.iter().filter(|(_, owned)| !owned.idle.is_empty());
                idle.max_by_key(|(_, owned)| owned.count).map(|(owner, _)| owner.clone())
            }
        };
        let owned = crowded.as_ref().and_then(|crowded| self.by_owner.get_mut(crowded));
        let Some(owned) = owned else {
            return Room::None;
        };
        if !std::mem::replace(&mut owned.has_warned, true) {
            let principal = crowded.flatten().map_or_else(|| "unknown".to_owned(), |it| it.to_string());
            tracing::warn!(
                principal,
                transactional_ids = owned.count,
                "there are as many transactional ids as there may be: those idle for longest are forgotten"
            );
        }
        owned.idle.first().map_or(Room::None, |(_, id)| Room::Forget(id.clone()))
    }

    /// Adds an id, which is idle since then, or in use.
    pub(super) fn add(&mut self, owner: &Owner, id: &str, idle_since: Option<i64>) {
        self.total += 1;
        let owned = self.by_owner.entry(owner.clone()).or_default();
        owned.count += 1;
        owned.idle.extend(idle_since.map(|since| (since, id.to_owned())));
    }

    /// Notes that an id is idle since another time, or in use.
    pub(super) fn change(&mut self, owner: &Owner, id: &str, before: Option<i64>, idle_since: Option<i64>) {
        if let Some(owned) = self.by_owner.get_mut(owner).filter(|_| before != idle_since) {
            if let Some(before) = before {
                owned.idle.remove(&(before, id.to_owned()));
            }
            owned.idle.extend(idle_since.map(|since| (since, id.to_owned())));
        }
    }

    /// Removes an id.
    pub(super) fn remove(&mut self, owner: &Owner, id: &str, idle_since: Option<i64>) {
        self.change(owner, id, idle_since, None);
        self.total -= 1;
        if let Some(owned) = self.by_owner.get_mut(owner) {
            owned.count -= 1;
            if owned.count == 0 {
                self.by_owner.remove(owner);
            }
        }
    }
}

/// Transactional ids of all principals together.
pub(super) const IDS_MAX: usize = 100_000;

/// Transactional ids that one principal has created.
pub(super) const PER_PRINCIPAL_MAX: usize = 20_000;
