//! The task of one connection.
//!
//! ```text
//!  socket ─ input ─ frame ─ request ─┬─ answered at once ──────────────────────┬─ output ─ socket
//!                                    ├─ produced: waits for its commit ────────┤
//!                                    └─ to fetch: waits for events, all behind it waits as well
//! ```
//!
//! A request that can't be read, or is none that is answered, closes the connection: the protocol has no other answer.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::{Duration, SystemTime};

use access::TransportSecurity;
use amqp_tokio::Stream;
use bytes::{Buf as _, BytesMut};
use kafka::fetch::FetchRequest;
use kafka::frame::{self, FrameError, RequestHeader, SIZE_LENGTH};
use kafka::messages::list_offsets::ListOffsetsRequest;
use kafka::messages::metadata::{Broker, MetadataRequest, TopicMetadata};
use kafka::messages::{api_versions, cluster, list_offsets, metadata, sasl};
use kafka::produce::{self, ProduceRequest};
use kafka::read::Reader;
use kafka::{ApiKey, ErrorCode, Malformed};
use listen::Place;
use partition_log::Subscriber;
use partition_log::disk::{CommitNumber, CommitState, CommitWatch};
use tokio::io::AsyncReadExt as _;
use tokio::sync::watch;
use tokio::time::Instant;

use super::admin::AdminRequests;
use super::fetch::Fetch;
use super::fetch_sessions::FetchMemory;
use super::group_requests::{GroupRequests, Membership, Waiting};
use super::kept_answer::KeptAnswer;
use super::offsets;
use super::output::Output;
use super::partition_requests::PartitionRequests;
use super::produce::Outcomes;
use super::requests::{SUPPORTED, is_open, supported};
use super::session::{MECHANISMS, Session, State};
use super::shaping::{self, Shaping};
use super::topics;
use super::transaction_requests::TransactionRequests;
use super::{BROKER, KafkaFront};
use crate::front::listener::{self, PROOF_PATIENCE};
use crate::profile::Shaper;

/// One connection.
#[derive(Debug)]
pub(super) struct ConnectionTask<'f> {
    front: &'f KafkaFront,
    stream: Stream,
    peer: SocketAddr,
    /// Where the client found us, which is where it finds the one broker.
    local: SocketAddr,
    security: TransportSecurity,
    place: Place,
    /// What the service profile does to it.
    shaper: Option<Shaper>,
    stop: watch::Receiver<bool>,
    input: BytesMut,
    output: Output,
    session: Session,
    /// When the client must have said who it is.
    proof_by: Instant,
    /// Answers that wait for commits, in the order of their requests.
    produced: VecDeque<Produced>,
    commits: Option<CommitWatch>,
    fetch: Option<Fetch>,
    fetch_memory: FetchMemory<'f>,
    membership: Option<Membership>,
    kept: Option<KeptAnswer>,
    subscriber: Arc<Subscriber>,
    /// What of the request that is arriving is counted as large.
    large: Large<'f>,
}

/// An answer that waits for a commit.
#[derive(Debug)]
struct Produced {
    version: i16,
    correlation_id: i32,
    partitions: Vec<(String, i32)>,
    outcomes: Outcomes,
}

/// Why a connection ends before the client ends it.
#[derive(Debug, thiserror::Error)]
enum Ended {
    #[error("{0}")]
    Frame(#[from] FrameError),
    #[error("{0}")]
    Malformed(#[from] Malformed),
    #[error("request {api_key} in version {version} is not supported")]
    Unsupported { api_key: i16, version: i16 },
    #[error("a request before the client has said who it is")]
    Unproven,
    #[error("the client has not said who it is in time")]
    Overdue,
    #[error(
        "no memory is left for requests of this size; all clients together may have {LARGE_TOTAL} bytes under way"
    )]
    NoMemory,
    #[error("{0}")]
    Io(#[from] std::io::Error),
    /// As it should be.
    #[error("closed")]
    Closed,
    #[error("the service stops")]
    Stopped,
}

/// What a request does to those behind it.
#[derive(Debug, PartialEq, Eq)]
enum Turn {
    /// The next one may follow.
    Next,
    /// It has to wait: this one can't be done yet, and stays in the input.
    NotYet,
}

impl<'f> ConnectionTask<'f> {
    pub(super) fn new(front: &'f KafkaFront, connection: listener::Connection) -> Self {
        let listener::Connection { stream, security, peer, local, place, shaper, stop, .. } = connection;
        Self {
            front,
            stream,
            peer,
            local,
            security,
            place,
            shaper,
            stop,
            input: BytesMut::with_capacity(FIRST_CAPACITY),
            output: Output::default(),
            session: Session::new(&front.namespace),
            proof_by: Instant::now() + PROOF_PATIENCE,
            produced: VecDeque::new(),
            commits: front.namespace.watch_commits(),
            fetch: None,
            fetch_memory: FetchMemory::new(&front.counters.fetch_sessions),
            membership: None,
            kept: None,
            subscriber: Subscriber::new(),
            large: Large { total: &front.counters.large_bytes, held: 0 },
        }
    }

    /// Serves the connection until it ends.
    pub(super) async fn run(mut self) {
        let ended = loop {
            if let Err(ended) = self.turn().await {
                break ended;
            }
        };
        let ended = match ended {
            Ended::Stopped => self.say_goodbye().await.err().unwrap_or(Ended::Closed),
            ended => ended,
        };
        match ended {
            Ended::Closed | Ended::Stopped => {}
            Ended::Io(error) => tracing::debug!(peer = %self.peer, %error, "a Kafka connection broke"),
            ended => {
                self.front.counters.malformed.fetch_add(1, Ordering::Relaxed);
                tracing::debug!(peer = %self.peer, "a Kafka connection was closed: {ended}");
            }
        }
    }

    /// Does all that can be done at once, writes the answers, and waits for something more.
    async fn turn(&mut self) -> Result<(), Ended> {
        self.answer_produced();
        self.answer_fetch();
        self.answer_member();
        self.answer_kept();
        self.take_requests().await?;
        // More may have arrived than was answered so far.
        let goes_on = self.output.length() >= OUTPUT_MAX;
        self.flush().await?;
        match goes_on {
            true => Ok(()),
            false => self.wait().await,
        }
    }

    async fn flush(&mut self) -> Result<(), Ended> {
        if self.output.is_empty() {
            return Ok(());
        }
        let mut stop = self.stop.clone();
        tokio::select! {
            written = self.output.write_to(&mut self.stream) => Ok(written?),
            () = stopped_for_good(&mut stop) => Err(Ended::Closed),
        }
    }

    /// The service stops: what was produced and is about to be committed is still answered.
    async fn say_goodbye(&mut self) -> Result<(), Ended> {
        let answered = async {
            while !self.produced.is_empty() {
                let commits = &mut self.commits;
                std::future::poll_fn(|cx| poll_commits(commits.as_mut(), cx)).await;
                self.answer_produced();
            }
            self.output.write_to(&mut self.stream).await
        };
        match tokio::time::timeout(FAREWELL, answered).await {
            Ok(written) => Ok(written?),
            // What is not answered will be sent again.
            Err(_late) => Ok(()),
        }
    }

    /// Answers what was produced and is committed by now.
    fn answer_produced(&mut self) {
        while let Some(first) = self.produced.front() {
            let commits = self.commits.as_ref();
            let state = commits.map(|commits| commits.state_of(first.outcomes.commit()));
            if state == Some(CommitState::Waiting) {
                return;
            }
            let partitions: Vec<_> =
                first.partitions.iter().map(|(topic, index)| (&**topic, *index)).collect();
            let results = first.outcomes.results(&partitions, commits);
            self.output.answer(ApiKey::Produce, first.version, first.correlation_id, |writer| {
                produce::write_response(writer, first.version, &results, 0);
            });
            self.produced.pop_front();
        }
    }

    fn answer_fetch(&mut self) {
        if let Some(mut fetch) = self.fetch.take() {
            match fetch.is_ready(&self.subscriber) {
                true => {
                    let (events, bytes) = fetch.answer(&mut self.output, &mut self.fetch_memory);
                    if let Some(shaper) = &self.shaper {
                        shaper.delivered(events, bytes);
                    }
                }
                false => self.fetch = Some(fetch),
            }
        }
    }

    fn answer_member(&mut self) {
        if let Some(mut membership) = self.membership.take() {
            match membership.is_ready() {
                true => membership.answer(&mut self.output),
                false => self.membership = Some(membership),
            }
        }
    }

    fn answer_kept(&mut self) {
        if let Some(mut kept) = self.kept.take() {
            match kept.is_ready(self.commits.as_ref()) {
                true => kept.answer(&mut self.output),
                false => self.kept = Some(kept),
            }
        }
    }

    /// Does the requests that have arrived, one after the other.
    async fn take_requests(&mut self) -> Result<(), Ended> {
        // Apart from the task, so that a request can be borrowed from it.
        let mut input = std::mem::take(&mut self.input);
        let result = self.take_requests_from(&mut input).await;
        self.input = input;
        result
    }

    async fn take_requests_from(&mut self, input: &mut BytesMut) -> Result<(), Ended> {
        while !self.is_waiting() && self.output.length() < OUTPUT_MAX {
            // Where anyone may come in without showing anything, there is nothing to be shown.
            let is_known = self.session.state() == State::Proven || self.front.namespace.is_open_to_anyone();
            let maximum = if is_known { LARGEST_REQUEST } else { LARGEST_UNPROVEN };
            let Some(length) = frame::length(input, maximum)? else {
                break;
            };
            let end = SIZE_LENGTH + length;
            if input.len() < end {
                self.make_room(input, end)?;
                break;
            }
            if self.take_request(&input[SIZE_LENGTH..end]).await? == Turn::NotYet {
                break;
            }
            input.advance(end);
            self.large.release();
        }
        Ok(())
    }

    /// Whether a request waits, and all behind it with it.
    const fn is_waiting(&self) -> bool {
        self.fetch.is_some() || self.membership.is_some() || self.kept.is_some()
    }

    /// Makes room for a request of which not all has arrived: step by step, so that one that only claims to be long costs little.
    fn make_room(&mut self, input: &mut BytesMut, needed: usize) -> Result<(), Ended> {
        if needed > LARGE && !self.large.hold(needed as u64) {
            return Err(Ended::NoMemory);
        }
        let step = (2 * input.len()).max(FIRST_CAPACITY).min(needed);
        input.reserve(step.saturating_sub(input.len()).max(1));
        Ok(())
    }

    async fn take_request(&mut self, frame: &[u8]) -> Result<Turn, Ended> {
        if self.session.state() == (State::Handshaken { in_requests: false }) {
            return self.log_in_without_requests(frame).map(|()| Turn::Next);
        }
        let (header, body) = RequestHeader::read(frame)?;
        let Some(key) = supported(header.api_key, header.version) else {
            return self.refuse_version(&header).map(|()| Turn::Next);
        };
        if !is_open(key) && self.session.state() != State::Proven {
            if self.session.state() != State::New || !self.session.enter(&self.front.namespace) {
                return Err(Ended::Unproven);
            }
            self.place.prove();
        }
        // Only what is produced may follow one another before it is answered.
        if key != ApiKey::Produce && !self.produced.is_empty() {
            return Ok(Turn::NotYet);
        }
        if self.produced.len() >= PRODUCED_MAX {
            return Ok(Turn::NotYet);
        }
        self.front.counters.requests.fetch_add(1, Ordering::Relaxed);
        match key {
            ApiKey::Produce => self.produce(&header, body).await?,
            ApiKey::Fetch => self.fetch(&header, body).await?,
            ApiKey::ListOffsets => self.list_offsets(&header, body).await?,
            ApiKey::Metadata => self.describe_topics(&header, body)?,
            ApiKey::ApiVersions => self.answer(&header, key, |writer| {
                api_versions::write_response(writer, header.version, SUPPORTED, 0);
            }),
            ApiKey::SaslHandshake => self.shake_hands(&header, body)?,
            ApiKey::SaslAuthenticate => self.log_in(&header, body)?,
            ApiKey::InitProducerId
            | ApiKey::AddPartitionsToTxn
            | ApiKey::AddOffsetsToTxn
            | ApiKey::EndTxn
            | ApiKey::TxnOffsetCommit
            | ApiKey::DescribeTransactions
            | ApiKey::ListTransactions => self.transaction_request(&header, key, body)?,
            ApiKey::FindCoordinator
            | ApiKey::JoinGroup
            | ApiKey::SyncGroup
            | ApiKey::Heartbeat
            | ApiKey::LeaveGroup
            | ApiKey::OffsetCommit
            | ApiKey::OffsetFetch
            | ApiKey::DescribeGroups
            | ApiKey::ListGroups
            | ApiKey::ConsumerGroupHeartbeat
            | ApiKey::ConsumerGroupDescribe
            | ApiKey::DeleteGroups
            | ApiKey::OffsetDelete => self.group_request(&header, key, body)?,
            ApiKey::DeleteRecords | ApiKey::OffsetForLeaderEpoch | ApiKey::DescribeProducers => {
                let requests = PartitionRequests { namespace: &self.front.namespace, session: &self.session };
                requests.answer(&header, key, body, &mut self.output).await?;
            }
            ApiKey::CreateTopics
            | ApiKey::DeleteTopics
            | ApiKey::CreatePartitions
            | ApiKey::DescribeConfigs
            | ApiKey::AlterConfigs
            | ApiKey::IncrementalAlterConfigs
            | ApiKey::DescribeTopicPartitions
            | ApiKey::DescribeLogDirs
            | ApiKey::DescribeAcls
            | ApiKey::DescribeClientQuotas => {
                let requests = AdminRequests { namespace: &self.front.namespace, session: &self.session };
                requests.answer(&header, key, body, &mut self.output)?;
            }
            ApiKey::DescribeCluster => {
                cluster::read(body, header.version)?;
                let (host, namespace) = (self.host(), Arc::clone(&self.front.namespace));
                let broker = self.broker(&host, namespace.host());
                self.answer(&header, key, |writer| {
                    cluster::write_response(writer, header.version, &broker, 0)
                });
            }
        }
        Ok(Turn::Next)
    }

    fn answer(
        &mut self,
        header: &RequestHeader<'_>,
        key: ApiKey,
        write: impl FnOnce(&mut kafka::write::Writer),
    ) {
        self.output.answer(key, header.version, header.correlation_id, write);
    }

    /// A client may ask for the versions in one that is too new; any other request has no answer.
    fn refuse_version(&mut self, header: &RequestHeader<'_>) -> Result<(), Ended> {
        if header.api_key != ApiKey::ApiVersions.number() {
            return Err(Ended::Unsupported { api_key: header.api_key, version: header.version });
        }
        self.output.answer(ApiKey::ApiVersions, 0, header.correlation_id, |writer| {
            api_versions::write_unsupported(writer, SUPPORTED);
        });
        Ok(())
    }

    async fn produce(&mut self, header: &RequestHeader<'_>, body: Reader<'_>) -> Result<(), Ended> {
        if header.version < produce::OLDEST {
            return Err(Ended::Unsupported { api_key: header.api_key, version: header.version });
        }
        let request = ProduceRequest::read(body, header.version)?;
        let fate = match &mut self.shaper {
            None => Shaping::Succeeds,
            Some(shaper) => {
                // Answers that are there do not wait with it.
                self.output.write_to(&mut self.stream).await?;
                shaping::shape(shaper, &request).await
            }
        };
        let append = || Outcomes::append(self.front, &self.session, &request, SystemTime::now().into());
        let outcomes = match fate {
            Shaping::Succeeds => append(),
            Shaping::Refused(error) => Outcomes::refused(&request, error),
            Shaping::Unacknowledged => {
                append();
                Outcomes::refused(&request, ErrorCode::RequestTimedOut)
            }
            Shaping::Breaks { stores } => {
                if stores {
                    append();
                }
                return Err(Ended::Closed);
            }
        };
        if request.acks == 0 {
            return Ok(());
        }
        let partitions = request.partitions.iter().map(|partition| (partition.topic, partition.index));
        if outcomes.commit() != CommitNumber::DONE || !self.produced.is_empty() {
            self.produced.push_back(Produced {
                version: header.version,
                correlation_id: header.correlation_id,
                partitions: partitions.map(|(topic, index)| (topic.to_owned(), index)).collect(),
                outcomes,
            });
            return Ok(());
        }
        let results = outcomes.results(&partitions.collect::<Vec<_>>(), None);
        self.answer(header, ApiKey::Produce, |writer| {
            produce::write_response(writer, header.version, &results, 0);
        });
        Ok(())
    }

    async fn fetch(&mut self, header: &RequestHeader<'_>, body: Reader<'_>) -> Result<(), Ended> {
        if let Some(shaper) = &mut self.shaper {
            std::future::poll_fn(|cx| shaper.poll_deliveries(cx)).await;
        }
        let request = FetchRequest::read(body, header.version)?;
        let (namespace, version) = (&self.front.namespace, header.version);
        self.fetch = Some(Fetch::new(
            namespace,
            &self.session,
            &request,
            version,
            header.correlation_id,
            &mut self.fetch_memory,
        ));
        self.answer_fetch();
        Ok(())
    }

    async fn list_offsets(&mut self, header: &RequestHeader<'_>, body: Reader<'_>) -> Result<(), Ended> {
        let request = ListOffsetsRequest::read(body, header.version)?;
        let found = offsets::list(&self.front.namespace, &self.session, &request).await;
        self.answer(header, ApiKey::ListOffsets, |writer| {
            list_offsets::write_response(writer, header.version, &found, 0);
        });
        Ok(())
    }

    fn describe_topics(&mut self, header: &RequestHeader<'_>, body: Reader<'_>) -> Result<(), Ended> {
        let request = MetadataRequest::read(body, header.version)?;
        let namespace = Arc::clone(&self.front.namespace);
        let found = topics::described(&namespace, &self.session, &self.front.counters, &request);
        let described: Vec<TopicMetadata<'_>> = found.iter().map(topics::Found::metadata).collect();
        let host = self.host();
        let broker = self.broker(&host, namespace.host());
        self.answer(header, ApiKey::Metadata, |writer| {
            metadata::write_response(writer, header.version, &broker, &described, 0);
        });
        Ok(())
    }

    fn group_request(
        &mut self,
        header: &RequestHeader<'_>,
        key: ApiKey,
        body: Reader<'_>,
    ) -> Result<(), Ended> {
        let (host, front) = (self.host(), self.front);
        let requests = GroupRequests {
            namespace: &front.namespace,
            coordinators: &front.coordinators,
            session: &self.session,
            broker: self.broker(&host, front.namespace.host()),
            peer: self.peer.ip(),
        };
        match requests.answer(header, key, body, &mut self.output)? {
            Waiting::Nothing => {}
            Waiting::Member(membership) => self.membership = Some(membership),
            Waiting::Kept(kept) => self.kept = Some(kept),
        }
        self.answer_member();
        Ok(())
    }

    fn transaction_request(
        &mut self,
        header: &RequestHeader<'_>,
        key: ApiKey,
        body: Reader<'_>,
    ) -> Result<(), Ended> {
        let front = self.front;
        let requests = TransactionRequests {
            namespace: &front.namespace,
            coordinators: &front.coordinators,
            session: &self.session,
        };
        self.kept = requests.answer(header, key, body, &mut self.output)?;
        Ok(())
    }

    /// Where the client finds the broker. Without TLS an address will do, which no one has to look up; a certificate is for the
    /// namespace's name.
    fn host(&self) -> String {
        match self.security {
            TransportSecurity::Plain => self.local.ip().to_canonical().to_string(),
            TransportSecurity::Tls => listener::client_host(self.front.namespace.host(), self.local),
        }
    }

    const fn broker<'a>(&self, host: &'a str, cluster_id: &'a str) -> Broker<'a> {
        Broker { id: BROKER, host, port: self.local.port(), cluster_id }
    }

    fn shake_hands(&mut self, header: &RequestHeader<'_>, body: Reader<'_>) -> Result<(), Ended> {
        let mechanism = sasl::read_handshake(body)?;
        let error = match MECHANISMS.contains(&mechanism) {
            true => ErrorCode::None,
            false => ErrorCode::UnsupportedSaslMechanism,
        };
        if error == ErrorCode::None {
            self.session.handshaken(header.version >= 1);
        }
        self.answer(header, ApiKey::SaslHandshake, |writer| {
            sasl::write_handshake(writer, error, &MECHANISMS)
        });
        Ok(())
    }

    fn log_in(&mut self, header: &RequestHeader<'_>, body: Reader<'_>) -> Result<(), Ended> {
        let message = sasl::read_authenticate(body)?;
        let failure = match self.session.state() {
            State::Handshaken { .. } => self.log_in_with(message).err(),
            State::New | State::Proven => {
                Some((ErrorCode::IllegalSaslState, "no handshake came before".to_owned()))
            }
        };
        let result = match &failure {
            None => Ok(&[][..]),
            Some((error, reason)) => Err((*error, reason.as_str())),
        };
        self.answer(header, ApiKey::SaslAuthenticate, |writer| {
            sasl::write_authenticate(writer, header.version, result, 0);
        });
        Ok(())
    }

    /// The form of the first clients: no header, and the connection closed where it fails.
    fn log_in_without_requests(&mut self, message: &[u8]) -> Result<(), Ended> {
        self.log_in_with(message).map_err(|_refused| Ended::Unproven)?;
        self.output.push(&[0; SIZE_LENGTH]);
        Ok(())
    }

    fn log_in_with(&mut self, message: &[u8]) -> Result<(), (ErrorCode, String)> {
        match self.session.log_in(&self.front.namespace, message) {
            Ok(()) => {
                self.place.prove();
                Ok(())
            }
            Err(error) => {
                self.front.counters.refused_logins.fetch_add(1, Ordering::Relaxed);
                tracing::debug!(peer = %self.peer, %error, "a Kafka client was refused");
                Err((ErrorCode::SaslAuthenticationFailed, error.to_string()))
            }
        }
    }

    /// Waits until there may be something to do.
    async fn wait(&mut self) -> Result<(), Ended> {
        let takes_requests = !self.is_waiting() && self.produced.is_empty();
        let Self { stream, input, produced, commits, fetch, membership, kept, subscriber, .. } = self;
        // A client whose request waits is still listened to, so that its end is noticed, up to a bound.
        let reads = takes_requests || input.len() < input.capacity().max(FIRST_CAPACITY);
        let fetch_by = fetch.as_ref().map(|fetch| fetch.deadline);
        let proof_by = Some(self.proof_by).filter(|_| self.session.state() != State::Proven);
        let idle_by = takes_requests.then(|| Instant::now() + IDLE_TIMEOUT);
        let woken = std::future::poll_fn(|cx| {
            let awaits = !produced.is_empty() || kept.as_ref().is_some_and(KeptAnswer::awaits_commit);
            let committed = awaits && poll_commits(commits.as_mut(), cx).is_ready();
            let told = kept.as_mut().is_some_and(|kept| kept.poll(cx).is_ready());
            let found = fetch.is_some() && subscriber.poll_ready(cx, &mut Vec::new()).is_ready();
            let answered = membership.as_mut().is_some_and(|membership| membership.poll(cx).is_ready());
            if committed || told || found || answered { Poll::Ready(()) } else { Poll::Pending }
        });
        tokio::select! {
            read = stream.read_buf(input), if reads => match read? {
                0 => Err(Ended::Closed),
                _ => Ok(()),
            },
            () = woken => Ok(()),
            () = at(fetch_by) => Ok(()),
            () = at(proof_by) => Err(Ended::Overdue),
            () = at(idle_by) => Err(Ended::Closed),
            _ = self.stop.wait_for(|stop| *stop) => Err(Ended::Stopped),
        }
    }
}

fn poll_commits(commits: Option<&mut CommitWatch>, cx: &mut Context<'_>) -> Poll<()> {
    commits.map_or(Poll::Ready(()), |commits| commits.poll_committed(cx))
}

/// Waits for an instant, for ever if there is none.
async fn at(instant: Option<Instant>) {
    match instant {
        Some(instant) => tokio::time::sleep_until(instant).await,
        None => std::future::pending().await,
    }
}

/// Waits until the service has stopped for so long that a client which does not read is left behind.
async fn stopped_for_good(stop: &mut watch::Receiver<bool>) {
    if stop.wait_for(|stop| *stop).await.is_ok() {
        tokio::time::sleep(FAREWELL).await;
    }
}

/// What long requests take of the memory that there is for all of them.
#[derive(Debug)]
struct Large<'f> {
    total: &'f AtomicU64,
    held: u64,
}

impl Large<'_> {
    /// Holds so much in all. False if there is not so much.
    fn hold(&mut self, bytes: u64) -> bool {
        let more = bytes.saturating_sub(self.held);
        let held = self.total.fetch_add(more, Ordering::Relaxed);
        self.held += more;
        held + more <= LARGE_TOTAL
    }

    fn release(&mut self) {
        self.total.fetch_sub(std::mem::take(&mut self.held), Ordering::Relaxed);
    }
}

impl Drop for Large<'_> {
    fn drop(&mut self) {
        self.release();
    }
}

/// A client that asks nothing for longer is taken for gone, as by Kafka (`connections.max.idle.ms`).
const IDLE_TIMEOUT: Duration = Duration::from_secs(600);

/// Largest request, in bytes, as Kafka has it (`socket.request.max.bytes`).
pub(super) const LARGEST_REQUEST: usize = 100 * 1024 * 1024;

/// The same for a client that has not said who it is.
const LARGEST_UNPROVEN: usize = 128 * 1024;

/// Requests beyond this share [`LARGE_TOTAL`].
const LARGE: usize = 2 * 1024 * 1024;

/// Bytes of long requests that all clients together may have under way.
const LARGE_TOTAL: u64 = 256 * 1024 * 1024;

/// Room for what clients usually send at once, other than events.
const FIRST_CAPACITY: usize = 4 * 1024;

/// Bytes of answers that may wait before they are written, and before more requests are taken.
const OUTPUT_MAX: usize = 1024 * 1024;

/// Requests to produce that may wait for commits.
const PRODUCED_MAX: usize = 1_000;

/// How long a client has to read its last answers when the service stops.
const FAREWELL: Duration = Duration::from_millis(500);
