//! One call, one connection: opened for it, closed after it, with the time that each stage takes.
//!
//! What a client does between wanting to send and having sent, for the first event that it ever sends. Frames that need not wait
//! for an answer leave together: open, session and the links for the claims are one write.

mod amqp;
mod http;

use std::fmt;
use std::future::poll_fn;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::event::{NewEvent, Wire};
use super::failure::{Fate, NO_PORTS, SendFailure};
use super::lane::{Place, Run, Unit};
use super::options::{ProducerOptions, ProducerTarget};
use super::outlet::{Outlet, Requests};
use crate::service::error::UNREACHABLE;
use crate::service::{Endpoint, ServiceError};
use crate::sink::SendToken;

/// A part of an isolated send.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Stage {
    /// Until there is a connection of TCP.
    Connect,
    /// The handshake of TLS.
    Tls,
    /// The client's login, or its declaration to do without.
    Sasl,
    /// Until the service has opened the connection. On Kafka all that is asked before the first record: versions, metadata, ids.
    Open,
    /// Until the service has granted the claims of the token.
    Claims,
    /// Until there is a link with credit.
    Attach,
    /// From the event to its acknowledgement.
    Send,
    /// Until the service has said goodbye as well.
    Close,
}

/// How long the stages of an isolated send took. A stage that the protocol does not have took no time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stages {
    durations: [Duration; Stage::ALL.len()],
}

/// An isolated send that was not acknowledged.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{failure}, while it came to {stage}")]
pub struct IsolatedFailure {
    /// Why, and what is known of the event.
    pub failure: SendFailure,
    /// The stage that failed.
    pub stage: Stage,
    /// The stages until then.
    pub stages: Box<Stages>,
}

/// Where isolated sends go, resolved once.
#[derive(Debug)]
pub(super) struct Isolated {
    to: To,
    wire: Wire,
    timeout: Duration,
}

#[derive(Debug)]
enum To {
    Amqp(Arc<Endpoint>),
    Kafka(Box<ProducerTarget>),
    Http(Requests),
}

/// The stages of a send that is under way.
#[derive(Debug)]
struct Course {
    stages: Stages,
    stage: Stage,
    since: Instant,
    /// Whether the event has left.
    is_sent: bool,
}

impl Isolated {
    /// Reads certificates, if there are any to be read.
    ///
    /// # Errors
    /// When they can't be.
    pub(super) fn new(target: ProducerTarget, options: &ProducerOptions) -> Result<Self, ServiceError> {
        let (to, wire) = match target {
            ProducerTarget::EventHubs(options) => (To::Amqp(Endpoint::resolve(options)?), Wire::EventHubs),
            ProducerTarget::ServiceBus(options) => (To::Amqp(Endpoint::resolve(options)?), Wire::ServiceBus),
            target @ ProducerTarget::Kafka(_) => (To::Kafka(Box::new(target)), Wire::Kafka),
            ProducerTarget::Http(options) => (To::Http(Requests::to(options)?), Wire::Http),
        };
        Ok(Self { to, wire, timeout: options.timeout })
    }

    /// Sends one event.
    ///
    /// # Errors
    /// When it can't be sent as it is, or was not acknowledged.
    pub(super) async fn send(&self, event: &NewEvent<'_>) -> Result<Stages, IsolatedFailure> {
        let mut course = Course::begin();
        let sending = async {
            let mut message = Vec::new();
            self.wire.encode(event, &mut message)?;
            match &self.to {
                To::Amqp(endpoint) => amqp::send(endpoint, event.partition, &message, &mut course).await,
                To::Http(requests) => {
                    http::send(requests.clone(), event.partition, &message, &mut course).await
                }
                To::Kafka(target) => send_record(target, event, message, &mut course).await,
            }
        };
        let sent = tokio::time::timeout(self.timeout, sending).await;
        let sent =
            sent.unwrap_or_else(|_elapsed| Err(SendFailure::timed_out(Fate::NotSent, self.timeout, None)));
        match sent {
            Ok(()) => Ok(course.stages),
            Err(failure) => Err(course.failed(failure)),
        }
    }
}

/// Sends one record through a client of its own.
async fn send_record(
    target: &ProducerTarget,
    event: &NewEvent<'_>,
    record: Vec<u8>,
    course: &mut Course,
) -> Result<(), SendFailure> {
    // The client connects by itself, so that nothing tells the two apart.
    course.stage = Stage::Open;
    let mut outlet = Outlet::connect(target).await?;
    course.enter(Stage::Send);
    let partitions = outlet.partitions().unwrap_or(1);
    let place = match (event.partition, event.key) {
        (Some(partition), _) if partition >= partitions => {
            let what = format!("there is no partition {partition}: the topic has {partitions}");
            return Err(SendFailure::invalid(what));
        }
        (Some(partition), _) => Place::Partition(partition),
        (None, Some(key)) => {
            let partitioner = units::partition_key::Partitioner::Kafka;
            Place::Partition(partitioner.partition_of(key.as_bytes(), partitions))
        }
        (None, None) => Place::Entity,
    };
    let run = Run::of_one(place, Unit::Events, record);
    let mut outcomes = Vec::new();
    while outlet.send_event(SendToken(0), &run).is_err() {
        poll_fn(|context| outlet.poll_ready(context)).await?;
    }
    course.is_sent = true;
    while outcomes.is_empty() {
        poll_fn(|context| outlet.poll_outcomes(context, &mut outcomes)).await?;
    }
    course.enter(Stage::Close);
    outlet.shut_down().await;
    course.end();
    outcomes.into_iter().try_for_each(|outcome| outcome.result.map_err(|error| (*error).into()))
}

impl Course {
    fn begin() -> Self {
        Self { stages: Stages::default(), stage: Stage::Connect, since: Instant::now(), is_sent: false }
    }

    /// The stage before is over.
    fn enter(&mut self, stage: Stage) {
        self.end();
        self.stage = stage;
    }

    /// The stage is over.
    fn end(&mut self) {
        let now = Instant::now();
        self.stages.durations[self.stage as usize] += now.duration_since(self.since);
        self.since = now;
    }

    fn failed(mut self, failure: SendFailure) -> IsolatedFailure {
        self.end();
        let fate = match (self.is_sent, failure.fate) {
            // The service has said no.
            (true, Fate::Refused) => Fate::Refused,
            (true, _) => Fate::Unknown,
            (false, _) => Fate::NotSent,
        };
        let out_of_ports =
            failure.condition == UNREACHABLE && failure.description.contains(CANNOT_ASSIGN_ADDRESS);
        let condition = if out_of_ports { NO_PORTS.to_owned() } else { failure.condition };
        let failure = SendFailure { fate, condition, ..failure };
        IsolatedFailure { failure, stage: self.stage, stages: Box::new(self.stages) }
    }
}

impl Stages {
    /// How long a stage took.
    #[must_use]
    pub const fn of(&self, stage: Stage) -> Duration {
        self.durations[stage as usize]
    }

    /// How long all of them took.
    #[must_use]
    pub fn total(&self) -> Duration {
        self.durations.iter().sum()
    }
}

impl Stage {
    /// All of them, in their order.
    pub const ALL: [Self; 8] = [
        Self::Connect,
        Self::Tls,
        Self::Sasl,
        Self::Open,
        Self::Claims,
        Self::Attach,
        Self::Send,
        Self::Close,
    ];

    /// Its name in results.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Connect => "connect",
            Self::Tls => "tls",
            Self::Sasl => "sasl",
            Self::Open => "open",
            Self::Claims => "claims",
            Self::Attach => "attach",
            Self::Send => "send",
            Self::Close => "close",
        }
    }
}

impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// How systems say that there is no port left (`EADDRNOTAVAIL`).
const CANNOT_ASSIGN_ADDRESS: &str = "os error 99";
