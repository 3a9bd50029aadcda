//! The producer over the REST interface, against a service that answers as a test tells it to: what a request is, and what is made of
//! answers, and of none.

#![expect(clippy::unwrap_used, reason = "what helpers of tests do not expect fails the test")]

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use connect::producer::{
    Batching, Buffering, Connections, Fate, NewEvent, Producer, ProducerOptions, ProducerTarget,
    PropertyValue, Stage,
};
use connect::retry::RetryPolicy;
use connect::service::ClientOptions;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;

/// What the service does with the next request; without anything it grants it.
enum Answer {
    Says(&'static str),
    /// Ends the connection instead, having read the request.
    Breaks,
    /// Grants it, says that it was the last one, and ends the connection.
    GrantsAndCloses,
}

/// A request: its head and its body.
#[derive(Debug)]
struct Seen {
    head: String,
    body: Vec<u8>,
}

struct Service {
    port: u16,
    answers: Arc<Mutex<VecDeque<Answer>>>,
    requests: mpsc::UnboundedReceiver<Seen>,
    connections: Arc<Mutex<u32>>,
}

impl Service {
    async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let answers = Arc::<Mutex<VecDeque<Answer>>>::default();
        let connections = Arc::<Mutex<u32>>::default();
        let (sender, requests) = mpsc::unbounded_channel();
        let (script, count) = (Arc::clone(&answers), Arc::clone(&connections));
        tokio::spawn(async move {
            while let Ok((socket, _)) = listener.accept().await {
                *count.lock().unwrap() += 1;
                tokio::spawn(serve(socket, Arc::clone(&script), sender.clone()));
            }
        });
        Self { port, answers, requests, connections }
    }

    fn answer(&self, answers: impl IntoIterator<Item = Answer>) {
        self.answers.lock().unwrap().extend(answers);
    }

    async fn producer(&self, options: ProducerOptions) -> Producer {
        let text = format!(
            "Endpoint=sb://localhost:{};SharedAccessKeyName=name;SharedAccessKey=key;UseDevelopmentEmulator=true",
            self.port
        );
        let mut to = ClientOptions::new(text.parse().unwrap(), "some hub");
        to.reconnect = RetryPolicy { delay: Duration::from_millis(1), ..to.reconnect };
        within(Producer::connect(ProducerTarget::Http(to), options)).await.unwrap()
    }

    async fn seen(&mut self) -> Seen {
        within(self.requests.recv()).await.unwrap()
    }
}

async fn serve(
    mut socket: TcpStream,
    script: Arc<Mutex<VecDeque<Answer>>>,
    seen: mpsc::UnboundedSender<Seen>,
) {
    let mut input = Vec::new();
    loop {
        let end = loop {
            if let Some(end) = input.windows(4).position(|bytes| bytes == b"\r\n\r\n") {
                break end + 4;
            }
            if socket.read_buf(&mut input).await.unwrap_or(0) == 0 {
                return;
            }
        };
        let head = String::from_utf8(input.drain(..end).collect()).unwrap();
        let length = head.lines().find_map(|line| line.strip_prefix("Content-Length: ")).unwrap_or("0");
        let length: usize = length.parse().unwrap();
        while input.len() < length {
            if socket.read_buf(&mut input).await.unwrap_or(0) == 0 {
                return;
            }
        }
        let body = input.drain(..length).collect();
        // A test that has ended reads no more.
        let _ = seen.send(Seen { head, body });
        let answer = script.lock().unwrap().pop_front();
        let (text, closes) = match answer {
            None => (GRANTED, false),
            Some(Answer::Says(text)) => (text, false),
            Some(Answer::GrantsAndCloses) => (GRANTED_LAST, true),
            Some(Answer::Breaks) => return,
        };
        if socket.write_all(text.as_bytes()).await.is_err() || closes {
            return;
        }
    }
}

async fn within<T>(what: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(60), what).await.expect("it comes in time")
}

fn once() -> ProducerOptions {
    let retry = RetryPolicy { attempts: 1, ..RetryPolicy::default() };
    ProducerOptions { retry, ..ProducerOptions::default() }
}

#[tokio::test]
async fn an_event_is_a_request_and_the_connection_is_kept() {
    let mut service = Service::start().await;
    let producer = service.producer(once()).await;
    let properties = [("Region", PropertyValue::Text("eu")), ("number", PropertyValue::Integer(7))];
    let event = NewEvent {
        key: Some("k"),
        content_type: Some("text/plain"),
        properties: &properties,
        ..NewEvent::new(b"a body")
    };
    within(producer.send(&event)).await.unwrap();
    let Seen { head, body } = service.seen().await;
    assert!(
        head.starts_with("POST /some%20hub/messages?timeout=60&api-version=2014-01 HTTP/1.1\r\n"),
        "{head}"
    );
    for line in [
        &format!("Host: localhost:{}", service.port)[..],
        "Content-Type: text/plain",
        "Region: eu",
        "number: 7",
        "BrokerProperties: {\"PartitionKey\":\"k\"}",
    ] {
        assert!(head.contains(&format!("\r\n{line}\r\n")), "{line}: {head}");
    }
    assert!(
        head.contains("\r\nAuthorization: SharedAccessSignature sr=sb%3A%2F%2Flocalhost%2Fsome%20hub&sig="),
        "{head}"
    );
    assert_eq!(body, b"a body");
    within(producer.send(&NewEvent { partition: Some(3), ..NewEvent::default() })).await.unwrap();
    assert!(service.seen().await.head.starts_with("POST /some%20hub/partitions/3/messages?"));
    assert_eq!(*service.connections.lock().unwrap(), 1);
}

#[tokio::test]
async fn events_that_come_together_are_one_array() {
    let mut service = Service::start().await;
    let options = ProducerOptions { buffering: Buffering::Safe(Batching::default()), ..once() };
    let producer = Arc::new(service.producer(options).await);
    let send = |body: &'static [u8]| {
        let producer = Arc::clone(&producer);
        tokio::spawn(async move { producer.send(&NewEvent::new(body)).await })
    };
    for sent in [send(b"one"), send(b"two"), send(b"\xff")] {
        within(sent).await.unwrap().unwrap();
    }
    let Seen { head, body } = service.seen().await;
    assert!(head.contains("\r\nContent-Type: application/vnd.microsoft.servicebus.json\r\n"), "{head}");
    let expected = r#"[{"Body":"one"},{"Body":"two"},{"IsBodyBase64":true,"Body":"/w=="}]"#;
    assert_eq!(String::from_utf8(body).unwrap(), expected);
    assert_eq!(producer.statistics().acknowledged, 3);
}

#[tokio::test]
async fn an_answer_says_what_became_of_the_event_and_none_says_nothing() {
    let mut service = Service::start().await;
    let producer = service.producer(once()).await;
    service.answer([
        Answer::Says("HTTP/1.1 401 No\r\nContent-Length: 55\r\n\r\n<Error><Code>401</Code><Detail>ExpiredToken: x</Detail>"),
        Answer::Says("HTTP/1.1 413 Large\r\nContent-Length: 0\r\n\r\n"),
        Answer::Says("HTTP/1.1 503 Busy\r\nRetry-After: 1\r\nContent-Length: 0\r\n\r\n"),
        Answer::Says("HTTP/1.1 500 Oh\r\nContent-Length: 0\r\n\r\n"),
        Answer::Breaks,
        Answer::Says("no HTTP at all\r\n\r\n"),
    ]);
    let mut fates = Vec::new();
    let mut first = String::new();
    for _ in 0..6 {
        let failure = within(producer.send(&NewEvent::default())).await.unwrap_err();
        if first.is_empty() {
            first = failure.to_string();
        }
        fates.push(failure.fate);
        service.seen().await;
    }
    assert!(first.contains("ExpiredToken: x"), "{first}");
    let expected = [Fate::Refused, Fate::Refused, Fate::Refused, Fate::Unknown, Fate::Unknown, Fate::Unknown];
    assert_eq!(fates, expected);
    within(producer.send(&NewEvent::default())).await.unwrap();
    assert_eq!(within(producer.close()).await.acknowledged, 1);
}

#[tokio::test]
async fn a_connection_that_the_service_had_closed_is_replaced_without_a_word() {
    let mut service = Service::start().await;
    let producer = service.producer(once()).await;
    service.answer([Answer::GrantsAndCloses, Answer::GrantsAndCloses]);
    for _ in 0..3 {
        within(producer.send(&NewEvent::default())).await.unwrap();
        service.seen().await;
    }
    assert_eq!(*service.connections.lock().unwrap(), 3);
}

#[tokio::test]
async fn an_isolated_send_is_a_connection_and_a_request() {
    let mut service = Service::start().await;
    let producer = service.producer(ProducerOptions { connections: Connections::PerEvent, ..once() }).await;
    let stages = within(producer.send_isolated(&NewEvent::new(b"alone"))).await.unwrap();
    assert!(stages.of(Stage::Connect) > Duration::ZERO && stages.of(Stage::Send) > Duration::ZERO);
    assert_eq!(stages.of(Stage::Claims), Duration::ZERO);
    assert_eq!(service.seen().await.body, b"alone");
    service.answer([Answer::Breaks]);
    let failed = within(producer.send_isolated(&NewEvent::default())).await.unwrap_err();
    assert_eq!(failed.failure.fate, Fate::Unknown);
    assert_eq!(*service.connections.lock().unwrap(), 2);
}

const GRANTED: &str = "HTTP/1.1 201 Created\r\nContent-Length: 0\r\n\r\n";

const GRANTED_LAST: &str = "HTTP/1.1 201 Created\r\nConnection: close\r\nContent-Length: 0\r\n\r\n";
