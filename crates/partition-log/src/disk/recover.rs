//! Finding out what a partition's directory holds, after whatever ended the process before.
//!
//! Segments with a sidecar that fits are taken at its word; that is all of them, except the last one after a crash.
//! The others are scanned. What to do about a scan that stops before the end depends on where it stops:
//!
//! * After the last segment with a sidecar it is a torn tail. The file is cut there, and files after it, which can
//!   only hold what was never promised, go. Nothing acknowledged is lost beyond what the policy allows.
//! * Before that, or where sound batches follow, it is damage: events that were safe are not there. The segment stays
//!   as it is, its readers get what is sound before the damage and then an error, and the segments around it serve. So
//!   it is with a segment that is shorter or longer than its sidecar says.
//!
//! A sidecar without its segment proves that the segment was removed by someone else: retention and cleaning remove the
//! sidecar first. The start is refused then, as it is when segments don't follow each other. Without the sidecar a
//! missing first or last segment can't be told from one that retention took, or that never was.
//!
//! What is known of producers is what the last sidecar says, and the batches of the segments after it. Where damage has taken
//! batches, it is nothing: a producer that the log knows an old state of could never continue. So it is with transactions, of
//! which each sidecar names those that were aborted in its segment. What was open where damage begins counts as aborted.
//!
//! The whole directory is looked at before anything is changed, so a start that is refused changes nothing.

use super::directory::{Damage, DamageCause, Kind, OpenError, parse_name, segment_path, sidecar_path};
use super::files::{Access, DiskFiles, read_fully, write_fully};
use super::report::{RecoveryReport, Torn};
use super::salvage::{self, Break};
use super::sidecar::{Assurance, BootId, Sidecar, SidecarError};
use crate::UnixTime;
use crate::batch::{self, BatchError, BatchHeader, Batches};
use crate::chunk::Batch;
use crate::knowledge::{Knowledge, learn};
use crate::producers::Producers;
use crate::recovery::{TornTail, scan};
use crate::segment::Defect;
use crate::transactions::Transactions;
use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};

/// What a log begins with.
#[derive(Debug, Default)]
pub(crate) struct Recovered {
    /// Oldest first, without gaps, none of them empty.
    pub(crate) segments: Vec<RecoveredSegment>,
    pub(crate) next_sequence_number: u64,
    pub(crate) last_append_time: Option<UnixTime>,
    /// The producers that number their records, if there are any.
    pub(crate) producers: Option<Producers>,
    /// The transactions that matter, if there are any.
    pub(crate) transactions: Option<Transactions>,
}

/// A segment file that was there.
#[derive(Debug)]
pub(crate) struct RecoveredSegment {
    pub(crate) sidecar: Sidecar,
    /// It is on the device, as far as anyone can tell.
    pub(crate) is_synced: bool,
    pub(crate) defect: Option<Defect>,
}

/// Looks at the partition's `directory` and mends it. If segments had to be scanned,
/// `sync` is called before they are believed, if there is one.
pub(crate) fn recover(
    files: &dyn DiskFiles,
    directory: &Path,
    sync: Option<Sync<'_>>,
) -> Result<(Recovered, RecoveryReport), OpenError> {
    let boot = files.boot_id();
    let (segments, sidecars) = list(files, directory)?;
    let mut survey = Survey {
        files,
        directory,
        boot,
        sync,
        expected: None,
        tail: Tail::NotReached,
        producers: Producers::default(),
        transactions: Transactions::default(),
        recovered: Recovered::default(),
        report: RecoveryReport::default(),
        repairs: Vec::new(),
    };
    for &orphan in sidecars.iter().filter(|number| segments.binary_search(number).is_err()) {
        survey.survey_orphan(orphan)?;
    }
    let mut sidecar_states: Vec<SidecarState> = Vec::with_capacity(segments.len());
    for number in &segments {
        let state = survey.sidecar_state(*number, sidecars.contains(number))?;
        // The sidecar of the next complete segment says which producers are known from there on. One that is to be written
        // again keeps its own.
        if state.is_of_complete()
            && let Some(SidecarState::Matches(before)) = sidecar_states.last_mut()
            && before.assurance == Assurance::Synced
        {
            before.known.producers = None;
        }
        sidecar_states.push(state);
    }
    let sealed = sidecar_states.iter().rposition(SidecarState::is_of_complete).map_or(0, |last| last + 1);
    for (place, (&number, state)) in segments.iter().zip(&sidecar_states).enumerate() {
        let following = segments.get(place + 1).copied();
        match state {
            SidecarState::Matches(sidecar) => survey.keep_trusted(number, sidecar)?,
            SidecarState::WrongLength(sidecar) => survey.survey_wrong_length(number, sidecar)?,
            SidecarState::Unusable | SidecarState::Outgrown(_) if place < sealed => {
                survey.survey_inner(number, following)?;
            }
            SidecarState::Unusable => survey.survey_tail(number, following)?,
            SidecarState::Outgrown(known) => {
                survey.restore(number, known);
                survey.survey_tail(number, following)?;
            }
        }
    }
    survey.finish()
}

/// Brings to the device whatever the process before has left with the system.
pub(crate) type Sync<'a> = &'a dyn Fn() -> io::Result<()>;

/// One pass over the segments of a directory, oldest first.
struct Survey<'a> {
    files: &'a dyn DiskFiles,
    directory: &'a Path,
    boot: Option<BootId>,
    sync: Option<Sync<'a>>,
    /// The number with which the next segment must begin.
    expected: Option<u64>,
    tail: Tail,
    /// Those that are known at the end of the segments so far.
    producers: Producers,
    /// Those that were open there, and all that were aborted in them.
    transactions: Transactions,
    recovered: Recovered,
    report: RecoveryReport,
    repairs: Vec<Repair>,
}

/// How far the survey is with the segments after the last one that has a sidecar.
#[derive(Clone, Copy, PartialEq)]
enum Tail {
    NotReached,
    Whole,
    Torn,
}

/// A change to be made once everything was looked at.
enum Repair {
    Cut(PathBuf, u64),
    Remove(PathBuf),
    /// If there is one.
    RemoveSidecar(u64),
    /// Writes the sidecar of a segment that was scanned.
    WriteSidecar(Sidecar),
}

/// What was found in a segment file.
struct Found {
    bytes: Vec<u8>,
    sidecar: Sidecar,
    file_length: u64,
    torn: Option<TornTail>,
}

/// What the sidecar of a segment says about it.
enum SidecarState {
    /// Nothing that can be relied on.
    Unusable,
    /// The segment was empty and kept the next number and what was known, and has been written to since.
    Outgrown(Knowledge),
    /// The segment is complete, and has the right length.
    Matches(Sidecar),
    /// The segment was complete, and has another length now.
    WrongLength(Sidecar),
}

impl SidecarState {
    /// Whether the segment was complete when the sidecar was written.
    const fn is_of_complete(&self) -> bool {
        matches!(self, Self::Matches(_) | Self::WrongLength(_))
    }
}

impl Survey<'_> {
    /// What the sidecar of a segment says.
    fn sidecar_state(&self, number: u64, exists: bool) -> Result<SidecarState, OpenError> {
        if !exists {
            return Ok(SidecarState::Unusable);
        }
        let Ok(sidecar) = self.sidecar(number)? else {
            return Ok(SidecarState::Unusable);
        };
        if !self.is_reliable(&sidecar) || sidecar.first_sequence_number != number {
            return Ok(SidecarState::Unusable);
        }
        let segment = segment_path(self.directory, number);
        let length = self.files.length(&segment).map_err(OpenError::io(&segment))?;
        Ok(match sidecar.length == length {
            true => SidecarState::Matches(sidecar),
            false if sidecar.records() == 0 => SidecarState::Outgrown(sidecar.known),
            false => SidecarState::WrongLength(sidecar),
        })
    }

    fn sidecar(&self, number: u64) -> Result<Result<Sidecar, SidecarError>, OpenError> {
        let path = sidecar_path(self.directory, number);
        match read_sidecar(self.files, &path).map_err(OpenError::io(&path))? {
            Err(SidecarError::Version { version }) => Err(OpenError::NewerVersion { path, version }),
            sidecar => Ok(sidecar),
        }
    }

    /// Whether what the sidecar says holds in spite of whatever ended the process before.
    fn is_reliable(&self, sidecar: &Sidecar) -> bool {
        match sidecar.assurance {
            Assurance::Synced => true,
            Assurance::Written(boot) => Some(boot) == self.boot,
        }
    }

    /// A sidecar whose segment is not there.
    fn survey_orphan(&mut self, number: u64) -> Result<(), OpenError> {
        let lost = match self.sidecar(number)? {
            Ok(sidecar) if self.is_reliable(&sidecar) => {
                return Err(OpenError::MissingSegment {
                    path: segment_path(self.directory, number),
                    events: Some(number..sidecar.next_sequence_number),
                });
            }
            // The system went down before it had written the segment, which the policy `os` allows.
            Ok(sidecar) => sidecar.length,
            Err(SidecarError::Form) => 0,
            Err(_) => {
                return Err(OpenError::MissingSegment {
                    path: segment_path(self.directory, number),
                    events: None,
                });
            }
        };
        self.repairs.push(Repair::Remove(sidecar_path(self.directory, number)));
        self.report.torn.push(Torn {
            path: segment_path(self.directory, number),
            position: 0,
            bytes: lost,
            cause: TornTail::Batch(BatchError::Incomplete { needed: lost as usize, available: 0 }),
        });
        Ok(())
    }

    fn keep_trusted(&mut self, number: u64, sidecar: &Sidecar) -> Result<(), OpenError> {
        self.expect(number)?;
        self.restore(number, &sidecar.known);
        self.keep(sidecar.clone(), sidecar.assurance == Assurance::Synced, None);
        Ok(())
    }

    /// A segment without sidecar that others with one follow: it was complete.
    fn survey_inner(&mut self, number: u64, following: Option<u64>) -> Result<(), OpenError> {
        self.expect(number)?;
        let found = self.scan(number)?;
        let next = following.unwrap_or(found.sidecar.next_sequence_number);
        if found.torn.is_none() && found.sidecar.next_sequence_number == next {
            self.repairs.push(Repair::WriteSidecar(found.sidecar.clone()));
            self.keep(found.sidecar, self.sync.is_some(), None);
            return Ok(());
        }
        self.lose_track(next);
        self.keep_damaged(&found, next);
        Ok(())
    }

    /// A segment that was complete and has another length than it had.
    fn survey_wrong_length(&mut self, number: u64, sidecar: &Sidecar) -> Result<(), OpenError> {
        self.expect(number)?;
        let found = self.scan(number)?;
        self.restore(number, &sidecar.known);
        self.keep_damaged(&found, sidecar.next_sequence_number);
        Ok(())
    }

    /// The sidecar of the segment that begins with this number tells what was known at its end.
    fn restore(&mut self, number: u64, known: &Knowledge) {
        self.producers.restore(known.producers.as_ref());
        self.transactions.restore(number, known.transactions.as_ref());
    }

    /// Batches are lost, some of which came before this number.
    fn lose_track(&mut self, next: u64) {
        self.producers.restore(None);
        self.transactions.give_up(next);
    }

    /// Keeps a segment whose records end before `next` and are not all there.
    fn keep_damaged(&mut self, found: &Found, next: u64) {
        let number = found.sidecar.first_sequence_number;
        let damage = Damage {
            segment: number,
            position: found.sidecar.length,
            cause: found.torn.map_or(DamageCause::Length, DamageCause::Batch),
        };
        let defect = Defect {
            damage,
            sound_length: found.sidecar.length as usize,
            sound_until: found.sidecar.next_sequence_number.min(next),
        };
        let whole = Sidecar {
            length: found.file_length,
            next_sequence_number: next,
            known: Knowledge::default(),
            ..found.sidecar
        };
        self.report.damaged.push((segment_path(self.directory, number), damage));
        self.keep(whole, true, Some(defect));
    }

    /// The number before which the records of the damaged segment at the end came, if it is damaged and not torn.
    fn end_of_damaged(&mut self, found: &Found, following: Option<u64>) -> Result<Option<u64>, OpenError> {
        let from =
            Break { position: found.sidecar.length as usize, expected: found.sidecar.next_sequence_number };
        if let Some(following) = following.filter(|number| *number > from.expected) {
            let path = segment_path(self.directory, following);
            let (bytes, _) = read_segment(self.files, &path).map_err(OpenError::io(&path))?;
            if salvage::is_proven_by(following, &bytes, &found.bytes[from.position..]) {
                return Ok(Some(following));
            }
        }
        let end = salvage::end_beyond(&found.bytes, from);
        Ok(end.filter(|end| following.is_none_or(|following| following == *end)))
    }

    /// A segment that no segment with a sidecar follows: what was written last.
    fn survey_tail(&mut self, number: u64, following: Option<u64>) -> Result<(), OpenError> {
        let path = segment_path(self.directory, number);
        let expected = self.expected.unwrap_or(number);
        if self.tail == Tail::Torn || (self.tail == Tail::Whole && expected != number) {
            let bytes = self.files.length(&path).map_err(OpenError::io(&path))?;
            let cause = TornTail::SequenceNumber { expected, found: number };
            self.tear(number, 0, bytes, cause);
            return Ok(());
        }
        self.expect(number)?;
        let found = self.scan(number)?;
        self.tail = Tail::Whole;
        if found.torn.is_some()
            && let Some(end) = self.end_of_damaged(&found, following)?
        {
            self.lose_track(end);
            self.keep_damaged(&found, end);
            return Ok(());
        }
        let kept = found.sidecar.length;
        if let Some(cause) = found.torn {
            self.tail = Tail::Torn;
            self.tear(number, kept, found.file_length - kept, cause);
        }
        if kept > 0 {
            self.repairs.push(Repair::WriteSidecar(found.sidecar.clone()));
        }
        self.keep(found.sidecar, self.sync.is_some(), None);
        Ok(())
    }

    fn expect(&self, number: u64) -> Result<(), OpenError> {
        match self.expected {
            Some(expected) if expected != number => {
                Err(OpenError::Missing { path: self.directory.to_owned(), expected, found: number })
            }
            _ => Ok(()),
        }
    }

    fn keep(&mut self, mut sidecar: Sidecar, is_synced: bool, defect: Option<Defect>) {
        if let Some(last) = self.recovered.last_append_time {
            sidecar.first_append_time = sidecar.first_append_time.max(last);
            sidecar.last_append_time = sidecar.last_append_time.max(last);
        }
        self.expected = Some(sidecar.next_sequence_number);
        if sidecar.last_append_time > UnixTime::MIN {
            self.recovered.last_append_time = Some(sidecar.last_append_time);
        }
        if sidecar.records() > 0 || defect.is_some() {
            self.report.segments += 1;
            self.report.bytes += sidecar.length;
            self.report.records += sidecar.records();
            self.recovered.segments.push(RecoveredSegment { sidecar, is_synced, defect });
        }
    }

    /// The segment `number` ends at `position`, and nothing of the segment is left if that is 0.
    fn tear(&mut self, number: u64, position: u64, bytes: u64, cause: TornTail) {
        let path = segment_path(self.directory, number);
        if position == 0 {
            // Another segment may get the same name, and even the same length.
            self.repairs.push(Repair::RemoveSidecar(number));
        }
        self.repairs.push(match position {
            // An empty first file still tells the next sequence number.
            0 if self.expected.is_some() => Repair::Remove(path.clone()),
            _ => Repair::Cut(path.clone(), position),
        });
        self.report.torn.push(Torn { path, position, bytes, cause });
    }

    /// Scans a segment, which brings what is known to its end.
    fn scan(&mut self, number: u64) -> Result<Found, OpenError> {
        let path = segment_path(self.directory, number);
        let (bytes, file_length) = read_segment(self.files, &path).map_err(OpenError::io(&path))?;
        self.report.scanned_bytes += bytes.len() as u64;
        let (mut sidecar, torn) = describe(&bytes, number, file_length);
        for (header, batch) in Batches::of(&bytes[..sidecar.length as usize]) {
            learn(&mut self.producers, &mut self.transactions, &header, batch);
        }
        sidecar.known = Knowledge {
            producers: self.producers.snapshot(),
            transactions: self.transactions.snapshot(number),
        };
        if let Some(TornTail::Batch(cause)) = torn
            && batch::has_intact_checksum(&bytes[sidecar.length as usize..])
        {
            match cause {
                BatchError::Version { version } => {
                    return Err(OpenError::NewerVersion { path, version: version.into() });
                }
                BatchError::Format { format } => return Err(OpenError::UnknownFormat { path, format }),
                _ => {}
            }
        }
        Ok(Found { bytes, sidecar, file_length, torn })
    }

    fn finish(mut self) -> Result<(Recovered, RecoveryReport), OpenError> {
        let repairs = std::mem::take(&mut self.repairs);
        let writes_sidecar = |repair: &Repair| matches!(repair, Repair::WriteSidecar(_));
        if let Some(sync) = self.sync
            && repairs.iter().any(writes_sidecar)
        {
            sync().map_err(OpenError::io(self.directory))?;
        }
        for repair in repairs {
            match repair {
                Repair::Cut(path, length) => {
                    let cut = || {
                        let file = self.files.open(&path, Access::Write)?;
                        file.truncate(length)?;
                        file.sync()
                    };
                    cut().map_err(OpenError::io(&path))?;
                }
                Repair::Remove(path) => {
                    self.files.remove(&path).map_err(OpenError::io(&path))?;
                }
                Repair::RemoveSidecar(number) => {
                    let path = sidecar_path(self.directory, number);
                    match self.files.remove(&path) {
                        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                        result => result.map_err(OpenError::io(&path))?,
                    }
                }
                Repair::WriteSidecar(sidecar) => self.write_sidecar(sidecar),
            }
        }
        self.recovered.next_sequence_number = self.expected.unwrap_or(0);
        self.recovered.producers = (self.producers.stats().known > 0).then_some(self.producers);
        self.recovered.transactions = (!self.transactions.is_empty()).then_some(self.transactions);
        Ok((self.recovered, self.report))
    }

    /// Makes a scanned segment like one that was completed. A sidecar that can't be written costs time at the next
    /// start and nothing else.
    fn write_sidecar(&mut self, sidecar: Sidecar) {
        let path = segment_path(self.directory, sidecar.first_sequence_number);
        let assurance = match (self.sync.is_some(), self.boot) {
            (true, _) => Assurance::Synced,
            (false, Some(boot)) => Assurance::Written(boot),
            (false, None) => return,
        };
        let sidecar = Sidecar { assurance, ..sidecar };
        match write_sidecar(self.files, self.directory, &sidecar) {
            Ok(()) => self.report.rebuilt_sidecars += 1,
            Err(error) => {
                tracing::warn!(segment = %path.display(), %error, "the sidecar of a segment can't be written");
            }
        }
    }
}

/// Writes the file beside a segment.
pub(super) fn write_sidecar(files: &dyn DiskFiles, directory: &Path, sidecar: &Sidecar) -> io::Result<()> {
    let path = sidecar_path(directory, sidecar.first_sequence_number);
    let file = files.open(&path, Access::Write)?;
    let bytes = sidecar.encode();
    write_fully(&*file, &bytes, 0)?;
    file.truncate(bytes.len() as u64)
}

/// The bytes of a segment file, and how many there are; more than any segment has are not read.
pub(super) fn read_segment(files: &dyn DiskFiles, path: &Path) -> io::Result<(Vec<u8>, u64)> {
    let file_length = files.length(path)?;
    let mut bytes = vec![0; file_length.min(MAXIMUM_SEGMENT_LENGTH) as usize];
    let file = files.open(path, Access::Read)?;
    let length = read_fully(&*file, &mut bytes, 0)?;
    bytes.truncate(length);
    Ok((bytes, file_length))
}

/// The sidecar that the valid prefix of a segment's bytes would have, apart from what was known, and what stops it.
pub(super) fn describe(bytes: &[u8], number: u64, file_length: u64) -> (Sidecar, Option<TornTail>) {
    let mut found = scan(bytes);
    if let Some((first, _next)) = found.sequence_numbers
        && first != number
    {
        found = scan(&[]);
        found.torn = Some(TornTail::SequenceNumber { expected: number, found: first });
    }
    if found.torn.is_none() && (found.valid_length as u64) < file_length {
        found.torn = Some(TornTail::Batch(BatchError::Incomplete {
            needed: file_length as usize,
            available: found.valid_length,
        }));
    }
    let (first, next) = found.sequence_numbers.unwrap_or((number, number));
    let valid = &bytes[..found.valid_length];
    let first_append_time = BatchHeader::read(valid).map_or(UnixTime::MIN, |header| header.append_time);
    let timestamps = Batches::of(valid).map(|(header, batch)| Batch::of(&header, batch).latest_timestamp());
    let sidecar = Sidecar {
        length: found.valid_length as u64,
        first_sequence_number: first,
        next_sequence_number: next,
        first_append_time,
        last_append_time: found.last_append_time.unwrap_or(UnixTime::MIN),
        latest_timestamp: timestamps.max().unwrap_or(UnixTime::MIN),
        assurance: Assurance::Synced,
        known: Knowledge::default(),
    };
    (sidecar, found.torn)
}

pub(super) fn read_sidecar(files: &dyn DiskFiles, path: &Path) -> io::Result<Result<Sidecar, SidecarError>> {
    let file = files.open(path, Access::Read)?;
    let mut bytes = [0; USUAL_SIDECAR];
    let length = read_fully(&*file, &mut bytes, 0)?;
    if length < USUAL_SIDECAR {
        return Ok(Sidecar::decode(&bytes[..length]));
    }
    let mut bytes = vec![0; files.length(path)?.min(LARGEST_SIDECAR as u64) as usize];
    let length = read_fully(&*file, &mut bytes, 0)?;
    Ok(Sidecar::decode(&bytes[..length]))
}

/// The numbers of the segments, ascending, and those of the sidecars.
fn list(files: &dyn DiskFiles, directory: &Path) -> Result<(Vec<u64>, BTreeSet<u64>), OpenError> {
    let mut segments = Vec::new();
    let mut sidecars = BTreeSet::new();
    let names = match files.list(directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
        result => result.map_err(OpenError::io(directory))?,
    };
    for (number, kind) in names.iter().filter_map(|name| parse_name(name.to_str()?)) {
        match kind {
            Kind::Segment => segments.push(number),
            Kind::Sidecar => {
                sidecars.insert(number);
            }
        }
    }
    segments.sort_unstable();
    Ok((segments, sidecars))
}

/// Few sidecars have as many bytes.
const USUAL_SIDECAR: usize = 4096;

/// A newer form may be longer than ours; then a checksum of what is read does not match, and the segment is scanned.
const LARGEST_SIDECAR: usize = Sidecar::MAXIMUM_LENGTH + 1;

/// A batch of the largest size, in the block that it gets.
const MAXIMUM_SEGMENT_LENGTH: u64 = 4 * batch::MAXIMUM_BATCH_LENGTH as u64;
