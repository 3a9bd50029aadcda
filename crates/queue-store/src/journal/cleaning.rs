//! Keeping a journal short.
//!
//! Most of what a journal tells is over soon. When it is more than twice as long as what is alive would be, what still
//! holds of its oldest segment is written again at the end, and the segment dropped. Only the oldest one is ever looked at:
//! a record tells of messages that come before it, so what a record in the oldest segment has ended has its own record in
//! there too, and need not be told again.
//!
//! A segment goes only when what was written again is on disk as the policy has it, with the whole segment that it is
//! in. Segments of which little holds are cleaned many at a time, as when everything that waited has expired at once.

use super::{Journal, LONGEST_BATCH};
use crate::changes::Change;
use crate::entity::QUEUES_OF_ONE;
use crate::pages::join;
use crate::state::QueueState;
use crate::subscription_rules::SubscriptionRules;
use partition_log::disk::Unavailable;
use std::sync::Arc;

/// A segment of which nothing holds that is not written again.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cleaned {
    /// The number after its last record.
    end: u64,
    /// The number after the last record that was written for it.
    copied: u64,
}

impl Journal {
    /// Drops what can be dropped, and cleans the oldest segments if the journal is too long, until enough was written
    /// again for once.
    pub(super) fn clean(
        &mut self,
        now: i64,
        queues: &mut [QueueState],
        rules: &[SubscriptionRules],
    ) -> Result<(), Unavailable> {
        if !self.cleaned.is_empty() {
            self.drop_cleaned();
        }
        let alive: u64 = queues.iter().map(|queue| queue.ledger.bytes()).sum();
        let mut written = 0;
        while self.bytes > 2 * alive + self.slack && written < WRITTEN_AT_ONCE {
            let before = self.bytes;
            let Some(segment_bytes) = self.clean_oldest(now, queues, rules)? else {
                break;
            };
            written += self.bytes + segment_bytes - before;
        }
        // What is left is done, or dropped, when this is looked at again.
        self.is_untidy = written >= WRITTEN_AT_ONCE || !self.cleaned.is_empty();
        Ok(())
    }

    /// Continues cleaning if that is due. Operations that write nothing, such as receiving from an empty queue, come here at any rate,
    /// so that this does something once per [`TIDY_MS`].
    pub(super) fn tidy(&mut self, now: i64, queues: &mut [QueueState], rules: &[SubscriptionRules]) {
        if !self.is_untidy || now < self.tidied_at.saturating_add(TIDY_MS) {
            return;
        }
        self.tidied_at = now;
        // If the disk does not take it, it is done another time.
        let _ = self.clean(now, queues, rules);
        let is_quiet = self.seen == self.next_record;
        self.seen = self.next_record;
        if is_quiet && !self.cleaned.is_empty() {
            // What was written again is in the last segment, and nothing would complete it.
            self.log.complete_last();
        }
    }

    /// Cleans the oldest segment that is not yet, and says how long it is; nothing if it is being written.
    fn clean_oldest(
        &mut self,
        now: i64,
        queues: &mut [QueueState],
        rules: &[SubscriptionRules],
    ) -> Result<Option<u64>, Unavailable> {
        self.log.release_memory();
        let begin = match self.cleaned.back() {
            Some(cleaned) => cleaned.end,
            None => self.log.stats().begin_sequence_number,
        };
        // The segment that is being written stays, however little of it holds.
        let Some(segment) = self.log.complete_segment(begin) else {
            return Ok(None);
        };
        let end = segment.next_sequence_number;
        let mut again = Vec::new();
        let account = self.account;
        if end > account {
            self.give_account(queues, rules, &mut again);
        }
        for queue in queues.iter_mut() {
            put_again(queue, end, &mut again);
        }
        if let Err(unavailable) = self.append(now, queues, &mut again, LONGEST_BATCH) {
            self.account = account;
            return Err(unavailable);
        }
        for queue in queues.iter_mut() {
            renew(queue, end);
        }
        self.bytes -= segment.bytes;
        self.cleaned.push_back(Cleaned { end, copied: self.next_record });
        Ok(Some(segment.bytes))
    }

    fn drop_cleaned(&mut self) {
        let on_disk = self.log.on_disk_before();
        let mut end = None;
        while let Some(cleaned) = self.cleaned.front()
            && cleaned.copied <= on_disk
        {
            end = Some(cleaned.end);
            self.cleaned.pop_front();
        }
        if let Some(end) = end {
            self.log.drop_before(end);
        }
    }

    /// Everything that holds besides messages, as changes.
    pub(super) fn give_account(
        &mut self,
        queues: &[QueueState],
        rules: &[SubscriptionRules],
        changes: &mut Vec<Change>,
    ) {
        self.account = self.next_record;
        changes.push(Change::Queues(self.queues.clone()));
        if self.applied > 0 {
            changes.push(Change::Applied { transaction: self.applied });
        }
        for (place, rules) in rules.iter().enumerate() {
            rules.account(((place + 1) * QUEUES_OF_ONE) as u32, changes);
        }
        for (place, queue) in queues.iter().enumerate() {
            let place = place as u32;
            changes.push(Change::NextNumber {
                queue: place,
                sequence_number: queue.pages.next_sequence_number(),
            });
            for session in queue.ledger.sessions.iter() {
                if session.state.is_some() {
                    changes.push(Change::SessionState {
                        queue: place,
                        id: Arc::clone(&session.id),
                        state: session.state.clone(),
                        set_at: session.state_set_at,
                    });
                }
            }
            let history = queue.ledger.history.as_ref();
            for (time, digest, sequence_number) in history.into_iter().flat_map(|history| history.entries()) {
                changes.push(Change::Seen { queue: place, time, digest, sequence_number });
            }
        }
    }
}

/// The messages whose records come before `end`.
fn put_again(queue: &QueueState, end: u64, again: &mut Vec<Change>) {
    for (number, page) in queue.pages.from(0) {
        if page.oldest_record >= end {
            continue;
        }
        for position in page.positions() {
            if page.record(position).is_some_and(|record| record < end) {
                let sequence_number = join(number, position);
                again.push(Change::Put {
                    queue: queue.ledger.queue,
                    first: sequence_number,
                    last: sequence_number,
                });
            }
        }
    }
}

/// Looks again for the oldest record of the pages that had one before `end`.
fn renew(queue: &mut QueueState, end: u64) {
    let pages: Vec<u64> =
        queue.pages.from(0).filter(|(_, page)| page.oldest_record < end).map(|(number, _)| number).collect();
    for number in pages {
        if let Some(page) = queue.pages.page_mut(number) {
            page.renew_oldest_record();
        }
    }
}

/// Bytes that are written again in one operation of somebody, and no further segment after them.
const WRITTEN_AT_ONCE: u64 = 256 * 1024;

/// Interval of cleaning while nothing is written, in milliseconds.
pub(crate) const TIDY_MS: i64 = 1_000;
