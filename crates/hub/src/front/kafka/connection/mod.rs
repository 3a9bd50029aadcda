//! The task of one connection.
//!
//! ```text
//!  socket ─ input ─ frame ─ request ─┬─ answered at once ──────────────────────┬─ output ─ socket
//!                                    ├─ produced: waits for its commit ────────┤  (and for the service profile)
//!                                    └─ to fetch: waits for events, all behind it waits as well
//! ```
//!
//! A request that can't be read, or is none that is answered, closes the connection: the protocol has no other answer.
//!
//! Here is what the task waits for and in which order it does what it can; `dispatch` does each request.

mod dispatch;

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};
use std::time::Duration;

use access::TransportSecurity;
use amqp_tokio::Stream;
use bytes::{Buf as _, BytesMut};
use kafka::frame::{self, FrameError, SIZE_LENGTH};
use kafka::{ApiKey, Malformed, produce};
use listen::Place;
use partition_log::Subscriber;
use partition_log::disk::{CommitState, CommitWatch};
use tokio::io::AsyncReadExt as _;
use tokio::sync::watch;
use tokio::time::Instant;

use super::KafkaFront;
use super::fetch::Fetch;
use super::fetch_sessions::FetchMemory;
use super::group_requests::Membership;
use super::kept_answer::KeptAnswer;
use super::output::Output;
use super::produce::Outcomes;
use super::refused::Asker;
use super::session::{Session, State};
use crate::front::listener::{self, PROOF_PATIENCE};
use crate::front::pending::Until;
use crate::memory::{Memory, Purpose, Share};
use crate::profile::{PreciseTimer, Shaper};

/// One connection.
#[derive(Debug)]
pub(super) struct ConnectionTask<'f> {
    front: &'f KafkaFront,
    stream: Stream,
    peer: SocketAddr,
    /// Where the client found us, which is where it finds the one broker.
    local: SocketAddr,
    security: TransportSecurity,
    place: Place,
    /// What the service profile does to it.
    shaper: Option<Shaper>,
    stop: watch::Receiver<bool>,
    input: BytesMut,
    /// When the last of it came.
    input_at: std::time::Instant,
    output: Output,
    session: Session,
    /// When the client must have said who it is.
    proof_by: Instant,
    /// Answers that wait for commits and for the service profile, in the order of their requests.
    produced: VecDeque<Produced>,
    commits: Option<CommitWatch>,
    /// For the answer that is next.
    timer: PreciseTimer,
    fetch: Option<Fetch>,
    fetch_memory: FetchMemory<'f>,
    membership: Option<Membership>,
    kept: Option<KeptAnswer>,
    subscriber: Arc<Subscriber>,
    /// Memory of the input.
    requests: Share,
    /// Memory of the answers, without events in that of the log.
    answers: Share,
    /// The name that the client gave itself last.
    client_id: String,
}

/// An answer that waits.
#[derive(Debug)]
struct Produced {
    version: i16,
    correlation_id: i32,
    partitions: Vec<(String, i32)>,
    outcomes: Outcomes,
    until: Until,
    throttle_time_ms: i32,
}

/// Why a connection ends before the client ends it.
#[derive(Debug, thiserror::Error)]
enum Ended {
    #[error("{0}")]
    Frame(#[from] FrameError),
    #[error("{0}")]
    Malformed(#[from] Malformed),
    #[error("request {api_key} in version {version} is not supported")]
    Unsupported { api_key: i16, version: i16 },
    #[error("a request before the client has said who it is")]
    Unproven,
    #[error("the client's token has ended, and it has shown no other one")]
    TokenExpired,
    #[error("the client has not said who it is in time")]
    Overdue,
    #[error("no memory is left for {}: all clients together may have {} bytes", .0.name(), .0.limit())]
    NoMemory(Purpose),
    #[error("the client has read nothing for {STALL_MAX:?}")]
    Stalled,
    #[error("{0}")]
    Io(#[from] std::io::Error),
    /// As it should be.
    #[error("closed")]
    Closed,
    #[error("the service stops")]
    Stopped,
}

impl Ended {
    /// The name of a reason that is a client's trouble, for a metric; `None` for those that have been counted, or are as they should
    /// be.
    const fn kind(&self) -> Option<&'static str> {
        match self {
            Self::Frame(_) | Self::Malformed(_) => Some("malformed"),
            Self::Unproven | Self::Overdue => Some("unauthenticated"),
            Self::TokenExpired => Some("token-expired"),
            Self::NoMemory(_) => Some("no-memory"),
            Self::Stalled => Some("stalled"),
            Self::Unsupported { .. } | Self::Io(_) | Self::Closed | Self::Stopped => None,
        }
    }
}

/// What a request does to those behind it.
#[derive(Debug, PartialEq, Eq)]
enum Turn {
    /// The next one may follow.
    Next,
    /// It has to wait: this one can't be done yet, and stays in the input.
    NotYet,
}

impl<'f> ConnectionTask<'f> {
    pub(super) fn new(front: &'f KafkaFront, connection: listener::Connection) -> Self {
        let listener::Connection { stream, security, peer, local, place, shaper, stop, .. } = connection;
        let timer = shaper.as_ref().map_or_else(PreciseTimer::coarse, Shaper::timer);
        Self {
            front,
            stream,
            peer,
            local,
            security,
            place,
            shaper,
            stop,
            input: BytesMut::with_capacity(FIRST_CAPACITY),
            input_at: std::time::Instant::now(),
            output: Output::default(),
            session: Session::new(&front.namespace),
            proof_by: Instant::now() + PROOF_PATIENCE,
            produced: VecDeque::new(),
            commits: front.namespace.watch_commits(),
            timer,
            fetch: None,
            fetch_memory: FetchMemory::new(&front.counters.fetch_sessions, front.namespace.memory()),
            membership: None,
            kept: None,
            subscriber: Subscriber::new(),
            requests: Share::new(front.namespace.memory(), Purpose::KafkaLogins),
            answers: Share::new(front.namespace.memory(), Purpose::KafkaAnswers),
            client_id: String::new(),
        }
    }

    /// Serves the connection until it ends.
    pub(super) async fn run(mut self) {
        let ended = loop {
            if let Err(ended) = self.turn().await {
                break ended;
            }
        };
        let ended = match ended {
            Ended::Stopped => self.say_goodbye().await.err().unwrap_or(Ended::Closed),
            ended => ended,
        };
        match ended {
            Ended::Closed | Ended::Stopped => {}
            Ended::Io(error) => tracing::debug!(peer = %self.peer, %error, "a Kafka connection broke"),
            ended => {
                let counters = &self.front.counters;
                let counter = match ended {
                    Ended::Overdue | Ended::TokenExpired => &counters.unproven,
                    Ended::Stalled => &counters.stalled,
                    _ => &counters.malformed,
                };
                counter.fetch_add(1, Ordering::Relaxed);
                if let Some(kind) = ended.kind() {
                    self.front.note_closed(kind, &ended, self.asker());
                }
            }
        }
    }

    /// The client, for the log.
    fn asker(&self) -> Asker<'_> {
        Asker { peer: self.peer, client_id: &self.client_id }
    }

    /// Does all that can be done at once, writes the answers, and waits for something more.
    async fn turn(&mut self) -> Result<(), Ended> {
        self.answer_produced();
        self.answer_fetch().await?;
        self.answer_member();
        self.answer_kept();
        self.take_requests().await?;
        // More may have arrived than was answered so far.
        let goes_on = self.output.length() >= OUTPUT_MAX;
        self.flush().await?;
        match goes_on {
            true => Ok(()),
            false => self.wait().await,
        }
    }

    async fn flush(&mut self) -> Result<(), Ended> {
        if self.output.is_empty() {
            return Ok(());
        }
        for (key, error) in self.output.take_errors() {
            self.front.note_error(key, &error, self.asker());
        }
        self.charge_answers()?;
        let mut stop = self.stop.clone();
        let memory = self.front.namespace.memory();
        let has_events = self.output.has_events();
        let written = tokio::select! {
            // First, so that nothing else costs anything where the client reads.
            biased;
            written = self.output.write_to(&mut self.stream, STALL_MAX) => written,
            () = read_timed_out(memory), if has_events => {
                memory.count_refusal(Purpose::ReaderEvents);
                return Err(Ended::NoMemory(Purpose::ReaderEvents));
            }
            () = stopped_for_good(&mut stop) => return Err(Ended::Closed),
        };
        match written {
            Err(error) if error.kind() == io::ErrorKind::TimedOut => return Err(Ended::Stalled),
            written => written?,
        }
        self.charge_answers()
    }

    /// Charges the answers and the events that a waiting fetch has found to the budget.
    fn charge_answers(&mut self) -> Result<(), Ended> {
        let found = self.fetch.as_ref().map_or(0, Fetch::converted);
        match self.answers.resize(self.output.extra_memory() + found) {
            true => Ok(()),
            false => Err(Ended::NoMemory(Purpose::KafkaAnswers)),
        }
    }

    /// The service stops: what was produced and is about to be committed is still answered.
    async fn say_goodbye(&mut self) -> Result<(), Ended> {
        let answered = async {
            while let Some(first) = self.produced.front() {
                let Self { commits, timer, .. } = self;
                std::future::poll_fn(|cx| first.poll_answerable(commits.as_mut(), timer, cx)).await;
                self.answer_produced();
            }
            self.output.write_to(&mut self.stream, FAREWELL).await
        };
        match tokio::time::timeout(FAREWELL, answered).await {
            Ok(written) => Ok(written?),
            // What is not answered will be sent again.
            Err(_late) => Ok(()),
        }
    }

    /// Answers what was produced and is committed by now.
    fn answer_produced(&mut self) {
        while let Some(first) = self.produced.front() {
            let commits = self.commits.as_ref();
            let state = commits.map(|commits| commits.state_of(first.until.commit));
            let is_early = || first.until.instant.is_some_and(|at| Instant::now() < at);
            if state == Some(CommitState::Waiting) || is_early() {
                return;
            }
            let partitions: Vec<_> =
                first.partitions.iter().map(|(topic, index)| (&**topic, *index)).collect();
            if state.is_some() {
                first.outcomes.note_commits();
            }
            let results = first.outcomes.results(&partitions, commits);
            self.output.answer(ApiKey::Produce, first.version, first.correlation_id, |writer| {
                produce::write_response(writer, first.version, &results, first.throttle_time_ms);
            });
            self.produced.pop_front();
        }
    }

    async fn answer_fetch(&mut self) -> Result<(), Ended> {
        if let Some(mut fetch) = self.fetch.take() {
            let is_scarce = self.front.namespace.memory().is_scarce(Purpose::ReaderEvents);
            match fetch.is_ready(&self.subscriber, is_scarce).await {
                true => {
                    let (events, bytes) = fetch.answer(&mut self.output, &mut self.fetch_memory).await;
                    if let Some(shaper) = &self.shaper {
                        shaper.delivered(events, bytes);
                    }
                }
                false => {
                    self.fetch = Some(fetch);
                    return self.charge_answers();
                }
            }
        }
        Ok(())
    }

    fn answer_member(&mut self) {
        if let Some(mut membership) = self.membership.take() {
            match membership.is_ready(self.commits.as_ref()) {
                true => membership.answer(&mut self.output),
                false => self.membership = Some(membership),
            }
        }
    }

    fn answer_kept(&mut self) {
        if let Some(mut kept) = self.kept.take() {
            match kept.is_ready(self.commits.as_ref()) {
                true => kept.answer(&mut self.output),
                false => self.kept = Some(kept),
            }
        }
    }

    /// Does the requests that have arrived, one after the other.
    async fn take_requests(&mut self) -> Result<(), Ended> {
        // Apart from the task, so that a request can be borrowed from it.
        let mut input = std::mem::take(&mut self.input);
        let result = self.take_requests_from(&mut input).await;
        self.input = input;
        result
    }

    async fn take_requests_from(&mut self, input: &mut BytesMut) -> Result<(), Ended> {
        while !self.is_waiting() && self.output.length() < OUTPUT_MAX {
            // Where anyone may come in without showing anything, there is nothing to be shown.
            let is_known = self.session.state() == State::Proven || self.front.namespace.is_open_to_anyone();
            let maximum = if is_known { LARGEST_REQUEST } else { LARGEST_UNPROVEN };
            let Some(length) = frame::length(input, maximum)? else {
                break;
            };
            let end = SIZE_LENGTH + length;
            if input.len() < end {
                let purpose = if is_known { Purpose::KafkaRequests } else { Purpose::KafkaLogins };
                self.make_room(input, end, purpose)?;
                break;
            }
            if self.take_request(&input[SIZE_LENGTH..end]).await? == Turn::NotYet {
                break;
            }
            input.advance(end);
            self.give_back_input(input);
        }
        Ok(())
    }

    /// Whether a request waits, and all behind it with it.
    const fn is_waiting(&self) -> bool {
        self.fetch.is_some() || self.membership.is_some() || self.kept.is_some()
    }

    /// Makes room for a request of which not all has arrived: step by step, so that one that only claims to be long costs little.
    fn make_room(&mut self, input: &mut BytesMut, needed: usize, purpose: Purpose) -> Result<(), Ended> {
        self.requests.reassign(purpose);
        let step = (2 * input.len()).max(FIRST_CAPACITY).min(needed);
        if !self.requests.resize(step) {
            return Err(Ended::NoMemory(purpose));
        }
        input.reserve(step.saturating_sub(input.len()).max(1));
        Ok(())
    }

    /// Gives the memory of a long request back when it was answered: at once if it is unusually long, else if memory is scarce.
    fn give_back_input(&mut self, input: &mut BytesMut) {
        let held = self.requests.held();
        let is_spare = held > LARGE || (held > FIRST_CAPACITY && self.requests.is_scarce());
        if is_spare && input.len() <= FIRST_CAPACITY {
            let rest = input.split();
            *input = BytesMut::with_capacity(FIRST_CAPACITY);
            input.extend_from_slice(&rest);
            self.requests.release();
        }
    }

    /// Waits until there may be something to do.
    async fn wait(&mut self) -> Result<(), Ended> {
        let takes_requests = !self.is_waiting() && self.produced.is_empty();
        let Self {
            stream,
            input,
            input_at,
            produced,
            commits,
            timer,
            fetch,
            membership,
            kept,
            subscriber,
            ..
        } = self;
        // A client whose request waits is still listened to, so that its end is noticed, up to a bound.
        let reads = takes_requests || input.len() < input.capacity().max(FIRST_CAPACITY);
        let fetch_by = fetch.as_ref().map(Fetch::wait_until);
        let proof_by = Some(self.proof_by).filter(|_| self.session.state() != State::Proven);
        let idle_by = takes_requests.then(|| Instant::now() + IDLE_TIMEOUT);
        let woken = std::future::poll_fn(|cx| {
            let answerable = produced
                .front()
                .is_some_and(|first| first.poll_answerable(commits.as_mut(), timer, cx).is_ready());
            let awaits = kept.as_ref().is_some_and(KeptAnswer::awaits_commit)
                || membership.as_ref().is_some_and(Membership::awaits_commit);
            let committed = awaits && poll_commits(commits.as_mut(), cx).is_ready();
            let told = kept.as_mut().is_some_and(|kept| kept.poll(cx).is_ready());
            let found = fetch.is_some() && subscriber.poll_ready(cx, &mut Vec::new()).is_ready();
            let answered = membership.as_mut().is_some_and(|membership| membership.poll(cx).is_ready());
            match answerable || committed || told || found || answered {
                true => Poll::Ready(()),
                false => Poll::Pending,
            }
        });
        tokio::select! {
            read = stream.read_buf(input), if reads => match read? {
                0 => Err(Ended::Closed),
                _ => {
                    *input_at = std::time::Instant::now();
                    Ok(())
                }
            },
            () = woken => Ok(()),
            () = at(fetch_by) => Ok(()),
            () = at(proof_by) => Err(Ended::Overdue),
            () = at(idle_by) => Err(Ended::Closed),
            _ = self.stop.wait_for(|stop| *stop) => Err(Ended::Stopped),
        }
    }
}

impl Produced {
    /// Ready when it is worth looking whether it can be answered.
    fn poll_answerable(
        &self,
        commits: Option<&mut CommitWatch>,
        timer: &mut PreciseTimer,
        cx: &mut Context<'_>,
    ) -> Poll<()> {
        match (commits, self.until.instant) {
            (Some(commits), _) if commits.state_of(self.until.commit) == CommitState::Waiting => {
                commits.poll_committed(cx)
            }
            (_, Some(at)) => timer.poll(cx, at),
            (_, None) => Poll::Ready(()),
        }
    }
}

fn poll_commits(commits: Option<&mut CommitWatch>, cx: &mut Context<'_>) -> Poll<()> {
    commits.map_or(Poll::Ready(()), |commits| commits.poll_committed(cx))
}

/// Waits for an instant, for ever if there is none.
async fn at(instant: Option<Instant>) {
    match instant {
        Some(instant) => tokio::time::sleep_until(instant).await,
        None => std::future::pending().await,
    }
}

/// Waits until the read timeout of [`Memory::read_timeout`] is over.
async fn read_timed_out(memory: &Memory) {
    let began = Instant::now();
    loop {
        tokio::time::sleep(READ_CHECK_INTERVAL).await;
        if memory.read_timeout(STALL_MAX).is_some_and(|timeout| began.elapsed() >= timeout) {
            return;
        }
    }
}

/// Waits until the service has stopped for so long that a client which does not read is left behind.
async fn stopped_for_good(stop: &mut watch::Receiver<bool>) {
    if stop.wait_for(|stop| *stop).await.is_ok() {
        tokio::time::sleep(FAREWELL).await;
    }
}

/// Time within which a client has to read some of its answers, as that of AMQP and HTTP.
const STALL_MAX: Duration = Duration::from_secs(60);

/// Interval of checks of the read timeout.
const READ_CHECK_INTERVAL: Duration = Duration::from_millis(100);

/// A client that asks nothing for longer is taken for gone, as by Kafka (`connections.max.idle.ms`).
const IDLE_TIMEOUT: Duration = Duration::from_secs(600);

/// Largest request, in bytes, as Kafka has it (`socket.request.max.bytes`).
pub(super) const LARGEST_REQUEST: usize = 100 * 1024 * 1024;

/// The same for a client that has not said who it is.
const LARGEST_UNPROVEN: usize = 128 * 1024;

/// Memory for requests that a connection keeps from one to the next, in bytes, unless memory is scarce.
const LARGE: usize = 2 * 1024 * 1024;

/// Room for what clients usually send at once, other than events.
const FIRST_CAPACITY: usize = 4 * 1024;

/// Bytes of answers that may wait before they are written, and before more requests are taken.
const OUTPUT_MAX: usize = 1024 * 1024;

/// Requests to produce that may wait for commits.
const PRODUCED_MAX: usize = 1_000;

/// How long a client has to read its last answers when the service stops.
const FAREWELL: Duration = Duration::from_millis(500);
