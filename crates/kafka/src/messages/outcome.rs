//! What became of a request of which there is nothing else to say, or nothing but that of each partition.

use super::by_topic;
use crate::ErrorCode;
use crate::read::{Malformed, Reader};

/// What became of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// The error.
    pub error: ErrorCode,
    /// How many milliseconds to wait before the next request.
    pub throttle_time_ms: i32,
}

/// What became of each partition that a request names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartitionOutcomes<'a> {
    /// Partitions of one topic stand together.
    pub partitions: Vec<PartitionOutcome<'a>>,
    /// How many milliseconds to wait before the next request.
    pub throttle_time_ms: i32,
}

/// What became of one of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PartitionOutcome<'a> {
    /// The topic.
    pub topic: &'a str,
    /// The partition's number.
    pub index: i32,
    /// The error.
    pub error: ErrorCode,
}

impl Outcome {
    /// Reads the body of the response to a request that has one result: to AddOffsetsToTxn and EndTxn, in every version.
    pub fn read(mut reader: Reader<'_>) -> Result<Self, Malformed> {
        let throttle_time_ms = reader.i32("throttle time")?;
        let error = ErrorCode::of(reader.i16("error")?);
        reader.skip_tagged_fields("response")?;
        Ok(Self { error, throttle_time_ms })
    }
}

impl<'a> PartitionOutcomes<'a> {
    /// Reads the body of the response to a request that has a result for each partition: to OffsetCommit since its version 3, and
    /// to AddPartitionsToTxn and TxnOffsetCommit in every version.
    pub fn read(mut reader: Reader<'a>) -> Result<Self, Malformed> {
        let throttle_time_ms = reader.i32("throttle time")?;
        Self::read_partitions(reader, throttle_time_ms)
    }

    /// The same without what it begins with, as in older versions.
    pub(super) fn read_partitions(mut reader: Reader<'a>, throttle_time_ms: i32) -> Result<Self, Malformed> {
        let partitions = by_topic::read(&mut reader, |reader, topic| {
            let index = reader.i32("partition")?;
            let error = ErrorCode::of(reader.i16("error of a partition")?);
            reader.skip_tagged_fields("partition")?;
            Ok(PartitionOutcome { topic, index, error })
        })?;
        reader.skip_tagged_fields("response")?;
        Ok(Self { partitions, throttle_time_ms })
    }
}
