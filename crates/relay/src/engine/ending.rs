//! How a relay ends: because it is asked to, or because of an error that can't mend itself. In both cases it stops in good
//! order: it takes up nothing more, finishes what is under way, writes its progress and gives its claims back.
//!
//! A stop for an error differs in what it waits for. The outcomes of sends that were made are awaited, but none is tried
//! again, and nothing is waited for that can't come any more:
//!
//! | what failed | what is under way |
//! |---|---|
//! | a partition of the source, the checkpoints at the start, a policy that says so | its outcomes are awaited |
//! | the source as a whole | the same; messages can't be settled any more and are given up at once |
//! | a send, for good | its batch is given up, the outcomes of others are awaited |
//! | the sink as a whole, or it has no connection at present | given up at once |
//!
//! What is given up is read and sent again by the next relay. Messages under locks are given back, without a failed delivery
//! being counted for them.

use connect::sink::SinkError;
use connect::source::SourceError;

use super::partition::{Completes, State};
use super::sends::Stage;
use super::{Relay, RelayError};
use crate::metrics::{Closing, Metrics};

/// What a relay did, told when it has stopped.
#[derive(Clone, Debug)]
pub struct Summary {
    /// How it ended.
    pub ended: Ended,
    /// Everything it counted.
    pub metrics: Metrics,
}

/// How a graceful stop ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// Everything that was under way was accepted or failed, and the progress is written.
    Finished,
    /// The time for stopping was over before that. What was under way will be read and sent again by the next relay.
    TimedOut {
        /// Batches that were still under way.
        batches: usize,
    },
}

impl Relay {
    /// Stops in good order because of an error, which [`run`](Self::run) returns in the end.
    pub(super) fn fail(&mut self, error: RelayError) {
        self.failure.get_or_insert(error);
        if self.stop_by.is_none() {
            self.begin_stop();
        }
    }

    /// The source can't go on as a whole, and is not polled any more. Only between the steps of a turn.
    pub(super) fn fail_source(&mut self, error: SourceError) {
        self.failed_source = true;
        self.fail(error.into());
        if self.source.settles() {
            self.give_up_all();
        }
    }

    /// A sink can't go on as a whole, and none is polled any more. Only between the steps of a turn.
    pub(super) fn fail_sink(&mut self, sink: u32, error: SinkError) {
        self.outlets.get_mut(sink).failed = true;
        self.failed_sink = true;
        self.fail(RelayError::Sink { index: sink as usize, source: error });
        self.give_up_all();
    }

    /// Gives up what a relay that stops for an error does not wait for. Says whether there was anything.
    #[cold]
    pub(super) fn give_up_hopeless(&mut self) -> bool {
        if self.slots.is_empty() {
            return false;
        }
        if self.outlets.outage().is_some() {
            self.give_up_all();
            return true;
        }
        let waits = |&send: &u32| self.sends.send(send).stage == Stage::BackingOff;
        let waiting: Vec<u32> = self.sends_under_way().filter(waits).collect();
        let any = !waiting.is_empty();
        self.give_up_sends(waiting);
        any
    }

    fn give_up_all(&mut self) {
        let all = self.sends_under_way().collect();
        self.give_up_sends(all);
        self.outlets.iter_mut().for_each(|(_, outlet)| outlet.blocked.clear());
    }

    /// Gives up sends, and the partitions that they are of where these have an order.
    fn give_up_sends(&mut self, sends: Vec<u32>) {
        for send in sends {
            // Those of a partition end together.
            if self.sends.send(send).stage == Stage::Over {
                continue;
            }
            let index = self.slots.in_flight(self.sends.slot(send)).partition;
            match self.partitions[index].completion {
                Completes::BySettlement => self.give_up(send),
                Completes::ByCheckpoint => {
                    self.partitions[index].state = State::Closed;
                    self.abandon(index);
                    self.write_soon(index);
                }
            }
        }
    }

    /// The sends of all batches under way that are not over.
    fn sends_under_way(&self) -> impl Iterator<Item = u32> {
        let of_batches = self.slots.under_way().flat_map(|in_flight| self.sends.of_batch(in_flight.sends));
        of_batches.filter(|&send| self.sends.send(send).stage != Stage::Over)
    }

    /// Takes up nothing more, and finishes what is under way.
    pub(super) fn begin_stop(&mut self) {
        self.now = tokio::time::Instant::now().into_std();
        self.stop_by = Some(self.now + self.options.stop_timeout);
        for index in 0..self.partitions.len() {
            if self.partitions[index].state.takes_batches() {
                self.source.close(self.partitions[index].id);
                self.release_parked(index);
                self.cut(index);
                self.partitions[index].state = State::Ending;
                self.metrics.count_closing(Closing::Stop);
            } else {
                self.partitions[index].state = State::Closed;
            }
            self.write_soon(index);
        }
    }

    /// How the relay has ended, once it is to stop and either nothing is left to do or its time is over.
    pub(super) fn ended(&self) -> Option<Ended> {
        let stop_by = self.stop_by?;
        if self.slots.is_empty()
            && (self.failed_source || self.source.is_settled())
            && self.partitions.iter().all(|partition| partition.progress.is_settled())
            && self.is_all_stored()
            && self.sharing.as_ref().is_none_or(|sharing| sharing.is_over())
        {
            Some(Ended::Finished)
        } else if self.now >= stop_by {
            Some(Ended::TimedOut { batches: self.slots.len() })
        } else {
            None
        }
    }
}
