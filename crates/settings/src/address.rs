//! An address to listen on, with advice for what people write instead.

use std::fmt;
use std::net::SocketAddr;

use serde::de::{self, Visitor};
use serde::{Deserialize, Deserializer};

/// Reads `ADDRESS:PORT`.
///
/// # Errors
/// It is something else; the text says what to write, if that can be told.
pub fn parse(text: &str) -> Result<SocketAddr, String> {
    if let Ok(address) = text.parse() {
        return Ok(address);
    }
    let is_port = |text: &str| text.parse::<u16>().is_ok();
    let meant = match text.rsplit_once(':') {
        _ if is_port(text) => Some(("it has no address", format!("127.0.0.1:{text}"))),
        Some(("", port)) if is_port(port) => Some(("it has no address", format!("127.0.0.1:{port}"))),
        Some(("localhost", port)) if is_port(port) => {
            Some(("names are not looked up", format!("127.0.0.1:{port}")))
        }
        Some(("*", port)) if is_port(port) => Some(("it has no address", format!("0.0.0.0:{port}"))),
        _ if text.parse::<std::net::IpAddr>().is_ok() => {
            let bracketed = if text.contains(':') { format!("[{text}]") } else { text.to_owned() };
            Some(("it has no port", format!("{bracketed}:0")))
        }
        _ => None,
    };
    Err(match meant {
        Some((reason, example)) => format!("{reason}; write {example}"),
        None => "it must be an IP address and a port, such as 127.0.0.1:5672 or [::1]:5672".to_owned(),
    })
}

/// The same in a file, where a bare port is a number.
///
/// # Errors
/// As those of [`parse`].
pub fn deserialize_optional<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<SocketAddr>, D::Error> {
    Ok(Option::<Written>::deserialize(deserializer)?.map(|Written(address)| address))
}

/// An address as a file has it.
struct Written(SocketAddr);

impl<'de> Deserialize<'de> for Written {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(WrittenVisitor).map(Self)
    }
}

struct WrittenVisitor;

impl Visitor<'_> for WrittenVisitor {
    type Value = SocketAddr;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an IP address and a port, such as 127.0.0.1:9464")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<SocketAddr, E> {
        parse(text).map_err(E::custom)
    }

    fn visit_u64<E: de::Error>(self, port: u64) -> Result<SocketAddr, E> {
        self.visit_str(&port.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_people_write_instead_of_an_address_is_corrected() {
        for (text, expected) in [
            ("5672", "it has no address; write 127.0.0.1:5672"),
            (":5672", "it has no address; write 127.0.0.1:5672"),
            ("*:5672", "it has no address; write 0.0.0.0:5672"),
            ("localhost:5672", "names are not looked up; write 127.0.0.1:5672"),
            ("127.0.0.1", "it has no port; write 127.0.0.1:0"),
            ("::1", "it has no port; write [::1]:0"),
            ("", "it must be an IP address and a port, such as 127.0.0.1:5672 or [::1]:5672"),
            ("127.0.0.1:70000", "it must be an IP address and a port, such as 127.0.0.1:5672 or [::1]:5672"),
            (
                "http://127.0.0.1:80",
                "it must be an IP address and a port, such as 127.0.0.1:5672 or [::1]:5672",
            ),
        ] {
            assert_eq!(parse(text), Err(expected.to_owned()), "{text}");
        }
        assert_eq!(parse("[::1]:0").unwrap().port(), 0);
    }
}
