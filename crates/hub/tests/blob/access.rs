//! Containers that anyone may read, and policies that signatures name.

use std::time::{Duration, SystemTime};

use access::storage::AccountSignature;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hub::service::Service;
use units::date::iso_date;

use crate::blob::client::{Reply, key, raw, signed};
use crate::blob::{BLOCK, service};

/// Asks without any proof but what is in the target.
async fn ask(service: &Service, method: &str, target: &str) -> Reply {
    let request = format!(
        "{method} /devstoreaccount1{target} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
    );
    raw(service, request.as_bytes()).await
}

#[tokio::test]
async fn anyone_reads_what_a_container_says() {
    let service = service().await;
    let public = |access| [("x-ms-blob-public-access", access)];
    signed(&service, "PUT", "/blobs?restype=container", &public("blob"), b"").await;
    signed(&service, "PUT", "/all?restype=container", &public("container"), b"").await;
    for name in ["box", "blobs", "all"] {
        signed(&service, "PUT", &format!("/{name}/a"), &[BLOCK], b"content").await;
    }
    for (name, blob, list) in [("box", 401, 401), ("blobs", 200, 403), ("all", 200, 200)] {
        assert_eq!(ask(&service, "GET", &format!("/{name}/a")).await.status, blob, "{name}");
        let listed = ask(&service, "GET", &format!("/{name}?restype=container&comp=list")).await;
        assert_eq!(listed.status, list, "{name}");
        let written = ask(&service, "DELETE", &format!("/{name}/a")).await.status;
        assert!(matches!(written, 401 | 403), "{name}: {written}");
    }
    let head = signed(&service, "HEAD", "/all?restype=container", &[], b"").await;
    assert_eq!(head.header("x-ms-blob-public-access"), Some("container"));
    let listed = signed(&service, "GET", "/?comp=list", &[], b"").await;
    assert!(listed.body.contains("<PublicAccess>blob</PublicAccess>"), "{}", listed.body);
    let closed = signed(&service, "PUT", "/all?restype=container&comp=acl", &[], b"").await;
    assert_eq!(closed.status, 200, "{}", closed.body);
    assert_eq!(ask(&service, "GET", "/all/a").await.outcome(), (401, "NoAuthenticationInformation"));
    let wrong = signed(&service, "PUT", "/all?restype=container&comp=acl", &public("everything"), b"").await;
    assert_eq!(wrong.outcome(), (400, "InvalidHeaderValue"));
    service.stop().await;
}

#[tokio::test]
async fn a_signature_grants_what_its_policy_says_as_long_as_it_is_there() {
    let service = service().await;
    signed(&service, "PUT", "/box/a", &[BLOCK], b"content").await;
    let version = "2019-12-12";
    let text = format!("\n\n\n/blob/devstoreaccount1/box\nreaders\n\n\n{version}\nc\n\n\n\n\n\n");
    let tag = STANDARD.encode(key(&service).sign_text(&text)).replace('+', "%2B").replace('/', "%2F");
    let target = format!("/box/a?sv={version}&sr=c&si=readers&sig={}", tag.replace('=', "%3D"));
    assert_eq!(ask(&service, "GET", &target).await.outcome(), (403, "AuthenticationFailed"));
    let acl = "/box?restype=container&comp=acl";
    let expiry = iso_date(SystemTime::now() + Duration::from_secs(600));
    let policies = |permission: &str| {
        format!(
            "<?xml version=\"1.0\" encoding=\"utf-8\"?><SignedIdentifiers><SignedIdentifier><Id>readers</Id><AccessPolicy>\
             <Expiry>{expiry}</Expiry><Permission>{permission}</Permission></AccessPolicy></SignedIdentifier></SignedIdentifiers>"
        )
    };
    for (permission, expected) in [("r", (200, "")), ("w", (403, "AuthorizationPermissionMismatch"))] {
        let set = signed(&service, "PUT", acl, &[], policies(permission).as_bytes()).await;
        assert_eq!(set.status, 200, "{}", set.body);
        assert_eq!(ask(&service, "GET", &target).await.outcome(), expected, "{permission}");
        let read = signed(&service, "GET", acl, &[], b"").await;
        assert!(read.body.contains(&format!("<Permission>{permission}</Permission>")), "{}", read.body);
    }
    signed(&service, "PUT", acl, &[], b"").await;
    assert_eq!(ask(&service, "GET", &target).await.outcome(), (403, "AuthenticationFailed"));
    let twice = policies("r").replace(
        "</SignedIdentifiers>",
        "<SignedIdentifier><Id>readers</Id></SignedIdentifier></SignedIdentifiers>",
    );
    let refused = signed(&service, "PUT", acl, &[], twice.as_bytes()).await;
    assert_eq!(refused.outcome(), (400, "InvalidXmlDocument"));
    // No signature grants it.
    let expires_at = SystemTime::now() + Duration::from_secs(600);
    let everything = key(&service).sign_account(AccountSignature { rights: "rwdlac", expires_at });
    let denied = ask(&service, "GET", &format!("{acl}&{everything}")).await;
    assert_eq!(denied.outcome(), (403, "AuthorizationFailure"));
    service.stop().await;
}
