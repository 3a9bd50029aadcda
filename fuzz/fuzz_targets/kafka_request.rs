//! Any bytes as a request of a Kafka client: reading ends, with the request or an error, and takes no more memory than the bytes
//! that have arrived.
#![no_main]

use kafka::ApiKey;
use kafka::fetch::{self, FetchRequest};
use kafka::frame::RequestHeader;
use kafka::messages::configs::{AlterConfigsRequest, DescribeConfigsRequest};
use kafka::messages::consumer_group::{self, ConsumerGroupHeartbeatRequest};
use kafka::messages::create_partitions::CreatePartitionsRequest;
use kafka::messages::create_topics::CreateTopicsRequest;
use kafka::messages::delete_records::DeleteRecordsRequest;
use kafka::messages::describe_producers::DescribeProducersRequest;
use kafka::messages::describe_topic_partitions::DescribeTopicPartitionsRequest;
use kafka::messages::find_coordinator::FindCoordinatorRequest;
use kafka::messages::group::{LeaveGroupRequest, MemberRef};
use kafka::messages::group_admin::{self, ListGroupsRequest};
use kafka::messages::join_group::JoinGroupRequest;
use kafka::messages::list_offsets::ListOffsetsRequest;
use kafka::messages::metadata::MetadataRequest;
use kafka::messages::offset_commit::OffsetCommitRequest;
use kafka::messages::offset_delete::OffsetDeleteRequest;
use kafka::messages::offset_fetch::OffsetFetchRequest;
use kafka::messages::offset_for_leader_epoch::OffsetForLeaderEpochRequest;
use kafka::messages::producer_id::InitProducerIdRequest;
use kafka::messages::sync_group::SyncGroupRequest;
use kafka::messages::transaction_admin::{self, ListTransactionsRequest};
use kafka::messages::transactions::{
    AddOffsetsRequest, AddPartitionsRequest, EndTransactionRequest, TransactionalOffsetsRequest,
};
use kafka::messages::{cluster, delete_topics, log_dirs, sasl, security};
use kafka::produce::{self, ProduceRequest};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Ok((RequestHeader { api_key, version, .. }, body)) = RequestHeader::read(bytes) else {
        return;
    };
    let Some(key) = ApiKey::of(api_key) else {
        return;
    };
    // The service refuses other versions before it reads on.
    let is_served = match key {
        ApiKey::Produce => (0..=produce::NEWEST).contains(&version),
        ApiKey::Fetch => (0..=fetch::NEWEST).contains(&version),
        _ => version >= 0,
    };
    if !is_served {
        return;
    }
    // Whether it can be read is all there is to know.
    let _can_be_read = match key {
        ApiKey::Produce => ProduceRequest::read(body, version).is_ok(),
        ApiKey::Fetch => FetchRequest::read(body, version).is_ok(),
        ApiKey::ListOffsets => ListOffsetsRequest::read(body, version).is_ok(),
        ApiKey::Metadata => MetadataRequest::read(body, version).is_ok(),
        ApiKey::OffsetCommit => OffsetCommitRequest::read(body, version).is_ok(),
        ApiKey::OffsetFetch => OffsetFetchRequest::read(body, version).is_ok(),
        ApiKey::FindCoordinator => FindCoordinatorRequest::read(body, version).is_ok(),
        ApiKey::JoinGroup => JoinGroupRequest::read(body, version).is_ok(),
        ApiKey::Heartbeat => MemberRef::read_heartbeat(body, version).is_ok(),
        ApiKey::LeaveGroup => LeaveGroupRequest::read(body, version).is_ok(),
        ApiKey::SyncGroup => SyncGroupRequest::read(body, version).is_ok(),
        ApiKey::DescribeGroups => group_admin::read_describe(body, version).is_ok(),
        ApiKey::ListGroups => ListGroupsRequest::read(body, version).is_ok(),
        ApiKey::DeleteGroups => group_admin::read_delete(body).is_ok(),
        ApiKey::SaslHandshake => sasl::read_handshake(body).is_ok(),
        ApiKey::SaslAuthenticate => sasl::read_authenticate(body).is_ok(),
        ApiKey::ApiVersions => true,
        ApiKey::CreateTopics => CreateTopicsRequest::read(body, version).is_ok(),
        ApiKey::DeleteTopics => delete_topics::read(body, version).is_ok(),
        ApiKey::DeleteRecords => DeleteRecordsRequest::read(body).is_ok(),
        ApiKey::InitProducerId => InitProducerIdRequest::read(body, version).is_ok(),
        ApiKey::OffsetForLeaderEpoch => OffsetForLeaderEpochRequest::read(body, version).is_ok(),
        ApiKey::AddPartitionsToTxn => AddPartitionsRequest::read(body).is_ok(),
        ApiKey::AddOffsetsToTxn => AddOffsetsRequest::read(body).is_ok(),
        ApiKey::EndTxn => EndTransactionRequest::read(body).is_ok(),
        ApiKey::TxnOffsetCommit => TransactionalOffsetsRequest::read(body, version).is_ok(),
        ApiKey::DescribeAcls => security::read_describe_acls(body, version).is_ok(),
        ApiKey::CreateAcls => security::read_create_acls(body, version).is_ok(),
        ApiKey::DeleteAcls => security::read_delete_acls(body, version).is_ok(),
        ApiKey::DescribeConfigs => DescribeConfigsRequest::read(body, version).is_ok(),
        ApiKey::AlterConfigs => AlterConfigsRequest::read(body).is_ok(),
        ApiKey::DescribeLogDirs => log_dirs::read(body).is_ok(),
        ApiKey::CreatePartitions => CreatePartitionsRequest::read(body).is_ok(),
        ApiKey::IncrementalAlterConfigs => AlterConfigsRequest::read_incremental(body).is_ok(),
        ApiKey::OffsetDelete => OffsetDeleteRequest::read(body).is_ok(),
        ApiKey::DescribeClientQuotas => security::read_describe_client_quotas(body).is_ok(),
        ApiKey::DescribeUserScramCredentials => security::read_describe_scram_credentials(body).is_ok(),
        ApiKey::DescribeCluster => cluster::read(body, version).is_ok(),
        ApiKey::DescribeProducers => DescribeProducersRequest::read(body).is_ok(),
        ApiKey::DescribeTransactions => transaction_admin::read_describe(body).is_ok(),
        ApiKey::ListTransactions => ListTransactionsRequest::read(body, version).is_ok(),
        ApiKey::ConsumerGroupHeartbeat => ConsumerGroupHeartbeatRequest::read(body, version).is_ok(),
        ApiKey::ConsumerGroupDescribe => consumer_group::read_describe(body).is_ok(),
        ApiKey::DescribeTopicPartitions => DescribeTopicPartitionsRequest::read(body).is_ok(),
    };
});
