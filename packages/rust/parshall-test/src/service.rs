//! A service on a thread of its own.
//!
//! The thread has a runtime for the service alone. So it does not matter which runtime the test has, whether the test blocks, and
//! whether its runtime is gone when the service is dropped.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::thread::{self, JoinHandle};

use hub::service::{Protocol, Service as EmbeddedService, ServiceConfig};
use tempfile::TempDir;
use tokio::sync::oneshot;

use crate::builder::{Builder, Plan};
use crate::log::Log;

/// A running service. Dropping it stops it.
#[derive(Debug)]
pub struct Service {
    addresses: Addresses,
    certificate_authority: Option<PathBuf>,
    running: Running,
    /// Removed after the service has ended.
    _tls: Option<TempDir>,
}

/// The thread. Dropping this stops it.
#[derive(Debug)]
struct Running {
    log: Log,
    /// Asks for a stop in good order; dropped, for one at once.
    stop: Option<oneshot::Sender<()>>,
    /// Ends when the service has.
    ended: oneshot::Receiver<()>,
    thread: Option<JoinHandle<()>>,
}

/// What clients connect with. What is absent is not served.
struct Addresses {
    connection_string: String,
    tls_connection_string: Option<String>,
    storage_connection_string: Option<String>,
    storage_tls_connection_string: Option<String>,
    kafka: Option<SocketAddr>,
    kafka_tls: Option<SocketAddr>,
}

/// Why a service does not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The namespace is refused, or there is no port.
    #[error(transparent)]
    Service(#[from] hub::service::StartError),
    /// No certificate could be made.
    #[error(transparent)]
    Tls(#[from] hub::tls::TlsError),
    /// There is no folder for the certificate.
    #[error("there is no folder for temporary files: {0}")]
    Folder(#[source] io::Error),
    /// There is no thread or runtime for the service.
    #[error("there is no thread for the service: {0}")]
    Thread(#[source] io::Error),
    /// The service panicked. The log is what it had said.
    #[error("the service ended before it was ready:\n{log}")]
    Ended {
        /// Its log.
        log: String,
    },
}

impl Service {
    /// What is to be served.
    pub fn builder() -> Builder {
        Builder::new()
    }

    /// For hubs, queues and topics, over plain TCP.
    #[must_use]
    pub fn connection_string(&self) -> &str {
        &self.addresses.connection_string
    }

    /// For the clients of Event Hubs.
    #[must_use]
    pub fn event_hubs_connection_string(&self) -> &str {
        self.connection_string()
    }

    /// For the clients of Service Bus.
    #[must_use]
    pub fn service_bus_connection_string(&self) -> &str {
        self.connection_string()
    }

    /// The same over TLS, with [`tls`](Builder::tls).
    #[must_use]
    pub fn tls_connection_string(&self) -> Option<&str> {
        self.addresses.tls_connection_string.as_deref()
    }

    /// For blobs, with [`container`](Builder::container) or [`blobs`](Builder::blobs).
    #[must_use]
    pub fn storage_connection_string(&self) -> Option<&str> {
        self.addresses.storage_connection_string.as_deref()
    }

    /// The same over TLS.
    #[must_use]
    pub fn storage_tls_connection_string(&self) -> Option<&str> {
        self.addresses.storage_tls_connection_string.as_deref()
    }

    /// `HOST:PORT` for clients of Kafka, with [`kafka`](Builder::kafka). Their login is SASL PLAIN: `$ConnectionString` and
    /// the connection string.
    #[must_use]
    pub fn kafka_bootstrap_servers(&self) -> Option<String> {
        self.addresses.kafka.map(|address| address.to_string())
    }

    /// The same for TLS.
    #[must_use]
    pub fn kafka_tls_bootstrap_servers(&self) -> Option<String> {
        self.addresses.kafka_tls.map(|address| address.to_string())
    }

    /// The file (PEM) that clients have to trust, with [`tls`](Builder::tls).
    #[must_use]
    pub fn certificate_authority(&self) -> Option<&Path> {
        self.certificate_authority.as_deref()
    }

    /// What the service has logged until now, or the end of it.
    #[must_use]
    pub fn log(&self) -> String {
        self.running.log.text()
    }

    /// Stops in good order: clients hear of it, and what is kept in a data directory is all there.
    pub async fn stop(mut self) {
        if let Some(stop) = self.running.stop.take() {
            let _ = stop.send(());
        }
        // It is dropped when the service ends.
        let _ = (&mut self.running.ended).await;
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop = None;
        if let Some(thread) = self.thread.take() {
            // What it panicked with has been printed.
            let _ = thread.join();
        }
        if thread::panicking() {
            print(&self.log);
        }
    }
}

/// Of a test that fails, the harness shows what is printed.
#[expect(clippy::print_stderr, reason = "the log of a service is for the reader of a test's output")]
fn print(log: &Log) {
    eprintln!("log of the service:\n{}", log.text());
}

/// Starts a service.
pub(crate) async fn start(plan: Plan) -> Result<Service, StartError> {
    let (starting, ready) = Starting::spawn(plan)?;
    let outcome = ready.await;
    starting.finish(outcome)
}

/// The same where nothing can be awaited.
pub(crate) fn start_blocking(plan: Plan) -> Result<Service, StartError> {
    let (starting, ready) = Starting::spawn(plan)?;
    let outcome = ready.blocking_recv();
    starting.finish(outcome)
}

type Outcome = Result<Addresses, hub::service::StartError>;

/// A service that may become ready.
struct Starting {
    running: Running,
    certificate_authority: Option<PathBuf>,
    tls: Option<TempDir>,
}

impl Starting {
    fn spawn(plan: Plan) -> Result<(Self, oneshot::Receiver<Outcome>), StartError> {
        let Plan { config, tls, certificate_authority } = plan;
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(StartError::Thread)?;
        let (ready, outcome) = oneshot::channel();
        let (stop, stopped) = oneshot::channel();
        let (end, ended) = oneshot::channel();
        let log = Log::default();
        let subscriber = log.subscriber();
        let serve = move || {
            let _logging = tracing::subscriber::set_default(subscriber);
            runtime.block_on(serve(config, ready, stopped));
            // Tasks and their sockets end with the runtime, and so before anyone hears that they have.
            drop(runtime);
            let _ = end.send(());
        };
        let thread = thread::Builder::new().name("parshall".to_owned()).spawn(serve);
        let thread = Some(thread.map_err(StartError::Thread)?);
        let running = Running { log, stop: Some(stop), ended, thread };
        Ok((Self { running, certificate_authority, tls }, outcome))
    }

    fn finish(self, outcome: Result<Outcome, oneshot::error::RecvError>) -> Result<Service, StartError> {
        let Self { running, certificate_authority, tls } = self;
        match outcome {
            Ok(Ok(addresses)) => Ok(Service { addresses, certificate_authority, running, _tls: tls }),
            Ok(Err(error)) => Err(error.into()),
            Err(_) => Err(StartError::Ended { log: running.log.text() }),
        }
    }
}

/// Serves until a stop is asked for.
async fn serve(config: ServiceConfig, ready: oneshot::Sender<Outcome>, stopped: oneshot::Receiver<()>) {
    match EmbeddedService::start(config).await {
        Err(error) => {
            let _ = ready.send(Err(error));
        }
        Ok(service) => {
            let _ = ready.send(Ok(Addresses::of(&service)));
            if stopped.await.is_ok() {
                service.stop().await;
            }
        }
    }
}

impl fmt::Debug for Addresses {
    /// Without the strings, which have keys.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Addresses")
            .field("kafka", &self.kafka)
            .field("kafka_tls", &self.kafka_tls)
            .finish_non_exhaustive()
    }
}

impl Addresses {
    fn of(service: &EmbeddedService) -> Self {
        Self {
            connection_string: service.connection_string(None).reveal(),
            tls_connection_string: service.tls_connection_string(None).map(|string| string.reveal()),
            storage_connection_string: service.storage_connection_string().map(|string| string.reveal()),
            storage_tls_connection_string: service
                .storage_tls_connection_string()
                .map(|string| string.reveal()),
            kafka: service.address(Protocol::Kafka),
            kafka_tls: service.tls_address(Protocol::Kafka),
        }
    }
}
