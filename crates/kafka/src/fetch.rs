//! Fetch, versions 4 to 16: the batches that a client wants from where it stands. Versions 0 to 3 are read so far that they can be
//! refused: what they carry has older formats.
//!
//! A response is written in pieces, because the batches in it are not copied: what is written here is what stands before,
//! between and after them. It is read without a copy, too.

use crate::ErrorCode;
use crate::read::{Malformed, Reader, Uuid};
use crate::write::Writer;

/// What a client wants to read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FetchRequest<'a> {
    /// How long to wait for `min_bytes`, in milliseconds.
    pub max_wait_ms: i32,
    /// Less than this is not worth an answer before `max_wait_ms` is over.
    pub min_bytes: i32,
    /// What an answer may have.
    pub max_bytes: i32,
    /// Whether records of transactions that are open or aborted are left out.
    pub is_read_committed: bool,
    /// The session that this belongs to; 0 for none, or for a new one.
    pub session_id: i32,
    /// The number of the request in its session: -1 for a full one that ends it, 0 for a full one that begins one.
    pub session_epoch: i32,
    /// Where the client stands, in the order of the request. Partitions of one topic stand together.
    pub partitions: Vec<FetchPartition<'a>>,
    /// What it does not want any longer, in a session.
    pub forgotten: Vec<(TopicRef<'a>, i32)>,
}

/// How a request names a topic.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum TopicRef<'a> {
    /// By its name, up to version 12.
    Name(&'a str),
    /// By its id.
    Id(Uuid),
}

/// Where a client stands in one partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FetchPartition<'a> {
    /// The topic.
    pub topic: TopicRef<'a>,
    /// The partition's number.
    pub index: i32,
    /// The epoch that the client believes the leader to have; -1 if it has no opinion.
    pub current_leader_epoch: i32,
    /// The offset of the next record that it wants.
    pub fetch_offset: i64,
    /// What an answer may have of this partition.
    pub max_bytes: i32,
}

/// What stands before the batches of one partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PartitionHead {
    /// The partition's number.
    pub index: i32,
    /// The error; 0 if there is none.
    pub error_code: i16,
    /// The offset after the last record that can be read; -1 if that is not known.
    pub high_watermark: i64,
    /// The offset after the last record that no open transaction holds back.
    pub last_stable_offset: i64,
    /// The offset of the oldest record.
    pub log_start_offset: i64,
}

/// A transaction that was aborted: a reader of what is committed leaves its records out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AbortedTransaction {
    /// Whose it was.
    pub producer_id: i64,
    /// The offset of its first record.
    pub first_offset: i64,
}

impl<'a> FetchRequest<'a> {
    /// Reads the body of a request of `version`.
    pub fn read(mut reader: Reader<'a>, version: i16) -> Result<Self, Malformed> {
        debug_assert!((0..=NEWEST).contains(&version), "other versions are refused before");
        if version < 15 {
            reader.i32("replica id")?;
        }
        let max_wait_ms = reader.i32("longest wait")?;
        let min_bytes = reader.i32("least bytes")?;
        let max_bytes = if version >= 3 { reader.i32("most bytes")? } else { i32::MAX };
        let is_read_committed = version >= 4 && reader.i8("isolation level")? != 0;
        let (session_id, session_epoch) = match version >= 7 {
            true => (reader.i32("session id")?, reader.i32("session epoch")?),
            false => (0, -1),
        };
        let mut partitions = Vec::new();
        for _ in 0..reader.array_length("topics")? {
            let topic = TopicRef::read(&mut reader, version)?;
            for _ in 0..reader.array_length("partitions")? {
                partitions.push(FetchPartition::read(&mut reader, topic, version)?);
            }
            reader.skip_tagged_fields("topic")?;
        }
        let mut forgotten = Vec::new();
        let forgotten_topics = if version >= 7 { reader.array_length("forgotten topics")? } else { 0 };
        for _ in 0..forgotten_topics {
            let topic = TopicRef::read(&mut reader, version)?;
            for _ in 0..reader.array_length("forgotten partitions")? {
                forgotten.push((topic, reader.i32("forgotten partition")?));
            }
            reader.skip_tagged_fields("forgotten topic")?;
        }
        if version >= 11 {
            reader.nullable_string("rack id")?;
        }
        reader.skip_tagged_fields("request")?;
        Ok(Self {
            max_wait_ms,
            min_bytes,
            max_bytes,
            is_read_committed,
            session_id,
            session_epoch,
            partitions,
            forgotten,
        })
    }
}

impl<'a> TopicRef<'a> {
    fn read(reader: &mut Reader<'a>, version: i16) -> Result<Self, Malformed> {
        match version >= 13 {
            true => reader.uuid("topic id").map(Self::Id),
            false => reader.string("topic").map(Self::Name),
        }
    }

    /// Returns its name, if that is how it is named.
    #[must_use]
    pub const fn name(self) -> Option<&'a str> {
        match self {
            Self::Name(name) => Some(name),
            Self::Id(_) => None,
        }
    }

    fn write(self, writer: &mut Writer) {
        match self {
            Self::Name(name) => writer.string(name),
            Self::Id(id) => writer.uuid(&id),
        }
    }
}

impl<'a> FetchPartition<'a> {
    fn read(reader: &mut Reader<'a>, topic: TopicRef<'a>, version: i16) -> Result<Self, Malformed> {
        let index = reader.i32("partition")?;
        let current_leader_epoch = if version >= 9 { reader.i32("leader epoch")? } else { -1 };
        let fetch_offset = reader.i64("fetch offset")?;
        if version >= 12 {
            reader.i32("last fetched epoch")?;
        }
        if version >= 5 {
            reader.i64("log start offset")?;
        }
        let max_bytes = reader.i32("most bytes of a partition")?;
        reader.skip_tagged_fields("partition")?;
        Ok(Self { topic, index, current_leader_epoch, fetch_offset, max_bytes })
    }
}

/// Writes what stands before the topics of a response to a request of `version`.
pub fn begin_response(
    writer: &mut Writer,
    version: i16,
    throttle_time_ms: i32,
    error_code: i16,
    session_id: i32,
    topics: usize,
) {
    if version >= 1 {
        writer.i32(throttle_time_ms);
    }
    if version >= 7 {
        writer.error(ErrorCode::of(error_code), "");
        writer.i32(session_id);
    }
    writer.array_length(topics);
}

/// Writes what stands before the partitions of a topic.
pub fn begin_topic(writer: &mut Writer, topic: TopicRef<'_>, partitions: usize) {
    topic.write(writer);
    writer.array_length(partitions);
}

/// Writes what stands before the batches of a partition of `topic`, which have `records_length` bytes.
pub fn begin_partition(
    writer: &mut Writer,
    version: i16,
    topic: TopicRef<'_>,
    head: &PartitionHead,
    aborted: &[AbortedTransaction],
    records_length: usize,
) {
    writer.i32(head.index);
    writer.error(ErrorCode::of(head.error_code), topic.name().unwrap_or_default());
    writer.i64(head.high_watermark);
    if version >= 4 {
        writer.i64(head.last_stable_offset);
    }
    if version >= 5 {
        writer.i64(head.log_start_offset);
    }
    if version >= 4 {
        writer.array_length(aborted.len());
        for transaction in aborted {
            writer.i64(transaction.producer_id);
            writer.i64(transaction.first_offset);
            writer.tagged_fields_end();
        }
    }
    if version >= 11 {
        // No replica is preferred to this one.
        writer.i32(-1);
    }
    // Never null: librdkafka takes that for a message set of an invalid size.
    writer.bytes_length(Some(records_length));
}

/// Writes what stands after the batches of a partition, after the partitions of a topic, and after the topics.
pub fn end(writer: &mut Writer) {
    writer.tagged_fields_end();
}

/// What a client says of a request as a whole. It has no session, so each request says everything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestHead {
    /// How long the broker may wait for `min_bytes`, in milliseconds.
    pub max_wait_ms: i32,
    /// Less than this is not worth an answer before `max_wait_ms` is over.
    pub min_bytes: i32,
    /// What an answer may have.
    pub max_bytes: i32,
    /// Whether records of transactions that are open or aborted are left out.
    pub is_read_committed: bool,
}

/// Writes the body of a request for partitions of one topic.
pub fn write_request<'a>(
    writer: &mut Writer,
    version: i16,
    head: &RequestHead,
    topic: TopicRef<'_>,
    partitions: impl ExactSizeIterator<Item = FetchPartition<'a>>,
) {
    if version < 15 {
        writer.i32(NO_REPLICA);
    }
    writer.i32(head.max_wait_ms);
    writer.i32(head.min_bytes);
    writer.i32(head.max_bytes);
    writer.i8(i8::from(head.is_read_committed));
    if version >= 7 {
        // No session, and none that is to begin.
        writer.i32(0);
        writer.i32(-1);
    }
    writer.array_length(1);
    topic.write(writer);
    writer.array_length(partitions.len());
    for partition in partitions {
        writer.i32(partition.index);
        if version >= 9 {
            writer.i32(partition.current_leader_epoch);
        }
        writer.i64(partition.fetch_offset);
        if version >= 12 {
            // The epoch of what was fetched last, for brokers to find where logs part.
            writer.i32(-1);
        }
        if version >= 5 {
            // Where the log of a replica begins.
            writer.i64(-1);
        }
        writer.i32(partition.max_bytes);
        writer.tagged_fields_end();
    }
    writer.tagged_fields_end();
    if version >= 7 {
        writer.array_length(0);
    }
    if version >= 11 {
        writer.string("");
    }
    writer.tagged_fields_end();
}

/// What a response says as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResponseHead {
    /// For how many milliseconds the broker wants to be left alone.
    pub throttle_time_ms: i32,
    /// The error of all of it; 0 if there is none.
    pub error_code: i16,
}

/// What a response has of one partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fetched<'a> {
    /// The topic.
    pub topic: TopicRef<'a>,
    /// What stands before the batches.
    pub head: PartitionHead,
    /// The transactions that were aborted, with records among these.
    pub aborted: Vec<AbortedTransaction>,
    /// The batches: whole ones, and maybe the beginning of another.
    pub records: &'a [u8],
}

/// Reads the body of the response to a request of `version`, and gives what it has of each partition to `each`.
pub fn read_response<'a>(
    mut reader: Reader<'a>,
    version: i16,
    mut each: impl FnMut(Fetched<'a>),
) -> Result<ResponseHead, Malformed> {
    let throttle_time_ms = reader.i32("throttle time")?;
    let error_code = if version >= 7 { reader.i16("error")? } else { 0 };
    if version >= 7 {
        reader.i32("session id")?;
    }
    for _ in 0..reader.array_length("topics")? {
        let topic = TopicRef::read(&mut reader, version)?;
        for _ in 0..reader.array_length("partitions")? {
            each(Fetched::read(&mut reader, topic, version)?);
        }
        reader.skip_tagged_fields("topic")?;
    }
    reader.skip_tagged_fields("response")?;
    Ok(ResponseHead { throttle_time_ms, error_code })
}

impl<'a> Fetched<'a> {
    fn read(reader: &mut Reader<'a>, topic: TopicRef<'a>, version: i16) -> Result<Self, Malformed> {
        let head = PartitionHead {
            index: reader.i32("partition")?,
            error_code: reader.i16("error of a partition")?,
            high_watermark: reader.i64("high watermark")?,
            last_stable_offset: reader.i64("last stable offset")?,
            log_start_offset: if version >= 5 { reader.i64("log start offset")? } else { -1 },
        };
        let mut aborted = Vec::new();
        for _ in 0..reader.nullable_array("aborted transactions")?.unwrap_or(0) {
            aborted.push(AbortedTransaction {
                producer_id: reader.i64("producer id")?,
                first_offset: reader.i64("first offset")?,
            });
            reader.skip_tagged_fields("aborted transaction")?;
        }
        if version >= 11 {
            reader.i32("preferred replica")?;
        }
        let records = reader.nullable_bytes("records")?.unwrap_or_default();
        reader.skip_tagged_fields("partition")?;
        Ok(Self { topic, head, aborted, records })
    }
}

/// In place of the number of a replica.
const NO_REPLICA: i32 = -1;

/// The oldest version whose batches have the one format that is left.
pub const OLDEST: i16 = 4;

/// The newest version that clients send; later ones are for replicas.
pub const NEWEST: i16 = 16;

#[cfg(test)]
mod tests {
    use bytes::{Bytes, BytesMut};
    use kafka_protocol::messages::fetch_request::{
        FetchPartition as ReferencePartition, FetchRequest as Reference, FetchTopic, ForgottenTopic,
    };
    use kafka_protocol::messages::fetch_response::{
        AbortedTransaction as Aborted, FetchableTopicResponse, PartitionData,
    };
    use kafka_protocol::messages::{FetchResponse, TopicName};
    use kafka_protocol::protocol::{Decodable as _, Encodable as _, StrBytes};
    use proptest::prelude::*;

    use super::*;
    use crate::ApiKey;

    const ID: Uuid = [5; 16];
    const ID_TEXT: &str = "05050505-0505-0505-0505-050505050505";

    fn is_flexible(version: i16) -> bool {
        ApiKey::Fetch.is_flexible(version)
    }

    fn reference(version: i16) -> Vec<u8> {
        let name = || TopicName(StrBytes::from_static_str("orders"));
        let partition = |index| {
            let partition = ReferencePartition::default()
                .with_partition(index)
                .with_fetch_offset(1_000)
                .with_partition_max_bytes(1 << 20);
            if version >= 9 { partition.with_current_leader_epoch(3) } else { partition }
        };
        let topic = FetchTopic::default().with_partitions(vec![partition(0), partition(7)]);
        let topic = match version >= 13 {
            true => topic.with_topic_id(ID_TEXT.parse().unwrap()),
            false => topic.with_topic(name()),
        };
        let mut request = Reference::default()
            .with_max_wait_ms(500)
            .with_min_bytes(1)
            .with_max_bytes(50 << 20)
            .with_isolation_level(1)
            .with_topics(vec![topic]);
        if version >= 7 {
            let forgotten = ForgottenTopic::default().with_partitions(vec![9]);
            let forgotten = match version >= 13 {
                true => forgotten.with_topic_id(ID_TEXT.parse().unwrap()),
                false => forgotten.with_topic(name()),
            };
            request =
                request.with_session_id(44).with_session_epoch(2).with_forgotten_topics_data(vec![forgotten]);
        }
        let mut out = BytesMut::new();
        request.encode(&mut out, version).unwrap();
        out.to_vec()
    }

    #[test]
    fn requests_of_another_implementation_are_read_in_every_version() {
        for version in OLDEST..=NEWEST {
            let bytes = reference(version);
            let request = FetchRequest::read(Reader::new(&bytes, is_flexible(version)), version).unwrap();
            assert_eq!((request.max_wait_ms, request.min_bytes, request.max_bytes), (500, 1, 50 << 20));
            assert!(request.is_read_committed);
            let topic = if version >= 13 { TopicRef::Id(ID) } else { TopicRef::Name("orders") };
            let partition = |index| FetchPartition {
                topic,
                index,
                current_leader_epoch: if version >= 9 { 3 } else { -1 },
                fetch_offset: 1_000,
                max_bytes: 1 << 20,
            };
            assert_eq!(request.partitions, [partition(0), partition(7)], "version {version}");
            let session = (request.session_id, request.session_epoch, request.forgotten);
            let expected = if version >= 7 { (44, 2, vec![(topic, 9)]) } else { (0, -1, vec![]) };
            assert_eq!(session, expected);
            for length in 0..bytes.len() {
                let reader = Reader::new(&bytes[..length], is_flexible(version));
                assert!(FetchRequest::read(reader, version).is_err(), "{length} bytes of version {version}");
            }
        }
    }

    #[test]
    fn responses_are_read_by_another_implementation_in_every_version() {
        let head = |index| PartitionHead {
            index,
            error_code: 0,
            high_watermark: 2_000,
            last_stable_offset: 1_900,
            log_start_offset: 500,
        };
        let aborted = [AbortedTransaction { producer_id: 8, first_offset: 1_700 }];
        for version in OLDEST..=NEWEST {
            let topic = if version >= 13 { TopicRef::Id(ID) } else { TopicRef::Name("orders") };
            let mut writer = Writer::new(Vec::new(), is_flexible(version));
            begin_response(&mut writer, version, 40, 0, 44, 1);
            begin_topic(&mut writer, topic, 2);
            for (index, records) in [(0, &b""[..]), (7, b"batches")] {
                begin_partition(&mut writer, version, topic, &head(index), &aborted, records.len());
                let mut out = writer.finish();
                out.extend_from_slice(records);
                writer = Writer::new(out, is_flexible(version));
                end(&mut writer);
            }
            end(&mut writer);
            end(&mut writer);
            let mut bytes = Bytes::from(writer.finish());
            let response = FetchResponse::decode(&mut bytes, version).unwrap();
            assert!(bytes.is_empty(), "version {version}");
            assert_eq!(response.throttle_time_ms, 40);
            let topic = &response.responses[0];
            assert_eq!(
                (topic.topic.as_str(), topic.topic_id.into_bytes()),
                match version >= 13 {
                    true => ("", ID),
                    false => ("orders", [0; 16]),
                }
            );
            let [first, second] = &topic.partitions[..] else { panic!("two partitions") };
            assert_eq!(first.records.as_deref(), Some(&b""[..]));
            assert_eq!(second.records.as_deref(), Some(&b"batches"[..]));
            assert_eq!((second.high_watermark, second.last_stable_offset), (2_000, 1_900));
            let transaction = &second.aborted_transactions.as_ref().unwrap()[0];
            assert_eq!((transaction.producer_id.0, transaction.first_offset), (8, 1_700));
        }
    }

    #[test]
    fn what_a_client_writes_is_read_by_another_implementation_and_here() {
        let head =
            RequestHead { max_wait_ms: 500, min_bytes: 1, max_bytes: 1 << 20, is_read_committed: true };
        for version in OLDEST..=NEWEST {
            let topic = if version >= 13 { TopicRef::Id(ID) } else { TopicRef::Name("orders") };
            let current_leader_epoch = if version >= 9 { 3 } else { -1 };
            let partitions = [2, 9].map(|index| FetchPartition {
                topic,
                index,
                current_leader_epoch,
                fetch_offset: 1_000,
                max_bytes: 4_096,
            });
            let mut writer = Writer::new(Vec::new(), is_flexible(version));
            write_request(&mut writer, version, &head, topic, partitions.into_iter());
            let bytes = writer.finish();
            let read = FetchRequest::read(Reader::new(&bytes, is_flexible(version)), version).unwrap();
            assert_eq!((read.max_wait_ms, read.min_bytes, read.max_bytes), (500, 1, 1 << 20));
            assert!(read.is_read_committed && read.forgotten.is_empty());
            assert_eq!((read.session_id, read.session_epoch), (0, -1));
            assert_eq!(read.partitions, partitions, "version {version}");
            let mut bytes = Bytes::from(bytes);
            let request = Reference::decode(&mut bytes, version).unwrap();
            assert!(bytes.is_empty(), "version {version}");
            assert_eq!(request.topics[0].partitions[1].partition_max_bytes, 4_096);
        }
    }

    #[test]
    fn responses_of_another_implementation_and_of_our_own_are_read_in_every_version() {
        for version in OLDEST..=NEWEST {
            let aborted = Aborted::default().with_producer_id(8.into()).with_first_offset(1_700);
            let partition = |index, aborted| {
                let data = PartitionData::default()
                    .with_partition_index(index)
                    .with_high_watermark(2_000)
                    .with_last_stable_offset(1_900)
                    .with_aborted_transactions(aborted)
                    .with_records(Some(Bytes::from_static(b"batches")));
                if version >= 5 { data.with_log_start_offset(500) } else { data }
            };
            let topic = FetchableTopicResponse::default()
                .with_partitions(vec![partition(0, None), partition(7, Some(vec![aborted]))]);
            let topic = match version >= 13 {
                true => topic.with_topic_id(ID_TEXT.parse().unwrap()),
                false => topic.with_topic(TopicName(StrBytes::from_static_str("orders"))),
            };
            let response = FetchResponse::default().with_throttle_time_ms(40).with_responses(vec![topic]);
            let mut bytes = BytesMut::new();
            response.encode(&mut bytes, version).unwrap();
            let mut found = Vec::new();
            let read = read_response(Reader::new(&bytes, is_flexible(version)), version, |it| found.push(it));
            assert_eq!(read, Ok(ResponseHead { throttle_time_ms: 40, error_code: 0 }));
            let expected = |index, aborted| Fetched {
                topic: if version >= 13 { TopicRef::Id(ID) } else { TopicRef::Name("orders") },
                head: PartitionHead {
                    index,
                    error_code: 0,
                    high_watermark: 2_000,
                    last_stable_offset: 1_900,
                    log_start_offset: if version >= 5 { 500 } else { -1 },
                },
                aborted,
                records: b"batches",
            };
            let transaction = AbortedTransaction { producer_id: 8, first_offset: 1_700 };
            assert_eq!(found, [expected(0, vec![]), expected(7, vec![transaction])], "version {version}");
            for length in 0..bytes.len() {
                let reader = Reader::new(&bytes[..length], is_flexible(version));
                assert!(
                    read_response(reader, version, |_| ()).is_err(),
                    "{length} bytes of version {version}"
                );
            }

            let mut writer = Writer::new(Vec::new(), is_flexible(version));
            begin_response(&mut writer, version, 40, 0, 44, 1);
            begin_topic(&mut writer, expected(7, vec![]).topic, 1);
            begin_partition(
                &mut writer,
                version,
                expected(7, vec![]).topic,
                &expected(7, vec![]).head,
                &[transaction],
                7,
            );
            let mut out = writer.finish();
            out.extend_from_slice(b"batches");
            let mut writer = Writer::new(out, is_flexible(version));
            (0..3).for_each(|_| end(&mut writer));
            let bytes = writer.finish();
            let mut own = Vec::new();
            let read = read_response(Reader::new(&bytes, is_flexible(version)), version, |it| own.push(it));
            assert_eq!(read.map(|head| head.throttle_time_ms), Ok(40));
            assert_eq!(own, [expected(7, vec![transaction])], "version {version}");
        }
    }

    proptest! {
        #[test]
        fn any_response_is_read_or_refused(bytes: Vec<u8>, version in OLDEST..=NEWEST) {
            let _ = read_response(Reader::new(&bytes, is_flexible(version)), version, |_| ());
        }

        #[test]
        fn any_bytes_are_read_or_refused(bytes: Vec<u8>, version in OLDEST..=NEWEST, at: usize, value: u8) {
            let _ = FetchRequest::read(Reader::new(&bytes, is_flexible(version)), version);
            let _ = FetchRequest::read(Reader::new(&bytes, false), version % OLDEST);
            let mut changed = reference(version);
            let at = at % changed.len();
            changed[at] = value;
            let _ = FetchRequest::read(Reader::new(&changed, is_flexible(version)), version);
        }
    }
}
