//! Blocks that are idle, kept for the next segment, and those that are made before a segment needs them.
//!
//! The system hands memory out at its first use. A huge page takes it 0.2 ms where memory is at hand, and 5 ms in a virtual
//! machine whose host has to find it first; whoever appends would wait for that, with everyone behind. So a log that is about
//! to need a large block says so, and a thread of the pool makes it meanwhile.

use super::block::{Allocation, BlockSlice, BlockWriter, HUGE_PAGE};
use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver, SyncSender};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::{self, JoinHandle};
use units::ByteSize;

/// Memory of dropped segments, shared by all logs of a service and bounded in bytes.
///
/// A block comes back by itself when its segment is gone and the last reader has let go of its slices. What would
/// exceed the bound is returned to the system.
pub struct BlockPool {
    idle: Arc<Mutex<Idle>>,
    bound: usize,
    /// There from the first request on; `None` if the system gave no thread.
    preparer: OnceLock<Option<Preparer>>,
    /// Bytes of blocks whose writer is gone.
    left_to_readers: AtomicUsize,
}

/// A thread that makes blocks.
struct Preparer {
    /// The capacities of blocks that are wanted; `None` only while being dropped.
    wanted: Option<SyncSender<usize>>,
    thread: Option<JoinHandle<()>>,
}

struct Idle {
    /// By the binary logarithm of the capacity; only powers of two are kept.
    by_exponent: [Vec<Allocation>; usize::BITS as usize],
    /// Logs that have said that they will need a block, and have not taken it yet; likewise by exponent.
    claims: [usize; usize::BITS as usize],
    bytes: usize,
}

impl BlockPool {
    /// A pool that keeps up to `bound` bytes of idle blocks.
    #[must_use]
    pub fn new(bound: ByteSize) -> Arc<Self> {
        let idle = Idle {
            by_exponent: [const { Vec::new() }; usize::BITS as usize],
            claims: [0; usize::BITS as usize],
            bytes: 0,
        };
        Arc::new(Self {
            idle: Arc::new(Mutex::new(idle)),
            bound: bound.as_usize(),
            preparer: OnceLock::new(),
            left_to_readers: AtomicUsize::new(0),
        })
    }

    /// A block of exactly `capacity` bytes: an idle one, or fresh memory.
    pub(crate) fn take(self: &Arc<Self>, capacity: usize) -> BlockWriter {
        let idle = self.take_idle(capacity);
        let allocation = idle.unwrap_or_else(|| Allocation::new(capacity));
        BlockWriter::new(allocation, Arc::clone(self))
    }

    fn take_idle(&self, capacity: usize) -> Option<Allocation> {
        let exponent = exponent(capacity)?;
        let mut idle = self.lock();
        let claims = idle.claims.get_mut(exponent)?;
        *claims = claims.saturating_sub(1);
        let allocation = idle.by_exponent.get_mut(exponent)?.pop()?;
        idle.bytes -= capacity;
        Some(allocation)
    }

    /// Returns a copy of `bytes` in a block of its own.
    #[must_use]
    pub fn copy(self: &Arc<Self>, bytes: &[u8]) -> BlockSlice {
        let mut writer = self.take(bytes.len().next_power_of_two());
        writer.write(bytes);
        writer.publish();
        writer.slice(0..bytes.len())
    }

    /// Returns the size of the blocks that only readers keep: segments that a log has dropped or has only on disk, and copies.
    #[must_use]
    pub fn left_to_readers(&self) -> ByteSize {
        ByteSize::from_bytes(self.left_to_readers.load(Ordering::Relaxed) as u64)
    }

    /// Counts a block of `capacity` bytes whose writer is gone.
    pub(crate) fn leave_to_readers(&self, capacity: usize) {
        self.left_to_readers.fetch_add(capacity, Ordering::Relaxed);
    }

    /// Takes back a block without references. Its writer has [left](Self::leave_to_readers) it before.
    pub(crate) fn recycle(&self, allocation: Allocation) {
        self.left_to_readers.fetch_sub(allocation.capacity(), Ordering::Relaxed);
        // Returning memory to the system takes its time; nobody should wait for it with the lock.
        let excess = self.lock().keep(allocation, self.bound);
        drop(excess);
    }

    /// Claims a block of `capacity` bytes for a log that will [take](Self::take) it soon. It is made in the background unless there
    /// are as many idle ones as claims: all partitions of a hub may come to their end at the same time. Does nothing for blocks that
    /// are had at once, or beyond the bound.
    pub(crate) fn prepare(&self, capacity: usize) {
        let Some(exponent) = exponent(capacity).filter(|_| capacity >= HUGE_PAGE) else {
            return;
        };
        if !self.lock().claim(exponent) {
            return;
        }
        let preparer = self.preparer.get_or_init(|| Preparer::start(Arc::clone(&self.idle), self.bound));
        if let Some(wanted) = preparer.as_ref().and_then(|preparer| preparer.wanted.as_ref()) {
            // With so many waiting, this one would come too late.
            let _ = wanted.try_send(capacity);
        }
    }

    /// Adds up to `bytes` in blocks of `capacity` bytes, as far as the bound allows, and touches every page of them: whoever
    /// needs an even speed pays for all memory beforehand.
    pub fn fill(&self, bytes: ByteSize, capacity: usize) {
        let wanted = self.lock().bytes.saturating_add(bytes.as_usize()).min(self.bound);
        while self.lock().bytes.saturating_add(capacity) <= wanted {
            if self.lock().keep(Allocation::touched(capacity), self.bound).is_some() {
                return;
            }
        }
    }

    /// How many bytes are idle.
    #[must_use]
    pub fn idle_bytes(&self) -> ByteSize {
        ByteSize::from_bytes(self.lock().bytes as u64)
    }

    fn lock(&self) -> MutexGuard<'_, Idle> {
        lock(&self.idle)
    }
}

impl Idle {
    /// Returns whether a block is to be made for this claim.
    fn claim(&mut self, exponent: usize) -> bool {
        self.claims[exponent] = (self.claims[exponent] + 1).min(CLAIMS_MAX);
        self.is_short_of(exponent)
    }

    /// Whether there are fewer blocks than claims.
    fn is_short_of(&self, exponent: usize) -> bool {
        self.by_exponent[exponent].len() < self.claims[exponent]
    }

    /// Keeps a block, or gives it back if it is of no use or beyond the bound.
    fn keep(&mut self, allocation: Allocation, bound: usize) -> Option<Allocation> {
        let capacity = allocation.capacity();
        let Some(exponent) = exponent(capacity).filter(|_| self.bytes.saturating_add(capacity) <= bound)
        else {
            return Some(allocation);
        };
        self.bytes += capacity;
        self.by_exponent[exponent].push(allocation);
        None
    }
}

impl Preparer {
    fn start(idle: Arc<Mutex<Idle>>, bound: usize) -> Option<Self> {
        let (wanted, requests) = mpsc::sync_channel(CLAIMS_MAX);
        let work = move || prepare_blocks(&requests, &idle, bound);
        let thread = thread::Builder::new().name("blocks".to_owned()).spawn(work).ok()?;
        Some(Self { wanted: Some(wanted), thread: Some(thread) })
    }
}

impl Drop for Preparer {
    fn drop(&mut self) {
        drop(self.wanted.take());
        if let Some(thread) = self.thread.take() {
            // If it panicked, it has made no block; nothing else depends on it.
            let _ = thread.join();
        }
    }
}

fn prepare_blocks(requests: &Receiver<usize>, idle: &Mutex<Idle>, bound: usize) {
    let is_wanted = |capacity: usize| {
        let idle = lock(idle);
        let is_short = exponent(capacity).is_some_and(|exponent| idle.is_short_of(exponent));
        is_short && idle.bytes.saturating_add(capacity) <= bound
    };
    for capacity in requests {
        if is_wanted(capacity) {
            let allocation = Allocation::touched(capacity);
            let excess = lock(idle).keep(allocation, bound);
            drop(excess);
        }
    }
}

fn lock(idle: &Mutex<Idle>) -> MutexGuard<'_, Idle> {
    // Nothing in a locked section can panic half-way, so what is there is whole.
    idle.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Claims of one size that count at the same time. Logs that claim a block may be deleted before they take it.
const CLAIMS_MAX: usize = 256;

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
        assert_eq!(pool.left_to_readers(), ByteSize::ZERO);
        drop(writer);
        assert_eq!(pool.idle_bytes(), ByteSize::ZERO);
        assert_eq!(pool.left_to_readers(), ByteSize::from_bytes(4096));
        assert_eq!(&*slice, b"kept");
        drop(slice);
        assert_eq!(pool.left_to_readers(), ByteSize::ZERO);
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
    fn large_blocks_are_made_before_they_are_needed_within_the_bound() {
        let pool = BlockPool::new(ByteSize::from_bytes(2 * HUGE_PAGE as u64));
        pool.prepare(HUGE_PAGE / 2);
        for _ in 0..3 {
            pool.prepare(HUGE_PAGE);
        }
        // Dropping the preparer waits for what it was asked.
        let idle = Arc::clone(&pool.idle);
        drop(pool);
        assert_eq!(lock(&idle).bytes, 2 * HUGE_PAGE);
    }

    #[test]
    fn each_claim_has_a_block_and_a_block_that_is_taken_ends_one() {
        let pool = BlockPool::new(ByteSize::from_bytes(64 * HUGE_PAGE as u64));
        let taken: Vec<_> = (0..4).map(|_| pool.take(HUGE_PAGE)).collect();
        drop(taken);
        for _ in 0..9 {
            pool.prepare(HUGE_PAGE);
        }
        drop(pool.take(HUGE_PAGE));
        let idle = Arc::clone(&pool.idle);
        drop(pool);
        let blocks = lock(&idle).bytes / HUGE_PAGE;
        assert!((8..=9).contains(&blocks), "{blocks} blocks for 9 claims, of which one is over");
    }

    #[test]
    fn the_pool_never_holds_more_than_its_bound() {
        let pool = BlockPool::new(ByteSize::from_bytes(8192));
        let blocks = [pool.take(4096), pool.take(4096), pool.take(4096), pool.take(5000)];
        drop(blocks);
        assert_eq!(pool.idle_bytes(), ByteSize::from_bytes(8192));
    }
}
