//! User delegation keys.
//!
//! A signature of such a key grants at most what the roles of its principal allow. The roles are those in the token of the request for the
//! key. They are retained in memory as long as a key of the principal is valid.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use access::storage::{StorageAccountKey, StorageRights, StorageSignatureError, UserDelegationKey};
use access::token::{Role, VerifiedToken};
use listen::http::RequestBody;
use units::ByteSize;
use units::date::{iso_date, parse_iso_date};

use super::BlobFront;
use super::authorize::Granted;
use super::http_error::HttpError;
use super::reply::{self, Reply};
use super::request::Request;
use super::xml;
use blob_store::Now;

/// The roles of principals with valid keys, by object id.
#[derive(Debug, Default)]
pub(super) struct Delegations(Mutex<HashMap<String, Delegation>>);

#[derive(Debug)]
struct Delegation {
    roles: Vec<(Role, String)>,
    /// Latest expiry of the keys.
    until: SystemTime,
}

impl Delegations {
    /// Stores the roles of a principal, replacing earlier ones.
    ///
    /// # Errors
    /// The maximum number of principals have keys.
    fn note(&self, token: &VerifiedToken, until: SystemTime, now: SystemTime) -> Result<(), HttpError> {
        let mut delegations = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if delegations.len() >= PRINCIPALS_MAX {
            delegations.retain(|_, delegation| delegation.until > now);
        }
        let last = delegations.get(&token.principal).map(|delegation| delegation.until);
        if last.is_none() && delegations.len() >= PRINCIPALS_MAX {
            return Err(HttpError::Busy);
        }
        let until = last.map_or(until, |last| last.max(until));
        delegations.insert(token.principal.clone(), Delegation { roles: token.roles.clone(), until });
        Ok(())
    }

    /// Returns the rights of a principal in a container.
    ///
    /// # Errors
    /// The principal has requested no key.
    pub(super) fn rights(&self, principal: &str, container: &str) -> Result<StorageRights, HttpError> {
        let delegations = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match delegations.get(principal) {
            Some(delegation) => Ok(rights_of(&delegation.roles, container)),
            None => Err(HttpError::Signature(StorageSignatureError::Principal)),
        }
    }
}

/// Returns the rights of roles in a container; for an empty name, in the whole account.
pub(super) fn rights_of(roles: &[(Role, String)], container: &str) -> StorageRights {
    let here = roles.iter().filter(|(_, scope)| scope.is_empty() || scope == container);
    here.fold(StorageRights::NONE, |rights, (role, _)| rights.and(role.storage_rights()))
}

impl BlobFront {
    /// Returns a user delegation key for the principal of a bearer token.
    pub(super) async fn user_delegation_key(
        &self,
        request: &Request,
        body: RequestBody,
        granted: &Granted,
        now: Now,
    ) -> Result<Reply, HttpError> {
        let token = granted.token().ok_or(HttpError::NoToken)?;
        let arrived = self.bodies.collect(body, ByteSize::from_kibibytes(64), None).await?;
        let expected = HttpError::Xml { expected: "the times of a key" };
        let (mut start, mut expiry) = (None, None);
        for (path, text) in xml::texts(&arrived.bytes, "KeyInfo").ok_or(expected)? {
            let instant = || {
                let instant = parse_iso_date(text.trim());
                instant.ok_or_else(|| HttpError::XmlValue { path: path.clone() })
            };
            match path.as_str() {
                "Start" if text.trim().is_empty() => {}
                "Start" => start = Some(instant()?),
                "Expiry" => expiry = Some(instant()?),
                _ => return Err(HttpError::UnservedXml { path }),
            }
        }
        let latest = now.time_of_day + LONGEST;
        let start = start.unwrap_or(now.time_of_day);
        let expiry =
            expiry.filter(|expiry| *expiry > start && *expiry > now.time_of_day && *expiry <= latest);
        let expiry = expiry.ok_or_else(|| HttpError::XmlValue { path: "Expiry".to_owned() })?;
        self.delegations.note(token, expiry, now.time_of_day)?;
        let key = UserDelegationKey {
            object_id: &token.principal,
            tenant: token.tenant.as_deref().unwrap_or(NO_TENANT),
            start,
            expiry,
            service: "b",
            version: request.header("x-ms-version").unwrap_or(VERSION),
        };
        Ok(reply::document(document(&self.key, &key)))
    }
}

fn document(account: &StorageAccountKey, key: &UserDelegationKey<'_>) -> String {
    let value = account.delegate(key);
    xml::user_delegation_key(&[
        ("SignedOid", key.object_id),
        ("SignedTid", key.tenant),
        ("SignedStart", &iso_date(key.start)),
        ("SignedExpiry", &iso_date(key.expiry)),
        ("SignedService", key.service),
        ("SignedVersion", key.version),
        ("Value", value.reveal()),
    ])
}

/// Maximum number of principals with valid keys.
const PRINCIPALS_MAX: usize = 10_000;

/// Maximum lifetime of a key, as in the service.
const LONGEST: Duration = Duration::from_secs(7 * 24 * 3600);

/// The tenant of principals whose token has none.
const NO_TENANT: &str = "00000000-0000-0000-0000-000000000000";

/// The version of a key that was requested without a version.
const VERSION: &str = "2021-12-02";
