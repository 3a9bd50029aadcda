//! What brokers answer: records, where partitions begin, and why not.

use std::time::Duration;

use bytes::Bytes;
use kafka::ErrorCode;
use kafka::fetch::{self, AbortedTransaction};
use kafka::messages::list_offsets::{ListOffsetsResponse, OffsetSpec};
use tokio::time::Instant;

use super::{Asked, AskedPartition, KafkaSource, Place, Reader};
use crate::kafka::native::connection::Answer;
use crate::kafka::native::error::{is_about_leaders, malformed, refused, refused_for_good};
use crate::kafka::native::fetched::{Arrived, Damage};
use crate::service::ServiceError;
use crate::service::error::PROTOCOL;
use crate::sink::ErrorClass;

/// Why the records of a partition were not taken.
#[derive(Debug)]
enum Trouble {
    /// The broker said so.
    Refused(ErrorCode),
    /// They are damaged.
    Damaged(Damage),
}

impl KafkaSource {
    /// Takes an answer. A fatal error is one of the source, any other of the connection.
    pub(super) fn take_answer(
        &mut self,
        broker: usize,
        asked: Asked,
        answer: &Answer,
    ) -> Result<(), ServiceError> {
        match asked {
            Asked::Fetch(partitions) => {
                self.exchanges[broker].fetches = false;
                self.end(&partitions);
                let taken = self.take_records(broker, &partitions, answer);
                self.exchanges[broker].spare = partitions;
                taken
            }
            Asked::Offsets(partitions) => {
                self.end(&partitions);
                self.take_offsets(&partitions, answer)
            }
        }
    }

    /// Takes what was fetched, asks for more, and only then makes events of it. Hot path.
    fn take_records(
        &mut self,
        broker: usize,
        partitions: &[AskedPartition],
        answer: &Answer,
    ) -> Result<(), ServiceError> {
        let mut failed = Vec::new();
        let is_read_committed = self.cluster.endpoint().settings.fetch.is_read_committed;
        let readers = &mut self.readers;
        let mut gave = false;
        let head = fetch::read_response(answer.reader(), answer.version, |fetched| {
            let asked = partitions.iter().find(|asked| asked.partition as i32 == fetched.head.index);
            let reader = asked.and_then(|asked| {
                let reader = readers[asked.partition].as_mut();
                reader.filter(|reader| reader.opening == asked.opening && reader.place == asked.place)
            });
            let (Some(asked), Some(reader)) = (asked, reader) else {
                return;
            };
            let result = match ErrorCode::check(fetched.head.error_code) {
                Ok(()) => {
                    reader.is_attached = true;
                    gave |= !fetched.records.is_empty();
                    let aborted = if is_read_committed { fetched.aborted } else { Vec::new() };
                    reader.take(&answer.frame, fetched.records, fetched.head.high_watermark, aborted)
                }
                Err(code) => Err(Trouble::Refused(code)),
            };
            if let Err(trouble) = result {
                failed.push((asked.partition, trouble));
            }
        });
        let head = head.map_err(malformed)?;
        if let Err(code) = ErrorCode::check(head.error_code) {
            return Err(refused(code, "the broker refuses to be fetched from"));
        }
        if gave {
            self.cluster.works();
        }
        self.quiet(broker, head.throttle_time_ms);
        let mut damage = None;
        for (partition, trouble) in failed {
            match trouble {
                Trouble::Refused(code) => self.take_refusal(partition, code)?,
                Trouble::Damaged(Damage::Format(error)) => {
                    let error = self.damaged(partition, &error.to_string());
                    self.fail(partition, error);
                }
                // The connection may be to blame.
                Trouble::Damaged(Damage::Checksum) => {
                    let error = self.damaged(partition, "the checksum does not match");
                    tracing::warn!(%error, "records are fetched again over another connection");
                    damage = Some(error);
                }
            }
        }
        if damage.is_none() {
            self.ask_records(broker)?;
        }
        let now = Instant::now().into_std();
        for asked in partitions {
            self.deliver(asked.partition, now);
        }
        damage.map_or(Ok(()), Err)
    }

    /// The error of what has arrived of a partition and can't be taken.
    fn damaged(&self, partition: usize, what: &str) -> ServiceError {
        let offset = match self.readers[partition].as_ref().map(|reader| reader.place) {
            Some(Place::At(offset)) => offset,
            _ => 0,
        };
        let topic = &self.cluster.endpoint().topic;
        let what =
            format!("partition {partition} of {topic}: the batch at offset {offset} can't be read: {what}");
        ServiceError::of_connection(PROTOCOL, what)
    }

    /// The broker wants to be left alone.
    pub(super) fn quiet(&mut self, broker: usize, throttle_time_ms: i32) {
        let Some(milliseconds) = u64::try_from(throttle_time_ms).ok().filter(|time| *time > 0) else {
            return;
        };
        self.slowed_down += 1;
        let retry_after = Duration::from_millis(milliseconds).min(QUIET_MAX);
        let exchange = &mut self.exchanges[broker];
        exchange.quiet_until = Some(Instant::now() + retry_after);
        exchange.throttled = Some(ServiceError {
            class: ErrorClass::Throttled { retry_after },
            condition: THROTTLED.to_owned(),
            description: format!("the broker is not to be asked for {retry_after:?}: a quota is used up"),
        });
    }

    /// What a broker says of one partition instead of giving its records.
    fn take_refusal(&mut self, partition: usize, code: ErrorCode) -> Result<(), ServiceError> {
        let topic = &self.cluster.endpoint().topic;
        let what = format!("partition {partition} of {topic} can't be fetched from");
        if code == ErrorCode::TopicAuthorizationFailed {
            return Err(refused_for_good(code, what));
        }
        let Some(reader) = &mut self.readers[partition] else {
            return Ok(());
        };
        match (code, reader.place) {
            (ErrorCode::OffsetOutOfRange, Place::At(offset)) => reader.place = Place::Refused(offset),
            (code, _) if is_about_leaders(code) => {
                reader.seeks_leader = true;
                self.cluster.refresh_soon();
            }
            (code, _) => self.fail(partition, refused(code, what)),
        }
        Ok(())
    }

    fn take_offsets(&mut self, partitions: &[AskedPartition], answer: &Answer) -> Result<(), ServiceError> {
        let response = ListOffsetsResponse::read(answer.reader(), answer.version).map_err(malformed)?;
        for found in response.partitions {
            let Some(asked) = partitions.iter().find(|asked| asked.partition as i32 == found.index) else {
                continue;
            };
            let Some(reader) = self.asked(asked).filter(|reader| reader.place == asked.place) else {
                continue;
            };
            match (found.error, reader.place) {
                (ErrorCode::None, Place::Sought(OffsetSpec::At(_))) if found.offset < 0 => {
                    // Nothing is as young as that: what comes next is.
                    reader.place = Place::Sought(OffsetSpec::Latest);
                }
                (ErrorCode::None, Place::Refused(offset)) if offset >= found.offset => {
                    let what = format!("offset {offset} is beyond the end of partition {}", asked.partition);
                    self.fail(asked.partition, refused_for_good(ErrorCode::OffsetOutOfRange, what));
                }
                (ErrorCode::None, _) => reader.begin(found.offset.max(0)),
                (code, _) => self.take_refusal(asked.partition, code)?,
            }
        }
        Ok(())
    }
}

impl Reader {
    fn take(
        &mut self,
        frame: &Bytes,
        records: &[u8],
        high_watermark: i64,
        aborted: Vec<AbortedTransaction>,
    ) -> Result<(), Trouble> {
        let Place::At(offset) = self.place else {
            return Ok(());
        };
        if records.is_empty() {
            return Ok(());
        }
        let records = &frame.slice_ref(records);
        let (offset, taken) = self.fetched.take(Arrived { records, offset, high_watermark, aborted });
        self.place = Place::At(offset);
        taken.map_err(Trouble::Damaged)
    }
}

/// No broker is left alone for longer, whatever it says.
const QUIET_MAX: Duration = Duration::from_secs(30);

/// The condition under which a broker answers and wants to be left alone.
const THROTTLED: &str = "THROTTLED";
