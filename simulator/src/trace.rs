//! What happened, line by line: hashed as it happens, and put into words only when somebody reads it.

use std::collections::VecDeque;
use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};

/// Everything that happened in one history, as a hash, and the newest lines of it.
#[derive(Debug)]
pub(crate) struct Trace {
    lines: VecDeque<Line>,
    kept: usize,
    hasher: DefaultHasher,
    count: u64,
}

/// One thing that happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Line {
    /// Milliseconds since the history began.
    at_ms: u64,
    /// Which process did it, or to which it was done.
    process: Option<u32>,
    what: What,
}

/// Consecutive events of a source partition, `first` to `last`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Events {
    pub(crate) partition: u32,
    pub(crate) first: i64,
    pub(crate) last: i64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum What {
    Started { instance: u32 },
    Crashed,
    Paused,
    Resumed,
    Stopping,
    Ended { how: &'static str },
    Healed,
    Done,
    HubCrashed { side: &'static str },
    HubRecovered { side: &'static str },
    Appended(Events),
    Committed(Events),
    Listed { partition: u32, sequence_number: i64 },
    Opened { partition: u32, next: i64 },
    Closed { partition: u32 },
    Detached { partition: u32 },
    Arrived(Events),
    HandedOver(Events),
    Released(Events),
    Busy { destination: u32 },
    Sent { send: u64, destination: u32, events: Events },
    Stored { send: u64, destination: u32 },
    Refused { send: u64, destination: u32, why: &'static str },
    Accepted { destination: u32, partition: u32, sequence_number: i64, times: u32 },
    Outcome { send: u64, accepted: bool },
    Archived(Events),
    Asking { call: u64, what: &'static str },
    Claimed { call: u64, partition: u32, returned: bool },
    Requested { call: u64, partition: u32 },
    Writing { call: u64, partition: u32, sequence_number: i64 },
    Written { call: u64, partition: u32, sequence_number: i64 },
    Answered { call: u64, ok: bool },
}

impl Trace {
    /// A trace that keeps the newest `kept` lines.
    pub(crate) fn new(kept: usize) -> Self {
        Self {
            lines: VecDeque::new(),
            kept,
            // Its keys are fixed: the same lines give the same hash in every process of one build.
            hasher: DefaultHasher::new(),
            count: 0,
        }
    }

    pub(crate) fn push(&mut self, at_ms: u64, process: Option<u32>, what: What) {
        let line = Line { at_ms, process, what };
        line.hash(&mut self.hasher);
        self.count += 1;
        if self.lines.len() == self.kept {
            self.lines.pop_front();
        }
        self.lines.push_back(line);
    }

    pub(crate) fn hash(&self) -> u64 {
        self.hasher.finish()
    }

    /// How many lines there were.
    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    pub(crate) fn into_lines(self) -> Vec<Line> {
        self.lines.into()
    }
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:>7} ms  ", self.at_ms)?;
        match self.process {
            Some(process) => write!(f, "relay {process:<3} ")?,
            None => f.write_str("          ")?,
        }
        self.what.fmt(f)
    }
}

impl fmt::Display for What {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Started { instance } => write!(f, "starts as instance {instance}"),
            Self::Crashed => f.write_str("crashes"),
            Self::Paused => f.write_str("stands still"),
            Self::Resumed => f.write_str("goes on"),
            Self::Stopping => f.write_str("is asked to stop"),
            Self::Ended { how } => write!(f, "ends: {how}"),
            Self::Healed => f.write_str("nothing fails any more"),
            Self::Done => f.write_str("everything is carried and covered"),
            Self::HubCrashed { side } => write!(f, "the {side} hub crashes"),
            Self::HubRecovered { side } => write!(f, "the {side} hub is there again"),
            Self::Appended(events) => write!(f, "appended {events}"),
            Self::Committed(events) => write!(f, "durable  {events}"),
            Self::Listed { partition, sequence_number: -1 } => {
                write!(f, "is told that partition {partition} has no checkpoint")
            }
            Self::Listed { partition, sequence_number } => {
                write!(f, "is told the checkpoint {partition}:{sequence_number}")
            }
            Self::Opened { partition, next } => write!(f, "opens partition {partition} at {next}"),
            Self::Closed { partition } => write!(f, "closes partition {partition}"),
            Self::Detached { partition } => write!(f, "partition {partition} is detached"),
            Self::Arrived(events) => write!(f, "received {events}"),
            Self::HandedOver(events) => write!(f, "batch    {events}"),
            Self::Released(events) => write!(f, "released {events}"),
            Self::Busy { destination } => write!(f, "sink busy for destination {destination}"),
            Self::Sent { send, destination, events } => {
                write!(f, "send {send}: {events} to destination {destination}")
            }
            Self::Stored { send, destination } => {
                write!(f, "send {send} reaches destination {destination}")
            }
            Self::Refused { send, destination, why } => {
                write!(f, "send {send} to destination {destination} comes to nothing: {why}")
            }
            Self::Accepted { destination, partition, sequence_number, times } => {
                write!(f, "destination {destination} has {partition}:{sequence_number}, {times} times")
            }
            Self::Outcome { send, accepted } => {
                write!(f, "is told of send {send}: {}", if *accepted { "accepted" } else { "failed" })
            }
            Self::Archived(events) => write!(f, "archived {events}"),
            Self::Asking { call, what } => write!(f, "call {call}: {what}"),
            Self::Claimed { call, partition, returned: false } => {
                write!(f, "call {call}: the store has its claim of partition {partition}")
            }
            Self::Claimed { call, partition, returned: true } => {
                write!(f, "call {call}: partition {partition} is given back")
            }
            Self::Requested { call, partition } => {
                write!(f, "call {call}: the owner of partition {partition} is asked to give it back")
            }
            Self::Writing { call, partition, sequence_number } => {
                write!(f, "call {call}: writes checkpoint {partition}:{sequence_number}")
            }
            Self::Written { call, partition, sequence_number } => {
                write!(f, "call {call}: the store has checkpoint {partition}:{sequence_number}")
            }
            Self::Answered { call, ok } => {
                write!(f, "call {call} is answered: {}", if *ok { "done" } else { "failed" })
            }
        }
    }
}

impl fmt::Display for Events {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { partition, first, last } = self;
        write!(f, "{partition}:{first}..={last}")
    }
}
