//! The settings that findings compare figures with, read from the parameters in the results.

use std::collections::BTreeMap;

use serde_json::Value;

/// What is known of a case's settings. What the results do not tell is `None`, and nothing is said about it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Settings {
    /// How the load was paced: `saturate`, `backlog`, `open`, `closed`.
    pub load_mode: Option<String>,
    /// Events of a full batch.
    pub batch_events: Option<u64>,
    /// How long a batch waits to be full, as it was written.
    pub batch_wait: Option<String>,
    /// Events per partition that may be on their way; none where the relay adapts that to the distance.
    pub prefetch: Option<u64>,
    /// Batches of one partition that are worked on at once.
    pub in_flight: Option<u64>,
    /// Partitions of the source.
    pub partitions: Option<u64>,
    /// How long one try of a send may take, as it was written.
    pub try_timeout: Option<String>,
    /// Whether a full log of the embedded service refuses sends.
    pub full_log_throttles: bool,
    /// Between queues: messages that all instances together work on at once.
    pub messages_at_once: Option<u64>,
    /// Between queues: threads that a command may have for them, all of its instances together.
    pub threads: Option<u64>,
}

/// What bounds how much of the source is on its way or in flight.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ahead {
    /// So many events per partition: `relay.prefetch`.
    Events(u64),
    /// What the distance to the service asks for.
    Adaptive,
    /// Between queues: the messages that are worked on at once.
    Concurrency,
}

impl Settings {
    /// Reads them from parameters by their path in the scenario.
    #[must_use]
    pub fn of(params: &BTreeMap<String, Value>) -> Self {
        let number = |path: &str| params.get(path)?.as_u64();
        let text = |path: &str| params.get(path)?.as_str().map(str::to_owned);
        let instances = number("relay.instances").unwrap_or(1).max(1);
        let between_queues = |path: &str| {
            let _ = text("queues.source.name")?;
            Some(number(path)?.saturating_mul(instances))
        };
        Self {
            load_mode: text("load.mode"),
            batch_events: number("relay.batch.events"),
            batch_wait: text("relay.batch.wait"),
            prefetch: number("relay.prefetch"),
            in_flight: number("relay.in_flight"),
            partitions: number("hubs.source.partitions"),
            try_timeout: text("relay.try_timeout"),
            full_log_throttles: text("embedded.when_full").is_some_and(|what| what == "throttle"),
            messages_at_once: between_queues("relay.concurrency"),
            threads: between_queues("relay.threads"),
        }
    }

    /// What bounds how much is on its way or in flight.
    pub(super) fn ahead(&self) -> Ahead {
        match self.prefetch {
            // Between queues it is the places that credit is given for.
            _ if self.is_between_queues() => Ahead::Concurrency,
            Some(events) => Ahead::Events(events),
            None => Ahead::Adaptive,
        }
    }

    /// Whether it is messages of queues that are carried.
    pub(super) const fn is_between_queues(&self) -> bool {
        self.messages_at_once.is_some()
    }

    /// Whether the load always has more to offer than is carried.
    pub(super) fn always_offers_more(&self) -> bool {
        matches!(self.load_mode.as_deref(), Some("saturate" | "backlog"))
    }
}
