//! `latency.hlog`: the end-to-end latencies interval by interval, in the log format of HdrHistogram (version 1.3), so
//! that its tools can summarise, plot and merge them.
//!
//! ```text
//! #[Histogram log format version 1.3]
//! #[StartTime: 1700000000.000 (seconds since epoch)]     when the run began
//! #[BaseTime: 1700000000.000 (seconds since epoch)]      what the times of the lines count from
//! "StartTimestamp","Interval_Length","Interval_Max","Interval_Compressed_Histogram"
//! Tag=case/trial,12.003,1.000,4.219,HISTF...             seconds, seconds, milliseconds, compressed V2 in base64
//! ```
//!
//! Values in the histograms are nanoseconds, because that is what the tools take them for: they divide by a million
//! and print milliseconds.

use std::fmt::Write as _;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use hdrhistogram::Histogram;
use hdrhistogram::serialization::{Serializer as _, V2DeflateSerializer};

use crate::results::{IntervalDistribution, TrialRecord};

/// The log of a run, which grows trial by trial.
#[derive(Debug, Clone)]
pub(super) struct LatencyLog {
    text: String,
}

impl LatencyLog {
    /// A log without intervals of a run that began at `started`.
    pub(super) fn starting_at(started: SystemTime) -> Self {
        let since_epoch = started.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64();
        Self {
            text: format!(
                "#[Histogram log format version 1.3]\n\
                 #[End-to-end latencies in nanoseconds. -listtags lists the tags, -tag case/trial selects one]\n\
                 #[StartTime: {since_epoch:.3} (seconds since epoch)]\n\
                 #[BaseTime: {since_epoch:.3} (seconds since epoch)]\n\
                 \"StartTimestamp\",\"Interval_Length\",\"Interval_Max\",\"Interval_Compressed_Histogram\"\n"
            ),
        }
    }

    /// Adds the intervals of a trial; if it has none, all of its latencies as one interval.
    pub(super) fn add(&mut self, case: &str, record: &TrialRecord) {
        let trial = &record.trial;
        let seconds = |value: f64| Duration::try_from_secs_f64(value).unwrap_or_default();
        let trial_start = seconds(trial.started_s.unwrap_or(0.0));
        let distributions = &record.distributions;
        let whole_trial = IntervalDistribution {
            start: Duration::ZERO,
            length: seconds(trial.duration_s),
            latency: distributions.latency.clone(),
        };
        let intervals = match distributions.intervals.as_slice() {
            [] if distributions.latency.histogram.is_empty() => return,
            [] => std::slice::from_ref(&whole_trial),
            intervals => intervals,
        };
        let tag = tag(&format!("{case}/{}", trial.number));
        let mut serializer = V2DeflateSerializer::new();
        for interval in intervals {
            let histogram = nanoseconds(&interval.latency.histogram);
            let mut bytes = Vec::new();
            serializer
                .serialize(&histogram, &mut bytes)
                .expect("writing to a Vec cannot fail, and a histogram of u64 always has a serial form");
            let start_s = (trial_start + interval.start).as_secs_f64();
            let length_s = interval.length.as_secs_f64();
            let maximum_ms = histogram.max() as f64 / 1e6;
            let encoded = STANDARD.encode(bytes);
            writeln!(self.text, "Tag={tag},{start_s:.3},{length_s:.3},{maximum_ms:.3},{encoded}")
                .expect("writing to a String cannot fail");
        }
    }

    /// The text of the file.
    pub(super) fn text(&self) -> &str {
        &self.text
    }
}

/// A histogram of microseconds as one of nanoseconds, of the same precision.
fn nanoseconds(microseconds: &Histogram<u64>) -> Histogram<u64> {
    let mut nanoseconds = Histogram::new(microseconds.sigfig()).expect("a precision that a histogram has");
    for bucket in microseconds.iter_recorded() {
        nanoseconds
            .record_n(bucket.value_iterated_to().saturating_mul(1_000), bucket.count_at_value())
            .expect("a new histogram resizes itself");
    }
    nanoseconds
}

/// The format has no quoting: what it uses as a separator is replaced.
fn tag(text: &str) -> String {
    text.replace([',', ' ', '\r', '\n', '\t'], "_")
}

#[cfg(test)]
mod tests {
    use hdrhistogram::serialization::Deserializer;
    use hdrhistogram::serialization::interval_log::{IntervalLogIterator, LogEntry};

    use super::*;
    use crate::results::{Distributions, LatencyDistribution, Trial};

    fn latencies(values: impl IntoIterator<Item = i64>) -> LatencyDistribution {
        let mut distribution = LatencyDistribution::new();
        values.into_iter().for_each(|value| distribution.record(value));
        distribution
    }

    fn read(log: &LatencyLog) -> Vec<(String, f64, Histogram<u64>)> {
        let entries = IntervalLogIterator::new(log.text().as_bytes()).map(Result::unwrap);
        let intervals = entries.filter_map(|entry| match entry {
            LogEntry::Interval(interval) => Some(interval),
            _ => None,
        });
        intervals
            .map(|interval| {
                let bytes = STANDARD.decode(interval.encoded_histogram()).unwrap();
                (
                    interval.tag().unwrap().as_str().to_owned(),
                    interval.start_timestamp().as_secs_f64(),
                    Deserializer::new().deserialize(&mut bytes.as_slice()).unwrap(),
                )
            })
            .collect()
    }

    #[test]
    fn intervals_are_read_back_with_their_tag_and_their_place_in_the_run() {
        let interval = |second, latency| IntervalDistribution {
            start: Duration::from_secs(second),
            length: Duration::from_secs(1),
            latency,
        };
        let distributions = Distributions {
            latency: latencies(1..=5),
            intervals: vec![interval(0, latencies([1, 2])), interval(1, latencies([3, 4, 5]))],
            ..Distributions::default()
        };
        let trial = Trial { number: 2, started_s: Some(90.5), duration_s: 2.0, ..Trial::default() };
        let mut log = LatencyLog::starting_at(SystemTime::UNIX_EPOCH);
        log.add("payload=1 KiB, key", &TrialRecord::new(trial, distributions));
        let read = read(&log);
        assert_eq!(read.len(), 2);
        assert_eq!(read[1].0, "payload=1_KiB__key/2");
        assert_eq!(read[1].1, 91.5);
        assert_eq!((read[0].2.len(), read[1].2.len()), (2, 3));
        assert_eq!((read[1].2.min(), read[1].2.max()), (3_000, 5_000 | 3), "nanoseconds, to 0.1 %");
    }

    #[test]
    fn every_latency_is_in_the_log_within_the_precision_of_its_histogram() {
        let values: Vec<i64> = (0..60).map(|power| 3_i64.pow(power / 2) + i64::from(power)).collect();
        let distributions = Distributions { latency: latencies(values.clone()), ..Distributions::default() };
        let mut log = LatencyLog::starting_at(SystemTime::UNIX_EPOCH);
        log.add("only", &TrialRecord::new(Trial::default(), distributions));
        let (_, _, histogram) = &read(&log)[0];
        assert_eq!(histogram.len(), 60);
        for (rank, value) in (1_u64..).zip(values) {
            let logged = histogram.value_at_quantile(rank as f64 / 60.0) as f64 / 1e3;
            let value = value as f64;
            assert!(logged >= value && logged <= value * 1.0021 + 0.001, "{value} became {logged}");
        }
    }

    #[test]
    fn the_log_begins_with_the_lines_that_the_tools_write_themselves() {
        let log = LatencyLog::starting_at(UNIX_EPOCH + Duration::from_millis(1_700_000_000_250));
        let lines: Vec<&str> = log.text().lines().collect();
        assert_eq!(lines[0], "#[Histogram log format version 1.3]");
        assert_eq!(lines[2], "#[StartTime: 1700000000.250 (seconds since epoch)]");
        assert_eq!(lines[3], "#[BaseTime: 1700000000.250 (seconds since epoch)]");
        assert!(lines[4].starts_with("\"StartTimestamp\",\"Interval_Length\","), "{}", lines[4]);
    }

    #[test]
    fn a_trial_without_intervals_is_one_interval() {
        let distributions = Distributions { latency: latencies(1..=9), ..Distributions::default() };
        let mut log = LatencyLog::starting_at(SystemTime::UNIX_EPOCH);
        log.add("only", &TrialRecord::new(Trial::default(), distributions));
        assert_eq!(read(&log)[0].2.len(), 9);
    }

    #[test]
    fn trials_without_latencies_leave_no_line() {
        let mut log = LatencyLog::starting_at(SystemTime::UNIX_EPOCH);
        log.add("only", &TrialRecord::default());
        assert!(read(&log).is_empty());
    }
}
