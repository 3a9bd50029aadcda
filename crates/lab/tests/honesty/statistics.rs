//! What the lab says of two builds and of a percentile is right as often as it claims: simulated, with seeds.

use lab::clock::RunTime;
use lab::record::{Recorder, Recording};
use lab::results::{Bounds, Distributions, IntervalDistribution, LatencySummary, Trial, TrialRecord};
use lab::statistics::{Design, Question, Verdict, compare};
use units::Random;

/// Throughput of a build over trials: a median of 100,000/s, a few percent of scatter with a heavy lower tail, as a
/// disturbed machine has it, and a drift that hits whatever runs at the time.
fn trials(random: &mut Random, count: usize, scatter: f64, drift: &[f64]) -> Vec<f64> {
    (0..count)
        .map(|trial| {
            let disturbed = if random.chance(0.1) { random.exponential(scatter * 2.0) } else { 0.0 };
            let noise = (random.unit() - 0.5) * 2.0 * scatter;
            100_000.0 * (noise - disturbed + drift.get(trial).unwrap_or(&0.0)).exp()
        })
        .collect()
}

/// Shares of the verdicts faster or slower, no difference, none; and of the intervals that hold the true difference.
fn judged(question: Question, count: usize, scatter: f64, gain: f64, drifts: bool) -> [f64; 4] {
    const RUNS: u32 = 400;
    let mut random = Random::from_seed(u64::from(RUNS) + count as u64);
    let mut counts = [0_u32; 4];
    for _ in 0..RUNS {
        let mut level = 0.0;
        let drift: Vec<f64> = (0..count)
            .map(|_| {
                level += (random.unit() - 0.5) * 0.4;
                if drifts { level } else { 0.0 }
            })
            .collect();
        let baseline = trials(&mut random, count, scatter, &drift);
        let mut candidate = trials(&mut random, count, scatter, &drift);
        candidate.iter_mut().for_each(|value| *value *= 1.0 + gain);
        let comparison = compare(&baseline, &candidate, &question).unwrap();
        match comparison.verdict {
            Verdict::Faster | Verdict::Slower => counts[0] += 1,
            Verdict::NoDifference => counts[1] += 1,
            Verdict::NoVerdict { .. } => counts[2] += 1,
        }
        let covers = |interval: lab::statistics::Interval| interval.contains(gain * 100.0);
        counts[3] += u32::from(comparison.interval_percent.is_some_and(covers));
    }
    counts.map(|count| f64::from(count) / f64::from(RUNS))
}

/// Four standard errors of a share of 5 % in 400 runs.
const SLACK: f64 = 0.044;

#[test]
fn two_runs_of_the_same_build_are_hardly_ever_said_to_differ() {
    for (design, counts) in [(Design::Independent, [4, 7, 20]), (Design::Paired, [6, 10, 20])] {
        for count in counts {
            let question = Question { floor_percent: 0.0, ..Question::of_throughput(design) };
            let [different, .., covered] = judged(question, count, 0.03, 0.0, false);
            assert!(different <= 0.05 + SLACK, "{design:?}, {count}: {different}");
            assert!(covered >= 0.95 - SLACK, "{design:?}, {count}: {covered}");
        }
    }
}

#[test]
fn two_quiet_runs_of_the_same_build_are_said_not_to_differ() {
    for design in [Design::Independent, Design::Paired] {
        let question = Question::of_throughput(design);
        let [different, equal, ..] = judged(question, 10, 0.005, 0.0, false);
        assert!(different < 0.001, "{design:?}: a difference below the floor is none: {different}");
        assert!(equal > 0.95, "{design:?}: {equal}");
    }
}

#[test]
fn a_real_difference_is_found_and_its_interval_holds_it() {
    for design in [Design::Independent, Design::Paired] {
        let [different, equal, _, covered] = judged(Question::of_throughput(design), 10, 0.02, 0.08, false);
        assert!(different > 0.95 && equal < 0.001, "{design:?}: {different} {equal}");
        assert!(covered >= 0.95 - SLACK, "{design:?}: {covered}");
    }
}

#[test]
fn pairs_see_through_a_drift_that_hides_the_difference_from_others() {
    let paired = judged(Question::of_throughput(Design::Paired), 10, 0.01, 0.05, true);
    let independent = judged(Question::of_throughput(Design::Independent), 10, 0.01, 0.05, true);
    assert!(paired[0] > 0.95, "{paired:?}");
    assert!(independent[0] < paired[0] / 2.0, "{independent:?}");
}

/// The summary of ten seconds of latencies through recorders, lines of text and the merging of workers.
fn summary_of(random: &mut Random, workers: usize, delay: impl Fn(&mut Random) -> f64) -> LatencySummary {
    const SECONDS: u64 = 10;
    const PER_SECOND: u64 = 600;
    let start = RunTime::from_micros(1_000_000_000);
    let mut recorders = vec![Recorder::starting_at(start); workers];
    for second in 0..SECONDS {
        for event in 0..PER_SECOND {
            let intended = start.plus(std::time::Duration::from_micros(second * 1_000_000 + event * 1_000));
            let arrived = intended.as_micros() as f64 + delay(random);
            let worker = event as usize % workers;
            recorders[worker].record(intended, RunTime::from_micros(arrived as u64));
        }
        let now = start.plus(std::time::Duration::from_secs(second + 1));
        recorders.iter_mut().for_each(|recorder| recorder.tick(now));
    }
    let end = start.plus(std::time::Duration::from_secs(SECONDS));
    let mut recording: Option<Recording> = None;
    for recorder in recorders {
        Recording::merge_option(&mut recording, Some(recorder.finish(end))).unwrap();
    }
    let recording = recording.unwrap();
    let intervals = recording.intervals.iter().map(|interval| IntervalDistribution {
        start: interval.start.saturating_since(start),
        length: interval.end.saturating_since(interval.start),
        latency: interval.latency.decode().unwrap(),
    });
    let distributions = Distributions {
        latency: recording.total.decode().unwrap(),
        intervals: intervals.collect(),
        ..Distributions::default()
    };
    let record = TrialRecord::new(Trial::default(), distributions);
    record.trial.latency_us.unwrap()
}

/// How often the stated bounds of each percentile hold the true one.
fn covered(delay: impl Fn(&mut Random) -> f64, quantile: impl Fn(f64) -> f64) -> [f64; 4] {
    const RUNS: u32 = 80;
    let mut random = Random::from_seed(3);
    let mut counts = [0_u32; 4];
    for run in 0..RUNS {
        let summary = summary_of(&mut random, 1 + run as usize % 8, &delay);
        assert_eq!(summary.count, 6_000);
        let precision = summary.precision.unwrap();
        let all = [(0.5, precision.p50), (0.75, precision.p75), (0.95, precision.p95), (0.99, precision.p99)];
        for (count, (share, bounds)) in counts.iter_mut().zip(all) {
            let holds = |bounds: Bounds| bounds.contain(quantile(share) as u64);
            *count += u32::from(bounds.is_some_and(holds));
        }
    }
    counts.map(|count| f64::from(count) / f64::from(RUNS))
}

#[test]
fn a_known_distribution_of_delays_is_recovered_within_the_stated_error() {
    let exponential = covered(
        |random| 5_000.0 + random.exponential(20_000.0),
        |share| 5_000.0 - 20_000.0 * (1.0 - share).ln(),
    );
    // Nine of ten take half a millisecond, one in ten a tenth of a second: percentiles on both sides of the gap.
    let two_paths = covered(
        |random| {
            if random.chance(0.1) {
                100_000.0 + random.unit() * 10_000.0
            } else {
                500.0 + random.unit() * 100.0
            }
        },
        |share| {
            if share < 0.9 { 500.0 + share / 0.9 * 100.0 } else { 100_000.0 + (share - 0.9) / 0.1 * 10_000.0 }
        },
    );
    for (name, shares) in [("exponential", exponential), ("two paths", two_paths)] {
        for share in shares {
            // Three standard errors of 80 runs below what is claimed.
            assert!(share > 0.87, "{name}: {shares:?}");
        }
    }
}
