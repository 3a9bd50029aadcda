//! Connections: tokens, properties, TLS.

use std::future::poll_fn;
use std::sync::Arc;
use std::time::Duration;

use connect::event::{EnqueuedTime, PartitionId};
use connect::event_hubs::{EventHubsSink, EventHubsSource, ManagementClient};
use connect::sink::ErrorClass;
use connect::source::{Source, SourceOptions};
use rustls::ServerConfig;
use rustls::pki_types::PrivateKeyDer;

use crate::event_hubs::service::{Report, Service, options};

#[tokio::test]
async fn a_token_for_the_hub_is_put_before_anything_else() {
    let mut service = Service::start(1).await;
    let _sink = EventHubsSink::connect(service.options()).await.unwrap();
    let product = service.report(|report| match report {
        Report::Opened { product } => Some(product),
        Report::TokenPut { .. } | Report::Transfer { .. } => panic!("nothing comes before open"),
        _ => None,
    });
    assert_eq!(product.await.as_deref(), Some("parshall"));
    let (audience, token) = service
        .report(|report| match report {
            Report::TokenPut { audience, token } => Some((audience, token)),
            Report::Attached(attach) => {
                assert!(test_peer::service::address_of(&attach) == "$cbs", "{attach:?}");
                None
            }
            _ => None,
        })
        .await;
    assert_eq!(audience, "sb://localhost/hub");
    assert!(token.starts_with("SharedAccessSignature sr=sb%3A%2F%2Flocalhost%2Fhub&"), "{token}");
}

#[tokio::test]
async fn a_refused_token_is_fatal() {
    let service = Service::start(1).await;
    service.script(|script| script.token_status = 401);
    let refused = EventHubsSink::connect(service.options()).await.unwrap_err();
    assert_eq!((refused.class, refused.condition.as_str()), (ErrorClass::Fatal, "amqp:unauthorized-access"));
}

#[tokio::test]
async fn a_missing_hub_is_fatal() {
    let service = Service::start(1).await;
    service.script(|script| script.management_status = 404);
    let refused =
        EventHubsSource::connect(service.options(), "$Default", SourceOptions::default()).await.unwrap_err();
    assert_eq!((refused.class, refused.condition.as_str()), (ErrorClass::Fatal, "amqp:not-found"));
}

#[tokio::test]
async fn a_service_that_is_not_there_can_be_tried_again() {
    let port = {
        let unused = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        unused.local_addr().unwrap().port()
    };
    let error = ManagementClient::connect(options(port, true)).await.unwrap_err();
    assert_eq!((error.class, error.condition.as_str()), (ErrorClass::Retryable, "connection:unreachable"));
}

#[tokio::test]
async fn properties_of_hub_and_partition_are_read() {
    let service = Service::start(3).await;
    let mut client = ManagementClient::connect(service.options()).await.unwrap();
    let hub = client.hub_properties().await.unwrap();
    assert_eq!((hub.name.as_str(), hub.created_at_unix_ms), ("hub", 1_600_000_000_000));
    assert_eq!(hub.partition_ids, [0, 1, 2].map(PartitionId));
    let partition = client.partition_properties(PartitionId(2)).await.unwrap();
    assert_eq!((partition.begin_sequence_number, partition.last_enqueued_sequence_number), (10, 41));
    assert_eq!((partition.last_enqueued_offset.as_str(), partition.is_empty), ("o41", false));
    assert_eq!(partition.last_enqueued_time, EnqueuedTime::from_unix_ms(1_700_000_000_041));
    service.script(|script| script.management_status = 400);
    let refused = client.partition_properties(PartitionId(9)).await.unwrap_err();
    assert_eq!(refused.condition, "com.microsoft:argument-error");
    client.close().await;
}

#[tokio::test]
async fn a_token_is_renewed_on_the_same_connection_and_a_refused_renewal_ends_the_source() {
    let mut service = Service::start(1).await;
    let mut options = service.options();
    options.token_life = Duration::from_millis(40);
    let mut source = EventHubsSource::connect(options, "$Default", SourceOptions::default()).await.unwrap();
    let token_put = |report| match report {
        Report::TokenPut { .. } => Some(()),
        Report::Disconnected => panic!("the connection stays"),
        _ => None,
    };
    service.report(token_put).await;
    tokio::select! {
        () = async { for _ in 0..3 { service.report(token_put).await } } => {}
        event = poll_fn(|context| source.poll_batch(context)) => panic!("nothing is open: {event:?}"),
    }
    service.script(|script| script.token_status = 401);
    let ended = poll_fn(|context| source.poll_batch(context)).await.unwrap_err();
    assert_eq!((ended.class, ended.condition.as_str()), (ErrorClass::Fatal, "amqp:unauthorized-access"));
}

#[tokio::test]
async fn tls_trusts_the_given_authority_and_no_other() {
    let certified = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let key = PrivateKeyDer::try_from(certified.signing_key.serialize_der()).unwrap();
    let config = ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certified.cert.der().clone()], key)
        .unwrap();
    let service = Service::start_with_tls(2, Some(Arc::new(config))).await;
    let folder = tempfile::tempdir().unwrap();
    let authority = folder.path().join("authority.pem");
    std::fs::write(&authority, certified.cert.pem()).unwrap();
    let mut trusting = service.tls_options();
    trusting.certificate_authority = Some(authority.clone());
    let mut client = ManagementClient::connect(trusting.clone()).await.unwrap();
    assert_eq!(client.hub_properties().await.unwrap().partition_ids.len(), 2);
    client.close().await;
    let other = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    std::fs::write(&authority, other.cert.pem()).unwrap();
    let refused = ManagementClient::connect(trusting).await.unwrap_err();
    assert_eq!(refused.condition, "connection:tls");
}
