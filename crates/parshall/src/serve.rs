//! `parshall serve`: the embedded service on its own.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args;

/// The arguments of `serve`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  parshall serve
  parshall serve --amqp 127.0.0.1:0 --http 127.0.0.1:0      any free ports, told on standard output
  parshall serve --certificate server.pem --key server.key  TLS")]
pub(crate) struct ServeArguments {
    /// The address for AMQP clients; port 0 takes any free one
    ///
    /// Example: --amqp 127.0.0.1:5673
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:5672")]
    pub(crate) amqp: SocketAddr,

    /// The address for /health and /metrics; port 0 takes any free one
    ///
    /// Example: --http 127.0.0.1:9091
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:5300")]
    pub(crate) http: SocketAddr,

    /// The certificate chain (PEM) for TLS on the AMQP address [default: no TLS]
    ///
    /// Example: --certificate server.pem --key server.key
    #[arg(long, value_name = "FILE", requires = "key")]
    pub(crate) certificate: Option<PathBuf>,

    /// The private key (PEM) of the certificate
    #[arg(long, value_name = "FILE", requires = "certificate")]
    pub(crate) key: Option<PathBuf>,
}
