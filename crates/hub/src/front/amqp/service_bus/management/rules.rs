//! Rules of a subscription: added, removed, listed.

use amqp::Value;
use amqp::performative::ErrorCondition;

use super::arguments::{Arguments, mistyped};
use super::{Answer, ManagedEntity, Outcome, Request, done, not_allowed, nothing, rule_codec, single};
use queue_store::rules::RuleError;
use queue_store::{RuleChangeError, Subscription};

impl Request<'_> {
    pub(super) fn add_rule(&self, arguments: &Arguments) -> Outcome {
        let subscription = self.ruled_subscription()?;
        let name = arguments.text("rule-name")?;
        let description =
            arguments.find("rule-description").ok_or_else(|| mistyped("rule-description", "there"))?;
        let rule = rule_codec::read(name, description)?;
        let commit = subscription.add_rule(self.unix_time(), rule).map_err(|error| refusal(&error))?;
        Ok(done().after(commit))
    }

    pub(super) fn remove_rule(&self, arguments: &Arguments) -> Outcome {
        let subscription = self.ruled_subscription()?;
        let name = arguments.text("rule-name")?;
        let (_rule, commit) =
            subscription.remove_rule(self.unix_time(), name).map_err(|error| refusal(&error))?;
        Ok(done().after(commit))
    }

    pub(super) fn enumerate_rules(&self, arguments: &Arguments) -> Outcome {
        let subscription = self.ruled_subscription()?;
        let skip = arguments.count("skip")?;
        let top = arguments.count("top")?;
        let rules = subscription.rules_by_name();
        let rules: Vec<Value> = rules
            .iter()
            .skip(skip)
            .take(top)
            .map(|rule| single("rule-description", rule_codec::describe(rule)))
            .collect();
        if rules.is_empty() {
            return Ok(nothing());
        }
        Ok(Answer::granted(200, single("rules", Value::List(rules))))
    }

    fn ruled_subscription(&self) -> Result<&Subscription, Answer> {
        match self.entity {
            ManagedEntity::Subscription(subscription) => Ok(subscription),
            ManagedEntity::Queue(_) | ManagedEntity::Topic(_) => Err(not_allowed(format!(
                "'{}' has no rules; only subscriptions have rules.",
                self.entity.name()
            ))),
        }
    }
}

fn refusal(error: &RuleChangeError) -> Answer {
    let error = match error {
        RuleChangeError::Rule(error) => error,
        RuleChangeError::Queue(error) => return super::refusal(error),
    };
    let (status, condition) = match error {
        RuleError::Exists { .. } => (409, ErrorCondition::ENTITY_ALREADY_EXISTS),
        RuleError::NotFound { .. } => (404, ErrorCondition::NOT_FOUND),
        RuleError::Name { .. } | RuleError::Filter { .. } => (400, ErrorCondition::ARGUMENT_ERROR),
        RuleError::TooMany => (403, ErrorCondition::RESOURCE_LIMIT_EXCEEDED),
    };
    Answer::failed(status, condition, format!("{error}."))
}
