//! Encoding: each function appends one value in its shortest form.
//!
//! Compound values are written in one pass with the four-byte form, their size
//! and count patched in at the end: [`list`] and [`map`].

use super::{Symbol, Value, code};

/// Bytes as they are. For 16 to 64 of them, the sizes of small messages, by copies of a fixed length that share what is in the
/// middle: a move or two each, where any other copy is a call.
#[inline]
pub fn bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    match bytes.len() {
        16..=32 => ends::<16>(out, bytes),
        33..=64 => ends::<32>(out, bytes),
        _ => out.extend_from_slice(bytes),
    }
}

/// The first `N` bytes and the last `N`, of at least `N` bytes and at most twice as many.
#[inline]
fn ends<const N: usize>(out: &mut Vec<u8>, bytes: &[u8]) {
    let (Some(first), Some(last)) = (bytes.first_chunk::<N>(), bytes.last_chunk::<N>()) else {
        return out.extend_from_slice(bytes);
    };
    let end = out.len() + bytes.len();
    out.extend_from_slice(first);
    out.extend_from_slice(last);
    out[end - N..end].copy_from_slice(last);
    out.truncate(end);
}

/// The first `length` bytes of an array; faster than as many bytes of a slice, since the whole array is copied.
#[inline]
pub fn few<const N: usize>(out: &mut Vec<u8>, bytes: &[u8; N], length: usize) {
    let end = out.len() + length.min(N);
    out.extend_from_slice(bytes);
    out.truncate(end);
}

/// Null.
pub fn null(out: &mut Vec<u8>) {
    out.push(code::NULL);
}

/// A boolean in its one-byte form.
pub fn boolean(out: &mut Vec<u8>, value: bool) {
    out.push(if value { code::TRUE } else { code::FALSE });
}

/// An unsigned byte.
pub fn ubyte(out: &mut Vec<u8>, value: u8) {
    out.extend_from_slice(&[code::UBYTE, value]);
}

/// An unsigned 16-bit integer.
pub fn ushort(out: &mut Vec<u8>, value: u16) {
    out.push(code::USHORT);
    out.extend_from_slice(&value.to_be_bytes());
}

/// An unsigned 32-bit integer.
pub fn uint(out: &mut Vec<u8>, value: u32) {
    match u8::try_from(value) {
        Ok(0) => out.push(code::UINT_0),
        Ok(small) => out.extend_from_slice(&[code::SMALL_UINT, small]),
        Err(_) => {
            out.push(code::UINT);
            out.extend_from_slice(&value.to_be_bytes());
        }
    }
}

/// An unsigned 64-bit integer.
pub fn ulong(out: &mut Vec<u8>, value: u64) {
    match u8::try_from(value) {
        Ok(0) => out.push(code::ULONG_0),
        Ok(small) => out.extend_from_slice(&[code::SMALL_ULONG, small]),
        Err(_) => {
            out.push(code::ULONG);
            out.extend_from_slice(&value.to_be_bytes());
        }
    }
}

/// A signed 32-bit integer.
pub fn int(out: &mut Vec<u8>, value: i32) {
    match i8::try_from(value) {
        Ok(small) => out.extend_from_slice(&[code::SMALL_INT, small.cast_unsigned()]),
        Err(_) => {
            out.push(code::INT);
            out.extend_from_slice(&value.to_be_bytes());
        }
    }
}

/// A signed 64-bit integer.
pub fn long(out: &mut Vec<u8>, value: i64) {
    match i8::try_from(value) {
        Ok(small) => out.extend_from_slice(&[code::SMALL_LONG, small.cast_unsigned()]),
        Err(_) => {
            out.push(code::LONG);
            out.extend_from_slice(&value.to_be_bytes());
        }
    }
}

/// A timestamp: milliseconds since the Unix epoch.
pub fn timestamp(out: &mut Vec<u8>, milliseconds: i64) {
    out.push(code::TIMESTAMP);
    out.extend_from_slice(&milliseconds.to_be_bytes());
}

/// Binary data.
pub fn binary(out: &mut Vec<u8>, value: &[u8]) {
    variable(out, code::BINARY_8, code::BINARY_32, value);
}

/// A string.
pub fn string(out: &mut Vec<u8>, value: &str) {
    variable(out, code::STRING_8, code::STRING_32, value.as_bytes());
}

/// A symbol.
pub fn symbol(out: &mut Vec<u8>, value: &str) {
    variable(out, code::SYMBOL_8, code::SYMBOL_32, value.as_bytes());
}

/// Symbols where the specification says "multiple": null for none, otherwise an array.
pub fn symbols(out: &mut Vec<u8>, values: &[Symbol]) {
    if values.is_empty() {
        return null(out);
    }
    array(
        out,
        values,
        |out| out.push(code::SYMBOL_32),
        |out, symbol| {
            out.extend_from_slice(&length_u32(symbol.as_str().len()));
            out.extend_from_slice(symbol.as_str().as_bytes());
        },
    );
}

/// The descriptor of a described value; the value must follow.
pub fn descriptor(out: &mut Vec<u8>, descriptor: u64) {
    out.push(code::DESCRIBED);
    ulong(out, descriptor);
}

/// An optional value: null if there is none.
pub fn option<T>(out: &mut Vec<u8>, value: Option<T>, write: impl FnOnce(&mut Vec<u8>, T)) {
    match value {
        Some(value) => write(out, value),
        None => null(out),
    }
}

/// A list of `count` fields that `write` appends.
pub fn list(out: &mut Vec<u8>, count: u32, write: impl FnOnce(&mut Vec<u8>)) {
    compound(out, code::LIST_32, count, write);
}

/// A map of `entries` entries whose keys and values `write` appends.
pub fn map(out: &mut Vec<u8>, entries: u32, write: impl FnOnce(&mut Vec<u8>)) {
    compound(out, code::MAP_32, entries * 2, write);
}

/// A map with symbol keys; null if it has no entries.
pub fn fields(out: &mut Vec<u8>, entries: &[(Symbol, Value)]) {
    if entries.is_empty() {
        return null(out);
    }
    map(out, length(entries.len()), |out| {
        for (key, entry) in entries {
            symbol(out, key.as_str());
            value(out, entry);
        }
    });
}

/// Any value.
pub fn value(out: &mut Vec<u8>, value: &Value) {
    match value {
        Value::Null => null(out),
        Value::Boolean(flag) => boolean(out, *flag),
        Value::Ubyte(number) => ubyte(out, *number),
        Value::Ushort(number) => ushort(out, *number),
        Value::Uint(number) => uint(out, *number),
        Value::Ulong(number) => ulong(out, *number),
        Value::Byte(number) => out.extend_from_slice(&[code::BYTE, number.cast_unsigned()]),
        Value::Short(number) => fixed(out, code::SHORT, &number.to_be_bytes()),
        Value::Int(number) => int(out, *number),
        Value::Long(number) => long(out, *number),
        Value::Float(number) => fixed(out, code::FLOAT, &number.to_be_bytes()),
        Value::Double(number) => fixed(out, code::DOUBLE, &number.to_be_bytes()),
        Value::Decimal32(bytes) => fixed(out, code::DECIMAL32, bytes),
        Value::Decimal64(bytes) => fixed(out, code::DECIMAL64, bytes),
        Value::Decimal128(bytes) => fixed(out, code::DECIMAL128, bytes),
        Value::Char(character) => fixed(out, code::CHAR, &character.to_be_bytes()),
        Value::Timestamp(milliseconds) => timestamp(out, *milliseconds),
        Value::Uuid(bytes) => fixed(out, code::UUID, bytes),
        Value::Binary(bytes) => binary(out, bytes),
        Value::String(text) => string(out, text),
        Value::Symbol(text) => symbol(out, text.as_str()),
        Value::List(items) if items.is_empty() => out.push(code::LIST_0),
        Value::List(items) => list(out, length(items.len()), |out| {
            for item in items {
                self::value(out, item);
            }
        }),
        Value::Map(entries) => map(out, length(entries.len()), |out| {
            for (key, entry) in entries {
                self::value(out, key);
                self::value(out, entry);
            }
        }),
        Value::Array(items) => array(
            out,
            items,
            |out| match items.first() {
                Some(item) => element_constructor(out, item),
                None => null(out),
            },
            element_body,
        ),
        Value::Described(described) => {
            out.push(code::DESCRIBED);
            self::value(out, &described.0);
            self::value(out, &described.1);
        }
    }
}

fn fixed(out: &mut Vec<u8>, constructor: u8, body: &[u8]) {
    out.push(constructor);
    out.extend_from_slice(body);
}

fn variable(out: &mut Vec<u8>, short: u8, long: u8, bytes: &[u8]) {
    match u8::try_from(bytes.len()) {
        Ok(small) => out.extend_from_slice(&[short, small]),
        Err(_) => {
            out.push(long);
            out.extend_from_slice(&length_u32(bytes.len()));
        }
    }
    out.extend_from_slice(bytes);
}

fn compound(out: &mut Vec<u8>, constructor: u8, count: u32, write: impl FnOnce(&mut Vec<u8>)) {
    out.push(constructor);
    let size_at = out.len();
    out.extend_from_slice(&[0; 4]);
    out.extend_from_slice(&count.to_be_bytes());
    write(out);
    let size = length_u32(out.len() - size_at - 4);
    out[size_at..size_at + 4].copy_from_slice(&size);
}

fn array<T>(
    out: &mut Vec<u8>,
    items: &[T],
    constructor: impl FnOnce(&mut Vec<u8>),
    mut write: impl FnMut(&mut Vec<u8>, &T),
) {
    compound(out, code::ARRAY_32, length(items.len()), |out| {
        constructor(out);
        for item in items {
            write(out, item);
        }
    });
}

/// The widest constructor of a value's type: in an array one constructor serves every element.
fn element_constructor(out: &mut Vec<u8>, value: &Value) {
    let constructor = match value {
        Value::Null => code::NULL,
        Value::Boolean(_) => code::BOOLEAN,
        Value::Ubyte(_) => code::UBYTE,
        Value::Ushort(_) => code::USHORT,
        Value::Uint(_) => code::UINT,
        Value::Ulong(_) => code::ULONG,
        Value::Byte(_) => code::BYTE,
        Value::Short(_) => code::SHORT,
        Value::Int(_) => code::INT,
        Value::Long(_) => code::LONG,
        Value::Float(_) => code::FLOAT,
        Value::Double(_) => code::DOUBLE,
        Value::Decimal32(_) => code::DECIMAL32,
        Value::Decimal64(_) => code::DECIMAL64,
        Value::Decimal128(_) => code::DECIMAL128,
        Value::Char(_) => code::CHAR,
        Value::Timestamp(_) => code::TIMESTAMP,
        Value::Uuid(_) => code::UUID,
        Value::Binary(_) => code::BINARY_32,
        Value::String(_) => code::STRING_32,
        Value::Symbol(_) => code::SYMBOL_32,
        Value::List(_) => code::LIST_32,
        Value::Map(_) => code::MAP_32,
        Value::Array(_) => code::ARRAY_32,
        Value::Described(described) => {
            out.push(code::DESCRIBED);
            self::value(out, &described.0);
            return element_constructor(out, &described.1);
        }
    };
    out.push(constructor);
}

/// The body of an array element under [`element_constructor`]. Elements whose type differs from the
/// first one's cannot be expressed; [`Value::Array`] requires them to be alike, their descriptors included.
fn element_body(out: &mut Vec<u8>, item: &Value) {
    match item {
        Value::Boolean(flag) => out.push(u8::from(*flag)),
        Value::Uint(number) => out.extend_from_slice(&number.to_be_bytes()),
        Value::Ulong(number) => out.extend_from_slice(&number.to_be_bytes()),
        Value::Int(number) => out.extend_from_slice(&number.to_be_bytes()),
        Value::Long(number) => out.extend_from_slice(&number.to_be_bytes()),
        Value::Binary(bytes) => {
            out.extend_from_slice(&length_u32(bytes.len()));
            out.extend_from_slice(bytes);
        }
        Value::String(text) => {
            out.extend_from_slice(&length_u32(text.len()));
            out.extend_from_slice(text.as_bytes());
        }
        Value::Symbol(text) => {
            out.extend_from_slice(&length_u32(text.as_str().len()));
            out.extend_from_slice(text.as_str().as_bytes());
        }
        Value::List(items) if items.is_empty() => {
            out.extend_from_slice(&length_u32(4));
            out.extend_from_slice(&[0; 4]);
        }
        Value::Described(described) => element_body(out, &described.1),
        // Every other type has one width only: its encoding without the constructor.
        other => {
            let start = out.len();
            value(out, other);
            out.remove(start);
        }
    }
}

fn length(count: usize) -> u32 {
    u32::try_from(count).expect("no compound value of ours has 2^32 elements")
}

fn length_u32(bytes: usize) -> [u8; 4] {
    u32::try_from(bytes).expect("no value of ours is 4 GiB long").to_be_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_of_any_length_are_appended_as_they_are() {
        let all: Vec<u8> = (0..100).collect();
        for length in 0..all.len() {
            let mut out = vec![0xff; 3];
            bytes(&mut out, &all[..length]);
            assert_eq!(out[..3], [0xff; 3]);
            assert_eq!(out[3..], all[..length]);
        }
    }

    #[test]
    fn a_few_bytes_of_an_array_are_its_first() {
        for length in 0..=4 {
            let mut out = vec![9];
            few(&mut out, b"abcd", length);
            assert_eq!(out[1..], b"abcd"[..length]);
        }
    }
}
