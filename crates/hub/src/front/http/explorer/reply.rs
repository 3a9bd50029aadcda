//! Responses and refusals, and the JSON of requests.

use std::convert::Infallible;
use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::{self, Frame, SizeHint};
use hyper::header::{ALLOW, CONTENT_TYPE, HeaderValue};
use hyper::{Response, StatusCode};
use listen::http::RequestBody;
use queue_store::QueueError;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::json;
use tokio::sync::mpsc;

/// What a request is answered with.
pub(super) type Reply = Response<Body>;

/// A content that is there, or one that goes on.
#[derive(Debug)]
pub(crate) enum Body {
    /// All of it.
    Whole(Full<Bytes>),
    /// What comes from time to time, until its sender is gone.
    Live(mpsc::Receiver<Bytes>),
}

/// Why a request is not carried out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Refusal {
    status: u16,
    message: String,
    allow: Option<&'static str>,
}

impl Refusal {
    pub(super) fn new(status: u16, message: impl Into<String>) -> Self {
        Self { status, message: message.into(), allow: None }
    }

    pub(super) fn bad(message: impl Into<String>) -> Self {
        Self::new(400, message)
    }

    pub(super) fn forbidden(message: &str) -> Self {
        Self::new(403, message)
    }

    pub(super) fn not_found(message: impl Into<String>) -> Self {
        Self::new(404, message)
    }

    pub(super) fn method(allow: &'static str) -> Self {
        Self { allow: Some(allow), ..Self::new(405, format!("only {allow} are served here")) }
    }

    /// What is wrong.
    pub(super) fn message(&self) -> &str {
        &self.message
    }

    /// The refusal as a response.
    pub(super) fn reply(&self) -> Reply {
        let mut reply = json(&json!({"error": self.message}));
        *reply.status_mut() = StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        if let Some(allow) = self.allow {
            reply.headers_mut().insert(ALLOW, HeaderValue::from_static(allow));
        }
        reply
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.status, self.message)
    }
}

impl From<QueueError> for Refusal {
    fn from(error: QueueError) -> Self {
        let status = match error {
            QueueError::Unavailable(_) => 503,
            QueueError::MessageNotFound { .. } | QueueError::Deleted => 404,
            _ => 409,
        };
        Self::new(status, error.to_string())
    }
}

/// A value as JSON.
pub(super) fn json(value: &impl Serialize) -> Reply {
    json_text(serde_json::to_vec(value).unwrap_or_default())
}

/// A text that is JSON.
pub(super) fn json_text(text: impl Into<Bytes>) -> Reply {
    whole("application/json", text)
}

/// A content of a media type.
pub(super) fn whole(content_type: &'static str, content: impl Into<Bytes>) -> Reply {
    of(content_type, Body::Whole(Full::new(content.into())))
}

/// Server-sent events, and where to put them. At most one waits to be sent, so that their maker keeps the client's pace.
pub(super) fn events() -> (mpsc::Sender<Bytes>, Reply) {
    let (sender, receiver) = mpsc::channel(1);
    (sender, of("text/event-stream", Body::Live(receiver)))
}

/// One server-sent event.
pub(super) fn event(name: &str, data: &impl Serialize) -> Bytes {
    let mut text = format!("event: {name}\ndata: ").into_bytes();
    // JSON has no line feeds unless they are asked for.
    if serde_json::to_writer(&mut text, data).is_err() {
        text.extend_from_slice(b"null");
    }
    text.extend_from_slice(b"\n\n");
    text.into()
}

/// The content of a request.
///
/// # Errors
/// It is too long, does not arrive, or takes too long to.
pub(super) async fn content(body: RequestBody, most: usize) -> Result<Bytes, Refusal> {
    match tokio::time::timeout(BODY_PATIENCE, Limited::new(body, most).collect()).await {
        Ok(Ok(collected)) => Ok(collected.to_bytes()),
        Ok(Err(error)) if error.is::<http_body_util::LengthLimitError>() => {
            Err(Refusal::new(413, format!("the request is longer than {most} bytes")))
        }
        Ok(Err(_)) => Err(Refusal::bad("the request did not arrive completely")),
        Err(_) => Err(Refusal::new(408, "the request did not arrive in time")),
    }
}

/// What the JSON of a request says.
///
/// # Errors
/// It is no JSON, or says something else.
pub(super) fn parse<T: DeserializeOwned>(content: &[u8]) -> Result<T, Refusal> {
    serde_json::from_slice(content)
        .map_err(|error| Refusal::bad(format!("the request makes no sense: {error}")))
}

fn of(content_type: &'static str, body: Body) -> Reply {
    let mut reply = Response::new(body);
    reply.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    reply
}

impl body::Body for Body {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match self.get_mut() {
            Self::Whole(content) => Pin::new(content).poll_frame(context),
            Self::Live(events) => events.poll_recv(context).map(|event| Some(Ok(Frame::data(event?)))),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Whole(content) => content.is_end_stream(),
            Self::Live(_) => false,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Whole(content) => content.size_hint(),
            Self::Live(_) => SizeHint::default(),
        }
    }
}

/// How long the content of a request may take.
const BODY_PATIENCE: Duration = Duration::from_secs(30);
