//! Why a request is refused: the status, the code and the message of the reply.

use access::storage::{SharedKeyError, StorageDenial, StorageSignatureError};
use access::token::TokenError;
use hyper::StatusCode;
use units::ByteSize;

use blob_store::structured::StructuredError;
use blob_store::{BlobError, LeaseError, Leased, TagsError};

/// A request that does not get what it asks for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum HttpError {
    /// The store says so.
    #[error(transparent)]
    Blob(#[from] BlobError),
    /// Nothing proves the right to anything.
    #[error("the request has neither an Authorization header nor a signature in its query")]
    NoAuthentication,
    /// The path begins with another account than the one that is here.
    #[error(
        "neither the host nor the path starts with this service's account, or the request was signed by another account"
    )]
    Account,
    /// The key did not sign this.
    #[error(transparent)]
    SharedKey(#[from] SharedKeyError),
    /// The signature in the query is no good.
    #[error(transparent)]
    Signature(StorageSignatureError),
    /// The bearer token is not accepted.
    #[error("{0}")]
    Token(TokenError),
    /// The operation requires a bearer token.
    #[error("the operation requires a bearer token")]
    NoToken,
    /// The signature does not allow this.
    #[error(transparent)]
    Denied(StorageDenial),
    /// The path can't be read.
    #[error("the path names no account, or is not UTF-8")]
    Uri,
    /// A container or blob has an impossible name.
    #[error("the name of the container or blob is invalid")]
    ResourceName,
    /// The name of a container or blob is too short or too long.
    #[error("container names have 3 to 63 characters, blob names 1 to 1,024")]
    ResourceNameLength,
    /// A header can't be read.
    #[error("the value of the header {name} is invalid")]
    Header {
        /// Its name.
        name: &'static str,
    },
    /// A header is absent that must be there.
    #[error("the header {name} is missing")]
    MissingHeader {
        /// Its name.
        name: &'static str,
    },
    /// A parameter of the query can't be read.
    #[error("the value of the parameter {name} is invalid")]
    Parameter {
        /// Its name.
        name: &'static str,
    },
    /// Metadata has an impossible name or value.
    #[error("metadata needs names of letters, digits and underscores, and UTF-8 values")]
    Metadata,
    /// There is too much metadata.
    #[error("the metadata is larger than 8 KiB")]
    MetadataSize,
    /// The body is not the document that it should be.
    #[error("the body is not {expected}")]
    Xml {
        /// The expected document.
        expected: &'static str,
    },
    /// An element of a document has an impossible text.
    #[error("the value of the element {path} is invalid")]
    XmlValue {
        /// The names of the elements down to it.
        path: String,
    },
    /// An element of a document asks for something that is not here.
    #[error("this service does not implement the element {path}")]
    UnservedXml {
        /// The names of the elements down to it.
        path: String,
    },
    /// The body is no batch of requests.
    #[error("the body is not a batch of requests: {0}")]
    Batch(&'static str),
    /// The blob to be copied is none of this account's, or the request does not prove the right to read it.
    #[error("the source is not a blob of this account that the request may read: {0}")]
    Source(&'static str),
    /// A condition on the blob to be copied does not hold.
    #[error("a condition on the source does not hold")]
    SourceCondition,
    /// The combination of conditions is not supported.
    #[error(
        "a write takes one condition, If-Match with If-Unmodified-Since, or If-None-Match with If-Modified-Since, and one ETag"
    )]
    Conditions,
    /// A condition on a number has the wrong form.
    #[error("the value of the header {name} is not a number from 0 on")]
    Input {
        /// Its name.
        name: &'static str,
    },
    /// A condition on the version of the source does not hold.
    #[error("the source has not changed")]
    SourceNotModified,
    /// A checksum has the wrong form.
    #[error("the value of the header {name} is not 16 bytes in Base64")]
    InvalidMd5 {
        /// Name of the header.
        name: &'static str,
    },
    /// The snapshot to compare with does not exist.
    #[error("the snapshot of prevsnapshot does not exist")]
    PreviousSnapshot,
    /// The snapshot to compare with is newer than the other one.
    #[error("the snapshot of prevsnapshot is newer than the one that it is compared with")]
    PreviousSnapshotNewer,
    /// Tags are none that a blob can have.
    #[error(transparent)]
    Tags(#[from] TagsError),
    /// Tags are given, and those of the source are asked for.
    #[error("a request has x-ms-tags or copies the tags of its source, not both")]
    BothTags,
    /// Every copying is over when it is answered.
    #[error("no copying of this id is under way")]
    NoPendingCopy,
    /// The body is longer than one may be.
    #[error("the body is larger than {limit}; write the blob in blocks")]
    BodySize {
        /// The most that is taken.
        limit: ByteSize,
    },
    /// The body is not what its checksum is of.
    #[error("the body does not match its Content-MD5")]
    Checksum,
    /// The same of the other checksum.
    #[error("the body does not match its x-ms-content-crc64")]
    Crc64,
    /// The body is not the structured message that it should be.
    #[error(transparent)]
    Structured(#[from] StructuredError),
    /// The body ended early.
    #[error("the body is shorter than announced")]
    Body,
    /// There are too many bodies under way.
    #[error("the memory for request bodies is exhausted; try again")]
    Busy,
    /// It was done on purpose.
    #[error("the request was refused by an injected fault")]
    OnPurpose,
    /// Something broke in here.
    #[error("internal error; see the service's log")]
    Internal,
    /// The method is none that is served at this place.
    #[error("the resource does not support this method")]
    Method,
    /// The secondary endpoint is asked to change something.
    #[error("write operations are not allowed at the secondary endpoint")]
    Secondary,
    /// Headers ask for something that is not here.
    #[error("this service does not implement these headers: {names}")]
    UnservedHeaders {
        /// Their names.
        names: String,
    },
    /// A parameter of the query asks for something that is not here.
    #[error("this service does not implement the parameter {name} for this operation")]
    UnservedParameter {
        /// Its name, and its value if others are served.
        name: String,
    },
}

impl HttpError {
    pub(super) const fn header(name: &'static str) -> Self {
        Self::Header { name }
    }

    /// The status of the reply, and the code that clients go by.
    pub(super) const fn code(&self) -> (StatusCode, &'static str) {
        match self {
            Self::Blob(error) => code_of(error),
            Self::NoAuthentication => (StatusCode::UNAUTHORIZED, "NoAuthenticationInformation"),
            Self::Account | Self::SharedKey(_) => (StatusCode::FORBIDDEN, "AuthenticationFailed"),
            Self::Signature(error) => match error {
                StorageSignatureError::Protocol => (StatusCode::FORBIDDEN, "AuthorizationProtocolMismatch"),
                StorageSignatureError::Address => (StatusCode::FORBIDDEN, "AuthorizationSourceIPMismatch"),
                StorageSignatureError::Service => (StatusCode::FORBIDDEN, "AuthorizationServiceMismatch"),
                StorageSignatureError::Repeated { .. }
                | StorageSignatureError::Missing { .. }
                | StorageSignatureError::Malformed { .. }
                | StorageSignatureError::WrongSignature
                | StorageSignatureError::Principal
                | StorageSignatureError::NotNow => (StatusCode::FORBIDDEN, "AuthenticationFailed"),
            },
            Self::Token(error) => match error {
                TokenError::NoRole { .. } => (StatusCode::FORBIDDEN, "AuthorizationPermissionMismatch"),
                TokenError::KeysPending => (StatusCode::SERVICE_UNAVAILABLE, "ServerBusy"),
                _ => (StatusCode::UNAUTHORIZED, "InvalidAuthenticationInfo"),
            },
            Self::NoToken => (StatusCode::FORBIDDEN, "AuthenticationFailed"),
            Self::Denied(denial) => match denial {
                StorageDenial::Permission => (StatusCode::FORBIDDEN, "AuthorizationPermissionMismatch"),
                StorageDenial::ResourceType => (StatusCode::FORBIDDEN, "AuthorizationResourceTypeMismatch"),
                StorageDenial::Operation => (StatusCode::FORBIDDEN, "AuthorizationFailure"),
            },
            Self::Uri => (StatusCode::BAD_REQUEST, "InvalidUri"),
            Self::ResourceName => (StatusCode::BAD_REQUEST, "InvalidResourceName"),
            Self::ResourceNameLength => (StatusCode::BAD_REQUEST, "OutOfRangeInput"),
            Self::Header { .. } => (StatusCode::BAD_REQUEST, "InvalidHeaderValue"),
            Self::MissingHeader { name } => match name.as_bytes() {
                b"content-length" => (StatusCode::LENGTH_REQUIRED, "MissingContentLengthHeader"),
                _ => (StatusCode::BAD_REQUEST, "MissingRequiredHeader"),
            },
            Self::Parameter { .. } => (StatusCode::BAD_REQUEST, "InvalidQueryParameterValue"),
            Self::Metadata => (StatusCode::BAD_REQUEST, "InvalidMetadata"),
            Self::MetadataSize => (StatusCode::BAD_REQUEST, "MetadataTooLarge"),
            Self::Xml { .. } => (StatusCode::BAD_REQUEST, "InvalidXmlDocument"),
            Self::XmlValue { .. } => (StatusCode::BAD_REQUEST, "InvalidXmlNodeValue"),
            Self::UnservedXml { .. } => (StatusCode::BAD_REQUEST, "UnsupportedXmlNode"),
            Self::Batch(_) => (StatusCode::BAD_REQUEST, "InvalidInput"),
            Self::Source(_) => (StatusCode::FORBIDDEN, "CannotVerifyCopySource"),
            Self::SourceCondition => (StatusCode::PRECONDITION_FAILED, "SourceConditionNotMet"),
            Self::Conditions => (StatusCode::BAD_REQUEST, "MultipleConditionHeadersNotSupported"),
            Self::Input { .. } => (StatusCode::BAD_REQUEST, "InvalidInput"),
            Self::SourceNotModified => (StatusCode::NOT_MODIFIED, "CannotVerifyCopySource"),
            Self::InvalidMd5 { .. } => (StatusCode::BAD_REQUEST, "InvalidMd5"),
            Self::PreviousSnapshot => (StatusCode::CONFLICT, "PreviousSnapshotNotFound"),
            Self::PreviousSnapshotNewer => (StatusCode::BAD_REQUEST, "PreviousSnapshotCannotBeNewer"),
            Self::Tags(error) => match error {
                TagsError::EmptyKey => (StatusCode::BAD_REQUEST, "EmptyTagName"),
                TagsError::DuplicateKey => (StatusCode::BAD_REQUEST, "DuplicateTagNames"),
                TagsError::TooLarge => (StatusCode::BAD_REQUEST, "TagsTooLarge"),
                TagsError::Character => (StatusCode::BAD_REQUEST, "InvalidTag"),
            },
            Self::BothTags => (StatusCode::BAD_REQUEST, "BothUserTagsAndSourceTagsCopyPresentException"),
            Self::NoPendingCopy => (StatusCode::CONFLICT, "NoPendingCopyOperation"),
            Self::BodySize { .. } => (StatusCode::PAYLOAD_TOO_LARGE, "RequestBodyTooLarge"),
            Self::Checksum => (StatusCode::BAD_REQUEST, "Md5Mismatch"),
            Self::Crc64 => (StatusCode::BAD_REQUEST, CRC64_MISMATCH),
            Self::Structured(error) => match error.is_mismatch() {
                true => (StatusCode::BAD_REQUEST, CRC64_MISMATCH),
                false => (StatusCode::BAD_REQUEST, "InvalidInput"),
            },
            Self::Body => (StatusCode::BAD_REQUEST, "InvalidInput"),
            Self::Busy | Self::OnPurpose => (StatusCode::SERVICE_UNAVAILABLE, "ServerBusy"),
            Self::Internal => (StatusCode::INTERNAL_SERVER_ERROR, "InternalError"),
            Self::Method => (StatusCode::METHOD_NOT_ALLOWED, "UnsupportedHttpVerb"),
            Self::Secondary => (StatusCode::FORBIDDEN, "InsufficientAccountPermissions"),
            // Not 501: some clients take it for an error that may pass, and ask again and again.
            Self::UnservedHeaders { .. } => (StatusCode::BAD_REQUEST, "UnsupportedHeader"),
            Self::UnservedParameter { .. } => (StatusCode::BAD_REQUEST, "UnsupportedQueryParameter"),
        }
    }
}

const fn code_of(error: &BlobError) -> (StatusCode, &'static str) {
    match error {
        BlobError::ContainerNotFound => (StatusCode::NOT_FOUND, "ContainerNotFound"),
        BlobError::ContainerAlreadyExists => (StatusCode::CONFLICT, "ContainerAlreadyExists"),
        BlobError::BlobNotFound => (StatusCode::NOT_FOUND, "BlobNotFound"),
        BlobError::SnapshotsPresent => (StatusCode::CONFLICT, "SnapshotsPresent"),
        BlobError::BlobAlreadyExists => (StatusCode::CONFLICT, "BlobAlreadyExists"),
        BlobError::ConditionNotMet => (StatusCode::PRECONDITION_FAILED, "ConditionNotMet"),
        BlobError::UnsatisfiableCondition => (StatusCode::BAD_REQUEST, "UnsatisfiableCondition"),
        BlobError::TierOfOtherKind => (StatusCode::BAD_REQUEST, "AccessTierNotSupportedForBlobType"),
        BlobError::Archived => (StatusCode::CONFLICT, "BlobArchived"),
        BlobError::InvalidPageRange => (StatusCode::RANGE_NOT_SATISFIABLE, "InvalidPageRange"),
        BlobError::SequenceNumber => (StatusCode::PRECONDITION_FAILED, "SequenceNumberConditionNotMet"),
        BlobError::NotModified => (StatusCode::NOT_MODIFIED, "ConditionNotMet"),
        BlobError::MayNotReplace => (StatusCode::FORBIDDEN, "AuthorizationPermissionMismatch"),
        BlobError::InvalidBlobType => (StatusCode::CONFLICT, "InvalidBlobType"),
        BlobError::AppendPosition => (StatusCode::PRECONDITION_FAILED, "AppendPositionConditionNotMet"),
        BlobError::MaximumSize => (StatusCode::PRECONDITION_FAILED, "MaxBlobSizeConditionNotMet"),
        BlobError::InvalidRange { .. } => (StatusCode::RANGE_NOT_SATISFIABLE, "InvalidRange"),
        BlobError::InvalidBlockList => (StatusCode::BAD_REQUEST, "InvalidBlockList"),
        BlobError::InvalidBlockId => (StatusCode::BAD_REQUEST, "InvalidBlobOrBlock"),
        BlobError::TooManyBlocks => (StatusCode::CONFLICT, "BlockCountExceedsLimit"),
        BlobError::OutOfMemory { .. } => (StatusCode::INSUFFICIENT_STORAGE, "InsufficientStorage"),
        BlobError::Lease(error) => code_of_lease(error),
        BlobError::Damaged => (StatusCode::INTERNAL_SERVER_ERROR, "InternalError"),
        BlobError::Unavailable(_) => (StatusCode::SERVICE_UNAVAILABLE, "ServerBusy"),
        // In the service's words: the operation may or may not have succeeded.
        BlobError::OutcomeUnknown(_) => (StatusCode::INTERNAL_SERVER_ERROR, "OperationTimedOut"),
    }
}

const fn code_of_lease(error: &LeaseError) -> (StatusCode, &'static str) {
    match error {
        LeaseError::IdMissing(_) => (StatusCode::PRECONDITION_FAILED, "LeaseIdMissing"),
        LeaseError::IdMismatch(Leased::Blob) => {
            (StatusCode::PRECONDITION_FAILED, "LeaseIdMismatchWithBlobOperation")
        }
        LeaseError::IdMismatch(Leased::Container) => {
            (StatusCode::PRECONDITION_FAILED, "LeaseIdMismatchWithContainerOperation")
        }
        LeaseError::NotPresent(Leased::Blob) => {
            (StatusCode::PRECONDITION_FAILED, "LeaseNotPresentWithBlobOperation")
        }
        LeaseError::NotPresent(Leased::Container) => {
            (StatusCode::PRECONDITION_FAILED, "LeaseNotPresentWithContainerOperation")
        }
        LeaseError::Lost(_) => (StatusCode::PRECONDITION_FAILED, "LeaseLost"),
        LeaseError::AlreadyPresent => (StatusCode::CONFLICT, "LeaseAlreadyPresent"),
        LeaseError::BreakingNotAcquired => (StatusCode::CONFLICT, "LeaseIsBreakingAndCannotBeAcquired"),
        LeaseError::BreakingNotChanged => (StatusCode::CONFLICT, "LeaseIsBreakingAndCannotBeChanged"),
        LeaseError::BrokenNotRenewed => (StatusCode::CONFLICT, "LeaseIsBrokenAndCannotBeRenewed"),
        LeaseError::ActionIdMismatch => (StatusCode::CONFLICT, "LeaseIdMismatchWithLeaseOperation"),
        LeaseError::ActionNotPresent => (StatusCode::CONFLICT, "LeaseNotPresentWithLeaseOperation"),
    }
}

const CRC64_MISMATCH: &str = "Crc64Mismatch";
