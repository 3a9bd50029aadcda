//! Requests as they are written.
//!
//! ```text
//!   PUT /account/container/hub/3/41 HTTP/1.1        or with ?sv=…&sig=… and without the next two
//!   Authorization: SharedKey account:signature      or Bearer … and without the next one
//!   x-ms-date: …
//!   Host, x-ms-version, x-ms-blob-type, If-None-Match: *, Content-MD5, Content-Type, Content-Length
//!
//!   the content
//! ```
//!
//! What is signed is what [`StorageAccountKey`](access::storage::StorageAccountKey) signs of a request with these headers; it is put
//! together here, since that takes any headers in any order and memory for each.

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use access::Secret;
use access::storage::StorageCredential;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use units::md5::{Md5, md5};

use super::account::Account;
use crate::identity::{BearerToken, FollowedToken};

/// A request, in memory that is used again.
#[derive(Debug, Default)]
pub(in crate::archive) struct BlobRequest {
    /// What it means to who made it.
    pub(in crate::archive) token: u64,
    pub(super) bytes: Vec<u8>,
    /// The blob.
    pub(in crate::archive) name: String,
    /// How long its content is, and the digest of it.
    pub(in crate::archive) length: u64,
    pub(in crate::archive) md5: Md5,
}

/// Writes requests.
#[derive(Debug)]
pub(in crate::archive) struct Heads {
    account: Arc<Account>,
    bearer: Option<Bearer>,
    /// The present second, and how headers write it.
    second: u64,
    date: String,
    /// Scratch: the path, what is signed, the signature, the digest.
    path: String,
    text: String,
    signature: String,
    digest: String,
}

/// The tokens of an identity, and the newest one as a header.
#[derive(Debug)]
struct Bearer {
    followed: FollowedToken,
    value: Secret,
}

/// A blob that is to be written as a whole, where there is none.
#[derive(Clone, Copy, Debug)]
pub(in crate::archive) struct PutBlob<'a> {
    pub(in crate::archive) name: &'a str,
    pub(in crate::archive) content: &'a [u8],
    pub(in crate::archive) content_type: &'a str,
}

impl Heads {
    /// `bearer` are the tokens for an account that is written to with those of an identity.
    pub(super) fn new(account: Arc<Account>, bearer: Option<FollowedToken>) -> Self {
        let bearer = bearer.map(|mut followed| Bearer { value: header(&followed.current()), followed });
        Self {
            account,
            bearer,
            second: 0,
            date: String::new(),
            path: String::new(),
            text: String::new(),
            signature: String::new(),
            digest: String::new(),
        }
    }

    /// Writes a request in the place of another one.
    pub(in crate::archive) fn put_blob(&mut self, request: &mut BlobRequest, blob: &PutBlob<'_>) {
        let &PutBlob { name, content, content_type } = blob;
        request.length = content.len() as u64;
        request.md5 = md5(content);
        request.name.clear();
        request.name.push_str(name);
        self.digest.clear();
        STANDARD.encode_string(request.md5, &mut self.digest);
        self.path.clear();
        self.path.push_str(&self.account.path);
        self.path.extend(utf8_percent_encode(name, PATH));
        let (path, digest, host) = (&self.path, &self.digest, &self.account.host_field);
        let out = &mut request.bytes;
        out.clear();
        // Memory takes everything.
        let _ = match &self.account.credential {
            StorageCredential::Signature(query) => {
                write_bytes(out, format_args!("PUT {path}?{} HTTP/1.1\r\n", query.reveal()))
            }
            StorageCredential::Identity => {
                if let Some(bearer) = &mut self.bearer
                    && let Some(token) = bearer.followed.changed()
                {
                    bearer.value = header(&token);
                }
                let value = self.bearer.as_ref().map_or("", |bearer| bearer.value.reveal());
                write_bytes(out, format_args!("PUT {path} HTTP/1.1\r\nAuthorization: {value}\r\n"))
            }
            StorageCredential::Key(key) => {
                let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
                if since.as_secs() != self.second || self.date.is_empty() {
                    self.second = since.as_secs();
                    self.date = units::date::http_date(UNIX_EPOCH + since);
                }
                let (date, account) = (&self.date, key.account());
                let text = &mut self.text;
                text.clear();
                text.push_str("PUT\n\n\n");
                let _ = match content.len() {
                    // A length of zero is signed as none.
                    0 => Ok(()),
                    length => write!(text, "{length}"),
                };
                let _ = write!(
                    text,
                    "\n{digest}\n{content_type}\n\n\n\n*\n\n\nx-ms-blob-type:{BLOCK_BLOB}\nx-ms-date:{date}\n\
                     x-ms-version:{VERSION}\n/{account}{path}"
                );
                self.signature.clear();
                STANDARD.encode_string(key.sign_text(text), &mut self.signature);
                let signature = &self.signature;
                write_bytes(
                    out,
                    format_args!(
                        "PUT {path} HTTP/1.1\r\nAuthorization: SharedKey {account}:{signature}\r\nx-ms-date: {date}\r\n"
                    ),
                )
            }
        };
        let length = content.len();
        let _ = write_bytes(
            out,
            format_args!(
                "Host: {host}\r\nx-ms-version: {VERSION}\r\nx-ms-blob-type: {BLOCK_BLOB}\r\nIf-None-Match: *\r\n\
                 Content-MD5: {digest}\r\nContent-Type: {content_type}\r\nContent-Length: {length}\r\n\r\n"
            ),
        );
        out.extend_from_slice(content);
    }
}

fn header(token: &BearerToken) -> Secret {
    format!("Bearer {}", token.reveal()).into()
}

fn write_bytes(out: &mut Vec<u8>, text: std::fmt::Arguments<'_>) -> std::io::Result<()> {
    std::io::Write::write_fmt(out, text)
}

/// The version of the service's protocol.
const VERSION: &str = "2021-12-02";

const BLOCK_BLOB: &str = "BlockBlob";

/// What is escaped in the path of a request: all but what URLs have unescaped anyway, and the slashes between segments.
const PATH: &AsciiSet = &NON_ALPHANUMERIC.remove(b'/').remove(b'-').remove(b'_').remove(b'.').remove(b'~');

#[cfg(test)]
mod tests {
    use access::storage::{StorageConnectionString, StorageRequest};

    use super::*;
    use crate::archive::options::BlobPlace;

    fn write(connection_string: &str, name: &str, content: &[u8]) -> (BlobRequest, StorageConnectionString) {
        let connection_string: StorageConnectionString = connection_string.parse().unwrap();
        let account = Account::of(&BlobPlace::new(connection_string.clone(), "archive")).unwrap();
        let mut heads = Heads::new(Arc::new(account), None);
        let mut request = BlobRequest { bytes: b"what was there".to_vec(), ..BlobRequest::default() };
        // Twice, so that what is left of the first would show.
        heads.put_blob(&mut request, &PutBlob { name: "another", content: b"one", content_type: "a/b" });
        heads.put_blob(&mut request, &PutBlob { name, content, content_type: "text/plain" });
        (request, connection_string)
    }

    #[test]
    fn a_request_is_signed_as_the_key_signs_it() {
        for (name, content) in [("hub/3/41", &b"content"[..]), ("a hub%2f/\u{e9}/#?", b"")] {
            let (request, connection_string) = write("UseDevelopmentStorage=true", name, content);
            let text = String::from_utf8(request.bytes.clone()).unwrap();
            let (head, body) = text.split_once("\r\n\r\n").unwrap();
            assert_eq!(body.as_bytes(), content);
            let mut lines = head.lines();
            let path = lines.next().unwrap().strip_prefix("PUT ").unwrap().strip_suffix(" HTTP/1.1").unwrap();
            let headers: Vec<(&str, &str)> = lines.map(|line| line.split_once(": ").unwrap()).collect();
            let authorization = headers.iter().find(|(name, _)| *name == "Authorization").unwrap().1;
            let StorageCredential::Key(key) = &connection_string.credential else { panic!("a key") };
            let signed = StorageRequest { method: "PUT", path, query: &[], headers: &headers };
            assert_eq!(key.authorization(&signed), authorization, "{head}");
            assert!(path.starts_with("/devstoreaccount1/archive/"), "{path}");
            assert!(path.bytes().all(|byte| byte.is_ascii_graphic() && !b"?#".contains(&byte)), "{path}");
            assert_eq!((request.name.as_str(), request.length), (name, content.len() as u64));
        }
    }

    #[test]
    fn a_signature_goes_into_the_query_and_nothing_is_signed() {
        let (request, _) = write(
            "BlobEndpoint=https://one.blob.test;SharedAccessSignature=sv=1&sig=a%3D",
            "hub/3/41",
            b"content",
        );
        let text = String::from_utf8(request.bytes).unwrap();
        assert!(
            text.starts_with("PUT /archive/hub/3/41?sv=1&sig=a%3D HTTP/1.1\r\nHost: one.blob.test\r\n"),
            "{text}"
        );
        assert!(!text.contains("Authorization"), "{text}");
    }
}
