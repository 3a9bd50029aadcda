//! Whole blobs: written, read, described, deleted.

use std::sync::Arc;

use access::storage::{StorageLevel, StorageRight};
use hyper::body::Body as _;
use hyper::{Response, StatusCode};
use listen::http::RequestBody;
use units::ByteSize;

use super::BlobFront;
use super::authorize::Granted;
use super::body::ReplyBody;
use super::checksums::{self, Expected, Md5, crc64_text, set_structured_body, wants_structured_body};
use super::http_error::HttpError;
use super::operation::TIER;
use super::pages::{SEQUENCE_NUMBER, new_pages, wanted_properties};
use super::range::ByteRange;
use super::reply::{self, Reply, Shown, md5_text};
use super::request::Request;
use super::tags::wanted_tags;
use super::xml;
use blob_store::{
    AccessTier, Blob, BlobError, BlobKind, Container, ContentReader, DeletedSnapshots, Description, Now,
    PutContent, PutRequest, TierSetting, crc64,
};
use units::md5::md5;

impl BlobFront {
    pub(super) async fn put_blob(
        &self,
        request: &Request,
        body: RequestBody,
        granted: &Granted,
        now: Now,
    ) -> Result<Reply, HttpError> {
        let replacing = granted.writing()?;
        let kind = wanted_kind(request)?;
        let (container, name) = (request.container()?.to_owned(), request.blob()?.to_owned());
        let (conditions, expected) = (request.conditions()?, Expected::of(request)?);
        let mut description = described(request, granted, now)?;
        // Who can't know better sends gigabytes to a container that is not there.
        self.store.container(&container)?;
        if kind != BlobKind::Block {
            if description.tier.is_some() {
                return Err(HttpError::header(TIER));
            }
            let content = match kind {
                BlobKind::Page => new_pages(request)?,
                BlobKind::Block | BlobKind::Append => PutContent::Append,
            };
            // Neither begins with a content.
            if body.size_hint().exact() != Some(0) {
                return Err(HttpError::header("content-length"));
            }
            let put = PutRequest { content, description, conditions, replacing };
            let version = self.run_in(&container, 0, move |container| container.put(&name, put, now)).await?;
            return Ok(reply::written(StatusCode::CREATED, version));
        }
        let structured = expected.structured;
        let arrived = self.bodies.collect(body, ByteSize::from_bytes(u64::MAX), structured).await?;
        let (version, checksums) = self
            .put_verified(container, &arrived, expected, Md5::Always, move |container, content, checksums| {
                let own = &mut description.headers.content_md5;
                if own.is_some() && *own != checksums.md5 {
                    return Ok(Err(HttpError::Checksum));
                }
                own.clone_from(&checksums.md5);
                let content = PutContent::Block(content);
                let put = PutRequest { content, description, conditions, replacing };
                Ok(Ok(container.put(&name, put, now)?))
            })
            .await?;
        let mut reply = reply::written(StatusCode::CREATED, version?);
        checksums.set(reply.headers_mut());
        Ok(reply)
    }

    pub(super) fn properties(
        &self,
        request: &Request,
        granted: &Granted,
        now: Now,
    ) -> Result<Reply, HttpError> {
        granted.need(StorageLevel::Object, &[StorageRight::Read])?;
        let blob = self.found(request)?;
        blob.check_read(&request.conditions()?, now)?;
        let mut reply = reply::empty(StatusCode::OK);
        reply::set_blob(reply.headers_mut(), &blob, &granted.overrides, now, Shown::Whole);
        reply::spell_metadata(&mut reply, &blob.description().metadata);
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
        now: Now,
    ) -> Result<Reply, HttpError> {
        granted.need(StorageLevel::Object, &[StorageRight::Read])?;
        let blob = self.found(request)?;
        blob.check_read(&request.conditions()?, now)?;
        if blob.is_archived() {
            return Err(BlobError::Archived.into());
        }
        let is_structured = wants_structured_body(request)?;
        let summed = Summed::of(request, is_structured)?;
        let length = blob.length();
        let (range, part) = match ByteRange::of(request) {
            None => (None, 0..length),
            Some(range) => {
                let part = range.within(length)?;
                (Some(format!("bytes {}-{}/{length}", part.start, part.end - 1)), part)
            }
        };
        let part_length = part.end - part.start;
        let reader = self.checked(blob.read(part)).await?;
        let mut checksum = None;
        let body = match summed {
            // Of a whole blob it is kept already.
            Some(kind) if range.is_none() => return Err(HttpError::header(kind.header())),
            Some(kind) => {
                let (body, text) = self.summed(reader, part_length, kind).await?;
                checksum = Some((kind.reply_header(), text));
                body
            }
            _ if is_structured => ReplyBody::structured(reader, part_length),
            _ => ReplyBody::content(reader, part_length),
        };
        let mut reply = Response::new(body);
        let headers = reply.headers_mut();
        let shown = if range.is_some() { Shown::Part } else { Shown::Whole };
        reply::set_blob(headers, &blob, &granted.overrides, now, shown);
        if is_structured {
            set_structured_body(headers, part_length);
        }
        if let Some((name, text)) = checksum {
            reply::set(headers, name, &text);
        }
        if let Some(told) = range {
            reply::set(headers, "content-range", &told);
            *reply.status_mut() = StatusCode::PARTIAL_CONTENT;
        }
        reply::spell_metadata(&mut reply, &blob.description().metadata);
        Ok(reply)
    }

    /// Finds the blob or the snapshot that a request is about.
    pub(super) fn found(&self, request: &Request) -> Result<Arc<Blob>, HttpError> {
        let container = self.store.container(request.container()?)?;
        let name = request.blob()?;
        Ok(match request.snapshot()? {
            None => container.blob(name)?,
            Some(time) => container.snapshot(name, time)?,
        })
    }

    /// The reader, once everything that it reads of is known to be what was written.
    async fn checked(&self, reader: ContentReader) -> Result<ContentReader, HttpError> {
        if reader.is_checked() {
            return Ok(reader);
        }
        self.run(0, move |_| {
            reader.check()?;
            Ok(reader)
        })
        .await
    }

    /// A part of a blob with its checksum.
    async fn summed(
        &self,
        reader: ContentReader,
        length: u64,
        kind: Summed,
    ) -> Result<(ReplyBody, String), HttpError> {
        if length > SUMMED_BYTES {
            return Err(HttpError::header(kind.header()));
        }
        self.run(length as usize, move |_| {
            let bytes = reader.read_to_end()?;
            let checksum = kind.text(&bytes);
            Ok((ReplyBody::from(bytes), checksum))
        })
        .await
    }

    pub(super) async fn set_metadata(
        &self,
        request: &Request,
        granted: &Granted,
        now: Now,
    ) -> Result<Reply, HttpError> {
        granted.need(StorageLevel::Object, &[StorageRight::Write])?;
        let (container, name) = (request.container()?, request.blob()?.to_owned());
        let (metadata, conditions) = (request.metadata()?, request.conditions()?);
        let version = self
            .run_in(container, 0, move |container| container.set_metadata(&name, metadata, &conditions, now))
            .await?;
        Ok(reply::written(StatusCode::OK, version))
    }

    pub(super) async fn set_properties(
        &self,
        request: &Request,
        granted: &Granted,
        now: Now,
    ) -> Result<Reply, HttpError> {
        granted.need(StorageLevel::Object, &[StorageRight::Write])?;
        let (container, name) = (request.container()?, request.blob()?.to_owned());
        let (wanted, conditions) = (wanted_properties(request)?, request.conditions()?);
        let (version, sequence_number) = self
            .run_in(container, WORK_OF_COPY, move |container| {
                container.set_properties(&name, wanted, &conditions, now)
            })
            .await?;
        let mut reply = reply::written(StatusCode::OK, version);
        if let Some(number) = sequence_number {
            reply::set(reply.headers_mut(), SEQUENCE_NUMBER, &number.to_string());
        }
        Ok(reply)
    }

    pub(super) async fn set_tier(
        &self,
        request: &Request,
        granted: &Granted,
        now: Now,
    ) -> Result<Reply, HttpError> {
        granted.need(StorageLevel::Object, &[StorageRight::Write])?;
        let (container, name) = (request.container()?, request.blob()?.to_owned());
        let tier = wanted_tier(request, now)?.ok_or(HttpError::MissingHeader { name: TIER })?.tier;
        let (conditions, time) = (request.conditions()?, request.snapshot()?);
        let before = self
            .run_in(container, 0, move |container| match time {
                None => container.set_tier(&name, tier, &conditions, now),
                Some(time) => container.set_snapshot_tier(&name, time, tier, &conditions, now),
            })
            .await?;
        Ok(reply::empty(match before.is_some_and(AccessTier::is_archive) && !tier.is_archive() {
            // In the service it takes hours to make it readable again.
            true => StatusCode::ACCEPTED,
            false => StatusCode::OK,
        }))
    }

    pub(super) async fn create_snapshot(
        &self,
        request: &Request,
        granted: &Granted,
        now: Now,
    ) -> Result<Reply, HttpError> {
        granted.need(StorageLevel::Object, &[StorageRight::Create, StorageRight::Write])?;
        let (container, name) = (request.container()?, request.blob()?.to_owned());
        let (metadata, conditions) = (request.metadata()?, request.conditions()?);
        let (version, time) = self
            .run_in(container, WORK_OF_COPY, move |container| {
                container.create_snapshot(&name, metadata, &conditions, now)
            })
            .await?;
        let mut reply = reply::written(StatusCode::CREATED, version);
        reply::set(reply.headers_mut(), "x-ms-snapshot", &time.to_string());
        Ok(reply)
    }

    pub(super) async fn delete(
        &self,
        request: &Request,
        granted: &Granted,
        now: Now,
    ) -> Result<Reply, HttpError> {
        granted.need(StorageLevel::Object, &[StorageRight::Delete])?;
        let (container, name) = (request.container()?, request.blob()?.to_owned());
        let conditions = request.conditions()?;
        let snapshots = match request.header(DELETED).map(str::to_ascii_lowercase).as_deref() {
            None => DeletedSnapshots::None,
            Some("include") => DeletedSnapshots::Included,
            Some("only") => DeletedSnapshots::Only,
            Some(_) => return Err(HttpError::header(DELETED)),
        };
        let time = request.snapshot()?;
        if time.is_some() && snapshots != DeletedSnapshots::None {
            return Err(HttpError::header(DELETED));
        }
        let delete = move |container: &Container| match time {
            Some(time) => {
                container.snapshot(&name, time)?.check_read(&conditions, now)?;
                container.delete_snapshot(&name, time)
            }
            None => container.delete_with(&name, snapshots, &conditions, now),
        };
        self.run_in(container, 0, delete).await?;
        let mut reply = reply::empty(StatusCode::ACCEPTED);
        // There is no soft delete.
        reply::set(reply.headers_mut(), "x-ms-delete-type-permanent", "true");
        Ok(reply)
    }
}

/// The checksums that a reader may ask for with a part of a blob.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Summed {
    Md5,
    Crc64,
}

impl Summed {
    /// The one that `request` asks for.
    ///
    /// # Errors
    /// It asks for more than one.
    fn of(request: &Request, is_structured: bool) -> Result<Option<Self>, HttpError> {
        let mut asked =
            [Self::Md5, Self::Crc64].into_iter().filter(|kind| request.header(kind.header()) == Some("true"));
        match (asked.next(), asked.next()) {
            (Some(kind), None) if is_structured => Err(HttpError::header(kind.header())),
            (_, Some(second)) => Err(HttpError::header(second.header())),
            (kind, None) => Ok(kind),
        }
    }

    const fn header(self) -> &'static str {
        match self {
            Self::Md5 => "x-ms-range-get-content-md5",
            Self::Crc64 => "x-ms-range-get-content-crc64",
        }
    }

    const fn reply_header(self) -> &'static str {
        match self {
            Self::Md5 => "content-md5",
            Self::Crc64 => checksums::CRC64,
        }
    }

    fn text(self, bytes: &[u8]) -> String {
        match self {
            Self::Md5 => md5_text(md5(bytes)),
            Self::Crc64 => crc64_text(crc64(bytes)),
        }
    }
}

/// Returns the kind of a new blob.
///
/// # Errors
/// The header is missing or names no kind.
pub(super) fn wanted_kind(request: &Request) -> Result<BlobKind, HttpError> {
    let wanted = request.header(BLOB_TYPE).ok_or(HttpError::MissingHeader { name: BLOB_TYPE })?;
    let mut kinds = [BlobKind::Block, BlobKind::Append, BlobKind::Page].into_iter();
    kinds
        .find(|kind| xml::kind_name(*kind).eq_ignore_ascii_case(wanted))
        .ok_or_else(|| HttpError::header(BLOB_TYPE))
}

/// What a request wants to be kept with the blob that it writes.
pub(super) fn described(request: &Request, granted: &Granted, now: Now) -> Result<Description, HttpError> {
    Ok(Description {
        headers: request.content_headers()?,
        metadata: request.metadata()?,
        tags: wanted_tags(request, granted)?,
        tier: wanted_tier(request, now)?,
        copy: None,
    })
}

/// Returns the tier that a request chooses.
///
/// # Errors
/// It is none of a block blob's.
pub(super) fn wanted_tier(request: &Request, now: Now) -> Result<Option<TierSetting>, HttpError> {
    let Some(name) = request.header(TIER) else {
        return Ok(None);
    };
    let tier = AccessTier::ALL.into_iter().find(|tier| tier.name().eq_ignore_ascii_case(name));
    let tier = tier.ok_or_else(|| HttpError::header(TIER))?;
    Ok(Some(TierSetting::new(tier, now.time_of_day)))
}

pub(super) const BLOB_TYPE: &str = "x-ms-blob-type";

/// The header that says which snapshots are deleted.
const DELETED: &str = "x-ms-delete-snapshots";

/// Work of a copy or a snapshot, as much as what is done elsewhere.
pub(super) const WORK_OF_COPY: usize = 1 << 20;

/// The largest part of which a checksum is made, as in the service.
const SUMMED_BYTES: u64 = 4 << 20;
