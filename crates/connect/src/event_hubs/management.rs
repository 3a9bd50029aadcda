//! The properties of a hub and its partitions, read from the `$management` node. What else that node does where the
//! service is the embedded one is in `namespace.rs`.

use amqp::Value;

use super::options::EventHubsOptions;
use crate::event::{EnqueuedTime, PartitionId};
use crate::service::Endpoint;
use crate::service::ServiceConnection;
use crate::service::ServiceError;
use crate::service::{Reply, Request};

/// A connection for questions about a hub.
#[derive(Debug)]
pub struct ManagementClient {
    connection: ServiceConnection,
    hub: String,
}

/// What a hub is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HubProperties {
    /// Its name, as the service spells it.
    pub name: String,
    /// When it was created: milliseconds since the Unix epoch.
    pub created_at_unix_ms: i64,
    /// Its partitions, in ascending order.
    pub partition_ids: Vec<PartitionId>,
}

/// What a partition holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartitionProperties {
    /// The partition.
    pub partition: PartitionId,
    /// The sequence number of the oldest event that is retained, or of the next one where none is; −1 where there never was one.
    pub begin_sequence_number: i64,
    /// The sequence number of the newest event; −1 where there never was one.
    pub last_enqueued_sequence_number: i64,
    /// The offset of the newest event, an opaque text.
    pub last_enqueued_offset: String,
    /// When the newest event was appended.
    pub last_enqueued_time: EnqueuedTime,
    /// Whether no event is retained.
    pub is_empty: bool,
}

impl ManagementClient {
    /// Connects to the service of a hub.
    ///
    /// # Errors
    /// When it cannot be reached or refuses the token.
    pub async fn connect(options: EventHubsOptions) -> Result<Self, ServiceError> {
        let hub = options.hub.clone();
        let connection = ServiceConnection::open(Endpoint::resolve(options)?).await?;
        Ok(Self { connection, hub })
    }

    /// The hub's properties.
    ///
    /// # Errors
    /// When there is no such hub, the right to listen is missing, or the connection breaks; it is not made again.
    pub async fn hub_properties(&mut self) -> Result<HubProperties, ServiceError> {
        hub_properties(&mut self.connection, &self.hub).await
    }

    /// A partition's properties, as of now.
    ///
    /// # Errors
    /// As with [`hub_properties`](Self::hub_properties), and when there is no such partition.
    pub async fn partition_properties(
        &mut self,
        partition: PartitionId,
    ) -> Result<PartitionProperties, ServiceError> {
        partition_properties(&mut self.connection, &self.hub, partition).await
    }

    /// Closes the connection in good order. Dropping the client just ends it.
    pub async fn close(self) {
        self.connection.close().await;
    }
}

/// The properties of a hub, asked for on a connection on which nothing else is under way.
///
/// # Errors
/// When the hub is not there, or a partition's id is not a number, as those of the service are.
pub(super) async fn hub_properties(
    connection: &mut ServiceConnection,
    hub: &str,
) -> Result<HubProperties, ServiceError> {
    let request = Request { properties: read("com.microsoft:eventhub", hub), body: None };
    read_hub_properties(&Body(connection.ask(NODE, &request).await?))
}

/// The properties of a partition, asked for in the same way.
///
/// # Errors
/// When hub or partition are not there.
pub(super) async fn partition_properties(
    connection: &mut ServiceConnection,
    hub: &str,
    partition: PartitionId,
) -> Result<PartitionProperties, ServiceError> {
    let mut properties = read("com.microsoft:partition", hub);
    properties.push(("partition", Value::String(partition.to_string())));
    let request = Request { properties, body: None };
    let body = Body(connection.ask(NODE, &request).await?);
    Ok(PartitionProperties {
        partition,
        begin_sequence_number: body.integer("begin_sequence_number")?,
        last_enqueued_sequence_number: body.integer("last_enqueued_sequence_number")?,
        last_enqueued_offset: body.text("last_enqueued_offset")?.to_owned(),
        last_enqueued_time: EnqueuedTime::from_unix_ms(body.integer("last_enqueued_time_utc")?),
        is_empty: match body.find("is_partition_empty")? {
            Value::Boolean(is_empty) => *is_empty,
            _ => return Err(Reply::incomplete(NODE, "is_partition_empty")),
        },
    })
}

/// What a reply about a hub says.
///
/// # Errors
/// When it lacks something, or a partition's id is not a number.
pub(super) fn read_hub_properties(body: &Body) -> Result<HubProperties, ServiceError> {
    let (Value::Array(ids) | Value::List(ids)) = body.find("partition_ids")? else {
        return Err(Reply::incomplete(NODE, "partition_ids"));
    };
    let mut partition_ids = Vec::with_capacity(ids.len());
    for id in ids {
        let number = id.as_text().and_then(|text| text.parse().ok());
        let number = number.ok_or_else(|| Reply::incomplete(NODE, "partition_ids that are numbers"))?;
        partition_ids.push(PartitionId(number));
    }
    partition_ids.sort_unstable();
    partition_ids.dedup();
    if partition_ids.last().is_none_or(|last| last.0 >= PARTITIONS_MAX) {
        return Err(Reply::incomplete(NODE, "partition_ids in a possible number"));
    }
    Ok(HubProperties {
        name: body.text("name")?.to_owned(),
        created_at_unix_ms: body.integer("created_at")?,
        partition_ids,
    })
}

fn read(kind: &'static str, hub: &str) -> Vec<(&'static str, Value)> {
    vec![("operation", Value::from("READ")), ("name", Value::from(hub)), ("type", Value::from(kind))]
}

/// The map in a reply.
pub(super) struct Body(pub(super) Value);

impl Body {
    pub(super) fn find(&self, key: &str) -> Result<&Value, ServiceError> {
        self.0.get(key).ok_or_else(|| Reply::incomplete(NODE, key))
    }

    pub(super) fn text(&self, key: &str) -> Result<&str, ServiceError> {
        self.find(key)?.as_text().ok_or_else(|| Reply::incomplete(NODE, key))
    }

    pub(super) fn integer(&self, key: &str) -> Result<i64, ServiceError> {
        self.find(key)?.as_integer().ok_or_else(|| Reply::incomplete(NODE, key))
    }
}

/// The node that is asked.
pub(super) const NODE: &str = "$management";

/// No hub of the service has more than 2,000; tables are indexed by the id.
const PARTITIONS_MAX: u32 = 65_536;
