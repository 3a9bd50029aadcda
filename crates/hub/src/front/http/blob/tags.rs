//! Tags of blobs: read, set, and searched for.

use access::storage::{StorageLevel, StorageRight, decode_parameter};
use hyper::StatusCode;
use listen::http::RequestBody;
use units::ByteSize;

use super::BlobFront;
use super::authorize::Granted;
use super::checksums::{Expected, Md5};
use super::containers::{marked, maximum, unmarked};
use super::http_error::HttpError;
use super::operation::TAGS;
use super::reply::{self, Reply};
use super::request::{Request, parameters};
use super::xml;
use blob_store::{Now, TagExpression, Tags, check_tags};

impl BlobFront {
    pub(super) fn tags(&self, request: &Request, granted: &Granted, now: Now) -> Result<Reply, HttpError> {
        granted.need(StorageLevel::Object, &[StorageRight::Tags])?;
        let blob = self.found(request)?;
        blob.check_read(&request.conditions()?, now)?;
        Ok(reply::document(xml::tag_set(&blob.description().tags)))
    }

    pub(super) async fn set_tags(
        &self,
        request: &Request,
        body: RequestBody,
        granted: &Granted,
        now: Now,
    ) -> Result<Reply, HttpError> {
        granted.need(StorageLevel::Object, &[StorageRight::Tags])?;
        let (container, name) = (request.container()?.to_owned(), request.blob()?.to_owned());
        let (conditions, expected) = (request.conditions()?, Expected::of(request)?);
        let arrived = self.bodies.collect(body, ByteSize::from_kibibytes(64), None).await?;
        expected.verify(&arrived.bytes, None, Md5::WhenGiven)?;
        let tags = xml::read_tag_set(&arrived.bytes).ok_or(HttpError::Xml { expected: "a set of tags" })?;
        let tags = checked(tags)?;
        self.run_in(&container, 0, move |container| container.set_tags(&name, tags, &conditions, now))
            .await?;
        Ok(reply::empty(StatusCode::NO_CONTENT))
    }

    /// Finds blobs of the account, or of one container.
    pub(super) fn find_by_tags(&self, request: &Request, granted: &Granted) -> Result<Reply, HttpError> {
        let container = match &request.target.container {
            None => {
                granted.need(StorageLevel::Service, &[StorageRight::Find])?;
                None
            }
            Some(_) => {
                granted.need(StorageLevel::Container, &[StorageRight::Find])?;
                let name = request.container()?;
                self.store.container(name)?;
                Some(name)
            }
        };
        let wanted = request.parameter("where").ok_or(HttpError::Parameter { name: "where" })?;
        let expression = TagExpression::parse(wanted).ok_or(HttpError::Parameter { name: "where" })?;
        let marker = unmarked(request.parameter("marker").unwrap_or_default())?;
        let from = match &marker {
            None => None,
            // No name of a container has a slash.
            Some(marker) => Some(marker.split_once('/').ok_or(HttpError::Parameter { name: "marker" })?),
        };
        let (found, next) = self.store.find(container, &expression, from, maximum(request)?);
        let next = next.map(|(container, name)| marked(&format!("{container}/{name}")));
        let next = next.as_deref().unwrap_or_default();
        Ok(reply::document(xml::found_blobs(&self.endpoint(request), wanted, &found, next)))
    }
}

/// Returns the tags that a request has in a header for the blob that it writes.
///
/// # Errors
/// They are none that a blob can have, or the right to set them is missing.
pub(super) fn wanted_tags(request: &Request, granted: &Granted) -> Result<Tags, HttpError> {
    let Some(text) = request.header(TAGS).filter(|text| !text.is_empty()) else {
        return Ok(Tags::new());
    };
    granted.need(StorageLevel::Object, &[StorageRight::Tags])?;
    let tags = parameters(text).map(|(key, value)| (decode_parameter(key), decode_parameter(value)));
    checked(tags.collect())
}

/// Sorts and checks tags.
fn checked(mut tags: Tags) -> Result<Tags, HttpError> {
    tags.sort();
    check_tags(&tags)?;
    Ok(tags)
}
