//! What a relay counts and times.
//!
//! [`Metrics`] is a plain struct that its relay owns: a batch costs a few additions and four histogram records, an
//! event nothing. Who wants to know asks through a [`MetricsHandle`] and gets a copy, as a [`Snapshot`] for another
//! process or as text for Prometheus (see [`prometheus`] for the names).

use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use tokio::sync::{mpsc, oneshot};

pub mod endpoint;
pub mod prometheus;
mod snapshot;

pub use snapshot::{EncodedHistogram, Snapshot};

/// Counters, gauges and distributions of one relay since it was made.
#[derive(Clone, Debug)]
pub struct Metrics {
    /// Events that were received from the source.
    pub received_events: u64,
    /// Batches that were received from the source.
    pub received_batches: u64,
    /// Message bytes that were received from the source.
    pub received_bytes: u64,
    /// Events that a destination has accepted; one that is sent again after a failure counts again.
    pub forwarded_events: u64,
    /// Message bytes that a destination has accepted.
    pub forwarded_bytes: u64,
    /// Batches of which every event was accepted.
    pub completed_batches: u64,
    /// Events that the watermarks have passed; one that is received again counts once.
    pub completed_events: u64,
    /// Events of sends that may have been accepted without our being told: those that timed out, broke off, or were
    /// under way when their batch was abandoned.
    pub doubtful_events: u64,
    /// Sends that were handed to the sink, retries included.
    pub sends: u64,
    /// Sends that were handed to the sink again.
    pub retries: u64,
    /// Sends that the service asked to slow down.
    pub throttled_sends: u64,
    /// Sends that had no outcome within their time.
    pub timed_out_sends: u64,
    /// Outcomes of sends that had been given up before.
    pub late_outcomes: u64,
    /// Groups that were sent in parts because the destination takes no more at once.
    pub split_sends: u64,
    /// Times that the sink was busy.
    pub busy_sink: u64,
    /// Sends that failed on purpose.
    pub injected_failures: u64,
    /// Batches that failed: their partition stopped.
    pub failed_batches: u64,
    /// Partitions that were closed by the service.
    pub closed_partitions: u64,
    /// Partitions that were opened, first starts and restarts.
    pub opened_partitions: u64,
    /// Checkpoints that were written.
    pub checkpoints: u64,
    /// Checkpoints that could not be written.
    pub failed_checkpoints: u64,
    /// Checkpoints that were refused because another relay had written in the meantime.
    pub refused_checkpoints: u64,
    /// Rounds of looking at the claims of all relays and renewing one's own.
    pub ownership_cycles: u64,
    /// Partitions that were claimed, those taken from others included.
    pub claimed_partitions: u64,
    /// Partitions that were taken from a relay with more than its share.
    pub stolen_partitions: u64,
    /// Partitions that were lost: to another relay, or because their claim was not renewed in time.
    pub lost_partitions: u64,
    /// Partitions that were given back.
    pub returned_partitions: u64,
    /// Claims that could not be renewed, whatever the reason.
    pub failed_renewals: u64,
    /// Partitions that are this relay's at the moment.
    pub owned_partitions: u64,
    /// Batches under way at the moment.
    pub batches_in_flight: u64,
    /// Message bytes held at the moment.
    pub held_bytes: u64,
    /// Partitions that are open at the moment.
    pub open_partitions: u64,
    /// When the first send was accepted.
    pub first_forwarded_at: Option<Instant>,
    /// When the last one was.
    pub last_forwarded_at: Option<Instant>,
    /// Microseconds that a batch waited for its turn after it was received.
    pub queue_us: Histogram<u64>,
    /// Microseconds from taking a batch up to the acceptance of its last event.
    pub process_us: Histogram<u64>,
    /// Microseconds from the first send of a batch to its last outcome.
    pub send_us: Histogram<u64>,
    /// Microseconds that writing a checkpoint took.
    pub checkpoint_us: Histogram<u64>,
    /// Events per batch received.
    pub batch_events: Histogram<u64>,
}

/// Asks a relay for its metrics, from any thread.
#[derive(Clone, Debug)]
pub struct MetricsHandle {
    requests: mpsc::Sender<oneshot::Sender<Metrics>>,
}

/// The relay's end of its handles.
#[derive(Debug)]
pub(crate) struct MetricsRequests {
    pub(crate) receiver: mpsc::Receiver<oneshot::Sender<Metrics>>,
    /// Kept for making handles, so the receiver never ends.
    sender: mpsc::Sender<oneshot::Sender<Metrics>>,
}

impl Metrics {
    pub(crate) fn new() -> Self {
        Self {
            received_events: 0,
            received_batches: 0,
            received_bytes: 0,
            forwarded_events: 0,
            forwarded_bytes: 0,
            completed_batches: 0,
            completed_events: 0,
            doubtful_events: 0,
            sends: 0,
            retries: 0,
            throttled_sends: 0,
            timed_out_sends: 0,
            late_outcomes: 0,
            split_sends: 0,
            busy_sink: 0,
            injected_failures: 0,
            failed_batches: 0,
            closed_partitions: 0,
            opened_partitions: 0,
            checkpoints: 0,
            failed_checkpoints: 0,
            refused_checkpoints: 0,
            ownership_cycles: 0,
            claimed_partitions: 0,
            stolen_partitions: 0,
            lost_partitions: 0,
            returned_partitions: 0,
            failed_renewals: 0,
            owned_partitions: 0,
            batches_in_flight: 0,
            held_bytes: 0,
            open_partitions: 0,
            first_forwarded_at: None,
            last_forwarded_at: None,
            queue_us: histogram(),
            process_us: histogram(),
            send_us: histogram(),
            checkpoint_us: histogram(),
            batch_events: histogram(),
        }
    }

    /// The metrics as another process reads them.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        Snapshot::of(self)
    }
}

impl MetricsHandle {
    /// The metrics as they are now, or `None` if the relay has ended.
    pub async fn metrics(&self) -> Option<Metrics> {
        let (answer, answered) = oneshot::channel();
        self.requests.send(answer).await.ok()?;
        answered.await.ok()
    }
}

impl MetricsRequests {
    pub(crate) fn new() -> Self {
        let (sender, receiver) = mpsc::channel(REQUESTS_MAX);
        Self { receiver, sender }
    }

    pub(crate) fn handle(&self) -> MetricsHandle {
        MetricsHandle {
            requests: self.sender.clone(),
        }
    }
}

/// Records a duration, rounded to microseconds. The histogram grows to whatever is recorded.
pub(crate) fn record_duration(histogram: &mut Histogram<u64>, duration: Duration) {
    let rounded = (duration + Duration::from_nanos(500)).as_micros();
    record_count(histogram, u64::try_from(rounded).unwrap_or(u64::MAX));
}

/// Records a number of something.
pub(crate) fn record_count(histogram: &mut Histogram<u64>, count: u64) {
    // Not `saturating_record`, which clamps to the present range instead of growing it.
    histogram
        .record(count)
        .expect("a histogram that may grow takes every value");
}

/// Three significant digits; grows as needed, so nothing is clamped.
fn histogram() -> Histogram<u64> {
    Histogram::new(3).expect("three digits are within what a histogram can keep")
}

/// How many readers may wait at once for their answer.
const REQUESTS_MAX: usize = 16;
