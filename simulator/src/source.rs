//! A source on the simulated network: credit and batches as a real one has them.

use std::collections::VecDeque;
use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use connect::batch_builder::BatchBuilder;
use connect::event::{Encoding, EnqueuedTime, EventBatch, EventParts, PartitionId};
use connect::source::{Source, SourceError, SourceEvent, StartPosition};
use tokio::time::{Instant, Sleep};

use crate::defect::Defect;
use crate::durable_log::Stored;
use crate::process::Inbound;
use crate::trace::{Events, What};
use crate::world::SharedWorld;

/// The source of one process.
pub(crate) struct SimulatedSource {
    world: SharedWorld,
    process: u32,
    unreleased_max: u64,
    readers: Vec<Option<Reader>>,
    builder: BatchBuilder,
    closed: VecDeque<SourceEvent>,
    timer: Pin<Box<Sleep>>,
}

/// One partition that is open.
#[derive(Debug)]
struct Reader {
    link: u64,
    released: u64,
    /// How many events the hub may send in all, as it was told.
    limit: u64,
}

impl SimulatedSource {
    pub(crate) fn new(world: &SharedWorld, process: u32) -> Self {
        let config = world.lock().config();
        Self {
            world: world.clone(),
            process,
            unreleased_max: config.source.unreleased_limit() as u64,
            readers: (0..config.partitions).map(|_| None).collect(),
            builder: BatchBuilder::new(config.source.batch, config.partitions),
            closed: VecDeque::new(),
            timer: Box::pin(tokio::time::sleep_until(Instant::now())),
        }
    }

    /// Takes what has arrived. Says `false` if nothing may be done any more.
    fn receive(&mut self, context: &mut Context<'_>) -> Result<bool, SourceError> {
        let shared = self.world.clone();
        let mut world = shared.lock();
        if !world.call(self.process) {
            return Ok(false);
        }
        let repeats = world.has_defect(Defect::SourceRepeats);
        let silent = world.has_defect(Defect::SourceForgetsToWake);
        let process = world.process_mut(self.process);
        if let Some(error) = process.source_failure.take() {
            process.end_failed = true;
            return Err(error);
        }
        if !silent {
            process.source_waker = Some(context.waker().clone());
        }
        let inbound: Vec<_> = process.inbound.drain(..).collect();
        let now = Instant::now().into_std();
        for message in inbound {
            match message {
                Inbound::Records { link, records } => {
                    let open = |reader: &&Reader| reader.link == link;
                    let partition = (0..)
                        .zip(&self.readers)
                        .find(|(_, reader)| reader.as_ref().is_some_and(|reader| open(&reader)));
                    let Some((partition, _)) = partition else {
                        continue;
                    };
                    for record in &records {
                        push(&mut self.builder, now, partition, record);
                    }
                    if repeats && let Some(last) = records.last() {
                        push(&mut self.builder, now, partition, last);
                    }
                }
                Inbound::Detached { link, partition, error } => {
                    let place = &mut self.readers[partition.0 as usize];
                    if place.as_ref().is_some_and(|reader| reader.link == link) {
                        *place = None;
                        self.builder.discard(partition);
                        world.note(Some(self.process), What::Detached { partition: partition.0 });
                        self.closed.push_back(SourceEvent::PartitionClosed { partition, error });
                    }
                }
            }
        }
        for reader in self.readers.iter_mut().flatten() {
            let limit = reader.released + self.unreleased_max;
            if limit > reader.limit {
                reader.limit = limit;
                world.send_credit(reader.link, limit);
            }
        }
        Ok(true)
    }
}

impl Source for SimulatedSource {
    fn encoding(&self) -> Encoding {
        Encoding::Opaque
    }

    fn partitions(&self) -> Vec<PartitionId> {
        (0..).take(self.readers.len()).map(PartitionId).collect()
    }

    fn open(&mut self, partition: PartitionId, position: StartPosition) {
        let mut world = self.world.lock();
        if !world.call(self.process) {
            return;
        }
        let link = world.open_link(self.process, partition, &position);
        self.readers[partition.0 as usize] = Some(Reader { link, released: 0, limit: 0 });
    }

    fn close(&mut self, partition: PartitionId) {
        let Some(reader) = self.readers[partition.0 as usize].take() else {
            return;
        };
        self.builder.discard(partition);
        let mut world = self.world.lock();
        if world.call(self.process) {
            world.close_link(self.process, reader.link);
        }
    }

    fn hold(&mut self, partition: PartitionId, held: bool) {
        self.builder.hold(partition, held);
    }

    fn poll_batch(&mut self, context: &mut Context<'_>) -> Poll<Result<SourceEvent, SourceError>> {
        if !self.receive(context)? {
            return Poll::Pending;
        }
        if let Some(event) = self.closed.pop_front() {
            return Poll::Ready(Ok(event));
        }
        loop {
            self.builder.handle_timeout(Instant::now().into_std());
            if let Some(batch) = self.builder.pop_sealed() {
                self.world.lock().hand_over(self.process, &batch);
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
        self.world.lock().release(self.process, &batch);
        if let Some(reader) = &mut self.readers[batch.partition().0 as usize] {
            reader.released += batch.len() as u64;
        }
        self.builder.recycle(batch);
    }
}

/// Adds a record to its partition's batch: key, offset and message one after the other in a chunk of its own.
fn push(builder: &mut BatchBuilder, now: std::time::Instant, partition: u32, record: &Stored) {
    let key = partition_key(&record.message);
    let sequence_number = record.sequence_number.cast_signed();
    let offset = offset_of(sequence_number);
    let chunk = Bytes::from([key.as_bytes(), offset.as_bytes(), &record.message].concat());
    let end = |length: usize| u32::try_from(length).expect("a simulated event is small");
    let (key_end, offset_end) = (end(key.len()), end(key.len() + offset.len()));
    let parts = EventParts {
        message: offset_end..end(chunk.len()),
        partition_key: 0..key_end,
        offset: key_end..offset_end,
        sequence_number,
        enqueued_time: EnqueuedTime::default(),
    };
    builder.push(now, PartitionId(partition), &chunk, &parts);
}

/// The hub's offset of an event: ten times its number, so that nobody confuses the two unnoticed.
pub(crate) fn offset_of(sequence_number: i64) -> String {
    (sequence_number * 10).to_string()
}

/// The events of a batch, for the trace.
pub(crate) fn events_of(batch: &EventBatch) -> Events {
    Events {
        partition: batch.partition().0,
        first: batch.first_sequence_number().unwrap_or(-1),
        last: batch.last_sequence_number().unwrap_or(-1),
    }
}

/// The key of an event follows from its message; one in five has none.
pub(crate) fn partition_key(message: &[u8]) -> String {
    match message.iter().map(|&byte| u32::from(byte)).sum::<u32>() % 5 {
        0 => String::new(),
        key => format!("key {key}"),
    }
}

impl fmt::Debug for SimulatedSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SimulatedSource")
            .field("process", &self.process)
            .field("readers", &self.readers)
            .finish_non_exhaustive()
    }
}
