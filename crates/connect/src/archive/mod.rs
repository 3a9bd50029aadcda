//! Archives: events kept for good, as blobs of a container, objects of a bucket, or files of a folder.
//!
//! ```text
//!   per event    hub/3/41   hub/3/42   hub/3/43   …      a blob each: its body as it is, or all that is known of it as JSON
//!   rolled       hub/3/2026/11/20/0000000000000000041.avro …      many events of a partition, as lines of JSON, records of Avro or rows of Parquet
//! ```
//!
//! A name comes from hub, partition and sequence number, so that an event that is sent again has the name that it had before. What is there
//! is never replaced: it is accepted if it is the same, and an error if it is something else. Parts of a name that come from an event
//! can't lead out of the container, the prefix in a bucket, or the folder.
//!
//! | | |
//! |---|---|
//! | [`options`](ArchiveOptions), [`name`](NameTemplate) | what is written, where, and under which name |
//! | `content`, `json` | what an event is in an archive |
//! | `per_event` | the sink that writes each event by itself |
//! | `rolled`, `avro`, `parquet` | the sink that writes files of many events, in the layout of Event Hubs Capture and in columns |
//! | `blob` | requests to blob storage: their heads and signatures, connections, and what refusals mean |
//! | `bucket` | requests to S3, what speaks like it, and Google Cloud Storage |

mod avro;
mod blob;
mod bucket;
mod content;
mod json;
mod name;
mod options;
mod parquet;
mod per_event;
mod rolled;

use std::fs::{self, File, TryLockError};
use std::io::ErrorKind;
use std::path::Path;
use std::sync::{Arc, Mutex};

use access::storage::StorageCredential;
use tokio::sync::Semaphore;

use crate::checkpoint::StoreError;
use crate::checkpoint::blobs::{BlobStoreOptions, Container, MissingContainer};
use crate::identity::{FollowedToken, STORAGE_SCOPE};
use crate::service::ServiceError;
use crate::sink::Sink;

pub use bucket::{BucketService, BucketUrl, BucketUrlError};
pub use name::{NameError, NameTemplate};
pub use options::{
    ArchiveFiles, ArchiveOptions, ArchiveSource, BlobPlace, BucketCredentials, BucketPlace, EventFormat,
    FileFormat, Place, Rolling,
};

use blob::BlobLanes;
use bucket::{Bucket, Replaces};
use per_event::{PerEventBlobs, PerEventFiles, PerEventObjects};
use rolled::{FileStore, RolledFiles};

/// There is something else under the name of an event.
pub const DIFFERENT_CONTENT: &str = "archive:different-content";

/// An event can't have the name that it would get.
pub const NAME: &str = "archive:name";

/// Connects a sink that archives events of `source`: the container is there, or is made; the bucket or the folder can be written to. Made within a
/// tokio runtime with time and I/O.
///
/// # Errors
/// When the container or bucket is not there, the service refuses or can't be reached, or the folder can't be used.
pub async fn connect(
    options: &ArchiveOptions,
    source: &ArchiveSource,
) -> Result<Box<dyn Sink>, ServiceError> {
    let naming = options.naming(source);
    Ok(match (options.files, &options.place) {
        (ArchiveFiles::PerEvent(format), Place::Blob(place)) => {
            let container = open_container(place).await?;
            let lanes = BlobLanes::new(place, options.concurrency, bearer(place).await?)?;
            let contents = content::Contents::new(naming, format);
            Box::new(PerEventBlobs::new(contents, lanes, container, options.concurrency))
        }
        (ArchiveFiles::PerEvent(format), Place::Bucket(place)) => {
            let bucket = Bucket::open(place, Replaces::Nothing).await?;
            let contents = content::Contents::new(naming, format);
            Box::new(PerEventObjects::new(contents, bucket, options.concurrency))
        }
        (ArchiveFiles::PerEvent(format), Place::Folder(folder)) => {
            open_folder(folder).await?;
            let contents = content::Contents::new(naming, format);
            Box::new(PerEventFiles::new(contents, folder, options.concurrency))
        }
        (ArchiveFiles::Rolled(rolling), Place::Blob(place)) => {
            let store = FileStore::Blobs(open_container(place).await?);
            Box::new(RolledFiles::new(naming, rolling, store, options.concurrency))
        }
        (ArchiveFiles::Rolled(rolling), Place::Bucket(place)) => {
            let store = FileStore::Bucket {
                bucket: Bucket::open(place, Replaces::Shorter).await?,
                requests: Arc::new(Semaphore::new(rolled::under_way_max(options.concurrency))),
                memory: place.memory.bytes().try_into().unwrap_or(usize::MAX),
            };
            Box::new(RolledFiles::new(naming, rolling, store, options.concurrency))
        }
        (ArchiveFiles::Rolled(rolling), Place::Folder(folder)) => {
            open_folder(folder).await?;
            let store = FileStore::Folder {
                root: folder.as_path().into(),
                lock: Arc::new(Mutex::new(lock(folder, &source.hub)?)),
            };
            Box::new(RolledFiles::new(naming, rolling, store, options.concurrency))
        }
    })
}

/// Makes a folder if it is not there, and finds out whether it can be written to.
async fn open_folder(folder: &Path) -> Result<(), ServiceError> {
    let path = folder.to_owned();
    let opened = tokio::task::spawn_blocking(move || {
        fs::create_dir_all(&path)?;
        let probe = path.join(format!(".{}.partial", std::process::id()));
        File::create(&probe)?;
        fs::remove_file(&probe)
    });
    let opened = opened.await.unwrap_or_else(|_panicked| Err(ErrorKind::Other.into()));
    opened.map_err(|error| unusable(folder, &error.to_string()))
}

/// Keeps other relays from writing files of many events of the same hub to a folder. They would have the same names, and each would
/// replace what the other has.
fn lock(folder: &Path, hub: &str) -> Result<File, ServiceError> {
    let name = hub.replace(|character: char| !character.is_ascii_alphanumeric(), "-");
    let file = File::create(folder.join(format!(".{name}.lock")));
    let file = file.map_err(|error| unusable(folder, &error.to_string()))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(unusable(
            folder,
            "another relay writes to it; each needs a folder of its own, or a container",
        )),
        Err(TryLockError::Error(error)) => Err(unusable(folder, &error.to_string())),
    }
}

fn unusable(folder: &Path, why: &str) -> ServiceError {
    ServiceError::fatal("archive:folder", format!("{} can't be written to: {why}", folder.display()))
}

/// The tokens for a container that is written to with those of an identity.
async fn bearer(place: &BlobPlace) -> Result<Option<FollowedToken>, ServiceError> {
    Ok(match &place.connection_string.credential {
        StorageCredential::Identity => Some(place.identity.follow(STORAGE_SCOPE).await?),
        StorageCredential::Key(_) | StorageCredential::Signature(_) => None,
    })
}

/// The container, which is there.
async fn open_container(place: &BlobPlace) -> Result<Container, ServiceError> {
    let container = Container::new(&BlobStoreOptions {
        certificate_authority: place.certificate_authority.clone(),
        request_timeout: place.request_timeout,
        identity: place.identity.clone(),
        ..BlobStoreOptions::new(place.connection_string.clone(), place.container.as_str())
    })
    .map_err(|error| of_store(&error))?;
    if place.missing_container == MissingContainer::Create {
        container.create().await.map_err(|error| of_store(&error))?;
    }
    match container.probe().await {
        Ok(()) => Ok(container),
        // A signature that allows to create blobs and not to list them is enough; whether the container is there shows with the first.
        Err(StoreError::Refused { reason }) if reason.contains("AuthorizationPermissionMismatch") => {
            Ok(container)
        }
        Err(error) => Err(of_store(&error)),
    }
}

fn of_store(error: &StoreError) -> ServiceError {
    let condition = match error {
        StoreError::NoContainer { .. } => "ContainerNotFound",
        StoreError::Unavailable { .. } => crate::service::error::UNREACHABLE,
        _ => "archive:refused",
    };
    ServiceError::fatal(condition, words(error))
}

/// What the storage of blobs says, which is no store of checkpoints here.
fn words(error: &StoreError) -> String {
    match error {
        StoreError::Refused { reason } | StoreError::Unavailable { reason } => reason.clone(),
        other => other.to_string(),
    }
}
