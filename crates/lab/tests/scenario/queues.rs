//! Scenarios between queues: the published study, and what only hubs have.

use lab::scenario::{CaseOptions, Entities, LoadMode, Payload, Prefetch, Scenario, SystemTransport};
use serde_json::json;
use units::ByteSize;

use super::{all_sweeps, cases, names, set, told};

#[test]
fn the_published_study_is_the_first_sweep_of_queue_forward() {
    let scenario = Scenario::load("queue-forward").unwrap();
    let cases = scenario.cases(&CaseOptions::default()).unwrap();
    let concurrencies = [8, 96, 128, 256].map(|number| format!("concurrency={number}"));
    assert_eq!(names(&cases), concurrencies);
    for case in &cases {
        let parameters = &case.parameters;
        let topology = parameters.topology();
        assert_eq!((topology.of_load().name(), topology.of_sink().name()), ("queue1", "queue2"));
        assert_eq!(parameters.load.mode, LoadMode::Saturate);
        let payload = Payload::Size(ByteSize::from_bytes(12));
        assert_eq!(parameters.load.payload, payload);
        assert_eq!(parameters.relay.prefetch, Prefetch::Events(0));
        assert!(case.published.is_some());
    }
    assert_eq!(cases[3].parameters.relay.messages_at_once(), 256);
    assert_eq!(cases[3].parameters.relay.threads, Some(260));
}

#[test]
fn every_figure_that_the_study_published_stands_beside_a_case_that_has_its_settings() {
    let scenario = Scenario::load("queue-forward").unwrap();
    let cases = scenario.cases(&all_sweeps()).unwrap();
    let published = cases.iter().filter(|case| case.published.is_some());
    assert_eq!(published.count(), 16, "14 rows, two of which stand beside two systems");
    let case = |name: &str| {
        let mut cases = cases.iter();
        cases.find(|case| case.name == name).unwrap()
    };
    for (name, concurrency, threads, gibibytes) in [
        ("sut=java-beta.4-behaviour,memory=6 GiB", 256, 260, 6),
        ("sut=java-7.15.0-beta.5,memory=2 GiB", 256, 260, 2),
        ("threads=20", 96, 20, 6),
        ("cores=2", 128, 140, 2),
        ("memory=6 GiB", 256, 260, 6),
    ] {
        let parameters = &case(name).parameters;
        assert_eq!(parameters.sut.transport, SystemTransport::Tls, "{name}");
        assert_eq!(parameters.relay.messages_at_once(), concurrency, "{name}");
        assert_eq!(parameters.relay.threads, Some(threads), "{name}");
        let memory = Some(ByteSize::from_mebibytes(gibibytes * 1024));
        assert_eq!(parameters.limits.relay.memory, memory, "{name}");
    }
    let old = &case("sut=java-beta.4-behaviour,memory=6 GiB").parameters.sut;
    let options = old.env["JAVA_OPTIONS"].reveal();
    assert!(options.contains("sendAndManageRules.v2=false"), "{options}");
}

#[test]
fn parameters_between_queues_come_back_from_what_the_results_say() {
    let case = &cases(
        "scenario: s\nqueues: {source: {name: orders}, lock_duration: 30 s}\n",
        &set(&["relay.prefetch=0"]),
    )
    .unwrap()[0];
    let params = case.params();
    assert_eq!(
        params["queues"],
        json!({
            "source": {"name": "orders"},
            "destination": {"name": "destination"},
            "lock_duration": "30 s",
            "maximum_delivery_count": 10,
            "largest_message": "256 KiB",
        })
    );
    assert!(!params.contains_key("hubs"));
    let relay = params["relay"].as_object().unwrap();
    assert_eq!(relay["prefetch"], 0);
    assert!(!relay.contains_key("fan_out") && !relay.contains_key("batch"));
    let json = serde_json::to_string(&case.parameters).unwrap();
    let parameters: lab::scenario::Parameters = serde_json::from_str(&json).unwrap();
    assert_eq!(parameters, case.parameters);
    let Entities::Queues(queues) = parameters.entities else {
        panic!("it is queues");
    };
    assert_eq!(queues.maximum_delivery_count, 10);
}

#[test]
fn what_does_not_fit_queues_is_reported_with_its_place() {
    let both = told("hubs: {source: {partitions: 4}}\nqueues: {}\n", &[]);
    assert!(both.contains("hubs or queues, not both"), "{both}");
    let circle = told("queues: {source: {name: a}, destination: {name: A}}\n", &[]);
    assert!(circle.contains("so messages would loop"), "{circle}");
    let unnamed = told("queues: {source: {}}\n", &[]);
    assert!(unnamed.contains("queues.source.name"), "{unnamed}");
    let without_prefetch = told("relay: {prefetch: 0}\n", &[]);
    assert!(without_prefetch.contains("`relay.prefetch`: 0 is out of range"), "{without_prefetch}");
    let adaptive = told("queues: {}\nrelay: {prefetch: adaptive}\n", &[]);
    assert!(adaptive.contains("`relay.prefetch`: `adaptive` is for hubs"), "{adaptive}");
    let idle = told("queues: {}\nrelay: {concurrency: 0}\n", &[]);
    assert!(idle.contains("relay.concurrency"), "{idle}");
}
