//! What the other end of a connection seems to speak, by the first bytes that it sends.

use std::fmt;

/// A protocol whose first bytes are known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Spoken {
    /// A record of TLS: a hello, or the alert that answers what is none.
    Tls,
    /// A protocol header of AMQP.
    Amqp,
    /// A request or response of HTTP, with which a WebSocket begins, too.
    Http,
    /// A frame of Kafka.
    Kafka,
}

impl Spoken {
    /// The protocol that begins with these bytes. One byte is enough; with four the answer no longer changes.
    #[must_use]
    pub fn of(first: &[u8]) -> Option<Self> {
        let first = &first[..first.len().min(4)];
        match first {
            [] => None,
            // Alert or handshake, and the major version that all of TLS has.
            [0x15 | 0x16] | [0x15 | 0x16, 3, ..] => Some(Self::Tls),
            _ if b"AMQP".starts_with(first) => Some(Self::Amqp),
            // Methods are capital letters and end with a space; a response begins with its version.
            [b'A'..=b'Z', rest @ ..] if rest.iter().all(|byte| matches!(byte, b'A'..=b'Z' | b' ')) => {
                Some(Self::Http)
            }
            // The size of a first request, which is below 64 KiB.
            [0] | [0, 0, ..] => Some(Self::Kafka),
            _ => None,
        }
    }
}

impl fmt::Display for Spoken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Tls => "TLS",
            Self::Amqp => "AMQP",
            Self::Http => "HTTP",
            Self::Kafka => "Kafka",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_bytes_tell_the_protocol() {
        for (first, expected) in [
            (&b"\x16\x03\x01\x02\x00"[..], Some(Spoken::Tls)),
            (b"\x15\x03\x03\x00", Some(Spoken::Tls)),
            (b"\x16", Some(Spoken::Tls)),
            (b"\x16\x04", None),
            (b"AMQP\x00\x01\x00\x00", Some(Spoken::Amqp)),
            (b"A", Some(Spoken::Amqp)),
            (b"GET / HTTP/1.1", Some(Spoken::Http)),
            (b"HTTP/1.1 400", Some(Spoken::Http)),
            (b"DELETE /", Some(Spoken::Http)),
            (b"\x00", Some(Spoken::Kafka)),
            (b"\x00\x00\x00\x2a\x00\x12\x00\x03", Some(Spoken::Kafka)),
            (b"\x00\x01", None),
            (b"", None),
            (b"hello", None),
        ] {
            assert_eq!(Spoken::of(first), expected, "{first:?}");
        }
    }
}
