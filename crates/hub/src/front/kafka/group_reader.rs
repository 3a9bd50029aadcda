//! The rights of a client to groups, which are those to the topics that they read.

use std::sync::OnceLock;

use access::Right;

use kafka::messages::group::MemberRef;

use super::session::Session;
use crate::groups::{Groups, Reader};
use crate::namespace::{Namespace, Principal};

/// A client as groups see it.
#[derive(Debug)]
pub(super) struct GroupReader<'a> {
    namespace: &'a Namespace,
    session: &'a Session,
    /// Rights of which one is enough.
    rights: &'static [Right],
    /// Whether there is a topic that it may read; a request may ask for thousands of groups.
    reads_some: OnceLock<bool>,
}

impl<'a> GroupReader<'a> {
    /// A client that wants to use groups.
    pub(super) const fn new(namespace: &'a Namespace, session: &'a Session) -> Self {
        Self { namespace, session, rights: &[Right::Listen], reads_some: OnceLock::new() }
    }

    /// The same client when it wants to delete something of them.
    pub(super) fn deleting(self) -> Self {
        Self { rights: &[Right::Listen, Right::Manage], ..Self::new(self.namespace, self.session) }
    }

    /// Whether it may commit offsets of a group: as a member, or as a client that the group is for.
    pub(super) fn may_commit(&self, groups: &Groups, member: &MemberRef<'_>) -> bool {
        let is_member = member.generation >= 0 && !member.member_id.is_empty();
        is_member || groups.admits(member.group_id, self)
    }
}

impl Reader for GroupReader<'_> {
    fn principal(&self) -> &Principal {
        self.session.principal()
    }

    fn reads_all(&self) -> bool {
        self.reads(WHOLE_NAMESPACE)
    }

    fn reads_some(&self) -> bool {
        let reads_some =
            || self.reads_all() || self.namespace.hubs().iter().any(|hub| self.reads(hub.name()));
        *self.reads_some.get_or_init(reads_some)
    }

    fn reads(&self, topic: &str) -> bool {
        self.rights.iter().any(|right| self.session.allows(topic, *right))
    }
}

/// The address that a claim on the whole namespace is about, and no other.
pub(super) const WHOLE_NAMESPACE: &str = "";
