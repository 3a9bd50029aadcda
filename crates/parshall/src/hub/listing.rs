//! What `parshall hub` prints.

use std::fmt::Write as _;
use std::time::{Duration, UNIX_EPOCH};

use connect::event_hubs::{HubProperties, HubSummary, NamespaceClient, PartitionProperties};
use connect::service::ServiceError;
use serde_json::{Value, json};
use units::date::iso_date;

use crate::printed::{Printed, table};

/// One hub with everything about it.
#[derive(Debug)]
pub(super) struct HubDescription {
    properties: HubProperties,
    consumer_groups: Option<Vec<String>>,
    partitions: Vec<PartitionProperties>,
}

/// A hub that is no more.
#[derive(Debug)]
pub(super) struct Deleted<'a> {
    pub(super) name: &'a str,
}

/// All hubs by name, one line each.
pub(super) fn summaries(mut hubs: Vec<HubSummary>) -> String {
    hubs.sort_by(|a, b| a.name.cmp(&b.name));
    let rows = hubs
        .into_iter()
        .map(|hub| [hub.name, hub.partition_count.to_string(), instant(hub.created_at_unix_ms)]);
    table(["HUB", "PARTITIONS", "CREATED"], rows)
}

impl HubDescription {
    /// Asks for what `properties` does not have.
    ///
    /// # Errors
    /// As those of the client.
    pub(super) async fn read(
        client: &mut NamespaceClient,
        properties: HubProperties,
    ) -> Result<Self, ServiceError> {
        // Azure's own service does not tell.
        let consumer_groups = client.consumer_groups(&properties.name).await.ok();
        let mut partitions = Vec::with_capacity(properties.partition_ids.len());
        for id in &properties.partition_ids {
            partitions.push(client.partition(&properties.name, *id).await?);
        }
        Ok(Self { properties, consumer_groups, partitions })
    }

    /// Asks for all hubs by name, and for everything about each of them.
    ///
    /// # Errors
    /// As those of the client.
    pub(super) async fn read_all(client: &mut NamespaceClient) -> Result<Vec<Self>, ServiceError> {
        let mut names: Vec<String> = client.hubs().await?.into_iter().map(|hub| hub.name).collect();
        names.sort_unstable();
        let mut hubs = Vec::with_capacity(names.len());
        for name in names {
            let properties = client.hub(&name).await?;
            hubs.push(Self::read(client, properties).await?);
        }
        Ok(hubs)
    }
}

impl Printed for HubDescription {
    fn table(&self) -> String {
        let mut text = String::new();
        let mut line = |label: &str, value: &str| {
            writeln!(text, "{label:15}  {value}").expect("a string takes everything");
        };
        line("hub", &self.properties.name);
        line("created", &instant(self.properties.created_at_unix_ms));
        if let Some(groups) = &self.consumer_groups {
            line("consumer groups", &groups.join(", "));
        }
        let rows = self.partitions.iter().map(|partition| {
            let number = |number: i64| match partition.is_empty {
                true => "-".to_owned(),
                false => number.to_string(),
            };
            [
                partition.partition.to_string(),
                events(partition).to_string(),
                number(partition.begin_sequence_number),
                number(partition.last_enqueued_sequence_number),
                last_enqueued(partition).unwrap_or_else(|| "-".to_owned()),
            ]
        });
        text.push('\n');
        text + &table(["PARTITION", "EVENTS", "FIRST", "LAST", "LAST ENQUEUED"], rows)
    }

    fn json(&self) -> Value {
        let partitions = self.partitions.iter().map(|partition| {
            let mut shown = json!({
                "partition": partition.partition.to_string(),
                "events": events(partition),
                "begin_sequence_number": partition.begin_sequence_number,
            });
            if let Some(instant) = last_enqueued(partition) {
                shown["last_enqueued_sequence_number"] = json!(partition.last_enqueued_sequence_number);
                shown["last_enqueued_at"] = json!(instant);
            }
            shown
        });
        let mut shown = json!({
            "name": self.properties.name,
            "created_at": instant(self.properties.created_at_unix_ms),
            "partition_count": self.partitions.len(),
            "partitions": partitions.collect::<Vec<_>>(),
        });
        if let Some(groups) = &self.consumer_groups {
            shown["consumer_groups"] = json!(groups);
        }
        shown
    }
}

impl Printed for Deleted<'_> {
    fn table(&self) -> String {
        format!("deleted {}\n", self.name)
    }

    fn json(&self) -> Value {
        json!({ "deleted": self.name })
    }
}

/// How many events the partition holds.
fn events(partition: &PartitionProperties) -> i64 {
    if partition.is_empty {
        return 0;
    }
    let end = partition.last_enqueued_sequence_number.saturating_add(1);
    end.saturating_sub(partition.begin_sequence_number).max(0)
}

/// `None` where there never was an event.
fn last_enqueued(partition: &PartitionProperties) -> Option<String> {
    (partition.last_enqueued_sequence_number >= 0).then(|| instant(partition.last_enqueued_time.unix_ms()))
}

fn instant(unix_ms: i64) -> String {
    let since = Duration::from_millis(unix_ms.max(0).cast_unsigned());
    iso_date(UNIX_EPOCH.checked_add(since).unwrap_or(UNIX_EPOCH))
}
