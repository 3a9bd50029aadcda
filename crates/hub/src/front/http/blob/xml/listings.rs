//! Listings of containers and blobs.

use std::time::SystemTime;

use units::date::http_date;

use super::super::pages::SEQUENCE_NUMBER;
use super::tags::tags;
use super::{COPIED, DEFAULT_TYPE, Document, LeaseWords, access_name, kind_name};
use blob_store::{
    AccessTier, Blob, BlobForm, BlobKind, Container, FoundBlob, Lease, ListRequest, Listed, Listing,
    TierSetting,
};

/// Parameters of a list of containers, as the request gave them.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct ContainerPage<'a> {
    pub(in super::super) prefix: &'a str,
    pub(in super::super) marker: &'a str,
    pub(in super::super) maximum: usize,
    pub(in super::super) next: &'a str,
    pub(in super::super) with_metadata: bool,
    /// Time at which leases are judged.
    pub(in super::super) now: SystemTime,
}

/// Parts of a listing of blobs besides the blobs.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct BlobPage<'a> {
    pub(in super::super) endpoint: &'a str,
    pub(in super::super) container: &'a str,
    pub(in super::super) marker: &'a str,
    pub(in super::super) next: &'a str,
    pub(in super::super) with_metadata: bool,
    pub(in super::super) with_copies: bool,
    pub(in super::super) with_tags: bool,
    /// Time at which leases are judged.
    pub(in super::super) now: SystemTime,
}

/// The blobs of a container.
pub(in super::super) fn blobs(page: &BlobPage<'_>, request: &ListRequest<'_>, listing: &Listing) -> String {
    let attributes = [("ServiceEndpoint", page.endpoint), ("ContainerName", page.container)];
    Document::text("EnumerationResults", &attributes, |document| {
        document.element("Prefix", request.prefix);
        document.element("Marker", page.marker);
        document.element("MaxResults", &request.maximum.to_string());
        if let Some(delimiter) = request.delimiter {
            document.element("Delimiter", delimiter);
        }
        document.parent("Blobs", |document| {
            for entry in &listing.entries {
                match entry {
                    Listed::Prefix(prefix) => {
                        document.parent("BlobPrefix", |document| document.element("Name", prefix));
                    }
                    Listed::Blob { name, blob } => listed_blob(document, name, blob, page),
                    Listed::Uncommitted { name, since } => listed_uncommitted(document, name, *since),
                }
            }
        });
        document.element("NextMarker", page.next);
    })
}

/// The blobs of a container that has none.
pub(in super::super) fn no_blobs(endpoint: &str, container: &str, prefix: &str, maximum: usize) -> String {
    let request = ListRequest {
        prefix,
        delimiter: None,
        from: None,
        before: None,
        with_snapshots: false,
        with_uncommitted: false,
        maximum,
        maximum_bytes: u64::MAX,
    };
    let page = BlobPage {
        endpoint,
        container,
        marker: "",
        next: "",
        with_metadata: false,
        with_copies: false,
        with_tags: false,
        now: SystemTime::UNIX_EPOCH,
    };
    blobs(&page, &request, &Listing::default())
}

fn listed_blob(document: &mut Document, name: &str, blob: &Blob, page: &BlobPage<'_>) {
    let (version, headers) = (blob.version(), &blob.description().headers);
    document.parent("Blob", |document| {
        document.element("Name", name);
        if let Some(time) = blob.snapshot() {
            document.element("Snapshot", &time.to_string());
        }
        document.parent("Properties", |document| {
            document.element("Creation-Time", &http_date(blob.created_at()));
            document.element("Last-Modified", &http_date(version.modified_at));
            document.element("Etag", &version.etag.to_string());
            document.element("Content-Length", &blob.length().to_string());
            let content_type = headers.content_type.as_deref();
            document.element("Content-Type", content_type.unwrap_or(DEFAULT_TYPE));
            for (name, value) in [
                ("Content-Encoding", &headers.content_encoding),
                ("Content-Language", &headers.content_language),
                ("Content-Disposition", &headers.content_disposition),
                ("Cache-Control", &headers.cache_control),
                ("Content-MD5", &headers.content_md5),
            ] {
                document.element(name, value.as_deref().unwrap_or_default());
            }
            document.element("BlobType", kind_name(blob.kind()));
            match blob.form() {
                BlobForm::Block => tier(document, blob.description().tier),
                BlobForm::Append { .. } => {}
                BlobForm::Page { sequence_number } => {
                    document.element(SEQUENCE_NUMBER, &sequence_number.to_string());
                }
            }
            lease(document, blob.lease(), page.now);
            if page.with_copies
                && let Some(copy) = &blob.description().copy
            {
                document.element("CopyId", &copy.id);
                document.element("CopySource", &copy.source);
                document.element("CopyStatus", COPIED);
                document.element("CopyProgress", &format!("{0}/{0}", copy.length));
                document.element("CopyCompletionTime", &http_date(copy.completed_at()));
            }
            document.element("ServerEncrypted", "true");
            let tags = blob.description().tags.len();
            if tags > 0 {
                document.element("TagCount", &tags.to_string());
            }
        });
        if page.with_metadata {
            metadata(document, &blob.description().metadata);
        }
        if page.with_tags && !blob.description().tags.is_empty() {
            tags(document, &blob.description().tags);
        }
    });
}

/// Writes a blob that has only uncommitted blocks. It has neither ETag nor type, as in the service.
fn listed_uncommitted(document: &mut Document, name: &str, since: SystemTime) {
    document.parent("Blob", |document| {
        document.element("Name", name);
        document.parent("Properties", |document| {
            document.element("Creation-Time", &http_date(since));
            document.element("Last-Modified", &http_date(since));
            document.element("Content-Length", "0");
            document.element("BlobType", kind_name(BlobKind::Block));
            lease(document, None, since);
        });
    });
}

/// Blobs that were found by their tags.
pub(in super::super) fn found_blobs(endpoint: &str, wanted: &str, found: &[FoundBlob], next: &str) -> String {
    Document::text("EnumerationResults", &[("ServiceEndpoint", endpoint)], |document| {
        document.element("Where", wanted);
        document.parent("Blobs", |document| {
            for blob in found {
                document.parent("Blob", |document| {
                    document.element("Name", &blob.name);
                    document.element("ContainerName", &blob.container);
                    tags(document, &blob.tags);
                });
            }
        });
        document.element("NextMarker", next);
    })
}

fn tier(document: &mut Document, chosen: Option<TierSetting>) {
    document.element("AccessTier", chosen.map_or(AccessTier::Hot, |setting| setting.tier).name());
    match chosen {
        None => document.element("AccessTierInferred", "true"),
        Some(setting) => {
            document.element("AccessTierChangeTime", &http_date(setting.changed_at()));
        }
    }
}

/// The containers of the account.
pub(in super::super) fn containers(
    endpoint: &str,
    page: &ContainerPage<'_>,
    containers: &[std::sync::Arc<Container>],
) -> String {
    Document::text("EnumerationResults", &[("ServiceEndpoint", endpoint)], |document| {
        document.element("Prefix", page.prefix);
        document.element("Marker", page.marker);
        document.element("MaxResults", &page.maximum.to_string());
        document.parent("Containers", |document| {
            for container in containers {
                listed_container(document, container, page);
            }
        });
        document.element("NextMarker", page.next);
    })
}

fn listed_container(document: &mut Document, container: &Container, page: &ContainerPage<'_>) {
    let properties = container.properties();
    let version = properties.version();
    document.parent("Container", |document| {
        document.element("Name", container.name());
        document.parent("Properties", |document| {
            document.element("Last-Modified", &http_date(version.modified_at));
            document.element("Etag", &version.etag.to_string());
            lease(document, properties.lease(), page.now);
            if let Some(public) = properties.access().public {
                document.element("PublicAccess", access_name(public));
            }
        });
        if page.with_metadata {
            metadata(document, properties.metadata());
        }
    });
}

fn metadata(document: &mut Document, metadata: &[(String, String)]) {
    document.parent("Metadata", |document| {
        for (name, value) in metadata {
            document.element(name, value);
        }
    });
}

fn lease(document: &mut Document, lease: Option<&Lease>, now: SystemTime) {
    let words = LeaseWords::of(lease, now);
    document.element("LeaseStatus", words.status);
    document.element("LeaseState", words.state);
    if let Some(duration) = words.duration {
        document.element("LeaseDuration", duration);
    }
}
