//! As much of Thrift's compact protocol as a footer of Parquet needs.

/// Appends a structure, field by field, in the order of their numbers.
#[derive(Debug)]
pub(super) struct Thrift<'a> {
    out: &'a mut Vec<u8>,
    /// The last field of each structure that is open, the innermost one last.
    fields: Vec<i16>,
}

impl<'a> Thrift<'a> {
    /// Begins with a structure.
    pub(super) fn begin(out: &'a mut Vec<u8>) -> Self {
        Self { out, fields: vec![0] }
    }

    /// A number of 32 bits.
    pub(super) fn number(&mut self, field: i16, value: i64) {
        self.head(field, I32);
        self.signed(value);
    }

    /// A number of 64 bits.
    pub(super) fn long(&mut self, field: i16, value: i64) {
        self.head(field, I64);
        self.signed(value);
    }

    pub(super) fn text(&mut self, field: i16, text: &str) {
        self.bytes(field, text.as_bytes());
    }

    pub(super) fn bytes(&mut self, field: i16, bytes: &[u8]) {
        self.head(field, BINARY);
        self.binary(bytes);
    }

    pub(super) fn numbers(&mut self, field: i16, values: &[i64]) {
        self.list(field, I32, values.len());
        values.iter().for_each(|&value| self.signed(value));
    }

    pub(super) fn texts(&mut self, field: i16, texts: &[&str]) {
        self.list(field, BINARY, texts.len());
        texts.iter().for_each(|text| self.binary(text.as_bytes()));
    }

    /// Begins a structure within this one, up to its [`end`](Self::end).
    pub(super) fn begin_struct(&mut self, field: i16) {
        self.head(field, STRUCT);
        self.fields.push(0);
    }

    /// Begins a list of so many structures, each up to its [`end`](Self::end).
    pub(super) fn structs(&mut self, field: i16, count: usize) {
        self.list(field, STRUCT, count);
        self.fields.extend(std::iter::repeat_n(0, count));
    }

    /// Ends the structure that was begun last.
    pub(super) fn end(&mut self) {
        self.out.push(0);
        self.fields.pop();
    }

    fn head(&mut self, field: i16, kind: u8) {
        let Some(last) = self.fields.last_mut() else { return };
        debug_assert!((1..16).contains(&(field - *last)), "fields come in order");
        self.out.push(((field - *last) as u8) << 4 | kind);
        *last = field;
    }

    fn list(&mut self, field: i16, kind: u8, count: usize) {
        self.head(field, LIST);
        match count {
            0..15 => self.out.push((count as u8) << 4 | kind),
            _ => {
                self.out.push(0xf0 | kind);
                self.unsigned(count as u64);
            }
        }
    }

    fn binary(&mut self, bytes: &[u8]) {
        self.unsigned(bytes.len() as u64);
        self.out.extend_from_slice(bytes);
    }

    fn signed(&mut self, value: i64) {
        self.unsigned(((value << 1) ^ (value >> 63)).cast_unsigned());
    }

    fn unsigned(&mut self, value: u64) {
        let mut rest = value;
        while rest >= 0x80 {
            self.out.push(rest as u8 | 0x80);
            rest >>= 7;
        }
        self.out.push(rest as u8);
    }
}

// Types of fields and elements.
const I32: u8 = 5;
const I64: u8 = 6;
const BINARY: u8 = 8;
const LIST: u8 = 9;
const STRUCT: u8 = 12;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_lists_and_structures_are_as_the_protocol_has_them() {
        let mut out = Vec::new();
        let mut thrift = Thrift::begin(&mut out);
        thrift.number(1, -1);
        thrift.long(4, 150);
        thrift.structs(5, 2);
        thrift.text(2, "ab");
        thrift.end();
        thrift.number(1, 1);
        thrift.end();
        thrift.texts(6, &["c"]);
        thrift.end();
        assert_eq!(
            out,
            [0x15, 1, 0x36, 0xac, 2, 0x19, 0x2c, 0x28, 2, b'a', b'b', 0, 0x15, 2, 0, 0x19, 0x18, 1, b'c', 0]
        );
    }

    #[test]
    fn long_lists_have_their_length_behind_their_type() {
        let mut out = Vec::new();
        Thrift::begin(&mut out).numbers(1, &[0; 200]);
        assert_eq!(out[..4], [0x19, 0xf5, 0xc8, 1]);
        assert_eq!(out.len(), 204);
    }
}
