//! What events become in a file, in one format or another: bytes that are stored block by block.

use amqp::DecodeError;

use crate::archive::avro::{self, AvroWriter};
use crate::archive::json;
use crate::archive::options::FileFormat;
use crate::archive::parquet::{self, ParquetWriter};
use crate::event::{Event, EventBatch};

/// Writes one file.
#[derive(Debug)]
pub(super) struct FileWriter {
    /// What is to be stored next.
    block: Vec<u8>,
    format: Format,
}

#[derive(Debug)]
enum Format {
    Ndjson,
    Avro(Box<AvroWriter>),
    Parquet(Box<ParquetWriter>),
}

/// How far a file was, to go back there.
#[derive(Clone, Copy, Debug)]
pub(super) enum Mark {
    Ndjson(usize),
    Avro(avro::Mark),
    Parquet(parquet::Mark),
}

impl FileWriter {
    /// Begins a file of this name in empty memory.
    pub(super) fn begin(format: FileFormat, name: &str, mut block: Vec<u8>) -> Self {
        let format = match format {
            FileFormat::Ndjson => Format::Ndjson,
            FileFormat::Avro => Format::Avro(Box::new(AvroWriter::begin(&mut block, name))),
            FileFormat::Parquet => Format::Parquet(Box::new(ParquetWriter::begin(&mut block))),
        };
        Self { block, format }
    }

    /// Adds an event.
    ///
    /// # Errors
    /// When its message can't be read; what was added of it has to be taken back.
    #[inline]
    pub(super) fn put(&mut self, hub: &str, batch: &EventBatch, event: &Event) -> Result<(), DecodeError> {
        match &mut self.format {
            Format::Avro(writer) => writer.put(batch, event),
            Format::Parquet(writer) => writer.put(batch, event),
            Format::Ndjson => {
                json::put_event(&mut self.block, hub, batch, event)?;
                self.block.push(b'\n');
                Ok(())
            }
        }
    }

    pub(super) fn mark(&self) -> Mark {
        match &self.format {
            Format::Ndjson => Mark::Ndjson(self.block.len()),
            Format::Avro(writer) => Mark::Avro(writer.mark()),
            Format::Parquet(writer) => Mark::Parquet(writer.mark()),
        }
    }

    /// Takes back what came since the mark; nothing was [settled](Self::settle) in between.
    pub(super) fn go_back(&mut self, mark: Mark) {
        match (&mut self.format, mark) {
            (Format::Ndjson, Mark::Ndjson(length)) => self.block.truncate(length),
            (Format::Avro(writer), Mark::Avro(mark)) => writer.go_back(mark),
            (Format::Parquet(writer), Mark::Parquet(mark)) => writer.go_back(mark),
            _ => debug_assert!(false, "a mark is of the same file"),
        }
    }

    /// What came is there to stay.
    pub(super) fn settle(&mut self) {
        match &mut self.format {
            Format::Ndjson => {}
            Format::Avro(writer) => writer.end_full_blocks(&mut self.block),
            Format::Parquet(writer) => writer.end_full_row_groups(&mut self.block),
        }
    }

    /// Appends what is missing to a complete file.
    pub(super) fn finish(&mut self) {
        match &mut self.format {
            Format::Ndjson => {}
            Format::Avro(writer) => writer.finish(&mut self.block, false),
            Format::Parquet(writer) => writer.finish(&mut self.block),
        }
    }

    /// Bytes that can be stored.
    pub(super) const fn ready(&self) -> usize {
        self.block.len()
    }

    /// Bytes that were not taken to be stored.
    pub(super) fn pending(&self) -> usize {
        match &self.format {
            Format::Ndjson => self.block.len(),
            Format::Avro(writer) => self.block.len() + writer.pending(),
            Format::Parquet(writer) => self.block.len() + writer.pending(),
        }
    }

    /// Takes what can be stored; what follows goes to other memory.
    pub(super) fn take(&mut self, next: Vec<u8>) -> Vec<u8> {
        std::mem::replace(&mut self.block, next)
    }
}
