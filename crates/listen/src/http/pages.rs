//! Pages for health and metrics: small, and one request for each connection.
//!
//! Monitoring has to get through above all while a service is overloaded. So connections are bounded in number and in
//! time, and when all places are taken the oldest connection makes room for a new one.

use std::future::Future;
use std::pin::pin;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper::header::{ALLOW, CONTENT_TYPE, HeaderValue};
use hyper::http::request::Parts;
use hyper::{Method, Request, Response, StatusCode};
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::connection::{Limits, serve_connection};
use crate::acceptor::Acceptor;
use crate::places::Places;

/// What a request for a page is answered with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page {
    /// The status.
    pub status: StatusCode,
    /// The media type of `text`.
    pub content_type: &'static str,
    /// The content.
    pub text: Bytes,
}

impl Page {
    /// A page for a person, with the status 200.
    #[must_use]
    pub fn plain(text: impl Into<Bytes>) -> Self {
        Self::of("text/plain; charset=utf-8", text)
    }

    /// A page for a program, with the status 200.
    #[must_use]
    pub fn json(text: impl Into<Bytes>) -> Self {
        Self::of("application/json", text)
    }

    /// Content of a media type, with the status 200.
    #[must_use]
    pub fn of(content_type: &'static str, text: impl Into<Bytes>) -> Self {
        Self { status: StatusCode::OK, content_type, text: text.into() }
    }

    /// The same page with another status.
    #[must_use]
    pub fn with_status(self, status: StatusCode) -> Self {
        Self { status, ..self }
    }
}

/// The response to a request for a page: what `page` finds for its head if that is a `GET` or `HEAD`, otherwise 404 or 405.
pub async fn answer_with_page<B, F>(
    request: Request<B>,
    page: impl FnOnce(Parts) -> F,
) -> Response<Full<Bytes>>
where
    F: Future<Output = Option<Page>>,
{
    let (head, _) = request.into_parts();
    if !matches!(head.method, Method::GET | Method::HEAD) {
        let refusal = Page::plain("only GET and HEAD are served here\n");
        let mut response = Response::from(refusal.with_status(StatusCode::METHOD_NOT_ALLOWED));
        response.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
        return response;
    }
    let found = page(head).await;
    found.unwrap_or_else(|| Page::plain("not found\n").with_status(StatusCode::NOT_FOUND)).into()
}

/// Serves the pages that `page` finds for the head of a request until `stop` is ready, with at most `maximum` connections at
/// once.
pub async fn serve_pages<P, F>(mut acceptor: Acceptor, page: P, maximum: u64, stop: impl Future<Output = ()>)
where
    P: Fn(Parts) -> F + Clone + Send + Sync + 'static,
    F: Future<Output = Option<Page>> + Send,
{
    let places = Places::new(maximum.max(1));
    let (stopping, stopped) = watch::channel(false);
    let mut connections = JoinSet::new();
    let mut stop = pin!(stop);
    loop {
        let (socket, peer) = tokio::select! {
            accepted = acceptor.accept() => accepted,
            () = &mut stop => break,
            Some(_) = connections.join_next() => continue,
        };
        // None of them ever proves itself, so that there is always one that makes room.
        let Some(place) = places.admit().await else {
            continue;
        };
        let (page, stopped) = (page.clone(), stopped.clone());
        connections.spawn(async move {
            let lost = place.lost();
            let answer = |request| answer_with_page(request, &page);
            tokio::select! {
                () = serve_connection(socket, peer, &place, &PAGE_LIMITS, answer, stopped) => {}
                () = lost => {}
            }
        });
    }
    drop(acceptor);
    stopping.send_replace(true);
    let answered = async { while connections.join_next().await.is_some() {} };
    let _ = tokio::time::timeout(STOP_PATIENCE, answered).await;
}

impl From<Page> for Response<Full<Bytes>> {
    fn from(page: Page) -> Self {
        let mut response = Self::new(Full::new(page.text));
        *response.status_mut() = page.status;
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(page.content_type));
        response
    }
}

/// A connection for pages is for one request, and never proven, so that any of them can make room.
pub const PAGE_LIMITS: Limits = Limits {
    head_bytes: 16 * 1024,
    buffer_bytes: 16 * 1024,
    head: Duration::from_secs(10),
    silence: Duration::from_secs(10),
    stall: Duration::from_secs(30),
    unproven: Duration::from_secs(30),
    keep_alive: false,
};

/// How long answers that are under way may take once the server is to stop.
const STOP_PATIENCE: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;
    use std::sync::Arc;

    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::{TcpListener, TcpStream};
    use tokio::sync::oneshot;

    use super::*;
    use crate::AcceptFailures;

    /// A server with two places, and what stops it.
    async fn server() -> (SocketAddr, oneshot::Sender<()>, tokio::task::JoinHandle<()>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("bound");
        let acceptor = Acceptor::new(listener, "HTTP", Arc::<AcceptFailures>::default());
        let page = async |head: Parts| (head.uri.path() == "/health").then(|| Page::plain("well"));
        let (stop, stopped) = oneshot::channel();
        let stopped = async move { drop(stopped.await) };
        let serving = tokio::spawn(serve_pages(acceptor, page, 2, stopped));
        (address, stop, serving)
    }

    async fn asked(address: SocketAddr, request: &str) -> String {
        let mut socket = TcpStream::connect(address).await.expect("it listens");
        socket.write_all(request.as_bytes()).await.expect("sent");
        let mut answer = String::new();
        socket.read_to_string(&mut answer).await.expect("answered");
        answer
    }

    #[tokio::test]
    async fn idle_connections_make_room_for_new_ones() {
        let (address, _stop, _serving) = server().await;
        let mut idle = Vec::new();
        for _ in 0..20 {
            idle.push(TcpStream::connect(address).await.expect("it listens"));
        }
        let answer = asked(address, "GET /health HTTP/1.1\r\nHost: here\r\n\r\n").await;
        assert!(answer.starts_with("HTTP/1.1 200") && answer.ends_with("well"), "{answer}");
        let mut nothing = [0; 1];
        let first = idle[0].read(&mut nothing).await;
        assert!(!matches!(first, Ok(1..)), "the first one was ended: {first:?}");
    }

    #[tokio::test]
    async fn a_connection_is_for_one_request_with_a_head_of_bounded_size() {
        let (address, _stop, _serving) = server().await;
        let twice = "GET /health HTTP/1.1\r\nHost: here\r\n\r\n".repeat(2);
        let answer = asked(address, &twice).await;
        assert_eq!(answer.matches("HTTP/1.1").count(), 1, "{answer}");
        let endless = format!("GET /health HTTP/1.1\r\nX: {}\r\n\r\n", "x".repeat(PAGE_LIMITS.buffer_bytes));
        assert!(asked(address, &endless).await.starts_with("HTTP/1.1 431"));
    }

    #[tokio::test]
    async fn pages_are_read_and_what_is_not_there_is_not_found() {
        let (address, _stop, _serving) = server().await;
        let head = asked(address, "HEAD /health HTTP/1.1\r\nHost: here\r\n\r\n").await;
        assert!(head.starts_with("HTTP/1.1 200") && head.contains("content-length: 4"), "{head}");
        assert!(head.ends_with("\r\n\r\n"), "{head}");
        let missing = asked(address, "GET /healthy HTTP/1.1\r\nHost: here\r\n\r\n").await;
        assert!(missing.starts_with("HTTP/1.1 404"), "{missing}");
        let written =
            asked(address, "POST /health HTTP/1.1\r\nHost: here\r\nContent-Length: 0\r\n\r\n").await;
        assert!(written.starts_with("HTTP/1.1 405") && written.contains("allow: GET, HEAD"), "{written}");
    }

    #[tokio::test(start_paused = true)]
    async fn neither_silence_nor_a_head_that_comes_byte_by_byte_holds_a_connection() {
        let (address, stop, serving) = server().await;
        let started = tokio::time::Instant::now();
        let mut silent = TcpStream::connect(address).await.expect("it listens");
        let _ = silent.read(&mut [0; 100]).await;
        assert!(started.elapsed() >= PAGE_LIMITS.head);
        let started = tokio::time::Instant::now();
        let mut slow = TcpStream::connect(address).await.expect("it listens");
        while slow.write_all(b"G").await.is_ok() {
            tokio::time::sleep(PAGE_LIMITS.head / 4).await;
            assert!(started.elapsed() < PAGE_LIMITS.head * 3, "it is still there");
        }
        stop.send(()).expect("it serves");
        serving.await.expect("it ends in good order");
    }
}
