//! The scenario `kafka-latency`: the rows of the published study, and sweeps whose cases are pairs.

use lab::results::Figure;
use lab::scenario::{Case, CaseOptions, LoadMode, Payload, Protocol, Scenario};
use units::ByteSize;

use super::all_sweeps;

/// What the load of a case is told, and what the sink.
fn properties(case: &Case) -> [Vec<(String, String)>; 2] {
    let topology = case.parameters.topology();
    [&topology.load, &topology.sinks[0]].map(|end| {
        let properties = end.kafka.properties.iter();
        properties.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
    })
}

fn of(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

#[test]
fn the_eight_rows_of_the_published_study_are_the_first_sweep() {
    let scenario = Scenario::load("kafka-latency").unwrap();
    let cases = scenario.cases(&CaseOptions::default()).unwrap();
    assert_eq!(cases.len(), 8);
    for case in &cases {
        let published = case.published.as_ref().unwrap();
        let load = &case.parameters.load;
        let rate = load.rate.unwrap().events_per_second();
        assert_eq!(published.get(Figure::OfferedPerS), Some(rate), "{}", case.name);
        assert_eq!(
            (load.mode, f64::from(load.burst_events())),
            (LoadMode::Burst, rate),
            "a second's worth at once"
        );
        assert_eq!(load.payload, Payload::Size(ByteSize::from_kibibytes(1)));
        let topology = case.parameters.topology();
        assert!(topology.pipeline.is_none() && topology.of_load().partitions() == 1);
        assert_eq!(topology.load.connection.protocol, Protocol::Kafka);
        for figure in [Figure::LatencyMin, Figure::LatencyMean, Figure::LatencyP99, Figure::LatencyMax] {
            assert!(published.get(figure).is_some(), "{}: {figure:?}", case.name);
        }
    }
    assert_eq!(cases[0].published.as_ref().unwrap().get(Figure::LatencyP99), Some(45_306.9), "microseconds");
    let optimised = [
        of(&[("acks", "0"), ("linger.ms", "0"), ("socket.nagle.disable", "true")]),
        of(&[("fetch.wait.max.ms", "10"), ("socket.nagle.disable", "true")]),
    ];
    assert_eq!(properties(&cases[0]), optimised);
    assert_eq!(properties(&cases[2]), optimised, "published twice, with other figures");
    assert_eq!(properties(&cases[1]), [of(&[("acks", "0")]), of(&[("fetch.wait.max.ms", "100")])]);
    let quick = scenario.cases(&CaseOptions { quick: true, ..CaseOptions::default() }).unwrap();
    let phases = quick.iter().map(|case| case.parameters.phases.warm_up + case.parameters.phases.measure);
    let seconds: u64 = phases.map(|time| time.as_secs()).sum();
    assert!(seconds < 100, "about two minutes with starts and ends, but the phases alone take {seconds} s");
}

#[test]
fn every_other_sweep_changes_one_thing() {
    let scenario = Scenario::load("kafka-latency").unwrap();
    let cases = scenario.cases(&all_sweeps()).unwrap();
    let of_sweep = |sweep: &str| -> Vec<&str> {
        let cases = cases.iter().filter(|case| case.sweep.as_deref() == Some(sweep));
        cases.map(|case| case.name.as_str()).collect()
    };
    assert_eq!(of_sweep("acks"), ["acks=0", "acks=1", "acks=all"]);
    assert_eq!(of_sweep("linger"), ["linger.ms=0", "linger.ms=5"]);
    assert_eq!(of_sweep("fetch_wait").len(), 3);
    assert_eq!(of_sweep("nagle"), ["nagle=default", "nagle=off", "nagle=on"]);
    assert_eq!(of_sweep("rate"), ["rate=100/s", "rate=300/s", "rate=10000/s"]);
    assert_eq!(of_sweep("partitions"), ["partitions=1", "partitions=32"]);
    assert_eq!(of_sweep("load"), ["mode=burst", "mode=one-by-one", "mode=open"]);
    let loads = ["300-optimised", "open-300", "open-10000"];
    let services =
        loads.map(|load| ["embedded", "apache-kafka"].map(|it| format!("load={load},service={it}")));
    assert_eq!(of_sweep("service"), services.concat());
    let clients =
        ["librdkafka", "native", "kafka-clients", "confluent-kafka"].map(|name| format!("client={name}"));
    assert_eq!(of_sweep("client"), clients);
    for case in cases.iter().filter(|case| !["study", "load"].contains(&case.sweep.as_deref().unwrap())) {
        // One of them is the study's.
        let is_studys = case.name.starts_with("load=300-optimised");
        let mode = if is_studys { LoadMode::Burst } else { LoadMode::Open };
        assert_eq!(case.parameters.load.mode, mode, "{}", case.name);
        assert!(case.published.is_none(), "{}", case.name);
    }
}
