//! Connections that prove themselves late or never, on a clock of their own.

use std::time::Duration;

use ::amqp::connection::{ConnectionError, Event, SaslClient};
use ::amqp::performative::ErrorCondition;
use access::{DEVELOPMENT_KEY_VALUE, ROOT_KEY_NAME};

use super::*;
use crate::front::listener::PROOF_PATIENCE;
use crate::namespace::{NamespaceConfig, SignaturePolicy};
use partition_log::UnixTime;

/// A front end, and the client's end of a connection to it.
fn connected(signatures: SignaturePolicy, sasl: SaslClient) -> (Arc<AmqpFront>, Driver) {
    let config = NamespaceConfig {
        signatures,
        // A client that is driven sends an empty frame every five seconds.
        idle_timeout: Duration::from_secs(10),
        ..NamespaceConfig::with_hubs(Vec::new())
    };
    let namespace = Namespace::new(&config, UnixTime::default()).unwrap();
    let front = AmqpFront::new(Arc::new(namespace));
    let (near, far) = tokio::io::duplex(64 * 1024);
    let place = front.gate.places().take().unwrap();
    let serving = Arc::clone(&front);
    tokio::spawn(async move {
        let (_stop, stopped) = watch::channel(false);
        let stream = Stream::Other(Box::new(near));
        serving.serve_stream(stream, None, place, stopped).await;
    });
    let client = Connection::client(Config::default(), sasl, Instant::now().into_std());
    (front, Driver::new(client, Stream::Other(Box::new(far))))
}

async fn close_of(client: &mut Driver) -> Option<ConnectionError> {
    loop {
        match client.next_event().await {
            Ok(Event::Closed(error)) => return error,
            Ok(_) => {}
            Err(error) => panic!("{error}"),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_presents_no_token_ends_after_a_minute_however_often_it_is_heard_of() {
    let started = Instant::now();
    let (front, mut client) = connected(SignaturePolicy::Verify, SaslClient::Anonymous);
    let Some(ConnectionError::ClosedByPeer(error)) = close_of(&mut client).await else {
        panic!("it was closed without a reason")
    };
    assert_eq!(error.condition, ErrorCondition::CONNECTION_FORCED);
    assert!(error.description.contains("no token within 60000 milliseconds"), "{error}");
    let patience = PROOF_PATIENCE..PROOF_PATIENCE + Duration::from_secs(1);
    assert!(patience.contains(&started.elapsed()), "{:?}", started.elapsed());
    assert_eq!(front.counters().unproven, 1);
}

#[tokio::test(start_paused = true)]
async fn a_client_that_authenticated_or_needs_no_key_may_stay_without_a_token() {
    let key = SaslClient::Plain { username: ROOT_KEY_NAME.into(), password: DEVELOPMENT_KEY_VALUE.into() };
    for (signatures, sasl) in
        [(SignaturePolicy::Verify, key), (SignaturePolicy::AcceptAny, SaslClient::Anonymous)]
    {
        let (front, mut client) = connected(signatures, sasl);
        let closed = tokio::time::timeout(PROOF_PATIENCE * 60, close_of(&mut client)).await;
        assert!(closed.is_err(), "{signatures:?}: {closed:?}");
        assert_eq!(front.counters().unproven, 0);
    }
}
