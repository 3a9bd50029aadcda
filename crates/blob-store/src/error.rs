//! Why something can't be done to a container or blob.

use units::ByteSize;

use super::lease::LeaseError;
use partition_log::disk::Unavailable;

/// Why an operation changed nothing, or gave nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BlobError {
    /// There is no such container.
    #[error("the container does not exist")]
    ContainerNotFound,
    /// There is such a container.
    #[error("the container exists already")]
    ContainerAlreadyExists,
    /// There is no such blob.
    #[error("the blob does not exist")]
    BlobNotFound,
    /// The blob has snapshots, which are not to be deleted with it.
    #[error("the blob has snapshots; x-ms-delete-snapshots says what becomes of them")]
    SnapshotsPresent,
    /// There is such a blob, and there must not be (`If-None-Match: *`).
    #[error("the blob exists already")]
    BlobAlreadyExists,
    /// A condition of the request does not hold.
    #[error("a condition of the request does not hold")]
    ConditionNotMet,
    /// A read has the condition that the blob does not exist (`If-None-Match: *`).
    #[error("If-None-Match: * of a read can't be satisfied")]
    UnsatisfiableCondition,
    /// What is asked for is what the reader has already.
    #[error("the blob has not changed")]
    NotModified,
    /// There is such a blob, and who asks may only create ones.
    #[error("the blob exists, and the signature allows creating blobs but not replacing them")]
    MayNotReplace,
    /// The operation is for the other kind of blob.
    #[error("the operation does not apply to this kind of blob")]
    InvalidBlobType,
    /// The blob has no access tier, since it is no block blob.
    #[error("only block blobs have an access tier")]
    TierOfOtherKind,
    /// The blob is archived.
    #[error("the blob is archived; set another tier to read or replace it")]
    Archived,
    /// The range does not consist of whole pages of the blob.
    #[error("the range must consist of whole pages of 512 bytes, within the blob")]
    InvalidPageRange,
    /// A condition on the sequence number of a page blob does not hold.
    #[error("a condition on the sequence number of the blob does not hold")]
    SequenceNumber,
    /// Appending was to happen at another position.
    #[error("the blob does not end at the position of x-ms-blob-condition-appendpos")]
    AppendPosition,
    /// Appending would make the blob longer than is wished.
    #[error("the blob would be longer than x-ms-blob-condition-maxsize")]
    MaximumSize,
    /// Nothing of the blob lies in the range.
    #[error("the range starts at or beyond the end of the blob, which has {length} bytes")]
    InvalidRange {
        /// Bytes that the blob has.
        length: u64,
    },
    /// A block list names a block that is not there.
    #[error("the block list names a block that does not exist")]
    InvalidBlockList,
    /// The id of a block is too long, or not as long as those of the blob's other blocks.
    #[error("the id of the block is longer than 64 bytes, or not as long as the others of the blob")]
    InvalidBlockId,
    /// There are as many blocks as there can be.
    #[error("the blob has the maximum number of blocks, or of ranges of pages")]
    TooManyBlocks,
    /// The memory of the account is used up. Trying again is of no use until something is deleted.
    #[error(
        "the account's blobs would take more than {limit} of memory; delete some, raise `blob.memory`, or keep them in a \
         data directory"
    )]
    OutOfMemory {
        /// What they may take.
        limit: ByteSize,
    },
    /// A lease prevents it.
    #[error(transparent)]
    Lease(#[from] LeaseError),
    /// What is on the disk is not what was written. Trying again is of no use.
    #[error(
        "the content is damaged on the service's disk, whose log names the file; write the blob again, or restore the file \
         and restart the service"
    )]
    Damaged,
    /// The disk does not take it, or does not give it. Trying again may help.
    #[error("{0}")]
    Unavailable(#[from] Unavailable),
    /// The change is made, and a power cut may undo it: the disk failed after it.
    #[error("the change was made, and may be undone if the machine loses power: {0}")]
    OutcomeUnknown(Unavailable),
}

impl From<std::io::Error> for BlobError {
    fn from(error: std::io::Error) -> Self {
        tracing::error!(%error, "a blob can't be read from or written to the disk");
        Self::Unavailable(Unavailable::from(&error))
    }
}

impl BlobError {
    /// The error of a change that is made and could not be made to last.
    pub(crate) fn unknown(error: std::io::Error) -> Self {
        tracing::error!(%error, "a change of a blob can't be synced to the disk");
        Self::OutcomeUnknown(Unavailable::from(&error))
    }
}
