//! Whole blobs: written, read, described, deleted.

use std::ops::Range;
use std::time::SystemTime;

use access::storage::{StorageLevel, StorageRight};
use bytes::Bytes;
use hyper::body::Incoming;
use hyper::{Response, StatusCode};
use units::ByteSize;

use super::BlobFront;
use super::authorize::Granted;
use super::body::ReplyBody;
use super::refusal::Refusal;
use super::reply::{self, Reply, md5_text};
use super::request::Request;
use crate::blob::{BlobError, BlobKind, Description, PutRequest, md5};

impl BlobFront {
    pub(super) async fn put_blob(
        &self,
        request: &Request,
        body: Incoming,
        granted: &Granted,
        now: SystemTime,
    ) -> Result<Reply, Refusal> {
        let replacing = granted.writing()?;
        let kind = match request.header("x-ms-blob-type") {
            Some("BlockBlob") => BlobKind::Block,
            Some("AppendBlob") => BlobKind::Append,
            Some("PageBlob") => return Err(Refusal::NotImplemented),
            Some(_) => return Err(Refusal::header("x-ms-blob-type")),
            None => {
                return Err(Refusal::MissingHeader {
                    name: "x-ms-blob-type",
                });
            }
        };
        if request.header("x-ms-copy-source").is_some() {
            return Err(Refusal::NotImplemented);
        }
        let (container, name) = (request.container()?.to_owned(), request.blob()?.to_owned());
        let conditions = request.conditions()?;
        let mut description = described(request)?;
        let most = match kind {
            BlobKind::Block => ByteSize::from_bytes(u64::MAX),
            // It begins empty.
            BlobKind::Append => ByteSize::from_bytes(0),
        };
        // Who can't know better sends gigabytes to a container that is not there.
        self.store.container(&container)?;
        let arrived = self.bodies.collect(body, most).await?;
        let content = arrived.bytes.clone();
        let checksum = request.header("content-md5").map(str::to_owned);
        let (version, checksum) = self
            .run(content.len(), move |store| {
                let computed = md5_text(md5(&content));
                if checksum.is_some_and(|checksum| checksum != computed) {
                    return Ok(Err(Refusal::Checksum));
                }
                if kind == BlobKind::Block {
                    let own = &mut description.headers.content_md5;
                    own.get_or_insert_with(|| computed.clone());
                }
                let put = PutRequest {
                    kind,
                    content,
                    description,
                    conditions,
                    replacing,
                };
                let version = store.container(&container)?.put(&name, put, now)?;
                Ok(Ok((version, computed)))
            })
            .await??;
        let mut reply = reply::written(StatusCode::CREATED, version);
        reply::set(reply.headers_mut(), "content-md5", &checksum);
        Ok(reply)
    }

    pub(super) fn properties(
        &self,
        request: &Request,
        granted: &Granted,
    ) -> Result<Reply, Refusal> {
        granted.need(StorageLevel::Object, &[StorageRight::Read])?;
        let container = self.store.container(request.container()?)?;
        let blob = container.blob(request.blob()?)?;
        request.conditions()?.check_read(blob.version())?;
        let mut reply = reply::empty(StatusCode::OK);
        reply::set_blob(reply.headers_mut(), &blob, &granted.overrides, false);
        // Clients take it from here; that nothing follows goes without saying.
        if *request.method() == hyper::Method::HEAD {
            let length = blob.length().to_string();
            reply::set(reply.headers_mut(), "content-length", &length);
        }
        Ok(reply)
    }

    pub(super) async fn read(
        &self,
        request: &Request,
        granted: &Granted,
    ) -> Result<Reply, Refusal> {
        granted.need(StorageLevel::Object, &[StorageRight::Read])?;
        let container = self.store.container(request.container()?)?;
        let blob = container.blob(request.blob()?)?;
        request.conditions()?.check_read(blob.version())?;
        let wanted = match (request.header("x-ms-range"), request.header("range")) {
            (Some(own), _) => Some(range(own).ok_or(Refusal::header("x-ms-range"))?),
            // One that can't be read does not count, as the standard has it.
            (None, Some(plain)) => range(plain),
            (None, None) => None,
        };
        let length = blob.length();
        let Some((first, last)) = wanted else {
            let mut reply = Response::new(ReplyBody::content(blob.read(0..length), length));
            reply::set_blob(reply.headers_mut(), &blob, &granted.overrides, false);
            return Ok(reply);
        };
        if first >= length {
            return Err(BlobError::InvalidRange { length }.into());
        }
        let last = last.map_or(length - 1, |last| last.min(length - 1));
        let part = first..last + 1;
        let wants_checksum = request.header("x-ms-range-get-content-md5") == Some("true");
        let (body, checksum) = match wants_checksum {
            true => self.summed(blob.clone(), part.clone()).await?,
            false => {
                let body = ReplyBody::content(blob.read(part.clone()), part.end - part.start);
                (body, None)
            }
        };
        let mut reply = Response::new(body);
        *reply.status_mut() = StatusCode::PARTIAL_CONTENT;
        let headers = reply.headers_mut();
        reply::set_blob(headers, &blob, &granted.overrides, true);
        let told = format!("bytes {first}-{last}/{length}");
        reply::set(headers, "content-range", &told);
        if let Some(checksum) = checksum {
            reply::set(headers, "content-md5", &checksum);
        }
        Ok(reply)
    }

    /// A part of a blob with its checksum.
    async fn summed(
        &self,
        blob: std::sync::Arc<crate::blob::Blob>,
        part: Range<u64>,
    ) -> Result<(ReplyBody, Option<String>), Refusal> {
        let length = part.end - part.start;
        if length > SUMMED_BYTES {
            return Err(Refusal::header("x-ms-range-get-content-md5"));
        }
        self.run(length as usize, move |_| {
            let mut reader = blob.read(part);
            let mut bytes = Vec::with_capacity(length as usize);
            while let Some(chunk) = reader.next_chunk(usize::MAX)? {
                bytes.extend_from_slice(&chunk);
            }
            let checksum = md5_text(md5(&bytes));
            Ok((ReplyBody::from(Bytes::from(bytes)), Some(checksum)))
        })
        .await
    }

    pub(super) async fn set_metadata(
        &self,
        request: &Request,
        granted: &Granted,
        now: SystemTime,
    ) -> Result<Reply, Refusal> {
        granted.need(StorageLevel::Object, &[StorageRight::Write])?;
        let (container, name) = (request.container()?, request.blob()?.to_owned());
        let (metadata, conditions) = (request.metadata()?, request.conditions()?);
        let version = self
            .run_in(container, 0, move |container| {
                container.set_metadata(&name, metadata, &conditions, now)
            })
            .await?;
        Ok(reply::written(StatusCode::OK, version))
    }

    pub(super) async fn set_properties(
        &self,
        request: &Request,
        granted: &Granted,
        now: SystemTime,
    ) -> Result<Reply, Refusal> {
        granted.need(StorageLevel::Object, &[StorageRight::Write])?;
        let (container, name) = (request.container()?, request.blob()?.to_owned());
        let (headers, conditions) = (request.content_headers(), request.conditions()?);
        let version = self
            .run_in(container, 0, move |container| {
                container.set_headers(&name, headers, &conditions, now)
            })
            .await?;
        Ok(reply::written(StatusCode::OK, version))
    }

    pub(super) async fn delete(
        &self,
        request: &Request,
        granted: &Granted,
    ) -> Result<Reply, Refusal> {
        granted.need(StorageLevel::Object, &[StorageRight::Delete])?;
        if request.header("x-ms-delete-snapshots") == Some("only") {
            return Err(Refusal::NotImplemented);
        }
        let (container, name) = (request.container()?, request.blob()?.to_owned());
        let conditions = request.conditions()?;
        self.run_in(container, 0, move |container| {
            container.delete(&name, &conditions)
        })
        .await?;
        Ok(reply::empty(StatusCode::ACCEPTED))
    }
}

/// What a request wants to be kept with the blob that it writes.
pub(super) fn described(request: &Request) -> Result<Description, Refusal> {
    Ok(Description {
        headers: request.content_headers(),
        metadata: request.metadata()?,
    })
}

/// The first byte of a range, and the last one if it has one: `bytes=a-b`, `bytes=a-`.
fn range(text: &str) -> Option<(u64, Option<u64>)> {
    let (first, last) = text.trim().strip_prefix("bytes=")?.split_once('-')?;
    let number = |text: &str| {
        let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        is_number.then(|| text.parse::<u64>().ok())?
    };
    let first = number(first)?;
    match last {
        "" => Some((first, None)),
        last => number(last)
            .filter(|last| *last >= first)
            .map(|last| (first, Some(last))),
    }
}

/// The largest part of which a checksum is made, as in the service.
const SUMMED_BYTES: u64 = 4 << 20;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn ranges_come_back(first in any::<u64>(), more in 0_u64..1000) {
            let last = first.saturating_add(more);
            prop_assert_eq!(range(&format!("bytes={first}-{last}")), Some((first, Some(last))));
            prop_assert_eq!(range(&format!("bytes={first}-")), Some((first, None)));
        }

        #[test]
        fn nothing_else_is_one(text in "(bytes=)?[0-9]{0,3}-?[0-9+a]{0,22}-?") {
            if let Some((first, last)) = range(&text) {
                let end = last.map(|last| last.to_string()).unwrap_or_default();
                prop_assert!(text.starts_with("bytes="));
                prop_assert!(last.is_none_or(|last| last >= first));
                let (_, written) = text.split_once('-').unwrap();
                prop_assert_eq!(written.trim_start_matches('0'), end.trim_start_matches('0'));
            }
        }
    }
}
