//! What a relay claims, given what everybody has claimed.
//!
//! With `n` owners of `p` partitions, equal shares are `p / n` rounded down or up. A relay that has less first takes what
//! nobody owns: never claimed, given back, or expired. If there is too little of that, it steals from whoever has most, as
//! long as that one has at least two more than itself. Each such theft makes the shares more equal, so they come to rest,
//! and once no two differ by more than one nothing is stolen any more. An owner with too much gives nothing away by itself:
//! others cannot be seen until they own something.
//!
//! What nobody has taken although it was there for a while is taken even by those who have their share: whose it would be
//! is perhaps about to leave. The official SDKs let it lie.

use std::collections::BTreeMap;
use std::fmt;
use std::time::{Duration, SystemTime};

use connect::checkpoint::{ConsumerGroup, ETag, Ownership};
use connect::event::PartitionId;
use units::{Random, mix};

use super::{OwnershipMode, OwnershipOptions};

/// Decides what one relay claims. Deterministic: what it draws at random follows from the seed and the relay's name.
#[derive(Clone, Debug)]
pub struct Balancer {
    group: ConsumerGroup,
    identity: String,
    mode: OwnershipMode,
    expire: Duration,
    /// How long a partition may lie there for those who lack it.
    patience: Duration,
    /// All partitions that are to be shared, in order.
    partitions: Vec<PartitionId>,
    random: Random,
}

/// What is to be done in one cycle.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// Claims to renew, under the ETags of their last writing.
    pub renewals: Vec<Ownership>,
    /// Partitions to claim.
    pub claims: Vec<Claim>,
    /// Claims that bear the relay's name but are for partitions that are none of its business; to be written as they are,
    /// with an empty owner.
    pub returns: Vec<Ownership>,
    /// Partitions that the relay believed to own, and that have been written by somebody else since.
    pub lost: Vec<PartitionId>,
    /// Partitions of those that are renewed which are asked back: to be given back once what is under way of them is finished.
    pub asked_back: Vec<PartitionId>,
    /// How many owners there are, this relay included.
    pub owners: usize,
}

/// A partition to claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    /// What to write.
    pub ownership: Ownership,
    /// Why it can be claimed.
    pub kind: ClaimKind,
}

/// Why a partition can be claimed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClaimKind {
    /// Nobody has ever claimed it, or its owner gave it back.
    Free,
    /// Its owner has not renewed it for too long.
    Expired,
    /// It bears this relay's name already: from an earlier run, or lost sight of.
    Own,
    /// It was assigned to this relay.
    Assigned,
    /// It is taken away from this owner, who has more than its share.
    Stolen(String),
}

impl fmt::Display for ClaimKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Free => f.write_str("it had no owner"),
            Self::Expired => f.write_str("its owner's claim has expired"),
            Self::Own => f.write_str("this relay already owned it"),
            Self::Assigned => f.write_str("it was assigned to this relay"),
            Self::Stolen(owner) => write!(f, "stolen from {owner}, which has the most partitions"),
        }
    }
}

/// Everything that the list of claims says, by what it means to one relay.
#[derive(Debug, Default)]
struct Survey<'a> {
    /// Claims of others that are valid, by owner.
    others: BTreeMap<&'a str, Vec<&'a Ownership>>,
    /// Claims in this relay's name that it does not hold.
    own: Vec<Claim>,
    /// What nobody owns, and whether it has been so for a while.
    free: Vec<(Claim, bool)>,
}

impl Balancer {
    /// A balancer for one relay of a consumer group that is to share these partitions.
    #[must_use]
    pub fn new(
        group: ConsumerGroup,
        partitions: impl IntoIterator<Item = PartitionId>,
        options: &OwnershipOptions,
        seed: u64,
    ) -> Self {
        let mut partitions: Vec<_> = partitions.into_iter().collect();
        partitions.sort_unstable();
        partitions.dedup();
        let name = options.identity.bytes().fold(0, |hash, byte| mix(hash, u64::from(byte), 0));
        Self {
            group,
            identity: options.identity.clone(),
            mode: options.mode,
            expire: options.expire,
            patience: match options.mode {
                // Everybody has had the time to take all it lacks.
                OwnershipMode::Greedy => 2 * options.renew,
                OwnershipMode::Balanced => options.expire,
                // Nobody takes what was not given.
                OwnershipMode::Assigned => Duration::MAX,
            },
            partitions,
            random: Random::from_seed(mix(seed, name, CLAIMS)),
        }
    }

    /// What to do at `now`, by the store's clock, given the claims that this relay holds with their ETags, and all claims
    /// as the store has just listed them.
    #[must_use]
    pub fn plan(
        &mut self,
        now: SystemTime,
        held: &BTreeMap<PartitionId, ETag>,
        listed: &[Ownership],
    ) -> Plan {
        if self.mode == OwnershipMode::Assigned {
            return self.plan_assigned(held, listed);
        }
        let mut plan = Plan::default();
        let mut survey = self.survey(now, held, listed, &mut plan);
        let owners = survey.others.len() + 1;
        let most = self.partitions.len().div_ceil(owners);
        plan.owners = owners;
        let mut mine = plan.renewals.len() + survey.own.len();
        plan.claims.append(&mut survey.own);
        let missing = most.saturating_sub(mine);
        let mut allowed = match self.mode {
            OwnershipMode::Balanced => missing.min(1),
            OwnershipMode::Greedy | OwnershipMode::Assigned => missing,
        };
        while allowed > 0
            && let Some(claim) = self.draw(&mut survey.free).or_else(|| self.steal(&mut survey.others, mine))
        {
            plan.claims.push(claim);
            mine += 1;
            allowed -= 1;
        }
        let allowed = match self.mode {
            OwnershipMode::Balanced => usize::from(missing == 0),
            OwnershipMode::Greedy | OwnershipMode::Assigned => usize::MAX,
        };
        let left_over = survey.free.into_iter().filter(|&(_, left_over)| left_over);
        let left_over = left_over.map(|(claim, _)| claim).take(allowed);
        plan.claims.extend(left_over);
        plan
    }

    /// What to do where others say who owns what: only what is this relay's own is listed, without an owner if it is asked back.
    fn plan_assigned(&self, held: &BTreeMap<PartitionId, ETag>, listed: &[Ownership]) -> Plan {
        let mut plan = Plan::default();
        let listed: BTreeMap<_, _> =
            listed.iter().map(|ownership| (ownership.partition, ownership)).collect();
        for &partition in &self.partitions {
            let found = listed.get(&partition);
            let etag = found.and_then(|found| found.etag.as_ref());
            let is_asked_back = found.is_some_and(|found| found.owner_id.is_empty());
            match held.get(&partition) {
                Some(own) if etag == Some(own) => {
                    plan.renewals.push(self.claim(partition, etag));
                    plan.asked_back.extend(is_asked_back.then_some(partition));
                }
                // It may be this relay's again, but was another's in between.
                Some(_) => plan.lost.push(partition),
                None if found.is_some() && !is_asked_back => {
                    let ownership = self.claim(partition, etag);
                    plan.claims.push(Claim { ownership, kind: ClaimKind::Assigned });
                }
                None => {}
            }
        }
        plan
    }

    /// Sorts the claims by what they mean; what needs no decision goes into the plan.
    fn survey<'a>(
        &self,
        now: SystemTime,
        held: &BTreeMap<PartitionId, ETag>,
        listed: &'a [Ownership],
        plan: &mut Plan,
    ) -> Survey<'a> {
        let mut listed: BTreeMap<_, _> =
            listed.iter().map(|ownership| (ownership.partition, ownership)).collect();
        let mut survey = Survey::default();
        for &partition in &self.partitions {
            let found = listed.remove(&partition);
            let etag = found.and_then(|found| found.etag.as_ref());
            let holds = held.get(&partition);
            // In our name under another ETag it is a renewal of ours whose answer was lost: claims are written one upon the
            // other, so nobody can have been between.
            let is_ours = |found: &Ownership| found.owner_id == self.identity;
            if holds.is_some() && (holds == etag || found.is_some_and(is_ours)) {
                plan.renewals.push(self.claim(partition, etag));
                continue;
            }
            if holds.is_some() {
                plan.lost.push(partition);
            }
            let claim = |kind| Claim { ownership: self.claim(partition, etag), kind };
            let older_than = |age| found.is_some_and(|found| is_older(found, now, age));
            match found {
                None => survey.free.push((claim(ClaimKind::Free), false)),
                Some(found) if found.owner_id.is_empty() => {
                    let left_over = older_than(self.patience);
                    survey.free.push((claim(ClaimKind::Free), left_over));
                }
                Some(found) if found.owner_id == self.identity => {
                    survey.own.push(claim(ClaimKind::Own));
                }
                Some(_) if older_than(self.expire) => {
                    let left_over = older_than(self.expire + self.patience);
                    survey.free.push((claim(ClaimKind::Expired), left_over));
                }
                Some(found) => {
                    let owned = survey.others.entry(found.owner_id.as_str()).or_default();
                    owned.push(found);
                }
            }
        }
        let strangers = listed.into_values();
        plan.returns = strangers
            .filter(|found| found.owner_id == self.identity)
            .filter_map(|found| Some(self.give_back(found.partition, found.etag.as_ref()?)))
            .collect();
        survey
    }

    /// Takes any one.
    fn draw(&mut self, free: &mut Vec<(Claim, bool)>) -> Option<Claim> {
        let index = self.random.below(free.len() as u64);
        // An index below a length.
        (!free.is_empty()).then(|| free.swap_remove(index as usize).0)
    }

    /// Takes any one from any of those who have most, if that makes shares more equal.
    fn steal(&mut self, others: &mut BTreeMap<&str, Vec<&Ownership>>, mine: usize) -> Option<Claim> {
        let most = others.values().map(Vec::len).max()?;
        if most < mine + 2 {
            return None;
        }
        let richest = others.iter().filter(|(_, owned)| owned.len() == most);
        let victim = self.random.below(richest.clone().count() as u64);
        let victim = *richest.map(|(owner, _)| owner).nth(victim as usize)?;
        let index = self.random.below(most as u64);
        let taken = others.get_mut(victim)?.swap_remove(index as usize);
        Some(Claim {
            ownership: self.claim(taken.partition, taken.etag.as_ref()),
            kind: ClaimKind::Stolen(victim.to_owned()),
        })
    }

    /// The claim that gives a partition back.
    #[must_use]
    pub fn give_back(&self, partition: PartitionId, etag: &ETag) -> Ownership {
        Ownership { owner_id: String::new(), ..self.claim(partition, Some(etag)) }
    }

    /// The claim of a partition whose newest writing has this ETag, or that nobody has claimed before.
    #[must_use]
    pub fn claim(&self, partition: PartitionId, etag: Option<&ETag>) -> Ownership {
        Ownership {
            group: self.group.clone(),
            partition,
            owner_id: self.identity.clone(),
            etag: etag.cloned(),
            last_modified: None,
        }
    }
}

/// A claim without a time is as good as one that has just been made. So is one from the future: clocks differ.
fn is_older(ownership: &Ownership, now: SystemTime, age: Duration) -> bool {
    ownership
        .last_modified
        .and_then(|modified| now.duration_since(modified).ok())
        .is_some_and(|since| since > age)
}

/// The concern of the random numbers that choose what is claimed.
const CLAIMS: u64 = 2;

#[cfg(test)]
mod tests;
