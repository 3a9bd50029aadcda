//! What goes wrong, once per cause: a role that is refused a thousand times a second has one line for it.

use std::collections::BTreeSet;
use std::fmt::Display;

/// The causes that the log has been told of.
#[derive(Debug, Default)]
pub(super) struct Causes {
    told: BTreeSet<String>,
}

impl Causes {
    /// Tells the log of an error, unless it knows the condition.
    #[cold]
    pub(super) fn tell(&mut self, condition: &str, error: &dyn Display, what: &str) {
        // A peer could name each of its errors differently.
        if self.told.len() < CAUSES_MAX && !self.told.contains(condition) {
            self.told.insert(condition.to_owned());
            tracing::warn!(%error, "{what}; the log has this once");
        }
    }
}

const CAUSES_MAX: usize = 32;
