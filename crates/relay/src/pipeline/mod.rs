//! A pipeline as a file: where events come from, where they go, and the choices of the relay between.
//!
//! ```yaml
//! source:
//!   event_hubs:
//!     connection_string: ${SOURCE_CONNECTION_STRING:?the namespace to read from}
//!     hub: orders
//!     consumer_group: $Default
//! sink:
//!   event_hubs:
//!     connection_string: ${SINK_CONNECTION_STRING:?the namespace to write to}
//!     hub: orders-by-region
//! checkpoint:
//!   store: {files: ./checkpoints}  # or {blob: {connection_string: "${STORAGE}", container: checkpoints}}
//!   write: each-batch              # or {every: 1 s}
//! route: key                       # random, key, round-robin
//! batch: {events: 128, wait: 10 ms}
//! prefetch: 300
//! ownership: {mode: greedy, renew: 10 s, expire: 60 s}     # or balanced, static; with an `identity`
//! metrics: 127.0.0.1:9464
//! ```
//!
//! Reading is strict: an unknown key, a wrong type, a value out of range or a variable without a value is an error with
//! the place where it stands. What is not in the file has the defaults of [`PipelineConfig`]'s parts.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use access::ConnectionString;
use connect::checkpoint::ConsumerGroup;
use connect::checkpoint::blobs::BlobStoreOptions;
use connect::service::Transport;
use connect::source::SourceOptions;
use settings::{Document, SettingsError};

use crate::options::RelayOptions;
use crate::ownership::{OwnershipMode, OwnershipOptions};

mod file;
#[cfg(test)]
mod tests;
mod validate;

/// A pipeline that was read and found to be in order. Nothing has been connected yet.
#[derive(Clone, Debug)]
pub struct PipelineConfig {
    /// Where events come from.
    pub source: SourceConfig,
    /// How they are batched and prefetched.
    pub source_options: SourceOptions,
    /// Where they go.
    pub sink: SinkConfig,
    /// Where progress is kept.
    pub checkpoint_store: CheckpointStoreConfig,
    /// How the partitions are shared with other relays; not at all if left out.
    pub ownership: Option<OwnershipConfig>,
    /// Events go to the first this many destinations; to all of them where it is left out.
    pub fan_out: Option<u32>,
    /// Where the metrics are to be had over HTTP; nowhere if left out.
    pub metrics: Option<SocketAddr>,
    relay: RelayOptions,
}

/// A kind of source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SourceConfig {
    /// A hub over AMQP.
    EventHubs {
        /// The namespace and the right to listen.
        connection_string: ConnectionString,
        /// The hub.
        hub: String,
        /// The consumer group.
        consumer_group: String,
        /// Which partitions; all of them if left out.
        partitions: Option<Vec<u32>>,
        /// What carries the bytes.
        transport: Transport,
        /// A file of certificates (PEM) to trust instead of those of the system.
        certificate_authority: Option<PathBuf>,
    },
}

/// A kind of sink.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SinkConfig {
    /// The partitions of a hub over AMQP.
    EventHubs {
        /// The namespace and the right to send.
        connection_string: ConnectionString,
        /// The hub.
        hub: String,
        /// What carries the bytes.
        transport: Transport,
        /// A file of certificates (PEM) to trust instead of those of the system.
        certificate_authority: Option<PathBuf>,
    },
}

/// How the partitions are shared with other relays.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnershipConfig {
    /// How much is claimed at once.
    pub mode: OwnershipMode,
    /// How long from one cycle to the next.
    pub renew: Duration,
    /// A claim that was not renewed for so long is free for others.
    pub expire: Duration,
    /// The relay's name among the others, if it was given one.
    pub identity: Option<String>,
}

/// A kind of checkpoint store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CheckpointStoreConfig {
    /// Files in this folder.
    Files(PathBuf),
    /// Blobs in a container, as the official SDKs lay them out.
    Blob(Box<BlobStoreOptions>),
}

impl PipelineConfig {
    /// Reads a pipeline file; variables come from the environment of the process.
    ///
    /// # Errors
    /// The first mistake in the file, with its place.
    pub fn read(path: &Path) -> Result<Self, SettingsError> {
        let mut document = Document::read(path)?;
        document.fill_in_environment()?;
        Self::from_document(&document)
    }

    /// The pipeline that a document describes, its variables being filled in.
    ///
    /// # Errors
    /// The first mistake in the document, with its place.
    pub fn from_document(document: &Document) -> Result<Self, SettingsError> {
        let file: file::Pipeline = document.typed()?;
        validate::check(document, &file)?;
        Ok(file.into_config())
    }

    /// The relay's options for a sink of so many destinations. `identity` names the relay among those that it shares
    /// partitions with, unless the file does.
    #[must_use]
    pub fn relay_options(&self, destinations: u32, identity: &str) -> RelayOptions {
        let ownership = self.ownership.as_ref().map(|config| OwnershipOptions {
            mode: config.mode,
            identity: config.identity.as_deref().unwrap_or(identity).to_owned(),
            renew: config.renew,
            expire: config.expire,
        });
        RelayOptions {
            fan_out: self.fan_out.unwrap_or(destinations),
            ownership,
            ..self.relay.clone()
        }
    }
}

impl SourceConfig {
    /// Whose progress the checkpoints are.
    #[must_use]
    pub fn group(&self) -> ConsumerGroup {
        match self {
            Self::EventHubs {
                connection_string,
                hub,
                consumer_group,
                ..
            } => ConsumerGroup::new(connection_string.endpoint.host(), hub, consumer_group),
        }
    }
}
