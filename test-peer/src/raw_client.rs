//! A client whose socket is in the test's own hands.

use std::net::SocketAddr;
use std::time::Instant;

use access::{DEVELOPMENT_KEY_VALUE, ROOT_KEY_NAME};
use amqp::codec::Reader;
use amqp::connection::{Config, Event, SaslClient};
use amqp::{Connection, Value};
use bytes::BytesMut;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::within;

/// A client that reads and writes only when the test asks for it, and writes any bytes.
#[derive(Debug)]
pub struct RawClient {
    /// The socket.
    pub socket: TcpStream,
    /// The engine, which sees what is read and whose output is written.
    pub engine: Connection,
    input: BytesMut,
}

impl RawClient {
    /// Sends header and open, without SASL, and reads nothing yet.
    pub async fn connect(address: SocketAddr) -> Self {
        Self::connect_as(address, SaslClient::None).await
    }

    /// The development key, with the right to do everything.
    #[must_use]
    pub fn key() -> SaslClient {
        SaslClient::Plain { username: ROOT_KEY_NAME.into(), password: DEVELOPMENT_KEY_VALUE.into() }
    }

    /// Opens a connection with the right to do everything.
    pub async fn open(address: SocketAddr) -> Self {
        let mut client = Self::connect_as(address, Self::key()).await;
        client.until("the open", |event| matches!(event, Event::Opened(_)).then_some(())).await;
        client
    }

    /// Sends header, SASL and open, and reads nothing yet.
    pub async fn connect_as(address: SocketAddr, sasl: SaslClient) -> Self {
        let socket = TcpStream::connect(address).await.unwrap();
        let config = Config { container_id: "test".to_owned(), ..Config::default() };
        let engine = Connection::client(config, sasl, Instant::now());
        let mut client = Self { socket, engine, input: BytesMut::new() };
        client.flush().await;
        client
    }

    /// Writes what the engine has to say.
    pub async fn flush(&mut self) {
        let output = self.take_output();
        // The server may have closed the socket before it has taken all of it.
        let _ = self.socket.write_all(&output).await;
    }

    /// What the engine has to say, unsent.
    pub fn take_output(&mut self) -> Vec<u8> {
        let output = self.engine.poll_output(Instant::now()).to_vec();
        self.engine.consume_output(output.len());
        output
    }

    /// The next event that `wanted` makes something of; the others are dropped.
    pub async fn until<T>(&mut self, what: &str, mut wanted: impl FnMut(Event) -> Option<T>) -> T {
        within(what, async {
            loop {
                while let Some(event) = self.engine.poll_event() {
                    if let Some(found) = wanted(event) {
                        return found;
                    }
                }
                self.flush().await;
                let read = self.socket.read_buf(&mut self.input).await.unwrap();
                assert_ne!(read, 0, "{what}: the server hung up");
                let _ = self.engine.handle_input(Instant::now(), &mut self.input);
            }
        })
        .await
    }

    /// Writes `bytes`, which are `what`, and gives the condition with which the server then closes the connection.
    pub async fn closed_with_after(mut self, what: &str, bytes: &[u8]) -> String {
        let _ = self.socket.write_all(bytes).await;
        let mut answer = Vec::new();
        within(what, self.socket.read_to_end(&mut answer)).await.unwrap();
        let close = answer.windows(3).position(|descriptor| descriptor == [0x00, 0x53, 0x18]);
        let close =
            Reader::new(&answer[close.unwrap_or_else(|| panic!("{what}: no close in {answer:02x?}"))..]);
        let fields = described_list(&close.clone().value().unwrap());
        match &described_list(&fields[0])[0] {
            Value::Symbol(condition) => condition.as_str().to_owned(),
            other => panic!("{what}: {other:?}"),
        }
    }
}

fn described_list(value: &Value) -> Vec<Value> {
    match value {
        Value::Described(described) => match &described.1 {
            Value::List(fields) => fields.clone(),
            other => panic!("{other:?}"),
        },
        other => panic!("{other:?}"),
    }
}

/// A frame of the AMQP type on `channel`, with a correct header.
#[must_use]
pub fn frame(channel: u16, body: &[u8]) -> Vec<u8> {
    let size = u32::try_from(body.len() + 8).unwrap();
    [&size.to_be_bytes()[..], &[2, 0], &channel.to_be_bytes(), body].concat()
}
