//! Ends at queues, topics and subscriptions, over AMQP.

use access::ConnectionString;
use connect::event::PartitionId;
use connect::service::ClientOptions;
use connect::service_bus::{Entity, ReceiveOptions, ServiceBusSink, ServiceBusSource};
use connect::sink::SendUnit;
use connect::source::{AnySource, SourceOptions, StartPosition};

use super::backend::OpenedSource;
use super::network::{BackendError, transport};
use super::protocol::Endpoint;
use crate::scenario;

/// Connects a worker that sends to the queue or topic.
pub(super) async fn open_sink(endpoint: &Endpoint) -> Result<ServiceBusSink, BackendError> {
    Ok(ServiceBusSink::connect(client_options(endpoint)?, SendUnit::Batch).await?)
}

/// Connects a worker that receives from the queue or subscription. It gets first what lies there already, which is of
/// another run, or a mistake.
pub(super) async fn open_source(
    endpoint: &Endpoint,
    options: SourceOptions,
) -> Result<OpenedSource, BackendError> {
    let receive = ReceiveOptions {
        concurrency: u32::try_from(options.unreleased_limit()).unwrap_or(u32::MAX),
        prefetch: 0,
        ..ReceiveOptions::default()
    };
    let source = ServiceBusSource::connect(client_options(endpoint)?, receive).await?;
    let source = AnySource::by_settlement(source);
    Ok(OpenedSource { source, positions: vec![(PartitionId(0), StartPosition::Earliest)], is_stamped: false })
}

pub(super) fn client_options(endpoint: &Endpoint) -> Result<ClientOptions, BackendError> {
    let connection_string: ConnectionString = endpoint.connection_string.reveal().parse()?;
    let mut options = ClientOptions::new(connection_string, entity(endpoint).address());
    options.transport = transport(endpoint);
    options.certificate_authority.clone_from(&endpoint.certificate_authority);
    Ok(options)
}

/// What the endpoint is to a client.
pub(super) fn entity(endpoint: &Endpoint) -> Entity {
    let name = endpoint.entity.name().to_owned();
    match (&endpoint.entity, &endpoint.subscription) {
        (_, Some(subscription)) => Entity::Subscription { topic: name, name: subscription.clone() },
        (scenario::Entity::Topic(_), None) => Entity::Topic(name),
        (scenario::Entity::Queue(_) | scenario::Entity::Hub(_) | scenario::Entity::Container(_), None) => {
            Entity::Queue(name)
        }
    }
}
