//! Replies that wait: for the instant at which a slower service would give them, or at which a client can take them.

use std::collections::VecDeque;
use std::task::Context;

use amqp::connection::SessionId;
use tokio::time::Instant;

use super::requests::{Reply, RequestNode};
use crate::profile::Alarm;

/// The replies of one connection that wait. They leave in the order of their requests, as those of one node do.
#[derive(Debug)]
pub(crate) struct LateReplies {
    waiting: VecDeque<(Instant, RequestNode, SessionId, Reply)>,
    /// Of the messages that wait.
    bytes: usize,
    alarm: Alarm,
}

impl LateReplies {
    /// None yet.
    pub(crate) const fn new(alarm: Alarm) -> Self {
        Self { waiting: VecDeque::new(), bytes: 0, alarm }
    }

    /// Keeps a reply until `at`. It is lost to a client for which too much waits already.
    pub(crate) fn push(&mut self, at: Instant, node: RequestNode, session: SessionId, reply: Reply) {
        if self.bytes <= WAITING_BYTES {
            self.bytes += reply.message.len();
            let at = self.waiting.back().map_or(at, |(last, ..)| at.max(*last));
            self.waiting.push_back((at, node, session, reply));
        }
    }

    /// The next reply whose time has come; where there is none, the task is woken for it.
    pub(crate) fn poll_due(&mut self, cx: &mut Context<'_>) -> Option<(RequestNode, SessionId, Reply)> {
        let (at, ..) = self.waiting.front()?;
        if self.alarm.poll(cx, *at).is_pending() {
            return None;
        }
        let (_, node, session, reply) = self.waiting.pop_front()?;
        self.bytes -= reply.message.len();
        Some((node, session, reply))
    }
}

/// What may wait, in bytes over all nodes: as much as may wait for credit.
const WAITING_BYTES: usize = 256 * 1024;
