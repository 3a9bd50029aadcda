//! What `parshall serve` announces to programs: JSON, environment variables, and the file that says that it is ready.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use access::ConnectionString;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::serving::{Serving, refusal, serve};

const ADDRESSES: [&str; 4] = ["--amqp", "127.0.0.1:0", "--http", "127.0.0.1:0"];

/// A service that announces itself in another form than text; `until` says where the announcement ends.
fn start(arguments: &[&str], until: impl Fn(&str) -> bool) -> (Child, String) {
    let mut command = serve(&[&ADDRESSES, arguments].concat());
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut output = BufReader::new(child.stdout.take().unwrap());
    let mut announcement = String::new();
    while !until(&announcement) {
        assert_ne!(output.read_line(&mut announcement).unwrap(), 0, "{announcement}");
    }
    (child, announcement)
}

fn stop(mut child: Child) {
    kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

#[test]
fn json_is_one_object_on_one_line_with_everything_that_a_client_needs() {
    let directory = tempfile::tempdir().unwrap();
    let tls = directory.path().join("tls");
    let data = directory.path().join("data");
    let arguments = [
        "--format",
        "json",
        "--hub",
        "orders:3",
        "--queue",
        "jobs",
        "--topic",
        "news:all,audit",
        "--amqps",
        "127.0.0.1:0",
        "--websocket",
        "127.0.0.1:0",
        "--blob",
        "127.0.0.1:0",
        "--tls-directory",
        tls.to_str().unwrap(),
        "--data-dir",
        data.to_str().unwrap(),
    ];
    let (child, line) = start(&arguments, |text| text.ends_with('\n'));
    let mut shown: Value = serde_json::from_str(&line).unwrap();
    let connect = |address: &Value| TcpStream::connect(address.as_str().unwrap()).unwrap();
    for listener in shown["listeners"].as_array().unwrap() {
        connect(&listener["address"]);
    }
    let string: ConnectionString = shown["connection_string"].as_str().unwrap().parse().unwrap();
    let address = string.amqp_address();
    assert_eq!(shown["listeners"][0]["address"], format!("127.0.0.1:{}", address.port));
    stop(child);
    // What differs from start to start.
    let ports: Vec<(String, String)> = shown["listeners"]
        .as_array()
        .unwrap()
        .iter()
        .map(|listener| {
            let port = listener["address"].as_str().unwrap().rsplit(':').next().unwrap();
            let name = format!("{}{}", listener["protocol"].as_str().unwrap(), listener["tls"]);
            (format!(":{port}"), format!(":{}", name.to_uppercase()))
        })
        .collect();
    shown.sort_all_objects();
    let mut text = format!("{shown:#}").replace(directory.path().to_str().unwrap(), "DIRECTORY");
    for (port, name) in ports {
        text = text.replace(&port, &name);
    }
    insta::assert_snapshot!("announced_json", text);
}

#[test]
fn a_shell_reads_what_is_announced_for_the_environment() {
    let (child, announcement) =
        start(&["--format", "env", "--blob", "127.0.0.1:0"], |text| text.contains("AZURE_STORAGE"));
    let script = format!("set -a\n{announcement}set +a\nexec env");
    let output = Command::new("/bin/sh").args(["-c", &script]).env_clear().output().unwrap();
    let environment = String::from_utf8(output.stdout).unwrap();
    let variable = |name: &str| {
        let prefix = format!("{name}=");
        environment.lines().find_map(|line| line.strip_prefix(&prefix)).map(str::to_owned)
    };
    let string = variable("PARSHALL_CONNECTION_STRING").unwrap();
    let port = string.parse::<ConnectionString>().unwrap().amqp_address().port;
    TcpStream::connect(("127.0.0.1", port)).unwrap();
    for name in [
        "EVENT_HUBS_CONNECTION_STRING",
        "EVENTHUB_CONNECTION_STRING",
        "EVENT_HUB_CONN_STR",
        "SERVICE_BUS_CONNECTION_STRING",
        "SERVICEBUS_CONNECTION_STRING",
        "SERVICEBUS_CONNECTION_STR",
    ] {
        assert_eq!(variable(name).as_ref(), Some(&string), "{name}");
    }
    assert!(variable("AZURE_STORAGE_CONNECTION_STRING").unwrap().contains("BlobEndpoint=http://"));
    assert_eq!(variable("PARSHALL_TLS_CONNECTION_STRING"), None);
    stop(child);
}

#[test]
fn headings_are_the_same_whatever_is_served() {
    let labels = |arguments: &[&str]| -> Vec<String> {
        let serving = Serving::start(arguments);
        let lines = serving.announcement.lines().map(str::to_owned);
        let labels =
            lines.map(|line| line.split("  ").find(|part| !part.is_empty()).unwrap_or("").to_owned());
        labels.filter(|label| !label.contains('(')).collect()
    };
    let expected = labels(&["--hub", "a:1"]);
    assert!(expected.iter().any(|label| label == "namespace"), "{expected:?}");
    assert_eq!(labels(&["--queue", "b"]), expected);
    assert_eq!(labels(&["--hub", "a", "--queue", "b", "--topic", "c:d"]), expected);
}

#[test]
fn the_ready_file_appears_complete_when_clients_can_connect_and_goes_with_the_service() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("service.json");
    // Left by a service that was killed.
    fs::write(&path, "{\"stale\": true}").unwrap();
    let file = path.to_str().unwrap();
    let (child, line) = start(&["--format", "json", "--ready-file", file], |text| text.ends_with('\n'));
    // The line is printed before the file is written, so it may take a moment to appear.
    while !path.exists() {
        std::thread::yield_now();
    }
    let content = fs::read_to_string(&path).unwrap();
    assert_eq!(content, line);
    let mode = std::os::unix::fs::PermissionsExt::mode(&fs::metadata(&path).unwrap().permissions());
    assert_eq!(mode & 0o777, 0o600, "it has keys");
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1, "nothing else is left there");
    stop(child);
    assert!(!path.exists());
}

#[test]
fn a_ready_file_that_cannot_be_written_is_one_clear_line_and_status_3() {
    let directory = tempfile::tempdir().unwrap();
    for path in [directory.path().to_owned(), directory.path().join("missing/file")] {
        let arguments = [&ADDRESSES[..], &["--ready-file", path.to_str().unwrap()]].concat();
        let (status, stdout, stderr) = refusal(&arguments);
        assert_eq!((status, stdout.as_str()), (Some(3), ""), "{stderr}");
        assert!(
            stderr.starts_with(&format!("  x the ready file {} can't be written", path.display())),
            "{stderr}"
        );
        assert!(Path::new(&directory.path()).exists());
    }
}

#[test]
fn a_service_that_cannot_start_leaves_no_ready_file() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("ready");
    fs::write(&path, "stale").unwrap();
    let holder = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = holder.local_addr().unwrap().to_string();
    let mut child =
        serve(&["--amqp", &address, "--http", "127.0.0.1:0", "--ready-file", path.to_str().unwrap()]);
    let mut child = child.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut output = String::new();
    child.stdout.take().unwrap().read_to_string(&mut output).unwrap();
    assert_eq!((child.wait().unwrap().code(), output.as_str()), (Some(3), ""));
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
}
