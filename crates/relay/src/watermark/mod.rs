//! How far a partition is done without a gap.
//!
//! Batches of a partition may be under way at the same time and may complete in any order; the [`Watermark`] moves only
//! over those that are complete with everything before them. What it says may be written as a checkpoint:
//!
//! ```text
//!   tickets      4     5     6     7           position: last event of batch 4
//!              done  open  done  open          completing 5 moves it to the last event of batch 6
//! ```
//!
//! Of the oldest batch it may move over a part, where the events of a batch are done one by one.

/// The watermark of one partition. Its memory is fixed by the number of batches under way.
#[derive(Debug)]
pub struct Watermark {
    /// A ring: the batch with ticket `t` is at `t` modulo the length.
    entries: Box<[Entry]>,
    /// The ticket of the oldest batch that is not covered yet.
    first: u64,
    /// The ticket of the next batch.
    next: u64,
    position: Position,
    /// Whether `position` means anything yet.
    moved: bool,
}

/// Names a batch under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ticket(u64);

/// The last event that is done.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Position {
    /// Its sequence number.
    pub sequence_number: i64,
    /// Its offset as the service gave it; empty where there is none.
    pub offset: String,
}

#[derive(Debug, Default)]
struct Entry {
    last: Position,
    done: bool,
}

impl Watermark {
    /// A watermark that has not moved yet, for at most `in_flight` batches at once.
    ///
    /// # Panics
    /// When `in_flight` is 0.
    #[must_use]
    pub fn new(in_flight: usize) -> Self {
        assert!(in_flight > 0, "without a batch under way there is no watermark");
        Self {
            entries: (0..in_flight).map(|_| Entry::default()).collect(),
            first: 0,
            next: 0,
            position: Position::default(),
            moved: false,
        }
    }

    /// Whether another batch may begin.
    #[must_use]
    pub fn has_room(&self) -> bool {
        self.next - self.first < self.entries.len() as u64
    }

    /// A batch begins, the one after all that began before. `sequence_number` and `offset` are those of its last event;
    /// an offset that is not text is left out.
    ///
    /// # Panics
    /// When there is no room.
    pub fn begin(&mut self, sequence_number: i64, offset: Option<&[u8]>) -> Ticket {
        assert!(self.has_room(), "more batches begin than may be under way");
        let ticket = Ticket(self.next);
        self.next += 1;
        let entry = self.entry(ticket);
        entry.done = false;
        entry.last.set(sequence_number, offset);
        ticket
    }

    /// A batch is complete. Returns whether the watermark moved.
    ///
    /// # Panics
    /// When the ticket is of a batch that is not under way.
    pub fn complete(&mut self, ticket: Ticket) -> bool {
        assert!((self.first..self.next).contains(&ticket.0), "{ticket:?} is not under way");
        self.entry(ticket).done = true;
        let before = self.first;
        while self.first < self.next && self.entry(Ticket(self.first)).done {
            self.first += 1;
        }
        if self.first == before {
            return false;
        }
        let last = (self.first - 1) as usize % self.entries.len();
        // Swapped, so that both texts keep their memory.
        std::mem::swap(&mut self.position, &mut self.entries[last].last);
        self.moved = true;
        true
    }

    /// A part of the oldest batch is done: the watermark moves to the last event of that part.
    ///
    /// # Panics
    /// When the ticket is not the oldest one under way.
    pub fn advance(&mut self, ticket: Ticket, sequence_number: i64, offset: Option<&[u8]>) {
        assert!(ticket.0 == self.first && self.first < self.next, "{ticket:?} is not the oldest batch");
        self.position.set(sequence_number, offset);
        self.moved = true;
    }

    /// A batch under way ends with an earlier event than it began with: the rest is left to somebody else. Only where nothing
    /// of the partition begins any more.
    ///
    /// # Panics
    /// When the ticket is of a batch that is not under way.
    pub fn shorten(&mut self, ticket: Ticket, sequence_number: i64, offset: Option<&[u8]>) {
        assert!((self.first..self.next).contains(&ticket.0), "{ticket:?} is not under way");
        self.entry(ticket).last.set(sequence_number, offset);
    }

    /// The last event that is done with everything before it, if any batch has completed so.
    #[must_use]
    pub fn position(&self) -> Option<&Position> {
        self.moved.then_some(&self.position)
    }

    /// Goes back to an event that was done before, or to none. Nothing may be under way.
    pub fn retreat(&mut self, to: Option<Position>) {
        self.abandon();
        self.moved = to.is_some();
        self.position = to.unwrap_or_default();
    }

    /// Forgets the batches under way, which will never complete; the position stays.
    pub fn abandon(&mut self) {
        self.first = self.next;
    }

    fn entry(&mut self, ticket: Ticket) -> &mut Entry {
        let len = self.entries.len() as u64;
        &mut self.entries[(ticket.0 % len) as usize]
    }
}

impl Position {
    /// Another event, in the same memory.
    fn set(&mut self, sequence_number: i64, offset: Option<&[u8]>) {
        self.sequence_number = sequence_number;
        self.offset.clear();
        self.offset.push_str(offset.and_then(|offset| std::str::from_utf8(offset).ok()).unwrap_or_default());
    }
}

#[cfg(test)]
mod tests;
