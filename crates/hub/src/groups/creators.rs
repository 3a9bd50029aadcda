//! Groups by the principal that created them: the limit of each principal, and that of all.
//!
//! No principal has more than [`PER_PRINCIPAL_MAX`] groups, so that none can take all of them from the others. A group that is there
//! is always served. One that has neither members nor offsets is forgotten within two minutes and makes room.

use std::collections::HashMap;

use crate::namespace::Principal;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Creators {
    by_principal: HashMap<Principal, Created>,
    /// Requests refused because there was no room.
    pub(super) refused: u64,
}

#[derive(Debug, Default)]
struct Created {
    count: usize,
    has_warned: bool,
}

impl Creators {
    /// Returns whether this principal may create a group where there are `total`. If not, that is counted, and logged once.
    pub(super) fn has_room(&mut self, total: usize, principal: &Principal) -> bool {
        let created = self.by_principal.entry(principal.clone()).or_default();
        let is_at_limit = principal.is_limited() && created.count >= PER_PRINCIPAL_MAX;
        if !is_at_limit && total < GROUPS_MAX {
            return true;
        }
        if !std::mem::replace(&mut created.has_warned, true) {
            tracing::warn!(
                %principal,
                groups = created.count,
                total,
                "there are as many consumer groups as there may be: new ones are refused"
            );
        }
        self.refused += 1;
        false
    }

    /// Notes a new group.
    pub(super) fn add(&mut self, principal: &Principal) {
        self.by_principal.entry(principal.clone()).or_default().count += 1;
    }

    /// Notes that a group is gone.
    pub(super) fn remove(&mut self, principal: &Principal) {
        if let Some(created) = self.by_principal.get_mut(principal) {
            created.count -= 1;
            if created.count == 0 {
                self.by_principal.remove(principal);
            }
        }
    }
}

/// Groups of all principals together.
pub(super) const GROUPS_MAX: usize = 100_000;

/// Groups that one principal has created since the start.
pub(super) const PER_PRINCIPAL_MAX: usize = 20_000;
