//! The issuer of the service's own.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use hub::identity::DevelopmentIdentityConfig;
use hub::namespace::{HubConfig, NamespaceConfig};
use hub::service::{Listener, Openness, Protocol, Service, ServiceConfig, StartError};

use crate::identity::request::ask;

fn config() -> ServiceConfig {
    let namespace = NamespaceConfig::with_hubs(vec![HubConfig::new("events", 1)]);
    ServiceConfig {
        development_identity: Some(DevelopmentIdentityConfig { token_lifetime: Duration::from_secs(60) }),
        ..ServiceConfig::loopback(namespace).and(Protocol::Identity).and(Protocol::Blob)
    }
}

#[tokio::test]
async fn an_application_gets_a_token_for_its_secret_and_the_service_accepts_it() {
    let service = Service::start(config()).await.unwrap();
    let identity = service.address(Protocol::Identity).unwrap();
    let variables = service.development_identity().unwrap();
    let (client, secret) = (variables.client, variables.secret.reveal());
    let form = |secret: &str, rest: &str| format!("client_id={client}&client_secret={secret}&{rest}");
    let credentials = "grant_type=client_credentials&scope=https%3A%2F%2Feventhubs.azure.net%2F%2F.default";
    // As the clients for C++ ask an authority of AD FS, and as older clients ask any.
    let bare = "grant_type=client_credentials&scope=openid+https%3A%2F%2Feventhubs.azure.net";
    let resource = "grant_type=client_credentials&resource=https%3A%2F%2Feventhubs.azure.net";
    for (path, rest) in [
        ("/adfs/oauth2/token", credentials),
        ("/adfs/oauth2/token", bare),
        ("/adfs/oauth2/token", resource),
        ("/a-tenant/oauth2/v2.0/token", credentials),
        ("/dstsv2/a-tenant/oauth2/v2.0/token", credentials),
        ("/dstsv2/adfs/oauth2/token", bare),
    ] {
        let reply = ask(identity, "POST", path, &[], &form(secret, rest)).await;
        assert_eq!(reply.status, 200, "{path} {rest}: {}", reply.body);
        let answer = reply.json();
        assert_eq!((&answer["token_type"], &answer["expires_in"]), (&"Bearer".into(), &60.into()));
        let bearer = format!("Authorization: Bearer {}", answer["access_token"].as_str().unwrap());
        let sent = ask(service.amqp_address(), "POST", "/events/messages", &[&bearer], "event").await;
        assert_eq!(sent.status, 201, "{}", sent.body);
    }
    for (body, status, error) in [
        (form("guess", credentials), 401, "invalid_client"),
        (format!("client_id=other&client_secret={secret}&{credentials}"), 401, "invalid_client"),
        (form(secret, "grant_type=password"), 400, "unsupported_grant_type"),
        (form(secret, "grant_type=client_credentials&scope=openid"), 400, "invalid_scope"),
    ] {
        let reply = ask(identity, "POST", "/adfs/oauth2/token", &[], &body).await;
        assert_eq!((reply.status, &reply.json()["error"]), (status, &error.into()), "{}", reply.body);
    }
    assert_eq!(ask(identity, "GET", "/adfs/oauth2/token", &[], "").await.status, 404);
    service.stop().await;
}

#[tokio::test]
async fn a_managed_identity_gets_a_token_for_the_header() {
    let service = Service::start(config()).await.unwrap();
    let identity = service.address(Protocol::Identity).unwrap();
    let header = format!("X-IDENTITY-HEADER: {}", service.development_identity().unwrap().secret.reveal());
    let target = "/msi/token?api-version=2019-08-01&resource=https%3A%2F%2Fstorage.azure.com%2F";
    let answer = ask(identity, "GET", target, &[&header], "").await.json();
    assert_eq!(answer["resource"], "https://storage.azure.com/");
    assert!(answer["expires_on"].as_str().unwrap().parse::<u64>().unwrap() > 1_600_000_000);
    let bearer = format!("Authorization: Bearer {}", answer["access_token"].as_str().unwrap());
    let blobs = service.address(Protocol::Blob).unwrap();
    let created = ask(blobs, "PUT", "/devstoreaccount1/box?restype=container", &[&bearer], "").await;
    assert_eq!(created.status, 201, "{}", created.body);
    // For blobs, and for nothing else.
    let sent = ask(service.amqp_address(), "POST", "/events/messages", &[&bearer], "event").await;
    assert_eq!(sent.status, 401);
    assert!(sent.body.contains("InvalidAudience"), "{}", sent.body);
    // Whatever ids an identity has in the cloud that a deployment names.
    let id = "01234567-89ab-cdef-0123-456789abcdef";
    for name in ["client_id", "object_id", "mi_res_id"] {
        let answer = ask(identity, "GET", &format!("{target}&{name}={id}"), &[&header], "").await.json();
        let known = if name == "client_id" { id } else { service.development_identity().unwrap().client };
        assert_eq!(answer["client_id"], known, "{answer}");
    }
    let refused = ask(identity, "GET", &format!("{target}&client_id=mine"), &[&header], "").await;
    assert_eq!(refused.status, 400, "{}", refused.body);
    for headers in [&[][..], &["X-IDENTITY-HEADER: guess"]] {
        assert_eq!(ask(identity, "GET", target, headers, "").await.status, 401);
    }
    service.stop().await;
}

#[tokio::test]
async fn an_authority_says_where_its_endpoints_are() {
    let service = Service::start(config()).await.unwrap();
    let identity = service.address(Protocol::Identity).unwrap();
    for (path, endpoint) in [
        ("/adfs/.well-known/openid-configuration", "/adfs/oauth2/token"),
        ("/t/v2.0/.well-known/openid-configuration", "/t/oauth2/v2.0/token"),
        ("/dstsv2/t/.well-known/openid-configuration", "/dstsv2/t/oauth2/token"),
        ("/dstsv2/t/v2.0/.well-known/openid-configuration", "/dstsv2/t/oauth2/v2.0/token"),
    ] {
        let configuration = ask(identity, "GET", path, &[], "").await.json();
        assert_eq!(configuration["token_endpoint"], format!("http://{identity}{endpoint}"));
    }
    let keys = ask(identity, "GET", "/t/discovery/v2.0/keys", &[], "").await.json();
    assert_eq!(keys["keys"][0]["alg"], "ES256");
    let instance = ask(
        identity,
        "GET",
        "/common/discovery/instance?api-version=1.1&authorization_endpoint=https%3A%2F%2Fh%2Ft%2Foauth2",
        &[],
        "",
    )
    .await
    .json();
    let discovery = format!("http://{identity}/t/v2.0/.well-known/openid-configuration");
    assert_eq!(instance["tenant_discovery_endpoint"], discovery);
    let realm = "http://schemas.microsoft.com/rel/trusted-realm";
    let target = format!("/.well-known/webfinger?rel={realm}&resource=https://localhost:1/adfs");
    let finger = ask(identity, "GET", &target, &[], "").await.json();
    assert_eq!(finger["links"][0], serde_json::json!({"rel": realm, "href": "https://localhost:1/adfs"}));
    service.stop().await;
}

#[tokio::test]
async fn tokens_are_not_issued_to_other_machines() {
    let mut config = config();
    config.namespace.authorization_rules[0].key = "private".into();
    let everywhere = SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), 0);
    config.listeners.push(Listener::plain(Protocol::Identity, everywhere));
    let error = Service::start(config.clone()).await.unwrap_err();
    let expected = Openness::DevelopmentIdentity;
    assert!(matches!(error, StartError::OpenToAnyone { openness, .. } if openness == expected));
    config.development_identity = None;
    config.listeners.pop();
    assert!(matches!(Service::start(config).await.unwrap_err(), StartError::WithoutIssuer));
}
