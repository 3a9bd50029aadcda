//! What became of the events: the figures that decide whether a case passes.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Counts over all streams of a trial, or the sums over the trials of a case.
///
/// `lost` counts acknowledged events that never arrived. Events that were sent and never acknowledged are `unknown`:
/// whether one of them arrives says nothing about the pipeline. What a queue gives up on is in its dead-letter queue,
/// and not lost: it is known where it is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Delivery {
    /// Events that the load handed to the service.
    pub sent: u64,
    /// Events of those that the service acknowledged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub acknowledged: Option<u64>,
    /// Events that the sink received, duplicates included.
    pub received: u64,
    /// Acknowledged events that the sink never received.
    pub lost: u64,
    /// Receptions of an event that had been received before.
    pub duplicated: u64,
    /// First receptions of an event after a later one of its stream, within a destination partition.
    pub reordered: u64,
    /// Events whose content is not what was sent.
    pub corrupted: u64,
    /// Those of `corrupted` that arrived without the field that says which event they are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unidentified: Option<u64>,
    /// Events whose send was never acknowledged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unknown: Option<u64>,
    /// Events that arrived though the load says that it never sent them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unexpected: Option<u64>,
    /// Events of another run: they were still in the hub, or something else sends to it. They are left out of every other count.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub foreign: Option<u64>,
    /// Events that arrived at another partition of the destination than they were to go to, where that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub misplaced: Option<u64>,
    /// Partitions of the destination at which events arrived; over several trials, the fewest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reached_partitions: Option<u64>,
    /// Queues: deliveries of a message that had been delivered before and came to nothing then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub redelivered: Option<u64>,
    /// Queues: different messages that the service has put into the dead-letter queue of the source. They are not lost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dead_lettered: Option<u64>,
}

impl Delivery {
    /// The sum of several; `None` if there are none. A count that one of them lacks counts as zero there.
    #[must_use]
    pub fn sum<'a>(deliveries: impl IntoIterator<Item = &'a Self>) -> Option<Self> {
        deliveries.into_iter().copied().reduce(|sum, next| Self {
            sent: sum.sent + next.sent,
            acknowledged: sum_of_known(sum.acknowledged, next.acknowledged),
            received: sum.received + next.received,
            lost: sum.lost + next.lost,
            duplicated: sum.duplicated + next.duplicated,
            reordered: sum.reordered + next.reordered,
            corrupted: sum.corrupted + next.corrupted,
            unidentified: sum_of_known(sum.unidentified, next.unidentified),
            unknown: sum_of_known(sum.unknown, next.unknown),
            unexpected: sum_of_known(sum.unexpected, next.unexpected),
            foreign: sum_of_known(sum.foreign, next.foreign),
            misplaced: sum_of_known(sum.misplaced, next.misplaced),
            reached_partitions: sum.reached_partitions.into_iter().chain(next.reached_partitions).min(),
            redelivered: sum_of_known(sum.redelivered, next.redelivered),
            dead_lettered: sum_of_known(sum.dead_lettered, next.dead_lettered),
        })
    }
}

fn sum_of_known(one: Option<u64>, other: Option<u64>) -> Option<u64> {
    match (one, other) {
        (None, None) => None,
        (one, other) => Some(one.unwrap_or(0) + other.unwrap_or(0)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_add_up_and_an_unmeasured_count_stays_absent() {
        let one = Delivery { sent: 5, received: 4, lost: 1, ..Delivery::default() };
        let other = Delivery { sent: 7, received: 9, duplicated: 2, acknowledged: Some(7), ..one };
        let sum = Delivery::sum([&one, &other]).unwrap();
        assert_eq!((sum.sent, sum.received, sum.lost, sum.duplicated), (12, 13, 2, 2));
        assert_eq!((sum.acknowledged, sum.unknown), (Some(7), None));
        assert_eq!(Delivery::sum([]), None);
    }
}
