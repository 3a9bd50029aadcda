//! Decoding from a borrowed slice, in place.
//!
//! Every accessor accepts each legal width of its type and null (`None`),
//! consumes exactly one value, and leaves the reader unspecified after an error.
//! Lengths from the wire are compared with what is there before anything is
//! touched; nothing is reserved on their word.

use super::{Array, DecodeError, List, Map, Symbol, Value, code};

pub(super) type Result<T> = std::result::Result<T, DecodeError>;

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
    #[inline]
    pub fn peek(&self) -> Result<u8> {
        self.rest.first().copied().ok_or(DecodeError::Truncated)
    }

    /// Takes `length` raw bytes.
    #[inline]
    pub fn take(&mut self, length: usize) -> Result<&'a [u8]> {
        let (taken, rest) = self.rest.split_at_checked(length).ok_or(DecodeError::Truncated)?;
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
    pub(super) fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let (taken, rest) = self.rest.split_first_chunk::<N>().ok_or(DecodeError::Truncated)?;
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
    #[inline]
    pub fn long(&mut self) -> Result<Option<i64>> {
        match self.byte()? {
            code::SMALL_LONG => Ok(Some(i64::from(self.byte()?.cast_signed()))),
            code::LONG => Ok(Some(i64::from_be_bytes(self.array()?))),
            code::NULL => Ok(None),
            found => Err(unexpected(found, "long")),
        }
    }

    /// A timestamp: milliseconds since the Unix epoch.
    #[inline]
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
        std::str::from_utf8(bytes).map(Some).map_err(|_| DecodeError::InvalidText("UTF-8"))
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
                        _ => return Err(unexpected(array.constructor(), "array of symbol")),
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
        Ok(Some(List::new(Reader::new(body), count)))
    }

    /// A map. `None` for null.
    #[inline]
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
        Ok(Some(Map::new(Reader::new(body), count / 2)))
    }

    /// An array.
    pub fn array_of(&mut self) -> Result<Array<'a>> {
        let constructor = self.byte()?;
        self.array_of_constructor(constructor)
    }

    /// The array whose constructor has been read.
    pub(super) fn array_of_constructor(&mut self, constructor: u8) -> Result<Array<'a>> {
        let (body, count) = match constructor {
            code::ARRAY_8 => {
                let size = self.byte()?;
                let body = self.take(usize::from(size))?;
                let (&count, body) = body.split_first().ok_or(DecodeError::Truncated)?;
                (body, u32::from(count))
            }
            code::ARRAY_32 => self.wide_compound()?,
            found => return Err(unexpected(found, "array")),
        };
        Array::new(Reader::new(body), count)
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

    /// One value, returned as the bytes that encode it.
    pub fn raw(&mut self) -> Result<&'a [u8]> {
        let start = self.rest;
        self.skip()?;
        Ok(&start[..start.len() - self.rest.len()])
    }

    fn wide_compound(&mut self) -> Result<(&'a [u8], u32)> {
        let size = u32::from_be_bytes(self.array()?);
        let body = self.take(size as usize)?;
        let (count, body) = body.split_first_chunk::<4>().ok_or(DecodeError::Truncated)?;
        Ok((body, u32::from_be_bytes(*count)))
    }

    pub(super) fn body_length(&mut self, constructor: u8) -> Result<usize> {
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
}

pub(super) fn ascii(bytes: &[u8]) -> Result<&str> {
    if !bytes.is_ascii() {
        return Err(DecodeError::InvalidText("ASCII"));
    }
    std::str::from_utf8(bytes).map_err(|_| DecodeError::InvalidText("ASCII"))
}

#[cold]
pub(super) fn unexpected(found: u8, expected: &'static str) -> DecodeError {
    DecodeError::UnexpectedType { found, expected }
}
