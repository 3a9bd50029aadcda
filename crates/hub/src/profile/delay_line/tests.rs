//! What comes through the line, when, and in which order. On virtual time but for the last.

use std::sync::Arc;

use proptest::prelude::*;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream};
use tokio::runtime::{Builder, Runtime};
use units::{Random, Rate};

use super::lane::BYTES_MAX;
use super::*;
use crate::profile::{FailureConfig, ProfileConfig, Traffic};

const ROUND_TRIP: Duration = Duration::from_millis(20);

fn profile(config: &ProfileConfig) -> Arc<ServiceProfile> {
    ServiceProfile::new(config).unwrap().expect("the profile is not off")
}

fn round_trip(round_trip: Distribution) -> ProfileConfig {
    ProfileConfig { round_trip: Some(round_trip), ..ProfileConfig::default() }
}

/// A client's socket and the service's end of the line. The socket holds more than a line may.
fn line(config: &ProfileConfig) -> (DuplexStream, DelayLine) {
    let (client, socket) = tokio::io::duplex(4 * BYTES_MAX);
    let shaper = Shaper::new(&profile(config), Traffic::Messaging, None);
    (client, shaper.delay_line(socket))
}

fn virtual_time() -> Runtime {
    Builder::new_current_thread().enable_time().start_paused(true).build().unwrap()
}

/// Sends back what it reads, at once.
async fn echo(mut line: DelayLine) -> io::Result<()> {
    let mut bytes = [0; 1000];
    loop {
        let length = line.read(&mut bytes).await?;
        if length == 0 {
            return line.shutdown().await;
        }
        line.write_all(&bytes[..length]).await?;
        line.flush().await?;
    }
}

#[tokio::test(start_paused = true)]
async fn an_answer_takes_a_round_trip_and_the_first_one_the_handshake_as_well() {
    let (mut client, line) = line(&round_trip(Distribution::Constant(ROUND_TRIP)));
    let service = tokio::spawn(echo(line));
    for round_trips in [2, 1, 1] {
        let start = Instant::now();
        client.write_all(b"question").await.unwrap();
        let mut answer = [0; 8];
        client.read_exact(&mut answer).await.unwrap();
        assert_eq!(&answer, b"question");
        assert_eq!(start.elapsed(), ROUND_TRIP * round_trips);
    }
    drop(client);
    service.await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn requests_in_flight_pass_in_the_time_of_one() {
    const PAUSE: Duration = Duration::from_millis(1);
    let (client, line) = line(&round_trip(Distribution::Constant(ROUND_TRIP)));
    tokio::spawn(echo(line));
    let (mut reader, mut writer) = tokio::io::split(client);
    writer.write_all(b"question").await.unwrap();
    reader.read_exact(&mut [0; 8]).await.unwrap();
    let start = Instant::now();
    let asking = async {
        for _ in 0..10 {
            writer.write_all(b"question").await.unwrap();
            tokio::time::sleep(PAUSE).await;
        }
    };
    let hearing = async {
        for number in 0..10 {
            reader.read_exact(&mut [0; 8]).await.unwrap();
            assert_eq!(start.elapsed(), ROUND_TRIP + number * PAUSE);
        }
    };
    tokio::join!(asking, hearing);
}

#[tokio::test(start_paused = true)]
async fn bytes_arrive_and_leave_while_the_service_is_busy() {
    let (client, mut line) = line(&round_trip(Distribution::Constant(ROUND_TRIP)));
    let (mut reader, mut writer) = tokio::io::split(client);
    let start = Instant::now();
    writer.write_all(b"1").await.unwrap();
    assert_eq!(line.read_u8().await.unwrap(), b'1');
    assert_eq!(start.elapsed(), ROUND_TRIP * 3 / 2);
    line.write_all(b"1").await.unwrap();
    line.flush().await.unwrap();
    assert_eq!(start.elapsed(), ROUND_TRIP * 3 / 2, "a flush waits for nothing");
    writer.write_all(b"2").await.unwrap();
    // The service neither reads nor writes for a while, and then finds what has come.
    let busy = ROUND_TRIP / 4 * 3;
    let service = async {
        tokio::time::sleep(busy).await;
        assert_eq!(line.read_u8().await.unwrap(), b'2');
        assert_eq!(start.elapsed(), ROUND_TRIP * 3 / 2 + busy);
    };
    let client = async {
        assert_eq!(reader.read_u8().await.unwrap(), b'1');
        assert_eq!(start.elapsed(), ROUND_TRIP * 2);
    };
    tokio::join!(service, client);
}

#[tokio::test(start_paused = true)]
async fn bytes_of_a_line_that_the_service_drops_still_leave() {
    let (mut client, mut line) = line(&round_trip(Distribution::Constant(ROUND_TRIP)));
    line.write_all(b"last words").await.unwrap();
    drop(line);
    let start = Instant::now();
    let mut all = Vec::new();
    client.read_to_end(&mut all).await.unwrap();
    assert_eq!(all, b"last words");
    assert_eq!(start.elapsed(), ROUND_TRIP / 2);
}

#[tokio::test(start_paused = true)]
async fn a_client_that_takes_nothing_keeps_no_line_that_the_service_has_dropped() {
    let (client, socket) = tokio::io::duplex(1);
    let shaper =
        Shaper::new(&profile(&round_trip(Distribution::Constant(ROUND_TRIP))), Traffic::Messaging, None);
    let mut line = shaper.delay_line(socket);
    line.write_all(b"last words").await.unwrap();
    let path = Arc::downgrade(&line.path);
    drop(line);
    assert!(path.strong_count() > 0);
    tokio::time::sleep(Duration::from_secs(6)).await;
    assert_eq!(path.strong_count(), 0);
    drop(client);
}

#[tokio::test(start_paused = true)]
async fn the_service_thinks_before_its_first_byte_and_not_before_its_second() {
    let setup = Duration::from_millis(50);
    let config =
        ProfileConfig { connection_setup: Some(Distribution::Constant(setup)), ..ProfileConfig::default() };
    let (mut client, line) = line(&config);
    tokio::spawn(echo(line));
    for expected in [setup, Duration::ZERO] {
        let start = Instant::now();
        client.write_all(b"question").await.unwrap();
        client.read_exact(&mut [0; 8]).await.unwrap();
        assert_eq!(start.elapsed(), expected);
    }
}

#[tokio::test(start_paused = true)]
async fn the_end_comes_after_the_last_byte_and_as_late() {
    let (mut client, mut line) = line(&round_trip(Distribution::Constant(ROUND_TRIP)));
    let start = Instant::now();
    client.write_all(b"last words").await.unwrap();
    drop(client);
    let mut all = Vec::new();
    line.read_to_end(&mut all).await.unwrap();
    assert_eq!(all, b"last words");
    assert_eq!(start.elapsed(), ROUND_TRIP * 3 / 2);
}

#[tokio::test(start_paused = true)]
async fn what_is_under_way_is_bounded_in_both_directions() {
    let (mut client, mut line) = line(&round_trip(Distribution::Constant(ROUND_TRIP)));
    // Out: no time passes, so nothing leaves.
    let bytes = vec![7; 3 * BYTES_MAX];
    let mut written = 0;
    let stuck: Poll<()> = poll_once(|cx| {
        loop {
            match Pin::new(&mut line).poll_write(cx, &bytes[written..]) {
                Poll::Ready(length) => written += length.unwrap(),
                Poll::Pending => return Poll::Pending,
            }
        }
    })
    .await;
    assert!(stuck.is_pending());
    assert_eq!(written, BYTES_MAX);
    // In: the service is slow, and the client has sent three times as much as may be under way.
    client.write_all(&bytes).await.unwrap();
    tokio::task::yield_now().await;
    let mut one = [0; 1];
    assert!(
        poll_once(|cx| Pin::new(&mut line).poll_read(cx, &mut ReadBuf::new(&mut one))).await.is_pending()
    );
    assert_eq!(carrier::lock(&line.path).inbound.bytes.len(), BYTES_MAX);
    // And nothing is lost.
    let reader = async {
        let mut all = vec![0; bytes.len()];
        line.read_exact(&mut all).await.unwrap();
        all
    };
    assert_eq!(reader.await, bytes);
}

/// One poll of something, for what it is worth then.
async fn poll_once<T>(mut poll: impl FnMut(&mut Context<'_>) -> Poll<T>) -> Poll<T> {
    std::future::poll_fn(|cx| Poll::Ready(poll(cx))).await
}

#[tokio::test(start_paused = true)]
async fn a_line_breaks_at_the_same_instant_in_every_run_with_the_same_seed() {
    async fn lifetimes(seed: u64) -> Vec<Duration> {
        let profile = profile(&ProfileConfig {
            failures: FailureConfig {
                disconnect_per_s: Some(Rate::per_second(0.1).unwrap()),
                ..FailureConfig::default()
            },
            seed,
            ..ProfileConfig::default()
        });
        let mut lifetimes = Vec::new();
        for _ in 0..5 {
            let (_client, socket) = tokio::io::duplex(1);
            let mut line = Shaper::new(&profile, Traffic::Messaging, None).delay_line(socket);
            let start = Instant::now();
            let error = line.read_u8().await.unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::ConnectionReset);
            lifetimes.push(start.elapsed());
        }
        assert_eq!(profile.counters().disconnects, 5);
        lifetimes
    }
    let first = lifetimes(3).await;
    assert_eq!(lifetimes(3).await, first);
    assert_ne!(lifetimes(4).await, first);
}

#[tokio::test]
async fn on_real_time_nothing_is_early_either() {
    let (mut client, socket) = tokio::io::duplex(1000);
    let round_trip_time = Duration::from_micros(1_500);
    let shaper = profile(&round_trip(Distribution::Constant(round_trip_time))).shaper(Traffic::Messaging);
    tokio::spawn(echo(shaper.delay_line(socket)));
    for _ in 0..20 {
        let start = Instant::now();
        client.write_all(b"question").await.unwrap();
        client.read_exact(&mut [0; 8]).await.unwrap();
        assert!(start.elapsed() >= round_trip_time);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// However the bytes are cut, whatever each burst's round trip is: they come out as they went in.
    #[test]
    fn no_burst_overtakes_another(
        seed: u64,
        chunks in prop::collection::vec((1_usize..5_000, 0_u64..4), 1..60),
    ) {
        virtual_time().block_on(async {
            let jittery = Distribution::LogNormal {
                median: Duration::from_millis(2),
                p99: Duration::from_millis(50),
            };
            let (client, line) = line(&ProfileConfig { seed, ..round_trip(jittery) });
            tokio::spawn(echo(line));
            let mut random = Random::from_seed(seed);
            let mut sent = vec![0; chunks.iter().map(|(length, _)| length).sum()];
            random.fill(&mut sent);
            let (mut reader, mut writer) = tokio::io::split(client);
            let received = async {
                let mut received = Vec::new();
                reader.read_to_end(&mut received).await.unwrap();
                received
            };
            let sending = async {
                let mut rest = &sent[..];
                for (length, pause) in chunks {
                    let (chunk, later) = rest.split_at(length);
                    writer.write_all(chunk).await.unwrap();
                    tokio::time::sleep(Duration::from_millis(pause)).await;
                    rest = later;
                }
                writer.shutdown().await.unwrap();
            };
            let (received, ()) = tokio::join!(received, sending);
            prop_assert_eq!(received, sent);
            Ok(())
        })?;
    }
}
