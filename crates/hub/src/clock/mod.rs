//! The time of a service: what locks, schedules, times to live, tokens, leases and retention go by.
//!
//! It is the machine's time of day, or ahead of it if someone has advanced it. What a client can be given an instant of goes by this
//! clock. What peers have to do within some time (heartbeats, idle connections, the wait of a request) goes by the machine's timers:
//! their time passes with the machine's, whatever this clock says.
//!
//! * [`ServiceClock`] is read with every request.
//! * [`movable`] is how it is kept, and how the time of tokens is.
//! * [`client_clock`] tells clients how long they still have.
//! * [`connections`] are told when time has moved by other means than passing, and say when they have seen to it.
//! * [`tokens`] knows how far the clock was ahead when a client first showed a token.
//!
//! The time of day and timers part company when someone sets the machine's clock, or when the machine sleeps, which timers do not notice.
//! So the service compares them, and has all connections look at their tokens when they differ.

mod client_clock;
mod connections;
mod movable;
mod token_now;
mod tokens;

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use tokio::sync::watch;
use tokio::time::Instant;

use connections::Connections;
use movable::{Before, MovableClock};
use partition_log::{Subscriber, UnixTime};
use tokens::TokenTimes;

pub(crate) use client_clock::ClientClock;
pub(crate) use connections::TimedConnection;
pub use token_now::TokenNow;
pub(crate) use tokens::TokenTime;

/// Who moves a service's clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ClockKind {
    /// The machine alone.
    #[default]
    Machine,
    /// Tests, which advance it ahead of the machine's: see [`TimeControl`](crate::service::TimeControl).
    Controlled,
}

/// The time of day, as a service sees it.
#[derive(Debug)]
pub struct ServiceClock {
    kind: ClockKind,
    time: MovableClock,
    /// What tokens end by. It is advanced only where tokens are to end: clients renew them by their own clock, which is not.
    token_time: MovableClock,
    connections: Arc<Connections>,
    tokens: TokenTimes,
    /// Sent to when time was advanced, for those who sleep until something is due.
    moved: watch::Sender<()>,
}

impl Default for ServiceClock {
    fn default() -> Self {
        Self::new(ClockKind::Machine)
    }
}

impl ServiceClock {
    /// A clock that shows the machine's time.
    #[must_use]
    pub fn new(kind: ClockKind) -> Self {
        Self {
            kind,
            time: MovableClock::default(),
            token_time: MovableClock::default(),
            connections: Arc::default(),
            tokens: TokenTimes::default(),
            moved: watch::Sender::default(),
        }
    }

    /// Who moves it.
    #[must_use]
    pub const fn kind(&self) -> ClockKind {
        self.kind
    }

    /// The present time.
    #[inline]
    #[must_use]
    pub fn now(&self) -> SystemTime {
        self.time.now()
    }

    /// The present time, as stores take it.
    #[inline]
    #[must_use]
    pub fn unix_time(&self) -> UnixTime {
        self.now().into()
    }

    /// How far it is ahead of the machine's.
    #[must_use]
    pub fn offset(&self) -> Duration {
        self.time.offset()
    }

    /// The clock of clients, for what tells them how long they still have.
    #[inline]
    pub(crate) fn of_clients(&self) -> ClientClock {
        match self.kind {
            ClockKind::Machine => ClientClock::default(),
            ClockKind::Controlled => ClientClock::behind(self.time.offset()),
        }
    }

    /// The present time by the clock of clients.
    pub(crate) fn client_time(&self) -> SystemTime {
        match self.kind {
            ClockKind::Machine => self.now(),
            ClockKind::Controlled => SystemTime::now(),
        }
    }

    /// Whether it is being advanced, and stands at an instant at which something was due. Receivers are given nothing meanwhile: a client
    /// would have no time for it before the next instant.
    #[inline]
    pub(crate) fn stands(&self) -> bool {
        self.time.stands()
    }

    /// Waits while it stands.
    pub(crate) async fn goes(&self) {
        if !self.stands() {
            return;
        }
        let mut moved = self.moved.subscribe();
        while self.stands() {
            // The sender is the clock itself.
            let _ = moved.changed().await;
        }
    }

    /// Sets the clock forward, as an administrator or a sleep of the machine does, and nothing else: what has become due acts when it is
    /// looked at next. For tests in this process.
    pub fn jump(&self, by: Duration) {
        self.time.jump(by);
        self.token_time.jump(by);
    }

    /// From now on `key` is reported to `subscriber` when the clock jumps or is advanced.
    pub(crate) fn watch(&self, subscriber: &Arc<Subscriber>, key: u64) -> TimedConnection {
        self.connections.add(subscriber, key)
    }

    /// The present time for tokens.
    #[inline]
    pub(crate) fn token_now(&self) -> TokenNow {
        self.token_now_at(self.now())
    }

    /// The present time for tokens, when this clock shows `now`.
    #[inline]
    pub(crate) fn token_now_at(&self, now: SystemTime) -> TokenNow {
        TokenNow::at(match self.kind {
            ClockKind::Machine => now,
            ClockKind::Controlled => self.token_time.now(),
        })
    }

    /// How the time of a token's maker relates to this clock's: clients read their own clock, which was not advanced.
    pub(crate) fn time_of_token(&self, token: &[u8]) -> TokenTime {
        self.token_shown(token, None)
    }

    /// The same of a token that its client signs by itself, until `end`.
    pub(crate) fn time_of_signature(&self, token: &[u8], end: SystemTime) -> TokenTime {
        self.token_shown(token, Some(end))
    }

    fn token_shown(&self, token: &[u8], signed_until: Option<SystemTime>) -> TokenTime {
        match self.kind {
            ClockKind::Machine => TokenTime::default(),
            ClockKind::Controlled => {
                self.tokens.shown(token, signed_until, SystemTime::now(), self.token_time.offset())
            }
        }
    }

    /// Notes that links were ended because their claims were over.
    pub(crate) fn count_ended_links(&self, links: u64) {
        self.connections.count_ended_links(links);
    }

    /// How many links have ended that way.
    pub(crate) fn ended_links(&self) -> u64 {
        self.connections.ended_links()
    }

    /// When the first claim of a connection ends after `now`, if any does.
    fn next_claim_end(&self, now: SystemTime) -> Option<SystemTime> {
        let token_now = self.token_now_at(now).time();
        let end = self.connections.next_claim_end(token_now.into())?;
        let left = end.milliseconds().saturating_sub(UnixTime::from(token_now).milliseconds());
        now.checked_add(Duration::from_millis(u64::try_from(left).unwrap_or(0)))
    }

    /// Has all connections see to what the present time and the stores have for them. Returns when they have. Must not be called while
    /// another call waits.
    pub(crate) async fn attend_connections(&self) {
        self.connections.attend().await;
    }

    /// Hears when the clock was advanced.
    pub(crate) fn advances(&self) -> watch::Receiver<()> {
        self.moved.subscribe()
    }

    /// Stops the clock at the next whole millisecond, for as long as the result lives.
    pub(crate) fn stop(self: &Arc<Self>, tokens: Tokens) -> StoppedClock {
        StoppedClock {
            clock: Arc::clone(self),
            before: self.time.stop(),
            tokens_before: (tokens == Tokens::End).then(|| self.token_time.stop()),
        }
    }

    /// Looks for jumps until `stop` becomes true.
    pub(crate) async fn report_jumps(&self, mut stop: watch::Receiver<bool>) {
        let mut ticks = tokio::time::interval(CHECK_PERIOD);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        // Who advances the clock reports it.
        let mut before = (self.client_time(), Instant::now());
        loop {
            tokio::select! {
                _ = ticks.tick() => {}
                _ = stop.wait_for(|stop| *stop) => return,
            }
            let now = (self.client_time(), Instant::now());
            if is_jump(before.0, now.0, now.1 - before.1) {
                tracing::info!("the clock was set or the machine slept; tokens are checked again");
                self.connections.report_all();
            }
            before = now;
        }
    }
}

/// A clock that stands. When this is dropped it goes on, further ahead by as much as it was moved: the time that has passed on the machine
/// meanwhile has passed here as well.
#[derive(Debug)]
pub(crate) struct StoppedClock {
    clock: Arc<ServiceClock>,
    before: Before,
    /// The same of the time of tokens, if that is moved as well.
    tokens_before: Option<Before>,
}

/// What becomes of the tokens of clients while the clock is advanced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tokens {
    /// They end as much later: clients that had the time would renew them.
    Renewed,
    /// They end when their time is over, and links with them.
    End,
}

impl StoppedClock {
    /// Where it stands.
    pub(crate) fn now(&self) -> SystemTime {
        self.clock.now()
    }

    /// Where it was when it was stopped.
    pub(crate) fn stopped_at(&self) -> SystemTime {
        self.before.stopped_at()
    }

    /// When the first claim of a connection ends after where it stands, if any does on the way.
    pub(crate) fn next_claim_end(&self) -> Option<SystemTime> {
        self.tokens_before.and_then(|_| self.clock.next_claim_end(self.now()))
    }

    /// Moves it there, but never back.
    pub(crate) fn move_to(&mut self, instant: SystemTime) {
        let by = instant.duration_since(self.now()).unwrap_or_default();
        self.clock.time.move_to(instant);
        if self.tokens_before.is_some() {
            let token_time = &self.clock.token_time;
            token_time.move_to(token_time.now() + by);
        }
    }
}

impl Drop for StoppedClock {
    fn drop(&mut self) {
        if let Some(before) = self.tokens_before {
            self.clock.token_time.go_on(before);
        }
        self.clock.time.go_on(self.before);
        self.clock.moved.send_replace(());
    }
}

/// Whether the time of day went from `before` to `now` by anything else than the `elapsed` time.
fn is_jump(before: SystemTime, now: SystemTime, elapsed: Duration) -> bool {
    let expected = before + elapsed;
    let difference = match now.duration_since(expected) {
        Ok(ahead) => ahead,
        Err(behind) => behind.duration(),
    };
    difference > TOLERANCE
}

/// How often the clocks are compared: a token is honoured for so long after its end at most.
const CHECK_PERIOD: Duration = Duration::from_secs(1);

/// Clocks are read one after the other, and adjusted by small steps all the time.
const TOLERANCE: Duration = Duration::from_millis(250);

#[cfg(test)]
mod tests {
    use std::time::UNIX_EPOCH;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_jump_is_what_the_elapsed_time_does_not_explain() {
        let at = |milliseconds| UNIX_EPOCH + Duration::from_millis(milliseconds);
        for (what, now, elapsed_ms, expected) in [
            ("a second that passed", 101_000, 1_000, false),
            ("a small adjustment", 101_200, 1_000, false),
            ("a late look", 160_000, 60_000, false),
            ("a clock set forward", 3_700_000, 1_000, true),
            ("a clock set back", 40_000, 1_000, true),
            ("a machine that slept", 28_900_000, 1_500, true),
        ] {
            let elapsed = Duration::from_millis(elapsed_ms);
            assert_eq!(is_jump(at(100_000), at(now), elapsed), expected, "{what}");
        }
    }

    #[test]
    fn a_stopped_clock_stands_where_it_is_moved_to_and_goes_on_from_there() {
        let clock = Arc::new(ServiceClock::new(ClockKind::Controlled));
        let before = clock.now();
        let mut stopped = clock.stop(Tokens::Renewed);
        let stands = stopped.now();
        assert!(stands > before);
        assert_eq!(clock.now(), stands, "it stands");
        stopped.move_to(stands - Duration::from_secs(1));
        assert_eq!(clock.now(), stands, "it does not go back");
        let later = stands + Duration::from_secs(3_600);
        stopped.move_to(later);
        assert_eq!(clock.now(), later);
        let advances = clock.advances();
        drop(stopped);
        assert!(clock.now() >= later);
        assert!(advances.has_changed().unwrap());
        assert!(clock.offset() >= Duration::from_secs(3_600));
    }

    proptest! {
        /// Whatever it is moved by, and however long the machine takes meanwhile.
        #[test]
        fn time_never_goes_back(moves in prop::collection::vec((any::<bool>(), 0_u64..5_000_000), 1..40)) {
            let clock = Arc::new(ServiceClock::new(ClockKind::Controlled));
            let (mut latest, mut ahead) = (clock.now(), clock.offset());
            for (jumps, microseconds) in moves {
                let by = Duration::from_micros(microseconds);
                if jumps {
                    clock.jump(by);
                } else {
                    let mut stopped = clock.stop(Tokens::Renewed);
                    let to = stopped.now() + by;
                    stopped.move_to(to);
                    drop(stopped);
                    prop_assert!(clock.now() >= to);
                }
                // Offset and time are read at microseconds.
                let now = clock.now() + Duration::from_micros(1);
                prop_assert!(now >= latest && clock.offset() >= ahead);
                (latest, ahead) = (now, clock.offset());
            }
        }
    }
}
