//! A `parshall serve` process for tests: started on free ports, waited for by what it prints, ended by a signal.

#![expect(clippy::unwrap_used, reason = "what panics in a test fails it, and says where")]
#![allow(dead_code, reason = "each test binary uses its part of the rig")]

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, ChildStderr, Command, Output, Stdio};

use rustix::process::{Pid, Signal, kill_process};

/// The binary with these arguments, and an empty environment.
pub(crate) fn parshall(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_parshall"));
    command.args(arguments).env_clear();
    command
}

/// `parshall serve` with these arguments.
pub(crate) fn serve(arguments: &[&str]) -> Command {
    parshall(&[&["serve"], arguments].concat())
}

/// Runs a command to its end, and gives exit status, standard output and standard error.
pub(crate) fn outcome(command: &mut Command) -> (Option<i32>, String, String) {
    let Output { status, stdout, stderr } = command.output().unwrap();
    (status.code(), String::from_utf8(stdout).unwrap(), String::from_utf8(stderr).unwrap())
}

/// Runs a command line that can't be served, on free ports where it names none.
pub(crate) fn refusal(arguments: &[&str]) -> (Option<i32>, String, String) {
    let unnamed = ADDRESSES.chunks(2).filter(|address| !arguments.contains(&address[0])).flatten();
    let unnamed: Vec<&str> = unnamed.copied().collect();
    outcome(&mut serve(&[&unnamed, arguments].concat()))
}

/// A running `serve` on free ports, with what it has printed.
pub(crate) struct Serving {
    child: Child,
    pub(crate) announcement: String,
    /// What of the log has not been read yet, where it is wanted.
    log: Option<BufReader<ChildStderr>>,
}

impl Serving {
    pub(crate) fn start(arguments: &[&str]) -> Self {
        Self::spawn(arguments, Stdio::null())
    }

    /// The same, with its log to be had at its end: [`end_with_log`](Self::end_with_log).
    pub(crate) fn start_with_log(arguments: &[&str]) -> Self {
        Self::spawn(arguments, Stdio::piped())
    }

    /// The same, with at most `descriptors` open files.
    pub(crate) fn start_within(descriptors: u32, arguments: &[&str]) -> Self {
        Self::start_after(&format!("ulimit -n {descriptors}"), arguments)
    }

    /// The same, where the process may raise that limit itself.
    pub(crate) fn start_within_soft(descriptors: u32, arguments: &[&str]) -> Self {
        Self::start_after(&format!("ulimit -S -n {descriptors}"), arguments)
    }

    /// The same, with AMQP on an address that was free a moment ago.
    pub(crate) fn start_at(amqp: &str, arguments: &[&str]) -> Self {
        let addresses = ["--amqp", amqp, "--http", "127.0.0.1:0"];
        Self::wait(serve(&[&addresses, arguments].concat()), Stdio::null())
    }

    fn start_after(preparation: &str, arguments: &[&str]) -> Self {
        let mut command = Command::new("/bin/sh");
        command
            .args(["-c", &format!("{preparation} && exec \"$0\" \"$@\"")])
            .args([env!("CARGO_BIN_EXE_parshall"), "serve"])
            .args(ADDRESSES)
            .args(arguments)
            .env_clear();
        Self::wait(command, Stdio::null())
    }

    fn spawn(arguments: &[&str], stderr: Stdio) -> Self {
        Self::wait(serve(&[&ADDRESSES, arguments].concat()), stderr)
    }

    /// What this command serves, with its log where the command has it.
    pub(crate) fn of(mut command: Command) -> Self {
        let child = command.stdout(Stdio::piped()).spawn().unwrap();
        Self::ready(child)
    }

    fn wait(mut command: Command, stderr: Stdio) -> Self {
        let child = command.stdout(Stdio::piped()).stderr(stderr).spawn().unwrap();
        Self::ready(child)
    }

    fn ready(mut child: Child) -> Self {
        let log = child.stderr.take().map(BufReader::new);
        let mut serving = Self { child, announcement: String::new(), log };
        let lines = BufReader::new(serving.child.stdout.take().unwrap()).lines().map(Result::unwrap);
        for line in lines {
            serving.announcement.push_str(&line);
            serving.announcement.push('\n');
            if line == "Ready." {
                return serving;
            }
        }
        panic!("it ended before it was ready: {}", serving.announcement);
    }

    /// The last word of the line that begins with `label`.
    pub(crate) fn announced(&self, label: &str) -> &str {
        let line = self.announcement.lines().find(|line| line.trim_start().starts_with(label));
        line.and_then(|line| line.rsplit(' ').next()).unwrap()
    }

    /// The hubs with their numbers of partitions, as announced.
    pub(crate) fn hubs(&self) -> Vec<&str> {
        let labels = self.announcement.lines().filter_map(|line| {
            let (label, _string) = line.trim_start().split_once("  ")?;
            label.ends_with(')').then_some(label)
        });
        labels.collect()
    }

    /// The answer, head and body, to a request for the URL announced under `label`.
    pub(crate) fn answer(&self, label: &str) -> String {
        let (address, path) =
            self.announced(label).strip_prefix("http://").and_then(|url| url.split_once('/')).unwrap();
        let mut socket = TcpStream::connect(address).unwrap();
        write!(socket, "GET /{path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").unwrap();
        let mut answer = String::new();
        socket.read_to_string(&mut answer).unwrap();
        answer
    }

    pub(crate) fn process_id(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn end(mut self, signal: Signal) -> Option<i32> {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
        self.child.wait().unwrap().code()
    }

    /// Waits for the line of the log that has `words`, and gives it.
    pub(crate) fn log_until(&mut self, words: &str) -> String {
        let log = self.log.as_mut().unwrap();
        let mut line = String::new();
        loop {
            line.clear();
            assert_ne!(log.read_line(&mut line).unwrap(), 0, "the log ended");
            if line.contains(words) {
                return line;
            }
        }
    }

    pub(crate) fn end_with_log(mut self) -> String {
        kill_process(Pid::from_child(&self.child), Signal::TERM).unwrap();
        let mut log = String::new();
        self.log.as_mut().unwrap().read_to_string(&mut log).unwrap();
        self.child.wait().unwrap();
        log
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Any free ports.
const ADDRESSES: [&str; 4] = ["--amqp", "127.0.0.1:0", "--http", "127.0.0.1:0"];
