//! How an end that speaks Kafka reaches the service: the properties that follow from the target, before those of the end.

use std::path::Path;

use access::{ConnectionString, TransportSecurity};
use pipeline::kafka::KafkaProperties;

/// The properties by which Event Hubs, and the embedded service, is reached with a connection string.
pub(crate) fn of_namespace(
    connection_string: &ConnectionString,
    certificate_authority: Option<&Path>,
) -> KafkaProperties {
    let mut properties = KafkaProperties::of_connection_string(connection_string);
    let is_encrypted = connection_string.security == TransportSecurity::Tls;
    if let Some(authority) = certificate_authority.filter(|_| is_encrypted) {
        properties.trust(authority);
    }
    properties
}
