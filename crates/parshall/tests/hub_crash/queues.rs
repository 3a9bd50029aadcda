//! Queues and a topic of the durable service under `kill -9`, while one client sends and receives as fast as it can: what was
//! accepted is there, what was completed is not, and what was deferred, dead-lettered, scheduled, said of a session or made a
//! rule stands.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use amqp::Value;
use amqp::codec::Symbol;
use amqp::connection::{Event, LinkId, NewDelivery};
use amqp::message::{FORMAT_AMQP, FORMAT_BATCH, MessageView, encode};
use amqp::performative::DeliveryState;
use test_peer::Received;
use test_peer::queue_client::{QueueClient, map, session_filter};
use units::Random;

use crate::hub_crash::PATIENCE;
use crate::hub_crash::queue_ledger::{Decision, Ledger};
use crate::hub_crash::rig::Serving;

const CONFIG: &str = "\
signatures: accept-any
queues:
  - name: jobs
  - {name: talks, requires_session: true}
  - {name: inbox, forward_to: work}
  - name: work
topics:
  - name: news
    subscriptions: [{name: all}, {name: odd}]
";

/// Where messages are received: a queue, subscriptions, and a queue to which another one forwards.
const PLACES: [&str; 4] = ["jobs", "news/Subscriptions/all", ODD, "work"];

/// Where they are sent, in turn.
const TARGETS: [&str; 3] = ["jobs", "news", "inbox"];

/// The subscription that gets a rule in the first life of the service, and keeps it.
const ODD: &str = "news/Subscriptions/odd";

/// Messages of one send, and sends under way at once.
const BATCH: u32 = 10;
const UNDER_WAY: usize = 8;

/// Messages that may come before one of them is settled.
const CREDIT: u32 = 60;

/// A folder with the service's data, and what a client knows of it.
struct Rig {
    folder: tempfile::TempDir,
    arguments: Vec<String>,
    next_number: u32,
    /// By place.
    ledgers: [Ledger; 4],
    scheduled: BTreeSet<u32>,
    /// What was last said of the session.
    state: Option<u32>,
}

/// A client in the middle of its work.
struct Working<'a> {
    client: &'a mut QueueClient,
    ledgers: &'a mut [Ledger; 4],
    receivers: [LinkId; 4],
    /// What was sent and not answered: by delivery, to which target, and the first number.
    sends: BTreeMap<u32, (usize, u32)>,
    /// What was settled and not answered: by delivery, place, number and decision.
    settlements: BTreeMap<u32, (usize, u32, Decision)>,
    completed: u64,
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn queues_keep_what_they_accepted_and_forget_what_was_completed_however_often_they_are_killed() {
    killed(&["--sync", "always"], 8).await;
    killed(&["--sync", "50 ms"], 8).await;
}

/// Kills a service of these settings so many times under load, and looks at what is left.
async fn killed(settings: &[&str], kills: u32) {
    const SEED: u64 = 20_261_121;
    let test = async {
        let mut rig = Rig::new(settings);
        let mut random = Random::from_seed(SEED);
        for _ in 0..kills {
            let completions = 1 + random.below(1_500);
            rig.live_until_completed(completions).await;
        }
        rig.conclude().await;
    };
    tokio::time::timeout(PATIENCE, test).await.unwrap();
}

impl Rig {
    fn new(settings: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let config = folder.path().join("namespace.yaml");
        std::fs::write(&config, CONFIG).unwrap();
        let mut arguments: Vec<String> = settings.iter().map(|&text| text.to_owned()).collect();
        arguments.extend(["--config".to_owned(), config.to_str().unwrap().to_owned()]);
        Self {
            folder,
            arguments,
            next_number: 0,
            ledgers: [Ledger::default(), Ledger::default(), Ledger::default(), Ledger::of_forwarded()],
            scheduled: BTreeSet::new(),
            state: None,
        }
    }

    async fn serve(&self) -> (Serving, QueueClient) {
        let serving = Serving::start(self.folder.path(), &self.arguments).await;
        let port = serving.connection_string.endpoint.port().unwrap();
        (serving, QueueClient::connect(([127, 0, 0, 1], port).into()).await)
    }

    /// Serves what is there, and kills the service while messages go in and out, after so many were completed.
    async fn live_until_completed(&mut self, completions: u64) {
        let (mut serving, mut client) = self.serve().await;
        self.look_after_what_rests(&mut client).await;
        let mut senders = Vec::new();
        for target in TARGETS {
            senders.push(client.sender(target).await.unwrap().0);
        }
        let mut working = Working::start(&mut client, &mut self.ledgers).await;
        let mut is_killed = false;
        loop {
            if !is_killed {
                working.send(&mut self.next_number, &senders);
            }
            // What was on its way when it was killed has been said, and counts.
            let Ok(event) = working.client.next_event().await else {
                break;
            };
            if matches!(event, Event::Closed(_)) {
                break;
            }
            working.take(event);
            if working.completed >= completions && !is_killed {
                serving.start_to_kill();
                is_killed = true;
            }
        }
        for (place, number, _) in working.settlements.values() {
            working.ledgers[*place].leave_open(*number);
        }
        serving.kill().await;
    }

    /// What does not flow: a rule, the state of a session, a scheduled message.
    async fn look_after_what_rests(&mut self, client: &mut QueueClient) {
        if self.state.is_none() {
            let name = [("rule-name", "$Default".into())];
            let answer = client.request(ODD, "remove-rule", &name).await;
            assert_eq!(answer.status, 200, "{answer:?}");
            let filter = map(&[("sql-filter", map(&[("expression", "odd = TRUE".into())]))]);
            let rule = [("rule-name", Value::from("odd")), ("rule-description", filter)];
            let answer = client.request(ODD, "add-rule", &rule).await;
            assert_eq!(answer.status, 200, "{answer:?}");
        }
        let asked = session_filter("one".into());
        let (session, _) = client.ask_to_receive("talks", asked).await.unwrap();
        assert_eq!(session_state(client).await, self.state);
        let state = self.state.map_or(0, |state| state + 1);
        let said =
            [("session-id", "one".into()), ("session-state", Value::Binary(state.to_be_bytes().to_vec()))];
        let answer = client.request("talks", "set-session-state", &said).await;
        assert_eq!(answer.status, 200, "{answer:?}");
        self.state = Some(state);
        client.detach(session).await;

        let (sender, _) = client.sender("jobs").await.unwrap();
        let number = self.next_number;
        self.next_number += 1;
        let mut message = Vec::new();
        let at = SystemTime::now() + Duration::from_secs(3_600);
        let at = at.duration_since(UNIX_EPOCH).unwrap().as_millis() as i64;
        let name = Symbol::from_static("x-opt-scheduled-enqueue-time");
        encode::message_annotations(&mut message, &[(name, Value::Timestamp(at))]);
        message.extend(numbered(number));
        let outcome = client.send_message(sender, FORMAT_AMQP, &message).await;
        assert_eq!(outcome, DeliveryState::Accepted);
        self.scheduled.insert(number);
    }

    /// Serves what is there once more, and compares all of it with what was done.
    async fn conclude(mut self) {
        let (serving, mut client) = self.serve().await;
        let asked = session_filter("one".into());
        client.ask_to_receive("talks", asked).await.unwrap();
        assert_eq!(session_state(&mut client).await, self.state);
        for (place, name) in PLACES.iter().enumerate() {
            let mut waiting: BTreeSet<u32> = BTreeSet::new();
            if place == 3 {
                // What is still on its way to it.
                waiting = numbers(&all(&mut client, "inbox").await);
            }
            let mut scheduled = BTreeSet::new();
            let mut deferred = BTreeSet::new();
            for message in all(&mut client, name).await {
                let (number, state) = (number_of(&message), state_of(&message));
                match state {
                    0 => waiting.insert(number),
                    1 => deferred.insert(number),
                    _ => scheduled.insert(number),
                };
            }
            let dead = all(&mut client, &format!("{name}/$DeadLetterQueue")).await;
            let dead = numbers(&dead);
            let ledger = &self.ledgers[place];
            assert!(ledger.decided(Decision::Defer).is_subset(&deferred), "{name}");
            assert!(ledger.decided(Decision::DeadLetter).is_subset(&dead), "{name}");
            let completed = ledger.decided(Decision::Complete);
            for there in [&waiting, &deferred, &scheduled, &dead] {
                let is_over = completed.is_disjoint(there);
                assert!(is_over || place == 3, "{name}: it was completed");
            }
            let expected = match place {
                0 => std::mem::take(&mut self.scheduled),
                _ => BTreeSet::new(),
            };
            assert_eq!(scheduled, expected, "{name}");
            let verdict = ledger.verdict(&(&(&waiting | &deferred) | &dead));
            assert!(verdict.lost.is_empty(), "{name}: {verdict:?}");
            assert!(verdict.completed > 0, "{name}: {verdict:?}");
            assert!(verdict.redelivered > 0, "{name}: {verdict:?}");
            assert!(verdict.counted > 0, "{name}: {verdict:?}");
            if *name == ODD {
                assert!(waiting.iter().all(|number| number % 2 == 1));
            }
        }
        serving.kill().await;
    }
}

impl<'a> Working<'a> {
    async fn start(client: &'a mut QueueClient, ledgers: &'a mut [Ledger; 4]) -> Self {
        let mut receivers = Vec::new();
        for place in PLACES {
            receivers.push(client.receiver(place, 0).await);
        }
        for &receiver in &receivers {
            client.connection().set_credit(receiver, CREDIT);
        }
        Self {
            client,
            ledgers,
            receivers: receivers.try_into().unwrap(),
            sends: BTreeMap::new(),
            settlements: BTreeMap::new(),
            completed: 0,
        }
    }

    /// Sends as much as may be under way.
    fn send(&mut self, next_number: &mut u32, senders: &[LinkId]) {
        while self.sends.len() < UNDER_WAY {
            let target = (*next_number / BATCH) as usize % senders.len();
            let mut batch = Vec::new();
            for number in *next_number..*next_number + BATCH {
                encode::data(&mut batch, &numbered(number));
            }
            let delivery = NewDelivery { tag: b"tag", format: FORMAT_BATCH, settled: false };
            let connection = self.client.connection();
            let mut sender = connection.sender(senders[target]).unwrap();
            let Ok(id) = sender.send(&delivery, &[&batch]) else {
                return;
            };
            self.sends.insert(id, (target, *next_number));
            *next_number += BATCH;
        }
    }

    fn take(&mut self, event: Event) {
        match event {
            Event::Outcome { first, last, state, .. } => {
                assert_eq!(state, Some(DeliveryState::Accepted));
                for id in first..=last {
                    let (target, first) = self.sends.remove(&id).unwrap();
                    let numbers = first..first + BATCH;
                    match target {
                        0 => self.ledgers[0].accept(numbers),
                        1 => {
                            self.ledgers[1].accept(numbers.clone());
                            self.ledgers[2].accept(numbers.filter(|number| number % 2 == 1));
                        }
                        _ => self.ledgers[3].accept(numbers),
                    }
                }
            }
            Event::Deliveries(deliveries) => {
                for delivery in deliveries.items() {
                    self.receive(&Received {
                        link: delivery.link,
                        id: delivery.id,
                        tag: Vec::new(),
                        settled: delivery.settled,
                        bytes: deliveries.message(delivery).to_vec(),
                    });
                }
                for receiver in self.receivers {
                    self.client.connection().set_credit(receiver, CREDIT);
                }
            }
            Event::SettledBySender { first, last, state, .. } => {
                for id in first..=last {
                    let (place, number, decision) = self.settlements.remove(&id).unwrap();
                    assert_eq!(state, Some(answer_to(decision)), "message {number}");
                    self.ledgers[place].confirm(number, decision);
                    self.completed += u64::from(decision == Decision::Complete);
                }
            }
            _ => {}
        }
    }

    fn receive(&mut self, message: &Received) {
        let of_link = |link: &LinkId| *link == message.link;
        let place = self.receivers.iter().position(of_link).unwrap();
        let number = number_of(&message.bytes);
        let failures = message.delivery_count();
        self.ledgers[place].deliver(number, message.sequence_number(), failures);
        let decision = Decision::about(number, failures);
        self.settlements.insert(message.id, (place, number, decision));
        let session = self.client.session();
        let outcome = outcome_of(decision);
        let connection = self.client.connection();
        connection.propose_outcome(session, message.id, message.id, outcome);
    }
}

fn outcome_of(decision: Decision) -> DeliveryState {
    match decision {
        Decision::Complete => DeliveryState::Accepted,
        Decision::DeadLetter => DeliveryState::Rejected(None),
        Decision::Abandon | Decision::Defer => DeliveryState::Modified {
            delivery_failed: true,
            undeliverable_here: decision == Decision::Defer,
            annotations: Vec::new(),
        },
    }
}

/// The service answers with the outcome that it was given.
fn answer_to(decision: Decision) -> DeliveryState {
    outcome_of(decision)
}

/// A message that says which one it is.
fn numbered(number: u32) -> Vec<u8> {
    let mut message = Vec::new();
    let odd = Value::Boolean(number % 2 == 1);
    encode::application_properties(&mut message, &[("odd", odd)]);
    encode::data(&mut message, &number.to_be_bytes());
    message
}

fn numbers(messages: &[Vec<u8>]) -> BTreeSet<u32> {
    messages.iter().map(|message| number_of(message)).collect()
}

fn number_of(message: &[u8]) -> u32 {
    let view = MessageView::parse(message).unwrap();
    u32::from_be_bytes(view.data().unwrap().unwrap().try_into().unwrap())
}

fn state_of(message: &[u8]) -> i64 {
    let view = MessageView::parse(message).unwrap();
    let annotations = view.message_annotations().unwrap();
    // It is not said of messages that are available.
    let state = annotations.find("x-opt-message-state").unwrap();
    state.map_or(0, |state| state.as_integer().unwrap())
}

async fn session_state(client: &mut QueueClient) -> Option<u32> {
    let session = [("session-id", "one".into())];
    let answer = client.request("talks", "get-session-state", &session).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    match answer.body.get("session-state") {
        Some(Value::Binary(state)) => Some(u32::from_be_bytes(state[..].try_into().unwrap())),
        _ => None,
    }
}

/// All messages of an entity, whatever their state.
async fn all(client: &mut QueueClient, entity: &str) -> Vec<Vec<u8>> {
    let mut all = Vec::new();
    let mut from = 0;
    loop {
        let page = [("from-sequence-number", Value::Long(from)), ("message-count", Value::Int(1_000))];
        let answer = client.request(entity, "peek-message", &page).await;
        let Some(Value::List(messages)) = answer.body.get("messages") else {
            assert_eq!(answer.status, 204, "{answer:?}");
            return all;
        };
        for message in messages {
            let Some(Value::Binary(bytes)) = message.get("message") else { panic!("{message:?}") };
            let view = MessageView::parse(bytes).unwrap();
            let annotations = view.message_annotations().unwrap();
            let number = annotations.find("x-opt-sequence-number").unwrap();
            from = number.unwrap().as_integer().unwrap() + 1;
            all.push(bytes.clone());
        }
    }
}
