//! JoinGroup, 0 to 9: to become a member of a group, and to learn who leads it.

use crate::ErrorCode;
use crate::read::{Malformed, Reader};
use crate::write::Writer;

/// Who wants to be a member, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JoinGroupRequest<'a> {
    /// The group.
    pub group_id: &'a str,
    /// After how many milliseconds of silence the member is taken for gone.
    pub session_timeout_ms: i32,
    /// How many milliseconds it may take to come back when the group is made anew.
    pub rebalance_timeout_ms: i32,
    /// Who it is; empty if it is new.
    pub member_id: &'a str,
    /// A name that it keeps when it starts again.
    pub instance_id: Option<&'a str>,
    /// What kind of group it is: `consumer`.
    pub protocol_type: &'a str,
    /// The ways of assignment that it knows, those that it likes most first, each with what the leader has to know of it.
    pub protocols: Vec<(&'a str, &'a [u8])>,
}

impl<'a> JoinGroupRequest<'a> {
    /// Reads the body of a request of `version`.
    pub fn read(mut reader: Reader<'a>, version: i16) -> Result<Self, Malformed> {
        let group_id = reader.string("group")?;
        let session_timeout_ms = reader.i32("session timeout")?;
        let rebalance_timeout_ms =
            if version >= 1 { reader.i32("rebalance timeout")? } else { session_timeout_ms };
        let member_id = reader.string("member id")?;
        let instance_id = if version >= 5 { reader.nullable_string("instance id")? } else { None };
        let protocol_type = reader.string("protocol type")?;
        let mut protocols = Vec::new();
        for _ in 0..reader.array_length("protocols")? {
            let name = reader.string("protocol")?;
            let metadata = reader.nullable_bytes("protocol metadata")?.unwrap_or_default();
            reader.skip_tagged_fields("protocol")?;
            protocols.push((name, metadata));
        }
        if version >= 8 {
            reader.nullable_string("reason")?;
        }
        reader.skip_tagged_fields("request")?;
        Ok(Self {
            group_id,
            session_timeout_ms,
            rebalance_timeout_ms,
            member_id,
            instance_id,
            protocol_type,
            protocols,
        })
    }

    /// Writes the body of a request of `version`. Before version 5 no member keeps a name, and in version 0 the session's timeout
    /// is that of a rebalance, too.
    pub fn write(&self, writer: &mut Writer, version: i16) {
        writer.string(self.group_id);
        writer.i32(self.session_timeout_ms);
        if version >= 1 {
            writer.i32(self.rebalance_timeout_ms);
        }
        writer.string(self.member_id);
        if version >= 5 {
            writer.nullable_string(self.instance_id);
        }
        writer.string(self.protocol_type);
        writer.array_length(self.protocols.len());
        for (name, metadata) in &self.protocols {
            writer.string(name);
            writer.nullable_bytes(Some(metadata));
            writer.tagged_fields_end();
        }
        if version >= 8 {
            // Why: for the broker's log.
            writer.nullable_string(None);
        }
        writer.tagged_fields_end();
    }
}

/// The reply to a member when the group is complete.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JoinGroupResponse {
    /// The generation; -1 with an error.
    pub generation: i32,
    /// What kind of group it is.
    pub protocol_type: Option<String>,
    /// The way of assignment that all know.
    pub protocol: Option<String>,
    /// Who assigns.
    pub leader: String,
    /// Whether the leader need not assign, because nothing has changed.
    pub skip_assignment: bool,
    /// Who the member is.
    pub member_id: String,
    /// All members, for the leader alone.
    pub members: Vec<JoinedMember>,
}

/// A member, as the leader has to know it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JoinedMember {
    /// Who it is.
    pub member_id: String,
    /// The name that it keeps.
    pub instance_id: Option<String>,
    /// What it says of itself in the chosen way of assignment.
    pub metadata: Vec<u8>,
}

/// Writes the response to a request of `version` about this group.
pub fn write_join_response(
    writer: &mut Writer,
    version: i16,
    (group_id, error): (&str, ErrorCode),
    response: &JoinGroupResponse,
    throttle_time_ms: i32,
) {
    if version >= 2 {
        writer.i32(throttle_time_ms);
    }
    writer.error(error, group_id);
    writer.i32(response.generation);
    if version >= 7 {
        writer.nullable_string(response.protocol_type.as_deref());
        writer.nullable_string(response.protocol.as_deref());
    } else {
        writer.string(response.protocol.as_deref().unwrap_or_default());
    }
    writer.string(&response.leader);
    if version >= 9 {
        writer.bool(response.skip_assignment);
    }
    writer.string(&response.member_id);
    writer.array_length(response.members.len());
    for member in &response.members {
        writer.string(&member.member_id);
        if version >= 5 {
            writer.nullable_string(member.instance_id.as_deref());
        }
        writer.nullable_bytes(Some(&member.metadata));
        writer.tagged_fields_end();
    }
    writer.tagged_fields_end();
}

/// The same, as a member reads it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JoinGroupResult {
    /// Why it is no member; with [`ErrorCode::MemberIdRequired`] the reply says who it is to be.
    pub error: ErrorCode,
    /// The reply.
    pub response: JoinGroupResponse,
    /// How many milliseconds to wait before the next request.
    pub throttle_time_ms: i32,
}

impl JoinGroupResult {
    /// Reads the body of the response to a request of `version`.
    pub fn read(mut reader: Reader<'_>, version: i16) -> Result<Self, Malformed> {
        let throttle_time_ms = if version >= 2 { reader.i32("throttle time")? } else { 0 };
        let error = ErrorCode::of(reader.i16("error")?);
        let generation = reader.i32("generation")?;
        let protocol_type = if version >= 7 { reader.nullable_string("protocol type")? } else { None };
        let protocol = match version >= 7 {
            true => reader.nullable_string("protocol")?,
            // There is no null, and no protocol without a name.
            false => Some(reader.string("protocol")?).filter(|protocol| !protocol.is_empty()),
        };
        let leader = reader.string("leader")?.to_owned();
        let skip_assignment = version >= 9 && reader.bool("assignment")?;
        let member_id = reader.string("member id")?.to_owned();
        let mut members = Vec::new();
        for _ in 0..reader.array_length("members")? {
            members.push(JoinedMember::read(&mut reader, version >= 5)?);
        }
        reader.skip_tagged_fields("response")?;
        let response = JoinGroupResponse {
            generation,
            protocol_type: protocol_type.map(str::to_owned),
            protocol: protocol.map(str::to_owned),
            leader,
            skip_assignment,
            member_id,
            members,
        };
        Ok(Self { error, response, throttle_time_ms })
    }
}

impl JoinedMember {
    fn read(reader: &mut Reader<'_>, has_instance_id: bool) -> Result<Self, Malformed> {
        let member_id = reader.string("member id")?.to_owned();
        let instance_id = if has_instance_id { reader.nullable_string("instance id")? } else { None };
        let metadata = reader.nullable_bytes("metadata")?.unwrap_or_default().to_vec();
        reader.skip_tagged_fields("member")?;
        Ok(Self { member_id, instance_id: instance_id.map(str::to_owned), metadata })
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use kafka_protocol::messages::join_group_request::JoinGroupRequestProtocol;
    use kafka_protocol::messages::{
        GroupId, JoinGroupRequest as ReferenceJoin, JoinGroupResponse as ReferenceJoined,
    };
    use kafka_protocol::protocol::StrBytes;

    use super::*;
    use crate::ApiKey;
    use crate::messages::reference;

    const KEY: ApiKey = ApiKey::JoinGroup;

    fn text(text: &'static str) -> StrBytes {
        StrBytes::from_static_str(text)
    }

    #[test]
    fn members_join_in_every_version() {
        for version in 0..=9 {
            let protocol = JoinGroupRequestProtocol::default()
                .with_name(text("range"))
                .with_metadata(Bytes::from_static(b"m"));
            let mut request = ReferenceJoin::default()
                .with_group_id(GroupId(text("group")))
                .with_session_timeout_ms(45_000)
                .with_member_id(text("member"))
                .with_protocol_type(text("consumer"))
                .with_protocols(vec![protocol]);
            if version >= 1 {
                request = request.with_rebalance_timeout_ms(300_000);
            }
            if version >= 5 {
                request = request.with_group_instance_id(Some(text("instance")));
            }
            let read = |reader: Reader<'_>| {
                let it = JoinGroupRequest::read(reader, version)?;
                let names =
                    (it.group_id == "group", it.member_id == "member", it.protocol_type == "consumer");
                let protocols = it.protocols == [("range", &b"m"[..])];
                Ok((
                    names,
                    protocols,
                    it.instance_id == Some("instance"),
                    it.session_timeout_ms,
                    it.rebalance_timeout_ms,
                ))
            };
            reference::read_message(KEY, version, &request, read, |it| {
                let rebalance = if version >= 1 { 300_000 } else { 45_000 };
                assert_eq!(it, ((true, true, true), true, version >= 5, 45_000, rebalance));
            });
            let joined = JoinGroupResponse {
                generation: 3,
                protocol_type: (version >= 7).then(|| "consumer".to_owned()),
                protocol: Some("range".to_owned()),
                leader: "leader".to_owned(),
                skip_assignment: version >= 9,
                member_id: "member".to_owned(),
                members: vec![JoinedMember {
                    member_id: "leader".to_owned(),
                    instance_id: (version >= 5).then(|| "instance".to_owned()),
                    metadata: b"m".to_vec(),
                }],
            };
            let response: ReferenceJoined = reference::message(KEY, version, |writer| {
                write_join_response(writer, version, ("group", ErrorCode::None), &joined, 0);
            });
            assert_eq!((response.generation_id, response.leader.as_str()), (3, "leader"));
            assert_eq!(response.protocol_name.as_ref().map(|it| it.as_str()), Some("range"));
            assert_eq!((response.members.len(), &response.members[0].metadata[..]), (1, &b"m"[..]));
            let read = |reader: Reader<'_>| JoinGroupResult::read(reader, version);
            let expected = JoinGroupResult { error: ErrorCode::None, response: joined, throttle_time_ms: 0 };
            reference::read_message(KEY, version, &response, read, |it| assert_eq!(it, expected));
        }
    }

    #[test]
    fn who_is_no_member_is_told_so_in_every_version() {
        for version in 0..=9 {
            let refused = JoinGroupResponse {
                generation: -1,
                member_id: "member".to_owned(),
                ..JoinGroupResponse::default()
            };
            let body = reference::body(KEY, version, |writer| {
                write_join_response(writer, version, ("group", ErrorCode::MemberIdRequired), &refused, 5);
            });
            let throttle_time_ms = if version >= 2 { 5 } else { 0 };
            let expected =
                JoinGroupResult { error: ErrorCode::MemberIdRequired, response: refused, throttle_time_ms };
            assert_eq!(JoinGroupResult::read(reference::reader(KEY, version, &body), version), Ok(expected));
        }
    }

    #[test]
    fn requests_are_read_here_and_by_another_implementation_in_every_version() {
        for version in 0..=9 {
            let request = JoinGroupRequest {
                group_id: "group",
                session_timeout_ms: 45_000,
                rebalance_timeout_ms: if version >= 1 { 300_000 } else { 45_000 },
                member_id: "member",
                instance_id: (version >= 5).then_some("instance"),
                protocol_type: "consumer",
                protocols: vec![("range", b"m"), ("sticky", b"")],
            };
            let write = |writer: &mut Writer| request.write(writer, version);
            let read: ReferenceJoin = reference::message(KEY, version, write);
            assert_eq!((read.group_id.as_str(), read.protocols.len()), ("group", 2));
            assert_eq!(read.group_instance_id.as_ref().map(|it| it.as_str()), request.instance_id);
            let body = reference::body(KEY, version, write);
            let own = JoinGroupRequest::read(reference::reader(KEY, version, &body), version);
            assert_eq!(own, Ok(request.clone()));
        }
    }
}
