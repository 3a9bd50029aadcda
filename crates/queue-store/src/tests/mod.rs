//! Queues and topics in memory and on disk, by what their users see.

mod administration;
mod counting;
mod deleting;
mod durable;
mod expiry;
mod forwarding;
mod memory;
mod model;
mod operating;
mod receiving;
mod sending;
mod session_model;
mod sessions;
mod settling;
mod topics;
mod transactions;
mod waking;

use super::*;
use amqp::codec::Value;
use amqp::message::{MessageView, encode};
use partition_log::UnixTime;
use std::sync::Arc;
use std::time::Duration;

/// Milliseconds of a lock in all tests.
const LOCK: i64 = 60_000;

fn at(milliseconds: i64) -> UnixTime {
    UnixTime::from_milliseconds(milliseconds)
}

fn queue(options: QueueOptions) -> (Arc<QueueStore>, Arc<Queue>) {
    let store = QueueStore::in_memory();
    let queue = store.create_queue("orders", options).unwrap();
    (store, queue)
}

/// A message with nothing but this body.
fn body(text: &str) -> Vec<u8> {
    let mut sections = Vec::new();
    encode::data(&mut sections, text.as_bytes());
    sections
}

/// Sends messages that have these bodies, and otherwise what `with` says.
fn send_with<'a>(
    queue: &Queue,
    now: i64,
    texts: &[&str],
    with: impl Fn(NewMessage<'static>) -> NewMessage<'a>,
) -> Result<Enqueued, QueueError> {
    let bodies: Vec<_> = texts.iter().map(|text| body(text)).collect();
    let pieces: Vec<[&[u8]; 1]> = bodies.iter().map(|body| [&body[..]]).collect();
    let messages: Vec<_> =
        pieces.iter().map(|sections| NewMessage { sections, ..with(NewMessage::default()) }).collect();
    queue.enqueue(at(now), &messages)
}

fn send(queue: &Queue, now: i64, texts: &[&str]) {
    let enqueued = send_with(queue, now, texts, |message| message).unwrap();
    assert_eq!(enqueued.count, texts.len());
}

fn request(mode: ReceiveMode, messages: usize) -> ReceiveRequest<'static> {
    ReceiveRequest { mode, session: None, messages, bytes: usize::MAX }
}

/// A message as a receiver has it.
#[derive(Clone, Debug, PartialEq)]
struct Seen {
    number: u64,
    text: String,
    count: u32,
    state: MessageState,
    token: Option<LockToken>,
}

fn seen(deliveries: &Deliveries) -> Vec<Seen> {
    let all = deliveries.iter().map(|delivery| Seen {
        number: delivery.sequence_number,
        text: text(delivery.sections),
        count: delivery.delivery_count,
        state: delivery.state,
        token: delivery.lock.map(|lock| lock.token),
    });
    all.collect()
}

/// The body of a message.
fn text(sections: &[u8]) -> String {
    let view = MessageView::parse(sections).unwrap();
    String::from_utf8(view.data().unwrap().unwrap().to_vec()).unwrap()
}

/// An application property of a message.
fn property(sections: &[u8], name: &str) -> Option<Value> {
    let view = MessageView::parse(sections).unwrap();
    view.application_properties().unwrap().find(name).unwrap()
}

fn receive(queue: &Queue, now: i64, messages: usize) -> Vec<Seen> {
    let mut deliveries = Deliveries::new();
    let request = request(ReceiveMode::PeekLock, messages);
    queue.receive(at(now), &request, &mut deliveries).unwrap();
    seen(&deliveries)
}

fn tokens(seen: &[Seen]) -> Vec<LockToken> {
    seen.iter().map(|seen| seen.token.unwrap()).collect()
}

fn settle(queue: &Queue, now: i64, seen: &[Seen], settlement: &Settlement<'_>) {
    let settled = queue.settle(at(now), &tokens(seen), settlement).unwrap();
    assert_eq!(settled.refused, []);
    assert_eq!(settled.count, seen.len());
}

fn texts(seen: &[Seen]) -> Vec<&str> {
    seen.iter().map(|seen| &*seen.text).collect()
}

fn peek(queue: &Queue, now: i64) -> Deliveries {
    let mut deliveries = Deliveries::new();
    queue.peek(at(now), 0, usize::MAX, usize::MAX, None, &mut deliveries);
    deliveries
}

/// The bodies and the reasons of the dead letters.
fn dead_letters(queue: &Queue, now: i64) -> Vec<(String, String)> {
    let dead_letters = queue.dead_letters().unwrap();
    let deliveries = peek(dead_letters, now);
    deliveries
        .iter()
        .map(|delivery| {
            let reason = property(delivery.sections, "DeadLetterReason");
            let reason = reason.map(|reason| reason.as_text().unwrap().to_owned());
            (text(delivery.sections), reason.unwrap_or_default())
        })
        .collect()
}

const ABANDON: Settlement<'static> = Settlement::Abandon { properties: &[] };
const DEFER: Settlement<'static> = Settlement::Defer { properties: &[] };
