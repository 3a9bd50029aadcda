//! Certificates for the TLS listener: given ones, or a development authority of our own.
//!
//! A development directory holds three files, made once and used again:
//!
//! ```text
//! ca.pem       the authority that clients are told to trust
//! server.pem   the server's certificate, for localhost, *.blob.localhost, 127.0.0.1, ::1, the machine's name and the
//!              namespace's host
//! server.key   its key, readable by its owner alone
//! ```
//!
//! The authority's own key is thrown away as soon as it has signed the one certificate. So whoever reads the directory
//! can pose as this server at most, and not as any other to those who trust `ca.pem`.

use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::ServerCertVerifier as _;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::{self, PemObject as _};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::server::{NoServerSessionStorage, VerifierBuilderError};
use rustls::version::{TLS12, TLS13};
use rustls::{RootCertStore, ServerConfig};

use crate::profile::TlsVersion;

mod expiry;

/// A server's side of TLS, and the authority that its clients need if it is our own.
#[derive(Debug, Clone)]
pub struct DevelopmentTls {
    /// What the listener needs.
    pub server: Arc<ServerConfig>,
    /// The file that clients are told to trust.
    pub authority: PathBuf,
    /// The file of the server's certificate.
    pub certificate: PathBuf,
}

/// Why there is no TLS.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file or directory can't be read or written.
    #[error("`{}` can't be used: {source}", path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A file is not PEM, or holds nothing of what it should hold.
    #[error("`{}` has no {expected} in PEM form: {source}", path.display())]
    Pem {
        /// Which.
        path: PathBuf,
        /// What it should hold.
        expected: &'static str,
        /// What the parser said.
        source: pem::Error,
    },
    /// Certificate and key are no pair, or of a kind that is not supported.
    #[error("`{}` and `{}` can't be used together: {source}", certificate.display(), key.display())]
    Pair {
        /// The certificate's file.
        certificate: PathBuf,
        /// The key's file.
        key: PathBuf,
        /// What the TLS library said.
        source: rustls::Error,
    },
    /// Some of the files of a development directory are there and others are not.
    #[error("`{}` has some of {AUTHORITY}, {CERTIFICATE} and {KEY}, but not all; remove them to generate new ones", directory.display())]
    Incomplete {
        /// The directory.
        directory: PathBuf,
    },
    /// The certificate of a development directory is not good for this server.
    #[error(
        "the certificate in `{}` is not valid for {host}: {reason}; remove {AUTHORITY}, {CERTIFICATE} and {KEY} there \
         to generate new ones",
        directory.display()
    )]
    Unfit {
        /// The directory.
        directory: PathBuf,
        /// The name that it should be for.
        host: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The file for a copy of the authority holds something else.
    #[error("`{}` exists already and contains another authority; remove it, or name another file", path.display())]
    Taken {
        /// The file.
        path: PathBuf,
    },
    /// No certificate could be made.
    #[error("a certificate for {host} can't be generated: {source}")]
    Making {
        /// The namespace's host.
        host: String,
        /// What the library said.
        source: rcgen::Error,
    },
}

/// TLS with the certificate chain and the private key of two PEM files.
///
/// # Errors
/// A file can't be read, is no PEM, or the two don't fit.
pub fn load(certificate: &Path, key: &Path) -> Result<Arc<ServerConfig>, TlsError> {
    let chain = certificates(certificate)?;
    let private_key = PrivateKeyDer::from_pem_slice(&read(key)?).map_err(|source| TlsError::Pem {
        path: key.to_owned(),
        expected: "private key",
        source,
    })?;
    let pair = |source| TlsError::Pair { certificate: certificate.to_owned(), key: key.to_owned(), source };
    let config = ServerConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .map_err(pair)?
        .with_no_client_auth()
        .with_single_cert(chain, private_key)
        .map_err(pair)?;
    Ok(Arc::new(config))
}

/// TLS with the certificate in `directory`, which is made if it is not there, for a server that clients reach as
/// `host` or by a loopback name or address.
///
/// # Errors
/// The directory can't be used, or what is in it is not good for this server. Files that are there are never
/// overwritten.
pub fn development(directory: &Path, host: &str) -> Result<DevelopmentTls, TlsError> {
    let [authority, certificate, key] = [AUTHORITY, CERTIFICATE, KEY].map(|name| directory.join(name));
    let present = [&authority, &certificate, &key].into_iter().filter(|path| path.exists()).count();
    match present {
        0 => make(directory, host)?,
        3 => {}
        _ => {
            return Err(TlsError::Incomplete { directory: directory.to_owned() });
        }
    }
    let server = load(&certificate, &key)?;
    verify(&authority, &certificate, host).map_err(|reason| TlsError::Unfit {
        directory: directory.to_owned(),
        host: host.to_owned(),
        reason,
    })?;
    Ok(DevelopmentTls { server, authority, certificate })
}

/// When the first of the certificates in this file expires, that is, when clients are going to turn away; `None` if they do
/// not tell.
///
/// # Errors
/// The file can't be read, or is no PEM.
pub fn expiry(certificate: &Path) -> Result<Option<SystemTime>, TlsError> {
    let chain = certificates(certificate)?;
    Ok(chain.iter().filter_map(|certificate| expiry::not_after(certificate)).min())
}

impl DevelopmentTls {
    /// Puts a copy of the authority where clients look for it.
    ///
    /// # Errors
    /// The file can't be written, or holds something else, which is left alone.
    pub fn copy_authority(&self, path: &Path) -> Result<(), TlsError> {
        let authority = read(&self.authority)?;
        let failed = |source| TlsError::File { path: path.to_owned(), source };
        match fs::read(path) {
            Ok(present) if present == authority => Ok(()),
            Ok(_) => Err(TlsError::Taken { path: path.to_owned() }),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                write_new(path, &authority, EVERYONE_READS)
            }
            Err(error) => Err(failed(error)),
        }
    }
}

/// The same certificate with versions up to `newest`, as a service profile has it. Nothing is kept of a session: each handshake is a
/// full one, as with a client that makes every connection from scratch.
///
/// # Errors
/// The library can't speak such a version.
pub(crate) fn limited(config: &ServerConfig, newest: TlsVersion) -> Result<Arc<ServerConfig>, rustls::Error> {
    let versions = match newest {
        TlsVersion::Tls12 => &[&TLS12][..],
        TlsVersion::Tls13 => &[&TLS12, &TLS13],
    };
    let mut limited = ServerConfig::builder_with_provider(Arc::clone(config.crypto_provider()))
        .with_protocol_versions(versions)?
        .with_no_client_auth()
        .with_cert_resolver(Arc::clone(&config.cert_resolver));
    limited.alpn_protocols.clone_from(&config.alpn_protocols);
    limited.session_storage = Arc::new(NoServerSessionStorage {});
    limited.send_tls13_tickets = 0;
    Ok(Arc::new(limited))
}

fn make(directory: &Path, host: &str) -> Result<(), TlsError> {
    let making = |source| TlsError::Making { host: host.to_owned(), source };
    let authority_key = KeyPair::generate().map_err(making)?;
    let mut authority = CertificateParams::new(Vec::new()).map_err(making)?;
    authority.distinguished_name.push(DnType::CommonName, "Parshall development authority");
    authority.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    authority.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    let authority_certificate = authority.self_signed(&authority_key).map_err(making)?;

    let mut names: Vec<String> =
        LOOPBACK_NAMES.into_iter().chain([ACCOUNT_NAMES]).map(str::to_owned).collect();
    for name in machine_name().as_deref().into_iter().chain([host]) {
        if !names.iter().any(|known| known.eq_ignore_ascii_case(name)) {
            names.push(name.to_owned());
        }
    }
    let server_key = KeyPair::generate().map_err(making)?;
    let mut server = CertificateParams::new(names).map_err(making)?;
    server.distinguished_name.push(DnType::CommonName, "Parshall development server");
    server.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    server.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    // Verifiers that are strict about the standard ask for it.
    server.use_authority_key_identifier_extension = true;
    let issuer = Issuer::from_params(&authority, &authority_key);
    let server_certificate = server.signed_by(&server_key, &issuer).map_err(making)?;

    fs::create_dir_all(directory).map_err(|source| TlsError::File { path: directory.to_owned(), source })?;
    write_new(&directory.join(KEY), server_key.serialize_pem().as_bytes(), OWNER_ONLY)?;
    write_new(&directory.join(CERTIFICATE), server_certificate.pem().as_bytes(), EVERYONE_READS)?;
    write_new(&directory.join(AUTHORITY), authority_certificate.pem().as_bytes(), EVERYONE_READS)
}

/// What other machines call this one, if that can be in a certificate.
fn machine_name() -> Option<String> {
    let system = rustix::system::uname();
    let name = system.nodename().to_str().ok()?;
    ServerName::try_from(name).ok().map(|_valid| name.to_owned())
}

/// Checks the certificate as a client will that trusts the authority alone.
fn verify(authority: &Path, certificate: &Path, host: &str) -> Result<(), String> {
    let chain = certificates(certificate).map_err(|error| error.to_string())?;
    let (server, intermediates) = chain.split_first().ok_or("there is no certificate")?;
    let mut roots = RootCertStore::empty();
    for root in certificates(authority).map_err(|error| error.to_string())? {
        roots.add(root).map_err(|error| error.to_string())?;
    }
    let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider())
        .build()
        .map_err(|error: VerifierBuilderError| error.to_string())?;
    let name = ServerName::try_from(host).map_err(|error| error.to_string())?;
    verifier
        .verify_server_cert(server, intermediates, &name, &[], UnixTime::now())
        .map(|_verified| ())
        .map_err(|error| error.to_string())
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let unreadable = |source| TlsError::Pem { path: path.to_owned(), expected: "certificate", source };
    let chain: Vec<_> =
        CertificateDer::pem_slice_iter(&read(path)?).collect::<Result<_, _>>().map_err(unreadable)?;
    if chain.is_empty() {
        return Err(unreadable(pem::Error::NoItemsFound));
    }
    Ok(chain)
}

fn read(path: &Path) -> Result<Vec<u8>, TlsError> {
    fs::read(path).map_err(|source| TlsError::File { path: path.to_owned(), source })
}

/// Writes a file that must not be there yet, with its permissions from the first moment on.
fn write_new(path: &Path, content: &[u8], mode: u32) -> Result<(), TlsError> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true).mode(mode);
    options
        .open(path)
        .and_then(|mut file| file.write_all(content))
        .map_err(|source| TlsError::File { path: path.to_owned(), source })
}

/// Named in full, so that it makes no difference what other crates choose for the whole process.
pub(crate) fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

const AUTHORITY: &str = "ca.pem";
const CERTIFICATE: &str = "server.pem";
const KEY: &str = "server.key";

/// Under which every client of the same machine may reach the server.
const LOOPBACK_NAMES: [&str; 3] = ["localhost", "127.0.0.1", "::1"];

/// Names of storage accounts, for programs that know no other form of an account's address.
const ACCOUNT_NAMES: &str = "*.blob.localhost";

const OWNER_ONLY: u32 = 0o600;
const EVERYONE_READS: u32 = 0o644;

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    use rustls::{ClientConfig, ClientConnection, HandshakeKind, ProtocolVersion, ServerConnection};

    #[test]
    fn a_development_certificate_is_made_once_and_used_again() {
        let directory = tempfile::tempdir().unwrap();
        let directory = directory.path().join("new");
        let made = development(&directory, "hubs.example").unwrap();
        let first = fs::read(&made.authority).unwrap();
        let mode = fs::metadata(directory.join(KEY)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        for name in LOOPBACK_NAMES.into_iter().chain(["hubs.example"]) {
            development(&directory, name).unwrap();
        }
        assert_eq!(fs::read(&made.authority).unwrap(), first);
    }

    #[test]
    fn the_certificate_is_good_for_every_name_of_this_machine() {
        let directory = tempfile::tempdir().unwrap();
        development(directory.path(), "hubs.example").unwrap();
        let account = "devstoreaccount1.blob.localhost".to_owned();
        for name in LOOPBACK_NAMES.into_iter().map(str::to_owned).chain(machine_name()).chain([account]) {
            development(directory.path(), &name).unwrap();
        }
    }

    #[test]
    fn a_limited_server_speaks_no_newer_version_and_resumes_nothing() {
        let directory = tempfile::tempdir().unwrap();
        let made = development(directory.path(), "localhost").unwrap();
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(certificates(&made.authority).unwrap());
        let client =
            ClientConfig::builder_with_provider(provider()).with_safe_default_protocol_versions().unwrap();
        let client = Arc::new(client.with_root_certificates(roots).with_no_client_auth());
        for (newest, version) in
            [(TlsVersion::Tls12, ProtocolVersion::TLSv1_2), (TlsVersion::Tls13, ProtocolVersion::TLSv1_3)]
        {
            let server = limited(&made.server, newest).unwrap();
            for _ in 0..2 {
                let name = ServerName::try_from("localhost").unwrap();
                let mut client = ClientConnection::new(Arc::clone(&client), name).unwrap();
                let mut server = ServerConnection::new(Arc::clone(&server)).unwrap();
                while client.is_handshaking() || server.is_handshaking() {
                    let mut bytes = Vec::new();
                    client.write_tls(&mut bytes).unwrap();
                    server.read_tls(&mut &bytes[..]).unwrap();
                    server.process_new_packets().unwrap();
                    bytes.clear();
                    server.write_tls(&mut bytes).unwrap();
                    client.read_tls(&mut &bytes[..]).unwrap();
                    client.process_new_packets().unwrap();
                }
                assert_eq!(client.protocol_version(), Some(version));
                assert_eq!(client.handshake_kind(), Some(HandshakeKind::Full));
            }
        }
    }

    #[test]
    fn a_copy_of_the_authority_overwrites_nothing_else() {
        let directory = tempfile::tempdir().unwrap();
        let made = development(&directory.path().join("tls"), "localhost").unwrap();
        let copy = directory.path().join("copy.pem");
        for _again in 0..2 {
            made.copy_authority(&copy).unwrap();
            assert_eq!(fs::read(&copy).unwrap(), fs::read(&made.authority).unwrap());
        }
        fs::write(&copy, "precious").unwrap();
        let error = made.copy_authority(&copy).unwrap_err();
        assert!(matches!(error, TlsError::Taken { .. }), "{error}");
        assert_eq!(fs::read(&copy).unwrap(), b"precious");
    }

    #[test]
    fn a_certificate_for_other_names_is_refused_and_left_alone() {
        let directory = tempfile::tempdir().unwrap();
        development(directory.path(), "one.example").unwrap();
        let before = fs::read(directory.path().join(CERTIFICATE)).unwrap();
        let error = development(directory.path(), "two.example").unwrap_err();
        assert!(matches!(error, TlsError::Unfit { .. }), "{error}");
        assert_eq!(fs::read(directory.path().join(CERTIFICATE)).unwrap(), before);
    }

    #[test]
    fn a_directory_that_lacks_a_file_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        development(directory.path(), "localhost").unwrap();
        fs::remove_file(directory.path().join(KEY)).unwrap();
        let error = development(directory.path(), "localhost").unwrap_err();
        assert!(matches!(error, TlsError::Incomplete { .. }), "{error}");
    }

    #[test]
    fn files_that_are_no_certificate_or_no_pair_are_refused_by_name() {
        let directory = tempfile::tempdir().unwrap();
        let [one, two] = ["one", "two"].map(|name| directory.path().join(name));
        development(&one, "localhost").unwrap();
        development(&two, "localhost").unwrap();
        let missing = load(&directory.path().join("none.pem"), &one.join(KEY)).unwrap_err();
        assert!(matches!(missing, TlsError::File { .. }), "{missing}");
        let swapped = load(&one.join(KEY), &one.join(CERTIFICATE)).unwrap_err();
        assert!(matches!(swapped, TlsError::Pem { expected: "certificate", .. }), "{swapped}");
        let mixed = load(&one.join(CERTIFICATE), &two.join(KEY)).unwrap_err();
        assert!(matches!(mixed, TlsError::Pair { .. }), "{mixed}");
    }
}
