//! The rules of one subscription, and what they make of a message.

use amqp::codec::Value;

use super::message::MessageProperties;
use super::rule::{Filter, MAXIMUM_RULE_NAME_LENGTH, Rule};
use super::sql::MAXIMUM_TEXT_LENGTH;
use std::sync::Arc;

/// The rules of a subscription, in the order in which they were added. Clones share them until one changes.
#[derive(Clone, Debug, PartialEq)]
pub struct RuleSet {
    rules: Arc<Vec<Arc<Rule>>>,
    /// The number of those with a correlation filter.
    correlations: usize,
}

/// Numbers of rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct RuleCounts {
    /// All.
    pub all: usize,
    /// Rules with a correlation filter.
    pub correlations: usize,
}

/// What a subscription gets of one message.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Copies {
    /// The message as it was sent.
    pub as_sent: bool,
    /// For each matching rule with an action, in the order of the rules: the properties of a further copy, to be put
    /// in place with [`MessageProperties::rewrite`].
    pub changed: Vec<MessageProperties>,
}

/// Why a rule was not added or removed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RuleError {
    /// There is a rule of that name; letter case makes no difference. `com.microsoft:entity-already-exists`.
    #[error("The subscription already has a rule '{name}'")]
    Exists {
        /// Its name.
        name: String,
    },
    /// There is no rule of that name. `amqp:not-found`.
    #[error("The messaging entity '{name}' could not be found: the subscription has no such rule")]
    NotFound {
        /// What was asked for.
        name: String,
    },
    /// The name is empty or too long. `com.microsoft:argument-error`.
    #[error(
        "{name:?} is not a valid name for a rule: it needs 1 to {MAXIMUM_RULE_NAME_LENGTH} characters without a slash"
    )]
    Name {
        /// What was given.
        name: String,
    },
    /// Its correlation filter is longer than conditions may be. `com.microsoft:argument-error`.
    #[error("The correlation filter of rule '{name}' has {bytes} bytes; it may have {MAXIMUM_TEXT_LENGTH}")]
    Filter {
        /// The name of the rule.
        name: String,
        /// How long it is.
        bytes: usize,
    },
    /// There are as many rules as there may be. `amqp:resource-limit-exceeded`.
    #[error("The subscription has {MAXIMUM_RULES} rules, the maximum")]
    TooMany,
}

impl RuleSet {
    /// No rule at all: nothing matches.
    #[must_use]
    pub fn empty() -> Self {
        Self { rules: Arc::default(), correlations: 0 }
    }

    /// These rules.
    ///
    /// # Errors
    /// The first that can't be added, with its place in the list.
    pub fn of(rules: impl IntoIterator<Item = Rule>) -> Result<Self, (usize, RuleError)> {
        let mut set = Self::empty();
        for (index, rule) in rules.into_iter().enumerate() {
            set.add(rule).map_err(|error| (index, error))?;
        }
        Ok(set)
    }

    /// Adds a rule.
    ///
    /// # Errors
    /// Its name is taken or none, its filter is too long, or there are too many.
    pub fn add(&mut self, rule: Rule) -> Result<(), RuleError> {
        let length = rule.name.chars().count();
        if !(1..=MAXIMUM_RULE_NAME_LENGTH).contains(&length) || rule.name.contains(['/', '\\']) {
            return Err(RuleError::Name { name: rule.name });
        }
        if let Filter::Correlation(filter) = &rule.filter
            && let bytes = filter.length()
            && bytes > MAXIMUM_TEXT_LENGTH
        {
            return Err(RuleError::Filter { name: rule.name, bytes });
        }
        if let Some(there) = self.find(&rule.name) {
            return Err(RuleError::Exists { name: there.name.clone() });
        }
        if self.rules.len() >= MAXIMUM_RULES {
            return Err(RuleError::TooMany);
        }
        self.correlations += usize::from(is_correlation(&rule));
        Arc::make_mut(&mut self.rules).push(Arc::new(rule));
        Ok(())
    }

    /// Removes the rule of this name.
    ///
    /// # Errors
    /// There is none.
    pub fn remove(&mut self, name: &str) -> Result<Rule, RuleError> {
        let Some(position) = self.rules.iter().position(|rule| rule.has_name(name)) else {
            return Err(RuleError::NotFound { name: name.to_owned() });
        };
        let rule = Arc::make_mut(&mut self.rules).remove(position);
        self.correlations -= usize::from(is_correlation(&rule));
        Ok(Arc::unwrap_or_clone(rule))
    }

    /// The rule of this name, whatever the letter case.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<&Rule> {
        self.rules.iter().find(|rule| rule.has_name(name)).map(Arc::as_ref)
    }

    /// All rules.
    #[must_use]
    pub const fn rules(&self) -> &Arc<Vec<Arc<Rule>>> {
        &self.rules
    }

    /// The number of all, and of some kinds.
    #[must_use]
    pub fn counts(&self) -> RuleCounts {
        RuleCounts { all: self.rules.len(), correlations: self.correlations }
    }

    /// What becomes of every message, where that does not depend on the message: `Some(true)` if the subscription gets
    /// each once and as it is, `Some(false)` if it gets none. Then nothing needs to be decoded.
    #[must_use]
    pub fn constant(&self) -> Option<bool> {
        let mut takes = false;
        for rule in self.rules.iter() {
            match (rule.filter.constant(), &rule.action) {
                (Some(false), _) => {}
                (Some(true), None) => takes = true,
                _ => return None,
            }
        }
        Some(takes)
    }

    /// What the subscription gets of a message with these properties.
    #[must_use]
    pub fn copies(&self, message: &MessageProperties) -> Copies {
        let mut copies = Copies::default();
        for rule in self.rules.iter() {
            // Whether one further rule matches makes no difference to a message that is taken already.
            if rule.action.is_none() && copies.as_sent {
                continue;
            }
            if !rule.filter.matches(message) {
                continue;
            }
            match &rule.action {
                None => copies.as_sent = true,
                Some(action) => {
                    let mut changed = message.clone();
                    action.apply(&mut changed);
                    changed.set(RULE_NAME_PROPERTY, Value::String(rule.name.clone()));
                    copies.changed.push(changed);
                }
            }
        }
        copies
    }
}

impl Default for RuleSet {
    /// What a new subscription has: the one rule that matches everything.
    fn default() -> Self {
        Self { rules: Arc::new(vec![Arc::new(Rule::match_all())]), correlations: 0 }
    }
}

impl Copies {
    /// How many messages the subscription gets.
    #[must_use]
    pub fn count(&self) -> usize {
        usize::from(self.as_sent) + self.changed.len()
    }
}

fn is_correlation(rule: &Rule) -> bool {
    matches!(rule.filter, Filter::Correlation(_))
}

/// Most rules of one subscription.
pub const MAXIMUM_RULES: usize = 2_000;

/// The application property that tells which rule made a copy.
const RULE_NAME_PROPERTY: &str = "RuleName";

#[cfg(test)]
mod tests {
    use super::super::application::ApplicationProperties;
    use super::super::correlation::CorrelationFilter;
    use super::super::sql::{SqlAction, SqlFilter};
    use super::*;

    fn rule(name: &str, filter: &str, action: Option<&str>) -> Rule {
        Rule {
            name: name.to_owned(),
            filter: Filter::Sql(SqlFilter::parse(filter).unwrap()),
            action: action.map(|action| SqlAction::parse(action).unwrap()),
            created_at_unix_ms: None,
        }
    }

    fn red() -> MessageProperties {
        MessageProperties {
            application: ApplicationProperties::of(vec![
                ("color".into(), "red".into()),
                ("quantity".into(), Value::Int(10)),
            ]),
            ..MessageProperties::default()
        }
    }

    #[test]
    fn five_matching_rules_two_of_them_with_actions_give_three_messages() {
        let set = RuleSet::of([
            rule("one", "color = 'red'", None),
            rule("two", "1=1", Some("SET quantity = quantity / 2")),
            rule("three", "quantity > 1", None),
            rule("four", "EXISTS(color)", Some("REMOVE color")),
            rule("five", "color LIKE 'r%'", None),
        ])
        .unwrap();
        let copies = set.copies(&red());
        assert_eq!(copies.count(), 3);
        assert!(copies.as_sent);
        let expected = [
            vec![
                ("color".to_owned(), "red".into()),
                ("quantity".to_owned(), Value::Int(5)),
                ("RuleName".to_owned(), "two".into()),
            ],
            vec![("quantity".to_owned(), Value::Int(10)), ("RuleName".to_owned(), "four".into())],
        ];
        let changed: Vec<_> = copies.changed.into_iter().map(|copy| copy.application.to_vec()).collect();
        assert_eq!(changed, expected);
    }

    #[test]
    fn a_new_subscription_gets_everything_and_one_without_rules_nothing() {
        let copies = RuleSet::default().copies(&red());
        assert!(copies.as_sent && copies.changed.is_empty());
        assert_eq!(RuleSet::empty().copies(&red()), Copies::default());
    }

    #[test]
    fn messages_need_no_look_where_the_rules_do_not_depend_on_them() {
        assert_eq!(RuleSet::default().constant(), Some(true));
        assert_eq!(RuleSet::empty().constant(), Some(false));
        let of = |rules: Vec<Rule>| RuleSet::of(rules).unwrap().constant();
        assert_eq!(of(vec![rule("a", "1=0", Some("REMOVE a"))]), Some(false));
        assert_eq!(of(vec![rule("a", "1=0", None), rule("b", "1=1", None)]), Some(true));
        assert_eq!(of(vec![rule("a", "1=1", Some("REMOVE a"))]), None);
        assert_eq!(of(vec![rule("a", "color = 'red'", None)]), None);
    }

    #[test]
    fn names_are_unique_whatever_the_letter_case() {
        let mut set = RuleSet::default();
        assert_eq!(
            set.add(rule("$default", "1=1", None)),
            Err(RuleError::Exists { name: "$Default".into() })
        );
        assert_eq!(set.remove("$DEFAULT").unwrap(), Rule::match_all());
        assert_eq!(set.remove("$Default"), Err(RuleError::NotFound { name: "$Default".into() }));
    }

    #[test]
    fn rules_that_were_given_out_stay_as_they_were_and_are_never_copied() {
        let mut set = RuleSet::of([rule("one", "a = 1", None), rule("two", "a = 2", None)]).unwrap();
        let before = Arc::clone(set.rules());
        assert!(Arc::ptr_eq(&before, set.clone().rules()));
        set.add(rule("three", "a = 3", None)).unwrap();
        set.remove("ONE").unwrap();
        let names =
            |rules: &[Arc<Rule>]| -> Vec<String> { rules.iter().map(|rule| rule.name.clone()).collect() };
        assert_eq!(names(&before), ["one", "two"]);
        assert_eq!(names(set.rules()), ["two", "three"]);
        assert!(Arc::ptr_eq(&before[1], &set.rules()[0]));
    }

    #[test]
    fn counts_follow_what_is_added_and_removed() {
        let correlation = |name: &str| Rule {
            name: name.to_owned(),
            filter: Filter::Correlation(CorrelationFilter::default()),
            action: None,
            created_at_unix_ms: None,
        };
        let mut set = RuleSet::default();
        assert_eq!(set.counts(), RuleCounts { all: 1, correlations: 0 });
        set.add(correlation("one")).unwrap();
        set.add(correlation("two")).unwrap();
        assert!(set.add(correlation("ONE")).is_err());
        assert_eq!(set.counts(), RuleCounts { all: 3, correlations: 2 });
        set.remove("one").unwrap();
        assert!(set.remove("one").is_err());
        set.remove("$default").unwrap();
        assert_eq!(set.counts(), RuleCounts { all: 1, correlations: 1 });
    }

    #[test]
    fn names_have_from_1_to_50_characters() {
        let mut set = RuleSet::empty();
        for name in ["", "a/b", &"ä".repeat(51)] {
            assert!(matches!(set.add(rule(name, "1=1", None)), Err(RuleError::Name { .. })));
        }
        set.add(rule(&"ä".repeat(50), "1=1", None)).unwrap();
    }

    #[test]
    fn there_is_a_most_number_of_rules() {
        let mut set = RuleSet::empty();
        for number in 0..MAXIMUM_RULES {
            set.add(rule(&number.to_string(), "1=1", None)).unwrap();
        }
        assert_eq!(set.add(rule("further", "1=1", None)), Err(RuleError::TooMany));
    }
}
