//! A sink that stores later than it accepts: what an archive of many events per file is to a relay.
//!
//! Events are accepted at once, in the order of their partition, unless too many files are being stored. After so many, or after a while,
//! they are a file, which takes its time to be stored and may be lost, or stored without the archive being told. What the process has not
//! stored dies with it.

use std::collections::{BTreeMap, VecDeque};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use connect::event::{Encoding, PartitionId};
use connect::sink::{
    ErrorClass, OutgoingBatch, SendError, SendOutcome, SendToken, Sink, SinkBusy, SinkError, Stored,
    StoredThrough,
};
use tokio::time::{Instant, Sleep};
use units::Random;

use crate::concern;
use crate::config::{Archive, between};
use crate::defect::Defect;
use crate::world::SharedWorld;

/// The archive of one process.
#[derive(Debug)]
pub(crate) struct SimulatedArchive {
    world: SharedWorld,
    process: u32,
    config: Archive,
    random: Random,
    partitions: BTreeMap<PartitionId, VecDeque<File>>,
    /// The last event of each that it was given, unless it has lost or forgotten it.
    last: BTreeMap<PartitionId, i64>,
    outcomes: Vec<SendOutcome>,
    stored: Vec<Stored>,
    timer: Pin<Box<Sleep>>,
}

#[derive(Debug)]
struct File {
    first: i64,
    last: i64,
    offset: String,
    is_complete: bool,
    /// When it is complete if it is not, or stored.
    due: Instant,
}

impl SimulatedArchive {
    pub(crate) fn new(world: &SharedWorld, process: u32, config: Archive) -> Self {
        let seed = world.lock().config().seed;
        Self {
            world: world.clone(),
            process,
            config,
            random: Random::for_concern(seed, concern::ARCHIVE + u64::from(process)),
            partitions: BTreeMap::new(),
            last: BTreeMap::new(),
            outcomes: Vec::new(),
            stored: Vec::new(),
            timer: Box::pin(tokio::time::sleep_until(Instant::now())),
        }
    }

    fn append(&mut self, partition: PartitionId, number: i64, offset: &str) {
        let now = Instant::now();
        let files = self.partitions.entry(partition).or_default();
        let before = self.last.insert(partition, number);
        self.world.lock().append_to_archive(self.process, partition.0, before, number);
        match files.back_mut() {
            Some(file) if !file.is_complete => {
                file.last = number;
                offset.clone_into(&mut file.offset);
            }
            _ => files.push_back(File {
                first: number,
                last: number,
                offset: offset.to_owned(),
                is_complete: false,
                due: now + Duration::from_millis(self.config.every_ms),
            }),
        }
        if files.back().is_some_and(|file| file.last - file.first + 1 >= self.config.file_events) {
            self.complete(partition);
        }
    }

    fn complete(&mut self, partition: PartitionId) {
        let upload_ms = between(&mut self.random, 0, self.config.upload_ms);
        let file = self.partitions.get_mut(&partition).and_then(VecDeque::back_mut);
        if let Some(file) = file.filter(|file| !file.is_complete) {
            file.is_complete = true;
            file.due = Instant::now() + Duration::from_millis(upload_ms);
        }
    }

    /// Does what is due; gives when the next is.
    fn drive(&mut self) -> Option<Instant> {
        let now = Instant::now();
        let partitions: Vec<PartitionId> = self.partitions.keys().copied().collect();
        for partition in partitions {
            let open = self.partitions[&partition].back();
            if open.is_some_and(|file| !file.is_complete && file.due <= now) {
                self.complete(partition);
            }
            while let Some(files) = self.partitions.get_mut(&partition)
                && let Some(file) = files.pop_front_if(|file| file.is_complete && file.due <= now)
            {
                let lost = self.random.chance(self.config.lost);
                let (lost, in_silence) = (lost && !self.world.lock().is_well(), self.random.chance(0.5));
                let in_vain = in_silence && self.world.lock().has_defect(Defect::ArchiveForgets);
                if (!lost || in_silence) && !in_vain {
                    self.world.lock().archived(self.process, partition.0, file.first, file.last);
                }
                if lost {
                    self.partitions.remove(&partition);
                    self.last.remove(&partition);
                    let error = SendError {
                        class: ErrorClass::Retryable,
                        condition: "simulated:lost".to_owned(),
                        description: "the file can't be stored".to_owned(),
                    };
                    self.stored.push(Stored { partition, result: Err(Box::new(error)) });
                } else {
                    let through = StoredThrough { sequence_number: file.last, offset: file.offset };
                    self.stored.push(Stored { partition, result: Ok(through) });
                }
            }
        }
        // A file that is stored waits for those before it.
        let first = self.partitions.values().filter_map(VecDeque::front);
        let open = self.partitions.values().filter_map(VecDeque::back).filter(|file| !file.is_complete);
        first.chain(open).map(|file| file.due).min()
    }

    /// Does what is due, and sees to it that the task is woken for what comes next. Says whether it is alive.
    fn poll(&mut self, context: &mut Context<'_>) -> bool {
        if !self.world.lock().call(self.process) {
            return false;
        }
        while let Some(next) = self.drive() {
            self.timer.as_mut().reset(next);
            if self.timer.as_mut().poll(context).is_pending() {
                break;
            }
        }
        true
    }

    /// Whether as many files are being stored as may be.
    fn is_busy(&self) -> bool {
        let files = self.partitions.values().flatten();
        files.filter(|file| file.is_complete).count() >= self.config.uploads_max
    }
}

impl Sink for SimulatedArchive {
    fn destinations(&self) -> u32 {
        1
    }

    fn takes(&self, _encoding: Encoding) -> bool {
        true
    }

    fn max_batch_bytes(&self, _destination: u32) -> usize {
        usize::MAX
    }

    fn encoded_len(&self, message_len: usize) -> usize {
        message_len
    }

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), SinkError>> {
        match self.poll(context) && !self.is_busy() {
            true => Poll::Ready(Ok(())),
            false => Poll::Pending,
        }
    }

    fn send(&mut self, token: SendToken, outgoing: OutgoingBatch<'_>) -> Result<(), SinkBusy> {
        if !self.world.lock().call(self.process) {
            return Ok(());
        }
        if self.is_busy() {
            return Err(SinkBusy);
        }
        for (batch, event) in outgoing.events() {
            let offset = batch.offset(event).and_then(|offset| std::str::from_utf8(offset).ok());
            self.append(batch.partition(), event.sequence_number, offset.unwrap_or_default());
        }
        self.outcomes.push(SendOutcome { token, result: Ok(()) });
        Ok(())
    }

    fn poll_outcomes(
        &mut self,
        context: &mut Context<'_>,
        outcomes: &mut Vec<SendOutcome>,
    ) -> Poll<Result<(), SinkError>> {
        if !self.poll(context) || self.outcomes.is_empty() {
            return Poll::Pending;
        }
        outcomes.append(&mut self.outcomes);
        Poll::Ready(Ok(()))
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
        let files = self.partitions.remove(&partition).unwrap_or_default();
        self.last.remove(&partition);
        self.stored.retain(|stored| stored.partition != partition);
        // What is being stored may get there all the same.
        for file in files.into_iter().filter(|file| file.is_complete) {
            if self.random.chance(0.5) {
                self.world.lock().archived(self.process, partition.0, file.first, file.last);
            }
        }
    }
}
