//! The messages that carry no records: what a broker reads of a request and writes of a response, and what a client writes of a
//! request and reads of a response, for those that clients here send.
//!
//! They are written by hand, as those that carry records are. A library that is generated from Kafka's definitions takes
//! memory for as many elements as an array says it has, before one of them has arrived; here an array is never longer than the
//! message that has it. The library reads and writes what is written and read here, in the tests, in every version.

pub mod api_versions;
pub mod authorized_operations;
mod by_topic;
pub mod cluster;
pub mod configs;
pub mod consumer_group;
pub mod consumer_protocol;
pub mod create_partitions;
pub mod create_topics;
pub mod delete_records;
pub mod delete_topics;
pub mod describe_producers;
pub mod describe_topic_partitions;
pub mod find_coordinator;
pub mod group;
pub mod group_admin;
pub mod join_group;
pub mod list_offsets;
pub mod log_dirs;
pub mod metadata;
pub mod offset_commit;
pub mod offset_delete;
pub mod offset_fetch;
pub mod offset_for_leader_epoch;
pub mod outcome;
pub mod producer_id;
pub mod sasl;
pub mod security;
pub mod sync_group;
pub mod transaction_admin;
pub mod transactions;
pub mod unserved;

#[cfg(test)]
pub(crate) mod reference {
    //! The other implementation.

    use bytes::{Bytes, BytesMut};
    use kafka_protocol::protocol::{Decodable, Encodable};

    use crate::ApiKey;
    use crate::read::Reader;
    use crate::write::Writer;

    /// A message as the other implementation writes it, with `read` tried on every beginning of it, which must fail.
    pub(crate) fn read_message<T>(
        key: ApiKey,
        version: i16,
        message: &impl Encodable,
        read: impl for<'a> Fn(Reader<'a>) -> Result<T, crate::Malformed>,
        check: impl Fn(T),
    ) where
        T: Sized,
    {
        let mut bytes = BytesMut::new();
        message.encode(&mut bytes, version).unwrap();
        check(read(reader(key, version, &bytes)).unwrap());
        for length in 0..bytes.len() {
            let read = read(reader(key, version, &bytes[..length]));
            assert!(read.is_err(), "{length} of {} bytes of {key:?} {version}", bytes.len());
        }
    }

    /// A message as the other implementation reads it, to its last byte.
    pub(crate) fn message<T: Decodable>(key: ApiKey, version: i16, write: impl FnOnce(&mut Writer)) -> T {
        let mut bytes = Bytes::from(body(key, version, write));
        let message = T::decode(&mut bytes, version).unwrap();
        assert!(bytes.is_empty(), "{} bytes are left of {key:?} {version}", bytes.len());
        message
    }

    /// The body of a message as it is written here.
    pub(crate) fn body(key: ApiKey, version: i16, write: impl FnOnce(&mut Writer)) -> Vec<u8> {
        let mut writer = Writer::new(Vec::new(), key.is_flexible(version));
        write(&mut writer);
        writer.finish()
    }

    /// What reads the body of a message.
    pub(crate) fn reader(key: ApiKey, version: i16, body: &[u8]) -> Reader<'_> {
        Reader::new(body, key.is_flexible(version))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::reference::reader;
    use super::*;
    use crate::ApiKey;

    /// Reads `body` as every response that clients here read.
    fn read_all(body: &[u8], version: i16) {
        let of = |key| reader(key, version, body);
        let _ = api_versions::ApiVersionsResponse::read(of(ApiKey::ApiVersions), version);
        let _ = metadata::MetadataResponse::read(of(ApiKey::Metadata), version);
        let _ = sasl::SaslHandshakeResponse::read(of(ApiKey::SaslHandshake));
        let _ = sasl::SaslAuthenticateResponse::read(of(ApiKey::SaslAuthenticate), version);
        let _ = list_offsets::ListOffsetsResponse::read(of(ApiKey::ListOffsets), version);
        let _ = producer_id::InitProducerIdResponse::read(of(ApiKey::InitProducerId));
        let _ = find_coordinator::FindCoordinatorResponse::read(of(ApiKey::FindCoordinator), version);
        let _ = join_group::JoinGroupResult::read(of(ApiKey::JoinGroup), version);
        let _ = sync_group::SyncGroupResult::read(of(ApiKey::SyncGroup), version);
        let _ = group::read_heartbeat_response(of(ApiKey::Heartbeat), version);
        let _ = group::LeaveGroupResponse::read(of(ApiKey::LeaveGroup), version);
        let _ = offset_commit::OffsetCommitRequest::read_response(of(ApiKey::OffsetCommit), version);
        let _ = offset_fetch::OffsetFetchResponse::read(of(ApiKey::OffsetFetch), version);
        let _ = outcome::Outcome::read(of(ApiKey::EndTxn));
        let _ = outcome::PartitionOutcomes::read(of(ApiKey::TxnOffsetCommit));
        let _ = consumer_protocol::Subscription::read(body);
        let _ = consumer_protocol::Assignment::read(body);
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(body: Vec<u8>, version in 0_i16..=13) {
            read_all(&body, version);
        }

        /// Small numbers are more often lengths that fit.
        #[test]
        fn small_bytes_are_read_or_refused(
            body in proptest::collection::vec(0_u8..4, 0..200),
            version in 0_i16..=13,
        ) {
            read_all(&body, version);
        }
    }
}
