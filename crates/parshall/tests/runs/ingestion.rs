//! The producer as the load's end: every way of sending arrives, and what nobody waits for is not claimed.

use super::honesty::rig::{Finished, Run};

fn run(protocol: &str, producer: &str, load: &str) -> Finished {
    Run::start(&format!(
        "scenario: ways
target: embedded
topology:
  entities: {{in: {{hub: events, partitions: 3}}}}
  load: {{to: in, protocol: {protocol}, producer: {producer}}}
  sink: {{from: in}}
  measure: load
load: {{{load}, payload: 64 B}}
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
    ("{connections: per-event}", "mode: closed, callers: 20, batch: 1"),
    ("{connections: single}", "mode: closed, callers: 2, batch: 50"),
    ("{buffering: safe, delay: adaptive}", "mode: open, rate: 2000/s, batch: 1, in_flight: 500"),
    ("{connections: pooled, pool: 3}", "mode: closed, callers: 20, batch: 1"),
    ("{buffering: safe, max_events: 50, delay: 20 ms}", "mode: closed, callers: 20, batch: 1"),
    ("{buffering: unsafe, delay: 20 ms}", "mode: closed, callers: 20, batch: 1"),
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
        }
    }
}

#[test]
fn callers_that_wait_for_a_timer_are_told_what_bounds_them() {
    let load = "mode: closed, callers: 10, batch: 1";
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
