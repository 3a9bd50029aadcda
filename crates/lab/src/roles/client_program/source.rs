//! The consumer: each record is a line that says when it arrived.

use std::collections::VecDeque;
use std::task::{Context, Poll};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::BytesMut;
use connect::event::{Encoding, EventBatch, PartitionId, Receipt};
use connect::sink::ErrorClass;
use connect::source::{ShutDown, Source, SourceError, SourceEvent, StartPosition};

use super::{Half, ProgramError, Reached, Running, number, split};
use crate::roles::backend::MessageCodec as _;
use crate::roles::kafka_codec::KafkaCodec;

/// A source of what a program receives. The receipt of each batch is when its records arrived, in microseconds of the run.
#[derive(Debug)]
pub(in crate::roles) struct ProgramSource {
    running: Running,
    partitions: u32,
    /// Records of one partition that arrived together, as far as they were read.
    gathered: EventBatch,
    ready: VecDeque<EventBatch>,
}

impl ProgramSource {
    pub(in crate::roles) async fn start(reached: &Reached<'_>) -> Result<Self, ProgramError> {
        let running = Running::start(reached, Half::Consumer).await?;
        let partitions = reached.partitions;
        Ok(Self { running, partitions, gathered: EventBatch::default(), ready: VecDeque::new() })
    }

    /// Takes the record that the program has just said; `None` if the line is to be understood and none.
    fn hear(&mut self) -> Option<()> {
        let (word, rest) = split(&self.running.line);
        if word != b"received" {
            self.running.log();
            return Some(());
        }
        let (partition, rest) = split(rest);
        let (offset, rest) = split(rest);
        let (arrived, payload) = split(rest);
        let partition = number(partition).filter(|partition| *partition < self.partitions)?;
        let (offset, arrived): (i64, u64) = (number(offset)?, number(arrived)?);
        let payload = STANDARD.decode(payload).ok()?;
        let mut message = BytesMut::new();
        KafkaCodec.encode(None, &payload, &mut message);
        let is_next = self.gathered.partition() == PartitionId(partition)
            && self.gathered.receipt() == Receipt(arrived)
            && self.gathered.len() < MOST_TOGETHER;
        if !is_next {
            self.seal();
        }
        if self.gathered.is_empty() {
            self.gathered = EventBatch::with_capacity(PartitionId(partition), 1);
            self.gathered.set_encoding(Encoding::Kafka);
            self.gathered.set_receipt(Receipt(arrived), 0);
        }
        self.gathered.push_message(&message.freeze(), offset);
        Some(())
    }

    fn seal(&mut self) {
        if !self.gathered.is_empty() {
            self.ready.push_back(std::mem::take(&mut self.gathered));
        }
    }

    fn failed(&self, description: String) -> SourceError {
        let condition = "client:failed".to_owned();
        let description = format!("{}: {description}", self.running.name);
        SourceError { class: ErrorClass::Fatal, condition, description }
    }
}

impl Source for ProgramSource {
    fn partitions(&self) -> Vec<PartitionId> {
        (0..self.partitions).map(PartitionId).collect()
    }

    fn encoding(&self) -> Encoding {
        Encoding::Kafka
    }

    fn open(&mut self, partition: PartitionId, start: StartPosition) {
        let from = match start {
            StartPosition::AtSequenceNumber(offset) => offset.to_string(),
            StartPosition::AfterSequenceNumber(offset) => offset.saturating_add(1).to_string(),
            // A sink begins in no other way.
            _ => "earliest".to_owned(),
        };
        self.running.tell(&format!("open {} {from}", partition.0));
    }

    /// A sink reads to its end.
    fn close(&mut self, _: PartitionId) {}

    fn poll_batch(&mut self, context: &mut Context<'_>) -> Poll<Result<SourceEvent, SourceError>> {
        if let Poll::Ready(Err(error)) = self.running.poll_flush(context) {
            return Poll::Ready(Err(self.failed(error.to_string())));
        }
        // What is not read waits in the pipe, and in the end in the program.
        while self.ready.is_empty() {
            match self.running.poll_line(context) {
                Poll::Ready(Ok(true)) => match (self.hear(), split(&self.running.line)) {
                    (Some(()), (b"error", reason)) => {
                        let reason = String::from_utf8_lossy(reason).into_owned();
                        return Poll::Ready(Err(self.failed(reason)));
                    }
                    (Some(()), _) => {}
                    (None, _) => {
                        let line =
                            String::from_utf8_lossy(&self.running.line[..self.running.line.len().min(80)]);
                        let description = format!("it says what can't be understood: `{line}`");
                        return Poll::Ready(Err(self.failed(description)));
                    }
                },
                Poll::Ready(Ok(false)) => return Poll::Ready(Err(self.failed("it ended".to_owned()))),
                Poll::Ready(Err(error)) => return Poll::Ready(Err(self.failed(error.to_string()))),
                Poll::Pending => {
                    self.seal();
                    if self.ready.is_empty() {
                        return Poll::Pending;
                    }
                }
            }
        }
        let batch = self.ready.pop_front().expect("there is one");
        Poll::Ready(Ok(SourceEvent::Batch(batch)))
    }

    fn release(&mut self, _: EventBatch) {}

    fn shut_down(self: Box<Self>) -> ShutDown {
        Box::pin(self.running.end())
    }
}

const MOST_TOGETHER: usize = 4_096;
