//! How much there may be of what a client can make more and more of.

/// The bounds of every blob.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlobLimits {
    /// As in the service: blocks of which a blob may consist, and that may be appended to one.
    pub blocks: usize,
    /// As in the service: blocks of a blob that may wait to be committed.
    pub uncommitted_blocks: usize,
    /// Maximum number of extents of a page blob. The service has no such limit.
    pub extents: usize,
}

impl Default for BlobLimits {
    fn default() -> Self {
        Self { blocks: 50_000, uncommitted_blocks: 100_000, extents: 100_000 }
    }
}

/// The longest id of a block, decoded, in bytes.
pub(super) const BLOCK_ID_BYTES: usize = 64;

/// Memory that a container, blob or block takes besides what is in it. Rather too much than too little.
pub(super) const ENTRY_BYTES: u64 = 512;
