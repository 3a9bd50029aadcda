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
}

/// Writes the response: id and epoch, or why there are none.
pub fn write_response(writer: &mut Writer, result: Result<(i64, i16), ErrorCode>, throttle_time_ms: i32) {
    let (id, epoch) = result.unwrap_or((-1, -1));
    writer.i32(throttle_time_ms);
    writer.i16(result.err().map_or(0, ErrorCode::code));
    writer.i64(id);
    writer.i16(epoch);
    writer.tagged_fields_end();
}

#[cfg(test)]
mod tests {
    use kafka_protocol::messages::{InitProducerIdRequest as Reference, InitProducerIdResponse};

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
            reference::read_request(ApiKey::InitProducerId, version, &request, read, |it| {
                assert_eq!(it, if version >= 3 { (true, 60_000, 9, 2) } else { (true, 60_000, -1, -1) });
            });
            let response: InitProducerIdResponse =
                reference::response(ApiKey::InitProducerId, version, |writer| {
                    write_response(writer, Ok((7, 1)), 0);
                });
            assert_eq!((response.producer_id.0, response.producer_epoch, response.error_code), (7, 1, 0));
        }
    }
}
