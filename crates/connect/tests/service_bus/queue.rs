//! The queue behind the service: its messages, their locks, and what the test wants of it.

use std::time::{Duration, SystemTime};

use amqp::performative::{DeliveryState, Error};
use amqp::{Symbol, Value};

/// What all connections work with.
pub(crate) struct Shared {
    pub(crate) messages: Vec<Message>,
    /// For how long locks are given.
    pub(crate) lock_duration: Duration,
    /// Whether settlements are answered.
    pub(crate) answers: bool,
    /// Refuses links to these addresses with this.
    pub(crate) refusals: Vec<(String, Error)>,
    /// What becomes of messages that are sent, one each; accepted without one.
    pub(crate) outcomes: Vec<Option<DeliveryState>>,
    /// Credit that links to send get.
    pub(crate) credit: u32,
    /// How many locks were given.
    pub(crate) locks: u64,
}

pub(crate) struct Message {
    pub(crate) sections: Vec<u8>,
    /// The lock that it is under.
    pub(crate) lock: Option<[u8; 16]>,
    pub(crate) is_settled: bool,
    pub(crate) delivery_count: u32,
}

impl Shared {
    /// An empty queue whose locks last a minute.
    pub(crate) fn new() -> Self {
        Self {
            messages: Vec::new(),
            lock_duration: Duration::from_secs(60),
            answers: true,
            refusals: Vec::new(),
            outcomes: Vec::new(),
            credit: 100,
            locks: 0,
        }
    }

    /// Says whether the lock was held.
    pub(crate) fn settle(&mut self, number: usize, token: [u8; 16], state: &DeliveryState) -> bool {
        let message = &mut self.messages[number];
        if message.lock != Some(token) || message.is_settled {
            return false;
        }
        message.lock = None;
        match state {
            DeliveryState::Accepted | DeliveryState::Rejected(_) => message.is_settled = true,
            DeliveryState::Modified { .. } => message.delivery_count += 1,
            DeliveryState::Released
            | DeliveryState::Received
            | DeliveryState::Declared(_)
            | DeliveryState::Transactional { .. } => {}
        }
        true
    }

    /// The message that is locked under this name.
    pub(crate) fn number_of(&self, uuid: &[u8; 16]) -> Option<(usize, [u8; 16])> {
        let mut token = *uuid;
        token[..4].reverse();
        token[4..6].reverse();
        token[6..8].reverse();
        let locked = |message: &Message| message.lock == Some(token);
        Some((self.messages.iter().position(locked)?, token))
    }
}

/// The name of the lock of this number.
pub(crate) fn token(number: u64) -> [u8; 16] {
    let mut token = [0x11; 16];
    token[..8].copy_from_slice(&number.to_be_bytes());
    token
}

/// A header of four nulls and a delivery count.
pub(crate) fn header(delivery_count: u32) -> Vec<u8> {
    let mut header = b"\x00\x53\x70\xc0\x07\x05\x40\x40\x40\x40\x52".to_vec();
    header.push(u8::try_from(delivery_count).unwrap());
    header
}

/// What the service says of a message of this number.
pub(crate) fn annotations(number: i64, lock_duration: Duration) -> Vec<(Symbol, Value)> {
    vec![
        (Symbol::from("x-opt-sequence-number"), Value::Long(number)),
        (Symbol::from("x-opt-enqueued-time"), Value::Timestamp(1_700_000_000_000)),
        (Symbol::from("x-opt-locked-until"), Value::Timestamp(unix_ms(lock_duration))),
    ]
}

/// The instant that lies so far ahead.
pub(crate) fn unix_ms(ahead: Duration) -> i64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    i64::try_from((since.unwrap() + ahead).as_millis()).unwrap()
}

/// The error for who settles without the lock.
pub(crate) fn lock_lost() -> Error {
    Error::new(Symbol::from(LOCK_LOST).into(), "the lock is lost")
}

/// What a settlement is answered whose lock is lost.
pub(crate) const LOCK_LOST: &str = "com.microsoft:message-lock-lost";
