//! What is asked of the entity's `$management` node: that locks hold longer, and settlements of messages whose link is gone.
//!
//! One order is under way at a time. Renewals go first, and one for several locks that is refused is asked for in halves,
//! until it is known which of them are lost. Settlements are asked for one by one, since a service that refuses one for
//! several may have done a part of it.

use std::collections::VecDeque;
use std::time::{Duration, Instant, SystemTime};

use amqp::Value;
use amqp::connection::{Deliveries, Delivery, LinkId};
use amqp::performative::ErrorCondition;

use super::locks::LockToken;
use crate::service::{Reply, Request, RequestPair, ServiceConnection, ServiceError};
use crate::source::{Settled, Settlement, SettlementResult};

/// Orders, one after the other.
#[derive(Debug)]
pub(super) struct Orders {
    node: String,
    /// How long an answer may take.
    patience: Duration,
    links: Option<RequestPair>,
    queue: VecDeque<Order>,
    under_way: Option<UnderWay>,
    done: VecDeque<Done>,
}

/// What is asked for.
#[derive(Clone, Debug)]
pub(super) enum Order {
    /// Locks of the present link, by delivery id.
    Renew(Vec<(u32, LockToken)>),
    /// A lock of a link that is gone.
    Settle { settlement: Settlement, token: LockToken, since: Instant },
}

#[derive(Debug)]
struct UnderWay {
    order: Order,
    /// None until there was credit to send it.
    request: Option<i64>,
    deadline: Instant,
}

/// What has come of an order.
#[derive(Debug)]
pub(super) enum Done {
    /// Locks hold for so long from now on.
    Renewed(Vec<(u32, Duration)>),
    /// So many locks do not hold longer.
    NotRenewed(u32),
    Settled(Settled),
}

impl Orders {
    pub(super) fn new(entity: &str, patience: Duration) -> Self {
        Self {
            node: format!("{entity}/$management"),
            patience,
            links: None,
            queue: VecDeque::new(),
            under_way: None,
            done: VecDeque::new(),
        }
    }

    pub(super) fn push(&mut self, order: Order) {
        match order {
            Order::Renew(_) => self.queue.push_front(order),
            Order::Settle { .. } => self.queue.push_back(order),
        }
    }

    /// Whether nothing is asked for.
    pub(super) fn is_idle(&self) -> bool {
        self.queue.is_empty() && self.under_way.is_none() && self.done.is_empty()
    }

    pub(super) fn pop_done(&mut self) -> Option<Done> {
        self.done.pop_front()
    }

    /// When an answer is overdue.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.under_way.as_ref().map(|under_way| under_way.deadline)
    }

    /// Sends the next order if none is under way, and gives up one whose answer is overdue.
    ///
    /// # Errors
    /// When there is no room for the links.
    pub(super) fn advance(
        &mut self,
        connection: &mut ServiceConnection,
        now: Instant,
    ) -> Result<(), ServiceError> {
        if let Some(under_way) = self.under_way.take_if(|under_way| under_way.deadline <= now) {
            self.fail(under_way.order, SettlementResult::Failed, now);
        }
        if self.under_way.is_none()
            && let Some(order) = self.queue.pop_front()
        {
            self.under_way = Some(UnderWay { order, request: None, deadline: now + self.patience });
        }
        let Some(under_way) = self.under_way.as_mut().filter(|under_way| under_way.request.is_none()) else {
            return Ok(());
        };
        let links = match &mut self.links {
            Some(links) => links,
            none => none.insert(connection.attach_requests(&self.node)?),
        };
        // Refused until there is credit.
        let request = under_way.order.request(self.patience);
        under_way.request = links.send(connection.engine(), &request).ok();
        Ok(())
    }

    /// Takes a delivery, if it is a reply of the node.
    pub(super) fn take_reply(
        &mut self,
        connection: &mut ServiceConnection,
        deliveries: &Deliveries,
        delivery: &Delivery,
        now: Instant,
    ) -> bool {
        let reply =
            self.links.as_ref().and_then(|links| links.reply(connection.engine(), deliveries, delivery));
        let Some(reply) = reply else {
            return false;
        };
        let answered = |under_way: &mut UnderWay| match &reply {
            Ok(reply) => under_way.request.is_some() && reply.id == under_way.request,
            // What it was about cannot be read either.
            Err(_) => true,
        };
        if let Some(under_way) = self.under_way.take_if(answered) {
            match reply.and_then(Reply::into_body) {
                Ok(body) => self.succeed(under_way.order, body.as_ref(), now),
                Err(error) => {
                    tracing::debug!(%error, "the management node refuses");
                    let is = |condition: ErrorCondition| error.condition == condition.as_str();
                    let is_lost =
                        is(ErrorCondition::MESSAGE_LOCK_LOST) || is(ErrorCondition::MESSAGE_NOT_FOUND);
                    let result = match is_lost {
                        true => SettlementResult::LockLost,
                        false => SettlementResult::Failed,
                    };
                    self.fail(under_way.order, result, now);
                }
            }
        }
        true
    }

    /// Whether a link is one to the node.
    pub(super) fn has(&self, link: LinkId) -> bool {
        self.links.as_ref().is_some_and(|links| links.has(link))
    }

    /// The node has ended the links: what is under way has failed. The next order tries anew.
    pub(super) fn take_detach(&mut self, now: Instant) {
        self.links = None;
        match self.under_way.take().map(|under_way| under_way.order) {
            Some(Order::Renew(locks)) => {
                self.done.push_back(Done::NotRenewed(locks.len() as u32));
            }
            Some(order) => self.fail(order, SettlementResult::Failed, now),
            None => {}
        }
    }

    /// The connection is gone. What is under way is asked for again on the next one.
    pub(super) fn lose_links(&mut self) {
        self.links = None;
        if let Some(under_way) = self.under_way.take() {
            self.queue.push_front(under_way.order);
        }
    }

    /// The link whose locks were to be renewed is gone.
    pub(super) fn forget_renewals(&mut self) {
        self.queue.retain(|order| matches!(order, Order::Settle { .. }));
        self.under_way.take_if(|under_way| matches!(under_way.order, Order::Renew(_)));
        self.done.retain(|done| matches!(done, Done::Settled(_)));
    }

    fn succeed(&mut self, order: Order, body: Option<&Value>, now: Instant) {
        match order {
            Order::Renew(locks) => {
                let remaining = expirations(body).unwrap_or_default();
                // A lock of which the reply says nothing was not renewed.
                let missing = locks.len().saturating_sub(remaining.len());
                let renewed = locks.iter().map(|(id, _)| *id).zip(remaining).collect();
                self.done.push_back(Done::Renewed(renewed));
                if missing > 0 {
                    self.done.push_back(Done::NotRenewed(missing as u32));
                }
            }
            Order::Settle { settlement, since, .. } => {
                self.settled(settlement, SettlementResult::Confirmed, now - since)
            }
        }
    }

    fn fail(&mut self, order: Order, result: SettlementResult, now: Instant) {
        match order {
            Order::Renew(mut locks) if locks.len() > 1 => {
                let half = locks.split_off(locks.len() / 2);
                self.queue.push_front(Order::Renew(half));
                self.queue.push_front(Order::Renew(locks));
            }
            Order::Renew(locks) => self.done.push_back(Done::NotRenewed(locks.len() as u32)),
            Order::Settle { settlement, since, .. } => self.settled(settlement, result, now - since),
        }
    }

    fn settled(&mut self, settlement: Settlement, result: SettlementResult, elapsed: Duration) {
        self.done.push_back(Done::Settled(Settled { settlement, messages: 1, result, elapsed }));
    }
}

impl Order {
    fn request(&self, patience: Duration) -> Request<'static> {
        let tokens = |tokens: &mut dyn Iterator<Item = &LockToken>| {
            let tokens = tokens.map(|token| Value::Uuid(uuid_of(token))).collect();
            (Value::from("lock-tokens"), Value::Array(tokens))
        };
        let (operation, body) = match self {
            Self::Renew(locks) => {
                ("com.microsoft:renew-lock", vec![tokens(&mut locks.iter().map(|(_, token)| token))])
            }
            Self::Settle { settlement, token, .. } => {
                let status = match settlement {
                    Settlement::Complete => "completed",
                    Settlement::DeadLetter => "suspended",
                    // There is no way to give a message back without counting it.
                    Settlement::Abandon | Settlement::Release => "abandoned",
                };
                let status = (Value::from("disposition-status"), Value::from(status));
                ("com.microsoft:update-disposition", vec![status, tokens(&mut std::iter::once(token))])
            }
        };
        let patience_ms = u32::try_from(patience.as_millis()).unwrap_or(u32::MAX);
        Request {
            properties: vec![
                ("operation", Value::from(operation)),
                ("com.microsoft:server-timeout", Value::Uint(patience_ms)),
            ],
            body: Some(Value::Map(body)),
        }
    }
}

/// For how long each lock of a reply holds.
fn expirations(body: Option<&Value>) -> Option<Vec<Duration>> {
    let (Value::Array(expirations) | Value::List(expirations)) = body?.get("expirations")? else {
        return None;
    };
    let now_ms = unix_ms();
    expirations.iter().map(|expiration| Some(remaining(expiration.as_integer()?, now_ms))).collect()
}

/// How long it is until an instant of the service's clock, which is taken to be ours.
pub(super) fn remaining(until_ms: i64, now_ms: i64) -> Duration {
    // Bounded, so that it can be added to any instant.
    let milliseconds = until_ms.saturating_sub(now_ms).clamp(0, DAY_MS);
    Duration::from_millis(milliseconds.cast_unsigned())
}

/// Milliseconds since the Unix epoch.
pub(super) fn unix_ms() -> i64 {
    SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .ok()
        .and_then(|since| i64::try_from(since.as_millis()).ok())
        .unwrap_or(0)
}

/// A lock token as the management node spells it. Delivery tags have the first three groups of the UUID in the byte order
/// of .NET.
fn uuid_of(token: &LockToken) -> [u8; 16] {
    let mut uuid = *token;
    uuid[..4].reverse();
    uuid[4..6].reverse();
    uuid[6..8].reverse();
    uuid
}

const DAY_MS: i64 = 24 * 60 * 60 * 1_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_spelled_as_a_uuid() {
        let tag = b"\x33\x22\x11\x00\x55\x44\x77\x66\x88\x99\xaa\xbb\xcc\xdd\xee\xff";
        let uuid = b"\x00\x11\x22\x33\x44\x55\x66\x77\x88\x99\xaa\xbb\xcc\xdd\xee\xff";
        assert_eq!(uuid_of(tag), *uuid);
    }

    #[test]
    fn a_refused_renewal_is_asked_for_in_halves_until_it_is_known_who_is_lost() {
        let now = Instant::now();
        let mut orders = Orders::new("queue", Duration::from_secs(1));
        orders.push(Order::Renew(vec![(1, [1; 16]), (2, [2; 16]), (3, [3; 16])]));
        while let Some(order) = orders.queue.pop_front() {
            let Order::Renew(locks) = &order else { panic!("a renewal is under way, not {order:?}") };
            let expirations = locks.iter().map(|_| Value::Timestamp(unix_ms())).collect();
            let expirations = (Value::from("expirations"), Value::Array(expirations));
            let body = Value::Map(vec![expirations]);
            match locks.iter().any(|(id, _)| *id == 2) {
                true => orders.fail(order, SettlementResult::LockLost, now),
                false => orders.succeed(order, Some(&body), now),
            }
        }
        let (mut renewed, mut failed) = (Vec::new(), 0);
        while let Some(done) = orders.pop_done() {
            match done {
                Done::Renewed(locks) => renewed.extend(locks.iter().map(|(id, _)| *id)),
                Done::NotRenewed(locks) => failed += locks,
                Done::Settled(settled) => panic!("nothing was settled: {settled:?}"),
            }
        }
        renewed.sort_unstable();
        assert_eq!((renewed, failed), (vec![1, 3], 1));
        assert!(orders.is_idle());
    }

    #[test]
    fn a_lock_without_expiration_counts_as_not_renewed() {
        let now = Instant::now();
        let mut orders = Orders::new("queue", Duration::from_secs(1));
        let expirations = Value::Array(vec![Value::Timestamp(unix_ms() + 60_000)]);
        let body = Value::Map(vec![(Value::from("expirations"), expirations)]);
        let renew = Order::Renew(vec![(4, [1; 16]), (5, [2; 16])]);
        orders.succeed(renew, Some(&body), now);
        let Some(Done::Renewed(renewed)) = orders.pop_done() else { panic!("one is renewed") };
        assert_eq!(renewed[0].0, 4);
        assert!(matches!(orders.pop_done(), Some(Done::NotRenewed(1))));
    }
}
