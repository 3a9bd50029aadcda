//! A sink that answers as it is told and remembers what it was given.

use std::collections::VecDeque;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::Bytes;
use tokio::time::{Instant, Sleep};

use crate::event::{Encoding, PartitionId};
use crate::sink::{
    ErrorClass, OutgoingBatch, SendError, SendOutcome, SendToken, SendUnit, Sink, SinkBusy, SinkError,
    Stored, StoredThrough,
};

/// A [`Sink`] that does what its [`SinkScript`] says; without one it accepts everything at once.
pub struct ScriptedSink {
    script: SinkScript,
    timer: Pin<Box<Sleep>>,
}

/// What a [`ScriptedSink`] is to do and what it was given; clones share it.
#[derive(Clone, Debug)]
pub struct SinkScript {
    state: Arc<Mutex<State>>,
}

/// How a send is answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// Accepted, and said so after this long.
    Accept(Duration),
    /// Not accepted, and said so after this long.
    Refuse(Duration, SendError),
    /// Accepted, but the outcome is lost on the way.
    AcceptSilently,
    /// Neither accepted nor answered.
    Lose,
}

/// One send, as the sink was given it.
#[derive(Clone, Debug)]
pub struct Write {
    /// Where it was sent.
    pub destination: u32,
    /// The partition that the events come from.
    pub partition: PartitionId,
    /// The events' sequence numbers.
    pub sequence_numbers: Vec<i64>,
    /// The events' message bytes.
    pub messages: Vec<Bytes>,
    /// When it was sent.
    pub sent_at: Instant,
    /// How it was answered.
    pub reply: Reply,
}

#[derive(Debug)]
struct State {
    unit: SendUnit,
    /// The one encoding that it takes, if not any.
    only: Option<Encoding>,
    ends_sends: bool,
    max_batch_bytes: usize,
    max_unanswered: usize,
    /// Replies that each destination has yet to give, before it goes on with the default.
    replies: Vec<VecDeque<Reply>>,
    default_reply: Reply,
    writes: Vec<Write>,
    unanswered: Vec<Unanswered>,
    failure: Option<SinkError>,
    sender: Option<Waker>,
    stores_later: bool,
    /// What it has yet to say of that.
    stored: Vec<Stored>,
    flushed: Vec<PartitionId>,
    forgotten: Vec<PartitionId>,
}

#[derive(Debug)]
struct Unanswered {
    /// None for a reply that never comes.
    due: Option<Instant>,
    token: SendToken,
    result: Result<(), SendError>,
}

impl ScriptedSink {
    /// A sink that accepts everything at once, and the script to change that. Made within a tokio runtime with time.
    #[must_use]
    pub fn new(destinations: u32) -> (Self, SinkScript) {
        let state = State {
            unit: SendUnit::Batch,
            only: None,
            ends_sends: false,
            max_batch_bytes: usize::MAX,
            max_unanswered: usize::MAX,
            replies: (0..destinations).map(|_| VecDeque::new()).collect(),
            default_reply: Reply::Accept(Duration::ZERO),
            writes: Vec::new(),
            unanswered: Vec::new(),
            failure: None,
            sender: None,
            stores_later: false,
            stored: Vec::new(),
            flushed: Vec::new(),
            forgotten: Vec::new(),
        };
        let script = SinkScript { state: Arc::new(Mutex::new(state)) };
        (Self { script: script.clone(), timer: Box::pin(tokio::time::sleep_until(Instant::now())) }, script)
    }
}

impl SinkScript {
    /// Another sink that follows this script, as a process that starts after a crash would connect to the same service.
    /// What is still unanswered is lost with the sink before it.
    #[must_use]
    pub fn sink(&self) -> ScriptedSink {
        self.state().unanswered.clear();
        ScriptedSink { script: self.clone(), timer: Box::pin(tokio::time::sleep_until(Instant::now())) }
    }

    /// The reply to every send that no other was set for.
    pub fn reply_by_default(&self, reply: Reply) {
        self.state().default_reply = reply;
    }

    /// The reply to the next send to `destination` that none was set for yet.
    ///
    /// # Panics
    /// When there is no such destination.
    pub fn reply_next(&self, destination: u32, reply: Reply) {
        self.state().replies[destination as usize].push_back(reply);
    }

    /// Stores later than it accepts: what [`store_through`](Self::store_through) says.
    pub fn store_later(&self) {
        self.state().stores_later = true;
    }

    /// Everything of a partition up to this event is stored from now on.
    pub fn store_through(&self, partition: PartitionId, sequence_number: i64, offset: &str) {
        let through = StoredThrough { sequence_number, offset: offset.to_owned() };
        self.say(Stored { partition, result: Ok(through) });
    }

    /// What is not stored of a partition is lost.
    pub fn lose_unstored(&self, partition: PartitionId) {
        let Reply::Refuse(_, error) = Reply::refuse(ErrorClass::Retryable) else { return };
        self.say(Stored { partition, result: Err(Box::new(error)) });
    }

    fn say(&self, stored: Stored) {
        let mut state = self.state();
        state.stored.push(stored);
        state.wake_sender();
    }

    /// Partitions that it was asked to store, and to forget.
    #[must_use]
    pub fn flushed_and_forgotten(&self) -> (Vec<PartitionId>, Vec<PartitionId>) {
        let state = self.state();
        (state.flushed.clone(), state.forgotten.clone())
    }

    /// Asks for this in each send.
    pub fn send_by(&self, unit: SendUnit) {
        self.state().unit = unit;
    }

    /// Takes no other encoding than this.
    pub fn take_only(&self, encoding: Encoding) {
        self.state().only = Some(encoding);
    }

    /// Says that each send has its outcome from it alone, however long that takes.
    pub fn end_sends(&self) {
        self.state().ends_sends = true;
    }

    /// Refuses what encodes to more than this (a message to its own length and [`ScriptedSink::OVERHEAD`]).
    pub fn limit_batch_bytes(&self, max_batch_bytes: usize) {
        self.state().max_batch_bytes = max_batch_bytes;
    }

    /// Is busy while this many sends are unanswered.
    pub fn limit_unanswered(&self, max_unanswered: usize) {
        let mut state = self.state();
        state.max_unanswered = max_unanswered;
        state.wake_sender();
    }

    /// Fails as a whole.
    pub fn fail(&self, error: SinkError) {
        let mut state = self.state();
        state.failure = Some(error);
        state.wake_sender();
    }

    /// Every send, in order.
    #[must_use]
    pub fn writes(&self) -> Vec<Write> {
        self.state().writes.clone()
    }

    /// Looks at every send, in order, without copying any.
    pub fn with_writes<T>(&self, look: impl FnOnce(&[Write]) -> T) -> T {
        look(&self.state().writes)
    }

    /// What a reader of `destination` would find: partition and sequence number of each accepted event, in order.
    #[must_use]
    pub fn accepted(&self, destination: u32) -> Vec<(PartitionId, i64)> {
        self.state()
            .writes
            .iter()
            .filter(|write| write.destination == destination)
            .filter(|write| write.is_accepted())
            .flat_map(|write| write.sequence_numbers.iter().map(|&number| (write.partition, number)))
            .collect()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Reply {
    /// A refusal at once, of the given class.
    #[must_use]
    pub fn refuse(class: ErrorClass) -> Self {
        let (condition, description) = ("test:refused".to_owned(), "refused as the script says".to_owned());
        Self::Refuse(Duration::ZERO, SendError { class, condition, description })
    }
}

impl Write {
    /// Whether a reader of the destination would find its events.
    #[must_use]
    pub fn is_accepted(&self) -> bool {
        matches!(self.reply, Reply::Accept(_) | Reply::AcceptSilently)
    }
}

impl ScriptedSink {
    /// What a message encodes to beyond its own length, in bytes.
    pub const OVERHEAD: usize = 4;
}

impl Sink for ScriptedSink {
    fn takes(&self, encoding: Encoding) -> bool {
        self.script.state().only.is_none_or(|only| only == encoding)
    }

    fn destinations(&self) -> u32 {
        u32::try_from(self.script.state().replies.len()).expect("a sink is made with a 32-bit count")
    }

    fn send_unit(&self) -> SendUnit {
        self.script.state().unit
    }

    fn ends_sends(&self) -> bool {
        self.script.state().ends_sends
    }

    fn max_batch_bytes(&self, _destination: u32) -> usize {
        self.script.state().max_batch_bytes
    }

    fn encoded_len(&self, message_len: usize) -> usize {
        message_len + Self::OVERHEAD
    }

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), SinkError>> {
        let mut state = self.script.state();
        if state.unanswered.len() < state.max_unanswered {
            return Poll::Ready(Ok(()));
        }
        state.sender = Some(context.waker().clone());
        Poll::Pending
    }

    fn send(&mut self, token: SendToken, outgoing: OutgoingBatch<'_>) -> Result<(), SinkBusy> {
        let mut state = self.script.state();
        assert!(
            state.unit == SendUnit::Batch || outgoing.events().len() == 1,
            "a send of several events where each was to be sent alone"
        );
        if state.unanswered.len() >= state.max_unanswered {
            return Err(SinkBusy);
        }
        let scripted = state.replies[outgoing.destination() as usize].pop_front();
        let mut reply = scripted.unwrap_or_else(|| state.default_reply.clone());
        let encoded: usize =
            outgoing.messages().map(|message| self.encoded_len(message.as_ref().len())).sum();
        if encoded > state.max_batch_bytes {
            reply = Reply::refuse(ErrorClass::TooLarge);
        }
        let now = Instant::now();
        let (due, result) = match &reply {
            Reply::Accept(delay) => (Some(now + *delay), Ok(())),
            Reply::Refuse(delay, error) => (Some(now + *delay), Err(error.clone())),
            Reply::AcceptSilently | Reply::Lose => (None, Ok(())),
        };
        state.unanswered.push(Unanswered { due, token, result });
        state.writes.push(Write {
            destination: outgoing.destination(),
            partition: outgoing.partition(),
            sequence_numbers: outgoing.events().map(|(_, event)| event.sequence_number).collect(),
            messages: outgoing.messages().map(|message| Bytes::copy_from_slice(message.as_ref())).collect(),
            sent_at: now,
            reply,
        });
        Ok(())
    }

    fn stores_later(&self) -> bool {
        self.script.state().stores_later
    }

    fn take_stored(&mut self, stored: &mut Vec<Stored>) {
        stored.append(&mut self.script.state().stored);
    }

    fn flush(&mut self, partition: PartitionId) {
        self.script.state().flushed.push(partition);
    }

    fn forget(&mut self, partition: PartitionId) {
        self.script.state().forgotten.push(partition);
    }

    fn poll_outcomes(
        &mut self,
        context: &mut Context<'_>,
        outcomes: &mut Vec<SendOutcome>,
    ) -> Poll<Result<(), SinkError>> {
        loop {
            let mut state = self.script.state();
            if let Some(error) = state.failure.clone() {
                return Poll::Ready(Err(error));
            }
            let now = Instant::now();
            let due: Vec<_> =
                state.unanswered.extract_if(.., |send| send.due.is_some_and(|due| due <= now)).collect();
            if !due.is_empty() {
                let answers = due.into_iter();
                outcomes.extend(
                    answers
                        .map(|send| SendOutcome { token: send.token, result: send.result.map_err(Box::new) }),
                );
                return Poll::Ready(Ok(()));
            }
            state.sender = Some(context.waker().clone());
            let Some(next) = state.unanswered.iter().filter_map(|send| send.due).min() else {
                return Poll::Pending;
            };
            self.timer.as_mut().reset(next);
            if self.timer.as_mut().poll(context).is_pending() {
                return Poll::Pending;
            }
        }
    }
}

impl State {
    fn wake_sender(&mut self) {
        if let Some(sender) = self.sender.take() {
            sender.wake();
        }
    }
}

impl fmt::Debug for ScriptedSink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ScriptedSink").field("script", &self.script).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use super::*;
    use crate::event::EventBatch;

    fn batch() -> EventBatch {
        let mut batch = EventBatch::with_capacity(PartitionId(7), 3);
        for (sequence_number, message) in [(10, "zero"), (11, "one"), (12, "two")] {
            batch.push_message(&Bytes::from_static(message.as_bytes()), sequence_number);
        }
        batch
    }

    fn send(sink: &mut ScriptedSink, token: u64, destination: u32, events: &[u32]) -> Result<(), SinkBusy> {
        sink.send(SendToken(token), OutgoingBatch::new(destination, &batch(), events))
    }

    async fn outcomes(sink: &mut ScriptedSink) -> Vec<(u64, Option<ErrorClass>)> {
        let mut outcomes = Vec::new();
        poll_fn(|context| sink.poll_outcomes(context, &mut outcomes)).await.expect("the sink works");
        outcomes
            .into_iter()
            .map(|outcome| (outcome.token.0, outcome.result.err().map(|error| error.class)))
            .collect()
    }

    #[tokio::test(start_paused = true)]
    async fn replies_come_as_scripted_and_when_they_are_due() {
        let (mut sink, script) = ScriptedSink::new(2);
        script.reply_next(0, Reply::Accept(Duration::from_millis(5)));
        script.reply_next(1, Reply::refuse(ErrorClass::Retryable));
        script.reply_next(1, Reply::Lose);
        script.reply_next(1, Reply::AcceptSilently);
        let start = Instant::now();
        send(&mut sink, 1, 0, &[2, 0]).expect("not busy");
        send(&mut sink, 2, 1, &[1]).expect("not busy");
        send(&mut sink, 3, 1, &[1]).expect("not busy");
        send(&mut sink, 4, 1, &[2]).expect("not busy");
        assert_eq!(outcomes(&mut sink).await, [(2, Some(ErrorClass::Retryable))]);
        assert_eq!(start.elapsed(), Duration::ZERO);
        assert_eq!(outcomes(&mut sink).await, [(1, None)]);
        assert_eq!(start.elapsed(), Duration::from_millis(5));
        assert_eq!(script.accepted(0), [(PartitionId(7), 12), (PartitionId(7), 10)]);
        assert_eq!(script.accepted(1), [(PartitionId(7), 12)]);
        assert_eq!(script.writes()[0].messages, [&b"two"[..], b"zero"]);
    }

    #[tokio::test(start_paused = true)]
    async fn it_is_busy_at_its_limit_and_ready_below() {
        let (mut sink, script) = ScriptedSink::new(1);
        script.limit_unanswered(1);
        send(&mut sink, 1, 0, &[0]).expect("not busy");
        assert_eq!(send(&mut sink, 2, 0, &[1]), Err(SinkBusy));
        assert_eq!(outcomes(&mut sink).await, [(1, None)]);
        poll_fn(|context| sink.poll_ready(context)).await.expect("the sink works");
        send(&mut sink, 2, 0, &[1]).expect("not busy");
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_larger_than_its_limit_is_refused_as_too_large() {
        let (mut sink, script) = ScriptedSink::new(1);
        script.limit_batch_bytes(15);
        send(&mut sink, 1, 0, &[0, 1]).expect("not busy");
        send(&mut sink, 2, 0, &[0, 1, 2]).expect("not busy");
        assert_eq!(outcomes(&mut sink).await, [(1, None), (2, Some(ErrorClass::TooLarge))]);
    }
}
