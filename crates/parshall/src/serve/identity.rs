//! The issuer of tokens for development: where it is, and how long its tokens are valid.

use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::time::Duration;

use clap::{Args, ValueEnum};
use hub::identity::DevelopmentIdentityConfig;

use super::ANY_PORT;

/// The arguments that are about it.
#[derive(Clone, Copy, Debug, Args)]
pub(super) struct IdentityArguments {
    /// An address for tokens as Microsoft Entra ID issues them, which this service accepts: for programs with a managed
    /// identity. Without an address, any free port [default: none]
    ///
    /// A command, and --format env, have IDENTITY_ENDPOINT and IDENTITY_HEADER, with which DefaultAzureCredential finds it.
    /// Example: parshall serve --dev-identity -- pytest
    #[arg(
        long,
        value_name = "ADDRESS:PORT", value_parser = settings::address::parse,
        num_args = 0..=1, default_missing_value = ANY_PORT,
        help_heading = "Identity"
    )]
    pub(super) dev_identity: Option<SocketAddr>,

    /// The same with TLS, as clients with a tenant, a client id and a secret need it. Without an address, any free port
    /// [default: none]
    ///
    /// A command, and --format env, have AZURE_AUTHORITY_HOST, AZURE_TENANT_ID, AZURE_CLIENT_ID and AZURE_CLIENT_SECRET as well.
    /// Clients must trust the authority of the certificate. Example: --dev-identity-tls 127.0.0.1:8445
    #[arg(
        long,
        value_name = "ADDRESS:PORT", value_parser = settings::address::parse,
        num_args = 0..=1, default_missing_value = ANY_PORT,
        group = "encrypted",
        help_heading = "Identity"
    )]
    pub(super) dev_identity_tls: Option<SocketAddr>,

    /// The form of AZURE_AUTHORITY_HOST: which one a library takes depends on how it validates an authority
    ///
    /// Example: --dev-identity-authority adfs
    #[arg(
        long,
        value_enum, value_name = "FORM",
        default_value_t = AuthorityForm::Dsts,
        help_heading = "Identity"
    )]
    pub(super) dev_identity_authority: AuthorityForm,

    /// How long these tokens are valid, from 1 s to 1 day: short ones show whether a program renews them
    ///
    /// Example: --dev-token-lifetime '30 s'
    #[arg(
        long,
        value_name = "DURATION", value_parser = token_lifetime,
        default_value = "1 h",
        help_heading = "Identity"
    )]
    dev_token_lifetime: Duration,
}

impl IdentityArguments {
    /// The issuer that is asked for, if one is.
    pub(super) fn config(&self) -> Option<DevelopmentIdentityConfig> {
        let address = self.dev_identity.or(self.dev_identity_tls);
        address.map(|_| DevelopmentIdentityConfig { token_lifetime: self.dev_token_lifetime })
    }
}

/// How an authority is written, by which libraries decide whether and how they validate it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum AuthorityForm {
    /// https://HOST:PORT/dstsv2, for .NET, Python, JavaScript, Java, Rust and C++
    Dsts,
    /// https://HOST:PORT, for Go, Python, JavaScript, Java, Rust and C++
    Adfs,
}

impl AuthorityForm {
    /// The authority at this address.
    pub(super) fn at(self, address: SocketAddr) -> String {
        match self {
            Self::Dsts => format!("https://{address}/dstsv2"),
            Self::Adfs => format!("https://{address}"),
        }
    }
}

/// A lifetime of tokens, as a person writes it.
fn token_lifetime(text: &str) -> Result<Duration, String> {
    let lifetime = units::duration::parse(text).map_err(|error| error.to_string())?;
    match TOKEN_LIFETIMES.contains(&lifetime) {
        true => Ok(lifetime),
        false => Err("it is not from 1 s to 1 day".to_owned()),
    }
}

/// How long tokens may be valid. Less than a second is less than a token can say.
const TOKEN_LIFETIMES: RangeInclusive<Duration> = Duration::from_secs(1)..=Duration::from_secs(24 * 3600);
