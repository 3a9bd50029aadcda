//! The explorer page: what people look at and do while they work against the service.
//!
//! ```text
//! GET  /                          the page, from `page/`
//! GET  /api/overview[/live]       everything at a glance; live: an event each second
//! GET  /api/hub[/event|/tail]     a hub, one event, or its events as they come
//! GET  /api/queue[/messages|…]    a queue, a subscription, or the dead letters of either
//! POST /api/…                     what changes something
//! ```
//!
//! * `guard` says which requests are answered at all: the page asks for no key, so another page in the same browser must neither
//!   read nor change anything.
//! * `overview`, `hub`, `queue` and `rules` find out; `changes` and `send` change; `profile` has the service fail on purpose; `tail`
//!   follows a hub.
//! * `message` is an event or a message as JSON, `filter` which events a tail shows.
//! * `reply` are the responses, `live` those that go on.
//!
//! Nothing is done per event or message unless it is shown. What is open costs a bounded share of one core: the overview is found
//! out more seldom the longer that takes, and a tail looks at so many events at a time, and counts those that it passes over.

mod assets;
mod changes;
mod filter;
mod guard;
mod hub;
mod live;
mod message;
mod overview;
mod profile;
mod query;
mod queue;
mod reply;
mod rules;
mod send;
mod tail;

use std::sync::Arc;
use std::time::Duration;

use hyper::http::request::Parts;
use hyper::{Method, Request, Response};
use listen::AcceptFailures;
use listen::http::{Limits, RequestBody};
use partition_log::UnixTime;
use tokio::sync::watch;

use super::server::{self, Client, Service};
use crate::front::amqp::MAX_MESSAGE_SIZE;
use crate::front::listener::{Clients, Connection, Front, Gate, WhenFull};
use crate::groups::Groups;
use crate::namespace::Namespace;
use overview::Overview;
use query::Query;
use reply::{Body, Refusal, Reply};

/// The front end for people. Its clients show no key, so a new one always gets in.
#[derive(Debug)]
pub(crate) struct ExplorerFront {
    namespace: Arc<Namespace>,
    overview: Arc<Overview>,
    gate: Gate,
    /// Becomes true when the service stops: what goes on ends then.
    stop: watch::Receiver<bool>,
}

/// What is shown.
#[derive(Debug)]
pub(crate) struct ExplorerParts {
    pub(crate) namespace: Arc<Namespace>,
    /// Kafka's consumer groups, where Kafka is served.
    pub(crate) groups: Option<Arc<Groups>>,
    /// The connections of each front.
    pub(crate) clients: Vec<Arc<Clients>>,
}

impl ExplorerFront {
    /// Shows `parts` to at most this many `connections` at once, until `stop` becomes true. Failures to accept are counted in
    /// `failures`.
    pub(crate) fn new(
        parts: ExplorerParts,
        connections: u64,
        failures: Arc<AcceptFailures>,
        stop: watch::Receiver<bool>,
    ) -> Arc<Self> {
        let namespace = Arc::clone(&parts.namespace);
        let gate = Gate::new(connections, WhenFull::Wait, failures);
        Arc::new(Self { namespace, overview: Arc::new(Overview::new(parts)), gate, stop })
    }

    async fn carry_out(&self, head: &Parts, body: RequestBody) -> Result<Reply, Refusal> {
        guard::check_host(head, self.namespace.host())?;
        let path = head.uri.path();
        let Some(path) = path.strip_prefix("/api/") else {
            return match head.method {
                Method::GET | Method::HEAD => assets::find(head),
                _ => Err(Refusal::method("GET, HEAD")),
            };
        };
        match head.method {
            Method::GET => {
                guard::check_reading(head)?;
                self.read(path, &Query::of(head)).await
            }
            Method::POST => {
                guard::check_changing(head)?;
                let content = reply::content(body, self.body_max()).await?;
                self.change(path, &content).await
            }
            _ => Err(Refusal::method("GET, POST")),
        }
    }

    async fn read(&self, path: &str, query: &Query<'_>) -> Result<Reply, Refusal> {
        match path {
            "overview" => Ok(reply::json_text(self.overview.get().await)),
            "overview/live" => Ok(live::overview(Arc::clone(&self.overview), self.stop.clone())),
            "clients" => Ok(reply::json(&self.overview.clients())),
            "hub" => self.hub(query),
            "hub/event" => self.event(query).await,
            "hub/tail" => self.tail(query),
            "queue" => self.queue(query),
            "queue/messages" => self.messages(query),
            "queue/message" => self.message(query),
            "queue/sessions" => self.sessions(query),
            "topic" => self.topic(query),
            "profile" => Ok(self.profile()),
            _ => Err(Refusal::not_found("there is nothing at this path")),
        }
    }

    async fn change(&self, path: &str, content: &[u8]) -> Result<Reply, Refusal> {
        match path {
            "send" => self.send(reply::parse(content)?).await,
            "queue/resubmit" => self.resubmit(reply::parse(content)?).await,
            "queue/remove" => self.remove(reply::parse(content)?).await,
            "queue/purge" => self.purge(reply::parse(content)?).await,
            "profile" => self.set_profile(&reply::parse(content)?),
            "rules/add" => self.add_rule(reply::parse(content)?).await,
            "rules/remove" => self.remove_rule(reply::parse(content)?).await,
            "rules/try" => self.try_rule(reply::parse(content)?),
            _ => Err(Refusal::not_found("there is nothing at this path")),
        }
    }

    /// The longest body of a request: the largest event or message, with escapes that may be twice as long as what they stand for.
    fn body_max(&self) -> usize {
        let largest = self.namespace.largest_message().max(MAX_MESSAGE_SIZE);
        let largest = usize::try_from(largest).unwrap_or(usize::MAX);
        largest.saturating_mul(2).saturating_add(64 * 1024)
    }

    fn now(&self) -> UnixTime {
        self.namespace.clock().unix_time()
    }
}

impl Front for ExplorerFront {
    fn gate(&self) -> &Gate {
        &self.gate
    }

    async fn serve_connection(&self, connection: Connection) {
        server::serve(self, connection, &LIMITS).await;
    }
}

impl Service for ExplorerFront {
    type Body = Body;

    async fn answer(&self, request: Request<RequestBody>, client: &Client<'_>) -> Response<Body> {
        let (head, body) = request.into_parts();
        let mut response = self.carry_out(&head, body).await.unwrap_or_else(|refusal| {
            tracing::debug!(peer = %client.peer.address, path = head.uri.path(), %refusal, "refused");
            refusal.reply()
        });
        guard::secure(response.headers_mut());
        response
    }
}

/// What a connection may take. None is ever proven, so that the oldest makes room for a new one; a browser comes again.
const LIMITS: Limits = Limits {
    head_bytes: 16 * 1024,
    buffer_bytes: 64 * 1024,
    head: Duration::from_secs(10),
    silence: Duration::from_secs(60),
    stall: Duration::from_secs(30),
    unproven: Duration::from_secs(24 * 3600),
    keep_alive: true,
};
