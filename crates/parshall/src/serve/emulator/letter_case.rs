//! The keys of the Service Bus emulator's file, whose letter case makes no difference there.

use settings::{Content, Document, Entry, Node};

/// The document with every known key in its usual letter case, and without the keys with which editors name a schema.
pub(super) fn in_usual_letter_case(document: &Document) -> Document {
    let mut renamed = document.clone();
    for entry in document.root().entries() {
        let value = renamed.take(&entry.key);
        if let Some(mut value) = value
            && !entry.key.starts_with('$')
        {
            rename(&mut value);
            renamed.put(known(&entry.key), &entry.key_place, value);
        }
    }
    renamed
}

fn rename(node: &mut Node) {
    match &mut node.content {
        Content::List(elements) => elements.iter_mut().for_each(rename),
        Content::Mapping(entries) => {
            entries.retain(|entry| !entry.key.starts_with('$'));
            for Entry { key, value, .. } in entries {
                let name = known(key);
                if name == "CorrelationFilter" {
                    rename_but_properties(value);
                } else {
                    rename(value);
                }
                *key = name.to_owned();
            }
        }
        _ => {}
    }
}

/// The names in a correlation filter's properties are those of messages.
fn rename_but_properties(filter: &mut Node) {
    if let Content::Mapping(entries) = &mut filter.content {
        for entry in entries {
            entry.key = known(&entry.key).to_owned();
        }
    }
}

/// The key as it is usually spelled, if it is a known one.
fn known(key: &str) -> &str {
    KEYS.into_iter().find(|known| known.eq_ignore_ascii_case(key)).unwrap_or(key)
}

/// All keys of such a file, as Microsoft's schema spells them.
const KEYS: [&str; 34] = [
    "UserConfig",
    "Namespaces",
    "NamespaceConfig",
    "Logging",
    "LoggingConfig",
    "Name",
    "Queues",
    "Topics",
    "Properties",
    "Subscriptions",
    "Rules",
    "DeadLetteringOnMessageExpiration",
    "DefaultMessageTimeToLive",
    "LockDuration",
    "MaxDeliveryCount",
    "RequiresSession",
    "RequiresDuplicateDetection",
    "DuplicateDetectionHistoryTimeWindow",
    "ForwardTo",
    "ForwardDeadLetteredMessagesTo",
    "FilterType",
    "CorrelationFilter",
    "SqlFilter",
    "Action",
    "SqlExpression",
    "ContentType",
    "CorrelationId",
    "Label",
    "Subject",
    "MessageId",
    "ReplyTo",
    "ReplyToSessionId",
    "SessionId",
    "To",
];
