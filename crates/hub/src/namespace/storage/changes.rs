//! The log of what clients did to queues, topics and subscriptions since the manifest was written.
//!
//! ```text
//!  5a0c33d1 17 {"queue":{"queue":{"name":"orders",…},"facts":{…}}}     CRC-32C of the rest of the line, number, change
//!  90b1e24f 18 {"deleted":{"name":"orders"}}
//! ```
//!
//! A line is appended for each change, so a change costs the same however many entities there are. Numbers go up by one, and never
//! begin again; the manifest says up to which they are in it. Once the log is longer than the manifest, the latter is written again,
//! and the log is emptied.
//!
//! What was not synced may be lost or torn by the end of the process or the machine: a last line that is no whole one is left
//! out, and overwritten by the next change. Nobody was told of it. Such a line with whole ones behind it is damage, and refuses the
//! start.
//!
//! Concurrent changes wait for the disk together: the first one syncs what all of them have appended. If that fails, all of them are
//! answered with an error, and the log is cut back to what was synced before, so that a restart does not find them. After a power cut
//! in the moment before the manifest is written again, they may be there.

use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::manifest::EntityChange;
use partition_log::{durable_file, owner_only};

/// The log itself.
pub(super) const FILE: &str = "manifest.changes";

/// The log of a data directory that this process has.
#[derive(Debug)]
pub(super) struct ChangeLog {
    path: PathBuf,
    /// How long it is as far as it makes sense.
    length: u64,
    /// The number of its last change, or the last one that is in the manifest.
    last: u64,
    /// Opened by the first change.
    file: Option<Arc<File>>,
    progress: Arc<Progress>,
}

/// What was found in the log of a directory.
#[derive(Debug, Default)]
pub(super) struct ReadChanges {
    /// What was done since the manifest was written, with numbers.
    pub(super) changes: Vec<(u64, EntityChange)>,
    /// How long the log is as far as it makes sense.
    pub(super) length: u64,
    /// How many bytes come behind that.
    pub(super) torn: u64,
}

/// How far the log is on the device.
#[derive(Debug, Default)]
struct Progress {
    /// The end of what was written.
    written: Mutex<End>,
    synced: Mutex<Synced>,
}

/// An end of the log.
#[derive(Clone, Copy, Debug, Default)]
struct End {
    /// The number of the last change before it.
    number: u64,
    /// Bytes before it.
    length: u64,
}

#[derive(Debug, Default)]
struct Synced {
    /// The end of what is on the device. Changes up to its number are there by the log or by the manifest.
    end: End,
    /// What the system said when it could not bring some there. It can't be known what of the log is there then, so nothing is
    /// appended to it until the manifest was written.
    failure: Option<io::ErrorKind>,
}

/// A change that was appended, to be waited for.
#[derive(Debug)]
pub(in crate::namespace) struct Appended {
    number: u64,
    file: Arc<File>,
    progress: Arc<Progress>,
}

impl ReadChanges {
    /// Reads the log of a directory whose manifest has the changes up to the number `known`.
    ///
    /// # Errors
    /// It can't be read, is damaged, or does not go on where the manifest ends.
    pub(super) fn read(directory: &Path, known: u64) -> io::Result<Self> {
        let mut bytes = Vec::new();
        match File::open(directory.join(FILE)) {
            Ok(mut file) => file.read_to_end(&mut bytes)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Self::default()),
            Err(error) => return Err(error),
        };
        Self::of(&bytes, known)
    }

    fn of(bytes: &[u8], known: u64) -> io::Result<Self> {
        let mut read = Self::default();
        let mut next = None;
        let mut rest = bytes;
        while let Some((line, behind)) = split_line(rest) {
            let Some((number, text)) = checked(line) else {
                break;
            };
            let offset = read.length;
            let invalid = |reason: String| {
                io::Error::new(io::ErrorKind::InvalidData, format!("{reason}, at byte {offset}"))
            };
            // One that the manifest has already may be left from before it was written.
            let expected = next.unwrap_or_else(|| number.min(known.saturating_add(1)));
            if number != expected {
                return Err(invalid(format!("change {number} where {expected} was expected")));
            }
            if number > known {
                let change = serde_json::from_slice(text)
                    .map_err(|error| invalid(format!("change {number} is unknown ({error})")))?;
                read.changes.push((number, change));
            }
            next = Some(number + 1);
            read.length += (line.len() + 1) as u64;
            rest = behind;
        }
        read.torn = rest.len() as u64;
        while let Some((_, others)) = split_line(rest) {
            if split_line(others).is_some_and(|(line, _)| checked(line).is_some()) {
                let reason = format!("a damaged line with others behind it, at byte {}", read.length);
                return Err(io::Error::new(io::ErrorKind::InvalidData, reason));
            }
            rest = others;
        }
        Ok(read)
    }
}

/// The first line, without its end, and what is behind it.
fn split_line(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let end = bytes.iter().position(|byte| *byte == b'\n')?;
    Some((&bytes[..end], &bytes[end + 1..]))
}

/// The number and the change of a line that is whole.
fn checked(line: &[u8]) -> Option<(u64, &[u8])> {
    let (checksum, rest) = line.split_at_checked(CHECKSUM_DIGITS)?;
    let checksum = u32::from_str_radix(std::str::from_utf8(checksum).ok()?, 16).ok()?;
    let rest = rest.strip_prefix(b" ")?;
    if crc32c::crc32c(rest) != checksum {
        return None;
    }
    let end = rest.iter().position(|byte| *byte == b' ')?;
    let number = std::str::from_utf8(&rest[..end]).ok()?.parse().ok()?;
    Some((number, &rest[end + 1..]))
}

fn line(number: u64, change: &EntityChange) -> serde_json::Result<Vec<u8>> {
    let mut rest = format!("{number} ").into_bytes();
    serde_json::to_writer(&mut rest, change)?;
    let mut line = format!("{:08x} ", crc32c::crc32c(&rest)).into_bytes();
    line.append(&mut rest);
    line.push(b'\n');
    Ok(line)
}

impl ChangeLog {
    /// The log of a directory, which makes sense up to `length`, and whose last change has the number `last`.
    pub(super) fn new(directory: &Path, length: u64, last: u64) -> Self {
        let end = End { number: last, length };
        let synced = Synced { end, failure: None };
        let progress = Progress { written: Mutex::new(end), synced: Mutex::new(synced) };
        let path = directory.join(FILE);
        Self { path, length, last, file: None, progress: Arc::new(progress) }
    }

    /// How long it is, in bytes.
    pub(super) const fn length(&self) -> u64 {
        self.length
    }

    /// The number of its last change, or the last one that is in the manifest.
    pub(super) const fn last(&self) -> u64 {
        self.last
    }

    /// Whether nothing can be appended until the manifest was written.
    pub(super) fn has_failed(&self) -> bool {
        self.progress.synced().failure.is_some()
    }

    /// Nothing of what was appended last is to be relied on.
    pub(super) fn distrust(&self, kind: io::ErrorKind) {
        self.progress.synced().failure = Some(kind);
    }

    /// Removes the changes that could not be synced. Nothing is appended after that until the manifest was written.
    ///
    /// # Errors
    /// What the system said. A restart may find them then.
    pub(super) fn cut_back(&mut self) -> io::Result<()> {
        let synced = self.progress.synced();
        let length = synced.end.length;
        if synced.failure.is_some() && length < self.length {
            if let Some(file) = &self.file {
                reset(file, length)?;
            }
            self.length = length;
        }
        Ok(())
    }

    fn end(&self) -> End {
        End { number: self.last, length: self.length }
    }

    /// Appends a change, which is on the device once it was [waited](Appended::wait) for.
    ///
    /// # Errors
    /// What the system said. Nothing was appended then.
    pub(super) fn append(&mut self, change: &EntityChange) -> io::Result<(u64, Appended)> {
        if let Some(kind) = self.progress.synced().failure {
            return Err(kind.into());
        }
        let number = self.last + 1;
        let line = line(number, change)?;
        let file = self.file()?;
        if let Err(error) = (&*file).write_all(&line) {
            // A part of it may be there.
            if let Err(error) = reset(&file, self.length) {
                self.distrust(error.kind());
            }
            return Err(error);
        }
        self.length += line.len() as u64;
        self.last = number;
        *self.progress.written() = self.end();
        Ok((number, Appended { number, file, progress: Arc::clone(&self.progress) }))
    }

    /// Empties the log: the manifest with all changes up to now is on the device.
    pub(super) fn restart(&mut self) {
        let emptied = match &self.file {
            Some(file) => reset(file, 0),
            None if self.length == 0 => Ok(()),
            None => std::fs::remove_file(&self.path),
        };
        if emptied.is_ok() {
            self.length = 0;
        }
        let mut synced = self.progress.synced();
        *synced = Synced { end: self.end(), failure: None };
        *self.progress.written() = self.end();
        match emptied {
            Ok(()) => {}
            // What is left is known to the manifest. A file that was open may have been cut, or not.
            Err(error) => {
                tracing::warn!(path = %self.path.display(), %error, "the log of changes can't be emptied");
                synced.failure = self.file.is_some().then(|| error.kind());
            }
        }
    }

    fn file(&mut self) -> io::Result<Arc<File>> {
        if let Some(file) = &self.file {
            return Ok(Arc::clone(file));
        }
        let file = owner_only::options().write(true).create(true).truncate(false).open(&self.path)?;
        reset(&file, self.length)?;
        durable_file::sync_folder(self.path.parent().unwrap_or_else(|| Path::new(".")))?;
        Ok(Arc::clone(self.file.insert(Arc::new(file))))
    }
}

/// Cuts a file, and goes on at its end.
fn reset(mut file: &File, length: u64) -> io::Result<()> {
    file.set_len(length)?;
    file.seek(SeekFrom::Start(length)).map(drop)
}

impl Appended {
    /// Waits until the change is on the device.
    ///
    /// # Errors
    /// What the system said. It can't be known whether it is there.
    pub(in crate::namespace) fn wait(&self) -> io::Result<()> {
        let mut synced = self.progress.synced();
        if synced.end.number >= self.number {
            return Ok(());
        }
        if let Some(kind) = synced.failure {
            return Err(kind.into());
        }
        // What is appended while this waits is a matter of the next one.
        let written = *self.progress.written();
        match self.file.sync_data() {
            Ok(()) => {
                synced.end = written;
                Ok(())
            }
            Err(error) => {
                synced.failure = Some(error.kind());
                Err(error)
            }
        }
    }
}

impl Progress {
    fn synced(&self) -> MutexGuard<'_, Synced> {
        // Locked sections set both fields at once.
        self.synced.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn written(&self) -> MutexGuard<'_, End> {
        self.written.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The hexadecimal digits that a line begins with.
const CHECKSUM_DIGITS: usize = 8;

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn change(name: &str) -> EntityChange {
        EntityChange::Deleted { name: name.to_owned() }
    }

    fn appended(log: &mut ChangeLog, name: &str) -> u64 {
        let (number, appended) = log.append(&change(name)).unwrap();
        appended.wait().unwrap();
        number
    }

    fn log(directory: &Path) -> ChangeLog {
        let mut log = ChangeLog::new(directory, 0, 0);
        for name in ["a", "b", "c"] {
            appended(&mut log, name);
        }
        log
    }

    fn numbers(read: &ReadChanges) -> Vec<u64> {
        read.changes.iter().map(|(number, _)| *number).collect()
    }

    #[test]
    fn changes_read_back_in_their_order_behind_those_that_the_manifest_has() {
        let directory = tempfile::tempdir().unwrap();
        assert_eq!(numbers(&ReadChanges::read(directory.path(), 0).unwrap()), [0; 0]);
        drop(log(directory.path()));
        let read = ReadChanges::read(directory.path(), 0).unwrap();
        assert_eq!(read.changes, [(1, change("a")), (2, change("b")), (3, change("c"))]);
        assert_eq!(numbers(&ReadChanges::read(directory.path(), 2).unwrap()), [3]);
        assert_eq!(numbers(&ReadChanges::read(directory.path(), 9).unwrap()), [0; 0]);
    }

    #[test]
    fn whatever_a_crash_leaves_of_the_last_line_is_overwritten_by_the_next_change() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join(FILE);
        drop(log(directory.path()));
        let whole = fs::read(&path).unwrap();
        let last = whole[..whole.len() - 1].iter().rposition(|byte| *byte == b'\n').unwrap() + 1;
        for end in last..whole.len() {
            for behind in [&b""[..], b"\0\0\0", b"\n", b"00000000 3 {}\n"] {
                fs::write(&path, [&whole[..end], behind].concat()).unwrap();
                let read = ReadChanges::read(directory.path(), 0).unwrap();
                assert_eq!(
                    numbers(&read),
                    if whole[..=end] == whole && behind == b"\n" { vec![1, 2, 3] } else { vec![1, 2] }
                );
                let last = read.changes.len() as u64;
                let mut log = ChangeLog::new(directory.path(), read.length, last);
                assert_eq!(appended(&mut log, "d"), last + 1);
                let read = ReadChanges::read(directory.path(), 0).unwrap();
                assert_eq!((read.changes.last(), read.torn), (Some(&(last + 1, change("d"))), 0));
            }
        }
    }

    #[test]
    fn damage_before_the_end_and_a_log_of_another_manifest_are_refused() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join(FILE);
        drop(log(directory.path()));
        let whole = fs::read(&path).unwrap();
        let lines: Vec<&[u8]> = whole.split_inclusive(|byte| *byte == b'\n').collect();
        let mut damaged = whole.clone();
        damaged[lines[0].len() + 12] ^= 1;
        for (content, reason) in [
            (damaged, "a damaged line with others behind it, at byte "),
            ([lines[0], lines[2]].concat(), "change 3 where 2 was expected, at byte "),
            ([lines[1], lines[2]].concat(), "change 2 where 1 was expected, at byte 0"),
        ] {
            fs::write(&path, content).unwrap();
            let refused = ReadChanges::read(directory.path(), 0).unwrap_err().to_string();
            assert!(refused.starts_with(reason), "{refused}");
        }
        let rest = b"1 {\"invented\":{}}";
        let unknown = [format!("{:08x} ", crc32c::crc32c(rest)).as_bytes(), rest, b"\n"].concat();
        fs::write(&path, unknown).unwrap();
        let refused = ReadChanges::read(directory.path(), 0).unwrap_err().to_string();
        assert!(refused.starts_with("change 1 is unknown (unknown variant"), "{refused}");
    }

    #[test]
    fn a_log_that_begins_anew_goes_on_counting() {
        let directory = tempfile::tempdir().unwrap();
        let mut log = log(directory.path());
        log.restart();
        assert_eq!(log.length(), 0);
        assert_eq!(appended(&mut log, "d"), 4);
        assert_eq!(numbers(&ReadChanges::read(directory.path(), 3).unwrap()), [4]);
        // As if the manifest had not been written.
        ReadChanges::read(directory.path(), 2).unwrap_err();
    }

    #[test]
    fn after_a_failure_nothing_is_appended_until_the_manifest_was_written() {
        let directory = tempfile::tempdir().unwrap();
        let mut log = log(directory.path());
        let (_, pending) = log.append(&change("d")).unwrap();
        log.distrust(io::ErrorKind::StorageFull);
        assert_eq!(pending.wait().unwrap_err().kind(), io::ErrorKind::StorageFull);
        assert!(log.has_failed() && log.append(&change("e")).is_err());
        log.restart();
        // It is in the manifest.
        pending.wait().unwrap();
        assert_eq!(appended(&mut log, "e"), 5);
    }

    #[test]
    fn changes_that_could_not_be_synced_are_not_found_by_a_restart() {
        let directory = tempfile::tempdir().unwrap();
        let mut log = log(directory.path());
        log.append(&change("d")).unwrap();
        log.cut_back().unwrap();
        assert_eq!(
            numbers(&ReadChanges::read(directory.path(), 0).unwrap()),
            [1, 2, 3, 4],
            "none has failed"
        );
        log.append(&change("e")).unwrap();
        log.distrust(io::ErrorKind::Other);
        log.cut_back().unwrap();
        let read = ReadChanges::read(directory.path(), 0).unwrap();
        assert_eq!((numbers(&read), read.torn), (vec![1, 2, 3], 0));
        // The next manifest has the numbers up to 5, and the log goes on behind them.
        log.restart();
        assert_eq!(appended(&mut log, "f"), 6);
        assert_eq!(numbers(&ReadChanges::read(directory.path(), 5).unwrap()), [6]);
    }

    #[test]
    fn those_who_wait_at_the_same_time_share_what_is_synced() {
        let directory = tempfile::tempdir().unwrap();
        let mut log = log(directory.path());
        let pending: Vec<Appended> = (0..8).map(|_| log.append(&change("x")).unwrap().1).collect();
        pending[3].wait().unwrap();
        let synced = log.progress.synced().end.number;
        assert_eq!(synced, log.last());
    }
}
