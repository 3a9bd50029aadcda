//! The coordinator, step by step, and many histories of it by chance: with a disk that is behind, fails, and forgets in a crash what it
//! has not got to.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::coordinator::{Coordinator, Known, NotDone, Progress, World};
use super::owners::{Owner, PER_PRINCIPAL_MAX};
use super::state::TransactionState;
use super::transaction::{Producer, TopicPartition};
use super::*;

/// A disk, logs and groups, of which everything can be seen.
#[derive(Debug, Default)]
struct Simulated {
    /// What was written, in order, each with whether it is on disk.
    journal: Vec<Entry>,
    on_disk: usize,
    /// Numbers that have failed.
    failed: Vec<usize>,
    refuses: bool,
    /// The partitions with what is open there, as producers with the transactions that they mean.
    open: BTreeMap<(TopicPartition, i64), Vec<u32>>,
    /// How each transaction has ended where.
    ended: Vec<(TopicPartition, u32, bool)>,
    offsets: BTreeMap<(String, String, i32), i64>,
}

#[derive(Clone, Debug)]
struct Entry {
    told: Vec<Told>,
}

/// A record that owns its texts.
#[derive(Clone, Debug)]
enum Told {
    Transaction(String, super::transaction::Transaction),
    Pending(String, i64),
    Removed(String),
    Offset(i64),
}

impl Simulated {
    fn write(&mut self, records: &[Record<'_>]) -> Result<usize, NotDone> {
        if self.refuses {
            return Err(NotDone);
        }
        let told = records.iter().map(|record| match record {
            Record::Transaction(it) => {
                Told::Transaction(it.id.to_owned(), super::transaction::Transaction::of_record(it))
            }
            Record::PendingOffset { id, offset } => Told::Pending((*id).to_owned(), offset.offset),
            Record::TransactionRemoved { id } => Told::Removed((*id).to_owned()),
            Record::Offset(offset) => Told::Offset(offset.offset),
            other => panic!("{other:?} is none of the coordinator's"),
        });
        let told = told.collect();
        self.journal.push(Entry { told });
        Ok(self.journal.len())
    }

    /// The last decision that is on disk.
    fn decision(&self, id: &str) -> Option<TransactionState> {
        let on_disk = self.journal[..self.on_disk].iter().flat_map(|entry| &entry.told);
        on_disk.rev().find_map(|told| match told {
            Told::Transaction(of, transaction) if of == id => Some(transaction.state),
            _ => None,
        })
    }

    /// What is left after a crash, and a coordinator that has read it.
    fn restart(&mut self) -> Coordinator<usize> {
        self.journal.truncate(self.on_disk);
        self.failed.clear();
        self.refuses = false;
        let mut coordinator = Coordinator::new();
        self.offsets.clear();
        for told in self.journal.iter().flat_map(|entry| &entry.told) {
            match told {
                Told::Transaction(id, it) => coordinator.apply(&Record::Transaction(it.record(id))),
                Told::Pending(id, number) => {
                    coordinator.apply(&Record::PendingOffset { id, offset: offset(*number) });
                }
                Told::Removed(id) => coordinator.apply(&Record::TransactionRemoved { id }),
                Told::Offset(number) => drop(self.offsets.insert(place(), *number)),
            }
        }
        coordinator.resume();
        coordinator
    }
}

impl World for Simulated {
    type Commit = usize;

    fn keep(&mut self, records: &[Record<'_>]) -> Result<usize, NotDone> {
        self.write(records)
    }

    fn complete(
        &mut self,
        offsets: &[OffsetRecord<'_>],
        record: Record<'_>,
        _owner: &Owner,
    ) -> Result<usize, NotDone> {
        let records: Vec<_> = offsets.iter().map(|it| Record::Offset(*it)).chain([record]).collect();
        let commit = self.write(&records)?;
        for offset in offsets {
            self.offsets.insert(place(), offset.offset);
        }
        Ok(commit)
    }

    fn mark(
        &mut self,
        partition: &TopicPartition,
        producer: Producer,
        commits: bool,
    ) -> Result<Option<usize>, NotDone> {
        if self.refuses {
            return Err(NotDone);
        }
        let expected = if commits { TransactionState::PrepareCommit } else { TransactionState::PrepareAbort };
        assert_eq!(self.decision(ID), Some(expected), "no marker without a decision on the disk");
        let written = self.open.remove(&(partition.clone(), producer.id)).unwrap_or_default();
        self.ended.extend(written.into_iter().map(|number| (partition.clone(), number, commits)));
        Ok(None)
    }

    fn state_of(&self, commit: usize) -> Progress {
        if self.failed.contains(&commit) {
            return Progress::Failed;
        }
        if commit <= self.on_disk { Progress::Done } else { Progress::Waiting }
    }
}

const ID: &str = "mover";
const TIMEOUT_MS: i32 = 60_000;

fn place() -> (String, String, i32) {
    ("group".to_owned(), "source".to_owned(), 0)
}

fn offset(number: i64) -> OffsetRecord<'static> {
    OffsetRecord {
        group: "group",
        topic: "source",
        index: 0,
        offset: number,
        leader_epoch: 0,
        committed_at: 0,
        metadata: "",
    }
}

fn partition(index: i32) -> TopicPartition {
    ("topic".to_owned(), index)
}

/// A coordinator with its world and the time.
struct Scene {
    coordinator: Coordinator<usize>,
    world: Simulated,
    now: i64,
    ids: i64,
}

impl Scene {
    fn new() -> Self {
        Self { coordinator: Coordinator::new(), world: Simulated::default(), now: 1_000, ids: 100 }
    }

    fn begin(&mut self, claimed: Producer) -> Result<Producer, ErrorCode> {
        let ids = &mut self.ids;
        let new_id = || {
            *ids += 1;
            *ids
        };
        let (coordinator, world) = (&mut self.coordinator, &mut self.world);
        let known_as = Known { id: ID, owner: None };
        let begun = coordinator.begin_producer(self.now, known_as, TIMEOUT_MS, claimed, new_id, world);
        begun.map(|(producer, _)| producer)
    }

    fn add(&mut self, producer: Producer, index: i32) -> Result<(), ErrorCode> {
        let added = self.coordinator.add(self.now, ID, producer, [partition(index)], None, &mut self.world);
        added.map(drop)
    }

    fn add_offset(&mut self, producer: Producer, number: i64) -> Result<(), ErrorCode> {
        self.coordinator.add(self.now, ID, producer, None, Some("group"), &mut self.world)?;
        let offsets = [offset(number)];
        self.coordinator.add_offsets(ID, producer, "group", &offsets, &mut self.world).map(drop)
    }

    fn write(&mut self, producer: Producer, index: i32, number: u32) -> Result<(), ErrorCode> {
        self.coordinator.check_produce(ID, producer, "topic", index)?;
        self.world.open.entry((partition(index), producer.id)).or_default().push(number);
        Ok(())
    }

    fn end(&mut self, producer: Producer, commits: bool) -> Result<bool, ErrorCode> {
        self.coordinator.end(self.now, ID, producer, commits, &mut self.world)
    }

    /// Everything reaches the disk.
    fn sync(&mut self) {
        while self.world.on_disk < self.world.journal.len() || self.coordinator.awaits_commits() {
            self.world.on_disk = self.world.journal.len();
            self.now += 1;
            self.coordinator.advance(self.now, &mut self.world);
        }
    }

    fn state(&self) -> TransactionState {
        self.coordinator.find(ID).unwrap().state
    }
}

#[test]
fn a_transaction_ends_when_its_decision_and_its_markers_are_on_disk() {
    let mut scene = Scene::new();
    let producer = scene.begin(Producer::NONE).unwrap();
    assert_eq!(producer, Producer { id: 101, epoch: 0 });
    assert_eq!(scene.write(producer, 0, 1), Err(ErrorCode::InvalidTxnState));
    assert_eq!(scene.end(producer, true), Err(ErrorCode::InvalidTxnState), "there is none");
    scene.add(producer, 0).unwrap();
    scene.write(producer, 0, 1).unwrap();
    scene.add_offset(producer, 5).unwrap();
    assert!(scene.coordinator.is_pending(&place()));
    assert_eq!(scene.end(producer, true), Ok(false));
    assert_eq!(scene.end(producer, true), Err(ErrorCode::ConcurrentTransactions));
    assert_eq!(scene.end(producer, false), Err(ErrorCode::InvalidTxnState));
    assert_eq!(scene.add(producer, 1), Err(ErrorCode::ConcurrentTransactions));
    assert_eq!(scene.write(producer, 0, 2), Err(ErrorCode::InvalidTxnState));
    assert!(scene.world.ended.is_empty() && scene.world.offsets.is_empty());
    assert!(scene.coordinator.is_pending(&place()));
    scene.sync();
    assert_eq!(scene.state(), TransactionState::CompleteCommit);
    assert_eq!(scene.coordinator.take_ended(), [(ID.to_owned(), true)]);
    assert_eq!(scene.world.ended, [(partition(0), 1, true)]);
    assert_eq!((scene.world.offsets[&place()], scene.coordinator.is_pending(&place())), (5, false));
    assert_eq!(
        (scene.end(producer, true), scene.end(producer, false)),
        (Ok(true), Err(ErrorCode::InvalidTxnState))
    );

    scene.add(producer, 0).unwrap();
    scene.write(producer, 0, 2).unwrap();
    scene.add_offset(producer, 9).unwrap();
    assert_eq!(scene.end(producer, false), Ok(false));
    scene.sync();
    assert_eq!(scene.world.ended.last(), Some(&(partition(0), 2, false)));
    assert_eq!(scene.world.offsets[&place()], 5, "what is aborted brings no offsets");
    assert_eq!(scene.coordinator.totals, Totals { committed: 1, aborted: 1, ..Totals::default() });
}

#[test]
fn whoever_takes_the_place_of_a_producer_aborts_what_that_has_open() {
    let mut scene = Scene::new();
    let first = scene.begin(Producer::NONE).unwrap();
    scene.add(first, 0).unwrap();
    scene.write(first, 0, 1).unwrap();
    assert_eq!(scene.begin(Producer::NONE), Err(ErrorCode::ConcurrentTransactions));
    assert_eq!(scene.write(first, 0, 2), Err(ErrorCode::InvalidProducerEpoch), "it is fenced at once");
    assert_eq!(scene.end(first, true), Err(ErrorCode::ProducerFenced));
    scene.sync();
    assert_eq!(scene.world.ended, [(partition(0), 1, false)]);
    let second = scene.begin(Producer::NONE).unwrap();
    assert!(second.id == first.id && second.epoch > first.epoch);
    assert_eq!(scene.add(first, 0), Err(ErrorCode::ProducerFenced));
    assert_eq!(scene.add(Producer { id: 7, epoch: 0 }, 0), Err(ErrorCode::InvalidProducerIdMapping));
    // One that says who it was gets the next epoch, twice the same one if it has not heard the answer, and none if it was fenced.
    let third = scene.begin(second).unwrap();
    assert_eq!(third, Producer { id: second.id, epoch: second.epoch + 1 });
    assert_eq!(scene.begin(second), Ok(third));
    assert_eq!(scene.begin(first), Err(ErrorCode::ProducerFenced));
}

#[test]
fn epochs_that_are_used_up_are_followed_by_another_id() {
    let mut scene = Scene::new();
    let mut last = scene.begin(Producer::NONE).unwrap();
    while last.epoch < i16::MAX - 1 {
        last = scene.begin(last).unwrap();
    }
    let next = scene.begin(last).unwrap();
    assert_eq!(next, Producer { id: last.id + 1, epoch: 0 });
    assert_eq!(scene.begin(last), Ok(next), "it has not heard the answer");
}

#[test]
fn a_transaction_is_aborted_when_its_time_is_over_and_forgotten_when_nobody_comes_back() {
    let mut scene = Scene::new();
    for timeout_ms in [0, -1, 15 * 60 * 1_000 + 1] {
        let (coordinator, world) = (&mut scene.coordinator, &mut scene.world);
        let known_as = Known { id: ID, owner: None };
        let begun = coordinator.begin_producer(0, known_as, timeout_ms, Producer::NONE, || 1, world);
        assert_eq!(begun.map(drop), Err(ErrorCode::InvalidTransactionTimeout));
    }
    let producer = scene.begin(Producer::NONE).unwrap();
    scene.add(producer, 0).unwrap();
    scene.write(producer, 0, 1).unwrap();
    let deadline = scene.coordinator.next_deadline().unwrap();
    assert_eq!(deadline, scene.now + i64::from(TIMEOUT_MS));
    scene.now = deadline - 1;
    scene.coordinator.advance(scene.now, &mut scene.world);
    assert_eq!(scene.state(), TransactionState::Ongoing);
    scene.now = deadline;
    scene.coordinator.advance(scene.now, &mut scene.world);
    assert_eq!(scene.end(producer, true), Err(ErrorCode::ProducerFenced));
    scene.sync();
    assert_eq!(scene.world.ended, [(partition(0), 1, false)]);
    assert_eq!(scene.coordinator.totals, Totals { aborted: 1, timed_out: 1, ..Totals::default() });
    assert_eq!(scene.coordinator.next_deadline(), None);

    scene.now += 7 * 24 * 60 * 60 * 1_000 - 1_000;
    scene.coordinator.expire(scene.now, &mut scene.world);
    assert!(scene.coordinator.find(ID).is_some());
    scene.now += 1_000;
    scene.coordinator.expire(scene.now, &mut scene.world);
    assert!(scene.coordinator.find(ID).is_none());
    scene.sync();
    assert!(scene.world.restart().find(ID).is_none());
}

#[test]
fn principal_has_so_many_ids_and_then_its_own_longest_idle_one_makes_room() {
    let mut scene = Scene::new();
    let key = |name: &str| Some(Principal::Key(name.into()));
    let begin = |scene: &mut Scene, id: &str, owner: &Owner| {
        scene.now += 1;
        scene.ids += 1;
        let (ids, known_as) = (scene.ids, Known { id, owner: owner.clone() });
        let (coordinator, world) = (&mut scene.coordinator, &mut scene.world);
        coordinator.begin_producer(scene.now, known_as, TIMEOUT_MS, Producer::NONE, || ids, world)
    };
    let (weak, other) = (key("weak"), key("other"));
    begin(&mut scene, "other", &other).unwrap();
    let (used, _) = begin(&mut scene, "used", &weak).unwrap();
    scene.coordinator.add(scene.now, "used", used, [partition(0)], None, &mut scene.world).unwrap();
    for number in 1..PER_PRINCIPAL_MAX {
        begin(&mut scene, &format!("idle{number}"), &weak).unwrap();
    }
    begin(&mut scene, "idle1", &weak).unwrap();
    assert_eq!(scene.coordinator.totals.forgotten, 0, "so many there may be");
    begin(&mut scene, "new", &weak).unwrap();
    assert_eq!(scene.coordinator.totals.forgotten, 1);
    let is_known = |scene: &Scene, id| scene.coordinator.find(id).is_some();
    assert!(!is_known(&scene, "idle2"), "it was idle for longest");
    for kept in ["used", "idle1", "idle3", "new", "other"] {
        assert!(is_known(&scene, kept), "{kept}");
    }
    begin(&mut scene, "another", &other).unwrap();
    assert_eq!(scene.coordinator.totals.forgotten, 1, "others have room of their own");
    assert_eq!(scene.coordinator.id_count(), PER_PRINCIPAL_MAX + 2);
    scene.world.on_disk = scene.world.journal.len();
    assert!(scene.world.restart().find("idle2").is_none(), "a restart does not bring it back");
}

#[test]
fn ids_that_are_all_in_use_refuse_a_new_one() {
    let mut scene = Scene::new();
    let owner = Some(Principal::Key("weak".into()));
    let mut begin = |number: usize| {
        let (coordinator, world) = (&mut scene.coordinator, &mut scene.world);
        let id = format!("id{number}");
        let known_as = Known { id: &id, owner: owner.clone() };
        let (producer, _) =
            coordinator.begin_producer(1, known_as, TIMEOUT_MS, Producer::NONE, || number as i64, world)?;
        coordinator.add(1, &id, producer, [partition(0)], None, world).map(drop)
    };
    assert!((0..PER_PRINCIPAL_MAX).all(|number| begin(number).is_ok()));
    assert_eq!(begin(PER_PRINCIPAL_MAX), Err(ErrorCode::CoordinatorNotAvailable));
    assert_eq!(scene.coordinator.totals.refused, 1);
}

#[test]
fn an_account_says_all_that_holds() {
    let mut scene = Scene::new();
    let producer = scene.begin(Producer::NONE).unwrap();
    scene.add(producer, 3).unwrap();
    scene.add_offset(producer, 5).unwrap();
    let account = scene.coordinator.account();
    let mut again = Coordinator::<usize>::new();
    account.iter().for_each(|record| again.apply(record));
    assert_eq!(again.find(ID), scene.coordinator.find(ID));
    assert!(again.is_pending(&place()));
    assert!(again.forget_topic("source") && !again.forget_topic("source"));
    assert!(!again.is_pending(&place()));
    assert_eq!(again.next_deadline(), scene.coordinator.next_deadline());
}

/// What happens next.
#[derive(Clone, Copy, Debug)]
enum Event {
    /// A producer starts, and may say who it was.
    Begin {
        claims: bool,
    },
    Add(i32),
    Write(i32),
    Offset,
    End {
        commits: bool,
    },
    /// The same from the producer before.
    Late {
        index: i32,
        commits: bool,
    },
    /// So much reaches the disk.
    Sync(usize),
    /// What was written last is not known to be there.
    Fail,
    Refuse(bool),
    Pass(i64),
    Crash,
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        1 => any::<bool>().prop_map(|claims| Event::Begin { claims }),
        5 => (0..3).prop_map(Event::Add),
        8 => (0..3).prop_map(Event::Write),
        3 => Just(Event::Offset),
        5 => any::<bool>().prop_map(|commits| Event::End { commits }),
        2 => (0..3, any::<bool>()).prop_map(|(index, commits)| Event::Late { index, commits }),
        12 => (1_usize..4).prop_map(Event::Sync),
        1 => Just(Event::Fail),
        1 => any::<bool>().prop_map(Event::Refuse),
        1 => (0_i64..40_000).prop_map(Event::Pass),
        1 => Just(Event::Crash),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, ..ProptestConfig::default() })]

    #[test]
    fn no_history_ends_a_transaction_both_ways_or_lets_a_fenced_producer_write(events in prop::collection::vec(event(), 1..120)) {
        let mut scene = Scene::new();
        let mut producer = Producer::NONE;
        let mut before = Producer::NONE;
        let mut numbers = 0_u32;
        // The transaction in which each number was written, and how the producer was told that transactions have ended.
        let mut transaction_of = BTreeMap::new();
        let mut transaction = 0_u32;
        let mut told = BTreeMap::new();
        let mut ending: Option<(u32, bool)> = None;
        // What each partition's being added has to wait for.
        let mut added: BTreeMap<i32, usize> = BTreeMap::new();
        for event in events {
            match event {
                Event::Begin { claims } => {
                    let claimed = if claims { producer } else { Producer::NONE };
                    if let Ok(begun) = scene.begin(claimed) {
                        prop_assert_ne!(begun, producer, "no two of them are the same");
                        if producer != Producer::NONE {
                            before = producer;
                        }
                        producer = begun;
                        transaction += 1;
                        ending = None;
                    }
                }
                Event::Add(index) => match scene.add(producer, index) {
                    Ok(()) => drop(added.insert(index, scene.world.journal.len())),
                    Err(_) => drop(added.remove(&index)),
                },
                Event::Write(index) => {
                    numbers += 1;
                    // It does not write before it has heard that it may.
                    let has_heard =
                        |commit: &usize| *commit <= scene.world.on_disk && !scene.world.failed.contains(commit);
                    if added.get(&index).is_some_and(has_heard)
                        && scene.write(producer, index, numbers).is_ok() {
                        transaction_of.insert(numbers, transaction);
                    }
                }
                Event::Offset => drop(scene.add_offset(producer, i64::from(transaction))),
                Event::End { commits } => match scene.end(producer, commits) {
                    Ok(true) => {
                        if ending.is_none_or(|(_, of)| of == commits) {
                            told.entry(transaction).or_insert(commits);
                        }
                        transaction += 1;
                        ending = None;
                    }
                    Ok(false) => ending = Some((transaction, commits)),
                    Err(_) => {}
                },
                Event::Late { index, commits } => {
                    if before != Producer::NONE && before != producer {
                        prop_assert!(scene.write(before, index, u32::MAX).is_err());
                        prop_assert!(scene.add(before, index).is_err());
                        prop_assert!(scene.end(before, commits).is_err());
                    }
                }
                Event::Sync(count) => {
                    scene.world.on_disk = (scene.world.on_disk + count).min(scene.world.journal.len());
                    scene.coordinator.advance(scene.now, &mut scene.world);
                }
                Event::Fail => {
                    let written = scene.world.journal.len();
                    if written > scene.world.on_disk {
                        scene.world.failed.push(written);
                    }
                }
                Event::Refuse(refuses) => scene.world.refuses = refuses,
                Event::Pass(time) => {
                    scene.now += time;
                    scene.coordinator.advance(scene.now, &mut scene.world);
                }
                Event::Crash => {
                    added.retain(|_, commit| *commit <= scene.world.on_disk);
                    // A producer that was not told who it is begins anew.
                    scene.coordinator = scene.world.restart();
                    let known = scene.coordinator.find(ID).map(|it| it.producer);
                    if known != Some(producer) {
                        producer = Producer::NONE;
                        before = Producer::NONE;
                    }
                    // What was written and is in no transaction that is known is aborted at the start.
                    let open = std::mem::take(&mut scene.world.open);
                    for ((partition, id), written) in open {
                        if scene.coordinator.knows(id, &partition) {
                            scene.world.open.insert((partition, id), written);
                        } else {
                            let aborted = written.into_iter().map(|number| (partition.clone(), number, false));
                            scene.world.ended.extend(aborted);
                        }
                    }
                    transaction += u32::from(ending.take().is_some());
                }
            }
            for (_, has_ended) in scene.coordinator.take_ended() {
                if let Some((of, commits)) = ending.take() {
                    // Of one that is not certain it asks again, and writes to the next one when that has ended.
                    transaction += 1;
                    if has_ended {
                        told.insert(of, commits);
                    }
                }
            }
        }
        scene.world.refuses = false;
        scene.world.failed.clear();
        scene.sync();
        let mut how: BTreeMap<u32, bool> = BTreeMap::new();
        for (_, number, commits) in &scene.world.ended {
            let transaction = transaction_of[number];
            prop_assert_eq!(*how.entry(transaction).or_insert(*commits), *commits, "both ways");
            if let Some(told) = told.get(&transaction) {
                prop_assert_eq!(told, commits, "not as its producer was told");
            }
        }
        if scene.coordinator.find(ID).is_some_and(|it| it.state != TransactionState::Ongoing) {
            prop_assert!(scene.world.open.values().all(Vec::is_empty), "{:?} waits for ever", scene.world.open);
            prop_assert!(!scene.coordinator.is_pending(&place()));
        }
    }
}
