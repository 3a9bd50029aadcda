//! Coordinated omission: what a loop that sends in bursts says of a service that stands still once, held against the closed form.
//!
//! A loop sends bursts of `b` events every `T`, each when it is due and all of the one before was answered. The service stands
//! still for `D`, from a burst on that it takes and does not answer. Then
//!
//! * counted from the *send*, the `b` events of that burst take `D` and all others as long as ever: whoever is not sent does not wait;
//! * counted from the *intended instant*, the `j`-th burst after it takes `D − jT`, so that `b (⌊(D − x) / T⌋ + 1)` events take longer
//!   than `x`, which is nearly what a load on a schedule has, `r (D − x)`.
//!
//! The loop in virtual time shows that to the microsecond; the real roles over a world in memory show it to within 5 %.

use std::time::Duration;

use lab::clock::RunTime;
use lab::load::{LoadPlan, Pace, Run, Schedule, Worker};
use lab::results::{FindingKind, LatencyDistribution};
use lab::roles::memory::{Faults, Stall};
use units::Rate;

use super::measured_in;

/// A loop, and when the service stands still. Times are microseconds.
#[derive(Debug, Clone, Copy)]
struct Loop {
    rate: u32,
    burst: u32,
    /// What it usually takes to answer a burst.
    answer: u64,
    /// The burst with which the service stands still, and for how long.
    stalled: u64,
    stall: u64,
    phase: u64,
}

impl Loop {
    const fn period(&self) -> u64 {
        self.burst as u64 * 1_000_000 / self.rate as u64
    }

    const fn events(&self) -> u64 {
        self.phase * self.rate as u64 / 1_000_000
    }

    /// Events that take longer than `limit` from their intended instants.
    fn longer_than(&self, limit: u64) -> u64 {
        let each = self.period() - self.answer;
        u64::from(self.burst) * ((self.stall - limit).div_ceil(each))
    }

    /// The mean from the intended instants.
    fn mean(&self) -> f64 {
        let (each, answer) = ((self.period() - self.answer) as f64, self.answer as f64);
        let bursts = (self.stall as f64 - answer) / each;
        // A triangle of so many steps.
        let waited = bursts * (self.stall as f64 - answer + each) / 2.0;
        answer + f64::from(self.burst) * waited / self.events() as f64
    }

    /// The mean from the sends.
    fn mean_from_send(&self) -> f64 {
        let answer = self.answer as f64;
        answer + f64::from(self.burst) * (self.stall as f64 - answer) / self.events() as f64
    }

    /// The loop in virtual time: latencies from the intended instants, and from the sends.
    fn run(&self) -> [LatencyDistribution; 2] {
        let rate = Rate::per_second(f64::from(self.rate)).unwrap();
        let pace = Pace::Burst { rate, burst: self.burst };
        let plan = LoadPlan { seed: 1, streams: 3, batch: 1, in_flight: self.burst, pace };
        let mut schedule = Schedule::new(plan, Worker::ONLY, RunTime::EPOCH);
        let mut latencies = [LatencyDistribution::new(), LatencyDistribution::new()];
        let (mut now, mut bursts) = (0, 0);
        while let Some(due) = schedule.next_due().filter(|due| due.as_micros() < self.phase) {
            now = due.as_micros().max(now);
            let mut runs: Vec<Run> = Vec::new();
            schedule.release(RunTime::from_micros(now), u32::MAX, &mut runs);
            assert_eq!(runs.len(), self.burst as usize, "one burst at {now}");
            let answered = now + if bursts == self.stalled { self.stall } else { self.answer };
            for (_, intended) in runs.iter().flat_map(Run::events) {
                latencies[0].record((answered - intended.as_micros()) as i64);
                latencies[1].record((answered - now) as i64);
            }
            schedule.answered(runs.len() as u64);
            (now, bursts) = (answered, bursts + 1);
        }
        latencies
    }
}

fn assert_near(found: f64, expected: f64, what: &str) {
    assert!((found / expected - 1.0).abs() <= 0.05, "{what}: {found} of {expected}");
}

#[test]
fn a_loop_in_virtual_time_leaves_out_what_the_closed_form_says() {
    let loops = [
        // As the published study did: as many as are due in a second at once.
        Loop { rate: 100, burst: 100, answer: 2_000, stalled: 30, stall: 20_000_000, phase: 100_000_000 },
        Loop { rate: 300, burst: 300, answer: 5_000, stalled: 5, stall: 8_000_000, phase: 34_000_000 },
        // Event by event.
        Loop { rate: 100, burst: 1, answer: 200, stalled: 900, stall: 1_500_000, phase: 60_000_000 },
        Loop { rate: 1_000, burst: 10, answer: 100, stalled: 100, stall: 2_000_000, phase: 20_000_000 },
    ];
    for each in loops {
        let [intended, sent] = each.run();
        let count_longer = |latencies: &LatencyDistribution, limit: u64| {
            latencies.histogram.count_between(limit * 1_002 / 1_000, u64::MAX) as f64
        };
        assert_eq!(
            (intended.histogram.len(), sent.histogram.len()),
            (each.events(), each.events()),
            "{each:?}"
        );
        for share in [4, 2] {
            let limit = each.stall / share;
            let expected = each.longer_than(limit) as f64;
            assert_near(count_longer(&intended, limit), expected, &format!("{each:?} over {limit}"));
            assert_eq!(count_longer(&sent, limit) as u64, u64::from(each.burst), "{each:?} over {limit}");
        }
        assert_near(intended.histogram.mean(), each.mean(), &format!("{each:?}: mean"));
        assert_near(sent.histogram.mean(), each.mean_from_send(), &format!("{each:?}: mean from the send"));
        assert_near(intended.histogram.max() as f64, each.stall as f64, "maximum");
        assert_near(sent.histogram.max() as f64, each.stall as f64, "maximum from the send");
    }
}

const RATE: f64 = 250.0;
const BURST: f64 = 4.0;

const SCENARIO: &str = "\
scenario: small
topology: {entities: {in: {hub: source, partitions: 2}}, load: in, sink: in, measure: service}
load: {mode: burst, rate: 250/s, burst: 4, payload: 64 B}
phases: {warm_up: 100 ms, measure: 5 s, drain: 5 s}
trials: 1
";

#[tokio::test]
async fn the_columns_of_a_burst_show_a_stall_as_the_closed_form_has_it() {
    // The 201st event is due 0.8 s after the start.
    let stall = Stall { at_send: 201, length: Duration::from_secs(2) };
    let faults = Faults { stall: Some(stall), ..Faults::default() };
    let (case, backend) = measured_in(SCENARIO, &[], faults).await;
    let [stalled] = backend.stalled()[..] else { panic!("one worker: {:?}", backend.stalled()) };
    assert_eq!(stalled.caught, BURST as u64, "all of a burst, and nothing else was sent meanwhile");
    let length = stalled.ended.saturating_since(stalled.began).as_secs_f64();
    let (intended, sent) = (case.latency_us.as_ref().unwrap(), case.uncorrected_latency_us.as_ref().unwrap());
    assert_eq!(intended.count, sent.count);
    let events = intended.count as f64;
    let seconds = |latency: Option<u64>| latency.unwrap() as f64 / 1e6;

    // From the send: the burst that was caught, and no other. It is more than one event in 1,000 and less than one in 100.
    assert_near(seconds(sent.max), length, "maximum from the send");
    assert_near(seconds(sent.p999), length, "p99.9 from the send");
    assert!(seconds(sent.p99) < length / 2.0, "p99 from the send: {:?}", sent.p99);

    // From the intended instant: all that was due while the service stood still.
    assert_near(seconds(intended.max), length, "maximum");
    for (percentile, share) in [(intended.p95, 0.05), (intended.p99, 0.01), (intended.p999, 0.001)] {
        // So many take longer: r (D − x) + b / 2.
        let expected = length - (share * events - BURST / 2.0).max(0.0) / RATE;
        assert_near(seconds(percentile), expected, &format!("{share} of them take longer"));
    }
    let waited = RATE * length * length / 2.0 + BURST * length / 2.0;
    assert_near(intended.mean.unwrap() / 1e6, waited / events, "mean");

    let generator = case.trials[0].generator.as_ref().unwrap();
    assert_near(generator.held_back_events.unwrap() as f64, RATE * length, "events that were held back");
    assert_eq!(generator.never_sent_events, Some(0));
    assert!(case.has(FindingKind::LoadHeldBack));
    assert_eq!(case.delivery.unwrap().lost, 0);
}
