//! The service of these tests, and their client.

use hub::namespace::{NamespaceConfig, QueueConfig, SignaturePolicy, TopicConfig};
use hub::service::{Service, ServiceConfig};
pub(crate) use test_peer::Received;
pub(crate) use test_peer::queue_client::{
    Answer, QueueClient as Client, condition, in_transaction, map, message, message_of_session, message_with,
    session_filter,
};

/// A namespace with these queues and topics, where everyone may do everything.
pub(crate) fn namespace(queues: Vec<QueueConfig>, topics: Vec<TopicConfig>) -> NamespaceConfig {
    NamespaceConfig {
        signatures: SignaturePolicy::AcceptAny,
        queues,
        topics,
        ..NamespaceConfig::with_hubs(Vec::new())
    }
}

/// A service for them.
pub(crate) async fn service(queues: Vec<QueueConfig>, topics: Vec<TopicConfig>) -> Service {
    Service::start(ServiceConfig::loopback(namespace(queues, topics))).await.unwrap()
}
