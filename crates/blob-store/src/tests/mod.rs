//! The account as a whole: one suite for memory and disk, and what faults of the disk come to.

mod bounds;
mod copies;
mod damage;
mod faults;
mod leases;
mod model;
mod pages;
mod restarts;
mod snapshots;
mod suite;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

use bytes::Bytes;
use tempfile::TempDir;
use units::ByteSize;

use super::{
    AppendRequest, BlobError, BlobKind, BlobLimits, BlobStore, BlockChoice, BlockSource, Conditions,
    Container, ContentReader, Description, ListRequest, Now, PutContent, PutRequest, Replacing,
};
use partition_log::disk::SyncPolicy;

const MEMORY: ByteSize = ByteSize::from_mebibytes(4);

/// Few enough that tests come to them.
const LIMITS: BlobLimits = BlobLimits { blocks: 4, uncommitted_blocks: 3, extents: 5 };

/// The first page of all blobs, as large as the service's.
const EVERYTHING: ListRequest<'static> = ListRequest {
    prefix: "",
    delimiter: None,
    from: None,
    before: None,
    with_snapshots: false,
    with_uncommitted: false,
    maximum: 5_000,
    maximum_bytes: u64::MAX,
};

fn now() -> Now {
    (UNIX_EPOCH + Duration::from_secs(1_795_213_063)).into()
}

fn open(directory: &TempDir) -> BlobStore {
    BlobStore::open(directory.path(), SyncPolicy::Os, MEMORY, LIMITS).unwrap()
}

fn put(content: &[u8]) -> PutRequest {
    PutRequest {
        content: PutContent::Block(Bytes::copy_from_slice(content)),
        description: Description::default(),
        conditions: Conditions::default(),
        replacing: Replacing::Allowed,
    }
}

fn appended(content: &'static [u8]) -> AppendRequest {
    AppendRequest {
        content: Bytes::from_static(content),
        position: None,
        maximum_length: None,
        conditions: Conditions::default(),
    }
}

/// Appends to the blob `log`.
fn append(container: &Container, content: &'static [u8]) -> Result<(), BlobError> {
    let request = appended(content);
    container.append("log", request, now()).map(drop)
}

fn latest(ids: &[&str]) -> Vec<BlockChoice> {
    ids.iter().map(|id| BlockChoice { source: BlockSource::Latest, id: (*id).to_owned() }).collect()
}

fn commit(container: &Container, name: &str, ids: &[&str]) -> Result<(), BlobError> {
    container
        .put_block_list(
            name,
            &latest(ids),
            Description::default(),
            &Conditions::default(),
            Replacing::Allowed,
            now(),
        )
        .map(drop)
}

/// The files of a directory that end so.
fn files(directory: &Path, end: &str) -> Vec<PathBuf> {
    let mut files: Vec<_> = fs::read_dir(directory)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.to_string_lossy().ends_with(end))
        .collect();
    files.sort();
    files
}

fn bytes(mut reader: ContentReader) -> Vec<u8> {
    let mut bytes = Vec::new();
    // Pieces that end in the middle of a block.
    while let Some(chunk) = reader.next_chunk(3).unwrap() {
        bytes.extend_from_slice(&chunk);
    }
    bytes
}

fn content(container: &Container, name: &str) -> Result<Vec<u8>, BlobError> {
    let blob = container.blob(name)?;
    Ok(bytes(blob.read(0..blob.length())))
}
