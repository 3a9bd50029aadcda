//! The AMQP type system (specification part 1): reading and writing encoded values.
//!
//! [`Reader`] decodes in place from a borrowed slice and never allocates; the
//! `write` functions append to a `Vec<u8>`. [`Value`] is the owned form for the
//! cold paths (properties, filters, management bodies); the transfer path never
//! builds one.
//!
//! A value is a constructor byte followed by a body. The high nibble of the
//! constructor alone says how long the body is, so that unknown types are
//! skipped without being understood:
//!
//! ```text
//! 0x4_ no body          0x5_ 1 byte     0x6_ 2 bytes    0x7_ 4 bytes
//! 0x8_ 8 bytes          0x9_ 16 bytes   0xA_ u8 length  0xB_ u32 length
//! 0xC_ u8 size, count   0xD_ u32 size   0xE_ u8 array   0xF_ u32 array
//! 0x00 descriptor value, then the described value
//! ```

mod compound;
mod reader;
mod symbol;
mod validate;
mod value;
pub mod write;

pub use compound::{Array, List, Map};
pub use reader::Reader;
pub use symbol::Symbol;
pub use value::Value;

/// Constructor bytes (specification section 1.6).
#[expect(missing_docs, reason = "the names are the specification's own")]
pub mod code {
    pub const DESCRIBED: u8 = 0x00;
    pub const NULL: u8 = 0x40;
    pub const TRUE: u8 = 0x41;
    pub const FALSE: u8 = 0x42;
    pub const UINT_0: u8 = 0x43;
    pub const ULONG_0: u8 = 0x44;
    pub const LIST_0: u8 = 0x45;
    pub const UBYTE: u8 = 0x50;
    pub const BYTE: u8 = 0x51;
    pub const SMALL_UINT: u8 = 0x52;
    pub const SMALL_ULONG: u8 = 0x53;
    pub const SMALL_INT: u8 = 0x54;
    pub const SMALL_LONG: u8 = 0x55;
    pub const BOOLEAN: u8 = 0x56;
    pub const USHORT: u8 = 0x60;
    pub const SHORT: u8 = 0x61;
    pub const UINT: u8 = 0x70;
    pub const INT: u8 = 0x71;
    pub const FLOAT: u8 = 0x72;
    pub const CHAR: u8 = 0x73;
    pub const DECIMAL32: u8 = 0x74;
    pub const ULONG: u8 = 0x80;
    pub const LONG: u8 = 0x81;
    pub const DOUBLE: u8 = 0x82;
    pub const TIMESTAMP: u8 = 0x83;
    pub const DECIMAL64: u8 = 0x84;
    pub const DECIMAL128: u8 = 0x94;
    pub const UUID: u8 = 0x98;
    pub const BINARY_8: u8 = 0xa0;
    pub const STRING_8: u8 = 0xa1;
    pub const SYMBOL_8: u8 = 0xa3;
    pub const BINARY_32: u8 = 0xb0;
    pub const STRING_32: u8 = 0xb1;
    pub const SYMBOL_32: u8 = 0xb3;
    pub const LIST_8: u8 = 0xc0;
    pub const MAP_8: u8 = 0xc1;
    pub const LIST_32: u8 = 0xd0;
    pub const MAP_32: u8 = 0xd1;
    pub const ARRAY_8: u8 = 0xe0;
    pub const ARRAY_32: u8 = 0xf0;
}

/// How deep values may nest before they are refused. A stack overflow is not an error that can be handled.
pub const MAX_DEPTH: u32 = 32;

/// Most elements that an owned value may hold, those of nested values included, or the entries of a map of symbols
/// together. An element takes up to 64 bytes here and may take less than one on the wire.
pub const MAX_ELEMENTS: u32 = 65_536;

/// Most elements of an array whose elements have no body (null, true, list0 …): seven bytes on the wire
/// could otherwise ask for gigabytes of values.
pub const MAX_BODILESS_ELEMENTS: u32 = 32;

/// Bytes that are not a valid encoding of what was expected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// A length or a type wants more bytes than there are.
    #[error("the value is cut short")]
    Truncated,
    /// The constructor byte is not one that the expected type has.
    #[error("constructor {found:#04x} where {expected} was expected")]
    UnexpectedType {
        /// The constructor found.
        found: u8,
        /// The type that belongs here.
        expected: &'static str,
    },
    /// The constructor byte is not one of the specification's.
    #[error("unknown constructor {0:#04x}")]
    UnknownConstructor(u8),
    /// A descriptor that is none of those allowed here.
    #[error("unexpected descriptor {0:#x}")]
    UnexpectedDescriptor(u64),
    /// A string that is not UTF-8, or a symbol that is not ASCII.
    #[error("text is not valid {0}")]
    InvalidText(&'static str),
    /// A value outside of what its field allows, such as settle mode 7.
    #[error("{field} has the invalid value {value}")]
    InvalidValue {
        /// The field.
        field: &'static str,
        /// What it held.
        value: u64,
    },
    /// A mandatory field is missing or null.
    #[error("mandatory field {0} is missing")]
    MissingField(&'static str),
    /// Values nest deeper than [`MAX_DEPTH`].
    #[error("values nest deeper than {MAX_DEPTH}")]
    TooDeep,
    /// More elements than [`MAX_ELEMENTS`], or than [`MAX_BODILESS_ELEMENTS`] in an array whose elements have no body.
    #[error("more elements than are allowed")]
    TooManyElements,
}
