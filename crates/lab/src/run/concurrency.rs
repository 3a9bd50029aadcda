//! Whether it is the number of messages worked on at once that bounds a trial between queues: Little's law.
//!
//! A message occupies one of `relay.concurrency` places from the moment that it is asked for until its completion is
//! confirmed. However fast the machine is, no more messages per second can pass than there are places, divided by that time.

use std::collections::BTreeMap;

use crate::{
    results::{Finding, FindingKind, LatencyDistribution, Severity, Stage},
    scenario::{Entities, Parameters},
};

/// The finding that the places are what bounds the rate, if they are. `stages` are those of our relay; a command tells of
/// none.
pub(super) fn finding(
    parameters: &Parameters,
    forwarded_per_s: Option<f64>,
    cpu_percent: f64,
    stages: &BTreeMap<Stage, LatencyDistribution>,
) -> Option<Finding> {
    let Entities::Queues(_) = parameters.entities else {
        return None;
    };
    let forwarded = forwarded_per_s.filter(|rate| *rate > 0.0)?;
    let relay = &parameters.relay;
    let instances = f64::from(relay.instances.max(1));
    let (message, hint) = if parameters.sut.is_ours() {
        let places = f64::from(relay.messages_at_once()) * instances;
        let times = Times::of(stages)?;
        let until_next = if relay.prefetch == 0 {
            times.settle
        } else {
            0.0
        };
        let whole = times.forward + times.settle + until_next;
        let bound = places / (whole / 1e6);
        if forwarded < bound * NEAR || cpu_percent >= BUSY_CPU_PERCENT {
            return None;
        }
        let next = match relay.prefetch {
            0 => ", and about as long again until the next one is there",
            _ => "",
        };
        (
            format!(
                "{places:.0} messages at once, each forwarded within {:.0} µs and its completion confirmed within {:.0} µs on \
                 average{next}: by Little's law {bound:.0} messages/s can pass (forwarded: {forwarded:.0})",
                times.forward, times.settle,
            ),
            "raise relay.concurrency; or relay.prefetch, so that the next message is there when one is done",
        )
    } else {
        if cpu_percent >= IDLE_CPU_PERCENT {
            return None;
        }
        let threads = relay.threads.unwrap_or(u32::MAX);
        let places = relay.messages_at_once().min(threads);
        let each_us = f64::from(places) * instances / forwarded * 1e6;
        let of = match threads < relay.messages_at_once() {
            true => format!("{places} threads for {} messages", relay.messages_at_once()),
            false => format!("{places} messages"),
        };
        (
            format!(
                "{} worked on {of} at once and used {cpu_percent:.0} % of its CPU: by Little's law {forwarded:.0} messages/s \
                 are {each_us:.0} µs for each",
                parameters.sut.name,
            ),
            "raise relay.concurrency, and relay.threads with it",
        )
    };
    Some(Finding::new(Severity::Note, FindingKind::LimitedByConcurrency, message).with_hint(hint))
}

/// Means in microseconds.
#[derive(Debug, Clone, Copy)]
struct Times {
    /// From the receipt until the send was accepted.
    forward: f64,
    /// From telling the service that a message is done until it has confirmed that.
    settle: f64,
}

impl Times {
    fn of(stages: &BTreeMap<Stage, LatencyDistribution>) -> Option<Self> {
        let mean = |stage: Stage| stages.get(&stage)?.summary()?.mean;
        Some(Self {
            forward: mean(Stage::Queue).unwrap_or(0.0) + mean(Stage::Process)?,
            settle: mean(Stage::Settle)?,
        })
    }
}

/// How near to the bound the rate has to be for it to be the cause.
const NEAR: f64 = 0.8;

/// A process above this has nothing left.
const BUSY_CPU_PERCENT: f64 = 95.0;

/// A command below this waits for something. Its garbage collector and its compiler leave no process quite idle.
const IDLE_CPU_PERCENT: f64 = 70.0;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::{CaseOptions, Scenario};

    fn parameters(text: &str) -> Parameters {
        let text = format!("scenario: s\n{text}");
        let scenario = Scenario::parse("s.yaml", &text).expect("a scenario");
        let mut cases = scenario.cases(&CaseOptions::default()).expect("a case");
        cases.swap_remove(0).parameters
    }

    fn stages(times: &[(Stage, u64)]) -> BTreeMap<Stage, LatencyDistribution> {
        let distribution = |micros: u64| {
            let mut distribution = LatencyDistribution::default();
            distribution.histogram.record(micros).expect("in range");
            distribution
        };
        times
            .iter()
            .map(|&(stage, micros)| (stage, distribution(micros)))
            .collect()
    }

    #[test]
    fn places_that_are_all_taken_all_the_time_are_the_bound() {
        let eight = parameters("queues: {}\nrelay: {concurrency: 8, prefetch: 0}\n");
        let stages = stages(&[
            (Stage::Queue, 100),
            (Stage::Process, 1_900),
            (Stage::Settle, 2_000),
        ]);
        // Two for the way through the relay, two for the completion, two until the next: 8 / 6 ms.
        let found = finding(&eight, Some(1_300.0), 5.0, &stages).expect("they are the bound");
        assert_eq!(found.kind, FindingKind::LimitedByConcurrency);
        assert!(
            found.message.contains("8 messages at once"),
            "{}",
            found.message
        );
        assert!(
            found.message.contains("1333 messages/s"),
            "{}",
            found.message
        );
        assert!(finding(&eight, Some(900.0), 5.0, &stages).is_none());
        assert!(finding(&eight, Some(1_300.0), 99.0, &stages).is_none());
        assert!(finding(&eight, None, 5.0, &stages).is_none());
        let ahead = parameters("queues: {}\nrelay: {concurrency: 8, prefetch: 8}\n");
        let found = finding(&ahead, Some(1_900.0), 5.0, &stages).expect("they are the bound");
        assert!(
            found.message.contains("2000 messages/s"),
            "{}",
            found.message
        );
    }

    #[test]
    fn a_command_that_waits_is_bounded_by_its_threads_where_they_are_fewer() {
        let text = "queues: {}\nsut: {command: [x]}\nrelay: {concurrency: 96, threads: 20}\n";
        let few_threads = parameters(text);
        let found = finding(&few_threads, Some(250.0), 12.0, &BTreeMap::new());
        let found = found.expect("its CPU is idle");
        assert!(
            found.message.contains("20 threads for 96 messages"),
            "{}",
            found.message
        );
        assert!(found.message.contains("80000 µs"), "{}", found.message);
        assert!(finding(&few_threads, Some(250.0), 90.0, &BTreeMap::new()).is_none());
    }

    #[test]
    fn between_hubs_nothing_is_said() {
        let hubs = parameters("");
        assert!(finding(&hubs, Some(1.0), 1.0, &BTreeMap::new()).is_none());
    }
}
