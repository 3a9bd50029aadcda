//! Access to groups: a group is for the clients that may read all that it reads.
//!
//! It reads the topics that it has offsets of, and those that its members have subscribed to. Members of another kind than consumers say
//! that in a form of their own, as those of Kafka Connect do: such a group is for its creator, and for clients that may read every topic.
//!
//! A member has proven its right when it joined. Its id is a secret of those who may see the group, so that its further requests need
//! no other proof.

use super::Groups;
use super::classic_group::ClassicGroup;
use super::group::{Agreement, CONSUMER, Group};
use crate::namespace::Principal;

/// A client, with the topics that it may read.
pub(crate) trait Reader {
    /// Returns its identity.
    fn principal(&self) -> &Principal;

    /// Whether it may read every topic, those to come as well.
    fn reads_all(&self) -> bool;

    /// Whether there is a topic that it may read.
    fn reads_some(&self) -> bool;

    /// Whether it may read this topic.
    fn reads(&self, topic: &str) -> bool;
}

impl Groups {
    /// Whether a group is for this client. One that is not there is for all who may read something.
    pub(crate) fn admits(&self, group_id: &str, reader: &impl Reader) -> bool {
        if reader.reads_all() {
            return true;
        }
        reader.reads_some() && self.lock().groups.get(group_id).is_none_or(|group| group.is_for(reader))
    }
}

impl Group {
    /// Whether it is for this client, which may read some topics and not all.
    pub(super) fn is_for(&self, reader: &impl Reader) -> bool {
        let is_creator = || self.creator.as_ref().is_none_or(|creator| creator == reader.principal());
        let reads_members_topics = match self.agreement() {
            Agreement::Consumer(group) => group.topic_names().all(|topic| reader.reads(topic)),
            Agreement::Classic(group) => subscriptions(group).all(|topics| match topics {
                Some(topics) => topics.into_iter().all(|topic| reader.reads(topic)),
                None => is_creator(),
            }),
        };
        reads_members_topics && self.offsets.topics().all(|topic| reader.reads(topic))
    }
}

/// The topics of each member; `None` if they can't be known.
fn subscriptions(group: &ClassicGroup) -> impl Iterator<Item = Option<Vec<&str>>> {
    let are_consumers = group.protocol_type() == CONSUMER;
    group.subscriptions().map(move |topics| topics.filter(|_| are_consumers))
}
