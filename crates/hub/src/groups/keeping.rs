//! The part of groups that outlives the process: their offsets, their members, and since when they have none.
//!
//! A group is in the journal as long as it has offsets or has had members there. `members` writes these.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use kafka::ErrorCode;
use kafka::messages::group::MemberRef;
use kafka::messages::offset_commit::{CommittedOffset, OffsetCommitRequest};
use partition_log::UnixTime;
use partition_log::disk::CommitNumber;
use tokio::time::Instant;

use super::classic_group::ClassicGroup;
use super::consumer_group::StoredConsumers;
use super::group::{CONSUMER, Group, RestoredMembers};
use super::offsets::{self, KeptGroup, Offsets};
use super::{Groups, Registry, charge, is_group_id};
use crate::journal::{ConsumerGroupRecord, ConsumerMemberRecord, Journal, OffsetRecord, Record, Refused};
use crate::namespace::Principal;

/// What a journal tells of groups.
#[derive(Debug, Default)]
pub(crate) struct KeptGroups {
    groups: BTreeMap<String, KeptState>,
}

/// The state of one group at the start.
#[derive(Debug, Default)]
struct KeptState {
    offsets: Offsets,
    classic: Option<ClassicGroup>,
    consumers: StoredConsumers,
}

/// The results of a change, which count when it is on disk.
#[derive(Debug)]
pub(crate) struct Changed<T> {
    pub(crate) results: T,
    /// What an answer has to wait for.
    pub(crate) commit: CommitNumber,
}

impl KeptGroups {
    /// Notes what a record says of a group, if it does.
    pub(crate) fn apply(&mut self, record: &Record<'_>) {
        match record {
            Record::Group { group, protocol_type, emptied_at } => {
                let kept = KeptGroup { protocol_type: (*protocol_type).to_owned(), emptied_at: *emptied_at };
                self.of(group).offsets.kept = Some(kept);
            }
            Record::GroupRemoved { group } => drop(self.groups.remove(*group)),
            Record::Offset(offset) => self.of(offset.group).offsets.put(offset),
            Record::OffsetRemoved { group, topic, index } => self.of(group).offsets.remove(topic, *index),
            Record::TopicRemoved { topic } => {
                for state in self.groups.values_mut() {
                    state.offsets.remove_topic(topic);
                }
            }
            Record::Generation(record) => {
                let classic = ClassicGroup::of_record(Instant::now(), record);
                if classic.is_none() {
                    warn_of_unreadable(record.group);
                }
                let state = self.of(record.group);
                state.classic = classic;
                // Members of one kind take the place of those of the other.
                if !record.members.is_empty() {
                    state.consumers = StoredConsumers::default();
                }
            }
            Record::ConsumerGroup(ConsumerGroupRecord { group, .. })
            | Record::ConsumerMember(ConsumerMemberRecord { group, .. })
            | Record::ConsumerMemberRemoved { group, .. } => {
                self.of(group).consumers.apply(Instant::now(), record);
            }
            Record::UnreadableMembers { group, .. } => {
                warn_of_unreadable(group);
                let state = self.of(group);
                state.classic = None;
                state.consumers.note_unreadable();
            }
            Record::Transaction(_) | Record::TransactionRemoved { .. } | Record::PendingOffset { .. } => {}
        }
    }

    fn of(&mut self, group: &str) -> &mut KeptState {
        if !self.groups.contains_key(group) {
            self.groups.insert(group.to_owned(), KeptState::default());
        }
        self.groups.get_mut(group).expect("it was put there if it was not")
    }

    /// The groups as they are at the start, with the offsets of topics that exist.
    pub(super) fn restored(self, exists: impl Fn(&str) -> bool) -> BTreeMap<String, Group> {
        let now = Instant::now();
        let mut known: BTreeMap<String, bool> = BTreeMap::new();
        let mut restored = BTreeMap::new();
        for (group, KeptState { mut offsets, classic, consumers }) in self.groups {
            let topics: BTreeSet<String> = offsets.topics().map(str::to_owned).collect();
            for topic in topics {
                // A hub may have been deleted while nobody served Kafka.
                if !*known.entry(topic.clone()).or_insert_with(|| exists(&topic)) {
                    offsets.remove_topic(&topic);
                }
            }
            // Reading may have taken long: sessions begin when the service does.
            let members = match classic {
                _ if !consumers.is_empty() => consumers.restored(now).map_or_else(
                    || {
                        warn_of_unreadable(&group);
                        RestoredMembers::None
                    },
                    RestoredMembers::Consumer,
                ),
                Some(mut classic) => {
                    classic.renew_sessions(now);
                    RestoredMembers::Classic(classic)
                }
                None => RestoredMembers::None,
            };
            // One without offsets stays until it is noticed that it has none, which is then kept as well.
            restored.insert(group, Group::restored(now, members, offsets));
        }
        restored
    }
}

impl Groups {
    /// Takes offsets. `exists` says whether the client may use a partition of a topic.
    pub(crate) fn commit(
        &self,
        request: &OffsetCommitRequest<'_>,
        principal: &Principal,
        exists: impl Fn(&str, i32) -> Result<(), ErrorCode>,
    ) -> Changed<Vec<ErrorCode>> {
        let now = Instant::now();
        let all =
            |error| Changed { results: vec![error; request.partitions.len()], commit: CommitNumber::DONE };
        let group_id = request.member.group_id;
        if !is_group_id(group_id) {
            return all(ErrorCode::InvalidGroupId);
        }
        if let Err(refused) = self.journal.admit() {
            tracing::error!(%refused, "offsets of consumer groups can't be stored");
            return all(ErrorCode::CoordinatorNotAvailable);
        }
        let mut registry = self.lock();
        if !registry.groups.contains_key(group_id) && request.member.generation >= 0 {
            return all(ErrorCode::IllegalGeneration);
        }
        if !registry.has_room_for(group_id, principal) {
            return all(ErrorCode::CoordinatorNotAvailable);
        }
        let group = registry.get_or_create(group_id, Some(principal), now);
        if let Err(error) = group.check_commit(now, &request.member, places(&request.partitions)) {
            return all(error);
        }
        let check = |committed: &CommittedOffset<'_>| {
            let checked = exists(committed.topic, committed.index).and_then(|()| offsets::check(committed));
            checked.err().unwrap_or(ErrorCode::None)
        };
        let growth = |(committed, error): (&CommittedOffset<'_>, &ErrorCode)| match error {
            ErrorCode::None => {
                group.offsets.growth_by(committed.topic, committed.index, committed.metadata.len())
            }
            _ => 0,
        };
        let mut errors: Vec<ErrorCode> = request.partitions.iter().map(check).collect();
        let growth = request.partitions.iter().zip(&errors).map(growth).sum();
        if !registry.memory.fits(growth) {
            return all(ErrorCode::CoordinatorNotAvailable);
        }
        let committed_at = self.clock.unix_time().milliseconds();
        let taken = request.partitions.iter().zip(&errors).filter(|(_, error)| **error == ErrorCode::None);
        let taken: Vec<OffsetRecord<'_>> = taken.map(|(it, _)| record(group_id, it, committed_at)).collect();
        match registry.put(&self.journal, &taken, &[], Some(principal)) {
            Ok(commit) => Changed { results: errors, commit },
            Err(refused) => {
                tracing::warn!(%refused, group = group_id, "offsets of a consumer group can't be stored");
                for error in errors.iter_mut().filter(|error| **error == ErrorCode::None) {
                    *error = ErrorCode::CoordinatorNotAvailable;
                }
                Changed { results: errors, commit: CommitNumber::DONE }
            }
        }
    }

    /// Checks who commits these offsets of a group with a transaction.
    pub(crate) fn check_transactional(
        &self,
        member: &MemberRef<'_>,
        offsets: &[CommittedOffset<'_>],
        principal: &Principal,
    ) -> Result<(), ErrorCode> {
        if !is_group_id(member.group_id) {
            return Err(ErrorCode::InvalidGroupId);
        }
        let mut registry = self.lock();
        if !registry.has_room_for(member.group_id, principal) {
            return Err(ErrorCode::CoordinatorNotAvailable);
        }
        match registry.groups.get_mut(member.group_id) {
            Some(group) => group.check_transactional(Instant::now(), member, places(offsets)),
            None if member.generation >= 0 => Err(ErrorCode::IllegalGeneration),
            None => Ok(()),
        }?;
        let known = registry.groups.get(member.group_id);
        let growth = |committed: &CommittedOffset<'_>| {
            let length = committed.metadata.len();
            known.map_or(length, |group| group.offsets.growth_by(committed.topic, committed.index, length))
        };
        match registry.memory.fits(offsets.iter().map(growth).sum()) {
            true => Ok(()),
            false => Err(ErrorCode::CoordinatorNotAvailable),
        }
    }

    /// Takes offsets that a transaction has brought with it, as one with the record that ends it. Groups that this creates are
    /// those of `creator`.
    pub(crate) fn complete_transaction(
        &self,
        offsets: &[OffsetRecord<'_>],
        end: Record<'_>,
        creator: Option<&Principal>,
    ) -> Result<CommitNumber, Refused> {
        self.lock().put(&self.journal, offsets, &[end], creator)
    }

    /// Deletes offsets of a group without members, or of topics to which no member has subscribed.
    pub(crate) fn delete_offsets(
        &self,
        group_id: &str,
        partitions: &[(&str, i32)],
        exists: impl Fn(&str, i32) -> Result<(), ErrorCode>,
    ) -> Changed<Result<Vec<ErrorCode>, ErrorCode>> {
        let none = |results| Changed { results, commit: CommitNumber::DONE };
        let mut registry = self.lock();
        let Registry { groups, memory, .. } = &mut *registry;
        let Some(group) = groups.get_mut(group_id) else {
            return none(Err(ErrorCode::GroupIdNotFound));
        };
        let is_empty = group.empty_since().is_some();
        if !is_empty && group.protocol_type() != CONSUMER {
            return none(Err(ErrorCode::NonEmptyGroup));
        }
        let check = |(topic, index): &(&str, i32)| match exists(topic, *index) {
            Err(error) => error,
            Ok(()) if !is_empty && group.is_subscribed_to(topic) => ErrorCode::GroupSubscribedToTopic,
            Ok(()) => ErrorCode::None,
        };
        let errors: Vec<ErrorCode> = partitions.iter().map(check).collect();
        let removed: Vec<(&str, i32)> = partitions
            .iter()
            .zip(&errors)
            .filter(|((topic, index), error)| **error == ErrorCode::None && group.offsets.has(topic, *index))
            .map(|(partition, _)| *partition)
            .collect();
        let records: Vec<Record<'_>> = removed
            .iter()
            .map(|(topic, index)| Record::OffsetRemoved { group: group_id, topic, index: *index })
            .collect();
        match self.journal.append(self.clock.unix_time(), &records) {
            Ok(commit) => {
                for (topic, index) in removed {
                    group.offsets.remove(topic, index);
                }
                charge(memory, group);
                Changed { results: Ok(errors), commit }
            }
            Err(refused) => {
                tracing::warn!(%refused, group = group_id, "offsets of a consumer group can't be deleted");
                none(Err(ErrorCode::CoordinatorNotAvailable))
            }
        }
    }

    /// Deletes groups that have no member.
    pub(crate) fn delete(&self, group_ids: &[&str]) -> Changed<Vec<ErrorCode>> {
        let mut registry = self.lock();
        let mut last = CommitNumber::DONE;
        let delete = |group_id: &&str| match registry.groups.get(*group_id).map(Group::empty_since) {
            None => ErrorCode::GroupIdNotFound,
            Some(None) => ErrorCode::NonEmptyGroup,
            Some(Some(_)) => {
                match self.journal.append(self.clock.unix_time(), &[Record::GroupRemoved { group: group_id }])
                {
                    Ok(commit) => {
                        last = last.max(commit);
                        registry.remove(group_id);
                        ErrorCode::None
                    }
                    Err(refused) => {
                        tracing::warn!(%refused, group = group_id, "a consumer group can't be deleted");
                        ErrorCode::CoordinatorNotAvailable
                    }
                }
            }
        };
        let results = group_ids.iter().map(delete).collect();
        Changed { results, commit: last }
    }

    /// A topic is gone, and with it what groups have read of it. `was_pending` says whether others know offsets of it.
    pub(crate) fn forget_topic(&self, topic: &str, was_pending: bool) {
        let mut registry = self.lock();
        let mut were_any = was_pending;
        let Registry { groups, memory, .. } = &mut *registry;
        for group in groups.values_mut() {
            were_any |= group.offsets.remove_topic(topic);
            charge(memory, group);
        }
        if were_any
            && let Err(refused) =
                self.journal.append(self.clock.unix_time(), &[Record::TopicRemoved { topic }])
        {
            // The next start sees that there is no such topic, unless there is a new one of that name by then.
            tracing::warn!(%refused, topic, "that a topic is gone can't be stored for consumer groups");
        }
    }

    /// Writes all that holds of groups.
    pub(crate) fn give_account(&self) -> Result<(), Refused> {
        let registry = self.lock();
        let records: Vec<Record<'_>> = registry
            .groups
            .iter()
            .filter_map(|(group_id, group)| Some((group_id, group, group.offsets.kept.as_ref()?)))
            .flat_map(|(group_id, group, kept)| {
                let offsets = group.offsets.records(group_id).map(Record::Offset);
                [kept.record(group_id)].into_iter().chain(group.account_of_members(group_id)).chain(offsets)
            })
            .collect();
        self.journal.append_each(self.clock.unix_time(), &records)
    }

    /// So many offsets, for those who watch how far groups are behind.
    pub(crate) fn some_offsets(&self, count: usize) -> Vec<(String, String, i32, i64)> {
        let registry = self.lock();
        let all = registry.groups.iter().flat_map(|(group_id, group)| group.offsets.records(group_id));
        all.take(count).map(|it| (it.group.to_owned(), it.topic.to_owned(), it.index, it.offset)).collect()
    }
}

impl Registry {
    /// Keeps offsets, and `further` records with them as one, and takes the offsets if they are to be kept.
    fn put(
        &mut self,
        journal: &Journal,
        offsets: &[OffsetRecord<'_>],
        further: &[Record<'_>],
        creator: Option<&Principal>,
    ) -> Result<CommitNumber, Refused> {
        let (now, wall) = (Instant::now(), self.clock.unix_time());
        let groups: BTreeSet<&str> = offsets.iter().map(|offset| offset.group).collect();
        let mut notes = Vec::new();
        for group_id in groups {
            let group = self.get_or_create(group_id, creator, now);
            let mut kept = KeptGroup::of(group, wall);
            // The time begins anew with what is committed.
            let now = wall.milliseconds();
            kept.emptied_at = kept.emptied_at.map(|at| if now - at > EMPTIED_STEP { now } else { at });
            if group.offsets.kept.as_ref() != Some(&kept) {
                notes.push((group_id, kept));
            }
        }
        let records: Vec<Record<'_>> = notes
            .iter()
            .map(|(group_id, kept)| kept.record(group_id))
            .chain(offsets.iter().map(|offset| Record::Offset(*offset)))
            .chain(further.iter().cloned())
            .collect();
        let commit = journal.append(wall, &records)?;
        for (group_id, kept) in notes {
            if let Some(group) = self.groups.get_mut(group_id) {
                group.offsets.kept = Some(kept);
            }
        }
        for offset in offsets {
            if let Some(group) = self.groups.get_mut(offset.group) {
                group.offsets.put(offset);
                charge(&mut self.memory, group);
            }
        }
        Ok(commit)
    }

    /// Keeps what has changed of a group besides its offsets.
    pub(super) fn note(&mut self, journal: &Journal, group_id: &str) {
        let wall = self.clock.unix_time();
        let Some(group) = self.groups.get_mut(group_id) else {
            return;
        };
        let Some(note) = noted(group, wall) else {
            return;
        };
        let record =
            note.as_ref().map_or(Record::GroupRemoved { group: group_id }, |kept| kept.record(group_id));
        // If it can't be written, it is noted again when something is due.
        if journal.append(wall, &[record]).is_ok() {
            group.offsets.kept = note;
        }
    }

    /// Keeps what has changed of all groups, and forgets those whose time is over.
    pub(super) fn note_all(&mut self, journal: &Journal, now: Instant) {
        let wall = self.clock.unix_time();
        let mut notes: Vec<Note> = Vec::new();
        for (group_id, group) in &self.groups {
            let is_over = is_over(group, now, wall);
            let was_kept = group.offsets.kept.is_some() || group.has_stored_members();
            let kept = if is_over { was_kept.then_some(None) } else { noted(group, wall) };
            if is_over || kept.is_some() {
                notes.push(Note { group_id: group_id.clone(), is_over, kept });
            }
        }
        let records: Vec<Record<'_>> = notes.iter().filter_map(Note::record).collect();
        // If it can't be written, it is noted again when something is due.
        if journal.append_each(wall, &records).is_err() {
            return;
        }
        for note in notes {
            match (note.is_over, note.kept) {
                (true, _) => self.remove(&note.group_id),
                (false, Some(kept)) => {
                    if let Some(group) = self.groups.get_mut(&note.group_id) {
                        group.offsets.kept = kept;
                    }
                }
                (false, None) => {}
            }
        }
    }
}

/// The offsets of such a group hold.
fn warn_of_unreadable(group: &str) {
    tracing::warn!(group, "the stored members of a consumer group can't be read: they have to join again");
}

/// What is to be kept of a group from now on.
#[derive(Debug)]
struct Note {
    group_id: String,
    /// Whether it is to be forgotten.
    is_over: bool,
    /// If that changes: nothing, or this.
    kept: Option<Option<KeptGroup>>,
}

impl Note {
    fn record(&self) -> Option<Record<'_>> {
        let removed = Record::GroupRemoved { group: &self.group_id };
        self.kept.as_ref().map(|kept| kept.as_ref().map_or(removed, |kept| kept.record(&self.group_id)))
    }
}

impl KeptGroup {
    /// As a group is now. One that has been empty already has been so since then.
    fn of(group: &Group, wall: UnixTime) -> Self {
        let known = group.offsets.kept.as_ref().and_then(|kept| kept.emptied_at);
        let emptied_at = group.empty_since().map(|_| known.unwrap_or_else(|| wall.milliseconds()));
        Self { protocol_type: group.protocol_type().to_owned(), emptied_at }
    }

    fn record<'a>(&'a self, group: &'a str) -> Record<'a> {
        Record::Group { group, protocol_type: &self.protocol_type, emptied_at: self.emptied_at }
    }
}

/// What is to be kept of a group, if that is something else than what is: nothing, if it has neither offsets nor stored members.
fn noted(group: &Group, wall: UnixTime) -> Option<Option<KeptGroup>> {
    let is_kept = !group.offsets.is_empty() || group.has_stored_members();
    let kept = is_kept.then(|| KeptGroup::of(group, wall));
    (kept != group.offsets.kept).then_some(kept)
}

/// Whether a group without members is to be forgotten.
fn is_over(group: &Group, now: Instant, wall: UnixTime) -> bool {
    let Some(since) = group.empty_since() else {
        return false;
    };
    match &group.offsets.kept {
        _ if group.offsets.is_empty() => now >= since + FORGOTTEN_WITHOUT_OFFSETS,
        Some(KeptGroup { emptied_at: Some(emptied_at), .. }) => {
            let empty_for = wall.milliseconds().saturating_sub(*emptied_at);
            u128::try_from(empty_for).is_ok_and(|empty_for| empty_for >= FORGOTTEN_AFTER.as_millis())
        }
        _ => false,
    }
}

fn places<'a>(offsets: &'a [CommittedOffset<'a>]) -> impl Iterator<Item = (&'a str, i32)> {
    offsets.iter().map(|offset| (offset.topic, offset.index))
}

fn record<'a>(group: &'a str, committed: &CommittedOffset<'a>, committed_at: i64) -> OffsetRecord<'a> {
    let CommittedOffset { topic, index, offset, leader_epoch, metadata } = *committed;
    OffsetRecord { group, topic, index, offset, leader_epoch, committed_at, metadata }
}

/// A group without members is forgotten after this time, with its offsets (`offsets.retention.minutes`).
const FORGOTTEN_AFTER: Duration = Duration::from_secs(7 * 24 * 60 * 60);

/// One that never committed anything has nothing to be remembered for.
const FORGOTTEN_WITHOUT_OFFSETS: Duration = Duration::from_secs(60);

/// By how many milliseconds a group that is empty may be kept too briefly after a commit, so that not each of them is noted.
const EMPTIED_STEP: i64 = 60 * 60 * 1_000;
