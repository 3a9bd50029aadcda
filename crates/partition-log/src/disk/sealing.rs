//! Batches on their way to a file: there they have checksums, in memory they have none.
//!
//! The checksum belongs into the header, and readers may be looking at the header in memory. So small batches are copied
//! to a stage, where it is filled in, and written together; of a large one only the header is copied.

use super::files::{DiskFile, write_fully};
use crate::batch::{BatchHeader, Batches, sealed_header};
use std::io;

/// Memory to put batches together in, before they are written.
#[derive(Debug, Default)]
pub(super) struct Stage {
    bytes: Vec<u8>,
}

impl Stage {
    /// Writes whole batches at `position`, each with its checksum.
    pub(super) fn write(&mut self, file: &dyn DiskFile, batches: &[u8], mut position: u64) -> io::Result<()> {
        self.bytes.clear();
        let mut rest = batches;
        while !rest.is_empty() {
            let header = BatchHeader::read(rest).map_err(io::Error::other)?;
            let (batch, following) = rest.split_at(header.length as usize);
            let records = &batch[BatchHeader::LENGTH..];
            if self.bytes.len() + batch.len() > STAGE_LENGTH {
                self.flush(file, &mut position)?;
            }
            self.bytes.extend_from_slice(&sealed_header(batch));
            if batch.len() > LARGEST_STAGED {
                self.flush(file, &mut position)?;
                write_fully(file, records, position)?;
                position += records.len() as u64;
            } else {
                self.bytes.extend_from_slice(records);
            }
            rest = following;
        }
        self.flush(file, &mut position)
    }

    fn flush(&mut self, file: &dyn DiskFile, position: &mut u64) -> io::Result<()> {
        write_fully(file, &self.bytes, *position)?;
        *position += self.bytes.len() as u64;
        self.bytes.clear();
        Ok(())
    }
}

/// Where the batch begins that has the byte at `position`; behind the last one, if none has.
pub(super) fn batch_at(batches: &[u8], position: u64) -> u64 {
    let mut start = 0;
    for (header, _batch) in Batches::of(batches) {
        let end = start + u64::from(header.length);
        if end > position {
            break;
        }
        start = end;
    }
    start
}

/// What is written at once of small batches. Stays in the second-level cache.
const STAGE_LENGTH: usize = 256 * 1024;

/// For more than this a system call of its own costs less than copying.
const LARGEST_STAGED: usize = 64 * 1024;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch::check;
    use crate::{BlockPool, LogLimits, NewRecord, PartitionLog, Start, UnixTime};
    use std::sync::Mutex;
    use units::ByteSize;

    /// Takes an odd number of bytes at a time.
    #[derive(Debug, Default)]
    struct Memory(Mutex<Vec<u8>>);

    impl DiskFile for Memory {
        fn read_at(&self, _bytes: &mut [u8], _position: u64) -> io::Result<usize> {
            unreachable!("nothing is read here")
        }

        fn write_at(&self, bytes: &[u8], position: u64) -> io::Result<usize> {
            let taken = &bytes[..bytes.len().min(4093)];
            let mut content = self.0.lock().unwrap();
            let end = position as usize + taken.len();
            let length = content.len().max(end);
            content.resize(length, 0);
            content[position as usize..end].copy_from_slice(taken);
            Ok(taken.len())
        }

        fn truncate(&self, _length: u64) -> io::Result<()> {
            unreachable!("nothing is cut here")
        }

        fn sync(&self) -> io::Result<()> {
            unreachable!("nothing is synced here")
        }
    }

    /// One batch of a record of each of these lengths.
    fn appended(lengths: &[usize]) -> Vec<u8> {
        let limits = LogLimits { bytes: ByteSize::from_mebibytes(64), ..LogLimits::default() };
        let log = PartitionLog::new(limits, BlockPool::new(ByteSize::ZERO));
        for &length in lengths {
            let content = vec![length as u8; length];
            let record = NewRecord { annotation_count: 0, annotations: &[], sections: &[&content] };
            log.append_records(UnixTime::from_milliseconds(1), &[record]).unwrap();
        }
        let mut cursor = log.position(Start::Earliest).unwrap();
        let mut bytes = Vec::new();
        while let Some(chunk) = log.read(&mut cursor, usize::MAX) {
            bytes.extend_from_slice(chunk.bytes());
        }
        bytes
    }

    #[test]
    fn batches_of_every_size_get_to_the_file_whole_and_with_their_checksums() {
        let small = [0, 1, 16, 100];
        let around = [LARGEST_STAGED - 40, LARGEST_STAGED, LARGEST_STAGED + 1, STAGE_LENGTH + 7];
        let lengths: Vec<usize> =
            [&small[..], &around, &[16; 3000], &around, &[LARGEST_STAGED - 40; 9], &small].concat();
        let batches = appended(&lengths);
        let file = Memory::default();
        let mut stage = Stage::default();
        let half = batch_at(&batches, batches.len() as u64 / 2);
        stage.write(&file, &batches[..half as usize], 0).unwrap();
        stage.write(&file, &batches[half as usize..], half).unwrap();

        let written = file.0.lock().unwrap();
        assert_eq!(written.len(), batches.len());
        let (mut at, mut count) = (0, 0);
        while at < written.len() {
            let header = check(&written[at..]).unwrap();
            assert_eq!(
                written[at + 8..][..header.length as usize - 8],
                batches[at + 8..][..header.length as usize - 8]
            );
            assert_eq!(batches[at + 4..at + 8], [0; 4], "in memory there is none");
            at += header.length as usize;
            count += 1;
        }
        assert_eq!(count, lengths.len());
    }

    #[test]
    fn what_is_no_batch_is_not_written() {
        let file = Memory::default();
        let mut batches = appended(&[16]);
        batches.extend_from_slice(&[0; 40]);
        Stage::default().write(&file, &batches, 0).unwrap_err();
        assert!(file.0.lock().unwrap().is_empty());
    }

    #[test]
    fn every_byte_belongs_to_the_batch_that_it_is_in() {
        let batches = appended(&[3, 200, 0, 70]);
        let mut starts = Vec::new();
        for position in 0..=batches.len() as u64 {
            starts.push(batch_at(&batches, position));
        }
        starts.dedup();
        assert_eq!(starts.len(), 5);
        assert_eq!(starts.last(), Some(&(batches.len() as u64)));
        assert_eq!(batch_at(&batches, starts[2] - 1), starts[1]);
    }
}
