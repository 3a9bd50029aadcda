//! Who of a group reads which partition, computed by the member that leads it, for all of them. No clock, no network.
//!
//! | | who gets what | how a group changes over |
//! |---|---|---|
//! | `cooperative-sticky` | everyone keeps what it has, as far as shares that differ by one at most allow | a partition that is to move is given to nobody until its owner has given it up |
//! | `range` | of each topic, neighbouring partitions | everyone gives up everything first |
//!
//! Both are those of Kafka's Java client, so that its consumers and relays make one group, whoever leads.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use kafka::messages::consumer_protocol::Subscription;

/// A partition of a topic.
pub(crate) type TopicPartition = (Arc<str>, i32);

/// How partitions are divided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Assignor {
    CooperativeSticky,
    Range,
}

/// A member, as its leader knows it.
#[derive(Clone, Debug, Default)]
pub(super) struct Candidate {
    pub(super) member_id: String,
    /// The name that it keeps.
    pub(super) instance_id: Option<String>,
    /// The topics that it wants.
    pub(super) topics: BTreeSet<Arc<str>>,
    /// What it has, by its own account.
    pub(super) owned: Vec<TopicPartition>,
    /// The generation in which it got that; -1 if it does not say.
    pub(super) generation: i32,
}

/// Who says that it has a partition.
struct Claim {
    generation: i32,
    /// Places among the members. Who says so for an older generation has not heard that it lost it.
    holders: Vec<usize>,
}

impl Assignor {
    /// Those that there are.
    pub(crate) const ALL: [Self; 2] = [Self::CooperativeSticky, Self::Range];

    /// Its name in the protocol, and in properties.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::CooperativeSticky => "cooperative-sticky",
            Self::Range => "range",
        }
    }

    /// The one of this name.
    pub(crate) fn of(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|assignor| assignor.name() == name)
    }

    /// Whether members keep what they have while a group changes over.
    pub(super) const fn is_cooperative(self) -> bool {
        matches!(self, Self::CooperativeSticky)
    }

    /// What each member is to have, in the order of the members. `counts` has the partitions of each topic.
    pub(super) fn assign(
        self,
        members: &[Candidate],
        counts: &BTreeMap<Arc<str>, i32>,
    ) -> Vec<Vec<TopicPartition>> {
        match self {
            Self::CooperativeSticky => cooperative_sticky(members, counts),
            Self::Range => range(members, counts),
        }
    }
}

impl Candidate {
    /// What a member says of itself. Names of topics are shared with the others'.
    pub(super) fn read(
        member_id: String,
        instance_id: Option<String>,
        subscription: &Subscription<'_>,
        names: &mut BTreeSet<Arc<str>>,
    ) -> Self {
        let mut name = |topic: &str| match names.get(topic) {
            Some(name) => Arc::clone(name),
            None => {
                let name: Arc<str> = topic.into();
                names.insert(Arc::clone(&name));
                name
            }
        };
        Self {
            member_id,
            instance_id,
            topics: subscription.topics.iter().map(|topic| name(topic)).collect(),
            owned: subscription.owned.iter().map(|(topic, index)| (name(topic), *index)).collect(),
            generation: generation(subscription),
        }
    }
}

/// Since when a member has what it has. Before version 2 of the protocol that is what `cooperative-sticky` says more.
fn generation(subscription: &Subscription<'_>) -> i32 {
    let more = subscription.user_data.and_then(|data| data.first_chunk());
    match subscription.generation {
        ..0 => more.map_or(-1, |bytes| i32::from_be_bytes(*bytes)),
        generation => generation,
    }
}

fn range(members: &[Candidate], counts: &BTreeMap<Arc<str>, i32>) -> Vec<Vec<TopicPartition>> {
    let mut parts = vec![Vec::new(); members.len()];
    let mut order: Vec<usize> = (0..members.len()).collect();
    // Members that keep their names keep their partitions.
    order.sort_by_key(|&place| {
        let member = &members[place];
        (member.instance_id.is_none(), member.instance_id.as_deref(), member.member_id.as_str())
    });
    for (topic, &count) in counts {
        let takers: Vec<usize> =
            order.iter().copied().filter(|&place| members[place].topics.contains(topic)).collect();
        let (count, shares) = (usize::try_from(count).unwrap_or(0), takers.len());
        let mut next = 0;
        for (place, &taker) in takers.iter().enumerate() {
            let share = count / shares + usize::from(place < count % shares);
            parts[taker].extend((next..next + share).map(|index| (Arc::clone(topic), index as i32)));
            next += share;
        }
    }
    parts
}

fn cooperative_sticky(members: &[Candidate], counts: &BTreeMap<Arc<str>, i32>) -> Vec<Vec<TopicPartition>> {
    let claims = claims(members);
    let takers: BTreeMap<&Arc<str>, Vec<usize>> = counts
        .keys()
        .map(|topic| {
            let wants = |&place: &usize| members[place].topics.contains(topic);
            (topic, (0..members.len()).filter(wants).collect())
        })
        .collect();
    let mut parts = vec![Vec::new(); members.len()];
    let mut free = Vec::new();
    for (topic, &count) in counts {
        for index in 0..count {
            let partition = (Arc::clone(topic), index);
            match claims.get(&partition).map(|claim| &claim.holders[..]) {
                Some(&[holder]) if members[holder].topics.contains(topic) => parts[holder].push(partition),
                _ => free.push(partition),
            }
        }
    }
    for partition in free {
        let least = takers[&partition.0].iter().copied().min_by_key(|&place| (parts[place].len(), place));
        if let Some(taker) = least {
            parts[taker].push(partition);
        }
    }
    while let Some((from, at, to)) = next_move(&parts, &takers) {
        let partition = parts[from].remove(at);
        parts[to].push(partition);
    }
    for (place, part) in parts.iter_mut().enumerate() {
        let is_anothers = |partition: &TopicPartition| {
            claims.get(partition).is_some_and(|claim| claim.holders.iter().any(|&holder| holder != place))
        };
        // Until they have given it up, which they do when they see that they are not to have it.
        part.retain(|partition| !is_anothers(partition));
        part.sort_unstable();
    }
    parts
}

/// Who says that it has which partition, as far as it can be believed.
fn claims(members: &[Candidate]) -> BTreeMap<TopicPartition, Claim> {
    let mut claims: BTreeMap<TopicPartition, Claim> = BTreeMap::new();
    for (place, &Candidate { ref owned, generation, .. }) in members.iter().enumerate() {
        for partition in owned {
            let claim =
                claims.entry(partition.clone()).or_insert_with(|| Claim { generation, holders: Vec::new() });
            if generation > claim.generation {
                *claim = Claim { generation, holders: vec![place] };
            } else if generation == claim.generation && !claim.holders.contains(&place) {
                claim.holders.push(place);
            }
        }
    }
    claims
}

/// A partition that makes shares more equal when it moves: whose it is, its place there, and whose it becomes.
fn next_move(
    parts: &[Vec<TopicPartition>],
    takers: &BTreeMap<&Arc<str>, Vec<usize>>,
) -> Option<(usize, usize, usize)> {
    let mut order: Vec<usize> = (0..parts.len()).collect();
    order.sort_by_key(|&place| Reverse(parts[place].len()));
    order.into_iter().find_map(|from| {
        let mut seen = BTreeSet::new();
        let mut part = parts[from].iter().enumerate().rev().filter(|(_, (topic, _))| seen.insert(topic));
        part.find_map(|(at, (topic, _))| {
            let to = takers.get(topic)?.iter().copied().min_by_key(|&place| (parts[place].len(), place))?;
            (parts[to].len() + 2 <= parts[from].len()).then_some((from, at, to))
        })
    })
}

#[cfg(test)]
mod tests;
