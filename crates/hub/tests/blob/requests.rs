//! Interpretation of requests: path, query, headers, and properties of the account.

use crate::blob::client::{key, raw, signed, signed_at};
use crate::blob::{BLOCK, service};

#[tokio::test]
async fn a_path_of_one_name_is_of_a_blob_unless_the_query_says_container() {
    let service = service().await;
    let missing = signed(&service, "GET", "/index.html", &[], b"").await;
    assert_eq!(missing.outcome(), (404, "ContainerNotFound"));
    signed(&service, "PUT", "/$root?restype=container", &[], b"").await;
    assert_eq!(signed(&service, "PUT", "/index.html", &[BLOCK], b"root").await.status, 201);
    for target in ["/index.html", "/$root/index.html"] {
        assert_eq!(signed(&service, "GET", target, &[], b"").await.body, "root", "{target}");
    }
    service.stop().await;
}

#[tokio::test]
async fn the_account_may_be_in_the_name_of_the_host() {
    let service = service().await;
    let host = "devstoreaccount1.blob.localhost:10000";
    let ask = async |host, method, path, headers: &[(&str, &str)], body: &[u8]| {
        let head = signed_at(&service, host, method, path, headers, body);
        raw(&service, &[head.as_bytes(), body].concat()).await
    };
    assert_eq!(ask(host, "PUT", "/box/a/b", &[BLOCK], b"content").await.status, 201);
    assert_eq!(ask(host, "GET", "/box/a/b", &[], b"").await.body, "content");
    assert_eq!(signed(&service, "GET", "/box/a/b", &[], b"").await.body, "content");
    let listed = ask(host, "GET", "/box?restype=container&comp=list", &[], b"").await;
    let endpoint = format!("ServiceEndpoint=\"http://{host}\"");
    assert!(listed.body.contains(&endpoint), "{}", listed.body);
    let source = ("x-ms-copy-source", "https://devstoreaccount1.blob.core.windows.net/box/a/b");
    assert_eq!(ask(host, "PUT", "/box/copy", &[source], b"").await.status, 202);
    let other = ask("other.blob.core.windows.net", "GET", "/box/a/b", &[], b"").await;
    assert_eq!(other.outcome(), (403, "AuthenticationFailed"));
    service.stop().await;
}

#[tokio::test]
async fn what_is_no_operation_of_blobs_is_the_clients_mistake_and_named() {
    let service = service().await;
    for (method, target, expected) in [
        // Whether the account has a hierarchical namespace, as Arrow and the clients of data lakes ask.
        ("HEAD", "/box/?action=getAccessControl", (400, "UnsupportedQueryParameter")),
        ("HEAD", "/box/a?action=getAccessControl&upn=false", (400, "UnsupportedQueryParameter")),
        ("PUT", "/box/a?resource=file", (400, "UnsupportedQueryParameter")),
        ("GET", "/box?comp=list", (400, "InvalidQueryParameterValue")),
        ("GET", "/?restype=container&comp=list", (400, "InvalidQueryParameterValue")),
        ("GET", "/box?restype=container&comp=made-up", (400, "InvalidQueryParameterValue")),
        ("GET", "/box/a?restype=directory", (400, "InvalidQueryParameterValue")),
        ("POST", "/box/a", (405, "UnsupportedHttpVerb")),
        ("DELETE", "/?comp=list", (405, "UnsupportedHttpVerb")),
        ("PUT", "/box/a?comp=seal", (400, "UnsupportedQueryParameter")),
    ] {
        let reply = signed(&service, method, target, &[], b"").await;
        assert_eq!(reply.outcome(), expected, "{method} {target}");
    }
    service.stop().await;
}

#[tokio::test]
async fn names_of_metadata_keep_their_letters() {
    let service = service().await;
    let own = [BLOCK, ("x-ms-meta-OWNINGHOST", "h1"), ("x-ms-meta-epoch", "2")];
    signed(&service, "PUT", "/box/a", &own, b"").await;
    signed(&service, "PUT", "/box?restype=container&comp=metadata", &own[1..], b"").await;
    let source = ("x-ms-copy-source", "http://localhost/devstoreaccount1/box/a");
    signed(&service, "PUT", "/box/copy", &[source], b"").await;
    for target in ["/box/a", "/box/copy", "/box?restype=container"] {
        for method in ["GET", "HEAD"] {
            let reply = signed(&service, method, target, &[], b"").await;
            for line in ["x-ms-meta-OWNINGHOST: h1", "x-ms-meta-epoch: 2"] {
                assert!(reply.head.lines().any(|other| other == line), "{method} {target}: {}", reply.head);
            }
        }
    }
    let listed = signed(&service, "GET", "/box?restype=container&comp=list&include=metadata", &[], b"").await;
    assert!(listed.body.contains("<OWNINGHOST>h1</OWNINGHOST>"), "{}", listed.body);
    // It is one name, whatever its letters.
    let twice = [("x-ms-meta-owninghost", "h1"), ("x-ms-meta-OWNINGHOST", "h2")];
    let set = signed(&service, "PUT", "/box/a?comp=metadata", &twice, b"").await;
    assert_eq!(set.status, 200, "{}", set.body);
    let head = signed(&service, "HEAD", "/box/a", &[], b"").await;
    assert_eq!(head.header("x-ms-meta-owninghost"), Some("h1,h2"));
    service.stop().await;
}

#[tokio::test]
async fn a_plus_in_a_query_is_a_space_as_clients_sign_it() {
    let service = service().await;
    signed(&service, "PUT", "/box/a%20b", &[BLOCK], b"").await;
    signed(&service, "PUT", "/box/a+b", &[BLOCK], b"").await;
    for (prefix, found) in [("a%20b", "a b"), ("a+b", "a b"), ("a%2Bb", "a+b")] {
        let target = format!("/box?restype=container&comp=list&prefix={prefix}");
        let listed = signed(&service, "GET", &target, &[], b"").await;
        assert!(listed.body.contains(&format!("<Name>{found}</Name>")), "{prefix}: {}", listed.body);
        assert_eq!(listed.body.matches("<Name>").count(), 1, "{prefix}");
    }
    service.stop().await;
}

#[tokio::test]
async fn what_is_set_for_the_account_comes_back_and_its_logs_are_empty() {
    let service = service().await;
    let target = "/?restype=service&comp=properties";
    let logging = "<StorageServiceProperties><Logging><Version>1.0</Version><Delete>false</Delete><Read>false</Read>\
                   <Write>true</Write><RetentionPolicy><Enabled>true</Enabled><Days>7</Days></RetentionPolicy></Logging>\
                   </StorageServiceProperties>";
    let set = signed(&service, "PUT", target, &[], logging.as_bytes()).await;
    assert_eq!(set.status, 202, "{}", set.body);
    let read = signed(&service, "GET", target, &[], b"").await;
    assert_eq!(read.status, 200);
    for part in ["<Write>true</Write>", "<Days>7</Days>", "<DeleteRetentionPolicy><Enabled>false</Enabled>"] {
        assert!(read.body.contains(part), "{}", read.body);
    }
    let soft = "<StorageServiceProperties><DeleteRetentionPolicy><Enabled>true</Enabled><Days>7</Days>\
                </DeleteRetentionPolicy></StorageServiceProperties>";
    let refused = signed(&service, "PUT", target, &[], soft.as_bytes()).await;
    assert_eq!(refused.outcome(), (400, "UnsupportedXmlNode"));
    let logs = signed(&service, "GET", "/$logs?restype=container&comp=list&prefix=blob/", &[], b"").await;
    assert_eq!(logs.status, 200, "{}", logs.body);
    assert!(logs.body.contains("<Blobs></Blobs>"), "{}", logs.body);
    service.stop().await;
}

#[tokio::test]
async fn the_secondary_endpoint_reads_and_tells_how_far_it_is() {
    let service = service().await;
    signed(&service, "PUT", "/box/a", &[BLOCK], b"content").await;
    let account = format!("/{}-secondary", key(&service).account());
    let send = async |method, host: &str, path: &str| {
        let text = signed_at(&service, host, method, path, &[BLOCK], b"");
        raw(&service, text.as_bytes()).await
    };
    let stats = send("GET", "localhost", &format!("{account}/?restype=service&comp=stats")).await;
    assert_eq!(stats.status, 200, "{}", stats.body);
    assert!(stats.body.contains("<GeoReplication><Status>live</Status><LastSyncTime>"), "{}", stats.body);
    let host = format!("{}.blob.localhost", &account[1..]);
    for (method, host, path, outcome) in [
        ("GET", "localhost", format!("{account}/box/a"), (200, "")),
        ("GET", &*host, "/box/a".to_owned(), (200, "")),
        ("GET", "localhost", format!("{account}/box?restype=container&comp=list"), (200, "")),
        ("PUT", "localhost", format!("{account}/box/a"), (403, "InsufficientAccountPermissions")),
        ("DELETE", &host, "/box/a".to_owned(), (403, "InsufficientAccountPermissions")),
    ] {
        assert_eq!(send(method, host, &path).await.outcome(), outcome, "{method} {host} {path}");
    }
    let primary = signed(&service, "GET", "/?restype=service&comp=stats", &[], b"").await;
    assert_eq!(primary.outcome(), (400, "InvalidQueryParameterValue"));
    service.stop().await;
}

#[tokio::test]
async fn a_blob_has_a_tier_and_an_archived_one_is_not_read() {
    let service = service().await;
    signed(&service, "PUT", "/box/a", &[BLOCK], b"content").await;
    let head = signed(&service, "HEAD", "/box/a", &[], b"").await;
    let told = |name| head.header(name).map(str::to_owned);
    assert_eq!(told("x-ms-access-tier").as_deref(), Some("Hot"));
    assert_eq!(told("x-ms-access-tier-inferred").as_deref(), Some("true"));
    let set =
        async |tier| signed(&service, "PUT", "/box/a?comp=tier", &[("x-ms-access-tier", tier)], b"").await;
    assert_eq!(set("Archive").await.status, 200);
    let archived = signed(&service, "HEAD", "/box/a", &[], b"").await;
    assert_eq!(archived.header("x-ms-access-tier"), Some("Archive"));
    assert_eq!(archived.header("etag"), head.header("etag"));
    assert!(archived.header("x-ms-access-tier-change-time").is_some());
    let read = signed(&service, "GET", "/box/a", &[], b"").await;
    assert_eq!(read.outcome(), (409, "BlobArchived"));
    let listed = signed(&service, "GET", "/box?restype=container&comp=list", &[], b"").await;
    assert!(listed.body.contains("<AccessTier>Archive</AccessTier>"), "{}", listed.body);
    assert_eq!(set("hot").await.status, 202, "it would take its time");
    assert_eq!(signed(&service, "GET", "/box/a", &[], b"").await.body, "content");
    assert_eq!(set("P10").await.outcome(), (400, "InvalidHeaderValue"));
    let none = signed(&service, "PUT", "/box/a?comp=tier", &[], b"").await;
    assert_eq!(none.outcome(), (400, "MissingRequiredHeader"));
    let written = [BLOCK, ("x-ms-access-tier", "Cool")];
    signed(&service, "PUT", "/box/b", &written, b"").await;
    let head = signed(&service, "HEAD", "/box/b", &[], b"").await;
    assert_eq!(head.header("x-ms-access-tier"), Some("Cool"));
    service.stop().await;
}
