//! Which operation a request is.

use hyper::Method;

use super::http_error::HttpError;
use super::request::Request;

/// An operation of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operation {
    AccountInformation,
    ListContainers,
    CreateContainer,
    ContainerProperties,
    DeleteContainer,
    SetContainerMetadata,
    LeaseContainer,
    ListBlobs,
    PutBlob,
    Read,
    Properties,
    SetMetadata,
    SetProperties,
    Delete,
    PutBlock,
    PutBlockList,
    BlockList,
    Append,
    LeaseBlob,
}

impl Operation {
    /// The operation of a request.
    ///
    /// # Errors
    /// It is none that is here.
    pub(super) fn of(request: &Request) -> Result<Self, HttpError> {
        let target = &request.target;
        let parameter = |name| request.parameter(name).map(str::to_ascii_lowercase);
        let component = parameter("comp");
        let component = component.as_deref();
        let is_read = matches!(*request.method(), Method::GET | Method::HEAD);
        // Whatever the path is of, the account answers.
        let is_of_account = parameter("restype").as_deref() == Some("account");
        if is_of_account && component == Some("properties") && is_read {
            return Ok(Self::AccountInformation);
        }
        let operation = match (&target.container, &target.blob) {
            // As a client has it that knows no name of the container.
            (None, _) if parameter("restype").as_deref() == Some("container") => {
                return Err(HttpError::Parameter { name: "restype" });
            }
            (None, _) => match (request.method(), component) {
                (&Method::GET, Some("list")) => Some(Self::ListContainers),
                _ => None,
            },
            (Some(_), None) => {
                if parameter("restype").as_deref() != Some("container") {
                    return Err(HttpError::NotImplemented);
                }
                match (request.method(), component) {
                    (&Method::PUT, None) => Some(Self::CreateContainer),
                    (&Method::DELETE, None) => Some(Self::DeleteContainer),
                    (&Method::PUT, Some("metadata")) => Some(Self::SetContainerMetadata),
                    (&Method::PUT, Some("lease")) => Some(Self::LeaseContainer),
                    (&Method::GET, Some("list")) => Some(Self::ListBlobs),
                    (_, None | Some("metadata")) if is_read => Some(Self::ContainerProperties),
                    _ => None,
                }
            }
            (Some(_), Some(_)) if parameter("restype").is_some() => None,
            (Some(_), Some(_)) => match (request.method(), component) {
                (&Method::PUT, None) => Some(Self::PutBlob),
                (&Method::PUT, Some("metadata")) => Some(Self::SetMetadata),
                (&Method::PUT, Some("properties")) => Some(Self::SetProperties),
                (&Method::PUT, Some("block")) => Some(Self::PutBlock),
                (&Method::PUT, Some("blocklist")) => Some(Self::PutBlockList),
                (&Method::PUT, Some("appendblock")) => Some(Self::Append),
                (&Method::PUT, Some("lease")) => Some(Self::LeaseBlob),
                (&Method::GET, Some("blocklist")) => Some(Self::BlockList),
                (&Method::GET, None) => Some(Self::Read),
                (&Method::HEAD, None) => Some(Self::Properties),
                (_, Some("metadata")) if is_read => Some(Self::Properties),
                (&Method::DELETE, None) => Some(Self::Delete),
                _ => None,
            },
        };
        operation.ok_or(HttpError::NotImplemented)
    }

    /// The name of the operation in Azure's storage logs.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::AccountInformation => "GetAccountInformation",
            Self::ListContainers => "ListContainers",
            Self::CreateContainer => "CreateContainer",
            Self::ContainerProperties => "GetContainerProperties",
            Self::DeleteContainer => "DeleteContainer",
            Self::SetContainerMetadata => "SetContainerMetadata",
            Self::LeaseContainer => "LeaseContainer",
            Self::ListBlobs => "ListBlobs",
            Self::PutBlob => "PutBlob",
            Self::Read => "GetBlob",
            Self::Properties => "GetBlobProperties",
            Self::SetMetadata => "SetBlobMetadata",
            Self::SetProperties => "SetBlobProperties",
            Self::Delete => "DeleteBlob",
            Self::PutBlock => "PutBlock",
            Self::PutBlockList => "PutBlockList",
            Self::BlockList => "GetBlockList",
            Self::Append => "AppendBlock",
            Self::LeaseBlob => "LeaseBlob",
        }
    }

    /// Whether contents of this operation may come or go as structured messages.
    pub(super) const fn takes_structured_bodies(self) -> bool {
        matches!(self, Self::PutBlob | Self::PutBlock | Self::Append | Self::Read)
    }
}
