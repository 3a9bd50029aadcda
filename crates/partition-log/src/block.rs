//! A block of memory with one writer and any number of readers, at the same time and without a lock.
//!
//! ```text
//!  0                     published        written             capacity
//!  ├─────────────────────────┼────────────────┼──────────────────┤
//!  │ never written again;    │ the writer's,  │ never been read, │
//!  │ readers hold slices     │ initialised    │ any content      │
//! ```
//!
//! # Why this file uses `unsafe`
//!
//! A reader must keep bytes alive while the writer goes on behind them *in the same allocation*; that is what
//! makes reading free of copies and a chunk contiguous over many batches. Safe Rust offers no type for it: with
//! `BytesMut::split().freeze()` each batch would become a slice of its own that can't be joined with the next, with a
//! reference count per batch on either side, and the memory could not be aligned to huge pages. For batches of
//! 16-byte events that costs several times the copy itself; for records of 1 KiB there is little between the two.
//!
//! Three rules make it sound, and all of them are kept within this file:
//!
//! 1. There is one [`BlockWriter`] per block. It writes at or after `published` only, and `published` only grows.
//! 2. A [`BlockSlice`] covers bytes before `published` only. Hence no byte is written while anyone else may read it.
//! 3. Writer and slices keep the allocation alive through one `Arc`; it is recycled when the last of them is gone.
//!
//! A slice gets to another thread through something that synchronises (the log's mutex, a channel), which also
//! carries the bytes written before it was made.

#![expect(
    unsafe_code,
    reason = "writing behind bytes that others read; see the rules at the top of the file"
)]

use super::block_pool::BlockPool;
use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::fmt;
use std::ops::{Deref, Range};
use std::ptr::NonNull;
use std::sync::Arc;

/// The only one who writes to a block.
pub(crate) struct BlockWriter {
    block: Arc<Block>,
    /// The block's first byte and its size, copied out of it to spare an indirection per write.
    start: NonNull<u8>,
    capacity: usize,
    published: usize,
    written: usize,
}

/// Bytes of a block that will never change again. Cheap to clone; keeps the whole block alive.
#[derive(Clone)]
pub struct BlockSlice {
    start: NonNull<u8>,
    length: usize,
    /// Keeps the memory; nothing else is done with it.
    _block: Arc<Block>,
}

/// Memory of a fixed size, owned. Its content may be uninitialised.
pub(crate) struct Allocation {
    start: NonNull<u8>,
    capacity: usize,
}

/// What writer and slices of a block have in common: they keep it.
struct Block {
    /// `None` only while being dropped.
    allocation: Option<Allocation>,
    pool: Arc<BlockPool>,
}

impl BlockWriter {
    /// Starts to fill `allocation`, which goes to `pool` in the end.
    pub(crate) fn new(allocation: Allocation, pool: Arc<BlockPool>) -> Self {
        let Allocation { start, capacity } = allocation;
        let block = Arc::new(Block { allocation: Some(allocation), pool });
        Self { block, start, capacity, published: 0, written: 0 }
    }

    /// How many more bytes can be written.
    pub(crate) fn remaining(&self) -> usize {
        self.capacity - self.written
    }

    /// How many bytes are published.
    pub(crate) fn published_length(&self) -> usize {
        self.published
    }

    /// Writes `bytes` after what was written so far.
    ///
    /// # Panics
    /// If they don't fit: the caller has looked at [`remaining`](Self::remaining).
    #[inline]
    pub(crate) fn write(&mut self, bytes: &[u8]) {
        assert!(bytes.len() <= self.remaining(), "a write beyond the block's end");
        if let (16..=32, Some(first), Some(last)) = (bytes.len(), bytes.first_chunk(), bytes.last_chunk()) {
            // A small event. Two copies of a fixed length, which share what is in the middle, take less than a call.
            self.put(self.written, first);
            self.put(self.written + bytes.len() - last.len(), last);
            self.written += bytes.len();
            return;
        }
        // SAFETY: `written + bytes.len() <= capacity` by the assertion, so the destination is inside the allocation
        // that `block` keeps alive. It does not overlap `bytes`: nobody but `self`, borrowed mutably, can refer to
        // anything at or after `published` (rules 1 and 2).
        unsafe {
            self.start.add(self.written).copy_from_nonoverlapping(NonNull::from(bytes).cast(), bytes.len());
        }
        self.written += bytes.len();
    }

    /// Writes the first `length` bytes of `bytes`; faster than [`write`](Self::write) for a few bytes, since the
    /// whole array is copied where there is room for it.
    ///
    /// # Panics
    /// If `length` bytes don't fit, or the array has fewer.
    #[inline]
    pub(crate) fn write_few(&mut self, bytes: &[u8; 16], length: usize) {
        if self.remaining() < bytes.len() {
            return self.write_at_the_end(&bytes[..length]);
        }
        assert!(length <= bytes.len(), "more bytes than there are");
        self.put(self.written, bytes);
        self.written += length;
    }

    /// What [`write_few`](Self::write_few) does where there is little room. Apart from it, or the compiler makes one call of a
    /// copy of unknown length of both.
    #[cold]
    #[inline(never)]
    fn write_at_the_end(&mut self, bytes: &[u8]) {
        self.write(bytes);
    }

    /// Copies `bytes` to a place at or after `written`.
    #[inline]
    fn put(&mut self, at: usize, bytes: &[u8; 16]) {
        let fits = self.capacity.checked_sub(at).is_some_and(|room| bytes.len() <= room);
        assert!(self.written <= at && fits, "a write beyond the block's end");
        // SAFETY: 16 bytes fit at `at`, as was just tested, so `at` is not beyond the allocation either; as in `write`,
        // nothing else can refer to what comes after `written`.
        unsafe {
            self.start.add(at).copy_from_nonoverlapping(NonNull::from(bytes).cast(), bytes.len());
        }
    }

    /// What was written and is not yet published, to be completed.
    #[inline]
    pub(crate) fn unpublished(&mut self) -> &mut [u8] {
        // SAFETY: the bytes from `published` to `written` are inside the allocation and initialised by `write`.
        // The result borrows `self` mutably, and no slice covers bytes after `published` (rule 2).
        unsafe {
            std::slice::from_raw_parts_mut(
                self.start.add(self.published).as_ptr(),
                self.written - self.published,
            )
        }
    }

    /// Makes what was written readable, for ever unchanged.
    pub(crate) fn publish(&mut self) {
        self.published = self.written;
    }

    /// Forgets what was written and not published.
    pub(crate) fn discard(&mut self) {
        self.written = self.published;
    }

    /// All bytes published so far.
    pub(crate) fn published(&self) -> &[u8] {
        // SAFETY: the bytes before `published` are inside the allocation, initialised, and not written again (rule 1).
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.published) }
    }

    /// A share in published bytes.
    ///
    /// # Panics
    /// If `range` is not within what is published.
    pub(crate) fn slice(&self, range: Range<usize>) -> BlockSlice {
        assert!(
            range.start <= range.end && range.end <= self.published,
            "a slice of bytes that are not published"
        );
        // SAFETY: `range.start <= published <= capacity`, so the pointer stays inside the allocation or at its end.
        let start = unsafe { self.start.add(range.start) };
        BlockSlice { start, length: range.end - range.start, _block: Arc::clone(&self.block) }
    }
}

impl BlockSlice {
    /// The slice without anything from `length` on; the whole of it, if it is not longer.
    #[must_use]
    pub fn truncated(mut self, length: usize) -> Self {
        self.length = self.length.min(length);
        self
    }
}

impl Drop for BlockWriter {
    /// Leaves the block to its readers, the last of which drops [`Block`].
    fn drop(&mut self) {
        self.block.pool.leave_to_readers(self.capacity);
    }
}

impl Deref for BlockSlice {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        // SAFETY: made by `BlockWriter::slice` (and at most shortened since), so the bytes were published, which means
        // inside the allocation, initialised and not written again (rules 1 and 2). `_block` keeps them alive (rule 3).
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.length) }
    }
}

impl AsRef<[u8]> for BlockSlice {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl fmt::Debug for BlockSlice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BlockSlice").field("length", &self.length).finish_non_exhaustive()
    }
}

impl Allocation {
    /// Fresh memory. From 2 MiB on it is aligned to huge pages and the system is asked for them: one page fault
    /// instead of 512.
    ///
    /// # Panics
    /// If `capacity` is zero or larger than any allocation can be. Aborts when there is no memory, as `Vec` does.
    pub(crate) fn new(capacity: usize) -> Self {
        assert!(capacity > 0, "a block of no bytes");
        let layout = Self::layout(capacity);
        // SAFETY: the layout's size is not zero.
        let Some(start) = NonNull::new(unsafe { alloc(layout) }) else { handle_alloc_error(layout) };
        if capacity >= HUGE_PAGE {
            advise_huge_pages(start, capacity);
        }
        Self { start, capacity }
    }

    /// Fresh memory that the system has handed out already: every page was written to.
    ///
    /// # Panics
    /// As [`new`](Self::new).
    pub(crate) fn touched(capacity: usize) -> Self {
        let allocation = Self::new(capacity);
        for at in (0..capacity).step_by(SMALLEST_PAGE) {
            // SAFETY: `at` is inside the allocation, which nobody else has seen yet.
            unsafe { allocation.start.add(at).write_volatile(0) };
        }
        allocation
    }

    /// Its size in bytes.
    pub(crate) fn capacity(&self) -> usize {
        self.capacity
    }

    fn layout(capacity: usize) -> Layout {
        let alignment = if capacity >= HUGE_PAGE { HUGE_PAGE } else { CACHE_LINE };
        Layout::from_size_align(capacity, alignment)
            .expect("batches, and so blocks, are far below the address space")
    }
}

impl Drop for Allocation {
    fn drop(&mut self) {
        // SAFETY: `start` came from `alloc` with the layout of the same capacity, and only its owner frees it.
        unsafe { dealloc(self.start.as_ptr(), Self::layout(self.capacity)) }
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        if let Some(allocation) = self.allocation.take() {
            self.pool.recycle(allocation);
        }
    }
}

// SAFETY: an `Allocation` owns plain memory, like a `Vec<u8>`; a shared reference gives access to none of it.
unsafe impl Send for Allocation {}
// SAFETY: as above.
unsafe impl Sync for Allocation {}
// SAFETY: the pointer goes into the allocation that `block`, which is `Send` and `Sync`, keeps alive. There is one
// writer per block, so whoever has it may write (rule 1); a shared reference only reads published bytes.
unsafe impl Send for BlockWriter {}
// SAFETY: as above.
unsafe impl Sync for BlockWriter {}
// SAFETY: the bytes of a slice don't change while it lives (rule 2), so they may be read from any thread; `block`
// is `Send` and `Sync`.
unsafe impl Send for BlockSlice {}
// SAFETY: as above.
unsafe impl Sync for BlockSlice {}

#[cfg(all(target_os = "linux", not(miri)))]
fn advise_huge_pages(start: NonNull<u8>, length: usize) {
    // SAFETY: the range is one allocation of ours, and this advice does not change what is in it.
    let advised =
        unsafe { rustix::mm::madvise(start.as_ptr().cast(), length, rustix::mm::Advice::LinuxHugepage) };
    // Advice only: a kernel without huge pages refuses it, and ordinary pages serve as well, if slower.
    advised.unwrap_or_default();
}

#[cfg(not(all(target_os = "linux", not(miri))))]
fn advise_huge_pages(_start: NonNull<u8>, _length: usize) {}

/// The size of a huge page on x86-64 and the usual one on 64-bit ARM.
pub(crate) const HUGE_PAGE: usize = 2 * 1024 * 1024;

/// The smallest page of any system that this runs on.
const SMALLEST_PAGE: usize = 4096;

/// Keeps the ends of two blocks out of one line, whose writers may be on different cores.
const CACHE_LINE: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;
    use std::thread;
    use units::ByteSize;

    fn pool() -> Arc<BlockPool> {
        BlockPool::new(ByteSize::from_mebibytes(16))
    }

    #[test]
    fn what_was_published_is_read_while_the_writer_goes_on() {
        let mut writer = pool().take(64);
        writer.write(b"first");
        writer.publish();
        let first = writer.slice(0..5);
        writer.write(b"second");
        writer.unpublished()[0] = b'S';
        assert_eq!(&*first, b"first");
        writer.publish();
        let both = writer.slice(3..11);
        assert_eq!(&*both, b"stSecond");
        assert_eq!(&*both.clone().truncated(2), b"st");
        drop(writer);
        assert_eq!(&*first, b"first");
    }

    #[test]
    fn discarded_bytes_are_written_over() {
        let mut writer = pool().take(16);
        writer.write(b"0123456789");
        writer.discard();
        assert_eq!((writer.remaining(), writer.published_length()), (16, 0));
        writer.write(b"ab");
        writer.publish();
        assert_eq!(writer.published(), b"ab");
    }

    #[test]
    fn writes_of_every_length_are_exact_and_leave_the_rest_alone() {
        let source: Vec<u8> = (1..=64).collect();
        for length in 0..=source.len() {
            let mut writer = pool().take(length + 3);
            writer.write(&[0xf0]);
            writer.write(&source[..length]);
            writer.write(&[0xf1, 0xf2]);
            assert_eq!(writer.remaining(), 0);
            writer.publish();
            let expected = [&[0xf0][..], &source[..length], &[0xf1, 0xf2]].concat();
            assert_eq!(writer.published(), expected, "{length}");
        }
    }

    #[test]
    fn a_few_bytes_are_written_exactly_even_at_the_end() {
        let mut writer = pool().take(20);
        let bytes = *b"0123456789abcdef";
        writer.write_few(&bytes, 10);
        writer.write_few(&bytes, 10);
        assert_eq!(writer.remaining(), 0);
        writer.publish();
        assert_eq!(writer.published(), b"01234567890123456789");
    }

    #[test]
    #[should_panic(expected = "beyond the block's end")]
    fn a_write_beyond_the_end_panics_instead_of_writing() {
        pool().take(4).write(b"12345");
    }

    #[test]
    #[should_panic(expected = "not published")]
    fn a_slice_of_unpublished_bytes_panics_instead_of_being_made() {
        let mut writer = pool().take(4);
        writer.write(b"1234");
        writer.slice(0..1);
    }

    #[test]
    fn readers_on_another_thread_see_whole_numbers_while_the_writer_writes() {
        const NUMBERS: u32 = 200;
        let mut writer = pool().take(NUMBERS as usize * 4);
        let (sender, receiver) = mpsc::channel::<BlockSlice>();
        let reader = thread::spawn(move || {
            let mut sum = 0_u64;
            for slice in receiver {
                sum += slice
                    .chunks(4)
                    .map(|four| u64::from(u32::from_be_bytes(four.try_into().unwrap())))
                    .sum::<u64>();
            }
            sum
        });
        for number in 0..NUMBERS {
            writer.write(&number.to_be_bytes());
            writer.publish();
            let end = writer.published_length();
            sender.send(writer.slice(end - 4..end)).unwrap();
        }
        drop(sender);
        assert_eq!(reader.join().unwrap(), u64::from(NUMBERS * (NUMBERS - 1) / 2));
    }

    #[test]
    fn a_block_that_is_used_again_starts_empty_while_old_slices_keep_theirs() {
        let pool = pool();
        let mut writer = pool.take(64);
        writer.write(b"old");
        writer.publish();
        let old = writer.slice(0..3);
        drop(writer);
        let mut other = pool.take(64);
        other.write(b"new");
        other.publish();
        assert_eq!((&*old, other.published()), (&b"old"[..], &b"new"[..]));
        drop(old);
        let recycled = pool.take(64);
        assert_eq!(recycled.published(), b"");
    }

    #[test]
    fn a_large_block_is_aligned_to_huge_pages() {
        let writer = pool().take(HUGE_PAGE);
        assert_eq!(writer.start.addr().get() % HUGE_PAGE, 0);
        assert_eq!(writer.remaining(), HUGE_PAGE);
    }
}
