//! A question to a peer that has been silent, to know within seconds whether it can still be reached.
//!
//! Heartbeats prove too little: a peer owes one per idle time-out only. A flow with `echo` asks for an answer at once (specification
//! section 2.7.4). Not every peer gives it, so silence after the question says something only about one that has answered before.
//! Therefore the first questions are asked when the first session begins: a connection that is busy from then on has no other occasion
//! before its peer is gone.
//!
//! ```text
//!            after `Config::probe_after`             after as long again, of a peer that answers
//!  Heard ────────────────────────────────► Asked ────────────────────────────────────────────► Silent
//!    ▲                                       │                                                    │
//!    └───────────────────────────────────────┴────────────────────── any input ───────────────────┘
//! ```

use std::time::{Duration, Instant};

/// State of the questions to one peer.
#[derive(Debug, Default)]
pub(super) struct Probe {
    state: State,
    /// Whether the last question has not been answered.
    is_owed: bool,
    /// Number of questions in a row that the peer has answered, up to [`PROOF`].
    answers: u8,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum State {
    /// The peer has sent something since it was last asked because of its silence.
    #[default]
    Heard,
    /// It was asked then, and has sent nothing since.
    Asked(Instant),
    /// It should have answered by now.
    Silent,
}

impl Probe {
    /// Whether the peer was asked because of its silence and has sent nothing since.
    #[inline]
    pub(super) fn waits(&self) -> bool {
        self.state != State::Heard
    }

    /// Records the first input since then.
    pub(super) fn hear(&mut self) {
        self.state = State::Heard;
    }

    /// Records that a session has begun. Returns whether the peer is to be asked, which it is at the first one.
    pub(super) fn begin(&mut self) -> bool {
        let asks = !self.is_owed && self.answers == 0;
        self.is_owed |= asks;
        asks
    }

    /// Records a flow of a session and of no link. Returns whether the peer is to be asked once more.
    pub(super) fn take_session_flow(&mut self) -> bool {
        if !self.is_owed {
            return false;
        }
        self.answers = (self.answers + 1).min(PROOF);
        self.is_owed = self.answers < PROOF;
        self.is_owed
    }

    /// A deadline has passed. Returns whether the peer is to be asked.
    pub(super) fn pass(&mut self, now: Instant) -> bool {
        if self.state != State::Heard {
            self.state = State::Silent;
            return false;
        }
        if self.is_owed {
            // It has sent something since then, so it was there and did not answer.
            self.answers = 0;
        }
        self.is_owed = true;
        self.state = State::Asked(now);
        true
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

/// So many answers show that a peer gives them. One flow may have been due anyway.
const PROOF: u8 = 2;
