//! The members of a group: Heartbeat 0 to 4, by which one shows that it is there, and LeaveGroup 0 to 5.

use super::outcome::Outcome;
use crate::ErrorCode;
use crate::read::{Malformed, Reader};
use crate::write::Writer;

/// Which member asks, in which generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemberRef<'a> {
    /// The group.
    pub group_id: &'a str,
    /// The generation that the member believes in.
    pub generation: i32,
    /// Who it is.
    pub member_id: &'a str,
    /// The name that it keeps.
    pub instance_id: Option<&'a str>,
}

impl<'a> MemberRef<'a> {
    pub(super) fn read(reader: &mut Reader<'a>, has_instance_id: bool) -> Result<Self, Malformed> {
        Ok(Self {
            group_id: reader.string("group")?,
            generation: reader.i32("generation")?,
            member_id: reader.string("member id")?,
            instance_id: if has_instance_id { reader.nullable_string("instance id")? } else { None },
        })
    }

    pub(super) fn write(&self, writer: &mut Writer, has_instance_id: bool) {
        writer.string(self.group_id);
        writer.i32(self.generation);
        writer.string(self.member_id);
        if has_instance_id {
            writer.nullable_string(self.instance_id);
        }
    }

    /// Writes the body of a heartbeat of `version`.
    pub fn write_heartbeat(&self, writer: &mut Writer, version: i16) {
        self.write(writer, version >= 3);
        writer.tagged_fields_end();
    }

    /// Reads the body of a heartbeat of `version`.
    pub fn read_heartbeat(mut reader: Reader<'a>, version: i16) -> Result<Self, Malformed> {
        let member = Self::read(&mut reader, version >= 3)?;
        reader.skip_tagged_fields("request")?;
        Ok(member)
    }
}

/// Writes the response to a heartbeat of `version` in this group.
pub fn write_heartbeat_response(
    writer: &mut Writer,
    version: i16,
    (group_id, error): (&str, ErrorCode),
    throttle_time_ms: i32,
) {
    if version >= 1 {
        writer.i32(throttle_time_ms);
    }
    writer.error(error, group_id);
    writer.tagged_fields_end();
}

/// Reads the body of the response to a heartbeat of `version`.
pub fn read_heartbeat_response(mut reader: Reader<'_>, version: i16) -> Result<Outcome, Malformed> {
    let throttle_time_ms = if version >= 1 { reader.i32("throttle time")? } else { 0 };
    let error = ErrorCode::of(reader.i16("error")?);
    reader.skip_tagged_fields("response")?;
    Ok(Outcome { error, throttle_time_ms })
}

/// Who leaves a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaveGroupRequest<'a> {
    /// The group.
    pub group_id: &'a str,
    /// Who leaves, by member id, and by the name that it keeps, if it has one.
    pub members: Vec<(&'a str, Option<&'a str>)>,
}

impl<'a> LeaveGroupRequest<'a> {
    /// Reads the body of a request of `version`.
    pub fn read(mut reader: Reader<'a>, version: i16) -> Result<Self, Malformed> {
        let group_id = reader.string("group")?;
        let mut members = Vec::new();
        if version < 3 {
            members.push((reader.string("member id")?, None));
        } else {
            for _ in 0..reader.array_length("members")? {
                let member = (reader.string("member id")?, reader.nullable_string("instance id")?);
                if version >= 5 {
                    reader.nullable_string("reason")?;
                }
                reader.skip_tagged_fields("member")?;
                members.push(member);
            }
        }
        reader.skip_tagged_fields("request")?;
        Ok(Self { group_id, members })
    }

    /// Writes the body of a request of `version`. Before version 3 there is one member, the first, by its id.
    pub fn write(&self, writer: &mut Writer, version: i16) {
        writer.string(self.group_id);
        if version < 3 {
            writer.string(self.members.first().map_or("", |(member_id, _)| member_id));
        } else {
            writer.array_length(self.members.len());
            for (member_id, instance_id) in &self.members {
                writer.string(member_id);
                writer.nullable_string(*instance_id);
                if version >= 5 {
                    // Why: for the broker's log.
                    writer.nullable_string(None);
                }
                writer.tagged_fields_end();
            }
        }
        writer.tagged_fields_end();
    }

    /// Writes the response: what became of each.
    pub fn write_response(
        &self,
        writer: &mut Writer,
        version: i16,
        errors: &[ErrorCode],
        throttle_time_ms: i32,
    ) {
        if version >= 1 {
            writer.i32(throttle_time_ms);
        }
        if version < 3 {
            writer.error(errors.first().copied().unwrap_or(ErrorCode::None), self.group_id);
            return;
        }
        writer.i16(ErrorCode::None.code());
        writer.array_length(self.members.len());
        for ((member_id, instance_id), error) in self.members.iter().zip(errors) {
            writer.string(member_id);
            writer.nullable_string(*instance_id);
            writer.error(*error, self.group_id);
            writer.tagged_fields_end();
        }
        writer.tagged_fields_end();
    }
}

/// What became of those who leave.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaveGroupResponse<'a> {
    /// The error of the request as a whole, and of its one member before version 3.
    pub error: ErrorCode,
    /// By member id, and by the name that it keeps; none before version 3.
    pub members: Vec<(&'a str, Option<&'a str>, ErrorCode)>,
    /// How many milliseconds to wait before the next request.
    pub throttle_time_ms: i32,
}

impl<'a> LeaveGroupResponse<'a> {
    /// Reads the body of the response to a request of `version`.
    pub fn read(mut reader: Reader<'a>, version: i16) -> Result<Self, Malformed> {
        let throttle_time_ms = if version >= 1 { reader.i32("throttle time")? } else { 0 };
        let error = ErrorCode::of(reader.i16("error")?);
        let mut members = Vec::new();
        let count = if version >= 3 { reader.array_length("members")? } else { 0 };
        for _ in 0..count {
            let member = (reader.string("member id")?, reader.nullable_string("instance id")?);
            let error = ErrorCode::of(reader.i16("error of a member")?);
            reader.skip_tagged_fields("member")?;
            members.push((member.0, member.1, error));
        }
        reader.skip_tagged_fields("response")?;
        Ok(Self { error, members, throttle_time_ms })
    }
}

#[cfg(test)]
mod tests {
    use kafka_protocol::messages::leave_group_request::MemberIdentity;
    use kafka_protocol::messages::{
        GroupId, HeartbeatRequest, HeartbeatResponse, LeaveGroupRequest as ReferenceLeave,
        LeaveGroupResponse as ReferenceLeft,
    };
    use kafka_protocol::protocol::StrBytes;

    use super::*;
    use crate::ApiKey;
    use crate::messages::reference;

    fn text(text: &'static str) -> StrBytes {
        StrBytes::from_static_str(text)
    }

    #[test]
    fn members_show_that_they_are_there_and_leave_in_every_version() {
        for version in 0..=4 {
            let request = HeartbeatRequest::default()
                .with_group_id(GroupId(text("group")))
                .with_generation_id(3)
                .with_member_id(text("member"));
            let read = |reader: Reader<'_>| {
                let it = MemberRef::read_heartbeat(reader, version)?;
                Ok((
                    it.group_id == "group",
                    it.generation,
                    it.member_id == "member",
                    it.instance_id.is_none(),
                ))
            };
            reference::read_message(ApiKey::Heartbeat, version, &request, read, |it| {
                assert_eq!(it, (true, 3, true, true));
            });
            let response: HeartbeatResponse = reference::message(ApiKey::Heartbeat, version, |writer| {
                write_heartbeat_response(writer, version, ("group", ErrorCode::IllegalGeneration), 9);
            });
            assert_eq!(response.error_code, 22);
            let read = |reader: Reader<'_>| read_heartbeat_response(reader, version);
            reference::read_message(ApiKey::Heartbeat, version, &response, read, |it| {
                let throttle_time_ms = if version >= 1 { 9 } else { 0 };
                assert_eq!(it, Outcome { error: ErrorCode::IllegalGeneration, throttle_time_ms });
            });
            let member = MemberRef {
                group_id: "group",
                generation: 3,
                member_id: "member",
                instance_id: (version >= 3).then_some("instance"),
            };
            let write = |writer: &mut Writer| member.write_heartbeat(writer, version);
            let read: HeartbeatRequest = reference::message(ApiKey::Heartbeat, version, write);
            assert_eq!((read.generation_id, read.member_id.as_str()), (3, "member"));
            let body = reference::body(ApiKey::Heartbeat, version, write);
            let reader = reference::reader(ApiKey::Heartbeat, version, &body);
            assert_eq!(MemberRef::read_heartbeat(reader, version), Ok(member));
        }
        for version in 0..=5 {
            let mut request = ReferenceLeave::default().with_group_id(GroupId(text("group")));
            request = match version < 3 {
                true => request.with_member_id(text("member")),
                false => request.with_members(vec![MemberIdentity::default().with_member_id(text("member"))]),
            };
            let read = |reader: Reader<'_>| {
                Ok(LeaveGroupRequest::read(reader, version)?.members == [("member", None)])
            };
            reference::read_message(ApiKey::LeaveGroup, version, &request, read, |it| assert!(it));
            let request = LeaveGroupRequest { group_id: "group", members: vec![("member", None)] };
            let response: ReferenceLeft = reference::message(ApiKey::LeaveGroup, version, |writer| {
                request.write_response(writer, version, &[ErrorCode::UnknownMemberId], 0);
            });
            let error = if version < 3 { response.error_code } else { response.members[0].error_code };
            assert_eq!(error, 25);
            let read = |reader: Reader<'_>| {
                let response = LeaveGroupResponse::read(reader, version)?;
                match version >= 3 {
                    true => {
                        assert_eq!(response.members, [("member", None, ErrorCode::UnknownMemberId)]);
                        assert_eq!(response.error, ErrorCode::None);
                    }
                    false => assert_eq!(response.error, ErrorCode::UnknownMemberId),
                }
                Ok(response.throttle_time_ms)
            };
            reference::read_message(ApiKey::LeaveGroup, version, &response, read, |it| assert_eq!(it, 0));

            let mut request = LeaveGroupRequest { group_id: "group", members: vec![("member", None)] };
            if version >= 3 {
                request.members.push(("", Some("instance")));
            }
            let write = |writer: &mut Writer| request.write(writer, version);
            let read: ReferenceLeave = reference::message(ApiKey::LeaveGroup, version, write);
            assert_eq!(read.members.len(), if version >= 3 { 2 } else { 0 });
            let body = reference::body(ApiKey::LeaveGroup, version, write);
            let reader = reference::reader(ApiKey::LeaveGroup, version, &body);
            assert_eq!(LeaveGroupRequest::read(reader, version), Ok(request.clone()));
        }
    }
}
