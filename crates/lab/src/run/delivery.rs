//! What became of the events of a trial, from what its sink saw or, of messages that are completed and go nowhere, from what
//! load and service counted.

use std::collections::BTreeMap;

use super::plan::TrialPlan;
use crate::{
    results::{Delivery, EntityCounters},
    verify::{self, StreamSends},
};

/// What became of the events. How often and in what order a consumer has done them, and what it made of them, is not
/// known.
pub(super) fn delivery(
    plan: &TrialPlan<'_>,
    verdict: &verify::Delivery,
    hub: &BTreeMap<String, EntityCounters>,
) -> Delivery {
    if plan.done().is_some() {
        return Delivery {
            sent: verdict.sent,
            acknowledged: Some(verdict.acknowledged),
            done: Some(verdict.distinct),
            lost: verdict.lost,
            unknown: Some(verdict.unknown),
            ..Delivery::default()
        };
    }
    let source = source_of(plan, hub);
    let redelivered = source.and_then(redelivered);
    Delivery {
        redelivered,
        dead_lettered: source.map(|_| verdict.dead_lettered),
        sent: verdict.sent,
        acknowledged: Some(verdict.acknowledged),
        received: Some(verdict.counts.received),
        done: None,
        lost: verdict.lost,
        duplicated: Some(verdict.counts.duplicated),
        reordered: Some(verdict.counts.reordered),
        corrupted: Some(verdict.counts.corrupted),
        unidentified: (verdict.counts.unidentified > 0).then_some(verdict.counts.unidentified),
        unknown: Some(verdict.unknown),
        unexpected: Some(verdict.unexpected),
        foreign: Some(verdict.counts.foreign),
        misplaced: Some(verdict.counts.misplaced),
        reached_partitions: Some(u64::from(verdict.reached)),
    }
}

/// What became of messages that a consumer completes, by the counts of load and service: which ones is not known. One
/// without an answer that was stored nevertheless makes up for one that was lost.
pub(super) fn settled(streams: &[StreamSends], counted: Option<&EntityCounters>) -> Option<Delivery> {
    let counted = counted?;
    let sent = streams.iter().map(|stream| u64::from(stream.sent)).sum();
    let acknowledged: u64 = streams.iter().map(|stream| stream.acknowledged.count()).sum();
    let (done, dead_lettered) = (counted.completed?, counted.dead_lettered.unwrap_or(0));
    Some(Delivery {
        sent,
        acknowledged: Some(acknowledged),
        done: Some(done),
        lost: acknowledged.saturating_sub(done + dead_lettered),
        unknown: Some(sent.saturating_sub(acknowledged)),
        redelivered: redelivered(*counted),
        dead_lettered: Some(dead_lettered),
        ..Delivery::default()
    })
}

/// What the embedded service counted over the whole trial of what the pipeline reads, if that is a queue.
fn source_of(plan: &TrialPlan<'_>, hub: &BTreeMap<String, EntityCounters>) -> Option<EntityCounters> {
    let from = &plan.topology.pipeline.as_ref()?.from;
    let is_log = plan.topology.entity(from).is_log();
    (!is_log).then(|| hub.get(&plan.topology.address(from)).copied())?
}

/// The last failed delivery of a message puts it into the dead-letter queue, each of the others is followed by another
/// one.
fn redelivered(counted: EntityCounters) -> Option<u64> {
    Some(counted.failed_deliveries?.saturating_sub(counted.dead_lettered.unwrap_or(0)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_completed_messages_the_rest_is_lost_that_is_no_dead_letter() {
        let mut stream = StreamSends { sent: 10, ..StreamSends::default() };
        stream.acknowledged.insert(0..9);
        let counted = EntityCounters {
            completed: Some(5),
            failed_deliveries: Some(12),
            dead_lettered: Some(1),
            ..EntityCounters::default()
        };
        let delivery = settled(&[stream.clone(), stream.clone()], Some(&counted)).expect("it is counted");
        let expected = Delivery {
            sent: 20,
            acknowledged: Some(18),
            done: Some(5),
            lost: 12,
            unknown: Some(2),
            redelivered: Some(11),
            dead_lettered: Some(1),
            ..Delivery::default()
        };
        assert_eq!(delivery, expected);
        // The send without an answer was stored.
        let all = EntityCounters { completed: Some(10), ..EntityCounters::default() };
        assert_eq!(settled(&[stream], Some(&all)).expect("it is counted").lost, 0);
        assert_eq!(settled(&[], None), None, "the service was not asked at the end");
    }
}
