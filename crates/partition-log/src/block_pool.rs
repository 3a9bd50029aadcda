//! Blocks that are idle, kept for the next segment.

use super::block::{Allocation, BlockWriter};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use units::ByteSize;

/// Memory of dropped segments, shared by all logs of a service and bounded in bytes.
///
/// A block comes back by itself when its segment is gone and the last reader has let go of its slices. What would
/// exceed the bound is returned to the system.
pub struct BlockPool {
    idle: Mutex<Idle>,
    bound: usize,
}

struct Idle {
    /// By the binary logarithm of the capacity; only powers of two are kept.
    by_exponent: [Vec<Allocation>; usize::BITS as usize],
    bytes: usize,
}

impl BlockPool {
    /// A pool that keeps up to `bound` bytes of idle blocks.
    #[must_use]
    pub fn new(bound: ByteSize) -> Arc<Self> {
        let idle = Idle { by_exponent: [const { Vec::new() }; usize::BITS as usize], bytes: 0 };
        Arc::new(Self { idle: Mutex::new(idle), bound: bound.as_usize() })
    }

    /// A block of exactly `capacity` bytes: an idle one, or fresh memory.
    pub(crate) fn take(self: &Arc<Self>, capacity: usize) -> BlockWriter {
        let idle = self.take_idle(capacity);
        let allocation = idle.unwrap_or_else(|| Allocation::new(capacity));
        BlockWriter::new(allocation, Arc::clone(self))
    }

    fn take_idle(&self, capacity: usize) -> Option<Allocation> {
        let mut idle = self.lock();
        let allocation = idle.by_exponent.get_mut(exponent(capacity)?)?.pop()?;
        idle.bytes -= capacity;
        Some(allocation)
    }

    /// Takes back a block that nobody refers to any more.
    pub(crate) fn recycle(&self, allocation: Allocation) {
        let capacity = allocation.capacity();
        let Some(exponent) = exponent(capacity) else {
            return;
        };
        let mut idle = self.lock();
        if idle.bytes.saturating_add(capacity) <= self.bound {
            idle.bytes += capacity;
            idle.by_exponent[exponent].push(allocation);
        } else {
            // Returning memory to the system takes its time; nobody should wait for it here.
            drop(idle);
            drop(allocation);
        }
    }

    /// Adds up to `bytes` in blocks of `capacity` bytes, as far as the bound allows, and touches every page of them. The system hands out memory page by page at first use, at a tenth of the speed at which memory is written
    /// afterwards; whoever needs an even speed pays for that beforehand.
    pub fn fill(self: &Arc<Self>, bytes: ByteSize, capacity: usize) {
        let mut held = self.lock().bytes;
        let wanted = held.saturating_add(bytes.as_usize()).min(self.bound);
        let page = [0; 4096];
        let mut blocks = Vec::new();
        while held.saturating_add(capacity) <= wanted {
            let mut writer = BlockWriter::new(Allocation::new(capacity), Arc::clone(self));
            while writer.remaining() > 0 {
                writer.write(&page[..writer.remaining().min(page.len())]);
            }
            held += capacity;
            // Kept until all are made: a block that has come back would be handed out again.
            blocks.push(writer);
        }
    }

    /// How many bytes are idle.
    #[must_use]
    pub fn idle_bytes(&self) -> ByteSize {
        ByteSize::from_bytes(self.lock().bytes as u64)
    }

    fn lock(&self) -> MutexGuard<'_, Idle> {
        // Nothing in a locked section can panic half-way, so what is there is whole.
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for BlockPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BlockPool")
            .field("idle_bytes", &self.lock().bytes)
            .field("bound", &self.bound)
            .finish()
    }
}

fn exponent(capacity: usize) -> Option<usize> {
    capacity.is_power_of_two().then(|| capacity.trailing_zeros() as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_returns_when_its_last_slice_is_dropped() {
        let pool = BlockPool::new(ByteSize::from_kibibytes(64));
        let mut writer = pool.take(4096);
        writer.write(b"kept");
        writer.publish();
        let slice = writer.slice(0..4);
        drop(writer);
        assert_eq!(pool.idle_bytes(), ByteSize::ZERO);
        assert_eq!(&*slice, b"kept");
        drop(slice);
        assert_eq!(pool.idle_bytes(), ByteSize::from_bytes(4096));
        let again = pool.take(4096);
        assert_eq!(pool.idle_bytes(), ByteSize::ZERO);
        assert_eq!(again.published(), b"");
    }

    #[test]
    fn filling_adds_what_is_wanted_up_to_the_bound() {
        let pool = BlockPool::new(ByteSize::from_bytes(20_000));
        pool.fill(ByteSize::from_bytes(9_000), 4096);
        assert_eq!(pool.idle_bytes(), ByteSize::from_bytes(8192));
        pool.fill(ByteSize::from_bytes(100_000), 4096);
        assert_eq!(pool.idle_bytes(), ByteSize::from_bytes(16_384));
    }

    #[test]
    fn the_pool_never_holds_more_than_its_bound() {
        let pool = BlockPool::new(ByteSize::from_bytes(8192));
        let blocks = [pool.take(4096), pool.take(4096), pool.take(4096), pool.take(5000)];
        drop(blocks);
        assert_eq!(pool.idle_bytes(), ByteSize::from_bytes(8192));
    }
}
