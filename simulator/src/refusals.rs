//! Events that a sink refuses for good, and what becomes of them.
//!
//! Which ones follows from the seed, the sink and the event's identity: whoever sends such an event there, alone or among
//! others, is told the same every time, for ever or until everything has healed.
//!
//! | | they are put aside | their partitions hold |
//! |---|---|---|
//! | refused for ever | everything is carried | each partition is carried up to its first one |
//! | refused until everything heals | everything is carried | everything is carried |
//!
//! Where the place of dead letters never takes any, partitions hold as well.

use connect::sink::{ErrorClass, SendError};
use units::{Random, mix};

use crate::concern;
use crate::config::between;

/// What sinks refuse for good.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Refusals {
    /// The probability that a sink refuses an event.
    pub ratio: f64,
    /// Whether the sinks take those events once everything has healed.
    pub end: bool,
    /// Where they are put aside; without it their partitions hold.
    pub dead_letters: Option<DeadLetterSink>,
}

/// Where the events go that a sink refuses for good.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DeadLetterSink {
    /// How many letters of one process may be unanswered before the sink is busy.
    pub unanswered_max: usize,
    /// How often the place is down for a while, beyond the crashes of the hub that it is at.
    pub outages: u32,
    /// Whether it is down from the beginning to the end.
    pub never_up: bool,
    /// Whether it is silent while it is down, or says so.
    pub silent: bool,
}

/// Why a sink refuses an event for good.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    Malformed,
    TooLarge,
}

impl Refusals {
    /// Those of a third of the histories.
    pub(crate) fn draw(seed: u64) -> Option<Self> {
        let random = &mut Random::for_concern(seed, concern::REFUSALS);
        let any = random.chance(0.34);
        let drawn = Self {
            ratio: [0.01, 0.05, 0.2][random.below(3) as usize],
            end: random.chance(0.3),
            dead_letters: random.chance(0.8).then(|| DeadLetterSink {
                unanswered_max: between(random, 1, 4) as usize,
                outages: [0, 1, 3][random.below(3) as usize],
                never_up: random.chance(0.1),
                silent: random.chance(0.5),
            }),
        };
        any.then_some(drawn)
    }

    /// Whether a sink refuses an event, and why. Identities of events are unique among all partitions.
    pub(crate) fn refusal(&self, seed: u64, sink: u32, id: u64) -> Option<Refusal> {
        let bits = mix(seed ^ concern::REFUSALS, u64::from(sink), id);
        // The upper half decides whether, the lowest bit why.
        let drawn = (bits >> 32) as f64 / f64::from(u32::MAX);
        let why = if bits & 1 == 0 { Refusal::Malformed } else { Refusal::TooLarge };
        (drawn < self.ratio).then_some(why)
    }

    /// Whether such an event keeps its partition from ever being carried to the end.
    pub(crate) fn hold_for_ever(&self) -> bool {
        !self.end && self.dead_letters.is_none_or(|dead_letters| dead_letters.never_up)
    }
}

impl Refusal {
    /// What the sink says.
    pub(crate) fn error(self) -> SendError {
        let (class, condition) = match self {
            Self::Malformed => (ErrorClass::Fatal, "amqp:decode-error"),
            Self::TooLarge => (ErrorClass::TooLarge, "amqp:link:message-size-exceeded"),
        };
        SendError {
            class,
            condition: condition.to_owned(),
            description: "as the seed has it, of this event".to_owned(),
        }
    }

    /// Which refusal for good has this condition, if one has. Other faults have conditions of their own.
    pub(crate) fn of_condition(condition: &str) -> Option<Self> {
        [Self::Malformed, Self::TooLarge].into_iter().find(|refusal| refusal.error().condition == condition)
    }
}
