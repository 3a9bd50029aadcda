//! Bearer tokens of Microsoft Entra ID and of issuers like it.
//!
//! ```text
//!   token ─▶ issuer that it names ─▶ key that it names ─▶ signature, times, audience ─▶ roles
//!                                     │ unknown: newer keys are fetched, the client tries again
//! ```
//!
//! * [`Identity`] verifies tokens of all issuers, for all fronts, and counts what became of them.
//! * `config` describes issuers, `keys` holds the keys of one and renews them, `fetch` gets them over HTTP.
//! * [`DevelopmentIssuer`] issues tokens itself, so that programs that ask for some run without a directory.
//!
//! Verifying never waits: where keys are missing, the token is refused for the moment, and they are fetched meanwhile. How
//! often is bounded, since anyone can send a token that names an unknown key.

mod config;
mod development;
mod fetch;
mod keys;
mod metrics;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;

use access::token::{JsonWebToken, TokenAudience, TokenError, TokenIssuer, VerifiedToken};
use tokio::sync::watch;
use tokio::task::JoinSet;

pub use config::{RoleAssignmentConfig, TokenIssuerConfig, TokenIssuerError};
pub(crate) use development::Grant;
pub use development::{DevelopmentIdentityConfig, DevelopmentIssuer, DevelopmentVariables, NoRandomness};
use keys::IssuerKeys;
pub(crate) use metrics::IdentityMetrics;

/// Verifies the tokens of the issuers of a service.
#[derive(Debug)]
pub struct Identity {
    issuers: Vec<Issuer>,
    storage: TokenAudience,
    accepted: AtomicU64,
    /// By the place of their reason in [`TokenError::REASONS`].
    refused: [AtomicU64; TokenError::REASONS.len()],
}

#[derive(Debug)]
struct Issuer {
    issuer: TokenIssuer,
    keys: Arc<IssuerKeys>,
    messaging: TokenAudience,
}

/// Which service a token is presented to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenService {
    /// Hubs, queues and topics.
    Messaging,
    /// Blobs.
    Storage,
}

impl Identity {
    /// What verifies the tokens of the issuers that `configs` describe, in the namespace `host` and for the storage account
    /// `account`; `None` if there are no issuers.
    ///
    /// # Errors
    /// A description makes no sense, or a file with keys can't be used.
    pub fn new(
        configs: &[TokenIssuerConfig],
        host: &str,
        account: &str,
    ) -> Result<Option<Self>, TokenIssuerError> {
        let issuer = |(index, config): (usize, &TokenIssuerConfig)| -> Result<Issuer, TokenIssuerError> {
            Ok(Issuer {
                issuer: config.issuer(index)?,
                keys: config.keys(index)?,
                messaging: TokenAudience::messaging(host, &config.audiences),
            })
        };
        let issuers: Vec<Issuer> = configs.iter().enumerate().map(issuer).collect::<Result<_, _>>()?;
        Ok((!issuers.is_empty()).then(|| Self::of(issuers, account)))
    }

    fn of(issuers: Vec<Issuer>, account: &str) -> Self {
        Self {
            issuers,
            storage: TokenAudience::storage(account),
            accepted: AtomicU64::new(0),
            refused: Default::default(),
        }
    }

    /// The same, or one for `development` alone, which accepts its tokens as well.
    pub(crate) fn and_development(
        identity: Option<Self>,
        development: &DevelopmentIssuer,
        host: &str,
        account: &str,
    ) -> Self {
        let mut identity = identity.unwrap_or_else(|| Self::of(Vec::new(), account));
        identity.issuers.push(Issuer {
            issuer: development.issuer(),
            keys: IssuerKeys::fixed(development.public_keys()),
            messaging: TokenAudience::messaging(host, &[]),
        });
        identity
    }

    /// What `token` is worth to `service` at `now`.
    ///
    /// # Errors
    /// It is not accepted, or its issuer's keys are not here yet.
    pub fn verify(
        &self,
        token: &str,
        service: TokenService,
        now: SystemTime,
    ) -> Result<VerifiedToken, TokenError> {
        let verified = self.verify_uncounted(token, service, now);
        match &verified {
            Ok(_) => &self.accepted,
            Err(error) => {
                let reason = error.reason();
                let place = TokenError::REASONS.iter().position(|known| *known == reason);
                &self.refused[place.unwrap_or_default()]
            }
        }
        .fetch_add(1, Ordering::Relaxed);
        verified
    }

    fn verify_uncounted(
        &self,
        token: &str,
        service: TokenService,
        now: SystemTime,
    ) -> Result<VerifiedToken, TokenError> {
        let token = JsonWebToken::parse(token)?;
        let name = token.issuer();
        let found = self.issuers.iter().find(|issuer| issuer.issuer.is(name));
        let Issuer { issuer, keys, messaging } =
            found.ok_or_else(|| TokenError::Issuer { issuer: name.into() })?;
        let audience = match service {
            TokenService::Messaging => messaging,
            TokenService::Storage => &self.storage,
        };
        let Some(current) = keys.current() else {
            keys.asks_for_newer();
            return Err(TokenError::KeysPending);
        };
        match issuer.verify(&token, &current, audience, now) {
            Err(TokenError::UnknownKey { .. }) if keys.asks_for_newer() => Err(TokenError::KeysPending),
            verified => verified,
        }
    }

    /// Returns the login address of the first issuer, in the form of Azure's services: clients find the tenant in its path.
    pub(crate) fn authorization_uri(&self) -> Option<String> {
        let name = self.issuers.first()?.issuer.names.first()?;
        let tenant = name.trim_end_matches('/').trim_end_matches("/v2.0");
        let address = match tenant.strip_prefix("https://sts.windows.net/") {
            Some(tenant) => format!("https://login.microsoftonline.com/{tenant}"),
            None => tenant.to_owned(),
        };
        Some(format!("{address}/oauth2/authorize"))
    }

    /// Keeps the keys of all issuers fresh until `stop` becomes true.
    pub(crate) fn start(&self, tasks: &mut JoinSet<()>, stop: &watch::Receiver<bool>) {
        for issuer in &self.issuers {
            if issuer.keys.can_change() {
                tasks.spawn(keys::renew(Arc::clone(&issuer.keys), stop.clone()));
            }
        }
    }

    /// Why tokens can't be verified at present; nothing if they can.
    pub(crate) fn troubles(&self) -> impl Iterator<Item = String> {
        self.issuers.iter().filter_map(|issuer| {
            let reason = issuer.keys.missing_because()?;
            Some(format!("the keys of the issuer {} are not loaded: {reason}", issuer.issuer.names[0]))
        })
    }
}
