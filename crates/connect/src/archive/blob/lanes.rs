//! Connections, each with one request under way.

use std::collections::VecDeque;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use super::account::Account;
use super::bells::Bells;
use super::refusal::judge;
use super::request::{BlobRequest, Heads};
use crate::alarm::Alarm;
use crate::archive::options::BlobPlace;
use crate::deadline_queue::DeadlineQueue;
use crate::http::{HttpConnection, HttpFailure};
use crate::identity::FollowedToken;
use crate::retry::RetryPolicy;
use crate::service::ServiceError;
use crate::service::error::{LOST, TIMEOUT};

/// See the module.
pub(in crate::archive) struct BlobLanes {
    account: Arc<Account>,
    /// The tokens of an identity, if it is one that writes.
    bearer: Option<FollowedToken>,
    lanes: Vec<Lane>,
    /// Lanes without a request; the one that was used last is used next.
    idle: Vec<u32>,
    bells: Bells,
    /// Until when answers are waited for.
    deadlines: DeadlineQueue,
    alarm: Alarm,
    waiting: VecDeque<BlobRequest>,
    /// Requests that are over, for those to come.
    free: Vec<BlobRequest>,
    reconnect: RetryPolicy,
    /// Why there was no connection, until there is one.
    outage: Option<ServiceError>,
}

/// A request that is over: granted, or not.
pub(in crate::archive) type Done = (BlobRequest, Result<(), HttpFailure>);

#[derive(Default)]
struct Lane {
    connection: Option<HttpConnection>,
    /// The connection that is being made.
    opening: Option<Opening>,
    request: Option<BlobRequest>,
    /// Whether the connection was made for this request.
    is_fresh: bool,
    /// How often in a row there was no answer, and until when no connection is made for that reason.
    failures: u32,
    not_before: Option<Instant>,
}

type Opening = Pin<Box<dyn Future<Output = Result<HttpConnection, ServiceError>> + Send>>;

impl BlobLanes {
    /// As many connections as `concurrency` says, each made when it is needed. Made within a tokio runtime with time.
    ///
    /// # Errors
    /// When certificates can't be read, or the endpoint is none.
    pub(in crate::archive) fn new(
        place: &BlobPlace,
        concurrency: usize,
        bearer: Option<FollowedToken>,
    ) -> Result<Self, ServiceError> {
        let count = concurrency.max(1);
        Ok(Self {
            account: Arc::new(Account::of(place)?),
            bearer,
            lanes: (0..count).map(|_| Lane::default()).collect(),
            // Connections are counted in 32 bits.
            idle: (0..count as u32).rev().collect(),
            bells: Bells::new(count),
            deadlines: DeadlineQueue::new(),
            alarm: Alarm::new(),
            waiting: VecDeque::new(),
            free: Vec::new(),
            reconnect: RetryPolicy {
                attempts: u32::MAX,
                delay: Duration::from_millis(200),
                max_delay: Duration::from_secs(10),
                jitter: 0.5,
                ..RetryPolicy::default()
            },
            outage: None,
        })
    }

    pub(in crate::archive) fn heads(&self) -> Heads {
        Heads::new(Arc::clone(&self.account), self.bearer.clone())
    }

    /// Requests for which there is no connection yet.
    pub(in crate::archive) fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Memory for a request.
    pub(in crate::archive) fn empty_request(&mut self) -> BlobRequest {
        self.free.pop().unwrap_or_default()
    }

    /// A request is over, and its memory is for another one.
    pub(in crate::archive) fn recycle(&mut self, request: BlobRequest) {
        // One large event must not hold memory for ever.
        if request.bytes.capacity() <= KEPT_BYTES_MAX {
            self.free.push(request);
        }
    }

    /// A request is to be made.
    pub(in crate::archive) fn submit(&mut self, request: BlobRequest) {
        self.waiting.push_back(request);
    }

    pub(in crate::archive) const fn outage(&self) -> Option<&ServiceError> {
        self.outage.as_ref()
    }

    /// Makes requests, and takes the answers that have come. The task is woken when there is more to do.
    pub(in crate::archive) fn drive(&mut self, context: &mut Context<'_>, done: &mut Vec<Done>) {
        self.bells.listen(context);
        let now = tokio::time::Instant::now().into_std();
        while let Some(number) = self.deadlines.pop_due(now) {
            self.time_out(number, now, done);
        }
        loop {
            while !self.waiting.is_empty()
                && let Some(number) = self.idle.pop()
            {
                let lane = &mut self.lanes[number as usize];
                lane.request = self.waiting.pop_front();
                lane.is_fresh = false;
                self.deadlines.push(number, now + self.account.timeout);
                self.poll_lane(number, now, done);
            }
            let Some(number) = self.bells.next() else { break };
            self.poll_lane(number, now, done);
        }
        // A deadline that is put off costs no timer: the alarm may ring early.
        while let Poll::Ready(()) =
            self.alarm.poll(context, self.deadlines.next_deadline().map(tokio::time::Instant::from_std))
        {
            let now = tokio::time::Instant::now().into_std();
            let Some(number) = self.deadlines.pop_due(now) else { continue };
            self.time_out(number, now, done);
            context.waker().wake_by_ref();
        }
    }

    /// Goes on with the request of a lane.
    fn poll_lane(&mut self, number: u32, now: Instant, done: &mut Vec<Done>) {
        let waker = self.bells.waker(number).clone();
        let mut context = Context::from_waker(&waker);
        let lane = &mut self.lanes[number as usize];
        loop {
            let Some(request) = &lane.request else { return };
            if let Some(opening) = &mut lane.opening {
                match opening.as_mut().poll(&mut context) {
                    Poll::Pending => return,
                    Poll::Ready(opened) => {
                        lane.opening = None;
                        match opened {
                            Ok(connection) => (lane.connection, lane.is_fresh) = (Some(connection), true),
                            Err(error) => {
                                let failure = HttpFailure { error, is_refused: false, is_sent: false };
                                return self.end(number, now, Err(failure), done);
                            }
                        }
                    }
                }
            }
            let Some(connection) = &mut lane.connection else {
                lane.opening = Some(Box::pin(open(Arc::clone(&self.account), lane.not_before.take())));
                continue;
            };
            let Poll::Ready(result) = connection.poll_exchange(&mut context, &request.bytes) else { return };
            if connection.is_over() {
                lane.connection = None;
            }
            // One that the service had closed in the meantime is replaced, since nothing has left.
            if !lane.is_fresh && result.as_ref().is_err_and(|failure| !failure.is_sent) {
                continue;
            }
            return self.end(number, now, result, done);
        }
    }

    fn time_out(&mut self, number: u32, now: Instant, done: &mut Vec<Done>) {
        let lane = &mut self.lanes[number as usize];
        (lane.connection, lane.opening) = (None, None);
        let error = ServiceError::of_connection(
            TIMEOUT,
            format!("blob storage did not answer within {:?}", self.account.timeout),
        );
        self.end(number, now, Err(HttpFailure { error, is_refused: false, is_sent: true }), done);
    }

    /// The request of a lane is over.
    fn end(&mut self, number: u32, now: Instant, result: Result<(), HttpFailure>, done: &mut Vec<Done>) {
        self.deadlines.remove(number);
        self.idle.push(number);
        let lane = &mut self.lanes[number as usize];
        match &result {
            Err(failure) if !failure.is_refused => {
                lane.failures = lane.failures.saturating_add(1);
                let delay = self.reconnect.delay_after(lane.failures, u64::from(number));
                lane.not_before = Some(now + delay.unwrap_or(self.reconnect.max_delay));
                self.outage = Some(failure.error.clone());
            }
            _ => {
                lane.failures = 0;
                self.outage = None;
            }
        }
        if let Some(request) = lane.request.take() {
            done.push((request, result));
        }
    }
}

async fn open(account: Arc<Account>, not_before: Option<Instant>) -> Result<HttpConnection, ServiceError> {
    if let Some(instant) = not_before {
        tokio::time::sleep_until(instant.into()).await;
    }
    let limit = account.timeout;
    let opened = tokio::time::timeout(limit, account.dial()).await.unwrap_or_else(|_elapsed| {
        Err(ServiceError::of_connection(LOST, format!("there was no connection within {limit:?}")))
    });
    opened.map(|stream| HttpConnection::with_refusals(stream, judge))
}

impl fmt::Debug for BlobLanes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BlobLanes")
            .field("lanes", &self.lanes.len())
            .field("idle", &self.idle.len())
            .field("waiting", &self.waiting.len())
            .field("outage", &self.outage)
            .finish_non_exhaustive()
    }
}

/// What a request that is over may keep of its memory, in bytes.
const KEPT_BYTES_MAX: usize = 64 * 1024;
