//! From a burst of transfers to the logs of their partitions. Hot path.
//!
//! ```text
//!  transfers as they came     a₁ b₁ a₂ c₁ b₂ a₃        on any links, to partitions a, b, c
//!  appended                   [a₁ a₂ a₃] [b₁ b₂] [c₁]  each partition's as one batch: one lock, one header
//! ```
//!
//! The transfers that one read brings are taken apart where they lie, without any lock, and appended partition by
//! partition; within a partition their order stays. Where a log refuses a run, its transfers are appended one by one, so
//! that each gets the outcome that is its own. The events of one transfer share theirs in any case.
//!
//! A transfer of a producer that numbers its events is a batch of its own, as which it is recognised when it comes again.

use std::cell::RefCell;

use amqp::performative::{DeliveryState, ErrorCondition};

use super::event_key;
use super::idempotent::{self, NumberedProducer, Numbering};
use super::incoming::{Incoming, MessageError};
use super::publish::{PublishLink, malformed, refused};
use crate::front::amqp::conditions::rejected;
use crate::front::amqp::links::node::Stored;
use crate::namespace::Partition;
use partition_log::disk::CommitNumber;
use partition_log::{Appended, ProduceError, Produced, ProducerStamp, UnixTime};
use units::recycled::{bounded, emptied};

/// What became of the transfers of a burst.
#[derive(Debug, Default)]
pub(crate) struct Burst {
    pub(crate) stored: Stored,
    /// Memory for the next burst.
    spare: Taken<'static>,
}

/// The transfers of a burst, by partition.
#[derive(Debug, Default)]
struct Taken<'a> {
    incoming: Incoming<'a>,
    transfers: Vec<Transfer>,
    runs: Vec<Run<'a>>,
    /// Transfers of producers that number their events. Each is a batch of its own.
    numbered: Vec<Numbered<'a>>,
}

#[derive(Debug)]
struct Transfer {
    /// Where its events end; they begin where those of the transfer before end.
    events_end: u32,
    bytes: u32,
    /// The next one to the same partition.
    next: Option<u32>,
}

/// Transfers to one partition, as a list.
#[derive(Debug)]
struct Run<'a> {
    partition: &'a Partition,
    first: u32,
    last: u32,
    count: u32,
    bytes: u32,
}

/// A transfer of a producer that numbers its events.
#[derive(Debug)]
struct Numbered<'a> {
    partition: &'a Partition,
    place: u32,
    stamp: ProducerStamp,
}

impl Burst {
    /// Uses the burst of this thread. One serves all connections: a connection at rest is to hold little.
    pub(crate) fn with<R>(use_it: impl FnOnce(&mut Self) -> R) -> R {
        thread_local! {
            static BURST: RefCell<Burst> = RefCell::default();
        }
        BURST.with_borrow_mut(use_it)
    }

    /// Stores transfers, each given by its link, its format and its bytes.
    pub(crate) fn store<'a>(
        &mut self,
        transfers: impl Iterator<Item = (&'a PublishLink, u32, &'a [u8])>,
        now: UnixTime,
    ) {
        self.stored.refused.clear();
        let mut taken: Taken<'a> = std::mem::take(&mut self.spare).emptied();
        // Found again at once while the links take turns.
        let mut recent = [u32::MAX; RECENT];
        for (place, (link, format, message)) in transfers.enumerate() {
            if let Err(outcome) = taken.take_in(link, format, message, &mut recent) {
                self.stored.refused.push((place, outcome));
            }
        }
        self.stored.commits.clear();
        self.stored.commits.resize(taken.transfers.len(), CommitNumber::DONE);
        for run in &taken.runs {
            self.store_run(&taken, run, now);
        }
        for numbered in &taken.numbered {
            self.store_numbered(&taken, numbered, now);
        }
        // Those that could not even be read came first.
        self.stored.refused.sort_unstable_by_key(|(place, _)| *place);
        self.spare = taken.emptied();
    }

    fn store_run(&mut self, taken: &Taken<'_>, run: &Run<'_>, now: UnixTime) {
        if run.partition.is_deleted() {
            return self.stored.refused.extend(taken.places(run.first).map(|place| (place, gone())));
        }
        if run.bytes <= TOGETHER_MAX {
            return self.store_together(taken, run.partition, run.first, run.count as usize, now);
        }
        let mut next = Some(run.first);
        while let Some(first) = next {
            let mut bytes = 0;
            let fits = |place: &usize| {
                let is_first = bytes == 0;
                bytes = taken.transfers[*place].bytes.saturating_add(bytes);
                is_first || bytes <= TOGETHER_MAX
            };
            let count = taken.places(first).take_while(fits).count();
            next = taken.places(first).nth(count).map(|place| place as u32);
            self.store_together(taken, run.partition, first, count, now);
        }
    }

    /// Stores the `count` transfers of a run from `first` on as one batch.
    fn store_together(
        &mut self,
        taken: &Taken<'_>,
        partition: &Partition,
        first: u32,
        count: usize,
        now: UnixTime,
    ) {
        if count == 1 {
            return self.store_alone(taken, partition, first as usize, now);
        }
        let places = || taken.places(first).take(count);
        let appended = partition.append_together::<std::convert::Infallible>(now, count as u64, |encoder| {
            places().for_each(|place| taken.incoming.push_to(encoder, taken.events_of(place)));
            Ok(())
        });
        match appended {
            Ok(appended) if appended.commit.is_done() => {}
            Ok(appended) => places().for_each(|place| self.stored.commits[place] = appended.commit),
            Err(_) => places().for_each(|place| self.store_alone(taken, partition, place, now)),
        }
    }

    fn store_alone(&mut self, taken: &Taken<'_>, partition: &Partition, place: usize, now: UnixTime) {
        let appended = partition.append(now, |encoder| {
            taken.incoming.push_to(encoder, taken.events_of(place));
            Ok(())
        });
        match appended {
            Ok(appended) => self.stored.commits[place] = appended.commit,
            Err(error) => self.stored.refused.push((place, refused(error))),
        }
    }

    /// Stores a transfer of a producer that numbers its events, unless it was stored before.
    #[cold]
    fn store_numbered(&mut self, taken: &Taken<'_>, numbered: &Numbered<'_>, now: UnixTime) {
        let &Numbered { partition, place, ref stamp } = numbered;
        let place = place as usize;
        if partition.is_deleted() {
            return self.stored.refused.push((place, gone()));
        }
        let events = taken.events_of(place);
        let produced = partition.append_produced(now, stamp, events.len() as u32, |encoder| {
            taken.incoming.push_to(encoder, events.clone());
            Ok(())
        });
        match produced {
            Ok(Produced::Stored(Appended { commit, .. }) | Produced::Duplicate { commit, .. }) => {
                self.stored.commits[place] = commit;
            }
            Err(ProduceError::Append(error)) => self.stored.refused.push((place, refused(error))),
            Err(ProduceError::Producer(error)) => {
                self.stored.refused.push((place, idempotent::refused(&error)))
            }
        }
    }
}

impl<'a> Taken<'a> {
    /// Takes in a transfer.
    ///
    /// # Errors
    /// The outcome of one that can't be read; it takes its place all the same, and is in no run.
    #[inline]
    fn take_in(
        &mut self,
        link: &'a PublishLink,
        format: u32,
        message: &'a [u8],
        recent: &mut [u32; RECENT],
    ) -> Result<(), DeliveryState> {
        let partition = link.partition_for(format, message);
        let read = partition.and_then(|partition| {
            self.incoming.take_in(format, message, link.publisher())?;
            Ok(partition)
        });
        let place = self.transfers.len() as u32;
        let events_end = self.incoming.event_count() as u32;
        self.transfers.push(Transfer { events_end, bytes: message.len() as u32, next: None });
        if let Ok(partition) = &read
            && partition.requires_keys()
        {
            self.check_keys(place)?;
        }
        match (read, &link.numbering) {
            (Ok(partition), Numbering::Unused) => self.add_to_run(partition, place, recent),
            (Ok(partition), Numbering::OfProducer(producer)) => {
                self.add_numbered(producer, partition, place)?
            }
            (Ok(partition), Numbering::Misplaced) => {
                idempotent::reject_numbers(self.incoming.annotations(self.events_of(place as usize)))?;
                self.add_to_run(partition, place, recent);
            }
            (Err(error), _) => return Err(malformed(&error)),
        }
        Ok(())
    }

    /// Checks that each event of a transfer has a key.
    #[cold]
    fn check_keys(&self, place: u32) -> Result<(), DeliveryState> {
        for (count, annotations) in self.incoming.annotations(self.events_of(place as usize)) {
            let has_key = event_key::has_key(count, annotations);
            if !has_key.map_err(|error| malformed(&MessageError::Malformed(error)))? {
                return Err(event_key::missing());
            }
        }
        Ok(())
    }

    #[cold]
    fn add_numbered(
        &mut self,
        producer: &NumberedProducer,
        partition: &'a Partition,
        place: u32,
    ) -> Result<(), DeliveryState> {
        let annotations = self.incoming.annotations(self.events_of(place as usize));
        let stamp = producer.stamp(annotations)?;
        self.numbered.push(Numbered { partition, place, stamp });
        Ok(())
    }

    #[inline]
    fn add_to_run(&mut self, partition: &'a Partition, place: u32, recent: &mut [u32; RECENT]) {
        // Partitions of a hub are numbered, so those that take turns don't get in each other's way.
        let recent = &mut recent[usize::from(partition.id()) % RECENT];
        let is_of = |run: &Run<'_>| std::ptr::eq(run.partition, partition);
        if !self.runs.get(*recent as usize).is_some_and(is_of) {
            let known = self.runs.iter().position(is_of).unwrap_or(self.runs.len());
            *recent = known as u32;
        }
        let bytes = self.transfers[place as usize].bytes;
        match self.runs.get_mut(*recent as usize) {
            Some(run) => {
                self.transfers[run.last as usize].next = Some(place);
                run.last = place;
                run.count += 1;
                run.bytes = run.bytes.saturating_add(bytes);
            }
            None => self.runs.push(Run { partition, first: place, last: place, count: 1, bytes }),
        }
    }

    /// The places of the transfers of a run, from one of them on.
    fn places(&self, first: u32) -> impl Iterator<Item = usize> {
        let next = |place: &u32| self.transfers[*place as usize].next;
        std::iter::successors(Some(first), next).map(|place| place as usize)
    }

    fn events_of(&self, place: usize) -> std::ops::Range<usize> {
        let start = match place {
            0 => 0,
            place => self.transfers[place - 1].events_end,
        };
        start as usize..self.transfers[place].events_end as usize
    }

    /// The memory for another burst, if it is not too much of it.
    fn emptied<'b>(self) -> Taken<'b> {
        Taken {
            incoming: self.incoming.emptied(),
            transfers: bounded(emptied(self.transfers), KEPT_TRANSFERS),
            runs: bounded(emptied(self.runs), KEPT_TRANSFERS),
            numbered: bounded(emptied(self.numbered), KEPT_TRANSFERS),
        }
    }
}

/// The outcome of a transfer to a deleted hub.
#[cold]
fn gone() -> DeliveryState {
    rejected(ErrorCondition::NOT_FOUND, "The messaging entity could not be found: it was deleted.")
}

/// Bytes of transfers that are appended as one batch, unless one transfer has more. A larger batch would save nothing, and
/// leave more of a block unused where it does not fit any longer.
const TOGETHER_MAX: u32 = 64 * 1024;

/// Partitions whose runs are found at once.
const RECENT: usize = 64;

/// Transfers for which memory is kept between bursts: about what the usual input buffer holds of the smallest.
const KEPT_TRANSFERS: usize = 4096;

#[cfg(test)]
mod tests;
