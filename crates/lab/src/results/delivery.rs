//! What became of the events: the figures that decide whether a case passes.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Counts over all streams of a trial, or the sums over the trials of a case.
///
/// `lost` counts acknowledged events that never arrived. Events that were sent and never acknowledged are `unknown`:
/// whether one of them arrives says nothing about the pipeline. What a queue gives up on is in its dead-letter queue,
/// and not lost: it is known where it is. Of a consumer that forwards nothing, `lost` counts those that it has not done,
/// and what can't be known of it is absent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Delivery {
    /// Events that the load handed to the service.
    pub sent: u64,
    /// Events of those that the service acknowledged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub acknowledged: Option<u64>,
    /// Events that the sink received, duplicates included.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub received: Option<u64>,
    /// Different events that a consumer has done, if that is what is measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub done: Option<u64>,
    /// Acknowledged events that the sink never received.
    pub lost: u64,
    /// Receptions of an event that had been received before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duplicated: Option<u64>,
    /// First receptions of an event after a later one of its stream, within a destination partition.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reordered: Option<u64>,
    /// Events whose content is not what was sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub corrupted: Option<u64>,
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
    /// The sum of several; `None` if there are none. A count that one of them lacks counts as zero there, except that
    /// nothing is said of the content and order of all where it is not known of one.
    #[must_use]
    pub fn sum<'a>(deliveries: impl IntoIterator<Item = &'a Self>) -> Option<Self> {
        deliveries.into_iter().copied().reduce(|sum, next| Self {
            sent: sum.sent + next.sent,
            acknowledged: sum_of_known(sum.acknowledged, next.acknowledged),
            received: sum_of_known(sum.received, next.received),
            done: sum_of_known(sum.done, next.done),
            lost: sum.lost + next.lost,
            duplicated: sum_of_both(sum.duplicated, next.duplicated),
            reordered: sum_of_both(sum.reordered, next.reordered),
            corrupted: sum_of_both(sum.corrupted, next.corrupted),
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

fn sum_of_both(one: Option<u64>, other: Option<u64>) -> Option<u64> {
    Some(one? + other?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_add_up_and_an_unmeasured_count_stays_absent() {
        let one =
            Delivery { sent: 5, received: Some(4), lost: 1, duplicated: Some(0), ..Delivery::default() };
        let other =
            Delivery { sent: 7, received: Some(9), duplicated: Some(2), acknowledged: Some(7), ..one };
        let sum = Delivery::sum([&one, &other]).unwrap();
        assert_eq!((sum.sent, sum.received, sum.lost, sum.duplicated), (12, Some(13), 2, Some(2)));
        assert_eq!((sum.acknowledged, sum.unknown), (Some(7), None));
        assert_eq!(Delivery::sum([]), None);
    }

    #[test]
    fn what_is_unknown_of_a_consumer_is_not_said_of_all() {
        let sink = Delivery { sent: 5, received: Some(5), corrupted: Some(0), ..Delivery::default() };
        let consumer = Delivery { sent: 7, done: Some(6), lost: 1, ..Delivery::default() };
        let sum = Delivery::sum([&sink, &consumer]).unwrap();
        assert_eq!((sum.sent, sum.lost, sum.received, sum.done), (12, 1, Some(5), Some(6)));
        assert_eq!(sum.corrupted, None);
    }
}
