//! Where a request leads: what of the namespace its path names, and what is to be done there.

use std::sync::Arc;

use ::rest::target::{Resource, split_at_keyword};
use access::Right;
use queue_store::{Entity, LockToken, Queue};

use super::counters::Operation;
use super::refusal::Refusal;
use crate::front::amqp::{EntityAddress, Part, SendLink};
use crate::namespace::{Hub, Namespace, Partition};

/// What is to be done, and with what.
#[derive(Debug, Clone)]
pub(super) enum Route {
    /// Events go to a hub.
    Events(EventRoute),
    /// Messages go to a queue or a topic.
    Entity(Arc<SendLink>),
    /// The next message of a queue is given out; the path is that of its entity.
    Receive { queue: Arc<Queue>, path: String, deletes: bool },
    /// A message of a queue is settled, or its lock renewed.
    Settle { queue: Arc<Queue>, token: LockToken },
    /// Something is told of what is at this path, to a client that has the right to manage, or has not.
    Read { path: String, manages: bool },
    /// What is at this path is created or changed.
    Put(String),
    /// What is at this path is deleted.
    Delete(String),
}

/// Where events go.
#[derive(Debug, Clone)]
pub(super) struct EventRoute {
    pub(super) hub: Arc<Hub>,
    pub(super) destination: Destination,
}

/// Where in a hub they go.
#[derive(Debug, Clone)]
pub(super) enum Destination {
    /// To the partition of their key, or to each in turn.
    Hub,
    /// To this partition.
    Partition(Arc<Partition>),
    /// To the partition of a publisher, with its name as an annotation.
    Publisher(Arc<Partition>, Arc<str>),
}

/// What a request asks for, before anyone looks whether it exists.
#[derive(Debug, Clone, Copy)]
pub(super) struct Asked<'a> {
    pub(super) operation: Operation,
    /// What it is about, for which the client must have shown a right.
    pub(super) entity: &'a str,
    /// One of these.
    pub(super) rights: &'static [Right],
    resource: Resource<'a>,
}

impl<'a> Asked<'a> {
    /// Reads a path and a method.
    ///
    /// # Errors
    /// The method is not served there.
    pub(super) fn of(path: &'a str, method: &str) -> Result<Self, Refusal> {
        let resource = Resource::of(path);
        let (entity, operation, rights): (_, _, &[Right]) = match (resource, method) {
            (Resource::Messages { entity }, "POST") => (entity, Operation::Send, &[Right::Send]),
            (Resource::Messages { .. }, _) => return Err(Refusal::method("POST")),
            (Resource::Head { entity }, "POST") => (entity, Operation::PeekLock, &[Right::Listen]),
            (Resource::Head { entity }, "DELETE") => (entity, Operation::ReceiveAndDelete, &[Right::Listen]),
            (Resource::Head { .. }, _) => return Err(Refusal::method("POST, DELETE")),
            (Resource::Message { entity, .. }, "DELETE") => (entity, Operation::Complete, &[Right::Listen]),
            (Resource::Message { entity, .. }, "PUT") => (entity, Operation::Abandon, &[Right::Listen]),
            (Resource::Message { entity, .. }, "POST") => (entity, Operation::RenewLock, &[Right::Listen]),
            (Resource::Message { .. }, _) => return Err(Refusal::method("DELETE, PUT, POST")),
            (Resource::Other(path), "GET" | "HEAD") => {
                (path, Operation::Read, &[Right::Manage, Right::Listen, Right::Send])
            }
            (Resource::Other(path), "PUT") => (path, Operation::Put, &[Right::Manage]),
            (Resource::Other(path), "DELETE") => (path, Operation::Delete, &[Right::Manage]),
            (Resource::Other(_), _) => return Err(Refusal::method("GET, HEAD, PUT, DELETE")),
        };
        Ok(Self { operation, entity, rights, resource })
    }

    /// Finds what it is about. The client has shown that it may, and whether it `manages` what there is.
    ///
    /// # Errors
    /// There is none.
    pub(super) fn find(&self, namespace: &Namespace, manages: bool) -> Result<Route, Refusal> {
        match self.resource {
            Resource::Messages { entity } => to_send(namespace, entity),
            Resource::Head { entity } => Ok(Route::Receive {
                queue: queue_at(namespace, entity)?,
                path: entity.to_owned(),
                deletes: self.operation == Operation::ReceiveAndDelete,
            }),
            Resource::Message { entity, lock, .. } => {
                let queue = queue_at(namespace, entity)?;
                let token = ::rest::target::uuid(lock)
                    .ok_or_else(|| Refusal::new(404, "The lock token of the message is no UUID."))?;
                Ok(Route::Settle { queue, token: LockToken::from_bytes(token) })
            }
            Resource::Other(path) => Ok(match self.operation {
                Operation::Put => Route::Put(path.to_owned()),
                Operation::Delete => Route::Delete(path.to_owned()),
                _ => Route::Read { path: path.to_owned(), manages },
            }),
        }
    }
}

impl Route {
    /// Whether it leads to something that was deleted since it was found.
    pub(super) fn is_stale(&self) -> bool {
        match self {
            // The partitions of a hub are deleted together.
            Self::Events(events) => events.hub.partitions()[0].is_deleted(),
            Self::Entity(link) => link.is_deleted(),
            _ => false,
        }
    }
}

/// A hub, a partition or publisher of it, a queue or a topic.
fn to_send(namespace: &Namespace, path: &str) -> Result<Route, Refusal> {
    let events = |hub, destination| Ok(Route::Events(EventRoute { hub, destination }));
    if let Some(hub) = namespace.hub(path) {
        return events(hub, Destination::Hub);
    }
    if let Some((name, id)) = split_at_keyword(path, "partitions")
        && let Some(hub) = namespace.hub(name)
    {
        let partition = hub.latest().partition(id).cloned().ok_or_else(|| {
            Refusal::new(400, format!("The specified partition is invalid for an EventHub: '{id}'."))
        })?;
        return events(hub, Destination::Partition(partition));
    }
    let publisher = split_at_keyword(path, "publishers").or_else(|| split_at_keyword(path, "publisher"));
    if let Some((name, publisher)) = publisher
        && let Some(hub) = namespace.hub(name)
    {
        let partition = Arc::clone(hub.latest().partition_for_key(publisher));
        return events(hub, Destination::Publisher(partition, publisher.into()));
    }
    match namespace.queue_or_topic(path) {
        Some(entity) => Ok(Route::Entity(Arc::new(SendLink::new(entity)))),
        None => Err(Refusal::not_found(path)),
    }
}

/// The queue that messages are received from at a path.
pub(super) fn queue_at(namespace: &Namespace, path: &str) -> Result<Arc<Queue>, Refusal> {
    let found = || {
        let address = EntityAddress::parse(path).filter(|address| !address.is_management)?;
        let queue = match (namespace.queue_or_topic(address.name)?, address.subscription) {
            (Entity::Queue(queue), None) => queue,
            (Entity::Topic(topic), Some(name)) => Arc::clone(topic.subscription(name)?.queue()),
            _ => return None,
        };
        match address.part {
            Part::Main => Some(queue),
            Part::DeadLetters => queue.dead_letters().cloned(),
            Part::TransferDeadLetters => queue.transfer_dead_letters().cloned(),
        }
    };
    if let Some(queue) = found() {
        return Ok(queue);
    }
    if namespace.hub(path).is_some() {
        let text = format!("'{path}' is a hub: events are received over AMQP or Kafka.");
        return Err(Refusal::new(400, text));
    }
    if let Some(Entity::Topic(topic)) = namespace.queue_or_topic(path) {
        let text = format!("'{}' is a topic: messages are received from its subscriptions.", topic.name());
        return Err(Refusal::new(400, text));
    }
    Err(Refusal::not_found(path))
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn the_document_has_a_row_for_each_operation_and_its_rights() {
        let document = include_str!("../../../../../../docs/rights.md");
        let table = document.split("## HTTP").nth(1).and_then(|rest| rest.split("## ").next());
        let mut found = HashSet::new();
        for row in table.unwrap().lines().filter_map(|line| line.strip_prefix("| `")) {
            let (request, needs) = row.split_once("` | ").unwrap();
            let (method, target) = request.split_once(" /").unwrap();
            let path = target.split('?').next().unwrap();
            let asked = Asked::of(path, method).unwrap();
            found.insert(asked.operation.name());
            let rights: Vec<_> = asked.rights.iter().map(|right| format!("{right:?}")).collect();
            // What may be read without the right to manage depends on what is there.
            if asked.operation != Operation::Read {
                assert_eq!(needs, format!("{} |", rights.join(" or ")), "{request}");
            }
        }
        for operation in Operation::ALL.into_iter().filter(|operation| *operation != Operation::Other) {
            assert!(found.contains(operation.name()), "docs/rights.md should have a row for {operation:?}");
        }
    }
}
