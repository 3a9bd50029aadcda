//! The primitive types, one vector per constructor.

use super::{Meaning, Vector, described, vector};
use amqp::Value;

/// Every constructor of section 1.6.
pub(super) fn vectors() -> Vec<Vector> {
    let value = |name, notation: &'static str, value| vector(name, &[notation], Meaning::Value(value));
    vec![
        value("null", "40", Value::Null),
        value("boolean true", "41", Value::Boolean(true)),
        value("boolean false", "42", Value::Boolean(false)),
        value("boolean with a body", "56 01", Value::Boolean(true)),
        value("ubyte", "50 ff", Value::Ubyte(255)),
        value("ushort", "60 01 02", Value::Ushort(0x0102)),
        value("uint", "70 01 02 03 04", Value::Uint(0x0102_0304)),
        value("smalluint", "52 ff", Value::Uint(255)),
        value("uint0", "43", Value::Uint(0)),
        value("ulong", "80 01 02 03 04 05 06 07 08", Value::Ulong(0x0102_0304_0506_0708)),
        value("smallulong", "53 ff", Value::Ulong(255)),
        value("ulong0", "44", Value::Ulong(0)),
        value("byte", "51 80", Value::Byte(-128)),
        value("short", "61 80 00", Value::Short(i16::MIN)),
        value("int", "71 80 00 00 00", Value::Int(i32::MIN)),
        value("smallint", "54 80", Value::Int(-128)),
        value("long", "81 80 00 00 00 00 00 00 00", Value::Long(i64::MIN)),
        value("smalllong", "55 ff", Value::Long(-1)),
        value("float", "72 3f 80 00 00", Value::Float(1.0)),
        value("double", "82 c0 00 00 00 00 00 00 00", Value::Double(-2.0)),
        value("decimal32", "74 22 50 00 01", Value::Decimal32([0x22, 0x50, 0, 1])),
        value("decimal64", "84 22 34 00 00 00 00 00 01", Value::Decimal64([0x22, 0x34, 0, 0, 0, 0, 0, 1])),
        value(
            "decimal128",
            "94 22 08 00 00 00 00 00 00 00 00 00 00 00 00 00 01",
            Value::Decimal128([0x22, 8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]),
        ),
        value("char", "73 00 01 f6 00", Value::Char(0x1_f600)),
        value("timestamp", "83 ff ff ff ff ff ff ff ff", Value::Timestamp(-1)),
        value(
            "uuid",
            "98 00 11 22 33 44 55 66 77 88 99 aa bb cc dd ee ff",
            Value::Uuid([
                0x00, 0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88, 0x99, 0xaa, 0xbb, 0xcc, 0xdd, 0xee,
                0xff,
            ]),
        ),
        value("vbin8", "a0 < 00 ff >", Value::Binary(vec![0, 255])),
        value("vbin32", "b0 << 07 >>", Value::Binary(vec![7])),
        value("str8-utf8", "a1 < c3 a9 >", Value::from("é")),
        value("str32-utf8", "b1 << 'x' >>", Value::from("x")),
        value("sym8", "a3 < 'amqp' >", Value::Symbol("amqp".into())),
        value("sym32", "b3 << >>", Value::Symbol("".into())),
        value("list0", "45", Value::List(Vec::new())),
        value(
            "list8",
            "c0 < 02 41 c0 < 01 40 > >",
            Value::List(vec![Value::Boolean(true), Value::List(vec![Value::Null])]),
        ),
        value("list32", "d0 << 00 00 00 01 43 >>", Value::List(vec![Value::Uint(0)])),
        value(
            "map8",
            "c1 < 02 a1 < 'k' > 45 >",
            Value::Map(vec![(Value::from("k"), Value::List(Vec::new()))]),
        ),
        value("map32", "d1 << 00 00 00 02 43 44 >>", Value::Map(vec![(Value::Uint(0), Value::Ulong(0))])),
        value(
            "array8 of string",
            "e0 < 02 a1 < '0' > < '1' > >",
            Value::Array(vec![Value::from("0"), Value::from("1")]),
        ),
        value(
            "array32 of int",
            "f0 << 00 00 00 02 71 00 00 00 01 ff ff ff ff >>",
            Value::Array(vec![Value::Int(1), Value::Int(-1)]),
        ),
        value("array without elements", "e0 < 00 40 >", Value::Array(Vec::new())),
        value(
            "array of elements without a body",
            "e0 < 03 41 >",
            Value::Array(vec![Value::Boolean(true); 3]),
        ),
        value(
            "array of arrays",
            "e0 < 02 e0 < 01 50 07 > < 00 40 > >",
            Value::Array(vec![Value::Array(vec![Value::Ubyte(7)]), Value::Array(Vec::new())]),
        ),
        value(
            "array of described values",
            "e0 < 02 00 a3 < 'm' > 52 01 02 >",
            Value::Array(vec![Value::Uint(1), Value::Uint(2)]),
        ),
        value(
            "described twice",
            "00 53 01 00 44 42",
            described(Value::Ulong(1), described(Value::Ulong(0), Value::Boolean(false))),
        ),
    ]
}
