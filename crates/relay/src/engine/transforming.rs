//! Transforms: a batch that is taken up may get other messages, and not every sink gets each of its events.
//!
//! The batch keeps all its events, and its place in the watermark. What a sink doesn't get is left out of its groups; what no sink
//! gets is done with: the watermark passes it with the rest of its batch, and a message is completed.
//!
//! An event of which nobody can say who gets it is a poison event of the first sink. It has a send of its own there, which
//! is not made but refused at once, so that everything that is so for poison events is so for it. A message of a queue is abandoned.

use connect::event::EventBatch;
use connect::sink::{ErrorClass, SendError};
use connect::source::Settlement;
use connect::transform::{Refused, SINKS_MAX, Selection, Transform};

use super::Relay;
use super::accepted::Accepted;
use super::in_flight::{GIVEN_UP, InFlight};
use super::partition::Completes;
use crate::regroup::Group;

/// What a transform says of the batch that was taken up last.
#[derive(Debug)]
pub(super) struct Transforming {
    transform: Box<dyn Transform>,
    selection: Selection,
    settles: bool,
    /// The slot of the batch, once it has one.
    slot: Option<u32>,
}

impl Transforming {
    /// Leaves out of the groups of a sink, from the `first` on, what it doesn't get. Groups of which nothing is left are removed.
    pub(super) fn select(&self, sink: u32, order: &mut [u32], groups: &mut Vec<Group>, first: usize) {
        if self.selection.is_everything() {
            return;
        }
        let mut kept = first;
        for at in first..groups.len() {
            let mut group = groups[at];
            let mut end = group.start;
            for position in group.start..group.end {
                let event = order[position as usize];
                order[end as usize] = event;
                end += u32::from(self.selection.contains(event, sink));
            }
            group.end = end;
            if group.start < group.end {
                groups[kept] = group;
                kept += 1;
            }
        }
        groups.truncate(kept);
    }

    /// Adds a group of the first sink for each event of which nobody can say who gets it, unless that has been put aside before its
    /// partition failed. Whatever else the sink has accepted by now says nothing of such an event, so these groups come last.
    pub(super) fn add_unfit(
        &self,
        batch: &EventBatch,
        accepted: &Accepted,
        order: &mut Vec<u32>,
        groups: &mut Vec<Group>,
    ) {
        if self.settles {
            return;
        }
        for &Refused { event, .. } in self.selection.refused() {
            if !accepted.contains(batch.events()[event as usize].sequence_number, UNFIT_AT) {
                // Sinks times events of a batch, which are counted in 32 bits.
                let start = order.len() as u32;
                order.push(event);
                groups.push(Group { sink: UNFIT_AT, destination: 0, start, end: start + 1 });
            }
        }
    }

    fn refusal_of(&self, event: u32) -> Option<&Refused> {
        self.selection.refused().iter().find(|refused| refused.event == event)
    }
}

impl Relay {
    /// Takes every batch through `transform` before its events are sent.
    ///
    /// # Panics
    /// When there are more sinks than a transform can tell apart.
    pub fn transform_by(&mut self, transform: Box<dyn Transform>) {
        assert!(self.outlets.len() <= SINKS_MAX, "a relay with a transform has {SINKS_MAX} sinks at most");
        self.transforming = Some(Box::new(Transforming {
            transform,
            selection: Selection::default(),
            settles: self.source.settles(),
            slot: None,
        }));
    }

    /// A batch is taken up: changes it, and finds out who gets its events. Hot path.
    pub(super) fn transform(&mut self, batch: &mut EventBatch) {
        let Some(transforming) = &mut self.transforming else {
            return;
        };
        let before = batch.message_bytes();
        let Transforming { transform, selection, slot, .. } = &mut **transforming;
        *slot = None;
        if batch.unreadable().is_some() {
            *selection = Selection::default();
            return;
        }
        transform.apply(batch, selection);
        self.held_bytes = self.held_bytes - before + batch.message_bytes();
        if selection.is_everything() {
            return;
        }
        let events = batch.len() as u32;
        for (sink, filtered) in (0..).zip(&mut self.metrics.filtered_events) {
            let left_out = (0..events).filter(|&event| !selection.contains(event, sink)).count();
            *filtered += (left_out - selection.refused().len()) as u64;
        }
    }

    /// Settles the messages of a batch that no sink gets, and notes in `awaited`, where there are several sinks, how many have to
    /// accept the others. Says whether one was abandoned.
    pub(super) fn settle_unselected(&mut self, batch: &EventBatch, awaited: &mut [u8]) -> bool {
        let Some(transforming) = self
            .transforming
            .as_deref()
            .filter(|transforming| transforming.settles && !transforming.selection.is_everything())
        else {
            return false;
        };
        let sinks = self.outlets.len();
        for event in 0..batch.len() as u32 {
            let takers = transforming.selection.sinks_of(event, sinks);
            if let Some(awaited) = awaited.get_mut(event as usize) {
                // A pipeline has fewer sinks than fit into a byte.
                *awaited = if takers == 0 { GIVEN_UP } else { takers as u8 };
            }
            if takers > 0 {
                continue;
            }
            let settlement = match transforming.refusal_of(event) {
                None => Settlement::Complete,
                Some(Refused { reason, .. }) => {
                    let number = batch.events()[event as usize].sequence_number;
                    tracing::error!(sequence_number = number, %reason, "{UNFIT}; the message is abandoned");
                    self.metrics.poison_events += 1;
                    Settlement::Abandon
                }
            };
            self.source.settle(batch, &[event], settlement);
        }
        !transforming.selection.refused().is_empty()
    }

    /// A batch has its slot.
    pub(super) fn note_slot(&mut self, slot: u32) {
        if let Some(transforming) = &mut self.transforming {
            transforming.slot = Some(slot);
        }
    }

    /// Why a send must not be made, if it is that of an event of which nobody can say who gets it.
    fn refusal_of(&self, send: u32) -> Option<&Refused> {
        let transforming = self.transforming.as_deref().filter(|transforming| {
            !transforming.selection.refused().is_empty() && transforming.slot == Some(self.sends.slot(send))
        })?;
        let of = self.sends.send(send);
        let InFlight { partition, order, .. } = self.slots.in_flight(self.sends.slot(send));
        let is_such =
            of.sink == UNFIT_AT && self.partitions[*partition].completion == Completes::ByCheckpoint;
        is_such.then(|| transforming.refusal_of(order[of.start() as usize]))?
    }

    /// Whether a send must not be made. Hot path.
    #[inline]
    pub(super) fn is_unfit(&self, send: u32) -> bool {
        self.is_unreadable(send) || (self.transforming.is_some() && self.refusal_of(send).is_some())
    }

    /// Keeps a send back until those of the other events of its batch were made.
    pub(super) fn hold_back(&mut self, send: u32) {
        self.held_back.push(self.sends.token(send));
    }

    /// Refuses what was held back. The batch may be complete afterwards, or have failed.
    #[cold]
    pub(super) fn refuse_held_back(&mut self) {
        for token in std::mem::take(&mut self.held_back) {
            // Unless its partition was given up because of one before.
            if let Some(send) = self.sends.of_token(token) {
                self.refuse_unfit(send);
            }
        }
    }

    /// Refuses a send of which [`is_unfit`](Self::is_unfit) is true. Its batch may be complete afterwards, or have failed.
    #[cold]
    pub(super) fn refuse_unfit(&mut self, index: u32) {
        let error = self.unreadable_error(index).unwrap_or_else(|| {
            let reason = self.refusal_of(index).map(|refused| refused.reason.clone()).unwrap_or_default();
            SendError { class: ErrorClass::Fatal, condition: CONDITION.to_owned(), description: reason }
        });
        let send = self.sends.send_mut(index);
        send.part_end = send.end;
        self.poison(index, &error);
    }
}

/// The sink that events are refused at.
pub(super) const UNFIT_AT: u32 = 0;

/// The condition of such a refusal.
pub(super) const CONDITION: &str = "parshall:transform-failed";

/// What is logged of it.
pub(super) const UNFIT: &str = "an expression can't be evaluated for an event";
