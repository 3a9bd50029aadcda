//! What events over HTTP/1.1 cost, beside a bare hyper server that reads the same requests and answers 201.
//!
//! * `one`: one event of 150 bytes of JSON for each request, as an application sends it.
//! * `batch of 50`: fifty of them for each request.
//!
//! Server and client have a thread each, and as many connections as a pool of senders: each has one request on the way. Both servers are
//! measured in turns. A first argument chooses the cases whose name contains it. Prints medians with minimum and maximum, the processor
//! time of the serving thread for each request, and the ratio to hyper; `PARSHALL_BENCH_QUICK=1` runs a token amount.
#![expect(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a benchmark prints, and stops at the first surprise"
)]

use std::convert::Infallible;
use std::net::SocketAddr;
use std::time::{Duration, Instant, SystemTime};

use access::Credential;
use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hub::namespace::{HubConfig, NamespaceConfig};
use hub::service::{Service, ServiceConfig};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use partition_log::LogLimits;
use rustix::time::{ClockId, clock_gettime};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::task::JoinSet;
use units::ByteSize;

fn main() {
    let quick = std::env::var_os("PARSHALL_BENCH_QUICK").is_some();
    let (rounds, requests) = if quick { (1, 2_000) } else { (5, 400_000) };
    println!("events over HTTP/1.1, {CONNECTIONS} connections, medians [min-max] of {rounds}");
    let only = std::env::args().nth(1).filter(|argument| !argument.starts_with('-'));
    for (name, batch, requests) in [("one", 1, requests), ("batch of 50", 50, requests / 8)] {
        if only.as_ref().is_some_and(|only| !name.contains(only.as_str())) {
            continue;
        }
        let (mut ours, mut bare) = (Vec::new(), Vec::new());
        for _ in 0..rounds {
            bare.push(run(Server::Hyper, batch, requests));
            ours.push(run(Server::Parshall, batch, requests));
        }
        let (ours, bare) = (print(name, "parshall", batch, ours), print(name, "bare hyper", batch, bare));
        println!(
            "  {name:<12} ratio {:.2} of the requests, {:.2} of the processor time",
            ours.0 / bare.0,
            ours.1 / bare.1
        );
    }
}

/// The medians: requests per second, and nanoseconds of the serving thread for each.
fn print(name: &str, server: &str, batch: usize, mut runs: Vec<(f64, f64)>) -> (f64, f64) {
    runs.sort_by(|a, b| a.0.total_cmp(&b.0));
    let median = runs[runs.len() / 2];
    let (min, max) = (runs[0].0, runs[runs.len() - 1].0);
    let events = median.0 * batch as f64;
    println!(
        "  {name:<12} {server:<10} {:>8.0} requests/s [{min:.0}-{max:.0}] {events:>9.0} events/s {:>6.0} ns",
        median.0, median.1
    );
    median
}

#[derive(Clone, Copy)]
enum Server {
    Parshall,
    Hyper,
}

/// Requests per second, and nanoseconds of the serving thread for each.
fn run(server: Server, batch: usize, requests: usize) -> (f64, f64) {
    let (told, tells) = std::sync::mpsc::channel();
    let (stop, stopped) = oneshot::channel();
    let serving = std::thread::spawn(move || {
        runtime().block_on(async {
            match server {
                Server::Parshall => parshall(told, stopped).await,
                Server::Hyper => hyper_alone(told, stopped).await,
            }
        });
        thread_time()
    });
    let (address, token): (SocketAddr, String) = tells.recv().unwrap();
    let request = request(&token, batch);
    let elapsed = runtime().block_on(send(address, request, requests));
    stop.send(()).unwrap();
    let busy = serving.join().unwrap();
    (requests as f64 / elapsed.as_secs_f64(), busy.as_nanos() as f64 / requests as f64)
}

type Told = std::sync::mpsc::Sender<(SocketAddr, String)>;

async fn parshall(told: Told, stopped: oneshot::Receiver<()>) {
    let log = LogLimits { bytes: ByteSize::from_mebibytes(64), ..LogLimits::default() };
    let hubs = vec![HubConfig { log: Some(log), ..HubConfig::new("hub", 4) }];
    let service = Service::start(ServiceConfig::loopback(NamespaceConfig::with_hubs(hubs))).await.unwrap();
    let Credential::Key(key) = service.connection_string(None).credential else {
        panic!("services have keys")
    };
    let token = key.sign("http://localhost/hub", SystemTime::now() + Duration::from_secs(3600));
    told.send((service.amqp_address(), token)).unwrap();
    stopped.await.unwrap();
    service.stop().await;
}

async fn hyper_alone(told: Told, stopped: oneshot::Receiver<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    told.send((listener.local_addr().unwrap(), "SharedAccessSignature ".repeat(8))).unwrap();
    let accepting = tokio::spawn(async move {
        loop {
            let (socket, _) = listener.accept().await.unwrap();
            socket.set_nodelay(true).unwrap();
            tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(socket), service_fn(created)));
        }
    });
    stopped.await.unwrap();
    accepting.abort();
}

async fn created(request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    let body = request.into_body().collect().await.unwrap().to_bytes();
    assert!(!body.is_empty());
    let mut response = Response::new(Full::default());
    *response.status_mut() = StatusCode::CREATED;
    Ok(response)
}

/// What an application sends.
fn request(token: &str, batch: usize) -> Vec<u8> {
    let event = r#"{"name":"Jane Doe","age":42,"address":{"street":"Main Street 5","city":"Springfield"},"skills":["a","b"],"createdAt":"2026-11-20T12:00:00Z"}"#;
    let (content_type, body) = match batch {
        1 => ("application/json", event.to_owned()),
        _ => {
            let element = format!("{{\"Body\":{}}}", serde_json::Value::from(event));
            ("application/vnd.microsoft.servicebus.json", format!("[{}]", vec![element; batch].join(",")))
        }
    };
    let length = body.len();
    format!(
        "POST /hub/messages?timeout=60&api-version=2014-01 HTTP/1.1\r\nHost: localhost\r\nAuthorization: {token}\r\n\
         Content-Type: {content_type}\r\nContent-Length: {length}\r\n\r\n{body}"
    )
    .into_bytes()
}

/// Sends a request again and again over each connection, always after the reply to the one before.
async fn send(address: SocketAddr, request: Vec<u8>, requests: usize) -> Duration {
    let mut sockets = Vec::new();
    for _ in 0..CONNECTIONS {
        let socket = TcpStream::connect(address).await.unwrap();
        socket.set_nodelay(true).unwrap();
        sockets.push(socket);
    }
    let started = Instant::now();
    let mut sending = JoinSet::new();
    for mut socket in sockets {
        let request = request.clone();
        sending.spawn(async move {
            let mut reply = [0; 1024];
            for _ in 0..requests / CONNECTIONS {
                socket.write_all(&request).await.unwrap();
                let mut length = 0;
                while !reply[..length].ends_with(b"\r\n\r\n") {
                    let more = socket.read(&mut reply[length..]).await.unwrap();
                    assert!(more > 0);
                    length += more;
                }
                assert!(reply.starts_with(b"HTTP/1.1 201"));
            }
        });
    }
    while let Some(sent) = sending.join_next().await {
        sent.unwrap();
    }
    started.elapsed()
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

fn thread_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.cast_unsigned(), time.tv_nsec as u32)
}

/// As many as the study had senders.
const CONNECTIONS: usize = 100;
