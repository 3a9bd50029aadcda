//! Receive buffers that are used again.
//!
//! The engine reports messages as ranges of the buffer that they arrived in, and whoever handles them may hold on
//! to it for a while. A fresh buffer per read would cost a page fault for every 4 KiB that arrives, several times
//! the cost of everything else, so a buffer that is full is set aside and taken again once nobody holds a part of
//! it. A connection that waits for input with nothing half-read holds no buffer at all: it goes back to a pool that
//! the connections of a thread share.

use std::cell::RefCell;
use std::collections::VecDeque;

use bytes::BytesMut;

/// The input of one connection.
#[derive(Debug, Default)]
pub(crate) struct ReadBuffer {
    current: BytesMut,
    /// Whether `current` is a part of a buffer. A buffer of which all has been split off looks like none at all.
    has_buffer: bool,
    /// Full buffers of which parts may still be in use.
    retired: VecDeque<BytesMut>,
}

impl ReadBuffer {
    /// The bytes that have been read and not yet understood.
    pub(crate) const fn input(&mut self) -> &mut BytesMut {
        &mut self.current
    }

    /// The buffer with room for a worthwhile read behind what it holds.
    pub(crate) fn with_room(&mut self) -> &mut BytesMut {
        if self.current.capacity() - self.current.len() < MIN_ROOM {
            self.replace();
        }
        &mut self.current
    }

    /// Nothing is to be read now: gives away the buffers that are empty and of which nobody uses a part.
    pub(crate) fn rest(&mut self) {
        if self.current.is_empty() && self.has_buffer && self.current.try_reclaim(BUFFER_SIZE) {
            self.has_buffer = false;
            pool(std::mem::take(&mut self.current));
        }
        for _ in 0..self.retired.len() {
            if let Some(mut buffer) = self.retired.pop_front() {
                if buffer.try_reclaim(BUFFER_SIZE) {
                    pool(buffer);
                } else {
                    self.retired.push_back(buffer);
                }
            }
        }
    }

    #[cold]
    fn replace(&mut self) {
        // An unfinished frame moves along; it may be larger than a buffer.
        let needed = self.current.len() + MIN_ROOM;
        if self.current.try_reclaim(BUFFER_SIZE) {
            return;
        }
        let mut fresh = self.reusable(needed);
        fresh.extend_from_slice(&self.current);
        let mut full = std::mem::replace(&mut self.current, fresh);
        if std::mem::replace(&mut self.has_buffer, true) {
            full.clear();
            self.retire(full);
        }
    }

    fn reusable(&mut self, needed: usize) -> BytesMut {
        if needed <= BUFFER_SIZE {
            for _ in 0..self.retired.len() {
                let Some(mut buffer) = self.retired.pop_front() else {
                    break;
                };
                if buffer.try_reclaim(BUFFER_SIZE) {
                    return buffer;
                }
                self.retired.push_back(buffer);
            }
            if let Some(buffer) = POOL.with_borrow_mut(Vec::pop) {
                return buffer;
            }
        }
        BytesMut::with_capacity(needed.max(BUFFER_SIZE))
    }

    fn retire(&mut self, buffer: BytesMut) {
        if self.retired.len() >= RETIRED_MAX {
            self.retired.pop_front();
        }
        self.retired.push_back(buffer);
    }
}

/// Leaves a buffer to the other connections of the thread, if they have not enough already.
fn pool(buffer: BytesMut) {
    POOL.with_borrow_mut(|pool| {
        if pool.len() < POOLED_MAX {
            pool.push(buffer);
        }
    });
}

thread_local! {
    static POOL: RefCell<Vec<BytesMut>> = const { RefCell::new(Vec::new()) };
}

/// Large enough that the system call does not show, small enough to stay in the second-level cache.
const BUFFER_SIZE: usize = 256 * 1024;

/// A read into less than this is not worth its system call.
const MIN_ROOM: usize = 64 * 1024;

/// Buffers set aside per connection.
const RETIRED_MAX: usize = 32;

/// Buffers kept per thread.
const POOLED_MAX: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_is_reused_once_no_part_of_it_is_held() {
        let mut buffer = ReadBuffer::default();
        buffer.with_room().resize(BUFFER_SIZE, 1);
        let first = buffer.input().as_ptr();
        let held = buffer.input().split().freeze();
        buffer.with_room().extend_from_slice(&[2; 10]);
        assert_ne!(buffer.input().as_ptr(), first, "a part of the first buffer is in use");
        drop(held);
        buffer.input().resize(BUFFER_SIZE, 3);
        let _second = buffer.input().split().freeze();
        buffer.with_room().extend_from_slice(&[4; 10]);
        assert_eq!(buffer.input().as_ptr(), first);
        assert_eq!(buffer.input()[..], [4; 10]);
    }

    #[test]
    fn an_unfinished_frame_moves_to_the_next_buffer() {
        let mut buffer = ReadBuffer::default();
        buffer.with_room().resize(BUFFER_SIZE, 7);
        let _held = buffer.input().split_to(BUFFER_SIZE - 5).freeze();
        assert_eq!(buffer.with_room()[..], [7; 5]);
        assert!(buffer.input().capacity() - buffer.input().len() >= MIN_ROOM);
    }

    #[test]
    fn a_resting_connection_holds_no_buffer() {
        let mut buffer = ReadBuffer::default();
        buffer.with_room().extend_from_slice(&[0; 100]);
        drop(buffer.input().split().freeze());
        buffer.rest();
        assert_eq!(buffer.input().capacity(), 0);
        assert!(buffer.retired.is_empty());
    }

    #[test]
    fn a_buffer_of_which_a_part_is_in_use_is_read_into_again() {
        let mut buffer = ReadBuffer::default();
        buffer.with_room().extend_from_slice(&[1; 100]);
        let place = buffer.input().as_ptr();
        let held = buffer.input().split().freeze();
        buffer.rest();
        buffer.with_room().extend_from_slice(&[2; 100]);
        assert_eq!(buffer.input().as_ptr(), place.wrapping_add(100));
        assert_eq!(held[..], [1; 100]);
    }

    #[test]
    fn full_buffers_are_given_away_at_rest_once_no_part_of_them_is_held() {
        let mut buffer = ReadBuffer::default();
        let held: Vec<_> = (0..4)
            .map(|_| {
                buffer.with_room().resize(BUFFER_SIZE, 1);
                buffer.input().split().freeze()
            })
            .collect();
        buffer.rest();
        assert_eq!(buffer.retired.len(), 3, "all but the last are set aside");
        drop(held);
        buffer.rest();
        assert!(buffer.retired.is_empty());
        assert_eq!(buffer.input().capacity(), 0);
    }
}
