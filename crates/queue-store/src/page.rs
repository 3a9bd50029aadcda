//! 128 messages with consecutive numbers, and their bytes.
//!
//! ```text
//!  position   0  1  2  3  4  5 … 127        a message's number is 128 × the page's number + its position
//!  live       1  0  1  1  0  0              held
//!  ready      0  0  1  0  0  0              and available
//!  slots      [0][1][2][3]…                 64 bytes each, in the order of the positions
//!  short      [bytes of 0][bytes of 2]…     annotations and sections of short messages
//!  long       Bytes, Bytes, …               those of long ones, each by itself
//! ```
//!
//! A message that goes leaves its slot and its bytes behind until the whole page has gone, or is *compacted*: written anew
//! with what is left, once that is a quarter or less. So a message costs a constant time, and a few old ones that stay
//! don't keep the memory of those around them.

use amqp::codec::write;
use bytes::Bytes;

/// See the module.
#[derive(Debug)]
pub(super) struct Page {
    pub(super) live: u128,
    pub(super) ready: u128,
    /// The positions that have a slot.
    present: u128,
    /// The slots don't follow each other from the first position on without a gap.
    has_gaps: bool,
    slots: Vec<Slot>,
    short: Vec<u8>,
    /// How many of them belong to messages that are held.
    short_live: usize,
    long: Vec<Bytes>,
    /// Nothing in here has to be looked at before.
    pub(super) deadline: i64,
    /// For each slot the number of the journal's record that has the message; empty without a journal.
    records: Vec<u64>,
    /// No record of a message that is held is older.
    pub(super) oldest_record: u64,
}

/// What is known of a message besides its bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Slot {
    /// The end of the lock or of the time of scheduling, in milliseconds; otherwise of no meaning.
    pub(super) until: i64,
    /// [`NEVER`] if it does not expire.
    pub(super) expires_at: i64,
    pub(super) enqueued_time: i64,
    pub(super) enqueue_sequence_number: u64,
    /// Of the lock; 0 if there is none.
    pub(super) nonce: u64,
    /// Where its bytes begin in `short`, or its place in `long`.
    pub(super) offset: u32,
    pub(super) length: u32,
    pub(super) delivery_count: u32,
    /// The place of its session; [`NO_SESSION`] if it has none.
    pub(super) session: u32,
    pub(super) annotations_length: u16,
    pub(super) annotation_count: u16,
    pub(super) stage: Stage,
    pub(super) is_long: bool,
    /// How often it was forwarded on its way to this queue.
    pub(super) hops: u8,
}

/// How a message stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Stage {
    Ready = 0,
    Locked = 1,
    Deferred = 2,
    /// Deferred, and received by its number.
    DeferredLocked = 3,
    Scheduled = 4,
}

/// The bytes of a message on their way into a page.
#[derive(Clone, Copy, Debug)]
pub(super) enum Payload<'a> {
    /// Annotations, and the pieces of the sections.
    Pieces(&'a [u8], &'a [&'a [u8]]),
    /// Both in one, which may be shared with others.
    Whole(&'a Bytes),
}

/// A message's bytes where they are.
#[derive(Clone, Copy, Debug)]
pub(super) enum Stored<'a> {
    Short(&'a [u8]),
    Long(&'a Bytes),
}

impl Page {
    /// Adds a message behind all others.
    #[inline]
    pub(super) fn push(&mut self, position: u32, mut slot: Slot, payload: Payload<'_>) {
        debug_assert!(self.present >> position == 0, "positions ascend");
        self.has_gaps |= self.slots.len() != (position - self.first(position)) as usize;
        self.store(&mut slot, payload);
        let bit = 1 << position;
        self.present |= bit;
        self.live |= bit;
        self.slots.push(slot);
    }

    /// Inserts a message at a position that was left out, before others.
    #[cold]
    pub(super) fn insert(&mut self, position: u32, mut slot: Slot, payload: Payload<'_>) {
        debug_assert!(self.present >> position & 1 == 0, "nothing was there");
        self.store(&mut slot, payload);
        let bit = 1 << position;
        let index = (self.present & (bit - 1)).count_ones() as usize;
        if index < self.records.len() {
            self.records.insert(index, u64::MAX);
        }
        self.slots.insert(index, slot);
        self.has_gaps = true;
        self.present |= bit;
        self.live |= bit;
    }

    /// Appends the bytes of a message to those of the page.
    #[inline]
    fn store(&mut self, slot: &mut Slot, payload: Payload<'_>) {
        let length = payload.length();
        slot.length = length as u32;
        slot.is_long = length > LONGEST_SHORT;
        slot.offset = match slot.is_long {
            false => {
                let offset = self.short.len();
                payload.write(&mut self.short);
                self.short_live += length;
                offset as u32
            }
            true => {
                self.long.push(payload.share());
                self.long.len() as u32 - 1
            }
        };
    }

    #[inline]
    pub(super) fn holds(&self, position: u32) -> bool {
        self.live >> position & 1 == 1
    }

    /// The slot of a message that is held.
    #[inline]
    pub(super) fn slot(&self, position: u32) -> &Slot {
        &self.slots[self.index(position)]
    }

    /// The slot of a message that is held.
    #[inline]
    pub(super) fn slot_mut(&mut self, position: u32) -> &mut Slot {
        let index = self.index(position);
        &mut self.slots[index]
    }

    /// The bytes of a message that is held.
    #[inline]
    pub(super) fn bytes(&self, slot: &Slot) -> Stored<'_> {
        let offset = slot.offset as usize;
        match slot.is_long {
            false => Stored::Short(&self.short[offset..offset + slot.length as usize]),
            true => Stored::Long(&self.long[offset]),
        }
    }

    /// Lets go of a message.
    #[inline]
    pub(super) fn remove(&mut self, position: u32) -> Slot {
        let slot = *self.slot(position);
        self.release_bytes(&slot);
        let bit = 1 << position;
        self.live &= !bit;
        self.ready &= !bit;
        slot
    }

    /// Gives a message that is held other bytes.
    pub(super) fn replace_bytes(&mut self, position: u32, annotations_length: u16, bytes: Bytes) {
        let old = *self.slot(position);
        self.release_bytes(&old);
        let slot = self.slot_mut(position);
        slot.length = bytes.len() as u32;
        slot.annotations_length = annotations_length;
        // They are long ones from now on, however short they are: this is rare.
        slot.is_long = true;
        match old.is_long {
            true => self.long[old.offset as usize] = bytes,
            false => {
                self.slot_mut(position).offset = self.long.len() as u32;
                self.long.push(bytes);
            }
        }
    }

    /// The positions of the messages that are held.
    pub(super) fn positions(&self) -> Positions {
        Positions(self.live)
    }

    /// Notes that nothing later than this has to be waited for.
    #[inline]
    pub(super) fn look_at(&mut self, deadline: i64) {
        self.deadline = self.deadline.min(deadline);
    }

    /// When a message needs attention next, by looking at all of them.
    pub(super) fn next_deadline(&self) -> i64 {
        self.positions().map(|position| self.slot(position).deadline()).min().unwrap_or(NEVER)
    }

    /// Whether so much has gone that the rest should be written anew.
    pub(super) fn is_sparse(&self) -> bool {
        let slots = self.slots.len();
        let few = slots >= SMALLEST_COMPACTED && self.live.count_ones() as usize * 4 <= slots;
        let bytes = self.short.len();
        few || (bytes >= SMALLEST_COMPACTED * LONGEST_SHORT && self.short_live * 4 <= bytes)
    }

    /// Writes what is held anew, and nothing else.
    pub(super) fn compact(&mut self) {
        let old = std::mem::take(self);
        let held = old.live.count_ones() as usize;
        self.slots.reserve_exact(held);
        self.short.reserve_exact(old.short_live);
        for position in old.positions() {
            let slot = *old.slot(position);
            let record = old.records.get(old.index(position)).copied();
            match old.bytes(&slot) {
                Stored::Short(bytes) => {
                    self.push(position, slot, Payload::Pieces(bytes, &[]));
                }
                Stored::Long(bytes) => self.push(position, slot, Payload::Whole(bytes)),
            }
            if let Some(record) = record {
                self.set_record(position, record);
            }
        }
        self.has_gaps = true;
        self.ready = old.ready;
        self.deadline = old.deadline;
    }

    /// Forgets everything, and keeps a usual amount of memory.
    pub(super) fn clear(&mut self) {
        let old = std::mem::take(self);
        (self.slots, self.short, self.records) = (old.slots, old.short, old.records);
        self.slots.clear();
        self.records.clear();
        self.short.clear();
        self.short.shrink_to(KEPT_BYTES);
    }

    /// Makes room for a full page at once.
    pub(super) fn reserve(&mut self) {
        self.slots.reserve_exact(SLOTS as usize - self.slots.len());
    }

    /// The journal's record of a message that is held.
    pub(super) fn record(&self, position: u32) -> Option<u64> {
        self.records.get(self.index(position)).copied()
    }

    /// Notes where the journal has a message that is held.
    pub(super) fn set_record(&mut self, position: u32, record: u64) {
        let index = self.index(position);
        if self.records.len() <= index {
            self.records.resize(index + 1, u64::MAX);
        }
        self.records[index] = record;
        self.oldest_record = self.oldest_record.min(record);
    }

    /// Looks again for the oldest record.
    pub(super) fn renew_oldest_record(&mut self) {
        let records = self.positions().filter_map(|position| self.record(position));
        self.oldest_record = records.min().unwrap_or(u64::MAX);
    }

    /// For how many slots and short bytes there is memory.
    #[cfg(test)]
    pub(super) fn capacity(&self) -> (usize, usize) {
        (self.slots.capacity(), self.short.capacity())
    }

    #[inline]
    fn release_bytes(&mut self, slot: &Slot) {
        match slot.is_long {
            false => self.short_live -= slot.length as usize,
            true => self.long[slot.offset as usize] = Bytes::new(),
        }
    }

    #[inline]
    fn first(&self, otherwise: u32) -> u32 {
        match self.present {
            0 => otherwise,
            present => present.trailing_zeros(),
        }
    }

    #[inline]
    fn index(&self, position: u32) -> usize {
        match self.has_gaps {
            false => (position - self.present.trailing_zeros()) as usize,
            true => (self.present & ((1 << position) - 1)).count_ones() as usize,
        }
    }
}

impl Default for Page {
    fn default() -> Self {
        Self {
            live: 0,
            ready: 0,
            present: 0,
            has_gaps: false,
            slots: Vec::new(),
            short: Vec::new(),
            short_live: 0,
            long: Vec::new(),
            deadline: NEVER,
            records: Vec::new(),
            oldest_record: u64::MAX,
        }
    }
}

impl Slot {
    /// A message that is available, without bytes so far.
    pub(super) fn new(enqueued_time: i64, sequence_number: u64) -> Self {
        Self {
            until: NEVER,
            expires_at: NEVER,
            enqueued_time,
            enqueue_sequence_number: sequence_number,
            nonce: 0,
            offset: 0,
            length: 0,
            delivery_count: 0,
            session: NO_SESSION,
            annotations_length: 0,
            annotation_count: 0,
            stage: Stage::Ready,
            is_long: false,
            hops: 0,
        }
    }

    /// When it needs attention, as it stands.
    #[inline]
    pub(super) fn deadline(&self) -> i64 {
        match self.stage {
            Stage::Ready | Stage::Deferred => self.expires_at,
            Stage::Locked | Stage::DeferredLocked | Stage::Scheduled => self.until,
        }
    }

    /// What it counts towards a size limit.
    #[inline]
    pub(super) fn size(&self) -> u64 {
        u64::from(self.length) + super::options::MESSAGE_OVERHEAD
    }
}

impl Stage {
    /// The stage of a code.
    pub(super) fn of(code: u8) -> Option<Self> {
        [Self::Ready, Self::Locked, Self::Deferred, Self::DeferredLocked, Self::Scheduled]
            .into_iter()
            .find(|stage| *stage as u8 == code)
    }

    /// What it is once it is not locked (any more).
    pub(super) const fn unlocked(self) -> Self {
        match self {
            Self::Locked => Self::Ready,
            Self::DeferredLocked => Self::Deferred,
            other => other,
        }
    }

    #[inline]
    pub(super) const fn is_locked(self) -> bool {
        matches!(self, Self::Locked | Self::DeferredLocked)
    }
}

impl Payload<'_> {
    #[inline]
    pub(super) fn length(&self) -> usize {
        match self {
            Self::Pieces(annotations, sections) => {
                sections.iter().fold(annotations.len(), |sum, section| sum + section.len())
            }
            Self::Whole(bytes) => bytes.len(),
        }
    }

    #[inline]
    pub(super) fn write(&self, out: &mut Vec<u8>) {
        match self {
            Self::Pieces(annotations, sections) => {
                if !annotations.is_empty() {
                    out.extend_from_slice(annotations);
                }
                for section in *sections {
                    write::bytes(out, section);
                }
            }
            Self::Whole(bytes) => out.extend_from_slice(bytes),
        }
    }

    pub(super) fn share(&self) -> Bytes {
        match self {
            Self::Whole(bytes) => Bytes::clone(bytes),
            Self::Pieces(..) => {
                let mut bytes = Vec::with_capacity(self.length());
                self.write(&mut bytes);
                Bytes::from(bytes)
            }
        }
    }
}

impl Stored<'_> {
    pub(super) fn as_slice(&self) -> &[u8] {
        match self {
            Self::Short(bytes) => bytes,
            Self::Long(bytes) => bytes,
        }
    }

    pub(super) fn share(&self) -> Bytes {
        match self {
            Self::Short(bytes) => Bytes::copy_from_slice(bytes),
            Self::Long(bytes) => Bytes::clone(bytes),
        }
    }
}

/// Positions in ascending order.
pub(super) struct Positions(u128);

impl Iterator for Positions {
    type Item = u32;

    #[inline]
    fn next(&mut self) -> Option<u32> {
        let position = self.0.trailing_zeros();
        if position == u128::BITS {
            return None;
        }
        self.0 &= self.0 - 1;
        Some(position)
    }
}

/// Messages of a page.
pub(super) const SLOTS: u64 = 128;

/// Later than everything.
pub(super) const NEVER: i64 = i64::MAX;

/// The session of a message that has none.
pub(super) const NO_SESSION: u32 = u32::MAX;

/// Up to this many bytes a message lies among others; allocating a longer one costs no more than copying it.
pub(super) const LONGEST_SHORT: usize = 512;

/// Fewer slots than this are not worth compacting.
const SMALLEST_COMPACTED: usize = 16;

/// What a page keeps of its bytes for the messages after it.
const KEPT_BYTES: usize = 16 * 1024;

const _: () = assert!(size_of::<Slot>() == 64, "a slot is one cache line");
