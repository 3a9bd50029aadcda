//! The operations that are served: one table of what makes a request which operation, and what else may be in it.
//!
//! A request is looked up by what its path names, its method, `restype`, `comp`, and whether its content comes from another blob.
//! Parameters and headers that change what an operation does stand in its row; with any other it is
//! [refused](super::unserved), so a row is all that it takes to serve one, and nothing is served without a row.

use super::http_error::HttpError;
use super::pages::{
    CONTENT_LENGTH, IF_SEQUENCE_AT_MOST, IF_SEQUENCE_BELOW, IF_SEQUENCE_EQUAL, PAGE_WRITE, SEQUENCE_ACTION,
    SEQUENCE_NUMBER,
};
use super::request::Request;

macro_rules! operations {
    ($($operation:ident = $name:literal, $parameters:expr, $headers:expr;)+) => {
        /// An operation of the protocol.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(super) enum Operation {
            $($operation,)+
        }

        impl Operation {
            /// Returns the name of the operation in Azure's storage logs.
            pub(super) const fn name(self) -> &'static str {
                match self {
                    $(Self::$operation => $name,)+
                }
            }

            /// Returns the parameters that it has besides those of all.
            pub(super) const fn parameters(self) -> &'static [&'static str] {
                match self {
                    $(Self::$operation => &$parameters,)+
                }
            }

            /// Returns the headers that it has besides those of all.
            pub(super) const fn headers(self) -> &'static [&'static str] {
                match self {
                    $(Self::$operation => &$headers,)+
                }
            }

            #[cfg(test)]
            const ALL: &[Self] = &[$(Self::$operation,)+];
        }
    };
}

operations! {
    AccountInformation = "GetAccountInformation", [], [];
    ServiceProperties = "GetBlobServiceProperties", [], [];
    SetServiceProperties = "SetBlobServiceProperties", [], [];
    Statistics = "GetBlobServiceStats", [], [];
    UserDelegationKey = "GetUserDelegationKey", [], [];
    ListContainers = "ListContainers", ["prefix", "marker", "maxresults", "include"], [];
    FindByTags = "FindBlobsByTags", ["where", "marker", "maxresults"], [];
    AccountBatch = "BatchOperation", [], [];
    CreateContainer = "CreateContainer", [], [PUBLIC_ACCESS];
    ContainerAccess = "GetContainerACL", [], [];
    SetContainerAccess = "SetContainerACL", [], [PUBLIC_ACCESS];
    ContainerProperties = "GetContainerProperties", [], [];
    DeleteContainer = "DeleteContainer", [], [];
    SetContainerMetadata = "SetContainerMetadata", [], [];
    LeaseContainer = "LeaseContainer", [], [];
    ListBlobs = "ListBlobs", ["prefix", "delimiter", "marker", "maxresults", "include", "startfrom", "endbefore"], [];
    ContainerBatch = "BatchOperation", [], [];
    PutBlob = "PutBlob", [], [TIER, TAGS, IF_TAGS, CONTENT_LENGTH, SEQUENCE_NUMBER];
    PutBlobFromUrl = "PutBlobFromURL", [], [
        TIER, SOURCE, SOURCE_AUTHORIZATION, SOURCE_IF_MATCH, SOURCE_IF_NONE_MATCH, SOURCE_IF_MODIFIED, SOURCE_IF_UNMODIFIED,
        SOURCE_MD5, "x-ms-copy-source-blob-properties", TAGS, TAGS_OPTION, IF_TAGS,
    ];
    Copy = "CopyBlob", [], [
        TIER, SOURCE, SOURCE_IF_MATCH, SOURCE_IF_NONE_MATCH, SOURCE_IF_MODIFIED, SOURCE_IF_UNMODIFIED, SOURCE_LEASE,
        "x-ms-rehydrate-priority", "x-ms-requires-sync", TAGS, IF_TAGS,
    ];
    CopyFromUrl = "CopyBlobFromURL", [], [
        TIER, SOURCE, SOURCE_AUTHORIZATION, SOURCE_IF_MATCH, SOURCE_IF_NONE_MATCH, SOURCE_IF_MODIFIED, SOURCE_IF_UNMODIFIED,
        SOURCE_MD5, "x-ms-requires-sync", TAGS, TAGS_OPTION, IF_TAGS,
    ];
    AbortCopy = "AbortCopyBlob", ["copyid"], ["x-ms-copy-action"];
    Read = "GetBlob", ["snapshot"], [IF_TAGS];
    Properties = "GetBlobProperties", ["snapshot"], [IF_TAGS];
    SetMetadata = "SetBlobMetadata", [], [IF_TAGS];
    SetProperties = "SetBlobProperties", [], [IF_TAGS, CONTENT_LENGTH, SEQUENCE_NUMBER, SEQUENCE_ACTION];
    SetTier = "SetBlobTier", ["snapshot"], [TIER, "x-ms-rehydrate-priority", IF_TAGS];
    Tags = "GetBlobTags", ["snapshot"], [IF_TAGS];
    SetTags = "SetBlobTags", [], [IF_TAGS];
    Snapshot = "SnapshotBlob", [], [IF_TAGS];
    Delete = "DeleteBlob", ["snapshot"], [IF_TAGS, "x-ms-delete-snapshots"];
    PutBlock = "PutBlock", ["blockid"], [];
    PutBlockFromUrl = "PutBlockFromURL", ["blockid"], [
        SOURCE, SOURCE_AUTHORIZATION, SOURCE_IF_MATCH, SOURCE_IF_NONE_MATCH, SOURCE_IF_MODIFIED, SOURCE_IF_UNMODIFIED,
        SOURCE_MD5, SOURCE_CRC64, SOURCE_RANGE,
    ];
    PutBlockList = "PutBlockList", [], [TIER, TAGS, IF_TAGS];
    BlockList = "GetBlockList", ["blocklisttype", "snapshot"], [];
    Append = "AppendBlock", [], [IF_TAGS];
    AppendFromUrl = "AppendBlockFromURL", [], [
        SOURCE, SOURCE_AUTHORIZATION, SOURCE_IF_MATCH, SOURCE_IF_NONE_MATCH, SOURCE_IF_MODIFIED, SOURCE_IF_UNMODIFIED,
        SOURCE_MD5, SOURCE_CRC64, SOURCE_RANGE, IF_TAGS,
    ];
    PutPage = "PutPage", [], [PAGE_WRITE, IF_SEQUENCE_AT_MOST, IF_SEQUENCE_BELOW, IF_SEQUENCE_EQUAL, IF_TAGS];
    PutPageFromUrl = "PutPageFromURL", [], [
        PAGE_WRITE, IF_SEQUENCE_AT_MOST, IF_SEQUENCE_BELOW, IF_SEQUENCE_EQUAL, SOURCE, SOURCE_AUTHORIZATION, SOURCE_IF_MATCH,
        SOURCE_IF_NONE_MATCH, SOURCE_IF_MODIFIED, SOURCE_IF_UNMODIFIED, SOURCE_MD5, SOURCE_CRC64, SOURCE_RANGE, IF_TAGS,
    ];
    PageRanges = "GetPageRanges", ["snapshot", "prevsnapshot", "marker", "maxresults"], [IF_TAGS];
    LeaseBlob = "LeaseBlob", [], [];
}

/// Maps requests to one operation.
struct Row {
    operation: Operation,
    of: Of,
    methods: &'static [&'static str],
    restype: Option<&'static str>,
    component: Option<&'static str>,
    content: Content,
}

/// The kind of resource that a path names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Of {
    Account,
    Container,
    Blob,
    /// Any of them.
    Any,
}

/// The source of the content that a request writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Content {
    /// The body of the request, if there is one.
    Body,
    /// Another blob, which the client waits for.
    FromUrl,
    /// Another blob and what belongs to it, which the client waits for.
    CopiedAtOnce,
    /// The same; the client does not wait for it.
    Copied,
}

const fn row(
    operation: Operation,
    of: Of,
    methods: &'static [&'static str],
    restype: Option<&'static str>,
    component: Option<&'static str>,
) -> Row {
    Row { operation, of, methods, restype, component, content: Content::Body }
}

const fn of_url(operation: Operation, component: Option<&'static str>, content: Content) -> Row {
    Row { operation, of: Of::Blob, methods: &["PUT"], restype: None, component, content }
}

const CONTAINER: Option<&str> = Some("container");
const SERVICE: Option<&str> = Some("service");

const ROWS: &[Row] = &[
    row(Operation::AccountInformation, Of::Any, &["GET", "HEAD"], Some("account"), Some("properties")),
    row(Operation::ServiceProperties, Of::Account, &["GET"], SERVICE, Some("properties")),
    row(Operation::SetServiceProperties, Of::Account, &["PUT"], SERVICE, Some("properties")),
    row(Operation::Statistics, Of::Account, &["GET"], SERVICE, Some("stats")),
    row(Operation::UserDelegationKey, Of::Account, &["POST"], SERVICE, Some("userdelegationkey")),
    row(Operation::ListContainers, Of::Account, &["GET"], None, Some("list")),
    row(Operation::FindByTags, Of::Account, &["GET"], None, Some("blobs")),
    row(Operation::FindByTags, Of::Container, &["GET"], CONTAINER, Some("blobs")),
    row(Operation::AccountBatch, Of::Account, &["POST"], None, Some("batch")),
    row(Operation::CreateContainer, Of::Container, &["PUT"], CONTAINER, None),
    row(Operation::ContainerProperties, Of::Container, &["GET", "HEAD"], CONTAINER, None),
    row(Operation::ContainerProperties, Of::Container, &["GET", "HEAD"], CONTAINER, Some("metadata")),
    row(Operation::ContainerAccess, Of::Container, &["GET", "HEAD"], CONTAINER, Some("acl")),
    row(Operation::SetContainerAccess, Of::Container, &["PUT"], CONTAINER, Some("acl")),
    row(Operation::DeleteContainer, Of::Container, &["DELETE"], CONTAINER, None),
    row(Operation::SetContainerMetadata, Of::Container, &["PUT"], CONTAINER, Some("metadata")),
    row(Operation::LeaseContainer, Of::Container, &["PUT"], CONTAINER, Some("lease")),
    row(Operation::ListBlobs, Of::Container, &["GET"], CONTAINER, Some("list")),
    row(Operation::ContainerBatch, Of::Container, &["POST"], CONTAINER, Some("batch")),
    row(Operation::PutBlob, Of::Blob, &["PUT"], None, None),
    of_url(Operation::PutBlobFromUrl, None, Content::FromUrl),
    of_url(Operation::Copy, None, Content::Copied),
    of_url(Operation::CopyFromUrl, None, Content::CopiedAtOnce),
    row(Operation::AbortCopy, Of::Blob, &["PUT"], None, Some("copy")),
    row(Operation::Read, Of::Blob, &["GET"], None, None),
    row(Operation::Properties, Of::Blob, &["HEAD"], None, None),
    row(Operation::Properties, Of::Blob, &["GET", "HEAD"], None, Some("metadata")),
    row(Operation::SetMetadata, Of::Blob, &["PUT"], None, Some("metadata")),
    row(Operation::SetProperties, Of::Blob, &["PUT"], None, Some("properties")),
    row(Operation::SetTier, Of::Blob, &["PUT"], None, Some("tier")),
    row(Operation::Tags, Of::Blob, &["GET"], None, Some("tags")),
    row(Operation::SetTags, Of::Blob, &["PUT"], None, Some("tags")),
    row(Operation::Snapshot, Of::Blob, &["PUT"], None, Some("snapshot")),
    row(Operation::Delete, Of::Blob, &["DELETE"], None, None),
    row(Operation::PutBlock, Of::Blob, &["PUT"], None, Some("block")),
    of_url(Operation::PutBlockFromUrl, Some("block"), Content::FromUrl),
    row(Operation::PutBlockList, Of::Blob, &["PUT"], None, Some("blocklist")),
    row(Operation::BlockList, Of::Blob, &["GET"], None, Some("blocklist")),
    row(Operation::Append, Of::Blob, &["PUT"], None, Some("appendblock")),
    of_url(Operation::AppendFromUrl, Some("appendblock"), Content::FromUrl),
    row(Operation::PutPage, Of::Blob, &["PUT"], None, Some("page")),
    of_url(Operation::PutPageFromUrl, Some("page"), Content::FromUrl),
    row(Operation::PageRanges, Of::Blob, &["GET"], None, Some("pagelist")),
    row(Operation::LeaseBlob, Of::Blob, &["PUT"], None, Some("lease")),
];

impl Operation {
    /// Returns the operation of a request.
    ///
    /// # Errors
    /// It is none that is served.
    pub(super) fn of(request: &Request) -> Result<Self, HttpError> {
        let parameter = |name| request.parameter(name).map(str::to_ascii_lowercase);
        let (restype, component) = (parameter("restype"), parameter("comp"));
        let of = match (&request.target.container, &request.target.blob) {
            (None, _) => Of::Account,
            (Some(_), None) => Of::Container,
            (Some(_), Some(_)) => Of::Blob,
        };
        let content = Content::of(request, component.as_deref());
        let mut found = ROWS.iter().filter(|row| {
            (row.of == of || row.of == Of::Any)
                && row.restype == restype.as_deref()
                && row.component == component.as_deref()
        });
        let method = request.method().as_str();
        if let Some(row) = found.clone().find(|row| row.methods.contains(&method) && row.content == content) {
            return Ok(row.operation);
        }
        if found.clone().any(|row| row.methods.contains(&method)) {
            // Something else of another blob than its content.
            return Err(HttpError::UnservedHeaders { names: SOURCE.to_owned() });
        }
        if found.next().is_some() {
            return Err(HttpError::Method);
        }
        Err(match component {
            Some(component) if SERVICE_COMPONENTS.contains(&&*component) => {
                HttpError::UnservedParameter { name: format!("comp={component}") }
            }
            Some(_) if ROWS.iter().any(|row| row.of == of && row.restype == restype.as_deref()) => {
                HttpError::Parameter { name: "comp" }
            }
            _ => HttpError::Parameter { name: "restype" },
        })
    }

    /// Whether the operation changes nothing, so that the secondary endpoint has it.
    pub(super) const fn is_read(self) -> bool {
        match self {
            Self::AccountInformation
            | Self::ServiceProperties
            | Self::Statistics
            | Self::ListContainers
            | Self::FindByTags
            | Self::ContainerAccess
            | Self::ContainerProperties
            | Self::ListBlobs
            | Self::Read
            | Self::Properties
            | Self::Tags
            | Self::BlockList
            | Self::PageRanges => true,
            Self::SetServiceProperties
            | Self::UserDelegationKey
            | Self::AccountBatch
            | Self::CreateContainer
            | Self::SetContainerAccess
            | Self::DeleteContainer
            | Self::SetContainerMetadata
            | Self::LeaseContainer
            | Self::ContainerBatch
            | Self::PutBlob
            | Self::PutBlobFromUrl
            | Self::Copy
            | Self::CopyFromUrl
            | Self::AbortCopy
            | Self::SetMetadata
            | Self::SetProperties
            | Self::SetTier
            | Self::SetTags
            | Self::Snapshot
            | Self::Delete
            | Self::PutBlock
            | Self::PutBlockFromUrl
            | Self::PutBlockList
            | Self::Append
            | Self::AppendFromUrl
            | Self::PutPage
            | Self::PutPageFromUrl
            | Self::LeaseBlob => false,
        }
    }

    /// Whether contents of this operation may come or go as structured messages.
    pub(super) const fn takes_structured_bodies(self) -> bool {
        matches!(self, Self::PutBlob | Self::PutBlock | Self::Append | Self::PutPage | Self::Read)
    }

    /// Whether the operation accepts any combination of conditions.
    pub(super) const fn reads(self) -> bool {
        matches!(self, Self::Read | Self::Properties | Self::ContainerProperties)
    }
}

impl Content {
    fn of(request: &Request, component: Option<&str>) -> Self {
        if request.header(SOURCE).is_none() {
            return Self::Body;
        }
        let is_at_once =
            request.header("x-ms-requires-sync").is_some_and(|sync| sync.eq_ignore_ascii_case("true"));
        match component {
            None if request.header("x-ms-blob-type").is_some() => Self::FromUrl,
            None if is_at_once => Self::CopiedAtOnce,
            None => Self::Copied,
            Some(_) => Self::FromUrl,
        }
    }
}

/// Values of `comp` of the real service that are not served for every resource.
const SERVICE_COMPONENTS: &[&str] = &[
    "batch",
    "blobs",
    "expiry",
    "immutabilitypolicies",
    "incrementalcopy",
    "legalhold",
    "query",
    "rename",
    "seal",
    "tags",
    "undelete",
];

pub(super) const PUBLIC_ACCESS: &str = "x-ms-blob-public-access";
pub(super) const TIER: &str = "x-ms-access-tier";
pub(super) const TAGS: &str = "x-ms-tags";
pub(super) const TAGS_OPTION: &str = "x-ms-copy-source-tag-option";
pub(super) const IF_TAGS: &str = "x-ms-if-tags";
pub(super) const SOURCE: &str = "x-ms-copy-source";
pub(super) const SOURCE_AUTHORIZATION: &str = "x-ms-copy-source-authorization";
pub(super) const SOURCE_IF_MATCH: &str = "x-ms-source-if-match";
pub(super) const SOURCE_IF_NONE_MATCH: &str = "x-ms-source-if-none-match";
pub(super) const SOURCE_IF_MODIFIED: &str = "x-ms-source-if-modified-since";
pub(super) const SOURCE_IF_UNMODIFIED: &str = "x-ms-source-if-unmodified-since";
pub(super) const SOURCE_LEASE: &str = "x-ms-source-lease-id";
pub(super) const SOURCE_MD5: &str = "x-ms-source-content-md5";
pub(super) const SOURCE_CRC64: &str = "x-ms-source-content-crc64";
pub(super) const SOURCE_RANGE: &str = "x-ms-source-range";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_operation_has_a_row_and_no_two_rows_are_of_one_request() {
        for operation in Operation::ALL {
            assert!(ROWS.iter().any(|row| row.operation == *operation), "{operation:?}");
        }
        for (index, one) in ROWS.iter().enumerate() {
            for other in &ROWS[..index] {
                let is_same = one.of == other.of
                    && one.restype == other.restype
                    && one.component == other.component
                    && one.content == other.content
                    && one.methods.iter().any(|method| other.methods.contains(method));
                assert!(!is_same, "{:?} and {:?}", one.operation, other.operation);
            }
        }
    }

    #[test]
    fn the_document_has_the_table() {
        let document = include_str!("../../../../../../docs/blob-storage.md");
        for row in ROWS {
            let of = match row.of {
                Of::Account => "account",
                Of::Container => "container",
                Of::Blob => "blob",
                Of::Any => "any",
            };
            let mut query: Vec<String> = Vec::new();
            query.extend(row.restype.map(|restype| format!("restype={restype}")));
            query.extend(row.component.map(|component| format!("comp={component}")));
            query.extend(row.operation.parameters().iter().map(|name| (*name).to_owned()));
            let query: Vec<_> = query.iter().map(|part| format!("`{part}`")).collect();
            let content = match row.content {
                Content::Body => String::new(),
                Content::FromUrl => format!("`{SOURCE}`"),
                Content::CopiedAtOnce => format!("`{SOURCE}`, `x-ms-requires-sync`"),
                Content::Copied => format!("`{SOURCE}`, no `x-ms-blob-type`"),
            };
            let line = format!(
                "| {} | {of} | {} | {} | {content} |",
                row.operation.name(),
                row.methods.join(", "),
                query.join(", "),
            );
            assert!(
                document.lines().any(|other| other == line),
                "docs/blob-storage.md should have the line\n{line}"
            );
        }
    }
}
