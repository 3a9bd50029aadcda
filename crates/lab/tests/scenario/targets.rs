//! A namespace that exists: its partitions are facts, and a run says beforehand what it does to it.

use lab::scenario::{Case, CaseOptions, Footprint, FoundHub, Scenario, ScenarioError};

use super::{cases, names, set};

const TARGET: &str =
    "target: {connection_string: Endpoint=sb://example;SharedAccessKeyName=a;SharedAccessKey=b}\n";

/// The cases where the hub `source` of the target has 4 partitions and `destination` has 8.
fn found(text: &str, arguments: &[&str]) -> Result<Vec<Case>, ScenarioError> {
    let text = format!("scenario: s\n{TARGET}{text}");
    let scenario = Scenario::parse("s.yaml", &text).unwrap();
    let target = cases(&format!("scenario: s\n{TARGET}"), &set(&[])).unwrap().remove(0).parameters.target;
    let hub = |(name, partitions): (&str, u32)| FoundHub {
        target: target.clone(),
        name: name.to_owned(),
        partitions,
    };
    let found = [("source", 4), ("destination", 8)].map(hub).to_vec();
    scenario.cases(&CaseOptions { found, ..set(arguments) })
}

#[test]
fn partitions_are_those_of_the_target_unless_the_case_itself_asks_for_others() {
    let partitions = |text: &str, arguments: &[&str]| -> Vec<u32> {
        let cases = found(text, arguments).unwrap_or_else(|error| panic!("{text}: {error}"));
        let topology = cases[0].parameters.topology();
        topology.in_order().iter().map(|(_, entity)| entity.partitions()).collect()
    };
    assert_eq!(partitions("relay: {fan_out: 2}\n", &[]), [4, 8]);
    assert_eq!(partitions("hubs: {source: {partitions: 32}}\nrelay: {fan_out: 2}\n", &[]), [4, 8]);
    let topology = "topology:\n  entities: {in: {hub: source, partitions: 32}, out: {hub: destination}}\n  load: in\n  \
                    pipeline: {from: in, to: out}\n  sink: out\nrelay: {fan_out: 2}\n";
    assert_eq!(partitions(topology, &[]), [4, 8]);
    assert_eq!(partitions("relay: {fan_out: 2}\n", &["hubs.source.partitions=4"]), [4, 8]);
    for (text, argument, expected) in [
        ("", "hubs.source.partitions=3", "the hub source of the target has 4 partitions, not 3"),
        (
            topology,
            "topology.entities.in.partitions=3",
            "the hub source of the target has 4 partitions, not 3",
        ),
        (
            "sweeps: {partitions: {hubs.destination.partitions: [4]}}\n",
            "relay.fan_out=2",
            "the hub destination of the target has 8 partitions, not 4",
        ),
        ("", "relay.fan_out=16", "a fan-out of 16 needs more partitions than the 8 of the destination"),
    ] {
        let error = found(text, &[argument]).unwrap_err().to_string();
        assert!(error.contains(expected), "{argument}: {error}");
    }
    let quick = found("relay: {fan_out: 2}\nquick: {relay: {fan_out: 64}}\n", &[]);
    assert!(quick.is_ok(), "what is not run need not fit the target");
}

#[test]
fn what_a_run_sends_and_leaves_behind_is_said_in_numbers_where_they_are_known() {
    let footprint = |text: &str, arguments: &[&str]| -> String {
        let cases = found(text, arguments).unwrap_or_else(|error| panic!("{text}: {error}"));
        let cases: Vec<&Case> = cases.iter().collect();
        Footprint { host: "example", cases: &cases }.to_string()
    };
    let open = "load: {mode: open, payload: 1 KiB}\nrelay: {fan_out: 2}\nphases: {warm_up: 5 s, measure: 60 s}\n\
                trials: 2\nsweeps: {rate: {load.rate: [1000/s, 2000/s]}}\n";
    assert_eq!(
        footprint(open, &[]),
        "\
This run uses a service that exists: example
  has      hub source (4 partitions), hub destination (8 partitions)
  sends    rate=1000/s: 1,000 events/s of 1 KiB for 65 s in each of 2 trials: 130,000 events, 127 MiB
           rate=2000/s: 2,000 events/s of 1 KiB for 65 s in each of 2 trials: 260,000 events, 254 MiB
           in all 390,000 events, 381 MiB; each is sent on to destination
  reads    source through consumer group $Default (pipeline), destination through consumer group $Default (sink)
  leaves   all events in source and destination until the retention of the hub removes them
           no checkpoints and no claims: the relay keeps them in files beneath the results, deleted after each trial
"
    );
    let saturating = footprint("relay: {fan_out: 2}\nload: {max_lag: 5000}\n", &[]);
    assert!(
        saturating.contains("16 B as fast as they are accepted for 65 s, at most 5,000 ahead"),
        "{saturating}"
    );
    assert!(saturating.contains("how many events that is depends on the service"), "{saturating}");
    let command = footprint("relay: {fan_out: 2}\nsut: {command: [./mine]}\nload: {mode: closed}\n", &[]);
    assert!(command.contains("whatever mine stores there itself"), "{command}");
    let queues = footprint("queues: {source: {name: jobs}}\nload: {mode: backlog, backlog: 2000}\n", &[]);
    for part in [
        "has      queue jobs, queue destination",
        "2,000 messages of 16 B as fast as they are accepted: 2,000 messages, 31.2 KiB",
        "leaves   in jobs and destination dead letters, what an interrupted run has not received",
    ] {
        assert!(queues.contains(part), "{part}\n{queues}");
    }
    let many: Vec<String> = (1..=20).map(|batch| batch.to_string()).collect();
    let many = footprint("relay: {fan_out: 2}\n", &[&format!("load.batch=[{}]", many.join(","))]);
    assert!(many.contains("batch=12:") && !many.contains("batch=13:"), "{many}");
    assert!(many.contains("and 8 more cases"), "{many}");
    assert_eq!(names(&found("", &["relay.fan_out=1"]).unwrap()), ["s"]);
}
