//! What `parshall queue`, `topic`, `subscription` and `rule` print.

use std::fmt::Write as _;

use connect::service_bus::administration::documents::ReadEntry;
use connect::service_bus::administration::entity::{
    EntityDescription, EntityKind, MessageCounts, Status, UNLIMITED,
};
use connect::service_bus::administration::rule::{FilterDescription, RuleDescription};
use serde_json::{Map, Value, json};
use units::date::{iso_date, xml_date_time};

use crate::printed::{self, Format, Printed, table};

/// A queue, a topic or a subscription.
#[derive(Debug)]
pub(super) struct ShownEntity {
    kind: EntityKind,
    name: String,
    pub(super) description: EntityDescription,
}

/// A rule.
#[derive(Debug)]
pub(super) struct ShownRule {
    pub(super) name: String,
    pub(super) rule: RuleDescription,
}

/// Something that is no more.
#[derive(Debug)]
pub(super) struct Deleted<'a> {
    pub(super) path: &'a str,
}

impl ShownEntity {
    /// Reads what the service says; `None` if it is about something of another kind.
    pub(super) fn read(kind: EntityKind, entry: &ReadEntry) -> Option<Self> {
        if entry.description.name != kind.element() {
            return None;
        }
        let description = EntityDescription::read(kind, &entry.description).ok()?;
        Some(Self { kind, name: entry.title.clone(), description })
    }

    fn counts(&self) -> MessageCounts {
        self.description.counts.unwrap_or_default()
    }

    fn cells(&self) -> [String; 6] {
        let counts = self.counts();
        let number = |number: u64| number.to_string();
        let status =
            self.description.status.map_or_else(String::new, |status| status_text(status).to_owned());
        match self.kind {
            EntityKind::Topic => [
                self.name.clone(),
                number(self.description.subscription_count.unwrap_or_default()),
                number(counts.scheduled),
                number(self.description.size_in_bytes.unwrap_or_default()),
                status,
                self.created(),
            ],
            EntityKind::Queue | EntityKind::Subscription => [
                self.name.clone(),
                number(counts.active),
                number(counts.dead_letters),
                number(counts.scheduled),
                status,
                self.created(),
            ],
        }
    }

    fn created(&self) -> String {
        self.description.created_at.map_or_else(|| "-".to_owned(), iso_date)
    }

    /// What is said of it, by name, as a person and as a program reads it.
    fn facts(&self) -> Vec<(&'static str, Value)> {
        let told = &self.description;
        let counts = told.counts;
        let text = |text: &Option<String>| text.clone().filter(|text| !text.is_empty()).map(Value::from);
        let time = |time: Option<std::time::Duration>| {
            time.map(|time| match time >= UNLIMITED {
                true => Value::from("unlimited"),
                false => Value::from(units::duration::text(time)),
            })
        };
        let count = |count: fn(&MessageCounts) -> u64| counts.as_ref().map(count).map(Value::from);
        let is_topic = self.kind == EntityKind::Topic;
        let of_queue = |value: Option<Value>| value.filter(|_| !is_topic);
        let all = [
            ("status", told.status.map(|status| Value::from(status_text(status)))),
            ("lock_duration", time(told.lock_duration)),
            ("max_delivery_count", told.maximum_delivery_count.map(Value::from)),
            ("default_time_to_live", time(told.default_time_to_live)),
            ("dead_letter_expired", told.dead_lettering_on_expiration.map(Value::from)),
            ("requires_session", told.requires_session.map(Value::from)),
            ("requires_duplicate_detection", told.requires_duplicate_detection.map(Value::from)),
            (
                "duplicate_detection",
                time(
                    told.duplicate_detection_window
                        .filter(|_| told.requires_duplicate_detection == Some(true)),
                ),
            ),
            ("forward_to", text(&told.forward_to)),
            ("forward_dead_letters_to", text(&told.forward_dead_letters_to)),
            ("max_size_mib", told.maximum_mebibytes.map(Value::from)),
            ("auto_delete_on_idle", time(told.auto_delete_on_idle)),
            ("user_metadata", text(&told.user_metadata)),
            ("subscriptions", told.subscription_count.map(Value::from)),
            ("active_messages", of_queue(count(|counts| counts.active))),
            ("dead_letters", of_queue(count(|counts| counts.dead_letters))),
            ("scheduled_messages", count(|counts| counts.scheduled)),
            ("transfer_dead_letters", of_queue(count(|counts| counts.transfer_dead_letters))),
            ("size_bytes", told.size_in_bytes.map(Value::from)),
            ("created_at", told.created_at.map(xml_date_time).map(Value::from)),
            ("updated_at", told.updated_at.map(xml_date_time).map(Value::from)),
            ("accessed_at", told.accessed_at.map(xml_date_time).map(Value::from)),
        ];
        all.into_iter().filter_map(|(name, value)| Some((name, value?))).collect()
    }
}

impl Printed for ShownEntity {
    fn table(&self) -> String {
        let kind = match self.kind {
            EntityKind::Queue => "queue",
            EntityKind::Topic => "topic",
            EntityKind::Subscription => "subscription",
        };
        let facts = self.facts();
        let width = facts.iter().map(|(name, _)| name.len()).max().unwrap_or_default().max(kind.len());
        let mut text = format!("{kind:width$}  {}\n", self.name);
        for (name, value) in facts {
            let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            writeln!(text, "{:width$}  {value}", name.replace('_', " ")).expect("a string takes everything");
        }
        text
    }

    fn json(&self) -> Value {
        let name = [("name".to_owned(), Value::from(self.name.as_str()))];
        let facts = self.facts().into_iter().map(|(name, value)| (name.to_owned(), value));
        Value::Object(name.into_iter().chain(facts).collect::<Map<_, _>>())
    }
}

impl ShownRule {
    /// Reads what the service says; `None` if it is about something else.
    pub(super) fn read(entry: &ReadEntry) -> Option<Self> {
        let rule = RuleDescription::read(&entry.description).ok()?;
        Some(Self { name: rule.name.clone().unwrap_or_else(|| entry.title.clone()), rule })
    }

    fn filter(&self) -> String {
        match &self.rule.filter {
            None | Some(FilterDescription::True) => "all".to_owned(),
            Some(FilterDescription::False) => "none".to_owned(),
            Some(FilterDescription::Sql(sql)) => sql.expression.clone(),
            Some(FilterDescription::Correlation(correlation)) => {
                let system = correlation.system.iter().map(|(name, value)| format!("{name}={value}"));
                let own = correlation.properties.iter();
                let own = own.map(|(name, value)| {
                    format!("{name}={}", value.as_text().map_or_else(|| format!("{value:?}"), str::to_owned,))
                });
                system.chain(own).collect::<Vec<_>>().join(", ")
            }
        }
    }

    fn action(&self) -> Option<&str> {
        self.rule.action.as_ref().map(|action| action.expression.as_str())
    }

    fn json(&self) -> Value {
        let mut shown = json!({ "name": self.name, "filter": self.filter() });
        if let Some(action) = self.action() {
            shown["action"] = json!(action);
        }
        shown
    }
}

impl Printed for Deleted<'_> {
    fn table(&self) -> String {
        format!("deleted {}\n", self.path)
    }

    fn json(&self) -> Value {
        json!({ "deleted": self.path })
    }
}

/// All of them by name; in JSON each as `show` prints it.
pub(super) fn all(format: Format, heading: &'static str, mut entities: Vec<ShownEntity>) -> String {
    entities.sort_by(|a, b| a.name.cmp(&b.name));
    match format {
        Format::Json => printed::json(&entities.iter().map(Printed::json).collect()),
        Format::Table => {
            let heading = match heading {
                "TOPIC" => [heading, "SUBSCRIPTIONS", "SCHEDULED", "BYTES", "STATUS", "CREATED"],
                _ => [heading, "ACTIVE", "DEAD LETTERS", "SCHEDULED", "STATUS", "CREATED"],
            };
            table(heading, entities.iter().map(ShownEntity::cells))
        }
    }
}

/// Rules in the order of the service.
pub(super) fn rules(format: Format, rules: Vec<ShownRule>) -> String {
    match format {
        Format::Json => printed::json(&rules.iter().map(ShownRule::json).collect()),
        Format::Table => {
            let rows = rules
                .iter()
                .map(|rule| [rule.name.clone(), rule.filter(), rule.action().unwrap_or("-").to_owned()]);
            table(["RULE", "FILTER", "ACTION"], rows)
        }
    }
}

const fn status_text(status: Status) -> &'static str {
    match status {
        Status::Active => "active",
        Status::Disabled => "disabled",
        Status::SendDisabled => "send-disabled",
        Status::ReceiveDisabled => "receive-disabled",
    }
}
