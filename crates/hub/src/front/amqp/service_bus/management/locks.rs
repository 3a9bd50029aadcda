//! Locks that are renewed, and messages that are settled without a link.

use amqp::Value;

use super::super::settle::{DESCRIPTION, Decision, REASON, take_text};
use super::arguments::{Arguments, invalid};
use super::{Answer, Outcome, Request, done, not_in_transaction, refusal, single};
use queue_store::QueueError;

impl Request<'_> {
    pub(super) fn renew_locks(&self, arguments: &Arguments) -> Outcome {
        let queue = self.entity.queue()?;
        let tokens = arguments.lock_tokens()?;
        let renewed = queue.renew_locks(self.unix_time(), &tokens);
        let clock = self.client_clock();
        let expirations: Result<Vec<Value>, QueueError> = renewed
            .into_iter()
            .map(|until| until.map(|until| Value::Timestamp(clock.lock_end(until).milliseconds())))
            .collect();
        let expirations = expirations.map_err(|error| refusal(&error))?;
        Ok(Answer::granted(200, single("expirations", Value::Array(expirations))))
    }

    pub(super) fn update_disposition(&self, arguments: &Arguments) -> Outcome {
        let queue = self.entity.queue()?;
        let tokens = arguments.lock_tokens()?;
        let mut properties = arguments.properties("properties-to-modify")?;
        // Some clients put them among the properties too, where they are meant for the message all the same.
        let named = (take_text(&mut properties, REASON), take_text(&mut properties, DESCRIPTION));
        let reason = arguments.optional_text("deadletter-reason")?;
        let description = arguments.optional_text("deadletter-description")?;
        let decision = match arguments.text("disposition-status")? {
            "completed" => Decision::Complete,
            "abandoned" => Decision::Abandon { properties },
            "defered" | "deferred" => Decision::Defer { properties },
            "suspended" => Decision::DeadLetter {
                reason: reason.map(str::to_owned).or(named.0),
                description: description.map(str::to_owned).or(named.1),
                properties,
            },
            other => {
                return Err(invalid(format!(
                    "'{other}' is not one of completed, abandoned, defered and suspended."
                )));
            }
        };
        let session = match arguments.optional_text("session-id")? {
            Some(id) if queue.options().requires_session => Some(self.held_session(queue, id)?),
            _ => None,
        };
        let now = self.unix_time();
        if let Some((mut work, _)) = self.work() {
            let lost =
                work.settle(queue, session.as_ref(), now, decision, &tokens).map_err(not_in_transaction)?;
            return match lost.first() {
                None => Ok(done()),
                Some((_, why)) => Err(refusal(why)),
            };
        }
        let settled = queue.settle(now, &tokens, &decision.settlement()).map_err(|error| refusal(&error))?;
        match settled.refused.first() {
            None => Ok(done().after(settled.commit)),
            Some(token) => Err(refusal(&queue.why_lost(now, token, session.as_ref()))),
        }
    }
}
