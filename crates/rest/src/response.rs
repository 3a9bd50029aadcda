//! The head of a response, and where its body ends.
//!
//! Whoever reads a response further than it goes takes the next one for its body, or the other way round. So a head that can be read in
//! two ways is an error, after which the connection is of no use.

pub use httparse::{EMPTY_HEADER as EMPTY_FIELD, Header as Field};

pub use crate::framing::Framing;
use crate::framing::{Seen, Unclear, has_bare_line_feed};
use crate::head::{FIELDS_MAX, field};

/// The head of a response.
#[derive(Debug, Clone, Copy)]
pub struct ResponseHead<'a> {
    /// 201, say.
    pub status: u16,
    /// The fields, in their order and letter case.
    pub fields: &'a [Field<'a>],
    /// How many bytes the head has.
    pub length: usize,
    /// Where its body ends; with the connection, if it does not say.
    pub framing: Option<Framing>,
    /// Whether the service takes another request on the same connection.
    pub keeps_alive: bool,
}

/// Why the bytes are no head of a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ResponseError {
    /// They are none of HTTP/1.1.
    #[error("the response is malformed: {0}")]
    Malformed(httparse::Error),
    /// A line ends with a line feed alone.
    #[error("the lines of the response do not end in CR LF")]
    LineEnd,
    /// `Content-Length` is no number, there twice, or beside chunks.
    #[error("the response does not say where its body ends")]
    Framing,
}

impl<'a> ResponseHead<'a> {
    /// Reads the head of the response to a `POST` from the beginning of `input`, into `fields`; `None` if it is not there completely.
    ///
    /// # Errors
    /// It is none.
    pub fn parse(
        input: &'a [u8],
        fields: &'a mut [Field<'a>; FIELDS_MAX],
    ) -> Result<Option<Self>, ResponseError> {
        let mut response = httparse::Response::new(fields);
        let length = match response.parse(input) {
            Ok(httparse::Status::Complete(length)) => length,
            Ok(httparse::Status::Partial) => return Ok(None),
            Err(error) => return Err(ResponseError::Malformed(error)),
        };
        let (Some(status), Some(version)) = (response.code, response.version) else {
            return Ok(None);
        };
        if has_bare_line_feed(&input[..length]) {
            return Err(ResponseError::LineEnd);
        }
        let fields: &'a [Field<'a>] = response.headers;
        let mut seen = Seen::default();
        fields.iter().try_for_each(|field| seen.field(field, true))?;
        // These have no body, whatever they say of one.
        let framing = match status {
            100..200 | 204 | 304 => Some(Framing::Length(0)),
            _ => seen.framing()?,
        };
        let keeps_alive = version >= 1 && !seen.closes && framing.is_some();
        Ok(Some(Self { status, fields, length, framing, keeps_alive }))
    }

    /// The value of a field, if it is there and is text; of several the first.
    #[must_use]
    pub fn text(&self, name: &str) -> Option<&'a str> {
        field(self.fields, name).and_then(|value| std::str::from_utf8(value).ok())
    }
}

impl From<Unclear> for ResponseError {
    fn from(_: Unclear) -> Self {
        Self::Framing
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with<R>(input: &str, look: impl FnOnce(Result<Option<ResponseHead<'_>>, ResponseError>) -> R) -> R {
        let mut fields = [EMPTY_FIELD; FIELDS_MAX];
        look(ResponseHead::parse(input.as_bytes(), &mut fields))
    }

    #[test]
    fn a_head_is_read_once_it_is_complete_and_not_before() {
        let text = "HTTP/1.1 401 Unauthorized\r\nContent-Length: 4\r\nRetry-After: 2\r\n\r\nbody";
        for end in 0..text.len() - 4 {
            with(&text[..end], |head| assert!(matches!(head, Ok(None)), "{end}: {head:?}"));
        }
        with(text, |head| {
            let head = head.unwrap().unwrap();
            assert_eq!((head.status, head.length), (401, text.len() - 4));
            assert_eq!((head.framing, head.keeps_alive), (Some(Framing::Length(4)), true));
            assert_eq!(head.text("retry-after"), Some("2"));
        });
    }

    #[test]
    fn where_a_body_ends_decides_whether_the_connection_stays() {
        for (text, framing, keeps_alive) in [
            ("HTTP/1.1 201 Created\r\nTransfer-Encoding: chunked\r\n\r\n", Some(Framing::Chunked), true),
            ("HTTP/1.1 200 OK\r\n\r\n", None, false),
            ("HTTP/1.1 204 No Content\r\n\r\n", Some(Framing::Length(0)), true),
            ("HTTP/1.1 100 Continue\r\n\r\n", Some(Framing::Length(0)), true),
            (
                "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nConnection: te, Close\r\n\r\n",
                Some(Framing::Length(1)),
                false,
            ),
            ("HTTP/1.0 200 OK\r\nContent-Length: 1\r\n\r\n", Some(Framing::Length(1)), false),
        ] {
            with(text, |head| {
                let head = head.unwrap().unwrap();
                assert_eq!((head.framing, head.keeps_alive), (framing, keeps_alive), "{text:?}");
            });
        }
    }

    #[test]
    fn what_can_be_read_in_two_ways_is_an_error() {
        let start = "HTTP/1.1 200 OK\r\n";
        for (rest, expected) in [
            ("Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n", ResponseError::Framing),
            ("Content-Length: 4\r\nContent-Length: 4\r\n\r\n", ResponseError::Framing),
            ("Content-Length: -4\r\n\r\n", ResponseError::Framing),
            ("Transfer-Encoding: gzip\r\n\r\n", ResponseError::Framing),
            ("A: b\n\r\n", ResponseError::LineEnd),
        ] {
            with(&format!("{start}{rest}"), |head| assert_eq!(head.unwrap_err(), expected, "{rest:?}"));
        }
        for garbage in ["AMQP\x00\x01\x00\x00", "HTTP/2.0 200 OK\r\n\r\n", "200 OK\r\n\r\n"] {
            with(garbage, |head| assert!(matches!(head, Err(ResponseError::Malformed(_))), "{garbage:?}"));
        }
    }
}
