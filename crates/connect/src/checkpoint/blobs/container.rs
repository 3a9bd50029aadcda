//! The requests of a checkpoint store, on the official client, and what their errors mean.
//!
//! | reply | means |
//! |---|---|
//! | 412; 409 `BlobAlreadyExists` | somebody else has written: the condition is lost |
//! | 404 `BlobNotFound` | there is no such blob: lost, where one was expected |
//! | 404 `ContainerNotFound` | [`StoreError::NoContainer`] |
//! | 500, 503, 408, 429, no connection, no reply in time | [`StoreError::Unavailable`]: to be tried again |
//! | 403 and everything else | [`StoreError::Refused`]: trying again would not help |

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use access::storage::StorageCredential;
use azure_core::error::ErrorKind;
use azure_core::http::headers::{CONTENT_LENGTH, ETAG, HeaderName, Headers, LAST_MODIFIED};
use azure_core::http::policies::Policy;
use azure_core::http::{
    ClientOptions, Etag as HeaderEtag, RequestContent, RetryOptions, StatusCode, Transport, Url,
};
use azure_core::time::{OffsetDateTime, parse_rfc7231};
use azure_storage_blob::models::{
    BlobClientSetMetadataOptions, BlobClientUploadOptions, BlobContainerClientListBlobsOptions,
    BlockBlobClientCommitBlockListOptions, BlockLookupList, ListBlobsIncludeItem,
};
use azure_storage_blob::{BlobContainerClient, BlobContainerClientOptions};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use futures_util::stream::TryStreamExt as _;
use units::md5::Md5;

use super::bearer::BearerPolicy;
use super::metadata::Metadata;
use super::options::BlobStoreOptions;
use super::shared_key::SharedKeyPolicy;
use crate::azure_transport::HyperTransport;
use crate::checkpoint::{ETag, StoreError};
use crate::hyper_client::causes;
use crate::server_clock::ServerClock;

/// A container of blobs.
#[derive(Clone)]
pub(crate) struct Container {
    client: Arc<BlobContainerClient>,
    name: Arc<str>,
    /// The URL without a signature, for messages.
    place: Arc<str>,
    clock: Arc<ServerClock>,
}

/// Under which condition a blob is written.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Condition<'a> {
    /// Whatever is there.
    None,
    /// The blob is not there yet.
    Absent,
    /// The blob is as it was in this writing.
    Unchanged(&'a ETag),
}

/// A blob was written.
#[derive(Clone, Debug)]
pub(super) struct Written {
    pub(super) etag: ETag,
    pub(super) last_modified: SystemTime,
}

/// A blob, without its content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BlobProperties {
    pub(crate) length: u64,
    /// The digest of its content, where the service has it.
    pub(crate) md5: Option<Md5>,
    pub(crate) etag: ETag,
    pub(crate) metadata: Metadata,
}

/// A blob as a listing tells of it.
#[derive(Clone, Debug)]
pub(super) struct ListedBlob {
    pub(super) name: String,
    pub(super) etag: ETag,
    pub(super) last_modified: Option<SystemTime>,
    pub(super) metadata: Metadata,
}

impl Container {
    pub(crate) fn new(options: &BlobStoreOptions) -> Result<Self, StoreError> {
        let endpoint = &options.connection_string.blob_endpoint;
        let place = format!("{endpoint}/{}", options.container);
        let unusable =
            |reason: String| StoreError::Refused { reason: format!("{place} can't be used: {reason}") };
        let mut url = Url::parse(&place).map_err(|error| unusable(error.to_string()))?;
        let mut policies: Vec<Arc<dyn Policy>> = Vec::new();
        match &options.connection_string.credential {
            StorageCredential::Key(key) => {
                policies.push(Arc::new(SharedKeyPolicy::new(key.clone())));
            }
            StorageCredential::Signature(signature) => url.set_query(Some(signature.reveal())),
            StorageCredential::Identity => {
                policies.push(Arc::new(BearerPolicy::new(options.identity.clone())));
            }
        }
        let transport = HyperTransport::new(
            url.scheme() == "https",
            options.certificate_authority.as_deref(),
            options.request_timeout,
        )
        .map_err(unusable)?;
        let clock = Arc::<ServerClock>::default();
        let transport = transport.with_clock(Arc::clone(&clock));
        let client_options = ClientOptions {
            per_try_policies: policies,
            // Those who ask know what may be asked again, and until when.
            retry: RetryOptions::none(),
            transport: Some(Transport::new(Arc::new(transport))),
            ..ClientOptions::default()
        };
        let client = BlobContainerClient::new(
            url,
            None,
            Some(BlobContainerClientOptions { client_options, ..BlobContainerClientOptions::default() }),
        )
        .map_err(|error| unusable(error.to_string()))?;
        Ok(Self {
            client: Arc::new(client),
            name: options.container.as_str().into(),
            place: place.into(),
            clock,
        })
    }

    /// Returns the time by the service's clock, or before its first reply by this machine's.
    pub(crate) fn now(&self) -> SystemTime {
        self.clock.now().unwrap_or_else(SystemTime::now)
    }

    /// Makes the container; it may be there already.
    pub(crate) async fn create(&self) -> Result<(), StoreError> {
        match self.client.create(None).await {
            Ok(_) => Ok(()),
            Err(error) if code(&error) == Some("ContainerAlreadyExists") => Ok(()),
            Err(error) => Err(self.failed(&error)),
        }
    }

    /// Whether the container can be listed.
    pub(crate) async fn probe(&self) -> Result<(), StoreError> {
        let options = BlobContainerClientListBlobsOptions { maxresults: Some(1), ..Default::default() };
        let mut pages =
            self.client.list_blobs(Some(options)).map_err(|error| self.failed(&error))?.into_pages();
        let page = pages.try_next().await;
        page.map(drop).map_err(|error| self.failed(&error))
    }

    /// What is known of a blob, if it is there.
    pub(crate) async fn properties(&self, name: &str) -> Result<Option<BlobProperties>, StoreError> {
        let response = match self.client.blob_client(name).get_properties(None).await {
            Ok(response) => response,
            Err(error) if error.http_status() == Some(StatusCode::NotFound) => return Ok(None),
            Err(error) => return Err(self.failed(&error)),
        };
        let headers = response.headers();
        let metadata = headers.iter().filter_map(|(name, value)| {
            Some((name.as_str().strip_prefix("x-ms-meta-")?.to_owned(), value.as_str().to_owned()))
        });
        let metadata = metadata.collect();
        let length = headers.get_optional_str(&CONTENT_LENGTH).and_then(|text| text.parse().ok());
        let md5 = headers
            .get_optional_str(&HeaderName::from_static("content-md5"))
            .and_then(|text| STANDARD.decode(text).ok());
        Ok(Some(BlobProperties {
            length: length.unwrap_or(u64::MAX),
            md5: md5.and_then(|bytes| bytes.try_into().ok()),
            etag: bare(headers.get_optional_str(&ETAG).unwrap_or_default()),
            metadata,
        }))
    }

    /// Sends a block of a blob, which nobody sees before it is in a [list](Self::commit).
    pub(crate) async fn stage(&self, name: &str, block: &[u8], content: Bytes) -> Result<(), StoreError> {
        let length = content.len() as u64;
        let blob = self.client.blob_client(name).block_blob_client();
        let staged = blob.stage_block(block, length, content.into(), None).await;
        staged.map(drop).map_err(|error| self.failed(&error))
    }

    /// Makes a blob of blocks; nothing happens if the condition is lost, and `false` comes back.
    pub(crate) async fn commit(
        &self,
        name: &str,
        blocks: Vec<Vec<u8>>,
        metadata: Metadata,
        content_type: &str,
        condition: Condition<'_>,
    ) -> Result<bool, StoreError> {
        let (if_match, if_none_match) = condition.headers();
        let options = BlockBlobClientCommitBlockListOptions {
            if_match,
            if_none_match,
            metadata: Some(metadata),
            blob_content_type: Some(content_type.to_owned()),
            ..Default::default()
        };
        let list = BlockLookupList { latest: Some(blocks), ..Default::default() };
        let list = list.try_into().map_err(|error| self.failed(&error))?;
        let blob = self.client.blob_client(name).block_blob_client();
        match blob.commit_block_list(list, Some(options)).await {
            Ok(_) => Ok(true),
            Err(error) => self.lost(&error).map(|_| false),
        }
    }

    /// All blobs whose names begin so, in the service's order.
    pub(super) async fn list(&self, prefix: &str) -> Result<Vec<ListedBlob>, StoreError> {
        let options = BlobContainerClientListBlobsOptions {
            include: Some(vec![ListBlobsIncludeItem::Metadata]),
            // A parameter without a value is signed by some, and not by others.
            prefix: Some(prefix.to_owned()).filter(|prefix| !prefix.is_empty()),
            ..Default::default()
        };
        let mut pages =
            self.client.list_blobs(Some(options)).map_err(|error| self.failed(&error))?.into_pages();
        let mut listed = Vec::new();
        while let Some(page) = pages.try_next().await.map_err(|error| self.failed(&error))? {
            let page = page.into_model().map_err(|error| self.failed(&error))?;
            listed.extend(page.blob_items.into_iter().filter_map(|blob| {
                let properties = blob.properties?;
                Some(ListedBlob {
                    name: blob.name?,
                    etag: bare(properties.etag?.as_ref()),
                    last_modified: properties.last_modified.map(end_of_second),
                    metadata: blob.metadata.and_then(|it| it.values).unwrap_or_default(),
                })
            }));
        }
        Ok(listed)
    }

    /// Replaces the metadata of a blob; none if the condition is lost or the blob is not there.
    pub(super) async fn set_metadata(
        &self,
        name: &str,
        metadata: Metadata,
        condition: Condition<'_>,
    ) -> Result<Option<Written>, StoreError> {
        let (if_match, if_none_match) = condition.headers();
        let options = BlobClientSetMetadataOptions { if_match, if_none_match, ..Default::default() };
        let blob = self.client.blob_client(name);
        match blob.set_metadata(&metadata, Some(options)).await {
            Ok(response) => self.written(response.headers()).map(Some),
            Err(error) => self.lost(&error),
        }
    }

    /// Writes an empty blob; none if the condition is lost.
    pub(super) async fn put(
        &self,
        name: &str,
        metadata: Metadata,
        condition: Condition<'_>,
    ) -> Result<Option<Written>, StoreError> {
        let (if_match, if_none_match) = condition.headers();
        let options = BlobClientUploadOptions {
            if_match,
            if_none_match,
            metadata: Some(metadata),
            ..Default::default()
        };
        let blob = self.client.blob_client(name);
        match blob.upload(RequestContent::from(Vec::new()), Some(options)).await {
            Ok(result) => self.written(result.raw_response.headers()).map(Some),
            Err(error) => self.lost(&error),
        }
    }

    fn written(&self, headers: &Headers) -> Result<Written, StoreError> {
        let etag = headers.get_optional_str(&ETAG);
        let last_modified = headers.get_optional_str(&LAST_MODIFIED);
        let last_modified = last_modified.and_then(|text| parse_rfc7231(text).ok());
        match (etag, last_modified) {
            (Some(etag), Some(time)) => Ok(Written { etag: bare(etag), last_modified: end_of_second(time) }),
            _ => Err(StoreError::Refused {
                reason: format!("{}: the reply to a write has no ETag or time", self.place),
            }),
        }
    }

    /// Whether an error says no more than that others were faster.
    fn lost(&self, error: &azure_core::Error) -> Result<Option<Written>, StoreError> {
        let status = error.http_status();
        match (status, code(error)) {
            (Some(StatusCode::PreconditionFailed), _)
            | (Some(StatusCode::Conflict), Some("BlobAlreadyExists"))
            | (Some(StatusCode::NotFound), Some("BlobNotFound")) => Ok(None),
            _ => Err(self.failed(error)),
        }
    }

    fn failed(&self, error: &azure_core::Error) -> StoreError {
        let place = &self.place;
        // Signatures travel in URLs, which none of these errors shows.
        let Some(status) = error.http_status() else {
            let reason = format!("{place}: {}", causes(error));
            return match error.kind() {
                ErrorKind::Connection | ErrorKind::Io => StoreError::Unavailable { reason },
                _ => StoreError::Refused { reason },
            };
        };
        let code = code(error).unwrap_or("no reason given");
        let reason = format!("{place}: {} {code}", u16::from(status));
        match (status, code) {
            (StatusCode::NotFound, "ContainerNotFound") => StoreError::NoContainer {
                container: self.name.to_string(),
                place: place.to_string(),
            },
            (StatusCode::Forbidden, "AuthenticationFailed") => StoreError::Refused {
                reason: format!("{reason}: the account key or the signature is wrong, or expired"),
            },
            (StatusCode::Unauthorized, _) => StoreError::Refused {
                reason: format!("{reason}: the account does not accept the token of this identity"),
            },
            (StatusCode::Forbidden, "AuthorizationPermissionMismatch") => StoreError::Refused {
                reason: format!("{reason}: the identity needs the role Storage Blob Data Contributor there, or the signature more rights"),
            },
            (StatusCode::RequestTimeout | StatusCode::TooManyRequests, _)
            // A container that is being deleted is free again after some seconds.
            | (StatusCode::Conflict, "ContainerBeingDeleted") => {
                StoreError::Unavailable { reason }
            }
            _ if u16::from(status) >= 500 => StoreError::Unavailable { reason },
            _ => StoreError::Refused { reason },
        }
    }
}

impl std::fmt::Debug for Container {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Container").field(&self.place).finish()
    }
}

impl Condition<'_> {
    /// `If-Match` and `If-None-Match`.
    fn headers(self) -> (Option<HeaderEtag>, Option<HeaderEtag>) {
        match self {
            Condition::None => (None, None),
            Condition::Absent => (None, Some("*".into())),
            Condition::Unchanged(ETag(etag)) => (Some(format!("\"{etag}\"").into()), None),
        }
    }
}

fn code(error: &azure_core::Error) -> Option<&str> {
    match error.kind() {
        ErrorKind::HttpResponse { error_code, .. } => error_code.as_deref(),
        _ => None,
    }
}

/// An ETag has quotes in headers and none in listings.
fn bare(etag: &str) -> ETag {
    ETag(etag.trim_matches('"').to_owned())
}

/// Services tell whole seconds, rounded down. Nobody may see a claim expire before its owner does, so the second counts to its
/// end.
fn end_of_second(time: OffsetDateTime) -> SystemTime {
    SystemTime::from(time) + Duration::from_secs(1)
}
