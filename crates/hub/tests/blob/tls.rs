//! Blobs over TLS: the same account as without.

use std::sync::Arc;
use std::time::Duration;

use access::TransportSecurity;
use hub::service::{Protocol, Service, StartError};
use hub::tls;
use tokio::io::AsyncWriteExt as _;

use crate::blob::client::{read, signed, signed_text};
use crate::blob::{BLOCK, config};
use crate::tls_client::trusting;

#[tokio::test]
async fn an_account_is_served_with_tls_and_without() {
    let directory = tempfile::tempdir().unwrap();
    let development = tls::development(directory.path(), "localhost").unwrap();
    let config = config().and_tls(Protocol::Blob, Arc::clone(&development.server));
    let service = Service::start(config).await.unwrap();
    let address = service.tls_address(Protocol::Blob).unwrap();
    let text = service.storage_tls_connection_string().unwrap().reveal();
    let endpoint = format!("BlobEndpoint=https://{address}/devstoreaccount1;");
    assert!(text.contains(&endpoint), "{text}");
    assert!(text.starts_with("DefaultEndpointsProtocol=https;"), "{text}");
    signed(&service, "PUT", "/box/a", &[BLOCK], b"sealed").await;
    let tls = trusting(&development.authority);
    let patience = Duration::from_secs(10);
    let mut stream = amqp_tokio::connect("127.0.0.1", address.port(), Some(tls), patience).await.unwrap();
    let request = signed_text(&service, "GET", "/box/a", &[], b"");
    stream.write_all(request.as_bytes()).await.unwrap();
    stream.flush().await.unwrap();
    let reply = read(&mut stream).await;
    assert_eq!((reply.status, reply.body.as_str()), (200, "sealed"));
    let list = "/box?restype=container&comp=list";
    let listed = signed(&service, "GET", list, &[], b"").await;
    assert!(listed.body.contains("ServiceEndpoint=\"http://"));
    service.stop().await;
}

#[tokio::test]
async fn tls_alone_serves_an_account_and_the_development_key_stays_on_this_machine() {
    let directory = tempfile::tempdir().unwrap();
    let development = tls::development(directory.path(), "localhost").unwrap();
    let mut config = config();
    config.listeners.retain(|listener| listener.protocol != Protocol::Blob);
    config = config.and_tls(Protocol::Blob, development.server);
    let service = Service::start(config.clone()).await.unwrap();
    assert!(service.address(Protocol::Blob).is_none() && service.tls_address(Protocol::Blob).is_some());
    assert!(service.storage_connection_string().is_none());
    service.stop().await;
    // The hubs' key is a secret; that of the blobs is not.
    config.namespace.authorization_rules[0].key = "private".into();
    config.listeners.last_mut().unwrap().address = "0.0.0.0:0".parse().unwrap();
    let error = Service::start(config).await.unwrap_err();
    let StartError::OpenToAnyone { protocol, security, .. } = error else { panic!("{error}") };
    assert_eq!((protocol, security), (Protocol::Blob, TransportSecurity::Tls));
}
