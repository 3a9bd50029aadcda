//! DescribeAcls, CreateAcls and DeleteAcls 1 to 3, and DescribeClientQuotas 0 and 1. There are neither ACLs nor quotas here: keys
//! have rights.

use crate::ErrorCode;
use crate::read::{Malformed, Reader};
use crate::write::Writer;

/// Reads the body of a DescribeAcls of any version. What it asks for makes no difference.
pub fn read_describe_acls(mut reader: Reader<'_>) -> Result<(), Malformed> {
    reader.i8("kind of resource")?;
    reader.nullable_string("resource")?;
    reader.i8("kind of pattern")?;
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
    writer.i16(error.code());
    writer.nullable_string(Some(message));
    writer.array_length(0);
    writer.tagged_fields_end();
}

/// Reads the body of a CreateAcls of any version, and returns the number of its ACLs. They are all answered alike.
pub fn read_create_acls(mut reader: Reader<'_>) -> Result<usize, Malformed> {
    let count = reader.array_length("ACLs")?;
    for _ in 0..count {
        reader.i8("kind of resource")?;
        reader.string("resource")?;
        reader.i8("kind of pattern")?;
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
        writer.i16(error.code());
        writer.nullable_string(Some(message));
        writer.tagged_fields_end();
    }
    writer.tagged_fields_end();
}

/// Reads the body of a DeleteAcls of any version, and returns the number of its filters. They are all answered alike.
pub fn read_delete_acls(mut reader: Reader<'_>) -> Result<usize, Malformed> {
    let count = reader.array_length("filters")?;
    for _ in 0..count {
        reader.i8("kind of resource")?;
        reader.nullable_string("resource")?;
        reader.i8("kind of pattern")?;
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
        writer.i16(error.code());
        writer.nullable_string(Some(message));
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
    use kafka_protocol::messages::{
        CreateAclsRequest, CreateAclsResponse, DeleteAclsRequest, DeleteAclsResponse, DescribeAclsRequest,
        DescribeAclsResponse, DescribeClientQuotasRequest, DescribeClientQuotasResponse,
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
            reference::read_message(key, version, &request, read_describe_acls, |()| {});
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
            reference::read_message(key, version, &request, read_create_acls, |count| assert_eq!(count, 2));
            let response: CreateAclsResponse = reference::message(key, version, |writer| {
                write_create_acls_response(writer, 2, error, "none", 0);
            });
            let results: Vec<_> =
                response.results.iter().map(|it| (it.error_code, it.error_message.as_deref())).collect();
            assert_eq!(results, [(54, Some("none")); 2]);

            let filters = [None, Some(name)].map(|name| DeleteAclsFilter::default().with_host_filter(name));
            let request = DeleteAclsRequest::default().with_filters(filters.to_vec());
            let key = ApiKey::DeleteAcls;
            reference::read_message(key, version, &request, read_delete_acls, |count| assert_eq!(count, 2));
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
    }
}
