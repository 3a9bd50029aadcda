//! Partitions that are shared with other relays: won, lost, renewed and given back.
//!
//! ```text
//!   Idle ──the cycle is due──► Listing ──plan──► Claiming ──► Idle     open what was won, close what was lost
//!   Idle ──a graceful stop, or it is asked back──► Returning ──► Idle  what has been finished is given back
//! ```
//!
//! A cycle is due at an interval, and at once if the store says that others have changed who owns what.
//!
//! A partition is lost when a renewal is refused, when the list of claims shows another owner, when the service lets
//! another receiver take the link, when a checkpoint is refused, or when our own clock says that the claim has expired.
//! Whatever comes first: its intake ends at once, what is under way is abandoned, and nothing of it is written any more.

use std::collections::BTreeMap;
use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use connect::checkpoint::{Claimed, Ownership, StoreError, StoreFuture};
use connect::event::PartitionId;
use tokio::sync::watch;
use units::{Random, mix};

use super::partition::State;
use super::{Relay, RelayError};
use crate::health::Place;
use crate::metrics::{Closing, Loss, Opening, record_duration};
use crate::options::RelayOptions;
use crate::ownership::lease::{Lease, LeaseInstant};
use crate::ownership::{Balancer, Claim, OwnershipOptions, Plan};

/// What a relay knows of the partitions that it shares.
pub(super) struct Sharing {
    options: OwnershipOptions,
    balancer: Balancer,
    pub(super) held: BTreeMap<PartitionId, Lease>,
    /// Held partitions that are asked back, with the identity of the relay that asks.
    pub(super) releasing: BTreeMap<PartitionId, Option<String>>,
    work: Work,
    /// Ready when the store says that others have changed who owns what; none if it never does.
    changes: Option<Changes>,
    /// When the next cycle begins, unless one is under way.
    next_cycle: Instant,
    /// When the one under way began, or the last one.
    cycle_began: Instant,
    /// Whether something has changed that the next cycle is to settle.
    unsettled: bool,
    /// Whether others have changed something since the cycle began.
    is_urgent: bool,
    /// When the first of the leases ends if none is renewed.
    leases_end: Option<Instant>,
    /// When half of its time is over, unless that was reported.
    at_risk: Option<Instant>,
    /// Spreads the cycles of relays that were started together.
    random: Random,
    /// Whether the store has ever answered.
    answered: bool,
}

/// The next change, with what tells of the one after that, unless there is none.
type Changes = Pin<Box<dyn Future<Output = Option<watch::Receiver<u64>>> + Send>>;

/// What is under way with the store.
enum Work {
    Idle,
    Listing(StoreFuture<Vec<Ownership>>),
    Claiming(Box<Claiming>),
    Returning(StoreFuture<Claimed>),
}

/// Claims on their way.
struct Claiming {
    claimed: StoreFuture<Claimed>,
    /// When the store was asked.
    began: LeaseInstant,
    renewed: Vec<PartitionId>,
    claims: Vec<Claim>,
    requests: Vec<PartitionId>,
}

impl Sharing {
    pub(super) fn new(
        options: &OwnershipOptions,
        relay: &RelayOptions,
        partitions: &[PartitionId],
        changes: Option<watch::Receiver<u64>>,
        now: Instant,
    ) -> Self {
        let balancer = Balancer::new(relay.group.clone(), partitions.iter().copied(), options, relay.seed);
        let name = options.identity.bytes().fold(relay.seed, |hash, byte| mix(hash, u64::from(byte), 0));
        Self {
            options: options.clone(),
            balancer,
            held: BTreeMap::new(),
            releasing: BTreeMap::new(),
            work: Work::Idle,
            changes: changes.map(next_change),
            next_cycle: now,
            cycle_began: now,
            unsettled: false,
            is_urgent: false,
            leases_end: None,
            at_risk: None,
            random: Random::for_concern(name, CYCLES),
            answered: false,
        }
    }

    /// How many partitions are owned.
    pub(super) fn owned(&self) -> usize {
        self.held.len()
    }

    /// Whether it is known what other relays own.
    pub(super) const fn has_begun(&self) -> bool {
        self.answered
    }

    /// Whether nothing is owned, or about to be.
    pub(super) fn is_over(&self) -> bool {
        self.held.is_empty() && matches!(self.work, Work::Idle)
    }

    /// When something is due by the clock.
    pub(super) fn next_deadline(&self, stopping: bool) -> Option<Instant> {
        let waits = matches!(self.work, Work::Idle) && !(stopping && self.held.is_empty());
        let cycle = waits.then_some(self.next_cycle);
        cycle.into_iter().chain(self.leases_end).chain(self.at_risk).min()
    }

    /// Whether checkpoints of a partition may be written.
    pub(super) fn may_write(&self, partition: PartitionId) -> bool {
        self.held.get(&partition).is_some_and(|lease| lease.is_valid(self.options.expire))
    }

    /// The claim that gives a partition back that is held.
    pub(super) fn give_back(&self, partition: PartitionId) -> Option<Ownership> {
        let lease = self.held.get(&partition)?;
        let asked_by = self.releasing.get(&partition).cloned().flatten();
        Some(self.balancer.give_back(partition, &lease.etag, asked_by))
    }

    /// A renewal of everything that is held.
    fn renewals(&self) -> Vec<Ownership> {
        self.held
            .iter()
            .map(|(&partition, lease)| self.balancer.claim(partition, Some(&lease.etag)))
            .collect()
    }

    fn hold(&mut self, ownership: Ownership, renewed_at: LeaseInstant) {
        // A store gives every writing its ETag.
        if let Some(etag) = ownership.etag {
            let lease = Lease { etag, renewed_at, is_unsure: false };
            self.held.insert(ownership.partition, lease);
        }
    }

    /// A cycle is due if others have changed who owns what.
    fn poll_changes(&mut self, context: &mut Context<'_>, now: Instant) {
        while let Some(changes) = &mut self.changes
            && let Poll::Ready(next) = changes.as_mut().poll(context)
        {
            self.changes = next.map(next_change);
            self.unsettled = true;
            self.is_urgent = true;
            self.next_cycle = now;
        }
    }

    /// Returns the time that the store may take for claims, retries included: its share of a cycle.
    fn claim_time(&self) -> Duration {
        let OwnershipOptions { renew, expire, .. } = self.options;
        (renew / 2).max(CLAIM_TIME_MIN.min(expire / 4))
    }

    /// Whether a claim has not been renewed for half of its time.
    fn is_at_risk(&self) -> bool {
        self.held.values().any(|lease| !lease.is_valid(self.options.expire / 2))
    }

    pub(super) fn look_at_leases(&mut self) {
        let first = self.held.values().map(|lease| lease.renewed_at.monotonic()).min();
        self.leases_end = first.map(|first| (first + self.options.expire).into_std());
        self.at_risk = first.map(|first| (first + self.options.expire / 2).into_std());
    }

    /// A cycle has ended; the next comes soon if there is more to be settled.
    fn rest(&mut self, now: Instant) {
        let interval = match self.unsettled {
            // It came while the cycle was under way, and may have been too late for it.
            _ if self.is_urgent => Duration::ZERO,
            true => self.options.renew / SOON,
            false => self.options.renew,
        };
        self.unsettled = false;
        // Never later than the interval: renewals are counted on.
        self.next_cycle = now + interval.mul_f64(0.9 + 0.1 * self.random.unit());
    }

    /// The next cycle comes soon, but not so soon that two who disagree keep each other busy.
    fn hurry(&mut self, now: Instant) {
        self.unsettled = true;
        self.next_cycle = self.next_cycle.min(now + self.options.renew / SOON);
    }
}

impl Relay {
    /// Reports claims that have not been renewed for half of their time, and loses every partition whose claim has expired by our own
    /// clock. A store that does not answer at all shows in nothing else.
    pub(super) fn expire_leases(&mut self) {
        let now = self.now;
        let Some(sharing) = &mut self.sharing else {
            return;
        };
        if sharing.at_risk.is_some_and(|at_risk| at_risk <= now) {
            sharing.at_risk = None;
            if !self.troubles.is_out(Place::Ownership) {
                self.troubles.outage(Place::Ownership, Some(&UNRENEWED), now);
            }
        }
        if sharing.leases_end.is_none_or(|end| now < end) {
            return;
        }
        let expire = sharing.options.expire;
        let expired: Vec<_> = sharing
            .held
            .iter()
            .filter(|(_, lease)| !lease.is_valid(expire))
            .map(|(&partition, _)| partition)
            .collect();
        for partition in expired {
            self.lose(partition, Loss::Expired, &"its claim was not renewed in time");
        }
    }

    /// Begins and ends cycles, and gives back what a graceful stop has finished.
    pub(super) fn poll_sharing(&mut self, context: &mut Context<'_>) -> bool {
        let mut progress = false;
        loop {
            let now = self.now;
            let Some(sharing) = &mut self.sharing else {
                return progress;
            };
            sharing.poll_changes(context, now);
            let pending = match std::mem::replace(&mut sharing.work, Work::Idle) {
                Work::Idle => {
                    if !self.begin_work() {
                        return progress;
                    }
                    None
                }
                Work::Listing(mut listing) => match listing.as_mut().poll(context) {
                    Poll::Ready(listed) => {
                        self.end_listing(listed);
                        None
                    }
                    Poll::Pending => Some(Work::Listing(listing)),
                },
                Work::Claiming(mut claiming) => match claiming.claimed.as_mut().poll(context) {
                    Poll::Ready(won) => {
                        self.end_claiming(*claiming, won);
                        None
                    }
                    Poll::Pending => Some(Work::Claiming(claiming)),
                },
                Work::Returning(mut returning) => match returning.as_mut().poll(context) {
                    Poll::Ready(returned) => {
                        self.end_returning(returned);
                        None
                    }
                    Poll::Pending => Some(Work::Returning(returning)),
                },
            };
            if let Some(pending) = pending {
                if let Some(sharing) = &mut self.sharing {
                    sharing.work = pending;
                }
                return progress;
            }
            progress = true;
        }
    }

    /// Begins whatever is to be done next; nothing if it is not time for anything.
    fn begin_work(&mut self) -> bool {
        let stopping = self.stop_by.is_some();
        let finished = self.finished(stopping);
        let returns = self.forget_finished(&finished, stopping);
        let Some(sharing) = &mut self.sharing else {
            return false;
        };
        if !returns.is_empty() {
            let within = sharing.claim_time();
            sharing.work = Work::Returning(self.store.claim_ownership(returns, within));
            return true;
        }
        if self.now < sharing.next_cycle {
            return false;
        }
        sharing.cycle_began = self.now;
        sharing.is_urgent = false;
        if !stopping {
            sharing.work = Work::Listing(self.store.list_ownership(&self.options.group));
        } else if sharing.held.is_empty() {
            return false;
        } else {
            // What is not finished yet is kept.
            let renewals = sharing.renewals();
            self.begin_claiming(Plan { renewals, ..Plan::default() });
        }
        true
    }

    fn end_listing(&mut self, listed: Result<Vec<Ownership>, StoreError>) {
        let now = self.now;
        let store_now = self.store.now();
        let Some(sharing) = &mut self.sharing else {
            return;
        };
        let listed = match listed {
            Ok(listed) => listed,
            // It will not be let in later either.
            Err(error @ StoreError::Membership { .. }) => {
                sharing.rest(now);
                self.fail(RelayError::Sharing(error));
                return;
            }
            // Before anything was carried, nothing is lost by giving up.
            Err(error) if !sharing.answered => {
                self.fail(error.into());
                return;
            }
            Err(error) if sharing.held.is_empty() => {
                self.troubles.outage(Place::Ownership, Some(&error), now);
                sharing.rest(now);
                return;
            }
            // Each claim stands for itself: what is held is renewed although it is not known what others own.
            Err(error) => {
                self.troubles.occurs(Place::Ownership, &error, now);
                let renewals = sharing.renewals();
                self.begin_claiming(Plan { renewals, ..Plan::default() });
                return;
            }
        };
        sharing.answered = true;
        if self.stop_by.is_some() {
            // What this was for is over.
            return;
        }
        let held = sharing.held.iter().map(|(&partition, lease)| (partition, lease.etag.clone())).collect();
        let plan = sharing.balancer.plan(store_now, &held, &listed);
        // What was asked for is given back at any moment.
        sharing.unsettled |= plan.awaited > 0 || !plan.requests.is_empty();
        for &partition in &plan.lost {
            self.lose(partition, Loss::Taken, &"another relay has claimed it");
        }
        for (&partition, asked_by) in &plan.asked_back {
            self.begin_release(partition, asked_by.clone());
        }
        self.begin_claiming(plan);
    }

    fn begin_claiming(&mut self, plan: Plan) {
        let Some(sharing) = &mut self.sharing else {
            return;
        };
        let Plan { mut renewals, claims, returns, requests, .. } = plan;
        // Where time is short, those that would expire first come first.
        renewals.sort_by_key(|renewal| {
            sharing.held.get(&renewal.partition).map(|lease| lease.renewed_at.monotonic())
        });
        // Before the store is asked: nobody sees the claims expire earlier than we do.
        let began = LeaseInstant::now();
        let renewed = renewals.iter().map(|renewal| renewal.partition).collect();
        let mut all = renewals;
        all.extend(claims.iter().map(|claim| claim.ownership.clone()));
        all.extend(returns);
        all.extend_from_slice(&requests);
        sharing.work = Work::Claiming(Box::new(Claiming {
            claimed: self.store.claim_ownership(all, sharing.claim_time()),
            began,
            renewed,
            claims,
            requests: requests.into_iter().map(|request| request.partition).collect(),
        }));
    }

    fn end_claiming(&mut self, claiming: Claiming, claimed: Result<Claimed, StoreError>) {
        let now = self.now;
        let Claiming { began, renewed, claims, requests, .. } = claiming;
        let stopping = self.stop_by.is_some();
        let Some(sharing) = &mut self.sharing else {
            return;
        };
        let Claimed { written, failed } = match claimed {
            Ok(claimed) => claimed,
            Err(error) => {
                self.metrics.failed_renewals += renewed.len() as u64;
                self.troubles.outage(Place::Ownership, Some(&error), now);
                sharing.rest(now);
                return;
            }
        };
        self.metrics.ownership_cycles += 1;
        record_duration(
            &mut self.metrics.ownership_cycle_us,
            now.saturating_duration_since(sharing.cycle_began),
        );
        let is_answered = !written.is_empty();
        let mut won: BTreeMap<_, _> = written.into_iter().map(|own| (own.partition, own)).collect();
        let failures: BTreeMap<_, _> =
            failed.into_iter().map(|failed| (failed.partition, failed.error)).collect();
        let mut refused = Vec::new();
        for partition in renewed {
            match (won.remove(&partition), sharing.held.get_mut(&partition)) {
                (Some(ownership), Some(_)) => sharing.hold(ownership, began),
                // Lost on another way in the meantime; the next cycle finds it in our name.
                (Some(_) | None, None) => {}
                (None, Some(lease)) => {
                    self.metrics.failed_renewals += 1;
                    let is_refused = !failures.contains_key(&partition);
                    // A listing tells whether it was another owner, somebody who asks for the partition, or this relay itself.
                    sharing.is_urgent |= is_refused && !lease.is_unsure;
                    sharing.unsettled |= is_refused;
                    refused.extend((is_refused && stopping).then_some(partition));
                    lease.is_unsure = true;
                }
            }
        }
        let asked = requests.iter().filter(|partition| won.remove(partition).is_some()).count();
        self.metrics.asked_partitions += asked as u64;
        match failures.values().next() {
            Some(error) if !is_answered || sharing.is_at_risk() => {
                self.troubles.outage(Place::Ownership, Some(error), now);
            }
            Some(error) => {
                self.troubles.occurs(Place::Ownership, error, now);
                self.troubles.outage(Place::Ownership, None, now);
            }
            None => self.troubles.outage(Place::Ownership, None, now),
        }
        let mut opened = Vec::new();
        let mut missed = false;
        for Claim { ownership, kind } in claims {
            let Some(ownership) = won.remove(&ownership.partition) else {
                missed = true;
                continue;
            };
            self.metrics.count_claim(&kind);
            tracing::info!(partition = ownership.partition.0, %kind, "a partition is claimed");
            opened.push(ownership.partition);
            sharing.hold(ownership, began);
        }
        sharing.look_at_leases();
        sharing.unsettled |= missed;
        sharing.rest(now);
        for partition in refused {
            self.lose(partition, Loss::Taken, &"the renewal of its claim was refused");
        }
        if self.stop_by.is_none() {
            for partition in opened {
                let index = self.indices[&partition];
                self.partitions[index].opening = Opening::Claim;
                self.place(index);
            }
        }
    }

    fn end_returning(&mut self, returned: Result<Claimed, StoreError>) {
        let failed = match returned {
            Ok(Claimed { written, failed }) => {
                self.metrics.returned_partitions += written.len() as u64;
                failed.into_iter().next().map(|failed| failed.error)
            }
            Err(error) => Some(error),
        };
        if let Some(error) = failed {
            tracing::warn!(%error, "partitions can't be released; their claims will expire");
        }
    }

    /// A partition is no longer ours: what is held of it is given up, and nothing of it is written any more.
    pub(super) fn lose(&mut self, partition: PartitionId, loss: Loss, cause: &dyn fmt::Display) {
        let now = self.now;
        let Some(sharing) = &mut self.sharing else {
            return;
        };
        if sharing.held.remove(&partition).is_none() {
            return;
        }
        sharing.releasing.remove(&partition);
        sharing.look_at_leases();
        sharing.hurry(now);
        self.metrics.count_loss(loss);
        self.troubles.forget(partition, now);
        match loss {
            // That is how relays come to equal shares.
            Loss::Taken => {
                tracing::info!(partition = partition.0, %cause, "another relay owns the partition now");
            }
            // Over when the store takes claims again: until then it is not known whether there is anything to be owned.
            Loss::Expired => self.troubles.outage(Place::Ownership, Some(&EXPIRED), now),
        }
        let index = self.indices[&partition];
        if self.partitions[index].state.takes_batches() {
            self.metrics.count_closing(Closing::Loss);
        }
        self.source.close(partition);
        self.abandon(index);
        self.forget_unstored(index);
        let stopping = self.stop_by.is_some();
        let state = if stopping { State::Closed } else { State::Unowned };
        self.partitions[index].forget(state);
    }
}

impl fmt::Debug for Sharing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sharing")
            .field("options", &self.options)
            .field("held", &self.held)
            .finish_non_exhaustive()
    }
}

fn next_change(mut changes: watch::Receiver<u64>) -> Changes {
    Box::pin(async move { changes.changed().await.is_ok().then_some(changes) })
}

/// Why a relay that owns partitions may lose them.
const UNRENEWED: &str = "a claim has not been renewed for half of its time";

/// Why a partition is lost that nobody has taken.
const EXPIRED: &str = "a claim was not renewed in time";

/// Claims are given this time for retries although a cycle is shorter, as long as none expires.
const CLAIM_TIME_MIN: Duration = Duration::from_secs(1);

/// What is to be settled soon is settled in this part of an interval.
const SOON: u32 = 4;

/// The concern of the random numbers that spread the cycles.
const CYCLES: u64 = 3;
