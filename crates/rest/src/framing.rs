//! Where a body ends, as the fields of a request or response say it.
//!
//! What can be read in two ways is an error, in both directions alike.

use httparse::Header as Field;

/// Where a body ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Framing {
    /// After so many bytes.
    Length(u64),
    /// After the last of its chunks.
    Chunked,
}

/// What has been seen of the fields that matter.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    length: Option<u64>,
    is_chunked: bool,
    /// Whether the connection ends behind the body.
    pub(crate) closes: bool,
}

/// Why nobody knows where a body ends.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Unclear {
    /// `Content-Length` is no number, or is there twice.
    Length,
    /// Both a length and chunks.
    TwoFramings,
    /// A transfer coding that is not taken, or several.
    TransferEncoding,
}

impl Seen {
    /// Takes a field into account, if it matters. Old clients know no chunks.
    #[inline]
    pub(crate) fn field(&mut self, field: &Field<'_>, knows_chunks: bool) -> Result<(), Unclear> {
        // Most fields are told from those that count here by their lengths.
        match field.name.len() {
            10 if field.name.eq_ignore_ascii_case("connection") => {
                self.closes |= has_token(field.value, "close");
            }
            14 if field.name.eq_ignore_ascii_case("content-length") => {
                let length = decimal(field.value).ok_or(Unclear::Length)?;
                if self.length.replace(length).is_some() {
                    return Err(Unclear::Length);
                }
            }
            17 if field.name.eq_ignore_ascii_case("transfer-encoding") => {
                if self.is_chunked || !knows_chunks || !field.value.eq_ignore_ascii_case(b"chunked") {
                    return Err(Unclear::TransferEncoding);
                }
                self.is_chunked = true;
            }
            _ => {}
        }
        Ok(())
    }

    /// Where the body ends, if the fields say so.
    #[inline]
    pub(crate) const fn framing(&self) -> Result<Option<Framing>, Unclear> {
        match (self.length, self.is_chunked) {
            (Some(_), true) => Err(Unclear::TwoFramings),
            (None, true) => Ok(Some(Framing::Chunked)),
            (Some(length), false) => Ok(Some(Framing::Length(length))),
            (None, false) => Ok(None),
        }
    }
}

/// Whether a line of a head ends with a line feed alone, which httparse takes for an end.
pub(crate) fn has_bare_line_feed(head: &[u8]) -> bool {
    let mut before = 0;
    let mut is_bare = false;
    for byte in head {
        is_bare |= (*byte == b'\n') & (before != b'\r');
        before = *byte;
    }
    is_bare
}

fn has_token(value: &[u8], token: &str) -> bool {
    value.split(|byte| *byte == b',').any(|part| part.trim_ascii().eq_ignore_ascii_case(token.as_bytes()))
}

/// A number without sign, separators or leading blanks, of at most 18 digits: longer ones fit nowhere.
fn decimal(value: &[u8]) -> Option<u64> {
    let is_plain = (1..=18).contains(&value.len()) && value.iter().all(u8::is_ascii_digit);
    is_plain.then(|| value.iter().fold(0, |number, digit| number * 10 + u64::from(digit - b'0')))
}
