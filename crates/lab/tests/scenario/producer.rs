//! The producer of a load: what it may be told, and what it can't send.

use std::time::Duration;

use connect::producer::{self, BatchDelay};
use lab::scenario::{CaseOptions, ClientTime, Payload, Protocol, Scenario};
use serde_json::{from_value, json, to_value};

use super::topology::parameters;
use super::{all_sweeps, cases, names, told};

const PRODUCER: &str = "topology:
  entities: {in: {hub: in, partitions: 2}}
  load: {to: in, producer: {buffering: safe, max_events: 50, delay: 100 ms}}
  sink: {from: in}
  measure: load
load: {mode: closed, callers: 100, batch: 1, payload: 200 B}
";

#[test]
fn a_producer_is_what_the_scenario_says_of_it() {
    let options = |arguments: &[&str]| {
        let topology = parameters(PRODUCER, arguments).topology();
        topology.load.producer.unwrap().options()
    };
    let safe = options(&[]);
    assert_eq!(safe.connections, producer::Connections::Single);
    let batching = safe.buffering.batching().unwrap();
    assert_eq!((batching.max_events, batching.delay), (50, BatchDelay::After(Duration::from_millis(100))));
    let adaptive = options(&["topology.load.producer.delay=adaptive"]);
    assert_eq!(adaptive.buffering.batching().unwrap().delay, BatchDelay::Adaptive);
    let pooled = options(&[
        "topology.load.producer.buffering=none",
        "topology.load.producer.connections=pooled",
        "topology.load.producer.pool=7",
    ]);
    assert_eq!((pooled.connections.kept(), pooled.buffering), (7, producer::Buffering::None));
    assert_eq!(pooled.retry.attempts, 1, "what fails is seen");
}

#[test]
fn a_call_with_a_connection_of_its_own_may_send_several_events_in_turn() {
    let arguments = [
        "load.batch=50",
        "topology.load.producer={connections: per-event, one_by_one: true, client_time: {send: 2400 us}}",
    ];
    let producer = parameters(PRODUCER, &arguments).topology().load.producer.unwrap();
    assert!(producer.one_by_one);
    let ClientTime { send, connection } = producer.client_time;
    assert_eq!((send, connection), (Duration::from_micros(2_400), Duration::ZERO));
}

#[test]
fn a_producer_speaks_http_and_nothing_else_does() {
    let topology = parameters(PRODUCER, &["topology.load.protocol=http"]).topology();
    assert_eq!(topology.load.connection.protocol, Protocol::Http);
    for (arguments, message) in [
        (["topology.sink.protocol=http"], "`topology.sink.protocol`: only a producer speaks HTTP"),
        (["topology.load={to: in, protocol: http}"], "`topology.load.protocol`: only a producer speaks HTTP"),
    ] {
        let error = told(PRODUCER, &arguments);
        assert!(error.contains(message), "{arguments:?}: {error}");
    }
    let error = told("hubs: {protocol: http}\n", &[]);
    assert!(error.contains("`hubs.protocol`: only a producer speaks HTTP"), "{error}");
}

#[test]
fn a_payload_has_a_size_or_a_name() {
    for (text, payload, bytes, is_beside) in [
        ("200 B", Payload::Size("200 B".parse().unwrap()), Some(200), false),
        ("person", Payload::Person, Some(179), true),
        ("nothing", Payload::Nothing, Some(4), true),
        ("{replay: a.ndjson}", Payload::Replay { replay: "a.ndjson".into() }, None, true),
    ] {
        let said =
            if let Payload::Replay { .. } = payload { json!({"replay": "a.ndjson"}) } else { json!(text) };
        assert_eq!(from_value::<Payload>(said.clone()).unwrap(), payload);
        assert_eq!(from_value::<Payload>(to_value(&payload).unwrap()).unwrap(), payload, "{said}");
        assert_eq!(payload.size().map(|size| size.bytes()), bytes, "{said}");
        assert_eq!(payload.is_identified_beside(), is_beside, "{said}");
    }
    let error = told(PRODUCER, &["load.payload=true"]);
    assert!(
        error.contains("a size such as `16 B`, `person`, `nothing`, or `{replay: events.ndjson}`"),
        "{error}"
    );
}

#[test]
fn every_case_of_the_study_has_a_name_of_its_own() {
    let cases = Scenario::load("ingestion").unwrap().cases(&all_sweeps()).unwrap();
    let mut all = names(&cases);
    let count = all.len();
    all.sort_unstable();
    all.dedup();
    assert_eq!(all.len(), count, "{all:?}");
    let open = cases.iter().filter(|case| case.sweep.as_deref() == Some("open"));
    assert!(open.clone().all(|case| case.parameters.load.rate.is_some()));
    assert_eq!(open.count(), 10);
}

#[test]
fn what_a_producer_can_not_send_is_refused_where_it_is_said() {
    for (argument, message) in [
        (
            "topology.load.producer.connections=per-event",
            "`topology.load.producer.buffering`: an event with a connection of its own waits for no others",
        ),
        ("load.batch=50", "`load.batch`: the producer is given event by event here"),
        ("load.payload={replay: events.ndjson}", "`load.payload`: a producer sends payloads of one size"),
        ("load.callers=0", "`load.callers`: "),
        ("topology.load.producer.pool=0", "`topology.load.producer.pool`: "),
        ("topology.load.producer.delay=soon", "`topology.load.producer.delay`: `soon` is not a duration"),
        ("topology.load.producer.linger=1 ms", "`topology.load.producer.linger`"),
        (
            "topology.load.producer.one_by_one=true",
            "`topology.load.producer.one_by_one`: over connections that are kept",
        ),
        (
            "topology.load.producer.max_pending=5",
            "`topology.load.producer.max_pending`: only calls that wait for nothing",
        ),
    ] {
        let error = told(PRODUCER, &[argument]);
        assert!(error.contains(message), "{argument}: {error}");
    }
}

/// Whatever is spoken.
#[test]
fn a_program_can_be_the_producer() {
    let text = format!(
        "scenario: s\n{PRODUCER}clients: {{mine: {{command: [./mine]}}}}\nsweeps:\n  client:\n    \
         topology.load.protocol: [amqp, http, kafka]\n    topology.load.client: [native, mine]\n"
    );
    let cases = cases(&text, &CaseOptions::default()).unwrap();
    assert_eq!(names(&cases)[..2], ["protocol=amqp,client=native", "protocol=amqp,client=mine"]);
    let has_program = |client: &str| {
        let of_client = cases.iter().filter(|case| case.name.ends_with(client));
        let ends = of_client.map(|case| case.parameters.topology().load);
        ends.map(|end| end.kafka.client.program().is_some()).collect::<Vec<_>>()
    };
    assert_eq!((has_program("native"), has_program("mine")), (vec![false; 3], vec![true; 3]));
    let text = format!("{PRODUCER}clients: {{mine: {{command: [./mine]}}}}\n");
    for (arguments, message) in [
        (&["topology.load.client=librdkafka"][..], "`topology.load.client`: it is for ends that speak Kafka"),
        (
            &["topology.load={to: in, client: mine}", "load.callers=1"],
            "`topology.load.client`: it is for ends that speak Kafka",
        ),
        (
            &["topology.load.client=mine", "topology.load.transport=web-socket"],
            "`topology.load.transport`: a client that is a program is told how it reaches the service over TCP",
        ),
        (
            &["topology.load.client=mine", "topology.load.producer.buffering=unsafe"],
            "`topology.load.producer.buffering`: a program says of each call whether its events are stored",
        ),
        (&["topology.sink={from: in, client: mine}"], "it is for ends that speak Kafka"),
    ] {
        let error = told(&text, arguments);
        assert!(error.contains(message), "{arguments:?}: {error}");
    }
}
