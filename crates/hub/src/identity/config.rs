//! Issuers of tokens, as plain data.

use std::io::Read as _;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use access::token::{KeySet, Role, RoleAssignment, TokenIssuer};
use hyper::Uri;
use serde::{Deserialize, Serialize};
use units::duration;

use super::keys::{IssuerKeys, KeySource};

/// An issuer whose tokens are accepted: a tenant of Microsoft Entra ID, or any other by its name and keys.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TokenIssuerConfig {
    /// The id of a tenant of Entra ID. Its names as an issuer and the address of its keys follow from it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<String>,
    /// What tokens name as their issuer, exactly.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub issuer: Option<String>,
    /// Where its keys are (JWKS): a URL with https, or with http on this machine, or the path of a file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keys: Option<String>,
    /// What tokens for hubs, queues and topics may be for, besides Event Hubs, Service Bus and this namespace.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub audiences: Vec<String>,
    /// Who may do what, besides what tokens say in their claim `roles`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub roles: Vec<RoleAssignmentConfig>,
    /// By how much its clock may differ from ours. At most 10 min; default 30 s.
    #[serde(default = "default_clock_skew", with = "duration")]
    pub clock_skew: Duration,
}

/// A role of a principal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RoleAssignmentConfig {
    /// The object id of a user or service principal, or the id of an application.
    pub principal: String,
    /// A built-in role of Azure: `Azure Event Hubs Data Sender`.
    pub role: String,
    /// Where: the path of an entity, or the name of a container. Default: everywhere.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub scope: String,
}

/// Why an issuer can't be accepted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{path}: {reason}")]
pub struct TokenIssuerError {
    /// What is wrong, as a path such as `token_issuers[0].keys`.
    pub path: String,
    /// What is wrong with it.
    pub reason: String,
}

impl TokenIssuerConfig {
    /// What is known of the issuer, which has this place in the list.
    pub(super) fn issuer(&self, index: usize) -> Result<TokenIssuer, TokenIssuerError> {
        let wrong = |field: &str, reason: String| Err(TokenIssuerError { path: path(index, field), reason });
        let names = match (&self.tenant, &self.issuer) {
            (Some(tenant), None) => {
                let is_id = |tenant: &str| {
                    !tenant.is_empty()
                        && tenant.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-.".contains(&byte))
                };
                if !is_id(tenant) {
                    return wrong("tenant", format!("{tenant:?} is not the id of a tenant"));
                }
                vec![
                    format!("https://sts.windows.net/{tenant}/"),
                    format!("https://login.microsoftonline.com/{tenant}/v2.0"),
                ]
            }
            (None, Some(issuer)) if !issuer.is_empty() => vec![issuer.clone()],
            (None, _) => return wrong("issuer", "the issuer has neither `tenant` nor `issuer`".to_owned()),
            (Some(_), Some(_)) => {
                return wrong("issuer", "the issuer has both `tenant` and `issuer`".to_owned());
            }
        };
        if self.clock_skew > MAXIMUM_CLOCK_SKEW {
            let given = duration::text(self.clock_skew);
            return wrong(
                "clock_skew",
                format!("{given} is more than {}", duration::text(MAXIMUM_CLOCK_SKEW)),
            );
        }
        let mut assignments = Vec::with_capacity(self.roles.len());
        for (place, RoleAssignmentConfig { principal, role, scope }) in self.roles.iter().enumerate() {
            if principal.is_empty() {
                return wrong(&format!("roles[{place}].principal"), "the principal is empty".to_owned());
            }
            let role: Role = match role.parse() {
                Ok(role) => role,
                Err(error) => return wrong(&format!("roles[{place}].role"), format!("{error}")),
            };
            let scope = scope.trim_matches('/').to_owned();
            assignments.push(RoleAssignment { principal: principal.clone(), role, scope });
        }
        Ok(TokenIssuer { names, assignments, clock_skew: self.clock_skew })
    }

    /// The keys of the issuer: those of a file are read, others are still to be fetched.
    pub(super) fn keys(&self, index: usize) -> Result<Arc<IssuerKeys>, TokenIssuerError> {
        let wrong = |reason: String| TokenIssuerError { path: path(index, "keys"), reason };
        let place = match (&self.keys, &self.tenant) {
            (Some(keys), _) => keys.clone(),
            (None, Some(tenant)) => {
                format!("https://login.microsoftonline.com/{tenant}/discovery/v2.0/keys")
            }
            (None, None) => {
                return Err(wrong("the issuer has no `keys`: a URL or a file with a JWKS".to_owned()));
            }
        };
        if place.contains("://") {
            let url: Uri =
                place.parse().map_err(|error| wrong(format!("{place:?} is not a URL: {error}")))?;
            if !is_protected(&url) {
                return Err(wrong(format!(
                    "{place:?} has no https, so anyone on the way could put in keys of their own"
                )));
            }
            return Ok(IssuerKeys::of(KeySource::Url(url), None));
        }
        let path = Path::new(&place);
        let keys = read_keys(path).map_err(|reason| wrong(format!("{place:?} can't be used: {reason}")))?;
        Ok(IssuerKeys::of(KeySource::File(path.to_owned()), Some(keys)))
    }
}

/// The keys in a file.
pub(super) fn read_keys(path: &Path) -> Result<KeySet, String> {
    let mut text = Vec::new();
    let file = std::fs::File::open(path).map_err(|error| error.to_string())?;
    file.take(MAXIMUM_DOCUMENT as u64 + 1).read_to_end(&mut text).map_err(|error| error.to_string())?;
    if text.len() > MAXIMUM_DOCUMENT {
        return Err(format!("it has more than {MAXIMUM_DOCUMENT} bytes"));
    }
    KeySet::parse(&text).map_err(|error| error.to_string())
}

/// Whether what is fetched from there is what is there.
fn is_protected(url: &Uri) -> bool {
    let host = url.host().unwrap_or_default().trim_matches(['[', ']']);
    let is_here = || host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback());
    match url.scheme_str() {
        Some("https") => !host.is_empty(),
        Some("http") => is_here(),
        _ => false,
    }
}

fn path(index: usize, field: &str) -> String {
    format!("token_issuers[{index}].{field}")
}

const fn default_clock_skew() -> Duration {
    Duration::from_secs(30)
}

/// More would make the ends of tokens meaningless.
const MAXIMUM_CLOCK_SKEW: Duration = Duration::from_secs(600);

/// Of a document with keys; those of Entra ID have 20 KB.
pub(super) const MAXIMUM_DOCUMENT: usize = 1024 * 1024;

#[cfg(test)]
mod tests {
    use super::*;

    fn config() -> TokenIssuerConfig {
        TokenIssuerConfig {
            tenant: None,
            issuer: Some("https://issuer.example/".to_owned()),
            keys: Some("https://issuer.example/keys".to_owned()),
            audiences: Vec::new(),
            roles: Vec::new(),
            clock_skew: default_clock_skew(),
        }
    }

    fn mistake(change: impl FnOnce(&mut TokenIssuerConfig)) -> String {
        let mut config = config();
        change(&mut config);
        let error = config.issuer(3).err().or_else(|| config.keys(3).err());
        error.map(|error| error.to_string()).unwrap_or_default()
    }

    #[test]
    fn a_tenant_has_two_names_and_its_keys_where_entra_id_publishes_them() {
        let tenant = TokenIssuerConfig { tenant: Some("t".into()), issuer: None, keys: None, ..config() };
        let issuer = tenant.issuer(0).unwrap();
        assert!(issuer.is("https://sts.windows.net/t/"));
        assert!(issuer.is("https://login.microsoftonline.com/t/v2.0"));
        assert!(tenant.keys(0).unwrap().can_change());
    }

    #[test]
    fn a_mistake_is_told_with_its_place() {
        assert_eq!(mistake(|_| {}), "");
        let both = mistake(|config| config.tenant = Some("t".into()));
        assert_eq!(both, "token_issuers[3].issuer: the issuer has both `tenant` and `issuer`");
        let http = mistake(|config| config.keys = Some("http://issuer.example/keys".into()));
        assert!(
            http.starts_with("token_issuers[3].keys: \"http://issuer.example/keys\" has no https"),
            "{http}"
        );
        assert_eq!(mistake(|config| config.keys = Some("http://127.0.0.1:1/keys".into())), "");
        let file = mistake(|config| config.keys = Some("/no/such/file".into()));
        assert!(file.starts_with("token_issuers[3].keys: \"/no/such/file\" can't be used"), "{file}");
        let role = mistake(|config| {
            let assignment =
                RoleAssignmentConfig { principal: "p".into(), role: "Owner".into(), scope: String::new() };
            config.roles.push(assignment);
        });
        assert!(role.starts_with("token_issuers[3].roles[0].role: \"Owner\" is not a role"), "{role}");
        let skew = mistake(|config| config.clock_skew = Duration::from_secs(601));
        assert!(skew.starts_with("token_issuers[3].clock_skew"), "{skew}");
    }
}
