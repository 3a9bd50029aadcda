//! Values of AMQP in JSON, and the names of their types.

use amqp::codec::{Symbol, Value};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::write::{put_text, put_time};

/// How a value is recovered from its JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Written {
    /// The JSON value implies the type.
    Implied,
    /// The type must be named.
    As(&'static str),
    /// The JSON value does not contain the whole value.
    Inexact,
}

/// Returns how a value is recovered from the output of [`put_value`].
pub(super) fn written(value: &Value) -> Written {
    let float = |is_had: bool, name| if is_had { Written::As(name) } else { Written::Inexact };
    match value {
        Value::Null | Value::Boolean(_) | Value::Long(_) | Value::String(_) => Written::Implied,
        Value::Double(number) if number.is_finite() => Written::Implied,
        Value::Double(number) => float(!number.is_nan() || number.to_bits() == f64::NAN.to_bits(), "double"),
        Value::Float(number) => float(!number.is_nan() || number.to_bits() == f32::NAN.to_bits(), "float"),
        Value::Ubyte(_) => Written::As("ubyte"),
        Value::Ushort(_) => Written::As("ushort"),
        Value::Uint(_) => Written::As("uint"),
        Value::Ulong(_) => Written::As("ulong"),
        Value::Byte(_) => Written::As("byte"),
        Value::Short(_) => Written::As("short"),
        Value::Int(_) => Written::As("int"),
        Value::Char(code) => float(char::from_u32(*code).is_some(), "char"),
        Value::Timestamp(_) => Written::As("timestamp"),
        Value::Uuid(_) => Written::As("uuid"),
        Value::Symbol(_) => Written::As("symbol"),
        Value::Binary(bytes) => Written::As(name_of_bytes(bytes)),
        Value::Decimal32(_)
        | Value::Decimal64(_)
        | Value::Decimal128(_)
        | Value::List(_)
        | Value::Map(_)
        | Value::Array(_)
        | Value::Described(_) => Written::Inexact,
    }
}

/// Returns the type name of bytes: `bytes` if they are written as text, otherwise `base64`.
pub(super) const fn name_of_bytes(bytes: &[u8]) -> &'static str {
    match str::from_utf8(bytes) {
        Ok(_) => "bytes",
        Err(_) => "base64",
    }
}

/// Appends bytes as text, or in base64 if they are not UTF-8.
pub(super) fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    match str::from_utf8(bytes) {
        Ok(text) => put_text(out, text),
        Err(_) => put_base64(out, bytes),
    }
}

/// Appends bytes in base64, in quotes.
pub fn put_base64(out: &mut Vec<u8>, bytes: &[u8]) {
    out.push(b'"');
    out.extend_from_slice(STANDARD.encode(bytes).as_bytes());
    out.push(b'"');
}

/// Appends a value as JSON: numbers as numbers, times and identifiers as text, bytes as text, or in base64 if they are not UTF-8.
pub fn put_value(out: &mut Vec<u8>, value: &Value) {
    let put = |out: &mut Vec<u8>, text: String| out.extend_from_slice(text.as_bytes());
    match value {
        Value::Null => out.extend_from_slice(b"null"),
        Value::Boolean(value) => put(out, value.to_string()),
        Value::Ubyte(value) => put(out, value.to_string()),
        Value::Ushort(value) => put(out, value.to_string()),
        Value::Uint(value) => put(out, value.to_string()),
        Value::Ulong(value) => put(out, value.to_string()),
        Value::Byte(value) => put(out, value.to_string()),
        Value::Short(value) => put(out, value.to_string()),
        Value::Int(value) => put(out, value.to_string()),
        Value::Long(value) => put(out, value.to_string()),
        // JSON has no infinity and no NaN.
        Value::Float(value) if value.is_finite() => put(out, format!("{value:?}")),
        Value::Double(value) if value.is_finite() => put(out, format!("{value:?}")),
        Value::Float(value) => put_text(out, &value.to_string()),
        Value::Double(value) => put_text(out, &value.to_string()),
        Value::Char(value) => put_text(out, &char::from_u32(*value).unwrap_or('\u{fffd}').to_string()),
        Value::Timestamp(unix_ms) => put_time(out, *unix_ms),
        Value::Uuid(bytes) => put_text(out, &uuid_text(*bytes)),
        Value::Binary(bytes) => put_bytes(out, bytes),
        Value::Decimal32(bytes) => put_base64(out, bytes),
        Value::Decimal64(bytes) => put_base64(out, bytes),
        Value::Decimal128(bytes) => put_base64(out, bytes),
        Value::String(text) => put_text(out, text),
        Value::Symbol(text) => put_text(out, text.as_str()),
        Value::List(values) | Value::Array(values) => {
            out.push(b'[');
            for (index, value) in values.iter().enumerate() {
                if index > 0 {
                    out.push(b',');
                }
                put_value(out, value);
            }
            out.push(b']');
        }
        Value::Map(entries) => {
            out.push(b'{');
            for (index, (key, value)) in entries.iter().enumerate() {
                if index > 0 {
                    out.push(b',');
                }
                match key.as_text() {
                    Some(text) => put_text(out, text),
                    None => {
                        let mut key_text = Vec::new();
                        put_value(&mut key_text, key);
                        put_text(out, &String::from_utf8_lossy(&key_text));
                    }
                }
                out.push(b':');
                put_value(out, value);
            }
            out.push(b'}');
        }
        // A type of the application's own, such as a span of time of .NET: what it is made of.
        Value::Described(described) => put_value(out, &described.1),
    }
}

/// Parses the output of [`put_value`] for the named type, or for the implied one. Returns `None` if it is not of that type.
pub(super) fn read_value(json: &str, name: Option<&str>) -> Option<Value> {
    let text = || serde_json::from_str::<String>(json).ok();
    Some(match name {
        None => return read_implied(json),
        Some("ubyte") => Value::Ubyte(json.parse().ok()?),
        Some("ushort") => Value::Ushort(json.parse().ok()?),
        Some("uint") => Value::Uint(json.parse().ok()?),
        Some("ulong") => Value::Ulong(json.parse().ok()?),
        Some("byte") => Value::Byte(json.parse().ok()?),
        Some("short") => Value::Short(json.parse().ok()?),
        Some("int") => Value::Int(json.parse().ok()?),
        Some("float") => Value::Float(json.trim_matches('"').parse().ok()?),
        Some("double") => Value::Double(json.trim_matches('"').parse().ok()?),
        Some("char") => {
            let text = text()?;
            let mut characters = text.chars();
            let only = characters.next().filter(|_| characters.next().is_none())?;
            Value::Char(only.into())
        }
        Some("timestamp") => Value::Timestamp(read_time(json)?),
        Some("uuid") => Value::Uuid(read_uuid(&text()?)?),
        Some("symbol") => {
            let text = text()?;
            text.is_ascii().then(|| Value::Symbol(Symbol::from(text.as_str())))?
        }
        Some("bytes") => Value::Binary(text()?.into_bytes()),
        Some("base64") => Value::Binary(STANDARD.decode(text()?).ok()?),
        Some(_) => return None,
    })
}

fn read_implied(json: &str) -> Option<Value> {
    Some(match json.as_bytes().first()? {
        b'"' => Value::String(serde_json::from_str(json).ok()?),
        b't' => Value::Boolean(true),
        b'f' => Value::Boolean(false),
        b'n' => Value::Null,
        b'{' | b'[' => return None,
        _ if json.contains(['.', 'e', 'E']) => Value::Double(json.parse().ok()?),
        _ => match (json.parse(), json.parse()) {
            (Ok(number), _) => Value::Long(number),
            (Err(_), Ok(number)) => Value::Ulong(number),
            (Err(_), Err(_)) => Value::Double(json.parse().ok()?),
        },
    })
}

/// Parses the output of [`put_time`], in milliseconds since 1970.
pub(super) fn read_time(json: &str) -> Option<i64> {
    if !json.starts_with('"') {
        return json.parse().ok();
    }
    let instant = units::date::parse_iso_instant(&serde_json::from_str::<String>(json).ok()?)?;
    let since = instant.duration_since(std::time::UNIX_EPOCH).ok()?;
    i64::try_from(since.as_millis()).ok()
}

fn uuid_text(bytes: [u8; 16]) -> String {
    let number = u128::from_be_bytes(bytes);
    let part = |shift: u32, digits: u32| number >> shift & ((1 << (4 * digits)) - 1);
    let [first, second, third, fourth, fifth] =
        [part(96, 8), part(80, 4), part(64, 4), part(48, 4), part(0, 12)];
    format!("{first:08x}-{second:04x}-{third:04x}-{fourth:04x}-{fifth:012x}")
}

fn read_uuid(text: &str) -> Option<[u8; 16]> {
    let digits: String = text.split('-').collect();
    let is_uuid =
        digits.len() == 32 && text.len() == 36 && digits.bytes().all(|digit| digit.is_ascii_hexdigit());
    is_uuid.then(|| u128::from_str_radix(&digits, 16).ok())?.map(u128::to_be_bytes)
}
