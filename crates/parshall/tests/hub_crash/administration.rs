//! Queues that clients create and delete, over several connections, while the service is killed with `kill -9`: those whose creation
//! was answered are there afterwards, those whose deletion was answered are not, and what waits in them is whole.

use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::Path;
use std::sync::{Arc, Mutex};

use tokio::sync::watch;
use units::Random;

use crate::hub_crash::PATIENCE;
use crate::hub_crash::rest_client::{Address, Connection};
use crate::hub_crash::rig::Serving;

/// Connections that create and delete.
const CLIENTS: u64 = 6;

/// Names that each of them gives, again and again.
const NAMES: u64 = 40;

/// What is known of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Known {
    There,
    Gone,
    /// The service was killed before it answered.
    Unanswered,
}

type Ledger = Arc<Mutex<BTreeMap<String, Known>>>;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn queues_whose_creation_or_deletion_was_answered_stay_so_however_often_the_service_is_killed() {
    const SEED: u64 = 20_261_126;
    let test = async {
        let folder = tempfile::tempdir().unwrap();
        let ledger = Ledger::default();
        let mut random = Random::from_seed(SEED);
        for life in 0..KILLS {
            let mut serving = Serving::start(folder.path(), &[]).await;
            check(&serving, &ledger).await;
            let (answers, mut answered) = watch::channel(0_u64);
            let answers = Arc::new(answers);
            let clients: Vec<_> = (0..CLIENTS)
                .map(|number| {
                    let client = Client::of(&serving, number, &ledger, &answers);
                    tokio::spawn(client.work(Random::from_seed(SEED ^ (life << 8) ^ number)))
                })
                .collect();
            let enough = 1 + random.below(150);
            drop(answered.wait_for(|answered| *answered >= enough).await.unwrap());
            serving.start_to_kill();
            serving.kill().await;
            for client in clients {
                client.await.unwrap();
            }
            // What was being appended may be there in part.
            if life % 2 == 1 {
                tear(folder.path());
            }
        }
        let serving = Serving::start(folder.path(), &[]).await;
        check(&serving, &ledger).await;
        serving.kill().await;
    };
    tokio::time::timeout(PATIENCE, test).await.unwrap();
}

/// Appends the beginning of a change, as a write does that is cut short.
fn tear(directory: &Path) {
    let mut log =
        OpenOptions::new().append(true).create(true).open(directory.join("manifest.changes")).unwrap();
    log.write_all(br#"5a0c33d1 1700 {"queue":{"queue":{"name":"never-answered""#).unwrap();
}

/// Looks at every queue, and takes down what has become of those that were not answered.
async fn check(serving: &Serving, ledger: &Ledger) {
    let mut connection = Connection::open(serving).await.expect("the service has just begun");
    let names: Vec<(String, Known)> =
        ledger.lock().unwrap().iter().map(|(name, known)| (name.clone(), *known)).collect();
    for (name, known) in names {
        let answer = connection.ask("GET", &name, &[], "").await.expect("the service runs");
        let found = match answer.status {
            200 => Known::There,
            404 => Known::Gone,
            _ => panic!("{name}: {answer:?}"),
        };
        assert!(known == Known::Unanswered || known == found, "{name} is {found:?} and was {known:?}");
        ledger.lock().unwrap().insert(name, found);
    }
}

struct Client {
    number: u64,
    address: Address,
    ledger: Ledger,
    answers: Arc<watch::Sender<u64>>,
}

impl Client {
    fn of(serving: &Serving, number: u64, ledger: &Ledger, answers: &Arc<watch::Sender<u64>>) -> Self {
        let address = Address::of(serving);
        Self { number, address, ledger: Arc::clone(ledger), answers: Arc::clone(answers) }
    }

    /// Creates and deletes queues until the service is gone.
    async fn work(self, mut random: Random) {
        let Some(mut connection) = Connection::to(&self.address).await else {
            return;
        };
        loop {
            let name = format!("queue-{}-{}", self.number, random.below(NAMES));
            let before = self.ledger.lock().unwrap().get(&name).copied().unwrap_or(Known::Gone);
            let (method, body, expected, after) = match before {
                Known::There => ("DELETE", "", 200, Known::Gone),
                Known::Gone | Known::Unanswered => ("PUT", BODY, 201, Known::There),
            };
            self.ledger.lock().unwrap().insert(name.clone(), Known::Unanswered);
            let Some(answer) = connection.ask(method, &name, &[], body).await else {
                return;
            };
            assert_eq!(answer.status, expected, "{method} {name}");
            self.ledger.lock().unwrap().insert(name, after);
            self.answers.send_modify(|answers| *answers += 1);
        }
    }
}

const KILLS: u64 = 12;

const BODY: &str = r#"<entry xmlns="http://www.w3.org/2005/Atom"><content type="application/xml"><QueueDescription xmlns="http://schemas.microsoft.com/netservices/2010/10/servicebus/connect"/></content></entry>"#;
