//! The engine through its public face: byte vectors, conversations in virtual time, hostile streams, allocations.

mod allocations;
mod conversations;
mod hostile;
mod list;
mod pair;
mod properties;
mod vectors;
mod wire;

use counting_allocator::CountingAllocator;

/// Counts per thread, so that tests of allocations run beside all others.
#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;
