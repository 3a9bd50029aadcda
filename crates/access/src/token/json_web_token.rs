//! A JSON Web Token, taken apart (RFC 7519, in the compact form of RFC 7515).

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::Deserialize;

use super::TokenError;

/// The longest token that is read, in bytes. Those of Entra ID have 1 to 4 KiB.
pub const MAXIMUM_TOKEN_LENGTH: usize = 16 * 1024;

/// A token that is well formed, with the claims that are of interest here.
#[derive(Debug)]
pub struct JsonWebToken<'a> {
    /// What is signed: header and claims as they are spelled.
    pub(super) signed: &'a str,
    pub(super) signature: Vec<u8>,
    pub(super) header: Header,
    pub(super) claims: Claims,
}

/// How the token is signed.
#[derive(Debug, Deserialize)]
pub(super) struct Header {
    pub(super) alg: String,
    pub(super) kid: Option<String>,
    /// Extensions that a reader has to understand.
    crit: Option<serde::de::IgnoredAny>,
}

/// What the token says.
#[derive(Debug, Deserialize)]
pub(super) struct Claims {
    pub(super) iss: String,
    pub(super) aud: Audiences,
    pub(super) exp: Seconds,
    pub(super) nbf: Option<Seconds>,
    /// Who: the object of the directory, which is the same in all applications.
    pub(super) oid: Option<String>,
    /// The tenant of the directory.
    pub(super) tid: Option<String>,
    /// Who: in other issuers' tokens.
    pub(super) sub: Option<String>,
    /// The application that asked, in tokens of version 1.
    pub(super) appid: Option<String>,
    /// The same in version 2.
    pub(super) azp: Option<String>,
    #[serde(default)]
    pub(super) roles: Vec<String>,
}

/// What a token is for.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
pub(super) enum Audiences {
    One(String),
    Several(Vec<String>),
}

impl Audiences {
    pub(super) fn iter(&self) -> impl Iterator<Item = &str> {
        match self {
            Self::One(audience) => std::slice::from_ref(audience),
            Self::Several(audiences) => audiences,
        }
        .iter()
        .map(String::as_str)
    }
}

/// Seconds since the Unix epoch, which may have a fraction.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(untagged)]
pub(super) enum Seconds {
    Whole(u64),
    Fraction(f64),
}

impl Seconds {
    /// The second in which it lies. What is before the epoch or beyond all calendars is at their ends.
    pub(super) const fn whole(self) -> u64 {
        match self {
            Self::Whole(seconds) => seconds,
            // The cast saturates.
            Self::Fraction(seconds) => seconds as u64,
        }
    }
}

impl<'a> JsonWebToken<'a> {
    /// Reads a token. Its signature is not verified.
    ///
    /// # Errors
    /// It is too long, or no token.
    pub fn parse(token: &'a str) -> Result<Self, TokenError> {
        let token = token.trim();
        if token.len() > MAXIMUM_TOKEN_LENGTH {
            return Err(TokenError::TooLong { length: token.len(), maximum: MAXIMUM_TOKEN_LENGTH });
        }
        let malformed = TokenError::Malformed;
        let (signed, signature) = token.rsplit_once('.').ok_or_else(|| malformed("it has no three parts"))?;
        let (header, claims) = signed.split_once('.').ok_or_else(|| malformed("it has no three parts"))?;
        let decode = |part| URL_SAFE_NO_PAD.decode(part).ok();
        let header = decode(header).ok_or_else(|| malformed("its header is not base64url"))?;
        let header: Header =
            serde_json::from_slice(&header).map_err(|_cause| malformed("its header has no algorithm"))?;
        if header.crit.is_some() {
            return Err(malformed("its header has extensions that are critical"));
        }
        let claims = decode(claims).ok_or_else(|| malformed("its claims are not base64url"))?;
        let claims = serde_json::from_slice(&claims)
            .map_err(|_cause| malformed("its claims have no proper iss, aud and exp"))?;
        let signature = decode(signature).ok_or_else(|| malformed("its signature is not base64url"))?;
        Ok(Self { signed, signature, header, claims })
    }

    /// Who the token says that it is from. Not verified.
    #[must_use]
    pub fn issuer(&self) -> &str {
        &self.claims.iss
    }

    /// All names of whom the token is about.
    pub(super) fn principals(&self) -> impl Iterator<Item = &str> {
        let Claims { oid, appid, azp, sub, .. } = &self.claims;
        [oid, appid, azp, sub].into_iter().flatten().map(String::as_str)
    }
}
