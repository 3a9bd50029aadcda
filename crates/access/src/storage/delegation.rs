//! User delegation keys, with which principals sign shared access signatures.
//!
//! A key is derived from its fields and the account key. A signature contains the fields, so the key does not have to be stored.

use std::time::{SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ring::hmac;

use super::StorageAccountKey;
use crate::Secret;

/// The fields of a user delegation key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UserDelegationKey<'a> {
    /// The object id of the principal (`skoid`).
    pub object_id: &'a str,
    /// Its tenant (`sktid`).
    pub tenant: &'a str,
    /// Start of validity (`skt`), in whole seconds.
    pub start: SystemTime,
    /// End of validity (`ske`), in whole seconds.
    pub expiry: SystemTime,
    /// The service (`sks`): `b` for blobs.
    pub service: &'a str,
    /// Protocol version of the request for the key (`skv`).
    pub version: &'a str,
}

impl StorageAccountKey {
    /// Returns the value of a user delegation key, in base64.
    #[must_use]
    pub fn delegate(&self, key: &UserDelegationKey<'_>) -> Secret {
        // A separate key: no value can be used as the signature of another text.
        let own = hmac::Key::new(hmac::HMAC_SHA256, &self.sign_text(PURPOSE));
        let seconds = |instant: SystemTime| {
            instant.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs().to_string()
        };
        let (start, expiry) = (seconds(key.start), seconds(key.expiry));
        let mut context = hmac::Context::with_key(&own);
        for field in [key.object_id, key.tenant, &start, &expiry, key.service, key.version] {
            context.update(&(field.len() as u64).to_be_bytes());
            context.update(field.as_bytes());
        }
        STANDARD.encode(context.sign()).into()
    }
}

/// The purpose of the derived key. Texts of signatures have several lines, so none is equal to it.
const PURPOSE: &str = "user delegation keys";
