//! Hubs, partitions and consumer groups as attributes: what a reply of `$management` says of them, and what a request to
//! create a hub has to say.
//!
//! The last event of a partition is the one before the stable end, since readers over AMQP get no others: a client that reads up to
//! the number that it was told would wait as long as a transaction of a Kafka client is open. That number may be of a record that
//! no reader gets, of an aborted transaction or of its end. Finding the last one that is read would mean to look through the log.

use std::time::SystemTime;

use amqp::Value;

use crate::namespace::{Hub, HubConfig};
use partition_log::UnixTime;

/// The hub that a request to create one describes.
pub(crate) fn hub_config(name: &str, attributes: &Value) -> Result<HubConfig, String> {
    let entries = match attributes {
        Value::Map(entries) => entries.as_slice(),
        Value::Null => &[],
        _ => return Err("The body is not a map of attributes.".to_owned()),
    };
    let mut partitions = None;
    let mut consumer_groups = Vec::new();
    for (key, value) in entries {
        match key.as_text() {
            Some("partition_count") => {
                let count = value.as_integer().and_then(|count| u16::try_from(count).ok());
                let wrong = || "'partition_count' is not a number of partitions.".to_owned();
                partitions = Some(count.ok_or_else(wrong)?);
            }
            Some("consumer_groups") => {
                let wrong = || "'consumer_groups' is not a list of strings.".to_owned();
                consumer_groups = texts(value).ok_or_else(wrong)?;
            }
            key => {
                let key = key.unwrap_or_default();
                return Err(format!(
                    "There is no attribute '{key}'; a hub is created with 'partition_count' and 'consumer_groups'."
                ));
            }
        }
    }
    let partitions = partitions.ok_or("The attribute 'partition_count' is missing.")?;
    Ok(HubConfig { consumer_groups, ..HubConfig::new(name, partitions) })
}

/// The elements of a list of strings; `None` for everything else.
pub(crate) fn texts(value: &Value) -> Option<Vec<String>> {
    let (Value::List(elements) | Value::Array(elements)) = value else {
        return None;
    };
    let text = |element: &Value| element.as_text().map(str::to_owned);
    elements.iter().map(text).collect()
}

/// What a hub is.
pub(crate) fn hub_properties(hub: &Hub) -> Value {
    let ids = hub.partitions().iter().map(|partition| Value::String(partition.id().to_string())).collect();
    map([
        ("name", hub.name().into()),
        ("type", EVENT_HUB.into()),
        ("created_at", Value::Timestamp(hub.created_at().milliseconds())),
        ("partition_count", Value::Int(hub.partitions().len() as i32)),
        ("partition_ids", Value::Array(ids)),
        ("georeplication_factor", Value::Int(1)),
    ])
}

/// What a consumer group is.
pub(crate) fn group_properties(hub: &Hub, group: &str) -> Value {
    map([("name", hub.name().into()), ("type", CONSUMER_GROUP.into()), ("consumer_group", group.into())])
}

/// What a partition holds at `now`.
pub(crate) fn partition_properties(hub: &Hub, id: &str, now: SystemTime) -> Option<Value> {
    let stats = hub.partition(id)?.log().committed_stats();
    // One that was never written begins before its first event, as in the service.
    let (begin, last) = match stats.last_sequence_number {
        Some(last) => (stats.begin_sequence_number.cast_signed(), last.cast_signed()),
        None => (-1, -1),
    };
    let time = stats.last_append_time.map_or(0, UnixTime::milliseconds);
    Some(map([
        ("name", hub.name().into()),
        ("partition", id.into()),
        ("type", PARTITION.into()),
        ("begin_sequence_number", Value::Long(begin)),
        ("last_enqueued_sequence_number", Value::Long(last)),
        ("last_enqueued_sequence_number_epoch", Value::Int(0)),
        ("last_enqueued_offset", Value::String(last.to_string())),
        ("last_enqueued_time_utc", Value::Timestamp(time)),
        ("is_partition_empty", Value::Boolean(stats.is_empty)),
        ("runtime_info_retrieval_time_utc", Value::Timestamp(UnixTime::from(now).milliseconds())),
    ]))
}

/// A map with text keys.
pub(crate) fn map<const N: usize>(entries: [(&str, Value); N]) -> Value {
    Value::Map(entries.into_iter().map(|(key, value)| (Value::from(key), value)).collect())
}

/// The type of a hub, as the service calls it.
pub(crate) const EVENT_HUB: &str = "com.microsoft:eventhub";

/// The type of a partition, as the service calls it.
pub(crate) const PARTITION: &str = "com.microsoft:partition";

/// The type of a consumer group, for which the service has no name; in the manner of the others.
pub(crate) const CONSUMER_GROUP: &str = "com.microsoft:consumergroup";

/// What a list of hubs has where the client does not say; the partitions' ids would be most of it and tell nothing.
pub(crate) const HUB_COLUMNS: [&str; 4] = ["name", "type", "created_at", "partition_count"];

/// What a list of consumer groups has where the client does not say.
pub(crate) const GROUP_COLUMNS: [&str; 3] = ["name", "type", "consumer_group"];
