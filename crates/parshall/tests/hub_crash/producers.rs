//! Idempotent producers of the durable service under `kill -9`: they send again what has no answer, and every event is there
//! once and in order.

use std::collections::BTreeMap;

use access::{DEVELOPMENT_KEY_VALUE, ROOT_KEY_NAME};
use amqp::Value;
use amqp::codec::Symbol;
use amqp::connection::{Event, LinkId, LinkOptions, NewDelivery, SaslClient};
use amqp::message::{FORMAT_BATCH, encode};
use amqp::performative::DeliveryState;
use test_peer::Client;
use units::Random;

use crate::hub_crash::PATIENCE;
use crate::hub_crash::rig::Serving;

/// Partitions of the hub; each has one producer.
const PARTITIONS: usize = 2;

/// Batches that a producer has under way at once, as many as are recognised when they come again.
const UNDER_WAY: usize = 5;

/// Events of one batch.
const BATCH: i32 = 3;

const ID: &str = "com.microsoft:producer-id";
const EPOCH: &str = "com.microsoft:producer-epoch";
const NUMBER: &str = "com.microsoft:producer-sequence-number";

/// What a producer knows of itself.
#[derive(Clone, Copy)]
struct Producer {
    id: Option<i64>,
    /// Batches without an answer follow this number.
    acknowledged: i32,
    /// The last number that was ever sent.
    sent: i32,
}

impl Producer {
    /// One that has sent nothing: its first event has the number 0.
    const NEW: Self = Self { id: None, acknowledged: -1, sent: -1 };
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_idempotent_producers_send_again_is_stored_once_however_often_it_is_killed() {
    killed(&["--sync", "always"], 8).await;
    killed(&["--sync", "50 ms"], 8).await;
}

/// Kills a service of these settings so many times under load, and looks at what is left.
async fn killed(settings: &[&str], kills: u32) {
    const SEED: u64 = 20_261_122;
    let test = async {
        let folder = tempfile::tempdir().unwrap();
        let mut arguments: Vec<String> = settings.iter().map(|&setting| setting.to_owned()).collect();
        arguments.extend(["--hub".to_owned(), format!("events:{PARTITIONS}")]);
        let mut random = Random::from_seed(SEED);
        let mut producers = [Producer::NEW; PARTITIONS];
        for _ in 0..kills {
            let mut serving = Serving::start(folder.path(), &arguments).await;
            let mut client = connect(&serving).await;
            produce_until_killed(&mut serving, &mut client, &mut producers, 1 + random.below(500)).await;
            serving.kill().await;
        }
        let serving = Serving::start(folder.path(), &arguments).await;
        let mut client = connect(&serving).await;
        for (partition, producer) in producers.iter_mut().enumerate() {
            let link = attach(&mut client, partition, producer).await;
            while producer.acknowledged < producer.sent {
                let first = producer.acknowledged + 1;
                let id = client.begin_message(link, FORMAT_BATCH, &batch(first)).await;
                assert_eq!(client.outcome(id).await, DeliveryState::Accepted);
                producer.acknowledged += BATCH;
            }
            let count = producer.sent + 1;
            assert_eq!(numbers(&mut client, partition, count).await, Vec::from_iter(0..count));
        }
        serving.kill().await;
    };
    tokio::time::timeout(PATIENCE, test).await.unwrap();
}

async fn connect(serving: &Serving) -> Client {
    let port = serving.connection_string.endpoint.port().unwrap();
    let stream = Client::stream(([127, 0, 0, 1], port).into()).await;
    let key = SaslClient::Plain { username: ROOT_KEY_NAME.into(), password: DEVELOPMENT_KEY_VALUE.into() };
    Client::open(stream, key, None).await.unwrap()
}

/// A link on which the producer goes on after what was acknowledged.
async fn attach(client: &mut Client, partition: usize, producer: &mut Producer) -> LinkId {
    let is_new = producer.id.is_none();
    let state = match producer.id {
        None => [Value::Null, Value::Null, Value::Null],
        Some(id) => [Value::Long(id), Value::Short(0), Value::Int(producer.acknowledged)],
    };
    let ask = |options: &mut LinkOptions| {
        options.desired_capabilities = vec![Symbol::from_static("com.microsoft:idempotent-producer")];
        options.properties = [ID, EPOCH, NUMBER].map(Symbol::from_static).into_iter().zip(state).collect();
    };
    let (link, answer) = client.ask_to_send(&format!("events/Partitions/{partition}"), ask).await.unwrap();
    producer.id = answer.property(ID).and_then(Value::as_integer);
    assert_eq!(answer.property(NUMBER), Some(&Value::Int(producer.acknowledged)), "{is_new}");
    link
}

/// The batch that begins with an event of this number.
fn batch(first: i32) -> Vec<u8> {
    let mut batch = Vec::new();
    for number in first..first + BATCH {
        let mut event = Vec::new();
        encode::message_annotations(&mut event, &[(Symbol::from_static(NUMBER), Value::Int(number))]);
        encode::data(&mut event, &number.to_be_bytes());
        encode::data(&mut batch, &event);
    }
    batch
}

/// Sends what has no answer, and more, until so many batches are acknowledged; then the service is killed under way.
async fn produce_until_killed(
    serving: &mut Serving,
    client: &mut Client,
    producers: &mut [Producer; PARTITIONS],
    acknowledgements: u64,
) {
    let mut links = Vec::new();
    for (partition, producer) in producers.iter_mut().enumerate() {
        links.push(attach(client, partition, producer).await);
    }
    let mut next = producers.map(|producer| producer.acknowledged + 1);
    let mut under_way: BTreeMap<u32, usize> = BTreeMap::new();
    let mut seen = 0;
    loop {
        for (place, &link) in links.iter().enumerate() {
            let in_flight =
                |under_way: &BTreeMap<u32, usize>| under_way.values().filter(|it| **it == place).count();
            while in_flight(&under_way) < UNDER_WAY && client.connection().credit(link) > 0 {
                let delivery = NewDelivery { tag: b"tag", format: FORMAT_BATCH, settled: false };
                let mut sender = client.connection().sender(link).unwrap();
                let Ok(id) = sender.send(&delivery, &[&batch(next[place])]) else { break };
                under_way.insert(id, place);
                next[place] += BATCH;
                producers[place].sent = producers[place].sent.max(next[place] - 1);
            }
        }
        let Ok(event) = client.next_event().await else { return };
        let Event::Outcome { first, last, state, .. } = event else { continue };
        assert_eq!(state, Some(DeliveryState::Accepted));
        for id in first..=last {
            // Batches of a partition are acknowledged in their order.
            producers[under_way.remove(&id).unwrap()].acknowledged += BATCH;
            seen += 1;
        }
        if seen >= acknowledgements {
            serving.start_to_kill();
        }
    }
}

/// The numbers that the events of a partition bear, in their order; there must be `count` of them, and none besides.
async fn numbers(client: &mut Client, partition: usize, count: i32) -> Vec<i32> {
    let address = format!("events/ConsumerGroups/$Default/Partitions/{partition}");
    let (link, _) = client.ask_to_receive(&address, |_| {}).await.unwrap();
    client.connection().set_credit(link, count as u32 + 1);
    let received = client.received(link, count as usize).await;
    let last = received.last().map_or(-1, |event| event.sequence_number());
    assert_eq!(last + 1, i64::from(count), "numbers have no gap, so nothing is there twice");
    received.iter().map(|event| i32::from_be_bytes(event.payload().try_into().unwrap())).collect()
}
