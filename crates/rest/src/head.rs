//! The head of a request, and where its body ends.
//!
//! Whoever stands between a client and a server may read a request differently than we do, and what is left over would be taken for
//! a request of somebody else. So whatever can be read in two ways is refused: a length beside chunks, two lengths, lines that end in
//! other than CR LF, any coding but `chunked`.

pub use httparse::{EMPTY_HEADER as EMPTY_FIELD, Header as Field};

pub use crate::framing::Framing;
use crate::framing::{Seen, Unclear, has_bare_line_feed};

/// The head of a request.
#[derive(Debug, Clone, Copy)]
pub struct Head<'a> {
    /// `POST`, say. Methods are case-sensitive.
    pub method: &'a str,
    /// Path and query, as they came.
    pub target: &'a str,
    /// The fields, in their order and letter case.
    pub fields: &'a [Field<'a>],
    /// How many bytes the head has.
    pub length: usize,
    /// What follows it.
    pub framing: Framing,
    /// Whether the client may send another request on the same connection.
    pub keeps_alive: bool,
    /// Whether it sends the body only when it is told to go on.
    pub expects_continue: bool,
}

/// Why the bytes are no head that is served. The connection has to end, since nobody knows where the next one begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum HeadError {
    /// They are none of HTTP.
    #[error("the request is malformed: {0}")]
    Malformed(httparse::Error),
    /// A line ends with a line feed alone, or has one in it.
    #[error("the lines of the request do not end in CR LF")]
    LineEnd,
    /// More fields than anyone needs.
    #[error("the request has more than {FIELDS_MAX} header fields")]
    TooManyFields,
    /// `Content-Length` is no number, or is there twice.
    #[error("Content-Length is not one decimal number")]
    Length,
    /// Both a length and chunks.
    #[error("Content-Length and Transfer-Encoding exclude one another")]
    TwoFramings,
    /// A transfer coding that is not served, or several.
    #[error("the only Transfer-Encoding served is chunked, in HTTP/1.1")]
    TransferEncoding,
    /// No host, or more than one.
    #[error("the request must have one Host")]
    Host,
    /// An expectation that nobody knows.
    #[error("the only Expect served is 100-continue")]
    Expectation,
}

impl HeadError {
    /// The status of the response.
    #[must_use]
    pub const fn status(self) -> u16 {
        match self {
            Self::TooManyFields => 431,
            Self::TransferEncoding => 501,
            Self::Expectation => 417,
            _ => 400,
        }
    }
}

impl<'a> Head<'a> {
    /// Reads a head from the beginning of `input`, into `fields`; `None` if it is not there completely.
    ///
    /// # Errors
    /// It is none that is served.
    pub fn parse(
        input: &'a [u8],
        fields: &'a mut [Field<'a>; FIELDS_MAX],
    ) -> Result<Option<Self>, HeadError> {
        let mut request = httparse::Request::new(fields);
        let length = match request.parse(input) {
            Ok(httparse::Status::Complete(length)) => length,
            Ok(httparse::Status::Partial) => return Ok(None),
            Err(httparse::Error::TooManyHeaders) => return Err(HeadError::TooManyFields),
            Err(error) => return Err(HeadError::Malformed(error)),
        };
        let (Some(method), Some(target), Some(version)) = (request.method, request.path, request.version)
        else {
            return Ok(None);
        };
        if has_bare_line_feed(&input[..length]) {
            return Err(HeadError::LineEnd);
        }
        Self::of(method, target, request.headers, length, version >= 1).map(Some)
    }

    fn of(
        method: &'a str,
        target: &'a str,
        fields: &'a [Field<'a>],
        length: usize,
        is_latest: bool,
    ) -> Result<Self, HeadError> {
        let (mut seen, mut hosts, mut expects_continue) = (Seen::default(), 0, false);
        for field in fields {
            match field.name.len() {
                4 if field.name.eq_ignore_ascii_case("host") => hosts += 1,
                6 if field.name.eq_ignore_ascii_case("expect") => {
                    if !field.value.eq_ignore_ascii_case(b"100-continue") {
                        return Err(HeadError::Expectation);
                    }
                    expects_continue = is_latest;
                }
                _ => seen.field(field, is_latest)?,
            }
        }
        let framing = seen.framing()?.unwrap_or(Framing::Length(0));
        let keeps_alive = is_latest && !seen.closes;
        if hosts > 1 || (hosts == 0 && is_latest) {
            return Err(HeadError::Host);
        }
        Ok(Self { method, target, fields, length, framing, keeps_alive, expects_continue })
    }

    /// The value of a field, if it is there and is text; of several the first.
    #[must_use]
    pub fn text(&self, name: &str) -> Option<&'a str> {
        field(self.fields, name).and_then(|value| std::str::from_utf8(value).ok())
    }
}

/// Reads the method, the target and the fields of a head that is complete; `None` if it is malformed. Framing and host are not
/// looked at, since what it is the head of has neither: a request in a batch.
pub fn request_line_and_fields<'a, 'f>(
    head: &'a [u8],
    fields: &'f mut [Field<'a>; FIELDS_MAX],
) -> Option<(&'a str, &'a str, &'f [Field<'a>])> {
    let mut request = httparse::Request::new(fields);
    match request.parse(head) {
        Ok(httparse::Status::Complete(_)) => Some((request.method?, request.path?, request.headers)),
        Ok(httparse::Status::Partial) | Err(_) => None,
    }
}

/// The value of a field; of several the first.
#[must_use]
pub fn field<'a>(fields: &[Field<'a>], name: &str) -> Option<&'a [u8]> {
    fields.iter().find(|field| field.name.eq_ignore_ascii_case(name)).map(|field| field.value)
}

impl From<Unclear> for HeadError {
    fn from(unclear: Unclear) -> Self {
        match unclear {
            Unclear::Length => Self::Length,
            Unclear::TwoFramings => Self::TwoFramings,
            Unclear::TransferEncoding => Self::TransferEncoding,
        }
    }
}

/// Fields that a request may have.
pub const FIELDS_MAX: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    fn with<R>(input: &str, look: impl FnOnce(Result<Option<Head<'_>>, HeadError>) -> R) -> R {
        let mut fields = [EMPTY_FIELD; FIELDS_MAX];
        look(Head::parse(input.as_bytes(), &mut fields))
    }

    #[test]
    fn a_head_is_read_once_it_is_complete_and_not_before() {
        let text = "POST /hub/messages?timeout=60 HTTP/1.1\r\nHost: here\r\nContent-Length: 4\r\n\r\nbody";
        for end in 0..text.len() - 4 {
            with(&text[..end], |head| assert!(matches!(head, Ok(None)), "{end}: {head:?}"));
        }
        with(text, |head| {
            let head = head.unwrap().unwrap();
            assert_eq!((head.method, head.target), ("POST", "/hub/messages?timeout=60"));
            assert_eq!((head.length, head.framing), (text.len() - 4, Framing::Length(4)));
            assert!(head.keeps_alive && !head.expects_continue);
            assert_eq!(head.text("content-LENGTH"), Some("4"));
        });
    }

    #[test]
    fn what_can_be_read_in_two_ways_is_refused() {
        let start = "POST / HTTP/1.1\r\nHost: h\r\n";
        for (rest, expected) in [
            ("Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n", HeadError::TwoFramings),
            ("Content-Length: 4\r\nContent-Length: 4\r\n\r\n", HeadError::Length),
            ("Content-Length: 4, 4\r\n\r\n", HeadError::Length),
            ("Content-Length: +4\r\n\r\n", HeadError::Length),
            ("Content-Length: 0x4\r\n\r\n", HeadError::Length),
            ("Content-Length:\r\n\r\n", HeadError::Length),
            ("Content-Length: 1000000000000000000\r\n\r\n", HeadError::Length),
            ("Transfer-Encoding: gzip, chunked\r\n\r\n", HeadError::TransferEncoding),
            ("Transfer-Encoding: xchunked\r\n\r\n", HeadError::TransferEncoding),
            ("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n", HeadError::TransferEncoding),
            ("Host: other\r\n\r\n", HeadError::Host),
            ("Expect: miracles\r\n\r\n", HeadError::Expectation),
            ("A: b\n\r\n", HeadError::LineEnd),
        ] {
            with(&format!("{start}{rest}"), |head| assert_eq!(head.unwrap_err(), expected, "{rest:?}"));
        }
        with("POST / HTTP/1.1\r\n\r\n", |head| assert_eq!(head.unwrap_err(), HeadError::Host));
        let old = "POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n";
        with(old, |head| assert_eq!(head.unwrap_err(), HeadError::TransferEncoding));
        for malformed in [" folded\r\n\r\n", "A : b\r\n\r\n", "A\r\n\r\n", ": b\r\n\r\n", "A: \0\r\n\r\n"] {
            with(&format!("{start}A: b\r\n{malformed}"), |head| {
                assert!(matches!(head, Err(HeadError::Malformed(_))), "{malformed:?}: {head:?}");
            });
        }
        let many = "A: b\r\n".repeat(FIELDS_MAX);
        with(&format!("{start}{many}\r\n"), |head| {
            assert_eq!(head.unwrap_err().status(), 431);
        });
    }

    #[test]
    fn older_clients_and_those_that_say_so_get_one_answer_for_each_connection() {
        for (text, keeps_alive) in [
            ("GET / HTTP/1.0\r\n\r\n", false),
            ("GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", false),
            ("GET / HTTP/1.1\r\nHost: h\r\nConnection: Keep-Alive, Close\r\n\r\n", false),
            ("GET / HTTP/1.1\r\nHost: h\r\nConnection: keep-alive\r\n\r\n", true),
        ] {
            with(text, |head| assert_eq!(head.unwrap().unwrap().keeps_alive, keeps_alive, "{text:?}"));
        }
    }
}
