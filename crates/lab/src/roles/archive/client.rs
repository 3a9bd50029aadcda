//! One connection to the blob endpoint, and the two requests that reading a container takes.

use std::borrow::Cow;
use std::io;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use access::storage::{StorageAccountKey, StorageConnectionString, StorageCredential, StorageRequest};
use bytes::Bytes;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use rest::chunked;
use rest::head::FIELDS_MAX;
use rest::response::{EMPTY_FIELD, Framing, ResponseHead};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use units::date::http_date;

use super::listing::{self, Page};
use crate::roles::network::BackendError;
use crate::scenario::Secret;

/// A container, and how to get in.
#[derive(Debug)]
pub(super) struct Account {
    /// Host and port.
    authority: String,
    /// The path of the container.
    path: String,
    key: StorageAccountKey,
}

/// A connection, which is made when it is needed.
#[derive(Debug)]
pub(super) struct Connection {
    account: Arc<Account>,
    stream: Option<TcpStream>,
    /// Kept from one response to the next.
    input: Vec<u8>,
}

/// Why a container can't be read.
#[derive(Debug, thiserror::Error)]
pub(super) enum ReadError {
    /// The service can't be reached, or says something that is no answer.
    #[error("reading {what} of the archive: {source}")]
    Connection {
        /// What was to be read.
        what: String,
        source: io::Error,
    },
    /// It refuses.
    #[error("reading {what} of the archive: the service answered with status {status}")]
    Refused {
        /// What was to be read.
        what: String,
        status: u16,
    },
    /// The listing is none.
    #[error("the list of blobs of the archive can't be read")]
    Listing(#[from] quick_xml::Error),
}

struct Response {
    status: u16,
    body: Vec<u8>,
}

impl Account {
    pub(super) fn of(connection_string: &Secret, container: &str) -> Result<Self, BackendError> {
        let string: StorageConnectionString = connection_string.reveal().parse()?;
        let StorageCredential::Key(key) = string.credential else {
            return Err(BackendError::NoStorage);
        };
        // The embedded service of the run speaks plain HTTP.
        let Some(rest) = string.blob_endpoint.strip_prefix("http://") else {
            return Err(BackendError::NoStorage);
        };
        let (authority, path) = rest
            .split_once('/')
            .map_or((rest, String::new()), |(authority, path)| (authority, format!("/{path}")));
        Ok(Self { authority: authority.to_owned(), path: format!("{path}/{container}"), key })
    }

    /// The text of a request, signed.
    fn request(&self, path: &str, query: &[(Cow<'_, str>, Cow<'_, str>)]) -> String {
        let date = http_date(SystemTime::now());
        let headers = [("x-ms-date", date.as_str()), ("x-ms-version", VERSION)];
        let authorization =
            self.key.authorization(&StorageRequest { method: "GET", path, query, headers: &headers });
        let mut target = path.to_owned();
        for (index, (name, value)) in query.iter().enumerate() {
            target.push(if index == 0 { '?' } else { '&' });
            target.push_str(&format!("{name}={}", utf8_percent_encode(value, QUOTED)));
        }
        let authority = &self.authority;
        format!(
            "GET {target} HTTP/1.1\r\nHost: {authority}\r\nx-ms-date: {date}\r\nx-ms-version: {VERSION}\r\n\
             Authorization: {authorization}\r\n\r\n"
        )
    }
}

impl Connection {
    pub(super) fn to(account: Arc<Account>) -> Self {
        Self { account, stream: None, input: Vec::new() }
    }

    /// A page of the names of all blobs, from a marker on that is the one before's, or nothing.
    pub(super) async fn list(&mut self, marker: &str) -> Result<Page, ReadError> {
        let mut query: Vec<(Cow<'_, str>, Cow<'_, str>)> =
            vec![("restype".into(), "container".into()), ("comp".into(), "list".into())];
        if !marker.is_empty() {
            query.push(("marker".into(), marker.into()));
        }
        let path = self.account.path.clone();
        let body = self.read("the list of blobs", &path, &query).await?;
        Ok(listing::page(&body)?)
    }

    /// The contents of blobs, in the order of their names.
    pub(super) async fn get_all(&mut self, names: &[String]) -> Result<Vec<Bytes>, ReadError> {
        let mut bodies = Vec::with_capacity(names.len());
        for name in names {
            let path = format!("{}/{}", self.account.path, utf8_percent_encode(name, QUOTED_IN_PATH));
            bodies.push(self.read(name, &path, &[]).await?.into());
        }
        Ok(bodies)
    }

    /// Reads until it works, a few times.
    async fn read(
        &mut self,
        what: &str,
        path: &str,
        query: &[(Cow<'_, str>, Cow<'_, str>)],
    ) -> Result<Vec<u8>, ReadError> {
        let (mut wait, mut attempt) = (FIRST_WAIT, 0);
        loop {
            attempt += 1;
            let request = self.account.request(path, query);
            let response = self.exchange(&request).await;
            if !matches!(response, Ok(Response { status: 200, .. })) {
                self.stream = None;
            }
            match response {
                Ok(Response { status: 200, body }) => return Ok(body),
                Ok(Response { status, .. }) if status < 500 || attempt == ATTEMPTS => {
                    return Err(ReadError::Refused { what: what.to_owned(), status });
                }
                Err(source) if attempt == ATTEMPTS => {
                    return Err(ReadError::Connection { what: what.to_owned(), source });
                }
                Ok(_) | Err(_) => {}
            }
            tokio::time::sleep(wait).await;
            wait *= 2;
        }
    }

    async fn exchange(&mut self, request: &str) -> io::Result<Response> {
        let stream = match &mut self.stream {
            Some(stream) => stream,
            empty => {
                let stream = TcpStream::connect(&self.account.authority).await?;
                stream.set_nodelay(true)?;
                empty.insert(stream)
            }
        };
        stream.write_all(request.as_bytes()).await?;
        let input = &mut self.input;
        input.clear();
        let (status, length, framing, keeps_alive) = loop {
            let mut fields = [EMPTY_FIELD; FIELDS_MAX];
            let head = ResponseHead::parse(input, &mut fields).map_err(io::Error::other)?;
            if let Some(head) = head {
                break (head.status, head.length, head.framing, head.keeps_alive);
            }
            read_on(stream, input).await?;
        };
        let body = match framing {
            Some(Framing::Length(bytes)) => {
                let bytes = usize::try_from(bytes).ok().filter(|bytes| *bytes <= LONGEST_BODY);
                let end = length + bytes.ok_or_else(|| io::Error::other("the answer is too long"))?;
                while input.len() < end {
                    read_on(stream, input).await?;
                }
                input[length..end].to_vec()
            }
            Some(Framing::Chunked) => {
                let (mut decoder, mut body) = (chunked::Decoder::new(LONGEST_BODY), Vec::new());
                let mut at = length;
                loop {
                    at += decoder.read(&input[at..], &mut body).map_err(io::Error::other)?;
                    if decoder.is_done() {
                        break body;
                    }
                    read_on(stream, input).await?;
                }
            }
            None => return Err(io::Error::other("the answer does not say how long it is")),
        };
        if !keeps_alive {
            self.stream = None;
        }
        Ok(Response { status, body })
    }
}

/// Appends what has come.
async fn read_on(stream: &mut TcpStream, input: &mut Vec<u8>) -> io::Result<()> {
    match stream.read_buf(input).await? {
        0 => Err(io::ErrorKind::UnexpectedEof.into()),
        _ if input.len() > LONGEST_BODY + LONGEST_BODY => Err(io::Error::other("the answer is too long")),
        _ => Ok(()),
    }
}

/// What is said as it is in the value of a parameter.
const QUOTED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// In a path, slashes are parts of the names of blobs.
const QUOTED_IN_PATH: &AsciiSet = &QUOTED.remove(b'/');

const VERSION: &str = "2024-11-04";

/// Several times what a page of 5,000 blobs or the largest event takes.
const LONGEST_BODY: usize = 32 << 20;

/// A service that fails on purpose fails so often in a row about never.
const ATTEMPTS: u32 = 6;

const FIRST_WAIT: Duration = Duration::from_millis(20);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_quoted_in_paths_and_markers_in_queries_and_only_the_former_are_signed_so() {
        let string =
            "DefaultEndpointsProtocol=http;AccountName=a;AccountKey=a2V5;BlobEndpoint=http://127.0.0.1:9/a";
        let account = Account::of(&Secret::new(string), "box").expect("it is a connection string");
        assert_eq!((account.authority.as_str(), account.path.as_str()), ("127.0.0.1:9", "/a/box"));
        let quoted = utf8_percent_encode("hub/0/1 2%", QUOTED_IN_PATH).to_string();
        assert_eq!(quoted, "hub/0/1%202%25");
        let text = account.request("/a/box", &[("marker".into(), "a/b".into())]);
        assert!(text.starts_with("GET /a/box?marker=a%2Fb HTTP/1.1\r\nHost: 127.0.0.1:9\r\n"), "{text}");
        assert!(text.ends_with("\r\n\r\n"));
        let encrypted = string.replace("http://", "https://");
        assert!(matches!(Account::of(&Secret::new(encrypted), "box"), Err(BackendError::NoStorage)));
    }
}
