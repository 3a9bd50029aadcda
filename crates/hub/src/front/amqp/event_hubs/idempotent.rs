//! Producers that want their retries recognised: the answer to their attach.
//!
//! Such a producer is known by an id, an epoch and the number of its last event, and puts them on every event as
//! annotations. What it does not say at its attach, the service assigns; it takes the answer as the state to go on from.
//! The annotations are kept with the events like any others. Retries are not recognised by them: an event that was sent
//! twice is there twice, as for every other producer.

use std::sync::atomic::{AtomicI64, Ordering};

use amqp::codec::{Symbol, Value};
use amqp::connection::LinkAcceptance;
use amqp::performative::Attach;

/// The producers of one service.
#[derive(Debug, Default)]
pub(crate) struct IdempotentProducers {
    /// How many ids have been assigned.
    assigned: AtomicI64,
}

impl IdempotentProducers {
    /// Adds to `acceptance` what a producer is answered that asks to be an idempotent one.
    pub(crate) fn answer(&self, attach: &Attach, acceptance: &mut LinkAcceptance) {
        if !attach.desired_capabilities.contains(&CAPABILITY) {
            return;
        }
        let given = |name: &str| attach.property(name).and_then(Value::as_integer);
        let id = given(ID).unwrap_or_else(|| self.assigned.fetch_add(1, Ordering::Relaxed));
        let epoch = given(EPOCH).and_then(|epoch| i16::try_from(epoch).ok());
        let number = given(NUMBER).and_then(|number| i32::try_from(number).ok());
        acceptance.offered_capabilities.push(CAPABILITY);
        acceptance.properties.extend([
            (Symbol::from_static(ID), Value::Long(id)),
            (Symbol::from_static(EPOCH), Value::Short(epoch.unwrap_or(0))),
            (Symbol::from_static(NUMBER), Value::Int(number.unwrap_or(0))),
        ]);
    }
}

const CAPABILITY: Symbol = Symbol::from_static("com.microsoft:idempotent-producer");
const ID: &str = "com.microsoft:producer-id";
const EPOCH: &str = "com.microsoft:producer-epoch";
const NUMBER: &str = "com.microsoft:producer-sequence-number";
