//! Why a bearer token is not accepted.

use std::fmt;
use std::time::{SystemTime, UNIX_EPOCH};

/// Why a bearer token is not accepted. The texts show nothing that is secret, and no more than the beginning of what the
/// token says; they may be sent to the client.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TokenError {
    /// Longer than any real one.
    #[error("the token has {length} bytes, more than {maximum}")]
    TooLong {
        /// Its length in bytes.
        length: usize,
        /// The longest that is read.
        maximum: usize,
    },
    /// It is no JSON Web Token, or lacks a claim.
    #[error("the token can't be read: {0}")]
    Malformed(&'static str),
    /// It is signed in a way that is not accepted.
    #[error("the token is signed with the algorithm {algorithm}; RS256 and ES256 are accepted")]
    Algorithm {
        /// The algorithm.
        algorithm: Excerpt,
    },
    /// It is from an issuer that is not accepted here.
    #[error("the token is from the issuer {issuer}, which is not accepted")]
    Issuer {
        /// The issuer.
        issuer: Excerpt,
    },
    /// Its issuer has no key of this name.
    #[error("the token is signed with the key {key_id}, which its issuer does not publish")]
    UnknownKey {
        /// The key's name.
        key_id: Excerpt,
    },
    /// Whether it is genuine can't be told at present. The same token may be accepted in a moment.
    #[error("the keys of the token's issuer are being loaded; try again")]
    KeysPending,
    /// Somebody else signed it, or it was changed.
    #[error("the token has an invalid signature")]
    WrongSignature,
    /// It is for another service.
    #[error("the token is for {audience}, not for {expected}")]
    Audience {
        /// What it is for.
        audience: Excerpt,
        /// What it should be for.
        expected: String,
    },
    /// It is for later.
    #[error("the token is not valid before {}", seconds(*not_before))]
    NotYetValid {
        /// The first instant at which it is valid.
        not_before: SystemTime,
    },
    /// It is of the past.
    #[error("the token has expired")]
    Expired {
        /// The instant from which on it is void.
        expired_at: SystemTime,
    },
    /// It is genuine, but whom it is for may do nothing here.
    #[error("the principal {principal} has no role here")]
    NoRole {
        /// Who presented it.
        principal: Excerpt,
    },
}

impl TokenError {
    /// The kind of failure in one word, for counters.
    #[must_use]
    pub const fn reason(&self) -> &'static str {
        match self {
            Self::TooLong { .. } | Self::Malformed(_) => "malformed",
            Self::Algorithm { .. } => "algorithm",
            Self::Issuer { .. } => "issuer",
            Self::UnknownKey { .. } => "key",
            Self::KeysPending => "keys-pending",
            Self::WrongSignature => "signature",
            Self::Audience { .. } => "audience",
            Self::NotYetValid { .. } => "not-yet-valid",
            Self::Expired { .. } => "expired",
            Self::NoRole { .. } => "role",
        }
    }

    /// All that [`reason`](Self::reason) can be.
    pub const REASONS: [&str; 10] = [
        "malformed",
        "algorithm",
        "issuer",
        "key",
        "keys-pending",
        "signature",
        "audience",
        "not-yet-valid",
        "expired",
        "role",
    ];
}

/// The beginning of a text of a stranger, safe to print.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Excerpt(String);

impl From<&str> for Excerpt {
    fn from(text: &str) -> Self {
        Self(text.chars().take(EXCERPT_CHARACTERS).flat_map(char::escape_debug).collect())
    }
}

impl fmt::Display for Excerpt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "'{}'", self.0)
    }
}

fn seconds(instant: SystemTime) -> String {
    let seconds = instant.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    format!("{seconds} s after the Unix epoch")
}

/// Issuers and audiences are URLs with an id.
const EXCERPT_CHARACTERS: usize = 128;
