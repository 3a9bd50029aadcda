//! DescribeAcls 1 to 3 and DescribeClientQuotas 0 and 1, of which there are none here: keys say who may do what.

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
    use kafka_protocol::messages::describe_client_quotas_request::ComponentData;
    use kafka_protocol::messages::{
        DescribeAclsRequest, DescribeAclsResponse, DescribeClientQuotasRequest, DescribeClientQuotasResponse,
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
