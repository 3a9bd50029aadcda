//! What members and operators of consumer groups ask.

use std::net::IpAddr;
use std::pin::Pin;
use std::task::{Context, Poll};

use access::Right;
use kafka::frame::RequestHeader;
use kafka::messages::consumer_group::{self, ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse};
use kafka::messages::find_coordinator::{FindCoordinatorRequest, GROUP_KEY, TRANSACTION_KEY};
use kafka::messages::group::{LeaveGroupRequest, MemberRef, write_heartbeat_response};
use kafka::messages::group_admin::{
    ListGroupsRequest, read_delete, read_describe, write_delete_response, write_describe_response,
    write_list_response,
};
use kafka::messages::join_group::{JoinGroupRequest, write_join_response};
use kafka::messages::metadata::Broker;
use kafka::messages::offset_commit::OffsetCommitRequest;
use kafka::messages::offset_delete::OffsetDeleteRequest;
use kafka::messages::offset_fetch::{AskedGroup, OffsetFetchRequest};
use kafka::messages::sync_group::{SyncGroupRequest, write_sync_response};
use kafka::read::Reader;
use kafka::{ApiKey, ErrorCode, Malformed};
use partition_log::disk::{CommitNumber, CommitState, CommitWatch};
use tokio::sync::oneshot;

use super::kept_answer::{KeptAnswer, Until, unless_kept};
use super::output::Output;
use super::requests::{GroupTask, check_partitions};
use super::session::Session;
use super::topics::{self, PartitionChecks};
use crate::front::time_slice::TimeSlice;
use crate::groups::{Changed, Client, Reply, Topic, Topics};
use crate::namespace::Namespace;
use crate::service::Coordinators;

/// What it takes to answer.
#[derive(Debug)]
pub(super) struct GroupRequests<'a> {
    pub(super) namespace: &'a Namespace,
    pub(super) coordinators: &'a Coordinators,
    pub(super) session: &'a Session,
    pub(super) broker: Broker<'a>,
    pub(super) peer: IpAddr,
}

/// A request that is answered when the group has come so far, and what the answer tells is on disk.
#[derive(Debug)]
pub(super) struct Membership {
    version: i16,
    correlation_id: i32,
    receiver: oneshot::Receiver<Changed<Reply>>,
    reply: Option<Changed<Reply>>,
}

/// What an answer waits for.
#[derive(Debug)]
pub(super) enum Waiting {
    /// Nothing: it is written.
    Nothing,
    /// The group.
    Member(Membership),
    /// The disk.
    Kept(KeptAnswer),
}

impl From<Option<KeptAnswer>> for Waiting {
    fn from(kept: Option<KeptAnswer>) -> Self {
        kept.map_or(Self::Nothing, Self::Kept)
    }
}

impl GroupRequests<'_> {
    /// Answers a request, or says what it waits for.
    pub(super) async fn answer(
        &self,
        header: &RequestHeader<'_>,
        (key, task): (ApiKey, GroupTask),
        body: Reader<'_>,
        output: &mut Output,
    ) -> Result<Waiting, Malformed> {
        let (version, groups) = (header.version, &self.coordinators.groups);
        let waits = |receiver| {
            let correlation_id = header.correlation_id;
            Ok(Waiting::Member(Membership { version, correlation_id, receiver, reply: None }))
        };
        match task {
            GroupTask::JoinGroup => {
                let request = JoinGroupRequest::read(body, version)?;
                let host = self.client_host();
                let client = Client { id: header.client_id.unwrap_or_default(), host: &host, version };
                return waits(groups.join(&request, client, self.session.principal()));
            }
            GroupTask::SyncGroup => return waits(groups.sync(&SyncGroupRequest::read(body, version)?)),
            GroupTask::FindCoordinator => {
                let request = FindCoordinatorRequest::read(body, version)?;
                let found = match request.key_type {
                    GROUP_KEY | TRANSACTION_KEY => Ok(&self.broker),
                    _ => Err(ErrorCode::CoordinatorNotAvailable),
                };
                output.answer(key, version, header.correlation_id, |writer| {
                    request.write_response(writer, version, found, 0)
                });
            }
            GroupTask::Heartbeat => {
                let error = groups.heartbeat(&MemberRef::read_heartbeat(body, version)?);
                output.answer(key, version, header.correlation_id, |writer| {
                    write_heartbeat_response(writer, version, error, 0)
                });
            }
            GroupTask::LeaveGroup => {
                let request = LeaveGroupRequest::read(body, version)?;
                let errors = groups.leave(&request);
                output.answer(key, version, header.correlation_id, |writer| {
                    request.write_response(writer, version, &errors, 0)
                });
            }
            GroupTask::OffsetCommit => {
                let request = OffsetCommitRequest::read(body, version)?;
                check_partitions(request.partitions.len())?;
                let Changed { results, commit } = self.commit(&request).await;
                let until = Until::Commit(commit);
                return Ok(KeptAnswer::after(until, header, key, output, |writer, is_kept| {
                    request.write_response(writer, version, &unless_kept(&results, is_kept), 0);
                })
                .into());
            }
            GroupTask::OffsetFetch => {
                let request = OffsetFetchRequest::read(body, version)?;
                let unstable = self.coordinators.transactions.unstable();
                let fetch = |group: &AskedGroup<'_>| {
                    let id = group.group_id;
                    let is_pending = |topic: &str, index: i32| unstable.is_pending(id, topic, index);
                    groups.fetch(group, |topic, index| request.require_stable && is_pending(topic, index))
                };
                let found: Vec<_> = request.groups.iter().map(|group| Ok(fetch(group))).collect();
                drop(unstable);
                output.answer(key, version, header.correlation_id, |writer| {
                    request.write_response(writer, version, &found, 0)
                });
            }
            GroupTask::OffsetDelete => {
                let request = OffsetDeleteRequest::read(body)?;
                let checks = self.partition_checks();
                let exists = |topic: &str, index| checks.check(topic, index);
                let Changed { results, commit } =
                    groups.delete_offsets(request.group_id, &request.partitions, exists);
                let until = Until::Commit(commit);
                return Ok(KeptAnswer::after(until, header, key, output, |writer, is_kept| {
                    let results = results.as_ref().map(|errors| unless_kept(errors, is_kept));
                    request.write_response(writer, results.as_deref().map_err(|error| **error), 0);
                })
                .into());
            }
            GroupTask::DescribeGroups => {
                let described = groups.describe(&read_describe(body, version)?);
                let described: Vec<_> = described.into_iter().map(|group| (ErrorCode::None, group)).collect();
                output.answer(key, version, header.correlation_id, |writer| {
                    write_describe_response(writer, version, &described, 0)
                });
            }
            GroupTask::ConsumerGroupHeartbeat => {
                let request = ConsumerGroupHeartbeatRequest::read(body, version)?;
                let Changed { results, commit } = self.consumer_heartbeat(header, &request);
                let lost = "the members of the group can't be stored".to_owned();
                let lost = Err((ErrorCode::CoordinatorNotAvailable, lost));
                let until = Until::Commit(commit);
                return Ok(KeptAnswer::after(until, header, key, output, |writer, is_kept| {
                    let result = if is_kept { &results } else { &lost };
                    consumer_group::write_heartbeat_response(writer, result, 0);
                })
                .into());
            }
            GroupTask::ConsumerGroupDescribe => {
                let described = groups.describe_consumers(&consumer_group::read_describe(body)?);
                output.answer(key, version, header.correlation_id, |writer| {
                    consumer_group::write_describe_response(writer, version, &described, 0)
                });
            }
            GroupTask::ListGroups => {
                let listed = groups.list(&ListGroupsRequest::read(body, version)?);
                output.answer(key, version, header.correlation_id, |writer| {
                    write_list_response(writer, version, &listed, 0)
                });
            }
            GroupTask::DeleteGroups => {
                let group_ids = read_delete(body)?;
                let Changed { results, commit } = groups.delete(&group_ids);
                let until = Until::Commit(commit);
                return Ok(KeptAnswer::after(until, header, key, output, |writer, is_kept| {
                    let results = unless_kept(&results, is_kept);
                    let results: Vec<_> = group_ids.iter().copied().zip(results).collect();
                    write_delete_response(writer, &results, 0);
                })
                .into());
            }
        }
        Ok(Waiting::Nothing)
    }

    fn consumer_heartbeat(
        &self,
        header: &RequestHeader<'_>,
        request: &ConsumerGroupHeartbeatRequest<'_>,
    ) -> Changed<Result<ConsumerGroupHeartbeatResponse, (ErrorCode, String)>> {
        let mut names = request.topic_names.iter().flatten();
        if let Some(name) = names.find(|name| !self.session.allows(name, Right::Listen)) {
            let results =
                Err((ErrorCode::TopicAuthorizationFailed, format!("the topic {name} can't be read")));
            return Changed { results, commit: CommitNumber::DONE };
        }
        let (id, host) = (header.client_id.unwrap_or_default(), self.client_host());
        let client = Client { id, host: &host, version: header.version };
        self.coordinators.groups.consumer_heartbeat(request, client, self.session.principal(), self)
    }

    /// Where the client is, as operators see it.
    fn client_host(&self) -> String {
        format!("/{}", self.peer.to_canonical())
    }

    /// Takes offsets, a part of them at a time.
    async fn commit(&self, request: &OffsetCommitRequest<'_>) -> Changed<Vec<ErrorCode>> {
        let commit = |request: &OffsetCommitRequest<'_>| {
            let checks = self.partition_checks();
            let exists = |topic: &str, index| checks.check(topic, index);
            self.coordinators.groups.commit(request, self.session.principal(), exists)
        };
        if request.partitions.len() <= OFFSETS_AT_ONCE {
            return commit(request);
        }
        let mut slice = TimeSlice::begin();
        let mut all = Changed { results: Vec::new(), commit: CommitNumber::DONE };
        for partitions in request.partitions.chunks(OFFSETS_AT_ONCE) {
            let part = OffsetCommitRequest { member: request.member, partitions: partitions.to_vec() };
            let Changed { results, commit } = commit(&part);
            all.results.extend(results);
            all.commit = all.commit.max(commit);
            slice.pause_if_over().await;
        }
        all
    }

    /// Checks of partitions that the client may read, which it must to have read so far.
    const fn partition_checks(&self) -> PartitionChecks<'_> {
        PartitionChecks::new(self.namespace, self.session, Right::Listen)
    }
}

/// What groups see of topics: those that are there, and of their names those that this client may read.
impl Topics for GroupRequests<'_> {
    fn find(&self, name: &str) -> Option<Topic> {
        let hub = topics::named(self.namespace, name)?;
        Some(Topic { id: hub.id(), partitions: u32::try_from(hub.partitions().len()).unwrap_or(0) })
    }

    fn names(&self) -> Vec<String> {
        let hubs = self.namespace.hubs();
        let readable = hubs.iter().filter(|hub| self.session.allows(hub.name(), Right::Listen));
        readable.map(|hub| hub.name().to_owned()).collect()
    }
}

impl Membership {
    /// Whether the reply is there, and what it depends on is settled. If that is not on disk, the reply is an error.
    pub(super) fn is_ready(&mut self, commits: Option<&CommitWatch>) -> bool {
        if self.reply.is_none() {
            self.reply = self.receiver.try_recv().ok();
        }
        let Some(Changed { results, commit }) = &mut self.reply else {
            return false;
        };
        match commits.map_or(CommitState::Done, |commits| commits.state_of(*commit)) {
            CommitState::Waiting => false,
            CommitState::Done => true,
            CommitState::Failed => {
                results.refuse(ErrorCode::CoordinatorNotAvailable);
                true
            }
        }
    }

    /// Ready when it is worth asking [`is_ready`](Self::is_ready), apart from commits, which the connection watches.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if self.reply.is_some() {
            return Poll::Pending;
        }
        match Pin::new(&mut self.receiver).poll(cx) {
            Poll::Ready(Ok(reply)) => {
                self.reply = Some(reply);
                Poll::Ready(())
            }
            // The groups are never gone before their connections are. Should they be, the client's own time is up some time.
            Poll::Ready(Err(_)) | Poll::Pending => Poll::Pending,
        }
    }

    /// Whether it waits for a commit.
    pub(super) const fn awaits_commit(&self) -> bool {
        self.reply.is_some()
    }

    /// Writes the answer.
    pub(super) fn answer(self, output: &mut Output) {
        let Self { version, correlation_id, reply, .. } = self;
        match reply.map(|reply| reply.results) {
            Some(Reply::Join(error, response)) => {
                output.answer(ApiKey::JoinGroup, version, correlation_id, |writer| {
                    write_join_response(writer, version, error, &response, 0);
                });
            }
            Some(Reply::Sync(error, response)) => {
                output.answer(ApiKey::SyncGroup, version, correlation_id, |writer| {
                    write_sync_response(writer, version, error, &response, 0);
                });
            }
            None => {}
        }
    }
}

/// Offsets that are taken before others have their turn.
const OFFSETS_AT_ONCE: usize = 8_192;
