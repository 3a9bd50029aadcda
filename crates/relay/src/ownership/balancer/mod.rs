//! What a relay claims, given what everybody has claimed.
//!
//! With `n` owners of `p` partitions, equal shares are `p / n` rounded down or up. A relay that has less first takes what
//! nobody owns: never claimed, given back, or expired. If there is too little of that, it steals from whoever has most, as
//! long as that one has at least two more than itself. Each such theft makes the shares more equal, so they come to rest,
//! and once no two differ by more than one nothing is stolen any more. An owner with too much gives nothing away by itself:
//! others cannot be seen until they own something.
//!
//! Where the owner is a relay, it is not stolen from but asked: it finishes what is under way and gives the partition back, so that nothing
//! comes twice. What an owner does not give back within the time of a claim is stolen.
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
    /// Partitions that this relay has asked for, with the instant of the request.
    asked: BTreeMap<PartitionId, SystemTime>,
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
    /// Partitions of those that are renewed which are asked back, with the identity of the one who asks, where it is another relay: to be given
    /// back once what is under way of them is finished.
    pub asked_back: BTreeMap<PartitionId, Option<String>>,
    /// Claims of others to be written as they are, with the request to give the partition back.
    pub requests: Vec<Ownership>,
    /// Partitions that this relay has asked for before, and that are not given back yet.
    pub awaited: usize,
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
    /// Others that have valid claims, or have asked for partitions.
    others: BTreeMap<&'a str, Other<'a>>,
    /// Partitions that this relay claims whatever its share is: those in its name that it does not hold, that were given back because it has
    /// asked for them, and that should have been.
    own: Vec<Claim>,
    /// Partitions without an owner.
    free: Vec<Free>,
}

/// The partitions of another relay or processor.
#[derive(Debug, Default)]
struct Other<'a> {
    /// Number of partitions that it owns or has asked for, without those that others have asked it for.
    share: usize,
    /// Claims that can be taken from it.
    claims: Vec<&'a Ownership>,
}

/// A partition without an owner.
#[derive(Debug)]
struct Free {
    claim: Claim,
    since: FreeSince,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FreeSince {
    /// Nobody has ever claimed it.
    Ever,
    /// Its owner gave it back, or expired, a short while ago.
    Recently,
    /// For so long that relays with too few partitions could have taken it.
    Long,
}

/// A way to take a partition from its owner.
enum Taking {
    Ask(Ownership),
    Steal(Claim),
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
            asked: BTreeMap::new(),
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
        plan.owners = survey.others.len() + 1;
        let most = self.partitions.len().div_ceil(plan.owners);
        let mut mine = plan.renewals.len() - plan.asked_back.len() + survey.own.len() + plan.awaited;
        plan.claims.append(&mut survey.own);
        let has_share = mine >= most;
        // What others have just left is taken at once. Beyond that, the slow mode takes one at a time.
        let (mut recent, mut older): (Vec<_>, Vec<_>) =
            survey.free.into_iter().partition(|free| free.since == FreeSince::Recently);
        let mut steps = match self.mode {
            OwnershipMode::Balanced => 1,
            OwnershipMode::Greedy | OwnershipMode::Assigned => usize::MAX,
        };
        while mine < most {
            if let Some(free) = self.draw(&mut recent) {
                plan.claims.push(free.claim);
            } else if steps == 0 {
                break;
            } else if let Some(free) = self.draw(&mut older) {
                steps -= 1;
                plan.claims.push(free.claim);
            } else if let Some(taking) = self.take(&mut survey.others, mine) {
                steps -= 1;
                match taking {
                    Taking::Ask(request) => {
                        self.asked.insert(request.partition, now);
                        plan.requests.push(request);
                    }
                    Taking::Steal(claim) => plan.claims.push(claim),
                }
            } else {
                break;
            }
            mine += 1;
        }
        let allowed = match self.mode {
            OwnershipMode::Balanced => usize::from(has_share),
            OwnershipMode::Greedy | OwnershipMode::Assigned => usize::MAX,
        };
        let left_over = older.into_iter().filter(|free| free.since == FreeSince::Long);
        plan.claims.extend(left_over.map(|free| free.claim).take(allowed));
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
                    plan.asked_back.extend(is_asked_back.then_some((partition, None)));
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
        &mut self,
        now: SystemTime,
        held: &BTreeMap<PartitionId, ETag>,
        listed: &'a [Ownership],
        plan: &mut Plan,
    ) -> Survey<'a> {
        let mut listed: BTreeMap<_, _> =
            listed.iter().map(|ownership| (ownership.partition, ownership)).collect();
        let mut survey = Survey::default();
        let asked = std::mem::take(&mut self.asked);
        for &partition in &self.partitions {
            let found = listed.remove(&partition);
            let etag = found.and_then(|found| found.etag.as_ref());
            let holds = held.get(&partition);
            // In our name under another ETag it is a renewal of ours whose answer was lost, or somebody asks for it: claims are
            // written one upon the other, so nobody else can have been between.
            let is_ours = |found: &Ownership| found.owner_id == self.identity;
            if holds.is_some() && (holds == etag || found.is_some_and(is_ours)) {
                let mut renewal = self.claim(partition, etag);
                if let Some(asker) = found.and_then(|found| self.other_asker(found)) {
                    renewal.asked_by = Some(asker.to_owned());
                    plan.asked_back.insert(partition, renewal.asked_by.clone());
                    survey.others.entry(asker).or_default().share += 1;
                }
                plan.renewals.push(renewal);
                continue;
            }
            if holds.is_some() {
                plan.lost.push(partition);
            }
            let claim = |kind| Claim { ownership: self.claim(partition, etag), kind };
            let Some(found) = found else {
                survey.free.push(Free { claim: claim(ClaimKind::Free), since: FreeSince::Ever });
                continue;
            };
            let older_than = |age| is_older(found, now, age);
            let since = |end: Duration| match older_than(end) {
                true => FreeSince::Long,
                false => FreeSince::Recently,
            };
            let is_asked_for = found.asked_by.as_ref() == Some(&self.identity);
            if found.owner_id.is_empty() {
                match self.other_asker(found) {
                    Some(asker) if !older_than(self.patience) => {
                        survey.others.entry(asker).or_default().share += 1;
                    }
                    _ if is_asked_for => survey.own.push(claim(ClaimKind::Free)),
                    _ => {
                        survey.free.push(Free { claim: claim(ClaimKind::Free), since: since(self.patience) })
                    }
                }
            } else if found.owner_id == self.identity {
                survey.own.push(claim(ClaimKind::Own));
            } else if older_than(self.expire) {
                let since = since(self.expire + self.patience);
                survey.free.push(Free { claim: claim(ClaimKind::Expired), since });
            } else if is_asked_for {
                let asked_at = asked.get(&partition).copied().unwrap_or(now);
                let is_overdue = now.duration_since(asked_at).is_ok_and(|waited| waited > self.expire);
                match is_overdue || !found.yields {
                    true => survey.own.push(claim(ClaimKind::Stolen(found.owner_id.clone()))),
                    false => {
                        plan.awaited += 1;
                        self.asked.insert(partition, asked_at);
                    }
                }
                survey.others.entry(found.owner_id.as_str()).or_default();
            } else {
                let owner = survey.others.entry(found.owner_id.as_str()).or_default();
                match self.other_asker(found) {
                    None => {
                        owner.share += 1;
                        owner.claims.push(found);
                    }
                    Some(asker) => survey.others.entry(asker).or_default().share += 1,
                }
            }
        }
        let strangers = listed.into_values();
        plan.returns = strangers
            .filter(|found| found.owner_id == self.identity)
            .filter_map(|found| Some(self.give_back(found.partition, found.etag.as_ref()?, None)))
            .collect();
        survey
    }

    /// Returns who has asked for a partition, unless it is this relay.
    fn other_asker<'a>(&self, found: &'a Ownership) -> Option<&'a str> {
        found.asked_by.as_deref().filter(|asker| *asker != self.identity)
    }

    /// Takes any one.
    fn draw(&mut self, free: &mut Vec<Free>) -> Option<Free> {
        let index = self.random.below(free.len() as u64);
        // An index below a length.
        (!free.is_empty()).then(|| free.swap_remove(index as usize))
    }

    /// Takes any one from any of those who have most, if that makes shares more equal.
    fn take(&mut self, others: &mut BTreeMap<&str, Other<'_>>, mine: usize) -> Option<Taking> {
        let takeable = |other: &Other<'_>| !other.claims.is_empty();
        let most = others.values().filter(|other| takeable(other)).map(|other| other.share).max()?;
        if most < mine + 2 {
            return None;
        }
        let richest = others.iter().filter(|(_, other)| other.share == most && takeable(other));
        let victim = self.random.below(richest.clone().count() as u64);
        let victim = *richest.map(|(owner, _)| owner).nth(victim as usize)?;
        let other = others.get_mut(victim)?;
        let index = self.random.below(other.claims.len() as u64);
        let taken = other.claims.swap_remove(index as usize);
        other.share -= 1;
        Some(match taken.yields {
            true => Taking::Ask(Ownership {
                asked_by: Some(self.identity.clone()),
                last_modified: None,
                ..taken.clone()
            }),
            false => Taking::Steal(Claim {
                ownership: self.claim(taken.partition, taken.etag.as_ref()),
                kind: ClaimKind::Stolen(victim.to_owned()),
            }),
        })
    }

    /// Returns the claim that gives a partition back: to the one who has asked for it, if anyone has.
    #[must_use]
    pub fn give_back(&self, partition: PartitionId, etag: &ETag, asked_by: Option<String>) -> Ownership {
        let claim = self.claim(partition, Some(etag));
        Ownership { owner_id: String::new(), yields: false, asked_by, ..claim }
    }

    /// The claim of a partition whose newest writing has this ETag, or that nobody has claimed before.
    #[must_use]
    pub fn claim(&self, partition: PartitionId, etag: Option<&ETag>) -> Ownership {
        Ownership {
            etag: etag.cloned(),
            yields: true,
            ..Ownership::new(self.group.clone(), partition, self.identity.clone())
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
