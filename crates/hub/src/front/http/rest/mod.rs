//! Event Hubs and Service Bus over HTTP, as scripts, devices and gateways speak it.
//!
//! ```text
//!  stream ─▶ http1 ─┬─▶ session: who asks, for what ─┬─▶ event_hubs   ─▶ partition-log
//!         └▶ http2 ─┘                                ├─▶ service_bus  ─▶ queue-store
//!                                                    ├─▶ administration   queues, topics, subscriptions, rules
//!                                                    └─▶ reads        what a person asks with curl
//! ```
//!
//! * `http1` and `http2` bring requests and take replies away. The former reads heads itself: names of properties keep their letter
//!   case, ambiguous requests are refused, and an event costs no more than its bytes.
//! * `session` is what a connection has shown and what the service profile makes of it; `route` is where a request leads.
//! * `event_hubs`, `service_bus`, `administration` and `reads` carry requests out: each is a call of a store.
//! * `reply` and `refusal` are what clients get, `counters` and `metrics` what went through.
//!
//! Carrying a request out never waits and ends with a [`Step`]: a reply, or what has to come before it. So nothing of a request is
//! held while it waits.

mod administration;
mod body_memory;
mod counters;
mod event_hubs;
mod http1;
mod http2;
mod metrics;
mod reads;
mod refusal;
mod reply;
mod route;
mod service_bus;
mod session;

use std::sync::Arc;

use ::rest::head::{Field, Head};
use amqp_tokio::Stream;
use bytes::Bytes;
use http_body_util::Full;
use hyper::Response;
use listen::http::RequestBody;
use listen::{Place, Places};
use tokio::sync::watch;

use crate::front::pending::Until;
use crate::namespace::Namespace;
use crate::profile::Shaper;

pub(crate) use counters::RestCounters;
pub(crate) use metrics::RestMetrics;

use refusal::Refusal;
use reply::Reply;
use route::Route;
use service_bus::Receiving;
use session::Session;

/// The front end of one namespace.
#[derive(Debug)]
pub(crate) struct RestFront {
    namespace: Arc<Namespace>,
    counters: RestCounters,
    /// Connections over HTTP/2 whose clients have shown no token. Each can hold some 400 KiB.
    unproven_http2: Arc<Places>,
}

/// A request, as far as it is looked at before its body.
#[derive(Debug, Clone, Copy)]
struct Request<'a> {
    method: &'a str,
    target: &'a str,
    fields: &'a [Field<'a>],
}

/// What carrying out a request came to.
#[derive(Debug)]
enum Step {
    /// It is answered.
    Done(Reply),
    /// It is answered once something has happened; if what was stored can't be kept, by a refusal.
    Later { reply: Reply, until: Until },
    /// It waits for a message.
    Receive(Box<Receiving>),
    /// A service profile breaks the connection.
    Break,
}

/// A connection that speaks HTTP.
#[derive(Debug)]
pub(crate) struct HttpConnection {
    pub(crate) stream: Stream,
    pub(crate) version: Version,
    pub(crate) place: Place,
    pub(crate) shaper: Option<Shaper>,
    /// Whether it is encrypted, so that URLs for its client begin with `https`.
    pub(crate) is_secure: bool,
    pub(crate) stop: watch::Receiver<bool>,
}

/// How requests are framed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Version {
    Http1,
    Http2,
}

impl RestFront {
    /// A front end for `namespace`.
    pub(crate) fn new(namespace: Arc<Namespace>) -> Arc<Self> {
        Arc::new(Self {
            namespace,
            counters: RestCounters::default(),
            unproven_http2: Places::new(UNPROVEN_HTTP2_MAX),
        })
    }

    /// Serves a connection until it ends.
    pub(crate) async fn serve(self: Arc<Self>, connection: HttpConnection) {
        let HttpConnection { stream, version, place, shaper, is_secure, stop } = connection;
        let _open = self.counters.opened();
        let session = Arc::new(Session::new(Arc::clone(&self), place, shaper, is_secure));
        match version {
            Version::Http1 => http1::serve(stream, &session, stop).await,
            Version::Http2 => http2::serve(stream, session, stop).await,
        }
    }

    /// Answers a request of administration that came on a connection of another front, as clients of Microsoft's emulator make it at
    /// its port for health. `authorized` is called if its client may make it, before its body is read.
    pub(crate) async fn administer(
        self: &Arc<Self>,
        request: hyper::Request<RequestBody>,
        authorized: impl Fn(),
    ) -> Response<Full<Bytes>> {
        http2::answer(&Session::of_administration(Arc::clone(self)), request, authorized).await
    }

    /// The longest body of a request that sends along `route`. The escapes of a batch may be as many bytes as what they stand for.
    fn longest_body(&self, route: &Route) -> usize {
        let largest = match route {
            Route::Entity(_) => usize::try_from(self.namespace.largest_message()).unwrap_or(usize::MAX),
            _ => event_hubs::PUBLICATION_MAX,
        };
        largest.saturating_mul(2)
    }
}

impl<'a> Request<'a> {
    fn of(head: &Head<'a>) -> Self {
        Self { method: head.method, target: head.target, fields: head.fields }
    }

    /// The value of a field.
    fn field(&self, name: &str) -> Option<&'a [u8]> {
        ::rest::head::field(self.fields, name)
    }

    /// The same as text.
    fn text(&self, name: &str) -> Option<&'a str> {
        self.field(name).and_then(|value| std::str::from_utf8(value).ok())
    }
}

impl From<Result<Reply, Refusal>> for Step {
    fn from(result: Result<Reply, Refusal>) -> Self {
        Self::Done(result.unwrap_or_else(Reply::from))
    }
}

/// Maximum number of connections over HTTP/2 without a token. Beyond it, the oldest one makes room.
const UNPROVEN_HTTP2_MAX: u64 = 128;
