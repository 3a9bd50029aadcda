//! Where and how a client connects: read once, used for every connection.

use std::sync::Arc;
use std::time::Duration;

use access::is_loopback;
use amqp_tokio::{ClientTls, Stream};
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::sync::OnceCell;

use super::super::settings::Settings;
use crate::identity::{FollowedToken, Identity};
use crate::retry::RetryPolicy;
use crate::service::ServiceError;

/// What it takes to connect to any broker of a cluster.
#[derive(Debug)]
pub(crate) struct Endpoint {
    pub(super) settings: Settings,
    pub(super) topic: String,
    /// None for plain TCP.
    tls: Option<Arc<ClientConfig>>,
    /// The tokens of the identity that logs in, once a connection was made.
    bearer: OnceCell<FollowedToken>,
    /// After what delay a broken connection is made again.
    pub(super) reconnect: RetryPolicy,
}

impl Endpoint {
    /// Reads the certificates.
    ///
    /// # Errors
    /// When they can't be read.
    pub(crate) fn new(settings: Settings, topic: &str) -> Result<Arc<Self>, ServiceError> {
        let tls = match settings.uses_tls {
            true => {
                let file = settings.certificate_authority.as_deref();
                Some(trust::client_config(file).map_err(unusable)?)
            }
            false => None,
        };
        let reconnect = RetryPolicy {
            attempts: u32::MAX,
            delay: Duration::from_millis(100),
            max_delay: Duration::from_secs(10),
            jitter: 0.5,
            ..RetryPolicy::default()
        };
        Ok(Arc::new(Self { settings, topic: topic.to_owned(), tls, bearer: OnceCell::new(), reconnect }))
    }

    /// The tokens for a scope, which all connections share.
    ///
    /// # Errors
    /// The identity of the process has none.
    pub(super) async fn bearer(&self, scope: &str) -> Result<FollowedToken, ServiceError> {
        let followed =
            self.bearer.get_or_try_init(|| async { Identity::of_process().follow(scope).await }).await?;
        Ok(followed.clone())
    }

    /// Whether what is sent to a host can be read by nobody else.
    pub(super) fn is_protected(&self, host: &str) -> bool {
        self.tls.is_some() || is_loopback(host)
    }

    /// A stream of bytes to a broker.
    ///
    /// # Errors
    /// It can't be reached, or is not who it should be.
    pub(super) async fn dial(&self, host: &str, port: u16) -> Result<Stream, ServiceError> {
        let tls = match &self.tls {
            Some(config) => {
                let server_name = ServerName::try_from(host.to_owned()).map_err(|error| {
                    unusable(format!("{host} is not a valid name for a certificate: {error}"))
                })?;
                Some(ClientTls { config: Arc::clone(config), server_name })
            }
            None => None,
        };
        Ok(amqp_tokio::connect(host, port, tls, self.settings.connect_timeout).await?)
    }
}

fn unusable(what: String) -> ServiceError {
    ServiceError::fatal("connection:certificates", what)
}
