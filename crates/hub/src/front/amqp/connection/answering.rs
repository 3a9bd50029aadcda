//! Requests of a connection, and the way of their answers.

use std::time::SystemTime;

use amqp::TransactionId;
use amqp::connection::{LinkId, NewDelivery, SessionId};
use amqp::performative::{Error, ErrorCondition};
use tokio::time::Instant;

use super::answers::{ClientAnswer, PendingReply};
use super::client_quirks;
use super::{ConnectionTask, top_up_credit};
use crate::front::amqp::links::LinkEntry;
use crate::front::amqp::links::node::Replies;
use crate::front::amqp::links::requests::{Answered, Reply, RequestContext, RequestNode};
use crate::front::pending::Until;
use crate::memory::Purpose;
use partition_log::disk::CommitNumber;

impl ConnectionTask {
    pub(super) fn on_request(
        &mut self,
        node: &RequestNode,
        session: SessionId,
        message: &[u8],
        now: SystemTime,
        transaction: Option<TransactionId>,
    ) {
        let work = transaction
            .map(|id| Self::transaction_work(&mut self.transactions, id, session, now, message.len()))
            .transpose();
        let work = match work {
            Ok(work) => work,
            Err(error) => {
                return match node.refuse(message, error) {
                    Ok(reply) => self.reply(node, session, reply),
                    Err(error) => tracing::debug!(%error, "a request cannot be read"),
                };
            }
        };
        let context = RequestContext {
            namespace: &self.namespace,
            host: &self.host,
            claims: &mut self.claims,
            now,
            connection: self.driver.connection(),
            links: &self.links,
            transaction: work,
        };
        match node.answer(context, message) {
            Ok(Answered { reply, commit, entity, is_granted }) => {
                // Some clients put no token, and show it with each of these requests.
                if is_granted && *node == RequestNode::Management {
                    self.proof.show(&mut self.driver);
                }
                let ready_at = self.shaper.as_mut().and_then(|shaper| shaper.request(entity.as_deref()));
                let ready_at = ready_at.max(client_quirks::answer_at(self.pause));
                if commit.is_none() && ready_at.is_none() {
                    self.reply(node, session, reply);
                } else {
                    self.reply_later(node, session, reply, commit, ready_at);
                }
            }
            Err(error) => tracing::debug!(%error, "a request cannot be read"),
        }
        if *node == RequestNode::Cbs {
            self.set_expiry(self.namespace.clock().token_now_at(now));
            if !self.claims.is_empty() {
                self.proof.show(&mut self.driver);
            }
        }
    }

    /// Keeps a reply until what it waits for has come about.
    fn reply_later(
        &mut self,
        node: &RequestNode,
        session: SessionId,
        reply: Reply,
        commit: Option<(CommitNumber, Reply)>,
        ready_at: Option<Instant>,
    ) {
        let bytes = reply.message.len();
        if !self.charge_reply(bytes) {
            return;
        }
        let instant = self.late_replies.wait(ready_at);
        let (commit, if_unknown) = match commit {
            Some((commit, if_unknown)) => (commit, Some(if_unknown)),
            None => (CommitNumber::DONE, None),
        };
        let pending = PendingReply { node: node.clone(), session, reply, bytes, if_unknown };
        self.pending.push(ClientAnswer::Reply(Box::new(pending)), Until { commit, instant });
    }

    /// Sends a reply that has waited long enough.
    pub(super) fn reply_now(&mut self, pending: PendingReply) {
        self.waiting_replies.shrink_by(pending.bytes);
        self.reply(&pending.node, pending.session, pending.reply);
    }

    fn reply(&mut self, node: &RequestNode, session: SessionId, reply: Reply) {
        // Some clients look for the reply only once their request has its outcome.
        self.driver.connection().write_outcomes(session);
        let reply_to = reply.reply_to.as_deref();
        let fitness = |entry: &LinkEntry| {
            let replies = entry.node.replies().filter(|replies| replies.node == *node)?;
            let by_target = reply_to.is_some() && replies.target.as_deref() == reply_to;
            let by_name = reply_to == Some(replies.name.as_str());
            Some((by_target, by_name, entry.session == session, entry.id))
        };
        // A reply that nobody named or shares a session with would go to a stranger.
        let best = self
            .links
            .iter()
            .flatten()
            .filter_map(fitness)
            .filter(|(by_target, by_name, same_session, _)| *by_target || *by_name || *same_session)
            .max_by_key(|(by_target, by_name, same_session, _)| {
                (*by_target || *by_name, *same_session, *by_target)
            });
        let Some((.., link)) = best else { return };
        if self.charge_reply(reply.message.len())
            && let Some(Some(entry)) = self.links.get_mut(link.index())
            && let Some(replies) = entry.node.replies_mut()
        {
            replies.waiting.push_back(reply.message);
            self.flush_replies(link);
        }
    }

    /// Charges a reply that is about to wait to the budget of all connections. If that is used up, or the connection has too many, it is to
    /// be closed.
    fn charge_reply(&mut self, bytes: usize) -> bool {
        let bytes = self.waiting_replies.held() + bytes;
        self.waiting_replies.reassign(if self.proof.is_missing() {
            Purpose::AmqpLogins
        } else {
            Purpose::AmqpReplies
        });
        let fits = bytes <= self.proof.replies_bytes_max() && self.waiting_replies.resize(bytes);
        if !fits {
            self.close_reason =
                Some(Error::new(ErrorCondition::RESOURCE_LIMIT_EXCEEDED, NO_MEMORY_FOR_REPLIES));
        }
        fits
    }

    /// Sends the replies of a link that wait, as far as the output, its credit and the window of its session allow. Returns whether none
    /// is left.
    fn flush_replies(&mut self, link: LinkId) -> bool {
        let Some(Some(entry)) = self.links.get_mut(link.index()) else {
            return true;
        };
        let Some(Replies { waiting, .. }) = entry.node.replies_mut() else {
            return true;
        };
        while let Some(message) = waiting.front() {
            if !self.output.has_room(self.driver.connection().output_len(), &self.proof) {
                self.replies_wait_for_output = true;
                return false;
            }
            let Some(mut sender) = self.driver.connection().sender(link) else {
                return false;
            };
            let delivery = NewDelivery { tag: &[0], format: amqp::message::FORMAT_AMQP, settled: true };
            if sender.send(&delivery, &[message]).is_err() {
                return false;
            }
            self.waiting_replies.shrink_by(message.len());
            waiting.pop_front();
        }
        true
    }

    /// Sends replies that waited until the client took some of the output.
    pub(super) fn resume_replies(&mut self) {
        if self.replies_wait_for_output && self.has_room_for_output() {
            self.replies_wait_for_output = false;
            (0..self.links.len()).for_each(|index| self.resume_replies_of(index));
        }
    }

    pub(super) fn resume_replies_of(&mut self, index: usize) {
        if let Some(Some(entry)) = self.links.get(index)
            && entry.node.replies().is_some()
        {
            let link = entry.id;
            if self.flush_replies(link)
                && let Some(mut sender) = self.driver.connection().sender(link)
            {
                sender.drained();
            }
        }
    }

    /// Lets the client send more requests over a link, unless many replies wait for it.
    pub(super) fn top_up_requests(&mut self, link: LinkId) {
        match self.links.get(link.index()) {
            _ if !self.takes_requests() => self.requests_wait = true,
            Some(Some(entry)) => top_up_credit(self.driver.connection(), entry),
            _ => {}
        }
    }

    /// Lets the client send more requests when only few replies wait for it any more.
    pub(super) fn resume_requests(&mut self) {
        if self.requests_wait && self.takes_requests() {
            self.requests_wait = false;
            let requests = self.links.iter().flatten().filter(|entry| entry.node.requests().is_some());
            requests.for_each(|entry| top_up_credit(self.driver.connection(), entry));
        }
    }

    const fn takes_requests(&self) -> bool {
        self.waiting_replies.held() <= self.proof.replies_bytes()
    }

    /// Forgets the replies that wait for a link that is gone.
    pub(super) fn forget_replies(&mut self, removed: &LinkEntry) {
        if let Some(replies) = removed.node.replies() {
            self.waiting_replies.shrink_by(replies.waiting_bytes());
        }
    }
}

/// Text of the close frame at the bound.
const NO_MEMORY_FOR_REPLIES: &str =
    "The replies to requests wait for their clients to receive them, and no memory is left for more.";
