//! Writing what the protocol is made of. See [`read`](crate::read) for the two encodings.

use crate::ErrorCode;
use crate::read::Uuid;

/// A message that is being written.
#[derive(Clone, Debug)]
pub struct Writer {
    out: Vec<u8>,
    is_flexible: bool,
    errors: Vec<WrittenError>,
}

/// An error that a message has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WrittenError {
    /// The error.
    pub error: ErrorCode,
    /// How often the message has it.
    pub count: u64,
    /// The first topic, group or other resource that it is about; empty if it is about the request as a whole.
    pub about: String,
}

impl Writer {
    /// Appends a message to `out`.
    #[must_use]
    pub const fn new(out: Vec<u8>, is_flexible: bool) -> Self {
        Self { out, is_flexible, errors: Vec::new() }
    }

    /// Takes the errors that were written so far, each once.
    pub fn take_errors(&mut self) -> Vec<WrittenError> {
        std::mem::take(&mut self.errors)
    }

    /// What was written, behind what was there before.
    #[must_use]
    pub fn finish(self) -> Vec<u8> {
        self.out
    }

    /// How long all of it is by now.
    #[must_use]
    pub fn length(&self) -> usize {
        self.out.len()
    }

    /// A boolean.
    #[inline]
    pub fn bool(&mut self, value: bool) {
        self.out.push(u8::from(value));
    }

    /// A signed number of 8 bits.
    #[inline]
    pub fn i8(&mut self, value: i8) {
        self.out.push(value.cast_unsigned());
    }

    /// A signed number of 16 bits.
    #[inline]
    pub fn i16(&mut self, value: i16) {
        self.out.extend_from_slice(&value.to_be_bytes());
    }

    /// An error, about the topic, group or other resource of this name, which may be empty. It is noted for
    /// [`take_errors`](Self::take_errors).
    #[inline]
    pub fn error(&mut self, error: ErrorCode, about: &str) {
        if error != ErrorCode::None {
            self.note(error, about);
        }
        self.i16(error.code());
    }

    /// There are no more errors than the protocol has, few in one message.
    #[cold]
    fn note(&mut self, error: ErrorCode, about: &str) {
        match self.errors.iter_mut().find(|noted| noted.error == error) {
            Some(noted) => noted.count += 1,
            None => self.errors.push(WrittenError { error, count: 1, about: about.to_owned() }),
        }
    }

    /// A signed number of 32 bits.
    #[inline]
    pub fn i32(&mut self, value: i32) {
        self.out.extend_from_slice(&value.to_be_bytes());
    }

    /// A signed number of 64 bits.
    #[inline]
    pub fn i64(&mut self, value: i64) {
        self.out.extend_from_slice(&value.to_be_bytes());
    }

    /// An identifier.
    #[inline]
    pub fn uuid(&mut self, value: &Uuid) {
        self.out.extend_from_slice(value);
    }

    /// A string of at most 32,767 bytes, the longest that older versions have; what is longer is cut at a character.
    pub fn string(&mut self, text: &str) {
        self.nullable_string(Some(text));
    }

    /// A string, or null.
    pub fn nullable_string(&mut self, text: Option<&str>) {
        let text = text.map(|text| &text[..text.floor_char_boundary(i16::MAX as usize)]);
        match (self.is_flexible, text) {
            (true, _) => self.compact_length(text.map(str::len)),
            // It fits: it was cut.
            (false, text) => self.i16(text.map_or(-1, |text| text.len() as i16)),
        }
        self.out.extend_from_slice(text.unwrap_or_default().as_bytes());
    }

    /// Bytes of less than 2 GiB, or null.
    pub fn nullable_bytes(&mut self, bytes: Option<&[u8]>) {
        self.bytes_length(bytes.map(<[u8]>::len));
        self.out.extend_from_slice(bytes.unwrap_or_default());
    }

    /// The length of bytes that follow from elsewhere.
    pub fn bytes_length(&mut self, length: Option<usize>) {
        match self.is_flexible {
            true => self.compact_length(length),
            false => self.i32(signed(length)),
        }
    }

    /// How many elements follow.
    pub fn array_length(&mut self, length: usize) {
        self.nullable_array_length(Some(length));
    }

    /// How many elements follow, or null.
    pub fn nullable_array_length(&mut self, length: Option<usize>) {
        match self.is_flexible {
            true => self.compact_length(length),
            false => self.i32(signed(length)),
        }
    }

    /// The end of a structure without tagged fields. Versions that are not flexible have no such end.
    #[inline]
    pub fn tagged_fields_end(&mut self) {
        if self.is_flexible {
            self.out.push(0);
        }
    }

    fn compact_length(&mut self, length: Option<usize>) {
        let length = length.map_or(0, |length| u32::try_from(length).unwrap_or(u32::MAX - 1) + 1);
        unsigned_varint(&mut self.out, length);
    }
}

/// A length in four bytes, of which -1 is null.
fn signed(length: Option<usize>) -> i32 {
    length.map_or(-1, |length| i32::try_from(length).unwrap_or(i32::MAX))
}

/// An unsigned number of 32 bits, seven to a byte.
#[inline]
pub fn unsigned_varint(out: &mut Vec<u8>, value: u32) {
    long_varint(out, u64::from(value));
}

/// A signed number of 32 bits, zigzagged, seven bits to a byte.
#[inline]
pub fn varint(out: &mut Vec<u8>, value: i32) {
    long_varint(out, u64::from(zigzag(value)));
}

/// A signed number of 64 bits, zigzagged, seven bits to a byte.
#[inline]
pub fn varlong(out: &mut Vec<u8>, value: i64) {
    long_varint(out, zigzag_long(value));
}

/// What stands before something longer: a few numbers, put together in one place and appended at once.
#[derive(Clone, Debug, Default)]
pub(crate) struct Head {
    bytes: [u8; Self::ROOM],
    length: usize,
}

impl Head {
    /// Four of the longest numbers.
    const ROOM: usize = 32;

    #[inline]
    pub(crate) fn byte(&mut self, byte: u8) {
        self.bytes[self.length] = byte;
        self.length += 1;
    }

    #[inline]
    pub(crate) fn varint(&mut self, value: i32) {
        self.unsigned(u64::from(zigzag(value)));
    }

    #[inline]
    pub(crate) fn varlong(&mut self, value: i64) {
        self.unsigned(zigzag_long(value));
    }

    #[inline]
    fn unsigned(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.byte(value as u8 | 0x80);
            value >>= 7;
        }
        self.byte(value as u8);
    }

    /// Appends it: all of its room, which is a move or two, and takes back what is too much.
    #[inline]
    pub(crate) fn as_slice(&self) -> &[u8] {
        &self.bytes[..self.length]
    }

    pub(crate) fn append_to(&self, out: &mut Vec<u8>) {
        let end = out.len() + self.length;
        out.extend_from_slice(&self.bytes);
        out.truncate(end);
    }
}

/// Bytes as they are. For 16 to 64 of them, the sizes of small messages, by copies of a fixed length that share what is in the
/// middle: a move or two each, where any other copy is a call.
#[inline]
pub(crate) fn short_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    match bytes.len() {
        16..=32 => ends::<16>(out, bytes),
        33..=64 => ends::<32>(out, bytes),
        _ => out.extend_from_slice(bytes),
    }
}

/// The first `N` bytes and the last `N`, of at least `N` bytes and at most twice as many.
#[inline]
fn ends<const N: usize>(out: &mut Vec<u8>, bytes: &[u8]) {
    let (Some(first), Some(last)) = (bytes.first_chunk::<N>(), bytes.last_chunk::<N>()) else {
        return out.extend_from_slice(bytes);
    };
    let end = out.len() + bytes.len();
    out.extend_from_slice(first);
    out.extend_from_slice(last);
    out[end - N..end].copy_from_slice(last);
    out.truncate(end);
}

/// How many bytes [`unsigned_varint`] writes.
#[inline]
#[must_use]
pub const fn unsigned_varint_length(value: u32) -> usize {
    long_varint_length(value as u64)
}

/// How many bytes [`varint`] writes.
#[inline]
#[must_use]
pub const fn varint_length(value: i32) -> usize {
    long_varint_length(zigzag(value) as u64)
}

/// How many bytes [`varlong`] writes.
#[inline]
#[must_use]
pub const fn varlong_length(value: i64) -> usize {
    long_varint_length(zigzag_long(value))
}

#[inline]
fn long_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

const fn long_varint_length(value: u64) -> usize {
    let bits = 64 - (value | 1).leading_zeros() as usize;
    bits.div_ceil(7)
}

const fn zigzag(value: i32) -> u32 {
    ((value << 1) ^ (value >> 31)).cast_unsigned()
}

const fn zigzag_long(value: i64) -> u64 {
    ((value << 1) ^ (value >> 63)).cast_unsigned()
}
