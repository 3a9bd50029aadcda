//! `/health` and `/metrics` over HTTP.
//!
//! The health answer has the shape of Microsoft's emulator, so that scripts that wait for the emulator work with this
//! service too. Metrics come from the collectors of whatever is served.

use std::fmt;
use std::sync::Arc;

use hyper::http::request::Parts;
use listen::{AcceptFailures, Acceptor, MetricsWriter, Page};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use prometheus_client::registry::Registry;
use tokio::net::TcpListener;
use tokio::sync::watch;

/// What the endpoints report on.
#[derive(Debug, Clone)]
pub struct OperationsFront {
    registry: Arc<Registry>,
    accept_failures: Arc<AcceptFailures>,
}

impl OperationsFront {
    /// Shows what `collectors` collect, and the failures to accept a connection, which all fronts count in
    /// `accept_failures`.
    #[must_use]
    pub fn new(
        collectors: impl IntoIterator<Item = Box<dyn Collector>>,
        accept_failures: Arc<AcceptFailures>,
    ) -> Self {
        let mut registry = Registry::default();
        for collector in collectors {
            registry.register_collector(collector);
        }
        registry.register_collector(Box::new(AcceptMetrics(Arc::clone(&accept_failures))));
        Self { registry: Arc::new(registry), accept_failures }
    }

    /// Serves requests until `stop` becomes true, with at most `connections` clients at once.
    pub async fn serve(self, listener: TcpListener, connections: u64, mut stop: watch::Receiver<bool>) {
        let acceptor = Acceptor::new(listener, "HTTP", Arc::clone(&self.accept_failures));
        let stopped = async move { drop(stop.wait_for(|stop| *stop).await) };
        let page = move |head: Parts| std::future::ready(self.page(head.uri.path()));
        listen::serve_http(acceptor, page, connections, stopped).await;
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

/// Collects failures to accept a connection.
#[derive(Debug)]
struct AcceptMetrics(Arc<AcceptFailures>);

impl Collector for AcceptMetrics {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let help = "Failed attempts to accept a connection, on all addresses.";
        MetricsWriter::new(encoder).counter("parshall_accept_failures", help, self.0.count())
    }
}
