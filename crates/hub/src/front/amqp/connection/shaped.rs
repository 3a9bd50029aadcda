//! A send as a service profile has it: late, refused, or the end of its link or connection.

use amqp::message::{FORMAT_BATCH, SectionKind, Sections};
use amqp::performative::{DeliveryState, Error};
use tokio::time::Instant;

use crate::front::amqp::conditions;
use crate::front::pending::Until;
use crate::profile::{Fate, Shaped, Shaper};
use partition_log::disk::CommitNumber;

/// The outcome of a delivery, and when the client gets it.
#[derive(Debug)]
pub(crate) struct Told {
    pub(crate) state: DeliveryState,
    pub(crate) until: Until,
}

/// What a service profile breaks.
#[derive(Debug)]
pub(crate) enum Breakage {
    /// The link of the delivery, with the error for the client.
    Link(Error),
    /// All of it, without a word.
    Connection,
}

impl Told {
    /// Told at once; nothing was stored.
    pub(crate) fn now(state: DeliveryState) -> Self {
        Self { state, until: Until::NOW }
    }

    /// Told once what was stored is committed; if it was refused, at once.
    pub(crate) fn stored(stored: Result<CommitNumber, DeliveryState>) -> Self {
        match stored {
            Ok(commit) => Self { state: DeliveryState::Accepted, until: Until { commit, instant: None } },
            Err(refusal) => Self::now(refusal),
        }
    }

    /// The same, not before `at` either.
    pub(crate) fn not_before(self, at: Option<Instant>) -> Self {
        let instant = self.until.instant.max(at);
        Self { until: Until { instant, ..self.until }, ..self }
    }
}

/// Stores a message for `entity` as a service profile has it, in the namespace that clients know as `host`. One that the quota
/// refuses is counted.
#[cold]
pub(crate) fn shaped(
    shaper: &mut Shaper,
    (host, entity): (&str, &str),
    count_throttled: impl FnOnce(),
    format: u32,
    message: &[u8],
    store: impl FnOnce() -> Result<CommitNumber, DeliveryState>,
) -> Result<Told, Breakage> {
    let Shaped { fate, ready_at } =
        shaper.send(Instant::now(), entity, message.len() as u64, || event_count(format, message));
    let told = match fate {
        Fate::Succeeds => Told::stored(store()),
        Fate::Fails => Told::now(conditions::failed_on_purpose()),
        Fate::Throttled(_) => {
            count_throttled();
            Told::now(conditions::throttled(host))
        }
        Fate::Unacknowledged => {
            let _unsaid = store();
            Told::now(conditions::timed_out_on_purpose())
        }
        Fate::Detached => return Err(Breakage::Link(conditions::detached_on_purpose())),
        Fate::Disconnected => {
            let _unsaid = store();
            return Err(Breakage::Connection);
        }
    };
    Ok(told.not_before(ready_at))
}

/// How many events a message holds. One that can't be read counts as one; the store will refuse it.
fn event_count(format: u32, message: &[u8]) -> u64 {
    if format != FORMAT_BATCH {
        return 1;
    }
    let sections = Sections::new(message).map_while(Result::ok);
    let events = sections.filter(|section| section.kind == SectionKind::Data);
    (events.count() as u64).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_has_an_event_per_data_section_and_anything_else_is_one() {
        let three = b"\x00\x53\x75\xa0\x01a\x00\x53\x75\xa0\x01b\x00\x53\x75\xa0\x01c";
        assert_eq!(event_count(FORMAT_BATCH, three), 3);
        assert_eq!(event_count(amqp::message::FORMAT_AMQP, three), 1);
        assert_eq!(event_count(FORMAT_BATCH, b"not a message"), 1);
    }
}
