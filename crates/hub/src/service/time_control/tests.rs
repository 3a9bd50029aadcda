//! The order of what becomes due, exactly once, however the time is cut.

use std::collections::BTreeMap;

use amqp::codec::Value;
use amqp::message::{MessageView, encode};
use proptest::prelude::*;
use queue_store::{Deliveries, NewMessage, QueueOptions, QueueStore, ReceiveMode, ReceiveRequest};

use super::*;
use crate::clock::ClockKind;
use crate::namespace::{HubConfig, NamespaceConfig};

/// A store with the queues `orders`, which has locks of 30 s and keeps what expires as dead letters, and `copies`, and what controls their time.
struct World {
    control: TimeControl,
    store: Arc<QueueStore>,
    /// When it began.
    start: i64,
}

impl World {
    fn new() -> Self {
        let clock = Arc::new(ServiceClock::new(ClockKind::Controlled));
        let config = NamespaceConfig::with_hubs(vec![HubConfig::new("events", 1)]);
        let namespace = Arc::new(Namespace::on_clock(&config, clock).unwrap());
        let store = Arc::clone(namespace.queues());
        let options = QueueOptions {
            lock_duration: Duration::from_secs(30),
            maximum_delivery_count: 3,
            dead_lettering_on_expiration: true,
            duplicate_detection: Some(Duration::from_secs(20)),
            ..QueueOptions::default()
        };
        let copies = QueueOptions { forward_to: Some("copies".to_owned()), ..options.clone() };
        let _ = store.create_queue("orders", options).unwrap();
        let _ = store.create_queue("copied", copies).unwrap();
        let _ = store.create_queue("copies", QueueOptions::default()).unwrap();
        let queues = QueueTime::new(Arc::clone(&namespace));
        let control = TimeControl::new(namespace, queues, None);
        let start = UnixTime::from(control.now()).milliseconds();
        Self { control, store, start }
    }

    fn queue(&self, name: &str) -> Arc<Queue> {
        match self.store.entity(name) {
            Some(Entity::Queue(queue)) => queue,
            other => panic!("{other:?}"),
        }
    }

    /// An instant so many seconds after the beginning.
    fn at(&self, seconds: u64) -> UnixTime {
        UnixTime::from_milliseconds(self.start + i64::try_from(seconds * 1_000).unwrap())
    }

    /// Sends a message at the beginning.
    fn send(&self, queue: &str, text: &str, scheduled: Option<u64>, time_to_live: Option<u64>) {
        let mut sections = Vec::new();
        encode::data(&mut sections, text.as_bytes());
        let message = NewMessage {
            sections: &[&sections],
            message_id: Some(text.as_bytes()),
            scheduled_enqueue_time: scheduled.map(|seconds| self.at(seconds)),
            time_to_live: time_to_live.map(Duration::from_secs),
            ..NewMessage::default()
        };
        self.queue(queue).enqueue(self.at(0), &[message]).unwrap();
        // It is forwarded at once, as by the service.
        let _ = self.store.advance(self.at(0));
    }

    /// Locks the first message at the beginning.
    fn lock_first(&self) {
        let request =
            ReceiveRequest { mode: ReceiveMode::PeekLock, session: None, messages: 1, bytes: usize::MAX };
        self.queue("orders").receive(self.at(0), &request, &mut Deliveries::new()).unwrap();
    }

    async fn advance(&self, seconds: u64) -> Happened {
        self.control.advance(Duration::from_secs(seconds)).await.unwrap().happened
    }

    /// What is in a queue: the text of each message, how often it was delivered in vain, when it came, in seconds, and why it is dead.
    fn messages(&self, queue: &Queue) -> Vec<Seen> {
        let mut deliveries = Deliveries::new();
        let now = UnixTime::from(self.control.now());
        queue.peek(now, 0, usize::MAX, usize::MAX, None, &mut deliveries);
        let messages = deliveries.iter().map(|delivery| {
            let view = MessageView::parse(delivery.sections).unwrap();
            let reason = view.application_properties().unwrap().find("DeadLetterReason").unwrap();
            let reason = reason.as_ref().and_then(Value::as_text).unwrap_or_default().to_owned();
            let text = String::from_utf8(view.data().unwrap().unwrap().to_vec()).unwrap();
            let came = (delivery.enqueued_time.milliseconds() - self.start) / 1_000;
            (text, delivery.delivery_count, came, reason)
        });
        messages.collect()
    }
}

fn seen(text: &str, count: u32, came: i64, reason: &str) -> Seen {
    (text.to_owned(), count, came, reason.to_owned())
}

#[tokio::test]
async fn what_becomes_due_acts_in_the_order_of_its_instants_and_once() {
    let world = World::new();
    world.send("orders", "locked until 30 s, expires at 40 s", None, Some(40));
    world.lock_first();
    world.send("orders", "expires at 35 s", None, Some(35));
    world.send("orders", "comes at 600 s, expires at 1200 s", Some(600), Some(600));
    world.send("orders", "comes at 500 s and stays", Some(500), None);
    let happened = world.advance(3_600).await;
    let expected = Happened {
        message_locks_ended: 1,
        scheduled_messages_enqueued: 2,
        messages_expired: 3,
        messages_dead_lettered: 3,
        ..Happened::default()
    };
    assert_eq!(happened, expected);
    let orders = world.queue("orders");
    assert_eq!(world.messages(&orders), [seen("comes at 500 s and stays", 0, 500, "")]);
    let expired = "TTLExpiredException";
    let dead = [
        seen("expires at 35 s", 0, 0, expired),
        seen("locked until 30 s, expires at 40 s", 1, 0, expired),
        seen("comes at 600 s, expires at 1200 s", 0, 600, expired),
    ];
    assert_eq!(world.messages(orders.dead_letters().unwrap()), dead);
    assert_eq!(world.advance(3_600).await, Happened::default(), "nothing happens twice");
}

#[tokio::test]
async fn a_message_that_becomes_due_is_forwarded_at_that_instant() {
    let world = World::new();
    world.send("copied", "later", Some(90), None);
    assert_eq!(world.advance(89).await, Happened::default());
    assert_eq!(world.advance(10).await.scheduled_messages_enqueued, 1);
    assert_eq!(world.messages(&world.queue("copies")), [seen("later", 0, 90, "")]);
}

#[tokio::test]
async fn an_identifier_is_a_duplicate_until_its_window_is_over() {
    let world = World::new();
    let send = || {
        let message = NewMessage {
            sections: &[b"\x00\x53\x75\xa0\x00"],
            message_id: Some(b"one"),
            ..NewMessage::default()
        };
        world.queue("orders").enqueue(UnixTime::from(world.control.now()), &[message]).unwrap();
        world.queue("orders").counts().active
    };
    assert_eq!((send(), send()), (1, 1));
    world.advance(19).await;
    assert_eq!(send(), 1);
    world.advance(21).await;
    assert_eq!(send(), 2);
}

#[tokio::test]
async fn time_does_not_go_back_nor_beyond_the_last_date() {
    let World { control, .. } = World::new();
    let before = control.now();
    let error = control.advance_to(before - Duration::from_secs(1)).await.unwrap_err();
    assert!(matches!(error, AdvanceError::Back { .. }), "{error}");
    let error = control.advance(Duration::from_secs(u64::MAX)).await.unwrap_err();
    assert!(matches!(error, AdvanceError::TooFar { .. }), "{error}");
    assert_eq!(control.offset(), Duration::ZERO, "nothing has changed");
    let advanced = control.advance(Duration::from_secs(3_600)).await.unwrap();
    assert_eq!(advanced.offset, Duration::from_secs(3_600));
    let to = before + Duration::from_secs(7_200);
    assert!(control.advance_to(to).await.unwrap().now >= to);
}

#[tokio::test]
async fn who_advances_at_the_same_time_takes_turns() {
    let World { control, .. } = World::new();
    let minutes = (0..8).map(|_| {
        let control = control.clone();
        tokio::spawn(async move { control.advance(Duration::from_secs(60)).await.unwrap() })
    });
    for advanced in minutes.collect::<Vec<_>>() {
        let _ = advanced.await.unwrap();
    }
    assert_eq!(control.offset(), Duration::from_secs(8 * 60));
}

/// A message of a history: when it is to come, how long it may wait, and where it is sent.
type Sent = (Option<u64>, Option<u64>, bool);

/// A message: text, delivery count, seconds from the beginning to its enqueued time, dead-letter reason.
type Seen = (String, u32, i64, String);

/// The messages of each queue.
type Left = BTreeMap<&'static str, Vec<Seen>>;

/// What is left of a history after ten minutes that are advanced in these steps, and what has happened.
fn outcome(messages: &[Sent], lock: bool, steps: &[u64]) -> (Left, Happened) {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async {
        let world = World::new();
        for (number, (scheduled, time_to_live, is_copied)) in messages.iter().enumerate() {
            let queue = if *is_copied { "copied" } else { "orders" };
            world.send(queue, &format!("message {number}"), *scheduled, *time_to_live);
        }
        if lock {
            world.lock_first();
        }
        let mut all = Happened::default();
        for step in steps {
            // Between two seconds: some milliseconds pass on the machine as well.
            let to = world.start + i64::try_from(step * 1_000 + 500).unwrap();
            let happened = world
                .control
                .advance_to(system_time(UnixTime::from_milliseconds(to)))
                .await
                .unwrap()
                .happened;
            all.message_locks_ended += happened.message_locks_ended;
            all.scheduled_messages_enqueued += happened.scheduled_messages_enqueued;
            all.messages_expired += happened.messages_expired;
            all.messages_dead_lettered += happened.messages_dead_lettered;
        }
        let mut left = BTreeMap::new();
        for name in ["orders", "copied", "copies"] {
            left.insert(name, world.messages(&world.queue(name)));
        }
        left.insert("dead", world.messages(world.queue("orders").dead_letters().unwrap()));
        (left, all)
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// One hour at once is sixty minutes, one after the other.
    #[test]
    fn how_the_time_is_cut_makes_no_difference(
        messages in prop::collection::vec(
            (prop::option::of(1_u64..600), prop::option::of(1_u64..600), any::<bool>()), 1..24,
        ),
        lock: bool,
        cuts in prop::collection::btree_set(1_u64..600, 0..12),
    ) {
        let steps: Vec<u64> = cuts.into_iter().chain([600]).collect();
        let began = std::time::Instant::now();
        let at_once = outcome(&messages, lock, &[600]);
        let in_steps = outcome(&messages, lock, &steps);
        // Otherwise something came while the machine took its time between two steps.
        prop_assume!(began.elapsed() < Duration::from_millis(400));
        prop_assert_eq!(at_once, in_steps);
    }
}
