//! A key together with what it allows.

use crate::{Rights, SharedAccessKey};

/// A rule of a namespace: whoever holds `key` has `rights`. Two rules may share a key name with different values,
/// which is how the service lets primary and secondary keys coexist.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuthorizationRule {
    /// Name and secret.
    pub key: SharedAccessKey,
    /// What the holder may do.
    pub rights: Rights,
}
