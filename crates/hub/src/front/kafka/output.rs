//! What leaves a connection: bytes of ours and, between them, batches in the memory of the log, which are not copied.

use std::io::{self, IoSlice};
use std::time::Duration;

use amqp_tokio::Stream;
use bytes::Bytes;
use kafka::write::{Writer, WrittenError};
use kafka::{ApiKey, frame};
use tokio::io::{AsyncWrite, AsyncWriteExt as _};

/// Answers that wait to be written, in their order.
#[derive(Debug, Default)]
pub(super) struct Output {
    bytes: Vec<u8>,
    /// What stands before the byte of ours with this index.
    shared: Vec<(usize, Bytes)>,
    shared_length: usize,
    /// Memory of converted events, in bytes.
    converted: usize,
    /// Errors in answers that were not reported.
    errors: Vec<(ApiKey, WrittenError)>,
}

/// A complete answer that waits elsewhere.
#[derive(Debug)]
pub(super) struct Frame {
    bytes: Vec<u8>,
    errors: Vec<(ApiKey, WrittenError)>,
}

/// Events for an answer.
#[derive(Clone, Debug)]
pub(super) struct Events {
    pub(super) bytes: Bytes,
    /// Memory in bytes if they were converted; 0 if they are in the memory of a log.
    pub(super) converted: usize,
}

/// An answer that is being written.
#[derive(Debug)]
pub(super) struct Answer<'o> {
    output: &'o mut Output,
    key: ApiKey,
    pub(super) writer: Writer,
    start: usize,
    shared_before: usize,
}

impl Output {
    /// Begins the answer to a request.
    pub(super) fn begin(&mut self, key: ApiKey, version: i16, correlation_id: i32) -> Answer<'_> {
        let bytes = std::mem::take(&mut self.bytes);
        let start = bytes.len();
        let writer = frame::begin_response(bytes, key, version, correlation_id);
        let shared_before = self.shared_length;
        Answer { output: self, key, writer, start, shared_before }
    }

    /// Adds the answer to a request.
    pub(super) fn answer(
        &mut self,
        key: ApiKey,
        version: i16,
        correlation_id: i32,
        write: impl FnOnce(&mut Writer),
    ) {
        let mut answer = self.begin(key, version, correlation_id);
        write(&mut answer.writer);
        answer.end();
    }

    /// Takes bytes that are a frame already.
    pub(super) fn push(&mut self, frame: &[u8]) {
        self.bytes.extend_from_slice(frame);
    }

    /// Takes an answer that has waited elsewhere.
    pub(super) fn push_frame(&mut self, frame: Frame) {
        self.push(&frame.bytes);
        self.errors.extend(frame.errors);
    }

    /// The answers, in which there is nothing shared.
    pub(super) fn into_frame(self) -> Frame {
        debug_assert!(self.shared.is_empty(), "only answers without events");
        Frame { bytes: self.bytes, errors: self.errors }
    }

    /// Takes the errors in answers since the last call.
    pub(super) fn take_errors(&mut self) -> Vec<(ApiKey, WrittenError)> {
        std::mem::take(&mut self.errors)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// How many bytes wait, those of the log included.
    pub(super) fn length(&self) -> usize {
        self.bytes.len() + self.shared_length
    }

    /// Returns the memory of its own beyond what each connection keeps, in bytes.
    pub(super) fn extra_memory(&self) -> usize {
        let own = self.bytes.capacity() + self.shared.capacity() * size_of::<(usize, Bytes)>();
        own.saturating_sub(KEPT_CAPACITY) + self.converted
    }

    /// Whether there are events in it.
    pub(super) const fn has_events(&self) -> bool {
        !self.shared.is_empty()
    }

    /// Writes all of it.
    ///
    /// # Errors
    /// The connection is broken, or the client has taken nothing for `stall` ([`io::ErrorKind::TimedOut`]).
    pub(super) async fn write_to(&mut self, stream: &mut Stream, stall: Duration) -> io::Result<()> {
        if self.shared.is_empty() {
            let mut rest = &self.bytes[..];
            while !rest.is_empty() {
                match tokio::time::timeout(stall, stream.write(rest)).await?? {
                    0 => return Err(io::ErrorKind::WriteZero.into()),
                    written => rest = &rest[written..],
                }
            }
        } else {
            self.write_pieces(stream, stall).await?;
        }
        tokio::time::timeout(stall, stream.flush()).await??;
        self.shared.clear();
        self.shared_length = 0;
        self.converted = 0;
        self.bytes.clear();
        if self.bytes.capacity() > KEPT_CAPACITY {
            self.bytes = Vec::new();
        }
        Ok(())
    }

    async fn write_pieces(&self, stream: &mut Stream, stall: Duration) -> io::Result<()> {
        let mut pieces: Vec<&[u8]> = Vec::with_capacity(2 * self.shared.len() + 1);
        let mut start = 0;
        for (at, shared) in &self.shared {
            pieces.extend([&self.bytes[start..*at], shared]);
            start = *at;
        }
        pieces.push(&self.bytes[start..]);
        pieces.retain(|piece| !piece.is_empty());
        let mut pieces: Vec<IoSlice<'_>> = pieces.into_iter().map(IoSlice::new).collect();
        let mut rest = &mut pieces[..];
        while !rest.is_empty() {
            let window = &rest[..rest.len().min(PIECES_AT_ONCE)];
            let written =
                std::future::poll_fn(|cx| std::pin::Pin::new(&mut *stream).poll_write_vectored(cx, window));
            match tokio::time::timeout(stall, written).await?? {
                0 => return Err(io::ErrorKind::WriteZero.into()),
                written => IoSlice::advance_slices(&mut rest, written),
            }
        }
        Ok(())
    }
}

impl Answer<'_> {
    /// Puts events behind what is written so far, without copying them.
    pub(super) fn put_events(&mut self, events: Events) {
        let Events { bytes, converted } = events;
        if bytes.is_empty() {
            return;
        }
        self.output.converted += converted;
        self.output.shared_length += bytes.len();
        self.output.shared.push((self.writer.length(), bytes));
    }

    /// Completes the answer.
    pub(super) fn end(mut self) {
        let key = self.key;
        self.output.errors.extend(self.writer.take_errors().into_iter().map(|error| (key, error)));
        let mut bytes = self.writer.finish();
        frame::end(&mut bytes, self.start, self.output.shared_length - self.shared_before);
        self.output.bytes = bytes;
    }
}

/// As many as one call takes on every system.
const PIECES_AT_ONCE: usize = 64;

/// Memory for output that a connection keeps.
const KEPT_CAPACITY: usize = 64 * 1024;
