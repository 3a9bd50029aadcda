//! The owned form of any AMQP value.

use super::Symbol;

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
    List(Vec<Value>),
    /// Keys and values in their order on the wire.
    Map(Vec<(Value, Value)>),
    /// Values of one type. An array of described values is read without its descriptor.
    Array(Vec<Value>),
    /// A descriptor and the value that it describes.
    Described(Box<(Value, Value)>),
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
            Self::Map(entries) => entries
                .iter()
                .find(|(found, _)| found.as_text() == Some(key))
                .map(|(_, value)| value),
            _ => None,
        }
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::String(text.to_owned())
    }
}
