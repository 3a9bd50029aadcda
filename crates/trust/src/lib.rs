//! The certificate authorities that clients trust: those of one file, else the system's, else Mozilla's, which are compiled in.
//!
//! Every client of TLS in this program takes its settings from here. An image without a file of authorities therefore reaches
//! public services over every protocol.

use std::env;
use std::path::Path;
use std::sync::{Arc, Once};

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};

/// Returns the settings of a client that trusts the authorities of a PEM file. Without a file it trusts the system's, or Mozilla's
/// where the system has none.
///
/// # Errors
/// What is wrong, naming the file: it can't be read, or contains no certificate.
pub fn client_config(file: Option<&Path>) -> Result<Arc<ClientConfig>, String> {
    with_roots(match file {
        Some(path) => of_file(path)?,
        None => of_system_or_mozilla(),
    })
}

/// Returns the settings of a client that is used without TLS: no certificate is read and no service is trusted.
///
/// # Errors
/// The cryptography can't be set up.
pub fn without_authorities() -> Result<Arc<ClientConfig>, String> {
    with_roots(RootCertStore::empty())
}

fn with_roots(roots: RootCertStore) -> Result<Arc<ClientConfig>, String> {
    // The provider is named, so that another crate's choice of features cannot make it ambiguous.
    let config = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(Arc::new(config))
}

fn of_file(path: &Path) -> Result<RootCertStore, String> {
    let path_error = |error: &dyn std::fmt::Display| format!("{} cannot be used: {error}", path.display());
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_file_iter(path).map_err(|error| path_error(&error))? {
        let certificate = certificate.map_err(|error| path_error(&error))?;
        roots.add(certificate).map_err(|error| path_error(&error))?;
    }
    match roots.is_empty() {
        true => Err(path_error(&"it holds no certificate")),
        false => Ok(roots),
    }
}

fn of_system_or_mozilla() -> RootCertStore {
    let found = rustls_native_certs::load_native_certs();
    let mut roots = RootCertStore::empty();
    // Stores contain certificates that can't be used; those that can be used are enough.
    roots.add_parsable_certificates(found.certs);
    if roots.is_empty() {
        roots.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned());
        FALLBACK_LOGGED.call_once(|| log_fallback(&found.errors));
    }
    roots
}

/// Logs that Mozilla's authorities are trusted: as a warning where a variable names others, which is a mistake.
fn log_fallback(errors: &[rustls_native_certs::Error]) {
    let named: Vec<_> = VARIABLES.into_iter().filter(|name| env::var_os(name).is_some()).collect();
    let reasons: Vec<_> = errors.iter().map(ToString::to_string).collect();
    let reasons = reasons.join("; ");
    match &named[..] {
        [] => tracing::debug!(reasons, "the system has no certificate authorities: Mozilla's are trusted"),
        named => tracing::warn!(
            reasons,
            "{} names no certificate authority that can be read: Mozilla's are trusted; correct or unset it",
            named.join(" or ")
        ),
    }
}

/// Variables that name the system's authorities, as OpenSSL reads them.
const VARIABLES: [&str; 2] = ["SSL_CERT_FILE", "SSL_CERT_DIR"];

static FALLBACK_LOGGED: Once = Once::new();

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    /// Returns a certificate in PEM.
    fn authority() -> String {
        rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap().cert.pem()
    }

    /// Runs `roots_of_this_process` in another process, whose environment names authorities, and returns the number of roots.
    fn roots_with(variables: &[(&str, &Path)]) -> usize {
        let mut command = Command::new(env::current_exe().unwrap());
        command.args(["--exact", "tests::roots_of_this_process", "--nocapture"]);
        for name in VARIABLES {
            command.env_remove(name);
        }
        let output = command.envs(variables.iter().copied()).env(COUNT_ROOTS, "1").output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let count = text.split_once("roots: ").unwrap_or_else(|| panic!("{text}")).1;
        count.split_whitespace().next().unwrap().parse().unwrap()
    }

    #[test]
    fn roots_of_this_process() {
        if env::var_os(COUNT_ROOTS).is_some() {
            println!("roots: {}", of_system_or_mozilla().len());
        }
    }

    #[test]
    fn mozilla_authorities_replace_those_that_the_system_lacks() {
        let folder = tempfile::tempdir().unwrap();
        let missing = folder.path().join("missing.pem");
        let (empty, damaged) = (folder.path().join("empty"), folder.path().join("damaged.pem"));
        std::fs::create_dir(&empty).unwrap();
        std::fs::write(&damaged, "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n").unwrap();
        let mozilla = webpki_roots::TLS_SERVER_ROOTS.len();
        assert!(mozilla > 100);
        for variables in [
            &[("SSL_CERT_FILE", &*missing)][..],
            &[("SSL_CERT_FILE", &*damaged)],
            &[("SSL_CERT_DIR", &*empty)],
            &[("SSL_CERT_FILE", &*missing), ("SSL_CERT_DIR", &*empty)],
        ] {
            assert_eq!(roots_with(variables), mozilla, "{variables:?}");
        }
    }

    #[test]
    fn authorities_of_the_system_are_trusted_alone() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("ca.pem");
        std::fs::write(&file, authority()).unwrap();
        assert_eq!(roots_with(&[("SSL_CERT_FILE", &file)]), 1);
        assert_eq!(roots_with(&[("SSL_CERT_DIR", folder.path())]), 1);
    }

    #[test]
    fn file_without_a_certificate_is_refused_by_name() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("ca.pem");
        let error = |file: &Path| client_config(Some(file)).unwrap_err();
        assert!(error(&file).starts_with(&format!("{} cannot be used: ", file.display())));
        std::fs::write(&file, "").unwrap();
        assert_eq!(error(&file), format!("{} cannot be used: it holds no certificate", file.display()));
        std::fs::write(&file, authority()).unwrap();
        assert_eq!(of_file(&file).unwrap().len(), 1);
    }

    /// Set for a process that prints how many roots it has.
    const COUNT_ROOTS: &str = "TRUST_COUNT_ROOTS";
}
