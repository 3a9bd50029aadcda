//! `parshall serve` as a process: what it prints, how it ends, and what it says when it can't begin.
//!
//! Every address is port 0 or one that the test itself holds, and waiting is for a line of output or for the end of
//! the process, never for a time.

use std::net::{TcpListener, TcpStream};

use crate::serving::{Serving, refusal, serve};
use crate::stop_signals::stop_signals;
use rustix::process::Signal;

#[test]
fn it_announces_what_to_paste_and_stops_cleanly_on_every_stop_signal() {
    for signal in stop_signals() {
        let serving = Serving::start(&["--hub", "orders:2"]);
        let address = serving.announced("AMQP ");
        let port = address.strip_prefix("127.0.0.1:").unwrap();
        let expected = format!(
            "Endpoint=sb://localhost:{port}/;SharedAccessKeyName=RootManageSharedAccessKey;\
             SharedAccessKey=SAS_KEY_VALUE;EntityPath=orders;UseDevelopmentEmulator=true"
        );
        assert_eq!(serving.announced("orders (2 partitions)"), expected);
        TcpStream::connect(address).unwrap();
        assert_eq!(serving.end(signal), Some(0));
    }
}

#[test]
fn health_and_metrics_are_where_it_says() {
    let serving = Serving::start(&[]);
    for (label, content) in [
        ("Health", r#"{"status":"healthy","message":"Service is healthy."}"#),
        ("Metrics", r#"parshall_hub_events_in_total{hub="events",partition="3"} 0"#),
    ] {
        let answer = serving.answer(label);
        assert!(answer.starts_with("HTTP/1.1 200 OK\r\n") && answer.contains(content), "{answer}");
    }
}

#[test]
fn a_development_certificate_is_made_and_announced() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("tls");
    let serving = Serving::start(&["--amqps", "127.0.0.1:0", "--tls-directory", path.to_str().unwrap()]);
    assert_eq!(serving.announced("Trusted authority"), path.join("ca.pem").to_str().unwrap());
    assert!(path.join("ca.pem").exists());
    assert_eq!(serving.end(Signal::TERM), Some(0));
}

#[test]
fn the_authority_lies_beneath_the_data_directory_and_where_clients_look_for_it() {
    let directory = tempfile::tempdir().unwrap();
    let [data, copy] = ["data", "copy.pem"].map(|name| directory.path().join(name));
    let arguments =
        ["--amqps", "127.0.0.1:0", "--data-dir", data.to_str().unwrap(), "--tls-ca", copy.to_str().unwrap()];
    // Once when there is no such directory, and once when it has been one.
    for _start in 0..2 {
        let serving = Serving::start(&arguments);
        let authority = data.join("tls/ca.pem");
        assert_eq!(serving.announced("Trusted authority"), authority.to_str().unwrap());
        let expected = std::fs::read(&authority).unwrap();
        assert_eq!(std::fs::read(&copy).unwrap(), expected);
        let advice = format!("SSL_CERT_FILE={}\n", authority.display());
        assert!(serving.announcement.contains(&advice));
        assert_eq!(serving.end(Signal::TERM), Some(0));
    }
    std::fs::write(&copy, "precious").unwrap();
    let (status, _, stderr) = refusal(&arguments);
    assert_eq!(status, Some(2));
    assert!(stderr.contains("contains another authority"), "{stderr}");
}

#[test]
fn a_taken_port_is_one_clear_line_and_status_3() {
    let holder = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = holder.local_addr().unwrap().to_string();
    for (arguments, protocol) in [
        (["--amqp", &address, "--http", "127.0.0.1:0"], "AMQP"),
        (["--amqp", "127.0.0.1:0", "--http", &address], "HTTP"),
    ] {
        let (status, stdout, stderr) = refusal(&arguments);
        assert_eq!((status, stdout.as_str()), (Some(3), ""));
        let expected =
            format!("  x {protocol} can't listen on {address}: Address already in use (os error 98)");
        assert_eq!(stderr.lines().next(), Some(expected.as_str()));
    }
}

#[test]
fn a_directory_that_cannot_be_used_is_one_clear_line_and_status_3() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("file");
    std::fs::write(&file, "").unwrap();
    let beneath = file.join("tls");
    let arguments = ["--amqps", "127.0.0.1:0", "--tls-directory", beneath.to_str().unwrap()];
    let (status, stdout, stderr) = refusal(&arguments);
    assert_eq!((status, stdout.as_str()), (Some(3), ""));
    assert!(stderr.ends_with("can't be used: Not a directory (os error 20)\n"), "{stderr}");
}

#[test]
fn what_anyone_could_open_is_not_served_to_other_machines() {
    let (status, stdout, stderr) = refusal(&["--amqp", "0.0.0.0:0"]);
    assert_eq!((status, stdout.as_str()), (Some(2), ""));
    insta::assert_snapshot!("open_to_anyone", stderr);
    let serving = Serving::start(&["--websocket", "0.0.0.0:0", "--open-to-anyone"]);
    assert!(serving.announcement.contains("0.0.0.0:"));
    assert_eq!(serving.end(Signal::TERM), Some(0));
}

#[test]
fn the_explorer_is_for_this_machine_unless_it_is_allowed_to_be_for_others() {
    let (status, stdout, stderr) = refusal(&["--explorer", "0.0.0.0:0"]);
    assert_eq!((status, stdout.as_str()), (Some(2), ""));
    insta::assert_snapshot!("explorer_for_others", stderr);
    let serving = Serving::start(&["--explorer", "127.0.0.1:0"]);
    assert!(serving.announced("Explorer").starts_with("http://127.0.0.1:"));
    assert_eq!(serving.end(Signal::TERM), Some(0));
}

#[test]
fn a_wrong_namespace_is_refused_with_the_place_of_the_mistake() {
    let refused = |content: &str| {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("mine.yaml"), content).unwrap();
        let output = serve(&["--config", "mine.yaml"]).current_dir(directory.path()).output().unwrap();
        assert_eq!((output.status.code(), output.stdout.as_slice()), (Some(2), &b""[..]));
        String::from_utf8(output.stderr).unwrap()
    };
    let hub = |fields: &str| refused(&format!("hubs:\n  - {{name: one, partitions: 1}}\n  - {{{fields}}}\n"));
    insta::assert_snapshot!("namespace_unknown_key", hub("name: two, partitons: 4"));
    insta::assert_snapshot!("namespace_partitions", hub("name: two, partitions: 0"));
    insta::assert_snapshot!("namespace_repeated", hub("name: ONE, partitions: 2"));
    insta::assert_snapshot!("namespace_log", hub("name: two, partitions: 2, log: {bytes: 1 MiB}"));
    insta::assert_snapshot!(
        "namespace_profile_key",
        refused("hubs: []\nprofile: {round_trip: 2 ms, sevice_time: {send: 1 ms}}\n")
    );
    insta::assert_snapshot!(
        "namespace_profile_value",
        refused("hubs: []\nprofile: {service_time: {send: {from: 3 ms, to: 1 ms}}}\n")
    );
    insta::assert_snapshot!(
        "namespace_profile_contradiction",
        refused("hubs: []\nprofile:\n  throughput_units: 2\n  quota: {egress_bytes_per_s: 1 MB}\n")
    );
    insta::assert_snapshot!("namespace_no_hubs", refused("host: localhost\n"));
    insta::assert_snapshot!("namespace_no_rule", refused("hubs: []\nauthorization_rules: []\n"));
    let rule =
        "hubs: []\nauthorization_rules:\n  - {name: a, key: \"${KEY:?the sender's key}\", rights: [send]}\n";
    insta::assert_snapshot!("namespace_missing_variable", refused(rule));
}

#[test]
fn a_wrong_hub_argument_is_refused() {
    for (argument, reason) in [
        ("a:0", "partitions: 0 is not from 1 to 32768"),
        ("a:x", "`x` is not a number of partitions"),
        ("-a", "unexpected argument"),
        ("a b", "is not a valid name for a hub"),
    ] {
        let (status, stdout, stderr) = refusal(&["--hub", argument]);
        assert_eq!((status, stdout.as_str()), (Some(2), ""), "{argument}");
        assert!(stderr.contains(reason), "{argument}: {stderr}");
    }
}

/// What the emulator of Microsoft is started with: one namespace, of which hubs are what counts.
const EMULATORS_CONFIG: &str = r#"{
    "UserConfig": {
        "NamespaceConfig": [
            {
                "Type": "EventHub",
                "Name": "emulatorNs1",
                "Entities": [
                    {
                        "Name": "telemetry",
                        "PartitionCount": "2",
                        "ConsumerGroups": [{ "Name": "dashboard" }]
                    },
                    {
                        "Name": "commands",
                        "PartitionCount": 40,
                        "UserMetadata": "for the drivers"
                    }
                ]
            }
        ],
        "LoggingConfig": { "Type": "File" }
    }
}
"#;

#[test]
fn the_emulators_configuration_is_served_as_it_is_and_what_means_nothing_is_warned_of() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("Config.json");
    std::fs::write(&path, EMULATORS_CONFIG).unwrap();
    let serving = Serving::start_with_log(&["--config", path.to_str().unwrap()]);
    assert_eq!(serving.hubs(), ["telemetry (2 partitions)", "commands (40 partitions)"]);
    let log = serving.end_with_log();
    assert!(
        log.contains(
            "Config.json:16:25: `UserConfig.NamespaceConfig[0].Entities[1].UserMetadata` is not supported and is ignored"
        ),
        "{log}"
    );
}

#[test]
fn a_mistake_in_the_emulators_configuration_is_reported_with_its_place() {
    let refused = |from: &str, to: &str| {
        let directory = tempfile::tempdir().unwrap();
        let content = EMULATORS_CONFIG.replace(from, to);
        assert_ne!(content, EMULATORS_CONFIG);
        std::fs::write(directory.path().join("Config.json"), content).unwrap();
        let output = serve(&["--config", "Config.json"])
            .env("PARSHALL_LOG", "error")
            .current_dir(directory.path())
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(2));
        String::from_utf8(output.stderr).unwrap()
    };
    insta::assert_snapshot!("emulator_no_name", refused("\"Name\": \"telemetry\",", ""));
    insta::assert_snapshot!("emulator_repeated", refused("commands", "Telemetry"));
    insta::assert_snapshot!("emulator_partitions", refused("40", "0"));
    insta::assert_snapshot!("emulator_group", refused("dashboard", "dash/board"));
}

#[test]
fn a_hub_that_can_not_be_captured_is_told_at_its_place() {
    let refused = |capture: &str, blobs: &[&str]| {
        let directory = tempfile::tempdir().unwrap();
        let content =
            format!("hubs:\n- name: orders\n  partitions: 2\n  capture: {{container: captured{capture}}}\n");
        std::fs::write(directory.path().join("namespace.yaml"), content).unwrap();
        let arguments = [&["--config", "namespace.yaml"], blobs].concat();
        let output =
            serve(&arguments).env("PARSHALL_LOG", "error").current_dir(directory.path()).output().unwrap();
        assert_eq!(output.status.code(), Some(2));
        String::from_utf8(output.stderr).unwrap()
    };
    let blobs = ["--blob", "127.0.0.1:0"];
    insta::assert_snapshot!("capture_without_blobs", refused("", &[]));
    insta::assert_snapshot!("capture_name", refused(", name: '{hub}/{partition}'", &blobs));
    insta::assert_snapshot!("capture_every", refused(", every: 16 min", &blobs));
    insta::assert_snapshot!("capture_container", refused("-", &blobs));
}

#[test]
fn a_quiet_service_logs_only_warnings_and_errors() {
    let log = |arguments: &[&str]| Serving::start_with_log(arguments).end_with_log();
    assert!(log(&[]).contains("stopping"));
    assert_eq!(log(&["--quiet"]), "");
}
