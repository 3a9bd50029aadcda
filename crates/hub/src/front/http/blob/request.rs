//! A request, taken apart: what it is about, its parameters, its headers.

use std::borrow::Cow;

use hyper::http::request::Parts;
use hyper::{HeaderMap, Method};
use percent_encoding::percent_decode_str;
use units::date::parse_http_date;

use super::http_error::HttpError;
use crate::front::http::server::Peer;
use blob_store::{Conditions, ContentHeaders, EtagCondition, LeaseId, Metadata, names};

/// The head of a request.
#[derive(Debug)]
pub(super) struct Request {
    pub(super) parts: Parts,
    /// Who asks.
    pub(super) peer: Peer,
    /// The query, decoded.
    query: Vec<(String, String)>,
    pub(super) target: Target,
}

/// What a path is about, decoded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Target {
    pub(super) account: String,
    pub(super) container: Option<String>,
    pub(super) blob: Option<String>,
}

impl Request {
    /// Takes a request apart.
    ///
    /// # Errors
    /// The path is not text, or names no account.
    pub(super) fn new(parts: Parts, peer: Peer) -> Result<Self, HttpError> {
        let query = decoded_query(parts.uri.query().unwrap_or_default());
        let target = Target::of(parts.uri.path())?;
        Ok(Self { parts, peer, query, target })
    }

    pub(super) const fn method(&self) -> &Method {
        &self.parts.method
    }

    /// The path as it was sent.
    pub(super) fn path(&self) -> &str {
        self.parts.uri.path()
    }

    /// The query as it was sent.
    pub(super) fn raw_query(&self) -> &str {
        self.parts.uri.query().unwrap_or_default()
    }

    /// All parameters of the query.
    pub(super) fn query(&self) -> &[(String, String)] {
        &self.query
    }

    /// The value of a parameter, whatever the letter case of its name; nothing if it is empty.
    pub(super) fn parameter(&self, name: &str) -> Option<&str> {
        self.query
            .iter()
            .find(|(other, value)| other.eq_ignore_ascii_case(name) && !value.is_empty())
            .map(|(_, value)| value.as_str())
    }

    /// The value of a header, trimmed. One that is not text is as good as none.
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        let value = self.parts.headers.get(name)?;
        str::from_utf8(value.as_bytes()).ok().map(str::trim)
    }

    /// A header that is a number.
    ///
    /// # Errors
    /// It is none.
    pub(super) fn number(&self, name: &'static str) -> Result<Option<u64>, HttpError> {
        let Some(value) = self.header(name) else {
            return Ok(None);
        };
        let is_number = !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit());
        match value.parse() {
            Ok(number) if is_number => Ok(Some(number)),
            _ => Err(HttpError::header(name)),
        }
    }

    /// The name of the container.
    ///
    /// # Errors
    /// There is none, or it is none that a container can have.
    pub(super) fn container(&self) -> Result<&str, HttpError> {
        match &self.target.container {
            Some(name) if names::is_container(name) => Ok(name),
            Some(name) if !names::CONTAINER_LENGTHS.contains(&name.chars().count()) => {
                Err(HttpError::ResourceNameLength)
            }
            _ => Err(HttpError::ResourceName),
        }
    }

    /// The name of the blob.
    ///
    /// # Errors
    /// There is none, or it is none that a blob can have.
    pub(super) fn blob(&self) -> Result<&str, HttpError> {
        match &self.target.blob {
            Some(name) if names::is_blob(name) => Ok(name),
            Some(_) => Err(HttpError::ResourceNameLength),
            None => Err(HttpError::ResourceName),
        }
    }

    /// A header that is a lease id.
    ///
    /// # Errors
    /// It is none.
    pub(super) fn lease_id(&self, name: &'static str) -> Result<Option<LeaseId>, HttpError> {
        match self.header(name).filter(|text| !text.is_empty()) {
            None => Ok(None),
            Some(text) => LeaseId::parse(text).map(Some).ok_or_else(|| HttpError::header(name)),
        }
    }

    /// The conditions.
    ///
    /// # Errors
    /// A date or the lease id can't be read.
    pub(super) fn conditions(&self) -> Result<Conditions, HttpError> {
        let date = |name| match self.header(name) {
            None => Ok(None),
            Some(text) => parse_http_date(text).map(Some).ok_or_else(|| HttpError::header(name)),
        };
        Ok(Conditions {
            if_match: self.header("if-match").map(EtagCondition::parse),
            if_none_match: self.header("if-none-match").map(EtagCondition::parse),
            if_modified_since: date("if-modified-since")?,
            if_unmodified_since: date("if-unmodified-since")?,
            lease: self.lease_id("x-ms-lease-id")?,
        })
    }

    /// The metadata.
    ///
    /// # Errors
    /// A name is none that metadata can have, a value is not text, or there is too much.
    pub(super) fn metadata(&self) -> Result<Metadata, HttpError> {
        metadata_of(&self.parts.headers)
    }

    /// The headers that are to be kept with a blob that is written.
    pub(super) fn content_headers(&self) -> ContentHeaders {
        let header = |name| self.header(name).filter(|it| !it.is_empty());
        let either = |own, plain| header(own).or_else(|| header(plain)).map(str::to_owned);
        let own = |name| header(name).map(str::to_owned);
        ContentHeaders {
            content_type: either("x-ms-blob-content-type", "content-type"),
            content_encoding: either("x-ms-blob-content-encoding", "content-encoding"),
            content_language: either("x-ms-blob-content-language", "content-language"),
            content_disposition: own("x-ms-blob-content-disposition"),
            cache_control: either("x-ms-blob-cache-control", "cache-control"),
            content_md5: own("x-ms-blob-content-md5"),
        }
    }

    /// The headers that are to take the place of those of a blob. What is not given is emptied, the type included.
    pub(super) fn replaced_headers(&self) -> ContentHeaders {
        let own = |name| {
            let value = self.header(name).filter(|it| !it.is_empty());
            value.map(str::to_owned)
        };
        ContentHeaders {
            content_type: own("x-ms-blob-content-type").or_else(|| Some(String::new())),
            content_encoding: own("x-ms-blob-content-encoding"),
            content_language: own("x-ms-blob-content-language"),
            content_disposition: own("x-ms-blob-content-disposition"),
            cache_control: own("x-ms-blob-cache-control"),
            content_md5: own("x-ms-blob-content-md5"),
        }
    }
}

impl Target {
    /// Reads a path: account, container, and the rest is the blob's. Clients differ in what they escape, and mean the same.
    fn of(path: &str) -> Result<Self, HttpError> {
        let decoded = |text: &str| {
            percent_decode_str(text).decode_utf8().map(Cow::into_owned).map_err(|_not_text| HttpError::Uri)
        };
        let mut segments = path.strip_prefix('/').unwrap_or(path).splitn(3, '/');
        let mut next = || segments.next().filter(|segment| !segment.is_empty()).map(decoded).transpose();
        let account = next()?.ok_or(HttpError::Uri)?;
        let container = next()?;
        let blob = next()?.map(|name| name.replace('\\', "/"));
        Ok(Self { account, container, blob })
    }
}

fn decoded_query(query: &str) -> Vec<(String, String)> {
    let decoded = |text: &str| percent_decode_str(text).decode_utf8_lossy().into_owned();
    query
        .split('&')
        .filter(|parameter| !parameter.is_empty())
        .map(|parameter| {
            let (name, value) = parameter.split_once('=').unwrap_or((parameter, ""));
            (decoded(name), decoded(value))
        })
        .collect()
}

fn metadata_of(headers: &HeaderMap) -> Result<Metadata, HttpError> {
    let mut metadata = Metadata::new();
    let mut bytes = 0;
    for name in headers.keys() {
        let Some(key) = name.as_str().strip_prefix("x-ms-meta-") else {
            continue;
        };
        if !names::is_metadata(key) {
            return Err(HttpError::Metadata);
        }
        let mut joined = String::new();
        for (index, value) in headers.get_all(name).iter().enumerate() {
            let value = str::from_utf8(value.as_bytes()).map_err(|_not_text| HttpError::Metadata)?;
            if index > 0 {
                joined.push(',');
            }
            joined.push_str(value.trim());
        }
        bytes += key.len() + joined.len();
        metadata.push((key.to_owned(), joined));
    }
    match bytes > METADATA_BYTES {
        true => Err(HttpError::MetadataSize),
        false => Ok(metadata),
    }
}

/// What a blob's metadata may take, as in the service.
const METADATA_BYTES: usize = 8 * 1024;

#[cfg(test)]
mod tests {
    use super::*;

    fn target(path: &str) -> (String, Option<String>, Option<String>) {
        let target = Target::of(path).unwrap();
        (target.account, target.container, target.blob)
    }

    #[test]
    fn all_clients_ways_of_escaping_name_one_blob() {
        for path in [
            "/acme/box/host%2Fhub%2F$Default%2Fownership%2F0",
            "/acme/box/host/hub/%24Default/ownership/0",
            "/acme/box/host\\hub/$Default/ownership%5C0",
        ] {
            let expected = "host/hub/$Default/ownership/0";
            assert_eq!(target(path), ("acme".into(), Some("box".into()), Some(expected.into())));
        }
        assert_eq!(target("/acme"), ("acme".into(), None, None));
        assert_eq!(target("/acme/"), ("acme".into(), None, None));
        assert_eq!(target("/acme/box/"), ("acme".into(), Some("box".into()), None));
        assert!(Target::of("/").is_err());
        assert!(Target::of("/a/b/%ff").is_err());
    }

    #[test]
    fn metadata_keeps_empty_values_and_has_its_limits() {
        let mut headers = HeaderMap::new();
        headers.insert("x-ms-meta-ownerid", "".parse().unwrap());
        headers.append("x-ms-meta-a", "1".parse().unwrap());
        headers.append("x-ms-meta-a", "2".parse().unwrap());
        let mut metadata = metadata_of(&headers).unwrap();
        metadata.sort();
        let expected = [("a", "1,2"), ("ownerid", "")];
        assert_eq!(metadata, expected.map(|(name, value)| (name.to_owned(), value.to_owned())));
        headers.insert("x-ms-meta-b", "x".repeat(9000).parse().unwrap());
        assert_eq!(metadata_of(&headers), Err(HttpError::MetadataSize));
        headers.insert("x-ms-meta-a-b", "".parse().unwrap());
        assert!(metadata_of(&headers).is_err());
    }
}
