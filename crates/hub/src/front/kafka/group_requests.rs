//! What members and operators of consumer groups ask.

use std::net::IpAddr;
use std::pin::Pin;
use std::task::{Context, Poll};

use access::Right;
use kafka::frame::RequestHeader;
use kafka::messages::authorized_operations::AuthorizedOperations;
use kafka::messages::consumer_group::{
    self, ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse, DescribedConsumerGroup,
};
use kafka::messages::consumer_protocol::Subscription;
use kafka::messages::find_coordinator::{FindCoordinatorRequest, GROUP_KEY, TRANSACTION_KEY};
use kafka::messages::group::{LeaveGroupRequest, MemberRef, write_heartbeat_response};
use kafka::messages::group_admin::{
    DescribedGroup, ListGroupsRequest, read_delete, read_describe, write_delete_response,
    write_describe_response, write_list_response,
};
use kafka::messages::join_group::{JoinGroupRequest, write_join_response};
use kafka::messages::metadata::Broker;
use kafka::messages::offset_commit::OffsetCommitRequest;
use kafka::messages::offset_delete::OffsetDeleteRequest;
use kafka::messages::offset_fetch::{AskedGroup, FetchedOffset, OffsetFetchRequest};
use kafka::messages::sync_group::{SyncGroupRequest, write_sync_response};
use kafka::read::Reader;
use kafka::{ApiKey, ErrorCode, Malformed};
use partition_log::disk::{CommitNumber, CommitState, CommitWatch};
use tokio::sync::oneshot;

use super::group_reader::GroupReader;
use super::kept_answer::{KeptAnswer, Until, unless_kept};
use super::operations;
use super::output::Output;
use super::requests::{GroupTask, check_partitions};
use super::session::Session;
use super::topics::{self, PartitionChecks};
use crate::front::time_slice::TimeSlice;
use crate::groups::{Changed, Client, Reader as _, Reply, Topic, Topics};
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
    group_id: String,
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
        let waits = |group_id: &str, receiver| {
            let (group_id, correlation_id) = (group_id.to_owned(), header.correlation_id);
            Ok(Waiting::Member(Membership { group_id, version, correlation_id, receiver, reply: None }))
        };
        match task {
            GroupTask::JoinGroup => {
                let request = JoinGroupRequest::read(body, version)?;
                let host = self.client_host();
                let client = Client { id: header.client_id.unwrap_or_default(), host: &host, version };
                let receiver = match self.may_join(&request) {
                    true => groups.join(&request, client, self.session.principal()),
                    false => {
                        let reply = Reply::Join(ErrorCode::GroupAuthorizationFailed, Default::default());
                        let (sender, receiver) = oneshot::channel();
                        // The receiver is there.
                        let _ = sender.send(Changed { results: reply, commit: CommitNumber::DONE });
                        receiver
                    }
                };
                return waits(request.group_id, receiver);
            }
            GroupTask::SyncGroup => {
                let request = SyncGroupRequest::read(body, version)?;
                return waits(request.member.group_id, groups.sync(&request));
            }
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
                let member = MemberRef::read_heartbeat(body, version)?;
                let error = groups.heartbeat(&member);
                output.answer(key, version, header.correlation_id, |writer| {
                    write_heartbeat_response(writer, version, (member.group_id, error), 0)
                });
            }
            GroupTask::LeaveGroup => {
                let request = LeaveGroupRequest::read(body, version)?;
                // Operators have others leave by the names that these keep.
                let are_named_by_id = request.members.iter().all(|(member_id, _)| !member_id.is_empty());
                let errors = match are_named_by_id || groups.admits(request.group_id, &self.reader()) {
                    true => groups.leave(&request),
                    false => vec![ErrorCode::GroupAuthorizationFailed; request.members.len()],
                };
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
                let reader = self.reader();
                let found = request.groups.iter().map(|group| readable(fetch(group), group, &reader));
                let found: Vec<_> = found.collect();
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
                    match groups.admits(request.group_id, &self.reader().deleting()) {
                        true => groups.delete_offsets(request.group_id, &request.partitions, exists),
                        false => Changed {
                            results: Err(ErrorCode::GroupAuthorizationFailed),
                            commit: CommitNumber::DONE,
                        },
                    };
                let until = Until::Commit(commit);
                return Ok(KeptAnswer::after(until, header, key, output, |writer, is_kept| {
                    let results = results.as_ref().map(|errors| unless_kept(errors, is_kept));
                    request.write_response(writer, results.as_deref().map_err(|error| **error), 0);
                })
                .into());
            }
            GroupTask::DescribeGroups => {
                let (group_ids, asks_operations) = read_describe(body, version)?;
                let described = groups.describe(&group_ids);
                let reader = self.reader();
                let of_group = |group: DescribedGroup| match groups.admits(&group.group_id, &reader) {
                    true => {
                        let operations = self.operations(&group.group_id, asks_operations);
                        (ErrorCode::None, group, operations)
                    }
                    false => {
                        let nothing = DescribedGroup { group_id: group.group_id, ..Default::default() };
                        (ErrorCode::GroupAuthorizationFailed, nothing, AuthorizedOperations::NOT_ASKED)
                    }
                };
                let described: Vec<_> = described.into_iter().map(of_group).collect();
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
                    consumer_group::write_heartbeat_response(writer, request.group_id, result, 0);
                })
                .into());
            }
            GroupTask::ConsumerGroupDescribe => {
                let (group_ids, asks_operations) = consumer_group::read_describe(body)?;
                let described = groups.describe_consumers(&group_ids);
                let reader = self.reader();
                let of_group = |(error, group): (ErrorCode, DescribedConsumerGroup)| match groups
                    .admits(&group.group_id, &reader)
                {
                    true => {
                        let asks_operations = asks_operations && error == ErrorCode::None;
                        let operations = self.operations(&group.group_id, asks_operations);
                        (error, group, operations)
                    }
                    false => {
                        let nothing =
                            DescribedConsumerGroup { group_id: group.group_id, ..Default::default() };
                        (ErrorCode::GroupAuthorizationFailed, nothing, AuthorizedOperations::NOT_ASKED)
                    }
                };
                let described: Vec<_> = described.into_iter().map(of_group).collect();
                output.answer(key, version, header.correlation_id, |writer| {
                    consumer_group::write_describe_response(writer, version, &described, 0)
                });
            }
            GroupTask::ListGroups => {
                let listed = groups.list(&ListGroupsRequest::read(body, version)?, &self.reader());
                output.answer(key, version, header.correlation_id, |writer| {
                    write_list_response(writer, version, &listed, 0)
                });
            }
            GroupTask::DeleteGroups => {
                let group_ids = read_delete(body)?;
                let reader = self.reader().deleting();
                let (own, others): (Vec<&str>, Vec<&str>) =
                    group_ids.iter().partition(|group_id| groups.admits(group_id, &reader));
                let Changed { mut results, commit } = groups.delete(&own);
                results.extend(others.iter().map(|_| ErrorCode::GroupAuthorizationFailed));
                let group_ids = [own, others].concat();
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
        let is_new = request.member_epoch == consumer_group::JOIN;
        if is_new && !self.coordinators.groups.admits(request.group_id, &self.reader()) {
            let text = "the group reads topics that the client may not read".to_owned();
            return Changed {
                results: Err((ErrorCode::GroupAuthorizationFailed, text)),
                commit: CommitNumber::DONE,
            };
        }
        let (id, host) = (header.client_id.unwrap_or_default(), self.client_host());
        let client = Client { id, host: &host, version: header.version };
        self.coordinators.groups.consumer_heartbeat(request, client, self.session.principal(), self)
    }

    /// Where the client is, as operators see it.
    fn client_host(&self) -> String {
        format!("/{}", self.peer.to_canonical())
    }

    /// Whether a client may become a member of a group, or stay one.
    fn may_join(&self, request: &JoinGroupRequest<'_>) -> bool {
        let reader = self.reader();
        let is_known = !request.member_id.is_empty();
        if reader.reads_all() {
            return true;
        }
        let metadata = request.protocols.first().map(|(_, metadata)| *metadata);
        let subscription = metadata.and_then(|metadata| Subscription::read(metadata).ok());
        let topics = subscription.map(|subscription| subscription.topics).unwrap_or_default();
        topics.into_iter().all(|topic| reader.reads(topic))
            && (is_known || self.coordinators.groups.admits(request.group_id, &reader))
    }

    /// What the client may do with a group, if it asks.
    fn operations(&self, group_id: &str, asks_operations: bool) -> AuthorizedOperations {
        match asks_operations {
            true => operations::of_group(&self.coordinators.groups, self.namespace, self.session, group_id),
            false => AuthorizedOperations::NOT_ASKED,
        }
    }

    /// This client as groups see it.
    const fn reader(&self) -> GroupReader<'_> {
        GroupReader::new(self.namespace, self.session)
    }

    /// Takes offsets, a part of them at a time.
    async fn commit(&self, request: &OffsetCommitRequest<'_>) -> Changed<Vec<ErrorCode>> {
        if !self.reader().may_commit(&self.coordinators.groups, &request.member) {
            let results = vec![ErrorCode::GroupAuthorizationFailed; request.partitions.len()];
            return Changed { results, commit: CommitNumber::DONE };
        }
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

/// Returns the offsets that a client may read.
fn readable(
    mut found: Vec<FetchedOffset>,
    asked: &AskedGroup<'_>,
    reader: &GroupReader<'_>,
) -> Result<Vec<FetchedOffset>, ErrorCode> {
    if reader.reads_all() {
        return Ok(found);
    }
    if !reader.reads_some() {
        return Err(ErrorCode::GroupAuthorizationFailed);
    }
    match asked.topics {
        None => found.retain(|offset| reader.reads(&offset.topic)),
        Some(_) => {
            for offset in found.iter_mut().filter(|offset| !reader.reads(&offset.topic)) {
                offset.offset = -1;
                offset.leader_epoch = -1;
                offset.metadata.clear();
                offset.error = ErrorCode::TopicAuthorizationFailed;
            }
        }
    }
    Ok(found)
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
        let Self { group_id, version, correlation_id, reply, .. } = self;
        match reply.map(|reply| reply.results) {
            Some(Reply::Join(error, response)) => {
                output.answer(ApiKey::JoinGroup, version, correlation_id, |writer| {
                    write_join_response(writer, version, (&group_id, error), &response, 0);
                });
            }
            Some(Reply::Sync(error, response)) => {
                output.answer(ApiKey::SyncGroup, version, correlation_id, |writer| {
                    write_sync_response(writer, version, (&group_id, error), &response, 0);
                });
            }
            None => {}
        }
    }
}

/// Offsets that are taken before others have their turn.
const OFFSETS_AT_ONCE: usize = 8_192;
