//! Ends at event hubs, over AMQP.

use std::collections::BTreeMap;

use access::ConnectionString;
use connect::event::PartitionId;
use connect::event_hubs::{EventHubsOptions, EventHubsSink, EventHubsSource, ManagementClient};
use connect::source::{AnySource, Source as _, SourceOptions, StartPosition};

use super::backend::OpenedSource;
use super::network::{BackendError, transport};
use super::protocol::{Endpoint, ReadFrom};
use crate::scenario::Hub;

/// Connects a worker that sends to the hub.
pub(super) async fn open_sink(endpoint: &Endpoint, hub: &Hub) -> Result<EventHubsSink, BackendError> {
    Ok(EventHubsSink::connect(client_options(endpoint, hub)?).await?)
}

/// Connects a worker that receives from the hub.
pub(super) async fn open_source(
    endpoint: &Endpoint,
    hub: &Hub,
    options: SourceOptions,
    read_from: ReadFrom,
) -> Result<OpenedSource, BackendError> {
    let client = client_options(endpoint, hub)?;
    let source = EventHubsSource::connect(client.clone(), &hub.consumer_group, options).await?;
    let partitions = source.partitions().into_iter();
    let mut positions: BTreeMap<_, _> =
        partitions.map(|partition| (partition, StartPosition::Earliest)).collect();
    if read_from == ReadFrom::Now {
        for (partition, sequence_number) in ends(client).await? {
            positions.insert(partition, StartPosition::AfterSequenceNumber(sequence_number));
        }
    }
    let positions = positions.into_iter().collect();
    Ok(OpenedSource { source: AnySource::by_checkpoint(source), positions, is_stamped: false })
}

/// The newest event of each partition that has one.
pub(super) async fn ends(client: EventHubsOptions) -> Result<Vec<(PartitionId, i64)>, BackendError> {
    let mut management = ManagementClient::connect(client).await?;
    let mut ends = Vec::new();
    for partition in management.hub_properties().await?.partition_ids {
        let properties = management.partition_properties(partition).await?;
        if !properties.is_empty {
            ends.push((partition, properties.last_enqueued_sequence_number));
        }
    }
    management.close().await;
    Ok(ends)
}

pub(super) fn client_options(endpoint: &Endpoint, hub: &Hub) -> Result<EventHubsOptions, BackendError> {
    let connection_string: ConnectionString = endpoint.connection_string.reveal().parse()?;
    let mut options = EventHubsOptions::new(connection_string, Some(&hub.name))?;
    options.transport = transport(endpoint);
    options.certificate_authority.clone_from(&endpoint.certificate_authority);
    Ok(options)
}
