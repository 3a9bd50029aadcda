//! What the services in these tests have in common: the server's side of a connection with its links, and how a test waits
//! for what it is told.

use std::sync::Arc;
use std::time::{Duration, Instant};

use amqp::connection::{Config, CreditOverrun, LinkId, NewDelivery, OutcomeAnswers, SaslServer};
use amqp::message::{MessageView, Properties, encode};
use amqp::performative::{Attach, Role};
use amqp::{Connection, Value};
use amqp_tokio::{Driver, Stream};
use tokio::sync::mpsc;

/// The links of one connection.
#[derive(Default)]
pub(crate) struct Links {
    links: Vec<Link>,
}

/// A link as the client asked for it.
pub(crate) struct Link {
    pub(crate) id: LinkId,
    /// The client's.
    pub(crate) role: Role,
    /// The node that it leads to or from.
    pub(crate) address: String,
    reply_to: String,
}

impl Links {
    pub(crate) fn add(&mut self, id: LinkId, attach: &Attach) {
        let target = attach.target.as_ref();
        let reply_to = target.and_then(|target| target.address.clone());
        self.links.push(Link {
            id,
            role: attach.role,
            address: address_of(attach).to_owned(),
            reply_to: reply_to.unwrap_or_default(),
        });
    }

    pub(crate) fn remove(&mut self, id: LinkId) {
        self.links.retain(|link| link.id != id);
    }

    /// The first that `is_meant`.
    pub(crate) fn find(&self, is_meant: impl Fn(&Link) -> bool) -> Option<LinkId> {
        let found = self.links.iter().find(|link| is_meant(link));
        found.map(|link| link.id)
    }

    /// Where a link leads to or from; nowhere if it is gone.
    pub(crate) fn address(&self, id: LinkId) -> String {
        let found = self.links.iter().find(|link| link.id == id);
        found.map(|link| link.address.clone()).unwrap_or_default()
    }

    /// Answers a request with these application properties and this body, where the client wants it.
    pub(crate) fn reply(
        &self,
        driver: &mut Driver,
        request: &MessageView<'_>,
        told: &[(&str, Value)],
        body: &Value,
    ) {
        let asked = request.properties().unwrap().unwrap();
        let mut reply = Vec::new();
        Properties { correlation_id: asked.message_id, ..Properties::default() }.encode(&mut reply);
        encode::application_properties(&mut reply, told);
        encode::value(&mut reply, body);
        let reply_to = asked.reply_to.unwrap();
        let link = self.find(|link| link.reply_to == reply_to);
        let delivery = NewDelivery { tag: &[1], format: 0, settled: true };
        let engine = driver.connection();
        let mut sender = engine.sender(link.expect("a link for replies")).unwrap();
        sender.send(&delivery, &[&reply]).unwrap();
    }
}

/// The server's side of a connection, which lets everyone in and no one send without credit.
pub(crate) fn server(stream: Stream, outcome_answers: OutcomeAnswers) -> Driver {
    let config = Config { credit_overrun: CreditOverrun::Detach, outcome_answers, ..Config::default() };
    let verify = SaslServer { verify: Arc::new(|_| true) };
    Driver::new(Connection::server(config, verify, Instant::now()), stream)
}

/// The next report that `pick` takes; those before it are dropped.
pub(crate) async fn next_report<R, T>(
    reports: &mut mpsc::UnboundedReceiver<R>,
    mut pick: impl FnMut(R) -> Option<T>,
) -> T {
    let wait = async {
        loop {
            let report = reports.recv().await.expect("the service runs");
            if let Some(picked) = pick(report) {
                return picked;
            }
        }
    };
    tokio::time::timeout(PATIENCE, wait).await.expect("the service reports what the test waits for")
}

/// The node that a client wants to send to or receive from.
pub(crate) fn address_of(attach: &Attach) -> &str {
    let source = attach.source.as_ref();
    let target = attach.target.as_ref();
    let address = match attach.role {
        Role::Sender => target.and_then(|target| target.address.as_deref()),
        Role::Receiver => source.and_then(|source| source.address.as_deref()),
    };
    address.expect("a client names the node")
}

/// Whether a test that waits for something waits in vain.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);
