//! A sink on the simulated network.

use std::task::{Context, Poll};

use connect::event::Encoding;
use connect::sink::{OutgoingBatch, SendOutcome, SendToken, Sink, SinkBusy, SinkError};

use crate::config::OVERHEAD;
use crate::refusals::DeadLetterSink;
use crate::world::SharedWorld;

/// One of the sinks of a process.
#[derive(Debug)]
pub(crate) struct SimulatedSink {
    world: SharedWorld,
    process: u32,
    /// Which of the sinks it is; that of dead letters comes after the others.
    sink: u32,
    /// Its destinations, among those of all sinks.
    first_destination: u32,
    destinations: u32,
    batch_bytes: usize,
    unanswered_max: usize,
}

impl SimulatedSink {
    pub(crate) fn new(world: &SharedWorld, process: u32, sink: u32) -> Self {
        let config = world.lock().config();
        Self {
            world: world.clone(),
            process,
            sink,
            first_destination: sink * config.destinations,
            destinations: config.destinations,
            batch_bytes: config.announced_batch_bytes,
            unanswered_max: config.unanswered_max,
        }
    }

    /// That of dead letters.
    pub(crate) fn of_dead_letters(world: &SharedWorld, process: u32, options: DeadLetterSink) -> Self {
        let sink = world.lock().config().sinks;
        Self {
            destinations: 1,
            batch_bytes: usize::MAX,
            unanswered_max: options.unanswered_max,
            ..Self::new(world, process, sink)
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
        let sink = process.sink_mut(self.sink);
        if let Some(error) = sink.failure.take() {
            process.end_failed = true;
            return Poll::Ready(Err(error));
        }
        if sink.unanswered < self.unanswered_max {
            return Poll::Ready(Ok(()));
        }
        sink.waker = Some(context.waker().clone());
        Poll::Pending
    }

    fn send(&mut self, token: SendToken, outgoing: OutgoingBatch<'_>) -> Result<(), SinkBusy> {
        let mut world = self.world.lock();
        if !world.call(self.process) {
            return Ok(());
        }
        let destination = self.first_destination + outgoing.destination();
        if world.process_mut(self.process).sink_mut(self.sink).unanswered >= self.unanswered_max {
            world.note_busy(self.process, destination);
            return Err(SinkBusy);
        }
        world.send(self.process, destination, token, &outgoing);
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
        let sink = process.sink_mut(self.sink);
        if let Some(error) = sink.failure.take() {
            process.end_failed = true;
            return Poll::Ready(Err(error));
        }
        if sink.outcomes.is_empty() {
            sink.waker = Some(context.waker().clone());
            return Poll::Pending;
        }
        let arrived: Vec<_> = sink.outcomes.drain(..).collect();
        for outcome in arrived {
            world.tell_outcome(self.process, &outcome);
            outcomes.push(SendOutcome { token: outcome.token, result: outcome.result.map_err(Box::new) });
        }
        Poll::Ready(Ok(()))
    }
}
