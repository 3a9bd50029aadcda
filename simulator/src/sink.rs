//! A sink on the simulated network.

use std::task::{Context, Poll};

use connect::event::Encoding;
use connect::sink::{OutgoingBatch, SendOutcome, SendToken, Sink, SinkBusy, SinkError};

use crate::config::OVERHEAD;
use crate::world::SharedWorld;

/// The sink of one process.
#[derive(Debug)]
pub(crate) struct SimulatedSink {
    world: SharedWorld,
    process: u32,
    destinations: u32,
    batch_bytes: usize,
    unanswered_max: usize,
}

impl SimulatedSink {
    pub(crate) fn new(world: &SharedWorld, process: u32) -> Self {
        let config = world.lock().config();
        Self {
            world: world.clone(),
            process,
            destinations: config.destinations,
            batch_bytes: config.announced_batch_bytes,
            unanswered_max: config.unanswered_max,
        }
    }
}

impl Sink for SimulatedSink {
    fn takes(&self, _encoding: Encoding) -> bool {
        true
    }

    fn destinations(&self) -> u32 {
        self.destinations
    }

    fn max_batch_bytes(&self, _destination: u32) -> usize {
        self.batch_bytes
    }

    fn encoded_len(&self, message_len: usize) -> usize {
        message_len + OVERHEAD
    }

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), SinkError>> {
        let mut world = self.world.lock();
        if !world.call(self.process) {
            return Poll::Pending;
        }
        let process = world.process_mut(self.process);
        if let Some(error) = process.sink_failure.take() {
            process.end_failed = true;
            return Poll::Ready(Err(error));
        }
        if process.unanswered < self.unanswered_max {
            return Poll::Ready(Ok(()));
        }
        process.sink_waker = Some(context.waker().clone());
        Poll::Pending
    }

    fn send(&mut self, token: SendToken, outgoing: OutgoingBatch<'_>) -> Result<(), SinkBusy> {
        let mut world = self.world.lock();
        if !world.call(self.process) {
            return Ok(());
        }
        if world.process_mut(self.process).unanswered >= self.unanswered_max {
            world.note_busy(self.process, outgoing.destination());
            return Err(SinkBusy);
        }
        world.send(self.process, token, &outgoing);
        Ok(())
    }

    fn poll_outcomes(
        &mut self,
        context: &mut Context<'_>,
        outcomes: &mut Vec<SendOutcome>,
    ) -> Poll<Result<(), SinkError>> {
        let mut world = self.world.lock();
        if !world.call(self.process) {
            return Poll::Pending;
        }
        let process = world.process_mut(self.process);
        if let Some(error) = process.sink_failure.take() {
            process.end_failed = true;
            return Poll::Ready(Err(error));
        }
        if process.outcomes.is_empty() {
            process.sink_waker = Some(context.waker().clone());
            return Poll::Pending;
        }
        let arrived: Vec<_> = process.outcomes.drain(..).collect();
        for outcome in arrived {
            world.tell_outcome(self.process, &outcome);
            outcomes.push(SendOutcome { token: outcome.token, result: outcome.result.map_err(Box::new) });
        }
        Poll::Ready(Ok(()))
    }
}
