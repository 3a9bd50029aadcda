//! The messages of one queue by their numbers, and which of them need something.
//!
//! Numbers ascend, so a page is complete before the next one begins; only the last page grows. Three ordered sets say
//! which pages exist, which have something available, and which have to be looked at when. They have an entry per page, not
//! per message, so a million waiting messages make them a few levels deep and no more.

use super::page::{NEVER, Page, Payload, SLOTS, Slot};
use std::collections::{BTreeMap, BTreeSet};

/// See the module.
#[derive(Debug)]
pub(super) struct Pages {
    complete: BTreeMap<u64, Box<Page>>,
    /// The page that grows, apart from the others so that it is found at once.
    last: Option<Box<Page>>,
    next_sequence_number: u64,
    /// The pages with available messages.
    ready: BTreeSet<u64>,
    /// The pages that have to be looked at, and when.
    deadlines: BTreeSet<(i64, u64)>,
    /// Emptied pages that are used again.
    #[expect(clippy::vec_box, reason = "they move to and from other places as they are")]
    spare: Vec<Box<Page>>,
    /// The page that became sparse last. It is compacted if it still is when the next one does: most are empty by then.
    sparse: u64,
}

impl Pages {
    /// No messages; the next one will have this number.
    pub(super) fn new(next_sequence_number: u64) -> Self {
        Self {
            complete: BTreeMap::new(),
            last: None,
            next_sequence_number,
            ready: BTreeSet::new(),
            deadlines: BTreeSet::new(),
            spare: Vec::new(),
            sparse: u64::MAX,
        }
    }

    /// The number of the next message.
    #[inline]
    pub(super) fn next_sequence_number(&self) -> u64 {
        self.next_sequence_number
    }

    /// Adds a message under the next number; available at once, if `is_ready`.
    #[inline]
    pub(super) fn push(&mut self, slot: Slot, payload: Payload<'_>, is_ready: bool) -> u64 {
        let sequence_number = self.next_sequence_number;
        let (number, position) = split(sequence_number);
        let page = match &mut self.last {
            Some(page) => page,
            None => self.last.insert(self.spare.pop().unwrap_or_default()),
        };
        let deadline = slot.deadline();
        page.push(position, slot, payload);
        if is_ready {
            if page.ready == 0 {
                self.ready.insert(number);
            }
            page.ready |= 1 << position;
        }
        if deadline < page.deadline {
            if page.deadline != NEVER {
                self.deadlines.remove(&(page.deadline, number));
            }
            page.deadline = deadline;
            self.deadlines.insert((deadline, number));
        }
        self.skip_to(sequence_number + 1);
        sequence_number
    }

    /// Adds a message under a number that is not below the next one. For recovery.
    pub(super) fn push_at(&mut self, sequence_number: u64, slot: Slot, payload: Payload<'_>, is_ready: bool) {
        self.skip_to(sequence_number);
        self.push(slot, payload, is_ready);
    }

    /// Inserts a message under a sequence number that was left out, below the next one.
    #[cold]
    pub(super) fn insert(&mut self, sequence_number: u64, slot: Slot, payload: Payload<'_>, is_ready: bool) {
        let (number, position) = split(sequence_number);
        if self.page(number).is_none() {
            let page = self.spare.pop().unwrap_or_default();
            match number == split(self.next_sequence_number).0 {
                true => self.last = Some(page),
                false => drop(self.complete.insert(number, page)),
            }
        }
        let deadline = slot.deadline();
        self.change(number, |page| {
            page.insert(position, slot, payload);
            page.ready |= u128::from(is_ready) << position;
            page.look_at(deadline);
        });
    }

    /// Notes where the journal has a message.
    pub(super) fn set_record(&mut self, sequence_number: u64, record: u64) {
        let (number, position) = split(sequence_number);
        if let Some(page) = self.page_mut(number)
            && page.holds(position)
        {
            page.set_record(position, record);
        }
    }

    /// Leaves out the numbers before this one.
    #[inline]
    pub(super) fn skip_to(&mut self, sequence_number: u64) {
        let (number, _) = split(self.next_sequence_number);
        self.next_sequence_number = self.next_sequence_number.max(sequence_number);
        if split(self.next_sequence_number).0 != number {
            self.complete_last(number);
        }
    }

    /// Has `change` change the page of this number, if there is one, and keeps the sets in order.
    #[inline]
    pub(super) fn change<R>(&mut self, number: u64, change: impl FnOnce(&mut Page) -> R) -> Option<R> {
        let is_last = number == split(self.next_sequence_number).0;
        let page = match is_last {
            true => self.last.as_mut()?,
            false => self.complete.get_mut(&number)?,
        };
        let (was_ready, deadline) = (page.ready != 0, page.deadline);
        let result = change(page);
        let is_ready = page.ready != 0;
        if was_ready != is_ready {
            match is_ready {
                true => self.ready.insert(number),
                false => self.ready.remove(&number),
            };
        }
        let is_gone = !is_last && page.live == 0;
        let new_deadline = if is_gone { NEVER } else { page.deadline };
        if new_deadline != deadline {
            if deadline != NEVER {
                self.deadlines.remove(&(deadline, number));
            }
            if new_deadline != NEVER {
                self.deadlines.insert((new_deadline, number));
            }
        }
        if is_gone {
            let page = self.complete.remove(&number).expect("it was found above");
            self.recycle(page);
        } else if !is_last && number != self.sparse && page.is_sparse() {
            self.became_sparse(number);
        }
        Some(result)
    }

    /// The page of this number, if there is one.
    #[inline]
    pub(super) fn page(&self, number: u64) -> Option<&Page> {
        match number == split(self.next_sequence_number).0 {
            true => self.last.as_deref(),
            false => self.complete.get(&number).map(Box::as_ref),
        }
    }

    /// The page of this number, for what the sets don't tell of.
    pub(super) fn page_mut(&mut self, number: u64) -> Option<&mut Page> {
        match number == split(self.next_sequence_number).0 {
            true => self.last.as_deref_mut(),
            false => self.complete.get_mut(&number).map(Box::as_mut),
        }
    }

    /// The pages from this number on, in order.
    pub(super) fn from(&self, number: u64) -> impl Iterator<Item = (u64, &Page)> {
        let last = split(self.next_sequence_number).0;
        let complete = self.complete.range(number..).map(|(number, page)| (*number, &**page));
        let last = self.last.as_deref().map(|page| (last, page));
        complete.chain(last.filter(move |(last, _)| *last >= number))
    }

    /// The first page with an available message.
    #[inline]
    pub(super) fn first_ready(&self) -> Option<u64> {
        self.ready.first().copied()
    }

    /// The page that has to be looked at first, and when.
    #[inline]
    pub(super) fn first_deadline(&self) -> Option<(i64, u64)> {
        self.deadlines.first().copied()
    }

    /// The page of this number will get no more messages.
    #[cold]
    fn complete_last(&mut self, number: u64) {
        let Some(page) = self.last.take() else {
            return;
        };
        if page.live == 0 {
            if page.deadline != NEVER {
                self.deadlines.remove(&(page.deadline, number));
            }
            self.recycle(page);
        } else {
            let is_sparse = page.is_sparse();
            self.complete.insert(number, page);
            if is_sparse {
                self.became_sparse(number);
            }
        }
        // A queue that fills pages will fill this one too.
        let mut next = self.spare.pop().unwrap_or_default();
        next.reserve();
        self.last = Some(next);
    }

    #[cold]
    fn became_sparse(&mut self, number: u64) {
        let before = std::mem::replace(&mut self.sparse, number);
        if let Some(page) = self.complete.get_mut(&before)
            && page.is_sparse()
        {
            page.compact();
        }
    }

    fn recycle(&mut self, mut page: Box<Page>) {
        if self.spare.len() < SPARE_PAGES {
            page.clear();
            self.spare.push(page);
        }
    }
}

/// The page and the position of a number.
#[inline]
pub(super) const fn split(sequence_number: u64) -> (u64, u32) {
    (sequence_number / SLOTS, (sequence_number % SLOTS) as u32)
}

/// The number of the message at a position of a page.
#[inline]
pub(super) const fn join(page: u64, position: u32) -> u64 {
    page * SLOTS + position as u64
}

/// Emptied pages that are kept: some 0.2 MB.
const SPARE_PAGES: usize = 16;
