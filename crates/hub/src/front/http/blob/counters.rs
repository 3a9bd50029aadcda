//! What passed through the blob front.

use std::sync::atomic::{AtomicU64, Ordering};

use hyper::StatusCode;

/// The running counters.
#[derive(Debug, Default)]
pub struct BlobFrontCounters {
    open_connections: AtomicU64,
    requests: AtomicU64,
    refused: AtomicU64,
    failed: AtomicU64,
    bytes_in: AtomicU64,
    bytes_out: AtomicU64,
}

/// Counters as they stood at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BlobFrontCounterValues {
    /// Connections open now.
    pub open_connections: u64,
    /// Connections that made room for others before anything was granted to them.
    pub evicted_connections: u64,
    /// Requests answered.
    pub requests: u64,
    /// Of these, with a status from 400 to 499.
    pub refused: u64,
    /// Of these, with a status from 500 on.
    pub failed: u64,
    /// Bytes of bodies that requests announced.
    pub bytes_in: u64,
    /// Bytes of bodies of replies.
    pub bytes_out: u64,
    /// Requests that were delayed or refused on purpose.
    pub injected: u64,
}

/// Counts a connection as long as it lives.
#[derive(Debug)]
pub(super) struct Open<'a>(&'a AtomicU64);

impl BlobFrontCounters {
    pub(super) fn opened(&self) -> Open<'_> {
        self.open_connections.fetch_add(1, Ordering::Relaxed);
        Open(&self.open_connections)
    }

    pub(super) fn received(&self, bytes: u64) {
        self.bytes_in.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(super) fn answered(&self, status: StatusCode, bytes: u64) {
        self.requests.fetch_add(1, Ordering::Relaxed);
        self.bytes_out.fetch_add(bytes, Ordering::Relaxed);
        if status.is_client_error() {
            self.refused.fetch_add(1, Ordering::Relaxed);
        } else if status.is_server_error() {
            self.failed.fetch_add(1, Ordering::Relaxed);
        }
    }

    pub(super) fn values(&self, injected: u64, evicted: u64) -> BlobFrontCounterValues {
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        BlobFrontCounterValues {
            open_connections: load(&self.open_connections),
            evicted_connections: evicted,
            requests: load(&self.requests),
            refused: load(&self.refused),
            failed: load(&self.failed),
            bytes_in: load(&self.bytes_in),
            bytes_out: load(&self.bytes_out),
            injected,
        }
    }
}

impl Drop for Open<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
