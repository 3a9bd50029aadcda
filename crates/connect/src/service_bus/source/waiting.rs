//! Messages that are locked and wait for room in work. Hot path.

use std::collections::VecDeque;

use bytes::Bytes;

use crate::event::{EventBatch, EventParts};

/// The messages in the order of their delivery ids, and the chunks that they lie in.
#[derive(Debug, Default)]
pub(super) struct Waiting {
    messages: VecDeque<WaitingMessage>,
    /// Each with how many of the messages lie in it, in their order.
    chunks: VecDeque<(Bytes, usize)>,
}

#[derive(Debug)]
struct WaitingMessage {
    id: u32,
    redelivered: bool,
    parts: EventParts,
}

impl Waiting {
    pub(super) fn len(&self) -> usize {
        self.messages.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }

    /// The delivery id of the first one.
    pub(super) fn first_id(&self) -> Option<u32> {
        self.messages.front().map(|message| message.id)
    }

    /// Adds a message whose parts lie in `chunk`.
    #[inline]
    pub(super) fn push(&mut self, id: u32, redelivered: bool, chunk: &Bytes, parts: EventParts) {
        self.messages.push_back(WaitingMessage { id, redelivered, parts });
        match self.chunks.back_mut() {
            // It keeps the chunk alive, so equal addresses mean the same chunk.
            Some((last, count)) if last.as_ptr() == chunk.as_ptr() && last.len() == chunk.len() => {
                *count += 1
            }
            _ => self.chunks.push_back((chunk.clone(), 1)),
        }
    }

    /// Moves messages with consecutive delivery ids from the front into an empty `batch`, `most` at most, and returns how many
    /// of them were delivered before.
    pub(super) fn fill(&mut self, batch: &mut EventBatch, most: usize) -> u32 {
        let mut redelivered = 0;
        let Some(first) = self.first_id() else {
            return 0;
        };
        while let Some((chunk, count)) = self.chunks.front_mut() {
            let begun = batch.len();
            let room = (*count).min(most - begun);
            let follows = |(place, message): &(usize, &WaitingMessage)| {
                message.id == first.wrapping_add((begun + place) as u32)
            };
            let run = self.messages.iter().take(room).enumerate().take_while(follows).count();
            let messages = self.messages.drain(..run);
            batch.extend(
                chunk,
                messages.map(|message| {
                    redelivered += u32::from(message.redelivered);
                    message.parts
                }),
            );
            *count -= run;
            if *count > 0 {
                break;
            }
            self.chunks.pop_front();
        }
        redelivered
    }

    /// Takes all of them out, and returns their delivery ids.
    pub(super) fn take_ids(&mut self) -> impl Iterator<Item = u32> {
        self.chunks.clear();
        self.messages.drain(..).map(|message| message.id)
    }

    /// Forgets all of them.
    pub(super) fn clear(&mut self) {
        self.messages.clear();
        self.chunks.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::{EnqueuedTime, PartitionId};

    const LENGTH: u32 = 1_000;

    fn parts(sequence_number: i64) -> EventParts {
        EventParts {
            // Too long to be copied.
            message: 0..LENGTH,
            partition_key: 0..0,
            offset: 0..0,
            sequence_number,
            enqueued_time: EnqueuedTime::default(),
        }
    }

    fn fill(waiting: &mut Waiting, most: usize) -> (Vec<i64>, usize, u32) {
        let mut batch = EventBatch::with_capacity(PartitionId(0), 8);
        let redelivered = waiting.fill(&mut batch, most);
        let numbers = batch.events().iter().map(|event| event.sequence_number).collect();
        (numbers, batch.chunks().len(), redelivered)
    }

    #[test]
    fn a_batch_is_filled_across_chunks_until_it_is_full_or_an_id_is_left_out() {
        let (one, two) = (Bytes::from(vec![1; LENGTH as usize]), Bytes::from(vec![2; LENGTH as usize]));
        let mut waiting = Waiting::default();
        let ids = [u32::MAX - 1, u32::MAX, 0, 1, 3, 4];
        for (number, id) in (0_i64..).zip(ids) {
            waiting.push(id, number % 2 == 1, if number < 3 { &one } else { &two }, parts(number));
        }
        assert_eq!(fill(&mut waiting, 2), (vec![0, 1], 1, 1));
        assert_eq!((waiting.first_id(), waiting.len()), (Some(0), 4));
        assert_eq!(fill(&mut waiting, 8), (vec![2, 3], 2, 1));
        assert_eq!(fill(&mut waiting, 1), (vec![4], 1, 0));
        assert_eq!(fill(&mut waiting, 8), (vec![5], 1, 1));
        assert!(waiting.is_empty());
        assert!(one.is_unique() && two.is_unique(), "nothing is kept of what has been handed over");
        assert_eq!(fill(&mut waiting, 8), (vec![], 0, 0));
    }

    #[test]
    fn what_is_given_back_or_forgotten_keeps_no_chunk() {
        let chunk = Bytes::from(vec![1; LENGTH as usize]);
        let mut waiting = Waiting::default();
        waiting.push(7, false, &chunk, parts(0));
        waiting.push(9, false, &chunk, parts(1));
        assert_eq!(waiting.take_ids().collect::<Vec<_>>(), [7, 9]);
        assert!(waiting.is_empty() && chunk.is_unique());
        waiting.push(10, false, &chunk, parts(2));
        waiting.clear();
        assert!(waiting.is_empty() && chunk.is_unique());
    }
}
