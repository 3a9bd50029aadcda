//! Topics are hubs: their names, their ids, and how clients see them.

use std::cell::RefCell;
use std::collections::HashSet;
use std::sync::Arc;

use access::Right;
use kafka::ErrorCode;
use kafka::fetch::TopicRef;
use kafka::messages::authorized_operations::AuthorizedOperations;
use kafka::messages::metadata::{MetadataRequest, TopicMetadata};
use kafka::read::Uuid;
use partition_log::LEADER_EPOCH;

use super::session::Session;
use super::{Counters, operations, topic_names};
use crate::front::time_slice::map_in_slices;
use crate::namespace::{Hub, Namespace, Partition};

/// The hub that a request names, for a client that may use `right` on it. A client without any right on it does not learn
/// whether it exists.
pub(super) fn find(
    namespace: &Namespace,
    session: &Session,
    topic: TopicRef<'_>,
    right: Right,
) -> Result<Arc<Hub>, ErrorCode> {
    let hub = match topic {
        TopicRef::Name(name) => {
            if !session.allows(name, right) {
                return Err(ErrorCode::TopicAuthorizationFailed);
            }
            named(namespace, name).ok_or(ErrorCode::UnknownTopicOrPartition)?
        }
        TopicRef::Id(id) => {
            let hub = namespace.hubs().find_id(&id).cloned();
            let hub = hub.filter(|hub| session.knows(hub.name())).ok_or(ErrorCode::UnknownTopicId)?;
            if !session.allows(hub.name(), right) {
                return Err(ErrorCode::TopicAuthorizationFailed);
            }
            hub
        }
    };
    Ok(hub)
}

/// Looks topics up for a request, whose partitions of one topic stand together: each topic once.
#[derive(Debug)]
pub(super) struct Topics<'a> {
    namespace: &'a Namespace,
    session: &'a Session,
    right: Right,
    latest: Option<(TopicRef<'a>, Result<Arc<Hub>, ErrorCode>)>,
}

impl<'a> Topics<'a> {
    /// For a client that wants to use `right` on them.
    pub(super) const fn new(namespace: &'a Namespace, session: &'a Session, right: Right) -> Self {
        Self { namespace, session, right, latest: None }
    }

    /// As [`find`], without remembering it.
    pub(super) fn find_uncached(&self, topic: TopicRef<'_>) -> Result<Arc<Hub>, ErrorCode> {
        find(self.namespace, self.session, topic, self.right)
    }

    /// As [`find`].
    pub(super) fn find(&mut self, topic: TopicRef<'a>) -> Result<Arc<Hub>, ErrorCode> {
        match &self.latest {
            Some((latest, found)) if *latest == topic => found.clone(),
            _ => {
                let found = find(self.namespace, self.session, topic, self.right);
                self.latest = Some((topic, found.clone()));
                found
            }
        }
    }
}

/// The hub of this name. Topics have their letter case; hubs do not.
pub(super) fn named(namespace: &Namespace, name: &str) -> Option<Arc<Hub>> {
    namespace.hub(name).filter(|hub| hub.name() == name)
}

/// The partition with this number.
pub(super) fn partition(hub: &Hub, index: i32) -> Result<&Arc<Partition>, ErrorCode> {
    let partition = usize::try_from(index).ok().and_then(|index| hub.partitions().get(index));
    partition.filter(|partition| !partition.is_deleted()).ok_or(ErrorCode::UnknownTopicOrPartition)
}

/// Checks partitions of a request for a client that wants to use `right` on them. Those of a topic stand together.
#[derive(Debug)]
pub(super) struct PartitionChecks<'a> {
    namespace: &'a Namespace,
    session: &'a Session,
    right: Right,
    latest: RefCell<Option<LatestTopic>>,
}

/// The topic that was looked up last.
#[derive(Debug)]
struct LatestTopic {
    name: String,
    found: Result<Arc<Hub>, ErrorCode>,
}

impl<'a> PartitionChecks<'a> {
    pub(super) const fn new(namespace: &'a Namespace, session: &'a Session, right: Right) -> Self {
        Self { namespace, session, right, latest: RefCell::new(None) }
    }

    /// Checks that a partition exists and that the client may use it.
    pub(super) fn check(&self, topic: &str, index: i32) -> Result<(), ErrorCode> {
        let latest = self.latest.take().filter(|latest| latest.name == topic);
        let latest = latest.unwrap_or_else(|| LatestTopic {
            name: topic.to_owned(),
            found: find(self.namespace, self.session, TopicRef::Name(topic), self.right),
        });
        let checked = match &latest.found {
            Ok(hub) => partition(hub, index).map(drop),
            Err(error) => Err(*error),
        };
        self.latest.replace(Some(latest));
        checked
    }
}

/// A hub that a client asked for, or why it can't have it.
pub(super) enum Found<'a> {
    Hub(Arc<Hub>),
    Missing { name: Option<&'a str>, id: Uuid, error: ErrorCode },
}

/// The topics that a client asks for, those that it has created by asking included; where it asks for all, those that it may
/// know of.
pub(super) async fn described<'a>(
    namespace: &Namespace,
    session: &Session,
    counters: &Counters,
    request: &MetadataRequest<'a>,
) -> Vec<Found<'a>> {
    let mut found = listed(namespace, session, request.topics.as_deref()).await;
    if request.allows_creation {
        map_in_slices(&mut found, |found| found.create(namespace, session, counters)).await;
    }
    found
}

/// The topics of these names and ids; those that the client may know of, if there are none.
pub(super) async fn listed<'a>(
    namespace: &Namespace,
    session: &Session,
    topics: Option<&[TopicRef<'a>]>,
) -> Vec<Found<'a>> {
    let hubs = namespace.hubs();
    let Some(topics) = topics else {
        let known = hubs.iter().filter(|hub| session.knows(hub.name()));
        return known.map(|hub| Found::Hub(Arc::clone(hub))).collect();
    };
    // A name of a few bytes may have an answer of a megabyte: each is answered once, as in Kafka.
    let mut seen = HashSet::with_capacity(topics.len());
    let find = |topic: &TopicRef<'a>| match *topic {
        TopicRef::Name(name) if !session.knows(name) => Found::Missing {
            name: Some(name),
            id: Uuid::default(),
            error: ErrorCode::TopicAuthorizationFailed,
        },
        TopicRef::Name(name) => match named(namespace, name) {
            Some(hub) => Found::Hub(hub),
            None => {
                let error = ErrorCode::UnknownTopicOrPartition;
                Found::Missing { name: Some(name), id: Uuid::default(), error }
            }
        },
        TopicRef::Id(id) => {
            let hub = hubs.find_id(&id).filter(|hub| session.knows(hub.name()));
            let missing = Found::Missing { name: None, id, error: ErrorCode::UnknownTopicId };
            hub.map_or(missing, |hub| Found::Hub(Arc::clone(hub)))
        }
    };
    let distinct: Vec<_> = topics.iter().filter(|topic| seen.insert(**topic)).collect();
    map_in_slices(distinct, find).await
}

impl Found<'_> {
    /// Its name, if it is known.
    pub(super) fn name(&self) -> Option<&str> {
        match self {
            Self::Hub(hub) => Some(hub.name()),
            Self::Missing { name, .. } => *name,
        }
    }

    /// Creates a topic that is named and not there, where that is done.
    fn create(&mut self, namespace: &Namespace, session: &Session, counters: &Counters) {
        let Self::Missing { name: Some(name), error, .. } = self else {
            return;
        };
        if *error != ErrorCode::UnknownTopicOrPartition {
            return;
        }
        match topic_names::create(namespace, session, counters, name) {
            Ok(hub) => *self = Self::Hub(hub),
            Err(refused) => *error = refused,
        }
    }

    /// Describes it, with what the client may do with it.
    pub(super) fn metadata_with_operations(
        &self,
        namespace: &Namespace,
        session: &Session,
    ) -> TopicMetadata<'_> {
        let operations = match self {
            Self::Hub(hub) => operations::of_topic(namespace, session, hub.name()),
            Self::Missing { name: Some(name), .. } if session.knows(name) => {
                operations::of_topic(namespace, session, name)
            }
            Self::Missing { .. } => AuthorizedOperations::NOT_ASKED,
        };
        TopicMetadata { operations, ..self.metadata() }
    }

    /// Describes it.
    pub(super) fn metadata(&self) -> TopicMetadata<'_> {
        match self {
            Self::Hub(hub) => TopicMetadata {
                error: ErrorCode::None,
                name: Some(hub.name()),
                id: hub.id(),
                partitions: u32::try_from(hub.partitions().len()).unwrap_or(0),
                leader_epoch: LEADER_EPOCH,
                operations: AuthorizedOperations::NOT_ASKED,
            },
            Self::Missing { name, id, error } => TopicMetadata {
                error: *error,
                name: *name,
                id: *id,
                partitions: 0,
                leader_epoch: LEADER_EPOCH,
                operations: AuthorizedOperations::NOT_ASKED,
            },
        }
    }
}
