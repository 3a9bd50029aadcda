//! `/health`, `/live`, `/ready` and `/metrics` over HTTP, and administration beside them.
//!
//! The health answer has the shape of Microsoft's emulator, so that scripts that wait for the emulator work with this
//! service too. `/live` is 200 as long as the service answers at all; `/ready` is 503 with the reasons while clients can't
//! connect, or a log takes no events. Metrics come from the collectors of whatever is served. What is shown is found out eight
//! times a second at the most, however many ask. Where time is under control, `/time` shows and advances it.
//!
//! Microsoft's emulator has administration on this port, too, so that tools give administration clients the port for health. Whatever
//! is none of the pages is a request of administration: it needs a token, and is answered as on the port for AMQP.

use std::fmt;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use http_body_util::Full;
use hyper::header::{ACCEPT, AUTHORIZATION, HeaderMap};
use hyper::{Method, Request, Response, StatusCode};
use listen::http::{PAGE_LIMITS, Page, RequestBody, answer_with_page};
use listen::{AcceptFailures, Exposition, MetricsWriter, Places, ProcessMetrics, Recent};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use prometheus_client::registry::Registry;

use super::rest::RestFront;
use super::server::{self, Client, Service};
use super::time;
use crate::front::listener::{Connection, Front, Gate, WhenFull};
use crate::namespace::Namespace;
use crate::service::TimeControl;

/// The front end for operators. Its clients are never authenticated, so a new one always gets in.
#[derive(Debug)]
pub(crate) struct OperationsFront {
    namespace: Arc<Namespace>,
    registry: Arc<Registry>,
    gate: Gate,
    accept_failures: Arc<AcceptFailures>,
    metrics: Recent<Exposition>,
    reasons: Recent<Vec<Reason>>,
    time_control: Option<TimeControl>,
    administration: Arc<RestFront>,
}

/// Why the service is not ready.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Reason {
    place: &'static str,
    description: String,
}

impl OperationsFront {
    /// Shows what `collectors` collect of the service of `namespace`, to at most this many clients at once, and the failures
    /// to accept a connection, which all fronts count in `accept_failures`. Shows and advances the time by `time_control`, and leaves
    /// requests of administration to `administration`.
    pub(crate) fn new(
        namespace: Arc<Namespace>,
        collectors: impl IntoIterator<Item = Box<dyn Collector>>,
        connections: u64,
        accept_failures: Arc<AcceptFailures>,
        time_control: Option<TimeControl>,
        administration: Arc<RestFront>,
    ) -> Arc<Self> {
        let gate = Gate::new(connections, WhenFull::Wait, Arc::clone(&accept_failures));
        let mut registry = Registry::default();
        for collector in collectors {
            registry.register_collector(collector);
        }
        let (places, failures) = (Arc::clone(gate.places()), Arc::clone(&accept_failures));
        registry.register_collector(Box::new(ListenerMetrics { places, failures }));
        registry.register_collector(Box::new(ProcessMetrics));
        let (metrics, reasons) = (Recent::default(), Recent::default());
        let registry = Arc::new(registry);
        Arc::new(Self {
            namespace,
            registry,
            gate,
            accept_failures,
            metrics,
            reasons,
            time_control,
            administration,
        })
    }

    /// Returns all metrics as text, as they are now.
    pub(crate) async fn open_metrics(&self) -> String {
        self.written().await.unwrap_or_default()
    }

    /// Returns all metrics, at most a second old. Clients of the page are unknown, so that they share what was read lately.
    async fn metrics(&self) -> Option<Arc<Exposition>> {
        self.metrics.get(async { self.written().await.map(Exposition::new) }).await
    }

    async fn written(&self) -> Option<String> {
        let registry = Arc::clone(&self.registry);
        // Elsewhere, since those of thousands of hubs take a while.
        tokio::task::spawn_blocking(move || listen::open_metrics(&registry)).await.ok()
    }

    async fn page(&self, path: &str, headers: &HeaderMap) -> Option<Page> {
        match path {
            "/health" => Some(self.health()),
            "/live" => Some(Page::plain("ok\n")),
            "/ready" => Some(self.ready(headers).await),
            "/metrics" => self.metrics().await.map(|metrics| metrics.page(headers)),
            time::PATH => Some(time::page(self.time_control.as_ref())),
            _ => None,
        }
    }

    fn health(&self) -> Page {
        Page::json(match self.accept_failures.is_failing() {
            false => r#"{"status":"healthy","message":"Service is healthy."}"#,
            true => {
                r#"{"status":"degraded","message":"Connections cannot be accepted now; those that are open are served."}"#
            }
        })
    }

    async fn ready(&self, headers: &HeaderMap) -> Page {
        let reasons = self.reasons.get(async { Some(self.reasons()) }).await.unwrap_or_default();
        let accepts = headers.get(ACCEPT).and_then(|accepts| accepts.to_str().ok());
        let page = match accepts.is_some_and(|accepts| accepts.contains("application/json")) {
            true => Page::json(json(&reasons)),
            false => Page::plain(text(&reasons)),
        };
        page.with_status(match reasons.is_empty() {
            true => StatusCode::OK,
            false => StatusCode::SERVICE_UNAVAILABLE,
        })
    }

    /// Why clients can't do all that they should be able to; nothing if they can.
    fn reasons(&self) -> Vec<Reason> {
        let mut reasons = Vec::new();
        if self.accept_failures.is_failing() {
            let description = "connections can't be accepted now; those that are open are served".to_owned();
            reasons.push(Reason { place: "listener", description });
        }
        let troubles = self.namespace.identity().into_iter().flat_map(|identity| identity.troubles());
        reasons.extend(troubles.map(|description| Reason { place: "identity", description }));
        for hub in self.namespace.hubs().iter() {
            let refusals = hub.partitions().iter().filter_map(|partition| partition.log().unavailable());
            let refusals: Vec<_> = refusals.collect();
            if let Some(first) = refusals.first() {
                let (count, all) = (refusals.len(), hub.partitions().len());
                let description =
                    format!("{count} of {all} partitions of hub {} take no events: {first}", hub.name());
                reasons.push(Reason { place: "storage", description });
            }
        }
        reasons
    }
}

fn text(reasons: &[Reason]) -> String {
    let mut text = if reasons.is_empty() { "ready\n" } else { "not ready\n" }.to_owned();
    for Reason { place, description } in reasons {
        text.push_str(&format!("{place}: {description}\n"));
    }
    text
}

fn json(reasons: &[Reason]) -> String {
    let told = reasons.iter();
    let told: Vec<_> = told
        .map(|Reason { place, description }| serde_json::json!({"place": place, "description": description}))
        .collect();
    serde_json::json!({"ready": reasons.is_empty(), "reasons": told}).to_string()
}

impl Front for OperationsFront {
    fn gate(&self) -> &Gate {
        &self.gate
    }

    async fn serve_connection(&self, connection: Connection) {
        server::serve(self, connection, &PAGE_LIMITS).await;
    }
}

impl Service for OperationsFront {
    type Body = Full<Bytes>;

    async fn answer(&self, request: Request<RequestBody>, client: &Client<'_>) -> Response<Full<Bytes>> {
        if request.uri().path() == time::ADVANCE_PATH {
            return time::advance(self.time_control.as_ref(), request, client).await;
        }
        if is_administration(&request) {
            // An authorised request is not cut off by others that come.
            return self.administration.administer(request, || client.prove()).await;
        }
        answer_with_page(request, async |head| self.page(head.uri.path(), &head.headers).await).await
    }
}

/// Whether a request is one of administration. Its clients send a token, and name the version of the protocol; a person or a probe that
/// asks for a page that is not there does neither.
fn is_administration(request: &Request<RequestBody>) -> bool {
    let is_page = PAGES.contains(&request.uri().path());
    let looks = matches!(*request.method(), Method::GET | Method::HEAD)
        && !request.headers().contains_key(AUTHORIZATION)
        && !request.uri().query().is_some_and(|query| query.contains("api-version="));
    !is_page && !looks
}

const PAGES: [&str; 5] = ["/health", "/live", "/ready", "/metrics", time::PATH];

/// Collects the connections of operators that had to make room, and failures to accept a connection.
#[derive(Debug)]
struct ListenerMetrics {
    places: Arc<Places>,
    failures: Arc<AcceptFailures>,
}

impl Collector for ListenerMetrics {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let mut metrics = MetricsWriter::new(encoder);
        let help = "Connections for health and metrics closed to make room for others.";
        metrics.counter("parshall_operations_connections_evicted", help, self.places.evicted())?;
        let help = "Failed attempts to accept a connection, on all addresses.";
        metrics.counter("parshall_accept_failures", help, self.failures.count())
    }
}

/// Collects when the certificate of the TLS listeners expires.
#[derive(Debug)]
pub(crate) struct CertificateMetrics(pub(crate) SystemTime);

impl Collector for CertificateMetrics {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let Self(expiry) = self;
        let seconds = expiry.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64();
        let help = "When the certificate for TLS expires, in seconds since the Unix epoch.";
        MetricsWriter::new(encoder).gauge("parshall_hub_certificate_expiry_timestamp_seconds", help, seconds)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn readiness_has_its_reasons_as_text_and_as_json() {
        assert_eq!(text(&[]), "ready\n");
        let description = "4 of 4 partitions of hub a take no events: the disk is full".to_owned();
        let reasons = [Reason { place: "storage", description }];
        let expected = "not ready\nstorage: 4 of 4 partitions of hub a take no events: the disk is full\n";
        assert_eq!(text(&reasons), expected);
        let shown: serde_json::Value = serde_json::from_str(&json(&reasons)).unwrap();
        assert_eq!((&shown["ready"], &shown["reasons"][0]["place"]), (&false.into(), &"storage".into()));
    }
}
