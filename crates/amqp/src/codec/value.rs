//! The owned form of any AMQP value, and how it is read.

use super::reader::{Result, ascii};
use super::{DecodeError, MAX_DEPTH, MAX_ELEMENTS, Reader, Symbol, code};

/// An AMQP value (specification section 1.6). For cold paths only.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// The absence of a value.
    Null,
    /// A boolean.
    Boolean(bool),
    /// 8 bits, unsigned.
    Ubyte(u8),
    /// 16 bits, unsigned.
    Ushort(u16),
    /// 32 bits, unsigned.
    Uint(u32),
    /// 64 bits, unsigned.
    Ulong(u64),
    /// 8 bits, signed.
    Byte(i8),
    /// 16 bits, signed.
    Short(i16),
    /// 32 bits, signed.
    Int(i32),
    /// 64 bits, signed.
    Long(i64),
    /// IEEE 754 binary32.
    Float(f32),
    /// IEEE 754 binary64.
    Double(f64),
    /// IEEE 754 decimal32, as its bytes.
    Decimal32([u8; 4]),
    /// IEEE 754 decimal64, as its bytes.
    Decimal64([u8; 8]),
    /// IEEE 754 decimal128, as its bytes.
    Decimal128([u8; 16]),
    /// A UTF-32 code unit; not checked to be a scalar value.
    Char(u32),
    /// Milliseconds since the Unix epoch.
    Timestamp(i64),
    /// A UUID in network order.
    Uuid([u8; 16]),
    /// Bytes.
    Binary(Vec<u8>),
    /// UTF-8 text.
    String(String),
    /// An ASCII name.
    Symbol(Symbol),
    /// Values of any type.
    List(Vec<Self>),
    /// Keys and values in their order on the wire.
    Map(Vec<(Self, Self)>),
    /// Values of one type. An array of described values is read without its descriptor.
    Array(Vec<Self>),
    /// A descriptor and the value that it describes.
    Described(Box<(Self, Self)>),
}

impl Value {
    /// The text of a string or symbol.
    pub fn as_text(&self) -> Option<&str> {
        match self {
            Self::String(text) => Some(text),
            Self::Symbol(symbol) => Some(symbol.as_str()),
            _ => None,
        }
    }

    /// Any integer that fits an `i64`.
    pub fn as_integer(&self) -> Option<i64> {
        match *self {
            Self::Ubyte(number) => Some(number.into()),
            Self::Ushort(number) => Some(number.into()),
            Self::Uint(number) => Some(number.into()),
            Self::Ulong(number) => i64::try_from(number).ok(),
            Self::Byte(number) => Some(number.into()),
            Self::Short(number) => Some(number.into()),
            Self::Int(number) => Some(number.into()),
            Self::Long(number) | Self::Timestamp(number) => Some(number),
            _ => None,
        }
    }

    /// The value under a text key of a map.
    pub fn get(&self, key: &str) -> Option<&Self> {
        match self {
            Self::Map(entries) => {
                entries.iter().find(|(found, _)| found.as_text() == Some(key)).map(|(_, value)| value)
            }
            _ => None,
        }
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::String(text.to_owned())
    }
}

impl Reader<'_> {
    /// One value of any type, owned. It and what it holds have at most [`MAX_ELEMENTS`] elements.
    pub fn value(&mut self) -> Result<Value> {
        self.value_within(&mut { MAX_ELEMENTS })
    }

    /// One value whose elements, nested ones included, are taken off `allowance`.
    pub(super) fn value_within(&mut self, allowance: &mut u32) -> Result<Value> {
        self.value_at(0, allowance)
    }

    fn value_at(&mut self, depth: u32, allowance: &mut u32) -> Result<Value> {
        let constructor = self.byte()?;
        self.value_of(constructor, depth, allowance)
    }

    pub(super) fn value_of(&mut self, constructor: u8, depth: u32, allowance: &mut u32) -> Result<Value> {
        if depth > MAX_DEPTH {
            return Err(DecodeError::TooDeep);
        }
        Ok(match constructor {
            code::DESCRIBED => {
                spend(allowance, 2)?;
                let descriptor = self.value_at(depth + 1, allowance)?;
                let value = self.value_at(depth + 1, allowance)?;
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
                self.compound_of(constructor, depth, allowance)?
            }
            code::ARRAY_8 | code::ARRAY_32 => {
                let mut array = self.array_of_constructor(constructor)?;
                spend(allowance, array.remaining())?;
                let mut items = Vec::new();
                while let Some(item) = array.next_within(allowance, depth + 1)? {
                    items.push(item);
                }
                Value::Array(items)
            }
            unknown => return Err(DecodeError::UnknownConstructor(unknown)),
        })
    }

    fn compound_of(&mut self, constructor: u8, depth: u32, allowance: &mut u32) -> Result<Value> {
        let size = self.body_length(constructor)?;
        let mut body = Reader::new(self.take(size)?);
        let count =
            if constructor >> 4 == 0xc { u32::from(body.byte()?) } else { u32::from_be_bytes(body.array()?) };
        if count as usize > body.rest().len() {
            return Err(DecodeError::Truncated);
        }
        spend(allowance, count)?;
        if matches!(constructor, code::LIST_8 | code::LIST_32) {
            let mut items = Vec::new();
            for _ in 0..count {
                items.push(body.value_at(depth + 1, allowance)?);
            }
            return Ok(Value::List(items));
        }
        if count % 2 != 0 {
            return Err(DecodeError::Truncated);
        }
        let mut entries = Vec::new();
        for _ in 0..count / 2 {
            let key = body.value_at(depth + 1, allowance)?;
            entries.push((key, body.value_at(depth + 1, allowance)?));
        }
        Ok(Value::Map(entries))
    }
}

/// Takes `elements` off what may still be built.
pub(super) fn spend(allowance: &mut u32, elements: u32) -> Result<()> {
    *allowance = allowance.checked_sub(elements).ok_or(DecodeError::TooManyElements)?;
    Ok(())
}

fn variable(constructor: u8, bytes: &[u8]) -> Result<Value> {
    Ok(match constructor {
        code::BINARY_8 | code::BINARY_32 => Value::Binary(bytes.to_vec()),
        code::STRING_8 | code::STRING_32 => Value::String(
            std::str::from_utf8(bytes).map_err(|_| DecodeError::InvalidText("UTF-8"))?.to_owned(),
        ),
        _ => Value::Symbol(ascii(bytes)?.into()),
    })
}
