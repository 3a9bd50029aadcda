//! The requests of the protocol.

/// Which request a frame holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(i16)]
#[expect(missing_docs, reason = "the names are those of the protocol")]
pub enum ApiKey {
    Produce = 0,
    Fetch = 1,
    ListOffsets = 2,
    Metadata = 3,
    OffsetCommit = 8,
    OffsetFetch = 9,
    FindCoordinator = 10,
    JoinGroup = 11,
    Heartbeat = 12,
    LeaveGroup = 13,
    SyncGroup = 14,
    DescribeGroups = 15,
    ListGroups = 16,
    SaslHandshake = 17,
    ApiVersions = 18,
    CreateTopics = 19,
    DeleteTopics = 20,
    DeleteRecords = 21,
    InitProducerId = 22,
    OffsetForLeaderEpoch = 23,
    AddPartitionsToTxn = 24,
    AddOffsetsToTxn = 25,
    EndTxn = 26,
    TxnOffsetCommit = 28,
    DescribeAcls = 29,
    CreateAcls = 30,
    DeleteAcls = 31,
    DescribeConfigs = 32,
    AlterConfigs = 33,
    DescribeLogDirs = 35,
    SaslAuthenticate = 36,
    CreatePartitions = 37,
    DeleteGroups = 42,
    IncrementalAlterConfigs = 44,
    OffsetDelete = 47,
    DescribeClientQuotas = 48,
    DescribeUserScramCredentials = 50,
    DescribeCluster = 60,
    DescribeProducers = 61,
    DescribeTransactions = 65,
    ListTransactions = 66,
    ConsumerGroupHeartbeat = 68,
    ConsumerGroupDescribe = 69,
    DescribeTopicPartitions = 75,
}

/// The first version of a request whose header and body are flexible; `None` where no version is.
type FirstFlexible = Option<i16>;

impl ApiKey {
    /// All of them, in the order of their numbers.
    pub fn all() -> impl Iterator<Item = Self> {
        TABLE.iter().map(|(key, _)| *key)
    }

    /// The request with this number; `None` if there is none, or none that is known here.
    #[must_use]
    pub fn of(number: i16) -> Option<Self> {
        TABLE.iter().map(|(key, _)| *key).find(|key| key.number() == number)
    }

    /// Its name, such as `OffsetCommit`.
    #[must_use]
    pub fn name(self) -> String {
        format!("{self:?}")
    }

    /// The number of the protocol.
    #[must_use]
    pub const fn number(self) -> i16 {
        self as i16
    }

    /// Whether this version of the request and of its response is flexible.
    #[must_use]
    pub fn is_flexible(self, version: i16) -> bool {
        let found = TABLE.iter().find(|(key, _)| *key == self);
        found.and_then(|(_, first)| *first).is_some_and(|first| version >= first)
    }

    /// Whether the header of the response ends with tagged fields. That of ApiVersions never does: a client may not know
    /// yet which versions the broker has.
    #[must_use]
    pub fn has_flexible_response_header(self, version: i16) -> bool {
        self != Self::ApiVersions && self.is_flexible(version)
    }
}

const TABLE: &[(ApiKey, FirstFlexible)] = &[
    (ApiKey::Produce, Some(9)),
    (ApiKey::Fetch, Some(12)),
    (ApiKey::ListOffsets, Some(6)),
    (ApiKey::Metadata, Some(9)),
    (ApiKey::OffsetCommit, Some(8)),
    (ApiKey::OffsetFetch, Some(6)),
    (ApiKey::FindCoordinator, Some(3)),
    (ApiKey::JoinGroup, Some(6)),
    (ApiKey::Heartbeat, Some(4)),
    (ApiKey::LeaveGroup, Some(4)),
    (ApiKey::SyncGroup, Some(4)),
    (ApiKey::DescribeGroups, Some(5)),
    (ApiKey::ListGroups, Some(3)),
    (ApiKey::SaslHandshake, None),
    (ApiKey::ApiVersions, Some(3)),
    (ApiKey::CreateTopics, Some(5)),
    (ApiKey::DeleteTopics, Some(4)),
    (ApiKey::DeleteRecords, Some(2)),
    (ApiKey::InitProducerId, Some(2)),
    (ApiKey::OffsetForLeaderEpoch, Some(4)),
    (ApiKey::AddPartitionsToTxn, Some(3)),
    (ApiKey::AddOffsetsToTxn, Some(3)),
    (ApiKey::EndTxn, Some(3)),
    (ApiKey::TxnOffsetCommit, Some(3)),
    (ApiKey::DescribeAcls, Some(2)),
    (ApiKey::CreateAcls, Some(2)),
    (ApiKey::DeleteAcls, Some(2)),
    (ApiKey::DescribeConfigs, Some(4)),
    (ApiKey::AlterConfigs, Some(2)),
    (ApiKey::DescribeLogDirs, Some(2)),
    (ApiKey::SaslAuthenticate, Some(2)),
    (ApiKey::CreatePartitions, Some(2)),
    (ApiKey::DeleteGroups, Some(2)),
    (ApiKey::IncrementalAlterConfigs, Some(1)),
    (ApiKey::OffsetDelete, None),
    (ApiKey::DescribeClientQuotas, Some(1)),
    (ApiKey::DescribeUserScramCredentials, Some(0)),
    (ApiKey::DescribeCluster, Some(0)),
    (ApiKey::DescribeProducers, Some(0)),
    (ApiKey::DescribeTransactions, Some(0)),
    (ApiKey::ListTransactions, Some(0)),
    (ApiKey::ConsumerGroupHeartbeat, Some(0)),
    (ApiKey::ConsumerGroupDescribe, Some(0)),
    (ApiKey::DescribeTopicPartitions, Some(0)),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_are_flexible_where_those_of_kafka_are() {
        for key in ApiKey::all() {
            let reference = kafka_protocol::messages::ApiKey::try_from(key.number()).unwrap();
            for version in 0..=20 {
                if version > reference.valid_versions().max {
                    continue;
                }
                assert_eq!(
                    key.is_flexible(version),
                    reference.request_header_version(version) == 2,
                    "{key:?} {version}"
                );
                let response = reference.response_header_version(version) == 1;
                assert_eq!(key.has_flexible_response_header(version), response, "{key:?} {version}");
            }
            assert_eq!(ApiKey::of(key.number()), Some(key));
        }
        assert_eq!(ApiKey::of(4), None, "between brokers");
    }
}
