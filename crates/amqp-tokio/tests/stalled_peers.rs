//! Peers that stop: they are given up in time, and what waits for them does not grow. Time is the runtime's and stands
//! still unless everyone waits.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use amqp::Connection;
use amqp::connection::{Config, ConnectionError, Event, SaslClient, SaslServer};
use amqp_tokio::{DriveError, Driver, Stream};
use tokio::io::{DuplexStream, duplex};
use tokio::time::Instant;

const IDLE_TIMEOUT: Duration = Duration::from_secs(30);

fn config() -> Config {
    Config { idle_timeout: Some(IDLE_TIMEOUT), ..Config::default() }
}

fn server(socket: DuplexStream) -> Driver {
    let verify = Arc::new(|_: &_| true);
    let engine = Connection::server(config(), SaslServer { verify }, Instant::now().into_std());
    Driver::new(engine, Stream::Other(Box::new(socket)))
}

/// A server's and a client's driver that have opened.
async fn opened() -> (Driver, Driver) {
    let (near, far) = duplex(1024);
    let mut server = server(near);
    let engine = Connection::client(config(), SaslClient::Anonymous, Instant::now().into_std());
    let mut client = Driver::new(engine, Stream::Other(Box::new(far)));
    let (first, second) = tokio::join!(server.next_event(), client.next_event());
    assert!(matches!((first, second), (Ok(Event::Opened(_)), Ok(Event::Opened(_)))));
    (server, client)
}

/// Drives until the connection is over, and gives its last event.
async fn end_of(driver: &mut Driver) -> Option<ConnectionError> {
    loop {
        match driver.next_event().await {
            Ok(Event::Closed(error)) => return error,
            Ok(_) => {}
            Err(error) => panic!("{error}"),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_peer_that_falls_silent_is_given_up_after_twice_the_idle_timeout() {
    let (mut server, _client) = opened().await;
    let started = Instant::now();
    assert_eq!(end_of(&mut server).await, Some(ConnectionError::IdleTimeout));
    let waited = started.elapsed();
    assert!(waited >= IDLE_TIMEOUT * 2 && waited < IDLE_TIMEOUT * 3, "{waited:?}");
}

#[tokio::test(start_paused = true)]
async fn heartbeats_keep_both_sides() {
    let (mut server, mut client) = opened().await;
    let both = async { tokio::join!(end_of(&mut server), end_of(&mut client)) };
    let elapsed = tokio::time::timeout(IDLE_TIMEOUT * 20, both).await;
    assert!(elapsed.is_err(), "{elapsed:?}");
}

#[tokio::test(start_paused = true)]
async fn a_connection_ends_though_the_peer_does_not_read_why() {
    let (mut server, client) = opened().await;
    // More than the pipe takes.
    for _ in 0..100 {
        server.connection().begin_session();
    }
    let started = Instant::now();
    let ended = poll_fn(|cx| match server.poll_drive(cx) {
        Poll::Ready(Ok(())) => {
            cx.waker().wake_by_ref();
            Poll::Pending
        }
        Poll::Ready(Err(error)) => Poll::Ready(error),
        Poll::Pending => Poll::Pending,
    })
    .await;
    assert!(matches!(ended, DriveError::Closed), "{ended}");
    let waited = started.elapsed();
    assert!(waited < IDLE_TIMEOUT * 3, "{waited:?}");
    drop(client);
}
