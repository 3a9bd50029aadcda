//! Some of a source's partitions, as if it had no others.

use std::task::{Context, Poll};

use crate::event::{Encoding, EventBatch, PartitionId};
use crate::service::ServiceError;
use crate::source::{ShutDown, Source, SourceError, SourceEvent, StartPosition};

/// A source of which only some partitions are to be seen, and so opened.
#[derive(Debug)]
pub struct PartitionSubset {
    source: Box<dyn Source>,
    partitions: Vec<PartitionId>,
}

impl PartitionSubset {
    /// The partitions of `source` that `is_wanted` names.
    #[must_use]
    pub fn new(source: Box<dyn Source>, is_wanted: impl Fn(PartitionId) -> bool) -> Self {
        let partitions = source.partitions().into_iter().filter(|partition| is_wanted(*partition)).collect();
        Self { source, partitions }
    }
}

impl Source for PartitionSubset {
    fn partitions(&self) -> Vec<PartitionId> {
        self.partitions.clone()
    }

    fn encoding(&self) -> Encoding {
        self.source.encoding()
    }

    fn has_contiguous_numbers(&self) -> bool {
        self.source.has_contiguous_numbers()
    }

    fn open(&mut self, partition: PartitionId, start: StartPosition) {
        self.source.open(partition, start);
    }

    fn close(&mut self, partition: PartitionId) {
        self.source.close(partition);
    }

    fn hold(&mut self, partition: PartitionId, held: bool) {
        self.source.hold(partition, held);
    }

    fn is_exhausted(&self) -> bool {
        self.source.is_exhausted()
    }

    fn poll_batch(&mut self, context: &mut Context<'_>) -> Poll<Result<SourceEvent, SourceError>> {
        self.source.poll_batch(context)
    }

    fn release(&mut self, batch: EventBatch) {
        self.source.release(batch);
    }

    fn outage(&self) -> Option<&ServiceError> {
        self.source.outage()
    }

    fn is_attached(&self, partition: PartitionId) -> bool {
        self.source.is_attached(partition)
    }

    fn next_number(&self, partition: PartitionId) -> Option<i64> {
        self.source.next_number(partition)
    }

    fn log_id(&self) -> Option<&str> {
        self.source.log_id()
    }

    fn shut_down(self: Box<Self>) -> ShutDown {
        self.source.shut_down()
    }
}
