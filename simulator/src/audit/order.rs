//! In which order a destination gets the events of a partition for the first time.
//!
//! INV-104: with `order: key` those that have their partition key in common come in order, whatever finishes first, and no two
//! of them are under way to a destination at once. Other keys may overtake them, and do.

use std::collections::BTreeMap;

use relay::{DispatchUnit, Order, RelayOptions};

use super::{Audit, Checked, index};
use crate::audit::Violation;

/// What is promised of the order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Keeps {
    Partition,
    Key,
    Nothing,
}

/// The newest events that came for the first time.
#[derive(Clone, Debug, Default)]
pub(super) struct Newest {
    /// Per destination.
    of_destination: BTreeMap<u32, i64>,
    /// Per destination and key.
    of_key: BTreeMap<(u32, String), i64>,
}

impl Keeps {
    pub(super) fn of(options: &RelayOptions) -> Self {
        match (options.dispatch_unit, options.order) {
            (DispatchUnit::Batch, _) if options.in_flight == 1 => Self::Partition,
            (DispatchUnit::Batch, _) => Self::Nothing,
            (DispatchUnit::Event, _) if options.events_at_once == 1 => Self::Partition,
            (DispatchUnit::Event, Order::Partition) => Self::Partition,
            (DispatchUnit::Event, Order::Key) => Self::Key,
            (DispatchUnit::Event, Order::None) => Self::Nothing,
        }
    }
}

impl Audit {
    /// A destination of a sink gets an event for the first time.
    pub(super) fn check_order(
        &mut self,
        sink: u32,
        destination: u32,
        partition: u32,
        sequence_number: i64,
    ) -> Checked {
        let key =
            self.key(partition, sequence_number).filter(|_| self.keeps == Keeps::Key).map(str::to_owned);
        let newest = &mut self.partitions[partition as usize].sinks[sink as usize].newest;
        let before = newest.of_destination.get(&destination).copied();
        if before.is_none_or(|before| before < sequence_number) {
            newest.of_destination.insert(destination, sequence_number);
        }
        let before = match self.keeps {
            Keeps::Nothing => return Ok(()),
            Keeps::Partition => before,
            Keeps::Key => {
                self.overtakings += u64::from(before.is_some_and(|before| before > sequence_number));
                // What has no key has no order.
                key.and_then(|key| newest.of_key.insert((destination, key), sequence_number))
            }
        };
        match before {
            Some(newest) if newest > sequence_number => {
                Err(Violation::Reordered { destination, partition, sequence_number, newest })
            }
            _ => Ok(()),
        }
    }

    /// An event is sent to a destination: none with its key is under way there.
    pub(super) fn check_key_is_free(
        &self,
        process: u32,
        sink: u32,
        destination: u32,
        partition: u32,
        sequence_number: i64,
        now_ms: u64,
    ) -> Checked {
        let Some(key) = self.key(partition, sequence_number).filter(|_| self.keeps == Keeps::Key) else {
            return Ok(());
        };
        let view = &self.processes[process as usize].views[partition as usize].sinks[sink as usize];
        let other = view.under_way.iter().find(|&(&number, send)| {
            number != sequence_number
                && send.destination == destination
                && now_ms < send.sent_at_ms.saturating_add(self.try_timeout_ms)
                && self.key(partition, number) == Some(key)
        });
        match other {
            None => Ok(()),
            Some((&other, _)) => {
                Err(Violation::KeyUnderWay { process, partition, sequence_number, other, destination })
            }
        }
    }

    /// How many events came to a destination after one behind them, where only the order of each key is kept.
    pub(crate) fn overtakings(&self) -> u64 {
        self.overtakings
    }

    /// The partition key of an event, if it has one.
    fn key(&self, partition: u32, sequence_number: i64) -> Option<&str> {
        let key = self.partitions[partition as usize].keys.get(index(sequence_number))?;
        (!key.is_empty()).then_some(key)
    }
}
