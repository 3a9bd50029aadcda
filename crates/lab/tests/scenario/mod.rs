//! Scenario files: from text to cases, and from each kind of mistake to its place.

#![expect(clippy::unwrap_used, reason = "what panics in a test fails it, and says where")]

mod kafka;
#[cfg(feature = "librdkafka")]
mod kafka_latency;
mod producer;
mod queues;
mod roles;
mod schema;
mod sweeps;
mod systems;
mod targets;
mod topology;

use lab::results::Figure;
use lab::scenario::{
    CaseOptions, CheckpointPolicy, LoadMode, Payload, Prefetch, Scenario, ScenarioError, Target,
};
use serde_json::{Value, json};
use units::ByteSize;

fn cases(text: &str, options: &CaseOptions) -> Result<Vec<lab::scenario::Case>, ScenarioError> {
    Scenario::parse("s.yaml", text)?.cases(options)
}

fn all_sweeps() -> CaseOptions {
    CaseOptions { sweeps: vec!["all".to_owned()], ..CaseOptions::default() }
}

fn names(cases: &[lab::scenario::Case]) -> Vec<&str> {
    cases.iter().map(|case| case.name.as_str()).collect()
}

fn set(arguments: &[&str]) -> CaseOptions {
    CaseOptions { set: arguments.iter().map(ToString::to_string).collect(), ..CaseOptions::default() }
}

/// The message for a scenario whose text after its name is `text`, with `arguments` set.
fn told(text: &str, arguments: &[&str]) -> String {
    cases(&format!("scenario: s\n{text}"), &set(arguments)).unwrap_err().to_string()
}

#[test]
fn the_published_study_is_the_first_sweep_of_fan_out() {
    let scenario = Scenario::load("fan-out").unwrap();
    let cases = scenario.cases(&CaseOptions::default()).unwrap();
    let names: Vec<&str> = cases.iter().map(|case| case.name.as_str()).collect();
    assert_eq!(names, ["fan_out=1", "fan_out=32", "fan_out=64", "fan_out=100"]);

    let case = &cases[3];
    assert_eq!(case.sweep.as_deref(), Some("fan_out"));
    assert_eq!((case.axes[0].path.as_str(), case.axes[0].value.as_str()), ("relay.fan_out", "100"));
    let parameters = &case.parameters;
    assert_eq!(parameters.relay.fan_out, 100);
    assert_eq!(parameters.topology().of_load().partitions(), 32);
    assert_eq!(parameters.topology().of_sink().partitions(), 100, "the destination follows the fan-out");
    assert_eq!(parameters.relay.batch.events, 128);
    assert_eq!(parameters.relay.checkpoint, CheckpointPolicy::EachBatch);
    assert_eq!(parameters.load.mode, LoadMode::Saturate);
    assert_eq!(parameters.load.payload, Payload::Size(ByteSize::from_bytes(16)));
    assert_eq!(parameters.limits.relay.cores, Some(1.0));
    assert_eq!(parameters.limits.relay.memory, Some(ByteSize::from_mebibytes(1024)));
    assert_eq!(parameters.trials, 3);
    assert_eq!(case.published.as_ref().unwrap().get(Figure::ForwardedPerS), Some(8647.0));
    assert!(cases.iter().all(|case| case.published.is_some()));
}

#[test]
fn quick_lays_its_section_over_the_parameters() {
    let scenario = Scenario::load("fan-out").unwrap();
    let quick = scenario.cases(&CaseOptions { quick: true, ..CaseOptions::default() }).unwrap();
    let parameters = &quick[0].parameters;
    assert_eq!(parameters.trials, 1);
    assert_eq!(parameters.load.backlog, 4_000_000);
    assert_eq!(parameters.load.batch, 500, "what quick does not name stays");
    let seconds: u64 = quick
        .iter()
        .map(|case| (case.parameters.phases.warm_up + case.parameters.phases.measure).as_secs())
        .sum();
    assert!(seconds < 90, "about two minutes with start and drain, but the phases alone take {seconds} s");
}

#[test]
fn every_mode_of_the_study_is_one_argument_away() {
    let scenario = Scenario::load("fan-out").unwrap();
    for mode in ["open", "closed", "saturate", "backlog", "capacity"] {
        for quick in [false, true] {
            let options = CaseOptions { quick, ..set(&[&format!("load.mode={mode}")]) };
            assert_eq!(scenario.cases(&options).unwrap().len(), 4, "{mode}");
            let sweeps = all_sweeps().sweeps;
            let all = scenario.cases(&CaseOptions { sweeps, ..options });
            assert_eq!(all.unwrap().len(), 27, "{mode}");
        }
    }
}

#[test]
fn a_search_for_a_rate_leaves_injected_failures_out_unless_configured() {
    let ratio = |arguments: &[&str]| {
        let scenario = Scenario::load("fan-out").unwrap();
        let cases = scenario.cases(&set(arguments)).map_err(|error| error.to_string());
        cases.map(|cases| cases[0].parameters.relay.failure_ratio)
    };
    assert_eq!(ratio(&["load.mode=capacity"]), Ok(0.0));
    assert_eq!(ratio(&["load.mode=open"]), Ok(3.125e-6));
    let kept = "load.capacity.failures=as-configured";
    assert_eq!(ratio(&["load.mode=capacity", kept]), Ok(3.125e-6));
    let wanted = "relay.failure_ratio=0.5";
    assert_eq!(ratio(&["load.mode=capacity", kept, wanted]), Ok(0.5));
    assert_eq!(
        ratio(&["load.mode=capacity", wanted]),
        Err("--set:1:21: `relay.failure_ratio`: a search for the capacity injects no failures".to_owned()),
        "what was asked for is not silently left out"
    );
    assert_eq!(ratio(&["load.mode=capacity", "relay.failure_ratio=0"]), Ok(0.0));
}

#[test]
fn only_trials_and_set_choose_and_change_cases() {
    let scenario = Scenario::load("fan-out").unwrap();
    let only = |pattern: &str| CaseOptions {
        only: Some(pattern.to_owned()),
        trials: Some(7),
        ..CaseOptions::default()
    };
    let cases = scenario.cases(&only("fan_out=1*")).unwrap();
    assert_eq!(cases.len(), 2);
    assert_eq!(cases[0].parameters.trials, 7);
    let error = scenario.cases(&only("fan_out=2")).unwrap_err().to_string();
    let beginning = "no case of `fan-out` matches `fan_out=2`; its cases are: fan_out=1, fan_out=32, fan_out=64, \
                     fan_out=100, cores=1,memory=1 GiB, ";
    assert!(error.starts_with(beginning), "{error}");
}

#[test]
fn a_scenario_of_nothing_but_a_name_is_one_case_of_defaults() {
    let cases = cases("scenario: s\n", &CaseOptions::default()).unwrap();
    assert_eq!(cases.len(), 1);
    assert_eq!(cases[0].name, "s");
    assert_eq!(cases[0].parameters.target, Target::Embedded);
}

#[test]
fn parameters_survive_the_way_to_another_process() {
    let text = "scenario: s\ntarget: {connection_string: \"Endpoint=sb://x.servicebus.windows.net/;SharedAccessKeyName=n;\
                SharedAccessKey=a2V5\"}\nload: {payload: {replay: a.ndjson}, mode: open, rate: 5/s}\n\
                relay: {checkpoint: {every: 1 s}}\n";
    let case = cases(text, &CaseOptions::default()).unwrap().remove(0);
    let json = serde_json::to_string(&case.parameters).unwrap();
    assert_eq!(serde_json::from_str::<lab::scenario::Parameters>(&json).unwrap(), case.parameters);
}

#[test]
fn a_saturating_load_stays_within_a_third_of_the_log() {
    let lag = |arguments: &[&str]| cases("scenario: s\n", &set(arguments)).unwrap()[0].parameters.lag_limit();
    assert_eq!(lag(&[]), 500_000);
    assert_eq!(lag(&["load.payload=1 KiB"]), (128 << 20) / (1024 + 64));
    assert_eq!(lag(&["load.payload=1 KiB", "embedded.log_per_hub=300 MiB"]), (300 << 20) / 3 / (1024 + 64));
    assert_eq!(lag(&["load.payload=1 KiB", "load.max_lag=5"]), 5);
    assert_eq!(lag(&["embedded.log_per_hub=96 MiB"]), (96 << 20) / 3 / (16 + 64));
}

#[test]
fn each_partition_of_a_log_whose_size_is_not_given_holds_all_that_may_wait() {
    let log = |arguments: &[&str]| {
        let parameters = cases("scenario: s\n", &set(arguments)).unwrap().remove(0).parameters;
        (parameters.log_per_hub().bytes(), parameters.preallocates())
    };
    let (mebibyte, gibibyte) = (1 << 20, 1 << 30);
    let usual = 32 * 500_000 * 32 * 9 / 8;
    assert_eq!(log(&[]), (usual, true));
    assert_eq!(log(&["hubs.source.partitions=16", "relay.fan_out=16"]), (usual / 2, true));
    assert_eq!(log(&["load.max_lag=1000"]), (64 * mebibyte, true), "no less than this");
    assert_eq!(log(&["load.payload=1 KiB"]), (gibibyte, true), "no more than this");
    assert_eq!(log(&["hubs.destination.partitions=96"]), (gibibyte, true));
    assert_eq!(log(&["embedded.log_per_hub=96 MiB"]), (96 * mebibyte, true), "as it says");
    assert_eq!(log(&["embedded.log_per_hub=400 MiB"]), (400 * mebibyte, false), "as it says");
    assert_eq!(log(&["limits.hub.memory=200 MiB"]), (usual, false), "the limit may be too low");
    let many = log(&["hubs.source.partitions=1024"]);
    assert_eq!(many, (2 * gibibyte, false), "each partition has what it needs for its segments");
    for load in [&["load.mode=backlog"][..], &["load.mode=open", "load.rate=5/s"]] {
        assert_eq!(log(load), (gibibyte, false), "how far it gets ahead is not known");
    }
}

#[test]
fn connection_strings_appear_in_no_result_and_no_log() {
    let text = "scenario: s\ntarget: {connection_string: \"Endpoint=sb://x.servicebus.windows.net/;SharedAccessKeyName=n;\
                SharedAccessKey=a2V5\"}\n";
    let case = cases(text, &CaseOptions::default()).unwrap().remove(0);
    assert_eq!(case.params()["target"], json!("namespace"));
    let shown = format!("{case:?} {}", Value::Object(case.params()));
    assert!(!shown.contains("a2V5"), "{shown}");
}

#[test]
fn results_carry_the_parameters_in_the_shape_of_the_file() {
    let case = cases("scenario: s\n", &CaseOptions::default()).unwrap().remove(0);
    let params = case.params();
    assert_eq!(params["relay"]["fan_out"], json!(32));
    assert_eq!(params["relay"]["batch"], json!({"events": 128, "wait": "10 ms"}));
    assert_eq!(params["load"]["payload"], json!("16 B"));
}

#[test]
fn mistakes_in_the_file_are_reported_with_their_place() {
    for (text, message) in [
        ("relay: {fanout: 2}", "s.yaml:2:9: `relay.fanout` is not a known key"),
        ("relays: {}", "s.yaml:2:1: `relays` is not a known key"),
        (
            "trials: many",
            "s.yaml:2:9: `trials` must be a whole number from 0 to 4294967295, not the string `many`",
        ),
        ("trials: 0", "s.yaml:2:9: `trials`: 0 is out of range"),
        ("load: {payload: 8 B}", "s.yaml:2:17: `load.payload`: 8 B is out of range"),
        ("load: {payload: {reply: x}}", "s.yaml:2:18: `load.payload.reply` is not a known key"),
        (
            "embedded: {profile: {round_trip: 2}}",
            "s.yaml:2:34: `embedded.profile.round_trip`: `2` lacks its unit; write `2 ms`, `2 s` or the like",
        ),
        (
            "embedded: {profile: {service_time: {send: {median: 1 ms, p90: 2 ms}}}}",
            "s.yaml:2:58: `embedded.profile.service_time.send.p90` is not a known key",
        ),
        (
            "embedded: {profile: {failures: {send_ratio: 2}}}",
            "s.yaml:2:45: `embedded.profile.failures.send_ratio`: a ratio is a number from 0 to 1, such as 0.001",
        ),
        (
            "embedded: {profile: {throughput_units: 1, quota: {egress_events_per_s: 5}}}",
            "s.yaml:2:43: `embedded.profile.quota`: `throughput_units` is given as well, and defines a quota, too",
        ),
        ("load: {mode: open}", "s.yaml:2:14: `load.mode`: an open load needs `load.rate`"),
        ("load: {mode: burst}", "s.yaml:2:14: `load.mode`: a load in bursts needs `load.rate`"),
        ("load: {mode: burst, rate: 9/s, burst: 0}", "s.yaml:2:39: `load.burst`: 0 is out of range"),
        (
            "load: {mode: burst, rate: 200000/s}",
            "s.yaml:2:27: `load.rate`: a second's worth of `load.rate` is more than 100000 events",
        ),
        (
            "load: {capacity: {percentile: 100}}",
            "s.yaml:2:31: `load.capacity.percentile`: 100 is out of range",
        ),
        (
            "load: {capacity: {precision: 5}}",
            "s.yaml:2:30: `load.capacity.precision` must be a percentage such as `5 %`, not the number 5",
        ),
        (
            "load: {capacity: {precision: 0.1 %}}",
            "s.yaml:2:30: `load.capacity.precision`: 0.1 % is out of range",
        ),
        (
            "load: {capacity: {highest: 9999/s}}",
            "s.yaml:2:28: `load.capacity.highest`: 9999/s is out of range",
        ),
        ("load: {capacity: {hold: 5 s}}", "s.yaml:2:25: `load.capacity.hold`: 5 s is out of range"),
        ("load: {capacity: {hols: 5 s}}", "s.yaml:2:19: `load.capacity.hols` is not a known key"),
        ("relay: {checkpoint: {every: 0 s}}", "s.yaml:2:29: `relay.checkpoint.every`: 0 s is out of range"),
        ("relay: {checkpoint_store: disk}", "s.yaml:2:27: `relay.checkpoint_store` can't be `disk`"),
        (
            "relay: {checkpoint_store: memory, ownership: greedy}",
            "s.yaml:2:27: `relay.checkpoint_store`: claims in the memory of one instance are invisible to others",
        ),
        (
            "target: {connection_string: \"Endpoint=sb://x;SharedAccessKeyName=n;SharedAccessKey=aw==\"}\n\
             relay: {checkpoint_store: blob}",
            "s.yaml:3:27: `relay.checkpoint_store`: only the embedded service is known to have a storage account",
        ),
        ("relay: {ownership: equal}", "s.yaml:2:20: `relay.ownership` can't be `equal`"),
        (
            "relay: {ownership: {mode: greedy, renews: 1 s}}",
            "s.yaml:2:35: `relay.ownership.renews` is not a known key",
        ),
        (
            "relay: {ownership: {mode: greedy, renew: 1 s, expire: 2 s}}",
            "s.yaml:2:55: `relay.ownership.expire`: one failed renewal would let a claim expire",
        ),
        (
            "relay: {ownership: {mode: greedy, identity: me}}",
            "s.yaml:2:45: `relay.ownership.identity`: instances are named by their numbers",
        ),
        (
            "relay: {ownership: {renew: 1 s}}",
            "s.yaml:2:9: `relay.ownership`: `static` has no claims to renew or expire",
        ),
        (
            "relay: {ownership: {mode: greedy, renew: 1 ms}}",
            "s.yaml:2:42: `relay.ownership.renew`: 1 ms is out of range",
        ),
        ("relay: {failure_ratio: 1.5}", "s.yaml:2:24: `relay.failure_ratio`: 1.5 is out of range"),
        (
            "hubs: {destination: {partitions: 16}}",
            "s.yaml:2:34: `hubs.destination.partitions`: a fan-out of 32 needs more partitions than the 16 of the destination",
        ),
        (
            "load: {mode: backlog, payload: 1 KiB, backlog: 2_000_000}",
            "s.yaml:2:48: `load.backlog`: 2000000 events of 1 KiB are more than a log of 1 GiB holds",
        ),
        (
            "target: {connection_string: \"${PARSHALL_TEST_NOT_SET}\"}",
            "s.yaml:2:30: `target.connection_string` needs the environment variable `PARSHALL_TEST_NOT_SET`, which is \
             not set",
        ),
        ("quick: {load: {bach: 3}}", "s.yaml:2:16: `load.bach` is not a known key"),
        ("quick: {sweeps: {}}", "s.yaml:2:17: `quick`: `sweeps` belongs to the scenario as a whole"),
        ("sweeps: {a: {relay.fanout: [1]}}", "s.yaml:2:14: `relay.fanout` is not a known key"),
        (
            "sweeps: {a: {relay.fan_out: [1, many]}}",
            "s.yaml:2:33: `relay.fan_out` must be a whole number from 0 to 4294967295, not the string `many`",
        ),
        (
            "sweeps: {a: {relay.fan_out: 1}}",
            "s.yaml:2:13: `sweeps.a`: must be a mapping of dotted paths, at least one of them to a list",
        ),
        (
            "sweeps: {a: {relay.fan_out: []}}",
            "s.yaml:2:29: `sweeps.a.relay.fan_out`: must be a list with at least one value",
        ),
        (
            "sweeps: {a: {relay.fan_out: {name: x}}}",
            "s.yaml:2:29: `sweeps.a.relay.fan_out`: lacks its `values`",
        ),
        (
            "sweeps: {a: {relay.fan_out: {title: x, values: [1]}}}",
            "s.yaml:2:37: `sweeps.a.relay.fan_out`: may only have the keys `name` and `values`",
        ),
        (
            "sweeps: {a: {relay.fan_out: [[1]]}}",
            "s.yaml:2:30: `sweeps.a.relay.fan_out`: can only be swept through single values, alone or with others that \
             they need",
        ),
        ("sweeps: {a: {relay.fan_out: [1], load.bach: 2}}", "s.yaml:2:34: `load.bach` is not a known key"),
        (
            "sweeps: {all: {relay.fan_out: [1]}}",
            "s.yaml:2:15: `sweeps.all`: is the name for all sweeps together",
        ),
        (
            "sweeps: {a: {relay.fan_out: [1, 1]}}",
            "s.yaml:2:13: `sweeps.a`: makes a second case of the name `fan_out=1`",
        ),
        ("published: [{case: fan_out=3}]", "s.yaml:2:20: `published[0].case`: there is no such case"),
    ] {
        let shown = told(text, &[]);
        assert!(
            shown == message || shown.starts_with(&format!("{message}:")),
            "{text}\n  {shown}\n  {message}"
        );
    }
    assert!(
        cases("relay: {}", &CaseOptions::default())
            .unwrap_err()
            .to_string()
            .contains("lacks the key `scenario`")
    );
}

#[test]
fn the_service_profile_is_set_and_swept_like_any_parameter() {
    let text = "scenario: s\nsweeps: {a: {embedded.profile.round_trip: [1 ms, 2 ms]}}\n";
    let options = set(&["embedded.profile.service_time.send={median: 1 ms, p99: 9 ms}"]);
    let cases = cases(text, &options).unwrap();
    let profiles: Vec<Value> =
        cases.iter().map(|case| case.params()["embedded"]["profile"].clone()).collect();
    assert_eq!(profiles.len(), 2);
    for (profile, round_trip) in profiles.iter().zip(["1 ms", "2 ms"]) {
        assert_eq!(profile["round_trip"], round_trip);
        assert_eq!(profile["service_time"], json!({"send": {"median": "1 ms", "p99": "9 ms"}}));
    }
    let options = set(&["embedded.profile.round_trip='2 ms'"]);
    assert!(crate::scenario::cases("scenario: s\n", &options).is_ok());
}

#[test]
fn where_progress_is_recorded_and_who_owns_what_are_set_and_swept_like_any_parameter() {
    let text = "scenario: s\nsweeps: {a: {relay.checkpoint_store: [file, blob]}}\n";
    let options = set(&["relay.ownership=greedy", "relay.ownership={mode: balanced, renew: 1 s}"]);
    let stored: Vec<Value> = cases(text, &options)
        .unwrap()
        .iter()
        .map(|case| {
            assert_eq!(
                case.params()["relay"]["ownership"],
                json!({"mode": "balanced", "renew": "1 s", "expire": "1 min"})
            );
            case.params()["relay"]["checkpoint_store"].clone()
        })
        .collect();
    assert_eq!(stored, ["file", "blob"]);
}

#[test]
fn a_prefetch_is_a_number_or_adapts_to_the_distance() {
    let text = "scenario: s\nsweeps: {a: {relay.prefetch: [100, adaptive]}}\n";
    let cases = cases(text, &all_sweeps()).unwrap();
    let prefetches: Vec<_> = cases
        .iter()
        .map(|case| (case.parameters.relay.prefetch, case.params()["relay"]["prefetch"].clone()))
        .collect();
    assert_eq!(prefetches, [(Prefetch::Events(100), json!(100)), (Prefetch::Adaptive, json!("adaptive"))]);
    let none = told("relay: {prefetch: lots}\n", &[]);
    assert!(none.contains("a number of events or `adaptive`"), "{none}");
    let command = told("relay: {prefetch: adaptive}\nsut: {name: a, command: [a]}\n", &[]);
    assert!(command.contains("a command gets a number"), "{command}");
}

#[test]
fn mistakes_in_arguments_are_reported_with_their_place() {
    for (argument, message) in [
        ("relay.fanout=2", "--set:1:7: `relay.fanout` is not a known key"),
        ("trials=0", "--set:1:8: `trials`: 0 is out of range"),
        ("sweeps.a=1", "--set:1:10: `sweeps.a`: a case has no such parameter"),
        ("relay.fan_out=40000", "--set:1:15: `relay.fan_out`: a fan-out of 40000 needs"),
    ] {
        let shown = told("hubs: {destination: {partitions: 100}}", &[argument]);
        assert!(shown.starts_with(message), "{shown}");
    }
}

#[test]
fn an_unknown_scenario_is_reported_with_the_known_ones() {
    let error = Scenario::load("fanout").unwrap_err();
    assert_eq!(
        error.to_string(),
        "there is no scenario `fanout`; there are: fan-out, queue-forward, consumer-strategies, ingestion, kafka-latency"
    );
    assert!(matches!(error, ScenarioError::UnknownScenario { meant: Some("fan-out"), .. }));
    assert!(matches!(Scenario::load("./none.yaml"), Err(ScenarioError::Settings(_))));
}
