//! The producer as the load's end: every way of sending arrives, and what nobody waits for is not claimed.

use serde_json::Value;

use crate::running::{Finished, Run};

fn run(protocol: &str, producer: &str, load: &str) -> Finished {
    run_against("{}", &format!("protocol: {protocol}, producer: {producer}"), load)
}

/// The same against a service with this profile.
fn run_against(profile: &str, end: &str, load: &str) -> Finished {
    Run::start(&format!(
        "scenario: ways
target: embedded
embedded: {{profile: {profile}}}
topology:
  entities: {{in: {{hub: events, partitions: 3}}}}
  load: {{to: in, {end}}}
  sink: {{from: in}}
  measure: load
load: {{{load}}}
phases: {{warm_up: 300 ms, measure: 1 s, drain: 30 s}}
trials: 1
"
    ))
    .finish()
}

fn count(finished: &Finished, what: &str) -> u64 {
    finished.case()["delivery"][what].as_u64().unwrap_or_else(|| panic!("{what} of {:#}", finished.case()))
}

const WAYS: [(&str, &str); 6] = [
    ("{connections: per-event}", "mode: closed, callers: 20, batch: 1, payload: person"),
    ("{connections: single}", "mode: closed, callers: 2, batch: 50, payload: person"),
    (
        "{buffering: safe, delay: adaptive}",
        "mode: open, rate: 2000/s, batch: 1, in_flight: 500, payload: nothing",
    ),
    ("{connections: pooled, pool: 3}", "mode: closed, callers: 20, batch: 1, payload: nothing"),
    ("{buffering: safe, max_events: 50, delay: 20 ms}", "mode: closed, callers: 20, batch: 1, payload: 64 B"),
    ("{buffering: unsafe, delay: 20 ms}", "mode: closed, callers: 20, batch: 1, payload: 64 B"),
];

#[test]
fn every_way_of_sending_arrives_whole_and_once() {
    // What the protocols do for themselves is a connection, a send and a batch; the rest is the same code.
    for (protocol, ways) in [("amqp", &WAYS[..]), ("kafka", &WAYS[..3]), ("http", &WAYS[..3])] {
        for (producer, load) in ways {
            let finished = run(protocol, producer, load);
            let delivery = &finished.case()["delivery"];
            let wrong = ["lost", "duplicated", "corrupted", "unknown"].map(|what| count(&finished, what));
            assert_eq!(wrong, [0; 4], "{protocol} {producer}: {delivery}");
            let (sent, acknowledged) = (count(&finished, "sent"), count(&finished, "acknowledged"));
            assert!(sent > 0 && acknowledged == sent, "{protocol} {producer}: {delivery}");
            let opened = &finished.case()["trials"][0]["roles"]["load"]["connections_opened"];
            if producer.contains("per-event") {
                stages_add_up(protocol, finished.case());
                assert!(opened.as_u64().unwrap() > acknowledged / 2, "{protocol}: {opened}");
            } else if protocol == "amqp" {
                assert_eq!(
                    opened.as_u64(),
                    Some(if producer.contains("pool: 3") { 3 } else { 1 }),
                    "{producer}"
                );
            }
        }
    }
}

/// The parts of a call with a connection of its own add up to the call.
fn stages_add_up(protocol: &str, case: &Value) {
    let stages = &case["stages"];
    let mean = |stage: &str| stages[stage]["mean"].as_f64();
    let parts = ["turn", "connect", "tls", "sasl", "open", "claims", "attach", "send", "close"];
    let sum: f64 = parts.into_iter().filter_map(mean).sum();
    let call = mean("acknowledge").unwrap();
    assert!((sum / call - 1.0).abs() < 0.02, "{protocol}: {sum} of {call}: {stages:#}");
    let of_protocol: &[&str] = match protocol {
        "amqp" => &["connect", "sasl", "open", "claims", "attach", "send", "close"],
        "kafka" => &["open", "send", "close"],
        _ => &["connect", "send", "close"],
    };
    for stage in of_protocol {
        assert!(mean(stage).is_some(), "{protocol}: {stage} of {stages:#}");
    }
    assert_eq!(mean("tls"), None, "{protocol} is spoken plainly");
}

#[test]
fn callers_that_wait_for_a_timer_are_told_what_bounds_them() {
    let load = "mode: closed, callers: 10, batch: 1, payload: 64 B";
    let finished = run("amqp", "{buffering: safe, max_events: 1000, delay: 50 ms}", load);
    let said = finished.findings("limited-by-concurrency");
    assert_eq!(said.len(), 1);
    assert!(
        said[0].starts_with("10 callers with one send of 1 event in flight each, answered after "),
        "{said:?}"
    );
    // Ten callers that wait for 50 ms each are at most 200 sends a second.
    let produced = finished.case()["produced_per_s"]["median"].as_f64().unwrap();
    assert!(produced <= 210.0, "{produced}");
}

#[test]
fn a_call_over_a_connection_of_its_own_pays_for_every_exchange_with_a_far_service() {
    let producer = "{connections: per-event, one_by_one: true, client_time: {send: 1 ms, connection: 2 ms}}";
    let end = format!("protocol: http, tls: true, producer: {producer}");
    let finished = run_against("{name: cloud}", &end, "mode: closed, callers: 10, batch: 2");
    let wrong = ["lost", "duplicated", "corrupted", "unknown"].map(|what| count(&finished, what));
    assert_eq!(wrong, [0; 4], "{}", finished.case()["delivery"]);
    let call = &finished.case()["stages"]["acknowledge"];
    // The client's own 4 ms; TCP and TLS 1.2 in three exchanges of 20 ms, each send in one and 4 ms. Histograms round.
    assert!(call["min"].as_u64().unwrap() >= 111_000, "{call}");
}
