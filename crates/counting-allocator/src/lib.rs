//! A global allocator that counts, for tests that hold code to a bound.
//!
//! A program has one global allocator, so the root of each test binary declares it with `#[global_allocator]`. Counts are per
//! thread, so that tests can run side by side, and beside the threads of a service.

#![expect(
    unsafe_code,
    reason = "a global allocator is unsafe to implement; this one only counts and passes on"
)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

thread_local! {
    static COUNTS: Cell<Counts> = const { Cell::new(Counts { allocations: 0, held: 0, peak: 0 }) };
}

#[derive(Clone, Copy)]
struct Counts {
    allocations: u64,
    held: i64,
    peak: i64,
}

/// What a piece of code asked of the allocator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Usage {
    /// Allocations and reallocations.
    pub allocations: u64,
    /// Most bytes held at one time beyond those held at the start.
    pub peak_bytes: u64,
}

/// Counts what `work` does on this thread.
pub fn measure<T>(work: impl FnOnce() -> T) -> (T, Usage) {
    let before = COUNTS.get();
    COUNTS.set(Counts { peak: before.held, ..before });
    let result = work();
    let after = COUNTS.get();
    let usage = Usage {
        allocations: after.allocations - before.allocations,
        peak_bytes: u64::try_from(after.peak - before.held).unwrap_or(0),
    };
    (result, usage)
}

/// How often this thread has asked for memory so far, for work that awaits.
#[must_use]
pub fn allocations() -> u64 {
    COUNTS.get().allocations
}

/// The system's allocator, with every call counted.
#[derive(Debug)]
pub struct CountingAllocator;

// SAFETY: every call is passed on to the system's allocator as it came.
unsafe impl GlobalAlloc for CountingAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size(), 0);
        // SAFETY: the caller's promise is the one that the system's allocator asks for.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        let _ = COUNTS.try_with(|counts| {
            let now = counts.get();
            counts.set(Counts { held: now.held - layout.size() as i64, ..now });
        });
        // SAFETY: as above.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(size, layout.size());
        // SAFETY: as above.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

fn count(gained: usize, lost: usize) {
    // A thread that is ending has no counts any more.
    let _ = COUNTS.try_with(|counts| {
        let now = counts.get();
        let held = now.held + gained as i64 - lost as i64;
        counts.set(Counts { allocations: now.allocations + 1, held, peak: now.peak.max(held) });
    });
}
