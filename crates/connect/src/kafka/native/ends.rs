//! How far partitions reach.

use std::future::poll_fn;
use std::sync::Arc;

use kafka::messages::list_offsets::{ListOffsetsRequest, ListOffsetsResponse, OffsetSpec, PartitionTime};
use kafka::{ApiKey, ErrorCode};

use super::cluster::Cluster;
use super::endpoint::Endpoint;
use super::error::{malformed, refused};
use crate::event::{EnqueuedTime, PartitionId};
use crate::service::ServiceError;

/// Asks how far the partitions of a topic reach, over connections of its own.
#[derive(Debug)]
pub(crate) struct Ends {
    cluster: Cluster<()>,
}

/// How far a partition reaches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PartitionExtent {
    /// The partition.
    pub partition: PartitionId,
    /// The offset of the oldest record that is retained; that of the next one if there is none.
    pub start: i64,
    /// The offset after the newest record, or after the newest that is committed where others are not read.
    pub end: i64,
    /// The greatest timestamp of a record, where there is one and the broker can say.
    pub last_time: Option<EnqueuedTime>,
}

/// What is asked about a point of partitions.
type Found = Vec<(i32, i64, i64)>;

impl Ends {
    /// Asks which brokers lead the partitions.
    ///
    /// # Errors
    /// No broker can be reached, the login is refused, or there is no such topic.
    pub(crate) async fn find(endpoint: Arc<Endpoint>) -> Result<Self, ServiceError> {
        Ok(Self { cluster: Cluster::find(endpoint).await? })
    }

    /// A partition that nobody leads, and so nobody can speak for.
    fn unled(&self) -> Option<usize> {
        (0..self.cluster.partitions()).find(|partition| self.cluster.leader(*partition).broker.is_none())
    }

    /// How far each partition reaches that somebody leads: a few requests to each broker.
    ///
    /// # Errors
    /// A broker can't be reached, or does not lead what it did. It is of no more use then.
    pub(crate) async fn ask(&mut self) -> Result<Vec<PartitionExtent>, ServiceError> {
        let mut extents = Vec::new();
        for broker in 0..self.cluster.brokers() {
            let partitions = 0..self.cluster.partitions();
            let led: Vec<_> =
                partitions.filter(|place| self.cluster.leader(*place).broker == Some(broker)).collect();
            if led.is_empty() {
                continue;
            }
            poll_fn(|context| self.cluster.poll_up(context, broker)).await?;
            let starts = self.offsets(broker, &led, OffsetSpec::Earliest).await?;
            let ends = self.offsets(broker, &led, OffsetSpec::Latest).await?;
            let last = self.offsets(broker, &led, OffsetSpec::MaxTimestamp).await?;
            let of = |found: &Found, index: i32| found.iter().find(|(other, ..)| *other == index).copied();
            extents.extend(ends.iter().filter_map(|&(index, end, _)| {
                let (_, start, _) = of(&starts, index)?;
                let last = of(&last, index).filter(|(_, offset, time)| *offset >= 0 && *time >= 0);
                Some(PartitionExtent {
                    partition: PartitionId(u32::try_from(index).ok()?),
                    start,
                    end,
                    last_time: last.map(|(_, _, time)| EnqueuedTime::from_unix_ms(time)),
                })
            }));
        }
        extents.sort_unstable_by_key(|extent| extent.partition);
        Ok(extents)
    }

    /// What a broker says of partitions that it leads. Nothing, of a point that it does not know.
    async fn offsets(
        &mut self,
        broker: usize,
        partitions: &[usize],
        at: OffsetSpec,
    ) -> Result<Found, ServiceError> {
        let endpoint = Arc::clone(self.cluster.endpoint());
        let Some(connection) = self.cluster.up(broker) else {
            return Ok(Vec::new());
        };
        let version = match at {
            OffsetSpec::MaxTimestamp => match connection.version(ApiKey::ListOffsets, 7, 9) {
                Ok(version) => version,
                Err(_) => return Ok(Vec::new()),
            },
            _ => connection.version(ApiKey::ListOffsets, 1, 9)?,
        };
        let partitions = partitions.iter().map(|partition| PartitionTime {
            topic: &endpoint.topic,
            index: *partition as i32,
            current_leader_epoch: -1,
            at,
        });
        let is_read_committed = endpoint.settings.fetch.is_read_committed;
        let request = ListOffsetsRequest { is_read_committed, partitions: partitions.collect() };
        let answer =
            connection.ask(ApiKey::ListOffsets, version, |writer| request.write(writer, version)).await?;
        let response = ListOffsetsResponse::read(answer.reader(), version).map_err(malformed)?;
        let found = response.partitions.iter().map(|found| match found.error {
            ErrorCode::None => Ok((found.index, found.offset, found.timestamp)),
            error => Err(refused(error, format!("the ends of {} are not known", endpoint.topic))),
        });
        found.collect()
    }
}

/// The offset of the newest record of each partition that has one.
///
/// # Errors
/// When a broker can't be reached, the login is refused, there is no such topic, or a partition has no leader.
pub(crate) async fn ends(endpoint: Arc<Endpoint>) -> Result<Vec<(PartitionId, i64)>, ServiceError> {
    let mut ends = Ends::find(Arc::clone(&endpoint)).await?;
    if let Some(partition) = ends.unled() {
        let what = format!("partition {partition} of {} has no leader", endpoint.topic);
        return Err(refused(ErrorCode::LeaderNotAvailable, what));
    }
    let extents = ends.ask().await?.into_iter();
    let with_records = extents.filter(|extent| extent.end > extent.start);
    Ok(with_records.map(|extent| (extent.partition, extent.end - 1)).collect())
}
