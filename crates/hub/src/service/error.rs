//! Why a service does not start.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

use access::TransportSecurity;

use crate::front::listener::Protocol;
use crate::identity::NoRandomness;
use crate::namespace::NamespaceError;
use blob_store::BlobError;

/// Why a service did not start. Nothing is left running then.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The namespace makes no sense.
    #[error(transparent)]
    Namespace(#[from] NamespaceError),
    /// An address can't be listened on.
    #[error("{} can't listen on {address}: {source}", protocol.name_over(*security))]
    Listen {
        /// What should be spoken there.
        protocol: Protocol,
        /// Whether over TLS.
        security: TransportSecurity,
        /// The address.
        address: SocketAddr,
        /// What the system said.
        source: io::Error,
    },
    /// The versions of TLS that the service profile asks for can't be spoken.
    #[error("profile.tls: {0}")]
    Tls(#[from] rustls::Error),
    /// There is no address for AMQP over plain TCP, where the connection strings of a service lead.
    #[error("there is no address for AMQP over plain TCP")]
    WithoutAmqp,
    /// A protocol that is spoken in the clear alone has a certificate.
    #[error("{} is not served over TLS", in_the_clear(*protocol))]
    WithoutTls {
        /// What should be spoken.
        protocol: Protocol,
    },
    /// Tokens are to be served, and there is no issuer of them.
    #[error("an address is for tokens, and there is no development issuer")]
    WithoutIssuer,
    /// There can be no development issuer.
    #[error("there is no development issuer: {0}")]
    Issuer(#[from] NoRandomness),
    /// The blobs in the data directory can't be served.
    #[error("the blobs in {} can't be served: {source}", directory.display())]
    Blobs {
        /// The directory.
        directory: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A container can't be made.
    #[error("blob.containers: {name} can't be created: {source}")]
    Container {
        /// Its name.
        name: String,
        /// Why not.
        source: BlobError,
    },
    /// Other machines could connect to a service whose clock anyone may move who connects.
    #[error(
        "{} must not listen on {address} while time is under control: other machines may connect there",
        protocol.name_over(*security)
    )]
    TimeBeyondLoopback {
        /// What should be spoken there.
        protocol: Protocol,
        /// Whether over TLS.
        security: TransportSecurity,
        /// The address.
        address: SocketAddr,
    },
    /// Times that have not come yet would be kept.
    #[error(
        "time can't be under control where data is kept: {} would have times that have not come yet", directory.display()
    )]
    TimeOfKeptData {
        /// The data directory.
        directory: PathBuf,
    },
    /// Other machines could connect, and no secret would keep anyone out.
    #[error(
        "{} must not listen on {address}, where other machines may connect: {openness}", protocol.name_over(*security)
    )]
    OpenToAnyone {
        /// What should be spoken there.
        protocol: Protocol,
        /// Whether over TLS.
        security: TransportSecurity,
        /// The address.
        address: SocketAddr,
        /// What lets everyone in.
        openness: Openness,
    },
}

/// What lets everyone in who knows no more than public documentation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Openness {
    /// Tokens are not verified.
    AcceptAny,
    /// A key has the value that every development emulator has.
    DevelopmentKey {
        /// The key's name.
        name: String,
    },
    /// It issues tokens for development.
    DevelopmentIdentity,
    /// The storage account's key has the value that every development emulator has.
    DevelopmentStorageKey,
    /// The explorer page asks for no key.
    Explorer,
}

/// What is spoken in the clear alone, by a name of its own.
const fn in_the_clear(protocol: Protocol) -> &'static str {
    match protocol {
        Protocol::Operations => "HTTP for health and metrics",
        other => other.name_over(TransportSecurity::Plain),
    }
}

impl fmt::Display for Openness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AcceptAny => f.write_str("`signatures: accept-any` accepts every client"),
            Self::DevelopmentKey { name } => {
                write!(f, "the key `{name}` has the development emulator's well-known value")
            }
            Self::DevelopmentIdentity => f.write_str("it issues tokens for development"),
            Self::DevelopmentStorageKey => {
                f.write_str("`blob.account.key` has the development emulator's well-known value")
            }
            Self::Explorer => f.write_str("it asks for no key, shows every message and can remove it"),
        }
    }
}
