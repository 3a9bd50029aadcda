//! `/metrics`, `/health` and `/ready` of a relay that runs on its own, or of several that run together.
//!
//! `/health` is about the process: it is 200 while the relay's loop answers, whatever its services do, since starting it anew
//! would not help. `/ready` is about its work: 503 with the reasons while events can't be carried.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use hyper::StatusCode;
use hyper::header::{ACCEPT, HeaderMap};
use hyper::http::request::Parts;
use listen::Acceptor;
use listen::http::{Page, serve_pages};
use tokio::net::TcpListener;

use super::{Metrics, MetricsHandle, prometheus};

/// The relays of a process: one, or one for each of several topics. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct Relays {
    relays: Arc<Mutex<BTreeMap<Option<String>, Carried>>>,
}

/// What is known of a relay.
#[derive(Clone, Debug)]
enum Carried {
    By(MetricsHandle),
    /// It can't begin, and why.
    NotYet(String),
}

impl From<MetricsHandle> for Relays {
    fn from(relay: MetricsHandle) -> Self {
        Self { relays: Arc::new(Mutex::new(BTreeMap::from([(None, Carried::By(relay))]))) }
    }
}

impl Relays {
    /// The relay of a topic has begun. Its metrics have the topic as a label.
    pub fn add(&self, topic: &str, relay: MetricsHandle) {
        self.lock().insert(Some(topic.to_owned()), Carried::By(relay));
    }

    /// The relay of a topic can't begin, which is tried again: until then nothing is ready.
    pub fn add_waiting(&self, topic: &str, reason: String) {
        self.lock().insert(Some(topic.to_owned()), Carried::NotYet(reason));
    }

    /// Forgets those that can't begin and are no more.
    pub fn retain_waiting(&self, is_there: impl Fn(&str) -> bool) {
        self.lock().retain(|topic, relay| match (topic, relay) {
            (Some(topic), Carried::NotYet(_)) => is_there(topic),
            _ => true,
        });
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Option<String>, Carried>> {
        self.relays.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The metrics of all that have begun, unless one of them has ended or its loop stands still.
    async fn metrics(&self) -> Option<Vec<(Option<String>, Metrics)>> {
        let relays = self.lock().clone();
        let mut all = Vec::with_capacity(relays.len());
        for (topic, relay) in relays {
            if let Carried::By(handle) = relay {
                all.push((topic, tokio::time::timeout(PATIENCE, handle.metrics()).await.ok().flatten()?));
            }
        }
        Some(all)
    }

    /// Those that can't begin, and why.
    fn waiting(&self) -> Vec<(Option<String>, String)> {
        let relays = self.lock();
        let waiting = relays.iter().filter_map(|(topic, relay)| match relay {
            Carried::By(_) => None,
            Carried::NotYet(reason) => Some((topic.clone(), reason.clone())),
        });
        waiting.collect()
    }
}

/// Serves the metrics over HTTP until `shutdown` is ready.
pub async fn serve(
    listener: TcpListener,
    relays: impl Into<Relays>,
    shutdown: impl Future<Output = ()> + Send + 'static,
) {
    let relays = relays.into();
    let page = move |head: Parts| {
        let relays = relays.clone();
        async move {
            match head.uri.path() {
                "/metrics" => Some(metrics(&relays).await),
                "/health" => Some(health(&relays).await),
                "/ready" => Some(ready(&relays, &head.headers).await),
                _ => None,
            }
        }
    };
    let acceptor = Acceptor::new(listener, "metrics", Arc::default());
    serve_pages(acceptor, page, CONNECTIONS_MAX, shutdown).await;
}

async fn metrics(relays: &Relays) -> Page {
    relays.metrics().await.map_or_else(ended, |all| Page::metrics(prometheus::render_all(all)))
}

/// A relay is healthy if its loop answers.
async fn health(relays: &Relays) -> Page {
    let healthy = |all: Vec<(Option<String>, Metrics)>| {
        let open: u64 = all.iter().map(|(_, metrics)| metrics.open_partitions).sum();
        Page::plain(format!("ok, {open} partitions open\n"))
    };
    relays.metrics().await.map_or_else(ended, healthy)
}

/// A relay is ready if it carries events, as far as there are any.
async fn ready(relays: &Relays, headers: &HeaderMap) -> Page {
    let Some(all) = relays.metrics().await else {
        return ended();
    };
    let all: Vec<_> = all.into_iter().map(|(topic, metrics)| (topic, metrics.health)).collect();
    let waiting = relays.waiting();
    let status = match waiting.is_empty() && all.iter().all(|(_, health)| health.is_ready()) {
        true => StatusCode::OK,
        false => StatusCode::SERVICE_UNAVAILABLE,
    };
    let accepts = headers.get(ACCEPT).and_then(|accepts| accepts.to_str().ok());
    let page = match accepts.is_some_and(|accepts| accepts.contains("application/json")) {
        true => Page::json(super::health::json(&all, &waiting)),
        false => Page::plain(super::health::text(&all, &waiting)),
    };
    page.with_status(status)
}

fn ended() -> Page {
    Page::plain("the relay has exited or does not answer\n").with_status(StatusCode::SERVICE_UNAVAILABLE)
}

/// A loop that does not answer for so long stands still.
const PATIENCE: Duration = Duration::from_secs(10);

/// Connections at once; a new one takes the place of the oldest.
const CONNECTIONS_MAX: u64 = 32;

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpStream;
    use tokio::sync::oneshot;

    use super::*;
    use crate::metrics::MetricsRequests;

    async fn fetched(listener: &std::net::SocketAddr, path: &str) -> String {
        let mut stream = TcpStream::connect(listener).await.expect("somebody listens");
        let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await.expect("sent");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.expect("answered");
        answer
    }

    #[tokio::test]
    async fn metrics_and_health_are_served_while_the_relay_answers_and_not_after() {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("bound");
        let mut requests = MetricsRequests::new();
        let (stop, stopped) = oneshot::channel::<()>();
        let shutdown = async { _ = stopped.await };
        let server = tokio::spawn(serve(listener, requests.handle(), shutdown));
        let relay = tokio::spawn(async move {
            for _ in 0..2 {
                let request = requests.receiver.recv().await.expect("a reader asks");
                _ = request.send(Metrics::new());
            }
        });
        let metrics = fetched(&address, "/metrics").await;
        assert!(metrics.starts_with("HTTP/1.1 200"), "{metrics}");
        assert!(metrics.contains("content-type: application/openmetrics-text"), "{metrics}");
        assert!(metrics.contains("parshall_relay_received_events_total 0"), "{metrics}");
        let health = fetched(&address, "/health").await;
        assert!(
            health.starts_with("HTTP/1.1 200") && health.ends_with("ok, 0 partitions open\n"),
            "{health}"
        );
        relay.await.expect("both were answered");
        assert!(fetched(&address, "/health").await.starts_with("HTTP/1.1 503"));
        stop.send(()).expect("the server waits for it");
        server.await.expect("no panic");
    }
}
