//! `/metrics`, `/live` and `/ready` of a relay that runs on its own, or of several that run together.
//!
//! `/live`, which is also `/health`, is about the process: it is 200 while the relay's loop answers, whatever its services do,
//! since starting it anew would not help. `/ready` is about its work: 503 with the reasons while events can't be carried.
//!
//! Whoever asks must not hold up the events. Connections are served on a thread that gives way to all others, and the loop
//! of a relay is asked for its figures eight times a second at the most: so much for a thousand scrapes a second as for eight.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use connect::identity::Identity;
use hyper::StatusCode;
use hyper::header::{ACCEPT, HeaderMap};
use hyper::http::request::Parts;
use listen::http::{Page, serve_pages_beside};
use listen::{Exposition, Recent};
use telemetry::MetricsPage;

use super::{Metrics, MetricsHandle, prometheus};

/// The relays of a process: one, or one for each of several topics. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct Relays {
    relays: Arc<Mutex<BTreeMap<Option<String>, Carried>>>,
    recent: Arc<Recent<Snapshot>>,
}

/// What the relays said of themselves at one moment.
#[derive(Debug)]
struct Snapshot {
    relays: Vec<(Option<String>, Metrics)>,
    page: OnceLock<Exposition>,
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
        let relays = BTreeMap::from([(None, Carried::By(relay))]);
        Self { relays: Arc::new(Mutex::new(relays)), recent: Arc::default() }
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

    /// What all that have begun say of themselves, unless one of them has ended or its loop stands still.
    async fn snapshot(&self) -> Option<Arc<Snapshot>> {
        let relays = self.lock().clone();
        let has_ended = |relay: &Carried| matches!(relay, Carried::By(handle) if handle.has_ended());
        if relays.values().any(has_ended) {
            return None;
        }
        self.recent.get(Snapshot::of(relays)).await
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

/// What is exported is what the page has: nothing if a relay has ended or does not answer.
impl MetricsPage for Relays {
    async fn page(&self) -> Option<String> {
        Some(self.snapshot().await?.page().open_metrics().to_owned())
    }
}

impl Snapshot {
    async fn of(relays: BTreeMap<Option<String>, Carried>) -> Option<Self> {
        let mut all = Vec::with_capacity(relays.len());
        for (topic, relay) in relays {
            if let Carried::By(handle) = relay {
                all.push((topic, tokio::time::timeout(PATIENCE, handle.metrics()).await.ok().flatten()?));
            }
        }
        Some(Self { relays: all, page: OnceLock::new() })
    }

    fn page(&self) -> &Exposition {
        self.page.get_or_init(|| Exposition::with_process(prometheus::render_all(&self.relays)))
    }
}

/// The last page of a relay that has ended.
#[must_use]
pub fn last_page(metrics: Metrics) -> String {
    Exposition::with_process(prometheus::render(metrics)).open_metrics().to_owned()
}

/// Serves the pages over HTTP for as long as the process lives, beside the work of its relays.
///
/// # Errors
/// The system gives no thread for it.
pub fn serve(listener: std::net::TcpListener, relays: impl Into<Relays>) -> io::Result<()> {
    let relays = relays.into();
    let page = move |head: Parts| {
        let relays = relays.clone();
        async move { page(&relays, &head).await }
    };
    serve_pages_beside(listener, "metrics", page, CONNECTIONS_MAX)
}

async fn page(relays: &Relays, head: &Parts) -> Option<Page> {
    match head.uri.path() {
        "/metrics" => Some(metrics(relays, &head.headers).await),
        "/live" | "/health" => Some(live(relays).await),
        "/ready" => Some(ready(relays, &head.headers).await),
        _ => None,
    }
}

async fn metrics(relays: &Relays, headers: &HeaderMap) -> Page {
    relays.snapshot().await.map_or_else(ended, |snapshot| snapshot.page().page(headers))
}

/// A relay is alive if its loop answers.
async fn live(relays: &Relays) -> Page {
    let alive = |snapshot: Arc<Snapshot>| {
        let open: u64 = snapshot.relays.iter().map(|(_, metrics)| metrics.open_partitions).sum();
        Page::plain(format!("ok, {open} partitions open\n"))
    };
    relays.snapshot().await.map_or_else(ended, alive)
}

/// A relay is ready if it carries events, as far as there are any.
async fn ready(relays: &Relays, headers: &HeaderMap) -> Page {
    let Some(snapshot) = relays.snapshot().await else {
        return ended();
    };
    let all: Vec<_> =
        snapshot.relays.iter().map(|(topic, metrics)| (topic.clone(), metrics.health.clone())).collect();
    let waiting = relays.waiting();
    let status = match waiting.is_empty() && all.iter().all(|(_, health)| health.is_ready()) {
        true => StatusCode::OK,
        false => StatusCode::SERVICE_UNAVAILABLE,
    };
    // Events are carried as long as the tokens that there are still serve.
    let troubles = Identity::of_process().troubles();
    let warnings: Vec<_> = troubles.iter().map(|trouble| format!("identity: {trouble}")).collect();
    let accepts = headers.get(ACCEPT).and_then(|accepts| accepts.to_str().ok());
    let page = match accepts.is_some_and(|accepts| accepts.contains("application/json")) {
        true => Page::json(super::health::json(&all, &waiting, &warnings)),
        false => Page::plain(super::health::text(&all, &waiting, &warnings)),
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
    use hyper::Request;

    use super::*;
    use crate::metrics::MetricsRequests;

    async fn fetched(relays: &Relays, path: &str) -> (StatusCode, String) {
        let (head, ()) = Request::get(path).body(()).expect("a request").into_parts();
        let page = page(relays, &head).await.expect("there is such a page");
        (page.status, String::from_utf8(page.text.into()).expect("text"))
    }

    /// Answers requests for metrics until `stop` is ready; gives how many there were.
    async fn answer(mut requests: MetricsRequests, stop: tokio::sync::oneshot::Receiver<()>) -> usize {
        let mut answered = 0;
        let mut stop = std::pin::pin!(stop);
        loop {
            tokio::select! {
                request = requests.receiver.recv() => {
                    answered += 1;
                    _ = request.expect("it has a sender of its own").send(Metrics::new());
                }
                _ = &mut stop => return answered,
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn metrics_and_liveness_are_told_while_the_relay_answers_and_not_after() {
        let requests = MetricsRequests::new();
        let relays = Relays::from(requests.handle());
        let (stop, stopped) = tokio::sync::oneshot::channel();
        let relay = tokio::spawn(answer(requests, stopped));
        let (status, metrics) = fetched(&relays, "/metrics").await;
        assert_eq!(status, StatusCode::OK);
        for line in
            ["# TYPE parshall_relay_received_events_total counter", "parshall_relay_received_events_total 0"]
        {
            assert!(metrics.lines().any(|have| have == line), "{line} is not in {metrics}");
        }
        assert!(metrics.contains("process_resident_memory_bytes "), "{metrics}");
        for path in ["/live", "/health"] {
            assert_eq!(fetched(&relays, path).await, (StatusCode::OK, "ok, 0 partitions open\n".to_owned()));
        }
        stop.send(()).expect("it answers");
        relay.await.expect("no panic");
        assert_eq!(fetched(&relays, "/live").await.0, StatusCode::SERVICE_UNAVAILABLE);
        assert_eq!(fetched(&relays, "/metrics").await.0, StatusCode::SERVICE_UNAVAILABLE);
    }

    #[tokio::test(start_paused = true)]
    async fn a_thousand_scrapes_a_second_ask_the_loop_nine_times_a_second_at_most() {
        let requests = MetricsRequests::new();
        let relays = Relays::from(requests.handle());
        let (stop, stopped) = tokio::sync::oneshot::channel();
        let relay = tokio::spawn(answer(requests, stopped));
        for _ in 0..2_000 {
            assert_eq!(fetched(&relays, "/ready").await.0, StatusCode::OK);
            tokio::time::advance(Duration::from_millis(1)).await;
        }
        stop.send(()).expect("it answers");
        let asked = relay.await.expect("no panic");
        assert!(asked <= 2 * 8 + 8, "{asked} times in two seconds");
    }
}
