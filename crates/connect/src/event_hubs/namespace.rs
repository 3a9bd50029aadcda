//! The hubs and consumer groups of a namespace: listed, created and deleted through the `$management` node.
//!
//! Azure's own Event Hubs answers only READ there; hubs are created and deleted through the portal, the `az` command or
//! a template. All of this is for the embedded service, which has no other door than AMQP: one connection string is all
//! that it takes. Operations and replies follow the OASIS working draft "AMQP Management".

use amqp::Value;

use super::management::{
    Body, HubProperties, NODE, PartitionProperties, hub_properties, partition_properties, read_hub_properties,
};
use super::options::EventHubsOptions;
use crate::event::PartitionId;
use crate::service::Endpoint;
use crate::service::ServiceConnection;
use crate::service::ServiceError;
use crate::service::{Reply, Request};

/// A connection for what a namespace consists of. It takes a key with the right to manage.
#[derive(Debug)]
pub struct NamespaceClient {
    connection: ServiceConnection,
}

/// One hub in a list of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HubSummary {
    /// Its name, as the service spells it.
    pub name: String,
    /// When it was created: milliseconds since the Unix epoch.
    pub created_at_unix_ms: i64,
    /// How many partitions it has.
    pub partition_count: u32,
}

impl NamespaceClient {
    /// Connects to a namespace. See [`EventHubsOptions::for_namespace`].
    ///
    /// # Errors
    /// When it cannot be reached or refuses the token.
    pub async fn connect(options: EventHubsOptions) -> Result<Self, ServiceError> {
        let options = EventHubsOptions { hub: String::new(), ..options };
        let connection = ServiceConnection::open(Endpoint::resolve(options)?).await?;
        Ok(Self { connection })
    }

    /// All hubs that the key may read, in the service's order.
    ///
    /// # Errors
    /// When the key may read nothing, the service has no such list, or the connection breaks.
    pub async fn hubs(&mut self) -> Result<Vec<HubSummary>, ServiceError> {
        let columns = ["name", "created_at", "partition_count"];
        let rows = self.query(EVENT_HUB, None, &columns).await?;
        let summary = |row: Vec<Value>| {
            let [name, created_at, partition_count] = &row[..] else {
                return Err(incomplete("row as wide as what was asked for"));
            };
            let count = partition_count.as_integer();
            Ok(HubSummary {
                name: text(name, "name")?,
                created_at_unix_ms: created_at.as_integer().ok_or_else(|| incomplete("created_at"))?,
                partition_count: count
                    .and_then(|count| u32::try_from(count).ok())
                    .ok_or_else(|| incomplete("partition_count"))?,
            })
        };
        rows.into_iter().map(summary).collect()
    }

    /// The properties of a hub.
    ///
    /// # Errors
    /// When it is not there, may not be read, or the connection breaks.
    pub async fn hub(&mut self, name: &str) -> Result<HubProperties, ServiceError> {
        hub_properties(&mut self.connection, name).await
    }

    /// What a partition of a hub holds.
    ///
    /// # Errors
    /// As with [`hub`](Self::hub), and when there is no such partition.
    pub async fn partition(
        &mut self,
        hub: &str,
        partition: PartitionId,
    ) -> Result<PartitionProperties, ServiceError> {
        partition_properties(&mut self.connection, hub, partition).await
    }

    /// Creates a hub, with consumer groups besides `$Default`.
    ///
    /// # Errors
    /// When there is one of that name, name or number make no sense, the key may not manage, or the connection breaks,
    /// in which case it is not known whether it was created.
    pub async fn create_hub(
        &mut self,
        name: &str,
        partition_count: u32,
        consumer_groups: &[String],
    ) -> Result<HubProperties, ServiceError> {
        let groups = consumer_groups.iter().map(|group| Value::from(group.as_str())).collect();
        let attributes = Value::Map(vec![
            (Value::from("partition_count"), Value::Uint(partition_count)),
            (Value::from("consumer_groups"), Value::List(groups)),
        ]);
        let request =
            Request { properties: properties("CREATE", EVENT_HUB, name, None), body: Some(attributes) };
        read_hub_properties(&Body(self.connection.ask(NODE, &request).await?))
    }

    /// Deletes a hub with all its events. The links of its clients are ended by the service.
    ///
    /// # Errors
    /// When it is not there, the key may not manage, or the connection breaks.
    pub async fn delete_hub(&mut self, name: &str) -> Result<(), ServiceError> {
        self.carry_out(properties("DELETE", EVENT_HUB, name, None)).await
    }

    /// The names of a hub's consumer groups.
    ///
    /// # Errors
    /// When the hub is not there or may not be read, the service has no such list, or the connection breaks.
    pub async fn consumer_groups(&mut self, hub: &str) -> Result<Vec<String>, ServiceError> {
        let rows = self.query(CONSUMER_GROUP, Some(hub), &["consumer_group"]).await?;
        rows.iter().map(|row| text(row.first().unwrap_or(&Value::Null), "consumer_group")).collect()
    }

    /// Creates a consumer group.
    ///
    /// # Errors
    /// As with [`create_hub`](Self::create_hub), and when there is no such hub.
    pub async fn create_consumer_group(&mut self, hub: &str, name: &str) -> Result<(), ServiceError> {
        self.carry_out(properties("CREATE", CONSUMER_GROUP, hub, Some(name))).await
    }

    /// Deletes a consumer group. The links of its readers are ended by the service.
    ///
    /// # Errors
    /// As with [`delete_hub`](Self::delete_hub); and `$Default` cannot be deleted.
    pub async fn delete_consumer_group(&mut self, hub: &str, name: &str) -> Result<(), ServiceError> {
        self.carry_out(properties("DELETE", CONSUMER_GROUP, hub, Some(name))).await
    }

    /// Closes the connection in good order. Dropping the client just ends it.
    pub async fn close(self) {
        self.connection.close().await;
    }

    async fn carry_out(&mut self, properties: Vec<(&'static str, Value)>) -> Result<(), ServiceError> {
        let request = Request { properties, body: None };
        self.connection.ask(NODE, &request).await.map(drop)
    }

    /// The named columns of all entities of a type, page by page.
    async fn query(
        &mut self,
        kind: &'static str,
        hub: Option<&str>,
        columns: &[&str],
    ) -> Result<Vec<Vec<Value>>, ServiceError> {
        let names = columns.iter().copied().map(Value::from).collect();
        let attributes = Value::Map(vec![(Value::from("attributeNames"), Value::List(names))]);
        let mut rows = Vec::new();
        loop {
            let mut properties = vec![
                ("operation", Value::from("QUERY")),
                ("entityType", Value::from(kind)),
                ("offset", Value::Uint(rows.len() as u32)),
                ("count", Value::Uint(PAGE)),
            ];
            if let Some(hub) = hub {
                properties.push(("name", Value::from(hub)));
            }
            let request = Request { properties, body: Some(attributes.clone()) };
            let body = Body(self.connection.ask(NODE, &request).await?);
            let Value::List(page) = body.find("results")? else {
                return Err(incomplete("results"));
            };
            for row in page {
                let Value::List(row) = row else {
                    return Err(incomplete("results that are lists"));
                };
                rows.push(row.clone());
            }
            // A service may give fewer at once than it is asked for; an empty page is the end for all of them.
            if page.is_empty() {
                return Ok(rows);
            }
            if rows.len() > ENTITIES_MAX {
                return Err(incomplete("end of its list"));
            }
        }
    }
}

fn properties(
    operation: &'static str,
    kind: &'static str,
    hub: &str,
    group: Option<&str>,
) -> Vec<(&'static str, Value)> {
    let mut properties =
        vec![("operation", Value::from(operation)), ("type", Value::from(kind)), ("name", Value::from(hub))];
    if let Some(group) = group {
        properties.push(("consumer_group", Value::from(group)));
    }
    properties
}

fn text(value: &Value, column: &str) -> Result<String, ServiceError> {
    let text = value.as_text().ok_or_else(|| incomplete(column))?;
    Ok(text.to_owned())
}

fn incomplete(what: &str) -> ServiceError {
    Reply::incomplete(NODE, what)
}

const EVENT_HUB: &str = "com.microsoft:eventhub";
const CONSUMER_GROUP: &str = "com.microsoft:consumergroup";

/// Entities that are asked for at once.
const PAGE: u32 = 500;

/// Far more than any namespace has; a service that never comes to an end is not listened to for ever.
const ENTITIES_MAX: usize = 1_000_000;
