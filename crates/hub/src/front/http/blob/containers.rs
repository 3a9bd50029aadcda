//! Containers, and what is in them.

use access::TransportSecurity;
use access::storage::{StorageDenial, StorageLevel, StorageRight};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hyper::{HeaderMap, StatusCode};
use listen::http::RequestBody;
use units::ByteSize;

use super::BlobFront;
use super::authorize::Granted;
use super::http_error::HttpError;
use super::operation::PUBLIC_ACCESS;
use super::reply::{self, Reply};
use super::request::{Request, SECONDARY};
use super::xml::{self, BlobPage, ContainerPage};
use blob_store::{ContainerAccess, ListRequest, ListStart, Now, PublicAccess, SnapshotTime};

impl BlobFront {
    pub(super) async fn create_container(
        &self,
        request: &Request,
        granted: &Granted,
        now: Now,
    ) -> Result<Reply, HttpError> {
        granted.need(StorageLevel::Container, &[StorageRight::Create, StorageRight::Write])?;
        let name = request.container()?.to_owned();
        let (metadata, public) = (request.metadata()?, wanted_access(request)?);
        if public.is_some() {
            need_owner(granted)?;
        }
        let container =
            self.run(0, move |store| store.create_container_for(&name, metadata, public, now)).await?;
        let mut reply = reply::empty(StatusCode::CREATED);
        let version = container.properties().version();
        reply::set_version(reply.headers_mut(), version);
        Ok(reply)
    }

    pub(super) fn container_properties(
        &self,
        request: &Request,
        granted: &Granted,
        now: Now,
    ) -> Result<Reply, HttpError> {
        granted.need(StorageLevel::Container, &[StorageRight::Read])?;
        let container = self.store.container(request.container()?)?.properties();
        container.check_read(&request.conditions()?, now)?;
        let mut reply = reply::empty(StatusCode::OK);
        let headers = reply.headers_mut();
        reply::set_version(headers, container.version());
        reply::set_lease(headers, container.lease(), now);
        set_public_access(headers, container.access().public);
        reply::set(headers, "x-ms-has-immutability-policy", "false");
        reply::set(headers, "x-ms-has-legal-hold", "false");
        reply::set_metadata(headers, container.metadata());
        reply::spell_metadata(&mut reply, container.metadata());
        Ok(reply)
    }

    pub(super) async fn delete_container(
        &self,
        request: &Request,
        granted: &Granted,
        now: Now,
    ) -> Result<Reply, HttpError> {
        granted.need(StorageLevel::Container, &[StorageRight::Delete])?;
        let name = request.container()?.to_owned();
        let conditions = request.conditions()?;
        self.run(0, move |store| store.delete_container(&name, &conditions, now)).await?;
        Ok(reply::empty(StatusCode::ACCEPTED))
    }

    pub(super) async fn set_container_metadata(
        &self,
        request: &Request,
        granted: &Granted,
        now: Now,
    ) -> Result<Reply, HttpError> {
        granted.need(StorageLevel::Container, &[StorageRight::Write])?;
        let container = request.container()?;
        let (metadata, conditions) = (request.metadata()?, request.conditions()?);
        let version = self
            .run_in(container, 0, move |container| {
                container.set_container_metadata(metadata, &conditions, now)
            })
            .await?;
        let mut reply = reply::empty(StatusCode::OK);
        reply::set_version(reply.headers_mut(), version);
        Ok(reply)
    }

    pub(super) fn container_access(
        &self,
        request: &Request,
        granted: &Granted,
        now: Now,
    ) -> Result<Reply, HttpError> {
        need_owner(granted)?;
        let container = self.store.container(request.container()?)?.properties();
        container.check_read(&request.conditions()?, now)?;
        let mut reply = reply::document(xml::policies(&container.access().policies));
        let headers = reply.headers_mut();
        reply::set_version(headers, container.version());
        set_public_access(headers, container.access().public);
        Ok(reply)
    }

    pub(super) async fn set_container_access(
        &self,
        request: &Request,
        body: RequestBody,
        granted: &Granted,
        now: Now,
    ) -> Result<Reply, HttpError> {
        need_owner(granted)?;
        let container = request.container()?.to_owned();
        let (public, conditions) = (wanted_access(request)?, request.conditions()?);
        let arrived = self.bodies.collect(body, ByteSize::from_kibibytes(64), None).await?;
        let policies = match arrived.bytes.is_empty() {
            true => Vec::new(),
            false => xml::read_policies(&arrived.bytes)
                .ok_or(HttpError::Xml { expected: "a list of access policies" })?,
        };
        let access = ContainerAccess { public, policies };
        let version = self
            .run_in(&container, 0, move |container| container.set_access(access, &conditions, now))
            .await?;
        let mut reply = reply::empty(StatusCode::OK);
        reply::set_version(reply.headers_mut(), version);
        Ok(reply)
    }

    pub(super) fn list_containers(
        &self,
        request: &Request,
        granted: &Granted,
        now: Now,
    ) -> Result<Reply, HttpError> {
        granted.need(StorageLevel::Service, &[StorageRight::List])?;
        let prefix = request.parameter("prefix").unwrap_or_default();
        let maximum = maximum(request)?;
        let marker = request.parameter("marker").unwrap_or_default();
        let from = unmarked(marker)?;
        let mut containers = self.store.containers(prefix);
        containers.retain(|container| from.as_deref().is_none_or(|from| container.name() >= from));
        let next = containers.get(maximum).map(|container| marked(container.name()));
        containers.truncate(maximum);
        let page = ContainerPage {
            prefix,
            marker,
            maximum,
            next: next.as_deref().unwrap_or_default(),
            with_metadata: Included::of(request)?.metadata,
            now: now.lease_time,
        };
        let endpoint = self.endpoint(request);
        Ok(reply::document(xml::containers(&endpoint, &page, &containers)))
    }

    pub(super) async fn list_blobs(
        &self,
        request: &Request,
        granted: &Granted,
        now: Now,
    ) -> Result<Reply, HttpError> {
        granted.need(StorageLevel::Container, &[StorageRight::List])?;
        let name = request.container()?.to_owned();
        if name == LOGS && self.store.container(LOGS).is_err() {
            // In the service it is there as soon as something is logged. Whoever looks for logs finds none.
            let (prefix, maximum) = (request.parameter("prefix").unwrap_or_default(), maximum(request)?);
            return Ok(reply::document(xml::no_blobs(&self.endpoint(request), LOGS, prefix, maximum)));
        }
        let own = |parameter| request.parameter(parameter).map(str::to_owned);
        let (marker, prefix) = (own("marker").unwrap_or_default(), own("prefix").unwrap_or_default());
        let (delimiter, before) = (own("delimiter"), own("endbefore"));
        // The later of the two, since the marker is from a page of the same listing.
        let marked_start = start_of(&marker)?;
        let from = marked_start.max(own("startfrom").map(|name| (name, ListStart::FIRST)));
        let maximum = maximum(request)?;
        let included = Included::of(request)?;
        let endpoint = self.endpoint(request);
        let document = self.run_in(request.container()?, WHOLE_PAGE, move |container| {
            let listed = ListRequest {
                prefix: &prefix,
                delimiter: delimiter.as_deref(),
                from: from.as_ref().map(|(name, start)| (name.as_str(), *start)),
                before: before.as_deref(),
                with_snapshots: included.snapshots,
                with_uncommitted: included.uncommitted,
                maximum,
                // As text of a document they may become several times as long.
                maximum_bytes: WHOLE_PAGE as u64 / 4,
            };
            let listing = container.list(&listed);
            let next = listing.next.as_ref().map(marker_of);
            let page = BlobPage {
                endpoint: &endpoint,
                container: &name,
                marker: &marker,
                next: next.as_deref().unwrap_or_default(),
                with_metadata: included.metadata,
                with_copies: included.copies,
                with_tags: included.tags,
                now: now.lease_time,
            };
            Ok(xml::blobs(&page, &listed, &listing))
        });
        Ok(reply::document(document.await?))
    }

    /// The address of the account, as the client knows it.
    pub(super) fn endpoint(&self, request: &Request) -> String {
        let host = request.host().unwrap_or("localhost");
        let scheme = match request.peer.security {
            TransportSecurity::Tls => "https",
            TransportSecurity::Plain => "http",
        };
        match request.target.is_by_host {
            true => format!("{scheme}://{host}"),
            false => {
                let secondary = if request.target.is_secondary { SECONDARY } else { "" };
                format!("{scheme}://{host}/{}{secondary}", self.key.account())
            }
        }
    }
}

fn set_public_access(headers: &mut HeaderMap, access: Option<PublicAccess>) {
    if let Some(access) = access {
        reply::set(headers, PUBLIC_ACCESS, xml::access_name(access));
    }
}

/// Access to a container is set and read by the owner of the account alone.
fn need_owner(granted: &Granted) -> Result<(), HttpError> {
    match granted.is_owner() {
        true => Ok(()),
        false => Err(HttpError::Denied(StorageDenial::Operation)),
    }
}

/// Returns the public access that a request asks for.
fn wanted_access(request: &Request) -> Result<Option<PublicAccess>, HttpError> {
    match request.header(PUBLIC_ACCESS).map(str::to_ascii_lowercase).as_deref() {
        None | Some("") => Ok(None),
        Some("blob") => Ok(Some(PublicAccess::Blob)),
        Some("container") => Ok(Some(PublicAccess::Container)),
        Some(_) => Err(HttpError::header(PUBLIC_ACCESS)),
    }
}

/// Bytes of a page of a listing: thousands of blobs with their metadata.
const WHOLE_PAGE: usize = 16 * 1024 * 1024;

/// Optional parts of a listing.
#[derive(Clone, Copy, Debug, Default)]
struct Included {
    metadata: bool,
    copies: bool,
    tags: bool,
    snapshots: bool,
    uncommitted: bool,
}

impl Included {
    /// Reads the optional parts that a request asks for.
    ///
    /// # Errors
    /// Something that is not here, or that is not known.
    fn of(request: &Request) -> Result<Self, HttpError> {
        let name = "include";
        let mut included = Self::default();
        let words = request.parameter(name).unwrap_or_default().split(',');
        for word in words.map(str::trim).filter(|word| !word.is_empty()) {
            match word.to_ascii_lowercase().as_str() {
                "metadata" => included.metadata = true,
                "copy" => included.copies = true,
                "tags" => included.tags = true,
                "snapshots" => included.snapshots = true,
                "uncommittedblobs" => included.uncommitted = true,
                // There are none of these, so a listing with them is the same.
                "versions"
                | "deleted"
                | "deletedwithversions"
                | "legalhold"
                | "immutabilitypolicy"
                | "system" => {}
                "permissions" => {
                    return Err(HttpError::UnservedParameter { name: format!("{name}={word}") });
                }
                _ => return Err(HttpError::Parameter { name }),
            }
        }
        Ok(included)
    }
}

pub(super) fn maximum(request: &Request) -> Result<usize, HttpError> {
    let name = "maxresults";
    match request.parameter(name) {
        None => Ok(PAGE),
        Some(text) => match text.parse::<u32>() {
            Ok(number) if number > 0 => Ok((number as usize).min(PAGE)),
            _ => Err(HttpError::Parameter { name }),
        },
    }
}

/// The marker that stands for a name. It is not the name, since that may have characters which no document can have.
pub(super) fn marked(name: &str) -> String {
    URL_SAFE_NO_PAD.encode(name)
}

pub(super) fn unmarked(marker: &str) -> Result<Option<String>, HttpError> {
    if marker.is_empty() {
        return Ok(None);
    }
    URL_SAFE_NO_PAD
        .decode(marker)
        .ok()
        .and_then(|bytes| String::from_utf8(bytes).ok())
        .map(Some)
        .ok_or(HttpError::Parameter { name: "marker" })
}

/// The container in which the service logs requests.
const LOGS: &str = "$logs";

/// The marker that stands for a start of a listing: a name, and before it the time of a snapshot, if there is one.
fn marker_of((name, start): &(String, ListStart)) -> String {
    match start {
        ListStart::Blob => marked(&format!("/{name}")),
        ListStart::Snapshot(time) => marked(&format!("{time}/{name}")),
    }
}

fn start_of(marker: &str) -> Result<Option<(String, ListStart)>, HttpError> {
    let malformed = || HttpError::Parameter { name: "marker" };
    let Some(text) = unmarked(marker)? else {
        return Ok(None);
    };
    let (time, name) = text.split_once('/').ok_or_else(malformed)?;
    let start = match time {
        "" => ListStart::Blob,
        time => ListStart::Snapshot(SnapshotTime::parse(time).ok_or_else(malformed)?),
    };
    Ok(Some((name.to_owned(), start)))
}

/// Entries of a page, at most and where nothing is said.
const PAGE: usize = 5000;
