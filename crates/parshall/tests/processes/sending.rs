//! `parshall send`, `tail` and `peek` against a running `parshall serve`: what goes in comes out, over each protocol, and what
//! can't is said.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::serving::{Serving, outcome, parshall};

fn serving() -> Serving {
    Serving::start(&["--hub", "orders:2", "--hub", "copies:1", "--queue", "work", "--kafka", "127.0.0.1:0"])
}

/// A command for the service.
fn command(serving: &Serving, arguments: &[&str]) -> Command {
    let mut command = parshall(arguments);
    command.env("EVENT_HUBS_CONNECTION_STRING", serving.announced("namespace"));
    command.env("PARSHALL_KAFKA_BOOTSTRAP_SERVERS", serving.announced("Kafka "));
    command
}

/// Runs a command with this input, and gives exit status, standard output and standard error.
fn fed(serving: &Serving, arguments: &[&str], input: &str) -> (Option<i32>, String, String) {
    let mut command = command(serving, arguments);
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // A command that is refused does not read it.
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    let output = child.wait_with_output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

/// The lines that a command prints.
fn lines(serving: &Serving, arguments: &[&str]) -> Vec<Value> {
    let (status, stdout, stderr) = outcome(&mut command(serving, arguments));
    assert_eq!((status, stderr.as_str()), (Some(0), ""), "{arguments:?}");
    stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn bodies(lines: &[Value]) -> Vec<String> {
    let mut bodies: Vec<String> = lines.iter().map(|line| line["body"].to_string()).collect();
    bodies.sort_unstable();
    bodies
}

#[test]
fn what_is_sent_over_one_protocol_is_read_over_each() {
    let serving = serving();
    for protocol in ["amqp", "kafka"] {
        let input = "{\"n\":1,\"who\":\"a\",\"of\":7}\n\n{\"n\":2,\"who\":\"b\",\"of\":true}\r\n{\"n\":3,\"who\":\"a\"}";
        let arguments = [
            "send",
            "orders",
            "--protocol",
            protocol,
            "--key-field=who",
            "--property-field=of",
            "--property=source=test",
            "--json",
        ];
        let (status, stdout, stderr) = fed(&serving, &arguments, input);
        assert_eq!((status, stderr.as_str()), (Some(0), ""));
        let result: Value = serde_json::from_str(&stdout).unwrap();
        assert_eq!((&result["acknowledged"], &result["skipped_lines"]), (&json!(3), &json!(0)));
    }
    for protocol in ["amqp", "kafka"] {
        let found = lines(&serving, &["tail", "orders", "--from", "first", "--protocol", protocol]);
        let numbers: Vec<_> = found.iter().map(|line| line["body"]["n"].as_i64().unwrap()).collect();
        assert_eq!((numbers.len(), numbers.iter().sum::<i64>()), (6, 12));
        // To clients of Kafka the service shows properties of AMQP as that encodes them.
        let has_source = |line: &&Value| line["properties"]["source"] == "test";
        let as_sent = if protocol == "amqp" { 6 } else { 3 };
        assert_eq!(found.iter().filter(has_source).count(), as_sent, "{found:?}");
        let of = |key: &str, partition: &Value| {
            found.iter().any(|line| line["body"]["who"] == key && line["partition"] == *partition)
        };
        for key in ["a", "b"] {
            assert!(of(key, &json!(0)) || of(key, &json!(1)));
        }
    }
    let only = lines(&serving, &["tail", "orders", "--from=first", "--property=of=7", "--body=text"]);
    assert_eq!(only[0]["body"], "{\"n\":1,\"who\":\"a\",\"of\":7}");
    assert!(lines(&serving, &["tail", "orders", "--from=first", "--key=nobody"]).is_empty());
    assert_eq!(lines(&serving, &["tail", "orders", "-n", "2"]).len(), 2);
    assert_eq!(lines(&serving, &["tail", "orders", "--from=end"]).len(), 0);
}

#[test]
fn what_tail_prints_can_be_sent_again() {
    let serving = serving();
    let (status, ..) = fed(&serving, &["send", "orders", "--format=raw", "--key=k"], "two\nlines \u{1}");
    assert_eq!(status, Some(0));
    let (_, printed, _) = outcome(&mut command(&serving, &["tail", "orders", "--from=first"]));
    let (status, stdout, _) = fed(&serving, &["send", "copies", "--format=events"], &printed);
    assert_eq!(status, Some(0), "{stdout}");
    let copies = lines(&serving, &["tail", "copies", "--from=first"]);
    assert_eq!((&copies[0]["body"], &copies[0]["key"]), (&json!("two\nlines \u{1}"), &json!("k")));
}

#[test]
fn a_queue_is_looked_at_without_anybody_noticing() {
    let serving = serving();
    let (status, ..) =
        fed(&serving, &["send", "work", "--id-field=id"], "{\"id\":\"a\"}\n{\"id\":\"b\"}\n{\"id\":\"c\"}\n");
    assert_eq!(status, Some(0));
    for _ in 0..2 {
        let peeked = lines(&serving, &["peek", "work", "--count=2"]);
        let ids: Vec<_> = peeked.iter().map(|line| line["message_id"].as_str().unwrap()).collect();
        assert_eq!(ids, ["a", "b"]);
        let second = peeked[1]["sequence_number"].as_i64().unwrap().to_string();
        let rest = lines(&serving, &["peek", "work", "--from", &second]);
        assert_eq!(bodies(&rest), [r#"{"id":"b"}"#, r#"{"id":"c"}"#]);
    }
    assert_eq!(bodies(&lines(&serving, &["tail", "work", "-n1"])), [r#"{"id":"c"}"#]);
    assert!(lines(&serving, &["peek", "work", "--dead-letter"]).is_empty());
}

#[test]
fn a_bad_line_ends_it_or_is_left_out() {
    let serving = serving();
    let input = "{\"n\":1}\n{\"n\":\n{\"n\":3}\n";
    let (status, stdout, stderr) = fed(&serving, &["send", "orders"], input);
    assert_eq!(status, Some(2));
    assert!(stdout.starts_with("1 events acknowledged"), "{stdout}");
    assert!(stderr.starts_with("  x line 2: EOF while parsing a value"), "{stderr}");
    let (status, stdout, stderr) = fed(&serving, &["send", "orders", "--on-error=skip"], input);
    assert_eq!(status, Some(1));
    assert!(
        stdout.starts_with("2 events acknowledged") && stdout.ends_with("1 lines left out\n"),
        "{stdout}"
    );
    assert!(stderr.starts_with("line 2 left out: "), "{stderr}");
    let (status, ..) = fed(&serving, &["send", "orders", "--format=lines"], input);
    assert_eq!(status, Some(0), "lines are anything");
    assert_eq!(lines(&serving, &["tail", "orders", "--from=first"]).len(), 6);
}

#[test]
fn what_is_not_there_is_told_with_status_3() {
    let serving = serving();
    for arguments in [
        &["send", "missing"][..],
        &["send", "missing", "--protocol=kafka"],
        &["tail", "missing"],
        &["peek", "missing"],
        &["send", "orders", "no such file"],
    ] {
        let (status, stdout, stderr) = fed(&serving, arguments, "{}\n");
        assert_eq!((status, stdout.as_str()), (Some(3), ""), "{arguments:?}: {stderr}");
        assert!(stderr.contains("missing") || stderr.contains("no such file"), "{stderr}");
    }
    for (arguments, reason) in [
        (&["tail", "orders", "--partition=2"][..], "no partition 2"),
        (&["tail", "orders", "--from=yesterday"], "it is none of"),
        (&["tail"], "no EntityPath"),
        (&["send", "orders", "--key=a", "--partition=1"], "cannot be used with"),
    ] {
        let (status, _, stderr) = fed(&serving, arguments, "");
        assert_eq!(status, Some(2), "{stderr}");
        assert!(stderr.contains(reason), "{stderr}");
    }
}

/// A `tail` that follows, with its output line by line.
fn following(serving: &Serving, arguments: &[&str]) -> (Child, impl Iterator<Item = Value> + use<>) {
    let mut command = command(serving, arguments);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    (child, lines.map(|line| serde_json::from_str(&line.unwrap()).unwrap()))
}

#[test]
fn what_comes_is_followed_until_there_is_enough_or_a_signal_comes() {
    let serving = serving();
    for entity in ["orders", "work"] {
        fed(&serving, &["send", entity], "{\"n\":1}\n");
        let (mut child, mut lines) = following(&serving, &["tail", entity, "--follow", "--from=first"]);
        assert_eq!(lines.next().unwrap()["body"]["n"], 1);
        fed(&serving, &["send", entity], "{\"n\":2}\n");
        assert_eq!(lines.next().unwrap()["body"]["n"], 2);
        kill_process(Pid::from_child(&child), Signal::INT).unwrap();
        assert_eq!(child.wait().unwrap().code(), Some(130));
        let mut stderr = String::new();
        child.stderr.take().unwrap().read_to_string(&mut stderr).unwrap();
        assert_eq!(stderr, "2 events\n");

        let (mut child, mut lines) =
            following(&serving, &["tail", entity, "--follow", "--from=first", "--count=3"]);
        fed(&serving, &["send", entity], "{\"n\":3}\n");
        let sum: i64 = lines.by_ref().map(|line| line["body"]["n"].as_i64().unwrap()).sum();
        assert_eq!(sum, 6);
        assert_eq!(child.wait().unwrap().code(), Some(0));
    }
}

#[test]
fn a_reader_that_had_enough_ends_it_quietly() {
    let serving = serving();
    let input: String = (0..2_000).map(|n| format!("{{\"n\":{n}}}\n")).collect();
    fed(&serving, &["send", "orders"], &input);
    let (mut child, mut lines) = following(&serving, &["tail", "orders", "--follow", "--from=first"]);
    assert!(lines.next().is_some());
    drop(lines);
    // It notices with the next line, at the latest.
    fed(&serving, &["send", "orders"], &input);
    assert_eq!(child.wait().unwrap().code(), Some(0));
    let mut stderr = String::new();
    child.stderr.take().unwrap().read_to_string(&mut stderr).unwrap();
    assert_eq!(stderr, "");
}

#[test]
fn sending_goes_on_and_following_keeps_its_place_when_the_service_starts_again() {
    let directory = tempfile::tempdir().unwrap();
    let data = directory.path().to_str().unwrap();
    let arguments = ["--hub", "orders:1", "--data-dir", data, "--kafka", "127.0.0.1:0"];
    let first = Serving::start(&arguments);
    let address = first.announced("AMQP ").to_owned();
    fed(&first, &["send", "orders"], "{\"n\":1}\n");
    let (mut tail, mut printed) =
        following(&first, &["tail", "orders", "--follow", "--from=first", "--count=3"]);
    assert_eq!(printed.next().unwrap()["body"]["n"], 1);
    let mut send = command(&first, &["send", "orders", "--json"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = send.stdin.take().unwrap();
    input.write_all(b"{\"n\":2}\n").unwrap();
    assert_eq!(printed.next().unwrap()["body"]["n"], 2);
    assert_eq!(first.end(Signal::KILL), None);
    input.write_all(b"{\"n\":3}\n").unwrap();
    drop(input);
    let second = Serving::start_at(&address, &arguments);
    assert_eq!(printed.next().unwrap()["body"]["n"], 3);
    assert!(printed.next().is_none());
    assert_eq!(tail.wait().unwrap().code(), Some(0));
    let output = send.wait_with_output().unwrap();
    let result: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((output.status.code(), &result["acknowledged"]), (Some(0), &json!(2)));
    assert_eq!(second.end(Signal::TERM), Some(0));
}
