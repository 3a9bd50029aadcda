//! One group, step by step, and many histories of it by chance, with members that take their time and miss answers.

use proptest::prelude::*;

use super::*;
use crate::journal::{ConsumerMemberRecord, Record};

/// Topics by name, and which of them the member may know of: all.
struct Known(BTreeMap<String, Topic>);

impl Topics for Known {
    fn find(&self, name: &str) -> Option<Topic> {
        self.0.get(name).copied()
    }

    fn names(&self) -> Vec<String> {
        self.0.keys().cloned().collect()
    }
}

/// A client: what it holds, and what it believes of itself.
#[derive(Clone, Debug)]
struct Consumer {
    id: String,
    instance: Option<&'static str>,
    epoch: i32,
    owned: PartitionSet,
    /// What it was last told it may hold. It gives the rest back before it takes anything.
    told: PartitionSet,
    /// It has missed an answer, and says everything anew.
    is_lost: bool,
    wants: Vec<&'static str>,
    pattern: Option<&'static str>,
}

struct World {
    group: ConsumerGroup,
    /// What the journal has, in which all records are applied one after the other.
    journal: Vec<Vec<u8>>,
    topics: Known,
    now: Instant,
    ids: u32,
}

const CLIENT: Client<'_> = Client { id: "client", host: "/127.0.0.1", version: 1 };
const REBALANCE_MS: i32 = 10_000;

impl Consumer {
    fn new(id: &str, wants: &[&'static str]) -> Self {
        Self {
            id: id.to_owned(),
            instance: None,
            epoch: JOIN,
            owned: PartitionSet::new(),
            told: PartitionSet::new(),
            is_lost: false,
            wants: wants.to_vec(),
            pattern: None,
        }
    }

    /// Gives back what it must, and then takes what it may.
    fn obey(&mut self) {
        match self.owned.is_subset(&self.told) {
            true => self.owned = self.told.clone(),
            false => self.owned = &self.owned & &self.told,
        }
    }

    /// It has to begin again.
    fn is_fenced(&mut self) {
        self.epoch = JOIN;
        self.owned.clear();
        self.told.clear();
    }
}

impl World {
    fn new(topics: &[(&str, u32)]) -> Self {
        let now = Instant::now();
        let mut known = Known(BTreeMap::new());
        for (name, partitions) in topics {
            let id = [known.0.len() as u8 + 1; 16];
            known.0.insert((*name).to_owned(), Topic { id, partitions: *partitions });
        }
        Self { group: ConsumerGroup::new(now), journal: Vec::new(), topics: known, now, ids: 0 }
    }

    fn send(
        &mut self,
        request: &ConsumerGroupHeartbeatRequest<'_>,
        version: i16,
    ) -> Result<ConsumerGroupHeartbeatResponse, Refusal> {
        self.ids += 1;
        let new_id = || format!("member-{}", self.ids);
        let client = Client { version, ..CLIENT };
        let result = self.group.heartbeat(self.now, request, client, &self.topics, new_id);
        self.store();
        result
    }

    /// Does what the service does before it answers.
    fn store(&mut self) {
        self.journal.extend(self.group.unstored("group").iter().map(Record::to_bytes));
        self.group.note_stored();
    }

    /// Restores the group from the journal, which may have been written again as a whole.
    fn restart(&mut self, is_after_account: bool) {
        if is_after_account {
            self.journal = self.group.account("group").iter().map(Record::to_bytes).collect();
        }
        let mut stored = StoredConsumers::default();
        for bytes in &self.journal {
            stored.apply(self.now, &Record::of_bytes(bytes).unwrap());
        }
        let is_empty = stored.is_empty();
        let restored = stored.restored(self.now);
        assert!(is_empty || restored.is_some(), "what is written is sound");
        self.group = restored.unwrap_or_else(|| ConsumerGroup::new(self.now));
    }

    /// One heartbeat of a client, whose answer it may miss.
    fn beat(&mut self, consumer: &mut Consumer, is_heard: bool) -> Result<(), ErrorCode> {
        let is_full = consumer.epoch == JOIN || consumer.is_lost;
        let is_done = consumer.owned == consumer.told;
        let request = ConsumerGroupHeartbeatRequest {
            group_id: "group",
            member_id: &consumer.id,
            member_epoch: consumer.epoch,
            instance_id: consumer.instance,
            rebalance_timeout_ms: is_full.then_some(REBALANCE_MS),
            topic_names: is_full.then(|| consumer.wants.clone()),
            topic_regex: consumer.pattern.filter(|_| is_full),
            // What it is about to take or to give back, it reports when that is done.
            owned: is_done.then(|| by_topic(&consumer.owned)),
            ..ConsumerGroupHeartbeatRequest::default()
        };
        match self.send(&request, 1) {
            Ok(_) if !is_heard => consumer.is_lost = true,
            Ok(response) => {
                // Who has not said everything is not told everything.
                consumer.is_lost &= !is_done;
                consumer.epoch = response.member_epoch;
                if let Some(assignment) = response.assignment {
                    consumer.told = partitions_of(&assignment);
                }
            }
            Err((error, _)) => {
                consumer.is_fenced();
                return Err(error);
            }
        }
        Ok(())
    }

    /// Heartbeats until nothing changes any more.
    fn settle(&mut self, consumers: &mut [Consumer]) {
        for _ in 0..20 {
            for consumer in &mut *consumers {
                // Whoever is fenced joins again with the next one.
                let _ = self.beat(consumer, true);
                consumer.obey();
                consumer.obey();
            }
        }
    }

    fn end(&mut self, consumer: &Consumer, epoch: i32) -> Result<(), ErrorCode> {
        let request = ConsumerGroupHeartbeatRequest {
            group_id: "group",
            member_id: &consumer.id,
            member_epoch: epoch,
            instance_id: consumer.instance,
            ..ConsumerGroupHeartbeatRequest::default()
        };
        self.send(&request, 1).map(drop).map_err(|(error, _)| error)
    }
}

fn counts(consumers: &[Consumer]) -> Vec<usize> {
    consumers.iter().map(|consumer| consumer.owned.len()).collect()
}

#[test]
fn who_joins_gets_partitions_once_the_others_have_given_them_back() {
    let mut world = World::new(&[("orders", 4)]);
    let (mut first, mut second) = (Consumer::new("a", &["orders"]), Consumer::new("b", &["orders"]));
    world.beat(&mut first, true).unwrap();
    first.obey();
    assert_eq!((first.epoch, first.owned.len()), (1, 4));
    world.beat(&mut second, true).unwrap();
    assert_eq!((second.epoch, second.told.len()), (2, 0), "nothing is free yet");
    assert_eq!(world.group.state_name(), "Reconciling");
    world.beat(&mut first, true).unwrap();
    assert_eq!((first.epoch, first.told.len()), (1, 2), "it has to give two back");
    world.beat(&mut second, true).unwrap();
    assert_eq!(second.told.len(), 0);
    first.obey();
    world.beat(&mut first, true).unwrap();
    assert_eq!(first.epoch, 2);
    world.beat(&mut second, true).unwrap();
    assert_eq!(second.told.len(), 2);
    assert_eq!(world.group.state_name(), "Stable");
}

#[test]
fn who_does_not_give_back_in_time_or_is_silent_is_out() {
    let mut world = World::new(&[("orders", 2)]);
    let (mut first, mut second) = (Consumer::new("a", &["orders"]), Consumer::new("b", &["orders"]));
    world.beat(&mut first, true).unwrap();
    first.obey();
    world.beat(&mut second, true).unwrap();
    world.beat(&mut first, true).unwrap();
    let late = world.group.next_deadline().unwrap();
    assert_eq!(late, world.now + Duration::from_millis(REBALANCE_MS as u64), "it has so long to give back");
    world.now = late;
    world.group.expire(world.now);
    assert_eq!(world.beat(&mut first, true), Err(ErrorCode::UnknownMemberId));
    world.beat(&mut second, true).unwrap();
    assert_eq!(second.told.len(), 2);
    world.now += SESSION_TIMEOUT;
    world.group.expire(world.now);
    assert_eq!((world.group.member_count(), world.group.state_name()), (0, "Empty"));
    assert_eq!(world.group.empty_since(), Some(world.now));
}

#[test]
fn a_lost_answer_is_made_up_for_and_an_older_epoch_is_fenced() {
    let mut world = World::new(&[("orders", 2)]);
    let mut consumer = Consumer::new("a", &["orders"]);
    world.beat(&mut consumer, true).unwrap();
    consumer.obey();
    world.topics.0.get_mut("orders").unwrap().partitions = 3;
    world.beat(&mut consumer, false).unwrap();
    world.beat(&mut consumer, true).unwrap();
    assert_eq!(
        (consumer.epoch, consumer.told.len()),
        (2, 3),
        "the new partition was given in the answer that was lost"
    );
    consumer.obey();
    let mut before = Consumer { epoch: 1, ..consumer.clone() };
    assert_eq!(world.beat(&mut before, true), Ok(()), "an answer may be lost");
    let mut other = Consumer { epoch: 1, owned: PartitionSet::from([([1; 16], 7)]), ..consumer.clone() };
    other.told = other.owned.clone();
    assert_eq!(
        world.beat(&mut other, true),
        Err(ErrorCode::FencedMemberEpoch),
        "it holds what it was never given"
    );
    consumer.epoch = 3;
    assert_eq!(world.beat(&mut consumer, true), Err(ErrorCode::FencedMemberEpoch));
    // It begins again under its name.
    world.beat(&mut consumer, true).unwrap();
    assert_eq!((consumer.epoch, consumer.told.len()), (2, 3));
}

#[test]
fn a_static_member_finds_its_partitions_again() {
    let mut world = World::new(&[("orders", 4)]);
    let mut first = Consumer { instance: Some("one"), ..Consumer::new("a", &["orders"]) };
    let mut others = vec![Consumer::new("b", &["orders"])];
    for _ in 0..5 {
        world.beat(&mut first, true).unwrap();
        first.obey();
        world.settle(&mut others);
    }
    let before = first.owned.clone();
    assert_eq!(before.len(), 2);
    let mut again = Consumer { instance: Some("one"), ..Consumer::new("c", &["orders"]) };
    assert_eq!(world.beat(&mut again, true), Err(ErrorCode::UnreleasedInstanceId), "it is still there");
    world.end(&first, LEAVE_FOR_A_WHILE).unwrap();
    assert_eq!(world.beat(&mut first.clone(), true), Err(ErrorCode::FencedMemberEpoch));
    world.settle(&mut others);
    assert_eq!(others[0].owned.len(), 2, "nobody gets what it had");
    world.beat(&mut again, true).unwrap();
    assert_eq!(again.told, before);
    assert_eq!(world.beat(&mut first, true), Err(ErrorCode::FencedInstanceId));
    assert_eq!(world.beat(&mut first, true), Err(ErrorCode::UnreleasedInstanceId), "as it joins anew");
    world.end(&again, LEAVE).unwrap();
    world.settle(&mut others);
    assert_eq!(others[0].owned.len(), 4);
}

#[test]
fn topics_come_by_pattern_and_go() {
    let mut world = World::new(&[("orders", 1), ("orders-eu", 1), ("returns", 1)]);
    let mut consumers = [Consumer { pattern: Some("orders.*"), ..Consumer::new("a", &[]) }];
    world.settle(&mut consumers);
    assert_eq!(counts(&consumers), [2]);
    world.topics.0.remove("orders");
    world.topics.0.insert("orders-us".to_owned(), Topic { id: [9; 16], partitions: 3 });
    world.settle(&mut consumers);
    assert_eq!(counts(&consumers), [4]);
    assert!(world.group.is_subscribed_to("orders-us") && !world.group.is_subscribed_to("returns"));
    let refused = |pattern| {
        let mut world = World::new(&[("orders", 1)]);
        world.beat(&mut Consumer { pattern: Some(pattern), ..Consumer::new("a", &[]) }, true)
    };
    for pattern in ["(", "a)|(b", "(((a{1000}){1000}){1000}){1000}"] {
        assert_eq!(refused(pattern), Err(ErrorCode::InvalidRegularExpression), "{pattern}");
    }
}

#[test]
fn what_makes_no_sense_is_refused() {
    let mut world = World::new(&[("orders", 1)]);
    let joining = || ConsumerGroupHeartbeatRequest {
        group_id: "group",
        member_id: "a",
        rebalance_timeout_ms: Some(REBALANCE_MS),
        topic_names: Some(vec!["orders"]),
        owned: Some(Vec::new()),
        ..ConsumerGroupHeartbeatRequest::default()
    };
    let invalid = [
        ConsumerGroupHeartbeatRequest { member_id: "", ..joining() },
        ConsumerGroupHeartbeatRequest { member_epoch: -3, ..joining() },
        ConsumerGroupHeartbeatRequest { member_epoch: LEAVE_FOR_A_WHILE, ..joining() },
        ConsumerGroupHeartbeatRequest { rebalance_timeout_ms: None, ..joining() },
        ConsumerGroupHeartbeatRequest { topic_names: None, ..joining() },
        ConsumerGroupHeartbeatRequest {
            owned: Some(vec![TopicPartitions { topic_id: [1; 16], partitions: vec![0] }]),
            ..joining()
        },
    ];
    for request in invalid {
        assert_eq!(world.send(&request, 1).map_err(|(error, _)| error), Err(ErrorCode::InvalidRequest));
    }
    let unknown = ConsumerGroupHeartbeatRequest { assignor: Some("sticky"), ..joining() };
    assert_eq!(world.send(&unknown, 1).unwrap_err().0, ErrorCode::UnsupportedAssignor);
    let unknown = ConsumerGroupHeartbeatRequest { member_epoch: 1, member_id: "b", ..joining() };
    assert_eq!(world.send(&unknown, 1).unwrap_err().0, ErrorCode::UnknownMemberId);
    // The first version leaves the name to us.
    let named = world.send(&ConsumerGroupHeartbeatRequest { member_id: "", ..joining() }, 0).unwrap();
    assert!(named.member_id.starts_with("member-"));
}

#[test]
fn members_commit_in_their_epoch_and_others_only_where_there_are_none() {
    let mut world = World::new(&[("orders", 1)]);
    let check = |world: &World, member_id: &str, generation| {
        let member = MemberRef { group_id: "group", generation, member_id, instance_id: None };
        world.group.check_commit(&member, [("orders", 0)].into_iter())
    };
    assert_eq!(check(&world, "", -1), Ok(()));
    world.beat(&mut Consumer::new("a", &["orders"]), true).unwrap();
    assert_eq!(check(&world, "a", 1), Ok(()));
    assert_eq!(check(&world, "a", 2), Err(ErrorCode::StaleMemberEpoch));
    assert_eq!(check(&world, "", -1), Err(ErrorCode::UnknownMemberId));
}

#[test]
fn member_commits_in_an_earlier_epoch_what_it_has_held_since() {
    let mut world = World::new(&[("orders", 2)]);
    let (mut first, mut second) = (Consumer::new("a", &["orders"]), Consumer::new("b", &["orders"]));
    world.beat(&mut first, true).unwrap();
    world.beat(&mut second, true).unwrap();
    // What the second gets, the first gives back in an epoch of which it has not heard yet.
    for _ in 0..4 {
        world.beat(&mut first, true).unwrap();
        first.obey();
        world.beat(&mut second, true).unwrap();
        second.obey();
    }
    assert_eq!((first.owned.len(), second.owned.len()), (1, 1));
    let [(_, kept)] = first.owned.iter().copied().collect::<Vec<_>>()[..] else { panic!("one") };
    let check = |world: &World, member_id: &str, generation, index| {
        let member = MemberRef { group_id: "group", generation, member_id, instance_id: None };
        world.group.check_commit(&member, [("orders", index)].into_iter())
    };
    assert!(first.epoch > 1, "its epoch has risen");
    assert_eq!(check(&world, "a", 1, kept), Ok(()));
    assert_eq!(check(&world, "a", 1, 1 - kept), Err(ErrorCode::StaleMemberEpoch));
    assert_eq!(check(&world, "b", 1, 1 - kept), Err(ErrorCode::StaleMemberEpoch), "it had joined later");
    assert_eq!(check(&world, "b", second.epoch, 1 - kept), Ok(()));
}

#[test]
fn members_go_on_in_their_epochs_after_a_restart() {
    let mut world = World::new(&[("orders", 4), ("orders-eu", 2)]);
    let pattern = Consumer { pattern: Some("orders-.*"), ..Consumer::new("b", &[]) };
    let mut consumers = [
        Consumer { instance: Some("one"), ..Consumer::new("a", &["orders"]) },
        pattern,
        Consumer::new("c", &["orders"]),
    ];
    world.settle(&mut consumers);
    assert_eq!(counts(&consumers), [2, 2, 2]);
    let described = world.group.describe("group");
    for is_after_account in [false, true] {
        world.restart(is_after_account);
        assert_eq!(world.group.describe("group"), described);
        for consumer in &mut consumers {
            let before = consumer.clone();
            world.beat(consumer, true).unwrap();
            assert_eq!(
                (consumer.epoch, &consumer.told),
                (before.epoch, &before.owned),
                "nothing has changed"
            );
        }
        let mut other = Consumer { epoch: consumers[2].epoch + 1, ..consumers[2].clone() };
        assert_eq!(world.beat(&mut other, true), Err(ErrorCode::FencedMemberEpoch));
        world.settle(&mut consumers);
    }
    // Sessions began with the service, and end as ever.
    world.now += SESSION_TIMEOUT;
    world.group.expire(world.now);
    assert_eq!(world.group.member_count(), 0);
}

#[test]
fn records_that_contradict_each_other_restore_no_member() {
    let mut world = World::new(&[("orders", 1)]);
    world.settle(&mut [Consumer::new("a", &["orders"])]);
    let records: Vec<Vec<u8>> = world.journal.clone();
    let restored = |change: &dyn Fn(ConsumerMemberRecord<'_>) -> Vec<u8>| {
        let mut stored = StoredConsumers::default();
        for bytes in &records {
            let record = Record::of_bytes(bytes).unwrap();
            stored.apply(world.now, &record);
            if let Record::ConsumerMember(member) = record {
                stored.apply(world.now, &Record::of_bytes(&change(member)).unwrap());
            }
        }
        stored.restored(world.now).is_some()
    };
    assert!(restored(&|member: ConsumerMemberRecord<'_>| Record::ConsumerMember(member).to_bytes()));
    let twice = |member: ConsumerMemberRecord<'_>| {
        Record::ConsumerMember(ConsumerMemberRecord { member_id: "b", ..member }).to_bytes()
    };
    assert!(!restored(&twice), "two members hold one partition");
    let pattern = |member: ConsumerMemberRecord<'_>| {
        Record::ConsumerMember(ConsumerMemberRecord { pattern: Some("("), ..member }).to_bytes()
    };
    assert!(!restored(&pattern));
}

#[derive(Clone, Debug)]
enum Step {
    /// A client sends a heartbeat; the answer may be lost.
    Beat {
        consumer: usize,
        is_heard: bool,
    },
    /// A client does what it was told.
    Obey {
        consumer: usize,
    },
    /// A client's process is killed, and starts again later under another name.
    Kill {
        consumer: usize,
    },
    Leave {
        consumer: usize,
    },
    /// A client wants other topics.
    Subscribe {
        consumer: usize,
        wants: Vec<&'static str>,
    },
    Grow,
    /// The service restarts.
    Restart {
        is_after_account: bool,
    },
    Wait {
        seconds: u64,
    },
}

fn step() -> impl Strategy<Value = Step> {
    let consumer = 0usize..4;
    let wants = prop::sample::subsequence(vec!["orders", "returns", "nothing"], 0..=3);
    prop_oneof![
        8 => (consumer.clone(), prop::bool::weighted(0.9)).prop_map(|(consumer, is_heard)| Step::Beat { consumer, is_heard }),
        6 => consumer.clone().prop_map(|consumer| Step::Obey { consumer }),
        1 => consumer.clone().prop_map(|consumer| Step::Kill { consumer }),
        1 => consumer.clone().prop_map(|consumer| Step::Leave { consumer }),
        1 => (consumer, wants).prop_map(|(consumer, wants)| Step::Subscribe { consumer, wants }),
        1 => Just(Step::Grow),
        1 => any::<bool>().prop_map(|is_after_account| Step::Restart { is_after_account }),
        1 => (0u64..30).prop_map(|seconds| Step::Wait { seconds }),
    ]
}

proptest! {
    #[test]
    fn no_two_members_hold_one_partition_and_in_the_end_each_is_held(steps in prop::collection::vec(step(), 1..150)) {
        let mut world = World::new(&[("orders", 5), ("returns", 3)]);
        let mut consumers: Vec<_> =
            (0..4).map(|number| Consumer::new(&format!("member-{number}"), &["orders", "returns"])).collect();
        let mut starts = 0;
        for step in steps {
            match step {
                Step::Beat { consumer, is_heard } => {
                    let _ = world.beat(&mut consumers[consumer], is_heard);
                },
                Step::Obey { consumer } => consumers[consumer].obey(),
                Step::Kill { consumer } => {
                    starts += 1;
                    consumers[consumer] = Consumer::new(&format!("again-{starts}"), &consumers[consumer].wants);
                }
                Step::Leave { consumer } => {
                    let consumer = &mut consumers[consumer];
                    consumer.is_fenced();
                    let _ = world.end(consumer, LEAVE);
                }
                Step::Subscribe { consumer, wants } => {
                    consumers[consumer].wants = wants;
                    consumers[consumer].is_lost = true;
                }
                Step::Grow => {
                    let topic = world.topics.0.get_mut("returns").unwrap();
                    topic.partitions = (topic.partitions + 1).min(12);
                }
                Step::Restart { is_after_account } => world.restart(is_after_account),
                Step::Wait { seconds } => {
                    world.now += Duration::from_secs(seconds);
                    world.group.expire(world.now);
                    world.store();
                    // Who is out of the group learns it with the next heartbeat; it stops on its own when its time is over.
                    for consumer in consumers.iter_mut().filter(|it| !world.group.members.contains_key(&it.id)) {
                        consumer.is_fenced();
                    }
                }
            }
            let mut owners = BTreeMap::new();
            for consumer in &consumers {
                for partition in &consumer.owned {
                    if let Some(other) = owners.insert(*partition, &consumer.id) {
                        prop_assert!(false, "{partition:?} is held by {} and {other}", consumer.id);
                    }
                }
            }
            let held: usize = world.group.members.values().map(|member| member.held().count()).sum();
            prop_assert_eq!(held, world.group.held.len(), "each partition is held once, and no other is");
        }
        // Those that were killed are gone in time.
        world.settle(&mut consumers);
        for _ in 0..2 {
            world.now += SESSION_TIMEOUT / 2 + Duration::from_secs(1);
            world.settle(&mut consumers);
            world.group.expire(world.now);
            world.store();
        }
        world.settle(&mut consumers);
        prop_assert_eq!(world.group.state_name(), "Stable");
        for (name, topic) in &world.topics.0 {
            let wanting = consumers.iter().filter(|it| it.wants.contains(&name.as_str())).count();
            for index in 0..topic.partitions.cast_signed() {
                let owners = consumers.iter().filter(|it| it.owned.contains(&(topic.id, index))).count();
                prop_assert_eq!(owners, usize::from(wanting > 0), "{} {}", name, index);
            }
        }
        let wants_same = consumers.iter().all(|it| it.wants == consumers[0].wants);
        let counts = counts(&consumers);
        prop_assert!(!wants_same || counts.iter().max().unwrap() - counts.iter().min().unwrap() <= 1, "{counts:?}");
    }
}
