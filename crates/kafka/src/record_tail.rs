//! The tail of a record: what it says wherever it stands.
//!
//! A record begins with its length and its distance from the base of its batch; what follows is the tail, which batches of
//! different brokers have in common:
//!
//! ```text
//! tail  ├─ key ─┬─ value ─┬─ headers ─┤      each behind its length or count
//! ```

use crate::read::{Malformed, Reader};
use crate::record::{Headers, field};

/// The tail of a record, borrowed from its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordTail<'a> {
    /// The key, if it has one.
    pub key: Option<&'a [u8]>,
    /// The value; `None` is a tombstone.
    pub value: Option<&'a [u8]>,
    /// Its headers.
    pub headers: Headers<'a>,
}

impl<'a> RecordTail<'a> {
    /// Reads a tail, which is the whole of `bytes`.
    ///
    /// # Errors
    /// It ends early, goes on after its end, or has an impossible length.
    pub fn read(bytes: &'a [u8]) -> Result<Self, Malformed> {
        let mut reader = Reader::new(bytes, true);
        let tail = Self {
            key: field(&mut reader, "key of a record")?,
            value: field(&mut reader, "value of a record")?,
            headers: Headers::read(&mut reader)?,
        };
        match reader.rest().is_empty() {
            true => Ok(tail),
            false => Err(Malformed("end of a record")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::write;

    fn tail(key: Option<&[u8]>, value: Option<&[u8]>, headers: &[(&str, Option<&[u8]>)]) -> Vec<u8> {
        let mut out = Vec::new();
        let put = |out: &mut Vec<u8>, bytes: Option<&[u8]>| {
            write::varint(out, bytes.map_or(-1, |bytes| bytes.len() as i32));
            out.extend_from_slice(bytes.unwrap_or_default());
        };
        put(&mut out, key);
        put(&mut out, value);
        write::varint(&mut out, headers.len() as i32);
        for (name, value) in headers {
            put(&mut out, Some(name.as_bytes()));
            put(&mut out, *value);
        }
        out
    }

    #[test]
    fn a_tail_has_key_value_and_headers() {
        let headers = [("one", Some(&b"1"[..])), ("none", None)];
        let bytes = tail(Some(b"key"), Some(&[7; 300]), &headers);
        let read = RecordTail::read(&bytes).expect("a whole tail");
        assert_eq!((read.key, read.value), (Some(&b"key"[..]), Some(&[7; 300][..])));
        assert_eq!(read.headers.iter().collect::<Vec<_>>(), headers);
        let nothing = tail(None, None, &[]);
        let read = RecordTail::read(&nothing).expect("a whole tail");
        assert_eq!((read.key, read.value, read.headers.count()), (None, None, 0));
    }

    #[test]
    fn neither_less_nor_more_than_a_tail_is_one() {
        let mut bytes = tail(Some(b"key"), Some(b"value"), &[("name", Some(b"value"))]);
        for length in 0..bytes.len() {
            assert!(RecordTail::read(&bytes[..length]).is_err(), "{length}");
        }
        bytes.push(0);
        assert_eq!(RecordTail::read(&bytes), Err(Malformed("end of a record")));
        let mut long = Vec::new();
        write::varint(&mut long, i32::MAX);
        assert!(RecordTail::read(&long).is_err());
    }
}
