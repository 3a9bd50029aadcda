//! What a connection reports.

use bytes::Bytes;

use super::{ConnectionError, LinkId, SessionId};
use crate::TransactionId;
use crate::performative::{Attach, DeliveryState, Error, Open};

/// Something that happened. One event may carry a whole batch.
#[derive(Debug)]
pub enum Event {
    /// The peer's open arrived: sessions can begin.
    Opened(Box<Open>),
    /// A session is up: begun by the peer, or our begin was answered.
    SessionBegan(SessionId),
    /// A session and all its links are gone. Its id may be used again.
    SessionEnded {
        /// The session.
        session: SessionId,
        /// The peer's reason or ours.
        error: Option<Error>,
    },
    /// The peer asks for a link: answer with [`accept_link`](super::Connection::accept_link) or
    /// [`refuse_link`](super::Connection::refuse_link).
    LinkRequested {
        /// The link to be.
        link: LinkId,
        /// Its session.
        session: SessionId,
        /// What the peer asks for.
        attach: Box<Attach>,
    },
    /// The peer accepted a link of ours.
    LinkAttached {
        /// The link.
        link: LinkId,
        /// The peer's side of it.
        attach: Box<Attach>,
    },
    /// A link is gone: detached by the peer, or refused.
    LinkDetached {
        /// The link; its id is no longer valid.
        link: LinkId,
        /// The peer's reason.
        error: Option<Error>,
    },
    /// A sending link has credit that it had not before.
    Credit(LinkId),
    /// The session window opened after it had been closed, or a waiting message went out.
    WindowOpen(SessionId),
    /// The receiver of a sending link wants the credit used up: send what there is, then call
    /// [`drained`](super::SenderMut::drained).
    DrainRequested(LinkId),
    /// The sender of a receiving link has used up the credit, as asked.
    Drained(LinkId),
    /// Messages arrived.
    Deliveries(Deliveries),
    /// A message was refused here, before the application saw it: it is larger than its link takes, or there is no room for
    /// it. The sender has been told.
    DeliveryRefused {
        /// The receiving link.
        link: LinkId,
        /// What the sender was told.
        error: Box<Error>,
    },
    /// The receiver gave the outcome of deliveries that we sent. They are settled.
    Outcome {
        /// The session that numbers the deliveries.
        session: SessionId,
        /// First delivery id.
        first: u32,
        /// Last delivery id.
        last: u32,
        /// The outcome; `None` if the receiver settled without one.
        state: Option<DeliveryState>,
    },
    /// The receiver proposed the outcome of deliveries that we sent, and waits for
    /// [`answer_outcome`](super::Connection::answer_outcome) of the same range or of all parts of it. Comes instead of
    /// [`Event::Outcome`] where the application has the answer ([`OutcomeAnswers`](super::OutcomeAnswers)). An outcome that is part
    /// of a transaction is answered with [`take_outcome`](super::Connection::take_outcome) or
    /// [`settle_taken`](super::Connection::settle_taken).
    OutcomeProposed {
        /// The session that numbers the deliveries.
        session: SessionId,
        /// First delivery id.
        first: u32,
        /// Last delivery id.
        last: u32,
        /// The outcome.
        state: DeliveryState,
        /// Whether these deliveries wait for an outcome: all of them, or the first and the last and some between, where a
        /// long outcome was given to deliveries that are too scattered. Otherwise none of them does: they have had theirs, were never
        /// sent, or their link is gone. Such a range may be far wider than what there is: do not walk it id by id.
        is_known: bool,
    },
    /// The sender settled deliveries whose outcome we gave unsettled. The range is as the peer wrote it, perhaps far
    /// wider than what there is: do not walk it id by id.
    SettledBySender {
        /// The session that numbers the deliveries.
        session: SessionId,
        /// First delivery id.
        first: u32,
        /// Last delivery id.
        last: u32,
        /// What became of them, which may be another outcome than the one we gave; `None` if the sender does not say.
        state: Option<DeliveryState>,
    },
    /// The sender accepted an outcome of ours without settling the deliveries: it settles them with the transaction that the outcome is
    /// part of. The range is as the peer wrote it, as that of [`SettledBySender`](Event::SettledBySender).
    TakenBySender {
        /// The session that numbers the deliveries.
        session: SessionId,
        /// First delivery id.
        first: u32,
        /// Last delivery id.
        last: u32,
        /// The outcome it has accepted.
        state: DeliveryState,
    },
    /// The connection is over; nothing follows.
    Closed(Option<ConnectionError>),
}

/// Messages that arrived one after the other, perhaps on several links, as ranges of one buffer.
///
/// Give it back with [`Connection::recycle`](super::Connection::recycle) when done, so that receiving allocates nothing.
#[derive(Debug, Default)]
pub struct Deliveries {
    pub(crate) chunk: Bytes,
    pub(crate) items: Vec<Delivery>,
    /// Which of them are part of a transaction, by their places, ascending.
    pub(crate) transactions: Vec<(u32, TransactionId)>,
}

impl Deliveries {
    /// The buffer that the deliveries are ranges of. A clone of it keeps it alive.
    pub const fn chunk(&self) -> &Bytes {
        &self.chunk
    }

    /// The deliveries, in order of arrival.
    pub fn items(&self) -> &[Delivery] {
        &self.items
    }

    /// The encoded message of a delivery of this batch.
    #[inline]
    pub fn message(&self, delivery: &Delivery) -> &[u8] {
        &self.chunk[delivery.start as usize..delivery.end as usize]
    }

    /// The transaction that the delivery at this place of [`items`](Self::items) is part of, if it is.
    pub fn transaction(&self, place: usize) -> Option<TransactionId> {
        let found = self.transactions.binary_search_by_key(&place, |(of, _)| *of as usize);
        found.ok().map(|at| self.transactions[at].1)
    }

    /// Whether any of them is part of a transaction.
    #[inline]
    pub const fn has_transactions(&self) -> bool {
        !self.transactions.is_empty()
    }

    /// The delivery tag of a delivery of this batch.
    pub fn tag(&self, delivery: &Delivery) -> &[u8] {
        let start = delivery.tag_start as usize;
        &self.chunk[start..start + usize::from(delivery.tag_length)]
    }
}

/// One message of a [`Deliveries`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Delivery {
    /// The receiving link.
    pub link: LinkId,
    /// Its number on the session, by which it is settled.
    pub id: u32,
    /// Message format.
    pub format: u32,
    /// Where the encoded message starts in the chunk.
    pub start: u32,
    /// Where it ends.
    pub end: u32,
    pub(crate) tag_start: u32,
    pub(crate) tag_length: u8,
    /// Whether the sender wants no outcome.
    pub settled: bool,
}
