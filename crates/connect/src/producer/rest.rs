//! Events as the REST interface takes them.
//!
//! ```text
//!   alone    |length|Content-Type: …⏎BrokerProperties: {…}⏎name: value⏎|body|        headers of the request, and its body
//!   batch    {"Body":"…","BrokerProperties":{…},"UserProperties":{…}}     one of an array
//! ```

use std::fmt::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::{HeaderName, HeaderValue};

use super::event::{NewEvent, PropertyValue};
use super::failure::SendFailure;
use crate::http::EVENT_TYPE;
use convert::text::put_text;

/// Appends an event that is sent alone.
///
/// # Errors
/// When a property can't be a header.
pub(super) fn encode_alone(event: &NewEvent<'_>, out: &mut Vec<u8>) -> Result<(), SendFailure> {
    let mut head = String::new();
    let mut header = |name: &str, value: &str| {
        let is_header =
            HeaderName::from_bytes(name.as_bytes()).is_ok() && HeaderValue::from_str(value).is_ok();
        if !is_header {
            return Err(no_header(name));
        }
        // A string takes everything.
        let _ = write!(head, "{name}: {value}\r\n");
        Ok(())
    };
    header("Content-Type", event.content_type.unwrap_or(EVENT_TYPE))?;
    for (name, value) in event.properties {
        if RESERVED.iter().any(|reserved| name.eq_ignore_ascii_case(reserved)) {
            return Err(no_header(name));
        }
        match value {
            PropertyValue::Text(text) if needs_quotes(text) => header(name, &format!("\"{text}\""))?,
            value => header(name, &value.to_string())?,
        }
    }
    if let Some(properties) = broker_properties(event) {
        // Other characters than those of ASCII are escaped, as headers ask for.
        let _ = write!(head, "BrokerProperties: {}\r\n", ascii(&properties));
    }
    out.extend_from_slice(&(head.len() as u32).to_be_bytes());
    out.extend_from_slice(head.as_bytes());
    out.extend_from_slice(event.body);
    Ok(())
}

fn no_header(name: &str) -> SendFailure {
    SendFailure::invalid(format!("the property `{name}` can't be a header of HTTP: send it in a batch"))
}

/// The headers, as lines, and the body of what [`encode_alone`] has appended.
pub(super) fn alone(encoded: &[u8]) -> (&[u8], &[u8]) {
    let (length, rest) = encoded.split_first_chunk::<4>().unwrap_or((&[0; 4], &[]));
    rest.split_at_checked(u32::from_be_bytes(*length) as usize).unwrap_or((&[], rest))
}

/// Appends an event of a batch.
pub(super) fn encode_in_batch(event: &NewEvent<'_>, out: &mut Vec<u8>) {
    match str::from_utf8(event.body) {
        Ok(text) => {
            out.extend_from_slice(b"{\"Body\":");
            put_text(out, text);
        }
        Err(_) => {
            out.extend_from_slice(b"{\"IsBodyBase64\":true,\"Body\":\"");
            out.extend_from_slice(STANDARD.encode(event.body).as_bytes());
            out.push(b'"');
        }
    }
    let broker = broker_properties(event);
    if let Some(properties) = &broker {
        out.extend_from_slice(b",\"BrokerProperties\":");
        out.extend_from_slice(properties.as_bytes());
    }
    let content_type = event.content_type.map(|text| ("Content-Type", PropertyValue::Text(text)));
    let mut properties = content_type.into_iter().chain(event.properties.iter().copied()).peekable();
    if properties.peek().is_some() {
        let mut separator: &[u8] = b",\"UserProperties\":{";
        for (name, value) in properties {
            out.extend_from_slice(separator);
            separator = b",";
            put_text(out, name);
            out.push(b':');
            match value {
                PropertyValue::Text(text) => put_text(out, text),
                // JSON has no infinity and no NaN.
                PropertyValue::Float(number) if !number.is_finite() => put_text(out, &number.to_string()),
                other => out.extend_from_slice(other.to_string().as_bytes()),
            }
        }
        out.push(b'}');
    }
    out.push(b'}');
}

/// What the service itself is to know of an event, as a JSON object.
fn broker_properties(event: &NewEvent<'_>) -> Option<String> {
    let members = [
        ("PartitionKey", event.key),
        ("MessageId", event.message_id),
        ("CorrelationId", event.correlation_id),
        ("Label", event.subject),
        ("SessionId", event.session),
    ];
    let mut text = Vec::new();
    for (name, value) in members {
        let Some(value) = value else { continue };
        text.push(if text.is_empty() { b'{' } else { b',' });
        put_text(&mut text, name);
        text.push(b':');
        put_text(&mut text, value);
    }
    if text.is_empty() {
        return None;
    }
    text.push(b'}');
    String::from_utf8(text).ok()
}

/// The same JSON in ASCII.
fn ascii(json: &str) -> String {
    let mut ascii = String::with_capacity(json.len());
    let mut units = [0; 2];
    for character in json.chars() {
        if character.is_ascii() {
            ascii.push(character);
            continue;
        }
        for unit in character.encode_utf16(&mut units) {
            let _ = write!(ascii, "\\u{unit:04x}");
        }
    }
    ascii
}

/// Whether the service would take a text for something else.
fn needs_quotes(text: &str) -> bool {
    text.is_empty()
        || text.starts_with('"')
        || text.parse::<f64>().is_ok()
        || text.eq_ignore_ascii_case("true")
        || text.eq_ignore_ascii_case("false")
}

/// Headers that the request has for itself.
const RESERVED: [&str; 13] = [
    "authorization",
    "brokerproperties",
    "connection",
    "content-encoding",
    "content-length",
    "content-type",
    "date",
    "expect",
    "host",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

#[cfg(test)]
mod tests {
    use super::*;

    const EVENT: NewEvent<'static> = NewEvent {
        body: b"a \"body\"\n\x01",
        key: Some("k\u{e9}"),
        partition: None,
        message_id: Some("id"),
        correlation_id: None,
        content_type: Some("text/plain"),
        subject: None,
        session: None,
        properties: &[
            ("text", PropertyValue::Text("words")),
            ("looks-like-a-number", PropertyValue::Text("7")),
            ("number", PropertyValue::Integer(7)),
            ("is", PropertyValue::Boolean(true)),
        ],
        encoded: None,
    };

    #[test]
    fn an_event_alone_is_headers_and_a_body() {
        let mut encoded = Vec::new();
        encode_alone(&EVENT, &mut encoded).unwrap();
        let (headers, body) = alone(&encoded);
        let expected = "Content-Type: text/plain\r\ntext: words\r\nlooks-like-a-number: \"7\"\r\nnumber: 7\r\nis: true\r\n\
             BrokerProperties: {\"PartitionKey\":\"k\\u00e9\",\"MessageId\":\"id\"}\r\n";
        assert_eq!(str::from_utf8(headers).unwrap(), expected);
        assert_eq!(body, EVENT.body);
        for name in ["Host", "content-TYPE", "a b", "line\nbreak"] {
            let properties = [(name, PropertyValue::Text("x"))];
            let event = NewEvent { properties: &properties, ..NewEvent::default() };
            assert!(encode_alone(&event, &mut Vec::new()).is_err(), "{name}");
        }
    }

    #[test]
    fn an_event_of_a_batch_is_an_object() {
        let mut encoded = Vec::new();
        encode_in_batch(&EVENT, &mut encoded);
        let expected = "{\"Body\":\"a \\\"body\\\"\\n\\u0001\",\
             \"BrokerProperties\":{\"PartitionKey\":\"k\u{e9}\",\"MessageId\":\"id\"},\
             \"UserProperties\":{\"Content-Type\":\"text/plain\",\"text\":\"words\",\"looks-like-a-number\":\"7\",\
             \"number\":7,\"is\":true}}";
        assert_eq!(String::from_utf8(encoded).unwrap(), expected);
        let mut encoded = Vec::new();
        encode_in_batch(&NewEvent::new(b"\xff"), &mut encoded);
        assert_eq!(encoded, b"{\"IsBodyBase64\":true,\"Body\":\"/w==\"}");
    }
}
