//! Traces for tests: spans that are looked at instead of being exported.

use std::sync::Arc;

use crate::Tracer;
use crate::options::TraceOptions;
use crate::sampler::Sampler;
use crate::span::Span;
use crate::statistics::Statistics;
use crate::tracer::SpanQueue;

/// Keeps the spans of its tracers, up to a thousand of them.
#[derive(Debug)]
pub struct SpanRecorder {
    options: TraceOptions,
    queue: Arc<SpanQueue>,
}

impl SpanRecorder {
    /// A recorder whose tracers trace this part of what begins without a context of its own; for the rest, whoever
    /// made the context has decided.
    #[must_use]
    pub fn new(ratio: f64) -> Self {
        let options = TraceOptions {
            sampler: Sampler { respects_parent: true, ratio },
            queue_maximum: 1_000,
            batch_maximum: 1_000,
            ..TraceOptions::default()
        };
        let queue = Arc::new(SpanQueue::new(&options, Arc::new(Statistics::default())));
        Self { options, queue }
    }

    /// One of its tracers.
    #[must_use]
    pub fn tracer(&self) -> Tracer {
        Tracer::new(&self.options, Arc::clone(&self.queue))
    }

    /// The spans that have ended since the last time, in that order.
    #[must_use]
    pub fn take(&self) -> Vec<Span> {
        self.queue.take()
    }
}
