//! A client of the REST interface that survives the end of the service: it then has no answer.

use std::time::{Duration, SystemTime};

use access::Credential;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::hub_crash::rig::Serving;

/// The port of a service, and a token for everything in it.
#[derive(Clone)]
pub(crate) struct Address {
    port: u16,
    token: String,
}

pub(crate) struct Connection {
    socket: TcpStream,
    token: String,
    received: Vec<u8>,
}

/// The answer to a request.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) body: String,
}

impl Address {
    pub(crate) fn of(serving: &Serving) -> Self {
        let Credential::Key(key) = &serving.connection_string.credential else {
            panic!("services have keys")
        };
        let token = key.sign("http://localhost/", SystemTime::now() + Duration::from_secs(3_600));
        Self { port: serving.connection_string.endpoint.port().unwrap(), token }
    }
}

impl Connection {
    pub(crate) async fn open(serving: &Serving) -> Option<Self> {
        Self::to(&Address::of(serving)).await
    }

    pub(crate) async fn to(address: &Address) -> Option<Self> {
        let socket = TcpStream::connect(("127.0.0.1", address.port)).await.ok()?;
        Some(Self { socket, token: address.token.clone(), received: Vec::new() })
    }

    /// Sends a request and returns the answer; `None` if the service is gone.
    pub(crate) async fn ask(
        &mut self,
        method: &str,
        path: &str,
        fields: &[&str],
        body: &str,
    ) -> Option<Answer> {
        let Self { socket, token, received } = self;
        let mut request =
            format!("{method} /{path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: {token}\r\n");
        for field in fields {
            request.push_str(field);
            request.push_str("\r\n");
        }
        request.push_str(&format!("Content-Length: {}\r\n\r\n{body}", body.len()));
        socket.write_all(request.as_bytes()).await.ok()?;
        received.clear();
        let head = loop {
            if socket.read_buf(received).await.ok()? == 0 {
                return None;
            }
            if let Some(end) = received.windows(4).position(|window| window == b"\r\n\r\n") {
                break end + 4;
            }
        };
        let text = String::from_utf8(received[..head].to_vec()).unwrap();
        let length = text.lines().find_map(|line| line.strip_prefix("Content-Length: ")).unwrap_or("0");
        let end = head + length.parse::<usize>().unwrap();
        while received.len() < end {
            if socket.read_buf(received).await.ok()? == 0 {
                return None;
            }
        }
        let status = text.split(' ').nth(1).unwrap().parse().unwrap();
        Some(Answer { status, body: String::from_utf8(received[head..end].to_vec()).unwrap() })
    }
}
