//! The rules of subscriptions, and trying one before it is made. What is tried runs as what is made does.

use amqp::codec::{Symbol, Value};
use amqp::message::Properties;
use queue_store::RuleChangeError;
use queue_store::rules::{BrokerProperties, Filter, MessageProperties, Rule, SqlAction, SqlError, SqlFilter};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value as Json, json};

use super::ExplorerFront;
use super::message::{entry, value_of};
use super::reply::{self, Refusal, Reply};

/// A rule as a person reads it.
#[derive(Debug, Serialize)]
pub(super) struct RuleDetails {
    name: String,
    kind: &'static str,
    filter: Json,
    action: Option<String>,
}

/// A rule that is to be made. Without a text its filter is true.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct NewRule {
    entity: String,
    name: String,
    filter: String,
    #[serde(default)]
    action: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct OldRule {
    entity: String,
    name: String,
}

/// A rule that is to be tried on a message: one that waits, or one that is made up.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Trial {
    filter: String,
    #[serde(default)]
    action: String,
    #[serde(default)]
    message: Option<Sample>,
    #[serde(default)]
    entity: Option<String>,
    #[serde(default)]
    sequence_number: Option<u64>,
}

/// What rules look at of a message.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Sample {
    message_id: Option<String>,
    correlation_id: Option<String>,
    subject: Option<String>,
    to: Option<String>,
    reply_to: Option<String>,
    session_id: Option<String>,
    content_type: Option<String>,
    properties: Map<String, Json>,
}

impl RuleDetails {
    pub(super) fn of(rule: &Rule) -> Self {
        let (kind, filter) = match &rule.filter {
            Filter::True => ("all", Json::Null),
            Filter::False => ("none", Json::Null),
            Filter::Correlation(filter) => ("correlation", serde_json::to_value(filter).unwrap_or_default()),
            Filter::Sql(filter) => ("sql", filter.text().into()),
        };
        let action = rule.action.as_ref().map(|action| action.text().to_owned());
        Self { name: rule.name.clone(), kind, filter, action }
    }
}

impl ExplorerFront {
    /// Gives a subscription another rule.
    ///
    /// # Errors
    /// There is no such subscription, or it does not take the rule.
    pub(super) async fn add_rule(&self, new: NewRule) -> Result<Reply, Refusal> {
        let subscription = self.find_subscription(&new.entity)?;
        let filter = match new.filter.trim().is_empty() {
            true => Filter::True,
            false => Filter::Sql(SqlFilter::parse(new.filter).map_err(|error| mistake("filter", &error))?),
        };
        let action = action(new.action)?;
        let commit = subscription
            .add_rule(self.now(), Rule { name: new.name, filter, action, created_at_unix_ms: None })?;
        self.committed(commit).await?;
        Ok(reply::json(&json!({})))
    }

    /// Takes a rule from a subscription.
    ///
    /// # Errors
    /// There is none.
    pub(super) async fn remove_rule(&self, old: OldRule) -> Result<Reply, Refusal> {
        let subscription = self.find_subscription(&old.entity)?;
        let (_rule, commit) = subscription.remove_rule(self.now(), &old.name)?;
        self.committed(commit).await?;
        Ok(reply::json(&json!({})))
    }

    /// Whether a filter matches a message, and what an action makes of it. A text that is none is no refusal: its mistake is the
    /// answer.
    ///
    /// # Errors
    /// There is no such message.
    pub(super) fn try_rule(&self, trial: Trial) -> Result<Reply, Refusal> {
        let message = match (&trial.entity, trial.sequence_number) {
            (Some(entity), Some(number)) => {
                let found = self.find_queue(entity)?;
                let deliveries = self.one_message(&found.queue, number)?;
                let delivery = deliveries.iter().next();
                let decoded = delivery.map(|delivery| MessageProperties::decode(delivery.sections));
                let decoded = decoded.and_then(Result::ok);
                decoded.ok_or_else(|| Refusal::bad(format!("message {number} can't be read")))?
            }
            _ => trial.message.unwrap_or_default().properties()?,
        };
        let wrong = |part: &str, error: &SqlError| {
            let message = error.kind.to_string();
            Ok(reply::json(
                &json!({"mistake": {"part": part, "position": error.position, "message": message}}),
            ))
        };
        let matches = match trial.filter.trim().is_empty() {
            true => true,
            false => match SqlFilter::parse(trial.filter) {
                Ok(filter) => filter.matches(&message),
                Err(error) => return wrong("filter", &error),
            },
        };
        let changed = match trial.action.trim().is_empty() {
            true => None,
            false => match SqlAction::parse(trial.action) {
                Ok(action) => {
                    let mut changed = message;
                    action.apply(&mut changed);
                    Some(described(&changed))
                }
                Err(error) => return wrong("action", &error),
            },
        };
        Ok(reply::json(&json!({"matches": matches, "changed": changed})))
    }

    fn find_subscription(&self, path: &str) -> Result<std::sync::Arc<queue_store::Subscription>, Refusal> {
        let found = self.find_queue(path)?;
        found.subscription.ok_or_else(|| Refusal::not_found(format!("{path} is no subscription")))
    }
}

impl Sample {
    fn properties(self) -> Result<MessageProperties, Refusal> {
        let text = |text: Option<String>| text.filter(|text| !text.is_empty());
        let id = |id: Option<String>| text(id).map(Value::String);
        let application = self.properties.into_iter().map(|(name, value)| match value_of(&value) {
            Some(value) => Ok((name, value)),
            None => {
                Err(Refusal::bad(format!("the property {name} is neither a text, a number nor a boolean")))
            }
        });
        Ok(MessageProperties {
            standard: Properties {
                message_id: id(self.message_id),
                correlation_id: id(self.correlation_id),
                subject: text(self.subject),
                to: text(self.to),
                reply_to: text(self.reply_to),
                group_id: text(self.session_id),
                content_type: text(self.content_type).map(Symbol::from),
                ..Properties::default()
            },
            application: application.collect::<Result<_, _>>()?,
            broker: BrokerProperties::default(),
        })
    }
}

fn described(message: &MessageProperties) -> Json {
    let standard = [
        ("sys.Label", message.standard.subject.clone().map(Value::String)),
        ("sys.To", message.standard.to.clone().map(Value::String)),
        ("sys.ReplyTo", message.standard.reply_to.clone().map(Value::String)),
        ("sys.CorrelationId", message.standard.correlation_id.clone()),
        ("sys.SessionId", message.standard.group_id.clone().map(Value::String)),
    ];
    let standard = standard.into_iter().filter_map(|(name, value)| Some(entry(name, &value?)));
    standard.chain(message.application.iter().map(|(name, value)| entry(name, value))).collect()
}

fn action(text: String) -> Result<Option<SqlAction>, Refusal> {
    match text.trim().is_empty() {
        true => Ok(None),
        false => SqlAction::parse(text).map(Some).map_err(|error| mistake("action", &error)),
    }
}

fn mistake(part: &str, error: &SqlError) -> Refusal {
    Refusal::bad(format!("{part}: {error}"))
}

impl From<RuleChangeError> for Refusal {
    fn from(error: RuleChangeError) -> Self {
        match error {
            RuleChangeError::Queue(error) => error.into(),
            RuleChangeError::Rule(error) => Self::new(409, error.to_string()),
        }
    }
}
