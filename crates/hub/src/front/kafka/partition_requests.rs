//! What is asked of partitions beside their records: where an epoch ends, who writes to them, and that their beginning be deleted.

use std::sync::Arc;

use access::Right;
use kafka::fetch::TopicRef;
use kafka::frame::RequestHeader;
use kafka::messages::delete_records::{self, DeleteRecordsRequest, DeletedPrefix, DeletedRecords};
use kafka::messages::describe_producers::{
    self, ActiveProducer, DescribeProducersRequest, ProducersOfPartition,
};
use kafka::messages::offset_for_leader_epoch::{self, AskedEpoch, EpochEnd, OffsetForLeaderEpochRequest};
use kafka::read::Reader;
use kafka::{ApiKey, ErrorCode, Malformed};
use partition_log::{DeleteError, KnownProducer, LEADER_EPOCH};

use super::fetch::check_epoch;
use super::output::Output;
use super::requests::PartitionTask;
use super::session::Session;
use super::topics::{self, Topics};
use crate::namespace::{Namespace, Partition};

/// Answers those requests for one client.
pub(super) struct PartitionRequests<'a> {
    pub(super) namespace: &'a Namespace,
    pub(super) session: &'a Session,
}

impl PartitionRequests<'_> {
    /// Answers a request, which is one of them.
    ///
    /// # Errors
    /// The body can't be read.
    pub(super) async fn answer(
        &self,
        header: &RequestHeader<'_>,
        (key, task): (ApiKey, PartitionTask),
        body: Reader<'_>,
        output: &mut Output,
    ) -> Result<(), Malformed> {
        let (version, correlation_id) = (header.version, header.correlation_id);
        match task {
            PartitionTask::OffsetForLeaderEpoch => {
                let request = OffsetForLeaderEpochRequest::read(body, version)?;
                let mut topics = self.topics(Right::Listen);
                let ends: Vec<_> =
                    request.partitions.iter().map(|asked| epoch_end(&mut topics, asked)).collect();
                output.answer(key, version, correlation_id, |writer| {
                    offset_for_leader_epoch::write_response(writer, version, &ends, 0);
                });
            }
            PartitionTask::DescribeProducers => {
                let request = DescribeProducersRequest::read(body)?;
                let mut topics = self.topics(Right::Listen);
                let described = request.partitions.iter().map(|(topic, index)| {
                    let producers = producers(&mut topics, topic, *index);
                    let error = producers.as_ref().err().copied().unwrap_or(ErrorCode::None);
                    let producers = producers.unwrap_or_default();
                    ProducersOfPartition { topic, index: *index, error, producers }
                });
                let described: Vec<_> = described.collect();
                output.answer(key, version, correlation_id, |writer| {
                    describe_producers::write_response(writer, &described, 0);
                });
            }
            PartitionTask::DeleteRecords => {
                let request = DeleteRecordsRequest::read(body)?;
                let mut topics = self.topics(Right::Manage);
                let mut deleted = Vec::with_capacity(request.partitions.len());
                for asked in &request.partitions {
                    let result = self.delete(&mut topics, asked).await;
                    deleted.push(DeletedRecords {
                        topic: asked.topic,
                        index: asked.index,
                        low_watermark: result.map_or(-1, u64::cast_signed),
                        error: result.err().unwrap_or(ErrorCode::None),
                    });
                }
                output.answer(key, version, correlation_id, |writer| {
                    delete_records::write_response(writer, &deleted, 0);
                });
            }
        }
        Ok(())
    }

    const fn topics<'a>(&'a self, right: Right) -> Topics<'a> {
        Topics::new(self.namespace, self.session, right)
    }

    /// Deletes the beginning of a partition, and gives the offset of the first record that is left.
    async fn delete<'a>(&self, topics: &mut Topics<'a>, asked: &DeletedPrefix<'a>) -> Result<u64, ErrorCode> {
        let partition = find(topics, asked.topic, asked.index)?;
        let offset = match asked.offset {
            -1 => partition.log().end().next_sequence_number,
            offset => u64::try_from(offset).map_err(|_negative| ErrorCode::OffsetOutOfRange)?,
        };
        self.namespace.admit_transactions().map_err(|error| {
            tracing::error!(%error, "the data directory can't be made to start behind deleted events");
            ErrorCode::KafkaStorageError
        })?;
        // It may write a file, and syncs that.
        let deletion = tokio::task::spawn_blocking(move || partition.log().delete_before(offset));
        match deletion.await {
            Ok(Ok(begin)) => Ok(begin),
            Ok(Err(DeleteError::BeyondEnd { .. })) => Err(ErrorCode::OffsetOutOfRange),
            Ok(Err(DeleteError::Storage(error))) => {
                tracing::error!(%error, "events can't be deleted");
                Err(ErrorCode::KafkaStorageError)
            }
            Err(_panicked) => Err(ErrorCode::UnknownServerError),
        }
    }
}

fn find<'a>(topics: &mut Topics<'a>, topic: &'a str, index: i32) -> Result<Arc<Partition>, ErrorCode> {
    let hub = topics.find(TopicRef::Name(topic))?;
    topics::partition(&hub, index).map(Arc::clone)
}

/// Where an epoch ends. The leader has one for ever, and there was none before it.
fn epoch_end<'a>(topics: &mut Topics<'a>, asked: &AskedEpoch<'a>) -> EpochEnd<'a> {
    let AskedEpoch { topic, index, .. } = *asked;
    let none = |error| EpochEnd { topic, index, error, leader_epoch: -1, end_offset: -1 };
    let found = find(topics, topic, index)
        .and_then(|partition| check_epoch(asked.current_leader_epoch).map(|()| partition));
    match found {
        Err(error) => none(error),
        Ok(partition) if asked.leader_epoch == LEADER_EPOCH => EpochEnd {
            topic,
            index,
            error: ErrorCode::None,
            leader_epoch: LEADER_EPOCH,
            end_offset: partition.log().end().next_sequence_number.cast_signed(),
        },
        Ok(_) => none(ErrorCode::None),
    }
}

fn producers<'a>(
    topics: &mut Topics<'a>,
    topic: &'a str,
    index: i32,
) -> Result<Vec<ActiveProducer>, ErrorCode> {
    let known = find(topics, topic, index)?.log().producers();
    let active = known.into_iter().map(|producer: KnownProducer| ActiveProducer {
        id: producer.id,
        epoch: producer.epoch,
        last_sequence: producer.last_sequence,
        last_timestamp: producer.last_timestamp.milliseconds(),
        coordinator_epoch: producer.coordinator_epoch,
        transaction_start: producer.transaction_start.map_or(-1, u64::cast_signed),
    });
    Ok(active.collect())
}
