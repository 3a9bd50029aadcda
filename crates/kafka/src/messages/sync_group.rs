//! SyncGroup, 0 to 5: the leader of a group brings what each member is to have, and each member fetches its own.

use super::group::MemberRef;
use crate::ErrorCode;
use crate::read::{Malformed, Reader};
use crate::write::Writer;

/// What a member brings or fetches when the group is complete.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SyncGroupRequest<'a> {
    /// Who asks.
    pub member: MemberRef<'a>,
    /// The kind of group that it believes in, since version 5.
    pub protocol_type: Option<&'a str>,
    /// The way of assignment, likewise.
    pub protocol: Option<&'a str>,
    /// What the leader gives to each member.
    pub assignments: Vec<(&'a str, &'a [u8])>,
}

impl<'a> SyncGroupRequest<'a> {
    /// Reads the body of a request of `version`.
    pub fn read(mut reader: Reader<'a>, version: i16) -> Result<Self, Malformed> {
        let member = MemberRef::read(&mut reader, version >= 3)?;
        let [mut protocol_type, mut protocol] = [None; 2];
        if version >= 5 {
            protocol_type = reader.nullable_string("protocol type")?;
            protocol = reader.nullable_string("protocol")?;
        }
        let mut assignments = Vec::new();
        for _ in 0..reader.array_length("assignments")? {
            let member = reader.string("member id")?;
            let assignment = reader.nullable_bytes("assignment")?.unwrap_or_default();
            reader.skip_tagged_fields("assignment")?;
            assignments.push((member, assignment));
        }
        reader.skip_tagged_fields("request")?;
        Ok(Self { member, protocol_type, protocol, assignments })
    }

    /// Writes the body of a request of `version`.
    pub fn write(&self, writer: &mut Writer, version: i16) {
        self.member.write(writer, version >= 3);
        if version >= 5 {
            writer.nullable_string(self.protocol_type);
            writer.nullable_string(self.protocol);
        }
        writer.array_length(self.assignments.len());
        for (member, assignment) in &self.assignments {
            writer.string(member);
            writer.nullable_bytes(Some(assignment));
            writer.tagged_fields_end();
        }
        writer.tagged_fields_end();
    }
}

/// What a member gets: its part, with the kind of group and the way of assignment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SyncGroupResponse {
    /// What kind of group it is.
    pub protocol_type: Option<String>,
    /// The way of assignment.
    pub protocol: Option<String>,
    /// The member's part.
    pub assignment: Vec<u8>,
}

/// Writes the response to a request of `version` about this group.
pub fn write_sync_response(
    writer: &mut Writer,
    version: i16,
    (group_id, error): (&str, ErrorCode),
    response: &SyncGroupResponse,
    throttle_time_ms: i32,
) {
    if version >= 1 {
        writer.i32(throttle_time_ms);
    }
    writer.error(error, group_id);
    if version >= 5 {
        writer.nullable_string(response.protocol_type.as_deref());
        writer.nullable_string(response.protocol.as_deref());
    }
    writer.nullable_bytes(Some(&response.assignment));
    writer.tagged_fields_end();
}

/// The same, as a member reads it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SyncGroupResult {
    /// Why it has no part.
    pub error: ErrorCode,
    /// The reply.
    pub response: SyncGroupResponse,
    /// How many milliseconds to wait before the next request.
    pub throttle_time_ms: i32,
}

impl SyncGroupResult {
    /// Reads the body of the response to a request of `version`.
    pub fn read(mut reader: Reader<'_>, version: i16) -> Result<Self, Malformed> {
        let throttle_time_ms = if version >= 1 { reader.i32("throttle time")? } else { 0 };
        let error = ErrorCode::of(reader.i16("error")?);
        let [mut protocol_type, mut protocol] = [None; 2];
        if version >= 5 {
            protocol_type = reader.nullable_string("protocol type")?;
            protocol = reader.nullable_string("protocol")?;
        }
        let assignment = reader.nullable_bytes("assignment")?.unwrap_or_default().to_vec();
        reader.skip_tagged_fields("response")?;
        let response = SyncGroupResponse {
            protocol_type: protocol_type.map(str::to_owned),
            protocol: protocol.map(str::to_owned),
            assignment,
        };
        Ok(Self { error, response, throttle_time_ms })
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use kafka_protocol::messages::sync_group_request::SyncGroupRequestAssignment;
    use kafka_protocol::messages::{
        GroupId, SyncGroupRequest as ReferenceSync, SyncGroupResponse as ReferenceSynced,
    };
    use kafka_protocol::protocol::StrBytes;

    use super::*;
    use crate::ApiKey;
    use crate::messages::reference;

    const KEY: ApiKey = ApiKey::SyncGroup;

    fn text(text: &'static str) -> StrBytes {
        StrBytes::from_static_str(text)
    }

    #[test]
    fn members_get_their_part_in_every_version() {
        for version in 0..=5 {
            let assignment = SyncGroupRequestAssignment::default()
                .with_member_id(text("member"))
                .with_assignment(Bytes::from_static(b"part"));
            let mut request = ReferenceSync::default()
                .with_group_id(GroupId(text("group")))
                .with_generation_id(3)
                .with_member_id(text("member"))
                .with_assignments(vec![assignment]);
            if version >= 5 {
                request = request
                    .with_protocol_type(Some(text("consumer")))
                    .with_protocol_name(Some(text("range")));
            }
            let read = |reader: Reader<'_>| {
                let it = SyncGroupRequest::read(reader, version)?;
                let protocol = (it.protocol_type == Some("consumer"), it.protocol == Some("range"));
                Ok((it.member.generation, it.assignments == [("member", &b"part"[..])], protocol))
            };
            reference::read_message(KEY, version, &request, read, |it| {
                assert_eq!(it, (3, true, (version >= 5, version >= 5)));
            });
            let kind = |text: &str| (version >= 5).then(|| text.to_owned());
            let synced = SyncGroupResponse {
                protocol_type: kind("consumer"),
                protocol: kind("range"),
                assignment: b"part".to_vec(),
            };
            let response: ReferenceSynced = reference::message(KEY, version, |writer| {
                write_sync_response(writer, version, ("group", ErrorCode::RebalanceInProgress), &synced, 0);
            });
            assert_eq!((response.error_code, &response.assignment[..]), (27, &b"part"[..]));
            let read = |reader: Reader<'_>| SyncGroupResult::read(reader, version);
            let expected = SyncGroupResult {
                error: ErrorCode::RebalanceInProgress,
                response: synced,
                throttle_time_ms: 0,
            };
            reference::read_message(KEY, version, &response, read, |it| assert_eq!(it, expected));
        }
    }

    #[test]
    fn requests_are_read_here_and_by_another_implementation_in_every_version() {
        for version in 0..=5 {
            let request = SyncGroupRequest {
                member: MemberRef {
                    group_id: "group",
                    generation: 3,
                    member_id: "leader",
                    instance_id: (version >= 3).then_some("instance"),
                },
                protocol_type: (version >= 5).then_some("consumer"),
                protocol: (version >= 5).then_some("range"),
                assignments: vec![("leader", b"part"), ("member", b"")],
            };
            let write = |writer: &mut Writer| request.write(writer, version);
            let read: ReferenceSync = reference::message(KEY, version, write);
            assert_eq!((read.generation_id, read.member_id.as_str()), (3, "leader"));
            assert_eq!(&read.assignments[0].assignment[..], b"part");
            let body = reference::body(KEY, version, write);
            let own = SyncGroupRequest::read(reference::reader(KEY, version, &body), version);
            assert_eq!(own, Ok(request.clone()));
        }
    }
}
