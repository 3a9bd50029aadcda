//! A client's side of TLS.

#![expect(clippy::unwrap_used, reason = "what panics in a test fails it, and says where")]

use std::path::Path;
use std::sync::Arc;

use amqp_tokio::ClientTls;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};

/// Returns the settings of a client of 127.0.0.1 that trusts the certificate authority in the file `authority` alone.
pub(crate) fn trusting(authority: &Path) -> ClientTls {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(authority).unwrap()).unwrap();
    let config = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    ClientTls { config: Arc::new(config), server_name: ServerName::try_from("127.0.0.1").unwrap() }
}
