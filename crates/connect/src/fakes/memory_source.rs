//! A source whose partitions are vectors in memory.

use std::collections::VecDeque;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use tokio::time::{Instant, Sleep};

use crate::batch_builder::BatchBuilder;
use crate::event::{Encoding, EnqueuedTime, EventBatch, EventParts, PartitionId};
use crate::sink::ErrorClass;
use crate::source::{Source, SourceError, SourceEvent, SourceOptions, StartPosition};

/// The partitions that a [`MemorySource`] reads; clones share them. Sequence numbers count from 0, and offsets are ten
/// times the sequence number, so that nobody confuses the two unnoticed.
#[derive(Clone, Debug)]
pub struct MemoryLog {
    shared: Arc<Mutex<Shared>>,
}

/// A [`Source`] of the events in a [`MemoryLog`], with the credit and batching of a real one.
pub struct MemorySource {
    log: MemoryLog,
    options: SourceOptions,
    readers: Vec<Option<Reader>>,
    builder: BatchBuilder,
    closed: VecDeque<SourceEvent>,
    /// That of the log when it was looked at last.
    log_id: Option<String>,
    timer: Pin<Box<Sleep>>,
    /// This source among those that own what they open, if it is one of them.
    owner: Option<u64>,
}

#[derive(Debug)]
struct Shared {
    partitions: Vec<Vec<Stored>>,
    /// The oldest event of each partition that retention has left.
    begins: Vec<usize>,
    /// Every `open` of a partition, in order.
    opened: Vec<(PartitionId, StartPosition)>,
    failures: Vec<(PartitionId, SourceError)>,
    failure: Option<SourceError>,
    log_id: Option<String>,
    /// Whether readers get nothing, although they are open.
    is_silent: bool,
    /// How many sources own what they open.
    owners: u64,
    /// Which of them owns each partition.
    owner_of: Vec<Option<u64>>,
    /// The tasks that have polled and not been woken since.
    pollers: Vec<Waker>,
}

/// One event: its chunk is the partition key, the offset and the message, one after the other.
#[derive(Clone, Debug)]
struct Stored {
    chunk: Bytes,
    parts: EventParts,
}

#[derive(Debug)]
struct Reader {
    next: usize,
    /// Events in the builder or handed over, and not released.
    unreleased: usize,
}

impl MemoryLog {
    /// A log of empty partitions, numbered from 0.
    #[must_use]
    pub fn new(partitions: u32) -> Self {
        let shared = Shared {
            partitions: (0..partitions).map(|_| Vec::new()).collect(),
            begins: vec![0; partitions as usize],
            opened: Vec::new(),
            failures: Vec::new(),
            failure: None,
            log_id: None,
            is_silent: false,
            owners: 0,
            owner_of: (0..partitions).map(|_| None).collect(),
            pollers: Vec::new(),
        };
        Self { shared: Arc::new(Mutex::new(shared)) }
    }

    /// Appends an event without a partition key and returns its sequence number.
    ///
    /// # Panics
    /// When there is no such partition.
    pub fn append(&self, partition: PartitionId, message: &[u8]) -> i64 {
        self.append_with_key(partition, message, b"", EnqueuedTime::default())
    }

    /// Appends an event and returns its sequence number.
    ///
    /// # Panics
    /// When there is no such partition.
    pub fn append_with_key(
        &self,
        partition: PartitionId,
        message: &[u8],
        partition_key: &[u8],
        enqueued_time: EnqueuedTime,
    ) -> i64 {
        let mut shared = self.shared();
        let stored = &mut shared.partitions[partition.0 as usize];
        let sequence_number = i64::try_from(stored.len()).expect("fewer than 2^63 events");
        let offset = (sequence_number * 10).to_string();
        let chunk = Bytes::from([partition_key, offset.as_bytes(), message].concat());
        let end = |len: usize| u32::try_from(len).expect("a test's event is smaller than 4 GiB");
        let (key_end, offset_end) = (end(partition_key.len()), end(partition_key.len() + offset.len()));
        let parts = EventParts {
            message: offset_end..end(chunk.len()),
            partition_key: 0..key_end,
            offset: key_end..offset_end,
            sequence_number,
            enqueued_time,
        };
        stored.push(Stored { chunk, parts });
        shared.wake_pollers();
        sequence_number
    }

    /// Retention takes all events of a partition before this sequence number.
    pub fn take_before(&self, partition: PartitionId, sequence_number: usize) {
        self.shared().begins[partition.0 as usize] = sequence_number;
    }

    /// Makes a partition anew, as if its hub was deleted and created again: the next event has number 0. Readers of it are
    /// to be closed first, see [`fail_partition`](Self::fail_partition).
    pub fn recreate(&self, partition: PartitionId) {
        let mut shared = self.shared();
        shared.partitions[partition.0 as usize].clear();
        shared.begins[partition.0 as usize] = 0;
    }

    /// Sets the identity of the log, of which it has none at first. Sources close what they have open when it changes.
    pub fn identify(&self, log_id: &str) {
        let mut shared = self.shared();
        shared.log_id = Some(log_id.to_owned());
        shared.wake_pollers();
    }

    /// Lets the source report a partition as closed, if it is open.
    pub fn fail_partition(&self, partition: PartitionId, error: SourceError) {
        let mut shared = self.shared();
        shared.failures.push((partition, error));
        shared.wake_pollers();
    }

    /// Lets the source fail as a whole.
    pub fn fail(&self, error: SourceError) {
        let mut shared = self.shared();
        shared.failure = Some(error);
        shared.wake_pollers();
    }

    /// Stops or resumes giving events to readers, which stay open, as a broker does that does not answer.
    pub fn silence(&self, is_silent: bool) {
        let mut shared = self.shared();
        shared.is_silent = is_silent;
        shared.wake_pollers();
    }

    /// Every opening of a partition, in order, with the position that was asked for.
    #[must_use]
    pub fn opened(&self) -> Vec<(PartitionId, StartPosition)> {
        self.shared().opened.clone()
    }

    fn shared(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl MemorySource {
    /// A source of the events in `log`. Made within a tokio runtime with time.
    #[must_use]
    pub fn new(log: &MemoryLog, options: SourceOptions) -> Self {
        let (partitions, log_id) = {
            let shared = log.shared();
            (shared.partitions.len(), shared.log_id.clone())
        };
        let count = u32::try_from(partitions).expect("a log is made with a 32-bit count");
        Self {
            log: log.clone(),
            options,
            readers: (0..partitions).map(|_| None).collect(),
            builder: BatchBuilder::new(options.batch, count),
            closed: VecDeque::new(),
            log_id,
            timer: Box::pin(tokio::time::sleep_until(Instant::now())),
            owner: None,
        }
    }

    /// A source that takes every partition it opens from the others of this kind, as receivers with an owner level do.
    #[must_use]
    pub fn owning(log: &MemoryLog, options: SourceOptions) -> Self {
        let mut shared = log.shared();
        shared.owners += 1;
        let owner = Some(shared.owners);
        drop(shared);
        Self { owner, ..Self::new(log, options) }
    }

    /// Closes the partitions that others have taken.
    fn take_thefts(&mut self) {
        if self.owner.is_none() {
            return;
        }
        for id in (0..).take(self.readers.len()) {
            let partition = PartitionId(id);
            let owner = self.log.shared().owner_of[id as usize];
            if self.readers[id as usize].is_some() && owner != self.owner {
                self.close(partition);
                let error = SourceError {
                    class: ErrorClass::Retryable,
                    condition: "amqp:link:stolen".to_owned(),
                    description: "another source has opened the partition".to_owned(),
                };
                self.closed.push_back(SourceEvent::PartitionClosed { partition, error });
            }
        }
    }

    /// Closes everything if the log is another one by now.
    fn take_log_id(&mut self) {
        let log_id = self.log.shared().log_id.clone();
        let before = std::mem::replace(&mut self.log_id, log_id);
        if before.is_none() || before == self.log_id {
            return;
        }
        for id in (0..).take(self.readers.len()) {
            let partition = PartitionId(id);
            if self.readers[id as usize].is_some() {
                self.close(partition);
                let error = SourceError {
                    class: ErrorClass::Retryable,
                    condition: "fake:recreated".to_owned(),
                    description: "the log was deleted and created again".to_owned(),
                };
                self.closed.push_back(SourceEvent::PartitionClosed { partition, error });
            }
        }
    }

    /// Fails the partitions that were told to.
    fn take_failures(&mut self) -> Result<(), SourceError> {
        let failures = {
            let mut shared = self.log.shared();
            if let Some(error) = shared.failure.take() {
                return Err(error);
            }
            std::mem::take(&mut shared.failures)
        };
        for (partition, error) in failures {
            if self.readers[partition.0 as usize].is_some() {
                self.close(partition);
                self.closed.push_back(SourceEvent::PartitionClosed { partition, error });
            }
        }
        Ok(())
    }

    /// Moves what the credit allows from the log to the builder.
    fn fetch(&mut self, now: std::time::Instant) {
        let shared = self.log.shared();
        if shared.is_silent {
            return;
        }
        for (id, (reader, stored)) in (0..).zip(self.readers.iter_mut().zip(&shared.partitions)) {
            let Some(reader) = reader else { continue };
            reader.next = reader.next.max(shared.begins[id as usize]);
            while reader.unreleased < self.options.unreleased_limit()
                && let Some(event) = stored.get(reader.next)
            {
                self.builder.push(now, PartitionId(id), &event.chunk, &event.parts);
                reader.next += 1;
                reader.unreleased += 1;
            }
        }
    }
}

impl Source for MemorySource {
    fn encoding(&self) -> Encoding {
        Encoding::Opaque
    }

    fn log_id(&self) -> Option<&str> {
        self.log_id.as_deref()
    }

    fn accounts_for_all_numbers(&self) -> bool {
        true
    }

    fn partitions(&self) -> Vec<PartitionId> {
        (0..).take(self.readers.len()).map(PartitionId).collect()
    }

    fn open(&mut self, partition: PartitionId, position: StartPosition) {
        let mut shared = self.log.shared();
        let next = shared.partitions[partition.0 as usize]
            .partition_point(|event| precedes(&event.parts, &position));
        let next = if position == StartPosition::Latest {
            shared.partitions[partition.0 as usize].len()
        } else {
            next
        };
        let beyond_end = lies_beyond(&position, shared.partitions[partition.0 as usize].len());
        shared.opened.push((partition, position));
        if beyond_end {
            let error = SourceError {
                class: ErrorClass::Fatal,
                condition: "com.microsoft:argument-error".to_owned(),
                description: "The supplied offset is invalid.".to_owned(),
            };
            shared.failures.push((partition, error));
        }
        if self.owner.is_some() {
            shared.owner_of[partition.0 as usize] = self.owner;
            shared.wake_pollers();
        }
        self.readers[partition.0 as usize] = Some(Reader { next, unreleased: 0 });
    }

    fn close(&mut self, partition: PartitionId) {
        self.readers[partition.0 as usize] = None;
        self.builder.discard(partition);
    }

    fn hold(&mut self, partition: PartitionId, held: bool) {
        self.builder.hold(partition, held);
    }

    fn is_exhausted(&self) -> bool {
        let limit = self.options.unreleased_limit();
        let mut open = self.readers.iter().flatten().peekable();
        open.peek().is_some() && open.all(|reader| reader.unreleased >= limit)
    }

    fn poll_batch(&mut self, context: &mut Context<'_>) -> Poll<Result<SourceEvent, SourceError>> {
        self.log.shared().await_change(context.waker());
        self.take_log_id();
        self.take_failures()?;
        self.take_thefts();
        if let Some(event) = self.closed.pop_front() {
            return Poll::Ready(Ok(event));
        }
        loop {
            let now = Instant::now().into_std();
            self.fetch(now);
            self.builder.handle_timeout(now);
            if let Some(batch) = self.builder.pop_sealed() {
                return Poll::Ready(Ok(SourceEvent::Batch(batch)));
            }
            let Some(deadline) = self.builder.next_deadline() else {
                return Poll::Pending;
            };
            self.timer.as_mut().reset(Instant::from_std(deadline));
            if self.timer.as_mut().poll(context).is_pending() {
                return Poll::Pending;
            }
        }
    }

    fn release(&mut self, batch: EventBatch) {
        if let Some(reader) = &mut self.readers[batch.partition().0 as usize] {
            reader.unreleased = reader.unreleased.saturating_sub(batch.len());
        }
        self.builder.recycle(batch);
    }
}

impl Shared {
    fn wake_pollers(&mut self) {
        self.pollers.drain(..).for_each(Waker::wake);
    }

    fn await_change(&mut self, waker: &Waker) {
        if !self.pollers.iter().any(|poller| poller.will_wake(waker)) {
            self.pollers.push(waker.clone());
        }
    }
}

impl fmt::Debug for MemorySource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemorySource")
            .field("options", &self.options)
            .field("readers", &self.readers)
            .finish_non_exhaustive()
    }
}

/// Whether a position is one that a service refuses: it names an event of a partition that has fewer.
fn lies_beyond(position: &StartPosition, events: usize) -> bool {
    let number = match position {
        StartPosition::AtSequenceNumber(0) => return false,
        StartPosition::AtSequenceNumber(number) | StartPosition::AfterSequenceNumber(number) => Some(*number),
        StartPosition::AfterOffset(offset) => offset.parse().ok().map(|offset: i64| offset / 10),
        StartPosition::Earliest | StartPosition::Latest | StartPosition::AtEnqueuedTime(_) => None,
    };
    number.is_some_and(|number| usize::try_from(number).is_ok_and(|number| number >= events))
}

/// Whether an event lies before a position.
fn precedes(event: &EventParts, position: &StartPosition) -> bool {
    match position {
        StartPosition::Earliest => false,
        StartPosition::Latest => true,
        StartPosition::AtSequenceNumber(at) => event.sequence_number < *at,
        StartPosition::AfterSequenceNumber(after) => event.sequence_number <= *after,
        StartPosition::AfterOffset(after) => {
            after.parse().is_ok_and(|after: i64| event.sequence_number * 10 <= after)
        }
        StartPosition::AtEnqueuedTime(at) => event.enqueued_time < *at,
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::time::Duration;

    use super::*;
    use crate::source::BatchOptions;

    const PARTITION: PartitionId = PartitionId(0);

    fn source(log: &MemoryLog, max_events: usize, prefetch: usize) -> MemorySource {
        let batch = BatchOptions { max_events, max_wait: Duration::from_millis(10) };
        MemorySource::new(log, SourceOptions { batch, prefetch })
    }

    async fn next(source: &mut MemorySource) -> EventBatch {
        match poll_fn(|context| source.poll_batch(context)).await {
            Ok(SourceEvent::Batch(batch)) => batch,
            other => panic!("a batch, not {other:?}"),
        }
    }

    fn numbers(batch: &EventBatch) -> Vec<i64> {
        batch.events().iter().map(|event| event.sequence_number).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn events_come_in_batches_by_count_and_the_rest_after_its_wait() {
        let log = MemoryLog::new(1);
        (0..5).for_each(|_| _ = log.append(PARTITION, b"event"));
        let mut source = source(&log, 2, 100);
        source.open(PARTITION, StartPosition::Earliest);
        let start = Instant::now();
        assert_eq!(numbers(&next(&mut source).await), [0, 1]);
        assert_eq!(numbers(&next(&mut source).await), [2, 3]);
        assert_eq!(start.elapsed(), Duration::ZERO);
        assert_eq!(numbers(&next(&mut source).await), [4]);
        assert_eq!(start.elapsed(), Duration::from_millis(10));
    }

    #[tokio::test(start_paused = true)]
    async fn an_event_carries_what_was_appended() {
        let log = MemoryLog::new(1);
        log.append_with_key(PARTITION, b"message", b"key", EnqueuedTime::from_unix_ms(77));
        log.append(PARTITION, b"");
        let mut source = source(&log, 2, 2);
        source.open(PARTITION, StartPosition::Earliest);
        let batch = next(&mut source).await;
        let [first, second] = batch.events() else { panic!("two events") };
        assert_eq!((batch.message(first), batch.partition_key(first)), (&b"message"[..], Some(&b"key"[..])));
        assert_eq!((batch.offset(first), first.enqueued_time.unix_ms()), (Some(&b"0"[..]), 77));
        assert_eq!((batch.message(second), batch.partition_key(second)), (&b""[..], None));
        assert_eq!(batch.offset(second), Some(&b"10"[..]));
    }

    #[tokio::test(start_paused = true)]
    async fn no_more_is_fetched_than_prefetch_allows_until_a_batch_is_released() {
        let log = MemoryLog::new(1);
        (0..10).for_each(|_| _ = log.append(PARTITION, b"event"));
        let mut source = source(&log, 2, 4);
        source.open(PARTITION, StartPosition::Earliest);
        let first = next(&mut source).await;
        assert_eq!(numbers(&next(&mut source).await), [2, 3]);
        let waited = tokio::time::timeout(Duration::from_secs(60), next(&mut source)).await;
        assert!(waited.is_err(), "four events are out and none was released");
        source.release(first);
        assert_eq!(numbers(&next(&mut source).await), [4, 5]);
    }

    #[tokio::test(start_paused = true)]
    async fn each_position_starts_where_it_says() {
        let log = MemoryLog::new(1);
        for time in 0..5 {
            log.append_with_key(PARTITION, b"event", b"", EnqueuedTime::from_unix_ms(time * 100));
        }
        let cases = [
            (StartPosition::Earliest, 0),
            (StartPosition::AtSequenceNumber(2), 2),
            (StartPosition::AfterSequenceNumber(2), 3),
            (StartPosition::AfterOffset("20".to_owned()), 3),
            (StartPosition::AtEnqueuedTime(EnqueuedTime::from_unix_ms(101)), 2),
            (StartPosition::Latest, 5),
        ];
        let mut source = source(&log, 1, 1);
        for (position, expected) in cases {
            source.open(PARTITION, position);
            let first = tokio::time::timeout(Duration::from_secs(1), next(&mut source)).await;
            let first = first.map_or(5, |batch| batch.first_sequence_number().expect("one event"));
            assert_eq!(first, expected);
            source.close(PARTITION);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_failed_partition_is_reported_and_can_be_opened_again() {
        let log = MemoryLog::new(2);
        log.append(PARTITION, b"event");
        let mut source = source(&log, 1, 1);
        source.open(PARTITION, StartPosition::Earliest);
        let error = SourceError {
            class: ErrorClass::Retryable,
            condition: "amqp:link:stolen".to_owned(),
            description: "a new receiver".to_owned(),
        };
        log.fail_partition(PARTITION, error.clone());
        let closed = poll_fn(|context| source.poll_batch(context)).await;
        assert!(
            matches!(closed, Ok(SourceEvent::PartitionClosed { partition: PARTITION, error: e }) if e == error)
        );
        source.open(PARTITION, StartPosition::Earliest);
        assert_eq!(numbers(&next(&mut source).await), [0]);
    }

    #[tokio::test(start_paused = true)]
    async fn of_two_sources_that_own_what_they_open_the_later_one_has_it() {
        let log = MemoryLog::new(1);
        log.append(PARTITION, b"event");
        let options = source(&log, 1, 1).options;
        let mut first = MemorySource::owning(&log, options);
        let mut second = MemorySource::owning(&log, options);
        first.open(PARTITION, StartPosition::Latest);
        second.open(PARTITION, StartPosition::Earliest);
        let closed = poll_fn(|context| first.poll_batch(context)).await;
        assert!(
            matches!(closed, Ok(SourceEvent::PartitionClosed { partition: PARTITION, error }) if error.is_stolen())
        );
        assert_eq!(numbers(&next(&mut second).await), [0]);
    }
}
