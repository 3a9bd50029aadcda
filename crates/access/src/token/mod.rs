//! Bearer tokens of Microsoft Entra ID and of any issuer like it: JSON Web Tokens that say who asks, and what for.
//!
//! ```text
//!   base64url(header) . base64url(claims) . base64url(signature)
//!     {"alg":"RS256","kid":"…"}    {"iss":"…","aud":"…","exp":…,"oid":"…","roles":[…]}
//! ```
//!
//! * [`JsonWebToken`] is a token that has been read. Nothing in it is true until its signature has been verified.
//! * [`KeySet`] has the public keys of an issuer, as it publishes them (JWKS), and verifies signatures.
//! * [`TokenIssuer`] is what is known of an issuer: its name, for which audiences its tokens are accepted, and which
//!   [`Role`]s its principals have. It gives a [`VerifiedToken`].
//! * [`SigningKey`] signs the tokens of a development issuer.
//!
//! Tokens come from anyone: they are bounded in length and in depth, and reading one allocates no more than a few times its
//! length. Algorithms are fixed by the keys, so a token can't choose a weaker one.

mod error;
mod issuer;
mod json_web_token;
mod key_set;
mod role;
mod signing_key;

use std::time::{Duration, UNIX_EPOCH};

pub use error::{Excerpt, TokenError};
pub use issuer::{RoleAssignment, TokenAudience, TokenIssuer, VerifiedToken};
pub use json_web_token::{JsonWebToken, MAXIMUM_TOKEN_LENGTH};
pub use key_set::{KeySet, KeySetError};
pub use role::{Role, UnknownRole};
pub use signing_key::{DevelopmentClaims, SigningKey};

/// Reads any text as a token, and as a set of keys what follows its first line feed, and verifies what can be read: this ends,
/// without a panic. For tests with arbitrary input.
pub fn check_any_text(text: &str) {
    let (token, keys) = text.split_once('\n').unwrap_or((text, ""));
    let keys = KeySet::parse(keys.as_bytes()).unwrap_or_default();
    let Ok(token) = JsonWebToken::parse(token) else {
        return;
    };
    let issuer = TokenIssuer {
        names: vec![token.issuer().to_owned()],
        assignments: Vec::new(),
        clock_skew: Duration::from_secs(30),
    };
    let audience = TokenAudience::messaging("localhost", &[]);
    for now in [UNIX_EPOCH, UNIX_EPOCH + Duration::from_secs(u32::MAX.into())] {
        if let Err(error) = issuer.verify(&token, &keys, &audience, now) {
            let shown = error.to_string();
            assert!(shown.len() < LONGEST_REFUSAL, "a refusal is short whatever the token says: {shown}");
        }
    }
}

/// In bytes.
const LONGEST_REFUSAL: usize = 2048;

#[cfg(test)]
mod tests;
