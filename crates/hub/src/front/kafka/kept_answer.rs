//! Answers that wait until what they tell is on disk.

use std::pin::Pin;
use std::task::{Context, Poll};

use kafka::frame::RequestHeader;
use kafka::write::Writer;
use kafka::{ApiKey, ErrorCode};
use partition_log::disk::{CommitNumber, CommitState, CommitWatch};
use tokio::sync::oneshot;

use super::output::{Frame, Output};

/// An answer that waits, as it will be if all goes well, and if not.
#[derive(Debug)]
pub(super) struct KeptAnswer {
    until: Until,
    kept: Frame,
    refused: Frame,
}

/// What an answer waits for.
#[derive(Debug)]
pub(super) enum Until {
    /// A commit of what was appended.
    Commit(CommitNumber),
    /// Someone who says whether it has gone well.
    Told(oneshot::Receiver<bool>),
    /// As above, who has said it.
    Settled(bool),
}

impl Until {
    /// There is nothing to wait for.
    pub(super) const DONE: Self = Self::Commit(CommitNumber::DONE);
}

impl KeptAnswer {
    /// Writes the answer, if there is nothing to wait for; otherwise it is in what is returned. `write` is told whether all has
    /// gone well.
    pub(super) fn after(
        until: Until,
        header: &RequestHeader<'_>,
        key: ApiKey,
        output: &mut Output,
        write: impl Fn(&mut Writer, bool),
    ) -> Option<Self> {
        if let Until::Commit(CommitNumber::DONE) = until {
            output.answer(key, header.version, header.correlation_id, |writer| write(writer, true));
            return None;
        }
        let frame = |is_kept| {
            let mut output = Output::default();
            output.answer(key, header.version, header.correlation_id, |writer| write(writer, is_kept));
            output.into_frame()
        };
        Some(Self { until, kept: frame(true), refused: frame(false) })
    }

    /// Whether it waits no longer.
    pub(super) fn is_ready(&mut self, commits: Option<&CommitWatch>) -> bool {
        match &mut self.until {
            Until::Commit(commit) => {
                let state = commits.map_or(CommitState::Done, |commits| commits.state_of(*commit));
                if state == CommitState::Waiting {
                    return false;
                }
                self.until = Until::Settled(state == CommitState::Done);
            }
            Until::Told(receiver) => match receiver.try_recv() {
                Ok(is_kept) => self.until = Until::Settled(is_kept),
                Err(oneshot::error::TryRecvError::Empty) => return false,
                Err(oneshot::error::TryRecvError::Closed) => self.until = Until::Settled(false),
            },
            Until::Settled(_) => {}
        }
        true
    }

    /// Ready when it is worth asking [`is_ready`](Self::is_ready), apart from commits, which the connection watches.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        match &mut self.until {
            Until::Commit(_) => Poll::Pending,
            Until::Told(receiver) => Pin::new(receiver).poll(cx).map(|told| {
                self.until = Until::Settled(told.unwrap_or(false));
            }),
            Until::Settled(_) => Poll::Ready(()),
        }
    }

    /// Whether it waits for a commit.
    pub(super) const fn awaits_commit(&self) -> bool {
        matches!(self.until, Until::Commit(_))
    }

    /// Writes the answer, which waits no longer.
    pub(super) fn answer(self, output: &mut Output) {
        output.push_frame(match self.until {
            Until::Settled(true) => self.kept,
            _ => self.refused,
        });
    }
}

/// The errors of changes, as they are if these are not on disk.
pub(super) fn unless_kept(errors: &[ErrorCode], is_kept: bool) -> Vec<ErrorCode> {
    let refused = |error: &ErrorCode| match error {
        ErrorCode::None if !is_kept => ErrorCode::CoordinatorNotAvailable,
        error => *error,
    };
    errors.iter().map(refused).collect()
}
