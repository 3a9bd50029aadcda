//! Rules of subscriptions: which messages of a topic a subscription gets, and with which properties.
//!
//! ```text
//! bytes of a message ── MessageProperties::decode ──► MessageProperties
//!                                                           │
//!                  RuleSet::copies: one per subscription    ▼
//!   [Rule { filter, action }, …] ────────────────► Copies { as_sent, changed: [MessageProperties, …] }
//!                                                           │
//!         changed.rewrite(bytes of the message) ◄───────────┘
//! ```
//!
//! A [`Rule`] has a [`Filter`] (true, false, correlation or SQL) and maybe an [`SqlAction`]. All matching rules without
//! action together give a subscription the message once; each matching rule with an action gives it a copy of its own,
//! which the action has changed and which names its rule in the property `RuleName`.
//!
//! Everything here is a pure function of its arguments. Texts are parsed once, when a rule is made, with bounds on
//! length and depth; evaluation allocates little, cannot fail and cannot recurse without a bound: what makes no sense
//! for a message, such as a number compared with a text, is *unknown*, and only what is true matches.
//!
//! A message is decoded at most once however many subscriptions look at it, and not at all where
//! [`RuleSet::constant`] holds for all of them.

mod application;
mod correlation;
mod message;
mod property_list;
mod rule;
mod rule_set;
mod sql;
mod written_time;

pub use application::ApplicationProperties;
pub use correlation::CorrelationFilter;
pub use message::{BrokerProperties, MessageProperties};
pub use property_list::PropertyList;
pub use rule::{DEFAULT_RULE_NAME, Filter, MAXIMUM_RULE_NAME_LENGTH, Rule};
pub use rule_set::{Copies, MAXIMUM_RULES, RuleCounts, RuleError, RuleSet};
pub use sql::{
    MAXIMUM_DEPTH, MAXIMUM_STATEMENTS, MAXIMUM_TEXT_LENGTH, SqlAction, SqlError, SqlErrorKind, SqlFilter,
    check_any_text,
};
pub use written_time::without_text;
