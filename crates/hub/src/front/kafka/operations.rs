//! What a client may do with topics, groups and the cluster, for a client that asks: Kafka's operations, as far as its rights go.

use access::Right;
use kafka::messages::authorized_operations::AuthorizedOperations as Operations;

use super::group_reader::{GroupReader, WHOLE_NAMESPACE};
use super::session::Session;
use crate::groups::Groups;
use crate::namespace::Namespace;

/// Returns what it may do with the topic of this name.
pub(super) fn of_topic(namespace: &Namespace, session: &Session, topic: &str) -> Operations {
    let allows = |right| session.allows(topic, right);
    let mut operations = Operations::NONE;
    if session.knows(topic) {
        operations = operations.and(Operations::DESCRIBE).and(Operations::DESCRIBE_CONFIGS);
    }
    if allows(Right::Listen) {
        operations = operations.and(Operations::READ);
    }
    if allows(Right::Send) {
        operations = operations.and(Operations::WRITE);
        // By asking for it.
        if namespace.creates_topics() {
            operations = operations.and(Operations::CREATE);
        }
    }
    if allows(Right::Manage) {
        let manages = Operations::CREATE.and(Operations::DELETE).and(Operations::ALTER);
        operations = operations.and(manages).and(Operations::ALTER_CONFIGS);
    }
    operations
}

/// Returns what it may do with the cluster.
pub(super) fn of_cluster(namespace: &Namespace, session: &Session) -> Operations {
    // Everyone sees the one broker and its configuration.
    let mut operations = Operations::DESCRIBE.and(Operations::DESCRIBE_CONFIGS);
    if session.allows(WHOLE_NAMESPACE, Right::Send)
        || namespace.hubs().iter().any(|hub| session.allows(hub.name(), Right::Send))
    {
        operations = operations.and(Operations::IDEMPOTENT_WRITE);
    }
    if session.allows(WHOLE_NAMESPACE, Right::Manage) {
        let manages = Operations::CREATE.and(Operations::ALTER).and(Operations::ALTER_CONFIGS);
        operations = operations.and(manages).and(Operations::CLUSTER_ACTION);
    }
    operations
}

/// Returns what it may do with a group.
pub(super) fn of_group(
    groups: &Groups,
    namespace: &Namespace,
    session: &Session,
    group_id: &str,
) -> Operations {
    let mut operations = Operations::NONE;
    let reader = GroupReader::new(namespace, session);
    if groups.admits(group_id, &reader) {
        operations = operations.and(Operations::READ).and(Operations::DESCRIBE);
    }
    if groups.admits(group_id, &reader.deleting()) {
        operations = operations.and(Operations::DELETE);
    }
    operations
}
