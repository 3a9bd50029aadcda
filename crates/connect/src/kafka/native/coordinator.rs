//! The broker that keeps the offsets of a consumer group, and what is asked of it about them. What its members ask besides is in
//! `membership`.
//!
//! Which broker that is, is asked of those that are named; the connection to it is made when it is needed, and kept. A connection
//! that has been idle may be gone, and the group may have moved: then the same is asked once more of the broker that has it now.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use kafka::messages::find_coordinator::GROUP_KEY;
use kafka::messages::group::MemberRef;
use kafka::messages::offset_commit::{CommittedOffset, OffsetCommitRequest};
use kafka::messages::offset_fetch::{AskedGroup, OffsetFetchRequest, OffsetFetchResponse};
use kafka::messages::outcome::PartitionOutcome;
use kafka::write::Writer;
use kafka::{ApiKey, ErrorCode, Malformed};
use tokio::time::Instant;

use super::connection::{Answer, Connection};
use super::endpoint::Endpoint;
use super::error::{malformed, refused};
use super::find_coordinator::{self, NotFound};
use crate::retry::RetryPolicy;
use crate::service::ServiceError;
use crate::service::error::LOST;

/// See the module.
#[derive(Debug)]
pub(crate) struct Coordinator {
    endpoint: Arc<Endpoint>,
    group_id: String,
    /// Not here while something is asked: a question that is given up takes the connection with it.
    connection: Option<Connection<()>>,
}

/// Who commits.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Committer<'a> {
    pub(crate) generation: i32,
    pub(crate) member_id: &'a str,
    pub(crate) instance_id: Option<&'a str>,
}

impl Committer<'_> {
    /// No member: those who assign partitions to themselves have no generation.
    pub(crate) const NOBODY: Self = Self { generation: -1, member_id: "", instance_id: None };
}

/// Where a group goes on in a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NextOffset {
    /// The partition's number.
    pub(crate) index: i32,
    /// The offset of the next record.
    pub(crate) offset: i64,
}

/// Why a try came to nothing.
enum Failure {
    /// The coordinator says that it can't answer now, or that it is another broker.
    NotNow(ErrorCode),
    /// Another try would go as this one.
    Error(ServiceError),
    /// A connection that had been kept broke.
    Stale(ServiceError),
}

impl Coordinator {
    /// The coordinator of a group. Nothing is asked yet.
    pub(crate) fn of(endpoint: Arc<Endpoint>, group_id: &str) -> Self {
        Self { endpoint, group_id: group_id.to_owned(), connection: None }
    }

    /// Which group it is.
    pub(crate) fn group_id(&self) -> &str {
        &self.group_id
    }

    /// Connects to it, if there is no connection.
    ///
    /// # Errors
    /// No broker can be reached, or the login or the group is refused.
    pub(crate) async fn connect(&mut self) -> Result<(), ServiceError> {
        let mut tries = self.tries();
        loop {
            match self.connected().await {
                Ok((connection, _is_new)) => {
                    self.connection = Some(connection);
                    return Ok(());
                }
                Err(failure) => tries.next(failure, &self.group_id).await?,
            }
        }
    }

    /// Commits offsets, as a member of the group or, if that has none, as [nobody](Committer::NOBODY). Those of one topic stand
    /// together. Says what became of each.
    ///
    /// # Errors
    /// No broker can be reached, or the login or the group is refused.
    pub(crate) async fn commit(
        &mut self,
        committer: Committer<'_>,
        offsets: &[CommittedOffset<'_>],
    ) -> Result<Vec<ErrorCode>, ServiceError> {
        let mut tries = self.tries();
        loop {
            match self.try_commit(committer, offsets).await {
                Ok(outcomes) => return Ok(outcomes),
                Err(failure) => tries.next(failure, &self.group_id).await?,
            }
        }
    }

    /// Where the group goes on in the partitions of a topic, in those in which it has been.
    ///
    /// # Errors
    /// As with [`commit`](Self::commit); or an offset can't be told.
    pub(crate) async fn offsets(&mut self, topic: &str) -> Result<Vec<NextOffset>, ServiceError> {
        let mut tries = self.tries();
        let mut stable = BTreeMap::new();
        loop {
            match self.try_offsets(topic, &mut stable).await {
                Ok(offsets) => return Ok(offsets),
                Err(failure) => tries.next(failure, &self.group_id).await?,
            }
        }
    }

    async fn try_commit(
        &mut self,
        Committer { generation, member_id, instance_id }: Committer<'_>,
        offsets: &[CommittedOffset<'_>],
    ) -> Result<Vec<ErrorCode>, Failure> {
        let (mut connection, is_new) = self.connected().await?;
        let version = connection.version(ApiKey::OffsetCommit, 2, 9)?;
        let member = MemberRef { group_id: &self.group_id, generation, member_id, instance_id };
        let request = OffsetCommitRequest { member, partitions: offsets.to_vec() };
        let answer = connection.ask(ApiKey::OffsetCommit, version, |writer| request.write(writer, version));
        let answer = answer.await.map_err(|error| Failure::of_connection(error, is_new))?;
        let response = OffsetCommitRequest::read_response(answer.reader(), version).map_err(malformed)?;
        let found = &response.partitions;
        let outcomes: Option<Vec<ErrorCode>> = offsets
            .iter()
            .enumerate()
            .map(|(place, asked)| {
                let is_of = |it: &&PartitionOutcome<'_>| it.topic == asked.topic && it.index == asked.index;
                // Brokers answer in the order in which they were asked; it is nowhere said that they do.
                let outcome = found.get(place).filter(is_of).or_else(|| found.iter().find(is_of));
                outcome.map(|outcome| outcome.error)
            })
            .collect();
        let outcomes = outcomes.ok_or_else(|| malformed(Malformed("partitions: one is missing")))?;
        // All of it is asked again: to commit twice is to commit once.
        self.keep(connection, outcomes.iter().copied())?;
        Ok(outcomes)
    }

    /// Asks once. What no transaction could change in one of the tries counts, though another may have begun since then: relays that
    /// divide the partitions of a topic need not all hold still at once.
    async fn try_offsets(
        &mut self,
        topic: &str,
        stable: &mut BTreeMap<i32, i64>,
    ) -> Result<Vec<NextOffset>, Failure> {
        let (mut connection, is_new) = self.connected().await?;
        let version = connection.version(ApiKey::OffsetFetch, 2, 9)?;
        let request = OffsetFetchRequest {
            // All partitions that it has been in, so that nobody has to be asked which there are.
            groups: vec![AskedGroup { group_id: &self.group_id, topics: None }],
            require_stable: true,
        };
        let answer = connection.ask(ApiKey::OffsetFetch, version, |writer| request.write(writer, version));
        let answer = answer.await.map_err(|error| Failure::of_connection(error, is_new))?;
        let mut response = OffsetFetchResponse::read(answer.reader(), version).map_err(malformed)?;
        let group = response.groups.pop().ok_or_else(|| malformed(Malformed("groups: there is none")))?;
        let offsets = match group.offsets {
            Ok(offsets) => offsets,
            Err(code) => {
                self.keep(connection, [code])?;
                return Err(self.refused(code).into());
            }
        };
        let offsets = || offsets.iter().filter(|offset| offset.topic == topic);
        let known = offsets().filter(|offset| offset.error == ErrorCode::None);
        stable.extend(known.map(|offset| (offset.index, offset.offset)));
        let unknown = offsets().filter(|offset| match offset.error {
            ErrorCode::None => false,
            code => code != ErrorCode::UnstableOffsetCommit || !stable.contains_key(&offset.index),
        });
        let errors: Vec<ErrorCode> = unknown.map(|offset| offset.error).collect();
        self.keep(connection, errors.iter().copied())?;
        if let Some(code) = errors.first() {
            return Err(self.refused(*code).into());
        }
        let found = stable.iter().filter(|(_, offset)| **offset >= 0);
        Ok(found.map(|(index, offset)| NextOffset { index: *index, offset: *offset }).collect())
    }

    /// Asks once, within this time. The connection is kept: [`keep_unless_elsewhere`](Self::keep_unless_elsewhere) says whether it still is
    /// of use.
    ///
    /// # Errors
    /// There is no connection, or it broke, or the coordinator is not known.
    pub(super) async fn ask(
        &mut self,
        key: ApiKey,
        (oldest, newest): (i16, i16),
        patience: Duration,
        body: impl Fn(&mut Writer, i16),
    ) -> Result<Answer, ServiceError> {
        loop {
            let (mut connection, is_new) = self.connected().await.map_err(|failure| self.unfound(failure))?;
            let version = connection.version(key, oldest, newest)?;
            match connection.ask_within(key, version, patience, |writer| body(writer, version)).await {
                Ok(answer) => {
                    self.connection = Some(connection);
                    return Ok(answer);
                }
                // It may have been idle for long.
                Err(error) if !is_new && error.condition == LOST => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Looks for the coordinator again if this says that it is another broker.
    pub(super) fn keep_unless_elsewhere(&mut self, code: ErrorCode) {
        if is_elsewhere(code) {
            self.connection = None;
        }
    }

    /// How long an answer may take that is not waited for by the coordinator itself.
    pub(super) fn request_timeout(&self) -> Duration {
        self.endpoint.settings.request_timeout
    }

    fn unfound(&self, failure: Failure) -> ServiceError {
        match failure {
            Failure::Error(error) | Failure::Stale(error) => error,
            Failure::NotNow(code) => {
                refused(code, format!("the coordinator of the consumer group {} is not known", self.group_id))
            }
        }
    }

    /// The connection, and whether it is a new one.
    async fn connected(&mut self) -> Result<(Connection<()>, bool), Failure> {
        if let Some(connection) = self.connection.take() {
            return Ok((connection, false));
        }
        match find_coordinator::connect(&self.endpoint, &self.group_id, GROUP_KEY).await {
            Ok(connection) => Ok((connection, true)),
            Err(NotFound::Refused(code)) if may_change(code) => Err(Failure::NotNow(code)),
            Err(NotFound::Refused(code)) => Err(self.refused(code).into()),
            Err(NotFound::Error(error)) => Err(error.into()),
        }
    }

    /// Keeps a connection on which these errors came, unless one of them says that it does not lead to the coordinator any more.
    ///
    /// # Errors
    /// The first error that may be gone with the next try.
    fn keep(
        &mut self,
        connection: Connection<()>,
        errors: impl IntoIterator<Item = ErrorCode>,
    ) -> Result<(), Failure> {
        let first = errors.into_iter().find(|code| may_change(*code));
        if !first.is_some_and(is_elsewhere) {
            self.connection = Some(connection);
        }
        first.map_or(Ok(()), |code| Err(Failure::NotNow(code)))
    }

    fn refused(&self, code: ErrorCode) -> ServiceError {
        refused(code, format!("the offsets of the consumer group {} are refused", self.group_id))
    }

    fn tries(&self) -> Tries {
        let policy = RetryPolicy { delay: FIRST_DELAY, max_delay: LONGEST_DELAY, ..self.endpoint.reconnect };
        let give_up_at = Instant::now() + self.endpoint.settings.request_timeout;
        Tries { policy, give_up_at, failures: 0 }
    }
}

/// How often something was tried, and until when it is.
struct Tries {
    policy: RetryPolicy,
    give_up_at: Instant,
    failures: u32,
}

impl Tries {
    /// Waits for the time of the next try.
    ///
    /// # Errors
    /// There is none.
    async fn next(&mut self, failure: Failure, group_id: &str) -> Result<(), ServiceError> {
        match failure {
            Failure::Error(error) => Err(error),
            Failure::Stale(error) => {
                tracing::debug!(%error, group_id, "the connection to the coordinator is made again");
                Ok(())
            }
            Failure::NotNow(code) => {
                self.failures += 1;
                let delay = self.policy.delay_after(self.failures, 0).unwrap_or(LONGEST_DELAY);
                let at = Instant::now() + delay;
                if at > self.give_up_at {
                    let what = format!("the coordinator of the consumer group {group_id} does not answer");
                    return Err(refused(code, what));
                }
                tokio::time::sleep_until(at).await;
                Ok(())
            }
        }
    }
}

impl Failure {
    fn of_connection(error: ServiceError, is_new: bool) -> Self {
        match is_new {
            true => Self::Error(error),
            false => Self::Stale(error),
        }
    }
}

impl From<ServiceError> for Failure {
    fn from(error: ServiceError) -> Self {
        Self::Error(error)
    }
}

/// Whether the same may be answered otherwise after a while: the coordinator is about to be one, or another broker is; or a
/// transaction has yet to say whether its offsets count.
const fn may_change(code: ErrorCode) -> bool {
    matches!(
        code,
        ErrorCode::CoordinatorLoadInProgress
            | ErrorCode::CoordinatorNotAvailable
            | ErrorCode::NotCoordinator
            | ErrorCode::RequestTimedOut
            | ErrorCode::UnstableOffsetCommit
    )
}

/// Whether the coordinator has to be looked for.
const fn is_elsewhere(code: ErrorCode) -> bool {
    matches!(code, ErrorCode::CoordinatorNotAvailable | ErrorCode::NotCoordinator)
}

/// As Kafka's own clients have it (`retry.backoff.ms`, `retry.backoff.max.ms`).
const FIRST_DELAY: Duration = Duration::from_millis(100);
const LONGEST_DELAY: Duration = Duration::from_secs(1);
