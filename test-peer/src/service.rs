//! The server's side of a connection with its links, and how a test waits for a service's reports.

use std::sync::Arc;
use std::time::Instant;

use amqp::connection::{Config, CreditOverrun, LinkId, NewDelivery, OutcomeAnswers, SaslServer};
use amqp::message::{MessageView, Properties, encode};
use amqp::performative::{Attach, Role};
use amqp::{Connection, Value};
use amqp_tokio::{Driver, Stream};
use tokio::sync::mpsc;

use crate::within;

/// The links of one connection.
#[derive(Debug, Default)]
pub struct Links {
    links: Vec<Link>,
}

/// A link as the client asked for it.
#[derive(Debug)]
pub struct Link {
    /// How the engine knows it.
    pub id: LinkId,
    /// The client's.
    pub role: Role,
    /// The node that it leads to or from.
    pub address: String,
    reply_to: String,
}

impl Links {
    /// A link that was accepted.
    pub fn add(&mut self, id: LinkId, attach: &Attach) {
        let target = attach.target.as_ref();
        let reply_to = target.and_then(|target| target.address.clone());
        self.links.push(Link {
            id,
            role: attach.role,
            address: address_of(attach).to_owned(),
            reply_to: reply_to.unwrap_or_default(),
        });
    }

    /// A link that is gone.
    pub fn remove(&mut self, id: LinkId) {
        self.links.retain(|link| link.id != id);
    }

    /// The first that `is_meant`.
    #[must_use]
    pub fn find(&self, is_meant: impl Fn(&Link) -> bool) -> Option<LinkId> {
        let found = self.links.iter().find(|link| is_meant(link));
        found.map(|link| link.id)
    }

    /// Where a link leads to or from; nowhere if it is gone.
    #[must_use]
    pub fn address(&self, id: LinkId) -> String {
        let found = self.links.iter().find(|link| link.id == id);
        found.map(|link| link.address.clone()).unwrap_or_default()
    }

    /// Answers a request with these application properties and this body, where the client wants it.
    pub fn reply(
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
#[must_use]
pub fn server(stream: Stream, outcome_answers: OutcomeAnswers) -> Driver {
    let config = Config { credit_overrun: CreditOverrun::Detach, outcome_answers, ..Config::default() };
    let verify = SaslServer { verify: Arc::new(|_| true) };
    Driver::new(Connection::server(config, verify, Instant::now()), stream)
}

/// The next report that `pick` takes; those before it are dropped.
pub async fn next_report<R, T>(
    reports: &mut mpsc::UnboundedReceiver<R>,
    mut pick: impl FnMut(R) -> Option<T>,
) -> T {
    within("the report that the test waits for", async {
        loop {
            let report = reports.recv().await.expect("the service runs");
            if let Some(picked) = pick(report) {
                return picked;
            }
        }
    })
    .await
}

/// The node that a client wants to send to or receive from.
#[must_use]
pub fn address_of(attach: &Attach) -> &str {
    let source = attach.source.as_ref();
    let target = attach.target.as_ref();
    let address = match attach.role {
        Role::Sender => target.and_then(|target| target.address.as_deref()),
        Role::Receiver => source.and_then(|source| source.address.as_deref()),
    };
    address.expect("a client names the node")
}
