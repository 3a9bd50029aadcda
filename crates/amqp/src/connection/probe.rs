//! A question to a peer that has been silent, to know within seconds whether it can still be reached.
//!
//! Heartbeats prove too little: a peer owes one per idle time-out only. A flow with `echo` asks for an answer at once (specification
//! section 2.7.4). Not every peer gives it, so silence after the question says something only about one that has answered before.
//!
//! ```text
//!            after `Config::probe_after`             after as long again, of a peer that answers
//!  Heard ────────────────────────────────► Asked ────────────────────────────────────────────► Silent
//!    ▲                                       │                                                    │
//!    └───────────────────────────────────────┴────────────────────── any input ───────────────────┘
//! ```

use std::time::{Duration, Instant};

use crate::codec::Reader;
use crate::frame::FrameHeader;
use crate::performative::{Flow, descriptor};

/// State of the questions to one peer.
#[derive(Debug, Default)]
pub(super) struct Probe {
    state: State,
    /// Number of questions in a row that the peer has answered, up to [`PROOF`].
    answers: u8,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum State {
    /// The peer has sent something since it was last asked.
    #[default]
    Heard,
    /// It was asked then, and has sent nothing since.
    Asked(Instant),
    /// It should have answered by now.
    Silent,
}

impl Probe {
    /// Whether the peer was asked and has sent nothing since.
    #[inline]
    pub(super) fn waits(&self) -> bool {
        self.state != State::Heard
    }

    /// Takes note of the first input since the question, of which `input` is all that has not been handled.
    #[cold]
    pub(super) fn hear(&mut self, input: &[u8]) {
        match (begins_with_session_flow(input), self.state) {
            (Some(true), _) => self.answers = (self.answers + 1).min(PROOF),
            // It may be a peer that does not answer, and was there all the time.
            (Some(false), _) | (None, State::Silent) => self.answers = 0,
            (None, _) => {}
        }
        self.state = State::Heard;
    }

    /// A deadline has passed. Says whether the peer is to be asked.
    pub(super) fn pass(&mut self, now: Instant) -> bool {
        let asks = self.state == State::Heard;
        self.state = match asks {
            true => State::Asked(now),
            false => State::Silent,
        };
        asks
    }

    /// Returns the next deadline, unless input comes before.
    pub(super) fn deadline(&self, last_input: Instant, patience: Duration) -> Option<Instant> {
        match self.state {
            State::Heard => Some(last_input + patience),
            State::Asked(asked) => (self.answers == PROOF).then_some(asked + patience),
            State::Silent => None,
        }
    }

    /// Whether a peer that answers has not answered.
    pub(super) fn is_silent(&self) -> bool {
        self.state == State::Silent
    }
}

/// Whether the first frame is a flow of a session and of no link; `None` if it is a heartbeat, which may have been under way, or has
/// not come whole.
fn begins_with_session_flow(input: &[u8]) -> Option<bool> {
    let header = FrameHeader::parse(input, u32::MAX).ok()??;
    let body = input.get(header.body..header.size).filter(|body| !body.is_empty())?;
    let mut body = Reader::new(body);
    let is_flow = body.descriptor().is_ok_and(|descriptor| descriptor == descriptor::FLOW);
    Some(is_flow && Flow::decode(&mut body).is_ok_and(|flow| flow.handle.is_none()))
}

/// So many answers show that a peer gives them. One flow may have been due anyway.
const PROOF: u8 = 2;
