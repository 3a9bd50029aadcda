//! Which requests there are, in which versions.

use std::ops::RangeInclusive;

use kafka::read::ELEMENTS_MAX;
use kafka::{ApiKey, Malformed, produce};

/// What is answered, in the order of the numbers. ApiVersions says the same.
///
/// Every request begins with 0, as with Event Hubs, for clients that don't ask which versions there are. Fetch begins with 4 as it does
/// there, and Produce with 3: what the versions before them carry has older formats. Produce says 0 all the same, as Event Hubs and
/// Kafka 4 do: older clients of librdkafka take a broker without version 0 for one that can't take compressed batches (KAFKA-18659).
/// The highest versions are those that name topics in Produce and have transactions of the first protocol.
pub(super) const SUPPORTED: &[(ApiKey, RangeInclusive<i16>)] = &[
    (ApiKey::Produce, 0..=11),
    (ApiKey::Fetch, 4..=16),
    (ApiKey::ListOffsets, 0..=9),
    (ApiKey::Metadata, 0..=12),
    (ApiKey::OffsetCommit, 0..=9),
    (ApiKey::OffsetFetch, 0..=9),
    (ApiKey::FindCoordinator, 0..=4),
    (ApiKey::JoinGroup, 0..=9),
    (ApiKey::Heartbeat, 0..=4),
    (ApiKey::LeaveGroup, 0..=5),
    (ApiKey::SyncGroup, 0..=5),
    (ApiKey::DescribeGroups, 0..=5),
    (ApiKey::ListGroups, 0..=5),
    (ApiKey::SaslHandshake, 0..=1),
    (ApiKey::ApiVersions, 0..=4),
    (ApiKey::CreateTopics, 0..=7),
    (ApiKey::DeleteTopics, 0..=6),
    (ApiKey::DeleteRecords, 0..=2),
    (ApiKey::InitProducerId, 0..=4),
    (ApiKey::OffsetForLeaderEpoch, 0..=4),
    (ApiKey::AddPartitionsToTxn, 0..=3),
    (ApiKey::AddOffsetsToTxn, 0..=3),
    (ApiKey::EndTxn, 0..=3),
    (ApiKey::TxnOffsetCommit, 0..=3),
    (ApiKey::DescribeAcls, 0..=3),
    (ApiKey::CreateAcls, 0..=3),
    (ApiKey::DeleteAcls, 0..=3),
    (ApiKey::DescribeConfigs, 0..=4),
    (ApiKey::AlterConfigs, 0..=2),
    (ApiKey::DescribeLogDirs, 0..=4),
    (ApiKey::SaslAuthenticate, 0..=2),
    (ApiKey::CreatePartitions, 0..=3),
    (ApiKey::DeleteGroups, 0..=2),
    (ApiKey::IncrementalAlterConfigs, 0..=1),
    (ApiKey::OffsetDelete, 0..=0),
    (ApiKey::DescribeClientQuotas, 0..=1),
    (ApiKey::DescribeUserScramCredentials, 0..=0),
    (ApiKey::DescribeCluster, 0..=1),
    (ApiKey::DescribeProducers, 0..=0),
    (ApiKey::DescribeTransactions, 0..=0),
    (ApiKey::ListTransactions, 0..=1),
    (ApiKey::ConsumerGroupHeartbeat, 0..=1),
    (ApiKey::ConsumerGroupDescribe, 0..=1),
    (ApiKey::DescribeTopicPartitions, 0..=0),
];

/// Whether a request is carried out in a version of it.
pub(super) fn is_served(key: ApiKey, version: i16) -> bool {
    let is_listed = SUPPORTED.iter().any(|(known, versions)| *known == key && versions.contains(&version));
    is_listed && (key != ApiKey::Produce || version >= produce::OLDEST)
}

/// The newest version of a request that is served.
pub(super) fn newest(key: ApiKey) -> i16 {
    SUPPORTED.iter().find(|(known, _)| *known == key).map_or(0, |(_, versions)| *versions.end())
}

/// A request, by the part of this front that answers it. Each part matches all of its own, so that none is carried out in place of
/// another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Task {
    Connection(ConnectionTask),
    Group(GroupTask),
    Transaction(TransactionTask),
    Partition(PartitionTask),
    Administration(AdministrationTask),
}

/// Requests that a connection answers itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ConnectionTask {
    Produce,
    Fetch,
    ListOffsets,
    Metadata,
    ApiVersions,
    SaslHandshake,
    SaslAuthenticate,
    DescribeCluster,
}

/// Requests of members and operators of groups.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum GroupTask {
    FindCoordinator,
    JoinGroup,
    SyncGroup,
    Heartbeat,
    LeaveGroup,
    OffsetCommit,
    OffsetFetch,
    OffsetDelete,
    DescribeGroups,
    ListGroups,
    DeleteGroups,
    ConsumerGroupHeartbeat,
    ConsumerGroupDescribe,
}

/// Requests of producers with transactions, and of operators of these.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TransactionTask {
    InitProducerId,
    AddPartitionsToTxn,
    AddOffsetsToTxn,
    EndTxn,
    TxnOffsetCommit,
    DescribeTransactions,
    ListTransactions,
}

/// Requests about partitions beside their records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PartitionTask {
    OffsetForLeaderEpoch,
    DescribeProducers,
    DeleteRecords,
}

/// Requests of operators of topics.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AdministrationTask {
    CreateTopics,
    DeleteTopics,
    CreatePartitions,
    DescribeConfigs,
    AlterConfigs,
    IncrementalAlterConfigs,
    DescribeTopicPartitions,
    DescribeLogDirs,
    DescribeAcls,
    CreateAcls,
    DeleteAcls,
    DescribeClientQuotas,
    DescribeUserScramCredentials,
}

impl Task {
    pub(super) const fn of(key: ApiKey) -> Self {
        match key {
            ApiKey::Produce => Self::Connection(ConnectionTask::Produce),
            ApiKey::Fetch => Self::Connection(ConnectionTask::Fetch),
            ApiKey::ListOffsets => Self::Connection(ConnectionTask::ListOffsets),
            ApiKey::Metadata => Self::Connection(ConnectionTask::Metadata),
            ApiKey::ApiVersions => Self::Connection(ConnectionTask::ApiVersions),
            ApiKey::SaslHandshake => Self::Connection(ConnectionTask::SaslHandshake),
            ApiKey::SaslAuthenticate => Self::Connection(ConnectionTask::SaslAuthenticate),
            ApiKey::DescribeCluster => Self::Connection(ConnectionTask::DescribeCluster),
            ApiKey::FindCoordinator => Self::Group(GroupTask::FindCoordinator),
            ApiKey::JoinGroup => Self::Group(GroupTask::JoinGroup),
            ApiKey::SyncGroup => Self::Group(GroupTask::SyncGroup),
            ApiKey::Heartbeat => Self::Group(GroupTask::Heartbeat),
            ApiKey::LeaveGroup => Self::Group(GroupTask::LeaveGroup),
            ApiKey::OffsetCommit => Self::Group(GroupTask::OffsetCommit),
            ApiKey::OffsetFetch => Self::Group(GroupTask::OffsetFetch),
            ApiKey::OffsetDelete => Self::Group(GroupTask::OffsetDelete),
            ApiKey::DescribeGroups => Self::Group(GroupTask::DescribeGroups),
            ApiKey::ListGroups => Self::Group(GroupTask::ListGroups),
            ApiKey::DeleteGroups => Self::Group(GroupTask::DeleteGroups),
            ApiKey::ConsumerGroupHeartbeat => Self::Group(GroupTask::ConsumerGroupHeartbeat),
            ApiKey::ConsumerGroupDescribe => Self::Group(GroupTask::ConsumerGroupDescribe),
            ApiKey::InitProducerId => Self::Transaction(TransactionTask::InitProducerId),
            ApiKey::AddPartitionsToTxn => Self::Transaction(TransactionTask::AddPartitionsToTxn),
            ApiKey::AddOffsetsToTxn => Self::Transaction(TransactionTask::AddOffsetsToTxn),
            ApiKey::EndTxn => Self::Transaction(TransactionTask::EndTxn),
            ApiKey::TxnOffsetCommit => Self::Transaction(TransactionTask::TxnOffsetCommit),
            ApiKey::DescribeTransactions => Self::Transaction(TransactionTask::DescribeTransactions),
            ApiKey::ListTransactions => Self::Transaction(TransactionTask::ListTransactions),
            ApiKey::OffsetForLeaderEpoch => Self::Partition(PartitionTask::OffsetForLeaderEpoch),
            ApiKey::DescribeProducers => Self::Partition(PartitionTask::DescribeProducers),
            ApiKey::DeleteRecords => Self::Partition(PartitionTask::DeleteRecords),
            ApiKey::CreateTopics => Self::Administration(AdministrationTask::CreateTopics),
            ApiKey::DeleteTopics => Self::Administration(AdministrationTask::DeleteTopics),
            ApiKey::CreatePartitions => Self::Administration(AdministrationTask::CreatePartitions),
            ApiKey::DescribeConfigs => Self::Administration(AdministrationTask::DescribeConfigs),
            ApiKey::AlterConfigs => Self::Administration(AdministrationTask::AlterConfigs),
            ApiKey::IncrementalAlterConfigs => {
                Self::Administration(AdministrationTask::IncrementalAlterConfigs)
            }
            ApiKey::DescribeTopicPartitions => {
                Self::Administration(AdministrationTask::DescribeTopicPartitions)
            }
            ApiKey::DescribeLogDirs => Self::Administration(AdministrationTask::DescribeLogDirs),
            ApiKey::DescribeAcls => Self::Administration(AdministrationTask::DescribeAcls),
            ApiKey::CreateAcls => Self::Administration(AdministrationTask::CreateAcls),
            ApiKey::DeleteAcls => Self::Administration(AdministrationTask::DeleteAcls),
            ApiKey::DescribeClientQuotas => Self::Administration(AdministrationTask::DescribeClientQuotas),
            ApiKey::DescribeUserScramCredentials => {
                Self::Administration(AdministrationTask::DescribeUserScramCredentials)
            }
        }
    }
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
