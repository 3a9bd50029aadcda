//! `parshall hub` against a running `parshall serve`: what is printed, what is refused, and the exit status of either.

use std::fmt::Write as _;
use std::net::TcpListener;

use crate::serving::{Serving, outcome, parshall};
use rustix::process::Signal;

/// Runs `parshall hub` with these arguments against a service, and gives what it prints and how it ends as one text,
/// with what differs from run to run put in other words.
fn hub(serving: &Serving, arguments: &[&str]) -> String {
    let connection_string = serving.announced("namespace");
    let mut command = parshall(&[&["hub"], arguments].concat());
    command.env("EVENT_HUBS_CONNECTION_STRING", connection_string);
    let (status, stdout, stderr) = outcome(&mut command);
    let mut text = format!("$ parshall hub {}\n", arguments.join(" "));
    write!(text, "{stdout}{stderr}exit status: {}\n\n", status.unwrap()).unwrap();
    let address = serving.announced("AMQP ");
    let port = address.rsplit(':').next().unwrap();
    without_instants(&text).replace(&format!(":{port}"), ":PORT")
}

/// Every `2026-11-21T03:43:46Z` becomes a word.
fn without_instants(text: &str) -> String {
    const FORM: &str = "0000-00-00T00:00:00Z";
    let matches = |part: &[u8]| {
        part.iter().zip(FORM.bytes()).all(|(byte, form)| match form {
            b'0' => byte.is_ascii_digit(),
            form => *byte == form,
        })
    };
    let mut rest = text.as_bytes();
    let mut result = Vec::new();
    while let Some(first) = rest.first() {
        match rest.get(..FORM.len()) {
            Some(part) if matches(part) => {
                result.extend_from_slice(b"INSTANT");
                rest = &rest[FORM.len()..];
            }
            _ => {
                result.push(*first);
                rest = &rest[1..];
            }
        }
    }
    String::from_utf8(result).unwrap()
}

#[test]
fn hubs_are_created_listed_shown_and_deleted_while_the_service_runs() {
    let serving = Serving::start(&["--hub", "events:2"]);
    let session: String = [
        &[
            "create",
            "Orders/2026",
            "--partitions",
            "3",
            "--consumer-group",
            "billing",
            "--consumer-group",
            "Audit",
        ][..],
        &["create", "logs", "--format", "json"],
        &["list"],
        &["list", "--format", "json"],
        &["show", "orders/2026"],
        &["show", "events", "--format", "json"],
        &["delete", "ORDERS/2026"],
        &["delete", "logs", "--format", "json"],
        &["list"],
    ]
    .into_iter()
    .map(|arguments| hub(&serving, arguments))
    .collect();
    insta::assert_snapshot!("session", session);
    assert_eq!(serving.end(Signal::TERM), Some(0));
}

#[test]
fn what_the_service_refuses_is_reported_in_its_words_with_status_3() {
    let serving = Serving::start(&["--hub", "events:2"]);
    let session: String = [
        &["create", "EVENTS"][..],
        &["create", "a b"],
        &["create", "a", "--consumer-group", "$Default"],
        &["show", "missing"],
        &["delete", "missing"],
    ]
    .into_iter()
    .map(|arguments| hub(&serving, arguments))
    .collect();
    insta::assert_snapshot!("refusals", session);
}

#[test]
fn a_key_that_may_only_read_shows_and_lists() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("namespace.yaml");
    let namespace = "hubs: [{name: events, partitions: 1}]\n\
                     authorization_rules: [{name: reader, key: value, rights: [listen]}]\n";
    std::fs::write(&path, namespace).unwrap();
    let serving = Serving::start(&["--config", path.to_str().unwrap()]);
    let session: String = [&["list"][..], &["create", "a"], &["delete", "events"]]
        .into_iter()
        .map(|arguments| hub(&serving, arguments))
        .collect();
    insta::assert_snapshot!("reader", session);
}

#[test]
fn a_service_that_is_not_there_is_one_clear_line_and_status_3() {
    let holder = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = holder.local_addr().unwrap();
    drop(holder);
    let string = format!(
        "Endpoint=sb://{address};SharedAccessKeyName=a;SharedAccessKey=b;UseDevelopmentEmulator=true"
    );
    let (status, stdout, stderr) = outcome(&mut parshall(&["hub", "list", "--connection-string", &string]));
    assert_eq!((status, stdout.as_str()), (Some(3), ""));
    assert_eq!(stderr.lines().count(), 1, "{stderr}");
    assert!(
        stderr.starts_with("  x the service can't be reached: ") && stderr.contains(&address.to_string()),
        "{stderr}"
    );
}

#[test]
fn a_wrong_command_line_has_status_2_and_shows_no_secret() {
    for (arguments, reason) in [
        (&["hub", "create", "a", "--partitions", "0"][..], "0 is not in 1..=32768"),
        (&["hub", "create"], "<NAME>"),
        (
            &["hub", "list", "--connection-string", "secret"],
            "--connection-string: part 1 of the connection string",
        ),
    ] {
        let (status, stdout, stderr) = outcome(&mut parshall(arguments));
        assert_eq!((status, stdout.as_str()), (Some(2), ""), "{stderr}");
        assert!(stderr.contains(reason) && !stderr.contains("secret"), "{stderr}");
    }
    let mut command = parshall(&["hub", "list"]);
    command.env("EVENT_HUBS_CONNECTION_STRING", "secret");
    let (status, _, stderr) = outcome(&mut command);
    assert_eq!(status, Some(2));
    assert!(stderr.starts_with("  x EVENT_HUBS_CONNECTION_STRING: part 1"), "{stderr}");
}
