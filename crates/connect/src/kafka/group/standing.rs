//! How a member stands, for those who need to know: what it has, and as whom it commits.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::member::Failure;

/// See the module.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Standing {
    pub(crate) member_id: String,
    /// -1 while it is in none.
    pub(crate) generation: i32,
    /// How many it has been in.
    pub(crate) generations: u64,
    /// Whether the generation has been divided, so that the coordinator takes commits.
    pub(crate) is_settled: bool,
    /// Whether the coordinator has ever let it in, or was about to.
    pub(crate) is_known: bool,
    /// What it has, by topic.
    pub(super) held: BTreeMap<Arc<str>, BTreeMap<i32, Held>>,
    /// What keeps it at present from becoming a member again.
    pub(crate) trouble: Option<String>,
    /// Why it can't be a member, now and later.
    pub(super) failure: Option<Failure>,
}

/// One partition that a member has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Held {
    /// Which having of it this is: each time that it is given, another.
    pub(crate) having: u64,
    /// Whether it is to be given up, as soon as what is under way of it is finished.
    pub(crate) is_asked_back: bool,
}

impl Standing {
    /// Whether others should look at what is had: it is more, less, or had in another way, or can't be.
    pub(super) fn is_otherwise_held(&self, other: &Self) -> bool {
        let is_other_trouble = self.trouble.is_some() != other.trouble.is_some();
        self.held != other.held || is_other_trouble || self.failure != other.failure
    }

    /// Why it can't be a member, now and later.
    pub(crate) const fn failure(&self) -> Option<&Failure> {
        self.failure.as_ref()
    }

    /// How a partition is had, if it is.
    pub(crate) fn held(&self, topic: &str, index: i32) -> Option<Held> {
        self.held.get(topic)?.get(&index).copied()
    }

    /// Everything that is had of a topic.
    pub(crate) fn held_of(&self, topic: &str) -> impl Iterator<Item = (i32, Held)> {
        self.held.get(topic).into_iter().flatten().map(|(index, held)| (*index, *held))
    }
}
