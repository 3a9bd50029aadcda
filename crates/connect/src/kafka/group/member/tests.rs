//! Members against a coordinator that does what Kafka's does, in every order in which things can happen.

use std::collections::VecDeque;

use kafka::messages::join_group::{JoinGroupResponse, JoinedMember};
use kafka::messages::sync_group::SyncGroupResponse;
use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

const PARTITIONS: i32 = 7;
const SESSION: Duration = Duration::from_secs(45);

fn options(assignor: Assignor) -> MemberOptions {
    MemberOptions {
        instance_id: None,
        topics: vec!["orders".into()],
        assignors: vec![assignor],
        session_timeout: SESSION,
        rebalance_timeout: Duration::from_secs(300),
        heartbeat_interval: Duration::from_secs(3),
    }
}

/// The coordinator of a group.
#[derive(Default)]
struct Coordinator {
    generation: i32,
    ids: u32,
    /// Ids that were given, and not used yet.
    pending: Vec<String>,
    members: BTreeMap<String, Known>,
    leader: String,
    is_divided: bool,
    is_preparing: bool,
    /// What it has answered to whom.
    answers: VecDeque<(usize, Answer)>,
}

/// A member, as its coordinator knows it.
#[derive(Default)]
struct Known {
    client: usize,
    metadata: Vec<u8>,
    protocol: String,
    joins: bool,
    syncs: bool,
    part: Vec<u8>,
}

impl Coordinator {
    fn ask(&mut self, client: usize, question: Question) {
        match question {
            Question::Join { member_id, protocols } => self.join(client, member_id, &protocols),
            Question::Count(topics) => {
                let counts = topics.into_iter().map(|topic| (topic, PARTITIONS)).collect();
                self.answers.push_back((client, Answer::Counted(counts)));
            }
            Question::Sync { member_id, generation, assignments, .. } => {
                self.sync(client, &member_id, generation, assignments);
            }
            Question::Heartbeat { member_id, generation } => {
                let error = match self.members.contains_key(&member_id) {
                    false => ErrorCode::UnknownMemberId,
                    true if generation != self.generation => ErrorCode::IllegalGeneration,
                    true if self.is_preparing => ErrorCode::RebalanceInProgress,
                    true => ErrorCode::None,
                };
                self.answers.push_back((client, Answer::Beaten(error)));
            }
        }
    }

    fn join(&mut self, client: usize, id: String, protocols: &[(&'static str, Vec<u8>)]) {
        if id.is_empty() {
            self.ids += 1;
            let id = format!("member-{}", self.ids);
            self.pending.push(id.clone());
            return self.answer_join(client, ErrorCode::MemberIdRequired, id, Vec::new());
        }
        let was_pending = self.pending.iter().position(|pending| *pending == id);
        if was_pending.map(|place| self.pending.remove(place)).is_none() && !self.members.contains_key(&id) {
            return self.answer_join(client, ErrorCode::UnknownMemberId, id, Vec::new());
        }
        let member = self.members.entry(id).or_default();
        member.client = client;
        (member.protocol, member.metadata) = (protocols[0].0.to_owned(), protocols[0].1.clone());
        member.joins = true;
        self.prepare();
    }

    fn prepare(&mut self) {
        if !self.is_preparing {
            self.is_preparing = true;
            for member in self.members.values_mut().filter(|member| member.syncs) {
                member.syncs = false;
                self.answers.push_back((member.client, synced(ErrorCode::RebalanceInProgress, Vec::new())));
            }
        }
        if self.members.is_empty() || !self.members.values().all(|member| member.joins) {
            return;
        }
        (self.is_preparing, self.is_divided) = (false, false);
        self.generation += 1;
        if !self.members.contains_key(&self.leader) {
            self.leader = self.members.keys().next().unwrap().clone();
        }
        let all: Vec<JoinedMember> = self
            .members
            .iter()
            .map(|(id, member)| JoinedMember {
                member_id: id.clone(),
                instance_id: None,
                metadata: member.metadata.clone(),
            })
            .collect();
        let back = self.members.iter_mut().map(|(id, member)| {
            member.joins = false;
            member.part.clear();
            (member.client, id.clone())
        });
        for (client, id) in back.collect::<Vec<_>>() {
            let members = if id == self.leader { all.clone() } else { Vec::new() };
            self.answer_join(client, ErrorCode::None, id, members);
        }
    }

    fn answer_join(&mut self, client: usize, error: ErrorCode, id: String, members: Vec<JoinedMember>) {
        let is_in = error == ErrorCode::None;
        let response = JoinGroupResponse {
            generation: if is_in { self.generation } else { -1 },
            protocol_type: None,
            protocol: self.members.get(&id).map(|member| member.protocol.clone()),
            leader: self.leader.clone(),
            skip_assignment: false,
            member_id: id,
            members,
        };
        let joined = JoinGroupResult { error, response, throttle_time_ms: 0 };
        self.answers.push_back((client, Answer::Joined(joined)));
    }

    fn sync(&mut self, client: usize, id: &str, generation: i32, assignments: Vec<(String, Vec<u8>)>) {
        let error = match self.members.contains_key(id) {
            false => ErrorCode::UnknownMemberId,
            true if generation != self.generation => ErrorCode::IllegalGeneration,
            true if self.is_preparing => ErrorCode::RebalanceInProgress,
            true => ErrorCode::None,
        };
        if error != ErrorCode::None {
            return self.answers.push_back((client, synced(error, Vec::new())));
        }
        self.members.get_mut(id).unwrap().syncs = true;
        if id == self.leader && !self.is_divided {
            self.is_divided = true;
            for (id, part) in assignments {
                self.members.get_mut(&id).unwrap().part = part;
            }
        }
        if self.is_divided {
            for member in self.members.values_mut().filter(|member| member.syncs) {
                member.syncs = false;
                self.answers.push_back((member.client, synced(ErrorCode::None, member.part.clone())));
            }
        }
    }

    /// A member has left, or its session has ended.
    fn remove(&mut self, id: &str) {
        self.pending.retain(|pending| pending != id);
        if self.members.remove(id).is_some() {
            self.prepare();
        }
    }
}

fn synced(error: ErrorCode, assignment: Vec<u8>) -> Answer {
    let response = SyncGroupResponse { assignment, ..SyncGroupResponse::default() };
    Answer::Synced(SyncGroupResult { error, response, throttle_time_ms: 0 })
}

/// A member and what works on its partitions.
struct Client {
    member: Member,
    is_asking: bool,
    works: BTreeMap<i32, u64>,
}

struct World {
    assignor: Assignor,
    now: Instant,
    coordinator: Coordinator,
    /// Those that are gone are none.
    clients: Vec<Option<Client>>,
}

impl World {
    fn new(assignor: Assignor) -> Self {
        let coordinator = Coordinator::default();
        Self { assignor, now: Instant::now(), coordinator, clients: Vec::new() }
    }

    fn alive(&self) -> usize {
        self.clients.iter().flatten().count()
    }

    fn start(&mut self) {
        let member = Member::new(options(self.assignor), self.now);
        self.clients.push(Some(Client { member, is_asking: false, works: BTreeMap::new() }));
    }

    fn stop(&mut self, client: usize) {
        if let Some(client) = self.clients[client].take() {
            self.coordinator.remove(client.member.member_id());
        }
    }

    /// What is under way of one partition that is asked back is finished.
    fn finish(&mut self, client: usize) {
        let Some(client) = &mut self.clients[client] else { return };
        let standing = client.member.standing();
        let asked_back = standing.held_of("orders").find(|(_, held)| held.is_asked_back);
        if let Some((index, held)) = asked_back {
            client.works.remove(&index);
            client.member.release(&("orders".into(), index), held.having);
        }
        self.look();
    }

    /// Lets one member ask what it wants to know, if it does not wait for an answer.
    fn ask(&mut self, place: usize) {
        let Some(client) = &mut self.clients[place] else { return };
        if client.is_asking {
            return;
        }
        let step = client.member.poll(self.now);
        self.look();
        match step {
            Step::Ask(question) => {
                self.clients[place].as_mut().unwrap().is_asking = true;
                self.coordinator.ask(place, question);
            }
            Step::Wait(_) => self.now += Duration::from_millis(500),
        }
    }

    /// Delivers one answer.
    fn answer(&mut self, pick: usize) {
        if self.coordinator.answers.is_empty() {
            return;
        }
        let pick = pick % self.coordinator.answers.len();
        let (place, answer) = self.coordinator.answers.remove(pick).unwrap();
        if let Some(client) = &mut self.clients[place] {
            client.is_asking = false;
            client.member.take(self.now, self.now, answer).unwrap();
        }
        self.look();
    }

    /// Whoever works on partitions looks at what it has. Nobody may work on what is another's.
    fn look(&mut self) {
        let mut owners = BTreeMap::new();
        for (place, client) in self.clients.iter_mut().enumerate() {
            let Some(client) = client else { continue };
            let standing = client.member.standing();
            client.works.retain(|index, having| {
                standing.held("orders", *index).is_some_and(|held| held.having == *having)
            });
            for (index, held) in standing.held_of("orders").filter(|(_, held)| !held.is_asked_back) {
                client.works.insert(index, held.having);
            }
            for &index in client.works.keys() {
                let other = owners.insert(index, place);
                assert_eq!(other, None, "partition {index} is {place}'s as well");
            }
        }
    }

    /// Lets everything come to its end.
    fn settle(&mut self) {
        for _ in 0..150 {
            for place in 0..self.clients.len() {
                self.ask(place);
                self.answer(0);
                self.finish(place);
            }
        }
    }

    fn shares(&self) -> Vec<usize> {
        self.clients.iter().flatten().map(|client| client.works.len()).collect()
    }
}

fn assignors() -> impl Strategy<Value = Assignor> {
    prop_oneof![Just(Assignor::CooperativeSticky), Just(Assignor::Range)]
}

proptest! {
    #[test]
    fn in_whatever_order_things_happen_nobody_works_on_what_is_anothers_and_in_the_end_all_is_shared(
        assignor in assignors(),
        events in vec((0_u8..12, 0_usize..8), 0..250),
    ) {
        let mut world = World::new(assignor);
        world.start();
        for (event, pick) in events {
            let place = pick % world.clients.len();
            match event {
                0 if world.alive() < 5 => world.start(),
                1 if world.alive() > 1 => world.stop(place),
                2 | 3 => world.finish(place),
                4..8 => world.answer(pick),
                _ => world.ask(place),
            }
        }
        world.settle();
        let shares = world.shares();
        prop_assert_eq!(shares.iter().sum::<usize>(), PARTITIONS as usize, "{:?}", shares);
        let (most, least) = (shares.iter().max().unwrap(), shares.iter().min().unwrap());
        prop_assert!(most - least <= 1, "{:?}", shares);
    }
}

/// A world with so many members that have settled.
fn settled(assignor: Assignor, members: usize) -> World {
    let mut world = World::new(assignor);
    (0..members).for_each(|_| world.start());
    world.settle();
    assert_eq!(world.shares().iter().sum::<usize>(), PARTITIONS as usize);
    world
}

#[test]
fn what_is_to_stay_is_worked_on_without_a_pause_while_the_group_changes_over() {
    let mut world = settled(Assignor::CooperativeSticky, 1);
    let before = world.clients[0].as_ref().unwrap().works.clone();
    world.start();
    world.settle();
    let after = &world.clients[0].as_ref().unwrap().works;
    assert_eq!(after.len(), 4);
    assert!(after.iter().all(|(index, having)| before[index] == *having), "as it was had before");
}

#[test]
fn what_is_not_finished_in_time_is_lost_and_the_group_goes_on() {
    let mut world = settled(Assignor::CooperativeSticky, 1);
    world.start();
    // Nothing that is asked back is ever finished.
    for _ in 0..1_000 {
        for place in 0..2 {
            world.ask(place);
            world.answer(0);
        }
    }
    assert_eq!(world.shares(), [4, 3]);
}

#[test]
fn who_is_not_known_any_more_has_lost_everything_and_comes_back_as_another() {
    let mut world = settled(Assignor::CooperativeSticky, 2);
    let client = world.clients[1].as_mut().unwrap();
    let (id, held) = (client.member.member_id().to_owned(), client.works.len());
    assert!(held > 0);
    client.member.take(world.now, world.now, Answer::Beaten(ErrorCode::UnknownMemberId)).unwrap();
    let standing = client.member.standing();
    assert_eq!((standing.generation, standing.is_settled), (-1, false));
    world.coordinator.remove(&id);
    world.settle();
    assert_eq!(world.shares(), [4, 3]);
    assert_ne!(world.clients[1].as_ref().unwrap().member.member_id(), id);
}

#[test]
fn after_a_silence_as_long_as_the_session_nothing_is_had_any_more() {
    let mut world = settled(Assignor::CooperativeSticky, 1);
    let member = &mut world.clients[0].as_mut().unwrap().member;
    let Step::Ask(Question::Heartbeat { .. }) = member.poll(world.now + Duration::from_secs(40)) else {
        panic!("a heartbeat is due");
    };
    assert_eq!(member.standing().held_of("orders").count(), PARTITIONS as usize);
    let Step::Ask(Question::Join { member_id, .. }) = member.poll(world.now + 2 * SESSION) else {
        panic!("it has to join again");
    };
    assert_eq!(member_id, member.member_id());
    assert_eq!(member.standing().held_of("orders").count(), 0);
}

#[test]
fn who_can_not_be_a_member_says_why_and_what_to_do() {
    for (error, advice) in [
        (ErrorCode::InconsistentGroupProtocol, "partition.assignment.strategy"),
        (ErrorCode::FencedInstanceId, "group.instance.id"),
        (ErrorCode::InvalidSessionTimeout, "session.timeout.ms"),
        (ErrorCode::GroupAuthorizationFailed, "the right to read"),
    ] {
        let now = Instant::now();
        let mut member = Member::new(options(Assignor::Range), now);
        let response = JoinGroupResponse { generation: -1, ..JoinGroupResponse::default() };
        let joined = JoinGroupResult { error, response, throttle_time_ms: 0 };
        member.take(now, now, Answer::Joined(joined)).unwrap();
        let failure = member.standing().failure().unwrap().to_string();
        assert!(failure.starts_with(&error.name()) && failure.contains(advice), "{failure}");
    }
}
