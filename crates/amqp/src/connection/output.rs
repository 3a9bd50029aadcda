//! What waits to be sent: bytes that were encoded here, and between them bytes that others hold. Hot path.
//!
//! ```text
//!  bytes     │ written by the driver │ frame  frame… │ …frame  frame… │ …frame  frame │
//!                                    start           ▲                ▲
//!  shared                                        8 KiB payload   64 KiB payload
//! ```
//!
//! A long payload is not copied to be sent: it stays where it is, in a log's block or in the buffer that it was received
//! into, and the driver writes all pieces by one call. It holds that memory until it is sent, so only those share who know
//! how much of it can wait.

use std::collections::VecDeque;
use std::io::IoSlice;

use bytes::{Buf, Bytes};

/// The output of a connection.
#[derive(Debug, Default)]
pub(super) struct Output {
    /// What was encoded here, with `start` bytes in front that have been sent.
    pub(super) bytes: Vec<u8>,
    start: usize,
    /// In the order in which they are sent.
    shared: VecDeque<Shared>,
    shared_length: usize,
}

/// Bytes that others hold, at least one.
#[derive(Debug)]
struct Shared {
    /// Which of the encoded bytes they stand in front of.
    at: usize,
    bytes: Bytes,
}

/// Where a message begins, should it be taken back.
#[derive(Debug, Clone, Copy)]
pub(super) struct Mark {
    pub(super) at: usize,
    shared: usize,
}

impl Output {
    /// How many bytes wait.
    #[inline]
    pub(super) const fn len(&self) -> usize {
        self.bytes.len() - self.start + self.shared_length
    }

    /// Puts `bytes` behind what there is.
    pub(super) fn share(&mut self, bytes: Bytes) {
        if !bytes.is_empty() {
            self.shared_length += bytes.len();
            self.shared.push_back(Shared { at: self.bytes.len(), bytes });
        }
    }

    /// The place behind what there is.
    #[inline]
    pub(super) fn mark(&self) -> Mark {
        Mark { at: self.bytes.len(), shared: self.shared.len() }
    }

    /// Forgets what came after `mark`, of which nothing has been sent.
    pub(super) fn take_back(&mut self, mark: Mark) {
        self.bytes.truncate(mark.at);
        for dropped in self.shared.drain(mark.shared..) {
            self.shared_length -= dropped.bytes.len();
        }
    }

    /// The first of what waits, as far as it is in one piece.
    pub(super) fn first(&self) -> &[u8] {
        match self.shared.front() {
            None => &self.bytes[self.start..],
            Some(shared) if shared.at == self.start => &shared.bytes,
            Some(shared) => &self.bytes[self.start..shared.at],
        }
    }

    /// Whether what waits is in several pieces.
    pub(super) fn is_scattered(&self) -> bool {
        !self.shared.is_empty()
    }

    /// Sets `slices` to the first pieces of what waits, and says how many there are.
    pub(super) fn fill<'a>(&'a self, slices: &mut [IoSlice<'a>]) -> usize {
        let mut at = self.start;
        let mut count = 0;
        let mut put = |piece: &'a [u8]| {
            let place = slices.get_mut(count).filter(|_| !piece.is_empty());
            if let Some(place) = place {
                *place = IoSlice::new(piece);
                count += 1;
            }
            count < slices.len()
        };
        for shared in &self.shared {
            if !(put(&self.bytes[at..shared.at]) && put(&shared.bytes)) {
                return count;
            }
            at = shared.at;
        }
        put(&self.bytes[at..]);
        count
    }

    /// The first `length` bytes of what waits have been sent.
    pub(super) fn consume(&mut self, length: usize) {
        debug_assert!(length <= self.len(), "more was sent than there is");
        match self.shared.is_empty() {
            true => self.start += length,
            false => self.consume_scattered(length),
        }
        if self.start >= self.bytes.len() && self.shared.is_empty() {
            self.start = 0;
            self.bytes.clear();
            if self.bytes.capacity() > CAPACITY_MAX {
                self.bytes.shrink_to(RETAINED);
            }
        } else if self.start > RETAINED && self.start > self.bytes.len() / 2 {
            // No byte is moved more often than others were sent, however much waits.
            self.bytes.drain(..self.start);
            for shared in &mut self.shared {
                shared.at -= self.start;
            }
            self.start = 0;
        }
    }

    fn consume_scattered(&mut self, mut length: usize) {
        while length > 0 {
            let Some(front) = self.shared.front_mut() else {
                self.start += length;
                return;
            };
            let encoded = (front.at - self.start).min(length);
            self.start += encoded;
            length -= encoded;
            if self.start < front.at {
                return;
            }
            let sent = front.bytes.len().min(length);
            front.bytes.advance(sent);
            self.shared_length -= sent;
            length -= sent;
            if front.bytes.is_empty() {
                self.shared.pop_front();
            }
        }
    }

    /// Whether nothing waits, but more memory is held than a connection at rest needs.
    pub(super) const fn is_spare(&self) -> bool {
        self.len() == 0 && self.bytes.capacity() > AT_REST
    }

    /// Gives memory back if nothing waits.
    pub(super) fn rest(&mut self) {
        if self.len() == 0 {
            *self = Self::default();
        }
    }
}

/// From this length on, bytes are better shared than copied: a share costs two pieces more for the system to write, and a
/// count of references.
pub const SHARED_MIN: usize = 4 * 1024;

/// Encoded bytes for which a busy connection keeps room.
const RETAINED: usize = 256 * 1024;

/// Largest capacity that a busy connection keeps, in bytes. The output of a server is 256 KiB and a share more: a buffer of that size
/// is not given back each time it is empty, since fresh memory costs a page fault for every 4 KiB.
const CAPACITY_MAX: usize = 2 * RETAINED;

/// Encoded bytes for which a connection at rest keeps room.
const AT_REST: usize = 4 * 1024;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// What is done to an output.
    #[derive(Debug, Clone)]
    enum Step {
        Encode(usize),
        Share(usize),
        /// Shares and encodes so much and takes it back.
        TakeBack(usize, usize),
        Consume(usize),
        /// Writes so many pieces at once.
        Write(usize),
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            (0_usize..300).prop_map(Step::Encode),
            (0_usize..300).prop_map(Step::Share),
            (0_usize..50, 0_usize..50).prop_map(|(a, b)| Step::TakeBack(a, b)),
            (0_usize..400).prop_map(Step::Consume),
            (0_usize..6).prop_map(Step::Write),
            Just(Step::Encode(RETAINED)),
        ]
    }

    #[test]
    fn buffer_of_the_usual_size_is_kept_and_a_larger_one_is_given_back() {
        let mut output = Output::default();
        for (length, kept) in [(RETAINED + RETAINED / 4, true), (3 * RETAINED, false)] {
            output.bytes.resize(length, 7);
            let capacity = output.bytes.capacity();
            output.consume(length);
            assert_eq!(output.bytes.capacity() == capacity, kept, "{length}");
            assert!(output.bytes.capacity() <= CAPACITY_MAX);
        }
    }

    proptest! {
        #[test]
        fn what_goes_out_is_what_was_put_in(steps in prop::collection::vec(step(), 0..60)) {
            let mut output = Output::default();
            let (mut put, mut sent) = (Vec::new(), Vec::new());
            let mut next = 0_u8;
            let mut numbers = |length| (0..length).map(|_| { next = next.wrapping_add(1); next }).collect::<Vec<u8>>();
            for step in steps {
                match step {
                    Step::Encode(length) => {
                        let bytes = numbers(length);
                        output.bytes.extend_from_slice(&bytes);
                        put.extend(bytes);
                    }
                    Step::Share(length) => {
                        let bytes = numbers(length);
                        output.share(Bytes::copy_from_slice(&bytes));
                        put.extend(bytes);
                    }
                    Step::TakeBack(shared, encoded) => {
                        let mark = output.mark();
                        output.share(Bytes::from(numbers(shared)));
                        output.bytes.extend(numbers(encoded));
                        output.share(Bytes::from(numbers(shared)));
                        output.take_back(mark);
                    }
                    Step::Consume(most) => {
                        let length = output.first().len().min(most);
                        sent.extend_from_slice(&output.first()[..length]);
                        output.consume(length);
                    }
                    Step::Write(most) => {
                        let mut slices = vec![IoSlice::new(&[]); most];
                        let count = output.fill(&mut slices);
                        let written: Vec<u8> = slices[..count].iter().flat_map(|slice| slice.to_vec()).collect();
                        prop_assert!(count > 0 || most == 0 || output.len() == 0);
                        prop_assert!(slices[..count].iter().all(|slice| !slice.is_empty()));
                        output.consume(written.len());
                        sent.extend(written);
                    }
                }
                prop_assert_eq!(output.len(), put.len() - sent.len());
                prop_assert_eq!(output.first().is_empty(), output.len() == 0);
            }
            while output.len() > 0 {
                sent.extend_from_slice(output.first());
                output.consume(output.first().len());
            }
            prop_assert!(sent == put);
        }
    }
}
