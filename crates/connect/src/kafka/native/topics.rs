//! Which topics a cluster has.

use std::sync::Arc;

use kafka::messages::metadata::{MetadataRequest, MetadataResponse};
use kafka::{ApiKey, ErrorCode};

use super::cluster::connect_any;
use super::endpoint::Endpoint;
use super::error::malformed;
use crate::service::ServiceError;

/// The names of the topics that the login may see, in alphabetical order, without those that brokers keep for themselves.
///
/// # Errors
/// No broker can be reached, or the login is refused.
pub(crate) async fn topics(endpoint: Arc<Endpoint>) -> Result<Vec<String>, ServiceError> {
    let mut connection = connect_any(&endpoint, &endpoint.settings.bootstrap).await?;
    let version = connection.version(ApiKey::Metadata, 1, 12)?;
    let request = MetadataRequest::default();
    let answer = connection.ask(ApiKey::Metadata, version, |writer| request.write(writer, version)).await?;
    let response = MetadataResponse::read(answer.reader(), version).map_err(malformed)?;
    let usable = response.topics.iter().filter(|topic| !topic.is_internal && topic.error == ErrorCode::None);
    let mut names: Vec<_> = usable.filter_map(|topic| topic.name.map(str::to_owned)).collect();
    names.sort_unstable();
    Ok(names)
}
