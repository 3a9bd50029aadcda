//! Exporting: a thread that encodes and sends, and gives way to all others.
//!
//! Spans are sent when there are enough of them or they have waited long enough; a request that failed for a passing reason is
//! made again a few times, while others wait in their queue. Metrics are cumulative, so one that was not accepted
//! is not sent again: the next one says the same and more. A collector that is away is one line in the log, and one more when it is back.

use std::future::{Future, poll_fn};
use std::io;
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Poll;
use std::thread;
use std::time::{Duration, SystemTime};

use tokio::sync::{oneshot, watch};
use tokio::time::Instant;
use units::Random;

use crate::client::{CollectorClient, ExportError};
use crate::options::{Collector, MetricsOptions, Options, TraceOptions};
use crate::statistics::{Dropped, Signal, Statistics};
use crate::tracer::{SpanQueue, Tracer};
use crate::{exposition, otlp};

/// Somebody who has a page of metrics in the OpenMetrics text format.
pub trait MetricsPage: Send + 'static {
    /// The metrics as they are now; nothing if there is nobody who could tell.
    fn page(&self) -> impl Future<Output = Option<String>> + Send;
}

/// No page: nothing but traces.
impl MetricsPage for () {
    async fn page(&self) -> Option<String> {
        None
    }
}

/// Exports what a process has to tell, until it is shut down or the process ends.
#[derive(Debug)]
pub struct Exporter {
    traces: Option<(TraceOptions, Arc<SpanQueue>)>,
    exports_metrics: bool,
    stop: watch::Sender<Option<Stop>>,
    ended: oneshot::Receiver<()>,
}

/// The last that is exported.
#[derive(Clone, Debug)]
struct Stop {
    by: Instant,
    last_page: Option<Arc<str>>,
}

/// What both signals have in common.
#[derive(Debug)]
struct Shared {
    resource: Vec<(String, String)>,
    statistics: Arc<Statistics>,
    trouble: Mutex<Trouble>,
}

/// What is wrong with the collector.
#[derive(Debug, Default)]
struct Trouble {
    /// Which signals failed last.
    failing: [bool; 2],
    since: Option<Instant>,
    dropped_before: u64,
}

impl Exporter {
    /// Begins to export: the spans of the tracers that it gives, and the metrics that `page` has.
    ///
    /// # Errors
    /// The system gives no thread, or certificates can't be read.
    pub fn start(options: Options, page: impl MetricsPage) -> io::Result<Self> {
        let statistics = Arc::new(Statistics::default());
        let counted = Arc::clone(&statistics);
        listen::declare_part(Box::new(move |metrics| counted.write(metrics)));
        Self::start_counted(options, page, statistics)
    }

    fn start_counted(
        options: Options,
        page: impl MetricsPage,
        statistics: Arc<Statistics>,
    ) -> io::Result<Self> {
        let Options { traces, metrics, resource } = options;
        let exports_metrics = metrics.is_some();
        let (stop, stopped) = watch::channel(None);
        let (end, ended) = oneshot::channel();
        let shared =
            Arc::new(Shared { resource, statistics: Arc::clone(&statistics), trouble: Mutex::default() });
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        // Its timers belong to the runtime.
        let entered = runtime.enter();
        let client =
            |collector: &Collector| CollectorClient::new(collector.clone()).map_err(io::Error::other);
        let queue = traces.as_ref().map(|options| Arc::new(SpanQueue::new(options, statistics)));
        let spans = match (&traces, &queue) {
            (Some(options), Some(queue)) => Some(Spans {
                client: client(&options.collector)?,
                delay: options.delay,
                queue: Arc::clone(queue),
                shared: Arc::clone(&shared),
                stop: stopped.clone(),
                random: Random::from_seed(u64::from(std::process::id())),
            }),
            _ => None,
        };
        let figures = match metrics {
            Some(MetricsOptions { collector, every }) => Some(Figures {
                client: client(&collector)?,
                every,
                page,
                shared: Arc::clone(&shared),
                stop: stopped,
                start: SystemTime::now(),
            }),
            None => None,
        };
        drop(entered);
        let export = move || {
            // Of this thread alone. Where it is refused, it has the share of any other thread.
            if let Err(error) = rustix::process::setpriority_process(None, NICE) {
                tracing::debug!(%error, "telemetry is exported with the priority of the rest");
            }
            runtime.block_on(both(
                async {
                    if let Some(spans) = spans {
                        spans.run().await;
                    }
                },
                async {
                    if let Some(figures) = figures {
                        figures.run().await;
                    }
                },
            ));
            // Nobody may be waiting any more.
            let _ = end.send(());
            // A name that is still being looked up must not hold up the end.
            runtime.shutdown_background();
        };
        thread::Builder::new().name("telemetry".to_owned()).spawn(export)?;
        Ok(Self { traces: traces.zip(queue), exports_metrics, stop, ended })
    }

    /// Whether it asks for metrics.
    #[must_use]
    pub const fn exports_metrics(&self) -> bool {
        self.exports_metrics
    }

    /// Makes spans of another pipeline of this process; nothing if there are no traces.
    #[must_use]
    pub fn tracer(&self) -> Option<Tracer> {
        self.traces.as_ref().map(|(options, queue)| Tracer::new(options, Arc::clone(queue)))
    }

    /// Exports what is left, and `last_page` instead of what could be asked for, as far as the collector takes it within
    /// a few seconds.
    pub async fn shut_down(self, last_page: Option<String>) {
        let Self { stop, ended, .. } = self;
        let last_page = last_page.map(Into::into);
        stop.send_replace(Some(Stop { by: Instant::now() + LAST_EXPORT, last_page }));
        if tokio::time::timeout(LAST_EXPORT + Duration::from_millis(500), ended).await.is_err() {
            tracing::warn!("the last telemetry could not be exported within {LAST_EXPORT:?}");
        }
    }
}

/// Exports spans.
struct Spans {
    client: CollectorClient,
    delay: Duration,
    queue: Arc<SpanQueue>,
    shared: Arc<Shared>,
    stop: watch::Receiver<Option<Stop>>,
    random: Random,
}

impl Spans {
    async fn run(mut self) {
        loop {
            {
                let mut full = pin!(self.queue.full.notified());
                let stop = &mut self.stop;
                tokio::select! {
                    () = tokio::time::sleep(self.delay) => {}
                    () = &mut full => {}
                    // A sender that is gone is a stop, too.
                    _ = stop.changed() => {}
                }
            }
            // Nothing comes after a stop, so what is there then is all that is left.
            let is_last = is_stopped(&self.stop);
            self.export_all().await;
            if is_last {
                return;
            }
        }
    }

    /// Empties the queue, as far as that is possible.
    async fn export_all(&mut self) {
        loop {
            let spans = self.queue.take();
            if spans.is_empty() {
                return;
            }
            let request = otlp::traces(&self.shared.resource, &spans);
            let count = spans.len() as u64;
            drop(spans);
            let statistics = Arc::clone(&self.shared.statistics);
            match self.deliver(request).await {
                Ok(None) => statistics.export_spans(count),
                Ok(Some((rejected, reason))) => {
                    let rejected = rejected.min(count);
                    statistics.export_spans(count - rejected);
                    statistics.drop_spans(Dropped::Refused, rejected);
                    tracing::debug!(rejected, reason, "the collector rejected spans");
                }
                Err(ExportError { retry: None, .. }) => statistics.drop_spans(Dropped::Refused, count),
                Err(_) => statistics.drop_spans(Dropped::Undelivered, count),
            }
        }
    }

    /// Makes a request until it is accepted, or is not worth another try.
    async fn deliver(&mut self, request: Vec<u8>) -> Result<Option<(u64, String)>, ExportError> {
        let mut tried = 0;
        loop {
            let outcome = until(&self.stop, self.client.export(request.clone())).await;
            tried += 1;
            self.shared.note(Signal::Traces, &self.client, outcome.as_ref().err());
            let Err(ExportError { retry: Some(asked_for), .. }) = &outcome else {
                return outcome;
            };
            if tried == TRIES || is_stopped(&self.stop) {
                return outcome;
            }
            // Shortened at random, so that not all processes come back at once.
            let pause = FIRST_PAUSE * (1 << (tried - 1));
            let pause = pause.mul_f64(1.0 - self.random.unit() / 2.0).max(*asked_for);
            let mut stop = self.stop.clone();
            let _ = tokio::time::timeout(pause, stop.wait_for(Option::is_some)).await;
        }
    }
}

/// Exports metrics.
struct Figures<P> {
    client: CollectorClient,
    every: Duration,
    page: P,
    shared: Arc<Shared>,
    stop: watch::Receiver<Option<Stop>>,
    /// Since when everything is counted.
    start: SystemTime,
}

impl<P: MetricsPage> Figures<P> {
    async fn run(mut self) {
        loop {
            let mut stop = self.stop.clone();
            let stopped = tokio::time::timeout(self.every, stop.wait_for(Option::is_some)).await;
            let last = match &stopped {
                Ok(Ok(stop)) => stop.as_ref().map(|stop| stop.last_page.clone()),
                // The process ends without a word.
                Ok(Err(_)) => return,
                Err(_) => None,
            };
            drop(stopped);
            let is_last = last.is_some();
            let page = match last.flatten() {
                Some(page) => Some(page.to_string()),
                None => until_patience(self.page.page()).await,
            };
            if let Some(page) = page {
                self.export(&page).await;
            }
            if is_last {
                return;
            }
        }
    }

    async fn export(&mut self, page: &str) {
        let families = exposition::families(page);
        let request = otlp::metrics(&self.shared.resource, &families, self.start, SystemTime::now());
        let outcome = until(&self.stop, self.client.export(request)).await;
        self.shared.note(Signal::Metrics, &self.client, outcome.as_ref().err());
        if let Ok(Some((rejected, reason))) = outcome {
            tracing::debug!(rejected, reason, "the collector rejected metrics");
        }
    }
}

impl Shared {
    /// Takes note of how a request ended. The log has the beginning and the end of a time in which they fail.
    fn note(&self, signal: Signal, client: &CollectorClient, error: Option<&ExportError>) {
        self.statistics.request(signal, error.is_none());
        let mut trouble = self.trouble.lock().unwrap_or_else(PoisonError::into_inner);
        trouble.failing[signal as usize] = error.is_some();
        let is_failing = trouble.failing.contains(&true);
        self.statistics.fails(is_failing);
        match (error, trouble.since) {
            (Some(error), None) => {
                trouble.since = Some(Instant::now());
                trouble.dropped_before = self.statistics.all_dropped();
                let (signal, to) = (signal.name(), client.place());
                tracing::warn!(%error, to, "{signal} can't be exported; this is tried again, and not told again");
            }
            (None, Some(since)) if !is_failing => {
                trouble.since = None;
                let dropped = self.statistics.all_dropped() - trouble.dropped_before;
                let after = since.elapsed();
                tracing::info!(?after, dropped_spans = dropped, "telemetry is exported again");
            }
            _ => {}
        }
    }
}

fn is_stopped(stop: &watch::Receiver<Option<Stop>>) -> bool {
    // Without a sender there is nobody left who would end it.
    stop.borrow().is_some() || stop.has_changed().is_err()
}

/// An export, unless there is no time left for it.
async fn until<T>(
    stop: &watch::Receiver<Option<Stop>>,
    export: impl Future<Output = Result<T, ExportError>>,
) -> Result<T, ExportError> {
    let mut stop = stop.clone();
    let over = async move {
        let by = match stop.wait_for(Option::is_some).await {
            Ok(stop) => stop.as_ref().map(|stop| stop.by),
            Err(_) => None,
        };
        if let Some(by) = by {
            tokio::time::sleep_until(by).await;
        }
    };
    tokio::select! {
        outcome = export => outcome,
        () = over => Err(ExportError::out_of_time()),
    }
}

/// A page, unless whoever has it takes too long.
async fn until_patience(page: impl Future<Output = Option<String>>) -> Option<String> {
    tokio::time::timeout(PATIENCE, page).await.ok().flatten()
}

/// Waits for both.
async fn both(one: impl Future<Output = ()>, other: impl Future<Output = ()>) {
    let (mut one, mut other) = (pin!(one), pin!(other));
    let (mut one_is_done, mut other_is_done) = (false, false);
    poll_fn(|context| {
        one_is_done = one_is_done || one.as_mut().poll(context).is_ready();
        other_is_done = other_is_done || other.as_mut().poll(context).is_ready();
        if one_is_done && other_is_done { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
}

/// The weight of such a thread is 110 where others have 1024.
const NICE: i32 = 10;

/// So often a request with spans is made; the others wait meanwhile.
const TRIES: u32 = 5;

/// Before the second try; then twice that, and so on.
const FIRST_PAUSE: Duration = Duration::from_secs(1);

/// An end is not held up for longer by a collector that is slow.
const LAST_EXPORT: Duration = Duration::from_secs(5);

/// Somebody who has not told his metrics after so long stands still.
const PATIENCE: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests;
