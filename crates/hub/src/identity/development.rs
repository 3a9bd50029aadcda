//! An issuer of the service's own, for development and tests: it gives tokens to programs that ask Microsoft Entra ID for
//! some, and the service accepts them.
//!
//! Its key lives as long as the process. The secret that clients show is made at the start as well, so other users of the
//! machine get no token, although the address is open to them.

use std::fmt;
use std::time::{Duration, SystemTime};

use access::Secret;
use access::token::{DevelopmentClaims, KeySet, SigningKey, TokenIssuer};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::rand::{SecureRandom as _, SystemRandom};
use serde_json::Value;

/// How a development issuer behaves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DevelopmentIdentityConfig {
    /// How long its tokens are valid: from a second to a day.
    pub token_lifetime: Duration,
}

/// An issuer, its key and the one principal that it knows.
#[derive(Debug)]
pub struct DevelopmentIssuer {
    key: SigningKey,
    public_keys: KeySet,
    secret: Secret,
    lifetime: Duration,
}

/// What programs need to be known to the issuer.
#[derive(Clone, Debug)]
pub struct DevelopmentVariables {
    /// The id of the tenant.
    pub tenant: &'static str,
    /// The id of the application.
    pub client: &'static str,
    /// Its secret, which is also what clients of the managed identity show.
    pub secret: Secret,
}

/// A token, and how long it lasts.
pub(crate) struct Grant {
    /// The token.
    pub(crate) token: String,
    /// How long it is valid.
    pub(crate) lifetime: Duration,
    /// The instant from which on it is void.
    pub(crate) until: SystemTime,
}

/// Why there is no issuer, or no token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the system has no random numbers")]
pub struct NoRandomness;

impl Default for DevelopmentIdentityConfig {
    fn default() -> Self {
        Self { token_lifetime: Duration::from_secs(3600) }
    }
}

impl DevelopmentIssuer {
    /// An issuer with a new key.
    ///
    /// # Errors
    /// The system has no random numbers.
    pub fn new(config: &DevelopmentIdentityConfig) -> Result<Self, NoRandomness> {
        let key = SigningKey::generate().map_err(|_unspecified| NoRandomness)?;
        let public_keys = KeySet::parse(key.key_set().to_string().as_bytes())
            .expect("a key that was made here can be read");
        let mut secret = [0; 24];
        SystemRandom::new().fill(&mut secret).map_err(|_unspecified| NoRandomness)?;
        Ok(Self {
            key,
            public_keys,
            secret: URL_SAFE_NO_PAD.encode(secret).into(),
            lifetime: config.token_lifetime.clamp(SHORTEST_LIFETIME, LONGEST_LIFETIME),
        })
    }

    /// What programs need.
    #[must_use]
    pub fn variables(&self) -> DevelopmentVariables {
        DevelopmentVariables { tenant: TENANT, client: CLIENT, secret: self.secret.clone() }
    }

    /// Whether this is the id of the application.
    pub(crate) fn is_client(&self, client: &str) -> bool {
        client.eq_ignore_ascii_case(CLIENT)
    }

    /// Whether this is the secret.
    pub(crate) fn is_secret(&self, secret: &str) -> bool {
        let own = self.secret.reveal().as_bytes();
        // As long for a good guess as for a bad one.
        own.len() == secret.len()
            && own.iter().zip(secret.bytes()).fold(0, |all, (own, other)| all | (own ^ other)) == 0
    }

    /// A token of `principal` for `audience` that is valid from `now` on.
    ///
    /// # Errors
    /// The system has no random numbers.
    pub(crate) fn grant(
        &self,
        audience: &str,
        principal: &str,
        now: SystemTime,
    ) -> Result<Grant, NoRandomness> {
        let until = now + self.lifetime;
        let claims = DevelopmentClaims {
            issuer: ISSUER,
            audience,
            tenant: TENANT,
            principal,
            roles: &ROLES,
            from: now,
            until,
        };
        let token = self.key.sign(&claims).map_err(|_unspecified| NoRandomness)?;
        Ok(Grant { token, lifetime: self.lifetime, until })
    }

    /// Its keys, as it publishes them.
    pub(crate) fn published_keys(&self) -> Value {
        self.key.key_set()
    }

    pub(super) fn public_keys(&self) -> KeySet {
        self.public_keys.clone()
    }

    /// What verifies its tokens: here is one clock only.
    pub(super) fn issuer(&self) -> TokenIssuer {
        TokenIssuer { names: vec![ISSUER.to_owned()], assignments: Vec::new(), clock_skew: Duration::ZERO }
    }
}

impl fmt::Debug for Grant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Grant").field("until", &self.until).finish_non_exhaustive()
    }
}

/// What its tokens name as their issuer.
const ISSUER: &str = "https://identity.parshall.invalid/";

/// The one tenant for which the official clients neither ask Microsoft whether an authority is genuine, nor insist on its
/// being one of Microsoft's.
const TENANT: &str = "adfs";

/// Less is less than a token can say.
const SHORTEST_LIFETIME: Duration = Duration::from_secs(1);
const LONGEST_LIFETIME: Duration = Duration::from_secs(24 * 3600);

const CLIENT: &str = "5061f5a1-0000-4000-8000-000000000001";

/// The one principal may do everything.
const ROLES: [&str; 3] =
    ["Azure Event Hubs Data Owner", "Azure Service Bus Data Owner", "Storage Blob Data Owner"];
