//! A storage account.

use hub::service::{Protocol, Service};

use crate::identity::issuer::{Issuer, STORAGE, Wanted, refused};
use crate::identity::request::{Reply, ask};

async fn request(service: &Service, method: &str, target: &str, token: &str, body: &str) -> Reply {
    let address = service.address(Protocol::Blob).unwrap();
    let authorization = format!("Authorization: Bearer {token}");
    let headers = [authorization.as_str(), "x-ms-version: 2024-11-04", "x-ms-blob-type: BlockBlob"];
    ask(address, method, &format!("/devstoreaccount1{target}"), &headers, body).await
}

fn code(reply: &Reply) -> (u16, &str) {
    let code = reply.head.lines().find_map(|line| line.strip_prefix("x-ms-error-code: "));
    (reply.status, code.unwrap_or_default())
}

#[tokio::test]
async fn roles_of_storage_decide_what_may_be_done_with_blobs() {
    let issuer = Issuer::new();
    let service = issuer.service().await;
    let contributor = issuer.token(&Wanted {
        audience: STORAGE,
        roles: &["StorageBlob.Data.Contributor"],
        ..Wanted::default()
    });
    let put = request(&service, "PUT", "/box/one", &contributor, "content").await;
    assert_eq!(put.status, 201, "{put:?}");
    let reader =
        issuer.token(&Wanted { audience: STORAGE, principal: "reader", roles: &[], ..Wanted::default() });
    let got = request(&service, "GET", "/box/one", &reader, "").await;
    assert_eq!((got.status, got.body.as_str()), (200, "content"));
    for (method, target) in [("PUT", "/box/two"), ("DELETE", "/box/one"), ("PUT", "/new?restype=container")] {
        let refused = request(&service, method, target, &reader, "").await;
        assert_eq!(code(&refused), (403, "authorizationpermissionmismatch"), "{method} {target}");
    }
    service.stop().await;
}

#[tokio::test]
async fn a_role_for_one_container_does_not_read_another_one_by_copying() {
    let issuer = Issuer::new();
    let service = issuer.service().await;
    let owner = issuer.token(&Wanted {
        audience: STORAGE,
        roles: &["StorageBlob.Data.Contributor"],
        ..Wanted::default()
    });
    for target in ["/box/one", "/secret/one"] {
        assert_eq!(request(&service, "PUT", target, &owner, "content").await.status, 201);
    }
    let writer =
        issuer.token(&Wanted { audience: STORAGE, principal: "writer", roles: &[], ..Wanted::default() });
    let address = service.address(Protocol::Blob).unwrap();
    let copy = async |token: &str, source: &str, target: &str, kind: &str| {
        let headers = [
            format!("Authorization: Bearer {token}"),
            format!("x-ms-copy-source: http://localhost/devstoreaccount1{source}"),
            kind.to_owned(),
        ];
        let headers: Vec<_> = headers.iter().map(String::as_str).collect();
        ask(address, "PUT", &format!("/devstoreaccount1{target}"), &headers, "").await
    };
    for (kind, target) in [
        ("x-ms-version: 2024-11-04", "/box/two"),
        ("x-ms-blob-type: BlockBlob", "/box/two"),
        ("x-ms-version: 2024-11-04", "/box/two?comp=block&blockid=QUE="),
    ] {
        let refused = copy(&writer, "/secret/one", target, kind).await;
        assert_eq!(code(&refused), (403, "cannotverifycopysource"), "{kind} {target}");
        let done = copy(&writer, "/box/one", target, kind).await;
        assert!(matches!(done.status, 201 | 202), "{kind} {target}: {done:?}");
    }
    assert_eq!(copy(&owner, "/secret/one", "/box/two", "x-ms-version: 2024-11-04").await.status, 202);
    service.stop().await;
}

#[tokio::test]
async fn what_is_no_good_token_is_refused_with_the_codes_of_storage() {
    let issuer = Issuer::new();
    let service = issuer.service().await;
    for (token, part) in refused(&issuer, STORAGE) {
        let refused = request(&service, "GET", "/box/one", &token, "").await;
        let expected = match part {
            "has no role here" => (403, "authorizationpermissionmismatch"),
            _ => (401, "invalidauthenticationinfo"),
        };
        assert_eq!(code(&refused), expected, "{refused:?}");
        assert!(refused.body.contains(part), "{}", refused.body);
        let challenge = "www-authenticate: bearer authorization_uri=";
        assert_eq!(refused.head.contains(challenge), refused.status == 401);
    }
    // Roles for hubs are none for blobs.
    let owner = issuer.token(&Wanted { audience: STORAGE, ..Wanted::default() });
    assert_eq!(request(&service, "GET", "/box/one", &owner, "").await.status, 403);
    service.stop().await;
}
