//! Sessions: their locks, their states, and which there are.

use amqp::Value;

use super::arguments::{Arguments, mistyped};
use partition_log::UnixTime;

use super::{Answer, Outcome, Request, done, not_in_transaction, nothing, refusal, single};

impl Request<'_> {
    pub(super) fn renew_session_lock(&self, arguments: &Arguments) -> Outcome {
        let queue = self.entity.queue()?;
        let session = arguments.text("session-id")?;
        let until = queue.renew_session_lock(self.unix_time(), session).map_err(|error| refusal(&error))?;
        let expiration = Value::Timestamp(self.client_clock().lock_end(until).milliseconds());
        Ok(Answer::granted(200, single("expiration", expiration)))
    }

    pub(super) fn session_state(&self, arguments: &Arguments) -> Outcome {
        let queue = self.entity.queue()?;
        let session = arguments.text("session-id")?;
        let state = queue.session_state(self.unix_time(), session).map_err(|error| refusal(&error))?;
        // Within a transaction it is what that makes it.
        let state = match self.work().as_ref().and_then(|(work, _)| work.session_state(queue, session)) {
            Some(set) => set.filter(|state| !state.is_empty()).map(<[u8]>::to_vec),
            None => state,
        };
        let state = state.map_or(Value::Null, Value::Binary);
        Ok(Answer::granted(200, single("session-state", state)))
    }

    pub(super) fn set_session_state(&self, arguments: &Arguments) -> Outcome {
        let queue = self.entity.queue()?;
        let session = arguments.text("session-id")?;
        let state = match arguments.find("session-state") {
            None => None,
            Some(Value::Binary(state)) => Some(&state[..]),
            Some(_) => return Err(mistyped("session-state", "binary or null")),
        };
        if let Some((mut work, _)) = self.work() {
            work.set_session_state(queue, self.unix_time(), session, state).map_err(not_in_transaction)?;
            return Ok(done());
        }
        let commit =
            queue.set_session_state(self.unix_time(), session, state).map_err(|error| refusal(&error))?;
        Ok(done().after(commit))
    }

    pub(super) fn sessions(&self, arguments: &Arguments) -> Outcome {
        let queue = self.entity.queue()?;
        let skip = arguments.count("skip")?;
        let top = arguments.count("top")?.min(SESSIONS_MAX);
        let sessions = match arguments.find(SET_AFTER) {
            None => queue.sessions(skip, top),
            Some(Value::Timestamp(after)) if *after >= EVERY_SESSION => queue.sessions(skip, top),
            Some(Value::Timestamp(after)) => {
                queue.sessions_by_state(UnixTime::from_milliseconds(*after), skip, top)
            }
            Some(_) => return Err(mistyped(SET_AFTER, "a timestamp")),
        };
        if sessions.is_empty() {
            return Ok(nothing());
        }
        let next = i32::try_from(skip.saturating_add(sessions.len())).unwrap_or(i32::MAX);
        let ids = sessions.into_iter().map(Value::String).collect();
        let body = Value::Map(vec![
            (Value::from("skip"), Value::Int(next)),
            (Value::from("sessions-ids"), Value::Array(ids)),
        ]);
        Ok(Answer::granted(200, body))
    }
}

/// Asks for sessions whose state was set later.
const SET_AFTER: &str = "last-updated-time";

/// With the last second of the year 9999 or later, clients ask for all sessions: with the greatest instant that .NET knows,
/// in milliseconds, which some of them round up.
const EVERY_SESSION: i64 = 253_402_300_799_000;

/// Most sessions that are told at once.
const SESSIONS_MAX: usize = 1_000;
