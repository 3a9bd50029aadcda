//! The time of a service: what locks, schedules, times to live, tokens, leases and retention go by.
//!
//! It is the machine's time of day, or ahead of it if someone has advanced it. What a client can be given an instant of goes by this
//! clock. What peers have to do within some time (heartbeats, idle connections, the wait of a request) goes by the machine's timers:
//! their time passes with the machine's, whatever this clock says.
//!
//! * [`ServiceClock`] is read with every request, so reading costs one atomic load more than reading the machine's clock.
//! * [`connections`] are told when time has moved by other means than passing, and say when they have seen to it.
//! * [`tokens`] knows how far the clock was ahead when a client first showed a token.
//!
//! The time of day and timers part company when someone sets the machine's clock, or when the machine sleeps, which timers do not notice.
//! So the service compares them, and has all connections look at their tokens when they differ.

mod connections;
mod tokens;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tokio::sync::watch;
use tokio::time::Instant;

use connections::Connections;
use partition_log::{Subscriber, UnixTime};
use tokens::TokenTimes;

pub(crate) use connections::TimedConnection;
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
    /// A [`Reading`].
    reading: AtomicU64,
    connections: Arc<Connections>,
    tokens: TokenTimes,
    /// By how many microseconds tokens were renewed in all.
    renewed: AtomicU64,
    /// Sent to when time was advanced, for those who sleep until something is due.
    moved: watch::Sender<()>,
}

/// How the clock is read. Either way in whole microseconds, which last until the year 292,000.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reading {
    /// It goes, so far ahead of the machine's.
    Goes(u64),
    /// It stands at this time since the epoch, while what became due acts.
    Stands(u64),
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
            reading: AtomicU64::new(Reading::Goes(0).bits()),
            connections: Arc::default(),
            tokens: TokenTimes::default(),
            renewed: AtomicU64::new(0),
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
        match self.reading() {
            Reading::Goes(ahead) => SystemTime::now() + Duration::from_micros(ahead),
            Reading::Stands(at) => UNIX_EPOCH + Duration::from_micros(at),
        }
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
        match self.reading() {
            Reading::Goes(ahead) => Duration::from_micros(ahead),
            Reading::Stands(at) => Duration::from_micros(at.saturating_sub(machine_microseconds())),
        }
    }

    /// Sets the clock forward, as an administrator or a sleep of the machine does, and nothing else: what has become due acts when it is
    /// looked at next. For tests in this process.
    pub fn jump(&self, by: Duration) {
        let by = u64::try_from(by.as_micros()).unwrap_or(u64::MAX);
        let ahead = u64::try_from(self.offset().as_micros()).unwrap_or(u64::MAX);
        self.set(Reading::Goes(ahead.saturating_add(by)));
    }

    /// From now on `key` is reported to `subscriber` when the clock jumps or is advanced.
    pub(crate) fn watch(&self, subscriber: &Arc<Subscriber>, key: u64) -> TimedConnection {
        self.connections.add(subscriber, key)
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
            ClockKind::Controlled => self.tokens.shown(token, signed_until, SystemTime::now(), self.offset()),
        }
    }

    /// Has all tokens that were shown end so much later. Connections see to their claims when they attend next.
    pub(crate) fn renew_tokens(&self, by: Duration) {
        self.tokens.postpone(by);
        self.renewed.fetch_add(u64::try_from(by.as_micros()).unwrap_or(u64::MAX), Ordering::SeqCst);
    }

    /// By how much tokens have been renewed in all.
    pub(crate) fn renewed_tokens(&self) -> Duration {
        Duration::from_micros(self.renewed.load(Ordering::SeqCst))
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
    pub(crate) fn next_claim_end(&self, now: UnixTime) -> Option<UnixTime> {
        self.connections.next_claim_end(now)
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
    pub(crate) fn stop(self: &Arc<Self>) -> StoppedClock {
        let ahead = u64::try_from(self.offset().as_micros()).unwrap_or(u64::MAX);
        let stopped_at = microseconds_since_epoch(self.now());
        self.set(Reading::Stands((stopped_at / MILLISECOND + 1).saturating_mul(MILLISECOND)));
        StoppedClock { clock: Arc::clone(self), stopped_at, ahead }
    }

    /// Looks for jumps until `stop` becomes true.
    pub(crate) async fn report_jumps(&self, mut stop: watch::Receiver<bool>) {
        let mut ticks = tokio::time::interval(CHECK_PERIOD);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        // Who advances the clock reports it.
        let read = || match self.kind {
            ClockKind::Machine => self.now(),
            ClockKind::Controlled => SystemTime::now(),
        };
        let mut before = (read(), Instant::now());
        loop {
            tokio::select! {
                _ = ticks.tick() => {}
                _ = stop.wait_for(|stop| *stop) => return,
            }
            let now = (read(), Instant::now());
            if is_jump(before.0, now.0, now.1 - before.1) {
                tracing::info!("the clock was set or the machine slept; tokens are checked again");
                self.connections.report_all();
            }
            before = now;
        }
    }

    #[inline]
    fn reading(&self) -> Reading {
        Reading::of_bits(self.reading.load(Ordering::Relaxed))
    }

    fn set(&self, reading: Reading) {
        self.reading.store(reading.bits(), Ordering::Release);
    }
}

/// A clock that stands. When this is dropped it goes on, further ahead by as much as it was moved: the time that has passed on the machine
/// meanwhile has passed here as well.
#[derive(Debug)]
pub(crate) struct StoppedClock {
    clock: Arc<ServiceClock>,
    /// In microseconds since the epoch.
    stopped_at: u64,
    /// How far it was ahead then.
    ahead: u64,
}

impl StoppedClock {
    /// Where it stands.
    pub(crate) fn now(&self) -> SystemTime {
        self.clock.now()
    }

    /// Where it was when it was stopped.
    pub(crate) fn stopped_at(&self) -> SystemTime {
        UNIX_EPOCH + Duration::from_micros(self.stopped_at)
    }

    /// Moves it there, but never back.
    pub(crate) fn move_to(&mut self, instant: SystemTime) {
        if instant > self.now() {
            self.clock.set(Reading::Stands(microseconds_since_epoch(instant)));
        }
    }
}

impl Drop for StoppedClock {
    fn drop(&mut self) {
        let at = microseconds_since_epoch(self.now());
        let moved = at.saturating_sub(self.stopped_at);
        // The second is more if the machine's clock was set back meanwhile.
        let ahead = self.ahead.saturating_add(moved).max(at.saturating_sub(machine_microseconds()));
        self.clock.set(Reading::Goes(ahead));
        self.clock.moved.send_replace(());
    }
}

impl Reading {
    const fn bits(self) -> u64 {
        match self {
            Self::Goes(ahead) => ahead & !STANDS,
            Self::Stands(at) => at | STANDS,
        }
    }

    const fn of_bits(bits: u64) -> Self {
        match bits & STANDS {
            0 => Self::Goes(bits),
            _ => Self::Stands(bits & !STANDS),
        }
    }
}

fn machine_microseconds() -> u64 {
    microseconds_since_epoch(SystemTime::now())
}

fn microseconds_since_epoch(instant: SystemTime) -> u64 {
    let since = instant.duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_micros()).unwrap_or(u64::MAX) & !STANDS
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

/// The bit that tells the readings apart.
const STANDS: u64 = 1 << 63;

/// In microseconds.
const MILLISECOND: u64 = 1_000;

/// How often the clocks are compared: a token is honoured for so long after its end at most.
const CHECK_PERIOD: Duration = Duration::from_secs(1);

/// Clocks are read one after the other, and adjusted by small steps all the time.
const TOLERANCE: Duration = Duration::from_millis(250);

#[cfg(test)]
mod tests {
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
        let mut stopped = clock.stop();
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
                    let mut stopped = clock.stop();
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

        #[test]
        fn a_reading_is_what_it_was_made_of(value in 0_u64..STANDS, stands: bool) {
            let reading = if stands { Reading::Stands(value) } else { Reading::Goes(value) };
            prop_assert_eq!(Reading::of_bits(reading.bits()), reading);
        }
    }
}
