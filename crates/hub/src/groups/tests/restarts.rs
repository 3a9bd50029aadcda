//! Groups over a restart of the service.

use super::*;
use crate::groups::group::{self, METADATA_BYTES_MAX};
use crate::journal::{GenerationRecord, GenerationState, MemberRecord};

impl World {
    /// Does what the service does before it sends replies.
    pub(super) fn store(&mut self) {
        if let Some(record) = self.group.unstored("group") {
            self.stored = Some(ClassicGroup::of_record(self.now, &record).expect("what is written is sound"));
            self.group.note_stored();
        }
    }

    /// Restores the group from the journal, in which the last record may be one of an account of everything.
    pub(super) fn restart(&mut self, is_after_account: bool) {
        let source = if is_after_account { Some(&self.group) } else { self.stored.as_ref() };
        let record = source.and_then(|group| group.account("group"));
        let restored = record.map(|record| ClassicGroup::of_record(self.now, &record).expect("it is sound"));
        self.group = restored.unwrap_or_else(|| ClassicGroup::new(self.now));
        let record = self.group.account("group");
        self.stored = record.and_then(|record| ClassicGroup::of_record(self.now, &record));
    }
}

fn member_ref<'a>(member_id: &'a str, generation: i32, instance_id: Option<&'a str>) -> MemberRef<'a> {
    MemberRef { group_id: "group", generation, member_id, instance_id }
}

#[test]
fn restored_group_goes_on_in_its_generation_and_in_no_other() {
    let (mut world, [first, second]) = World::of_two();
    world.pass(Duration::from_secs(5));
    world.restart(false);
    assert_eq!(world.group.state_name(), "Stable");
    for member in [&first, &second] {
        assert_eq!(world.group.check_commit(world.now, &member_ref(member, 1, None)), Ok(()));
        for other in [0, 2] {
            let error = Err(ErrorCode::IllegalGeneration);
            assert_eq!(world.group.check_commit(world.now, &member_ref(member, other, None)), error);
        }
    }
    assert_eq!(world.heartbeat("someone", 1), ErrorCode::UnknownMemberId);
    assert_eq!(world.group.describe("group").members[1].assignment, b"b");
    world.pass(Duration::from_secs(5));
    assert_eq!(world.heartbeat(&first, 1), ErrorCode::None, "sessions began with the service");
    world.pass(Duration::from_secs(5));
    assert_eq!(world.heartbeat(&first, 1), ErrorCode::RebalanceInProgress, "the second one was silent");
}

#[test]
fn restored_rebalance_has_members_join_again_with_their_ids() {
    let (mut world, [first, second]) = World::of_two();
    world.join_as(&first, None, &["range", "sticky"], 9);
    world.restart(true);
    assert_eq!(world.heartbeat(&second, 1), ErrorCode::RebalanceInProgress);
    world.join_as(&first, None, &["range"], 9);
    world.join_as(&second, None, &["range"], 9);
    let joined = joins(world.replies());
    assert!(joined.len() == 2 && joined.iter().all(|it| it.generation == 2 && it.leader == first));
}

#[test]
fn group_is_restored_empty_in_its_generation_when_its_members_had_left() {
    let (mut world, members) = World::of_two();
    for member in &members {
        assert_eq!(world.group.leave(world.now, member, None), ErrorCode::None);
    }
    world.pass(Duration::from_secs(60));
    world.replies();
    world.restart(false);
    assert_eq!((world.group.state_name(), world.group.member_count()), ("Empty", 0));
    assert_eq!(world.heartbeat(&members[0], 1), ErrorCode::UnknownMemberId);
    world.join_new();
    world.pass(Duration::from_secs(1));
    assert!(joins(world.replies())[0].generation > 1, "no generation is used twice");
}

#[test]
fn static_member_takes_its_place_after_a_restart_as_well() {
    let mut world = World::new();
    world.join_as("", Some("a"), &["range"], 9);
    world.pass(Duration::from_secs(1));
    let [joined] = &joins(world.replies())[..] else { panic!("at once") };
    let id = joined.member_id.clone();
    world.sync(&id, 1, &[(&id, b"part")]);
    world.replies();
    for _ in 0..2 {
        world.restart(false);
        world.join_as("", Some("a"), &["range"], 9);
        let [again] = &joins(world.replies())[..] else { panic!("at once") };
        assert_eq!((again.generation, world.group.state_name()), (1, "Stable"));
        let again = again.member_id.clone();
        // The id that it has now is stored: the next restart fences the one before.
        world.restart(false);
        assert_eq!(world.group.heartbeat(world.now, &member_ref(&again, 1, Some("a"))), ErrorCode::None);
        let before = world.group.heartbeat(world.now, &member_ref(&id, 1, Some("a")));
        assert_eq!(before, ErrorCode::FencedInstanceId);
        world.sync(&again, 1, &[]);
        let Some((_, Reply::Sync(ErrorCode::None, part))) = world.replies().pop() else { panic!("its part") };
        assert_eq!(part.assignment, b"part");
    }
}

#[test]
fn assignment_that_can_not_be_stored_is_refused_and_members_join_again() {
    let mut world = World::new();
    let (first, _) = world.join_new();
    world.pass(Duration::from_secs(1));
    world.replies();
    let request = SyncGroupRequest {
        member: member_ref(&first, 1, None),
        protocol_type: None,
        protocol: None,
        assignments: vec![(&first, b"part")],
    };
    world.group.sync(world.now, 1, &request);
    assert!(world.group.unstored("group").is_some());
    world.group.refuse_unstored(world.now);
    let replies = world.group.take_replies();
    assert!(
        matches!(&replies[..], [(_, Reply::Sync(ErrorCode::CoordinatorNotAvailable, part))] if part.assignment.is_empty()),
        "{replies:?}"
    );
    assert_eq!(world.heartbeat(&first, 1), ErrorCode::RebalanceInProgress);
    world.join_as(&first, None, &["range"], 9);
    assert_eq!(joins(world.replies())[0].generation, 2);
}

#[test]
fn members_of_a_group_say_so_much_together_and_no_more() {
    const MEMBERS: usize = 4;
    let mut world = World::new();
    // The other values are the name of the protocol, the id of the client, and that of the instance.
    let others = group::metadata_bytes(["range".len(), "client".len(), 0].into_iter());
    let metadata = vec![0; METADATA_BYTES_MAX / MEMBERS - others];
    let join = |world: &mut World, metadata: &[u8]| {
        world.tickets += 1;
        world.ids += 1;
        let request = first_join("group", metadata);
        let client = Client { id: "client", host: "/127.0.0.1", version: 3 };
        let id = format!("member-{}", world.ids);
        world.group.join(world.now, world.tickets, &request, client, || id);
        world.replies()
    };
    for _ in 0..MEMBERS {
        assert!(join(&mut world, &metadata).is_empty());
    }
    let replies = join(&mut world, b"");
    assert!(matches!(&replies[..], [(_, Reply::Join(ErrorCode::GroupMaxSizeReached, _))]), "{replies:?}");
    assert_eq!(world.group.member_count(), MEMBERS);
}

#[test]
fn members_that_break_a_rule_are_not_restored_and_offsets_are() {
    let member = MemberRecord {
        member_id: "member",
        instance_id: Some("a"),
        client_id: "client",
        host: "/127.0.0.1",
        session_timeout_ms: SESSION_MS,
        rebalance_timeout_ms: REBALANCE_MS,
        protocols: vec![("range", b"")],
        assignment: b"part",
    };
    let sound = GenerationRecord {
        group: "group",
        state: GenerationState::Stable,
        generation: 1,
        protocol_type: "consumer",
        protocol: "range",
        leader: Some("member"),
        members: vec![member.clone()],
    };
    let with = |member| GenerationRecord { members: vec![member], ..sound.clone() };
    let other = MemberRecord { member_id: "other", ..member.clone() };
    let broken = [
        GenerationRecord { members: vec![], leader: None, ..sound.clone() },
        GenerationRecord { state: GenerationState::Empty, ..sound.clone() },
        GenerationRecord { leader: Some("someone"), ..sound.clone() },
        GenerationRecord { generation: -1, ..sound.clone() },
        GenerationRecord { members: vec![member.clone(), member.clone()], ..sound.clone() },
        GenerationRecord { members: vec![member.clone(), other], ..sound.clone() },
        with(MemberRecord { session_timeout_ms: -1, ..member.clone() }),
        with(MemberRecord { session_timeout_ms: i32::MAX, ..member.clone() }),
        with(MemberRecord { protocols: vec![], ..member }),
    ];
    let restored = |record: Record<'_>| {
        let mut kept = KeptGroups::default();
        kept.apply(&Record::Group { group: "group", protocol_type: "consumer", emptied_at: None });
        let offset = OffsetRecord {
            group: "group",
            topic: "topic",
            index: 0,
            offset: 5,
            leader_epoch: 0,
            committed_at: 0,
            metadata: "",
        };
        kept.apply(&Record::Offset(offset));
        kept.apply(&Record::Generation(sound.clone()));
        kept.apply(&record);
        let groups = groups_of(kept, &Arc::default(), |_| true);
        groups.act();
        let progress = groups.progress().remove(0);
        (progress.state, progress.members, progress.offsets.len())
    };
    assert_eq!(restored(Record::Generation(sound.clone())), ("Stable", 1, 1));
    for record in broken {
        assert_eq!(restored(Record::Generation(record.clone())), ("Empty", 0, 1), "{record:?}");
    }
    assert_eq!(
        restored(Record::UnreadableMembers { kind: 9, group: "group", content: &[] }),
        ("Empty", 0, 1)
    );
}
