//! Requests of a connection, and the way of their answers.

use std::task::Context;
use std::time::SystemTime;

use amqp::connection::{LinkId, NewDelivery, SessionId};

use super::super::hasty;
use super::super::links::{LinkEntry, Node, Replies};
use super::super::requests::{Reply, RequestNode};
use super::ConnectionTask;
use crate::profile::Shaper;

impl ConnectionTask {
    pub(super) fn on_request(
        &mut self,
        node: RequestNode,
        session: SessionId,
        message: &[u8],
        now: SystemTime,
    ) {
        match node.answer(&self.namespace, &mut self.claims, message, now) {
            Ok(reply) => {
                let ready_at = self.shaper.as_mut().and_then(Shaper::request);
                match ready_at.max(hasty::answer_at(self.pause)) {
                    None => self.reply(node, session, reply),
                    Some(at) => self.late_replies.push(at, node, session, reply),
                }
            }
            Err(error) => tracing::debug!(%error, "a request cannot be read"),
        }
        self.set_expiry(now);
    }

    pub(super) fn send_late_replies(&mut self, cx: &mut Context<'_>) {
        while let Some((node, session, reply)) = self.late_replies.poll_due(cx) {
            self.reply(node, session, reply);
        }
    }

    fn reply(&mut self, node: RequestNode, session: SessionId, reply: Reply) {
        // Some clients look for the reply only once their request has its outcome.
        self.driver.connection().write_outcomes(session);
        let replies = self
            .links
            .iter()
            .flatten()
            .filter_map(|entry| match &entry.node {
                Node::Replies(replies) if replies.node == node => {
                    let named = reply.reply_to.is_some() && replies.target == reply.reply_to;
                    Some((named, entry.session == session, entry.id))
                }
                _ => None,
            });
        // A reply that nobody named or shares a session with would go to a stranger.
        let best = replies
            .filter(|(named, same_session, _)| *named || *same_session)
            .max_by_key(|(named, same_session, _)| (*named, *same_session));
        let Some((.., link)) = best else { return };
        let nodes = self.links.iter().flatten().map(|entry| &entry.node);
        let waiting_bytes: usize = nodes.map(Node::waiting_bytes).sum();
        if let Some(Some(LinkEntry {
            node: Node::Replies(replies),
            ..
        })) = self.links.get_mut(link.index())
            && waiting_bytes <= WAITING_REPLIES_BYTES
        {
            replies.waiting.push_back(reply.message);
        }
        self.flush_replies(link);
    }

    pub(super) fn flush_replies(&mut self, link: LinkId) {
        let Some(Some(entry)) = self.links.get_mut(link.index()) else {
            return;
        };
        let Node::Replies(Replies { waiting, .. }) = &mut entry.node else {
            return;
        };
        while let Some(message) = waiting.front() {
            let Some(mut sender) = self.driver.connection().sender(link) else {
                return;
            };
            let delivery = NewDelivery {
                tag: &[0],
                format: amqp::message::FORMAT_AMQP,
                settled: true,
            };
            if sender.send(&delivery, &[message]).is_err() {
                return;
            }
            waiting.pop_front();
        }
    }
}

/// Replies kept for a client that grants no credit for them, in bytes over all its links. Further ones are lost to it.
const WAITING_REPLIES_BYTES: usize = 256 * 1024;
