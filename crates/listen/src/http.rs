//! HTTP for health and metrics: one request for each connection, which must come soon.
//!
//! Whoever watches a service must reach it most of all when others use it up. So connections are bounded in number and
//! in time, and when all places are taken the oldest connection makes room for a new one.

use std::future::Future;
use std::pin::pin;
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use crate::acceptor::Acceptor;
use crate::places::Places;

/// Answers requests until `stop` is ready, with at most `maximum` connections at once.
pub async fn serve_http(
    mut acceptor: Acceptor,
    router: Router,
    maximum: u64,
    stop: impl Future<Output = ()>,
) {
    let places = Places::new(maximum.max(1));
    let mut connections = JoinSet::new();
    let mut stop = pin!(stop);
    loop {
        let (socket, _) = tokio::select! {
            accepted = acceptor.accept() => accepted,
            () = &mut stop => break,
            Some(_) = connections.join_next() => continue,
        };
        // None of them ever proves itself, so that there is always one that makes room.
        let Some(place) = places.admit().await else {
            continue;
        };
        let router = router.clone();
        connections.spawn(async move {
            let lost = place.lost();
            tokio::select! {
                () = answer(socket, router) => {}
                () = lost => {}
            }
            drop(place);
        });
    }
    drop(acceptor);
    let answered = async { while connections.join_next().await.is_some() {} };
    let _ = tokio::time::timeout(STOP_PATIENCE, answered).await;
}

async fn answer(socket: TcpStream, router: Router) {
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_PATIENCE)
        .keep_alive(false)
        .max_buf_size(BUFFER_BYTES)
        .serve_connection(TokioIo::new(socket), TowerToHyperService::new(router));
    match tokio::time::timeout(CONNECTION_PATIENCE, connection).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => tracing::debug!(%error, "a request for health or metrics broke off"),
        Err(_) => tracing::debug!("a request for health or metrics took too long"),
    }
}

/// How long the head of a request may take.
const HEADER_PATIENCE: Duration = Duration::from_secs(10);

/// How long a connection may take in all, reading the answer included.
const CONNECTION_PATIENCE: Duration = Duration::from_secs(30);

/// The longest head of a request, and how much is read at once.
const BUFFER_BYTES: usize = 16 * 1024;

/// How long answers that are under way may take once the server is to stop.
const STOP_PATIENCE: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;
    use std::sync::Arc;

    use axum::routing::get;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpListener;
    use tokio::sync::oneshot;

    use super::*;
    use crate::AcceptFailures;

    /// A server with two places, and what stops it.
    async fn server() -> (SocketAddr, oneshot::Sender<()>, tokio::task::JoinHandle<()>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("bound");
        let acceptor = Acceptor::new(listener, "HTTP", Arc::<AcceptFailures>::default());
        let router = Router::new().route("/health", get(async || "well"));
        let (stop, stopped) = oneshot::channel();
        let stopped = async move { drop(stopped.await) };
        let serving = tokio::spawn(serve_http(acceptor, router, 2, stopped));
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
    async fn idle_connections_make_room_for_whoever_asks() {
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
        let endless = format!("GET /health HTTP/1.1\r\nX: {}\r\n\r\n", "x".repeat(BUFFER_BYTES));
        assert!(asked(address, &endless).await.starts_with("HTTP/1.1 431"));
    }

    #[tokio::test(start_paused = true)]
    async fn neither_silence_nor_a_head_that_comes_byte_by_byte_holds_a_connection() {
        let (address, stop, serving) = server().await;
        let started = tokio::time::Instant::now();
        let mut silent = TcpStream::connect(address).await.expect("it listens");
        let _ = silent.read(&mut [0; 100]).await;
        assert!(started.elapsed() >= HEADER_PATIENCE);
        let started = tokio::time::Instant::now();
        let mut slow = TcpStream::connect(address).await.expect("it listens");
        while slow.write_all(b"G").await.is_ok() {
            tokio::time::sleep(HEADER_PATIENCE / 4).await;
            assert!(started.elapsed() < HEADER_PATIENCE * 3, "it is still there");
        }
        stop.send(()).expect("it serves");
        serving.await.expect("it ends in good order");
    }
}
