//! Traces of the batches that are sampled. What they show, and under which names, [`Tracing`] says.
//!
//! A span is made when it ends: until then a sampled batch has no more than its context, and the times are those that the
//! metrics go by as well. The wall clock is read once per batch. All spans of a trace count from that reading, so that the parts
//! of a batch lie within it whatever delays the thread between two spans, and whatever sets the wall clock.

use std::collections::HashMap;
use std::time::{Duration, Instant, SystemTime};

use connect::checkpoint::StoreError;
use connect::event::{Event, EventBatch};
use connect::sink::{SendError, SendUnit};
use telemetry::context::SpanContext;
use telemetry::span::{Attribute, Failure, Link, Span, Value};

use super::Relay;
use super::in_flight::InFlight;
use super::sends::NONE;
use crate::health::troubles::Cause;
use crate::traces::Tracing;

/// The traces of a relay; empty where nothing is traced.
#[derive(Debug, Default)]
pub(super) struct Traces {
    tracing: Option<Box<Tracing>>,
    /// How many sampled batches are under way.
    under_way: usize,
    /// Sampled batches that are done and whose checkpoint is not written, by partition.
    done: HashMap<usize, Vec<Done>>,
    /// Those of them that the checkpoint covers which is being written.
    writing: HashMap<usize, Vec<Done>>,
}

/// The trace of a batch under way.
#[derive(Debug)]
pub(super) struct BatchTrace {
    context: SpanContext,
    received_at: Instant,
    clock: TraceClock,
    /// How many spans its sends have.
    sends: u32,
}

/// A batch that is done.
#[derive(Clone, Copy, Debug)]
struct Done {
    context: SpanContext,
    clock: TraceClock,
    /// Counted as the partition does.
    tenure: u64,
    last_sequence_number: i64,
}

/// The wall clock of a trace: one reading of both clocks, from which all of its times follow.
#[derive(Clone, Copy, Debug)]
struct TraceClock {
    monotonic: Instant,
    wall: SystemTime,
}

impl TraceClock {
    /// What the wall clock shows at `instant`, which is not before the reading.
    fn wall(&self, instant: Instant) -> SystemTime {
        self.wall + instant.saturating_duration_since(self.monotonic)
    }
}

impl Traces {
    /// The context of a batch's trace, if it is sampled.
    #[inline]
    fn begin(&mut self, batch: &EventBatch) -> Option<SpanContext> {
        let tracing = self.tracing.as_mut()?;
        let first = batch.events().first().and_then(|event| link_of(batch, event));
        let context = tracing.tracer.begin(first.map(|link| link.context))?;
        self.under_way += 1;
        Some(context)
    }

    /// Whether any batch under way is sampled.
    #[inline]
    pub(super) const fn are_under_way(&self) -> bool {
        self.under_way > 0
    }

    /// Notes which sampled batches a checkpoint covers.
    pub(super) fn begin_checkpoint(&mut self, index: usize, tenure: u64, sequence_number: Option<i64>) {
        let Some(done) = self.done.get_mut(&index) else {
            return;
        };
        // What was done before the partition was lost is for its other owner to write.
        done.retain(|done| done.tenure == tenure);
        let is_covered =
            |done: &mut Done| sequence_number.is_some_and(|number| done.last_sequence_number <= number);
        let covered: Vec<Done> = done.extract_if(.., is_covered).collect();
        if done.is_empty() {
            self.done.remove(&index);
        }
        if !covered.is_empty() {
            self.writing.insert(index, covered);
        }
    }
}

impl Relay {
    /// Traces what this relay carries.
    #[must_use]
    pub fn traced(mut self, tracing: Tracing) -> Self {
        self.traces.tracing = Some(Box::new(tracing));
        self
    }

    /// A batch was taken up that had come at `received_at`.
    #[inline]
    pub(super) fn begin_trace(&mut self, slot: u32, received_at: Instant) {
        let in_flight = self.slots.in_flight_mut(slot);
        in_flight.trace = self.traces.begin(&in_flight.batch).map(|context| {
            let clock = TraceClock { monotonic: self.now, wall: self.store.now() };
            Box::new(BatchTrace { context, received_at, clock, sends: 0 })
        });
    }

    /// The present attempt of a send has ended: a span for each sampled batch that has events in it.
    #[cold]
    pub(super) fn trace_attempt(&mut self, index: u32, error: Option<&SendError>) {
        let lasted = match self.sends.deadline(index) {
            Some(deadline) => self.elapsed_before(deadline),
            None => self.options.retry.try_timeout,
        };
        let (sink, destination) = {
            let leader = self.sends.send(index);
            (leader.sink, leader.destination)
        };
        let is_batch = self.outlets.get(sink).unit == SendUnit::Batch && self.dispatch.is_none();
        let mut next = index;
        while next != NONE {
            let send = self.sends.send(next);
            let events = send.attempted_end() - send.next;
            let in_flight = self.slots.in_flight_mut(self.sends.slot(next));
            next = send.follower;
            let (Some(trace), Some(tracing)) = (&mut in_flight.trace, &mut self.traces.tracing) else {
                continue;
            };
            let Some(of_sink) = tracing.sends.get(sink as usize) else {
                return;
            };
            trace.sends += 1;
            if trace.sends > SENDS_MAX {
                continue;
            }
            let mut attributes = Vec::with_capacity(2);
            if is_batch {
                attributes.push(("messaging.batch.message_count", events.into()));
            }
            if of_sink.to_partitions {
                attributes.push(partition_id(destination));
            }
            let context = tracing.tracer.span_in(trace.context.trace);
            tracing.tracer.record(Span {
                operation: of_sink.operation.clone(),
                context,
                parent: Some(trace.context.span),
                ended: trace.clock.wall(self.now),
                lasted,
                attributes,
                links: Vec::new(),
                dropped_links: 0,
                failure: error.map(|error| failure(error)),
            });
        }
    }

    /// A batch is over, by acceptance or without it. It is not under way any more.
    pub(super) fn end_trace(&mut self, in_flight: &InFlight, given_up: Option<&'static str>) {
        let Some(trace) = &in_flight.trace else {
            return;
        };
        self.traces.under_way -= 1;
        let Some(tracing) = &mut self.traces.tracing else {
            return;
        };
        let batch = &in_flight.batch;
        let mut attributes = Vec::with_capacity(5);
        // Settled messages come one by one, and their numbers are their locks' business.
        if in_flight.ticket.is_some() {
            attributes.push(("messaging.batch.message_count", (batch.len() as i64).into()));
            attributes.push(partition_id(batch.partition().0));
            let numbers = [
                ("parshall.batch.first_sequence_number", batch.first_sequence_number()),
                ("parshall.batch.last_sequence_number", in_flight.last_sequence_number()),
            ];
            let numbers = numbers.into_iter().filter_map(|(name, number)| Some((name, Value::from(number?))));
            attributes.extend(numbers);
        }
        let omitted = trace.sends.saturating_sub(SENDS_MAX);
        if omitted > 0 {
            attributes.push(("parshall.batch.omitted_send_spans", omitted.into()));
        }
        let (links, dropped_links) = links(batch, tracing.tracer.links_maximum());
        tracing.tracer.record(Span {
            operation: tracing.process.clone(),
            context: trace.context,
            parent: None,
            ended: trace.clock.wall(self.now),
            lasted: self.now.saturating_duration_since(trace.received_at),
            attributes,
            links,
            dropped_links,
            failure: given_up.map(|why| failure(&why)),
        });
        if in_flight.ticket.is_some()
            && given_up.is_none()
            && let Some(last_sequence_number) = in_flight.last_sequence_number()
        {
            let tenure = self.partitions[in_flight.partition].tenure;
            let done = self.traces.done.entry(in_flight.partition).or_default();
            if done.len() < DONE_MAX {
                done.push(Done { context: trace.context, clock: trace.clock, tenure, last_sequence_number });
            }
        }
    }

    /// A checkpoint is written at `now`, or could not be.
    pub(super) fn trace_checkpoint(
        &mut self,
        index: usize,
        now: Instant,
        lasted: Duration,
        error: Option<&StoreError>,
    ) {
        // Mostly nothing is sampled, and a look at nothing is cheaper than a search.
        if self.traces.writing.is_empty() {
            return;
        }
        let Some(covered) = self.traces.writing.remove(&index) else {
            return;
        };
        let Some(tracing) = &mut self.traces.tracing else {
            return;
        };
        if let Some((first, others)) = covered.split_first() {
            let context = tracing.tracer.span_in(first.context.trace);
            tracing.tracer.record(Span {
                operation: tracing.checkpoint.clone(),
                context,
                parent: Some(first.context.span),
                ended: first.clock.wall(now),
                lasted,
                attributes: vec![partition_id(self.partitions[index].id.0)],
                links: others.iter().map(|other| Link::new(other.context, None)).collect(),
                dropped_links: 0,
                failure: error.map(|error| failure(error)),
            });
        }
        if error.is_some() {
            // The next writing covers them as well.
            self.traces.done.entry(index).or_default().splice(0..0, covered);
        }
    }
}

/// The spans of producers that a batch has to do with, as far as they are sampled, and how many more there are than may be.
fn links(batch: &EventBatch, maximum: usize) -> (Vec<Link>, u32) {
    let (mut links, mut dropped) = (Vec::new(), 0);
    for event in batch.events() {
        let Some(link) = link_of(batch, event).filter(|link| link.context.sampled) else {
            continue;
        };
        // A producer may have written one context into all events of a batch.
        if links.contains(&link) {
            continue;
        }
        match links.len() < maximum {
            true => links.push(link),
            false => dropped += 1,
        }
    }
    (links, dropped)
}

fn link_of(batch: &EventBatch, event: &Event) -> Option<Link> {
    let context = batch.trace_context(event)?;
    Some(Link::new(SpanContext::parse(context.parent)?, context.state))
}

fn partition_id(partition: u32) -> Attribute {
    ("messaging.destination.partition.id", partition.to_string().into())
}

fn failure(cause: &dyn Cause) -> Failure {
    let clipped = |text: &str, bytes: usize| text[..text.floor_char_boundary(bytes)].to_owned();
    Failure {
        kind: clipped(cause.condition(), KIND_BYTES_MAX),
        description: clipped(&cause.to_string(), TEXT_BYTES_MAX),
    }
}

/// So many sends of a batch have spans; of the others it is told how many there were.
const SENDS_MAX: u32 = 128;

/// So many batches of a partition wait for a checkpoint that covers them.
const DONE_MAX: usize = 128;

/// Conditions and texts are a peer's.
const KIND_BYTES_MAX: usize = 64;
const TEXT_BYTES_MAX: usize = 200;
