//! What the real service has and this one does not: a request that asks for it is refused, and never carried out without.
//!
//! Everything that is served is named here, so that headers and parameters of versions to come are refused as well.

use std::collections::BTreeSet;

use access::storage::StorageSignature;

use super::http_error::HttpError;
use super::operation::{Operation, TIER};
use super::request::{METADATA, Request};
use blob_store::AccessTier;

/// Whether everything that `request` asks for is here.
///
/// # Errors
/// A header or a parameter would change what it does, and is not served.
pub(super) fn check(operation: Operation, request: &Request) -> Result<(), HttpError> {
    let names: BTreeSet<&str> = request
        .parts
        .headers
        .keys()
        .map(hyper::header::HeaderName::as_str)
        .filter(|name| name.starts_with(PREFIX) && !is_served(name, operation, request))
        .collect();
    if !names.is_empty() {
        let names: Vec<&str> = names.into_iter().collect();
        return Err(HttpError::UnservedHeaders { names: names.join(", ") });
    }
    let own = operation.parameters();
    let unserved = request.query().iter().find(|(name, _)| {
        let mut served = COMMON.iter().chain(&StorageSignature::FIELDS).chain(own);
        !served.any(|other| other.eq_ignore_ascii_case(name))
    });
    match unserved {
        None => Ok(()),
        // Snapshots are not written to.
        Some((name, _)) if name.eq_ignore_ascii_case("snapshot") => {
            Err(HttpError::Parameter { name: "snapshot" })
        }
        Some((name, _)) => Err(HttpError::UnservedParameter { name: name.clone() }),
    }
}

fn is_served(name: &str, operation: Operation, request: &Request) -> bool {
    if name.starts_with(METADATA) || SERVED.contains(&name) || operation.headers().contains(&name) {
        return true;
    }
    let mut neutral = NEUTRAL.iter().filter(|(other, _)| *other == name);
    neutral.any(|(_, neutral)| {
        let values = request.parts.headers.get_all(name);
        values.iter().all(|value| value.as_bytes().eq_ignore_ascii_case(neutral.as_bytes()))
    })
}

const PREFIX: &str = "x-ms-";

/// Headers that are understood wherever they have a meaning, and those that change nothing.
const SERVED: [&str; 30] = [
    "x-ms-blob-cache-control",
    "x-ms-blob-condition-appendpos",
    "x-ms-blob-condition-maxsize",
    "x-ms-blob-content-disposition",
    "x-ms-blob-content-encoding",
    "x-ms-blob-content-language",
    "x-ms-blob-content-md5",
    "x-ms-blob-content-type",
    "x-ms-blob-type",
    "x-ms-client-request-id",
    "x-ms-content-crc64",
    "x-ms-correlation-request-id",
    "x-ms-date",
    "x-ms-lease-action",
    "x-ms-lease-break-period",
    "x-ms-lease-duration",
    "x-ms-lease-id",
    "x-ms-proposed-lease-id",
    "x-ms-range",
    "x-ms-range-get-content-crc64",
    "x-ms-range-get-content-md5",
    "x-ms-request-id",
    "x-ms-request-root-id",
    "x-ms-return-client-request-id",
    "x-ms-structured-body",
    "x-ms-structured-content-length",
    "x-ms-user-agent",
    "x-ms-useragent",
    "x-ms-version",
    // What tells how a token was come by. Tokens are refused already.
    "x-ms-file-request-intent",
];

/// Headers that are served with these values alone: they ask for what is so without them.
const NEUTRAL: [(&str, &str); 5] = [
    (TIER, AccessTier::Hot.name()),
    ("x-ms-default-encryption-scope", "$account-encryption-key"),
    ("x-ms-deny-encryption-scope-override", "false"),
    ("x-ms-legal-hold", "false"),
    ("x-ms-tags", ""),
];

/// Parameters of all operations. None of them is waited for as long as `timeout` says.
const COMMON: [&str; 4] = ["comp", "restype", "timeout", "api-version"];
