//! How a storage account lets us in: its connection string, and a shared access signature made with its key.

use std::str::FromStr;

use azure_core::time::{Duration, OffsetDateTime, to_rfc3339};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use hmac::{Hmac, Mac as _};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use sha2::Sha256;

/// What a storage connection string says.
#[derive(Debug)]
pub struct Account {
    /// Without a slash at its end.
    pub endpoint: String,
    access: Access,
}

#[derive(Debug)]
enum Access {
    Key { account: String, key: Vec<u8> },
    Signature(String),
}

impl FromStr for Account {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let value = |wanted: &str| {
            text.split(';').find_map(|part| {
                let (key, value) = part.split_once('=')?;
                key.trim().eq_ignore_ascii_case(wanted).then(|| value.trim().to_owned())
            })
        };
        let missing = |name: &str| format!("the storage connection string has no {name}");
        let name = value("AccountName");
        let endpoint = match (value("BlobEndpoint"), &name) {
            (Some(endpoint), _) => endpoint,
            (None, Some(name)) => {
                let suffix = value("EndpointSuffix").unwrap_or_else(|| "core.windows.net".to_owned());
                format!("https://{name}.blob.{suffix}")
            }
            (None, None) => return Err(missing("BlobEndpoint")),
        };
        let access = match value("SharedAccessSignature") {
            Some(signature) => Access::Signature(signature.trim_start_matches('?').to_owned()),
            None => {
                let key = value("AccountKey").ok_or_else(|| missing("AccountKey"))?;
                Access::Key {
                    account: name.ok_or_else(|| missing("AccountName"))?,
                    key: BASE64_STANDARD
                        .decode(key)
                        .map_err(|error| format!("the account's key is no base64: {error}"))?,
                }
            }
        };
        Ok(Self { endpoint: endpoint.trim_end_matches('/').to_owned(), access })
    }
}

impl Account {
    /// The query that lets us do everything with containers and blobs, for a day from `now` on.
    pub fn signature(&self, now: OffsetDateTime) -> String {
        let (account, key) = match &self.access {
            Access::Signature(signature) => return signature.clone(),
            Access::Key { account, key } => (account, key),
        };
        let whole =
            |time: OffsetDateTime| to_rfc3339(&time.replace_nanosecond(0).expect("0 is a nanosecond"));
        let expiry = whole(now + Duration::days(1));
        // account, permissions, services, resource types, start, expiry, addresses, protocols, version, scope
        let signed = format!("{account}\n{PERMISSIONS}\nb\nco\n\n{expiry}\n\n\n{VERSION}\n\n");
        let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("every length of key will do");
        mac.update(signed.as_bytes());
        let signature = BASE64_STANDARD.encode(mac.finalize().into_bytes());
        format!(
            "sv={VERSION}&ss=b&srt=co&sp={PERMISSIONS}&se={}&sig={}",
            utf8_percent_encode(&expiry, NON_ALPHANUMERIC),
            utf8_percent_encode(&signature, NON_ALPHANUMERIC)
        )
    }
}

const PERMISSIONS: &str = "rwlac";

const VERSION: &str = "2024-11-04";
