//! What operators ask of groups: DescribeGroups 0 to 5, ListGroups 0 to 5 and DeleteGroups 0 to 2.

use super::authorized_operations::AuthorizedOperations;
use crate::ErrorCode;
use crate::read::{Malformed, Reader};
use crate::write::Writer;

/// Reads which groups are to be described, and whether the client asks what it may do with them.
pub fn read_describe<'a>(mut reader: Reader<'a>, version: i16) -> Result<(Vec<&'a str>, bool), Malformed> {
    let mut groups = Vec::new();
    for _ in 0..reader.array_length("groups")? {
        groups.push(reader.string("group")?);
    }
    let asks_operations = version >= 3 && reader.bool("authorized operations")?;
    reader.skip_tagged_fields("request")?;
    Ok((groups, asks_operations))
}

/// What there is to say of a group.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DescribedGroup {
    /// Its name.
    pub group_id: String,
    /// `Stable`, `PreparingRebalance`, `CompletingRebalance`, `Empty` or `Dead`.
    pub state: &'static str,
    /// What kind of group it is.
    pub protocol_type: String,
    /// The way of assignment.
    pub protocol: String,
    /// Its members.
    pub members: Vec<DescribedMember>,
}

/// What there is to say of a member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DescribedMember {
    /// Who it is.
    pub member_id: String,
    /// The name that it keeps.
    pub instance_id: Option<String>,
    /// What the client calls itself.
    pub client_id: String,
    /// Where it is: `/` and the address.
    pub host: String,
    /// What it says of itself.
    pub metadata: Vec<u8>,
    /// Its part.
    pub assignment: Vec<u8>,
}

/// Writes the response to a request of `version`: of each group the error, what there is to say of it, and what the client may do
/// with it.
pub fn write_describe_response(
    writer: &mut Writer,
    version: i16,
    groups: &[(ErrorCode, DescribedGroup, AuthorizedOperations)],
    throttle_time_ms: i32,
) {
    if version >= 1 {
        writer.i32(throttle_time_ms);
    }
    writer.array_length(groups.len());
    for (error, group, operations) in groups {
        writer.error(*error, &group.group_id);
        writer.string(&group.group_id);
        writer.string(group.state);
        writer.string(&group.protocol_type);
        writer.string(&group.protocol);
        writer.array_length(group.members.len());
        for member in &group.members {
            writer.string(&member.member_id);
            if version >= 4 {
                writer.nullable_string(member.instance_id.as_deref());
            }
            writer.string(&member.client_id);
            writer.string(&member.host);
            writer.nullable_bytes(Some(&member.metadata));
            writer.nullable_bytes(Some(&member.assignment));
            writer.tagged_fields_end();
        }
        if version >= 3 {
            operations.write(writer);
        }
        writer.tagged_fields_end();
    }
    writer.tagged_fields_end();
}

/// Which groups are to be listed: those in one of these states and of one of these types, or all where there is none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListGroupsRequest<'a> {
    /// The states.
    pub states: Vec<&'a str>,
    /// The types.
    pub types: Vec<&'a str>,
}

impl<'a> ListGroupsRequest<'a> {
    /// Reads the body of a request of `version`.
    pub fn read(mut reader: Reader<'a>, version: i16) -> Result<Self, Malformed> {
        let mut request = Self::default();
        for (list, first) in [(&mut request.states, 4), (&mut request.types, 5)] {
            let count = if version >= first { reader.array_length("filters")? } else { 0 };
            for _ in 0..count {
                list.push(reader.string("filter")?);
            }
        }
        reader.skip_tagged_fields("request")?;
        Ok(request)
    }
}

/// A group in a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedGroup {
    /// Its name.
    pub group_id: String,
    /// What kind of group it is.
    pub protocol_type: String,
    /// Its state.
    pub state: &'static str,
    /// How its members agree: `classic` or `consumer`.
    pub group_type: &'static str,
}

/// Writes the response to a request of `version`.
pub fn write_list_response(writer: &mut Writer, version: i16, groups: &[ListedGroup], throttle_time_ms: i32) {
    if version >= 1 {
        writer.i32(throttle_time_ms);
    }
    writer.i16(ErrorCode::None.code());
    writer.array_length(groups.len());
    for group in groups {
        writer.string(&group.group_id);
        writer.string(&group.protocol_type);
        if version >= 4 {
            writer.string(group.state);
        }
        if version >= 5 {
            writer.string(group.group_type);
        }
        writer.tagged_fields_end();
    }
    writer.tagged_fields_end();
}

/// Reads which groups are to be deleted.
pub fn read_delete<'a>(mut reader: Reader<'a>) -> Result<Vec<&'a str>, Malformed> {
    let mut groups = Vec::new();
    for _ in 0..reader.array_length("groups")? {
        groups.push(reader.string("group")?);
    }
    reader.skip_tagged_fields("request")?;
    Ok(groups)
}

/// Writes what became of each.
pub fn write_delete_response(writer: &mut Writer, results: &[(&str, ErrorCode)], throttle_time_ms: i32) {
    writer.i32(throttle_time_ms);
    writer.array_length(results.len());
    for (group, error) in results {
        writer.string(group);
        writer.error(*error, group);
        writer.tagged_fields_end();
    }
    writer.tagged_fields_end();
}

#[cfg(test)]
mod tests {
    use kafka_protocol::messages::{
        DeleteGroupsRequest, DeleteGroupsResponse, DescribeGroupsRequest, DescribeGroupsResponse, GroupId,
        ListGroupsRequest as ReferenceList, ListGroupsResponse,
    };
    use kafka_protocol::protocol::StrBytes;

    use super::*;
    use crate::ApiKey;
    use crate::messages::reference;

    fn group_id() -> GroupId {
        GroupId(StrBytes::from_static_str("group"))
    }

    #[test]
    fn groups_are_described_in_every_version() {
        for version in 0..=5 {
            let request = DescribeGroupsRequest::default()
                .with_groups(vec![group_id()])
                .with_include_authorized_operations(version >= 3);
            let read =
                |reader: Reader<'_>| Ok(read_describe(reader, version)? == (vec!["group"], version >= 3));
            reference::read_message(ApiKey::DescribeGroups, version, &request, read, |it| assert!(it));
            let member = DescribedMember {
                member_id: "member".to_owned(),
                instance_id: None,
                client_id: "client".to_owned(),
                host: "/127.0.0.1".to_owned(),
                metadata: vec![1],
                assignment: vec![2],
            };
            let group = DescribedGroup {
                group_id: "group".to_owned(),
                state: "Stable",
                protocol_type: "consumer".to_owned(),
                protocol: "range".to_owned(),
                members: vec![member],
            };
            let response: DescribeGroupsResponse =
                reference::message(ApiKey::DescribeGroups, version, |writer| {
                    let described = (ErrorCode::None, group, AuthorizedOperations::READ);
                    write_describe_response(writer, version, &[described], 0);
                });
            let group = &response.groups[0];
            assert_eq!(group.authorized_operations, if version >= 3 { 8 } else { i32::MIN });
            assert_eq!(
                (group.group_state.as_str(), group.members[0].client_host.as_str()),
                ("Stable", "/127.0.0.1")
            );
            assert_eq!(group.members[0].member_assignment[..], [2]);
        }
    }

    #[test]
    fn groups_are_listed_and_deleted_in_every_version() {
        for version in 0..=5 {
            let mut request = ReferenceList::default();
            if version >= 4 {
                request = request.with_states_filter(vec![StrBytes::from_static_str("Stable")]);
            }
            let read =
                |reader: Reader<'_>| Ok(ListGroupsRequest::read(reader, version)?.states == ["Stable"]);
            reference::read_message(ApiKey::ListGroups, version, &request, read, |it| {
                assert_eq!(it, version >= 4)
            });
            let listed = [ListedGroup {
                group_id: "group".to_owned(),
                protocol_type: "consumer".to_owned(),
                state: "Stable",
                group_type: "classic",
            }];
            let response: ListGroupsResponse = reference::message(ApiKey::ListGroups, version, |writer| {
                write_list_response(writer, version, &listed, 0);
            });
            assert_eq!(response.groups[0].group_id.as_str(), "group");
        }
        for version in 0..=2 {
            let request = DeleteGroupsRequest::default().with_groups_names(vec![group_id()]);
            let read = |reader: Reader<'_>| Ok(read_delete(reader)? == ["group"]);
            reference::read_message(ApiKey::DeleteGroups, version, &request, read, |it| assert!(it));
            let response: DeleteGroupsResponse =
                reference::message(ApiKey::DeleteGroups, version, |writer| {
                    write_delete_response(writer, &[("group", ErrorCode::NonEmptyGroup)], 0);
                });
            assert_eq!(response.results[0].error_code, 68);
        }
    }
}
