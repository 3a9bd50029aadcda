//! Letter case of header names.
//!
//! Names mean the same in capitals and in small letters, and the types for them know small letters alone. Where a client must get
//! back what it has sent, such as names of metadata, hyper keeps the spelling of a request, and spells a response like one, by an
//! extension whose type is private. So both are done by hyper, in an exchange in memory.

use std::cell::RefCell;
use std::convert::Infallible;
use std::future::ready;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use http_body_util::Empty;
use hyper::body::Incoming;
use hyper::header::HeaderName;
use hyper::http::Extensions;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{HeaderMap, Request, Response};
use hyper_util::rt::TokioIo;

/// Returns the names of `headers` that begin with `prefix`, which is in small letters, as the client spelled them: each once, with
/// its first spelling. `extensions` are those of the request.
#[must_use]
pub fn spelled_names(headers: &HeaderMap, extensions: &Extensions, prefix: &str) -> Vec<String> {
    let asked: HeaderMap = headers
        .iter()
        .filter(|(name, _)| name.as_str().starts_with(prefix))
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect();
    if asked.is_empty() {
        return Vec::new();
    }
    let names: Vec<HeaderName> = asked.keys().cloned().collect();
    let output = exchange(b"GET / HTTP/1.1\r\n\r\n", |_request| {
        let mut response = Response::new(Empty::new());
        *response.headers_mut() = asked.clone();
        *response.extensions_mut() = extensions.clone();
        response
    });
    let lines: Vec<&[u8]> = output.split(|byte| *byte == b'\n').collect();
    let spelling = |name: &HeaderName| {
        let name = name.as_str();
        let found = lines.iter().find_map(|line| {
            let (start, rest) = line.split_at_checked(name.len())?;
            (rest.first() == Some(&b':') && start.eq_ignore_ascii_case(name.as_bytes())).then_some(start)
        });
        found.and_then(|found| str::from_utf8(found).ok()).unwrap_or(name).to_owned()
    };
    names.iter().map(spelling).collect()
}

/// Returns extensions by which a response has headers of these names spelled like that.
#[must_use]
pub fn spelling_of<'a>(names: impl Iterator<Item = &'a str>) -> Extensions {
    let mut request = b"GET / HTTP/1.1\r\n".to_vec();
    for name in names.filter(|name| HeaderName::from_bytes(name.as_bytes()).is_ok()) {
        request.extend_from_slice(name.as_bytes());
        request.extend_from_slice(b": \r\n");
    }
    request.extend_from_slice(b"\r\n");
    let found = RefCell::new(Extensions::new());
    exchange(&request, |request| {
        *found.borrow_mut() = std::mem::take(request.extensions_mut());
        Response::new(Empty::new())
    });
    found.into_inner()
}

/// Lets hyper read a request and write the response to it.
fn exchange(request: &[u8], answer: impl Fn(&mut Request<Incoming>) -> Response<Empty<Bytes>>) -> Vec<u8> {
    let io = TokioIo::new(tokio::io::join(request, Vec::new()));
    let service =
        service_fn(|mut request: Request<Incoming>| ready(Ok::<_, Infallible>(answer(&mut request))));
    let mut connection = http1::Builder::new()
        .preserve_header_case(true)
        .header_read_timeout(None)
        .keep_alive(false)
        // Nothing follows the request.
        .half_close(true)
        .serve_connection(io, service);
    // All of it is there, and memory takes everything, so nothing is waited for.
    let served = connection.poll_without_shutdown(&mut Context::from_waker(Waker::noop()));
    debug_assert!(matches!(served, Poll::Ready(Ok(()))), "{served:?}");
    let (_, output) = connection.into_parts().io.into_inner().into_inner();
    output
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_response_is_spelled_like_what_a_request_said() {
        let mut headers = HeaderMap::new();
        for name in ["x-ms-meta-owninghost", "x-ms-meta-a", "x-ms-meta-token_1", "other"] {
            headers.insert(HeaderName::from_static(name), "value".parse().expect("it is one"));
        }
        let spelled = ["X-MS-Meta-OWNINGHOST", "x-ms-meta-a", "x-ms-meta-Token_1", "Other"];
        let extensions = spelling_of(spelled.into_iter());
        let mut names = spelled_names(&headers, &extensions, "x-ms-meta-");
        names.sort();
        assert_eq!(names, ["X-MS-Meta-OWNINGHOST", "x-ms-meta-Token_1", "x-ms-meta-a"]);
        // Without a spelling of their own names have small letters.
        let mut names = spelled_names(&headers, &Extensions::new(), "x-ms-meta-");
        names.sort();
        assert_eq!(names, ["x-ms-meta-a", "x-ms-meta-owninghost", "x-ms-meta-token_1"]);
        assert!(spelled_names(&headers, &extensions, "x-none-").is_empty());
    }
}
