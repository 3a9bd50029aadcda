//! Reading what the protocol is made of.
//!
//! Since KIP-482 a message has two encodings. In its *flexible* versions lengths are unsigned varints of one more than the
//! length, so that zero is null, and each structure ends with tagged fields. In the others lengths have a fixed size, and
//! -1 is null. A [`Reader`] knows which it reads.

/// A message that breaks off, or that has a length that it can't have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("malformed {0}")]
pub struct Malformed(
    /// The part of the message.
    pub &'static str,
);

/// What is left of a message.
#[derive(Clone, Copy, Debug)]
pub struct Reader<'a> {
    rest: &'a [u8],
    is_flexible: bool,
}

/// A 128-bit identifier, in the order of its bytes.
pub type Uuid = [u8; 16];

impl<'a> Reader<'a> {
    /// Reads `bytes`, which are a message or the rest of one.
    #[must_use]
    pub const fn new(bytes: &'a [u8], is_flexible: bool) -> Self {
        Self { rest: bytes, is_flexible }
    }

    /// What has not been read.
    #[must_use]
    pub const fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// The next `length` bytes.
    #[inline]
    pub fn take(&mut self, length: usize, what: &'static str) -> Result<&'a [u8], Malformed> {
        let (taken, rest) = self.rest.split_at_checked(length).ok_or(Malformed(what))?;
        self.rest = rest;
        Ok(taken)
    }

    /// A boolean; every byte but zero is true.
    #[inline]
    pub fn bool(&mut self, what: &'static str) -> Result<bool, Malformed> {
        Ok(self.array::<1>(what)? != [0])
    }

    /// A signed number of 8 bits.
    #[inline]
    pub fn i8(&mut self, what: &'static str) -> Result<i8, Malformed> {
        self.array(what).map(i8::from_be_bytes)
    }

    /// A signed number of 16 bits.
    #[inline]
    pub fn i16(&mut self, what: &'static str) -> Result<i16, Malformed> {
        self.array(what).map(i16::from_be_bytes)
    }

    /// A signed number of 32 bits.
    #[inline]
    pub fn i32(&mut self, what: &'static str) -> Result<i32, Malformed> {
        self.array(what).map(i32::from_be_bytes)
    }

    /// A signed number of 64 bits.
    #[inline]
    pub fn i64(&mut self, what: &'static str) -> Result<i64, Malformed> {
        self.array(what).map(i64::from_be_bytes)
    }

    /// An identifier.
    #[inline]
    pub fn uuid(&mut self, what: &'static str) -> Result<Uuid, Malformed> {
        self.array(what)
    }

    /// A string that can't be null.
    #[inline]
    pub fn string(&mut self, what: &'static str) -> Result<&'a str, Malformed> {
        self.nullable_string(what)?.ok_or(Malformed(what))
    }

    /// A string, or null.
    #[inline]
    pub fn nullable_string(&mut self, what: &'static str) -> Result<Option<&'a str>, Malformed> {
        let length = match self.is_flexible {
            true => self.compact_length(what)?,
            false => from_signed(i32::from(self.i16(what)?), what)?,
        };
        let Some(length) = length else {
            return Ok(None);
        };
        let bytes = self.take(length, what)?;
        str::from_utf8(bytes).map(Some).map_err(|_not_utf8| Malformed(what))
    }

    /// Bytes, or null.
    #[inline]
    pub fn nullable_bytes(&mut self, what: &'static str) -> Result<Option<&'a [u8]>, Malformed> {
        let length = match self.is_flexible {
            true => self.compact_length(what)?,
            false => from_signed(self.i32(what)?, what)?,
        };
        length.map(|length| self.take(length, what)).transpose()
    }

    /// Returns the number of elements of an array; `None` if it is null. Each element takes a byte at least, so an array that does not
    /// fit into the message is refused here, before memory is allocated for it, as is one of more than [`ELEMENTS_MAX`].
    #[inline]
    pub fn nullable_array(&mut self, what: &'static str) -> Result<Option<usize>, Malformed> {
        let length = match self.is_flexible {
            true => self.compact_length(what)?,
            false => from_signed(self.i32(what)?, what)?,
        };
        match length {
            Some(length) if length > self.rest.len().min(ELEMENTS_MAX) => Err(Malformed(what)),
            length => Ok(length),
        }
    }

    /// How many elements an array has that can't be null.
    #[inline]
    pub fn array_length(&mut self, what: &'static str) -> Result<usize, Malformed> {
        self.nullable_array(what)?.ok_or(Malformed(what))
    }

    /// The tagged fields at the end of a structure; there are none in versions that are not flexible.
    #[inline]
    pub fn tagged_fields(
        &mut self,
        what: &'static str,
        mut field: impl FnMut(u32, &'a [u8]) -> Result<(), Malformed>,
    ) -> Result<(), Malformed> {
        if !self.is_flexible {
            return Ok(());
        }
        for _ in 0..self.unsigned_varint(what)? {
            let tag = self.unsigned_varint(what)?;
            let length = self.unsigned_varint(what)? as usize;
            field(tag, self.take(length, what)?)?;
        }
        Ok(())
    }

    /// Passes over the tagged fields at the end of a structure.
    #[inline]
    pub fn skip_tagged_fields(&mut self, what: &'static str) -> Result<(), Malformed> {
        self.tagged_fields(what, |_tag, _bytes| Ok(()))
    }

    /// An unsigned number of 32 bits, seven to a byte.
    #[inline]
    pub fn unsigned_varint(&mut self, what: &'static str) -> Result<u32, Malformed> {
        match self.rest.split_first() {
            Some((&first, rest)) if first < 0x80 => {
                self.rest = rest;
                Ok(u32::from(first))
            }
            _ => u32::try_from(self.long_varint(what)?).map_err(|_too_large| Malformed(what)),
        }
    }

    /// A signed number of 32 bits, zigzagged, seven bits to a byte.
    #[inline]
    pub fn varint(&mut self, what: &'static str) -> Result<i32, Malformed> {
        let number = self.unsigned_varint(what)?;
        Ok((number >> 1).cast_signed() ^ -((number & 1).cast_signed()))
    }

    /// A signed number of 64 bits, zigzagged, seven bits to a byte.
    #[inline]
    pub fn varlong(&mut self, what: &'static str) -> Result<i64, Malformed> {
        let number = match self.rest.split_first() {
            Some((&first, rest)) if first < 0x80 => {
                self.rest = rest;
                u64::from(first)
            }
            _ => self.long_varint(what)?,
        };
        Ok((number >> 1).cast_signed() ^ -((number & 1).cast_signed()))
    }

    /// Apart, so that the usual short number stays small where it is inlined.
    fn long_varint(&mut self, what: &'static str) -> Result<u64, Malformed> {
        let mut value = 0_u64;
        for (index, &byte) in self.rest.iter().take(MAXIMUM_VARINT_LENGTH).enumerate() {
            let bits = u64::from(byte & 0x7f);
            let shift = 7 * index as u32;
            // The tenth byte has room for one bit.
            if bits.leading_zeros() < shift {
                return Err(Malformed(what));
            }
            value |= bits << shift;
            if byte < 0x80 {
                self.rest = &self.rest[index + 1..];
                return Ok(value);
            }
        }
        Err(Malformed(what))
    }

    /// The length of a compact string, of bytes or of an array; `None` for null.
    #[inline]
    fn compact_length(&mut self, what: &'static str) -> Result<Option<usize>, Malformed> {
        Ok((self.unsigned_varint(what)? as usize).checked_sub(1))
    }

    #[inline]
    fn array<const LENGTH: usize>(&mut self, what: &'static str) -> Result<[u8; LENGTH], Malformed> {
        let (array, rest) = self.rest.split_first_chunk().ok_or(Malformed(what))?;
        self.rest = rest;
        Ok(*array)
    }
}

/// A length that is -1 for null, and never less.
fn from_signed(length: i32, what: &'static str) -> Result<Option<usize>, Malformed> {
    match length {
        -1 => Ok(None),
        length => usize::try_from(length).map(Some).map_err(|_negative| Malformed(what)),
    }
}

/// Maximum number of elements of an array: more than clients name topics, partitions, groups or members. Handling one takes about a
/// microsecond.
pub const ELEMENTS_MAX: usize = 131_072;

/// Seven of 64 bits in each byte.
const MAXIMUM_VARINT_LENGTH: usize = 10;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::write;

    const WHAT: &str = "test";

    proptest! {
        #[test]
        fn numbers_are_read_as_they_were_written(unsigned: u32, short: i32, long: i64) {
            let mut out = Vec::new();
            write::unsigned_varint(&mut out, unsigned);
            write::varint(&mut out, short);
            write::varlong(&mut out, long);
            prop_assert_eq!(
                out.len(),
                write::unsigned_varint_length(unsigned) + write::varint_length(short) + write::varlong_length(long)
            );
            let mut reader = Reader::new(&out, true);
            prop_assert_eq!(reader.unsigned_varint(WHAT), Ok(unsigned));
            prop_assert_eq!(reader.varint(WHAT), Ok(short));
            prop_assert_eq!(reader.varlong(WHAT), Ok(long));
            prop_assert!(reader.rest().is_empty());
        }

        #[test]
        fn strings_and_bytes_are_read_as_they_were_written(
            text in proptest::option::of(".{0,200}"),
            bytes in proptest::option::of(proptest::collection::vec(any::<u8>(), 0..300)),
            is_flexible: bool,
        ) {
            let mut writer = write::Writer::new(Vec::new(), is_flexible);
            writer.nullable_string(text.as_deref());
            writer.nullable_bytes(bytes.as_deref());
            writer.tagged_fields_end();
            let out = writer.finish();
            let mut reader = Reader::new(&out, is_flexible);
            prop_assert_eq!(reader.nullable_string(WHAT), Ok(text.as_deref()));
            prop_assert_eq!(reader.nullable_bytes(WHAT), Ok(bytes.as_deref()));
            prop_assert_eq!(reader.skip_tagged_fields(WHAT), Ok(()));
            prop_assert!(reader.rest().is_empty());
        }

        #[test]
        fn any_bytes_are_read_or_refused(bytes: Vec<u8>, is_flexible: bool) {
            let reader = Reader::new(&bytes, is_flexible);
            let _ = reader.clone().nullable_string(WHAT);
            let _ = reader.clone().nullable_bytes(WHAT);
            let _ = reader.clone().varlong(WHAT);
            let _ = reader.clone().skip_tagged_fields(WHAT);
            if let Ok(Some(length)) = reader.clone().nullable_array(WHAT) {
                prop_assert!(length <= bytes.len());
            }
        }
    }

    #[test]
    fn what_is_too_long_for_its_type_is_refused() {
        for bytes in [&[0x80; 11][..], &[0xff, 0xff, 0xff, 0xff, 0x7f], &[0x80]] {
            assert_eq!(Reader::new(bytes, true).unsigned_varint(WHAT), Err(Malformed(WHAT)));
        }
        assert_eq!(
            Reader::new(&[0xff, 0xfe], false).nullable_string(WHAT),
            Err(Malformed(WHAT)),
            "a length of -2"
        );
        assert_eq!(Reader::new(&[0xff, 0xff], false).nullable_string(WHAT), Ok(None));
        assert_eq!(Reader::new(&[0x7f, 0xff, 0xff, 0xff], false).nullable_array(WHAT), Err(Malformed(WHAT)));
    }
}
