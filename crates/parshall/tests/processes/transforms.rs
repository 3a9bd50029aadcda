//! `parshall relay` with a transform: events filtered, changed and divided among sinks, from process to process.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::serving::{Serving, outcome, parshall};

fn command(serving: &Serving, arguments: &[&str]) -> Command {
    let mut command = parshall(arguments);
    command.env("EVENT_HUBS_CONNECTION_STRING", serving.announced("namespace"));
    command
}

fn send(serving: &Serving, hub: &str, events: &[Value]) {
    let fields = ["region", "kind", "size", "device_id"].map(|name| format!("--property-field={name}"));
    let mut arguments = vec!["send", hub];
    arguments.extend(fields.iter().map(String::as_str));
    let mut command = command(serving, &arguments);
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    events.iter().for_each(|event| writeln!(stdin, "{event}").unwrap());
    drop(stdin);
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// What a hub has; waits for `count` events if there are to be so many.
fn events(serving: &Serving, hub: &str, count: Option<usize>) -> Vec<Value> {
    let count = count.map(|count| format!("--count={count}"));
    let mut arguments = vec!["tail", hub, "--from=first"];
    if let Some(count) = &count {
        arguments.extend(["--follow", count]);
    }
    let (status, stdout, stderr) = outcome(&mut command(serving, &arguments));
    assert_eq!((status, stderr.as_str()), (Some(0), ""), "{hub}");
    stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// A relay that runs.
fn relay(folder: &Path) -> Child {
    let mut command = parshall(&["relay", "mine.yaml"]);
    let mut child =
        command.current_dir(folder).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut stdout = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    while line != "Running.\n" {
        line.clear();
        assert!(stdout.read_line(&mut line).unwrap() > 0, "it ended before it was running");
    }
    child
}

#[test]
fn events_are_filtered_changed_and_divided_among_sinks_and_all_are_accounted_for() {
    let hubs = ["source:1", "orders:1", "rest:1", "everything:1"];
    let arguments: Vec<&str> = hubs.iter().flat_map(|hub| ["--hub", *hub]).collect();
    let serving = Serving::start(&arguments);
    let folder = tempfile::tempdir().unwrap();
    let namespace = serving.announced("namespace");
    let end =
        |hub: &str, more: &str| format!("event_hubs: {{connection_string: '{namespace}', hub: {hub}{more}}}");
    let pipeline = format!(
        "source:\n  {}\nsinks:\n- {}\n- {}\n- {}\n\
         transform:\n- filter: properties.region == \"eu\" && properties.size > 5\n\
         - rename: {{device_id: device}}\n- set: {{pipeline: '\"mine\"', number: sequence_number + 1}}\n- drop: [region]\n\
         checkpoint: {{store: {{files: ./checkpoints}}}}\npoison_events: {{dead_letter: ./letters.ndjson}}\n",
        end("source", ""),
        end("orders", ", when: properties.kind == \"order\""),
        end("rest", ", when: properties.kind != \"order\""),
        end("everything", ""),
    );
    std::fs::write(folder.path().join("mine.yaml"), pipeline).unwrap();
    let all = [
        json!({"n": 1, "region": "eu", "kind": "order", "size": 9, "device_id": "d-1"}),
        json!({"n": 2, "region": "us", "kind": "order", "size": 9}),
        json!({"n": 3, "region": "eu", "kind": "refund", "size": 9}),
        json!({"n": 4, "region": "eu", "kind": "order"}),
        json!({"n": 5, "region": "eu", "kind": "order", "size": 1}),
        json!({"n": 6, "region": "eu", "size": 7}),
    ];
    send(&serving, "source", &all);
    let child = relay(folder.path());
    let everything = events(&serving, "everything", Some(3));
    kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
    let output = child.wait_with_output().unwrap();
    let summary = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{summary}");
    for line in [
        "received     6 events",
        "forwarded    6 events",
        "filtered     9, by a filter or the condition of a sink",
        "poison       1 events refused permanently, 1 dead-lettered",
        "completed    6 events",
    ] {
        assert!(summary.contains(line), "{line} is not in:\n{summary}");
    }
    let numbers = |events: &[Value]| -> Vec<i64> {
        events.iter().map(|event| event["body"]["n"].as_i64().unwrap()).collect()
    };
    assert_eq!(numbers(&everything), [1, 3, 6]);
    assert_eq!(numbers(&events(&serving, "orders", None)), [1]);
    assert_eq!(numbers(&events(&serving, "rest", None)), [3, 6]);
    assert_eq!(
        everything[0]["properties"],
        json!({"kind": "order", "size": 9, "device": "d-1", "pipeline": "mine", "number": 1})
    );
    assert_eq!(everything[2]["properties"], json!({"size": 7, "pipeline": "mine", "number": 6}));
    let letters = std::fs::read_to_string(folder.path().join("letters.ndjson")).unwrap();
    let letter: Value = serde_json::from_str(&letters).unwrap();
    assert_eq!(
        (&letter["sequence_number"], &letter["condition"]),
        (&json!(3), &json!("parshall:transform-failed"))
    );
    assert!(letter["description"].as_str().unwrap().starts_with("transform[0].filter: "), "{letter}");
}

#[test]
fn a_mistake_in_an_expression_is_shown_where_it_stands() {
    let folder = tempfile::tempdir().unwrap();
    let end = "{connection_string: 'Endpoint=sb://localhost;SharedAccessKeyName=a;SharedAccessKey=b;\
               UseDevelopmentEmulator=true', hub: ";
    let told = |transform: &str, when: &str| {
        let pipeline = format!(
            "source:\n  event_hubs: {end}source}}\nsink:\n  event_hubs: {end}copy{when}}}\n\
             checkpoint: {{store: {{files: ./checkpoints}}}}\n{transform}"
        );
        std::fs::write(folder.path().join("mine.yaml"), pipeline).unwrap();
        let mut command = parshall(&["relay", "mine.yaml", "--check"]);
        let (status, stdout, stderr) = outcome(command.current_dir(folder.path()));
        let status = status.unwrap();
        format!("exit status: {status}\n--- standard output\n{stdout}--- standard error\n{stderr}")
    };
    insta::assert_snapshot!(
        "expression_with_an_unknown_name",
        told("transform:\n- filter: 'properties.region == \"eu\" && kee != \"test\"'\n", "")
    );
    insta::assert_snapshot!(
        "expression_with_a_wrong_operator",
        told("transform:\n- filter: key = \"a\"\n", "")
    );
    insta::assert_snapshot!("expression_that_breaks_off", told("transform:\n- filter: key ==\n", ""));
    insta::assert_snapshot!(
        "transform_that_is_in_order",
        told("transform:\n- drop: [debug]\n- filter: has(properties.region)\n", ", when: 'key == null'")
    );
}
