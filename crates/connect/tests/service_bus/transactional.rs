//! Source and sink as two halves of a connection, against the embedded service: what is sent is completed in one transaction with that.

use std::future::poll_fn;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use connect::event::{EventBatch, PartitionId};
use connect::service::ClientOptions;
use connect::service_bus::{
    Browser, ReceiveOptions, ServiceBusSink, TransactionalError, TransactionalSink, TransactionalSource,
    connect_transactional,
};
use connect::sink::{ErrorClass, OutgoingBatch, SendError, SendOutcome, SendToken, SendUnit, Sink as _};
use connect::source::{
    Settled, Settlement, SettlementResult, SettlingSource as _, Source as _, SourceEvent, StartPosition,
};
use hub::namespace::{NamespaceConfig, QueueConfig, TopicConfig};
use hub::service::{Service, ServiceConfig};

/// A service with the queues `from` and `to`, and the topic `news` with the subscription `all`.
async fn serve(change: impl FnOnce(&mut QueueConfig)) -> Service {
    let mut to = QueueConfig::new("to");
    change(&mut to);
    let namespace = NamespaceConfig {
        queues: vec![QueueConfig::new("from"), to],
        topics: vec![TopicConfig::new("news", ["all"])],
        ..NamespaceConfig::with_hubs(Vec::new())
    };
    Service::start(ServiceConfig::loopback(namespace)).await.unwrap()
}

fn client(service: &Service, entity: &str) -> ClientOptions {
    ClientOptions::new(service.connection_string(None), entity)
}

/// Both halves, and what they have said.
struct Pair {
    source: TransactionalSource,
    sink: TransactionalSink,
    batches: Vec<EventBatch>,
    outcomes: Vec<SendOutcome>,
    settled: Vec<Settled>,
}

impl Pair {
    async fn connect(service: &Service, to: &str) -> Self {
        Self::between(service, "from", to, ReceiveOptions::default()).await.unwrap()
    }

    async fn between(
        service: &Service,
        from: &str,
        to: &str,
        receive: ReceiveOptions,
    ) -> Result<Self, TransactionalError> {
        let to = client(service, to);
        let (mut source, sink) = connect_transactional(client(service, from), receive, &to).await?;
        source.open(PartitionId(0), StartPosition::Earliest);
        Ok(Self { source, sink, batches: Vec::new(), outcomes: Vec::new(), settled: Vec::new() })
    }

    /// Drives both halves until `enough`.
    async fn until(&mut self, enough: impl Fn(&Self) -> bool) {
        let reached = poll_fn(|context| {
            loop {
                let progress = self.poll(context);
                if enough(self) {
                    return Poll::Ready(());
                }
                if !progress {
                    return Poll::Pending;
                }
            }
        });
        tokio::time::timeout(PATIENCE, reached).await.expect("it comes to that");
    }

    fn poll(&mut self, context: &mut Context<'_>) -> bool {
        let mut progress = false;
        if let Poll::Ready(polled) = self.sink.poll_outcomes(context, &mut self.outcomes) {
            polled.unwrap();
            progress = true;
        }
        if let Poll::Ready(event) = self.source.poll_batch(context) {
            progress = true;
            match event.unwrap() {
                SourceEvent::Batch(batch) => self.batches.push(batch),
                SourceEvent::Settled(settled) => self.settled.push(settled),
                SourceEvent::LocksRenewed { .. } => {}
                SourceEvent::PartitionClosed { .. } => panic!("it settles"),
            }
        }
        progress
    }

    /// Receives so many messages.
    async fn receive(&mut self, messages: usize) -> Vec<EventBatch> {
        self.until(|pair| pair.received() >= messages).await;
        assert_eq!(self.received(), messages);
        std::mem::take(&mut self.batches)
    }

    fn received(&self) -> usize {
        self.batches.iter().map(EventBatch::len).sum()
    }

    /// Sends an event of a batch, as soon as there is room.
    async fn send(&mut self, token: u64, batch: &EventBatch, event: u32) {
        let mut is_sent = false;
        let sent = poll_fn(|context| {
            loop {
                is_sent |= self.sink.send(SendToken(token), OutgoingBatch::new(0, batch, &[event])).is_ok();
                if is_sent {
                    return Poll::Ready(());
                }
                if self.sink.poll_ready(context).is_ready() {
                    continue;
                }
                if !self.poll(context) {
                    return Poll::Pending;
                }
            }
        });
        tokio::time::timeout(PATIENCE, sent).await.expect("there is room");
    }

    /// Sends all of some batches. Tokens are numbered from 0.
    async fn send_all(&mut self, batches: &[EventBatch]) {
        let mut token = 0;
        for batch in batches {
            for event in 0..batch.len() as u32 {
                self.send(token, batch, event).await;
                token += 1;
            }
        }
    }

    /// The errors that there were, in the order of their tokens.
    fn errors(&mut self) -> Vec<Option<SendError>> {
        self.outcomes.sort_by_key(|outcome| outcome.token.0);
        let outcomes = std::mem::take(&mut self.outcomes);
        outcomes.into_iter().map(|outcome| outcome.result.err().map(|error| *error)).collect()
    }

    /// How many messages were settled so.
    fn count(&self, settlement: Settlement, result: SettlementResult) -> u32 {
        let alike = self.settled.iter().filter(|it| (it.settlement, it.result) == (settlement, result));
        alike.map(|it| it.messages).sum()
    }
}

/// Puts so many numbered messages into an entity.
async fn put(service: &Service, entity: &str, messages: u32) {
    let mut sink = ServiceBusSink::connect(client(service, entity), SendUnit::Batch).await.unwrap();
    let mut batch = EventBatch::with_capacity(PartitionId(0), messages as usize);
    for number in 0..messages {
        batch.push_message(&message(format!("{number:04}").as_bytes()), i64::from(number));
    }
    let events: Vec<u32> = (0..messages).collect();
    sink.send(SendToken(0), OutgoingBatch::new(0, &batch, &events)).unwrap();
    let mut outcomes = Vec::new();
    poll_fn(|context| sink.poll_outcomes(context, &mut outcomes)).await.unwrap();
    assert!(outcomes[0].result.is_ok());
}

/// A message with a payload shorter than 256 bytes.
fn message(payload: &[u8]) -> Bytes {
    [&[0x00, 0x53, 0x75, 0xa0, payload.len() as u8], payload].concat().into()
}

/// The last four bytes of each message that an entity has, sorted.
async fn there(service: &Service, entity: &str) -> Vec<String> {
    let mut browser = Browser::connect(client(service, entity)).await.unwrap();
    let mut found = Vec::new();
    let mut from = 0;
    loop {
        let messages = browser.peek(from, 1_000).await.unwrap();
        let Some(last) = messages.last() else { break };
        from = last.sequence_number + 1;
        found.extend(messages.iter().map(|message| {
            let (_, payload) = message.sections.split_last_chunk::<4>().unwrap();
            String::from_utf8(payload.to_vec()).unwrap()
        }));
    }
    browser.close().await;
    found.sort();
    found
}

fn numbers(numbers: std::ops::Range<u32>) -> Vec<String> {
    numbers.map(|number| format!("{number:04}")).collect()
}

#[tokio::test]
async fn what_is_sent_is_completed_and_arrives_once() {
    const MESSAGES: u32 = 1_000;
    let service = serve(|_| {}).await;
    put(&service, "from", MESSAGES).await;
    let mut pair = Pair::connect(&service, "to").await;
    let mut sent = 0;
    while sent < MESSAGES {
        pair.until(|pair| !pair.batches.is_empty()).await;
        for batch in std::mem::take(&mut pair.batches) {
            let first = u64::from(sent);
            for event in 0..batch.len() as u32 {
                pair.send(u64::from(sent), &batch, event).await;
                sent += 1;
            }
            pair.until(|pair| pair.outcomes.len() as u64 >= first + batch.len() as u64).await;
            // It is settled already, so that this changes nothing.
            let all: Vec<u32> = (0..batch.len() as u32).collect();
            pair.source.settle(&batch, &all, Settlement::Complete);
            pair.source.release(batch);
        }
    }
    assert_eq!(pair.errors(), vec![None; MESSAGES as usize]);
    pair.until(|pair| pair.source.is_settled()).await;
    assert_eq!(pair.count(Settlement::Complete, SettlementResult::Confirmed), MESSAGES);
    assert_eq!(there(&service, "from").await, [""; 0]);
    assert_eq!(there(&service, "to").await, numbers(0..MESSAGES));
    let transactions = service.namespace().transaction_counters().values();
    assert!(transactions.committed >= u64::from(MESSAGES) / 64, "{transactions:?}");
    assert_eq!((transactions.rolled_back, transactions.expired), (0, 0));
    service.stop().await;
}

#[tokio::test]
async fn a_single_message_waits_for_no_other() {
    let service = serve(|_| {}).await;
    put(&service, "from", 1).await;
    let receive = ReceiveOptions { concurrency: 1, ..ReceiveOptions::default() };
    let mut pair = Pair::between(&service, "from", "to", receive).await.unwrap();
    let batches = pair.receive(1).await;
    pair.send_all(&batches).await;
    pair.until(|pair| pair.outcomes.len() == 1).await;
    assert_eq!(pair.errors(), [None]);
    assert_eq!(there(&service, "to").await, numbers(0..1));
    service.stop().await;
}

#[tokio::test]
async fn from_a_subscription_and_from_dead_letters_to_a_queue_and_to_a_topic() {
    let service = serve(|_| {}).await;
    put(&service, "news", 3).await;
    for (from, to, then) in [
        ("news/Subscriptions/all", "to", "to"),
        ("to", "news", "news/Subscriptions/all"),
        ("news/Subscriptions/all", "from", "from"),
    ] {
        let mut pair = Pair::between(&service, from, to, ReceiveOptions::default()).await.unwrap();
        let batches = pair.receive(3).await;
        pair.send_all(&batches).await;
        pair.until(|pair| pair.outcomes.len() == 3).await;
        assert_eq!(pair.errors(), [None, None, None], "{from} to {to}");
        assert_eq!(there(&service, then).await, numbers(0..3));
        assert_eq!(there(&service, from).await, [""; 0]);
    }
    // Dead letters are sent on as well.
    let mut pair = Pair::connect(&service, "to").await;
    let batches = pair.receive(3).await;
    pair.source.settle(&batches[0], &[0, 1, 2], Settlement::DeadLetter);
    pair.until(|pair| pair.settled.iter().map(|it| it.messages).sum::<u32>() == 3).await;
    let from = "from/$DeadLetterQueue";
    let mut pair = Pair::between(&service, from, "to", ReceiveOptions::default()).await.unwrap();
    let batches = pair.receive(3).await;
    pair.send_all(&batches).await;
    pair.until(|pair| pair.outcomes.len() == 3).await;
    assert_eq!(pair.errors(), [None, None, None]);
    assert_eq!(there(&service, "to").await, numbers(0..3));
    assert_eq!(there(&service, from).await, [""; 0]);
    service.stop().await;
}

#[tokio::test]
async fn a_message_that_is_refused_is_told_and_the_others_go_with_the_next_transaction() {
    let service = serve(|_| {}).await;
    put(&service, "from", 3).await;
    let mut pair = Pair::connect(&service, "to").await;
    let batches = pair.receive(3).await;
    // What is sent in place of the second is no message.
    let mut spoilt = EventBatch::with_capacity(PartitionId(0), 3);
    (0..3).for_each(|number| spoilt.push_message(&Bytes::from_static(b"no message"), number));
    spoilt.set_receipt(batches[0].receipt(), 0);
    pair.send(0, &batches[0], 0).await;
    pair.send(1, &spoilt, 1).await;
    pair.send(2, &batches[0], 2).await;
    pair.until(|pair| pair.outcomes.len() == 3).await;
    let errors = pair.errors();
    let classes: Vec<_> = errors.iter().map(|error| error.as_ref().unwrap().class).collect();
    assert_eq!(classes, [ErrorClass::Retryable, ErrorClass::Fatal, ErrorClass::Retryable], "{errors:?}");
    assert_eq!(there(&service, "to").await, [""; 0]);
    // All of them are still locked, and nothing has come again.
    pair.source.settle(&batches[0], &[1], Settlement::Abandon);
    pair.send(0, &batches[0], 0).await;
    pair.send(2, &batches[0], 2).await;
    pair.until(|pair| pair.outcomes.len() == 2 && pair.received() == 1).await;
    assert_eq!(pair.errors(), [None, None]);
    assert_eq!(there(&service, "to").await, ["0000", "0002"]);
    assert_eq!(there(&service, "from").await, ["0001"]);
    assert_eq!(pair.batches[0].redelivered(), 1);
    service.stop().await;
}

#[tokio::test]
async fn a_lock_that_is_lost_has_all_of_its_transaction_come_again() {
    let service = serve(|_| {}).await;
    put(&service, "from", 3).await;
    let receive = ReceiveOptions { lock_renewal: Duration::ZERO, ..ReceiveOptions::default() };
    let mut pair = Pair::between(&service, "from", "to", receive).await.unwrap();
    let batches = pair.receive(3).await;
    // The service finds the locks expired, and delivers the messages again, when it looks next.
    service.namespace().clock().jump(Duration::from_secs(600));
    pair.send_all(&batches).await;
    pair.until(|pair| pair.outcomes.len() == 3 && pair.received() == 3).await;
    let errors = pair.errors();
    let is_lost = |error: &Option<SendError>| {
        error.as_ref().is_some_and(|error| {
            error.class == ErrorClass::Fatal && error.condition == "transaction:rolled-back"
        })
    };
    assert!(errors.iter().all(is_lost), "{errors:?}");
    // As the engine does with what failed for good: it is not settled twice.
    pair.source.settle(&batches[0], &[0, 1, 2], Settlement::Abandon);
    pair.until(|pair| pair.source.is_settled()).await;
    assert_eq!(pair.count(Settlement::Abandon, SettlementResult::LockLost), 3);
    assert_eq!(pair.count(Settlement::Abandon, SettlementResult::Confirmed), 0);
    let again = std::mem::take(&mut pair.batches);
    pair.send_all(&again).await;
    pair.until(|pair| pair.outcomes.len() == 3).await;
    assert_eq!(pair.errors(), [None, None, None]);
    assert_eq!(there(&service, "to").await, numbers(0..3));
    assert_eq!(there(&service, "from").await, [""; 0]);
    service.stop().await;
}

#[tokio::test]
async fn a_commit_that_the_service_refuses_has_the_messages_come_again() {
    // It takes messages of sessions alone, which is found out when they are committed.
    let service = serve(|to| to.options.requires_session = true).await;
    put(&service, "from", 2).await;
    let mut pair = Pair::connect(&service, "to").await;
    let batches = pair.receive(2).await;
    pair.send_all(&batches).await;
    pair.until(|pair| pair.outcomes.len() == 2 && pair.received() == 2).await;
    assert!(pair.errors().iter().all(Option::is_some));
    assert_eq!(pair.batches.iter().map(EventBatch::redelivered).sum::<u32>(), 2);
    assert_eq!(pair.count(Settlement::Abandon, SettlementResult::Confirmed), 2);
    assert_eq!(there(&service, "to").await, [""; 0]);
    service.stop().await;
}

#[tokio::test]
async fn what_was_received_on_a_connection_that_broke_is_not_sent_again() {
    let service = serve(|_| {}).await;
    put(&service, "from", 2).await;
    let mut pair = Pair::connect(&service, "to").await;
    let batches = pair.receive(2).await;
    pair.send(0, &batches[0], 0).await;
    // As the receipts of another connection are.
    let mut stale = EventBatch::with_capacity(PartitionId(0), 2);
    (0..2).for_each(|number| stale.push_message(&message(b"late"), number));
    stale.set_receipt(connect::event::Receipt(u64::MAX << 32), 0);
    pair.send(7, &stale, 1).await;
    pair.until(|pair| pair.outcomes.len() == 2).await;
    let errors = pair.errors();
    assert_eq!(errors[0], None);
    assert_eq!(errors[1].as_ref().unwrap().class, ErrorClass::Fatal);
    assert_eq!(there(&service, "to").await, numbers(0..1));
    service.stop().await;
}

#[tokio::test]
async fn ends_that_can_not_be_used_are_told_apart() {
    let service = serve(|_| {}).await;
    let receive = ReceiveOptions::default();
    let refused = Pair::between(&service, "nowhere", "to", receive).await.err().unwrap();
    assert!(matches!(refused, TransactionalError::Source(_)), "{refused}");
    let refused = Pair::between(&service, "from", "nowhere", receive).await.err().unwrap();
    assert!(matches!(refused, TransactionalError::Sink(_)), "{refused}");
    service.stop().await;
}

/// Longer than any of it takes on a machine that does much else besides.
const PATIENCE: Duration = Duration::from_secs(60);
