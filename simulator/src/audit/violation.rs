//! What can be found to be wrong with a history.

/// What was broken, in the numbers of the history.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "the message of each says what its fields are")]
pub enum Violation {
    /// INV-3: a checkpoint covers what no destination has.
    #[error(
        "relay {process} writes checkpoint {partition}:{sequence_number}, but {partition}:{missing} is not durable at any destination"
    )]
    CheckpointPassesGap { process: u32, partition: u32, sequence_number: i64, missing: i64 },
    /// INV-3: a checkpoint covers what the relay was never told to be accepted.
    #[error(
        "relay {process} writes checkpoint {partition}:{sequence_number} without having been told that {partition}:{missing} is accepted"
    )]
    CheckpointUnfounded { process: u32, partition: u32, sequence_number: i64, missing: i64 },
    /// INV-100: a checkpoint covers what the archive has not stored.
    #[error(
        "relay {process} writes checkpoint {partition}:{sequence_number}, but {partition}:{missing} is not in the archive"
    )]
    CheckpointNotArchived { process: u32, partition: u32, sequence_number: i64, missing: i64 },
    /// INV-101: what a relay archives has a gap, or an event comes again.
    #[error("relay {process} archives {partition}:{sequence_number} behind {before:?}")]
    ArchiveGap { process: u32, partition: u32, before: Option<i64>, sequence_number: i64 },
    /// A checkpoint went back under the same owner.
    #[error("relay {process} takes the checkpoint of partition {partition} back from {before} to {after}")]
    CheckpointWentBack { process: u32, partition: u32, before: i64, after: i64 },
    /// The old owner of a partition wrote over its successor's checkpoint.
    #[error(
        "relay {process} writes checkpoint {partition}:{sequence_number} though relay {owner} has taken over"
    )]
    OldOwnerWrote { process: u32, owner: u32, partition: u32, sequence_number: i64 },
    /// INV-15: a relay sent events while another could still write the checkpoint.
    #[error("relay {process} sends {partition}:{sequence_number} before it has fenced the checkpoint")]
    SentUnfenced { process: u32, partition: u32, sequence_number: i64 },
    /// INV-17: a relay went on after its claim had expired.
    #[error(
        "relay {process} writes the checkpoint of partition {partition} {late_ms} ms after its claim has expired"
    )]
    WroteAfterExpiry { process: u32, partition: u32, late_ms: u64 },
    /// The store said that it had done what it had not.
    #[error(
        "relay {process} is told that checkpoint {partition}:{sequence_number} is written, and it is not"
    )]
    AcknowledgedButNotWritten { process: u32, partition: u32, sequence_number: i64 },
    /// A partition was opened elsewhere than after its checkpoint.
    #[error("relay {process} opens partition {partition} at {opened}, and its checkpoint says {expected}")]
    OpenedElsewhere { process: u32, partition: u32, opened: i64, expected: i64 },
    /// A partition was opened while batches of it were held.
    #[error("relay {process} opens partition {partition} before it has released its batches")]
    OpenedWithBatches { process: u32, partition: u32 },
    /// INV-5: with one batch under way at a time, a destination saw a later event first.
    #[error(
        "destination {destination} gets {partition}:{sequence_number} for the first time after {partition}:{newest}"
    )]
    Reordered { destination: u32, partition: u32, sequence_number: i64, newest: i64 },
    /// INV-6: an event came back at another destination.
    #[error("{partition}:{sequence_number} goes to destination {destination} after it went to {before}")]
    Misrouted { partition: u32, sequence_number: i64, before: u32, destination: u32 },
    /// A destination stored what nobody appended.
    #[error("destination {destination} gets bytes that nobody appended")]
    Damaged { destination: u32 },
    /// INV-4: an event was sent again that the relay knew to be accepted.
    #[error(
        "relay {process} sends {partition}:{sequence_number} again though it was told in time that it is accepted"
    )]
    SentAgain { process: u32, partition: u32, sequence_number: i64 },
    /// INV-4: an event was sent again while its send was neither answered nor over its time.
    #[error("relay {process} sends {partition}:{sequence_number} while send {send} of it is under way")]
    SentTwice { process: u32, partition: u32, sequence_number: i64, send: u64 },
    /// An event was sent of a batch that the relay does not hold.
    #[error("relay {process} sends {partition}:{sequence_number} of a batch that it does not hold")]
    SentUnheld { process: u32, partition: u32, sequence_number: i64 },
    /// INV-4: more came twice than was under way or uncovered.
    #[error("{duplicates} events came twice, and only {explained} of them were sent again for a reason")]
    Unexplained { duplicates: u64, explained: u64 },
    /// More sends from a partition to one destination are under way than the options allow.
    #[error("relay {process} has {count} sends from partition {partition} to {destination} under way")]
    TooManyInFlight { process: u32, partition: u32, destination: u32, count: usize },
    /// A batch was taken while as much was held as may be.
    #[error("relay {process} takes another batch while it holds {held} bytes")]
    HeldTooMuch { process: u32, held: usize },
    /// The source handed an event over that was handed over before, or left one out.
    #[error("relay {process} gets {partition}:{sequence_number} where {partition}:{expected} comes next")]
    SourceOutOfStep { process: u32, partition: u32, sequence_number: i64, expected: i64 },
    /// INV-4: an event that was appended is at no destination.
    #[error("{partition}:{sequence_number} is lost at sink {sink}")]
    Lost { partition: u32, sequence_number: i64, sink: u32 },
    /// INV-97: where events go one by one, more were in work than may be.
    #[error("relay {process} has {events} events in work")]
    TooManyInWork { process: u32, events: usize },
    /// INV-97: where events go one by one, one was with more sinks than may have it.
    #[error("relay {process} has {partition}:{sequence_number} at {sinks} sinks at once")]
    AtTooManySinks { process: u32, partition: u32, sequence_number: i64, sinks: usize },
    /// INV-103: an event was put aside that its sink had not refused, or not for that reason.
    #[error("relay {process} puts {partition}:{sequence_number} aside, which sink {sink} has not refused")]
    LetterUnfounded { process: u32, partition: u32, sequence_number: i64, sink: u32 },
    /// INV-103: a dead letter names a sink that does not refuse the event, or not for that reason.
    #[error("the dead letter of {partition}:{sequence_number} gives a reason that sink {sink} does not have")]
    LetterMislabelled { partition: u32, sequence_number: i64, sink: u32 },
    /// INV-103: a relay does not know how many events it has put aside.
    #[error("relay {process} counts {counted} dead letters, and was told of {told}")]
    LettersMiscounted { process: u32, counted: u64, told: u64 },
    /// INV-104: two events of one key were on their way to a destination.
    #[error(
        "relay {process} sends {partition}:{sequence_number} while {partition}:{other} of its key is under way to destination {destination}"
    )]
    KeyUnderWay { process: u32, partition: u32, sequence_number: i64, other: i64, destination: u32 },
    /// INV-105: the limit that was found is none, or more than was found out.
    #[error("relay {process} has found that {limit} events may be in work")]
    LimitOutOfBounds { process: u32, limit: u64 },
    /// Nothing fails any more, and still not everything is carried and covered.
    #[error(
        "{ms} ms after everything healed, partition {partition} is accepted up to {accepted} and covered up to {covered} of {end}"
    )]
    Stuck { ms: u64, partition: u32, accepted: i64, covered: i64, end: i64 },
    /// A relay did not end in time, or not with everything finished, though nothing failed.
    #[error("instance {instance} does not stop gracefully: {how}")]
    NotStopped { instance: u32, how: String },
    /// Polls without end at one instant.
    #[error("instance {instance} is polled {polls} times without the clock moving")]
    Restless { instance: u32, polls: u64 },
    /// The relay panicked.
    #[error("panicked: {message}")]
    Panicked { message: String },
}
