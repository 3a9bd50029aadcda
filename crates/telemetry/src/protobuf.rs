//! Writing protobuf, and reading the little that collectors answer.
//!
//! ```text
//!   field  ├─ number << 3 | wire type ─┬─ value ─┤      numbers are varints: seven bits a byte, the lowest first
//!   wire types: 0 varint, 1 eight bytes, 2 length and bytes (texts and messages as well), 5 four bytes
//! ```

/// Writes the fields of a message, one after the other. What is zero or empty is left out, which means the same.
#[derive(Debug, Default)]
pub(crate) struct Writer {
    bytes: Vec<u8>,
}

impl Writer {
    /// What was written.
    pub(crate) fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    pub(crate) fn uint(&mut self, field: u32, value: u64) {
        if value != 0 {
            self.key(field, VARINT);
            self.varint(value);
        }
    }

    pub(crate) fn fixed32(&mut self, field: u32, value: u32) {
        if value != 0 {
            self.key(field, FOUR_BYTES);
            self.bytes.extend_from_slice(&value.to_le_bytes());
        }
    }

    pub(crate) fn fixed64(&mut self, field: u32, value: u64) {
        if value != 0 {
            self.present_fixed64(field, value);
        }
    }

    /// One of several fields of which one is there: zero has to be written as well.
    pub(crate) fn present_uint(&mut self, field: u32, value: u64) {
        self.key(field, VARINT);
        self.varint(value);
    }

    /// The same for eight bytes.
    pub(crate) fn present_fixed64(&mut self, field: u32, value: u64) {
        self.key(field, EIGHT_BYTES);
        self.bytes.extend_from_slice(&value.to_le_bytes());
    }

    /// The same for a number with a fraction.
    pub(crate) fn present_double(&mut self, field: u32, value: f64) {
        self.present_fixed64(field, value.to_bits());
    }

    pub(crate) fn text(&mut self, field: u32, text: &str) {
        self.bytes(field, text.as_bytes());
    }

    pub(crate) fn bytes(&mut self, field: u32, bytes: &[u8]) {
        if !bytes.is_empty() {
            self.present_bytes(field, bytes);
        }
    }

    /// One of several fields of which one is there.
    pub(crate) fn present_bytes(&mut self, field: u32, bytes: &[u8]) {
        self.key(field, LENGTH);
        self.varint(bytes.len() as u64);
        self.bytes.extend_from_slice(bytes);
    }

    /// Numbers of eight bytes, all in one field.
    pub(crate) fn packed(&mut self, field: u32, values: impl ExactSizeIterator<Item = u64>) {
        if values.len() > 0 {
            self.key(field, LENGTH);
            self.varint(values.len() as u64 * 8);
            values.for_each(|value| self.bytes.extend_from_slice(&value.to_le_bytes()));
        }
    }

    /// A message within this one, even if it is empty.
    pub(crate) fn message(&mut self, field: u32, write: impl FnOnce(&mut Self)) {
        self.key(field, LENGTH);
        let start = self.bytes.len();
        write(self);
        let (length, size) = varint((self.bytes.len() - start) as u64);
        // Its length is known only now. Messages are short, and none is deep.
        self.bytes.splice(start..start, length.into_iter().take(size));
    }

    fn key(&mut self, field: u32, wire_type: u64) {
        self.varint(u64::from(field) << 3 | wire_type);
    }

    fn varint(&mut self, value: u64) {
        let (bytes, size) = varint(value);
        self.bytes.extend_from_slice(&bytes[..size]);
    }
}

/// A number as a varint, and how long that is.
fn varint(mut value: u64) -> ([u8; 10], usize) {
    let (mut bytes, mut size) = ([0; 10], 0);
    loop {
        bytes[size] = value as u8 & 0x7f;
        value >>= 7;
        if value == 0 {
            return (bytes, size + 1);
        }
        bytes[size] |= 0x80;
        size += 1;
    }
}

/// Reads the fields of a message.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fields<'a> {
    rest: &'a [u8],
}

/// What a field has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Field<'a> {
    Number(u64),
    Bytes(&'a [u8]),
    /// Four or eight bytes, which nobody here wants to know.
    Fixed,
}

impl<'a> Fields<'a> {
    pub(crate) const fn new(message: &'a [u8]) -> Self {
        Self { rest: message }
    }

    fn varint(&mut self) -> Option<u64> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let (&byte, rest) = self.rest.split_first()?;
            self.rest = rest;
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Some(value);
            }
        }
        None
    }

    fn take(&mut self, length: u64) -> Option<&'a [u8]> {
        let (taken, rest) = self.rest.split_at_checked(usize::try_from(length).ok()?)?;
        self.rest = rest;
        Some(taken)
    }
}

/// Ends at the first field that can't be read.
impl<'a> Iterator for Fields<'a> {
    type Item = (u64, Field<'a>);

    fn next(&mut self) -> Option<Self::Item> {
        let key = self.varint()?;
        let field = match key & 7 {
            VARINT => Field::Number(self.varint()?),
            EIGHT_BYTES => self.take(8).map(|_| Field::Fixed)?,
            LENGTH => {
                let length = self.varint()?;
                Field::Bytes(self.take(length)?)
            }
            FOUR_BYTES => self.take(4).map(|_| Field::Fixed)?,
            _ => return None,
        };
        Some((key >> 3, field))
    }
}

const VARINT: u64 = 0;
const EIGHT_BYTES: u64 = 1;
const LENGTH: u64 = 2;
const FOUR_BYTES: u64 = 5;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn fields_are_written_as_the_specification_has_them() {
        let mut writer = Writer::default();
        writer.uint(1, 150);
        writer.text(2, "testing");
        writer.message(3, |inner| inner.uint(1, 150));
        writer.fixed32(4, 1);
        writer.present_double(5, 1.0);
        writer.packed(6, [1, 2].into_iter());
        let expected = [
            &b"\x08\x96\x01"[..],
            b"\x12\x07testing",
            b"\x1a\x03\x08\x96\x01",
            b"\x25\x01\x00\x00\x00",
            b"\x29\x00\x00\x00\x00\x00\x00\xf0\x3f",
            b"\x32\x10\x01\x00\x00\x00\x00\x00\x00\x00\x02\x00\x00\x00\x00\x00\x00\x00",
        ];
        assert_eq!(writer.into_bytes(), expected.concat());
    }

    #[test]
    fn what_is_nothing_is_left_out_unless_that_means_something() {
        let mut writer = Writer::default();
        writer.uint(1, 0);
        writer.text(2, "");
        writer.fixed64(3, 0);
        writer.packed(4, [].into_iter());
        assert_eq!(writer.into_bytes(), b"");
        let mut writer = Writer::default();
        writer.present_uint(1, 0);
        writer.message(2, |_| {});
        assert_eq!(writer.into_bytes(), b"\x08\x00\x12\x00");
    }

    #[test]
    fn the_length_of_a_long_message_is_right() {
        let mut writer = Writer::default();
        writer.message(1, |inner| inner.bytes(2, &[7; 300]));
        let bytes = writer.into_bytes();
        let Some((1, Field::Bytes(inner))) = Fields::new(&bytes).next() else { panic!("it is a message") };
        assert_eq!(Fields::new(inner).collect::<Vec<_>>(), [(2, Field::Bytes(&[7; 300]))]);
    }

    proptest! {
        #[test]
        fn numbers_come_back(number: u64) {
            let mut writer = Writer::default();
            writer.present_uint(7, number);
            let bytes = writer.into_bytes();
            prop_assert_eq!(Fields::new(&bytes).collect::<Vec<_>>(), [(7, Field::Number(number))]);
        }

        #[test]
        fn no_message_is_too_strange(bytes in proptest::collection::vec(any::<u8>(), 0..100)) {
            prop_assert!(Fields::new(&bytes).count() <= bytes.len());
        }
    }
}
