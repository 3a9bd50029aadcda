//! What is said of a queue, a topic or a subscription.
//!
//! One type serves all three, since they share most of what can be said; [`EntityKind`] is which elements there are, and in which
//! order. Whoever reads takes them in any order; the order in which they are written is the service's, for there are clients that
//! rely on it.

use std::fmt;
use std::time::{Duration, SystemTime};

use quick_xml::escape::escape;
use units::date::{parse_iso_instant, xml_date_time};
use units::iso_duration;

use super::atom::Description;
use super::document::Element;
use super::rule::RuleDescription;

/// What an entity is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntityKind {
    /// A queue.
    Queue,
    /// A topic.
    Topic,
    /// A subscription of a topic.
    Subscription,
}

/// What is said of an entity. What is not said is `None`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct EntityDescription {
    /// How long a received message is locked.
    pub lock_duration: Option<Duration>,
    /// What its messages may take, in MiB.
    pub maximum_mebibytes: Option<u64>,
    /// Messages are dropped whose identifier was sent before.
    pub requires_duplicate_detection: Option<bool>,
    /// Every message belongs to a session.
    pub requires_session: Option<bool>,
    /// How long messages may wait; [`UNLIMITED`] for ever.
    pub default_time_to_live: Option<Duration>,
    /// Messages that have waited for too long become dead letters.
    pub dead_lettering_on_expiration: Option<bool>,
    /// Messages become dead letters for which a filter can't be evaluated.
    pub dead_lettering_on_filter_exceptions: Option<bool>,
    /// How long identifiers are known.
    pub duplicate_detection_window: Option<Duration>,
    /// How many failed deliveries there are before a message becomes a dead letter.
    pub maximum_delivery_count: Option<u32>,
    /// The service may write several operations at once.
    pub enable_batched_operations: Option<bool>,
    /// What its messages take.
    pub size_in_bytes: Option<u64>,
    /// How many messages there are, whatever their state.
    pub message_count: Option<u64>,
    /// What may be done.
    pub status: Option<Status>,
    /// When it was made.
    pub created_at: Option<SystemTime>,
    /// When it was last changed.
    pub updated_at: Option<SystemTime>,
    /// When it was last used.
    pub accessed_at: Option<SystemTime>,
    /// Messages keep their order.
    pub support_ordering: Option<bool>,
    /// How many messages there are by their state.
    pub counts: Option<MessageCounts>,
    /// How many subscriptions there are.
    pub subscription_count: Option<u64>,
    /// How many rules of all subscriptions have conditions, true and false ones included.
    pub sql_filter_count: Option<u64>,
    /// How many have correlation filters.
    pub correlation_filter_count: Option<u64>,
    /// The keys that it has besides those of its namespace.
    pub authorization_rules: Option<Vec<AuthorizationRule>>,
    /// It is deleted after it has been idle for so long; [`UNLIMITED`] never.
    pub auto_delete_on_idle: Option<Duration>,
    /// Its messages are spread over several stores.
    pub enable_partitioning: Option<bool>,
    /// Its messages may be in memory alone for a while.
    pub enable_express: Option<bool>,
    /// Where its messages go on to.
    pub forward_to: Option<String>,
    /// Where its dead letters go on to.
    pub forward_dead_letters_to: Option<String>,
    /// What its owner notes about it.
    pub user_metadata: Option<String>,
    /// The longest message that it takes, in KiB.
    pub maximum_message_kibibytes: Option<u64>,
    /// The rule that a subscription begins with.
    pub default_rule: Option<Box<RuleDescription>>,
}

/// A key of an entity.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct AuthorizationRule {
    /// Its name.
    pub key_name: String,
    /// What it may do: `Manage`, `Send`, `Listen`.
    pub rights: Vec<String>,
    /// Its value.
    pub primary_key: String,
    /// The value that it has beside that.
    pub secondary_key: String,
}

/// What may be done with an entity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// Everything.
    Active,
    /// Nothing.
    Disabled,
    /// Receiving only.
    SendDisabled,
    /// Sending only.
    ReceiveDisabled,
}

/// How many messages there are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MessageCounts {
    /// That can be received, are locked or put aside.
    pub active: u64,
    /// That are dead letters.
    pub dead_letters: u64,
    /// That become available later.
    pub scheduled: u64,
    /// That could not be forwarded.
    pub transfer_dead_letters: u64,
    /// That are being forwarded.
    pub transfer: u64,
}

/// What of a description makes no sense.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the value '{value}' of {element} is not valid")]
pub struct InvalidValue {
    /// The element.
    pub element: String,
    /// What is in it.
    pub value: String,
}

/// A time without end, as the service says it.
pub const UNLIMITED: Duration = Duration::new(10_675_199 * 86_400 + 2 * 3_600 + 48 * 60 + 5, 477_580_700);

impl EntityKind {
    /// The name of the element that describes one.
    #[must_use]
    pub const fn element(self) -> &'static str {
        match self {
            Self::Queue => "QueueDescription",
            Self::Topic => "TopicDescription",
            Self::Subscription => "SubscriptionDescription",
        }
    }

    const fn fields(self) -> &'static [Field] {
        match self {
            Self::Queue => QUEUE,
            Self::Topic => TOPIC,
            Self::Subscription => SUBSCRIPTION,
        }
    }
}

impl EntityDescription {
    /// Reads the element that describes an entity of this kind. Elements that nobody knows are left out.
    ///
    /// # Errors
    /// A value is none.
    pub fn read(kind: EntityKind, element: &Element) -> Result<Self, InvalidValue> {
        let mut description = Self::default();
        for child in &element.children {
            match child.name.as_str() {
                "CountDetails" => description.counts = Some(MessageCounts::read(child)?),
                "AuthorizationRules" if kind != EntityKind::Subscription => {
                    let rules = child.children.iter().filter(|rule| rule.name == "AuthorizationRule");
                    description.authorization_rules = Some(rules.map(AuthorizationRule::read).collect());
                }
                "DefaultRuleDescription" if kind == EntityKind::Subscription => {
                    description.default_rule = Some(Box::new(RuleDescription::read(child)?));
                }
                name => {
                    if let Some(field) = kind.fields().iter().find(|field| field.name == name) {
                        (field.set)(&mut description, &child.text).ok_or_else(|| InvalidValue {
                            element: name.to_owned(),
                            value: child.text.trim().to_owned(),
                        })?;
                    }
                }
            }
        }
        Ok(description)
    }

    /// Writes it for an answer.
    #[must_use]
    pub fn written(&self, kind: EntityKind) -> Description {
        self.write(kind, kind.fields().iter())
    }

    /// Writes it for a request: as [`written`](Self::written), with `ForwardTo` and `UserMetadata` of a queue behind its `Status`, where the
    /// client of .NET has them. The service reads `ForwardTo` at its place in answers, too, tells it, and forwards nothing.
    #[must_use]
    pub fn requested(&self, kind: EntityKind) -> Description {
        let is_moved = |field: &&Field| ["ForwardTo", "UserMetadata"].contains(&field.name);
        let fields = kind.fields();
        let status = fields.iter().position(|field| field.name == STATUS.name);
        let (before, after) = fields.split_at(status.map_or(0, |place| place + 1));
        let moved = fields.iter().filter(is_moved);
        let others = |fields: &'static [Field]| fields.iter().filter(move |field| !is_moved(field));
        self.write(kind, others(before).chain(moved).chain(others(after)))
    }

    fn write<'a>(&self, kind: EntityKind, fields: impl Iterator<Item = &'a Field>) -> Description {
        let mut description = Description::new(kind.element());
        for field in fields {
            if field.name == "CountDetails" {
                if let Some(counts) = &self.counts {
                    description.put_counts(&counts.named());
                }
            } else if field.name == "AuthorizationRules" {
                for rules in self.authorization_rules.iter().filter(|rules| !rules.is_empty()) {
                    let rules: String = rules.iter().map(AuthorizationRule::written).collect();
                    description.put_written(&format!("<AuthorizationRules>{rules}</AuthorizationRules>"));
                }
            } else if field.name == "DefaultRuleDescription" {
                if let Some(rule) = &self.default_rule {
                    let rule = rule.written();
                    description.put_written("<DefaultRuleDescription>");
                    description.put_written(rule.content());
                    description.put_written("</DefaultRuleDescription>");
                }
            } else if let Some(value) = (field.get)(self) {
                description.put(field.name, value);
            }
        }
        description
    }
}

impl AuthorizationRule {
    fn read(element: &Element) -> Self {
        let text = |name: &str| element.text_of(name).unwrap_or_default().to_owned();
        let rights = element.child("Rights").map_or(&[][..], |rights| &rights.children);
        Self {
            key_name: text("KeyName"),
            rights: rights.iter().map(|right| right.text.trim().to_owned()).collect(),
            primary_key: text("PrimaryKey"),
            secondary_key: text("SecondaryKey"),
        }
    }

    fn written(&self) -> String {
        let Self { key_name, rights, primary_key, secondary_key } = self;
        let rights: String =
            rights.iter().map(|right| format!("<AccessRights>{}</AccessRights>", escape(right))).collect();
        format!(
            r#"<AuthorizationRule i:type="SharedAccessAuthorizationRule"><ClaimType>SharedAccessKey</ClaimType><ClaimValue>None</ClaimValue><Rights>{rights}</Rights><KeyName>{}</KeyName><PrimaryKey>{}</PrimaryKey><SecondaryKey>{}</SecondaryKey></AuthorizationRule>"#,
            escape(key_name),
            escape(primary_key),
            escape(secondary_key),
        )
    }
}

impl fmt::Debug for AuthorizationRule {
    /// Without the keys.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { key_name, rights, .. } = self;
        f.debug_struct("AuthorizationRule")
            .field("key_name", key_name)
            .field("rights", rights)
            .finish_non_exhaustive()
    }
}

impl MessageCounts {
    fn read(element: &Element) -> Result<Self, InvalidValue> {
        let count = |name: &str| match element.text_of(name).map(str::trim) {
            None => Ok(0),
            Some(text) => {
                text.parse().map_err(|_| InvalidValue { element: name.to_owned(), value: text.to_owned() })
            }
        };
        Ok(Self {
            active: count("ActiveMessageCount")?,
            dead_letters: count("DeadLetterMessageCount")?,
            scheduled: count("ScheduledMessageCount")?,
            transfer_dead_letters: count("TransferDeadLetterMessageCount")?,
            transfer: count("TransferMessageCount")?,
        })
    }

    const fn named(&self) -> [(&'static str, u64); 5] {
        [
            ("ActiveMessageCount", self.active),
            ("DeadLetterMessageCount", self.dead_letters),
            ("ScheduledMessageCount", self.scheduled),
            ("TransferDeadLetterMessageCount", self.transfer_dead_letters),
            ("TransferMessageCount", self.transfer),
        ]
    }

    /// All messages together.
    #[must_use]
    pub const fn total(&self) -> u64 {
        self.active + self.dead_letters + self.scheduled + self.transfer_dead_letters + self.transfer
    }
}

impl Status {
    /// Its name on the wire.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Active => "Active",
            Self::Disabled => "Disabled",
            Self::SendDisabled => "SendDisabled",
            Self::ReceiveDisabled => "ReceiveDisabled",
        }
    }

    fn of_name(name: &str) -> Option<Self> {
        let all = [Self::Active, Self::Disabled, Self::SendDisabled, Self::ReceiveDisabled];
        all.into_iter().find(|status| status.name().eq_ignore_ascii_case(name))
    }
}

/// An element of a description.
struct Field {
    name: &'static str,
    get: fn(&EntityDescription) -> Option<String>,
    /// Takes the text of the element, blanks and all.
    set: fn(&mut EntityDescription, &str) -> Option<()>,
}

fn flag(text: &str) -> Option<bool> {
    match text {
        _ if text.eq_ignore_ascii_case("true") || text == "1" => Some(true),
        _ if text.eq_ignore_ascii_case("false") || text == "0" => Some(false),
        _ => None,
    }
}

fn span(text: &str) -> Option<Duration> {
    iso_duration::parse(text)
}

/// `0001-01-01T00:00:00` stands for no time.
fn instant(text: &str) -> Option<Option<SystemTime>> {
    match text.starts_with("0001-01-01T00:00:00") {
        true => Some(None),
        false => parse_iso_instant(text).map(Some),
    }
}

macro_rules! field {
    ($name:literal, $field:ident, $read:expr, $write:expr) => {
        Field {
            name: $name,
            get: |description| description.$field.as_ref().map($write),
            set: |description, text| {
                description.$field = Some($read(text.trim())?);
                Some(())
            },
        }
    };
    ($name:literal, flag $field:ident) => {
        field!($name, $field, flag, bool::to_string)
    };
    ($name:literal, span $field:ident) => {
        field!($name, $field, span, |span| iso_duration::text(*span))
    };
    ($name:literal, number $field:ident) => {
        field!($name, $field, |text: &str| text.parse().ok(), ToString::to_string)
    };
    // An empty text or path takes away what was there.
    ($name:literal, text $field:ident) => {
        Field {
            name: $name,
            get: |description| description.$field.clone(),
            set: |description, text| {
                description.$field = Some(text.to_owned());
                Some(())
            },
        }
    };
    ($name:literal, path $field:ident) => {
        field!($name, $field, |text: &str| Some(text.to_owned()), |path: &String| path.as_str().to_owned())
    };
    ($name:literal, instant $field:ident) => {
        Field {
            name: $name,
            get: |description| description.$field.map(xml_date_time),
            set: |description, text| {
                description.$field = instant(text.trim())?;
                Some(())
            },
        }
    };
    ($name:literal, constant $value:literal) => {
        Field { name: $name, get: |_| Some($value.to_owned()), set: |_, _| Some(()) }
    };
    ($name:literal) => {
        Field { name: $name, get: |_| None, set: |_, _| Some(()) }
    };
}

const ACCESSED_AT: Field = Field {
    name: "AccessedAt",
    get: |description| {
        let never = || description.created_at.map(|_| "0001-01-01T00:00:00".to_owned());
        description.accessed_at.map(xml_date_time).or_else(never)
    },
    set: |description, text| {
        description.accessed_at = instant(text.trim())?;
        Some(())
    },
};

const STATUS: Field = field!("Status", status, Status::of_name, |status| status.name().to_owned());

const QUEUE: &[Field] = &[
    field!("LockDuration", span lock_duration),
    field!("MaxSizeInMegabytes", number maximum_mebibytes),
    field!("RequiresDuplicateDetection", flag requires_duplicate_detection),
    field!("RequiresSession", flag requires_session),
    field!("DefaultMessageTimeToLive", span default_time_to_live),
    field!("DeadLetteringOnMessageExpiration", flag dead_lettering_on_expiration),
    field!("DuplicateDetectionHistoryTimeWindow", span duplicate_detection_window),
    field!("MaxDeliveryCount", number maximum_delivery_count),
    field!("EnableBatchedOperations", flag enable_batched_operations),
    field!("SizeInBytes", number size_in_bytes),
    field!("MessageCount", number message_count),
    field!("IsAnonymousAccessible", constant "false"),
    field!("AuthorizationRules"),
    STATUS,
    field!("CreatedAt", instant created_at),
    field!("UpdatedAt", instant updated_at),
    ACCESSED_AT,
    field!("SupportOrdering", flag support_ordering),
    field!("CountDetails"),
    field!("AutoDeleteOnIdle", span auto_delete_on_idle),
    field!("EnablePartitioning", flag enable_partitioning),
    field!("EntityAvailabilityStatus", constant "Available"),
    field!("EnableExpress", flag enable_express),
    field!("ForwardTo", path forward_to),
    field!("UserMetadata", text user_metadata),
    field!("ForwardDeadLetteredMessagesTo", path forward_dead_letters_to),
    field!("MaxMessageSizeInKilobytes", number maximum_message_kibibytes),
];

const TOPIC: &[Field] = &[
    field!("DefaultMessageTimeToLive", span default_time_to_live),
    field!("MaxSizeInMegabytes", number maximum_mebibytes),
    field!("RequiresDuplicateDetection", flag requires_duplicate_detection),
    field!("DuplicateDetectionHistoryTimeWindow", span duplicate_detection_window),
    field!("EnableBatchedOperations", flag enable_batched_operations),
    field!("SizeInBytes", number size_in_bytes),
    field!("FilteringMessagesBeforePublishing", constant "false"),
    field!("IsAnonymousAccessible", constant "false"),
    field!("AuthorizationRules"),
    STATUS,
    field!("CreatedAt", instant created_at),
    field!("UpdatedAt", instant updated_at),
    ACCESSED_AT,
    field!("SupportOrdering", flag support_ordering),
    field!("CountDetails"),
    field!("SubscriptionCount", number subscription_count),
    field!("SqlFilterCount", number sql_filter_count),
    field!("CorrelationFilterCount", number correlation_filter_count),
    field!("AutoDeleteOnIdle", span auto_delete_on_idle),
    field!("EnablePartitioning", flag enable_partitioning),
    field!("EntityAvailabilityStatus", constant "Available"),
    field!("EnableSubscriptionPartitioning", constant "false"),
    field!("EnableExpress", flag enable_express),
    field!("UserMetadata", text user_metadata),
    field!("MaxMessageSizeInKilobytes", number maximum_message_kibibytes),
];

const SUBSCRIPTION: &[Field] = &[
    field!("LockDuration", span lock_duration),
    field!("RequiresSession", flag requires_session),
    field!("DefaultMessageTimeToLive", span default_time_to_live),
    field!("DeadLetteringOnMessageExpiration", flag dead_lettering_on_expiration),
    field!("DeadLetteringOnFilterEvaluationExceptions", flag dead_lettering_on_filter_exceptions),
    field!("DefaultRuleDescription"),
    field!("MessageCount", number message_count),
    field!("MaxDeliveryCount", number maximum_delivery_count),
    field!("EnableBatchedOperations", flag enable_batched_operations),
    STATUS,
    field!("ForwardTo", path forward_to),
    field!("CreatedAt", instant created_at),
    field!("UpdatedAt", instant updated_at),
    ACCESSED_AT,
    field!("CountDetails"),
    field!("ForwardDeadLetteredMessagesTo", path forward_dead_letters_to),
    field!("AutoDeleteOnIdle", span auto_delete_on_idle),
    field!("EntityAvailabilityStatus", constant "Available"),
    field!("UserMetadata", text user_metadata),
];

#[cfg(test)]
mod tests {
    use super::super::atom::{self, read_entry};
    use super::*;

    fn read(kind: EntityKind, text: &str) -> Result<EntityDescription, InvalidValue> {
        EntityDescription::read(kind, &read_entry(text).unwrap().unwrap().description)
    }

    #[test]
    fn what_is_written_reads_back() {
        let time = SystemTime::UNIX_EPOCH + Duration::from_millis(1_700_000_000_250);
        let description = EntityDescription {
            lock_duration: Some(Duration::from_secs(60)),
            maximum_mebibytes: Some(1_024),
            requires_session: Some(true),
            default_time_to_live: Some(UNLIMITED),
            maximum_delivery_count: Some(10),
            status: Some(Status::SendDisabled),
            created_at: Some(time),
            accessed_at: None,
            counts: Some(MessageCounts { active: 3, dead_letters: 1, ..MessageCounts::default() }),
            forward_to: Some("a<b".into()),
            user_metadata: Some(" a note ".into()),
            authorization_rules: Some(vec![AuthorizationRule {
                key_name: "reader".into(),
                rights: vec!["Listen".into()],
                primary_key: "a+/=".into(),
                secondary_key: "<b>".into(),
            }]),
            ..EntityDescription::default()
        };
        let text = atom::request(&description.requested(EntityKind::Queue));
        assert_eq!(read(EntityKind::Queue, &text).as_ref(), Ok(&description));
        let forwarding =
            "</Status><ForwardTo>a&lt;b</ForwardTo><UserMetadata> a note </UserMetadata><CreatedAt>";
        assert!(text.contains(forwarding) && text.matches("ForwardTo>").count() == 2, "{text}");
        let text = atom::request(&description.written(EntityKind::Queue));
        assert_eq!(read(EntityKind::Queue, &text), Ok(description));
        assert!(text.contains("<CreatedAt>2023-11-14T22:13:20.25Z</CreatedAt>"), "{text}");
        assert!(text.contains("<LockDuration>PT1M</LockDuration><MaxSizeInMegabytes>1024<"), "{text}");
        assert!(text.contains(r#"<CountDetails xmlns:d2p1="http"#), "{text}");
        assert!(text.contains("<AccessedAt>0001-01-01T00:00:00</AccessedAt>"), "{text}");
    }

    #[test]
    fn a_value_that_is_none_is_named() {
        let refused = |element: &str, value: &str| {
            let text = format!(
                "<entry><content><QueueDescription><{element}>{value}</{element}></QueueDescription></content></entry>"
            );
            let expected = InvalidValue { element: element.to_owned(), value: value.to_owned() };
            assert_eq!(read(EntityKind::Queue, &text), Err(expected));
        };
        refused("LockDuration", "a minute");
        let blanks = "<entry><content><QueueDescription><MaxDeliveryCount>\n 5 </MaxDeliveryCount></QueueDescription></content></entry>";
        assert_eq!(read(EntityKind::Queue, blanks).unwrap().maximum_delivery_count, Some(5));
        refused("LockDuration", "-PT1M");
        refused("MaxDeliveryCount", "-1");
        refused("RequiresSession", "");
        refused("Status", "Sleeping");
        let unknown =
            "<entry><content><QueueDescription><Colour>red</Colour></QueueDescription></content></entry>";
        assert_eq!(read(EntityKind::Queue, unknown), Ok(EntityDescription::default()));
    }
}
