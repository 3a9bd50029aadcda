//! Blob storage over HTTP, as the official clients speak it.
//!
//! * `operation` says what a request is, `request` takes it apart, `authorize` finds out what it may do, `delegation` issues user delegation keys.
//! * `unserved` refuses requests that ask for more than is here.
//! * `containers`, `blobs`, `blocks`, `pages`, `leases`, `tags`, `copy` and `service_properties` carry it out: each is a call of the store. `batch` does
//!   so for each of many.
//! * `reply`, `http_error` and `xml` are the replies; every error has a code for clients.
//! * `checksums` verifies contents that come, and says so in replies.
//! * `body` bounds the memory for what is under way.
//! * `refused` counts and logs what is refused.
//! * [`BlobFaults`] let things go wrong on purpose, [`BlobFrontCounters`] say what passed through.

mod authorize;
mod batch;
mod blobs;
mod blocks;
mod body;
mod checksums;
mod containers;
mod copy;
mod counters;
mod delegation;
mod fault;
mod http_error;
mod leases;
mod metrics;
mod operation;
mod pages;
mod range;
mod refused;
mod reply;
mod request;
mod service_properties;
mod tags;
mod unserved;
mod xml;

use std::sync::Arc;
use std::time::Duration;

use access::storage::StorageAccountKey;
use bytes::Bytes;
use hyper::body::Body as _;
use hyper::{HeaderMap, Method};
use listen::AcceptFailures;
use listen::http::{Limits, RequestBody};
use units::ByteSize;

pub use counters::{BlobFrontCounterValues, BlobFrontCounters};
pub use fault::{BlobFault, BlobFaults};
pub(crate) use metrics::BlobMetrics;

use super::server::{self, Client, Service};
use crate::clock::ServiceClock;
use crate::front::listener::{Connection, Front, Gate, PROOF_PATIENCE, WhenFull};
use crate::identity::Identity;
use crate::namespace::SignaturePolicy;
use crate::profile::{Fate, ProfileSwitch, Traffic};
use crate::refusals::Refusals;
use authorize::Granted;
use blob_store::{BlobError, BlobStore, Container, Now};
use body::{Arrived, BodyMemory, ReplyBody};
use checksums::{Checksums, Expected, Md5, STRUCTURED};
use delegation::Delegations;
use http_error::HttpError;
use operation::{Operation, SOURCE};
use reply::Reply;
use request::Request;

/// The front end of a storage account.
#[derive(Debug)]
pub struct BlobFront {
    store: Arc<BlobStore>,
    key: StorageAccountKey,
    policy: SignaturePolicy,
    identity: Option<Arc<Identity>>,
    delegations: Delegations,
    bodies: BodyMemory,
    gate: Gate,
    faults: BlobFaults,
    counters: BlobFrontCounters,
    refusals: Refusals,
    /// Value of `WWW-Authenticate` for unauthenticated requests.
    challenge: String,
    clock: Arc<ServiceClock>,
}

/// What a front end is made of.
#[derive(Clone, Debug)]
pub struct BlobFrontOptions {
    /// The account's name and key.
    pub key: StorageAccountKey,
    /// Whether what clients present is verified.
    pub policy: SignaturePolicy,
    /// What verifies bearer tokens; without it none are accepted.
    pub identity: Option<Arc<Identity>>,
    /// The largest body of a request. Twice as much memory is there for all that are under way.
    pub body: ByteSize,
    /// How many clients may be connected at once. A further one gets the place of the oldest that has not been granted
    /// anything, or waits.
    pub maximum_connections: u64,
    /// Where failures to accept a connection are counted.
    pub accept_failures: Arc<AcceptFailures>,
    /// How the service is shaped.
    pub profile: Arc<ProfileSwitch>,
    /// What leases, dates and signatures go by.
    pub clock: Arc<ServiceClock>,
}

impl BlobFront {
    /// A front end for what is in `store`.
    #[must_use]
    pub fn new(store: Arc<BlobStore>, options: BlobFrontOptions) -> Arc<Self> {
        let faults = BlobFaults::new(Arc::clone(&options.profile));
        let address = options.identity.as_ref().and_then(|identity| identity.authorization_uri());
        let challenge = address.map_or_else(
            || "SharedKey".to_owned(),
            |address| format!("Bearer authorization_uri={address} resource_id={RESOURCE}"),
        );
        Arc::new(Self {
            store,
            key: options.key,
            policy: options.policy,
            identity: options.identity,
            delegations: Delegations::default(),
            bodies: BodyMemory::new(options.body),
            gate: Gate::new(options.maximum_connections, WhenFull::Wait, options.accept_failures)
                .shaped(options.profile, Traffic::Storage),
            faults,
            counters: BlobFrontCounters::default(),
            refusals: Refusals::default(),
            challenge,
            clock: options.clock,
        })
    }

    /// The account's name and key.
    #[must_use]
    pub const fn key(&self) -> &StorageAccountKey {
        &self.key
    }

    /// What it serves.
    #[must_use]
    pub const fn store(&self) -> &Arc<BlobStore> {
        &self.store
    }

    /// What goes wrong on purpose.
    #[must_use]
    pub const fn faults(&self) -> &BlobFaults {
        &self.faults
    }

    /// What passed through so far.
    #[must_use]
    pub fn counters(&self) -> BlobFrontCounterValues {
        self.counters.values(self.faults.injected(), self.gate.places().evicted())
    }

    async fn carry_out(
        &self,
        request: &Request,
        body: RequestBody,
        client: &Client<'_>,
    ) -> Result<Reply, HttpError> {
        let now = Now { time_of_day: self.clock.client_time(), lease_time: self.clock.now() };
        let identity = self.identity.as_deref();
        let granted = &Granted::to(
            request,
            &self.store,
            &self.key,
            (identity, &self.delegations),
            (self.policy, &self.clock),
        )?;
        client.prove();
        let operation = Operation::of(request)?;
        unserved::check(operation, request)?;
        if request.target.is_secondary && !operation.is_read() {
            return Err(HttpError::Secondary);
        }
        // What is not understood must not be taken for a content as it is.
        if !operation.takes_structured_bodies() && request.header(STRUCTURED).is_some() {
            return Err(HttpError::header(STRUCTURED));
        }
        if !operation.reads() {
            request.check_combination()?;
        }
        let answered = match operation {
            Operation::AccountInformation => Ok(reply::account_information()),
            Operation::ServiceProperties => self.service_properties(granted),
            Operation::SetServiceProperties => self.set_service_properties(body, granted).await,
            Operation::Statistics => self.statistics(request, granted, now),
            Operation::UserDelegationKey => self.user_delegation_key(request, body, granted, now).await,
            Operation::FindByTags => self.find_by_tags(request, granted),
            Operation::AccountBatch => self.batch(request, body, now, None).await,
            Operation::ContainerBatch => self.batch(request, body, now, Some(request.container()?)).await,
            Operation::ListContainers => self.list_containers(request, granted, now),
            Operation::CreateContainer => self.create_container(request, granted, now).await,
            Operation::ContainerProperties => self.container_properties(request, granted, now),
            Operation::ContainerAccess => self.container_access(request, granted, now),
            Operation::SetContainerAccess => self.set_container_access(request, body, granted, now).await,
            Operation::DeleteContainer => self.delete_container(request, granted, now).await,
            Operation::SetContainerMetadata => self.set_container_metadata(request, granted, now).await,
            Operation::LeaseContainer => self.lease_container(request, granted, now).await,
            Operation::ListBlobs => self.list_blobs(request, granted, now).await,
            Operation::PutBlob => self.put_blob(request, body, granted, now).await,
            Operation::PutBlobFromUrl => self.put_blob_from_url(request, granted, now).await,
            Operation::Copy | Operation::CopyFromUrl => self.copy(request, granted, now).await,
            Operation::AbortCopy => self.abort_copy(request, granted, now),
            Operation::Read => self.read(request, granted, now).await,
            Operation::Properties => self.properties(request, granted, now),
            Operation::SetMetadata => self.set_metadata(request, granted, now).await,
            Operation::SetProperties => self.set_properties(request, granted, now).await,
            Operation::SetTier => self.set_tier(request, granted, now).await,
            Operation::Tags => self.tags(request, granted, now),
            Operation::SetTags => self.set_tags(request, body, granted, now).await,
            Operation::Snapshot => self.create_snapshot(request, granted, now).await,
            Operation::Delete => self.delete(request, granted, now).await,
            Operation::PutBlock => self.put_block(request, body, granted, now).await,
            Operation::PutBlockFromUrl => self.put_block_from_url(request, granted, now).await,
            Operation::PutBlockList => self.put_block_list(request, body, granted, now).await,
            Operation::BlockList => self.block_list(request, granted, now).await,
            Operation::Append => self.append(request, body, granted, now).await,
            Operation::AppendFromUrl => self.append_from_url(request, granted, now).await,
            Operation::PutPage => self.put_page(request, body, granted, now).await,
            Operation::PutPageFromUrl => self.put_page_from_url(request, granted, now).await,
            Operation::PageRanges => self.page_ranges(request, granted, now).await,
            Operation::LeaseBlob => self.lease_blob(request, granted, now).await,
        };
        answered.map_err(|error| match error {
            // Of a source it says nothing.
            HttpError::Blob(BlobError::BlobNotFound) if request.header(SOURCE).is_none() => {
                request.conditions().map_or(error, |conditions| conditions.missing(operation.reads()).into())
            }
            error => error,
        })
    }

    /// Has the store do something: elsewhere, where that may wait for a disk or takes a while because of `bytes`.
    async fn run<T: Send + 'static>(
        &self,
        bytes: usize,
        work: impl FnOnce(&BlobStore) -> Result<T, BlobError> + Send + 'static,
    ) -> Result<T, HttpError> {
        if !self.store.is_on_disk() && bytes < LONG_WORK_BYTES {
            return Ok(work(&self.store)?);
        }
        let store = Arc::clone(&self.store);
        match tokio::task::spawn_blocking(move || work(&store)).await {
            Ok(done) => Ok(done?),
            Err(error) => {
                tracing::error!(%error, "an operation on a blob was interrupted");
                Err(HttpError::Internal)
            }
        }
    }

    /// The same, with one of its containers.
    async fn run_in<T: Send + 'static>(
        &self,
        container: &str,
        bytes: usize,
        work: impl FnOnce(&Container) -> Result<T, BlobError> + Send + 'static,
    ) -> Result<T, HttpError> {
        let container = container.to_owned();
        self.run(bytes, move |store| work(&*store.container(&container)?)).await
    }
}

impl BlobFront {
    /// Puts a content that has arrived into a container, once it is known to have the checksums that it should have. Gives
    /// those back with what `put` gives.
    async fn put_verified<T: Send + 'static>(
        &self,
        container: String,
        arrived: &Arrived<'_>,
        expected: Expected,
        md5: Md5,
        put: impl FnOnce(&Container, Bytes, &Checksums) -> Result<T, BlobError> + Send + 'static,
    ) -> Result<(T, Checksums), HttpError> {
        let (content, crc64) = (arrived.bytes.clone(), arrived.crc64);
        self.run(content.len(), move |store| {
            let checksums = match expected.verify(&content, crc64, md5) {
                Ok(checksums) => checksums,
                Err(error) => return Ok(Err(error)),
            };
            let done = put(&*store.container(&container)?, content, &checksums)?;
            Ok(Ok((done, checksums)))
        })
        .await?
    }
}

impl Front for BlobFront {
    fn gate(&self) -> &Gate {
        &self.gate
    }

    async fn serve_connection(&self, connection: Connection) {
        let _open = self.counters.opened();
        server::serve(self, connection, &LIMITS).await;
    }
}

impl Service for BlobFront {
    type Body = ReplyBody;

    /// The answer to a request, whatever becomes of it.
    async fn answer(&self, request: hyper::Request<RequestBody>, client: &Client<'_>) -> Reply {
        let request_id = reply::next_request_id();
        let (parts, body) = request.into_parts();
        let is_head = parts.method == Method::HEAD;
        let echoed = Echoed::of(&parts.headers);
        self.counters.received(body.size_hint().exact().unwrap_or_default());
        let request = Request::new(parts, client.peer);
        let container = request.as_ref().ok().and_then(|request| request.target.container.as_deref());
        let shaped = self.faults.shape(container);
        let is_served = shaped.fate == Fate::Succeeds && self.faults.pass().await;
        let answered = match &request {
            _ if !is_served => Err(HttpError::OnPurpose),
            Ok(request) => self.carry_out(request, body, client).await,
            Err(error) => Err(error.clone()),
        };
        self.faults.until_ready(&shaped).await;
        let mut reply = answered.unwrap_or_else(|error| {
            self.note_refusal(&error, request.as_ref().ok(), client);
            reply::refused(&error, &request_id, &self.challenge, !is_head)
        });
        let headers = reply.headers_mut();
        reply::set(headers, "x-ms-request-id", &request_id);
        echoed.add_to(headers);
        self.counters.answered(reply.status(), reply.body().size_hint().lower());
        reply
    }
}

/// What of a request stands in its reply as it is.
#[derive(Debug)]
struct Echoed(Vec<(hyper::header::HeaderName, hyper::header::HeaderValue)>);

impl Echoed {
    fn of(headers: &HeaderMap) -> Self {
        let named = ["x-ms-version", "x-ms-client-request-id"];
        Self(
            named
                .into_iter()
                .filter_map(|name| {
                    let value = headers.get(name)?.clone();
                    Some((hyper::header::HeaderName::from_static(name), value))
                })
                .collect(),
        )
    }

    fn add_to(self, headers: &mut HeaderMap) {
        headers.extend(self.0);
    }
}

/// What a connection may take. It may rest for longer than clients keep connections that they don't use.
const LIMITS: Limits = Limits {
    head_bytes: 64 * 1024,
    buffer_bytes: 408 * 1024,
    head: Duration::from_secs(10),
    silence: Duration::from_secs(300),
    stall: Duration::from_secs(60),
    unproven: PROOF_PATIENCE,
    keep_alive: true,
};

/// The resource of tokens for storage.
const RESOURCE: &str = "https://storage.azure.com";

/// From here on a checksum takes so long that other connections would notice.
const LONG_WORK_BYTES: usize = 256 * 1024;
