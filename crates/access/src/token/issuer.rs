//! What is known of an issuer, and what a token of it is worth.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::{JsonWebToken, KeySet, Role, TokenError};

/// An issuer whose tokens are accepted.
#[derive(Clone, Debug)]
pub struct TokenIssuer {
    /// What its tokens name as their issuer, exactly: `https://sts.windows.net/{tenant}/`.
    pub names: Vec<String>,
    /// Who has which role, beside the roles that tokens name themselves.
    pub assignments: Vec<RoleAssignment>,
    /// By how much its clock may differ from ours.
    pub clock_skew: Duration,
}

/// A role of a principal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RoleAssignment {
    /// The object id of a user, group or service principal, or the id of an application.
    pub principal: String,
    /// What it may do.
    pub role: Role,
    /// Where: the path of an entity or the name of a container; empty for all of them.
    pub scope: String,
}

/// A service, as tokens name it.
#[derive(Clone, Debug)]
pub struct TokenAudience {
    names: Vec<String>,
    is_storage: bool,
}

/// A token that is genuine, valid and for this service.
#[derive(Clone, Debug)]
pub struct VerifiedToken {
    /// Who presented it.
    pub principal: String,
    /// Tenant of the principal, if the token has it.
    pub tenant: Option<String>,
    /// What it may do with the service that was asked about, and where: roles and their scopes, which are empty for
    /// everything. There is at least one.
    pub roles: Vec<(Role, String)>,
    /// The instant from which on the token is void.
    pub expires_at: SystemTime,
}

impl TokenAudience {
    /// Hubs, queues and topics, in the namespace `host` and under these other names.
    #[must_use]
    pub fn messaging(host: &str, others: &[String]) -> Self {
        let own = [EVENT_HUBS.to_owned(), SERVICE_BUS.to_owned(), format!("https://{host}")];
        Self { names: own.into_iter().chain(others.iter().cloned()).collect(), is_storage: false }
    }

    /// The blobs of a storage account.
    #[must_use]
    pub fn storage(account: &str) -> Self {
        let names = vec![STORAGE.to_owned(), format!("https://{account}.blob.core.windows.net")];
        Self { names, is_storage: true }
    }

    /// Whether a token for `audience` is for this service. Letter case and slashes at the end make no difference: some
    /// clients ask for two of them.
    fn is(&self, audience: &str) -> bool {
        let plain = |name: &str| name.trim_end_matches('/').to_ascii_lowercase();
        let audience = plain(audience);
        self.names.iter().any(|name| plain(name) == audience)
    }
}

impl TokenIssuer {
    /// Whether this is the issuer of this name.
    #[must_use]
    pub fn is(&self, name: &str) -> bool {
        self.names.iter().any(|own| own == name)
    }

    /// What `token` is worth at `now` to the service `audience`, if one of `keys` signed it.
    ///
    /// # Errors
    /// It is not genuine, not valid, for another service, or its principal has no role here.
    pub fn verify(
        &self,
        token: &JsonWebToken<'_>,
        keys: &KeySet,
        audience: &TokenAudience,
        now: SystemTime,
    ) -> Result<VerifiedToken, TokenError> {
        keys.verify(token)?;
        let claims = &token.claims;
        // Before what it is for: a stale token for another service is stale first.
        let expires_at = instant(claims.exp.whole())
            .and_then(|end| end.checked_add(self.clock_skew))
            .ok_or(TokenError::Malformed("its end is beyond all calendars"))?;
        if now >= expires_at {
            return Err(TokenError::Expired { expired_at: expires_at });
        }
        if let Some(not_before) = claims.nbf {
            let not_before = instant(not_before.whole())
                .ok_or(TokenError::Malformed("its beginning is beyond all calendars"))?;
            if now.checked_add(self.clock_skew).is_some_and(|latest| latest < not_before) {
                return Err(TokenError::NotYetValid { not_before });
            }
        }
        if !claims.aud.iter().any(|name| audience.is(name)) {
            let audiences: Vec<&str> = claims.aud.iter().take(SHOWN_AUDIENCES).collect();
            let expected = audience.names.join(" or ");
            return Err(TokenError::Audience { audience: audiences.join(", ").as_str().into(), expected });
        }
        let principal = token.principals().next().unwrap_or_default().to_owned();
        // Roles of applications that are none of ours are others' business.
        let named = claims.roles.iter().filter_map(|name| Some((name.parse().ok()?, String::new())));
        let assigned = self
            .assignments
            .iter()
            .filter(|assignment| {
                token.principals().any(|name| name.eq_ignore_ascii_case(&assignment.principal))
            })
            .map(|assignment| (assignment.role, assignment.scope.clone()));
        let mut roles: Vec<(Role, String)> = Vec::new();
        for role in named.chain(assigned).filter(|(role, _)| role.is_of_storage() == audience.is_storage) {
            if !roles.contains(&role) {
                roles.push(role);
            }
        }
        match roles.is_empty() {
            true => Err(TokenError::NoRole { principal: principal.as_str().into() }),
            false => Ok(VerifiedToken { principal, tenant: claims.tid.clone(), roles, expires_at }),
        }
    }
}

fn instant(seconds: u64) -> Option<SystemTime> {
    UNIX_EPOCH.checked_add(Duration::from_secs(seconds))
}

const EVENT_HUBS: &str = "https://eventhubs.azure.net";
const SERVICE_BUS: &str = "https://servicebus.azure.net";
const STORAGE: &str = "https://storage.azure.com";

/// Of the audiences of a token, in a refusal.
const SHOWN_AUDIENCES: usize = 4;
