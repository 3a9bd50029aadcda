//! The brokers that lead the partitions of a topic: which they are, and a connection to each.
//!
//! Connections are made when they are needed, and again when they broke, after a delay that grows. Who leads what is asked on a
//! connection of its own, at the start, when a broker says that it does not lead a partition or is not to be had, and now and
//! then. Nothing happens without being polled.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use kafka::fetch::TopicRef;
use kafka::messages::metadata::{MetadataRequest, MetadataResponse};
use kafka::read::Uuid;
use kafka::{ApiKey, ErrorCode};
use tokio::time::{Instant, Sleep};
use units::mix;

use super::connection::Connection;
use super::endpoint::Endpoint;
use super::error::{malformed, refused, refused_for_good};
use super::login;
use crate::service::ServiceError;
use crate::service::error::{SILENT, UNREACHABLE};
use crate::sink::ErrorClass;

/// A topic's brokers, with requests that have tags `T`.
pub(super) struct Cluster<T> {
    endpoint: Arc<Endpoint>,
    brokers: Vec<Broker<T>>,
    /// By partition.
    leaders: Vec<Leader>,
    /// Id of the topic; zero if the brokers tell none.
    topic_id: Uuid,
    /// Whether the topic has been another one since that was [asked](Self::is_recreated).
    is_recreated: bool,
    refresh: Refresh,
    /// Whether nobody has waited for that yet.
    is_unwatched: bool,
    /// Refreshes in a row that failed or changed nothing.
    futile: u32,
    /// When who leads what is asked though nothing has failed.
    refresh_at: Instant,
    /// Set while all brokers that were asked something are late.
    silence: Option<ServiceError>,
    jitter: u64,
}

/// Who leads a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Leader {
    /// Its place among the brokers; `None` if there is none at the moment.
    pub(super) broker: Option<usize>,
    /// Which of the partition's leaders it is; -1 if that is not known.
    pub(super) epoch: i32,
}

struct Broker<T> {
    id: i32,
    host: String,
    port: u16,
    state: State<T>,
    /// Attempts in a row that failed. A connection that broke counts as one, and where it had not lasted it does not end the
    /// row: one that breaks at once is not made again without a pause that grows.
    failures: u32,
    up_since: Instant,
    outage: Option<ServiceError>,
}

enum State<T> {
    Up(Box<Connection<T>>),
    Down,
    BackingOff(Pin<Box<Sleep>>),
    Connecting(Attempt<Connection<()>>),
}

enum Refresh {
    Idle,
    Due(Pin<Box<Sleep>>),
    Asking(Attempt<Metadata>),
}

type Attempt<T> = Pin<Box<dyn Future<Output = Result<T, ServiceError>> + Send>>;

/// What a broker says of a topic.
#[derive(Debug)]
pub(super) struct Metadata {
    brokers: Vec<(i32, String, u16)>,
    /// Leader and its epoch, by partition.
    leaders: Vec<(Option<i32>, i32)>,
    topic_id: Uuid,
}

/// Connects to the first of these brokers that lets us.
///
/// # Errors
/// The last one's, if none does; at once, if the login is refused.
pub(super) async fn connect_any(
    endpoint: &Arc<Endpoint>,
    brokers: &[(String, u16)],
) -> Result<Connection<()>, ServiceError> {
    let mut last = ServiceError::of_connection(UNREACHABLE, "no broker is known");
    for (host, port) in brokers {
        match login::connect(Arc::clone(endpoint), host, *port).await {
            Ok(connection) => return Ok(connection),
            Err(error) if error.class == ErrorClass::Fatal => return Err(error),
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// Asks who leads the partitions of the topic.
async fn metadata(endpoint: Arc<Endpoint>, brokers: Vec<(String, u16)>) -> Result<Metadata, ServiceError> {
    let mut connection = connect_any(&endpoint, &brokers).await?;
    let version = connection.version(ApiKey::Metadata, 1, 12)?;
    let topics = Some(vec![TopicRef::Name(&endpoint.topic)]);
    let request = MetadataRequest { topics, ..MetadataRequest::default() };
    let answer = connection.ask(ApiKey::Metadata, version, |writer| request.write(writer, version)).await?;
    let response = MetadataResponse::read(answer.reader(), version).map_err(malformed)?;
    let topic = &endpoint.topic;
    let found = response.topics.iter().find(|found| found.name == Some(topic));
    let found = found.ok_or_else(|| refused_for_good(ErrorCode::UnknownTopicOrPartition, no_topic(topic)))?;
    match found.error {
        ErrorCode::None => {}
        error @ ErrorCode::LeaderNotAvailable => return Err(refused(error, no_topic(topic))),
        ErrorCode::TopicAuthorizationFailed => {
            let what = format!("the login gives no right to topic {topic}");
            return Err(refused_for_good(found.error, what));
        }
        error => return Err(refused_for_good(error, no_topic(topic))),
    }
    let mut leaders = vec![(None, -1); found.partitions.len()];
    for partition in &found.partitions {
        let place = usize::try_from(partition.index).ok().and_then(|index| leaders.get_mut(index));
        // Partitions are numbered from 0 without a hole.
        let place = place.ok_or_else(|| malformed(kafka::Malformed("number of a partition")))?;
        *place = (Some(partition.leader_id).filter(|leader| *leader >= 0), partition.leader_epoch);
    }
    let brokers = response.brokers.iter().map(|broker| (broker.id, broker.host.to_owned(), broker.port));
    Ok(Metadata { brokers: brokers.collect(), leaders, topic_id: found.id })
}

fn no_topic(topic: &str) -> String {
    format!("there is no topic {topic}, or it can't be used")
}

impl<T> Cluster<T> {
    /// Asks the brokers that are named for those that lead the partitions. No connection is kept.
    ///
    /// # Errors
    /// No broker can be reached, the login is refused, or there is no such topic.
    pub(super) async fn find(endpoint: Arc<Endpoint>) -> Result<Self, ServiceError> {
        let found = metadata(Arc::clone(&endpoint), endpoint.settings.bootstrap.clone()).await?;
        let name = format!("{}{:?}{}", endpoint.topic, std::time::SystemTime::now(), std::process::id());
        let refresh_interval = endpoint.settings.refresh_interval;
        let mut cluster = Self {
            endpoint,
            brokers: Vec::new(),
            leaders: Vec::new(),
            topic_id: Uuid::default(),
            is_recreated: false,
            refresh: Refresh::Idle,
            is_unwatched: false,
            futile: 0,
            refresh_at: Instant::now() + refresh_interval,
            silence: None,
            jitter: name.bytes().fold(0, |hash, byte| mix(hash, u64::from(byte), 0)),
        };
        cluster.take(found);
        cluster.seek_unled();
        Ok(cluster)
    }

    /// How many partitions there are.
    pub(super) fn partitions(&self) -> usize {
        self.leaders.len()
    }

    /// Id of the topic, if the brokers tell it.
    pub(super) fn topic_id(&self) -> Option<Uuid> {
        Some(self.topic_id).filter(|id| *id != Uuid::default())
    }

    /// Whether the topic was deleted and created again since the last call.
    pub(super) const fn is_recreated(&mut self) -> bool {
        std::mem::replace(&mut self.is_recreated, false)
    }

    /// How many brokers are, or were, leaders.
    pub(super) fn brokers(&self) -> usize {
        self.brokers.len()
    }

    /// Who leads a partition.
    pub(super) fn leader(&self, partition: usize) -> Leader {
        self.leaders.get(partition).copied().unwrap_or(Leader { broker: None, epoch: -1 })
    }

    pub(super) const fn endpoint(&self) -> &Arc<Endpoint> {
        &self.endpoint
    }

    /// The connection to a broker, while there is one.
    #[inline]
    pub(super) fn up(&mut self, broker: usize) -> Option<&mut Connection<T>> {
        match self.brokers.get_mut(broker)?.state {
            State::Up(ref mut connection) => Some(connection),
            State::Down | State::BackingOff(_) | State::Connecting(_) => None,
        }
    }

    /// Notes whether brokers answer. Returns the time at which they are late if they don't, for the next call.
    pub(super) fn watch_silence(&mut self) -> Option<Instant> {
        let connections = self.brokers.iter().filter_map(|broker| match &broker.state {
            State::Up(connection) => Some(connection),
            State::Down | State::BackingOff(_) | State::Connecting(_) => None,
        });
        let late_at = connections.filter_map(|connection| connection.late_at()).max();
        if late_at.is_none_or(|late_at| Instant::now() < late_at) {
            self.silence = None;
            return late_at;
        }
        self.silence.get_or_insert_with(|| {
            let time = self.endpoint.settings.request_timeout / 3;
            ServiceError::of_connection(SILENT, format!("no broker has answered for {time:?}"))
        });
        None
    }

    /// Why there is no connection, if there is none to any broker, or none of them answers.
    pub(super) fn outage(&self) -> Option<&ServiceError> {
        let mut outage = None;
        for broker in &self.brokers {
            match (&broker.state, &broker.outage) {
                (State::Up(_), _) => return self.silence.as_ref(),
                (_, Some(error)) => outage = outage.or(Some(error)),
                (_, None) => {}
            }
        }
        outage
    }

    /// Ends the outage of a broker to which no connection is needed, for example because others have all partitions that it leads. The
    /// cluster has answered by another connection.
    pub(super) fn end_outage(&mut self, broker: usize) {
        self.brokers[broker].outage = None;
    }

    /// A connection is of no more use: gives the tags of what was under way on it. Who leads what is asked again, too.
    pub(super) fn lost(&mut self, broker: usize, error: &ServiceError) -> Vec<T> {
        tracing::debug!(%error, broker = self.brokers[broker].id, "the connection to a broker is lost");
        let lost = &mut self.brokers[broker];
        lost.outage = Some(error.clone());
        let tags = match std::mem::replace(&mut lost.state, State::Down) {
            State::Up(connection) => {
                lost.failures = match lost.up_since.elapsed() >= LASTING {
                    true => 1,
                    false => lost.failures.saturating_add(1),
                };
                connection.into_tags().collect()
            }
            State::Down | State::BackingOff(_) | State::Connecting(_) => Vec::new(),
        };
        self.refresh_soon();
        tags
    }

    /// Who leads what may have changed: it is asked again.
    pub(super) fn refresh_soon(&mut self) {
        if matches!(self.refresh, Refresh::Idle) {
            let delay =
                self.endpoint.reconnect.delay_after(self.futile.max(1), self.jitter).unwrap_or_default();
            self.refresh = Refresh::Due(Box::pin(tokio::time::sleep(delay)));
            self.is_unwatched = true;
        }
    }

    /// Whether it was said since the last [`poll_refresh`](Self::poll_refresh) that leaders are to be asked for, so that the task is
    /// not woken for it before the next one.
    pub(super) const fn has_unwatched_refresh(&self) -> bool {
        self.is_unwatched
    }

    /// Ready once a broker is connected: at once if it is, else after the delay that is due and an attempt. After a failed
    /// attempt, of which the error tells, the next call begins the next.
    ///
    /// # Errors
    /// An attempt failed.
    pub(super) fn poll_up(
        &mut self,
        context: &mut Context<'_>,
        broker: usize,
    ) -> Poll<Result<(), ServiceError>> {
        let endpoint = &self.endpoint;
        let broker = &mut self.brokers[broker];
        loop {
            match &mut broker.state {
                State::Up(_) => return Poll::Ready(Ok(())),
                State::Down if broker.failures == 0 => broker.connect(endpoint),
                State::Down => {
                    let number = mix(self.jitter, broker.id as u64, 0);
                    let delay = endpoint.reconnect.delay_after(broker.failures, number).unwrap_or_default();
                    broker.state = State::BackingOff(Box::pin(tokio::time::sleep(delay)));
                }
                State::BackingOff(sleep) => {
                    ready!(sleep.as_mut().poll(context));
                    broker.connect(endpoint);
                }
                State::Connecting(attempt) => match ready!(attempt.as_mut().poll(context)) {
                    Ok(connection) => {
                        broker.up_since = Instant::now();
                        broker.outage = None;
                        broker.state = State::Up(Box::new(connection.retagged()));
                    }
                    Err(error) => {
                        broker.failures = broker.failures.saturating_add(1);
                        broker.outage = Some(error.clone());
                        broker.state = State::Down;
                        self.refresh_soon();
                        return Poll::Ready(Err(error));
                    }
                },
            }
        }
    }

    /// Goes on with asking who leads what; ready when that is known anew.
    ///
    /// # Errors
    /// What makes it useless to go on: the login is refused. A topic that is gone may come back.
    pub(super) fn poll_refresh(&mut self, context: &mut Context<'_>) -> Poll<Result<(), ServiceError>> {
        loop {
            self.is_unwatched = false;
            match &mut self.refresh {
                Refresh::Idle if Instant::now() < self.refresh_at => return Poll::Pending,
                Refresh::Idle => self.refresh = self.ask(),
                Refresh::Due(sleep) => {
                    ready!(sleep.as_mut().poll(context));
                    self.refresh = self.ask();
                }
                Refresh::Asking(attempt) => {
                    let found = ready!(attempt.as_mut().poll(context));
                    self.refresh = Refresh::Idle;
                    self.refresh_at = Instant::now() + self.endpoint.settings.refresh_interval;
                    match found {
                        Ok(found) => {
                            let changed = self.take(found);
                            self.futile = if changed { 0 } else { self.futile.saturating_add(1) };
                            self.seek_unled();
                            return Poll::Ready(Ok(()));
                        }
                        Err(error) if error.class == ErrorClass::Fatal && error.condition != MISSING => {
                            return Poll::Ready(Err(error));
                        }
                        Err(error) => {
                            tracing::debug!(%error, "who leads the partitions is not known");
                            self.futile = self.futile.saturating_add(1);
                            self.refresh_soon();
                        }
                    }
                }
            }
        }
    }

    /// Asks again soon if a partition has no leader: it will have one.
    fn seek_unled(&mut self) {
        if self.leaders.iter().any(|leader| leader.broker.is_none()) {
            self.refresh_soon();
        }
    }

    /// What is led is led by who was said to: the next refresh need not wait.
    pub(super) const fn works(&mut self) {
        self.futile = 0;
    }

    fn ask(&self) -> Refresh {
        let known = self.brokers.iter().map(|broker| (broker.host.clone(), broker.port));
        let brokers = known.chain(self.endpoint.settings.bootstrap.iter().cloned()).collect();
        Refresh::Asking(Box::pin(metadata(Arc::clone(&self.endpoint), brokers)))
    }

    /// Takes what a broker says. Partitions are added to a topic, and never removed. Says whether anything has changed.
    fn take(&mut self, found: Metadata) -> bool {
        let mut changed = false;
        if found.topic_id != self.topic_id && found.topic_id != Uuid::default() {
            self.is_recreated |= self.topic_id().is_some();
            self.topic_id = found.topic_id;
            changed = true;
        }
        for (partition, (leader, epoch)) in found.leaders.into_iter().enumerate() {
            let address = leader.and_then(|id| found.brokers.iter().find(|(known, ..)| *known == id));
            let broker = address.map(|address| self.place_of(address));
            let leader = Leader { broker, epoch };
            match self.leaders.get_mut(partition) {
                Some(known) => changed |= std::mem::replace(known, leader) != leader,
                None => {
                    self.leaders.push(leader);
                    changed = true;
                }
            }
        }
        changed
    }

    /// The place of a broker: brokers stay where they are, since what is under way refers to them.
    fn place_of(&mut self, (id, host, port): &(i32, String, u16)) -> usize {
        let known = self
            .brokers
            .iter()
            .position(|broker| broker.id == *id && broker.host == *host && broker.port == *port);
        known.unwrap_or_else(|| {
            self.brokers.push(Broker {
                id: *id,
                host: host.clone(),
                port: *port,
                state: State::Down,
                failures: 0,
                up_since: Instant::now(),
                outage: None,
            });
            self.brokers.len() - 1
        })
    }
}

impl<T> Broker<T> {
    fn connect(&mut self, endpoint: &Arc<Endpoint>) {
        let (endpoint, host, port) = (Arc::clone(endpoint), self.host.clone(), self.port);
        self.state = State::Connecting(Box::pin(async move { login::connect(endpoint, &host, port).await }));
    }
}

impl<T> fmt::Debug for Cluster<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let brokers = self.brokers.iter().map(|broker| (broker.id, &broker.host, broker.port));
        f.debug_struct("Cluster")
            .field("topic", &self.endpoint.topic)
            .field("brokers", &brokers.collect::<Vec<_>>())
            .finish_non_exhaustive()
    }
}

/// A topic that is gone may be on its way back, as it is while somebody deploys it again.
const MISSING: &str = "UNKNOWN_TOPIC_OR_PARTITION";

/// A connection that was up for so long had worked.
const LASTING: Duration = Duration::from_secs(10);
