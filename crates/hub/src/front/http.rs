//! `/health` and `/metrics` over HTTP.
//!
//! The health answer has the shape of Microsoft's emulator, so that scripts which wait for that one work with this
//! one. Metrics are gathered from the store when they are asked for; nothing is counted twice.

use std::fmt::Write as _;
use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::http::header;
use axum::response::IntoResponse;
use axum::routing::get;
use listen::{AcceptFailures, Acceptor};
use tokio::net::TcpListener;
use tokio::sync::watch;

use super::amqp::{AmqpFront, AmqpFrontCounterValues};
use super::blob::{BlobFront, BlobFrontCounterValues};
use super::queue_metrics;
use crate::counters::CounterValues;
use crate::namespace::{Namespace, Partition};
use crate::profile::ProfileCounterValues;
use blob_store::BlobStoreFigures;
use partition_log::disk::StorageCounters;

/// What the endpoints report on.
#[derive(Debug, Clone)]
pub struct HttpFront {
    namespace: Arc<Namespace>,
    amqp: Arc<AmqpFront>,
    blob: Option<Arc<BlobFront>>,
    accept_failures: Arc<AcceptFailures>,
}

impl HttpFront {
    /// An HTTP front for a namespace, its AMQP front, and the blobs beside it, if there are any. All of them count their
    /// failures to accept in `accept_failures`.
    #[must_use]
    pub const fn new(
        namespace: Arc<Namespace>,
        amqp: Arc<AmqpFront>,
        blob: Option<Arc<BlobFront>>,
        accept_failures: Arc<AcceptFailures>,
    ) -> Self {
        Self { namespace, amqp, blob, accept_failures }
    }

    /// Serves requests until `stop` becomes true, with at most `connections` clients at once.
    pub async fn serve(self, listener: TcpListener, connections: u64, mut stop: watch::Receiver<bool>) {
        let failures = Arc::clone(&self.accept_failures);
        let acceptor = Acceptor::new(listener, "HTTP", failures);
        let router =
            Router::new().route("/health", get(health)).route("/metrics", get(metrics)).with_state(self);
        let stopped = async move { drop(stop.wait_for(|stop| *stop).await) };
        listen::serve_http(acceptor, router, connections, stopped).await;
    }
}

async fn health(State(front): State<HttpFront>) -> impl IntoResponse {
    let health = match front.accept_failures.is_failing() {
        false => r#"{"status":"healthy","message":"Service is healthy."}"#,
        true => {
            r#"{"status":"degraded","message":"Connections cannot be accepted now; those that are open are served."}"#
        }
    };
    ([(header::CONTENT_TYPE, "application/json")], health)
}

async fn metrics(State(front): State<HttpFront>) -> impl IntoResponse {
    ([(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], front.render())
}

/// Which counter of a partition a metric shows.
type Figure = fn(&CounterValues) -> u64;

impl HttpFront {
    /// All metrics in the Prometheus text format.
    #[must_use]
    pub fn render(&self) -> String {
        let mut text = String::new();
        let hubs = self.namespace.hubs();
        let mut family = |name: &str, kind: &str, help: &str, figure: &dyn Fn(&Partition) -> u64| {
            let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}");
            for hub in hubs.iter() {
                for partition in hub.partitions() {
                    let (hub, id) = (hub.name(), partition.id());
                    let _ =
                        writeln!(text, "{name}{{hub=\"{hub}\",partition=\"{id}\"}} {}", figure(partition));
                }
            }
        };
        let counters: [(&str, &str, Figure); 7] = [
            ("parshall_hub_events_in_total", "Events appended.", |values| values.events_in),
            ("parshall_hub_bytes_in_total", "Bytes appended.", |values| values.bytes_in),
            ("parshall_hub_batches_in_total", "Batches appended.", |values| values.batches_in),
            ("parshall_hub_batches_refused_total", "Batches refused because the log was full.", |values| {
                values.batches_refused
            }),
            (
                "parshall_hub_batches_throttled_total",
                "Batches refused because the namespace's quota was used up.",
                |values| values.batches_throttled,
            ),
            ("parshall_hub_events_out_total", "Events delivered, once per reader.", |values| {
                values.events_out
            }),
            ("parshall_hub_bytes_out_total", "Bytes delivered, once per reader.", |values| values.bytes_out),
        ];
        for (name, help, figure) in counters {
            family(name, "counter", help, &|partition| figure(&partition.counters().values()));
        }
        family("parshall_hub_log_bytes", "gauge", "Bytes that the log holds.", &|partition| {
            partition.log().stats().bytes
        });
        if let Some(queues) = self.namespace.queues() {
            queue_metrics::render(queues, &mut text);
        }
        let connections = connection_figures(&self.amqp.counters(), &self.accept_failures);
        let profile = self.namespace.profile().map(|profile| profile.counters());
        let profile = profile.as_ref().map(profile_counters);
        let storage = self.namespace.storage_counters();
        let storage = storage.as_ref().map(storage_counters);
        let blob = self.blob.as_ref().map(|blob| blob_figures(&blob.counters(), &blob.store().figures()));
        for (name, kind, help, figure) in connections
            .into_iter()
            .chain(blob.into_iter().flatten())
            .chain(profile.into_iter().flatten())
            .chain(storage.into_iter().flatten())
        {
            let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}\n{name} {figure}");
        }
        text
    }
}

/// Name, kind, help and figure of connections.
fn connection_figures(
    amqp: &AmqpFrontCounterValues,
    accept_failures: &AcceptFailures,
) -> [(&'static str, &'static str, &'static str, u64); 9] {
    [
        ("parshall_amqp_connections", "gauge", "AMQP connections open now.", amqp.open),
        ("parshall_amqp_connections_maximum", "gauge", "AMQP connections that there may be.", amqp.maximum),
        ("parshall_amqp_connections_total", "counter", "AMQP connections accepted.", amqp.accepted),
        (
            "parshall_amqp_connections_refused_total",
            "counter",
            "AMQP connections for which there was no room.",
            amqp.refused,
        ),
        (
            "parshall_amqp_connections_evicted_total",
            "counter",
            "AMQP connections that made room for others before they had shown a token or a key.",
            amqp.evicted,
        ),
        (
            "parshall_amqp_connections_unproven_total",
            "counter",
            "AMQP connections closed because they showed no token and no key in time.",
            amqp.unproven,
        ),
        (
            "parshall_amqp_partial_message_bytes",
            "gauge",
            "Bytes of messages of which not all frames have come.",
            amqp.partial_bytes,
        ),
        (
            "parshall_amqp_partial_messages_refused_total",
            "counter",
            "Messages refused because unfinished ones held as much memory as they may.",
            amqp.partial_refused,
        ),
        (
            "parshall_accept_failures_total",
            "counter",
            "Attempts to accept a connection that failed, on all addresses.",
            accept_failures.count(),
        ),
    ]
}

/// Name, kind, help and figure of what was done to keep events on a disk.
const fn storage_counters(values: &StorageCounters) -> [(&'static str, &'static str, &'static str, u64); 7] {
    [
        (
            "parshall_hub_storage_rounds_total",
            "counter",
            "Rounds of the committer that wrote something.",
            values.rounds,
        ),
        (
            "parshall_hub_storage_written_bytes_total",
            "counter",
            "Bytes written to segment files.",
            values.bytes_written,
        ),
        ("parshall_hub_storage_syncs_total", "counter", "Segment files synced.", values.syncs),
        (
            "parshall_hub_storage_failures_total",
            "counter",
            "Attempts to write or sync a partition that failed.",
            values.failures,
        ),
        ("parshall_hub_storage_loads_total", "counter", "Segments read back for a reader.", values.loads),
        (
            "parshall_hub_storage_damaged_segments_total",
            "counter",
            "Segments found damaged while they were read back.",
            values.damaged_segments,
        ),
        (
            "parshall_hub_storage_resident_bytes",
            "gauge",
            "Memory that holds segments which are on the disk as well.",
            values.resident_bytes,
        ),
    ]
}

/// Name, kind, help and figure of blobs.
const fn blob_figures(
    front: &BlobFrontCounterValues,
    store: &BlobStoreFigures,
) -> [(&'static str, &'static str, &'static str, u64); 13] {
    [
        ("parshall_blob_connections", "gauge", "Connections for blobs open now.", front.open_connections),
        (
            "parshall_blob_connections_evicted_total",
            "counter",
            "Connections for blobs that made room for others before anything was granted to them.",
            front.evicted_connections,
        ),
        ("parshall_blob_requests_total", "counter", "Requests for blobs answered.", front.requests),
        (
            "parshall_blob_requests_refused_total",
            "counter",
            "Requests for blobs answered with a status from 400 to 499.",
            front.refused,
        ),
        (
            "parshall_blob_requests_failed_total",
            "counter",
            "Requests for blobs answered with a status from 500 on.",
            front.failed,
        ),
        (
            "parshall_blob_bytes_in_total",
            "counter",
            "Bytes of bodies that requests for blobs announced.",
            front.bytes_in,
        ),
        (
            "parshall_blob_bytes_out_total",
            "counter",
            "Bytes of bodies of replies to requests for blobs.",
            front.bytes_out,
        ),
        (
            "parshall_blob_injected_faults_total",
            "counter",
            "Requests for blobs delayed or refused on purpose.",
            front.injected,
        ),
        ("parshall_blob_containers", "gauge", "Containers.", store.containers),
        ("parshall_blob_blobs", "gauge", "Blobs.", store.blobs),
        ("parshall_blob_memory_bytes", "gauge", "Memory that blobs take.", store.memory_bytes),
        (
            "parshall_blob_storage_failures_total",
            "counter",
            "Operations on files of blobs that failed.",
            store.storage_failures,
        ),
        (
            "parshall_blob_damaged_files_total",
            "counter",
            "Files of blobs found damaged, at the start or when they were read.",
            store.damaged_files,
        ),
    ]
}

/// Name, kind, help and figure of what a service profile did.
const fn profile_counters(
    values: &ProfileCounterValues,
) -> [(&'static str, &'static str, &'static str, u64); 7] {
    [
        (
            "parshall_hub_throttled_events_total",
            "counter",
            "Events of batches refused because the quota was used up.",
            values.throttled_events,
        ),
        (
            "parshall_hub_throttled_bytes_total",
            "counter",
            "Bytes of batches refused because the quota was used up.",
            values.throttled_bytes,
        ),
        (
            "parshall_hub_delivery_pauses_total",
            "counter",
            "Times that a connection's readers waited because the quota was used up.",
            values.delivery_pauses,
        ),
        (
            "parshall_hub_injected_send_failures_total",
            "counter",
            "Batches refused on purpose.",
            values.failed_sends,
        ),
        (
            "parshall_hub_injected_acknowledgement_failures_total",
            "counter",
            "Batches stored and answered with an error on purpose.",
            values.unacknowledged_sends,
        ),
        (
            "parshall_hub_injected_detaches_total",
            "counter",
            "Links detached on purpose.",
            values.detached_links,
        ),
        (
            "parshall_hub_injected_disconnects_total",
            "counter",
            "Connections broken on purpose.",
            values.disconnects,
        ),
    ]
}
