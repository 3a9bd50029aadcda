//! What a client can be told of its partition with every event: how far behind the end it is.
//!
//! A link that asks for it gets the last event of the partition and the time at which that was looked up, as delivery
//! annotations. They are taken anew with each read of the log, not with each event: the section is encoded once and
//! put in front of every event of the read.

use amqp::Value;
use amqp::codec::{Reader, Symbol};
use amqp::message::encode;

use partition_log::LogStats;
use partition_log::UnixTime;

/// The section with the metrics.
#[derive(Debug, Default)]
pub(crate) struct RuntimeMetrics {
    section: Vec<u8>,
}

impl RuntimeMetrics {
    /// Takes the metrics from the log's figures, as they stood at `now`.
    pub(crate) fn refresh(&mut self, stats: &LogStats, now: UnixTime) {
        let last = stats.last_sequence_number.map_or(-1, u64::cast_signed);
        let timestamp = |time: UnixTime| Value::Timestamp(time.milliseconds());
        let last_time = stats.last_append_time.unwrap_or_default();
        let values =
            [Value::Long(last), Value::String(last.to_string()), timestamp(last_time), timestamp(now)];
        let mut metrics = METRICS.map(Symbol::from_static).into_iter().zip(values);
        let entries: [(Symbol, Value); METRICS.len()] =
            std::array::from_fn(|_| metrics.next().expect("each metric has its value"));
        self.section.clear();
        encode::delivery_annotations(&mut self.section, &entries);
    }

    /// The encoded section.
    #[inline]
    pub(crate) fn section(&self) -> &[u8] {
        &self.section
    }

    /// How many entries the section has, and their bytes.
    pub(crate) fn entries(&self) -> (u32, &[u8]) {
        let mut reader = Reader::new(&self.section);
        match reader.descriptor().and_then(|_| reader.map()) {
            Ok(Some(map)) => (map.remaining(), map.rest()),
            Ok(None) | Err(_) => (0, &[]),
        }
    }
}

/// The keys of the metrics.
pub(crate) const METRICS: [&str; 4] = [
    "last_enqueued_sequence_number",
    "last_enqueued_offset",
    "last_enqueued_time_utc",
    "runtime_info_retrieval_time_utc",
];

/// The capability by which a receiver asks for the metrics.
pub(crate) const RUNTIME_METRICS: Symbol =
    Symbol::from_static("com.microsoft:enable-receiver-runtime-metric");
