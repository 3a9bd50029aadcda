//! DescribeCluster, 0 and 1: the brokers. There is one here.

use super::authorized_operations::AuthorizedOperations;
use super::metadata::{Broker, write_broker};
use crate::ErrorCode;
use crate::read::{Malformed, Reader};
use crate::write::Writer;

/// Reads the body of a request of `version`: whether the client asks what it may do with the cluster. There is nothing else that there
/// are two of.
pub fn read(mut reader: Reader<'_>, version: i16) -> Result<bool, Malformed> {
    let asks_operations = reader.bool("authorized operations")?;
    if version >= 1 {
        reader.i8("kind of endpoint")?;
    }
    reader.skip_tagged_fields("request")?;
    Ok(asks_operations)
}

/// Writes the response to a request of `version`. `operations` is what the client may do with the cluster.
pub fn write_response(
    writer: &mut Writer,
    version: i16,
    broker: &Broker<'_>,
    operations: AuthorizedOperations,
    throttle_time_ms: i32,
) {
    writer.i32(throttle_time_ms);
    writer.i16(ErrorCode::None.code());
    writer.nullable_string(None);
    if version >= 1 {
        // Brokers, not controllers.
        writer.i8(1);
    }
    writer.string(broker.cluster_id);
    writer.i32(broker.id);
    writer.array_length(1);
    write_broker(writer, broker, true);
    operations.write(writer);
    writer.tagged_fields_end();
}

#[cfg(test)]
mod tests {
    use kafka_protocol::messages::{DescribeClusterRequest, DescribeClusterResponse};

    use super::*;
    use crate::ApiKey;
    use crate::messages::reference;

    #[test]
    fn another_implementation_reads_and_writes_the_same_in_every_version() {
        let broker = Broker { id: 0, host: "localhost", port: 9092, cluster_id: "namespace" };
        for version in 0..=1 {
            let request = DescribeClusterRequest::default().with_include_cluster_authorized_operations(true);
            let read = |reader: Reader<'_>| read(reader, version);
            reference::read_message(ApiKey::DescribeCluster, version, &request, read, |asks| assert!(asks));
            let response: DescribeClusterResponse =
                reference::message(ApiKey::DescribeCluster, version, |writer| {
                    write_response(writer, version, &broker, AuthorizedOperations::CREATE, 0);
                });
            assert_eq!((response.cluster_id.as_str(), response.brokers[0].port), ("namespace", 9092));
            assert_eq!(response.cluster_authorized_operations, 32);
        }
    }
}
