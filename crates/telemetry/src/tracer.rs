//! Where spans come from, and where they wait to be exported.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher as _, Hasher as _};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;
use units::Random;

use crate::context::{SpanContext, SpanId, TraceId};
use crate::options::TraceOptions;
use crate::sampler::Sampler;
use crate::span::Span;
use crate::statistics::{Dropped, Statistics};

/// Makes spans of one pipeline. It never waits.
#[derive(Debug)]
pub struct Tracer {
    queue: Arc<SpanQueue>,
    sampler: Sampler,
    links_maximum: usize,
    random: Random,
}

/// Spans that wait to be exported: so many, and no more.
#[derive(Debug)]
pub(crate) struct SpanQueue {
    spans: Mutex<Vec<Span>>,
    maximum: usize,
    /// With so many it is time to export them.
    enough: usize,
    /// Woken when there are enough.
    pub(crate) full: Notify,
    statistics: Arc<Statistics>,
}

impl Tracer {
    pub(crate) fn new(options: &TraceOptions, queue: Arc<SpanQueue>) -> Self {
        // What the standard library keys its maps with is random in every process.
        let seed = RandomState::new().build_hasher().finish();
        let (sampler, links_maximum) = (options.sampler, options.links_maximum);
        Self { queue, sampler, links_maximum, random: Random::from_seed(seed) }
    }

    /// Begins a trace with something whose first message has this context, if any: the context of its span, or nothing
    /// if it is not sampled.
    pub fn begin(&mut self, first: Option<SpanContext>) -> Option<SpanContext> {
        let mut trace = [0; 16];
        self.random.fill(&mut trace);
        // All zeros would be no id.
        trace[0] |= 1;
        let trace = TraceId(trace);
        self.sampler.samples(trace, first).then(|| self.span_in(trace))
    }

    /// The context of another span of a trace that is sampled.
    pub fn span_in(&mut self, trace: TraceId) -> SpanContext {
        let mut span = [0; 8];
        self.random.fill(&mut span);
        span[0] |= 1;
        SpanContext { trace, span: SpanId(span), sampled: true }
    }

    /// How many links a span may have.
    #[must_use]
    pub const fn links_maximum(&self) -> usize {
        self.links_maximum
    }

    /// Hands a span over to be exported, if there is room for it.
    pub fn record(&self, span: Span) {
        self.queue.push(span);
    }
}

impl SpanQueue {
    pub(crate) fn new(options: &TraceOptions, statistics: Arc<Statistics>) -> Self {
        let maximum = options.queue_maximum.max(1);
        let enough = options.batch_maximum.clamp(1, maximum);
        Self { spans: Mutex::default(), maximum, enough, full: Notify::new(), statistics }
    }

    fn push(&self, span: Span) {
        let mut spans = self.spans();
        if spans.len() >= self.maximum {
            drop(spans);
            self.statistics.drop_spans(Dropped::QueueFull, 1);
            return;
        }
        spans.push(span);
        let waiting = spans.len();
        drop(spans);
        self.statistics.queued(waiting);
        // Once, not for each that comes after: waking a thread takes longer than all the rest.
        if waiting == self.enough {
            self.full.notify_one();
        }
    }

    /// Takes as many as are exported at once, the oldest first.
    pub(crate) fn take(&self) -> Vec<Span> {
        let mut spans = self.spans();
        let count = spans.len().min(self.enough);
        let rest = spans.split_off(count);
        let taken = std::mem::replace(&mut *spans, rest);
        self.statistics.queued(spans.len());
        taken
    }

    fn spans(&self) -> MutexGuard<'_, Vec<Span>> {
        // Nobody panics while it is locked.
        self.spans.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::time::{Duration, SystemTime};

    use super::*;
    use crate::span::{Kind, Operation};

    pub(crate) fn span(tracer: &mut Tracer) -> Span {
        let operation =
            Operation { name: "process orders".to_owned(), kind: Kind::Consumer, attributes: Vec::new() };
        Span {
            operation: Arc::new(operation),
            context: tracer.begin(None).expect("all are sampled"),
            parent: None,
            ended: SystemTime::UNIX_EPOCH,
            lasted: Duration::ZERO,
            attributes: Vec::new(),
            links: Vec::new(),
            dropped_links: 0,
            failure: None,
        }
    }

    #[test]
    fn a_full_queue_drops_what_comes_and_counts_it() {
        let options = TraceOptions {
            sampler: Sampler { respects_parent: true, ratio: 1.0 },
            queue_maximum: 5,
            batch_maximum: 2,
            ..TraceOptions::default()
        };
        let statistics = Arc::new(Statistics::default());
        let queue = Arc::new(SpanQueue::new(&options, Arc::clone(&statistics)));
        let mut tracer = Tracer::new(&options, Arc::clone(&queue));
        for _ in 0..8 {
            let span = span(&mut tracer);
            tracer.record(span);
        }
        assert_eq!(statistics.dropped(Dropped::QueueFull), 3);
        assert_eq!(
            [queue.take().len(), queue.take().len(), queue.take().len(), queue.take().len()],
            [2, 2, 1, 0]
        );
    }

    #[test]
    fn ids_are_never_empty_and_never_the_same() {
        let options = TraceOptions {
            sampler: Sampler { respects_parent: false, ratio: 1.0 },
            ..TraceOptions::default()
        };
        let queue = Arc::new(SpanQueue::new(&options, Arc::default()));
        let (mut one, mut other) = (Tracer::new(&options, Arc::clone(&queue)), Tracer::new(&options, queue));
        let (first, second) = (one.begin(None).expect("sampled"), other.begin(None).expect("sampled"));
        assert_ne!(first.trace, second.trace);
        assert_ne!(one.span_in(first.trace).span, first.span);
    }
}
