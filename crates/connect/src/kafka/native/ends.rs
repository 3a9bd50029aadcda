//! Where partitions end.

use std::future::poll_fn;
use std::sync::Arc;

use kafka::messages::list_offsets::{ListOffsetsRequest, ListOffsetsResponse, OffsetSpec, PartitionTime};
use kafka::{ApiKey, ErrorCode};

use super::cluster::Cluster;
use super::endpoint::Endpoint;
use super::error::{malformed, refused};
use crate::event::PartitionId;
use crate::service::ServiceError;

/// The offset of the newest record of each partition that has one.
///
/// # Errors
/// When a broker can't be reached, the login is refused, there is no such topic, or a partition has no leader.
pub(crate) async fn ends(endpoint: Arc<Endpoint>) -> Result<Vec<(PartitionId, i64)>, ServiceError> {
    let mut cluster: Cluster<()> = Cluster::find(Arc::clone(&endpoint)).await?;
    let unled = (0..cluster.partitions()).find(|partition| cluster.leader(*partition).broker.is_none());
    if let Some(partition) = unled {
        let what = format!("partition {partition} of {} has no leader", endpoint.topic);
        return Err(refused(ErrorCode::LeaderNotAvailable, what));
    }
    let mut ends = Vec::new();
    for broker in 0..cluster.brokers() {
        poll_fn(|context| cluster.poll_up(context, broker)).await?;
        let led = (0..cluster.partitions()).filter(|place| cluster.leader(*place).broker == Some(broker));
        let led: Vec<_> = led.collect();
        let beginnings = offsets(&mut cluster, broker, &led, OffsetSpec::Earliest).await?;
        let after_ends = offsets(&mut cluster, broker, &led, OffsetSpec::Latest).await?;
        for (partition, after) in after_ends {
            let beginning = beginnings.iter().find(|(known, _)| *known == partition);
            if beginning.is_some_and(|(_, beginning)| after > *beginning) {
                ends.push((PartitionId(partition.cast_unsigned()), after - 1));
            }
        }
    }
    ends.sort_unstable();
    Ok(ends)
}

/// What a broker says of partitions that it leads.
async fn offsets(
    cluster: &mut Cluster<()>,
    broker: usize,
    partitions: &[usize],
    at: OffsetSpec,
) -> Result<Vec<(i32, i64)>, ServiceError> {
    let endpoint = Arc::clone(cluster.endpoint());
    let partitions = partitions.iter().map(|partition| PartitionTime {
        topic: &endpoint.topic,
        index: *partition as i32,
        current_leader_epoch: -1,
        at,
    });
    let is_read_committed = endpoint.settings.fetch.is_read_committed;
    let request = ListOffsetsRequest { is_read_committed, partitions: partitions.collect() };
    let Some(connection) = cluster.up(broker) else {
        return Ok(Vec::new());
    };
    let version = connection.version(ApiKey::ListOffsets, 1, 9)?;
    let answer =
        connection.ask(ApiKey::ListOffsets, version, |writer| request.write(writer, version)).await?;
    let response = ListOffsetsResponse::read(answer.reader(), version).map_err(malformed)?;
    let found = response.partitions.iter().map(|found| match found.error {
        ErrorCode::None => Ok((found.index, found.offset)),
        error => Err(refused(error, format!("the ends of {} are not known", endpoint.topic))),
    });
    found.collect()
}
