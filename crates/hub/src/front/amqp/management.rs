//! `$management`: what hubs, partitions and consumer groups there are, and creating and deleting them.
//!
//! READ is what the service itself has. CREATE, DELETE and QUERY follow the OASIS working draft "AMQP Management":
//! operation, type and name are application properties, attributes a map in the body, the status is HTTP's.
//!
//! | operation | type | properties | body | granted with |
//! |---|---|---|---|---|
//! | READ | `com.microsoft:eventhub` | `name` | | 200, a map |
//! | READ | `com.microsoft:partition` | `name`, `partition` | | 200, a map |
//! | CREATE | `com.microsoft:eventhub` | `name` | `partition_count`, perhaps `consumer_groups` | 201, as READ |
//! | CREATE | `com.microsoft:consumergroup` | `name`, `consumer_group` | | 201, a map |
//! | DELETE | either of these two | the same | | 204, an empty map |
//! | QUERY | `com.microsoft:eventhub` | perhaps `offset`, `count` | perhaps `attributeNames` | 200, `attributeNames` and `results` |
//! | QUERY | `com.microsoft:consumergroup` | `name`, the same | the same | the same |
//!
//! `name` is the hub's. What is not there is 404, what is there already 409, what makes no sense 400, and what the
//! client may not do 401.

use std::time::SystemTime;

use access::Right;
use amqp::message::MessageView;
use amqp::{DecodeError, Value};

use super::requests::{Answer, not_found, text_property};
use crate::UnixTime;
use crate::namespace::{AuthorizationError, Claims, EntityError, Hub, HubConfig, Namespace};

/// A request to the node.
#[derive(Debug)]
struct Request<'a> {
    namespace: &'a Namespace,
    claims: &'a Claims,
    now: SystemTime,
    /// The hub.
    name: String,
    kind: String,
    partition: String,
    consumer_group: String,
    /// Some clients show their token with the request instead of putting it first.
    token: Option<String>,
    offset: usize,
    count: usize,
    attributes: Value,
}

/// Carries out a request to `$management`.
///
/// # Errors
/// If the request cannot even be read.
pub(super) fn answer(
    namespace: &Namespace,
    claims: &Claims,
    message: &MessageView<'_>,
    now: SystemTime,
) -> Result<Answer, DecodeError> {
    let text = |name| text_property(message, name);
    let number = |name, default: usize| {
        let value = message.application_properties()?.find(name)?;
        let number = value.as_ref().and_then(Value::as_integer);
        Ok::<_, DecodeError>(
            number
                .and_then(|number| usize::try_from(number).ok())
                .unwrap_or(default),
        )
    };
    let operation = text("operation")?.unwrap_or_default();
    // The draft's name for the type that is listed is another one than for the type that is read.
    let kind = match text("entityType")?.filter(|_| operation == "QUERY") {
        Some(kind) => kind,
        None => text("type")?.unwrap_or_default(),
    };
    let request = Request {
        namespace,
        claims,
        now,
        name: text("name")?.unwrap_or_default(),
        kind,
        partition: text("partition")?.unwrap_or_default(),
        consumer_group: text("consumer_group")?.unwrap_or_default(),
        token: text("security_token")?,
        offset: number("offset", 0)?,
        count: number("count", LONGEST_PAGE)?.min(LONGEST_PAGE),
        attributes: message.value()?.unwrap_or(Value::Null),
    };
    let result = match operation.as_str() {
        "READ" => request.read(),
        "CREATE" => request.create(),
        "DELETE" => request.delete(),
        "QUERY" => request.query(),
        other => Err(Answer::error(
            400,
            format!("The operation '{other}' is none of READ, CREATE, DELETE and QUERY."),
        )),
    };
    Ok(result.unwrap_or_else(|refusal| refusal))
}

/// Both are answers; a refusal is the one that ends the work on the way to the other.
type Outcome = Result<Answer, Answer>;

impl Request<'_> {
    fn read(&self) -> Outcome {
        self.authorize(&self.name, READING)?;
        let hub = self.namespace.hub(&self.name);
        let hub = hub.ok_or_else(|| self.not_found(&self.name))?;
        match self.kind.as_str() {
            EVENT_HUB => Ok(Answer::granted(200, hub_properties(&hub))),
            PARTITION => partition_properties(&hub, &self.partition, self.now)
                .map(|body| Answer::granted(200, body))
                .ok_or_else(|| {
                    let text = format!(
                        "The specified partition '{}' is invalid for an EventHub partition.",
                        self.partition
                    );
                    Answer::error(400, text)
                }),
            CONSUMER_GROUP => {
                let group = hub.consumer_group(&self.consumer_group);
                let group = group.ok_or_else(|| self.not_found(&self.group_path()))?;
                Ok(Answer::granted(200, group_properties(&hub, group.name())))
            }
            _ => Err(self.unknown_kind()),
        }
    }

    fn create(&self) -> Outcome {
        self.authorize(&self.name, &[Right::Manage])?;
        match self.kind.as_str() {
            EVENT_HUB => {
                let config = hub_config(&self.name, &self.attributes)
                    .map_err(|mistake| Answer::error(400, mistake))?;
                let hub = self
                    .namespace
                    .create_hub(&config, UnixTime::from(self.now))
                    .map_err(|error| self.refusal(&error))?;
                tracing::info!(
                    hub = hub.name(),
                    partitions = hub.partitions().len(),
                    "hub created"
                );
                Ok(Answer::granted(201, hub_properties(&hub)))
            }
            CONSUMER_GROUP => {
                let group = self
                    .namespace
                    .create_consumer_group(&self.name, &self.consumer_group)
                    .map_err(|error| self.refusal(&error))?;
                tracing::info!(
                    hub = self.name,
                    group = group.name(),
                    "consumer group created"
                );
                let hub = self.namespace.hub(&self.name);
                // Whoever deletes the hub at this very moment leaves nothing to tell about.
                let hub = hub.ok_or_else(|| self.not_found(&self.name))?;
                Ok(Answer::granted(201, group_properties(&hub, group.name())))
            }
            _ => Err(self.unknown_kind()),
        }
    }

    fn delete(&self) -> Outcome {
        self.authorize(&self.name, &[Right::Manage])?;
        match self.kind.as_str() {
            EVENT_HUB => {
                self.namespace
                    .delete_hub(&self.name)
                    .map_err(|error| self.refusal(&error))?;
                tracing::info!(hub = self.name, "hub deleted");
            }
            CONSUMER_GROUP => {
                self.namespace
                    .delete_consumer_group(&self.name, &self.consumer_group)
                    .map_err(|error| self.refusal(&error))?;
                tracing::info!(
                    hub = self.name,
                    group = self.consumer_group,
                    "consumer group deleted"
                );
            }
            _ => return Err(self.unknown_kind()),
        }
        Ok(Answer::granted(204, Value::Map(Vec::new())))
    }

    fn query(&self) -> Outcome {
        match self.kind.as_str() {
            EVENT_HUB => {
                // Whoever may not read the whole namespace is shown what they may read of it.
                let all = self.authorize("", READING);
                let hubs = self.namespace.hubs();
                let visible: Vec<_> = hubs
                    .iter()
                    .filter(|hub| all.is_ok() || self.authorize(hub.name(), READING).is_ok())
                    .collect();
                if visible.is_empty() {
                    all?;
                }
                let page = visible.into_iter().skip(self.offset).take(self.count);
                self.page(page.map(|hub| hub_properties(hub)), &HUB_COLUMNS)
            }
            CONSUMER_GROUP => {
                self.authorize(&self.name, READING)?;
                let hub = self.namespace.hub(&self.name);
                let hub = hub.ok_or_else(|| self.not_found(&self.name))?;
                let groups = hub.consumer_groups();
                let page = groups.iter().skip(self.offset).take(self.count);
                self.page(
                    page.map(|group| group_properties(&hub, group.name())),
                    &GROUP_COLUMNS,
                )
            }
            _ => Err(self.unknown_kind()),
        }
    }

    /// A table of `entities`: the columns that the request names, or all.
    fn page(&self, entities: impl Iterator<Item = Value>, columns: &[&str]) -> Outcome {
        let named = self.attributes.get("attributeNames").map(texts);
        let columns: Vec<String> = match named {
            None => columns.iter().copied().map(str::to_owned).collect(),
            Some(None) => {
                return Err(Answer::error(
                    400,
                    "'attributeNames' is not a list of texts.",
                ));
            }
            Some(Some(named)) if named.len() > MOST_COLUMNS => {
                let text = format!("'attributeNames' has more than {MOST_COLUMNS} names.");
                return Err(Answer::error(400, text));
            }
            Some(Some(named)) if named.is_empty() => {
                columns.iter().copied().map(str::to_owned).collect()
            }
            Some(Some(named)) => named,
        };
        let rows: Vec<Value> = entities
            .map(|entity| {
                let cell = |column: &String| entity.get(column).cloned().unwrap_or(Value::Null);
                Value::List(columns.iter().map(cell).collect())
            })
            .collect();
        let names = columns.into_iter().map(Value::String).collect();
        Ok(Answer::granted(
            200,
            map([
                ("attributeNames", Value::List(names)),
                ("results", Value::List(rows)),
            ]),
        ))
    }

    /// Whether one of `rights` may be used on a hub, or on the whole namespace if `path` is empty.
    fn authorize(&self, path: &str, rights: &[Right]) -> Result<(), Answer> {
        if rights
            .iter()
            .any(|right| self.claims.allows(path, *right, self.now))
        {
            return Ok(());
        }
        if let Some(token) = &self.token {
            let audience = format!("sb://{}/{path}", self.namespace.host());
            match self.namespace.authorize_token(token, &audience, self.now) {
                Ok(claim) if rights.iter().any(|right| claim.rights.contains(*right)) => {
                    return Ok(());
                }
                // The token is good; that the hub is missing is said by the answer.
                Err(AuthorizationError::NotFound { .. }) if rights == READING => return Ok(()),
                Ok(_) | Err(_) => {}
            }
        }
        let names: Vec<String> = rights
            .iter()
            .map(|right| format!("'{}'", right.name()))
            .collect();
        Err(Answer::error(
            401,
            format!(
                "Unauthorized access. {} claim(s) are required to perform this operation. Resource: 'sb://{}/{path}'.",
                names.join(" or "),
                self.namespace.host()
            ),
        ))
    }

    fn refusal(&self, error: &EntityError) -> Answer {
        match error {
            EntityError::NoHub { name } => self.not_found(name),
            EntityError::NoConsumerGroup { .. } => self.not_found(&self.group_path()),
            EntityError::HubExists { .. } | EntityError::ConsumerGroupExists { .. } => {
                Answer::error(409, format!("{error}."))
            }
            EntityError::DefaultConsumerGroup | EntityError::Invalid(_) => {
                Answer::error(400, format!("{error}."))
            }
            // Nothing has changed, and trying again may help: the disk may be full, say.
            EntityError::Storage(_) => Answer::error(500, format!("{error}.")),
        }
    }

    fn not_found(&self, path: &str) -> Answer {
        Answer::error(404, not_found(self.namespace, path))
    }

    fn group_path(&self) -> String {
        format!("{}/ConsumerGroups/{}", self.name, self.consumer_group)
    }

    fn unknown_kind(&self) -> Answer {
        Answer::error(
            400,
            format!("The entity type '{}' is not known.", self.kind),
        )
    }
}

/// The hub that a request to create one describes.
fn hub_config(name: &str, attributes: &Value) -> Result<HubConfig, String> {
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
                let count = value
                    .as_integer()
                    .and_then(|count| u16::try_from(count).ok());
                let wrong = || "'partition_count' is not a number of partitions.".to_owned();
                partitions = Some(count.ok_or_else(wrong)?);
            }
            Some("consumer_groups") => {
                let wrong = || "'consumer_groups' is not a list of texts.".to_owned();
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
    Ok(HubConfig {
        consumer_groups,
        ..HubConfig::new(name, partitions)
    })
}

fn texts(value: &Value) -> Option<Vec<String>> {
    let (Value::List(elements) | Value::Array(elements)) = value else {
        return None;
    };
    let text = |element: &Value| element.as_text().map(str::to_owned);
    elements.iter().map(text).collect()
}

fn hub_properties(hub: &Hub) -> Value {
    let ids = hub
        .partitions()
        .iter()
        .map(|partition| Value::String(partition.id().to_string()))
        .collect();
    map([
        ("name", hub.name().into()),
        ("type", EVENT_HUB.into()),
        (
            "created_at",
            Value::Timestamp(hub.created_at().milliseconds()),
        ),
        ("partition_count", Value::Int(hub.partitions().len() as i32)),
        ("partition_ids", Value::Array(ids)),
        ("georeplication_factor", Value::Int(1)),
    ])
}

fn group_properties(hub: &Hub, group: &str) -> Value {
    map([
        ("name", hub.name().into()),
        ("type", CONSUMER_GROUP.into()),
        ("consumer_group", group.into()),
    ])
}

fn partition_properties(hub: &Hub, id: &str, now: SystemTime) -> Option<Value> {
    let stats = hub.partition(id)?.log().stats();
    let last = stats
        .last_sequence_number
        .map_or(-1, |number| number.cast_signed());
    let time = stats.last_append_time.map_or(0, UnixTime::milliseconds);
    Some(map([
        ("name", hub.name().into()),
        ("partition", id.into()),
        ("type", PARTITION.into()),
        (
            "begin_sequence_number",
            Value::Long(stats.begin_sequence_number.cast_signed()),
        ),
        ("last_enqueued_sequence_number", Value::Long(last)),
        ("last_enqueued_sequence_number_epoch", Value::Int(0)),
        ("last_enqueued_offset", Value::String(last.to_string())),
        ("last_enqueued_time_utc", Value::Timestamp(time)),
        ("is_partition_empty", Value::Boolean(stats.is_empty)),
        (
            "runtime_info_retrieval_time_utc",
            Value::Timestamp(UnixTime::from(now).milliseconds()),
        ),
    ]))
}

fn map<const N: usize>(entries: [(&str, Value); N]) -> Value {
    Value::Map(
        entries
            .into_iter()
            .map(|(key, value)| (Value::from(key), value))
            .collect(),
    )
}

/// Whoever may send or receive may read properties.
const READING: &[Right] = &[Right::Listen, Right::Send, Right::Manage];

/// The types of entities. The first two are the service's names; the third is in their manner.
const EVENT_HUB: &str = "com.microsoft:eventhub";
const PARTITION: &str = "com.microsoft:partition";
const CONSUMER_GROUP: &str = "com.microsoft:consumergroup";

/// What a list of hubs has where the client does not say; the partitions' ids would be most of it and tell nothing.
const HUB_COLUMNS: [&str; 4] = ["name", "type", "created_at", "partition_count"];

const GROUP_COLUMNS: [&str; 3] = ["name", "type", "consumer_group"];

/// Far more attributes than any entity has; bounds a reply by what is asked for.
const MOST_COLUMNS: usize = 32;

/// Entities in one reply, which is then well below any client's limits for a message.
const LONGEST_PAGE: usize = 500;
