//! Blobs and parts of blobs that are made of other blobs of the account.
//!
//! Nothing is fetched from elsewhere. A copy shares its content with its source, so it takes no longer than its description, and is
//! over when it is answered: what the service would do in the background has the state `success` from the start.

use std::sync::Arc;
use std::time::UNIX_EPOCH;

use access::storage::{StorageLevel, StorageRight};
use bytes::Bytes;
use hyper::header::HeaderValue;
use hyper::{HeaderMap, StatusCode, Uri};
use units::date::parse_http_date;
use units::md5::md5;

use super::BlobFront;
use super::authorize::{Granted, bearer_token};
use super::blobs::{BLOB_TYPE, WORK_OF_COPY, described, wanted_kind, wanted_tier};
use super::blocks::{append_conditions, appended, block_id};
use super::checksums::{Checksums, Expected, Md5};
use super::http_error::HttpError;
use super::operation::{
    SOURCE, SOURCE_AUTHORIZATION, SOURCE_IF_MATCH, SOURCE_IF_MODIFIED, SOURCE_IF_NONE_MATCH,
    SOURCE_IF_UNMODIFIED, SOURCE_LEASE, SOURCE_MD5, SOURCE_RANGE, TAGS, TAGS_OPTION,
};
use super::range::ByteRange;
use super::reply::{self, Reply, md5_text};
use super::request::{Request, parameters};
use super::tags::wanted_tags;
use blob_store::{
    AppendRequest, Blob, BlobError, BlobKind, Conditions, Container, CopyForm, CopyRequest, CopyState,
    Description, EtagCondition, LeaseId, Now, Tags, Version,
};

/// The credentials that grant access to a source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Proof {
    /// The account key of the request, or those of the source: for copies.
    OfRequest,
    /// Only a proof that the source brings itself: for the operations `… From URL`.
    OfSource,
}

/// A blob to be read for another one.
struct Source {
    blob: Arc<Blob>,
    /// Its URL without the signature.
    url: String,
}

impl BlobFront {
    /// Copies a blob with what belongs to it.
    pub(super) async fn copy(
        &self,
        request: &Request,
        granted: &Granted,
        now: Now,
    ) -> Result<Reply, HttpError> {
        let replacing = granted.writing()?;
        let (container, name) = (request.container()?, request.blob()?.to_owned());
        let (conditions, own) = (request.conditions()?, request.metadata()?);
        let source = self.source(request, granted, Proof::OfRequest, now)?;
        let tier = wanted_tier(request, now)?;
        // A copy in another tier is how it is read again.
        if source.blob.is_archived() && tier.is_none() {
            return Err(BlobError::Archived.into());
        }
        let of_source = source.blob.description();
        let (id, length) = (copy_id(now), source.blob.length());
        let state = CopyState::new(id, source.url, length, now.time_of_day);
        let description = Description {
            headers: of_source.headers.clone(),
            metadata: if own.is_empty() { of_source.metadata.clone() } else { own },
            tags: copied_tags(request, granted, &source.blob, wanted_tags(request, granted)?)?,
            tier,
            copy: Some(state.clone()),
        };
        let form = CopyForm::Same;
        let copied = CopyRequest { source: source.blob, description, conditions, replacing, form };
        let md5 = request.header(SOURCE_MD5).map(str::to_owned);
        let version = self.copied(container, name, copied, md5.clone(), now).await?;
        let mut reply = reply::empty(StatusCode::ACCEPTED);
        let headers = reply.headers_mut();
        reply::set_version(headers, version);
        if let Some(md5) = md5 {
            reply::set(headers, "content-md5", &md5);
        }
        reply::set(headers, "x-ms-copy-id", &state.id);
        reply::set(headers, "x-ms-copy-status", super::xml::COPIED);
        Ok(reply)
    }

    /// Refuses to abort a copying, since none is ever under way.
    pub(super) fn abort_copy(
        &self,
        request: &Request,
        granted: &Granted,
        now: Now,
    ) -> Result<Reply, HttpError> {
        granted.need(StorageLevel::Object, &[StorageRight::Write])?;
        let lease = request.lease_id("x-ms-lease-id")?;
        if request.parameter("copyid").is_none_or(|id| LeaseId::parse(id).is_none()) {
            return Err(HttpError::Parameter { name: "copyid" });
        }
        self.found(request)?.check_read(&Conditions { lease, ..Conditions::default() }, now)?;
        match request.header("x-ms-copy-action") {
            Some("abort") => Err(HttpError::NoPendingCopy),
            Some(_) => Err(HttpError::header("x-ms-copy-action")),
            None => Err(HttpError::MissingHeader { name: "x-ms-copy-action" }),
        }
    }

    /// Writes a whole blob whose content is that of another one.
    pub(super) async fn put_blob_from_url(
        &self,
        request: &Request,
        granted: &Granted,
        now: Now,
    ) -> Result<Reply, HttpError> {
        let replacing = granted.writing()?;
        if wanted_kind(request)? != BlobKind::Block {
            return Err(HttpError::header(BLOB_TYPE));
        }
        let (container, name) = (request.container()?, request.blob()?.to_owned());
        let conditions = request.conditions()?;
        let mut description = described(request, granted, now)?;
        let source = self.readable_source(request, granted, now)?;
        description.tags = copied_tags(request, granted, &source.blob, description.tags)?;
        let of_source = &source.blob.description().headers;
        let takes_headers = !request
            .header("x-ms-copy-source-blob-properties")
            .is_some_and(|wanted| wanted.eq_ignore_ascii_case("false"));
        if takes_headers {
            let own = &mut description.headers;
            for (own, other) in [
                (&mut own.content_type, &of_source.content_type),
                (&mut own.content_encoding, &of_source.content_encoding),
                (&mut own.content_language, &of_source.content_language),
                (&mut own.content_disposition, &of_source.content_disposition),
                (&mut own.cache_control, &of_source.cache_control),
                (&mut own.content_md5, &of_source.content_md5),
            ] {
                *own = own.take().or_else(|| other.clone());
            }
        }
        let md5 = request.header(SOURCE_MD5).map(str::to_owned);
        let form = CopyForm::Whole;
        let copied = CopyRequest { source: source.blob, description, conditions, replacing, form };
        let version = self.copied(container, name, copied, md5.clone(), now).await?;
        let mut reply = reply::written(StatusCode::CREATED, version);
        if let Some(md5) = md5 {
            reply::set(reply.headers_mut(), "content-md5", &md5);
        }
        Ok(reply)
    }

    /// Copies a blob whose content has a checksum, if one is given.
    async fn copied(
        &self,
        container: &str,
        name: String,
        copied: CopyRequest,
        md5: Option<String>,
        now: Now,
    ) -> Result<Version, HttpError> {
        let _memory = match md5 {
            // All of it is read.
            Some(_) => Some(self.bodies.for_source(copied.source.length()).await?),
            None => None,
        };
        self.run_in(container, WORK_OF_COPY, move |container| {
            if let Some(expected) = md5
                && expected != md5_of(&copied.source)?
            {
                return Ok(Err(HttpError::Checksum));
            }
            Ok(Ok(container.copy(&name, copied, now)?))
        })
        .await?
    }

    /// Takes a block whose content is a part of another blob.
    pub(super) async fn put_block_from_url(
        &self,
        request: &Request,
        granted: &Granted,
        now: Now,
    ) -> Result<Reply, HttpError> {
        granted.writing()?;
        let (container, name) = (request.container()?.to_owned(), request.blob()?.to_owned());
        let (id, lease) = (block_id(request)?, request.lease_id("x-ms-lease-id")?);
        let ((), checksums) = self
            .with_part(request, granted, now, container, move |container, content| {
                container.put_block(&name, &id, content, lease, now)
            })
            .await?;
        let mut reply = reply::empty(StatusCode::CREATED);
        checksums.set(reply.headers_mut());
        reply::set(reply.headers_mut(), "x-ms-request-server-encrypted", "true");
        Ok(reply)
    }

    /// Appends a part of another blob.
    pub(super) async fn append_from_url(
        &self,
        request: &Request,
        granted: &Granted,
        now: Now,
    ) -> Result<Reply, HttpError> {
        granted.need(StorageLevel::Object, &[StorageRight::Add, StorageRight::Write])?;
        let (container, name) = (request.container()?.to_owned(), request.blob()?.to_owned());
        let (conditions, position, maximum_length) = append_conditions(request)?;
        let (done, checksums) = self
            .with_part(request, granted, now, container, move |container, content| {
                container.append(&name, AppendRequest { content, position, maximum_length, conditions }, now)
            })
            .await?;
        Ok(appended(&done, &checksums))
    }

    /// Puts the part of its source that a request names into a container, once its checksums are verified.
    pub(super) async fn with_part<T: Send + 'static>(
        &self,
        request: &Request,
        granted: &Granted,
        now: Now,
        container: String,
        put: impl FnOnce(&Container, Bytes) -> Result<T, BlobError> + Send + 'static,
    ) -> Result<(T, Checksums), HttpError> {
        let expected = Expected::of_source(request)?;
        let source = self.readable_source(request, granted, now)?;
        let wanted = source_range(request, &source.blob)?;
        let _memory = self.bodies.for_source(wanted.end - wanted.start).await?;
        self.run_in(&container, WORK_OF_COPY, move |container| {
            let content = source.blob.read(wanted).read_to_end()?;
            let checksums = match expected.verify(&content, None, Md5::WhenGiven) {
                Ok(checksums) => checksums,
                Err(error) => return Ok(Err(error)),
            };
            Ok(Ok((put(container, content)?, checksums)))
        })
        .await?
    }

    /// Finds the blob that a request names as its source, unless its content can't be read.
    fn readable_source(&self, request: &Request, granted: &Granted, now: Now) -> Result<Source, HttpError> {
        let source = self.source(request, granted, Proof::OfSource, now)?;
        match source.blob.is_archived() {
            true => Err(BlobError::Archived.into()),
            false => Ok(source),
        }
    }

    /// Finds the blob that a request names as its source, and checks the right to read it.
    fn source(
        &self,
        request: &Request,
        granted: &Granted,
        proof: Proof,
        now: Now,
    ) -> Result<Source, HttpError> {
        let text = request.header(SOURCE).ok_or(HttpError::MissingHeader { name: SOURCE })?;
        let uri: Uri = text.parse().map_err(|_malformed| HttpError::header(SOURCE))?;
        let asked = Self::request_for_source(request, uri)?;
        if asked.target.account != self.key.account() {
            return Err(HttpError::Source("it is in another account, from which nothing is fetched"));
        }
        if !granted.is_owner() || proof == Proof::OfSource {
            let identity = self.identity.as_deref();
            let proven = Granted::to(
                &asked,
                &self.store,
                &self.key,
                (identity, &self.delegations),
                (self.policy, &self.clock),
            );
            let proven = proven.map_err(|_refused| HttpError::Source("what its URL proves is not valid"))?;
            let read = proven.need(StorageLevel::Object, &[StorageRight::Read]);
            read.map_err(|_denied| {
                HttpError::Source("what its URL proves does not grant the right to read it")
            })?;
        }
        let blob = self.found(&asked)?;
        let lease = request.lease_id(SOURCE_LEASE)?;
        blob.check_read(&Conditions { lease, ..Conditions::default() }, now)?;
        match blob.check_read(&source_conditions(request)?, now) {
            Ok(()) => {}
            Err(BlobError::NotModified) if proof == Proof::OfSource => {
                return Err(HttpError::SourceNotModified);
            }
            Err(BlobError::ConditionNotMet | BlobError::NotModified | BlobError::UnsatisfiableCondition) => {
                return Err(HttpError::SourceCondition);
            }
            Err(error) => return Err(error.into()),
        }
        let mut url = text.split('?').next().unwrap_or(text).to_owned();
        if let Some(time) = blob.snapshot() {
            url.push_str(&format!("?snapshot={time}"));
        }
        Ok(Source { blob, url })
    }

    /// The request by which a client would read the source itself.
    fn request_for_source(request: &Request, uri: Uri) -> Result<Request, HttpError> {
        let (mut parts, ()) = hyper::Request::new(()).into_parts();
        parts.uri = uri;
        parts.headers = HeaderMap::new();
        // A token is for what its roles say, here and there.
        let own = request.parts.headers.get("authorization");
        let is_signed = parameters(parts.uri.query().unwrap_or_default()).any(|(name, _)| name == "sig");
        let is_token = |value: &&HeaderValue| value.to_str().is_ok_and(|text| bearer_token(text).is_some());
        let own = own.filter(is_token).filter(|_| !is_signed);
        if let Some(authorization) = request.parts.headers.get(SOURCE_AUTHORIZATION).or(own) {
            parts.headers.insert("authorization", authorization.clone());
        }
        Request::new(parts, request.peer).map_err(|_unreadable| HttpError::header(SOURCE))
    }
}

/// The tags of a copy: those of the request, or of the source if the request says so.
fn copied_tags(request: &Request, granted: &Granted, source: &Blob, own: Tags) -> Result<Tags, HttpError> {
    match request.header(TAGS_OPTION) {
        None => Ok(own),
        Some(option) if option.eq_ignore_ascii_case("replace") => Ok(own),
        Some(option) if option.eq_ignore_ascii_case("copy") => match request.header(TAGS) {
            None => {
                granted.need(StorageLevel::Object, &[StorageRight::Tags])?;
                Ok(source.description().tags.clone())
            }
            Some(_) => Err(HttpError::BothTags),
        },
        Some(_) => Err(HttpError::header(TAGS_OPTION)),
    }
}

fn source_conditions(request: &Request) -> Result<Conditions, HttpError> {
    let date = |name| match request.header(name) {
        None => Ok(None),
        Some(text) => parse_http_date(text).map(Some).ok_or_else(|| HttpError::header(name)),
    };
    Ok(Conditions {
        if_match: request.header(SOURCE_IF_MATCH).map(EtagCondition::parse),
        if_none_match: request.header(SOURCE_IF_NONE_MATCH).map(EtagCondition::parse),
        if_modified_since: date(SOURCE_IF_MODIFIED)?,
        if_unmodified_since: date(SOURCE_IF_UNMODIFIED)?,
        if_tags: None,
        lease: None,
    })
}

/// The bytes of the source that are wanted.
fn source_range(request: &Request, blob: &Blob) -> Result<std::ops::Range<u64>, HttpError> {
    let length = blob.length();
    let Some(text) = request.header(SOURCE_RANGE) else {
        return Ok(0..length);
    };
    let range = ByteRange::parse(text).ok_or_else(|| HttpError::header(SOURCE_RANGE))?;
    Ok(range.within(length)?)
}

/// The checksum of a whole blob, in base64.
fn md5_of(blob: &Blob) -> Result<String, BlobError> {
    blob.read(0..blob.length()).read_to_end().map(|content| md5_text(md5(&content)))
}

/// An id that no other copying has.
fn copy_id(now: Now) -> String {
    let since = now.time_of_day.duration_since(UNIX_EPOCH).unwrap_or_default();
    let request = reply::next_request_id();
    let (_, rest) = request.split_at(8);
    format!("{:08x}{rest}", since.as_secs() as u32)
}
