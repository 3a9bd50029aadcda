//! However many workers share it, the plan is the same: the same events of the same size at the same instants.

use std::collections::BTreeMap;

use lab::roles::memory::Faults;

use super::measured;

/// Per event of a stream: how long after the very first event it was meant to be sent, and its size.
type Offered = BTreeMap<(u16, u32), (i64, usize)>;

/// What really came into the source: stream, sequence, intended instant and size of every event, read by the pipeline.
async fn offered(arrivals: &str, workers: u32) -> Offered {
    let arrivals = format!("load.arrivals={arrivals}");
    let workers = format!("load.workers={workers}");
    let set = ["load.mode=open", "hubs.source.partitions=8", "load.payload=40 B", &arrivals, &workers];
    let (case, backend) = measured(&set, Faults::default()).await;
    let events = backend.observed("source");
    assert_eq!(events.len() as u64, case.delivery.unwrap().sent, "each event once");
    let first = events
        .iter()
        .find(|event| (event.header.stream, event.header.sequence) == (0, 0))
        .unwrap()
        .header
        .intended;
    events
        .iter()
        .map(|event| {
            let place = (event.header.stream, event.header.sequence);
            (place, (event.header.intended.micros_since(first), event.payload_len))
        })
        .collect()
}

#[tokio::test]
async fn one_worker_and_eight_offer_the_same_plan() {
    for arrivals in ["constant", "poisson"] {
        let (one, eight) = (offered(arrivals, 1).await, offered(arrivals, 8).await);
        // The two did not end at the same instant of the plan.
        let compared = one.iter().filter_map(|(place, event)| Some((event, eight.get(place)?)));
        let (mut count, mut different) = (0, 0);
        for (one, eight) in compared {
            count += 1;
            different += u32::from(one != eight);
        }
        assert!(count > 1_000, "{arrivals}: only {count} events are in both");
        assert_eq!(different, 0, "{arrivals}: of {count} events");
        let streams = |offered: &Offered| offered.keys().map(|(stream, _)| *stream).max();
        assert_eq!((streams(&one), streams(&eight)), (Some(7), Some(7)));
    }
}
