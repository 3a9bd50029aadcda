//! Files of many events in storage that others may write to as well: a condition decides who writes, and metadata tells the events of what is
//! there.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use super::kept::KeptBlocks;
use super::store::{NewFile, Span, different, on_another_thread};
use crate::archive::bucket::{self, About, Bucket};
use crate::archive::words;
use crate::checkpoint::blobs::{self, Container};
use crate::checkpoint::{ETag, StoreError};
use crate::service::ServiceError;
use crate::service::error::LOST;
use crate::sink::{ErrorClass, SendError};

/// What has a name, a content and metadata in storage that is shared, where a condition decides who writes it.
pub(super) trait Entry {
    /// What a change of it changes.
    type Version: Send + Sync;

    /// Writes it, unless there is one, or where there is one of this version; says whether it did.
    fn write(&self, before: Option<&Self::Version>) -> impl Future<Output = Result<bool, SendError>> + Send;

    /// The metadata and the version of what is there.
    fn look(&self) -> impl Future<Output = Result<Option<(Metadata, Self::Version)>, SendError>> + Send;
}

type Metadata = HashMap<String, String>;

/// Writes a file, unless the one that is there has all of its events, or begins with another one.
pub(super) async fn settle(entry: &impl Entry, file: &NewFile, span: Span) -> Result<(), SendError> {
    let mut before = None;
    for _ in 0..COMMITS_MAX {
        if entry.write(before.as_ref()).await? {
            return Ok(());
        }
        let Some((metadata, version)) = entry.look().await? else {
            before = None;
            continue;
        };
        before = Some(version);
        let number = |name: &str| metadata.get(name).and_then(|text| text.parse::<i64>().ok());
        if (number(FIRST), number(ENQUEUED)) != (Some(span.first), Some(span.enqueued_ms)) {
            return Err(different(&file.name));
        }
        if number(LAST).is_some_and(|last| last >= span.last) {
            return Ok(());
        }
    }
    Err(SendError {
        class: ErrorClass::Retryable,
        condition: "archive:contended".to_owned(),
        description: format!("others write `{}`, too", file.name),
    })
}

/// A blob that is made of blocks which are there.
pub(super) struct BlobOfBlocks<'a> {
    pub(super) container: &'a Container,
    pub(super) file: &'a NewFile,
    pub(super) blocks: u32,
    pub(super) span: Span,
}

impl Entry for BlobOfBlocks<'_> {
    type Version = ETag;

    async fn write(&self, before: Option<&ETag>) -> Result<bool, SendError> {
        let Self { container, file, .. } = self;
        let condition = before.map_or(blobs::Condition::Absent, blobs::Condition::Unchanged);
        let list = (0..self.blocks).map(|index| file.block(index)).collect();
        let metadata = self.span.metadata().map(|(name, value)| (name.to_owned(), value)).into();
        let committed = container.commit(&file.name, list, metadata, file.content_type(), condition).await;
        committed.map_err(|error| of_store(&error))
    }

    async fn look(&self) -> Result<Option<(Metadata, ETag)>, SendError> {
        let there = self.container.properties(&self.file.name).await.map_err(|error| of_store(&error))?;
        Ok(there.map(|blob| (blob.metadata, blob.etag)))
    }
}

/// An object that is made of blocks which are kept.
pub(super) struct ObjectOfBlocks<'a> {
    pub(super) bucket: &'a Bucket,
    pub(super) file: &'a NewFile,
    pub(super) kept: &'a Arc<KeptBlocks>,
    pub(super) span: Span,
}

impl Entry for ObjectOfBlocks<'_> {
    type Version = bucket::Version;

    async fn write(&self, before: Option<&bucket::Version>) -> Result<bool, SendError> {
        let (bucket, name, kept) = (self.bucket.clone(), self.file.name.clone(), Arc::clone(self.kept));
        let condition = match before {
            None => bucket::Condition::Absent,
            Some(version) => bucket::Condition::Unchanged(version.clone()),
        };
        let about = About { content_type: self.file.content_type(), metadata: self.span.metadata().into() };
        // Signing takes a look at each byte, for which the thread of the engine has no time.
        let put = async move { bucket.put(&name, kept.payload(), &about, condition).await };
        match begun_elsewhere(Box::pin(put)).await {
            Some(written) => written.map_err(SendError::from),
            None => Err(ServiceError::of_connection(LOST, "the process ends").into()),
        }
    }

    async fn look(&self) -> Result<Option<(Metadata, bucket::Version)>, SendError> {
        let there = self.bucket.look(&self.file.name).await?;
        Ok(there.map(|object| (object.metadata, object.version)))
    }
}

impl Span {
    /// The events of a file as the metadata of a blob or an object says them.
    fn metadata(&self) -> [(&'static str, String); 4] {
        [
            (FIRST, self.first.to_string()),
            (LAST, self.last.to_string()),
            (COUNT, self.count.to_string()),
            (ENQUEUED, self.enqueued_ms.to_string()),
        ]
    }
}

/// Begins what computes for long before it waits for the first time on a thread that has the time, and goes on with it here.
async fn begun_elsewhere<T: Send + 'static>(mut work: Pin<Box<dyn Future<Output = T> + Send>>) -> Option<T> {
    let begun = on_another_thread(move || {
        let first = work.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        (work, first)
    });
    match begun.await? {
        (_, Poll::Ready(output)) => Some(output),
        (work, Poll::Pending) => Some(work.await),
    }
}

pub(super) fn of_store(error: &StoreError) -> SendError {
    let (class, condition) = match error {
        StoreError::Unavailable { .. } => (ErrorClass::Retryable, "archive:blob"),
        StoreError::NoContainer { .. } => (ErrorClass::Fatal, NO_CONTAINER),
        _ => (ErrorClass::Fatal, "archive:blob"),
    };
    SendError { class, condition: condition.to_owned(), description: words(error) }
}

/// The container is gone, and with it all that is to be stored.
pub(super) const NO_CONTAINER: &str = "ContainerNotFound";

/// Metadata of blobs and objects.
const FIRST: &str = "first";
const LAST: &str = "last";
const COUNT: &str = "count";
const ENQUEUED: &str = "enqueued";

/// Each time somebody else was faster.
const COMMITS_MAX: u32 = 5;
