//! What the real service has and this one does not: refused, whatever the operation, and never carried out without.

use crate::blob::client::signed;
use crate::blob::{BLOCK, service};

const LIST: &str = "/box?restype=container&comp=list";

#[tokio::test]
async fn headers_that_are_not_served_are_refused_by_name_and_nothing_is_done() {
    let service = service().await;
    for (headers, named) in [
        (
            vec![
                ("x-ms-encryption-key", "a2V5"),
                ("x-ms-encryption-key-sha256", "a2V5"),
                ("x-ms-encryption-algorithm", "AES256"),
            ],
            "x-ms-encryption-algorithm, x-ms-encryption-key, x-ms-encryption-key-sha256",
        ),
        (vec![("x-ms-encryption-scope", "mine")], "x-ms-encryption-scope"),
        (vec![("x-ms-legal-hold", "true")], "x-ms-legal-hold"),
        (
            vec![
                ("x-ms-immutability-policy-mode", "locked"),
                ("x-ms-immutability-policy-until-date", "Sun, 22 Nov 2026 00:00:00 GMT"),
            ],
            "x-ms-immutability-policy-mode, x-ms-immutability-policy-until-date",
        ),
        (vec![("x-ms-seal-blob", "true")], "x-ms-seal-blob"),
        // Of a version of the protocol that is yet to come.
        (vec![("x-ms-made-up", "1")], "x-ms-made-up"),
    ] {
        let append = ("x-ms-blob-type", "AppendBlob");
        for (method, target, own, body) in [
            ("PUT", "/box/a", vec![BLOCK], &b"content"[..]),
            ("PUT", "/box/a", vec![], b""),
            ("PUT", "/box/a", vec![append], b""),
            ("PUT", "/box/a?comp=block&blockid=QUE=", vec![], b"content"),
            ("PUT", "/box/a?comp=blocklist", vec![], b"<BlockList/>"),
            ("PUT", "/box/a?comp=appendblock", vec![], b"content"),
            ("PUT", "/box/a?comp=metadata", vec![], b""),
            ("PUT", "/box/a?comp=properties", vec![], b""),
            ("GET", "/box/a", vec![], b""),
            ("HEAD", "/box/a", vec![], b""),
            ("DELETE", "/box/a", vec![], b""),
            ("PUT", "/new?restype=container", vec![], b""),
            ("GET", LIST, vec![], b""),
        ] {
            let headers = [&own[..], &headers].concat();
            let reply = signed(&service, method, target, &headers, body).await;
            assert_eq!(reply.outcome(), (400, "UnsupportedHeader"), "{method} {target} {headers:?}");
            let text = format!("these headers: {named}\n");
            assert!(method == "HEAD" || reply.body.contains(&text), "{}", reply.body);
        }
    }
    let lists = "/box/a?comp=blocklist&blocklisttype=all";
    let blocks = signed(&service, "GET", lists, &[], b"").await;
    assert_eq!(blocks.outcome(), (404, "BlobNotFound"));
    service.stop().await;
}

#[tokio::test]
async fn headers_that_ask_for_what_is_so_anyway_are_served() {
    let service = service().await;
    let headers = [
        BLOCK,
        ("x-ms-access-tier", "Hot"),
        ("x-ms-legal-hold", "false"),
        ("x-ms-tags", ""),
        ("x-ms-client-request-id", "1"),
        ("x-ms-return-client-request-id", "true"),
    ];
    let written = signed(&service, "PUT", "/box/a", &headers, b"content").await;
    assert_eq!(written.status, 201, "{}", written.body);
    let head = signed(&service, "HEAD", "/box/a", &[], b"").await;
    assert_eq!(head.header("x-ms-access-tier"), Some("Hot"));
    let listed = signed(&service, "GET", LIST, &[], b"").await;
    let tier = "<AccessTier>Hot</AccessTier>";
    assert!(listed.body.contains(tier), "{}", listed.body);
    service.stop().await;
}

#[tokio::test]
async fn parameters_that_are_not_served_are_refused_by_name() {
    let service = service().await;
    signed(&service, "PUT", "/box/a", &[BLOCK], b"content").await;
    for (method, target, named) in [
        ("GET", "/box/a?versionid=1", "versionid"),
        ("DELETE", "/box/a?deletetype=permanent", "deletetype"),
        ("GET", "/box/a?startFrom=a", "startFrom"),
        ("GET", "/box?restype=container&comp=list&showonly=deleted", "showonly"),
        ("GET", "/box?restype=container&comp=list&include=metadata,permissions", "include=permissions"),
        ("GET", "/?comp=list&startFrom=a", "startFrom"),
        ("GET", "/?comp=list&delimiter=a", "delimiter"),
    ] {
        let reply = signed(&service, method, target, &[], b"").await;
        assert_eq!(reply.outcome(), (400, "UnsupportedQueryParameter"), "{target}");
        let text = format!("the parameter {named} for");
        assert!(reply.body.contains(&text), "{}", reply.body);
    }
    for (method, target) in [
        ("PUT", "/box/a?comp=legalhold"),
        ("PUT", "/box/a?comp=immutabilityPolicies"),
        ("PUT", "/box/a?comp=seal"),
        ("PUT", "/box/a?comp=incrementalcopy"),
        ("POST", "/box/a?comp=query"),
    ] {
        let reply = signed(&service, method, target, &[], b"").await;
        assert_eq!(reply.outcome(), (400, "UnsupportedQueryParameter"), "{target}");
    }
    let unknown = "/box?restype=container&comp=list&include=what";
    let reply = signed(&service, "GET", unknown, &[], b"").await;
    assert_eq!(reply.outcome(), (400, "InvalidQueryParameterValue"));
    let harmless = "/box?restype=container&comp=list&timeout=30&include=snapshots,tags,copy,deleted";
    let reply = signed(&service, "GET", harmless, &[], b"").await;
    assert!(reply.body.contains("<Name>a</Name>"), "{}", reply.body);
    service.stop().await;
}

#[tokio::test]
async fn a_listing_begins_and_ends_where_the_request_says() {
    let service = service().await;
    for name in ["a", "b/1", "b/2", "c", "d"] {
        let target = format!("/box/{name}");
        signed(&service, "PUT", &target, &[BLOCK], b"").await;
    }
    for (parameters, expected) in [
        ("startFrom=b/2", &["b/2", "c", "d"][..]),
        ("startFrom=b", &["b/1", "b/2", "c", "d"]),
        ("endBefore=c", &["a", "b/1", "b/2"]),
        ("startFrom=b/2&endBefore=d", &["b/2", "c"]),
        ("startFrom=c&endBefore=b", &[]),
        ("startFrom=b/2&delimiter=/", &["b/", "c", "d"]),
        ("startFrom=a&prefix=b/", &["b/1", "b/2"]),
        ("startFrom=z", &[]),
    ] {
        // In one page, and in pages of one entry.
        for pages in ["", "&maxresults=1"] {
            let mut names = Vec::new();
            let mut marker = String::new();
            loop {
                let target = format!("{LIST}&{parameters}{pages}&marker={marker}");
                let listed = signed(&service, "GET", &target, &[], b"").await;
                assert_eq!(listed.status, 200, "{target}: {}", listed.body);
                names.extend(elements(&listed.body, "Name"));
                match elements(&listed.body, "NextMarker").pop() {
                    Some(next) => marker = next,
                    None => break,
                }
            }
            assert_eq!(names, expected, "{parameters}{pages}");
        }
    }
    service.stop().await;
}

/// The texts of the elements of this name that are not empty.
pub(crate) fn elements(document: &str, name: &str) -> Vec<String> {
    let (begin, end) = (format!("<{name}>"), format!("</{name}>"));
    let parts = document.split(&begin).skip(1);
    parts.filter_map(|part| Some(part.split_once(&end)?.0.to_owned())).collect()
}
