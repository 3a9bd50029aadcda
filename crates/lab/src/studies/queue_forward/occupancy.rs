//! How long each message takes one of the places that there are for messages: what Little's law is about.
//!
//! Between queues no more messages are worked on at once than the scenario says. Each takes a place from the moment at
//! which it is there until its settlement is confirmed, and leaves it empty until the next one is there. However fast
//! the machine is, no more messages pass in a second than there are places, divided by that time.

use std::collections::BTreeMap;

use crate::figure::{count, duration_us, rate};
use crate::results::{LatencySummary, Shape, SourceShape, Stage};

/// Places, what takes them, and what passed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Occupancy {
    /// Messages that can be worked on at once.
    pub places: u64,
    /// Messages that are meant to be worked on at once, where there are fewer threads for them.
    pub messages: Option<u64>,
    /// The parts of the time that each takes, where what is measured tells them.
    pub parts: Option<OccupancyParts>,
    /// Messages that were delivered and settled per second.
    pub measured_per_s: f64,
}

/// The time that one message takes a place, in microseconds on average.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct OccupancyParts {
    /// From its receipt until its forwarding was accepted.
    pub forward_us: f64,
    /// From then until its completion was confirmed.
    pub settle_us: f64,
    /// From then until the next message was there.
    pub vacant_us: f64,
}

impl Occupancy {
    /// What is known of it from the figures of a trial, or of a case; `None` between hubs, and where nothing passed.
    #[must_use]
    pub fn of(
        shape: &Shape,
        is_ours: bool,
        stages: &BTreeMap<Stage, LatencySummary>,
        received_per_s: Option<f64>,
        forwarded_per_s: Option<f64>,
    ) -> Option<Self> {
        let SourceShape::Queue { messages_at_once: messages, threads, .. } = *shape.source()? else {
            return None;
        };
        // What is delivered and fails takes a place, too.
        let measured_per_s = received_per_s.or(forwarded_per_s)?;
        if measured_per_s <= 0.0 {
            return None;
        }
        if is_ours {
            return Some(Self {
                places: messages,
                messages: None,
                parts: Some(OccupancyParts::of(stages)?),
                measured_per_s,
            });
        }
        let threads = threads.filter(|threads| *threads < messages);
        Some(Self {
            places: threads.unwrap_or(messages),
            messages: threads.map(|_| messages),
            parts: None,
            measured_per_s,
        })
    }

    /// How long each message takes a place, in microseconds: as measured, or else by what passed.
    #[must_use]
    pub fn each_us(&self) -> f64 {
        match &self.parts {
            Some(parts) => parts.whole_us(),
            None => self.places as f64 / self.measured_per_s * 1e6,
        }
    }

    /// Messages per second that can pass, where the time was measured.
    #[must_use]
    pub fn expected_per_s(&self) -> Option<f64> {
        let whole_us = self.parts?.whole_us();
        (whole_us > 0.0).then(|| self.places as f64 / whole_us * 1e6)
    }

    /// How far what passed is from what can pass, in percent of that.
    #[must_use]
    pub fn off_percent(&self) -> Option<f64> {
        let expected = self.expected_per_s()?;
        Some((self.measured_per_s - expected).abs() / expected * 100.0)
    }

    /// `8 / 8.27 ms = 967 messages/s, 970 measured (0.3 % off)`.
    #[must_use]
    pub fn equation(&self) -> String {
        let (places, each) = (count(self.places), duration_us(self.each_us()));
        let measured = rate(self.measured_per_s);
        match self.expected_per_s().zip(self.off_percent()) {
            Some((expected, off)) => format!(
                "{places} / {each} = {} messages/s expected, {measured} measured ({off:.1} % off)",
                rate(expected)
            ),
            None => format!("{places} / {measured} messages/s = {each} for each"),
        }
    }
}

impl OccupancyParts {
    /// Each send is one message's, so its time is that of the message. What comes before the first send of a batch is all
    /// of its messages'.
    fn of(stages: &BTreeMap<Stage, LatencySummary>) -> Option<Self> {
        let mean = |stage: Stage| stages.get(&stage)?.mean;
        let before = mean(Stage::Process)? - mean(Stage::BatchSend)?;
        Some(Self {
            forward_us: mean(Stage::Queue).unwrap_or(0.0) + before.max(0.0) + mean(Stage::Send)?,
            settle_us: mean(Stage::Settle)?,
            vacant_us: mean(Stage::Vacant)?,
        })
    }

    /// All of them together.
    #[must_use]
    pub fn whole_us(&self) -> f64 {
        self.forward_us + self.settle_us + self.vacant_us
    }

    /// `2.74 ms until forwarded, …`.
    #[must_use]
    pub fn sentence(&self) -> String {
        format!(
            "{} until forwarded, {} until its completion was confirmed, {} until the next one arrived",
            duration_us(self.forward_us),
            duration_us(self.settle_us),
            duration_us(self.vacant_us)
        )
    }
}

#[cfg(test)]
pub(super) mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::results::{Noun, PipelineShape};

    /// A pipeline that works on so many messages of a queue at once.
    pub(in crate::studies) fn shape(messages_at_once: u64, threads: Option<u64>) -> Shape {
        Shape {
            noun: Noun::Messages,
            pipeline: Some(PipelineShape {
                source: SourceShape::Queue {
                    messages_at_once,
                    threads,
                    maximum_delivery_count: 10,
                    largest_message_bytes: 256 << 10,
                },
                prefetch: Some(0),
                ..PipelineShape::default()
            }),
            ..Shape::default()
        }
    }

    /// Stages with these means.
    pub(in crate::studies) fn stages(means: &[(Stage, f64)]) -> BTreeMap<Stage, LatencySummary> {
        let summary =
            |mean: f64| LatencySummary { count: 1_000, mean: Some(mean), ..LatencySummary::default() };
        let means = means.iter();
        means.map(|(stage, mean)| (*stage, summary(*mean))).collect()
    }

    #[test]
    fn what_can_pass_is_the_places_over_the_time_of_each() {
        let shape = shape(8, None);
        let stages = stages(&[
            (Stage::Queue, 10.0),
            (Stage::Process, 2_200.0),
            (Stage::BatchSend, 2_100.0),
            (Stage::Send, 1_890.0),
            (Stage::Settle, 2_000.0),
            (Stage::Vacant, 2_000.0),
        ]);
        let found = Occupancy::of(&shape, true, &stages, Some(1_300.0), Some(1_200.0));
        let found = found.expect("there are places");
        assert_eq!(found.each_us(), 6_000.0);
        assert_eq!(found.equation(), "8 / 6.00 ms = 1,333 messages/s expected, 1,300 measured (2.5 % off)");
        assert_eq!(Occupancy::of(&shape, true, &stages, None, None), None);
        let hubs = Shape::default();
        assert_eq!(Occupancy::of(&hubs, true, &stages, Some(1.0), None), None);
    }

    #[test]
    fn of_another_system_the_time_of_each_follows_from_what_passed() {
        let shape = shape(96, Some(20));
        let found = Occupancy::of(&shape, false, &BTreeMap::new(), None, Some(250.0));
        let found = found.expect("there are places");
        assert_eq!((found.places, found.messages), (20, Some(96)));
        assert_eq!(found.equation(), "20 / 250 messages/s = 80.0 ms for each");
    }
}
