//! The invariants, checked at every step.
//!
//! What happens is told to the [`Audit`] as it happens, and it says at once what is wrong with it. It sees what no relay
//! can see: what is durable at the destination, what the store holds, who else is at work.

use std::collections::{BTreeMap, BTreeSet};

use crate::config::Config;
use crate::message::{self, parse};
use crate::trace::Events;
use bytes::Bytes;
use connect::sink::OutgoingBatch;

mod violation;

pub use violation::Violation;

/// Knows what happened and what may happen.
#[derive(Debug)]
pub(crate) struct Audit {
    seed: u64,
    largest_message: usize,
    in_flight: usize,
    held_bytes_max: usize,
    try_timeout_ms: u64,
    /// How long a claim lasts; none where nothing is shared.
    expire_ms: Option<u64>,
    partitions: Vec<PartitionAudit>,
    processes: Vec<ProcessAudit>,
    duplicates: u64,
    explained: u64,
    takeovers: u64,
}

/// A partition of the source, seen from above.
#[derive(Debug, Default)]
struct PartitionAudit {
    /// The identities of its committed events; they grow.
    ids: Vec<u64>,
    /// Per event: how many times a destination has it.
    accepted: Vec<u32>,
    /// Per event: how many times it was sent.
    sent: Vec<u32>,
    /// Per event: where it went.
    destinations: Vec<Option<u32>>,
    /// How many events from the first on are accepted without a gap.
    prefix: usize,
    /// Per destination: the newest event that came first.
    newest: BTreeMap<u32, i64>,
    /// What the store holds; -1 for nothing.
    checkpoint: i64,
    /// Whose writes the store takes, where it is shared: the one who has last replaced the checkpoint by itself.
    owner: Option<u32>,
}

#[derive(Debug, Default)]
struct ProcessAudit {
    held_bytes: usize,
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
    /// Per event: told as accepted, whenever.
    acknowledged: Vec<bool>,
    /// Per event: told as accepted in time, since it was opened.
    settled: Vec<bool>,
    /// Per event: the send under way since it was opened.
    under_way: BTreeMap<i64, UnderWay>,
    /// First and last event of each batch that is held.
    batches: BTreeMap<i64, i64>,
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
    pub(crate) numbers: Vec<i64>,
    pub(crate) sent_at_ms: u64,
    opened: u32,
}

type Checked = Result<(), Violation>;

impl Audit {
    pub(crate) fn new(config: &Config) -> Self {
        let timeout = config.relay.retry.try_timeout.as_millis();
        let partition = |_| PartitionAudit { checkpoint: -1, ..PartitionAudit::default() };
        Self {
            seed: config.seed,
            largest_message: config.largest_message,
            in_flight: config.relay.in_flight,
            held_bytes_max: config.relay.max_held_bytes.max(1),
            try_timeout_ms: u64::try_from(timeout).unwrap_or(u64::MAX),
            expire_ms: config.sharing.as_ref().map(|sharing| sharing.expire_ms),
            partitions: (0..config.partitions).map(partition).collect(),
            processes: Vec::new(),
            duplicates: 0,
            explained: 0,
            takeovers: 0,
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
        let view = |_| View {
            listed: -1,
            fenced: false,
            claimed_at_ms: 0,
            written: -1,
            opened: 0,
            next: 0,
            acknowledged: Vec::new(),
            settled: Vec::new(),
            under_way: BTreeMap::new(),
            batches: BTreeMap::new(),
        };
        self.processes
            .push(ProcessAudit { held_bytes: 0, views: (0..self.partitions.len()).map(view).collect() });
    }

    /// Events were made durable at the source.
    pub(crate) fn commit_source(&mut self, partition: u32, messages: impl Iterator<Item = Bytes>) {
        let partition = &mut self.partitions[partition as usize];
        partition.ids.extend(messages.map(|message| parse(&message).map_or(0, |(_, id)| id)));
        let count = partition.ids.len();
        partition.accepted.resize(count, 0);
        partition.sent.resize(count, 0);
        partition.destinations.resize(count, None);
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
        view.settled.clear();
        view.under_way.clear();
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
        outgoing: &OutgoingBatch<'_>,
        now_ms: u64,
    ) -> Result<Attempt, Violation> {
        let partition = outgoing.partition().0;
        let (in_flight, try_timeout_ms) = (self.in_flight, self.try_timeout_ms);
        let shared = self.expire_ms.is_some();
        let numbers: Vec<i64> = outgoing.events().map(|(_, event)| event.sequence_number).collect();
        let view = self.view(process, partition);
        let is_held = |number: &i64| {
            let batch = view.batches.range(..=number).next_back();
            batch.is_some_and(|(_, last)| number <= last)
        };
        if let Some(&sequence_number) = numbers.iter().find(|number| !is_held(number)) {
            return Err(Violation::SentUnheld { process, partition, sequence_number });
        }
        if shared && !view.fenced {
            return Err(Violation::SentUnfenced { process, partition, sequence_number: numbers[0] });
        }
        let this = UnderWay { send, destination: outgoing.destination(), sent_at_ms: now_ms };
        let is_awaited = |other: &UnderWay| now_ms < other.sent_at_ms.saturating_add(try_timeout_ms);
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
        let opened = view.opened;
        let sent = &mut self.partitions[partition as usize].sent;
        for &number in &numbers {
            // What was sent to a hub before it forgot it is not in the list.
            if let Some(times) = sent.get_mut(index(number)) {
                self.explained += u64::from(*times > 0);
                *times += 1;
            }
        }
        Ok(Attempt { process, partition, numbers, sent_at_ms: now_ms, opened })
    }

    /// The network or the hub doubles a send.
    pub(crate) fn duplicate(&mut self, events: usize) {
        self.explained += events as u64;
    }

    /// The relay is told what became of a send.
    pub(crate) fn tell_outcome(&mut self, send: u64, attempt: &Attempt, accepted: bool, now_ms: u64) {
        let in_time = now_ms < attempt.sent_at_ms.saturating_add(self.try_timeout_ms);
        let view = self.view(attempt.process, attempt.partition);
        let current = view.opened == attempt.opened;
        for &number in &attempt.numbers {
            if accepted {
                set(&mut view.acknowledged, number);
            }
            if current && view.under_way.get(&number).is_some_and(|newest| newest.send == send) {
                view.under_way.remove(&number);
                if accepted && in_time {
                    set(&mut view.settled, number);
                }
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
        let before = state.destinations[position].replace(destination);
        if let Some(before) = before.filter(|&before| before != destination) {
            return Err(Violation::Misrouted { partition, sequence_number, before, destination });
        }
        state.accepted[position] += 1;
        let times = state.accepted[position];
        if times > 1 {
            self.duplicates += 1;
            if self.duplicates > self.explained {
                return Err(Violation::Unexplained {
                    duplicates: self.duplicates,
                    explained: self.explained,
                });
            }
        } else if self.in_flight == 1 {
            let newest = state.newest.insert(destination, sequence_number);
            if let Some(newest) = newest.filter(|&newest| newest > sequence_number) {
                return Err(Violation::Reordered { destination, partition, sequence_number, newest });
            }
        }
        while state.accepted.get(state.prefix).is_some_and(|&times| times > 0) {
            state.prefix += 1;
        }
        Ok((partition, sequence_number, times))
    }

    /// The store has a claim of a process, new or renewed.
    pub(crate) fn claim(&mut self, process: u32, partition: u32, now_ms: u64) {
        self.view(process, partition).claimed_at_ms = now_ms;
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
        let prefix = self.partitions[partition as usize].prefix as i64;
        if sequence_number >= prefix {
            return Err(Violation::CheckpointPassesGap {
                process,
                partition,
                sequence_number,
                missing: prefix,
            });
        }
        let view = self.view(process, partition);
        let missing = (view.listed + 1..=sequence_number).find(|&number| !is_set(&view.acknowledged, number));
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

    /// Whether every event is accepted and covered by its checkpoint; if not, how far the first such partition is: its
    /// number, and the last events that are accepted, covered and there.
    pub(crate) fn unfinished(&self) -> Option<(u32, i64, i64, i64)> {
        (0..).zip(&self.partitions).find_map(|(number, partition)| {
            let end = partition.ids.len() as i64 - 1;
            let accepted = partition.prefix as i64 - 1;
            let unfinished = accepted < end || partition.checkpoint < end;
            unfinished.then_some((number, accepted, partition.checkpoint, end))
        })
    }

    /// At the end: every event is in `found`, the messages of all destinations.
    pub(crate) fn finish<'a>(&self, found: impl Iterator<Item = &'a [u8]>) -> Checked {
        let mut found: Vec<(u32, u64)> = found.filter_map(parse).collect();
        found.sort_unstable();
        for (partition, state) in (0..).zip(&self.partitions) {
            for (sequence_number, &id) in (0..).zip(&state.ids) {
                if found.binary_search(&(partition, id)).is_err() {
                    return Err(Violation::Lost { partition, sequence_number });
                }
            }
        }
        Ok(())
    }

    /// The newest event that a process was told to be accepted; for a defect that takes it for the watermark.
    pub(crate) fn newest_acknowledged(&self, process: u32, partition: u32) -> Option<i64> {
        let view = &self.processes[process as usize].views[partition as usize];
        let newest = view.acknowledged.iter().rposition(|&set| set)?;
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
