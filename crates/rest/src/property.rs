//! Properties without a meaning, as header fields and in JSON.
//!
//! A header field is text, so its type is guessed, as the service does it: a number, `true` or `false`; anything else is a string.
//! A text in double quotes is one whatever it looks like, and comes without them. In JSON a value has its type.

use std::borrow::Cow;
use std::fmt;
use std::time::{Duration, UNIX_EPOCH};

use amqp::codec::{Value, write};
use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, Visitor};

/// Whether a header field is a property of the message: any that HTTP, proxies and the service have no use for.
#[must_use]
pub fn is_custom(name: &str) -> bool {
    !known(name.len()).iter().any(|known| known.eq_ignore_ascii_case(name))
        && !PREFIXES.iter().any(|prefix| has_prefix(name, prefix))
}

fn has_prefix(name: &str, prefix: &str) -> bool {
    name.get(..prefix.len()).is_some_and(|start| start.eq_ignore_ascii_case(prefix))
}

/// The text of a header field. What is no UTF-8 is Latin-1, as HTTP once had it.
#[must_use]
pub fn text(value: &[u8]) -> Cow<'_, str> {
    match std::str::from_utf8(value) {
        Ok(text) => Cow::Borrowed(text),
        Err(_) => value.iter().map(|byte| char::from(*byte)).collect(),
    }
}

/// Appends the value that a text is taken for.
pub fn write_guessed(out: &mut Vec<u8>, text: &str) {
    if let Some(quoted) = text.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')) {
        return write::string(out, quoted);
    }
    match text.as_bytes().first() {
        Some(b'0'..=b'9' | b'-' | b'+' | b'.') => write_number(out, text),
        Some(b't' | b'T') if text.eq_ignore_ascii_case("true") => write::boolean(out, true),
        Some(b'f' | b'F') if text.eq_ignore_ascii_case("false") => write::boolean(out, false),
        _ => write::string(out, text),
    }
}

fn write_number(out: &mut Vec<u8>, text: &str) {
    if let Ok(number) = text.parse() {
        return write::int(out, number);
    }
    if let Ok(number) = text.parse() {
        return write::long(out, number);
    }
    // What is read as infinite was a number for nobody.
    match text.parse().ok().filter(|number: &f64| number.is_finite()) {
        Some(number) => write::value(out, &Value::Double(number)),
        None => write::string(out, text),
    }
}

/// A property as a header field: strings and times in double quotes, numbers as they are. `None` for what a header field can't have:
/// other types, and texts with line breaks or characters beyond ASCII.
#[must_use]
pub fn field_text(value: &Value) -> Option<String> {
    let text = match value {
        Value::String(text) => format!("\"{text}\""),
        Value::Symbol(text) => format!("\"{}\"", text.as_str()),
        Value::Uuid(bytes) => format!("\"{}\"", crate::target::uuid_text(*bytes)),
        Value::Timestamp(milliseconds) => format!("\"{}\"", http_date(*milliseconds)),
        Value::Boolean(flag) => flag.to_string(),
        Value::Float(number) => number.to_string(),
        Value::Double(number) => number.to_string(),
        Value::Char(code) => format!("\"{}\"", char::from_u32(*code)?),
        Value::Ulong(number) => number.to_string(),
        other => other.as_integer()?.to_string(),
    };
    is_field_value(&text).then_some(text)
}

/// Whether a text can be the value of a header field.
#[must_use]
pub fn is_field_value(text: &str) -> bool {
    text.bytes().all(|byte| matches!(byte, b' '..=b'~' | b'\t'))
}

/// Whether a text can be the name of a header field.
#[must_use]
pub fn is_field_name(text: &str) -> bool {
    let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    !text.is_empty() && text.bytes().all(is_token)
}

/// An instant, in milliseconds since 1970, as HTTP writes it; without a fraction of a second.
#[must_use]
pub fn http_date(milliseconds: i64) -> String {
    let since = Duration::from_millis(u64::try_from(milliseconds).unwrap_or(0));
    // What no clock can say is the latest instant that can be written.
    units::date::http_date(UNIX_EPOCH + since.min(CENTURIES))
}

/// Reads an object of JSON and appends its members as entries of a map of AMQP; their count comes back.
pub(crate) struct Members<'o>(pub(crate) &'o mut Vec<u8>);

impl<'de> DeserializeSeed<'de> for Members<'_> {
    type Value = u32;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<u32, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Members<'_> {
    type Value = u32;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object with the properties")
    }

    fn visit_unit<E: Error>(self) -> Result<u32, E> {
        Ok(0)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<u32, A::Error> {
        let mut count = 0;
        while map.next_key_seed(Name(&mut *self.0))?.is_some() {
            map.next_value_seed(Scalar(&mut *self.0))?;
            count += 1;
            if count > MEMBERS_MAX {
                return Err(A::Error::custom(format_args!("a message has at most {MEMBERS_MAX} properties")));
            }
        }
        Ok(count)
    }
}

/// The name of a property.
struct Name<'o>(&'o mut Vec<u8>);

impl<'de> DeserializeSeed<'de> for Name<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for Name<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the name of a property")
    }

    fn visit_str<E: Error>(self, name: &str) -> Result<(), E> {
        write::string(self.0, name);
        Ok(())
    }
}

/// Its value.
struct Scalar<'o>(&'o mut Vec<u8>);

impl<'de> DeserializeSeed<'de> for Scalar<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl Visitor<'_> for Scalar<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string, a number, true, false or null")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<(), E> {
        write::string(self.0, text);
        Ok(())
    }

    fn visit_bool<E: Error>(self, flag: bool) -> Result<(), E> {
        write::boolean(self.0, flag);
        Ok(())
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<(), E> {
        write::long(self.0, number);
        Ok(())
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<(), E> {
        match i64::try_from(number) {
            Ok(number) => write::long(self.0, number),
            Err(_) => write::ulong(self.0, number),
        }
        Ok(())
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<(), E> {
        write::value(self.0, &Value::Double(number));
        Ok(())
    }

    fn visit_unit<E: Error>(self) -> Result<(), E> {
        write::null(self.0);
        Ok(())
    }
}

/// Header fields that are no properties, by the lengths of their names: this is asked for every field of every event.
const fn known(length: usize) -> &'static [&'static str] {
    match length {
        2 => &["te"],
        3 => &["dnt", "via"],
        4 => &["date", "from", "host"],
        5 => &["range"],
        6 => &["accept", "cookie", "expect", "origin", "pragma", "server"],
        7 => &["expires", "referer", "trailer", "upgrade", "warning"],
        8 => &["if-match", "if-range"],
        9 => &["forwarded"],
        10 => &["connection", "keep-alive", "user-agent"],
        11 => &["content-md5"],
        12 => &["content-type", "max-forwards", "x-ms-version"],
        13 => &["authorization", "cache-control", "content-range", "if-none-match", "last-modified"],
        14 => &["accept-charset", "content-length", "http2-settings"],
        15 => &["accept-encoding", "accept-language", "x-forwarded-for"],
        16 => &[
            "brokerproperties",
            "content-encoding",
            "content-language",
            "content-location",
            "proxy-connection",
            "x-ms-retrypolicy",
        ],
        17 => &["if-modified-since", "transfer-encoding"],
        18 => &["proxy-authenticate"],
        19 => &["content-disposition", "if-unmodified-since", "proxy-authorization"],
        23 => &["servicebusauthorization"],
        25 => &["upgrade-insecure-requests"],
        _ => &[],
    }
}

/// What browsers add.
const PREFIXES: [&str; 2] = ["sec-", "access-control-"];

/// Properties that a message of a batch may have.
const MEMBERS_MAX: u32 = 1024;

/// Beyond the year 9999, and within what a clock can say.
const CENTURIES: Duration = Duration::from_secs(300_000_000_000);

#[cfg(test)]
mod tests {
    use amqp::codec::Reader;

    use super::*;

    fn guessed(text: &str) -> Value {
        let mut out = Vec::new();
        write_guessed(&mut out, text);
        Reader::new(&out).value().unwrap()
    }

    #[test]
    fn types_are_guessed_from_texts() {
        for (text, expected) in [
            ("5", Value::Int(5)),
            ("-5", Value::Int(-5)),
            ("2147483648", Value::Long(2_147_483_648)),
            ("9223372036854775808", Value::Double(9_223_372_036_854_775_808.0)),
            ("1.5", Value::Double(1.5)),
            ("True", Value::Boolean(true)),
            ("false", Value::Boolean(false)),
            ("\"5\"", Value::from("5")),
            ("\"", Value::from("\"")),
            ("", Value::from("")),
            ("inf", Value::from("inf")),
            ("1e999", Value::from("1e999")),
            ("-", Value::from("-")),
            ("10 o'clock", Value::from("10 o'clock")),
        ] {
            assert_eq!(guessed(text), expected, "{text:?}");
        }
    }

    #[test]
    fn a_property_comes_back_as_a_field_of_its_type() {
        for (value, expected) in [
            (Value::from("text"), Some("\"text\"")),
            (Value::Int(5), Some("5")),
            (Value::Ulong(u64::MAX), Some("18446744073709551615")),
            (Value::Double(1.5), Some("1.5")),
            (Value::Boolean(true), Some("true")),
            (Value::Timestamp(1_404_940_800_999), Some("\"Wed, 09 Jul 2014 21:20:00 GMT\"")),
            (Value::Timestamp(i64::MAX), Some("\"Fri, 31 Dec 9999 23:59:59 GMT\"")),
            (Value::from("é"), None),
            (Value::from("a\r\nb"), None),
            (Value::Binary(vec![1]), None),
            (Value::Null, None),
        ] {
            assert_eq!(field_text(&value).as_deref(), expected, "{value:?}");
        }
    }

    #[test]
    fn what_http_and_the_service_use_is_no_property() {
        for name in ["Host", "CONTENT-TYPE", "sec-fetch-mode", "BrokerProperties", "X-Forwarded-For"] {
            assert!(!is_custom(name), "{name}");
        }
        assert!((0..64).all(|length| known(length).iter().all(|name| name.len() == length)));
        for name in ["Priority", "traceparent", "X-Own", "hosts"] {
            assert!(is_custom(name), "{name}");
        }
        assert_eq!(text(b"caf\xe9"), "caf\u{e9}");
    }
}
