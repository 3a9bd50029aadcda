//! What a message through a queue costs the service: processor time of the thread that serves, for taking it, giving it
//! out under a lock, and settling it.
//!
//! A client sends messages to a queue and receives them on the same connection with so many under way; each is completed
//! when it comes, and counts when the service has said that it is. Server and client have a thread each and talk over
//! loopback. The reference is the store alone, called with messages one by one, from one thread. Prints medians with
//! minimum and maximum; `PARSHALL_BENCH_QUICK=1` runs a token amount.
#![expect(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a benchmark prints, and stops at the first surprise"
)]

use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, Instant, SystemTime};

use amqp::Connection;
use amqp::connection::{Config, Event, LinkOptions, NewDelivery, SaslClient};
use amqp::message::{FORMAT_AMQP, FORMAT_BATCH, encode};
use amqp::performative::{DeliveryState, ReceiverSettleMode, SenderSettleMode, Source, Target};
use amqp_tokio::{Driver, connect};
use hub::front::amqp::AmqpFront;
use hub::front::listener::{Bound, Protocol};
use hub::namespace::{Namespace, NamespaceConfig, QueueConfig, SignaturePolicy};
use partition_log::UnixTime;
use queue_store::{Deliveries, Entity, NewMessage, ReceiveMode, ReceiveRequest, Settlement};
use rustix::time::{ClockId, clock_gettime};
use tokio::net::TcpListener;
use tokio::sync::watch;

fn main() {
    let quick = std::env::var_os("PARSHALL_BENCH_QUICK").is_some();
    let (rounds, messages) = if quick { (1, 10_000) } else { (5, 1_000_000) };
    println!(
        "A queue, medians [min-max] of {rounds}: messages/s, and processor time of the serving thread per message"
    );
    let mut reference: Vec<f64> = (0..rounds).map(|_| store_alone(messages)).collect();
    reference.sort_by(f64::total_cmp);
    let reference = reference[reference.len() / 2];
    println!("  {:<20} {:>10}    {reference:>6.0} ns", "the store alone", "");
    for (name, batch, under_way) in [
        ("1 x 12 B, 8", 1, 8),
        ("1 x 12 B, 256", 1, 256),
        ("1 x 12 B, 4000", 1, 4_000),
        ("100 x 12 B, 4000", 100, 4_000),
    ] {
        // So few wait for one another most of the time.
        let messages = if under_way < 100 { messages / 8 } else { messages };
        let mut runs: Vec<(f64, f64)> =
            (0..rounds).map(|_| through_the_front(messages / batch * batch, batch, under_way)).collect();
        runs.sort_by(|a, b| a.0.total_cmp(&b.0));
        let (median, cost) = runs[runs.len() / 2];
        let (min, max) = (runs[0].0, runs[runs.len() - 1].0);
        println!(
            "  {name:<20} {median:>10.0}/s [{min:.0}-{max:.0}]  {cost:>6.0} ns, {:.1} x the store",
            cost / reference
        );
    }
}

fn namespace() -> Arc<Namespace> {
    let config = NamespaceConfig {
        signatures: SignaturePolicy::AcceptAny,
        queues: vec![QueueConfig::new("queue")],
        ..NamespaceConfig::with_hubs(Vec::new())
    };
    Arc::new(Namespace::new(&config, UnixTime::from_milliseconds(0)).unwrap())
}

/// Nanoseconds per message that is enqueued, received and completed by calls of the store.
fn store_alone(messages: usize) -> f64 {
    let namespace = namespace();
    let Some(Entity::Queue(queue)) = namespace.queue_or_topic("queue") else { panic!("it is declared") };
    let mut body = Vec::new();
    encode::data(&mut body, &[7; 12]);
    let sections: [&[u8]; 1] = [&body];
    let message = NewMessage { sections: &sections, ..NewMessage::default() };
    let now = UnixTime::from(SystemTime::now());
    let request =
        ReceiveRequest { mode: ReceiveMode::PeekLock, session: None, messages: 1, bytes: usize::MAX };
    let mut deliveries = Deliveries::new();
    let started = thread_time();
    for _ in 0..messages {
        queue.enqueue(now, &[message]).unwrap();
        deliveries.clear();
        queue.receive(now, &request, &mut deliveries).unwrap();
        let token = deliveries.iter().next().unwrap().lock.unwrap().token;
        let settled = queue.settle(now, &[token], &Settlement::Complete).unwrap();
        assert_eq!(settled.count, 1);
    }
    (thread_time() - started).as_nanos() as f64 / messages as f64
}

/// Messages per second, and nanoseconds of the serving thread per message.
fn through_the_front(messages: usize, batch: usize, under_way: usize) -> (f64, f64) {
    let front = AmqpFront::new(namespace());
    let (stop, stopped) = watch::channel(false);
    let (port_out, port_in) = std::sync::mpsc::channel();
    let server = std::thread::spawn(move || {
        runtime().block_on(async {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            port_out.send(listener.local_addr().unwrap().port()).unwrap();
            let bound = Bound { listener, protocol: Protocol::Amqp, tls: None, tls_besides: None };
            front.serve(bound, stopped).await;
        });
        thread_time()
    });
    let port = port_in.recv().unwrap();
    let elapsed = runtime().block_on(pass(port, messages, batch, under_way));
    stop.send(true).unwrap();
    let busy = server.join().unwrap();
    (messages as f64 / elapsed.as_secs_f64(), busy.as_nanos() as f64 / messages as f64)
}

async fn pass(port: u16, messages: usize, batch: usize, under_way: usize) -> Duration {
    let stream = connect("127.0.0.1", port, None, Duration::from_secs(5)).await.unwrap();
    let connection = Connection::client(Config::default(), SaslClient::Anonymous, Instant::now());
    let mut driver = Driver::new(connection, stream);
    while !matches!(driver.next_event().await.unwrap(), Event::Opened(_)) {}
    let connection = driver.connection();
    let session = connection.begin_session().unwrap();
    let options =
        LinkOptions { name: "in".to_owned(), target: Target::new("queue"), ..LinkOptions::default() };
    let sender = connection.attach_sender(session, options).unwrap();
    let options = LinkOptions {
        name: "out".to_owned(),
        source: Source::new("queue"),
        sender_settle_mode: SenderSettleMode::Unsettled,
        receiver_settle_mode: ReceiverSettleMode::Second,
        ..LinkOptions::default()
    };
    let receiver = connection.attach_receiver(session, options).unwrap();
    let credit = under_way as u32;
    connection.set_credit(receiver, credit);
    while !matches!(driver.next_event().await.unwrap(), Event::Credit(_)) {}

    let mut message = Vec::new();
    encode::data(&mut message, &[7; 12]);
    let mut format = FORMAT_AMQP;
    if batch > 1 {
        let one = std::mem::take(&mut message);
        for _ in 0..batch {
            encode::data(&mut message, &one);
        }
        format = FORMAT_BATCH;
    }
    let delivery = NewDelivery { tag: &[0; 4], format, settled: false };
    let started = Instant::now();
    let (mut sent, mut completed) = (0, 0);
    poll_fn(|cx| {
        loop {
            let connection = driver.connection();
            while let Some(event) = connection.poll_event() {
                match event {
                    Event::Deliveries(deliveries) => {
                        for delivery in deliveries.items() {
                            let accepted = DeliveryState::Accepted;
                            connection.propose_outcome(session, delivery.id, delivery.id, accepted);
                        }
                        if connection.credit(receiver) <= credit / 2 {
                            connection.set_credit(receiver, credit);
                        }
                        connection.recycle(deliveries);
                    }
                    Event::SettledBySender { first, last, state, .. } => {
                        assert_eq!(state, Some(DeliveryState::Accepted));
                        completed += last.wrapping_sub(first) as usize + 1;
                    }
                    _ => {}
                }
            }
            let before = sent;
            while sent < messages
                && sent - completed < under_way.max(batch)
                && connection.output_len() < 128 * 1024
            {
                let mut sender = connection.sender(sender).unwrap();
                if sender.send(&delivery, &[&message]).is_err() {
                    break;
                }
                sent += batch;
            }
            if completed == messages {
                return Poll::Ready(());
            }
            match driver.poll_drive(cx) {
                Poll::Ready(result) => result.unwrap(),
                Poll::Pending if sent > before && driver.connection().output_len() == 0 => {}
                Poll::Pending => return Poll::Pending,
            }
        }
    })
    .await;
    started.elapsed()
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

fn thread_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.cast_unsigned(), time.tv_nsec as u32)
}
