//! Reads what the library says of itself (its STATISTICS.md).

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::kafka::{ClientStatistics, ClientWindow, Percentiles};

/// One report.
pub(super) fn read(json: &[u8]) -> Result<ClientStatistics, serde_json::Error> {
    let report: Report = serde_json::from_slice(json)?;
    let mut statistics = ClientStatistics { reports: 1, ..ClientStatistics::default() };
    for broker in report.brokers.values() {
        statistics.queued.add(&broker.int_latency.in_units_of(1));
        statistics.buffered.add(&broker.outbuf_latency.in_units_of(1));
        statistics.round_trip.add(&broker.rtt.in_units_of(1));
        statistics.throttled.add(&broker.throttle.in_units_of(1_000));
    }
    Ok(statistics)
}

#[derive(Deserialize)]
struct Report {
    #[serde(default)]
    brokers: BTreeMap<String, Broker>,
}

#[derive(Deserialize)]
#[serde(default)]
#[derive(Default)]
struct Broker {
    int_latency: Window,
    outbuf_latency: Window,
    rtt: Window,
    throttle: Window,
}

/// Values of one interval.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Window {
    min: i64,
    max: i64,
    sum: i64,
    cnt: i64,
    p50: i64,
    p75: i64,
    p90: i64,
    p95: i64,
    p99: i64,
    p99_99: i64,
}

impl Window {
    /// The same in microseconds, of which a unit of the window has so many.
    fn in_units_of(&self, microseconds: u64) -> ClientWindow {
        let us = |value: i64| u64::try_from(value).unwrap_or(0).saturating_mul(microseconds);
        ClientWindow {
            count: u64::try_from(self.cnt).unwrap_or(0),
            sum_us: us(self.sum),
            min_us: us(self.min),
            max_us: us(self.max),
            last: Percentiles {
                p50_us: us(self.p50),
                p75_us: us(self.p75),
                p90_us: us(self.p90),
                p95_us: us(self.p95),
                p99_us: us(self.p99),
                p99_99_us: us(self.p99_99),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn brokers_are_taken_together() {
        let json = br#"{"name": "x", "brokers": {
            "a": {"name": "a", "int_latency": {"min": 5, "max": 9, "avg": 7, "sum": 14, "cnt": 2, "p50": 5, "p99": 9},
                  "throttle": {"min": 1, "max": 2, "sum": 3, "cnt": 2}},
            "b": {"int_latency": {"min": 1, "max": 1, "sum": 1, "cnt": 1, "p99_99": 1}, "rtt": {"cnt": 0}}}}"#;
        let statistics = read(json).unwrap();
        let queued = statistics.queued;
        assert_eq!((queued.count, queued.sum_us, queued.min_us, queued.max_us), (3, 15, 1, 9));
        assert_eq!(
            (queued.last.p50_us, queued.last.p99_99_us),
            (0, 1),
            "those of the last broker that had any"
        );
        assert_eq!((statistics.throttled.sum_us, statistics.throttled.max_us), (3_000, 2_000));
        assert_eq!((statistics.round_trip, statistics.reports), (ClientWindow::default(), 1));
        assert!(read(b"{").is_err());
        assert_eq!(read(b"{}").unwrap().queued.count, 0);
    }
}
