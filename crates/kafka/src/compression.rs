//! Packing and unpacking the records of a compressed batch: for clients, and for readers of another protocol. A broker leaves
//! them as they are.
//!
//! What comes out of unpacking is bounded, since a few bytes can stand for any number of them.

use std::io::{self, Cursor, Read, Write as _};

/// How the records of a batch are compressed, all of them as one block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compression {
    /// They are not.
    None,
    /// As by gzip.
    Gzip,
    /// Blocks of Snappy, with or without the frame that Java puts around them.
    Snappy,
    /// A frame of LZ4.
    Lz4,
    /// A frame of Zstandard.
    Zstd,
}

/// Why records can't be unpacked.
#[derive(Debug, thiserror::Error)]
pub enum UnpackError {
    /// They are more than the reader takes.
    #[error("the records have more than {maximum} bytes when unpacked")]
    TooLong {
        /// The bound.
        maximum: usize,
    },
    /// The batch has a compression that is not defined.
    #[error("compression {0} is not defined")]
    Undefined(
        /// What the batch says.
        u8,
    ),
    /// They are not what the batch says.
    #[error("the records can't be unpacked: {0}")]
    Damaged(
        /// What the library says.
        io::Error,
    ),
}

/// Why records can't be packed: a library failed, which it does for no input.
#[derive(Debug, thiserror::Error)]
#[error("the records can't be packed: {0}")]
pub struct PackError(#[from] io::Error);

impl Compression {
    /// The compression with this code in the attributes of a batch.
    #[must_use]
    pub const fn of(code: u8) -> Option<Self> {
        match code {
            0 => Some(Self::None),
            1 => Some(Self::Gzip),
            2 => Some(Self::Snappy),
            3 => Some(Self::Lz4),
            4 => Some(Self::Zstd),
            _ => None,
        }
    }

    /// Its code in the attributes of a batch.
    #[must_use]
    pub const fn code(self) -> i16 {
        match self {
            Self::None => 0,
            Self::Gzip => 1,
            Self::Snappy => 2,
            Self::Lz4 => 3,
            Self::Zstd => 4,
        }
    }

    /// What users call it (`compression.type`).
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Gzip => "gzip",
            Self::Snappy => "snappy",
            Self::Lz4 => "lz4",
            Self::Zstd => "zstd",
        }
    }

    /// Packs `plain`, and appends it to `out`.
    ///
    /// # Errors
    /// The library fails.
    pub fn pack(self, plain: &[u8], out: &mut Vec<u8>) -> Result<(), PackError> {
        match self {
            Self::None => out.extend_from_slice(plain),
            Self::Gzip => {
                let mut encoder = flate2::write::GzEncoder::new(out, flate2::Compression::fast());
                encoder.write_all(plain)?;
                encoder.finish()?;
            }
            Self::Snappy => pack_snappy(plain, out)?,
            Self::Lz4 => {
                let mut encoder = lz4_flex::frame::FrameEncoder::new(out);
                encoder.write_all(plain)?;
                encoder.finish().map_err(io::Error::other)?;
            }
            Self::Zstd => ruzstd::encoding::compress(plain, out, ruzstd::encoding::CompressionLevel::Fastest),
        }
        Ok(())
    }

    /// Unpacks `packed`.
    ///
    /// # Errors
    /// It is not of this compression, or more than `maximum` bytes come out of it.
    pub fn unpack(self, packed: &[u8], maximum: usize) -> Result<Vec<u8>, UnpackError> {
        let mut out = Vec::new();
        let reader = self.reader(packed, maximum)?;
        reader.take(maximum as u64 + 1).read_to_end(&mut out).map_err(unpack_error)?;
        match out.len() > maximum {
            true => Err(UnpackError::TooLong { maximum }),
            false => Ok(out),
        }
    }

    /// Returns a reader that unpacks `packed` step by step. Its memory is a window of the algorithm or one block, which is refused
    /// beyond `maximum` bytes; the caller bounds the total.
    ///
    /// # Errors
    /// The head of `packed` is not one of this compression. Later errors are those of the reader; [`unpack_error`] translates them.
    pub fn reader<'a>(
        self,
        packed: impl Read + Send + 'a,
        maximum: usize,
    ) -> Result<Box<dyn Read + Send + 'a>, UnpackError> {
        Ok(match self {
            Self::None => Box::new(packed),
            Self::Gzip => Box::new(flate2::read::MultiGzDecoder::new(packed)),
            Self::Snappy => Box::new(SnappyReader::new(packed, maximum)?),
            Self::Lz4 => Box::new(lz4_flex::frame::FrameDecoder::new(packed)),
            Self::Zstd => {
                let decoder = ruzstd::decoding::StreamingDecoder::new(packed);
                Box::new(decoder.map_err(|error| UnpackError::Damaged(io::Error::other(error)))?)
            }
        })
    }
}

/// Translates an error of the reader that [`Compression::reader`] returns.
#[must_use]
pub fn unpack_error(error: io::Error) -> UnpackError {
    match error.downcast::<UnpackError>() {
        Ok(error) => error,
        Err(error) => UnpackError::Damaged(error),
    }
}

/// Reads blocks of Snappy. Java puts a head before its blocks, and its length before each; other clients write one block without a
/// head.
struct SnappyReader<R> {
    packed: R,
    is_framed: bool,
    /// The block that is being read, unpacked.
    block: Cursor<Vec<u8>>,
    maximum: usize,
}

impl<R: Read> SnappyReader<R> {
    fn new(mut packed: R, maximum: usize) -> Result<Self, UnpackError> {
        let mut head = Vec::new();
        let head_length = JAVA_SNAPPY.len() + JAVA_SNAPPY_VERSIONS;
        let reading = packed.by_ref().take(head_length as u64).read_to_end(&mut head);
        reading.map_err(UnpackError::Damaged)?;
        let is_framed = head.len() == head_length && head.starts_with(JAVA_SNAPPY);
        let mut block = Vec::new();
        if !is_framed {
            packed.read_to_end(&mut head).map_err(UnpackError::Damaged)?;
            unpack_snappy(&head, maximum, &mut block)?;
        }
        Ok(Self { packed, is_framed, block: Cursor::new(block), maximum })
    }

    /// Unpacks the next block. Returns whether there is one.
    fn next_block(&mut self) -> Result<bool, UnpackError> {
        let mut length = Vec::with_capacity(4);
        self.packed.by_ref().take(4).read_to_end(&mut length).map_err(UnpackError::Damaged)?;
        let length = match length[..] {
            [] => return Ok(false),
            [a, b, c, d] => u32::from_be_bytes([a, b, c, d]),
            _ => return Err(damaged("a block without a length")),
        };
        let mut packed = Vec::new();
        self.packed.by_ref().take(length.into()).read_to_end(&mut packed).map_err(UnpackError::Damaged)?;
        if packed.len() as u64 != u64::from(length) {
            return Err(damaged("the bytes end within a block"));
        }
        let block = self.block.get_mut();
        block.clear();
        unpack_snappy(&packed, self.maximum, block)?;
        self.block.set_position(0);
        Ok(true)
    }
}

impl<R: Read> Read for SnappyReader<R> {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        while self.is_framed && self.block.position() == self.block.get_ref().len() as u64 {
            if !self.next_block().map_err(io::Error::other)? {
                return Ok(0);
            }
        }
        self.block.read(to)
    }
}

/// As Java does it, whose clients read nothing else.
fn pack_snappy(plain: &[u8], out: &mut Vec<u8>) -> Result<(), PackError> {
    out.extend_from_slice(JAVA_SNAPPY);
    // The version, and the oldest that can read it.
    out.extend_from_slice(&[0, 0, 0, 1, 0, 0, 0, 1]);
    let mut encoder = snap::raw::Encoder::new();
    for block in plain.chunks(JAVA_SNAPPY_BLOCK) {
        let length_at = out.len();
        let start = length_at + 4;
        out.resize(start + snap::raw::max_compress_len(block.len()), 0);
        let length = encoder.compress(block, &mut out[start..]).map_err(io::Error::from)?;
        // A block of 32 KiB does not grow to 4 GiB.
        out[length_at..start].copy_from_slice(&(length as u32).to_be_bytes());
        out.truncate(start + length);
    }
    Ok(())
}

/// Unpacks one block of Snappy into `out`, which is empty.
fn unpack_snappy(block: &[u8], maximum: usize, out: &mut Vec<u8>) -> Result<(), UnpackError> {
    let failed = |error: snap::Error| UnpackError::Damaged(error.into());
    // What a block claims to hold is no reason to take memory: its bytes expand 64 times at the most.
    let length = snap::raw::decompress_len(block).map_err(failed)?;
    if length > maximum {
        return Err(UnpackError::TooLong { maximum });
    }
    if length > block.len().saturating_mul(SNAPPY_EXPANSION) {
        return Err(damaged("a block claims to hold more than it can"));
    }
    out.resize(length, 0);
    snap::raw::Decoder::new().decompress(block, out).map_err(failed)?;
    Ok(())
}

fn damaged(what: &'static str) -> UnpackError {
    UnpackError::Damaged(io::Error::new(io::ErrorKind::InvalidData, what))
}

const JAVA_SNAPPY: &[u8] = b"\x82SNAPPY\0";

/// Bytes of the version, and of the oldest that can read it.
const JAVA_SNAPPY_VERSIONS: usize = 8;

/// What Java packs as one block.
const JAVA_SNAPPY_BLOCK: usize = 32 * 1024;

/// A copy of 64 bytes takes three.
const SNAPPY_EXPANSION: usize = 64;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MAXIMUM: usize = 1 << 20;

    fn packed(compression: Compression, plain: &[u8]) -> Vec<u8> {
        match compression {
            Compression::None => plain.to_vec(),
            Compression::Gzip => {
                let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
                encoder.write_all(plain).unwrap();
                encoder.finish().unwrap()
            }
            Compression::Snappy => snap::raw::Encoder::new().compress_vec(plain).unwrap(),
            Compression::Lz4 => {
                let mut encoder = lz4_flex::frame::FrameEncoder::new(Vec::new());
                encoder.write_all(plain).unwrap();
                encoder.finish().unwrap()
            }
            Compression::Zstd => {
                ruzstd::encoding::compress_to_vec(plain, ruzstd::encoding::CompressionLevel::Fastest)
            }
        }
    }

    fn every_compression() -> impl Iterator<Item = Compression> {
        (0..5).filter_map(Compression::of)
    }

    #[test]
    fn what_is_packed_is_unpacked_within_its_bound() {
        let plain: Vec<u8> = (0..200_000_u32).flat_map(|number| (number / 7).to_le_bytes()).collect();
        for compression in every_compression() {
            let mut own = b"before".to_vec();
            compression.pack(&plain, &mut own).unwrap();
            assert_eq!(compression.unpack(&own[6..], MAXIMUM).unwrap(), plain, "{compression:?}");
            assert_eq!(Compression::of(compression.code() as u8), Some(compression));
            let packed = packed(compression, &plain);
            assert_eq!(compression.unpack(&packed, MAXIMUM).unwrap(), plain, "{compression:?}");
            assert_eq!(compression.unpack(&packed, plain.len()).unwrap().len(), plain.len());
            let error = compression.unpack(&packed, plain.len() - 1).unwrap_err();
            assert!(matches!(error, UnpackError::TooLong { .. }), "{compression:?}: {error}");
        }
        assert_eq!(Compression::of(5), None);
    }

    #[test]
    fn snappy_as_java_frames_it_is_unpacked() {
        let mut framed = [JAVA_SNAPPY, &[0, 0, 0, 1, 0, 0, 0, 1]].concat();
        for part in [&b"first "[..], b"second"] {
            let block = packed(Compression::Snappy, part);
            framed.extend_from_slice(&(block.len() as u32).to_be_bytes());
            framed.extend_from_slice(&block);
        }
        assert_eq!(Compression::Snappy.unpack(&framed, MAXIMUM).unwrap(), b"first second");
        for length in 1..framed.len() {
            // Without its second block it is shorter, and still whole.
            let _ = Compression::Snappy.unpack(&framed[..length], MAXIMUM);
        }
        // A block that claims 4 GiB, in four bytes.
        assert!(Compression::Snappy.unpack(&[0xff, 0xff, 0xff, 0xff, 0x0f, 0], usize::MAX).is_err());
    }

    proptest! {
        #[test]
        fn any_bytes_are_unpacked_or_refused(bytes: Vec<u8>, code in 0_u8..5, cut in 0_usize..400) {
            let compression = Compression::of(code).unwrap();
            let _ = compression.unpack(&bytes, 4_096);
            let mut packed = packed(compression, &bytes.repeat(3));
            packed.truncate(cut);
            if let Ok(plain) = compression.unpack(&packed, 4_096) {
                prop_assert!(plain.len() <= 4_096);
            }
        }
    }
}
