//! One group: what it has committed, and how its members agree.
//!
//! Members agree among themselves (`classic_group`), or the broker assigns partitions (`consumer_group`). A group without members
//! becomes whatever the first one speaks; its offsets stay.

use kafka::ErrorCode;
use kafka::messages::group::MemberRef;
use kafka::messages::group_admin::DescribedGroup;
use partition_log::disk::CommitNumber;
use tokio::time::Instant;

use super::classic_group::{ClassicGroup, Reply};
use super::consumer_group::ConsumerGroup;
use super::keeping::Changed;
use super::offsets::Offsets;
use crate::journal::Record;
use crate::namespace::Principal;

/// See the module.
#[derive(Debug)]
pub(super) struct Group {
    agreement: Agreement,
    /// The principal that created it; `None` if a restart was in between.
    pub(super) creator: Option<Principal>,
    /// The commit of the last record of its members.
    pub(super) members_commit: CommitNumber,
    pub(super) offsets: Offsets,
    /// Memory of its members at the last [`count_members`](Self::count_members), in bytes.
    member_bytes: usize,
    /// Bytes that the budget of all groups is charged for it.
    pub(super) charged: usize,
}

/// State machine of a group, by the protocol of its members.
#[derive(Debug)]
pub(super) enum Agreement {
    Classic(ClassicGroup),
    Consumer(ConsumerGroup),
}

/// The members that the journal has of a group.
#[derive(Debug)]
pub(super) enum RestoredMembers {
    None,
    Classic(ClassicGroup),
    Consumer(ConsumerGroup),
}

/// A request that waits.
pub(super) type Ticket = u64;

/// Who asks, beside what the request says.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Client<'a> {
    /// What it calls itself.
    pub(crate) id: &'a str,
    /// Where it is.
    pub(crate) host: &'a str,
    /// The version of its request.
    pub(crate) version: i16,
}

impl Group {
    pub(super) fn new(now: Instant) -> Self {
        Self::of(ClassicGroup::new(now), Offsets::default())
    }

    /// Restores a group with its members, if the journal has any.
    pub(super) fn restored(now: Instant, members: RestoredMembers, offsets: Offsets) -> Self {
        let protocol_type = offsets.kept.as_ref().map(|kept| kept.protocol_type.clone()).unwrap_or_default();
        match members {
            RestoredMembers::None => Self::of(ClassicGroup::restored(now, protocol_type), offsets),
            RestoredMembers::Classic(group) => Self::of(group, offsets),
            RestoredMembers::Consumer(group) => {
                let agreement = Agreement::Consumer(group);
                Self { agreement, ..Self::of(ClassicGroup::new(now), offsets) }
            }
        }
    }

    const fn of(group: ClassicGroup, offsets: Offsets) -> Self {
        let agreement = Agreement::Classic(group);
        Self {
            agreement,
            creator: None,
            members_commit: CommitNumber::DONE,
            offsets,
            member_bytes: 0,
            charged: 0,
        }
    }

    pub(super) const fn agreement(&self) -> &Agreement {
        &self.agreement
    }

    /// Whether its members may have changed since they were stored.
    pub(super) fn may_have_changed(&self) -> bool {
        match &self.agreement {
            Agreement::Classic(_) => true,
            Agreement::Consumer(group) => group.has_unstored(),
        }
    }

    /// Measures its members.
    pub(super) fn count_members(&mut self) {
        self.member_bytes = match &self.agreement {
            Agreement::Classic(group) => group.bytes(),
            Agreement::Consumer(group) => group.bytes(),
        };
    }

    /// Returns its memory in bytes: members as they were counted last, and offsets.
    pub(super) const fn bytes(&self) -> usize {
        self.member_bytes + self.offsets.bytes()
    }

    /// The group as one whose members agree among themselves; `None` if it has members that do not.
    pub(super) fn classic(&mut self, now: Instant) -> Option<&mut ClassicGroup> {
        if matches!(&self.agreement, Agreement::Consumer(group) if group.empty_since().is_some()) {
            self.agreement = Agreement::Classic(ClassicGroup::new(now));
        }
        self.known_classic()
    }

    /// The same for a request that only a member can make.
    pub(super) fn known_classic(&mut self) -> Option<&mut ClassicGroup> {
        match &mut self.agreement {
            Agreement::Classic(group) => Some(group),
            Agreement::Consumer(_) => None,
        }
    }

    /// The group as one whose partitions the broker assigns; `None` if it has members that assign them themselves.
    pub(super) fn consumer(&mut self, now: Instant) -> Option<&mut ConsumerGroup> {
        if matches!(&self.agreement, Agreement::Classic(group) if group.empty_since().is_some()) {
            self.agreement = Agreement::Consumer(ConsumerGroup::new(now));
        }
        match &mut self.agreement {
            Agreement::Consumer(group) => Some(group),
            Agreement::Classic(_) => None,
        }
    }

    /// The same, to look at. A group that never had another member is none.
    pub(super) const fn known_consumer(&self) -> Option<&ConsumerGroup> {
        match &self.agreement {
            Agreement::Consumer(group) => Some(group),
            Agreement::Classic(_) => None,
        }
    }

    /// The replies that are due, each with the commit that it depends on.
    pub(super) fn take_replies(&mut self) -> Vec<(Ticket, Changed<Reply>)> {
        let members_commit = self.members_commit;
        let Some(group) = self.known_classic() else {
            return Vec::new();
        };
        let is_stable = group.is_stable();
        let with_commit = |(ticket, reply)| {
            let depends = match &reply {
                Reply::Sync(error, _) => *error == ErrorCode::None,
                Reply::Join(error, _) => *error == ErrorCode::None && is_stable,
            };
            let commit = if depends { members_commit } else { CommitNumber::DONE };
            (ticket, Changed { results: reply, commit })
        };
        group.take_replies().into_iter().map(with_commit).collect()
    }

    /// Whether the journal has members of this group, or is to have them.
    pub(super) fn has_stored_members(&self) -> bool {
        match &self.agreement {
            Agreement::Classic(group) => group.is_stored(),
            Agreement::Consumer(group) => group.is_stored(),
        }
    }

    /// Returns the records to write before replies are sent.
    pub(super) fn unstored<'a>(&'a self, group_id: &'a str) -> Vec<Record<'a>> {
        match &self.agreement {
            Agreement::Classic(group) => {
                group.unstored(group_id).map(Record::Generation).into_iter().collect()
            }
            Agreement::Consumer(group) => group.unstored(group_id),
        }
    }

    /// Returns the records of all members, if the journal has any.
    pub(super) fn account_of_members<'a>(&'a self, group_id: &'a str) -> Vec<Record<'a>> {
        match &self.agreement {
            Agreement::Classic(group) => {
                group.account(group_id).map(Record::Generation).into_iter().collect()
            }
            Agreement::Consumer(group) => group.account(group_id),
        }
    }

    /// Notes that the records of members are written.
    pub(super) fn note_stored(&mut self, commit: CommitNumber) {
        self.members_commit = commit;
        match &mut self.agreement {
            Agreement::Classic(group) => group.note_stored(),
            Agreement::Consumer(group) => group.note_stored(),
        }
    }

    /// Notes that what was written of members did not reach the disk.
    pub(super) fn note_lost(&mut self) {
        match &mut self.agreement {
            Agreement::Classic(group) => group.note_lost(),
            Agreement::Consumer(group) => group.note_lost(),
        }
    }

    /// Takes back replies that depend on records that could not be written.
    pub(super) fn refuse_unstored(&mut self, now: Instant) {
        match &mut self.agreement {
            Agreement::Classic(group) => group.refuse_unstored(now),
            // Its replies are not taken down, but returned: the caller refuses them.
            Agreement::Consumer(_) => {}
        }
    }

    /// Checks who commits offsets of these partitions: a member of this generation or epoch, or, where there is no member, any client
    /// that says that it is none.
    pub(super) fn check_commit<'p>(
        &mut self,
        now: Instant,
        member: &MemberRef<'_>,
        partitions: impl Iterator<Item = (&'p str, i32)>,
    ) -> Result<(), ErrorCode> {
        match &mut self.agreement {
            Agreement::Classic(group) => group.check_commit(now, member),
            Agreement::Consumer(group) => group.check_commit(member, partitions),
        }
    }

    /// Checks who commits offsets of these partitions with a transaction. Clients of the first versions do not say who they are.
    pub(super) fn check_transactional<'p>(
        &mut self,
        now: Instant,
        member: &MemberRef<'_>,
        partitions: impl Iterator<Item = (&'p str, i32)>,
    ) -> Result<(), ErrorCode> {
        let names_itself =
            member.generation >= 0 || !member.member_id.is_empty() || member.instance_id.is_some();
        match &mut self.agreement {
            _ if !names_itself => Ok(()),
            Agreement::Classic(group) => group.check_member(now, member),
            Agreement::Consumer(group) => group.check_commit(member, partitions),
        }
    }

    /// Whether a member has subscribed to this topic.
    pub(super) fn is_subscribed_to(&self, topic: &str) -> bool {
        match &self.agreement {
            Agreement::Classic(group) => group.is_subscribed_to(topic),
            Agreement::Consumer(group) => group.is_subscribed_to(topic),
        }
    }

    /// Does what is due by `now`.
    pub(super) fn expire(&mut self, now: Instant) {
        match &mut self.agreement {
            Agreement::Classic(group) => group.expire(now),
            Agreement::Consumer(group) => group.expire(now),
        }
    }

    /// When there is something to be done next.
    pub(super) fn next_deadline(&self) -> Option<Instant> {
        match &self.agreement {
            Agreement::Classic(group) => group.next_deadline(),
            Agreement::Consumer(group) => group.next_deadline(),
        }
    }

    /// Since when it has no member, and no one is about to become one.
    pub(super) fn empty_since(&self) -> Option<Instant> {
        match &self.agreement {
            Agreement::Classic(group) => group.empty_since(),
            Agreement::Consumer(group) => group.empty_since(),
        }
    }

    /// What operators call its state.
    pub(super) fn state_name(&self) -> &'static str {
        match &self.agreement {
            Agreement::Classic(group) => group.state_name(),
            Agreement::Consumer(group) => group.state_name(),
        }
    }

    /// How its members agree, as operators call it.
    pub(super) const fn type_name(&self) -> &'static str {
        match &self.agreement {
            Agreement::Classic(_) => "classic",
            Agreement::Consumer(_) => "consumer",
        }
    }

    /// What its members share; empty if it never had one.
    pub(super) fn protocol_type(&self) -> &str {
        match &self.agreement {
            Agreement::Classic(group) => group.protocol_type(),
            Agreement::Consumer(_) => CONSUMER,
        }
    }

    /// How many members it has.
    pub(super) fn member_count(&self) -> usize {
        match &self.agreement {
            Agreement::Classic(group) => group.member_count(),
            Agreement::Consumer(group) => group.member_count(),
        }
    }

    /// What there is to say of it to those who know the classic protocol; `None` if it is no group of that.
    pub(super) fn describe(&self, group_id: &str) -> Option<DescribedGroup> {
        match &self.agreement {
            Agreement::Classic(group) => Some(group.describe(group_id)),
            Agreement::Consumer(_) => None,
        }
    }
}

/// What kind of group consumers of records make. Others assign something else than partitions.
pub(super) const CONSUMER: &str = "consumer";

/// Returns the memory of what a member says of itself, in bytes: names and other values of these lengths.
pub(super) fn metadata_bytes(lengths: impl Iterator<Item = usize>) -> usize {
    lengths.map(|length| length + VALUE_BYTES).sum()
}

/// Memory of a string or a similar value beside its content, in bytes.
const VALUE_BYTES: usize = 64;

/// Memory of a member beside what it says of itself, in bytes.
pub(super) const MEMBER_BYTES: usize = 512;

/// Maximum number of members of one group, and of those about to become one.
pub(super) const MEMBERS_MAX: usize = 10_000;

/// Maximum [memory](metadata_bytes) of what the members of one group say of themselves together, in bytes. With their assignments it
/// makes one batch of the journal.
pub(super) const METADATA_BYTES_MAX: usize = 32 * 1024 * 1024;
