//! The body of a request, and what becomes of one that is not read to its end.

use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::BodyExt as _;
use hyper::body::{Body, Frame, Incoming, SizeHint};

/// The body of a request. Dropped before its end, it makes the response the last one, unless little is left.
#[derive(Debug)]
pub struct RequestBody {
    /// `None` once it was read to its end.
    incoming: Option<Incoming>,
    left: Arc<LeftBody>,
}

/// The body of a request that was dropped before its end, if it was.
#[derive(Debug, Default)]
pub(super) struct LeftBody(Mutex<Option<Incoming>>);

impl RequestBody {
    pub(super) const fn new(incoming: Incoming, left: Arc<LeftBody>) -> Self {
        Self { incoming: Some(incoming), left }
    }
}

impl LeftBody {
    /// Whether the body was dropped before its end.
    pub(super) fn is_some(&self) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).is_some()
    }

    /// Reads what is left, if it is little and comes at once. True if nothing is left then.
    pub(super) async fn read(&self) -> bool {
        let left = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(mut left) = left else {
            return true;
        };
        if left.size_hint().upper().is_none_or(|length| length > SMALL) {
            return false;
        }
        let all = async {
            while let Some(frame) = left.frame().await {
                if frame.is_err() {
                    return false;
                }
            }
            true
        };
        tokio::time::timeout(AT_ONCE, all).await.unwrap_or(false)
    }
}

impl Body for RequestBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let this = self.get_mut();
        let Some(incoming) = &mut this.incoming else {
            return Poll::Ready(None);
        };
        let frame = ready!(Pin::new(incoming).poll_frame(cx));
        if frame.is_none() {
            this.incoming = None;
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.incoming.as_ref().is_none_or(Body::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.incoming.as_ref().map_or_else(|| SizeHint::with_exact(0), Body::size_hint)
    }
}

impl Drop for RequestBody {
    fn drop(&mut self) {
        if let Some(incoming) = self.incoming.take().filter(|incoming| !incoming.is_end_stream()) {
            *self.left.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(incoming);
        }
    }
}

/// Bytes of a body that are read to keep the connection.
const SMALL: u64 = 64 * 1024;

/// Time within which they must have come. Clients send them with the head, or right behind it.
const AT_ONCE: Duration = Duration::from_millis(100);
