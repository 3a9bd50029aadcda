//! A storage account: containers, and blobs in them.
//!
//! The subset of Azure's blob storage that the checkpoint stores of the official clients and archives need: blobs that are
//! written as a whole, of blocks, or by appending; metadata; conditions; ranges; listings. No HTTP is in here.
//!
//! * [`BlobStore`] is the account; its [`Container`]s do everything else.
//! * [`Conditions`] are judged together with the change that they are for, so of two writers that both ask for the same
//!   version one wins.
//! * `content` is where bytes are: in memory, charged to a `budget`, or in the files of `disk`.
//! * `lease` is who may write when a client has locked a blob or container.
//! * [`structured`] is the framing in which clients send and get contents with checksums.
//! * [`Now`] is the present that comes with each call.
//! * [`BlobConfig`] is the account as plain data.

mod budget;
mod conditions;
mod config;
mod container;
mod content;
mod crc64;
mod disk;
mod error;
mod lease;
mod limits;
pub mod names;
mod now;
mod properties;
mod public_access;
mod service_properties;
mod store;
pub mod structured;
mod tags;
#[cfg(test)]
mod tests;

pub use conditions::{Conditions, Etag, EtagCondition, Version};
pub use config::{AccountConfig, BlobConfig, BlobConfigError};
pub use container::{
    AppendRequest, Appended, Blob, BlockChoice, BlockLists, BlockSource, Container, ContainerProperties,
    CopyForm, CopyRequest, DeletedSnapshots, ListRequest, ListStart, Listed, ListedBlock, Listing,
    PAGE_BLOB_BYTES, PAGE_BYTES, PageChange, PageRange, PageRequest, PropertiesRequest, PutContent,
    PutRequest, Replacing, SequenceAction, SequenceConditions, SnapshotTime, is_of_pages,
};
pub use content::ContentReader;
pub use crc64::{Crc64, crc64};
pub use error::BlobError;
pub use lease::{
    Lease, LeaseAction, LeaseDuration, LeaseError, LeaseId, LeaseOutcome, LeaseState, Leased, state_of,
};
pub use limits::BlobLimits;
pub use now::Now;
pub use properties::{
    AccessTier, BlobForm, BlobKind, ContentHeaders, CopyState, Description, Metadata, TierSetting,
};
pub use public_access::{ContainerAccess, PublicAccess, StoredPolicy};
pub use service_properties::{Logging, Metrics, ServiceProperties};
pub use store::{BlobStore, BlobStoreFigures, FoundBlob};
pub use tags::{TagExpression, Tags, TagsError, check_tags};
