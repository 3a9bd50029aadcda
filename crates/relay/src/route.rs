//! Which destination an event goes to.
//!
//! Every route is a pure function of the event and the options: an event that is read again after a failure goes where
//! it went before, in whatever process that happens.

use std::fmt;

use connect::event::EventBatch;
use serde::{Deserialize, Serialize};
use units::partition_key::Partitioner;
use units::{mix, pick};

/// How an event finds its destination.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Route {
    /// By a seeded hash of partition and sequence number: evenly and without a pattern.
    #[default]
    Random,
    /// By the hash of the partition key that the sink's own clients use: same key, same destination. Events without a key go
    /// as by [`Route::Random`].
    Key,
    /// By the sequence number: the events of a partition go to each destination in turn.
    RoundRobin,
    /// To the destination with the number of the partition, modulo the fan-out.
    SamePartition,
}

impl fmt::Display for Route {
    /// The name that configurations have for it.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Random => "random",
            Self::Key => "key",
            Self::RoundRobin => "round-robin",
            Self::SamePartition => "same-partition",
        })
    }
}

/// A route with all that it depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Router {
    /// How an event finds its destination.
    pub route: Route,
    /// How many destinations there are, at least 1; they are numbered from 0.
    pub fan_out: u32,
    /// What the random route is drawn from.
    pub seed: u64,
    /// The hash of keys.
    pub partitioner: Partitioner,
}

impl Router {
    /// Sets `destinations` to the destination of each event of the batch.
    pub fn assign(&self, batch: &EventBatch, destinations: &mut Vec<u32>) {
        let Self { route, fan_out, seed, partitioner } = *self;
        let partition = u64::from(batch.partition().0);
        let random = |sequence_number: i64| pick(mix(seed, partition, sequence_number as u64), fan_out);
        destinations.clear();
        let events = batch.events().iter();
        match route {
            _ if fan_out == 1 => destinations.resize(batch.len(), 0),
            Route::Random => destinations.extend(events.map(|event| random(event.sequence_number))),
            Route::RoundRobin => {
                destinations.extend(events.map(|event| remainder(event.sequence_number, fan_out)))
            }
            Route::SamePartition => {
                destinations.resize(batch.len(), batch.partition().0 % fan_out);
            }
            Route::Key => destinations.extend(events.map(|event| match batch.key(event) {
                Some(key) => partitioner.partition_of(key, fan_out),
                None => random(event.sequence_number),
            })),
        }
    }
}

/// The remainder that is never negative; below `fan_out`.
fn remainder(sequence_number: i64, fan_out: u32) -> u32 {
    sequence_number.rem_euclid(i64::from(fan_out)) as u32
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use connect::event::{EnqueuedTime, EventParts, PartitionId};
    use proptest::prelude::*;
    use units::partition_key::Partitioner::{EventHubs, Kafka};

    use super::*;

    fn assign(router: Router, events: &[(&str, i64)]) -> Vec<u32> {
        let mut batch = EventBatch::with_capacity(PartitionId(3), events.len());
        for (key, sequence_number) in events {
            let parts = EventParts {
                message: 0..0,
                partition_key: 0..key.len() as u32,
                offset: 0..0,
                sequence_number: *sequence_number,
                enqueued_time: EnqueuedTime::default(),
            };
            batch.push(&Bytes::copy_from_slice(key.as_bytes()), &parts);
        }
        let mut destinations = vec![9];
        router.assign(&batch, &mut destinations);
        destinations
    }

    #[test]
    fn round_robin_takes_each_destination_in_turn() {
        let router = Router { route: Route::RoundRobin, fan_out: 3, seed: 1, partitioner: EventHubs };
        assert_eq!(assign(router, &[("", 4), ("", 5), ("", 6), ("", -1)]), [1, 2, 0, 2]);
    }

    #[test]
    fn the_same_key_goes_the_same_way() {
        let router = Router { route: Route::Key, fan_out: 32, seed: 1, partitioner: EventHubs };
        let destinations = assign(router, &[("device-1", 1), ("device-2", 2), ("device-1", 900)]);
        assert_eq!(destinations[0], destinations[2]);
        assert_eq!(assign(Router { seed: 2, ..router }, &[("device-1", 1)]), [destinations[0]]);
        let as_in_kafka = assign(Router { partitioner: Kafka, ..router }, &[("device-1", 1)]);
        assert_eq!(as_in_kafka, [Kafka.partition_of(b"device-1", 32)]);
        assert_ne!(as_in_kafka, [destinations[0]]);
    }

    #[test]
    fn events_without_a_key_spread_by_chance() {
        let by_key = Router { route: Route::Key, fan_out: 32, seed: 5, partitioner: EventHubs };
        let events: Vec<_> = (0..1000).map(|number| ("", number)).collect();
        assert_eq!(assign(by_key, &events), assign(Router { route: Route::Random, ..by_key }, &events));
    }

    #[test]
    fn partitions_stay_what_they_are_and_wrap_around_at_the_fan_out() {
        let router =
            |fan_out| Router { route: Route::SamePartition, fan_out, seed: 1, partitioner: EventHubs };
        let events = [("device-1", 1), ("", 2)];
        assert_eq!(assign(router(32), &events), [3, 3]);
        assert_eq!(assign(router(2), &events), [1, 1]);
    }

    proptest! {
        #[test]
        fn every_route_stays_within_the_fan_out_and_repeats(
            route in prop_oneof![Just(Route::Random), Just(Route::Key), Just(Route::RoundRobin), Just(Route::SamePartition)],
            fan_out in 1_u32..200, seed: u64, key in ".{0,8}", sequence_number: i64,
        ) {
            let router = Router { route, fan_out, seed, partitioner: EventHubs };
            let once = assign(router, &[(&key, sequence_number)]);
            prop_assert!(once[0] < fan_out);
            let events = [("other", 0), (&*key, sequence_number)];
            prop_assert_eq!(assign(router, &events)[1], once[0], "the company of an event does not matter");
        }
    }
}
