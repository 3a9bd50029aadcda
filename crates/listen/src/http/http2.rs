//! One connection that speaks HTTP/2.

use std::convert::Infallible;
use std::error::Error;
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use hyper::body::{Body, Incoming};
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::watch;

use super::connection::Limits;
use super::deadlines::{Deadlines, Progress};

/// What a connection may take.
#[derive(Debug, Clone, Copy)]
pub struct Http2Limits {
    /// The longest head of a request.
    pub head_bytes: usize,
    /// Requests under way at once.
    pub streams: u32,
    /// Bytes of the body of a request that may come before anything of it is read.
    pub stream_window: u32,
    /// The same of all requests together.
    pub connection_window: u32,
    /// How long the client may send nothing.
    pub silence: Duration,
    /// How long it may take nothing of what is sent to it.
    pub stall: Duration,
}

/// Serves the requests that come over `stream` until the connection ends, each in a task of its own. When `stop` becomes true, it ends
/// after those that are under way.
pub async fn serve_http2_connection<S, A, F, B>(
    stream: S,
    limits: &Http2Limits,
    answer: A,
    mut stop: watch::Receiver<bool>,
) where
    S: AsyncRead + AsyncWrite + Unpin,
    A: Fn(Request<Incoming>) -> F,
    F: Future<Output = Response<B>> + Send + 'static,
    B: Body<Data = Bytes> + Send + 'static,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    let Http2Limits { head_bytes, streams, stream_window, connection_window, silence, stall } = *limits;
    // Heads are frames here, and bounded by their bytes; the socket knows nothing of them.
    let deadlines = Limits {
        head_bytes,
        buffer_bytes: head_bytes,
        head: NO_HEADS,
        silence,
        stall,
        unproven: NO_HEADS,
        keep_alive: true,
    };
    let progress = Arc::<Progress>::default();
    let socket = TokioIo::new(Deadlines::new(stream, &deadlines, Arc::clone(&progress)));
    let service = service_fn(|request| {
        let response = answer(request);
        async { Ok::<_, Infallible>(response.await) }
    });
    let connection = http2::Builder::new(TokioExecutor::new())
        .max_header_list_size(u32::try_from(head_bytes).unwrap_or(u32::MAX))
        .max_concurrent_streams(streams)
        .initial_stream_window_size(stream_window)
        .initial_connection_window_size(connection_window)
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
    if let Err(error) = served.await {
        tracing::debug!(%error, "an HTTP/2 connection ended early");
    }
}

/// Longer than any connection lives.
const NO_HEADS: Duration = Duration::from_secs(10 * 366 * 86_400);
