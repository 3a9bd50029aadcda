//! Locks that are renewed, and messages that are settled without a link.

use amqp::Value;

use super::super::settle::{DESCRIPTION, REASON};
use super::arguments::{Arguments, invalid};
use super::{Outcome, Request, done, refusal, single};
use queue_store::{QueueError, Settlement};

impl Request<'_> {
    pub(super) fn renew_locks(&self, arguments: &Arguments) -> Outcome {
        let queue = self.listened_queue()?;
        let tokens = arguments.lock_tokens()?;
        let renewed = queue.renew_locks(self.unix_time(), &tokens);
        let expirations: Result<Vec<Value>, QueueError> = renewed
            .into_iter()
            .map(|until| until.map(|until| Value::Timestamp(until.milliseconds())))
            .collect();
        let expirations = expirations.map_err(|error| refusal(&error))?;
        Ok(super::Answer::granted(200, single("expirations", Value::Array(expirations))))
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
        let settlement = match arguments.text("disposition-status")? {
            "completed" => Settlement::Complete,
            "abandoned" => Settlement::Abandon { properties: &properties },
            "defered" | "deferred" => Settlement::Defer { properties: &properties },
            "suspended" => Settlement::DeadLetter {
                reason: reason.or(named.0.as_deref()),
                description: description.or(named.1.as_deref()),
                properties: &properties,
            },
            other => {
                return Err(invalid(format!(
                    "'{other}' is not one of completed, abandoned, defered and suspended."
                )));
            }
        };
        let settled =
            queue.settle(self.unix_time(), &tokens, &settlement).map_err(|error| refusal(&error))?;
        if settled.refused.is_empty() {
            return Ok(done().after(settled.commit));
        }
        Err(refusal(&match queue.options().requires_session {
            true => QueueError::SessionLockLost,
            false => QueueError::MessageLockLost,
        }))
    }
}
