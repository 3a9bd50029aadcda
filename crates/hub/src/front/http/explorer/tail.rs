//! The events of a hub as they come.
//!
//! Ten times a second a tail looks at what is new, at so many events and for so long at most. Where more has come, it goes on with
//! the newest and counts what it has passed over, so that a person always sees the present, and how much of it. It reads with
//! cursors of its own, beside senders and receivers.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use partition_log::{Edge, PartitionLog, Start};
use serde::Serialize;
use serde_json::{Value as Json, json};
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::ExplorerFront;
use super::filter::Filter;
use super::live;
use super::message::Message;
use super::query::Query;
use super::reply::{self, Refusal, Reply};
use crate::front::event_reader::{EventReader, Next};
use crate::namespace::{Hub, Partition};

/// Someone who looks at a hub.
struct Tail {
    hub: Arc<Hub>,
    filter: Filter,
    readings: Vec<Reading>,
    counts: Counts,
}

/// A partition that is looked at.
struct Reading {
    partition: Arc<Partition>,
    reader: EventReader,
    /// Up to here everything is looked at: what was there when it began, as far as it was asked for.
    history_end: u64,
}

/// What became of the events since the tail began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
struct Counts {
    /// Those that the filter was asked about.
    examined: u64,
    /// Those of them that are shown.
    shown: u64,
    /// Those that were passed over, since more came than can be looked at.
    sampled_out: u64,
    /// Those that retention had removed before they were looked at.
    missed: u64,
}

/// What was found at one time.
#[derive(Debug, Serialize)]
struct Found {
    events: Vec<Json>,
    #[serde(flatten)]
    counts: Counts,
    /// What can't be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    failure: Option<String>,
}

/// How much may be looked at yet.
struct Budget {
    rows: usize,
    events: usize,
    until: Instant,
}

impl ExplorerFront {
    /// Follows a hub.
    ///
    /// # Errors
    /// There is no such hub. The stream says what is wrong with a filter.
    pub(super) fn tail(&self, query: &Query<'_>) -> Result<Reply, Refusal> {
        let hub = self.named_hub(query)?;
        let filter = query.text("filter")?.unwrap_or_default();
        let last = query.number::<u64>("last")?.unwrap_or(0).min(HISTORY_MAX);
        let (events, reply) = reply::events();
        match Filter::parse(&filter).and_then(|filter| Tail::new(hub, filter, last)) {
            Ok(mut tail) => live::run(self.stop.clone(), async move { tail.follow(&events).await }),
            // A page is not shown the status of a stream, nor its content unless it is one.
            Err(refusal) => {
                let _ = events.try_send(reply::event("ended", &json!({"error": refusal.message()})));
            }
        }
        Ok(reply)
    }
}

impl Tail {
    /// Looks at the partitions that the filter names: at the last events that are there, so many of all of them together, and at
    /// what follows.
    fn new(hub: Arc<Hub>, filter: Filter, last: u64) -> Result<Self, Refusal> {
        let partitions = hub.latest().partitions().iter();
        let partitions: Vec<_> = partitions.filter(|it| filter.has_partition(it.id())).cloned().collect();
        match partitions.len() {
            0 => return Err(Refusal::bad("the filter names no partition of this hub")),
            1..=PARTITIONS_MAX => {}
            count => {
                let text = format!(
                    "{count} partitions are too many; name up to {PARTITIONS_MAX}, such as partition:0"
                );
                return Err(Refusal::bad(text));
            }
        }
        let kept: Vec<u64> = partitions.iter().map(|partition| kept(partition.log())).collect();
        let each = even_share(&kept, last);
        let readings = partitions.into_iter().map(|partition| Reading::new(partition, each)).collect();
        Ok(Self { hub, filter, readings, counts: Counts::default() })
    }

    async fn follow(&mut self, events: &mpsc::Sender<Bytes>) {
        let mut sent = Instant::now();
        let mut before = None;
        loop {
            // A slow client is served when there is room again, so that nothing piles up.
            let Ok(room) = events.reserve().await else {
                return;
            };
            if self.hub.is_deleted() {
                room.send(reply::event("ended", &json!({"error": "the hub was deleted"})));
                return;
            }
            let found = self.look();
            let is_news = before != Some(self.counts) || found.failure.is_some();
            if is_news || sent.elapsed() >= SILENCE {
                sent = Instant::now();
                before = Some(self.counts);
                room.send(reply::event("events", &found));
            } else {
                drop(room);
            }
            if !live::pause(events, PERIOD).await {
                return;
            }
        }
    }

    fn look(&mut self) -> Found {
        let mut found = Found { events: Vec::new(), counts: self.counts, failure: None };
        let events = if self.filter.is_empty() { ROWS_MAX } else { EXAMINED_MAX };
        let mut budget = Budget { rows: ROWS_MAX, events, until: Instant::now() + TIME };
        let busy = self.readings.iter().filter(|reading| reading.behind() > 0).count();
        let share = (events / busy.max(1)).max(1) as u64;
        for reading in &mut self.readings {
            self.counts.sampled_out += reading.pass_over(share);
        }
        // Each round begins with another partition, since the first ones may use up the time.
        if !self.readings.is_empty() {
            self.readings.rotate_left(1);
        }
        for reading in &mut self.readings {
            if let Err(failure) =
                reading.look(&self.filter, share, &mut budget, &mut self.counts, &mut found.events)
            {
                found.failure = Some(failure);
            }
        }
        found.counts = self.counts;
        found
    }
}

impl Reading {
    fn new(partition: Arc<Partition>, last: u64) -> Self {
        let end = partition.log().end().stable_sequence_number;
        let reader = reader_at(partition.log(), end.saturating_sub(last));
        Self { partition, reader, history_end: end }
    }

    /// How many events follow.
    fn behind(&self) -> u64 {
        let end = self.partition.log().end().stable_sequence_number;
        end.saturating_sub(self.reader.cursor().next_sequence_number())
    }

    /// Goes on with the last `share` events if there are more, and says how many are left out.
    fn pass_over(&mut self, share: u64) -> u64 {
        let next = self.reader.cursor().next_sequence_number();
        let passed = self.behind().saturating_sub(share);
        if passed == 0 || next < self.history_end {
            return 0;
        }
        self.reader = reader_at(self.partition.log(), next + passed);
        passed
    }

    /// Looks at up to `share` events.
    fn look(
        &mut self,
        filter: &Filter,
        share: u64,
        budget: &mut Budget,
        counts: &mut Counts,
        rows: &mut Vec<Json>,
    ) -> Result<(), String> {
        let mut left = share;
        while left > 0 && budget.is_left() {
            let chunk = match self.reader.next(READ_BYTES)? {
                Next::Chunk(chunk) => chunk,
                // What holds no events, such as an aborted transaction, is passed at the pace of the looks.
                Next::Nothing | Next::Later => return Ok(()),
            };
            counts.missed += chunk.skipped();
            let mut records = chunk.records();
            while left > 0 && budget.is_left() {
                let Some(record) = records.next() else { break };
                left -= 1;
                budget.events -= 1;
                counts.examined += 1;
                let message = Message {
                    sections: record.sections,
                    annotations: record.annotations,
                    annotation_count: record.annotation_count,
                };
                if !filter.admits(&message) {
                    continue;
                }
                budget.rows -= 1;
                counts.shown += 1;
                let mut row = message.row();
                row.insert("partition".to_owned(), self.partition.id().into());
                row.insert("sequence_number".to_owned(), record.sequence_number.into());
                row.insert("enqueued_ms".to_owned(), record.append_time.milliseconds().into());
                rows.push(row.into());
            }
            self.reader.go_on_at(records.cursor());
        }
        Ok(())
    }
}

impl Budget {
    fn is_left(&self) -> bool {
        self.rows > 0 && self.events > 0 && (!self.events.is_multiple_of(32) || Instant::now() < self.until)
    }
}

/// A reader before this event, or before the oldest that is kept.
fn reader_at(log: &Arc<PartitionLog>, next: u64) -> EventReader {
    let cursor = log.position_committed(Start::SequenceNumber(next, Edge::Inclusive));
    let cursor = cursor.or_else(|_| log.position_committed(Start::Latest(Edge::Exclusive)));
    EventReader::new(Arc::clone(log), cursor.expect("every log has an end"))
}

/// How many events a partition has.
fn kept(log: &PartitionLog) -> u64 {
    let (begin, end) = log.extent();
    end.stable_sequence_number.saturating_sub(begin)
}

/// How many of its last events each partition gives so that they are `wanted` together: what one has not, others give.
fn even_share(kept: &[u64], wanted: u64) -> u64 {
    let mut kept = kept.to_vec();
    kept.sort_unstable();
    let mut wanted = wanted;
    for (place, &few) in kept.iter().enumerate() {
        let share = wanted.div_ceil((kept.len() - place) as u64);
        if few >= share {
            return share;
        }
        wanted -= few;
    }
    kept.last().copied().unwrap_or(0)
}

/// How often a tail looks.
const PERIOD: Duration = Duration::from_millis(100);

/// How long one look may take: a hundredth of a core.
const TIME: Duration = Duration::from_millis(1);

/// Rows of one look: more than a screen has.
const ROWS_MAX: usize = 200;

/// Events that a filter is asked about in one look.
const EXAMINED_MAX: usize = 4_096;

/// Log bytes that are looked at per read.
const READ_BYTES: usize = 64 * 1024;

/// Events from before that are looked at.
const HISTORY_MAX: u64 = 10_000;

/// Partitions that are looked at together.
const PARTITIONS_MAX: usize = 256;

/// How long nothing is said: without a word from time to time, a client that is gone would not be noticed.
const SILENCE: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_one_partition_has_not_the_others_give() {
        for (kept, wanted, each) in [
            (&[][..], 10, 0),
            (&[0, 0], 10, 0),
            (&[5, 5], 100, 5),
            (&[100, 100], 100, 50),
            (&[10, 100, 50], 100, 45),
            (&[3, 1, 2], 4, 2),
            (&[7], 0, 0),
        ] {
            assert_eq!(even_share(kept, wanted), each, "{kept:?}");
        }
    }
}
