//! Objects of a bucket: of S3 and what speaks like it, and of Google Cloud Storage, through the crate `object_store`.
//!
//! | | |
//! |---|---|
//! | [`url`](BucketUrl) | where a bucket is |
//! | `access` | a client of it, and the credentials |
//! | `transport` | its HTTP, on hyper, and what is heard of a request that failed |
//! | `refusal` | what refusals stand for |
//!
//! An object is written by one request under a condition, so it is there as a whole or not at all. A multipart upload would need no memory for a
//! whole file, but its last request takes no condition here, and what an object says of itself is given with the first one, when it is not known
//! yet which events there will be.

mod access;
pub(super) mod refusal;
mod transport;
mod url;

use std::collections::HashMap;
use std::sync::Arc;

use object_store::path::Path;
use object_store::{
    Attribute, Attributes, Extensions, GetOptions, ObjectStore, PutMode, PutOptions, PutPayload,
    UpdateVersion,
};
use units::md5::Md5;

use super::NAME;
use super::options::BucketPlace;
use crate::hyper_client::causes;
use crate::service::ServiceError;
use crate::service::error::UNREACHABLE;
use crate::sink::ErrorClass;
use transport::{Answer, Failure};

pub use url::{BucketService, BucketUrl, BucketUrlError};

/// A bucket, and the prefix of its objects. Clones share their connections.
#[derive(Clone, Debug)]
pub(super) struct Bucket {
    store: Arc<dyn ObjectStore>,
    url: Arc<BucketUrl>,
}

/// Whether an archive ever puts one object in the place of another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Replaces {
    /// Never.
    Nothing,
    /// One that has a part of the same events.
    Shorter,
}

/// Under which condition an object is written.
#[derive(Clone, Debug)]
pub(super) enum Condition {
    /// There is none of the name.
    Absent,
    /// It is as it was when it was [looked at](Bucket::look).
    Unchanged(Version),
}

/// What a change of an object changes.
#[derive(Clone, Debug)]
pub(super) struct Version(UpdateVersion);

/// What an object says of itself beside its content.
#[derive(Clone, Debug, Default)]
pub(super) struct About {
    pub(super) content_type: &'static str,
    /// Names are letters.
    pub(super) metadata: Vec<(&'static str, String)>,
}

/// An object, without its content.
#[derive(Clone, Debug)]
pub(super) struct ObjectProperties {
    pub(super) length: u64,
    /// Its names are in small letters.
    pub(super) metadata: HashMap<String, String>,
    pub(super) version: Version,
}

impl Bucket {
    /// The bucket, which is there, lets objects be written, and does not let one replace another against the condition of a request.
    ///
    /// # Errors
    /// When it is not there, no credentials are found, the service refuses or can't be reached, or takes no notice of conditions.
    pub(super) async fn open(place: &BucketPlace, replaces: Replaces) -> Result<Self, ServiceError> {
        let bucket = Self { store: access::client(place)?, url: Arc::new(place.url.clone()) };
        bucket.probe(replaces).await.map_err(|error| ServiceError {
            class: ErrorClass::Fatal,
            description: format!("{}: {}", place.url, error.description),
            condition: error.condition,
        })?;
        Ok(bucket)
    }

    /// Services that are old or simple take a condition for a header that they don't know, and replace what is there. An object that is written
    /// twice shows that before anything is lost.
    async fn probe(&self, replaces: Replaces) -> Result<(), ServiceError> {
        let about = About { content_type: "text/plain", metadata: Vec::new() };
        let put = |condition| self.put(PROBE, PROBE_CONTENT.into(), &about, condition);
        if put(Condition::Absent).await? && put(Condition::Absent).await? {
            return Err(without("If-None-Match: *"));
        }
        if replaces == Replaces::Shorter {
            // Neither the digest nor the number of anything.
            let (e_tag, version) = (format!("\"{:032}\"", 0), "1".to_owned());
            let version = Version(UpdateVersion { e_tag: Some(e_tag), version: Some(version) });
            if put(Condition::Unchanged(version)).await? {
                return Err(without("If-Match"));
            }
        }
        Ok(())
    }

    /// Writes an object; nothing happens if the condition is lost, and `false` comes back.
    ///
    /// # Errors
    /// When the service refuses, or can't be reached.
    pub(super) async fn put(
        &self,
        name: &str,
        content: PutPayload,
        about: &About,
        condition: Condition,
    ) -> Result<bool, ServiceError> {
        let path = self.path(name)?;
        let expects_an_object = matches!(condition, Condition::Unchanged(_));
        let answer = Answer::default();
        let options = PutOptions {
            mode: match condition {
                Condition::Absent => PutMode::Create,
                Condition::Unchanged(Version(version)) => PutMode::Update(version),
            },
            attributes: about.attributes(),
            extensions: answer.to_extensions(),
            ..PutOptions::default()
        };
        match self.store.put_opts(&path, content, options).await {
            Ok(_) => Ok(true),
            Err(error) => match answer.take() {
                Some(failure) if refusal::is_condition(&failure, expects_an_object) => Ok(false),
                failure => Err(told(failure, &error)),
            },
        }
    }

    /// What is known of an object, if it is there.
    ///
    /// # Errors
    /// When the service refuses, or can't be reached.
    pub(super) async fn look(&self, name: &str) -> Result<Option<ObjectProperties>, ServiceError> {
        let answer = Answer::default();
        let options = GetOptions { head: true, extensions: answer.to_extensions(), ..GetOptions::default() };
        let object = match self.store.get_opts(&self.path(name)?, options).await {
            Ok(object) => object,
            Err(error) => {
                return match answer.take() {
                    Some(Failure { status: Some(404), .. }) => Ok(None),
                    Some(Failure { status: Some(status @ (401 | 403)), error }) => Err(ServiceError {
                        description: format!(
                            "{} is there and can't be compared: looking at it is refused (status {status}), for which the right to read is needed",
                            self.display(name)
                        ),
                        ..error
                    }),
                    failure => Err(told(failure, &error)),
                };
            }
        };
        let metadata = object.attributes.iter().filter_map(|(attribute, value)| match attribute {
            Attribute::Metadata(name) => Some((name.to_lowercase(), value.to_string())),
            _ => None,
        });
        Ok(Some(ObjectProperties {
            length: object.meta.size,
            metadata: metadata.collect(),
            version: Version(UpdateVersion { e_tag: object.meta.e_tag, version: object.meta.version }),
        }))
    }

    /// What objects are called that a person is told of.
    pub(super) fn display(&self, name: &str) -> String {
        format!("{}/{name}", self.url)
    }

    fn path(&self, name: &str) -> Result<Path, ServiceError> {
        Path::parse(self.url.object(name)).map_err(|error| ServiceError::fatal(NAME, error.to_string()))
    }
}

impl ObjectProperties {
    /// The digest of its content: as it was written, or what the service takes for the version of objects that were put by one request.
    pub(super) fn md5(&self) -> Option<Md5> {
        let tag = self.version.0.e_tag.as_deref().map(|tag| tag.trim_matches('"'));
        let text = self.metadata.get(MD5).map(String::as_str).or(tag)?;
        let mut md5 = Md5::default();
        if text.len() != 2 * md5.len() || !text.is_ascii() {
            return None;
        }
        for (byte, place) in md5.iter_mut().zip((0..).step_by(2)) {
            *byte = u8::from_str_radix(&text[place..place + 2], 16).ok()?;
        }
        Some(md5)
    }
}

impl About {
    fn attributes(&self) -> Attributes {
        let mut attributes = Attributes::with_capacity(1 + self.metadata.len());
        attributes.insert(Attribute::ContentType, self.content_type.into());
        for (name, value) in &self.metadata {
            attributes.insert(Attribute::Metadata((*name).into()), value.clone().into());
        }
        attributes
    }
}

impl Answer {
    fn to_extensions(&self) -> Extensions {
        let mut extensions = Extensions::new();
        extensions.insert(self.clone());
        extensions
    }
}

#[cold]
fn without(condition: &str) -> ServiceError {
    let description =
        format!("the service takes no notice of `{condition}`, so that what is there could be replaced");
    ServiceError::fatal(NO_CONDITIONS, description)
}

/// Whether an error says that nothing can be written at the moment, whatever it is.
pub(super) fn is_outage(error: &ServiceError) -> bool {
    [UNREACHABLE, NOT_ASKED].contains(&error.condition.as_str())
}

/// What a failure is: what the service answered; or that nothing could be asked or understood, for want of credentials above all, which may be
/// there later.
fn told(failure: Option<Failure>, error: &object_store::Error) -> ServiceError {
    match failure {
        Some(failure) => failure.error,
        None => ServiceError::of_connection(NOT_ASKED, causes(error)),
    }
}

/// The metadata with the digest of the content.
pub(super) const MD5: &str = "md5";

/// The service could not be asked, or not be understood.
const NOT_ASKED: &str = "archive:bucket";

/// The service takes no notice of conditions.
const NO_CONDITIONS: &str = "archive:conditions";

/// No name of an event has no number.
const PROBE: &str = ".parshall";
const PROBE_CONTENT: &str =
    "An archive of Parshall. It makes sure with this object that nothing here can be replaced by mistake.\n";
