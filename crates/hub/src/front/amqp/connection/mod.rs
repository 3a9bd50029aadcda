//! What any AMQP connection does: its task, the links it has, and the turn that it takes whenever something happens.
//!
//! * `attaching` handles links that come and go, `answering` requests.
//! * `sends` handles what clients send, `settling` the outcomes that they give to what they received.
//! * `transactions` is what is done as a whole or not at all.
//! * `answers` are what clients get later: what waits for a durable log or for a service profile.
//! * `shaped` is what a service profile makes of a send.
//! * `output` bounds what waits for a client that does not read.
//! * `proof` bounds what a connection may hold before it has shown a token or a key; `refusal` is what a connection gets
//!   for which there is no room.
//! * `client_quirks` are clients that lose an answer that comes at once.

mod answering;
mod answers;
mod attaching;
mod client_quirks;
mod output;
mod proof;
pub(super) mod refusal;
mod sends;
mod settling;
mod shaped;
mod transactions;

use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use amqp::connection::{Credentials, Deliveries, Event, LinkId};
use amqp::performative::{DeliveryState, Error, ErrorCondition, Open};
use amqp_tokio::{DriveError, Driver};
use tokio::sync::watch;

use attaching::Expiry;

use self::answers::{ClientAnswer, Direction, LateReplies, Outcome};
use self::output::{FREE_OUTPUT, OutputShare};
use self::settling::{GivenOutcome, Settlements};
use self::shaped::Told;
use self::transactions::{Transactions, is_coordinator};
use crate::clock::TimedConnection;
use crate::front::amqp::conditions::{self, server_busy};
use crate::front::amqp::links::LinkEntry;
use crate::front::amqp::links::node::{Node, Stopped};
use crate::front::amqp::rejections::Rejections;
use crate::front::client_host;
use crate::front::pending::Pending;
use crate::front::time_slice::TimeSlice;
use crate::memory::{Purpose, Share};
use crate::namespace::{Claims, Namespace, SignaturePolicy};
use crate::profile::{PreciseTimer, Shaper};
use partition_log::Subscriber;
use partition_log::UnixTime;

pub(super) use proof::{PartialLimits, Proof, UNPROVEN_EACH, UNPROVEN_OUTPUT};

/// What a connection needs to serve its client.
#[derive(Debug)]
pub(super) struct ConnectionTask {
    driver: Driver,
    namespace: Arc<Namespace>,
    /// Host name that the client uses for the service, as it opens the connection; until then that of the namespace.
    host: Box<str>,
    claims: Claims,
    /// By [`LinkId::index`].
    links: Vec<Option<LinkEntry>>,
    subscriber: Arc<Subscriber>,
    /// Keys of readers that the log reported; emptied at once.
    reported: Vec<u64>,
    /// Readers that may have something to send, each once, taking turns.
    runnable: VecDeque<usize>,
    proof: Proof,
    /// When the next claim expires and links must be looked at.
    expiry: Option<Expiry>,
    /// Reports [`CLOCK_KEY`] when the time of day jumps or is advanced; `None` once the connection is over.
    timed: Option<TimedConnection>,
    /// Since the clock asked for it, if it has.
    attending: Option<Attending>,
    pending: Pending<ClientAnswer>,
    settlements: Settlements,
    transactions: Transactions,
    /// What a service profile does to this connection.
    shaper: Option<Shaper>,
    late_replies: LateReplies,
    /// Memory of replies that wait, late ones included.
    waiting_replies: Share,
    /// Whether some of them wait for output to be written.
    replies_wait_for_output: bool,
    /// Memory of output that waits for the client.
    output: OutputShare,
    /// Whether requests got no credit because so many replies wait.
    requests_wait: bool,
    /// Reason to close the connection.
    close_reason: Option<Error>,
    /// For how long this client must not be answered.
    pause: Option<Duration>,
    /// Whether the profile broke the connection: it ends without a farewell.
    broken: bool,
    unhandled: Option<Unhandled>,
    /// Counts messages that are rejected.
    rejections: Arc<Rejections>,
}

/// Rest of an event after the end of a slice.
#[derive(Debug)]
enum Unhandled {
    /// Deliveries, from this place on.
    Deliveries(Deliveries, usize),
    Outcome(GivenOutcome),
}

impl ConnectionTask {
    pub(super) fn new(
        driver: Driver,
        namespace: Arc<Namespace>,
        shaper: Option<Shaper>,
        proof: Proof,
        rejections: Arc<Rejections>,
    ) -> Self {
        let claims = Claims::new(namespace.signatures());
        let output = OutputShare::new(namespace.memory());
        let waiting_replies = Share::new(namespace.memory(), Purpose::AmqpLogins);
        let timer = shaper.as_ref().map_or_else(PreciseTimer::coarse, Shaper::timer);
        let pending = Pending::new(namespace.watch_commits(), timer);
        let subscriber = Subscriber::new();
        let timed = Some(namespace.clock().watch(&subscriber, CLOCK_KEY));
        let transactions =
            Transactions::new(Arc::clone(namespace.transaction_counters()), namespace.memory());
        Self {
            driver,
            host: namespace.host().into(),
            namespace,
            claims,
            links: Vec::new(),
            subscriber,
            reported: Vec::new(),
            runnable: VecDeque::new(),
            proof,
            expiry: None,
            timed,
            attending: None,
            pending,
            settlements: Settlements::default(),
            transactions,
            shaper,
            late_replies: LateReplies::default(),
            waiting_replies,
            replies_wait_for_output: false,
            output,
            requests_wait: false,
            close_reason: None,
            pause: None,
            broken: false,
            unhandled: None,
            rejections,
        }
    }

    /// Serves the connection until it ends, or until `stop` becomes true, when it is closed.
    pub(super) async fn run(mut self, mut stop: watch::Receiver<bool>) {
        let ended = {
            let stopped = stop.wait_for(|stop| *stop);
            tokio::pin!(stopped);
            poll_fn(|cx| {
                if stopped.as_mut().poll(cx).is_ready() {
                    return Poll::Ready(None);
                }
                self.poll_turns(cx).map(Some)
            })
            .await
        };
        match ended {
            // The socket is gone, so nothing can be said any more.
            Some(error @ (DriveError::Io(_) | DriveError::Disconnected)) => {
                return tracing::debug!(%error, "connection ended");
            }
            Some(error) => tracing::debug!(%error, "connection ended"),
            None => {
                let reason = Error::new(ErrorCondition::CONNECTION_FORCED, "The service is stopping.");
                self.driver.connection().close(Some(reason));
            }
        }
        // Links go first: what the client still sends or grants is of no interest, and readers must not be woken.
        self.links.clear();
        self.timed = None;
        self.driver.shut_down(FAREWELL).await;
    }

    /// Takes turns until there is nothing to do; ready when the connection is over.
    fn poll_turns(&mut self, cx: &mut Context<'_>) -> Poll<DriveError> {
        let turned = self.turn(cx);
        if let Some(attending) = &mut self.attending {
            attending.polls_left = attending.polls_left.saturating_sub(1);
            if (!matches!(turned, Turned::GoesOn) || attending.polls_left == 0)
                && let Some(timed) = &self.timed
            {
                timed.has_attended();
                self.attending = None;
            }
        }
        match turned {
            Turned::Over(reason) => Poll::Ready(reason),
            Turned::Rests => Poll::Pending,
            Turned::GoesOn => {
                // Others have their turn before this connection goes on.
                cx.waker().wake_by_ref();
                Poll::Pending
            }
        }
    }

    fn turn(&mut self, cx: &mut Context<'_>) -> Turned {
        let mut slice = TimeSlice::begin();
        for _ in 0..TURNS_MAX {
            let is_done = self.handle_events(&mut slice);
            if self.broken {
                return Turned::Over(DriveError::Disconnected);
            }
            if !is_done {
                // Nothing more is read meanwhile. An error comes again when it is.
                let _ = self.driver.poll_flush(cx);
                return Turned::GoesOn;
            }
            self.give_answers(cx);
            self.resume_replies();
            self.resume_requests();
            if let Some(reason) = self.close_reason.take() {
                self.driver.connection().close(Some(reason));
                return Turned::Over(DriveError::Closed);
            }
            self.detach_by_profile(cx);
            self.check_expiry(cx);
            if let Poll::Ready(reason) = self.proof.poll_overdue(cx) {
                self.driver.connection().close(Some(reason));
                return Turned::Over(DriveError::Closed);
            }
            self.check_held(cx);
            self.check_transactions(cx);
            // Until it is pending: only then are we woken for the next append.
            while self.subscriber.poll_ready(cx, &mut self.reported).is_ready() {}
            for index in 0..self.reported.len() {
                match self.reported[index] {
                    CLOCK_KEY => {
                        self.end_expired();
                        let now = self.namespace.clock().now();
                        self.end_overdue_transactions(now);
                        self.resume_all_held();
                        self.attending = Some(Attending { polls_left: ATTENDING_POLLS });
                        // The next alarm has not been polled yet.
                        cx.waker().wake_by_ref();
                    }
                    key => self.on_reported(key as usize),
                }
            }
            self.reported.clear();
            let paused = self.deliver(cx);
            self.limit_input();
            match self.driver.poll_drive(cx) {
                Poll::Ready(Ok(())) => continue,
                Poll::Ready(Err(error)) => return Turned::Over(error),
                Poll::Pending => {}
            }
            // If the client does not take what waits for it, the socket wakes us when it does.
            let rests = !self.has_room_for_output()
                || !self.replies_wait_for_output && (paused || self.runnable.is_empty());
            if rests {
                self.output.rest(self.driver.connection().output_len());
                return Turned::Rests;
            }
        }
        Turned::GoesOn
    }

    /// Handles what the client has sent. Returns false if the slice was over before that was done.
    fn handle_events(&mut self, slice: &mut TimeSlice) -> bool {
        let is_done = loop {
            match self.unhandled.take() {
                Some(Unhandled::Deliveries(deliveries, place)) => {
                    if let Some(place) = self.on_deliveries(&deliveries, place, slice) {
                        self.unhandled = Some(Unhandled::Deliveries(deliveries, place));
                        break false;
                    }
                    self.driver.connection().recycle(deliveries);
                    continue;
                }
                Some(Unhandled::Outcome(outcome)) => self.on_outcome(outcome),
                None => match self.driver.connection().poll_event() {
                    Some(event) => self.on_event(event),
                    None => break true,
                },
            }
            if slice.is_over() {
                break false;
            }
        };
        self.settle_gathered();
        is_done
    }

    fn on_event(&mut self, event: Event) {
        match event {
            Event::Deliveries(deliveries) => self.unhandled = Some(Unhandled::Deliveries(deliveries, 0)),
            Event::Credit(link) => self.on_credit(link),
            Event::DrainRequested(link) => {
                if let Some(Some(entry)) = self.links.get_mut(link.index()) {
                    entry.node.drain();
                }
                self.on_credit(link);
            }
            Event::WindowOpen(_) => (0..self.links.len()).for_each(|index| self.resume_sending(index)),
            Event::Opened(open) => self.on_opened(&open),
            Event::LinkRequested { link, session, attach } => self.on_link_requested(link, session, &attach),
            Event::LinkDetached { link, .. } => self.remove(link),
            Event::SessionEnded { session, .. } => {
                self.settle_gathered();
                for index in 0..self.links.len() {
                    if let Some(ended) = self.links[index].take_if(|entry| entry.session == session) {
                        self.forget_replies(&ended);
                    }
                }
                self.settlements.awaited_outcomes.forget_session(session);
                self.transactions.forget_session(session);
                self.pending.retain(|answer| answer.is_wanted(|outcome| outcome.session != session));
            }
            Event::OutcomeProposed { session, first, last, state, is_known } => match is_known {
                true => self.on_outcome(GivenOutcome { session, first, last, state, wants_answer: true }),
                false => self.on_unknown_outcome(session, first, last),
            },
            Event::Outcome { session, first, last, state: Some(state) } => {
                self.on_outcome(GivenOutcome { session, first, last, state, wants_answer: false })
            }
            Event::DeliveryRefused { link, error } => {
                if let Some(Some(entry)) = self.links.get(link.index()) {
                    self.rejections.note(entry.node.rejecting_name(), &error);
                }
            }
            // No outcome at all: the locks end by themselves.
            Event::Outcome { session, first, last, state: None } => {
                self.settlements.awaited_outcomes.take(session, first, last, u32::MAX, |_, _| {});
            }
            _ => {}
        }
    }

    fn on_opened(&mut self, open: &Open) {
        if let Some(host) = open.hostname.as_deref().and_then(client_host::of_authority) {
            self.host = host.into();
        }
        self.pause = client_quirks::pause_of(open);
        if self.pause.is_some() {
            self.driver.acknowledge_at_once();
        }
        if let Some(Credentials::Plain { username, password }) = self.driver.connection().credentials()
            && let Ok(claim) = self.namespace.authorize_key(username, password)
        {
            // A connection's first claim always finds room.
            let now = self.namespace.clock().token_now();
            let _ = self.claims.add(&claim, now);
            self.proof.show(&mut self.driver);
        }
        if self.namespace.signatures() == SignaturePolicy::AcceptAny {
            self.proof.show(&mut self.driver);
        }
    }

    /// Handles deliveries from a place on. Returns the place at which the slice was over.
    fn on_deliveries(
        &mut self,
        deliveries: &Deliveries,
        from: usize,
        slice: &mut TimeSlice,
    ) -> Option<usize> {
        let now = self.namespace.clock().now();
        let token_now = self.namespace.clock().token_now_at(now).time();
        if self.expiry.as_ref().is_some_and(|expiry| expiry.at <= token_now) {
            self.end_expired();
        }
        let answer_at = client_quirks::answer_at(self.pause);
        let mut rest = &deliveries.items()[from..];
        while let Some((delivery, others)) = rest.split_first() {
            if slice.is_over() {
                return Some(deliveries.items().len() - rest.len());
            }
            rest = others;
            let Some(Some(entry)) = self.links.get_mut(delivery.link.index()) else {
                continue;
            };
            if entry.id != delivery.link {
                continue;
            }
            let at = deliveries.items().len() - rest.len() - 1;
            if is_coordinator(entry) {
                let message = deliveries.message(delivery);
                self.on_coordinator_request(delivery, message, now, answer_at);
                continue;
            }
            if deliveries.has_transactions()
                && let Some(transaction) = deliveries.transaction(at)
            {
                self.on_transactional(deliveries, delivery, transaction, now, answer_at);
                continue;
            }
            let stores = entry.node.stores();
            if stores && entry.waiting_outcomes < WAITING_OUTCOMES_MAX {
                let others = match deliveries.has_transactions() {
                    false => self.run_beyond(delivery, rest),
                    true => 0,
                };
                rest = &rest[others..];
                self.on_run(deliveries, at..=at + others, UnixTime::from(now), answer_at);
                if self.broken {
                    break;
                }
                continue;
            }
            let told = match entry.node.requests() {
                Some(_) => Told::now(DeliveryState::Accepted),
                None if stores => {
                    let told = Told::now(server_busy(TOO_FAST));
                    self.rejections.note_outcome(entry.node.entity_name(), &told.state);
                    told
                }
                None => continue,
            };
            let connection = self.driver.connection();
            if !delivery.settled {
                let told = told.not_before(answer_at);
                tell(connection, &mut self.pending, entry, delivery.id, told);
            }
            if let Some(node) = entry.node.requests().cloned() {
                let session = entry.session;
                self.on_request(&node, session, deliveries.message(delivery), now, None);
                if self.close_reason.is_some() {
                    break;
                }
                self.top_up_requests(delivery.link);
            } else {
                top_up_credit(connection, entry);
            }
        }
        None
    }

    /// Gives the answers that have waited long enough.
    fn give_answers(&mut self, cx: &mut Context<'_>) {
        while let Poll::Ready(answer) = self.pending.poll_next(cx) {
            let outcome = match answer {
                ClientAnswer::Outcome(outcome) => outcome,
                ClientAnswer::Reply(pending) => {
                    self.reply_now(*pending);
                    continue;
                }
            };
            let connection = self.driver.connection();
            let Some(Some(entry)) = self.links.get_mut(outcome.link.index()) else {
                continue;
            };
            if entry.id != outcome.link {
                continue;
            }
            let Outcome { session, first, last, state, direction, .. } = outcome;
            direction.tell(connection, session, (first, last), state);
            if direction == Direction::Received {
                entry.waiting_outcomes -= last.wrapping_sub(first) + 1;
                match entry.node.requests() {
                    Some(_) => self.requests_wait = true,
                    None => top_up_credit(connection, entry),
                }
            }
        }
    }

    fn on_credit(&mut self, link: LinkId) {
        self.resume_sending(link.index());
    }

    /// Resumes a link that may have been blocked: by its credit, or by the window of its session.
    fn resume_sending(&mut self, index: usize) {
        match self.links.get(index) {
            Some(Some(entry)) if entry.node.is_receiver() => self.enqueue(index),
            Some(Some(_)) => self.resume_replies_of(index),
            _ => {}
        }
    }

    /// Looks at a link that was reported: by the log, or because what it leads to is gone or belongs to another.
    fn on_reported(&mut self, index: usize) {
        match self.links.get(index) {
            // A reader finds out by itself when it is its turn.
            Some(Some(entry)) if entry.node.is_receiver() => self.enqueue(index),
            Some(Some(entry)) if entry.node.is_held() => self.resume_held(index),
            Some(Some(_)) => self.end(index),
            _ => {}
        }
    }

    /// Ends a link that has a reason to end.
    #[cold]
    fn end(&mut self, index: usize) {
        if let Some(Some(entry)) = self.links.get(index)
            && let Some(reason) = entry.end_reason(&self.host)
        {
            tracing::debug!(%reason, "link ended");
            self.detach(entry.id, reason);
        }
    }

    fn enqueue(&mut self, index: usize) {
        if let Some(Some(entry)) = self.links.get_mut(index)
            && let Some(queued) = entry.node.queued()
            && !*queued
        {
            *queued = true;
            self.runnable.push_back(index);
        }
    }

    /// Whether more may be gathered for the client.
    #[inline]
    pub(super) fn has_room_for_output(&mut self) -> bool {
        self.output.has_room(self.driver.connection().output_len(), &self.proof)
    }

    /// Has input left alone while there is no memory for what it would add to the output.
    fn limit_input(&mut self) {
        if !self.proof.is_missing() {
            let is_admitted = self.output.admits(self.driver.connection().output_len());
            self.driver.set_output_high_water((!is_admitted).then_some(FREE_OUTPUT));
        }
    }

    /// Lets readers fill the output, each a share, until it is full or none has anything to send. True when they have to
    /// wait for a service profile, or for the clock to go on; either then wakes the task.
    fn deliver(&mut self, cx: &mut Context<'_>) -> bool {
        if self.namespace.clock().stands() {
            return true;
        }
        while !self.runnable.is_empty() && self.has_room_for_output() {
            if let Some(shaper) = &mut self.shaper
                && shaper.poll_deliveries(cx).is_pending()
            {
                return true;
            }
            let Some(index) = self.runnable.pop_front() else {
                break;
            };
            let Some(Some(entry)) = self.links.get_mut(index) else {
                continue;
            };
            let connection = self.driver.connection();
            let awaited = &mut self.settlements.awaited_outcomes;
            let clock = self.namespace.clock();
            let Some((stopped, delivered)) = entry.node.deliver(connection, clock, awaited) else {
                continue;
            };
            if let Some(shaper) = &self.shaper {
                shaper.delivered(delivered.events, delivered.bytes);
            }
            match stopped {
                Stopped::ShareUsed | Stopped::ShareToWrite => {
                    self.enqueue(index);
                    if stopped == Stopped::ShareToWrite {
                        return false;
                    }
                }
                Stopped::AtEnd | Stopped::Blocked => {}
                Stopped::Over => self.end(index),
            }
        }
        false
    }

    /// Detaches receivers whose turn a service profile says it is.
    fn detach_by_profile(&mut self, cx: &mut Context<'_>) {
        let Some(shaper) = &mut self.shaper else {
            return;
        };
        let links = self.links.iter().flatten();
        let mut receivers = links.filter(|entry| entry.node.is_receiver());
        if let Poll::Ready(which) = shaper.poll_detachment(cx, receivers.clone().count())
            && let Some(entry) = receivers.nth(which)
        {
            let link = entry.id;
            self.detach(link, conditions::detached_on_purpose());
            // For the next one.
            cx.waker().wake_by_ref();
        }
    }
}

/// Settles a delivery, or remembers what is to be told about it later.
fn tell(
    connection: &mut amqp::Connection,
    pending: &mut Pending<ClientAnswer>,
    entry: &mut LinkEntry,
    delivery: u32,
    told: Told,
) {
    if told.until.is_over() {
        return connection.settle(entry.session, delivery, delivery, told.state);
    }
    entry.waiting_outcomes += 1;
    let outcome = Outcome {
        link: entry.id,
        session: entry.session,
        first: delivery,
        last: delivery,
        state: told.state,
        direction: Direction::Received,
    };
    pending.push(ClientAnswer::Outcome(outcome), told.until);
}

/// Grants a sender new credit when half of it is used up by deliveries on the way and outcomes that wait.
#[inline]
fn top_up_credit(connection: &mut amqp::Connection, entry: &LinkEntry) {
    let full = full_credit(&entry.node);
    let allowed = full.saturating_sub(entry.waiting_outcomes);
    let credit = connection.credit(entry.id);
    if credit < full / 2 && credit < allowed {
        connection.set_credit(entry.id, allowed);
    }
}

/// What came of some turns.
#[derive(Debug)]
enum Turned {
    /// There is nothing to do until something wakes the task.
    Rests,
    /// There is more to do.
    GoesOn,
    /// The connection is over.
    Over(DriveError),
}

/// The connection sees to what time has brought it.
#[derive(Debug)]
struct Attending {
    /// After so many polls the clock does not wait for it any longer.
    polls_left: u32,
}

/// The key under which a jump of the clock is reported; those of links are small.
const CLOCK_KEY: u64 = u64::MAX;

/// Polls that a connection has for what was reported to it. It needs one, unless so much waits for its client that others have turns in between;
/// and a client that does not read must not hold up the clock.
const ATTENDING_POLLS: u32 = 16;

/// Deliveries that the client may have on the way to a node; topped up at half.
const fn full_credit(node: &Node) -> u32 {
    match node.requests() {
        Some(_) => REQUEST_CREDIT,
        None => CREDIT,
    }
}

/// Messages that a publisher may have on the way. Enough that a fast client never waits for it.
const CREDIT: u32 = 4_000;

/// Requests that may be on the way. Each may have a reply of hundreds of kibibytes.
const REQUEST_CREDIT: u32 = 50;

/// Outcomes that may wait on one link. A client that keeps to its credit never gets there.
const WAITING_OUTCOMES_MAX: u32 = 2 * CREDIT;

/// What a client is told that has more on the way than it was allowed.
const TOO_FAST: &str = "The sender has more events in flight than its link credit allows.";

/// Turns before other connections of the thread have theirs: one that is sent a backlog must not keep another from its
/// acknowledgements.
const TURNS_MAX: usize = 4;

/// How long a client may take to read the farewell.
const FAREWELL: Duration = Duration::from_secs(1);
