//! What a client gets.

use std::borrow::Cow;
use std::cell::Cell;
use std::time::{SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use hyper::StatusCode;
use units::date::http_date;

/// A reply.
#[derive(Debug, Default)]
pub(super) struct Reply {
    pub(super) status: u16,
    /// What HTTP/1.1 has behind the status, in place of its usual name.
    pub(super) reason: Option<String>,
    pub(super) content_type: Option<Cow<'static, str>>,
    /// Names and values of further fields. Whoever puts something here sees to it that these are a name and a value.
    pub(super) fields: Vec<(Cow<'static, str>, String)>,
    pub(super) body: Bytes,
}

impl Reply {
    /// A reply without a body.
    pub(super) const fn empty(status: u16) -> Self {
        Self { status, reason: None, content_type: None, fields: Vec::new(), body: Bytes::new() }
    }

    /// What was sent is stored.
    #[inline]
    pub(super) fn created() -> Self {
        Self { content_type: Some(Cow::Borrowed(XML)), ..Self::empty(201) }
    }

    /// Appends it as HTTP/1.1 has it; without its body for a request that wants none.
    pub(super) fn write(&self, out: &mut Vec<u8>, keeps_alive: bool, has_body: bool) {
        match self.status {
            201 => out.extend_from_slice(b"HTTP/1.1 201 Created\r\n"),
            status => {
                let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
                out.extend_from_slice(format!("HTTP/1.1 {} ", status.as_u16()).as_bytes());
                match &self.reason {
                    Some(reason) => out.extend(line(reason)),
                    None => out.extend_from_slice(status.canonical_reason().unwrap_or("Unknown").as_bytes()),
                }
                out.extend_from_slice(b"\r\n");
            }
        }
        if self.status != 204 {
            field(out, "Content-Length", decimal(self.body.len(), &mut [0; 20]));
        }
        if let Some(content_type) = &self.content_type {
            field(out, "Content-Type", content_type);
        }
        for (name, value) in &self.fields {
            field(out, name, value);
        }
        if !keeps_alive {
            field(out, "Connection", "close");
        }
        out.extend_from_slice(b"Server: Parshall\r\nDate: ");
        out.extend_from_slice(&date());
        out.extend_from_slice(b"\r\n\r\n");
        if has_body {
            out.extend_from_slice(&self.body);
        }
    }
}

/// A reason as the line of the status can have it: it may have a client's own words, and must not end the line.
pub(super) fn line(reason: &str) -> Vec<u8> {
    reason.bytes().map(|byte| if matches!(byte, b' '..=b'~') { byte } else { b'?' }).collect()
}

fn field(out: &mut Vec<u8>, name: &str, value: &str) {
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(b": ");
    out.extend_from_slice(value.as_bytes());
    out.extend_from_slice(b"\r\n");
}

fn decimal(mut number: usize, digits: &mut [u8; 20]) -> &str {
    let mut start = digits.len();
    loop {
        start -= 1;
        digits[start] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            break;
        }
    }
    std::str::from_utf8(&digits[start..]).unwrap_or_default()
}

/// The present second, as a header field has it; written once for each second and thread.
fn date() -> [u8; 29] {
    thread_local! {
        static WRITTEN: Cell<(u64, [u8; 29])> = const { Cell::new((u64::MAX, [b' '; 29])) };
    }
    let now = SystemTime::now();
    let second = now.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let (written, text) = WRITTEN.get();
    if written == second {
        return text;
    }
    let mut text = [b' '; 29];
    for (place, byte) in text.iter_mut().zip(http_date(now).bytes()) {
        *place = byte;
    }
    WRITTEN.set((second, text));
    text
}

/// A document of Atom, which is an `entry` or a `feed`.
pub(super) fn atom(kind: &str, status: u16, document: String) -> Reply {
    let content_type = format!("application/atom+xml;type={kind};charset=utf-8");
    Reply { content_type: Some(content_type.into()), body: Bytes::from(document), ..Reply::empty(status) }
}

pub(super) const XML: &str = "application/xml; charset=utf-8";

#[cfg(test)]
mod tests {
    use super::*;

    fn written(reply: &Reply, keeps_alive: bool, has_body: bool) -> String {
        let mut out = Vec::new();
        reply.write(&mut out, keeps_alive, has_body);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn replies_have_their_lengths_and_say_whether_the_connection_stays() {
        let created = written(&Reply::created(), true, true);
        assert!(
            created.starts_with("HTTP/1.1 201 Created\r\nContent-Length: 0\r\nContent-Type: application/xml")
        );
        assert!(created.ends_with("GMT\r\n\r\n") && !created.contains("Connection"));
        let reply = Reply { body: Bytes::from_static(b"twelve bytes"), ..Reply::empty(404) };
        let closing = written(&reply, false, true);
        assert!(closing.starts_with("HTTP/1.1 404 Not Found\r\nContent-Length: 12\r\nConnection: close\r\n"));
        assert!(closing.ends_with("\r\n\r\ntwelve bytes"));
        assert!(written(&reply, true, false).ends_with("\r\n\r\n"));
        let told = Reply { reason: Some("No\r\n\u{e9}".to_owned()), ..Reply::empty(401) };
        assert!(written(&told, true, true).starts_with("HTTP/1.1 401 No????\r\nContent-Length: 0\r\n"));
        let nothing = written(&Reply::empty(204), true, true);
        assert!(!nothing.contains("Content-Length"));
    }
}
