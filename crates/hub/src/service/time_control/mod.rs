//! Time under control: a test advances the service's clock, and what becomes due on the way acts at its instant.
//!
//! ```text
//!  now ──┬──────┬───────────────┬───────────▶ target        the clock stands at each of these instants:
//!        │      │               │                           1. queues and transactions do what is due
//!   a lock ends │        a token ends                       2. connections end links
//!               a message expires                           3. both once more, for what that led to
//!                                                           4. what all of it made due joins the plan
//! ```
//!
//! Receivers are given what has become available once the clock goes on: a client has no time between two instants, and what it was given at one
//! of them would be lost to it, and counted as a failed delivery, at the next.
//!
//! So effects have the order of their instants, and the instants are theirs to the millisecond, however far the clock is advanced. What needs no
//! order acts once at the end: retention, groups of Kafka that are forgotten. What is computed when it is looked at, as
//! leases of blobs, needs nothing.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use access::TransportSecurity;
use partition_log::UnixTime;
use queue_store::{Entity, Queue};
use serde::Serialize;
use tokio::sync::Mutex;
use units::{date, duration};

use super::queues::QueueTime;
use super::{Coordinators, ServiceConfig, StartError};
use crate::clock::{ServiceClock, StoppedClock, Tokens};
use crate::namespace::Namespace;

/// Advances the clock of a service. All that there are of it are one.
#[derive(Clone, Debug)]
pub struct TimeControl {
    controlled: Arc<Controlled>,
    tokens: Tokens,
}

#[derive(Debug)]
struct Controlled {
    namespace: Arc<Namespace>,
    queues: Arc<QueueTime>,
    coordinators: Option<Coordinators>,
    /// Held by who advances.
    turn: Mutex<()>,
}

/// The clock after it was advanced, and what happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Advanced {
    /// The present time.
    pub now: SystemTime,
    /// How far it is ahead of the machine's.
    pub offset: Duration,
    /// What became due, and acted.
    pub happened: Happened,
}

/// What became due, and acted, while the clock was advanced. Clients that work meanwhile may add to it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Happened {
    /// Locks of messages that ended, those of a session with it.
    pub message_locks_ended: u64,
    /// Locks of sessions that ended.
    pub session_locks_ended: u64,
    /// Scheduled messages that became available.
    pub scheduled_messages_enqueued: u64,
    /// Messages whose time to live was over.
    pub messages_expired: u64,
    /// Messages that became dead letters, because they expired or were delivered too often.
    pub messages_dead_lettered: u64,
    /// Links that ended with the token that they needed.
    pub links_ended: u64,
    /// Events that retention removed.
    pub events_removed: u64,
    /// Transactions of Kafka's producers that were aborted because their time was over, and those of queues and topics that were
    /// rolled back for it.
    pub transactions_aborted: u64,
}

/// Why the clock is not advanced.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AdvanceError {
    /// Time does not go back.
    #[error("the clock can't be set back: it is {} already", date::iso_date(*now))]
    Back {
        /// The present time.
        now: SystemTime,
    },
    /// There is no such date.
    #[error("the clock can't be advanced beyond {}, and it is {}", date::iso_date(latest()), date::iso_date(*now))]
    TooFar {
        /// The present time.
        now: SystemTime,
    },
    /// The runtime of the service is being shut down.
    #[error("the service is stopping")]
    Stopping,
}

/// How far to advance.
#[derive(Clone, Copy, Debug)]
enum Target {
    By(Duration),
    To(SystemTime),
}

impl TimeControl {
    pub(super) fn new(
        namespace: Arc<Namespace>,
        queues: Arc<QueueTime>,
        coordinators: Option<Coordinators>,
    ) -> Self {
        let controlled = Controlled { namespace, queues, coordinators, turn: Mutex::default() };
        Self { controlled: Arc::new(controlled), tokens: Tokens::Renewed }
    }

    /// The same control, with which tokens end when their time is over. Otherwise they end as much later, as if clients had renewed them:
    /// a client renews its token by its own clock, which has not moved.
    #[must_use]
    pub fn ending_tokens(&self) -> Self {
        Self { controlled: Arc::clone(&self.controlled), tokens: Tokens::End }
    }

    /// The service's present time.
    #[must_use]
    pub fn now(&self) -> SystemTime {
        self.controlled.clock().now()
    }

    /// How far that is ahead of the machine's.
    #[must_use]
    pub fn offset(&self) -> Duration {
        self.controlled.clock().offset()
    }

    /// Advances the clock by some time. All that becomes due in it has acted when this returns, in the order of its instants, and connected
    /// receivers have been given what is available at its end. It goes on to its end even if the result is not awaited. Must be called inside of a tokio runtime.
    ///
    /// # Errors
    /// There is no such date, and nothing has changed.
    pub async fn advance(&self, by: Duration) -> Result<Advanced, AdvanceError> {
        self.advance_to_target(Target::By(by)).await
    }

    /// Advances the clock to an instant, in the same way.
    ///
    /// # Errors
    /// The instant is over, or there is no such date, and nothing has changed.
    pub async fn advance_to(&self, instant: SystemTime) -> Result<Advanced, AdvanceError> {
        self.advance_to_target(Target::To(instant)).await
    }

    async fn advance_to_target(&self, target: Target) -> Result<Advanced, AdvanceError> {
        let (controlled, tokens) = (Arc::clone(&self.controlled), self.tokens);
        // The caller may go away, and half of an hour is no time that a test expects.
        let advancing = tokio::spawn(async move { controlled.advance(target, tokens).await });
        advancing.await.unwrap_or(Err(AdvanceError::Stopping))
    }
}

impl Target {
    fn check(self, now: SystemTime) -> Result<(), AdvanceError> {
        match self {
            Self::To(to) if to < now => Err(AdvanceError::Back { now }),
            _ if self.after(now) > latest() => Err(AdvanceError::TooFar { now }),
            _ => Ok(()),
        }
    }

    fn after(self, now: SystemTime) -> SystemTime {
        match self {
            Self::By(by) => now.checked_add(by).unwrap_or_else(|| latest() + Duration::from_secs(1)),
            Self::To(to) => to,
        }
    }
}

impl Controlled {
    fn clock(&self) -> &Arc<ServiceClock> {
        self.namespace.clock()
    }

    async fn advance(&self, target: Target, tokens: Tokens) -> Result<Advanced, AdvanceError> {
        let _turn = self.turn.lock().await;
        let clock = self.clock();
        target.check(clock.now())?;
        let mut stopped = clock.stop(tokens);
        let target = target.after(stopped.stopped_at());
        let before = self.happened();
        self.queues.look_for_idle();
        let mut next = self.act(&stopped).await;
        while let Some(due) = next.map(system_time).filter(|due| *due <= target) {
            stopped.move_to(due);
            next = self.act(&stopped).await;
        }
        stopped.move_to(target);
        self.act(&stopped).await;
        self.act_at_the_end(stopped.now().into());
        let happened = self.happened().since(&before);
        drop(stopped);
        // Receivers are given what is available now.
        clock.attend_connections().await;
        let (now, offset) = (clock.now(), clock.offset());
        tracing::info!(now = date::iso_date(now), offset = duration::text(offset), "the clock was advanced");
        Ok(Advanced { now, offset, happened })
    }

    /// Lets everything happen that is due where the clock stands. Returns when something is due next.
    async fn act(&self, stopped: &StoppedClock) -> Option<UnixTime> {
        let now = stopped.now().into();
        self.act_on_stores(now);
        self.clock().attend_connections().await;
        // What connections took or gave back may be forwarded, and delivered there.
        let transactions = self.act_on_stores(now);
        let queues = self.queues.next_due();
        let claims = stopped.next_claim_end().map(UnixTime::from);
        let next = [transactions, queues, claims].into_iter().flatten().min()?;
        // What is due and stays so is looked at again when time has passed.
        Some(next.max(UnixTime::from_milliseconds(now.milliseconds().saturating_add(1))))
    }

    fn act_on_stores(&self, now: UnixTime) -> Option<UnixTime> {
        let _retry = self.queues.act(now);
        self.coordinators.as_ref().and_then(|coordinators| coordinators.transactions.act(now))
    }

    /// What comes to the same whenever it is done.
    fn act_at_the_end(&self, now: UnixTime) {
        self.namespace.enforce_retention(now);
        if let Some(coordinators) = &self.coordinators {
            coordinators.transactions.expire(now);
            let _next = coordinators.groups.act();
        }
    }

    /// What has happened since the service started.
    fn happened(&self) -> Happened {
        let mut happened = Happened { links_ended: self.clock().ended_links(), ..Happened::default() };
        for entity in self.queues.store().entities() {
            match entity {
                Entity::Queue(queue) => happened.add(&queue),
                Entity::Topic(topic) => {
                    happened.scheduled_messages_enqueued += topic.scheduled_due();
                    topic.subscriptions().iter().for_each(|subscription| happened.add(subscription.queue()));
                }
            }
        }
        for hub in self.namespace.hubs().iter() {
            let oldest =
                hub.partitions().iter().map(|partition| partition.log().stats().begin_sequence_number);
            happened.events_removed += oldest.sum::<u64>();
        }
        if let Some(coordinators) = &self.coordinators {
            let totals = coordinators.transactions.counts().totals;
            happened.transactions_aborted = totals.timed_out;
        }
        happened.transactions_aborted += self.namespace.transaction_counters().values().expired;
        happened
    }
}

impl Happened {
    fn add(&mut self, queue: &Arc<Queue>) {
        for queue in [Some(queue), queue.dead_letters()].into_iter().flatten() {
            let counters = queue.lifecycle_counters();
            self.message_locks_ended += counters.lock_expirations;
            self.session_locks_ended += counters.session_lock_expirations;
            self.scheduled_messages_enqueued += counters.scheduled_due;
            self.messages_expired += counters.expired;
            self.messages_dead_lettered += counters.dead_lettered;
        }
    }

    /// What of it was not `before`. Entities that were deleted since take their part with them.
    fn since(&self, before: &Self) -> Self {
        let since = |figure: fn(&Self) -> u64| figure(self).saturating_sub(figure(before));
        Self {
            message_locks_ended: since(|it| it.message_locks_ended),
            session_locks_ended: since(|it| it.session_locks_ended),
            scheduled_messages_enqueued: since(|it| it.scheduled_messages_enqueued),
            messages_expired: since(|it| it.messages_expired),
            messages_dead_lettered: since(|it| it.messages_dead_lettered),
            links_ended: since(|it| it.links_ended),
            events_removed: since(|it| it.events_removed),
            transactions_aborted: since(|it| it.transactions_aborted),
        }
    }
}

/// Whether the clock of such a service may be controlled.
///
/// # Errors
/// Other machines could connect, or times would be kept that have not come yet.
pub(super) fn check(config: &ServiceConfig) -> Result<(), StartError> {
    let beyond = config.listeners.iter().find(|it| !it.address.ip().to_canonical().is_loopback());
    if let Some(listener) = beyond {
        let security = match listener.tls {
            Some(_) => TransportSecurity::Tls,
            None => TransportSecurity::Plain,
        };
        let (protocol, address) = (listener.protocol, listener.address);
        return Err(StartError::TimeBeyondLoopback { protocol, security, address });
    }
    match &config.namespace.storage {
        Some(storage) => Err(StartError::TimeOfKeptData { directory: storage.directory.clone() }),
        None => Ok(()),
    }
}

fn system_time(time: UnixTime) -> SystemTime {
    UNIX_EPOCH + Duration::from_millis(u64::try_from(time.milliseconds()).unwrap_or(0))
}

/// The last second of the year 9999: what comes later can't be written as a date.
fn latest() -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(253_402_300_799)
}

#[cfg(test)]
mod tests;
