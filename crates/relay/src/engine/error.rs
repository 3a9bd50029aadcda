//! Why a relay could not go on, or not begin.

use std::io;
use std::path::PathBuf;

use connect::checkpoint::StoreError;
use connect::event::{Encoding, PartitionId};
use connect::sink::{SendError, SinkError};
use connect::source::SourceError;

use super::poison;
use crate::ownership::OwnershipOptionsError;

/// Why a relay could not go on, or not begin.
#[derive(Debug, thiserror::Error)]
pub enum RelayError {
    /// Fewer destinations than the options ask for, or none asked for.
    #[error("a fan-out of {fan_out} is not possible: the sink has {destinations} destinations")]
    FanOut {
        /// What was asked for.
        fan_out: u32,
        /// What the sink has.
        destinations: u32,
    },
    /// The source failed as a whole.
    #[error("the source can't continue")]
    Source(#[from] SourceError),
    /// A sink does not take messages as the source has them.
    #[error("the source yields {encoding}, which the sink does not accept")]
    Encoding {
        /// The place of the sink in their list.
        index: usize,
        /// How the source encodes its messages.
        encoding: Encoding,
    },
    /// A message would be settled before a sink has stored it.
    #[error("messages are settled one by one, and the sink stores many at a time")]
    StoresLater {
        /// The place of the sink in their list.
        index: usize,
    },
    /// A sink failed as a whole.
    #[error("the sink can't continue")]
    Sink {
        /// Its place in the list of sinks.
        index: usize,
        /// Why.
        source: SinkError,
    },
    /// Checkpoints or claims could not be read at the start.
    #[error("the checkpoints cannot be read")]
    Store(#[from] StoreError),
    /// Those who share the partitions do not let this relay take part.
    #[error("the partitions can't be shared")]
    Sharing(#[source] StoreError),
    /// The partitions cannot be shared in this way.
    #[error("the partitions cannot be shared")]
    Ownership(#[from] OwnershipOptionsError),
    /// The source no longer has events that were not read yet, and the relay is to stop then.
    #[error(
        "{missing} events of partition {partition} are missing: event {expected} was expected, {first} \
         arrived, and the source has removed those before it; with `missed_events: report` the relay \
         counts them and continues"
    )]
    MissedEvents {
        /// The partition.
        partition: PartitionId,
        /// The sequence number that was expected.
        expected: i64,
        /// The first one that came instead.
        first: i64,
        /// How many events are missing, as far as is known.
        missing: u64,
    },
    /// The file of dead letters cannot be opened.
    #[error("the dead-letter file {} can't be opened", path.display())]
    DeadLetters {
        /// The file.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// Dead letters are messages of AMQP.
    #[error(
        "dead letters can't be sent to a sink: it takes no messages of AMQP, or the pipeline carries {encoding}"
    )]
    DeadLetterEncoding {
        /// How the source encodes its messages.
        encoding: Encoding,
    },
    /// The sink of dead letters failed as a whole.
    #[error("the sink of dead letters can't continue")]
    DeadLetterSink {
        /// Why.
        source: SinkError,
    },
    /// A destination refuses an event for good, and the relay is to stop then.
    #[error(
        "the destination refuses {} of {bytes} bytes permanently ({error}); `poison_events: {{dead_letter: <file>}}` stores \
         such events and continues",
        poison::place(*partition, *sequence_number, offset)
    )]
    Poison {
        /// The partition.
        partition: PartitionId,
        /// The event's sequence number.
        sequence_number: i64,
        /// Its offset; empty where the source has none.
        offset: String,
        /// How many bytes would have been forwarded.
        bytes: usize,
        /// What the destination says.
        error: Box<SendError>,
    },
    /// Records of the source can't be read, and the relay is to stop then.
    #[error(
        "{records} records of partition {partition}, with the numbers {first} to {last}, can't be read ({reason}); \
         `poison_events: {{dead_letter: <file>}}` stores their batch and continues"
    )]
    Unreadable {
        /// The partition.
        partition: PartitionId,
        /// The first sequence number of the records.
        first: i64,
        /// The last one.
        last: i64,
        /// Their number, as far as the source says.
        records: u64,
        /// Why.
        reason: String,
    },
    /// The source has begun to number the events of a partition again, and the relay is to stop then.
    #[error(
        "the source has restarted the numbering of partition {partition} ({cause}), so the checkpoint is \
         no longer valid; remove it to start over, or start at the oldest event with `missed_events: \
         report`"
    )]
    Restarted {
        /// The partition.
        partition: PartitionId,
        /// What shows it.
        cause: String,
    },
}
