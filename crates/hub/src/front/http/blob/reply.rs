//! The headers that all replies have, the headers that describe a blob, and error replies.

use std::sync::atomic::{AtomicU64, Ordering};

use access::storage::ResponseOverrides;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hyper::header::{HeaderMap, HeaderName, HeaderValue};
use hyper::{Response, StatusCode};
use listen::http::spelling_of;
use units::date::http_date;

use super::body::ReplyBody;
use super::http_error::HttpError;
use super::operation::{SOURCE, TIER};
use super::pages::SEQUENCE_NUMBER;
use super::request::METADATA;
use super::xml::{self, LeaseWords};
use blob_store::{AccessTier, Blob, BlobError, BlobForm, CopyState, Lease, Now, TierSetting, Version};
use units::md5::Md5;

/// A reply.
pub(super) type Reply = Response<ReplyBody>;

/// A reply without a body.
pub(super) fn empty(status: StatusCode) -> Reply {
    let mut reply = Response::new(ReplyBody::empty());
    *reply.status_mut() = status;
    reply
}

/// A reply with a document.
pub(super) fn document(text: String) -> Reply {
    let mut reply = Response::new(ReplyBody::from(text.into_bytes()));
    set(reply.headers_mut(), "content-type", "application/xml");
    reply
}

/// What kind of account this is: the plainest that has a secondary endpoint.
pub(super) fn account_information() -> Reply {
    let mut reply = empty(StatusCode::OK);
    let headers = reply.headers_mut();
    set(headers, "x-ms-sku-name", "Standard_RAGRS");
    set(headers, "x-ms-account-kind", "StorageV2");
    set(headers, "x-ms-is-hns-enabled", "false");
    reply
}

/// A reply to something that was written.
pub(super) fn written(status: StatusCode, version: Version) -> Reply {
    let mut reply = empty(status);
    set_version(reply.headers_mut(), version);
    set(reply.headers_mut(), "x-ms-request-server-encrypted", "true");
    reply
}

/// The reply to what is refused; with a `challenge` to those who have shown nothing that is accepted.
pub(super) fn refused(error: &HttpError, request_id: &str, challenge: &str, has_body: bool) -> Reply {
    let (status, code) = error.code();
    let mut reply = empty(status);
    if has_body && status != StatusCode::NOT_MODIFIED {
        let text = xml::error(code, &format!("{error}\nRequestId:{request_id}"));
        *reply.body_mut() = ReplyBody::from(text.into_bytes());
        set(reply.headers_mut(), "content-type", "application/xml");
    }
    let headers = reply.headers_mut();
    set(headers, "x-ms-error-code", code);
    if status == StatusCode::UNAUTHORIZED {
        // HTTP wants to know here how the request can be repeated.
        set(headers, "www-authenticate", challenge);
    }
    if let HttpError::Blob(BlobError::InvalidRange { length }) = error {
        set(headers, "content-range", &format!("bytes */{length}"));
    }
    reply
}

/// Sets a header, unless the value is none that a header can have.
pub(super) fn set(headers: &mut HeaderMap, name: &'static str, value: &str) {
    if let Ok(value) = HeaderValue::from_str(value) {
        headers.insert(HeaderName::from_static(name), value);
    }
}

/// Tells which version it is.
pub(super) fn set_version(headers: &mut HeaderMap, version: Version) {
    set(headers, "etag", &format!("\"{}\"", version.etag));
    set(headers, "last-modified", &http_date(version.modified_at));
}

/// Adds metadata.
pub(super) fn set_metadata(headers: &mut HeaderMap, metadata: &[(String, String)]) {
    for (name, value) in metadata {
        let name = HeaderName::try_from(format!("{METADATA}{name}"));
        // Not `from_str`: values may have characters beyond ASCII.
        if let (Ok(name), Ok(value)) = (name, HeaderValue::from_bytes(value.as_bytes())) {
            headers.append(name, value);
        }
    }
}

/// Lets the names of metadata in a reply have the letters that they were written with.
pub(super) fn spell_metadata(reply: &mut Reply, metadata: &[(String, String)]) {
    if metadata.iter().any(|(name, _)| name.bytes().any(|byte| byte.is_ascii_uppercase())) {
        let names: Vec<_> = metadata.iter().map(|(name, _)| format!("{METADATA}{name}")).collect();
        reply.extensions_mut().extend(spelling_of(names.iter().map(String::as_str)));
    }
}

/// Tells the state of a lease.
pub(super) fn set_lease(headers: &mut HeaderMap, lease: Option<&Lease>, now: Now) {
    let told = LeaseWords::of(lease, now.lease_time);
    set(headers, "x-ms-lease-status", told.status);
    set(headers, "x-ms-lease-state", told.state);
    if let Some(duration) = told.duration {
        set(headers, "x-ms-lease-duration", duration);
    }
}

/// Tells the tier of a block blob; that of the account if none was chosen.
fn set_tier(headers: &mut HeaderMap, chosen: Option<TierSetting>) {
    set(headers, TIER, chosen.map_or(AccessTier::Hot, |setting| setting.tier).name());
    match chosen {
        None => set(headers, "x-ms-access-tier-inferred", "true"),
        Some(setting) => {
            set(headers, "x-ms-access-tier-change-time", &http_date(setting.changed_at()));
        }
    }
}

/// Tells how a blob was made, if it is a copy.
fn set_copy(headers: &mut HeaderMap, copy: &CopyState) {
    set(headers, "x-ms-copy-id", &copy.id);
    set(headers, SOURCE, &copy.source);
    set(headers, "x-ms-copy-status", xml::COPIED);
    set(headers, "x-ms-copy-progress", &format!("{0}/{0}", copy.length));
    set(headers, "x-ms-copy-completion-time", &http_date(copy.completed_at()));
}

/// The part of a blob in a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shown {
    /// The properties, or the whole content.
    Whole,
    /// A range of the content.
    Part,
}

/// Sets the headers that describe a blob.
pub(super) fn set_blob(
    headers: &mut HeaderMap,
    blob: &Blob,
    overrides: &ResponseOverrides,
    now: Now,
    shown: Shown,
) {
    set_version(headers, blob.version());
    set(headers, "accept-ranges", "bytes");
    set(headers, "x-ms-blob-type", xml::kind_name(blob.kind()));
    set(headers, "x-ms-creation-time", &http_date(blob.created_at()));
    set_lease(headers, blob.lease(), now);
    set(headers, "x-ms-server-encrypted", "true");
    match blob.form() {
        BlobForm::Block => set_tier(headers, blob.description().tier),
        BlobForm::Append { blocks } => {
            set(headers, "x-ms-blob-committed-block-count", &blocks.to_string());
        }
        BlobForm::Page { sequence_number } => {
            set(headers, SEQUENCE_NUMBER, &sequence_number.to_string());
        }
    }
    let described = &blob.description().headers;
    let content_type = described.content_type.as_deref();
    let content_type = content_type.unwrap_or(xml::DEFAULT_TYPE);
    if !content_type.is_empty() {
        set(headers, "content-type", content_type);
    }
    let checksum = match shown {
        Shown::Part => "x-ms-blob-content-md5",
        Shown::Whole => "content-md5",
    };
    for (name, value) in [
        ("content-encoding", &described.content_encoding),
        ("content-language", &described.content_language),
        ("content-disposition", &described.content_disposition),
        ("cache-control", &described.cache_control),
        (checksum, &described.content_md5),
        ("content-type", &overrides.content_type),
        ("content-encoding", &overrides.content_encoding),
        ("content-language", &overrides.content_language),
        ("content-disposition", &overrides.content_disposition),
        ("cache-control", &overrides.cache_control),
    ] {
        if let Some(value) = value {
            set(headers, name, value);
        }
    }
    let tags = blob.description().tags.len();
    if tags > 0 {
        set(headers, "x-ms-tag-count", &tags.to_string());
    }
    if let Some(copy) = &blob.description().copy {
        set_copy(headers, copy);
    }
    set_metadata(headers, &blob.description().metadata);
}

/// A checksum as headers have it.
pub(super) fn md5_text(md5: Md5) -> String {
    STANDARD.encode(md5)
}

/// An id that no other request to this service has.
pub(super) fn next_request_id() -> String {
    static LAST: AtomicU64 = AtomicU64::new(0);
    let number = LAST.fetch_add(1, Ordering::Relaxed) + 1;
    format!("{:08x}-0000-4000-8000-{number:012x}", std::process::id())
}
