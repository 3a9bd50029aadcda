//! What sentences call the things that a case carries.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::figure;

/// The noun of what is carried. Findings and reports take it as an argument.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Noun {
    /// Of event hubs.
    #[default]
    Events,
    /// Of queues and topics.
    Messages,
}

impl Noun {
    /// One of them.
    #[must_use]
    pub const fn one(self) -> &'static str {
        match self {
            Self::Events => "event",
            Self::Messages => "message",
        }
    }

    /// Several of them.
    #[must_use]
    pub const fn many(self) -> &'static str {
        match self {
            Self::Events => "events",
            Self::Messages => "messages",
        }
    }

    /// `1 event`, `2,000 messages`.
    #[must_use]
    pub fn counted(self, count: u64) -> String {
        figure::counted(count, self.one(), self.many())
    }

    /// `1,333 messages/s`.
    #[must_use]
    pub fn rate(self, per_s: f64) -> String {
        format!("{} {}/s", figure::rate(per_s), self.many())
    }
}

impl fmt::Display for Noun {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(self.many())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_and_rates_take_the_noun_in_its_number() {
        assert_eq!(Noun::Events.counted(1), "1 event");
        assert_eq!(Noun::Messages.counted(2_000), "2,000 messages");
        assert_eq!(Noun::Messages.rate(1_333.3), "1,333 messages/s");
    }
}
