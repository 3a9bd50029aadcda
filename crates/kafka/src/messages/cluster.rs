//! DescribeCluster, 0 and 1: the brokers. There is one here.

use super::metadata::{Broker, NOT_ASKED, write_broker};
use crate::ErrorCode;
use crate::read::{Malformed, Reader};
use crate::write::Writer;

/// Reads the body of a request of `version`. It asks for nothing that there are two of.
pub fn read(mut reader: Reader<'_>, version: i16) -> Result<(), Malformed> {
    reader.bool("authorized operations")?;
    if version >= 1 {
        reader.i8("kind of endpoint")?;
    }
    reader.skip_tagged_fields("request")
}

/// Writes the response to a request of `version`.
pub fn write_response(writer: &mut Writer, version: i16, broker: &Broker<'_>, throttle_time_ms: i32) {
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
    writer.i32(NOT_ASKED);
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
            let request = DescribeClusterRequest::default();
            let read = |reader: Reader<'_>| read(reader, version);
            reference::read_message(ApiKey::DescribeCluster, version, &request, read, |()| {});
            let response: DescribeClusterResponse =
                reference::message(ApiKey::DescribeCluster, version, |writer| {
                    write_response(writer, version, &broker, 0);
                });
            assert_eq!((response.cluster_id.as_str(), response.brokers[0].port), ("namespace", 9092));
        }
    }
}
