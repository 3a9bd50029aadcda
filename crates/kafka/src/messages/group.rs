//! The requests of a consumer group's members: FindCoordinator 0 to 4, JoinGroup 0 to 9, SyncGroup 0 to 5, Heartbeat 0 to 4 and
//! LeaveGroup 0 to 5.

use super::metadata::Broker;
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
            writer.i16(error.code());
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
            writer.i16(error.code());
            writer.nullable_string(None);
            writer.tagged_fields_end();
        }
        writer.tagged_fields_end();
    }
}

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

/// Writes the response to a request of `version`.
pub fn write_join_response(
    writer: &mut Writer,
    version: i16,
    error: ErrorCode,
    response: &JoinGroupResponse,
    throttle_time_ms: i32,
) {
    if version >= 2 {
        writer.i32(throttle_time_ms);
    }
    writer.i16(error.code());
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

/// Writes the response to a request of `version`.
pub fn write_sync_response(
    writer: &mut Writer,
    version: i16,
    error: ErrorCode,
    response: &SyncGroupResponse,
    throttle_time_ms: i32,
) {
    if version >= 1 {
        writer.i32(throttle_time_ms);
    }
    writer.i16(error.code());
    if version >= 5 {
        writer.nullable_string(response.protocol_type.as_deref());
        writer.nullable_string(response.protocol.as_deref());
    }
    writer.nullable_bytes(Some(&response.assignment));
    writer.tagged_fields_end();
}

impl<'a> MemberRef<'a> {
    fn read(reader: &mut Reader<'a>, has_instance_id: bool) -> Result<Self, Malformed> {
        Ok(Self {
            group_id: reader.string("group")?,
            generation: reader.i32("generation")?,
            member_id: reader.string("member id")?,
            instance_id: if has_instance_id { reader.nullable_string("instance id")? } else { None },
        })
    }

    /// Reads the body of a heartbeat of `version`.
    pub fn read_heartbeat(mut reader: Reader<'a>, version: i16) -> Result<Self, Malformed> {
        let member = Self::read(&mut reader, version >= 3)?;
        reader.skip_tagged_fields("request")?;
        Ok(member)
    }
}

/// Writes the response to a heartbeat of `version`.
pub fn write_heartbeat_response(writer: &mut Writer, version: i16, error: ErrorCode, throttle_time_ms: i32) {
    if version >= 1 {
        writer.i32(throttle_time_ms);
    }
    writer.i16(error.code());
    writer.tagged_fields_end();
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
            writer.i16(errors.first().map_or(0, |error| error.code()));
            return;
        }
        writer.i16(ErrorCode::None.code());
        writer.array_length(self.members.len());
        for ((member_id, instance_id), error) in self.members.iter().zip(errors) {
            writer.string(member_id);
            writer.nullable_string(*instance_id);
            writer.i16(error.code());
            writer.tagged_fields_end();
        }
        writer.tagged_fields_end();
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use kafka_protocol::messages::join_group_request::JoinGroupRequestProtocol;
    use kafka_protocol::messages::leave_group_request::MemberIdentity;
    use kafka_protocol::messages::sync_group_request::SyncGroupRequestAssignment;
    use kafka_protocol::messages::{
        FindCoordinatorRequest as ReferenceFind, FindCoordinatorResponse, GroupId, HeartbeatRequest,
        HeartbeatResponse, JoinGroupRequest as ReferenceJoin, JoinGroupResponse as ReferenceJoined,
        LeaveGroupRequest as ReferenceLeave, LeaveGroupResponse, SyncGroupRequest as ReferenceSync,
        SyncGroupResponse as ReferenceSynced,
    };
    use kafka_protocol::protocol::StrBytes;

    use super::*;
    use crate::ApiKey;
    use crate::messages::reference;

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
            reference::read_request(ApiKey::FindCoordinator, version, &request, read, |it| {
                assert_eq!(it, (true, i8::from(version >= 1)));
            });
            let request = FindCoordinatorRequest { keys: vec!["group"], key_type: 0 };
            let response: FindCoordinatorResponse =
                reference::response(ApiKey::FindCoordinator, version, |writer| {
                    request.write_response(writer, version, Ok(&broker), 0);
                });
            let (host, port) = match version >= 4 {
                true => (&response.coordinators[0].host, response.coordinators[0].port),
                false => (&response.host, response.port),
            };
            assert_eq!((host.as_str(), port), ("localhost", 9092));
        }
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
            reference::read_request(ApiKey::JoinGroup, version, &request, read, |it| {
                let rebalance = if version >= 1 { 300_000 } else { 45_000 };
                assert_eq!(it, ((true, true, true), true, version >= 5, 45_000, rebalance));
            });
            let joined = JoinGroupResponse {
                generation: 3,
                protocol_type: Some("consumer".to_owned()),
                protocol: Some("range".to_owned()),
                leader: "leader".to_owned(),
                skip_assignment: false,
                member_id: "member".to_owned(),
                members: vec![JoinedMember {
                    member_id: "leader".to_owned(),
                    instance_id: None,
                    metadata: b"m".to_vec(),
                }],
            };
            let response: ReferenceJoined = reference::response(ApiKey::JoinGroup, version, |writer| {
                write_join_response(writer, version, ErrorCode::None, &joined, 0);
            });
            assert_eq!((response.generation_id, response.leader.as_str()), (3, "leader"));
            assert_eq!(response.protocol_name.as_ref().map(|it| it.as_str()), Some("range"));
            assert_eq!((response.members.len(), &response.members[0].metadata[..]), (1, &b"m"[..]));
        }
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
            reference::read_request(ApiKey::SyncGroup, version, &request, read, |it| {
                assert_eq!(it, (3, true, (version >= 5, version >= 5)));
            });
            let synced = SyncGroupResponse { assignment: b"part".to_vec(), ..SyncGroupResponse::default() };
            let response: ReferenceSynced = reference::response(ApiKey::SyncGroup, version, |writer| {
                write_sync_response(writer, version, ErrorCode::RebalanceInProgress, &synced, 0);
            });
            assert_eq!((response.error_code, &response.assignment[..]), (27, &b"part"[..]));
        }
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
            reference::read_request(ApiKey::Heartbeat, version, &request, read, |it| {
                assert_eq!(it, (true, 3, true, true));
            });
            let response: HeartbeatResponse = reference::response(ApiKey::Heartbeat, version, |writer| {
                write_heartbeat_response(writer, version, ErrorCode::IllegalGeneration, 0);
            });
            assert_eq!(response.error_code, 22);
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
            reference::read_request(ApiKey::LeaveGroup, version, &request, read, |it| assert!(it));
            let request = LeaveGroupRequest { group_id: "group", members: vec![("member", None)] };
            let response: LeaveGroupResponse = reference::response(ApiKey::LeaveGroup, version, |writer| {
                request.write_response(writer, version, &[ErrorCode::UnknownMemberId], 0);
            });
            let error = if version < 3 { response.error_code } else { response.members[0].error_code };
            assert_eq!(error, 25);
        }
    }
}
