//! What operators ask of transactions: DescribeTransactions 0, ListTransactions 0 to 1.

use super::by_topic;
use crate::ErrorCode;
use crate::read::{Malformed, Reader};
use crate::write::Writer;

/// Reads which transactional ids are to be described.
pub fn read_describe<'a>(mut reader: Reader<'a>) -> Result<Vec<&'a str>, Malformed> {
    let mut ids = Vec::new();
    for _ in 0..reader.array_length("transactional ids")? {
        ids.push(reader.string("transactional id")?);
    }
    reader.skip_tagged_fields("request")?;
    Ok(ids)
}

/// Writes the body of a request to describe these.
pub fn write_describe(writer: &mut Writer, ids: &[&str]) {
    writer.array_length(ids.len());
    ids.iter().for_each(|id| writer.string(id));
    writer.tagged_fields_end();
}

/// Who has a transactional id, as far as a client reads of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FoundTransaction<'a> {
    /// Why there is nothing to say, if there is not.
    pub error: ErrorCode,
    /// The id.
    pub transactional_id: &'a str,
    /// Kafka's word for what it is at.
    pub state: &'a str,
    /// The producer; -1 if there is none.
    pub producer_id: i64,
    /// The producer's epoch.
    pub producer_epoch: i16,
}

/// Reads the body of the response.
pub fn read_describe_response(mut reader: Reader<'_>) -> Result<Vec<FoundTransaction<'_>>, Malformed> {
    let _throttle_time = reader.i32("throttle time")?;
    let mut found = Vec::new();
    for _ in 0..reader.array_length("transactional ids")? {
        let error = ErrorCode::of(reader.i16("error")?);
        let transactional_id = reader.string("transactional id")?;
        let state = reader.string("state")?;
        let (_timeout, _started_at) = (reader.i32("timeout")?, reader.i64("time of the start")?);
        let (producer_id, producer_epoch) = (reader.i64("producer id")?, reader.i16("producer epoch")?);
        let _partitions = by_topic::read(&mut reader, |reader, _topic| reader.i32("partition"))?;
        reader.skip_tagged_fields("transactional id")?;
        found.push(FoundTransaction { error, transactional_id, state, producer_id, producer_epoch });
    }
    reader.skip_tagged_fields("response")?;
    Ok(found)
}

/// What there is to say of a transactional id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DescribedTransaction {
    /// Kafka's word for what it is at.
    pub state: &'static str,
    /// After how many milliseconds a transaction is aborted.
    pub timeout_ms: i32,
    /// When the transaction began, in milliseconds since 1970; -1 if there is none.
    pub started_at: i64,
    /// The producer.
    pub producer_id: i64,
    /// The producer's epoch.
    pub producer_epoch: i16,
    /// What the transaction writes to. Partitions of one topic stand together.
    pub partitions: Vec<(String, i32)>,
}

/// Writes the response: what there is to say of each id, or why there is nothing.
pub fn write_describe_response(
    writer: &mut Writer,
    described: &[(&str, Result<DescribedTransaction, ErrorCode>)],
    throttle_time_ms: i32,
) {
    writer.i32(throttle_time_ms);
    writer.array_length(described.len());
    for (id, described) in described {
        writer.error(described.as_ref().err().copied().unwrap_or(ErrorCode::None), id);
        writer.string(id);
        let known = described.as_ref().ok();
        writer.string(known.map_or("", |it| it.state));
        writer.i32(known.map_or(0, |it| it.timeout_ms));
        writer.i64(known.map_or(-1, |it| it.started_at));
        writer.i64(known.map_or(-1, |it| it.producer_id));
        writer.i16(known.map_or(-1, |it| it.producer_epoch));
        let partitions = known.map(|it| it.partitions.as_slice()).unwrap_or_default();
        by_topic::write(
            writer,
            partitions,
            |first| &first.0,
            |writer, (_, index)| {
                writer.i32(*index);
            },
        );
        writer.tagged_fields_end();
    }
    writer.tagged_fields_end();
}

/// Which transactional ids are to be listed: those that are in one of the states, of one of the producers, and whose transaction
/// is so old.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListTransactionsRequest<'a> {
    /// Kafka's words for states; any, if there is none.
    pub states: Vec<&'a str>,
    /// Ids of producers; any, if there is none.
    pub producer_ids: Vec<i64>,
    /// For how many milliseconds a transaction has to be under way; negative if that does not matter.
    pub duration_ms: i64,
}

impl<'a> ListTransactionsRequest<'a> {
    /// Reads the body of a request of `version`.
    pub fn read(mut reader: Reader<'a>, version: i16) -> Result<Self, Malformed> {
        let mut states = Vec::new();
        for _ in 0..reader.array_length("states")? {
            states.push(reader.string("state")?);
        }
        let mut producer_ids = Vec::new();
        for _ in 0..reader.array_length("producer ids")? {
            producer_ids.push(reader.i64("producer id")?);
        }
        let duration_ms = if version >= 1 { reader.i64("duration")? } else { -1 };
        reader.skip_tagged_fields("request")?;
        Ok(Self { states, producer_ids, duration_ms })
    }
}

/// A transactional id in a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedTransaction {
    /// The id.
    pub transactional_id: String,
    /// The producer.
    pub producer_id: i64,
    /// Kafka's word for what it is at.
    pub state: &'static str,
}

/// Writes the response: what was found, and the states that were asked for and don't exist.
pub fn write_list_response(
    writer: &mut Writer,
    unknown_states: &[&str],
    listed: &[ListedTransaction],
    throttle_time_ms: i32,
) {
    writer.i32(throttle_time_ms);
    writer.i16(ErrorCode::None.code());
    writer.array_length(unknown_states.len());
    unknown_states.iter().for_each(|state| writer.string(state));
    writer.array_length(listed.len());
    for transaction in listed {
        writer.string(&transaction.transactional_id);
        writer.i64(transaction.producer_id);
        writer.string(transaction.state);
        writer.tagged_fields_end();
    }
    writer.tagged_fields_end();
}

#[cfg(test)]
mod tests {
    use kafka_protocol::messages::{
        DescribeTransactionsRequest, DescribeTransactionsResponse, ListTransactionsRequest as Reference,
        ListTransactionsResponse, ProducerId, TransactionalId,
    };
    use kafka_protocol::protocol::StrBytes;

    use super::*;
    use crate::ApiKey;
    use crate::messages::reference;

    fn text(text: &'static str) -> StrBytes {
        StrBytes::from_static_str(text)
    }

    #[test]
    fn transactions_are_described() {
        let ids = vec![TransactionalId(text("mover")), TransactionalId(text("other"))];
        let request = DescribeTransactionsRequest::default().with_transactional_ids(ids);
        let read = |reader: Reader<'_>| Ok(read_describe(reader)? == ["mover", "other"]);
        reference::read_message(ApiKey::DescribeTransactions, 0, &request, read, |it| assert!(it));
        let described = DescribedTransaction {
            state: "Ongoing",
            timeout_ms: 60_000,
            started_at: 5,
            producer_id: 9,
            producer_epoch: 2,
            partitions: vec![("a".to_owned(), 1), ("a".to_owned(), 2), ("b".to_owned(), 0)],
        };
        let described = [("mover", Ok(described)), ("other", Err(ErrorCode::TransactionalIdNotFound))];
        let response: DescribeTransactionsResponse =
            reference::message(ApiKey::DescribeTransactions, 0, |writer| {
                write_describe_response(writer, &described, 0);
            });
        let [first, second] = &response.transaction_states[..] else { panic!("two") };
        assert_eq!((first.error_code, first.producer_id.0, first.topics.len()), (0, 9, 2));
        assert_eq!(
            (first.transaction_state.as_str(), &first.topics[0].partitions[..]),
            ("Ongoing", &[1, 2][..])
        );
        assert_eq!((second.error_code, second.topics.len()), (105, 0));
        let read = |reader: Reader<'_>| {
            let found = read_describe_response(reader)?;
            let told = |it: &FoundTransaction<'_>| {
                (
                    it.error,
                    it.transactional_id.to_owned(),
                    it.state.to_owned(),
                    it.producer_id,
                    it.producer_epoch,
                )
            };
            Ok(found.iter().map(told).collect::<Vec<_>>())
        };
        reference::read_message(ApiKey::DescribeTransactions, 0, &response, read, |it| {
            let none = ErrorCode::None;
            assert_eq!(it[0], (none, "mover".to_owned(), "Ongoing".to_owned(), 9, 2));
            assert_eq!(it[1].0, ErrorCode::TransactionalIdNotFound);
        });
        let written: DescribeTransactionsRequest =
            reference::message(ApiKey::DescribeTransactions, 0, |writer| {
                write_describe(writer, &["mover", "other"]);
            });
        assert_eq!(written, request);
    }

    #[test]
    fn transactions_are_listed_in_every_version() {
        for version in 0..=1 {
            let mut request = Reference::default()
                .with_state_filters(vec![text("Ongoing")])
                .with_producer_id_filters(vec![ProducerId(9)]);
            if version >= 1 {
                request = request.with_duration_filter(7);
            }
            let duration_ms = if version >= 1 { 7 } else { -1 };
            let expected =
                ListTransactionsRequest { states: vec!["Ongoing"], producer_ids: vec![9], duration_ms };
            let read = |reader: Reader<'_>| Ok(ListTransactionsRequest::read(reader, version)? == expected);
            reference::read_message(ApiKey::ListTransactions, version, &request, read, |it| assert!(it));
            let listed = [ListedTransaction {
                transactional_id: "mover".to_owned(),
                producer_id: 9,
                state: "Ongoing",
            }];
            let response: ListTransactionsResponse =
                reference::message(ApiKey::ListTransactions, version, |writer| {
                    write_list_response(writer, &["Strange"], &listed, 0);
                });
            assert_eq!(response.unknown_state_filters[0].as_str(), "Strange");
            assert_eq!(response.transaction_states[0].producer_id.0, 9);
        }
    }
}
