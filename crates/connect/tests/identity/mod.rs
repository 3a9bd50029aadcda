//! Clients with an identity instead of a key, against the embedded service and its issuer of tokens for development.

#![expect(clippy::unwrap_used, reason = "what helpers of tests do not expect fails the test")]

mod chain;
mod renewing;
mod setting;

use std::future::poll_fn;

use access::storage::StorageConnectionString;
use connect::archive::{self, ArchiveFiles, ArchiveOptions, ArchiveSource, BlobPlace, EventFormat, Place};
use connect::checkpoint::blobs::{BlobStoreOptions, MissingContainer};
use connect::checkpoint::{BlobCheckpointStore, StoreError};
use connect::event_hubs::{EventHubsSource, NamespaceClient};
use connect::identity::STORAGE_SCOPE;
use connect::producer::{Connections, NewEvent, Producer, ProducerOptions, ProducerTarget};
use connect::service::ClientOptions;
use connect::service::error::NO_TOKEN;
use connect::service_bus::AdministrationClient;
use connect::sink::ErrorClass;
use connect::source::{Source, SourceEvent, SourceOptions, StartPosition};

use setting::{HUB, Setting, within};

#[tokio::test]
async fn an_identity_sends_over_amqp_and_http_and_receives() {
    let setting = Setting::start(LONG_S).await;
    let targets = [
        ProducerTarget::EventHubs(setting.hub()),
        ProducerTarget::ServiceBus(setting.entity(HUB)),
        ProducerTarget::Http(setting.entity(HUB)),
    ];
    let mut sent = 0;
    for target in targets {
        for connections in [Connections::Single, Connections::PerEvent] {
            let options = ProducerOptions { connections, ..ProducerOptions::default() };
            let producer = within(Producer::connect(target.clone(), options)).await.unwrap();
            within(producer.send(&NewEvent::new(b"event"))).await.unwrap();
            within(producer.close()).await;
            sent += 1;
        }
    }
    let options = SourceOptions::default();
    let mut source = EventHubsSource::connect(setting.hub(), "$Default", options).await.unwrap();
    source.open(source.partitions()[0], StartPosition::Earliest);
    let mut received = 0;
    while received < sent {
        let event = within(poll_fn(|context| source.poll_batch(context))).await.unwrap();
        let SourceEvent::Batch(batch) = event else { panic!("a batch") };
        received += batch.len();
        source.release(batch);
    }
    // Each scope was asked for once, however many connections there were.
    assert_eq!(setting.issued().await, 2);
    setting.service.stop().await;
}

#[tokio::test]
async fn an_identity_manages_a_namespace_over_amqp_and_over_http() {
    let setting = Setting::start(LONG_S).await;
    let mut hubs = within(NamespaceClient::connect(setting.hub())).await.unwrap();
    within(hubs.create_hub("other", 2, &[])).await.unwrap();
    let names: Vec<_> = within(hubs.hubs()).await.unwrap().into_iter().map(|hub| hub.name).collect();
    assert_eq!(names, [HUB, "other"]);
    let mut entities = within(AdministrationClient::connect(setting.entity(""))).await.unwrap();
    assert!(within(entities.list("$Resources/queues")).await.unwrap().is_empty());
    setting.service.stop().await;
}

#[tokio::test]
async fn an_identity_keeps_checkpoints_and_archives_in_blobs() {
    let setting = Setting::start(LONG_S).await;
    let options = |container: &str| BlobStoreOptions {
        identity: setting.identity.clone(),
        missing_container: MissingContainer::Create,
        ..BlobStoreOptions::new(setting.account(), container)
    };
    within(BlobCheckpointStore::open(options("checkpoints"))).await.unwrap();
    let options = ArchiveOptions::new(Place::Blob(Box::new(BlobPlace {
        identity: setting.identity.clone(),
        missing_container: MissingContainer::Create,
        ..BlobPlace::new(setting.account(), "archive")
    })));
    let options = ArchiveOptions { files: ArchiveFiles::PerEvent(EventFormat::Body), ..options };
    let source = ArchiveSource { namespace: "localhost".to_owned(), hub: HUB.to_owned() };
    let mut sink = within(archive::connect(&options, &source)).await.unwrap();
    let outcome = within(setting::archive_one(&mut *sink)).await;
    assert!(outcome.is_ok(), "{outcome:?}");
    assert_eq!(setting.issued().await, 1);
    setting.service.stop().await;
}

#[tokio::test]
async fn a_token_for_something_else_is_refused_for_good() {
    let setting = Setting::start(LONG_S).await;
    let wrong = || ClientOptions { token_scope: STORAGE_SCOPE, ..setting.entity(HUB) };
    let target = ProducerTarget::ServiceBus(wrong());
    let refused = within(Producer::connect(target, ProducerOptions::default())).await.unwrap_err();
    assert_eq!(refused.class, ErrorClass::Fatal, "{refused}");
    assert_eq!(refused.condition, "amqp:unauthorized-access");
    assert!(refused.description.starts_with("InvalidAudience"), "{refused}");
    let producer =
        within(Producer::connect(ProducerTarget::Http(wrong()), ProducerOptions::default())).await.unwrap();
    let refused = within(producer.send(&NewEvent::new(b"event"))).await.unwrap_err();
    assert!(refused.description.contains("InvalidAudience"), "{refused:?}");
    setting.service.stop().await;
}

#[tokio::test]
async fn without_a_token_nothing_is_connected_and_it_is_said_what_was_tried() {
    let setting = Setting::start(LONG_S).await;
    let nobody = setting.identity_with(&[("AZURE_CLIENT_SECRET", "guess")]);
    let options = ClientOptions { identity: nobody.clone(), ..setting.entity(HUB) };
    let target = ProducerTarget::ServiceBus(options);
    let refused = within(Producer::connect(target, ProducerOptions::default())).await.unwrap_err();
    assert_eq!((refused.class, refused.condition.as_str()), (ErrorClass::Fatal, NO_TOKEN));
    let tried = "no identity has a token for https://servicebus.azure.net/.default; tried: EnvironmentCredential: \
                 AADSTS7000215: Invalid client secret";
    assert!(refused.description.starts_with(tried), "{refused}");
    assert!(!refused.description.contains("guess"));
    let account: StorageConnectionString = setting.account();
    let options = BlobStoreOptions { identity: nobody, ..BlobStoreOptions::new(account, "checkpoints") };
    let refused = within(BlobCheckpointStore::open(options)).await.unwrap_err();
    let StoreError::Refused { reason } = refused else { panic!("{refused}") };
    assert!(reason.contains("AADSTS7000215"), "{reason}");
    setting.service.stop().await;
}

/// So long that nothing is renewed.
const LONG_S: u64 = 3600;
