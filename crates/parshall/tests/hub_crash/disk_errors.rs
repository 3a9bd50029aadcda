//! The durable service on a disk that begins to fail: what it answers is what happened. A change that was refused is not made, neither
//! at once, nor when the disk takes writes again, nor after `kill -9`. One that was answered as done stays. Only of what was in progress
//! when the disk failed, the outcome may be unknown, and the answer says so.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use access::Credential;
use amqp::connection::LinkId;
use amqp::message::FORMAT_AMQP;
use amqp::performative::{DeliveryState, ErrorCondition};
use test_peer::Received;
use test_peer::queue_client::{QueueClient, message};

use crate::hub_crash::PATIENCE;
use crate::hub_crash::rest_client::Connection;
use crate::hub_crash::rig::Serving;

/// The operations of the disk that fail together.
const FAULTS: [&[&str]; 5] = [&["sync"], &["write"], &["rename"], &["directory"], &["sync", "rename"]];

/// How a change was answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Answer {
    Done,
    Refused,
    Unknown,
}

/// A change of something that nothing else changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Change {
    CreateQueue,
    UpdateQueue,
    DeleteQueue,
    CreateTopic,
    CreateSubscription,
    UpdateSubscription,
    DeleteSubscription,
    AddRule,
    ReplaceRule,
    DeleteRule,
    SendToQueue,
    SendToTopic,
    Complete,
    DeadLetter,
    Commit,
}

const CHANGES: [Change; 15] = [
    Change::CreateQueue,
    Change::UpdateQueue,
    Change::DeleteQueue,
    Change::CreateTopic,
    Change::CreateSubscription,
    Change::UpdateSubscription,
    Change::DeleteSubscription,
    Change::AddRule,
    Change::ReplaceRule,
    Change::DeleteRule,
    Change::SendToQueue,
    Change::SendToTopic,
    Change::Complete,
    Change::DeadLetter,
    Change::Commit,
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn changes_that_a_failing_disk_refuses_are_not_made() {
    let test = async {
        let folder = tempfile::tempdir().unwrap();
        let library = failing_disk(folder.path());
        let mut answered = Vec::new();
        for faults in FAULTS {
            for first in
                [Change::CreateQueue, Change::SendToQueue, Change::DeleteSubscription, Change::Commit]
            {
                answered.extend(fail(&library, faults, first).await);
            }
        }
        for answer in [Answer::Done, Answer::Refused, Answer::Unknown] {
            assert!(answered.contains(&answer), "no change was answered with {answer:?}");
        }
    };
    tokio::time::timeout(PATIENCE, test).await.unwrap();
}

/// Has the disk fail, makes all changes, `first` before the others, and compares what is there with the answers, which it returns.
async fn fail(library: &Path, faults: &[&str], first: Change) -> Vec<Answer> {
    let disk = Disk::new(library);
    let serving = disk.serve().await;
    let mut clients = Clients::connect(&serving).await;
    clients.prepare().await;
    let mut changes: Vec<Change> = CHANGES.to_vec();
    changes.sort_by_key(|change| *change != first);
    disk.set(faults, true);
    let mut answers = Vec::new();
    for change in &changes {
        answers.push((*change, clients.make(*change).await));
    }
    clients.check(&answers, &format!("{faults:?}, {first:?} first, while it fails")).await;
    disk.set(faults, false);
    clients.check(&answers, &format!("{faults:?}, {first:?} first, when it works again")).await;
    serving.kill().await;
    let serving = disk.serve().await;
    let mut clients = Clients::connect(&serving).await;
    clients.check(&answers, &format!("{faults:?}, {first:?} first, after a kill")).await;
    serving.kill().await;
    answers.into_iter().map(|(_change, answer)| answer).collect()
}

/// A folder on a disk that can fail.
struct Disk<'a> {
    folder: tempfile::TempDir,
    library: &'a Path,
}

/// Compiles the library that lets the system calls of a process fail.
fn failing_disk(folder: &Path) -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/hub_crash/failing_disk.c");
    let library = folder.join("failing_disk.so");
    let mut compiler = Command::new("cc");
    compiler.args(["-shared", "-fPIC", "-o"]).args([&library, &source]).arg("-ldl");
    assert!(compiler.status().unwrap().success());
    library
}

impl<'a> Disk<'a> {
    fn new(library: &'a Path) -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("faults")).unwrap();
        Self { folder, library }
    }

    fn faults(&self) -> PathBuf {
        self.folder.path().join("faults")
    }

    fn set(&self, faults: &[&str], fail: bool) {
        for path in faults.iter().map(|fault| self.faults().join(fault)) {
            match fail {
                true => fs::write(path, "").unwrap(),
                false => fs::remove_file(path).unwrap(),
            }
        }
    }

    async fn serve(&self) -> Serving {
        let arguments = ["--sync", "always"].map(str::to_owned);
        let environment = [("LD_PRELOAD", self.library), ("FAILING_DISK", &self.faults())];
        Serving::start_in(self.folder.path(), &arguments, &environment).await
    }
}

struct Clients {
    rest: Connection,
    queues: QueueClient,
    coordinator: Option<LinkId>,
    /// What was received from `completed`, `rejected` and `source`.
    locked: Vec<Received>,
    /// Leads to `target`.
    sender: Option<LinkId>,
}

impl Clients {
    async fn connect(serving: &Serving) -> Self {
        let port = serving.connection_string.endpoint.port().unwrap();
        let Credential::Key(key) = &serving.connection_string.credential else { panic!("it has a key") };
        let address = ([127, 0, 0, 1], port).into();
        let queues = QueueClient::connect_with_key(address, key.name(), key.value().reveal()).await;
        let rest = Connection::open(serving).await.unwrap();
        Self { rest, queues, coordinator: None, locked: Vec::new(), sender: None }
    }

    /// Creates what the changes change.
    async fn prepare(&mut self) {
        for queue in ["updated", "deleted", "sent", "completed", "rejected", "source", "target"] {
            assert_eq!(self.put(queue, &queue_entry("before")).await, Answer::Done);
        }
        for topic in ["topic", "news"] {
            assert_eq!(self.put(topic, &topic_entry()).await, Answer::Done);
        }
        for subscription in [
            "topic/subscriptions/updated",
            "topic/subscriptions/deleted",
            "topic/subscriptions/rules",
            "news/subscriptions/all",
        ] {
            assert_eq!(self.put(subscription, &subscription_entry("before")).await, Answer::Done);
        }
        for rule in ["replaced", "deleted"] {
            let path = format!("topic/subscriptions/rules/rules/{rule}");
            assert_eq!(self.put(&path, &rule_entry("before")).await, Answer::Done);
        }
        for queue in ["completed", "rejected", "source"] {
            let (sender, _) = self.queues.sender(queue).await.unwrap();
            assert_eq!(self.queues.send(sender, b"message").await, DeliveryState::Accepted);
            let receiver = self.queues.receiver(queue, 1).await;
            let received = self.queues.receive(receiver, 1).await;
            self.locked.extend(received);
        }
        self.sender = Some(self.queues.sender("target").await.unwrap().0);
        // With a coordinator before them, the session could receive from the first of the queues alone.
        self.coordinator = Some(self.queues.coordinator().await);
    }

    async fn make(&mut self, change: Change) -> Answer {
        match change {
            Change::CreateQueue => self.put("created", &queue_entry("after")).await,
            Change::UpdateQueue => self.update("updated", &queue_entry("after")).await,
            Change::DeleteQueue => self.delete("deleted").await,
            Change::CreateTopic => self.put("created-topic", &topic_entry()).await,
            Change::CreateSubscription => {
                self.put("topic/subscriptions/created", &subscription_entry("after")).await
            }
            Change::UpdateSubscription => {
                self.update("topic/subscriptions/updated", &subscription_entry("after")).await
            }
            Change::DeleteSubscription => self.delete("topic/subscriptions/deleted").await,
            Change::AddRule => self.put("topic/subscriptions/rules/rules/added", &rule_entry("after")).await,
            Change::ReplaceRule => {
                self.update("topic/subscriptions/rules/rules/replaced", &rule_entry("after")).await
            }
            Change::DeleteRule => self.delete("topic/subscriptions/rules/rules/deleted").await,
            Change::SendToQueue => self.request("POST", "sent/messages", &[], "message").await,
            Change::SendToTopic => self.request("POST", "news/messages", &[], "message").await,
            Change::Complete => {
                answer_of(&self.queues.settle(&self.locked[0], DeliveryState::Accepted).await)
            }
            Change::DeadLetter => {
                answer_of(&self.queues.settle(&self.locked[1], DeliveryState::Rejected(None)).await)
            }
            Change::Commit => {
                let coordinator = self.coordinator.unwrap();
                let transaction = self.queues.declare(coordinator).await;
                let bytes = message(b"message");
                let sender = self.sender.unwrap();
                self.queues.send_in(transaction, sender, FORMAT_AMQP, &bytes).await;
                self.queues.settle_in(transaction, &self.locked[2], DeliveryState::Accepted).await;
                answer_of(&self.queues.commit(coordinator, transaction).await)
            }
        }
    }

    /// Whether a change is in effect.
    async fn is_made(&mut self, change: Change) -> bool {
        match change {
            Change::CreateQueue => self.has("created", "after").await,
            Change::UpdateQueue => self.has("updated", "after").await,
            Change::DeleteQueue => !self.has("deleted", "before").await,
            Change::CreateTopic => self.has("created-topic", "TopicDescription").await,
            Change::CreateSubscription => self.has("topic/subscriptions/created", "after").await,
            Change::UpdateSubscription => self.has("topic/subscriptions/updated", "after").await,
            Change::DeleteSubscription => !self.has("topic/subscriptions/deleted", "before").await,
            Change::AddRule => self.has("topic/subscriptions/rules/rules/added", "after").await,
            Change::ReplaceRule => self.has("topic/subscriptions/rules/rules/replaced", "after").await,
            Change::DeleteRule => !self.has("topic/subscriptions/rules/rules/deleted", "before").await,
            Change::SendToQueue => self.has("sent", "<MessageCount>1</MessageCount>").await,
            Change::SendToTopic => self.has("news/subscriptions/all", "<MessageCount>1</MessageCount>").await,
            Change::Complete => !self.has("completed", "<MessageCount>1</MessageCount>").await,
            Change::DeadLetter => self.has("rejected", "DeadLetterMessageCount>1</").await,
            Change::Commit => {
                let is_sent = self.has("target", "<MessageCount>1</MessageCount>").await;
                let is_settled = !self.has("source", "<MessageCount>1</MessageCount>").await;
                assert_eq!(is_sent, is_settled, "a transaction is there as a whole");
                is_sent
            }
        }
    }

    async fn check(&mut self, answers: &[(Change, Answer)], when: &str) {
        for (change, answer) in answers {
            let is_made = self.is_made(*change).await;
            let is_true = match answer {
                Answer::Done => is_made,
                Answer::Refused => !is_made,
                Answer::Unknown => true,
            };
            assert!(is_true, "{when}: {change:?} was answered with {answer:?}, and is in effect: {is_made}");
        }
    }

    async fn put(&mut self, path: &str, entry: &str) -> Answer {
        self.request("PUT", path, &[], entry).await
    }

    async fn update(&mut self, path: &str, entry: &str) -> Answer {
        self.request("PUT", path, &["If-Match: *"], entry).await
    }

    async fn delete(&mut self, path: &str) -> Answer {
        self.request("DELETE", path, &[], "").await
    }

    async fn request(&mut self, method: &str, path: &str, fields: &[&str], body: &str) -> Answer {
        let answer = self.rest.ask(method, path, fields, body).await.unwrap();
        match answer.status {
            200 | 201 => Answer::Done,
            503 => Answer::Refused,
            504 => Answer::Unknown,
            _ => panic!("{method} {path}: {answer:?}"),
        }
    }

    /// Whether there is something at a path whose description contains `text`.
    async fn has(&mut self, path: &str, text: &str) -> bool {
        let answer = self.rest.ask("GET", path, &[], "").await.unwrap();
        match answer.status {
            200 => answer.body.contains("<content") && answer.body.contains(text),
            404 => false,
            _ => panic!("{path}: {answer:?}"),
        }
    }
}

fn answer_of(outcome: &DeliveryState) -> Answer {
    match outcome {
        DeliveryState::Rejected(Some(error)) if error.condition == ErrorCondition::SERVER_BUSY => {
            Answer::Refused
        }
        DeliveryState::Rejected(Some(error)) if error.condition == ErrorCondition::TIMEOUT => Answer::Unknown,
        DeliveryState::Accepted | DeliveryState::Rejected(None) => Answer::Done,
        other => panic!("{other:?}"),
    }
}

fn queue_entry(metadata: &str) -> String {
    entry("QueueDescription", &format!("<UserMetadata>{metadata}</UserMetadata>"))
}

fn topic_entry() -> String {
    entry("TopicDescription", "")
}

fn subscription_entry(metadata: &str) -> String {
    entry("SubscriptionDescription", &format!("<UserMetadata>{metadata}</UserMetadata>"))
}

fn rule_entry(label: &str) -> String {
    let filter = format!(
        r#"<Filter i:type="SqlFilter"><SqlExpression>sys.Label = '{label}'</SqlExpression></Filter>"#
    );
    entry("RuleDescription", &filter)
}

fn entry(kind: &str, content: &str) -> String {
    format!(
        r#"<entry xmlns="http://www.w3.org/2005/Atom"><content type="application/xml"><{kind} xmlns="http://schemas.microsoft.com/netservices/2010/10/servicebus/connect" xmlns:i="http://www.w3.org/2001/XMLSchema-instance">{content}</{kind}></content></entry>"#
    )
}
