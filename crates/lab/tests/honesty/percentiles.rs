//! What is recorded is shown as it is: nothing clamped, nothing dropped, nothing claimed that the sample can't support.

use lab::clock::RunTime;
use lab::record::Recorder;
use lab::results::{LatencyDistribution, LatencySummary, NegativeLatencies};

const fn at(microseconds: u64) -> RunTime {
    RunTime::from_micros(microseconds)
}

fn recorded(latencies: impl IntoIterator<Item = i64>) -> LatencyDistribution {
    let middle = at(1 << 39);
    let mut recorder = Recorder::starting_at(middle);
    for latency in latencies {
        let now = at((middle.as_micros() as i64 + latency) as u64);
        recorder.record(middle, now);
    }
    recorder.finish(middle).total.decode().unwrap()
}

#[test]
fn a_percentile_appears_in_the_results_with_the_sample_that_supports_it_and_not_before() {
    type Percentile = fn(&LatencySummary) -> Option<u64>;
    let percentiles: [(&str, Percentile, u64); 5] = [
        ("p50", |summary| summary.p50, 2),
        ("p75", |summary| summary.p75, 4),
        ("p95", |summary| summary.p95, 20),
        ("p99", |summary| summary.p99, 100),
        ("p999", |summary| summary.p999, 1_000),
    ];
    for samples in (1..=1_001).filter(|samples| [1, 2, 3, 4, 19, 20, 99, 100, 999, 1_000].contains(samples)) {
        let summary = recorded((1..=samples).map(|sample| sample as i64)).summary().unwrap();
        let json = serde_json::to_value(&summary).unwrap();
        for (name, percentile, needed) in percentiles {
            assert_eq!(percentile(&summary).is_some(), samples >= needed, "{name} of {samples}");
            assert_eq!(json.get(name).is_some(), samples >= needed, "{name} of {samples}");
        }
        assert_eq!(summary.precision, None, "nobody knows how the seconds differ");
    }
}

#[test]
fn a_clock_that_is_behind_is_shown_by_number_and_size_and_never_hidden() {
    // 50 ms of skew over latencies of 10 to 109 ms: 40 of them come out negative.
    let skewed = recorded((10..110).map(|latency| (latency - 50) * 1_000));
    let summary = skewed.summary().unwrap();
    let negative = NegativeLatencies { count: 40, min: -40_000 };
    assert_eq!(summary.negative, Some(negative));
    assert_eq!((summary.count, summary.min), (60, Some(0)));
    // All of them negative: there is no other figure, and still they are there.
    let json = serde_json::to_value(recorded([-3, -7]).summary()).unwrap();
    assert_eq!(json, serde_json::json!({"count": 0, "negative": {"count": 2, "min": -7}}));
}

#[test]
fn the_longest_latency_is_not_cut_and_the_shortest_not_rounded_up() {
    let longest = (1_i64 << 39) - 1;
    let summary = recorded([0, longest]).summary().unwrap();
    assert_eq!(summary.min, Some(0));
    let stated = summary.max.unwrap() as f64;
    assert!(stated >= longest as f64 && stated <= longest as f64 * (1.0 + 1.0 / 1_024.0));
}
