//! `/health` and `/metrics` over HTTP.
//!
//! The health answer has the shape of Microsoft's emulator, so that scripts that wait for the emulator work with this
//! service too. Metrics come from the collectors of whatever is served.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::{Request, Response};
use listen::http::{PAGE_LIMITS, Page, answer_with_page};
use listen::{AcceptFailures, MetricsWriter, Places};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use prometheus_client::registry::Registry;

use super::server::{self, Client, Service};
use crate::front::listener::{Connection, Front, Gate, WhenFull};

/// The front end for operators. Its clients are never authenticated, so a new one always gets in.
#[derive(Debug)]
pub(crate) struct OperationsFront {
    registry: Registry,
    gate: Gate,
    accept_failures: Arc<AcceptFailures>,
}

impl OperationsFront {
    /// Shows what `collectors` collect, to at most this many clients at once, and the failures to accept a connection, which
    /// all fronts count in `accept_failures`.
    pub(crate) fn new(
        collectors: impl IntoIterator<Item = Box<dyn Collector>>,
        connections: u64,
        accept_failures: Arc<AcceptFailures>,
    ) -> Arc<Self> {
        let gate = Gate::new(connections, WhenFull::Wait, Arc::clone(&accept_failures));
        let mut registry = Registry::default();
        for collector in collectors {
            registry.register_collector(collector);
        }
        let (places, failures) = (Arc::clone(gate.places()), Arc::clone(&accept_failures));
        registry.register_collector(Box::new(ListenerMetrics { places, failures }));
        Arc::new(Self { registry, gate, accept_failures })
    }

    fn page(&self, path: &str) -> Option<Page> {
        match path {
            "/health" => Some(self.health()),
            "/metrics" => Some(self.metrics()),
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

    fn metrics(&self) -> Page {
        Page::metrics(listen::open_metrics(&self.registry))
    }
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

    async fn answer(&self, request: Request<Incoming>, _: &Client<'_>) -> Response<Full<Bytes>> {
        answer_with_page(request, async |head| self.page(head.uri.path())).await
    }
}

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
