//! DescribeAcls, CreateAcls and DeleteAcls 0 to 3, DescribeClientQuotas 0 and 1, and DescribeUserScramCredentials 0. There are neither
//! ACLs nor quotas nor passwords of users here: keys have rights. Before version 1 of ACLs there are no patterns of names.

use crate::ErrorCode;
use crate::read::{Malformed, Reader};
use crate::write::Writer;

/// Reads the body of a DescribeAcls of `version`. What it asks for makes no difference.
pub fn read_describe_acls(mut reader: Reader<'_>, version: i16) -> Result<(), Malformed> {
    reader.i8("kind of resource")?;
    reader.nullable_string("resource")?;
    read_pattern(&mut reader, version)?;
    reader.nullable_string("principal")?;
    reader.nullable_string("host")?;
    reader.i8("operation")?;
    reader.i8("permission")?;
    reader.skip_tagged_fields("request")
}

/// Writes the response to a DescribeAcls of any version.
pub fn write_describe_acls_response(
    writer: &mut Writer,
    error: ErrorCode,
    message: &str,
    throttle_time_ms: i32,
) {
    writer.i32(throttle_time_ms);
    writer.error(error, "");
    writer.nullable_string(Some(message));
    writer.array_length(0);
    writer.tagged_fields_end();
}

/// Reads the body of a CreateAcls of `version`, and returns the number of its ACLs. They are all answered alike.
pub fn read_create_acls(mut reader: Reader<'_>, version: i16) -> Result<usize, Malformed> {
    let count = reader.array_length("ACLs")?;
    for _ in 0..count {
        reader.i8("kind of resource")?;
        reader.string("resource")?;
        read_pattern(&mut reader, version)?;
        reader.string("principal")?;
        reader.string("host")?;
        reader.i8("operation")?;
        reader.i8("permission")?;
        reader.skip_tagged_fields("ACL")?;
    }
    reader.skip_tagged_fields("request")?;
    Ok(count)
}

/// Writes the response to a CreateAcls of any version with so many ACLs: the same error for each.
pub fn write_create_acls_response(
    writer: &mut Writer,
    count: usize,
    error: ErrorCode,
    message: &str,
    throttle_time_ms: i32,
) {
    writer.i32(throttle_time_ms);
    writer.array_length(count);
    for _ in 0..count {
        writer.error(error, "");
        writer.nullable_string(Some(message));
        writer.tagged_fields_end();
    }
    writer.tagged_fields_end();
}

/// Reads the body of a DeleteAcls of `version`, and returns the number of its filters. They are all answered alike.
pub fn read_delete_acls(mut reader: Reader<'_>, version: i16) -> Result<usize, Malformed> {
    let count = reader.array_length("filters")?;
    for _ in 0..count {
        reader.i8("kind of resource")?;
        reader.nullable_string("resource")?;
        read_pattern(&mut reader, version)?;
        reader.nullable_string("principal")?;
        reader.nullable_string("host")?;
        reader.i8("operation")?;
        reader.i8("permission")?;
        reader.skip_tagged_fields("filter")?;
    }
    reader.skip_tagged_fields("request")?;
    Ok(count)
}

/// Writes the response to a DeleteAcls of any version with so many filters: the same error for each, and no ACL that matched.
pub fn write_delete_acls_response(
    writer: &mut Writer,
    count: usize,
    error: ErrorCode,
    message: &str,
    throttle_time_ms: i32,
) {
    writer.i32(throttle_time_ms);
    writer.array_length(count);
    for _ in 0..count {
        writer.error(error, "");
        writer.nullable_string(Some(message));
        writer.array_length(0);
        writer.tagged_fields_end();
    }
    writer.tagged_fields_end();
}

fn read_pattern(reader: &mut Reader<'_>, version: i16) -> Result<(), Malformed> {
    if version >= 1 {
        reader.i8("kind of pattern")?;
    }
    Ok(())
}

/// Reads the body of a DescribeUserScramCredentials: the users, or all of them if it names none.
pub fn read_describe_scram_credentials<'a>(mut reader: Reader<'a>) -> Result<Vec<&'a str>, Malformed> {
    let mut users = Vec::new();
    for _ in 0..reader.nullable_array("users")?.unwrap_or(0) {
        users.push(reader.string("user")?);
        reader.skip_tagged_fields("user")?;
    }
    reader.skip_tagged_fields("request")?;
    Ok(users)
}

/// Writes the response to a DescribeUserScramCredentials: each user that is named has none.
pub fn write_describe_scram_credentials_response(writer: &mut Writer, users: &[&str], throttle_time_ms: i32) {
    writer.i32(throttle_time_ms);
    writer.error(ErrorCode::None, "");
    writer.nullable_string(None);
    writer.array_length(users.len());
    for user in users {
        writer.string(user);
        writer.error(ErrorCode::ResourceNotFound, user);
        writer.nullable_string(Some("Attempt to describe a user credential that does not exist."));
        writer.array_length(0);
        writer.tagged_fields_end();
    }
    writer.tagged_fields_end();
}

/// Reads the body of a DescribeClientQuotas of any version. What it asks for makes no difference.
pub fn read_describe_client_quotas(mut reader: Reader<'_>) -> Result<(), Malformed> {
    for _ in 0..reader.array_length("components")? {
        reader.string("kind of entity")?;
        reader.i8("kind of match")?;
        reader.nullable_string("match")?;
        reader.skip_tagged_fields("component")?;
    }
    reader.bool("strictness")?;
    reader.skip_tagged_fields("request")
}

/// Writes the response to a DescribeClientQuotas of any version: there are none.
pub fn write_describe_client_quotas_response(writer: &mut Writer, throttle_time_ms: i32) {
    writer.i32(throttle_time_ms);
    writer.i16(ErrorCode::None.code());
    writer.nullable_string(None);
    // Never null, which clients written in Java fall over.
    writer.array_length(0);
    writer.tagged_fields_end();
}

#[cfg(test)]
mod tests {
    use kafka_protocol::messages::create_acls_request::AclCreation;
    use kafka_protocol::messages::delete_acls_request::DeleteAclsFilter;
    use kafka_protocol::messages::describe_client_quotas_request::ComponentData;
    use kafka_protocol::messages::describe_user_scram_credentials_request::UserName;
    use kafka_protocol::messages::{
        CreateAclsRequest, CreateAclsResponse, DeleteAclsRequest, DeleteAclsResponse, DescribeAclsRequest,
        DescribeAclsResponse, DescribeClientQuotasRequest, DescribeClientQuotasResponse,
        DescribeUserScramCredentialsRequest, DescribeUserScramCredentialsResponse,
    };
    use kafka_protocol::protocol::StrBytes;

    use super::*;
    use crate::ApiKey;
    use crate::messages::reference;

    #[test]
    fn another_implementation_reads_and_writes_the_same_in_every_version() {
        for version in 1..=3 {
            let request = DescribeAclsRequest::default();
            let key = ApiKey::DescribeAcls;
            let read = |reader: Reader<'_>| read_describe_acls(reader, version);
            reference::read_message(key, version, &request, read, |()| {});
            let response: DescribeAclsResponse = reference::message(key, version, |writer| {
                write_describe_acls_response(writer, ErrorCode::SecurityDisabled, "none", 0);
            });
            assert_eq!((response.error_code, response.error_message.as_deref()), (54, Some("none")));
        }
        for version in 1..=3 {
            let name = StrBytes::from_static_str("name");
            let creation = AclCreation::default()
                .with_resource_name(name.clone())
                .with_principal(name.clone())
                .with_host(name.clone());
            let request = CreateAclsRequest::default().with_creations(vec![creation; 2]);
            let (key, error) = (ApiKey::CreateAcls, ErrorCode::SecurityDisabled);
            let read = |reader: Reader<'_>| read_create_acls(reader, version);
            reference::read_message(key, version, &request, read, |count| assert_eq!(count, 2));
            let response: CreateAclsResponse = reference::message(key, version, |writer| {
                write_create_acls_response(writer, 2, error, "none", 0);
            });
            let results: Vec<_> =
                response.results.iter().map(|it| (it.error_code, it.error_message.as_deref())).collect();
            assert_eq!(results, [(54, Some("none")); 2]);

            let filters = [None, Some(name)].map(|name| DeleteAclsFilter::default().with_host_filter(name));
            let request = DeleteAclsRequest::default().with_filters(filters.to_vec());
            let key = ApiKey::DeleteAcls;
            let read = |reader: Reader<'_>| read_delete_acls(reader, version);
            reference::read_message(key, version, &request, read, |count| assert_eq!(count, 2));
            let response: DeleteAclsResponse = reference::message(key, version, |writer| {
                write_delete_acls_response(writer, 2, error, "none", 0);
            });
            let results: Vec<_> = response
                .filter_results
                .iter()
                .map(|it| (it.error_code, it.error_message.as_deref(), it.matching_acls.len()))
                .collect();
            assert_eq!(results, [(54, Some("none"), 0); 2]);
        }
        for version in 0..=1 {
            let component = ComponentData::default().with_entity_type(StrBytes::from_static_str("user"));
            let request = DescribeClientQuotasRequest::default().with_components(vec![component]);
            let key = ApiKey::DescribeClientQuotas;
            let read = |reader: Reader<'_>| read_describe_client_quotas(reader);
            reference::read_message(key, version, &request, read, |()| {});
            let response: DescribeClientQuotasResponse = reference::message(key, version, |writer| {
                write_describe_client_quotas_response(writer, 0);
            });
            assert_eq!(response.entries.as_deref(), Some(&[][..]));
        }
        let key = ApiKey::DescribeUserScramCredentials;
        let user = UserName::default().with_name(StrBytes::from_static_str("user"));
        for users in [None, Some(vec![user])] {
            let request = DescribeUserScramCredentialsRequest::default().with_users(users.clone());
            let read = |reader: Reader<'_>| Ok(read_describe_scram_credentials(reader)?.len());
            let count = users.map_or(0, |users| users.len());
            reference::read_message(key, 0, &request, read, |found| assert_eq!(found, count));
            let response: DescribeUserScramCredentialsResponse = reference::message(key, 0, |writer| {
                write_describe_scram_credentials_response(writer, &["user"][..count], 0);
            });
            assert_eq!(response.error_code, 0);
            let errors: Vec<_> = response.results.iter().map(|it| it.error_code).collect();
            assert_eq!(errors, [91][..count]);
        }
    }

    /// From Kafka's definitions: the other implementation has no version without patterns.
    #[test]
    fn first_version_of_acls_has_no_patterns() {
        let text = [0, 1, b'x'];
        let (kind, rest) = ([2], [3, 3]);
        let describe = [&kind[..], &text, &text, &text, &rest].concat();
        let many = [&[0, 0, 0, 1][..], &describe].concat();
        let reader = |bytes| Reader::new(bytes, false);
        assert_eq!(read_describe_acls(reader(&describe), 0), Ok(()));
        assert_eq!(read_create_acls(reader(&many), 0), Ok(1));
        assert_eq!(read_delete_acls(reader(&many), 0), Ok(1));
        for length in 0..many.len() {
            assert!(read_create_acls(reader(&many[..length]), 0).is_err());
            assert!(read_delete_acls(reader(&many[..length]), 0).is_err());
        }
    }
}
