//! One connection: requests in, responses out, within bounds of memory and time.
//!
//! What hyper refuses by itself is answered by it with an empty body: 400 for what is no request, 431 for a head that is too
//! long.

use std::convert::Infallible;
use std::error::Error;
use std::future::Future;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use hyper::header::{CONNECTION, EXPECT, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::watch;

use super::deadlines::{Answering, Deadlines, Progress};
use super::request_body::{LeftBody, RequestBody};
use crate::places::Place;

/// What a connection may take.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// The longest head of a request.
    pub head_bytes: usize,
    /// The most that is read ahead. Heads that are not complete are bounded by it, too.
    pub buffer_bytes: usize,
    /// How long the head of a request may take from its first byte to its last.
    pub head: Duration,
    /// How long the client may send nothing while something is expected: the next request, or more of a body.
    pub silence: Duration,
    /// How long it may take nothing of what is sent to it.
    pub stall: Duration,
    /// How long the connection may last unless its place is proven.
    pub unproven: Duration,
    /// Whether there may be more than one request.
    pub keep_alive: bool,
}

/// Serves the requests that come over `stream` until the connection ends. When `stop` becomes true, it ends after the
/// response that is under way, at once if there is none.
///
/// A response to a request whose body was not read to its end is the last one, and reaches the client: the connection is closed in
/// stages, as [`Farewell`](super::Farewell) has it.
pub async fn serve_connection<S, A, F, B>(
    stream: S,
    peer: SocketAddr,
    place: &Place,
    limits: &Limits,
    answer: A,
    mut stop: watch::Receiver<bool>,
) where
    S: AsyncRead + AsyncWrite + Unpin,
    A: Fn(Request<RequestBody>) -> F,
    F: Future<Output = Response<B>>,
    B: Body<Data = Bytes> + Unpin + 'static,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    let progress = Arc::<Progress>::default();
    let socket = TokioIo::new(Deadlines::new(stream, limits, Arc::clone(&progress)));
    let service = service_fn(|request: Request<Incoming>| {
        let (answering, left) = (progress.begin(), Arc::<LeftBody>::default());
        // To read it would ask for it.
        let is_asked_for = !request.headers().contains_key(EXPECT);
        let response = answer(request.map(|body| RequestBody::new(body, Arc::clone(&left))));
        let progress = &progress;
        async move {
            let mut response = response.await;
            if left.is_some() && !(is_asked_for && left.read().await) {
                progress.leave_body();
                response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
            }
            Ok::<_, Infallible>(response.map(|body| Answer { body, _answering: answering }))
        }
    });
    let connection = http1::Builder::new()
        // Hyper's own would end connections that rest, too.
        .header_read_timeout(None)
        .preserve_header_case(true)
        .keep_alive(limits.keep_alive)
        .max_header_size(limits.head_bytes)
        .max_buf_size(limits.buffer_bytes)
        .serve_connection(socket, service);
    let mut connection = pin!(connection);
    let served = async {
        tokio::select! {
            ended = connection.as_mut() => return ended,
            _ = stop.wait_for(|stop| *stop) => {}
        }
        progress.stop();
        connection.as_mut().graceful_shutdown();
        connection.await
    };
    tokio::select! {
        ended = served => if let Err(error) = ended {
            tracing::debug!(%peer, %error, "an HTTP connection ended early");
        },
        () = overdue(place, limits.unproven) => {
            tracing::debug!(%peer, "an HTTP connection was closed: no authorized request in time");
        }
    }
}

/// Ready when the connection in `place` has lasted for `patience` without having proven itself.
async fn overdue(place: &Place, patience: Duration) {
    tokio::time::sleep(patience).await;
    if place.is_proven() {
        std::future::pending().await
    }
}

/// The body of a response. As long as it is there, the response is under way.
struct Answer<B> {
    body: B,
    _answering: Answering,
}

impl<B: Body + Unpin> Body for Answer<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        Pin::new(&mut self.get_mut().body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::{BodyExt as _, Full};
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream, duplex};
    use tokio::task::JoinHandle;
    use tokio::time::Instant;

    use super::*;
    use crate::Places;

    const LIMITS: Limits = Limits {
        head_bytes: 1024,
        buffer_bytes: 16 * 1024,
        head: Duration::from_secs(10),
        silence: Duration::from_secs(300),
        stall: Duration::from_secs(60),
        unproven: Duration::from_secs(3600),
        keep_alive: true,
    };

    struct Served {
        client: DuplexStream,
        stop: watch::Sender<bool>,
        serving: JoinHandle<()>,
    }

    /// A connection on which a request is answered with its body. It is proven by a request for `/proof`.
    fn serve(limits: Limits) -> Served {
        let (client, stream) = duplex(64 * 1024);
        let (stop, stopped) = watch::channel(false);
        let serving = tokio::spawn(async move {
            let place = Places::new(1).take().expect("it is free");
            let place = &place;
            let answer = |request: Request<RequestBody>| async move {
                if request.uri().path() == "/proof" {
                    place.prove();
                }
                if request.uri().path() == "/refused" {
                    return Response::new(Full::from("refused"));
                }
                let body = request.into_body().collect().await;
                Response::new(Full::new(body.map(|body| body.to_bytes()).unwrap_or_default()))
            };
            let peer = SocketAddr::from(([127, 0, 0, 1], 1));
            serve_connection(stream, peer, place, &limits, answer, stopped).await;
        });
        Served { client, stop, serving }
    }

    impl Served {
        async fn write(&mut self, text: &str) {
            self.client.write_all(text.as_bytes()).await.expect("it is there");
        }

        /// Reads up to the end of this text.
        async fn read_to(&mut self, end: &str) -> String {
            let mut read = Vec::new();
            while !read.ends_with(end.as_bytes()) {
                read.push(self.client.read_u8().await.expect("more follows"));
            }
            String::from_utf8(read).expect("it is text")
        }

        /// Whatever comes until the end, and how long that takes.
        async fn rest(mut self) -> (String, Duration) {
            let started = Instant::now();
            let mut rest = String::new();
            self.client.read_to_string(&mut rest).await.expect("it is text");
            self.serving.await.expect("it does not panic");
            (rest, started.elapsed())
        }
    }

    const ECHO: &str = "POST / HTTP/1.1\r\nHost: here\r\nContent-Length: 4\r\n\r\necho";

    #[tokio::test(start_paused = true)]
    async fn a_connection_may_rest_between_requests_but_no_head_may_take_long() {
        let mut served = serve(LIMITS);
        for _ in 0..3 {
            served.write(ECHO).await;
            served.read_to("\r\n\r\necho").await;
            tokio::time::sleep(LIMITS.head * 3).await;
        }
        let started = Instant::now();
        while served.client.write_all(b"G").await.is_ok() {
            tokio::time::sleep(LIMITS.head / 4).await;
            assert!(started.elapsed() < LIMITS.head * 2, "it is still there");
        }
        assert!(started.elapsed() >= LIMITS.head);
        served.serving.await.expect("it does not panic");
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_may_take_longer_than_a_head_but_not_stand_still() {
        let mut served = serve(LIMITS);
        let (head, body) = ECHO.split_at(ECHO.len() - 4);
        served.write(head).await;
        for byte in body.chars() {
            tokio::time::sleep(LIMITS.head * 2).await;
            served.write(byte.encode_utf8(&mut [0; 4])).await;
        }
        served.read_to("\r\n\r\necho").await;
        served.write(head).await;
        assert!(served.rest().await.1 >= LIMITS.silence);
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_that_proves_nothing_ends_whatever_it_asks_for() {
        let limits = Limits { unproven: Duration::from_secs(20), ..LIMITS };
        let mut served = serve(limits);
        served.write(ECHO).await;
        let (rest, lasted) = served.rest().await;
        assert!(rest.starts_with("HTTP/1.1 200"), "{rest}");
        assert_eq!(lasted, limits.unproven);
        let mut served = serve(limits);
        served.write(&ECHO.replace(" / ", " /proof ")).await;
        assert_eq!(served.rest().await.1, limits.silence);
    }

    #[tokio::test(start_paused = true)]
    async fn stopping_ends_idle_connections_and_those_that_answer_after_their_answer() {
        let idle = serve(LIMITS);
        idle.stop.send_replace(true);
        assert_eq!(idle.rest().await, (String::new(), Duration::ZERO));
        let mut answering = serve(LIMITS);
        answering.write(&ECHO[..ECHO.len() - 1]).await;
        tokio::time::sleep(Duration::from_secs(1)).await;
        answering.stop.send_replace(true);
        answering.write("o").await;
        let (rest, lasted) = answering.rest().await;
        assert!(rest.starts_with("HTTP/1.1 200") && rest.ends_with("echo"), "{rest}");
        assert_eq!(lasted, Duration::ZERO);
    }

    #[tokio::test(start_paused = true)]
    async fn body_that_was_not_read_is_dropped_until_the_client_has_its_answer() {
        let Served { mut client, serving, stop: _stop } = serve(LIMITS);
        let length = 20 * 1024 * 1024;
        let head = format!("PUT /refused HTTP/1.1\r\nHost: here\r\nContent-Length: {length}\r\n\r\n");
        client.write_all(head.as_bytes()).await.expect("it is there");
        for _ in 0..length / 65_536 {
            client.write_all(&[0; 65_536]).await.expect("it is read to its end");
        }
        let mut answer = String::new();
        client.read_to_string(&mut answer).await.expect("it is text");
        assert!(answer.starts_with("HTTP/1.1 200") && answer.ends_with("refused"), "{answer}");
        assert!(answer.contains("\r\nconnection: close\r\n"), "{answer}");
        drop(client);
        let started = Instant::now();
        serving.await.expect("it does not panic");
        assert_eq!(started.elapsed(), Duration::ZERO, "the client is gone");
    }

    #[tokio::test(start_paused = true)]
    async fn little_that_was_not_read_of_a_body_does_not_end_the_connection() {
        let mut served = serve(LIMITS);
        for body in ["", "x", &"x".repeat(10_000)] {
            let head =
                format!("PUT /refused HTTP/1.1\r\nHost: here\r\nContent-Length: {}\r\n\r\n", body.len());
            served.write(&head).await;
            served.write(body).await;
            let head = served.read_to("refused").await;
            assert!(!head.contains("connection: close"), "{head}");
        }
        // What is asked to wait for does not come.
        served
            .write("PUT /refused HTTP/1.1\r\nHost: here\r\nExpect: 100-continue\r\nContent-Length: 1\r\n\r\n")
            .await;
        let head = served.read_to("refused").await;
        assert!(head.starts_with("HTTP/1.1 200") && head.contains("connection: close"), "{head}");
    }

    #[tokio::test(start_paused = true)]
    async fn stopping_does_not_wait_for_a_client_that_still_sends() {
        let mut served = serve(LIMITS);
        served.write("PUT /refused HTTP/1.1\r\nHost: here\r\nContent-Length: 99999\r\n\r\n").await;
        served.read_to("refused").await;
        served.stop.send_replace(true);
        assert_eq!(served.rest().await, (String::new(), Duration::ZERO));
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_no_request_or_too_long_is_answered_and_ends_the_connection() {
        let long = format!("GET / HTTP/1.1\r\nX: {}\r\n\r\n", "x".repeat(LIMITS.head_bytes));
        let endless = format!("GET /{}", "x".repeat(LIMITS.buffer_bytes));
        let twice = ECHO.replace("\r\n\r\n", "\r\nContent-Length: 5\r\n\r\n");
        for (request, status) in [("no request\r\n\r\n", 400), (&long, 431), (&endless, 431), (&twice, 400)] {
            let mut served = serve(LIMITS);
            served.write(request).await;
            let (answer, _) = served.rest().await;
            assert!(answer.starts_with(&format!("HTTP/1.1 {status}")), "{request:.40}: {answer}");
        }
    }
}
