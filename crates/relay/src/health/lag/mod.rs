//! How far the partitions of a log reach, asked for at an interval.
//!
//! A hub can also send its end with every event, as annotations of about 130 bytes, which is more than a short event has
//! itself, and so can a topic with every answer that has records. Asking costs a request of 0.5 KiB per partition of a hub, or three
//! requests per broker of a topic, and interval, whatever the traffic is, and it tells of partitions from which nothing comes. It has
//! a connection of its own, so that it can't hold up the events.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use connect::event::{EnqueuedTime, PartitionId};
use connect::service::ServiceError;
use tokio::time::Instant;

use super::{PartitionProgress, Position};
use crate::metrics::MetricsHandle;

mod hub;
mod topic;

pub use hub::HubEnds;
pub use topic::TopicEnds;

/// What can be asked how far the partitions of a log reach.
pub trait AskEnds: Send {
    /// Asks how far these reach, and notes what it hears.
    ///
    /// # Errors
    /// It can't be found out. What was heard before that is noted.
    fn ask(
        &mut self,
        partitions: &[PartitionId],
        ends: &LogEnds,
    ) -> impl Future<Output = Result<(), ServiceError>> + Send;
}

/// What is known of the ends of partitions; clones share it.
#[derive(Clone, Debug, Default)]
pub struct LogEnds {
    ends: Arc<Mutex<BTreeMap<PartitionId, Observed>>>,
}

/// The end of a partition when it was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogEnd {
    /// The sequence number of the oldest event that is retained.
    pub begin_sequence_number: i64,
    /// The sequence number of the newest event.
    pub last_sequence_number: i64,
    /// When that was appended, if it is known.
    pub last_enqueued: Option<EnqueuedTime>,
}

/// How far a partition's progress is behind its end.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Lag {
    /// The sequence number of the newest event.
    pub last_sequence_number: i64,
    /// Events that are not done yet; none where the position is not known.
    pub events: Option<u64>,
    /// How long ago the oldest of them was appended, as far as that is known: at least so long.
    pub age: Option<Duration>,
}

#[derive(Debug)]
struct Observed {
    /// Oldest first, each with the time at which it was noted first. Those that the progress has passed are dropped.
    ends: VecDeque<(LogEnd, Instant)>,
    at: Instant,
}

impl LogEnds {
    /// Notes the end of a partition.
    pub fn note(&self, partition: PartitionId, end: LogEnd) {
        let mut all = self.lock();
        let now = Instant::now();
        let observed = all.entry(partition).or_insert_with(|| Observed { ends: VecDeque::new(), at: now });
        observed.at = now;
        match observed.ends.back_mut() {
            Some((last, _)) if last.last_sequence_number == end.last_sequence_number => *last = end,
            // A hub that was made anew counts from the beginning.
            Some((last, _)) if last.last_sequence_number > end.last_sequence_number => {
                observed.ends.clear();
                observed.ends.push_back((end, now));
            }
            _ => {
                if observed.ends.len() >= ENDS_MAX {
                    // The oldest tells the age of what is not done, the newest the end.
                    observed.ends.truncate(ENDS_MAX - 1);
                }
                observed.ends.push_back((end, now));
            }
        }
    }

    /// Returns the time since when a partition is known to have events behind this position; `None` if it is not.
    pub(crate) fn behind_since(&self, partition: PartitionId, position: Position) -> Option<Instant> {
        let all = self.lock();
        let observed = all.get(&partition)?;
        let (newest, _) = observed.ends.back()?;
        let done = newest.done(position)?.max(newest.begin_sequence_number.saturating_sub(1));
        let is_behind = |(end, _): &&(LogEnd, Instant)| end.last_sequence_number > done;
        observed.ends.iter().find(is_behind).map(|(_, noted)| *noted)
    }

    /// How far a partition is behind; none if nothing is known of its end, or has not been for long.
    #[must_use]
    pub fn lag(&self, progress: &PartitionProgress, now: SystemTime) -> Option<Lag> {
        let mut all = self.lock();
        let observed = all.get_mut(&progress.partition)?;
        if observed.at.elapsed() > STALE_AFTER {
            return None;
        }
        let (newest, _) = *observed.ends.back()?;
        let done = newest.done(progress.position);
        if let Some(done) = done {
            while observed.ends.len() > 1 && observed.ends[0].0.last_sequence_number <= done {
                observed.ends.pop_front();
            }
        }
        // What was asked for a while ago may be less than what is done by now.
        let events = done.map(|done| {
            let behind = newest.last_sequence_number.saturating_sub(done);
            u64::try_from(behind).unwrap_or(0)
        });
        let age = events.and_then(|events| match events {
            0 => Some(Duration::ZERO),
            _ => {
                let waiting = observed.ends[0].0.last_enqueued;
                let oldest = progress.oldest_held.into_iter().chain(waiting).min();
                oldest.map(|oldest| age(oldest, now))
            }
        });
        Some(Lag { last_sequence_number: newest.last_sequence_number, events, age })
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<PartitionId, Observed>> {
        self.ends.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl LogEnd {
    /// Returns the sequence number up to which everything is done; `None` if the position is not known.
    const fn done(&self, position: Position) -> Option<i64> {
        match position {
            Position::Unknown => None,
            Position::Beginning => Some(self.begin_sequence_number.saturating_sub(1)),
            Position::After(number) => Some(number),
        }
    }
}

/// Asks for the ends of the relay's partitions at an interval, until the relay has ended. What it can't find out is absent
/// from the metrics, and the log says once why.
pub async fn watch(mut asker: impl AskEnds, handle: MetricsHandle) {
    let ends = handle.log_ends();
    let mut is_told = false;
    while let Some(metrics) = handle.metrics().await {
        let partitions = metrics.health.partitions.iter();
        let partitions: Vec<_> = partitions.map(|progress| progress.partition).collect();
        let asked = match partitions.is_empty() {
            true => Ok(()),
            false => asker.ask(&partitions, &ends).await,
        };
        match asked {
            Ok(()) if is_told => {
                is_told = false;
                tracing::info!("the lag of partitions is known again");
            }
            Ok(()) => {}
            Err(error) => {
                if !std::mem::replace(&mut is_told, true) {
                    tracing::warn!(%error, "the lag of partitions is unknown");
                }
            }
        }
        tokio::time::sleep(INTERVAL).await;
    }
}

fn age(appended: EnqueuedTime, now: SystemTime) -> Duration {
    let milliseconds = u64::try_from(appended.unix_ms()).unwrap_or(0);
    let appended = UNIX_EPOCH + Duration::from_millis(milliseconds);
    now.duration_since(appended).unwrap_or_default()
}

/// From one round to the next.
const INTERVAL: Duration = Duration::from_secs(10);

/// What was found out so long ago says nothing any more.
const STALE_AFTER: Duration = Duration::from_secs(60);

/// Ends that are remembered of a partition that makes no progress.
const ENDS_MAX: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    fn end(last: i64, enqueued_s: i64) -> LogEnd {
        LogEnd {
            begin_sequence_number: 10,
            last_sequence_number: last,
            last_enqueued: Some(EnqueuedTime::from_unix_ms(enqueued_s * 1_000)),
        }
    }

    fn lag(ends: &LogEnds, position: Position, held_s: Option<i64>) -> (Option<u64>, Option<u64>) {
        let progress = PartitionProgress {
            partition: PartitionId(0),
            position,
            oldest_held: held_s.map(|held| EnqueuedTime::from_unix_ms(held * 1_000)),
            moved: None,
        };
        let now = UNIX_EPOCH + Duration::from_secs(1_000);
        let lag = ends.lag(&progress, now).expect("an end was noted");
        (lag.events, lag.age.map(|age| age.as_secs()))
    }

    #[test]
    fn the_lag_counts_from_the_position_and_its_age_from_the_oldest_event_known() {
        let ends = LogEnds::default();
        let partition = PartitionId(0);
        ends.note(partition, end(100, 900));
        assert_eq!(lag(&ends, Position::After(100), None), (Some(0), Some(0)));
        assert_eq!(
            lag(&ends, Position::After(130), None),
            (Some(0), Some(0)),
            "the end is an older reading than the position"
        );
        ends.note(partition, end(140, 950));
        ends.note(partition, end(180, 990));
        assert_eq!(lag(&ends, Position::After(120), None), (Some(60), Some(50)));
        assert_eq!(lag(&ends, Position::After(120), Some(940)), (Some(60), Some(60)));
        assert_eq!(lag(&ends, Position::After(150), None), (Some(30), Some(10)));
    }

    #[tokio::test(start_paused = true)]
    async fn partition_is_behind_since_an_end_beyond_its_position_was_noted() {
        let (ends, partition) = (LogEnds::default(), PartitionId(0));
        let behind = |position| ends.behind_since(partition, position).map(|since| since.elapsed().as_secs());
        assert_eq!(behind(Position::Beginning), None);
        for last in [100, 140, 140, 180] {
            ends.note(partition, end(last, 900));
            tokio::time::advance(Duration::from_secs(10)).await;
        }
        assert_eq!(behind(Position::After(90)), Some(40));
        assert_eq!(behind(Position::Beginning), Some(40));
        assert_eq!((behind(Position::After(100)), behind(Position::After(150))), (Some(30), Some(10)));
        assert_eq!((behind(Position::After(180)), behind(Position::Unknown)), (None, None));
        let begin_sequence_number = 181;
        ends.note(partition, LogEnd { begin_sequence_number, ..end(180, 900) });
        assert_eq!(behind(Position::After(90)), None, "retention has removed all of it");
    }

    #[test]
    fn where_nobody_says_when_the_end_was_appended_the_age_is_that_of_what_is_held() {
        let ends = LogEnds::default();
        ends.note(PartitionId(0), LogEnd { last_enqueued: None, ..end(100, 0) });
        assert_eq!(lag(&ends, Position::After(90), None), (Some(10), None));
        assert_eq!(lag(&ends, Position::After(90), Some(970)), (Some(10), Some(30)));
        assert_eq!(lag(&ends, Position::After(100), None), (Some(0), Some(0)));
    }

    #[test]
    fn the_lag_of_a_partition_that_has_not_begun_is_everything_or_unknown() {
        let ends = LogEnds::default();
        ends.note(PartitionId(0), end(100, 900));
        assert_eq!(lag(&ends, Position::Beginning, None), (Some(91), Some(100)));
        assert_eq!(lag(&ends, Position::Unknown, None), (None, None));
    }

    #[test]
    fn a_hub_that_was_made_anew_counts_anew_and_a_long_standstill_keeps_its_first_end() {
        let ends = LogEnds::default();
        let partition = PartitionId(0);
        for second in 0..500 {
            ends.note(partition, end(100 + second, 400 + second));
        }
        assert_eq!(lag(&ends, Position::After(99), None), (Some(500), Some(600)));
        ends.note(partition, end(3, 999));
        assert_eq!(lag(&ends, Position::After(2), None), (Some(1), Some(1)));
    }
}
