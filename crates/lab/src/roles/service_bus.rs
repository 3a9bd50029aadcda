//! Ends at queues, over AMQP.

use access::ConnectionString;
use connect::event::PartitionId;
use connect::service::ClientOptions;
use connect::service_bus::{ReceiveOptions, ServiceBusSink, ServiceBusSource};
use connect::sink::SendUnit;
use connect::source::{AnySource, SourceOptions, StartPosition};

use super::backend::OpenedSource;
use super::network::BackendError;
use super::protocol::Endpoint;

/// Connects a worker that sends to the queue.
pub(super) async fn open_sink(endpoint: &Endpoint, queue: &str) -> Result<ServiceBusSink, BackendError> {
    Ok(ServiceBusSink::connect(client_options(endpoint, queue)?, SendUnit::Batch).await?)
}

/// Connects a worker that receives from the queue. It gets first what lies there already, which is of another run, or a
/// mistake.
pub(super) async fn open_source(
    endpoint: &Endpoint,
    queue: &str,
    options: SourceOptions,
) -> Result<OpenedSource, BackendError> {
    let receive = ReceiveOptions {
        concurrency: u32::try_from(options.unreleased_limit()).unwrap_or(u32::MAX),
        prefetch: 0,
        ..ReceiveOptions::default()
    };
    let source = ServiceBusSource::connect(client_options(endpoint, queue)?, receive).await?;
    let source = AnySource::by_settlement(source);
    Ok(OpenedSource { source, positions: vec![(PartitionId(0), StartPosition::Earliest)] })
}

fn client_options(endpoint: &Endpoint, queue: &str) -> Result<ClientOptions, BackendError> {
    let connection_string: ConnectionString = endpoint.connection_string.reveal().parse()?;
    let mut options = ClientOptions::new(connection_string, queue);
    options.certificate_authority.clone_from(&endpoint.certificate_authority);
    Ok(options)
}
