//! Many requests in the body of one, as `multipart/mixed`: blobs are deleted, or moved to another tier.
//!
//! ```text
//! --batch_1
//! Content-Type: application/http
//! Content-ID: 0
//!
//! DELETE /account/container/blob HTTP/1.1
//! Authorization: SharedKey …
//!
//! --batch_1--
//! ```
//!
//! Each part is a request of its own, with its own proof; the outcome of one does not affect the others. The answer has a part for
//! each, in the same order.

use ::rest::head::{EMPTY_FIELD, FIELDS_MAX, Field};
use hyper::header::{HOST, HeaderValue};
use hyper::http::request::Parts;
use hyper::{Response, StatusCode};
use listen::http::RequestBody;
use units::ByteSize;

use super::BlobFront;
use super::authorize::Granted;
use super::body::ReplyBody;
use super::http_error::HttpError;
use super::operation::Operation;
use super::reply::{self, Reply};
use super::request::Request;
use super::unserved;
use blob_store::Now;

/// A part of a batch.
#[derive(Debug, PartialEq, Eq)]
struct Part<'a> {
    /// By which the client knows it.
    content_id: Option<&'a str>,
    /// The head of its request.
    head: &'a [u8],
}

impl BlobFront {
    /// Carries out a batch: of the whole account, or of one `container`.
    pub(super) async fn batch(
        &self,
        request: &Request,
        body: RequestBody,
        now: Now,
        container: Option<&str>,
    ) -> Result<Reply, HttpError> {
        let content_type = request.header("content-type");
        let content_type = content_type.ok_or(HttpError::MissingHeader { name: "content-type" })?;
        let boundary = boundary(content_type).ok_or_else(|| HttpError::header("content-type"))?;
        if let Some(name) = container {
            self.store.container(name)?;
        }
        let arrived = self.bodies.collect(body, BATCH_BYTES, None).await?;
        let parts = parts(&arrived.bytes, boundary)?;
        let request_id = reply::next_request_id();
        let mut answer = Vec::new();
        for (number, part) in parts.iter().enumerate() {
            let id = format!("{request_id}-{number}");
            let reply = match self.carry_out_part(request, part, now, container).await {
                Ok(reply) => reply,
                Err(error) => reply::refused(&error, &id, &self.challenge, true),
            };
            write_part(&mut answer, &request_id, part.content_id, reply, &id);
        }
        answer.extend_from_slice(format!("--batchresponse_{request_id}--\r\n").as_bytes());
        let mut reply = Response::new(ReplyBody::from(answer));
        *reply.status_mut() = StatusCode::ACCEPTED;
        let content_type = format!("multipart/mixed; boundary=batchresponse_{request_id}");
        reply::set(reply.headers_mut(), "content-type", &content_type);
        Ok(reply)
    }

    async fn carry_out_part(
        &self,
        request: &Request,
        part: &Part<'_>,
        now: Now,
        container: Option<&str>,
    ) -> Result<Reply, HttpError> {
        let mut head = head_of(part.head)?;
        // The host may name the account, and clients send it with the batch alone.
        if let Some(host) = request.host().and_then(|host| HeaderValue::from_str(host).ok()) {
            head.headers.entry(HOST).or_insert(host);
        }
        let part = Request::new(head, request.peer)?;
        let identity = self.identity.as_deref();
        let granted = &Granted::to(
            &part,
            &self.store,
            &self.key,
            (identity, &self.delegations),
            (self.policy, &self.clock),
        )?;
        if container.is_some_and(|name| part.target.container.as_deref() != Some(name)) {
            return Err(HttpError::Batch("a request is about another container"));
        }
        let operation = Operation::of(&part)?;
        unserved::check(operation, &part)?;
        match operation {
            Operation::Delete => self.delete(&part, granted, now).await,
            Operation::SetTier => self.set_tier(&part, granted, now).await,
            _ => Err(HttpError::Batch("only blobs can be deleted in one, and set to another tier")),
        }
    }
}

/// The boundary in the value of `Content-Type`.
fn boundary(content_type: &str) -> Option<&str> {
    let (kind, parameters) = content_type.split_once(';')?;
    if !kind.trim().eq_ignore_ascii_case("multipart/mixed") {
        return None;
    }
    let boundary = parameters.split(';').find_map(|parameter| {
        let (name, value) = parameter.split_once('=')?;
        name.trim().eq_ignore_ascii_case("boundary").then(|| value.trim().trim_matches('"'))
    })?;
    (1..=BOUNDARY_MAX).contains(&boundary.len()).then_some(boundary)
}

/// The parts of a batch.
fn parts<'a>(body: &'a [u8], boundary: &str) -> Result<Vec<Part<'a>>, HttpError> {
    let delimiter = format!("--{boundary}");
    let mut parts = Vec::new();
    let mut rest = body;
    let mut start = None;
    let mut is_closed = false;
    let mut at = 0;
    while !rest.is_empty() && !is_closed {
        let (line, after) = line(rest);
        if let Some(end) = line.strip_prefix(delimiter.as_bytes()) {
            if let Some(start) = start {
                parts.push(part(&body[start..at])?);
            }
            if parts.len() > PARTS_MAX {
                return Err(HttpError::Batch("it has more than 256 requests"));
            }
            is_closed = end.starts_with(b"--");
            start = Some(at + (rest.len() - after.len()));
        }
        at += rest.len() - after.len();
        rest = after;
    }
    match (is_closed, parts.is_empty()) {
        (false, _) => Err(HttpError::Batch("its closing boundary is missing")),
        (true, true) => Err(HttpError::Batch("it has no requests")),
        (true, false) => Ok(parts),
    }
}

fn part(bytes: &[u8]) -> Result<Part<'_>, HttpError> {
    let mut content_id = None;
    let mut is_http = false;
    let mut rest = bytes;
    loop {
        if rest.is_empty() {
            return Err(HttpError::Batch("a part has no request"));
        }
        let (line, after) = line(rest);
        rest = after;
        if line.is_empty() {
            break;
        }
        let text =
            str::from_utf8(line).map_err(|_not_text| HttpError::Batch("the head of a part is not text"))?;
        let (name, value) =
            text.split_once(':').ok_or(HttpError::Batch("the head of a part is malformed"))?;
        match name.trim().to_ascii_lowercase().as_str() {
            "content-id" => content_id = Some(value.trim()),
            "content-type" => is_http = value.trim().to_ascii_lowercase().starts_with("application/http"),
            _ => {}
        }
    }
    match is_http {
        true => Ok(Part { content_id, head: rest }),
        false => Err(HttpError::Batch("a part is not application/http")),
    }
}

/// The first line, without its end, and what follows it.
fn line(bytes: &[u8]) -> (&[u8], &[u8]) {
    let (line, rest) = match bytes.iter().position(|byte| *byte == b'\n') {
        Some(at) => (&bytes[..at], &bytes[at + 1..]),
        None => (bytes, &[][..]),
    };
    (line.strip_suffix(b"\r").unwrap_or(line), rest)
}

/// Reads the head of a request in a part. Clients differ in how it ends, and none of these requests has a body.
fn head_of(bytes: &[u8]) -> Result<Parts, HttpError> {
    let malformed = HttpError::Batch("the request in a part is malformed");
    let mut text = Vec::with_capacity(bytes.len() + 4);
    let mut rest = bytes;
    while !rest.is_empty() {
        let (line, after) = line(rest);
        if line.is_empty() && !text.is_empty() {
            break;
        }
        if !line.is_empty() {
            text.extend_from_slice(line);
            text.extend_from_slice(b"\r\n");
        }
        rest = after;
    }
    text.extend_from_slice(b"\r\n");
    let mut fields: [Field<'_>; FIELDS_MAX] = [EMPTY_FIELD; FIELDS_MAX];
    let (method, path, fields) =
        ::rest::head::request_line_and_fields(&text, &mut fields).ok_or_else(|| malformed.clone())?;
    let mut request = hyper::Request::builder().method(method).uri(path);
    for field in fields {
        request = request.header(field.name, field.value);
    }
    let request = request.body(()).map_err(|_malformed| malformed)?;
    Ok(request.into_parts().0)
}

/// Writes the part of an answer for one request.
fn write_part(answer: &mut Vec<u8>, request_id: &str, content_id: Option<&str>, reply: Reply, id: &str) {
    let (mut head, body) = reply.into_parts();
    reply::set(&mut head.headers, "x-ms-request-id", id);
    answer.extend_from_slice(
        format!("--batchresponse_{request_id}\r\nContent-Type: application/http\r\n").as_bytes(),
    );
    if let Some(content_id) = content_id {
        answer.extend_from_slice(format!("Content-ID: {content_id}\r\n").as_bytes());
    }
    let status = head.status;
    let reason = status.canonical_reason().unwrap_or_default();
    answer.extend_from_slice(format!("\r\nHTTP/1.1 {} {reason}\r\n", status.as_u16()).as_bytes());
    for (name, value) in &head.headers {
        answer.extend_from_slice(name.as_str().as_bytes());
        answer.extend_from_slice(b": ");
        answer.extend_from_slice(value.as_bytes());
        answer.extend_from_slice(b"\r\n");
    }
    let body = match body {
        ReplyBody::Whole(Some(bytes)) => bytes,
        _ => bytes::Bytes::new(),
    };
    answer.extend_from_slice(format!("content-length: {}\r\n\r\n", body.len()).as_bytes());
    answer.extend_from_slice(&body);
    answer.extend_from_slice(b"\r\n");
}

/// Requests of a batch, as in the service.
const PARTS_MAX: usize = 256;

/// The longest body of a batch, as in the service.
const BATCH_BYTES: ByteSize = ByteSize::from_mebibytes(4);

/// The longest boundary (RFC 2046, 5.1.1).
const BOUNDARY_MAX: usize = 70;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const BATCH: &str = "--b\r\nContent-Type: application/http\r\nContent-Transfer-Encoding: binary\r\nContent-ID: 0\r\n\r\n\
        DELETE /acct/box/a?x=1 HTTP/1.1\r\nx-ms-date: now\r\nContent-Length: 0\r\n\r\n\r\n\
        --b\r\nContent-Type: application/http\r\n\r\nPUT /acct/box/b?comp=tier HTTP/1.1\r\nx-ms-access-tier: Cool\r\n\r\n--b--\r\n";

    #[test]
    fn parts_are_requests_however_their_lines_end() {
        for text in [BATCH.to_owned(), BATCH.replace("\r\n", "\n")] {
            let parts = parts(text.as_bytes(), "b").unwrap();
            let ids: Vec<_> = parts.iter().map(|part| part.content_id).collect();
            assert_eq!(ids, [Some("0"), None]);
            let [first, second] = &parts[..] else { panic!("{parts:?}") };
            let first = head_of(first.head).unwrap();
            assert_eq!(
                (first.method.as_str(), first.uri.to_string().as_str()),
                ("DELETE", "/acct/box/a?x=1")
            );
            assert_eq!(first.headers["x-ms-date"], "now");
            assert_eq!(head_of(second.head).unwrap().headers["x-ms-access-tier"], "Cool");
        }
    }

    #[test]
    fn what_is_no_batch_is_refused() {
        for text in [
            "",
            "--b--\r\n",
            "--b\r\n--b--\r\n",
            "--b\r\nContent-Type: text/plain\r\n\r\nDELETE / HTTP/1.1\r\n\r\n--b--",
            BATCH.strip_suffix("--b--\r\n").unwrap(),
        ] {
            assert!(matches!(parts(text.as_bytes(), "b"), Err(HttpError::Batch(_))), "{text:?}");
        }
        let one = "--b\r\nContent-Type: application/http\r\n\r\nDELETE /a/b/c HTTP/1.1\r\n\r\n";
        let most = format!("{}--b--\r\n", one.repeat(PARTS_MAX));
        assert_eq!(parts(most.as_bytes(), "b").unwrap().len(), PARTS_MAX);
        let more = format!("{}--b--\r\n", one.repeat(PARTS_MAX + 1));
        assert!(parts(more.as_bytes(), "b").is_err());
    }

    #[test]
    fn the_boundary_is_a_parameter_of_the_type() {
        assert_eq!(boundary("multipart/mixed; boundary=batch_1"), Some("batch_1"));
        assert_eq!(boundary("Multipart/Mixed;charset=utf-8; Boundary=\"b\""), Some("b"));
        for none in ["multipart/mixed", "multipart/form-data; boundary=b", "multipart/mixed; boundary="] {
            assert_eq!(boundary(none), None, "{none}");
        }
    }

    proptest! {
        #[test]
        fn no_bytes_panic(text in "(--b\r?\n|Content-Type: application/http\r?\n|\r?\n|DELETE /a/b/c HTTP/1.1\r?\n|a: b\n|--b--|\\PC{0,5}){0,12}") {
            for part in parts(text.as_bytes(), "b").into_iter().flatten() {
                let _ = head_of(part.head);
            }
        }
    }
}
