//! A connection that speaks HTTP/2: hyper's, with the bounds that all connections have. And requests that hyper has read elsewhere.

use std::sync::Arc;
use std::time::Duration;

use ::rest::head::{FIELDS_MAX, Field};
use amqp_tokio::Stream;
use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Body;
use hyper::ext::ReasonPhrase;
use hyper::header::{CONTENT_TYPE, HeaderName, HeaderValue};
use hyper::{Response, StatusCode};
use listen::http::{Http2Limits, serve_http2_connection};
use tokio::sync::watch;

use super::body_memory::{BodyMemory, NO_MEMORY};
use super::counters::Operation;
use super::http1::HEAD_MAX;
use super::refusal::Refusal;
use super::reply::{self, Reply};
use super::session::Session;
use super::{Request, Step};
use crate::front::listener::PROOF_PATIENCE;

/// Serves the requests that come over `stream` until the connection ends.
pub(super) async fn serve(stream: Stream, session: Arc<Session>, stop: watch::Receiver<bool>) {
    let unproven = Arc::clone(&session);
    let lost = session.take_unproven_place(&session.front.unproven_http2);
    let answer = move |request| {
        let session = Arc::clone(&session);
        async move { answer(&session, request, || {}).await }
    };
    tokio::select! {
        () = serve_http2_connection(stream, &LIMITS, answer, stop) => {}
        () = overdue(&unproven) => {}
        () = lost_to_another(&unproven, lost) => {}
    }
}

/// Ready when a connection has lasted for too long without having shown a token.
async fn overdue(session: &Session) {
    tokio::time::sleep(PROOF_PATIENCE).await;
    if session.is_proven() {
        std::future::pending().await
    }
}

/// Ready when another connection takes the place of this one, which has shown no token.
async fn lost_to_another(session: &Session, lost: impl Future<Output = ()>) {
    lost.await;
    // The token may have come at the same moment.
    if session.is_proven() {
        std::future::pending().await
    }
}

/// Answers a request. `authorized` is called if its client may make it, before its body is read.
pub(super) async fn answer(
    session: &Session,
    request: hyper::Request<impl Body<Data = Bytes, Error = hyper::Error> + Unpin>,
    authorized: impl Fn(),
) -> Response<Full<Bytes>> {
    let (parts, body) = request.into_parts();
    let host = parts.uri.authority().map(|authority| authority.as_str().as_bytes());
    let host = host.map(|value| Field { name: "host", value });
    let named =
        parts.headers.iter().map(|(name, value)| Field { name: name.as_str(), value: value.as_bytes() });
    let target = parts.uri.path_and_query().map_or("/", |target| target.as_str());
    let method = parts.method.as_str();
    let (operation, reply, bytes_in) = {
        let fields: Vec<Field<'_>> = named.chain(host).collect();
        let request = Request { method, target, fields: &fields };
        let (started, bytes_in) = match collect(session, &request, body, authorized).await {
            Ok(body) => (session.start(&request, &body), body.len()),
            Err((operation, reply)) => ((operation, Step::Done(reply)), 0),
        };
        let (operation, step) = started;
        let broken = || session.refused_at("", Refusal::on_purpose("The connection is broken."));
        (operation, session.finish(step).await.unwrap_or_else(broken), bytes_in)
    };
    session.front.counters.answered(operation, reply.status, bytes_in, reply.body.len());
    response(reply)
}

/// Waits for the body of a request.
async fn collect(
    session: &Session,
    request: &Request<'_>,
    mut body: impl Body<Data = Bytes, Error = hyper::Error> + Unpin,
    authorized: impl Fn(),
) -> Result<Bytes, (Operation, Reply)> {
    let refused = |refusal| (Operation::Send, session.refused_at("", refusal));
    if request.fields.len() > FIELDS_MAX {
        return Err(refused(Refusal::new(431, "The request has too many header fields.")));
    }
    if body.is_end_stream() {
        return Ok(Bytes::new());
    }
    let most = session.admit(request)?;
    authorized();
    let announced = body.size_hint();
    if announced.lower() > most as u64 {
        return Err(refused(Refusal::too_large(most)));
    }
    let expected = announced.exact().map_or(most, |length| usize::try_from(length).unwrap_or(most));
    let mut memory = BodyMemory::new(session.front.namespace.memory());
    let collecting = async {
        let mut first = Bytes::new();
        let mut all = Vec::new();
        while let Some(frame) = body.frame().await {
            // After an abort the body returns its error at every poll.
            let frame = frame.map_err(|_aborted| broken_off())?;
            let Ok(data) = frame.into_data() else { continue };
            if first.len() + all.len() + data.len() > most {
                return Err(Refusal::too_large(most));
            }
            if !memory.holds(first.len() + all.len() + data.len()) {
                return Err(Refusal::busy(NO_MEMORY));
            }
            if first.is_empty() && all.is_empty() {
                first = data;
                continue;
            }
            all.extend_from_slice(&std::mem::take(&mut first));
            all.extend_from_slice(&data);
        }
        match expected == first.len() + all.len() || announced.exact().is_none() {
            true => Ok(if all.is_empty() { first } else { all.into() }),
            false => Err(broken_off()),
        }
    };
    match tokio::time::timeout(BODY_PATIENCE, collecting).await {
        Ok(collected) => collected.map_err(refused),
        Err(_late) => Err(refused(Refusal::new(408, "The body of the request did not arrive in time."))),
    }
}

fn broken_off() -> Refusal {
    Refusal::new(400, "The body of the request broke off.")
}

fn response(reply: Reply) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(reply.body));
    *response.status_mut() = StatusCode::from_u16(reply.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    // HTTP/2 has none.
    if let Some(reason) =
        reply.reason.as_deref().and_then(|reason| ReasonPhrase::try_from(reply::line(reason)).ok())
    {
        response.extensions_mut().insert(reason);
    }
    let headers = response.headers_mut();
    if let Some(content_type) = reply.content_type
        && let Ok(value) = HeaderValue::from_str(&content_type)
    {
        headers.insert(CONTENT_TYPE, value);
    }
    for (name, value) in reply.fields {
        if let (Ok(name), Ok(value)) = (HeaderName::try_from(&*name), HeaderValue::try_from(value)) {
            headers.append(name, value);
        }
    }
    response
}

const LIMITS: Http2Limits = Http2Limits {
    head_bytes: HEAD_MAX,
    streams: 100,
    // What a client may have on the way before anything of it is looked at.
    stream_window: 64 * 1024,
    connection_window: 128 * 1024,
    silence: Duration::from_secs(300),
    stall: Duration::from_secs(60),
};

/// How long a body may take.
const BODY_PATIENCE: Duration = Duration::from_secs(60);
