//! Files of Avro in the layout of Event Hubs Capture, written by hand: what is read by everything that reads Capture's.
//!
//! ```text
//!   Obj 1 | avro.codec: null | avro.schema: {…} | 16 bytes of sync                490 bytes
//!   count | bytes | record record record …     | the same sync                    a block, as often as there are
//! ```
//!
//! A file without events has one block of none: 508 bytes in all, as Capture's have. The schema is that of Capture's files, where a property
//! may be null, which the documentation's lacks.

use amqp::DecodeError;
use amqp::codec::Value;
use amqp::message::{MessageView, is_data_section};
use convert::annotations;
use convert::text::put_headers;
use units::date::CivilTime;
use units::md5::{Md5, md5};

use super::content::body;
use crate::event::{Event, EventBatch};

/// Writes one file.
#[derive(Debug)]
pub(super) struct AvroWriter {
    sync: Md5,
    /// The records of blocks that were not ended.
    block: Vec<u8>,
    /// Those of the last one of them.
    records: i64,
    /// Where the last one begins.
    begin: usize,
    /// The ends of those that are full, and how many records each has.
    full: Vec<(usize, i64)>,
    /// Scratch: a body in several pieces.
    body: Vec<u8>,
}

/// Where a block was, to go back there.
#[derive(Clone, Copy, Debug)]
pub(super) struct Mark {
    length: usize,
    records: i64,
    begin: usize,
}

impl AvroWriter {
    /// Appends the head of a file. Its name decides what marks blocks, so that a file that is written again is the same.
    pub(super) fn begin(out: &mut Vec<u8>, name: &str) -> Self {
        let sync = md5(name.as_bytes());
        out.extend_from_slice(b"Obj\x01");
        put_long(out, 2);
        for (key, value) in [("avro.codec", "null"), ("avro.schema", SCHEMA)] {
            put_bytes(out, key.as_bytes());
            put_bytes(out, value.as_bytes());
        }
        out.push(0);
        out.extend_from_slice(&sync);
        Self { sync, block: Vec::new(), records: 0, begin: 0, full: Vec::new(), body: Vec::new() }
    }

    pub(super) fn mark(&self) -> Mark {
        Mark { length: self.block.len(), records: self.records, begin: self.begin }
    }

    /// Takes back what came since the mark; blocks are not ended in between.
    pub(super) fn go_back(&mut self, mark: Mark) {
        self.block.truncate(mark.length);
        self.full.clear();
        (self.records, self.begin) = (mark.records, mark.begin);
    }

    /// Bytes that are in no complete block yet.
    pub(super) fn pending(&self) -> usize {
        self.block.len()
    }

    /// Adds an event.
    ///
    /// # Errors
    /// When its message can't be read; what was added of it has to be taken back.
    pub(super) fn put(&mut self, batch: &EventBatch, event: &Event) -> Result<(), DecodeError> {
        let message = batch.message(event);
        let out = &mut self.block;
        put_long(out, event.sequence_number);
        put_bytes(out, batch.offset(event).unwrap_or_default());
        put_time(out, event.enqueued_time.unix_ms());
        put_system_properties(out, batch, event);
        if is_data_section(message) {
            out.push(0);
        } else {
            put_properties(out, message)?;
        }
        // The second type of the union.
        put_long(out, 1);
        put_bytes(out, body(message, &mut self.body)?);
        self.records += 1;
        if self.block.len() - self.begin >= BLOCK_BYTES {
            self.full.push((self.block.len(), std::mem::take(&mut self.records)));
            self.begin = self.block.len();
        }
        Ok(())
    }

    /// Ends the blocks that are full. Where they end depends on nothing but the events in the file.
    pub(super) fn end_full_blocks(&mut self, out: &mut Vec<u8>) {
        let mut begin = 0;
        for (end, records) in self.full.drain(..) {
            put_block(out, records, &self.block[begin..end], &self.sync);
            begin = end;
        }
        self.block.drain(..begin);
        self.begin -= begin;
    }

    /// Appends what is missing to a complete file.
    pub(super) fn finish(&mut self, out: &mut Vec<u8>, is_empty: bool) {
        self.end_full_blocks(out);
        if self.records > 0 || is_empty {
            put_block(out, self.records, &self.block, &self.sync);
        }
    }
}

fn put_block(out: &mut Vec<u8>, records: i64, block: &[u8], sync: &Md5) {
    put_long(out, records);
    put_bytes(out, block);
    out.extend_from_slice(sync);
}

/// What the service knows of an event, under the names that Capture gives it.
fn put_system_properties(out: &mut Vec<u8>, batch: &EventBatch, event: &Event) {
    let offset = batch.offset(event);
    let of_record = annotations::of_message(batch.message(event)).unwrap_or_default();
    // The key of a record that is no text is among what is said of the record.
    let key = batch.partition_key(event).filter(|key| str::from_utf8(key).is_ok());
    let entries = [
        offset.is_some(),
        key.is_some(),
        of_record.key.is_some(),
        of_record.is_tombstone,
        !of_record.headers.is_empty(),
    ];
    put_long(out, 2 + entries.map(i64::from).iter().sum::<i64>());
    let put_number = |out: &mut Vec<u8>, name: &str, number: i64| {
        put_bytes(out, name.as_bytes());
        put_long(out, LONG);
        put_long(out, number);
    };
    let put_text = |out: &mut Vec<u8>, name: &str, text: Option<&[u8]>| {
        let Some(text) = text else { return };
        put_bytes(out, name.as_bytes());
        put_long(out, STRING);
        put_text_bytes(out, text);
    };
    put_number(out, "x-opt-sequence-number", event.sequence_number);
    put_text(out, "x-opt-offset", offset);
    put_number(out, "x-opt-enqueued-time", event.enqueued_time.unix_ms());
    put_text(out, "x-opt-partition-key", key);
    if let Some(key) = of_record.key {
        put_bytes(out, b"x-opt-kafka-key");
        put_long(out, BYTES);
        put_bytes(out, key);
    }
    put_text(out, "x-opt-kafka-tombstone", of_record.is_tombstone.then_some(b"true"));
    let mut headers = Vec::new();
    put_headers(&mut headers, &of_record.headers);
    put_text(out, "x-opt-kafka-headers", (!of_record.headers.is_empty()).then_some(&headers));
    out.push(0);
}

/// The application's properties: whole numbers as long, fractions as double, bytes as bytes, everything else as text.
fn put_properties(out: &mut Vec<u8>, message: &[u8]) -> Result<(), DecodeError> {
    let entries = MessageView::parse(message)?.application_properties()?.entries()?;
    if !entries.is_empty() {
        // Far fewer than fit into 63 bits.
        put_long(out, entries.len() as i64);
    }
    for (name, value) in &entries {
        put_bytes(out, name.as_str().as_bytes());
        match value {
            Value::Null => put_long(out, NULL),
            Value::Float(value) => put_double(out, f64::from(*value)),
            Value::Double(value) => put_double(out, *value),
            Value::Binary(bytes) => {
                put_long(out, BYTES);
                put_bytes(out, bytes);
            }
            Value::Ulong(value) if i64::try_from(*value).is_err() => put_string(out, &value.to_string()),
            Value::String(text) => put_string(out, text),
            Value::Symbol(text) => put_string(out, text.as_str()),
            Value::Timestamp(unix_ms) => {
                put_long(out, LONG);
                put_long(out, *unix_ms);
            }
            value => match value.as_integer() {
                Some(number) => {
                    put_long(out, LONG);
                    put_long(out, number);
                }
                None => {
                    let mut text = Vec::new();
                    convert::text::put_value(&mut text, value);
                    put_string(out, String::from_utf8_lossy(&text).trim_matches('"'));
                }
            },
        }
    }
    out.push(0);
    Ok(())
}

fn put_string(out: &mut Vec<u8>, text: &str) {
    put_long(out, STRING);
    put_bytes(out, text.as_bytes());
}

fn put_double(out: &mut Vec<u8>, value: f64) {
    put_long(out, DOUBLE);
    out.extend_from_slice(&value.to_le_bytes());
}

/// Bytes that are to be text.
fn put_text_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    match std::str::from_utf8(bytes) {
        Ok(text) => put_bytes(out, text.as_bytes()),
        Err(_) => put_bytes(out, String::from_utf8_lossy(bytes).as_bytes()),
    }
}

/// A time as Capture writes it: `12/8/2017 3:03:17 AM`.
fn put_time(out: &mut Vec<u8>, unix_ms: i64) {
    let time = CivilTime::of_unix_ms(unix_ms);
    let (half, hour) = match time.hour {
        0 => ("AM", 12),
        hour @ 1..12 => ("AM", hour),
        12 => ("PM", 12),
        hour => ("PM", hour - 12),
    };
    let mut text = [0; 24];
    let mut rest = &mut text[..];
    // 22 bytes at most.
    let _ = std::io::Write::write_fmt(
        &mut rest,
        format_args!(
            "{}/{}/{} {hour}:{:02}:{:02} {half}",
            time.month, time.day, time.year, time.minute, time.second
        ),
    );
    let left = rest.len();
    put_bytes(out, &text[..text.len() - left]);
}

/// A number in its shortest form: seven bits a byte, the sign in the lowest one.
#[inline]
fn put_long(out: &mut Vec<u8>, value: i64) {
    let mut rest = ((value << 1) ^ (value >> 63)).cast_unsigned();
    while rest >= 0x80 {
        out.push(rest as u8 | 0x80);
        rest >>= 7;
    }
    out.push(rest as u8);
}

#[inline]
fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    // Nothing here is as long as 63 bits can say.
    put_long(out, bytes.len() as i64);
    out.extend_from_slice(bytes);
}

/// The places of types in the unions of properties.
const LONG: i64 = 0;
const DOUBLE: i64 = 1;
const STRING: i64 = 2;
const BYTES: i64 = 3;
const NULL: i64 = 4;

/// A block with so many bytes is full. Readers take a block at a time.
const BLOCK_BYTES: usize = 64 * 1024;

const SCHEMA: &str = "{\"type\":\"record\",\"name\":\"EventData\",\"namespace\":\"Microsoft.ServiceBus.Messaging\",\
     \"fields\":[{\"name\":\"SequenceNumber\",\"type\":\"long\"},{\"name\":\"Offset\",\"type\":\"string\"},\
     {\"name\":\"EnqueuedTimeUtc\",\"type\":\"string\"},\
     {\"name\":\"SystemProperties\",\"type\":{\"type\":\"map\",\"values\":[\"long\",\"double\",\"string\",\"bytes\"]}},\
     {\"name\":\"Properties\",\"type\":{\"type\":\"map\",\"values\":[\"long\",\"double\",\"string\",\"bytes\",\"null\"]}},\
     {\"name\":\"Body\",\"type\":[\"null\",\"bytes\"]}]}";

#[cfg(test)]
mod tests {
    use amqp::message::encode;
    use bytes::Bytes;

    use super::*;
    use crate::event::{EnqueuedTime, EventParts, PartitionId};

    #[test]
    fn a_file_without_events_is_as_long_as_captures() {
        let mut file = Vec::new();
        let mut writer = AvroWriter::begin(&mut file, "name");
        assert_eq!((SCHEMA.len(), file.len()), (438, 490));
        writer.finish(&mut file, true);
        assert_eq!(file.len(), 508);
        assert_eq!(&file[..17], b"Obj\x01\x04\x14avro.codec\x08");
        assert_eq!(&file[490..492], [0, 0]);
        assert_eq!(file[492..], md5(b"name"));
    }

    #[test]
    fn a_record_is_as_the_specification_has_it() {
        let mut chunk = b"1024".to_vec();
        encode::application_properties(&mut chunk, &[("n", Value::Int(-1)), ("b", Value::Boolean(true))]);
        encode::data(&mut chunk, b"body");
        let parts = EventParts {
            message: 4..chunk.len() as u32,
            partition_key: 0..0,
            offset: 0..4,
            sequence_number: 300,
            enqueued_time: EnqueuedTime::from_unix_ms(1_512_702_197_000),
        };
        let mut batch = EventBatch::with_capacity(PartitionId(0), 1);
        batch.push(&Bytes::from(chunk), &parts);
        let mut file = Vec::new();
        let mut writer = AvroWriter::begin(&mut file, "name");
        writer.put(&batch, &batch.events()[0]).unwrap();
        let mark = writer.mark();
        writer.put(&batch, &batch.events()[0]).unwrap();
        writer.go_back(mark);
        let head = file.len();
        writer.finish(&mut file, false);
        let record = [
            &b"\xd8\x04\x081024\x2812/8/2017 3:03:17 AM"[..],
            b"\x06\x2ax-opt-sequence-number\x00\xd8\x04\x18x-opt-offset\x04\x081024",
            b"\x26x-opt-enqueued-time\x00\x90\xf4\x9d\xc1\x86\x58\x00",
            b"\x04\x02n\x00\x01\x02b\x04\x08true\x00\x02\x08body",
        ]
        .concat();
        let mut block = vec![2];
        put_bytes(&mut block, &record);
        assert_eq!(&file[head..file.len() - 16], block);
    }

    #[test]
    fn times_are_those_of_a_clock_with_twelve_hours() {
        let text = |unix_ms| {
            let mut out = Vec::new();
            put_time(&mut out, unix_ms);
            String::from_utf8(out.split_off(1)).unwrap()
        };
        assert_eq!(text(0), "1/1/1970 12:00:00 AM");
        assert_eq!(text(43_200_000), "1/1/1970 12:00:00 PM");
        assert_eq!(text(i64::MAX), "12/31/9999 11:59:59 PM");
    }
}
