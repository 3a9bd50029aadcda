//! The link to receive from: attached, given credit, lost, and made again.

use std::collections::HashMap;

use amqp::connection::LinkOptions;
use amqp::performative::{self, ReceiverSettleMode, SenderSettleMode, Target};
use amqp::{Symbol, Value};

use super::super::locks::State;
use super::{Intake, Link, ServiceBusSource, receipt};
use crate::service::ServiceError;
use crate::service::error::PROTOCOL;
use crate::service_bus::ReceiveOptions;
use crate::sink::ErrorClass;
use crate::source::Settlement;

impl ServiceBusSource {
    pub(super) fn attach(&mut self) -> Result<(), ServiceError> {
        let endpoint = self.connection.endpoint();
        let entity = endpoint.options.entity.clone();
        self.links_attached += 1;
        let name = format!("{}-{entity}-{}", endpoint.container_id, self.links_attached);
        let Some(connection) = self.connection.up() else {
            return Ok(());
        };
        let options = LinkOptions {
            source: performative::Source::new(entity),
            target: Target::new(name.as_str()),
            sender_settle_mode: SenderSettleMode::Unsettled,
            receiver_settle_mode: ReceiverSettleMode::Second,
            properties: vec![(RECEIVER_NAME, Value::from(name.as_str()))],
            name,
            ..LinkOptions::default()
        };
        let session = connection.data();
        let link = connection
            .engine()
            .attach_receiver(session, options)
            .ok_or_else(|| ServiceError::of_connection(PROTOCOL, "the service accepts no more links"))?;
        self.link = Link::Attaching(link);
        Ok(())
    }

    /// Lets the service deliver what there is room for.
    pub(super) fn give_credit(&mut self) {
        let (Link::Attached(link), Intake::Open) = (self.link, self.intake) else {
            return;
        };
        let ReceiveOptions { concurrency, prefetch, .. } = self.receive;
        let taken = self.in_work.saturating_add(self.waiting.len() as u32);
        let entitled = concurrency.saturating_add(prefetch).saturating_sub(taken);
        if let Some(connection) = self.connection.up() {
            let credit = connection.engine().credit(link);
            // Where the service has plenty left, a flow for each answer would be a write for nothing.
            let has_plenty = credit >= PLENTY && credit >= entitled / 2;
            if credit < entitled && !has_plenty {
                connection.engine().set_credit(link, entitled);
            }
        }
    }

    /// The link has ended. An error is one that a new link would meet again.
    pub(super) fn take_detach(&mut self, error: ServiceError) -> Result<(), ServiceError> {
        // Before the first use it is an error of connecting.
        if self.intake == Intake::NotYet {
            return Err(error);
        }
        let error = match self.link {
            Link::Attached(_) if error.is_unauthorized() => return Err(error.of_working_link()),
            _ => error.of_working_client(),
        };
        if error.class == ErrorClass::Fatal {
            return Err(error);
        }
        if self.forward.is_some() {
            // Transactions hold deliveries of this link, and are of the entity whose link comes first.
            return Err(error);
        }
        tracing::debug!(%error, "the receiver link was detached");
        self.link_outage = Some(error.clone());
        self.lose_link();
        self.link_failures = self.link_failures.saturating_add(1);
        let policy = &self.connection.endpoint().options.reconnect;
        let Some(delay) = policy.delay_after(self.link_failures, 1) else {
            return Err(ServiceError::fatal(&error.condition, error.description));
        };
        self.link = Link::BackingOff(tokio::time::Instant::now().into_std() + delay);
        Ok(())
    }

    /// The link is gone: its locks are no longer settled through it.
    pub(super) fn lose_link(&mut self) {
        self.link = Link::Detached;
        if self.intake == Intake::Draining {
            self.intake = Intake::Closed;
        }
        self.waiting.clear();
        self.next_renewal = None;
        self.requests.forget_renewals();
        let due: HashMap<u32, Settlement> = self.due.drain(..).collect();
        self.unanswered = 0;
        self.answers_due = None;
        let now = tokio::time::Instant::now().into_std();
        for (id, lock) in self.locks.take_all().collect::<Vec<_>>() {
            if !lock.in_work {
                continue;
            }
            // A settlement without an answer is sent again through the management node: it may have arrived or not.
            let settlement = match lock.state {
                State::Sent(settlement, _) => Some(settlement),
                State::Held | State::Over => due.get(&id).copied(),
            };
            match settlement {
                Some(settlement) => self.settle_orphan(lock.token, settlement, now),
                None => {
                    let own = receipt(self.generation, id);
                    self.orphans.insert(own.0, lock.token);
                }
            }
        }
        self.generation = self.generation.wrapping_add(1);
    }

    /// The connection is gone, and with it the link.
    pub(super) fn lose(&mut self, error: &ServiceError) {
        tracing::debug!(%error, "there is no connection for receiving");
        // What had been committed before was said in good time.
        self.conclude_transactions(tokio::time::Instant::now().into_std());
        self.connection.lost(error);
        self.requests.lose_links();
        self.lose_link();
        if let Some(forward) = &mut self.forward {
            forward.lose(error);
        }
    }
}

/// Credit that lasts for longer than it takes to give more: more messages than one read brings.
const PLENTY: u32 = 1_024;

/// What the service calls a receiver by in its errors.
const RECEIVER_NAME: Symbol = Symbol::from_static("com.microsoft:receiver-name");
