//! The invariants, checked at every step.
//!
//! What happens is told to the [`Audit`] as it happens, and it says at once what is wrong with it. It sees what no relay
//! can see: what is durable at the destination, what the store holds, who else is at work.

use std::collections::{BTreeMap, BTreeSet};

use crate::config::Config;
use crate::message::{self, parse};
use crate::refusals::Refusals;
use crate::source::partition_key;
use crate::trace::Events;
use bytes::Bytes;
use connect::sink::OutgoingBatch;
use relay::{DispatchUnit, Order};

mod ending;
mod letters;
mod limit;
mod order;
mod violation;

pub(crate) use letters::Told;
use limit::Limit;
use order::{Keeps, Newest};
pub use violation::Violation;

/// Knows what happened and what may happen.
#[derive(Debug)]
pub(crate) struct Audit {
    seed: u64,
    largest_message: usize,
    /// Whether there is an archive.
    archives: bool,
    /// How many of the relay's sinks, archives, come before the audited ones.
    sinks_before: u32,
    /// Destinations of each sink.
    destinations: u32,
    /// Sends from a partition to a destination that may be under way at once.
    in_flight: usize,
    /// What may be in work at once, where events go one by one.
    limit: Option<Limit>,
    /// In which order a destination gets the events of a partition.
    keeps: Keeps,
    /// How many events a batch has at most, where batches are the unit.
    batch_max: Option<i64>,
    refusals: Option<Refusals>,
    held_bytes_max: usize,
    try_timeout_ms: u64,
    /// How long a claim lasts; none where nothing is shared.
    expire_ms: Option<u64>,
    partitions: Vec<PartitionAudit>,
    processes: Vec<ProcessAudit>,
    duplicates: u64,
    explained: u64,
    takeovers: u64,
    dead_letters: u64,
    /// Events that were put aside and are at their sink as well.
    both: u64,
    overtakings: u64,
}

/// A partition of the source, seen from above.
#[derive(Debug, Default)]
struct PartitionAudit {
    /// The identities of its committed events; they grow.
    ids: Vec<u64>,
    /// Their partition keys; empty for those that have none.
    keys: Vec<String>,
    /// What each sink has of them.
    sinks: Vec<SinkAudit>,
    /// Per event: whether the archive has it.
    archived: Vec<bool>,
    /// What the store holds; -1 for nothing.
    checkpoint: i64,
    /// Whose writes the store takes, where it is shared: the one who has last replaced the checkpoint by itself.
    owner: Option<u32>,
    /// The first event that a sink refuses for ever, and that is put aside nowhere.
    held_at: Option<usize>,
}

/// What the destinations of one sink have of a partition.
#[derive(Clone, Debug, Default)]
struct SinkAudit {
    /// Per event: how many times a destination has it.
    accepted: Vec<u32>,
    /// Per event: how many times it was sent.
    sent: Vec<u32>,
    /// Per event: where it went.
    destinations: Vec<Option<u32>>,
    /// How many events from the first on are accepted without a gap, or put aside.
    prefix: usize,
    newest: Newest,
    /// Per event: how many of its sends came to nothing.
    refused: Vec<u32>,
    /// Per event: how many dead letters there are of it.
    letters: Vec<u32>,
    /// Per event: how many were sent.
    letters_sent: Vec<u32>,
}

#[derive(Debug, Default)]
struct ProcessAudit {
    held_bytes: usize,
    /// How many events it can have done at most.
    done_max: u64,
    /// How many letters it was told to be accepted: in time, and when it may have given them up.
    letters_told: (u64, u64),
    views: Vec<View>,
}

/// A partition as one process has it.
#[derive(Debug)]
struct View {
    /// The checkpoint that it was told last; -1 for none.
    listed: i64,
    /// Whether the checkpoint was replaced by itself since it was opened.
    fenced: bool,
    /// When the store had its newest claim.
    claimed_at_ms: u64,
    /// The highest checkpoint of its own that was applied; -1 for none.
    written: i64,
    /// Counts how often it was opened.
    opened: u32,
    /// The next event that the source is to hand over.
    next: i64,
    /// What is known of each sink.
    sinks: Vec<SinkView>,
    /// First and last event of each batch that is held.
    batches: BTreeMap<i64, i64>,
}

/// What a process knows of one sink.
#[derive(Clone, Debug, Default)]
struct SinkView {
    /// Per event: told as accepted, whenever.
    acknowledged: Vec<bool>,
    /// Per event: told as accepted in time, since it was opened.
    settled: Vec<bool>,
    /// Per event: the send under way since it was opened.
    under_way: BTreeMap<i64, UnderWay>,
    /// Events that were refused for good, each alone, since it was opened: by which destination.
    refused: BTreeMap<i64, u32>,
}

/// A send that has no outcome yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct UnderWay {
    send: u64,
    destination: u32,
    sent_at_ms: u64,
}

/// One send, as the audit needs it.
#[derive(Clone, Debug)]
pub(crate) struct Attempt {
    pub(crate) process: u32,
    pub(crate) partition: u32,
    pub(crate) sink: u32,
    pub(crate) numbers: Vec<i64>,
    pub(crate) sent_at_ms: u64,
    opened: u32,
    /// Whether it is a dead letter, of an event that the sink refuses.
    pub(crate) is_letter: bool,
}

type Checked = Result<(), Violation>;

impl Audit {
    pub(crate) fn new(config: &Config) -> Self {
        let timeout = config.relay.retry.try_timeout.as_millis();
        let sinks = vec![SinkAudit::default(); config.sinks as usize];
        let partition =
            |_| PartitionAudit { checkpoint: -1, sinks: sinks.clone(), ..PartitionAudit::default() };
        let options = &config.relay;
        let by_event = options.dispatch_unit == DispatchUnit::Event;
        Self {
            seed: config.seed,
            largest_message: config.largest_message,
            archives: config.archive.is_some(),
            sinks_before: u32::from(config.archive.is_some_and(|archive| archive.comes_first)),
            destinations: config.destinations,
            in_flight: match (by_event, options.order) {
                (true, Order::Partition) => 1,
                (true, Order::None | Order::Key) => options.events_at_once,
                (false, _) => options.in_flight,
            },
            limit: Limit::of(options),
            keeps: Keeps::of(options),
            batch_max: (!by_event).then_some(config.source.batch.max_events as i64),
            refusals: config.refusals,
            held_bytes_max: config.relay.max_held_bytes.max(1),
            try_timeout_ms: u64::try_from(timeout).unwrap_or(u64::MAX),
            expire_ms: config.sharing.as_ref().map(|sharing| sharing.expire_ms),
            partitions: (0..config.partitions).map(partition).collect(),
            processes: Vec::new(),
            duplicates: 0,
            explained: 0,
            takeovers: 0,
            dead_letters: 0,
            both: 0,
            overtakings: 0,
        }
    }

    /// How many events came twice.
    pub(crate) fn duplicates(&self) -> u64 {
        self.duplicates
    }

    /// How often a process made a partition its own that another had.
    pub(crate) fn takeovers(&self) -> u64 {
        self.takeovers
    }

    pub(crate) fn start_process(&mut self) {
        let sinks = self.partitions.first().map_or(0, |partition| partition.sinks.len());
        let view = |_| View {
            listed: -1,
            fenced: false,
            claimed_at_ms: 0,
            written: -1,
            opened: 0,
            next: 0,
            sinks: vec![SinkView::default(); sinks],
            batches: BTreeMap::new(),
        };
        self.processes.push(ProcessAudit {
            views: (0..self.partitions.len()).map(view).collect(),
            ..ProcessAudit::default()
        });
    }

    /// Events were made durable at the source.
    pub(crate) fn commit_source(&mut self, partition: u32, messages: impl Iterator<Item = Bytes>) {
        let partition = &mut self.partitions[partition as usize];
        for message in messages {
            partition.ids.push(parse(&message).map_or(0, |(_, id)| id));
            partition.keys.push(partition_key(&message));
        }
        let count = partition.ids.len();
        for sink in &mut partition.sinks {
            sink.accepted.resize(count, 0);
            sink.sent.resize(count, 0);
            sink.destinations.resize(count, None);
            sink.refused.resize(count, 0);
            sink.letters.resize(count, 0);
            sink.letters_sent.resize(count, 0);
        }
        if let Some(refusals) = self.refusals.filter(Refusals::hold_for_ever) {
            let sinks = 0..partition.sinks.len() as u32;
            let is_refused =
                |&id: &u64| sinks.clone().any(|sink| refusals.refusal(self.seed, sink, id).is_some());
            partition.held_at = partition.ids.iter().position(is_refused);
        }
    }

    /// A process was told the checkpoint of a partition; -1 for none.
    pub(crate) fn list(&mut self, process: u32, partition: u32, sequence_number: i64) {
        self.view(process, partition).listed = sequence_number;
    }

    /// A process opens a partition at an event.
    pub(crate) fn open(&mut self, process: u32, partition: u32, next: i64) -> Checked {
        let view = self.view(process, partition);
        let expected = view.listed + 1;
        if next != expected {
            return Err(Violation::OpenedElsewhere { process, partition, opened: next, expected });
        }
        if !view.batches.is_empty() {
            return Err(Violation::OpenedWithBatches { process, partition });
        }
        view.opened += 1;
        view.fenced = false;
        view.next = next;
        for sink in &mut view.sinks {
            sink.settled.clear();
            sink.under_way.clear();
            sink.refused.clear();
        }
        Ok(())
    }

    /// The source hands a batch over.
    pub(crate) fn hand_over(&mut self, process: u32, events: Events, bytes: usize) -> Checked {
        let held_bytes_max = self.held_bytes_max;
        let held = &mut self.processes[process as usize].held_bytes;
        if *held >= held_bytes_max {
            return Err(Violation::HeldTooMuch { process, held: *held });
        }
        *held += bytes;
        let view = self.view(process, events.partition);
        if events.first != view.next {
            return Err(Violation::SourceOutOfStep {
                process,
                partition: events.partition,
                sequence_number: events.first,
                expected: view.next,
            });
        }
        view.next = events.last + 1;
        view.batches.insert(events.first, events.last);
        // What was accepted before its partition was opened again is done without being sent.
        if view.opened > 1 {
            self.processes[process as usize].done_max += (events.last - events.first + 1).cast_unsigned();
        }
        Ok(())
    }

    /// The relay gives a batch back.
    pub(crate) fn release(&mut self, process: u32, events: Events, bytes: usize) {
        self.processes[process as usize].held_bytes -= bytes;
        self.view(process, events.partition).batches.remove(&events.first);
    }

    /// The relay sends events of a batch.
    pub(crate) fn send(
        &mut self,
        process: u32,
        send: u64,
        destination: u32,
        outgoing: &OutgoingBatch<'_>,
        now_ms: u64,
    ) -> Result<Attempt, Violation> {
        let partition = outgoing.partition().0;
        let sink = destination / self.destinations;
        let (in_flight, try_timeout_ms) = (self.in_flight, self.try_timeout_ms);
        let numbers: Vec<i64> = outgoing.events().map(|(_, event)| event.sequence_number).collect();
        self.check_may_send(process, partition, &numbers)?;
        for &number in &numbers {
            self.check_key_is_free(process, sink, destination, partition, number, now_ms)?;
        }
        let view = self.view(process, partition);
        let this = UnderWay { send, destination, sent_at_ms: now_ms };
        let is_awaited = |other: &UnderWay| now_ms < other.sent_at_ms.saturating_add(try_timeout_ms);
        let opened = view.opened;
        let view = &mut view.sinks[sink as usize];
        for &sequence_number in &numbers {
            if is_set(&view.settled, sequence_number) {
                return Err(Violation::SentAgain { process, partition, sequence_number });
            }
            let before = view.under_way.insert(sequence_number, this);
            if let Some(before) = before.filter(is_awaited) {
                return Err(Violation::SentTwice { process, partition, sequence_number, send: before.send });
            }
        }
        let same_way = view.under_way.values().copied();
        let same_way: BTreeSet<_> =
            same_way.filter(|other| other.destination == this.destination && is_awaited(other)).collect();
        if same_way.len() > in_flight {
            return Err(Violation::TooManyInFlight {
                process,
                partition,
                destination: this.destination,
                count: same_way.len(),
            });
        }
        self.check_at_once(process, now_ms)?;
        let sent = &mut self.partitions[partition as usize].sinks[sink as usize].sent;
        for &number in &numbers {
            // What was sent to a hub before it forgot it is not in the list.
            if let Some(times) = sent.get_mut(index(number)) {
                self.explained += u64::from(*times > 0);
                *times += 1;
            }
        }
        let is_letter = false;
        Ok(Attempt { process, partition, sink, numbers, sent_at_ms: now_ms, opened, is_letter })
    }

    /// Events that are sent are of batches that the relay holds, and nobody else can write their checkpoint.
    fn check_may_send(&mut self, process: u32, partition: u32, numbers: &[i64]) -> Checked {
        let shared = self.expire_ms.is_some();
        let view = self.view(process, partition);
        if let Some(&sequence_number) = numbers.iter().find(|&&number| !view.holds(number)) {
            return Err(Violation::SentUnheld { process, partition, sequence_number });
        }
        if shared && !view.fenced {
            return Err(Violation::SentUnfenced { process, partition, sequence_number: numbers[0] });
        }
        Ok(())
    }

    /// The network or the hub doubles a send.
    pub(crate) fn duplicate(&mut self, events: usize) {
        self.explained += events as u64;
    }

    /// The relay is told what became of a send.
    pub(crate) fn tell_outcome(&mut self, send: u64, attempt: &Attempt, told: Told, now_ms: u64) {
        let in_time = now_ms < attempt.sent_at_ms.saturating_add(self.try_timeout_ms);
        let accepted = told == Told::Accepted;
        let of_process = &mut self.processes[attempt.process as usize];
        if accepted {
            of_process.done_max += attempt.numbers.len() as u64;
        }
        if accepted && attempt.is_letter {
            let (in_time_of_process, late) = &mut of_process.letters_told;
            *(if in_time { in_time_of_process } else { late }) += 1;
        }
        let view = &mut of_process.views[attempt.partition as usize];
        let current = view.opened == attempt.opened;
        let view = &mut view.sinks[attempt.sink as usize];
        for &number in &attempt.numbers {
            if accepted {
                set(&mut view.acknowledged, number);
            }
            let newest = view.under_way.get(&number).filter(|newest| current && newest.send == send).copied();
            let Some(newest) = newest else { continue };
            view.under_way.remove(&number);
            if accepted && in_time {
                set(&mut view.settled, number);
            }
            if told == Told::Refused && attempt.numbers.len() == 1 {
                view.refused.insert(number, newest.destination);
            }
        }
    }

    /// A message is durable at a destination. Returns which event it is and how many times it is there now.
    pub(crate) fn accept(&mut self, destination: u32, message: &[u8]) -> Result<(u32, i64, u32), Violation> {
        let damaged = Violation::Damaged { destination };
        let Some((partition, id)) = parse(message) else {
            return Err(damaged);
        };
        let whole = message::message(self.seed, partition, id, self.largest_message);
        let Some(state) = self.partitions.get_mut(partition as usize) else {
            return Err(damaged);
        };
        let Ok(position) = state.ids.binary_search(&id) else {
            return Err(damaged);
        };
        if whole != message {
            return Err(damaged);
        }
        let sequence_number = position as i64;
        let of_sink = &mut state.sinks[(destination / self.destinations) as usize];
        let before = of_sink.destinations[position].replace(destination);
        if let Some(before) = before.filter(|&before| before != destination) {
            return Err(Violation::Misrouted { partition, sequence_number, before, destination });
        }
        of_sink.accepted[position] += 1;
        let times = of_sink.accepted[position];
        let has_letter = of_sink.letters[position] > 0;
        of_sink.advance();
        match (times, has_letter) {
            (1, false) => {
                self.check_order(destination / self.destinations, destination, partition, sequence_number)?;
            }
            // It had given up its place.
            (1, true) => self.count_both()?,
            _ => self.count_duplicate()?,
        }
        Ok((partition, sequence_number, times))
    }

    fn count_duplicate(&mut self) -> Checked {
        self.duplicates += 1;
        match self.duplicates > self.explained {
            true => Err(Violation::Unexplained { duplicates: self.duplicates, explained: self.explained }),
            false => Ok(()),
        }
    }

    /// The store has a claim of a process, new or renewed.
    pub(crate) fn claim(&mut self, process: u32, partition: u32, now_ms: u64) {
        self.view(process, partition).claimed_at_ms = now_ms;
    }

    /// A process adds an event to its archive, behind the last one of the partition that it has there and has not lost. It is the next one;
    /// where there is none before, everything up to it is in the archive, whoever has put it there.
    pub(crate) fn append_to_archive(
        &self,
        process: u32,
        partition: u32,
        before: Option<i64>,
        sequence_number: i64,
    ) -> Checked {
        let archived = &self.partitions[partition as usize].archived;
        let follows = match before {
            Some(before) => sequence_number == before + 1,
            None => (0..sequence_number).all(|number| is_set(archived, number)),
        };
        match follows {
            true => Ok(()),
            false => Err(Violation::ArchiveGap { process, partition, before, sequence_number }),
        }
    }

    /// Events are in the archive.
    pub(crate) fn archive(&mut self, partition: u32, first: i64, last: i64) {
        let archived = &mut self.partitions[partition as usize].archived;
        (first..=last).for_each(|number| set(archived, number));
    }

    /// A process begins to write a checkpoint.
    pub(crate) fn begin_write(
        &mut self,
        process: u32,
        partition: u32,
        sequence_number: i64,
        now_ms: u64,
    ) -> Checked {
        if let Some(expire_ms) = self.expire_ms {
            let expired_ms = self.view(process, partition).claimed_at_ms + expire_ms;
            if now_ms >= expired_ms {
                return Err(Violation::WroteAfterExpiry { process, partition, late_ms: now_ms - expired_ms });
            }
        }
        let prefix = self.partitions[partition as usize].prefix() as i64;
        if sequence_number >= prefix {
            return Err(Violation::CheckpointPassesGap {
                process,
                partition,
                sequence_number,
                missing: prefix,
            });
        }
        let archived = &self.partitions[partition as usize].archived;
        if self.archives
            && let Some(missing) = (0..=sequence_number).find(|&number| !is_set(archived, number))
        {
            return Err(Violation::CheckpointNotArchived { process, partition, sequence_number, missing });
        }
        let view = self.view(process, partition);
        let is_acknowledged = |number| view.sinks.iter().all(|sink| is_set(&sink.acknowledged, number));
        let missing = (view.listed + 1..=sequence_number).find(|&number| !is_acknowledged(number));
        match missing {
            Some(missing) => {
                Err(Violation::CheckpointUnfounded { process, partition, sequence_number, missing })
            }
            None => Ok(()),
        }
    }

    /// The store has a checkpoint.
    pub(crate) fn apply(&mut self, process: u32, partition: u32, sequence_number: i64) -> Checked {
        let shared = self.expire_ms.is_some();
        let state = &mut self.partitions[partition as usize];
        let stored = std::mem::replace(&mut state.checkpoint, sequence_number);
        if shared && sequence_number == stored {
            let before = state.owner.replace(process);
            self.takeovers += u64::from(before.is_some_and(|before| before != process));
        }
        if let Some(owner) = state.owner.filter(|&owner| shared && owner != process) {
            return Err(Violation::OldOwnerWrote { process, owner, partition, sequence_number });
        }
        let view = self.view(process, partition);
        view.written = sequence_number;
        view.fenced |= sequence_number == stored;
        if sequence_number < stored {
            return Err(Violation::CheckpointWentBack {
                process,
                partition,
                before: stored,
                after: sequence_number,
            });
        }
        Ok(())
    }

    /// A process is told that its checkpoint is written.
    pub(crate) fn confirm(&mut self, process: u32, partition: u32, sequence_number: i64) -> Checked {
        if self.view(process, partition).written < sequence_number {
            return Err(Violation::AcknowledgedButNotWritten { process, partition, sequence_number });
        }
        Ok(())
    }

    /// The newest event that a process was told to be accepted; for a defect that takes it for the watermark.
    pub(crate) fn newest_acknowledged(&self, process: u32, partition: u32) -> Option<i64> {
        let view = &self.processes[process as usize].views[partition as usize];
        let newest =
            view.sinks.iter().filter_map(|sink| sink.acknowledged.iter().rposition(|&set| set)).max()?;
        Some(newest as i64)
    }

    /// The newest event that a process has been handed over; for a defect that takes it for the watermark.
    pub(crate) fn newest_handed_over(&self, process: u32, partition: u32) -> Option<i64> {
        let view = &self.processes[process as usize].views[partition as usize];
        (view.opened > 0).then_some(view.next - 1)
    }

    fn view(&mut self, process: u32, partition: u32) -> &mut View {
        &mut self.processes[process as usize].views[partition as usize]
    }
}

impl SinkAudit {
    /// Moves on over what is accepted or put aside.
    fn advance(&mut self) {
        let is_done = |&place: &usize| {
            self.accepted.get(place).is_some_and(|&times| times > 0)
                || self.letters.get(place).is_some_and(|&times| times > 0)
        };
        self.prefix = (self.prefix..).find(|place| !is_done(place)).unwrap_or(self.prefix);
    }
}

impl View {
    /// Whether an event is of a batch that the relay has.
    fn holds(&self, number: i64) -> bool {
        self.batches.range(..=number).next_back().is_some_and(|(_, &last)| number <= last)
    }
}

impl PartitionAudit {
    /// How many events from the first on every sink has accepted without a gap.
    fn prefix(&self) -> usize {
        self.sinks.iter().map(|sink| sink.prefix).min().unwrap_or(0)
    }
}

fn index(number: i64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

fn is_set(flags: &[bool], number: i64) -> bool {
    flags.get(index(number)).copied().unwrap_or(false)
}

fn set(flags: &mut Vec<bool>, number: i64) {
    let index = index(number);
    if index >= flags.len() {
        flags.resize(index + 1, false);
    }
    flags[index] = true;
}
