//! Decoding from a borrowed slice, in place.
//!
//! Every accessor accepts each legal width of its type and null (`None`),
//! consumes exactly one value, and leaves the reader unspecified after an error.
//! Lengths from the wire are compared with what is there before anything is
//! touched; nothing is reserved on their word.

use super::{DecodeError, MAX_BODILESS_ELEMENTS, MAX_DEPTH, MAX_ELEMENTS, Symbol, Value, code};

type Result<T> = std::result::Result<T, DecodeError>;

/// A cursor over encoded values.
#[derive(Debug, Clone, Copy)]
pub struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    /// Reads from the start of `bytes`.
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    /// What has not been read yet.
    pub const fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// Whether everything has been read.
    pub const fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// The next constructor byte, without consuming it.
    pub fn peek(&self) -> Result<u8> {
        self.rest.first().copied().ok_or(DecodeError::Truncated)
    }

    /// Takes `length` raw bytes.
    #[inline]
    pub fn take(&mut self, length: usize) -> Result<&'a [u8]> {
        let (taken, rest) = self
            .rest
            .split_at_checked(length)
            .ok_or(DecodeError::Truncated)?;
        self.rest = rest;
        Ok(taken)
    }

    /// Takes one raw byte.
    #[inline]
    pub fn byte(&mut self) -> Result<u8> {
        let (&byte, rest) = self.rest.split_first().ok_or(DecodeError::Truncated)?;
        self.rest = rest;
        Ok(byte)
    }

    #[inline]
    fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let (taken, rest) = self
            .rest
            .split_first_chunk::<N>()
            .ok_or(DecodeError::Truncated)?;
        self.rest = rest;
        Ok(*taken)
    }

    /// A boolean.
    #[inline]
    pub fn boolean(&mut self) -> Result<Option<bool>> {
        match self.byte()? {
            code::TRUE => Ok(Some(true)),
            code::FALSE => Ok(Some(false)),
            code::NULL => Ok(None),
            code::BOOLEAN => Ok(Some(self.byte()? != 0)),
            found => Err(unexpected(found, "boolean")),
        }
    }

    /// An unsigned byte.
    pub fn ubyte(&mut self) -> Result<Option<u8>> {
        match self.byte()? {
            code::UBYTE => self.byte().map(Some),
            code::NULL => Ok(None),
            found => Err(unexpected(found, "ubyte")),
        }
    }

    /// An unsigned 16-bit integer.
    pub fn ushort(&mut self) -> Result<Option<u16>> {
        match self.byte()? {
            code::USHORT => Ok(Some(u16::from_be_bytes(self.array()?))),
            code::NULL => Ok(None),
            found => Err(unexpected(found, "ushort")),
        }
    }

    /// An unsigned 32-bit integer.
    #[inline]
    pub fn uint(&mut self) -> Result<Option<u32>> {
        match self.byte()? {
            code::SMALL_UINT => Ok(Some(u32::from(self.byte()?))),
            code::UINT => Ok(Some(u32::from_be_bytes(self.array()?))),
            code::UINT_0 => Ok(Some(0)),
            code::NULL => Ok(None),
            found => Err(unexpected(found, "uint")),
        }
    }

    /// An unsigned 64-bit integer.
    pub fn ulong(&mut self) -> Result<Option<u64>> {
        match self.byte()? {
            code::SMALL_ULONG => Ok(Some(u64::from(self.byte()?))),
            code::ULONG => Ok(Some(u64::from_be_bytes(self.array()?))),
            code::ULONG_0 => Ok(Some(0)),
            code::NULL => Ok(None),
            found => Err(unexpected(found, "ulong")),
        }
    }

    /// A signed 32-bit integer.
    pub fn int(&mut self) -> Result<Option<i32>> {
        match self.byte()? {
            code::SMALL_INT => Ok(Some(i32::from(self.byte()?.cast_signed()))),
            code::INT => Ok(Some(i32::from_be_bytes(self.array()?))),
            code::NULL => Ok(None),
            found => Err(unexpected(found, "int")),
        }
    }

    /// A signed 64-bit integer.
    pub fn long(&mut self) -> Result<Option<i64>> {
        match self.byte()? {
            code::SMALL_LONG => Ok(Some(i64::from(self.byte()?.cast_signed()))),
            code::LONG => Ok(Some(i64::from_be_bytes(self.array()?))),
            code::NULL => Ok(None),
            found => Err(unexpected(found, "long")),
        }
    }

    /// A timestamp: milliseconds since the Unix epoch.
    pub fn timestamp(&mut self) -> Result<Option<i64>> {
        match self.byte()? {
            code::TIMESTAMP => Ok(Some(i64::from_be_bytes(self.array()?))),
            code::NULL => Ok(None),
            found => Err(unexpected(found, "timestamp")),
        }
    }

    /// Binary data.
    #[inline]
    pub fn binary(&mut self) -> Result<Option<&'a [u8]>> {
        match self.byte()? {
            code::BINARY_8 => {
                let length = self.byte()?;
                self.take(usize::from(length)).map(Some)
            }
            code::BINARY_32 => {
                let length = u32::from_be_bytes(self.array()?);
                self.take(length as usize).map(Some)
            }
            code::NULL => Ok(None),
            found => Err(unexpected(found, "binary")),
        }
    }

    /// A UTF-8 string.
    pub fn string(&mut self) -> Result<Option<&'a str>> {
        let bytes = match self.byte()? {
            code::STRING_8 => {
                let length = self.byte()?;
                self.take(usize::from(length))?
            }
            code::STRING_32 => {
                let length = u32::from_be_bytes(self.array()?);
                self.take(length as usize)?
            }
            code::NULL => return Ok(None),
            found => return Err(unexpected(found, "string")),
        };
        std::str::from_utf8(bytes)
            .map(Some)
            .map_err(|_| DecodeError::InvalidText("UTF-8"))
    }

    /// A symbol, as borrowed text.
    #[inline]
    pub fn symbol(&mut self) -> Result<Option<&'a str>> {
        let bytes = match self.byte()? {
            code::SYMBOL_8 => {
                let length = self.byte()?;
                self.take(usize::from(length))?
            }
            code::SYMBOL_32 => {
                let length = u32::from_be_bytes(self.array()?);
                self.take(length as usize)?
            }
            code::NULL => return Ok(None),
            found => return Err(unexpected(found, "symbol")),
        };
        ascii(bytes).map(Some)
    }

    /// A symbol or a string: clients disagree on which of the two some map keys are.
    pub fn text(&mut self) -> Result<Option<&'a str>> {
        match self.peek()? {
            code::SYMBOL_8 | code::SYMBOL_32 => self.symbol(),
            _ => self.string(),
        }
    }

    /// Symbols where the specification says "multiple": null, one symbol, or an array of them.
    pub fn symbols(&mut self) -> Result<Vec<Symbol>> {
        match self.peek()? {
            code::ARRAY_8 | code::ARRAY_32 => {
                let mut array = self.array_of()?;
                let mut symbols = Vec::new();
                while let Some(value) = array.next_value()? {
                    match value {
                        Value::Symbol(symbol) => symbols.push(symbol),
                        _ => return Err(unexpected(array.constructor, "array of symbol")),
                    }
                }
                Ok(symbols)
            }
            _ => Ok(self.symbol()?.map(Symbol::from).into_iter().collect()),
        }
    }

    /// A list. `None` for null.
    #[inline]
    pub fn list(&mut self) -> Result<Option<List<'a>>> {
        let (body, count) = match self.byte()? {
            code::LIST_8 => {
                let size = self.byte()?;
                let body = self.take(usize::from(size))?;
                let (&count, body) = body.split_first().ok_or(DecodeError::Truncated)?;
                (body, u32::from(count))
            }
            code::LIST_32 => self.wide_compound()?,
            code::LIST_0 => (&[][..], 0),
            code::NULL => return Ok(None),
            found => return Err(unexpected(found, "list")),
        };
        // Each element of a list is at least one byte wide, so a larger count is a lie.
        if count as usize > body.len() {
            return Err(DecodeError::Truncated);
        }
        Ok(Some(List {
            reader: Reader::new(body),
            remaining: count,
        }))
    }

    /// A map. `None` for null.
    pub fn map(&mut self) -> Result<Option<Map<'a>>> {
        let (body, count) = match self.byte()? {
            code::MAP_8 => {
                let size = self.byte()?;
                let body = self.take(usize::from(size))?;
                let (&count, body) = body.split_first().ok_or(DecodeError::Truncated)?;
                (body, u32::from(count))
            }
            code::MAP_32 => self.wide_compound()?,
            // Some clients write an absent map as an empty list.
            code::LIST_0 => (&[][..], 0),
            code::NULL => return Ok(None),
            found => return Err(unexpected(found, "map")),
        };
        if count as usize > body.len() || count % 2 != 0 {
            return Err(DecodeError::Truncated);
        }
        Ok(Some(Map {
            reader: Reader::new(body),
            remaining: count / 2,
        }))
    }

    /// An array.
    pub fn array_of(&mut self) -> Result<Array<'a>> {
        let (body, count) = match self.byte()? {
            code::ARRAY_8 => {
                let size = self.byte()?;
                let body = self.take(usize::from(size))?;
                let (&count, body) = body.split_first().ok_or(DecodeError::Truncated)?;
                (body, u32::from(count))
            }
            code::ARRAY_32 => self.wide_compound()?,
            found => return Err(unexpected(found, "array")),
        };
        let mut reader = Reader::new(body);
        if count == 0 {
            return Ok(Array {
                reader,
                constructor: code::NULL,
                remaining: 0,
            });
        }
        let mut constructor = reader.byte()?;
        let mut descriptors = 0;
        while constructor == code::DESCRIBED {
            descriptors += 1;
            if descriptors > MAX_DEPTH {
                return Err(DecodeError::TooDeep);
            }
            reader.skip()?;
            constructor = reader.byte()?;
        }
        check_array_count(constructor, count, reader.rest.len())?;
        Ok(Array {
            reader,
            constructor,
            remaining: count,
        })
    }

    /// The descriptor of a described value as its numeric code; the value follows.
    #[inline]
    pub fn descriptor(&mut self) -> Result<u64> {
        if let [code::DESCRIBED, code::SMALL_ULONG, descriptor, rest @ ..] = self.rest {
            self.rest = rest;
            return Ok(u64::from(*descriptor));
        }
        match self.byte()? {
            code::DESCRIBED => {}
            found => return Err(unexpected(found, "described type")),
        }
        match self.peek()? {
            code::SYMBOL_8 | code::SYMBOL_32 => {
                let name = self.symbol()?.unwrap_or_default();
                crate::performative::descriptor_of(name).ok_or(DecodeError::UnexpectedDescriptor(0))
            }
            _ => self.ulong()?.ok_or(DecodeError::MissingField("descriptor")),
        }
    }

    /// Skips one value of any type, however deeply it nests, without recursion.
    pub fn skip(&mut self) -> Result<()> {
        let mut outstanding: u32 = 1;
        while outstanding > 0 {
            outstanding -= 1;
            let constructor = self.byte()?;
            if constructor == code::DESCRIBED {
                // Bounded by the bytes that are there: each turn consumes at least one.
                outstanding += 2;
                continue;
            }
            let length = self.body_length(constructor)?;
            self.take(length)?;
        }
        Ok(())
    }

    /// One value of any type, owned.
    pub fn value(&mut self) -> Result<Value> {
        self.value_at(0)
    }

    /// One value, returned as the bytes that encode it.
    pub fn raw(&mut self) -> Result<&'a [u8]> {
        let start = self.rest;
        self.skip()?;
        Ok(&start[..start.len() - self.rest.len()])
    }

    fn wide_compound(&mut self) -> Result<(&'a [u8], u32)> {
        let size = u32::from_be_bytes(self.array()?);
        let body = self.take(size as usize)?;
        let (count, body) = body
            .split_first_chunk::<4>()
            .ok_or(DecodeError::Truncated)?;
        Ok((body, u32::from_be_bytes(*count)))
    }

    fn body_length(&mut self, constructor: u8) -> Result<usize> {
        Ok(match constructor >> 4 {
            0x4 => 0,
            0x5 => 1,
            0x6 => 2,
            0x7 => 4,
            0x8 => 8,
            0x9 => 16,
            0xa | 0xc | 0xe => usize::from(self.byte()?),
            0xb | 0xd | 0xf => u32::from_be_bytes(self.array()?) as usize,
            _ => return Err(DecodeError::UnknownConstructor(constructor)),
        })
    }

    fn value_at(&mut self, depth: u32) -> Result<Value> {
        let constructor = self.byte()?;
        self.value_of(constructor, depth)
    }

    fn value_of(&mut self, constructor: u8, depth: u32) -> Result<Value> {
        if depth > MAX_DEPTH {
            return Err(DecodeError::TooDeep);
        }
        Ok(match constructor {
            code::DESCRIBED => {
                let descriptor = self.value_at(depth + 1)?;
                let value = self.value_at(depth + 1)?;
                Value::Described(Box::new((descriptor, value)))
            }
            code::NULL => Value::Null,
            code::TRUE => Value::Boolean(true),
            code::FALSE => Value::Boolean(false),
            code::BOOLEAN => Value::Boolean(self.byte()? != 0),
            code::UBYTE => Value::Ubyte(self.byte()?),
            code::BYTE => Value::Byte(self.byte()?.cast_signed()),
            code::USHORT => Value::Ushort(u16::from_be_bytes(self.array()?)),
            code::SHORT => Value::Short(i16::from_be_bytes(self.array()?)),
            code::UINT_0 => Value::Uint(0),
            code::SMALL_UINT => Value::Uint(u32::from(self.byte()?)),
            code::UINT => Value::Uint(u32::from_be_bytes(self.array()?)),
            code::SMALL_INT => Value::Int(i32::from(self.byte()?.cast_signed())),
            code::INT => Value::Int(i32::from_be_bytes(self.array()?)),
            code::ULONG_0 => Value::Ulong(0),
            code::SMALL_ULONG => Value::Ulong(u64::from(self.byte()?)),
            code::ULONG => Value::Ulong(u64::from_be_bytes(self.array()?)),
            code::SMALL_LONG => Value::Long(i64::from(self.byte()?.cast_signed())),
            code::LONG => Value::Long(i64::from_be_bytes(self.array()?)),
            code::FLOAT => Value::Float(f32::from_be_bytes(self.array()?)),
            code::DOUBLE => Value::Double(f64::from_be_bytes(self.array()?)),
            code::CHAR => Value::Char(u32::from_be_bytes(self.array()?)),
            code::DECIMAL32 => Value::Decimal32(self.array()?),
            code::DECIMAL64 => Value::Decimal64(self.array()?),
            code::DECIMAL128 => Value::Decimal128(self.array()?),
            code::TIMESTAMP => Value::Timestamp(i64::from_be_bytes(self.array()?)),
            code::UUID => Value::Uuid(self.array()?),
            code::BINARY_8
            | code::BINARY_32
            | code::STRING_8
            | code::STRING_32
            | code::SYMBOL_8
            | code::SYMBOL_32 => {
                let length = self.body_length(constructor)?;
                variable(constructor, self.take(length)?)?
            }
            code::LIST_0 => Value::List(Vec::new()),
            code::LIST_8 | code::LIST_32 | code::MAP_8 | code::MAP_32 => {
                self.compound_of(constructor, depth)?
            }
            code::ARRAY_8 | code::ARRAY_32 => {
                let length = self.body_length(constructor)?;
                self.array_body(constructor, length, depth)?
            }
            unknown => return Err(DecodeError::UnknownConstructor(unknown)),
        })
    }

    fn compound_of(&mut self, constructor: u8, depth: u32) -> Result<Value> {
        let size = self.body_length(constructor)?;
        let mut body = Reader::new(self.take(size)?);
        let count = if constructor >> 4 == 0xc {
            u32::from(body.byte()?)
        } else {
            u32::from_be_bytes(body.array()?)
        };
        if count as usize > body.rest.len() {
            return Err(DecodeError::Truncated);
        }
        if count > MAX_ELEMENTS {
            return Err(DecodeError::TooManyElements);
        }
        if matches!(constructor, code::LIST_8 | code::LIST_32) {
            let mut items = Vec::new();
            for _ in 0..count {
                items.push(body.value_at(depth + 1)?);
            }
            return Ok(Value::List(items));
        }
        if count % 2 != 0 {
            return Err(DecodeError::Truncated);
        }
        let mut entries = Vec::new();
        for _ in 0..count / 2 {
            let key = body.value_at(depth + 1)?;
            entries.push((key, body.value_at(depth + 1)?));
        }
        Ok(Value::Map(entries))
    }

    fn array_body(&mut self, constructor: u8, length: usize, depth: u32) -> Result<Value> {
        let mut body = Reader::new(self.take(length)?);
        let count = if constructor == code::ARRAY_8 {
            u32::from(body.byte()?)
        } else {
            u32::from_be_bytes(body.array()?)
        };
        let mut items = Vec::new();
        if count == 0 {
            return Ok(Value::Array(items));
        }
        let element = body.byte()?;
        check_array_count(element, count, body.rest.len())?;
        for _ in 0..count {
            items.push(body.value_of(element, depth + 1)?);
        }
        Ok(Value::Array(items))
    }
}

/// The fields of a list, in order. Fields past the end read as null: senders may leave trailing ones out.
#[derive(Debug, Clone, Copy)]
pub struct List<'a> {
    reader: Reader<'a>,
    remaining: u32,
}

impl<'a> List<'a> {
    /// A list without fields.
    pub const EMPTY: List<'static> = List {
        reader: Reader::new(&[]),
        remaining: 0,
    };

    /// The next field read by `read`, or `None` past the end.
    #[inline]
    pub fn field<T>(
        &mut self,
        read: impl FnOnce(&mut Reader<'a>) -> Result<Option<T>>,
    ) -> Result<Option<T>> {
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

    /// Skips a field.
    pub fn skip(&mut self) -> Result<()> {
        self.field(|reader| reader.skip().map(Some)).map(|_| ())
    }

    /// How many fields are left.
    pub const fn remaining(&self) -> u32 {
        self.remaining
    }

    /// The next field as an owned value; null past the end.
    pub fn value(&mut self) -> Result<Value> {
        Ok(self
            .field(|reader| reader.value().map(Some))?
            .unwrap_or(Value::Null))
    }

    /// The next field as "multiple" symbols.
    pub fn symbols(&mut self) -> Result<Vec<Symbol>> {
        Ok(self
            .field(|reader| reader.symbols().map(Some))?
            .unwrap_or_default())
    }
}

/// The entries of a map, in order.
#[derive(Debug, Clone, Copy)]
pub struct Map<'a> {
    reader: Reader<'a>,
    remaining: u32,
}

impl<'a> Map<'a> {
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
        self.reader.rest
    }

    /// All entries with their keys as symbols (strings are taken for symbols).
    pub fn fields(mut self) -> Result<Vec<(Symbol, Value)>> {
        if self.remaining > MAX_ELEMENTS {
            return Err(DecodeError::TooManyElements);
        }
        let mut entries = Vec::new();
        while let Some(reader) = self.entry() {
            let key = reader.text()?.ok_or(DecodeError::MissingField("map key"))?;
            entries.push((Symbol::from(key), reader.value()?));
        }
        Ok(entries)
    }
}

/// The elements of an array.
#[derive(Debug, Clone, Copy)]
pub struct Array<'a> {
    reader: Reader<'a>,
    constructor: u8,
    remaining: u32,
}

impl Array<'_> {
    /// The next element, or `None` at the end.
    pub fn next_value(&mut self) -> Result<Option<Value>> {
        if self.remaining == 0 {
            return Ok(None);
        }
        self.remaining -= 1;
        self.reader.value_of(self.constructor, 1).map(Some)
    }
}

/// Elements without a body cost a sender nothing, so only few of them are let through; all others are bounded by
/// the bytes that are there.
fn check_array_count(element: u8, count: u32, available: usize) -> Result<()> {
    if element >> 4 == 0x4 || element == code::DESCRIBED {
        if count > MAX_BODILESS_ELEMENTS {
            return Err(DecodeError::TooManyElements);
        }
        return Ok(());
    }
    if count > MAX_ELEMENTS {
        return Err(DecodeError::TooManyElements);
    }
    if count as usize > available {
        Err(DecodeError::Truncated)
    } else {
        Ok(())
    }
}

fn variable(constructor: u8, bytes: &[u8]) -> Result<Value> {
    Ok(match constructor {
        code::BINARY_8 | code::BINARY_32 => Value::Binary(bytes.to_vec()),
        code::STRING_8 | code::STRING_32 => Value::String(
            std::str::from_utf8(bytes)
                .map_err(|_| DecodeError::InvalidText("UTF-8"))?
                .to_owned(),
        ),
        _ => Value::Symbol(ascii(bytes)?.into()),
    })
}

fn ascii(bytes: &[u8]) -> Result<&str> {
    if !bytes.is_ascii() {
        return Err(DecodeError::InvalidText("ASCII"));
    }
    std::str::from_utf8(bytes).map_err(|_| DecodeError::InvalidText("ASCII"))
}

#[cold]
fn unexpected(found: u8, expected: &'static str) -> DecodeError {
    DecodeError::UnexpectedType { found, expected }
}
