//! What a connection may do, and how it proves it.
//!
//! A client proves itself by a token (`$cbs`) or by a key's name and value (SASL PLAIN). Either becomes one or several
//! [`Claim`]s, and a connection collects its claims in [`Claims`]. A token's claim is for the resource that was
//! *signed*, not for the audience it was presented for: clients sign a hub and then name single partitions. A bearer token
//! signs no resource: its claims are for the scopes of its principal's roles.

use super::{Namespace, Principal, SignaturePolicy};
use crate::clock::TokenNow;
use crate::identity::{Identity, TokenService};
use access::token::TokenError;
use access::{Resource, Right, Rights, SharedAccessSignature, SignatureError, VerificationError};
use std::collections::HashMap;
use std::time::SystemTime;

/// A proven permission.
#[derive(Clone, Debug)]
pub struct Claim {
    /// The entity, and everything beneath it. Only its path counts: all of it is in this namespace.
    pub resource: Resource,
    /// What may be done there.
    pub rights: Rights,
    /// The instant from which on the claim is void, by the clock of tokens; `None` if there is none.
    pub expires_at: Option<SystemTime>,
}

/// The claims of one connection.
#[derive(Debug)]
pub struct Claims {
    signatures: SignaturePolicy,
    /// By path in lower case. Tokens of different rights for one path stand side by side.
    by_path: HashMap<String, Vec<Grant>>,
    /// Lower bound of the instants at which claims expire that have not.
    next_expiry: Option<SystemTime>,
}

#[derive(Clone, Copy, Debug)]
struct Grant {
    rights: Rights,
    expires_at: Option<SystemTime>,
}

/// Why a client is not given what it asked for. The texts show no secret and may be sent to the client.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AuthorizationError {
    /// The token can't be read.
    #[error("Malformed token: {0}")]
    Malformed(#[from] SignatureError),
    /// The token is not genuine, or no longer valid.
    #[error("Invalid token: {0}")]
    Refused(#[from] VerificationError),
    /// The bearer token is not accepted.
    #[error("Invalid token: {0}")]
    Bearer(#[from] TokenError),
    /// The token is genuine, but for something else.
    #[error("The token is for '{signed}' and does not cover '{audience}'")]
    Audience {
        /// What was signed.
        signed: String,
        /// What it was presented for.
        audience: String,
    },
    /// There is no such hub, queue or topic.
    #[error("The messaging entity '{resource}' could not be found")]
    NotFound {
        /// What was asked for.
        resource: String,
    },
    /// No key of that name has that value.
    #[error("Invalid key name or key value")]
    WrongKey,
    /// More different claims than a connection can have use for.
    #[error("The connection has {MAXIMUM_CLAIMS} claims already")]
    TooManyClaims,
}

impl Namespace {
    /// The claims of whoever presents `token` for `audience` (a URI) at `now`: one, or those of each scope of a bearer token.
    pub fn authorize_token(
        &self,
        token: &str,
        audience: &str,
        now: TokenNow,
    ) -> Result<Vec<Claim>, AuthorizationError> {
        let audience = Resource::parse(audience);
        let claims = match (self.signatures(), self.bearer(token)) {
            (SignaturePolicy::AcceptAny, _) => vec![self.unlimited_claim()],
            (SignaturePolicy::Verify, Some((identity, token))) => self.bearer_claims(identity, token, now)?.1,
            (SignaturePolicy::Verify, None) => {
                let (text, token) = (token, SharedAccessSignature::parse(token)?);
                let time = self.clock().time_of_signature(text.as_bytes(), token.expires_at());
                let rule = token.verify(self.rules(), time.of_client(now))?;
                if !token.resource().covers(&audience) {
                    let [signed, audience] = [token.resource(), &audience].map(ToString::to_string);
                    return Err(AuthorizationError::Audience { signed, audience });
                }
                let expires_at = Some(time.of_service(token.expires_at()));
                vec![Claim { resource: token.resource().clone(), rights: rule.rights, expires_at }]
            }
        };
        // Only who proved to belong here learns what there is. Names with a dollar sign are the service's own nodes. What
        // is missing below a hub, a queue or a topic is told by the link.
        let path = audience.path();
        let is_own_node = path.is_empty() || path.starts_with('$');
        if !is_own_node && !self.has_entity_above(path) {
            return Err(AuthorizationError::NotFound { resource: audience.to_string() });
        }
        Ok(claims)
    }

    /// Returns the principal of a bearer token and its claims at `now`.
    ///
    /// # Errors
    /// It is not accepted, or none is.
    pub fn authorize_bearer(
        &self,
        token: &str,
        now: TokenNow,
    ) -> Result<(Principal, Vec<Claim>), AuthorizationError> {
        match (self.signatures(), &self.identity) {
            (SignaturePolicy::AcceptAny, _) => Ok((Principal::Anyone, vec![self.unlimited_claim()])),
            (SignaturePolicy::Verify, Some(identity)) => {
                let (principal, claims) = self.bearer_claims(identity, token, now)?;
                Ok((Principal::Token(principal.into()), claims))
            }
            (SignaturePolicy::Verify, None) => Err(AuthorizationError::Malformed(SignatureError::Prefix)),
        }
    }

    /// The claim of whoever presents `token` for what is at `path` at `now`, under whatever name of a host it was signed: clients reach
    /// this namespace by many.
    pub fn authorize_signature(
        &self,
        token: &str,
        path: &str,
        now: TokenNow,
    ) -> Result<Claim, AuthorizationError> {
        if self.signatures() == SignaturePolicy::AcceptAny {
            return Ok(self.unlimited_claim());
        }
        if let Some((identity, token)) = self.bearer(token) {
            let (_, claims) = self.bearer_claims(identity, token, now)?;
            let expires_at = claims.first().and_then(|claim| claim.expires_at);
            let here = claims.iter().filter(|claim| claim.resource.covers_path(path));
            let rights = here.flat_map(|claim| claim.rights.iter()).collect();
            let resource = Resource::parse(&format!("sb://{}/{path}", self.host()));
            return Ok(Claim { resource, rights, expires_at });
        }
        let (text, token) = (token, SharedAccessSignature::parse(token)?);
        let time = self.clock().time_of_signature(text.as_bytes(), token.expires_at());
        let rule = token.verify(self.rules(), time.of_client(now))?;
        // Some sign the whole URL, with its query.
        let signed = token.resource().to_string();
        let resource = Resource::parse(signed.split('?').next().unwrap_or(&signed));
        if !resource.covers_path(path) {
            return Err(AuthorizationError::Audience { signed, audience: path.to_owned() });
        }
        let expires_at = Some(time.of_service(token.expires_at()));
        Ok(Claim { resource, rights: rule.rights, expires_at })
    }

    /// The claim of whoever knows the value of the key `name`: for the whole namespace, without end.
    pub fn authorize_key(&self, name: &str, value: &str) -> Result<Claim, AuthorizationError> {
        if self.signatures() == SignaturePolicy::AcceptAny {
            return Ok(self.unlimited_claim());
        }
        let mut rules = self.rules().iter().filter(|rule| rule.key.name() == name);
        let rule = rules.find(|rule| rule.key.has_value(value)).ok_or(AuthorizationError::WrongKey)?;
        Ok(Claim { rights: rule.rights, ..self.unlimited_claim() })
    }

    /// The claim of a client without credentials: only where [anyone can get in](Self::is_open_to_anyone) anyway.
    #[must_use]
    pub fn open_claim(&self) -> Option<Claim> {
        self.is_open_to_anyone().then(|| self.unlimited_claim())
    }

    /// What verifies `token`, and the token itself, if it is a bearer token and such are accepted here. Which kind it is shows
    /// in its text alone: some clients call signatures JSON Web Tokens.
    fn bearer<'a>(&self, token: &'a str) -> Option<(&Identity, &'a str)> {
        let identity = self.identity.as_deref()?;
        let token = token.trim();
        if token.starts_with(SIGNATURE) {
            return None;
        }
        let token = match token.split_at_checked(BEARER.len()) {
            Some((scheme, token)) if scheme.eq_ignore_ascii_case(BEARER) => token.trim_start(),
            _ => token,
        };
        Some((identity, token))
    }

    /// Returns the principal of a bearer token, and a claim for each of its scopes.
    fn bearer_claims(
        &self,
        identity: &Identity,
        token: &str,
        now: TokenNow,
    ) -> Result<(String, Vec<Claim>), AuthorizationError> {
        let time = self.clock().time_of_token(token.as_bytes());
        let verified = identity.verify(token, TokenService::Messaging, time.of_client(now))?;
        let expires_at = Some(time.of_service(verified.expires_at));
        let mut claims: Vec<Claim> = Vec::new();
        for (role, scope) in &verified.roles {
            let resource = Resource::parse(&format!("sb://{}/{scope}", self.host()));
            let rights = role.rights();
            match claims.iter_mut().find(|claim| claim.resource.path() == resource.path()) {
                Some(claim) => claim.rights = claim.rights.iter().chain(rights.iter()).collect(),
                None => claims.push(Claim { resource, rights, expires_at }),
            }
        }
        Ok((verified.principal, claims))
    }

    /// Returns the identity of a client that knows the key of this name.
    pub(crate) fn principal_of_key(&self, name: &str) -> Principal {
        match self.signatures() {
            SignaturePolicy::AcceptAny => Principal::Anyone,
            SignaturePolicy::Verify => Principal::Key(name.into()),
        }
    }

    fn unlimited_claim(&self) -> Claim {
        Claim { resource: Resource::parse(self.host()), rights: Rights::ALL, expires_at: None }
    }
}

impl Claims {
    /// A connection that has proven nothing yet. Where nothing is verified, it may do everything all the same.
    #[must_use]
    pub fn new(signatures: SignaturePolicy) -> Self {
        Self { signatures, by_path: HashMap::new(), next_expiry: None }
    }

    /// Adds a claim. One for the same resource and rights takes the place of the earlier one: a renewal. What has
    /// expired at `now` is forgotten.
    pub fn add(&mut self, claim: &Claim, now: TokenNow) -> Result<(), AuthorizationError> {
        let path = claim.resource.path().to_ascii_lowercase();
        if self.by_path.len() >= MAXIMUM_CLAIMS && !self.by_path.contains_key(&path) {
            self.by_path.retain(|_path, grants| {
                grants.retain(|grant| grant.is_valid(now));
                !grants.is_empty()
            });
            if self.by_path.len() >= MAXIMUM_CLAIMS {
                return Err(AuthorizationError::TooManyClaims);
            }
        }
        let grants = self.by_path.entry(path).or_default();
        grants.retain(|grant| grant.is_valid(now) && grant.rights != claim.rights);
        grants.push(Grant { rights: claim.rights, expires_at: claim.expires_at });
        self.next_expiry = self.next_expiry.into_iter().chain(claim.expires_at).min();
        Ok(())
    }

    /// Whether `right` may be used at `now` on what `address` names: a relative path (`hub/Partitions/0`) or a whole
    /// URI, whose authority is passed over.
    #[must_use]
    pub fn allows(&self, address: &str, right: Right, now: TokenNow) -> bool {
        if self.signatures == SignaturePolicy::AcceptAny {
            return true;
        }
        let path = normal_path(address);
        let slashes = path.match_indices('/').map(|(slash, _)| slash);
        let grants_at = |end: usize| self.by_path.get(&path[..end]).into_iter().flatten();
        [0, path.len()]
            .into_iter()
            .chain(slashes)
            .flat_map(grants_at)
            .any(|grant| grant.rights.contains(right) && grant.is_valid(now))
    }

    /// Whether one of `rights` may be used at `now` in requests about `path`, or about the whole namespace if it is empty:
    /// by a claim on that, or on its node for requests alone, which is all that some clients ask for.
    #[must_use]
    pub fn allows_requests(&self, path: &str, rights: &[Right], now: TokenNow) -> bool {
        let node = format!("{path}/$management");
        rights.iter().any(|right| self.allows(&node, *right, now))
    }

    /// Whether nothing has been proven yet, or all of it has been forgotten.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.by_path.is_empty()
    }

    /// The next instant after `now` at which a claim expires and links may have to go, or an earlier one: that of a claim that was renewed
    /// since.
    #[must_use]
    pub fn next_expiry(&mut self, now: TokenNow) -> Option<SystemTime> {
        if self.next_expiry.is_some_and(|next| next <= now.time()) {
            let expiries = self.by_path.values().flatten().filter_map(|grant| grant.expires_at);
            self.next_expiry = expiries.filter(|expiry| *expiry > now.time()).min();
        }
        self.next_expiry
    }
}

impl Grant {
    fn is_valid(&self, now: TokenNow) -> bool {
        self.expires_at.is_none_or(|expiry| now.time() < expiry)
    }
}

/// The path of an address in lower case, without empty segments.
fn normal_path(address: &str) -> String {
    let segments: Vec<&str> =
        Resource::path_of(address).split('/').filter(|segment| !segment.is_empty()).collect();
    segments.join("/").to_ascii_lowercase()
}

/// How a shared access signature begins.
const SIGNATURE: &str = "SharedAccessSignature ";

/// How a bearer token begins in a header of HTTP.
const BEARER: &str = "Bearer ";

/// A client may hold a token for each of its links, and thousands of links. The bound is for hostile ones.
const MAXIMUM_CLAIMS: usize = 16_384;

#[cfg(test)]
mod tests {
    use super::super::{HubConfig, NamespaceConfig, RightConfig, RuleConfig};
    use super::*;
    use access::{DEVELOPMENT_KEY_VALUE, ROOT_KEY_NAME, SharedAccessKey};
    use partition_log::UnixTime;
    use std::time::{Duration, UNIX_EPOCH};

    fn config() -> NamespaceConfig {
        let mut config =
            NamespaceConfig::with_hubs(vec![HubConfig::new("Hub", 2), HubConfig::new("other", 1)]);
        config.authorization_rules.push(RuleConfig {
            name: "reader".into(),
            key: "reading".into(),
            rights: vec![RightConfig::Listen],
        });
        config
    }

    fn namespace() -> Namespace {
        Namespace::new(&config(), UnixTime::default()).unwrap()
    }

    fn root() -> SharedAccessKey {
        SharedAccessKey::new(ROOT_KEY_NAME, DEVELOPMENT_KEY_VALUE)
    }

    fn at(seconds: u64) -> SystemTime {
        UNIX_EPOCH + Duration::from_secs(seconds)
    }

    fn now(seconds: u64) -> TokenNow {
        TokenNow::at(at(seconds))
    }

    #[test]
    fn a_token_for_a_hub_opens_everything_beneath_it_and_nothing_beside_until_it_expires() {
        let namespace = namespace();
        let token = SharedAccessKey::new("reader", "reading").sign("amqps://LOCALHOST:5671/hub", at(100));
        let claim =
            namespace.authorize_token(&token, "sb://localhost/Hub/ConsumerGroups/$Default", now(50)).unwrap();
        let mut claims = Claims::new(namespace.signatures());
        assert!(!claims.allows("hub/Partitions/0", Right::Listen, now(50)));
        claims.add(&claim[0], now(50)).unwrap();
        for address in ["hub/Partitions/0", "HUB", "/hub/", "amqps://anywhere:1/hub/$management"] {
            assert!(claims.allows(address, Right::Listen, now(99)), "{address}");
            assert!(!claims.allows(address, Right::Send, now(99)), "{address}");
            assert!(!claims.allows(address, Right::Listen, now(100)), "{address}");
        }
        for address in ["other/Partitions/0", "hub2", "", "$management"] {
            assert!(!claims.allows(address, Right::Listen, now(99)), "{address}");
        }
        assert_eq!(claims.next_expiry(now(99)), Some(at(100)));
        assert_eq!(claims.next_expiry(now(100)), None);
    }

    #[test]
    fn a_renewal_takes_the_place_of_the_earlier_claim_and_other_rights_stand_beside_it() {
        let namespace = namespace();
        let mut claims = Claims::new(SignaturePolicy::Verify);
        let mut present = |key: &SharedAccessKey, expiry: u64| {
            let token = key.sign("sb://localhost/hub", at(expiry));
            let claim = namespace.authorize_token(&token, "sb://localhost/hub", now(1)).unwrap();
            claims.add(&claim[0], now(1)).unwrap();
        };
        present(&root(), 10);
        present(&SharedAccessKey::new("reader", "reading"), 20);
        present(&root(), 15);
        assert!(claims.allows("hub", Right::Send, now(14)));
        assert!(!claims.allows("hub", Right::Send, now(15)));
        assert!(claims.allows("hub", Right::Listen, now(19)));
    }

    #[test]
    fn what_is_not_proven_is_refused_with_its_reason() {
        let namespace = namespace();
        let present =
            |token: &str, audience: &str| namespace.authorize_token(token, audience, now(50)).unwrap_err();
        let good = root().sign("sb://localhost/hub", at(100));
        assert!(matches!(present("eyJ0eXAi", "sb://localhost/hub"), AuthorizationError::Malformed(_)));
        let forged = SharedAccessKey::new(ROOT_KEY_NAME, "guess").sign("sb://localhost/hub", at(100));
        let wrong = AuthorizationError::Refused(VerificationError::WrongSignature);
        assert_eq!(present(&forged, "sb://localhost/hub"), wrong);
        let lapsed = root().sign("sb://localhost/hub", at(50));
        assert!(matches!(present(&lapsed, "sb://localhost/hub"), AuthorizationError::Refused(_)));
        assert!(matches!(present(&good, "sb://localhost/other"), AuthorizationError::Audience { .. }));
        let missing = root().sign("sb://localhost/nothing", at(100));
        let not_found = present(&missing, "sb://localhost/nothing/Partitions/0");
        let text = "The messaging entity 'sb://localhost/nothing/Partitions/0' could not be found";
        assert_eq!(not_found.to_string(), text);
    }

    #[test]
    fn a_key_grants_its_rights_in_the_whole_namespace() {
        let namespace = namespace();
        let claim = namespace.authorize_key("reader", "reading").unwrap();
        let mut claims = Claims::new(SignaturePolicy::Verify);
        claims.add(&claim, now(1)).unwrap();
        assert!(claims.allows("other/ConsumerGroups/$Default/Partitions/0", Right::Listen, now(1 << 40)));
        assert!(!claims.allows("other", Right::Send, now(1)));
        for (name, value) in [("reader", "guess"), ("nobody", "reading"), (ROOT_KEY_NAME, "")] {
            assert_eq!(namespace.authorize_key(name, value).unwrap_err(), AuthorizationError::WrongKey);
        }
    }

    #[test]
    fn where_nothing_is_verified_anything_opens_everything_that_exists() {
        let config = NamespaceConfig { signatures: SignaturePolicy::AcceptAny, ..config() };
        let namespace = Namespace::new(&config, UnixTime::default()).unwrap();
        assert!(Claims::new(namespace.signatures()).allows("hub", Right::Manage, now(1)));
        assert!(namespace.authorize_token("anything", "sb://wherever/hub", now(1)).is_ok());
        assert!(namespace.authorize_key("anyone", "anything").is_ok());
        let missing = namespace.authorize_token("anything", "sb://wherever/nothing", now(1));
        assert!(matches!(missing, Err(AuthorizationError::NotFound { .. })));
    }

    #[test]
    fn the_number_of_claims_is_bounded_and_expired_ones_make_room() {
        let mut claims = Claims::new(SignaturePolicy::Verify);
        let claim = |number: usize, expiry: u64| Claim {
            resource: Resource::parse(&format!("sb://h/hub/{number}")),
            rights: Rights::ALL,
            expires_at: Some(at(expiry)),
        };
        for number in 0..MAXIMUM_CLAIMS {
            claims.add(&claim(number, 10), now(1)).unwrap();
        }
        assert_eq!(claims.add(&claim(MAXIMUM_CLAIMS, 10), now(9)), Err(AuthorizationError::TooManyClaims));
        claims.add(&claim(0, 20), now(9)).unwrap();
        claims.add(&claim(MAXIMUM_CLAIMS, 20), now(10)).unwrap();
        assert_eq!(claims.by_path.len(), 2);
    }
}
