//! FindCoordinator, 0 to 4: which broker keeps a group, or the transactions of a producer.

use super::metadata::{Broker, BrokerAddress};
use crate::ErrorCode;
use crate::read::{Malformed, Reader};
use crate::write::Writer;

/// Whose coordinator a client looks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FindCoordinatorRequest<'a> {
    /// The names of the groups or transactions.
    pub keys: Vec<&'a str>,
    /// What they name.
    pub key_type: i8,
}

/// A group's name is the key.
pub const GROUP_KEY: i8 = 0;

/// A transactional id is the key.
pub const TRANSACTION_KEY: i8 = 1;

impl<'a> FindCoordinatorRequest<'a> {
    /// Reads the body of a request of `version`.
    pub fn read(mut reader: Reader<'a>, version: i16) -> Result<Self, Malformed> {
        let mut keys = Vec::new();
        if version < 4 {
            keys.push(reader.string("key")?);
        }
        let key_type = if version >= 1 { reader.i8("kind of key")? } else { GROUP_KEY };
        if version >= 4 {
            for _ in 0..reader.array_length("keys")? {
                keys.push(reader.string("key")?);
            }
        }
        reader.skip_tagged_fields("request")?;
        Ok(Self { keys, key_type })
    }

    /// Writes the body of a request of `version`. There is one key before version 4, the first; and before version 1 it is a
    /// group's.
    pub fn write(&self, writer: &mut Writer, version: i16) {
        if version < 4 {
            writer.string(self.keys.first().copied().unwrap_or_default());
        }
        if version >= 1 {
            writer.i8(self.key_type);
        }
        if version >= 4 {
            writer.array_length(self.keys.len());
            self.keys.iter().for_each(|key| writer.string(key));
        }
        writer.tagged_fields_end();
    }

    /// Writes the response: this broker, or the error.
    pub fn write_response(
        &self,
        writer: &mut Writer,
        version: i16,
        found: Result<&Broker<'_>, ErrorCode>,
        throttle_time_ms: i32,
    ) {
        let error = found.err().unwrap_or(ErrorCode::None);
        let (id, host, port) = found.map_or((-1, "", -1), |it| (it.id, it.host, i32::from(it.port)));
        if version >= 1 {
            writer.i32(throttle_time_ms);
        }
        if version < 4 {
            writer.error(error, self.keys.first().copied().unwrap_or_default());
            if version >= 1 {
                writer.nullable_string(None);
            }
            writer.i32(id);
            writer.string(host);
            writer.i32(port);
            writer.tagged_fields_end();
            return;
        }
        writer.array_length(self.keys.len());
        for key in &self.keys {
            writer.string(key);
            writer.i32(id);
            writer.string(host);
            writer.i32(port);
            writer.error(error, key);
            writer.nullable_string(None);
            writer.tagged_fields_end();
        }
        writer.tagged_fields_end();
    }
}

/// Which coordinators a client has found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FindCoordinatorResponse<'a> {
    /// One for each key.
    pub coordinators: Vec<FoundCoordinator<'a>>,
    /// How many milliseconds to wait before the next request.
    pub throttle_time_ms: i32,
}

/// Whose coordinator is where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundCoordinator<'a> {
    /// Whose it is; `None` before version 4, which has one alone.
    pub key: Option<&'a str>,
    /// The broker, or why there is none, the latter also for people.
    pub broker: Result<BrokerAddress<'a>, (ErrorCode, Option<&'a str>)>,
}

impl<'a> FindCoordinatorResponse<'a> {
    /// Reads the body of the response to a request of `version`.
    pub fn read(mut reader: Reader<'a>, version: i16) -> Result<Self, Malformed> {
        let throttle_time_ms = if version >= 1 { reader.i32("throttle time")? } else { 0 };
        let mut coordinators = Vec::new();
        if version < 4 {
            let error = reader.i16("error")?;
            let message = if version >= 1 { reader.nullable_string("error message")? } else { None };
            let place = Place::read(&mut reader)?;
            coordinators.push(FoundCoordinator { key: None, broker: place.broker(error, message)? });
        } else {
            for _ in 0..reader.array_length("coordinators")? {
                let key = Some(reader.string("key")?);
                let place = Place::read(&mut reader)?;
                let error = reader.i16("error")?;
                let message = reader.nullable_string("error message")?;
                reader.skip_tagged_fields("coordinator")?;
                coordinators.push(FoundCoordinator { key, broker: place.broker(error, message)? });
            }
        }
        reader.skip_tagged_fields("response")?;
        Ok(Self { coordinators, throttle_time_ms })
    }
}

/// Where a broker is said to be, which with an error means nothing.
struct Place<'a> {
    id: i32,
    host: &'a str,
    port: i32,
}

impl<'a> Place<'a> {
    fn read(reader: &mut Reader<'a>) -> Result<Self, Malformed> {
        let id = reader.i32("coordinator")?;
        let host = reader.string("host of the coordinator")?;
        Ok(Self { id, host, port: reader.i32("port of the coordinator")? })
    }

    fn broker(
        self,
        error: i16,
        message: Option<&'a str>,
    ) -> Result<Result<BrokerAddress<'a>, (ErrorCode, Option<&'a str>)>, Malformed> {
        if let Err(error) = ErrorCode::check(error) {
            return Ok(Err((error, message)));
        }
        let port = u16::try_from(self.port).map_err(|_no_port| Malformed("port of the coordinator"))?;
        Ok(Ok(BrokerAddress { id: self.id, host: self.host, port }))
    }
}

#[cfg(test)]
mod tests {
    use kafka_protocol::messages::{
        FindCoordinatorRequest as ReferenceFind, FindCoordinatorResponse as ReferenceResponse,
    };
    use kafka_protocol::protocol::StrBytes;

    use super::*;
    use crate::ApiKey;
    use crate::messages::reference;

    const KEY: ApiKey = ApiKey::FindCoordinator;

    fn text(text: &'static str) -> StrBytes {
        StrBytes::from_static_str(text)
    }

    #[test]
    fn coordinators_are_found_in_every_version() {
        let broker = Broker { id: 0, host: "localhost", port: 9092, cluster_id: "" };
        for version in 0..=4 {
            let mut request = ReferenceFind::default();
            if version < 4 {
                request = request.with_key(text("group"));
            } else {
                request = request.with_coordinator_keys(vec![text("group")]);
            }
            if version >= 1 {
                request = request.with_key_type(1);
            }
            let read = |reader: Reader<'_>| {
                let request = FindCoordinatorRequest::read(reader, version)?;
                Ok((request.keys == ["group"], request.key_type))
            };
            reference::read_message(KEY, version, &request, read, |it| {
                assert_eq!(it, (true, i8::from(version >= 1)));
            });
            let request = FindCoordinatorRequest { keys: vec!["group"], key_type: 0 };
            let response: ReferenceResponse = reference::message(KEY, version, |writer| {
                request.write_response(writer, version, Ok(&broker), 0);
            });
            let (host, port) = match version >= 4 {
                true => (&response.coordinators[0].host, response.coordinators[0].port),
                false => (&response.host, response.port),
            };
            assert_eq!((host.as_str(), port), ("localhost", 9092));
            let read = |reader: Reader<'_>| {
                let expected = FoundCoordinator {
                    key: (version >= 4).then_some("group"),
                    broker: Ok(BrokerAddress { id: 0, host: "localhost", port: 9092 }),
                };
                let response = FindCoordinatorResponse::read(reader, version)?;
                assert_eq!(response.coordinators, [expected]);
                Ok(response.throttle_time_ms)
            };
            reference::read_message(KEY, version, &response, read, |it| assert_eq!(it, 0));
        }
    }

    #[test]
    fn a_coordinator_that_is_not_there_is_an_error_in_every_version() {
        for version in 0..=4 {
            let request = FindCoordinatorRequest { keys: vec!["group"], key_type: GROUP_KEY };
            let response: ReferenceResponse = reference::message(KEY, version, |writer| {
                request.write_response(writer, version, Err(ErrorCode::CoordinatorNotAvailable), 7);
            });
            let read = |reader: Reader<'_>| {
                let response = FindCoordinatorResponse::read(reader, version)?;
                assert_eq!(
                    response.coordinators[0].broker,
                    Err((ErrorCode::CoordinatorNotAvailable, None)),
                    "{version}"
                );
                Ok(response.throttle_time_ms)
            };
            reference::read_message(KEY, version, &response, read, |it| {
                assert_eq!(it, if version >= 1 { 7 } else { 0 });
            });
        }
    }

    #[test]
    fn requests_are_read_here_and_by_another_implementation_in_every_version() {
        for version in 0..=4 {
            let request = FindCoordinatorRequest {
                keys: if version >= 4 { vec!["mover", "other"] } else { vec!["mover"] },
                key_type: if version >= 1 { TRANSACTION_KEY } else { GROUP_KEY },
            };
            let write = |writer: &mut Writer| request.write(writer, version);
            let read: ReferenceFind = reference::message(KEY, version, write);
            let keys: Vec<_> = match version >= 4 {
                true => read.coordinator_keys.iter().map(|key| key.as_str()).collect(),
                false => vec![read.key.as_str()],
            };
            assert_eq!((keys, read.key_type), (request.keys.clone(), request.key_type));
            let body = reference::body(KEY, version, write);
            let own = FindCoordinatorRequest::read(reference::reader(KEY, version, &body), version);
            assert_eq!(own, Ok(request.clone()));
        }
    }
}
