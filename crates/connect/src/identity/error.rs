//! Why there is no token.

use std::fmt;

use crate::service::ServiceError;
use crate::service::error::NO_TOKEN;

/// There is no token: what was tried, in order, and what each said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IdentityError {
    /// What it was to be for.
    pub scope: String,
    /// The members of the chain that were tried; the last one may have ended the search.
    pub tried: Vec<MemberFailure>,
    /// Whether the same question may be answered a little later.
    pub is_transient: bool,
}

/// Why one member of the chain gave no token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberFailure {
    /// Its name in the official libraries, such as `ManagedIdentityCredential`.
    pub name: &'static str,
    /// Why.
    pub reason: String,
}

impl fmt::Display for IdentityError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "no identity has a token for {}; tried:", self.scope)?;
        for (index, MemberFailure { name, reason }) in self.tried.iter().enumerate() {
            let separator = if index == 0 { "" } else { ";" };
            write!(f, "{separator} {name}: {reason}")?;
        }
        Ok(())
    }
}

impl std::error::Error for IdentityError {}

impl From<IdentityError> for ServiceError {
    fn from(error: IdentityError) -> Self {
        match error.is_transient {
            true => Self::of_connection(NO_TOKEN, error.to_string()),
            false => Self::fatal(NO_TOKEN, error.to_string()),
        }
    }
}
