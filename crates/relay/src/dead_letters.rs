//! Events that no destination takes, kept in a file: one line of JSON for each, on the disk before the relay goes on.
//!
//! ```text
//!   {"partition":3,"sequence_number":812,"offset":"1663112","enqueued_time_ms":1700000000000,"partition_key":"device-7",
//!    "destination":5,"condition":"amqp:link:message-size-exceeded","description":"…","message":"AFN1oAVldmVudA=="}
//! ```
//!
//! `message` is base64 of the encoded AMQP sections that would have been forwarded, or, with `"encoding":"kafka"`, of a record's key, value and
//! headers as they stand in batches: `parshall send --format events` takes these lines. Where there are several sinks, `sink` is
//! the place of the one that refuses the event in their list, from 0.
//!
//! Of records that can't be read, `sequence_number` and `last_sequence_number` are the first and the last one, `records` is their
//! number as far as the source says, and `message` is the whole batch as the source has it.

use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use connect::event::{Encoding, Event, EventBatch};
use connect::sink::SendError;
use serde::Serialize;

/// A file of dead letters. Whatever is there already stays.
#[derive(Debug)]
pub(crate) struct DeadLetters {
    file: File,
}

#[derive(Serialize)]
struct Line<'a> {
    partition: u32,
    sequence_number: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    last_sequence_number: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    records: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    offset: Option<&'a str>,
    enqueued_time_ms: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    partition_key: Option<&'a str>,
    /// Which of several sinks refuses it.
    #[serde(skip_serializing_if = "Option::is_none")]
    sink: Option<u32>,
    destination: u32,
    condition: &'a str,
    description: &'a str,
    /// What `message` is encoded as, if not as AMQP.
    #[serde(skip_serializing_if = "Option::is_none")]
    encoding: Option<&'static str>,
    message: String,
}

impl DeadLetters {
    /// Opens the file, which is made for this user alone if it is not there.
    ///
    /// # Errors
    /// What the system says.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        let file = OpenOptions::new().append(true).create(true).mode(0o600).open(path)?;
        file.sync_all()?;
        if let Some(folder) = path.parent() {
            let folder = match folder.as_os_str().is_empty() {
                true => Path::new("."),
                false => folder,
            };
            File::open(folder)?.sync_all()?;
        }
        Ok(Self { file })
    }

    /// Appends an event, and returns when it is on the disk.
    ///
    /// # Errors
    /// What the system says. A part of the line may have been written.
    pub(crate) fn append(
        &mut self,
        batch: &EventBatch,
        event: &Event,
        sink: Option<u32>,
        destination: u32,
        error: &SendError,
    ) -> io::Result<()> {
        let text = |bytes| std::str::from_utf8(bytes).ok();
        let unreadable = batch.unreadable();
        let line = Line {
            partition: batch.partition().0,
            sequence_number: unreadable.map_or(event.sequence_number, |records| records.numbers.start),
            last_sequence_number: unreadable.map(|records| records.numbers.end - 1),
            records: unreadable.map(|records| records.records),
            offset: batch.offset(event).and_then(text),
            enqueued_time_ms: event.enqueued_time.unix_ms(),
            partition_key: batch.partition_key(event).and_then(text),
            sink,
            destination,
            condition: &error.condition,
            description: &error.description,
            encoding: (batch.encoding() == Encoding::Kafka && unreadable.is_none()).then_some("kafka"),
            message: STANDARD.encode(batch.message(event)),
        };
        let mut line = serde_json::to_vec(&line)?;
        line.push(b'\n');
        self.file.write_all(&line)?;
        self.file.sync_data()
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use connect::event::PartitionId;
    use connect::sink::ErrorClass;
    use convert::text::{Extra, read};

    use super::*;

    /// What a line of a message is when it is read.
    fn letter(message: &[u8], encoding: Encoding) -> convert::text::ReadEvent {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("letters");
        let mut batch = EventBatch::with_capacity(PartitionId(1), 1);
        batch.push_message(&Bytes::copy_from_slice(message), 7);
        batch.set_encoding(encoding);
        let error =
            SendError { class: ErrorClass::Fatal, condition: "c".to_owned(), description: String::new() };
        DeadLetters::open(&path).unwrap().append(&batch, &batch.events()[0], None, 0, &error).unwrap();
        read(&std::fs::read(&path).unwrap(), Extra::default()).unwrap()
    }

    #[test]
    fn a_line_is_the_event_that_was_refused() {
        let mut tail = Vec::new();
        let headers = [(&b"a"[..], Some(&b"1"[..])), (b"a", None)];
        kafka::record::encode_tail(&mut tail, Some(b"\xff"), None, headers.into_iter());
        let of_record = letter(&tail, Encoding::Kafka);
        let message = convert::Message {
            annotation_count: of_record.annotation_count,
            annotations: &of_record.annotations,
            header_form: convert::HeaderForm::Bytes,
            ..convert::Message::of(&of_record.sections)
        };
        let parts = message.record_parts();
        assert_eq!((parts.key, parts.value.as_deref()), (Some(&b"\xff"[..]), None));
        assert_eq!(parts.headers().collect::<Vec<_>>(), headers);
        // Of AMQP it has the sections, of which the first are the annotations that go on.
        let mut sections = Vec::new();
        convert::annotations::section(&mut sections, of_record.annotation_count, &of_record.annotations);
        sections.extend_from_slice(&of_record.sections);
        assert_eq!(letter(&sections, Encoding::Amqp), of_record);
    }
}
