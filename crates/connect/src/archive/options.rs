//! What is archived, where, and under which names.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use access::Secret;
use access::storage::StorageConnectionString;
use units::ByteSize;

use super::bucket::BucketUrl;
use super::name::{NameTemplate, Naming};
use crate::checkpoint::blobs::MissingContainer;
use crate::identity::Identity;

/// The choices of an archive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArchiveOptions {
    /// Where it is.
    pub place: Place,
    /// What becomes one file.
    pub files: ArchiveFiles,
    /// The names of its blobs or files; by default those of [`ArchiveFiles::default_name`].
    pub name: Option<NameTemplate>,
    /// How many requests, or writings, are under way at once; at least 1.
    pub concurrency: usize,
}

/// Where an archive is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// A container of blobs.
    Blob(Box<BlobPlace>),
    /// Objects of a bucket.
    Bucket(Box<BucketPlace>),
    /// A folder of this machine.
    Folder(PathBuf),
}

/// A container of blobs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlobPlace {
    /// The storage account.
    pub connection_string: StorageConnectionString,
    /// Whose tokens are used where the connection string has neither key nor signature.
    pub identity: Identity,
    /// The container.
    pub container: String,
    /// What to do when the container is not there.
    pub missing_container: MissingContainer,
    /// A file of certificates (PEM) to trust instead of those of the system.
    pub certificate_authority: Option<PathBuf>,
    /// How long one request may take, and how long connecting may.
    pub request_timeout: Duration,
}

/// A bucket of S3, of a service with its protocol, or of Google Cloud Storage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BucketPlace {
    /// The bucket, and what the names of its objects begin with.
    pub url: BucketUrl,
    /// The URL of the service; by default that of the cloud, or that of the environment.
    pub endpoint: Option<String>,
    /// The region that requests are signed for; by default that of the environment, or `us-east-1`.
    pub region: Option<String>,
    /// Who writes.
    pub credentials: BucketCredentials,
    /// A file of certificates (PEM) to trust instead of those of the system.
    pub certificate_authority: Option<PathBuf>,
    /// How much of files of many events may wait in memory: half of it until they are complete, and the rest until they are stored.
    pub memory: ByteSize,
    /// How long one request may take beside a second for each mebibyte that it carries.
    pub request_timeout: Duration,
}

/// Who writes to a bucket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BucketCredentials {
    /// What the environment, a token of web identity, or the machine says.
    Found,
    /// A key of S3.
    AccessKey {
        /// Its public part.
        id: String,
        /// Its secret part.
        secret: Secret,
        /// The token of a session, for keys that lapse.
        session_token: Option<Secret>,
    },
    /// The key of a service account of Google Cloud: its JSON.
    ServiceAccount(Secret),
}

/// What becomes one file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ArchiveFiles {
    /// Each event is a file.
    PerEvent(EventFormat),
    /// Events of a partition that follow one another are a file.
    Rolled(Rolling),
}

/// When a file of many events is complete: whatever comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rolling {
    /// With the send of events that makes it this long.
    pub size: ByteSize,
    /// When its first event has been in it for so long.
    pub every: Duration,
    /// What is in it.
    pub format: FileFormat,
}

/// What events are in a file of many.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FileFormat {
    /// A line of JSON each.
    #[default]
    Ndjson,
    /// Records of Avro, in the layout of Event Hubs Capture.
    Avro,
    /// Rows of Parquet, with the columns of Event Hubs Capture.
    Parquet,
}

/// What an event is in a file of its own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EventFormat {
    /// Its body as it is.
    #[default]
    Body,
    /// All that is known of it, as an object of JSON.
    Json,
}

/// Where the events of an archive come from, as names and files tell it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ArchiveSource {
    /// The host of the namespace or cluster.
    pub namespace: String,
    /// The hub, topic, queue or subscription.
    pub hub: String,
}

impl ArchiveOptions {
    /// The default of [`concurrency`](Self::concurrency).
    pub const CONCURRENCY: usize = 64;

    /// One file per event with its body, at `place`.
    #[must_use]
    pub const fn new(place: Place) -> Self {
        Self {
            place,
            files: ArchiveFiles::PerEvent(EventFormat::Body),
            name: None,
            concurrency: Self::CONCURRENCY,
        }
    }

    pub(super) fn naming(&self, source: &ArchiveSource) -> Naming {
        match &self.name {
            Some(name) => name.of_source(source),
            None => self.files.default_name().of_source(source),
        }
    }
}

impl ArchiveFiles {
    /// The names of files where none are given.
    #[must_use]
    pub fn default_name(self) -> NameTemplate {
        let text = match self {
            Self::PerEvent(EventFormat::Body) => "{hub}/{partition}/{sequence_number}",
            Self::PerEvent(EventFormat::Json) => "{hub}/{partition}/{sequence_number}.json",
            Self::Rolled(Rolling { format: FileFormat::Ndjson, .. }) => {
                "{hub}/{partition}/{year}/{month}/{day}/{sequence_number:19}.ndjson"
            }
            Self::Rolled(Rolling { format: FileFormat::Avro, .. }) => {
                "{hub}/{partition}/{year}/{month}/{day}/{sequence_number:19}.avro"
            }
            Self::Rolled(Rolling { format: FileFormat::Parquet, .. }) => {
                "{hub}/{partition}/{year}/{month}/{day}/{sequence_number:19}.parquet"
            }
        };
        text.parse().expect("the defaults are names")
    }
}

impl Default for Rolling {
    fn default() -> Self {
        Self {
            size: ByteSize::from_mebibytes(64),
            every: Duration::from_secs(5 * 60),
            format: FileFormat::default(),
        }
    }
}

impl BlobPlace {
    /// A container that exists.
    #[must_use]
    pub fn new(connection_string: StorageConnectionString, container: impl Into<String>) -> Self {
        Self {
            connection_string,
            identity: Identity::of_process(),
            container: container.into(),
            missing_container: MissingContainer::default(),
            certificate_authority: None,
            request_timeout: Duration::from_secs(30),
        }
    }
}

impl BucketPlace {
    /// The default of [`memory`](Self::memory).
    pub const MEMORY: ByteSize = ByteSize::from_mebibytes(256);

    /// A bucket of the cloud, with the credentials that are found.
    #[must_use]
    pub fn new(url: BucketUrl) -> Self {
        Self {
            url,
            endpoint: None,
            region: None,
            credentials: BucketCredentials::Found,
            certificate_authority: None,
            memory: Self::MEMORY,
            request_timeout: Duration::from_secs(30),
        }
    }
}

/// The bucket, and the service if it is not that of the cloud.
impl fmt::Display for BucketPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.endpoint {
            Some(endpoint) => write!(f, "{} at {endpoint}", self.url),
            None => write!(f, "{}", self.url),
        }
    }
}
