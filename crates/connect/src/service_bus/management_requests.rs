//! Requests to the entity's `$management` node: lock renewals, and settlements of messages whose link is gone.
//!
//! One request is in flight at a time. Renewals go first. A refused renewal of several locks is repeated in halves until
//! the lost ones are known. Settlements go one by one, because a service that refuses several at once may have carried
//! out some of them.

use std::collections::VecDeque;
use std::time::{Duration, Instant, SystemTime};

use amqp::Value;
use amqp::connection::{Deliveries, Delivery, LinkId};
use amqp::performative::ErrorCondition;

use super::locks::LockToken;
use crate::service::{Reply, Request, RequestPair, ServiceConnection, ServiceError};
use crate::source::{Settled, Settlement, SettlementResult};

/// Sends the requests one after the other.
#[derive(Debug)]
pub(super) struct ManagementRequests {
    node: String,
    /// How long an answer may take.
    timeout: Duration,
    links: Option<RequestPair>,
    queue: VecDeque<ManagementRequest>,
    in_flight: Option<InFlight>,
    outcomes: VecDeque<Outcome>,
}

/// One request.
#[derive(Clone, Debug)]
pub(super) enum ManagementRequest {
    /// Locks of the present link, by delivery id.
    Renew(Vec<(u32, LockToken)>),
    /// A message whose link is gone.
    Settle { settlement: Settlement, token: LockToken, since: Instant },
}

#[derive(Debug)]
struct InFlight {
    request: ManagementRequest,
    /// `None` until there was credit to send it.
    message_id: Option<i64>,
    deadline: Instant,
}

/// The result of a request.
#[derive(Debug)]
pub(super) enum Outcome {
    /// The locks now hold for this long.
    Renewed(Vec<(u32, Duration)>),
    /// How many locks were not renewed.
    NotRenewed(u32),
    Settled(Settled),
}

impl ManagementRequests {
    pub(super) fn new(entity: &str, timeout: Duration) -> Self {
        Self {
            node: format!("{entity}/$management"),
            timeout,
            links: None,
            queue: VecDeque::new(),
            in_flight: None,
            outcomes: VecDeque::new(),
        }
    }

    pub(super) fn push(&mut self, request: ManagementRequest) {
        match request {
            ManagementRequest::Renew(_) => self.queue.push_front(request),
            ManagementRequest::Settle { .. } => self.queue.push_back(request),
        }
    }

    /// Whether no request waits and every result was taken.
    pub(super) fn is_idle(&self) -> bool {
        self.queue.is_empty() && self.in_flight.is_none() && self.outcomes.is_empty()
    }

    pub(super) fn pop_outcome(&mut self) -> Option<Outcome> {
        self.outcomes.pop_front()
    }

    /// When an answer is overdue.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.in_flight.as_ref().map(|in_flight| in_flight.deadline)
    }

    /// Sends the next request if none is in flight, and gives up the one whose answer is overdue.
    ///
    /// # Errors
    /// When there is no room for the links.
    pub(super) fn advance(
        &mut self,
        connection: &mut ServiceConnection,
        now: Instant,
    ) -> Result<(), ServiceError> {
        if let Some(in_flight) = self.in_flight.take_if(|in_flight| in_flight.deadline <= now) {
            self.fail(in_flight.request, SettlementResult::Failed, now);
        }
        if self.in_flight.is_none()
            && let Some(request) = self.queue.pop_front()
        {
            self.in_flight = Some(InFlight { request, message_id: None, deadline: now + self.timeout });
        }
        let Some(in_flight) = self.in_flight.as_mut().filter(|in_flight| in_flight.message_id.is_none())
        else {
            return Ok(());
        };
        let links = match &mut self.links {
            Some(links) => links,
            none => none.insert(connection.attach_requests(&self.node)?),
        };
        // Refused until there is credit.
        let message = in_flight.request.message(self.timeout);
        in_flight.message_id = links.send(connection.engine(), &message).ok();
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
        let answered = |in_flight: &mut InFlight| match &reply {
            Ok(reply) => in_flight.message_id.is_some() && reply.id == in_flight.message_id,
            // What it was about cannot be read either.
            Err(_) => true,
        };
        if let Some(in_flight) = self.in_flight.take_if(answered) {
            match reply.and_then(Reply::into_body) {
                Ok(body) => self.succeed(in_flight.request, body.as_ref(), now),
                Err(error) => {
                    tracing::debug!(%error, "the management node refused a request");
                    let is = |condition: ErrorCondition| error.condition == condition.as_str();
                    let is_lost =
                        is(ErrorCondition::MESSAGE_LOCK_LOST) || is(ErrorCondition::MESSAGE_NOT_FOUND);
                    let result = match is_lost {
                        true => SettlementResult::LockLost,
                        false => SettlementResult::Failed,
                    };
                    self.fail(in_flight.request, result, now);
                }
            }
        }
        true
    }

    /// Whether a link is one to the node.
    pub(super) fn has(&self, link: LinkId) -> bool {
        self.links.as_ref().is_some_and(|links| links.has(link))
    }

    /// The node has ended the links, so the request in flight has failed. The next one attaches new links.
    pub(super) fn take_detach(&mut self, now: Instant) {
        self.links = None;
        match self.in_flight.take().map(|in_flight| in_flight.request) {
            Some(ManagementRequest::Renew(locks)) => {
                self.outcomes.push_back(Outcome::NotRenewed(locks.len() as u32));
            }
            Some(request) => self.fail(request, SettlementResult::Failed, now),
            None => {}
        }
    }

    /// The connection is gone. The request in flight is sent again on the next one.
    pub(super) fn lose_links(&mut self) {
        self.links = None;
        if let Some(in_flight) = self.in_flight.take() {
            self.queue.push_front(in_flight.request);
        }
    }

    /// The link whose locks were to be renewed is gone.
    pub(super) fn forget_renewals(&mut self) {
        self.queue.retain(|request| matches!(request, ManagementRequest::Settle { .. }));
        self.in_flight.take_if(|in_flight| matches!(in_flight.request, ManagementRequest::Renew(_)));
        self.outcomes.retain(|outcome| matches!(outcome, Outcome::Settled(_)));
    }

    fn succeed(&mut self, request: ManagementRequest, body: Option<&Value>, now: Instant) {
        match request {
            ManagementRequest::Renew(locks) => {
                let remaining = expirations(body).unwrap_or_default();
                // A lock of which the reply says nothing was not renewed.
                let missing = locks.len().saturating_sub(remaining.len());
                let renewed = locks.iter().map(|(id, _)| *id).zip(remaining).collect();
                self.outcomes.push_back(Outcome::Renewed(renewed));
                if missing > 0 {
                    self.outcomes.push_back(Outcome::NotRenewed(missing as u32));
                }
            }
            ManagementRequest::Settle { settlement, since, .. } => {
                self.settled(settlement, SettlementResult::Confirmed, now - since)
            }
        }
    }

    fn fail(&mut self, request: ManagementRequest, result: SettlementResult, now: Instant) {
        match request {
            ManagementRequest::Renew(mut locks) if locks.len() > 1 => {
                let half = locks.split_off(locks.len() / 2);
                self.queue.push_front(ManagementRequest::Renew(half));
                self.queue.push_front(ManagementRequest::Renew(locks));
            }
            ManagementRequest::Renew(locks) => {
                self.outcomes.push_back(Outcome::NotRenewed(locks.len() as u32))
            }
            ManagementRequest::Settle { settlement, since, .. } => {
                self.settled(settlement, result, now - since)
            }
        }
    }

    fn settled(&mut self, settlement: Settlement, result: SettlementResult, elapsed: Duration) {
        self.outcomes.push_back(Outcome::Settled(Settled { settlement, messages: 1, result, elapsed }));
    }
}

impl ManagementRequest {
    fn message(&self, timeout: Duration) -> Request<'static> {
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
        let timeout_ms = u32::try_from(timeout.as_millis()).unwrap_or(u32::MAX);
        Request {
            properties: vec![
                ("operation", Value::from(operation)),
                ("com.microsoft:server-timeout", Value::Uint(timeout_ms)),
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
    fn a_refused_renewal_is_repeated_in_halves_until_the_lost_locks_are_known() {
        let now = Instant::now();
        let mut requests = ManagementRequests::new("queue", Duration::from_secs(1));
        requests.push(ManagementRequest::Renew(vec![(1, [1; 16]), (2, [2; 16]), (3, [3; 16])]));
        while let Some(request) = requests.queue.pop_front() {
            let ManagementRequest::Renew(locks) = &request else {
                panic!("a renewal is queued, not {request:?}")
            };
            let expirations = locks.iter().map(|_| Value::Timestamp(unix_ms())).collect();
            let expirations = (Value::from("expirations"), Value::Array(expirations));
            let body = Value::Map(vec![expirations]);
            match locks.iter().any(|(id, _)| *id == 2) {
                true => requests.fail(request, SettlementResult::LockLost, now),
                false => requests.succeed(request, Some(&body), now),
            }
        }
        let (mut renewed, mut failed) = (Vec::new(), 0);
        while let Some(outcome) = requests.pop_outcome() {
            match outcome {
                Outcome::Renewed(locks) => renewed.extend(locks.iter().map(|(id, _)| *id)),
                Outcome::NotRenewed(locks) => failed += locks,
                Outcome::Settled(settled) => panic!("nothing was settled: {settled:?}"),
            }
        }
        renewed.sort_unstable();
        assert_eq!((renewed, failed), (vec![1, 3], 1));
        assert!(requests.is_idle());
    }

    #[test]
    fn a_lock_without_expiration_counts_as_not_renewed() {
        let now = Instant::now();
        let mut requests = ManagementRequests::new("queue", Duration::from_secs(1));
        let expirations = Value::Array(vec![Value::Timestamp(unix_ms() + 60_000)]);
        let body = Value::Map(vec![(Value::from("expirations"), expirations)]);
        let renew = ManagementRequest::Renew(vec![(4, [1; 16]), (5, [2; 16])]);
        requests.succeed(renew, Some(&body), now);
        let Some(Outcome::Renewed(renewed)) = requests.pop_outcome() else { panic!("one is renewed") };
        assert_eq!(renewed[0].0, 4);
        assert!(matches!(requests.pop_outcome(), Some(Outcome::NotRenewed(1))));
    }
}
