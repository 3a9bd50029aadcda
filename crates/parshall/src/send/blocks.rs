//! Input in blocks of whole lines, read by a thread of its own.
//!
//! ```text
//!   read ─▶ |line⏎line⏎li|  cut behind the last line feed ─▶ block;  |li| begins the next one
//! ```
//!
//! A handful of blocks goes round between the two threads, so that the memory does not depend on the input.

use std::io::{self, Read};
use std::thread;

use memchr::memrchr;
use tokio::sync::mpsc;

/// Blocks of an input, in order.
#[derive(Debug)]
pub(super) struct Blocks {
    full: mpsc::Receiver<Result<Vec<u8>, InputError>>,
    empty: mpsc::UnboundedSender<Vec<u8>>,
}

/// Why there is no further block.
#[derive(Debug, thiserror::Error)]
pub(super) enum InputError {
    /// The input can't be read.
    #[error("the input can't be read: {0}")]
    Read(#[from] io::Error),
    /// A line, or what is to be one event, is longer than any service takes.
    #[error("more than {maximum} bytes without a line feed")]
    LongLine {
        /// The most that there may be.
        maximum: usize,
    },
}

impl Blocks {
    /// Reads `input` from now on. Where `whole` is set, all of it is one block.
    ///
    /// # Errors
    /// There can be no thread for it.
    pub(super) fn read(input: impl Read + Send + 'static, whole: bool) -> io::Result<Self> {
        let (full_sender, full) = mpsc::channel(BLOCKS);
        let (empty, empty_receiver) = mpsc::unbounded_channel();
        for _ in 0..BLOCKS {
            // The receiver is there until the thread ends.
            let _ = empty.send(Vec::new());
        }
        thread::Builder::new().name("input".to_owned()).spawn(move || {
            let mut reader = Reader { input, whole, rest: Vec::new() };
            let mut empty: mpsc::UnboundedReceiver<Vec<u8>> = empty_receiver;
            while let Some(block) = empty.blocking_recv() {
                let Some(next) = reader.next(block).transpose() else { return };
                let is_end = next.is_err();
                if full_sender.blocking_send(next).is_err() || is_end {
                    return;
                }
            }
        })?;
        Ok(Self { full, empty })
    }

    /// The next block; none at the end.
    ///
    /// # Errors
    /// See [`InputError`].
    pub(super) async fn next(&mut self) -> Result<Option<Vec<u8>>, InputError> {
        self.full.recv().await.transpose()
    }

    /// The block can be filled again.
    pub(super) fn recycle(&self, block: Vec<u8>) {
        // At the end nobody wants it any more.
        let _ = self.empty.send(block);
    }
}

#[derive(Debug)]
struct Reader<I> {
    input: I,
    whole: bool,
    /// The beginning of a line whose end has yet to be read.
    rest: Vec<u8>,
}

impl<I: Read> Reader<I> {
    /// Fills a block with whole lines; none at the end.
    fn next(&mut self, mut block: Vec<u8>) -> Result<Option<Vec<u8>>, InputError> {
        block.clear();
        block.append(&mut self.rest);
        loop {
            let filled = block.len();
            block.resize(filled.max(BLOCK_BYTES - READ_BYTES) + READ_BYTES, 0);
            let read = loop {
                match self.input.read(&mut block[filled..]) {
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    read => break read?,
                }
            };
            block.truncate(filled + read);
            if read == 0 {
                return Ok(Some(block).filter(|block| !block.is_empty()));
            }
            if !self.whole
                && let Some(last) = memrchr(b'\n', &block[filled..])
            {
                self.rest.extend_from_slice(&block[filled + last + 1..]);
                block.truncate(filled + last + 1);
                return Ok(Some(block));
            }
            if block.len() > LINE_BYTES_MAX {
                return Err(InputError::LongLine { maximum: LINE_BYTES_MAX });
            }
        }
    }
}

/// Blocks that go round.
const BLOCKS: usize = 4;

/// What is read at once at most, in bytes, as long as lines are short.
const BLOCK_BYTES: usize = 512 * 1024;

/// Room for each call, in bytes, in the middle of a long line.
const READ_BYTES: usize = 256 * 1024;

/// No service takes more in one event.
const LINE_BYTES_MAX: usize = 16 * 1024 * 1024;

#[cfg(test)]
mod tests {
    use super::*;

    /// Gives its bytes in parts of this size.
    struct Parts<'a>(&'a [u8], usize);

    impl Read for Parts<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let length = self.1.min(self.0.len()).min(buffer.len());
            let (part, rest) = self.0.split_at(length);
            buffer[..length].copy_from_slice(part);
            self.0 = rest;
            Ok(length)
        }
    }

    fn blocks(input: &[u8], part: usize, whole: bool) -> Vec<Vec<u8>> {
        let mut reader = Reader { input: Parts(input, part), whole, rest: Vec::new() };
        let mut blocks = Vec::new();
        while let Some(block) = reader.next(Vec::new()).unwrap() {
            blocks.push(block);
        }
        blocks
    }

    #[test]
    fn blocks_end_behind_a_line_wherever_reads_end() {
        let input = b"one\ntwo\n\nthree\nwithout an end";
        for part in 1..input.len() + 1 {
            let blocks = blocks(input, part, false);
            assert_eq!(blocks.concat(), input, "{part}");
            let (last, others) = blocks.split_last().unwrap();
            assert!(others.iter().all(|block| block.ends_with(b"\n")), "{part}");
            assert_eq!(last, b"without an end");
        }
        assert_eq!(blocks(input, 3, true), [input]);
        assert!(blocks(b"", 1, false).is_empty());
    }

    #[test]
    fn a_line_without_end_is_refused_before_memory_ends() {
        let mut reader = Reader { input: io::repeat(b'x'), whole: false, rest: Vec::new() };
        let refused = reader.next(Vec::new()).unwrap_err();
        assert!(matches!(refused, InputError::LongLine { .. }));
    }

    #[tokio::test]
    async fn blocks_go_round_until_the_input_ends() {
        let line = [b"x".repeat(1_000), b"\n".to_vec()].concat();
        let input = line.repeat(5_000);
        let mut blocks = Blocks::read(io::Cursor::new(input.clone()), false).unwrap();
        let mut read = Vec::new();
        while let Some(block) = blocks.next().await.unwrap() {
            read.extend_from_slice(&block);
            blocks.recycle(block);
        }
        assert!(read == input);
    }
}
