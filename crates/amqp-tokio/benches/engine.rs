//! Transfers per second through one connection over loopback, 16-byte messages, one thread per end.
//!
//! Three cases, each beside its references of the same run:
//!
//! * `pre-settled`: the sender settles, the receiver grants credit.
//! * `unsettled`: the receiver accepts every message, the sender waits for the outcomes of a window.
//! * `byte pump`: the bytes of the pre-settled case without any protocol: what the socket allows.
//!
//! `fe2o3-amqp` does the same two cases on a runtime of both cores. Prints medians of the rounds with minimum and
//! maximum. `PARSHALL_BENCH_QUICK=1` runs a token amount, so that tests can see that it still works.
#![expect(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a benchmark prints, and stops at the first surprise"
)]

use std::future::poll_fn;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, Instant};

use amqp::Connection;
use amqp::connection::{
    Config, Event, LinkAcceptance, LinkId, LinkOptions, NewDelivery, SaslClient, SaslServer, SessionId,
};
use amqp::message::encode;
use amqp::performative::{DeliveryState, Role, SenderSettleMode, Source, Target};
use amqp_tokio::{Driver, Stream, accept, connect};

fn main() {
    let quick = std::env::var_os("PARSHALL_BENCH_QUICK").is_some();
    let (rounds, messages, peer_messages) = if quick { (1, 20_000, 2_000) } else { (5, 8_000_000, 200_000) };
    let pre_settled = measure(rounds, || engine(messages, Settle::Sender));
    let unsettled = measure(rounds, || engine(messages / 2, Settle::Receiver));
    let pump = measure(rounds, || byte_pump(messages));
    print("engine, pre-settled", &pre_settled);
    print("engine, unsettled and accepted", &unsettled);
    print("byte pump of the same bytes", &pump);
    let peer_receive = measure(rounds, || fe2o3(peer_messages, Settle::Sender));
    let peer_send = measure(rounds, || fe2o3(peer_messages, Settle::Receiver));
    println!(
        "transfers per second, one connection over loopback, 16-byte messages: median [min-max] of {rounds}"
    );
    print("engine, pre-settled", &pre_settled);
    print("engine, unsettled and accepted", &unsettled);
    print("byte pump of the same bytes", &pump);
    print("fe2o3-amqp, pre-settled", &peer_receive);
    print("fe2o3-amqp, unsettled and accepted", &peer_send);
    println!("engine / byte pump, pre-settled: {:.3}", pre_settled.median / pump.median);
    println!("engine / fe2o3-amqp, pre-settled: {:.1}", pre_settled.median / peer_receive.median);
    println!("engine / fe2o3-amqp, unsettled: {:.1}", unsettled.median / peer_send.median);
}

#[derive(Clone, Copy, PartialEq)]
enum Settle {
    Sender,
    Receiver,
}

struct Spread {
    median: f64,
    min: f64,
    max: f64,
}

fn measure(rounds: usize, mut round: impl FnMut() -> f64) -> Spread {
    let mut rates: Vec<f64> = (0..rounds).map(|_| round()).collect();
    rates.sort_by(f64::total_cmp);
    Spread { median: rates[rates.len() / 2], min: rates[0], max: rates[rates.len() - 1] }
}

fn print(name: &str, spread: &Spread) {
    println!("  {name:<36} {:>12.0} [{:.0}-{:.0}]", spread.median, spread.min, spread.max);
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

/// One end sends `messages`, the other counts them; returns messages per second.
fn engine(messages: u64, settle: Settle) -> f64 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let receiver = std::thread::spawn(move || {
        runtime().block_on(async {
            let (socket, _) = listener.accept().unwrap();
            socket.set_nonblocking(true).unwrap();
            let stream = accept(tokio::net::TcpStream::from_std(socket).unwrap()).unwrap();
            receive(stream, messages).await
        })
    });
    runtime().block_on(send(port, messages, settle));
    messages as f64 / receiver.join().unwrap().as_secs_f64()
}

async fn send(port: u16, messages: u64, settle: Settle) {
    let stream = connect("127.0.0.1", port, None, Duration::from_secs(5)).await.unwrap();
    let engine = Connection::client(Config::default(), SaslClient::Anonymous, Instant::now());
    let mut driver = Driver::new(engine, stream);
    while !matches!(driver.next_event().await.unwrap(), Event::Opened(_)) {}
    let session = driver.connection().begin_session().unwrap();
    let link = driver.connection().attach_sender(session, options(settle)).unwrap();
    while !matches!(driver.next_event().await.unwrap(), Event::LinkAttached { .. }) {}
    let mut body = Vec::new();
    encode::data(&mut body, &[7; 16]);
    let delivery = NewDelivery { tag: &[0; 4], format: 0, settled: settle == Settle::Sender };
    let (mut sent, mut settled) = (0, if settle == Settle::Sender { messages } else { 0 });
    poll_fn(|cx| {
        loop {
            let connection = driver.connection();
            while let Some(event) = connection.poll_event() {
                if let Event::Outcome { first, last, state, .. } = event {
                    assert_eq!(state, Some(DeliveryState::Accepted));
                    settled += u64::from(last.wrapping_sub(first)) + 1;
                }
            }
            while sent < messages && connection.output_len() < 128 * 1024 {
                if connection.sender(link).unwrap().send(&delivery, &[&body]).is_err() {
                    break;
                }
                sent += 1;
            }
            let finished = sent == messages && settled == messages && connection.output_len() == 0;
            match driver.poll_drive(cx) {
                Poll::Ready(Ok(())) => {}
                // The receiver hangs up once it has counted everything.
                Poll::Ready(Err(_)) => return Poll::Ready(()),
                Poll::Pending if finished => return Poll::Ready(()),
                Poll::Pending if sent < messages && driver.connection().output_len() < 128 * 1024 => {
                    // Output was taken; more can be produced if there is credit, otherwise wait for some.
                    if driver.connection().credit(link) == 0 {
                        return Poll::Pending;
                    }
                }
                Poll::Pending => return Poll::Pending,
            }
        }
    })
    .await;
}

async fn receive(stream: Stream, messages: u64) -> Duration {
    let engine = Connection::server(
        Config { incoming_window: 1 << 20, ..Config::default() },
        SaslServer { verify: Arc::new(|_| true) },
        Instant::now(),
    );
    let mut driver = Driver::new(engine, stream);
    let (mut received, mut started) = (0, None);
    let mut granted: Option<(LinkId, SessionId)> = None;
    poll_fn(|cx| {
        loop {
            let connection = driver.connection();
            while let Some(event) = connection.poll_event() {
                match event {
                    Event::LinkRequested { link, session, attach } => {
                        assert_eq!(attach.role, Role::Sender);
                        connection.accept_link(link, LinkAcceptance::default());
                        connection.set_credit(link, CREDIT);
                        granted = Some((link, session));
                    }
                    Event::Deliveries(deliveries) => {
                        started.get_or_insert_with(Instant::now);
                        let (link, session) = granted.unwrap();
                        for delivery in deliveries.items() {
                            assert_eq!(deliveries.message(delivery).len(), 21);
                            if !delivery.settled {
                                connection.settle(session, delivery.id, delivery.id, DeliveryState::Accepted);
                            }
                        }
                        received += deliveries.items().len() as u64;
                        connection.recycle(deliveries);
                        if connection.credit(link) < CREDIT / 2 {
                            connection.set_credit(link, CREDIT);
                        }
                    }
                    _ => {}
                }
            }
            if received == messages
                && driver.connection().output_len() == 0
                && !driver.connection().owes_output()
            {
                return Poll::Ready(());
            }
            match driver.poll_drive(cx) {
                Poll::Ready(result) => result.unwrap(),
                Poll::Pending if received == messages => return Poll::Ready(()),
                Poll::Pending => return Poll::Pending,
            }
        }
    })
    .await;
    started.unwrap().elapsed()
}

fn options(settle: Settle) -> LinkOptions {
    LinkOptions {
        name: "benchmark".to_owned(),
        source: Source::new("here"),
        target: Target::new("there"),
        sender_settle_mode: match settle {
            Settle::Sender => SenderSettleMode::Settled,
            Settle::Receiver => SenderSettleMode::Unsettled,
        },
        ..LinkOptions::default()
    }
}

/// The bytes of `messages` transfers of 16 bytes in writes of 128 KiB; returns transfers per second.
fn byte_pump(messages: u64) -> f64 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let total = messages * TRANSFER_BYTES;
    let reader = std::thread::spawn(move || {
        let (mut socket, _) = listener.accept().unwrap();
        let mut buffer = vec![0; 256 * 1024];
        let (mut left, started) = (total, Instant::now());
        while left > 0 {
            left -= socket.read(&mut buffer).unwrap() as u64;
        }
        started.elapsed()
    });
    let mut socket = TcpStream::connect(address).unwrap();
    let buffer = vec![7; 128 * 1024];
    let mut left = total;
    while left > 0 {
        let part = left.min(buffer.len() as u64);
        socket.write_all(&buffer[..part as usize]).unwrap();
        left -= part;
    }
    messages as f64 / reader.join().unwrap().as_secs_f64()
}

/// The same through `fe2o3-amqp` at both ends, on a runtime of both cores.
fn fe2o3(messages: u64, settle: Settle) -> f64 {
    use fe2o3_amqp::acceptor::{ConnectionAcceptor, LinkAcceptor, LinkEndpoint, SessionAcceptor};
    use fe2o3_amqp::link::receiver::CreditMode;
    use fe2o3_amqp::types::messaging::{Body, Data, Message};
    use fe2o3_amqp::types::primitives::{Binary, Value};

    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let receiver = tokio::spawn(async move {
            let (socket, _) = listener.accept().await.unwrap();
            socket.set_nodelay(true).unwrap();
            let mut connection = ConnectionAcceptor::new("receiver").accept(socket).await.unwrap();
            let mut session = SessionAcceptor::new().accept(&mut connection).await.unwrap();
            let LinkEndpoint::Receiver(mut receiver) =
                LinkAcceptor::new().accept(&mut session).await.unwrap()
            else {
                panic!("the peer attached a receiver");
            };
            receiver.set_credit_mode(CreditMode::Manual);
            receiver.set_credit(CREDIT).await.unwrap();
            let mut started = None;
            for received in 1..=messages {
                let delivery = receiver.recv::<Body<Value>>().await.unwrap();
                started.get_or_insert_with(Instant::now);
                if settle == Settle::Receiver {
                    receiver.accept(&delivery).await.unwrap();
                }
                // By itself it renews credit only as it gives outcomes, so that settled messages would end its credit.
                if received % u64::from(CREDIT / 2) == 0 {
                    receiver.set_credit(CREDIT).await.unwrap();
                }
            }
            (started.unwrap().elapsed(), connection, session, receiver)
        });
        let url = format!("amqp://127.0.0.1:{port}");
        let mut connection = fe2o3_amqp::Connection::open("sender", url.as_str()).await.unwrap();
        let mut session = fe2o3_amqp::Session::begin(&mut connection).await.unwrap();
        let mut sender = fe2o3_amqp::Sender::builder()
            .name("benchmark")
            .target("there")
            .sender_settle_mode(match settle {
                Settle::Sender => fe2o3_amqp::types::definitions::SenderSettleMode::Settled,
                Settle::Receiver => fe2o3_amqp::types::definitions::SenderSettleMode::Unsettled,
            })
            .attach(&mut session)
            .await
            .unwrap();
        let mut window = std::collections::VecDeque::new();
        for _ in 0..messages {
            let message = Message::builder().data(Data(Binary::from(vec![7; 16]))).build();
            match settle {
                Settle::Sender => {
                    sender.send(message).await.unwrap();
                }
                Settle::Receiver => {
                    window.push_back(sender.send_batchable(message).await.unwrap());
                    if window.len() >= 256 {
                        window.pop_front().unwrap().await.unwrap();
                    }
                }
            }
        }
        for outcome in window {
            outcome.await.unwrap();
        }
        let (elapsed, ..) = tokio::time::timeout(Duration::from_secs(60), receiver)
            .await
            .expect("fe2o3-amqp delivers within a minute")
            .unwrap();
        messages as f64 / elapsed.as_secs_f64()
    })
}

/// Credit that the receiver keeps the sender supplied with.
const CREDIT: u32 = 20_000;

/// Frame header, performative (with a delivery id beyond 255 and a tag of four bytes) and Data section of one message.
const TRANSFER_BYTES: u64 = 8 + 26 + 21;
