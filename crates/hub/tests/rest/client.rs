//! A client over HTTP that says exactly what it is told to, right or wrong.

use std::net::SocketAddr;
use std::time::{Duration, SystemTime};

use access::{DEVELOPMENT_KEY_VALUE, ROOT_KEY_NAME, SharedAccessKey};
use hub::namespace::{HubConfig, NamespaceConfig, QueueConfig, TopicConfig};
use hub::service::{Protocol, Service, ServiceConfig};
pub(crate) use test_peer::within;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// A namespace with the hub `events` of two partitions, the queue `orders`, and the topic `news` with the subscription `all`.
pub(crate) fn namespace() -> NamespaceConfig {
    NamespaceConfig {
        queues: vec![QueueConfig::new("orders")],
        topics: vec![TopicConfig::new("news", ["all"])],
        ..NamespaceConfig::with_hubs(vec![HubConfig::new("events", 2)])
    }
}

/// A service with it, and metrics.
pub(crate) async fn service() -> Service {
    Service::start(ServiceConfig::loopback(namespace()).and(Protocol::Operations)).await.unwrap()
}

/// A token of the emulator's key for a resource, for an hour.
pub(crate) fn token(resource: &str) -> String {
    let key = SharedAccessKey::new(ROOT_KEY_NAME, DEVELOPMENT_KEY_VALUE);
    key.sign(&format!("http://localhost/{resource}"), SystemTime::now() + Duration::from_secs(3600))
}

/// A connection.
pub(crate) struct Client {
    pub(crate) socket: TcpStream,
    authorization: String,
}

/// A reply, taken apart.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
}

impl Reply {
    pub(crate) fn field(&self, name: &str) -> Option<&str> {
        self.head.lines().skip(1).find_map(|line| {
            let (other, value) = line.split_once(": ")?;
            other.eq_ignore_ascii_case(name).then_some(value)
        })
    }

    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }
}

impl Client {
    /// Connects, and presents a token for the namespace with each request.
    pub(crate) async fn connect(address: SocketAddr) -> Self {
        Self::connect_with(address, &token("")).await
    }

    /// The same with another token.
    pub(crate) async fn connect_with(address: SocketAddr, token: &str) -> Self {
        let authorization = format!("Authorization: {token}\r\n");
        Self { socket: TcpStream::connect(address).await.unwrap(), authorization }
    }

    /// A request and its reply.
    pub(crate) async fn ask(&mut self, method: &str, target: &str, fields: &str, body: &[u8]) -> Reply {
        self.send(method, target, fields, body).await;
        self.reply().await
    }

    pub(crate) async fn send(&mut self, method: &str, target: &str, fields: &str, body: &[u8]) {
        let authorization = &self.authorization;
        let length = body.len();
        let head = format!(
            "{method} {target} HTTP/1.1\r\nHost: localhost\r\n{authorization}{fields}Content-Length: {length}\r\n\r\n"
        );
        self.write(&[head.as_bytes(), body].concat()).await;
    }

    pub(crate) async fn write(&mut self, bytes: &[u8]) {
        within("the request", self.socket.write_all(bytes)).await.unwrap();
    }

    /// The next reply, as far as its length says.
    pub(crate) async fn reply(&mut self) -> Reply {
        within("the reply", self.read_reply()).await
    }

    async fn read_reply(&mut self) -> Reply {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(self.socket.read_u8().await.unwrap());
        }
        let head = String::from_utf8(head).unwrap();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        let mut reply = Reply { status, head, body: Vec::new() };
        let length = reply.field("Content-Length").map_or(0, |length| length.parse().unwrap());
        reply.body = vec![0; length];
        self.socket.read_exact(&mut reply.body).await.unwrap();
        reply
    }

    /// Whether the service has ended the connection, and nothing else comes.
    pub(crate) async fn is_over(&mut self) -> bool {
        // A reset is an end as well.
        let mut byte = [0];
        !matches!(within("the end", self.socket.read(&mut byte)).await, Ok(1..))
    }
}
