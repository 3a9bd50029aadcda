//! Lists, maps and arrays, read one element after the other from where they are.

use super::reader::Result;
use super::value::spend;
use super::{DecodeError, MAX_BODILESS_ELEMENTS, MAX_DEPTH, MAX_ELEMENTS, Reader, Symbol, Value, code};

/// The fields of a list, in order. Fields past the end read as null: senders may leave trailing ones out.
#[derive(Debug, Clone, Copy)]
pub struct List<'a> {
    reader: Reader<'a>,
    remaining: u32,
}

impl<'a> List<'a> {
    pub(super) const fn new(reader: Reader<'a>, count: u32) -> Self {
        Self { reader, remaining: count }
    }

    /// A list without fields.
    pub const EMPTY: List<'static> = List { reader: Reader::new(&[]), remaining: 0 };

    /// The next field read by `read`, or `None` past the end.
    #[inline]
    pub fn field<T>(&mut self, read: impl FnOnce(&mut Reader<'a>) -> Result<Option<T>>) -> Result<Option<T>> {
        if self.remaining == 0 {
            return Ok(None);
        }
        self.remaining -= 1;
        read(&mut self.reader)
    }

    /// Like [`List::field`] for a field that must be there.
    #[inline]
    pub fn required<T>(
        &mut self,
        name: &'static str,
        read: impl FnOnce(&mut Reader<'a>) -> Result<Option<T>>,
    ) -> Result<T> {
        self.field(read)?.ok_or(DecodeError::MissingField(name))
    }

    /// Skips a field. Every transfer has three to skip, and nearly always they are null.
    #[inline]
    pub fn skip(&mut self) -> Result<()> {
        let skipped = self.field(|reader| match reader.peek()? {
            code::NULL => reader.byte().map(|_null| None),
            _ => reader.skip().map(Some),
        });
        skipped.map(|_| ())
    }

    /// How many fields are left.
    pub const fn remaining(&self) -> u32 {
        self.remaining
    }

    /// The bytes of the fields that are left, one after the other.
    pub const fn rest(&self) -> &'a [u8] {
        self.reader.rest()
    }

    /// The next field as an owned value; null past the end.
    pub fn value(&mut self) -> Result<Value> {
        Ok(self.field(|reader| reader.value().map(Some))?.unwrap_or(Value::Null))
    }

    /// The next field as "multiple" symbols.
    pub fn symbols(&mut self) -> Result<Vec<Symbol>> {
        Ok(self.field(|reader| reader.symbols().map(Some))?.unwrap_or_default())
    }
}

/// The entries of a map, in order.
#[derive(Debug, Clone, Copy)]
pub struct Map<'a> {
    reader: Reader<'a>,
    remaining: u32,
}

impl<'a> Map<'a> {
    pub(super) const fn new(reader: Reader<'a>, entries: u32) -> Self {
        Self { reader, remaining: entries }
    }

    /// The reader placed at the next key, or `None` at the end. The caller reads one key and one value.
    #[inline]
    pub fn entry(&mut self) -> Option<&mut Reader<'a>> {
        if self.remaining == 0 {
            return None;
        }
        self.remaining -= 1;
        Some(&mut self.reader)
    }

    /// How many entries are left.
    pub const fn remaining(&self) -> u32 {
        self.remaining
    }

    /// The bytes of the entries that are left: keys and values, one after the other.
    pub const fn rest(&self) -> &'a [u8] {
        self.reader.rest()
    }

    /// All entries with their keys as symbols (strings are taken for symbols).
    pub fn fields(mut self) -> Result<Vec<(Symbol, Value)>> {
        // One allowance for all entries together: each could otherwise ask for as much as all of them.
        let mut allowance = MAX_ELEMENTS;
        spend(&mut allowance, self.remaining)?;
        let mut entries = Vec::new();
        while let Some(reader) = self.entry() {
            let key = reader.text()?.ok_or(DecodeError::MissingField("map key"))?;
            entries.push((Symbol::from(key), reader.value_within(&mut allowance)?));
        }
        Ok(entries)
    }
}

/// The elements of an array. One constructor serves all of them; descriptors in front of it are left out.
#[derive(Debug, Clone, Copy)]
pub struct Array<'a> {
    reader: Reader<'a>,
    constructor: u8,
    remaining: u32,
    allowance: u32,
}

impl<'a> Array<'a> {
    /// `body` stands behind the count, at the elements' constructor.
    pub(super) fn new(mut body: Reader<'a>, count: u32) -> Result<Self> {
        let mut constructor = code::NULL;
        if count > 0 {
            constructor = body.byte()?;
            let mut descriptors = 0;
            while constructor == code::DESCRIBED {
                descriptors += 1;
                if descriptors > MAX_DEPTH {
                    return Err(DecodeError::TooDeep);
                }
                body.skip()?;
                constructor = body.byte()?;
            }
            check_array_count(constructor, count, body.rest().len())?;
        }
        Ok(Self { reader: body, constructor, remaining: count, allowance: MAX_ELEMENTS })
    }

    /// The next element, or `None` at the end.
    pub fn next_value(&mut self) -> Result<Option<Value>> {
        let mut allowance = self.allowance;
        let value = self.next_within(&mut allowance, 1);
        self.allowance = allowance;
        value
    }

    pub(super) fn next_within(&mut self, allowance: &mut u32, depth: u32) -> Result<Option<Value>> {
        if self.remaining == 0 {
            return Ok(None);
        }
        self.remaining -= 1;
        self.reader.value_of(self.constructor, depth, allowance).map(Some)
    }

    /// How many elements are left.
    pub const fn remaining(&self) -> u32 {
        self.remaining
    }

    /// The constructor of every element.
    pub(super) const fn constructor(&self) -> u8 {
        self.constructor
    }
}

/// Elements without a body cost a sender nothing, so only few of them are let through; all others are bounded by
/// the bytes that are there.
fn check_array_count(element: u8, count: u32, available: usize) -> Result<()> {
    if element >> 4 == 0x4 {
        if count > MAX_BODILESS_ELEMENTS {
            return Err(DecodeError::TooManyElements);
        }
        return Ok(());
    }
    if count > MAX_ELEMENTS {
        return Err(DecodeError::TooManyElements);
    }
    if count as usize > available { Err(DecodeError::Truncated) } else { Ok(()) }
}
