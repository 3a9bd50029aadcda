//! Files of Parquet with the columns of Event Hubs Capture, written by hand as those of Avro are: six flat columns need neither levels nor a tree
//! of values, and what is written is a small part of the format.
//!
//! ```text
//!   PAR1 | row group | row group | … | footer | its length | PAR1
//!          └ a page for each column: its values one after the other (PLAIN), packed with Snappy
//! ```
//!
//! Every column is required. `SequenceNumber` and `EnqueuedTimeUtc` tell least and greatest value of each row group, by which readers skip them.
//! Where a row group ends depends on nothing but the events in the file.

mod thrift;

use amqp::DecodeError;
use snap::raw::{Encoder, max_compress_len};

use super::content::body;
use super::json;
use crate::event::{Event, EventBatch};
use convert::annotations;
use convert::text::{put_base64, put_headers, put_text};
use thrift::Thrift;

/// Writes one file.
pub(super) struct ParquetWriter {
    /// The values of row groups that were not written, by column.
    columns: [Vec<u8>; COLUMNS],
    /// Rows of the last one of them.
    rows: u64,
    /// Where the values of the last one begin.
    begin: [usize; COLUMNS],
    /// Those that are full.
    full: Vec<Full>,
    written: Vec<RowGroup>,
    /// Bytes of the file so far.
    length: u64,
    encoder: Encoder,
    /// Scratch: a body in several pieces.
    body: Vec<u8>,
    /// The first event, and when the service took it.
    first: Option<(i64, i64)>,
}

/// Where a file was, to go back there.
#[derive(Clone, Copy, Debug)]
pub(super) struct Mark {
    lengths: [usize; COLUMNS],
    begin: [usize; COLUMNS],
    rows: u64,
    first: Option<(i64, i64)>,
}

/// A row group that is full and not written.
#[derive(Debug)]
struct Full {
    ends: [usize; COLUMNS],
    rows: u64,
}

/// A row group that is written.
#[derive(Debug)]
struct RowGroup {
    rows: u64,
    chunks: [Chunk; COLUMNS],
}

/// The values of a column in a row group.
#[derive(Clone, Copy, Debug, Default)]
struct Chunk {
    /// Where its page is in the file.
    offset: u64,
    /// Bytes with and without packing, the head of the page included.
    packed: u64,
    unpacked: u64,
    /// The least and the greatest number, where it has numbers.
    range: Option<(i64, i64)>,
}

impl ParquetWriter {
    /// Appends the head of a file.
    pub(super) fn begin(out: &mut Vec<u8>) -> Self {
        out.extend_from_slice(MAGIC);
        Self {
            columns: Default::default(),
            rows: 0,
            begin: [0; COLUMNS],
            full: Vec::new(),
            written: Vec::new(),
            length: MAGIC.len() as u64,
            encoder: Encoder::new(),
            body: Vec::new(),
            first: None,
        }
    }

    pub(super) fn mark(&self) -> Mark {
        Mark { lengths: self.lengths(), begin: self.begin, rows: self.rows, first: self.first }
    }

    /// Takes back what came since the mark; no row group was written in between.
    pub(super) fn go_back(&mut self, mark: Mark) {
        self.columns.iter_mut().zip(mark.lengths).for_each(|(column, length)| column.truncate(length));
        self.full.clear();
        (self.begin, self.rows, self.first) = (mark.begin, mark.rows, mark.first);
    }

    /// Bytes that are in no written row group yet, before they are packed.
    pub(super) fn pending(&self) -> usize {
        self.columns.iter().map(Vec::len).sum()
    }

    /// Adds an event.
    ///
    /// # Errors
    /// When its message can't be read; what was added of it has to be taken back.
    pub(super) fn put(&mut self, batch: &EventBatch, event: &Event) -> Result<(), DecodeError> {
        let message = batch.message(event);
        let (number, time) = (event.sequence_number, event.enqueued_time.unix_ms());
        let [numbers, offsets, times, system, properties, bodies] = &mut self.columns;
        numbers.extend_from_slice(&number.to_le_bytes());
        put_value(offsets, |out| out.extend_from_slice(batch.offset(event).unwrap_or_default()));
        times.extend_from_slice(&time.to_le_bytes());
        put_value(system, |out| put_system_properties(out, batch, event));
        let begin = properties.len();
        properties.extend_from_slice(&[0; 4]);
        json::put_application_properties(properties, message)?;
        end_value(properties, begin);
        let body = body(message, &mut self.body)?;
        put_value(bodies, |out| out.extend_from_slice(body));
        self.rows += 1;
        self.first.get_or_insert((number, time));
        let ends = self.lengths();
        if ends.iter().zip(self.begin).map(|(end, begin)| end - begin).sum::<usize>() >= ROW_GROUP_BYTES {
            self.full.push(Full { ends, rows: std::mem::take(&mut self.rows) });
            self.begin = ends;
        }
        Ok(())
    }

    /// Writes the row groups that are full.
    pub(super) fn end_full_row_groups(&mut self, out: &mut Vec<u8>) {
        if self.full.is_empty() {
            return;
        }
        let mut begin = [0; COLUMNS];
        for Full { ends, rows } in std::mem::take(&mut self.full) {
            self.write_row_group(out, begin, ends, rows);
            begin = ends;
        }
        for ((column, begin), open) in self.columns.iter_mut().zip(begin).zip(&mut self.begin) {
            column.drain(..begin);
            *open -= begin;
        }
    }

    /// Appends what is missing to a complete file.
    pub(super) fn finish(&mut self, out: &mut Vec<u8>) {
        self.end_full_row_groups(out);
        if self.rows > 0 {
            let (ends, rows) = (self.lengths(), self.rows);
            self.write_row_group(out, [0; COLUMNS], ends, rows);
        }
        let begin = out.len();
        self.put_footer(out);
        // Far less than 4 GiB: a row group takes some hundred bytes of it.
        let length = (out.len() - begin) as u32;
        out.extend_from_slice(&length.to_le_bytes());
        out.extend_from_slice(MAGIC);
    }

    fn lengths(&self) -> [usize; COLUMNS] {
        std::array::from_fn(|column| self.columns[column].len())
    }

    fn write_row_group(
        &mut self,
        out: &mut Vec<u8>,
        begin: [usize; COLUMNS],
        ends: [usize; COLUMNS],
        rows: u64,
    ) {
        let mut chunks = [Chunk::default(); COLUMNS];
        for (column, chunk) in chunks.iter_mut().enumerate() {
            let values = &self.columns[column][begin[column]..ends[column]];
            let before = out.len();
            let mut packed = vec![0; max_compress_len(values.len())];
            // There is room for anything.
            let length = self.encoder.compress(values, &mut packed).unwrap_or_default();
            let head = {
                let mut thrift = Thrift::begin(out);
                put_page_head(&mut thrift, values.len(), length, rows);
                out.len() - before
            };
            out.extend_from_slice(&packed[..length]);
            *chunk = Chunk {
                offset: self.length,
                packed: (head + length) as u64,
                unpacked: (head + values.len()) as u64,
                range: match SCHEMA[column].kind {
                    Kind::Number | Kind::Time => range(values),
                    Kind::Text | Kind::Json | Kind::Bytes => None,
                },
            };
            self.length += chunk.packed;
        }
        self.written.push(RowGroup { rows, chunks });
    }

    fn put_footer(&self, out: &mut Vec<u8>) {
        let rows: u64 = self.written.iter().map(|group| group.rows).sum();
        let mut thrift = Thrift::begin(out);
        thrift.number(1, 1);
        thrift.structs(2, 1 + COLUMNS);
        thrift.text(4, "EventData");
        thrift.number(5, COLUMNS as i64);
        thrift.end();
        for column in SCHEMA {
            thrift.number(1, column.kind.physical());
            thrift.number(3, REQUIRED);
            thrift.text(4, column.name);
            if let Some(converted) = column.kind.converted() {
                thrift.number(6, converted);
            }
            thrift.end();
        }
        thrift.long(3, rows as i64);
        thrift.structs(4, self.written.len());
        for group in &self.written {
            put_row_group(&mut thrift, group);
        }
        let (first, enqueued_ms) = self.first.unwrap_or_default();
        let pairs = [(FIRST, first), (ENQUEUED, enqueued_ms), (COUNT, rows as i64)];
        thrift.structs(5, pairs.len());
        for (key, value) in pairs {
            thrift.text(1, key);
            thrift.text(2, &value.to_string());
            thrift.end();
        }
        thrift.text(6, "parshall");
        // The order of each column is that of its type.
        thrift.structs(7, COLUMNS);
        for _ in SCHEMA {
            thrift.begin_struct(1);
            thrift.end();
            thrift.end();
        }
        thrift.end();
    }
}

impl std::fmt::Debug for ParquetWriter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ParquetWriter").field("rows", &self.rows).finish_non_exhaustive()
    }
}

/// What the end of a file tells of it: its first event with the time of it, and how many there are.
pub(super) fn extent(end: &[u8]) -> Option<(i64, i64, i64)> {
    let number = |key: &str| {
        let place = end.windows(key.len()).rposition(|window| window == key.as_bytes())?;
        // Behind the key are a byte for the field, one for the length, and the digits.
        let rest = end.get(place + key.len() + 1..)?;
        let digits = rest.get(1..1 + usize::from(*rest.first()?))?;
        std::str::from_utf8(digits).ok()?.parse().ok()
    };
    Some((number(FIRST)?, number(ENQUEUED)?, number(COUNT)?))
}

/// What [`extent`] needs of a file, in bytes from its end: what lies behind the row groups in a footer.
pub(super) const EXTENT_BYTES: u64 = 512;

fn put_page_head(thrift: &mut Thrift<'_>, unpacked: usize, packed: usize, rows: u64) {
    thrift.number(1, DATA_PAGE);
    // An event is far smaller than 2 GiB, and so is a row group.
    thrift.number(2, unpacked as i64);
    thrift.number(3, packed as i64);
    thrift.begin_struct(5);
    thrift.number(1, rows as i64);
    thrift.number(2, PLAIN);
    thrift.number(3, RLE);
    thrift.number(4, RLE);
    thrift.end();
    thrift.end();
}

fn put_row_group(thrift: &mut Thrift<'_>, group: &RowGroup) {
    thrift.structs(1, COLUMNS);
    for (column, chunk) in SCHEMA.iter().zip(&group.chunks) {
        thrift.long(2, chunk.offset as i64);
        thrift.begin_struct(3);
        thrift.number(1, column.kind.physical());
        thrift.numbers(2, &[PLAIN]);
        thrift.texts(3, &[column.name]);
        thrift.number(4, SNAPPY);
        thrift.long(5, group.rows as i64);
        thrift.long(6, chunk.unpacked as i64);
        thrift.long(7, chunk.packed as i64);
        thrift.long(9, chunk.offset as i64);
        if let Some((least, greatest)) = chunk.range {
            thrift.begin_struct(12);
            thrift.long(3, 0);
            thrift.bytes(5, &greatest.to_le_bytes());
            thrift.bytes(6, &least.to_le_bytes());
            thrift.end();
        }
        thrift.end();
        thrift.end();
    }
    thrift.long(2, group.chunks.iter().map(|chunk| chunk.unpacked as i64).sum());
    thrift.long(3, group.rows as i64);
    thrift.end();
}

/// The least and the greatest of numbers of 8 bytes each.
fn range(values: &[u8]) -> Option<(i64, i64)> {
    let (numbers, _) = values.as_chunks();
    let numbers = numbers.iter().map(|bytes| i64::from_le_bytes(*bytes));
    numbers.fold(None, |range, number| match range {
        None => Some((number, number)),
        Some((least, greatest)) => Some((number.min(least), number.max(greatest))),
    })
}

/// What the service knows of an event, under the names that Capture gives it.
fn put_system_properties(out: &mut Vec<u8>, batch: &EventBatch, event: &Event) {
    out.extend_from_slice(b"{\"x-opt-sequence-number\":");
    json::put_integer(out, event.sequence_number);
    out.extend_from_slice(b",\"x-opt-enqueued-time\":");
    json::put_integer(out, event.enqueued_time.unix_ms());
    let mut member = |name: &str, put: &dyn Fn(&mut Vec<u8>)| {
        out.extend_from_slice(b",\"");
        out.extend_from_slice(name.as_bytes());
        out.extend_from_slice(b"\":");
        put(out);
    };
    let text = |bytes| str::from_utf8(bytes).ok();
    if let Some(offset) = batch.offset(event).and_then(text) {
        member("x-opt-offset", &|out| put_text(out, offset));
    }
    // The key of a record that is no text is among what is said of the record.
    if let Some(key) = batch.partition_key(event).and_then(text) {
        member("x-opt-partition-key", &|out| put_text(out, key));
    }
    let of_record = annotations::of_message(batch.message(event)).unwrap_or_default();
    if let Some(key) = of_record.key {
        match text(key) {
            Some(key) => member("x-opt-kafka-key", &|out| put_text(out, key)),
            None => member("x-opt-kafka-key-base64", &|out| put_base64(out, key)),
        }
    }
    if of_record.is_tombstone {
        member("x-opt-kafka-tombstone", &|out| out.extend_from_slice(b"true"));
    }
    if !of_record.headers.is_empty() {
        member("x-opt-kafka-headers", &|out| put_headers(out, &of_record.headers));
    }
    out.push(b'}');
}

/// Appends a value with its length before it.
fn put_value(out: &mut Vec<u8>, put: impl FnOnce(&mut Vec<u8>)) {
    let begin = out.len();
    out.extend_from_slice(&[0; 4]);
    put(out);
    end_value(out, begin);
}

fn end_value(out: &mut [u8], begin: usize) {
    // Less than 4 GiB, as every message is.
    let length = (out.len() - begin - 4) as u32;
    out[begin..begin + 4].copy_from_slice(&length.to_le_bytes());
}

/// A column.
struct Column {
    name: &'static str,
    kind: Kind,
}

/// What the values of a column are.
#[derive(Clone, Copy)]
enum Kind {
    Number,
    Text,
    /// In milliseconds, UTC.
    Time,
    Json,
    Bytes,
}

impl Kind {
    const fn physical(self) -> i64 {
        match self {
            Self::Number | Self::Time => 2,
            Self::Text | Self::Json | Self::Bytes => 6,
        }
    }

    const fn converted(self) -> Option<i64> {
        match self {
            Self::Number | Self::Bytes => None,
            Self::Text => Some(0),
            Self::Time => Some(9),
            Self::Json => Some(19),
        }
    }
}

const COLUMNS: usize = 6;

const SCHEMA: [Column; COLUMNS] = [
    Column { name: "SequenceNumber", kind: Kind::Number },
    Column { name: "Offset", kind: Kind::Text },
    Column { name: "EnqueuedTimeUtc", kind: Kind::Time },
    Column { name: "SystemProperties", kind: Kind::Json },
    Column { name: "Properties", kind: Kind::Json },
    Column { name: "Body", kind: Kind::Bytes },
];

const MAGIC: &[u8] = b"PAR1";

/// A row group with so many bytes is full, before it is packed.
const ROW_GROUP_BYTES: usize = 4 * 1024 * 1024;

// Numbers of the format.
const REQUIRED: i64 = 0;
const DATA_PAGE: i64 = 0;
const PLAIN: i64 = 0;
const RLE: i64 = 3;
const SNAPPY: i64 = 1;

// Keys of the footer. The last one is found first, so none is the end of another.
const FIRST: &str = "parshall.first";
const ENQUEUED: &str = "parshall.enqueued";
const COUNT: &str = "parshall.count";

#[cfg(test)]
mod tests {
    use amqp::codec::Value;
    use amqp::message::encode;
    use bytes::Bytes;
    use snap::raw::Decoder;

    use super::*;
    use crate::event::{EnqueuedTime, EventParts, PartitionId};

    fn batch(first: i64, count: usize, body: &[u8]) -> EventBatch {
        let mut chunk = b"1024key".to_vec();
        encode::application_properties(&mut chunk, &[("n", Value::Int(-1))]);
        encode::data(&mut chunk, body);
        let mut batch = EventBatch::with_capacity(PartitionId(0), count);
        let chunk = Bytes::from(chunk);
        for number in first..first + count as i64 {
            let parts = EventParts {
                message: 7..chunk.len() as u32,
                partition_key: 4..7,
                offset: 0..4,
                sequence_number: number,
                enqueued_time: EnqueuedTime::from_unix_ms(1_512_702_197_000 + number),
            };
            batch.push(&chunk, &parts);
        }
        batch
    }

    fn put(writer: &mut ParquetWriter, out: &mut Vec<u8>, batch: &EventBatch) {
        batch.events().iter().for_each(|event| writer.put(batch, event).unwrap());
        writer.end_full_row_groups(out);
    }

    #[test]
    fn a_row_is_the_values_of_its_columns() {
        let mut file = Vec::new();
        let mut writer = ParquetWriter::begin(&mut file);
        put(&mut writer, &mut file, &batch(300, 1, b"body"));
        let [numbers, offsets, times, system, properties, bodies] = &writer.columns;
        assert_eq!(numbers[..], 300_i64.to_le_bytes());
        assert_eq!(offsets, b"\x04\0\0\x001024");
        assert_eq!(times[..], 1_512_702_197_300_i64.to_le_bytes());
        let expected = "{\"x-opt-sequence-number\":300,\"x-opt-enqueued-time\":1512702197300,\"x-opt-offset\":\"1024\",\
                        \"x-opt-partition-key\":\"key\"}";
        assert_eq!((system[0] as usize, &system[4..]), (expected.len(), expected.as_bytes()));
        assert_eq!(properties, b"\x08\0\0\0{\"n\":-1}");
        assert_eq!(bodies, b"\x04\0\0\0body");
        writer.finish(&mut file);
        assert!(file.starts_with(MAGIC) && file.ends_with(MAGIC));
        assert_eq!(extent(&file), Some((300, 1_512_702_197_300, 1)));
        // The first page is that of the numbers: its head, then 8 bytes as Snappy has them.
        let group = &writer.written[0];
        let page = &file[4..4 + group.chunks[0].packed as usize];
        let values = Decoder::new().decompress_vec(&page[page.len() - 10..]).unwrap();
        assert_eq!(values, 300_i64.to_le_bytes());
        assert_eq!(page[..7], [0x15, 0, 0x15, 16, 0x15, 20, 0x2c], "a data page of 8 bytes, 10 when packed");
    }

    #[test]
    fn what_is_taken_back_leaves_no_trace_and_where_row_groups_end_does_not_depend_on_sends() {
        let large = vec![b'x'; 1_000_000];
        let mut files = Vec::new();
        for sends in [vec![7], vec![1, 1, 1, 1, 1, 1, 1], vec![3, 4]] {
            let mut file = Vec::new();
            let mut writer = ParquetWriter::begin(&mut file);
            let mut first = 0;
            for count in sends {
                let mark = writer.mark();
                for _ in 0..2 {
                    writer.go_back(mark);
                    let batch = batch(first, count, &large);
                    batch.events().iter().for_each(|event| writer.put(&batch, event).unwrap());
                }
                writer.end_full_row_groups(&mut file);
                first += count as i64;
            }
            writer.finish(&mut file);
            assert_eq!(writer.written.iter().map(|group| group.rows).collect::<Vec<_>>(), [5, 2]);
            assert_eq!(writer.written[1].chunks[0].range, Some((5, 6)));
            files.push(file);
        }
        assert!(files.iter().all(|file| *file == files[0]));
    }

    #[test]
    fn what_is_no_file_has_no_extent() {
        for end in [&b""[..], b"PAR1", b"parshall.first", b"parshall.first\x18", b"parshall.first\x18\x63"] {
            assert_eq!(extent(end), None);
        }
    }
}
