//! Which member gets which partitions.
//!
//! `uniform` gives all the same number of partitions, give or take one, as far as their subscriptions allow, and takes as few
//! away from those who have them as that needs. `range` gives members neighbouring partitions, the same ones of each topic, so
//! that topics with the same keys can be joined.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use kafka::read::Uuid;

/// A partition of a topic.
pub(super) type TopicPartition = (Uuid, i32);

/// Partitions, in order.
pub(super) type PartitionSet = BTreeSet<TopicPartition>;

/// A way of assignment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Assignor {
    #[default]
    Uniform,
    Range,
}

/// A member, as it matters here.
#[derive(Debug)]
pub(super) struct Subscriber<'a> {
    /// Orders members. A static member keeps its place when it starts again.
    pub(super) name: &'a str,
    pub(super) topics: BTreeSet<Uuid>,
    /// What it was to have so far.
    pub(super) before: &'a PartitionSet,
}

impl Assignor {
    /// The one of this name.
    pub(super) fn named(name: &str) -> Option<Self> {
        [Self::Uniform, Self::Range].into_iter().find(|assignor| assignor.name() == name)
    }

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Uniform => "uniform",
            Self::Range => "range",
        }
    }

    /// The partitions of each subscriber. `topics` has the number of partitions of each topic that any of them wants.
    pub(super) fn assign(
        self,
        subscribers: &[Subscriber<'_>],
        topics: &BTreeMap<Uuid, u32>,
    ) -> Vec<PartitionSet> {
        match self {
            Self::Uniform => Uniform::assign(subscribers, topics),
            Self::Range => range(subscribers, topics),
        }
    }
}

fn range(subscribers: &[Subscriber<'_>], topics: &BTreeMap<Uuid, u32>) -> Vec<PartitionSet> {
    let mut assigned = vec![PartitionSet::new(); subscribers.len()];
    let mut order: Vec<usize> = (0..subscribers.len()).collect();
    order.sort_by_key(|subscriber| subscribers[*subscriber].name);
    for (topic, partitions) in topics {
        let wants = |subscriber: &&usize| subscribers[**subscriber].topics.contains(topic);
        let wanting: Vec<usize> = order.iter().filter(wants).copied().collect();
        let partitions = *partitions as usize;
        for (place, subscriber) in wanting.iter().enumerate() {
            // The first ones get one more if it does not divide evenly.
            let [start, end] = [place, place + 1].map(|place| {
                let (each, more) = (partitions / wanting.len(), partitions % wanting.len());
                place * each + place.min(more)
            });
            let range = (start..end).filter_map(|index| Some((*topic, i32::try_from(index).ok()?)));
            assigned[*subscriber].extend(range);
        }
    }
    assigned
}

/// Members that want the same topics are alike: of them the one that has least is always known.
struct Uniform<'a> {
    assigned: Vec<PartitionSet>,
    /// To which kind each member belongs.
    kinds: Vec<usize>,
    /// Of each kind, how much its members have.
    loads: Vec<BTreeSet<(usize, usize)>>,
    /// The kinds that want a topic.
    wanted_by: HashMap<Uuid, Vec<usize>>,
    topics: &'a BTreeMap<Uuid, u32>,
}

impl<'a> Uniform<'a> {
    fn assign(subscribers: &[Subscriber<'_>], topics: &'a BTreeMap<Uuid, u32>) -> Vec<PartitionSet> {
        let mut uniform = Self::with_nothing(subscribers, topics);
        uniform.keep(subscribers);
        uniform.add_rest();
        uniform.balance();
        uniform.assigned
    }

    fn with_nothing(subscribers: &[Subscriber<'_>], topics: &'a BTreeMap<Uuid, u32>) -> Self {
        let mut known: HashMap<&BTreeSet<Uuid>, usize> = HashMap::new();
        let mut wanted_by: HashMap<Uuid, Vec<usize>> = HashMap::new();
        let mut loads: Vec<BTreeSet<(usize, usize)>> = Vec::new();
        let mut kinds = Vec::with_capacity(subscribers.len());
        // In the order of their names, so that who comes first gets more.
        let mut order: Vec<usize> = (0..subscribers.len()).collect();
        order.sort_by_key(|subscriber| subscribers[*subscriber].name);
        for subscriber in subscribers {
            let kind = *known.entry(&subscriber.topics).or_insert_with(|| {
                for topic in &subscriber.topics {
                    wanted_by.entry(*topic).or_default().push(loads.len());
                }
                loads.push(BTreeSet::new());
                loads.len() - 1
            });
            kinds.push(kind);
        }
        for subscriber in order {
            loads[kinds[subscriber]].insert((0, subscriber));
        }
        Self { assigned: vec![PartitionSet::new(); subscribers.len()], kinds, loads, wanted_by, topics }
    }

    /// Leaves everyone what it has, as long as it wants it and it is there.
    fn keep(&mut self, subscribers: &[Subscriber<'_>]) {
        let mut taken = PartitionSet::new();
        for (member, subscriber) in subscribers.iter().enumerate() {
            for partition in subscriber.before {
                let (topic, index) = partition;
                let exists = self.topics.get(topic).is_some_and(|count| index.cast_unsigned() < *count);
                if exists && subscriber.topics.contains(topic) && taken.insert(*partition) {
                    self.give(member, *partition);
                }
            }
        }
    }

    fn add_rest(&mut self) {
        let taken: PartitionSet = self.assigned.iter().flatten().copied().collect();
        for (topic, count) in self.topics {
            for index in 0..i32::try_from(*count).unwrap_or(i32::MAX) {
                let partition = (*topic, index);
                if !taken.contains(&partition)
                    && let Some((_, member)) = self.least(topic)
                {
                    self.give(member, partition);
                }
            }
        }
    }

    /// Moves partitions from those who have more to those who have less, until no move makes it more even. Each move does, so
    /// it comes to an end.
    fn balance(&mut self) {
        loop {
            let mut has_moved = false;
            for member in 0..self.assigned.len() {
                for partition in self.assigned[member].clone() {
                    let own = self.assigned[member].len();
                    if let Some((least, other)) =
                        self.least(&partition.0).filter(|(least, _)| least + 1 < own)
                    {
                        debug_assert_ne!(other, member, "it has {least}, and {own} is more");
                        self.take(member, partition);
                        self.give(other, partition);
                        has_moved = true;
                    }
                }
            }
            if !has_moved {
                return;
            }
        }
    }

    /// Who of those that want the topic has least, and how much that is.
    fn least(&self, topic: &Uuid) -> Option<(usize, usize)> {
        let kinds = self.wanted_by.get(topic)?;
        kinds.iter().filter_map(|kind| self.loads[*kind].first().copied()).min()
    }

    fn give(&mut self, member: usize, partition: TopicPartition) {
        self.change(member, |assigned| assigned.insert(partition));
    }

    fn take(&mut self, member: usize, partition: TopicPartition) {
        self.change(member, |assigned| assigned.remove(&partition));
    }

    fn change(&mut self, member: usize, change: impl FnOnce(&mut PartitionSet) -> bool) {
        let loads = &mut self.loads[self.kinds[member]];
        loads.remove(&(self.assigned[member].len(), member));
        change(&mut self.assigned[member]);
        loads.insert((self.assigned[member].len(), member));
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const TOPICS: [Uuid; 3] = [[1; 16], [2; 16], [3; 16]];

    fn subscriber<'a>(name: &'a str, topics: &[Uuid], before: &'a PartitionSet) -> Subscriber<'a> {
        Subscriber { name, topics: topics.iter().copied().collect(), before }
    }

    fn counts(assigned: &[PartitionSet]) -> Vec<usize> {
        assigned.iter().map(BTreeSet::len).collect()
    }

    #[test]
    fn ranges_are_the_same_of_each_topic() {
        let none = PartitionSet::new();
        let topics = BTreeMap::from([(TOPICS[0], 5), (TOPICS[1], 5)]);
        let subscribers = ["b", "a"].map(|name| subscriber(name, &TOPICS[..2], &none));
        let assigned = Assignor::Range.assign(&subscribers, &topics);
        let of = |topic: Uuid, indexes: std::ops::Range<i32>| indexes.map(move |index| (topic, index));
        let first: PartitionSet = of(TOPICS[0], 0..3).chain(of(TOPICS[1], 0..3)).collect();
        assert_eq!((&assigned[1], assigned[0].len()), (&first, 4));
    }

    #[test]
    fn who_joins_gets_its_share_and_nobody_else_changes() {
        let none = PartitionSet::new();
        let topics = BTreeMap::from([(TOPICS[0], 9)]);
        let two = ["a", "b"].map(|name| subscriber(name, &TOPICS[..1], &none));
        let before = Assignor::Uniform.assign(&two, &topics);
        assert_eq!(counts(&before), [5, 4]);
        let three = [
            subscriber("a", &TOPICS[..1], &before[0]),
            subscriber("b", &TOPICS[..1], &before[1]),
            subscriber("c", &TOPICS[..1], &none),
        ];
        let after = Assignor::Uniform.assign(&three, &topics);
        assert_eq!(counts(&after), [3, 3, 3]);
        assert!(
            after[0].is_subset(&before[0]) && after[1].is_subset(&before[1]),
            "only what has to move moves"
        );
    }

    proptest! {
        #[test]
        fn every_partition_has_one_member_that_wants_it_and_it_is_as_even_as_it_can_be(
            counts in prop::array::uniform3(0u32..20),
            wants in prop::collection::vec(prop::array::uniform3(any::<bool>()), 1..8),
            held in prop::collection::vec((0usize..8, 0usize..3, 0i32..25), 0..40),
            assignor in prop::sample::select(vec![Assignor::Uniform, Assignor::Range]),
        ) {
            let names: Vec<String> = (0..wants.len()).map(|member| format!("member-{member}")).collect();
            let mut before = vec![PartitionSet::new(); wants.len()];
            for (member, topic, index) in held {
                before[member % wants.len()].insert((TOPICS[topic], index));
            }
            let subscribers: Vec<_> = wants.iter().enumerate().map(|(member, wants)| {
                let topics: Vec<Uuid> = TOPICS.iter().zip(wants).filter(|(_, wants)| **wants).map(|(id, _)| *id).collect();
                subscriber(&names[member], &topics, &before[member])
            }).collect();
            let topics: BTreeMap<Uuid, u32> = TOPICS.into_iter().zip(counts).collect();
            let assigned = assignor.assign(&subscribers, &topics);
            for (topic, count) in &topics {
                let wanting = subscribers.iter().filter(|it| it.topics.contains(topic)).count();
                for index in 0..count.cast_signed() {
                    let owners = assigned.iter().filter(|it| it.contains(&(*topic, index))).count();
                    prop_assert_eq!(owners, usize::from(wanting > 0));
                }
            }
            for (own, subscriber) in assigned.iter().zip(&subscribers) {
                for partition in own {
                    prop_assert!(subscriber.topics.contains(&partition.0));
                    prop_assert!(partition.1.cast_unsigned() < topics[&partition.0]);
                    if assignor == Assignor::Uniform {
                        let others = assigned.iter().zip(&subscribers).filter(|(_, it)| it.topics.contains(&partition.0));
                        let least = others.map(|(other, _)| other.len()).min().unwrap_or(0);
                        prop_assert!(own.len() <= least + 1);
                    }
                }
            }
        }
    }
}
