//! The half of the connection that sends: the link to where messages go, the one to the coordinator, and what is under way on them.
//!
//! ```text
//!   session "data" ─┬─ receiver     attached first: what it receives from is what transactions are of
//!                   ├─ coordinator  declare, discharge
//!                   └─ sender       messages, each within a transaction
//! ```
//!
//! All three share one session, by which the service takes the sends for sends *via* the entity that is received from: only so may a
//! transaction go from one entity to another.

use std::collections::VecDeque;
use std::task::Poll;
use std::time::{Duration, Instant};

use amqp::connection::{LinkId, LinkOptions, NewDelivery};
use amqp::message::FORMAT_AMQP;
use amqp::performative::{Attach, DeliveryState, Target};
use amqp::{CoordinatorRequest, Symbol};

use super::super::sink::annotated;
use super::transactions::{End, Ended, MESSAGES_MAX, Member, Step, Transactions};
use crate::service::error::{PROTOCOL, TIMEOUT};
use crate::service::{
    ENVELOPE_BYTES_MAX, OUTPUT_BYTES_MAX, OUTSTANDING_MAX, Outstanding, ServiceConnection, ServiceError,
    USUAL_MESSAGE_BYTES_MAX, sender_options,
};
use crate::sink::{ErrorClass, OutgoingBatch, SendError, SendOutcome, SendToken, SinkBusy, hand_over};

/// Where messages go, and the transactions by which they do.
#[derive(Debug)]
pub(in crate::service_bus) struct Forward {
    entity: String,
    /// Begins the names of its links.
    client: String,
    sender: Link,
    coordinator: Link,
    links_attached: u64,
    max_message_bytes: usize,
    transactions: Transactions,
    /// What was sent and is not answered, by delivery id; their tokens are [names](Sent).
    outstanding: Outstanding,
    /// Scratch: what was answered at once.
    answered: Vec<SendToken>,
    outcomes: Vec<SendOutcome>,
    /// What has ended and was not dealt with.
    ended: VecDeque<Ended>,
    /// Whether a send was refused and nothing has changed since.
    blocked: bool,
    /// Whether one was refused because the socket has to take some of the output first.
    output_full: bool,
    /// Whether there is something for the sink's user that it does not know of.
    news: bool,
    next_tag: u32,
    /// The encoded annotations, or request, at hand.
    scratch: Vec<u8>,
}

#[derive(Debug)]
enum Link {
    Detached,
    Attaching(LinkId),
    Attached(LinkId),
    /// The service refused it. The next send gets this as its outcome, and one after it tries again.
    Refused(Box<ServiceError>),
}

/// What was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sent {
    Declare(u64),
    Discharge(u64),
    /// The message at this place of a transaction.
    Message(u64, usize),
}

impl Forward {
    /// To this entity, for a client of this name.
    pub(in crate::service_bus) fn new(entity: String, client: &str) -> Self {
        Self {
            entity,
            client: client.to_owned(),
            sender: Link::Detached,
            coordinator: Link::Detached,
            links_attached: 0,
            max_message_bytes: USUAL_MESSAGE_BYTES_MAX,
            transactions: Transactions::default(),
            outstanding: Outstanding::default(),
            answered: Vec::new(),
            outcomes: Vec::new(),
            ended: VecDeque::new(),
            blocked: false,
            output_full: false,
            news: false,
            next_tag: 0,
            scratch: Vec::new(),
        }
    }

    /// Whether both links are there.
    pub(in crate::service_bus) const fn is_attached(&self) -> bool {
        matches!((&self.sender, &self.coordinator), (Link::Attached(_), Link::Attached(_)))
    }

    /// Why the link to where messages go is refused, if it is.
    pub(in crate::service_bus) fn refusal(&self) -> Option<&ServiceError> {
        match &self.sender {
            Link::Refused(error) => Some(error),
            Link::Detached | Link::Attaching(_) | Link::Attached(_) => None,
        }
    }

    /// The most bytes that a message may have, the envelope left out.
    pub(super) fn max_message_bytes(&self) -> usize {
        self.max_message_bytes.saturating_sub(ENVELOPE_BYTES_MAX)
    }

    pub(super) const fn is_blocked(&self) -> bool {
        self.blocked
    }

    /// Moves the outcomes that there are: ready if there was any.
    pub(super) fn hand_over(&mut self, outcomes: &mut Vec<SendOutcome>) -> Poll<()> {
        self.news = false;
        hand_over(&mut self.outcomes, outcomes)
    }

    /// Whether there is something for the sink's user since this was asked last.
    pub(super) fn take_news(&mut self) -> bool {
        std::mem::take(&mut self.news)
    }

    /// The message that a delivery brought can't be sent any more, since its lock is with another link.
    pub(in crate::service_bus) fn refuse_stale(&mut self, token: SendToken) {
        self.fail(token, &rolled_back("the connection that it was received on has ended"));
    }

    /// Sends a message within a transaction, that of a delivery of the link that receives.
    ///
    /// # Errors
    /// When no transaction has room at the moment, or the service takes no more.
    pub(in crate::service_bus) fn send(
        &mut self,
        connection: &mut ServiceConnection,
        token: SendToken,
        outgoing: OutgoingBatch<'_>,
        delivery: u32,
    ) -> Result<(), SinkBusy> {
        let id = match &mut self.sender {
            Link::Attached(id) => *id,
            Link::Refused(error) => {
                let error = error.as_ref().clone();
                self.sender = Link::Detached;
                self.fail(token, &error);
                return Ok(());
            }
            Link::Detached | Link::Attaching(_) => return self.busy(),
        };
        let Some((batch, event)) = outgoing.events().next() else {
            return Ok(());
        };
        let message = batch.shared_message(event);
        let bytes = message.as_ref().len();
        let engine = connection.engine();
        if engine.output_len() >= OUTPUT_BYTES_MAX {
            self.output_full = true;
            return self.busy();
        }
        let room = self.transactions.room(bytes).filter(|_| self.outstanding.span() < OUTSTANDING_MAX);
        let (Some((number, transaction)), Some(mut sender)) = (room, engine.sender(id)) else {
            return self.busy();
        };
        let tag = self.next_tag.to_be_bytes();
        let new = NewDelivery { tag: &tag, format: FORMAT_AMQP, settled: false };
        let Ok(mut writer) = sender.begin_in(&transaction, &new) else {
            return self.busy();
        };
        let message = annotated(&mut self.scratch, batch, event);
        if !self.scratch.is_empty() {
            writer.put(&self.scratch);
        }
        message.put(&mut writer);
        let delivery_id = writer.finish();
        self.next_tag = self.next_tag.wrapping_add(1);
        let place = self.transactions.add(number, token, delivery, bytes);
        self.outstanding.push(delivery_id, Sent::Message(number, place).name(), SENDER);
        Ok(())
    }

    /// Attaches the links that are not there, and asks for what is to be asked for. What has ended is to be
    /// [taken](Self::pop_ended) then.
    ///
    /// # Errors
    /// When the connection has no room for the links, or an answer is overdue.
    pub(in crate::service_bus) fn advance(
        &mut self,
        connection: &mut ServiceConnection,
        now: Instant,
    ) -> Result<(), ServiceError> {
        if let Some(due) = self.answers_due(connection.patience())
            && due <= now
        {
            let description = format!("a transaction was not answered within {:?}", connection.patience());
            return Err(ServiceError::of_connection(TIMEOUT, description));
        }
        if self.output_full && connection.engine().output_len() < OUTPUT_BYTES_MAX {
            self.output_full = false;
            self.unblock();
        }
        self.attach(connection)?;
        let Link::Attached(coordinator) = self.coordinator else {
            return Ok(());
        };
        while let Some(step) = self.transactions.next_step(now) {
            let (request, sent) = match &step {
                Step::Settle { transaction, deliveries, .. } => {
                    let session = connection.data();
                    let outcome = DeliveryState::Transactional {
                        transaction: *transaction,
                        outcome: Some(Box::new(DeliveryState::Accepted)),
                    };
                    // In ranges, as the deliveries mostly are.
                    for run in deliveries.chunk_by(|one, next| one.wrapping_add(1) == *next) {
                        if let (Some(&first), Some(&last)) = (run.first(), run.last()) {
                            connection.engine().propose_outcome(session, first, last, outcome.clone());
                        }
                    }
                    continue;
                }
                Step::Declare { number } => {
                    (CoordinatorRequest::Declare { is_global: false }, Sent::Declare(*number))
                }
                Step::Discharge { number, transaction, fail } => {
                    let request = CoordinatorRequest::Discharge { transaction: *transaction, fail: *fail };
                    (request, Sent::Discharge(*number))
                }
            };
            if !self.ask(connection, coordinator, &request, sent) {
                // Of credit, or room in the session, an event tells.
                self.transactions.put_off(&step);
                break;
            }
        }
        Ok(())
    }

    /// Sends a request to the coordinator. Returns whether that could be done.
    fn ask(
        &mut self,
        connection: &mut ServiceConnection,
        coordinator: LinkId,
        request: &CoordinatorRequest,
        sent: Sent,
    ) -> bool {
        self.scratch.clear();
        request.encode(&mut self.scratch);
        let tag = self.next_tag.to_be_bytes();
        let new = NewDelivery { tag: &tag, format: FORMAT_AMQP, settled: false };
        let Some(mut sender) = connection.engine().sender(coordinator) else {
            return false;
        };
        let Ok(delivery_id) = sender.send(&new, &[&self.scratch]) else {
            return false;
        };
        self.next_tag = self.next_tag.wrapping_add(1);
        self.outstanding.push(delivery_id, sent.name(), COORDINATOR);
        true
    }

    fn attach(&mut self, connection: &mut ServiceConnection) -> Result<(), ServiceError> {
        let session = connection.data();
        let no_room = || ServiceError::of_connection(PROTOCOL, "the service accepts no more links");
        if matches!(self.coordinator, Link::Detached) {
            let name = self.next_name("coordinator");
            let target = Target::coordinator(vec![LOCAL_TRANSACTIONS]);
            let options = LinkOptions { target, ..sender_options(name, "") };
            let link = connection.engine().attach_sender(session, options).ok_or_else(no_room)?;
            self.coordinator = Link::Attaching(link);
        }
        if matches!(self.sender, Link::Detached) {
            let name = self.next_name(&self.entity.clone());
            let options = sender_options(name, &self.entity);
            let link = connection.engine().attach_sender(session, options).ok_or_else(no_room)?;
            self.sender = Link::Attaching(link);
        }
        Ok(())
    }

    fn next_name(&mut self, node: &str) -> String {
        self.links_attached += 1;
        format!("{}-{node}-transactional-{}", self.client, self.links_attached)
    }

    /// When an answer is overdue, if each may take so long.
    pub(in crate::service_bus) fn answers_due(&self, patience: Duration) -> Option<Instant> {
        self.transactions.waiting_since().map(|since| since + patience)
    }

    /// Takes note that a link is there, if it is one of the two.
    pub(in crate::service_bus) fn take_attach(&mut self, link: LinkId, attach: &Attach) {
        if is(&self.sender, link) {
            let limit = attach.max_message_size.filter(|&limit| limit > 0);
            self.max_message_bytes =
                limit.map_or(USUAL_MESSAGE_BYTES_MAX, |limit| usize::try_from(limit).unwrap_or(usize::MAX));
            self.sender = Link::Attached(link);
            self.unblock();
        } else if is(&self.coordinator, link) {
            self.coordinator = Link::Attached(link);
        }
    }

    /// Takes note that a link has ended, if it is one of the two.
    ///
    /// # Errors
    /// The connection is of no more use: it has no coordinator any more, or its right to send has ended.
    pub(in crate::service_bus) fn take_detach(
        &mut self,
        link: LinkId,
        error: ServiceError,
    ) -> Result<(), ServiceError> {
        if is(&self.coordinator, link) {
            return Err(match self.coordinator {
                Link::Attached(_) => error.of_working_link(),
                _ => error,
            });
        }
        if !is(&self.sender, link) {
            return Ok(());
        }
        if matches!(self.sender, Link::Attached(_)) && error.is_unauthorized() {
            return Err(error.of_working_link());
        }
        tracing::debug!(%error, "the link to send through was detached");
        self.sender = match self.sender {
            Link::Attaching(_) => Link::Refused(Box::new(error.clone())),
            Link::Detached | Link::Attached(_) | Link::Refused(_) => Link::Detached,
        };
        let mut gone = std::mem::take(&mut self.answered);
        self.outstanding.forget_link(SENDER, |name| gone.push(name));
        for name in gone.drain(..) {
            if let Sent::Message(number, place) = Sent::of(name) {
                self.transactions.sent(number, place, Some(error.clone()));
            }
        }
        self.answered = gone;
        self.unblock();
        Ok(())
    }

    /// There may be room again.
    pub(in crate::service_bus) const fn unblock(&mut self) {
        self.news |= self.blocked;
        self.blocked = false;
    }

    /// The service has answered what was sent.
    ///
    /// # Errors
    /// It opens no transactions, or says of one neither that it is committed nor that it isn't.
    pub(in crate::service_bus) fn take_outcome(
        &mut self,
        first: u32,
        last: u32,
        state: Option<&DeliveryState>,
        now: Instant,
    ) -> Result<(), ServiceError> {
        let mut answered = std::mem::take(&mut self.answered);
        self.outstanding.settle(first, last, |name| answered.push(name));
        for name in answered.drain(..) {
            match (Sent::of(name), state) {
                (Sent::Message(number, place), state) => {
                    self.transactions.sent(number, place, error_of(state));
                }
                (Sent::Declare(number), Some(DeliveryState::Declared(id))) => {
                    self.transactions.declared(number, *id, now);
                }
                (Sent::Discharge(number), Some(DeliveryState::Accepted)) => {
                    self.ended.extend(self.transactions.ended(number, None));
                }
                (Sent::Discharge(number), Some(DeliveryState::Rejected(Some(error)))) => {
                    tracing::debug!(%error, "the service has rolled a transaction back");
                    let error = ServiceError::from(error.clone());
                    self.ended.extend(self.transactions.ended(number, Some(error)));
                }
                (Sent::Declare(_) | Sent::Discharge(_), state) => {
                    return Err(error_of(state).unwrap_or_else(|| {
                        let description = "the coordinator's answer says nothing of the transaction";
                        ServiceError::of_connection(PROTOCOL, description)
                    }));
                }
            }
        }
        self.answered = answered;
        self.unblock();
        Ok(())
    }

    /// The service has answered about deliveries that were completed within transactions, if they are such.
    pub(in crate::service_bus) fn take_answer(
        &mut self,
        first: u32,
        last: u32,
        state: Option<&DeliveryState>,
    ) {
        // Without a state the service agrees.
        let error = state.and_then(|state| error_of(Some(state)));
        self.transactions.settled(first, last, error.as_ref());
    }

    /// A transaction that has ended and was not dealt with.
    pub(in crate::service_bus) fn pop_ended(&mut self) -> Option<Ended> {
        self.ended.pop_front()
    }

    /// Tells the sink's user what has become of the messages of a transaction.
    pub(in crate::service_bus) fn tell(&mut self, ended: Ended) {
        for Member { token, error, .. } in ended.members {
            match (ended.end, error) {
                (End::Committed, _) => self.outcomes.push(SendOutcome { token, result: Ok(()) }),
                // It can be sent again, unless this is the one for which it was rolled back.
                (End::Undone, Some(error)) => self.fail(token, &error),
                (End::Undone, None) => {
                    let error = rolled_back("another message of it was refused");
                    self.fail(token, &ServiceError { class: ErrorClass::Retryable, ..error });
                }
                (End::LetGo, Some(error)) => self.fail(token, &rolled_back(&error.to_string())),
                (End::LetGo, None) => {
                    self.fail(token, &rolled_back("another message of it could not be completed"));
                }
            }
        }
        self.news = true;
        self.unblock();
    }

    /// The connection is gone. What was not committed has not happened; what was being committed may have, which the locks tell.
    pub(in crate::service_bus) fn lose(&mut self, error: &ServiceError) {
        self.sender = Link::Detached;
        self.coordinator = Link::Detached;
        self.outstanding.forget_all(|_| {});
        let error = rolled_back(&error.to_string());
        for member in self.transactions.forget_all() {
            self.fail(member.token, &error);
        }
        self.unblock();
    }

    fn fail(&mut self, token: SendToken, error: &ServiceError) {
        self.news = true;
        self.outcomes.push(SendOutcome { token, result: Err(Box::new(SendError::from(error.clone()))) });
    }

    fn busy(&mut self) -> Result<(), SinkBusy> {
        self.blocked = true;
        Err(SinkBusy)
    }
}

impl Sent {
    /// A token by which an answer finds it.
    const fn name(self) -> SendToken {
        let (number, part) = match self {
            Self::Message(number, place) => (number, place as u64),
            Self::Declare(number) => (number, DECLARE),
            Self::Discharge(number) => (number, DISCHARGE),
        };
        SendToken(number << PART_BITS | part)
    }

    const fn of(SendToken(name): SendToken) -> Self {
        let number = name >> PART_BITS;
        match name & ((1 << PART_BITS) - 1) {
            DECLARE => Self::Declare(number),
            DISCHARGE => Self::Discharge(number),
            place => Self::Message(number, place as usize),
        }
    }
}

fn is(link: &Link, id: LinkId) -> bool {
    matches!(link, Link::Attaching(ours) | Link::Attached(ours) if *ours == id)
}

/// Why a message, or a completion, was not accepted; nothing if it was.
fn error_of(state: Option<&DeliveryState>) -> Option<ServiceError> {
    match state {
        Some(DeliveryState::Accepted | DeliveryState::Transactional { outcome: None, .. }) => None,
        Some(DeliveryState::Transactional { outcome: Some(outcome), .. }) => error_of(Some(outcome)),
        Some(DeliveryState::Rejected(Some(error))) => Some(ServiceError::from(error.clone())),
        Some(DeliveryState::Rejected(None)) => {
            Some(ServiceError::fatal("amqp:rejected", "the service rejected it without a reason"))
        }
        Some(
            DeliveryState::Released
            | DeliveryState::Modified { .. }
            | DeliveryState::Received
            | DeliveryState::Declared(_),
        )
        | None => Some(ServiceError {
            class: ErrorClass::Retryable,
            condition: "amqp:released".to_owned(),
            description: "the service did not accept it".to_owned(),
        }),
    }
}

/// A transaction came to nothing, and its messages come again, so that they must not be sent again.
fn rolled_back(reason: &str) -> ServiceError {
    let description = format!("the transaction came to nothing ({reason}); the message comes again");
    ServiceError::fatal(ROLLED_BACK, description)
}

/// The condition of what has come to nothing with its transaction.
const ROLLED_BACK: &str = "transaction:rolled-back";

/// What the coordinator is to be capable of.
const LOCAL_TRANSACTIONS: Symbol = Symbol::from_static("amqp:local-transactions");

/// The links, as what was sent is noted by.
const SENDER: u32 = 0;
const COORDINATOR: u32 = 1;

/// Bits of a name that say what of a transaction it is.
const PART_BITS: u32 = 8;
const DECLARE: u64 = 255;
const DISCHARGE: u64 = 254;

const _: () = assert!((MESSAGES_MAX as u64) < DISCHARGE, "places have other names than requests");
