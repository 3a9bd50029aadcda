//! A client that is a program of its own, in place of one of ours: the load hands it each record, and the sink gets from it
//! what it has received. Where a producer is measured, the load hands it calls.
//!
//! ```text
//! parshall role load ── send 17 0 aGVsbG8… ──▶ producer ── Kafka ──▶ service
//!                    ◀─ sent 17 ─────────────
//! parshall role load ── call 17 200 AAAB… ───▶ producer ── AMQP, HTTP, Kafka ──▶ service
//!                    ◀─ sent 17 ─────────────
//! parshall role sink ── open 0 earliest ─────▶ consumer ◀── Kafka ── service
//!                    ◀─ received 0 5 81733 aGVsbG8…
//! ```
//!
//! Both sides write lines. A call is one, with the heads of its events: at the rates of producers, payloads in Base64 would be a
//! part of what is measured. Schedule, accounts, payloads and verification are the role's own. So are the latencies: the program
//! reads the clock of the run where its client is called and where it hands records over, so that the way through the pipes is
//! in no stage of a record but the wait before the send. `docs/external-clients.md` is the same for those who write one.

mod reached;
mod sink;
mod source;

pub(super) use reached::Reached;
pub(super) use sink::ProgramSink;
pub(super) use source::ProgramSource;

use std::io;
use std::pin::Pin;
use std::process::{ExitStatus, Stdio};
use std::task::{Context, Poll, ready};

use bytes::{Buf as _, BytesMut};
use tokio::io::{AsyncBufRead as _, AsyncWrite as _, BufReader};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::time::timeout;

use crate::scenario::ClientProgram;

/// Why a program can't be the client.
#[derive(Debug, thiserror::Error)]
pub enum ProgramError {
    /// There is no such program, or the system refuses to run it.
    #[error("the client `{name}` can't be started from {program}")]
    CannotStart {
        /// The client.
        name: String,
        /// The program.
        program: String,
        /// What the system said.
        source: io::Error,
    },
    /// Its pipes broke.
    #[error("the client `{name}` can't be spoken to")]
    Pipe {
        /// The client.
        name: String,
        /// What the system said.
        source: io::Error,
    },
    /// It ended before it was ready.
    #[error("the client `{name}` ended before it was ready ({status}); the log of the role has what it said")]
    Ended {
        /// The client.
        name: String,
        /// How.
        status: ExitStatus,
    },
    /// It said why it can't go on.
    #[error("the client `{name}` can't go on: {reason}")]
    Refused {
        /// The client.
        name: String,
        /// Its words.
        reason: String,
    },
    /// It did not become ready in time.
    #[error("the client `{name}` did not say `ready` within {}", units::duration::text(*within))]
    NotReady {
        /// The client.
        name: String,
        /// How long.
        within: std::time::Duration,
    },
    /// A property is not to be told in a line.
    #[error("the client `{name}` can't be told the property {property}, which has several lines")]
    Lines {
        /// The client.
        name: String,
        /// The property.
        property: String,
    },
}

/// Which half of a client a program is to be.
#[derive(Debug, Clone, Copy)]
enum Half {
    Producer,
    Consumer,
}

/// A program that was started, and the lines that it is told and says.
#[derive(Debug)]
struct Running {
    name: String,
    child: Child,
    input: ChildStdin,
    /// What it has not been told yet.
    unwritten: BytesMut,
    output: BufReader<ChildStdout>,
    /// The line that it is saying, without its end.
    line: Vec<u8>,
    /// Whether that is complete, and the next one begins with the next byte.
    is_complete: bool,
}

impl Running {
    /// Starts the program and waits until it is connected.
    async fn start(reached: &Reached<'_>, half: Half) -> Result<Self, ProgramError> {
        let ClientProgram { name, command, env, ready_within, .. } = reached.program;
        let (program, arguments) = command.split_first().expect("a scenario's client has a program");
        let mut child = Command::new(program)
            .args(arguments)
            .envs(env.iter().map(|(name, value)| (name, value.reveal())))
            .envs(reached.variables(half)?)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            // The role's log.
            .stderr(Stdio::inherit())
            .kill_on_drop(true)
            .spawn()
            .map_err(|source| ProgramError::CannotStart {
                name: name.clone(),
                program: program.clone(),
                source,
            })?;
        let (input, output) =
            child.stdin.take().zip(child.stdout.take()).expect("they were asked to be pipes");
        let mut running = Self {
            name: name.clone(),
            child,
            input,
            unwritten: BytesMut::new(),
            output: BufReader::with_capacity(READ_AT_ONCE, output),
            line: Vec::new(),
            is_complete: false,
        };
        match timeout(*ready_within, running.until_ready()).await {
            Ok(ready) => ready.map(|()| running),
            Err(_) => Err(ProgramError::NotReady { name: name.clone(), within: *ready_within }),
        }
    }

    async fn until_ready(&mut self) -> Result<(), ProgramError> {
        loop {
            let said = std::future::poll_fn(|context| self.poll_line(context)).await;
            let is_open = said.map_err(|source| ProgramError::Pipe { name: self.name.clone(), source })?;
            if !is_open {
                let status = self.child.wait().await.unwrap_or_default();
                return Err(ProgramError::Ended { name: self.name.clone(), status });
            }
            match split(&self.line) {
                (b"ready", _) => return Ok(()),
                (b"error", reason) => {
                    let reason = String::from_utf8_lossy(reason).into_owned();
                    return Err(ProgramError::Refused { name: self.name.clone(), reason });
                }
                _ => self.log(),
            }
        }
    }

    /// Tells it a line, with the next [`poll_flush`](Self::poll_flush).
    fn tell(&mut self, line: &str) {
        self.unwritten.extend_from_slice(line.as_bytes());
        self.unwritten.extend_from_slice(b"\n");
    }

    /// Ready when it has been told everything.
    fn poll_flush(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        while !self.unwritten.is_empty() {
            let written = ready!(Pin::new(&mut self.input).poll_write(context, &self.unwritten))?;
            if written == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.unwritten.advance(written);
        }
        Poll::Ready(Ok(()))
    }

    /// Ready when [`line`](Self::line) is what it said next, or with `false` when it will say nothing more.
    fn poll_line(&mut self, context: &mut Context<'_>) -> Poll<io::Result<bool>> {
        if std::mem::take(&mut self.is_complete) {
            self.line.clear();
        }
        loop {
            let available = ready!(Pin::new(&mut self.output).poll_fill_buf(context))?;
            if available.is_empty() {
                return Poll::Ready(Ok(false));
            }
            let end = available.iter().position(|byte| *byte == b'\n');
            let length = end.unwrap_or(available.len());
            if self.line.len() + length > LONGEST_LINE {
                let reason = format!("a line of more than {LONGEST_LINE} bytes");
                return Poll::Ready(Err(io::Error::new(io::ErrorKind::InvalidData, reason)));
            }
            self.line.extend_from_slice(&available[..length]);
            Pin::new(&mut self.output).consume(length + usize::from(end.is_some()));
            if end.is_some() {
                self.is_complete = true;
                return Poll::Ready(Ok(true));
            }
        }
    }

    /// A line that means nothing to the role is one of its log.
    fn log(&self) {
        tracing::info!(client = self.name, "{}", String::from_utf8_lossy(&self.line));
    }

    /// Lets it end by itself, which it does when it is told nothing more.
    async fn end(self) {
        let Self { mut child, input, .. } = self;
        drop(input);
        if timeout(END_WITHIN, child.wait()).await.is_err() {
            let _ = child.kill().await;
        }
    }
}

impl Half {
    const fn name(self) -> &'static str {
        match self {
            Self::Producer => "producer",
            Self::Consumer => "consumer",
        }
    }
}

/// The first word of a line, and the rest.
fn split(line: &[u8]) -> (&[u8], &[u8]) {
    match line.iter().position(|byte| *byte == b' ') {
        Some(at) => (&line[..at], &line[at + 1..]),
        None => (line, &[]),
    }
}

/// The number that a text is.
fn number<T: std::str::FromStr>(text: &[u8]) -> Option<T> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

/// A payload of the largest size as Base64, and the words before it.
const LONGEST_LINE: usize = 2 << 20;

const READ_AT_ONCE: usize = 64 << 10;

/// A client that has nothing under way says goodbye to the service in less.
const END_WITHIN: std::time::Duration = std::time::Duration::from_secs(5);

#[cfg(test)]
mod tests;
