//! The metrics of the blob front and of its store.

use std::fmt;
use std::sync::Arc;

use listen::MetricsWriter;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;

use super::BlobFront;

/// Collects the connections and requests of a front end, and what its store holds.
#[derive(Debug)]
pub(crate) struct BlobMetrics(pub(crate) Arc<BlobFront>);

impl Collector for BlobMetrics {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let mut metrics = MetricsWriter::new(encoder);
        let front = self.0.counters();
        let store = self.0.store().figures();
        metrics.gauge("parshall_blob_connections", "Open blob connections.", front.open_connections)?;
        metrics.counter(
            "parshall_blob_connections_evicted",
            "Blob connections without an authorized request, closed to make room for others.",
            front.evicted_connections,
        )?;
        metrics.counter("parshall_blob_requests", "Blob requests answered.", front.requests)?;
        metrics.counter(
            "parshall_blob_requests_refused",
            "Blob requests answered with a status from 400 to 499.",
            front.refused,
        )?;
        metrics.counter(
            "parshall_blob_requests_failed",
            "Blob requests answered with a status of 500 or above.",
            front.failed,
        )?;
        metrics.counter(
            "parshall_blob_bytes_in",
            "Bytes of request bodies, as announced.",
            front.bytes_in,
        )?;
        let refusals = self.0.refusals.counts();
        let series = refusals.iter().map(|(operation, code, count)| {
            ([("operation", operation.as_str()), ("code", code.as_str())], *count)
        });
        metrics.counters(
            "parshall_blob_refusals",
            "Blob requests answered with an error, by operation and code.",
            series,
        )?;
        metrics.counter("parshall_blob_bytes_out", "Bytes of reply bodies.", front.bytes_out)?;
        metrics.counter(
            "parshall_blob_injected_faults",
            "Blob requests delayed or refused by injection.",
            front.injected,
        )?;
        metrics.gauge("parshall_blob_containers", "Containers.", store.containers)?;
        metrics.gauge("parshall_blob_blobs", "Blobs.", store.blobs)?;
        metrics.gauge("parshall_blob_memory_bytes", "Memory used by blobs.", store.memory_bytes)?;
        metrics.counter(
            "parshall_blob_storage_failures",
            "Failed operations on blob files.",
            store.storage_failures,
        )?;
        metrics.counter(
            "parshall_blob_damaged_files",
            "Blob files found damaged, at the start or when read.",
            store.damaged_files,
        )?;
        Ok(())
    }
}
