//! Which messages were sent within the window of duplicate detection.

use std::collections::{HashMap, VecDeque};
use units::md5::{Md5, md5};

/// The identifiers of a time, as digests.
#[derive(Debug)]
pub(super) struct History {
    window_ms: i64,
    /// The number that the first message with an identifier got.
    numbers: HashMap<MessageIdDigest, u64>,
    /// In the order in which they are forgotten.
    order: VecDeque<(i64, MessageIdDigest)>,
}

/// What stands for a message identifier: of fixed length, and the same in every run.
pub(super) type MessageIdDigest = Md5;

impl History {
    pub(super) fn new(window_ms: i64) -> Self {
        Self { window_ms, numbers: HashMap::new(), order: VecDeque::new() }
    }

    /// Sets how long identifiers are known, those that were seen already as well.
    pub(super) fn set_window(&mut self, window_ms: i64) {
        self.window_ms = window_ms;
    }

    /// Forgets what is older than the window.
    pub(super) fn forget(&mut self, now: i64) {
        while let Some((seen, digest)) = self.order.front()
            && seen.saturating_add(self.window_ms) <= now
        {
            self.numbers.remove(digest);
            self.order.pop_front();
        }
        if self.order.is_empty() {
            // What a burst has left.
            self.numbers.shrink_to(KEPT);
            self.order.shrink_to(KEPT);
        }
    }

    /// The number that the message of this identifier got within the window.
    pub(super) fn number(&self, digest: &MessageIdDigest) -> Option<u64> {
        self.numbers.get(digest).copied()
    }

    /// Notes a message, which was seen not before those that were noted already.
    pub(super) fn note(&mut self, seen: i64, digest: MessageIdDigest, sequence_number: u64) {
        if self.numbers.insert(digest, sequence_number).is_none() {
            self.order.push_back((seen, digest));
        }
    }

    /// When the oldest entry is forgotten.
    pub(super) fn first_deadline(&self) -> Option<i64> {
        let (seen, _digest) = self.order.front()?;
        Some(seen.saturating_add(self.window_ms))
    }

    /// All entries: when they were seen, what stands for their identifiers, and their numbers.
    pub(super) fn entries(&self) -> impl Iterator<Item = (i64, MessageIdDigest, u64)> {
        self.order.iter().filter_map(|(seen, digest)| {
            let number = self.numbers.get(digest)?;
            Some((*seen, *digest, *number))
        })
    }

    /// What it counts towards a size limit.
    pub(super) fn size(&self) -> u64 {
        self.order.len() as u64 * ENTRY_BYTES
    }
}

/// What stands for an identifier.
pub(super) fn digest(message_id: &[u8]) -> MessageIdDigest {
    md5(message_id)
}

/// About what an entry takes in both collections.
pub(super) const ENTRY_BYTES: u64 = 64;

/// Entries for which there stays room.
const KEPT: usize = 1024;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_identifier_is_known_for_exactly_the_window() {
        let mut history = History::new(100);
        history.note(0, digest(b"a"), 7);
        history.note(50, digest(b"b"), 8);
        history.forget(99);
        assert_eq!(history.number(&digest(b"a")), Some(7));
        history.forget(100);
        assert_eq!(history.number(&digest(b"a")), None);
        assert_eq!(history.number(&digest(b"b")), Some(8));
        assert_eq!(history.first_deadline(), Some(150));
        assert_eq!(history.size(), ENTRY_BYTES);
    }
}
