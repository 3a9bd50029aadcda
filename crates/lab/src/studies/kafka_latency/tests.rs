use std::collections::BTreeMap;

use serde_json::json;

use super::*;
use crate::report::sample;
use crate::results::{
    ClientShape, GeneratorHealth, KafkaShape, LatencyInterval, LatencySummary, MeasuredComponent, Published,
    Role, Summary, Trial,
};
use crate::scenario::LoadMode;

/// A case of so many microseconds on average and at p99, with these properties at both ends.
fn case(name: &str, properties: &[(&str, &str)], [mean, p99]: [f64; 2]) -> Case {
    let mut case = sample::quick().cases.swap_remove(0);
    name.clone_into(&mut case.name);
    case.sweep = Some("settings".to_owned());
    case.published = None;
    let set: BTreeMap<String, String> =
        properties.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    let end = ClientShape { client: "librdkafka".to_owned(), properties: set.clone() };
    case.shape = Some(Shape {
        load: LoadMode::Open,
        kafka: Some(KafkaShape { producer: end.clone(), consumer: end }),
        pipeline: None,
        ..Shape::default()
    });
    case.params = BTreeMap::from([("load.rate".to_owned(), json!("300/s")), (SEED.to_owned(), json!(name))]);
    for (property, value) in &set {
        for end in ["load", "sink"] {
            case.params.insert(format!("topology.{end}.properties.{property}"), json!(value));
        }
    }
    let summary = latency(mean, p99);
    case.latency_us = Some(summary.clone());
    case.uncorrected_latency_us = Some(summary.clone());
    for trial in &mut case.trials {
        trial.latency_us = Some(summary.clone());
    }
    case
}

fn latency(mean: f64, p99: f64) -> LatencySummary {
    LatencySummary {
        mean: Some(mean),
        p99: Some(p99 as u64),
        max: Some(p99 as u64 * 2),
        precision: None,
        ..sample::quick().cases[0]
            .latency_us
            .clone()
            .unwrap_or_else(|| unreachable!("the sample has latencies"))
    }
}

fn found(cases: &[Case]) -> Vec<CrossCaseFinding> {
    KafkaLatency.cross_case("settings", &cases.iter().collect::<Vec<_>>())
}

#[test]
fn the_setting_that_the_tail_depends_on_most_is_named_with_what_it_costs() {
    let cases = [
        case("linger=5", &[("linger.ms", "5"), ("acks", "1")], [5_600.0, 6_300.0]),
        case("linger=0", &[("linger.ms", "0"), ("acks", "1")], [600.0, 1_100.0]),
        case("acks=all", &[("linger.ms", "0"), ("acks", "all")], [900.0, 1_900.0]),
    ];
    let found = found(&cases);
    let messages: Vec<&str> = found.iter().map(|finding| finding.message.as_str()).collect();
    assert_eq!(messages.len(), 2, "{messages:#?}");
    assert_eq!(found[0].cases, ["linger=5", "linger=0"]);
    for part in [
        "`linger.ms` bounds the tail: p99 is 6.30 ms with 5 and 1.10 ms with 0 (5.20 ms less, 5.73×)",
        "the mean is 5.00 ms longer for 5.00 ms more",
    ] {
        assert!(messages[0].contains(part), "{part}\n{}", messages[0]);
    }
    assert!(
        messages[1].starts_with("`acks` matters: p99 is 1.90 ms with all and 1.10 ms with 1"),
        "{}",
        messages[1]
    );
    assert!(found.iter().all(|finding| finding.kind == FindingKind::SettingMatters));
}

#[test]
fn a_setting_that_no_record_waits_for_is_said_to_do_nothing_and_why() {
    let cases = [
        case("wait=10", &[("fetch.wait.max.ms", "10")], [600.0, 1_100.0]),
        case("wait=500", &[("fetch.wait.max.ms", "500")], [610.0, 1_150.0]),
    ];
    let found = found(&cases);
    assert_eq!(found.len(), 1, "{found:#?}");
    assert_eq!(found[0].kind, FindingKind::SettingWithoutEffect);
    let message = &found[0].message;
    assert!(
        message
            .contains("`fetch.wait.max.ms` does nothing here: p99 is 1.15 ms with 500 and 1.10 ms with 10"),
        "{message}"
    );
    assert!(message.contains("as soon as there is a record"), "{message}");
}

#[test]
fn nagles_algorithm_is_explained_by_the_version_only_beside_the_default_of_the_client() {
    let on = case("nagle=off", &[("socket.nagle.disable", "true")], [600.0, 1_100.0]);
    let default = case("nagle=default", &[], [600.0, 1_090.0]);
    let off = case("nagle=on", &[("socket.nagle.disable", "false")], [9_000.0, 41_000.0]);
    let found_of = |cases: &[Case]| found(cases).swap_remove(0);
    let nothing = found_of(&[on.clone(), default]);
    assert_eq!(nothing.kind, FindingKind::SettingWithoutEffect);
    assert!(
        nothing.message.contains("its default") && nothing.message.contains("2.10"),
        "{}",
        nothing.message
    );
    let then = found_of(&[on, off]);
    assert_eq!(then.kind, FindingKind::SettingMatters);
    assert!(then.message.contains("may delay by 40 ms"), "{}", then.message);
}

#[test]
fn trials_whose_ranges_overlap_do_not_differ_and_neither_do_cases_that_differ_in_more() {
    let with_trials = |case: Case, p99s: [f64; 2]| {
        let trial = case.trials[0].clone();
        let of = |p99| Trial { latency_us: Some(latency(600.0, p99)), ..trial.clone() };
        Case { trials: p99s.map(of).to_vec(), ..case }
    };
    let wide = with_trials(case("a", &[("acks", "0")], [600.0, 1_000.0]), [500.0, 2_000.0]);
    let narrow = with_trials(case("b", &[("acks", "1")], [600.0, 1_600.0]), [1_500.0, 1_700.0]);
    assert_eq!(found(&[wide, narrow])[0].kind, FindingKind::SettingWithoutEffect);
    let mut faster = case("c", &[("acks", "1")], [60.0, 100.0]);
    faster.params.insert("load.rate".to_owned(), json!("100/s"));
    assert_eq!(found(&[case("a", &[("acks", "0")], [600.0, 1_000.0]), faster]), []);
}

#[test]
fn rare_records_that_take_longer_than_frequent_ones_wake_cores() {
    let at = |rate: f64, mean: f64| {
        let mut case = case(&format!("rate={rate}"), &[], [mean, mean * 2.0]);
        case.params.insert("load.rate".to_owned(), json!(rate));
        Case { offered_per_s: Some(Summary::of_one(rate)), ..case }
    };
    let idle = |mut case: Case, seconds: f64| {
        for trial in &mut case.trials {
            trial.roles.values_mut().for_each(|usage| usage.cpu_seconds = seconds);
            (trial.machine_cores, trial.duration_s) = (Some(2), 10.0);
        }
        case
    };
    let found_of = |cases: [Case; 3]| found(&cases);
    let cases = [idle(at(100.0, 300.0), 0.1), idle(at(300.0, 290.0), 0.1), idle(at(10_000.0, 150.0), 1.0)];
    let sleeping = found_of(cases).swap_remove(0);
    assert_eq!((sleeping.kind, sleeping.cases.len()), (FindingKind::SleepingCores, 2));
    let expected = "a record takes 300 µs on average at 100/s and 150 µs at 10,000/s (2.00×)";
    assert!(sleeping.message.contains(expected), "{}", sleeping.message);
    let busy = [idle(at(100.0, 300.0), 8.0), idle(at(300.0, 290.0), 8.0), idle(at(10_000.0, 150.0), 8.0)];
    assert_eq!(found_of(busy), []);
}

#[test]
fn a_case_that_is_not_valid_says_nothing_of_a_setting() {
    let mut late = case("wait=100", &[("fetch.wait.max.ms", "100")], [9_000.0, 36_000.0]);
    late.passed = false;
    assert_eq!(found(&[case("wait=10", &[("fetch.wait.max.ms", "10")], [600.0, 1_100.0]), late]), []);
}

#[test]
fn a_setting_of_one_client_is_told_by_the_values_of_that_client() {
    let both = case("both", &[("socket.nagle.disable", "true")], [600.0, 1_100.0]);
    let mut producer = case("producer", &[("socket.nagle.disable", "true")], [600.0, 1_090.0]);
    if let Some(kafka) = producer.shape.as_mut().and_then(|shape| shape.kafka.as_mut()) {
        kafka.consumer.properties.clear();
    }
    producer.params.remove("topology.sink.properties.socket.nagle.disable");
    let found = found(&[both, producer]).swap_remove(0);
    assert!(found.message.contains("1.10 ms with true and 1.09 ms with its default"), "{}", found.message);
}

#[test]
fn published_rows_are_held_against_themselves() {
    let row = |number: u64, linger: &str, [mean, p99, max]: [f64; 3], burst| {
        let mut case = case(&format!("row={number}"), &[("linger.ms", linger)], [500.0, 1_000.0]);
        let figures = [(Figure::LatencyMean, mean), (Figure::LatencyP99, p99), (Figure::LatencyMax, max)];
        case.published = Some(Published::new(&case.name, figures));
        if let Some(shape) = &mut case.shape {
            (shape.load, shape.burst_events) = (LoadMode::Burst, Some(burst));
        }
        case
    };
    let cases = [
        row(1, "0", [19_600.0, 45_300.0, 49_400.0], 100),
        row(2, "5", [19_100.0, 110_200.0, 110_400.0], 100),
        row(3, "0", [18_200.0, 50_600.0, 50_900.0], 100),
        row(4, "5", [25_300.0, 79_100.0, 79_600.0], 300),
    ];
    let noise: Vec<_> =
        found(&cases).into_iter().filter(|finding| finding.kind == FindingKind::PublishedNoise).collect();
    assert_eq!(noise[0].cases, ["row=2", "row=3", "row=4"]);
    for part in [
        "in 3 of 4 published rows p99 is within 3.0 % of the maximum",
        "1.0 % or 3.0 % of its 10,000 records",
    ] {
        assert!(noise[0].message.contains(part), "{part}\n{}", noise[0].message);
    }
    let repeated = "row=1 and row=3: mean 18.2 ms and 19.6 ms (7.7 %), p99 45.3 ms and 50.6 ms (11.7 %)";
    assert!(noise[1].message.contains(repeated), "{}", noise[1].message);
}

#[test]
fn a_loop_beside_a_schedule_shows_what_the_loop_left_out() {
    let open = case("mode=open", &[], [4_000.0, 90_000.0]);
    let mut burst = case("mode=burst", &[], [4_000.0, 95_000.0]);
    burst.params.insert("load.mode".to_owned(), json!("burst"));
    burst.uncorrected_latency_us = Some(latency(700.0, 1_200.0));
    if let Some(shape) = &mut burst.shape {
        (shape.load, shape.burst_events) = (LoadMode::Burst, Some(10));
    }
    let found = found(&[burst, open]).swap_remove(0);
    assert_eq!((found.kind, found.cases.len()), (FindingKind::CoordinatedOmission, 2));
    let expected = "mode=burst: 1.20 ms from the send and 95.0 ms from the intended instant of its burst of 10; mode=open: \
                    90.0 ms from that of each event";
    assert!(found.message.contains(expected), "{}", found.message);
}

#[test]
fn a_trial_says_what_its_loop_left_out_and_that_its_first_second_was_the_worst() {
    let mut case = case("a", &[], [4_000.0, 95_000.0]);
    if let Some(shape) = &mut case.shape {
        shape.load = LoadMode::Burst;
    }
    let second = |at_s: f64, max_us| LatencyInterval {
        at_s,
        length_s: 1.0,
        count: 10,
        p50_us: Some(300),
        p99_us: None,
        max_us,
    };
    let trial = Trial {
        uncorrected_latency_us: Some(latency(700.0, 1_200.0)),
        generator: Some(GeneratorHealth {
            held_back_events: Some(420),
            ..case.trials[0].generator.clone().unwrap_or_else(|| unreachable!("the sample has one"))
        }),
        latency_intervals: vec![second(1.0, 40_000), second(2.0, 900), second(3.0, 800)],
        ..case.trials[0].clone()
    };
    let shape = case.shape();
    let found_of = |trial: &Trial| {
        let measured = MeasuredComponent::of(None, Role::Service);
        let observation =
            Observation { shape: &shape, measured: &measured, measured_role: Role::Service, trial };
        KafkaLatency.findings(&observation)
    };
    let found = found_of(&trial);
    let kinds: Vec<FindingKind> = found.iter().map(|finding| finding.kind).collect();
    assert_eq!(kinds, [FindingKind::FirstSecond, FindingKind::CoordinatedOmission]);
    assert!(
        found[0].message.contains("40.0 ms at most in it, 900 µs in the other 2 seconds"),
        "{}",
        found[0].message
    );
    assert!(found[1].message.contains("420 events left late"), "{}", found[1].message);
    let even = Trial {
        uncorrected_latency_us: trial.latency_us.clone(),
        latency_intervals: vec![second(1.0, 900), second(2.0, 800)],
        ..trial
    };
    assert_eq!(found_of(&even), []);
}
