//! A pipeline that does nothing but wait for times of a known distribution, measured from end to end.
//!
//! When its reader had each event in hand is known on both sides: the instant before its batch was given out and the one
//! after it was given back, by the clock of the run. What the sink recorded must lie between the two, percentile by
//! percentile, however slow the machine is; and no event can be faster than the delay that it was given.

use std::collections::HashSet;
use std::time::Duration;

use lab::results::LatencySummary;
use lab::roles::memory::{Delay, Faults, Observed};

use super::measured;

const FLOOR: Duration = Duration::from_millis(20);
const MEAN: Duration = Duration::from_millis(30);

#[tokio::test]
async fn the_delays_of_a_null_pipeline_are_recovered() {
    let faults = Faults { delay: Some(Delay { seed: 5, floor: FLOOR, mean: MEAN }), ..Faults::default() };
    let set = ["load.mode=open", "load.rate=5000/s", "phases.measure=1 s", "phases.drain=5 s"];
    let (case, backend) = measured(&set, faults).await;
    let latency = case.latency_us.unwrap();
    let observed = backend.observed("destination");
    // The measured phase in the sink's own reading is not known to the microsecond, but how many events are of it is,
    // and that they are those without a gap.
    let (first, events) = phase(&observed, latency.count as usize, case.trials[0].started_s.unwrap());
    assert!(events.len() > 4_000, "{} events", events.len());
    let lower = sorted(events.iter().map(|event| event.given.micros_since(event.header.intended)));
    let upper = sorted(events.iter().map(|event| event.released.micros_since(event.header.intended)));
    assert!(lower[0] >= FLOOR.as_micros() as i64, "nothing is faster than its delay ({first})");
    for (share, stated) in percentiles(&latency) {
        // An event more or less at the edges of the phase moves a percentile by a rank.
        let rank = |share: f64| (share * lower.len() as f64) as usize;
        let slack = lower.len() / 200 + 1;
        let low = lower[rank(share).saturating_sub(slack)] as f64;
        let high = upper[(rank(share) + slack).min(upper.len() - 1)] as f64;
        let stated = stated as f64;
        assert!(
            low <= stated && stated <= high * (1.0 + 1.0 / 1_024.0) + 1.0,
            "{share}: {low} <= {stated} <= {high}"
        );
        let known = FLOOR.as_secs_f64() - MEAN.as_secs_f64() * (1.0 - share).ln();
        // Five standard errors of the sample: 5,000 independent delays.
        let error = 5.0 * (share / (1.0 - share) / lower.len() as f64).sqrt() * MEAN.as_secs_f64();
        assert!(stated / 1e6 >= known - error, "{share}: {stated} µs of {known} s");
    }
    assert!(latency.max.unwrap() as i64 >= *lower.last().unwrap());
    assert_eq!(latency.negative, None);
}

fn percentiles(latency: &LatencySummary) -> [(f64, u64); 4] {
    [
        (0.5, latency.p50.unwrap()),
        (0.75, latency.p75.unwrap()),
        (0.95, latency.p95.unwrap()),
        (0.99, latency.p99.unwrap()),
    ]
}

/// The events that were meant for the measured phase: `count` of them from `started_s` on, each once.
fn phase(observed: &[Observed], count: usize, started_s: f64) -> (u64, Vec<Observed>) {
    let start = (started_s * 1e6) as u64;
    let mut seen = HashSet::new();
    let mut events: Vec<Observed> = observed
        .iter()
        .filter(|event| event.header.intended.as_micros() >= start)
        .filter(|event| seen.insert((event.header.stream, event.header.sequence)))
        .cloned()
        .collect();
    events.sort_by_key(|event| event.header.intended);
    events.truncate(count);
    (start, events)
}

fn sorted(latencies: impl Iterator<Item = i64>) -> Vec<i64> {
    let mut latencies: Vec<i64> = latencies.collect();
    latencies.sort_unstable();
    latencies
}
