//! The records of a group in the journal, and the group that they restore.
//!
//! What a heartbeat changes is written before it is answered, as one batch: the group, and each member that is another than before.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use tokio::time::Instant;

use super::assignment::{Assignor, PartitionSet};
use super::member::Member;
use super::{ConsumerGroup, MEMBERS_MAX, METADATA_BYTES_MAX, Topic};
use crate::journal::{ConsumerGroupRecord, ConsumerMemberRecord, Record};

/// The part of a group that the journal lacks.
#[derive(Debug, Default)]
pub(super) struct Unstored {
    /// The group itself.
    is_group: bool,
    /// The ids of members that have changed, or are gone.
    members: BTreeSet<String>,
    /// Whether the journal has anything of the group.
    is_stored: bool,
}

/// The records of one group, at the start.
#[derive(Debug, Default)]
pub(in crate::groups) struct StoredConsumers {
    group: Option<StoredGroup>,
    members: BTreeMap<String, (Member, PartitionSet)>,
    is_broken: bool,
}

#[derive(Debug)]
struct StoredGroup {
    epoch: i32,
    target_epoch: i32,
    assignor: Assignor,
    topics: BTreeMap<String, Topic>,
}

impl Unstored {
    pub(super) const fn mark_group(&mut self) {
        self.is_group = true;
    }

    pub(super) fn mark(&mut self, member_id: &str) {
        if !self.members.contains(member_id) {
            self.members.insert(member_id.to_owned());
        }
    }
}

impl ConsumerGroup {
    /// Returns the records to write before anything is answered.
    pub(in crate::groups) fn unstored<'a>(&'a self, group: &'a str) -> Vec<Record<'a>> {
        let member = |id: &'a String| match self.members.get(id) {
            Some(member) => self.member_record(group, id, member),
            None => Record::ConsumerMemberRemoved { group, member_id: id },
        };
        let of_group = self.unstored.is_group.then(|| self.group_record(group));
        of_group.into_iter().chain(self.unstored.members.iter().map(member)).collect()
    }

    /// Whether there are records to write.
    pub(in crate::groups) fn has_unstored(&self) -> bool {
        self.unstored.is_group || !self.unstored.members.is_empty()
    }

    /// Returns all records of the group, if the journal has any.
    pub(in crate::groups) fn account<'a>(&'a self, group: &'a str) -> Vec<Record<'a>> {
        if !self.is_stored() {
            return Vec::new();
        }
        let members = self.members.iter().map(|(id, member)| self.member_record(group, id, member));
        [self.group_record(group)].into_iter().chain(members).collect()
    }

    /// Whether the journal has anything of the group.
    pub(in crate::groups) const fn is_stored(&self) -> bool {
        self.unstored.is_stored
    }

    /// Notes that the records are written.
    pub(in crate::groups) fn note_stored(&mut self) {
        self.unstored = Unstored { is_stored: true, ..Unstored::default() };
    }

    /// Notes that what was written did not reach the disk.
    pub(in crate::groups) fn note_lost(&mut self) {
        self.unstored.mark_group();
        self.unstored.members.extend(self.members.keys().cloned());
    }

    fn group_record<'a>(&'a self, group: &'a str) -> Record<'a> {
        Record::ConsumerGroup(ConsumerGroupRecord {
            group,
            epoch: self.epoch,
            target_epoch: self.target_epoch,
            assignor: self.assignor.name(),
            topics: self.topics.iter().map(|(name, it)| (name.as_str(), it.id, it.partitions)).collect(),
        })
    }

    fn member_record<'a>(&'a self, group: &'a str, id: &'a str, member: &'a Member) -> Record<'a> {
        let target = self.target.get(id).into_iter().flatten().copied().collect();
        Record::ConsumerMember(ConsumerMemberRecord { target, ..member.record(group, id) })
    }
}

impl StoredConsumers {
    /// Notes a record of the group. Sessions begin at `now`.
    pub(in crate::groups) fn apply(&mut self, now: Instant, record: &Record<'_>) {
        match record {
            Record::ConsumerGroup(record) => {
                let topic = |(name, id, partitions): &(&str, _, _)| {
                    ((*name).to_owned(), Topic { id: *id, partitions: *partitions })
                };
                self.group = Assignor::named(record.assignor).map(|assignor| StoredGroup {
                    epoch: record.epoch,
                    target_epoch: record.target_epoch,
                    assignor,
                    topics: record.topics.iter().map(topic).collect(),
                });
                self.is_broken |= self.group.is_none();
            }
            Record::ConsumerMember(record) => match Member::of_record(now, record) {
                Some(member) => {
                    let target = record.target.iter().copied().collect();
                    self.members.insert(record.member_id.to_owned(), (member, target));
                }
                None => self.is_broken = true,
            },
            Record::ConsumerMemberRemoved { member_id, .. } => drop(self.members.remove(*member_id)),
            _ => {}
        }
    }

    /// Notes a record that can't be read.
    pub(in crate::groups) const fn note_unreadable(&mut self) {
        self.is_broken = true;
    }

    /// Whether the group has no members.
    pub(in crate::groups) fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    /// Returns the group; `None` if its records break a rule of groups. Sessions begin at `now`.
    pub(in crate::groups) fn restored(self, now: Instant) -> Option<ConsumerGroup> {
        let Self { group, members, is_broken } = self;
        let StoredGroup { epoch, target_epoch, assignor, topics } = group.filter(|_| !is_broken)?;
        let mut restored = ConsumerGroup { epoch, target_epoch, assignor, topics, ..ConsumerGroup::new(now) };
        restored.unstored.is_stored = true;
        let mut held_count = 0;
        let mut instances = HashMap::new();
        let mut static_count = 0;
        for (id, (mut member, target)) in members {
            member.renew_session(now);
            member.match_topics(restored.topics.keys());
            held_count += member.held().count();
            restored.held.extend(member.held());
            if let Some(instance) = &member.instance_id {
                static_count += 1;
                instances.insert(instance.clone(), id.clone());
            }
            restored.target.insert(id.clone(), target);
            restored.members.insert(id, member);
        }
        // No two members ever hold one partition.
        let is_sound = restored.held.len() == held_count
            && instances.len() == static_count
            && restored.members.len() <= MEMBERS_MAX
            && restored.members.values().map(Member::metadata_bytes).sum::<usize>() <= METADATA_BYTES_MAX
            && (0..=epoch).contains(&target_epoch);
        restored.instances = instances;
        is_sound.then_some(restored)
    }
}
