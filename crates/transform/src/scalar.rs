//! Values of properties: where they lie in an event, and as the expression library has them.

use amqp::codec::{Reader, code, write};
use cel::Value;

/// A value, borrowed from the event.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Scalar<'a> {
    /// Null, or not there.
    Null,
    Bool(bool),
    Int(i64),
    Uint(u64),
    Double(f64),
    /// What is said to be UTF-8.
    Text(&'a [u8]),
    Bytes(&'a [u8]),
    Char(u32),
    Uuid([u8; 16]),
    /// A type that expressions do not know.
    Other,
}

impl<'a> Scalar<'a> {
    /// A value of AMQP, all of whose bytes are there.
    pub(crate) fn of_amqp(encoded: &'a [u8]) -> Self {
        let (&constructor, body) = encoded.split_first().unwrap_or((&code::NULL, &[]));
        match constructor {
            code::NULL => Self::Null,
            code::TRUE => Self::Bool(true),
            code::FALSE => Self::Bool(false),
            code::BOOLEAN => Self::Bool(body != [0]),
            code::UINT_0 | code::ULONG_0 => Self::Int(0),
            code::UBYTE | code::USHORT | code::SMALL_UINT | code::UINT | code::SMALL_ULONG | code::ULONG => {
                let number = unsigned(body);
                i64::try_from(number).map_or(Self::Uint(number), Self::Int)
            }
            code::BYTE
            | code::SHORT
            | code::SMALL_INT
            | code::INT
            | code::SMALL_LONG
            | code::LONG
            | code::TIMESTAMP => Self::Int(signed(body)),
            code::FLOAT => Self::Double(f32::from_bits(unsigned(body) as u32).into()),
            code::DOUBLE => Self::Double(f64::from_bits(unsigned(body))),
            code::CHAR => Self::Char(unsigned(body) as u32),
            code::UUID => body.try_into().map_or(Self::Other, Self::Uuid),
            code::STRING_8 | code::SYMBOL_8 => Self::Text(body.get(1..).unwrap_or_default()),
            code::STRING_32 | code::SYMBOL_32 => Self::Text(body.get(4..).unwrap_or_default()),
            code::BINARY_8 => Self::Bytes(body.get(1..).unwrap_or_default()),
            code::BINARY_32 => Self::Bytes(body.get(4..).unwrap_or_default()),
            // Types of a client's platform have a name in front, such as .NET's dates and spans, which are numbers.
            code::DESCRIBED => {
                let mut reader = Reader::new(body);
                match reader.skip().map(|()| reader.rest()) {
                    Ok(value) if value.first().is_some_and(|&constructor| constructor != code::DESCRIBED) => {
                        Self::of_amqp(value)
                    }
                    _ => Self::Other,
                }
            }
            _ => Self::Other,
        }
    }

    /// Bytes that are text if they can be.
    pub(crate) fn of_bytes(bytes: &'a [u8]) -> Self {
        match std::str::from_utf8(bytes) {
            Ok(_) => Self::Text(bytes),
            Err(_) => Self::Bytes(bytes),
        }
    }

    /// The value as the library has it; `None` for a type that it does not know.
    pub(crate) fn to_value(self) -> Option<Value> {
        Some(match self {
            Self::Null => Value::Null,
            Self::Bool(value) => Value::Bool(value),
            Self::Int(value) => Value::Int(value),
            Self::Uint(value) => Value::UInt(value),
            Self::Double(value) => Value::Float(value),
            Self::Text(text) => match std::str::from_utf8(text) {
                Ok(text) => Value::from(text),
                Err(_) => Value::from(text.to_vec()),
            },
            Self::Bytes(bytes) => Value::from(bytes.to_vec()),
            Self::Char(character) => Value::from(char::from_u32(character)?.to_string()),
            Self::Uuid(bytes) => Value::from(uuid_text(bytes)),
            Self::Other => return None,
        })
    }

    /// Appends it as AMQP has it. What is null or unknown is nothing.
    pub(crate) fn write_amqp(self, out: &mut Vec<u8>) -> bool {
        match self {
            Self::Null | Self::Other => return false,
            Self::Bool(value) => write::boolean(out, value),
            Self::Int(value) => write::long(out, value),
            Self::Uint(value) => write::ulong(out, value),
            Self::Double(value) => write::value(out, &amqp::codec::Value::Double(value)),
            Self::Text(text) => match std::str::from_utf8(text) {
                Ok(text) => write::string(out, text),
                Err(_) => write::binary(out, text),
            },
            Self::Bytes(bytes) => write::binary(out, bytes),
            Self::Char(value) => write::value(out, &amqp::codec::Value::Char(value)),
            Self::Uuid(value) => write::value(out, &amqp::codec::Value::Uuid(value)),
        }
        true
    }

    /// Appends it as the value of a header of Kafka, behind its length: numbers and booleans as text.
    pub(crate) fn write_kafka(self, out: &mut Vec<u8>) -> bool {
        let text = match self {
            Self::Null | Self::Other => return false,
            Self::Text(bytes) | Self::Bytes(bytes) => {
                write_field(out, bytes);
                return true;
            }
            Self::Bool(value) => value.to_string(),
            Self::Int(value) => value.to_string(),
            Self::Uint(value) => value.to_string(),
            Self::Double(value) => value.to_string(),
            Self::Char(value) => char::from_u32(value).map(String::from).unwrap_or_default(),
            Self::Uuid(value) => uuid_text(value),
        };
        write_field(out, text.as_bytes());
        true
    }
}

/// Bytes of Kafka behind their length.
pub(crate) fn write_field(out: &mut Vec<u8>, bytes: &[u8]) {
    // No header is as large as a record may be, and that is less than 2 GiB.
    kafka::write::varint(out, bytes.len() as i32);
    out.extend_from_slice(bytes);
}

fn unsigned(body: &[u8]) -> u64 {
    body.iter().take(8).fold(0, |number, &byte| number << 8 | u64::from(byte))
}

fn signed(body: &[u8]) -> i64 {
    let sign = if body.first().is_some_and(|&first| first >= 0x80) { -1 } else { 0 };
    body.iter().take(8).fold(sign, |number, &byte| number << 8 | i64::from(byte))
}

fn uuid_text(bytes: [u8; 16]) -> String {
    let mut text = String::with_capacity(36);
    for (index, byte) in bytes.iter().enumerate() {
        if matches!(index, 4 | 6 | 8 | 10) {
            text.push('-');
        }
        text.push(char::from(DIGITS[usize::from(byte >> 4)]));
        text.push(char::from(DIGITS[usize::from(byte & 15)]));
    }
    text
}

const DIGITS: &[u8; 16] = b"0123456789abcdef";

#[cfg(test)]
mod tests {
    use amqp::codec::{Symbol, Value as Amqp};

    use super::*;

    #[test]
    fn every_type_of_amqp_is_a_value_in_each_of_its_encodings() {
        let of = |value: Amqp| {
            let mut encoded = Vec::new();
            write::value(&mut encoded, &value);
            Scalar::of_amqp(&encoded).to_value()
        };
        for (value, expected) in [
            (Amqp::Null, Value::Null),
            (Amqp::Boolean(true), Value::Bool(true)),
            (Amqp::Ubyte(200), Value::Int(200)),
            (Amqp::Ushort(60_000), Value::Int(60_000)),
            (Amqp::Uint(0), Value::Int(0)),
            (Amqp::Uint(7), Value::Int(7)),
            (Amqp::Uint(u32::MAX), Value::Int(u32::MAX.into())),
            (Amqp::Ulong(0), Value::Int(0)),
            (Amqp::Ulong(u64::MAX), Value::UInt(u64::MAX)),
            (Amqp::Byte(-3), Value::Int(-3)),
            (Amqp::Short(-300), Value::Int(-300)),
            (Amqp::Int(-1), Value::Int(-1)),
            (Amqp::Int(i32::MIN), Value::Int(i32::MIN.into())),
            (Amqp::Long(-1), Value::Int(-1)),
            (Amqp::Long(i64::MIN), Value::Int(i64::MIN)),
            (Amqp::Timestamp(1_700), Value::Int(1_700)),
            (Amqp::Float(0.5), Value::Float(0.5)),
            (Amqp::Double(-0.25), Value::Float(-0.25)),
            (Amqp::Char(u32::from('ß')), Value::from("ß")),
            (Amqp::String("x".repeat(300)), Value::from("x".repeat(300))),
            (Amqp::Symbol(Symbol::from_static("s")), Value::from("s")),
            (Amqp::Binary(vec![1; 300]), Value::from(vec![1_u8; 300])),
            (Amqp::Uuid([0xab; 16]), Value::from("abababab-abab-abab-abab-abababababab")),
        ] {
            assert_eq!(of(value.clone()), Some(expected), "{value:?}");
        }
        assert_eq!(of(Amqp::Decimal32([0; 4])), None);
        let span = Amqp::Described(Box::new((Amqp::Symbol(Symbol::from_static("t")), Amqp::Long(9))));
        assert_eq!(of(span), Some(Value::Int(9)));
        assert_eq!(Scalar::of_amqp(&[code::BOOLEAN, 0]), Scalar::Bool(false));
    }

    #[test]
    fn what_is_written_is_read_as_it_was() {
        for scalar in [
            Scalar::Bool(false),
            Scalar::Int(i64::MIN),
            Scalar::Int(5),
            Scalar::Uint(u64::MAX),
            Scalar::Double(1.5),
            Scalar::Text(b"text"),
            Scalar::Bytes(&[0xff]),
        ] {
            let mut out = Vec::new();
            assert!(scalar.write_amqp(&mut out));
            assert_eq!(Scalar::of_amqp(&out), scalar);
        }
        assert!(!Scalar::Null.write_amqp(&mut Vec::new()) && !Scalar::Null.write_kafka(&mut Vec::new()));
        let mut header = Vec::new();
        assert!(Scalar::Int(-12).write_kafka(&mut header));
        assert_eq!(header, [6, b'-', b'1', b'2']);
    }
}
