//! What is known of a blob besides its content.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

use super::conditions::{Etag, Version};
use super::tags::Tags;

/// How a blob is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum BlobKind {
    /// As a whole, or of blocks that are committed together.
    Block,
    /// By appending.
    Append,
    /// In pages, at random places.
    Page,
}

/// The kind of a blob, with what only blobs of this kind have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlobForm {
    /// A block blob.
    Block,
    /// An append blob.
    Append {
        /// Number of appended blocks.
        blocks: u32,
    },
    /// A page blob.
    Page {
        /// A number for the use of clients.
        sequence_number: u64,
    },
}

impl BlobForm {
    /// Returns the kind.
    #[must_use]
    pub const fn kind(self) -> BlobKind {
        match self {
            Self::Block => BlobKind::Block,
            Self::Append { .. } => BlobKind::Append,
            Self::Page { .. } => BlobKind::Page,
        }
    }
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

/// The access tier of a block blob: how often it is expected to be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum AccessTier {
    /// Often.
    Hot,
    /// Seldom.
    Cool,
    /// More seldom.
    Cold,
    /// Not without having been moved to another tier first.
    Archive,
}

impl AccessTier {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Hot, Self::Cool, Self::Cold, Self::Archive];

    /// The name on the wire.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Hot => "Hot",
            Self::Cool => "Cool",
            Self::Cold => "Cold",
            Self::Archive => "Archive",
        }
    }

    /// Returns whether a blob of this tier can't be read where it is.
    #[must_use]
    pub const fn is_archive(self) -> bool {
        matches!(self, Self::Archive)
    }
}

/// A tier that a client has chosen for a blob.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TierSetting {
    /// The tier.
    pub tier: AccessTier,
    /// Time of the choice, in seconds since 1970.
    pub changed_unix_s: u64,
}

impl TierSetting {
    /// Creates the setting of a tier that is chosen at an instant.
    #[must_use]
    pub fn new(tier: AccessTier, chosen_at: SystemTime) -> Self {
        Self { tier, changed_unix_s: unix_s(chosen_at) }
    }

    /// Returns the instant of the choice, in whole seconds.
    #[must_use]
    pub fn changed_at(&self) -> SystemTime {
        from_unix_s(self.changed_unix_s)
    }
}

impl CopyState {
    /// Creates the state of a copy that is complete at an instant.
    #[must_use]
    pub fn new(id: String, source: String, length: u64, completed_at: SystemTime) -> Self {
        Self { id, source, length, completed_unix_s: unix_s(completed_at) }
    }

    /// Returns the instant of completion, in whole seconds.
    #[must_use]
    pub fn completed_at(&self) -> SystemTime {
        from_unix_s(self.completed_unix_s)
    }
}

/// The copying that made a blob.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CopyState {
    /// An id that no other copying has.
    pub id: String,
    /// The URL of the blob that was copied, as it was given, without a signature.
    pub source: String,
    /// Bytes copied.
    pub length: u64,
    /// Time of completion, in seconds since 1970.
    pub completed_unix_s: u64,
}

/// What a blob is written with.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Description {
    /// Its headers.
    pub headers: ContentHeaders,
    /// Its metadata.
    pub metadata: Metadata,
    /// Its tags, which are no part of its version.
    pub tags: Tags,
    /// Its tier, if one was chosen.
    pub tier: Option<TierSetting>,
    /// The copy operation that created it, if it is a copy.
    pub copy: Option<CopyState>,
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
        let tags = self.tags.iter().map(|(key, value)| key.len() + value.len() + 48);
        let copy = self.copy.iter().map(|copy| copy.id.len() + copy.source.len() + 48);
        headers.chain(metadata).chain(tags).chain(copy).sum::<usize>() as u64
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
