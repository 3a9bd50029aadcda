//! What clients are refused without an error on this side: messages that are rejected, and filters that are not applied.
//!
//! A client may take a rejection for a reason to send the message again at once, and say nothing of it. So rejected messages
//! are counted by entity and condition, and each kind is logged at most once in [`INTERVAL`], with how many there were since.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use amqp::performative::{DeliveryState, Error, ErrorCondition};
use tokio::time::Instant;

/// The refusals of one front end.
#[derive(Debug, Default)]
pub(crate) struct Rejections {
    messages: Mutex<HashMap<(String, ErrorCondition), Rejected>>,
    /// When links of an address were last reported.
    filters: Mutex<HashMap<String, Instant>>,
}

/// Messages rejected by one entity with one condition.
#[derive(Debug, Default)]
struct Rejected {
    count: u64,
    /// Of these, those since the last report.
    unreported: u64,
    reported_at: Option<Instant>,
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
        let mut messages = self.messages.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (entity.to_owned(), error.condition.clone());
        let key = match messages.len() < KINDS_MAX || messages.contains_key(&key) {
            true => key,
            // Entities come and go.
            false => (OTHERS.to_owned(), error.condition.clone()),
        };
        let rejected = messages.entry(key).or_default();
        rejected.count += 1;
        rejected.unreported += 1;
        let now = Instant::now();
        if rejected.reported_at.is_none_or(|at| now.duration_since(at) >= INTERVAL) {
            let count = std::mem::take(&mut rejected.unreported);
            rejected.reported_at = Some(now);
            drop(messages);
            tracing::warn!(
                entity,
                condition = error.condition.as_str(),
                messages = count,
                "messages are rejected: {}",
                error.description
            );
        }
    }

    /// Reports filters, by their names, that a receiver asked for at `address` and that are not applied.
    pub(crate) fn note_filters(&self, address: &str, filters: &[&str]) {
        let mut reported = self.filters.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        if reported.len() >= KINDS_MAX {
            reported.retain(|_, at| now.duration_since(*at) < INTERVAL);
        }
        let is_full = reported.len() >= KINDS_MAX;
        let is_news = match reported.entry(address.to_owned()) {
            Entry::Occupied(mut known) if now.duration_since(*known.get()) >= INTERVAL => {
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
        let messages = self.messages.lock().unwrap_or_else(PoisonError::into_inner);
        let mut counts: Vec<_> = messages
            .iter()
            .map(|((entity, condition), rejected)| {
                (entity.clone(), condition.as_str().to_owned(), rejected.count)
            })
            .collect();
        counts.sort_unstable();
        counts
    }
}

/// Time between two reports of one kind.
const INTERVAL: Duration = Duration::from_secs(60);

/// Kinds that are told apart.
const KINDS_MAX: usize = 4_096;

/// In place of an entity's name beyond that.
const OTHERS: &str = "(others)";

#[cfg(test)]
mod tests {
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
        let unreported = |rejections: &Rejections| {
            let messages = rejections.messages.lock().unwrap();
            messages[&("orders".to_owned(), ErrorCondition::SERVER_BUSY)].unreported
        };
        assert_eq!(unreported(&rejections), 2, "the first was reported");
        tokio::time::advance(INTERVAL).await;
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
