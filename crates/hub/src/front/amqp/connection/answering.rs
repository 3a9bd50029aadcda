//! Requests of a connection, and the way of their answers.

use std::time::SystemTime;

use amqp::TransactionId;
use amqp::connection::{LinkId, NewDelivery, SessionId};
use tokio::time::Instant;

use super::ConnectionTask;
use super::answers::{ClientAnswer, PendingReply};
use super::client_quirks;
use crate::front::amqp::links::LinkEntry;
use crate::front::amqp::links::node::Replies;
use crate::front::amqp::links::requests::{Answered, Reply, RequestContext, RequestNode};
use crate::front::pending::Until;
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
            claims: &mut self.claims,
            now,
            connection: self.driver.connection(),
            links: &self.links,
            transaction: work,
        };
        match node.answer(context, message) {
            Ok(Answered { reply, commit, entity }) => {
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
            self.set_expiry(now);
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
        if !self.late_replies.has_room() {
            return tracing::debug!("a reply is dropped: too many are waiting already");
        }
        let bytes = reply.message.len();
        let instant = self.late_replies.wait(bytes, ready_at);
        let (commit, if_unknown) = match commit {
            Some((commit, if_unknown)) => (commit, Some(if_unknown)),
            None => (CommitNumber::DONE, None),
        };
        let pending = PendingReply { node: node.clone(), session, reply, bytes, if_unknown };
        self.pending.push(ClientAnswer::Reply(Box::new(pending)), Until { commit, instant });
    }

    pub(super) fn reply(&mut self, node: &RequestNode, session: SessionId, reply: Reply) {
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
        let all = self.links.iter().flatten().filter_map(|entry| entry.node.replies());
        let waiting_bytes: usize = all.map(Replies::waiting_bytes).sum();
        if let Some(Some(entry)) = self.links.get_mut(link.index())
            && let Some(replies) = entry.node.replies_mut()
            && waiting_bytes <= self.proof.waiting_replies_bytes()
        {
            replies.waiting.push_back(reply.message);
        }
        self.flush_replies(link);
    }

    /// Sends the replies of a link that wait, as far as its credit and the window of its session allow. Returns whether none is left.
    pub(super) fn flush_replies(&mut self, link: LinkId) -> bool {
        let Some(Some(entry)) = self.links.get_mut(link.index()) else {
            return true;
        };
        let Some(Replies { waiting, .. }) = entry.node.replies_mut() else {
            return true;
        };
        while let Some(message) = waiting.front() {
            let Some(mut sender) = self.driver.connection().sender(link) else {
                return false;
            };
            let delivery = NewDelivery { tag: &[0], format: amqp::message::FORMAT_AMQP, settled: true };
            if sender.send(&delivery, &[message]).is_err() {
                return false;
            }
            waiting.pop_front();
        }
        true
    }
}
