//! How much is in progress at once, and what goes from sink to sink by itself.
//!
//! Without a [`Strategy`] a batch does. With one each event does:
//!
//! | strategy | events at once | sinks that have an event at once |
//! |---|---|---|
//! | `serial` | 1 | 1, in the order of the list |
//! | `parallel-sinks` | 1 | all, or `sinks` |
//! | `parallel-events` | `events` | 1, in the order of the list |
//! | `parallel` | `events` | all, or `sinks` |
//!
//! `events: adaptive` finds out how many events at once are worth it; `order` keeps that of a partition or of each key.

use std::fmt;

use relay::{DispatchUnit, Order};
use serde::de::value::{MapAccessDeserializer, StrDeserializer};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// How much is in progress at once where every event goes to several sinks; without a bound where it is left out. Written as
/// the name of a strategy, or as `{strategy: parallel-events, events: 64}`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Dispatch {
    /// Which events and sinks are worked on at once. Without one batches go from sink to sink.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub strategy: Option<Strategy>,
    /// Events of all partitions that not every sink has accepted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub events: Option<Events>,
    /// Sinks that have one batch, or with a strategy one event.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sinks: Option<u32>,
    /// In which order a sink gets events, with a strategy that has several at once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub order: Option<Order>,
}

/// How many events are in work at once. Written as a number or as `adaptive`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Events {
    /// At most so many.
    Count(u32),
    /// As many as are worth it, found out while events are carried.
    Adaptive,
}

/// Which events and sinks are worked on at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Strategy {
    /// One event after the other, and for each one sink after the other.
    Serial,
    /// One event after the other, for each all sinks at once.
    ParallelSinks,
    /// Several events at once, each of which goes to one sink after the other.
    ParallelEvents,
    /// Several events at once, each at all sinks at once.
    Parallel,
}

/// A bound that contradicts the strategy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflict {
    /// The key of the bound.
    pub key: &'static str,
    /// Why it can't be.
    pub reason: String,
    /// What to do.
    pub advice: &'static str,
}

impl Dispatch {
    /// What goes from sink to sink by itself.
    #[must_use]
    pub fn unit(&self) -> DispatchUnit {
        match self.strategy {
            Some(_) => DispatchUnit::Event,
            None => DispatchUnit::Batch,
        }
    }

    /// Events in work at once, as the engine takes it.
    #[must_use]
    pub fn events_at_once(&self) -> usize {
        match (self.strategy, self.events) {
            (Some(Strategy::Serial | Strategy::ParallelSinks), _) => 1,
            (_, Some(Events::Count(events))) => events as usize,
            (_, Some(Events::Adaptive)) => EVENTS_FOUND_MAX,
            (Some(Strategy::ParallelEvents | Strategy::Parallel), None) => EVENTS_AT_ONCE,
            (None, None) => usize::MAX,
        }
    }

    /// Whether it is found out how many events at once are worth it.
    #[must_use]
    pub fn is_adaptive(&self) -> bool {
        self.events == Some(Events::Adaptive)
    }

    /// In which order a sink gets events, as the engine takes it.
    #[must_use]
    pub fn order(&self) -> Order {
        self.order.unwrap_or_default()
    }

    /// Sinks that have one unit at once, as the engine takes it.
    #[must_use]
    pub fn sinks_at_once(&self) -> usize {
        match (self.strategy, self.sinks) {
            (Some(Strategy::Serial | Strategy::ParallelEvents), _) => 1,
            (_, Some(sinks)) => sinks as usize,
            (_, None) => usize::MAX,
        }
    }

    /// Whether events of a partition reach each destination in order.
    #[must_use]
    pub fn keeps_order(&self) -> bool {
        let several = matches!(self.strategy, Some(Strategy::ParallelEvents | Strategy::Parallel));
        !several || self.order() == Order::Partition
    }

    /// Whether the bounds are those of the strategy.
    ///
    /// # Errors
    /// The first one that is not.
    pub fn check(&self) -> Result<(), Conflict> {
        let conflict = |key, reason: &str, advice| Err(Conflict { key, reason: reason.to_owned(), advice });
        let several = matches!(self.strategy, Some(Strategy::ParallelEvents | Strategy::Parallel));
        match (self.strategy, self.events, self.sinks) {
            (None, Some(Events::Adaptive), _) => conflict(
                "events",
                "how many events are worth it is found out where they go to the sinks one by one",
                "add `strategy: parallel-events` or `parallel`, or name a number",
            ),
            (
                Some(Strategy::Serial | Strategy::ParallelSinks),
                Some(Events::Count(2..) | Events::Adaptive),
                _,
            ) => conflict(
                "events",
                "this strategy works on one event at a time",
                "leave it out, or use `parallel-events` or `parallel`",
            ),
            _ if self.order.is_some() && !several => conflict(
                "order",
                "order is kept without it: it is for several events at once",
                "leave it out, or use `strategy: parallel-events` or `parallel`",
            ),
            (Some(Strategy::Serial | Strategy::ParallelEvents), _, Some(2..)) => conflict(
                "sinks",
                "with this strategy an event goes to one sink after the other",
                "leave it out, or use `parallel-sinks` or `parallel`",
            ),
            _ => Ok(()),
        }
    }
}

/// The mapping form of [`Dispatch`].
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct DispatchKeys {
    strategy: Option<Strategy>,
    events: Option<Events>,
    sinks: Option<u32>,
    order: Option<Order>,
}

impl<'de> Deserialize<'de> for Dispatch {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;

        impl<'de> de::Visitor<'de> for Visitor {
            type Value = Dispatch;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str(
                    "`serial`, `parallel-sinks`, `parallel-events`, `parallel` or `{strategy: parallel, events: 64}`",
                )
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Dispatch, E> {
                let strategy = Strategy::deserialize(StrDeserializer::new(text))?;
                Ok(Dispatch { strategy: Some(strategy), ..Dispatch::default() })
            }

            fn visit_map<A: de::MapAccess<'de>>(self, map: A) -> Result<Dispatch, A::Error> {
                let DispatchKeys { strategy, events, sinks, order } =
                    DispatchKeys::deserialize(MapAccessDeserializer::new(map))?;
                Ok(Dispatch { strategy, events, sinks, order })
            }
        }

        deserializer.deserialize_any(Visitor)
    }
}

impl Serialize for Events {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Count(events) => serializer.serialize_u32(*events),
            Self::Adaptive => serializer.serialize_str(ADAPTIVE),
        }
    }
}

impl<'de> Deserialize<'de> for Events {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;

        impl de::Visitor<'_> for Visitor {
            type Value = Events;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(formatter, "a number of events or `{ADAPTIVE}`")
            }

            fn visit_u64<E: de::Error>(self, events: u64) -> Result<Events, E> {
                let events = u32::try_from(events);
                events.map(Events::Count).map_err(|_| E::custom("too many events at once"))
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Events, E> {
                match text {
                    ADAPTIVE => Ok(Events::Adaptive),
                    _ => Err(E::invalid_value(de::Unexpected::Str(text), &self)),
                }
            }
        }

        deserializer.deserialize_any(Visitor)
    }
}

const ADAPTIVE: &str = "adaptive";

/// As many events at once as are ever found to be worth it: with them a service 40 ms away carries 100,000 events/s.
const EVENTS_FOUND_MAX: usize = 4_096;

/// Events at once of a strategy that says nothing of them: enough for sinks with round trips of some ten milliseconds at some
/// thousand events/s, and few enough to be sent again after a crash.
const EVENTS_AT_ONCE: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Dispatch {
        serde_json::from_str(text).unwrap()
    }

    #[test]
    fn both_forms_survive_being_written_and_read_again() {
        for (text, written) in [
            (r#""serial""#, r#"{"strategy":"serial"}"#),
            (r#"{"events":9,"sinks":1}"#, r#"{"events":9,"sinks":1}"#),
            (
                r#"{"strategy":"parallel-events","events":10}"#,
                r#"{"strategy":"parallel-events","events":10}"#,
            ),
            (
                r#"{"strategy":"parallel","order":"key","events":"adaptive"}"#,
                r#"{"strategy":"parallel","events":"adaptive","order":"key"}"#,
            ),
        ] {
            let dispatch = read(text);
            assert_eq!(serde_json::to_string(&dispatch).unwrap(), written);
            assert_eq!(read(written), dispatch);
        }
        for text in [
            r#"{"events":"many"}"#,
            r#"{"events":-1}"#,
            r#"{"order":"some"}"#,
            r#""sereal""#,
            r#"{"event":1}"#,
            "7",
        ] {
            assert!(serde_json::from_str::<Dispatch>(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_strategy_has_its_bounds() {
        let bounds = |text| {
            let dispatch = read(text);
            (dispatch.unit(), dispatch.events_at_once(), dispatch.sinks_at_once())
        };
        assert_eq!(bounds("{}"), (DispatchUnit::Batch, usize::MAX, usize::MAX));
        assert_eq!(bounds(r#"{"events":9,"sinks":2}"#), (DispatchUnit::Batch, 9, 2));
        assert_eq!(bounds(r#""serial""#), (DispatchUnit::Event, 1, 1));
        assert_eq!(bounds(r#""parallel-sinks""#), (DispatchUnit::Event, 1, usize::MAX));
        assert_eq!(bounds(r#""parallel-events""#), (DispatchUnit::Event, 64, 1));
        assert_eq!(bounds(r#"{"strategy":"parallel","events":10,"sinks":2}"#), (DispatchUnit::Event, 10, 2));
    }

    #[test]
    fn bounds_that_contradict_the_strategy_are_refused() {
        for (text, key) in [
            (r#"{"strategy":"serial","events":2}"#, Some("events")),
            (r#"{"strategy":"parallel-sinks","events":2}"#, Some("events")),
            (r#"{"strategy":"serial","sinks":2}"#, Some("sinks")),
            (r#"{"strategy":"parallel-events","sinks":2}"#, Some("sinks")),
            (r#"{"strategy":"serial","events":1,"sinks":1}"#, None),
            (r#"{"strategy":"parallel","events":2,"sinks":2}"#, None),
            (r#"{"events":2,"sinks":2}"#, None),
            (r#"{"events":"adaptive"}"#, Some("events")),
            (r#"{"strategy":"serial","events":"adaptive"}"#, Some("events")),
            (r#"{"strategy":"serial","order":"key"}"#, Some("order")),
            (r#"{"order":"partition"}"#, Some("order")),
            (r#"{"strategy":"parallel","events":"adaptive","order":"partition"}"#, None),
        ] {
            assert_eq!(read(text).check().err().map(|conflict| conflict.key), key, "{text}");
        }
    }
}
