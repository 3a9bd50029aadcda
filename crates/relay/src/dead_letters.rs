//! Events that no destination takes, kept in a file: one line of JSON for each, on the disk before the relay goes on.
//!
//! ```text
//!   {"partition":3,"sequence_number":812,"offset":"1663112","enqueued_time_ms":1700000000000,"partition_key":"device-7",
//!    "destination":5,"condition":"amqp:link:message-size-exceeded","description":"…","message":"AFN1oAVldmVudA=="}
//! ```
//!
//! `message` is base64 of the encoded AMQP sections that would have been forwarded. Where there are several sinks, `sink` is
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
use connect::event::{Event, EventBatch};
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
            message: STANDARD.encode(batch.message(event)),
        };
        let mut line = serde_json::to_vec(&line)?;
        line.push(b'\n');
        self.file.write_all(&line)?;
        self.file.sync_data()
    }
}
