//! What a relay counts and times.
//!
//! [`Metrics`] is a plain struct that its relay owns. A batch costs a few additions and six histogram records, a
//! send two and its share of one more, a sleep of the loop one addition. An event costs nothing, but for a comparison in a
//! batch whose events have several dates, each of which is a record of its own. Who wants to know asks through a
//! [`MetricsHandle`] and gets a copy, or text for Prometheus (`table` says what it is called there).
//!
//! Whatever has several causes is counted by cause: `opened_*` add up to all openings of partitions, `closed_*` to all
//! ends of them, so that the difference is what is open; `waited_for_*` add up to the time in which the loop slept.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use connect::event::{EnqueuedTime, Event};
use hdrhistogram::Histogram;
use tokio::sync::{mpsc, oneshot};

pub mod endpoint;
mod health;
pub mod prometheus;
mod table;

pub use table::Metrics;

use crate::health::LogEnds;
use crate::ownership::{ClaimKind, OwnershipOptions};

/// Why a partition is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Opening {
    Start,
    Rest,
    Claim,
}

/// Why a partition that took batches takes none any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Closing {
    Batch,
    Checkpoint,
    Service,
    Loss,
    Fence,
    Stop,
}

/// How a partition was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Loss {
    /// Another relay has it.
    Taken,
    /// Its claim was not renewed in time.
    Expired,
}

/// What the loop sleeps for. Other tasks of the process, such as those of its connections, may work meanwhile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wait {
    Source,
    Sends,
    Destination,
    Memory,
    Partitions,
}

/// Asks a relay for its metrics, from any thread.
#[derive(Clone, Debug)]
pub struct MetricsHandle {
    requests: mpsc::Sender<oneshot::Sender<Metrics>>,
    ends: LogEnds,
}

/// The relay's end of its handles.
#[derive(Debug)]
pub(crate) struct MetricsRequests {
    pub(crate) receiver: mpsc::Receiver<oneshot::Sender<Metrics>>,
    /// Kept for making handles, so the receiver never ends.
    sender: mpsc::Sender<oneshot::Sender<Metrics>>,
    pub(crate) ends: LogEnds,
}

impl Metrics {
    /// None yet, of a relay with so many sinks that shares its partitions in this way, if at all.
    pub(crate) fn of(ownership: Option<&OwnershipOptions>, sinks: usize) -> Self {
        let microseconds = |interval: fn(&OwnershipOptions) -> Duration| {
            ownership.map_or(0, |options| u64::try_from(interval(options).as_micros()).unwrap_or(u64::MAX))
        };
        Self {
            ownership_renew_us: microseconds(|options| options.renew),
            ownership_expire_us: microseconds(|options| options.expire),
            // One sink is all that [`Metrics::send_us`] is about.
            filtered_events: vec![0; sinks],
            sink_send_us: (0..sinks).filter(|_| sinks > 1).map(|_| durations()).collect(),
            ..Self::new()
        }
    }

    /// How many partitions take batches, those whose checkpoint is still being fenced included.
    #[must_use]
    pub fn taking_partitions(&self) -> u64 {
        let closed = self.closed_after_batch
            + self.closed_after_checkpoint
            + self.closed_by_service
            + self.closed_after_loss
            + self.closed_by_fence
            + self.closed_at_stop;
        self.opened_partitions - closed
    }

    pub(crate) fn count_opening(&mut self, opening: Opening) {
        self.opened_partitions += 1;
        *match opening {
            Opening::Start => &mut self.opened_at_start,
            Opening::Rest => &mut self.opened_after_rest,
            Opening::Claim => &mut self.opened_after_claim,
        } += 1;
    }

    pub(crate) fn count_closing(&mut self, closing: Closing) {
        *match closing {
            Closing::Batch => &mut self.closed_after_batch,
            Closing::Checkpoint => &mut self.closed_after_checkpoint,
            Closing::Service => &mut self.closed_by_service,
            Closing::Loss => &mut self.closed_after_loss,
            Closing::Fence => &mut self.closed_by_fence,
            Closing::Stop => &mut self.closed_at_stop,
        } += 1;
    }

    pub(crate) fn count_claim(&mut self, kind: &ClaimKind) {
        self.claimed_partitions += 1;
        *match kind {
            ClaimKind::Free => &mut self.claimed_free_partitions,
            ClaimKind::Expired => &mut self.claimed_expired_partitions,
            ClaimKind::Own => &mut self.claimed_own_partitions,
            ClaimKind::Assigned => &mut self.claimed_assigned_partitions,
            ClaimKind::Stolen(_) => &mut self.stolen_partitions,
        } += 1;
    }

    pub(crate) fn count_loss(&mut self, loss: Loss) {
        self.lost_partitions += 1;
        *match loss {
            Loss::Taken => &mut self.taken_partitions,
            Loss::Expired => &mut self.expired_partitions,
        } += 1;
    }

    pub(crate) fn count_wait(&mut self, wait: Wait, slept: Duration) {
        *match wait {
            Wait::Source => &mut self.waited_for_source_ns,
            Wait::Sends => &mut self.waited_for_sends_ns,
            Wait::Destination => &mut self.waited_for_destination_ns,
            Wait::Memory => &mut self.waited_for_memory_ns,
            Wait::Partitions => &mut self.waited_for_partitions_ns,
            // No process runs for the 584 years that this can count.
        } += slept.as_nanos() as u64;
    }

    /// A batch of `events` came at `now`: records how long ago the service had appended each of them. A date that the
    /// service did not give, or that lies ahead of our clock, tells nothing; such events are counted.
    pub(crate) fn record_source_ages(&mut self, events: &[Event], now: SystemTime) {
        let [Some(first), Some(last)] = [events.first(), events.last()] else {
            return;
        };
        // Dates do not go back within a log: where both ends have the same, nothing between needs a look.
        if first.enqueued_time == last.enqueued_time {
            self.record_source_age(first.enqueued_time, now, events.len() as u64);
            return;
        }
        for together in events.chunk_by(|one, next| one.enqueued_time == next.enqueued_time) {
            self.record_source_age(together[0].enqueued_time, now, together.len() as u64);
        }
    }

    fn record_source_age(&mut self, appended: EnqueuedTime, now: SystemTime, events: u64) {
        let since_epoch = u64::try_from(appended.unix_ms()).ok();
        let appended = since_epoch
            .filter(|milliseconds| *milliseconds > 0)
            .and_then(|milliseconds| UNIX_EPOCH.checked_add(Duration::from_millis(milliseconds)));
        match appended.and_then(|appended| now.duration_since(appended).ok()) {
            Some(age) => record_durations(&mut self.source_age_us, age, events),
            None => self.undated_events += events,
        }
    }
}

impl MetricsHandle {
    /// The metrics as they are now, or `None` if the relay has ended.
    pub async fn metrics(&self) -> Option<Metrics> {
        let (answer, answered) = oneshot::channel();
        self.requests.send(answer).await.ok()?;
        let mut metrics = answered.await.ok()?;
        let progress = metrics.health.partitions.iter();
        let now = SystemTime::now();
        metrics.health.lags = progress
            .filter_map(|progress| Some((progress.partition, self.ends.lag(progress, now)?)))
            .collect();
        Some(metrics)
    }

    /// Whether there is nobody any more who could answer.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.requests.is_closed()
    }

    /// What is known of the ends of the partitions, which somebody else finds out.
    #[must_use]
    pub fn log_ends(&self) -> LogEnds {
        self.ends.clone()
    }
}

impl MetricsRequests {
    pub(crate) fn new() -> Self {
        let (sender, receiver) = mpsc::channel(REQUESTS_MAX);
        Self { receiver, sender, ends: LogEnds::default() }
    }

    pub(crate) fn handle(&self) -> MetricsHandle {
        MetricsHandle { requests: self.sender.clone(), ends: self.ends.clone() }
    }
}

/// Records a duration, rounded to microseconds. The histogram grows to whatever is recorded.
pub(crate) fn record_duration(histogram: &mut Histogram<u64>, duration: Duration) {
    record_count(histogram, rounded_us(duration));
}

/// Records a duration that `count` of something have in common.
pub(crate) fn record_durations(histogram: &mut Histogram<u64>, duration: Duration, count: u64) {
    histogram.record_n(rounded_us(duration), count).expect("a histogram that may grow takes every value");
}

fn rounded_us(duration: Duration) -> u64 {
    let rounded = (duration + Duration::from_nanos(500)).as_micros();
    u64::try_from(rounded).unwrap_or(u64::MAX)
}

/// Records a number of something.
pub(crate) fn record_count(histogram: &mut Histogram<u64>, count: u64) {
    record_counts(histogram, count, 1);
}

/// Records a number of something, for each of `times`.
pub(crate) fn record_counts(histogram: &mut Histogram<u64>, count: u64, times: u64) {
    // Not `saturating_record`, which clamps to the present range instead of growing it.
    histogram.record_n(count, times).expect("a histogram that may grow takes every value");
}

/// Three significant digits; grows as needed, so nothing is clamped.
fn durations() -> Histogram<u64> {
    Histogram::new(3).expect("three digits are within what a histogram can keep")
}

/// Two significant digits: exact up to 255, within 1 % above, and an eighth of the memory that every copy takes. For
/// sizes, and for times that few are recorded of.
fn sizes() -> Histogram<u64> {
    Histogram::new(2).expect("two digits are within what a histogram can keep")
}

/// How many readers may wait at once for their answer.
const REQUESTS_MAX: usize = 16;
