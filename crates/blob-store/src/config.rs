//! The storage account that the service has, as plain data.

use access::Secret;
use access::storage::{DEVELOPMENT_ACCOUNT, DEVELOPMENT_ACCOUNT_KEY, StorageAccountKey};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use units::ByteSize;

use super::names;

/// A storage account: who may use it, what is in it to begin with, and how much it takes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct BlobConfig {
    /// Its name and key. Default: the development emulator's, which everyone knows.
    pub account: AccountConfig,
    /// Containers that are there from the start.
    pub containers: Vec<String>,
    /// How many bytes the blobs may take in memory, with their names and metadata. Where they are in a data directory,
    /// contents do not count. Default 1 GiB.
    pub memory: ByteSize,
    /// The largest body of one request; larger blobs are written in blocks. Default 256 MiB, up to which clients do
    /// without.
    pub body: ByteSize,
}

/// Name and key of an account.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AccountConfig {
    /// 3 to 24 lower-case letters and digits.
    pub name: String,
    /// The key, base64.
    #[serde(serialize_with = "reveal", deserialize_with = "secret")]
    pub key: Secret,
}

/// What in the account makes no sense.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{path}: {reason}")]
pub struct BlobConfigError {
    /// The key, dotted, from `blob` on.
    pub path: &'static str,
    /// What is wrong with it. No secret is in it.
    pub reason: String,
}

impl Default for BlobConfig {
    fn default() -> Self {
        Self {
            account: AccountConfig {
                name: DEVELOPMENT_ACCOUNT.to_owned(),
                key: DEVELOPMENT_ACCOUNT_KEY.into(),
            },
            containers: Vec::new(),
            memory: ByteSize::from_mebibytes(1024),
            body: ByteSize::from_mebibytes(256),
        }
    }
}

impl BlobConfig {
    /// The account's name and key, if all of the configuration makes sense.
    ///
    /// # Errors
    /// What does not.
    pub fn check(&self) -> Result<StorageAccountKey, BlobConfigError> {
        let name = &self.account.name;
        let is_name = (3..=24).contains(&name.len())
            && name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit());
        if !is_name {
            return Err(BlobConfigError {
                path: "blob.account.name",
                reason: format!("{name:?} is not 3 to 24 lower-case letters and digits"),
            });
        }
        if let Some(wrong) = self.containers.iter().find(|name| !names::is_container(name)) {
            return Err(BlobConfigError {
                path: "blob.containers",
                reason: format!(
                    "{wrong:?} is not 3 to 63 lower-case letters, digits and single hyphens between them"
                ),
            });
        }
        StorageAccountKey::new(name.clone(), self.account.key.clone())
            .map_err(|error| BlobConfigError { path: "blob.account.key", reason: error.to_string() })
    }

    /// Whether whoever has read public documentation has the key.
    #[must_use]
    pub fn has_development_key(&self) -> bool {
        self.account.key.reveal() == DEVELOPMENT_ACCOUNT_KEY
    }
}

/// The configuration is handed to other processes of ours, which need the key.
fn reveal<S: Serializer>(secret: &Secret, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(secret.reveal())
}

fn secret<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Secret, D::Error> {
    String::deserialize(deserializer).map(Secret::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_is_the_development_account_and_survives_being_written() {
        let config: BlobConfig = serde_json::from_str("{}").unwrap();
        assert_eq!(config, BlobConfig::default());
        assert!(config.has_development_key());
        let key = config.check().unwrap();
        assert_eq!(key.account(), "devstoreaccount1");
        let text = serde_json::to_string(&config).unwrap();
        assert_eq!(serde_json::from_str::<BlobConfig>(&text).unwrap(), config);
    }

    #[test]
    fn what_makes_no_sense_is_named_without_the_key() {
        for (text, path) in [
            (r#"{"account": {"name": "No", "key": "aHVzaA=="}}"#, "blob.account.name"),
            (r#"{"account": {"name": "acme", "key": "hush!"}}"#, "blob.account.key"),
            (r#"{"containers": ["ck", "Up"]}"#, "blob.containers"),
            (r#"{"containers": ["a--b"]}"#, "blob.containers"),
        ] {
            let error = serde_json::from_str::<BlobConfig>(text).unwrap().check().unwrap_err();
            assert_eq!(error.path, path);
            assert!(!error.to_string().contains("hush"));
        }
        assert!(serde_json::from_str::<BlobConfig>(r#"{"keys": 1}"#).is_err());
    }
}
