//! Tags of blobs, and searches for them.

use crate::blob::client::signed;
use crate::blob::{BLOCK, service};

const SET: &[u8] =
    b"<?xml version=\"1.0\" encoding=\"utf-8\"?><Tags><TagSet><Tag><Key>kind</Key><Value>log</Value></Tag>\
    <Tag><Key>a b</Key><Value/></Tag></TagSet></Tags>";

#[tokio::test]
async fn tags_are_set_read_and_counted_without_a_new_version() {
    let service = service().await;
    let own = [BLOCK, ("x-ms-tags", "year=2026&kind=a%2Bb")];
    let written = signed(&service, "PUT", "/box/a", &own, b"content").await;
    assert_eq!(written.status, 201, "{}", written.body);
    let head = signed(&service, "HEAD", "/box/a", &[], b"").await;
    assert_eq!(head.header("x-ms-tag-count"), Some("2"));
    let read = signed(&service, "GET", "/box/a?comp=tags", &[], b"").await;
    let first = "<Tag><Key>kind</Key><Value>a+b</Value></Tag>";
    assert!(read.body.contains(first), "{}", read.body);
    let set = signed(&service, "PUT", "/box/a?comp=tags", &[], SET).await;
    assert_eq!(set.status, 204, "{}", set.body);
    let again = signed(&service, "HEAD", "/box/a", &[], b"").await;
    assert_eq!(again.header("etag"), head.header("etag"));
    let listed = signed(&service, "GET", "/box?restype=container&comp=list&include=tags", &[], b"").await;
    for part in ["<TagCount>2</TagCount>", "<Tag><Key>a b</Key><Value/></Tag>"] {
        assert!(listed.body.contains(part), "{}", listed.body);
    }
    for (text, code) in [
        ("a=1&a=2", "DuplicateTagNames"),
        ("=1", "EmptyTagName"),
        ("a=%21", "InvalidTag"),
        ("a&b&c&d&e&f&g&h&i&j&k", "TagsTooLarge"),
    ] {
        let refused = signed(&service, "PUT", "/box/a", &[BLOCK, ("x-ms-tags", text)], b"").await;
        assert_eq!(refused.outcome(), (400, code), "{text}");
    }
    let refused = signed(&service, "PUT", "/box/a?comp=tags", &[], b"<Tags>").await;
    assert_eq!(refused.outcome(), (400, "InvalidXmlDocument"));
    assert_eq!(
        signed(&service, "GET", "/box/none?comp=tags", &[], b"").await.outcome(),
        (404, "BlobNotFound")
    );
    service.stop().await;
}

#[tokio::test]
async fn blobs_are_found_by_their_tags_in_pages() {
    let service = service().await;
    signed(&service, "PUT", "/other?restype=container", &[], b"").await;
    for (target, tags) in [
        ("/box/a", "year=2025"),
        ("/box/b", "year=2026"),
        ("/box/c", "year=2026&kind=log"),
        ("/other/d", "year=2026"),
    ] {
        signed(&service, "PUT", target, &[BLOCK, ("x-ms-tags", tags)], b"").await;
    }
    let find = async |path: &str, expression: &str| {
        let (mut names, mut marker) = (Vec::new(), String::new());
        loop {
            let target = format!("{path}comp=blobs&maxresults=1&where={expression}&marker={marker}");
            let found = signed(&service, "GET", &target, &[], b"").await;
            assert_eq!(found.status, 200, "{target}: {}", found.body);
            names.extend(super::unserved::elements(&found.body, "Name"));
            match super::unserved::elements(&found.body, "NextMarker").pop() {
                Some(next) => marker = next,
                None => return names,
            }
        }
    };
    assert_eq!(find("/?", "%22year%22%20=%20'2026'").await, ["b", "c", "d"]);
    assert_eq!(find("/box?restype=container&", "%22year%22%20%3E=%20'2025'").await, ["a", "b", "c"]);
    assert_eq!(find("/?", "@container='box'%20AND%20kind='log'").await, ["c"]);
    let wrong = signed(&service, "GET", "/?comp=blobs&where=year", &[], b"").await;
    assert_eq!(wrong.outcome(), (400, "InvalidQueryParameterValue"));
    service.stop().await;
}

#[tokio::test]
async fn a_condition_on_tags_is_one_of_reads_writes_and_copies() {
    let service = service().await;
    signed(&service, "PUT", "/box/a", &[BLOCK, ("x-ms-tags", "kind=log")], b"content").await;
    let (met, unmet) = (("x-ms-if-tags", "\"kind\" = 'log'"), ("x-ms-if-tags", "\"kind\" <> 'log'"));
    for (method, target) in [
        ("GET", "/box/a"),
        ("HEAD", "/box/a"),
        ("GET", "/box/a?comp=tags"),
        ("PUT", "/box/a?comp=metadata"),
        ("PUT", "/box/a?comp=properties"),
        ("DELETE", "/box/a"),
    ] {
        let refused = signed(&service, method, target, &[unmet], b"").await;
        assert_eq!(refused.outcome(), (412, "ConditionNotMet"), "{method} {target}");
        let done = signed(&service, method, target, &[met], b"").await;
        assert!((200..300).contains(&done.status), "{method} {target}: {}", done.body);
    }
    let malformed = signed(&service, "GET", "/box/a", &[("x-ms-if-tags", "kind")], b"").await;
    assert_eq!(malformed.status, 404, "the blob is gone");
    signed(&service, "PUT", "/box/a", &[BLOCK, ("x-ms-tags", "kind=log")], b"content").await;
    let malformed = signed(&service, "GET", "/box/a", &[("x-ms-if-tags", "kind")], b"").await;
    assert_eq!(malformed.outcome(), (400, "InvalidHeaderValue"));
    let source = ("x-ms-copy-source", "http://localhost/devstoreaccount1/box/a");
    let at_once = ("x-ms-requires-sync", "true");
    for (headers, tags) in [
        (vec![source, at_once], None),
        (vec![source, at_once, ("x-ms-copy-source-tag-option", "COPY")], Some("1")),
        (vec![source, at_once, ("x-ms-tags", "x=1&y=2")], Some("2")),
    ] {
        let copied = signed(&service, "PUT", "/box/copy", &headers, b"").await;
        assert_eq!(copied.status, 202, "{}", copied.body);
        let head = signed(&service, "HEAD", "/box/copy", &[], b"").await;
        assert_eq!(head.header("x-ms-tag-count"), tags, "{headers:?}");
    }
    let both = [source, at_once, ("x-ms-copy-source-tag-option", "COPY"), ("x-ms-tags", "x=1")];
    let refused = signed(&service, "PUT", "/box/copy", &both, b"").await;
    assert_eq!(refused.status, 400);
    service.stop().await;
}

#[tokio::test]
async fn blobs_of_uncommitted_blocks_are_listed_where_they_are_asked_for() {
    let service = service().await;
    signed(&service, "PUT", "/box/waiting?comp=block&blockid=QUE=", &[], b"content").await;
    signed(&service, "PUT", "/box/written", &[BLOCK], b"content").await;
    let list = "/box?restype=container&comp=list";
    let plain = signed(&service, "GET", list, &[], b"").await;
    assert!(!plain.body.contains("waiting"), "{}", plain.body);
    let all = signed(&service, "GET", &format!("{list}&include=uncommittedblobs"), &[], b"").await;
    let part = "<Blob><Name>waiting</Name>";
    assert!(all.body.contains(part) && all.body.contains("written"), "{}", all.body);
    service.stop().await;
}
