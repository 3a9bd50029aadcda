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
//! client may not do 401, each with its condition. A partition that is not there is 400, `com.microsoft:argument-out-of-range`.

use std::time::SystemTime;

use access::Right;
use amqp::message::MessageView;
use amqp::performative::ErrorCondition;
use amqp::{DecodeError, Value};

use super::attributes::{
    CONSUMER_GROUP, EVENT_HUB, GROUP_COLUMNS, HUB_COLUMNS, PARTITION, group_properties, hub_config,
    hub_properties, map, partition_properties, texts,
};
use crate::front::amqp::links::requests::{Answer, claims_required, not_found, text_property};
use crate::namespace::{Claims, EntityError, Namespace};
use partition_log::UnixTime;

/// A request to the node.
#[derive(Debug)]
struct Request<'a> {
    namespace: &'a Namespace,
    /// Host name that the client uses for the service.
    host: &'a str,
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

/// Carries out a request to `$management` of a namespace; `host` is the host name that the client uses.
///
/// # Errors
/// If the request cannot even be read.
pub(crate) fn answer(
    (namespace, host): (&Namespace, &str),
    claims: &Claims,
    message: &MessageView<'_>,
    now: SystemTime,
) -> Result<Answer, DecodeError> {
    let text = |name| text_property(message, name);
    let number = |name, default: usize| {
        let value = message.application_properties()?.find(name)?;
        let number = value.as_ref().and_then(Value::as_integer);
        Ok::<_, DecodeError>(number.and_then(|number| usize::try_from(number).ok()).unwrap_or(default))
    };
    let operation = text("operation")?.unwrap_or_default();
    // The draft's name for the type that is listed is another one than for the type that is read.
    let kind = match text("entityType")?.filter(|_| operation == "QUERY") {
        Some(kind) => kind,
        None => text("type")?.unwrap_or_default(),
    };
    let request = Request {
        namespace,
        host,
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
    let result = Operation::named(&operation).and_then(|operation| request.carry_out(operation));
    Ok(result.unwrap_or_else(|refusal| refusal))
}

/// An operation of the node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Operation {
    Read,
    Create,
    Delete,
    Query,
}

impl Operation {
    fn named(name: &str) -> Result<Self, Answer> {
        Ok(match name {
            "READ" => Self::Read,
            "CREATE" => Self::Create,
            "DELETE" => Self::Delete,
            "QUERY" => Self::Query,
            other => {
                let text = format!(
                    "The operation '{other}' is not supported; supported are READ, CREATE, DELETE and QUERY."
                );
                return Err(Answer::error(400, text));
            }
        })
    }

    /// Returns the rights of which a client needs one. Whoever may send or receive may read properties.
    const fn rights(self) -> &'static [Right] {
        match self {
            Self::Read | Self::Query => &[Right::Listen, Right::Send, Right::Manage],
            Self::Create | Self::Delete => &[Right::Manage],
        }
    }
}

/// Both are answers; a refusal is the one that ends the work on the way to the other.
type Outcome = Result<Answer, Answer>;

impl Request<'_> {
    fn carry_out(&self, operation: Operation) -> Outcome {
        let rights = operation.rights();
        if operation == Operation::Query && self.kind == EVENT_HUB {
            return self.query_hubs(rights);
        }
        self.authorize(&self.name, rights)?;
        match operation {
            Operation::Read => self.read(),
            Operation::Create => self.create(),
            Operation::Delete => self.delete(),
            Operation::Query => self.query(),
        }
    }

    fn read(&self) -> Outcome {
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
                    Answer::failed(400, ErrorCondition::ARGUMENT_OUT_OF_RANGE, text)
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
        match self.kind.as_str() {
            EVENT_HUB => {
                let config = hub_config(&self.name, &self.attributes)
                    .map_err(|mistake| Answer::error(400, mistake))?;
                let hub = self
                    .namespace
                    .create_hub(&config, UnixTime::from(self.now))
                    .map_err(|error| self.refusal(&error))?;
                tracing::info!(hub = hub.name(), partitions = hub.partitions().len(), "hub created");
                Ok(Answer::granted(201, hub_properties(&hub)))
            }
            CONSUMER_GROUP => {
                let group = self
                    .namespace
                    .create_consumer_group(&self.name, &self.consumer_group)
                    .map_err(|error| self.refusal(&error))?;
                tracing::info!(hub = self.name, group = group.name(), "consumer group created");
                let hub = self.namespace.hub(&self.name);
                // Whoever deletes the hub at this very moment leaves nothing to tell about.
                let hub = hub.ok_or_else(|| self.not_found(&self.name))?;
                Ok(Answer::granted(201, group_properties(&hub, group.name())))
            }
            _ => Err(self.unknown_kind()),
        }
    }

    fn delete(&self) -> Outcome {
        match self.kind.as_str() {
            EVENT_HUB => {
                self.namespace.delete_hub(&self.name).map_err(|error| self.refusal(&error))?;
                tracing::info!(hub = self.name, "hub deleted");
            }
            CONSUMER_GROUP => {
                self.namespace
                    .delete_consumer_group(&self.name, &self.consumer_group)
                    .map_err(|error| self.refusal(&error))?;
                tracing::info!(hub = self.name, group = self.consumer_group, "consumer group deleted");
            }
            _ => return Err(self.unknown_kind()),
        }
        Ok(Answer::granted(204, Value::Map(Vec::new())))
    }

    /// Lists the hubs for which the client has one of these rights.
    fn query_hubs(&self, rights: &[Right]) -> Outcome {
        let all = self.authorize("", rights);
        let hubs = self.namespace.hubs();
        let visible: Vec<_> =
            hubs.iter().filter(|hub| all.is_ok() || self.authorize(hub.name(), rights).is_ok()).collect();
        if visible.is_empty() {
            all?;
        }
        let page = visible.into_iter().skip(self.offset).take(self.count);
        self.page(page.map(|hub| hub_properties(hub)), &HUB_COLUMNS)
    }

    fn query(&self) -> Outcome {
        if self.kind != CONSUMER_GROUP {
            return Err(self.unknown_kind());
        }
        let hub = self.namespace.hub(&self.name);
        let hub = hub.ok_or_else(|| self.not_found(&self.name))?;
        let groups = hub.consumer_groups();
        let page = groups.iter().skip(self.offset).take(self.count);
        self.page(page.map(|group| group_properties(&hub, group.name())), &GROUP_COLUMNS)
    }

    /// A table of `entities`: the columns that the request names, or all.
    fn page(&self, entities: impl Iterator<Item = Value>, columns: &[&str]) -> Outcome {
        let named = self.attributes.get("attributeNames").map(texts);
        let columns: Vec<String> = match named {
            None => columns.iter().copied().map(str::to_owned).collect(),
            Some(None) => {
                return Err(Answer::error(400, "'attributeNames' is not a list of strings."));
            }
            Some(Some(named)) if named.len() > MOST_COLUMNS => {
                let text = format!("'attributeNames' has more than {MOST_COLUMNS} names.");
                return Err(Answer::error(400, text));
            }
            Some(Some(named)) if named.is_empty() => columns.iter().copied().map(str::to_owned).collect(),
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
            map([("attributeNames", Value::List(names)), ("results", Value::List(rows))]),
        ))
    }

    /// Whether one of `rights` may be used on a hub, or on the whole namespace if `path` is empty; or on its node for
    /// requests alone.
    fn authorize(&self, path: &str, rights: &[Right]) -> Result<(), Answer> {
        let token_now = self.namespace.clock().token_now_at(self.now);
        if self.claims.allows_requests(path, rights, token_now) {
            return Ok(());
        }
        if let Some(token) = &self.token
            && let Ok(claim) = self.namespace.authorize_signature(token, path, token_now)
            && rights.iter().any(|right| claim.rights.contains(*right))
        {
            return Ok(());
        }
        let description = claims_required(self.host, rights, path);
        Err(Answer::error(401, description))
    }

    fn refusal(&self, error: &EntityError) -> Answer {
        match error {
            EntityError::NoHub { name } => self.not_found(name),
            EntityError::NoConsumerGroup { .. } => self.not_found(&self.group_path()),
            EntityError::HubExists { .. }
            | EntityError::ConsumerGroupExists { .. }
            | EntityError::NameTaken { .. } => Answer::error(409, format!("{error}.")),
            EntityError::DefaultConsumerGroup
            | EntityError::Invalid(_)
            | EntityError::PartitionCount { .. } => Answer::error(400, format!("{error}.")),
            EntityError::TotalPartitions { .. } => Answer::error(403, format!("{error}.")),
            // Nothing has changed, and trying again may help: the disk may be full, say.
            EntityError::Storage(_) => Answer::error(500, format!("{error}.")),
        }
    }

    fn not_found(&self, path: &str) -> Answer {
        Answer::error(404, not_found(self.host, path))
    }

    fn group_path(&self) -> String {
        format!("{}/ConsumerGroups/{}", self.name, self.consumer_group)
    }

    fn unknown_kind(&self) -> Answer {
        Answer::error(400, format!("The entity type '{}' is not known.", self.kind))
    }
}

/// Far more attributes than any entity has; bounds a reply by what is asked for.
const MOST_COLUMNS: usize = 32;

/// Entities in one reply, which is then well below any client's limits for a message.
const LONGEST_PAGE: usize = 500;

#[cfg(test)]
mod tests {
    use amqp::message::encode;

    use super::*;
    use crate::namespace::{HubConfig, NamespaceConfig, SignaturePolicy};

    /// The answer to a request with these properties and this body.
    fn ask(claims: &Claims, properties: &[(&str, Value)], body: &Value) -> Result<Answer, DecodeError> {
        let config = NamespaceConfig::with_hubs(vec![HubConfig::new("one", 2)]);
        let namespace = Namespace::new(&config, UnixTime::default()).unwrap();
        let mut encoded = Vec::new();
        encode::application_properties(&mut encoded, properties);
        encode::value(&mut encoded, body);
        answer((&namespace, "localhost"), claims, &MessageView::parse(&encoded).unwrap(), SystemTime::now())
    }

    fn status(properties: &[(&str, Value)], body: &Value) -> (i32, String) {
        let claims = Claims::new(SignaturePolicy::AcceptAny);
        let answer = ask(&claims, properties, body).unwrap();
        (answer.status, answer.description)
    }

    fn text<'a>(pairs: &[(&'a str, &str)]) -> Vec<(&'a str, Value)> {
        let pairs = pairs.iter();
        pairs.map(|(name, text)| (*name, Value::from(*text))).collect()
    }

    #[test]
    fn requests_that_make_no_sense_get_400_and_change_nothing() {
        let create = text(&[("operation", "CREATE"), ("type", EVENT_HUB), ("name", "two")]);
        let attributes = |key: &str, value: Value| Value::Map(vec![(Value::from(key), value)]);
        let number = Value::Int(1);
        for (body, reason) in [
            (Value::Null, "'partition_count' is missing"),
            (Value::from("four"), "not a map"),
            (attributes("partition_count", Value::Int(-1)), "not a number of partitions"),
            (attributes("partition_count", Value::Ulong(u64::MAX)), "not a number of partitions"),
            (attributes("partitions", number.clone()), "no attribute 'partitions'"),
            (attributes("consumer_groups", number.clone()), "not a list of strings"),
            (Value::Map(vec![(number.clone(), number.clone())]), "no attribute ''"),
        ] {
            let (status, description) = status(&create, &body);
            assert_eq!(status, 400, "{description}");
            assert!(description.contains(reason), "{description}");
        }
        for properties in [
            text(&[]),
            text(&[("operation", "UPDATE"), ("type", EVENT_HUB), ("name", "one")]),
            text(&[("operation", "CREATE"), ("type", PARTITION), ("name", "one")]),
            text(&[("operation", "DELETE"), ("type", "x"), ("name", "one")]),
            text(&[("operation", "READ"), ("name", "one")]),
            text(&[("operation", "QUERY")]),
        ] {
            assert_eq!(status(&properties, &Value::Null).0, 400, "{properties:?}");
        }
    }

    #[test]
    fn a_list_has_the_columns_that_are_asked_for_and_a_bound() {
        let mut query = text(&[("operation", "QUERY"), ("entityType", EVENT_HUB)]);
        let claims = Claims::new(SignaturePolicy::AcceptAny);
        let columns =
            |names: Vec<Value>| Value::Map(vec![(Value::from("attributeNames"), Value::List(names))]);
        let results = |query: &[(&str, Value)], body: &Value| {
            let answer = ask(&claims, query, body).unwrap();
            (answer.status, answer.body.get("results").cloned())
        };
        let row = |cells: Vec<Value>| (200, Some(Value::List(vec![Value::List(cells)])));
        let named = columns(vec![Value::from("partition_count"), Value::from("unheard_of")]);
        assert_eq!(results(&query, &named), row(vec![Value::Int(2), Value::Null]));
        assert_eq!(results(&query, &columns(vec![])), results(&query, &Value::Null));
        let too_many = columns(vec![Value::from("name"); MOST_COLUMNS + 1]);
        assert_eq!(results(&query, &too_many).0, 400);
        assert_eq!(results(&query, &columns(vec![Value::Int(1)])).0, 400);
        // Numbers that are none are as good as not there.
        query.push(("offset", Value::Long(-1)));
        query.push(("count", Value::Ulong(u64::MAX)));
        assert_eq!(results(&query, &columns(vec![Value::from("name")])), row(vec![Value::from("one")]));
        query[2].1 = Value::Long(i64::MAX);
        let nothing = (200, Some(Value::List(vec![])));
        assert_eq!(results(&query, &Value::Null), nothing);
    }

    #[test]
    fn who_has_proven_nothing_learns_nothing() {
        let claims = Claims::new(SignaturePolicy::Verify);
        for operation in ["READ", "CREATE", "DELETE", "QUERY"] {
            for name in ["one", "two"] {
                let request = text(&[
                    ("operation", operation),
                    ("type", EVENT_HUB),
                    ("name", name),
                    ("security_token", "nonsense"),
                ]);
                let answer = ask(&claims, &request, &Value::Null).unwrap();
                assert_eq!(answer.status, 401, "{operation} {name}");
            }
        }
    }
}
