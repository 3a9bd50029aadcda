//! The key of a storage account, and the signature of a request by it.
//!
//! What is signed is the request itself, in a form that both sides derive from it:
//!
//! ```text
//!   PUT                                   the method
//!   (eleven lines)                        Content-Encoding … Range: standard headers, empty where absent
//!   x-ms-date:Fri, 20 Nov 2026 …          every header that begins with x-ms-, by name
//!   /account/account/container/blob       the account, then the path as it was sent
//!   comp:metadata                         every query parameter, by name
//! ```
//!
//! `SharedKeyLite` covers fewer headers (`Content-MD5`, `Content-Type`, `Date`) and parameters (`comp`). It is verified for old clients,
//! and not used.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ring::hmac;

/// The name of a storage account with one of its keys.
#[derive(Clone)]
pub struct StorageAccountKey {
    account: String,
    /// Made once: it is used for every request.
    key: hmac::Key,
    /// The key as it is written, in base64.
    value: crate::Secret,
}

/// The text is not a key of a storage account. Contains nothing of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the account key is not base64")]
pub struct StorageKeyError;

/// A request, as far as it is signed.
#[derive(Clone, Copy, Debug)]
pub struct StorageRequest<'a> {
    /// The method, in capitals.
    pub method: &'a str,
    /// The path as it is on the wire: still percent-encoded, and with the account where the endpoint has it there.
    pub path: &'a str,
    /// The query's names and values, decoded, in any order.
    pub query: &'a [(Cow<'a, str>, Cow<'a, str>)],
    /// The headers' names, in any case, and values, in any order. What is not signed is passed over.
    pub headers: &'a [(&'a str, &'a str)],
}

impl StorageAccountKey {
    /// The key of `account` whose base64 form is `value`.
    ///
    /// # Errors
    /// When the value is not base64.
    pub fn new(account: impl Into<String>, value: impl Into<crate::Secret>) -> Result<Self, StorageKeyError> {
        let value = value.into();
        let bytes = STANDARD.decode(value.reveal()).map_err(|_| StorageKeyError)?;
        if bytes.is_empty() {
            return Err(StorageKeyError);
        }
        Ok(Self { account: account.into(), key: hmac::Key::new(hmac::HMAC_SHA256, &bytes), value })
    }

    /// The account.
    #[must_use]
    pub fn account(&self) -> &str {
        &self.account
    }

    /// The key in base64, as it stands in a connection string.
    #[must_use]
    pub fn value(&self) -> &crate::Secret {
        &self.value
    }

    /// The value of the header `Authorization` for a request: `SharedKey <account>:<signature>`.
    #[must_use]
    pub fn authorization(&self, request: &StorageRequest<'_>) -> String {
        let is_zero_signed = request.is_zero_signed().unwrap_or(false);
        let text = self.signed_text(request, Scheme::SharedKey, Order::Bytes, is_zero_signed);
        let signature = STANDARD.encode(hmac::sign(&self.key, text.as_bytes()));
        format!("{SHARED_KEY}{}:{signature}", self.account)
    }

    /// Whether the value of a header `Authorization` is this key's for a request. Takes the same time whichever byte of
    /// the signature differs.
    #[must_use]
    pub fn has_authorized(&self, request: &StorageRequest<'_>, authorization: &str) -> bool {
        let read = |scheme, name| {
            let (account, signature) = authorization.strip_prefix(name)?.split_once(':')?;
            let signature = STANDARD.decode(signature).ok()?;
            (account == self.account).then_some((scheme, signature))
        };
        let read =
            read(Scheme::SharedKey, SHARED_KEY).or_else(|| read(Scheme::SharedKeyLite, SHARED_KEY_LITE));
        let Some((scheme, signature)) = read else {
            return false;
        };
        let zeros: &[bool] = match request.is_zero_signed() {
            None => &[false, true],
            Some(false) => &[false],
            Some(true) => &[true],
        };
        zeros.iter().any(|is_zero_signed| {
            // Clients differ in how they sort names that have hyphens, underscores and digits.
            Order::ALL.into_iter().any(|order| {
                let text = self.signed_text(request, scheme, order, *is_zero_signed);
                hmac::verify(&self.key, text.as_bytes(), &signature).is_ok()
            })
        })
    }

    /// Signs any other text, such as the fields of a shared access signature.
    #[must_use]
    pub fn sign_text(&self, text: &str) -> [u8; 32] {
        let tag = hmac::sign(&self.key, text.as_bytes());
        let mut signature = [0; 32];
        signature.copy_from_slice(tag.as_ref());
        signature
    }

    /// Whether a signature is this key's for another text.
    #[must_use]
    pub fn has_signed_text(&self, text: &str, signature: &[u8]) -> bool {
        hmac::verify(&self.key, text.as_bytes(), signature).is_ok()
    }

    fn signed_text(
        &self,
        request: &StorageRequest<'_>,
        scheme: Scheme,
        order: Order,
        is_zero_signed: bool,
    ) -> String {
        let has_own_date = request.header("x-ms-date").is_some();
        let mut text = format!("{}\n", request.method);
        for name in SIGNED_HEADERS.iter().filter(|name| scheme.has_header(name)) {
            let value = match (*name, request.header(name)) {
                ("content-length", Some("0")) if !is_zero_signed => "",
                ("date", Some(_)) if has_own_date => "",
                (_, value) => value.unwrap_or_default(),
            };
            text.push_str(value);
            text.push('\n');
        }
        for (name, values) in request.own_headers(order) {
            text.push_str(&format!("{name}:{values}\n"));
        }
        text.push_str(&format!("/{}", self.account));
        text.push_str(if request.path.is_empty() { "/" } else { request.path });
        for (name, values) in request.parameters() {
            match scheme {
                Scheme::SharedKey => text.push_str(&format!("\n{name}:{values}")),
                Scheme::SharedKeyLite if name == "comp" => text.push_str(&format!("?comp={values}")),
                Scheme::SharedKeyLite => {}
            }
        }
        text
    }
}

impl StorageRequest<'_> {
    fn header(&self, wanted: &str) -> Option<&str> {
        self.headers.iter().find(|(name, _)| name.eq_ignore_ascii_case(wanted)).map(|(_, value)| value.trim())
    }

    /// Whether a length of zero is signed as `0`, as in old versions. A request without a version may be part of a batch of a new one.
    fn is_zero_signed(&self) -> Option<bool> {
        self.header("x-ms-version").map(|version| version < WITHOUT_ZERO)
    }

    /// The service's own headers; those of one name are one, with all values.
    fn own_headers(&self, order: Order) -> Vec<(String, String)> {
        let own = self
            .headers
            .iter()
            .map(|(name, value)| (name.to_ascii_lowercase(), value.trim()))
            .filter(|(name, _)| name.starts_with("x-ms-"));
        let mut own: Vec<_> = own.collect();
        match order {
            Order::Bytes => own.sort_by(|(one, _), (other, _)| one.cmp(other)),
            Order::Dictionary => own.sort_by(|(one, _), (other, _)| {
                let letters = |name: &str| name.replace('-', "");
                letters(one).cmp(&letters(other)).then(one.cmp(other))
            }),
            Order::Service => own.sort_by(|(one, _), (other, _)| {
                let weights = |name: &str| name.chars().filter_map(collation_weight).collect::<Vec<_>>();
                weights(one).cmp(&weights(other)).then_with(|| hyphen_last(one, other))
            }),
        }
        joined(own)
    }

    /// The query's parameters; those of one name are one, with all values in order.
    fn parameters(&self) -> Vec<(String, String)> {
        let mut parameters: Vec<_> =
            self.query.iter().map(|(name, value)| (name.to_lowercase(), value.as_ref())).collect();
        parameters.sort();
        joined(parameters)
    }
}

impl PartialEq for StorageAccountKey {
    fn eq(&self, other: &Self) -> bool {
        self.account == other.account && self.value == other.value
    }
}

impl Eq for StorageAccountKey {}

impl fmt::Debug for StorageAccountKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StorageAccountKey").field("account", &self.account).finish_non_exhaustive()
    }
}

/// The authorization scheme of a signed request.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Scheme {
    SharedKey,
    SharedKeyLite,
}

impl Scheme {
    fn has_header(self, name: &str) -> bool {
        self == Self::SharedKey || matches!(name, "content-md5" | "content-type" | "date")
    }
}

/// How names are compared where they are put in order.
#[derive(Clone, Copy)]
enum Order {
    Bytes,
    /// By their bytes without hyphens.
    Dictionary,
    /// As the service collates them, which .NET's and Go's clients do after it (`HeaderComparer` and its tables).
    Service,
}

impl Order {
    const ALL: [Self; 3] = [Self::Bytes, Self::Service, Self::Dictionary];
}

/// The place of a character in the service's collation; `None` if it does not count.
fn collation_weight(character: char) -> Option<u32> {
    if matches!(character, '-' | '\'') {
        return None;
    }
    let place = PUNCTUATION.find(character);
    Some(place.map_or_else(|| PUNCTUATION.len() as u32 + u32::from(character), |place| place as u32))
}

/// Compares names that differ in their hyphens alone: a hyphen comes after whatever the other one has in its place.
fn hyphen_last(one: &str, other: &str) -> Ordering {
    let mut pairs = one.chars().zip(other.chars());
    match pairs.find(|(one, other)| one != other) {
        Some(('-', _)) => Ordering::Greater,
        Some((_, '-')) => Ordering::Less,
        _ => one.len().cmp(&other.len()),
    }
}

/// Joins the values of neighbours that have the same name.
fn joined(pairs: Vec<(String, &str)>) -> Vec<(String, String)> {
    let mut joined: Vec<(String, String)> = Vec::with_capacity(pairs.len());
    for (name, value) in pairs {
        match joined.last_mut() {
            Some((last, values)) if *last == name => {
                values.push(',');
                values.push_str(value);
            }
            _ => joined.push((name, value.to_owned())),
        }
    }
    joined
}

/// Punctuation in names of headers, in the service's collation. Digits come after it, then letters.
const PUNCTUATION: &str = "!#$%&*.^_`|~+";

/// What the value of the header begins with.
const SHARED_KEY: &str = "SharedKey ";
const SHARED_KEY_LITE: &str = "SharedKeyLite ";

/// First version that signs a length of zero as an empty line.
const WITHOUT_ZERO: &str = "2015-02-21";

/// The standard headers that are signed, in the order of their lines.
const SIGNED_HEADERS: &[&str] = &[
    "content-encoding",
    "content-language",
    "content-length",
    "content-md5",
    "content-type",
    "date",
    "if-modified-since",
    "if-match",
    "if-none-match",
    "if-unmodified-since",
    "range",
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::{DEVELOPMENT_ACCOUNT, DEVELOPMENT_ACCOUNT_KEY};

    fn key() -> StorageAccountKey {
        StorageAccountKey::new(DEVELOPMENT_ACCOUNT, DEVELOPMENT_ACCOUNT_KEY).expect("a key")
    }

    #[test]
    fn a_conditional_writing_is_signed_as_other_clients_sign_it() {
        let request = StorageRequest {
            method: "PUT",
            path: "/devstoreaccount1/ck/localhost%2Fhub%2F$Default%2Fownership%2F0",
            query: &[("comp".into(), "metadata".into())],
            headers: &[
                ("If-Match", "0x8DABC"),
                ("x-ms-client-request-id", "1"),
                ("x-ms-date", "Fri, 20 Nov 2026 22:17:43 GMT"),
                ("X-Ms-Meta-OwnerId", ""),
                ("x-ms-version", "2024-11-04"),
                ("Content-Length", "0"),
            ],
        };
        let authorization = key().authorization(&request);
        assert_eq!(authorization, "SharedKey devstoreaccount1:K3QFLqAL31qV8EXyqhT7Kf+VYepvGgvIhCithbRflzY=");
        assert!(key().has_authorized(&request, &authorization));
        let other = StorageRequest {
            path: "/devstoreaccount1/ck/localhost%2Fhub%2F$Default%2Fownership%2F1",
            ..request
        };
        assert!(!key().has_authorized(&other, &authorization));
    }

    #[test]
    fn a_listing_is_signed_with_its_decoded_query_in_order() {
        let request = StorageRequest {
            method: "GET",
            path: "/devstoreaccount1/ck",
            query: &[
                ("restype".into(), "container".into()),
                ("comp".into(), "list".into()),
                ("prefix".into(), "localhost/hub/$default/ownership/".into()),
                ("include".into(), "metadata".into()),
            ],
            headers: &[("x-ms-version", "2024-11-04"), ("x-ms-date", "Fri, 20 Nov 2026 22:17:43 GMT")],
        };
        assert_eq!(
            key().authorization(&request),
            "SharedKey devstoreaccount1:XeAiuEbmDjFb4Ajh0CeOpDVNEC6ReEHROjzHWO86SPU="
        );
    }

    #[test]
    fn what_is_not_an_authorization_authorizes_nothing() {
        let request = StorageRequest { method: "GET", path: "/", query: &[], headers: &[] };
        let good = key().authorization(&request);
        for wrong in [
            "",
            "SharedKey ",
            "SharedKey devstoreaccount1",
            "SharedKey devstoreaccount1:",
            "SharedKey devstoreaccount1:?",
            &good.replace("devstoreaccount1", "another"),
            &good.replace("SharedKey", "SharedKeyLite"),
            &good.replace("SharedKey", "SharedKeyFull"),
        ] {
            assert!(!key().has_authorized(&request, wrong), "{wrong:?}");
        }
        assert!(key().has_authorized(&request, &good));
    }

    #[test]
    fn old_versions_sign_a_length_of_zero_and_old_clients_less_than_all() {
        let signed = |scheme: &str, text: &str| {
            format!("{scheme} {DEVELOPMENT_ACCOUNT}:{}", STANDARD.encode(key().sign_text(text)))
        };
        for (version, length) in
            [(Some("2014-02-14"), "0"), (None, "0"), (None, ""), (Some("2015-02-21"), "")]
        {
            let mut headers = vec![("Content-Length", "0"), ("x-ms-date", "now")];
            headers.extend(version.map(|version| ("x-ms-version", version)));
            let own = version.map(|version| format!("x-ms-version:{version}\n")).unwrap_or_default();
            let query = [("comp".into(), "metadata".into()), ("timeout".into(), "5".into())];
            let request = StorageRequest { method: "PUT", path: "/a/b", query: &query, headers: &headers };
            let whole = format!(
                "PUT\n\n\n{length}\n\n\n\n\n\n\n\n\nx-ms-date:now\n{own}/devstoreaccount1/a/b\ncomp:metadata\ntimeout:5"
            );
            assert!(key().has_authorized(&request, &signed("SharedKey", &whole)), "{version:?}");
            let lite = format!("PUT\n\n\n\nx-ms-date:now\n{own}/devstoreaccount1/a/b?comp=metadata");
            assert!(key().has_authorized(&request, &signed("SharedKeyLite", &lite)), "{version:?}");
            assert!(!key().has_authorized(&request, &signed("SharedKey", &lite)), "{version:?}");
        }
    }

    #[test]
    fn headers_sorted_as_in_a_dictionary_are_accepted() {
        let headers = [("x-ms-meta-ab", "1"), ("x-ms-meta-a-c", "2")];
        let request = StorageRequest { method: "PUT", path: "/a/b", query: &[], headers: &headers };
        let text = "PUT\n\n\n\n\n\n\n\n\n\n\n\nx-ms-meta-ab:1\nx-ms-meta-a-c:2\n/devstoreaccount1/a/b";
        let signature = STANDARD.encode(key().sign_text(text));
        let authorization = format!("SharedKey devstoreaccount1:{signature}");
        assert!(key().has_authorized(&request, &authorization));
        assert_ne!(key().authorization(&request), authorization);
    }

    #[test]
    fn headers_sorted_as_the_service_collates_them_are_accepted() {
        for (first, second) in [
            ("file_name", "file1"),
            ("a_", "a0"),
            ("x_y", "x9"),
            ("a_b", "ab"),
            ("ab", "a-b"),
            ("a-b", "a-c"),
            ("a", "a-"),
        ] {
            let [one, other] = [first, second].map(|name| format!("x-ms-meta-{name}"));
            let headers = [(&*other, "2"), (&*one, "1")];
            let request = StorageRequest { method: "PUT", path: "/a/b", query: &[], headers: &headers };
            let text = format!("PUT\n{}{one}:1\n{other}:2\n/devstoreaccount1/a/b", "\n".repeat(11));
            let signature = STANDARD.encode(key().sign_text(&text));
            let authorization = format!("SharedKey devstoreaccount1:{signature}");
            assert!(key().has_authorized(&request, &authorization), "{first} before {second}");
        }
    }

    #[test]
    fn the_key_is_neither_shown_nor_taken_when_it_is_not_base64() {
        assert!(!format!("{:?}", key()).contains("Eby8"));
        assert_eq!(StorageAccountKey::new("a", "no base64!"), Err(StorageKeyError));
        assert_eq!(StorageAccountKey::new("a", ""), Err(StorageKeyError));
    }
}
