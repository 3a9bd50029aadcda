//! A topic, through any client of Kafka that is a sink. Events without key or partition go to one partition after the other, a
//! run to each.

use std::task::{Context, Poll, ready};
use std::time::{SystemTime, UNIX_EPOCH};

use crate::event::{Encoding, EnqueuedTime, EventBatch, PartitionId};
use crate::kafka::{KafkaOptions, connect_sink};
use crate::producer::lane::{Place, Run};
use crate::service::ServiceError;
use crate::sink::{OutgoingBatch, SendOutcome, SendToken, Sink, SinkBusy, SinkError};

/// See the module.
#[derive(Debug)]
pub(crate) struct KafkaOutlet {
    sink: Box<dyn Sink>,
    partitions: u32,
    /// Where the next events go that may go anywhere.
    next: u32,
    /// The events of the run at hand as the sink takes them.
    batch: EventBatch,
    indices: Vec<u32>,
}

impl KafkaOutlet {
    pub(super) async fn connect(options: &KafkaOptions) -> Result<Self, ServiceError> {
        let sink = connect_sink(options).await?;
        let partitions = sink.destinations();
        Ok(Self { sink, partitions, next: 0, batch: EventBatch::default(), indices: Vec::new() })
    }

    pub(super) const fn partitions(&self) -> u32 {
        self.partitions
    }

    pub(super) fn max_bytes(&self) -> usize {
        // What an event adds at most does not depend on its length.
        let overhead = self.sink.encoded_len(0);
        self.sink.max_batch_bytes(0).saturating_sub(overhead)
    }

    pub(super) fn send_event(&mut self, token: SendToken, run: &Run) -> Result<(), SinkBusy> {
        let event = run.ranges().next().unwrap_or_default();
        self.load(run, std::iter::once(event));
        // The whole run goes where its last event does.
        self.send(token, run, run.remaining() == 1)
    }

    pub(super) fn send_batch(&mut self, token: SendToken, run: &Run) -> Result<(), SinkBusy> {
        self.load(run, run.ranges());
        self.send(token, run, true)
    }

    fn send(&mut self, token: SendToken, run: &Run, is_last: bool) -> Result<(), SinkBusy> {
        let is_anywhere = !matches!(run.place, Place::Partition(_));
        let partition = match run.place {
            Place::Partition(partition) => partition,
            Place::Entity | Place::Key(_) => self.next,
        };
        self.sink.send(token, OutgoingBatch::new(partition, &self.batch, &self.indices))?;
        if is_anywhere && is_last {
            self.next = (self.next + 1) % self.partitions.max(1);
        }
        Ok(())
    }

    /// Makes a batch of events, which is copied into the sink's own at once.
    fn load(&mut self, run: &Run, events: impl Iterator<Item = std::ops::Range<u32>>) {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis());
        // Milliseconds fit for another 292 million years.
        let enqueued_time = EnqueuedTime::from_unix_ms(now as i64);
        self.batch.clear(PartitionId(0));
        self.batch.set_encoding(Encoding::Kafka);
        self.indices.clear();
        for (index, event) in (0..).zip(events) {
            let bytes = &run.bytes()[event.start as usize..event.end as usize];
            self.batch.push_copied(bytes, i64::from(index), enqueued_time);
            self.indices.push(index);
        }
    }

    pub(super) fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), ServiceError>> {
        ready!(self.sink.poll_ready(context)).map_err(of_sink)?;
        Poll::Ready(Ok(()))
    }

    pub(super) fn poll_outcomes(
        &mut self,
        context: &mut Context<'_>,
        outcomes: &mut Vec<SendOutcome>,
    ) -> Poll<Result<(), ServiceError>> {
        self.sink.poll_outcomes(context, outcomes).map_err(of_sink)
    }

    pub(super) fn outage(&self) -> Option<&ServiceError> {
        self.sink.outage()
    }

    pub(super) async fn shut_down(self) {
        self.sink.shut_down().await;
    }
}

/// Nothing more can be sent through a sink that has an error as a whole.
fn of_sink(error: SinkError) -> ServiceError {
    let SinkError { condition, description } = error;
    ServiceError { class: crate::sink::ErrorClass::Fatal, condition, description }
}
