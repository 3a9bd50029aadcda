//! Whose certificates are trusted: the system's authorities, or those of one file.

use std::path::Path;
use std::sync::Arc;

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};

/// The authorities of a file of certificates (PEM), or of the system where no file is named.
///
/// # Errors
/// What is wrong, naming the file: it can't be read, or holds no certificate.
pub(crate) fn trusted(file: Option<&Path>) -> Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    match file {
        Some(path) => {
            let path_error =
                |error: &dyn std::fmt::Display| format!("{} cannot be used: {error}", path.display());
            for certificate in CertificateDer::pem_file_iter(path).map_err(|error| path_error(&error))? {
                let certificate = certificate.map_err(|error| path_error(&error))?;
                roots.add(certificate).map_err(|error| path_error(&error))?;
            }
            if roots.is_empty() {
                return Err(path_error(&"it holds no certificate"));
            }
        }
        None => {
            let found = rustls_native_certs::load_native_certs();
            // Stores hold certificates that nobody can use; those that can be used are enough.
            roots.add_parsable_certificates(found.certs);
            if roots.is_empty() {
                let reasons: Vec<_> = found.errors.iter().map(ToString::to_string).collect();
                return Err(format!(
                    "the system has no certificate authorities that could be used ({})",
                    reasons.join("; ")
                ));
            }
        }
    }
    Ok(roots)
}

/// How a client checks the services that it reaches.
///
/// # Errors
/// What is wrong with the authorities, as with [`trusted`].
pub fn client_config(file: Option<&Path>) -> Result<Arc<ClientConfig>, String> {
    trusting(trusted(file)?)
}

/// How a client checks services that it reaches without TLS: not at all, and any other is refused. No certificate is read.
///
/// # Errors
/// The cryptography can't be set up.
pub fn trusting_nobody() -> Result<Arc<ClientConfig>, String> {
    trusting(RootCertStore::empty())
}

fn trusting(roots: RootCertStore) -> Result<Arc<ClientConfig>, String> {
    // The provider is named, so that another crate's choice of features cannot make it ambiguous.
    let config = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(Arc::new(config))
}
