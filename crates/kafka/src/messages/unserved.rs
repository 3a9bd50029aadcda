//! Answers to requests of versions that a broker does not serve.
//!
//! Kafka closes the connection. A client that asks for no versions takes that for a broken connection and tries again for ever, so an
//! error is written wherever a client can find one: in the layout of the version where that is known, and otherwise in that of the
//! nearest version, if the error of the request as a whole stands near its beginning.

use super::group::write_heartbeat_response;
use super::join_group::write_join_response;
use super::sync_group::write_sync_response;
use super::{producer_id, sasl, security, transactions};
use crate::fetch::{self, FetchRequest, PartitionHead};
use crate::produce::{self, ProduceRequest, ProduceResult};
use crate::read::{Malformed, Reader};
use crate::write::Writer;
use crate::{ApiKey, ErrorCode};

/// Returns the version in whose layout a request of `version` can be refused, if `newest` is the newest that is served; `None` if
/// there is no place for an error.
#[must_use]
pub fn refusal_version(key: ApiKey, version: i16, newest: i16) -> Option<i16> {
    match key {
        ApiKey::Produce if version < produce::OLDEST => Some(version),
        ApiKey::Fetch if version < fetch::OLDEST => Some(version),
        _ if version <= newest => None,
        ApiKey::Fetch
        | ApiKey::JoinGroup
        | ApiKey::Heartbeat
        | ApiKey::LeaveGroup
        | ApiKey::SyncGroup
        | ApiKey::ListGroups
        | ApiKey::SaslHandshake
        | ApiKey::InitProducerId
        | ApiKey::AddOffsetsToTxn
        | ApiKey::EndTxn
        | ApiKey::DescribeAcls
        | ApiKey::SaslAuthenticate => Some(newest),
        _ => None,
    }
}

/// Writes the refusal of a request in the layout of a [version](refusal_version).
///
/// # Errors
/// The request can't be read.
pub fn write_refusal(
    writer: &mut Writer,
    key: ApiKey,
    version: i16,
    body: Reader<'_>,
) -> Result<(), Malformed> {
    let error = ErrorCode::UnsupportedVersion;
    match key {
        ApiKey::Produce => {
            let request = ProduceRequest::read(body, version)?;
            let refused = request.partitions.iter().map(|partition| ProduceResult {
                topic: partition.topic,
                index: partition.index,
                error_code: error.code(),
                base_offset: -1,
                log_append_time: -1,
                log_start_offset: -1,
                error_message: None,
                record_error: None,
            });
            produce::write_response(writer, version, &refused.collect::<Vec<_>>(), 0);
        }
        ApiKey::Fetch if version < fetch::OLDEST => {
            let request = FetchRequest::read(body, version)?;
            let topics = || request.partitions.chunk_by(|a, b| a.topic == b.topic);
            fetch::begin_response(writer, version, 0, 0, 0, topics().count());
            for partitions in topics() {
                fetch::begin_topic(writer, partitions[0].topic, partitions.len());
                for partition in partitions {
                    let head = PartitionHead {
                        index: partition.index,
                        error_code: error.code(),
                        high_watermark: -1,
                        last_stable_offset: -1,
                        log_start_offset: -1,
                    };
                    fetch::begin_partition(writer, version, partition.topic, &head, &[], 0);
                }
            }
        }
        ApiKey::Fetch => {
            fetch::begin_response(writer, version, 0, error.code(), 0, 0);
            fetch::end(writer);
        }
        ApiKey::JoinGroup => write_join_response(writer, version, ("", error), &Default::default(), 0),
        ApiKey::SyncGroup => write_sync_response(writer, version, ("", error), &Default::default(), 0),
        ApiKey::Heartbeat => write_heartbeat_response(writer, version, ("", error), 0),
        ApiKey::LeaveGroup | ApiKey::ListGroups => {
            writer.i32(0);
            writer.error(error, "");
            writer.array_length(0);
            writer.tagged_fields_end();
        }
        ApiKey::InitProducerId => producer_id::write_response(writer, None, Err(error), 0),
        ApiKey::AddOffsetsToTxn | ApiKey::EndTxn => transactions::write_result(writer, "", error, 0),
        ApiKey::DescribeAcls => security::write_describe_acls_response(writer, error, "", 0),
        ApiKey::SaslHandshake => sasl::write_handshake(writer, error, &[]),
        ApiKey::SaslAuthenticate => sasl::write_authenticate(writer, version, Err((error, "")), 0),
        _ => debug_assert!(false, "{key:?} has no version to be refused in"),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use kafka_protocol::messages::{
        AddOffsetsToTxnResponse, DescribeAclsResponse, EndTxnResponse, FetchResponse, HeartbeatResponse,
        InitProducerIdResponse, JoinGroupResponse, LeaveGroupResponse, ListGroupsResponse,
        SaslAuthenticateResponse, SaslHandshakeResponse, SyncGroupResponse,
    };

    use super::*;
    use crate::messages::reference;

    /// A string of a version that is not flexible.
    fn string(text: &str) -> Vec<u8> {
        let mut bytes = u16::try_from(text.len()).unwrap().to_be_bytes().to_vec();
        bytes.extend_from_slice(text.as_bytes());
        bytes
    }

    /// From Kafka's definitions of the messages: the other implementation has none of these versions.
    #[test]
    fn oldest_versions_of_requests_with_records_are_refused_by_partition() {
        let topic = string("orders");
        // Acks, timeout, one topic with one partition, and a message set of three bytes.
        let produced =
            [&[0, 1, 0, 0, 0, 9, 0, 0, 0, 1][..], &topic, &[0, 0, 0, 1, 0, 0, 0, 7, 0, 0, 0, 3, 1, 2, 3]]
                .concat();
        let head = [&[0, 0, 0, 1][..], &topic, &[0, 0, 0, 1, 0, 0, 0, 7, 0, 35]].concat();
        let (none, throttle) = ([0xff; 8], [0; 4]);
        let answers = [
            [&head[..], &none].concat(),
            [&head[..], &none, &throttle].concat(),
            [&head[..], &none, &none, &throttle].concat(),
        ];
        for (version, expected) in (0..).zip(answers) {
            assert_eq!(refusal_version(ApiKey::Produce, version, 11), Some(version));
            let answer = reference::body(ApiKey::Produce, version, |writer| {
                let body = Reader::new(&produced, false);
                write_refusal(writer, ApiKey::Produce, version, body).unwrap();
            });
            assert_eq!(answer, expected, "Produce {version}");
        }
        for version in 0..4 {
            // Replica, longest wait, least bytes; one topic with one partition, its offset and most bytes.
            let most: &[u8] = if version >= 3 { &[0, 0, 1, 0] } else { &[] };
            let fetched = [
                &[0xff, 0xff, 0xff, 0xff, 0, 0, 0, 9, 0, 0, 0, 1][..],
                most,
                &[0, 0, 0, 1],
                &topic,
                &[0, 0, 0, 1, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0, 5, 0, 0, 1, 0],
            ];
            let throttle: &[u8] = if version >= 1 { &[0; 4] } else { &[] };
            let expected = [throttle, &head, &none, &[0; 4]].concat();
            assert_eq!(refusal_version(ApiKey::Fetch, version, 16), Some(version));
            let answer = reference::body(ApiKey::Fetch, version, |writer| {
                write_refusal(writer, ApiKey::Fetch, version, Reader::new(&fetched.concat(), false)).unwrap();
            });
            assert_eq!(answer, expected, "Fetch {version}");
        }
    }

    #[test]
    fn versions_to_come_are_refused_where_the_error_of_the_request_stands_at_the_beginning() {
        let refused = |key: ApiKey, newest: i16| {
            assert_eq!(refusal_version(key, newest + 1, newest), Some(newest), "{key:?}");
            move |writer: &mut Writer| {
                write_refusal(writer, key, newest, Reader::new(&[], true)).unwrap();
                assert_eq!(writer.take_errors().len(), 1);
            }
        };
        macro_rules! check {
            ($($name:ident $newest:literal $response:ident),* $(,)?) => {
                $(
                    let answer: $response =
                        reference::message(ApiKey::$name, $newest, refused(ApiKey::$name, $newest));
                    assert_eq!(answer.error_code, 35, "{answer:?}");
                )*
            };
        }
        check!(
            Fetch 16 FetchResponse,
            JoinGroup 9 JoinGroupResponse,
            SyncGroup 5 SyncGroupResponse,
            Heartbeat 4 HeartbeatResponse,
            LeaveGroup 5 LeaveGroupResponse,
            ListGroups 5 ListGroupsResponse,
            InitProducerId 4 InitProducerIdResponse,
            AddOffsetsToTxn 3 AddOffsetsToTxnResponse,
            EndTxn 3 EndTxnResponse,
            DescribeAcls 3 DescribeAclsResponse,
            SaslHandshake 1 SaslHandshakeResponse,
            SaslAuthenticate 2 SaslAuthenticateResponse,
        );
        assert_eq!(refusal_version(ApiKey::Metadata, 99, 12), None, "its errors are those of topics");
    }
}
