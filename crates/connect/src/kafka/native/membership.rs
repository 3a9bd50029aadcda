//! What a member of a consumer group asks its coordinator. Each is asked once: whether and when again is for the member to say.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use kafka::fetch::TopicRef;
use kafka::messages::group::{LeaveGroupRequest, LeaveGroupResponse, MemberRef, read_heartbeat_response};
use kafka::messages::join_group::{JoinGroupRequest, JoinGroupResult};
use kafka::messages::metadata::{MetadataRequest, MetadataResponse};
use kafka::messages::sync_group::{SyncGroupRequest, SyncGroupResult};
use kafka::{ApiKey, ErrorCode};

use super::coordinator::Coordinator;
use super::error::malformed;
use crate::service::ServiceError;

impl Coordinator {
    /// Joins, and waits until the group is complete.
    ///
    /// # Errors
    /// There is no connection, or no answer.
    pub(crate) async fn join(
        &mut self,
        request: &JoinGroupRequest<'_>,
        patience: Duration,
    ) -> Result<JoinGroupResult, ServiceError> {
        let answer = self
            .ask(ApiKey::JoinGroup, (0, 9), patience, |writer, version| request.write(writer, version))
            .await?;
        let joined = JoinGroupResult::read(answer.reader(), answer.version).map_err(malformed)?;
        self.keep_unless_elsewhere(joined.error);
        Ok(joined)
    }

    /// Brings what each member is to have, or fetches it.
    ///
    /// # Errors
    /// There is no connection, or no answer.
    pub(crate) async fn sync(
        &mut self,
        request: &SyncGroupRequest<'_>,
        patience: Duration,
    ) -> Result<SyncGroupResult, ServiceError> {
        let answer = self
            .ask(ApiKey::SyncGroup, (0, 5), patience, |writer, version| request.write(writer, version))
            .await?;
        let synced = SyncGroupResult::read(answer.reader(), answer.version).map_err(malformed)?;
        self.keep_unless_elsewhere(synced.error);
        Ok(synced)
    }

    /// Shows that the member is there. Gives what the coordinator thinks of that.
    ///
    /// # Errors
    /// There is no connection, or no answer.
    pub(crate) async fn beat(
        &mut self,
        member: &MemberRef<'_>,
        patience: Duration,
    ) -> Result<ErrorCode, ServiceError> {
        let answer = self
            .ask(ApiKey::Heartbeat, (0, 4), patience, |writer, version| {
                member.write_heartbeat(writer, version)
            })
            .await?;
        let outcome = read_heartbeat_response(answer.reader(), answer.version).map_err(malformed)?;
        self.keep_unless_elsewhere(outcome.error);
        Ok(outcome.error)
    }

    /// Leaves at once, so that the others need not wait for the end of the session.
    ///
    /// # Errors
    /// There is no connection, or no answer.
    pub(crate) async fn leave(&mut self, member_id: &str) -> Result<ErrorCode, ServiceError> {
        let group_id = self.group_id().to_owned();
        let request = LeaveGroupRequest { group_id: &group_id, members: vec![(member_id, None)] };
        let patience = self.request_timeout();
        let answer = self
            .ask(ApiKey::LeaveGroup, (0, 5), patience, |writer, version| request.write(writer, version))
            .await?;
        let left = LeaveGroupResponse::read(answer.reader(), answer.version).map_err(malformed)?;
        Ok(match left.error {
            ErrorCode::None => left.members.first().map_or(ErrorCode::None, |(_, _, error)| *error),
            error => error,
        })
    }

    /// How many partitions each of these topics has. Those that are not there, or not to be seen, are left out.
    ///
    /// # Errors
    /// There is no connection, or no answer.
    pub(crate) async fn count_partitions(
        &mut self,
        topics: &[Arc<str>],
    ) -> Result<BTreeMap<Arc<str>, i32>, ServiceError> {
        let request = MetadataRequest {
            topics: Some(topics.iter().map(|topic| TopicRef::Name(topic)).collect()),
            ..MetadataRequest::default()
        };
        let patience = self.request_timeout();
        let answer = self
            .ask(ApiKey::Metadata, (1, 12), patience, |writer, version| request.write(writer, version))
            .await?;
        let response = MetadataResponse::read(answer.reader(), answer.version).map_err(malformed)?;
        let counts = topics.iter().filter_map(|topic| {
            let found = response.topics.iter().find(|found| found.name == Some(topic))?;
            let count = i32::try_from(found.partitions.len()).ok()?;
            Some((Arc::clone(topic), count)).filter(|_| found.error == ErrorCode::None)
        });
        let counts = counts.collect();
        self.keep_unless_elsewhere(ErrorCode::None);
        Ok(counts)
    }
}
