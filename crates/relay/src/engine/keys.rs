//! Groups of events that have their partition key in common, for a sink that keeps it: the service takes one key for a
//! send, and chooses the partition by it.
//!
//! Within a destination events are sorted by their key and, within a key, stay as they came. So the order of each key is
//! kept, and that between different keys is not.

use connect::event::EventBatch;

use crate::regroup::Group;

/// Splits the groups from the `first` on into one for each key. Events without a key stay together.
pub(super) fn split_by_key(batch: &EventBatch, order: &mut [u32], groups: &mut Vec<Group>, first: usize) {
    let key = |event: u32| batch.partition_key(&batch.events()[event as usize]);
    for index in first..groups.len() {
        let Group { sink, destination, start, end } = groups[index];
        let events = &mut order[start as usize..end as usize];
        // Their indices keep those of one key in order; a stable sort would take memory.
        events.sort_unstable_by(|&one, &other| key(one).cmp(&key(other)).then(one.cmp(&other)));
        let mut position = start;
        for (number, alike) in events.chunk_by(|&one, &other| key(one) == key(other)).enumerate() {
            let start = position;
            // No more than the group has.
            position += alike.len() as u32;
            let group = Group { sink, destination, start, end: position };
            match number {
                0 => groups[index] = group,
                _ => groups.push(group),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use connect::event::{EnqueuedTime, EventParts, PartitionId};

    use super::*;

    #[test]
    fn each_key_has_a_group_of_its_own_and_keeps_its_order() {
        let mut batch = EventBatch::with_capacity(PartitionId(0), 6);
        for (number, key) in ["b", "a", "", "b", "a", ""].into_iter().enumerate() {
            let parts = EventParts {
                message: 0..0,
                partition_key: 0..key.len() as u32,
                offset: 0..0,
                sequence_number: number as i64,
                enqueued_time: EnqueuedTime::default(),
            };
            batch.push(&Bytes::from_static(key.as_bytes()), &parts);
        }
        let group = |destination, start, end| Group { sink: 0, destination, start, end };
        let mut order = [0, 1, 2, 3, 4, 5];
        let mut groups = vec![group(4, 0, 4), group(5, 4, 6)];
        split_by_key(&batch, &mut order, &mut groups, 0);
        assert_eq!(order, [2, 1, 0, 3, 5, 4]);
        let expected = [group(4, 0, 1), group(5, 4, 5), group(4, 1, 2), group(4, 2, 4), group(5, 5, 6)];
        assert_eq!(groups, expected);
    }
}
