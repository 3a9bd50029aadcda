//! How a relay is, for whoever runs it: whether it carries events, and if not, why.
//!
//! * [`troubles`] remembers what is wrong at each place, tells the log of each cause once, and once that it is over.
//! * [`lag`] asks the service how far each partition reaches, a few times a minute.
//!
//! A relay is *alive* while its loop answers. It is *ready* while both ends are connected, all of its partitions are
//! open, and nothing keeps one of them from making progress. Being throttled, or trying a send again, is work.

use std::fmt;
use std::time::{Duration, SystemTime};

use connect::event::{EnqueuedTime, PartitionId};
use connect::sink::ErrorClass;

pub mod lag;
pub(crate) mod troubles;

pub use lag::{Lag, LogEnd, LogEnds};

/// How a relay is at one moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Health {
    /// Whether there is a connection to receive from.
    pub source_connected: bool,
    /// Whether there is a connection to send through.
    pub sink_connected: bool,
    /// Why the relay is not ready; nothing if it is.
    pub reasons: Vec<Reason>,
    /// The last error of each place that has had one.
    pub last_errors: Vec<LastError>,
    /// When a checkpoint was written last.
    pub last_checkpoint: Option<SystemTime>,
    /// How far each partition of a hub is done; those that are another relay's are left out.
    pub partitions: Vec<PartitionProgress>,
    /// How far they are behind, as far as anybody has asked the service.
    pub lags: Vec<(PartitionId, Lag)>,
}

/// One thing that keeps a relay from being ready.
#[derive(Clone, Debug, PartialEq)]
pub struct Reason {
    /// Where.
    pub place: Place,
    /// The service's name for it, such as `amqp:not-found`, or one of ours, such as `connection:lost` or `opening`.
    pub condition: String,
    /// A sentence for a person.
    pub description: String,
    /// For how long it has been so.
    pub lasted: Duration,
    /// The partitions of the source that it concerns, in ascending order; none where it concerns all of them.
    pub partitions: Vec<PartitionId>,
}

/// The last error of a place.
#[derive(Clone, Debug, PartialEq)]
pub struct LastError {
    /// Where.
    pub place: Place,
    /// What can be done about it.
    pub class: ErrorClass,
    /// The service's name for it, or ours.
    pub condition: String,
    /// When it was seen.
    pub at: SystemTime,
}

/// How far a partition is done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartitionProgress {
    /// The partition.
    pub partition: PartitionId,
    /// Up to which event everything is done.
    pub position: Position,
    /// When the oldest event that is held and not done was appended.
    pub oldest_held: Option<EnqueuedTime>,
    /// When its position moved last; before it has, when the partition was opened.
    pub moved: Option<SystemTime>,
}

/// Up to which event everything is done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Position {
    /// Not known before the first batch is done: the partition was opened at an instant, at an opaque offset, or at its end.
    #[default]
    Unknown,
    /// Before the oldest event that is retained.
    Beginning,
    /// Up to the event of this sequence number, which is included.
    After(i64),
}

/// A part of a pipeline in which something can be wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Place {
    /// Where events come from.
    Source,
    /// Where they go.
    Sink,
    /// Where progress is kept.
    Checkpoints,
    /// The claims that relays share partitions by.
    Ownership,
    /// The relay itself.
    Relay,
}

impl Health {
    /// Whether events are carried, as far as there are any.
    #[must_use]
    pub const fn is_ready(&self) -> bool {
        self.reasons.is_empty()
    }
}

impl Place {
    /// The name in metrics and reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Source => "source",
            Self::Sink => "sink",
            Self::Checkpoints => "checkpoints",
            Self::Ownership => "ownership",
            Self::Relay => "relay",
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { place, description, lasted, partitions, .. } = self;
        write!(f, "{place}: {description} (for {} s", lasted.as_secs())?;
        if !partitions.is_empty() {
            write!(f, "; partitions {}", Partitions(partitions))?;
        }
        f.write_str(")")
    }
}

/// Partitions as a text that stays short: `0-3, 7`.
pub(crate) struct Partitions<'a>(pub(crate) &'a [PartitionId]);

impl fmt::Display for Partitions<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let runs = self.0.chunk_by(|one, next| next.0 == one.0 + 1);
        for (index, run) in runs.enumerate() {
            if index > 0 {
                f.write_str(", ")?;
            }
            match run {
                [first, .., last] => write!(f, "{first}-{last}")?,
                [only] => write!(f, "{only}")?,
                [] => {}
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn partitions_are_reported_as_ranges() {
        let told = |ids: &[u32]| {
            let ids: Vec<_> = ids.iter().copied().map(PartitionId).collect();
            Partitions(&ids).to_string()
        };
        assert_eq!(told(&[0, 1, 2, 3, 7, 9, 10]), "0-3, 7, 9-10");
        assert_eq!((told(&[5]), told(&[])), ("5".to_owned(), String::new()));
    }

    #[test]
    fn a_reason_is_one_line() {
        let reason = Reason {
            place: Place::Sink,
            condition: "connection:lost".to_owned(),
            description: "connection:lost: reset by peer".to_owned(),
            lasted: Duration::from_millis(12_700),
            partitions: vec![PartitionId(3)],
        };
        let expected = "sink: connection:lost: reset by peer (for 12 s; partitions 3)";
        assert_eq!(reason.to_string(), expected);
    }
}
