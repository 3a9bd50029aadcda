//! The section of an archive that is about a bucket, and its rules.
//!
//! ```yaml
//! bucket:
//!   url: s3://archive/orders                # or gs://…
//!   endpoint: https://minio.example.com     # region: eu-west-1
//!   access_key_id: "${KEY_ID}"              # without: what the environment or the machine says
//!   secret_access_key: "${KEY}"
//! ```

use std::path::PathBuf;

use access::Secret;
use connect::archive::{BucketCredentials, BucketPlace, BucketService, BucketUrl, BucketUrlError};
use serde::{Deserialize, Deserializer};
use settings::{Document, SettingsError};
use units::ByteSize;

/// A bucket to archive to.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Bucket {
    url: String,
    endpoint: Option<String>,
    region: Option<String>,
    access_key_id: Option<String>,
    #[serde(default, deserialize_with = "secret")]
    secret_access_key: Option<Secret>,
    #[serde(default, deserialize_with = "secret")]
    session_token: Option<Secret>,
    #[serde(default, deserialize_with = "secret")]
    service_account_key: Option<Secret>,
    certificate_authority: Option<PathBuf>,
    memory: Option<ByteSize>,
}

impl Bucket {
    /// `size` is that of files of many events; none where each event is an object.
    pub(super) fn check(
        &self,
        document: &Document,
        section: &str,
        size: Option<ByteSize>,
    ) -> Result<(), SettingsError> {
        let key = |name: &str| format!("{section}.to.bucket.{name}");
        let url: BucketUrl = self.url.parse().map_err(|error: BucketUrlError| {
            document.mistake(&key("url"), error.to_string(), "for example s3://archive/orders")
        })?;
        if let Some(endpoint) = &self.endpoint
            && !is_endpoint(endpoint)
        {
            let reason = format!("`{endpoint}` is not a URL of a service");
            return Err(document.mistake(
                &key("endpoint"),
                reason,
                "for example https://minio.example.com:9000",
            ));
        }
        self.check_credentials(url.service())
            .map_err(|(name, reason, advice)| document.mistake(&key(name), reason, advice))?;
        let Some(size) = size else {
            return match self.memory {
                Some(_) => {
                    let reason = "nothing waits in memory where each event is an object";
                    Err(document.mistake(&key("memory"), reason, "leave it out"))
                }
                None => Ok(()),
            };
        };
        let memory = self.memory();
        if !(MEMORY_MIN..=MEMORY_MAX).contains(&memory) {
            let advice = format!("allowed is {MEMORY_MIN} to {MEMORY_MAX}");
            return Err(document.mistake(&key("memory"), format!("{memory} is out of range"), advice));
        }
        if size.bytes() > memory.bytes() / 2 {
            let reason = format!("{size} is more than half of the memory that files wait in, {memory}");
            let advice =
                "a file of a bucket is stored as a whole; make it smaller, or raise `to.bucket.memory`";
            return Err(document.mistake(&format!("{section}.files.size"), reason, advice));
        }
        Ok(())
    }

    /// What is wrong with the credentials: the key, the reason, and what to do.
    fn check_credentials(
        &self,
        service: BucketService,
    ) -> Result<(), (&'static str, &'static str, &'static str)> {
        let has_key = self.access_key_id.is_some() && self.secret_access_key.is_some();
        match service {
            BucketService::S3 if self.service_account_key.is_some() => {
                Err(("service_account_key", "S3 has no service accounts", "leave it out"))
            }
            BucketService::S3 if self.access_key_id.is_some() != self.secret_access_key.is_some() => {
                let present =
                    if self.access_key_id.is_some() { "access_key_id" } else { "secret_access_key" };
                Err((
                    present,
                    "it is half of a key",
                    "give both `access_key_id` and `secret_access_key`, or neither",
                ))
            }
            BucketService::S3 if self.session_token.is_some() && !has_key => {
                let advice = "give `access_key_id` and `secret_access_key`, too, or leave it out";
                Err(("session_token", "it is a token without the key that it is for", advice))
            }
            BucketService::S3 => Ok(()),
            BucketService::GoogleCloudStorage => {
                let misplaced = [
                    ("access_key_id", self.access_key_id.is_some()),
                    ("secret_access_key", self.secret_access_key.is_some()),
                    ("session_token", self.session_token.is_some()),
                ];
                if let Some((name, _)) = misplaced.into_iter().find(|(_, is_there)| *is_there) {
                    let reason = "Google Cloud Storage has no access keys for this protocol";
                    return Err((name, reason, "give `service_account_key`, or leave it out"));
                }
                match self.region {
                    Some(_) => {
                        Err(("region", "a bucket of Google Cloud Storage has no region here", "leave it out"))
                    }
                    None => Ok(()),
                }
            }
        }
    }

    /// Where it is: two archives with the same place and the same names would write what the other has.
    pub(super) fn place(&self) -> String {
        let url = self.url.trim_end_matches('/');
        format!("{} {url}", self.endpoint.as_deref().unwrap_or_default().trim_end_matches('/'))
    }

    /// # Panics
    /// When it was not [checked](Self::check).
    pub(super) fn into_place(self) -> BucketPlace {
        let memory = self.memory();
        let url = self.url.parse().expect("the URL was checked");
        BucketPlace {
            endpoint: self.endpoint.map(|endpoint| endpoint.trim_end_matches('/').to_owned()),
            region: self.region,
            credentials: match (self.access_key_id, self.secret_access_key, self.service_account_key) {
                (Some(id), Some(secret), _) => {
                    BucketCredentials::AccessKey { id, secret, session_token: self.session_token }
                }
                (_, _, Some(key)) => BucketCredentials::ServiceAccount(key),
                _ => BucketCredentials::Found,
            },
            certificate_authority: self.certificate_authority,
            memory,
            ..BucketPlace::new(url)
        }
    }

    fn memory(&self) -> ByteSize {
        self.memory.unwrap_or(BucketPlace::MEMORY)
    }
}

fn secret<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Secret>, D::Error> {
    Ok(Some(String::deserialize(deserializer)?.into()))
}

/// Whether a text can be the URL of a service: with a host, perhaps with a path, and with nothing secret.
fn is_endpoint(text: &str) -> bool {
    let rest = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"));
    rest.is_some_and(|rest| {
        !rest.is_empty()
            && !rest.starts_with('/')
            && rest.bytes().all(|byte| byte.is_ascii_graphic() && !b"@?#\"<>\\^`{|}".contains(&byte))
    })
}

/// Blocks of 4 MiB, of some files.
const MEMORY_MIN: ByteSize = ByteSize::from_mebibytes(16);

/// One request may carry 5 GiB, which is more than half of this.
const MEMORY_MAX: ByteSize = ByteSize::from_mebibytes(8 * 1024);
