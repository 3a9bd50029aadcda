//! The relay between real queues, and its allocations.

mod allocations;
mod borders;
mod queue_allocations;
mod queue_forward;
mod unreadable_batches;

use counting_allocator::CountingAllocator;

/// Counts per thread, so that tests of allocations run beside all others.
#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;
