//! The storage account beside the hubs: where it is served, what it is made of, and its way to the disk.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use access::TransportSecurity;
use access::storage::{StorageConnectionString, StorageCredential};
use listen::AcceptFailures;
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::{Openness, StartError};
use crate::front::http::blob::{BlobFront, BlobFrontOptions};
use crate::front::listener::client_host;
use crate::namespace::{Namespace, NamespaceConfig, NamespaceError, SignaturePolicy};
use blob_store::{BlobError, BlobLimits, BlobStore, names};
use partition_log::disk::SyncPolicy;

/// A storage account at work.
#[derive(Debug)]
pub(super) struct BlobAccount {
    pub(super) front: Arc<BlobFront>,
}

impl BlobAccount {
    /// Keeps `front`, which `config` describes, in step with the disk until `stop` becomes true.
    pub(super) fn start(
        config: &NamespaceConfig,
        front: Arc<BlobFront>,
        tasks: &mut JoinSet<()>,
        stop: &watch::Receiver<bool>,
    ) -> Self {
        if let Some(period) = sync_period(config) {
            tasks.spawn(sync(Arc::clone(front.store()), period, stop.clone()));
        }
        Self { front }
    }

    /// What a client connects with at `address`, where the namespace is known as `host`.
    pub(super) fn connection_string(
        &self,
        host: &str,
        address: SocketAddr,
        security: TransportSecurity,
    ) -> StorageConnectionString {
        let scheme = match security {
            TransportSecurity::Plain => "http",
            TransportSecurity::Tls => "https",
        };
        let key = self.front.key();
        // Clients take a name for the account's where it has a dot; an address is safe.
        let host = match client_host(host, address) {
            host if host == "localhost" => match address.ip() {
                ip if ip.is_unspecified() => Ipv4Addr::LOCALHOST.to_string(),
                ip => ip.to_string(),
            },
            host => host,
        };
        let host = match host.contains(':') {
            true => format!("[{host}]"),
            false => host,
        };
        StorageConnectionString {
            blob_endpoint: format!("{scheme}://{host}:{}/{}", address.port(), key.account()),
            credential: StorageCredential::Key(key.clone()),
        }
    }

    /// Brings everything to the disk, where there is one. To be called once nobody writes any more.
    pub(super) async fn close(&self) {
        let store = Arc::clone(self.front.store());
        match tokio::task::spawn_blocking(move || store.close()).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::error!(%error, "not every blob could be written to the disk"),
            Err(error) => tracing::error!(%error, "writing blobs to the disk was interrupted"),
        }
    }
}

/// What makes a storage account open to anyone, if anything does.
pub(super) fn openness(config: &NamespaceConfig) -> Option<Openness> {
    match config.signatures {
        SignaturePolicy::AcceptAny => Some(Openness::AcceptAny),
        SignaturePolicy::Verify => {
            config.blob.has_development_key().then_some(Openness::DevelopmentStorageKey)
        }
    }
}

/// The front end of the account that `config` describes, with the containers that it names, shaped and guarded as
/// `namespace` is and on its clock, and with at most this many connections. Its failures to accept are counted in `accept_failures`.
///
/// # Errors
/// What is kept of it can't be read, or its containers can't be made.
pub(super) fn front(
    config: &NamespaceConfig,
    namespace: &Namespace,
    connections: u64,
    accept_failures: &Arc<AcceptFailures>,
) -> Result<Arc<BlobFront>, StartError> {
    let key = config.blob.check().map_err(NamespaceError::Blob)?;
    let limits = BlobLimits::default();
    let store = match &config.storage {
        None => BlobStore::in_memory(config.blob.memory, limits),
        Some(storage) => {
            let directory = storage.directory.join(BLOBS);
            let sync = storage.options.sync;
            BlobStore::open(&directory, sync, config.blob.memory, limits)
                .map_err(|source| StartError::Blobs { directory, source })?
        }
    };
    for name in &config.blob.containers {
        match store.create_container(name, Vec::new(), namespace.clock().now().into()) {
            Ok(_) | Err(BlobError::ContainerAlreadyExists) => {}
            Err(source) => {
                let name = name.clone();
                return Err(StartError::Container { name, source });
            }
        }
    }
    Ok(BlobFront::new(
        Arc::new(store),
        BlobFrontOptions {
            key,
            policy: config.signatures,
            identity: namespace.identity().cloned(),
            body: config.blob.body,
            maximum_connections: connections,
            accept_failures: Arc::clone(accept_failures),
            profile: Arc::clone(namespace.profile()),
            clock: Arc::clone(namespace.clock()),
        },
    ))
}

/// How many containers there are in the data directory.
pub(super) fn kept_containers(config: &NamespaceConfig) -> usize {
    let Some(storage) = &config.storage else {
        return 0;
    };
    let Ok(folders) = fs::read_dir(storage.directory.join(BLOBS)) else {
        return 0;
    };
    folders
        .filter_map(|folder| folder.ok()?.file_name().into_string().ok())
        .filter(|name| names::is_container(name))
        .count()
}

/// How often what was written is brought to the device.
fn sync_period(config: &NamespaceConfig) -> Option<Duration> {
    match config.storage.as_ref()?.options.sync {
        SyncPolicy::Interval(period) => Some(period),
        SyncPolicy::Always | SyncPolicy::Os => None,
    }
}

async fn sync(store: Arc<BlobStore>, period: Duration, mut stop: watch::Receiver<bool>) {
    let mut ticks = tokio::time::interval(period);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            _ = ticks.tick() => {}
            _ = stop.wait_for(|stop| *stop) => return,
        }
        let store = Arc::clone(&store);
        match tokio::task::spawn_blocking(move || store.sync()).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::error!(%error, "blobs can't be written to the disk"),
            Err(error) => tracing::error!(%error, "writing blobs to the disk was interrupted"),
        }
    }
}

/// Where blobs are in a data directory.
const BLOBS: &str = "blob";
