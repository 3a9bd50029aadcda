//! A client that stands still without having said so: its system goes on answering for it, so only its silence tells. The
//! service ends it after the idle time-out, and when it wakes it goes on.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Stdio};

use crate::serving::{Serving, parshall};
use rustix::process::{Pid, Signal, kill_process};

#[test]
fn a_paused_client_is_ended_and_goes_on_when_it_wakes() {
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("namespace.yaml");
    std::fs::write(&config, NAMESPACE).unwrap();
    let serving = Serving::start(&["--config", config.to_str().unwrap()]);
    let pipeline = folder.path().join("pipeline.yaml");
    let connection_string = serving.announced("namespace");
    std::fs::write(
        &pipeline,
        format!(
            "source:\n  event_hubs: {{connection_string: '{connection_string}', hub: source}}\n\
             sink:\n  event_hubs: {{connection_string: '{connection_string}', hub: destination}}\n\
             checkpoint: {{store: {{files: {}}}}}\n",
            folder.path().join("checkpoints").display()
        ),
    )
    .unwrap();

    let relay = Relay::start(pipeline.to_str().unwrap());
    wait_until(|| connections(&serving) > 0);
    relay.signal(Signal::STOP);
    wait_until(|| connections(&serving) == 0);
    relay.signal(Signal::CONT);
    wait_until(|| connections(&serving) > 0);
    assert_eq!(relay.end(), Some(0));
    assert_eq!(serving.end(Signal::TERM), Some(0));
}

/// The time-out is short enough to be waited for, and longer than the machine stands still by itself.
const NAMESPACE: &str = "idle_timeout: 500 ms\nhubs:\n  - {name: source, partitions: 4}\n  - {name: destination, partitions: 4}\n";

/// How many AMQP connections the service has.
fn connections(serving: &Serving) -> u64 {
    let answer = serving.answer("Metrics");
    let mut lines = answer.lines();
    let value = lines.find_map(|line| line.strip_prefix("parshall_amqp_connections "));
    value.unwrap().parse().unwrap()
}

fn wait_until(mut enough: impl FnMut() -> bool) {
    while !enough() {
        std::thread::yield_now();
    }
}

/// `parshall relay` as a process.
struct Relay(Child);

impl Relay {
    /// Starts it, and waits until it runs.
    fn start(pipeline: &str) -> Self {
        let mut child =
            parshall(&["relay", pipeline]).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.as_mut().unwrap()).lines();
        lines.next().unwrap().unwrap();
        drop(lines);
        Self(child)
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.0), signal).unwrap();
    }

    fn end(mut self) -> Option<i32> {
        self.signal(Signal::TERM);
        self.0.wait().unwrap().code()
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
