//! Locks that are renewed, and messages that are settled without a link.

use amqp::Value;

use super::super::settle::{DESCRIPTION, Decision, REASON};
use super::arguments::{Arguments, invalid};
use super::{Answer, Outcome, Request, done, refusal, single};
use queue_store::{Queue, QueueError};

impl Request<'_> {
    pub(super) fn renew_locks(&self, arguments: &Arguments) -> Outcome {
        let queue = self.listened_queue()?;
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
        let queue = self.listened_queue()?;
        let tokens = arguments.lock_tokens()?;
        let mut properties = arguments.properties("properties-to-modify")?;
        let mut take = |name: &str| {
            let at = properties.iter().position(|(found, _)| found == name)?;
            properties.remove(at).1.as_text().map(str::to_owned)
        };
        // Some clients put them among the properties too, where they are meant for the message all the same.
        let named = (take(REASON), take(DESCRIPTION));
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
        if let Some(work) = &self.transaction {
            let lost = work
                .borrow_mut()
                .settle(queue, self.unix_time(), decision, &tokens)
                .map_err(|error| Answer::failed(400, error.condition, error.description))?;
            return match lost.is_empty() {
                true => Ok(done()),
                false => Err(lock_lost(queue)),
            };
        }
        let settled = queue
            .settle(self.unix_time(), &tokens, &decision.settlement())
            .map_err(|error| refusal(&error))?;
        if settled.refused.is_empty() {
            return Ok(done().after(settled.commit));
        }
        Err(lock_lost(queue))
    }
}

fn lock_lost(queue: &Queue) -> Answer {
    refusal(&match queue.options().requires_session {
        true => QueueError::SessionLockLost,
        false => QueueError::MessageLockLost,
    })
}
