//! Access to a container besides that of the owner: for anyone, and by policies that signatures name.

use serde::{Deserialize, Serialize};

/// Public access to a container.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PublicAccess {
    /// Its blobs.
    Blob,
    /// Its blobs, the list of them, and its properties.
    Container,
}

/// A stored access policy. Signatures that name it grant what it says, until it is changed or removed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredPolicy {
    /// The name.
    pub id: String,
    /// Start of validity, as its owner wrote it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start: Option<String>,
    /// End of validity, as its owner wrote it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expiry: Option<String>,
    /// Letters of the rights.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub permission: Option<String>,
}

/// Access to a container besides that of the owner.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ContainerAccess {
    /// Public access, if there is any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub public: Option<PublicAccess>,
    /// The policies.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub policies: Vec<StoredPolicy>,
}

impl ContainerAccess {
    /// Whether only the owner has access.
    pub(crate) fn is_none(&self) -> bool {
        *self == Self::default()
    }

    /// Returns about how much memory it takes, in bytes.
    pub(crate) fn bytes(&self) -> u64 {
        let text = |text: &Option<String>| text.as_ref().map_or(0, String::len);
        let policies = self.policies.iter();
        policies
            .map(|it| (it.id.len() + text(&it.start) + text(&it.expiry) + text(&it.permission) + 96) as u64)
            .sum()
    }
}
