//! Three queues of the durable service under `kill -9`, while a client carries messages from one to the next in transactions:
//! each message is in one queue afterwards, whatever was under way.

use access::Credential;
use amqp::connection::LinkId;
use amqp::message::FORMAT_AMQP;
use amqp::performative::DeliveryState;
use test_peer::Received;
use test_peer::queue_client::{QueueClient, in_transaction, message};
use tokio::sync::watch;
use units::Random;

use crate::hub_crash::PATIENCE;
use crate::hub_crash::rig::Serving;

const QUEUES: [&str; 3] = ["first", "second", "third"];

/// Messages that there are.
const MESSAGES: usize = 60;

/// Messages that a transaction carries at most.
const AT_ONCE: u64 = 12;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn messages_that_transactions_carry_are_in_one_place_however_often_the_service_is_killed() {
    killed(&["--sync", "always"], 10).await;
    killed(&["--sync", "50 ms"], 20).await;
}

/// Kills a service of these settings so many times, and looks at what is left after each.
async fn killed(settings: &[&str], kills: u32) {
    const SEED: u64 = 20_261_125;
    let test = async {
        let folder = tempfile::tempdir().unwrap();
        let mut arguments: Vec<String> = settings.iter().map(|&text| text.to_owned()).collect();
        for queue in QUEUES {
            arguments.extend(["--queue".to_owned(), queue.to_owned()]);
        }
        let mut random = Random::from_seed(SEED);
        for life in 0..=kills {
            let mut serving = Serving::start(folder.path(), &arguments).await;
            let mut carrier = Carrier::connect(&serving).await;
            if life == 0 {
                carrier.fill().await;
            }
            let mut found = carrier.payloads();
            found.sort();
            assert_eq!(found, payloads(), "seed {SEED}, life {life}");
            let steps = 1 + random.below(200);
            let (show, mut seen) = watch::channel(0);
            tokio::select! {
                biased;
                ended = seen.wait_for(|seen| *seen >= steps) => drop(ended.unwrap()),
                () = carrier.carry(&mut random, &show) => {}
            }
            // What was written last is on its way.
            serving.start_to_kill();
            serving.kill().await;
        }
    };
    tokio::time::timeout(PATIENCE, test).await.unwrap();
}

fn payloads() -> Vec<Vec<u8>> {
    (0..MESSAGES).map(|number| format!("{number:04}").into_bytes()).collect()
}

/// A client that has locked everything that there is.
struct Carrier {
    client: QueueClient,
    coordinator: LinkId,
    senders: Vec<LinkId>,
    receivers: Vec<LinkId>,
    /// By queue.
    locked: [Vec<Received>; 3],
}

impl Carrier {
    async fn connect(serving: &Serving) -> Self {
        let port = serving.connection_string.endpoint.port().unwrap();
        let Credential::Key(key) = &serving.connection_string.credential else { panic!("it has a key") };
        let address = ([127, 0, 0, 1], port).into();
        let mut client = QueueClient::connect_with_key(address, key.name(), key.value().reveal()).await;
        let (mut senders, mut receivers, mut locked) = (Vec::new(), Vec::new(), Vec::new());
        for queue in QUEUES {
            senders.push(client.sender(queue).await.unwrap().0);
            let receiver = client.receiver(queue, 4 * MESSAGES as u32).await;
            client.drain(receiver).await;
            let there = client.waiting(receiver);
            locked.push(client.receive(receiver, there).await);
            client.connection().set_credit(receiver, u32::MAX >> 1);
            receivers.push(receiver);
        }
        let locked = locked.try_into().unwrap();
        // With a coordinator before them, the session could receive from the first of the queues alone.
        let coordinator = client.coordinator().await;
        Self { client, coordinator, senders, receivers, locked }
    }

    /// Sends all messages to the first queue.
    async fn fill(&mut self) {
        for payload in payloads() {
            assert_eq!(self.client.send(self.senders[0], &payload).await, DeliveryState::Accepted);
        }
        self.locked[0] = self.client.receive(self.receivers[0], MESSAGES).await;
    }

    fn payloads(&self) -> Vec<Vec<u8>> {
        self.locked.iter().flatten().map(|message| message.payload().to_vec()).collect()
    }

    /// Carries messages without end, and says before each step that it comes.
    async fn carry(&mut self, random: &mut Random, show: &watch::Sender<u64>) {
        let step = || show.send_modify(|seen| *seen += 1);
        loop {
            let from = (0..3).max_by_key(|queue| self.locked[*queue].len()).unwrap();
            let to = (from + 1 + random.below(2) as usize) % 3;
            let count = (1 + random.below(AT_ONCE) as usize).min(self.locked[from].len());
            let carried: Vec<Received> = self.locked[from].drain(..count).collect();
            let transaction = self.client.declare(self.coordinator).await;
            let accepted = in_transaction(transaction, DeliveryState::Accepted);
            for received in &carried {
                step();
                let bytes = message(&received.payload());
                let sent = self.client.send_in(transaction, self.senders[to], FORMAT_AMQP, &bytes).await;
                assert_eq!(sent, accepted);
                let settled = self.client.settle_in(transaction, received, DeliveryState::Accepted).await;
                assert_eq!(settled, accepted);
            }
            step();
            let committed = self.client.commit(self.coordinator, transaction).await;
            assert_eq!(committed, DeliveryState::Accepted);
            let arrived = self.client.receive(self.receivers[to], count).await;
            self.locked[to].extend(arrived);
        }
    }
}
