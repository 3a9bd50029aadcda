//! `parshall serve --stop-on-stdin-close`: a service that ends with the process that started it.

use std::io::{self, BufRead as _, BufReader, Write as _};
use std::process::{Child, Command, Stdio};

use crate::serving::{outcome, serve};

const ARGUMENTS: [&str; 5] = ["--stop-on-stdin-close", "--amqp", "127.0.0.1:0", "--http", "127.0.0.1:0"];

fn ready(child: &mut Child) {
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap() == "Ready."), "it ended before it was ready");
}

#[test]
fn it_stops_in_good_order_when_the_other_end_is_closed() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("ready");
    let arguments = [&ARGUMENTS[..], &["--ready-file", file.to_str().unwrap()]].concat();
    let mut child = serve(&arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    ready(&mut child);
    // What comes through it is no reason to stop.
    child.stdin.as_mut().unwrap().write_all(&[b'\n'; 100_000]).unwrap();
    assert_eq!((child.try_wait().unwrap(), file.exists()), (None, true));
    drop(child.stdin.take());
    assert_eq!((child.wait().unwrap().code(), file.exists()), (Some(0), false));
}

#[test]
fn it_stops_when_the_process_that_holds_the_other_end_is_killed() {
    let (read, write) = io::pipe().unwrap();
    let mut child = serve(&ARGUMENTS).stdin(read).stdout(Stdio::piped()).spawn().unwrap();
    // It waits for input, and is the only one that holds the other end.
    let mut parent = Command::new("cat").stdin(Stdio::piped()).stdout(write).spawn().unwrap();
    ready(&mut child);
    assert_eq!(child.try_wait().unwrap(), None);
    parent.kill().unwrap();
    parent.wait().unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

#[test]
fn a_closed_standard_input_stops_it_at_once_and_a_command_needs_its_own() {
    let (status, stdout, _) = outcome(serve(&ARGUMENTS).stdin(Stdio::null()));
    assert_eq!((status, stdout.ends_with("Ready.\n")), (Some(0), true));
    let (status, _, stderr) = outcome(&mut serve(&["--stop-on-stdin-close", "--", "true"]));
    assert_eq!(status, Some(2));
    assert!(stderr.contains("cannot be used with"), "{stderr}");
}
