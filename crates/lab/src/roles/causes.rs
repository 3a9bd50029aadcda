//! Logs each cause of errors once: a role that is refused a thousand times per second writes one line.

use std::collections::BTreeSet;
use std::fmt::Display;

/// The causes that were logged.
#[derive(Debug, Default)]
pub(super) struct Causes {
    logged: BTreeSet<String>,
}

impl Causes {
    /// Logs an error, unless one with this condition was logged before.
    #[cold]
    pub(super) fn warn(&mut self, condition: &str, error: &dyn Display, what: &str) {
        // Bounded, because a peer could name each of its errors differently.
        if self.logged.len() < CAUSES_MAX && !self.logged.contains(condition) {
            self.logged.insert(condition.to_owned());
            tracing::warn!(%error, "{what}; logged once");
        }
    }
}

const CAUSES_MAX: usize = 32;
