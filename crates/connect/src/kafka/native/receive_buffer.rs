//! What has arrived, cut into frames.
//!
//! A frame is handed out as a part of the buffer that it was received into. A buffer that is full is set aside, and read into
//! again once nobody holds a part of it: fresh memory costs more than everything else that is done to what it receives.

use std::collections::VecDeque;

use bytes::{Buf as _, Bytes, BytesMut};
use kafka::frame::{self, FrameError, SIZE_LENGTH};

/// Bytes received, up to the end of the last frame that is whole.
#[derive(Debug, Default)]
pub(super) struct ReceiveBuffer {
    current: BytesMut,
    retired: VecDeque<BytesMut>,
}

impl ReceiveBuffer {
    /// The next frame without its size, if all of it is there.
    ///
    /// # Errors
    /// It is longer than any answer can be: what sends it does not speak Kafka.
    pub(super) fn next_frame(&mut self) -> Result<Option<Bytes>, FrameError> {
        let Some(length) = frame::length(&self.current, FRAME_BYTES_MAX)? else {
            return Ok(None);
        };
        if self.current.len() < SIZE_LENGTH + length {
            return Ok(None);
        }
        self.current.advance(SIZE_LENGTH);
        Ok(Some(self.current.split_to(length).freeze()))
    }

    /// The bytes of the frame that is not whole.
    pub(super) fn unfinished(&self) -> &[u8] {
        &self.current
    }

    /// Where to receive to, with room for the rest of a frame, or as much of it as is made room for at once.
    pub(super) fn with_room(&mut self) -> &mut BytesMut {
        let length = frame::length(&self.current, FRAME_BYTES_MAX).ok().flatten().unwrap_or(0);
        let missing = (SIZE_LENGTH + length).saturating_sub(self.current.len());
        let wanted = missing.min(self.current.len().max(AT_ONCE_MAX)).max(ROOM_MIN.min(missing.max(1)));
        if self.current.capacity() - self.current.len() < wanted.max(if length == 0 { ROOM_MIN } else { 1 }) {
            self.replace(wanted);
        }
        &mut self.current
    }

    #[cold]
    fn replace(&mut self, wanted: usize) {
        let needed = (self.current.len() + wanted).max(BUFFER_SIZE);
        if self.current.try_reclaim(needed - self.current.len()) {
            return;
        }
        let mut fresh = self.reusable(needed);
        fresh.extend_from_slice(&self.current);
        let mut full = std::mem::replace(&mut self.current, fresh);
        full.clear();
        if self.retired.len() >= RETIRED_MAX {
            self.retired.pop_front();
        }
        self.retired.push_back(full);
    }

    fn reusable(&mut self, needed: usize) -> BytesMut {
        for _ in 0..self.retired.len() {
            let Some(mut buffer) = self.retired.pop_front() else {
                break;
            };
            if buffer.try_reclaim(needed) {
                return buffer;
            }
            self.retired.push_back(buffer);
        }
        BytesMut::with_capacity(needed)
    }
}

/// The largest frame that is taken: an answer to Fetch may have one batch beyond what was asked for.
const FRAME_BYTES_MAX: usize = super::super::settings::FRAME_MAX as usize + (16 << 20);

/// A small buffer.
const BUFFER_SIZE: usize = 256 * 1024;

/// What is received at once at the least, if it is not known what will come.
const ROOM_MIN: usize = 64 * 1024;

/// What is made room for at once: the size of a frame is a claim, until its bytes arrive.
const AT_ONCE_MAX: usize = 4 << 20;

/// Buffers that may wait for those who hold a part of them.
const RETIRED_MAX: usize = 8;

#[cfg(test)]
mod tests {
    use bytes::BufMut as _;

    use super::*;

    /// Receives `bytes` in pieces of at most `piece`.
    fn receive(buffer: &mut ReceiveBuffer, mut bytes: &[u8], piece: usize) -> Vec<Bytes> {
        let mut frames = Vec::new();
        while !bytes.is_empty() {
            let room = buffer.with_room();
            let length = bytes.len().min(piece).min(room.capacity() - room.len());
            assert!(length > 0, "there is always room");
            room.put_slice(&bytes[..length]);
            bytes = &bytes[length..];
            while let Some(frame) = buffer.next_frame().unwrap() {
                frames.push(frame);
            }
        }
        frames
    }

    fn frames(lengths: &[usize]) -> Vec<u8> {
        let frame =
            |length: &usize| [&(*length as u32).to_be_bytes()[..], &vec![*length as u8; *length]].concat();
        lengths.iter().flat_map(frame).collect()
    }

    #[test]
    fn frames_come_out_whole_whatever_they_arrive_in() {
        let lengths = [0, 1, 300_000, 5, 70_000, 9_000_000, 12];
        let bytes = frames(&lengths);
        for piece in [997, 65_536, usize::MAX] {
            let mut buffer = ReceiveBuffer::default();
            let received = receive(&mut buffer, &bytes, piece);
            assert_eq!(received.iter().map(Bytes::len).collect::<Vec<_>>(), lengths);
            assert!(received.iter().all(|frame| frame.iter().all(|byte| *byte == frame.len() as u8)));
            assert!(buffer.unfinished().is_empty());
        }
    }

    #[test]
    fn a_buffer_is_received_into_again_once_nobody_holds_a_part_of_it() {
        let mut buffer = ReceiveBuffer::default();
        let bytes = frames(&[200_000]);
        let places: Vec<_> =
            (0..20).map(|_| receive(&mut buffer, &bytes, usize::MAX).remove(0).as_ptr()).collect();
        assert!(places.iter().skip(1).all(|place| *place == places[1]), "{places:?}");
        let held: Vec<_> = (0..4).map(|_| receive(&mut buffer, &bytes, usize::MAX).remove(0)).collect();
        assert!(held.iter().all(|frame| frame[..] == held[0][..]));
    }

    #[test]
    fn the_size_of_a_frame_is_no_reason_to_take_memory() {
        let mut buffer = ReceiveBuffer::default();
        buffer.with_room().put_slice(&100_000_000_u32.to_be_bytes());
        assert_eq!(buffer.next_frame(), Ok(None));
        assert!(buffer.with_room().capacity() < 2 * AT_ONCE_MAX);
        let mut buffer = ReceiveBuffer::default();
        buffer.with_room().put_slice(b"HTTP/1.1 400 Bad Request");
        assert!(matches!(buffer.next_frame(), Err(FrameError::TooLong { .. })));
    }
}
