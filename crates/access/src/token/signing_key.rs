//! The key of a development issuer.

use std::fmt;
use std::time::SystemTime;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::digest::{SHA256, digest};
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _};
use serde_json::{Value, json};

use super::key_set::{COORDINATE, ES256};

/// A private key for ES256, made for one process and never shown.
pub struct SigningKey {
    pair: EcdsaKeyPair,
    random: SystemRandom,
    id: String,
}

/// What a token of a development issuer says.
#[derive(Clone, Copy, Debug)]
pub struct DevelopmentClaims<'a> {
    /// Who issues it.
    pub issuer: &'a str,
    /// What it is for.
    pub audience: &'a str,
    /// The directory.
    pub tenant: &'a str,
    /// Who asked.
    pub principal: &'a str,
    /// What it may do.
    pub roles: &'a [&'a str],
    /// The instant from which on the token is valid.
    pub from: SystemTime,
    /// The instant from which on it is void.
    pub until: SystemTime,
}

impl SigningKey {
    /// A new key.
    ///
    /// # Errors
    /// The system has no randomness.
    pub fn generate() -> Result<Self, ring::error::Unspecified> {
        let random = SystemRandom::new();
        let document = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &random)?;
        let pair = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, document.as_ref(), &random)
            .map_err(|_rejected| ring::error::Unspecified)?;
        let id = URL_SAFE_NO_PAD.encode(digest(&SHA256, pair.public_key().as_ref()));
        Ok(Self { pair, random, id })
    }

    /// The public half as a set of keys (JWKS).
    #[must_use]
    pub fn key_set(&self) -> Value {
        let point = &self.pair.public_key().as_ref()[1..];
        let (x, y) = point.split_at(COORDINATE);
        let [x, y] = [x, y].map(|coordinate| URL_SAFE_NO_PAD.encode(coordinate));
        json!({"keys": [{
            "kty": "EC", "crv": "P-256", "use": "sig", "alg": ES256, "kid": self.id, "x": x, "y": y,
        }]})
    }

    /// A signed token with these claims.
    ///
    /// # Errors
    /// The system has no randomness.
    pub fn sign(&self, claims: &DevelopmentClaims<'_>) -> Result<String, ring::error::Unspecified> {
        let seconds =
            |at: SystemTime| at.duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs());
        let header = json!({"typ": "JWT", "alg": ES256, "kid": self.id});
        let claims = json!({
            "iss": claims.issuer,
            "aud": claims.audience,
            "tid": claims.tenant,
            "oid": claims.principal,
            "sub": claims.principal,
            "appid": claims.principal,
            "roles": claims.roles,
            "iat": seconds(claims.from),
            "nbf": seconds(claims.from),
            "exp": seconds(claims.until),
            "ver": "1.0",
        });
        let [header, claims] =
            [header, claims].map(|part| URL_SAFE_NO_PAD.encode(part.to_string().as_bytes()));
        let signed = format!("{header}.{claims}");
        let signature = self.pair.sign(&self.random, signed.as_bytes())?;
        Ok(format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature)))
    }
}

impl fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SigningKey").field("id", &self.id).finish_non_exhaustive()
    }
}
