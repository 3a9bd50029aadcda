//! Who asks, and what they may do.

use std::time::SystemTime;

use access::TransportSecurity;
use access::storage::{
    ResponseOverrides, SharedKeyError, StorageAccountKey, StorageDenial, StorageLevel, StorageRequest,
    StorageResource, StorageRight, StorageRights, StorageSignature, StoredAccess, decode_parameter,
};
use access::token::VerifiedToken;

use super::delegation::{Delegations, rights_of};
use super::http_error::HttpError;
use super::request::{Request, SECONDARY, parameters};
use crate::clock::ServiceClock;
use crate::identity::{Identity, TokenService};
use crate::namespace::SignaturePolicy;
use blob_store::{BlobStore, PublicAccess, Replacing, StoredPolicy};

/// What a request has proven.
#[derive(Clone, Debug)]
pub(super) struct Granted {
    rights: StorageRights,
    /// Whether the key of the account grants them, which is for all of it.
    is_owner: bool,
    /// The signature that grants them, unless the key or a bearer token does.
    signature: Option<StorageSignature>,
    /// The bearer token that grants them, if one does.
    token: Option<VerifiedToken>,
    /// What its signature wants the headers of the reply to be.
    pub(super) overrides: ResponseOverrides,
}

impl Granted {
    /// What `request` may do at the present of `clock`.
    ///
    /// # Errors
    /// It proves nothing.
    pub(super) fn to(
        request: &Request,
        store: &BlobStore,
        key: &StorageAccountKey,
        (identity, delegations): (Option<&Identity>, &Delegations),
        (policy, clock): (SignaturePolicy, &ServiceClock),
    ) -> Result<Self, HttpError> {
        let everything = Self {
            rights: StorageRights::ALL,
            is_owner: true,
            signature: None,
            token: None,
            overrides: ResponseOverrides::default(),
        };
        if request.target.account != key.account() {
            return Err(HttpError::Account);
        }
        if policy == SignaturePolicy::AcceptAny {
            return Ok(everything);
        }
        if let Some(authorization) = request.header("authorization") {
            if let Some((identity, token)) = identity.zip(bearer_token(authorization)) {
                let now = clock.time_of_token(token.as_bytes()).of_client(clock.token_now());
                let token = identity.verify(token, TokenService::Storage, now).map_err(HttpError::Token)?;
                let container = request.target.container.as_deref().unwrap_or_default();
                let rights = rights_of(&token.roles, container);
                return Ok(Self { rights, is_owner: false, token: Some(token), ..everything });
            }
            // The date of a request shows that it is a new one, so it is compared with the clock that its client has as well.
            verify_key(request, key, authorization, SystemTime::now())?;
            return Ok(everything);
        }
        let container = request.target.container.as_deref().and_then(|name| store.container(name).ok());
        let access = container.map(|container| container.properties().access().clone()).unwrap_or_default();
        let signature = StorageSignature::find(request.raw_query()).map_err(HttpError::Signature)?;
        let Some(signature) = signature else {
            let rights = access.public.map(public_rights).ok_or(HttpError::NoAuthentication)?;
            return Ok(Self { rights, is_owner: false, ..everything });
        };
        let policies: Vec<StoredAccess> = access.policies.into_iter().map(stored).collect();
        let resource = StorageResource {
            container: request.target.container.as_deref(),
            blob: request.target.blob.as_deref(),
            snapshot: request.parameter("snapshot"),
            address: Some(request.peer.address),
            is_encrypted: request.peer.security == TransportSecurity::Tls,
            policies: &policies,
        };
        let time = clock.time_of_token(signature_text(request).as_bytes());
        let mut rights = signature
            .verify(key, resource, time.of_client(clock.token_now()))
            .map_err(HttpError::Signature)?;
        if let Some(principal) = signature.delegating_principal() {
            let container = resource.container.unwrap_or_default();
            rights = rights.within(delegations.rights(principal, container)?);
        }
        let overrides = signature.overrides();
        Ok(Self { rights, is_owner: false, overrides, signature: Some(signature), token: None })
    }

    /// The bearer token that the request has shown, if it has.
    pub(super) const fn token(&self) -> Option<&VerifiedToken> {
        self.token.as_ref()
    }

    /// Whether the request is the owner's, who may do everything everywhere in the account. A role may grant everything as well, but
    /// only where the request is about.
    pub(super) const fn is_owner(&self) -> bool {
        self.is_owner
    }

    /// Whether one of `rights` is granted.
    ///
    /// # Errors
    /// None is.
    pub(super) fn need(&self, level: StorageLevel, rights: &[StorageRight]) -> Result<(), HttpError> {
        match rights.iter().any(|right| self.rights.contains(level, *right)) {
            true => Ok(()),
            false => {
                let denial = self.signature.as_ref();
                let denial = denial.map(|signature| signature.denial(level, rights));
                Err(HttpError::Denied(denial.unwrap_or(StorageDenial::Permission)))
            }
        }
    }

    /// Whether blobs may be written, and if so, whether in the place of others.
    ///
    /// # Errors
    /// They may not.
    pub(super) fn writing(&self) -> Result<Replacing, HttpError> {
        let object = StorageLevel::Object;
        if self.rights.contains(object, StorageRight::Write) {
            return Ok(Replacing::Allowed);
        }
        self.need(object, &[StorageRight::Create])?;
        Ok(Replacing::Forbidden)
    }
}

/// Returns the rights of unauthenticated clients.
fn public_rights(access: PublicAccess) -> StorageRights {
    let rights = StorageRights::NONE.with(StorageLevel::Object, StorageRight::Read);
    match access {
        PublicAccess::Blob => rights,
        PublicAccess::Container => [StorageRight::Read, StorageRight::List]
            .into_iter()
            .fold(rights, |rights, right| rights.with(StorageLevel::Container, right)),
    }
}

fn stored(policy: StoredPolicy) -> StoredAccess {
    let StoredPolicy { id, start, expiry, permission } = policy;
    StoredAccess { id, start, expiry, permission }
}

/// The token in the value of a header, if that is one.
pub(super) fn bearer_token(authorization: &str) -> Option<&str> {
    let (scheme, token) = authorization.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

/// What tells a signature from any other, whatever it is used for.
fn signature_text(request: &Request) -> &str {
    let signature = request.query().iter().find(|(name, _)| name == "sig");
    signature.map_or("", |(_, value)| value)
}

fn verify_key(
    request: &Request,
    key: &StorageAccountKey,
    authorization: &str,
    now: SystemTime,
) -> Result<(), HttpError> {
    let headers: Vec<_> = request
        .parts
        .headers
        .iter()
        .filter_map(|(name, value)| Some((name.as_str(), str::from_utf8(value.as_bytes()).ok()?)))
        .collect();
    // Some clients sign the path of the primary endpoint, whose account is the first part of it.
    let primary = request.path().replacen(SECONDARY, "", 1);
    let verify = |path: &str, decode: fn(&str) -> String| {
        let query: Vec<_> = parameters(request.raw_query())
            .map(|(name, value)| (decode(name).into(), decode(value).into()))
            .collect();
        let signed =
            StorageRequest { method: request.method().as_str(), path, query: &query, headers: &headers };
        key.verify_request(&signed, authorization, now)
    };
    match verify(request.path(), decode_parameter) {
        // Some clients neither encode a plus nor mean a space.
        Err(SharedKeyError::WrongSignature) if request.raw_query().contains('+') => {
            Ok(verify(request.path(), |text| decode_parameter(&text.replace('+', "%2B")))?)
        }
        Err(SharedKeyError::WrongSignature) if request.target.is_secondary => {
            Ok(verify(&primary, decode_parameter)?)
        }
        verified => Ok(verified?),
    }
}
