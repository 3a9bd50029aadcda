//! Snapshots of blobs.

use crate::blob::client::signed;
use crate::blob::unserved::elements;
use crate::blob::{BLOCK, service};

#[tokio::test]
async fn snapshots_are_read_listed_copied_and_deleted() {
    let service = service().await;
    let written = signed(&service, "PUT", "/box/a", &[BLOCK, ("x-ms-meta-Of", "blob")], b"first").await;
    let made = signed(&service, "PUT", "/box/a?comp=snapshot", &[], b"").await;
    assert_eq!((made.status, made.header("etag")), (201, written.header("etag")));
    let first = made.header("x-ms-snapshot").unwrap().to_owned();
    signed(&service, "PUT", "/box/a", &[BLOCK], b"second").await;
    let own = [("x-ms-meta-Of", "snapshot")];
    let made = signed(&service, "PUT", "/box/a?comp=snapshot", &own, b"").await;
    let second = made.header("x-ms-snapshot").unwrap().to_owned();
    for (target, body, metadata) in [
        (format!("/box/a?snapshot={first}"), "first", Some("blob")),
        (format!("/box/a?snapshot={second}"), "second", Some("snapshot")),
        ("/box/a".to_owned(), "second", None),
    ] {
        let read = signed(&service, "GET", &target, &[], b"").await;
        assert_eq!((read.status, read.body.as_str(), read.header("x-ms-meta-of")), (200, body, metadata));
        assert_eq!(signed(&service, "HEAD", &target, &[], b"").await.status, 200);
    }
    let list = "/box?restype=container&comp=list&include=snapshots";
    for pages in ["", "&maxresults=1"] {
        let (mut snapshots, mut names, mut marker) = (Vec::new(), Vec::new(), String::new());
        loop {
            let listed = signed(&service, "GET", &format!("{list}{pages}&marker={marker}"), &[], b"").await;
            names.extend(elements(&listed.body, "Name"));
            snapshots.extend(elements(&listed.body, "Snapshot"));
            match elements(&listed.body, "NextMarker").pop() {
                Some(next) => marker = next,
                None => break,
            }
        }
        assert_eq!(
            (names.as_slice(), snapshots.as_slice()),
            (&["a", "a", "a"].map(str::to_owned)[..], &[first.clone(), second.clone()][..])
        );
    }
    let source = format!("http://localhost/devstoreaccount1/box/a?snapshot={first}");
    let back = signed(&service, "PUT", "/box/a", &[("x-ms-copy-source", source.as_str())], b"").await;
    assert_eq!(back.status, 202, "{}", back.body);
    let read = signed(&service, "GET", "/box/a", &[], b"").await;
    assert_eq!((read.body.as_str(), read.header("x-ms-copy-source")), ("first", Some(source.as_str())));
    let present = signed(&service, "DELETE", "/box/a", &[], b"").await;
    assert_eq!(present.outcome(), (409, "SnapshotsPresent"));
    let of_first = format!("/box/a?snapshot={first}");
    assert_eq!(signed(&service, "DELETE", &of_first, &[], b"").await.status, 202);
    assert_eq!(signed(&service, "GET", &of_first, &[], b"").await.outcome(), (404, "BlobNotFound"));
    let deleted = |which| [("x-ms-delete-snapshots", which)];
    assert_eq!(signed(&service, "DELETE", "/box/a", &deleted("only"), b"").await.status, 202);
    let gone = signed(&service, "GET", &format!("/box/a?snapshot={second}"), &[], b"").await;
    assert_eq!(gone.outcome(), (404, "BlobNotFound"));
    assert_eq!(signed(&service, "DELETE", "/box/a", &deleted("include"), b"").await.status, 202);
    assert_eq!(signed(&service, "GET", "/box/a", &[], b"").await.status, 404);
    for (method, target) in [
        ("GET", "/box/a?snapshot=yesterday"),
        ("PUT", "/box/a?comp=metadata&snapshot=2026-11-22T00:00:00.0000000Z"),
    ] {
        let refused = signed(&service, method, target, &[], b"").await;
        assert_eq!(refused.outcome(), (400, "InvalidQueryParameterValue"), "{target}");
    }
    service.stop().await;
}
