//! Where the clients of the world in memory send and receive.

use std::{
    collections::VecDeque,
    pin::Pin,
    sync::{Arc, Mutex, PoisonError, atomic::Ordering},
    task::{Context, Poll},
    time::Duration,
};

use connect::{
    event::{Encoding, EventBatch, PartitionId},
    fakes::MemorySource,
    sink::{ErrorClass, OutgoingBatch, SendError, SendOutcome, SendToken, Sink, SinkBusy, SinkError},
    source::{Source, SourceError, SourceEvent, SourceOptions, StartPosition},
};
use tokio::time::{Instant, Sleep};

use super::stall::{Stalled, Standstill};
use super::{Faults, MemoryHub, PlainCodec};
use crate::{clock::RunTime, payload::Header, roles::backend::MessageCodec as _};

/// Appends to a log and answers at once.
#[derive(Debug)]
pub struct MemorySink {
    hub: MemoryHub,
    partitions: u32,
    faults: Faults,
    timer: Pin<Box<Sleep>>,
    sends: u64,
    /// Answers, and when they are due.
    outcomes: VecDeque<(Instant, SendOutcome)>,
    /// What it has taken while it stands still.
    standstill: Option<Standstill>,
    stalled: Arc<Mutex<Vec<Stalled>>>,
}

impl MemorySink {
    pub(super) fn new(
        hub: MemoryHub,
        partitions: u32,
        faults: Faults,
        stalled: Arc<Mutex<Vec<Stalled>>>,
    ) -> Self {
        Self {
            hub,
            partitions,
            faults,
            timer: Box::pin(tokio::time::sleep(Duration::ZERO)),
            sends: 0,
            outcomes: VecDeque::new(),
            standstill: None,
            stalled,
        }
    }

    /// Goes on if it has stood still for long enough.
    fn go_on(&mut self) {
        if let Some(standstill) = self.standstill.take_if(|standstill| standstill.until <= Instant::now()) {
            let stalled = standstill.end(&self.hub);
            self.stalled.lock().unwrap_or_else(PoisonError::into_inner).push(stalled);
        }
    }
}

impl Sink for MemorySink {
    fn takes(&self, _encoding: Encoding) -> bool {
        true
    }

    fn destinations(&self) -> u32 {
        self.partitions
    }

    fn max_batch_bytes(&self, _: u32) -> usize {
        1 << 20
    }

    fn encoded_len(&self, message_len: usize) -> usize {
        message_len
    }

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), SinkError>> {
        // Whoever waits for room waits for answers as well, and is woken by them.
        if self.outcomes.len() < MOST_UNANSWERED { Poll::Ready(Ok(())) } else { Poll::Pending }
    }

    fn send(&mut self, token: SendToken, outgoing: OutgoingBatch<'_>) -> Result<(), SinkBusy> {
        if self.outcomes.len() >= MOST_UNANSWERED {
            return Err(SinkBusy);
        }
        self.go_on();
        self.sends += 1;
        let sends = self.sends;
        if let Some(stall) = self.faults.stall.filter(|stall| stall.at_send == sends) {
            self.standstill = Some(Standstill::beginning_now(&self.hub, stall.length));
        }
        let hits = |every: Option<u64>| every.is_some_and(|every| sends.is_multiple_of(every));
        let events = outgoing.messages().count() as u64;
        let is_throttled = self.hub.bucket.as_ref().is_some_and(|bucket| !bucket.take(events));
        let is_refused = is_throttled || hits(self.faults.refuse_every);
        if !is_refused && !hits(self.faults.forget_every) {
            let partition = PartitionId(outgoing.destination());
            for message in outgoing.messages() {
                match &mut self.standstill {
                    Some(standstill) => standstill.take(partition, message.as_ref()),
                    None => self.hub.append(partition, message.as_ref()),
                }
            }
        }
        let refusal = || SendError {
            class: match is_throttled {
                true => ErrorClass::Throttled { retry_after: Duration::ZERO },
                false => ErrorClass::Fatal,
            },
            condition: "test:refused".to_owned(),
            description: "refused by injection".to_owned(),
        };
        if hits(self.faults.ignore_every) {
            return Ok(());
        }
        let outcome =
            SendOutcome { token, result: if is_refused { Err(Box::new(refusal())) } else { Ok(()) } };
        let answers_from = self.standstill.as_ref().map_or_else(Instant::now, |standstill| standstill.until);
        self.outcomes.push_back((answers_from + self.faults.answer_after, outcome));
        Ok(())
    }

    fn poll_outcomes(
        &mut self,
        context: &mut Context<'_>,
        outcomes: &mut Vec<SendOutcome>,
    ) -> Poll<Result<(), SinkError>> {
        let Some((due, _)) = self.outcomes.front() else {
            return Poll::Pending;
        };
        if *due > Instant::now() {
            self.timer.as_mut().reset(*due);
            std::task::ready!(self.timer.as_mut().poll(context));
        }
        self.go_on();
        let answered = self.outcomes.pop_front().expect("there is a first one");
        outcomes.push(answered.1);
        Poll::Ready(Ok(()))
    }
}

/// Sends that wait for their answers at most.
const MOST_UNANSWERED: usize = 4;

/// Reads a log and counts what it gives out.
#[derive(Debug)]
pub struct CountedSource {
    source: MemorySource,
    hub: MemoryHub,
    name: Arc<str>,
    /// When the batch was given out that was given out last.
    given: RunTime,
    observed: Arc<Mutex<Vec<Observed>>>,
}

/// An event that was read: who it is, and between which instants its reader had it in hand.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Observed {
    /// The hub that it was read from.
    pub hub: Arc<str>,
    /// Its header.
    pub header: Header,
    /// Bytes of its payload.
    pub payload_len: usize,
    /// Just before its batch was given to the reader.
    pub given: RunTime,
    /// Just after the reader gave the batch back.
    pub released: RunTime,
}

impl CountedSource {
    pub(super) fn new(
        hub: MemoryHub,
        name: &str,
        options: SourceOptions,
        observed: Arc<Mutex<Vec<Observed>>>,
    ) -> Self {
        Self {
            source: MemorySource::new(&hub.log, options),
            hub,
            name: name.into(),
            given: RunTime::EPOCH,
            observed,
        }
    }

    fn observe(&self, batch: &EventBatch) {
        let released = self.hub.clock.now();
        let mut observed = self.observed.lock().unwrap_or_else(PoisonError::into_inner);
        for event in batch.events() {
            let decoded = PlainCodec.decode(batch.message(event));
            let payload = decoded.map_or(&[][..], |message| message.payload);
            if let Ok(header) = Header::parse(payload) {
                observed.push(Observed {
                    hub: Arc::clone(&self.name),
                    header,
                    payload_len: payload.len(),
                    given: self.given,
                    released,
                });
            }
        }
    }
}

impl Source for CountedSource {
    fn encoding(&self) -> Encoding {
        self.source.encoding()
    }

    fn partitions(&self) -> Vec<PartitionId> {
        self.source.partitions()
    }

    fn open(&mut self, partition: PartitionId, position: StartPosition) {
        self.source.open(partition, position);
    }

    fn close(&mut self, partition: PartitionId) {
        self.source.close(partition);
    }

    fn hold(&mut self, partition: PartitionId, held: bool) {
        self.source.hold(partition, held);
    }

    fn is_exhausted(&self) -> bool {
        self.source.is_exhausted()
    }

    fn poll_batch(&mut self, context: &mut Context<'_>) -> Poll<Result<SourceEvent, SourceError>> {
        let event = self.source.poll_batch(context);
        if let Poll::Ready(Ok(SourceEvent::Batch(batch))) = &event {
            self.given = self.hub.clock.now();
            self.hub.outgoing.fetch_add(batch.len() as u64, Ordering::SeqCst);
        }
        event
    }

    fn release(&mut self, batch: EventBatch) {
        self.observe(&batch);
        self.source.release(batch);
    }
}
