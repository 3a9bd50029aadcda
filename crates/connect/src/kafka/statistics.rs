//! What a client has measured of its own work: the stages of a record that nobody else sees.

/// Figures of a client since it was made. Those of librdkafka come at each `statistics.interval.ms`, if that is set.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClientStatistics {
    /// How often they came.
    pub reports: u64,
    /// Per record: from `produce` until it is in a batch, `linger.ms` included (`int_latency`).
    pub queued: ClientWindow,
    /// Per request: from being complete until it is written to the socket (`outbuf_latency`).
    pub buffered: ClientWindow,
    /// Per request: from being written until the answer is there (`rtt`). Of consumers it contains the wait for records.
    pub round_trip: ClientWindow,
    /// What brokers asked to be waited for (`throttle`), converted to microseconds.
    pub throttled: ClientWindow,
}

/// One of the figures, in microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClientWindow {
    /// How many values there were.
    pub count: u64,
    /// Their sum.
    pub sum_us: u64,
    /// The smallest; 0 where there was none.
    pub min_us: u64,
    /// The largest.
    pub max_us: u64,
    /// The percentiles of the last report that had values.
    pub last: Percentiles,
}

/// Percentiles within one report, in microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Percentiles {
    /// The median.
    pub p50_us: u64,
    /// 75 %.
    pub p75_us: u64,
    /// 90 %.
    pub p90_us: u64,
    /// 95 %.
    pub p95_us: u64,
    /// 99 %.
    pub p99_us: u64,
    /// 99.99 %.
    pub p99_99_us: u64,
}

impl ClientStatistics {
    /// Adds those of another time, or of another client.
    pub fn add(&mut self, other: &Self) {
        self.reports += other.reports;
        self.queued.add(&other.queued);
        self.buffered.add(&other.buffered);
        self.round_trip.add(&other.round_trip);
        self.throttled.add(&other.throttled);
    }
}

impl ClientWindow {
    /// The mean of all values; `None` where there was none.
    #[must_use]
    pub fn mean_us(&self) -> Option<f64> {
        (self.count > 0).then(|| self.sum_us as f64 / self.count as f64)
    }

    /// Adds the values of another one.
    pub fn add(&mut self, other: &Self) {
        if other.count == 0 {
            return;
        }
        self.min_us = if self.count == 0 { other.min_us } else { self.min_us.min(other.min_us) };
        self.max_us = self.max_us.max(other.max_us);
        self.count += other.count;
        self.sum_us = self.sum_us.saturating_add(other.sum_us);
        self.last = other.last;
    }

    /// What was added since `earlier`: count and sum. Extremes and percentiles are not to be taken apart, and are those of all.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            count: self.count.saturating_sub(earlier.count),
            sum_us: self.sum_us.saturating_sub(earlier.sum_us),
            ..*self
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_add_up_and_come_apart_again() {
        let window = |count, sum_us, min_us, max_us| ClientWindow {
            count,
            sum_us,
            min_us,
            max_us,
            ..ClientWindow::default()
        };
        let mut all = ClientWindow::default();
        assert_eq!(all.mean_us(), None);
        all.add(&window(2, 10, 4, 6));
        let first = all;
        all.add(&window(0, 0, 0, 0));
        all.add(&window(2, 20, 3, 17));
        assert_eq!((all.count, all.min_us, all.max_us, all.mean_us()), (4, 3, 17, Some(7.5)));
        assert_eq!((all.since(&first).count, all.since(&first).mean_us()), (2, Some(10.0)));
    }
}
