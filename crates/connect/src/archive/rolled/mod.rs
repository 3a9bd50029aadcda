//! Files of many events: those of a partition that follow one another.
//!
//! ```text
//!   send ─▶ encoded into the block at hand ─▶ accepted
//!                    │ 4 MiB, or the file is complete
//!                    ▼
//!              stored, seen by nobody ─▶ all blocks of a complete file are ─▶ it gets its name ─▶ stored through its last event
//! ```
//!
//! To a bucket nothing goes before the file is complete: its blocks are kept until then, in memory that is bounded (`kept`).
//!
//! A file is complete when it is long enough, when its first event has been in it long enough, or when nothing more comes. Its name has the
//! number of its first event. Files of a partition may get their names in any order; stored is what has no gap before it. If a file can't be
//! stored, all that is not stored of its partition is lost, and said to be so: the engine begins again at its checkpoint, which is the end
//! of the last file, so the next file has the same name.

mod kept;
mod shared;
mod store;
mod writer;

use std::collections::{HashMap, VecDeque};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use amqp::DecodeError;
use bytes::Bytes;
use futures_util::stream::{FuturesUnordered, StreamExt as _};

use super::bucket::refusal::NO_BUCKET;
use super::name::{Named, Naming};
use super::options::Rolling;
use crate::alarm::Alarm;
use crate::deadline_queue::DeadlineQueue;
use crate::event::{Encoding, Event, PartitionId};
use crate::retry::RetryPolicy;
use crate::sink::{
    ErrorClass, OutgoingBatch, SendError, SendOutcome, SendToken, Sink, SinkBusy, SinkError, Stored,
    StoredThrough, hand_over,
};

use kept::{KeptBlocks, Memory};
pub(super) use store::FileStore;
use store::{NewFile, Span};
use writer::FileWriter;

/// See the module.
#[derive(Debug)]
pub(super) struct RolledFiles {
    naming: Naming,
    rolling: Rolling,
    store: FileStore,
    retry: RetryPolicy,
    partitions: HashMap<PartitionId, Rolled>,
    /// When files are complete whatever is in them, by partition.
    deadlines: DeadlineQueue,
    alarm: Alarm,
    work: FuturesUnordered<Work>,
    /// Blocks that are being stored, and how many may be.
    blocks: usize,
    blocks_max: usize,
    /// Those that are kept.
    memory: Memory,
    /// Counts files.
    files: u64,
    outcomes: Vec<SendOutcome>,
    stored: Vec<Stored>,
    failure: Option<SinkError>,
}

/// What is not stored of a partition.
#[derive(Debug, Default)]
struct Rolled {
    /// Files in their order. The last one may be open.
    files: VecDeque<Unstored>,
    open: Option<Open>,
}

/// A file that has not its name yet.
#[derive(Debug)]
struct Unstored {
    file: Arc<NewFile>,
    span: Span,
    /// The offset of its last event.
    offset: String,
    is_complete: bool,
    blocks: u32,
    blocks_stored: u32,
    /// Blocks that are stored with the name alone.
    kept: KeptBlocks,
    is_stored: bool,
}

/// The file that events are added to.
#[derive(Debug)]
struct Open {
    writer: FileWriter,
    /// What blocks before have.
    before: u64,
}

type Work = Pin<Box<dyn Future<Output = Finished> + Send>>;

/// A block is stored, or a file has its name, or not.
struct Finished {
    partition: PartitionId,
    file: u64,
    is_block: bool,
    result: Result<(), SendError>,
}

impl RolledFiles {
    /// Made within a tokio runtime with time.
    pub(super) fn new(naming: Naming, rolling: Rolling, store: FileStore, concurrency: usize) -> Self {
        Self {
            naming,
            rolling,
            retry: RetryPolicy {
                attempts: ATTEMPTS,
                delay: std::time::Duration::from_millis(200),
                max_delay: std::time::Duration::from_secs(10),
                ..RetryPolicy::default()
            },
            partitions: HashMap::new(),
            deadlines: DeadlineQueue::new(),
            alarm: Alarm::new(),
            work: FuturesUnordered::new(),
            blocks: 0,
            blocks_max: under_way_max(concurrency),
            memory: Memory::new(store.memory()),
            store,
            files: 0,
            outcomes: Vec::new(),
            stored: Vec::new(),
            failure: None,
        }
    }

    /// Adds events to the file of their partition: all, or none.
    fn append(&mut self, outgoing: &OutgoingBatch<'_>) -> Result<(), Box<SendError>> {
        let partition = outgoing.partition();
        let Some((batch, first)) = outgoing.events().next() else { return Ok(()) };
        let rolled = self.partitions.entry(partition).or_default();
        if rolled.open.is_none() {
            self.files += 1;
            let mut name = String::new();
            self.naming.write(
                &mut name,
                &Named {
                    partition,
                    sequence_number: first.sequence_number,
                    enqueued_time: first.enqueued_time,
                    partition_key: batch.partition_key(first),
                },
            );
            let file = NewFile::new(self.files, name, self.rolling.format);
            rolled.begin(file, first, KeptBlocks::new(self.memory.clone()));
            let deadline = tokio::time::Instant::now().into_std() + self.rolling.every;
            self.deadlines.push(partition.0, deadline);
        }
        let (Some(open), Some(file)) = (&mut rolled.open, rolled.files.back_mut()) else { return Ok(()) };
        debug_assert!(file.span.count == 0 || file.span.last < first.sequence_number, "events come in order");
        let mark = open.writer.mark();
        let mut last = (batch, first);
        for (batch, event) in outgoing.events() {
            if let Err(error) = open.writer.put(&self.naming.hub, batch, event) {
                open.writer.go_back(mark);
                if file.span.count == 0 {
                    self.drop_open(partition);
                }
                return Err(unreadable(&error));
            }
            last = (batch, event);
        }
        open.writer.settle();
        let (batch, event) = last;
        file.span.count += outgoing.events().len() as u64;
        file.span.last = event.sequence_number;
        let offset = batch.offset(event).unwrap_or_default();
        file.offset.clear();
        file.offset.push_str(std::str::from_utf8(offset).unwrap_or_default());
        let length = open.before + open.writer.pending() as u64;
        if length >= self.rolling.size.bytes() {
            self.complete(partition);
        } else if open.writer.ready() >= BLOCK_BYTES {
            self.store_block(partition);
            self.make_room();
        }
        Ok(())
    }

    /// Takes an open file away of which nothing was written.
    #[cold]
    fn drop_open(&mut self, partition: PartitionId) {
        self.deadlines.remove(partition.0);
        if let Some(rolled) = self.partitions.get_mut(&partition) {
            rolled.open = None;
            rolled.files.pop_back();
        }
    }

    /// The open file of a partition is complete, if there is one.
    fn complete(&mut self, partition: PartitionId) {
        self.deadlines.remove(partition.0);
        let Some(rolled) = self.partitions.get_mut(&partition) else { return };
        let (Some(open), Some(file)) = (&mut rolled.open, rolled.files.back_mut()) else { return };
        open.writer.finish();
        file.is_complete = true;
        let id = file.file.id;
        self.store_block(partition);
        if let Some(rolled) = self.partitions.get_mut(&partition) {
            rolled.open = None;
        }
        self.name_if_ready(partition, id);
    }

    /// Stores the block at hand.
    fn store_block(&mut self, partition: PartitionId) {
        let Some(rolled) = self.partitions.get_mut(&partition) else { return };
        let (Some(open), Some(file)) = (&mut rolled.open, rolled.files.back_mut()) else { return };
        if open.writer.ready() == 0 {
            return;
        }
        // Memory that is not touched costs nothing, where this was the last block of the file.
        let content = open.writer.take(block_memory());
        let (offset, index) = (open.before, file.blocks);
        open.before += content.len() as u64;
        file.blocks += 1;
        if self.store.keeps_blocks() {
            file.blocks_stored += 1;
            file.kept.push(content);
            return;
        }
        let content = Bytes::from(content);
        self.blocks += 1;
        let (store, new, retry) = (self.store.clone(), Arc::clone(&file.file), self.retry);
        self.work.push(Box::pin(async move {
            let result =
                store::again(&retry, &new, || store.store_block(&new, index, offset, content.clone())).await;
            Finished { partition, file: new.id, is_block: true, result }
        }));
    }

    /// Lets the longest files be complete until those that are open have no more memory than they may.
    fn make_room(&mut self) {
        let mut open: Vec<_> = self
            .partitions
            .iter()
            .filter_map(|(partition, rolled)| {
                let file = rolled.files.back().filter(|_| rolled.open.is_some())?;
                Some((file.kept.bytes(), *partition))
            })
            .collect();
        let mut bytes: usize = open.iter().map(|(bytes, _)| bytes).sum();
        open.sort_unstable();
        while bytes > self.memory.open_max()
            && let Some((length, partition)) = open.pop()
        {
            tracing::debug!(
                partition = partition.0,
                "a file of the archive is complete early: the memory is used up"
            );
            bytes -= length;
            self.complete(partition);
        }
    }

    /// Gives a file its name once all of its blocks are stored.
    fn name_if_ready(&mut self, partition: PartitionId, id: u64) {
        let Some(rolled) = self.partitions.get_mut(&partition) else { return };
        let Some(file) = rolled.files.iter_mut().find(|file| file.file.id == id) else { return };
        if !file.is_complete || file.blocks_stored < file.blocks {
            return;
        }
        let (store, new, retry) = (self.store.clone(), Arc::clone(&file.file), self.retry);
        let (span, blocks) = (file.span, file.blocks);
        let kept = Arc::new(std::mem::replace(&mut file.kept, KeptBlocks::new(self.memory.clone())));
        self.work.push(Box::pin(async move {
            let result = store::again(&retry, &new, || store.give_name(&new, blocks, &kept, span)).await;
            Finished { partition, file: new.id, is_block: false, result }
        }));
    }

    /// Whether as much is being stored as may be.
    fn is_busy(&self) -> bool {
        self.blocks >= self.blocks_max || self.memory.is_full()
    }

    fn finished(&mut self, finished: Finished) {
        let Finished { partition, file: id, is_block, result } = finished;
        self.blocks -= usize::from(is_block);
        // What was forgotten in the meantime is of no account.
        let Some(rolled) = self.partitions.get_mut(&partition) else { return };
        let Some(file) = rolled.files.iter_mut().find(|file| file.file.id == id) else { return };
        if let Err(error) = result {
            if [shared::NO_CONTAINER, NO_BUCKET].contains(&error.condition.as_str()) {
                let SendError { condition, description, .. } = &error;
                let (condition, description) = (condition.clone(), description.clone());
                self.failure = Some(SinkError { condition, description });
            }
            self.forget(partition);
            self.stored.push(Stored { partition, result: Err(Box::new(error)) });
            return;
        }
        if is_block {
            file.blocks_stored += 1;
            self.name_if_ready(partition, id);
            return;
        }
        file.is_stored = true;
        let mut through = None;
        while let Some(file) = rolled.files.pop_front_if(|file| file.is_stored) {
            tracing::debug!(
                partition = partition.0,
                name = file.file.name,
                events = file.span.count,
                "a file of the archive is complete"
            );
            through = Some(StoredThrough { sequence_number: file.span.last, offset: file.offset });
        }
        if let Some(through) = through {
            self.stored.push(Stored { partition, result: Ok(through) });
        }
    }

    fn drive(&mut self, context: &mut Context<'_>) {
        loop {
            while let Poll::Ready(Some(finished)) = self.work.poll_next_unpin(context) {
                self.finished(finished);
            }
            let deadline = self.deadlines.next_deadline().map(tokio::time::Instant::from_std);
            if self.alarm.poll(context, deadline).is_pending() {
                return;
            }
            let now = tokio::time::Instant::now().into_std();
            while let Some(partition) = self.deadlines.pop_due(now) {
                self.complete(PartitionId(partition));
            }
        }
    }
}

impl Sink for RolledFiles {
    fn destinations(&self) -> u32 {
        1
    }

    fn takes(&self, encoding: Encoding) -> bool {
        encoding == Encoding::Amqp
    }

    fn max_batch_bytes(&self, _destination: u32) -> usize {
        // What one send makes a file longer than it should be.
        SEND_BYTES_MAX
    }

    fn encoded_len(&self, message_len: usize) -> usize {
        message_len
    }

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), SinkError>> {
        self.drive(context);
        match self.is_busy() {
            true => Poll::Pending,
            false => Poll::Ready(Ok(())),
        }
    }

    fn send(&mut self, token: SendToken, outgoing: OutgoingBatch<'_>) -> Result<(), SinkBusy> {
        if self.is_busy() {
            return Err(SinkBusy);
        }
        let result = self.append(&outgoing);
        self.outcomes.push(SendOutcome { token, result });
        Ok(())
    }

    fn poll_outcomes(
        &mut self,
        context: &mut Context<'_>,
        outcomes: &mut Vec<SendOutcome>,
    ) -> Poll<Result<(), SinkError>> {
        self.drive(context);
        if let Some(failure) = self.failure.take() {
            return Poll::Ready(Err(failure));
        }
        hand_over(&mut self.outcomes, outcomes).map(Ok)
    }

    fn stores_later(&self) -> bool {
        true
    }

    fn take_stored(&mut self, stored: &mut Vec<Stored>) {
        stored.append(&mut self.stored);
    }

    fn flush(&mut self, partition: PartitionId) {
        self.complete(partition);
    }

    fn forget(&mut self, partition: PartitionId) {
        self.deadlines.remove(partition.0);
        self.stored.retain(|stored| stored.partition != partition);
        if let Some(rolled) = self.partitions.remove(&partition) {
            rolled.files.iter().for_each(|file| self.store.discard(&file.file));
        }
    }
}

impl Rolled {
    fn begin(&mut self, file: NewFile, first: &Event, kept: KeptBlocks) {
        let writer = FileWriter::begin(file.format, &file.name, block_memory());
        self.open = Some(Open { writer, before: 0 });
        self.files.push_back(Unstored {
            file: Arc::new(file),
            span: Span {
                first: first.sequence_number,
                last: first.sequence_number,
                count: 0,
                enqueued_ms: first.enqueued_time.unix_ms(),
            },
            offset: String::new(),
            is_complete: false,
            blocks: 0,
            blocks_stored: 0,
            kept,
            is_stored: false,
        });
    }
}

/// So many blocks, or files from memory, are being stored at most.
pub(super) fn under_way_max(concurrency: usize) -> usize {
    concurrency.clamp(1, BLOCKS_MAX)
}

/// Memory for a block, and what the send that fills it may have beyond.
fn block_memory() -> Vec<u8> {
    Vec::with_capacity(BLOCK_BYTES + SEND_BYTES_MAX)
}

#[cold]
fn unreadable(error: &DecodeError) -> Box<SendError> {
    Box::new(SendError {
        class: ErrorClass::Fatal,
        condition: "amqp:decode-error".to_owned(),
        description: format!("the event can't be read: {error}"),
    })
}

/// What is stored at once, in bytes. A partition has so much in memory, and each of the blocks under way.
const BLOCK_BYTES: usize = 4 * 1024 * 1024;

/// Blocks of all files that are under way at once at most: more is no faster, and takes memory.
const BLOCKS_MAX: usize = 8;

/// The message bytes of one send.
const SEND_BYTES_MAX: usize = 1024 * 1024;

/// So often is storing tried before what was accepted is given up; the engine begins again then.
const ATTEMPTS: u32 = 6;
