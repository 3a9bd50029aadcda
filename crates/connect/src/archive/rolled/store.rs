//! Where files of many events go: blocks that nobody sees, and a name when all are there.
//!
//! | | blocks | the name |
//! |---|---|---|
//! | a container | Put Block, with identifiers of this writing alone | Put Block List, on condition that there is no blob |
//! | a bucket | kept in memory | one request with all of them, on condition that there is no object |
//! | a folder | written into `.NAME.….partial` | synced, renamed, and the folder is synced |
//!
//! What is there begins with the same event if it was written before a crash, or given up and written all the same. The metadata of a blob or
//! an object tells its last event; of files with the same beginning the longer one has more events. If it has all events of the new file, that is not needed;
//! if it has fewer, it is replaced, a blob or an object on condition that nobody else has done so. So a relay that does not know yet that the partition is
//! another's can't take events out of the archive. To a folder one relay alone writes.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Read as _, Seek as _, SeekFrom};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use tokio::sync::Semaphore;
use units::mix;

use super::kept::KeptBlocks;
use super::shared::{BlobOfBlocks, ObjectOfBlocks, of_store, settle};
use crate::archive::bucket::Bucket;
use crate::archive::options::FileFormat;
use crate::archive::{DIFFERENT_CONTENT, parquet};
use crate::checkpoint::blobs::Container;
use crate::retry::RetryPolicy;
use crate::sink::{ErrorClass, SendError};

/// See the module. Clones are the same.
#[derive(Clone, Debug)]
pub(in crate::archive) enum FileStore {
    Blobs(Container),
    Bucket {
        bucket: Bucket,
        /// In bytes, for blocks that are kept.
        memory: usize,
        /// How many objects are being put at most.
        requests: Arc<Semaphore>,
    },
    Folder {
        root: Arc<Path>,
        /// Keeps others away as long as it is open; and within this process, who gives a file its name.
        lock: Arc<Mutex<File>>,
    },
}

/// A file that has not its name yet.
#[derive(Debug)]
pub(super) struct NewFile {
    pub(super) id: u64,
    pub(super) name: String,
    pub(super) format: FileFormat,
    /// What tells this writing from any other of the same name.
    nonce: u64,
    /// Whether it is not wanted any more.
    is_discarded: AtomicBool,
}

/// The events of a file.
#[derive(Clone, Copy, Debug)]
pub(super) struct Span {
    pub(super) first: i64,
    pub(super) last: i64,
    pub(super) count: u64,
    /// When the service took the first one.
    pub(super) enqueued_ms: i64,
}

impl NewFile {
    pub(super) fn new(id: u64, name: String, format: FileFormat) -> Self {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        // Cut to 64 bits, which is as good.
        let nonce = mix(since.as_nanos() as u64, u64::from(std::process::id()), id);
        Self { id, name, format, nonce, is_discarded: AtomicBool::new(false) }
    }

    /// The identifier of a block. Those of a blob are equally long.
    pub(super) fn block(&self, index: u32) -> Vec<u8> {
        format!("{:016x}{index:08}", self.nonce).into_bytes()
    }

    pub(super) fn content_type(&self) -> &'static str {
        match self.format {
            FileFormat::Ndjson => "application/x-ndjson",
            FileFormat::Avro => "avro/binary",
            FileFormat::Parquet => "application/vnd.apache.parquet",
        }
    }

    /// The file in a folder, and what it is called before.
    fn paths(&self, root: &Path) -> (PathBuf, PathBuf) {
        let path = root.join(&self.name);
        let name = path.file_name().unwrap_or_default();
        let partial = path.with_file_name(format!(".{}.{:x}.partial", name.display(), self.nonce));
        (path, partial)
    }
}

impl FileStore {
    /// Whether blocks are kept until their file is complete.
    pub(super) const fn keeps_blocks(&self) -> bool {
        matches!(self, Self::Bucket { .. })
    }

    /// How much of them may be kept, in bytes.
    pub(super) const fn memory(&self) -> usize {
        match self {
            Self::Bucket { memory, .. } => *memory,
            Self::Blobs(_) | Self::Folder { .. } => usize::MAX,
        }
    }

    /// Stores a block, which begins at this byte of the file, unless it is [kept](Self::keeps_blocks).
    pub(super) async fn store_block(
        &self,
        file: &Arc<NewFile>,
        index: u32,
        offset: u64,
        content: Bytes,
    ) -> Result<(), SendError> {
        match self {
            Self::Blobs(container) => {
                let stored = container.stage(&file.name, &file.block(index), content).await;
                stored.map_err(|error| of_store(&error))
            }
            Self::Bucket { .. } => Ok(()),
            Self::Folder { root, .. } => {
                let (root, file) = (Arc::clone(root), Arc::clone(file));
                on_disk(move || {
                    let (path, partial) = file.paths(&root);
                    write_block(&root, &partial, offset, &content).map_err(|error| of_disk(&path, &error))
                })
                .await
            }
        }
    }

    /// Gives a file its name, all blocks being stored, or kept.
    pub(super) async fn give_name(
        &self,
        file: &Arc<NewFile>,
        blocks: u32,
        kept: &Arc<KeptBlocks>,
        span: Span,
    ) -> Result<(), SendError> {
        match self {
            Self::Blobs(container) => {
                settle(&BlobOfBlocks { container, file, blocks, span }, file, span).await
            }
            Self::Bucket { bucket, requests, .. } => {
                let _one = requests.acquire().await;
                settle(&ObjectOfBlocks { bucket, file, kept, span }, file, span).await
            }
            Self::Folder { root, lock } => {
                let (root, lock, file) = (Arc::clone(root), Arc::clone(lock), Arc::clone(file));
                on_disk(move || {
                    let (path, partial) = file.paths(&root);
                    let _held = lock.lock().unwrap_or_else(PoisonError::into_inner);
                    match rename(&root, &partial, &path, file.format) {
                        Ok(true) => Ok(()),
                        Ok(false) => Err(different(&path.display().to_string())),
                        Err(error) => Err(of_disk(&path, &error)),
                    }
                })
                .await
            }
        }
    }

    /// A file is not wanted any more. Blocks of blobs are gone after a week.
    pub(super) fn discard(&self, file: &Arc<NewFile>) {
        file.is_discarded.store(true, Ordering::Relaxed);
        if let Self::Folder { root, .. } = self {
            let (root, file) = (Arc::clone(root), Arc::clone(file));
            tokio::task::spawn_blocking(move || {
                let (_, partial) = file.paths(&root);
                let _ = fs::remove_file(partial);
            });
        }
    }
}

/// Tries until it is done, can't be, or is not wanted any more.
pub(super) async fn again<F>(
    policy: &RetryPolicy,
    file: &NewFile,
    mut attempt: impl FnMut() -> F + Send,
) -> Result<(), SendError>
where
    F: Future<Output = Result<(), SendError>> + Send,
{
    let mut failures = 0;
    loop {
        let error = match attempt().await {
            Ok(()) => return Ok(()),
            Err(error) => error,
        };
        failures += 1;
        let is_wanted = !file.is_discarded.load(Ordering::Relaxed);
        let asked = match error.class {
            ErrorClass::Retryable => Some(Duration::ZERO),
            ErrorClass::Throttled { retry_after } => Some(retry_after),
            ErrorClass::Fatal | ErrorClass::TooLarge => None,
        };
        match policy.delay_after(failures, file.id).zip(asked) {
            Some((delay, asked)) if is_wanted => {
                let delay = delay.max(asked);
                tracing::debug!(%error, "a file of the archive is tried again");
                tokio::time::sleep(delay).await;
            }
            _ => return Err(error),
        }
    }
}

async fn on_disk(work: impl FnOnce() -> Result<(), SendError> + Send + 'static) -> Result<(), SendError> {
    let done = on_another_thread(work).await;
    done.unwrap_or_else(|| Err(of_disk(Path::new(""), &ErrorKind::Interrupted.into())))
}

/// None if the runtime ends before.
pub(super) async fn on_another_thread<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Option<T> {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => Some(done),
        Err(error) => match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            Err(_) => None,
        },
    }
}

fn write_block(root: &Path, partial: &Path, offset: u64, content: &[u8]) -> io::Result<()> {
    if let Some(folder) = partial.parent()
        && !folder.is_dir()
    {
        fs::create_dir_all(folder)?;
        folder.ancestors().take_while(|ancestor| ancestor.starts_with(root)).try_for_each(sync)?;
    }
    OpenOptions::new().create(true).truncate(false).write(true).open(partial)?.write_all_at(content, offset)
}

/// Gives a file its name, unless the one that has it has as much; not where something else has it.
fn rename(root: &Path, partial: &Path, path: &Path, format: FileFormat) -> io::Result<bool> {
    // Done before, and not said.
    if !partial.try_exists()? && path.try_exists()? {
        return Ok(true);
    }
    File::open(partial)?.sync_data()?;
    match extent(path, format) {
        Ok(there) => {
            let new = extent(partial, format)?;
            if there.beginning != new.beginning {
                return Ok(false);
            }
            if there.size >= new.size {
                fs::remove_file(partial)?;
                return Ok(true);
            }
        }
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    fs::rename(partial, path)?;
    sync(path.parent().unwrap_or(root))?;
    Ok(true)
}

/// What a file has.
struct Extent {
    /// What tells the first event: its number, and when the service took it.
    beginning: Vec<u8>,
    /// Of files with the same beginning the one that has more events has more of this.
    size: u64,
}

fn extent(path: &Path, format: FileFormat) -> io::Result<Extent> {
    let mut file = File::open(path)?;
    let size = file.metadata()?.len();
    let mut bytes = Vec::new();
    if format == FileFormat::Parquet {
        file.seek(SeekFrom::Start(size.saturating_sub(parquet::EXTENT_BYTES)))?;
        file.take(parquet::EXTENT_BYTES).read_to_end(&mut bytes)?;
        let (first, enqueued_ms, count) = parquet::extent(&bytes).unwrap_or_default();
        let beginning = format!("{first} {enqueued_ms}").into_bytes();
        return Ok(Extent { beginning, size: count.cast_unsigned() });
    }
    file.take(BEGINNING_BYTES).read_to_end(&mut bytes)?;
    Ok(Extent { beginning: beginning(bytes, format), size })
}

/// The part of the first bytes of a file that tells its first event.
fn beginning(mut bytes: Vec<u8>, format: FileFormat) -> Vec<u8> {
    match format {
        FileFormat::Ndjson => {
            let end = bytes.windows(TIME.len()).position(|window| window == TIME);
            // With the time behind it.
            bytes.truncate(end.map_or(bytes.len(), |end| (end + TIME.len() + 26).min(bytes.len())));
            bytes
        }
        FileFormat::Avro => {
            // Behind the head are the two numbers of the first block, which depend on what follows, then the first record.
            let mut numbers = 0;
            let records = bytes.iter().skip(AVRO_HEAD).take_while(|byte| {
                let is_number = numbers < 2;
                numbers += usize::from(**byte < 0x80);
                is_number
            });
            let first = AVRO_HEAD + records.count();
            bytes.get(first..bytes.len().min(first + 24)).unwrap_or_default().to_vec()
        }
        // Its end tells that.
        FileFormat::Parquet => bytes,
    }
}

fn sync(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

fn of_disk(path: &Path, error: &io::Error) -> SendError {
    SendError {
        class: ErrorClass::Retryable,
        condition: "archive:folder".to_owned(),
        description: format!("{} can't be written: {error}", path.display()),
    }
}

pub(super) fn different(name: &str) -> SendError {
    SendError {
        class: ErrorClass::Fatal,
        condition: DIFFERENT_CONTENT.to_owned(),
        description: format!("`{name}` is there and does not begin with the same event"),
    }
}

/// The time of the first event in a file of lines.
const TIME: &[u8] = b",\"enqueued_time\":";

/// The head of a file of Avro.
const AVRO_HEAD: usize = 490;

/// Names of hubs have at most 256 characters.
const BEGINNING_BYTES: u64 = 4_096;
