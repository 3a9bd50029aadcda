//! Clients of a service that is shaped like the real one: what it refuses is not stored, what it says it stored is,
//! and nothing comes earlier than the profile allows.

#![expect(clippy::unwrap_used, reason = "what helpers of tests do not expect fails the test")]

use std::collections::BTreeSet;
use std::future::poll_fn;
use std::num::NonZeroU64;
use std::time::{Duration, Instant};

use connect::event::PartitionId;
use connect::event_hubs::{Destination, EventHubsOptions, EventHubsSource, ManagementClient, Publisher};
use connect::sink::{ErrorClass, SendOutcome, SendToken};
use connect::source::{Source, SourceEvent, SourceOptions, StartPosition};
use hub::namespace::{HubConfig, NamespaceConfig};
use hub::profile::{
    Distribution, FailureConfig, ProfileConfig, ProfileCounterValues, QuotaConfig, Ratio, ServiceTimeConfig,
};
use hub::service::{Service, ServiceConfig};

async fn serve(profile: ProfileConfig) -> (Service, EventHubsOptions) {
    let mut namespace = NamespaceConfig::with_hubs(vec![HubConfig::new("events", 1)]);
    namespace.profile = profile;
    let service = Service::start(ServiceConfig::loopback(namespace)).await.unwrap();
    let options = EventHubsOptions::new(service.connection_string(None), Some("events")).unwrap();
    (service, options)
}

fn counters(service: &Service) -> ProfileCounterValues {
    service.namespace().profile().counters().expect("the service has a profile")
}

fn stored_events(service: &Service) -> u64 {
    service.namespace().counters().events_in
}

/// An event whose body is its number.
fn event(number: u64) -> [u8; 13] {
    let mut event = *b"\x00\x53\x75\xa0\x08________";
    event[5..].copy_from_slice(&number.to_be_bytes());
    event
}

/// Sends a batch of `size` events for each token: number `token * size` and on.
async fn send(publisher: &mut Publisher, tokens: &[u64], size: u64) -> Vec<SendOutcome> {
    let mut outcomes = Vec::new();
    for token in tokens {
        let events: Vec<_> = (token * size..(token + 1) * size).map(event).collect();
        let destination = Destination::Partition(0);
        let messages = || events.iter().map(|event| &event[..]);
        while publisher.publish(SendToken(*token), destination, messages()).is_err() {
            poll_fn(|context| publisher.poll_ready(context)).await.unwrap();
        }
    }
    while outcomes.len() < tokens.len() {
        poll_fn(|context| publisher.poll_outcomes(context, &mut outcomes)).await.unwrap();
    }
    outcomes
}

/// Sends all `tokens` again and again until each was accepted; returns how many sends failed.
async fn send_until_accepted(publisher: &mut Publisher, mut tokens: Vec<u64>, size: u64) -> usize {
    let mut failed = 0;
    loop {
        let outcomes = send(publisher, &tokens, size).await;
        let refused = outcomes.iter().filter(|outcome| outcome.result.is_err());
        tokens = refused.map(|outcome| outcome.token.0).collect();
        if tokens.is_empty() {
            return failed;
        }
        failed += tokens.len();
        tokio::time::sleep(RETRY_PAUSE).await;
    }
}

/// The numbers of the first `count` events of the partition, in their order.
async fn receive(options: &EventHubsOptions, count: usize) -> Vec<u64> {
    let mut source =
        EventHubsSource::connect(options.clone(), "$Default", SourceOptions::default()).await.unwrap();
    source.open(PartitionId(0), StartPosition::Earliest);
    let mut numbers = Vec::new();
    while numbers.len() < count {
        match poll_fn(|context| source.poll_batch(context)).await.unwrap() {
            SourceEvent::Batch(batch) => {
                for event in batch.events() {
                    let body = batch.message(event).last_chunk().unwrap();
                    numbers.push(u64::from_be_bytes(*body));
                }
                source.release(batch);
            }
            settled @ (SourceEvent::Settled(_) | SourceEvent::LocksRenewed { .. }) => {
                panic!("a hub has no locks: {settled:?}")
            }
            // The profile detached the receiver.
            SourceEvent::PartitionClosed { partition, error } => {
                assert_eq!(error.class, ErrorClass::Retryable);
                let from = match numbers.len() as i64 {
                    0 => StartPosition::Earliest,
                    length => StartPosition::AfterSequenceNumber(length - 1),
                };
                source.open(partition, from);
            }
        }
    }
    Box::new(source).shut_down().await;
    numbers
}

fn ratio(ratio: f64) -> Ratio {
    Ratio::new(ratio).unwrap()
}

fn constant(milliseconds: u64) -> Option<Distribution> {
    Some(Distribution::Constant(Duration::from_millis(milliseconds)))
}

#[tokio::test]
async fn what_the_quota_refuses_is_not_stored_and_a_client_that_tries_again_loses_nothing() {
    let (service, options) = serve(ProfileConfig {
        quota: QuotaConfig { ingress_events_per_s: NonZeroU64::new(2_000), ..QuotaConfig::default() },
        ..ProfileConfig::default()
    })
    .await;
    let mut publisher = Publisher::connect(options.clone()).await.unwrap();
    // More than the second's worth that is there at the beginning.
    let outcomes = send(&mut publisher, &(0..60).collect::<Vec<_>>(), 50).await;
    let (accepted, refused): (Vec<_>, Vec<_>) =
        outcomes.into_iter().partition(|outcome| outcome.result.is_ok());
    assert!(accepted.len() >= 40 && !refused.is_empty());
    for outcome in &refused {
        let error = outcome.result.as_ref().unwrap_err();
        assert!(matches!(error.class, ErrorClass::Throttled { .. }), "{error:?}");
        assert_eq!(error.condition, "com.microsoft:server-busy");
        assert!(error.description.contains("Error code : 50002. Please wait 4 seconds"), "{error:?}");
    }
    let throttled = counters(&service);
    assert_eq!(throttled.throttled_sends, refused.len() as u64);
    assert_eq!(throttled.throttled_events, 50 * refused.len() as u64);
    assert_eq!(stored_events(&service), 50 * accepted.len() as u64);

    let again = refused.iter().map(|outcome| outcome.token.0).collect();
    send_until_accepted(&mut publisher, again, 50).await;
    let mut received = receive(&options, 3_000).await;
    received.sort_unstable();
    assert!(received.into_iter().eq(0..3_000));
    assert_eq!(stored_events(&service), 3_000);
    publisher.shut_down().await;
    service.stop().await;
}

#[tokio::test]
async fn failures_repeat_exactly_with_the_same_seed_and_store_what_they_say() {
    async fn failed_tokens(seed: u64) -> BTreeSet<u64> {
        let (service, options) = serve(ProfileConfig {
            failures: FailureConfig { send_ratio: ratio(0.2), ..FailureConfig::default() },
            seed,
            ..ProfileConfig::default()
        })
        .await;
        let mut publisher = Publisher::connect(options).await.unwrap();
        let outcomes = send(&mut publisher, &(0..300).collect::<Vec<_>>(), 2).await;
        let failed = outcomes.iter().filter_map(|outcome| {
            let error = outcome.result.as_ref().err()?;
            assert_eq!(error.class, ErrorClass::Retryable);
            assert_eq!(error.condition, "amqp:internal-error");
            Some(outcome.token.0)
        });
        let failed: BTreeSet<_> = failed.collect();
        assert_eq!(counters(&service).failed_sends, failed.len() as u64);
        assert_eq!(stored_events(&service), 2 * (300 - failed.len() as u64));
        publisher.shut_down().await;
        service.stop().await;
        failed
    }
    let first = failed_tokens(1).await;
    // Six standard deviations around 60.
    assert!((18..=102).contains(&first.len()), "{}", first.len());
    assert_eq!(failed_tokens(1).await, first);
    assert_ne!(failed_tokens(2).await, first);
}

#[tokio::test]
async fn an_acknowledgement_that_is_lost_makes_a_duplicate_and_nothing_else() {
    let (service, options) = serve(ProfileConfig {
        failures: FailureConfig { acknowledgement_ratio: ratio(0.1), ..FailureConfig::default() },
        ..ProfileConfig::default()
    })
    .await;
    let mut publisher = Publisher::connect(options.clone()).await.unwrap();
    let failed = send_until_accepted(&mut publisher, (0..200).collect(), 1).await;
    assert!(failed > 0);
    assert_eq!(counters(&service).unacknowledged_sends, failed as u64);
    let mut received = receive(&options, 200 + failed).await;
    received.sort_unstable();
    received.dedup();
    assert!(received.into_iter().eq(0..200));
    publisher.shut_down().await;
    service.stop().await;
}

#[tokio::test]
async fn detached_links_and_broken_connections_lose_nothing_that_was_acknowledged() {
    let (service, options) = serve(ProfileConfig {
        failures: FailureConfig {
            detach_ratio: ratio(0.03),
            disconnect_ratio: ratio(0.02),
            ..FailureConfig::default()
        },
        ..ProfileConfig::default()
    })
    .await;
    let mut publisher = Publisher::connect(options.clone()).await.unwrap();
    send_until_accepted(&mut publisher, (0..200).collect(), 1).await;
    let injected = counters(&service);
    assert!(injected.detached_links > 0 && injected.disconnects > 0);
    let mut received = receive(&options, stored_events(&service) as usize).await;
    received.sort_unstable();
    received.dedup();
    assert!(received.into_iter().eq(0..200));
    publisher.shut_down().await;
    service.stop().await;
}

#[tokio::test]
async fn nothing_is_answered_before_network_and_service_have_had_their_time() {
    let (service, options) = serve(ProfileConfig {
        round_trip: constant(4),
        connection_setup: constant(10),
        service_time: ServiceTimeConfig {
            send: constant(3),
            request: constant(5),
            ..ServiceTimeConfig::default()
        },
        ..ProfileConfig::default()
    })
    .await;
    let start = Instant::now();
    let mut publisher = Publisher::connect(options.clone()).await.unwrap();
    // TCP; the answer to the first bytes; a token, which is a request.
    assert!(start.elapsed() >= Duration::from_millis(4 + 4 + 10 + 4 + 5));
    send(&mut publisher, &[0], 1).await;
    for token in 1..5 {
        let start = Instant::now();
        let outcomes = send(&mut publisher, &[token], 1).await;
        assert!(outcomes.iter().all(|outcome| outcome.result.is_ok()));
        assert!(start.elapsed() >= Duration::from_millis(4 + 3));
    }
    let mut management = ManagementClient::connect(options.clone()).await.unwrap();
    let start = Instant::now();
    management.hub_properties().await.unwrap();
    assert!(start.elapsed() >= Duration::from_millis(4 + 5));
    assert_eq!(receive(&options, 5).await, [0, 1, 2, 3, 4]);
    publisher.shut_down().await;
    service.stop().await;
}

#[tokio::test]
async fn readers_beyond_the_quota_wait_and_get_everything() {
    let (service, options) = serve(ProfileConfig {
        quota: QuotaConfig { egress_events_per_s: NonZeroU64::new(2_000), ..QuotaConfig::default() },
        ..ProfileConfig::default()
    })
    .await;
    let mut publisher = Publisher::connect(options.clone()).await.unwrap();
    send(&mut publisher, &(0..100).collect::<Vec<_>>(), 40).await;
    let received = receive(&options, 4_000).await;
    assert!(received.into_iter().eq(0..4_000));
    assert!(counters(&service).delivery_pauses > 0);
    publisher.shut_down().await;
    service.stop().await;
}

#[tokio::test]
async fn receivers_that_are_detached_go_on_where_they_were() {
    let (service, options) = serve(ProfileConfig {
        failures: FailureConfig {
            receiver_detach_per_s: Some(units::Rate::per_second(100.0).unwrap()),
            ..FailureConfig::default()
        },
        // So that reading takes long enough for it to happen.
        quota: QuotaConfig { egress_events_per_s: NonZeroU64::new(2_000), ..QuotaConfig::default() },
        ..ProfileConfig::default()
    })
    .await;
    let mut publisher = Publisher::connect(options.clone()).await.unwrap();
    send(&mut publisher, &(0..100).collect::<Vec<_>>(), 30).await;
    let received = receive(&options, 3_000).await;
    assert!(received.into_iter().eq(0..3_000));
    assert!(counters(&service).detached_links > 0);
    publisher.shut_down().await;
    service.stop().await;
}

/// Long enough for a quota to let something through, far below the four seconds that the service asks for.
const RETRY_PAUSE: Duration = Duration::from_millis(20);
