//! One member: what it says of itself, and what it waits for.

use std::time::Duration;

use kafka::messages::consumer_protocol::Subscription;
use kafka::messages::join_group::JoinGroupRequest;
use tokio::time::Instant;

use crate::groups::group::{self, Client, Ticket};
use crate::journal::MemberRecord;

/// See the module.
#[derive(Debug)]
pub(super) struct Member {
    pub(super) instance_id: Option<String>,
    pub(super) client_id: String,
    pub(super) host: String,
    pub(super) session_timeout: Duration,
    pub(super) rebalance_timeout: Duration,
    pub(super) protocols: Vec<(String, Vec<u8>)>,
    pub(super) assignment: Vec<u8>,
    /// When it is taken for gone, unless it is waiting for us.
    pub(super) gone_at: Instant,
    pub(super) join: Option<Ticket>,
    pub(super) sync: Option<Ticket>,
    /// Whether it knows that a leader may have nothing to assign.
    pub(super) may_skip: bool,
    pub(super) order: u64,
}

impl Member {
    pub(super) fn new(
        now: Instant,
        ticket: Ticket,
        request: &JoinGroupRequest<'_>,
        client: Client<'_>,
        order: u64,
    ) -> Self {
        let mut member = Self {
            instance_id: request.instance_id.map(str::to_owned),
            client_id: String::new(),
            host: String::new(),
            session_timeout: Duration::ZERO,
            rebalance_timeout: Duration::ZERO,
            protocols: Vec::new(),
            assignment: Vec::new(),
            gone_at: now,
            join: None,
            sync: None,
            may_skip: false,
            order,
        };
        member.update(now, ticket, request, client);
        member
    }

    pub(super) fn update(
        &mut self,
        now: Instant,
        ticket: Ticket,
        request: &JoinGroupRequest<'_>,
        client: Client<'_>,
    ) {
        self.client_id = client.id.to_owned();
        self.host = client.host.to_owned();
        self.session_timeout = milliseconds(request.session_timeout_ms);
        self.rebalance_timeout = milliseconds(request.rebalance_timeout_ms);
        self.protocols = request
            .protocols
            .iter()
            .map(|(name, metadata)| ((*name).to_owned(), metadata.to_vec()))
            .collect();
        self.gone_at = now + self.session_timeout;
        self.join = Some(ticket);
        self.may_skip = client.version >= FIRST_WITH_SKIPPING;
    }

    /// Restores a member. Its session begins at `now`.
    pub(super) fn of_record(now: Instant, record: &MemberRecord<'_>, order: u64) -> Self {
        let session_timeout = milliseconds(record.session_timeout_ms);
        let protocols = record.protocols.iter();
        Self {
            instance_id: record.instance_id.map(str::to_owned),
            client_id: record.client_id.to_owned(),
            host: record.host.to_owned(),
            session_timeout,
            rebalance_timeout: milliseconds(record.rebalance_timeout_ms),
            protocols: protocols.map(|(name, metadata)| ((*name).to_owned(), metadata.to_vec())).collect(),
            assignment: record.assignment.to_vec(),
            gone_at: now + session_timeout,
            join: None,
            sync: None,
            may_skip: false,
            order,
        }
    }

    /// Returns the record of this member.
    pub(super) fn record<'a>(&'a self, member_id: &'a str) -> MemberRecord<'a> {
        let to_milliseconds = |time: Duration| i32::try_from(time.as_millis()).unwrap_or(i32::MAX);
        MemberRecord {
            member_id,
            instance_id: self.instance_id.as_deref(),
            client_id: &self.client_id,
            host: &self.host,
            session_timeout_ms: to_milliseconds(self.session_timeout),
            rebalance_timeout_ms: to_milliseconds(self.rebalance_timeout),
            protocols: self
                .protocols
                .iter()
                .map(|(name, metadata)| (name.as_str(), metadata.as_slice()))
                .collect(),
            assignment: &self.assignment,
        }
    }

    /// Returns the memory of what the member says of itself, in bytes.
    pub(super) fn metadata_bytes(&self) -> usize {
        let protocols = self.protocols.iter().map(|(name, metadata)| name.len() + metadata.len());
        let others = [self.client_id.len(), self.instance_id.as_ref().map_or(0, String::len)];
        group::metadata_bytes(protocols.chain(others))
    }

    pub(super) fn protocols_are(&self, request: &JoinGroupRequest<'_>) -> bool {
        let own = self.protocols.iter().map(|(name, metadata)| (name.as_str(), metadata.as_slice()));
        own.eq(request.protocols.iter().copied())
    }

    pub(super) fn metadata(&self, protocol: &str) -> Option<&[u8]> {
        self.protocols.iter().find(|(name, _)| name == protocol).map(|(_, metadata)| metadata.as_slice())
    }

    /// The topics that it has subscribed to; `None` if they can't be read.
    pub(super) fn topics(&self) -> Option<Vec<&str>> {
        let (_, metadata) = self.protocols.first()?;
        Subscription::read(metadata).ok().map(|subscription| subscription.topics)
    }

    /// Whether it has subscribed to this topic. What can't be read may mean any topic.
    pub(super) fn may_want(&self, topic: &str) -> bool {
        self.topics().is_none_or(|topics| topics.contains(&topic))
    }

    /// Whether it waits for us, and can't show that it is there.
    pub(super) const fn is_waiting(&self) -> bool {
        self.join.is_some() || self.sync.is_some()
    }
}

/// Returns the same for a member that joins.
pub(super) fn metadata_bytes(request: &JoinGroupRequest<'_>, client: Client<'_>) -> usize {
    let protocols = request.protocols.iter().map(|(name, metadata)| name.len() + metadata.len());
    group::metadata_bytes(protocols.chain([client.id.len(), request.instance_id.map_or(0, str::len)]))
}

pub(super) fn milliseconds(milliseconds: i32) -> Duration {
    Duration::from_millis(u64::try_from(milliseconds).unwrap_or(0))
}

/// From this version of JoinGroup on a leader can be told that it has nothing to assign.
const FIRST_WITH_SKIPPING: i16 = 9;
