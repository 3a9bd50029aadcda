//! A service with its issuer, and an application that the issuer knows.

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::sync::Arc;
use std::time::Duration;

use access::storage::{StorageConnectionString, StorageCredential};
use access::{ConnectionString, Credential};
use amqp::message::encode;
use bytes::Bytes;
use connect::event::{EventBatch, PartitionId};
use connect::event_hubs::EventHubsOptions;
use connect::identity::{Environment, Identity, IdentityOptions};
use connect::service::ClientOptions;
use connect::sink::{OutgoingBatch, SendError, SendToken, Sink};
use hub::identity::DevelopmentIdentityConfig;
use hub::namespace::{HubConfig, NamespaceConfig};
use hub::service::{Protocol, Service, ServiceConfig};
use rustls::ServerConfig;
use rustls::pki_types::PrivateKeyDer;
use tempfile::TempDir;

/// The hub of the service, which has one partition.
pub(crate) const HUB: &str = "events";

pub(crate) struct Setting {
    pub(crate) service: Service,
    pub(crate) identity: Identity,
    folder: TempDir,
}

impl Setting {
    /// A service whose tokens are valid for so long.
    pub(crate) async fn start(lifetime_s: u64) -> Self {
        let certified = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        let key = PrivateKeyDer::try_from(certified.signing_key.serialize_der()).unwrap();
        let tls = ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![certified.cert.der().clone()], key)
            .unwrap();
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("authority.pem"), certified.cert.pem()).unwrap();
        let namespace = NamespaceConfig::with_hubs(vec![HubConfig::new(HUB, 1)]);
        let lifetime = Duration::from_secs(lifetime_s);
        let service = Service::start(ServiceConfig {
            development_identity: Some(DevelopmentIdentityConfig { token_lifetime: lifetime }),
            ..ServiceConfig::loopback(namespace)
                .and(Protocol::Blob)
                .and_tls(Protocol::Identity, Arc::new(tls))
        })
        .await
        .unwrap();
        let port = service.tls_address(Protocol::Identity).unwrap().port();
        let nobody = Identity::new(IdentityOptions::default());
        let mut setting = Self { service, identity: nobody, folder };
        setting.identity = setting.identity_at(port);
        setting
    }

    /// The application, which asks the issuer at this port.
    pub(crate) fn identity_at(&self, port: u16) -> Identity {
        self.identity_with(&[("AZURE_AUTHORITY_HOST", &format!("https://localhost:{port}"))])
    }

    /// The application, with some variables other than they should be.
    pub(crate) fn identity_with(&self, others: &[(&str, &str)]) -> Identity {
        let known = self.service.development_identity().unwrap();
        let authority = format!("https://localhost:{}", self.issuer_port());
        let usual = [
            ("AZURE_AUTHORITY_HOST", authority.as_str()),
            ("AZURE_TENANT_ID", known.tenant),
            ("AZURE_CLIENT_ID", known.client),
            ("AZURE_CLIENT_SECRET", known.secret.reveal()),
        ];
        let variables = usual.iter().chain(others).map(|(name, value)| (str(name), str(value)));
        self.identity_of(variables.collect())
    }

    /// Whoever these variables say.
    pub(crate) fn identity_of(&self, variables: BTreeMap<String, String>) -> Identity {
        Identity::new(IdentityOptions {
            environment: Environment::Given(variables),
            certificate_authority: Some(self.folder.path().join("authority.pem")),
        })
    }

    pub(crate) fn issuer_port(&self) -> u16 {
        self.service.tls_address(Protocol::Identity).unwrap().port()
    }

    fn namespace(&self) -> ConnectionString {
        ConnectionString { credential: Credential::Identity, ..self.service.connection_string(None) }
    }

    pub(crate) fn hub(&self) -> EventHubsOptions {
        let mut options = EventHubsOptions::new(self.namespace(), Some(HUB)).unwrap();
        options.identity = self.identity.clone();
        options
    }

    pub(crate) fn entity(&self, name: &str) -> ClientOptions {
        ClientOptions { identity: self.identity.clone(), ..ClientOptions::new(self.namespace(), name) }
    }

    pub(crate) fn account(&self) -> StorageConnectionString {
        let with_key = self.service.storage_connection_string().unwrap();
        StorageConnectionString { credential: StorageCredential::Identity, ..with_key }
    }

    /// How many tokens the issuer has given.
    pub(crate) async fn issued(&self) -> u64 {
        self.counter("parshall_identity_tokens_issued_total").await
    }

    /// A counter of the service.
    pub(crate) async fn counter(&self, name: &str) -> u64 {
        let metrics = self.service.metrics().open_metrics().await;
        let lines = metrics.lines().filter(|line| line.split([' ', '{']).next() == Some(name));
        lines.map(|line| line.rsplit(' ').next().unwrap().parse::<u64>().unwrap()).sum()
    }
}

/// Archives an event.
pub(crate) async fn archive_one(sink: &mut dyn Sink) -> Result<(), SendError> {
    let mut batch = EventBatch::with_capacity(PartitionId(0), 1);
    let mut message = Vec::new();
    encode::data(&mut message, b"event");
    batch.push_message(&Bytes::from(message), 0);
    while sink.send(SendToken(0), OutgoingBatch::new(0, &batch, &[0])).is_err() {
        poll_fn(|context| sink.poll_ready(context)).await.unwrap();
    }
    let mut outcomes = Vec::new();
    while outcomes.is_empty() {
        poll_fn(|context| sink.poll_outcomes(context, &mut outcomes)).await.unwrap();
    }
    outcomes.remove(0).result.map_err(|error| *error)
}

pub(crate) async fn within<T>(what: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(60), what).await.expect("it comes in time")
}

fn str(text: &str) -> String {
    text.to_owned()
}
