//! Which requests there are, in which versions.

use std::ops::RangeInclusive;

use kafka::read::ELEMENTS_MAX;
use kafka::{ApiKey, Malformed};

/// What is answered, in the order of the numbers. ApiVersions says the same.
///
/// Produce begins with 0 although the first three versions are refused, as Kafka 4 has it: older clients of librdkafka take a
/// broker without version 0 for one that can't take compressed batches (KAFKA-18659). The highest versions are those that name
/// topics in Produce and have transactions of the first protocol.
pub(super) const SUPPORTED: &[(ApiKey, RangeInclusive<i16>)] = &[
    (ApiKey::Produce, 0..=11),
    (ApiKey::Fetch, 4..=16),
    (ApiKey::ListOffsets, 1..=9),
    (ApiKey::Metadata, 0..=12),
    (ApiKey::OffsetCommit, 2..=9),
    (ApiKey::OffsetFetch, 1..=9),
    (ApiKey::FindCoordinator, 0..=4),
    (ApiKey::JoinGroup, 0..=9),
    (ApiKey::Heartbeat, 0..=4),
    (ApiKey::LeaveGroup, 0..=5),
    (ApiKey::SyncGroup, 0..=5),
    (ApiKey::DescribeGroups, 0..=5),
    (ApiKey::ListGroups, 0..=5),
    (ApiKey::SaslHandshake, 0..=1),
    (ApiKey::ApiVersions, 0..=4),
    (ApiKey::CreateTopics, 2..=7),
    (ApiKey::DeleteTopics, 1..=6),
    (ApiKey::DeleteRecords, 0..=2),
    (ApiKey::InitProducerId, 0..=4),
    (ApiKey::OffsetForLeaderEpoch, 2..=4),
    (ApiKey::AddPartitionsToTxn, 0..=3),
    (ApiKey::AddOffsetsToTxn, 0..=3),
    (ApiKey::EndTxn, 0..=3),
    (ApiKey::TxnOffsetCommit, 0..=3),
    (ApiKey::DescribeAcls, 1..=3),
    (ApiKey::CreateAcls, 1..=3),
    (ApiKey::DeleteAcls, 1..=3),
    (ApiKey::DescribeConfigs, 1..=4),
    (ApiKey::AlterConfigs, 0..=2),
    (ApiKey::DescribeLogDirs, 1..=4),
    (ApiKey::SaslAuthenticate, 0..=2),
    (ApiKey::CreatePartitions, 0..=3),
    (ApiKey::DeleteGroups, 0..=2),
    (ApiKey::IncrementalAlterConfigs, 0..=1),
    (ApiKey::OffsetDelete, 0..=0),
    (ApiKey::DescribeClientQuotas, 0..=1),
    (ApiKey::DescribeCluster, 0..=1),
    (ApiKey::DescribeProducers, 0..=0),
    (ApiKey::DescribeTransactions, 0..=0),
    (ApiKey::ListTransactions, 0..=1),
    (ApiKey::ConsumerGroupHeartbeat, 0..=1),
    (ApiKey::ConsumerGroupDescribe, 0..=1),
    (ApiKey::DescribeTopicPartitions, 0..=0),
];

/// The request with this number in this version; `None` if it is not answered.
pub(super) fn supported(api_key: i16, version: i16) -> Option<ApiKey> {
    let key = ApiKey::of(api_key)?;
    let (_, versions) = SUPPORTED.iter().find(|(known, _)| *known == key)?;
    versions.contains(&version).then_some(key)
}

/// Checks that a request names no more partitions of all topics together than an array may have.
///
/// # Errors
/// It names more.
pub(super) fn check_partitions(count: usize) -> Result<(), Malformed> {
    match count > ELEMENTS_MAX {
        true => Err(Malformed("request: it names too many partitions")),
        false => Ok(()),
    }
}

/// Whether a client may ask before it has said who it is.
pub(super) const fn is_open(key: ApiKey) -> bool {
    matches!(key, ApiKey::ApiVersions | ApiKey::SaslHandshake | ApiKey::SaslAuthenticate)
}
