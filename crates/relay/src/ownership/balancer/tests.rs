//! One cycle by hand, and groups of relays over a store in memory.

use std::collections::BTreeSet;
use std::time::UNIX_EPOCH;

use proptest::prelude::*;

use super::*;

const EXPIRE: Duration = Duration::from_secs(60);

fn group() -> ConsumerGroup {
    ConsumerGroup::new("localhost", "hub", "$Default")
}

fn at(seconds: u64) -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(seconds)
}

fn balancer(identity: &str, mode: OwnershipMode, partitions: u32, seed: u64) -> Balancer {
    let options = OwnershipOptions { mode, expire: EXPIRE, ..OwnershipOptions::new(identity) };
    let partitions = (0..partitions).map(PartitionId);
    Balancer::new(group(), partitions, &options, seed)
}

fn owned(partition: u32, owner: &str, etag: &str, modified: u64) -> Ownership {
    Ownership {
        etag: Some(ETag(etag.to_owned())),
        last_modified: Some(at(modified)),
        ..Ownership::new(group(), PartitionId(partition), owner)
    }
}

/// The claim of a relay, which gives the partition back when it is asked to.
fn yielding(partition: u32, owner: &str, asked_by: Option<&str>) -> Ownership {
    Ownership { yields: true, asked_by: asked_by.map(str::to_owned), ..owned(partition, owner, "a", 0) }
}

fn held(claims: &[(u32, &str)]) -> BTreeMap<PartitionId, ETag> {
    let claims = claims.iter();
    claims.map(|&(partition, etag)| (PartitionId(partition), ETag(etag.to_owned()))).collect()
}

fn kinds(plan: &Plan) -> BTreeMap<u32, ClaimKind> {
    let claims = plan.claims.iter();
    claims.map(|claim| (claim.ownership.partition.0, claim.kind.clone())).collect()
}

#[test]
fn the_first_relay_claims_everything_or_one_at_a_time() {
    let greedy = balancer("me", OwnershipMode::Greedy, 4, 1).plan(at(0), &held(&[]), &[]);
    assert_eq!(kinds(&greedy), (0..4).map(|id| (id, ClaimKind::Free)).collect());
    assert!(greedy.claims.iter().all(|claim| claim.ownership.etag.is_none()));
    let balanced = balancer("me", OwnershipMode::Balanced, 4, 1).plan(at(0), &held(&[]), &[]);
    assert_eq!(balanced.claims.len(), 1);
}

#[test]
fn what_was_given_back_or_has_expired_is_claimed_before_anything_is_stolen() {
    let listed = [
        owned(0, "", "a", 100),
        owned(1, "gone", "b", 39),
        owned(2, "you", "c", 40),
        owned(3, "you", "d", 100),
    ];
    let plan = balancer("me", OwnershipMode::Greedy, 4, 1).plan(at(100), &held(&[]), &listed);
    let expected = [(0, ClaimKind::Free), (1, ClaimKind::Expired)];
    assert_eq!(kinds(&plan), expected.into());
    assert_eq!(plan.owners, 2);
    let etags: BTreeSet<_> =
        plan.claims.iter().map(|claim| claim.ownership.etag.clone().map(|etag| etag.0)).collect();
    assert_eq!(etags, BTreeSet::from([Some("a".into()), Some("b".into())]));
}

#[test]
fn what_lies_there_for_long_is_taken_even_beyond_the_share() {
    // `you` is about to leave and takes nothing more; renewals are 10 s apart. Three is the share of each.
    let listed = [
        owned(0, "me", "a", 100),
        owned(1, "me", "a", 100),
        owned(2, "me", "a", 100),
        owned(3, "", "b", 79),
        owned(4, "", "c", 80),
        owned(5, "you", "d", 100),
    ];
    let held = held(&[(0, "a"), (1, "a"), (2, "a")]);
    let plan = balancer("me", OwnershipMode::Greedy, 6, 3).plan(at(100), &held, &listed);
    assert_eq!(kinds(&plan), [(3, ClaimKind::Free)].into());
    let plan = balancer("me", OwnershipMode::Balanced, 6, 3).plan(at(100), &held, &listed);
    assert_eq!(plan.claims, []);
    let plan = balancer("me", OwnershipMode::Balanced, 6, 3).plan(at(140), &held, &listed);
    assert_eq!(kinds(&plan), [(3, ClaimKind::Free)].into());
}

#[test]
fn a_newcomer_steals_its_share_from_who_has_most() {
    let listed: Vec<_> = (0..7).map(|id| owned(id, if id < 5 { "rich" } else { "poor" }, "a", 0)).collect();
    let plan = balancer("me", OwnershipMode::Greedy, 7, 9).plan(at(1), &held(&[]), &listed);
    assert_eq!(plan.claims.len(), 2);
    let stolen = ClaimKind::Stolen("rich".to_owned());
    assert!(kinds(&plan).values().all(|kind| *kind == stolen));
}

#[test]
fn a_relay_is_asked_for_a_share_and_a_processor_is_stolen_from() {
    let listed: Vec<_> = (0..4)
        .map(|id| yielding(id, "relay", None))
        .chain((4..8).map(|id| owned(id, "processor", "a", 0)))
        .collect();
    let mut me = balancer("me", OwnershipMode::Greedy, 8, 9);
    let plan = me.plan(at(1), &held(&[]), &listed);
    // A third of eight, rounded up.
    assert_eq!(plan.claims.len() + plan.requests.len(), 2, "both have four, so one of each");
    let [request] = &plan.requests[..] else { panic!("{plan:?}") };
    assert_eq!((request.owner_id.as_str(), request.asked_by.as_deref()), ("relay", Some("me")));
    assert_eq!(kinds(&plan).into_values().collect::<Vec<_>>(), [ClaimKind::Stolen("processor".to_owned())]);
    assert!(plan.claims[0].ownership.yields);
}

#[test]
fn what_was_asked_for_counts_as_who_asked_has_it_and_is_claimed_when_it_is_given_back() {
    let mut listed: Vec<_> = (0..4).map(|id| yielding(id, "you", None)).collect();
    let mut me = balancer("me", OwnershipMode::Greedy, 4, 9);
    for request in me.plan(at(1), &held(&[]), &listed).requests {
        listed[request.partition.0 as usize] = Ownership { last_modified: Some(at(1)), ..request };
    }
    let asked: Vec<_> = (0..4).filter(|id| listed[*id].asked_by.is_some()).collect();
    assert_eq!(asked.len(), 2);
    // Nobody asks again, neither the same relay nor a third one.
    let plan = me.plan(at(2), &held(&[]), &listed);
    assert_eq!((plan.requests.len(), plan.claims.len(), plan.awaited), (0, 0, 2));
    let third = balancer("third", OwnershipMode::Greedy, 4, 9).plan(at(2), &held(&[]), &listed);
    assert_eq!((third.requests.len(), third.claims.len(), third.owners), (1, 0, 3), "two, one and one");
    assert!(!asked.contains(&(third.requests[0].partition.0 as usize)));
    // The owner gives it back to who has asked, and leaves it to that one for a while.
    let holds = held(&[(0, "a"), (1, "a"), (2, "a"), (3, "a")]);
    let mut you = balancer("you", OwnershipMode::Greedy, 4, 9);
    let plan = you.plan(at(2), &holds, &listed);
    assert_eq!((plan.renewals.len(), plan.asked_back.len()), (4, 2));
    assert!(plan.asked_back.values().all(|asker| asker.as_deref() == Some("me")));
    for (partition, asker) in plan.asked_back {
        let back = you.give_back(partition, &ETag("a".to_owned()), asker);
        listed[partition.0 as usize] = Ownership { last_modified: Some(at(2)), ..back };
    }
    let holds = holds.into_iter().filter(|(partition, _)| !asked.contains(&(partition.0 as usize))).collect();
    assert_eq!(you.plan(at(3), &holds, &listed).claims, []);
    let plan = me.plan(at(3), &held(&[]), &listed);
    assert_eq!(kinds(&plan).into_values().collect::<Vec<_>>(), [ClaimKind::Free, ClaimKind::Free]);
    // Who asked has died: the others take it in the end.
    assert_eq!(you.plan(at(60), &holds, &listed).claims.len(), 2);
}

#[test]
fn what_is_not_given_back_within_the_time_of_a_claim_is_stolen() {
    let listed = |now: u64| {
        let own = (0..4).map(|id| yielding(id, "you", (id < 2).then_some("me")));
        own.map(|own| Ownership { last_modified: Some(at(now)), ..own }).collect::<Vec<_>>()
    };
    let mut me = balancer("me", OwnershipMode::Greedy, 4, 9);
    for now in (0..=60).step_by(10) {
        assert_eq!(me.plan(at(now), &held(&[]), &listed(now)).claims, [], "at {now} s");
    }
    let plan = me.plan(at(61), &held(&[]), &listed(61));
    let stolen = ClaimKind::Stolen("you".to_owned());
    assert_eq!(kinds(&plan), [(0, stolen.clone()), (1, stolen)].into());
}

#[test]
fn what_others_have_just_left_is_taken_at_once_even_in_the_slow_mode() {
    let listed = [
        owned(0, "", "a", 95),
        owned(1, "", "a", 95),
        owned(2, "gone", "a", 39),
        owned(3, "", "a", 20),
        owned(4, "you", "a", 95),
    ];
    let plan = balancer("me", OwnershipMode::Balanced, 9, 1).plan(at(100), &held(&[]), &listed);
    let claimed: BTreeSet<_> = kinds(&plan).into_keys().collect();
    assert!(claimed.is_superset(&BTreeSet::from([0, 1, 2])), "{claimed:?}");
    assert_eq!(claimed.len(), 4, "and one of those that have lain there for long, or were never claimed");
}

#[test]
fn equal_shares_are_left_alone() {
    let listed: Vec<_> = (0..7).map(|id| owned(id, ["me", "you", "they"][id as usize % 3], "a", 0)).collect();
    for (name, mine) in [("me", vec![0, 3, 6]), ("you", vec![1, 4]), ("they", vec![2, 5])] {
        let held = mine.iter().map(|&id| (PartitionId(id), ETag("a".into())));
        let plan = balancer(name, OwnershipMode::Greedy, 7, 1).plan(at(1), &held.collect(), &listed);
        assert_eq!(plan.claims, []);
        let renewed: Vec<_> = plan.renewals.iter().map(|own| own.partition.0).collect();
        assert_eq!(renewed, mine);
    }
}

#[test]
fn who_has_no_share_left_waits() {
    let listed: Vec<_> = (0..3).map(|id| owned(id, ["a", "b", "c"][id as usize], "a", 0)).collect();
    let plan = balancer("me", OwnershipMode::Greedy, 3, 1).plan(at(1), &held(&[]), &listed);
    assert_eq!((plan.claims, plan.owners), (vec![], 4));
}

#[test]
fn what_others_have_written_is_lost_and_not_renewed() {
    let listed =
        [owned(0, "me", "a", 0), owned(1, "you", "z", 0), owned(2, "me", "y", 0), owned(3, "you", "x", 0)];
    let held = held(&[(0, "a"), (1, "b"), (2, "c")]);
    let plan = balancer("me", OwnershipMode::Greedy, 4, 1).plan(at(1), &held, &listed);
    assert_eq!(plan.lost, [PartitionId(1)]);
    // The third bears our name: it was renewed, and the answer did not come.
    let renewed: Vec<_> = plan.renewals.iter().map(|own| own.partition.0).collect();
    assert_eq!(renewed, [0, 2]);
    assert_eq!(plan.renewals[1].etag, Some(ETag("y".to_owned())));
    assert!(plan.claims.is_empty());
}

#[test]
fn partitions_that_are_not_to_be_shared_are_given_back_and_not_counted() {
    let listed = [owned(0, "me", "a", 0), owned(8, "me", "b", 0), owned(9, "you", "c", 0)];
    let held = held(&[(0, "a")]);
    let plan = balancer("me", OwnershipMode::Greedy, 1, 1).plan(at(1), &held, &listed);
    assert_eq!((plan.owners, plan.returns.len()), (1, 1));
    let returned = &plan.returns[0];
    assert_eq!(returned.partition, PartitionId(8));
    assert_eq!((returned.owner_id.as_str(), &returned.etag), ("", &listed[1].etag));
}

#[test]
fn clocks_that_differ_do_not_make_claims_expire() {
    let listed = [owned(0, "you", "a", 1_000)];
    let plan = balancer("me", OwnershipMode::Greedy, 1, 1).plan(at(0), &held(&[]), &listed);
    assert_eq!(plan.claims, []);
}

/// Relays over one store, each with its own view of what it holds.
struct Society {
    now: u64,
    store: BTreeMap<u32, Ownership>,
    writings: u64,
    relays: Vec<Relay>,
}

struct Relay {
    balancer: Balancer,
    held: BTreeMap<PartitionId, ETag>,
    /// What it has listed and not acted upon yet.
    listed: Option<Vec<Ownership>>,
}

impl Society {
    fn new(count: usize, partitions: u32, mode: OwnershipMode, seed: u64) -> Self {
        let relays = (0..count)
            .map(|number| Relay {
                balancer: balancer(&format!("relay {number}"), mode, partitions, seed),
                held: BTreeMap::new(),
                listed: None,
            })
            .collect();
        Self { now: 0, store: BTreeMap::new(), writings: 0, relays }
    }

    fn list(&mut self, number: usize) {
        self.relays[number].listed = Some(self.store.values().cloned().collect());
    }

    /// Acts upon the list; returns how many claims were won.
    fn act(&mut self, number: usize) -> usize {
        let Some(listed) = self.relays[number].listed.take() else {
            return 0;
        };
        let relay = &mut self.relays[number];
        let plan = relay.balancer.plan(at(self.now), &relay.held, &listed);
        for lost in plan.lost {
            relay.held.remove(&lost);
        }
        for renewal in plan.renewals {
            let partition = renewal.partition;
            match self.write(renewal) {
                Some(etag) => self.relays[number].held.insert(partition, etag),
                None => self.relays[number].held.remove(&partition),
            };
        }
        let mut won = 0;
        for request in plan.requests {
            won += usize::from(self.write(request).is_some());
        }
        for (partition, asker) in plan.asked_back {
            let relay = &mut self.relays[number];
            // What is under way is finished at once.
            if let Some(etag) = relay.held.remove(&partition) {
                let back = relay.balancer.give_back(partition, &etag, asker);
                won += usize::from(self.write(back).is_some());
            }
        }
        for claim in plan.claims {
            let partition = claim.ownership.partition;
            if let Some(etag) = self.write(claim.ownership) {
                won += 1;
                self.relays[number].held.insert(partition, etag);
            }
        }
        won
    }

    fn write(&mut self, claim: Ownership) -> Option<ETag> {
        let current = self.store.get(&claim.partition.0);
        if current.and_then(|current| current.etag.as_ref()) != claim.etag.as_ref() {
            return None;
        }
        self.writings += 1;
        let etag = ETag(self.writings.to_string());
        let written = Ownership { etag: Some(etag.clone()), last_modified: Some(at(self.now)), ..claim };
        self.store.insert(written.partition.0, written);
        Some(etag)
    }

    /// Partitions per living relay, as the store has it.
    fn shares(&self, living: &[usize]) -> Vec<usize> {
        living
            .iter()
            .map(|number| {
                let owner = format!("relay {number}");
                self.store.values().filter(|own| own.owner_id == owner).count()
            })
            .collect()
    }

    /// Every relay has a turn, in an order that the seed decides, with lists that may be older than others' claims.
    fn cycle(&mut self, living: &[usize], random: &mut Random) -> usize {
        let mut steps: Vec<_> = living.iter().flat_map(|&number| [number; 2]).collect();
        let mut won = 0;
        while !steps.is_empty() {
            let step = random.below(steps.len() as u64) as usize;
            let number = steps.swap_remove(step);
            if self.relays[number].listed.is_none() {
                self.list(number);
            } else {
                won += self.act(number);
            }
        }
        self.now += 10;
        won
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn any_number_of_relays_comes_to_equal_shares_and_stays_there(
        count in 1_usize..9,
        partitions in 1_u32..40,
        greedy: bool,
        seed: u64,
        leave in 0_usize..9,
    ) {
        let mode = if greedy { OwnershipMode::Greedy } else { OwnershipMode::Balanced };
        let mut random = Random::from_seed(seed);
        let mut society = Society::new(count, partitions, mode, seed);
        let all: Vec<usize> = (0..count).collect();
        settle(&mut society, &all, partitions, &mut random)?;
        // Some go without a word: what they had is free after its time, and the others share it.
        let left: Vec<usize> = all[leave.min(count - 1)..].to_vec();
        society.now += EXPIRE.as_secs() / 2;
        for &number in &left {
            society.list(number);
            society.act(number);
        }
        society.now += EXPIRE.as_secs() / 2 + 1;
        settle(&mut society, &left, partitions, &mut random)?;
    }
}

/// Cycles until nothing changes, which must not take for ever, and checks what has come of it.
fn settle(
    society: &mut Society,
    living: &[usize],
    partitions: u32,
    random: &mut Random,
) -> Result<(), TestCaseError> {
    let mut quiet = 0;
    for cycle in 0.. {
        // One partition per cycle in the slow mode, and some claims that cross.
        prop_assert!(
            cycle < 3 * partitions + 20,
            "no rest, or none in equal shares: {:?}",
            society.shares(living)
        );
        let won = society.cycle(living, random);
        let shares = society.shares(living);
        let (least, most) = (shares.iter().min(), shares.iter().max());
        // A claim may come to nothing several times in turn, where its victim renews between list and claim.
        let is_equal = most.zip(least).is_some_and(|(most, least)| most - least <= 1);
        quiet = if won == 0 && is_equal { quiet + 1 } else { 0 };
        if quiet == 5 {
            break;
        }
    }
    let shares = society.shares(living);
    prop_assert_eq!(shares.iter().sum::<usize>(), partitions as usize);
    // Each partition is held by exactly one, the one that the store names.
    let mut holders = BTreeMap::new();
    for &number in living {
        for &partition in society.relays[number].held.keys() {
            prop_assert_eq!(holders.insert(partition, number), None);
        }
    }
    prop_assert_eq!(holders.len(), partitions as usize);
    Ok(())
}
