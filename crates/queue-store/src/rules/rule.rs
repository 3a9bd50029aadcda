//! One rule: a name, a filter and what is done to what matches.

use super::correlation::CorrelationFilter;
use super::message::MessageProperties;
use super::sql::{SqlAction, SqlFilter};
use serde::{Deserialize, Serialize};

/// A rule of a subscription.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rule {
    /// Its name, which no other rule of the subscription has; letter case makes no difference.
    pub name: String,
    /// Which messages it matches. Default: all.
    #[serde(default)]
    pub filter: Filter,
    /// What is done to a copy of each, if anything.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub action: Option<SqlAction>,
    /// When a client has added it, in milliseconds since 1970. The rules that a subscription begins with have none: they are as old
    /// as the subscription.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created_at_unix_ms: Option<i64>,
}

/// Which messages a rule matches.
#[derive(Clone, Debug, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Filter {
    /// All.
    #[default]
    #[serde(rename = "all")]
    True,
    /// None.
    #[serde(rename = "none")]
    False,
    /// Those with certain properties.
    Correlation(CorrelationFilter),
    /// Those for which a condition holds.
    Sql(SqlFilter),
}

impl Rule {
    /// The rule that a new subscription has: everything, as it is.
    #[must_use]
    pub fn match_all() -> Self {
        Self {
            name: DEFAULT_RULE_NAME.to_owned(),
            filter: Filter::True,
            action: None,
            created_at_unix_ms: None,
        }
    }

    /// Whether this is its name, whatever the letter case.
    #[must_use]
    pub fn has_name(&self, name: &str) -> bool {
        self.name.eq_ignore_ascii_case(name)
    }
}

impl Filter {
    /// Whether a message with these properties matches.
    #[must_use]
    pub fn matches(&self, message: &MessageProperties) -> bool {
        match self {
            Self::True => true,
            Self::False => false,
            Self::Correlation(filter) => filter.matches(message),
            Self::Sql(filter) => filter.matches(message),
        }
    }

    /// What it does to every message, where that does not depend on the message. SQL that is always true, such as
    /// `1=1`, counts: clients write it for the true filter.
    #[must_use]
    pub fn constant(&self) -> Option<bool> {
        match self {
            Self::True => Some(true),
            Self::False => Some(false),
            Self::Correlation(filter) => filter.is_empty().then_some(true),
            Self::Sql(filter) => filter.constant(),
        }
    }
}

/// The name of the rule that a new subscription has.
pub const DEFAULT_RULE_NAME: &str = "$Default";

/// Most characters of a rule's name, as in the service.
pub const MAXIMUM_RULE_NAME_LENGTH: usize = 50;
