//! The transactions of a producer: AddPartitionsToTxn, AddOffsetsToTxn, EndTxn and TxnOffsetCommit, 0 to 3 each.

use super::by_topic;
use super::group::MemberRef;
use super::offset_commit::{BesideOffset, CommittedOffset};
use crate::ErrorCode;
use crate::read::{Malformed, Reader};
use crate::write::Writer;

/// Whose transaction it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TransactionRef<'a> {
    /// The name that the producer keeps.
    pub transactional_id: &'a str,
    /// The producer.
    pub producer_id: i64,
    /// How often it has begun anew.
    pub producer_epoch: i16,
}

impl<'a> TransactionRef<'a> {
    fn read(reader: &mut Reader<'a>) -> Result<Self, Malformed> {
        let transactional_id = reader.string("transactional id")?;
        let (producer_id, producer_epoch) = (reader.i64("producer id")?, reader.i16("producer epoch")?);
        Ok(Self { transactional_id, producer_id, producer_epoch })
    }

    fn write(&self, writer: &mut Writer) {
        writer.string(self.transactional_id);
        writer.i64(self.producer_id);
        writer.i16(self.producer_epoch);
    }
}

/// Which partitions a transaction is going to write to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AddPartitionsRequest<'a> {
    /// The transaction.
    pub transaction: TransactionRef<'a>,
    /// Topics with the numbers of partitions. Those of one topic stand together.
    pub partitions: Vec<(&'a str, i32)>,
}

impl<'a> AddPartitionsRequest<'a> {
    /// Reads the body of a request.
    pub fn read(mut reader: Reader<'a>) -> Result<Self, Malformed> {
        let transaction = TransactionRef::read(&mut reader)?;
        let partitions = by_topic::read(&mut reader, |reader, topic| Ok((topic, reader.i32("partition")?)))?;
        reader.skip_tagged_fields("request")?;
        Ok(Self { transaction, partitions })
    }

    /// Writes the body of a request. The response is [`PartitionOutcomes`](super::outcome::PartitionOutcomes).
    pub fn write(&self, writer: &mut Writer) {
        self.transaction.write(writer);
        by_topic::write(
            writer,
            &self.partitions,
            |first| first.0,
            // The numbers alone: they are no structures, and have no tagged fields.
            |writer, (_, index)| writer.i32(*index),
        );
        writer.tagged_fields_end();
    }

    /// Writes the response: what became of each.
    pub fn write_response(&self, writer: &mut Writer, errors: &[ErrorCode], throttle_time_ms: i32) {
        writer.i32(throttle_time_ms);
        write_results(writer, &self.partitions, errors);
    }
}

/// Which group's offsets a transaction is going to bring with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AddOffsetsRequest<'a> {
    /// The transaction.
    pub transaction: TransactionRef<'a>,
    /// The group.
    pub group_id: &'a str,
}

impl<'a> AddOffsetsRequest<'a> {
    /// Reads the body of a request.
    pub fn read(mut reader: Reader<'a>) -> Result<Self, Malformed> {
        let transaction = TransactionRef::read(&mut reader)?;
        let group_id = reader.string("group")?;
        reader.skip_tagged_fields("request")?;
        Ok(Self { transaction, group_id })
    }

    /// Writes the body of a request. The response is an [`Outcome`](super::outcome::Outcome).
    pub fn write(&self, writer: &mut Writer) {
        self.transaction.write(writer);
        writer.string(self.group_id);
        writer.tagged_fields_end();
    }
}

/// How a transaction is to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EndTransactionRequest<'a> {
    /// The transaction.
    pub transaction: TransactionRef<'a>,
    /// Whether what it has written is to count.
    pub commits: bool,
}

impl<'a> EndTransactionRequest<'a> {
    /// Reads the body of a request.
    pub fn read(mut reader: Reader<'a>) -> Result<Self, Malformed> {
        let transaction = TransactionRef::read(&mut reader)?;
        let commits = reader.bool("outcome")?;
        reader.skip_tagged_fields("request")?;
        Ok(Self { transaction, commits })
    }

    /// Writes the body of a request. The response is an [`Outcome`](super::outcome::Outcome).
    pub fn write(&self, writer: &mut Writer) {
        self.transaction.write(writer);
        writer.bool(self.commits);
        writer.tagged_fields_end();
    }
}

/// Writes the response to a request that has one result: to add offsets to the transaction of this id, or to end it.
pub fn write_result(writer: &mut Writer, transactional_id: &str, error: ErrorCode, throttle_time_ms: i32) {
    writer.i32(throttle_time_ms);
    writer.error(error, transactional_id);
    writer.tagged_fields_end();
}

/// How far a group has come if the transaction commits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TransactionalOffsetsRequest<'a> {
    /// The transaction.
    pub transaction: TransactionRef<'a>,
    /// Whose offsets they are. Before version 3 it is not said which member's.
    pub member: MemberRef<'a>,
    /// Partitions of one topic stand together.
    pub partitions: Vec<CommittedOffset<'a>>,
}

impl<'a> TransactionalOffsetsRequest<'a> {
    /// Reads the body of a request of `version`.
    pub fn read(mut reader: Reader<'a>, version: i16) -> Result<Self, Malformed> {
        let transactional_id = reader.string("transactional id")?;
        let group_id = reader.string("group")?;
        let (producer_id, producer_epoch) = (reader.i64("producer id")?, reader.i16("producer epoch")?);
        let mut member = MemberRef { group_id, generation: -1, member_id: "", instance_id: None };
        if version >= 3 {
            member.generation = reader.i32("generation")?;
            member.member_id = reader.string("member id")?;
            member.instance_id = reader.nullable_string("instance id")?;
        }
        let beside = beside_offset(version);
        let partitions =
            by_topic::read(&mut reader, |reader, topic| CommittedOffset::read(reader, topic, beside))?;
        reader.skip_tagged_fields("request")?;
        let transaction = TransactionRef { transactional_id, producer_id, producer_epoch };
        Ok(Self { transaction, member, partitions })
    }

    /// Writes the body of a request of `version`. Before version 3 it is not said which member's offsets they are, and before
    /// version 2 no one knows epochs. The response is [`PartitionOutcomes`](super::outcome::PartitionOutcomes).
    pub fn write(&self, writer: &mut Writer, version: i16) {
        writer.string(self.transaction.transactional_id);
        writer.string(self.member.group_id);
        writer.i64(self.transaction.producer_id);
        writer.i16(self.transaction.producer_epoch);
        if version >= 3 {
            writer.i32(self.member.generation);
            writer.string(self.member.member_id);
            writer.nullable_string(self.member.instance_id);
        }
        by_topic::write(
            writer,
            &self.partitions,
            |first| first.topic,
            |writer, partition| partition.write(writer, beside_offset(version)),
        );
        writer.tagged_fields_end();
    }

    /// Writes the response: what became of each.
    pub fn write_response(&self, writer: &mut Writer, errors: &[ErrorCode], throttle_time_ms: i32) {
        writer.i32(throttle_time_ms);
        let partitions: Vec<_> = self.partitions.iter().map(|it| (it.topic, it.index)).collect();
        write_results(writer, &partitions, errors);
    }
}

/// What stands between an offset and its metadata in `version` of TxnOffsetCommit.
const fn beside_offset(version: i16) -> BesideOffset {
    match version {
        ..2 => BesideOffset::Nothing,
        _ => BesideOffset::LeaderEpoch,
    }
}

fn write_results(writer: &mut Writer, partitions: &[(&str, i32)], errors: &[ErrorCode]) {
    let mut errors = errors.iter();
    by_topic::write(
        writer,
        partitions,
        |first| first.0,
        |writer, (topic, index)| {
            writer.i32(*index);
            writer.error(errors.next().copied().unwrap_or(ErrorCode::None), topic);
            writer.tagged_fields_end();
        },
    );
    writer.tagged_fields_end();
}

#[cfg(test)]
mod tests {
    use kafka_protocol::messages::add_partitions_to_txn_request::AddPartitionsToTxnTopic;
    use kafka_protocol::messages::txn_offset_commit_request::{
        TxnOffsetCommitRequestPartition, TxnOffsetCommitRequestTopic,
    };
    use kafka_protocol::messages::{
        AddOffsetsToTxnRequest, AddOffsetsToTxnResponse, AddPartitionsToTxnRequest,
        AddPartitionsToTxnResponse, EndTxnRequest, EndTxnResponse, GroupId, ProducerId, TopicName,
        TransactionalId, TxnOffsetCommitRequest, TxnOffsetCommitResponse,
    };
    use kafka_protocol::protocol::StrBytes;

    use super::*;
    use crate::ApiKey;
    use crate::messages::outcome::{Outcome, PartitionOutcome, PartitionOutcomes};
    use crate::messages::reference;

    const EXPECTED: TransactionRef<'_> =
        TransactionRef { transactional_id: "mover", producer_id: 9, producer_epoch: 2 };

    fn text(text: &'static str) -> StrBytes {
        StrBytes::from_static_str(text)
    }

    #[test]
    fn partitions_are_added_in_every_version() {
        for version in 0..=3 {
            let topic = AddPartitionsToTxnTopic::default()
                .with_name(TopicName(text("orders")))
                .with_partitions(vec![7, 8]);
            let request = AddPartitionsToTxnRequest::default()
                .with_v3_and_below_transactional_id(TransactionalId(text("mover")))
                .with_v3_and_below_producer_id(ProducerId(9))
                .with_v3_and_below_producer_epoch(2)
                .with_v3_and_below_topics(vec![topic]);
            let read = |reader: Reader<'_>| {
                let it = AddPartitionsRequest::read(reader)?;
                Ok((it.transaction == EXPECTED, it.partitions == [("orders", 7), ("orders", 8)]))
            };
            reference::read_message(ApiKey::AddPartitionsToTxn, version, &request, read, |it| {
                assert_eq!(it, (true, true));
            });
            let request = AddPartitionsRequest {
                transaction: EXPECTED,
                partitions: vec![("a", 1), ("a", 2), ("b", 1)],
            };
            let errors =
                [ErrorCode::OperationNotAttempted, ErrorCode::None, ErrorCode::UnknownTopicOrPartition];
            let response: AddPartitionsToTxnResponse =
                reference::message(ApiKey::AddPartitionsToTxn, version, |writer| {
                    request.write_response(writer, &errors, 0);
                });
            let found: Vec<_> = response
                .results_by_topic_v3_and_below
                .iter()
                .flat_map(|topic| topic.results_by_partition.iter())
                .map(|it| (it.partition_index, it.partition_error_code))
                .collect();
            assert_eq!(found, [(1, 55), (2, 0), (1, 3)]);
            let read = |reader: Reader<'_>| {
                let read = PartitionOutcomes::read(reader)?;
                let named = request.partitions.iter().zip(errors);
                let expected: Vec<_> = named
                    .map(|((topic, index), error)| PartitionOutcome { topic, index: *index, error })
                    .collect();
                assert_eq!(read.partitions, expected);
                Ok(read.throttle_time_ms)
            };
            reference::read_message(ApiKey::AddPartitionsToTxn, version, &response, read, |it| {
                assert_eq!(it, 0);
            });
            let write = |writer: &mut Writer| request.write(writer);
            let read: AddPartitionsToTxnRequest =
                reference::message(ApiKey::AddPartitionsToTxn, version, write);
            let topics = &read.v3_and_below_topics;
            assert_eq!((topics.len(), &topics[0].partitions[..]), (2, &[1, 2][..]));
            let body = reference::body(ApiKey::AddPartitionsToTxn, version, write);
            let reader = reference::reader(ApiKey::AddPartitionsToTxn, version, &body);
            assert_eq!(AddPartitionsRequest::read(reader), Ok(request.clone()));
        }
    }

    #[test]
    fn groups_are_added_and_transactions_ended_in_every_version() {
        for version in 0..=3 {
            let request = AddOffsetsToTxnRequest::default()
                .with_transactional_id(TransactionalId(text("mover")))
                .with_producer_id(ProducerId(9))
                .with_producer_epoch(2)
                .with_group_id(GroupId(text("group")));
            let read = |reader: Reader<'_>| {
                let it = AddOffsetsRequest::read(reader)?;
                Ok(it == AddOffsetsRequest { transaction: EXPECTED, group_id: "group" })
            };
            reference::read_message(ApiKey::AddOffsetsToTxn, version, &request, read, |it| assert!(it));
            let response: AddOffsetsToTxnResponse =
                reference::message(ApiKey::AddOffsetsToTxn, version, |writer| {
                    write_result(writer, "transaction", ErrorCode::ConcurrentTransactions, 0);
                });
            assert_eq!(response.error_code, 51);
            reference::read_message(ApiKey::AddOffsetsToTxn, version, &response, Outcome::read, |it| {
                let error = ErrorCode::ConcurrentTransactions;
                assert_eq!(it, Outcome { error, throttle_time_ms: 0 });
            });
            let own = AddOffsetsRequest { transaction: EXPECTED, group_id: "group" };
            let written: AddOffsetsToTxnRequest =
                reference::message(ApiKey::AddOffsetsToTxn, version, |writer| own.write(writer));
            assert_eq!(written, request);

            let request = EndTxnRequest::default()
                .with_transactional_id(TransactionalId(text("mover")))
                .with_producer_id(ProducerId(9))
                .with_producer_epoch(2)
                .with_committed(true);
            let read = |reader: Reader<'_>| {
                let it = EndTransactionRequest::read(reader)?;
                Ok(it == EndTransactionRequest { transaction: EXPECTED, commits: true })
            };
            reference::read_message(ApiKey::EndTxn, version, &request, read, |it| assert!(it));
            let response: EndTxnResponse = reference::message(ApiKey::EndTxn, version, |writer| {
                write_result(writer, "transaction", ErrorCode::InvalidTxnState, 0);
            });
            assert_eq!(response.error_code, 48);
            reference::read_message(ApiKey::EndTxn, version, &response, Outcome::read, |it| {
                assert_eq!(it.error, ErrorCode::InvalidTxnState);
            });
            let own = EndTransactionRequest { transaction: EXPECTED, commits: true };
            let written: EndTxnRequest =
                reference::message(ApiKey::EndTxn, version, |writer| own.write(writer));
            assert_eq!(written, request);
        }
    }

    #[test]
    fn offsets_are_brought_in_every_version() {
        for version in 0..=3 {
            let mut partition = TxnOffsetCommitRequestPartition::default()
                .with_partition_index(7)
                .with_committed_offset(1_000)
                .with_committed_metadata(Some(text("note")));
            if version >= 2 {
                partition = partition.with_committed_leader_epoch(3);
            }
            let topic = TxnOffsetCommitRequestTopic::default()
                .with_name(TopicName(text("orders")))
                .with_partitions(vec![partition]);
            let mut request = TxnOffsetCommitRequest::default()
                .with_transactional_id(TransactionalId(text("mover")))
                .with_group_id(GroupId(text("group")))
                .with_producer_id(ProducerId(9))
                .with_producer_epoch(2)
                .with_topics(vec![topic]);
            if version >= 3 {
                request = request.with_generation_id(4).with_member_id(text("member"));
            }
            let offset = CommittedOffset {
                topic: "orders",
                index: 7,
                offset: 1_000,
                leader_epoch: if version >= 2 { 3 } else { -1 },
                metadata: "note",
            };
            let (generation, member_id) = if version >= 3 { (4, "member") } else { (-1, "") };
            let member = MemberRef { group_id: "group", generation, member_id, instance_id: None };
            let expected =
                TransactionalOffsetsRequest { transaction: EXPECTED, member, partitions: vec![offset] };
            let read =
                |reader: Reader<'_>| Ok(TransactionalOffsetsRequest::read(reader, version)? == expected);
            reference::read_message(ApiKey::TxnOffsetCommit, version, &request, read, |it| assert!(it));
            let response: TxnOffsetCommitResponse =
                reference::message(ApiKey::TxnOffsetCommit, version, |writer| {
                    expected.write_response(writer, &[ErrorCode::IllegalGeneration], 0);
                });
            let partition = &response.topics[0].partitions[0];
            assert_eq!((partition.partition_index, partition.error_code), (7, 22));
            let read = |reader: Reader<'_>| {
                let error = ErrorCode::IllegalGeneration;
                let read = PartitionOutcomes::read(reader)?;
                assert_eq!(read.partitions, [PartitionOutcome { topic: "orders", index: 7, error }]);
                Ok(read.throttle_time_ms)
            };
            reference::read_message(ApiKey::TxnOffsetCommit, version, &response, read, |it| {
                assert_eq!(it, 0);
            });
            let written: TxnOffsetCommitRequest =
                reference::message(ApiKey::TxnOffsetCommit, version, |writer| {
                    expected.write(writer, version);
                });
            assert_eq!(written, request);
        }
    }
}
