//! Blobs in pieces: of blocks, and by appending.

use access::storage::{StorageLevel, StorageRight};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hyper::StatusCode;
use listen::http::RequestBody;
use units::ByteSize;

use super::BlobFront;
use super::authorize::Granted;
use super::blobs::described;
use super::checksums::{Checksums, Expected, Md5};
use super::http_error::HttpError;
use super::pages::CONTENT_LENGTH;
use super::reply::{self, Reply};
use super::request::Request;
use super::xml;
use blob_store::{AppendRequest, Appended, BlobLimits, Conditions, Now};

impl BlobFront {
    pub(super) async fn put_block(
        &self,
        request: &Request,
        body: RequestBody,
        granted: &Granted,
        now: Now,
    ) -> Result<Reply, HttpError> {
        granted.writing()?;
        let (container, name) = (request.container()?.to_owned(), request.blob()?.to_owned());
        let id = block_id(request)?;
        let lease = request.lease_id("x-ms-lease-id")?;
        let expected = Expected::of(request)?;
        self.store.container(&container)?;
        let whole = ByteSize::from_bytes(u64::MAX);
        let structured = expected.structured;
        let arrived = self.bodies.collect(body, whole, structured).await?;
        let ((), checksums) = self
            .put_verified(container, &arrived, expected, Md5::WhenGiven, move |container, content, _| {
                container.put_block(&name, &id, content, lease, now)
            })
            .await?;
        let mut reply = reply::empty(StatusCode::CREATED);
        let headers = reply.headers_mut();
        checksums.set(headers);
        reply::set(headers, "x-ms-request-server-encrypted", "true");
        Ok(reply)
    }

    pub(super) async fn put_block_list(
        &self,
        request: &Request,
        body: RequestBody,
        granted: &Granted,
        now: Now,
    ) -> Result<Reply, HttpError> {
        let replacing = granted.writing()?;
        let (container, name) = (request.container()?, request.blob()?.to_owned());
        let conditions = request.conditions()?;
        let mut description = described(request, granted, now)?;
        // The plain headers are those of the list.
        let own = |name| request.header(name).filter(|it| !it.is_empty());
        description.headers.content_type = own("x-ms-blob-content-type").map(str::to_owned);
        description.headers.content_encoding = own("x-ms-blob-content-encoding").map(str::to_owned);
        description.headers.content_language = own("x-ms-blob-content-language").map(str::to_owned);
        let arrived = self.bodies.collect(body, ByteSize::from_mebibytes(8), None).await?;
        let (expected, list) = (Expected::of(request)?, arrived.bytes.clone());
        let put = self.run_in(container, list.len().saturating_mul(WORK_PER_BYTE), move |container| {
            let checksums = match expected.verify(&list, None, Md5::WhenGiven) {
                Ok(checksums) => checksums,
                Err(error) => return Ok(Err(error)),
            };
            let Some(list) = xml::read_block_list(&list, BlobLimits::default().blocks + 1) else {
                return Ok(Err(HttpError::Xml { expected: "a block list" }));
            };
            let version = container.put_block_list(&name, &list, description, &conditions, replacing, now)?;
            Ok(Ok((version, checksums)))
        });
        let (version, checksums) = put.await??;
        let mut reply = reply::written(StatusCode::CREATED, version);
        checksums.set(reply.headers_mut());
        Ok(reply)
    }

    pub(super) async fn block_list(
        &self,
        request: &Request,
        granted: &Granted,
        now: Now,
    ) -> Result<Reply, HttpError> {
        granted.need(StorageLevel::Object, &[StorageRight::Read])?;
        let kind = request.parameter("blocklisttype").unwrap_or("committed");
        let (committed, uncommitted) = match kind.to_ascii_lowercase().as_str() {
            "committed" => (true, false),
            "uncommitted" => (false, true),
            "all" => (true, true),
            _ => {
                return Err(HttpError::Parameter { name: "blocklisttype" });
            }
        };
        let (name, conditions) = (request.blob()?.to_owned(), request.conditions()?);
        let (lease, time) = (conditions.lease, request.snapshot()?);
        let listed = self.run_in(request.container()?, ALL_BLOCKS, move |container| {
            let lists = match time {
                None => container.block_lists(&name, lease, now)?,
                Some(time) => container.snapshot(&name, time)?.block_lists()?,
            };
            Ok((xml::block_lists(&lists, committed, uncommitted), lists.blob))
        });
        let (document, blob) = listed.await?;
        let mut reply = reply::document(document);
        let headers = reply.headers_mut();
        if let Some((version, _)) = blob {
            conditions.check_read(version)?;
            reply::set_version(headers, version);
        }
        let length = blob.map_or(0, |(_, length)| length);
        reply::set(headers, CONTENT_LENGTH, &length.to_string());
        Ok(reply)
    }

    pub(super) async fn append(
        &self,
        request: &Request,
        body: RequestBody,
        granted: &Granted,
        now: Now,
    ) -> Result<Reply, HttpError> {
        granted.need(StorageLevel::Object, &[StorageRight::Add, StorageRight::Write])?;
        let (container, name) = (request.container()?.to_owned(), request.blob()?.to_owned());
        let (conditions, position, maximum_length) = append_conditions(request)?;
        self.store.container(&container)?.blob(&name)?;
        let expected = Expected::of(request)?;
        let structured = expected.structured;
        let arrived = self.bodies.collect(body, APPENDED, structured).await?;
        if arrived.bytes.is_empty() {
            return Err(HttpError::header("content-length"));
        }
        let (done, checksums) = self
            .put_verified(container, &arrived, expected, Md5::WhenGiven, move |container, content, _| {
                container.append(&name, AppendRequest { content, position, maximum_length, conditions }, now)
            })
            .await?;
        Ok(appended(&done, &checksums))
    }
}

/// The id of the block that a request is about.
///
/// # Errors
/// There is none, or it is not in base64.
pub(super) fn block_id(request: &Request) -> Result<String, HttpError> {
    let name = "blockid";
    let id = request.parameter(name).filter(|id| STANDARD.decode(id).is_ok());
    id.map(str::to_owned).ok_or(HttpError::Parameter { name })
}

/// The conditions of appending: those of all operations, where the blob must end, and how long it may become.
///
/// # Errors
/// One can't be read.
pub(super) fn append_conditions(
    request: &Request,
) -> Result<(Conditions, Option<u64>, Option<u64>), HttpError> {
    let position = request.number("x-ms-blob-condition-appendpos")?;
    Ok((request.conditions()?, position, request.number("x-ms-blob-condition-maxsize")?))
}

/// The reply to what was appended.
pub(super) fn appended(done: &Appended, checksums: &Checksums) -> Reply {
    let mut reply = reply::written(StatusCode::CREATED, done.version);
    let headers = reply.headers_mut();
    reply::set(headers, "x-ms-blob-append-offset", &done.offset.to_string());
    reply::set(headers, "x-ms-blob-committed-block-count", &done.blocks.to_string());
    checksums.set(headers);
    reply
}

/// The most that is appended at once, as in the service.
const APPENDED: ByteSize = ByteSize::from_mebibytes(100);

/// Work of a list of blocks, compared with that of its bytes.
const WORK_PER_BYTE: usize = 16;

/// Bytes of a list of all blocks that a blob may have.
const ALL_BLOCKS: usize = 16 * 1024 * 1024;
