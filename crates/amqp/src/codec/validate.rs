//! Checking encoded values without building them: for what is passed on as it came.

use super::reader::{Result, ascii, unexpected};
use super::{DecodeError, MAX_DEPTH, Reader, code};

impl Reader<'_> {
    /// Reads one value of any type and checks that all of it, nested values included, can be decoded. Allocates nothing.
    ///
    /// # Errors
    /// A length, a constructor or a text is wrong, or values nest deeper than [`MAX_DEPTH`].
    pub fn validate(&mut self) -> Result<()> {
        self.validate_at(0)
    }

    /// The same for a value that must not contain others: neither a list, a map nor an array. A descriptor in front of it
    /// is allowed, which is how clients write types of their platform.
    ///
    /// # Errors
    /// The value cannot be decoded, or contains others.
    pub fn validate_simple(&mut self) -> Result<()> {
        let mut constructor = self.byte()?;
        if constructor == code::DESCRIBED {
            match self.peek()? {
                code::SYMBOL_8 | code::SYMBOL_32 => drop(self.symbol()?),
                _ => drop(self.ulong()?.ok_or(DecodeError::MissingField("descriptor"))?),
            }
            constructor = self.byte()?;
        }
        if constructor == code::DESCRIBED || constructor == code::LIST_0 || constructor >= 0xc0 {
            return Err(unexpected(constructor, "simple type"));
        }
        self.validate_of(constructor, 0)
    }

    fn validate_at(&mut self, depth: u32) -> Result<()> {
        let constructor = self.byte()?;
        self.validate_of(constructor, depth)
    }

    fn validate_of(&mut self, constructor: u8, depth: u32) -> Result<()> {
        if depth > MAX_DEPTH {
            return Err(DecodeError::TooDeep);
        }
        match constructor {
            code::DESCRIBED => {
                self.validate_at(depth + 1)?;
                self.validate_at(depth + 1)
            }
            code::NULL
            | code::TRUE
            | code::FALSE
            | code::BOOLEAN
            | code::UBYTE
            | code::BYTE
            | code::USHORT
            | code::SHORT
            | code::UINT_0
            | code::SMALL_UINT
            | code::UINT
            | code::SMALL_INT
            | code::INT
            | code::ULONG_0
            | code::SMALL_ULONG
            | code::ULONG
            | code::SMALL_LONG
            | code::LONG
            | code::FLOAT
            | code::DOUBLE
            | code::CHAR
            | code::DECIMAL32
            | code::DECIMAL64
            | code::DECIMAL128
            | code::TIMESTAMP
            | code::UUID
            | code::BINARY_8
            | code::BINARY_32
            | code::LIST_0 => {
                let length = self.body_length(constructor)?;
                self.take(length).map(drop)
            }
            code::STRING_8 | code::STRING_32 => {
                let length = self.body_length(constructor)?;
                std::str::from_utf8(self.take(length)?)
                    .map(drop)
                    .map_err(|_| DecodeError::InvalidText("UTF-8"))
            }
            code::SYMBOL_8 | code::SYMBOL_32 => {
                let length = self.body_length(constructor)?;
                ascii(self.take(length)?).map(drop)
            }
            code::LIST_8 | code::LIST_32 | code::MAP_8 | code::MAP_32 => {
                let (mut body, count) = self.counted_body(constructor)?;
                let is_map = matches!(constructor, code::MAP_8 | code::MAP_32);
                if is_map && count % 2 != 0 {
                    return Err(DecodeError::Truncated);
                }
                // Bounded by the bytes that are there: each element takes at least one.
                (0..count).try_for_each(|_| body.validate_at(depth + 1))
            }
            code::ARRAY_8 | code::ARRAY_32 => {
                let (body, count) = self.counted_body(constructor)?;
                body.validate_elements(count, depth)
            }
            unknown => Err(DecodeError::UnknownConstructor(unknown)),
        }
    }

    /// The elements of an array, whose constructor stands in front of all of them.
    fn validate_elements(mut self, count: u32, depth: u32) -> Result<()> {
        if count == 0 {
            return Ok(());
        }
        let mut constructor = self.byte()?;
        let mut descriptors = 0;
        while constructor == code::DESCRIBED {
            descriptors += 1;
            if depth + descriptors > MAX_DEPTH {
                return Err(DecodeError::TooDeep);
            }
            self.validate_at(depth + descriptors)?;
            constructor = self.byte()?;
        }
        if constructor >> 4 == 0x4 {
            // Such elements have no bytes, so that one look at the constructor does for all of them.
            return self.validate_of(constructor, depth + 1);
        }
        (0..count).try_for_each(|_| self.validate_of(constructor, depth + 1))
    }

    fn counted_body(&mut self, constructor: u8) -> Result<(Self, u32)> {
        let size = self.body_length(constructor)?;
        let mut body = Reader::new(self.take(size)?);
        let count = match constructor & 0xf0 {
            0xc0 | 0xe0 => u32::from(body.byte()?),
            _ => u32::from_be_bytes(body.array()?),
        };
        Ok((body, count))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::codec::{Value, write};

    #[test]
    fn what_cannot_be_decoded_is_found_however_deep_it_lies() {
        for (what, bytes) in [
            ("a list that ends early", &b"\xc0\x02\x02\x40"[..]),
            ("a map with half an entry", b"\xc1\x02\x01\x40"),
            ("a string in a list that is not UTF-8", b"\xc0\x04\x01\xa1\x01\xff"),
            ("an unknown type in a map", b"\xc1\x05\x02\xa1\x01a\x4f"),
            ("an array of symbols that ends early", b"\xe0\x05\x02\xa3\x02ab"),
            ("an array of an unknown type", b"\xe0\x02\xff\x4f"),
            ("a described value without a value", b"\x00\x53\x75"),
            ("lists in lists in lists", &[0xc0, 0xff].repeat(40)),
        ] {
            assert!(Reader::new(bytes).validate().is_err(), "{what}");
        }
    }

    #[test]
    fn an_array_of_elements_without_bytes_takes_no_time() {
        let nulls = b"\xf0\x00\x00\x00\x05\xff\xff\xff\xff\x40";
        assert_eq!(Reader::new(nulls).validate(), Ok(()));
    }

    #[test]
    fn simple_values_are_distinguished_from_those_that_contain_others() {
        for simple in [&b"\x40"[..], b"\xa1\x01a", b"\x00\xa3\x01d\x55\x01", b"\x00\x53\x01\x41"] {
            assert_eq!(Reader::new(simple).validate_simple(), Ok(()), "{simple:02x?}");
        }
        for other in [
            &b"\x45"[..],
            b"\xc0\x02\x01\x40",
            b"\xc1\x01\x00",
            b"\xe0\x02\x00\x40",
            b"\x00\xa3\x01d\x45",
            b"\x00\x40\x41",
            b"\x00\x00\x40\x41\x41",
            b"",
        ] {
            assert!(Reader::new(other).validate_simple().is_err(), "{other:02x?}");
        }
    }

    proptest! {
        /// Whatever decodes is valid, and takes as many bytes; what is valid decodes, up to the number of elements.
        #[test]
        fn it_agrees_with_decoding(bytes in proptest::collection::vec(
            prop_oneof![
                3 => prop::sample::select(vec![0x00, 0x40, 0x41, 0x45, 0x53, 0xa1, 0xa3, 0xc0, 0xc1, 0xe0]),
                2 => 0u8..8,
                1 => any::<u8>(),
            ],
            0..40,
        )) {
            let (mut decoding, mut validating) = (Reader::new(&bytes), Reader::new(&bytes));
            match decoding.value() {
                Ok(_) => {
                    prop_assert_eq!(validating.validate(), Ok(()));
                    prop_assert_eq!(decoding.rest(), validating.rest());
                }
                Err(DecodeError::TooManyElements) => {}
                Err(_) => prop_assert!(validating.validate().is_err()),
            }
        }

        #[test]
        fn what_is_written_is_valid(text in ".*", number: i64, bytes: Vec<u8>) {
            let value = Value::List(vec![
                Value::from(text.as_str()),
                Value::Map(vec![(Value::Long(number), Value::Binary(bytes))]),
                Value::Array(vec![Value::Uint(1), Value::Uint(2)]),
            ]);
            let mut encoded = Vec::new();
            write::value(&mut encoded, &value);
            let mut reader = Reader::new(&encoded);
            prop_assert_eq!(reader.validate(), Ok(()));
            prop_assert!(reader.is_empty());
        }
    }
}
