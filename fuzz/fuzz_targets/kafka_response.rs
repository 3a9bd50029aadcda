//! Any bytes as a response to a client: reading ends, with the response or an error, and takes no more memory than the bytes that have
//! arrived. In front of the frame are the number and the version of the request that it answers.
#![no_main]

use kafka::messages::api_versions::ApiVersionsResponse;
use kafka::messages::consumer_protocol::{Assignment, Subscription};
use kafka::messages::find_coordinator::FindCoordinatorResponse;
use kafka::messages::group::{LeaveGroupResponse, read_heartbeat_response};
use kafka::messages::join_group::JoinGroupResult;
use kafka::messages::list_offsets::ListOffsetsResponse;
use kafka::messages::metadata::MetadataResponse;
use kafka::messages::offset_commit::OffsetCommitRequest;
use kafka::messages::offset_fetch::OffsetFetchResponse;
use kafka::messages::outcome::{Outcome, PartitionOutcomes};
use kafka::messages::producer_id::InitProducerIdResponse;
use kafka::messages::sasl::{SaslAuthenticateResponse, SaslHandshakeResponse};
use kafka::messages::sync_group::SyncGroupResult;
use kafka::{ApiKey, frame};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Some(([key_high, key_low, version], frame)) = bytes.split_first_chunk() else {
        return;
    };
    let Some(key) = ApiKey::of(i16::from_be_bytes([*key_high, *key_low])) else {
        return;
    };
    let version = i16::from(*version);
    let Ok((_correlation_id, body)) = frame::read_response(frame, key, version) else {
        return;
    };
    match key {
        ApiKey::ApiVersions => drop(ApiVersionsResponse::read(body, version)),
        ApiKey::Metadata => drop(MetadataResponse::read(body, version)),
        ApiKey::SaslHandshake => drop(SaslHandshakeResponse::read(body)),
        ApiKey::SaslAuthenticate => drop(SaslAuthenticateResponse::read(body, version)),
        ApiKey::ListOffsets => drop(ListOffsetsResponse::read(body, version)),
        ApiKey::InitProducerId => drop(InitProducerIdResponse::read(body)),
        ApiKey::FindCoordinator => drop(FindCoordinatorResponse::read(body, version)),
        ApiKey::OffsetCommit => drop(OffsetCommitRequest::read_response(body, version)),
        ApiKey::OffsetFetch => drop(OffsetFetchResponse::read(body, version)),
        ApiKey::Heartbeat => drop(read_heartbeat_response(body, version)),
        ApiKey::LeaveGroup => drop(LeaveGroupResponse::read(body, version)),
        ApiKey::AddPartitionsToTxn | ApiKey::TxnOffsetCommit => drop(PartitionOutcomes::read(body)),
        ApiKey::AddOffsetsToTxn | ApiKey::EndTxn => drop(Outcome::read(body)),
        ApiKey::JoinGroup => {
            if let Ok(joined) = JoinGroupResult::read(body, version) {
                joined.response.members.iter().for_each(|member| drop(Subscription::read(&member.metadata)));
            }
        }
        ApiKey::SyncGroup => {
            if let Ok(synced) = SyncGroupResult::read(body, version) {
                drop(Assignment::read(&synced.response.assignment));
            }
        }
        // No client here sends it.
        _ => {}
    }
});
