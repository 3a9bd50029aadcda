//! How late this machine wakes a process that has nothing to do but wake up: the delays of scheduler, hypervisor and timers.
//!
//! They are part of every latency that is measured here and nothing of them is the pipeline's. A thread sleeps for a
//! millisecond, over and over, and notes how much longer it took. A pause that spans several such sleeps counts as each of
//! them would have met it, so that it weighs as much as in a load that sends every millisecond.

use std::{
    thread,
    time::{Duration, Instant},
};

use crate::results::{LatencyDistribution, LatencySummary};

/// Watches the machine for about `length`; to be called while no role runs. None where no thread can be had.
pub(crate) fn scheduling_delays(length: Duration) -> Option<LatencySummary> {
    let watch = thread::Builder::new().name("hiccup".to_owned()).spawn(move || {
        let mut delays = LatencyDistribution::new();
        let began = Instant::now();
        while began.elapsed() < length {
            let before = Instant::now();
            thread::sleep(INTERVAL);
            record(&mut delays, before.elapsed().saturating_sub(INTERVAL));
        }
        delays.summary()
    });
    watch.ok()?.join().ok()?
}

fn record(delays: &mut LatencyDistribution, delay: Duration) {
    let mut left = Some(delay);
    while let Some(delay) = left {
        delays.record(i64::try_from(delay.as_micros()).unwrap_or(i64::MAX));
        left = delay.checked_sub(INTERVAL);
    }
}

/// How often the thread wants to wake.
const INTERVAL: Duration = Duration::from_millis(1);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_counts_once_for_each_sleep_that_it_swallowed() {
        let mut delays = LatencyDistribution::new();
        record(&mut delays, Duration::from_micros(60));
        record(&mut delays, Duration::from_micros(1_500));
        let summary = delays.summary().unwrap();
        assert_eq!((summary.count, summary.min, summary.max), (3, Some(60), Some(1_500)));
        assert_eq!(
            delays.histogram.count_between(500, 500),
            1,
            "the last of them was met half a millisecond before its end"
        );
    }

    #[test]
    fn a_machine_is_watched_for_as_long_as_it_takes() {
        let delays = scheduling_delays(Duration::from_millis(50)).unwrap();
        assert!(delays.count > 0 && delays.max.is_some());
    }
}
