//! What a relay counts and times.
//!
//! [`Metrics`] is a plain struct that its relay owns. A batch costs a few additions and six histogram records, a
//! send two and its share of one more, a sleep of the loop one addition. An event costs nothing, but for a comparison in a
//! batch whose events have several dates, each of which is a record of its own. Who wants to know asks through a
//! [`MetricsHandle`] and gets a copy, or text for Prometheus (see [`names`] for what it is called there).
//!
//! Whatever has several causes is counted by cause: `opened_*` add up to all openings of partitions, `closed_*` to all
//! ends of them, so that the difference is what is open; `waited_for_*` add up to the time in which the loop slept.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use connect::event::{EnqueuedTime, Event};
use hdrhistogram::Histogram;
use tokio::sync::{mpsc, oneshot};

pub mod endpoint;
mod health;
pub mod names;
pub mod prometheus;

use crate::health::{Health, LogEnds};
use crate::ownership::{ClaimKind, OwnershipOptions};

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
    /// Events that the watermarks have passed, where one that is received again counts once; of a source that settles,
    /// [`confirmed_events`](Self::confirmed_events).
    pub completed_events: u64,
    /// Events that the source no longer had when they were to be read: retention took them.
    pub missed_events: u64,
    /// Events that a destination refused for good; one that is refused again counts once.
    pub poison_events: u64,
    /// Partitions whose events the source has begun to number again, each time.
    pub restarted_partitions: u64,
    /// Events that the service said it had delivered before.
    pub redelivered_events: u64,
    /// Messages of which the service has confirmed that they are completed.
    pub confirmed_events: u64,
    /// Messages of which the service has confirmed that they are abandoned: it delivers them again.
    pub abandoned_events: u64,
    /// Messages that were given back as if they had not been delivered, and the service has confirmed it.
    pub released_events: u64,
    /// Messages that are in the dead-letter queue now: they could not be read, or the service said so. Events that were put
    /// into the file of dead letters.
    pub dead_lettered_events: u64,
    /// Messages whose lock had expired when they were settled: they come again.
    pub lock_lost_events: u64,
    /// Messages whose settlement broke off or was refused: they may come again.
    pub unsettled_events: u64,
    /// Locks of messages that were renewed.
    pub lock_renewals: u64,
    /// Locks of messages that could not be renewed.
    pub failed_lock_renewals: u64,
    /// Events of sends that may have been accepted without our being told: those that timed out, broke off, or were
    /// under way when their batch was abandoned.
    pub doubtful_events: u64,
    /// Sends that were handed to the sink, retries included.
    pub sends: u64,
    /// Sends that were handed to the sink again.
    pub retries: u64,
    /// Sends that ended with an error: throttled, timed out, broken off or refused.
    pub failed_sends: u64,
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
    /// Batches that failed: their partition stopped, or some of their messages were abandoned.
    pub failed_batches: u64,
    /// Partitions that were closed by the service.
    pub closed_partitions: u64,
    /// Those of them that were closed because a quota was used up.
    pub throttled_partitions: u64,
    /// Partitions that were opened, for every reason.
    pub opened_partitions: u64,
    /// Partitions that were opened when the relay began.
    pub opened_at_start: u64,
    /// Partitions that were opened again after a rest.
    pub opened_after_rest: u64,
    /// Partitions that were opened because they had been claimed.
    pub opened_after_claim: u64,
    /// Partitions that were stopped because a batch had failed.
    pub closed_after_batch: u64,
    /// Partitions that were stopped because their checkpoint could not be written.
    pub closed_after_checkpoint: u64,
    /// Partitions that were stopped because the service had closed them.
    pub closed_by_service: u64,
    /// Partitions that were stopped because they were lost.
    pub closed_after_loss: u64,
    /// Partitions that were opened too early: their last owner wrote once more, so that they begin elsewhere.
    pub closed_by_fence: u64,
    /// Partitions that were closed when the relay stopped.
    pub closed_at_stop: u64,
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
    /// Partitions that were claimed because nobody owned them.
    pub claimed_free_partitions: u64,
    /// Partitions that were claimed because their owner had not renewed its claim.
    pub claimed_expired_partitions: u64,
    /// Partitions that were claimed because they bore this relay's name already.
    pub claimed_own_partitions: u64,
    /// Partitions that were taken from a relay with more than its share.
    pub stolen_partitions: u64,
    /// Partitions that were lost: to another relay, or because their claim was not renewed in time.
    pub lost_partitions: u64,
    /// Those of them that another relay has taken.
    pub taken_partitions: u64,
    /// Those of them whose claim was not renewed in time.
    pub expired_partitions: u64,
    /// Partitions that were given back.
    pub returned_partitions: u64,
    /// Claims that could not be renewed, whatever the reason.
    pub failed_renewals: u64,
    /// Events that bear no date of their append, or one that lies ahead of this machine's clock.
    pub undated_events: u64,
    /// Nanoseconds in which the loop slept because no batch had come.
    pub waited_for_source_ns: u64,
    /// Nanoseconds in which it slept because as much was under way as may be: every open partition had fetched as many
    /// events as it may hold unreleased, or as many batches.
    pub waited_for_sends_ns: u64,
    /// Nanoseconds in which it slept because the sink was busy.
    pub waited_for_destination_ns: u64,
    /// Nanoseconds in which it slept because it held as many bytes as it may.
    pub waited_for_memory_ns: u64,
    /// Nanoseconds in which it slept because no partition was open.
    pub waited_for_partitions_ns: u64,
    /// How often claims are renewed, in microseconds; zero where partitions are not shared.
    pub ownership_renew_us: u64,
    /// When a claim that is not renewed expires, in microseconds; zero where partitions are not shared.
    pub ownership_expire_us: u64,
    /// Partitions that are this relay's at the moment.
    pub owned_partitions: u64,
    /// Batches under way at the moment.
    pub batches_in_flight: u64,
    /// Message bytes held at the moment.
    pub held_bytes: u64,
    /// Partitions that are open at the moment.
    pub open_partitions: u64,
    /// Whether the relay carries events at the moment, and how far it is.
    pub health: Health,
    /// When the first send was accepted.
    pub first_forwarded_at: Option<Instant>,
    /// When the last one was.
    pub last_forwarded_at: Option<Instant>,
    /// How long ago the service had appended each event when its batch was received, in microseconds: by the service's clock,
    /// which tells milliseconds, and this machine's. That a batch waits to be full is part of it.
    pub source_age_us: Histogram<u64>,
    /// Microseconds that a batch waited for its turn after it was received.
    pub queue_us: Histogram<u64>,
    /// Microseconds from taking a batch up to the acceptance of its last event.
    pub process_us: Histogram<u64>,
    /// Microseconds from the first send of a batch to its last outcome.
    pub batch_send_us: Histogram<u64>,
    /// Microseconds from handing one send to the sink to its acceptance. A send that is tried again begins again.
    pub send_us: Histogram<u64>,
    /// Microseconds from handing one send to the sink to its failure.
    pub failed_send_us: Histogram<u64>,
    /// Microseconds that writing a checkpoint took.
    pub checkpoint_us: Histogram<u64>,
    /// Microseconds after which the writing of a checkpoint failed.
    pub failed_checkpoint_us: Histogram<u64>,
    /// Microseconds from telling the service what is to become of a message to its answer.
    pub settle_us: Histogram<u64>,
    /// Microseconds from the answer to one settlement until the next message took the place among those in work.
    pub vacant_us: Histogram<u64>,
    /// Microseconds from reading the claims of all relays to the renewal of one's own.
    pub ownership_cycle_us: Histogram<u64>,
    /// Events per batch received.
    pub batch_events: Histogram<u64>,
    /// Message bytes per batch received.
    pub batch_bytes: Histogram<u64>,
    /// Events per accepted send.
    pub send_events: Histogram<u64>,
    /// Message bytes per accepted send.
    pub send_bytes: Histogram<u64>,
}

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
    ends: LogEnds,
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
            missed_events: 0,
            poison_events: 0,
            restarted_partitions: 0,
            redelivered_events: 0,
            confirmed_events: 0,
            abandoned_events: 0,
            released_events: 0,
            dead_lettered_events: 0,
            lock_lost_events: 0,
            unsettled_events: 0,
            lock_renewals: 0,
            failed_lock_renewals: 0,
            doubtful_events: 0,
            sends: 0,
            retries: 0,
            failed_sends: 0,
            throttled_sends: 0,
            timed_out_sends: 0,
            late_outcomes: 0,
            split_sends: 0,
            busy_sink: 0,
            injected_failures: 0,
            failed_batches: 0,
            closed_partitions: 0,
            throttled_partitions: 0,
            opened_partitions: 0,
            opened_at_start: 0,
            opened_after_rest: 0,
            opened_after_claim: 0,
            closed_after_batch: 0,
            closed_after_checkpoint: 0,
            closed_by_service: 0,
            closed_after_loss: 0,
            closed_by_fence: 0,
            closed_at_stop: 0,
            checkpoints: 0,
            failed_checkpoints: 0,
            refused_checkpoints: 0,
            ownership_cycles: 0,
            claimed_partitions: 0,
            claimed_free_partitions: 0,
            claimed_expired_partitions: 0,
            claimed_own_partitions: 0,
            stolen_partitions: 0,
            lost_partitions: 0,
            taken_partitions: 0,
            expired_partitions: 0,
            returned_partitions: 0,
            failed_renewals: 0,
            undated_events: 0,
            waited_for_source_ns: 0,
            waited_for_sends_ns: 0,
            waited_for_destination_ns: 0,
            waited_for_memory_ns: 0,
            waited_for_partitions_ns: 0,
            ownership_renew_us: 0,
            ownership_expire_us: 0,
            owned_partitions: 0,
            batches_in_flight: 0,
            held_bytes: 0,
            open_partitions: 0,
            health: Health::default(),
            first_forwarded_at: None,
            last_forwarded_at: None,
            source_age_us: sizes(),
            queue_us: durations(),
            process_us: durations(),
            batch_send_us: durations(),
            send_us: durations(),
            failed_send_us: sizes(),
            checkpoint_us: durations(),
            failed_checkpoint_us: sizes(),
            settle_us: durations(),
            vacant_us: durations(),
            ownership_cycle_us: sizes(),
            batch_events: sizes(),
            batch_bytes: sizes(),
            send_events: sizes(),
            send_bytes: sizes(),
        }
    }

    /// None yet, of a relay that shares its partitions in this way, if at all.
    pub(crate) fn of(ownership: Option<&OwnershipOptions>) -> Self {
        let microseconds = |interval: fn(&OwnershipOptions) -> Duration| {
            ownership.map_or(0, |options| u64::try_from(interval(options).as_micros()).unwrap_or(u64::MAX))
        };
        Self {
            ownership_renew_us: microseconds(|options| options.renew),
            ownership_expire_us: microseconds(|options| options.expire),
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
    // Not `saturating_record`, which clamps to the present range instead of growing it.
    histogram.record(count).expect("a histogram that may grow takes every value");
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
