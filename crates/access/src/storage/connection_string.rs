//! The connection string of a storage account.
//!
//! ```text
//!   DefaultEndpointsProtocol=https;AccountName=…;AccountKey=…;EndpointSuffix=core.windows.net
//!   AccountName=…;AccountKey=…;BlobEndpoint=http://127.0.0.1:10000/…
//!   BlobEndpoint=https://….blob.core.windows.net;SharedAccessSignature=sv=…&sig=…
//!   UseDevelopmentStorage=true
//!   https://….blob.core.windows.net            the URL of an account alone: with tokens of the process's identity
//! ```
//!
//! Keys are case-insensitive and may come in any order; those of other services than blobs are passed over. Errors name
//! keys and positions, never a value.

use std::str::FromStr;

use super::{
    DEVELOPMENT_ACCOUNT, DEVELOPMENT_ACCOUNT_KEY, DEVELOPMENT_BLOB_ENDPOINT, StorageAccountKey,
    StorageKeyError,
};
use crate::{Secret, is_loopback};

/// A connection string, read. `Debug` hides the secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StorageConnectionString {
    /// The URL of the blob service, `http` or `https`, without a slash at its end.
    pub blob_endpoint: String,
    /// What proves the right to use it.
    pub credential: StorageCredential,
}

/// What a storage account is opened with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StorageCredential {
    /// A key, which signs every request.
    Key(StorageAccountKey),
    /// A shared access signature: a query string, without the question mark.
    Signature(Secret),
    /// Bearer tokens of Microsoft Entra ID, for the identity that the process has.
    Identity,
}

/// Why a text is not a connection string of a storage account. Contains no value of it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StorageConnectionStringError {
    /// A part has no equals sign.
    #[error("part {position} of the storage connection string is not of the form key=value")]
    NotAPair {
        /// Counted from one, parts being separated by semicolons.
        position: usize,
    },
    /// A part's key is none of those that exist.
    #[error("part {position} of the storage connection string has an unknown key")]
    UnknownKey {
        /// Counted from one, parts being separated by semicolons.
        position: usize,
    },
    /// A key is there twice.
    #[error("the storage connection string has {key} twice")]
    Repeated {
        /// Its name.
        key: &'static str,
    },
    /// A needed key is absent, or empty.
    #[error("the storage connection string has no {key}")]
    Missing {
        /// Its name.
        key: &'static str,
    },
    /// A value is none of those that are possible.
    #[error("{key} in the storage connection string is not {allowed}")]
    Wrong {
        /// Its name.
        key: &'static str,
        /// What is possible.
        allowed: &'static str,
    },
    /// The URL of an account has something that none has.
    #[error(
        "the URL of a storage account has a query or a fragment; a shared access signature goes into a connection string"
    )]
    Url,
    /// Tokens would travel where others can read them.
    #[error(
        "{host} would be sent bearer tokens without TLS, which only this machine's loopback addresses may be"
    )]
    UnprotectedToken {
        /// The host.
        host: String,
    },
    /// The key can't be used.
    #[error("AccountKey in the storage connection string can't be used: {0}")]
    Key(#[from] StorageKeyError),
}

impl StorageConnectionString {
    /// The whole text, secret included, ready to paste.
    #[must_use]
    pub fn reveal(&self) -> String {
        let endpoint = &self.blob_endpoint;
        match &self.credential {
            StorageCredential::Key(key) => {
                let protocol = endpoint.split("://").next().unwrap_or("https");
                let (account, value) = (key.account(), key.value().reveal());
                format!(
                    "{PROTOCOL}={protocol};{ACCOUNT_NAME}={account};{ACCOUNT_KEY}={value};{BLOB_ENDPOINT}={endpoint};"
                )
            }
            StorageCredential::Signature(signature) => {
                format!("{BLOB_ENDPOINT}={endpoint};{SIGNATURE}={};", signature.reveal())
            }
            StorageCredential::Identity => endpoint.clone(),
        }
    }

    /// An account by its URL, to be used with bearer tokens of the process's identity.
    fn of_account_url(url: &str) -> Result<Self, StorageConnectionStringError> {
        if url.contains(['?', '#', ';', ' ']) {
            return Err(StorageConnectionStringError::Url);
        }
        if let Some(rest) = url.strip_prefix("http://") {
            let authority = rest.split('/').next().unwrap_or_default();
            let host = match authority.strip_prefix('[') {
                Some(bracketed) => bracketed.split(']').next(),
                None => authority.split(':').next(),
            };
            let host = host.unwrap_or_default();
            if !is_loopback(host) {
                return Err(StorageConnectionStringError::UnprotectedToken { host: host.to_owned() });
            }
        }
        let blob_endpoint = url.trim_end_matches('/').to_owned();
        Ok(Self { blob_endpoint, credential: StorageCredential::Identity })
    }

    /// The account's name, where it is known: by the key, or by the endpoint's host or path.
    #[must_use]
    pub fn account(&self) -> Option<&str> {
        match &self.credential {
            StorageCredential::Key(key) => Some(key.account()),
            StorageCredential::Signature(_) | StorageCredential::Identity => {
                let rest = self.blob_endpoint.split_once("://")?.1;
                match rest.split_once('/') {
                    Some((_, account)) => Some(account),
                    None => rest.split('.').next(),
                }
            }
        }
    }
}

impl FromStr for StorageConnectionString {
    type Err = StorageConnectionStringError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let url = text.trim();
        if url.starts_with("https://") || url.starts_with("http://") {
            return Self::of_account_url(url);
        }
        let values = Values::read(text)?;
        if let Some(flag) = values.of(USE_DEVELOPMENT_STORAGE) {
            if !flag.eq_ignore_ascii_case("true") {
                return Err(StorageConnectionStringError::Wrong {
                    key: USE_DEVELOPMENT_STORAGE,
                    allowed: "true",
                });
            }
            return Ok(Self {
                blob_endpoint: DEVELOPMENT_BLOB_ENDPOINT.to_owned(),
                credential: StorageCredential::Key(StorageAccountKey::new(
                    DEVELOPMENT_ACCOUNT,
                    DEVELOPMENT_ACCOUNT_KEY,
                )?),
            });
        }
        let protocol = values.of(PROTOCOL).unwrap_or("https").to_ascii_lowercase();
        if !matches!(protocol.as_str(), "http" | "https") {
            return Err(StorageConnectionStringError::Wrong { key: PROTOCOL, allowed: "http or https" });
        }
        let credential = match values.of(SIGNATURE) {
            Some(signature) => StorageCredential::Signature(signature.trim_start_matches('?').into()),
            None => {
                let account = values.required(ACCOUNT_NAME)?;
                let key = values.required(ACCOUNT_KEY)?;
                StorageCredential::Key(StorageAccountKey::new(account, key)?)
            }
        };
        let blob_endpoint = match values.of(BLOB_ENDPOINT) {
            Some(endpoint) => {
                let scheme = endpoint.split_once("://").map(|(scheme, _)| scheme);
                if !matches!(scheme, Some("http" | "https")) {
                    return Err(StorageConnectionStringError::Wrong {
                        key: BLOB_ENDPOINT,
                        allowed: "a URL that begins with http:// or https://",
                    });
                }
                endpoint.trim_end_matches('/').to_owned()
            }
            None => {
                let account = match values.required(ACCOUNT_NAME) {
                    Ok(account) => account,
                    // With a signature it is the endpoint that is expected.
                    Err(_) => values.required(BLOB_ENDPOINT)?,
                };
                let suffix = values.of(SUFFIX).unwrap_or("core.windows.net");
                format!("{protocol}://{account}.blob.{suffix}")
            }
        };
        Ok(Self { blob_endpoint, credential })
    }
}

/// What is written, by key.
struct Values<'a> {
    pairs: Vec<(&'static str, &'a str)>,
}

impl<'a> Values<'a> {
    fn read(text: &'a str) -> Result<Self, StorageConnectionStringError> {
        let mut pairs = Vec::new();
        for (position, part) in (1..).zip(text.split(';')) {
            let part = part.trim();
            if part.is_empty() {
                continue;
            }
            let (name, value) =
                part.split_once('=').ok_or(StorageConnectionStringError::NotAPair { position })?;
            let key = KEYS
                .iter()
                .copied()
                .find(|key| key.eq_ignore_ascii_case(name.trim()))
                .ok_or(StorageConnectionStringError::UnknownKey { position })?;
            if pairs.iter().any(|(known, _)| *known == key) {
                return Err(StorageConnectionStringError::Repeated { key });
            }
            pairs.push((key, value.trim()));
        }
        Ok(Self { pairs })
    }

    /// A value that is there and not empty.
    fn of(&self, key: &str) -> Option<&'a str> {
        let found = self.pairs.iter().find(|(name, _)| *name == key);
        found.map(|&(_, value)| value).filter(|it| !it.is_empty())
    }

    fn required(&self, key: &'static str) -> Result<&'a str, StorageConnectionStringError> {
        self.of(key).ok_or(StorageConnectionStringError::Missing { key })
    }
}

const PROTOCOL: &str = "DefaultEndpointsProtocol";
const ACCOUNT_NAME: &str = "AccountName";
const ACCOUNT_KEY: &str = "AccountKey";
const BLOB_ENDPOINT: &str = "BlobEndpoint";
const SUFFIX: &str = "EndpointSuffix";
const SIGNATURE: &str = "SharedAccessSignature";
const USE_DEVELOPMENT_STORAGE: &str = "UseDevelopmentStorage";

/// All keys that exist, those of other services included.
const KEYS: &[&str] = &[
    PROTOCOL,
    ACCOUNT_NAME,
    ACCOUNT_KEY,
    BLOB_ENDPOINT,
    SUFFIX,
    SIGNATURE,
    USE_DEVELOPMENT_STORAGE,
    "BlobSecondaryEndpoint",
    "FileEndpoint",
    "FileSecondaryEndpoint",
    "QueueEndpoint",
    "QueueSecondaryEndpoint",
    "TableEndpoint",
    "TableSecondaryEndpoint",
];

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> StorageConnectionString {
        text.parse().expect("a connection string")
    }

    fn mistake(text: &str) -> String {
        let read: Result<StorageConnectionString, _> = text.parse();
        read.expect_err("a mistake").to_string()
    }

    #[test]
    fn the_endpoint_is_the_one_given_or_that_of_the_account() {
        let key = "AccountName=one;AccountKey=c2VjcmV0";
        let endpoint = |text: &str| read(text).blob_endpoint;
        assert_eq!(endpoint(key), "https://one.blob.core.windows.net");
        assert_eq!(
            endpoint(&format!("DefaultEndpointsProtocol=http;{key};EndpointSuffix=local.test;")),
            "http://one.blob.local.test"
        );
        assert_eq!(
            endpoint(&format!("{key};blobendpoint=http://127.0.0.1:1/one/;QueueEndpoint=x")),
            "http://127.0.0.1:1/one"
        );
        let development = read("UseDevelopmentStorage=true");
        assert_eq!(development.blob_endpoint, DEVELOPMENT_BLOB_ENDPOINT);
        assert_eq!(development.account(), Some(DEVELOPMENT_ACCOUNT));
    }

    #[test]
    fn a_signature_keeps_its_equals_signs_and_needs_no_key() {
        let string = read("BlobEndpoint=https://one.blob.test;SharedAccessSignature=?sv=1&sig=a%3D");
        assert_eq!(string.account(), Some("one"));
        let StorageCredential::Signature(signature) = &string.credential else {
            panic!("a signature");
        };
        assert_eq!(signature.reveal(), "sv=1&sig=a%3D");
        assert!(!format!("{string:?}").contains("sig="));
    }

    #[test]
    fn the_url_of_an_account_means_the_identity_of_the_process() {
        let azure = read("https://one.blob.core.windows.net/");
        assert_eq!(azure.blob_endpoint, "https://one.blob.core.windows.net");
        assert_eq!((azure.account(), &azure.credential), (Some("one"), &StorageCredential::Identity));
        assert_eq!(read("http://[::1]:10000/devstoreaccount1").account(), Some("devstoreaccount1"));
        let refused = |text: &str| text.parse::<StorageConnectionString>().unwrap_err();
        assert_eq!(refused("https://one.blob.test/?sv=1&sig=hush"), StorageConnectionStringError::Url);
        let plain = StorageConnectionStringError::UnprotectedToken { host: "one.blob.test".to_owned() };
        assert_eq!(refused("http://one.blob.test/"), plain);
    }

    #[test]
    fn what_is_revealed_is_read_again() {
        for text in [
            "UseDevelopmentStorage=true",
            "AccountName=one;AccountKey=c2VjcmV0",
            "BlobEndpoint=https://one.blob.test;SharedAccessSignature=sv=1&sig=a%3D",
            "https://one.blob.core.windows.net",
            "http://127.0.0.1:10000/devstoreaccount1",
        ] {
            let string = read(text);
            assert_eq!(read(&string.reveal()), string);
        }
        assert!(
            read("UseDevelopmentStorage=true")
                .reveal()
                .starts_with("DefaultEndpointsProtocol=http;AccountName=devstoreaccount1;AccountKey=Eby8")
        );
    }

    #[test]
    fn mistakes_name_the_key_and_no_value() {
        for (text, told) in [
            ("", "has no AccountName"),
            ("AccountName=a", "has no AccountKey"),
            ("AccountName=a;AccountKey=hush!", "can't be used: the account key is not base64"),
            ("AccountName=a;AccountName=b", "has AccountName twice"),
            ("AccountName=a;hush", "part 2 of the storage connection string is not"),
            ("AccountName=a;hush=1", "part 2 of the storage connection string has an unknown key"),
            ("BlobEndpoint=hush;AccountName=a;AccountKey=c2VjcmV0", "BlobEndpoint in the storage"),
            ("SharedAccessSignature=hush", "has no BlobEndpoint"),
            ("UseDevelopmentStorage=hush", "UseDevelopmentStorage in the storage"),
            ("DefaultEndpointsProtocol=hush", "is not http or https"),
        ] {
            let message = mistake(text);
            assert!(message.contains(told), "{text} gave: {message}");
            assert!(!message.contains("hush"), "{message}");
        }
    }
}
