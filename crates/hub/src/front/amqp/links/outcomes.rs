//! Deliveries that need an outcome, from when they are sent until the outcome that the client gave them is answered.

use amqp::connection::{LinkId, SessionId, Unsettled};
use amqp::performative::DeliveryState;
use partition_log::disk::CommitNumber;

/// What a node settles a delivery by.
pub(crate) type Token = queue_store::LockToken;

/// A delivery whose outcome is awaited.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LockedDelivery {
    /// The link, by its index.
    pub(crate) link: u32,
    /// What it is settled by.
    pub(crate) token: Token,
}

/// The deliveries of a connection whose outcome is awaited, by [`SessionId::index`].
#[derive(Debug, Default)]
pub(crate) struct AwaitedOutcomes {
    locked: Vec<Unsettled<LockedDelivery>>,
}

/// An outcome that a client gave for some deliveries of one link.
#[derive(Debug)]
pub(crate) struct Proposal {
    pub(crate) link: LinkId,
    pub(crate) session: SessionId,
    pub(crate) state: DeliveryState,
    /// Whether the client waits for an answer.
    pub(crate) wants_answer: bool,
}

/// What is to be answered about the deliveries from one id to another.
#[derive(Debug, PartialEq)]
pub(crate) struct OutcomeAnswer {
    pub(crate) first: u32,
    pub(crate) last: u32,
    pub(crate) state: DeliveryState,
    /// What it has to wait for.
    pub(crate) commit: CommitNumber,
    /// Whether the deliveries are settled. If not, the outcome is part of a transaction, and they stay unsettled until it ends.
    pub(crate) is_settled: bool,
}

impl AwaitedOutcomes {
    /// Those of a session.
    pub(crate) fn of(&mut self, session: SessionId) -> &mut Unsettled<LockedDelivery> {
        let index = session.index();
        if self.locked.len() <= index {
            self.locked.resize_with(index + 1, Unsettled::default);
        }
        &mut self.locked[index]
    }

    /// Takes what awaits its outcome from `first` to `last` on a session, at most `count`. Returns the id to go on from if there
    /// may be more.
    pub(crate) fn take(
        &mut self,
        session: SessionId,
        first: u32,
        last: u32,
        count: u32,
        each: impl FnMut(u32, LockedDelivery),
    ) -> Option<u32> {
        self.locked.get_mut(session.index())?.take_some(first, last, count, each)
    }

    /// Reinserts a delivery whose outcome is part of a transaction that may be rolled back.
    pub(crate) fn put_back(&mut self, session: SessionId, id: u32, delivery: LockedDelivery) {
        self.of(session).put_back(id, delivery);
    }

    /// A link is gone: what it had received can be settled no longer.
    pub(crate) fn forget_link(&mut self, session: SessionId, link: LinkId) {
        let index = link.index() as u32;
        if let Some(locked) = self.locked.get_mut(session.index()) {
            locked.retain(|delivery| delivery.link != index);
        }
    }

    /// A session is gone with all its links.
    pub(crate) fn forget_session(&mut self, session: SessionId) {
        if let Some(locked) = self.locked.get_mut(session.index()) {
            *locked = Unsettled::default();
        }
    }
}
