//! An issuer whose keys the service reads from a file.

use std::time::{Duration, SystemTime};

use access::token::{DevelopmentClaims, SigningKey};
use hub::identity::{RoleAssignmentConfig, TokenIssuerConfig};
use hub::namespace::{HubConfig, NamespaceConfig, QueueConfig};
use hub::service::{Protocol, Service, ServiceConfig};

pub(crate) const EVENT_HUBS: &str = "https://eventhubs.azure.net";
pub(crate) const STORAGE: &str = "https://storage.azure.com/";

/// An issuer.
pub(crate) struct Issuer {
    key: SigningKey,
    directory: tempfile::TempDir,
}

/// A token to be.
#[derive(Clone, Copy)]
pub(crate) struct Wanted<'a> {
    pub(crate) issuer: &'a str,
    pub(crate) audience: &'a str,
    pub(crate) principal: &'a str,
    pub(crate) roles: &'a [&'a str],
    /// Seconds from now until its end.
    pub(crate) seconds: i64,
}

impl Default for Wanted<'_> {
    fn default() -> Self {
        Self {
            issuer: ISSUER,
            audience: EVENT_HUBS,
            principal: "anyone",
            roles: &["Azure Event Hubs Data Owner"],
            seconds: 3600,
        }
    }
}

impl Issuer {
    pub(crate) fn new() -> Self {
        let issuer = Self { key: SigningKey::generate().unwrap(), directory: tempfile::tempdir().unwrap() };
        std::fs::write(issuer.directory.path().join(KEYS), issuer.keys()).unwrap();
        issuer
    }

    /// Its keys, as it publishes them.
    pub(crate) fn keys(&self) -> String {
        self.key.key_set().to_string()
    }

    pub(crate) fn token(&self, wanted: &Wanted<'_>) -> String {
        let now = SystemTime::now();
        let until = match u64::try_from(wanted.seconds) {
            Ok(seconds) => now + Duration::from_secs(seconds),
            Err(_) => now - Duration::from_secs(wanted.seconds.unsigned_abs()),
        };
        let claims = DevelopmentClaims {
            issuer: wanted.issuer,
            audience: wanted.audience,
            tenant: "tenant",
            principal: wanted.principal,
            roles: wanted.roles,
            from: now - Duration::from_secs(600),
            until,
        };
        self.key.sign(&claims).unwrap()
    }

    /// A service that accepts its tokens, with the hubs `events` and `audit`, the queue `orders` and the container `box`.
    pub(crate) async fn service(&self) -> Service {
        let keys = self.directory.path().join(KEYS).display().to_string();
        start(issuer(&keys)).await
    }
}

/// A service that accepts tokens of this issuer.
pub(crate) async fn start(issuer: TokenIssuerConfig) -> Service {
    let mut namespace = NamespaceConfig {
        queues: vec![QueueConfig::new("orders")],
        ..NamespaceConfig::with_hubs(vec![HubConfig::new("events", 1), HubConfig::new("audit", 1)])
    };
    namespace.token_issuers = vec![issuer];
    namespace.blob.containers = vec!["box".to_owned(), "secret".to_owned()];
    let config = ServiceConfig::loopback(namespace).and(Protocol::Kafka).and(Protocol::Blob);
    Service::start(config.and(Protocol::Operations)).await.unwrap()
}

/// The issuer with its keys in this place. `reader` may read `audit`, and blobs; `writer` may do everything with the blobs of `box`.
pub(crate) fn issuer(keys: &str) -> TokenIssuerConfig {
    let role = |principal: &str, role: &str, scope: &str| RoleAssignmentConfig {
        principal: principal.to_owned(),
        role: role.to_owned(),
        scope: scope.to_owned(),
    };
    TokenIssuerConfig {
        tenant: None,
        issuer: Some(ISSUER.to_owned()),
        keys: Some(keys.to_owned()),
        audiences: Vec::new(),
        roles: vec![
            role("reader", "Azure Event Hubs Data Receiver", "audit"),
            role("reader", "Storage Blob Data Reader", ""),
            role("writer", "Storage Blob Data Contributor", "box"),
        ],
        clock_skew: Duration::ZERO,
    }
}

/// Tokens that are good for nothing, and a part of what the service says of each: in the order wrong issuer, key, audience,
/// end, and no role. But for the third they are for `audience`.
pub(crate) fn refused(issuer: &Issuer, audience: &str) -> [(String, &'static str); 5] {
    let good = Wanted { audience, ..Wanted::default() };
    let elsewhere = if audience == STORAGE { EVENT_HUBS } else { STORAGE };
    [
        (issuer.token(&Wanted { issuer: "https://sts.elsewhere/", ..good }), "issuer"),
        (Issuer::new().token(&good), "does not publish"),
        (issuer.token(&Wanted { audience: elsewhere, ..good }), "not for"),
        (issuer.token(&Wanted { seconds: -1, ..good }), "expired"),
        (issuer.token(&Wanted { roles: &["Some.Role.Of.Others"], ..good }), "has no role here"),
    ]
}

const ISSUER: &str = "https://sts.example/tenant/";
const KEYS: &str = "keys.json";
