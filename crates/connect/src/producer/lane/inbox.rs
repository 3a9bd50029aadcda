//! What callers hand to a lane, and what the lane tells them: the part that both share, under one lock.
//!
//! An event is encoded into the run of its place while the lock is held, so that there is no other copy of it between the
//! caller and the output of the connection. The driver takes whole runs, and answers for whole bursts.

use std::collections::{HashMap, VecDeque};
use std::task::Waker;

use tokio::time::Instant;

use super::run::{Place, Run, Unit, Waiters};
use super::slots::{SlotId, Slots};
use crate::producer::event::{NewEvent, Wire};
use crate::producer::failure::{Fate, SendFailure};
use crate::producer::options::{BatchDelay, Batching, ProducerOptions};
use crate::producer::statistics::Counters;

/// See the module.
#[derive(Debug)]
pub(super) struct Inbox {
    places: Vec<Gathering>,
    partitions: HashMap<u32, u32>,
    keys: HashMap<Box<str>, u32>,
    free_places: Vec<u32>,
    /// Places that have something to send.
    listed: Vec<u32>,
    /// Batches that callers have made themselves.
    ready: VecDeque<Run>,
    pub(super) slots: Slots,
    /// Bytes of events that wait or are under way as batches.
    bytes: usize,
    /// Events that have no answer yet.
    pending: u64,
    /// Callers that wait for room.
    room: Vec<Waker>,
    /// Callers that wait until nothing is pending.
    flushing: Vec<Waker>,
    /// The driver, while it sleeps.
    driver: Option<Waker>,
    /// Why nothing can be sent any more.
    ended: Option<SendFailure>,
    is_closing: bool,
    /// Whether what is pending is to be given up.
    is_abandoned: bool,
    spare: Vec<Run>,
}

/// What gathers for one place.
#[derive(Debug)]
struct Gathering {
    place: Place,
    runs: VecDeque<Run>,
    /// Batches of it that are under way.
    under_way: u32,
    is_listed: bool,
}

/// What was given to the lane.
pub(super) enum Taken {
    /// The event waits for its answer here, or nobody waits for it.
    Pushed(Option<SlotId>),
    /// There is no room; the caller is woken when there is.
    Full,
}

/// What an inbox has to know of its lane.
pub(super) struct Rules<'a> {
    pub(super) options: &'a ProducerOptions,
    pub(super) wire: Wire,
    /// The most bytes of one send.
    pub(super) max_bytes: usize,
}

impl Inbox {
    pub(super) fn new() -> Self {
        let entity = Gathering::at(Place::Entity);
        Self {
            places: vec![entity],
            partitions: HashMap::new(),
            keys: HashMap::new(),
            free_places: Vec::new(),
            listed: Vec::new(),
            ready: VecDeque::new(),
            slots: Slots::default(),
            bytes: 0,
            pending: 0,
            room: Vec::new(),
            flushing: Vec::new(),
            driver: None,
            ended: None,
            is_closing: false,
            is_abandoned: false,
            spare: Vec::new(),
        }
    }

    /// Takes an event, and gives the driver if it has to be woken for that. Who hands it over without a waker does not wait, neither
    /// for room nor for an answer.
    ///
    /// # Errors
    /// When it can't be sent as it is, or nothing can be sent any more.
    pub(super) fn push(
        &mut self,
        waker: Option<&Waker>,
        rules: &Rules<'_>,
        event: &NewEvent<'_>,
        partition: Option<u32>,
    ) -> Result<(Taken, Option<Waker>), SendFailure> {
        self.check_open()?;
        if self.bytes >= rules.options.max_waiting_bytes {
            self.room.extend(waker.cloned());
            return Ok((Taken::Full, None));
        }
        let batching = rules.options.buffering.batching();
        let now = Instant::now();
        let place = self.place_of(partition, event.key.filter(|_| batching.is_some()));
        let (unit, max_events) = match batching {
            Some(batching) => (Unit::Batch, batching.max_events.max(1) as usize),
            None => (Unit::Events, RUN_EVENTS_MAX),
        };
        let max_bytes = match batching {
            Some(batching) => batching.max_bytes.min(rules.max_bytes),
            None => RUN_BYTES_MAX,
        };
        let gathering = &mut self.places[place as usize];
        let fits = |run: &Run, length| run.ends.len() < max_events && run.batch_length(length) <= max_bytes;
        if gathering.runs.back().is_none_or(|run| !fits(run, event.body.len())) {
            let mut run = self.spare.pop().unwrap_or_else(|| Run::new(unit, now));
            run.renew(gathering.place.clone(), unit, now);
            run.gathered_at = Some(place);
            run.waiters = match (rules.options.buffering.is_unsafe(), run.waiters) {
                (true, _) => Waiters::Nobody,
                (false, Waiters::Each(mut slots)) => {
                    slots.clear();
                    Waiters::Each(slots)
                }
                (false, _) => Waiters::Each(Vec::new()),
            };
            gathering.runs.push_back(run);
        }
        let Some(run) = gathering.runs.back_mut() else {
            return Ok((Taken::Full, None));
        };
        let before = run.bytes.len();
        let encoded = rules.wire.encode(event, &mut run.bytes);
        let length = run.bytes.len() - before;
        let encoded =
            encoded.and_then(|()| match length <= rules.max_bytes && before + length <= u32::MAX as usize {
                true => Ok(()),
                false => Err(SendFailure::too_large(length, rules.max_bytes)),
            });
        if let Err(failure) = encoded {
            run.bytes.truncate(before);
            let unused = run.ends.is_empty().then(|| gathering.runs.pop_back()).flatten();
            if gathering.runs.is_empty() && gathering.under_way == 0 && !gathering.is_listed {
                self.free_places.extend(gathering.forget(&mut self.keys).then_some(place));
            }
            unused.into_iter().for_each(|run| self.recycle(run));
            return Err(failure);
        }
        // It fits into 32 bits, as was seen above.
        run.ends.push(run.bytes.len() as u32);
        run.newest = now;
        let is_first = run.ends.len() == 1;
        let is_full = run.ends.len() >= max_events || run.bytes.len() >= max_bytes;
        let slot = match &mut run.waiters {
            Waiters::Each(slots) => {
                let waker = waker.map_or_else(|| Waker::noop().clone(), Waker::clone);
                let slot = self.slots.take(waker, now, length);
                slots.push(slot);
                Some(slot)
            }
            Waiters::All(_) | Waiters::Nobody => None,
        };
        let waits_for_answer = gathering.under_way > 0 && is_adaptive(batching) && !is_full;
        if !std::mem::replace(&mut gathering.is_listed, true) {
            self.listed.push(place);
        }
        self.bytes += length;
        self.pending += 1;
        let driver = match (is_first || is_full) && !waits_for_answer {
            true => self.driver.take(),
            false => None,
        };
        Ok((Taken::Pushed(slot), driver))
    }

    /// Takes a batch that a caller has made, which stays the caller's where there is no room for it.
    ///
    /// # Errors
    /// When nothing can be sent any more.
    pub(super) fn push_batch(
        &mut self,
        waker: &Waker,
        max_waiting_bytes: usize,
        batch: &mut Option<Run>,
    ) -> Result<(Taken, Option<Waker>), SendFailure> {
        self.check_open()?;
        let Some(run) = batch.as_mut() else { return Ok((Taken::Full, None)) };
        if self.bytes >= max_waiting_bytes {
            self.room.push(waker.clone());
            return Ok((Taken::Full, None));
        }
        let now = Instant::now();
        let slot = self.slots.take(waker.clone(), now, run.length());
        (run.since, run.newest, run.waiters) = (now, now, Waiters::All(slot));
        self.bytes += run.length();
        self.pending += run.ends.len() as u64;
        self.ready.extend(batch.take());
        Ok((Taken::Pushed(Some(slot)), self.driver.take()))
    }

    fn check_open(&self) -> Result<(), SendFailure> {
        match &self.ended {
            Some(failure) => Err(failure.clone()),
            None if self.is_closing => Err(SendFailure::closed(Fate::NotSent)),
            None => Ok(()),
        }
    }

    fn place_of(&mut self, partition: Option<u32>, key: Option<&str>) -> u32 {
        let known = match (partition, key) {
            (Some(partition), _) => self.partitions.get(&partition),
            (None, Some(key)) => self.keys.get(key),
            (None, None) => return ENTITY,
        };
        if let Some(&place) = known {
            return place;
        }
        let place = match (partition, key) {
            (Some(partition), _) => Place::Partition(partition),
            (None, key) => Place::Key(key.unwrap_or_default().into()),
        };
        let gathering = Gathering::at(place.clone());
        let index = match self.free_places.pop() {
            Some(index) => {
                self.places[index as usize] = gathering;
                index
            }
            None => {
                self.places.push(gathering);
                (self.places.len() - 1) as u32
            }
        };
        match place {
            Place::Partition(partition) => drop(self.partitions.insert(partition, index)),
            Place::Key(key) => drop(self.keys.insert(key, index)),
            Place::Entity => {}
        }
        index
    }

    /// Moves the runs that are to leave now, and says when the next one is due that waits for its time.
    pub(super) fn take_due(
        &mut self,
        batching: Option<&Batching>,
        now: Instant,
        out: &mut VecDeque<Run>,
    ) -> Option<Instant> {
        out.extend(self.ready.drain(..));
        let leaves_all = self.is_closing || !self.flushing.is_empty();
        let mut next = None;
        let mut listed = std::mem::take(&mut self.listed);
        listed.retain(|&place| {
            let gathering = &mut self.places[place as usize];
            while let Some(run) = gathering.runs.front() {
                let is_last = gathering.runs.len() == 1;
                let leaves = match batching {
                    None => true,
                    Some(_) if !is_last || leaves_all => true,
                    Some(batching) => {
                        let is_full = run.ends.len() >= batching.max_events as usize
                            || run.bytes.len() >= batching.max_bytes;
                        is_full
                            || match batching.delay {
                                BatchDelay::Adaptive => gathering.under_way == 0,
                                BatchDelay::After(delay) => {
                                    let due = run.since + delay;
                                    if due > now {
                                        next = Some(next.map_or(due, |next: Instant| next.min(due)));
                                    }
                                    due <= now
                                }
                            }
                    }
                };
                if !leaves {
                    return true;
                }
                gathering.under_way += u32::from(run.unit == Unit::Batch);
                out.extend(gathering.runs.pop_front());
            }
            gathering.is_listed = false;
            let is_unused = gathering.under_way == 0;
            if is_unused {
                self.free_places.extend(gathering.forget(&mut self.keys).then_some(place));
            }
            false
        });
        self.listed = listed;
        next
    }

    /// A batch has its final answer, or events that leave by themselves have left: its memory can be used again.
    pub(super) fn done(&mut self, run: Run) {
        self.bytes = self.bytes.saturating_sub(run.length());
        if let (Unit::Batch, Some(place)) = (run.unit, run.gathered_at) {
            let gathering = &mut self.places[place as usize];
            gathering.under_way = gathering.under_way.saturating_sub(1);
            if gathering.under_way == 0 && gathering.runs.is_empty() && gathering.forget(&mut self.keys) {
                self.free_places.push(place);
            }
        }
        self.recycle(run);
    }

    fn recycle(&mut self, run: Run) {
        if self.spare.len() < SPARE_MAX && run.bytes.capacity() <= SPARE_BYTES_MAX {
            self.spare.push(run);
        }
    }

    /// Memory for a batch that a caller makes.
    pub(super) fn spare(&mut self) -> Option<Run> {
        self.spare.pop()
    }

    /// So many events have their answer.
    pub(super) fn answered(&mut self, events: u64) {
        self.pending = self.pending.saturating_sub(events);
    }

    /// Answers whoever waits for the events of a run that have not been sent, or counts them as lost.
    pub(super) fn fail(
        &mut self,
        run: &mut Run,
        failure: &SendFailure,
        counters: &Counters,
        wake: &mut Vec<Waker>,
    ) {
        let remaining = run.remaining() as u64;
        match &run.waiters {
            Waiters::Each(slots) => {
                for &slot in &slots[run.next.min(slots.len())..] {
                    let done = self.slots.complete(slot, Err(Box::new(failure.clone())));
                    wake.extend(done.and_then(|(_, waker)| waker));
                }
            }
            Waiters::All(slot) => {
                let done = self.slots.complete(*slot, Err(Box::new(failure.clone())));
                wake.extend(done.and_then(|(_, waker)| waker));
            }
            Waiters::Nobody => counters.lose(remaining, failure),
        }
        run.next = run.ends.len();
        self.pending = self.pending.saturating_sub(remaining);
    }

    /// Gives up what has waited for too long: what gathers here, as long as nothing of it has left.
    pub(super) fn give_up_waiting(
        &mut self,
        overdue: Instant,
        failure: &SendFailure,
        counters: &Counters,
        wake: &mut Vec<Waker>,
    ) {
        let mut waiting: Vec<Run> = self.ready.drain(..).collect();
        for gathering in &mut self.places {
            waiting.extend(gathering.runs.drain(..));
        }
        for mut run in waiting {
            let failed = give_up_overdue(&mut run, &self.slots, overdue);
            if let Some(mut part) = failed {
                self.fail(&mut part, failure, counters, wake);
            }
            match (run.remaining(), run.gathered_at) {
                (0, _) => {
                    self.bytes = self.bytes.saturating_sub(run.length());
                    self.recycle(run);
                }
                (_, Some(place)) => self.places[place as usize].runs.push_back(run),
                (_, None) => self.ready.push_back(run),
            }
        }
    }

    /// Nothing can be sent any more: answers all that gathers here.
    pub(super) fn end(&mut self, failure: &SendFailure, counters: &Counters, wake: &mut Vec<Waker>) {
        let mut runs: Vec<Run> = self.ready.drain(..).collect();
        for gathering in &mut self.places {
            runs.extend(gathering.runs.drain(..));
        }
        for mut run in runs {
            self.fail(&mut run, failure, counters, wake);
        }
        (self.bytes, self.pending) = (0, 0);
        self.ended = Some(failure.clone());
        wake.append(&mut self.flushing);
        wake.append(&mut self.room);
    }

    /// Whom to wake for the room that there is again, and since nothing is pending any more.
    pub(super) fn wake_waiting(&mut self, max_waiting_bytes: usize, wake: &mut Vec<Waker>) {
        if self.bytes < max_waiting_bytes {
            wake.append(&mut self.room);
        }
        if self.pending == 0 {
            wake.append(&mut self.flushing);
        }
    }

    /// Whether nothing is pending; if not, the caller is woken when that may be so. The driver has to be woken too.
    pub(super) fn poll_flushed(&mut self, waker: &Waker) -> (bool, Option<Waker>) {
        if self.pending == 0 || self.ended.is_some() {
            return (true, None);
        }
        self.flushing.push(waker.clone());
        (false, self.driver.take())
    }

    /// Whether there is room; if not, the caller is woken when there is.
    pub(super) fn poll_room(&mut self, waker: &Waker, max_waiting_bytes: usize) -> bool {
        let has_room = self.bytes < max_waiting_bytes || self.ended.is_some();
        if !has_room {
            self.room.push(waker.clone());
        }
        has_room
    }

    pub(super) const fn has_ended(&self) -> bool {
        self.ended.is_some()
    }

    /// Takes nothing more. The driver has to be woken.
    pub(super) fn close(&mut self) -> Option<Waker> {
        self.is_closing = true;
        self.driver.take()
    }

    /// Gives up what is pending. The driver has to be woken.
    pub(super) fn abandon(&mut self) -> Option<Waker> {
        self.is_abandoned = true;
        self.close()
    }

    pub(super) const fn is_abandoned(&self) -> bool {
        self.is_abandoned
    }

    pub(super) const fn is_closing(&self) -> bool {
        self.is_closing
    }

    pub(super) const fn pending(&self) -> u64 {
        self.pending
    }

    /// The driver goes to sleep: it is woken when there is something for it.
    pub(super) fn sleep(&mut self, waker: &Waker) {
        match &mut self.driver {
            Some(known) => known.clone_from(waker),
            none => *none = Some(waker.clone()),
        }
    }
}

impl Gathering {
    const fn at(place: Place) -> Self {
        Self { place, runs: VecDeque::new(), under_way: 0, is_listed: false }
    }

    /// Forgets a place that is one of a key, of which there may be any number. Says whether it was.
    fn forget(&mut self, keys: &mut HashMap<Box<str>, u32>) -> bool {
        match &self.place {
            Place::Key(key) => {
                let is_known = keys.remove(key).is_some();
                self.place = Place::Entity;
                is_known
            }
            Place::Entity | Place::Partition(_) => false,
        }
    }
}

/// Takes those events out of a run that have waited for too long: they are the first of it.
pub(super) fn give_up_overdue(run: &mut Run, slots: &Slots, overdue: Instant) -> Option<Run> {
    let is_overdue = |slot: SlotId| slots.since(slot).is_none_or(|since| since <= overdue);
    let given_up = match &run.waiters {
        Waiters::Each(waiting) => {
            let left = &waiting[run.next.min(waiting.len())..];
            left.iter().take_while(|slot| is_overdue(**slot)).count()
        }
        Waiters::All(slot) if is_overdue(*slot) => run.remaining(),
        Waiters::Nobody if run.newest <= overdue => run.remaining(),
        Waiters::All(_) | Waiters::Nobody => 0,
    };
    if given_up == 0 {
        return None;
    }
    let mut part = Run::new(run.unit, run.since);
    part.waiters = match &run.waiters {
        Waiters::Each(waiting) => Waiters::Each(waiting[run.next..run.next + given_up].to_vec()),
        Waiters::All(slot) => Waiters::All(*slot),
        Waiters::Nobody => Waiters::Nobody,
    };
    part.ends = vec![0; given_up];
    run.next += given_up;
    Some(part)
}

fn is_adaptive(batching: Option<&Batching>) -> bool {
    batching.is_some_and(|batching| batching.delay == BatchDelay::Adaptive)
}

/// The place of what goes to the entity itself.
const ENTITY: u32 = 0;

/// Events that leave one by one are handed over in runs of so many at most, and so many bytes.
const RUN_EVENTS_MAX: usize = 512;
const RUN_BYTES_MAX: usize = 64 * 1024;

/// Runs of which the memory is kept, and how large each may be.
const SPARE_MAX: usize = 64;
const SPARE_BYTES_MAX: usize = 1024 * 1024;
