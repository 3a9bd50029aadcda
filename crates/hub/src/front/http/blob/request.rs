//! A request, taken apart: what it is about, its parameters, its headers.

use std::borrow::Cow;

use access::storage::decode_parameter;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hyper::header::HOST;
use hyper::http::request::Parts;
use hyper::{HeaderMap, Method};
use listen::http::spelled_names;
use percent_encoding::percent_decode_str;
use units::date::parse_http_date;

use super::http_error::HttpError;
use super::operation::IF_TAGS;
use crate::front::http::server::Peer;
use blob_store::{
    Conditions, ContentHeaders, EtagCondition, LeaseId, Metadata, SnapshotTime, TagExpression, names,
};

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
    /// Whether the name of the host says which account it is, not the path.
    pub(super) is_by_host: bool,
    /// Whether it is the secondary endpoint, which only reads.
    pub(super) is_secondary: bool,
    pub(super) container: Option<String>,
    pub(super) blob: Option<String>,
}

impl Request {
    /// Takes a request apart.
    ///
    /// # Errors
    /// The path is not text, or names no account.
    pub(super) fn new(parts: Parts, peer: Peer) -> Result<Self, HttpError> {
        let query = parameters(parts.uri.query().unwrap_or_default());
        let query = query.map(|(name, value)| (decode_parameter(name), decode_parameter(value))).collect();
        let query: Vec<_> = query;
        let target = Target::of(parts.uri.path(), host_of(&parts).and_then(account_of_host))?;
        let request = Self { parts, peer, query, target };
        Ok(match request.parameter("restype") {
            Some(_) => request,
            None => Self { target: request.target.of_blob(), ..request },
        })
    }

    pub(super) const fn method(&self) -> &Method {
        &self.parts.method
    }

    /// Returns the host that the client has connected to, as it says.
    pub(super) fn host(&self) -> Option<&str> {
        host_of(&self.parts)
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

    /// The snapshot that the request is about; `None` if it is about the blob itself.
    ///
    /// # Errors
    /// Its time can't be read.
    pub(super) fn snapshot(&self) -> Result<Option<SnapshotTime>, HttpError> {
        self.snapshot_parameter("snapshot")
    }

    /// A parameter that is the time of a snapshot.
    ///
    /// # Errors
    /// It can't be read.
    pub(super) fn snapshot_parameter(&self, name: &'static str) -> Result<Option<SnapshotTime>, HttpError> {
        match self.parameter(name) {
            None => Ok(None),
            Some(text) => SnapshotTime::parse(text).map(Some).ok_or(HttpError::Parameter { name }),
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

    /// Checks that a write has a supported combination of conditions: one, or an ETag and a date of the same kind.
    ///
    /// # Errors
    /// The combination is not supported.
    pub(super) fn check_combination(&self) -> Result<(), HttpError> {
        let given = |name| self.header(name).is_some();
        let is_list = |name| self.header(name).is_some_and(|text| text.contains(','));
        let (wanted, unwanted) =
            (["if-match", "if-unmodified-since"], ["if-none-match", "if-modified-since"]);
        let of_both = wanted.into_iter().any(given) && unwanted.into_iter().any(given);
        match of_both || is_list("if-match") || is_list("if-none-match") {
            true => Err(HttpError::Conditions),
            false => Ok(()),
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
            if_tags: match self.header(IF_TAGS) {
                None => None,
                Some(text) => Some(TagExpression::parse(text).ok_or_else(|| HttpError::header(IF_TAGS))?),
            },
            lease: self.lease_id("x-ms-lease-id")?,
        })
    }

    /// The metadata.
    ///
    /// # Errors
    /// A name is none that metadata can have, a value is not text, or there is too much.
    pub(super) fn metadata(&self) -> Result<Metadata, HttpError> {
        let names = spelled_names(&self.parts.headers, &self.parts.extensions, METADATA);
        metadata_of(&self.parts.headers, &names)
    }

    /// The headers that are to be kept with a blob that is written.
    ///
    /// # Errors
    /// The checksum is invalid.
    pub(super) fn content_headers(&self) -> Result<ContentHeaders, HttpError> {
        let header = |name| self.header(name).filter(|it| !it.is_empty());
        let either = |own, plain| header(own).or_else(|| header(plain)).map(str::to_owned);
        let own = |name| header(name).map(str::to_owned);
        Ok(ContentHeaders {
            content_type: either("x-ms-blob-content-type", "content-type"),
            content_encoding: either("x-ms-blob-content-encoding", "content-encoding"),
            content_language: either(BLOB_CONTENT_LANGUAGE, "content-language"),
            content_disposition: own(BLOB_CONTENT_DISPOSITION),
            cache_control: either(BLOB_CACHE_CONTROL, "cache-control"),
            content_md5: self.kept_md5()?,
        })
    }

    /// Returns the checksum to be stored with a blob.
    fn kept_md5(&self) -> Result<Option<String>, HttpError> {
        let Some(text) = self.nonempty_header(BLOB_CONTENT_MD5) else {
            return Ok(None);
        };
        match STANDARD.decode(text).is_ok_and(|bytes| bytes.len() == 16) {
            true => Ok(Some(text.to_owned())),
            false => Err(HttpError::InvalidMd5 { name: BLOB_CONTENT_MD5 }),
        }
    }

    /// Returns the headers that replace all of a blob. Missing ones are cleared, including the type.
    ///
    /// # Errors
    /// The checksum is invalid.
    pub(super) fn replaced_headers(&self) -> Result<ContentHeaders, HttpError> {
        let own = |name| self.nonempty_header(name).map(str::to_owned);
        Ok(ContentHeaders {
            content_type: own(BLOB_CONTENT_TYPE).or_else(|| Some(String::new())),
            content_encoding: own(BLOB_CONTENT_ENCODING),
            content_language: own(BLOB_CONTENT_LANGUAGE),
            content_disposition: own(BLOB_CONTENT_DISPOSITION),
            cache_control: own(BLOB_CACHE_CONTROL),
            content_md5: self.kept_md5()?,
        })
    }

    /// Returns whether the request has at least one of the [headers that replace](Self::replaced_headers) those of a blob.
    pub(super) fn has_replaced_headers(&self) -> bool {
        BLOB_HEADERS.into_iter().any(|name| self.nonempty_header(name).is_some())
    }

    fn nonempty_header(&self, name: &str) -> Option<&str> {
        self.header(name).filter(|value| !value.is_empty())
    }
}

impl Target {
    /// Returns the target of the same path if it names a blob: without a container, the blob is in `$root`.
    fn of_blob(self) -> Self {
        match self.clone() {
            Self { container: Some(blob), blob: None, .. } => {
                Self { container: Some(ROOT.to_owned()), blob: Some(blob), ..self }
            }
            other => other,
        }
    }

    /// Reads a path: account, unless that `of_host` is given, container, and the rest is the blob's. Clients differ in what they
    /// escape, and mean the same.
    fn of(path: &str, of_host: Option<&str>) -> Result<Self, HttpError> {
        let decoded = |text: &str| {
            percent_decode_str(text).decode_utf8().map(Cow::into_owned).map_err(|_not_text| HttpError::Uri)
        };
        let segments = if of_host.is_some() { 2 } else { 3 };
        let mut segments = path.strip_prefix('/').unwrap_or(path).splitn(segments, '/');
        let mut next = || segments.next().filter(|segment| !segment.is_empty()).map(decoded).transpose();
        let account = match of_host {
            Some(account) => account.to_ascii_lowercase(),
            None => next()?.ok_or(HttpError::Uri)?,
        };
        let (account, is_secondary) = match account.strip_suffix(SECONDARY) {
            Some(account) => (account.to_owned(), true),
            None => (account, false),
        };
        let container = next()?;
        let blob = next()?.map(|name| name.replace('\\', "/"));
        Ok(Self { account, is_by_host: of_host.is_some(), is_secondary, container, blob })
    }
}

/// What the name of the secondary endpoint of an account ends with.
pub(super) const SECONDARY: &str = "-secondary";

/// The headers of requests that are stored with a blob.
const BLOB_HEADERS: [&str; 6] = [
    BLOB_CONTENT_TYPE,
    BLOB_CONTENT_ENCODING,
    BLOB_CONTENT_LANGUAGE,
    BLOB_CONTENT_DISPOSITION,
    BLOB_CACHE_CONTROL,
    BLOB_CONTENT_MD5,
];
const BLOB_CONTENT_TYPE: &str = "x-ms-blob-content-type";
const BLOB_CONTENT_ENCODING: &str = "x-ms-blob-content-encoding";
const BLOB_CONTENT_LANGUAGE: &str = "x-ms-blob-content-language";
const BLOB_CONTENT_DISPOSITION: &str = "x-ms-blob-content-disposition";
const BLOB_CACHE_CONTROL: &str = "x-ms-blob-cache-control";
const BLOB_CONTENT_MD5: &str = "x-ms-blob-content-md5";

fn host_of(head: &Parts) -> Option<&str> {
    head.uri.host().or_else(|| head.headers.get(HOST)?.to_str().ok())
}

/// The account that the name of a host is of: `ACCOUNT.blob.`, and anything behind it. Programs know no other form of it.
fn account_of_host(host: &str) -> Option<&str> {
    let (account, rest) = host.split_once('.')?;
    let is_of_blobs = rest.get(..5).is_some_and(|start| start.eq_ignore_ascii_case("blob."));
    (is_of_blobs && !account.is_empty()).then_some(account)
}

/// The names and values of a query as they were sent.
pub(super) fn parameters(query: &str) -> impl Iterator<Item = (&str, &str)> {
    let parameters = query.split('&').filter(|parameter| !parameter.is_empty());
    parameters.map(|parameter| parameter.split_once('=').unwrap_or((parameter, "")))
}

/// The metadata in `headers`, whose `names` are as the client spelled them.
fn metadata_of(headers: &HeaderMap, names: &[String]) -> Result<Metadata, HttpError> {
    let mut metadata = Metadata::new();
    let mut bytes = 0;
    for name in names {
        let Some(key) = name.get(METADATA.len()..) else {
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

/// The container whose blobs have no container in their paths.
const ROOT: &str = "$root";

pub(super) const METADATA: &str = "x-ms-meta-";

/// What a blob's metadata may take, as in the service.
const METADATA_BYTES: usize = 8 * 1024;

#[cfg(test)]
mod tests {
    use super::*;

    fn target(path: &str) -> (String, Option<String>, Option<String>) {
        let target = Target::of(path, None).unwrap();
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
        assert!(Target::of("/", None).is_err());
        assert!(Target::of("/a/b/%ff", None).is_err());
    }

    #[test]
    fn the_name_of_a_host_may_say_the_account() {
        for (host, account) in [
            ("acme.blob.core.windows.net", Some("acme")),
            ("acme.BLOB.localhost:10000", Some("acme")),
            ("localhost:10000", None),
            ("127.0.0.1", None),
            ("blob.example", None),
            (".blob.example", None),
            ("acme.blob", None),
            ("acme.blobs.example", None),
        ] {
            assert_eq!(account_of_host(host), account, "{host}");
        }
        let target = Target::of("/box/a/b", Some("Acme")).unwrap();
        assert_eq!((target.account.as_str(), target.is_by_host), ("acme", true));
        assert_eq!((target.container.as_deref(), target.blob.as_deref()), (Some("box"), Some("a/b")));
        assert_eq!(Target::of("/", Some("acme")).unwrap().container, None);
        for (path, host) in [("/acme-secondary/box", None), ("/box", Some("acme-secondary"))] {
            let target = Target::of(path, host).unwrap();
            assert_eq!((target.account.as_str(), target.is_secondary), ("acme", true));
            assert_eq!(target.container.as_deref(), Some("box"));
        }
    }

    #[test]
    fn metadata_keeps_empty_values_and_has_its_limits() {
        let mut headers = HeaderMap::new();
        headers.insert("x-ms-meta-ownerid", "".parse().unwrap());
        headers.append("x-ms-meta-a", "1".parse().unwrap());
        headers.append("x-ms-meta-a", "2".parse().unwrap());
        let names = ["x-ms-meta-OwnerId", "x-ms-meta-a"].map(str::to_owned);
        let mut metadata = metadata_of(&headers, &names).unwrap();
        metadata.sort();
        let expected = [("OwnerId", ""), ("a", "1,2")];
        assert_eq!(metadata, expected.map(|(name, value)| (name.to_owned(), value.to_owned())));
        headers.insert("x-ms-meta-b", "x".repeat(9000).parse().unwrap());
        assert_eq!(metadata_of(&headers, &["x-ms-meta-b".to_owned()]), Err(HttpError::MetadataSize));
        headers.insert("x-ms-meta-a-b", "".parse().unwrap());
        assert!(metadata_of(&headers, &["x-ms-meta-a-b".to_owned()]).is_err());
    }
}
