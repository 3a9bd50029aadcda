//! What is known of a blob besides its content.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

use super::conditions::{Etag, Version};

/// How a blob is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum BlobKind {
    /// As a whole, or of blocks that are committed together.
    Block,
    /// By appending.
    Append,
}

/// The headers that are kept with a blob and come back with it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ContentHeaders {
    /// `Content-Type`. None is the type of a blob whose writer gave none; an empty one was taken away, so it has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub content_type: Option<String>,
    /// `Content-Encoding`
    #[serde(skip_serializing_if = "Option::is_none")]
    pub content_encoding: Option<String>,
    /// `Content-Language`
    #[serde(skip_serializing_if = "Option::is_none")]
    pub content_language: Option<String>,
    /// `Content-Disposition`
    #[serde(skip_serializing_if = "Option::is_none")]
    pub content_disposition: Option<String>,
    /// `Cache-Control`
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache_control: Option<String>,
    /// `Content-MD5` of the whole blob, in base64, as its writer gave it or as it was computed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub content_md5: Option<String>,
}

/// Names and values that whoever writes a blob adds to it, in the order in which they came.
pub type Metadata = Vec<(String, String)>;

/// What a blob is written with.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Description {
    /// Its headers.
    pub headers: ContentHeaders,
    /// Its metadata.
    pub metadata: Metadata,
}

impl ContentHeaders {
    /// All of them, in a fixed order.
    pub(super) fn values(&self) -> [&Option<String>; 6] {
        [
            &self.content_type,
            &self.content_encoding,
            &self.content_language,
            &self.content_disposition,
            &self.cache_control,
            &self.content_md5,
        ]
    }
}

impl Description {
    /// About how much memory it takes.
    pub(super) fn bytes(&self) -> u64 {
        let headers = self.headers.values().into_iter().flatten().map(String::len);
        let metadata = self.metadata.iter().map(|(name, value)| name.len() + value.len() + 48);
        headers.chain(metadata).sum::<usize>() as u64
    }
}

/// An instant cut to the second, which is all that the protocol tells.
pub(super) fn whole_seconds(instant: SystemTime) -> SystemTime {
    from_unix_s(unix_s(instant))
}

pub(super) fn unix_s(instant: SystemTime) -> u64 {
    instant.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

pub(super) fn from_unix_s(seconds: u64) -> SystemTime {
    // What a file says may be anything.
    UNIX_EPOCH.checked_add(Duration::from_secs(seconds)).unwrap_or(UNIX_EPOCH)
}

/// The version that `etag` and seconds since 1970 make.
pub(super) fn version(etag: u64, modified_unix_s: u64) -> Version {
    Version { etag: Etag(etag), modified_at: from_unix_s(modified_unix_s) }
}
