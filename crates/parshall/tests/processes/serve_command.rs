//! `parshall serve … -- command`: a service for as long as a command runs.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpStream;
use std::process::{Child, ChildStdout, Command, Stdio};

use access::ConnectionString;
use rustix::process::{Pid, Signal, kill_process};

use crate::serving::{outcome, serve};
use crate::stop_signals::stop_signals;

/// A service for a shell script.
fn serve_for(script: &str) -> Command {
    let mut command = serve(&["--hub", "orders:2", "--", "/bin/sh", "-c", script]);
    // A child of a test has no use for a terminal that the tests may have been started from.
    command.stdin(Stdio::null());
    command
}

fn started(script: &str) -> (Child, BufReader<ChildStdout>) {
    let mut child = serve_for(script).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let output = BufReader::new(child.stdout.take().unwrap());
    (child, output)
}

fn line(output: &mut BufReader<ChildStdout>) -> String {
    let mut line = String::new();
    output.read_line(&mut line).unwrap();
    line.trim_end().to_owned()
}

#[test]
fn the_command_finds_the_service_in_its_environment_and_has_standard_output_to_itself() {
    // The program itself is a client: it reads the variable.
    let script = format!(
        "test \"$EVENT_HUBS_CONNECTION_STRING\" = \"$PARSHALL_CONNECTION_STRING\" && exec {} hub list",
        env!("CARGO_BIN_EXE_parshall")
    );
    let (status, stdout, stderr) = outcome(&mut serve_for(&script));
    assert_eq!((status, stderr.as_str()), (Some(0), ""), "{stdout}");
    let lines: Vec<&str> = stdout.lines().collect();
    assert!(lines.len() == 2 && lines[1].starts_with("orders           2  "), "{stdout}");
}

#[test]
fn the_command_finds_the_identity_of_a_machine_and_with_tls_that_of_an_application() {
    let directory = tempfile::tempdir().unwrap();
    let tls = directory.path().join("tls").display().to_string();
    let script = "echo ${IDENTITY_ENDPOINT%/*/*} ${IDENTITY_HEADER:+header} ${AZURE_AUTHORITY_HOST%:*} \
                  $(echo $AZURE_AUTHORITY_HOST | sed -n s,.*/dstsv2,/dstsv2,p) $AZURE_TENANT_ID \
                  ${AZURE_CLIENT_ID:+client} ${AZURE_CLIENT_SECRET:+secret}";
    let found = |arguments: &[&str]| {
        let all = [&["--hub", "orders:2"], arguments, &["--", "/bin/sh", "-c", script]].concat();
        let (status, stdout, _) = outcome(serve(&all).stdin(Stdio::null()));
        assert_eq!(status, Some(0));
        stdout
    };
    let machine = found(&["--dev-identity"]);
    assert!(machine.starts_with("http://127.0.0.1:") && machine.ends_with(" header\n"), "{machine}");
    let application = found(&["--dev-identity-tls", "127.0.0.1:0", "--tls-directory", &tls]);
    assert_eq!(application, "https://127.0.0.1 /dstsv2 adfs client secret\n");
    let form = ["--dev-identity-authority", "adfs"];
    let application =
        found(&[&["--dev-identity-tls", "127.0.0.1:0", "--tls-directory", &tls][..], &form].concat());
    assert_eq!(application, "https://127.0.0.1 adfs client secret\n");
}

#[test]
fn tokens_are_issued_to_this_machine_alone() {
    let free = ["--amqp", "127.0.0.1:0", "--http", "127.0.0.1:0", "--dev-identity", "0.0.0.0:0"];
    let (status, stdout, stderr) = outcome(&mut serve(&free));
    assert_eq!((status, stdout.as_str()), (Some(2), ""), "{stderr}");
    assert!(stderr.contains("tokens must not listen on 0.0.0.0:0"), "{stderr}");
    assert!(stderr.contains("it issues tokens for development"), "{stderr}");
    let (status, _, stderr) = outcome(&mut serve(&["--dev-identity", "--dev-token-lifetime", "25 h"]));
    assert!(status == Some(2) && stderr.contains("it is not from 1 s to 1 day"), "{stderr}");
}

#[test]
fn the_command_reads_standard_input() {
    let mut child = serve_for("read line && echo \"got $line\"");
    let mut child = child.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(b"this\n").unwrap();
    assert_eq!(child.wait_with_output().unwrap().stdout, b"got this\n");
}

#[test]
fn the_exit_status_is_that_of_the_command() {
    for (script, expected) in
        [("exit 0", 0), ("exit 7", 7), ("kill -KILL $$", 128 + 9), ("kill -TERM $$", 128 + 15)]
    {
        assert_eq!(outcome(&mut serve_for(script)).0, Some(expected), "{script}");
    }
}

#[test]
fn a_command_that_cannot_be_started_has_the_status_of_a_shell() {
    for (command, expected, reason) in
        [("/nowhere/to/be/found", 127, "No such file"), ("/etc/passwd", 126, "Permission denied")]
    {
        let (status, stdout, stderr) = outcome(&mut serve(&["--", command]));
        assert_eq!((status, stdout.as_str()), (Some(expected), ""));
        assert!(
            stderr.starts_with(&format!("  x the command `{command}` can't be started: {reason}")),
            "{stderr}"
        );
    }
}

#[test]
fn the_service_ends_with_the_command_and_its_ready_file_too() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("ready.env");
    let file = path.to_str().unwrap();
    let script = "cat \"$0\"";
    let (status, stdout, _) =
        outcome(&mut serve(&["--ready-file", file, "--format", "env", "--", "/bin/sh", "-c", script, file]));
    assert_eq!(status, Some(0));
    assert!(!path.exists());
    let string = stdout.lines().find_map(|line| line.strip_prefix("PARSHALL_CONNECTION_STRING='")).unwrap();
    let string: ConnectionString = string.trim_end_matches('\'').parse().unwrap();
    assert!(TcpStream::connect(("127.0.0.1", string.amqp_address().port)).is_err());
}

#[test]
fn signals_are_passed_on_and_the_command_decides() {
    for signal in stop_signals() {
        let name = match signal {
            Signal::TERM => "TERM",
            Signal::INT => "INT",
            _ => "HUP",
        };
        let (mut child, mut output) =
            started(&format!("trap 'echo got; exit 9' {name}; echo set; while :; do sleep 0.01; done"));
        assert_eq!(line(&mut output), "set");
        kill_process(Pid::from_child(&child), signal).unwrap();
        assert_eq!(line(&mut output), "got", "{name}");
        assert_eq!(child.wait().unwrap().code(), Some(9), "{name}");
    }
}
