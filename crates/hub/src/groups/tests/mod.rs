//! One group, step by step, and many histories of it by chance.

mod restarts;

use std::collections::{BTreeMap, BTreeSet};

use kafka::messages::join_group::JoinGroupResponse;
use kafka::messages::offset_commit::{CommittedOffset, OffsetCommitRequest};
use kafka::messages::sync_group::SyncGroupResponse;
use proptest::prelude::*;

use super::classic_group::ClassicGroup;
use partition_log::UnixTime;

use super::*;
use crate::journal::{OffsetRecord, Record};

const SESSION_MS: i32 = 6_000;
const REBALANCE_MS: i32 = 10_000;

/// A client that may read every topic.
struct Everything;

impl Reader for Everything {
    fn principal(&self) -> &Principal {
        &Principal::Anyone
    }

    fn reads_all(&self) -> bool {
        true
    }

    fn reads_some(&self) -> bool {
        true
    }

    fn reads(&self, _topic: &str) -> bool {
        true
    }
}

/// A group with the time and its members' tickets.
struct World {
    group: ClassicGroup,
    /// The group that the journal would restore.
    stored: Option<ClassicGroup>,
    now: Instant,
    tickets: Ticket,
    ids: u32,
}

impl World {
    fn new() -> Self {
        let now = Instant::now();
        Self { group: ClassicGroup::new(now), stored: None, now, tickets: 0, ids: 0 }
    }

    fn join_as(
        &mut self,
        member_id: &str,
        instance_id: Option<&str>,
        protocols: &[&'static str],
        version: i16,
    ) -> Ticket {
        let protocols: Vec<_> = protocols.iter().map(|name| (*name, name.as_bytes())).collect();
        self.join_with(member_id, instance_id, &protocols, version)
    }

    /// Joins with protocols and what the member says for each.
    fn join_with(
        &mut self,
        member_id: &str,
        instance_id: Option<&str>,
        protocols: &[(&'static str, &[u8])],
        version: i16,
    ) -> Ticket {
        self.tickets += 1;
        self.ids += 1;
        let (ids, ticket) = (self.ids, self.tickets);
        let request = JoinGroupRequest {
            group_id: "group",
            session_timeout_ms: SESSION_MS,
            rebalance_timeout_ms: REBALANCE_MS,
            member_id,
            instance_id,
            protocol_type: "consumer",
            protocols: protocols.to_vec(),
        };
        let client = Client { id: "client", host: "/127.0.0.1", version };
        self.group.join(self.now, ticket, &request, client, || format!("member-{ids}"));
        self.store();
        ticket
    }

    /// A new member of the newest version, through the round in which it gets its id.
    fn join_new(&mut self) -> (String, Ticket) {
        self.join_as("", None, &["range"], 9);
        let id = match &self.replies()[..] {
            [(_, Reply::Join(ErrorCode::MemberIdRequired, response))] => response.member_id.clone(),
            other => panic!("{other:?}"),
        };
        let ticket = self.join_as(&id, None, &["range"], 9);
        (id, ticket)
    }

    fn sync(&mut self, member_id: &str, generation: i32, assignments: &[(&str, &[u8])]) -> Ticket {
        self.tickets += 1;
        let member = MemberRef { group_id: "group", generation, member_id, instance_id: None };
        let assignments = assignments.to_vec();
        let request = SyncGroupRequest { member, protocol_type: None, protocol: None, assignments };
        self.group.sync(self.now, self.tickets, &request);
        self.store();
        self.tickets
    }

    fn heartbeat(&mut self, member_id: &str, generation: i32) -> ErrorCode {
        let member = MemberRef { group_id: "group", generation, member_id, instance_id: None };
        self.group.heartbeat(self.now, &member)
    }

    fn replies(&mut self) -> Vec<(Ticket, Reply)> {
        self.store();
        self.group.take_replies()
    }

    /// Lets time pass, with all that is due in it.
    fn pass(&mut self, time: Duration) {
        let end = self.now + time;
        while let Some(next) = self.group.next_deadline().filter(|next| *next <= end) {
            self.now = self.now.max(next);
            self.group.expire(self.now);
            self.store();
        }
        self.now = end;
    }

    /// Two members in one generation, of which the first leads.
    fn of_two() -> (Self, [String; 2]) {
        let mut world = Self::new();
        let (first, _) = world.join_new();
        let (second, _) = world.join_new();
        world.pass(Duration::from_secs(1));
        let joined = joins(world.replies());
        assert_eq!(joined.len(), 2, "{joined:?}");
        assert!(joined.iter().all(|it| it.generation == 1 && it.leader == first));
        world.sync(&second, 1, &[]);
        world.sync(&first, 1, &[(&first, b"a"), (&second, b"b")]);
        assert_eq!(world.replies().len(), 2);
        (world, [first, second])
    }
}

fn joins(replies: Vec<(Ticket, Reply)>) -> Vec<JoinGroupResponse> {
    let joins = replies.into_iter().filter_map(|(_, reply)| match reply {
        Reply::Join(ErrorCode::None, response) => Some(response),
        _ => None,
    });
    joins.collect()
}

#[test]
fn the_first_member_leads_and_gives_each_its_part() {
    let mut world = World::new();
    let (first, first_join) = world.join_new();
    assert!(world.replies().is_empty(), "more may be about to come");
    let (second, second_join) = world.join_new();
    world.pass(Duration::from_secs(1));
    let replies = world.replies();
    assert_eq!(
        replies.iter().map(|(ticket, _)| *ticket).collect::<BTreeSet<_>>(),
        [first_join, second_join].into()
    );
    for joined in joins(replies) {
        let is_leader = joined.member_id == first;
        assert_eq!((joined.generation, joined.leader.as_str()), (1, first.as_str()));
        assert_eq!(joined.members.len(), if is_leader { 2 } else { 0 }, "for the leader alone");
    }
    let waiting = world.sync(&second, 1, &[]);
    assert!(world.replies().is_empty(), "the leader has not assigned");
    let leading = world.sync(&first, 1, &[(&second, b"second"), (&first, b"first")]);
    let parts: BTreeMap<Ticket, Reply> = world.replies().into_iter().collect();
    let part = |bytes: &[u8]| {
        let [protocol_type, protocol] = ["consumer", "range"].map(|name| Some(name.to_owned()));
        Reply::Sync(
            ErrorCode::None,
            SyncGroupResponse { protocol_type, protocol, assignment: bytes.to_vec() },
        )
    };
    assert_eq!(parts, BTreeMap::from([(waiting, part(b"second")), (leading, part(b"first"))]));
    assert_eq!((world.group.state_name(), world.heartbeat(&second, 1)), ("Stable", ErrorCode::None));
    let described = world.group.describe("group");
    assert_eq!((described.protocol.as_str(), described.members.len()), ("range", 2));
}

#[test]
fn whoever_is_not_what_it_says_is_refused() {
    let (mut world, [first, _]) = World::of_two();
    assert_eq!(world.heartbeat("someone", 1), ErrorCode::UnknownMemberId);
    assert_eq!(world.heartbeat(&first, 0), ErrorCode::IllegalGeneration);
    let error = |world: &mut World, member: &str, protocols: &[&'static str]| {
        world.join_as(member, None, protocols, 9);
        match world.replies().pop() {
            Some((_, Reply::Join(error, _))) => error,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(error(&mut world, "someone", &["range"]), ErrorCode::UnknownMemberId);
    assert_eq!(error(&mut world, "", &["sticky"]), ErrorCode::InconsistentGroupProtocol);
    assert_eq!(error(&mut world, "", &[]), ErrorCode::InconsistentGroupProtocol);
    assert_eq!(world.group.state_name(), "Stable", "none of them disturbed the others");
}

#[test]
fn a_member_that_comes_has_the_others_come_back() {
    let (mut world, [first, second]) = World::of_two();
    let (third, _) = world.join_new();
    assert_eq!(world.heartbeat(&first, 1), ErrorCode::RebalanceInProgress);
    world.join_as(&first, None, &["range"], 9);
    assert!(world.replies().is_empty(), "the second one is still away");
    world.join_as(&second, None, &["range"], 9);
    let joined = joins(world.replies());
    let members: BTreeSet<_> = joined.iter().map(|it| it.member_id.clone()).collect();
    assert_eq!(members, BTreeSet::from([first.clone(), second, third]));
    assert!(joined.iter().all(|it| it.generation == 2 && it.leader == first), "the leader stays");
}

#[test]
fn a_member_that_does_not_come_back_in_time_is_no_member_any_longer() {
    let (mut world, [first, second]) = World::of_two();
    let (third, _) = world.join_new();
    world.join_as(&first, None, &["range"], 9);
    // The second one shows that it is there, and does not come back.
    for _ in 0..5 {
        world.pass(Duration::from_secs(2));
        world.heartbeat(&second, 1);
    }
    let joined = joins(world.replies());
    assert_eq!(joined.iter().map(|it| &it.member_id).collect::<BTreeSet<_>>(), [&first, &third].into());
    assert_eq!(world.heartbeat(&second, 1), ErrorCode::UnknownMemberId);
}

#[test]
fn a_member_that_falls_silent_is_missed_after_its_session_and_one_that_leaves_at_once() {
    let (mut world, [first, second]) = World::of_two();
    world.pass(Duration::from_secs(4));
    assert_eq!(world.heartbeat(&first, 1), ErrorCode::None);
    world.pass(Duration::from_secs(4));
    assert_eq!(world.heartbeat(&first, 1), ErrorCode::RebalanceInProgress);
    world.join_as(&first, None, &["range"], 9);
    let [joined] = &joins(world.replies())[..] else { panic!("one is left") };
    assert_eq!((joined.generation, joined.members.len()), (2, 1));
    assert_eq!(world.group.leave(world.now, &second, None), ErrorCode::UnknownMemberId);
    assert_eq!(world.group.leave(world.now, &first, None), ErrorCode::None);
    assert_eq!(world.group.state_name(), "Empty");
}

#[test]
fn an_id_that_never_joins_holds_no_one_up_for_ever() {
    let (mut world, [first, second]) = World::of_two();
    world.join_as("", None, &["range"], 9);
    world.replies();
    world.join_as(&first, None, &["range"], 9);
    world.join_as(&second, None, &["range"], 9);
    assert!(world.replies().is_empty());
    world.pass(Duration::from_secs(6));
    assert_eq!(joins(world.replies()).len(), 2);
}

#[test]
fn a_static_member_takes_its_own_place_without_disturbing_the_others() {
    let mut world = World::new();
    world.join_as("", Some("a"), &["range"], 9);
    world.join_as("", Some("b"), &["range"], 9);
    world.pass(Duration::from_secs(1));
    let joined = joins(world.replies());
    let leader = joined.iter().find(|it| !it.members.is_empty()).unwrap().clone();
    let follower = joined.iter().find(|it| it.members.is_empty()).unwrap().clone();
    let assignments = [(&*leader.member_id, &b"one"[..]), (&*follower.member_id, b"two")];
    world.sync(&leader.member_id, 1, &assignments);
    world.replies();
    // Both start again, the leader in an old version, which would assign anew if it thought that it led.
    for (instance, old, version) in [("b", &follower, 9), ("a", &leader, 5)] {
        world.join_as("", Some(instance), &["range"], version);
        let [again] = &joins(world.replies())[..] else { panic!("at once") };
        assert_eq!((again.generation, world.group.state_name()), (1, "Stable"));
        assert_ne!(again.member_id, old.member_id);
        assert_ne!(again.leader, again.member_id);
        world.sync(&again.member_id, 1, &[]);
        let Some((_, Reply::Sync(ErrorCode::None, part))) = world.replies().pop() else { panic!("its part") };
        assert_eq!(part.assignment, if instance == "a" { b"one" } else { b"two" });
        // What it was before is fenced.
        let fenced = MemberRef {
            group_id: "group",
            generation: 1,
            member_id: &old.member_id,
            instance_id: Some(instance),
        };
        assert_eq!(world.group.heartbeat(world.now, &fenced), ErrorCode::FencedInstanceId);
    }
}

#[test]
fn static_member_disturbs_no_one_unless_another_protocol_is_to_be_chosen() {
    let mut world = World::new();
    world.join_as("", Some("a"), &["range", "sticky"], 9);
    world.join_as("", Some("b"), &["range", "sticky"], 9);
    world.pass(Duration::from_secs(1));
    let joined = joins(world.replies());
    let leader = joined.iter().find(|it| !it.members.is_empty()).unwrap();
    world.sync(&leader.member_id, 1, &[]);
    world.replies();
    // A member that was in an earlier generation has told so; one that starts again does not.
    let again: &[(&str, &[u8])] = &[("range", b"generation -1"), ("sticky", b"nothing owned")];
    for protocols in [again, &again[..1]] {
        world.join_with("", Some("b"), protocols, 9);
        assert_eq!(joins(world.replies())[0].generation, 1);
        assert_eq!(world.group.state_name(), "Stable");
    }
    world.join_as("", Some("a"), &["sticky", "range"], 9);
    assert_eq!((joins(world.replies()).len(), world.group.state_name()), (1, "Stable"), "one knows no other");
    world.join_as("", Some("b"), &["sticky", "range"], 9);
    assert_eq!((joins(world.replies()).len(), world.group.state_name()), (0, "PreparingRebalance"));
}

#[test]
fn offsets_are_taken_from_members_and_where_there_is_none_from_anyone() {
    let (mut world, [first, _]) = World::of_two();
    let of =
        |member_id, generation| MemberRef { group_id: "group", generation, member_id, instance_id: None };
    assert_eq!(world.group.check_commit(world.now, &of(&first, 1)), Ok(()));
    assert_eq!(world.group.check_commit(world.now, &of("", -1)), Err(ErrorCode::UnknownMemberId));
    let mut empty = World::new();
    assert_eq!(empty.group.check_commit(empty.now, &of("", -1)), Ok(()));
    let check = |offset, metadata| {
        check_offset(&CommittedOffset { topic: "orders", index: 1, offset, leader_epoch: 0, metadata })
    };
    assert_eq!(check(7, "note"), Ok(()));
    assert_eq!(check(-2, ""), Err(ErrorCode::InvalidRequest));
    assert_eq!(check(8, &"x".repeat(5_000)), Err(ErrorCode::OffsetMetadataTooLarge));
    let mut group = Group::new(empty.now);
    group.offsets.put(&OffsetRecord {
        group: "group",
        topic: "orders",
        index: 1,
        offset: 7,
        leader_epoch: 0,
        committed_at: 0,
        metadata: "note",
    });
    let asked = AskedGroup { group_id: "group", topics: Some(vec![("orders", vec![0, 1])]) };
    let fetch = |pending: i32| {
        let found = group.offsets.fetch(&asked, |_, index| index == pending);
        found.into_iter().map(|it| (it.index, it.offset, it.error)).collect::<Vec<_>>()
    };
    assert_eq!(fetch(-1), [(0, -1, ErrorCode::None), (1, 7, ErrorCode::None)]);
    assert_eq!(fetch(1), [(0, -1, ErrorCode::None), (1, -1, ErrorCode::UnstableOffsetCommit)]);
}

/// What a member of a history believes.
#[derive(Debug, Default)]
struct Player {
    id: String,
    generation: i32,
    waits_for: Option<Ticket>,
    part: Option<u8>,
    is_dead: bool,
}

/// What can happen: to which player, and what.
fn steps() -> impl Strategy<Value = Vec<(usize, u8, u16)>> {
    proptest::collection::vec((0_usize..4, 0_u8..10, 0_u16..4_000), 1..120)
}

proptest! {
    /// Members join, leave, die and are slow, and the service restarts, in any order. Whatever happens: within a generation no part
    /// has two owners, and once nothing disturbs the group any longer, all who are alive have their part.
    #[test]
    fn in_every_history_each_part_has_one_owner_and_every_join_ends(steps in steps()) {
        let mut world = World::new();
        let mut players: Vec<Player> = (0..4).map(|_| Player::default()).collect();
        let mut owners: BTreeMap<(i32, u8), usize> = BTreeMap::new();
        for (player, what, time) in steps {
            world.pass(Duration::from_millis(time.into()));
            act(&mut world, &mut players, player, what);
            hear(&mut world, &mut players, &mut owners)?;
        }
        // The dead stay silent; the others do what clients do.
        for _ in 0..60 {
            world.pass(Duration::from_millis(500));
            for player in 0..players.len() {
                if !players[player].is_dead {
                    act(&mut world, &mut players, player, 0);
                }
                hear(&mut world, &mut players, &mut owners)?;
            }
        }
        let alive = players.iter().filter(|player| !player.is_dead).count();
        let settled: BTreeSet<i32> =
            players.iter().filter(|it| !it.is_dead && it.part.is_some()).map(|it| it.generation).collect();
        let with_part = players.iter().filter(|it| !it.is_dead && it.part.is_some()).count();
        prop_assert_eq!(with_part, alive, "{:?}", players);
        prop_assert!(settled.len() <= 1, "in one generation: {:?}", players);
    }
}

/// A player does something. 0 to 4 is what a client does next, 8 and 9 are restarts, which every client notices.
fn act(world: &mut World, players: &mut [Player], number: usize, what: u8) {
    if what >= 8 {
        world.store();
        let is_after_account = what == 9;
        world.restart(is_after_account);
        players.iter_mut().for_each(|player| player.waits_for = None);
        return;
    }
    let player = &mut players[number];
    match what {
        5 => {
            let id = std::mem::take(&mut player.id);
            if !id.is_empty() {
                world.group.leave(world.now, &id, None);
            }
            *player = Player::default();
        }
        6 => *player = Player { is_dead: true, ..Player::default() },
        7 => player.is_dead = false,
        _ if player.is_dead || player.waits_for.is_some() => {}
        _ if player.part.is_some() => match world.heartbeat(&player.id, player.generation) {
            ErrorCode::None => {}
            ErrorCode::RebalanceInProgress => {
                player.part = None;
                player.waits_for = Some(world.join_as(&player.id, None, &["range"], 9));
            }
            _ => *player = Player::default(),
        },
        _ => player.waits_for = Some(world.join_as(&player.id, None, &["range"], 9)),
    }
}

/// Players hear what they were answered, and go on.
fn hear(
    world: &mut World,
    players: &mut [Player],
    owners: &mut BTreeMap<(i32, u8), usize>,
) -> Result<(), TestCaseError> {
    loop {
        let replies = world.replies();
        if replies.is_empty() {
            return Ok(());
        }
        for (ticket, reply) in replies {
            let Some(number) = players.iter().position(|player| player.waits_for == Some(ticket)) else {
                continue;
            };
            let player = &mut players[number];
            player.waits_for = None;
            match reply {
                Reply::Join(ErrorCode::None, joined) => {
                    let assignments: Vec<_> = (1_u8..)
                        .zip(&joined.members)
                        .map(|(part, member)| (member.member_id.clone(), vec![part]))
                        .collect();
                    let assignments: Vec<_> =
                        assignments.iter().map(|(id, part)| (id.as_str(), part.as_slice())).collect();
                    (player.id, player.generation) = (joined.member_id, joined.generation);
                    let (id, generation) = (player.id.clone(), player.generation);
                    player.waits_for = Some(world.sync(&id, generation, &assignments));
                }
                Reply::Join(ErrorCode::MemberIdRequired, response) => {
                    player.id = response.member_id;
                    let id = player.id.clone();
                    player.waits_for = Some(world.join_as(&id, None, &["range"], 9));
                }
                Reply::Sync(ErrorCode::None, synced) => {
                    let [part] = synced.assignment[..] else {
                        prop_assert!(false, "a member without a part: {:?}", synced);
                        return Ok(());
                    };
                    player.part = Some(part);
                    let owner = *owners.entry((player.generation, part)).or_insert(number);
                    prop_assert_eq!(owner, number, "part {} of generation {}", part, player.generation);
                }
                Reply::Join(..) => *player = Player::default(),
                Reply::Sync(..) => player.part = None,
            }
        }
    }
}

/// Groups whose journal is in memory.
fn groups_of(kept: KeptGroups, memory: &Arc<Memory>, exists: impl Fn(&str) -> bool) -> Arc<Groups> {
    Groups::new(7, Arc::new(Journal::in_memory()), None, Arc::default(), kept, memory, exists)
}

/// The request of a new member that knows one protocol.
fn first_join<'a>(group_id: &'a str, metadata: &'a [u8]) -> JoinGroupRequest<'a> {
    JoinGroupRequest {
        group_id,
        session_timeout_ms: SESSION_MS,
        rebalance_timeout_ms: REBALANCE_MS,
        member_id: "",
        instance_id: None,
        protocol_type: "consumer",
        protocols: vec![("range", metadata)],
    }
}

#[test]
fn a_group_that_was_kept_is_forgotten_when_its_time_is_over_whatever_was_in_between() {
    const WEEK_MS: i64 = 7 * 24 * 60 * 60 * 1_000;
    let wall = UnixTime::from(std::time::SystemTime::now()).milliseconds();
    let mut kept = KeptGroups::default();
    let emptied = [("old", Some(wall - WEEK_MS)), ("young", Some(wall - WEEK_MS + 60_000)), ("killed", None)];
    for (group, emptied_at) in emptied {
        kept.apply(&Record::Group { group, protocol_type: "consumer", emptied_at });
        kept.apply(&Record::Offset(OffsetRecord {
            group,
            topic: "topic",
            index: 0,
            offset: 5,
            leader_epoch: 0,
            committed_at: 0,
            metadata: "",
        }));
    }
    let groups = groups_of(kept, &Arc::default(), |topic| topic == "topic");
    groups.act();
    let listed = groups.list(&ListGroupsRequest { states: vec![], types: vec![] }, &Everything);
    let listed: Vec<_> = listed.iter().map(|it| (&*it.group_id, it.state, &*it.protocol_type)).collect();
    assert_eq!(listed, [("killed", "Empty", "consumer"), ("young", "Empty", "consumer")]);
    let registry = groups.lock();
    let kept = registry.groups["killed"].offsets.kept.as_ref().unwrap();
    assert!(kept.emptied_at.is_some_and(|at| at >= wall), "its members went with the service");
}

#[test]
fn offsets_of_a_topic_are_deleted_unless_a_member_has_subscribed_to_it() {
    let (world, _members) = World::of_two();
    assert!(world.group.is_subscribed_to("any"), "what can't be read may mean any topic");
    let mut world = World::new();
    world.tickets += 1;
    // Version 0, one topic, no user data.
    let metadata = b"\0\0\0\0\0\x01\0\x05topic\xff\xff\xff\xff";
    let request = first_join("group", metadata);
    let client = Client { id: "client", host: "/127.0.0.1", version: 3 };
    world.group.join(world.now, world.tickets, &request, client, || "member".to_owned());
    assert_eq!((world.group.is_subscribed_to("topic"), world.group.is_subscribed_to("other")), (true, false));
}

#[test]
fn principal_creates_so_many_groups_and_leaves_room_for_others() {
    let groups = groups_of(KeptGroups::default(), &Arc::default(), |_| true);
    let commit = |group_id: &str, principal: &Principal| {
        let request = OffsetCommitRequest {
            member: MemberRef { group_id, generation: -1, member_id: "", instance_id: None },
            partitions: vec![CommittedOffset {
                topic: "topic",
                index: 0,
                offset: 1,
                leader_epoch: 0,
                metadata: "",
            }],
        };
        groups.commit(&request, principal, |_, _| Ok(())).results[0]
    };
    let key = |name: &str| Principal::Key(name.into());
    let (weak, other) = (key("weak"), key("other"));
    for number in 0..creators::PER_PRINCIPAL_MAX {
        assert_eq!(commit(&format!("group{number}"), &weak), ErrorCode::None);
    }
    assert_eq!(commit("beyond", &weak), ErrorCode::CoordinatorNotAvailable);
    assert_eq!(commit("group0", &weak), ErrorCode::None, "what is there is served");
    assert_eq!(commit("beyond", &other), ErrorCode::None);
    assert_eq!(groups.counts().refused, 1);
    // What the principal deletes makes room for it.
    assert_eq!(groups.delete(&["group0"]).results, [ErrorCode::None]);
    assert_eq!(commit("again", &weak), ErrorCode::None);
    assert_eq!(commit("more", &weak), ErrorCode::CoordinatorNotAvailable);
}

#[test]
fn groups_refuse_what_would_exceed_their_budget_and_give_memory_back() {
    let memory = Arc::<Memory>::default();
    let purpose = Purpose::KafkaGroups;
    let groups = groups_of(KeptGroups::default(), &memory, |_| true);
    let mut others = Share::new(&memory, purpose);
    assert!(others.resize(purpose.limit() as usize - 6_000));
    let own = || memory.usage(purpose).0 - (purpose.limit() - 6_000);
    let principal = Principal::Key("key".into());
    let commit = |index: i32, length: usize| {
        let metadata = "x".repeat(length);
        let offset =
            CommittedOffset { topic: "topic", index, offset: 1, leader_epoch: 0, metadata: &metadata };
        let member = MemberRef { group_id: "offsets", generation: -1, member_id: "", instance_id: None };
        let request = OffsetCommitRequest { member, partitions: vec![offset] };
        groups.commit(&request, &principal, |_, _| Ok(())).results[0]
    };
    let refused = ErrorCode::CoordinatorNotAvailable;
    assert_eq!(commit(0, 4_000), ErrorCode::None);
    assert_eq!(commit(1, 2_000), refused);
    assert_eq!(commit(0, 4_000), ErrorCode::None, "it takes no more memory than before");
    assert_eq!(commit(0, 100), ErrorCode::None);
    assert_eq!(commit(1, 2_000), ErrorCode::None);
    assert_eq!(groups.delete_offsets("offsets", &[("topic", 1)], |_, _| Ok(())).results.unwrap().len(), 1);

    let metadata = [7; 5_600];
    let join = |group_id: &str, metadata: &[u8]| {
        let request = first_join(group_id, metadata);
        let client = Client { id: "client", host: "/127.0.0.1", version: 3 };
        let mut reply = groups.join(&request, client, &principal);
        reply.try_recv().map_or(ErrorCode::None, |reply| match reply.results {
            Reply::Join(error, _) | Reply::Sync(error, _) => error,
        })
    };
    assert_eq!(join("members", &metadata), refused);
    assert_eq!(join("members", &metadata[..4_000]), ErrorCode::None);
    assert_eq!(join("others", &metadata[..1_000]), refused);
    assert!((4_000..6_000).contains(&own()), "{}", own());
    assert_eq!(memory.usage(purpose).1, 3);
    let member_id = groups.describe(&["members"])[0].members[0].member_id.clone();
    let leave = LeaveGroupRequest { group_id: "members", members: vec![(&member_id, None)] };
    assert_eq!(groups.leave(&leave), [ErrorCode::None]);
    assert_eq!(join("others", &metadata[..4_000]), ErrorCode::None);
    assert_eq!(groups.delete(&["offsets"]).results, [ErrorCode::None]);
    drop(groups);
    assert_eq!(own(), 0);
}

#[test]
fn id_that_never_joins_is_forgotten_after_a_minute() {
    let now = Instant::now();
    let mut group = ClassicGroup::new(now);
    let request = JoinGroupRequest {
        group_id: "group",
        session_timeout_ms: 1_800_000,
        rebalance_timeout_ms: 1_800_000,
        member_id: "",
        instance_id: None,
        protocol_type: "consumer",
        protocols: vec![("range", b"")],
    };
    let client = Client { id: "client", host: "/127.0.0.1", version: 9 };
    group.join(now, 1, &request, client, || "member".to_owned());
    group.expire(now + Duration::from_secs(59));
    assert_eq!(group.empty_since(), None);
    group.expire(now + Duration::from_secs(60));
    assert_eq!(group.empty_since(), Some(now + Duration::from_secs(60)));
}
