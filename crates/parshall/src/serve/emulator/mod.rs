//! The `Config.json` of Microsoft's emulators, accepted as it is: that for Event Hubs has hubs, that for Service Bus
//! queues and topics. A file may also have both, which then share one namespace.
//!
//! Such files are written for other programs: letter case of keys makes no difference, as there, and the limits of the
//! emulators are not ours.

mod event_hubs;
mod iso_duration;
mod letter_case;
mod service_bus;

use hub::namespace::NamespaceConfig;
use settings::{Content, Document, Node, SettingsError};

/// Whether the document is such a file.
pub(super) fn is_emulators(document: &Document) -> bool {
    find(document.root(), "UserConfig").is_some()
}

/// The namespace that the file describes.
///
/// # Errors
/// What is missing or makes no sense, with its place.
pub(super) fn read(document: &Document) -> Result<NamespaceConfig, SettingsError> {
    let user =
        find(document.root(), "UserConfig").ok_or_else(|| missing(document.root(), "", "UserConfig"))?;
    if find(user, "LoggingConfig").is_some() || find(user, "Logging").is_some() {
        tracing::debug!("the logging section is ignored; set the variable PARSHALL_LOG instead");
    }
    let has_entities = service_bus::is_there(user);
    let hubs =
        if has_entities && !event_hubs::is_there(user) { Vec::new() } else { event_hubs::read(document)? };
    let (queues, topics) = if has_entities { service_bus::read(document)? } else { (Vec::new(), Vec::new()) };
    Ok(NamespaceConfig { queues, topics, ..NamespaceConfig::with_hubs(hubs) })
}

/// What the file calls something that is `name` in a namespace of ours, if it has it: the keys on the way, the second of
/// which may be those of a list with one element.
pub(super) fn words(name: &str) -> &[&'static str] {
    match name {
        "hubs" => &["UserConfig", "NamespaceConfig[0]", "Entities"],
        "partitions" => &["PartitionCount"],
        "consumer_groups" => &["ConsumerGroups"],
        "queues" => &["UserConfig", "Namespaces[0]", "Queues"],
        "topics" => &["UserConfig", "Namespaces[0]", "Topics"],
        "subscriptions" => &["Subscriptions"],
        "rules" => &["Rules"],
        "name" => &["Name"],
        "lock_duration" => &["Properties", "LockDuration"],
        "maximum_delivery_count" => &["Properties", "MaxDeliveryCount"],
        "default_time_to_live" => &["Properties", "DefaultMessageTimeToLive"],
        "duplicate_detection" => &["Properties", "DuplicateDetectionHistoryTimeWindow"],
        "forward_to" => &["Properties", "ForwardTo"],
        "forward_dead_lettered_messages_to" => &["Properties", "ForwardDeadLetteredMessagesTo"],
        _ => &[],
    }
}

/// The value of `key`, whatever its letter case.
pub(super) fn find<'a>(node: &'a Node, key: &str) -> Option<&'a Node> {
    let mut entries = node.entries().iter();
    entries.find(|entry| entry.key.eq_ignore_ascii_case(key)).map(|entry| &entry.value)
}

/// A name. One that looks like a number is a name all the same.
fn text(node: &Node, path: &str) -> Result<String, SettingsError> {
    match &node.content {
        Content::Text(text) => Ok(text.clone()),
        Content::Integer(_) => Ok(node.written()),
        _ => Err(node.mistake(path, "is not a string", "")),
    }
}

fn missing(node: &Node, path: &str, key: &str) -> SettingsError {
    node.mistake(path, format!("has no `{key}`"), "")
}
