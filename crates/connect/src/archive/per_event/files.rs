//! Each event as a file, which is there as a whole or not at all.
//!
//! ```text
//!   .41.1f.partial ─▶ written ─▶ on the disk (fdatasync) ─▶ linked as 41, unless that is there ─▶ the folder on the disk (fsync)
//! ```
//!
//! Disks are slow, and the engine's thread waits for none: what has come is handed over to threads for it, as many events at once as there
//! are. Each such group syncs its folders once.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, ErrorKind, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::task::{Context, Poll};

use tokio::task::JoinSet;

use super::{EVENT_BYTES_MAX, queue_max};
use crate::archive::content::Contents;
use crate::archive::{DIFFERENT_CONTENT, NAME};
use crate::event::Encoding;
use crate::sink::{
    ErrorClass, OutgoingBatch, SendError, SendOutcome, SendToken, SendUnit, Sink, SinkBusy, SinkError,
    hand_over,
};

/// See the module.
#[derive(Debug)]
pub(in crate::archive) struct PerEventFiles {
    contents: Contents,
    folder: Arc<Path>,
    /// How many groups are being written at most.
    writers_max: usize,
    queue_max: usize,
    waiting: Vec<NewFile>,
    writers: JoinSet<Vec<SendOutcome>>,
    outcomes: Vec<SendOutcome>,
}

/// A file that is to be written.
#[derive(Debug)]
struct NewFile {
    token: SendToken,
    name: String,
    content: Vec<u8>,
}

impl PerEventFiles {
    /// Writes to a folder that is there.
    pub(in crate::archive) fn new(contents: Contents, folder: &Path, concurrency: usize) -> Self {
        Self {
            contents,
            folder: folder.into(),
            writers_max: concurrency.clamp(1, WRITERS_MAX),
            queue_max: queue_max(concurrency),
            waiting: Vec::new(),
            writers: JoinSet::new(),
            outcomes: Vec::new(),
        }
    }

    fn drive(&mut self, context: &mut Context<'_>) {
        loop {
            while !self.waiting.is_empty() && self.writers.len() < self.writers_max {
                // What waits is divided among the writers that are free.
                let free = self.writers_max - self.writers.len();
                let group = self.waiting.split_off(self.waiting.len() - self.waiting.len().div_ceil(free));
                let folder = Arc::clone(&self.folder);
                self.writers.spawn_blocking(move || write_all(&folder, group));
            }
            let Poll::Ready(Some(written)) = self.writers.poll_join_next(context) else { return };
            match written {
                Ok(outcomes) => self.outcomes.extend(outcomes),
                Err(error) => {
                    // Nobody cancels a writing; it can only have panicked, and that is passed on.
                    if let Ok(panic) = error.try_into_panic() {
                        std::panic::resume_unwind(panic);
                    }
                }
            }
        }
    }
}

impl Sink for PerEventFiles {
    fn destinations(&self) -> u32 {
        1
    }

    fn takes(&self, encoding: Encoding) -> bool {
        encoding == Encoding::Amqp
    }

    fn send_unit(&self) -> SendUnit {
        SendUnit::Event
    }

    fn max_batch_bytes(&self, _destination: u32) -> usize {
        EVENT_BYTES_MAX
    }

    fn encoded_len(&self, message_len: usize) -> usize {
        message_len
    }

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), SinkError>> {
        self.drive(context);
        match self.waiting.len() <= self.queue_max / 2 {
            true => Poll::Ready(Ok(())),
            false => Poll::Pending,
        }
    }

    fn send(&mut self, token: SendToken, outgoing: OutgoingBatch<'_>) -> Result<(), SinkBusy> {
        if self.waiting.len() >= self.queue_max {
            return Err(SinkBusy);
        }
        let Some((batch, event)) = outgoing.events().next() else { return Err(SinkBusy) };
        match self.contents.of(batch, event) {
            Ok((name, content)) => {
                self.waiting.push(NewFile { token, name: name.to_owned(), content: content.to_owned() });
            }
            Err(error) => self.outcomes.push(SendOutcome { token, result: Err(error) }),
        }
        Ok(())
    }

    fn poll_outcomes(
        &mut self,
        context: &mut Context<'_>,
        outcomes: &mut Vec<SendOutcome>,
    ) -> Poll<Result<(), SinkError>> {
        self.drive(context);
        hand_over(&mut self.outcomes, outcomes).map(Ok)
    }
}

/// Writes files, and says of each what became of it.
fn write_all(folder: &Path, files: Vec<NewFile>) -> Vec<SendOutcome> {
    let mut changed: BTreeSet<PathBuf> = BTreeSet::new();
    let written: Vec<_> =
        files.into_iter().map(|file| (file.token, write(folder, &file, &mut changed))).collect();
    // A file is there for good once its folder is on the disk.
    let synced = changed.iter().try_for_each(|folder| {
        let synced = File::open(folder).and_then(|folder| folder.sync_all());
        synced.map_err(|error| failure(folder, &error))
    });
    let outcome = |(token, result): (SendToken, Result<(), SendError>)| SendOutcome {
        token,
        result: result.and_then(|()| synced.clone()).map_err(Box::new),
    };
    written.into_iter().map(outcome).collect()
}

/// Writes a file, and notes the folders that have to be synced.
fn write(root: &Path, file: &NewFile, changed: &mut BTreeSet<PathBuf>) -> Result<(), SendError> {
    let path = root.join(&file.name);
    let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(failure(&path, &ErrorKind::InvalidFilename.into()));
    };
    if !folder.is_dir() {
        fs::create_dir_all(folder).map_err(|error| failure(folder, &error))?;
        let made = folder.ancestors().take_while(|ancestor| ancestor.starts_with(root));
        changed.extend(made.map(Path::to_owned));
    }
    // Others write other events, and this one is written by one at a time, unless it was given up.
    let partial = folder.join(format!(".{}.{:x}.partial", name.display(), file.token.0));
    let written = write_new(&partial, &file.content).and_then(|()| link(&partial, &path));
    let _ = fs::remove_file(&partial);
    match written {
        Ok(()) => {}
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            // Written before; whoever did it may not have come to the end.
            let there = fs::read(&path).map_err(|error| failure(&path, &error))?;
            if there != file.content {
                return Err(SendError {
                    class: ErrorClass::Fatal,
                    condition: DIFFERENT_CONTENT.to_owned(),
                    description: format!("{} is there and holds something else", path.display()),
                });
            }
        }
        Err(error) => return Err(failure(&path, &error)),
    }
    changed.insert(folder.to_owned());
    Ok(())
}

fn write_new(path: &Path, content: &[u8]) -> io::Result<()> {
    let mut file = File::create(path)?;
    file.write_all(content)?;
    file.sync_data()
}

/// Gives a file its name, unless something has it.
fn link(from: &Path, to: &Path) -> io::Result<()> {
    match fs::hard_link(from, to) {
        Err(error) if matches!(error.kind(), ErrorKind::Unsupported | ErrorKind::PermissionDenied) => {
            // A file system without links.
            match to.try_exists()? {
                true => Err(ErrorKind::AlreadyExists.into()),
                false => fs::rename(from, to),
            }
        }
        linked => linked,
    }
}

fn failure(path: &Path, error: &io::Error) -> SendError {
    let (class, condition) = match error.kind() {
        ErrorKind::InvalidFilename | ErrorKind::InvalidInput => (ErrorClass::Fatal, NAME),
        // A disk may be emptied, and rights given back.
        _ => (ErrorClass::Retryable, "archive:folder"),
    };
    let description = format!("{} can't be written: {error}", path.display());
    SendError { class, condition: condition.to_owned(), description }
}

/// More threads don't make a disk faster.
const WRITERS_MAX: usize = 16;
