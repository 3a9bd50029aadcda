//! The rules of one subscription, and what a journal keeps of them.
//!
//! The configuration says which rules a subscription begins with. From the first change by a client on, the journal keeps
//! all of them, beside a digest of those of the configuration. They count after a start for as long as the configuration
//! says the same: who changes it there means it.

use super::changes::{Change, Changes};
use super::rules::{Rule, RuleError, RuleSet};
use units::md5::{Md5, md5};

/// See the module.
#[derive(Debug)]
pub(super) struct SubscriptionRules {
    set: RuleSet,
    /// What stands for the rules of the configuration.
    configured: RulesDigest,
    /// Clients have changed them.
    is_changed: bool,
    /// The journal has rules that count no longer.
    has_stale: bool,
    /// There is no subscription here (any longer).
    is_vacant: bool,
}

/// What a journal tells of the rules of a subscription.
#[derive(Debug)]
pub(super) struct KeptRules {
    /// What the configuration said then.
    pub(super) configured: RulesDigest,
    pub(super) set: RuleSet,
}

/// What stands for the rules of a configuration.
pub(super) type RulesDigest = Md5;

impl SubscriptionRules {
    /// Those of the configuration.
    pub(super) fn configured(set: RuleSet) -> Self {
        let rules: Vec<Box<[u8]>> = set.rules().iter().map(|rule| encoded(rule)).collect();
        Self {
            configured: md5(&rules.join(SEPARATOR)),
            set,
            is_changed: false,
            has_stale: false,
            is_vacant: false,
        }
    }

    /// Those of no subscription: nothing matches.
    pub(super) fn vacant() -> Self {
        Self { is_vacant: true, ..Self::configured(RuleSet::empty()) }
    }

    /// Whether there is no subscription here.
    pub(super) const fn is_vacant(&self) -> bool {
        self.is_vacant
    }

    pub(super) fn set(&self) -> &RuleSet {
        &self.set
    }

    /// Takes over what was kept, if it is still about the same configuration.
    pub(super) fn restore(&mut self, kept: KeptRules) {
        self.is_changed = kept.configured == self.configured;
        self.has_stale = !self.is_changed;
        if self.is_changed {
            self.set = kept.set;
        }
    }

    /// Adds a rule to those of the queue at this place.
    pub(super) fn add(&mut self, queue: u32, rule: Rule, changes: &mut Changes) -> Result<(), RuleError> {
        let change = Change::RulePut { queue, rule: encoded(&rule) };
        self.set.add(rule)?;
        self.note(queue, change, changes);
        Ok(())
    }

    /// Puts a rule in the place of the one that has its name.
    pub(super) fn replace(
        &mut self,
        queue: u32,
        mut rule: Rule,
        changes: &mut Changes,
    ) -> Result<(), RuleError> {
        let mut set = self.set.clone();
        rule.created_at_unix_ms = set.remove(&rule.name)?.created_at_unix_ms;
        let change = Change::RulePut { queue, rule: encoded(&rule) };
        set.add(rule)?;
        self.set = set;
        self.note(queue, change, changes);
        Ok(())
    }

    /// Removes a rule from those of the queue at this place.
    pub(super) fn remove(
        &mut self,
        queue: u32,
        name: &str,
        changes: &mut Changes,
    ) -> Result<Rule, RuleError> {
        let rule = self.set.remove(name)?;
        let name = rule.name.clone();
        self.note(queue, Change::RuleRemoved { queue, name }, changes);
        Ok(rule)
    }

    /// Everything that a journal has to tell of them.
    pub(super) fn account(&self, queue: u32, changes: &mut Vec<Change>) {
        if !self.is_changed {
            if self.has_stale {
                let configured = None;
                changes.push(Change::RulesKept { queue, configured });
            }
            return;
        }
        changes.push(Change::RulesKept { queue, configured: Some(self.configured) });
        changes.extend(self.set.rules().iter().map(|rule| Change::RulePut { queue, rule: encoded(rule) }));
    }

    /// Notes a change; the first one with all that there is by now.
    fn note(&mut self, queue: u32, change: Change, changes: &mut Changes) {
        if !changes.are_kept {
            return;
        }
        if self.is_changed {
            changes.list.push(change);
        } else {
            self.is_changed = true;
            self.account(queue, &mut changes.list);
        }
    }
}

/// A rule as the journal keeps it: as JSON, which has the same words as the configuration.
fn encoded(rule: &Rule) -> Box<[u8]> {
    serde_json::to_vec(rule).expect("a rule has texts for keys").into()
}

/// The rule that the journal kept so.
pub(super) fn decoded(bytes: &[u8]) -> Option<Rule> {
    serde_json::from_slice(bytes).ok()
}

/// Is in no JSON of ours.
const SEPARATOR: &[u8] = &[0];
