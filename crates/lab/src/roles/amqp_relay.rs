//! Our relay as a system under test, whichever service is at its ends.

use std::time::Duration;

use connect::retry::{RetryMode, RetryPolicy};
use relay::metrics::MetricsHandle;
use relay::{Relay, RelayError};

use super::fabric::{RelayMetrics, RelayPipeline, RelayReading};
use super::protocol::RelayConfig;
use super::relay_reading::reading;
use crate::clock::RunClock;

/// The relay between the two ends of a case.
#[derive(Debug)]
pub struct AmqpRelay {
    relay: Relay,
    clock: RunClock,
}

/// Reads the relay's metrics while it runs.
#[derive(Debug)]
pub struct RelayReader {
    handle: MetricsHandle,
    clock: RunClock,
}

impl AmqpRelay {
    pub(super) const fn new(relay: Relay, config: &RelayConfig) -> Self {
        Self { relay, clock: config.clock }
    }
}

impl RelayPipeline for AmqpRelay {
    type Metrics = RelayReader;
    type Error = RelayError;

    fn metrics(&self) -> RelayReader {
        RelayReader { handle: self.relay.metrics_handle(), clock: self.clock }
    }

    async fn run(self, stop: impl Future<Output = ()>) -> Result<RelayReading, RelayError> {
        let Self { relay, clock } = self;
        let summary = relay.run(stop).await?;
        Ok(reading(&summary.metrics, clock))
    }
}

impl RelayMetrics for RelayReader {
    async fn read(&self) -> Option<RelayReading> {
        let metrics = self.handle.metrics().await?;
        Some(reading(&metrics, self.clock))
    }
}

/// How the scenario wants sends to be tried again.
pub(super) fn retry_policy(config: &RelayConfig) -> RetryPolicy {
    let scenario = &config.relay;
    RetryPolicy {
        attempts: scenario.retry.attempts,
        mode: RetryMode::Exponential,
        delay: scenario.retry.delay,
        max_delay: scenario.retry.max_delay,
        try_timeout: scenario.try_timeout,
        seed: config.seed,
        ..RetryPolicy::default()
    }
}

/// How long a stopped relay waits for what is under way.
pub(super) const STOP_TIMEOUT: Duration = Duration::from_secs(10);
