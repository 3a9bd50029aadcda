//! `parshall tail` where it can't read, and why it says it can't.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, Stdio};

use rustix::process::{Pid, Signal, kill_process};

use crate::serving::{Serving, outcome, parshall};

/// A relay that owns all partitions of `orders`, once it has opened them.
fn owner(serving: &Serving, folder: &Path) -> Child {
    let pipeline = format!(
        "source:\n  event_hubs: {{connection_string: '{0}', hub: orders}}\n\
         sink:\n  event_hubs: {{connection_string: '{0}', hub: copies}}\n\
         checkpoint: {{store: {{files: ./checkpoints}}}}\nownership: {{mode: greedy}}\n",
        serving.announced("namespace"),
    );
    std::fs::write(folder.join("own.yaml"), pipeline).unwrap();
    let mut relay = parshall(&["relay", "own.yaml"]);
    let mut child = relay.current_dir(folder).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let told = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    assert!(told.into_iter().any(|line| line == "Running."), "it runs");
    child
}

#[test]
fn who_reads_beside_the_owner_of_a_partition_is_told_so() {
    let folder = tempfile::tempdir().unwrap();
    let serving = Serving::start(&["--hub", "orders:1", "--hub", "copies:1"]);
    let run = |arguments: &[&str]| {
        let mut command = parshall(arguments);
        command.env("EVENT_HUBS_CONNECTION_STRING", serving.announced("namespace"));
        outcome(&mut command)
    };
    let mut owner = owner(&serving, folder.path());
    let mut send = parshall(&["send", "orders", "--format=lines"]);
    send.env("EVENT_HUBS_CONNECTION_STRING", serving.announced("namespace"));
    let mut send = send.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
    send.stdin.take().unwrap().write_all(b"one").unwrap();
    assert!(send.wait().unwrap().success());
    let (status, stdout, stderr) = run(&["tail", "orders", "--from", "first"]);
    assert_eq!((status, stdout.as_str()), (Some(3), ""), "{stderr}");
    assert!(stderr.contains("another reader owns partition 0 in the consumer group $Default"), "{stderr}");
    assert!(stderr.contains("--group"), "{stderr}");
    kill_process(Pid::from_child(&owner), Signal::TERM).unwrap();
    assert!(owner.wait().unwrap().success());
    assert_eq!(run(&["tail", "orders", "--from", "first"]).0, Some(0));
    assert_eq!(serving.end(Signal::TERM), Some(0));
}
