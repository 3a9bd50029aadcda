//! Producers, the source hub, and the links on which its events travel to the relays.

use connect::event::{EventBatch, PartitionId};
use connect::sink::ErrorClass;
use connect::source::{SourceError, StartPosition};

use super::{Event, Side, World};
use crate::config::between;
use crate::defect::Defect;
use crate::durable_log::Stored;
use crate::message;
use crate::process::Inbound;
use crate::source::events_of;
use crate::trace::{Events, What};

/// The hub's end of a receiving link.
#[derive(Debug)]
pub(super) struct Link {
    pub(super) process: u32,
    pub(super) partition: u32,
    /// The next event to send; none before the hub knows of the link.
    next: Option<u64>,
    start: u64,
    sent: u64,
    limit: u64,
    /// Nothing on the way there, or back, is overtaken.
    last_request_ms: u64,
    last_arrival_ms: u64,
}

impl World {
    /// Plans when producers append what.
    pub(super) fn plan_appends(&mut self) {
        let config = self.config();
        let mut left = config.events;
        while left > 0 {
            let random = &mut self.random.load;
            let count = (between(random, 1, 12) as u32).min(left);
            let partition = random.below(u64::from(config.partitions)) as u32;
            let at = random.below(config.faults.until_ms);
            let at = if config.spread_events { at } else { 0 };
            left -= count;
            self.appends_left += 1;
            self.after(at, Event::Append { partition, count });
        }
    }

    /// A producer appends; if the hub is down it comes back.
    pub(super) fn append(&mut self, partition: u32, count: u32) {
        if !self.source_up {
            let delay = between(&mut self.random.load, 1, 100);
            self.after(delay, Event::Append { partition, count });
            return;
        }
        self.appends_left -= 1;
        let (seed, largest) = (self.config.seed, self.config.largest_message);
        let messages: Vec<_> = (0..count)
            .map(|_| {
                self.ids += 1;
                message::message(seed, partition, self.ids, largest)
            })
            .collect();
        let now = self.now_ms();
        let log = &mut self.source[partition as usize].log;
        let first = log.end();
        log.append(now, messages.iter().map(Vec::as_slice));
        let events = events(partition, first, log.end());
        self.note(None, What::Appended(events));
        self.commit_soon(Side::Source, partition);
        if self.has_defect(Defect::SourceServesUncommitted) {
            self.pump_partition(partition);
        }
    }

    /// Events have become durable at the source.
    pub(super) fn committed_source(&mut self, partition: u32, records: Vec<Stored>) {
        let (Some(first), Some(last)) = (records.first(), records.last()) else {
            return;
        };
        let events = events(partition, first.sequence_number, last.sequence_number + 1);
        self.note(None, What::Committed(events));
        self.audit.commit_source(partition, records.into_iter().map(|record| record.message));
        self.pump_partition(partition);
    }

    /// A relay opens a partition; returns the number of the link.
    pub(crate) fn open_link(
        &mut self,
        process: u32,
        partition: PartitionId,
        position: &StartPosition,
    ) -> u64 {
        let next = match position {
            StartPosition::AfterOffset(offset) => offset.parse().map_or(-1, |offset: i64| offset / 10 + 1),
            StartPosition::AfterSequenceNumber(number) => number + 1,
            // What the options of all histories say.
            _ => 0,
        };
        let partition = partition.0;
        self.note(Some(process), What::Opened { partition, next });
        let checked = self.audit.open(process, partition, next);
        self.check(checked);
        let mut start = next.max(0).cast_unsigned();
        if self.has_defect(Defect::SourceSkips) && start > 0 {
            start += 1;
        }
        let link = self.number();
        let arrival = self.now_ms() + self.network_ms();
        self.links.insert(
            link,
            Link {
                process,
                partition,
                next: None,
                start,
                sent: 0,
                limit: 0,
                last_request_ms: arrival,
                last_arrival_ms: 0,
            },
        );
        self.at(arrival, Event::OpenArrives { link });
        link
    }

    /// A relay closes a partition.
    pub(crate) fn close_link(&mut self, process: u32, link: u64) {
        let Some(partition) = self.links.get(&link).map(|link| link.partition) else {
            return;
        };
        self.note(Some(process), What::Closed { partition });
        self.request(link, Event::CloseArrives { link });
    }

    /// A relay lets the hub send more.
    pub(crate) fn send_credit(&mut self, link: u64, limit: u64) {
        self.request(link, Event::CreditArrives { link, limit });
    }

    /// The source of a relay hands a batch over.
    pub(crate) fn hand_over(&mut self, process: u32, batch: &EventBatch) {
        let events = events_of(batch);
        self.note(Some(process), What::HandedOver(events));
        let checked = self.audit.hand_over(process, events, batch.message_bytes());
        self.check(checked);
    }

    /// A relay gives a batch back.
    pub(crate) fn release(&mut self, process: u32, batch: &EventBatch) {
        if self.process(process).alive {
            let events = events_of(batch);
            self.note(Some(process), What::Released(events));
            self.audit.release(process, events, batch.message_bytes());
        }
    }

    pub(super) fn open_arrives(&mut self, link: u64) {
        let Some(Link { process, partition, start, .. }) = self.links.get(&link) else {
            return;
        };
        let (process, partition, start) = (*process, *partition, *start);
        if !self.source_up {
            self.detach(link, "amqp:connection:forced");
            return;
        }
        if start > self.source[partition as usize].log.end() {
            self.detach(link, "com.microsoft:argument-out-of-range");
            return;
        }
        let steals = self.config.sharing.as_ref().is_some_and(|sharing| sharing.epochs);
        let others: Vec<u64> = self
            .links
            .iter()
            .filter(|(_, other)| {
                other.partition == partition && other.process != process && other.next.is_some()
            })
            .map(|(&other, _)| other)
            .collect();
        for other in others {
            if steals {
                self.detach(other, "amqp:link:stolen");
            }
        }
        if let Some(link) = self.links.get_mut(&link) {
            link.next = Some(start);
        }
        self.pump(link);
    }

    pub(super) fn credit_arrives(&mut self, link: u64, limit: u64) {
        if let Some(state) = self.links.get_mut(&link) {
            state.limit = state.limit.max(limit);
            self.pump(link);
        }
    }

    /// Records reach a relay, unless its link broke in the meantime.
    pub(super) fn deliver(&mut self, link: u64, records: Vec<Stored>) {
        let Some(Link { process, partition, .. }) = self.links.get(&link) else {
            return;
        };
        let (process, partition) = (*process, *partition);
        let (Some(first), Some(last)) = (records.first(), records.last()) else {
            return;
        };
        let arrived = events(partition, first.sequence_number, last.sequence_number + 1);
        self.note(Some(process), What::Arrived(arrived));
        let state = self.process_mut(process);
        state.inbound.push_back(Inbound::Records { link, records });
        state.wake_source();
    }

    /// The hub ends a link: what is on its way is lost, and the relay learns of it later.
    pub(super) fn detach(&mut self, link: u64, condition: &'static str) {
        let Some(state) = self.links.get_mut(&link) else {
            return;
        };
        state.next = None;
        state.limit = 0;
        state.start = u64::MAX;
        let last = state.last_arrival_ms;
        let arrival = last.max(self.now_ms() + self.network_ms());
        self.at(arrival, Event::Detach { link, condition });
    }

    pub(super) fn detach_arrives(&mut self, link: u64, condition: &'static str) {
        let Some(Link { process, partition, .. }) = self.links.remove(&link) else {
            return;
        };
        let error = SourceError {
            class: ErrorClass::Retryable,
            condition: condition.to_owned(),
            description: "as the seed has it".to_owned(),
        };
        let state = self.process_mut(process);
        state.inbound.push_back(Inbound::Detached { link, partition: PartitionId(partition), error });
        state.wake_source();
    }

    /// Links of a partition that deliver.
    pub(super) fn open_links(&self) -> Vec<u64> {
        let open = self.links.iter().filter(|(_, link)| link.next.is_some());
        open.map(|(&link, _)| link).collect()
    }

    fn pump_partition(&mut self, partition: u32) {
        for link in self.open_links() {
            if self.links[&link].partition == partition {
                self.pump(link);
            }
        }
    }

    /// Sends what the link's credit allows and the log has, in pieces of any size.
    fn pump(&mut self, link: u64) {
        let uncommitted = self.has_defect(Defect::SourceServesUncommitted);
        loop {
            let Some(state) = self.links.get_mut(&link) else {
                return;
            };
            let Some(next) = state.next else { return };
            let log = &self.source[state.partition as usize].log;
            let end = if uncommitted { log.end() } else { log.committed() };
            let most = end.saturating_sub(next).min(state.limit.saturating_sub(state.sent));
            if most == 0 {
                return;
            }
            let count = between(&mut self.random.hub, 1, most);
            let records = log.records(next, next + count);
            state.next = Some(next + count);
            state.sent += count;
            let last = state.last_arrival_ms;
            let arrival = last.max(self.now_ms() + self.network_ms());
            if let Some(state) = self.links.get_mut(&link) {
                state.last_arrival_ms = arrival;
            }
            self.at(arrival, Event::Delivery { link, records });
        }
    }

    /// Something travels from a relay to the hub on a link.
    fn request(&mut self, link: u64, event: Event) {
        let arrival = self.now_ms() + self.network_ms();
        if let Some(state) = self.links.get_mut(&link) {
            state.last_request_ms = state.last_request_ms.max(arrival);
            let at = state.last_request_ms;
            self.at(at, event);
        }
    }
}

/// Events from `first` up to and without `end`.
fn events(partition: u32, first: u64, end: u64) -> Events {
    Events { partition, first: first.cast_signed(), last: end.cast_signed() - 1 }
}
