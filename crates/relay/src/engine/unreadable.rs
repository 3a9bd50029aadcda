//! Records of the source that can't be read.
//!
//! A source hands them over as a batch of one event, whose message is the bytes of the log. It goes to no sink and through no
//! transform: the one send that it has is refused at once, as that of an [unfit](super::transforming) event is. So it is a poison event
//! like any other: nothing before it is lost, no checkpoint covers it before it is put aside, and where the relay holds or stops, none
//! does at all. It is taken up once nothing before it in its partition is under way, since it may fail the partition at once.

use connect::event::{EventBatch, Unreadable};
use connect::sink::{ErrorClass, SendError};

use super::accepted::Accepted;
use super::transforming::UNFIT_AT;
use super::{Relay, RelayError};
use crate::regroup::Group;

/// Adds the only group of an unreadable batch, unless the batch has been put aside before its partition failed.
pub(super) fn group(batch: &EventBatch, accepted: &Accepted, order: &mut Vec<u32>, groups: &mut Vec<Group>) {
    let is_put_aside = |number| accepted.contains(number, UNFIT_AT);
    if !batch.last_sequence_number().is_some_and(is_put_aside) {
        order.push(0);
        groups.push(Group { sink: UNFIT_AT, destination: 0, start: 0, end: 1 });
    }
}

impl Relay {
    /// Whether a send is that of a batch which can't be read. Hot path.
    #[inline]
    pub(super) fn is_unreadable(&self, send: u32) -> bool {
        self.unreadable(send).is_some()
    }

    #[inline]
    fn unreadable(&self, send: u32) -> Option<&Unreadable> {
        self.slots.in_flight(self.sends.slot(send)).batch.unreadable()
    }

    /// Returns the error by which the send of an unreadable batch is refused; `None` if it is another batch.
    pub(super) fn unreadable_error(&self, send: u32) -> Option<SendError> {
        self.unreadable(send).map(|unreadable| SendError {
            class: ErrorClass::Fatal,
            condition: CONDITION.to_owned(),
            description: unreadable.reason.clone(),
        })
    }

    /// Counts and logs an unreadable batch.
    pub(super) fn report_unreadable(&mut self, send: u32) {
        let batch = &self.slots.in_flight(self.sends.slot(send)).batch;
        let Some(unreadable) = batch.unreadable() else {
            return;
        };
        self.metrics.unreadable_batches += 1;
        self.metrics.unreadable_records += unreadable.records;
        tracing::error!(
            partition = batch.partition().0,
            first = unreadable.numbers.start,
            last = unreadable.numbers.end - 1,
            records = unreadable.records,
            bytes = batch.message_bytes(),
            reason = unreadable.reason,
            "records of the source can't be read"
        );
    }

    /// Returns the error by which a relay stops that is to stop for poison events; `None` if it is another batch.
    pub(super) fn unreadable_failure(&self, send: u32) -> Option<RelayError> {
        let batch = &self.slots.in_flight(self.sends.slot(send)).batch;
        batch.unreadable().map(|unreadable| RelayError::Unreadable {
            partition: batch.partition(),
            first: unreadable.numbers.start,
            last: unreadable.numbers.end - 1,
            records: unreadable.records,
            reason: unreadable.reason.clone(),
        })
    }
}

/// The condition of such records.
pub(super) const CONDITION: &str = "parshall:unreadable-records";
