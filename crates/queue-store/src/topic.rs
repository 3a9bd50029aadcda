//! A topic as its users have it: send, and the subscriptions.

use super::changes::Changes;
use super::entity::Entity;
use super::error::QueueError;
use super::message::{Deliveries, NewMessage};
use super::options::TopicOptions;
use super::queue::{Enqueued, Queue, Scheduled};
use super::rules::{Rule, RuleCounts, RuleError, RuleSet};
use super::subscription_rules::SubscriptionRules;
use super::waiter::Waiter;
use partition_log::Subscriber;
use partition_log::UnixTime;
use partition_log::disk::CommitNumber;
use std::sync::{Arc, PoisonError, RwLock};

/// A topic: what is sent to it is copied to each subscription whose rules say so.
///
/// All subscriptions get a batch, or none does. A scheduled message waits in the topic, and is copied at its time.
#[derive(Debug)]
pub struct Topic {
    pub(super) entity: Arc<Entity>,
    pub(super) name: Arc<str>,
    pub(super) subscriptions: RwLock<Arc<Vec<Arc<Subscription>>>>,
    /// What the topic itself has: scheduled messages.
    pub(super) queue: Arc<Queue>,
}

/// A subscription of a topic: rules, and a queue of what they let through.
#[derive(Debug)]
pub struct Subscription {
    pub(super) name: String,
    pub(super) queue: Arc<Queue>,
    /// The place of its rules within the entity.
    pub(super) place: usize,
}

/// Why the rules of a subscription were not changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RuleChangeError {
    /// They can't be changed so.
    #[error(transparent)]
    Rule(#[from] RuleError),
    /// Nothing of the topic can be changed at present.
    #[error(transparent)]
    Queue(#[from] QueueError),
}

impl Topic {
    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its options.
    #[must_use]
    pub fn options(&self) -> TopicOptions {
        let own = self.queue.options();
        TopicOptions {
            default_time_to_live: own.default_time_to_live,
            duplicate_detection: own.duplicate_detection,
            size_limit: own.size_limit,
            status: own.status,
        }
    }

    /// Whether it was deleted.
    #[must_use]
    pub fn is_deleted(&self) -> bool {
        self.queue.is_deleted()
    }

    /// As [`Queue::used_at`], of what is sent to it.
    #[must_use]
    pub fn used_at(&self, now: UnixTime) -> Option<UnixTime> {
        self.queue.used_at(now)
    }

    /// Registers a sender, which gets `key` reported when the topic is deleted.
    #[must_use]
    pub fn waiter(&self, subscriber: &Arc<Subscriber>, key: u64) -> Waiter {
        self.queue.waiter(subscriber, key)
    }

    /// The subscription of this name, whatever the letter case.
    #[must_use]
    pub fn subscription(&self, name: &str) -> Option<Arc<Subscription>> {
        let subscriptions = self.subscriptions();
        let mut subscriptions = subscriptions.iter();
        subscriptions.find(|subscription| subscription.name.eq_ignore_ascii_case(name)).cloned()
    }

    /// All subscriptions as they are now, in the order of their creation.
    #[must_use]
    pub fn subscriptions(&self) -> Arc<Vec<Arc<Subscription>>> {
        Arc::clone(&self.subscriptions.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// As [`Queue::enqueue`]; the count is that of the messages sent, however many subscriptions take them.
    ///
    /// # Errors
    /// As [`Queue::enqueue`].
    pub fn enqueue(&self, now: UnixTime, messages: &[NewMessage<'_>]) -> Result<Enqueued, QueueError> {
        self.queue.enqueue(now, messages)
    }

    /// As [`Queue::schedule`].
    ///
    /// # Errors
    /// As [`Queue::schedule`].
    pub fn schedule(&self, now: UnixTime, messages: &[NewMessage<'_>]) -> Result<Scheduled, QueueError> {
        self.queue.schedule(now, messages)
    }

    /// As [`Queue::cancel_scheduled`].
    ///
    /// # Errors
    /// As [`Queue::cancel_scheduled`].
    pub fn cancel_scheduled(
        &self,
        now: UnixTime,
        sequence_numbers: &[u64],
    ) -> Result<CommitNumber, QueueError> {
        self.queue.cancel_scheduled(now, sequence_numbers)
    }

    /// As [`Queue::peek`], of the scheduled messages of the topic itself.
    pub fn peek(
        &self,
        now: UnixTime,
        from: u64,
        messages: usize,
        bytes: usize,
        session_id: Option<&str>,
        deliveries: &mut Deliveries,
    ) {
        self.queue.peek(now, from, messages, bytes, session_id, deliveries);
    }

    /// How many scheduled messages wait in the topic itself.
    #[must_use]
    pub fn scheduled(&self) -> u64 {
        self.queue.counts().scheduled
    }

    /// How many scheduled messages became due since the service started.
    #[must_use]
    pub fn scheduled_due(&self) -> u64 {
        self.queue.lifecycle_counters().scheduled_due
    }

    /// What all messages of the topic and its subscriptions count towards its size limit.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.entity.lock().bytes()
    }
}

impl Subscription {
    /// Its own name, without that of the topic.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What it holds.
    #[must_use]
    pub fn queue(&self) -> &Arc<Queue> {
        &self.queue
    }

    /// Its rules as they are now, in the order in which they were added.
    #[must_use]
    pub fn rules(&self) -> Arc<Vec<Arc<Rule>>> {
        self.look_at_rules(|set| Arc::clone(set.rules()))
    }

    /// Returns its rules in the order of their names, in which the service lists them; letter case makes no difference.
    #[must_use]
    pub fn rules_by_name(&self) -> Vec<Arc<Rule>> {
        let mut rules = self.rules().to_vec();
        rules.sort_by_cached_key(|rule| rule.name.to_ascii_lowercase());
        rules
    }

    /// The rule of this name, whatever the letter case.
    #[must_use]
    pub fn rule(&self, name: &str) -> Option<Arc<Rule>> {
        let rules = self.rules();
        rules.iter().find(|rule| rule.has_name(name)).cloned()
    }

    /// The numbers of its rules.
    #[must_use]
    pub fn rule_counts(&self) -> RuleCounts {
        self.look_at_rules(RuleSet::counts)
    }

    /// Adds a rule, for the messages that are sent from now on. It outlives the process, where messages do, for as long as
    /// the configuration gives the subscription the same rules as now.
    ///
    /// # Errors
    /// Its name is taken or none, or there are too many; or the disk does not take it.
    pub fn add_rule(&self, now: UnixTime, mut rule: Rule) -> Result<CommitNumber, RuleChangeError> {
        rule.created_at_unix_ms = Some(now.milliseconds());
        let ((), commit) = self.change_rules(now, |rules, queue, changes| rules.add(queue, rule, changes))?;
        Ok(commit)
    }

    /// Puts a rule in the place of the one that has its name, with the same durability.
    ///
    /// # Errors
    /// There is none of its name, or it can't be one; or the disk does not take it.
    pub fn replace_rule(&self, now: UnixTime, rule: Rule) -> Result<CommitNumber, RuleChangeError> {
        let ((), commit) =
            self.change_rules(now, |rules, queue, changes| rules.replace(queue, rule, changes))?;
        Ok(commit)
    }

    /// Removes the rule of this name, with the same durability.
    ///
    /// # Errors
    /// There is none, or the disk does not take it.
    pub fn remove_rule(&self, now: UnixTime, name: &str) -> Result<(Rule, CommitNumber), RuleChangeError> {
        self.change_rules(now, |rules, queue, changes| rules.remove(queue, name, changes))
    }

    /// Everyone else who uses the topic waits meanwhile: `look` takes the same time however many rules there are.
    fn look_at_rules<R: Default>(&self, look: impl FnOnce(&RuleSet) -> R) -> R {
        let state = self.queue.entity.lock();
        match self.queue.is_deleted() {
            true => R::default(),
            false => look(state.rules[self.place].set()),
        }
    }

    fn change_rules<R>(
        &self,
        now: UnixTime,
        change: impl FnOnce(&mut SubscriptionRules, u32, &mut Changes) -> Result<R, RuleError>,
    ) -> Result<(R, CommitNumber), RuleChangeError> {
        let (changed, commit) = self.queue.operate(now, |state, _now| {
            let rules = &mut state.rules[self.place];
            let changes = &mut state.effects.changes;
            Ok(change(rules, self.queue.place as u32, changes))
        })?;
        Ok((changed?, commit))
    }
}
