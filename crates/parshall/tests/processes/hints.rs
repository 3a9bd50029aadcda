//! What a newcomer does wrong, and whether the message says what to do: the whole output of each is a snapshot.

use std::fs;
use std::net::TcpListener;

use crate::serving::{Serving, outcome, parshall};

/// A service that listens in every way that AMQP has.
fn service(directory: &tempfile::TempDir) -> Serving {
    let tls = directory.path().join("tls");
    let any = "127.0.0.1:0";
    Serving::start_with_log(&[
        "--hub",
        "a:1",
        "--hub",
        "b:1",
        "--amqps",
        any,
        "--websocket",
        any,
        "--blob",
        any,
        "--tls-directory",
        tls.to_str().unwrap(),
    ])
}

/// A service without TLS. One with a certificate answers TLS on its port for plain AMQP as well.
fn service_without_tls() -> Serving {
    Serving::start_with_log(&["--hub", "a:1", "--hub", "b:1"])
}

/// The port announced under a label.
fn port<'a>(serving: &'a Serving, label: &str) -> &'a str {
    let url = serving.announced(label);
    let url = url.split_once("//").map_or(url, |(_, rest)| rest);
    url.split('/').next().and_then(|authority| authority.rsplit(':').next()).unwrap()
}

/// A connection string for this port, with TLS or without.
fn string(port: &str, tls: bool) -> String {
    let emulator = if tls { "" } else { ";UseDevelopmentEmulator=true" };
    format!(
        "Endpoint=sb://localhost:{port}/;SharedAccessKeyName=RootManageSharedAccessKey;\
         SharedAccessKey=SAS_KEY_VALUE{emulator}"
    )
}

/// What a command prints, and its exit status, as one text without what varies.
fn said(arguments: &[&str], varying: &[(&str, &str)]) -> String {
    let (status, stdout, stderr) = outcome(&mut parshall(arguments));
    let text = format!("{stdout}{stderr}exit status: {}\n", status.unwrap());
    varying.iter().fold(text, |text, (value, name)| text.replace(value, name))
}

#[test]
fn a_client_that_connects_in_the_wrong_way_says_what_to_change() {
    let directory = tempfile::tempdir().unwrap();
    let (serving, without_tls) = (service(&directory), service_without_tls());
    let plain = port(&without_tls, "AMQP ");
    let tls = port(&serving, "AMQP over TLS");
    let socket = port(&serving, "AMQP over WS");
    let varying = [(plain, "PLAIN"), (tls, "TLS"), (socket, "WEBSOCKET")];
    let mut text = String::new();
    for (title, port, with_tls) in [
        ("plain AMQP to the port for TLS", tls, false),
        ("TLS to a service without TLS", plain, true),
        ("a development certificate that is not trusted", tls, true),
        ("AMQP to the port for WebSocket", socket, false),
    ] {
        let string = string(port, with_tls);
        let shown = said(&["hub", "list", "--connection-string", &string], &varying);
        text.push_str(&format!("# hub: {title}\n{shown}\n"));
    }
    let file = directory.path().join("pipeline.yaml");
    let path = file.to_str().unwrap();
    let checkpoints = directory.path().join("checkpoints");
    let checkpoints = checkpoints.to_str().unwrap();
    for (title, port, with_tls, transport) in [
        ("plain AMQP to the port for TLS", tls, false, "tcp"),
        ("TLS to a service without TLS", plain, true, "tcp"),
        ("a development certificate that is not trusted", tls, true, "tcp"),
        ("AMQP to the port for WebSocket", socket, false, "tcp"),
        ("a WebSocket to the port for TLS", tls, false, "web-socket"),
    ] {
        let source = string(plain, false);
        let sink = string(port, with_tls);
        let pipeline = format!(
            "source: {{event_hubs: {{connection_string: '{source}', hub: a}}}}\n\
             sink: {{event_hubs: {{connection_string: '{sink}', hub: b, transport: {transport}}}}}\n\
             checkpoint: {{store: {{files: {checkpoints}}}}}\n"
        );
        fs::write(&file, pipeline).unwrap();
        let shown = said(&["relay", path], &varying);
        text.push_str(&format!("# relay: {title}\n{shown}\n"));
    }
    insta::assert_snapshot!("connections", text);
}

#[test]
fn the_service_says_which_client_speaks_another_protocol_once_per_address() {
    let directory = tempfile::tempdir().unwrap();
    let (mut serving, mut without_tls) = (service(&directory), service_without_tls());
    let plain = port(&without_tls, "AMQP ").to_owned();
    let tls = port(&serving, "AMQP over TLS").to_owned();
    let socket = port(&serving, "AMQP over WS").to_owned();
    let blobs = port(&serving, "Blobs").to_owned();
    let mut text = String::new();
    for (port, with_tls) in [(&tls, false), (&plain, true), (&socket, false), (&blobs, true)] {
        // The second is no news.
        for _ in 0..2 {
            outcome(&mut parshall(&["hub", "list", "--connection-string", &string(port, with_tls)]));
        }
        let log = if port == &plain { &mut without_tls } else { &mut serving };
        let line = log.log_until("a client speaks");
        text.push_str(line.split_once("a client").unwrap().1.split(" peer=").next().unwrap().trim());
        text.push('\n');
    }
    insta::assert_snapshot!("misdirected", text);
    for serving in [serving, without_tls] {
        let rest = serving.end_with_log();
        assert!(!rest.contains("a client speaks"), "{rest}");
    }
}

#[test]
fn a_file_of_another_kind_is_recognised() {
    let directory = tempfile::tempdir().unwrap();
    let file = |name: &str, content: &str| {
        let path = directory.path().join(name);
        fs::write(&path, content).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let pipeline = file("pipeline.yaml", "source: {}\nsink: {}\n");
    let scenario = file("scenario.yaml", "scenario: mine\nhubs: {}\n");
    let namespace = file("namespace.yaml", "hubs: []\n");
    let mut text = String::new();
    for arguments in [
        &["run", &pipeline][..],
        &["show", &pipeline],
        &["relay", &scenario],
        &["relay", &namespace],
        &["relay", "fan-out"],
        &["serve", "--config", &pipeline],
        &["serve", "--config", &scenario],
        &["run", &namespace],
    ] {
        let varying = [(directory.path().to_str().unwrap(), ".")];
        let command =
            varying.iter().fold(arguments.join(" "), |text, (value, name)| text.replace(value, name));
        text.push_str(&format!("$ parshall {command}\n{}\n", said(arguments, &varying)));
    }
    insta::assert_snapshot!("other_kinds", text);
}

#[test]
fn what_is_no_address_or_number_is_corrected() {
    let directory = tempfile::tempdir().unwrap();
    let pipeline = directory.path().join("pipeline.yaml");
    let ends = "source: {event_hubs: {connection_string: 'Endpoint=sb://h;SharedAccessKeyName=a;SharedAccessKey=b', hub: a}}\n";
    fs::write(&pipeline, format!("{ends}{}metrics: 9464\n", ends.replace("source", "sink"))).unwrap();
    let path = pipeline.to_str().unwrap();
    let mut text = String::new();
    for arguments in [
        &["serve", "--amqp", "5672"][..],
        &["serve", "--blob", "localhost:10000"],
        &["serve", "--http", "127.0.0.1"],
        &["serve", "--websocket", "http://127.0.0.1:80"],
        &["relay", path, "--check"],
        &["run", "fan-out", "--trials", "0"],
        &["run", "fan-out", "--trials", "101"],
        &["hub", "create", "a", "--partitions", "0"],
    ] {
        let varying = [(directory.path().to_str().unwrap(), ".")];
        let command =
            varying.iter().fold(arguments.join(" "), |text, (value, name)| text.replace(value, name));
        text.push_str(&format!("$ parshall {command}\n{}\n", said(arguments, &varying)));
    }
    insta::assert_snapshot!("addresses_and_numbers", text);
}

#[test]
fn a_taken_port_names_the_process_that_has_it() {
    let holder = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = holder.local_addr().unwrap().to_string();
    let id = format!("process {} (", std::process::id());
    for (option, arguments) in [
        ("--amqp", &["--http", "127.0.0.1:0"][..]),
        ("--http", &["--amqp", "127.0.0.1:0"]),
        ("--websocket", &["--amqp", "127.0.0.1:0", "--http", "127.0.0.1:0"]),
    ] {
        let (status, _, stderr) = outcome(&mut parshall(&[&["serve", option, &address], arguments].concat()));
        assert_eq!(status, Some(3), "{stderr}");
        assert!(stderr.contains(&id), "{stderr}");
        assert!(stderr.contains(&format!("; `{option} 127.0.0.1:0` takes any free port")), "{stderr}");
    }
}
