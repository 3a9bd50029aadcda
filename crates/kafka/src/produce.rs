//! Produce, versions 3 to 11: the batches that a client wants appended. Versions 0 to 2 are read so far that they can be refused:
//! what they carry has older formats.
//!
//! The batches stay where they arrived. What a broker makes for a request is a list of where they lie; a client writes what
//! stands before, between and after them.

use crate::ErrorCode;
use crate::read::{Malformed, Reader};
use crate::write::Writer;

/// What a client wants appended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProduceRequest<'a> {
    /// The transaction that the batches belong to.
    pub transactional_id: Option<&'a str>,
    /// When to answer: 0 never, 1 when the leader has it, -1 when it is as safe as it gets.
    pub acks: i16,
    /// How long to wait for that, in milliseconds.
    pub timeout_ms: i32,
    /// The batches by their partitions, in the order of the request. Partitions of one topic stand together.
    pub partitions: Vec<ProducePartition<'a>>,
}

/// What is to be appended to one partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProducePartition<'a> {
    /// The topic.
    pub topic: &'a str,
    /// The partition's number.
    pub index: i32,
    /// The batch.
    pub records: &'a [u8],
}

/// What became of the batch of one partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProduceResult<'a> {
    /// The topic.
    pub topic: &'a str,
    /// The partition's number.
    pub index: i32,
    /// The error, 0 if it was appended.
    pub error_code: i16,
    /// The offset of its first record; -1 if it was not appended.
    pub base_offset: i64,
    /// When it was appended, in milliseconds since 1970, where the timestamps are the broker's; -1 if they are the producer's.
    pub log_append_time: i64,
    /// Where the log begins; -1 if that is not known.
    pub log_start_offset: i64,
    /// What is wrong, for people.
    pub error_message: Option<String>,
    /// The record that is wrong, by its place in the batch, and what is wrong with it.
    pub record_error: Option<(i32, String)>,
}

impl<'a> ProduceRequest<'a> {
    /// Reads the body of a request of `version`.
    pub fn read(mut reader: Reader<'a>, version: i16) -> Result<Self, Malformed> {
        debug_assert!((0..=NEWEST).contains(&version), "other versions are refused before");
        let transactional_id = if version >= 3 { reader.nullable_string("transactional id")? } else { None };
        let acks = reader.i16("acks")?;
        let timeout_ms = reader.i32("timeout")?;
        let mut partitions = Vec::new();
        for _ in 0..reader.array_length("topics")? {
            let topic = reader.string("topic")?;
            for _ in 0..reader.array_length("partitions")? {
                let index = reader.i32("partition")?;
                let records = reader.nullable_bytes("records")?.unwrap_or_default();
                reader.skip_tagged_fields("partition")?;
                partitions.push(ProducePartition { topic, index, records });
            }
            reader.skip_tagged_fields("topic")?;
        }
        reader.skip_tagged_fields("request")?;
        Ok(Self { transactional_id, acks, timeout_ms, partitions })
    }
}

/// Writes the body of the response to a request of `version`. Results of one topic stand together.
pub fn write_response(
    writer: &mut Writer,
    version: i16,
    results: &[ProduceResult<'_>],
    throttle_time_ms: i32,
) {
    let topics = || results.chunk_by(|a, b| a.topic == b.topic);
    writer.array_length(topics().count());
    for topic in topics() {
        writer.string(topic.first().map_or("", |first| first.topic));
        writer.array_length(topic.len());
        for result in topic {
            writer.i32(result.index);
            writer.error(ErrorCode::of(result.error_code), result.topic);
            writer.i64(result.base_offset);
            if version >= 2 {
                writer.i64(result.log_append_time);
            }
            if version >= 5 {
                writer.i64(result.log_start_offset);
            }
            if version >= 8 {
                writer.array_length(result.record_error.iter().len());
                if let Some((place, message)) = &result.record_error {
                    writer.i32(*place);
                    writer.nullable_string(Some(message));
                    writer.tagged_fields_end();
                }
                writer.nullable_string(result.error_message.as_deref());
            }
            writer.tagged_fields_end();
        }
        writer.tagged_fields_end();
    }
    if version >= 1 {
        writer.i32(throttle_time_ms);
    }
    writer.tagged_fields_end();
}

/// What stands before the batches of a request, which are all for one topic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestHead<'a> {
    /// The transaction that the batches belong to.
    pub transactional_id: Option<&'a str>,
    /// When to answer: 0 never, 1 when the leader has it, -1 when it is as safe as it gets.
    pub acks: i16,
    /// How long the broker may wait for that, in milliseconds.
    pub timeout_ms: i32,
    /// The topic.
    pub topic: &'a str,
}

impl RequestHead<'_> {
    /// Writes it, for batches for so many partitions.
    pub fn write(&self, writer: &mut Writer, partitions: usize) {
        writer.nullable_string(self.transactional_id);
        writer.i16(self.acks);
        writer.i32(self.timeout_ms);
        writer.array_length(1);
        writer.string(self.topic);
        writer.array_length(partitions);
    }
}

/// Writes what stands before the batch of a partition, which has `length` bytes.
pub fn begin_partition(writer: &mut Writer, index: i32, length: usize) {
    writer.i32(index);
    writer.bytes_length(Some(length));
}

/// Writes what stands after the batch of a partition.
pub fn end_partition(writer: &mut Writer) {
    writer.tagged_fields_end();
}

/// Writes what stands after the last partition of a request.
pub fn end_request(writer: &mut Writer) {
    // Of the topic, and of the request.
    writer.tagged_fields_end();
    writer.tagged_fields_end();
}

/// What became of the batch of one partition, as a client reads it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Produced<'a> {
    /// The topic.
    pub topic: &'a str,
    /// The partition's number.
    pub index: i32,
    /// The error, 0 if it was appended.
    pub error_code: i16,
    /// The offset of its first record; -1 if it was not appended.
    pub base_offset: i64,
    /// When it was appended, where the timestamps are the broker's; -1 if they are the producer's.
    pub log_append_time: i64,
    /// What is wrong, for people.
    pub error_message: Option<&'a str>,
}

/// Reads the body of the response to a request of `version`, gives the result of each partition to `each`, and returns for
/// how many milliseconds the broker wants to be left alone.
pub fn read_response<'a>(
    mut reader: Reader<'a>,
    version: i16,
    mut each: impl FnMut(Produced<'a>),
) -> Result<i32, Malformed> {
    for _ in 0..reader.array_length("topics")? {
        let topic = reader.string("topic")?;
        for _ in 0..reader.array_length("partitions")? {
            let index = reader.i32("partition")?;
            let error_code = reader.i16("error")?;
            let base_offset = reader.i64("base offset")?;
            let log_append_time = reader.i64("append time")?;
            if version >= 5 {
                reader.i64("log start offset")?;
            }
            let error_message = match version >= 8 {
                true => read_messages(&mut reader)?,
                false => None,
            };
            reader.skip_tagged_fields("partition")?;
            each(Produced { topic, index, error_code, base_offset, log_append_time, error_message });
        }
        reader.skip_tagged_fields("topic")?;
    }
    let throttle_time_ms = reader.i32("throttle time")?;
    reader.skip_tagged_fields("response")?;
    Ok(throttle_time_ms)
}

/// What is wrong with the batch, or with one of its records.
fn read_messages<'a>(reader: &mut Reader<'a>) -> Result<Option<&'a str>, Malformed> {
    let mut of_record = None;
    for _ in 0..reader.array_length("record errors")? {
        reader.i32("record")?;
        of_record = reader.nullable_string("message of a record")?.or(of_record);
        reader.skip_tagged_fields("record error")?;
    }
    Ok(reader.nullable_string("message")?.or(of_record))
}

/// The oldest version whose batches have the one format that is left.
pub const OLDEST: i16 = 3;

/// The newest version that names topics.
pub const NEWEST: i16 = 12;

#[cfg(test)]
mod tests {
    use bytes::{Bytes, BytesMut};
    use kafka_protocol::messages::produce_request::{
        PartitionProduceData, ProduceRequest as Reference, TopicProduceData,
    };
    use kafka_protocol::messages::produce_response::{
        BatchIndexAndErrorMessage, PartitionProduceResponse, TopicProduceResponse,
    };
    use kafka_protocol::messages::{ProduceResponse, TopicName, TransactionalId};
    use kafka_protocol::protocol::{Decodable as _, Encodable as _, StrBytes};
    use proptest::prelude::*;

    use super::*;
    use crate::ApiKey;

    fn reference(version: i16) -> Vec<u8> {
        let partition = |index, records: &'static [u8]| {
            PartitionProduceData::default().with_index(index).with_records(Some(Bytes::from_static(records)))
        };
        let topic = |name: &'static str, partitions| {
            let name = TopicName(StrBytes::from_static_str(name));
            TopicProduceData::default().with_name(name).with_partition_data(partitions)
        };
        let request = Reference::default()
            .with_transactional_id(Some(TransactionalId(StrBytes::from_static_str("transaction"))))
            .with_acks(-1)
            .with_timeout_ms(30_000)
            .with_topic_data(vec![
                topic("orders", vec![partition(0, b"batch"), partition(7, &[9; 300])]),
                topic("payments", vec![partition(1, b"")]),
            ]);
        let mut out = BytesMut::new();
        request.encode(&mut out, version).unwrap();
        out.to_vec()
    }

    #[test]
    fn requests_of_another_implementation_are_read_in_every_version() {
        for version in OLDEST..=NEWEST {
            let bytes = reference(version);
            let reader = Reader::new(&bytes, ApiKey::Produce.is_flexible(version));
            let request = ProduceRequest::read(reader, version).unwrap();
            assert_eq!(
                (request.transactional_id, request.acks, request.timeout_ms),
                (Some("transaction"), -1, 30_000)
            );
            let found: Vec<_> =
                request.partitions.iter().map(|it| (it.topic, it.index, it.records.len())).collect();
            assert_eq!(found, [("orders", 0, 5), ("orders", 7, 300), ("payments", 1, 0)]);
            for length in 0..bytes.len() {
                let reader = Reader::new(&bytes[..length], ApiKey::Produce.is_flexible(version));
                assert!(
                    ProduceRequest::read(reader, version).is_err(),
                    "{length} bytes of version {version}"
                );
            }
        }
    }

    #[test]
    fn responses_are_read_by_another_implementation_in_every_version() {
        let result = |topic, index, error_message| ProduceResult {
            topic,
            index,
            error_code: if index == 7 { 87 } else { 0 },
            base_offset: 1_000 + i64::from(index),
            log_append_time: 77,
            log_start_offset: 500,
            error_message,
            record_error: (index == 7).then(|| (4, "the record".to_owned())),
        };
        let results = [
            result("orders", 0, None),
            result("orders", 7, Some("why".to_owned())),
            result("payments", 1, None),
        ];
        for version in OLDEST..=NEWEST {
            let mut writer = Writer::new(Vec::new(), ApiKey::Produce.is_flexible(version));
            write_response(&mut writer, version, &results, 40);
            let mut bytes = Bytes::from(writer.finish());
            let response = ProduceResponse::decode(&mut bytes, version).unwrap();
            assert!(bytes.is_empty(), "version {version}");
            assert_eq!(response.throttle_time_ms, 40);
            let topics = &response.responses;
            assert_eq!(
                (topics[0].name.as_str(), topics[1].name.as_str(), topics.len()),
                ("orders", "payments", 2)
            );
            let failed = &topics[0].partition_responses[1];
            assert_eq!((failed.index, failed.error_code, failed.base_offset), (7, 87, 1_007));
            assert_eq!(failed.error_message.as_deref(), (version >= 8).then_some("why"));
            assert_eq!(failed.log_start_offset, if version >= 5 { 500 } else { -1 });
            assert_eq!(failed.log_append_time_ms, 77);
            let of_record = failed.record_errors.first().map(|it| {
                (it.batch_index, it.batch_index_error_message.as_ref().map(|message| message.as_str()))
            });
            assert_eq!(of_record, (version >= 8).then_some((4, Some("the record"))));
        }
    }

    #[test]
    fn what_a_client_writes_is_read_by_another_implementation_and_here() {
        let head = RequestHead { transactional_id: Some("t"), acks: -1, timeout_ms: 30_000, topic: "orders" };
        for version in OLDEST..=NEWEST {
            let is_flexible = ApiKey::Produce.is_flexible(version);
            let mut writer = Writer::new(Vec::new(), is_flexible);
            head.write(&mut writer, 2);
            for (index, batch) in [(3, &b"batch"[..]), (7, &[9; 300])] {
                begin_partition(&mut writer, index, batch.len());
                let mut out = writer.finish();
                out.extend_from_slice(batch);
                writer = Writer::new(out, is_flexible);
                end_partition(&mut writer);
            }
            end_request(&mut writer);
            let bytes = writer.finish();
            let request = ProduceRequest::read(Reader::new(&bytes, is_flexible), version).unwrap();
            assert_eq!((request.transactional_id, request.acks, request.timeout_ms), (Some("t"), -1, 30_000));
            let found: Vec<_> =
                request.partitions.iter().map(|it| (it.topic, it.index, it.records.len())).collect();
            assert_eq!(found, [("orders", 3, 5), ("orders", 7, 300)]);
            let mut bytes = Bytes::from(bytes);
            let request = Reference::decode(&mut bytes, version).unwrap();
            assert!(bytes.is_empty(), "version {version}");
            let partitions = &request.topic_data[0].partition_data;
            assert_eq!(partitions[1].records.as_deref(), Some(&[9; 300][..]));
        }
    }

    #[test]
    fn responses_of_another_implementation_and_of_our_own_are_read_in_every_version() {
        let partition = |index: i32, error_code, message: Option<&'static str>| {
            let error = BatchIndexAndErrorMessage::default()
                .with_batch_index(4)
                .with_batch_index_error_message(Some(StrBytes::from_static_str("the record")));
            PartitionProduceResponse::default()
                .with_index(index)
                .with_error_code(error_code)
                .with_base_offset(1_000)
                .with_log_append_time_ms(55)
                .with_record_errors(if error_code == 0 { vec![] } else { vec![error] })
                .with_error_message(message.map(StrBytes::from_static_str))
        };
        for version in OLDEST..=NEWEST {
            let topic = TopicProduceResponse::default()
                .with_name(TopicName(StrBytes::from_static_str("orders")))
                .with_partition_responses(vec![
                    partition(0, 0, None),
                    partition(7, 87, None),
                    partition(8, 10, Some("why")),
                ]);
            let response = ProduceResponse::default().with_responses(vec![topic]).with_throttle_time_ms(40);
            let mut bytes = BytesMut::new();
            response.encode(&mut bytes, version).unwrap();
            let is_flexible = ApiKey::Produce.is_flexible(version);
            let mut found = Vec::new();
            let throttle = read_response(Reader::new(&bytes, is_flexible), version, |it| {
                assert_eq!((it.topic, it.base_offset, it.log_append_time), ("orders", 1_000, 55));
                found.push((it.index, it.error_code, it.error_message));
            });
            assert_eq!(throttle, Ok(40));
            let message = |text| Some(text).filter(|_| version >= 8);
            assert_eq!(found, [(0, 0, None), (7, 87, message("the record")), (8, 10, message("why"))]);
            for length in 0..bytes.len() {
                assert!(read_response(Reader::new(&bytes[..length], is_flexible), version, |_| ()).is_err());
            }
            let own = ProduceResult {
                topic: "orders",
                index: 3,
                error_code: 0,
                base_offset: 9,
                log_append_time: -1,
                log_start_offset: 0,
                error_message: None,
                record_error: None,
            };
            let mut writer = Writer::new(Vec::new(), is_flexible);
            write_response(&mut writer, version, &[own], 5);
            let bytes = writer.finish();
            let read = read_response(Reader::new(&bytes, is_flexible), version, |it| {
                assert_eq!((it.index, it.error_code, it.base_offset, it.log_append_time), (3, 0, 9, -1));
            });
            assert_eq!(read, Ok(5));
        }
    }

    proptest! {
        #[test]
        fn any_response_is_read_or_refused(bytes: Vec<u8>, version in OLDEST..=NEWEST) {
            let _ = read_response(Reader::new(&bytes, ApiKey::Produce.is_flexible(version)), version, |_| ());
        }

        #[test]
        fn any_bytes_are_read_or_refused(bytes: Vec<u8>, version in OLDEST..=NEWEST, at: usize, value: u8) {
            let is_flexible = ApiKey::Produce.is_flexible(version);
            let _ = ProduceRequest::read(Reader::new(&bytes, is_flexible), version);
            let _ = ProduceRequest::read(Reader::new(&bytes, false), version % OLDEST);
            let mut changed = reference(version);
            let at = at % changed.len();
            changed[at] = value;
            let _ = ProduceRequest::read(Reader::new(&changed, is_flexible), version);
        }
    }
}
