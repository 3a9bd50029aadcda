//! The metrics of the blob front and of its store.

use std::fmt;
use std::sync::Arc;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;

use super::BlobFront;
use crate::metrics::MetricsWriter;

/// Collects the connections and requests of a front end, and what its store holds.
#[derive(Debug)]
pub(crate) struct BlobMetrics(pub(crate) Arc<BlobFront>);

impl Collector for BlobMetrics {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let mut metrics = MetricsWriter::new(encoder);
        let front = self.0.counters();
        let store = self.0.store().figures();
        metrics.gauge(
            "parshall_blob_connections",
            "Connections for blobs open now.",
            front.open_connections,
        )?;
        metrics.counter(
            "parshall_blob_connections_evicted",
            "Connections for blobs that made room for others before anything was granted to them.",
            front.evicted_connections,
        )?;
        metrics.counter("parshall_blob_requests", "Requests for blobs answered.", front.requests)?;
        metrics.counter(
            "parshall_blob_requests_refused",
            "Requests for blobs answered with a status from 400 to 499.",
            front.refused,
        )?;
        metrics.counter(
            "parshall_blob_requests_failed",
            "Requests for blobs answered with a status from 500 on.",
            front.failed,
        )?;
        metrics.counter(
            "parshall_blob_bytes_in",
            "Bytes of bodies that requests for blobs announced.",
            front.bytes_in,
        )?;
        metrics.counter(
            "parshall_blob_bytes_out",
            "Bytes of bodies of replies to requests for blobs.",
            front.bytes_out,
        )?;
        metrics.counter(
            "parshall_blob_injected_faults",
            "Requests for blobs delayed or refused on purpose.",
            front.injected,
        )?;
        metrics.gauge("parshall_blob_containers", "Containers.", store.containers)?;
        metrics.gauge("parshall_blob_blobs", "Blobs.", store.blobs)?;
        metrics.gauge("parshall_blob_memory_bytes", "Memory that blobs take.", store.memory_bytes)?;
        metrics.counter(
            "parshall_blob_storage_failures",
            "Operations on files of blobs that failed.",
            store.storage_failures,
        )?;
        metrics.counter(
            "parshall_blob_damaged_files",
            "Files of blobs found damaged, at the start or when they were read.",
            store.damaged_files,
        )?;
        Ok(())
    }
}
