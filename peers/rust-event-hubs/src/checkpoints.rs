//! Checkpoints and ownership in a blob container, in the layout of the official SDKs.
//!
//! The SDK's own store is not compatible with this version of its client (it is for the one before, and the two can't
//! share a program), so these are the same requests written once more.
//!
//! | what | request |
//! |---|---|
//! | claim, never claimed before | `PUT blob`, `If-None-Match: *` |
//! | claim or renew | `PUT blob?comp=metadata`, `If-Match: <etag>` |
//! | checkpoint | `PUT blob?comp=metadata`; where there is none yet, `PUT blob` |
//! | list | `GET container?restype=container&comp=list&prefix=…&include=metadata`, page by page |

use azure_core::Error;
use azure_core::error::ErrorKind;
use azure_core::http::Etag;
use azure_core::time::{OffsetDateTime, parse_rfc7231};
use azure_messaging_eventhubs::CheckpointStore;
use azure_messaging_eventhubs::models::{Checkpoint, Ownership};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use reqwest::header::{ETAG, HeaderMap, IF_MATCH, IF_NONE_MATCH, LAST_MODIFIED};
use reqwest::{Client, Method, Response, StatusCode};

use crate::listing::{self, Blob};
use crate::settings::Container;
use crate::storage_access::Account;

/// The store.
#[derive(Debug)]
pub struct BlobCheckpointStore {
    client: Client,
    /// Without a slash at its end.
    container: String,
    /// The query that says who we are.
    signature: String,
}

impl BlobCheckpointStore {
    /// The store in a container, which is made if it is not there.
    pub async fn open(container: &Container) -> azure_core::Result<Self> {
        let account: Account =
            container.connection_string.parse().map_err(|reason: String| failed(reason))?;
        let store = Self {
            client: Client::new(),
            container: format!("{}/{}", account.endpoint, container.name),
            signature: account.signature(OffsetDateTime::now_utc()),
        };
        let url = format!("{}?restype=container&{}", store.container, store.signature);
        let response = store.send(Method::PUT, url, HeaderMap::new()).await?;
        match response.status() {
            StatusCode::CREATED | StatusCode::CONFLICT => Ok(store),
            _ => Err(refused(response).await),
        }
    }

    fn blob(&self, name: &str, component: &str) -> String {
        let name = utf8_percent_encode(name, IN_A_PATH);
        format!("{}/{name}?{component}{}", self.container, self.signature)
    }

    async fn send(&self, method: Method, url: String, headers: HeaderMap) -> azure_core::Result<Response> {
        let request = self.client.request(method, url).header("x-ms-version", VERSION).headers(headers);
        request.header("content-length", "0").send().await.map_err(|error| Error::new(ErrorKind::Io, error))
    }

    /// Makes an empty blob that has nothing but metadata.
    async fn put(&self, name: &str, mut headers: HeaderMap) -> azure_core::Result<Response> {
        headers.insert("x-ms-blob-type", "BlockBlob".parse().expect("it is ASCII"));
        self.send(Method::PUT, self.blob(name, ""), headers).await
    }

    async fn set_metadata(&self, name: &str, headers: HeaderMap) -> azure_core::Result<Response> {
        self.send(Method::PUT, self.blob(name, "comp=metadata&"), headers).await
    }

    async fn list(&self, prefix: &str) -> azure_core::Result<Vec<Blob>> {
        let mut blobs = Vec::new();
        let mut marker = String::new();
        loop {
            let url = format!(
                "{}?restype=container&comp=list&include=metadata&prefix={}&marker={}&{}",
                self.container,
                utf8_percent_encode(prefix, NON_ALPHANUMERIC),
                utf8_percent_encode(&marker, NON_ALPHANUMERIC),
                self.signature
            );
            let response = self.send(Method::GET, url, HeaderMap::new()).await?;
            if response.status() != StatusCode::OK {
                return Err(refused(response).await);
            }
            let text = response.text().await.map_err(|error| Error::new(ErrorKind::Io, error))?;
            let page = listing::parse(&text).map_err(failed)?;
            blobs.extend(page.blobs);
            match page.next {
                Some(next) => marker = next,
                None => return Ok(blobs),
            }
        }
    }

    /// The ownership as it is kept now, or `None` if someone else was faster.
    async fn claim(&self, ownership: &Ownership) -> azure_core::Result<Option<Ownership>> {
        let name = Ownership::get_ownership_name(
            &ownership.fully_qualified_namespace,
            &ownership.event_hub_name,
            &ownership.consumer_group,
            &ownership.partition_id,
        )?;
        let owner = ownership.owner_id.as_deref().unwrap_or_default();
        let mut headers = metadata([("ownerid", owner)])?;
        let response = match &ownership.etag {
            Some(etag) => {
                headers.insert(IF_MATCH, header(etag.as_ref())?);
                self.set_metadata(&name, headers).await?
            }
            None => {
                headers.insert(IF_NONE_MATCH, header("*")?);
                self.put(&name, headers).await?
            }
        };
        match response.status() {
            StatusCode::OK | StatusCode::CREATED => {
                let text = |name| response.headers().get(name).and_then(|value| value.to_str().ok());
                Ok(Some(Ownership {
                    etag: text(ETAG).map(|etag| Etag::from(etag.to_owned())),
                    last_modified_time: text(LAST_MODIFIED).map(parse_rfc7231).transpose()?,
                    ..ownership.clone()
                }))
            }
            StatusCode::PRECONDITION_FAILED | StatusCode::CONFLICT => Ok(None),
            _ => Err(refused(response).await),
        }
    }
}

#[async_trait::async_trait]
impl CheckpointStore for BlobCheckpointStore {
    async fn claim_ownership(&self, ownerships: &[Ownership]) -> azure_core::Result<Vec<Ownership>> {
        let mut claimed = Vec::with_capacity(ownerships.len());
        for ownership in ownerships {
            claimed.extend(self.claim(ownership).await?);
        }
        Ok(claimed)
    }

    async fn list_checkpoints(
        &self,
        namespace: &str,
        event_hub_name: &str,
        consumer_group: &str,
    ) -> azure_core::Result<Vec<Checkpoint>> {
        let prefix = Checkpoint::get_checkpoint_blob_prefix_name(namespace, event_hub_name, consumer_group)?;
        let checkpoint = |blob: Blob| Checkpoint {
            fully_qualified_namespace: namespace.to_owned(),
            event_hub_name: event_hub_name.to_owned(),
            consumer_group: consumer_group.to_owned(),
            partition_id: blob.name[prefix.len()..].to_owned(),
            offset: blob.metadata.get("offset").filter(|offset| !offset.is_empty()).cloned(),
            sequence_number: blob.metadata.get("sequencenumber").and_then(|number| number.parse().ok()),
        };
        let blobs = self.list(&prefix).await?.into_iter();
        Ok(blobs.filter(|blob| blob.name.starts_with(&prefix)).map(checkpoint).collect())
    }

    async fn list_ownerships(
        &self,
        namespace: &str,
        event_hub_name: &str,
        consumer_group: &str,
    ) -> azure_core::Result<Vec<Ownership>> {
        let prefix = Ownership::get_ownership_prefix_name(namespace, event_hub_name, consumer_group)?;
        let ownership = |blob: Blob| {
            Ok(Ownership {
                fully_qualified_namespace: namespace.to_owned(),
                event_hub_name: event_hub_name.to_owned(),
                consumer_group: consumer_group.to_owned(),
                partition_id: blob.name[prefix.len()..].to_owned(),
                owner_id: blob.metadata.get("ownerid").filter(|owner| !owner.is_empty()).cloned(),
                etag: Some(Etag::from(blob.etag)),
                last_modified_time: Some(parse_rfc7231(&blob.last_modified)?),
            })
        };
        let blobs = self.list(&prefix).await?.into_iter();
        blobs.filter(|blob| blob.name.starts_with(&prefix)).map(ownership).collect()
    }

    async fn update_checkpoint(&self, checkpoint: Checkpoint) -> azure_core::Result<()> {
        let name = Checkpoint::get_checkpoint_blob_name(
            &checkpoint.fully_qualified_namespace,
            &checkpoint.event_hub_name,
            &checkpoint.consumer_group,
            &checkpoint.partition_id,
        )?;
        let sequence_number = checkpoint.sequence_number.map(|number| number.to_string()).unwrap_or_default();
        let offset = checkpoint.offset.unwrap_or_default();
        let headers = metadata([("sequencenumber", &sequence_number), ("offset", &offset)])?;
        let mut response = self.set_metadata(&name, headers.clone()).await?;
        if response.status() == StatusCode::NOT_FOUND {
            response = self.put(&name, headers).await?;
        }
        match response.status() {
            StatusCode::OK | StatusCode::CREATED => Ok(()),
            _ => Err(refused(response).await),
        }
    }
}

fn metadata<const N: usize>(entries: [(&'static str, &str); N]) -> azure_core::Result<HeaderMap> {
    let mut headers = HeaderMap::new();
    for (name, value) in entries {
        let name = format!("x-ms-meta-{name}");
        headers.insert(name.parse::<reqwest::header::HeaderName>().expect("it is ASCII"), header(value)?);
    }
    Ok(headers)
}

fn header(text: &str) -> azure_core::Result<reqwest::header::HeaderValue> {
    text.parse().map_err(|error| Error::new(ErrorKind::DataConversion, error))
}

fn failed(reason: impl Into<String>) -> Error {
    Error::with_message(ErrorKind::Other, reason.into())
}

async fn refused(response: Response) -> Error {
    let status = response.status();
    let code =
        response.headers().get("x-ms-error-code").and_then(|code| code.to_str().ok()).unwrap_or("no code");
    failed(format!("the blob service answered {status}, {code}"))
}

/// What a blob's name keeps as it is in a path.
const IN_A_PATH: &AsciiSet =
    &NON_ALPHANUMERIC.remove(b'/').remove(b'-').remove(b'_').remove(b'.').remove(b'~');

const VERSION: &str = "2024-11-04";
