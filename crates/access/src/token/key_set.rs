//! The public keys of an issuer, as it publishes them (RFC 7517), and what they verify.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED, RSA_PKCS1_2048_8192_SHA256, RsaPublicKeyComponents, UnparsedPublicKey,
};
use serde::Deserialize;

use super::{JsonWebToken, TokenError};

/// Keys, each with the name by which tokens refer to it.
#[derive(Clone, Debug, Default)]
pub struct KeySet {
    keys: Vec<PublicKey>,
}

#[derive(Clone, Debug)]
struct PublicKey {
    id: Option<String>,
    material: Material,
}

#[derive(Clone, Debug)]
enum Material {
    /// For RS256: modulus and exponent, each without leading zeros.
    Rsa { modulus: Vec<u8>, exponent: Vec<u8> },
    /// For ES256: an uncompressed point.
    P256([u8; POINT]),
}

/// Why a document is not a set of keys.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeySetError {
    /// It is not the JSON of a key set.
    #[error("it is not a JSON Web Key Set: {0}")]
    Json(String),
    /// None of its keys can verify tokens.
    #[error("it has no key for RS256 or ES256 signatures")]
    Empty,
    /// It has more keys than an issuer has use for.
    #[error("it has {count} keys, more than {MAXIMUM_KEYS}")]
    TooMany {
        /// How many.
        count: usize,
    },
}

#[derive(Deserialize)]
struct Document {
    keys: Vec<Entry>,
}

#[derive(Deserialize)]
struct Entry {
    kty: String,
    kid: Option<String>,
    #[serde(rename = "use")]
    purpose: Option<String>,
    n: Option<String>,
    e: Option<String>,
    crv: Option<String>,
    x: Option<String>,
    y: Option<String>,
}

impl KeySet {
    /// Reads a set of keys. Keys of other kinds, and those that are not for signatures, are passed over.
    ///
    /// # Errors
    /// It is none, or has no key that can be used.
    pub fn parse(document: &[u8]) -> Result<Self, KeySetError> {
        let document: Document =
            serde_json::from_slice(document).map_err(|error| KeySetError::Json(error.to_string()))?;
        if document.keys.len() > MAXIMUM_KEYS {
            return Err(KeySetError::TooMany { count: document.keys.len() });
        }
        let keys: Vec<PublicKey> = document.keys.into_iter().filter_map(Entry::into_key).collect();
        match keys.is_empty() {
            true => Err(KeySetError::Empty),
            false => Ok(Self { keys }),
        }
    }

    /// How many keys there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.keys.len()
    }

    /// Whether there is no key.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// Whether one of the keys signed the token.
    ///
    /// # Errors
    /// The key is not here, or did not sign it. The kind of the key decides about the algorithm: the token only says which it
    /// expects.
    pub fn verify(&self, token: &JsonWebToken<'_>) -> Result<(), TokenError> {
        let algorithm = token.header.alg.as_str();
        if !matches!(algorithm, RS256 | ES256) {
            return Err(TokenError::Algorithm { algorithm: algorithm.into() });
        }
        let is_meant = |key: &&PublicKey| match &token.header.kid {
            Some(id) => key.id.as_ref() == Some(id),
            // Without a name it has to be the only one.
            None => self.keys.len() == 1,
        };
        let mut keys = self.keys.iter().filter(|key| key.material.algorithm() == algorithm);
        let key = keys.find(is_meant).ok_or_else(|| TokenError::UnknownKey {
            key_id: token.header.kid.as_deref().unwrap_or_default().into(),
        })?;
        match key.material.has_signed(token.signed.as_bytes(), &token.signature) {
            true => Ok(()),
            false => Err(TokenError::WrongSignature),
        }
    }
}

impl Entry {
    /// The key, if it is one that can verify tokens.
    fn into_key(self) -> Option<PublicKey> {
        if self.purpose.is_some_and(|purpose| purpose != "sig") {
            return None;
        }
        let decode = |text: Option<String>| URL_SAFE_NO_PAD.decode(text?.trim_end_matches('=')).ok();
        let material = match (self.kty.as_str(), self.crv.as_deref()) {
            ("RSA", _) => {
                let number = |text| {
                    let bytes = decode(text)?;
                    let zeros = bytes.iter().take_while(|byte| **byte == 0).count();
                    Some(bytes[zeros..].to_vec())
                };
                Material::Rsa { modulus: number(self.n)?, exponent: number(self.e)? }
            }
            ("EC", Some("P-256")) => {
                let mut point = [UNCOMPRESSED; POINT];
                let (x, y) = point[1..].split_at_mut(COORDINATE);
                for (place, text) in [(x, self.x), (y, self.y)] {
                    let coordinate = decode(text).filter(|bytes| bytes.len() == COORDINATE)?;
                    place.copy_from_slice(&coordinate);
                }
                Material::P256(point)
            }
            _ => return None,
        };
        Some(PublicKey { id: self.kid, material })
    }
}

impl Material {
    const fn algorithm(&self) -> &'static str {
        match self {
            Self::Rsa { .. } => RS256,
            Self::P256(_) => ES256,
        }
    }

    fn has_signed(&self, message: &[u8], signature: &[u8]) -> bool {
        match self {
            Self::Rsa { modulus, exponent } => RsaPublicKeyComponents { n: modulus, e: exponent }
                .verify(&RSA_PKCS1_2048_8192_SHA256, message, signature)
                .is_ok(),
            Self::P256(point) => {
                UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, point).verify(message, signature).is_ok()
            }
        }
    }
}

const RS256: &str = "RS256";
pub(super) const ES256: &str = "ES256";

/// Entra ID publishes about ten.
const MAXIMUM_KEYS: usize = 64;

/// An uncompressed point of P-256: its sign and two coordinates.
pub(super) const POINT: usize = 1 + 2 * COORDINATE;
pub(super) const COORDINATE: usize = 32;
const UNCOMPRESSED: u8 = 4;
