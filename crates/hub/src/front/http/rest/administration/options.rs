//! What a client wants an entity to be like, within the limits of the service.
//!
//! What a description does not say is the default where something new is made, and stays as it is where something is changed. Where
//! messages go on to, and what the owner notes, ends with a description that does not say it: clients have no other way to say
//! so. What a client got and gives back as it was is taken, even if it is beyond the limits: a file may have set it.

use std::fmt::Display;
use std::time::Duration;

use ::rest::administration::document::Element;
use ::rest::administration::entity::{AuthorizationRule, EntityDescription, EntityKind, Status, UNLIMITED};
use partition_log::UnixTime;
use queue_store::{EntityStatus, MAXIMUM_DELIVERY_COUNT, QueueOptions, TopicOptions};
use units::{ByteSize, iso_duration};

use super::super::refusal::Refusal;
use super::{describe, invalid};
use crate::namespace::{EntityFacts, KeptKey};

/// What a queue or a subscription is to be like.
#[derive(Debug, PartialEq)]
pub(super) struct Wanted {
    pub(super) options: QueueOptions,
    pub(super) facts: EntityFacts,
}

/// What a topic is to be like.
#[derive(Debug, PartialEq)]
pub(super) struct WantedTopic {
    pub(super) options: TopicOptions,
    pub(super) facts: EntityFacts,
}

impl Wanted {
    /// A new one.
    pub(super) fn new(kind: EntityKind, element: &Element, now: UnixTime) -> Result<Self, Refusal> {
        let wanted = read(kind, element, None)?;
        let mut options = QueueOptions::default();
        if wanted.requires_duplicate_detection == Some(true) {
            options.duplicate_detection = Some(DUPLICATE_DETECTION_WINDOW);
        }
        options.requires_session = wanted.requires_session.unwrap_or(false);
        let applies = applies_forwarding(kind, element);
        Self::of(&wanted, applies, options, EntityFacts::of(now))
    }

    /// One that is there, with these options, and is to be changed.
    pub(super) fn changed(
        kind: EntityKind,
        element: &Element,
        largest: u64,
        options: &QueueOptions,
        facts: EntityFacts,
    ) -> Result<Self, Refusal> {
        let mut wanted = read(kind, element, Some(largest))?;
        let current = describe::queue_options(options, &facts);
        check_unchanged("RequiresSession", kind, wanted.requires_session, current.requires_session)?;
        check_fixed(kind, &wanted, &current, &facts)?;
        drop_unchanged(&mut wanted, &current);
        Self::of(&wanted, applies_forwarding(kind, element), options.clone(), facts)
    }

    fn of(
        wanted: &EntityDescription,
        applies_forwarding: bool,
        mut options: QueueOptions,
        mut facts: EntityFacts,
    ) -> Result<Self, Refusal> {
        if let Some(time) = wanted.lock_duration {
            options.lock_duration = within("LockDuration", time, Duration::from_millis(1), LONGEST_LOCK)?;
        }
        if let Some(count) = wanted.maximum_delivery_count {
            let most = MAXIMUM_DELIVERY_COUNT;
            if !(1..=most).contains(&count) {
                return Err(out_of_range("MaxDeliveryCount", &count, &format!("1 to {most}")));
            }
            options.maximum_delivery_count = count;
        }
        if let Some(flag) = wanted.dead_lettering_on_expiration {
            options.dead_lettering_on_expiration = flag;
        }
        let targets = [&wanted.forward_to, &wanted.forward_dead_letters_to];
        facts.wishes.forwards_by_https =
            targets.into_iter().flatten().any(|target| target.starts_with("https://"));
        let forward_to = wanted.forward_to.as_deref().and_then(entity_path);
        (options.forward_to, facts.wishes.forward_to) = match (options.requires_session, forward_to) {
            (true, Some(_)) if applies_forwarding => return Err(invalid(SESSIONS_STAY.to_owned())),
            (true, forward_to) => (None, forward_to),
            (false, forward_to) => (forward_to, None),
        };
        options.forward_dead_lettered_messages_to =
            wanted.forward_dead_letters_to.as_deref().and_then(entity_path);
        let shared = Shared {
            default_time_to_live: &mut options.default_time_to_live,
            duplicate_detection: &mut options.duplicate_detection,
            size_limit: &mut options.size_limit,
            status: &mut options.status,
        };
        shared.set(wanted, &mut facts)?;
        Ok(Self { options, facts })
    }
}

impl WantedTopic {
    /// A new one.
    pub(super) fn new(element: &Element, now: UnixTime) -> Result<Self, Refusal> {
        let wanted = read(EntityKind::Topic, element, None)?;
        let mut options = TopicOptions::default();
        if wanted.requires_duplicate_detection == Some(true) {
            options.duplicate_detection = Some(DUPLICATE_DETECTION_WINDOW);
        }
        Self::of(&wanted, options, EntityFacts::of(now))
    }

    /// One that is there, with these options, and is to be changed.
    pub(super) fn changed(
        element: &Element,
        largest: u64,
        options: &TopicOptions,
        facts: EntityFacts,
    ) -> Result<Self, Refusal> {
        let mut wanted = read(EntityKind::Topic, element, Some(largest))?;
        let current = describe::topic_options(options, &facts);
        check_fixed(EntityKind::Topic, &wanted, &current, &facts)?;
        drop_unchanged(&mut wanted, &current);
        Self::of(&wanted, options.clone(), facts)
    }

    fn of(
        wanted: &EntityDescription,
        mut options: TopicOptions,
        mut facts: EntityFacts,
    ) -> Result<Self, Refusal> {
        let shared = Shared {
            default_time_to_live: &mut options.default_time_to_live,
            duplicate_detection: &mut options.duplicate_detection,
            size_limit: &mut options.size_limit,
            status: &mut options.status,
        };
        shared.set(wanted, &mut facts)?;
        Ok(Self { options, facts })
    }
}

/// The options that queues and topics have in common.
struct Shared<'a> {
    default_time_to_live: &'a mut Option<Duration>,
    duplicate_detection: &'a mut Option<Duration>,
    size_limit: &'a mut ByteSize,
    status: &'a mut EntityStatus,
}

impl Shared<'_> {
    fn set(self, wanted: &EntityDescription, facts: &mut EntityFacts) -> Result<(), Refusal> {
        if let Some(time) = wanted.default_time_to_live {
            let least = Duration::from_secs(1);
            let time = within("DefaultMessageTimeToLive", time, least, UNLIMITED)?;
            *self.default_time_to_live = (time < FOR_EVER).then_some(time);
        }
        if let Some(window) = wanted.duplicate_detection_window {
            let (least, most) = DUPLICATE_DETECTION_WINDOWS;
            let window = within("DuplicateDetectionHistoryTimeWindow", window, least, most)?;
            match self.duplicate_detection {
                Some(known) => *known = window,
                None => facts.wishes.duplicate_detection_window = Some(window),
            }
        }
        if let Some(size) = wanted.maximum_mebibytes {
            *self.size_limit = ByteSize::from_mebibytes(size_of_all_parts(
                size,
                wanted.enable_partitioning.unwrap_or(facts.wishes.enable_partitioning),
            )?);
        }
        if let Some(status) = wanted.status {
            *self.status = match status {
                Status::Active => EntityStatus::Active,
                Status::Disabled => EntityStatus::Disabled,
                Status::SendDisabled => EntityStatus::SendDisabled,
                Status::ReceiveDisabled => EntityStatus::ReceiveDisabled,
            };
        }
        set_facts(wanted, facts)
    }
}

/// What something may hold for which a client wants so many MiB. Of something partitioned clients say what one part may hold, and
/// are told, and may repeat, what all of them may.
fn size_of_all_parts(size: u64, is_partitioned: bool) -> Result<u64, Refusal> {
    if SIZES.contains(&size) {
        return Ok(if is_partitioned { size * PARTITIONS } else { size });
    }
    match is_partitioned && size.is_multiple_of(PARTITIONS) && SIZES.contains(&(size / PARTITIONS)) {
        true => Ok(size),
        false => Err(out_of_range("MaxSizeInMegabytes", &size, &format!("one of {SIZES:?}"))),
    }
}

fn set_facts(wanted: &EntityDescription, facts: &mut EntityFacts) -> Result<(), Refusal> {
    if let Some(time) = wanted.auto_delete_on_idle {
        let time = within("AutoDeleteOnIdle", time, SHORTEST_IDLE, UNLIMITED)?;
        facts.auto_delete_on_idle = (time < FOR_EVER).then_some(time);
    }
    facts.user_metadata = wanted.user_metadata.clone().filter(|text| !text.is_empty());
    if let Some(text) = &facts.user_metadata
        && text.chars().count() > LONGEST_METADATA
    {
        let length = text.chars().count();
        return Err(out_of_range("UserMetadata", &length, &format!("up to {LONGEST_METADATA} characters")));
    }
    let wishes = &mut facts.wishes;
    for (wish, wanted) in [
        (&mut wishes.enable_batched_operations, wanted.enable_batched_operations),
        (&mut wishes.enable_partitioning, wanted.enable_partitioning),
        (&mut wishes.enable_express, wanted.enable_express),
        (&mut wishes.support_ordering, wanted.support_ordering),
        (&mut wishes.dead_lettering_on_filter_exceptions, wanted.dead_lettering_on_filter_exceptions),
    ] {
        *wish = wanted.unwrap_or(*wish);
    }
    if let Some(rules) = &wanted.authorization_rules {
        facts.keys = rules.iter().map(kept_key).collect();
    }
    Ok(())
}

fn kept_key(rule: &AuthorizationRule) -> KeptKey {
    KeptKey {
        name: rule.key_name.clone(),
        rights: rule.rights.clone(),
        primary: rule.primary_key.as_str().into(),
        secondary: rule.secondary_key.as_str().into(),
    }
}

/// Reads a description. Other tiers of the service let clients choose the longest message; here a description of what is there
/// may repeat it: `largest`, in bytes.
fn read(kind: EntityKind, element: &Element, largest: Option<u64>) -> Result<EntityDescription, Refusal> {
    let description = EntityDescription::read(kind, element)
        .map_err(|error| invalid(format!("The request is invalid: {error}.")))?;
    match description.maximum_message_kibibytes {
        Some(wanted) if largest.map(|bytes| bytes / 1024) != Some(wanted) => Err(invalid(format!(
            "The value '{wanted}' for the MaxMessageSizeInKilobytes property is not supported: it can't be chosen in a namespace of \
             this tier, where largest_message is that of all entities."
        ))),
        _ => Ok(description),
    }
}

/// Whether a description keeps what can't be changed.
fn check_fixed(
    kind: EntityKind,
    wanted: &EntityDescription,
    current: &EntityDescription,
    facts: &EntityFacts,
) -> Result<(), Refusal> {
    check_unchanged(
        "RequiresDuplicateDetection",
        kind,
        wanted.requires_duplicate_detection,
        current.requires_duplicate_detection,
    )?;
    match wanted.enable_partitioning {
        Some(wanted) if wanted != facts.wishes.enable_partitioning => {
            Err(invalid(format!("Partitioning cannot be changed for {}. ", kind_name(kind))))
        }
        _ => Ok(()),
    }
}

fn check_unchanged(
    element: &str,
    kind: EntityKind,
    wanted: Option<bool>,
    current: Option<bool>,
) -> Result<(), Refusal> {
    match wanted.is_none() || wanted == current {
        true => Ok(()),
        false => Err(invalid(format!(
            "The value for the {element} property of an existing {} cannot be changed.",
            kind_name(kind)
        ))),
    }
}

const fn kind_name(kind: EntityKind) -> &'static str {
    match kind {
        EntityKind::Queue => "Queue",
        EntityKind::Topic => "Topic",
        EntityKind::Subscription => "Subscription",
    }
}

/// Forgets what is as it was.
fn drop_unchanged(wanted: &mut EntityDescription, current: &EntityDescription) {
    fn drop_same<T: PartialEq>(wanted: &mut Option<T>, current: &Option<T>) {
        if wanted == current {
            *wanted = None;
        }
    }
    drop_same(&mut wanted.lock_duration, &current.lock_duration);
    drop_same(&mut wanted.maximum_mebibytes, &current.maximum_mebibytes);
    drop_same(&mut wanted.default_time_to_live, &current.default_time_to_live);
    drop_same(&mut wanted.duplicate_detection_window, &current.duplicate_detection_window);
    drop_same(&mut wanted.maximum_delivery_count, &current.maximum_delivery_count);
    drop_same(&mut wanted.auto_delete_on_idle, &current.auto_delete_on_idle);
}

fn within(element: &str, time: Duration, least: Duration, most: Duration) -> Result<Duration, Refusal> {
    match (least..=most).contains(&time) {
        true => Ok(time),
        false => {
            let allowed = format!("{} to {}", iso_duration::text(least), iso_duration::text(most));
            Err(out_of_range(element, &iso_duration::text(time), &allowed))
        }
    }
}

fn out_of_range(element: &str, value: &dyn Display, allowed: &str) -> Refusal {
    invalid(format!("The value '{value}' for the {element} property is out of range; allowed is {allowed}."))
}

/// Whether the service would apply the `ForwardTo` of a description. Behind elements that come after it in a request it only tells it, and
/// forwards nothing, which shows where messages belong to sessions: Python's client writes it there, and gets such queues.
fn applies_forwarding(kind: EntityKind, element: &Element) -> bool {
    let mut before = element.children.iter().take_while(|child| child.name != "ForwardTo");
    kind != EntityKind::Queue || !before.any(|child| AFTER_FORWARD_TO.contains(&child.name.as_str()))
}

/// The name of an entity, of which a client may give the URL.
fn entity_path(target: &str) -> Option<String> {
    let path = match target.split_once("://") {
        Some((_scheme, rest)) => rest.split_once('/').map_or("", |(_host, path)| path),
        None => target,
    };
    let path = path.trim_matches('/');
    (!path.is_empty()).then(|| path.to_owned())
}

/// How long identifiers are known where a client wants duplicates found and does not say.
pub(super) const DUPLICATE_DETECTION_WINDOW: Duration = Duration::from_secs(600);

/// The limits of the service.
const LONGEST_LOCK: Duration = Duration::from_secs(300);
const DUPLICATE_DETECTION_WINDOWS: (Duration, Duration) =
    (Duration::from_secs(20), Duration::from_secs(7 * 86_400));
const SIZES: [u64; 9] = [1_024, 2_048, 3_072, 4_096, 5_120, 10_240, 20_480, 40_960, 81_920];
/// Of how many parts something partitioned is made.
const PARTITIONS: u64 = 16;
const SHORTEST_IDLE: Duration = Duration::from_secs(300);
const LONGEST_METADATA: usize = 1_024;

/// Elements that follow `ForwardTo` in a request that describes a queue.
const AFTER_FORWARD_TO: [&str; 4] =
    ["AutoDeleteOnIdle", "EnablePartitioning", "EntityAvailabilityStatus", "EnableExpress"];

const SESSIONS_STAY: &str =
    "ForwardTo can't be set with RequiresSession: messages of sessions can't be forwarded.";

/// From here on a time is without end. The largest that clients mean is some 29,000 years.
const FOR_EVER: Duration = Duration::from_secs(100 * 365 * 86_400);

#[cfg(test)]
mod tests {
    use super::*;

    fn element(content: &str) -> Element {
        Element::parse(&format!("<QueueDescription>{content}</QueueDescription>")).unwrap()
    }

    fn new(content: &str) -> Result<Wanted, Refusal> {
        Wanted::new(EntityKind::Queue, &element(content), UnixTime::default())
    }

    #[test]
    fn what_is_not_said_is_the_default_of_what_is_new() {
        let Wanted { options, facts } = new("").unwrap();
        assert_eq!(options, QueueOptions::default());
        assert_eq!(facts, EntityFacts::of(UnixTime::default()));
        let Wanted { options, facts } = new(
            "<LockDuration>PT30S</LockDuration><RequiresDuplicateDetection>true</RequiresDuplicateDetection>\
             <DefaultMessageTimeToLive>P10675199DT2H48M5.4775807S</DefaultMessageTimeToLive>\
             <ForwardTo>sb://host:5300/Team/Orders</ForwardTo><AutoDeleteOnIdle>PT5M</AutoDeleteOnIdle>\
             <Status>SendDisabled</Status><UserMetadata>mine</UserMetadata>",
        )
        .unwrap();
        assert_eq!(options.lock_duration, Duration::from_secs(30));
        assert_eq!(options.duplicate_detection, Some(DUPLICATE_DETECTION_WINDOW));
        assert_eq!((options.default_time_to_live, options.status), (None, EntityStatus::SendDisabled));
        assert_eq!(options.forward_to.as_deref(), Some("Team/Orders"));
        assert_eq!(facts.auto_delete_on_idle, Some(Duration::from_secs(300)));
        assert_eq!(facts.user_metadata.as_deref(), Some("mine"));
    }

    #[test]
    fn what_is_beyond_the_limits_is_refused_by_name() {
        for (name, value) in [
            ("LockDuration", "PT5M0.1S"),
            ("LockDuration", "PT0S"),
            ("MaxDeliveryCount", "0"),
            ("MaxDeliveryCount", "2147483648"),
            ("DefaultMessageTimeToLive", "PT0.5S"),
            ("DuplicateDetectionHistoryTimeWindow", "P7DT1S"),
            ("MaxSizeInMegabytes", "1000"),
            ("AutoDeleteOnIdle", "PT4M59S"),
            ("MaxMessageSizeInKilobytes", "1024"),
            ("UserMetadata", &"x".repeat(1_025)),
        ] {
            let refused = new(&format!("<{name}>{value}</{name}>")).unwrap_err();
            assert_eq!(refused.status, 400);
            assert!(refused.detail.contains(name), "{}", refused.detail);
        }
    }

    #[test]
    fn what_is_given_back_as_it_was_is_taken_and_what_is_fixed_stays() {
        let options = QueueOptions {
            lock_duration: Duration::from_secs(3_600),
            size_limit: ByteSize::from_bytes(1_000),
            forward_to: Some("other".into()),
            ..QueueOptions::default()
        };
        let change = |content: &str| {
            let facts = EntityFacts::of(UnixTime::default());
            Wanted::changed(EntityKind::Queue, &element(content), 256 << 10, &options, facts)
        };
        let same = "<LockDuration>PT1H</LockDuration><MaxSizeInMegabytes>0</MaxSizeInMegabytes>\
                    <ForwardTo>other</ForwardTo><RequiresSession>false</RequiresSession>";
        assert_eq!(change(same).unwrap().options, options);
        let changed = change("<MaxDeliveryCount>3</MaxDeliveryCount>").unwrap().options;
        let expected = QueueOptions { maximum_delivery_count: 3, forward_to: None, ..options.clone() };
        assert_eq!(changed, expected);
        for (fixed, said) in [
            (
                "RequiresSession",
                "The value for the RequiresSession property of an existing Queue cannot be changed.",
            ),
            ("RequiresDuplicateDetection", "of an existing Queue cannot be changed."),
            ("EnablePartitioning", "Partitioning cannot be changed for Queue."),
        ] {
            let refused = change(&format!("<{fixed}>true</{fixed}>")).unwrap_err();
            assert!(refused.detail.contains(said) && refused.status == 400, "{}", refused.detail);
        }
        assert!(change("<MaxMessageSizeInKilobytes>256</MaxMessageSizeInKilobytes>").is_ok());
        assert!(change("<MaxMessageSizeInKilobytes>512</MaxMessageSizeInKilobytes>").is_err());
    }

    #[test]
    fn what_is_partitioned_holds_as_much_as_all_its_parts() {
        let size = "<MaxSizeInMegabytes>2048</MaxSizeInMegabytes>";
        let partitioned = "<EnablePartitioning>true</EnablePartitioning>";
        let Wanted { options, facts } = new(&format!("{size}{partitioned}")).unwrap();
        assert_eq!(options.size_limit, ByteSize::from_mebibytes(16 * 2_048));
        let change = |content: &str| {
            let changed =
                Wanted::changed(EntityKind::Queue, &element(content), 256 << 10, &options, facts.clone());
            changed.map(|changed| changed.options.size_limit.bytes() >> 20)
        };
        assert_eq!(
            change(&format!("<MaxSizeInMegabytes>32768</MaxSizeInMegabytes>{partitioned}")).unwrap(),
            32_768
        );
        assert_eq!(change("<MaxSizeInMegabytes>1024</MaxSizeInMegabytes>").unwrap(), 16_384);
        assert_eq!(change("<MaxSizeInMegabytes>16384</MaxSizeInMegabytes>").unwrap(), 16_384);
        assert!(change("<MaxSizeInMegabytes>17000</MaxSizeInMegabytes>").is_err());
        assert!(new("<MaxSizeInMegabytes>32768</MaxSizeInMegabytes>").is_err());
    }

    #[test]
    fn with_sessions_a_place_to_forward_to_is_refused_or_told_as_the_service_does_it() {
        let sessions = "<RequiresSession>true</RequiresSession>";
        let forwarding = "<ForwardTo>other</ForwardTo>";
        let express = "<EnableExpress>false</EnableExpress>";
        for applied in [format!("{sessions}{forwarding}"), format!("{sessions}{forwarding}{express}")] {
            let refused = new(&applied).unwrap_err();
            assert!(
                refused.status == 400 && refused.detail.contains("RequiresSession"),
                "{}",
                refused.detail
            );
        }
        let subscription = element(&format!("{sessions}{express}{forwarding}"));
        assert!(Wanted::new(EntityKind::Subscription, &subscription, UnixTime::default()).is_err());
        let Wanted { options, facts } = new(&format!("{sessions}{express}{forwarding}")).unwrap();
        assert_eq!(options.forward_to, None);
        let described = describe::queue_options(&options, &facts);
        assert_eq!(described.forward_to.as_deref(), Some("other"));
        let changed = Wanted::changed(EntityKind::Queue, &element(""), 256 << 10, &options, facts).unwrap();
        assert_eq!(describe::queue_options(&changed.options, &changed.facts).forward_to, None);
    }
}
