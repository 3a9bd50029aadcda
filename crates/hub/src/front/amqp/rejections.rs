//! What clients are refused without an error on this side: messages that are rejected, and filters that are not applied.
//!
//! A client may take a rejection for a reason to send the message again at once, and say nothing of it. So rejected messages
//! are counted by entity and condition, and each kind is logged [at most once a minute](Refusals), with how many there were since.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{Mutex, PoisonError};

use amqp::performative::{DeliveryState, Error};
use tokio::time::Instant;

use crate::refusals::{Bound, LINE_INTERVAL, Refusals};

/// The refusals of one front end.
#[derive(Debug)]
pub(crate) struct Rejections {
    messages: Refusals,
    /// When links of an address were last reported.
    filters: Mutex<HashMap<String, Instant>>,
}

impl Default for Rejections {
    fn default() -> Self {
        // Entities come and go; conditions are few.
        let bound = Bound { kinds: KINDS_MAX, subject: OTHERS, code: None };
        Self { messages: Refusals::with_bound(bound), filters: Mutex::default() }
    }
}

impl Rejections {
    /// Counts a message if this outcome rejects it. `entity` is the name of the hub, queue or topic, or of a node for requests.
    #[cold]
    pub(crate) fn note_outcome(&self, entity: &str, outcome: &DeliveryState) {
        if let DeliveryState::Rejected(Some(error)) = outcome {
            self.note(entity, error);
        }
    }

    /// Counts a rejected message.
    #[cold]
    pub(crate) fn note(&self, entity: &str, error: &Error) {
        let condition = error.condition.as_str();
        if let Some(messages) = self.messages.note(entity, condition, 1) {
            tracing::warn!(entity, condition, messages, "messages are rejected: {}", error.description);
        }
    }

    /// Reports filters, by their names, that a receiver asked for at `address` and that are not applied.
    pub(crate) fn note_filters(&self, address: &str, filters: &[&str]) {
        let mut reported = self.filters.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        if reported.len() >= KINDS_MAX {
            reported.retain(|_, at| now.duration_since(*at) < LINE_INTERVAL);
        }
        let is_full = reported.len() >= KINDS_MAX;
        let is_news = match reported.entry(address.to_owned()) {
            Entry::Occupied(mut known) if now.duration_since(*known.get()) >= LINE_INTERVAL => {
                known.insert(now);
                true
            }
            Entry::Vacant(vacant) if !is_full => {
                vacant.insert(now);
                true
            }
            Entry::Occupied(_) | Entry::Vacant(_) => false,
        };
        drop(reported);
        if is_news {
            tracing::warn!(
                address,
                ?filters,
                "filters of a receiver are not applied: it gets what they would hold back"
            );
        }
    }

    /// The messages rejected since the start, by entity and condition.
    pub(crate) fn counts(&self) -> Vec<(String, String, u64)> {
        self.messages.counts()
    }
}

/// Kinds that are told apart.
const KINDS_MAX: usize = 4_096;

/// In place of an entity's name beyond that.
const OTHERS: &str = "(others)";

#[cfg(test)]
mod tests {
    use amqp::performative::ErrorCondition;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn each_kind_is_counted_and_reported_once_in_an_interval() {
        let rejections = Rejections::default();
        let busy = Error::new(ErrorCondition::SERVER_BUSY, "The queue is full.");
        let decode = Error::new(ErrorCondition::DECODE_ERROR, "The message is malformed.");
        for _ in 0..3 {
            rejections.note("orders", &busy);
        }
        rejections.note("orders", &decode);
        rejections.note_outcome("news", &DeliveryState::Rejected(Some(busy.clone())));
        rejections.note_outcome("news", &DeliveryState::Accepted);
        let unreported =
            |rejections: &Rejections| rejections.messages.unlogged("orders", "com.microsoft:server-busy");
        assert_eq!(unreported(&rejections), 2, "the first was reported");
        tokio::time::advance(LINE_INTERVAL).await;
        rejections.note("orders", &busy);
        assert_eq!(unreported(&rejections), 0);
        let counted = |entity: &str, condition: &str, count| (entity.to_owned(), condition.to_owned(), count);
        assert_eq!(
            rejections.counts(),
            [
                counted("news", "com.microsoft:server-busy", 1),
                counted("orders", "amqp:decode-error", 1),
                counted("orders", "com.microsoft:server-busy", 4),
            ]
        );
    }

    #[test]
    fn the_names_of_entities_that_come_and_go_take_no_more_room_than_there_is() {
        let rejections = Rejections::default();
        let error = Error::new(ErrorCondition::SERVER_BUSY, "");
        for number in 0..2 * KINDS_MAX {
            rejections.note(&format!("queue-{number}"), &error);
            rejections.note_filters(&format!("queue-{number}"), &["x:y"]);
        }
        let counts = rejections.counts();
        assert_eq!(counts.len(), KINDS_MAX + 1);
        assert_eq!(counts.iter().map(|(.., count)| count).sum::<u64>(), 2 * KINDS_MAX as u64);
        assert!(rejections.filters.lock().unwrap().len() <= KINDS_MAX);
    }
}
