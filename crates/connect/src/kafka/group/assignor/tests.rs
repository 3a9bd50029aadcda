//! What every division of partitions keeps to, whatever the group was before.

use proptest::collection::{btree_map, vec};
use proptest::prelude::*;

use super::*;

fn topic(number: u8) -> Arc<str> {
    format!("topic-{number}").into()
}

/// Topics with partitions, and members that want some of them and say to have some.
fn groups() -> impl Strategy<Value = (BTreeMap<Arc<str>, i32>, Vec<Candidate>)> {
    let counts = btree_map(0_u8..3, 0_i32..12, 1..4);
    let members = vec((any::<[bool; 3]>(), vec((0_u8..4, 0_i32..14), 0..10), -1_i32..3), 1..7);
    (counts, members).prop_map(|(counts, members)| {
        let counts = counts.into_iter().map(|(number, count)| (topic(number), count)).collect();
        let members = members.into_iter().enumerate().map(|(place, (wants, owned, generation))| Candidate {
            member_id: format!("member-{place}"),
            instance_id: None,
            topics: (0..3).filter(|number| wants[usize::from(*number)]).map(topic).collect(),
            owned: owned.into_iter().map(|(number, index)| (topic(number), index)).collect(),
            generation,
        });
        (counts, members.collect())
    })
}

/// Members that all want the one topic, and have what they were given last.
fn like_minded(count: usize) -> Vec<Candidate> {
    let member = |place| Candidate {
        member_id: format!("member-{place}"),
        topics: [topic(0)].into(),
        generation: 1,
        ..Candidate::default()
    };
    (0..count).map(member).collect()
}

fn sizes(parts: &[Vec<TopicPartition>]) -> Vec<usize> {
    parts.iter().map(Vec::len).collect()
}

fn is_even(parts: &[Vec<TopicPartition>]) -> bool {
    let sizes = sizes(parts);
    sizes.iter().max().zip(sizes.iter().min()).is_none_or(|(most, least)| most - least <= 1)
}

proptest! {
    #[test]
    fn nobody_has_what_is_anothers_or_what_he_does_not_want((counts, members) in groups()) {
        for assignor in Assignor::ALL {
            let parts = assignor.assign(&members, &counts);
            prop_assert_eq!(parts.len(), members.len());
            let mut given = BTreeSet::new();
            for (part, member) in parts.iter().zip(&members) {
                for partition in part {
                    prop_assert!(member.topics.contains(&partition.0), "{:?}", partition);
                    prop_assert!((0..counts[&partition.0]).contains(&partition.1));
                    prop_assert!(given.insert(partition.clone()), "{:?} is given twice", partition);
                }
            }
            for (topic, &count) in &counts {
                let is_wanted = members.iter().any(|member| member.topics.contains(topic));
                for index in 0..count {
                    let partition = (Arc::clone(topic), index);
                    let is_held = members.iter().any(|member| member.owned.contains(&partition));
                    let is_given = given.contains(&partition);
                    // What somebody has may have to be given up first.
                    prop_assert!(is_given == is_wanted || (assignor.is_cooperative() && is_held && !is_given));
                }
            }
        }
    }

    #[test]
    fn nothing_is_given_to_anyone_before_its_owner_has_given_it_up((counts, members) in groups()) {
        let parts = Assignor::CooperativeSticky.assign(&members, &counts);
        for (place, part) in parts.iter().enumerate() {
            for partition in part {
                let newest = members.iter().filter(|member| member.owned.contains(partition));
                let Some(newest) = newest.map(|member| member.generation).max() else { continue };
                for (other, member) in members.iter().enumerate() {
                    let holds = member.owned.contains(partition) && member.generation == newest;
                    prop_assert!(!holds || other == place, "{:?} is {}'s", partition, other);
                }
            }
        }
    }

    /// Members come and go; in each step everyone has what the last one gave, and what is to move is released in between.
    #[test]
    fn shares_are_equal_after_one_more_round_and_nothing_moves_that_need_not(
        count in 1_i32..40,
        steps in vec(1_usize..7, 1..6),
    ) {
        let counts = BTreeMap::from([(topic(0), count)]);
        let mut members = like_minded(1);
        for step in steps {
            let mut next = like_minded(step);
            for (member, known) in next.iter_mut().zip(&members) {
                member.owned.clone_from(&known.owned);
            }
            let before: Vec<_> = next.iter().map(|member| member.owned.clone()).collect();
            let mut rounds = 0;
            loop {
                let parts = Assignor::CooperativeSticky.assign(&next, &counts);
                rounds += 1;
                let is_over = parts.iter().zip(&next).all(|(part, member)| {
                    member.owned.iter().all(|partition| part.contains(partition))
                });
                for (member, part) in next.iter_mut().zip(parts) {
                    member.owned = part;
                }
                if is_over {
                    break;
                }
            }
            prop_assert!(rounds <= 2, "{} rounds", rounds);
            let parts: Vec<_> = next.iter().map(|member| member.owned.clone()).collect();
            prop_assert_eq!(sizes(&parts).iter().sum::<usize>(), count as usize);
            prop_assert!(is_even(&parts), "{:?}", sizes(&parts));
            let (fewest, most) = (count as usize / step, (count as usize).div_ceil(step));
            let (mut lost, mut above, mut below) = (0, 0, 0);
            for (had, has) in before.iter().zip(&parts) {
                lost += had.iter().filter(|partition| !has.contains(partition)).count();
                above += had.len().saturating_sub(most);
                below += fewest.saturating_sub(had.len());
            }
            let free = count as usize - before.iter().map(Vec::len).sum::<usize>();
            // Who has more than the largest share loses the rest; beyond that only what others lack to the smallest, and is not free.
            prop_assert!(lost <= above.max(below.saturating_sub(free)), "{} moved, {} {} {}", lost, above, below, free);
            members = next;
        }
    }

    #[test]
    fn a_range_is_even_in_each_topic(count in 0_i32..40, members in 1_usize..7) {
        let parts = Assignor::Range.assign(&like_minded(members), &BTreeMap::from([(topic(0), count)]));
        prop_assert!(is_even(&parts));
        let all: Vec<i32> = parts.iter().flatten().map(|(_, index)| *index).collect();
        prop_assert_eq!(all, (0..count).collect::<Vec<_>>(), "neighbours stay together");
    }
}

#[test]
fn who_has_not_heard_that_it_lost_a_partition_is_not_believed() {
    let counts = BTreeMap::from([(topic(0), 2)]);
    let mut members = like_minded(2);
    members[0].owned = vec![(topic(0), 0), (topic(0), 1)];
    members[1].owned = vec![(topic(0), 1)];
    members[1].generation = 2;
    let parts = Assignor::CooperativeSticky.assign(&members, &counts);
    assert_eq!(parts, [vec![(topic(0), 0)], vec![(topic(0), 1)]]);
    // Two that say so with equal right give it up both.
    members[0].generation = 2;
    let parts = Assignor::CooperativeSticky.assign(&members, &counts);
    assert_eq!(parts, [vec![(topic(0), 0)], vec![]]);
}

#[test]
fn members_that_keep_their_names_keep_their_range() {
    let counts = BTreeMap::from([(topic(0), 3)]);
    let mut members = like_minded(3);
    for (member, name) in members.iter_mut().zip(["c", "a", "b"]) {
        member.instance_id = Some(name.to_owned());
    }
    let parts = Assignor::Range.assign(&members, &counts);
    assert_eq!(parts, [vec![(topic(0), 2)], vec![(topic(0), 0)], vec![(topic(0), 1)]]);
}

#[test]
fn the_generation_is_read_where_older_members_say_it() {
    let of = |generation, data: Option<&'static [u8]>| {
        let mut subscription = Subscription::to(vec!["orders"]);
        (subscription.generation, subscription.user_data) = (generation, data);
        Candidate::read("it".to_owned(), None, &subscription, &mut BTreeSet::new()).generation
    };
    assert_eq!(of(7, Some(&[0, 0, 0, 3])), 7);
    assert_eq!(of(-1, Some(&[0, 0, 0, 3])), 3);
    assert_eq!(of(-1, Some(&[0, 0])), -1);
    assert_eq!(of(-1, None), -1);
}
