//! Consumers that forward nothing to where the lab looks: a relay into entities that no role of the lab reads stands for one
//! that writes to a database.

use serde_json::Value;

use super::rig::{Bench, Finished};

/// Four partitions into four others of the same numbers, so that both have the same sequence numbers.
const CONSUMER: &str = "\
source:
  event_hubs:
    connection_string: ${PARSHALL_SOURCE_CONNECTION_STRING}
    hub: ${PARSHALL_SOURCE_HUB}
    consumer_group: ${PARSHALL_CONSUMER_GROUP}
sink:
  event_hubs:
    connection_string: ${PARSHALL_SOURCE_CONNECTION_STRING}
    hub: database
checkpoint:
  store:
    blob:
      connection_string: \"${PARSHALL_CHECKPOINT_CONNECTION_STRING}\"
      container: ${PARSHALL_CHECKPOINT_CONTAINER}
start: earliest
route: same-partition
batch: {events: 32, wait: 5 ms}
";

const QUEUE_CONSUMER: &str = "\
source:
  service_bus:
    connection_string: ${PARSHALL_SOURCE_CONNECTION_STRING}
    queue: ${PARSHALL_SOURCE_QUEUE}
    concurrency: 20
sink:
  event_hubs:
    connection_string: ${PARSHALL_SOURCE_CONNECTION_STRING}
    hub: database
fan_out: 1
";

const HUBS: &str = "\
scenario: consumers
topology:
  entities: {in: {hub: events, partitions: 4}, stored: {hub: database, partitions: 4}}
  load: in
  pipeline: {from: in}
load: {payload: 24 B, batch: 10, max_lag: 1000}
";

const QUEUES: &str = "\
scenario: consumers
topology:
  entities: {in: {queue: orders}, stored: {hub: database, partitions: 1}}
  load: in
  pipeline: {from: in}
load: {payload: 24 B, batch: 10, max_lag: 200}
relay: {prefetch: 0}
";

/// Says again and again what is in the database.
const SAYING: &str = "parshall relay consumer.yaml &
trap 'exit 0' TERM
while :; do
  parshall hub show database --connection-string \"$PARSHALL_SOURCE_CONNECTION_STRING\" |
    sed -n 's/^\\([0-9]*\\)  *[0-9]*  *[0-9]*  *\\([0-9][0-9]*\\)  .*/parshall-done {\"partition\": \"\\1\", \"sequence_number\": \\2}/p'
done";

fn bench() -> Bench {
    let bench = Bench::new();
    bench.file("consumer.yaml", CONSUMER);
    bench.file("queue-consumer.yaml", QUEUE_CONSUMER);
    bench
}

/// The case passed, everything was done, and what can't be known of a consumer is not claimed.
fn assert_done<'a>(finished: &'a Finished, name: &str) -> &'a Value {
    let case = finished.case(name);
    assert_eq!(case["status"], "passed", "{:#}", case["findings"]);
    let delivery = case["delivery"].as_object().unwrap();
    assert!(delivery["sent"].as_u64().unwrap() > 0, "{delivery:?}");
    assert_eq!((&delivery["lost"], &delivery["done"]), (&0.into(), &delivery["sent"]), "{delivery:?}");
    for unknown in ["received", "duplicated", "reordered", "corrupted", "foreign", "unexpected", "misplaced"]
    {
        assert_eq!(delivery.get(unknown), None, "{unknown}");
    }
    assert!(case["consumed_per_s"]["median"].as_f64().unwrap() > 0.0);
    assert_eq!((case.get("forwarded_per_s"), case.get("received_per_s")), (None, None));
    assert!(case["cpu_percent"]["median"].as_f64().unwrap() > 0.0);
    let summary = finished.stdout.lines().find(|line| line.contains(" done of ")).unwrap_or_default();
    assert!(summary.contains("0 lost, ") && !summary.contains("corrupted"), "{}", finished.stdout);
    case
}

#[test]
fn what_a_consumer_says_or_checkpoints_is_done_and_has_a_latency() {
    let bench = bench();
    let says = bench.system("says", SAYING, ", done: line");
    let checkpoints = bench.system("checkpoints", "exec parshall relay consumer.yaml", ", done: checkpoint");
    // So many may wait that some are sent in the measured phase, however late it is said that any are done: no load sends them all in the
    // 100 ms before it.
    let hubs = HUBS.replace("max_lag: 1000", "max_lag: 20000");
    let finished = bench.run_scenario(&hubs, &["says", "checkpoints"], &format!("{says}{checkpoints}"));
    assert_eq!(finished.status, Some(0), "{}", finished.stderr);
    for (name, basis) in [("sut=says", "a line of its output"), ("sut=checkpoints", "every 100 ms")] {
        let case = assert_done(&finished, name);
        let latency = &case["latency_us"];
        assert!(latency["count"].as_u64().unwrap() > 0 && latency["p50"].as_u64().unwrap() > 0, "{latency}");
        assert_eq!(latency.get("negative"), None, "{latency}");
        let notes = finished.findings(name, "other");
        assert!(notes[0].starts_with("measured from outside: ") && notes[0].contains(basis), "{notes:?}");
    }
}

#[test]
fn a_message_that_a_consumer_completes_is_done_without_a_latency() {
    let bench = bench();
    let settles = bench.system("settles", "exec parshall relay queue-consumer.yaml", ", done: settlement");
    let finished = bench.run_scenario(QUEUES, &["settles"], &settles);
    assert_eq!(finished.status, Some(0), "{}", finished.stderr);
    let case = assert_done(&finished, "sut=settles");
    assert_eq!(case.get("latency_us"), None);
    let notes = finished.findings("sut=settles", "other");
    assert!(notes[0].contains("there are no latencies"), "{notes:?}");
}

#[test]
fn what_a_consumer_says_when_it_is_stopped_counts() {
    let bench = bench();
    let saying = SAYING.lines().skip(3).take(2).collect::<Vec<_>>().join("\n");
    let script = format!(
        "parshall relay consumer.yaml &
relay=$!
say() {{
{saying}
}}
trap 'wait $relay; say; exit 0' TERM
until said=$(say) && [ -n \"$said\" ]; do :; done
echo \"$said\"
wait"
    );
    let last = bench.system("last", &script, ", done: line");
    let phases = "phases: {warm_up: 100 ms, measure: 700 ms, drain: 500 ms}\n";
    let finished = bench.run_scenario(HUBS, &["last"], &format!("{last}{phases}"));
    assert_eq!(finished.status, Some(0), "{}", finished.stderr);
    let delivery = &finished.case("sut=last")["delivery"];
    assert_eq!((&delivery["lost"], &delivery["done"]), (&0.into(), &delivery["sent"]));
}

#[test]
fn events_that_a_consumer_leaves_out_are_lost() {
    let bench = bench();
    let some = CONSUMER.replace("    consumer_group", "    partitions: [0, 1, 2]\n    consumer_group");
    bench.file("some.yaml", &some);
    let system =
        |name: &str, script: &str, done: &str| bench.system(name, script, &format!(", done: {done}"));
    let definitions = [
        system("says", &SAYING.replace("consumer.yaml", "some.yaml"), "line"),
        system("checkpoints", "exec parshall relay some.yaml", "checkpoint"),
        "phases: {warm_up: 100 ms, measure: 700 ms, drain: 1 s}\n".to_owned(),
    ];
    let names = ["says", "checkpoints"];
    let finished = bench.run_scenario(HUBS, &names, &definitions.concat());
    assert_eq!(finished.status, Some(1), "{}", finished.stderr);
    for name in names.map(|name| format!("sut={name}")) {
        let case = finished.case(&name);
        assert_eq!(case["status"], "failed");
        let count = |kind: &str| case["delivery"][kind].as_u64().unwrap();
        assert_eq!(count("lost") + count("done"), count("sent"), "{:#}", case["delivery"]);
        assert!(count("lost") > 0 && count("done") > 0, "{:#}", case["delivery"]);
        let found = finished.findings(&name, "events-lost");
        assert!(found.len() == 1 && found[0].contains("acknowledged and never done"), "{found:?}");
    }
}

#[test]
fn a_consumer_that_stops_completing_has_lost_the_rest() {
    let bench = bench();
    let script = "parshall relay queue-consumer.yaml &
until parshall hub show database --connection-string \"$PARSHALL_SOURCE_CONNECTION_STRING\" | grep -q '^0  *[1-9]'; do :; done
kill $!
wait
exec sleep 1000";
    let stops = bench.system("stops", script, ", done: settlement");
    let definitions = format!("{stops}phases: {{warm_up: 100 ms, measure: 700 ms, drain: 1 s}}\n");
    let finished = bench.run_scenario(QUEUES, &["stops"], &definitions);
    assert_eq!(finished.status, Some(1), "{}", finished.stderr);
    let case = finished.case("sut=stops");
    let count = |kind: &str| case["delivery"][kind].as_u64().unwrap();
    assert!(count("lost") > 0 && count("done") > 0, "{:#}", case["delivery"]);
    assert_eq!(count("lost") + count("done"), count("sent"), "{:#}", case["delivery"]);
    assert_eq!(finished.findings("sut=stops", "events-lost").len(), 1);
}

#[test]
fn lines_that_say_nothing_or_too_much_fail_the_case() {
    let bench = bench();
    let more = SAYING.replace(" \\2}", " 9\\2}");
    let definitions = [
        bench.system("vague", "echo 'parshall-done all of it'; exec sleep 1000", ", done: line"),
        bench.system("boastful", &more, ", done: line"),
        bench.system("silent", "exec sleep 1000", ", done: checkpoint, ready_within: 500 ms"),
    ];
    let finished = bench.run_scenario(HUBS, &["vague", "boastful", "silent"], &definitions.concat());
    assert_eq!(finished.status, Some(1), "{}", finished.stderr);
    let vague = finished.findings("sut=vague", "role-failed");
    assert!(vague[0].contains("`parshall-done all of it`"), "{vague:?}");
    assert!(vague[0].contains(r#"expected is `parshall-done {"partition": "3", "sequence_number": 1234}`"#));
    let boastful = finished.findings("sut=boastful", "counters-disagree");
    assert!(
        boastful.iter().any(|it| it.contains("has done more than the lab has read")),
        "{:#}",
        finished.case("sut=boastful")
    );
    let silent = finished.findings("sut=silent", "role-failed");
    assert!(silent[0].contains("`silent` has done no event within 500 ms"), "{silent:?}");
}
