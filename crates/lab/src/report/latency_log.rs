//! `latency.hlog`: the end-to-end latencies interval by interval, in the log format of HdrHistogram, so that
//! its tools can plot and merge them. Values are microseconds; the tag of a line is `case/trial`.

use std::time::{Duration, SystemTime};

use hdrhistogram::serialization::V2Serializer;
use hdrhistogram::serialization::interval_log::{IntervalLogWriterBuilder, Tag};

use crate::results::{IntervalDistribution, TrialRecord};

/// The log of a run, which grows trial by trial.
#[derive(Debug, Clone)]
pub(super) struct LatencyLog {
    started: SystemTime,
    lines: Vec<Line>,
}

#[derive(Debug, Clone)]
struct Line {
    tag: String,
    /// Start of the trial's measured phase, counted from the start of the run.
    trial_start: Duration,
    interval: IntervalDistribution,
}

impl LatencyLog {
    /// A log without lines of a run that began at `started`.
    pub(super) fn starting_at(started: SystemTime) -> Self {
        Self { started, lines: Vec::new() }
    }

    /// Adds the intervals of a trial; if it has none, all of its latencies as one interval.
    pub(super) fn add(&mut self, case: &str, record: &TrialRecord) {
        let trial = &record.trial;
        let seconds = |value: f64| Duration::try_from_secs_f64(value).unwrap_or_default();
        let trial_start = seconds(trial.started_s.unwrap_or(0.0));
        let tag = tag(&format!("{case}/{}", trial.number));
        let line = |interval| Line { tag: tag.clone(), trial_start, interval };
        let distributions = &record.distributions;
        if distributions.intervals.is_empty() && !distributions.latency.histogram.is_empty() {
            self.lines.push(line(IntervalDistribution {
                start: Duration::ZERO,
                length: seconds(trial.duration_s),
                latency: distributions.latency.clone(),
            }));
        }
        self.lines.extend(distributions.intervals.iter().cloned().map(line));
    }

    /// The text of the file.
    pub(super) fn text(&self) -> String {
        let mut bytes = Vec::new();
        let mut serializer = V2Serializer::new();
        let mut log = IntervalLogWriterBuilder::new()
            .add_comment("[Latencies of Parshall, end to end, in microseconds; tags are case/trial]")
            .with_start_time(self.started)
            .with_base_time(self.started)
            .begin_log_with(&mut bytes, &mut serializer)
            .expect("writing to a Vec cannot fail");
        for line in &self.lines {
            let start = line.trial_start + line.interval.start;
            let histogram = &line.interval.latency.histogram;
            log.write_histogram(histogram, start, line.interval.length, Tag::new(&line.tag))
                .expect("writing to a Vec cannot fail, and a histogram of u64 always has a serial form");
        }
        String::from_utf8(bytes).expect("the log format is text: numbers, tags and base64")
    }
}

/// The format has no quoting: what it uses as a separator is replaced.
fn tag(text: &str) -> String {
    text.replace([',', ' ', '\r', '\n', '\t'], "_")
}

#[cfg(test)]
mod tests {
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;
    use hdrhistogram::Histogram;
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
        let text = log.text();
        let entries = IntervalLogIterator::new(text.as_bytes()).map(Result::unwrap);
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
        assert_eq!((read[0].2.len(), read[1].2.len(), read[1].2.max()), (2, 3, 5));
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
