//! What is wrong at present, cause by cause.
//!
//! ```text
//!   occurs, holds, outage ──► told once ──► … again and again, silently … ──► well for a while ──► told that it is over
//! ```
//!
//! A cause is a place and a condition: however many partitions meet it, and however often, the log has one line. It is
//! over when nothing is held up by it any more and it has not been seen for [`QUIET`], so that what comes and goes does
//! not fill the log either.

use std::collections::BTreeSet;
use std::fmt;
use std::time::{Duration, Instant};

use connect::checkpoint::StoreError;
use connect::event::PartitionId;
use connect::service::ServiceError;
use connect::sink::{ErrorClass, SendError};
use connect::source::SourceError;

use super::{Partitions, Place, Reason};

/// Why something fails: a name that is the same for the same cause, and a text for a person.
pub(crate) trait Cause: fmt::Display {
    /// The name.
    fn condition(&self) -> &str;

    /// What can be done about it.
    fn class(&self) -> ErrorClass;
}

/// All that is wrong.
#[derive(Debug, Default)]
pub(crate) struct Troubles {
    all: Vec<Trouble>,
    last_errors: Vec<(Place, ErrorClass, String, Instant)>,
}

/// One cause.
#[derive(Debug)]
struct Trouble {
    place: Place,
    condition: String,
    /// The cause as it was first seen.
    text: String,
    began: Instant,
    /// When it was seen last, or became well.
    seen: Instant,
    count: u64,
    /// Whether it holds the whole place up.
    whole: bool,
    /// Whether it did so, and the place is held up by another cause since then: the outage is not over.
    superseded: bool,
    /// The partitions that it holds up.
    partitions: BTreeSet<PartitionId>,
    told: bool,
}

/// A line for the log.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum News {
    /// A cause that was not there before.
    Began {
        place: Place,
        condition: String,
        text: String,
        /// The partitions that it holds up; none where it holds up all or none.
        partitions: String,
    },
    /// It is over.
    Over { place: Place, condition: String, lasted: Duration, count: u64 },
}

impl Troubles {
    /// Whether there is nothing to look at.
    #[inline]
    pub(crate) const fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Something failed, and is tried again.
    pub(crate) fn occurs(&mut self, place: Place, cause: &dyn Cause, now: Instant) {
        self.trouble(place, cause, now);
    }

    /// Something failed, and keeps a partition from making progress until it [`heals`](Self::heals).
    pub(crate) fn holds(&mut self, place: Place, partition: PartitionId, cause: &dyn Cause, now: Instant) {
        self.trouble(place, cause, now).partitions.insert(partition);
    }

    /// Why a place can't be used as a whole, or that it can.
    #[inline]
    pub(crate) fn outage(&mut self, place: Place, outage: Option<&dyn Cause>, now: Instant) {
        match outage {
            Some(cause) => self.outage_of(place, cause, now),
            None if self.all.is_empty() => {}
            None => self.end_outage(place, now),
        }
    }

    #[cold]
    fn outage_of(&mut self, place: Place, cause: &dyn Cause, now: Instant) {
        let condition = clipped(cause.condition(), CONDITION_BYTES_MAX);
        let mut known = self.all.iter().filter(|trouble| trouble.whole);
        if known.any(|trouble| trouble.place == place && trouble.condition == condition) {
            return;
        }
        // One outage may go through several causes: lost, then unreachable.
        for trouble in self.all.iter_mut().filter(|trouble| trouble.place == place && trouble.whole) {
            (trouble.whole, trouble.superseded) = (false, true);
        }
        let trouble = self.trouble(place, cause, now);
        (trouble.whole, trouble.superseded) = (true, false);
    }

    fn end_outage(&mut self, place: Place, now: Instant) {
        for trouble in &mut self.all {
            if trouble.place == place && (trouble.whole || trouble.superseded) {
                (trouble.whole, trouble.superseded) = (false, false);
                trouble.seen = now;
            }
        }
    }

    /// Whether a place can't be used as a whole.
    pub(crate) fn is_out(&self, place: Place) -> bool {
        self.all.iter().any(|trouble| trouble.place == place && trouble.whole)
    }

    /// A partition makes progress at a place again.
    pub(crate) fn heals(&mut self, place: Place, partition: PartitionId, now: Instant) {
        for trouble in &mut self.all {
            if trouble.place == place && trouble.partitions.remove(&partition) {
                trouble.seen = now;
            }
        }
    }

    /// A partition is no concern of this relay any more.
    pub(crate) fn forget(&mut self, partition: PartitionId, now: Instant) {
        for trouble in &mut self.all {
            if trouble.partitions.remove(&partition) {
                trouble.seen = now;
            }
        }
    }

    /// The partitions that are held up at a place.
    pub(crate) fn held(&self, place: Place) -> BTreeSet<PartitionId> {
        let of_place = self.all.iter().filter(|trouble| trouble.place == place);
        of_place.flat_map(|trouble| trouble.partitions.iter().copied()).collect()
    }

    /// What there is to tell the log now.
    pub(crate) fn news(&mut self, now: Instant) -> Vec<News> {
        let mut news = Vec::new();
        for trouble in &mut self.all {
            if !trouble.told {
                trouble.told = true;
                let partitions: Vec<_> = trouble.partitions.iter().copied().collect();
                news.push(News::Began {
                    place: trouble.place,
                    condition: trouble.condition.clone(),
                    text: trouble.text.clone(),
                    partitions: Partitions(&partitions).to_string(),
                });
            }
        }
        self.all.retain(|trouble| {
            let is_over = trouble.quiet_at().is_some_and(|quiet_at| quiet_at <= now);
            if is_over {
                news.push(News::Over {
                    place: trouble.place,
                    condition: trouble.condition.clone(),
                    lasted: trouble.seen.saturating_duration_since(trouble.began),
                    count: trouble.count,
                });
            }
            !is_over
        });
        news
    }

    /// When there may be something to tell by the clock alone.
    pub(crate) fn next_deadline(&self) -> Option<Instant> {
        self.all.iter().filter_map(Trouble::quiet_at).min()
    }

    /// What keeps the relay from being ready.
    pub(crate) fn reasons(&self, now: Instant) -> Vec<Reason> {
        let holding = self.all.iter().filter(|trouble| trouble.holds_up());
        holding
            .map(|trouble| Reason {
                place: trouble.place,
                condition: trouble.condition.clone(),
                description: trouble.text.clone(),
                lasted: now.saturating_duration_since(trouble.began),
                partitions: match trouble.whole {
                    true => Vec::new(),
                    false => trouble.partitions.iter().copied().collect(),
                },
            })
            .collect()
    }

    /// The last error of each place, and when it was seen.
    pub(crate) fn last_errors(&self) -> &[(Place, ErrorClass, String, Instant)] {
        &self.last_errors
    }

    fn trouble(&mut self, place: Place, cause: &dyn Cause, now: Instant) -> &mut Trouble {
        self.note_last(place, cause, now);
        let condition = clipped(cause.condition(), CONDITION_BYTES_MAX);
        let find = |all: &[Trouble], condition: &str| {
            all.iter().position(|trouble| trouble.place == place && trouble.condition == condition)
        };
        let room = self.all.len() < TROUBLES_MAX;
        let condition = match find(&self.all, condition) {
            None if !room => OTHER,
            _ => condition,
        };
        let index = find(&self.all, condition).unwrap_or_else(|| {
            self.all.push(Trouble {
                place,
                condition: condition.to_owned(),
                text: clipped(&cause.to_string(), TEXT_BYTES_MAX).to_owned(),
                began: now,
                seen: now,
                count: 0,
                whole: false,
                superseded: false,
                partitions: BTreeSet::new(),
                told: false,
            });
            self.all.len() - 1
        });
        let trouble = &mut self.all[index];
        trouble.seen = now;
        trouble.count += 1;
        trouble
    }

    fn note_last(&mut self, place: Place, cause: &dyn Cause, now: Instant) {
        let condition = clipped(cause.condition(), CONDITION_BYTES_MAX);
        match self.last_errors.iter_mut().find(|last| last.0 == place) {
            Some(last) => {
                (last.1, last.3) = (cause.class(), now);
                if last.2 != condition {
                    condition.clone_into(&mut last.2);
                }
            }
            None => self.last_errors.push((place, cause.class(), condition.to_owned(), now)),
        }
    }
}

impl Trouble {
    fn holds_up(&self) -> bool {
        self.whole || !self.partitions.is_empty()
    }

    /// When it is over, unless something happens until then.
    fn quiet_at(&self) -> Option<Instant> {
        (!self.holds_up() && !self.superseded).then(|| self.seen + QUIET)
    }
}

impl Cause for ServiceError {
    fn condition(&self) -> &str {
        &self.condition
    }

    fn class(&self) -> ErrorClass {
        self.class
    }
}

impl Cause for SourceError {
    fn condition(&self) -> &str {
        &self.condition
    }

    fn class(&self) -> ErrorClass {
        self.class
    }
}

impl Cause for SendError {
    fn condition(&self) -> &str {
        &self.condition
    }

    fn class(&self) -> ErrorClass {
        self.class
    }
}

impl Cause for StoreError {
    fn condition(&self) -> &str {
        match self {
            Self::File { .. } => "store:file",
            Self::Damaged { .. } | Self::DamagedCheckpoint { .. } => "store:damaged",
            Self::InUse { .. } => "store:in-use",
            Self::OffsetTooLong { .. } => "store:offset-too-long",
            Self::NotOwner { .. } => "store:not-owner",
            Self::NoCondition => "store:no-condition",
            Self::Membership { .. } => "store:membership",
            Self::Unavailable { .. } => "store:unavailable",
            Self::Refused { .. } => "store:refused",
            Self::NoContainer { .. } => "store:no-container",
        }
    }

    fn class(&self) -> ErrorClass {
        match self {
            Self::File { .. } | Self::NotOwner { .. } | Self::Unavailable { .. } => ErrorClass::Retryable,
            Self::Damaged { .. }
            | Self::DamagedCheckpoint { .. }
            | Self::InUse { .. }
            | Self::OffsetTooLong { .. }
            | Self::NoCondition
            | Self::Membership { .. }
            | Self::Refused { .. }
            | Self::NoContainer { .. } => ErrorClass::Fatal,
        }
    }
}

/// A cause of the relay's own, which is its own name.
impl Cause for &'static str {
    fn condition(&self) -> &str {
        self
    }

    fn class(&self) -> ErrorClass {
        ErrorClass::Retryable
    }
}

/// At most so many bytes of a text, which may be a peer's.
fn clipped(text: &str, bytes: usize) -> &str {
    &text[..text.floor_char_boundary(bytes)]
}

/// For so long a cause is well before it counts as over. Longer than a partition rests, and than a retry waits at first.
const QUIET: Duration = Duration::from_secs(5);

/// Causes that are told apart at once. A peer could name each of its errors differently.
const TROUBLES_MAX: usize = 32;

/// What the further ones are called.
const OTHER: &str = "other";

const CONDITION_BYTES_MAX: usize = 100;

const TEXT_BYTES_MAX: usize = 500;

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(condition: &str, description: &str) -> SourceError {
        SourceError {
            class: ErrorClass::Retryable,
            condition: condition.to_owned(),
            description: description.to_owned(),
        }
    }

    fn told(news: &[News]) -> Vec<String> {
        news.iter()
            .map(|news| match news {
                News::Began { condition, partitions, .. } => format!("{condition} [{partitions}]"),
                News::Over { condition, lasted, count, .. } => {
                    format!("{condition} over after {lasted:?}, {count}")
                }
            })
            .collect()
    }

    #[test]
    fn a_cause_is_reported_once_for_all_partitions_and_once_when_it_is_over() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut troubles = Troubles::default();
        for partition in [2, 0, 1] {
            let error = refused("amqp:not-found", &format!("partition {partition}"));
            troubles.holds(Place::Source, PartitionId(partition), &error, at(0));
        }
        assert_eq!(told(&troubles.news(at(0))), ["amqp:not-found [0-2]"]);
        for second in 1..60 {
            let error = refused("amqp:not-found", "again");
            troubles.holds(Place::Source, PartitionId(0), &error, at(second));
            assert_eq!(troubles.news(at(second)), []);
        }
        assert_eq!(troubles.reasons(at(60)).len(), 1);
        for partition in 0..3 {
            troubles.heals(Place::Source, PartitionId(partition), at(60));
        }
        assert!(troubles.reasons(at(60)).is_empty(), "ready at once");
        assert_eq!(troubles.news(at(64)), [], "and told when it has lasted");
        assert_eq!(troubles.next_deadline(), Some(at(65)));
        let over = told(&troubles.news(at(65)));
        assert_eq!(over, ["amqp:not-found over after 60s, 62"]);
        assert!(troubles.is_empty());
    }

    #[test]
    fn what_comes_and_goes_is_one_trouble_until_it_has_been_quiet() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut troubles = Troubles::default();
        let busy = refused("com.microsoft:server-busy", "slow down");
        let mut lines = 0;
        for second in 0..20 {
            troubles.occurs(Place::Sink, &busy, at(second));
            lines += troubles.news(at(second)).len();
        }
        assert_eq!(lines, 1);
        assert!(troubles.reasons(at(20)).is_empty(), "throttling is no reason");
        assert_eq!(troubles.news(at(40)).len(), 1);
    }

    #[test]
    fn an_outage_may_change_its_cause_and_ends_as_one() {
        let now = Instant::now();
        let mut troubles = Troubles::default();
        let [lost, unreachable] = ["connection:lost", "connection:unreachable"].map(|condition| {
            let refused = refused(condition, "gone");
            ServiceError {
                class: refused.class,
                condition: refused.condition,
                description: refused.description,
            }
        });
        for _ in 0..3 {
            troubles.outage(Place::Sink, Some(&lost), now);
        }
        troubles.outage(Place::Sink, Some(&unreachable), now);
        troubles.outage(Place::Source, None, now);
        assert_eq!(troubles.news(now).len(), 2);
        let later = now + Duration::from_secs(60);
        let reasons = troubles.reasons(later);
        assert_eq!(reasons.len(), 1);
        assert_eq!(reasons[0].condition, "connection:unreachable");
        assert_eq!(troubles.news(later), [], "neither is over as long as the outage lasts");
        troubles.outage(Place::Sink, None, later);
        assert!(troubles.reasons(later).is_empty());
        assert_eq!(
            told(&troubles.news(later + QUIET)),
            ["connection:lost over after 60s, 1", "connection:unreachable over after 60s, 1"]
        );
    }

    #[test]
    fn a_peer_with_a_new_name_for_every_error_fills_neither_log_nor_memory() {
        let now = Instant::now();
        let mut troubles = Troubles::default();
        for number in 0..10_000 {
            let error = refused(&format!("example:{number}:{}", "é".repeat(200)), "why");
            troubles.occurs(Place::Sink, &error, now);
        }
        assert_eq!(troubles.news(now).len(), TROUBLES_MAX + 1);
        assert_eq!(troubles.last_errors().len(), 1);
        assert!(troubles.last_errors()[0].2.len() <= CONDITION_BYTES_MAX);
    }
}
