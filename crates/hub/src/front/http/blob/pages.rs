//! Operations on page blobs.

use std::ops::Range;

use access::storage::{StorageLevel, StorageRight};
use hyper::StatusCode;
use hyper::body::Body as _;
use listen::http::RequestBody;
use units::ByteSize;

use super::BlobFront;
use super::authorize::Granted;
use super::blobs::WORK_OF_COPY;
use super::checksums::{Checksums, Expected, Md5};
use super::http_error::HttpError;
use super::range::{ByteRange, RANGE, range_header};
use super::reply::{self, Reply};
use super::request::Request;
use super::xml;
use blob_store::{
    BlobError, BlobKind, Conditions, Now, PAGE_BLOB_BYTES, PAGE_BYTES, PageChange, PageRequest,
    PropertiesRequest, PutContent, SequenceAction, SequenceConditions, SnapshotTime, Version, is_of_pages,
};

impl BlobFront {
    pub(super) async fn put_page(
        &self,
        request: &Request,
        body: RequestBody,
        granted: &Granted,
        now: Now,
    ) -> Result<Reply, HttpError> {
        granted.need(StorageLevel::Object, &[StorageRight::Write])?;
        let (container, name) = (request.container()?.to_owned(), request.blob()?.to_owned());
        let asked = Asked::of(request)?;
        let blob = self.store.container(&container)?.blob(&name)?;
        if blob.kind() == BlobKind::Page && asked.range.end > blob.length() {
            return Err(BlobError::InvalidPageRange.into());
        }
        if asked.write == Write::Clear {
            if body.size_hint().exact() != Some(0) {
                return Err(HttpError::header("content-length"));
            }
            let clear = asked.request(PageChange::Clear);
            let done = self
                .run_in(&container, WORK_OF_COPY, move |container| container.write_pages(&name, clear, now))
                .await?;
            return Ok(written(done, None));
        }
        let expected = Expected::of(request)?;
        let structured = expected.structured;
        let arrived = self.bodies.collect(body, WRITTEN, structured).await?;
        if arrived.bytes.len() as u64 != asked.range.end - asked.range.start {
            return Err(HttpError::header("content-length"));
        }
        let (done, checksums) = self
            .put_verified(container, &arrived, expected, Md5::WhenGiven, move |container, content, _| {
                container.write_pages(&name, asked.request(PageChange::Update(content)), now)
            })
            .await?;
        Ok(written(done, Some(&checksums)))
    }

    /// Writes pages with a range of another blob.
    pub(super) async fn put_page_from_url(
        &self,
        request: &Request,
        granted: &Granted,
        now: Now,
    ) -> Result<Reply, HttpError> {
        granted.need(StorageLevel::Object, &[StorageRight::Write])?;
        let (container, name) = (request.container()?.to_owned(), request.blob()?.to_owned());
        let asked = Asked::of(request)?;
        if asked.write == Write::Clear {
            return Err(HttpError::header(PAGE_WRITE));
        }
        let (done, checksums) = self
            .with_part(request, granted, now, container, move |container, content| {
                container.write_pages(&name, asked.request(PageChange::Update(content)), now)
            })
            .await?;
        Ok(written(done, Some(&checksums)))
    }

    pub(super) async fn page_ranges(
        &self,
        request: &Request,
        granted: &Granted,
        now: Now,
    ) -> Result<Reply, HttpError> {
        granted.need(StorageLevel::Object, &[StorageRight::Read])?;
        let blob = self.found(request)?;
        blob.check_read(&request.conditions()?, now)?;
        let since = self.previous_snapshot(request)?;
        if let (Some(time), Some(since)) = (blob.snapshot(), since)
            && since > time
        {
            return Err(HttpError::PreviousSnapshotNewer);
        }
        let length = blob.length();
        let part = ByteRange::of(request).map_or(Ok(0..length), |range| range.within(length))?;
        // A range in the middle of pages is extended to whole ones.
        let part = part.start / PAGE_BYTES * PAGE_BYTES..part.end.next_multiple_of(PAGE_BYTES).min(length);
        let start = match request.parameter("marker") {
            None => part.start,
            Some(marker) => marker.parse().map_err(|_other| HttpError::Parameter { name: "marker" })?,
        };
        let maximum = match request.parameter("maxresults") {
            None => usize::MAX,
            Some(text) => match text.parse() {
                Ok(maximum) if (1..=RANGES_MAX).contains(&maximum) => maximum,
                _ => return Err(HttpError::Parameter { name: "maxresults" }),
            },
        };
        let version = blob.version();
        let document = self
            .run(WORK_OF_COPY, move |_| {
                let mut ranges = blob.page_ranges(start.max(part.start)..part.end, since)?;
                let next = ranges.get(maximum).map(|next| next.range.start);
                ranges.truncate(maximum);
                Ok(xml::page_ranges(&ranges, next))
            })
            .await?;
        let mut reply = reply::document(document);
        let headers = reply.headers_mut();
        reply::set_version(headers, version);
        reply::set(headers, CONTENT_LENGTH, &length.to_string());
        Ok(reply)
    }

    /// Returns the snapshot of `prevsnapshot`, if the request has one.
    fn previous_snapshot(&self, request: &Request) -> Result<Option<SnapshotTime>, HttpError> {
        let Some(time) = request.snapshot_parameter("prevsnapshot")? else {
            return Ok(None);
        };
        let container = self.store.container(request.container()?)?;
        let found = container.snapshot(request.blob()?, time);
        found.map(|_| Some(time)).map_err(|_missing| HttpError::PreviousSnapshot)
    }
}

/// The parameters of Put Page.
struct Asked {
    write: Write,
    range: Range<u64>,
    sequence: SequenceConditions,
    conditions: Conditions,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Write {
    Update,
    Clear,
}

impl Asked {
    fn of(request: &Request) -> Result<Self, HttpError> {
        let write = request.header(PAGE_WRITE).map(str::to_ascii_lowercase);
        let write = match write.as_deref() {
            Some("update") => Write::Update,
            Some("clear") => Write::Clear,
            Some(_) => return Err(HttpError::header(PAGE_WRITE)),
            None => return Err(HttpError::MissingHeader { name: PAGE_WRITE }),
        };
        let range = range_header(request).ok_or(HttpError::MissingHeader { name: RANGE })?;
        // An open range is not accepted.
        let range = match ByteRange::parse(range) {
            Some(ByteRange { first, last: Some(last) })
                if last < PAGE_BLOB_BYTES && is_of_pages(&(first..last + 1)) =>
            {
                first..last + 1
            }
            _ => return Err(BlobError::InvalidPageRange.into()),
        };
        if write == Write::Update && range.end - range.start > WRITTEN.bytes() {
            return Err(HttpError::BodySize { limit: WRITTEN });
        }
        let number = |name| request.number(name).map_err(|_invalid| HttpError::Input { name });
        let sequence = SequenceConditions {
            at_most: number(IF_SEQUENCE_AT_MOST)?,
            below: number(IF_SEQUENCE_BELOW)?,
            equal: number(IF_SEQUENCE_EQUAL)?,
        };
        Ok(Self { write, range, sequence, conditions: request.conditions()? })
    }

    fn request(self, change: PageChange) -> PageRequest {
        let Self { range, sequence, conditions, .. } = self;
        PageRequest { range, change, sequence, conditions }
    }
}

fn written((version, sequence_number): (Version, u64), checksums: Option<&Checksums>) -> Reply {
    let mut reply = reply::written(StatusCode::CREATED, version);
    let headers = reply.headers_mut();
    reply::set(headers, SEQUENCE_NUMBER, &sequence_number.to_string());
    if let Some(checksums) = checksums {
        checksums.set(headers);
    }
    reply
}

/// Returns the content of a new page blob.
///
/// # Errors
/// The length is missing or no multiple of a page.
pub(super) fn new_pages(request: &Request) -> Result<PutContent, HttpError> {
    let length = length(request)?.ok_or(HttpError::MissingHeader { name: CONTENT_LENGTH })?;
    Ok(PutContent::Page { length, sequence_number: sequence_number(request)?.unwrap_or(0) })
}

/// Returns the properties that Set Blob Properties changes. A request with length or sequence number alone leaves the headers as they are.
///
/// # Errors
/// A value is invalid.
pub(super) fn wanted_properties(request: &Request) -> Result<PropertiesRequest, HttpError> {
    let length = length(request)?;
    let action = request.header(SEQUENCE_ACTION).map(str::to_ascii_lowercase);
    let sequence = match (action.as_deref(), sequence_number(request)?) {
        (None, None) => None,
        (Some("update"), Some(number)) => Some(SequenceAction::Update(number)),
        (Some("max"), Some(number)) => Some(SequenceAction::Maximum(number)),
        (Some("update" | "max"), None) => return Err(HttpError::MissingHeader { name: SEQUENCE_NUMBER }),
        (Some("increment"), None) => Some(SequenceAction::Increment),
        (None | Some("increment"), Some(_)) => return Err(HttpError::header(SEQUENCE_NUMBER)),
        (Some(_), _) => return Err(HttpError::header(SEQUENCE_ACTION)),
    };
    let is_of_pages = length.is_some() || sequence.is_some();
    let headers =
        if is_of_pages && !request.has_replaced_headers() { None } else { Some(request.replaced_headers()?) };
    Ok(PropertiesRequest { headers, length, sequence })
}

/// Returns the length of a page blob that a request sets.
fn length(request: &Request) -> Result<Option<u64>, HttpError> {
    match request.number(CONTENT_LENGTH)? {
        Some(length) if !length.is_multiple_of(PAGE_BYTES) || length > PAGE_BLOB_BYTES => {
            Err(HttpError::header(CONTENT_LENGTH))
        }
        length => Ok(length),
    }
}

fn sequence_number(request: &Request) -> Result<Option<u64>, HttpError> {
    match request.number(SEQUENCE_NUMBER)? {
        Some(number) if i64::try_from(number).is_err() => Err(HttpError::header(SEQUENCE_NUMBER)),
        number => Ok(number),
    }
}

pub(super) const CONTENT_LENGTH: &str = "x-ms-blob-content-length";
pub(super) const SEQUENCE_NUMBER: &str = "x-ms-blob-sequence-number";
pub(super) const SEQUENCE_ACTION: &str = "x-ms-sequence-number-action";
pub(super) const PAGE_WRITE: &str = "x-ms-page-write";
pub(super) const IF_SEQUENCE_AT_MOST: &str = "x-ms-if-sequence-number-le";
pub(super) const IF_SEQUENCE_BELOW: &str = "x-ms-if-sequence-number-lt";
pub(super) const IF_SEQUENCE_EQUAL: &str = "x-ms-if-sequence-number-eq";

/// Maximum size of a write, as in the service.
const WRITTEN: ByteSize = ByteSize::from_mebibytes(4);

/// Maximum number of ranges in a reply, as in the service.
const RANGES_MAX: usize = 10_000;
