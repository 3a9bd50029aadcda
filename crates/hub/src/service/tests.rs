//! Starting on addresses, and what is told of them.

use std::io;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::*;
use crate::namespace::{HubConfig, NamespaceConfig, RightConfig, RuleConfig};

fn config() -> ServiceConfig {
    ServiceConfig::loopback(NamespaceConfig::with_hubs(vec![HubConfig::new("events", 2)]))
}

/// The same, with another address.
fn listening(protocol: Protocol, address: SocketAddr) -> ServiceConfig {
    let mut config = config();
    config.listeners.push(Listener::plain(protocol, address));
    config
}

#[tokio::test]
async fn each_protocol_has_the_addresses_that_are_listed() {
    let directory = tempfile::tempdir().unwrap();
    let tls = crate::tls::development(directory.path(), "localhost").unwrap().server;
    let config = config().and(Protocol::Blob).and_tls(Protocol::Amqp, Arc::clone(&tls));
    let service = Service::start(config.clone()).await.unwrap();
    assert_eq!(service.address(Protocol::Amqp), Some(service.amqp_address()));
    assert!(service.tls_address(Protocol::Amqp).is_some() && service.address(Protocol::Blob).is_some());
    assert_eq!(service.tls_address(Protocol::Blob), None);
    assert_eq!(service.address(Protocol::Operations), None);
    service.stop().await;
    let error = Service::start(config.and_tls(Protocol::Operations, tls)).await.unwrap_err();
    assert!(matches!(error, StartError::WithoutTls { protocol: Protocol::Operations }), "{error}");
    let nowhere = ServiceConfig { listeners: Vec::new(), ..self::config() };
    let error = Service::start(nowhere).await.unwrap_err();
    assert!(matches!(error, StartError::WithoutAmqp), "{error}");
}

#[tokio::test]
async fn connection_strings_lead_to_the_bound_address() {
    let service = Service::start(config()).await.unwrap();
    let port = service.amqp_address().port();
    assert_eq!(
        service.connection_string(Some("events")).reveal(),
        format!(
            "Endpoint=sb://localhost:{port}/;SharedAccessKeyName=RootManageSharedAccessKey;\
             SharedAccessKey=SAS_KEY_VALUE;EntityPath=events;UseDevelopmentEmulator=true"
        )
    );
    assert_eq!(service.connection_string(None).amqp_address().port, port);
    assert_eq!(service.tls_connection_string(None), None);
    service.stop().await;
}

#[tokio::test]
async fn the_key_of_a_connection_string_is_the_one_that_allows_most() {
    let mut config = config();
    let rule = |name: &str, right| RuleConfig { name: name.into(), key: "value".into(), rights: vec![right] };
    config.namespace.authorization_rules =
        vec![rule("reads", RightConfig::Listen), rule("does", RightConfig::Manage)];
    let service = Service::start(config).await.unwrap();
    let expected = Credential::Key(SharedAccessKey::new("does", "value"));
    assert_eq!(service.connection_string(None).credential, expected);
}

#[tokio::test]
async fn a_taken_address_is_named_and_nothing_is_left_running() {
    let first = Service::start(config()).await.unwrap();
    let taken = first.amqp_address();
    let mut second = config();
    second.listeners.push(Listener::plain(Protocol::Operations, taken));
    let error = Service::start(second).await.unwrap_err();
    let StartError::Listen { protocol, address, source, .. } = &error else { panic!("{error}") };
    assert_eq!((*protocol, *address), (Protocol::Operations, taken));
    assert_eq!(source.kind(), io::ErrorKind::AddrInUse);
    assert!(error.to_string().starts_with(&format!("HTTP can't listen on {taken}: ")), "{error}");
}

#[tokio::test]
async fn what_anyone_could_open_is_not_served_to_other_machines() {
    let everywhere: SocketAddr = "0.0.0.0:0".parse().unwrap();
    let mapped: SocketAddr = "[::ffff:10.0.0.1]:0".parse().unwrap();
    for address in [everywhere, mapped] {
        let error = Service::start(listening(Protocol::Amqp, address)).await.unwrap_err();
        let StartError::OpenToAnyone { openness, .. } = &error else { panic!("{error}") };
        assert_eq!(*openness, Openness::DevelopmentKey { name: ROOT_KEY_NAME.to_owned() });
    }
    let mut unverified = listening(Protocol::Operations, everywhere);
    unverified.namespace.authorization_rules[0].key = "private".into();
    unverified.namespace.signatures = SignaturePolicy::AcceptAny;
    let error = Service::start(unverified.clone()).await.unwrap_err();
    assert!(
        matches!(
            &error,
            StartError::OpenToAnyone { openness: Openness::AcceptAny, protocol: Protocol::Operations, .. }
        ),
        "{error}"
    );
    unverified.open_to_anyone = true;
    Service::start(unverified.clone()).await.unwrap().stop().await;
    unverified.open_to_anyone = false;
    unverified.namespace.signatures = SignaturePolicy::Verify;
    Service::start(unverified).await.unwrap().stop().await;
}

#[test]
fn clients_dial_the_namespace_unless_it_is_localhost_and_elsewhere() {
    let address = |text: &str| text.parse().unwrap();
    assert_eq!(listener::client_host("localhost", address("127.0.0.1:1")), "localhost");
    assert_eq!(listener::client_host("localhost", address("0.0.0.0:1")), "localhost");
    assert_eq!(listener::client_host("localhost", address("[::1]:1")), "::1");
    assert_eq!(listener::client_host("hubs.example", address("10.0.0.1:1")), "hubs.example");
}

#[tokio::test]
async fn health_and_metrics_answer_however_many_connections_rest() {
    let service = Service::start(config().and(Protocol::Operations)).await.unwrap();
    let address = service.address(Protocol::Operations).unwrap();
    let mut resting = Vec::new();
    for _ in 0..70 {
        resting.push(TcpStream::connect(address).await.unwrap());
    }
    let health = fetched(address, "/health").await;
    assert!(health.ends_with(r#"{"status":"healthy","message":"Service is healthy."}"#), "{health}");
    let metrics = fetched(address, "/metrics").await;
    let evicted =
        metrics.lines().find_map(|line| line.strip_prefix("parshall_operations_connections_evicted_total "));
    assert!(evicted.unwrap().parse::<u64>().unwrap() >= 7, "{metrics}");
    assert!(fetched(address, "/elsewhere").await.starts_with("HTTP/1.1 404"));
    service.stop().await;
}

async fn fetched(address: SocketAddr, path: &str) -> String {
    let mut socket = TcpStream::connect(address).await.unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nHost: here\r\n\r\n");
    socket.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    socket.read_to_string(&mut answer).await.unwrap();
    answer
}
