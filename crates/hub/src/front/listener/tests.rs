//! Who gets in, who is refused, and how it ends.

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::*;
use crate::profile::{Distribution, ProfileConfig};

/// Sends back each byte; a connection proves itself by its first one.
#[derive(Debug)]
struct Echo(Gate);

impl Front for Echo {
    fn gate(&self) -> &Gate {
        &self.0
    }

    async fn serve_connection(&self, mut connection: Connection) {
        let Connection { stream, place, stop, .. } = &mut connection;
        let mut byte = [0];
        loop {
            tokio::select! {
                read = stream.read_exact(&mut byte) => if read.is_err() { return },
                _ = stop.wait_for(|stop| *stop) => return,
            }
            place.prove();
            if stream.write_all(&byte).await.is_err() || stream.flush().await.is_err() {
                return;
            }
        }
    }

    async fn refuse(&self, mut stream: Stream, _: Protocol) {
        // The client may be gone already.
        let _ = stream.write_all(b"!").await;
    }
}

struct Server {
    address: SocketAddr,
    front: Arc<Echo>,
    profile: Arc<ProfileSwitch>,
    stop: watch::Sender<bool>,
    serving: tokio::task::JoinHandle<()>,
}

impl Server {
    async fn start(connections: u64, when_full: WhenFull, profile: &ProfileConfig) -> Self {
        let profile = ProfileSwitch::new(profile).unwrap();
        let gate = Gate::new(connections, when_full, Arc::default())
            .shaped(Arc::clone(&profile), Traffic::Messaging);
        let front = Arc::new(Echo(gate));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (stop, stopped) = watch::channel(false);
        let bound = Bound { listener, protocol: Protocol::Amqp, tls: None, tls_besides: None };
        let serving = tokio::spawn(serve(Arc::clone(&front), bound, stopped));
        Self { address, front, profile, stop, serving }
    }

    async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address).await.unwrap()
    }
}

/// What comes back for one byte.
async fn echoed(socket: &mut TcpStream) -> u8 {
    socket.write_all(b"x").await.unwrap();
    socket.read_u8().await.unwrap()
}

#[tokio::test]
async fn a_client_without_a_place_is_refused_and_the_others_stay() {
    let server = Server::start(1, WhenFull::Refuse { at_once: 1 }, &ProfileConfig::default()).await;
    let mut first = server.connect().await;
    assert_eq!(echoed(&mut first).await, b'x');
    let mut second = server.connect().await;
    assert_eq!(second.read_u8().await.unwrap(), b'!');
    assert_eq!(server.front.gate().refused(), 1);
    assert_eq!(echoed(&mut first).await, b'x');
}

#[tokio::test]
async fn a_client_that_may_wait_gets_the_next_place() {
    let server = Server::start(1, WhenFull::Wait, &ProfileConfig::default()).await;
    let mut first = server.connect().await;
    assert_eq!(echoed(&mut first).await, b'x');
    let mut second = server.connect().await;
    second.write_all(b"y").await.unwrap();
    drop(first);
    assert_eq!(second.read_u8().await.unwrap(), b'y');
    assert_eq!(server.front.gate().refused(), 0);
}

#[tokio::test]
async fn a_connection_that_has_proven_nothing_makes_room() {
    let server = Server::start(1, WhenFull::Wait, &ProfileConfig::default()).await;
    let mut idle = server.connect().await;
    let mut second = server.connect().await;
    assert_eq!(echoed(&mut second).await, b'x');
    assert_eq!(idle.read(&mut [0]).await.unwrap_or_default(), 0);
    assert_eq!(server.front.gate().places().evicted(), 1);
}

#[tokio::test]
async fn stopping_ends_the_listener_and_its_connections() {
    let server = Server::start(2, WhenFull::Wait, &ProfileConfig::default()).await;
    let mut client = server.connect().await;
    assert_eq!(echoed(&mut client).await, b'x');
    server.stop.send_replace(true);
    server.serving.await.unwrap();
    assert_eq!(client.read(&mut [0]).await.unwrap_or_default(), 0);
    assert!(TcpStream::connect(server.address).await.is_err());
}

#[tokio::test]
async fn another_profile_ends_the_connections_that_are_open_and_shapes_the_next() {
    let server = Server::start(2, WhenFull::Wait, &ProfileConfig::default()).await;
    let mut client = server.connect().await;
    assert_eq!(echoed(&mut client).await, b'x');
    let round_trip = Duration::from_millis(5);
    let slow =
        ProfileConfig { round_trip: Some(Distribution::Constant(round_trip)), ..ProfileConfig::default() };
    server.profile.replace(&slow).unwrap();
    assert_eq!(client.read(&mut [0]).await.unwrap_or_default(), 0);
    let mut client = server.connect().await;
    let started = tokio::time::Instant::now();
    assert_eq!(echoed(&mut client).await, b'x');
    assert!(started.elapsed() >= round_trip);
}

#[tokio::test]
async fn the_round_trip_of_a_profile_lies_beneath_every_front() {
    let round_trip = Duration::from_millis(5);
    let profile =
        ProfileConfig { round_trip: Some(Distribution::Constant(round_trip)), ..ProfileConfig::default() };
    let server = Server::start(1, WhenFull::Wait, &profile).await;
    let mut client = server.connect().await;
    let started = tokio::time::Instant::now();
    assert_eq!(echoed(&mut client).await, b'x');
    assert!(started.elapsed() >= round_trip);
}
