//! The identity of a client, against which what it creates is counted.

use std::sync::Arc;

/// Identity that a client has proven.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Principal {
    /// Any client: nothing is verified, or no credentials are needed.
    Anyone,
    /// A client that knows the shared access key of this name.
    Key(Arc<str>),
    /// The principal of a bearer token.
    Token(Arc<str>),
}

impl Principal {
    /// Whether limits per client apply. [`Anyone`](Self::Anyone) is no single client: only the limits of all hold.
    #[must_use]
    pub fn is_limited(&self) -> bool {
        *self != Self::Anyone
    }
}

impl std::fmt::Display for Principal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Anyone => f.write_str("any client"),
            Self::Key(name) => write!(f, "key {name}"),
            Self::Token(principal) => write!(f, "principal {principal}"),
        }
    }
}
