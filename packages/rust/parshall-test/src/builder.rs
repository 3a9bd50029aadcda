//! What is to be served.

use std::path::PathBuf;

use hub::namespace::{
    DEFAULT_PARTITIONS, HubConfig, NamespaceConfig, QueueConfig, StorageConfig, TopicConfig,
};
use hub::service::{Protocol, ServiceConfig};
use hub::tls;
use tempfile::TempDir;

use crate::service::{self, Service, StartError};

/// A service that has not been started yet. Without hubs, queues and topics it gets a hub `events` with 4 partitions.
#[derive(Clone, Debug)]
#[must_use = "it serves once it is started"]
pub struct Builder {
    namespace: NamespaceConfig,
    blobs: bool,
    kafka: bool,
    tls: bool,
}

/// What a service is started with.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) config: ServiceConfig,
    /// The folder with certificate and authority, with TLS.
    pub(crate) tls: Option<TempDir>,
    pub(crate) certificate_authority: Option<PathBuf>,
}

impl Builder {
    pub(crate) fn new() -> Self {
        Self { namespace: NamespaceConfig::with_hubs(Vec::new()), blobs: false, kafka: false, tls: false }
    }

    /// A hub.
    pub fn hub(mut self, name: &str, partitions: u16) -> Self {
        self.namespace.hubs.push(HubConfig::new(name, partitions));
        self
    }

    /// A queue with default options.
    pub fn queue(mut self, name: &str) -> Self {
        self.namespace.queues.push(QueueConfig::new(name));
        self
    }

    /// A topic, and subscriptions that receive every message.
    pub fn topic<'a>(mut self, name: &str, subscriptions: impl IntoIterator<Item = &'a str>) -> Self {
        self.namespace.topics.push(TopicConfig::new(name, subscriptions));
        self
    }

    /// A container of blobs, which are served then.
    pub fn container(mut self, name: &str) -> Self {
        self.namespace.blob.containers.push(name.to_owned());
        self.blobs()
    }

    /// Blobs, even if there is no container yet.
    pub const fn blobs(mut self) -> Self {
        self.blobs = true;
        self
    }

    /// Hubs for clients of Kafka, too. A topic that they ask for and that does not exist becomes a hub.
    pub const fn kafka(mut self) -> Self {
        self.kafka = true;
        self.namespace.creates_topics = true;
        self
    }

    /// Everything over TLS besides, with a generated certificate.
    pub const fn tls(mut self) -> Self {
        self.tls = true;
        self
    }

    /// Where everything is kept, over restarts; otherwise it is in memory.
    pub fn data_directory(mut self, directory: impl Into<PathBuf>) -> Self {
        self.namespace.storage =
            Some(StorageConfig { directory: directory.into(), options: Default::default() });
        self
    }

    /// Anything else of the namespace: options of entities, keys, limits, the service profile.
    pub fn configure(mut self, change: impl FnOnce(&mut NamespaceConfig)) -> Self {
        change(&mut self.namespace);
        self
    }

    /// Starts the service. Clients can connect when this returns.
    ///
    /// # Errors
    /// The namespace is refused, or the system has no port, folder or thread for it.
    pub async fn start(self) -> Result<Service, StartError> {
        service::start(self.plan()?).await
    }

    /// The same where nothing can be awaited.
    ///
    /// # Errors
    /// Those of [`start`](Self::start).
    ///
    /// # Panics
    /// Inside of a tokio runtime.
    pub fn start_blocking(self) -> Result<Service, StartError> {
        service::start_blocking(self.plan()?)
    }

    fn plan(self) -> Result<Plan, StartError> {
        let Self { mut namespace, blobs, kafka, tls } = self;
        if namespace.hubs.is_empty() && namespace.queues.is_empty() && namespace.topics.is_empty() {
            namespace.hubs.push(HubConfig::new("events", DEFAULT_PARTITIONS));
        }
        let folder = if tls { Some(tempfile::tempdir().map_err(StartError::Folder)?) } else { None };
        let certificate =
            folder.as_ref().map(|folder| tls::development(folder.path(), &namespace.host)).transpose()?;
        let mut config = ServiceConfig::loopback(namespace);
        let protocols =
            [(Protocol::Amqp, false, true), (Protocol::Blob, blobs, blobs), (Protocol::Kafka, kafka, kafka)];
        for (protocol, plain, encrypted) in protocols {
            if plain {
                config = config.and(protocol);
            }
            if let (true, Some(certificate)) = (encrypted, &certificate) {
                config = config.and_tls(protocol, certificate.server.clone());
            }
        }
        let certificate_authority = certificate.map(|certificate| certificate.authority);
        Ok(Plan { config, tls: folder, certificate_authority })
    }
}
