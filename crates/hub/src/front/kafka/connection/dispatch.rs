//! What a connection does about each request.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use access::TransportSecurity;
use kafka::fetch::FetchRequest;
use kafka::frame::{RequestHeader, SIZE_LENGTH};
use kafka::messages::authorized_operations::AuthorizedOperations;
use kafka::messages::list_offsets::ListOffsetsRequest;
use kafka::messages::metadata::{Broker, MetadataRequest, TopicMetadata};
use kafka::messages::{api_versions, cluster, list_offsets, metadata, sasl, unserved};
use kafka::produce::{self, ProduceRequest};
use kafka::read::Reader;
use kafka::{ApiKey, ErrorCode, Malformed};

use super::{ConnectionTask, Ended, LARGEST_REQUEST, PRODUCED_MAX, Produced, Turn};
use crate::front::kafka::BROKER;
use crate::front::kafka::admin::AdminRequests;
use crate::front::kafka::fetch::Fetch;
use crate::front::kafka::group_requests::{GroupRequests, Waiting};
use crate::front::kafka::partition_requests::PartitionRequests;
use crate::front::kafka::produce::{CompressedChecks, Outcomes, count_throttled};
use crate::front::kafka::requests::{
    ConnectionTask as OwnTask, GroupTask, SUPPORTED, Task, TransactionTask, check_partitions, is_open,
    is_served, newest,
};
use crate::front::kafka::session::{LoggedIn, LoginError, Mechanism, State};
use crate::front::kafka::shaping::{self, Shaped, Shaping};
use crate::front::kafka::transaction_requests::TransactionRequests;
use crate::front::kafka::{offsets, operations, topics};
use crate::front::listener;
use crate::front::pending::Until;
use crate::front::time_slice::map_in_slices;

/// Returns the longest body of a request, in bytes. Names in it can make answers of many times their size, so that all but records
/// and what members of groups say are short.
const fn longest_body(key: ApiKey) -> usize {
    match key {
        ApiKey::Produce => LARGEST_REQUEST,
        ApiKey::JoinGroup | ApiKey::SyncGroup | ApiKey::OffsetCommit | ApiKey::TxnOffsetCommit => 16 << 20,
        // Room for the names of ten thousand topics.
        _ => 2 << 20,
    }
}

/// Bytes of a client's name that are kept for the log.
const CLIENT_ID_MAX: usize = 256;

impl ConnectionTask<'_> {
    /// Does a request, or says that it has to wait.
    pub(super) async fn take_request(&mut self, frame: &[u8]) -> Result<Turn, Ended> {
        if let State::Handshaken { in_requests: false, mechanism } = self.session.state() {
            return self.log_in_without_requests(mechanism, frame).map(|()| Turn::Next);
        }
        let (header, body) = RequestHeader::read(frame)?;
        self.note_client_id(&header);
        let Some(key) = ApiKey::of(header.api_key) else {
            return Err(self.unsupported(&header));
        };
        // Whose token ends has to show another one.
        if !is_open(key) && self.session.has_ended() {
            return Err(Ended::TokenExpired);
        }
        if !is_open(key) && self.session.state() != State::Proven {
            if self.session.state() != State::New || !self.session.enter(&self.front.namespace) {
                return Err(Ended::Unproven);
            }
            self.place.prove();
        }
        if body.rest().len() > longest_body(key) {
            return Err(Malformed("request: it is longer than any that makes sense").into());
        }
        // Only what is produced may follow one another before it is answered.
        if key != ApiKey::Produce && !self.produced.is_empty() {
            return Ok(Turn::NotYet);
        }
        if self.produced.len() >= PRODUCED_MAX {
            return Ok(Turn::NotYet);
        }
        if !is_served(key, header.version) {
            // Its answer does not wait, as those before it may.
            return match self.produced.is_empty() {
                true => self.refuse_version(&header, key, body).map(|()| Turn::Next),
                false => Ok(Turn::NotYet),
            };
        }
        self.front.counters.requests.fetch_add(1, Ordering::Relaxed);
        self.take_time(key).await?;
        match Task::of(key) {
            Task::Connection(task) => self.do_own(&header, key, task, body).await?,
            Task::Group(task) => self.group_request(&header, (key, task), body).await?,
            Task::Transaction(task) => self.transaction_request(&header, (key, task), body)?,
            Task::Partition(task) => {
                let requests = PartitionRequests { namespace: &self.front.namespace, session: &self.session };
                requests.answer(&header, (key, task), body, &mut self.output).await?;
            }
            Task::Administration(task) => {
                let requests = AdminRequests { namespace: &self.front.namespace, session: &self.session };
                requests.answer(&header, (key, task), body, &mut self.output).await?;
            }
        }
        Ok(Turn::Next)
    }

    async fn do_own(
        &mut self,
        header: &RequestHeader<'_>,
        key: ApiKey,
        task: OwnTask,
        body: Reader<'_>,
    ) -> Result<(), Ended> {
        match task {
            OwnTask::Produce => self.produce(header, body).await?,
            OwnTask::Fetch => self.fetch(header, body).await?,
            OwnTask::ListOffsets => self.list_offsets(header, body).await?,
            OwnTask::Metadata => self.describe_topics(header, body).await?,
            OwnTask::ApiVersions => self.answer(header, key, |writer| {
                api_versions::write_response(writer, header.version, SUPPORTED, 0);
            }),
            OwnTask::SaslHandshake => self.shake_hands(header, body)?,
            OwnTask::SaslAuthenticate => self.log_in(header, body)?,
            OwnTask::DescribeCluster => {
                let asks_operations = cluster::read(body, header.version)?;
                let (host, namespace) = (self.host(), Arc::clone(&self.front.namespace));
                let broker = self.broker(&host, namespace.cluster_id());
                let operations = self.cluster_operations(asks_operations);
                self.answer(header, key, |writer| {
                    cluster::write_response(writer, header.version, &broker, operations, 0);
                });
            }
        }
        Ok(())
    }

    fn answer(
        &mut self,
        header: &RequestHeader<'_>,
        key: ApiKey,
        write: impl FnOnce(&mut kafka::write::Writer),
    ) {
        self.output.answer(key, header.version, header.correlation_id, write);
    }

    /// Takes the time that a service profile has for a request: one with a login, or about the cluster, topics, groups and
    /// transactions. Sends have a time of their own, deliveries none, and neither has what only keeps a conversation going.
    async fn take_time(&mut self, key: ApiKey) -> Result<(), Ended> {
        let is_timed = !matches!(
            key,
            ApiKey::Produce | ApiKey::Fetch | ApiKey::ApiVersions | ApiKey::SaslHandshake | ApiKey::Heartbeat
        );
        let Some(shaper) = self.shaper.as_mut().filter(|_| is_timed) else {
            return Ok(());
        };
        let Some(at) = shaper.request(None) else {
            return Ok(());
        };
        let timer = shaper.timer();
        // Answers that are there do not wait with it.
        self.flush().await?;
        tokio::select! {
            () = timer.wait_until(at) => Ok(()),
            _ = self.stop.wait_for(|stop| *stop) => Ok(()),
        }
    }

    /// Refuses a request because of its version. A client may ask for the versions in one that is too new; and what has no place for an
    /// error has no answer.
    fn refuse_version(
        &mut self,
        header: &RequestHeader<'_>,
        key: ApiKey,
        body: Reader<'_>,
    ) -> Result<(), Ended> {
        if key == ApiKey::ApiVersions {
            self.output.answer(key, 0, header.correlation_id, |writer| {
                api_versions::write_unsupported(writer, SUPPORTED);
            });
            return Ok(());
        }
        let Some(version) = unserved::refusal_version(key, header.version, newest(key)) else {
            return Err(self.unsupported(header));
        };
        self.front.note_version(header, self.asker());
        let mut answer = self.output.begin(key, version, header.correlation_id);
        let written = unserved::write_refusal(&mut answer.writer, key, version, body);
        // They were noted, with the version.
        drop(answer.writer.take_errors());
        answer.end();
        Ok(written?)
    }

    /// Notes a request that has no answer.
    fn unsupported(&self, header: &RequestHeader<'_>) -> Ended {
        self.front.note_version(header, self.asker());
        Ended::Unsupported { api_key: header.api_key, version: header.version }
    }

    fn note_client_id(&mut self, header: &RequestHeader<'_>) {
        let client_id = header.client_id.unwrap_or_default();
        if self.client_id != client_id {
            client_id[..client_id.floor_char_boundary(CLIENT_ID_MAX)].clone_into(&mut self.client_id);
        }
    }

    async fn produce(&mut self, header: &RequestHeader<'_>, body: Reader<'_>) -> Result<(), Ended> {
        let request = ProduceRequest::read(body, header.version)?;
        check_partitions(request.partitions.len())?;
        if self.shaper.is_some() {
            // Answers that are there do not wait with it.
            self.flush().await?;
        }
        let Shaped { fate, throttled, ready_at } = match &mut self.shaper {
            None => Shaped::UNTOUCHED,
            Some(shaper) => shaping::shape(shaper, &request).await,
        };
        if !throttled.is_zero() {
            count_throttled(self.front, &self.session, &request);
        }
        let throttle_time_ms = i32::try_from(throttled.as_millis()).unwrap_or(i32::MAX);
        let checks = CompressedChecks::of(self.front, &self.session, &request).await;
        let append = || {
            Outcomes::append(
                self.front,
                &self.session,
                &request,
                &checks,
                self.front.namespace.clock().unix_time(),
                self.input_at,
            )
        };
        let outcomes = match fate {
            Shaping::Succeeds => append().await,
            Shaping::Refused(error) => Outcomes::refused(&request, error),
            Shaping::Unacknowledged => {
                append().await;
                Outcomes::refused(&request, ErrorCode::RequestTimedOut)
            }
            Shaping::Breaks { stores } => {
                if stores {
                    append().await;
                }
                return Err(Ended::Closed);
            }
        };
        if request.acks == 0 {
            return Ok(());
        }
        let partitions = request.partitions.iter().map(|partition| (partition.topic, partition.index));
        let until = Until { commit: outcomes.commit(), instant: ready_at };
        if !until.is_over() || !self.produced.is_empty() {
            self.produced.push_back(Produced {
                version: header.version,
                correlation_id: header.correlation_id,
                partitions: partitions.map(|(topic, index)| (topic.to_owned(), index)).collect(),
                outcomes,
                until,
                throttle_time_ms,
            });
            return Ok(());
        }
        let results = outcomes.results(&partitions.collect::<Vec<_>>(), None);
        self.answer(header, ApiKey::Produce, |writer| {
            produce::write_response(writer, header.version, &results, throttle_time_ms);
        });
        Ok(())
    }

    async fn fetch(&mut self, header: &RequestHeader<'_>, body: Reader<'_>) -> Result<(), Ended> {
        if let Some(shaper) = &mut self.shaper {
            std::future::poll_fn(|cx| shaper.poll_deliveries(cx)).await;
        }
        let request = FetchRequest::read(body, header.version)?;
        let (namespace, version) = (&self.front.namespace, header.version);
        let fetch = Fetch::new(
            namespace,
            &self.session,
            &request,
            version,
            header.correlation_id,
            &mut self.fetch_memory,
            self.input_at,
        );
        self.fetch = Some(fetch.await.map_err(Ended::NoMemory)?);
        self.answer_fetch().await
    }

    async fn list_offsets(&mut self, header: &RequestHeader<'_>, body: Reader<'_>) -> Result<(), Ended> {
        let request = ListOffsetsRequest::read(body, header.version)?;
        let found = offsets::list(&self.front.namespace, &self.session, &request).await;
        self.answer(header, ApiKey::ListOffsets, |writer| {
            list_offsets::write_response(writer, header.version, &found, 0);
        });
        Ok(())
    }

    async fn describe_topics(&mut self, header: &RequestHeader<'_>, body: Reader<'_>) -> Result<(), Ended> {
        let request = MetadataRequest::read(body, header.version)?;
        let namespace = Arc::clone(&self.front.namespace);
        let found = topics::described(&namespace, &self.session, &self.front.counters, &request).await;
        let described: Vec<TopicMetadata<'_>> = match request.asks_topic_operations {
            true => {
                map_in_slices(&found, |found| found.metadata_with_operations(&namespace, &self.session)).await
            }
            false => found.iter().map(topics::Found::metadata).collect(),
        };
        let host = self.host();
        let broker = self.broker(&host, namespace.cluster_id());
        let operations = self.cluster_operations(request.asks_cluster_operations);
        self.answer(header, ApiKey::Metadata, |writer| {
            metadata::write_response(writer, header.version, &broker, &described, operations, 0);
        });
        Ok(())
    }

    /// What the client may do with the cluster, if it asks.
    fn cluster_operations(&self, asks: bool) -> AuthorizedOperations {
        match asks {
            true => operations::of_cluster(&self.front.namespace, &self.session),
            false => AuthorizedOperations::NOT_ASKED,
        }
    }

    async fn group_request(
        &mut self,
        header: &RequestHeader<'_>,
        task: (ApiKey, GroupTask),
        body: Reader<'_>,
    ) -> Result<(), Ended> {
        let (host, front) = (self.host(), self.front);
        let requests = GroupRequests {
            namespace: &front.namespace,
            coordinators: &front.coordinators,
            session: &self.session,
            broker: self.broker(&host, front.namespace.cluster_id()),
            peer: self.peer.ip(),
        };
        match requests.answer(header, task, body, &mut self.output).await? {
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
        task: (ApiKey, TransactionTask),
        body: Reader<'_>,
    ) -> Result<(), Ended> {
        let front = self.front;
        let requests = TransactionRequests {
            namespace: &front.namespace,
            coordinators: &front.coordinators,
            session: &self.session,
        };
        self.kept = requests.answer(header, task, body, &mut self.output)?;
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
        let error = match Mechanism::of(mechanism, &self.front.namespace) {
            Some(mechanism) => {
                self.session.handshaken(mechanism, header.version >= 1);
                ErrorCode::None
            }
            None => ErrorCode::UnsupportedSaslMechanism,
        };
        let names = Mechanism::names(&self.front.namespace);
        self.answer(header, ApiKey::SaslHandshake, |writer| sasl::write_handshake(writer, error, names));
        Ok(())
    }

    fn log_in(&mut self, header: &RequestHeader<'_>, body: Reader<'_>) -> Result<(), Ended> {
        let message = sasl::read_authenticate(body)?;
        let outcome = match self.session.state() {
            State::Handshaken { mechanism, .. } => self.log_in_with(mechanism, message),
            State::Refused => Err(self.session.take_refusal().unwrap_or(LoginError::BearerForm)),
            State::New | State::Proven => {
                let reason = (ErrorCode::IllegalSaslState, "no handshake came before");
                self.answer(header, ApiKey::SaslAuthenticate, |writer| {
                    sasl::write_authenticate(writer, header.version, Err(reason), 0);
                });
                return Ok(());
            }
        };
        let now = self.front.namespace.clock().token_now();
        let lifetime = outcome.as_ref().map_or(0, |logged_in| logged_in.lifetime_ms(now));
        let text;
        let result = match &outcome {
            Ok(LoggedIn::Until(_)) => Ok(&[][..]),
            Ok(LoggedIn::Refused(challenge)) => Ok(challenge.as_bytes()),
            // A refusal would be final for some clients: they connect again.
            Err(LoginError::NotYet) => return Err(Ended::Unproven),
            Err(error) => {
                text = error.to_string();
                Err((ErrorCode::SaslAuthenticationFailed, text.as_str()))
            }
        };
        self.answer(header, ApiKey::SaslAuthenticate, |writer| {
            sasl::write_authenticate(writer, header.version, result, lifetime);
        });
        Ok(())
    }

    /// The form of the first clients: no header, and the connection closed where it fails.
    fn log_in_without_requests(&mut self, mechanism: Mechanism, message: &[u8]) -> Result<(), Ended> {
        match self.log_in_with(mechanism, message) {
            Ok(LoggedIn::Until(_)) => {
                self.output.push(&[0; SIZE_LENGTH]);
                Ok(())
            }
            Ok(LoggedIn::Refused(_)) | Err(_) => Err(Ended::Unproven),
        }
    }

    fn log_in_with(&mut self, mechanism: Mechanism, message: &[u8]) -> Result<LoggedIn, LoginError> {
        let outcome = self.session.log_in(&self.front.namespace, mechanism, message);
        let refusal: Option<&dyn std::fmt::Display> = match &outcome {
            Ok(LoggedIn::Until(_)) => None,
            Ok(LoggedIn::Refused(challenge)) => Some(challenge),
            Err(error) => Some(error),
        };
        match refusal {
            None => self.place.prove(),
            Some(refusal) => {
                self.front.counters.refused_logins.fetch_add(1, Ordering::Relaxed);
                tracing::debug!(peer = %self.peer, %refusal, "a Kafka client was refused");
            }
        }
        outcome
    }
}
