//! What was exported and what was not, on the page of metrics of the process itself.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use listen::MetricsWriter;

/// Counts of one exporter. Whoever reads them may see one a moment before the other.
#[derive(Debug, Default)]
pub(crate) struct Statistics {
    exported_spans: AtomicU64,
    dropped_spans: [AtomicU64; 3],
    queued_spans: AtomicU64,
    /// Requests by signal, those that were accepted and those that failed.
    requests: [[AtomicU64; 2]; 2],
    failing: AtomicBool,
}

/// What is exported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Signal {
    Traces,
    Metrics,
}

/// Why spans were dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dropped {
    /// As many waited as may.
    QueueFull,
    /// The collector could not be reached, or had no room for them, however often it was tried.
    Undelivered,
    /// The collector does not want them.
    Refused,
}

impl Signal {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Traces => "traces",
            Self::Metrics => "metrics",
        }
    }
}

impl Dropped {
    const fn name(self) -> &'static str {
        match self {
            Self::QueueFull => "queue-full",
            Self::Undelivered => "undelivered",
            Self::Refused => "refused",
        }
    }
}

impl Statistics {
    pub(crate) fn drop_spans(&self, why: Dropped, spans: u64) {
        self.dropped_spans[why as usize].fetch_add(spans, Relaxed);
    }

    pub(crate) fn export_spans(&self, spans: u64) {
        self.exported_spans.fetch_add(spans, Relaxed);
    }

    pub(crate) fn queued(&self, spans: usize) {
        self.queued_spans.store(spans as u64, Relaxed);
    }

    pub(crate) fn request(&self, signal: Signal, accepted: bool) {
        self.requests[signal as usize][usize::from(!accepted)].fetch_add(1, Relaxed);
    }

    pub(crate) fn fails(&self, failing: bool) {
        self.failing.store(failing, Relaxed);
    }

    pub(crate) fn all_dropped(&self) -> u64 {
        self.dropped_spans.iter().map(|dropped| dropped.load(Relaxed)).sum()
    }

    #[cfg(test)]
    pub(crate) fn dropped(&self, why: Dropped) -> u64 {
        self.dropped_spans[why as usize].load(Relaxed)
    }

    #[cfg(test)]
    pub(crate) fn exported(&self) -> u64 {
        self.exported_spans.load(Relaxed)
    }

    #[cfg(test)]
    pub(crate) fn requests(&self, signal: Signal, accepted: bool) -> u64 {
        self.requests[signal as usize][usize::from(!accepted)].load(Relaxed)
    }

    /// Writes the metrics.
    pub(crate) fn write(&self, metrics: &mut MetricsWriter<'_>) -> fmt::Result {
        let spans = self.exported_spans.load(Relaxed);
        metrics.counter("parshall_otlp_exported_spans", "Spans that the collector accepted", spans)?;
        let reasons = [Dropped::QueueFull, Dropped::Undelivered, Dropped::Refused];
        let dropped =
            reasons.map(|why| ([("reason", why.name())], self.dropped_spans[why as usize].load(Relaxed)));
        metrics.counters(
            "parshall_otlp_dropped_spans",
            "Spans that were not exported, by reason",
            dropped,
        )?;
        let queued = self.queued_spans.load(Relaxed);
        metrics.gauge("parshall_otlp_queued_spans", "Spans that wait to be exported", queued)?;
        let requests = [Signal::Traces, Signal::Metrics].into_iter().flat_map(|signal| {
            ["accepted", "failed"].into_iter().enumerate().map(move |(index, result)| {
                let labels = [("signal", signal.name()), ("result", result)];
                (labels, self.requests[signal as usize][index].load(Relaxed))
            })
        });
        metrics.counters(
            "parshall_otlp_requests",
            "Requests to the collector, by what is exported and result",
            requests,
        )?;
        let failing = u64::from(self.failing.load(Relaxed));
        metrics.gauge("parshall_otlp_failing", "1 while the last request to the collector failed", failing)
    }
}
