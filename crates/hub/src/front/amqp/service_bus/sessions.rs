//! Links to sessions, and those that wait for one.
//!
//! A client asks for a session by a filter of its source: by name, or with null for the next one that has messages and
//! nobody. Where there is none, the answer is held back until there is, or until the client's time is over. The answer
//! repeats the filter in the form in which it came, with the session that it has become.

use std::time::Duration;

use amqp::codec::{Symbol, Value};
use amqp::connection::LinkAcceptance;
use amqp::performative::{Attach, Error, ErrorCondition, Source};
use tokio::time::Instant;

use super::conditions;
use super::incoming::SESSION_ID_MAX;
use crate::clock::ClientClock;
use crate::front::amqp::links::terminus::{Distribution, FilterKind, source_in_effect};
use partition_log::UnixTime;
use queue_store::{Awaited, Found, Queue, QueueError, ReceiveMode, SessionLock, Waiter};

/// A link that waits for the next session.
#[derive(Debug)]
pub(crate) struct HeldAttach {
    waiter: Waiter,
    mode: ReceiveMode,
    source: Source,
    deadline: Instant,
}

/// What became of a held attach.
#[derive(Debug)]
pub(crate) enum Held {
    /// It goes on waiting.
    Waiting(HeldAttach),
    /// It has its session.
    Granted { waiter: Waiter, mode: ReceiveMode, lock: SessionLock, acceptance: LinkAcceptance },
    /// It is refused.
    Refused(Error),
}

/// The session that a client asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WantedSession<'a> {
    Named(&'a str),
    Next,
}

impl HeldAttach {
    pub(super) fn new(waiter: Waiter, mode: ReceiveMode, attach: &Attach) -> Self {
        let timeout = attach
            .property(TIMEOUT)
            .and_then(Value::as_integer)
            .and_then(|milliseconds| u64::try_from(milliseconds).ok())
            .map_or(DEFAULT_TIMEOUT, Duration::from_millis);
        Self {
            waiter,
            mode,
            source: attach.source.clone().unwrap_or_default(),
            deadline: Instant::now() + timeout.min(LONGEST_TIMEOUT),
        }
    }

    /// When its time is over.
    pub(crate) const fn deadline(&self) -> Instant {
        self.deadline
    }

    /// Looks for a session; otherwise the waiter's key is reported when there is one.
    pub(crate) fn look(mut self, now: UnixTime, clock: ClientClock) -> Held {
        loop {
            match self.waiter.queue().accept_session(now, None) {
                Err(error) => return Held::Refused(conditions::error_of(&error)),
                Ok(Some(lock)) => {
                    return Held::Granted {
                        acceptance: acceptance(&self.source, &lock, clock),
                        waiter: self.waiter,
                        mode: self.mode,
                        lock,
                    };
                }
                Ok(None) if Instant::now() >= self.deadline => {
                    let text = "No session with messages became available in the time that was given.";
                    return Held::Refused(Error::new(ErrorCondition::TIMEOUT, text));
                }
                Ok(None) => match self.waiter.arm(now, Awaited::NextSession) {
                    Found::Something => {}
                    Found::Nothing => return Held::Waiting(self),
                },
            }
        }
    }
}

/// The session that a source asks for, if it asks for any.
///
/// # Errors
/// The filter is none, or names a session that there can't be.
pub(super) fn wanted_session(source: &Source) -> Result<Option<WantedSession<'_>>, Error> {
    if FilterKind::NonExclusiveSession.find(source).is_some() {
        return Err(Error::new(ErrorCondition::NOT_ALLOWED, NON_EXCLUSIVE));
    }
    let Some((_, value)) = FilterKind::Session.find(source) else {
        return Ok(None);
    };
    match value {
        Value::Null => Ok(Some(WantedSession::Next)),
        value => match value.as_text() {
            Some(session) if session.chars().count() > SESSION_ID_MAX => Err(Error::new(
                ErrorCondition::ARGUMENT_OUT_OF_RANGE,
                format!("The session id is longer than {SESSION_ID_MAX} characters."),
            )),
            Some(session) => Ok(Some(WantedSession::Named(session))),
            None => Err(Error::new(
                ErrorCondition::INVALID_FIELD,
                "The session filter is neither the id of a session nor null.",
            )),
        },
    }
}

/// Locks a session by its name.
pub(super) fn accept_named(queue: &Queue, session: &str, now: UnixTime) -> Result<SessionLock, QueueError> {
    let lock = queue.accept_session(now, Some(session))?;
    Ok(lock.expect("a session that is named can be had or not, but not be awaited"))
}

/// What a client is answered that gets this session.
pub(super) fn acceptance(source: &Source, lock: &SessionLock, clock: ClientClock) -> LinkAcceptance {
    let filter = session_filter(source, lock.id());
    let locked_until = Value::Long(ticks(clock.lock_end(lock.locked_until())));
    LinkAcceptance {
        properties: vec![(Symbol::from_static(LOCKED_UNTIL), locked_until)],
        source: Some(source_in_effect(source, Some(Distribution::Move), filter)),
        ..LinkAcceptance::default()
    }
}

/// The filter of `source` that asks for a session, in the form in which it came, with the session that it has become.
pub(super) fn session_filter(source: &Source, session: &str) -> Vec<(Symbol, Value)> {
    let asked = FilterKind::Session.find(source).map(|(place, _)| source.filter[place].clone());
    let granted = asked.map(|(key, value)| {
        let id = Value::from(session);
        let value = match value {
            Value::Described(described) => Value::Described(Box::new((described.0, id))),
            _ => id,
        };
        (key, value)
    });
    granted.into_iter().collect()
}

/// An instant as .NET counts it: in steps of 100 ns since the year 1.
fn ticks(time: UnixTime) -> i64 {
    time.milliseconds().saturating_mul(TICKS_PER_MILLISECOND).saturating_add(TICKS_BEFORE_1970)
}

const TICKS_PER_MILLISECOND: i64 = 10_000;
const TICKS_BEFORE_1970: i64 = 621_355_968_000_000_000;

/// What a client is told that would share a session. The .NET client looks for the words behind the name.
const NON_EXCLUSIVE: &str = "'com.microsoft:non-exclusive-session-filter' is an invalid filter type: sessions that several \
                             receivers share are not supported.";

/// Link property of the answer: until when the session is locked.
const LOCKED_UNTIL: &str = "com.microsoft:locked-until-utc";

/// Link property of the request: milliseconds that the client waits.
const TIMEOUT: &str = "com.microsoft:timeout";

/// How long a client waits that does not say.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(60);

/// The longest that an attach is held.
const LONGEST_TIMEOUT: Duration = Duration::from_secs(3_600);

#[cfg(test)]
mod tests {
    use super::*;

    fn source(value: Value) -> Source {
        let key = Symbol::from_static("com.microsoft:session-filter");
        Source { filter: vec![(key, value)], ..Source::new("orders") }
    }

    #[test]
    fn a_session_is_asked_for_plainly_or_described_by_name_or_as_the_next() {
        let described = |value| Value::Described(Box::new((Value::Ulong(0x0137_0000_000c), value)));
        for (value, wanted) in [
            (Value::from("one"), WantedSession::Named("one")),
            (described(Value::from("one")), WantedSession::Named("one")),
            (Value::Null, WantedSession::Next),
            (described(Value::Null), WantedSession::Next),
        ] {
            assert_eq!(wanted_session(&source(value)), Ok(Some(wanted)));
        }
        assert_eq!(wanted_session(&Source::new("orders")), Ok(None));
        assert!(wanted_session(&source(Value::Int(1))).is_err());
    }

    #[test]
    fn non_exclusive_session_is_refused_in_words_of_clients() {
        let list = Value::List(vec![Value::from("one"), Value::Null]);
        let described = |descriptor| Value::Described(Box::new((descriptor, list.clone())));
        let by_name = described(Value::Symbol("com.microsoft:non-exclusive-session-filter:list".into()));
        let by_code = described(Value::Ulong(83_483_426_830));
        for (name, value) in [("com.microsoft:non-exclusive-session-filter", by_name), ("any", by_code)] {
            let filter = vec![(Symbol::from(name), value)];
            let error = wanted_session(&Source { filter, ..Source::new("orders") }).unwrap_err();
            assert_eq!(error.condition, ErrorCondition::NOT_ALLOWED);
            let text = &error.description;
            let named = text.find("'com.microsoft:non-exclusive-session-filter'").unwrap();
            assert!(text[named..].contains("invalid filter type"), "{text}");
        }
    }

    #[test]
    fn an_instant_is_written_in_ticks() {
        assert_eq!(ticks(UnixTime::from_milliseconds(0)), TICKS_BEFORE_1970);
        assert_eq!(ticks(UnixTime::from_milliseconds(1)), TICKS_BEFORE_1970 + 10_000);
    }
}
