//! A body that comes in chunks.
//!
//! ```text
//! 4\r\nWiki\r\n  5;name=value\r\npedia\r\n  0\r\n  Trailer: value\r\n  \r\n
//! ```
//!
//! Extensions and trailers are passed over; how long they may be together is bounded. Lines end in CR LF and nothing else.

/// Reads chunks, however they are cut.
#[derive(Debug)]
pub struct Decoder {
    state: State,
    /// The most bytes that the content may have.
    most: usize,
    /// Bytes of chunk heads and trailers so far.
    overhead: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// In the digits of a size.
    Size { size: u64, digits: u8 },
    /// In an extension.
    Extension { size: u64 },
    /// At the line feed behind a size.
    SizeEnd { size: u64 },
    /// In the content of a chunk, of which so much is to come.
    Content { left: u64 },
    /// Behind it.
    ContentEnd { at_line_feed: bool },
    /// In the trailers: whether the line has anything in it, and whether its end has begun.
    Trailers { is_empty: bool, at_line_feed: bool },
    /// All was read.
    Done,
}

/// Why a body is not read on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ChunkError {
    /// It is not in chunks.
    #[error("the chunks of the body are malformed")]
    Malformed,
    /// Its content is too long.
    #[error("the body is longer than {most} bytes")]
    TooLong {
        /// The most that it may have.
        most: usize,
    },
}

impl Decoder {
    /// A decoder for a content of at most `most` bytes.
    #[must_use]
    pub const fn new(most: usize) -> Self {
        Self { state: State::START, most, overhead: 0 }
    }

    /// Whether all of the body was read.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.state == State::Done
    }

    /// Reads on, appends what is content to `content`, and says how many bytes of `input` are used: all of them, unless the body is
    /// [done](Self::is_done).
    ///
    /// # Errors
    /// It is malformed or too long.
    pub fn read(&mut self, input: &[u8], content: &mut Vec<u8>) -> Result<usize, ChunkError> {
        let mut rest = input;
        while let Some(byte) = rest.first().copied() {
            if let State::Content { left } = &mut self.state {
                let here = rest.len().min(usize::try_from(*left).unwrap_or(usize::MAX));
                content.extend_from_slice(&rest[..here]);
                rest = &rest[here..];
                *left -= here as u64;
                if *left == 0 {
                    self.state = State::ContentEnd { at_line_feed: false };
                }
                continue;
            }
            if self.state == State::Done {
                break;
            }
            self.overhead += 1;
            if self.overhead > OVERHEAD_FREE.saturating_add(content.len().saturating_mul(8)) {
                return Err(ChunkError::Malformed);
            }
            self.state = self.state.after(byte)?;
            rest = &rest[1..];
            if let State::Content { left } = self.state
                && left > (self.most - content.len().min(self.most)) as u64
            {
                return Err(ChunkError::TooLong { most: self.most });
            }
        }
        Ok(input.len() - rest.len())
    }
}

impl State {
    const START: Self = Self::Size { size: 0, digits: 0 };

    /// What comes after a byte that is no content.
    const fn after(self, byte: u8) -> Result<Self, ChunkError> {
        Ok(match (self, byte) {
            (Self::Size { size, digits: 1.. }, b'\r') => Self::SizeEnd { size },
            (Self::Size { size, digits: 1.. }, b';') => Self::Extension { size },
            (Self::Size { size, digits: digits @ 0..15 }, digit) => match (digit as char).to_digit(16) {
                Some(value) => Self::Size { size: size << 4 | value as u64, digits: digits + 1 },
                None => return Err(ChunkError::Malformed),
            },
            (Self::Extension { size }, b'\r') => Self::SizeEnd { size },
            (Self::Extension { size }, b'\t' | b' '..) => Self::Extension { size },
            (Self::SizeEnd { size: 0 }, b'\n') => Self::Trailers { is_empty: true, at_line_feed: false },
            (Self::SizeEnd { size }, b'\n') => Self::Content { left: size },
            (Self::ContentEnd { at_line_feed: false }, b'\r') => Self::ContentEnd { at_line_feed: true },
            (Self::ContentEnd { at_line_feed: true }, b'\n') => Self::START,
            (Self::Trailers { is_empty: true, at_line_feed: true }, b'\n') => Self::Done,
            (Self::Trailers { is_empty: false, at_line_feed: true }, b'\n') => {
                Self::Trailers { is_empty: true, at_line_feed: false }
            }
            (Self::Trailers { is_empty, at_line_feed: false }, b'\r') => {
                Self::Trailers { is_empty, at_line_feed: true }
            }
            (Self::Trailers { at_line_feed: false, .. }, b'\t' | b' '..) => {
                Self::Trailers { is_empty: false, at_line_feed: false }
            }
            _ => return Err(ChunkError::Malformed),
        })
    }
}

/// Bytes of heads, extensions and trailers that any body may have. Beside that they are bounded by its content: chunks of one byte
/// each have six.
const OVERHEAD_FREE: usize = 8 * 1024;

#[cfg(test)]
mod tests {
    use super::*;

    fn decode(input: &[u8], most: usize, step: usize) -> Result<(Vec<u8>, usize, bool), ChunkError> {
        let (mut decoder, mut content, mut used) = (Decoder::new(most), Vec::new(), 0);
        for piece in input.chunks(step) {
            used += decoder.read(piece, &mut content)?;
        }
        Ok((content, used, decoder.is_done()))
    }

    #[test]
    fn chunks_are_read_however_they_are_cut_and_not_a_byte_further() {
        let input = b"4\r\nWiki\r\n5;a=\"b\"\r\npedia\r\n0\r\nTrailer: x\r\n\r\nGET /";
        for step in 1..input.len() {
            let (content, used, is_done) = decode(input, 9, step).unwrap();
            assert_eq!((&content[..], used, is_done), (&b"Wikipedia"[..], input.len() - 5, true), "{step}");
        }
        assert_eq!(decode(input, 8, 7), Err(ChunkError::TooLong { most: 8 }));
        assert!(!decode(&input[..20], 9, 20).unwrap().2);
    }

    #[test]
    fn garbage_is_refused_and_never_taken_for_content() {
        for garbage in [
            &b"\r\n"[..],
            b"x\r\n",
            b"-1\r\n",
            b" 4\r\nWiki",
            b"4\nWiki",
            b"4\r\nWikix",
            b"4\r\nWiki\n",
            b"0\r\n\n",
            b"0\r\nA\nB\r\n\r\n",
            b"fffffffffffffffff\r\n",
            b"0x4\r\n",
            b"4;\x00\r\n",
        ] {
            assert_eq!(decode(garbage, 100, 100).unwrap_err(), ChunkError::Malformed, "{garbage:?}");
        }
        assert!(matches!(decode(b"fffffffffffffff\r\n", 100, 100), Err(ChunkError::TooLong { .. })));
        let endless = [&b"1;"[..], &[b'x'; 2 * OVERHEAD_FREE]].concat();
        assert_eq!(decode(&endless, 100, 1000), Err(ChunkError::Malformed));
        let small = b"1\r\nx\r\n".repeat(10_000);
        assert_eq!(decode(&small, 10_000, 999).unwrap().0.len(), 10_000);
    }
}
