//! InitProducerId, 0 to 4: who a producer is that numbers its records.

use crate::ErrorCode;
use crate::read::{Malformed, Reader};
use crate::write::Writer;

/// What a producer asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InitProducerIdRequest<'a> {
    /// Its transactions, if it has any.
    pub transactional_id: Option<&'a str>,
    /// After how many milliseconds they are aborted.
    pub transaction_timeout_ms: i32,
    /// Who it was; -1 if it was no one.
    pub producer_id: i64,
    /// Its epoch; -1 likewise.
    pub producer_epoch: i16,
}

impl<'a> InitProducerIdRequest<'a> {
    /// Reads the body of a request of `version`.
    pub fn read(mut reader: Reader<'a>, version: i16) -> Result<Self, Malformed> {
        let transactional_id = reader.nullable_string("transactional id")?;
        let transaction_timeout_ms = reader.i32("transaction timeout")?;
        let (producer_id, producer_epoch) = match version >= 3 {
            true => (reader.i64("producer id")?, reader.i16("producer epoch")?),
            false => (-1, -1),
        };
        reader.skip_tagged_fields("request")?;
        Ok(Self { transactional_id, transaction_timeout_ms, producer_id, producer_epoch })
    }

    /// Writes the body of a request of `version`. Who it was is said since version 3.
    pub fn write(&self, writer: &mut Writer, version: i16) {
        writer.nullable_string(self.transactional_id);
        writer.i32(self.transaction_timeout_ms);
        if version >= 3 {
            writer.i64(self.producer_id);
            writer.i16(self.producer_epoch);
        }
        writer.tagged_fields_end();
    }
}

/// What a producer gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InitProducerIdResponse {
    /// Id and epoch, or why there are none.
    pub producer: Result<(i64, i16), ErrorCode>,
    /// How many milliseconds to wait before the next request.
    pub throttle_time_ms: i32,
}

impl InitProducerIdResponse {
    /// Reads the body of a response, which is the same in every version.
    pub fn read(mut reader: Reader<'_>) -> Result<Self, Malformed> {
        let throttle_time_ms = reader.i32("throttle time")?;
        let error = ErrorCode::check(reader.i16("error")?);
        let producer = (reader.i64("producer id")?, reader.i16("producer epoch")?);
        reader.skip_tagged_fields("response")?;
        Ok(Self { producer: error.map(|()| producer), throttle_time_ms })
    }
}

/// Writes the response for a producer with this transactional id, if it has one: id and epoch, or why there are none.
pub fn write_response(
    writer: &mut Writer,
    transactional_id: Option<&str>,
    result: Result<(i64, i16), ErrorCode>,
    throttle_time_ms: i32,
) {
    let (id, epoch) = result.unwrap_or((-1, -1));
    writer.i32(throttle_time_ms);
    writer.error(result.err().unwrap_or(ErrorCode::None), transactional_id.unwrap_or_default());
    writer.i64(id);
    writer.i16(epoch);
    writer.tagged_fields_end();
}

#[cfg(test)]
mod tests {
    use kafka_protocol::messages::{
        InitProducerIdRequest as Reference, InitProducerIdResponse as ReferenceResponse,
    };

    use super::*;
    use crate::ApiKey;
    use crate::messages::reference;

    #[test]
    fn another_implementation_reads_and_writes_the_same_in_every_version() {
        for version in 0..=4 {
            let mut request =
                Reference::default().with_transactional_id(None).with_transaction_timeout_ms(60_000);
            if version >= 3 {
                request = request.with_producer_id(9.into()).with_producer_epoch(2);
            }
            let read = |reader: Reader<'_>| {
                let it = InitProducerIdRequest::read(reader, version)?;
                Ok((
                    it.transactional_id.is_none(),
                    it.transaction_timeout_ms,
                    it.producer_id,
                    it.producer_epoch,
                ))
            };
            reference::read_message(ApiKey::InitProducerId, version, &request, read, |it| {
                assert_eq!(it, if version >= 3 { (true, 60_000, 9, 2) } else { (true, 60_000, -1, -1) });
            });
            for result in [Ok((7, 1)), Err(ErrorCode::ConcurrentTransactions)] {
                let response: ReferenceResponse =
                    reference::message(ApiKey::InitProducerId, version, |writer| {
                        write_response(writer, None, result, 5);
                    });
                let (id, epoch) = result.unwrap_or((-1, -1));
                assert_eq!((response.producer_id.0, response.producer_epoch), (id, epoch));
                assert_eq!(response.error_code, result.err().map_or(0, ErrorCode::code));
                let expected = InitProducerIdResponse { producer: result, throttle_time_ms: 5 };
                let read = InitProducerIdResponse::read;
                reference::read_message(ApiKey::InitProducerId, version, &response, read, |it| {
                    assert_eq!(it, expected);
                });
            }
        }
    }

    #[test]
    fn requests_are_read_here_and_by_another_implementation_in_every_version() {
        for version in 0..=4 {
            let (producer_id, producer_epoch) = if version >= 3 { (9, 2) } else { (-1, -1) };
            let request = InitProducerIdRequest {
                transactional_id: Some("mover"),
                transaction_timeout_ms: 60_000,
                producer_id,
                producer_epoch,
            };
            let write = |writer: &mut Writer| request.write(writer, version);
            let read: Reference = reference::message(ApiKey::InitProducerId, version, write);
            assert_eq!(read.transactional_id.as_ref().map(|id| id.as_str()), Some("mover"));
            assert_eq!((read.transaction_timeout_ms, read.producer_id.0), (60_000, producer_id));
            let body = reference::body(ApiKey::InitProducerId, version, write);
            let reader = reference::reader(ApiKey::InitProducerId, version, &body);
            assert_eq!(InitProducerIdRequest::read(reader, version), Ok(request));
        }
    }
}
