//! Sends that were under way when their batch was given up. Their outcomes come all the same, mostly while the partition
//! rests, and what was accepted need not be sent again.

use std::collections::HashMap;

use connect::sink::SendToken;

use super::in_flight::Slots;
use super::partition::Partition;
use super::sends::{NONE, Sends, Stage};

/// Sends without an outcome, of batches that were given up.
#[derive(Debug, Default)]
pub(super) struct Orphans {
    sends: HashMap<SendToken, Orphan>,
}

/// What one send carries.
#[derive(Debug)]
pub(super) struct Orphan {
    /// Index of the partition in the relay.
    pub(super) partition: usize,
    tenure: u64,
    /// The sink that has it.
    pub(super) sink: u32,
    pub(super) numbers: Vec<i64>,
}

impl Orphans {
    /// All batches of a partition are about to be given up. Those that were before are forgotten: they had the time until now.
    pub(super) fn adopt(&mut self, index: usize, partition: &Partition, slots: &Slots, sends: &Sends) {
        self.forget(index);
        for &slot in &partition.in_flight {
            for send in sends.of_batch(slots.in_flight(slot).sends) {
                if sends.send(send).stage != Stage::Sent {
                    continue;
                }
                let mut numbers = Vec::new();
                let mut next = send;
                while next != NONE {
                    let of = sends.send(next);
                    let in_flight = slots.in_flight(sends.slot(next));
                    let events = in_flight.batch.events();
                    let positions = of.next as usize..of.attempted_end() as usize;
                    let order = &in_flight.order[positions];
                    numbers.extend(order.iter().map(|&event| events[event as usize].sequence_number));
                    next = of.follower;
                }
                let sink = sends.send(send).sink;
                let orphan = Orphan { partition: index, tenure: partition.tenure, sink, numbers };
                self.sends.insert(sends.token(send), orphan);
            }
        }
    }

    /// What was sent of a partition says nothing about what is to come.
    pub(super) fn forget(&mut self, index: usize) {
        self.sends.retain(|_, orphan| orphan.partition != index);
    }

    /// The send that an outcome is for, unless its partition is another relay's by now.
    pub(super) fn take(&mut self, token: SendToken, partitions: &[Partition]) -> Option<Orphan> {
        let orphan = self.sends.remove(&token)?;
        (partitions[orphan.partition].tenure == orphan.tenure).then_some(orphan)
    }
}
