//! Leases, the metadata of containers, and what else of properties clients go by.

use crate::blob::client::{Reply, signed};
use crate::blob::{BLOCK, service};
use hub::service::Service;

const A: &str = "c820a799-76d7-4ee2-6e15-546f19325c2c";
const B: &str = "326cc5e1-746e-4af8-4811-a50e6629a8ca";

/// The headers of a blob or container about its lease.
fn lease_headers(reply: &Reply) -> [Option<&str>; 3] {
    ["status", "state", "duration"].map(|name| reply.header(&format!("x-ms-lease-{name}")))
}

async fn lease(service: &Service, target: &str, headers: &[(&str, &str)]) -> Reply {
    signed(service, "PUT", target, headers, b"").await
}

#[tokio::test]
async fn a_blob_is_leased_locked_and_released_with_the_codes_that_clients_go_by() {
    let service = service().await;
    signed(&service, "PUT", "/box/a", &[BLOCK], b"1").await;
    let target = "/box/a?comp=lease";
    let acquire =
        [("x-ms-lease-action", "acquire"), ("x-ms-lease-duration", "15"), ("x-ms-proposed-lease-id", A)];
    let etag = signed(&service, "HEAD", "/box/a", &[], b"").await;
    assert_eq!(lease_headers(&etag), [Some("unlocked"), Some("available"), None]);
    let acquired = lease(&service, target, &acquire).await;
    assert_eq!((acquired.status, acquired.header("x-ms-lease-id")), (201, Some(A)));
    assert_eq!(acquired.header("etag"), etag.header("etag"));
    let head = signed(&service, "HEAD", "/box/a", &[], b"").await;
    assert_eq!(lease_headers(&head), [Some("locked"), Some("leased"), Some("fixed")]);
    let list = "/box?restype=container&comp=list";
    let listed = signed(&service, "GET", list, &[], b"").await;
    let words = "<LeaseStatus>locked</LeaseStatus><LeaseState>leased</LeaseState>\
                 <LeaseDuration>fixed</LeaseDuration>";
    assert!(listed.body.contains(words), "{}", listed.body);
    let action = |name| ("x-ms-lease-action", name);
    for (method, target, headers, outcome) in [
        ("PUT", "/box/a", vec![BLOCK], (412, "LeaseIdMissing")),
        ("PUT", "/box/a", vec![BLOCK, ("If-None-Match", "*")], (412, "LeaseIdMissing")),
        ("DELETE", "/box/a", vec![], (412, "LeaseIdMissing")),
        ("PUT", "/box/a?comp=block&blockid=QUE=", vec![], (412, "LeaseIdMissing")),
        (
            "PUT",
            "/box/a?comp=metadata",
            vec![("x-ms-lease-id", B)],
            (412, "LeaseIdMismatchWithBlobOperation"),
        ),
        ("GET", "/box/a", vec![("x-ms-lease-id", B)], (412, "LeaseIdMismatchWithBlobOperation")),
        ("PUT", target, vec![action("acquire"), ("x-ms-lease-duration", "-1")], (409, "LeaseAlreadyPresent")),
        (
            "PUT",
            target,
            vec![action("renew"), ("x-ms-lease-id", B)],
            (409, "LeaseIdMismatchWithLeaseOperation"),
        ),
        ("PUT", target, vec![action("acquire"), ("x-ms-lease-duration", "14")], (400, "InvalidHeaderValue")),
        ("PUT", target, vec![action("acquire"), ("x-ms-lease-duration", "61")], (400, "InvalidHeaderValue")),
        ("PUT", target, vec![action("acquire")], (400, "MissingRequiredHeader")),
        (
            "PUT",
            target,
            vec![action("break"), ("x-ms-lease-break-period", "61")],
            (400, "InvalidHeaderValue"),
        ),
        ("PUT", target, vec![action("change"), ("x-ms-lease-id", A)], (400, "MissingRequiredHeader")),
        ("PUT", target, vec![action("take")], (400, "InvalidHeaderValue")),
    ] {
        let reply = signed(&service, method, target, &headers, b"").await;
        assert_eq!(reply.outcome(), outcome, "{method} {target} {headers:?}");
    }
    let own = ("x-ms-lease-id", A);
    let written = signed(&service, "PUT", "/box/a", &[BLOCK, own], b"2").await;
    assert_eq!(written.status, 201);
    let renewed = lease(&service, target, &[action("renew"), own]).await;
    assert_eq!((renewed.status, renewed.header("x-ms-lease-id")), (200, Some(A)));
    let proposed = ("x-ms-proposed-lease-id", B);
    let changed = lease(&service, target, &[action("change"), own, proposed]).await;
    assert_eq!((changed.status, changed.header("x-ms-lease-id")), (200, Some(B)));
    let released = lease(&service, target, &[action("release"), ("x-ms-lease-id", B)]).await;
    assert_eq!(released.status, 200);
    let gone = lease(&service, target, &[action("break")]).await;
    assert_eq!(gone.outcome(), (409, "LeaseNotPresentWithLeaseOperation"));
    let missing = lease(&service, "/box/b?comp=lease", &acquire).await;
    assert_eq!(missing.outcome(), (404, "BlobNotFound"));
    service.stop().await;
}

#[tokio::test]
async fn a_lease_is_broken_at_once_or_after_a_while() {
    let service = service().await;
    signed(&service, "PUT", "/box/a", &[BLOCK], b"1").await;
    let target = "/box/a?comp=lease";
    let acquire =
        [("x-ms-lease-action", "acquire"), ("x-ms-lease-duration", "-1"), ("x-ms-proposed-lease-id", A)];
    lease(&service, target, &acquire).await;
    let head = signed(&service, "HEAD", "/box/a", &[], b"").await;
    assert_eq!(lease_headers(&head), [Some("locked"), Some("leased"), Some("infinite")]);
    let stop = |seconds| [("x-ms-lease-action", "break"), ("x-ms-lease-break-period", seconds)];
    let breaking = lease(&service, target, &stop("60")).await;
    assert_eq!((breaking.status, breaking.header("x-ms-lease-time")), (202, Some("60")));
    let head = signed(&service, "HEAD", "/box/a", &[], b"").await;
    assert_eq!(lease_headers(&head), [Some("locked"), Some("breaking"), None]);
    let again = lease(&service, target, &acquire).await;
    assert_eq!(again.outcome(), (409, "LeaseIsBreakingAndCannotBeAcquired"));
    let broken = lease(&service, target, &stop("0")).await;
    assert_eq!((broken.status, broken.header("x-ms-lease-time")), (202, Some("0")));
    let head = signed(&service, "HEAD", "/box/a", &[], b"").await;
    assert_eq!(lease_headers(&head), [Some("unlocked"), Some("broken"), None]);
    let own = ("x-ms-lease-id", A);
    let renew = [("x-ms-lease-action", "renew"), own];
    let refused = lease(&service, target, &renew).await;
    assert_eq!(refused.outcome(), (409, "LeaseIsBrokenAndCannotBeRenewed"));
    let late = signed(&service, "PUT", "/box/a", &[BLOCK, own], b"2").await;
    assert_eq!(late.outcome(), (412, "LeaseLost"));
    service.stop().await;
}

#[tokio::test]
async fn a_container_is_leased_against_being_deleted_and_its_metadata_is_set() {
    let service = service().await;
    let (container, target) = ("/box?restype=container", "/box?restype=container&comp=lease");
    let acquire = [("x-ms-lease-action", "acquire"), ("x-ms-lease-duration", "-1")];
    let acquired = lease(&service, target, &acquire).await;
    assert_eq!(acquired.status, 201);
    let id = acquired.header("x-ms-lease-id").unwrap();
    assert_eq!(id.len(), 36, "{id}");
    let refused = signed(&service, "DELETE", container, &[], b"").await;
    assert_eq!(refused.outcome(), (412, "LeaseIdMissing"));
    let other = [("x-ms-lease-id", B)];
    let refused = signed(&service, "DELETE", container, &other, b"").await;
    assert_eq!(refused.outcome(), (412, "LeaseIdMismatchWithContainerOperation"));
    let before = signed(&service, "GET", container, &[], b"").await;
    assert_eq!(lease_headers(&before), [Some("locked"), Some("leased"), Some("infinite")]);
    let metadata = "/box?restype=container&comp=metadata";
    let set = [("x-ms-meta-made", "anew"), ("x-ms-meta-empty", "")];
    let done = signed(&service, "PUT", metadata, &set, b"").await;
    assert_eq!(done.status, 200);
    assert_ne!(done.header("etag"), before.header("etag"));
    let seen = signed(&service, "GET", metadata, &[], b"").await;
    assert_eq!(seen.header("etag"), done.header("etag"));
    assert_eq!(seen.header("x-ms-meta-made"), Some("anew"));
    assert_eq!(seen.header("x-ms-meta-empty"), Some(""));
    let list = "/?comp=list&include=metadata";
    let listed = signed(&service, "GET", list, &[], b"").await;
    for part in
        ["<LeaseState>leased</LeaseState><LeaseDuration>infinite</LeaseDuration>", "<made>anew</made>"]
    {
        assert!(listed.body.contains(part), "{}", listed.body);
    }
    let future = [("If-Modified-Since", "Thu, 01 Jan 2099 00:00:00 GMT")];
    let refused = signed(&service, "PUT", metadata, &future, b"").await;
    assert_eq!(refused.outcome(), (412, "ConditionNotMet"));
    let own = [("x-ms-lease-id", id)];
    let deleted = signed(&service, "DELETE", container, &own, b"").await;
    assert_eq!(deleted.status, 202);
    let gone = signed(&service, "PUT", metadata, &set, b"").await;
    assert_eq!(gone.outcome(), (404, "ContainerNotFound"));
    service.stop().await;
}

#[tokio::test]
async fn an_empty_content_type_is_not_sent() {
    let service = service().await;
    let plain = [BLOCK, ("Content-Type", "text/plain")];
    signed(&service, "PUT", "/box/a", &plain, b"1").await;
    let properties = "/box/a?comp=properties";
    // The plain header is that of the request, and no property of the blob.
    let own = [("x-ms-blob-content-type", "text/html"), ("Content-Type", "text/xml")];
    signed(&service, "PUT", properties, &own, b"").await;
    let head = signed(&service, "HEAD", "/box/a", &[], b"").await;
    assert_eq!(head.header("content-type"), Some("text/html"));
    let none = [("Content-Type", "application/xml")];
    signed(&service, "PUT", properties, &none, b"").await;
    for method in ["HEAD", "GET"] {
        let reply = signed(&service, method, "/box/a", &[], b"").await;
        assert_eq!((reply.status, reply.header("content-type")), (200, None));
    }
    let list = "/box?restype=container&comp=list";
    let listed = signed(&service, "GET", list, &[], b"").await;
    assert!(listed.body.contains("<Content-Type/>"), "{}", listed.body);
    // A blob that was put without one has the service's.
    signed(&service, "PUT", "/box/a", &[BLOCK], b"1").await;
    let head = signed(&service, "HEAD", "/box/a", &[], b"").await;
    assert_eq!(head.header("content-type"), Some("application/octet-stream"));
    service.stop().await;
}

#[tokio::test]
async fn conditions_by_time_hold_for_blobs_that_are_not_committed_yet() {
    let service = service().await;
    let block = "/box/a?comp=block&blockid=QUE=";
    signed(&service, "PUT", block, &[], b"1").await;
    let list = b"<BlockList><Latest>QUE=</Latest></BlockList>";
    let commit = "/box/a?comp=blocklist";
    for (name, value, outcome) in [
        ("If-Modified-Since", "Thu, 01 Jan 2099 00:00:00 GMT", (412, "ConditionNotMet")),
        ("If-Unmodified-Since", "Thu, 01 Jan 1998 00:00:00 GMT", (412, "ConditionNotMet")),
        ("If-Match", "*", (412, "ConditionNotMet")),
        ("If-Modified-Since", "Thu, 01 Jan 1998 00:00:00 GMT", (201, "")),
    ] {
        let reply = signed(&service, "PUT", commit, &[(name, value)], list).await;
        assert_eq!(reply.outcome(), outcome, "{name}: {value}");
    }
    service.stop().await;
}
